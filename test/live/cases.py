# SPDX-License-Identifier: Apache-2.0
"""The requests that both servers must answer alike: what csireg sends, what it could send, and what others do to it."""
import json

from conformance import JSON
from procs import check

STORAGE = "/apis/storage.k8s.io/v1"
CSINODES, CSIDRIVERS, ATTACHMENTS = STORAGE + "/csinodes", STORAGE + "/csidrivers", STORAGE + "/volumeattachments"
NODES, VOLUMES, EVENTS = "/api/v1/nodes", "/api/v1/persistentvolumes", "/api/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
OPERATIONS, APPLY = "application/json-patch+json", "application/apply-patch+yaml"
N1, C1 = NODES + "/n1", CSINODES + "/n1"
FAR_UID = "11111111-1111-4111-8111-111111111111"
GROUPS = []


class Group:
    """Requests on one matter. `lacks(emulator)`: whether the emulator does not have it yet; its requests are skipped then."""

    def __init__(self, function, lacks):
        self.function, self.lacks, self.name = function, lacks, function.__name__


def group(function=None, *, lacks=lambda side: False):
    def mark(f):
        GROUPS.append(Group(f, lacks))
        return f
    return mark(function) if function else mark


def no_resource(collection):
    return lambda side: side.send("GET", collection)[0] == 404


def no_json_patch(side):
    return side.send("PATCH", C1, b"[]", {"Content-Type": OPERATIONS})[0] == 415


def no_label_selectors(side):
    return side.send("GET", CSINODES + "?labelSelector=x")[0] == 400


def no_pages(side):
    return b'"continue"' not in side.send("GET", NODES + "?limit=1")[2]


def no_finalizers(side):
    wrong = json.dumps(csinode(name="probe", metadata={"finalizers": ["unqualified"]}))
    code = side.send("POST", CSINODES + "?dryRun=All", wrong, {"Content-Type": JSON})[0]
    return code == 201


def entry(name="a.example.com", node_id="i-1", keys=(), count=None, **more):
    found = {"name": name, "nodeID": node_id, "topologyKeys": list(keys)} | more
    return found if count is None else found | {"allocatable": {"count": count}}


def csinode(*drivers, name="n1", metadata=None, **spec):
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name} | (metadata or {}),
            "spec": {"drivers": list(drivers)} | spec}


def with_version(thing, path=C1):
    """The thing with the version that is stored."""
    def of(side):
        metadata = thing["metadata"] | {"resourceVersion": side.version(path)}
        return thing | {"metadata": metadata}
    return of


def node(name="n1", **metadata):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name} | metadata}


def csidriver(name="a.example.com", **spec):
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}


def attachment(name="va-1", volume="pv-1", node_name="n1", **source):
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {"attacher": "a.example.com", "nodeName": node_name, "source": source or {"persistentVolumeName": volume}}}


def lease(name="n1", **spec):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40} | spec}


def event(name="e1", **more):
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}, "type": "Normal",
            "reason": "CSINodeInfoUpdated", "message": "m", "involvedObject": {"kind": "CSINode", "name": "n1"}} | more


@group
def node_writes(c):
    """What a node does to its own Node, and what the administrator prepares."""
    c.ask("POST", NODES, node())
    c.ask("POST", NODES, node())
    c.ask("POST", NODES, node("n2", labels={"x": "y"}))
    c.ask("GET", N1, user="n1")
    c.ask("GET", NODES + "/n3")
    c.ask("POST", NODES, node("Bad_Name"))
    c.ask("POST", NODES, node("n3", labels={"bad key": "v", "x/y": "-bad-"}, annotations={"/": ""}))
    c.ask("POST", NODES, node("n3", resourceVersion="5"))
    c.ask("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {}})
    annotation = {"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": '{"a.example.com":"i-1"}'},
                               "labels": {"topology.kubernetes.io/zone": "z1"}}}
    c.ask("PATCH", N1 + "/status", annotation, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", annotation, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", lambda s: {"metadata": {"resourceVersion": s.version(N1), "labels": {"a/b": "c"}}},
          STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"resourceVersion": "1", "labels": {"a/b": "d"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"resourceVersion": "1", "labels": {"a/b": "c"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {"a/b": "-no-"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"annotations": {"csi.volume.kubernetes.io/nodeid": None}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"annotations": {"big/one": "x" * (256 * 1024)}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"uid": FAR_UID}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"name": "n2"}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"spec": {"unschedulable": True}}, STRATEGIC, "n1")
    c.ask("PATCH", N1, {"status": {"nodeInfo": {"kernelVersion": "x"}}}, MERGE)
    c.ask("PATCH", NODES + "/n3", annotation, STRATEGIC)
    c.ask("PATCH", N1, {"metadata": {"labels": {"a/b": None}}}, MERGE, "n1")
    c.ask("PUT", N1, lambda s: s.get(N1) | {"metadata": {"name": "n1", "labels": {"put": "1"}}})


