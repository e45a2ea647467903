# SPDX-License-Identifier: Apache-2.0
"""The node flow: which flow, calls and their validation, what is written to Node and CSINode, in which order.

    rule                                                scenario
    4.1 gate off: nothing new is asked                  gate_off
    4.1 gate on, capability absent / 7 and 8 only       without_the_capability
    4.1 attachRequired false                            attach_not_required
    4.1 CSIDriver unreadable: transient                 csidrivers_unreadable
    4.2 NodeGetCapabilities UNIMPLEMENTED, errors       capabilities_unimplemented, capabilities_fail
    4.2 NodeGetInfo UNIMPLEMENTED                       node_info_unimplemented
    4.3 node id                                         node_ids
    4.3 topology                                        bad_topology
    5.1 Node before CSINode, requests                   everything_in_order
    5.1 other drivers are not failed                    collision_concerns_one_driver
    5.1 conflicts                                       foreign_writers
    5.1 lost answers, nonsense with 2xx                 (test_api_faults)
    5.2 annotation                                      annotation_of_others, annotation_malformed
    5.3 labels, request                                 everything_in_order, label_collisions, label_forbidden
    5.4 count                                           counts
    5.4 existing entry: order kept, count edited        existing_entry
    5.4 other id: two updates                           another_node_id
    5.4 R removed in the update that writes D           registration_removed
    5.5 object made, owner                              everything_in_order, owners
    5.5 migrated plugins                                migrated_plugins
    5.5 create-at-start                                 created_at_start
    5.5 confirmation                                    lying_server
    9.1 Node absent                                     node_appears_later
    9.3 verification                                    verification
    9.4 restart                                         restart_writes_nothing
    9.5 local-only                                      local_only
"""
import json

from harness import CAPABILITY
from procs import check, equal
from runner import scenario

ZONE = "topology.kubernetes.io/zone"


def entry(name, node_id, keys=(), count=None):
    found = {"name": name, "nodeID": node_id, "topologyKeys": list(keys)}
    if count is not None:
        found["allocatable"] = {"count": count}
    return found


@scenario
def gate_off(w):
    """4.1, 6.4: with the gate off NodeGetCapabilities is not called, CSIDriver objects do not matter, the request has 0 bytes."""
    w.server()
    w.api.rule({"status": 403, "reason": "Forbidden", "message": "no"}, {"resource": "csidrivers"})
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", capabilities=[CAPABILITY], topology={ZONE: "z1"}, limit=5)
    driver.wait_notified(True)
    equal(driver.methods(), ["GetInfo", "NodeGetInfo", "NotifyRegistrationStatus"], "calls")
    equal(driver.request_bytes(), b"", "NodeGetInfo request")
    equal(w.api.drivers()["a.example.com"], entry("a.example.com", "i-1", [ZONE], 5), "entry")
    equal(w.api.registrations(), {}, "registrations")
    equal(agent.driver("a.example.com")["flow"], "node", "flow")


@scenario
def without_the_capability(w):
    """4.1: gate on, driver without the capability (or with the health capabilities 7 and 8 only): node flow, exactly."""
    w.server()
    w.agent(gate=True)
    plain = w.driver("plain.example.com", node_id="i-1", topology={ZONE: "z1"}, limit=5)
    health = w.driver("health.example.com", node_id="i-2", capabilities=[1, 7, 8, -1, 0, 99], topology={ZONE: "z1"}, limit=6)
    for driver in (plain, health):
        driver.wait_notified(True)
        equal(driver.methods(), ["GetInfo", "NodeGetCapabilities", "NodeGetInfo", "NotifyRegistrationStatus"], "calls")
        equal(driver.request_bytes(), b"", "NodeGetInfo request")
    equal(w.api.drivers()["plain.example.com"], entry("plain.example.com", "i-1", [ZONE], 5), "entry")
    equal(w.api.drivers()["health.example.com"], entry("health.example.com", "i-2", [ZONE], 6), "entry")
    equal(w.api.registrations(), {}, "registrations")
    equal(w.api.labels().get(ZONE), "z1", "label")
    equal(w.api.annotation(), {"plain.example.com": "i-1", "health.example.com": "i-2"}, "annotation")


