# SPDX-License-Identifier: Apache-2.0
"""What runs against the real server: which of the integration scenarios, and what only a real one can be asked."""
import os
import threading

from procs import check, equal
from runner import scenario

ZONE = "topology.kubernetes.io/zone"
NAME = "a.example.com"

# Of test/integration, unchanged.
SHARED = """
node_flow.without_the_capability node_flow.attach_not_required node_flow.node_ids node_flow.bad_topology
node_flow.everything_in_order node_flow.annotation_of_others node_flow.annotation_malformed node_flow.label_collisions
node_flow.collision_concerns_one_driver node_flow.label_forbidden node_flow.counts node_flow.existing_entry
node_flow.another_node_id node_flow.owners node_flow.owner_missing node_flow.migrated_plugins node_flow.created_at_start
node_flow.node_appears_later node_flow.restart_writes_nothing
unregister.node_flow unregister.last_entry unregister.no_calls_afterwards unregister.crash_keeps_the_entry
api_faults.node_recreated api_faults.requests_are_quiet_about_secrets
controller_flow.server_gate_off controller_flow.server_too_old controller_flow.fall_back_when_dropped
acceptance.ten_in_the_node_flow
handshake.steps_in_order handshake.failed_node_info_removes handshake.failed_get_info_removes_nothing
instances.replaced_in_place instances.replaced_by_a_broken_one instances.newest_wins instances.standby_takes_over
instances.failed_take_over
options.label_prefixes options.refusal_concerns_one_driver options.grace_return options.grace_passes
host.second_door host.third_door host.three_doors
programs.registrar_registers programs.registrar_is_refused programs.embed
""".split()


def entries(w):
    return sorted(w.api.drivers())


@scenario
def client_certificate(w):
    """The node's identity comes from a client certificate: entry, labels and annotation are there."""
    w.server().use_certificate(w.directory)
    w.agent()
    w.driver(NAME, node_id="i-1", topology={ZONE: "z1"}, limit=7).wait_notified(True)
    equal(list(w.api.drivers().values()),
          [{"name": NAME, "nodeID": "i-1", "topologyKeys": [ZONE], "allocatable": {"count": 7}}], "entries")
    equal((w.api.labels().get(ZONE), w.api.annotation()), ("z1", {NAME: "i-1"}), "label and annotation")


@scenario
def stale_token(w):
    """A token that the server does not know (401): the driver waits, unnotified, until the file has a good one."""
    api = w.server()
    token = w.path("token")
    replace(token, "stale")
    api.cluster.kubeconfig(api.kubeconfig, [f"tokenFile: {token}"])
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1")
    agent.wait("the API is missed",
               lambda s: s["api"]["state"] == "waiting" and "401" in s["api"]["lastError"]["message"])
    equal(driver.notifications(), [], "notifications")
    replace(token, api.cluster.tokens[api.node_name])
    driver.wait_notified(True)
    equal(len(driver.calls("GetInfo")), 1, "attempts")


def replace(path, text):
    """As a volume mount does it: in one step."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


@scenario
def identity_of_another_node(w):
    """The identity of another node (403): the driver is refused in the server's words; nothing is written."""
    api = w.server()
    api.cluster.kubeconfig(api.kubeconfig, [f"token: {api.cluster.tokens['n2']}"])
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1", topology={ZONE: "z1"})
    text = driver.wait_notified(False, 'User "system:node:n2" cannot get resource')
    check("n1" in text, text)
    equal(agent.wait_error(NAME, "403")["class"], "persistent", "class")
    equal((api.csinode(), api.annotation()), (None, {}), "CSINode and annotation")


@scenario
def deleted_before_the_next_write(w):
    """The CSINode is deleted before the next driver comes: it is made again with everything that is registered."""
    w.server()
    w.agent()
    w.driver(NAME, node_id="i-1", limit=3).wait_notified(True)
    w.api.delete("csinodes", "n1")
    w.driver("b.example.com", node_id="i-2").wait_notified(True)
    w.api.wait("both entries are there", lambda api: entries(w) == [NAME, "b.example.com"])
    equal(w.api.csinode()["metadata"]["ownerReferences"][0]["uid"], w.api.node()["metadata"]["uid"], "owner")


