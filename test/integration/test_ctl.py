# SPDX-License-Identifier: Apache-2.0
"""csireg-ctl: why is my driver not registered? Its table for set-ups that are broken in one way each, with the exit
code, and how it is used.

    set-up                                                      scenario
    wrong directory                                             wrong_directory
    API server down                                             api_down
    credentials expired                                         expired_token
    wrong node name                                             wrong_node_name (403 and 404)
    no permission                                               no_permission
    gate off, here and on the server                            gate_off, server_gate_off
    the driver's service socket in the registry                 service_socket
    dead endpoint, at once and later                            dead_endpoint, dead_later
    label collision                                             collision
    no inotify                                                  polling
    two instances of a driver                                   standby
    use: formats, --driver, --file, endpoints, --watch, usage   all_is_well, one_driver, documents, endpoints, watch_*,
                                                                bad_usage
"""
import json
import os
import pty
import re
import select
import subprocess

from harness import CAPABILITY
from procs import check, equal, until
from runner import scenario

NAME = "a.example.com"
WELL, FAILED, USAGE, NOT_WELL = 0, 1, 2, 3


def ctl(w, *flags, code=WELL, agent=None):
    """What it prints, in one line of text, and that it ends with this code."""
    if agent:
        agent.page("/healthz")
        flags = ("--endpoint", agent.address) + flags
    process = w.start(f"ctl{len(w.things)}", "csireg-ctl", *flags, expect_exit=code)
    equal(process.wait_exit(), code, f"exit code of csireg-ctl ({process.output()})")
    return "\n".join(process.output())


def table(w, agent, *words, code=NOT_WELL, flags=()):
    """The table, which has all these words, and the HTML page has them too."""
    text = ctl(w, *flags, agent=agent, code=code)
    _, page = agent.page("/")
    for word in words:
        check(word in text, f"the table lacks {word!r}:\n{text}")
        found = word.replace("&", "&amp;").replace("'", "&#39;").replace('"', "&quot;")
        check(word.startswith("DRIVER ") or found in page, f"the page lacks {word!r}:\n{page}")
    return text


def in_backoff(agent):
    return agent.wait("the attempt is over", lambda s: s["sockets"] and s["sockets"][0]["state"] == "backoff")


@scenario
def all_is_well(w):
    """Both flows in one table, exit code 0."""
    w.server()
    agent = w.agent(gate=True)
    zone = {"topology.example.com/zone": "z1"}
    for name, how in ((NAME, {"topology": zone}), ("c.example.com", {"capabilities": [CAPABILITY]})):
        w.driver(name, node_id="i-1", **how).wait_notified(True)
        agent.wait("it is registered", lambda s, name=name: any(
            x.get("driver") == name and x["state"] == "registered" for x in s["sockets"]))
    equal(agent.status().get("labelsAdded"), zone, "labels added")
    text = ctl(w, agent=agent)
    rows = [line.split() for line in text.split("\n")]
    check(any(row[:3] == [NAME, "node", "registered"] for row in rows), text)
    check(any(row[:3] == ["c.example.com", "controller", "registered"] for row in rows), text)
    check("2 drivers registered, 0 not" in text and "waited for its controller side" in text, text)


@scenario
def wrong_directory(w):
    """No socket since the start: the resolved path, and the registrar's mount."""
    w.server()
    os.mkdir(w.path("real"))
    os.symlink(w.path("real"), w.registry)
    agent = w.agent()
    agent.wait_ready()
    w.driver(NAME, node_id="i-1", registration=w.path("elsewhere.sock"))
    real = os.path.realpath(w.path("real"))
    table(w, agent, f"registry {real}", "has 0 registration sockets, and none was seen since the start",
          "--plugins-registry-dir", code=WELL)
    text = ctl(w, "--driver", NAME, agent=agent, code=NOT_WELL)
    check("No driver of this name" in text and real in text, text)


