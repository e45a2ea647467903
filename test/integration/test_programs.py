# SPDX-License-Identifier: Apache-2.0
"""The programs as programs: flags, exit codes, signals, HTTP endpoints, the registrar, the smallest host.

    matter                                            scenario
    --help, --version, bad usage 2, failure 1         help_and_version, bad_usage, failures
    SIGTERM and SIGINT end in order with 0            signals
    agent's HTTP endpoint                             http_endpoint, page_escapes
    feature gates                                     bad_usage
    log formats                                       json_log
    registrar                                         registrar_*
    examples/embed.c: runs, under 60 lines, README    embed, embed_in_the_readme
    fork and exec leak no descriptor                  descriptors_close_on_exec
"""
import json
import os
import signal
import socket

from procs import check, equal, until
from runner import scenario

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = ("csireg-agent", "csireg-registrar", "csireg-mock-driver", "csireg-apiserver")
AGENT = ("csireg-agent", "--node-name=n1", "--local-only")


def run(w, *argv, code=0):
    """The output of a program that ends by itself."""
    process = w.start(f"run{len(w.things)}", *argv, expect_exit=code)
    equal(process.wait_exit(), code, f"exit code of {' '.join(argv)} ({process.output()})")
    return "\n".join(process.output())


@scenario
def help_and_version(w):
    """--help has examples, --version numbers, both end with 0, with one dash or two."""
    for program in PROGRAMS:
        text = run(w, program, "--help")
        check("Examples" in text and "--log-level" in text, f"help of {program}: {text[:200]}")
        equal(run(w, program, "-help"), text, f"-help of {program}")
        check("0.1.0" in run(w, program, "--version"), f"version of {program}")
    text = run(w, "csireg-agent", "--node-info-from-controller-capability=33", "-version")
    check("NODE_INFO_FROM_CONTROLLER 33" in text, f"the capability's number is not in the version: {text}")


@scenario
def bad_usage(w):
    """Bad usage ends with 2 and says what is wrong."""
    cases = {("csireg-agent",): "node-name", AGENT + ("--nonsense",): "nonsense",
             AGENT + ("--feature-gates=Other=true",): "CSIControllerGetNodeInfo",
             AGENT + ("--feature-gates=CSIControllerGetNodeInfo=maybe",): "maybe",
             AGENT + ("--rescan-period=soon",): "rescan-period", AGENT + ("--rescan-period=1ms",): "rescan-period",
             AGENT + ("--registration-dropped=perhaps",): "registration-dropped",
             AGENT + ("--log-level=loud",): "log-level", AGENT + ("word",): "word",
             ("csireg-agent", "--node-name=Bad_Name", "--local-only"): "node-name",
             ("csireg-registrar",): "kubelet-registration-path", ("csireg-apiserver", "--gate=Foo=on"): "Foo",
             ("csireg-mock-driver", "--endpoint=/none", "--delay=Nothing=1s"): "Nothing"}
    for argv, word in cases.items():
        text = run(w, *argv, code=2)
        check(word in text, f"{' '.join(argv)}: {text}")


@scenario
def failures(w):
    """Failure ends with 1: an address in use, no credentials to be found."""
    busy = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{busy.getsockname()[1]}"
    text = run(w, *AGENT, "--plugins-registry-dir", w.registry, "--http-endpoint", address, code=1)
    check(address in text, f"the message lacks the address: {text}")
    busy.close()
    run(w, "csireg-agent", "--node-name=n1", "--plugins-registry-dir", w.registry, code=1)


@scenario
def signals(w):
    """SIGTERM and SIGINT end every program in order with 0, at any time."""
    w.server()
    for number in (signal.SIGTERM, signal.SIGINT):
        agent = w.agent()
        driver = w.driver("a.example.com", node_id="i-1", hang={"NodeGetInfo": 1})
        driver.wait_call("NodeGetInfo")
        equal(agent.process.stop(number), 0, f"agent after {number}")
        equal(driver.notifications(), [], "notifications")
        equal(driver.process.stop(number), 0, f"mock driver after {number}")
    equal(w.api.process.stop(signal.SIGINT), 0, "server after SIGINT")


@scenario
def http_endpoint(w):
    """/healthz, /readyz, /status and the page; nothing else, and only GET."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1")
    driver.wait_notified(True)
    agent.wait_driver("a.example.com")
    equal(agent.page("/healthz")[0], 200, "/healthz")
    agent.wait_ready()
    equal(agent.page("/other")[0], 404, "/other")
    status = agent.status()
    equal((status["version"], status["node"]["name"], status["registry"]["initialScanDone"]), (1, "n1", True), "status")
    for key in ("library", "gates", "capabilities", "registry", "api", "sockets", "drivers", "unclaimed"):
        check(key in status, f"the status lacks {key}")
    code, page = agent.page("/")
    check(code == 200 and "<script" not in page and "a.example.com" in page and driver.endpoint in page, page)


@scenario
def page_escapes(w):
    """What a driver says cannot become markup, and the page tells why it is not registered."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", error={"NodeGetInfo": (13, "<b>bold</b> & \"quoted\"")})
    driver.wait_notified(False)
    agent.wait("the next try is known", lambda s: s["sockets"] and s["sockets"][0].get("nextTry"))
    _, page = agent.page("/")
    check("<b>bold" not in page and "&lt;b&gt;bold" in page, "the driver's text is not escaped")
    check("Why is my driver not registered?" in page and "Next try" in page, page)


