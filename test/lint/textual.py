#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules that a look at the text can check. Prints each offence as file:line: what; exit 1 if there is one.

textual.py [banned|includes|lengths|licence|words|scripts ...]   all of them without arguments
"""
import os
import re
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAX_FUNCTION_LINES, MAX_FILE_LINES = 80, 600  # no exceptions, and no list to put any in

# Calls that have no place in a directory: (directories, exempt files, names, why).
BANNED = [
    ("", (), "sprintf vsprintf strcpy strcat stpcpy strtok atoi atol atoll atof gets alloca", "unbounded or unchecked"),
    ("", (), "sleep usleep nanosleep", "wait for an event instead"),
    ("", ("lib/base/mem.c",), "realloc", "grow through a bounded buffer"),
    ("lib/", (), "exit _exit _Exit abort assert printf vprintf fprintf vfprintf puts putchar fputs perror syslog",
     "the library neither ends the process nor prints"),
    ("lib/", ("lib/base/mem.c",), "malloc calloc strdup strndup asprintf vasprintf reallocarray",
     "allocate through base/mem.h"),
    ("lib/", (), "signal sigaction umask setlocale chdir fchdir setenv putenv unsetenv clearenv fork system popen "
     "curl_global_init_mem json_set_alloc_funcs gpr_set_log_function gpr_set_log_verbosity", "process-wide state is the host's"),
    ("lib/", (), "strerror localtime gmtime rand srand random getpwnam gethostbyname inet_ntoa", "not safe in threads"),
    ("lib/core/", (), "time clock_gettime gettimeofday getenv secure_getenv cr_clock_now", "the core is pure"),
]

# What each room may include; headers of include/csireg are everybody's vocabulary.
ROOMS = {
    "base": ("base/",),
    "wire": ("wire/", "base/"),
    "core": ("core/", "base/"),
    "io": ("io/", "wire/", "base/"),
    "engine": ("engine/", "core/", "io/", "base/"),
    "api": ("api/", "engine/", "core/", "base/", "io/access.h"),
}
LIBRARIES = {  # whose headers may be used where
    "grpc": ("io",), "curl": ("io", "engine", "api"), "yaml.h": ("io",), "protobuf-c": ("wire",),
    "jansson.h": ("core", "engine", "io", "api"),
}
IMPURE = ("unistd.h", "fcntl.h", "time.h", "pthread.h", "poll.h", "signal.h", "netdb.h", "dirent.h", "sys/", "netinet/", "arpa/")
PUBLIC_API_ONLY = {"examples/agent/": ("agent/", "common/", "csireg/"), "examples/ctl/": ("ctl/", "common/", "csireg/"),
                   "examples/embed.c": ("csireg/",)}

SPDX = "SPDX-License-Identifier: Apache-2.0"
MACHINE = re.compile(r"(?<![\w.$}-])/(?:home|root|work|Users)/\w[\w.-]*|\b[\w.+-]+@(?!example\.)[a-z0-9-]+\.(?:com|org|net|io|dev)\b")
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

offences = 0


def offend(path, line, text):
    global offences
    offences += 1
    print(f"{path}:{line}: {text}")


def files(*suffixes):
    """Ours: neither ignored nor generated, of the working tree."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = listed.stdout.split("\n") if listed.returncode == 0 else walk()
    return sorted(n for n in set(names) if n.endswith(suffixes) and ".pb-c." not in n and os.path.isfile(os.path.join(ROOT, n)))


def walk():
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in ("build", ".git")]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), ROOT)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def code_of(path):
    """The text with comments and literals blanked, lines kept."""
    return TOKEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), read(path))


def check_banned():
    rules = [(where, exempt, re.compile(r"(?<![\w.>])(" + "|".join(names.split()) + r")\s*\("), why)
             for where, exempt, names, why in BANNED]
    for path in files(".c", ".h"):
        for number, line in enumerate(code_of(path).split("\n"), 1):
            for where, exempt, pattern, why in rules:
                if path.startswith(where) and path not in exempt:
                    for name in pattern.findall(line):
                        offend(path, number, f"{name}: {why}")


