#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks on the process and its flags. Usage: process.py [ATTACK...]; BIN=directory of the programs."""
import os, random, resource, signal, subprocess, sys, time
from rig import BIN, Rig, check, main, unix_request, wait_for


def run(*words, seconds=60, **more):
    return subprocess.run([f"{BIN}/{words[0]}", *words[1:]], capture_output=True, text=True, timeout=seconds, **more)


FLAGS = [[], ["--node-name="], ["--node-name"], ["--node-name=../x"], ["--node-name=UPPER"], ["--node-name=" + "a" * 300],
         ["--node-name=a\nb"], ["--node-name=\xff"], ["--nonsense"], ["stray"], ["--"], ["-"], ["---node-name=n1"],
         ["--node-name=n1", "--connect-timeout=-1s"], ["--node-name=n1", "--connect-timeout=99999999999999999999h"],
         ["--node-name=n1", "--connect-timeout=1e9s"], ["--node-name=n1", "--connect-timeout=5"],
         ["--node-name=n1", "--connect-timeout=0s"], ["--node-name=n1", "--rescan-period=0"],
         ["--node-name=n1", "--local-only=perhaps"], ["--node-name=n1", "--feature-gates=Nonsense=true"],
         ["--node-name=n1", "--feature-gates=CSIControllerGetNodeInfo=maybe"], ["--node-name=n1", "--feature-gates=,=,"],
         ["--node-name=n1", "--node-info-from-controller-capability=3"],
         ["--node-name=n1", "--node-info-from-controller-capability=-9"],
         ["--node-name=n1", "--node-info-from-controller-capability=99999999999999999999"],
         ["--node-name=n1", "--log-level=loud"], ["--node-name=n1", "--log-format=xml"],
         ["--node-name=n1", "--same-name=last"], ["--node-name=n1", "--registration-dropped=explode"],
         ["--node-name=n1", "--kubeconfig=/nowhere"], ["--node-name=n1", "--kubeconfig=/dev/null"],
         ["--node-name=n1", "--kubeconfig=/dev/zero"], ["--node-name=n1", "--kubeconfig=/tmp"],
         ["--node-name=n1", "--kubeconfig=/proc/self/mem"],
         ["--node-name=n1", "--api-server=ftp://x"], ["--node-name=n1", "--api-server=https://user:s3cret@x"],
         ["--node-name=n1", "--api-server=http://[::1"], ["--node-name=n1", "--api-token=s3cret\nX-Evil: 1"],
         ["--node-name=n1", "--api-server=https://x", "--kubeconfig=/x"], ["--node-name=n1", "--allowed-socket-owners=root"],
         ["--node-name=n1", "--label-prefixes=,"], ["--node-name=n1", "--local-only", "--http-endpoint=nonsense"],
         ["--node-name=n1", "--local-only", "--http-endpoint=127.0.0.1:99999"],
         ["--node-name=n1", "--local-only", "--http-endpoint=unix:/" + "x" * 200],
         ["--node-name=n1", "--local-only", "--http-endpoint=unix:/nowhere/x"],
         ["--node-name=n1", "--local-only", "--plugins-registry-dir=" + "/x" * 3000]]


def odd_flags():
    """Each ends by itself with 1 or 2 and one understandable text, without a crash or a secret."""
    out = []
    for flags in FLAGS:
        try:
            done = run("csireg-agent", *flags, seconds=20)
        except subprocess.TimeoutExpired:
            out.append(f"{flags} RUNS")
            continue
        text = done.stderr + done.stdout
        check(done.returncode in (1, 2), f"{flags}: {done.returncode} {text[-300:]}")
        check(text.strip() and "s3cret" not in text, f"{flags}: {text[-300:]}")
        out.append(f"{str(flags)[:90]} -> {done.returncode} {text.strip().splitlines()[-1][:150]}")
    return "\n    " + "\n    ".join(out)