@scenario
def api_down(w):
    """The driver waits, the server cannot be reached."""
    w.server()
    agent = w.agent("--request-timeout=300ms")
    agent.wait_ready()
    w.api.process.stop()
    w.driver(NAME, node_id="i-1").wait_call("NodeGetInfo")
    agent.wait("the API is missed and the driver waits for it", lambda s: s["api"]["state"] == "waiting"
               and s["sockets"][0]["state"] == "publishing")
    table(w, agent, "waits for the API server", f"API server https://{w.api.address}", "cannot be reached",
          "Check that the API server runs and that this node reaches it")


@scenario
def expired_token(w):
    """401: renew it; nothing has to be restarted."""
    w.server()
    w.api.rule({"unauthorized": True})
    agent = w.agent()
    w.driver(NAME, node_id="i-1").wait_call("NodeGetInfo")
    agent.wait("the API is missed", lambda s: s["api"]["state"] == "waiting")
    table(w, agent, "HTTP 401", "Renew the token or client certificate")


@scenario
def wrong_node_name(w):
    """Of another node: 403. Of none, with the right to look: not found."""
    w.server()
    agent = w.agent("--node-name=other")
    w.driver(NAME, node_id="i-1").wait_notified(False)
    in_backoff(agent)
    table(w, agent, "HTTP 403", "is --node-name right?")
    agent.stop()
    w.api.delete("nodes", w.api.node_name)
    agent = w.agent("--publish-timeout=60s")
    agent.wait("the Node is missed", lambda s: "not found" in s["api"].get("lastError", {}).get("message", "")
               and s["sockets"] and s["sockets"][0]["state"] == "publishing"
               and s["api"]["lastError"]["time"] >= s["sockets"][0]["since"])
    table(w, agent, "is being written to the cluster: Node", "not found", "Compare --node-name")


@scenario
def no_permission(w):
    """403 with the server's words; what is to be granted."""
    w.server()
    words = 'csinodes.storage.k8s.io "n1" is forbidden: User "csireg" cannot get resource "csinodes"'
    w.api.rule({"status": 403, "reason": "Forbidden", "message": words}, {"resource": "csinodes"})
    agent = w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(False)
    in_backoff(agent)
    text = table(w, agent, words, "csinodes get, create, update, delete")
    check("publish: HTTP 403, persistent" in text, text)


@scenario
def gate_off(w):
    """The driver leaves topology to its controller side, but the gate is off here."""
    w.server()
    agent = w.agent()
    w.driver(NAME, capabilities=[CAPABILITY], error={"NodeGetInfo": (9, "no metadata on this node")}).wait_notified(False)
    in_backoff(agent)
    table(w, agent, "no metadata on this node", "gate CSIControllerGetNodeInfo", "is off: every driver takes the node flow",
          "--feature-gates=CSIControllerGetNodeInfo=true")


@scenario
def server_gate_off(w):
    """The server drops the registration: its gate, or the option here."""
    w.server(gate="off")
    agent = w.agent(gate=True)
    w.driver(NAME, node_id="i-1", capabilities=[CAPABILITY]).wait_notified(False)
    in_backoff(agent)
    table(w, agent, "does not keep a.example.com", "feature gate CSIControllerGetNodeInfo is off", "registration-dropped=node-flow")


@scenario
def service_socket(w):
    """The driver's own socket in the registry is told as such."""
    w.server()
    agent = w.agent()
    path = os.path.join(w.registry, "csi.sock")
    w.driver(NAME, registration="", endpoint=path, node_id="i-1")
    in_backoff(agent)
    text = table(w, agent, path, "Move this socket out of the registry directory")
    check("GetInfo: gRPC 12, persistent" in text, text)
    # Its name is not known, so it may be any driver's.
    check(path in ctl(w, "--driver", NAME, agent=agent, code=NOT_WELL), "the socket is not shown for the driver")


