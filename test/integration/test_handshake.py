# SPDX-License-Identifier: Apache-2.0
"""Handshake: steps, plugin type and endpoint, versions, names, notification, retries, what a failure removes.

    rule                                             scenario
    3.1 order of the steps, one connection           steps_in_order
    3.1 refused connections retried in the window    socket_before_its_listener
    3.1 GetInfo deadline                             get_info_deadline
    3.1 node RPC deadline                            node_rpc_deadline
    3.1 parallel attempts                            slow_plugin_delays_nobody
    3.1 vanished socket cancels                      vanished_socket_cancels
    3.2 type                                         plugin_types
    3.2 endpoint forms                               endpoints
    3.2 missing endpoint is transient                endpoint_missing
    3.3 versions                                     versions
    3.4 names                                        names
    3.4 several instances                            (test_instances)
    3.5 exactly one notification; text               notifications, notification_text_is_bounded
    3.5 failed notification                          notification_fails
    3.6 whole attempt again                          notifications
    3.6 class P goes to the cap                      persistent_goes_to_the_cap
    3.7 what a failed attempt removes                failed_get_info_removes_nothing, failed_node_info_removes
    wire 5 UNIMPLEMENTED GetInfo                     service_socket_in_the_registry
    wire 6 authority and deadline                    steps_in_order
    wire 7 long paths                                long_paths
"""
import os
import time

from procs import check, equal, until
from runner import scenario

ENTRY = {"name": "a.example.com", "nodeID": "i-1", "topologyKeys": None}


@scenario
def steps_in_order(w):
    """3.1, wire 6: GetInfo, NodeGetInfo, then the notification, each with authority localhost and a deadline."""
    w.server()
    w.agent()
    driver = w.driver("a.example.com", node_id="i-1")
    driver.wait_notified(True)
    equal(driver.methods(), ["GetInfo", "NodeGetInfo", "NotifyRegistrationStatus"], "calls")
    for call in driver.calls():
        equal(call["authority"], "localhost", f":authority of {call['method']}")
        check(0 < call["timeoutMs"] <= 122000, f"deadline of {call['method']}: {call['timeoutMs']}")
    equal([call["request"] for call in driver.calls()[:2]], ["", ""], "request bytes")
    check("a.example.com" in w.api.drivers(), "notified before the entry was there")


@scenario
def socket_before_its_listener(w):
    """3.1: a socket file exists before its owner listens: connected to again inside the window, no failure."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", listen_after="700ms", bind_early=True)
    driver.wait_notified(True)
    equal(agent.socket(driver.registration)["attempts"], 1, "attempts")


@scenario
def get_info_deadline(w):
    """3.1, 3.5: GetInfo has a deadline; no answer means no notification, and a retry."""
    w.server()
    agent = w.agent("--getinfo-timeout=300ms")
    driver = w.driver("a.example.com", node_id="i-1", hang={"GetInfo": 1})
    agent.wait_error(driver.registration, "GetInfo")
    driver.wait_notified(True)
    equal(driver.methods(), ["GetInfo", "GetInfo", "NodeGetInfo", "NotifyRegistrationStatus"], "calls")


@scenario
def node_rpc_deadline(w):
    """3.1: the node RPCs have one deadline together; passing it is transient and notified."""
    w.server()
    w.agent("--node-rpc-timeout=400ms")
    driver = w.driver("a.example.com", node_id="i-1", hang={"NodeGetInfo": 1})
    driver.wait_notified(False, "NodeGetInfo", "a.example.com")
    driver.wait_notified(True)


@scenario
def slow_plugin_delays_nobody(w):
    """3.1: attempts run side by side."""
    w.server()
    w.agent()
    slow = w.driver("slow.example.com", node_id="i-1", hang={"NodeGetInfo": 1})
    slow.wait_call("NodeGetInfo")
    w.driver("quick.example.com", node_id="i-2").wait_notified(True)
    equal(slow.notifications(), [], "notifications of the slow one")
    check("quick.example.com" in w.api.drivers(), "the quick one is not published")


@scenario
def vanished_socket_cancels(w):
    """3.1, 3.5: a vanished socket cancels its attempt at any step; nothing is notified, nothing is left."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", hang={"NodeGetInfo": 1})
    driver.wait_call("NodeGetInfo")
    os.unlink(driver.registration)
    agent.wait("the socket is gone", lambda s: s["sockets"] == [])
    w.driver("b.example.com", node_id="i-2").wait_notified(True)
    equal(driver.notifications(), [], "notifications")
    equal(list(w.api.drivers()), ["b.example.com"], "drivers")


@scenario
def plugin_types(w):
    """3.2: other types without a handler are refused by name; the comparison is exact."""
    w.server()
    agent = w.agent()
    for n, kind in enumerate(("DevicePlugin", "DRAPlugin", "csiplugin", "Foo")):
        driver = w.driver(f"d{n}.example.com", node_id="i-1", plugin_type=kind)
        driver.wait_notified(False, kind)
        equal(driver.methods(), ["GetInfo", "NotifyRegistrationStatus"], f"calls of a {kind}")
        equal(agent.wait_error(driver.registration, kind)["class"], "persistent", "class")
    empty = w.driver("empty.example.com", node_id="i-1", plugin_type="")
    empty.wait_notified(False, "type")
    equal(w.api.requests(), 0, "requests")


