#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that are missing, and says nothing when none is. As root, or through sudo.
#
# deps.sh build   what the library, the programs and the demonstration need
# deps.sh test    the same and what the tests need
# deps.sh bench   what building needs, and the figures' plots
set -eu

build="build-essential pkg-config libgrpc-dev libprotobuf-c-dev libcurl4-openssl-dev libjansson-dev libyaml-dev
    libmicrohttpd-dev libgnutls28-dev python3"
test="libcmocka-dev protobuf-c-compiler clang libclang-rt-14-dev clang-format cppcheck valgrind universal-ctags git
    openssl python3-prometheus-client"

bench="python3-matplotlib"

case ${1:-test} in
build) wanted=$build ;;
test) wanted="$build $test" ;;
bench) wanted="$build $bench" ;;
*) echo "usage: $0 build|test|bench" >&2; exit 2 ;;
esac

missing=
for package in $wanted; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

fail() { echo "$*. Install these packages (or what your system calls them):$missing" >&2; exit 1; }
command -v apt-get >/dev/null || fail "apt-get is not there"
root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "only root may install packages, and sudo is not there"
    root=sudo
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() { $root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >"$log" 2>&1 || { cat "$log" >&2; fail "apt-get $1 failed"; }; }
echo "installing$missing"
apt update
apt install -y --no-install-recommends $missing
