#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows on real programs how CSI drivers get registered on a node, and checks everything that it shows."""
import argparse
import difflib
import json
import os
import sys
import textwrap
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))
sys.dont_write_bytecode = True

from harness import CAPABILITY, World  # pylint: disable=wrong-import-position
from procs import Failure, check, equal  # pylint: disable=wrong-import-position

ZONE = "topology.kubernetes.io/zone"
PLAIN, CONTROLLED, SHAKY, FOREIGN = ("plain.example.com", "cloud.example.com", "shaky.example.com", "foreign.example.com")


class Screen:
    """What the reader sees: steps with the time since the start, objects with their changes marked."""

    def __init__(self):
        self.begin = time.monotonic()
        self.colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def paint(self, number, text):
        return f"\033[{number}m{text}\033[0m" if self.colour else text

    def out(self, text=""):
        print(text, flush=True)

    def step(self, title):
        self.out()
        self.out(self.paint(1, f"{self.now()}  {title}"))

    def now(self):
        return f"{time.monotonic() - self.begin:7.3f} s"

    def say(self, text):
        for line in textwrap.wrap(text, 92):
            self.out(" " * 11 + line)

    def fact(self, text):
        """Something that was checked just now."""
        self.out(f"{self.now()}  * {text}")

    def change(self, title, before, after):
        """An object with what came (+) and went (-)."""
        self.out(" " * 11 + title)
        for mark, line in marked(pretty(before) if before else pretty(after), pretty(after)):
            colour = {"+": 32, "-": 31}.get(mark)
            text = f"{mark} {line}"
            self.out(" " * 11 + (self.paint(colour, text) if colour else text))


def pretty(thing, indent="", depth=0):
    """JSON for people: what is inside a list or deeper stands on one line."""
    if not isinstance(thing, (dict, list)) or not thing or depth > 2:
        return [json.dumps(thing)]
    items = [(f"{json.dumps(key)}: ", value) for key, value in thing.items()] if isinstance(thing, dict) \
        else [("", value) for value in thing]
    lines = ["{" if isinstance(thing, dict) else "["]
    for number, (key, value) in enumerate(items):
        inner = pretty(value, indent + "  ", depth + 1)
        inner[0] = f"{indent}  {key}{inner[0]}"
        inner[-1] += "," if number + 1 < len(items) else ""
        lines += inner
    return lines + [indent + ("}" if isinstance(thing, dict) else "]")]


