#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attacks through the file system of the registry. Usage: registry.py [ATTACK...]; BIN=directory of the programs."""
import os, random, shutil, socket, sys, threading, time
from rig import Rig, check, main, wait_for


def strange_files():
    """FIFO, device, regular file, link loop, dangling link, link to a directory, dot names: none is dialled."""
    with Rig() as rig:
        reg = rig.registry
        os.mkfifo(f"{reg}/fifo-reg.sock")
        if os.geteuid() == 0:
            os.mknod(f"{reg}/null-reg.sock", 0o20666, os.makedev(1, 3))
        open(f"{reg}/file-reg.sock", "w").close()
        os.symlink("loop", f"{reg}/loop")
        os.symlink("b", f"{reg}/a"), os.symlink("a", f"{reg}/b")
        os.symlink(rig.dir, f"{reg}/up")
        os.symlink("/nowhere/x", f"{reg}/dangling-reg.sock")
        os.mkdir(f"{reg}/.hidden")
        hidden = socket.socket(socket.AF_UNIX)
        hidden.bind(f"{reg}/.hidden/x.sock")
        rig.start_agent()
        rig.driver("a.example.com")
        rig.registered("a.example.com")
        paths = [s["path"] for s in rig.status()["sockets"]]
        check(len(paths) == 1, f"sockets {paths}")
        rig.stop_agent()


ODD = [b"new\nline.sock", b"tab\tcr\r.sock", "žluťoučký-🐎.sock".encode(), b"\xff\xfe\x80.sock", b"\x1b[31mred.sock",
       b"<script>alert(1)<br>.sock", b"%s%n%x.sock", b"quote\"'\\.sock", b" ", b"-rf", b"x" * 255,
       "é".encode() * 127, b"\xed\xa0\x80.sock", b"\xc0\xaf.sock", b"a\x7f.sock"]


def not_utf8(name):
    try:
        name.decode()
    except UnicodeDecodeError:
        return True
    return False


def odd_names():
    """Names with line ends, invalid bytes, 255 bytes, markup: status stays JSON, log lines stay lines, page escapes."""
    with Rig() as rig:
        reg = rig.registry.encode()
        rig.start_agent()
        os.chdir(reg)
        dead = []
        for name in ODD:
            sock = socket.socket(socket.AF_UNIX)
            short = b"." + str(len(dead)).encode()
            sock.bind(short)
            os.rename(short, name)
            dead.append(sock)
        os.chdir("/")
        rig.driver("a.example.com", socket_name="ok $(touch x) 'q' \U0001f40e.sock")
        rig.registered("a.example.com")
        text = [name for name in ODD if not_utf8(name) is False]
        wait_for(lambda: len(rig.status()["sockets"]) == len(text) + 1, "all odd names in status")
        check("not UTF-8" in str(rig.status()["registry"].get("warnings")), "no warning about names that are no text")
        page = rig.get("/")[1]
        check(b"<script>alert" not in page, "markup of a file name in the page")
        page.decode("utf-8")
        check(b"\x1b[31m" not in page and b"\x1b" not in rig.log().encode(), "escape sequence in page or log")
        stray = [line for line in rig.log().splitlines() if line.strip() and not line[:1].isdigit() and line[:1] not in "IWED{t"]
        check(not any(line.startswith("line.sock") for line in stray), f"log line cut in two: {stray[:2]}")
        check(rig.get("/metrics")[0] == 200, "metrics")
        rig.stop_agent()


def flapping():
    """A socket that is made and removed about 1000 times a second for 5 s; another driver registers meanwhile."""
    with Rig() as rig:
        rig.start_agent()
        stop, count = threading.Event(), [0]
        def flap():
            while not stop.is_set():
                sock = socket.socket(socket.AF_UNIX)
                sock.bind(f"{rig.registry}/flap.sock")
                sock.close()
                os.unlink(f"{rig.registry}/flap.sock")
                count[0] += 1
        thread = threading.Thread(target=flap)
        thread.start()
        time.sleep(1)
        rig.driver("a.example.com")
        try:
            rig.registered("a.example.com")
            before = rig.usage()
            time.sleep(4)
        finally:
            stop.set()
            thread.join()
        wait_for(lambda: rig.socket("flap") is None, "flapped socket gone from status")
        after = rig.usage()
        check(after["fds"] <= before["fds"] + 8 and after["rss"] < before["rss"] + 20000, f"{before} {after}")
        took = rig.stop_agent()
        return f"{count[0]} flaps, {before} -> {after}, stop {took:.2f} s, log {len(rig.log())} bytes"


