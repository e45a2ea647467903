#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into a temporary DESTDIR, then builds and runs the smallest host against it as a distribution's user would:
# with pkg-config, shared and static. Leaves nothing behind.
set -eu
cd "$(dirname "$0")/../.."
prefix=/opt/csireg-test
destination=$(mktemp -d)
trap 'rm -rf "$destination"' EXIT
place=$destination$prefix
version=$(sed -n 's/^#define CSIREG_VERSION  *"\(.*\)"/\1/p' include/csireg/version.h)

fail() { echo "install-test: $*" >&2; exit 1; }
install() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s "$@" DESTDIR="$destination" PREFIX="$prefix"; }

# What is there, and nothing else.
install install
listed() { (cd "$place" && find . ! -type d | sort); }
expected() {
    printf './bin/%s\n' csireg-agent csireg-ctl csireg-registrar
    for header in include/csireg/*.h; do echo "./$header"; done
    printf './lib/%s\n' libcsireg.a libcsireg.so libcsireg.so.0 "libcsireg.so.$version" pkgconfig/csireg.pc systemd/system/csireg-agent.service
}
[ "$(listed)" = "$(expected | sort)" ] || fail "installed files differ from the expected: $(listed)"
grep -qx "prefix=$prefix" "$place/lib/pkgconfig/csireg.pc" || fail "csireg.pc does not name the prefix"
grep -q "^ExecStart=$prefix/bin/csireg-agent " "$place/lib/systemd/system/csireg-agent.service" || fail "the unit starts another agent"
if grep -rlF "$destination" "$place" | grep .; then fail "DESTDIR is in an installed file"; fi
for program in csireg-agent csireg-ctl csireg-registrar; do
    "$place/bin/$program" --version | grep -qF "$version" || fail "$program --version does not say $version"
done

# A user's build.
export PKG_CONFIG_PATH="$place/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$destination"
[ "$(pkg-config --modversion csireg)" = "$version" ] || fail "pkg-config knows another version"
flags="-std=c11 -Wall -Wextra -pedantic -Werror"
usage() {
    code=0
    "$@" >/dev/null 2>&1 || code=$?
    [ $code -eq 2 ] || fail "$1 without arguments exits $code, not 2"
}
${CC:-cc} $flags examples/embed.c -o "$destination/shared" $(pkg-config --cflags --libs csireg)
LD_LIBRARY_PATH="$place/lib" ldd "$destination/shared" | grep -q "libcsireg.so.0 => $place/lib" || fail "not linked to the SONAME"
LD_LIBRARY_PATH="$place/lib" usage "$destination/shared"

static=$(pkg-config --static --libs csireg | sed 's/-lcsireg/-Wl,-Bstatic -lcsireg -Wl,-Bdynamic/')
${CC:-cc} $flags examples/embed.c -o "$destination/static" $(pkg-config --cflags csireg) $static
if ldd "$destination/static" | grep libcsireg; then fail "the static program needs the shared library"; fi
usage "$destination/static"

install uninstall
[ -z "$(listed)" ] || fail "uninstall left $(listed)"