@scenario
def attach_not_required(w):
    """4.1: the capability does not count for a driver whose CSIDriver says attachRequired false."""
    w.server()
    w.api.csidriver("a.example.com", attachRequired=False)
    w.agent(gate=True)
    driver = w.driver("a.example.com", node_id="i-1", capabilities=[CAPABILITY], limit=5)
    driver.wait_notified(True)
    equal(driver.request_bytes(), b"", "NodeGetInfo request")
    equal(w.api.drivers()["a.example.com"]["allocatable"], {"count": 5}, "limit")
    equal(w.api.registrations(), {}, "registrations")


@scenario
def csidrivers_unreadable(w):
    """4.1: while attachRequired cannot be read, a driver with the capability waits and fails; others do not wait."""
    w.server()
    w.api.rule({"status": 403, "reason": "Forbidden", "message": "no csidrivers for you"},
               {"resource": "csidrivers"})
    agent = w.agent(gate=True)
    driver = w.driver("a.example.com", node_id="i-1", capabilities=[CAPABILITY])
    plain = w.driver("plain.example.com", node_id="i-2")
    plain.wait_notified(True)
    driver.wait_notified(False, "CSIDriver")
    equal(agent.wait_error("a.example.com", "CSIDriver")["class"], "transient", "class")
    equal(driver.calls("NodeGetInfo"), [], "NodeGetInfo calls")


@scenario
def capabilities_unimplemented(w):
    """4.2: NodeGetCapabilities UNIMPLEMENTED means no capabilities."""
    w.server()
    w.agent(gate=True)
    driver = w.driver("a.example.com", node_id="i-1", error={"NodeGetCapabilities": (12, "what?")})
    driver.wait_notified(True)
    equal(driver.request_bytes(), b"", "NodeGetInfo request")
    check("a.example.com" in w.api.drivers(), "no entry")


@scenario
def capabilities_fail(w):
    """4.2: any other error of NodeGetCapabilities fails the attempt, transiently; NodeGetInfo is not called then."""
    w.server()
    agent = w.agent(gate=True)
    driver = w.driver("a.example.com", node_id="i-1", fail={"NodeGetCapabilities": (1, 13)})
    driver.wait_notified(False, "NodeGetCapabilities")
    driver.wait_notified(True)
    equal(len(driver.calls("NodeGetInfo")), 1, "NodeGetInfo calls")
    check(agent.driver("a.example.com"), "no driver")


