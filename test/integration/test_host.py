# SPDX-License-Identifier: Apache-2.0
"""The shared library in a host: the three doors, lookups, foreign plugin types, stop, fork.

    rule                                                     scenario
    door 2: seen is a hint, gone is authoritative            second_door
    door 3: no GetInfo, no notification, idempotent          third_door
    all doors in one manager                                 three_doors
    3.2 foreign types: PLUGIN, answer, PLUGIN_GONE           foreign_types
    2.4 lookup: not ready, then not registered               lookups
    3.6 the host asks for a retry                            retry, retry_reads_csidrivers_again
    stop: last event, idempotent, nothing undone             stop
    fork: every call in a child fails                        fork
    options hold to their table                              options
"""
import glob
import json
import os
import subprocess
import sys

from procs import Process, check, equal, until
from runner import scenario


class Host:
    """host.py as a process."""

    def __init__(self, w, **options):
        here = os.path.dirname(os.path.abspath(__file__))
        build = os.path.dirname(w.programs)
        found = glob.glob(os.path.join(build, "libcsireg.so.*.*"))
        check(found, f"no shared library in {build}")
        env = dict(os.environ)
        if os.path.basename(build) == "san":
            preload = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
            env |= {"LD_PRELOAD": preload.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
        options = {"node-name": "n1"} | {key.replace("_", "-"): value for key, value in options.items()}
        if w.api and "local-only" not in options:
            options["kubeconfig"] = w.api.kubeconfig
        self.process = Process("host", [sys.executable, os.path.join(here, "host.py"), found[0], json.dumps(options)],
                               w.directory, env=env, stdin=subprocess.PIPE)
        w.things.insert(0, self)
        self.name, self.number = "agent (host)", 0

    def close(self):
        if self.process.running():
            self.process.popen.stdin.close()
            self.process.wait_exit()
        return self.process.close() if not self.process.log.closed else []

    def lines(self):
        return [json.loads(line) for line in self.process.output("out")]

    def do(self, what, *arguments):
        """The answer to a command."""
        self.number += 1
        line = json.dumps({"do": what, "with": arguments, "number": self.number}) + "\n"
        self.process.popen.stdin.write(line.encode())
        self.process.popen.stdin.flush()

        def probe():
            check(self.process.running(), f"the host ended: {self.process.output('err')[-5:]}")
            return next((x for x in self.lines() if x.get("did") == what and x["number"] == self.number), None)
        return until(f"the host did {what}", probe, pause=0.2, wake=self.process.wake)

    def start(self):
        for what in ("new", "start"):
            answer = self.do(what)
            equal(answer["rc"], "OK", f"{what} ({answer['message']})")
        return self

    def wait_next_try(self):
        """Until a failed attempt is over and the next one is planned."""
        until("the next try is planned", lambda: any(s.get("nextTry") for s in self.do("status")["status"]["sockets"]))

    def wait_event(self, kind, driver=None, number=1):
        def probe():
            found = [x for x in self.lines() if x.get("event") == kind and driver in (None, x["driver"])]
            return found[number - 1] if len(found) >= number else None
        return until(f"event {kind} {driver or ''}", probe, pause=0.2, wake=self.process.wake)


@scenario
def second_door(w):
    """Sockets that the host reports: seen is a hint, the path is looked at; gone counts even if the file is there."""
    w.server()
    host = Host(w).start()
    driver = w.driver("a.example.com", node_id="i-1", registration=w.path("anywhere", "x"))
    driver.process.wait_line('"ready"')
    equal(host.do("socket_seen", w.path("nowhere"))["rc"], "OK", "a path without a socket")
    for _ in range(3):
        equal(host.do("socket_seen", driver.registration)["rc"], "OK", "socket_seen")
    event = host.wait_event("REGISTERED", "a.example.com")
    equal((event["path"], event["endpoint"]), (driver.registration, driver.endpoint), "event")
    driver.wait_notified(True)
    equal(len(driver.calls("GetInfo")), 1, "GetInfo calls")
    host.do("socket_gone", driver.registration)
    host.wait_event("UNREGISTERED", "a.example.com")
    w.api.wait("the entry is gone", lambda api: not api.drivers())
    host.do("socket_seen", driver.registration)
    host.wait_event("REGISTERED", "a.example.com", 2)


@scenario
def third_door(w):
    """Drivers that the host shook hands with: no GetInfo, no notification; the same again starts nothing twice."""
    w.server()
    host = Host(w).start()
    driver = w.driver("a.example.com", node_id="i-1", registration="")
    equal(host.do("driver_register", driver.name, driver.endpoint, ["1.0.0"])["rc"], "OK", "driver_register")
    host.wait_event("REGISTERED", driver.name)
    host.do("driver_register", driver.name, driver.endpoint, ["1.0.0"])
    equal(host.do("lookup", driver.name),
          host.do("lookup", driver.name) | {"rc": "OK", "name": driver.name, "endpoint": driver.endpoint, "node_id": "i-1",
                                            "version": "1.0.0", "flow": 1, "number": host.number - 1}, "lookup")
    equal(driver.methods(), ["NodeGetInfo"], "calls")
    host.do("driver_register", "b.example.com", w.path("none"), ["2.0.0"])
    host.wait_event("FAILED", "b.example.com")
    host.do("driver_deregister", driver.name, driver.endpoint)
    host.wait_event("UNREGISTERED", driver.name)
    w.api.wait("the entry is gone", lambda api: not api.drivers())


@scenario
def three_doors(w):
    """All three doors in one manager."""
    w.server()
    host = Host(w, plugins_registry_dir=w.registry).start()
    w.driver("one.example.com", node_id="i-1").wait_notified(True)
    two = w.driver("two.example.com", node_id="i-2", registration=w.path("elsewhere"))
    two.process.wait_line('"ready"')
    host.do("socket_seen", two.registration)
    two.wait_notified(True)
    three = w.driver("three.example.com", node_id="i-3", registration="")
    host.do("driver_register", three.name, three.endpoint, ["1.0.0"])
    host.wait_event("REGISTERED", three.name)
    equal(set(w.api.drivers()), {"one.example.com", "two.example.com", "three.example.com"}, "drivers")
    for name in w.api.drivers():
        host.wait_event("REGISTERED", name)
    equal({d["name"]: d["state"] for d in host.do("status")["status"]["drivers"]},
          dict.fromkeys(w.api.drivers(), "registered"), "states")


@scenario
def foreign_types(w):
    """3.2: PLUGIN with type, name, endpoint and versions; the answer is notified; PLUGIN_GONE when the socket goes."""
    w.server()
    host = Host(w, plugins_registry_dir=w.registry, plugin_types=["DevicePlugin"]).start()
    good = w.driver("good", plugin_type="DevicePlugin", versions=["v1beta1", "v1"])
    event = host.wait_event("PLUGIN", "good")
    equal((event["type"], event["endpoint"], event["versions"]), ("DevicePlugin", good.endpoint, ["v1beta1", "v1"]), "event")
    host.do("plugin_result", event["token"], 1, "")
    good.wait_notified(True)
    bad = w.driver("bad", plugin_type="DevicePlugin")
    host.do("plugin_result", host.wait_event("PLUGIN", "bad")["token"], 0, "no such device")
    bad.wait_notified(False, "no such device")
    good.stop()
    gone = host.wait_event("PLUGIN_GONE", "good")
    equal(gone["type"], "DevicePlugin", "type")
    w.driver("dra", plugin_type="DRAPlugin").wait_notified(False, "DRAPlugin")
    equal(w.api.requests(), 0, "requests")


@scenario
def lookups(w):
    """2.4: before the initial scan was tried an unknown driver is "not ready yet", afterwards "not registered"."""
    w.server()
    driver = w.driver("a.example.com", node_id="i-1", hang={"GetInfo": 1})
    driver.process.wait_line('"ready"')
    host = Host(w, plugins_registry_dir=w.registry, getinfo_timeout=1000).start()
    driver.wait_call("GetInfo")
    equal(host.do("lookup", "b.example.com")["rc"], "NOT_READY", "early lookup")
    equal(host.do("wait_initial", 0)["rc"], "TIMEOUT", "wait_initial(0)")
    equal(host.do("wait_initial", 20000)["rc"], "OK", "wait_initial")
    equal(host.do("lookup", "b.example.com")["rc"], "NOT_REGISTERED", "later lookup")
    host.wait_event("REGISTERED", driver.name)
    equal(host.do("lookup", "a.example.com")["rc"], "OK", "lookup of a registered driver")


@scenario
def retry(w):
    """3.6: what waits at the cap is tried at once when the host asks."""
    w.server()
    host = Host(w, plugins_registry_dir=w.registry).start()
    w.api.patch("nodes", "n1", {"metadata": {"labels": {"x/y": "other"}}})
    driver = w.driver("a.example.com", node_id="i-1", topology={"x/y": "z"})
    host.wait_event("FAILED", driver.name)
    w.api.patch("nodes", "n1", {"metadata": {"labels": {"x/y": None}}})
    host.wait_next_try()
    equal(host.do("retry", driver.name)["rc"], "OK", "retry by name")
    host.wait_event("REGISTERED", driver.name)
    equal(host.do("retry", "unknown.example.com")["rc"], "OK", "retry of what is not there")


@scenario
def retry_reads_csidrivers_again(w):
    """3.6, 4.1: CSIDriver objects that could not be read are read again when the host asks for a retry."""
    w.server()
    rule = w.api.rule({"status": 403, "reason": "Forbidden", "message": "no"}, {"resource": "csidrivers"})
    host = Host(w, plugins_registry_dir=w.registry, controller_get_node_info=1).start()
    driver = w.driver("a.example.com", node_id="i-1", capabilities=[9])
    host.wait_event("FAILED", driver.name)
    w.api.unrule(rule)
    host.wait_next_try()
    host.do("retry", None)
    host.wait_event("REGISTERED", driver.name)
    equal(w.api.registrations(), {driver.name: "i-1"}, "registrations")


@scenario
def stop(w):
    """Stop is idempotent, undoes nothing, leaves STOPPED as the last event; afterwards calls are out of place."""
    w.server()
    host = Host(w, plugins_registry_dir=w.registry).start()
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    slow = w.driver("b.example.com", node_id="i-2", hang={"NodeGetInfo": 1})
    slow.wait_call("NodeGetInfo")
    equal(host.do("stop")["rc"], "OK", "stop")
    host.wait_event("STOPPED")
    equal(host.do("stop")["rc"], "OK", "stop again")
    equal(host.do("socket_seen", w.path("x"))["rc"], "STATE", "socket_seen after stop")
    equal(host.do("start")["rc"], "STATE", "start after stop")
    equal(slow.notifications(), [], "notifications")
    equal(list(w.api.drivers()), ["a.example.com"], "drivers")


@scenario
def fork(w):
    """In a forked child every call fails with FORKED and free does nothing; the parent goes on."""
    w.server()
    host = Host(w, plugins_registry_dir=w.registry).start()
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    answer = host.do("lookup_in_a_child", "a.example.com")
    equal((answer["rc"], answer["exit"]), ("FORKED", 0), "the child")
    w.driver("b.example.com", node_id="i-2")
    host.wait_event("REGISTERED", "b.example.com")
    equal(host.do("lookup", "b.example.com")["rc"], "OK", "lookup in the parent")


@scenario
def options(w):
    """Options hold to their table; what contradicts itself is refused when the manager is made."""
    host = Host(w, local_only=1)
    for name, value in {"node-name": "Not_A_Name", "rescan-period": 1, "registration-dropped": "perhaps",
                        "node-info-from-controller-capability": 8, "plugin-types": ["CSIPlugin"],
                        "migrated-plugins": ["not a name"]}.items():
        answer = host.do("set", name, value)
        check(answer["rc"] == "INVALID" and name in answer["message"], f"{name}={value}: {answer}")
    equal(host.do("new")["rc"], "OK", "new")
    equal(host.do("socket_seen", "/x")["rc"], "STATE", "a call before start")
    host.close()
    torn = Host(w)
    torn.do("set", "api-server", "https://127.0.0.1:1")
    torn.do("set", "kubeconfig", "/none")
    check(torn.do("new")["rc"] in ("INVALID", "CONFIG"), "two ways to the API server were accepted")
