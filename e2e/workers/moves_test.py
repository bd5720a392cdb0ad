"""A logical cluster moves between shards under a worker: one of the units acts for it at any time (docs/spec/worker-runtime.md)."""
import time
import unittest

import fault_relay
import kit
import worker

MERGE = {"Content-Type": "application/merge-patch+json"}


class Moves(worker.Case):
    def setUp(self):
        self.relay = fault_relay.Relay(self.installation, worker.USER).start_for(self)

    def consumer(self, name, shard):
        self.installation.make_workspace(name, selector={"name": shard})
        client = self.stage.bind(name)
        return client, client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]

    def patched(self, shard, cluster, since):
        """Writes of the worker to Greetings of the cluster at a shard."""
        return [one for one in self.relay.asked(f"/shards/{shard}/", f"/clusters/{cluster}/", "/greetings/", "/status", since=since)
                if 200 <= one[2] < 300]

    def test_RT_T016_one_unit_acts_for_a_cluster_that_moves_and_comes_back(self):
        """RT-14: the origin goes on to show what has left it; whose it is says the proxy."""
        client, cluster = self.consumer("mover", "shard-1")
        client.must("POST", worker.GREETINGS, self.stage.greeting("one", "first"))

        def read():
            answer = client.get(f"{worker.GREETINGS}/one")
            assert answer.status == 200, answer
            return answer.json.get("status", {}).get("message")

        def say(who):
            kit.eventually(lambda: client.request("PATCH", f"{worker.GREETINGS}/one", {"spec": {"name": who}}, headers=MERGE).status == 200,
                           30, f"{who} is written")
            self.expect(read, who, 30)

        with worker.Worker(self.stage, server=self.relay.url) as one:
            one.until_ready()
            self.expect(read, "first")
            self.assertEqual(one.metric("unit_duplicate_cluster_total"), 0)
            self.relay.rule("GET /shards/shard-1/", "/greetings", line=lambda said: said if b'"DELETED"' not in said or
                            cluster.encode() not in said else b"")  # fmt: skip
            worker.move(self.installation, "there", cluster, "shard-2")
            kit.eventually(lambda: one.metric("unit_duplicate_cluster_total") == 1, 30, "two units show it")
            since = time.monotonic()
            say("second")
            self.assertEqual(self.patched("shard-1", cluster, since), [])
            # The relay notes what was answered after it has passed it on.
            kit.eventually(lambda: self.patched("shard-2", cluster, since), 10, "what was written is noted")
            self.assertEqual(len(self.patched("shard-2", cluster, since)), 1)
            self.relay.clear()
            worker.move(self.installation, "back", cluster, "shard-1")
            since = time.monotonic()
            say("third")
            self.assertEqual(self.patched("shard-2", cluster, since), [])
            # The relay notes what was answered after it has passed it on.
            kit.eventually(lambda: self.patched("shard-1", cluster, since), 10, "what was written is noted")
            self.assertEqual(len(self.patched("shard-1", cluster, since)), 1)
            # Others were not held up, and what is deleted is gone.
            self.expect(self.greet("shard-2", "beside", "beside"), "beside")
            self.assertEqual(one.stop(), 0)


if __name__ == "__main__":
    unittest.main()
