#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every check of `make lint`; all of them run, whatever fails. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0

check() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        printf 'ok      %s\n' "$name"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s\n' "$name"
    fi
}

ours() { find include lib examples test -name '*.[ch]' ! -name '*.pb-c.[ch]' | sort; }

format() {
    unformatted=$(ours | xargs clang-format --dry-run -Werror 2>&1 | sed -n 's/^\([^: ]*\.[ch]\):[0-9].*: error:.*/\1/p' | sort -u)
    [ -z "$unformatted" ] || { printf '%s: see make format\n' $unformatted && false; }
}

# What is said once is worth fixing: no suppression of our own code. Headers of the system are described by cppcheck.h.
analyse() {
    mkdir -p build/cppcheck
    cppcheck --quiet -j2 --std=c11 --enable=warning,performance,portability --error-exitcode=1 \
        --cppcheck-build-dir=build/cppcheck --include=test/lint/cppcheck.h -D_GNU_SOURCE \
        -Iinclude -Ilib -Iexamples -Itest -itest/lint lib examples test
}

# A copy whose program is there: the unit names the one that make install puts there.
unit_file() {
    if ! command -v systemd-analyze >/dev/null; then
        echo "skipped: systemd-analyze is not there to verify the unit file"
        return 0
    fi
    mkdir -p build/lint
    sed "s|=/usr/local/bin/csireg-agent |=/bin/true |" examples/agent/csireg-agent.service >build/lint/csireg-agent.service
    said=$(systemd-analyze verify --man=no build/lint/csireg-agent.service 2>&1) || said="$said (exit $?)"
    case $said in *csireg-agent* | *"(exit "*) echo "$said"; return 1 ;; esac
}

for name in banned includes lengths licence words scripts; do
    check "$name" test/lint/textual.py "$name"
done
check "the checks find what they should" test/lint/self_test.py
check format format
check cppcheck analyse
check "unit file" unit_file
for script in proto-stale diagram-stale; do
    [ -x test/lint/$script.sh ] && check $script test/lint/$script.sh
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