def duplicate_flags():
    """A flag twice, the largest durations, a gate twice: it starts, works, stops."""
    with Rig() as rig:
        rig.start_agent("--rescan-period=1s", "--rescan-period=2s", "--gather-window=0", "--verify-interval=0",
                        "--feature-gates=CSIControllerGetNodeInfo=true,CSIControllerGetNodeInfo=false")
        rig.driver("a.example.com")
        rig.registered("a.example.com")
        gates = rig.status()["gates"]
        rig.stop_agent()
        return str(gates)


def term_at_odd_moments():
    """SIGTERM (and SIGINT at once after it) 40 times, 0 to 400 ms after the start, among drivers that hang: always 0."""
    with Rig() as rig:
        for peer in ("silent", "garbage"):
            rig.driver(f"{peer}.example.com", "--registration-peer=" + peer)
        rig.driver("hang.example.com", "--hang=NodeGetInfo")
        rig.driver("a.example.com")
        worst, rng = 0, random.Random(3)
        for i in range(40):
            agent = rig.spawn([f"{BIN}/csireg-agent", "--node-name=n1", "--kubeconfig=" + rig.path("kubeconfig"),
                               "--plugins-registry-dir=" + rig.registry], f"odd{i}")
            time.sleep(0.15 + rng.random() * 0.4)
            before = time.monotonic()
            agent.terminate()
            if i % 2:
                agent.send_signal(signal.SIGINT)
            try:
                rc = agent.wait(30)
            except subprocess.TimeoutExpired:
                rig.agent = agent
                check(False, "hangs on SIGTERM\n" + rig.stacks())
            worst = max(worst, time.monotonic() - before)
            check(rc == 0, f"run {i}: {rc} {open(rig.path(f'odd{i}.err')).read()[-300:]}")
        return f"worst {worst:.2f} s"


def kill_and_restart():
    """SIGKILL 25 times in a wave of 10 drivers that come and go; in the end exactly what lives is registered."""
    with Rig() as rig:
        rng, drivers = random.Random(5), {}
        for i in range(25):
            for n in rng.sample(range(10), 3):
                if n in drivers:
                    drivers[n].terminate()
                    drivers.pop(n).wait()
                else:
                    drivers[n] = rig.driver(f"d{n}.example.com", f"--node-id=i{n}", f"--topology=k{n}=v")
            agent = rig.start_agent()
            time.sleep(rng.random() * 0.3)
            agent.kill()
            agent.wait()
            os.path.exists(rig.path("http")) and os.unlink(rig.path("http"))
        for n in range(10):
            if n not in drivers:
                drivers[n] = rig.driver(f"d{n}.example.com", f"--node-id=i{n}")
        rig.start_agent()
        rig.registered(*(f"d{n}.example.com" for n in range(10)))
        check({e["nodeID"] for e in rig.entries().values()} == {f"i{n}" for n in range(10)}, "ids")
        rig.stop_agent()


def stale_http_socket():
    """The status socket of a killed agent is left: the next agent starts all the same."""
    with Rig() as rig:
        agent = rig.start_agent()
        agent.kill()
        agent.wait()
        rig.start_agent()
        rig.stop_agent()


def stop_and_continue():
    """SIGSTOP for 8 s while drivers come and go, SIGCONT: it catches up; SIGSTOP, SIGTERM, SIGCONT: it ends with 0."""
    with Rig() as rig:
        rig.start_agent()
        a = rig.driver("a.example.com")
        rig.registered("a.example.com")
        rig.agent.send_signal(signal.SIGSTOP)
        a.terminate(), a.wait()
        rig.driver("b.example.com")
        time.sleep(8)
        rig.agent.send_signal(signal.SIGCONT)
        rig.registered("b.example.com")
        wait_for(lambda: set(rig.entries()) == {"b.example.com"}, "a gone")
        rig.agent.send_signal(signal.SIGSTOP)
        rig.agent.terminate()
        time.sleep(0.5)
        rig.agent.send_signal(signal.SIGCONT)
        check(rig.agent.wait(30) == 0, "exit status")


