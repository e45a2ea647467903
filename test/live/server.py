# SPDX-License-Identifier: Apache-2.0
"""A real kube-apiserver with its etcd, and the interface that scenarios use for the emulator.

`Cluster` is the pair of processes, started once. `RealServer` is what one scenario sees of it: everything of earlier
scenarios is deleted, one Node is there, and the audit log since then tells what was asked and stored.
"""
import calendar
import http.client
import json
import os
import secrets
import socket
import ssl
import subprocess
import time

from procs import PATIENCE, Process, check, until
from harness import World
from servers import BASES, Server

ADMIN = "admin"
NODES = ("n1", "n2")
TYPES = {"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH",
         "delete": "DELETE", "deletecollection": "DELETE"}
STORAGE = "/apis/storage.k8s.io/v1"
SCRATCH = (STORAGE + "/csinodes", STORAGE + "/csidrivers", STORAGE + "/volumeattachments", "/api/v1/nodes",
           "/api/v1/persistentvolumes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
           "/api/v1/namespaces/default/events")
AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  resources:
  - {group: "", resources: [nodes, nodes/status]}
  - {group: storage.k8s.io, resources: [csinodes, csinodes/status, csidrivers]}
- level: None
"""


def free_ports(number):
    """Ports of the loopback address that nobody has at this moment."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Authority:
    """A certificate authority for one run, in a directory of its own."""

    def __init__(self, directory):
        self.directory = directory
        self.config = self.path("openssl.cnf")
        with open(self.config, "w", encoding="ascii") as file:
            file.write("[req]\ndistinguished_name=dn\n[dn]\n")
        self.certificate = self._make("ca", "/CN=live", "basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign")[0]

    def path(self, name):
        return os.path.join(self.directory, name)

    def _make(self, name, subject, *extensions, signed_by=()):
        certificate, key = self.path(name + ".pem"), self.path(name + ".key")
        argv = ["openssl", "req", "-x509", "-config", self.config, "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", subject, "-keyout", key,
                "-out", certificate, *signed_by]
        for extension in extensions:
            argv += ["-addext", extension]
        done = subprocess.run(argv, capture_output=True, check=False)
        check(done.returncode == 0, f"openssl: {done.stderr.decode()}")
        return certificate, key

    def issue(self, name, subject, *extensions):
        """(certificate, key) files."""
        return self._make(name, subject, "basicConstraints=critical,CA:FALSE", *extensions,
                          signed_by=("-CA", self.certificate, "-CAkey", self.path("ca.key")))


class GoProcess(Process):
    """A program that takes signals from its first moment on, and whose exit code after SIGTERM is its own affair."""

    def __init__(self, name, argv, directory):
        super().__init__(name, argv, directory, expect_exit=None)

    def _takes_signals(self):
        return True


