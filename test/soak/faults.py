# SPDX-License-Identifier: Apache-2.0
"""What the API server does to the agent during a soak: fault rules, the network, watches, credentials."""
import os

NODE = {"user": "system:node:n1", "groups": ["system:nodes"]}
CALM = {"refuse": False, "blackhole": False, "tlsFail": False, "acceptDelayMs": 0}

ACTIONS = (
    {"status": 500}, {"status": 503, "reason": "ServiceUnavailable"}, {"status": 429, "retryAfter": 1}, {"plain429": True},
    {"status": 200, "body": "html"}, {"status": 200, "body": "garbage"}, {"status": 200, "body": "truncated"},
    {"status": 200, "body": "empty"}, {"respond": {"kind": "Status", "apiVersion": "v1", "status": "Success"}},
    {"delayMs": 300}, {"hang": True}, {"unauthorized": True}, {"commitThenStatus": 500}, {"commitThenStatus": 504},
    {"cut": {"at": "afterRead", "how": "rst"}}, {"cut": {"at": "afterCommit", "how": "rst"}},
    {"cut": {"at": "afterCommit", "how": "fin"}}, {"cut": {"at": "header", "how": "fin"}},
    {"cut": {"bytes": 40, "how": "rst"}}, {"conflict": {}}, {"warning": "this will go away"},
)
REFUSALS = ({"status": 403, "reason": "Forbidden", "message": "no"}, {"status": 422, "reason": "Invalid", "message": "no"})
MATCHES = ({}, {"resource": "csinodes"}, {"resource": "nodes"}, {"resource": "csidrivers"}, {"verb": "update"},
           {"verb": "patch"}, {"verb": "get"}, {"verb": "create"})
WATCHES = (("close", {"how": "rst"}), ("close", {"midFrame": True}), ("close", {}), ("expire", {}), ("garbage", {}),
           ("bookmark", {}), ("duplicate", {"count": 2}), ("stall", {"ms": 2000}))


class Credentials:
    """Files that the agent reads: a token and a client certificate, of which one kind is good at a time."""

    def __init__(self, world):
        self.world, self.api = world, world.api
        self.token_file, self.number, self.rotations = world.path("token"), 0, 0
        self.kubeconfig = world.path("soak.kubeconfig")
        with open(self.api.kubeconfig, encoding="utf-8") as file:
            text = file.read()
        user = next(line for line in text.split("\n") if "token:" in line)
        self.token = user.split("token:")[1].strip().strip('"')
        self.kind = "token"
        replace(self.token_file, self.token)
        self.issue()
        self.api.auth(clientCA="new")  # the certificate is no good until it is its turn
        indent = user.split("token:")[0].replace("-", " ")
        lines = [f"{user.split('token:')[0]}tokenFile: {self.token_file}", f"{indent}client-certificate: {world.path('crt')}",
                 f"{indent}client-key: {world.path('key')}"]
        replace(self.kubeconfig, text.replace(user, "\n".join(lines)))
        self.api.kubeconfig = self.kubeconfig

    def issue(self):
        made = self.api.told("POST", "/auth", {"issue": NODE})
        replace(self.world.path("key"), made["key"])
        replace(self.world.path("crt"), made["cert"])

    def renew_token(self):
        """The new one is in the file before the old one ends, or after."""
        old, self.number = self.token, self.number + 1
        self.token = f"soak-token-{self.number}-{os.urandom(8).hex()}"
        self.api.auth(add=[{"token": self.token} | NODE], revoke=[old])
        replace(self.token_file, self.token)

    def renew_certificate(self):
        self.api.auth(clientCA="new")
        self.issue()

    def rotate(self, rng):
        """Another of the same kind, or the other kind."""
        self.rotations += 1
        if rng.random() < 0.3:
            self.kind = "certificate" if self.kind == "token" else "token"
            if self.kind == "certificate":
                self.renew_certificate()
                self.api.auth(revoke=[self.token])
            else:
                self.renew_token()
                self.api.auth(clientCA="new")
        elif self.kind == "token":
            self.renew_token()
        else:
            self.renew_certificate()

    def secrets(self):
        return [self.token]


def replace(path, text):
    """As a volume mount does: in one step."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)


class Faults:
    """Begins one fault at a time or several; each ends at its time, and all of them when the server is to be good."""

    def __init__(self, world, rng, credentials, refusals):
        """refusals: with 403 and 422, after which drivers wait for two minutes."""
        self.api, self.rng, self.credentials, self.refusals = world.api, rng, credentials, 4 if refusals else 0
        self.running, self.counts = [], {}

    def count(self, kind):
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def step(self, now):
        for until, end in [r for r in self.running if r[0] <= now]:
            self.running.remove((until, end))
            end()
        if self.rng.random() < 0.25:
            kind = self.rng.choices(["rule", "network", "watch", "rotation", "certificate", "refusal", "compact"],
                                    [40, 15, 15, 12, 8, self.refusals, 6])[0]
            self.count(kind)
            getattr(self, kind)(now)

    def rule(self, now, actions=ACTIONS, seconds=4):
        number = self.api.rule(self.rng.choice(actions), self.rng.choice(MATCHES) | {"user": NODE["user"]})
        self.running.append((now + self.rng.uniform(0.3, seconds), lambda: self.api.unrule(number)))

    def refusal(self, now):
        self.rule(now, REFUSALS, 1)

    def network(self, now):
        what = self.rng.choice([{"refuse": True}, {"blackhole": True}, {"tlsFail": True}, {"acceptDelayMs": 500}, {"resetAll": True}])
        self.api.net(**what)
        self.running.append((now + self.rng.uniform(0.3, 5), lambda: self.api.net(**{k: CALM[k] for k in what if k in CALM})))

    def watch(self, _):
        name, body = self.rng.choice(WATCHES)
        self.api.told("POST", "/watches/" + name, body)

    def rotation(self, _):
        self.credentials.rotate(self.rng)

    def certificate(self, now):
        """The server's own: renewed, or bad for a while."""
        self.api.net(serverCert=self.rng.choice(["good", "expired", "wrongName", "untrusted"]), resetAll=True)
        self.running.append((now + self.rng.uniform(0.3, 4), lambda: self.api.net(serverCert="good")))

    def compact(self, _):
        self.api.told("POST", "/compact", {"resource": "csidrivers"})

    def stop(self):
        for _, end in self.running:
            end()
        self.running = []
        self.api.told("DELETE", "/rules")
        self.api.net(**CALM)
        self.api.told("POST", "/watches/stall", {"release": True})
