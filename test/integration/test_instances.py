# SPDX-License-Identifier: Apache-2.0
"""Several instances of one driver name, and sockets that are made anew: the entry stays wherever it can.

    rule                                                          scenario
    2.3 replacement in place: entries stay, differences written   replaced_in_place
    2.3 success under another name                                replaced_by_another_name
    2.3 failure of the first attempt unregisters                  replaced_by_a_broken_one
    3.4 equal versions: the newest wins, no gap                   newest_wins
    3.4 higher version wins, lower is refused                     higher_version_wins, lower_version_is_refused
    3.4 two at the start                                          two_at_the_start
    3.4 active one vanishes: the standby comes at once            standby_takes_over
    3.4 a standby vanishes: no effect                             standby_vanishes
    3.4 take-over fails: the old one is untouched                 failed_take_over
    3.7 an instance that is not active removes nothing            failed_take_over, lower_version_is_refused
"""
import os

from procs import check, equal
from runner import scenario

NAME = "a.example.com"


def instance(w, label, **how):
    """One more instance of the name, with a registration socket of its own."""
    return w.driver(NAME, registration=os.path.join(w.registry, label), **({"node_id": "i-1"} | how))


def replace(w, old, name=NAME, **how):
    """A driver whose registration socket takes the place of the old one's in one step, as a rename does."""
    old.kill()
    new = w.driver(name, registration=w.path(f"new{len(w.things)}"), **how)
    new.process.wait_line('"ready"')
    os.rename(new.registration, old.registration)
    return new


def active(agent):
    """The endpoint that the agent uses for the name."""
    return agent.driver(NAME).get("endpoint")


def always_there(w):
    """The entry is in every version of the CSINode from the first that had it."""
    seen = [any(d["name"] == NAME for d in v["object"]["spec"].get("drivers") or []) for v in w.api.history("csinodes")]
    check(all(seen[seen.index(True):]), f"the entry was away for a while: {seen}")


@scenario
def replaced_in_place(w):
    """2.3: the same name from a new socket: only the differences are written, the entry is in every version."""
    w.server()
    agent = w.agent()
    old = w.driver(NAME, node_id="i-1", limit=10)
    old.wait_notified(True)
    new = replace(w, old, node_id="i-1", limit=20)
    new.wait_notified(True)
    agent.wait_driver(NAME, endpoint=new.endpoint)
    equal(w.api.drivers()[NAME]["allocatable"], {"count": 20}, "limit")
    equal(len(w.api.history("csinodes")), 2, "versions")
    always_there(w)


@scenario
def replaced_by_another_name(w):
    """2.3: another name from the same socket: the old name leaves in the update that brings the new one."""
    w.server()
    agent = w.agent()
    old = w.driver(NAME, node_id="i-1")
    old.wait_notified(True)
    replace(w, old, "b.example.com", node_id="i-2").wait_notified(True)
    agent.wait_no_driver(NAME)
    names = [[d["name"] for d in v["object"]["spec"].get("drivers") or []] for v in w.api.history("csinodes")]
    equal(names, [[NAME], ["b.example.com"]], "names in each version")
    w.api.wait("the annotation follows", lambda api: api.annotation() == {"b.example.com": "i-2"})


@scenario
def replaced_by_a_broken_one(w):
    """2.3, 3.7: the first attempt of the new socket fails: the driver of the old one is unregistered."""
    w.server()
    agent = w.agent()
    old = w.driver(NAME, node_id="i-1")
    old.wait_notified(True)
    replace(w, old, node_id="").wait_notified(False)
    w.api.wait("the entry is gone", lambda api: not api.drivers() and not api.annotation())
    agent.wait_no_driver(NAME)


@scenario
def newest_wins(w):
    """3.4: equal versions: the newest socket takes over; the displaced one is told nothing and waits; no write."""
    w.server()
    agent = w.agent()
    first = instance(w, "first")
    first.wait_notified(True)
    second = instance(w, "second")
    second.wait_notified(True)
    agent.wait_driver(NAME, endpoint=second.endpoint)
    equal(first.notifications(), [(True, "")], "notifications of the displaced one")
    equal(len(w.api.history("csinodes")), 1, "versions")
    equal(agent.socket(first.registration)["active"], False, "the displaced one is active")


