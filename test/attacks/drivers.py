#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks by drivers and registrars. Usage: drivers.py [ATTACK...]; BIN=directory of the programs."""
import os, signal, socket, sys, threading, time
from rig import Rig, check, main, wait_for


def varint(n):
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    return varint(number << 3 | 2) + varint(len(value)) + value


def bad_among_good():
    """Drivers that are silent, talk garbage or HTTP/1, hang up, or hang in each RPC, beside one good: that registers."""
    with Rig("on") as rig:
        rig.start_agent("--feature-gates=CSIControllerGetNodeInfo=true")
        for peer in ("silent", "garbage", "http1", "close"):
            rig.driver(f"r-{peer}.example.com", "--registration-peer=" + peer)
            rig.driver(f"s-{peer}.example.com", "--service-peer=" + peer)
        for method in ("GetInfo", "NodeGetCapabilities", "NodeGetInfo", "NotifyRegistrationStatus"):
            rig.driver(f"h-{method.lower()}.example.com", "--hang=" + method)
        wait_for(lambda: len(rig.status()["sockets"]) == 12, "12 bad sockets")
        before = time.monotonic()
        rig.driver("good.example.com", "--topology=zone=z1")
        rig.registered("good.example.com")
        took = time.monotonic() - before
        messages = [rig.failed(f"r-{p}.example.com") for p in ("garbage", "http1", "close")]
        messages += [rig.failed(f"s-{p}.example.com") for p in ("garbage", "http1", "close")]
        stop = rig.stop_agent()
        return f"good after {took:.2f} s, stop {stop:.2f} s\n    " + "\n    ".join(m[:300] for m in messages)


def strange_texts():
    """Empty, NUL, invalid UTF-8, upper case, too long names, ids, keys: refused before any write, with a reason."""
    cases = {
        "n-empty": ["--plugin-name=hex:"], "n-nul": ["--plugin-name=hex:6100 62".replace(" ", "")],
        "n-utf8": ["--plugin-name=hex:ff61"], "n-long": ["--plugin-name=" + "a" * 64],
        "n-dots": ["--plugin-name=../../etc"], "n-line": ["--plugin-name=hex:610a62"],
        "t-empty": ["--plugin-type=hex:"], "t-case": ["--plugin-type=csiplugin"],
        "e-rel": ["--report-endpoint=csi.sock"], "e-abs": ["--report-endpoint=@abstract"],
        "e-tcp": ["--report-endpoint=tcp://127.0.0.1:1"], "e-nul": ["--report-endpoint=hex:2f746d7000782f79"],
        "e-long": ["--report-endpoint=/" + "e" * 4100], "e-dir": ["--report-endpoint=/tmp"],
        "e-self": [], "v-none": ["--versions=garbage,2.0.0"], "v-big": ["--versions=1.99999999999999999999"],
        "i-empty": ["--node-id=hex:"], "i-nul": ["--node-id=hex:610062"], "i-long": ["--node-id=" + "i" * 257],
        "i-utf8": ["--node-id=hex:6e00ff"], "k-empty": ["--topology==v"], "k-bad": ["--topology=a/b/c=v"],
        "k-value": ["--topology=zone=white space"], "k-long": ["--topology=zone=" + "v" * 64],
        "k-many": ["--topology-count=129"], "m-pad": ["--padding=NodeGetInfo=70000"],
        "m-big": ["--padding=GetInfo=4000000"], "m-junk": ["--response-hex=NodeGetInfo=ffffffffff"],
        "m-info": ["--response-hex=GetInfo=0a80808080"],
    }
    with Rig() as rig:
        rig.start_agent()
        for name, flags in cases.items():
            rig.driver(name, *flags)
        rig.driver("good.example.com")
        rig.registered("good.example.com")
        lines = []
        for name in cases:
            if name == "e-self":
                rig.registered(name)
                continue
            message = rig.failed(f"/{name}-reg.sock")
            check("\n" not in message and "\0" not in message and len(message.encode()) <= 2048, f"message {message!r}")
            lines.append(f"{name}: {message[:220]}")
        check(set(rig.entries()) == {"good.example.com", "e-self"}, f"entries {set(rig.entries())}")
        rig.stop_agent()
        return "\n    " + "\n    ".join(lines)


