# SPDX-License-Identifier: Apache-2.0
"""What must be true when nothing disturbs any more."""
from churn import ZONE


def expected_flow(api, slot):
    found = api.get("csidrivers", slot.name)
    return "controller" if slot.capable and (not found or found["spec"].get("attachRequired", True)) else "node"


def trouble_of(api, agent_rows, slot):
    """What is not yet as it must be for this driver, or None."""
    entry, registration = api.drivers().get(slot.name), api.registrations().get(slot.name)
    annotated, row = api.annotation().get(slot.name), agent_rows.get(slot.name)
    if not slot.instances or slot.broken:
        left = {"entry": entry, "registration": registration, "annotation": annotated, "status": row}
        left = [what for what, value in left.items() if value]
        return f"{slot.name} is gone and left {left}" if left else None
    if not row or row["state"] != "registered":
        return f"{slot.name} is not registered: {row}"
    flow = expected_flow(api, slot)
    if flow == "controller":
        right = registration == slot.node_id and entry and entry["nodeID"] == slot.node_id and row["flow"] == flow
    else:
        count = ((entry or {}).get("allocatable") or {}).get("count", 0)
        right = (entry and entry["nodeID"] == slot.node_id and count == slot.limit and registration is None
                 and annotated == slot.node_id and api.labels().get(f"{ZONE}s{slot.number}") == "z" and row["flow"] == flow)
    return None if right else f"{slot.name} ({flow}, {slot.node_id}, limit {slot.limit}): {entry}, {registration}, {annotated}"


def troubles(api, agent, slots):
    rows = {row["name"]: row for row in agent.status()["drivers"]}
    return [t for t in (trouble_of(api, rows, slot) for slot in slots) if t]
