# SPDX-License-Identifier: Apache-2.0
"""The agent is killed at random moments of a wave of ten drivers, in both flows, beside entries of others.

9.4: after the restart every driver with a socket is registered, nothing of others was ever touched, and no version broke
a rule (histories.py). CSIREG_CRASH_ROUNDS says how many times, CSIREG_CRASH_SEED repeats the choices of a run.
"""
import os
import random
import time

from harness import CAPABILITY
from histories import Histories
from procs import Failure, check, equal, until
from runner import scenario

ROUNDS, EACH = int(os.environ.get("CSIREG_CRASH_ROUNDS", "10")), 5
MAX_LINES = 140  # a wave of ten makes about 125 lines of log
FLOWS = {"node": {"capabilities": [1]}, "controller": {"capabilities": [1, CAPABILITY]}}
FOREIGN = [{"name": "other-1.example.com", "nodeID": "o-1", "topologyKeys": ["o/z"], "allocatable": {"count": 3}},
           {"name": "other-2.example.com", "nodeID": "o-2", "topologyKeys": []}]
# What the request is doing that the agent is killed in.
MOMENTS = ({"delayMs": 300}, {"cut": {"at": "afterCommit", "how": "rst"}}, {"commitThenStatus": 503}, {"conflict": {}})


class Wave:
    """Ten drivers in two processes, new names and sockets each time."""

    def __init__(self, w, number):
        self.w, self.number = w, number
        self.fleets = {flow: w.fleet(EACH, f"{flow}-{number}-%d.example.com", node_id=f"id-{flow}", limit=9,
                                     topology={f"wave.example.com/{flow}-{number}": "z"}, log_level="error", **how)
                       for flow, how in FLOWS.items()}
        for fleet in self.fleets.values():
            fleet.process.wait_line('"ready"')

    def names(self, flow):
        return {f"{flow}-{self.number}-{i}.example.com" for i in range(EACH)}

    def trouble(self, agent):
        """What is not yet published as it must be."""
        api, rows = self.w.api, {r["name"]: r for r in agent.status()["drivers"] if r["state"] == "registered"}
        drivers, registrations, ids = api.drivers(), api.registrations(), api.annotation()
        left = (self.names("node") | self.names("controller")) - rows.keys()
        left |= {n for n in self.names("node") if n not in drivers or n in registrations or ids.get(n) != "id-node"}
        left |= {n for n in self.names("controller") if registrations.get(n) != "id-controller" or n in drivers}
        return sorted(left)

    def refusals(self):
        return [text for fleet in self.fleets.values() for good, text in fleet.notifications() if not good]

    def end(self):
        for fleet in self.fleets.values():
            fleet.stop()
            retire(self.w, fleet.process)


def retire(w, process):
    wrong = process.close()
    w.things.remove(process)
    check(not wrong, "\n".join(wrong))


def kill_at_random(w, agent, rng, start, number):
    """Starts a wave and kills the agent after some line of its log; sometimes in a request that goes wrong, too."""
    begin, lines = len(agent.process.output()), rng.randrange(MAX_LINES)
    rule = None
    if rng.random() < 0.5:
        match = {"resource": rng.choice(["nodes", "csinodes"]), "verb": rng.choice(["get", "update", "patch", "create"])}
        rule = w.api.rule(rng.choice(MOMENTS), match, skip=rng.randrange(2), count=1)
    wave = start(number)
    deadline = time.monotonic() + 1.5  # the wave is over, and was shorter than that

    while len(agent.process.output()) - begin < lines and time.monotonic() < deadline:
        agent.process.wake(0.01)
    agent.process.kill()
    retire(w, agent.process)
    if rule:
        w.api.unrule(rule)
    return wave


def one_round(w, agent, rng, number, histories):
    """Wave, kill, restart, check, and everything gone again; the agent that goes on."""
    single = w.driver(f"single-{number}.example.com", label=f"single-{number}", node_id="s", log_level="error")
    wave = kill_at_random(w, agent, rng, lambda n: Wave(w, n), number)
    goes = rng.random() < 0.5
    if goes:  # its entry, if there is one, stays: nobody can know whose it is
        single.stop()
    published = single.name in w.api.drivers()
    agent = w.agent(gate=True)
    until("all are registered", lambda: not wave.trouble(agent), pause=0.1)
    if goes:
        equal(single.name in w.api.drivers(), published, f"entry of {single.name}, whose socket went")
    else:
        agent.wait_driver(single.name)
        single.stop()
    equal(wave.refusals(), [], "notifications of false")
    retire(w, single.process)
    wave.end()
    kept = {e["name"] for e in FOREIGN} | ({single.name} if goes and published else set())
    w.api.wait("the wave's entries are gone", lambda api: set(api.drivers()) <= kept and set(api.registrations()) == {"other-3.example.com"})
    forget(w, single.name)
    histories.check()
    equal(histories.violations, [], "what the agent wrote")
    return agent


def forget(w, name):
    """An administrator takes away an entry without a driver."""
    def without(api):
        thing = api.csinode()
        thing["spec"]["drivers"] = [d for d in thing["spec"]["drivers"] if d["name"] != name]
        return api.request("PUT", f"/apis/storage.k8s.io/v1/csinodes/{api.node_name}", thing)[0] == 200
    if name in w.api.drivers():
        w.api.wait(f"{name} is forgotten", without)


@scenario(slow=True)
def killed_at_random_moments(w):
    """9.4: SIGKILL at any moment: all that have a socket are registered after the restart, others' entries untouched."""
    seed = int(os.environ.get("CSIREG_CRASH_SEED") or 0) or random.SystemRandom().randrange(1, 1 << 32)
    rng = random.Random(seed)
    w.server()
    w.api.write_csinode(drivers=FOREIGN, registrations=[("other-3.example.com", "o-3")], annotations={"other.example.com/a": "b"})
    w.api.patch("nodes", "n1", {"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": '{"other-1.example.com":"o-1"}'}}})
    histories = Histories(w.api)
    agent = w.agent(gate=True)
    agent.wait_ready()
    for number in range(ROUNDS):
        try:
            agent = one_round(w, agent, rng, number, histories)
        except Failure as failure:
            raise Failure(f"seed {seed}, round {number}: {failure}") from failure
