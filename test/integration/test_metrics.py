# SPDX-License-Identifier: Apache-2.0
"""The agent's /metrics, read with Prometheus' own parser, after things whose numbers are known.

    number                                                      scenario
    csi_operations_seconds: labels, buckets as the kubelet's    operations, operations_that_fail
    attempts, retries, failures by step                         failures
    drivers by state and flow, sockets by state                 drivers_and_flows
    API requests by verb, resource and code                     requests, requests_without_an_answer
    conflicts, retries                                          met_another_writer
    watch restarts                                              watch_restarts
    scans, registry                                             registry
    refreshes                                                   refreshes (slow)
    build, gate; the format; one series for each label set      format
"""
import sys

from harness import CAPABILITY
from procs import check, equal, until
from runner import scenario

DEBIAN = "/usr/lib/python3/dist-packages"  # where the package is, whichever python3 runs this

NAME = "a.example.com"
BUCKETS = ["0.1", "0.25", "0.5", "1", "2.5", "5", "10", "15", "25", "50", "120", "300", "600", "+Inf"]
NODE_GET_INFO = "/csi.v1.Node/NodeGetInfo"


def families(agent):
    """What the parser makes of the page."""
    if DEBIAN not in sys.path:
        sys.path.append(DEBIAN)
    from prometheus_client.parser import text_string_to_metric_families  # pylint: disable=import-outside-toplevel
    code, text = agent.page("/metrics")
    equal(code, 200, "/metrics")
    return list(text_string_to_metric_families(text))


class Numbers:
    """One reading of the page: numbers(name, label=value, ...) is the sum of the samples that match."""

    def __init__(self, agent):
        self.samples = [sample for family in families(agent) for sample in family.samples]

    def __call__(self, name, /, **labels):
        return sum(s.value for s in self.samples
                   if s.name == name and all(s.labels.get(k) == v for k, v in labels.items()))

    def labels(self, name):
        return [s.labels for s in self.samples if s.name == name]


def wait_numbers(agent, what, predicate):
    """The reading that has what is wanted."""
    def probe(_):
        numbers = Numbers(agent)
        return numbers if predicate(numbers) else None
    return agent.wait(what, probe)


@scenario
def format(w):  # pylint: disable=redefined-builtin
    """Every family has help and type, no sample comes twice, build and gate are told; the type is that of the text."""
    w.server()
    agent = w.agent("--node-info-from-controller-capability=33", gate=True)
    w.driver(NAME, node_id="i-1").wait_notified(True)
    agent.wait_driver(NAME)
    found = families(agent)
    for family in found:
        check(family.documentation and family.type in ("counter", "gauge", "histogram"), f"{family.name}: {family}")
        check(family.name.startswith(("csireg_", "csi_operations_seconds")), family.name)
    numbers = Numbers(agent)
    keys = [(s.name, tuple(sorted(s.labels.items()))) for s in numbers.samples]
    equal(len(keys), len(set(keys)), "samples and different samples")
    equal(len({f.name for f in found}), len(found), "families and names")
    equal(numbers.labels("csireg_build_info"), [{"version": agent.status()["library"], "capability": "33"}], "build")
    equal(numbers("csireg_feature_enabled", name="CSIControllerGetNodeInfo"), 1, "gate")
    equal(numbers("csireg_api_state", state="ok"), 1, "state of the API")
    equal(numbers("csireg_api_state"), 1, "states of the API at once")
    equal(numbers("csireg_event_queue_length"), 0, "events that the agent has not read")