@scenario
def node_info_unimplemented(w):
    """4.2: NodeGetInfo is required; there is no older call to fall back to."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", error={"NodeGetInfo": (12, "what?")})
    driver.wait_notified(False, "NodeGetInfo")
    equal(agent.wait_error("a.example.com", "must serve NodeGetInfo")["class"], "persistent", "class")


@scenario
def node_ids(w):
    """4.3: not empty, at most 256 bytes; 256 pass, 257 are refused with length and limit, without an API write."""
    w.server()
    w.agent()
    w.driver("empty.example.com", node_id="").wait_notified(False, "node id", "empty")
    w.driver("long.example.com", node_id="x" * 257).wait_notified(False, "node id", "257", "256")
    equal(w.api.csinode(), None, "CSINode")
    w.driver("fits.example.com", node_id="x" * 256).wait_notified(True)
    equal(list(w.api.drivers()), ["fits.example.com"], "drivers")


@scenario
def bad_topology(w):
    """4.3: a key or value that no label may have is refused by name, with no API write; 128 segments pass, 129 do not."""
    w.server()
    w.agent()
    for n, (key, value) in enumerate({"bad key": "v", "/x": "v", "A_B/x": "v", "x" * 64: "v", "ok": "-bad-",
                                      "good": "v" * 64}.items()):
        w.driver(f"bad{n}.example.com", node_id="i-1", topology={key: value}).wait_notified(False, key[:20])
    w.driver("many.example.com", node_id="i-1", topology_count=129).wait_notified(False, "128")
    equal(w.api.csinode(), None, "CSINode")
    w.driver("fits.example.com", node_id="i-1", topology_count=128).wait_notified(True)
    equal(len(w.api.drivers()["fits.example.com"]["topologyKeys"]), 128, "topology keys")


@scenario
def everything_in_order(w):
    """5.1-5.5: GET, GET, PATCH /status, POST and no more; labels before the entry; the patch holds the differences only."""
    w.server()
    w.api.patch("nodes", "n1", {"metadata": {"labels": {"b.example.com/rack": "r1", "keep": "me"}}})
    w.agent()
    topology = {ZONE: "z1", "b.example.com/rack": "r1", "a.example.com/x": ""}
    w.driver("a.example.com", node_id="i-1", topology=topology, limit=23).wait_notified(True)
    equal(w.api.asked(),
          [("GET", "/api/v1/nodes/n1"), ("GET", "/apis/storage.k8s.io/v1/csinodes/n1"),
           ("PATCH", "/api/v1/nodes/n1/status"), ("POST", "/apis/storage.k8s.io/v1/csinodes")], "requests")
    patch = next(r for r in w.api.log() if r["method"] == "PATCH")
    if "contentType" in patch:  # a real server's audit log does not say
        equal(patch["contentType"].split(";")[0], "application/strategic-merge-patch+json", "content type")
    body = json.loads(patch["body"])
    check(body["metadata"].pop("resourceVersion"), "the patch is not conditional")
    equal(body, {"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": '{"a.example.com":"i-1"}'},
                              "labels": {ZONE: "z1", "a.example.com/x": ""}}}, "patch")
    csinode = w.api.csinode()
    equal(csinode["spec"]["drivers"], [entry("a.example.com", "i-1", sorted(topology), 23)], "entries")
    owners = csinode["metadata"]["ownerReferences"]
    equal(owners, [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": w.api.node()["metadata"]["uid"]}], "owners")
    labelled = next(v for v in w.api.history("nodes") if ZONE in (v["object"]["metadata"].get("labels") or {}))
    check(labelled["ns"] < w.api.history("csinodes")[0]["ns"], "the entry was visible before the labels")


@scenario
def annotation_of_others(w):
    """5.2: only this driver's key changes; the map stays sorted and compact; removal takes only the key."""
    w.server()
    w.api.patch("nodes", "n1", {"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": '{"z.example.com": "z"}'}}})
    w.agent()
    driver = w.driver("a.example.com", node_id="vm/7")
    driver.wait_notified(True)
    text = w.api.node()["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"]
    equal(text, '{"a.example.com":"vm/7","z.example.com":"z"}', "annotation")
    driver.stop()
    w.api.wait("the key is gone", lambda api: api.annotation() == {"z.example.com": "z"})


@scenario
def annotation_malformed(w):
    """5.2: an annotation that is no map of strings is not overwritten; the driver fails, others with their own maps too."""
    w.server()
    w.api.patch("nodes", "n1", {"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": "[1]"}}})
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", topology={ZONE: "z1"})
    driver.wait_notified(False, "csi.volume.kubernetes.io/nodeid")
    equal(agent.wait_error("a.example.com", "nodeid")["class"], "persistent", "class")
    node = w.api.node()
    equal(node["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"], "[1]", "annotation")
    check(ZONE not in (node["metadata"].get("labels") or {}), "a label was written")
    equal(w.api.drivers(), {}, "drivers")