@group
def node_restriction(c):
    """Labels and objects that a node may not touch."""
    for key in ("x.node-restriction.kubernetes.io/y", "node-restriction.kubernetes.io/y", "foo.kubernetes.io/y", "k8s.io/y",
                "x.k8s.io/y", "node-role.kubernetes.io/x"):
        c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {key: "1"}}}, STRATEGIC, "n1")
    for key in ("kubernetes.io/hostname", "topology.kubernetes.io/region", "kubelet.kubernetes.io/y", "x.node.kubernetes.io/y",
                "node.kubernetes.io/instance-type", "failure-domain.beta.kubernetes.io/zone", "kubernetes.io/arch",
                "beta.kubernetes.io/os", "csi.example.com/y"):
        c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {key: "1"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {"b.k8s.io/y": "1", "a.k8s.io/y": "1"}}}, STRATEGIC, "n1")
    c.prepare("PATCH", N1, {"metadata": {"labels": {"foo.kubernetes.io/y": "1"}}}, MERGE)
    c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {"foo.kubernetes.io/y": "1", "fine": "1"}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1 + "/status", {"metadata": {"labels": {"foo.kubernetes.io/y": None}}}, STRATEGIC, "n1")
    c.ask("PATCH", N1, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, MERGE, "n1")
    c.ask("PATCH", N1, {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": FAR_UID}]}},
          MERGE, "n1")
    c.ask("PATCH", NODES + "/n2/status", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC, "n1")
    c.ask("DELETE", N1, user="n1")
    c.ask("GET", NODES + "/n2", user="n1")
    c.ask("GET", NODES, user="n1")
    c.ask("GET", NODES + "?fieldSelector=metadata.name%3Dn1", user="n1")
    c.ask("GET", NODES + "?fieldSelector=metadata.name%3Dn2", user="n1")
    c.ask("POST", NODES, node("n9"), user="n1")


@group
def csinode_creation(c):
    """POST of a CSINode: what is refused, filled in and dropped."""
    owner = [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": lambda s: s.uid(N1)}]
    c.ask("GET", C1, user="n1")
    c.ask("DELETE", C1, user="n1")
    c.ask("PUT", C1, csinode(), user="n1")
    c.ask("PATCH", C1, {"spec": {"drivers": []}}, MERGE, "n1")
    for wrong in WRONG_ENTRIES:
        c.ask("POST", CSINODES, csinode(*wrong), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(metadata={"resourceVersion": "7"}), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(metadata={"labels": {"a b": "c"}}), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "", "uid": ""}]}),
          user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(metadata={"namespace": "default"}), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(name="n2"), user="n1", stored=CSINODES + "/n2")
    c.ask("POST", CSINODES, csinode(name="Bad_Name"), stored=C1)
    c.ask("POST", CSINODES, {"kind": "CSINode", "apiVersion": "storage.k8s.io/v1"}, user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(entry(), metadata={"ownerReferences": owner}) | {"status": {"storageHealth": []}},
          user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(entry()), user="n1", stored=C1)
    c.ask("GET", C1, user="n1")
    c.prepare("DELETE", C1)
    for spec in ({}, {"drivers": None}, {"drivers": [{"name": "a.example.com", "nodeID": "i", "topologyKeys": None}]},
                 {"drivers": [{"name": "A.example.com", "nodeID": "i", "allocatable": {}}]}):
        c.ask("POST", CSINODES, csinode() | {"spec": spec}, user="n1", stored=C1)
        c.prepare("DELETE", C1)
    c.ask("POST", CSINODES + "?dryRun=All", csinode(entry()), user="n1", stored=C1)
    c.ask("POST", CSINODES + "?dryRun=Some", csinode(entry()), user="n1", stored=C1)
    c.ask("POST", CSINODES, csinode(*(entry(f"d{i}.example.com") for i in range(40))), user="n1", stored=C1)
    c.prepare("DELETE", C1)