@scenario
def operations(w):
    """One call of each method of the handshake, under the driver's name once it is known; buckets rise to the count."""
    w.server()
    agent = w.agent(gate=True)
    w.driver(NAME, node_id="i-1", delay={"NodeGetInfo": "300ms"}).wait_notified(True)
    numbers = wait_numbers(agent, "the notification is counted", lambda n: n(
        "csi_operations_seconds_count", method_name="/pluginregistration.Registration/NotifyRegistrationStatus"))
    for method in ("/csi.v1.Node/NodeGetCapabilities", NODE_GET_INFO,
                   "/pluginregistration.Registration/NotifyRegistrationStatus"):
        labels = {"driver_name": NAME, "method_name": method, "grpc_status_code": "OK", "migrated": "false"}
        check(labels in numbers.labels("csi_operations_seconds_count"), f"no series {labels}")
        equal(numbers("csi_operations_seconds_count", **labels), 1, f"calls of {method}")
    equal(numbers("csi_operations_seconds_count", driver_name="unknown-driver",
                  method_name="/pluginregistration.Registration/GetInfo", grpc_status_code="OK"), 1, "calls of GetInfo")
    slow = [s for s in numbers.samples if s.name == "csi_operations_seconds_bucket" and s.labels["method_name"] == NODE_GET_INFO]
    equal([s.labels["le"] for s in slow], BUCKETS, "buckets")
    values = [s.value for s in slow]
    equal(values, sorted(values), "rising buckets")
    equal((values[0], values[1], values[-1]), (0, 0, 1), "buckets below 0.3 s, and the last")
    check(0.3 <= numbers("csi_operations_seconds_sum", method_name=NODE_GET_INFO) < 60, "the sum is not in seconds")


@scenario
def operations_that_fail(w):
    """Codes go by their Go names, the deadline's included; a message that is refused counts as Internal."""
    w.server()
    agent = w.agent("--node-rpc-timeout=500ms")
    for name, how, code in (("a.example.com", {"error": {"NodeGetInfo": (5, "no")}}, "NotFound"),
                            ("b.example.com", {"hang": {"NodeGetInfo": 99}}, "DeadlineExceeded")):
        w.driver(name, **how).wait_notified(False)
        wait_numbers(agent, f"{code} is counted", lambda n, name=name, code=code: n(
            "csi_operations_seconds_count", driver_name=name, method_name=NODE_GET_INFO, grpc_status_code=code))


@scenario
def failures(w):
    """Two failures at NodeGetInfo, then success: three attempts, two retries; a persistent one beside it."""
    w.server()
    agent = w.agent()
    w.driver(NAME, node_id="i-1", fail={"NodeGetInfo": (2, 14)}).wait_notified(True)
    agent.wait_driver(NAME)
    w.driver("b.example.com", node_id="").wait_notified(False, "node id")
    numbers = wait_numbers(agent, "the persistent failure is counted", lambda n: n(
        "csireg_registration_failures_total", **{"class": "persistent"}))
    equal(numbers("csireg_registration_attempts_total"), 4, "attempts")
    equal(numbers("csireg_registration_retries_total"), 2, "retries")
    equal(numbers("csireg_registration_failures_total", step="NodeGetInfo", **{"class": "transient"}), 2, "transient failures")
    equal(numbers("csireg_registration_failures_total", step="NodeGetInfo", **{"class": "persistent"}), 1, "persistent ones")
    equal(numbers("csireg_registration_failures_total"), 3, "failures at all steps")


@scenario
def drivers_and_flows(w):
    """One driver in each flow, one that is not registered; they go from the numbers with their sockets."""
    w.server()
    agent = w.agent(gate=True)
    node = w.driver(NAME, node_id="i-1")
    controller = w.driver("c.example.com", node_id="i-2", capabilities=[CAPABILITY])
    w.driver("b.example.com", node_id="").wait_notified(False)
    for driver in (node, controller):
        driver.wait_notified(True)
        agent.wait_driver(driver.name)
    numbers = wait_numbers(agent, "all attempts are over", lambda n: n("csireg_sockets", state="backoff") == 1
                           and n("csireg_sockets", state="registered") == 2)
    equal(numbers("csireg_drivers", state="registered", flow="node"), 1, "in the node flow")
    equal(numbers("csireg_drivers", state="registered", flow="controller"), 1, "in the controller flow")
    equal(numbers("csireg_drivers"), 2, "drivers")
    equal(numbers("csireg_sockets"), 3, "sockets")
    node.stop()
    agent.wait_no_driver(NAME)
    equal(Numbers(agent)("csireg_drivers", flow="node"), 0, "in the node flow after it went")


