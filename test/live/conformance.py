# SPDX-License-Identifier: Apache-2.0
"""Sends the same requests to a real kube-apiserver and to the emulator, and compares.

Of an answer count its code, its Status (reason, message, details) or object, and its Warning, Retry-After and type
headers; after a write also what is then stored. What no two servers share is taken out first: uids, versions, times,
managedFields. The requests are in cases_*.py.
"""
import concurrent.futures
import http.client
import json
import re

from procs import PATIENCE, Failure, check

JSON = "application/json"
MISSING = "(missing)"
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Words in which the servers need not agree: another decoder, another list of formats, examples for people, numbers.
WORDS = [(re.compile(pattern, re.S), replacement) for pattern, replacement in (
    (UUID.pattern, "UID"),
    (r"(ResourceVersion in (?:precondition|record) \(|current: |too old resource version: )\d+( \(\d+)?", r"\1VERSION"),
    (r"( is unrecognized \(must be of type \w+\): ).*", r"\1..."),
    (r"( cannot be handled as a \w+: )(?!strict decoding error).*", r"\1..."),
    (r"(couldn't get version/kind; json parse error: ).*", r"\1..."),
    (r"(406: Not Acceptable).*", r"\1..."),
    (r"(accepted media types include: application/json).*", r"\1..."),
    (r"(error decoding patch: ).*", r"\1..."),
    (r' \(e\.g\. .{0,200}?regex used for validation is \'.{0,200}?\'\)', ""),
    (r'Invalid value: "(\{|map\[).*": (?=strict decoding error: )', "Invalid value: VALUE: "),
    (r'Invalid value: "(\{|map\[).*": (json: |cannot restore |converting |no kind |the object is ).*',
     "Invalid value: VALUE: ..."))]


class Side:
    """One of the two servers."""

    def __init__(self, name, address, tls, tokens):
        self.name, self.address, self.tls, self.tokens = name, address, tls, tokens

    def send(self, method, path, body=None, headers=None, user="admin"):
        """(code, headers, bytes). user: whose token is sent, an unknown one as it is, None for no credentials."""
        connection = http.client.HTTPSConnection(self.address, timeout=PATIENCE, context=self.tls)
        sent = dict(headers or {})
        if user:
            sent["Authorization"] = "Bearer " + self.tokens.get(user, user)
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path):
        """The object that is stored, or None."""
        code, _, text = self.send("GET", path)
        return json.loads(text) if code == 200 else None

    def version(self, path):
        return self._metadata(path)["resourceVersion"]

    def uid(self, path):
        return self._metadata(path)["uid"]

    def _metadata(self, path):
        found = self.get(path)
        check(found, f"{self.name}: {path} is not there")
        return found["metadata"]


class Conformance:
    """Both servers, the requests so far, and what was found different."""

    def __init__(self, real, emulator):
        self.sides = (real, emulator)
        self.passed, self.differences, self.prefix = 0, [], ""
        self.both = concurrent.futures.ThreadPoolExecutor(2)

    def run(self, group):
        """All its requests; one that cannot go on ends the group and is a difference."""
        self.prefix = group.name
        try:
            group.function(self)
        except (Failure, OSError, ValueError) as trouble:
            self.differences.append(f"{group.name} ends here: {trouble}")

    def ask(self, method, path, body=None, kind=None, user="admin", headers=None, known=None, stored=None):
        """One request to both. body, path: the thing, or a function of the side. stored: where to look afterwards.

        known: {part: reason}, for parts that are known to differ; a part that no longer does is a difference too.
        """
        sent = [(resolve(path, side), resolve(body, side)) for side in self.sides]
        answers = list(self.both.map(lambda side, one: self._send(side, method, *one, kind, user, headers),
                                     self.sides, sent))
        if method != "GET":
            for side, one, answer in zip(self.sides, sent, answers):
                answer["stored"] = self._stored(side, stored or one[0])
        self._compare(f"{method} {sent[0][0]}", sent[0][1], kind, user, answers, known or {})

    def prepare(self, method, path, body=None, kind=JSON):
        """A request that only makes a state; it must succeed on both and is not counted."""
        for side in self.sides:
            code, _, text = side.send(method, resolve(path, side), encoded(resolve(body, side)), {"Content-Type": kind})
            check(code in (200, 201), f"{side.name}: {method} {resolve(path, side)}: {code} {text.decode()}")

    @staticmethod
    def _send(side, method, path, body, kind, user, headers):
        headers, data = dict(headers or {}), encoded(body)
        if data is not None and kind != "":
            headers["Content-Type"] = kind or JSON
        return parts(*side.send(method, path, data, headers, user))

    @staticmethod
    def _stored(side, path):
        path = path.split("?")[0].removesuffix("/status")
        return normal(side.get(path)) if is_item(path) else None

    def _compare(self, request, body, kind, user, answers, known):
        real, emulator = answers
        differing = {part for part in real.keys() | emulator.keys()
                     if real.get(part, MISSING) != emulator.get(part, MISSING)}
        wrong, stale = differing - known.keys(), known.keys() - differing
        if not wrong and not stale:
            self.passed += 1
            return
        text = [f"{self.prefix}: {request} as {user}" + (f" ({kind})" if kind else "")]
        text += [f"  sent      {shown(body)}"] if body is not None else []
        for part in telling(wrong):
            for where, left, right in unequal(real.get(part, MISSING), emulator.get(part, MISSING), part):
                text += [f"  {where}", f"    {self.sides[0].name:9} {shown(left)}",
                         f"    {self.sides[1].name:9} {shown(right)}"]
        text += [f"  {part} no longer differs, although it is listed: {known[part]}" for part in sorted(stale)]
        self.differences.append("\n".join(text))