WRONG_ENTRIES = [[entry("")], [entry("x" * 64)], [entry("-bad-")], [entry("a_b")], [entry(node_id="")],
                 [entry(node_id="i" * 257)], [entry(count=-1)], [entry(), entry()], [entry(keys=[""])],
                 [entry(keys=["a/b", "a/b"])], [entry(keys=["a b"])], [entry(keys=["x" * 64])],
                 [entry("", "", [""], -1), entry("ok.example.com"), entry("a/b", "")]]


@group
def csinode_updates(c):
    """PUT of a CSINode: versions, uids, immutable parts, no-ops."""
    c.prepare("POST", CSINODES, csinode(entry(keys=["b/x", "a/x"], count=3), entry("b.example.com")))
    c.ask("PUT", C1, csinode(entry(keys=["b/x", "a/x"], count=3)), user="n1")
    c.ask("PUT", C1, csinode(metadata={"resourceVersion": "1"}), user="n1")
    c.ask("PUT", C1, csinode(metadata={"resourceVersion": "x"}), user="n1")
    c.ask("PUT", C1, csinode(metadata={"resourceVersion": "99999999"}), user="n1")
    c.ask("PUT", C1, csinode(metadata={"uid": FAR_UID, "resourceVersion": lambda s: s.version(C1)}), user="n1")
    c.ask("PUT", C1, lambda s: s.get(C1), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry(keys=["b/x", "a/x"], count=9), entry("b.example.com"))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("b.example.com"), entry(keys=["b/x", "a/x"]))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry(keys=["a/x", "b/x"]))), user="n1",
          known={"message": GO_NAMES, "details": GO_NAMES})
    c.ask("PUT", C1, with_version(csinode(entry(node_id="i-2", keys=["b/x", "a/x"]))), user="n1",
          known={"message": GO_NAMES, "details": GO_NAMES})
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3", count=2147483647))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3", count=2147483648))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3", count="3"))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3"), entry("", "x" * 300))), user="n1")
    c.ask("PUT", C1, with_version(csinode(entry("c.example.com", "i-3"), metadata={"labels": {"l": "1"}})), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"status": {"storageHealth": []}}), user="n1")
    c.ask("PUT", C1, with_version(csinode(name="n2")), user="n1")
    c.ask("PUT", CSINODES + "/n2", csinode(name="n2"), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"kind": "CSIDriver"}), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"apiVersion": "v1"}), user="n1")
    c.ask("PUT", C1, with_version(csinode() | {"apiVersion": "storage.k8s.io/v1beta1"}), user="n1")
    for body in (b"{", b"", b"[]", b'"x"', b"null", b'{"kind":"CSINode","apiVersion":"storage.k8s.io/v1","spec":{"drivers":{}}}'):
        c.ask("PUT", C1, body, user="n1")
    c.ask("PUT", C1, b"x", "text/plain", "n1")
    c.ask("PUT", C1, with_version(csinode()), "", "n1")
    c.ask("PUT", C1 + "?dryRun=All", with_version(csinode(entry("dry.example.com"))), user="n1")
    c.ask("PUT", C1, b'{"metadata":{"annotations":{"x":"' + b"y" * 3_200_000 + b'"}}}', user="n1")
    c.ask("PUT", C1 + "/status", with_version(csinode()), user="n1")
    c.ask("PUT", C1 + "/status", with_version(csinode()))
    c.prepare("DELETE", C1)


GO_NAMES = "the real server prints the value with Go's field names; the emulator may print JSON's"


@group
def unknown_fields(c):
    """The three validation modes, and a field that this server does not know yet."""
    c.prepare("POST", CSINODES, csinode(entry()))
    extra = csinode(entry(foo=1), driverRegistrations=[{"name": "a.example.com", "nodeID": "i-1"}]) | {"bar": {"x": 1}}
    twice = json.dumps(csinode(entry())).replace('"drivers":', '"drivers": [], "drivers":')
    for mode in ("", "?fieldValidation=Ignore", "?fieldValidation=Warn", "?fieldValidation=Strict", "?fieldValidation=Other"):
        c.ask("PUT", C1 + mode, with_version(extra), user="n1")
        c.ask("PUT", C1 + mode, lambda s: twice.replace('"name": "n1"', f'"name": "n1", "resourceVersion": "{s.version(C1)}"'),
              user="n1")
        c.ask("POST", CSINODES + mode, extra | {"metadata": {"name": "n2", "FOO": 1}}, stored=CSINODES + "/n2")
        for kind in (MERGE, STRATEGIC):
            c.ask("PATCH", C1 + mode, {"spec": {"driverRegistrations": [{"name": "a", "nodeID": "b"}]}, "Kind": "x"}, kind, "n1")
        c.ask("PATCH", N1 + "/status" + mode, {"metadata": {"labels": {"v": "w"}, "foo": 1}}, STRATEGIC, "n1")
    for side in c.sides:
        side.send("DELETE", CSINODES + "/n2")
    c.prepare("DELETE", C1)