def rename_storm():
    """A live registration socket renamed to and fro; the final name decides."""
    with Rig() as rig:
        rig.start_agent()
        rig.driver("a.example.com", socket_name="0.sock")
        rig.registered("a.example.com")
        for i in range(400):
            os.rename(f"{rig.registry}/{i}.sock", f"{rig.registry}/{i + 1}.sock")
        rig.registered("a.example.com")
        wait_for(lambda: [s["path"] for s in rig.status()["sockets"]] == [f"{rig.registry}/400.sock"]
                 and rig.driver_state("a.example.com") == "registered", "final name")
        os.rename(f"{rig.registry}/400.sock", rig.path("out.sock"))
        wait_for(lambda: "a.example.com" not in rig.entries(), "moved out is gone")
        os.rename(rig.path("out.sock"), f"{rig.registry}/back.sock")
        rig.registered("a.example.com")
        rig.stop_agent()


def registry_deleted():
    """The registry is deleted, made a file, a link, a FIFO; comes back; the agent recovers each time."""
    with Rig() as rig:
        rig.start_agent()
        driver = rig.driver("a.example.com")
        rig.registered("a.example.com")
        shutil.rmtree(rig.registry)
        wait_for(lambda: "a.example.com" not in rig.entries(), "unregistered")
        wait_for(lambda: os.path.isdir(rig.registry), "registry made again")
        driver.terminate()
        driver.wait()
        for make in (lambda p: open(p, "w").close(), os.mkfifo, lambda p: os.symlink("/nowhere/at/all", p),
                     lambda p: os.symlink(p, p)):
            shutil.rmtree(rig.registry)
            try:
                make(rig.registry)
            except FileExistsError:
                continue
            time.sleep(0.5)
            rig.alive()
            print("   ", rig.status()["registry"])
            os.unlink(rig.registry)
            wait_for(lambda: os.path.isdir(rig.registry), "registry made again")
        rig.driver("b.example.com")
        rig.registered("b.example.com")
        rig.stop_agent()


def parent_moved():
    """The parent of the registry is renamed away and back while a driver is registered."""
    with Rig() as rig:
        parent = rig.path("var")
        os.mkdir(parent)
        rig.registry = parent + "/reg"
        os.mkdir(rig.registry)
        rig.start_agent("--create-registry=false")
        rig.driver("a.example.com")
        rig.registered("a.example.com")
        os.rename(parent, rig.path("elsewhere"))
        wait_for(lambda: "a.example.com" not in rig.entries(), "unregistered")
        os.rename(rig.path("elsewhere"), parent)
        rig.registered("a.example.com")
        rig.stop_agent()


def huge_tree():
    """3,000 directories, 12 levels, 3,000 sockets beside one driver: bounds hold, the driver registers."""
    with Rig() as rig:
        rig.driver("a.example.com", socket_name="0.sock")
        wait_for(lambda: os.path.exists(f"{rig.registry}/0.sock"), "driver")
        rig.start_agent()
        rig.registered("a.example.com")
        for i in range(3000):
            os.mkdir(f"{rig.registry}/d{i}")
        deep = rig.registry
        for i in range(12):
            deep += "/deep"
            os.mkdir(deep)
        for i in range(3000):
            sock = socket.socket(socket.AF_UNIX)
            sock.bind(f"{rig.registry}/s{i}.sock")
            sock.close()
        wait_for(lambda: len(rig.status()["sockets"]) == 1024, "1,024 sockets")
        check(rig.driver_state("a.example.com") == "registered", "driver disturbed")
        usage = rig.usage()
        warnings = rig.status()["registry"].get("warnings")
        check(warnings, "no warning about the bounds")
        for i in range(3000):
            os.unlink(f"{rig.registry}/s{i}.sock")
            os.rmdir(f"{rig.registry}/d{i}")
        rig.driver("b.example.com")
        rig.registered("b.example.com")
        wait_for(lambda: len(rig.status()["sockets"]) == 2, "two sockets left")
        return f"{usage} {warnings} stop {rig.stop_agent():.2f} s"