def few_descriptors():
    """ulimit -n 12 to 40: it starts or tells why not; no crash; with 10 drivers the rest waits, tells, and heals."""
    out = []
    with Rig() as rig:
        for n in range(10):
            rig.driver(f"d{n}.example.com", f"--delay=GetInfo={n * 30}ms")
        for limit in (6, 9, 12, 14, 16, 18, 20, 24, 32, 40):
            log = f"fd{limit}"
            agent = rig.spawn([f"{BIN}/csireg-agent", "--node-name=n1", "--kubeconfig=" + rig.path("kubeconfig"),
                               "--plugins-registry-dir=" + rig.registry], log, [(resource.RLIMIT_NOFILE, limit)])
            time.sleep(4)
            rc = agent.poll()
            last = open(rig.path(log + ".err"), errors="replace").read().strip().splitlines()[-1:]
            check(rc in (None, 1), f"limit {limit}: {rc} {last}")
            if rc is None:
                before = time.monotonic()
                agent.terminate()
                try:
                    check(agent.wait(30) == 0, f"limit {limit}: exit {agent.returncode} {last}")
                except subprocess.TimeoutExpired:
                    rig.agent = agent
                    check(False, f"limit {limit}: hangs on SIGTERM\n" + rig.stacks())
                rc = f"stopped in {time.monotonic() - before:.2f} s"
            out.append(f"{limit}: {rc} {len(rig.entries())} entries; {str(last)[:200]}")
    return "\n    " + "\n    ".join(out)


