# SPDX-License-Identifier: Apache-2.0
"""The agent under a service manager: what it tells NOTIFY_SOCKET, and when.

    matter                                           scenario
    READY=1 after the start, STATUS, STOPPING=1      life (a path), abstract_socket
    watchdog at half the interval                    watchdog
    the unit file's flags are the agent's            unit_file
"""
import os
import re
import socket

from procs import PATIENCE, check, equal
from runner import scenario

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNIT = os.path.join(ROOT, "examples/agent/csireg-agent.service")
NAME = "a.example.com"


class Manager:
    """The service manager's end."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.settimeout(PATIENCE)

    def hear(self, wanted=""):
        """The next message that has these words."""
        while True:
            message = self.socket.recv(4096).decode()
            if wanted in message:
                return message

    def close(self):
        self.socket.close()


def agent(w, name, **environment):
    argv = w.agent_argv("--request-timeout=1s")[1:]
    return w.start("agent", "csireg-agent", *argv, env=os.environ | {"NOTIFY_SOCKET": name} | environment)


@scenario
def life(w):
    """READY=1 once it serves, STATUS follows drivers, STOPPING=1 at the end; no watchdog unless asked for."""
    w.server()
    manager = Manager(w.path("notify"))
    process = agent(w, w.path("notify"))
    equal(manager.hear(), "READY=1\nSTATUS=0 drivers registered, 0 not; API server ok", "first message")
    process.wait_line("http ")
    driver = w.driver(NAME, node_id="i-1")
    equal(manager.hear("STATUS=1 "), "STATUS=1 driver registered, 0 not; API server ok", "with a driver")
    driver.stop()
    manager.hear("STATUS=0 drivers registered, 0 not")
    equal(process.stop(), 0, "exit code")
    equal(manager.hear(), "STOPPING=1\nSTATUS=stopping", "last message")
    manager.close()


@scenario
def abstract_socket(w):
    """A name in the abstract namespace, as systemd has it in containers."""
    w.server()
    manager = Manager("\0csireg" + w.directory)
    process = agent(w, "@csireg" + w.directory)
    check(manager.hear().startswith("READY=1\n"), "not ready")
    process.stop()
    manager.hear("STOPPING=1")
    manager.close()


@scenario
def watchdog(w):
    """Signs of life come again and again, from the start and while drivers come."""
    w.server()
    manager = Manager(w.path("notify"))
    process = agent(w, w.path("notify"), WATCHDOG_USEC="200000")
    manager.hear("READY=1")
    for _ in range(5):
        equal(manager.hear("WATCHDOG"), "WATCHDOG=1", "sign of life")
    w.driver(NAME, node_id="i-1").wait_notified(True)
    for _ in range(5):
        manager.hear("WATCHDOG=1")
    check(not any("does not answer" in line for line in process.output()), "the engine was missed")
    process.stop()
    manager.hear("STOPPING=1")
    manager.close()


@scenario(emulator=False)
def unit_file(w):
    """Its command line is understood, the socket is the one that csireg-ctl looks for, the type is notify."""
    with open(UNIT, encoding="utf-8") as file:
        text = file.read()
    check("Type=notify" in text and re.search(r"^WatchdogSec=", text, re.M), "no notification or watchdog")
    line = re.search(r"^ExecStart=(.*)$", text, re.M).group(1)
    flags = [flag.replace("%H", "n1") for flag in line.split()[1:] if flag != "$CSIREG_FLAGS"]
    endpoint = next(flag.split("=", 1)[1] for flag in flags if flag.startswith("--http-endpoint="))
    for program, words in (("csireg-agent", [*flags, "--version"]), ("csireg-ctl", ["--help"])):
        process = w.start(program, program, *words)
        equal(process.wait_exit(), 0, f"exit code of {program} ({process.output()})")
    check(endpoint in "\n".join(process.output()), f"csireg-ctl does not look at {endpoint}")
