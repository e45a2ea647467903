# SPDX-License-Identifier: Apache-2.0
"""Writes of Nodes and CSINodes: what a node agent sends, could send, and meets."""
import json

from conformance import JSON
from objects import (
    C1, CSINODES, FAR_UID, MERGE, N1, NODES, OPERATIONS, STRATEGIC, csinode, entry, group, no_finalizers,
    no_json_patch, node, owner, with_version)


@group
def node_writes(c):
    """What a node does to its own Node, and what the administrator prepares."""
    c.ask("POST", NODES, node())
    c.ask("POST", NODES, node())
    c.ask("POST", NODES, node("n2", labels={"x": "y"}))
    c.ask("GET", N1, user="n1")
    c.ask("GET", NODES + "/n3")
    c.ask("POST", NODES, node("Bad_Name"))
    c.ask("POST", NODES, node("n3", labels={"bad key": "v"}, annotations={"/": ""}))
    c.ask("POST", NODES, node("n3", labels={"x/y": "-bad-"}, annotations={"a/b/c": ""}))
    c.ask("POST", NODES, node("n3", resourceVersion="5"))
    c.ask("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {}})
    annotation = {"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": '{"a.example.com":"i-1"}'},
                               "labels": {"topology.kubernetes.io/zone": "z1"}}}
    c.ask("PATCH", N1 + "/status", annotation, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", annotation, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", lambda s: {"metadata": {"resourceVersion": s.version(N1), "labels": {"a/b": "c"}}},
          STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"resourceVersion": "1", "labels": {"a/b": "d"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"resourceVersion": "1", "labels": {"a/b": "c"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {"a/b": "-no-"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": None}}},
          STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"annotations": {"big/one": "x" * (256 * 1024)}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"uid": FAR_UID}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"name": "n2"}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"spec": {"unschedulable": True}}, STRATEGIC, "n1")
    c.ask("PATCH", N1, {"status": {"nodeInfo": {"kernelVersion": "x"}}}, MERGE)
    c.ask("PATCH", NODES + "/n3", annotation, STRATEGIC)
    c.ask("PATCH", N1, {"metadata": {"labels": {"a/b": None}}}, MERGE, "n1")
    c.ask("PUT", N1, lambda s: s.get(N1) | {"metadata": {"name": "n1", "labels": {"put": "1"}}})


@group
def node_restriction(c):
    """Labels and objects that a node may not touch."""
    for key in ("x.node-restriction.kubernetes.io/y", "node-restriction.kubernetes.io/y", "foo.kubernetes.io/y",
                "k8s.io/y", "x.k8s.io/y", "node-role.kubernetes.io/x"):
        c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {key: "1"}}}, STRATEGIC, "n1")
    for key in ("kubernetes.io/hostname", "topology.kubernetes.io/region", "kubelet.kubernetes.io/y",
                "x.node.kubernetes.io/y", "node.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/zone",
                "kubernetes.io/arch", "beta.kubernetes.io/os", "csi.example.com/y"):
        c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {key: "1"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {"b.k8s.io/y": "1", "a.k8s.io/y": "1"}}}, STRATEGIC, "n1")
    c.prepare("PATCH", N1, {"metadata": {"labels": {"foo.kubernetes.io/y": "1"}}}, MERGE)
    c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {"foo.kubernetes.io/y": "1", "fine": "1"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {"foo.kubernetes.io/y": None}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, MERGE, "n1")
    c.ask("PATCH", N1, {"metadata": {"ownerReferences": [owner("n1", FAR_UID)]}}, MERGE, "n1")
    c.ask("PATCH", NODES + "/n2/status", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC, "n1")
    c.ask("DELETE", N1, user="n1")
    c.ask("GET", NODES + "/n2", user="n1")
    c.ask("GET", NODES, user="n1")
    c.ask("GET", NODES + "?fieldSelector=metadata.name%3Dn1", user="n1")
    c.ask("GET", NODES + "?fieldSelector=metadata.name%3Dn2", user="n1")
    c.ask("POST", NODES, node("n9"), user="n1")


WRONG_ENTRIES = [[entry("")], [entry("x" * 64)], [entry("-bad-")], [entry("a_b")], [entry(node_id="")],
                 [entry(node_id="i" * 257)], [entry(count=-1)], [entry(), entry()], [entry(keys=[""])],
                 [entry(keys=["a/b", "a/b"])], [entry(keys=["a b"])], [entry(keys=["x" * 64])],
                 [entry("", "", [""], -1), entry("ok.example.com"), entry("a/b", "")]]


