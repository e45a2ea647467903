# SPDX-License-Identifier: Apache-2.0
"""Reads: identities, paths, lists, watches."""
from procs import check
from objects import (
    C1, CSIDRIVERS, CSINODES, MERGE, N1, STORAGE, STRATEGIC, csinode, entry, group, no_label_selectors, no_pages,
    node)


@group
def identities(c):
    """Who may not, and how that is said."""
    c.prepare("POST", CSINODES, csinode(entry()))
    c.prepare("POST", CSINODES, csinode(name="n2"))
    for user in (None, "no-such-token"):
        c.ask("GET", C1, user=user)
        c.ask("GET", CSINODES, user=user)
        c.ask("PATCH", N1 + "/status", {}, STRATEGIC, user)
        c.ask("POST", CSINODES, csinode(), user=user, stored=C1)
    for method, body in (("GET", None), ("PUT", csinode(name="n2")), ("DELETE", None)):
        c.ask(method, CSINODES + "/n2", body, user="n1")
    c.ask("GET", CSINODES, user="n1")
    c.ask("GET", CSINODES + "?watch=1&timeoutSeconds=1", user="n1")
    c.ask("GET", CSINODES + "?fieldSelector=metadata.name%3Dn1", user="n1")
    c.ask("GET", C1 + "/status", user="n1")
    c.ask("PATCH", C1 + "/status", {"status": {}}, MERGE, "n1")
    c.ask("GET", CSIDRIVERS, user="n1")
    c.ask("GET", "/readyz", user=None)
    c.ask("GET", "/healthz", user=None)
    c.ask("GET", "/livez", user=None)
    c.prepare("DELETE", C1)
    c.prepare("DELETE", CSINODES + "/n2")


@group
def paths_and_headers(c):
    """Unknown paths, methods, what is acceptable."""
    c.ask("GET", STORAGE + "/foos")
    c.ask("GET", STORAGE + "/foos/x")
    c.ask("GET", "/apis/storage.k8s.io/v9/csinodes")
    c.ask("GET", "/apis/none.example.com/v1/x")
    c.ask("GET", "/nothing")
    c.ask("POST", C1, csinode())
    c.ask("PUT", CSINODES, csinode(), stored=C1)
    c.ask("PATCH", CSINODES, {}, MERGE, stored=C1)
    c.ask("POST", N1 + "/status", node())
    c.ask("DELETE", C1 + "/status")
    for accept in ("text/plain", "application/json, */*", "*/*", "image/jpeg;q=0.1, application/json", "image/png"):
        c.ask("GET", N1, headers={"Accept": accept})


def make_five(c):
    for i in range(5):
        c.prepare("POST", CSINODES, csinode(name=f"l{i}", metadata={"labels": {"odd": str(i % 2), f"k{i}": ""}}))


def delete_five(c):
    for side in c.sides:
        for i in range(5):
            side.send("DELETE", f"{CSINODES}/l{i}")


def second_page(side):
    token = side.get(CSINODES + "?limit=2")["metadata"].get("continue")
    check(token, f"{side.name}: a page of two has no continue token")
    return token


def watch(query="", resource=CSINODES):
    return f"{resource}?watch=true&timeoutSeconds=1{query}"


@group
def lists(c):
    """Order, field selectors, versions."""
    make_five(c)
    c.ask("GET", CSINODES)
    for selector in ("metadata.name=l1", "metadata.name!=l1", "metadata.name==l1", "metadata.namespace=x", "spec.x=1",
                     "junk"):
        c.ask("GET", f"{CSINODES}?fieldSelector={selector}")
    c.ask("GET", CSINODES + "?resourceVersion=0")
    c.ask("GET", lambda s: f"{CSINODES}?resourceVersion={s.version(CSINODES + '/l4')}")
    since = lambda s: f"{CSINODES}?resourceVersion={s.version(CSINODES + '/l2')}"
    c.ask("GET", lambda s: since(s) + "&resourceVersionMatch=NotOlderThan")
    c.ask("GET", CSINODES + "?resourceVersion=x")
    c.ask("GET", CSINODES + "?resourceVersion=1&resourceVersionMatch=Other")
    c.ask("GET", CSINODES + "?resourceVersionMatch=Exact")
    c.ask("GET", CSINODES + "?resourceVersion=99999999")
    c.ask("GET", CSINODES + "/l1?resourceVersion=0")
    c.ask("GET", CSINODES + "/l1?resourceVersion=99999999")
    c.ask("GET", CSINODES + "/l1?pretty=false")
    delete_five(c)


