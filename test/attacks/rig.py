# SPDX-License-Identifier: Apache-2.0
"""One emulated API server, one agent, some mock drivers, in a directory of their own, for attacks on them.

BIN names the directory of the programs (build/bin). Every process is ended by its id when the rig is left.
"""
import http.client, json, os, resource, shutil, signal, socket, subprocess, tempfile, time, traceback

BIN = os.environ.get("BIN", "build/bin")
PATIENCE = float(os.environ.get("PATIENCE", "90"))


class Broke(Exception):
    """The attacked program did not keep a promise."""


def check(truth, what):
    if not truth:
        raise Broke(what)


class UnixHttp(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("x", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def unix_request(path, method, target, body=None):
    conn = UnixHttp(path)
    try:
        conn.request(method, target, json.dumps(body) if body is not None else None)
        answer = conn.getresponse()
        return answer.status, answer.read()
    finally:
        conn.close()


def wait_for(probe, what, seconds=None):
    """Polls until probe() is true and returns its value; errors of the probe count as not yet."""
    end = time.monotonic() + (seconds or PATIENCE)
    last = None
    while time.monotonic() < end:
        try:
            last = probe()
            if last:
                return last
        except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
            last = error
        time.sleep(0.05)
    raise Broke(f"never: {what} (last: {str(last)[:600]})")


class Rig:
    def __init__(self, gate="off", api=True):
        self.dir = tempfile.mkdtemp(prefix="attack-")
        os.chmod(self.dir, 0o700)
        self.registry = self.path("reg")
        os.mkdir(self.registry, 0o750)
        self.processes, self.agent, self.starts = [], None, 0
        if api:
            self.start_api(gate)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def spawn(self, words, log, limits=(), **more):
        def limit():
            for what, value in limits:
                resource.setrlimit(what, (value, value))
        process = subprocess.Popen(words, stdout=open(self.path(log + ".out"), "ab"),
                                   stderr=open(self.path(log + ".err"), "ab"), stdin=subprocess.DEVNULL,
                                   preexec_fn=limit if limits else None, **more)
        self.processes.append(process)
        return process

    # ---- the API server ----

    def start_api(self, gate="off", *flags):
        self.api = self.spawn([f"{BIN}/csireg-apiserver", "--node=n1", "--control=" + self.path("ctl"),
                               "--gate=CSIControllerGetNodeInfo=" + gate, "--kubeconfig-out=" + self.path("kubeconfig"),
                               "--log=" + self.path("api.log"), *flags], "api")
        wait_for(lambda: os.path.exists(self.path("kubeconfig")) and self.ctl("GET", "/counts"), "API server")

    def ctl(self, method, target, body=None):
        status, text = unix_request(self.path("ctl"), method, target, body)
        check(status < 300, f"control {target}: {status} {text[:300]}")
        return json.loads(text) if text else None

    def do(self, method, path, body=None, kind="application/json"):
        answer = self.ctl("POST", "/do", {"method": method, "path": path, "contentType": kind,
                                          **({} if body is None else {"body": body})})
        text = answer.get("body")
        return answer["code"], json.loads(text) if isinstance(text, str) and text else text

    def rule(self, action, count=None, **match):
        return self.ctl("POST", "/rules", {"match": match, "action": action, **({"count": count} if count else {})})["id"]

    def clear_rules(self):
        self.ctl("DELETE", "/rules")

    def csinode(self):
        return self.do("GET", "/apis/storage.k8s.io/v1/csinodes/n1")[1]

    def node(self):
        return self.do("GET", "/api/v1/nodes/n1")[1]

    def entries(self, kind="drivers"):
        return {e["name"]: e for e in (self.csinode().get("spec") or {}).get(kind) or []}

    # ---- the agent ----

    def start_agent(self, *flags, limits=(), wrap=(), defaults=True, **more):
        self.starts += 1
        words = [*wrap, f"{BIN}/csireg-agent", "--node-name=n1", "--http-endpoint=unix:" + self.path("http"),
                 "--log-level=debug"]
        if defaults:
            words += ["--kubeconfig=" + self.path("kubeconfig"), "--plugins-registry-dir=" + self.registry]
        self.agent = self.spawn(words + list(flags), "agent", limits, **more)
        wait_for(self.status, "status of the agent")
        return self.agent

    def get(self, target):
        return unix_request(self.path("http"), "GET", target)

    def status(self):
        return json.loads(self.get("/status")[1])

    def log(self):
        with open(self.path("agent.err"), errors="replace") as file:
            return file.read()

    def driver_state(self, name):
        return next((d.get("state") for d in self.status()["drivers"] if d.get("name") == name), None)

    def registered(self, *names, seconds=None):
        for name in names:
            wait_for(lambda: self.driver_state(name) == "registered", f"{name} registered", seconds)

    def socket(self, part):
        return next((s for s in self.status()["sockets"] if part in s["path"]), None)

    def failed(self, part, text="", seconds=None):
        """Waits until the socket whose path has part shows an error with text, and returns that error's message."""
        def probe():
            found = self.socket(part)
            message = ((found or {}).get("lastError") or {}).get("message", "")
            return message if message and text in message else None
        return wait_for(probe, f"error of {part} with {text!r}; is {self.socket(part)}", seconds)

    def usage(self):
        pid = self.agent.pid
        with open(f"/proc/{pid}/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return {"fds": len(os.listdir(f"/proc/{pid}/fd")), "threads": int(lines["Threads"]),
                "rss": int(lines["VmRSS"].split()[0])}

    def stacks(self):
        words = ["gdb", "-p", str(self.agent.pid), "-batch", "-ex", "thread apply all bt 30"]
        return subprocess.run(words, capture_output=True, text=True, timeout=120).stdout[-12000:]

    def alive(self):
        check(self.agent.poll() is None, f"agent ended with {self.agent.poll()}: {self.log()[-800:]}")

    def stop_agent(self, within=8.0, code=0):
        """SIGTERM; exits with 0. within is 2 s on a quiet machine, more on a busy one. Returns the seconds taken."""
        self.alive()
        before = time.monotonic()
        self.agent.terminate()
        try:
            rc = self.agent.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broke("agent does not end on SIGTERM\n" + self.stacks()) from None
        took = time.monotonic() - before
        check(rc == code, f"agent ended with {rc}: {self.log()[-800:]}")
        check(took < within, f"agent took {took:.1f} s to end")
        return took

    # ---- drivers ----

    def driver(self, name, *flags, own=True, socket_name=None, directory=None):
        words = [f"{BIN}/csireg-mock-driver", "--name=" + name, "--endpoint=" + self.path(f"{name}.csi"),
                 "--calls=" + self.path(name + ".calls")]
        if own:
            where = os.path.join(directory or self.registry, socket_name or name + "-reg.sock")
            words.append("--registration-socket=" + where)
        return self.spawn(words + list(flags), "driver-" + name)

    def calls(self, name):
        with open(self.path(name + ".calls")) as file:
            return [json.loads(line) for line in file if line.strip()]


def main(attacks):
    """attacks: functions in order of their definition; words of the command line choose some by name."""
    import sys
    chosen = [a for a in attacks if not sys.argv[1:] or a.__name__ in sys.argv[1:]]
    broken = 0
    for attack in chosen:
        before = time.monotonic()
        try:
            note = attack() or ""
            print(f"held   {attack.__name__} ({time.monotonic() - before:.1f} s) {note}", flush=True)
        except Broke as error:
            broken += 1
            print(f"BROKE  {attack.__name__} ({time.monotonic() - before:.1f} s) {error}", flush=True)
        except Exception:
            broken += 1
            print(f"BROKE  {attack.__name__}: the attack itself\n{traceback.format_exc()}", flush=True)
    return 1 if broken else 0