@group
def csinode_creation(c):
    """POST of a CSINode: what is refused, filled in and dropped."""
    mine = [owner("n1", lambda s: s.uid(N1))]
    c.ask("GET", C1, user="n1")
    c.ask("DELETE", C1, user="n1")
    c.ask("PUT", C1, csinode(), user="n1")
    c.ask("PATCH", C1, {"spec": {"drivers": []}}, MERGE, "n1")
    for wrong in WRONG_ENTRIES:
        c.ask("POST", CSINODES, csinode(*wrong), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(metadata={"resourceVersion": "7"}), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(metadata={"labels": {"a b": "c"}}), user="n1", stored=C1)
    controllers = [owner("n1", uid) | {"controller": True} for uid in "ab"]
    for wrong in ([owner("", "")], [{}], controllers):
        c.ask("POST", CSINODES, csinode(metadata={"ownerReferences": wrong}), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(metadata={"namespace": "default"}), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(name="n2"), user="n1", stored=CSINODES + "/n2")
    c.ask("POST", CSINODES, csinode(name="Bad_Name"), stored=C1)
    c.ask("POST", CSINODES, {"kind": "CSINode", "apiVersion": "storage.k8s.io/v1"}, user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(entry(), metadata={"ownerReferences": mine}) | {"status": {"storageHealth": []}},
          user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(entry()), user="n1", stored=C1)
    c.ask("GET", C1, user="n1")
    c.prepare("DELETE", C1)
    for spec in ({}, {"drivers": None}, {"drivers": [{"name": "a.example.com", "nodeID": "i", "topologyKeys": None}]},
                 {"drivers": [{"name": "A.example.com", "nodeID": "i", "allocatable": {}}]}):
        c.ask("POST", CSINODES, csinode() | {"spec": spec}, user="n1", stored=C1)
        c.prepare("DELETE", C1)
    c.ask("POST", CSINODES + "?dryRun=All", csinode(entry()), user="n1", stored=C1)
    c.ask("POST", CSINODES + "?dryRun=Some", csinode(entry()), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(*(entry(f"d{i}.example.com") for i in range(40))), user="n1", stored=C1)
    c.prepare("DELETE", C1)


GO_NAMES = "the real server prints the value with Go's field names; the emulator may print JSON's"


@group
def csinode_updates(c):
    """PUT of a CSINode: versions, uids, immutable parts, no-ops."""
    c.prepare("POST", CSINODES, csinode(entry(keys=["b/x", "a/x"], count=3), entry("b.example.com")))
    c.ask("PUT", C1, csinode(entry(keys=["b/x", "a/x"], count=3)), user="n1")
    c.ask("PUT", C1, csinode(metadata={"resourceVersion": "1"}), user="n1")
    c.ask("PUT", C1, csinode(metadata={"resourceVersion": "x"}), user="n1")
    c.ask("PUT", C1, csinode(metadata={"resourceVersion": "99999999"}), user="n1")
    c.ask("PUT", C1, csinode(metadata={"uid": FAR_UID, "resourceVersion": lambda s: s.version(C1)}), user="n1")
    c.ask("PUT", C1, lambda s: s.get(C1), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry(keys=["b/x", "a/x"], count=9), entry("b.example.com"))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("b.example.com"), entry(keys=["b/x", "a/x"]))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry(keys=["a/x", "b/x"]))), user="n1",
          known={"message": GO_NAMES, "details": GO_NAMES})
    c.ask("PUT", C1, with_version(csinode(entry(node_id="i-2", keys=["b/x", "a/x"]))), user="n1",
          known={"message": GO_NAMES, "details": GO_NAMES})
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3", count=2147483647))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3", count=2147483648))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3", count="3"))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3"), entry("", "x" * 300))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3"), metadata={"labels": {"l": "1"}})), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"status": {"storageHealth": []}}), user="n1")
    c.ask("PUT", C1, with_version(csinode(name="n2")), user="n1")
    c.ask("PUT", CSINODES + "/n2", csinode(name="n2"), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"kind": "CSIDriver"}), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"apiVersion": "v1"}), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"apiVersion": "storage.k8s.io/v9"}), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"apiVersion": "storage.k8s.io/v1beta1"}), user="n1",
          known={"message": "the emulator knows one version of each group"})
    for body in (b"{", b"", b"[]", b'"x"', b"null", b"{}"):
        c.ask("PUT", C1, body, user="n1")
    c.ask("PUT", C1, csinode() | {"spec": {"drivers": {}}}, user="n1")
    c.ask("PUT", C1, with_version(csinode(metadata={"namespace": "x"})), user="n1")
    c.ask("PUT", C1, b"x", "text/plain", "n1")
    c.ask("PUT", C1, with_version(csinode()), "", "n1")
    c.ask("PUT", C1 + "?dryRun=All", with_version(csinode(entry("dry.example.com"))), user="n1")
    c.ask("PUT", C1, b'{"metadata":{"annotations":{"x":"' + b"y" * 3_200_000 + b'"}}}', user="n1")
    c.ask("PUT", C1 + "/status", with_version(csinode()), user="n1")
    c.ask("PUT", C1 + "/status", with_version(csinode()))
    c.prepare("DELETE", C1)