def includes(path):
    for number, line in enumerate(read(path).split("\n"), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, found.group(1) == "<", found.group(2)


def includes_of_room(path, room):
    for number, system, name in includes(path):
        if name.startswith("csireg/"):
            continue
        if not system:
            if "/" in name and not name.startswith(ROOMS[room]):
                offend(path, number, f"lib/{room} must not include {name}")
            continue
        for library, rooms in LIBRARIES.items():
            if name.startswith(library) and room not in rooms:
                offend(path, number, f"lib/{room} must not use {library}")
        if room == "core" and name.startswith(IMPURE):
            offend(path, number, f"the core is pure and must not include <{name}>")


def check_includes():
    for path in files(".c", ".h"):
        parts = path.split("/")
        if parts[0] == "lib" and len(parts) == 3:
            if parts[1] in ROOMS:
                includes_of_room(path, parts[1])
            else:
                offend(path, 1, f"lib/{parts[1]} has no include rule")
        for prefix, allowed in PUBLIC_API_ONLY.items():
            for number, system, name in includes(path) if path.startswith(prefix) else ():
                if not system and "/" in name and not name.startswith(allowed):
                    offend(path, number, f"{prefix} uses the public API only, not {name}")


def functions():
    """(lines, path, name) of each function, by ctags."""
    listed = subprocess.run(["ctags", "--languages=C", "--kinds-C=f", "--fields=+ne", "--excmd=number", "-f", "-", "-L", "-"],
                            cwd=ROOT, input="\n".join(files(".c", ".h")), capture_output=True, text=True, check=True)
    for line in listed.stdout.split("\n"):
        found = re.match(r"(\S+)\t(\S+)\t.*\tline:(\d+).*\tend:(\d+)", line)
        if found:
            yield int(found.group(4)) - int(found.group(3)) + 1, found.group(2), found.group(1), int(found.group(3))


def check_lengths():
    for path in files(".c", ".h", ".py", ".sh"):
        lines = read(path).count("\n")
        if lines > MAX_FILE_LINES:
            offend(path, lines, f"{lines} lines, more than {MAX_FILE_LINES}")
    found = list(functions())
    for lines, path, name, start in found:
        if lines > MAX_FUNCTION_LINES:
            offend(path, start, f"{name} has {lines} lines, more than {MAX_FUNCTION_LINES}")
    for part in ("lib/", ""):
        lengths = sorted(lines for lines, path, _, _ in found if path.startswith(part))
        if lengths:
            print(f"{part or 'all'}: {len(lengths)} functions, median {statistics.median(lengths):.0f} lines, "
                  f"p90 {lengths[len(lengths) * 9 // 10]}, longest {lengths[-1]}")


def check_licence():
    for path in files(".c", ".h", ".proto", ".sh", ".py", ".mk", "Makefile"):
        if SPDX not in "\n".join(read(path).split("\n", 2)[:2]):
            offend(path, 1, f"no {SPDX} at its top")


def check_words():
    for path in files(""):
        for number, line in enumerate(read(path).split("\n"), 1):
            for word in MACHINE.findall(line):
                offend(path, number, f"{word}: of one machine or person")


def check_scripts():
    for path in files(".py"):
        try:
            compile(read(path), path, "exec")
        except SyntaxError as error:
            offend(path, error.lineno, error.msg)
    for path in files(".sh"):
        done = subprocess.run(["sh", "-n", os.path.join(ROOT, path)], capture_output=True, text=True, check=False)
        if done.returncode:
            offend(path, 1, done.stderr.strip())


def main():
    for name in sys.argv[1:] or sorted(name[len("check_"):] for name in globals() if name.startswith("check_")):
        globals()["check_" + name]()
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
