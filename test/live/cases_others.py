# SPDX-License-Identifier: Apache-2.0
"""Objects of others: drivers, attachments, leases, events."""
import json

from objects import (
    ATTACHMENTS, CSIDRIVERS, EVENTS, LEASES, MERGE, VOLUMES, attachment, csidriver, event, group, lease,
    no_resource, node, with_version)


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
    full = csidriver("b.example.com", attachRequired=False, volumeLifecycleModes=["Persistent", "Ephemeral"],
                     fsGroupPolicy="None", nodeAllocatableUpdatePeriodSeconds=60)
    c.ask("POST", CSIDRIVERS, full, stored=CSIDRIVERS + "/b.example.com")
    c.ask("POST", CSIDRIVERS, csidriver("c.example.com", nodeAllocatableUpdatePeriodSeconds=1),
          stored=CSIDRIVERS + "/c.example.com")
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
    c.ask("GET", VOLUMES, user="n1")
    c.ask("GET", VOLUMES + "/pv-1", user="n1")
    c.ask("POST", ATTACHMENTS, attachment() | {"status": {"attached": True}}, stored=path)
    c.ask("POST", ATTACHMENTS, attachment("va-2", node_name="n2"), stored=ATTACHMENTS + "/va-2")
    c.ask("POST", ATTACHMENTS, attachment("va-3", persistentVolumeName="p", inlineVolumeSpec=volume["spec"]),
          stored=ATTACHMENTS + "/va-3")
    c.ask("POST", ATTACHMENTS, attachment("va-3") | {"spec": {"attacher": "", "nodeName": "", "source": {}}},
          stored=ATTACHMENTS + "/va-3")
    c.ask("GET", ATTACHMENTS + "/va-2", user="n1")
    c.ask("GET", ATTACHMENTS, user="n1")
    c.ask("PATCH", path, {"spec": {"nodeName": "n2"}}, MERGE)
    c.ask("PATCH", path, {"status": {"attached": True}}, MERGE)
    error = {"time": "2026-01-01T00:00:00Z", "message": "full", "errorCode": 8}
    c.ask("PATCH", path + "/status", {"status": {"attached": False, "attachError": error}, "spec": {"nodeName": "n9"}},
          MERGE)
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
