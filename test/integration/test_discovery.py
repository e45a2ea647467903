# SPDX-License-Identifier: Apache-2.0
"""Discovery: which files count, events and scans, identity. Rule numbers are those of the node side: 2.1 which files
count, 2.2 events and scans, 2.3 identity and recreation, 2.4 timings.

    rule                                            scenario
    2.1 registry missing: made 0750 with parents    registry_is_made
    2.1 create-registry=false: waited for           registry_is_waited_for
    2.1 path resolved once, status shows both       registry_behind_a_link
    2.1 sockets present at start, 2.4 barrier       sockets_at_start
    2.1 any name, only sockets                      any_socket_and_nothing_else
    2.1 dot names ignored at any depth              dot_names
    2.1 sub-directories to depth 8                  depth
    2.1 links                                       links
    2.1 limits                                      too_many_sockets
    2.1 private registry                            registry_others_may_write
    2.2 renames                                     renamed
    2.2 registry deleted or replaced                registry_replaced
    2.2 inotify unavailable                         no_inotify
    2.3 recreation: new attempt, backoff reset      recreated
    2.3 burst of events                             burst
"""
import os
import shutil
import socket
import stat

from procs import check, equal, until
from runner import scenario


def bound_socket(path, listen=False):
    """A socket file; nobody accepts on it."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.bind(path)
    if listen:
        found.listen(1)
    return found


@scenario
def registry_is_made(w):
    """2.1: a missing registry is made with its parents, mode 0750, and watched."""
    w.server()
    w.registry = w.path("a", "b", "reg")
    agent = w.agent()
    agent.wait_ready()
    equal(stat.S_IMODE(os.stat(w.registry).st_mode), 0o750, "mode of the registry")
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    equal(agent.status()["registry"]["mode"], "inotify", "registry mode")


@scenario
def registry_is_waited_for(w):
    """2.1: with create-registry=false it is waited for, never a failed start."""
    w.server()
    agent = w.agent("--create-registry=false", "--rescan-period=100ms")
    agent.wait("waiting for the registry", lambda s: s["registry"]["mode"] == "waiting")
    check(not os.path.exists(w.registry), "the registry was made although it must not be")
    w.driver("a.example.com", node_id="i-1").wait_notified(True)


@scenario
def registry_behind_a_link(w):
    """2.1: the path is resolved once; status shows both forms."""
    w.server()
    os.mkdir(w.path("real"))
    os.symlink(w.path("real"), w.registry)
    agent = w.agent()
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    agent.wait_driver("a.example.com")
    registry = agent.status()["registry"]
    equal((registry["path"], registry["resolved"]), (w.registry, os.path.realpath(w.path("real"))), "path and resolved")


@scenario
def sockets_at_start(w):
    """2.1, 2.4: sockets that are there at the start register without any file event; ready means: each was tried."""
    w.server()
    drivers = [w.driver(f"{n}.example.com", node_id=f"i-{n}") for n in "abc"]
    for driver in drivers:
        until("the socket is there", lambda path=driver.registration: os.path.exists(path))
    agent = w.agent()
    agent.wait_ready()
    for driver in drivers:
        check(driver.calls("GetInfo"), f"{driver.name} was not tried when the agent was ready")
        driver.wait_notified(True)


@scenario
def any_socket_and_nothing_else(w):
    """2.1: no name pattern is required; regular files, FIFOs, devices and directories never count."""
    w.server()
    os.makedirs(w.registry)
    agent = w.agent()
    agent.wait_ready()
    for n in range(300):
        path = os.path.join(w.registry, f"file{n}-reg.sock")
        with open(path, "w", encoding="ascii"):
            pass
        if n % 2:
            os.unlink(path)
    os.mkfifo(os.path.join(w.registry, "fifo-reg.sock"))
    os.mkdir(os.path.join(w.registry, "directory-reg.sock"))
    driver = w.driver("a.example.com", node_id="i-1", registration=os.path.join(w.registry, "plain"))
    driver.wait_notified(True)
    agent.wait_driver("a.example.com")
    status = agent.status()
    equal([s["path"] for s in status["sockets"]], [driver.registration], "sockets")
    equal(status["registry"]["sockets"], 1, "number of sockets")
    noise = [line for line in agent.process.output() if "fifo-reg" in line and "debug" not in line.lower()]
    equal(noise, [], "log lines about what is no socket")


@scenario
def dot_names(w):
    """2.1: names that start with a dot are ignored, files and directories, found at the start or made later."""
    w.server()
    os.makedirs(os.path.join(w.registry, ".early"))
    early = w.driver("early.example.com", node_id="i-1", registration=os.path.join(w.registry, ".early", "reg.sock"))
    until("its socket is there", lambda: os.path.exists(early.registration))
    agent = w.agent()
    late = w.driver("late.example.com", node_id="i-1", registration=os.path.join(w.registry, ".late", "reg.sock"))
    hidden = w.driver("hidden.example.com", node_id="i-1", registration=os.path.join(w.registry, ".reg.sock"))
    seen = w.driver("seen.example.com", node_id="i-1", registration=os.path.join(w.registry, "sub", "reg.sock"))
    seen.wait_notified(True)
    for driver in (early, late, hidden):
        equal(driver.calls(), [], f"calls to {driver.name}")
    agent.wait_driver("seen.example.com")
    equal(len(agent.status()["sockets"]), 1, "sockets")


@scenario
def depth(w):
    """2.1: sub-directories are watched to depth 8 below the registry, made at once or later."""
    w.server()
    os.makedirs(w.registry)
    agent = w.agent("--rescan-period=200ms")
    agent.wait_ready()
    eight = os.path.join(w.registry, *"12345678")
    deep = w.driver("deep.example.com", node_id="i-1", registration=os.path.join(eight, "r"))
    deeper = w.driver("deeper.example.com", node_id="i-1", registration=os.path.join(eight, "9", "r"))
    until("its socket is there", lambda: os.path.exists(deeper.registration))
    deep.wait_notified(True)
    w.driver("last.example.com", node_id="i-1").wait_notified(True)
    equal(deeper.calls(), [], "calls to the driver at depth 9")


@scenario
def links(w):
    """2.1: a link to a socket counts under its own path and goes with its target; a link to a directory is ignored."""
    w.server()
    agent = w.agent("--rescan-period=100ms")
    outside = w.driver("a.example.com", node_id="i-1", registration=w.path("outside.sock"))
    until("its socket is there", lambda: os.path.exists(outside.registration))
    link = os.path.join(w.registry, "link")
    until("the registry is there", lambda: os.path.isdir(w.registry))
    os.symlink(outside.registration, link)
    outside.wait_notified(True)
    agent.wait_driver("a.example.com")
    equal([s["path"] for s in agent.status()["sockets"]], [link], "paths of sockets")
    other = w.driver("b.example.com", node_id="i-2", registration=w.path("dir", "r.sock"))
    os.symlink(w.path("dir"), os.path.join(w.registry, "dirlink"))
    outside.stop()
    agent.wait_no_driver("a.example.com")
    w.driver("c.example.com", node_id="i-3").wait_notified(True)
    equal(other.calls(), [], "calls through a link to a directory")


@scenario
def too_many_sockets(w):
    """2.1: 1,024 sockets at most; what exceeds them is ignored and shown, and nobody else is disturbed."""
    w.server()
    first = w.driver("a.example.com", node_id="i-1")
    agent = w.agent("--connect-timeout=50ms")
    first.wait_notified(True)
    held = [bound_socket(os.path.join(w.registry, f"s{n}")) for n in range(1030)]
    status = agent.wait("a warning about the limit",
                        lambda s: s if s["registry"]["sockets"] >= 1024 and s["registry"].get("warnings") else None)
    equal(status["registry"]["sockets"], 1024, "sockets")
    check(any("1024" in text or "1,024" in text for text in status["registry"]["warnings"]),
          f"no warning names the limit: {status['registry']['warnings']}")
    equal(agent.driver("a.example.com").get("state"), "registered", "the driver that was there before")
    for one in held:
        one.close()


@scenario
def registry_others_may_write(w):
    """2.1: a registry that others may write is a warning; with require-private-registry it is not watched."""
    w.server()
    os.makedirs(w.registry)
    os.chmod(w.registry, 0o777)
    agent = w.agent()
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    agent.wait_driver("a.example.com")
    check(agent.status()["registry"].get("warnings"), "no warning about the mode of the registry")
    agent.stop()
    strict = w.agent("--require-private-registry")
    status = strict.wait("refused", lambda s: s if s["registry"].get("warnings") else None)
    equal(status["registry"]["sockets"], 0, "sockets of a registry that must not be watched")


@scenario
def renamed(w):
    """2.2: a socket renamed into the registry is seen, one renamed away is gone, one renamed inside moves."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", registration=w.path("outside.sock"))
    driver.process.wait_line('"ready"')  # the file is there before its owner listens
    until("the registry is there", lambda: os.path.isdir(w.registry))
    inside = os.path.join(w.registry, "in")
    os.rename(driver.registration, inside)
    agent.wait_driver("a.example.com")
    os.rename(inside, os.path.join(w.registry, "moved"))
    agent.wait("the driver registered under its new path",
               lambda s: [x["path"] for x in s["sockets"] if x["state"] == "registered"] == [os.path.join(w.registry, "moved")])
    os.rename(os.path.join(w.registry, "moved"), driver.registration)
    agent.wait_no_driver("a.example.com")
    w.api.wait("the entry is gone", lambda api: not api.drivers())


