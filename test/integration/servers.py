# SPDX-License-Identifier: Apache-2.0
"""API servers to test against. `Server` is what every scenario may use; `Emulator` adds what only csireg-apiserver has.

A server for a real kube-apiserver implements `Server` alone; scenarios that need more say so (see runner.scenario).
"""
import http.client
import json
import os
import socket
import urllib.parse

from procs import PATIENCE, Process, check, equal, until

BASES = {"nodes": "/api/v1/nodes", "csinodes": "/apis/storage.k8s.io/v1/csinodes",
         "csidrivers": "/apis/storage.k8s.io/v1/csidrivers"}
MASTER = {"user": "admin", "groups": ["system:masters"]}


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Server:
    """A Kubernetes API with one Node, seen by an administrator. Subclasses implement `request` and `kubeconfig`."""
    node_name = None
    kubeconfig = None  # file for the node's identity

    def request(self, method, path, body=None, content_type="application/json"):
        """(status, object) of one request as administrator."""
        raise NotImplementedError

    def log(self):
        """The requests of others, oldest first."""
        raise NotImplementedError

    def get(self, resource, name):
        """The object, or None."""
        code, found = self.request("GET", f"{BASES[resource]}/{name}")
        check(code in (200, 404), f"GET {resource} {name}: {code} {found}")
        return found if code == 200 else None

    def put(self, resource, thing):
        """Creates or replaces."""
        name = thing["metadata"]["name"]
        if self.get(resource, name) is None:
            code, found = self.request("POST", BASES[resource], thing)
        else:
            code, found = self.request("PUT", f"{BASES[resource]}/{name}", thing)
        check(code in (200, 201), f"writing {resource} {name}: {code} {found}")
        return found

    def patch(self, resource, name, change):
        code, found = self.request("PATCH", f"{BASES[resource]}/{name}", change, "application/merge-patch+json")
        equal(code, 200, f"patching {resource} {name} ({found})")
        return found

    def delete(self, resource, name):
        code, found = self.request("DELETE", f"{BASES[resource]}/{name}")
        equal(code, 200, f"deleting {resource} {name} ({found})")

    # The two objects that this is all about.
    def node(self):
        return self.get("nodes", self.node_name)

    def csinode(self):
        return self.get("csinodes", self.node_name)

    def labels(self):
        return (self.node()["metadata"].get("labels")) or {}

    def annotation(self):
        """The Node's map of node ids, {} without one."""
        text = ((self.node()["metadata"].get("annotations")) or {}).get("csi.volume.kubernetes.io/nodeid")
        return json.loads(text) if text else {}

    def owner(self):
        """The uid of the Node that the CSINode says it belongs to, None without a CSINode."""
        found = self.csinode()
        return found["metadata"]["ownerReferences"][0]["uid"] if found else None

    def drivers(self):
        """spec.drivers by name."""
        return entries(self.csinode(), "drivers")

    def registrations(self):
        """spec.driverRegistrations as name -> node id."""
        return {name: entry["nodeID"] for name, entry in entries(self.csinode(), "driverRegistrations").items()}

    def csidriver(self, name, **spec):
        """Creates a CSIDriver object."""
        return self.put("csidrivers", {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name},
                                       "spec": spec})

    def write_csinode(self, drivers=(), registrations=(), owner_uid=None, annotations=None, **spec):
        """A CSINode as somebody left it: drivers as complete entries, registrations as (name, node id)."""
        uid = owner_uid or self.node()["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.node_name, "uid": uid}
        thing = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
                 "metadata": {"name": self.node_name, "ownerReferences": [owner]}, "spec": {"drivers": list(drivers)} | spec}
        if owner_uid == "":
            del thing["metadata"]["ownerReferences"]
        if annotations:
            thing["metadata"]["annotations"] = annotations
        if registrations:
            thing["spec"]["driverRegistrations"] = [{"name": n, "nodeID": i} for n, i in registrations]
        old = self.csinode()
        if old:
            thing["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        return self.put("csinodes", thing)

    def asked(self):
        """(method, path) of the requests on Node and CSINode; the reads come first, whichever was sent first."""
        found = [(r["method"], r["path"]) for r in self.log() if "csidrivers" not in r["path"]]
        reads = sum(1 for method, _ in found[:2] if method == "GET")
        return sorted(found[:reads]) + found[reads:]

    def wait(self, what, predicate, timeout=None):
        """Until predicate(self) is true."""
        return until(what, lambda: predicate(self), timeout)

    def close(self):
        return []


def entries(csinode, which):
    return {entry["name"]: entry for entry in ((csinode or {}).get("spec") or {}).get(which) or []}


class Emulator(Server):
    """csireg-apiserver as a process, with everything that its control socket offers."""

    def __init__(self, program, directory, node="n1", gate="on", flags=(), name="apiserver"):
        self.node_name, self.program, self.directory = node, program, directory
        self.kubeconfig = os.path.join(directory, name + ".kubeconfig")
        self.control = os.path.join(directory, name + ".ctl")
        self.process = Process(name, [program, "--listen", "127.0.0.1:0", "--control", self.control, "--node", node,
                                      "--gate", f"CSIControllerGetNodeInfo={gate}", "--kubeconfig-out", self.kubeconfig,
                                      *flags], directory)
        line = self.process.wait_line("listening ")
        self.address = line.split()[1]

    def close(self):
        return self.process.close()

    def ask(self, method, path, body=None, timeout=None):
        """(status, JSON) of the control socket."""
        connection = UnixConnection(self.control, (timeout or 0) + PATIENCE)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(text) if text.strip() else None

    def told(self, method, path, body=None):
        """The same for a command that must succeed."""
        code, found = self.ask(method, path, body)
        check(code in (200, 201, 204), f"{method} {path}: {code} {found}")
        return found

    def request(self, method, path, body=None, content_type="application/json"):
        command = {"method": method, "path": path} | MASTER
        if body is not None:
            command |= {"body": body, "contentType": content_type}
        answer = self.told("POST", "/do", command)
        return answer["code"], answer.get("body")

    # ---- faults ----

    def rule(self, action, match=None, **times):
        """Adds a fault rule; its id. times: skip, count, every."""
        return self.told("POST", "/rules", {"match": match or {}, "action": action} | times)["id"]

    def unrule(self, number):
        self.told("DELETE", f"/rules/{number}")

    def hits(self, number):
        return next(rule["hits"] for rule in self.told("GET", "/rules")["rules"] if rule["id"] == number)

    def gate(self, mode):
        self.told("POST", "/gate", {"CSIControllerGetNodeInfo": mode})

    def net(self, **how):
        self.told("POST", "/net", how)

    def auth(self, **how):
        self.told("POST", "/auth", how)

    # ---- what happened ----

    def counts(self):
        return self.told("GET", "/counts")

    def requests(self, resources=("nodes", "csinodes"), **match):
        """How many requests were made on these resources (their status included)."""
        return sum(row["count"] for row in self.counts()["requests"] if row["resource"] in resources
                   and all(row[key] == value for key, value in match.items()))

    def history(self, resource, name=None):
        """Every stored version, oldest first."""
        return self.told("GET", f"/history/{resource}/{name or self.node_name}")["versions"]

    def log(self):
        return self.told("GET", "/log")["entries"]

    def idle(self, milliseconds):
        """Waits until no API request came for that long."""
        self.wait_control(idleMs=milliseconds, timeoutMs=int(milliseconds + PATIENCE * 1000))

    def wait_control(self, **query):
        code, found = self.ask("GET", "/wait?" + urllib.parse.urlencode(query), timeout=query["timeoutMs"] / 1000)
        check(code == 200, f"the server waited in vain for {query}: {found}")
        return found

    def wait_requests(self, at_least, **match):
        return self.wait_control(atLeast=at_least, timeoutMs=int(PATIENCE * 1000), **match)
