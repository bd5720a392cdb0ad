"""Addresses at routers (stand-ins) and real brokers: what is made of each type, in which order, by how many requests, what goes through it,
and what becomes of it when its object changes (docs/spec/messaging.md)."""
import unittest

import kit
import messaging_addresses


def setUpModule():
    messaging_addresses.begin()


class Addresses(messaging_addresses.Case):
    @classmethod
    def infras(cls):
        cls.infra("two", 2, cls.brokers[:1])
        cls.infra("trans", 2, cls.brokers[:1], capabilities=["transactions"])

    def setUp(self):
        self.broker = self.brokers[0]

    # Types.
    def test_MS030_MR26_a_queue_is_at_the_broker_before_it_is_at_routers(self):
        self.use("two")
        self.forget()
        before = {op: self.asked(op) for op in ("createAddress", "createQueue", "addAddressSettings", "updateQueue")}
        self.pause(self.broker)
        self.make("orders")
        self.until("orders", "Scheduled")
        self.passes()
        for router in self.routers["two"]:
            self.assertEqual(self.writes(router), {("CREATE", "router.config.address"): 1, ("DELETE", "router.config.address"): 1})
        self.forget()
        self.resume(self.broker)
        self.ready("orders")
        self.until("orders", "Created")
        name = self.status("orders")["brokerAddress"]
        self.assertEqual(name, f"{self.space_id}/orders")
        for router in self.routers["two"]:
            self.assertEqual(self.log(router), [("CREATE", "address", 201), ("CREATE", "autoLink", 201), ("CREATE", "autoLink", 201)])
            [address] = self.of(router)
            self.assertEqual((address["pattern"], address["prefix"], address["distribution"], address["waypoint"]),
                             (f"{self.space_id}/orders", None, "balanced", True))
            [connector] = router.rows("connector")
            self.assertEqual(sorted((one["direction"], one["externalAddress"], one["connection"]) for one in self.of(router, "autoLink")),
                             [("in", name, connector), ("out", name, connector)])
        self.assertEqual({op: self.asked(op) - count for op, count in before.items()},
                         {"createAddress": 1, "createQueue": 1, "addAddressSettings": 0, "updateQueue": 0})  # with 2 × 3: 3R+2

    def test_MS045_MR26_a_label_sends_and_writes_nothing(self):
        self.use("two")
        self.made("orders")
        self.until("orders", "Created")
        self.until("orders", reason="Ready")  # else Degraded, which the other router's link ends with another status
        self.forget()
        before = self.asked("createAddress"), self.asked("createQueue"), self.asked("updateQueue"), self.asked("deleteAddress")
        revision = self.patch("orders", {"metadata": {"labels": {"a": "b"}}})["metadata"]["resourceVersion"]
        self.made("later", "anycast")
        for router in self.routers["two"]:
            self.assertEqual(self.writes(router), {("CREATE", "router.config.address"): 1})
        self.assertEqual(before, (self.asked("createAddress"), self.asked("createQueue"), self.asked("updateQueue"), self.asked("deleteAddress")))
        self.assertEqual(self.tenant.get("Address", self.name("orders"))["metadata"]["resourceVersion"], revision)

    def test_MS044_another_distribution_is_delete_and_create_of_that_entity(self):
        self.use("two")
        self.made("news", "anycast")
        self.made("orders")
        self.forget()
        self.patch("news", {"spec": {"type": "multicast"}})
        for router in self.routers["two"]:
            kit.eventually(lambda r=router: [one["distribution"] for one in self.of(r) if one["pattern"].endswith("news")] == ["multicast"])
        self.until("news", "Created")
        for router in self.routers["two"]:
            self.assertEqual(self.log(router), [("DELETE", "address", 204), ("CREATE", "address", 201)])

    def test_MS031_a_topic_is_an_address_and_link_routes(self):
        self.use("two")
        self.forget()
        name = self.made("news", "topic")["brokerAddress"]
        self.assertEqual(self.ask(self.broker, "broker", "getAddressInfo", name).count("MULTICAST"), 1)
        self.assertEqual(self.queues(self.broker), [])
        for router in self.routers["two"]:
            self.assertEqual(self.log(router), [("CREATE", "linkRoute", 201)] * 2)
            self.assertEqual(sorted((one["direction"], one["prefix"]) for one in self.of(router, "linkRoute")), [("in", name), ("out", name)])
        self.plan("sharded", "topic", queue={"partitions": {"min": 2, "max": 2}})
        self.make("shards", "topic", plan="sharded")
        self.assertIn("ShardedTopicNotSupported", str(kit.eventually(lambda: self.status("shards")["conditions"])))
        self.passes()
        self.assertEqual([one["prefix"] for one in self.of(self.routers["two"][0], "linkRoute")], [name, name])

    def test_MS032_a_subscription_is_a_queue_of_its_topic(self):
        self.use("two")
        self.make("sub1", "subscription", topic="news")
        self.until("sub1", "Validated", "False", "TargetNotFound")
        self.forget()
        topic = self.made("news", "topic")["brokerAddress"]
        self.ready("sub1")
        own = self.status("sub1")["brokerAddress"]
        self.assertEqual(own, f"{self.space_id}/sub1")
        self.assertEqual(self.hosts("sub1"), self.hosts("news"))
        row = self.row(self.broker, own)
        self.assertEqual((row["address"], row["routingType"], row["maxConsumers"], row["durable"]), (topic, "MULTICAST", "1", "true"))
        for router in self.routers["two"]:
            [link] = self.of(router, "autoLink")
            self.assertEqual((link["direction"], link["externalAddress"], link["address"]), ("in", f"{topic}::{own}", own))
            self.assertEqual([one["waypoint"] for one in self.of(router)], [True])

    def test_MS089_each_type_delivers(self):
        self.use("two")
        for kind in ("anycast", "multicast", "queue", "topic", "deadLetter"):
            self.make(kind.lower(), kind)
        self.make("sub", "subscription", topic="topic")
        self.ready("anycast", "multicast", "queue", "topic", "deadletter", "sub")
        do = self.open()
        bodies = [f"m{number}" for number in range(5)]
        for address in ("anycast", "multicast"):
            receivers = ("one",) if address == "anycast" else ("one", "two")
            for link in receivers:
                self.assertIsNone(do("attach", role="receiver", address=address, **{"as": address + link})["error"])
            waiting = [self.client.begin(do="receive", link=address + link, count=5, ms=10000) for link in receivers]
            self.assertEqual(do("send", address=address, bodies=bodies)["accepted"], 5)
            for one in waiting:
                self.assertEqual(one()["bodies"], bodies, address)
        at_sub = self.open(self.linked("sub"), f"consumer {self.space_id}")
        for target, source, consumer in (("queue", "queue", do), ("topic", "sub", at_sub)):
            self.assertEqual(do("send", address=target, bodies=bodies)["accepted"], 5)
            self.assertEqual(consumer("receive", address=source, count=5)["bodies"], bodies)
            self.assertTrue(consumer("receive", address=source, count=1, ms=200)["late"])  # once
        # Nobody sends there but the broker.
        at = self.at(self.broker)
        self.client.do("send", connection=at, address=self.status("deadletter")["brokerAddress"], bodies=bodies)
        self.assertEqual(do("receive", address="deadletter", count=5)["bodies"], bodies)

    # Transactions.
    def test_MS022_MS023_what_is_in_a_transactional_space(self):
        self.use("trans", capabilities=["transactions"])
        self.forget()
        self.make("queue")
        self.make("topic", "topic")
        self.make("sub", "subscription", topic="topic")
        self.ready("queue", "topic", "sub")
        for router in self.routers["trans"]:
            self.assertEqual(self.writes(router), {})
        self.assertEqual(self.queues(self.broker), [f"{self.space_id}/queue", f"{self.space_id}/sub"])
        self.assertEqual(self.broker_addresses(self.broker), [f"{self.space_id}/queue", f"{self.space_id}/topic"])
        do = self.open()
        said = do("transaction", address="queue", bodies=["a", "b"])
        self.assertEqual((said["declared"], said["sent"], said["discharged"]), (True, 2, True), said)
        said = do("transaction", address="queue", bodies=["c"], fail=True)
        self.assertEqual((said["declared"], said["sent"], said["discharged"]), (True, 1, True), said)
        self.assertEqual(do("receive", address="queue", count=2)["bodies"], ["a", "b"])
        self.assertTrue(do("receive", address="queue", count=1, ms=200)["late"])
        self.use("two", "plain")
        self.made("queue")
        said = self.open()("transaction", address="queue", bodies=["a"])
        self.assertEqual((said["declared"], said["discharged"]), (False, False), said)

    # Endings.
    def test_MS046_RT_T106_a_queue_goes_from_routers_before_it_goes_from_the_broker(self):
        self.use("two")
        self.made("orders")
        link = self.of(self.routers["two"][0], "autoLink")[0]["name"]
        self.routers["two"][0].command("delete", type="autoLink", name=link)  # 404 is as good
        self.pause(self.broker)
        self.delete("orders", wait=False)
        for router in self.routers["two"]:
            kit.eventually(lambda r=router: not self.of(r) and not self.of(r, "autoLink"), what="gone from the router")
        self.assertIn("enmasse.io/kintsugi", self.tenant.get("Address", self.name("orders"))["metadata"]["finalizers"])
        self.resume(self.broker)
        self.gone("orders")
        self.assertEqual((self.queues(self.broker), self.broker_addresses(self.broker)), ([], []))


if __name__ == "__main__":
    unittest.main()