@scenario
def registry_replaced(w):
    """2.2: a deleted registry takes its sockets with it; it is made again and watched again."""
    w.server()
    agent = w.agent("--rescan-period=200ms")
    driver = w.driver("a.example.com", node_id="i-1")
    driver.wait_notified(True)
    shutil.rmtree(w.registry)
    agent.wait_no_driver("a.example.com")
    until("the registry is made again", lambda: os.path.isdir(w.registry))
    w.driver("b.example.com", node_id="i-2").wait_notified(True)
    w.api.wait("only the new driver is there", lambda api: list(api.drivers()) == ["b.example.com"])


@scenario
def no_inotify(w):
    """2.2: without inotify the start succeeds, scans take its place, and the message names the inotify limits."""
    w.server()
    agent = w.agent_in_namespace("/proc/sys/user/max_inotify_instances", 0)
    status = agent.wait("polling", lambda s: s if s["registry"]["mode"] == "polling" else None)
    text = " ".join(status["registry"].get("warnings", []))
    check("inotify" in text and "max_user_instances" in text, f"the warning does not name the limits: {text}")
    check("space" not in text, f"the warning speaks of disk space: {text}")
    driver = w.driver("a.example.com", node_id="i-1")
    driver.wait_notified(True)
    driver.stop()
    agent.wait_no_driver("a.example.com")


@scenario
def recreated(w):
    """2.3: a new socket at the same path is a new instance: tried at once although the old one waits in backoff."""
    w.server()
    agent = w.agent()
    broken = w.driver("a.example.com", node_id="")
    broken.wait_notified(False)
    agent.wait_error(broken.registration, "node id")
    broken.kill()
    driver = w.driver("a.example.com", node_id="i-1")
    driver.wait_notified(True)
    equal(len(driver.calls("GetInfo")), 1, "GetInfo calls of the new instance")


@scenario
def burst(w):
    """2.3: after any burst of creations and deletions the final state is what is on disk."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1", registration=w.path("outside.sock"))
    until("its socket is there", lambda: os.path.exists(driver.registration))
    until("the registry is there", lambda: os.path.isdir(w.registry))
    inside = os.path.join(w.registry, "r")
    for _ in range(25):
        os.link(driver.registration, inside)
        os.unlink(inside)
    os.link(driver.registration, inside)
    agent.wait_driver("a.example.com")
    for _ in range(25):
        os.unlink(inside)
        os.link(driver.registration, inside)
    os.unlink(inside)
    agent.wait_no_driver("a.example.com")
    w.api.wait("the entry is gone", lambda api: not api.drivers())