class Cluster:
    """etcd and kube-apiserver on the loopback address, with files under `directory`. close() ends both."""

    def __init__(self, programs, directory):
        begin = time.monotonic()
        self.programs, self.directory, self.processes, self.extra = programs, directory, [], []
        self.authority = Authority(directory)
        self.tokens = {name: secrets.token_hex(16) for name in (ADMIN, *NODES)}
        try:
            self._start_etcd()
            self._prepare_apiserver()
            self.start_apiserver()
        except BaseException:
            self.close()
            raise
        self.seconds = time.monotonic() - begin

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def _process(self, name, *flags):
        process = GoProcess(name, [os.path.join(self.programs, name), *flags], self.directory)
        self.processes.append(process)
        return process

    def _start_etcd(self):
        client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        self.etcd_url = client
        self.etcd = self._process(
            "etcd", "--name=live", f"--data-dir={self.path('etcd.data')}", f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=live={peer}", "--unsafe-no-fsync", "--log-level=warn")

    def _prepare_apiserver(self):
        """Certificates, tokens and the audit policy; self.flags for every start of it."""
        certificate, key = self.authority.issue("server", "/CN=kube-apiserver",
                                                "subjectAltName=DNS:localhost,IP:127.0.0.1")
        accounts, accounts_key = self.authority.issue("accounts", "/CN=accounts")
        users = [f'{self.tokens[ADMIN]},{ADMIN},1,"system:masters"']
        users += [f'{self.tokens[name]},system:node:{name},{name},"system:nodes"' for name in NODES]
        self.port, self.audit = free_ports(1)[0], self.path("audit.log")
        self.tls = ssl.create_default_context(cafile=self.authority.certificate)
        self.flags = [
            f"--etcd-servers={self.etcd_url}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", f"--cert-dir={self.path('certs')}",
            f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}",
            f"--client-ca-file={self.authority.certificate}",
            f"--token-auth-file={self.write('tokens.csv', chr(10).join(users))}",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://live.test", f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts_key}", "--service-cluster-ip-range=10.0.0.0/24",
            "--profiling=false", f"--audit-policy-file={self.write('audit.yaml', AUDIT)}",
            f"--audit-log-path={self.audit}", "--audit-log-mode=blocking"]

    def start_apiserver(self, *flags):
        """Starts it (again), at the same address; further flags replace those of an earlier start."""
        self.extra = list(flags) or self.extra
        self.apiserver = self._process("kube-apiserver", *self.flags, *self.extra)
        self._wait_ready()

    def stop_apiserver(self, crash=False):
        """An orderly end waits for watches that clients keep open, a minute if need be; a crash does not."""
        if crash:
            self.apiserver.kill()
        wrong = self.apiserver.close()
        self.processes.remove(self.apiserver)
        check(not wrong, "\n".join(wrong))

    def _wait_ready(self):
        def probe():
            for process in self.processes:
                check(process.running(), f"{process.name} ended: " + "\n".join(process.output()[-5:]))
            try:
                return self.send("GET", "/readyz")[0] == 200
            except OSError:
                return False
        until("kube-apiserver is ready", probe, pause=0.05)

    def send(self, method, path, body=None, headers=(), token=None):
        """(code, headers, bytes) of one request; as administrator unless another token is given."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=self.tls)
        try:
            authorization = {"Authorization": f"Bearer {token or self.tokens[ADMIN]}"}
            connection.request(method, path, body, authorization | dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def request(self, method, path, body=None, content_type="application/json"):
        """(code, object) as administrator."""
        data = None if body is None else json.dumps(body)
        code, headers, text = self.send(method, path, data, {"Content-Type": content_type} if data else ())
        return code, json.loads(text) if headers.get_content_type() == "application/json" else text.decode()

    def clear(self):
        """Deletes what scenarios make."""
        for path in SCRATCH:
            code, found = self.request("DELETE", path)
            check(code == 200, f"DELETE {path}: {code} {found}")

    def kubeconfig(self, path, user):
        """Writes a kubeconfig with these lines for the user."""
        lines = ["apiVersion: v1", "kind: Config", "clusters:", "- name: live", "  cluster:",
                 f"    server: https://127.0.0.1:{self.port}",
                 f"    certificate-authority: {self.authority.certificate}",
                 "users:", "- name: user", "  user:"] + ["    " + line for line in user]
        lines += ["contexts:", "- name: live", "  context: {cluster: live, user: user}", "current-context: live"]
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def memory(self):
        """Resident MiB of both, by name."""
        found = {}
        for process in self.processes:
            with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
                found[process.name] = next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmRSS"))
        return found

    def close(self):
        """What was wrong with how they ended; the API server first, it wants its storage."""
        return [fault for process in reversed(self.processes) for fault in process.close()]


class RealServer(Server):
    """The cluster, emptied, with one Node. `gate` is taken and ignored: a released server does not know the field."""

    def __init__(self, cluster, directory, node="n1", gate=None):  # pylint: disable=unused-argument
        self.cluster, self.node_name = cluster, node
        self.address, self.tries = f"127.0.0.1:{cluster.port}", 0
        cluster.clear()
        self.start = os.path.getsize(cluster.audit)
        thing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
        code, found = self.request("POST", BASES["nodes"], thing)
        check(code == 201, f"making the Node: {code} {found}")
        self.kubeconfig = cluster.kubeconfig(os.path.join(directory, "apiserver.kubeconfig"),
                                             [f"token: {cluster.tokens[node]}"])

    def request(self, method, path, body=None, content_type="application/json"):
        return self.cluster.request(method, path, body, content_type)

    def use_certificate(self, directory):
        """The node's identity from a client certificate instead of a token."""
        name = f"{self.node_name}-client"
        certificate, key = self.cluster.authority.issue(name, f"/O=system:nodes/CN=system:node:{self.node_name}")
        path = os.path.join(directory, "certificate.kubeconfig")
        self.kubeconfig = self.cluster.kubeconfig(path, [f"client-certificate: {certificate}", f"client-key: {key}"])

    # ---- what happened ----

    def _audited(self):
        """The audit events since the start, up to one that we cause now."""
        self.tries += 1
        marker = f"{BASES['csinodes']}/marker-{id(self):x}-{self.tries}"
        self.request("GET", marker)

        def probe():
            with open(self.cluster.audit, "rb") as file:
                file.seek(self.start)
                events = [json.loads(line) for line in file.read().split(b"\n")[:-1]]
            here = next((i for i, event in enumerate(events) if event["requestURI"] == marker), None)
            return None if here is None else ([e for e in events[:here] if "/marker-" not in e["requestURI"]],)
        return until("the audit log is written", probe)[0]

    def log(self):
        """Requests of node identities, oldest first, a watch at its end; the server asks itself things too."""
        events = {e["auditID"]: e for e in self._audited() if e["user"]["username"].startswith("system:node:")}
        return [row(event) for event in sorted(events.values(), key=lambda e: e["requestReceivedTimestamp"])]

    def requests(self, resources=("nodes", "csinodes"), **match):
        return sum(1 for r in self.log() if r["resource"] in resources and all(r[k] == v for k, v in match.items()))

    def counts(self):
        return {"requests": [r | {"count": 1} for r in self.log()]}

    def history(self, resource, name=None):
        """Every version that a write was answered with, oldest first; a write that changed nothing makes none."""
        versions = {}
        for event in self._audited():
            ref, thing = event["objectRef"], event.get("responseObject") or {}
            written = event["verb"] in ("create", "update", "patch") and event["responseStatus"]["code"] in (200, 201)
            if written and ref["resource"] == resource and thing["metadata"]["name"] == (name or self.node_name):
                versions.setdefault(int(thing["metadata"]["resourceVersion"]),
                                    {"object": thing, "ns": nanoseconds(event["stageTimestamp"]),
                                     "user": event["user"]["username"], "verb": event["verb"]})
        return [versions[number] for number in sorted(versions)]

    def idle(self, milliseconds):
        """Waits until no request of others came for that long."""
        def probe():
            before = len(self.log())
            time.sleep(milliseconds / 1000)
            return len(self.log()) == before
        until(f"no request came for {milliseconds} ms", probe)


def row(event):
    """An audit event in the words of the emulator's log. The audit log does not have content types."""
    ref = event["objectRef"]
    return {"method": TYPES[event["verb"]], "verb": event["verb"], "path": event["requestURI"].split("?")[0],
            "resource": ref["resource"], "subresource": ref.get("subresource", ""), "user": event["user"]["username"],
            "code": event["responseStatus"].get("code", 0), "body": json.dumps(event.get("requestObject")),
            "startNs": nanoseconds(event["requestReceivedTimestamp"]), "endNs": nanoseconds(event["stageTimestamp"])}


def nanoseconds(stamp):
    """An RFC 3339 time with six digits."""
    seconds, fraction = stamp.rstrip("Z").split(".")
    return calendar.timegm(time.strptime(seconds, "%Y-%m-%dT%H:%M:%S")) * 1_000_000_000 + int(fraction) * 1000


class RealWorld(World):
    """A scenario's world with the real server in it. One at a time: they share the cluster."""
    cluster = None

    def server(self, **how):
        self.api = RealServer(self.cluster, self.directory, **how)
        return self.api
