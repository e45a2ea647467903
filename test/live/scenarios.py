# SPDX-License-Identifier: Apache-2.0
"""What runs against the real server: which of the integration scenarios, and what only a real one can be asked."""
import json
import threading

from procs import check, equal
from runner import scenario

ZONE = "topology.kubernetes.io/zone"
NAME = "a.example.com"

# Of test/integration, unchanged.
SHARED = """
node_flow.gate_off node_flow.without_the_capability node_flow.attach_not_required node_flow.node_ids node_flow.bad_topology
node_flow.everything_in_order node_flow.annotation_of_others node_flow.annotation_malformed node_flow.label_collisions
node_flow.collision_concerns_one_driver node_flow.label_forbidden node_flow.counts node_flow.existing_entry
node_flow.another_node_id node_flow.owners node_flow.owner_missing node_flow.migrated_plugins node_flow.created_at_start
node_flow.node_appears_later node_flow.restart_writes_nothing
unregister.node_flow unregister.last_entry unregister.no_calls_afterwards unregister.crash_keeps_the_entry
api_faults.node_recreated api_faults.requests_are_quiet_about_secrets
controller_flow.server_too_old controller_flow.fall_back_when_dropped
acceptance.ten_in_the_node_flow
""".split()
