# SPDX-License-Identifier: Apache-2.0
"""Drivers, files and settings that are wrong or malicious: a clear error, nobody else disturbed, nothing lost.

    matter                                                 scenario
    NUL and bad UTF-8 in strings                           strings_that_are_none
    a message past its bound; 10,000 segments              answers_too_large
    undecodable, empty, OK without a message               undecodable_answers
    accepts and says nothing, garbage, HTTP/1, hangs up    peers_of_the_registration_socket, peers_of_the_service_socket
    a file and a FIFO named like a socket                  (test_discovery.any_socket_and_nothing_else)
    node ids, names                                        (test_node_flow.node_ids, test_handshake.names)
    long paths                                             (test_handshake.long_paths)
    malformed kubeconfig, exec, auth-provider              kubeconfigs
    untrusted CA, wrong token                              untrusted_ca, wrong_token
    insecure-skip-tls-verify                               insecure_is_loud
    truncated JSON, HTML, empty body with 200              (test_api_faults)
    peers that come and go                                 storm
"""
import os

from procs import check, equal, until
from runner import scenario


class Witness:
    """A well-behaved driver: registered before the trouble, undisturbed by it; another one registers during it."""

    def __init__(self, w, *flags, gate=False):
        self.w = w
        w.server()
        self.agent = w.agent(*flags, gate=gate)
        self.first = w.driver("first.example.com", node_id="w-1")
        self.first.wait_notified(True)

    def undisturbed(self):
        self.w.driver("second.example.com", node_id="w-2").wait_notified(True)
        equal(len(self.first.calls("GetInfo")), 1, "GetInfo calls of the witness")
        equal(self.agent.driver("first.example.com")["state"], "registered", "state of the witness")
        equal({"first.example.com", "second.example.com"} - set(self.w.api.drivers()), set(), "missing entries")


@scenario
def strings_that_are_none(w):
    """Wire 8: NUL and invalid UTF-8 anywhere in a used field refuse the message; nothing is cut in silence."""
    witness = Witness(w)
    cases = {"id-nul": {"node_id": "hex:69002d31"}, "id-utf8": {"node_id": "hex:69ff2d31"},
             "name-nul": {"plugin_name": "hex:612e6578616d706c650078", "node_id": "i"},
             "name-utf8": {"plugin_name": "hex:61c328", "node_id": "i"},
             "endpoint-nul": {"report_endpoint": "hex:2f746d702f780079", "node_id": "i"},
             "version-utf8": {"versions": "hex:fe", "node_id": "i"},
             "key-nul": {"node_id": "i", "topology": {"hex:610062": "v"}},
             "value-utf8": {"node_id": "i", "topology": {"k": "hex:80"}}}
    for label, how in cases.items():
        driver = w.driver(f"{label}.example.com", **how)
        error = witness.agent.wait_error(driver.registration)
        equal(error["class"], "persistent", f"class of {label}: {error['message']}")
        check(driver.name not in w.api.drivers(), f"{label} was published")
    witness.undisturbed()


@scenario
def answers_too_large(w):
    """Wire 8: a 5 MiB answer and 10,000 topology entries are refused; memory does not grow with them."""
    witness = Witness(w, gate=True)
    before = resident(witness.agent.process.pid)
    for n, method in enumerate(("GetInfo", "NodeGetCapabilities", "NodeGetInfo")):
        driver = w.driver(f"big{n}.example.com", node_id="i-1", padding={method: 5 * 1024 * 1024})
        witness.agent.wait_error(driver.registration, method)
    many = w.driver("many.example.com", node_id="i-1", topology_count=10000)
    many.wait_notified(False)
    versions = w.driver("versions.example.com", node_id="i-1", versions=["1.0.0"] * 5000)
    witness.agent.wait_error(versions.registration, "GetInfo")
    capabilities = w.driver("capabilities.example.com", node_id="i-1", capabilities=list(range(10, 5000)))
    capabilities.wait_notified(False, "NodeGetCapabilities")
    grown = resident(witness.agent.process.pid) - before
    check("san" in w.programs or grown < 64 * 1024, f"the agent grew by {grown} KiB")
    witness.undisturbed()