@scenario
def dead_endpoint(w):
    """The registrar tells a path where nobody listens."""
    w.server()
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1", service_after="1h")
    driver.wait_notified(False)
    in_backoff(agent)
    text = table(w, agent, driver.endpoint, "--kubelet-registration-path")
    check("connect: ENOENT" in text, text)


@scenario
def dead_later(w):
    """A registered driver whose service socket went: the entry stays, the table says since when."""
    w.server()
    agent = w.agent("--endpoint-dead-after=16s")
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    agent.wait_driver(NAME)
    os.unlink(driver.endpoint)
    agent.wait("it is missed", lambda s: s["drivers"][0].get("unreachableSince"))
    table(w, agent, "nobody takes connections on its service socket", driver.endpoint, "See that the driver's pod runs")
    ctl(w, "--driver", NAME, agent=agent, code=NOT_WELL)


@scenario
def collision(w):
    """The Node has another value under the driver's key."""
    w.server()
    w.api.patch("nodes", "n1", {"metadata": {"labels": {"topology.example.com/zone": "z9"}}})
    agent = w.agent()
    w.driver(NAME, node_id="i-1", topology={"topology.example.com/zone": "z1"}).wait_notified(False)
    in_backoff(agent)
    table(w, agent, 'the driver reports "z1", but the Node already has "z9"', "remove the label from the Node")


@scenario
def polling(w):
    """Without inotify drivers register all the same; the limits are named."""
    w.server()
    agent = w.agent_in_namespace("/proc/sys/user/max_inotify_instances", 0)
    agent.wait("polling", lambda s: s["registry"]["mode"] == "polling")
    table(w, agent, "the registry is scanned every second instead", "fs.inotify.max_user_instances", code=WELL)


@scenario
def standby(w):
    """The second instance of a driver is no trouble."""
    w.server()
    agent = w.agent()
    w.driver(NAME, node_id="i-1", registration=os.path.join(w.registry, "one")).wait_notified(True)
    w.driver(NAME, node_id="i-1", registration=os.path.join(w.registry, "two")).wait_notified(True)
    agent.wait("one stands by", lambda s: sorted(x["state"] for x in s["sockets"]) == ["registered", "standby"])
    table(w, agent, "another instance registers this driver", code=WELL)


# ---- use ----

@scenario
def one_driver(w):
    """--driver: only that one, and its state decides on the exit code."""
    w.server()
    agent = w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    w.driver("b.example.com", node_id="").wait_notified(False)
    agent.wait_driver(NAME)
    text = ctl(w, "--driver", NAME, agent=agent)
    check(NAME in text and "b.example.com" not in text, text)
    text = ctl(w, "--driver=b.example.com", agent=agent, code=NOT_WELL)
    check("empty node id" in text and NAME not in text, text)
    ctl(w, "--driver=none.example.com", agent=agent, code=NOT_WELL)
    ctl(w, agent=agent, code=NOT_WELL)


@scenario
def documents(w):
    """--output=json has the document and the findings; a saved document gives the same table; garbage is refused."""
    w.server()
    agent = w.agent()
    w.driver(NAME, node_id="").wait_notified(False)
    in_backoff(agent)
    found = json.loads(ctl(w, "--output=json", agent=agent, code=NOT_WELL))
    bad = [f for f in found["findings"] if f["level"] == "bad"]
    equal([f["about"] for f in bad], [NAME], "bad findings")
    check("node id" in bad[0]["what"] and bad[0]["remedy"] and bad[0]["nextTry"], bad)
    equal(found["sockets"][0]["driver"], NAME, "driver in the document")
    with open(w.path("status.json"), "w", encoding="utf-8") as file:
        file.write(agent.page("/status")[1])
    check("empty node id" in ctl(w, "--file", w.path("status.json"), code=NOT_WELL), "saved document")
    with open(w.path("garbage"), "w", encoding="utf-8") as file:
        file.write('{"sockets": []}')
    for path, word in ((w.path("garbage"), "no status document"), (w.path("nothing"), "No such file")):
        check(word in ctl(w, "--file", path, code=FAILED), f"{path}: {word}")


