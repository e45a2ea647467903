# SPDX-License-Identifier: Apache-2.0
"""What options change, limits that are refreshed, and flows that are decided again.

    rule                                                     scenario
    2.1 allowed owners of sockets                            allowed_socket_owners
    3.4 same-name=first                                      same_name_first
    4.1 a flow decided again after registration              csidriver_appears_later
    4.3 label prefixes                                       label_prefixes
    5.1 a refused batch is repeated driver by driver         refusal_concerns_one_driver
    6.1.9 annotate-in-controller-flow                        annotate_in_controller_flow
    7 unregister-grace                                       grace_return, grace_passes
    7 endpoint-dead-after                                    dead_endpoint
    8.2 periodic refresh, 6.1.10 none in controller flow     periodic_refresh
    8.3 refresh because an attachment failed                 exhausted
    9.4 unclaimed entries, prune-unclaimed-after             unclaimed, pruned
"""
import os

from harness import CAPABILITY
from procs import check, equal
from runner import scenario
from test_host import Host

NAME = "a.example.com"
ZONE = "topology.kubernetes.io/zone"


@scenario
def allowed_socket_owners(w):
    """2.1: with a list of owners the sockets of others are refused, and a right one registers."""
    w.server()
    strict = w.agent(f"--allowed-socket-owners={os.getuid() + 12345}")
    driver = w.driver(NAME, node_id="i-1")
    strict.wait("it says why", lambda s: str(os.getuid()) in str(s["registry"].get("warnings")) + str(s["sockets"]))
    equal(driver.notifications(), [], "notifications")
    strict.stop()
    w.agent(f"--allowed-socket-owners={os.getuid() + 12345},{os.getuid()}")
    driver.wait_notified(True)


@scenario
def same_name_first(w):
    """3.4: same-name=first: of equal versions the first stays, as in the kubelet."""
    w.server()
    agent = w.agent("--same-name=first")
    first = w.driver(NAME, node_id="i-1")
    first.wait_notified(True)
    second = w.driver(NAME, node_id="i-1", registration=os.path.join(w.registry, "second"))
    second.wait_notified(False, first.endpoint, second.endpoint)
    equal(agent.driver(NAME)["endpoint"], first.endpoint, "endpoint")


@scenario
def csidriver_appears_later(w):
    """4.1, 6.3: a CSIDriver object that changes attachRequired makes the flow anew, without a notification."""
    w.server()
    agent = w.agent(gate=True)
    driver = w.driver(NAME, node_id="i-1", capabilities=[CAPABILITY], topology={ZONE: "z1"}, limit=4)
    driver.wait_notified(True)
    equal(agent.driver(NAME)["flow"], "controller", "flow")
    w.api.csidriver(NAME, attachRequired=False)
    agent.wait_driver(NAME, flow="node")
    equal((w.api.registrations(), w.api.drivers()[NAME]["allocatable"]), ({}, {"count": 4}), "registrations and limit")
    equal([call["request"] for call in driver.calls("NodeGetInfo")], ["0801", ""], "NodeGetInfo requests")
    w.api.delete("csidrivers", NAME)
    agent.wait_driver(NAME, flow="controller")
    w.api.wait("the registration is back", lambda api: api.registrations() == {NAME: "i-1"})
    equal(driver.notifications(), [(True, "")], "notifications")


@scenario
def label_prefixes(w):
    """4.3: with an allow-list a topology key outside it is refused by name, before any API call."""
    w.server()
    w.agent("--label-prefixes=topology.kubernetes.io/,good.example.com/")
    w.driver("bad.example.com", node_id="i-1", topology={"node-role.kubernetes.io/x": "1"}).wait_notified(
        False, "node-role.kubernetes.io/x")
    equal(w.api.csinode(), None, "CSINode")
    w.driver("good.example.com", node_id="i-1", topology={ZONE: "z1", "good.example.com/rack": "r"}).wait_notified(True)


@scenario
def refusal_concerns_one_driver(w):
    """5.1: labels of one driver that admission forbids fail that driver alone, though all came together."""
    w.server()
    key = "x.node-restriction.kubernetes.io/y"
    drivers = {n: w.driver(f"{n}.example.com", node_id=f"i-{n}", topology={key: "1"} if n == "b" else {ZONE: "z1"}) for n in "abc"}
    w.agent()
    drivers["b"].wait_notified(False, key)
    for n in "ac":
        drivers[n].wait_notified(True)
        equal([ok for ok, _ in drivers[n].notifications()], [True], f"notifications of {n}")
    equal(set(w.api.drivers()), {"a.example.com", "c.example.com"}, "drivers")


@scenario
def annotate_in_controller_flow(w):
    """6.1.9: the option writes the node id into the Node's annotation; it goes with the driver."""
    w.server()
    w.agent("--annotate-in-controller-flow", gate=True)
    driver = w.driver(NAME, node_id="i-1", capabilities=[CAPABILITY])
    driver.wait_notified(True)
    equal((w.api.annotation(), w.api.registrations()), ({NAME: "i-1"}, {NAME: "i-1"}), "annotation and registrations")
    driver.stop()
    w.api.wait("all is gone", lambda api: not api.annotation() and not api.registrations())


