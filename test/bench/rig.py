# SPDX-License-Identifier: Apache-2.0
"""What is measured (csireg, the floor, the kubelet's packages), the drivers it is measured with, and the kernel's word
about a process."""
import collections
import os
import statistics
import subprocess

from harness import World
from procs import Process, check, until
from server import GoProcess
from servers import BASES

NODE_ID_KEY = "csi.volume.kubernetes.io/nodeid"
ROUND_MS = 60_000


class Tool(Process):
    """A program that takes commands on standard input and answers each with a line. The end of input ends it."""

    def __init__(self, world, name, argv):
        super().__init__(name, argv, world.directory, stdin=subprocess.PIPE)
        world.things.append(self)

    def tell(self, line):
        """Sends a command; the number of lines before its answer."""
        before = len(self.output())
        self.popen.stdin.write(line.encode() + b"\n")
        self.popen.stdin.flush()
        return before

    def ask(self, line, answer, timeout=ROUND_MS / 1000):
        """The words of the answer, behind the first."""
        return self.wait_line(lambda l: l.startswith(answer), timeout, self.tell(line)).split()[1:]

    def stop(self, number=None):
        if self.popen.stdin and not self.popen.stdin.closed:
            self.popen.stdin.close()
        return self.wait_exit()


class Fleet(Tool):
    """test/bench/drivers.c"""

    def __init__(self, world, name, registry, count, *flags):
        os.makedirs(registry, exist_ok=True)
        directory = world.path(name + ".d")
        os.makedirs(directory)
        self.directory, self.registry, self.count = directory, registry, count
        super().__init__(world, name, [os.path.join(world.bench, "drivers"), "--directory", directory, "--registry", registry,
                                       "--count", str(count), *flags])
        self.wait_line("ready")

    def appear(self, count, first=0):
        """When the first of them listened, in nanoseconds."""
        return int(self.ask(f"appear {first} {count}", "listening")[0])

    def notified(self, count):
        """When the last of them was told that it is registered; all must be."""
        good, bad, when = map(int, self.ask(f"await {count} {ROUND_MS}", "notified", 2 * ROUND_MS / 1000))
        check((good, bad) == (count, 0), f"{good} of {count} drivers were registered, {bad} were refused")
        return when

    def vanish(self, count, first=0):
        self.ask(f"vanish {first} {count}", "gone")

    def calls(self):
        return dict(zip(("GetInfo", "NodeGetCapabilities", "NodeGetInfo", "true", "false"), map(int, self.ask("calls", "calls"))))


class Bench(World):
    """A world with one API server and the programs to measure with. `bench` is their directory."""

    def __init__(self, build):
        self.bench = os.path.join(build, "bench")
        super().__init__(os.path.join(build, "bin"))

    def __exit__(self, kind, *_):
        logs = self.logs() if kind else ""
        wrong = self.close()
        if kind:
            print(logs, flush=True)
        else:
            check(not wrong, "\n".join(wrong))
        return False

    def use(self, server):
        """A server that is there already."""
        self.api = server
        return server

    def fleet_of(self, count, *flags, name="drivers"):
        return Fleet(self, name, self.registry, count, *flags)


# ---- what is measured ----

class Subject:
    """Something that registers drivers. A round: `count` drivers appear together, and later go together."""

    def __init__(self, world, fleet, process):
        self.world, self.api, self.fleet, self.process = world, world.api, fleet, process
        self.pid = process.pid

    def end(self):
        self.process.stop()

    def prepare(self, count, reads):
        """Before the drivers come."""

    def come(self, count, reads="none"):
        """Milliseconds from the first listening socket to the last notification."""
        self.prepare(count, reads)
        begin = self.fleet.appear(count)
        return (self.fleet.notified(count) - begin) / 1e6

    def go(self, count):
        self.fleet.vanish(count)
        until("the entries are gone", lambda: is_clean(self.api), pause=0.01)

    def round(self, count, reads="none"):
        milliseconds = self.come(count, reads)
        self.go(count)
        return milliseconds


class Csireg(Subject):
    """csireg-agent, with its defaults but for the flags given; quiet, so that reading its log costs nothing here."""

    def __init__(self, world, fleet, *flags, gate=False, page=True):
        extra = ("--log-level", "warning", *flags) if page else ("--log-level", "warning", "--http-endpoint", "", *flags)
        agent = world.agent(*extra, gate=gate)
        super().__init__(world, fleet, agent.process)
        if page:
            agent.wait_ready()


class Embedded(Subject):
    """examples/embed.c: the library in the smallest host, as the peer is the kubelet's packages in a small one."""

    def __init__(self, world, fleet):
        argv = [world.program("embed"), world.api.node_name, world.api.kubeconfig, world.registry]
        process = Process("embed", argv, world.directory)
        world.things.append(process)
        super().__init__(world, fleet, process)


