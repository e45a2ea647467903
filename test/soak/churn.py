# SPDX-License-Identifier: Apache-2.0
"""Drivers that come, go, crash, move and return; writers of CSINode and Node other than the agent."""
import os

from harness import CAPABILITY
from histories import OTHERS
from servers import entries

ZONE = "soak.example.com/"
PEERS = ("silent", "garbage", "http1", "close")


class Slot:
    """One driver name and what of it exists now. Files of crashed processes stay until restart or clean-up."""

    def __init__(self, world, rng, number):
        self.world, self.rng, self.number = world, rng, number
        self.name = f"s{number}.example.com"
        self.node_id, self.limit, self.capable, self.broken = None, 0, False, False
        self.instances, self.crashed, self.made = [], [], 0

    # ---- one step ----

    def step(self):
        if self.crashed:
            self.rng.choice([self.revive, self.revive, self.clean])()
        elif not self.instances:
            self.rng.choice([self.start, self.start, self.start_flaky, self.start_broken])()
        elif self.broken:
            self.stop()
        else:
            self.rng.choice([self.stop, self.stop, self.crash, self.move_away, self.twin])()

    def settle(self):
        """Leaves nothing half done: what crashed is back."""
        if self.crashed:
            self.revive()

    # ---- parts ----

    def decide(self):
        """What this driver will answer from now on."""
        if self.node_id is None or self.rng.random() < 0.2:
            self.node_id = f"i-{self.number}-{self.rng.randrange(1000)}"
        self.limit, self.capable = self.rng.choice([0, 5, 20]), self.rng.random() < 0.5

    def launch(self, registration=None, endpoint=None, **how):
        self.made += 1
        label = f"s{self.number}-{self.made}"
        registration = registration or os.path.join(self.world.registry, label)
        capabilities = {"capabilities": [1, CAPABILITY]} if self.capable else {}
        driver = self.world.driver(self.name, label=label, registration=registration, endpoint=endpoint,
                                   **{"node_id": self.node_id, "limit": self.limit,
                                      "topology": {f"{ZONE}s{self.number}": "z"}, "log_level": "error"} | capabilities | how)
        driver.process.wait_line(lambda line: '"ready"' in line)
        self.instances.append(driver)

    def start(self):
        self.broken = False
        self.decide()
        self.launch()

    def start_flaky(self):
        """Fails, is slow or says nothing at first."""
        self.broken = False
        self.decide()
        method = self.rng.choice(["GetInfo", "NodeGetInfo", "NotifyRegistrationStatus"])
        self.launch(**self.rng.choice([{"fail": {method: 2}}, {"delay": {method: "300ms"}}, {"hang": {method: 1}}]))

    def start_broken(self):
        """Never registers."""
        self.decide()
        self.broken = True
        self.launch(**self.rng.choice([{"registration_peer": self.rng.choice(PEERS)}, {"node_id": ""},
                                       {"service_peer": self.rng.choice(PEERS)}, {"versions": ["2.0.0"]},
                                       {"padding": {"NodeGetInfo": 8 << 20}}, {"no_registration_service": True},
                                       {"response_hex": {"NodeGetInfo": "0aff"}}]))

    def twin(self):
        """A second instance of the name; more than two is one too many."""
        if len(self.instances) < 2:
            self.launch()
        else:
            self.stop()

    def end(self, driver, kill=False):
        driver.kill() if kill else driver.stop()
        self.world.retire(driver.process)

    def stop(self):
        for driver in self.instances:
            self.end(driver)
        self.instances = []

    def crash(self):
        for driver in self.instances:
            self.end(driver, kill=True)
        self.crashed, self.instances = self.instances, []

    def revive(self):
        """A new process on the paths of the old one."""
        old, self.crashed = self.crashed, []
        self.decide()
        for driver in old:
            self.launch(driver.registration, driver.endpoint)

    def clean(self):
        for driver in self.crashed:
            for path in (driver.registration, driver.endpoint):
                remove(path)
        self.crashed = []

    def move_away(self):
        """The socket is renamed out of the registry: the driver is gone although its process lives on."""
        for driver in self.instances:
            os.rename(driver.registration, self.world.path(f"away-{os.path.basename(driver.registration)}"))
        self.stop()


def remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


class Others:
    """Everybody else who writes: administrators, another agent's entries, the controller side."""

    def __init__(self, api, rng):
        self.api, self.rng = api, rng
        self.number, self.node_made_ns = 0, []

    def step(self):
        self.rng.choice([self.add_entry, self.add_entry, self.drop_entries, self.annotate, self.vandalise, self.delete_csinode,
                         self.recreate_node, self.change_csidriver, self.change_csidriver])()

    def edit(self, change):
        """Reads the CSINode, changes its spec and writes it, unless somebody was faster."""
        thing = self.api.csinode()
        if thing is None:
            return
        thing["spec"]["drivers"] = thing["spec"].get("drivers") or []
        change(thing)
        self.api.request("PUT", f"/apis/storage.k8s.io/v1/csinodes/{self.api.node_name}", thing)

    def add_entry(self):
        self.number += 1
        entry = {"name": f"{OTHERS}{self.number}.example.com", "nodeID": f"o-{self.number}", "topologyKeys": ["o/z"]}
        self.edit(lambda thing: thing["spec"]["drivers"].append(entry))

    def drop_entries(self):
        def change(thing):
            thing["spec"]["drivers"] = [d for d in thing["spec"]["drivers"] if not d["name"].startswith(OTHERS)]
        self.edit(change)

    def annotate(self):
        self.number += 1
        self.api.patch("nodes", self.api.node_name, {"metadata": {"annotations": {f"other.example.com/{self.number % 5}": str(self.number)}}})

    def vandalise(self):
        """Takes out an entry that is not theirs."""
        def change(thing):
            mine = [d for d in thing["spec"]["drivers"] if not d["name"].startswith(OTHERS)]
            if mine:
                thing["spec"]["drivers"].remove(self.rng.choice(mine))
        self.edit(change)

    def delete_csinode(self):
        if self.rng.random() < 0.3 and self.api.csinode():
            self.api.request("DELETE", f"/apis/storage.k8s.io/v1/csinodes/{self.api.node_name}")

    def recreate_node(self):
        if self.rng.random() < 0.3:
            self.api.delete("nodes", self.api.node_name)
            self.api.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.api.node_name}})

    def change_csidriver(self):
        name = f"s{self.rng.randrange(8)}.example.com"
        if self.api.get("csidrivers", name):
            self.api.delete("csidrivers", name)
        else:
            self.api.csidriver(name, **self.rng.choice([{"attachRequired": False}, {"attachRequired": True},
                                                        {"nodeAllocatableUpdatePeriodSeconds": 10}]))

    def complete(self):
        """The controller side's turn: every registration without its entry gets label and entry."""
        for name, node_id in self.api.registrations().items():
            entry = self.api.drivers().get(name)
            if entry is None:
                self.finish(name, node_id)

    def finish(self, name, node_id):
        key = ZONE + name.split(".")[0]

        def change(thing):
            registered = entries(thing, "driverRegistrations").get(name, {}).get("nodeID") == node_id
            if registered and name not in entries(thing, "drivers"):
                thing["spec"]["drivers"].append(
                    {"name": name, "nodeID": node_id, "topologyKeys": [key], "allocatable": {"count": 33}})
        self.api.patch("nodes", self.api.node_name, {"metadata": {"labels": {key: "z"}}})
        self.edit(change)


