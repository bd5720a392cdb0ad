"""Workers that share the keys of three shards, and what becomes of them when one ends or dies (docs/spec/worker-runtime.md)."""
import unittest

import kit
import worker


class Takeover(worker.Case):
    def test_RT_T050_two_workers_share_the_keys(self):
        with worker.Worker(self.stage) as one, worker.Worker(self.stage) as two:
            one.until_ready()
            two.until_ready()
            kit.eventually(lambda: all(each.metric("ring_partitions_owned") > 3 * 300 for each in (one, two)), 40, "both own")
            self.assertEqual(one.metric("ring_partitions_owned") + two.metric("ring_partitions_owned"), 3 * 1024)
            for shard in self.stage.SHARDS:
                self.expect(self.greet(shard, "shared", shard), shard)

    def test_RT_T051_a_killed_worker_is_succeeded_after_its_lease(self):
        with worker.Worker(self.stage) as one, worker.Worker(self.stage) as two:
            one.until_ready()
            two.until_ready()
            kit.eventually(lambda: two.metric("ring_partitions_owned") > 900, 40, "the second owns its share")
            one.process.kill()
            kit.eventually(lambda: two.metric("ring_partitions_owned") == 3 * 1024, 40, "the second owns all")
            for shard in self.stage.SHARDS:
                self.expect(self.greet(shard, "orphan", shard), shard)

    def test_RT_T004_a_worker_that_ends_hands_over_at_once(self):
        with worker.Worker(self.stage) as one, worker.Worker(self.stage) as two:
            one.until_ready()
            two.until_ready()
            kit.eventually(lambda: two.metric("ring_partitions_owned") > 900, 40, "the second owns its share")
            self.assertEqual(one.stop(), 0)
            clock = kit.Clock()
            kit.eventually(lambda: two.metric("ring_partitions_owned") == 3 * 1024, 30, "the second owns all")
            self.assertLess(clock.spent(), 13, "nobody waited for a Lease to expire")


if __name__ == "__main__":
    unittest.main()