@group
def patches(c):
    """Each patch type."""
    c.prepare("POST", CSINODES, csinode(entry(keys=["a/x"], count=3), entry("b.example.com"),
                                        metadata={"annotations": {"keep": "me"}}))
    drivers = lambda *entries: {"spec": {"drivers": list(entries)}}
    c.ask("PATCH", C1, drivers(entry("c.example.com")), STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"name": "a.example.com", "allocatable": {"count": 5}}), STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"name": "a.example.com", "allocatable": None}), STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"$patch": "delete", "name": "c.example.com"}), STRATEGIC, "n1")
    c.ask("PATCH", C1, {"spec": {"$setElementOrder/drivers": [{"name": "b.example.com"}, {"name": "a.example.com"}]}},
          STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"nodeID": "x"}), STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"$patch": "bogus", "name": "c.example.com"}), STRATEGIC, "n1")
    c.ask("PATCH", C1, drivers({"$patch": "replace"}, entry("b.example.com")), STRATEGIC, "n1")
    c.ask("PATCH", C1, {"metadata": {"annotations": {"new": "1", "keep": None}}}, MERGE, "n1")
    c.ask("PATCH", C1, drivers(entry("d.example.com")), MERGE, "n1")
    c.ask("PATCH", C1, drivers(entry("d.example.com", "other")), MERGE, "n1",
          known={"message": GO_NAMES, "details": GO_NAMES})
    c.ask("PATCH", C1, {}, MERGE, "n1")
    c.ask("PATCH", C1, lambda s: {"metadata": {"resourceVersion": s.version(C1)}} | drivers(entry("e.example.com")), MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"resourceVersion": "1"}} | drivers(), MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"uid": FAR_UID}}, MERGE, "n1")
    c.ask("PATCH", C1, {"metadata": {"name": "n2"}}, MERGE, "n1")
    c.ask("PATCH", C1, {"spec": {"drivers": "x"}}, MERGE, "n1")
    c.ask("PATCH", C1, {"spec": {"drivers": [{"name": 5}]}}, MERGE, "n1")
    c.ask("PATCH", C1, {"spec": None}, MERGE, "n1")
    c.ask("PATCH", C1, b"{", MERGE, "n1")
    c.ask("PATCH", C1, b"[]", MERGE, "n1")
    c.ask("PATCH", C1, b"{", STRATEGIC, "n1")
    c.ask("PATCH", C1, b"", MERGE, "n1")
    c.ask("PATCH", C1, {}, JSON, "n1")
    c.ask("PATCH", C1, {}, "", "n1")
    c.ask("PATCH", C1, {}, MERGE + "; charset=utf-8", "n1")
    c.ask("PATCH", C1, {}, "text/plain", "n1")
    c.ask("PATCH", C1, {"metadata": {"annotations": {"dry": "1"}}}, MERGE, "n1")
    c.ask("PATCH", C1 + "?dryRun=Bogus", {"metadata": {"annotations": {"dry": "2"}}}, MERGE, "n1")
    c.ask("PATCH", CSINODES + "/n2", drivers(), MERGE, "n1")
    c.ask("PATCH", CSINODES + "/n2", drivers(), MERGE)
    c.prepare("DELETE", C1)


