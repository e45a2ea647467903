# SPDX-License-Identifier: Apache-2.0
"""Unregistration (7), and what happens when the API is not there for it.

    rule                                              scenario
    7.1 at once, from memory, no connect              no_calls_afterwards
    7.2 both entries in one update                    both_entries_in_one_update
    7.2 last entry, absent object                     last_entry, nothing_to_remove
    7.3 CSINode first, then the Node; labels stay     node_flow
    7 retried until done                              api_down
    7 the name registers again                        comes_back_while_pending
    7 a dead service socket changes nothing           crash_keeps_the_entry
    5.1 removal of several                            (test_acceptance)
"""
import os

from harness import CAPABILITY
from procs import check, equal, until
from runner import scenario

ZONE = "topology.kubernetes.io/zone"
NAME = "a.example.com"


@scenario
def node_flow(w):
    """7.2, 7.3: first the entry goes, then the annotation's key; labels stay; other entries stay."""
    w.server()
    w.api.write_csinode(drivers=[{"name": "foreign.example.com", "nodeID": "f"}])
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1", topology={ZONE: "z1"})
    driver.wait_notified(True)
    driver.stop()
    agent.wait_no_driver(NAME)
    w.api.wait("entry and annotation are gone",
               lambda api: list(api.drivers()) == ["foreign.example.com"] and api.annotation() == {})
    equal(w.api.labels().get(ZONE), "z1", "label")
    removed, cleaned = w.api.history("csinodes")[-1], w.api.history("nodes")[-1]
    check(removed["ns"] < cleaned["ns"], "the annotation went before the entry")
    agent.process.wait_line("unregistered")


@scenario
def last_entry(w):
    """7.2: the last entry leaves an empty list; the object stays."""
    w.server()
    w.agent()
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    driver.stop()
    w.api.wait("the entry is gone", lambda api: not api.drivers())
    check(w.api.csinode(), "the object was deleted")


@scenario
def both_entries_in_one_update(w):
    """7.2: registration and entry go in one update; no version has only one of them gone."""
    w.server()
    agent = w.agent(gate=True)
    driver = w.driver(NAME, node_id="i-1", capabilities=[CAPABILITY])
    driver.wait_notified(True)
    w.api.patch("csinodes", "n1", {"spec": {"drivers": [{"name": NAME, "nodeID": "i-1"}]}})
    driver.stop()
    agent.wait_no_driver(NAME)
    w.api.wait("both are gone", lambda api: not api.drivers() and not api.registrations())
    shapes = [(bool(v["object"]["spec"].get("drivers")), bool(v["object"]["spec"].get("driverRegistrations")))
              for v in w.api.history("csinodes")]
    equal(shapes, [(False, True), (True, True), (False, False)], "entry and registration in each version")


@scenario
def no_calls_afterwards(w):
    """7.1: everything comes from memory: neither socket is connected to, nothing is notified."""
    w.server()
    agent = w.agent("--rescan-period=100ms")
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    before = len(driver.events("connected"))
    os.rename(driver.registration, w.path("away"))
    agent.wait_no_driver(NAME)
    w.api.wait("the entry is gone", lambda api: not api.drivers())
    equal(len(driver.events("connected")), before, "connections")
    equal(len(driver.notifications()), 1, "notifications")


@scenario
def nothing_to_remove(w):
    """7.2: an absent CSINode is success; nothing is created and nothing repeated."""
    w.server()
    agent = w.agent(gate=True)
    driver = w.driver(NAME, node_id="i-1", capabilities=[CAPABILITY])
    driver.wait_notified(True)
    w.api.delete("csinodes", "n1")
    driver.stop()
    agent.wait_no_driver(NAME)
    w.api.idle(500)
    equal(w.api.csinode(), None, "CSINode")


@scenario
def api_down(w):
    """7, 9.6: with the API down the removal is kept and done when it is back."""
    w.server()
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    w.api.net(refuse=True, resetAll=True)
    driver.stop()
    agent.wait("the driver is gone or going", lambda s: all(d["state"] == "removing" for d in s["drivers"]))
    agent.wait("the API is missed", lambda s: s["api"]["state"] == "waiting")
    check(NAME in w.api.drivers(), "removed although the API was down")
    w.api.net(refuse=False)
    w.api.wait("entry and annotation are gone", lambda api: not api.drivers() and not api.annotation())
    agent.wait_no_driver(NAME)


@scenario
def comes_back_while_pending(w):
    """7: the name registers again before the removal could be written: the entry is in every version."""
    w.server()
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    w.api.net(refuse=True, resetAll=True)
    driver.stop()
    agent.wait("the API is missed", lambda s: s["api"]["state"] == "waiting")
    again = w.driver(NAME, node_id="i-1")
    again.wait_call("NodeGetInfo")
    w.api.net(refuse=False)
    again.wait_notified(True)
    agent.wait_driver(NAME)
    for version in w.api.history("csinodes"):
        check(version["object"]["spec"]["drivers"], "the entry was away for a while")


@scenario
def crash_keeps_the_entry(w):
    """7, 8.4: a crashed driver leaves its socket files: the entry stays; the restarted one is registered again."""
    w.server()
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    driver.kill()
    other = w.driver("b.example.com", node_id="i-2")
    other.wait_notified(True)
    equal(set(w.api.drivers()), {NAME, "b.example.com"}, "drivers")
    again = w.driver(NAME, node_id="i-1")
    again.wait_notified(True)
    agent.wait_driver(NAME)
    until("the entry is there", lambda: NAME in w.api.drivers())
