#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails when the checked-in diagram differs from the state machine's table. Argument: the simulator program.
set -eu
sim=${1:-build/bin/csireg-sim}
if "$sim" --diagram | diff -u lib/core/registration.mmd - ; then
    exit 0
fi
echo "lib/core/registration.mmd is stale: run make diagram" >&2
exit 1
