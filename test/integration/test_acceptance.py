# SPDX-License-Identifier: Apache-2.0
"""What the node side promises as a whole: KEP-6011's flow, request budgets, long outages, silence.

    promise                                                      scenario
    controller flow from appearance to disappearance             controller_flow
    (server gate off, unknown, node-flow fallback, no capability: test_controller_flow, test_node_flow)
    ten drivers: at most 4 requests, leaving at most 2           ten_in_the_node_flow
    ten drivers: at most 3 requests, leaving at most 1           ten_in_the_controller_flow
    API server down for 45 s                                     api_down_for_45_seconds
    service socket 20 s after the registration socket            service_socket_late
    a quiet minute                                               quiet
    hostile input                                                (test_hostile, test_api_faults)
"""
import os
import time

from harness import CAPABILITY
from procs import check, equal
from runner import scenario

ZONE = "topology.kubernetes.io/zone"
WINDOWS = (0.05, 0.05, 0.05, 0.25, 1.0, 1.0, 1.0)  # values of gather-window to try, its default first


@scenario
def controller_flow(w):
    """Capability 9, both gates on: bytes 08 01, a registration and nothing else; then both lists clean in one update."""
    w.server(gate="on")
    foreign = {"name": "foreign.example.com", "nodeID": "f-1", "topologyKeys": ["f/k"], "allocatable": {"count": 3}}
    w.api.write_csinode(drivers=[foreign])
    node = w.api.node()
    w.agent(gate=True)
    driver = w.driver("a.example.com", node_id="i-1", capabilities=[CAPABILITY], topology={ZONE: "z1"}, limit=12)
    driver.wait_notified(True)
    equal(driver.request_bytes(), b"\x08\x01", "NodeGetInfo request")
    equal(w.api.registrations(), {"a.example.com": "i-1"}, "spec.driverRegistrations")
    equal(w.api.drivers(), {"foreign.example.com": foreign}, "spec.drivers")
    equal(w.api.node(), node, "the Node: no label, no annotation")
    w.api.patch("csinodes", "n1", {"spec": {"drivers": [foreign, {"name": "a.example.com", "nodeID": "i-1"}]}})
    before = len(w.api.history("csinodes"))
    driver.stop()
    w.api.wait("both lists are clean", lambda api: api.drivers() == {"foreign.example.com": foreign} and not api.registrations())
    equal(len(w.api.history("csinodes")), before + 1, "versions: one update")


def ten(w, window, arrive, leave, gate):
    """Ten drivers that arrive and leave together; how many requests each may cost at most. False: they were too slow."""
    w.server()
    fleet = w.fleet(10, "d%d.example.com", node_id="i-%d", topology={ZONE: "z1"}, limit=5,
                    **({"capabilities": [CAPABILITY]} if gate else {}))
    fleet.process.wait_line('"ready"')
    agent = w.agent(f"--gather-window={window * 1000:.0f}ms", gate=gate)
    fleet.wait_all_notified(10)
    if fleet.spread() > 0.3 * window:  # the agent still has to read the answers
        return False
    check(w.api.requests() <= arrive, f"{w.api.requests()} requests to register: {w.api.counts()['requests']}")
    found = w.api.registrations() if gate else w.api.drivers()
    equal(sorted(found), sorted(f"d{n}.example.com" for n in range(10)), "entries")
    before = w.api.requests()
    for name in os.listdir(w.registry):
        os.unlink(os.path.join(w.registry, name))
    agent.wait("they are gone", lambda s: not s["sockets"] and not s["drivers"])
    w.api.wait("their entries are gone", lambda api: not api.drivers() and not api.registrations() and not api.annotation())
    check(w.api.requests() - before <= leave, f"{w.api.requests() - before} requests to leave: {w.api.counts()['requests']}")
    return True


def within_the_window(w, arrive, leave, gate):
    """On a busy machine, or under a sanitizer, the answers may take longer than the window; then a wider one is tried."""
    for window in WINDOWS:
        if ten(w, window, arrive, leave, gate):
            return
        w.restart()
    check(False, "the drivers' answers never came within the gathering window")


@scenario
def ten_in_the_node_flow(w):
    """Ten drivers whose answers come within the gathering window: at most 4 requests; leaving together: at most 2."""
    within_the_window(w, 4, 2, gate=False)


@scenario
def ten_in_the_controller_flow(w):
    """The same in the controller flow: at most 3, and 1."""
    within_the_window(w, 3, 1, gate=True)


@scenario(slow=True)
def api_down_for_45_seconds(w):
    """The API server is down for 45 s: registered when it is back, same driver process, never notified of false."""
    w.server()
    w.api.net(refuse=True)
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1")
    agent.wait("the API is missed", lambda s: s["api"]["state"] == "waiting")
    stays(45, lambda: equal(driver.notifications(), [], "notifications while the server is down"))
    w.api.net(refuse=False)
    driver.wait_notified(True, timeout=150)
    equal([ok for ok, _ in driver.notifications()], [True], "notifications")
    check("a.example.com" in w.api.drivers(), "no entry")
    check(driver.process.running(), "the driver was restarted")


@scenario(slow=True)
def service_socket_late(w):
    """The service socket comes 20 s after the registration socket: false once per attempt with an answer, then true."""
    w.server()
    w.agent()
    driver = w.driver("a.example.com", node_id="i-1", service_after="20s")
    driver.wait_notified(True, timeout=120)
    results = [ok for ok, _ in driver.notifications()]
    equal(results, [False] * (len(results) - 1) + [True], "notifications")
    equal(len(results), len(driver.calls("GetInfo")), "notifications for GetInfo calls")
    check(len(results) > 3, f"only {len(results)} attempts in 20 s")


@scenario(slow=True)
def quiet(w):
    """Ten drivers, verification off: a minute without a request but the open watch, at most 10 wake-ups a second."""
    w.server()
    agent = w.agent("--verify-interval=0", gate=True)
    w.fleet(5, "n%d.example.com", node_id="i-%d").wait_all_notified(5)
    w.fleet(5, "c%d.example.com", node_id="i-%d", capabilities=[CAPABILITY]).wait_all_notified(5)
    w.api.idle(500)
    process = agent.process
    requests, fds, threads = w.api.requests(("nodes", "csinodes", "csidrivers")), process.fds(), process.threads()
    begin, before = time.monotonic(), process.wakeups()
    w.api.idle(60000)
    seconds, after = time.monotonic() - begin, process.wakeups()
    equal(w.api.requests(("nodes", "csinodes", "csidrivers")), requests, "requests")
    equal(w.api.counts()["watches"]["open"], 1, "open watches")
    check((after - before) / seconds <= 10, f"{(after - before) / seconds:.1f} wake-ups a second")
    check(process.fds() <= fds and process.threads() <= threads,
          f"fds {fds} -> {process.fds()}, threads {threads} -> {process.threads()}")


def stays(seconds, assertion):
    """The assertion holds all that time; this is about time passing, so time passes."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assertion()
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))
