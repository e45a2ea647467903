# SPDX-License-Identifier: Apache-2.0
"""What the API server may do to us: refuse, be slow, lose answers, talk nonsense, change credentials.

    rule                                                   scenario
    5.1 API not usable: the attempt waits                  unusable (one per kind), down_at_start
    5.1 Retry-After is a lower bound                       retry_after
    5.1 lost answer: GET, compare, go on                   lost_answer
    5.1 2xx with another body counts as not done           nonsense_with_200
    5.1 conflicts outlast the deadline: nothing removed    endless_conflicts
    5.1 400, 403, 422 are persistent                       refused_writes
    5.5 404 of the resource type is persistent             resource_type_unknown
    5.5 POST AlreadyExists                                 created_by_somebody_else
    9.2 Node created anew                                  node_recreated
    9.6 API lost while registered                          (test_unregister.api_down)
    9.7 credentials read again                             token_rotated
    10 403 has verb, resource, user                        refused_writes
"""
import json
import os

from procs import check, equal, until
from runner import scenario

NAME = "a.example.com"
WRITES = {"resource": "csinodes"}


def waits_then_registers(w, action, match=None, after=None, flags=()):
    """Under a rule the driver's attempt waits in step 5, unnotified; without it the driver is registered."""
    w.server()
    rule = w.api.rule(action, match)
    agent = w.agent(*flags)
    driver = w.driver(NAME, node_id="i-1")
    agent.wait("the API is missed", lambda s: s["api"]["state"] == "waiting" and s["api"].get("lastError"))
    other = w.driver("b.example.com", node_id="i-2")
    other.wait_call("NodeGetInfo")
    equal(driver.notifications() + other.notifications(), [], "notifications while the API is not usable")
    if after:
        after(agent)
    w.api.unrule(rule)
    driver.wait_notified(True)
    other.wait_notified(True)
    equal(len(driver.calls("GetInfo")), 1, "attempts")
    agent.wait("the API is fine", lambda s: s["api"]["state"] == "ok")
    return agent


@scenario
def unusable_503(w):
    """5.1: 503 on everything: the attempt waits, no notification, one attempt in all."""
    waits_then_registers(w, {"status": 503, "reason": "ServiceUnavailable", "message": "starting up"})


@scenario
def unusable_500_without_a_reason(w):
    """5.1: 500 as the storage layer gives it."""
    waits_then_registers(w, {"status": 500, "message": "leader changed"}, {"resource": "nodes"})


@scenario
def unusable_429_as_text(w):
    """5.1: the overload filter's answer is no Status."""
    waits_then_registers(w, {"status": 429, "body": "text", "message": "Too many requests, please try again later."})


@scenario
def unusable_401(w):
    """5.1: 401: the credentials may come back."""
    waits_then_registers(w, {"unauthorized": True})


@scenario
def unusable_hanging(w):
    """5.1: no answer: the request ends at its own deadline, the attempt goes on waiting."""
    waits_then_registers(w, {"hang": True}, flags=("--request-timeout=200ms",))


@scenario
def unusable_cut(w):
    """5.1: connections that break before the answer."""
    waits_then_registers(w, {"cut": {"at": "afterRead", "how": "rst"}})


@scenario
def down_at_start(w):
    """5.1: the server cannot be connected to; nobody is notified of false, drivers wait and register when it is there."""
    w.server()
    w.api.net(refuse=True)
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1")
    agent.wait("the API is missed", lambda s: s["api"]["state"] == "waiting")
    equal(driver.notifications(), [], "notifications")
    w.api.net(refuse=False)
    driver.wait_notified(True)


@scenario
def retry_after(w):
    """5.1: Retry-After is a lower bound for the next try."""
    w.server()
    w.api.rule({"status": 429, "reason": "TooManyRequests", "retryAfter": 2}, {"resource": "nodes"}, count=1)
    w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    first, second = [r for r in w.api.log() if r["path"] == "/api/v1/nodes/n1"][:2]
    check(second["startNs"] - first["endNs"] >= 2_000_000_000, f"{(second['startNs'] - first['endNs']) / 1e9} s")


@scenario
def lost_answer(w):
    """5.1: the write was stored and the answer lost: read, compare, go on; one version, one entry."""
    w.server()
    w.api.rule({"cut": {"at": "afterCommit", "how": "rst"}}, {"verb": "create", "resource": "csinodes"}, count=1)
    w.api.rule({"cut": {"at": "afterCommit", "how": "rst"}}, {"verb": "patch", "resource": "nodes"}, count=1)
    w.agent()
    driver = w.driver(NAME, node_id="i-1", topology={"x/y": "z"})
    driver.wait_notified(True)
    equal([ok for ok, _ in driver.notifications()], [True], "notifications")
    equal(len(w.api.history("csinodes")), 1, "versions")


def nonsense(w, body):
    w.server()
    w.api.rule({"status": 200, "body": body}, {"resource": "csinodes"}, count=2)
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(True)
    equal([ok for ok, _ in driver.notifications()], [True], "notifications")
    equal(list(w.api.drivers()), [NAME], "drivers")
    return agent


@scenario
def html_with_200(w):
    """5.1: HTML with 200 is no answer; read again and go on."""
    nonsense(w, "html")


@scenario
def truncated_with_200(w):
    """5.1: truncated JSON with 200."""
    nonsense(w, "truncated")


@scenario
def empty_with_200(w):
    """5.1: an empty body with 200."""
    nonsense(w, "empty")


@scenario
def garbage_with_200(w):
    """5.1: garbage with 200."""
    nonsense(w, "garbage")


