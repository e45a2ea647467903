#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a host relies on: headers that stand alone, exactly the promised symbols, described values, both ways to link.

abi.py BUILD [LIBRARIES...]   BUILD holds libcsireg.a and libcsireg.so; LIBRARIES are what the static one needs.
Ends with "N passed, N failed".
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = sorted(os.path.relpath(path, os.path.join(ROOT, "include"))
                 for path in glob.glob(os.path.join(ROOT, "include/csireg/*.h")))
DIALECTS = [("gcc", "c", "c99"), ("gcc", "c", "c11"), ("g++", "c++", "c++17"),
            ("clang", "c", "c99"), ("clang", "c", "c11"), ("clang++", "c++", "c++17")]
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
ARCHIVE_PREFIXES = ("csireg_",)  # a host may have CSI code of its own

counts = {True: 0, False: 0}


def report(good, what, detail=""):
    counts[bool(good)] += 1
    print(f"{'ok' if good else 'FAILED':7} {what}" + ("" if good or not detail else f"\n    {detail}"), flush=True)


def run(*argv, text=None):
    done = subprocess.run(argv, cwd=ROOT, input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, (done.stdout + done.stderr).strip()


def header(name):
    with open(os.path.join(ROOT, "include", name), encoding="utf-8") as file:
        return file.read()


def headers_stand_alone():
    for compiler, language, standard in DIALECTS:
        if not shutil.which(compiler):
            continue
        for name in HEADERS:
            code, _, output = run(compiler, "-x", language, f"-std={standard}", *STRICT, "-fsyntax-only", "-Iinclude", "-",
                                  text=f"#include <{name}>\n#include <{name}>\n")
            report(code == 0, f"<{name}> alone, {compiler} {standard}", output)


def headers_show_no_library():
    for name in HEADERS:
        foreign = [h for h in re.findall(r'#\s*include\s*[<"]([^>"]+)', header(name))
                   if not h.startswith("csireg/") and not re.fullmatch(r"std\w+\.h", h)]
        report(not foreign, f"<{name}> needs no other library's header", ", ".join(foreign))


def declared():
    return {name for h in HEADERS for name in re.findall(r"CSIREG_API\b[^;{]*?\b(csireg_\w+)\s*\(", COMMENT.sub(" ", header(h)))}


def mapped():
    with open(os.path.join(ROOT, "lib/libcsireg.map"), encoding="utf-8") as file:
        return set(re.findall(r"\b(csireg_\w+|\w*\*)\s*;", COMMENT.sub(" ", file.read()))) - {"*"}


def exported(shared):
    code, output, text = run("nm", "-D", "--defined-only", shared)
    if code:
        report(False, "nm -D", text)
    symbols = {line.split()[-1] for line in output.splitlines() if line.split()[1] != "A"}
    report(all("@" in s for s in symbols), "each exported symbol has a version", ", ".join(s for s in symbols if "@" not in s))
    return {s.split("@")[0] for s in symbols}


def same(what, a, b):
    report(a == b, what, f"only left: {sorted(a - b)}; only right: {sorted(b - a)}")


def symbols_are_the_promised(build):
    promised, shared = declared(), os.path.join(build, "libcsireg.so")
    report(len(promised) > 0, "the headers declare functions")
    same("headers = symbol map", promised, mapped())
    same("headers = nm -D", promised, exported(shared))
    dynamic = run("readelf", "-d", shared)[1]
    report(re.search(r"SONAME.*\[libcsireg\.so\.\d+\]", dynamic), "SONAME is libcsireg.so.<major>", dynamic)
    report("TEXTREL" not in dynamic, "no text relocations", dynamic)
    listed = run("nm", "-g", "--defined-only", os.path.join(build, "libcsireg.a"))[1]
    names = {line.split()[-1] for line in listed.splitlines() if len(line.split()) == 3}
    rude = sorted(name for name in names if not name.startswith(ARCHIVE_PREFIXES))
    report(names and not rude, "the archive's symbols have the library's prefixes", ", ".join(rude))


def enumerators(text):
    """{enumerator: (enum, described)} of one header; a description is a comment before it or on its line."""
    found = {}
    for enum, body in re.findall(r"\benum (\w+) \{(.*?)\};", text, re.S):
        last, line, pending = None, 0, False
        for part in re.finditer(r"/\*.*?\*/|\b([A-Z]\w+)\s*=[^,/]*,?", body, re.S):
            if part.group(1):
                last, line = part.group(1), body.count("\n", 0, part.end())
                found[last] = (enum, pending)
                pending = False
            elif last and line == body.count("\n", 0, part.start()):
                found[last] = (enum, True)
            else:
                pending = True
    return found


def values_are_described():
    table = {"csireg_option", "csireg_option_type", "csireg_log_level"}  # the option table; names that say it all
    for name in HEADERS:
        for value, (enum, described) in enumerators(header(name)).items():
            if enum not in table and value != "CSIREG_OK":
                report(described, f"{value} is described")


def codes():
    return [value for value, (enum, _) in enumerators(header("csireg/error.h")).items() if enum == "csireg_code"]


def program():
    """Uses every code's name, every option's row, and the version of headers and library."""
    checks = "".join(f'    bad += strcmp(csireg_code_name({c}), "{c.removeprefix("CSIREG_").removeprefix("ERR_")}") != 0;\n'
                     for c in codes())
    return ("#include <csireg/csireg.h>\n#include <string.h>\n\nint main(void)\n{\n    int bad = 0;\n    size_t n = 0;\n" + checks +
            '    bad += strcmp(csireg_code_name((enum csireg_code)-9999), "UNKNOWN") != 0;\n'
            "    bad += strcmp(csireg_version(), CSIREG_VERSION) != 0;\n"
            "    for (const struct csireg_option_info *o; (o = csireg_option_info(n)); n++)\n"
            "        bad += o->size != sizeof *o || (size_t)o->option != n + 1 || !*o->name || !*o->help;\n"
            "    return bad || n == 0;\n}\n")


def links_both_ways(build, libraries):
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "host.c"), os.path.join(folder, "host")
        with open(source, "w", encoding="utf-8") as file:
            file.write(program())
        compiler = os.environ.get("CC", "cc")
        ways = {"shared": [f"-L{build}", f"-Wl,-rpath,{os.path.abspath(build)}", "-lcsireg"],
                "static": [os.path.join(build, "libcsireg.a"), *libraries, "-pthread"]}
        for way, arguments in ways.items():
            code, _, output = run(compiler, "-std=c11", *STRICT, "-Iinclude", source, "-o", target, *arguments)
            report(code == 0, f"a program links, {way}", output)
            if code == 0:
                code, _, output = run(target)
                report(code == 0, f"codes, options and version are as the headers say, {way}", f"exit {code} {output}")


def forks(build):
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "fork_host")
        code, _, output = run(os.environ.get("CC", "cc"), "-std=gnu11", *STRICT, "-Iinclude", "test/abi/fork_host.c", "-o", target,
                              f"-L{build}", f"-Wl,-rpath,{os.path.abspath(build)}", "-lcsireg")
        if code == 0:
            code, _, output = run(target)
    report(code == 0, "fork and exec: no descriptor leaks, calls in a child answer FORKED", output)


def installs():
    code, _, output = run("test/abi/install-test.sh")
    report(code == 0, "installed tree: files, pkg-config, shared and static hosts, uninstall", output)


def main():
    build, libraries = sys.argv[1], sys.argv[2:]
    headers_stand_alone()
    headers_show_no_library()
    symbols_are_the_promised(build)
    values_are_described()
    links_both_ways(build, libraries)
    forks(build)
    installs()
    print(f"{counts[True]} passed, {counts[False]} failed")
    return 1 if counts[False] else 0


if __name__ == "__main__":
    sys.exit(main())
