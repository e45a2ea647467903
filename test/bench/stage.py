# SPDX-License-Identifier: Apache-2.0
"""Where csireg meets the kubelet's packages: a real kube-apiserver if there is one, else the emulated one without them."""
import os
import shutil
import subprocess
import tempfile

from rig import Bench, Peer
from server import Cluster, RealServer

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def why_no_peer():
    """Builds the servers and the peer if need be; None, or why they cannot be had, in one line."""
    done = subprocess.run(["make", "-s", "live-servers", "bench-peer"], cwd=ROOT, capture_output=True, text=True, check=False,
                          env={k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))})
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.split("\n") if line.strip() and not line.startswith("make")]
    return lines[-1].strip() if lines else f"make live-servers bench-peer failed with {done.returncode}"


class Stage:
    """Gives worlds with an API server, and runs the peer in one."""

    def __init__(self, build):
        self.build, self.cluster, self.directory = build, None, None
        self.missing = why_no_peer()
        self.server = "emulated server" if self.missing else "real server"
        self.against = f"no peer: {self.missing}" if self.missing else "peer"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.cluster:
            self.cluster.close()
            shutil.rmtree(self.directory, ignore_errors=True)
        return False

    def world(self):
        """A world with a server in it that no driver was ever on."""
        world = Bench(self.build)
        if self.missing:
            world.server(gate="off")
            return world
        if not self.cluster:
            self.directory = tempfile.mkdtemp(prefix="csrbench", dir="/tmp")
            self.cluster = Cluster(os.path.join(ROOT, "build/live"), self.directory)
        world.api = RealServer(self.cluster, world.directory)
        return world

    def peer(self, count, measure, *flags):
        """What `measure` finds about a peer with drivers for it; None without a peer."""
        if self.missing:
            return None
        with self.world() as world:
            return measure(Peer(world, world.fleet_of(count), *flags))