@scenario
def another_kind_with_200(w):
    """5.1: another object than the one asked for."""
    w.server()
    w.api.rule({"respond": {"kind": "Status", "apiVersion": "v1", "status": "Success"}}, {"resource": "csinodes"}, count=2)
    w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    equal(list(w.api.drivers()), [NAME], "drivers")


@scenario
def nonsense_for_ever(w):
    """5.1: nonsense to the end of publish-timeout fails the attempt, transiently, and says what was received."""
    w.server()
    rule = w.api.rule({"status": 200, "body": "html"}, {"resource": "csinodes"})
    agent = w.agent("--publish-timeout=500ms")
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(False, "CSINode")
    equal(agent.wait_error(NAME, "CSINode")["class"], "transient", "class")
    w.api.unrule(rule)
    driver.wait_notified(True)


@scenario
def endless_conflicts(w):
    """5.1, 3.7: conflicts to the end of publish-timeout fail the attempt with code and tries; nothing is removed."""
    w.server()
    w.api.write_csinode(drivers=[{"name": "z.example.com", "nodeID": "z"}])
    rule = w.api.rule({"conflict": {}}, {"verb": "update", "resource": "csinodes"})
    agent = w.agent("--publish-timeout=500ms")
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(False, "409")
    equal(agent.wait_error(NAME, "409")["class"], "transient", "class")
    w.api.unrule(rule)
    driver.wait_notified(True)
    equal(set(w.api.drivers()), {NAME, "z.example.com"}, "drivers")


@scenario
def refused_writes(w):
    """5.1, 10: 403 and 422 are persistent; the message has the server's words: verb, resource and user."""
    w.server()
    words = 'csinodes.storage.k8s.io is forbidden: User "system:node:n1" cannot create resource "csinodes"'
    rule = w.api.rule({"status": 403, "reason": "Forbidden", "message": words}, {"verb": "create", "resource": "csinodes"})
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(False, words)
    equal(agent.wait_error(NAME, words)["class"], "persistent", "class")
    w.api.unrule(rule)
    w.api.rule({"status": 422, "reason": "Invalid", "message": "spec is wrong"}, {"verb": "create", "resource": "csinodes"})
    w.driver("b.example.com", node_id="i-2").wait_notified(False, "422", "spec is wrong")


@scenario
def resource_type_unknown(w):
    """5.5: a server without the resource is not one without the object: persistent, nothing is created."""
    w.server()
    w.api.rule({"status": 404, "body": "text", "message": "404 page not found"}, {"resource": "csinodes"})
    agent = w.agent()
    driver = w.driver(NAME, node_id="i-1")
    driver.wait_notified(False, "404")
    equal(agent.wait_error(NAME, "404")["class"], "persistent", "class")
    check(all(r["method"] == "GET" for r in w.api.log()), "something was written")


@scenario
def created_by_somebody_else(w):
    """5.5: POST answers AlreadyExists: read and go on."""
    w.server()
    slow = w.api.rule({"delayMs": 1000}, {"verb": "create", "resource": "csinodes"}, count=1)
    w.agent()
    driver = w.driver(NAME, node_id="i-1")
    until("the creation is on its way", lambda: w.api.hits(slow))
    w.api.write_csinode(drivers=[{"name": "z.example.com", "nodeID": "z"}])
    driver.wait_notified(True)
    equal(set(w.api.drivers()), {NAME, "z.example.com"}, "drivers")


@scenario
def node_recreated(w):
    """9.2: the Node is made anew with another uid: the object is replaced and refilled without touching a plugin."""
    w.server()
    w.agent("--verify-interval=200ms")
    first = w.driver(NAME, node_id="i-1", topology={"x/y": "z"})
    first.wait_notified(True)
    w.api.delete("nodes", "n1")
    w.api.put("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    uid = w.api.node()["metadata"]["uid"]
    w.api.wait("the CSINode belongs to the new Node", lambda api: api.owner() == uid)
    w.api.wait("everything is there again", lambda api: list(api.drivers()) == [NAME] and api.labels().get("x/y") == "z"
               and api.annotation() == {NAME: "i-1"})
    equal(len(first.calls("GetInfo")), 1, "GetInfo calls")


@scenario
def token_rotated(w):
    """9.7: a token file is read again after a 401; the old token reaches nobody."""
    w.server()
    token = w.path("token")
    with open(w.api.kubeconfig, encoding="utf-8") as file:
        text = file.read()
    user = next(line for line in text.split("\n") if "token:" in line)
    old = user.split("token:")[1].strip().strip('"')
    write(token, old)
    changed = text.replace(user, user.split("token:")[0] + "tokenFile: " + token)
    w.api.kubeconfig = w.path("with-file.kubeconfig")
    write(w.api.kubeconfig, changed)
    w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    w.api.auth(add=[{"token": "new-token", "user": "system:node:n1", "groups": ["system:nodes"]}], revoke=[old])
    write(token, "new-token")
    w.driver("b.example.com", node_id="i-2").wait_notified(True)
    equal(len(w.api.drivers()), 2, "drivers")


def write(path, text):
    """Replaces a file as a volume mount does: in one step."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


@scenario
def requests_are_quiet_about_secrets(w):
    """Security: neither token nor authorization header is in any log line, at any level."""
    w.server()
    agent = w.agent()
    w.driver(NAME, node_id="i-1").wait_notified(True)
    with open(w.api.kubeconfig, encoding="utf-8") as file:
        token = next(line for line in file if "token:" in line).split("token:")[1].strip().strip('"')
    check(len(token) > 8, "no token in the kubeconfig")
    for line in agent.process.output():
        check(token not in line and "bearer" not in line.lower(), f"a secret in: {line[:80]}")
    check(token not in json.dumps(agent.status()), "a secret in the status")
