# SPDX-License-Identifier: Apache-2.0
"""What the agent must not do in any version of Node and CSINode that it writes, whatever happens to it.

Entries, registrations and annotations whose names begin with OTHERS are somebody else's.
"""
import json

from servers import entries

AGENT = "system:node:n1"
NODE_ANNOTATION = "csi.volume.kubernetes.io/nodeid"
OTHERS = "other-"


class Histories:
    """Reads every version of CSINode and Node once and says what the agent did that it must not."""

    def __init__(self, api):
        self.api, self.seen, self.violations, self.written = api, {"csinodes": 0, "nodes": 0}, [], 0
        self.nodes = []  # (ns, deleted, uid, labels)

    def violate(self, version, what):
        self.violations.append(f"version {version['resourceVersion']}: {what}")

    def fresh(self, resource):
        """(version before or None, version) of those not yet seen."""
        versions = self.api.history(resource)
        begin, self.seen[resource] = self.seen[resource], len(versions)
        return [(versions[i - 1] if i else None, versions[i]) for i in range(begin, len(versions))]

    def check(self):
        for before, after in self.fresh("nodes"):
            meta = after["object"]["metadata"]
            self.nodes.append((after["ns"], after["deleted"], meta["uid"], meta.get("labels") or {}))
            if after["user"] == AGENT:
                self.check_node(before["object"], after)
        for before, after in self.fresh("csinodes"):
            if after["user"] == AGENT:
                self.check_csinode(before, after)

    def check_node(self, before, after):
        self.written += 1
        old, new = before["metadata"], after["object"]["metadata"]
        for key, value in (old.get("labels") or {}).items():
            if (new.get("labels") or {}).get(key) != value:
                self.violate(after, f"label {key} changed or removed")
        if others(old) != others(new):
            self.violate(after, "an annotation of others changed")
        if before["spec"] != after["object"]["spec"]:
            self.violate(after, "the Node's spec changed")

    def check_csinode(self, before, after):
        self.written += 1
        if after["deleted"]:
            owners = [o["uid"] for o in before["object"]["metadata"].get("ownerReferences") or []]
            if self.uid_at(after["ns"]) in owners:
                self.violate(after, "a CSINode of the present Node was deleted")
            return
        new = after["object"]
        if before and not before["deleted"]:
            self.check_foreign(before["object"], after)
        for name, registration in entries(new, "driverRegistrations").items():
            entry = entries(new, "drivers").get(name)
            if entry and entry["nodeID"] != registration["nodeID"]:
                self.violate(after, f"{name} has two node ids")
        for name in entries(new, "drivers").keys() - entries((before or after)["object"] if before else {}, "drivers").keys():
            self.check_labels_first(after, name)

    def check_foreign(self, old, after):
        new = after["object"]
        if foreign(old) != foreign(new):
            self.violate(after, f"entries of others changed: {foreign(old)} -> {foreign(new)}")
        if (old["metadata"].get("annotations") or {}) != (new["metadata"].get("annotations") or {}):
            self.violate(after, "annotations of the CSINode changed")

    def uid_at(self, ns):
        found = [uid for at, deleted, uid, _ in self.nodes if at <= ns and not deleted]
        return found[-1] if found else None

    def check_labels_first(self, after, name):
        """An entry of the node flow comes after the labels it names; a Node made anew in between has none yet."""
        at = [n for n in self.nodes if n[0] <= after["ns"]]
        made = [n[0] for i, n in enumerate(self.nodes) if i and n[2] != self.nodes[i - 1][2]]
        if any(abs(after["ns"] - ns) < 10_000_000_000 for ns in made) or not at:
            return
        for key in entries(after["object"], "drivers")[name].get("topologyKeys") or []:
            if key not in at[-1][3]:
                self.violate(after, f"the entry of {name} is there before the label {key}")


def others(meta):
    """Annotations of others, and their keys of the one that is shared."""
    annotations = meta.get("annotations") or {}
    ids = json.loads(annotations.get(NODE_ANNOTATION) or "{}")
    return ({k: v for k, v in annotations.items() if k != NODE_ANNOTATION},
            {k: v for k, v in ids.items() if k.startswith(OTHERS)})


def foreign(csinode):
    return [e for which in ("drivers", "driverRegistrations") for e in csinode["spec"].get(which) or []
            if e["name"].startswith(OTHERS)]