def descriptors_come_back():
    """The descriptor limit drops to what is open while it runs, drivers come, the limit rises: all are registered."""
    with Rig() as rig:
        rig.start_agent()
        rig.driver("a.example.com")
        rig.registered("a.example.com")
        used = max(int(n) for n in os.listdir(f"/proc/{rig.agent.pid}/fd")) + 2
        resource.prlimit(rig.agent.pid, resource.RLIMIT_NOFILE, (used, 4096))
        for n in range(5):
            rig.driver(f"d{n}.example.com")
        time.sleep(5)
        rig.alive()
        cpu = sum(int(x) for x in open(f"/proc/{rig.agent.pid}/stat").read().split()[13:15])
        time.sleep(3)
        cpu = sum(int(x) for x in open(f"/proc/{rig.agent.pid}/stat").read().split()[13:15]) - cpu
        resource.prlimit(rig.agent.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        status = [(s["path"][-20:], (s.get("lastError") or {}).get("message", "")[:150]) for s in rig.status()["sockets"]]
        rig.registered("a.example.com", *(f"d{n}.example.com" for n in range(5)))
        rig.stop_agent()
        return f"cpu {cpu / 3:.0f} %, {status}"


def little_memory():
    """ulimit -v from 100 to 1,000 MB: it ends with 1 and tells, or works; never a signal but gRPC's own abort."""
    out = []
    with Rig() as rig:
        for n in range(5):
            rig.driver(f"d{n}.example.com")
        for mb in (60, 100, 150, 200, 250, 300, 400, 600):
            agent = rig.spawn([f"{BIN}/csireg-agent", "--node-name=n1", "--kubeconfig=" + rig.path("kubeconfig"),
                               "--plugins-registry-dir=" + rig.registry], f"m{mb}", [(resource.RLIMIT_AS, mb << 20)])
            time.sleep(3)
            rc = agent.poll()
            last = open(rig.path(f"m{mb}.err"), errors="replace").read().strip().splitlines()[-1:]
            if rc is None:
                agent.terminate()
                try:
                    rc = f"stopped with {agent.wait(30)}"
                except subprocess.TimeoutExpired:
                    rig.agent = agent
                    check(False, f"{mb} MB: hangs on SIGTERM\n" + rig.stacks())
            out.append(f"{mb} MB: {rc} {str(last)[:200]}")
    return "\n    " + "\n    ".join(out)


def flooded_status():
    """60 status readers that never read, send half a request, or send nonsense: registrations and the end go on."""
    import socket
    with Rig() as rig:
        rig.start_agent()
        held = []
        for i in range(60):
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(2)
            try:
                sock.connect(rig.path("http"))
                sock.sendall([b"GET /status HTTP/1.1\r\n\r\n" * 500, b"GET /sta", b"\0\xff" * 4000,
                              b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 9000,
                              b"GET /" + b"a" * 60000, b""][i % 6])
            except OSError:
                pass
            held.append(sock)
        rig.driver("a.example.com")
        wait_for(lambda: "a.example.com" in rig.entries(), "registered")
        use = rig.usage()
        took = rig.stop_agent()
        return f"{use} stop {took:.2f} s"


def registrar():
    """The registrar with odd flags, a driver that comes late, dies, hangs; its socket deleted; two on one name."""
    out = []
    for flags in ([], ["--csi-address=x"], ["--kubelet-registration-path="], ["--mode=x", "--kubelet-registration-path=/x"],
                  ["--timeout=-1s", "--kubelet-registration-path=/x"], ["--health-port=99999", "--kubelet-registration-path=/x"],
                  ["--health-port=1", "--http-endpoint=:2", "--kubelet-registration-path=/x"]):
        done = run("csireg-registrar", *flags, seconds=20)
        check(done.returncode == 2, f"{flags} {done.returncode} {done.stderr[-200:]}")
    with Rig() as rig:
        rig.start_agent()
        def start(tag):
            return rig.spawn([f"{BIN}/csireg-registrar", "--csi-address=" + rig.path("a.example.com.csi"), "--timeout=1s",
                              "--kubelet-registration-path=" + rig.path("a.example.com.csi"),
                              "--plugin-registration-path=" + rig.registry], tag)
        first = start("reg1")
        time.sleep(1)
        check(first.poll() is None, "ended without a driver")
        driver = rig.driver("a.example.com", "--fail-first=GetPluginInfo=2", "--hang=GetPluginInfo=1", own=False)
        rig.registered("a.example.com")
        os.unlink(f"{rig.registry}/a.example.com-reg.sock")
        wait_for(lambda: not rig.entries(), "unregistered")
        time.sleep(1)
        out.append(f"registrar after its socket was deleted: {first.poll()}")
        second = start("reg2")
        rig.registered("a.example.com")
        out.append(f"first after a second took the path: {first.poll()}")
        driver.kill(), driver.wait()
        time.sleep(0.5)
        for process in (first, second):
            before = time.monotonic()
            if process.poll() is None:
                process.terminate()
                check(process.wait(30) == 0, f"registrar ended with {process.returncode}")
                out.append(f"stop {time.monotonic() - before:.2f} s")
        check(not os.path.exists(f"{rig.registry}/a.example.com-reg.sock"), "registration socket left behind")
        rig.stop_agent()
    return str(out)


def registrar_waiting_stop():
    """SIGTERM to a registrar that waits for a missing, a silent and a stopped driver: 0 at once."""
    out = []
    with Rig() as rig:
        for i, peer in enumerate((None, "silent", "garbage", "close", "http1")):
            if peer:
                rig.driver(f"p{i}", "--service-peer=" + peer, own=False)
                time.sleep(0.3)
            process = rig.spawn([f"{BIN}/csireg-registrar", "--csi-address=" + rig.path(f"p{i}.csi"),
                                 "--kubelet-registration-path=/x", "--plugin-registration-path=" + rig.registry], f"r{i}")
            time.sleep(1)
            before = time.monotonic()
            process.terminate()
            check(process.wait(30) == 0, f"{peer}: {process.returncode}")
            out.append(f"{peer} {time.monotonic() - before:.2f} s")
    return str(out)


if __name__ == "__main__":
    sys.exit(main([odd_flags, duplicate_flags, term_at_odd_moments, kill_and_restart, stale_http_socket,
                   stop_and_continue, few_descriptors, descriptors_come_back, little_memory, flooded_status, registrar,
                   registrar_waiting_stop]))