@group(lacks=no_json_patch)
def json_patches(c):
    """RFC 6902."""
    c.prepare("POST", CSINODES, csinode(metadata={"annotations": {"new": "1"}}))
    operation = lambda op, path, **more: [{"op": op, "path": path} | more]
    c.ask("PATCH", C1, operation("add", "/spec/drivers", value=[entry()]), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("add", "/spec/drivers/-", value=entry("f.example.com")), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("test", "/spec/drivers/0/name", value="a.example.com") +
          operation("replace", "/spec/drivers/0/allocatable", value={"count": 4}), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("add", "/spec/drivers/0/allocatable", value={"count": 4}), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("copy", "/metadata/annotations/copied", **{"from": "/metadata/annotations/new"}), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("move", "/metadata/annotations/moved", **{"from": "/metadata/annotations/copied"}), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("test", "/spec/drivers/0/name", value="other"), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("remove", "/spec/nothing"), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("bogus", "/spec"), OPERATIONS, "n1")
    c.ask("PATCH", C1, operation("remove", "/spec/drivers/1"), OPERATIONS, "n1")
    c.ask("PATCH", C1, {"not": "a list"}, OPERATIONS, "n1")
    for mode in ("", "?fieldValidation=Ignore", "?fieldValidation=Warn", "?fieldValidation=Strict"):
        c.ask("PATCH", C1 + mode, operation("add", "/spec/foo", value=1), OPERATIONS, "n1")
    c.prepare("DELETE", C1)


@group
def deletes(c):
    """Preconditions, finalizers, what a DELETE answers."""
    def preconditions(**wanted):
        return {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted}
    c.prepare("POST", CSINODES, csinode(entry()))
    c.ask("DELETE", C1, preconditions(uid=FAR_UID), user="n1")
    c.ask("DELETE", C1, preconditions(resourceVersion="1"), user="n1")
    c.ask("DELETE", C1, preconditions(uid=lambda s: s.uid(C1), resourceVersion="1"), user="n1")
    c.ask("DELETE", C1, preconditions(uid=lambda s: s.uid(C1), resourceVersion=lambda s: s.version(C1)), user="n1")
    c.ask("DELETE", C1, preconditions(uid=FAR_UID), user="n1")
    c.prepare("POST", CSINODES, csinode(entry()))
    c.ask("DELETE", C1, b"{", user="n1")
    c.ask("DELETE", CSINODES + "/n2", user="n1")
    c.ask("DELETE", C1 + "?dryRun=All", user="n1")
    c.ask("DELETE", C1, user="n1")
    c.ask("DELETE", C1)
    c.prepare("POST", NODES, node("n8"))
    c.ask("DELETE", NODES + "/n8")


