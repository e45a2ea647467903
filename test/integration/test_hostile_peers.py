# SPDX-License-Identifier: Apache-2.0
"""Plugins whose HTTP/2 is an attack, all at once against one agent: it lives, stays small, and serves the others.

A peer's answer of one HEADERS frame without a status ends processes that use gRPC's core as it comes; endless headers,
messages and compressed ones fill their memory. h2peer.py has each.
"""
from h2peer import HARM, H2Peer
from procs import check, equal, until
from runner import scenario
from test_hostile import Witness, resident

GROWTH = 64 * 1024  # KiB, with twenty of them at work


def attack(witness, peers, step):
    """Every peer is tried, and tried again; each failure is told with its step."""
    for peer in peers:
        error = witness.agent.wait_error(peer.socket, step)
        check("\x1b" not in error["message"] and len(error["message"]) < 2048, f"{peer.name}: {error}")
    until("they are tried again", lambda: sum(peer.connections > 1 for peer in peers) > len(peers) // 2)


@scenario
def on_the_registration_socket(w):
    """Twenty hostile registration sockets: none is notified, none delays the well-behaved, memory stays."""
    witness = Witness(w, "--getinfo-timeout=500ms")
    before = resident(witness.agent.process.pid)
    peers = [H2Peer(f"{w.registry}/{label}", harm) for label, harm in HARM.items()]
    for peer in peers:
        peer.socket = peer.path
    w.things += peers
    attack(witness, peers, "GetInfo")
    witness.undisturbed()
    grown = resident(witness.agent.process.pid) - before
    check("san" in w.programs or grown < GROWTH, f"the agent grew by {grown} KiB")


@scenario
def on_the_service_socket(w):
    """The same behind honest registrars: each is told false, with driver and step."""
    witness = Witness(w, "--node-rpc-timeout=500ms", gate=True)
    before = resident(witness.agent.process.pid)
    peers, drivers = [H2Peer(w.path("s", label), harm) for label, harm in HARM.items()], []
    w.things += peers
    for peer in peers:
        driver = w.driver(f"{peer.name}.example.com", report_endpoint=peer.path, log_level="error")
        peer.socket = driver.registration
        drivers.append(driver)
    attack(witness, peers, "Node")
    for driver in drivers:
        driver.wait_notified(False, driver.name)
    witness.undisturbed()
    equal(set(w.api.drivers()), {"first.example.com", "second.example.com"}, "published")
    grown = resident(witness.agent.process.pid) - before
    check("san" in w.programs or grown < GROWTH, f"the agent grew by {grown} KiB")


@scenario
def a_large_answer(w):
    """An answer of 128 MiB is not taken in."""
    witness = Witness(w)
    before = resident(witness.agent.process.pid)
    driver = w.driver("large.example.com", node_id="i", padding={"NodeGetInfo": 128 << 20}, log_level="error")
    driver.wait_notified(False, "NodeGetInfo")
    grown = resident(witness.agent.process.pid) - before
    check("san" in w.programs or grown < GROWTH, f"the agent grew by {grown} KiB")
    witness.undisturbed()