@scenario
def plugin_type_with_a_handler(w):
    """3.2: a type that the host handles goes to the host; its yes is notified."""
    w.server()
    agent = w.agent("--plugin-types=DevicePlugin")
    driver = w.driver("gpu.example.com", plugin_type="DevicePlugin", node_id="")
    driver.wait_notified(True)
    agent.process.wait_line("of type DevicePlugin")
    equal(driver.methods(), ["GetInfo", "NotifyRegistrationStatus"], "calls")
    equal(w.api.requests(), 0, "requests")
    driver.stop()
    agent.process.wait_line("is gone")


@scenario
def endpoints(w):
    """3.2: empty means the registration socket; unix: prefixes are stripped; anything not absolute is refused."""
    w.server()
    agent = w.agent()
    w.driver("empty.example.com", node_id="i-1", endpoint="").wait_notified(True)
    one = w.driver("one.example.com", node_id="i-1", endpoint=w.path("one.sock"), report_endpoint="unix:" + w.path("one.sock"))
    two = w.driver("two.example.com", node_id="i-1", endpoint=w.path("two.sock"), report_endpoint="unix://" + w.path("two.sock"))
    for driver in (one, two):
        driver.wait_notified(True)
        equal(agent.driver(driver.name)["endpoint"], driver.endpoint, "endpoint")
    for n, bad in enumerate(("relative.sock", "@name", "unix-abstract:name", "dns:///host", "unix:relative")):
        driver = w.driver(f"bad{n}.example.com", node_id="i-1", report_endpoint=bad)
        driver.wait_notified(False, bad)
        equal(agent.wait_error(driver.registration, bad)["class"], "persistent", f"class of {bad}")


@scenario
def endpoint_missing(w):
    """3.2: a missing endpoint is transient; the message has driver, endpoint, errno text and step."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", service_after="1500ms")
    driver.wait_notified(False, "a.example.com", driver.endpoint, "No such file or directory")
    equal(agent.wait_error(driver.registration, driver.endpoint)["class"], "transient", "class")
    driver.wait_notified(True)


@scenario
def versions(w):
    """3.3: the table of version lists."""
    w.server()
    agent = w.agent()
    good = {"1.0.0": "1.0.0", "0.3.0,1.2.0": "1.2.0", "1.5.0,2.0.0": "1.5.0", "garbage,1.0.0": "1.0.0", "v1.3-rc1": "1.3"}
    bad = ("0.3.0", "2.0.0", "", "garbage,1", "01.2")
    accepted = {text: w.driver(f"good{n}.example.com", node_id="i-1", versions=text) for n, text in enumerate(good)}
    refused = [w.driver(f"bad{n}.example.com", node_id="i-1", versions=text) for n, text in enumerate(bad)]
    for text, driver in accepted.items():
        driver.wait_notified(True)
        equal(agent.driver(driver.name)["version"].lstrip("v"), good[text], f"version chosen from {text}")
    for driver in refused:
        driver.wait_notified(False, "version")
        equal(driver.calls("NodeGetInfo"), [], f"node calls of {driver.name}")


@scenario
def names(w):
    """3.4: 1 to 63 bytes, lower-cased a DNS-1123 subdomain, else refused without an API call."""
    w.server()
    w.agent()
    for n, bad in enumerate(("", "-a.example.com", "a_b", "a..b", "a/b", "x" * 64, "ä.example.com")):
        driver = w.driver(f"bad{n}", plugin_name=bad, node_id="i-1")
        driver.wait_notified(False, "name")
        equal(driver.methods(), ["GetInfo", "NotifyRegistrationStatus"], f"calls of a driver named {bad!r}")
    equal(w.api.requests(), 0, "requests")
    longest = "x" * 63
    w.driver("longest", plugin_name=longest, node_id="i-1").wait_notified(True)
    w.driver("upper", plugin_name="Upper.Example.COM", node_id="i-1").wait_notified(True)
    equal(set(w.api.drivers()), {longest, "Upper.Example.COM"}, "drivers")


@scenario
def notifications(w):
    """3.5: exactly one for each attempt with a GetInfo answer, none for attempts without."""
    w.server()
    w.agent()
    driver = w.driver("a.example.com", node_id="i-1", fail={"GetInfo": (1, 14), "NodeGetInfo": (2, 14)})
    driver.wait_notified(True)
    equal([ok for ok, _ in driver.notifications()], [False, False, True], "notifications")
    equal(driver.methods(), ["GetInfo"] + 2 * ["GetInfo", "NodeGetInfo", "NotifyRegistrationStatus"]
          + ["GetInfo", "NodeGetInfo", "NotifyRegistrationStatus"], "calls")


@scenario
def notification_text_is_bounded(w):
    """3.5: at most 1,024 bytes, valid UTF-8, whatever the driver said."""
    w.server()
    w.agent()
    driver = w.driver("a.example.com", node_id="i-1", error={"NodeGetInfo": (13, "ä" * 3000)})
    text = driver.wait_notified(False, "NodeGetInfo")
    check(len(text.encode()) <= 1024, f"{len(text.encode())} bytes")


@scenario
def notification_fails(w):
    """3.5: a failed notification keeps the registration; the attempt is repeated, without a write, until one gets through."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", fail={"NotifyRegistrationStatus": (2, 14)})
    row = agent.wait_driver("a.example.com", "unconfirmed")
    check(row, "never unconfirmed")
    check("a.example.com" in w.api.drivers(), "the entry was removed")
    driver.wait_call("NotifyRegistrationStatus", 3)
    agent.wait_driver("a.example.com", "registered")
    equal([ok for ok, _ in driver.notifications()], [True, True, True], "notifications")
    equal(len(w.api.history("csinodes")), 1, "versions of the CSINode")


