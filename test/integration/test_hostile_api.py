# SPDX-License-Identifier: Apache-2.0
"""An API server that lies: bounded memory, no driver delayed, no crash, the token goes nowhere else and into no log.

    lie                                                     scenario
    never-ending headers, lines, bodies, interim answers    endless_answers
    bytes that dribble                                      slow_answers
    redirects, to servers and to files                      redirects
    no HTTP at all, contradictory HTTP                      no_http
    JSON to choke on                                        json_to_choke_on
    watches without an end of line                          endless_watch
    Retry-After past all reason                             retry_after_beyond_reason
    the token, sent back in whatever is logged              the_token_sent_back
"""
import datetime
import gzip
import json

from liar import Liar
from procs import check, equal, until
from runner import scenario
from test_hostile import resident

NAME = "a.example.com"
TOKEN = "s3cr3t-t0ken-of-the-node-0123456789abcdef"
GROWTH = 64 * 1024  # KiB: three requests at a time, each with an answer of 8 MiB and what is made of it
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1"}}


class Rig:
    """Emulator, liar before it, and an agent that knows the liar only."""

    def __init__(self, w):
        self.w = w
        w.server()
        w.api.auth(add=[{"token": TOKEN, "user": "system:node:n1", "groups": ["system:nodes"]}])
        host, port = w.api.address.split("//")[-1].rsplit(":", 1)
        self.liar = Liar(w.directory, (host, int(port)))
        self.elsewhere = Liar(w.directory, files=(w.path("liar.crt"), w.path("liar.key")))
        self.elsewhere.tell(lambda send, request: send(answer(json.dumps(NODE))))
        w.things += [self.liar, self.elsewhere]
        with open(w.path("token"), "w", encoding="utf-8") as file:
            file.write(TOKEN)
        self.n = 0

    def agent(self):
        return self.w.agent("--api-server", self.liar.url, "--api-token-file", self.w.path("token"), "--api-ca-file", self.liar.crt,
                            "--request-timeout=1s", "--publish-timeout=2s", api=False, gate=True)

    def under(self, label, lie, hears=True, persistent=False, growth=GROWTH):
        """Two drivers' handshakes go on under the lie, one of them begun in its midst; afterwards both are registered.

        hears: the lie gets to see a request. persistent: the drivers are made anew rather than waited for to the cap.
        """
        self.n += 1
        self.liar.tell(lie)
        agent = self.agent()
        agent.status()
        before = resident(agent.process.pid)
        first = self.driver("a")
        first.wait_call("NodeGetInfo")
        if hears:
            until(f"{label} is told", lambda: self.liar.requests)
        agent.wait(f"{label} does its harm", lambda s: s["api"].get("lastError") or any(r.get("lastError") for r in s["sockets"]))
        second = self.driver("b")
        second.wait_call("NodeGetInfo")
        grown = resident(agent.process.pid) - before
        check("san" in self.w.programs or grown < growth, f"{label}: the agent grew by {grown} KiB")
        self.quiet(label, agent, first, second)
        self.liar.tell(None)
        if persistent:
            for driver in (first, second):
                driver.stop()
            first, second = self.driver("c"), self.driver("d")
        for driver in (first, second):
            driver.wait_notified(True)
        check(self.elsewhere.accepted == 0, f"{label}: another server was connected to")
        self.quiet(label, agent, first, second)
        for driver in (first, second):
            driver.stop()
        self.w.api.wait("they are gone", lambda api: not api.drivers())
        agent.stop()

    def driver(self, letter):
        return self.w.driver(f"{letter}{self.n}.example.com", node_id="i-1", topology={"x/y": "z"})

    def quiet(self, label, agent, *drivers):
        """The token is neither in the log nor in the status nor in a notification."""
        texts = agent.process.output() + [json.dumps(agent.status())] + [t for d in drivers for _, t in d.notifications()]
        for text in texts:
            check(TOKEN not in text and "authorization:" not in text.lower(), f"{label}: a secret in {text[:200]}")


def answer(body, status="200 OK", headers="", kind="application/json", length=True):
    body = body if isinstance(body, bytes) else body.encode()
    length = f"Content-Length: {len(body)}\r\n" if length else ""
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{headers}{length}\r\n".encode() + body


def status_body(message, code=500, reason="InternalError"):
    return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code})


def always(data):
    return lambda send, request: send(data)


