# SPDX-License-Identifier: Apache-2.0
"""An API server that lies: answers every request with what a function sends, or passes connections on to a good one.

A lie is a function (send, request) -> None: send(bytes) raises when the client has hung up; request is what came, headers
as they were. One thread for each connection; whoever stops it closes all of them.
"""
import os
import re
import socket
import ssl
import subprocess
import threading

from procs import PATIENCE

CHUNK = 65536


class HungUp(Exception):
    """The client closed, or would not read."""


def certificate(directory):
    """A certificate for 127.0.0.1 that is its own authority: (certificate file, key file)."""
    crt, key = os.path.join(directory, "liar.crt"), os.path.join(directory, "liar.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=liar", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", crt],
                   check=True, capture_output=True)
    return crt, key


class Liar:
    name = "liar"

    def __init__(self, directory, upstream=None, files=None):
        self.upstream, self.lie = upstream, None
        self.crt, key = files or certificate(directory)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.crt, key)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.news, self.open, self.stopping = threading.Condition(), set(), False
        self.accepted, self.requests, self.sent = 0, [], 0  # all under news; sent: most bytes of one answer
        self.hung_up = 0
        threading.Thread(target=self._serve, daemon=True).start()

    # ---- for tests ----

    def tell(self, lie):
        """From now on: this lie to every connection; None: the truth. Connections from before are closed."""
        with self.news:
            self.lie, self.requests, self.sent, self.hung_up = lie, [], 0, 0
        self.cut()

    def cut(self):
        with self.news:
            for connection in self.open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        with self.news:
            self.stopping = True
        self.listener.close()
        self.cut()
        return []

    # ---- connections ----

    def _serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(plain,), daemon=True).start()

    def _one(self, plain):
        plain.settimeout(PATIENCE)
        with self.news:
            self.accepted += 1
            self.open.add(plain)
            lie = self.lie
            self.news.notify_all()
        try:
            if getattr(lie, "plain", False):
                lie(plain.sendall, b"")
            else:
                self._speak(lie, plain)
        except (OSError, HungUp):
            pass
        finally:
            with self.news:
                self.open.discard(plain)
            plain.close()

    def _speak(self, lie, plain):
        with self.context.wrap_socket(plain, server_side=True) as tls:
            with self.news:
                self.open.add(tls)
            try:
                if lie is None:
                    self._pass_on(tls)
                else:
                    self._answer(lie, tls)
            finally:
                with self.news:
                    self.open.discard(tls)

    def _answer(self, lie, tls):
        """One lie for each request of the connection."""
        while True:
            request = read_request(tls)
            if not request:
                return
            with self.news:
                self.requests.append(request)
                self.news.notify_all()
            self._one_lie(lie, tls, request)

    def _one_lie(self, lie, tls, request):
        sent = 0

        def send(data):
            nonlocal sent
            try:
                tls.sendall(data)
            except OSError as gone:
                raise HungUp from gone
            sent += len(data)
            with self.news:
                self.sent = max(self.sent, sent)
        try:
            lie(send, request)
        except HungUp:
            with self.news:
                self.hung_up += 1
                self.news.notify_all()
            raise

    def _pass_on(self, tls):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(self.upstream, timeout=PATIENCE) as plain, context.wrap_socket(plain) as up:
            with self.news:
                self.open.add(plain)
            back = threading.Thread(target=pump, args=(up, tls), daemon=True)
            back.start()
            pump(tls, up)
            back.join()
            with self.news:
                self.open.discard(plain)


def pump(source, sink):
    try:
        while data := source.recv(CHUNK):
            sink.sendall(data)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def read_request(tls):
    """Head and body of one request; b"" at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = tls.recv(CHUNK)
        if not more:
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    while length and len(body) < int(length.group(1)):
        more = tls.recv(CHUNK)
        if not more:
            return b""
        body += more
    return head + b"\r\n\r\n" + body