@scenario
def second_writer(w):
    """Another writer changes both objects in a loop: drivers come and go, nobody's changes are lost."""
    w.server()
    w.api.write_csinode(drivers=[{"name": "foreign.example.com", "nodeID": "f", "topologyKeys": ["f/k"]}])
    writer = Writer(w.api)
    try:
        w.agent()
        drivers = []
        while len(drivers) < 4 or (len(drivers) < 40 and not any(r["code"] == 409 for r in w.api.log())):
            drivers.append(w.driver(f"d{len(drivers)}.example.com", node_id="i", topology={ZONE: "z1"}))
            drivers[-1].wait_notified(True)
        drivers[0].stop()
        w.api.wait("the first has gone", lambda api: "d0.example.com" not in api.drivers())
    finally:
        done = writer.stop()
    staying = [driver.name for driver in drivers[1:]]
    equal(entries(w), sorted(staying + ["foreign.example.com"]), "drivers")
    equal(w.api.csinode()["metadata"]["annotations"], {"writer": str(done)}, "the writer's last change of the CSINode")
    equal((w.api.labels().get("writer"), w.api.labels().get(ZONE)), (str(done), "z1"), "both sides' labels")
    w.api.wait("the annotation is right", lambda api: api.annotation() == {name: "i" for name in staying})
    check(all(ok for driver in drivers for ok, _ in driver.notifications()), "a driver was notified of a failure")
    check(any(r["code"] == 409 for r in w.api.log()), "there never was a conflict")


class Writer:
    """Numbers its changes of CSINode and Node, as fast as the server takes them."""

    def __init__(self, api):
        self.api, self.end, self.count, self.fault = api, threading.Event(), 0, None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            while not self.end.is_set():
                number = str(self.count + 1)
                self.api.patch("csinodes", "n1", {"metadata": {"annotations": {"writer": number}}})
                self.api.patch("nodes", "n1", {"metadata": {"labels": {"writer": number}}})
                self.count += 1
        except Exception as fault:  # pylint: disable=broad-except
            self.fault = fault

    def stop(self):
        """How many times it wrote."""
        self.end.set()
        self.thread.join()
        check(not self.fault, f"the second writer: {self.fault}")
        return self.count


@scenario
def annotations_nearly_full(w):
    """Node annotations without room for one more driver (422): it is refused in the server's words, the others stay."""
    w.server()
    agent = w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    room = 30
    annotations = w.api.node()["metadata"]["annotations"]
    used = sum(len(key) + len(value) for key, value in annotations.items())
    w.api.patch("nodes", "n1", {"metadata": {"annotations": {"full": "x" * (262144 - used - len("full") - room)}}})
    driver = w.driver("b.example.com", node_id="i-" + "2" * 100)
    driver.wait_notified(False, "422", "metadata.annotations", "Too long")
    equal(agent.wait_error("b.example.com", "422")["class"], "persistent", "class")
    equal((entries(w), w.api.annotation()), ([NAME], {NAME: "i-1"}), "entries and annotation")
    w.api.patch("nodes", "n1", {"metadata": {"annotations": {"full": None}}})
    driver.stop()
    w.driver("b.example.com", node_id="i-" + "2" * 100).wait_notified(True)


@scenario
def status_is_preserved(w):
    """What others keep in the CSINode's status is there after our writes."""
    w.server()
    w.api.write_csinode(drivers=[{"name": "foreign.example.com", "nodeID": "f"}])
    health = [{"name": "foreign.example.com", "conditions": []}]
    code, found = w.api.request("PATCH", "/apis/storage.k8s.io/v1/csinodes/n1/status",
                                {"status": {"storageHealth": health}}, "application/merge-patch+json")
    equal(code, 200, f"writing the status ({found})")
    before = w.api.csinode()["status"]
    check(before.get("storageHealth"), "the server did not keep the status")
    w.agent()
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    equal(w.api.csinode()["status"], before, "status")
    driver.stop()
    w.api.wait("the entry is gone", lambda api: entries(w) == ["foreign.example.com"])
    equal(w.api.csinode()["status"], before, "status")


@scenario
def server_away(w):
    """The API server ends and comes back: a driver that comes meanwhile waits, one that leaves is removed later."""
    api = w.server()
    agent = w.agent()
    leaving = w.driver(NAME, node_id="i-1")
    leaving.wait_notified(True)
    api.cluster.stop_apiserver(crash=True)
    leaving.stop()
    coming = w.driver("b.example.com", node_id="i-2")
    coming.wait_call("NodeGetInfo")
    agent.wait("the API is missed", lambda s: s["api"]["state"] == "waiting")
    equal(coming.notifications(), [], "notifications")
    api.cluster.start_apiserver()
    coming.wait_notified(True)
    w.api.wait("only the second is there", lambda api: entries(w) == ["b.example.com"]
               and api.annotation() == {"b.example.com": "i-2"})
    equal(len(coming.calls("GetInfo")), 1, "attempts")