def for_ever(begin, more, pause=None):
    """Sends begin, then more again and again until the client hangs up."""
    def lie(send, request):
        send(begin)
        while True:
            send(more)
            if pause:
                until("the next byte", pause_over(pause), pause=pause)
    return lie


def pause_over(_):
    passed = []
    return lambda: passed.append(1) or len(passed) > 1


@scenario
def endless_answers(w):
    """What never ends is given up at its bound: 64 KiB of headers, 8 MiB of body."""
    rig = Rig(w)
    ok = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    lies = {"headers": (for_ever(ok, b"X-More: " + b"x" * 1000 + b"\r\n"), 1 << 20),
            "one header line": (for_ever(ok + b"X-More: ", b"x" * 1000), 1 << 20),
            "a status line": (for_ever(b"HTTP/1.1 200 ", b"x" * 1000), 1 << 20),
            "interim answers": (for_ever(b"", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" * 20), 1 << 20),
            "a body without length": (for_ever(ok + b"\r\n", b" " * 65536), 10 << 20),
            "a body of 4 EB": (for_ever(ok + b"Content-Length: 4611686018427387904\r\n\r\n", b" " * 65536), 10 << 20),
            "chunks": (for_ever(ok + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"), 10 << 20)}
    for label, (lie, most) in lies.items():
        rig.under(label, bounded(rig, label, lie, most))


def bounded(rig, label, lie, most):
    """The lie, and a check that little more than the bound was taken: sockets hold some megabytes, too."""
    def told(send, request):
        check(rig.liar.sent < most + (8 << 20), f"{label}: {rig.liar.sent} bytes were taken")
        lie(send, request)
    return told


@scenario
def slow_answers(w):
    """Dribbling headers and bodies end at the request's deadline, and hold up nobody."""
    rig = Rig(w)
    ok = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    rig.under("dribbling headers", for_ever(b"HTTP/1.1 200 OK\r\nX: ", b"x", 0.05))
    rig.under("a dribbling body", for_ever(ok + b"Content-Length: 100000\r\n\r\n", b" ", 0.05))
    rig.under("dribbling chunks", for_ever(ok + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", 0.05))


@scenario
def redirects(w):
    """No redirect is followed: the token goes to the configured server and nowhere else."""
    rig = Rig(w)
    places = [rig.elsewhere.url + "/api/v1/nodes/n1", rig.elsewhere.url.replace("https", "http"), "file:///etc/passwd",
              "//127.0.0.1" + rig.elsewhere.url[rig.elsewhere.url.rindex(":"):]]
    for code in (301, 302, 307, 308):
        rig.under(f"redirect {code}", always(answer("", f"{code} Elsewhere", f"Location: {places[code % len(places)]}\r\n")))
    rig.under("Refresh, Alt-Svc and cookies", always(answer(
        status_body("no", 503), "503 No", f"Refresh: 0; url={rig.elsewhere.url}\r\nAlt-Svc: h2=\"{rig.elsewhere.url[8:]}\"\r\n"
        "Set-Cookie: a=b\r\nStrict-Transport-Security: max-age=1\r\n")))
    rig.under("other credentials wanted", always(answer(status_body("who?", 401, "Unauthorized"), "401 Who", "WWW-Authenticate: "
              "Basic realm=\"x\"\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM\r\nWWW-Authenticate: Digest realm=x\r\n")))
    equal(rig.elsewhere.requests, [], "requests to the other server")


def plain(data):
    lie = always(data)
    lie.plain = True
    return lie


@scenario
def no_http(w):
    """Something else behind the port, and HTTP that contradicts itself."""
    rig = Rig(w)
    rig.under("plain text instead of TLS", plain(b"220 mail.example.com ESMTP\r\n"), hears=False)
    rig.under("nothing at all", plain(b""), hears=False)
    lies = {"no HTTP": b"hello\r\n\r\n", "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
            "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n{}{}{}{}",
            "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
            "a chunk of nonsense": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
            "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: spdy\r\nConnection: Upgrade\r\n\r\n" + bytes(100),
            "status 999": b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
            "NUL in a header": b"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
            "answers nobody asked for": answer("{}") * 200}
    for label, data in lies.items():
        rig.under(label, closing(data))


def closing(data):
    """Sent, and the end of the connection."""
    def lie(send, request):
        send(data)
        raise OSError
    return lie


@scenario
def json_to_choke_on(w):
    """Nesting, numbers, names and sizes beyond reason; and bodies that are compressed although nobody asked."""
    rig = Rig(w)
    node = json.dumps(NODE)
    many = {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "1", "labels": {f"l{i}": "v" for i in range(300000)}}}
    lies = {"nesting": b"[" * 4000000, "nested objects": b'{"a":' * 500000, "values": b"[" + b"0," * 3500000 + b"0]",
            "a long string": b'{"kind":"' + b"x" * 7000000 + b'"}', "many labels": json.dumps(NODE | many).encode(),
            "a number": b'{"kind":' + b"9" * 100000 + b"}", "bad UTF-8": node.replace("n1", "\\ud800").encode(),
            "NUL": node.replace('"u"', '"u\\u0000v"').encode(), "another name": node.replace("n1", "n2").encode(),
            "no metadata": b'{"kind":"Node","apiVersion":"v1"}', "wrong types": b'{"kind":"Node","apiVersion":"v1","metadata":[1]}',
            "names twice": b'{"kind":"Node","kind":"Node","metadata":{"name":"n1"},"metadata":7}'}
    for label, data in lies.items():  # half a million values are the bound, and some hundred bytes each
        rig.under(label, always(answer(data)), growth=GROWTH * (3 if label == "many labels" else 1))
    bomb = gzip.compress(bytes(64 << 20))
    rig.under("a compressed body", always(answer(bomb, headers="Content-Encoding: gzip\r\n")))


@scenario
def endless_watch(w):
    """A watch that never ends its line is given up at 1 MiB; drivers that do not need it are registered meanwhile."""
    rig = Rig(w)
    lists = answer(json.dumps({"kind": "CSIDriverList", "apiVersion": "storage.k8s.io/v1", "metadata": {"resourceVersion": "5"}, "items": []}))
    begin = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    watched = []

    def lie(send, request):
        if b"watch=" in request:
            watched.append(1)
            for_ever(begin, b"4000\r\n" + b" " * 0x4000 + b"\r\n")(send, request)
        elif b"csidrivers" in request:
            send(lists)
        else:
            until("somebody watches", lambda: watched)
            send(answer(status_body("later", 503), "503 Later"))
    rig.under("a watch without a line", lie)
    check(watched, "nobody watched")


@scenario
def retry_after_beyond_reason(w):
    """Ten thousand seconds count as ten minutes, ten thousand headers as a broken answer; neither stops the clock."""
    rig = Rig(w)
    rig.under("ten thousand headers", always(answer(status_body("no", 429), "429 No", "Retry-After: 1\r\n" * 10000)))
    for value in ("-1", "soon", "1e9", "Wed, 21 Oct 2015 07:28:00 GMT", "1, 2"):
        rig.under(f"Retry-After {value}", always(answer(status_body("no", 503), "503 No", f"Retry-After: {value}\r\n")))
    rig.liar.tell(always(answer(status_body("no", 429, "TooManyRequests"), "429 No", "Retry-After: 99999999999999999999\r\n")))
    agent = rig.agent()
    driver = w.driver(NAME, node_id="i-1")
    status = agent.wait("the next try is planned", lambda s: s if s["api"].get("nextTry") or s["api"].get("lastError") else None)
    planned = status["api"].get("nextTry")
    if planned:
        ahead = datetime.datetime.fromisoformat(planned) - datetime.datetime.now(datetime.timezone.utc)
        check(ahead.total_seconds() <= 11 * 60, f"the next try is {ahead} ahead")
    equal(driver.notifications(), [], "notifications")


@scenario
def the_token_sent_back(w):
    """Whatever the server does with the token, no log line, status field or notification has it."""
    rig = Rig(w)
    bearer = f"Bearer {TOKEN}"
    for code, text in ((401, "Unauthorized"), (403, "Forbidden"), (422, "Invalid"), (500, "InternalError"), (429, "TooManyRequests")):
        body = status_body(f"you sent {bearer}", code, text)
        rig.under(f"in a {code}", always(answer(body, f"{code} {TOKEN}", f"Warning: 299 - \"{bearer}\"\r\n")),
                  persistent=code in (403, 422))
    rig.under("in a reason", always(answer(status_body("no", 503, TOKEN), "503 No")))
    rig.under("as text", always(answer(bearer, "500 No", kind="text/plain")))
    rig.under("as a redirect", always(answer("", "302 Found", f"Location: https://127.0.0.1:1/?{TOKEN}\r\n")))