@group
def unknown_fields(c):
    """The three validation modes, and a field that this server does not know yet."""
    c.prepare("POST", CSINODES, csinode(entry()))
    extra = csinode(entry(foo=1), driverRegistrations=[{"name": "a.example.com", "nodeID": "i-1"}]) | {"bar": {"x": 1}}
    twice = json.dumps(csinode(entry())).replace('"drivers":', '"drivers": [], "drivers":')
    with_now = lambda s: twice.replace('"name": "n1"', f'"name": "n1", "resourceVersion": "{s.version(C1)}"')
    registration = {"spec": {"driverRegistrations": [{"name": "a", "nodeID": "b"}]}, "Kind": "x"}
    for mode in ("", *(f"?fieldValidation={mode}" for mode in ("Ignore", "Warn", "Strict", "Other"))):
        c.ask("PUT", C1 + mode, with_version(extra), user="n1")
        c.ask("PUT", C1 + mode, with_now, user="n1")
        c.ask("POST", CSINODES + mode, extra | {"metadata": {"name": "n2", "FOO": 1}}, stored=CSINODES + "/n2")
        for kind in (MERGE, STRATEGIC):
            c.ask("PATCH", C1 + mode, registration, kind, "n1")
        c.ask("PATCH", N1 + "/status" + mode, {"metadata": {"labels": {"v": "w"}, "foo": 1}}, STRATEGIC, "n1")
    for side in c.sides:
        side.send("DELETE", CSINODES + "/n2")
    c.prepare("DELETE", C1)


@group
def patches(c):
    """Each patch type."""
    c.prepare("POST", CSINODES, csinode(entry(keys=["a/x"], count=3), entry("b.example.com"),
                                        metadata={"annotations": {"keep": "me"}}))
    drivers = lambda *entries: {"spec": {"drivers": list(entries)}}
    c.ask("PATCH", C1, drivers(entry("c.example.com")), STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"name": "a.example.com", "allocatable": {"count": 5}}), STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"name": "a.example.com", "allocatable": None}), STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"$patch": "delete", "name": "c.example.com"}), STRATEGIC, "n1")
    c.ask("PATCH", C1, {"spec": {"$setElementOrder/drivers": [{"name": "b.example.com"}, {"name": "a.example.com"}]}},
          STRATEGIC, "n1")
    for wrong in ({"nodeID": "x"}, {"$patch": "bogus", "name": "c.example.com"}):
        c.ask("PATCH", C1, drivers(wrong), STRATEGIC, "n1", known={"message": "an error of the merge in its own words"})
    c.ask("PATCH", C1, drivers({"$patch": "replace"}, entry("b.example.com")), STRATEGIC, "n1")
    c.ask("PATCH", C1, {"metadata": {"annotations": {"new": "1", "keep": None}}}, MERGE, "n1")
    c.ask("PATCH", C1, drivers(entry("d.example.com")), MERGE, "n1")
    c.ask("PATCH", C1, drivers(entry("d.example.com", "other")), MERGE, "n1",
          known={"message": GO_NAMES, "details": GO_NAMES})
    c.ask("PATCH", C1, {}, MERGE, "n1")
    c.ask("PATCH", C1, lambda s: {"metadata": {"resourceVersion": s.version(C1)}} | drivers(entry("e.example.com")),
          MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"resourceVersion": "x"}}, MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"resourceVersion": None}}, MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"uid": None, "namespace": "x"}}, MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"name": None}}, MERGE, "n1")
    c.ask("PATCH", C1, {"kind": "CSIDriver"}, MERGE, "n1")
    c.ask("PATCH", C1, {"apiVersion": "v1"}, MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"resourceVersion": "1"}} | drivers(), MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"uid": FAR_UID}}, MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"name": "n2"}}, MERGE, "n1")
    c.ask("PATCH", C1, {"spec": {"drivers": "x"}}, MERGE, "n1")
    c.ask("PATCH", C1, {"spec": {"drivers": [{"name": 5}]}}, MERGE, "n1")
    c.ask("PATCH", C1, {"spec": None}, MERGE, "n1")
    c.ask("PATCH", C1, b"{", MERGE, "n1")
    c.ask("PATCH", C1, b"[]", MERGE, "n1")
    c.ask("PATCH", C1, b"{", STRATEGIC, "n1")
    c.ask("PATCH", C1, b"", MERGE, "n1")
    c.ask("PATCH", C1, {}, JSON, "n1")
    c.ask("PATCH", C1, {}, "", "n1")
    c.ask("PATCH", C1, {}, MERGE + "; charset=utf-8", "n1")
    c.ask("PATCH", C1, {}, "text/plain", "n1")
    c.ask("PATCH", C1, {"metadata": {"annotations": {"dry": "1"}}}, MERGE, "n1")
    c.ask("PATCH", C1 + "?dryRun=Bogus", {"metadata": {"annotations": {"dry": "2"}}}, MERGE, "n1")
    c.ask("PATCH", CSINODES + "/n2", drivers(), MERGE, "n1")
    c.ask("PATCH", CSINODES + "/n2", drivers(), MERGE)
    c.prepare("DELETE", C1)


