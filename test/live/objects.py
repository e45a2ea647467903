# SPDX-License-Identifier: Apache-2.0
"""What requests are made of, and the registry of their groups (cases_*.py)."""
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
    """Requests on one matter. lacks(emulator): whether the emulator does not have it yet; then they are skipped."""

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


def owner(name, uid):
    return {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}


def csidriver(name="a.example.com", **spec):
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}


def attachment(name="va-1", volume="pv-1", node_name="n1", **source):
    source = source or {"persistentVolumeName": volume}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {"attacher": "a.example.com", "nodeName": node_name, "source": source}}


def lease(name="n1", **spec):
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40} | spec}


def event(name="e1", **more):
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"}, "type": "Normal",
            "reason": "CSINodeInfoUpdated", "message": "m", "involvedObject": {"kind": "CSINode", "name": "n1"}} | more