@scenario
def requests(w):
    """The agent counts what the server counted, by verb, resource and code."""
    w.server()
    agent = w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    w.driver("b.example.com", node_id="i-2").wait_notified(True)
    agent.wait_driver("b.example.com")
    numbers = Numbers(agent)
    mine = {(s.labels["verb"], s.labels["resource"], s.labels["code"]): s.value
            for s in numbers.samples if s.name == "csireg_api_requests_total"}
    # The watch counts at its end, which is not in sight.
    equal(mine.get(("list", "csidrivers", "200")), 1, f"lists of CSIDrivers in {mine}")
    equal(mine.get(("get", "csinodes", "404")), 1, f"reads of the CSINode that was not there in {mine}")
    equal(mine.get(("create", "csinodes", "201")), 1, f"creations in {mine}")
    rest = sum(count for (_, resource, _), count in mine.items() if resource != "csidrivers")
    equal(rest, w.api.requests(("nodes", "nodes/status", "csinodes")), "requests on Node and CSINode")


@scenario
def requests_without_an_answer(w):
    """A server that is not there is counted as such, and shows in the state."""
    w.server()
    agent = w.agent("--request-timeout=300ms")
    agent.wait_ready()
    w.api.process.stop()
    w.driver(NAME, node_id="i-1").wait_call("NodeGetInfo")
    numbers = wait_numbers(agent, "the outage is counted", lambda n: n("csireg_api_requests_total", code="connect")
                           and n("csireg_api_state", state="waiting"))
    check(numbers("csireg_api_retries_total") >= 1, "no retry is counted")
    equal(numbers("csireg_api_state", state="ok"), 0, "state")


@scenario
def met_another_writer(w):
    """Two conflicts on the CSINode: two conflicts, and as many pauses."""
    w.server()
    w.api.write_csinode(drivers=[{"name": "z.example.com", "nodeID": "z"}])
    w.api.rule({"conflict": {}}, {"verb": "update", "resource": "csinodes"}, count=2)
    agent = w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    agent.wait_driver(NAME)
    numbers = Numbers(agent)
    equal(numbers("csireg_api_conflicts_total", resource="csinodes"), 2, "conflicts")
    equal(numbers("csireg_api_conflicts_total", resource="nodes"), 0, "conflicts on the Node")
    equal(numbers("csireg_api_retries_total"), 2, "retries")
    equal(numbers("csireg_api_requests_total", resource="csinodes", verb="update", code="409"), 2, "409")


@scenario
def watch_restarts(w):
    """A watch that breaks is begun again and counted; the first one is none."""
    w.server()
    agent = w.agent(gate=True)
    w.driver(NAME, node_id="i-1", capabilities=[CAPABILITY]).wait_notified(True)
    agent.wait_driver(NAME)
    equal(Numbers(agent)("csireg_watch_restarts_total"), 0, "restarts in peace")
    until("a watch is cut", lambda: w.api.told("POST", "/watches/close", {"how": "rst"})["watches"])
    wait_numbers(agent, "the watch was begun again", lambda n: n("csireg_watch_restarts_total", resource="csidrivers") >= 1)


@scenario
def registry(w):
    """Scans rise with time, sockets come and go."""
    w.server()
    agent = w.agent("--rescan-period=100ms")
    first = wait_numbers(agent, "the first scan", lambda n: n("csireg_registry_scans_total") >= 1)
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    numbers = wait_numbers(agent, "more scans", lambda n: n("csireg_registry_scans_total")
                           > first("csireg_registry_scans_total") and n("csireg_registry_sockets") == 1)
    equal(numbers("csireg_registry_mode", mode="inotify"), 1, "mode")
    equal(numbers("csireg_registry_mode"), 1, "modes at once")
    driver.stop()
    wait_numbers(agent, "no socket", lambda n: n("csireg_registry_sockets") == 0)


@scenario(slow=True)
def refreshes(w):
    """Two periodic refreshes: the first changes nothing, the second writes another limit."""
    w.server()
    w.api.csidriver(NAME, attachRequired=True, nodeAllocatableUpdatePeriodSeconds=10)
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1", limit_sequence=[25, 25, 23])
    driver.wait_notified(True)
    w.api.wait("the new limit is there", lambda api: api.drivers()[NAME]["allocatable"] == {"count": 23}, timeout=60)
    numbers = wait_numbers(agent, "the refresh is counted", lambda n: n("csireg_refreshes_total", result="refreshed") == 1)
    equal(numbers("csireg_refreshes_total", result="unchanged"), 1, "refreshes without a change")
    equal(numbers("csireg_refreshes_total", result="failed"), 0, "failed refreshes")
    equal(numbers("csi_operations_seconds_count", driver_name=NAME, method_name=NODE_GET_INFO), 3, "calls of NodeGetInfo")