def marked(before, after):
    """(" ", "+" or "-", line); a comma alone is no change."""
    matcher = difflib.SequenceMatcher(None, [x.rstrip(",") for x in before], [x.rstrip(",") for x in after], autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            yield from ((" ", line) for line in after[c:d])
        else:
            yield from (("-", line) for line in before[a:b])
            yield from (("+", line) for line in after[c:d])


def node_view(node):
    """What this is about of a Node."""
    return {"kind": "Node", "metadata": {key: node["metadata"][key] for key in ("name", "labels", "annotations")
                                         if key in node["metadata"]}}


def csinode_view(csinode):
    spec = {key: value for key, value in csinode["spec"].items() if value is not None}
    return {"kind": "CSINode", "metadata": {"name": csinode["metadata"]["name"]}, "spec": spec}


class Demo:
    def __init__(self, world, screen):
        self.world, self.screen = world, screen
        self.api = self.agent = None
        self.seen = {}

    def show(self, title=""):
        """Node and CSINode, with what changed since they were shown last."""
        for kind, view in (("Node", node_view(self.api.node())), ("CSINode", csinode_view(self.api.csinode()))):
            if view != self.seen.get(kind):
                self.screen.change(f"{kind}{title}:", self.seen.get(kind), view)
                self.seen[kind] = view
            else:
                self.screen.out(" " * 11 + f"{kind}: as before")

    def calls(self, driver):
        """What the agent asked this driver, and what it told it."""
        for call in driver.calls():
            detail, reason = "", ""
            if call["method"] == "NodeGetInfo":
                detail = f"  (request: {bytes.fromhex(call['request']).hex(' ') or 'no bytes'})"
            if call["method"] == "NotifyRegistrationStatus":
                detail, reason = f"  registered: {str(call['fields']['plugin_registered']).lower()}", call["fields"]["error"]
            elif call["code"]:
                detail += "  <- the driver answers with an error"
            self.screen.out(f"{self.since(call)}    agent -> {driver.name}: {call['method']}{detail}")
            if reason:
                self.screen.say("      reason: " + reason.replace(self.world.directory, ""))

    def since(self, call):
        import datetime  # pylint: disable=import-outside-toplevel
        wall = datetime.datetime.fromisoformat(call["time"]).timestamp()
        return f"{wall - (time.time() - (time.monotonic() - self.screen.begin)):7.3f} s"

    # ---- the story ----

    def cluster(self):
        self.screen.out()
        self.screen.say("A CSI driver attaches storage to machines. For each machine (a Node) Kubernetes must know which "
                        "drivers run there, what a driver calls the machine (its node id), where the machine is (topology, "
                        "as labels) and how many volumes it takes. That stands in two objects, Node and CSINode. Usually "
                        "the kubelet writes them when a driver's registration socket appears; here csireg does.")
        self.screen.step("A cluster with one node")
        self.screen.say("The API server is a small emulator. It has KEP-6011's new field spec.driverRegistrations (gate "
                        "CSIControllerGetNodeInfo is on). Another program has left its driver in CSINode; nothing here "
                        "may touch that entry.")
        self.api = self.world.server(gate="on")
        self.api.write_csinode(drivers=[{"name": FOREIGN, "nodeID": "f-77", "topologyKeys": ["foreign.example.com/rack"],
                                         "allocatable": {"count": 8}}])
        self.show(", before")
        self.before = dict(self.seen)

    def start_agent(self):
        self.screen.step("The agent starts")
        self.screen.say("csireg-agent does for this node what the kubelet does: it watches a directory for the sockets of "
                        "drivers. Its gate is on as well.")
        self.agent = self.world.agent(gate=True)
        self.agent.wait_ready()
        self.screen.fact("the agent is ready")

    def node_flow(self):
        self.screen.step(f"A driver of today: {PLAIN}")
        self.screen.say("Its node plugin knows zone and volume limit itself. The agent asks, writes label and node id to "
                        "the Node and the complete entry to CSINode, then tells the driver that it is registered.")
        driver = self.world.driver(PLAIN, node_id="vm-1", topology={ZONE: "z1"}, limit=23, capabilities=[1])
        driver.wait_notified(True)
        equal(driver.request_bytes(), b"", "NodeGetInfo request of the node flow")
        self.calls(driver)
        equal(self.api.labels().get(ZONE), "z1", "label")
        equal(self.api.annotation(), {PLAIN: "vm-1"}, "node ids in the annotation")
        equal(self.api.drivers()[PLAIN], {"name": PLAIN, "nodeID": "vm-1", "topologyKeys": [ZONE], "allocatable": {"count": 23}},
              "entry")
        self.show()

    def controller_flow(self):
        self.screen.step(f"A driver with KEP-6011: {CONTROLLED}")
        self.screen.say(f"Its node plugin has no cloud credentials: it reports capability NODE_INFO_FROM_CONTROLLER "
                        f"({CAPABILITY}). The agent sets controller_get_node_info in NodeGetInfo (the bytes 08 01) and takes "
                        "nothing but the node id from the answer: one entry in spec.driverRegistrations.")
        self.controlled = self.world.driver(CONTROLLED, node_id="i-42", topology={ZONE: "made-up"}, limit=99,
                                            capabilities=[1, CAPABILITY])
        self.controlled.wait_notified(True)
        self.calls(self.controlled)
        equal(self.controlled.request_bytes(), b"\x08\x01", "NodeGetInfo request of the controller flow")
        equal(self.api.registrations(), {CONTROLLED: "i-42"}, "registrations")
        check(CONTROLLED not in self.api.drivers(), "the agent wrote the complete entry itself")
        check(CONTROLLED not in self.api.annotation(), "the agent wrote to the Node's annotation")
        check(self.agent.driver(CONTROLLED).get("waitingForControllerSince"), "the agent does not say that it waits")
        self.show()
        self.screen.fact("zone and limit in the driver's answer were not used; the agent's status: waiting for the controller")

    def shaky(self):
        self.screen.step(f"A driver that fails twice: {SHAKY}")
        self.screen.say("Its NodeGetInfo is not ready yet. Every failed attempt is notified with the reason; the next one "
                        "comes by itself, later each time. Nobody has to restart the driver.")
        driver = self.world.driver(SHAKY, node_id="s-1", fail={"NodeGetInfo": (2, "14", "metadata service not ready")})
        driver.wait_notified(True)
        self.calls(driver)
        equal([ok for ok, _ in driver.notifications()], [False, False, True], "notifications")
        check(driver.process.running(), "the driver was restarted")
        self.show()

    def controller_side(self):
        self.screen.step("The controller side answers (played by this script)")
        self.screen.say("In a real cluster the external-attacher sees the registration, asks the driver's controller plugin "
                        "(ControllerGetNodeInfo), and writes labels and the complete entry. There is none here: this "
                        "script makes the same two requests as administrator.")
        self.api.patch("nodes", "n1", {"metadata": {"labels": {"cloud.example.com/region": "r9"}}})
        drivers = self.api.csinode()["spec"]["drivers"]
        drivers.append({"name": CONTROLLED, "nodeID": "i-42", "topologyKeys": ["cloud.example.com/region"],
                        "allocatable": {"count": 40}})
        self.api.patch("csinodes", "n1", {"spec": {"drivers": drivers}})
        self.show()

    def leave(self):
        self.screen.step(f"{CONTROLLED} leaves")
        self.screen.say("Its registration socket is removed. The agent takes away both its entries in one update, so that "
                        "no version of CSINode has only one of them. Labels stay, as with the kubelet.")
        known = len(self.api.history("csinodes"))
        self.controlled.stop()
        self.api.wait("both entries are gone", lambda api: CONTROLLED not in api.drivers() and not api.registrations())
        self.agent.wait_no_driver(CONTROLLED)
        history = self.api.history("csinodes")
        equal(len(history), known + 1, "versions of CSINode: one update")
        for version in history[-2:]:
            spec = version["object"]["spec"]
            states = [f"{field}: {'yes' if any(e['name'] == CONTROLLED for e in spec.get(field) or []) else 'no'}"
                      for field in ("drivers", "driverRegistrations")]
            self.screen.out(" " * 11 + f"stored version {version['resourceVersion']:>3}, by {version['user'] + ':':16} "
                            f"in {', in '.join(states)}")
        self.show()

    def result(self):
        self.screen.step("What is different from the beginning")
        after = dict(self.seen)
        for kind, view in self.before.items():
            self.screen.change(f"{kind}, before and after:", view, after[kind])
        equal(set(self.api.drivers()), {FOREIGN, PLAIN, SHAKY}, "drivers at the end")
        equal(self.api.drivers()[FOREIGN], self.before["CSINode"]["spec"]["drivers"][0], "the foreign entry")
        total = self.api.requests()
        self.screen.fact(f"the foreign entry is as it was; {total} requests on Node and CSINode by the agent in all")

    def run(self):
        for part in (self.cluster, self.start_agent, self.node_flow, self.controller_flow, self.shaky, self.controller_side,
                     self.leave, self.result):
            part()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    root = os.path.dirname(os.path.dirname(HERE))
    parser.add_argument("--bin", metavar="DIR", default=os.path.join(root, "build/bin"), help="where the programs are")
    options = parser.parse_args()
    screen, world = Screen(), World(os.path.abspath(options.bin), "demo")
    screen.out(screen.paint(1, "csireg: how CSI drivers get registered on a Kubernetes node"))
    screen.out("Times are seconds since the start.  + came  - went  * was checked")
    trouble = []
    try:
        Demo(world, screen).run()
    except Failure as failure:
        trouble = [f"not as it should be: {failure}", world.logs()]
    finally:
        trouble += world.close()
    if trouble:
        screen.out("\n".join(["", screen.paint(31, "FAILED"), *trouble]))
        return 1
    screen.out()
    screen.out(f"{screen.now()}  Everything shown was checked. The programs have ended, nothing is left behind.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