@scenario(emulator=False)
def endpoints(w):
    """A Unix socket as well as an address; who is not there is named, with what to do; another page is no status."""
    path = w.path("agent.sock")
    flags = ("--node-name=n1", "--local-only", "--plugins-registry-dir", w.registry)
    agent = w.start("agent", "csireg-agent", *flags, "--http-endpoint", f"unix:{path}")
    agent.wait_line("http ")
    check("Node n1" in ctl(w, "--endpoint", f"unix:{path}"), "no table over the Unix socket")
    text = ctl(w, "--endpoint", f"unix:{w.path('none.sock')}", code=FAILED)
    check("none.sock" in text and "--http-endpoint" in text, text)
    other = w.start("agent2", "csireg-agent", *flags, "--http-endpoint=127.0.0.1:0")
    address = other.wait_line("http ").split()[1]
    for endpoint in (address, f"http://{address}", f"http://{address}/status", ":" + address.split(":")[1]):
        check("Node n1" in ctl(w, "--endpoint", endpoint), endpoint)
    check("404" in ctl(w, "--endpoint", f"http://{address}/nothing", code=FAILED), "404")
    check("no status document" in ctl(w, "--endpoint", f"http://{address}/healthz", code=FAILED), "another page")


@scenario(emulator=False)
def bad_usage(w):
    """What makes no sense ends with 2; the help has examples and the exit codes."""
    for flags in (("--output=xml",), ("--watch", "--output=json"), ("--watch", "--file=x"), ("--interval=1ms",), ("word",),
                  ("--driver=a", "--output=json")):
        ctl(w, *flags, code=USAGE)
    text = ctl(w, "--help")
    check("Examples:" in text and "Exit codes:" in text and "--watch" in text, text)


@scenario
def watch_lines(w):
    """Not on a terminal: a line for each change, also when the agent goes and comes; SIGTERM ends it with 0."""
    w.server()
    agent = w.agent()
    agent.page("/healthz")
    process = w.start("watch", "csireg-ctl", "--watch", "--interval=100ms", "--endpoint", agent.address)
    process.wait_line("none was seen since the start")
    driver = w.driver(NAME, node_id="i-1")
    process.wait_line(f"{NAME} ({driver.registration}) registered, flow node")
    other = w.driver("b.example.com", node_id="")
    process.wait_line("empty node id")
    other.stop()
    process.wait_line(f"b.example.com ({other.registration}) is no more")
    agent.stop()
    process.wait_line("cannot read the status from")
    equal(sum("cannot read the status" in line for line in process.output()), 1, "lines about the agent")
    check(not any("\033" in line for line in process.output()), "escapes outside of a terminal")
    equal(process.stop(), 0, "exit code")


@scenario
def watch_terminal(w):
    """On a terminal the table is drawn again, to its width."""
    w.server()
    agent = w.agent()
    agent.page("/healthz")
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    seen = b""

    def draws(text):
        def probe():
            nonlocal seen
            if select.select([ours], [], [], 0.05)[0]:
                seen += os.read(ours, 65536)
            return text in re.sub(rb"(\033\[[A-Z]|\s)+", b" ", seen)  # wherever its lines break
        return probe

    with subprocess.Popen([w.program("csireg-ctl"), "--watch", "--interval=100ms", "--endpoint", agent.address],
                          stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        try:
            until("the first table", draws(b"none was seen since the start"))
            w.driver(NAME, node_id="i-1").wait_notified(True)
            until("the driver in it", draws(f"{NAME} node registered".encode()))
            check(b"\033[H" in seen and b"\033[K" in seen, seen)
            widest = max(len(re.sub(rb"\033\[[A-Z]", b"", line)) for line in seen.split(b"\n"))
            check(widest <= 100, f"a line of {widest} columns on 80, {seen}")
        finally:
            process.terminate()
            equal(process.wait(), 0, "exit code")
    os.close(ours)
    os.close(theirs)