@group(lacks=no_finalizers)
def finalizers(c):
    """Objects that are not gone at once."""
    c.ask("POST", CSINODES, csinode(metadata={"finalizers": ["noprefix"]}), user="n1", stored=C1)
    c.prepare("POST", CSINODES, csinode(entry(), metadata={"finalizers": ["example.com/a"]}))
    c.ask("DELETE", C1, user="n1")
    c.ask("DELETE", C1, user="n1")
    c.ask("PATCH", C1, {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}, MERGE)
    c.ask("PATCH", C1, {"metadata": {"deletionTimestamp": None}}, MERGE)
    c.ask("PATCH", C1, {"metadata": {"finalizers": []}}, MERGE)
    c.prepare("POST", CSINODES, csinode())
    c.ask("PATCH", C1, {"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}, STRATEGIC)
    c.ask("PATCH", C1, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, STRATEGIC)
    c.ask("PATCH", C1, {"metadata": {"finalizers": None}}, MERGE)
    c.prepare("DELETE", C1)


@group
def csidrivers(c):
    """CSIDriver: defaults, immutable parts, the refresh period."""
    path = CSIDRIVERS + "/a.example.com"
    c.ask("POST", CSIDRIVERS, csidriver(), stored=path)
    c.ask("GET", path, user="n1")
    c.ask("PATCH", path, {"spec": {"nodeAllocatableUpdatePeriodSeconds": 9}}, MERGE)
    c.ask("PATCH", path, {"spec": {"nodeAllocatableUpdatePeriodSeconds": 10}}, MERGE)
    c.ask("PATCH", path, {"spec": {"nodeAllocatableUpdatePeriodSeconds": None}}, MERGE)
    c.ask("PATCH", path, {"spec": {"attachRequired": False}}, MERGE)
    c.ask("PATCH", path, {"spec": {"volumeLifecycleModes": ["Ephemeral"]}}, MERGE)
    c.ask("PATCH", path, {"spec": {"podInfoOnMount": True}}, MERGE)
    c.ask("PUT", path, csidriver())
    c.ask("POST", CSIDRIVERS, csidriver("b.example.com", attachRequired=False, volumeLifecycleModes=["Persistent", "Ephemeral"],
                                        fsGroupPolicy="None", nodeAllocatableUpdatePeriodSeconds=60),
          stored=CSIDRIVERS + "/b.example.com")
    c.ask("POST", CSIDRIVERS, csidriver("c.example.com", nodeAllocatableUpdatePeriodSeconds=1), stored=CSIDRIVERS + "/c.example.com")
    c.ask("POST", CSIDRIVERS, csidriver("Bad_Name"), stored=path)
    c.ask("POST", CSIDRIVERS, csidriver("d.example.com"), user="n1", stored=CSIDRIVERS + "/d.example.com")
    c.ask("PATCH", path, {"spec": {"podInfoOnMount": False}}, MERGE, "n1")
    c.ask("GET", CSIDRIVERS, user="n1")
    c.ask("GET", CSIDRIVERS + "/none", user="n1")
    c.ask("DELETE", path)
    c.prepare("DELETE", CSIDRIVERS + "/b.example.com")


@group(lacks=no_resource(ATTACHMENTS))
def attachments(c):
    """VolumeAttachment and the volume it names, as a node sees them."""
    path = ATTACHMENTS + "/va-1"
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
              "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                       "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem",
                       "csi": {"driver": "a.example.com", "volumeHandle": "vol-1"}}}
    c.prepare("POST", VOLUMES, volume)
    c.ask("GET", path, user="n1")
    c.ask("POST", ATTACHMENTS, attachment() | {"status": {"attached": True}}, stored=path)
    c.ask("POST", ATTACHMENTS, attachment("va-2", node_name="n2"), stored=ATTACHMENTS + "/va-2")
    c.ask("POST", ATTACHMENTS, attachment("va-3", persistentVolumeName="p", inlineVolumeSpec=volume["spec"]), stored=ATTACHMENTS + "/va-3")
    c.ask("POST", ATTACHMENTS, {**attachment("va-3"), "spec": {"attacher": "", "nodeName": "", "source": {}}}, stored=ATTACHMENTS + "/va-3")
    c.ask("GET", ATTACHMENTS + "/va-2", user="n1")
    c.ask("GET", ATTACHMENTS, user="n1")
    c.ask("PATCH", path, {"spec": {"nodeName": "n2"}}, MERGE)
    c.ask("PATCH", path, {"status": {"attached": True}}, MERGE)
    error = {"time": "2026-01-01T00:00:00Z", "message": "full", "errorCode": 8}
    c.ask("PATCH", path + "/status", {"status": {"attached": False, "attachError": error}, "spec": {"nodeName": "n9"}}, MERGE)
    c.ask("PATCH", path + "/status", {"status": {"attachError": error | {"errorCode": -1}}}, MERGE)
    c.ask("PATCH", path + "/status", {"status": {"attachError": error | {"message": "x" * 1025}}}, MERGE)
    c.ask("GET", path + "/status")
    c.ask("PUT", path, attachment())
    c.ask("GET", ATTACHMENTS + "?fieldSelector=spec.nodeName%3Dn1")
    for name in ("va-1", "va-2"):
        c.ask("DELETE", f"{ATTACHMENTS}/{name}")
    c.ask("GET", VOLUMES + "/pv-1", user="n2")
    for side in c.sides:  # the real server protects volumes with a finalizer that nobody removes here
        side.send("DELETE", VOLUMES + "/pv-1")
        side.send("PATCH", VOLUMES + "/pv-1", json.dumps({"metadata": {"finalizers": None}}), {"Content-Type": MERGE})


@group(lacks=no_resource(LEASES))
def leases(c):
    """Leases of nodes."""
    path = LEASES + "/n1"
    c.ask("GET", path, user="n1")
    c.ask("POST", LEASES, lease(), user="n1", stored=path)
    c.ask("POST", LEASES, lease("n2"), user="n1", stored=LEASES + "/n2")
    c.ask("PUT", path, lease(), user="n1")
    c.ask("PUT", path, with_version(lease(renewTime="2026-01-01T00:00:00.123456Z"), path), user="n1")
    c.ask("PUT", path, with_version(lease(leaseDurationSeconds=0, leaseTransitions=-1), path), user="n1")
    c.ask("PUT", LEASES + "/n3", lease("n3"))
    c.ask("GET", path.replace("kube-node-lease", "default"), user="n1")
    c.ask("GET", LEASES, user="n1")
    c.ask("DELETE", path, user="n1")
    c.ask("DELETE", LEASES + "/n3")
    c.ask("POST", LEASES.replace("kube-node-lease", "nowhere"), lease() | {"metadata": {"name": "n1"}}, stored=path)
    c.ask("POST", LEASES, lease() | {"metadata": {"name": "n1", "namespace": "default"}}, stored=path)