@scenario
def json_log(w):
    """--log-format=json: every line on standard error is an object."""
    w.server()
    agent = w.agent("--log-format=json")
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    agent.stop()
    lines = agent.process.output("err")
    check(any(json.loads(line).get("driver") == "a.example.com" for line in lines), "no line about the driver")


@scenario
def descriptors_close_on_exec(w):
    """No descriptor of the agent survives an exec."""
    w.server()
    agent = w.agent(gate=True)
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    agent.status()
    for fd in os.listdir(f"/proc/{agent.process.pid}/fd"):
        try:
            with open(f"/proc/{agent.process.pid}/fdinfo/{fd}", encoding="ascii") as info:
                flags = next(int(line.split()[1], 8) for line in info if line.startswith("flags"))
            target = os.readlink(f"/proc/{agent.process.pid}/fd/{fd}")
        except FileNotFoundError:
            continue
        check(int(fd) <= 2 or flags & os.O_CLOEXEC, f"descriptor {fd} ({target}) is inherited")


# ---- the registrar ----

def registrar(w, driver, *flags, expect_exit=0):
    return w.start(f"registrar{len(w.things)}", "csireg-registrar", "--csi-address", driver.endpoint,
                   "--kubelet-registration-path", driver.endpoint, "--plugin-registration-path", w.registry, *flags,
                   expect_exit=expect_exit)


@scenario
def registrar_registers(w):
    """It takes the name from the driver, serves DRIVER-reg.sock, and removes it at its end."""
    w.server()
    agent = w.agent()
    driver = w.driver("a.example.com", registration="", node_id="i-1")
    agent.wait_ready()
    process = registrar(w, driver, "--v=5", "--logtostderr", "--connection-timeout=1s")
    agent.wait_driver("a.example.com", endpoint=driver.endpoint)
    check(os.path.exists(os.path.join(w.registry, "a.example.com-reg.sock")), "no socket of the expected name")
    equal(process.stop(), 0, "exit code")
    check(not os.listdir(w.registry), f"left behind: {os.listdir(w.registry)}")
    agent.wait_no_driver("a.example.com")


@scenario
def registrar_waits_for_the_driver(w):
    """The driver's socket may come later; a stale registration socket is replaced."""
    w.server()
    agent = w.agent()
    agent.wait_ready()
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(os.path.join(w.registry, "a.example.com-reg.sock"))
    stale.close()
    driver = w.driver("a.example.com", registration="", node_id="i-1", service_after="700ms")
    registrar(w, driver)
    agent.wait_driver("a.example.com")


@scenario
def registrar_is_refused(w):
    """On false it logs the agent's reason and exits with 1."""
    w.server()
    agent = w.agent()
    agent.wait_ready()
    driver = w.driver("a.example.com", registration="", node_id="")
    process = registrar(w, driver, expect_exit=1)
    equal(process.wait_exit(), 1, "exit code")
    process.wait_line(lambda line: "node id" in line)
    check(not os.listdir(w.registry), "the socket was left behind")


@scenario
def registrar_health(w):
    """/healthz dials the registration socket: 200, 404 without one, 500 when it does not answer."""
    w.server()
    agent = w.agent()
    agent.wait_ready()
    driver = w.driver("a.example.com", registration="", node_id="i-1")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    registrar(w, driver, f"--http-endpoint=127.0.0.1:{port}", "--timeout=1s")
    agent.wait_driver("a.example.com")
    path = os.path.join(w.registry, "a.example.com-reg.sock")
    equal(healthz(port), 200, "healthz")
    os.unlink(path)
    equal(healthz(port), 404, "healthz without a socket")
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(path)
    equal(healthz(port), 500, "healthz with a socket that does not answer")
    silent.close()


def healthz(port):
    import http.client  # pylint: disable=import-outside-toplevel
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


@scenario
def registrar_probe(w):
    """The probe mode exits with 0 once the agent has asked, with 1 before."""
    w.server()
    driver = w.driver("a.example.com", registration="", node_id="i-1", endpoint=w.path("plugin", "csi.sock"))
    probe = ("csireg-registrar", "--mode=kubelet-registration-probe", "--kubelet-registration-path", driver.endpoint)
    run(w, *probe, code=1)
    agent = w.agent()
    agent.wait_ready()
    registrar(w, driver)
    agent.wait_driver("a.example.com")
    until("the probe file is there", lambda: os.path.exists(w.path("plugin", "registration")))
    run(w, *probe, code=0)


# ---- the smallest host ----

@scenario
def embed(w):
    """examples/embed.c prints what happens and ends on SIGINT."""
    w.server()
    process = w.start("embed", "embed", "n1", w.api.kubeconfig, w.registry)
    driver = w.driver("a.example.com", node_id="i-1")
    driver.wait_notified(True)
    process.wait_line(lambda line: line.startswith("REGISTERED a.example.com"))
    driver.stop()
    process.wait_line(lambda line: line.startswith("UNREGISTERED a.example.com"))
    w.driver("b.example.com", node_id="").wait_notified(False)
    process.wait_line(lambda line: line.startswith("FAILED b.example.com") and "node id" in line)
    equal(process.stop(signal.SIGINT), 0, "exit code")
    process.wait_line("STOPPED")
    run(w, "embed", code=2)
    run(w, "embed", "n1", w.path("none"), w.registry, code=1)


@scenario(emulator=False)
def embed_in_the_readme(_):
    """README shows the host word for word, and it has less than 60 lines."""
    with open(os.path.join(ROOT, "examples/embed.c"), encoding="utf-8") as file:
        source = file.read()
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    check(source.count("\n") < 60, f"{source.count(chr(10))} lines")
    check(f"```c\n{source}```" in readme, "README.md does not show examples/embed.c as it is")