@group(lacks=no_json_patch)
def json_patches(c):
    """RFC 6902."""
    c.prepare("POST", CSINODES, csinode(metadata={"annotations": {"new": "1"}}))
    operation = lambda op, path, **more: [{"op": op, "path": path} | more]
    c.ask("PATCH", C1, operation("add", "/spec/drivers", value=[entry()]), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("add", "/spec/drivers/-", value=entry("f.example.com")), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("test", "/spec/drivers/0/name", value="a.example.com") +
          operation("replace", "/spec/drivers/0/allocatable", value={"count": 4}), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("add", "/spec/drivers/0/allocatable", value={"count": 4}), OPERATIONS, "n1")
    for op, source, target in (("copy", "new", "copied"), ("move", "copied", "moved")):
        origin = {"from": "/metadata/annotations/" + source}
        c.ask("PATCH", C1, operation(op, "/metadata/annotations/" + target, **origin), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("test", "/spec/drivers/0/name", value="other"), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("remove", "/spec/nothing"), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("bogus", "/spec"), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("remove", "/spec/drivers/1"), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("replace", "/spec/drivers/9", value=1), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("add", "/nothing/here", value=1), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("move", "/spec/drivers/0", **{"from": "/spec"}), OPERATIONS, "n1")
    for body in ({"not": "a list"}, [], [7], [{"path": "/spec"}]):
        c.ask("PATCH", C1, body, OPERATIONS, "n1")
    for mode in ("", "?fieldValidation=Ignore", "?fieldValidation=Warn", "?fieldValidation=Strict"):
        c.ask("PATCH", C1 + mode, operation("add", "/spec/foo", value=1), OPERATIONS, "n1")
    c.prepare("DELETE", C1)


@group
def deletes(c):
    """Preconditions, finalizers, what a DELETE answers."""
    def preconditions(**wanted):
        return {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted}
    c.prepare("POST", CSINODES, csinode(entry()))
    c.ask("DELETE", C1, preconditions(uid=FAR_UID), user="n1")
    c.ask("DELETE", C1, preconditions(resourceVersion="1"), user="n1")
    c.ask("DELETE", C1, preconditions(uid=lambda s: s.uid(C1), resourceVersion="1"), user="n1")
    c.ask("DELETE", C1, preconditions(uid=lambda s: s.uid(C1), resourceVersion=lambda s: s.version(C1)), user="n1")
    c.ask("DELETE", C1, preconditions(uid=FAR_UID), user="n1")
    c.prepare("POST", CSINODES, csinode(entry()))
    c.ask("DELETE", C1, b"{", user="n1")
    c.ask("DELETE", CSINODES + "/n2", user="n1")
    c.ask("DELETE", C1 + "?dryRun=All", user="n1")
    c.ask("DELETE", C1, user="n1")
    c.ask("DELETE", C1)
    c.prepare("POST", NODES, node("n8"))
    c.ask("DELETE", NODES + "/n8")


@group(lacks=no_finalizers)
def finalizers(c):
    """Objects that are not gone at once."""
    c.ask("POST", CSINODES, csinode(metadata={"finalizers": ["noprefix"]}), user="n1", stored=C1)
    c.prepare("POST", CSINODES, csinode(entry(), metadata={"finalizers": ["example.com/a"]}))
    c.ask("DELETE", C1, user="n1")
    c.ask("DELETE", C1, user="n1")
    c.ask("PATCH", C1, {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}, MERGE)
    c.ask("PATCH", C1, {"metadata": {"deletionTimestamp": None}}, MERGE)
    c.ask("PATCH", C1, {"metadata": {"finalizers": []}}, MERGE)
    c.prepare("POST", CSINODES, csinode())
    c.ask("PATCH", C1, {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}, STRATEGIC)
    c.ask("PATCH", C1, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, STRATEGIC)
    c.ask("PATCH", C1, {"metadata": {"finalizers": None}}, MERGE)
    c.prepare("DELETE", C1)
