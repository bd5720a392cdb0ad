"""On which of several real brokers addresses are: the freest, more than one, all, none that has room, one that is gone
(docs/spec/messaging.md)."""
import os

import kit
import messaging
import messaging_addresses
import messaging_stage


def setUpModule():
    messaging_addresses.begin(3 * (messaging_addresses.SIZE,), memory=128)


class Placing(messaging_addresses.Case):
    ROUNDS = int(os.environ.get("KINTSUGI_ADDRESSES", "5"))

    @classmethod
    def infras(cls):
        b0, b1, b2 = cls.brokers
        cls.infra("three", 1, [b0, b1, b2], brokers={"queueMemory": "10Mi"})
        cls.infra("two", 1, [b0, b1])
        cls.infra("solo", 1, [b0])
        cls.infra("trans", 1, [b2, b1], capabilities=["transactions"])

    def brokers_of(self, infra, brokers):
        """The infra has these from now on."""
        _, body = messaging_stage.infra(self.routers[infra], brokers)
        self.tenant.client.must("PATCH", self.tenant.path("MessagingInfra", infra), {"spec": {"brokers": body["spec"]["brokers"]}},
                                headers=messaging.MERGE)

    def asking(self, size):
        """A plan of queues that ask for so many MiB."""
        name = f"mi{size}"
        self.plan(name, resources={"requests": {"queueMemory": f"{size}Mi"}})
        return name

    def holding(self, name):
        return [broker.name for broker in self.brokers if name in self.queues(broker)]

    def test_MS033_a_dead_letter_queue_is_on_every_broker_and_on_one_that_comes(self):
        self.use("two")
        name = self.made("dead", "deadLetter")["brokerAddress"]
        [router] = self.routers["two"]
        self.assertEqual((self.holding(name), self.hosts("dead")), (["b0", "b1"], ["b0", "b1"]))
        self.assertEqual([one["direction"] for one in self.of(router, "autoLink")], ["in", "in"])
        self.forget()
        self.brokers_of("two", self.brokers)
        self.addCleanup(self.brokers_of, "two", self.brokers[:2])
        kit.eventually(lambda: self.hosts("dead") == ["b0", "b1", "b2"] and self.holding(name) == ["b0", "b1", "b2"], what="it is on the new one")
        kit.eventually(lambda: len(self.of(router, "autoLink")) == 3)
        self.ready("dead")
        self.assertEqual(self.writes(router), {("CREATE", "connector"): 1, ("CREATE", "router.config.autoLink"): 1})
        self.assertEqual({one["direction"] for one in self.of(router, "autoLink")}, {"in"})

    def test_MS038_partitions_are_on_as_many_brokers(self):
        self.use("three")
        self.plan("twice", queue={"partitions": {"min": 2, "max": 2}})
        name = self.made("orders", plan="twice")["brokerAddress"]
        self.assertEqual((self.hosts("orders"), self.holding(name)), (["b0", "b1"], ["b0", "b1"]))
        [router] = self.routers["three"]
        self.assertEqual(sorted(one["direction"] for one in self.of(router, "autoLink")), ["in", "in", "out", "out"])
        self.assertEqual(len({one["connection"] for one in self.of(router, "autoLink")}), 2)
        self.use("solo", "alone")
        self.forget()
        self.make("orders", plan="twice")
        self.until("orders", "Scheduled", "False", "MaxBrokersReached")
        self.passes()
        self.assertEqual((self.status("orders")["phase"], self.queues(self.brokers[0])), ("Pending", []))

    def test_MS039_MR33_the_freest_broker_is_taken_and_always_the_same(self):
        self.use("three")
        five, one, two = (self.asking(size) for size in (5, 1, 2))
        for local, plan, host in (("a", five, "b0"), ("b", two, "b1"), ("c", one, "b2"), ("d", two, "b2"), ("e", one, "b1"), ("f", one, "b1")):
            self.made(local, plan=plan)
            self.assertEqual(self.hosts(local), [host], local)
        self.use("three", "equal")
        self.away("ms039")
        for _ in range(self.ROUNDS):
            self.make("same")
            self.until("same", "Scheduled")
            self.assertEqual(self.hosts("same"), ["b0"])
            self.delete("same")

    def test_MS041_what_fits_nowhere_waits_for_room(self):
        self.use("three")
        six = self.asking(6)
        for number in range(3):
            self.made(f"a{number}", plan=six)
        self.assertEqual([self.hosts(f"a{number}") for number in range(3)], [["b0"], ["b1"], ["b2"]])
        self.forget()
        self.make("more", plan=six)
        self.until("more", "Scheduled", "False", "MaxBrokersReached")
        self.passes()
        self.assertEqual((self.status("more")["phase"], self.of(self.routers["three"][0], "autoLink")[6:]), ("Pending", []))
        self.delete("a1")
        self.ready("more")
        self.assertEqual(self.hosts("more"), ["b1"])

    def test_MS032_MS034_what_belongs_together_is_on_one_broker(self):
        self.use("three")
        five, one = self.asking(5), self.asking(1)
        self.made("load", plan=five)
        self.made("news", "topic")
        self.made("old", plan=one)
        self.assertNotEqual(self.hosts("news"), self.hosts("old"))
        self.plan("expiring", queue={"expiryQueue": "old"})
        self.make("orders", plan="expiring")
        self.make("sub", "subscription", topic="news")
        self.ready("orders", "sub")
        self.assertEqual((self.hosts("orders"), self.hosts("sub")), (self.hosts("old"), self.hosts("news")))

    def test_MS022_a_transactional_space_is_on_one_broker(self):
        self.use("trans", capabilities=["transactions"])
        for local in ("a", "b", "c"):
            self.make(local)
        self.make("dead", "deadLetter")
        self.ready("a", "b", "c", "dead")
        host = self.tenant.get("AddressSpace", self.space)["status"]["broker"]["host"]
        self.assertEqual({tuple(self.hosts(local)) for local in ("a", "b", "c", "dead")}, {(host,)})
        for broker in self.brokers:
            self.assertEqual(len(self.queues(broker)), 4 if broker.name == host else 0)

    def test_S16_brokers_that_somebody_wrote_while_no_worker_ran_are_set_right(self):
        self.use("two")
        name = self.made("orders")["brokerAddress"]
        [host] = self.hosts("orders")
        [broker] = [one for one in self.brokers if one.name == host]
        self.client.do("send", connection=self.at(broker), address=name, bodies=["kept"])
        for wrong in ("nowhere", next(one.name for one in self.brokers[:2] if one.name != host)):
            with self.subTest(wrong):
                self.worker.process.kill()
                self.worker.process.wait(120)
                self.tenant.client.must("PATCH", self.tenant.path("Address", self.name("orders")) + "/status",
                                        {"status": {"brokers": [{"host": wrong, "state": "Active"}]}}, headers=messaging.MERGE)
                self.worker.start()
                self.worker.until_ready()
                kit.eventually(lambda: self.hosts("orders") == [host], what="its broker is right again")
                self.ready("orders")
                self.passes()
                self.assertEqual((self.holding(name), self.until("orders", "Scheduled")["reason"]), ([host], "Scheduled"))
        self.assertEqual(self.client.do("receive", connection=self.at(broker), address=name, count=1)["bodies"], ["kept"])

    def test_MS056_a_broker_that_is_gone_moves_what_asks_for_it(self):
        self.use("two")
        name = self.made("orders")["brokerAddress"]
        self.made("stays")
        self.assertEqual((self.hosts("orders"), self.hosts("stays")), (["b0"], ["b1"]))
        self.brokers_of("two", self.brokers[1:2])
        self.addCleanup(self.brokers_of, "two", self.brokers[:2])
        self.until("orders", "Ready", "False", "BrokerGone")
        self.until("orders", "Scheduled", "True", "BrokerGone")
        self.made("later")
        self.assertEqual((self.hosts("orders"), self.holding(name)), (["b0"], ["b0"]))
        self.ready("stays")
        self.patch("orders", {"metadata": {"annotations": {"enmasse.io/reschedule": "true"}}})
        kit.eventually(lambda: self.hosts("orders") == ["b1"], what="it has moved")
        self.ready("orders")
        self.assertIn("b1", self.holding(name))
        self.assertEqual(self.until("orders", "Scheduled")["reason"], "Scheduled")
