#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by the API server and the way to it. Usage: api.py [ATTACK...]; BIN=directory of the programs."""
import json, os, shutil, signal, socket, ssl, subprocess, sys, threading, time
from rig import Rig, check, main, wait_for

KIND = {"node": "nodes", "csinode": "csinodes"}


def api_state(rig):
    return rig.status()["api"].get("state")


def retry_after():
    """429 with Retry-After 0, -1, 10000, 1e9, text, an HTTP date; then none: no storm, and it recovers by "retry"."""
    out = []
    for value in ("0", "-1", "99999999999999999999", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", ""):
        with Rig() as rig:
            port = fake_server(rig, lambda path: (429, [("Retry-After", value)], b'{"kind":"Status","code":429}'))
            rig.start_agent(f"--api-server=http://127.0.0.1:{port[0]}", f"--plugins-registry-dir={rig.registry}",
                            defaults=False)
            rig.driver("a.example.com")
            wait_for(lambda: port[1], "a request")
            time.sleep(5)
            check(len(port[1]) < 40, f"{len(port[1])} requests in 5 s with Retry-After {value!r}")
            out.append(f"{value!r}: {len(port[1])} requests, {rig.status()['api'].get('state')}")
            rig.stop_agent()
    return "\n    " + "\n    ".join(out)


def fake_server(rig, answer, raw=None):
    """A plain HTTP server; answer(path) gives (code, headers, body), raw(conn, request) instead talks itself.
    Returns (port, requests)."""
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.0.0.1", 0))
    server.listen(64)
    requests = []
    def talk(conn):
        with conn:
            buffer = b""
            while True:
                try:
                    more = conn.recv(65536)
                except OSError:
                    return
                if not more:
                    return
                buffer += more
                if b"\r\n\r\n" not in buffer:
                    continue
                line = buffer.split(b"\r\n", 1)[0].decode()
                requests.append(buffer.decode(errors="replace"))
                buffer = b""
                try:
                    if raw:
                        raw(conn, line)
                        return
                    code, headers, body = answer(line)
                    text = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                    text += "".join(f"{k}: {v}\r\n" for k, v in headers) + "\r\n"
                    conn.sendall(text.encode() + body)
                except OSError:
                    return
    def accept():
        while True:
            try:
                conn = server.accept()[0]
            except OSError:
                return
            threading.Thread(target=talk, args=(conn,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return server.getsockname()[1], requests


def recovery(rig, fault, heal, seconds=6, name="a.example.com"):
    """fault() before a driver comes, a look at the status, heal(), registered."""
    undo = fault()
    rig.driver(name)
    time.sleep(seconds)
    rig.alive()
    status = rig.status()
    socket_error = (rig.socket(name) or {}).get("lastError") or {}
    found = status["api"].get("lastError") or socket_error
    told = f"{status['api'].get('state')}: {(found.get('message') or 'no error told')[:260]}"
    heal(undo)
    rig.registered(name)
    return told


def lies():
    """Answers of 200 that are HTML, garbage, empty, truncated, another kind, another name, without metadata, a list."""
    out = []
    bodies = [{"kind": "Pod"}, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "other", "uid": "u", "resourceVersion": "1"}},
              {"kind": "Node", "apiVersion": "v1", "metadata": {}}, [], 7, {"kind": "NodeList", "items": []},
              {"kind": "Node", "metadata": {"name": "n1", "uid": 5, "resourceVersion": 7}},
              {"kind": "Status", "status": "Success"}, {"kind": "Node", "apiVersion": "v1", "metadata": {
                  "name": "n1", "uid": "", "resourceVersion": "", "annotations": {"csi.volume.kubernetes.io/nodeid": 3},
                  "labels": []}}]
    with Rig() as rig:
        rig.start_agent("--publish-timeout=2s")
        number = 0
        for body in ["html", "garbage", "empty", "truncated"]:
            for resource in ("nodes", "csinodes"):
                number += 1
                told = recovery(rig, lambda: rig.rule({"status": 200, "body": body}, resource=resource),
                                lambda _: (rig.clear_rules(), kick(rig)), 3, f"a{number}.example.com")
                out.append(f"{resource} {body}: {told}")
        for body in bodies:
            for resource in ("nodes", "csinodes"):
                number += 1
                told = recovery(rig, lambda: rig.rule({"respond": body}, resource=resource),
                                lambda _: (rig.clear_rules(), kick(rig)), 2.5, f"a{number}.example.com")
                out.append(f"{resource} {json.dumps(body)[:60]}: {told}")
        check(len(rig.entries()) == number, f"{len(rig.entries())} of {number}")
        rig.stop_agent()
    return "\n    " + "\n    ".join(out)


def kick(rig):
    """Sockets whose backoff runs are made anew in the registry, which resets it."""
    for item in rig.status()["sockets"]:
        if item.get("lastError") and os.path.exists(item["path"]):
            os.rename(item["path"], item["path"] + ".x")
            os.rename(item["path"] + ".x", item["path"])


def lying_writes():
    """200 to a PUT, PATCH, DELETE that was not done; committed writes answered with 500; cuts before and after."""
    out = []
    with Rig() as rig:
        rig.start_agent("--publish-timeout=3s")
        rig.driver("first.example.com")
        rig.registered("first.example.com")
        number = 0
        for action in ({"respond": {}}, {"respond": {"kind": "Status", "status": "Success"}}, {"commitThenStatus": 500},
                       {"commitThenStatus": 409}, {"commitThenStatus": 404}, {"cut": {"at": "afterCommit", "how": "rst"}},
                       {"cut": {"at": "bytes", "bytes": 10, "how": "fin"}}, {"cut": {"at": "header", "how": "fin"}},
                       {"drop": ["/spec/drivers"]}, {"conflict": {"edit": {"metadata": {"labels": {"x": "y"}}}}},
                       {"status": 418}, {"status": 301}, {"status": 204}, {"status": 422}, {"status": 100}):
            for verb in ("update", "patch"):
                number += 1
                told = recovery(rig, lambda: rig.rule(action, verb=verb, count=3), lambda _: (rig.clear_rules(), kick(rig)),
                                2.5, f"a{number}.example.com")
                out.append(f"{verb} {json.dumps(action)[:60]}: {told[:150]}")
        check(len(rig.entries()) == number + 1, f"{set(rig.entries())}")
        rig.stop_agent()
    return "\n    " + "\n    ".join(out)


def lying_delete():
    """A CSINode with a stale owner; DELETE is answered 200 and not done, then 404, then cut; it ends as it must."""
    with Rig() as rig:
        for action in ({"respond": {"kind": "Status", "status": "Success"}}, {"status": 404},
                       {"cut": {"at": "afterCommit", "how": "rst"}}):
            rig.do("DELETE", "/apis/storage.k8s.io/v1/csinodes/n1")
            owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "stale"}
            code, _ = rig.do("POST", "/apis/storage.k8s.io/v1/csinodes", {
                "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                "metadata": {"name": "n1", "ownerReferences": [owner]}, "spec": {"drivers": [{"name": "old.example.com", "nodeID": "o", "topologyKeys": []}]}})
            check(code == 201, code)
            rig.rule(action, verb="delete", count=2)
            rig.start_agent()
            driver = rig.driver("a.example.com")
            rig.registered("a.example.com")
            found = rig.csinode()["metadata"]["ownerReferences"]
            check([o["uid"] for o in found] == [rig.node()["metadata"]["uid"]], f"owners {found}")
            rig.clear_rules()
            rig.stop_agent()
            driver.terminate(), driver.wait()


def network():
    """Refused, black hole, TLS failure, wrong, expired, untrusted certificate, resets: waits, tells, recovers, exits."""
    out = []
    with Rig() as rig:
        rig.start_agent("--request-timeout=2s")
        quiet = {"refuse": False, "blackhole": False, "tlsFail": False, "serverCert": "good", "acceptDelayMs": 0}
        for i, fault in enumerate(({"refuse": True}, {"blackhole": True}, {"tlsFail": True}, {"serverCert": "wrongName"},
                                   {"serverCert": "expired"}, {"serverCert": "untrusted"}, {"acceptDelayMs": 1500})):
            told = recovery(rig, lambda: rig.ctl("POST", "/net", {**fault, "resetAll": True}),
                            lambda _: rig.ctl("POST", "/net", quiet), 5, f"a{i}.example.com")
            out.append(f"{json.dumps(fault)}: {told}")
        rig.ctl("POST", "/net", {"blackhole": True, "resetAll": True})
        rig.driver("z.example.com")
        time.sleep(1)
        out.append(f"stop in a black hole {rig.stop_agent():.2f} s")
    return "\n    " + "\n    ".join(out)


def credentials():
    """Token expired, kubeconfig replaced by garbage, emptied, deleted, made a FIFO and a directory; then restored."""
    out = []
    with Rig() as rig:
        kubeconfig = rig.path("kubeconfig")
        good = open(kubeconfig).read()
        def write(text):
            with open(kubeconfig + ".new", "w") as file:
                file.write(text)
            os.replace(kubeconfig + ".new", kubeconfig)
        def remove():
            if os.path.isdir(kubeconfig):
                os.rmdir(kubeconfig)
            else:
                os.unlink(kubeconfig)
        rig.start_agent()
        faults = {"garbage": lambda: write("\0\1garbage: ["), "empty": lambda: write(""), "gone": lambda: remove(),
                  "fifo": lambda: (remove(), os.mkfifo(kubeconfig)), "directory": lambda: (remove(), os.mkdir(kubeconfig)),
                  "other server": lambda: write(good.replace("127.0.0.1", "127.0.0.9"))}
        for i, (name, fault) in enumerate(faults.items()):
            def heal(_):
                if os.path.exists(kubeconfig):
                    remove()
                write(good)
            def both():
                fault()
                rig.rule({"unauthorized": True}, count=1)
            out.append(f"{name}: {recovery(rig, both, heal, 4, f'a{i}.example.com')}")
            rig.clear_rules()
        text = rig.log() + json.dumps(rig.status())
        for line in good.splitlines():
            for key in ("token:", "client-key-data:"):
                if key in line:
                    secret = line.split(key)[1].strip().strip('"')
                    check(secret[:24] not in text, f"{key} in log or status")
                    out.append(f"{key} not told")
        rig.stop_agent()
    return "\n    " + "\n    ".join(out)


def token_leak():
    """A redirect to another host, 401 with the token in its message, a proxy: the token goes nowhere else, no log."""
    with Rig(api=False) as rig:
        thief = fake_server(rig, lambda line: (200, [], b"{}"))
        secret = "s3cr3t-token-0123456789"
        def answer(line):
            code = 307 if len(server[1]) % 2 else 401
            body = json.dumps({"kind": "Status", "code": code, "reason": "Unauthorized", "message": "Bearer " + secret})
            return code, [("Location", f"http://127.0.0.1:{thief[0]}/x")], body.encode()
        server = fake_server(rig, answer)
        with open(rig.path("token"), "w") as file:
            file.write(secret)
        rig.start_agent(f"--api-server=http://127.0.0.1:{server[0]}", "--api-token-file=" + rig.path("token"),
                        f"--plugins-registry-dir={rig.registry}", defaults=False)
        rig.driver("a.example.com")
        wait_for(lambda: len(server[1]) >= 3, "requests")
        seen = rig.log() + json.dumps(rig.status()) + rig.get("/")[1].decode() + rig.get("/metrics")[1].decode()
        check(not thief[1], f"followed the redirect: {thief[1][:1]}")
        check(secret not in seen, "token told: " + seen[max(0, seen.find(secret) - 200):][:260])
        rig.stop_agent()
        return f"{len(server[1])} requests; the token was sent: {any(secret in r for r in server[1])}"


def endless_answers():
    """Headers without end, a body without end, one byte a second, 100 MB, deep JSON, many values, chunk garbage."""
    out = []
    def raw(kind):
        def talk(conn, line):
            start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            if kind == "headers":
                conn.sendall(start)
                while True:
                    conn.sendall(b"X-A: " + b"y" * 8000 + b"\r\n")
            if kind == "body":
                conn.sendall(start + b"\r\n{\"kind\":\"Node\",\"a\":\"")
                while True:
                    conn.sendall(b"y" * 65536)
            if kind == "slow":
                conn.sendall(start + b"Content-Length: 1000\r\n\r\n")
                for _ in range(1000):
                    conn.sendall(b" ")
                    time.sleep(0.5)
            if kind == "length":
                conn.sendall(start + b"Content-Length: 99999999999999999999999\r\n\r\n{}")
            if kind == "deep":
                conn.sendall(start + b"Content-Length: 4000000\r\n\r\n" + b"[" * 4000000)
            if kind == "values":
                conn.sendall(start + b"Content-Length: 8000001\r\n\r\n[" + b"1," * 4000000)
            if kind == "chunks":
                conn.sendall(start + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\nzz\r\n")
            if kind == "http2":
                conn.sendall(b"PRI * HTTP/2.0\r\n\r\n\0\0\0\4\0\0\0\0\0")
            if kind == "informational":
                while True:
                    conn.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            if kind == "gzip":
                import gzip
                body = gzip.compress(b" " * 100_000_000)
                conn.sendall(start + f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return talk
    for kind in ("headers", "body", "slow", "length", "deep", "values", "chunks", "http2", "informational", "gzip"):
        with Rig(api=False) as rig:
            port = fake_server(rig, None, raw(kind))
            rig.start_agent(f"--api-server=http://127.0.0.1:{port[0]}", f"--plugins-registry-dir={rig.registry}",
                            "--request-timeout=3s", defaults=False)
            rig.driver("a.example.com")
            wait_for(lambda: port[1], "request")
            time.sleep(5)
            use = rig.usage()
            status = rig.status()
            message = ((status["api"].get("lastError") or {}).get("message") or "no error")[:200]
            check(use["rss"] < 120_000, f"{kind}: {use}")
            out.append(f"{kind}: {use['rss'] >> 10} MiB, {len(port[1])} requests, {status['api']['state']}, "
                       f"{message}; stop {rig.stop_agent():.2f} s")
    return "\n    " + "\n    ".join(out)


def watch_faults():
    """The CSIDriver watch floods, sends garbage, bookmarks, errors, ends at once, stalls; registrations go on."""
    out = []
    with Rig("on") as rig:
        rig.start_agent("--feature-gates=CSIControllerGetNodeInfo=true")
        rig.driver("a.example.com", "--capabilities=9")
        rig.registered("a.example.com")
        wait_for(lambda: rig.ctl("GET", "/counts"), "counts")
        match = {"resource": "csidrivers"}
        for i, (what, more) in enumerate((("garbage", {"text": "}{\n\1\xff\n"}), ("garbage", {"text": "x" * 2_000_000}),
                                          ("garbage", {"text": '{"type":"ADDED","object":null}\n' * 20000}),
                                          ("garbage", {"text": '{"type":"ADDED","object":{"kind":"CSIDriver","metadata":{"name":5}}}\n'}),
                                          ("garbage", {"text": '{"type":7}\n[]\n""\n\n\n'}), ("bookmark", {}),
                                          ("error", {"status": {"code": 410, "reason": "Expired"}}),
                                          ("error", {"status": {"code": 500}}), ("expire", {}), ("close", {"how": "midFrame"}),
                                          ("close", {"how": "rst"}), ("stall", {"ms": 3000}), ("duplicate", {"count": 50}),
                                          ("swallow", {"count": 50}))):
            wait_for(lambda: rig.ctl("GET", "/wait?openWatches=1&resource=csidrivers&timeoutMs=60000") is not None, "a watch")
            hit = rig.ctl("POST", "/watches/" + what, {"match": match, **more})
            rig.driver(f"w{i}.example.com", "--capabilities=9")
            rig.registered(f"w{i}.example.com")
            out.append(f"{what} {str(more)[:50]}: {hit}")
        rig.rule({"status": 500}, resource="csidrivers", verb="watch")
        rig.rule({"status": 500}, resource="csidrivers", verb="list")
        rig.ctl("POST", "/watches/close", {"match": match, "how": "rst"})
        rig.driver("down.example.com", "--capabilities=9")
        time.sleep(3)
        out.append(f"list and watch 500: {rig.driver_state('down.example.com')} {rig.socket('down')}")
        rig.clear_rules()
        rig.registered("down.example.com")
        out.append(str(rig.usage()))
        rig.stop_agent()
    return "\n    " + "\n    ".join(out)


def csidriver_flood():
    """6,000 CSIDrivers: bounded memory, a warning past 4,096; a late object of a driver flips its flow."""
    with Rig("on") as rig:
        rig.start_agent("--feature-gates=CSIControllerGetNodeInfo=true")
        rig.driver("a.example.com", "--capabilities=9")
        rig.registered("a.example.com")
        before = rig.usage()
        for i in range(3000):
            rig.do("POST", "/apis/storage.k8s.io/v1/csidrivers", {
                "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": f"d{i}.example.com"},
                "spec": {"attachRequired": True}})
        rig.do("POST", "/apis/storage.k8s.io/v1/csidrivers", {
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "a.example.com"},
            "spec": {"attachRequired": False}})
        wait_for(lambda: "a.example.com" in rig.entries() and not rig.entries("driverRegistrations"), "flow flipped")
        for i in range(3000, 6000):
            rig.do("POST", "/apis/storage.k8s.io/v1/csidrivers", {
                "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": f"d{i}.example.com"},
                "spec": {"attachRequired": False}})
        time.sleep(2)
        after = rig.usage()
        rig.driver("d5999.example.com", "--capabilities=9")
        time.sleep(2)
        rig.alive()
        info = (rig.driver_state("d5999.example.com"), rig.socket("d5999"), rig.status()["api"].get("warnings"),
                [e for e in rig.entries("driverRegistrations")])
        rig.stop_agent()
        return f"{before} {after} {info}"


def objects_vanish():
    """Node deleted and made anew, CSINode deleted, edited by a fighter at each write: repaired, foreign data kept."""
    with Rig() as rig:
        rig.start_agent("--verify-interval=2s")
        rig.driver("a.example.com", "--topology=zone=z1")
        rig.registered("a.example.com")
        rig.do("DELETE", "/apis/storage.k8s.io/v1/csinodes/n1")
        wait_for(lambda: "a.example.com" in rig.entries(), "CSINode back")
        rig.do("DELETE", "/api/v1/nodes/n1")
        time.sleep(2)
        rig.driver("b.example.com")
        message = rig.failed("/b.example.com")
        rig.do("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
        uid = rig.node()["metadata"]["uid"]
        wait_for(lambda: rig.csinode()["metadata"]["ownerReferences"][0]["uid"] == uid
                 and set(rig.entries()) == {"a.example.com", "b.example.com"}, "CSINode of the new Node")
        wait_for(lambda: rig.node()["metadata"]["labels"].get("zone") == "z1", "label back")
        rig.rule({"conflict": {"edit": {"metadata": {"labels": {"fight": "yes"}}}}}, verb="update", resource="csinodes")
        rig.driver("c.example.com")
        time.sleep(3)
        rig.clear_rules()
        rig.registered("c.example.com")
        rig.stop_agent()
        return message


if __name__ == "__main__":
    sys.exit(main([retry_after, lies, lying_writes, lying_delete, network, credentials, token_leak, endless_answers,
                   watch_faults, csidriver_flood, objects_vanish]))
