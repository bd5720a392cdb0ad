"""What takes workers a while to notice: one that sleeps, a Lease that is gone (docs/spec/worker-runtime.md)."""
import signal
import unittest

import kit
import worker

ONLY_WITH_ALL = "Leases end by time"


class Long(worker.Case):
    def test_RT_T052_a_worker_that_was_stopped_writes_nothing_when_it_wakes(self):
        with worker.Worker(self.stage) as one, worker.Worker(self.stage) as two:
            one.until_ready()
            two.until_ready()
            kit.eventually(lambda: two.metric("ring_partitions_owned") > 900, 40, "the second owns its share")
            one.process.send_signal(signal.SIGSTOP)
            kit.eventually(lambda: two.metric("ring_partitions_owned") == 3 * 1024, 60, "the second owns all")
            reads = [self.greet(shard, "awake", shard) for shard in self.stage.SHARDS]
            for shard, read in zip(self.stage.SHARDS, reads):
                self.expect(read, shard)
            revisions = [self.stage.consumers[shard].must("GET", f"{worker.GREETINGS}/awake")["metadata"]["resourceVersion"]
                         for shard in self.stage.SHARDS]  # fmt: skip
            one.process.send_signal(signal.SIGCONT)
            one.until_ready()
            self.assertEqual(revisions, [self.stage.consumers[shard].must("GET", f"{worker.GREETINGS}/awake")["metadata"]["resourceVersion"]
                                         for shard in self.stage.SHARDS])  # fmt: skip

    def test_RT_T054_leases_that_are_deleted_come_back_with_higher_epochs(self):
        leases = "/apis/coordination.k8s.io/v1/namespaces/kintsugi-system/leases"
        admin = self.installation.client("/clusters/root:leases-root")
        with worker.Worker(self.stage) as one:
            one.until_ready()

            def member():
                names = [item for item in admin.must("GET", leases)["items"]
                         if item["metadata"]["name"].startswith("ring-example-") and "coordinator" not in item["metadata"]["name"]
                         and item["spec"].get("holderIdentity")]  # fmt: skip
                return next((item for item in names if str(one.process.pid) in item["spec"]["holderIdentity"]), None)

            before = kit.eventually(member, 20, "its Lease")
            admin.must("DELETE", f"{leases}/{before['metadata']['name']}")
            after = kit.eventually(lambda: (found := member()) and found["metadata"]["uid"] != before["metadata"]["uid"] and found, 60,
                                   "a new Lease")  # fmt: skip
            self.assertGreater(after["spec"]["leaseTransitions"], before["spec"].get("leaseTransitions", 0))
            one.until_ready(60)
            self.expect(self.greet("root", "again", "again"), "again", 60)


if __name__ == "__main__":
    unittest.main()
