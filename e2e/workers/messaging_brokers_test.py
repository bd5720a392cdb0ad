"""Real brokers that lose everything, are full, or are told of other settings for many queues at once (docs/spec/messaging.md)."""
import json
import os
import time
import unittest

import kit
import messaging
import messaging_addresses

ONLY_WITH_ALL = "fills brokers, ends them and waits for deadlines"
SMALL = 200_000
COUNT = int(os.environ.get("KINTSUGI_ADDRESSES", "100"))


def setUpModule():
    # Thousands of queues in the heap of a hundred: the broker collects garbage instead of answering.
    messaging_addresses.begin(sizes=(SMALL, messaging_addresses.SIZE), memory=192 + COUNT // 12)


class Brokers(messaging_addresses.Case):
    """One router; the first broker is full with 200 kB."""

    CHECKS = {"counters": "1s", "sweep": "1h"}
    PATIENCE = messaging_addresses.patience(COUNT)

    @classmethod
    def infras(cls):
        cls.infra("pair", 1, cls.brokers, brokers={"queueMemory": "64Mi"})
        cls.infra("large", 1, cls.brokers[1:])

    def setUp(self):
        self.small, self.large = self.brokers

    def settings_writes(self):
        return self.worker.metric("messaging_settings_writes_total")

    def override(self, local, ttl):
        self.patch(local, {"spec": {"queue": {"ttl": ttl}}})

    def test_MS082_another_ttl_of_a_plan_is_one_write_at_each_broker(self):
        self.use("pair")
        self.plan("short", queue={"ttl": "1m"})
        before = self.settings_writes()
        locals_ = [f"a{number}" for number in range(COUNT)]
        self.make_all(locals_, plan="short")
        self.ready(*locals_, deadline=120 + self.PATIENCE)
        self.assertEqual(self.settings_writes(), before + 2)
        matches = {broker.name: self.queues(broker)[0].partition(".")[0] + ".#" for broker in self.brokers}
        self.assertEqual(len(set(matches.values())), 1)
        self.assertEqual(sum(len(self.queues(broker)) for broker in self.brokers), COUNT)
        self.forget()
        queues = {op: self.asked(op) for op in ("createQueue", "updateQueue", "createAddress")}
        self.tenant.client.must("PATCH", self.tenant.path("AddressPlan", "short"), {"spec": {"queue": {"ttl": "2m"}}}, headers=messaging.MERGE)
        for broker in self.brokers:
            kit.eventually(lambda b=broker: self.settings(b, self.queues(b)[0])["expiryDelay"] == 120000, 30, "the new ttl is there")
        self.passes()
        self.assertEqual(self.settings_writes(), before + 4)
        self.assertEqual({op: self.asked(op) for op in queues}, queues)
        self.assertEqual({kind for _, kind in self.writes(self.routers["pair"][0])}, {"router.config.address"})  # of passes()

    def test_MS083_overrides_of_many_queues_are_a_write_each_and_hold_up_nobody(self):
        self.use("large")
        self.plan("free", allowOverrides=True)
        locals_ = [f"a{number}" for number in range(COUNT)]
        self.make_all(locals_, plan="free")
        self.ready(*locals_, deadline=120 + self.PATIENCE)
        before = self.settings_writes()
        overridden = locals_[:max(20, COUNT * 3 // 50)]
        for local in overridden:
            self.override(local, "20s")
        took = []
        while not took or (self.settings_writes() < before + len(overridden) and len(took) < 1000):
            begun = time.monotonic()
            self.make(f"meanwhile{len(took)}")
            self.until(f"meanwhile{len(took)}", "Created")
            took.append(1e3 * (time.monotonic() - begun))
        took.sort()
        print(f"{len(took)} created while {len(overridden)} of {COUNT} queues got settings of their own: p50 {took[len(took) // 2]:.0f} ms, "
              f"p99 {took[len(took) * 99 // 100]:.0f} ms", flush=True)
        names = [self.status(local)["brokerAddress"] for local in overridden]
        kit.eventually(lambda: self.settings_writes() == before + len(overridden), 120, "each has its settings")
        self.assertNotIn("OutOfMemory", self.large.log.read_text(errors="replace"))
        for name in names:
            self.assertEqual(self.settings(self.large, name)["expiryDelay"], 20000)
        self.assertNotEqual(self.settings(self.large, self.status(locals_[-1])["brokerAddress"]).get("expiryDelay"), 20000)
        self.ready(*overridden)

    def test_MS085_a_broker_that_lost_everything_gets_it_again(self):
        self.use("large")
        self.plan("short", queue={"ttl": "1m"})
        self.plan("free", allowOverrides=True)
        for number in range(10):
            self.make(f"a{number}", plan="short")
        self.make("own", plan="free", queue={"ttl": "90s"})
        self.make("news", "topic")
        self.make("sub", "subscription", topic="news")
        locals_ = [*(f"a{number}" for number in range(10)), "own", "news", "sub"]
        self.ready(*locals_)
        had = self.queues(self.large), self.broker_addresses(self.large)
        own, short = self.status("own")["brokerAddress"], self.status("a0")["brokerAddress"]
        self.large.kill()
        self.until("a0", status="False")
        self.forget_brokers()
        self.large.start()
        self.ready(*locals_, deadline=90)
        self.assertEqual((self.queues(self.large), self.broker_addresses(self.large)), had)
        for name, delay in ((own, 90000), (short, 60000)):
            self.assertEqual(self.settings(self.large, name)["expiryDelay"], delay)
        row = self.row(self.large, self.status("sub")["brokerAddress"])
        self.assertEqual((row["routingType"], row["maxConsumers"], row["durable"]), ("MULTICAST", "1", "true"))
        do = self.open()
        self.assertEqual(do("send", address="a3", bodies=["again"])["accepted"], 1)
        self.assertEqual(do("receive", address="a3")["bodies"], ["again"])

    def forget_brokers(self):
        """Connections of the test's client have ended with the broker."""
        self.opened().clear()

    def emptied(self):
        """Takes all out of `theirs`; how many there were."""
        count = 0
        while not self.client.do("receive", connection=self.at(self.small), address="theirs", count=1, ms=1000).get("late"):
            count += 1
        return count

    def test_MS086_BH5_a_full_broker_holds_up_no_other_one(self):
        self.use("pair")
        self.make("first")
        self.make("second")
        self.ready("first", "second")
        self.assertEqual(sorted(self.hosts("first") + self.hosts("second")), ["b0", "b1"])
        at = self.at(self.small)
        self.ask(self.small, "broker", "createAddress", "theirs", "ANYCAST")
        self.ask(self.small, "broker", "createQueue", json.dumps({"name": "theirs", "address": "theirs", "routing-type": "ANYCAST", "durable": True}))
        drained = []
        self.addCleanup(lambda: drained or self.emptied())
        for size in (10000, 1000, 100):
            said = self.client.do("send", connection=at, address="theirs", bodies=["x" * size] * 60, ms=2000)
            self.assertTrue(said["rejected"] or said.get("late"), said)
        [answer] = self.client.manage([({"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getQueueNames"}, "[]")], address="activemq.management",
                                      connection=at, ms=2000)
        self.assertIsNone(answer)  # as ARTEMIS-1710 says: it does not answer
        locals_ = [f"a{number}" for number in range(6)]
        for local in locals_:
            self.make(local)
        hosts = {local: kit.eventually(lambda one=local: self.hosts(one), 20, "it is placed")[0] for local in locals_}
        there = [local for local in locals_ if hosts[local] == "b1"]
        self.assertTrue(there, hosts)  # all of them, where it was noticed before
        self.ready("second" if self.hosts("second") == ["b1"] else "first", *there)

        def told():
            row = {one["host"]: one for one in self.tenant.get("MessagingInfra", "pair")["status"]["brokers"]}
            why = self.tenant.condition("MessagingInfra", "pair", "BrokersConnected")
            assert not row["b0"]["synchronized"] and row["b1"]["synchronized"] and why["status"] == "False" and "b0" in why["message"], (row, why)
            return why["reason"]

        self.assertIn(kit.eventually(told, 60, "the infra tells of it"), ("NoAnswer", "BrokerFull", "ConnectionLost"))
        more = [f"later{number}" for number in range(4)]  # in turns they would be on both
        for local in more:
            self.made(local)
            self.assertEqual(self.hosts(local), ["b1"])
        # One after the other is taken out, and it answers.
        drained.append(self.emptied())
        self.assertGreater(drained[0], 10)
        self.ready(*locals_, deadline=90)
        self.tenant.until("MessagingInfra", "pair", "BrokersConnected", deadline=60)
        self.tenant.until("MessagingInfra", "pair", "Synchronized", deadline=60)
        self.made("again")
        self.assertEqual(self.hosts("again"), ["b0"])  # it has fewer
        self.ask(self.small, "broker", "destroyQueue", "theirs")
        self.ask(self.small, "broker", "deleteAddress", "theirs")
        for broker in self.brokers:
            self.assertEqual(self.queues(broker), sorted(self.status(local)["brokerAddress"] for local in (*locals_, *more, "first", "second", "again")
                                                         if self.hosts(local) == [broker.name]))


if __name__ == "__main__":
    unittest.main()
