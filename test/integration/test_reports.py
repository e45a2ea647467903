# SPDX-License-Identifier: Apache-2.0
"""Troubles that operators of kubelets reported, on real sockets. test/behaviours.tsv has all of them.

    report                                                  scenario
    a black-holed connection is used for minutes            black_hole
    proxy variables reach Unix sockets                      proxy_variables
    the first call after a driver's restart fails           driver_restarted_on_its_path
    beta and GA topology keys                               beta_and_ga_keys
    a driver without credentials knows its node id only     node_id_and_nothing_else
"""
import os
import socket

from harness import CAPABILITY, GATE
from procs import check, equal
from runner import scenario
from test_host import Host

NAME = "a.example.com"


@scenario
def black_hole(w):
    """A connection that swallows everything is given up at the request's deadline; the next request has a new one."""
    w.server()
    agent = w.agent("--request-timeout=500ms")
    w.driver(NAME, node_id="i-1").wait_notified(True)
    before = w.api.counts()["connections"]["accepted"]
    w.api.net(blackhole=True)
    driver = w.driver("b.example.com", node_id="i-2")
    agent.wait("the API is missed", lambda s: s["api"]["state"] == "waiting" and s["api"].get("lastError"))
    equal(driver.notifications(), [], "notifications while nothing comes through")
    w.api.net(blackhole=False)
    driver.wait_notified(True)
    check(w.api.counts()["connections"]["accepted"] > before, "the dead connection was used again")


@scenario
def proxy_variables(w):
    """Proxy variables of the environment, in any spelling, concern neither drivers nor the API server."""
    w.server()
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        url = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        names = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
        env = os.environ | {n: url for n in names} | {n.upper(): url for n in names} | {"no_proxy": "", "NO_PROXY": ""}
        w.start("agent", "csireg-agent", "--node-name=n1", "--plugins-registry-dir", w.registry, "--kubeconfig",
                w.api.kubeconfig, f"--feature-gates={GATE}=true", env=env)
        w.driver(NAME, node_id="i-1").wait_notified(True)
        w.driver("c.example.com", node_id="i-2", capabilities=[CAPABILITY]).wait_notified(True)
        proxy.setblocking(False)
        try:
            proxy.accept()
        except BlockingIOError:
            return
    check(False, "somebody connected to the proxy")


@scenario
def driver_restarted_on_its_path(w):
    """A driver's process is replaced behind the same socket path: the next call reaches the new one."""
    w.server()
    w.api.csidriver(NAME, nodeAllocatableUpdatePeriodSeconds=3600)
    host = Host(w, controller_get_node_info=1).start()
    old = w.driver(NAME, node_id="i-1", registration="", limit=5)
    host.do("driver_register", NAME, old.endpoint, ["1.0.0"])
    host.wait_event("REGISTERED", NAME)
    w.api.wait("the CSIDriver objects are watched", lambda api: api.counts()["watches"]["open"])
    equal(host.do("exhausted", NAME, 20000)["result"], "UNCHANGED", "before the restart")
    old.kill()
    new = w.driver(NAME, label="new", node_id="i-1", registration="", endpoint=old.endpoint, limit=6)
    new.process.wait_line('"ready"')
    equal(host.do("exhausted", NAME, 20000)["result"], "REFRESHED", "after the restart")
    equal(w.api.drivers()[NAME]["allocatable"], {"count": 6}, "limit")


@scenario
def beta_and_ga_keys(w):
    """Keys are used as reported: both spellings, each for itself, nothing renamed or mirrored."""
    w.server()
    w.agent()
    beta, final = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
    w.driver(NAME, node_id="i-1", topology={beta: "z1", final: "z1"}).wait_notified(True)
    w.driver("b.example.com", node_id="i-2", topology={"failure-domain.beta.kubernetes.io/region": "r"}).wait_notified(True)
    equal(w.api.drivers()[NAME]["topologyKeys"], sorted([beta, final]), "keys")
    equal(w.api.drivers()["b.example.com"]["topologyKeys"], ["failure-domain.beta.kubernetes.io/region"], "keys")
    equal({k: v for k, v in w.api.labels().items() if k in (beta, final, "topology.kubernetes.io/region")},
          {beta: "z1", final: "z1"}, "labels")


@scenario
def node_id_and_nothing_else(w):
    """Controller flow: a node plugin that has no credentials knows its node id, and that is enough."""
    w.server()
    w.agent(gate=True)
    driver = w.driver(NAME, node_id="i-1", capabilities=[CAPABILITY], honour_flag=True)
    driver.wait_notified(True)
    equal(w.api.registrations(), {NAME: "i-1"}, "registrations")
    equal(driver.methods(), ["GetInfo", "NodeGetCapabilities", "NodeGetInfo", "NotifyRegistrationStatus"], "calls")
