"""Infras that go from one worker to another: who has connections to their components (docs/spec/worker-runtime.md, RT-65)."""
import unittest

import amqp
import kit
import messaging_faults
import messaging_stage
import worker


class Handover(unittest.TestCase):
    """Many infras, each a partition of its own, on one router."""

    COUNT = 8

    @classmethod
    def setUpClass(cls):
        cls.stage = messaging_stage.Stage(kit.Installation(shards=1).start_for(cls), ("root",))
        cls.tenant = messaging_stage.Tenant(cls.stage.consumers["root"])

    def worker(self):
        return worker.Worker(self.stage, role="messaging", more=messaging_faults.LEASE)

    def test_MS_RT_65_connections_end_before_another_worker_begins_with_them(self):
        router = amqp.Router("r2", hazards=False).start_for(self)
        for number in range(self.COUNT):
            kind, body = messaging_stage.infra([router], [], name=f"some{number}")
            self.tenant.make(kind, body)

        def have(*workers):
            """How many connections each has; all are there."""
            each = [messaging_faults.connections(one.process.pid, router.port) for one in workers]
            return sum(each) == self.COUNT and (each,)

        with self.worker() as one:
            one.until_ready()
            kit.eventually(lambda: have(one), 40, "one worker has all")
            kit.eventually(lambda: router.dump()["most"] == {"kintsugi-root": self.COUNT}, 20, "the router knows all of them")
            with self.worker() as two:
                kit.eventually(lambda: all(each.metric("ring_partitions_owned") > 300 for each in (one, two)), 40, "both own")
                [(_, theirs)] = kit.eventually(lambda: have(one, two), 20, "they share them")
                self.assertGreater(theirs, 0, "none of eight went over")
                self.assertEqual(one.stop(), 0)
                kit.eventually(lambda: have(two), 40, "the other has all")
                self.assertEqual(router.dump()["most"], {"kintsugi-root": self.COUNT})


if __name__ == "__main__":
    unittest.main()