def resident(pid):
    """KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


@scenario
def undecodable_answers(w):
    """Wire 5, 8: truncated, wrong wire types, nothing at all: refused by step; an empty message is one with empty fields."""
    witness = Witness(w)
    cases = {"truncated": {"response_hex": {"NodeGetInfo": "0a40"}}, "wrong-type": {"response_hex": {"NodeGetInfo": "0801"}},
             "field-zero": {"response_hex": {"NodeGetInfo": "0201"}}, "empty": {"response_hex": {"NodeGetInfo": ""}},
             "info-truncated": {"response_hex": {"GetInfo": "0aff"}}, "info-empty": {"response_hex": {"GetInfo": ""}}}
    for label, how in cases.items():
        driver = w.driver(f"{label}.example.com", **how)
        error = witness.agent.wait_error(driver.registration)
        equal(error["class"], "persistent", f"class of {label}: {error['message']}")
    witness.undisturbed()


PEERS = ("silent", "garbage", "http1", "close")


@scenario
def peers_of_the_registration_socket(w):
    """Wire 7: silence, garbage, HTTP/1 and hanging up cost at most a deadline; never notified, retried."""
    witness = Witness(w, "--getinfo-timeout=500ms")
    drivers = [w.driver(f"{peer}.example.com", registration_peer=peer) for peer in PEERS]
    for driver in drivers:
        error = witness.agent.wait_error(driver.registration)
        check(error["class"] == "transient" and error["step"] == "GetInfo", f"{driver.name}: {error}")
    until("the silent one is tried again", lambda: len(drivers[0].events("connected")) > 1)
    witness.undisturbed()


@scenario
def peers_of_the_service_socket(w):
    """Wire 7: the same on the driver's own socket; false is notified with the step and the endpoint."""
    witness = Witness(w, "--node-rpc-timeout=500ms")
    for peer in PEERS:
        driver = w.driver(f"{peer}.example.com", service_peer=peer)
        driver.wait_notified(False, driver.name, driver.endpoint)
    witness.undisturbed()


@scenario
def no_node_service(w):
    """Wire 5: a driver without the Node service."""
    witness = Witness(w)
    w.driver("none.example.com", no_node_service=True).wait_notified(False, "NodeGetInfo")
    witness.undisturbed()


@scenario
def storm(w):
    """Drivers that come and go, some of them broken, while others register: fds and threads stay where they were."""
    witness = Witness(w, "--getinfo-timeout=200ms")
    witness.undisturbed()
    process = witness.agent.process
    fds, threads = process.fds(), process.threads()
    for n in range(6):
        broken = w.driver(f"broken{n}.example.com", node_id="", registration_peer=PEERS[n % 4] if n % 2 else "grpc")
        good = w.driver(f"good{n}.example.com", node_id="i-1")
        good.wait_notified(True)
        broken.stop()
        good.stop()
    witness.agent.wait("they are gone", lambda s: len(s["sockets"]) == 2)
    w.api.wait("their entries are gone", lambda api: len(api.drivers()) == 2)
    until("descriptors are closed", lambda: process.fds() <= fds + 1)
    check(process.threads() <= threads, f"threads: {threads} before, {process.threads()} after")


# ---- access to the API ----

def fails(w, label, text, *words, code=1, flags=()):
    """An agent with this kubeconfig ends with a message that has these words."""
    path = w.path(label + ".kubeconfig")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    process = w.start(label, "csireg-agent", "--node-name=n1", "--plugins-registry-dir", w.registry, "--kubeconfig", path,
                      *flags, expect_exit=code)
    equal(process.wait_exit(), code, f"exit code with {label}")
    output = "\n".join(process.output())
    for word in (path, *words):
        check(word in output, f"{label}: the message lacks {word!r}: {output}")