@group(lacks=no_resource(EVENTS))
def events(c):
    """Events, as the controller side makes them."""
    c.ask("POST", EVENTS, event(), stored=EVENTS + "/e1")
    c.ask("POST", EVENTS, event(), stored=EVENTS + "/e1")
    c.ask("POST", EVENTS, event("e2"), user="n1", stored=EVENTS + "/e2")
    c.ask("POST", EVENTS, event("e3", involvedObject={"kind": "Pod", "namespace": "other"}), stored=EVENTS + "/e3")
    c.ask("PATCH", EVENTS + "/e1", {"count": 2}, MERGE, "n1")
    c.ask("GET", EVENTS, user="n1")
    c.ask("GET", EVENTS + "?fieldSelector=involvedObject.kind%3DCSINode%2Creason%3DOther")
    c.ask("DELETE", EVENTS + "/e1")
    c.prepare("DELETE", EVENTS + "/e2")


@group
def identities(c):
    """Who may not, and how that is said."""
    c.prepare("POST", CSINODES, csinode(entry()))
    c.prepare("POST", CSINODES, csinode(name="n2"))
    for user in (None, "no-such-token"):
        c.ask("GET", C1, user=user)
        c.ask("GET", CSINODES, user=user)
        c.ask("PATCH", N1 + "/status", {}, STRATEGIC, user)
        c.ask("POST", CSINODES, csinode(), user=user, stored=C1)
    for method, body in (("GET", None), ("PUT", csinode(name="n2")), ("DELETE", None)):
        c.ask(method, CSINODES + "/n2", body, user="n1")
    c.ask("GET", CSINODES, user="n1")
    c.ask("GET", CSINODES + "?watch=1&timeoutSeconds=1", user="n1")
    c.ask("GET", CSINODES + "?fieldSelector=metadata.name%3Dn1", user="n1")
    c.ask("GET", C1 + "/status", user="n1")
    c.ask("PATCH", C1 + "/status", {"status": {}}, MERGE, "n1")
    c.ask("GET", CSIDRIVERS, user="n1")
    c.ask("GET", VOLUMES + "/pv-1", user="n1")
    c.ask("GET", VOLUMES, user="n1")
    c.ask("GET", "/readyz", user=None)
    c.ask("GET", "/healthz", user=None)
    c.ask("GET", "/livez", user=None)
    c.prepare("DELETE", C1)
    c.prepare("DELETE", CSINODES + "/n2")


@group
def paths_and_headers(c):
    """Unknown paths, methods, what is acceptable."""
    c.ask("GET", STORAGE + "/foos")
    c.ask("GET", STORAGE + "/foos/x")
    c.ask("GET", "/apis/storage.k8s.io/v9/csinodes")
    c.ask("GET", "/apis/none.example.com/v1/x")
    c.ask("GET", "/nothing")
    c.ask("POST", C1, csinode())
    c.ask("PUT", CSINODES, csinode(), stored=C1)
    c.ask("PATCH", CSINODES, {}, MERGE, stored=C1)
    c.ask("POST", N1 + "/status", node())
    c.ask("DELETE", C1 + "/status")
    for accept in ("text/plain", "application/json, */*", "*/*", "application/yaml;q=0.1, application/json", "image/png"):
        c.ask("GET", N1, headers={"Accept": accept})


def make_five(c):
    for i in range(5):
        c.prepare("POST", CSINODES, csinode(name=f"l{i}", metadata={"labels": {"odd": str(i % 2), f"k{i}": ""}}))


def delete_five(c):
    for side in c.sides:
        for i in range(5):
            side.send("DELETE", f"{CSINODES}/l{i}")