def permissions():
    """A socket that may not be connected to, a registry without read permission, both healed (agent as nobody)."""
    with Rig() as rig:
        if os.geteuid() != 0:
            return "skipped: not root"
        nobody = 65534
        os.chmod(rig.dir, 0o777)
        os.chmod(rig.path("kubeconfig"), 0o644)
        rig.start_agent(user=nobody, group=nobody, extra_groups=[])
        time.sleep(1)
        first = rig.status()["registry"]
        os.chmod(rig.registry, 0o755)
        rig.driver("a.example.com")
        wait_for(lambda: os.path.exists(f"{rig.registry}/a.example.com-reg.sock"), "socket")
        os.chmod(f"{rig.registry}/a.example.com-reg.sock", 0o600)
        message = rig.failed("a.example.com", "ermission")
        os.chmod(f"{rig.registry}/a.example.com-reg.sock", 0o777)
        os.chmod(rig.path("a.example.com.csi"), 0o777)
        rig.registered("a.example.com")
        rig.stop_agent()
        return f"{first} | {message}"


def foreign_owner():
    """With allowed-socket-owners a stranger's socket is not used, and an own one is."""
    with Rig() as rig:
        if os.geteuid() != 0:
            return "skipped: not root"
        rig.start_agent("--allowed-socket-owners=0")
        rig.driver("a.example.com", socket_name=".a")
        wait_for(lambda: os.path.exists(f"{rig.registry}/.a"), "socket")
        os.chown(f"{rig.registry}/.a", 65534, 65534)
        os.rename(f"{rig.registry}/.a", f"{rig.registry}/a.sock")
        message = rig.failed("a.sock")
        os.chown(f"{rig.registry}/a.sock", 0, 0)
        rig.registered("a.example.com")
        rig.stop_agent()
        return message


def replaced_by_directory():
    """A registered socket is replaced by a directory of its name with a socket in it, then the other way round."""
    with Rig() as rig:
        rig.start_agent()
        first = rig.driver("a.example.com", socket_name="x")
        rig.registered("a.example.com")
        first.kill()
        first.wait()
        if os.path.exists(f"{rig.registry}/x"):
            os.unlink(f"{rig.registry}/x")
        os.mkdir(f"{rig.registry}/x")
        rig.driver("b.example.com", socket_name="x/y")
        rig.registered("b.example.com")
        wait_for(lambda: set(rig.entries()) == {"b.example.com"}, "only b")
        rig.stop_agent()


def random_churn():
    """Sockets, directories, links and files made, renamed and removed at random for 10 s; the end state decides."""
    with Rig() as rig:
        rig.start_agent()
        rng = random.Random(7)
        reg, end, n = rig.registry, time.monotonic() + 10, 0
        while time.monotonic() < end:
            a, b = (f"{reg}/{rng.choice('pqr')}{rng.choice(['', '/u', '/v'])}" for _ in "12")
            try:
                match rng.randrange(7):
                    case 0: os.mkdir(a)
                    case 1: socket.socket(socket.AF_UNIX).bind(a)
                    case 2: os.rename(a, b)
                    case 3: os.unlink(a)
                    case 4: os.path.isdir(a) and not os.path.islink(a) and shutil.rmtree(a)
                    case 5: os.symlink(b, a)
                    case 6: os.mkfifo(a)
            except OSError:
                pass
            n += 1
            if n % 50 == 0:
                time.sleep(0.002)
        def same():
            found = set()
            for base, _, names in os.walk(reg):
                for name in names:
                    path = os.path.join(base, name)
                    if os.path.exists(path) and os.stat(path).st_mode & 0o170000 == 0o140000:
                        found.add(path)
            return found == {s["path"] for s in rig.status()["sockets"]} and (found or True)
        wait_for(same, "status equals the tree")
        rig.driver("z.example.com")
        rig.registered("z.example.com")
        took = rig.stop_agent()
        return f"{n} steps, stop {took:.2f} s"


def long_path():
    """A registry path far above 107 bytes, drivers registered and unregistered there."""
    with Rig() as rig:
        rig.registry = rig.path("/".join(["p" * 200] * 15))
        os.makedirs(rig.registry)
        rig.start_agent()
        rig.driver("a.example.com", directory=rig.registry)
        try:
            rig.registered("a.example.com")
        finally:
            print("   ", len(rig.registry), open(rig.path("driver-a.example.com.err")).read()[-300:])
        rig.stop_agent()


if __name__ == "__main__":
    sys.exit(main([strange_files, odd_names, flapping, rename_storm, registry_deleted, parent_moved, huge_tree,
                   permissions, foreign_owner, replaced_by_directory, random_churn, long_path]))
