#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build.sh MODULE-DIRECTORY PACKAGE OUTPUT [LINKER-FLAG...]
# Builds a program from a module of ours, kindly to a machine that others use.
set -eu
directory=$1 package=$2 output=$(realpath -m "$3")
shift 3
mkdir -p "$(dirname "$output")"
command -v go > /dev/null || { echo "Go 1.26 or newer is not installed" >&2; exit 1; }
cd "$directory"
export GOTOOLCHAIN=local GOFLAGS="-mod=readonly -p=${LIVE_JOBS:-2}" CGO_ENABLED=0
exec nice -n 10 go build -trimpath -buildvcs=false -ldflags "-s -w $*" -o "$output" "$package"