@group
def lists(c):
    """Order, field selectors, versions."""
    make_five(c)
    c.ask("GET", CSINODES)
    for selector in ("metadata.name=l1", "metadata.name!=l1", "metadata.name==l1", "metadata.namespace=x", "spec.x=1", "junk"):
        c.ask("GET", f"{CSINODES}?fieldSelector={selector}")
    c.ask("GET", CSINODES + "?resourceVersion=0")
    c.ask("GET", lambda s: f"{CSINODES}?resourceVersion={s.version(CSINODES + '/l4')}")
    c.ask("GET", lambda s: f"{CSINODES}?resourceVersion={s.version(CSINODES + '/l2')}&resourceVersionMatch=NotOlderThan")
    c.ask("GET", CSINODES + "?resourceVersion=x")
    c.ask("GET", CSINODES + "?resourceVersion=1&resourceVersionMatch=Other")
    c.ask("GET", CSINODES + "?resourceVersionMatch=Exact")
    c.ask("GET", CSINODES + "?resourceVersion=99999999")
    c.ask("GET", CSINODES + "/l1?resourceVersion=0")
    c.ask("GET", CSINODES + "/l1?resourceVersion=99999999")
    c.ask("GET", CSINODES + "/l1?pretty=false")
    delete_five(c)


@group(lacks=no_label_selectors)
def label_selectors(c):
    """Lists and watches by label."""
    make_five(c)
    for selector in ("odd=1", "odd==1", "odd!=1", "odd in (0,1)", "odd notin (0)", "k3", "!k3", "odd=1,k3", "odd=x", "odd in ()",
                     "=", "odd>0", "a b"):
        c.ask("GET", f"{CSINODES}?labelSelector={selector.replace(' ', '%20')}")
    begin = [side.version(CSINODES + "/l4") for side in c.sides]
    for change in ({"metadata": {"labels": {"odd": "2"}}}, {"spec": {"drivers": [entry()]}}, {"metadata": {"labels": {"odd": "1"}}}):
        c.prepare("PATCH", CSINODES + "/l3", change, MERGE)
    for selector in ("odd%3D1", "odd%3D2", "!odd"):
        c.ask("GET", lambda s, selector=selector: watch(f"&labelSelector={selector}&resourceVersion={begin[c.sides.index(s)]}"))
    delete_five(c)


@group(lacks=no_pages)
def pages(c):
    """limit and continue, and lists of an exact version."""
    make_five(c)
    c.ask("GET", CSINODES + "?limit=2")
    c.ask("GET", lambda s: f"{CSINODES}?limit=2&continue={second_page(s)}")
    c.ask("GET", lambda s: f"{CSINODES}?continue={second_page(s)}")
    c.ask("GET", CSINODES + "?limit=2&continue=garbage")
    c.ask("GET", CSINODES + "?limit=9")
    c.ask("GET", CSINODES + "?limit=-1")
    c.ask("GET", CSINODES + "?limit=x")
    c.ask("GET", lambda s: f"{CSINODES}?resourceVersion={s.version(CSINODES + '/l2')}&resourceVersionMatch=Exact")
    delete_five(c)


def second_page(side):
    token = side.get(CSINODES + "?limit=2")["metadata"].get("continue")
    check(token, f"{side.name}: a page of two has no continue token")
    return token


def watch(query="", resource=CSINODES):
    return f"{resource}?watch=true&timeoutSeconds=1{query}"


@group
def watches(c):
    """Watches that end by themselves: what they send, from which version, in which words they fail."""
    make_five(c)
    begin = [side.version(CSINODES + "/l4") for side in c.sides]
    since = lambda query="": (lambda s: watch(f"&resourceVersion={begin[c.sides.index(s)]}{query}"))
    c.ask("GET", watch())
    c.ask("GET", watch("&resourceVersion=0"))
    c.ask("GET", since())
    c.ask("GET", lambda s: watch(f"&resourceVersion={s.version(CSINODES + '/l2')}"))
    c.prepare("PATCH", CSINODES + "/l3", {"spec": {"drivers": [entry()]}}, MERGE)
    c.prepare("DELETE", CSINODES + "/l2")
    c.ask("GET", since())
    c.ask("GET", since("&fieldSelector=metadata.name%3Dl3"))
    c.ask("GET", since("&fieldSelector=metadata.name%3Dl2"))
    c.ask("GET", watch("&resourceVersion=99999999"))
    c.ask("GET", watch("&resourceVersion=x"))
    c.ask("GET", watch("&fieldSelector=spec.x%3D1"))
    c.ask("GET", watch("&sendInitialEvents=true"))
    c.ask("GET", watch("&resourceVersionMatch=Exact&resourceVersion=1"))
    c.ask("GET", f"{CSIDRIVERS}?watch=1&timeoutSeconds=1&resourceVersion=0", user="n1")
    c.ask("GET", f"{CSINODES}/l1?watch=true&timeoutSeconds=1")
    delete_five(c)
