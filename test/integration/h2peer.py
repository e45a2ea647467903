# SPDX-License-Identifier: Apache-2.0
"""Peers on Unix sockets that speak enough HTTP/2 to do harm: frames are put together by hand, rules are not kept."""
import gzip
import os
import socket
import struct
import threading

from procs import PATIENCE

DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = 24


def frame(kind, flags=0, stream=0, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def header(name, value):
    """A literal that is not indexed and not coded; 126 bytes at most, each."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


OK = b"\x88" + header(b"content-type", b"application/grpc")
DONE = header(b"grpc-status", b"0")


def message(body, compressed=0):
    return bytes([compressed]) + struct.pack(">I", len(body)) + body


def answer(body=b"", begin=OK, trailers=DONE):
    """A whole answer on stream 1."""
    data = b"".join(frame(DATA, 0, 1, body[i:i + 16384]) for i in range(0, len(body), 16384))
    return frame(HEADERS, END_HEADERS, 1, begin) + data + frame(HEADERS, END_STREAM | END_HEADERS, 1, trailers)


class H2Peer:
    """Listens; to each connection it sends its settings and, once a request is there, what `harm` yields until it ends."""

    def __init__(self, path, harm, settings=b""):
        self.name, self.path, self.harm = os.path.basename(path), path, harm
        self.settings, self.connections, self.sent = settings, 0, 0
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen(16)
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        return []

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        connection.settimeout(PATIENCE)
        with connection:
            try:
                connection.sendall(frame(SETTINGS, 0, 0, self.settings))
                wait_request(connection)
                threading.Thread(target=drain, args=(connection,), daemon=True).start()
                for piece in self.harm():
                    connection.sendall(piece)
                    self.sent += len(piece)
                threading.Event().wait(PATIENCE / 10)  # nothing more comes; the client may hang up meanwhile
            except OSError:
                pass


def wait_request(connection):
    """Reads until a HEADERS frame is there; the client's settings are acknowledged."""
    data = b""
    while True:
        more = connection.recv(65536)
        if not more:
            raise OSError("hung up")
        data += more
        rest = data[PREFACE:]
        while len(rest) >= 9 and len(rest) >= 9 + (size := int.from_bytes(rest[:3], "big")):
            if rest[3] == SETTINGS and not rest[4] & ACK:
                connection.sendall(frame(SETTINGS, ACK))
            if rest[3] == HEADERS:
                return
            rest, data = rest[9 + size:], data[:PREFACE] + rest[9 + size:]


def drain(connection):
    try:
        while connection.recv(65536):
            pass
    except OSError:
        pass


# ---- what is harmful ----

def once(data):
    return lambda: iter([data])


def for_ever(begin, more):
    def harm():
        yield begin
        while True:
            yield more
    return harm


def dribble(data, seconds=0.2):
    def harm():
        for byte in data:
            threading.Event().wait(seconds)
            yield bytes([byte])
    return harm


def bomb():
    return answer(message(gzip.compress(bytes(64 << 20)), 1), begin=OK + header(b"grpc-encoding", b"gzip"))


HARM = {
    "no-status": once(frame(HEADERS, END_STREAM | END_HEADERS, 1, OK)),
    "no-message": once(answer()),
    "cut-message": once(answer(b"\x00\x00\x00\x00\x20abc")),
    "two-messages": once(answer(message(b"") * 2)),
    "status-99": once(answer(trailers=header(b"grpc-status", b"99"))),
    "status-nonsense": once(answer(trailers=header(b"grpc-status", b"-1x"))),
    "odd-text": once(answer(trailers=header(b"grpc-status", b"3") + header(b"grpc-message", b"%ff%00%0a%1b[31m\xc3("))),
    "long-header": once(frame(HEADERS, END_HEADERS, 1, OK + header(b"x", b"y" * 120) * 100)),
    "endless-header": for_ever(frame(HEADERS, 0, 1, OK), frame(CONTINUATION, 0, 1, header(b"x", b"y" * 120) * 100)),
    "endless-message": for_ever(frame(HEADERS, END_HEADERS, 1, OK) + frame(DATA, 0, 1, b"\x00\xff\xff\xff\xff"),
                                frame(DATA, 0, 1, bytes(16384))),
    "compressed": once(bomb()),
    "pings": for_ever(b"", frame(PING, 0, 0, bytes(8)) * 500),
    "settings": for_ever(b"", frame(SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff") * 500),
    "windows": once(frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 3),
    "resets": once(frame(RST, 0, 1, b"\x00\x00\x00\x00")),
    "goaway": once(frame(GOAWAY, 0, 0, b"\x00\x00\x00\x00\x00\x00\x00\x00go away")),
    "huge-frame": once(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + bytes(100000)),
    "unasked-stream": once(frame(HEADERS, END_HEADERS, 2, OK) + frame(DATA, 0, 7, b"x")),
    "html": once(answer(b"<html>", begin=b"\x88" + header(b"content-type", b"text/html"))),
    "dribble": dribble(answer(message(b"\x0a\x09CSIPlugin"))),
    "noise": once(os.urandom(65536)),
}