@scenario
def label_collisions(w):
    """5.3: another value of a label, the empty one included, is a collision: nothing of the driver is written."""
    w.server()
    w.api.patch("nodes", "n1", {"metadata": {"labels": {ZONE: "other", "e.example.com/x": ""}}})
    w.agent()
    first = w.driver("a.example.com", node_id="i-1", topology={ZONE: "z1", "new.example.com/x": "1"})
    first.wait_notified(False, ZONE, "z1", "other")
    w.driver("b.example.com", node_id="i-2", topology={"e.example.com/x": "1"}).wait_notified(False, "e.example.com/x")
    equal(w.api.drivers(), {}, "drivers")
    equal(w.api.annotation(), {}, "annotation")
    equal(w.api.labels(), {ZONE: "other", "e.example.com/x": ""} | {k: v for k, v in w.api.labels().items() if k.startswith("kubernetes.io/")},
          "labels")


@scenario
def collision_concerns_one_driver(w):
    """5.1: drivers that come together do not share one's collision."""
    w.server()
    w.api.patch("nodes", "n1", {"metadata": {"labels": {ZONE: "other"}}})
    drivers = {n: w.driver(f"{n}.example.com", node_id=f"i-{n}", topology={ZONE: "z1" if n == "b" else "other"}) for n in "abc"}
    w.agent()
    drivers["b"].wait_notified(False, ZONE)
    drivers["a"].wait_notified(True)
    drivers["c"].wait_notified(True)
    equal(set(w.api.drivers()), {"a.example.com", "c.example.com"}, "drivers")
    equal(w.api.annotation(), {"a.example.com": "i-a", "c.example.com": "i-c"}, "annotation")


@scenario
def label_forbidden(w):
    """5.3: labels that admission refuses fail the driver, persistently, naming the keys; no entry is written."""
    w.server()
    agent = w.agent()
    key = "x.node-restriction.kubernetes.io/y"
    driver = w.driver("a.example.com", node_id="i-1", topology={key: "1"})
    driver.wait_notified(False, key)
    equal(agent.wait_error("a.example.com", key)["class"], "persistent", "class")
    equal(w.api.drivers(), {}, "drivers")


@scenario
def foreign_writers(w):
    """5.1: other writers get in between again and again; both sides' entries are there in the end."""
    w.server()
    w.api.write_csinode(drivers=[{"name": "foreign.example.com", "nodeID": "f-1"}])
    w.api.rule({"conflict": {"edit": {"metadata": {"annotations": {"foreign": "1"}}}}}, {"verb": "update", "resource": "csinodes"},
               count=1)
    w.api.rule({"conflict": {}}, {"verb": "update", "resource": "csinodes"}, count=4)
    w.api.rule({"conflict": {"edit": {"metadata": {"labels": {"foreign": "1"}}}}}, {"verb": "patch", "resource": "nodes"}, count=2)
    w.agent()
    w.driver("a.example.com", node_id="i-1", topology={ZONE: "z1"}).wait_notified(True)
    equal(set(w.api.drivers()), {"a.example.com", "foreign.example.com"}, "drivers")
    equal(w.api.csinode()["metadata"]["annotations"].get("foreign"), "1", "the foreign annotation")
    equal(w.api.labels().get("foreign"), "1", "the foreign label")
    equal(w.api.labels().get(ZONE), "z1", "our label")


@scenario
def counts(w):
    """5.4: 0 and negative mean no limit, the greatest is 2^31-1; the odd ones are warned of and registered."""
    w.server()
    agent = w.agent()
    expected = {"0": None, "-1": None, "1": 1, "2147483647": 2147483647, "2147483648": 2147483647,
                "9223372036854775807": 2147483647}
    drivers = {text: w.driver(f"d{n}.example.com", node_id="i-1", limit=text) for n, text in enumerate(expected)}
    for text, driver in drivers.items():
        driver.wait_notified(True)
        allocatable = w.api.drivers()[driver.name].get("allocatable")
        equal((allocatable or {}).get("count"), expected[text], f"count for {text}")
    for text in ("-1", "2147483648"):
        check(agent.driver(drivers[text].name).get("warnings"), f"no warning for {text}")
    check(not agent.driver(drivers["1"].name).get("warnings"), "a warning for 1")