@scenario
def persistent_goes_to_the_cap(w):
    """3.6: class P waits about two minutes; transient failures start at half a second."""
    w.server()
    agent = w.agent()
    broken = w.driver("broken.example.com", node_id="")
    shaky = w.driver("shaky.example.com", node_id="i-1", error={"NodeGetInfo": (14, "not yet")})
    broken.wait_notified(False)
    shaky.wait_notified(False)
    error = agent.wait_error(broken.registration, "node id")
    equal(error["class"], "persistent", "class")
    row = agent.wait("the next try is known", lambda s: next((x for x in s["sockets"] if x["path"] == broken.registration
                                                               and x.get("nextTry")), None))
    check(ahead(row["nextTry"]) > 90, f"next try of a persistent failure: {row['nextTry']}")
    shaky.wait_call("NodeGetInfo", 3)
    equal(agent.wait_error(shaky.registration, "not yet")["class"], "transient", "class")
    lines = [line for line in agent.process.output() if "broken.example.com" in line and " warning " in line.lower()]
    check(len(lines) <= 2, f"more than a line per change: {lines}")


def ahead(text):
    """Seconds until an RFC 3339 time."""
    import calendar  # pylint: disable=import-outside-toplevel
    whole = calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))
    return whole - time.time()


@scenario
def service_socket_in_the_registry(w):
    """Wire 5: GetInfo UNIMPLEMENTED is persistent, never notified; the message asks whether it is the service socket."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", registration="",
                      endpoint=os.path.join(w.registry, "csi.sock"))
    error = agent.wait_error(driver.endpoint, "service socket")
    equal(error["class"], "persistent", "class")
    w.driver("b.example.com", node_id="i-2").wait_notified(True)
    equal([m for m in driver.methods() if m != "GetInfo"], [], "other calls")


@scenario
def failed_get_info_removes_nothing(w):
    """3.7: a failure up to the checks leaves what is published alone."""
    w.server()
    w.api.write_csinode(drivers=[ENTRY])
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", error={"GetInfo": (14, "no")})
    agent.wait_error(driver.registration, "GetInfo")
    other = w.driver("a.example.com", node_id="i-1", versions="2.0.0", registration=os.path.join(w.registry, "other"))
    other.wait_notified(False, "version")
    w.api.idle(300)
    check("a.example.com" in w.api.drivers(), "the entry was removed")
    equal(len(w.api.history("csinodes")), 1, "versions of the CSINode")


@scenario
def failed_node_info_removes(w):
    """3.7: failing at the node RPCs unregisters; the first such failure after a start reads what is there."""
    w.server()
    w.api.write_csinode(drivers=[ENTRY, {"name": "foreign.example.com", "nodeID": "f-1"}],
                        registrations=[("a.example.com", "i-1")])
    w.agent()
    driver = w.driver("a.example.com", node_id="")
    driver.wait_notified(False, "node id")
    w.api.wait("the entry is gone", lambda api: list(api.drivers()) == ["foreign.example.com"] and not api.registrations())
    equal(len(w.api.history("csinodes")), 2, "versions: one update removes both entries")


@scenario
def long_paths(w):
    """Wire 7: socket paths of 200 and 400 bytes simply work."""
    w.server()
    agent = w.agent()
    deep = os.path.join(w.registry, "d" * 120)
    middle = w.driver("middle.example.com", node_id="i-1", registration=os.path.join(deep, "r" * (199 - len(deep))))
    equal(len(middle.registration), 200, "length")
    far = w.path("e" * 200, "f" * 150)
    longest = w.driver("longest.example.com", node_id="i-2", endpoint=os.path.join(far, "s" * (399 - len(far))))
    equal(len(longest.endpoint), 400, "length")
    middle.wait_notified(True)
    longest.wait_notified(True)
    equal(agent.driver("longest.example.com")["endpoint"], longest.endpoint, "endpoint")
    until("both are published", lambda: len(w.api.drivers()) == 2)