@scenario
def grace_return(w):
    """7: a driver that returns within the grace with equal values: no request, the entry in every version."""
    w.server()
    agent = w.agent("--unregister-grace=60s")
    driver = w.driver(NAME, node_id="i-1", limit=3)
    driver.wait_notified(True)
    w.api.idle(200)
    before = w.api.requests()
    driver.stop()
    agent.wait("it is gone", lambda s: not s["sockets"])
    w.driver(NAME, node_id="i-1", limit=3).wait_notified(True)
    agent.wait_driver(NAME)
    w.api.idle(200)
    equal(w.api.requests(), before, "requests")
    equal(len(w.api.history("csinodes")), 1, "versions")


@scenario
def grace_passes(w):
    """7: without a return the entries go when the grace is over; until then they are there, the driver is not."""
    w.server()
    agent = w.agent("--unregister-grace=1s")
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    driver.stop()
    agent.wait("it is gone", lambda s: not s["sockets"])
    check(NAME in w.api.drivers(), "removed before the grace was over")
    w.api.wait("the entry is gone", lambda api: not api.drivers() and not api.annotation())


@scenario
def dead_endpoint(w):
    """7: endpoint-dead-after: a driver whose socket refuses is unregistered, and registered again when it answers."""
    w.server()
    agent = w.agent("--endpoint-dead-after=300ms")
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    os.rename(driver.endpoint, driver.endpoint + ".away")
    agent.wait_no_driver(NAME)
    w.api.wait("the entry is gone", lambda api: not api.drivers())
    os.rename(driver.endpoint + ".away", driver.endpoint)
    agent.wait_driver(NAME)
    w.api.wait("the entry is back", lambda api: NAME in api.drivers())


@scenario
def unclaimed(w):
    """9.4: entries without a socket stay, and the status names them."""
    w.server()
    w.api.write_csinode(drivers=[{"name": "gone.example.com", "nodeID": "g"}], registrations=[("left.example.com", "l")])
    agent = w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    agent.wait("both are named", lambda s: sorted(s["unclaimed"]) == ["gone.example.com", "left.example.com"])
    equal(set(w.api.drivers()), {NAME, "gone.example.com"}, "drivers")


@scenario
def pruned(w):
    """9.4: prune-unclaimed-after removes them, in one update, and nothing of a driver that is there."""
    w.server()
    w.api.write_csinode(drivers=[{"name": "gone.example.com", "nodeID": "g"}, {"name": NAME, "nodeID": "i-1"}],
                        registrations=[("gone.example.com", "g"), ("left.example.com", "l")])
    w.agent("--prune-unclaimed-after=1s")
    w.driver(NAME, node_id="i-1").wait_notified(True)
    w.api.wait("they are gone", lambda api: set(api.drivers()) == {NAME} and not api.registrations())
    shapes = [(len(v["object"]["spec"].get("drivers") or []), len(v["object"]["spec"].get("driverRegistrations") or []))
              for v in w.api.history("csinodes")]
    equal(shapes, [(2, 2), (1, 0)], "entries in each version")


@scenario(slow=True)
def periodic_refresh(w):
    """8.2, 6.1.10: every period the limit is asked for and a change written; never in the controller flow."""
    w.server()
    for name in (NAME, "c.example.com"):
        w.api.csidriver(name, attachRequired=True, nodeAllocatableUpdatePeriodSeconds=10)
    w.agent(gate=True)
    driver = w.driver(NAME, node_id="i-1", limit_sequence=[25, 25, 23])
    other = w.driver("c.example.com", node_id="i-2", capabilities=[CAPABILITY])
    driver.wait_notified(True)
    other.wait_notified(True)
    w.api.wait("the new limit is there", lambda api: api.drivers()[NAME]["allocatable"] == {"count": 23}, timeout=60)
    equal(len(driver.calls("NodeGetInfo")), 3, "NodeGetInfo calls")
    equal(len(other.calls("NodeGetInfo")), 1, "NodeGetInfo calls in the controller flow")
    counts = [d["allocatable"]["count"] for v in w.api.history("csinodes") for d in v["object"]["spec"]["drivers"] or []
              if d["name"] == NAME]
    equal(sorted(set(counts)), [23, 25], "limits in the history")
    equal(driver.notifications(), [(True, "")], "notifications")


@scenario
def exhausted(w):
    """8.3: refreshed, unchanged, no period, delegated, not registered; equal limits cost no request."""
    w.server()
    for name in (NAME, "c.example.com"):
        w.api.csidriver(name, attachRequired=True, nodeAllocatableUpdatePeriodSeconds=3600)
    host = Host(w, plugins_registry_dir=w.registry, controller_get_node_info=1).start()
    w.driver(NAME, node_id="i-1", limit_sequence=[25, 23])
    w.driver("plain.example.com", node_id="i-2", limit=5)
    w.driver("c.example.com", node_id="i-3", capabilities=[CAPABILITY])
    for name in (NAME, "plain.example.com", "c.example.com"):
        host.wait_event("REGISTERED", name)
    w.api.wait("the CSIDriver objects are watched", lambda api: api.counts()["watches"]["open"])
    equal(host.do("exhausted", NAME, 20000)["result"], "REFRESHED", "first call")
    equal(w.api.drivers()[NAME]["allocatable"], {"count": 23}, "limit")
    before = w.api.requests()
    equal(host.do("exhausted", NAME, 20000)["result"], "UNCHANGED", "second call")
    equal(host.do("exhausted", "plain.example.com", 20000)["result"], "NO_PERIOD", "without a period")
    equal(host.do("exhausted", "c.example.com", 20000)["result"], "DELEGATED", "in the controller flow")
    equal(host.do("exhausted", "none.example.com", 20000)["rc"], "NOT_REGISTERED", "of nobody")
    equal(w.api.requests(), before, "requests")