@scenario
def existing_entry(w):
    """5.4: same id and keys: only the count is edited; keys stay in stored order, the entry in its place."""
    w.server()
    old = [entry("a.example.com", "i-1", ["z/z", "a/a"], 10), entry("foreign.example.com", "f", ["q/q"])]
    w.api.write_csinode(drivers=old)
    w.agent()
    w.driver("a.example.com", node_id="i-1", topology={"a/a": "1", "z/z": "2"}, limit=25).wait_notified(True)
    equal(w.api.csinode()["spec"]["drivers"], [entry("a.example.com", "i-1", ["z/z", "a/a"], 25), old[1]], "entries")
    equal(len(w.api.history("csinodes")), 2, "versions")


@scenario
def another_node_id(w):
    """5.4: another id or key set is two updates in one attempt, without and with the entry; nothing fails."""
    w.server()
    w.api.write_csinode(drivers=[entry("a.example.com", "old", [ZONE], 3), entry("b.example.com", "i-2", ["x/old"])])
    w.agent()
    first = w.driver("a.example.com", node_id="new", topology={ZONE: "z1"})
    first.wait_notified(True)
    equal([ok for ok, _ in first.notifications()], [True], "notifications")
    ids = [next((d["nodeID"] for d in v["object"]["spec"]["drivers"] or [] if d["name"] == "a.example.com"), None)
           for v in w.api.history("csinodes")]
    equal(ids, ["old", None, "new"], "node ids in the history")
    second = w.driver("b.example.com", node_id="i-2", topology={"x/new": "1"})
    second.wait_notified(True)
    equal([ok for ok, _ in second.notifications()], [True], "notifications")
    equal(w.api.drivers()["b.example.com"]["topologyKeys"], ["x/new"], "keys")


@scenario
def registration_removed(w):
    """5.4, 6.3, 6.4: the node flow removes a registration of the controller flow in the update that writes the entry."""
    w.server()
    w.api.write_csinode(registrations=[("a.example.com", "i-1"), ("other.example.com", "o")])
    w.agent()
    w.driver("a.example.com", node_id="i-1", limit=4).wait_notified(True)
    equal(w.api.registrations(), {"other.example.com": "o"}, "registrations")
    equal(w.api.drivers()["a.example.com"], entry("a.example.com", "i-1", [], 4) | {"topologyKeys": w.api.drivers()["a.example.com"]["topologyKeys"]},
          "entry")
    equal(len(w.api.history("csinodes")), 2, "versions: one update did both")


@scenario
def owners(w):
    """5.5: an object of an earlier Node is replaced, with everything registered now; a missing owner is added."""
    w.server()
    w.api.write_csinode(drivers=[entry("old.example.com", "o")], owner_uid="11111111-1111-4111-8111-111111111111")
    w.agent()
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    equal(list(w.api.drivers()), ["a.example.com"], "drivers")
    equal(w.api.owner(), w.api.node()["metadata"]["uid"], "owner")
    deletion = next(r for r in w.api.log() if r["method"] == "DELETE")
    check(set(json.loads(deletion["body"])["preconditions"]) == {"uid", "resourceVersion"}, "deleted without preconditions")


@scenario
def owner_missing(w):
    """5.5: an object without a Node owner gets the right one; its entries stay."""
    w.server()
    w.api.write_csinode(drivers=[entry("old.example.com", "o")], owner_uid="")
    w.agent()
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    equal(set(w.api.drivers()), {"a.example.com", "old.example.com"}, "drivers")
    equal(w.api.owner(), w.api.node()["metadata"]["uid"], "owner")