@scenario
def kubeconfigs(w):
    """Malformed kubeconfigs and those that would run programs end the agent with 1 and a message naming the file."""
    w.server()
    with open(w.api.kubeconfig, encoding="utf-8") as file:
        good = file.read()
    token = next(line for line in good.split("\n") if "token:" in line)
    indent = token[:len(token) - len(token.lstrip(" -"))].replace("-", " ")
    fails(w, "garbage", "\x00\x01 {", )
    fails(w, "truncated", good[:len(good) // 3])
    fails(w, "empty", "")
    fails(w, "list", "- 1\n- 2\n")
    fails(w, "exec", good.replace(token, f"{indent}exec:\n{indent}  command: /bin/true"), "exec")
    fails(w, "provider", good.replace(token, f"{indent}auth-provider:\n{indent}  name: gcp"), "auth-provider")
    fails(w, "context", good, "nowhere", flags=("--kubeconfig-context=nowhere",))
    missing = w.start("missing", "csireg-agent", "--node-name=n1", "--kubeconfig", w.path("none"), expect_exit=1)
    equal(missing.wait_exit(), 1, "exit code without the file")
    missing.wait_line(w.path("none"))


def edited_kubeconfig(w, label, edit):
    with open(w.api.kubeconfig, encoding="utf-8") as file:
        text = edit(file.read())
    path = w.path(label)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@scenario
def untrusted_ca(w):
    """A server whose certificate another authority signed is not talked to; drivers wait, the status says why."""
    other = w.server(name="other")
    w.things.remove(other.process)
    w.things.append(other.process)
    with open(other.kubeconfig, encoding="utf-8") as file:
        foreign = next(line for line in file if "certificate-authority-data" in line)
    w.server()
    path = edited_kubeconfig(w, "k", lambda text: "\n".join(
        foreign.rstrip("\n") if "certificate-authority-data" in line else line for line in text.split("\n")))
    good, w.api.kubeconfig = w.api.kubeconfig, path
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1")
    status = agent.wait("the API is missed", lambda s: s if s["api"]["state"] == "waiting" and s["api"].get("lastError") else None)
    check("certificate" in status["api"]["lastError"]["message"].lower(), f"message: {status['api']['lastError']}")
    equal(driver.notifications(), [], "notifications")
    equal(w.api.requests(), 0, "requests")
    os.rename(good, path)


@scenario
def wrong_token(w):
    """A wrong token: the status says unauthorized; no notification; the driver registers once it is right."""
    w.server()
    good = w.api.kubeconfig
    with open(good, encoding="utf-8") as file:
        token = next(line for line in file if "token:" in line).split("token:")[1].strip().strip('"')
    w.api.kubeconfig = edited_kubeconfig(w, "k", lambda text: text.replace(token, "wrong"))
    agent = w.agent()
    driver = w.driver("a.example.com", node_id="i-1")
    status = agent.wait("refused", lambda s: s if s["api"].get("lastError") else None)
    error = status["api"]["lastError"]
    check(error["number"] == 401 and "wrong" not in error["message"], f"error: {error}")
    equal(driver.notifications(), [], "notifications")
    w.api.auth(add=[{"token": "wrong", "user": "system:node:n1", "groups": ["system:nodes"]}])
    driver.wait_notified(True)


@scenario
def insecure_is_loud(w):
    """insecure-skip-tls-verify works, and says so loudly."""
    w.server()
    w.api.kubeconfig = edited_kubeconfig(w, "k", lambda text: "\n".join(
        line[:len(line) - len(line.lstrip(" -"))].replace("-", " ") + "insecure-skip-tls-verify: true"
        if "certificate-authority-data" in line else line for line in text.split("\n")))
    agent = w.agent()
    w.driver("a.example.com", node_id="i-1").wait_notified(True)
    agent.process.wait_line(lambda line: "warning" in line and "insecure-skip-tls-verify" in line)