def upper_case_name():
    """An upper-case name is allowed; one that differs only in case is another driver."""
    with Rig() as rig:
        rig.start_agent()
        rig.driver("low.example.com")
        rig.driver("up", "--plugin-name=LOW.example.com")
        rig.registered("low.example.com")
        wait_for(lambda: rig.driver_state("LOW.example.com") == "registered" or rig.socket("/up-").get("lastError"), "up")
        entries, socket_state = set(rig.entries()), rig.socket("/up-")
        rig.stop_agent()
        return f"{entries} {socket_state}"


def limits():
    """Negative, zero, huge limits, one that changes at each answer."""
    with Rig() as rig:
        rig.start_agent()
        for i, n in enumerate(("-1", "0", "1", "2147483647", "2147483648", str(2**63 - 1), str(-2**63))):
            rig.driver(f"l{i}.example.com", "--limit=" + n)
            rig.registered(f"l{i}.example.com")
        entries = rig.entries()
        counts = [(entries[f"l{i}.example.com"].get("allocatable") or {}).get("count") for i in range(7)]
        check(counts == [None, None, 1, 2147483647, 2147483647, 2147483647, None], str(counts))
        rig.stop_agent()


def same_name_war():
    """Eight sockets of one name and version, all live; then killed one by one: the name stays registered to the end."""
    with Rig() as rig:
        rig.start_agent()
        drivers = []
        for i in range(8):
            drivers.append(rig.spawn([f"{os.environ.get('BIN', 'build/bin')}/csireg-mock-driver",
                                      "--name=a.example.com", "--node-id=id",
                                      f"--endpoint={rig.path(f'{i}.csi')}", f"--calls={rig.path(f'{i}.calls')}",
                                      f"--registration-socket={rig.registry}/{i}.sock"], f"d{i}"))
        wait_for(lambda: len(rig.status()["sockets"]) == 8, "8 sockets")
        rig.registered("a.example.com")
        while len(drivers) > 1:
            drivers.pop().terminate()
            count = len(drivers)
            wait_for(lambda: len(rig.status()["sockets"]) == count, "one fewer")
            rig.registered("a.example.com")
        history = rig.ctl("GET", "/history/csinodes/n1")
        drivers.pop().terminate()
        wait_for(lambda: not rig.entries(), "gone with the last")
        rig.stop_agent()
        return f"{len(history if isinstance(history, list) else history.get('versions', []))} versions of the CSINode"


def colliding_topology():
    """Two drivers report different values for one label key: the second fails with both values, the first stays."""
    with Rig() as rig:
        rig.start_agent()
        rig.driver("a.example.com", "--topology=example.com/zone=z1")
        rig.registered("a.example.com")
        rig.driver("b.example.com", "--topology=example.com/zone=z2")
        message = rig.failed("/b.example.com", "z2")
        check("z1" in message, message)
        check(rig.node()["metadata"]["labels"]["example.com/zone"] == "z1", "label changed")
        check(set(rig.entries()) == {"a.example.com"}, "entries")
        rig.stop_agent()
        return message