@scenario
def migrated_plugins(w):
    """5.5: the annotation lists what the host declares, sorted; it is part of the creation."""
    w.server()
    w.agent("--migrated-plugins=kubernetes.io/cinder,kubernetes.io/aws-ebs")
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    equal(w.api.csinode()["metadata"]["annotations"],
          {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/cinder"}, "annotations")
    equal(len(w.api.history("csinodes")), 1, "versions")


@scenario
def created_at_start(w):
    """5.5: with create-at-start the object is there before any driver."""
    w.server()
    w.agent("--create-at-start")
    w.api.wait("the CSINode is there", lambda api: api.csinode())
    equal(w.api.drivers(), {}, "drivers")


@scenario
def lying_server(w):
    """5.5: an answer without the entry is no success: nothing is confirmed to the driver but the failure."""
    w.server()
    w.api.rule({"drop": ["/spec/drivers"]}, {"verb": "create", "resource": "csinodes"})
    w.api.rule({"drop": ["/spec/drivers"]}, {"verb": "update", "resource": "csinodes"})
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1")
    driver.wait_notified(False, "CSINode")
    equal(agent.wait_error("a.example.com", "CSINode")["class"], "persistent", "class")


@scenario
def node_appears_later(w):
    """9.1: without a Node the attempts fail, nothing is created; once it is there the driver registers."""
    w.server()
    node = w.api.node()
    w.api.delete("nodes", "n1")
    agent = w.agent("--publish-timeout=2s")
    driver = w.driver("a.example.com", node_id="i-1")
    driver.wait_notified(False, "Node", "not found")
    equal(agent.wait_error("a.example.com", "not found")["class"], "transient", "class")
    equal(w.api.csinode(), None, "CSINode")
    w.api.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node["metadata"]["name"]}})
    driver.wait_notified(True)


@scenario
def verification(w):
    """9.3: what others removed comes back with the verification; with nothing wrong it writes nothing."""
    w.server()
    w.agent("--verify-interval=300ms", gate=True)
    w.driver("a.example.com", node_id="i-1", topology={ZONE: "z1"}, limit=7).wait_notified(True)
    w.driver("c.example.com", node_id="i-2", capabilities=[CAPABILITY]).wait_notified(True)
    writes = len(w.api.history("csinodes")) + len(w.api.history("nodes"))
    done = w.api.requests(verb="get", resources=("csinodes",))
    w.api.wait("two more verifications", lambda api: api.requests(verb="get", resources=("csinodes",)) >= done + 2)
    equal(len(w.api.history("csinodes")) + len(w.api.history("nodes")), writes, "versions of both objects")
    w.api.delete("csinodes", "n1")
    w.api.wait("all entries are back", lambda api: list(api.drivers()) == ["a.example.com"]
               and api.registrations() == {"c.example.com": "i-2"})
    w.api.patch("nodes", "n1", {"metadata": {"labels": {ZONE: None}, "annotations": None}})
    w.api.wait("label and annotation are back", lambda api: api.labels().get(ZONE) == "z1"
               and api.annotation() == {"a.example.com": "i-1"})


@scenario
def restart_writes_nothing(w):
    """9.4: stop leaves everything; a start with equal values writes nothing; entries without a socket stay, unclaimed."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", topology={ZONE: "z1"}, limit=3)
    driver.wait_notified(True)
    w.driver("b.example.com", node_id="i-2").wait_notified(True)
    equal(agent.stop(), 0, "exit code")
    check(len(w.api.drivers()) == 2, "stop removed entries")
    versions = len(w.api.history("csinodes")), len(w.api.history("nodes"))
    again = w.agent()
    again.wait_driver("a.example.com")
    again.wait_driver("b.example.com")
    equal((len(w.api.history("csinodes")), len(w.api.history("nodes"))), versions, "versions of both objects")


@scenario
def local_only(w):
    """9.5: without an API handshake, lookups and notifications work; nothing is written and the status says so."""
    w.server()
    agent = w.agent("--local-only", gate=True, api=False)
    driver = w.driver("a.example.com", node_id="i-1", capabilities=[CAPABILITY])
    driver.wait_notified(True)
    equal(driver.request_bytes(), b"", "NodeGetInfo request")
    status = agent.status()
    equal((status["api"]["state"], status["api"]["source"]), ("local-only", "none"), "API state")
    equal(agent.driver("a.example.com")["state"], "registered", "state")
    equal(w.api.requests(), 0, "requests")