@group(lacks=no_label_selectors)
def label_selectors(c):
    """Lists and watches by label."""
    make_five(c)
    for selector in ("odd=1", "odd==1", "odd!=1", "odd in (0,1)", "odd notin (0)", "k3", "!k3", "odd=1,k3", "odd=x",
                     "odd in ()", "=", "odd>0", "a b"):
        c.ask("GET", f"{CSINODES}?labelSelector={selector.replace(' ', '%20')}")
    begin = [side.version(CSINODES + "/l4") for side in c.sides]
    label = lambda value: {"metadata": {"labels": {"odd": value}}}
    for change in (label("2"), {"spec": {"drivers": [entry()]}}, label("1")):
        c.prepare("PATCH", CSINODES + "/l3", change, MERGE)
    for selector in ("odd%3D1", "odd%3D2", "!odd"):
        query = f"&labelSelector={selector}&resourceVersion="
        c.ask("GET", lambda s, query=query: watch(query + begin[c.sides.index(s)]))
    delete_five(c)


@group(lacks=no_pages)
def pages(c):
    """limit and continue, and lists of an exact version."""
    make_five(c)
    c.ask("GET", CSINODES + "?limit=2")
    c.ask("GET", lambda s: f"{CSINODES}?limit=2&continue={second_page(s)}")
    c.ask("GET", lambda s: f"{CSINODES}?continue={second_page(s)}")
    c.ask("GET", CSINODES + "?limit=2&continue=garbage")
    c.ask("GET", CSINODES + "?limit=9")
    c.ask("GET", CSINODES + "?limit=-1")
    c.ask("GET", CSINODES + "?limit=x")
    c.ask("GET", lambda s: f"{CSINODES}?resourceVersion={s.version(CSINODES + '/l2')}&resourceVersionMatch=Exact")
    delete_five(c)


@group
def watches(c):
    """Watches that end by themselves: what they send, from which version, in which words they fail."""
    make_five(c)
    begin = [side.version(CSINODES + "/l4") for side in c.sides]
    since = lambda query="": (lambda s: watch(f"&resourceVersion={begin[c.sides.index(s)]}{query}"))
    c.ask("GET", watch())
    c.ask("GET", watch("&resourceVersion=0"))
    c.ask("GET", since())
    c.ask("GET", lambda s: watch(f"&resourceVersion={s.version(CSINODES + '/l2')}"))
    c.prepare("PATCH", CSINODES + "/l3", {"spec": {"drivers": [entry()]}}, MERGE)
    c.prepare("DELETE", CSINODES + "/l2")
    c.ask("GET", since())
    c.ask("GET", since("&fieldSelector=metadata.name%3Dl3"))
    c.ask("GET", since("&fieldSelector=metadata.name%3Dl2"))
    c.ask("GET", watch("&resourceVersion=99999999"))
    c.ask("GET", watch("&resourceVersion=x"))
    c.ask("GET", watch("&fieldSelector=spec.x%3D1"))
    c.ask("GET", watch("&sendInitialEvents=true"),
          known=dict.fromkeys(("message", "details"), "the emulator serves no streaming lists and says so"))
    c.ask("GET", watch("&resourceVersionMatch=Exact&resourceVersion=1"))
    c.ask("GET", f"{CSIDRIVERS}?watch=1&timeoutSeconds=1&resourceVersion=0", user="n1")
    c.ask("GET", f"{CSINODES}/l1?watch=true&timeoutSeconds=1")
    delete_five(c)