@scenario
def higher_version_wins(w):
    """3.4: a higher version takes over, an equal one that is older than it does not come back by itself."""
    w.server()
    agent = w.agent()
    low = instance(w, "low", versions="1.0.0")
    low.wait_notified(True)
    high = instance(w, "high", versions="1.1.0")
    high.wait_notified(True)
    agent.wait_driver(NAME, endpoint=high.endpoint, version="1.1.0")
    always_there(w)


@scenario
def lower_version_is_refused(w):
    """3.4, 3.7: a lower version is refused, naming both endpoints; it costs no request and disturbs nothing."""
    w.server()
    agent = w.agent()
    high = instance(w, "high", versions="1.1.0")
    high.wait_notified(True)
    w.api.idle(300)
    before = w.api.requests()
    low = instance(w, "low", versions="1.0.0", node_id="i-2")
    low.wait_notified(False, high.endpoint, low.endpoint)
    equal(low.methods(), ["GetInfo", "NotifyRegistrationStatus"], "calls of the refused one")
    low.stop()
    agent.wait("it is gone", lambda s: len(s["sockets"]) == 1)
    w.api.idle(300)
    equal(w.api.requests(), before, "requests because of the refused one")
    equal((active(agent), w.api.drivers()[NAME]["nodeID"]), (high.endpoint, "i-1"), "endpoint and node id")
    equal(high.notifications(), [(True, "")], "notifications of the first")


@scenario
def two_at_the_start(w):
    """3.4: of two that are there at the start the newer one wins whatever the scan finds first."""
    for newer, older in (("a", "z"), ("z", "a")):
        w.server()
        first = instance(w, older)
        first.process.wait_line('"ready"')
        second = instance(w, newer)
        second.process.wait_line('"ready"')
        agent = w.agent()
        agent.wait_driver(NAME, endpoint=second.endpoint)
        w.restart()


@scenario
def standby_takes_over(w):
    """3.4: the active one vanishes: the standby is tried at once; the entry is in every version."""
    w.server()
    agent = w.agent()
    first = instance(w, "first")
    first.wait_notified(True)
    second = instance(w, "second")
    second.wait_notified(True)
    agent.wait_driver(NAME, endpoint=second.endpoint)
    second.stop()
    agent.wait_driver(NAME, endpoint=first.endpoint)
    w.api.idle(300)
    always_there(w)
    equal([ok for ok, _ in first.notifications()], [True, True], "notifications of the standby")


@scenario
def standby_vanishes(w):
    """3.4: a standby that vanishes has no effect: no write, no call."""
    w.server()
    agent = w.agent()
    first = instance(w, "first")
    first.wait_notified(True)
    second = instance(w, "second")
    second.wait_notified(True)
    agent.wait_driver(NAME, endpoint=second.endpoint)
    w.api.idle(300)
    requests, calls = w.api.requests(), len(second.calls())
    first.stop()
    agent.wait("the standby is gone", lambda s: len(s["sockets"]) == 1)
    w.api.idle(300)
    equal((w.api.requests(), len(second.calls())), (requests, calls), "requests and calls")
    equal(agent.driver(NAME)["state"], "registered", "state")


@scenario
def failed_take_over(w):
    """3.4, 3.7: whoever fails to take over is told false and touches nothing of the old one."""
    w.server()
    agent = w.agent()
    first = instance(w, "first")
    first.wait_notified(True)
    w.api.idle(300)
    requests = w.api.requests()
    instance(w, "second", node_id="").wait_notified(False, "node id")
    w.api.idle(300)
    equal(w.api.requests(), requests, "requests")
    equal((active(agent), agent.driver(NAME)["state"]), (first.endpoint, "registered"), "endpoint and state")
    equal(first.notifications(), [(True, "")], "notifications of the first")
