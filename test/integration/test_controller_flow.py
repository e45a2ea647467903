# SPDX-License-Identifier: Apache-2.0
"""KEP-6011's controller flow. The controller side is not here: scenarios play its part as administrator.

    rule                                             scenario
    4.1 flag only with the capability and attach     flagged, capability_number
    4.2 no fall-back between flows                   no_fall_back, empty_node_id
    6.1.2 appended or edited in place                registration_edited_in_place
    6.1.3 dropped by the server                      server_gate_off, server_too_old, fall_back_when_dropped
    6.1.4 topology and limit not consumed            flagged, invalid_topology_is_not_looked_at
    6.1.5 an existing entry with the same id stays   entry_with_the_same_id
    6.1.6 another id: one update                     entry_with_another_id
    6.1.7 failure removes both                       empty_node_id
    6.1.8 conflicts                                  conflict_with_the_controller_side
    6.1.9 annotation                                 stale_annotation
    6.1.11 waiting for the controller                completed_by_the_controller_side
    6.1.12 requests                                  flagged
    6.3 switching                                    node_to_controller, controller_to_node, back_to_another_id
    6.4 gate off                                     controller_to_node
    3.5 notified before D exists                     flagged
"""
from harness import CAPABILITY
from procs import check, equal
from runner import scenario

ZONE = "topology.kubernetes.io/zone"
NAME = "a.example.com"


def capable(w, node_id="i-1", name=NAME, **how):
    """A driver with NODE_INFO_FROM_CONTROLLER that answers everything although it is not asked for it."""
    return w.driver(name, node_id=node_id, capabilities=[1, CAPABILITY], **({"topology": {ZONE: "z1"}, "limit": 9} | how))


def complete(w, node_id="i-1", count=20):
    """What the controller side does: labels, then the entry with keys and limit."""
    w.api.patch("nodes", "n1", {"metadata": {"labels": {ZONE: "z1"}}})
    drivers = list(w.api.drivers().values()) + [{"name": NAME, "nodeID": node_id, "topologyKeys": [ZONE],
                                                 "allocatable": {"count": count}}]
    w.api.patch("csinodes", "n1", {"spec": {"drivers": drivers}})


def versions(w, *fields):
    """(node id in drivers, node id in driverRegistrations) of NAME in each version of the CSINode."""
    def of(version, which):
        found = version["object"]["spec"].get(which) or []
        return next((e["nodeID"] for e in found if e["name"] == NAME), None)
    return [(of(v, "drivers"), of(v, "driverRegistrations")) for v in w.api.history("csinodes")]


@scenario
def flagged(w):
    """4.1, 6.1: the request is 08 01; only the registration is written, in 3 requests; true is notified without an entry."""
    w.server()
    agent = w.agent(gate=True)
    driver = capable(w)
    driver.wait_notified(True)
    equal(driver.methods(), ["GetInfo", "NodeGetCapabilities", "NodeGetInfo", "NotifyRegistrationStatus"], "calls")
    equal(driver.request_bytes().hex(), "0801", "NodeGetInfo request")
    equal(w.api.registrations(), {NAME: "i-1"}, "registrations")
    equal(w.api.drivers(), {}, "drivers")
    check(ZONE not in w.api.labels(), "a label was written")
    equal(w.api.annotation(), {}, "annotation")
    equal(w.api.asked(), [("GET", "/api/v1/nodes/n1"), ("GET", "/apis/storage.k8s.io/v1/csinodes/n1"),
                          ("POST", "/apis/storage.k8s.io/v1/csinodes")], "requests")
    row = agent.driver(NAME)
    equal((row["flow"], row["nodeID"]), ("controller", "i-1"), "flow and node id")
    check(row.get("waitingForControllerSince"), "the status does not say that it waits for the controller side")


@scenario
def capability_number(w):
    """Wire 4: another number can be set; the default one then means nothing; numbers with a meaning are refused."""
    w.server()
    w.agent("--node-info-from-controller-capability=33", gate=True)
    old = w.driver("old.example.com", node_id="i-1", capabilities=[CAPABILITY])
    new = w.driver("new.example.com", node_id="i-2", capabilities=[33])
    for driver in (old, new):
        driver.wait_notified(True)
    equal((old.request_bytes().hex(), new.request_bytes().hex()), ("", "0801"), "NodeGetInfo requests")
    for number, meaning in ((7, "GET_VOLUME_HEALTH"), (8, "GET_STORAGE_HEALTH"), (1, "STAGE_UNSTAGE_VOLUME")):
        process = w.start(f"refused{number}", "csireg-agent", "--node-name=n1", "--local-only",
                          f"--node-info-from-controller-capability={number}", expect_exit=2)
        equal(process.wait_exit(), 2, "exit code")
        process.wait_line(meaning)