class Peer(Subject):
    """test/bench/peer: the kubelet's plugin manager and CSI plugin."""

    def __init__(self, world, fleet, *flags):
        os.makedirs(world.registry, exist_ok=True)
        argv = [os.path.join(world.bench, "peer"), "--kubeconfig", world.api.kubeconfig, "--node-name", world.api.node_name,
                "--plugins-registry-dir", world.registry, *flags]
        process = GoProcess("peer", argv, world.directory)
        world.things.append(process)
        super().__init__(world, fleet, process)
        process.wait_line("ready")


class Floor(Subject):
    """test/bench/floor.c"""

    def __init__(self, world, fleet, controller=False):
        ca, token = credentials(world)
        argv = [os.path.join(world.bench, "floor"), "--registry", fleet.registry, "--directory", fleet.directory, "--server",
                f"https://{world.api.address}", "--token", token, "--ca", ca, "--node", world.api.node_name]
        self.tool, self.before = Tool(world, "floor", argv + (["--controller"] if controller else [])), 0
        super().__init__(world, fleet, self.tool)
        self.tool.wait_line("ready")

    def prepare(self, count, reads):
        self.before = self.tool.tell(f"go {count} {reads}")
        self.tool.wait_line("armed", start=self.before)

    def go(self, count):
        self.tool.wait_line("done", start=self.before)
        self.fleet.vanish(count)
        self.tool.ask("clear", "clear")


def credentials(world):
    """(file of the authority, token) of the API server's kubeconfig."""
    with open(world.api.kubeconfig, encoding="utf-8") as file:
        lines = dict(line.strip().lstrip("- ").split(": ", 1) for line in file if ": " in line)
    if "certificate-authority" in lines:
        return lines["certificate-authority"].strip('"'), lines["token"].strip('"')
    path = world.path("authority.pem")
    decoded = subprocess.run(["base64", "-d"], input=lines["certificate-authority-data"].strip('"').encode(),
                             capture_output=True, check=True).stdout
    with open(path, "wb") as file:
        file.write(decoded)
    return path, lines["token"].strip('"')


# ---- the objects ----

def is_clean(api):
    """No entry of any driver on the node."""
    spec = (api.csinode() or {}).get("spec") or {}
    return not spec.get("drivers") and not spec.get("driverRegistrations") and not api.annotation()


def scrub(api):
    """As if no driver had ever been there."""
    if api.csinode():
        api.delete("csinodes", api.node_name)
    labels = {key: None for key in api.labels()}
    api.patch("nodes", api.node_name, {"metadata": {"labels": labels, "annotations": {NODE_ID_KEY: None}}})


def about(row):
    """"PATCH nodes/status" of a log entry on Node or CSINode; None for others."""
    for resource in ("nodes", "csinodes"):
        rest = row["path"].removeprefix(BASES[resource])
        if rest != row["path"] and rest[:1] in ("", "/"):
            return f"{row['method']} {resource}" + ("/status" if rest.endswith("/status") else "")
    return None


def by_verb(rows):
    """"2 GET nodes, 1 PUT csinodes" of log entries, and how many these are."""
    found = collections.Counter(filter(None, map(about, rows)))
    return ", ".join(f"{n} {what}" for what, n in sorted(found.items())), found.total()


# ---- numbers ----

class Sample:
    """Repeated measurements of one thing."""

    def __init__(self, values):
        self.values = list(values)
        self.median, self.min, self.max = statistics.median(self.values), min(self.values), max(self.values)


def cpu_seconds(pid):
    """User and system time of all its threads so far, the ended ones too."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def scheduled_seconds(pid):
    """The same to the nanosecond, of the threads that live."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total / 1e9


def memory(pid):
    """{"RssAnon": MiB, "VmRSS": MiB, "Threads": n}"""
    found = {}
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            key, value = line.split(":", 1)
            if key in ("RssAnon", "VmRSS"):
                found[key] = int(value.split()[0]) / 1024
            elif key == "Threads":
                found[key] = int(value)
    return found


def own_threads(pid):
    """Those that csireg starts; the rest is the program's and gRPC's."""
    names = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
            names.append(file.read().strip())
    return sum(1 for name in names if name in ("csireg-engine", "csireg-pump"))


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


__all__ = ["Bench", "Csireg", "Embedded", "Fleet", "Floor", "Peer", "ROUND_MS", "Sample", "Tool", "about", "by_verb", "cpu_seconds",
           "credentials", "fds", "is_clean", "memory", "own_threads", "scheduled_seconds", "scrub"]
