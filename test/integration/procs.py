# SPDX-License-Identifier: Apache-2.0
"""Processes of a test: started with a log each, their lines waited for, stopped by their id, their exit checked."""
import os
import signal
import subprocess
import threading
import time

# Patience for things that must happen. A sanitizer build on a busy machine is slow; nothing here measures speed.
PATIENCE = float(os.environ.get("CSIREG_TEST_PATIENCE", "30"))
SANITIZER_MARKS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:", "ThreadSanitizer")


class Failure(AssertionError):
    """What a scenario found wrong."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def equal(found, expected, what):
    if found != expected:
        raise Failure(f"{what}: expected {expected!r}, found {found!r}")


def until(what, probe, timeout=None, pause=0.02, wake=None):
    """Calls probe until it gives something true and returns that. `wake(pause)` may return early when there is news."""
    deadline = time.monotonic() + (PATIENCE if timeout is None else timeout)
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Failure(f"timed out waiting until {what}")
        wake(pause) if wake else time.sleep(pause)


class Process:
    """One program. Its standard output and error go to files and, line by line, to `lines`."""

    def __init__(self, name, argv, directory, env=None, expect_exit=0, cwd=None, stdin=subprocess.DEVNULL):
        self.name, self.argv, self.expect_exit = name, argv, expect_exit
        self.lines, self.news = [], threading.Condition()
        self.log_path = os.path.join(directory, name + ".log")
        self.log = open(self.log_path, "a", encoding="utf-8", errors="replace")
        self.popen = subprocess.Popen(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env=env, cwd=cwd)
        self.readers = [threading.Thread(target=self._read, args=(stream, tag), daemon=True)
                        for stream, tag in ((self.popen.stdout, "out"), (self.popen.stderr, "err"))]
        for reader in self.readers:
            reader.start()

    def _read(self, stream, tag):
        for raw in stream:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            with self.news:
                self.lines.append((tag, line))
                self.log.write(f"{line}\n")
                self.log.flush()
                self.news.notify_all()
        with self.news:
            self.news.notify_all()

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def output(self, tag=None):
        with self.news:
            return [line for t, line in self.lines if tag in (None, t)]

    def wake(self, pause):
        """Waits until the next line comes, at most `pause` seconds."""
        with self.news:
            self.news.wait(pause)

    def wait_line(self, match, timeout=None, start=0):
        """The first line from number `start` on that contains `match` (or that the function `match` accepts)."""
        accept = match if callable(match) else (lambda line: match in line)
        what = match if isinstance(match, str) else getattr(match, "what", "a certain line")

        def probe():
            for line in self.output()[start:]:
                if accept(line):
                    return line
            ended = not self.running() and not any(r.is_alive() for r in self.readers)
            check(not ended, f"{self.name} ended with {self.popen.returncode} before it printed: {what}")
            return None

        return until(f"{self.name} prints: {what}", probe, timeout, pause=0.2, wake=self.wake)

    def wait_exit(self, timeout=None):
        try:
            code = self.popen.wait(PATIENCE if timeout is None else timeout)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end") from None
        for reader in self.readers:
            reader.join(5)
        return code

    def kill(self):
        """SIGKILL, for a crash that a scenario wants."""
        self.expect_exit = -signal.SIGKILL
        self.popen.kill()
        self.wait_exit()

    def _takes_signals(self):
        """Whether it is far enough to end in order: our programs block SIGTERM first of all."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
                blocked = next(int(line.split()[1], 16) for line in status if line.startswith("SigBlk"))
        except FileNotFoundError:
            return True
        return bool(blocked >> (signal.SIGTERM - 1) & 1) or not self.running()

    def stop(self, number=signal.SIGTERM):
        """Asks it to end and returns its exit code."""
        if self.running():
            until(f"{self.name} takes signals", self._takes_signals, pause=0.005)
            self.popen.send_signal(number)
        return self.wait_exit()

    def close(self):
        """Ends it whatever it does; a list of what was wrong with it."""
        wrong = []
        try:
            code = self.stop()
        except Failure as failure:
            wrong.append(str(failure))
            self.popen.kill()
            code = self.popen.wait()
        if not wrong and self.expect_exit is not None and code != self.expect_exit:
            wrong.append(f"{self.name} ended with {code}, not {self.expect_exit}")
        wrong += [f"{self.name}: {line}" for line in self.output() if any(m in line for m in SANITIZER_MARKS)]
        self.log.close()
        for stream in (self.popen.stdout, self.popen.stderr):
            stream.close()
        return wrong

    # What the kernel says about it.
    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def wakeups(self):
        """Voluntary context switches of all threads so far."""
        total = 0
        for task in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{task}/status", encoding="ascii") as status:
                    total += sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt"))
            except FileNotFoundError:
                pass
        return total