def resolve(thing, side):
    """Functions of the side are called, anywhere in it."""
    if callable(thing):
        return resolve(thing(side), side)
    if isinstance(thing, dict):
        return {key: resolve(value, side) for key, value in thing.items()}
    if isinstance(thing, list):
        return [resolve(value, side) for value in thing]
    return thing


def encoded(body):
    if body is None or isinstance(body, bytes):
        return body
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def telling(wrong):
    """Of the parts that differ, those that say what is different; the others follow from them."""
    if "code" in wrong:
        return [part for part in ("code", "message", "object", "text") if part in wrong]
    return sorted(wrong - {"message"} if "details" in wrong else wrong - {"stored"} if "object" in wrong else wrong)


def shown(thing):
    text = thing if isinstance(thing, str) else json.dumps(thing, sort_keys=True, default=repr)
    return text if len(text) < 1000 else text[:700] + "..." + text[-200:]


def unequal(left, right, where):
    """(place, left, right) for the smallest parts that differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        return [found for key in sorted(left.keys() | right.keys())
                for found in unequal(left.get(key, MISSING), right.get(key, MISSING), f"{where}.{key}")]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [found for i, pair in enumerate(zip(left, right)) for found in unequal(*pair, f"{where}[{i}]")]
    return [] if left == right else [(where, left, right)]


def is_item(path):
    """Of /api/v1/nodes/n1 the last part is a name, of /api/v1/nodes it is a resource."""
    rest = re.sub(r"^/(api/v1|apis/[^/]+/[^/]+)/", "", path)
    return len(re.sub(r"^namespaces/[^/]+/", "", rest).split("/")) == 2


def parts(code, headers, text):
    """An answer as what is compared."""
    found = {"code": code, "type": headers.get_content_type(), "warnings": sorted(headers.get_all("Warning") or []),
             "retryAfter": headers.get("Retry-After", MISSING)}
    lines = [line for line in text.split(b"\n") if line.strip()]
    if found["type"] != JSON:
        found["text"] = text.decode("utf-8", "replace").strip()
    elif len(lines) > 1 and all(line.startswith(b'{"type":') for line in lines):
        found["events"] = [normal(json.loads(line)) for line in lines]
    else:
        status_or_object(found, json.loads(text) if text.strip() else None)
    return found


def status_or_object(found, thing):
    if isinstance(thing, dict) and set(thing) == {"type", "object"}:
        found["events"] = [normal(thing)]
    elif isinstance(thing, dict) and thing.get("kind") == "Status":
        thing = normal(thing)
        for part in ("status", "reason", "details"):
            found[part] = thing.get(part, MISSING)
        found["message"] = thing.get("message", MISSING)
    else:
        found["object"] = normal(thing)


METADATA = {"uid": "UID", "resourceVersion": "VERSION", "creationTimestamp": "TIME", "deletionTimestamp": "TIME",
            "continue": "CONTINUE"}


def normal(thing):
    """Without what no two servers share."""
    if isinstance(thing, list):
        return [normal(value) for value in thing]
    if isinstance(thing, str):
        for pattern, replacement in WORDS:
            thing = pattern.sub(replacement, thing)
        return thing
    if not isinstance(thing, dict):
        return thing
    found = {key: normal(value) for key, value in thing.items()}
    metadata = found.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
        for key, word in METADATA.items():
            if metadata.get(key):
                metadata[key] = word
        if isinstance(metadata.get("name"), str) and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "RANDOM"
    return plain_node(found) if "daemonEndpoints" in (found.get("status") or {}) else found


def plain_node(node):
    """A Node without what the real server adds: a taint at creation, empty parts of the status."""
    taints = [taint for taint in node["spec"].get("taints") or [] if taint["key"] != "node.kubernetes.io/not-ready"]
    spec = {key: value for key, value in node["spec"].items() if key != "taints"}
    spec |= {"taints": taints} if taints else {}
    status = {key: value for key, value in node["status"].items() if key not in ("daemonEndpoints", "nodeInfo")}
    return node | {"spec": spec, "status": status}
