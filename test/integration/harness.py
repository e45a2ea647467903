# SPDX-License-Identifier: Apache-2.0
"""A node of its own for one scenario: API server, agent, drivers, in a temporary directory with short paths.

    with World(programs) as w:
        w.server(gate="on")
        w.agent(gate=True)
        d = w.driver("a.example.com", node_id="i-1", capabilities=[9])
        d.wait_notified(True)

Every wait is for a condition; nothing sleeps for a time and hopes.
"""
import datetime
import http.client
import json
import os
import shutil
import tempfile

from procs import Failure, Process, check, until
from servers import Emulator

CAPABILITY = 9  # NODE_INFO_FROM_CONTROLLER
GATE = "CSIControllerGetNodeInfo"


class Agent:
    """csireg-agent (or any host with its flags), and its status page."""

    def __init__(self, world, name, argv, expect_exit=0):
        self.process = Process(name, argv, world.directory, expect_exit=expect_exit)
        self.address = None

    def page(self, path):
        """(status, text) of its HTTP endpoint."""
        if self.address is None:
            self.address = self.process.wait_line(lambda line: line.startswith("http ")).split()[1]
        connection = http.client.HTTPConnection(self.address, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def status(self):
        code, text = self.page("/status")
        check(code == 200, f"/status: {code} {text}")
        return json.loads(text)

    def driver(self, name):
        """The row of a registered driver; status follows a notification by some milliseconds."""
        return self.wait_driver(name)

    def socket(self, path_or_driver):
        return next((s for s in self.status()["sockets"] if path_or_driver in (s["path"], s.get("driver"))), {})

    def wait(self, what, predicate, timeout=None):
        """Until predicate(status) is true; its result. Every state change comes with a log line, which wakes us."""
        return until(f"agent: {what}", lambda: self._probe(predicate), timeout, pause=0.05, wake=self.process.wake)

    def _probe(self, predicate):
        check(self.process.running(), f"the agent ended with {self.process.popen.returncode}")
        return predicate(self.status())

    def wait_driver(self, name, state="registered", **fields):
        def probe(status):
            for row in status["drivers"]:
                if row["name"] == name and row["state"] == state and all(row.get(k) == v for k, v in fields.items()):
                    return row
            return None
        return self.wait(f"driver {name} is {state} {fields or ''}", probe)

    def wait_no_driver(self, name):
        self.wait(f"driver {name} is gone", lambda status: all(d["name"] != name for d in status["drivers"]))

    def wait_error(self, socket, *words):
        """The lastError of a socket once it has all these words."""
        def probe(status):
            for row in status["sockets"]:
                error = row.get("lastError")
                if socket in (row["path"], row.get("driver")) and error and all(w in error["message"] for w in words):
                    return error
            return None
        return self.wait(f"socket {socket} has an error with {words}", probe)

    def wait_ready(self):
        until("the agent is ready", lambda: self.page("/readyz")[0] == 200, wake=self.process.wake)

    def stop(self):
        return self.process.stop()


class Driver:
    """csireg-mock-driver. `calls` are the JSON lines that it prints, one per call received."""

    def __init__(self, world, name, process, endpoint, registration):
        self.world, self.name, self.process = world, name, process
        self.endpoint, self.registration = endpoint, registration

    def events(self, kind):
        """What it printed about one kind of event, as objects."""
        lines = [json.loads(line) for line in self.process.output("out") if line.startswith("{")]
        return [line for line in lines if line["event"] == kind]

    def calls(self, method=None):
        return [call for call in self.events("call") if method in (None, short(call["method"]))]

    def methods(self):
        return [short(call["method"]) for call in self.calls()]

    def wait_call(self, method, number=1, timeout=None):
        """Call number `number` of the method."""
        def probe():
            calls = self.calls(method)
            check(len(calls) >= number or self.process.running(), f"driver {self.name} ended")
            return calls[number - 1] if len(calls) >= number else None
        return until(f"{self.name} gets {method} number {number}", probe, timeout, pause=0.2, wake=self.process.wake)

    def notifications(self):
        """(registered, error) of each NotifyRegistrationStatus so far."""
        told = [call["fields"] for call in self.calls("NotifyRegistrationStatus")]
        return [(fields["plugin_registered"], fields["error"]) for fields in told]

    def wait_notified(self, registered, *words, timeout=None):
        """The text of the first notification with this outcome, which must have these words."""
        def probe():
            return next((n for n in self.notifications() if n[0] == registered), None)
        _, text = until(f"{self.name} is notified {registered}", probe, timeout, pause=0.2, wake=self.process.wake)
        for word in words:
            check(word in text, f"the notification of {self.name} lacks {word!r}: {text}")
        return text

    def wait_all_notified(self, count, timeout=None):
        """Until that many drivers of this process were told true."""
        def probe():
            told = self.calls("NotifyRegistrationStatus")
            return len({call["driver"] for call in told if call["fields"]["plugin_registered"]}) >= count
        until(f"{count} drivers of {self.name} are registered", probe, timeout, pause=0.2, wake=self.process.wake)

    def spread(self):
        """Seconds from the first connection to the last NodeGetInfo."""
        def times(events):
            return [datetime.datetime.fromisoformat(event["time"]).timestamp() for event in events]
        return max(times(self.calls("NodeGetInfo"))) - min(times(self.events("connected")))

    def request_bytes(self, method="NodeGetInfo", number=1):
        return bytes.fromhex(self.wait_call(method, number)["request"])

    def stop(self):
        """An orderly end: sockets are removed."""
        return self.process.stop()

    def kill(self):
        """A crash: socket files stay."""
        self.process.kill()


def short(method):
    return method.rsplit("/", 1)[-1]


class World:
    """Everything one scenario started. Leaving it ends all of it and checks how it ended."""

    def __init__(self, programs, label="world"):
        self.programs, self.label = programs, label
        self.directory = tempfile.mkdtemp(prefix="csr", dir="/tmp")
        self.registry = os.path.join(self.directory, "reg")
        self.things, self.api, self.agents = [], None, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def program(self, name):
        return os.path.join(self.programs, name)

    # ---- parts ----

    def server(self, **how):
        self.api = Emulator(self.program("csireg-apiserver"), self.directory, **how)
        self.things.append(self.api.process)
        return self.api

    def agent_argv(self, *flags, gate=False, api=True):
        argv = [self.program("csireg-agent"), "--node-name", self.api.node_name if self.api else "n1",
                "--plugins-registry-dir", self.registry, "--http-endpoint", "127.0.0.1:0", "--log-level", "debug"]
        if api and self.api:
            argv += ["--kubeconfig", self.api.kubeconfig]
        if gate:
            argv += ["--feature-gates", f"{GATE}=true"]
        return argv + list(flags)

    def agent(self, *flags, gate=False, api=True, expect_exit=0):
        self.agents += 1
        name = "agent" if self.agents == 1 else f"agent{self.agents}"
        agent = Agent(self, name, self.agent_argv(*flags, gate=gate, api=api), expect_exit)
        self.things.append(agent.process)
        return agent

    def agent_in_namespace(self, setting, value):
        """An agent in a user namespace of its own where this kernel setting has this value."""
        shell = f'echo {value} > {setting} && exec "$@"'
        argv = ["unshare", "--user", "--map-root-user", "sh", "-c", shell, "agent"] + self.agent_argv()
        self.agents += 1
        agent = Agent(self, "agent", argv)
        self.things.append(agent.process)
        return agent

    def start(self, name, *argv, expect_exit=0, env=None):
        """Any program of ours by name."""
        process = Process(name, [self.program(argv[0]), *argv[1:]], self.directory, env=env, expect_exit=expect_exit)
        self.things.append(process)
        return process

    def driver(self, name, label=None, endpoint=None, registration=None, expect_exit=0, **how):
        label = label or name.split(".")[0][:20] + f"-{len(self.things)}"
        if endpoint is None:
            endpoint = self.path(label + ".sock")
        if registration is None:
            registration = os.path.join(self.registry, name + "-reg.sock")
        for path in filter(None, (registration, endpoint)):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        process = Process(label, [self.program("csireg-mock-driver"), *driver_flags(name, endpoint, registration, how)],
                          self.directory, expect_exit=expect_exit)
        self.things.append(process)
        return Driver(self, name, process, endpoint, registration)

    def fleet(self, count, name, **how):
        """Several drivers in one process; "%d" in names is a driver's number."""
        label = f"fleet-{len(self.things)}"
        endpoint, registration = self.path(label + "-%d.sock"), os.path.join(self.registry, label + "-%d")
        os.makedirs(self.registry, exist_ok=True)
        flags = driver_flags(name, endpoint, registration, {"count": count} | how)
        process = Process(label, [self.program("csireg-mock-driver"), *flags], self.directory)
        self.things.append(process)
        return Driver(self, name, process, endpoint, registration)

    def restart(self):
        """Ends everything that runs and begins with nothing, for a scenario that must be tried again."""
        wrong = self.close(keep=True)
        check(not wrong, "\n".join(wrong))
        shutil.rmtree(self.directory)
        os.mkdir(self.directory)
        self.things, self.api, self.agents = [], None, 0

    # ---- the end ----

    def close(self, keep=False):
        """What was wrong with how things ended."""
        wrong = []
        for thing in sorted(self.things, key=lambda t: not getattr(t, "name", "").startswith("agent")):
            wrong += thing.close() or []
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)
        return wrong

    def logs(self, lines=30, width=400):
        """The last lines of every process, the long ones cut."""
        parts = []
        for thing in self.things:
            if isinstance(thing, Process):
                tail = thing.output()[-lines:]
                parts.append(f"--- {thing.name}: {' '.join(thing.argv)}\n" + "\n".join("    " + line[:width] for line in tail))
        return "\n".join(parts)


def driver_flags(name, endpoint, registration, how):
    """The mock driver's command line; the one place that knows its flags.

    topology={key: value}; fail={method: (first calls, code)}; error={method: (code, text)}; hang={method: first calls};
    delay={method: duration}; lists and plain values under the flag's own name.
    """
    flags = ["--name", name]
    flags += ["--endpoint", endpoint] if endpoint else []
    flags += ["--registration-socket", registration] if registration else []
    for key, value in how.items():
        flag = {"fail": "--fail-first"}.get(key, "--" + key.replace("_", "-"))
        if isinstance(value, dict):
            for k, v in value.items():
                flags += [flag, f"{k}=" + (":".join(map(str, v)) if isinstance(v, tuple) else str(v))]
        elif isinstance(value, (list, tuple)):
            flags += [flag, ",".join(map(str, value))]
        elif value is True:
            flags.append(flag)
        else:
            flags += [flag, str(value)]
    return flags


__all__ = ["Agent", "CAPABILITY", "Driver", "Failure", "GATE", "World"]
