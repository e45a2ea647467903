#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that does what it is told: the shared library behind JSON lines, for every call of the public interface.

    host.py LIBRARY OPTIONS      OPTIONS: {"node-name": "n1", "plugin-types": ["X"], "verify-interval": 0, ...}

Commands come on standard input, {"do": "socket_seen", "with": ["/path"]}; each is answered by {"did", "rc", ...}. Events
come as {"event": kind, ...}. The end of standard input ends the host in order.
"""
import ctypes
import json
import os
import select
import sys

P, S, I, L = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64
TEXTS = ctypes.POINTER(S)


class OptionInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("option", I), ("type", I), ("name", S), ("default_value", S), ("minimum", L),
                ("maximum", L), ("help", S)]


STRING, INT, BOOL, STRINGS, DURATION = 1, 2, 3, 4, 5

SIGNATURES = {
    "csireg_options_new": (I, ctypes.POINTER(P)), "csireg_options_free": (None, P),
    "csireg_options_set_string": (I, P, I, S, P), "csireg_options_set_int": (I, P, I, L, P),
    "csireg_options_set_bool": (I, P, I, I, P), "csireg_options_set_strings": (I, P, I, TEXTS, ctypes.c_size_t, P),
    "csireg_option_info": (ctypes.POINTER(OptionInfo), ctypes.c_size_t),
    "csireg_manager_new": (I, P, ctypes.POINTER(P), P), "csireg_manager_start": (I, P, P),
    "csireg_manager_stop": (I, P), "csireg_manager_free": (None, P), "csireg_manager_fd": (I, P),
    "csireg_manager_next_event": (I, P, ctypes.POINTER(P)),
    "csireg_manager_socket_seen": (I, P, S, P), "csireg_manager_socket_gone": (I, P, S, P),
    "csireg_manager_driver_register": (I, P, S, S, TEXTS, ctypes.c_size_t, P),
    "csireg_manager_driver_deregister": (I, P, S, S, P), "csireg_manager_lookup": (I, P, S, ctypes.POINTER(P)),
    "csireg_manager_retry": (I, P, S, P), "csireg_manager_plugin_result": (I, P, ctypes.c_uint64, I, S, P),
    "csireg_manager_status_json": (I, P, ctypes.POINTER(P)), "csireg_manager_wait_initial": (I, P, L),
    "csireg_manager_exhausted": (I, P, S, L, ctypes.POINTER(I)),
    "csireg_driver_name": (S, P), "csireg_driver_endpoint": (S, P), "csireg_driver_version": (S, P),
    "csireg_driver_node_id": (S, P), "csireg_driver_flow": (I, P), "csireg_driver_free": (None, P),
    "csireg_event_kind": (I, P), "csireg_event_kind_name": (S, I), "csireg_event_driver": (S, P),
    "csireg_event_path": (S, P), "csireg_event_endpoint": (S, P), "csireg_event_type": (S, P),
    "csireg_event_versions": (ctypes.c_size_t, P, ctypes.POINTER(TEXTS)), "csireg_event_token": (ctypes.c_uint64, P),
    "csireg_event_generation": (ctypes.c_uint64, P), "csireg_event_error": (P, P), "csireg_event_free": (None, P),
    "csireg_error_message": (S, P), "csireg_error_code": (I, P), "csireg_error_free": (None, P), "csireg_code_name": (S, I),
    "csireg_version": (S,),
}


def load(path):
    library = ctypes.CDLL(path)
    for name, (result, *arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def texts(items):
    return (S * len(items))(*[item.encode() for item in items])


def text(value):
    return None if value is None else value.encode()


class Host:
    def __init__(self, path):
        self.lib, self.options, self.manager = load(path), P(), P()

    def say(self, **what):
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()

    def checked(self, function, *arguments):
        """(rc, message) of a call whose last parameter is the error."""
        error = P()
        rc = function(*arguments, ctypes.byref(error))
        message = self.lib.csireg_error_message(error).decode()
        self.lib.csireg_error_free(error)
        return {"rc": self.lib.csireg_code_name(rc).decode(), "message": message}

    # ---- options ----

    def table(self):
        found, i = {}, 0
        while self.lib.csireg_option_info(i):
            info = self.lib.csireg_option_info(i).contents
            found[info.name.decode()] = info
            i += 1
        return found

    def set_option(self, name, value):
        info = self.table()[name]
        if info.type == STRING:
            return self.checked(self.lib.csireg_options_set_string, self.options, info.option, text(value))
        if info.type == STRINGS:
            return self.checked(self.lib.csireg_options_set_strings, self.options, info.option, texts(value), len(value))
        setter = self.lib.csireg_options_set_bool if info.type == BOOL else self.lib.csireg_options_set_int
        return self.checked(setter, self.options, info.option, value)

    # ---- commands ----

    def do_set(self, name, value):
        return self.set_option(name, value)

    def do_new(self):
        return self.checked(self.lib.csireg_manager_new, self.options, ctypes.byref(self.manager))

    def do_start(self):
        return self.checked(self.lib.csireg_manager_start, self.manager)

    def do_stop(self):
        return {"rc": self.code(self.lib.csireg_manager_stop(self.manager))}

    def do_socket_seen(self, path):
        return self.checked(self.lib.csireg_manager_socket_seen, self.manager, text(path))

    def do_socket_gone(self, path):
        return self.checked(self.lib.csireg_manager_socket_gone, self.manager, text(path))

    def do_driver_register(self, name, endpoint, versions):
        return self.checked(self.lib.csireg_manager_driver_register, self.manager, text(name), text(endpoint),
                            texts(versions), len(versions))

    def do_driver_deregister(self, name, endpoint):
        return self.checked(self.lib.csireg_manager_driver_deregister, self.manager, text(name), text(endpoint))

    def do_retry(self, what):
        return self.checked(self.lib.csireg_manager_retry, self.manager, text(what))

    def do_plugin_result(self, token, good, why):
        return self.checked(self.lib.csireg_manager_plugin_result, self.manager, token, good, text(why))

    def do_wait_initial(self, milliseconds):
        return {"rc": self.code(self.lib.csireg_manager_wait_initial(self.manager, milliseconds))}

    def do_exhausted(self, name, milliseconds):
        result = I(0)
        rc = self.lib.csireg_manager_exhausted(self.manager, text(name), milliseconds, ctypes.byref(result))
        names = ("", "REFRESHED", "UNCHANGED", "FAILED", "NO_PERIOD", "DELEGATED")
        return {"rc": self.code(rc), "result": names[result.value]}

    def do_lookup(self, name):
        driver = P()
        answer = {"rc": self.code(self.lib.csireg_manager_lookup(self.manager, text(name), ctypes.byref(driver)))}
        if driver:
            for field in ("name", "endpoint", "version", "node_id"):
                answer[field] = getattr(self.lib, "csireg_driver_" + field)(driver).decode()
            answer["flow"] = self.lib.csireg_driver_flow(driver)
        self.lib.csireg_driver_free(driver)
        return answer

    def do_status(self):
        pointer = P()
        answer = {"rc": self.code(self.lib.csireg_manager_status_json(self.manager, ctypes.byref(pointer)))}
        if pointer:
            answer["status"] = json.loads(ctypes.string_at(pointer.value))
            ctypes.CDLL(None).free(pointer)
        return answer

    def do_lookup_in_a_child(self, name):
        """What the same call answers in a forked child, and whether free is harmless there."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            rc = self.lib.csireg_manager_lookup(self.manager, text(name), ctypes.byref(P()))
            self.lib.csireg_manager_free(self.manager)
            os.write(writing, self.code(rc).encode())
            os._exit(0)  # pylint: disable=protected-access
        os.close(writing)
        answer = os.read(reading, 100).decode()
        os.close(reading)
        return {"rc": answer, "exit": os.waitpid(child, 0)[1]}

    def code(self, number):
        return self.lib.csireg_code_name(number).decode()

    # ---- events ----

    def drain(self):
        event = P()
        while self.lib.csireg_manager_next_event(self.manager, ctypes.byref(event)) == 1:
            versions = TEXTS()
            count = self.lib.csireg_event_versions(event, ctypes.byref(versions))
            self.say(event=self.lib.csireg_event_kind_name(self.lib.csireg_event_kind(event)).decode(),
                     driver=self.lib.csireg_event_driver(event).decode(), path=self.lib.csireg_event_path(event).decode(),
                     endpoint=self.lib.csireg_event_endpoint(event).decode(),
                     type=self.lib.csireg_event_type(event).decode(), token=self.lib.csireg_event_token(event),
                     versions=[versions[i].decode() for i in range(count)],
                     message=self.lib.csireg_error_message(self.lib.csireg_event_error(event)).decode())
            self.lib.csireg_event_free(event)

    def command(self, line):
        command = json.loads(line)
        answer = getattr(self, "do_" + command["do"])(*command.get("with", []))
        self.say(did=command["do"], number=command["number"], **answer)

    def run(self, options):
        self.lib.csireg_options_new(ctypes.byref(self.options))
        for name, value in options.items():
            self.say(did="set", number=0, **self.set_option(name, value))
        buffered = b""
        while True:
            fds = [0] + ([self.lib.csireg_manager_fd(self.manager)] if self.manager else [])
            ready, _, _ = select.select(fds, [], [])
            if len(fds) > 1 and fds[1] in ready:
                self.drain()
            if 0 in ready:
                data = os.read(0, 65536)
                if not data:
                    break
                *lines, buffered = (buffered + data).split(b"\n")
                for line in lines:
                    self.command(line)
                    if self.manager:
                        self.drain()
        self.lib.csireg_manager_stop(self.manager)
        self.lib.csireg_manager_free(self.manager)
        self.lib.csireg_options_free(self.options)


if __name__ == "__main__":
    Host(sys.argv[1]).run(json.loads(sys.argv[2]))
