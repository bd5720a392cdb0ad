"""Processes of the role `example` that share one ring over Greetings of many namespaces of one workspace: each namespace is a key of the ring
(docs/spec/worker-runtime.md, 8)."""
import unittest

import fault_relay
import kit
import ring_log
import worker


class RingCase(unittest.TestCase):
    NAMESPACES = [f"n{number}" for number in range(24)]
    LEASE = {"lease": {"duration": "5s", "give_up": "3s", "renew": "1s"}}
    LEASES = "/clusters/root:leases-root"

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1).start_for(cls)
        cls.stage = type("Stage", (worker.Stage,), {"SHARDS": ("root",)})(cls.installation)
        cls.client = cls.stage.consumers["root"]
        for namespace in cls.NAMESPACES:
            cls.client.must("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            cls.client.must("POST", cls.path(namespace), cls.stage.greeting("one", "0"))

    @staticmethod
    def path(namespace, name=""):
        return worker.GREETINGS.replace("/default/", f"/{namespace}/") + (f"/{name}" if name else "")

    def says(self, namespace, who, name="one"):
        self.client.must("PATCH", self.path(namespace, name), {"spec": {"name": who}}, headers={"Content-Type": "application/merge-patch+json"})

    def message(self, namespace, name="one"):
        return self.client.must("GET", self.path(namespace, name)).get("status", {}).get("message")

    def setUp(self):
        self.members = []  # all that there were: (worker, its relay)

    def joins(self):
        """A worker that sends everything through a relay of its own."""
        relay = fault_relay.Relay(self.installation, worker.USER).start_for(self)
        one = worker.Worker(self.stage, more=self.LEASE, server=relay.url).__enter__()
        self.addCleanup(one.__exit__)
        self.members.append((one, relay))
        one.until_ready(60)
        return one

    @staticmethod
    def owned(one):
        return one.metric("ring_partitions_owned")

    def shared_by(self, *workers):
        def shared():
            each = [self.owned(one) for one in workers]
            assert min(each) > 0 and sum(each) == ring_log.PARTITIONS, each
            return True

        kit.eventually(shared, 60, "the ring is theirs")

    def leases(self):
        return self.installation.client(self.LEASES).must("GET", "/apis/coordination.k8s.io/v1/namespaces/kintsugi-system/leases")["items"]
