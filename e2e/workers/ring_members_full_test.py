"""How many keys each member of a ring has, and when it gets those of another, by the tables of the ring over real processes
(docs/spec/worker-runtime.md, 8). The same rules over thousands of steps are in the simulation of workers/runtime/ring."""
import collections
import datetime
import math
import signal
import time
import unittest

import kit
import ring_case
import ring_log
import worker

ONLY_WITH_ALL = "seventeen workers join, and a ring is looked at for minutes"


def of_process(table, one):
    """The partitions that are this worker's: {number: epoch}."""
    return {number: epoch for number, (owner, epoch) in enumerate(table.owners) if owner and ring_log.process(owner) == one.process.pid}


class Case(ring_case.RingCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster = cls.client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]

    def joins(self):
        one = worker.Worker(self.stage, more=self.LEASE).__enter__()
        self.addCleanup(one.__exit__)
        return one.until_ready(60)

    def log(self):
        return ring_log.Log(self.installation.client(self.LEASES), "example")

    def keys_of(self, table):
        """How many keys each owner has."""
        return collections.Counter(table.owners[ring_log.partition_of(f"{self.cluster}|{one}")][0] for one in self.NAMESPACES)


class Members(Case):
    NAMESPACES = [f"n{number}" for number in range(100)]

    def test_RT_T060_a_hundred_keys_over_one_two_and_three_workers(self):
        log = self.log()
        workers = [self.joins()]
        self.shared_by(*workers)
        for members in (2, 3):
            before = log.settled()
            workers.append(self.joins())
            self.shared_by(*workers)
            after = log.settled()
            moved = sum(was[0] != now[0] for was, now in zip(before.owners, after.owners))
            self.assertLessEqual(moved, ring_log.PARTITIONS * (0.6 if members == 2 else 0.4))
            limit = math.ceil(1.25 * len(self.NAMESPACES) / members)

            def even(limit=limit, members=members):
                keys = self.keys_of(log.tables()[-1])
                assert len(keys) == members and max(keys.values()) <= limit, keys
                return True

            kit.eventually(even, 90, f"at most {limit} keys at each of {members}")
        log.proves()

    def test_RT_T056_a_worker_that_starts_again_at_once_is_another_member(self):
        log = self.log()
        one, two = self.joins(), self.joins()
        self.shared_by(one, two)
        had, before = of_process(log.settled(), one), one.process.pid
        one.process.kill()
        one.process.wait(120)
        one.start()  # the same folder, the same configuration
        self.assertNotEqual(one.process.pid, before)
        one.until_ready(60)
        self.shared_by(one, two)
        now = log.settled()
        self.assertTrue(had and of_process(now, one))
        for number, epoch in had.items():
            self.assertGreater(now.owners[number][1], epoch, number)
        log.proves()

    def test_RT_T064_what_a_stopped_owner_is_to_hand_over_stays_its_until_its_lease_has_expired(self):
        log = self.log()
        one, two = self.joins(), self.joins()
        self.shared_by(one, two)
        before = log.settled()
        [holder] = [lease["spec"]["holderIdentity"] for lease in self.leases() if lease["metadata"]["name"] == "ring-example-coordinator"]
        stopped = next(each for each in (one, two) if each.process.pid != ring_log.process((holder, "")))
        had = of_process(before, stopped)
        stopped.process.send_signal(signal.SIGSTOP)
        self.addCleanup(stopped.process.send_signal, signal.SIGCONT)
        third = self.joins()
        [renewed] = [lease["spec"]["renewTime"] for lease in self.leases()
                     if (who := lease["spec"].get("holderIdentity", "")).count("-") >= 2 and ring_log.process((who, "")) == stopped.process.pid]
        expires = datetime.datetime.fromisoformat(renewed.replace("Z", "+00:00")).timestamp() + 5
        self.assertLess(time.time(), expires - 0.5, "too late to see anything")
        asked = 0
        while (left := expires - 0.3 - time.time()) > 0:
            table = log.tables()[-1]
            self.assertEqual(of_process(table, stopped), had)
            asked = max(asked, table.moving)
            time.sleep(min(0.05, left))
        self.assertTrue(asked, "nothing was to be handed over")
        running = next(each for each in (one, two) if each is not stopped)
        self.shared_by(running, third)
        after = log.settled()
        self.assertTrue(all(after.owners[number][1] > epoch for number, epoch in had.items()))
        log.proves()

    def test_RT_T065_seventeen_workers_all_have_something(self):
        log = self.log()
        workers = [self.joins() for _ in range(17)]
        self.shared_by(*workers)
        limit = math.ceil(1.25 * ring_log.PARTITIONS / 17)

        def even():
            each = [len(of_process(log.tables()[-1], one)) for one in workers]
            assert min(each) > 20 and max(each) <= limit, each
            return True

        kit.eventually(even, 90, f"at most {limit} at each")  # who is above it for a minute is relieved
        log.proves()


class HotPartition(Case):
    """500 of 1,000 keys in one partition."""

    NAMESPACES = []  # found below, as they depend on the cluster

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        names = (f"k{number}" for number in range(10**7))
        hot, others = [], []
        while len(hot) < 500:
            name = next(names)
            partition = ring_log.partition_of(f"{cls.cluster}|{name}")
            if partition == 77:
                hot.append(name)
            elif len(others) < 500:
                others.append(name)
        cls.NAMESPACES = hot + others
        for namespace in cls.NAMESPACES:
            cls.client.must("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
            cls.client.must("POST", cls.path(namespace), cls.stage.greeting("one", "0"))

    def test_RT_T066_the_rest_is_spread_and_nothing_moves_to_and_fro(self):
        log = self.log()
        workers = [self.joins(), self.joins(), self.joins()]
        self.shared_by(*workers)

        def spread():
            keys = self.keys_of(log.tables()[-1])
            assert sorted(keys.values())[-1] <= 500 and len(keys) == 3, keys
            return True

        kit.eventually(spread, 150, "whoever has the hot partition has nothing else")
        log.settled()
        log.proves()
        table = self.installation.client(self.LEASES + f"{ring_log.MAPS}/ring-example")
        kit.stays(lambda: (table.must("GET", "")["metadata"]["resourceVersion"], [self.owned(one) for one in workers]), 120)


if __name__ == "__main__":
    unittest.main()
