#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that textual.py finds what it should and nothing else: offences are planted in a tree of their own."""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
C = "/* SPDX-License-Identifier: Apache-2.0 */\n"
HOME, MAIL = "/ho" + "me/somebody", "me@" + "company.com"  # in pieces, as this file is checked too

# file: (its text, what must be said about it)
TREE = {
    "lib/core/good.c": (C + '#include "core/core.h"\n#include <jansson.h>\n/* strcpy(a, b) */ const char *s = "sprintf(";\n'
                        "int f(void) { return cr_strcpy(1) + x.time(2) + snprintf(0, 0, s); }\n", []),
    "lib/core/impure.c": (C + '#include <unistd.h>\n#include "io/rpc.h"\n#include <curl/curl.h>\nint f(void) { return time(0); }\n',
                          ["<unistd.h>", "must not include io/rpc.h", "must not use curl", "time: the core is pure"]),
    "lib/io/noisy.c": (C + "void f(char *a)\n{\n    strcpy(a, a);\n    printf(a);\n    a = malloc(1);\n    sleep(1);\n    umask(0);\n}\n",
                       ["strcpy", "printf", "malloc", "sleep", "umask"]),
    "lib/odd/new.c": (C, ["lib/odd has no include rule"]),
    "examples/agent/private.c": (C + '#include "engine/engine.h"\n', ["public API only"]),
    "examples/agent/free.c": ("int licence;\n", ["no SPDX"]),
    "test/long.c": (C + "int f(int a)\n{\n" + "    a++;\n" * 80 + "}\n" + "\n" * 600, ["f has 83 lines", "684 lines, more than 600"]),
    "notes.txt": (f"{HOME}/src and {MAIL} but not you@example.com\n", [HOME, MAIL]),
    "broken.sh": ("# SPDX-License-Identifier: Apache-2.0\nif then\n", ["broken.sh"]),
    "broken.py": ("# SPDX-License-Identifier: Apache-2.0\ndef f(:\n", ["broken.py:2"]),
}


def said_in(tree):
    script = os.path.join(tree, "test/lint/textual.py")
    os.makedirs(os.path.dirname(script))
    shutil.copy(os.path.join(HERE, "textual.py"), script)
    for name, (text, _) in TREE.items():
        os.makedirs(os.path.dirname(os.path.join(tree, name)), exist_ok=True)
        with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
            file.write(text)
    environment = dict(os.environ, GIT_CEILING_DIRECTORIES=os.path.dirname(tree))
    done = subprocess.run([sys.executable, "-B", script], capture_output=True, text=True, env=environment, check=False)
    return done.returncode, done.stdout.split("\n"), done.stderr


def main():
    with tempfile.TemporaryDirectory() as tree:
        code, lines, errors = said_in(tree)
    wrong = [] if code == 1 and not errors else [f"exit {code} {errors}"]
    for name, (_, expected) in TREE.items():
        said = [line for line in lines if line.startswith(name + ":")]
        wrong += [f"{name}: nothing says {words!r}" for words in expected if not any(words in line for line in said)]
        if len(said) != len(expected):
            wrong.append(f"{name}: {len(said)} offences, not {len(expected)}: {said}")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