@scenario
def attach_required_explicitly(w):
    """4.1: attachRequired true is the same as no object at all."""
    w.server()
    w.api.csidriver(NAME, attachRequired=True)
    w.agent(gate=True)
    driver = capable(w)
    driver.wait_notified(True)
    equal(driver.request_bytes().hex(), "0801", "NodeGetInfo request")


@scenario
def invalid_topology_is_not_looked_at(w):
    """4.3, 6.1.4: what is not consumed cannot fail a registration."""
    w.server()
    w.agent(gate=True)
    capable(w, topology={"bad key": "-bad-"}, limit=-5, topology_count=500).wait_notified(True)
    equal(w.api.registrations(), {NAME: "i-1"}, "registrations")


@scenario
def no_fall_back(w):
    """4.2: a flagged call that fails is not repeated without the flag."""
    w.server()
    w.agent(gate=True)
    driver = capable(w, fail={"NodeGetInfo": (2, 13)})
    driver.wait_notified(True)
    equal([call["request"] for call in driver.calls("NodeGetInfo")], ["0801"] * 3, "requests")
    equal([ok for ok, _ in driver.notifications()], [False, False, True], "notifications")


@scenario
def empty_node_id(w):
    """6.1.7: an empty node id fails the registration; both entries of an earlier one go in one update."""
    w.server()
    w.api.write_csinode(drivers=[{"name": NAME, "nodeID": "i-1"}], registrations=[(NAME, "i-1")])
    w.agent(gate=True)
    driver = capable(w, node_id="")
    driver.wait_notified(False, "node id", "empty")
    w.api.wait("both are gone", lambda api: not api.drivers() and not api.registrations())
    equal(versions(w), [("i-1", "i-1"), (None, None)], "versions")
    equal(len(driver.calls("NodeGetInfo")), 1, "NodeGetInfo calls")


@scenario
def registration_edited_in_place(w):
    """6.1.2: another node id edits the registration where it is; the others stay."""
    w.server()
    w.api.write_csinode(registrations=[(NAME, "old"), ("z.example.com", "z")])
    w.agent(gate=True)
    capable(w).wait_notified(True)
    equal(w.api.csinode()["spec"]["driverRegistrations"],
          [{"name": NAME, "nodeID": "i-1"}, {"name": "z.example.com", "nodeID": "z"}], "registrations")


@scenario
def server_gate_off(w):
    """6.1.3: a server that drops the field: the registration fails, naming the gate; nothing is left behind."""
    w.server(gate="off")
    agent = w.agent(gate=True)
    capable(w).wait_notified(False, "CSIControllerGetNodeInfo")
    equal(agent.wait_error(NAME, "CSIControllerGetNodeInfo")["class"], "persistent", "class")
    w.api.idle(300)
    equal((w.api.drivers(), w.api.registrations(), w.api.annotation()), ({}, {}, {}), "drivers, registrations, annotation")


@scenario
def server_too_old(w):
    """6.1.3: the same with a server that does not know the field."""
    w.server(gate="unknown")
    w.agent(gate=True)
    capable(w).wait_notified(False, "CSIControllerGetNodeInfo")
    w.api.idle(300)
    equal((w.api.drivers(), w.api.registrations()), ({}, {}), "drivers and registrations")


@scenario
def fall_back_when_dropped(w):
    """6.1.3: registration-dropped=node-flow: one more NodeGetInfo without the flag, and the node flow."""
    w.server(gate="off")
    agent = w.agent("--registration-dropped=node-flow", gate=True)
    driver = capable(w)
    driver.wait_notified(True)
    equal([call["request"] for call in driver.calls("NodeGetInfo")], ["0801", ""], "NodeGetInfo requests")
    equal([ok for ok, _ in driver.notifications()], [True], "notifications")
    equal(w.api.drivers()[NAME]["allocatable"], {"count": 9}, "limit")
    equal(w.api.labels().get(ZONE), "z1", "label")
    equal(agent.driver(NAME)["flow"], "node", "flow")


@scenario
def entry_with_the_same_id(w):
    """6.1.5: an entry with the same id stays untouched, whoever wrote it."""
    w.server()
    old = {"name": NAME, "nodeID": "i-1", "topologyKeys": ["z/z", "a/a"], "allocatable": {"count": 77}}
    w.api.write_csinode(drivers=[old])
    w.agent(gate=True)
    capable(w).wait_notified(True)
    equal(w.api.drivers(), {NAME: old}, "drivers")
    equal(versions(w), [("i-1", None), ("i-1", "i-1")], "versions")


