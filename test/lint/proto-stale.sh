#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Generates the protobuf-c code of lib/wire/*.proto anew and fails when the checked-in files differ.
# --write puts the new files in their place instead. Needs protoc-c.
set -eu
cd "$(dirname "$0")/../../lib/wire"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT

protoc-c --c_out="$new" ./*.proto 2>"$new/log" || { cat "$new/log" >&2; exit 1; }
rm "$new/log"
for file in "$new"/*.pb-c.[ch]; do
    sed -i '1i /* SPDX-License-Identifier: Apache-2.0 */\n/* clang-format off */' "$file"
done

if [ "${1:-}" = --write ]; then
    cp "$new"/*.pb-c.[ch] .
    exit 0
fi
stale=0
for file in "$new"/*.pb-c.[ch]; do
    cmp -s "$file" "$(basename "$file")" || { echo "lib/wire/$(basename "$file") is stale: run make proto" >&2; stale=1; }
done
exit $stale