def fickle_answers():
    """Node id, name and flow change with each restart of a driver (40 times); foreign data survives every write."""
    foreign = {"name": "foreign.example.com", "nodeID": "f", "topologyKeys": ["k/f"], "allocatable": {"count": 7}}
    with Rig("on") as rig:
        uid = rig.node()["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid}
        code, made = rig.do("POST", "/apis/storage.k8s.io/v1/csinodes", {
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {
                "name": "n1", "ownerReferences": [owner], "labels": {"foreign": "l"}, "annotations": {"foreign": "a"}},
            "spec": {"drivers": [foreign], "driverRegistrations": [{"name": "f2.example.com", "nodeID": "x"}]}})
        check(code == 201, f"{code} {made}")
        rig.do("PATCH", "/api/v1/nodes/n1", {"metadata": {"annotations": {
            "csi.volume.kubernetes.io/nodeid": '{"foreign.example.com":"f"}'}}}, "application/merge-patch+json")
        rig.start_agent("--feature-gates=CSIControllerGetNodeInfo=true")
        for i in range(20):
            flags = ["--plugin-name=" + ("a.example.com" if i % 5 else "b.example.com"), f"--node-id=id{i}",
                     f"--topology=k{i % 3}=v", "--limit=" + str(i * 7 - 30)] + (["--capabilities=9"] if i % 2 else [])
            driver = rig.driver("x", *flags)
            name = flags[0].split("=")[1]
            def there():
                lists = (rig.entries(), rig.entries("driverRegistrations"))
                return any(l.get(name, {}).get("nodeID") == f"id{i}" for l in lists)
            wait_for(there, f"{name} with id{i}: {rig.status()['sockets']}")
            driver.send_signal(signal.SIGKILL if i % 2 else signal.SIGTERM)
            driver.wait()
            for path in (f"{rig.registry}/x-reg.sock", rig.path("x.csi")):
                if os.path.exists(path):
                    os.unlink(path)
        wait_for(lambda: set(rig.entries()) == {"foreign.example.com"}
                 and set(rig.entries("driverRegistrations")) == {"f2.example.com"}, "own entries gone, foreign ones there")
        now = rig.csinode()
        check(now["spec"]["drivers"] == [foreign], f"foreign entry changed: {now['spec']}")
        check([r["name"] for r in now["spec"]["driverRegistrations"]] == ["f2.example.com"], "foreign registration")
        check(now["metadata"]["labels"] == {"foreign": "l"} and now["metadata"]["annotations"]["foreign"] == "a", "metadata")
        wait_for(lambda: rig.node()["metadata"]["annotations"].get("csi.volume.kubernetes.io/nodeid")
                 == '{"foreign.example.com":"f"}', "annotation as before")
        rig.stop_agent()


def many_capabilities():
    """1,000 capabilities with 9 as the last; 5,000 are refused or taken, nothing breaks; unknown numbers are skipped."""
    with Rig("on") as rig:
        rig.start_agent("--feature-gates=CSIControllerGetNodeInfo=true")
        def list_of(numbers):
            return b"".join(field(1, field(1, field(1, n))) for n in numbers).hex()
        rig.driver("a.example.com", "--response-hex=NodeGetCapabilities=" + list_of([2**31 - 1] * 999 + [9]))
        rig.driver("b.example.com", "--response-hex=NodeGetCapabilities=" + list_of([1] * 5000 + [9]))
        rig.driver("c.example.com", "--response-hex=NodeGetCapabilities=" + list_of([-1, 2**40 + 9]))
        rig.driver("d.example.com", "--response-hex=NodeGetCapabilities=" + "0a00" * 20000)
        rig.registered("a.example.com")
        check("a.example.com" in rig.entries("driverRegistrations"), "a is not in the controller flow")
        message = rig.failed("/b.example.com")
        time.sleep(1)
        state = {n: rig.driver_state(n + ".example.com") for n in "abcd"}
        took = rig.stop_agent()
        return f"{state} stop {took:.2f} s: {message[:200]}"


def stopped_driver():
    """A registered driver is SIGSTOPped, another too while it is asked: nothing blocks, SIGCONT heals."""
    with Rig() as rig:
        rig.start_agent("--getinfo-timeout=2s")
        a = rig.driver("a.example.com")
        rig.registered("a.example.com")
        a.send_signal(signal.SIGSTOP)
        b = rig.driver("b.example.com", "--delay=GetInfo=500ms")
        wait_for(lambda: rig.socket("/b.example.com"), "b seen")
        b.send_signal(signal.SIGSTOP)
        rig.driver("c.example.com")
        rig.registered("c.example.com")
        rig.failed("/b.example.com")
        b.send_signal(signal.SIGCONT)
        a.send_signal(signal.SIGCONT)
        rig.registered("a.example.com", "b.example.com", "c.example.com")
        rig.stop_agent()


def byte_by_byte():
    """A peer that sends a valid HTTP/2 SETTINGS frame one byte a time and then PINGs for ever; another floods DATA."""
    with Rig() as rig:
        rig.start_agent()
        stop = threading.Event()
        sent = [0]
        def serve(path, talk):
            server = socket.socket(socket.AF_UNIX)
            server.bind(path)
            server.listen(8)
            server.settimeout(0.3)
            while not stop.is_set():
                try:
                    conn = server.accept()[0]
                    conn.settimeout(1)
                    talk(conn)
                except OSError:
                    pass
        def slowly(conn):
            for byte in b"\0\0\0\4\0\0\0\0\0" + b"\0\0\x08\6\0\0\0\0\0ping1234" * 1000:
                if stop.is_set():
                    return
                conn.sendall(bytes([byte]))
                stop.wait(0.02)
        def flood(conn):
            conn.sendall(b"\0\0\0\4\0\0\0\0\0")
            frame = b"\0\x40\0\0\0\0\0\0\1" + b"x" * 16384
            while not stop.is_set():
                conn.sendall(frame)
                sent[0] += len(frame)
        def pings(conn):
            conn.sendall(b"\0\0\0\4\0\0\0\0\0")
            while not stop.is_set():
                conn.sendall(b"\0\0\x08\6\0\0\0\0\0ping1234" * 500)
                sent[0] += 8500
        def headers(conn):
            conn.sendall(b"\0\0\0\4\0\0\0\0\0\0\x40\0\1\0\0\0\0\1" + b"\x82" * 16384)
            while not stop.is_set():
                conn.sendall(b"\0\x40\0\x09\0\0\0\0\1" + b"\0\x7f\xff\x7f" * 4096)
                sent[0] += 16393
        threads = [threading.Thread(target=serve, args=(f"{rig.registry}/{t.__name__}.sock", t))
                   for t in (slowly, flood, pings, headers)]
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: len(rig.status()["sockets"]) == 4, "4 sockets")
            rig.driver("good.example.com")
            rig.registered("good.example.com")
            before = rig.usage()
            time.sleep(float(os.environ.get("FLOOD_SECONDS", "15")))
            after = rig.usage()
            states = [(s["path"][-12:], s.get("state"), s.get("attempts")) for s in rig.status()["sockets"]]
            check(after["rss"] < before["rss"] + 40000, f"memory {before} {after}")
            took = rig.stop_agent()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        return f"{before} {after} {states} sent {sent[0] >> 20} MiB, stop {took:.2f} s"


