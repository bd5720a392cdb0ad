"""A worker of two roles for tests: a process each under one that supervises."""
import json
import os
import pathlib
import signal
import unittest

import kit
import worker


def children(pid):
    """Processes of this parent by their role."""
    found = {}
    for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = pathlib.Path(f"/proc/{each}/cmdline").read_bytes().decode().split("\0")
        [role] = [word.partition("=")[2] for word in words if word.startswith("--roles=")]
        found[role] = int(each)
    return found


class Case(unittest.TestCase):
    """`example` works; `messaging` is told of a slice that is not there."""

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1).start_for(cls)
        cls.stage = type("Stage", (worker.Stage,), {"SHARDS": ("root",)})(cls.installation)
        cls.one = worker.Worker(cls.stage)
        config = json.loads(cls.one.config.read_text())
        config["roles"]["messaging"] = {"endpoints": {"cluster": "root:greetings", "name": "not-there"}, "lease_clusters": ["root:leases-root"]}
        cls.one.config.write_text(json.dumps(config))
        cls.one.role = "example,messaging"
        cls.one.__enter__()
        cls.addClassCleanup(cls.one.__exit__)
        kit.eventually(lambda: cls.one.ask("/readyz/example")[0] == 200, 40, "the role that can work does")

    def greet(self, name):
        client = self.stage.consumers["root"]
        client.must("POST", worker.GREETINGS, self.stage.greeting(name, name))
        kit.eventually(lambda: client.must("GET", f"{worker.GREETINGS}/{name}").get("status", {}).get("message"), 20, f"hello to {name}")

    def leases(self):
        path = "/apis/coordination.k8s.io/v1/namespaces/kintsugi-system/leases"
        items = self.installation.client("/clusters/root:leases-root").must("GET", path)["items"]
        return {one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"].get("holderIdentity"), one["spec"].get("leaseTransitions")) for one in items}

    def kill(self, role):
        pid = children(self.one.process.pid)[role]
        os.kill(pid, signal.SIGKILL)
        return pid

    def another(self, role, than):
        return kit.eventually(lambda: (pid := children(self.one.process.pid).get(role)) and pid != than and pid, 20, f"another process of {role}")