@scenario
def entry_with_another_id(w):
    """6.1.6: an entry with another id goes in the update that writes the registration; nothing fails."""
    w.server()
    w.api.write_csinode(drivers=[{"name": NAME, "nodeID": "old"}, {"name": "z.example.com", "nodeID": "z"}])
    w.agent(gate=True)
    driver = capable(w)
    driver.wait_notified(True)
    equal(versions(w), [("old", None), (None, "i-1")], "versions")
    equal(list(w.api.drivers()), ["z.example.com"], "drivers")
    equal([ok for ok, _ in driver.notifications()], [True], "notifications")


@scenario
def conflict_with_the_controller_side(w):
    """6.1.8: another writer in between means: read, apply the own change again, retry."""
    w.server()
    w.api.write_csinode()
    w.api.rule({"conflict": {"edit": {"spec": {"drivers": [{"name": "z.example.com", "nodeID": "z"}]}}}},
               {"verb": "update", "resource": "csinodes"}, count=2)
    w.agent(gate=True)
    capable(w).wait_notified(True)
    equal(w.api.registrations(), {NAME: "i-1"}, "registrations")
    equal(list(w.api.drivers()), ["z.example.com"], "drivers")


@scenario
def stale_annotation(w):
    """6.1.9: the Node's annotation is not written; a key with the same id stays, one with another is removed."""
    w.server()
    w.api.patch("nodes", "n1", {"metadata": {"annotations": {
        "csi.volume.kubernetes.io/nodeid": '{"a.example.com":"old","b.example.com":"i-2","z.example.com":"z"}'}}})
    w.agent(gate=True)
    capable(w).wait_notified(True)
    capable(w, node_id="i-2", name="b.example.com").wait_notified(True)
    w.api.wait("the stale key is gone", lambda api: api.annotation() == {"b.example.com": "i-2", "z.example.com": "z"})


@scenario
def completed_by_the_controller_side(w):
    """6.1.11: waiting until the entry with the same id was seen where the object is read anyway, then completed."""
    w.server()
    agent = w.agent("--verify-interval=200ms", gate=True)
    capable(w).wait_notified(True)
    check(agent.driver(NAME).get("waitingForControllerSince"), "not waiting")
    complete(w)
    agent.wait_driver(NAME, completed=True)
    check(not agent.driver(NAME).get("waitingForControllerSince"), "still waiting")
    w.api.idle(0)
    equal(w.api.drivers()[NAME]["allocatable"], {"count": 20}, "the controller side's limit")


@scenario
def node_to_controller(w):
    """6.3: gate switched on and restart: one update adds the registration; the entry of the same id is preserved."""
    w.server()
    agent = w.agent()
    capable(w).wait_notified(True)
    before = w.api.drivers()
    agent.stop()
    again = w.agent(gate=True)
    again.wait_driver(NAME, flow="controller")
    equal(w.api.drivers(), before, "drivers")
    equal(versions(w), [("i-1", None), ("i-1", "i-1")], "versions")


@scenario
def controller_to_node(w):
    """6.3, 6.4: gate off and restart: Node first, then the entry as in the node flow and the registration gone, at once."""
    w.server()
    agent = w.agent(gate=True)
    capable(w).wait_notified(True)
    complete(w)
    agent.stop()
    w.api.patch("nodes", "n1", {"metadata": {"labels": {ZONE: None}}})
    again = w.agent()
    again.wait_driver(NAME, flow="node")
    equal(versions(w)[-2:], [("i-1", "i-1"), ("i-1", None)], "last versions")
    equal(w.api.drivers()[NAME]["allocatable"], {"count": 9}, "limit")
    equal((w.api.labels().get(ZONE), w.api.annotation()), ("z1", {NAME: "i-1"}), "label and annotation")
    labelled = [v for v in w.api.history("nodes") if ZONE in (v["object"]["metadata"].get("labels") or {})][-1]
    check(labelled["ns"] < w.api.history("csinodes")[-1]["ns"], "the entry was written before the labels")


@scenario
def back_to_another_id(w):
    """6.3: controller to node with another id: two updates, the registration removed in the first."""
    w.server()
    w.api.write_csinode(drivers=[{"name": NAME, "nodeID": "old", "topologyKeys": [ZONE]}], registrations=[(NAME, "old")])
    w.agent()
    capable(w).wait_notified(True)
    equal(versions(w), [("old", "old"), (None, None), ("i-1", None)], "versions")