def deaf_peer():
    """A peer that sends PINGs until its own sending blocks and never reads: the call ends at its deadline, SIGTERM too."""
    with Rig() as rig:
        rig.start_agent("--getinfo-timeout=2s")
        server = socket.socket(socket.AF_UNIX)
        server.bind(rig.registry + "/deaf.sock")
        server.listen(8)
        stop, held = threading.Event(), []
        def serve():
            while not stop.is_set():
                try:
                    conn = server.accept()[0]
                except OSError:
                    return
                held.append(conn)
                conn.settimeout(1)
                try:
                    conn.sendall(b"\0\0\0\4\0\0\0\0\0")
                    while True:
                        conn.sendall(b"\0\0\x08\6\0\0\0\0\0ping1234" * 500)
                except OSError:
                    pass
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            rig.driver("good.example.com")
            rig.registered("good.example.com")
            rig.failed("/deaf", seconds=30)
            rig.stop_agent()
        finally:
            stop.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
        return f"{len(held)} connections"


def endpoint_is_registry_socket_of_other():
    """A registrar reports another driver's registration socket, then its own path, as the endpoint."""
    with Rig() as rig:
        rig.start_agent()
        rig.driver("a.example.com")
        rig.registered("a.example.com")
        rig.driver("b.example.com", f"--report-endpoint={rig.registry}/a.example.com-reg.sock")
        message = rig.failed("/b.example.com")
        rig.driver("c.example.com", "--report-endpoint=" + rig.path("a.example.com.csi"))
        rig.registered("c.example.com")
        check(rig.driver_state("a.example.com") == "registered", "a disturbed")
        rig.stop_agent()
        return message


def service_socket_in_registry():
    """The driver's service socket lies in the registry: the message asks whether it is that; few attempts."""
    with Rig() as rig:
        rig.start_agent()
        rig.driver("a.example.com", "--endpoint=" + rig.registry + "/csi.sock")
        rig.registered("a.example.com")
        message = rig.failed("/csi.sock")
        check("service socket" in message, message)
        check(rig.driver_state("a.example.com") == "registered", "a disturbed")
        rig.stop_agent()
        return message


def hundred_drivers():
    """120 drivers arrive at once, are killed at once, come again: all registered, requests shared, then all gone."""
    with Rig() as rig:
        rig.start_agent()
        for _ in range(2):
            many = rig.spawn([f"{os.environ.get('BIN', 'build/bin')}/csireg-mock-driver", "--count=120",
                              "--name=d%d.example.com", "--endpoint=" + rig.path("d%d.csi"), "--node-id=id%d",
                              "--calls=" + rig.path("many.calls"),
                              "--registration-socket=" + rig.registry + "/%d.sock"], "many")
            wait_for(lambda: len(rig.entries()) == 120 and all(
                d["state"] == "registered" for d in rig.status()["drivers"]), "120 registered")
            use = rig.usage()
            many.terminate()
            wait_for(lambda: not rig.entries(), "all gone")
        history = rig.status()["api"]["requests"]
        rig.stop_agent()
        return f"{use} {history}"


if __name__ == "__main__":
    sys.exit(main([bad_among_good, strange_texts, upper_case_name, limits, same_name_war, colliding_topology,
                   fickle_answers, many_capabilities, stopped_driver, byte_by_byte, deaf_peer,
                   endpoint_is_registry_socket_of_other, service_socket_in_registry, hundred_drivers]))
