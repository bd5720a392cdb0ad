"""What becomes of addresses when components change behind the worker's back: entities that somebody changes, connections that are cut,
routers that begin anew, brokers that are away, a worker that ends in between (docs/spec/messaging.md)."""
import json
import signal
import unittest

import amqp
import kit
import messaging_addresses
import messaging_stage

ONLY_WITH_ALL = "real brokers and routers for minutes"

SIZE = 64 << 20
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def setUpModule():
    global stage, brokers  # pylint: disable=global-variable-undefined
    installation = kit.Installation(shards=1).start_for()
    brokers = [amqp.Artemis("b0", memory=192, global_max_size=SIZE, address_full_policy="FAIL").start_for()]
    stage = messaging_stage.Stage(installation, shards=("root",))


class Case(messaging_addresses.Case):
    @classmethod
    def infras(cls):
        cls.infra("two", 2, cls.brokers[:1])

    def setUp(self):
        self.broker, (self.one, self.other) = self.brokers[0], self.routers["two"]

    def repairs(self, component, kind):
        return self.worker.metric("messaging_drift_repairs_total", component=component, type=kind)

    def told(self, about, *words, reason="DriftRepaired"):
        """An event about that object with these words."""
        def there():
            notes = [one["note"] for one in self.tenant.client.must("GET", EVENTS)["items"]
                     if one["regarding"]["name"] == about and one["reason"] == reason]
            assert any(all(word in note for word in words) for note in notes), notes
            return True

        kit.eventually(there, what=f"an event about {about}")


class Drift(Case):
    """Everything is checked often."""

    CHECKS = {"counters": "500ms", "sweep": "2s", "links": "1s"}

    def test_MS049_an_address_that_was_deleted_by_hand_comes_back(self):
        self.use("two")
        self.made("orders")
        [had] = self.of(self.one)
        before = self.repairs("two-r0", "address")
        self.one.command("delete", type="address", name=had["name"])
        again = kit.eventually(lambda: self.of(self.one), what="the address is there again")
        self.assertEqual([(one["name"], one["pattern"]) for one in again], [(had["name"], had["pattern"])])
        kit.eventually(lambda: self.repairs("two-r0", "address") == before + 1, what="the repair is counted")
        self.told(self.name("orders"), "address", had["name"], "two-r0", "missing")

    def test_MS049_a_link_that_was_deleted_by_hand_is_missed_by_its_count(self):
        self.use("two")
        self.made("orders")
        had = self.of(self.one, "autoLink")
        self.one.command("delete", type="autoLink", name=had[0]["name"])
        kit.eventually(lambda: sorted(one["name"] for one in self.of(self.one, "autoLink")) == sorted(one["name"] for one in had))
        self.ready("orders")

    def test_MS050_an_autolink_that_somebody_replaced_is_replaced_back(self):
        self.use("two")
        self.made("orders")
        [had] = [one for one in self.of(self.one, "autoLink") if one["direction"] == "in"]
        self.one.command("delete", type="autoLink", name=had["name"])
        self.one.command("create", type="autoLink", name=had["name"],
                         attributes={"address": "elsewhere", "direction": "in", "connection": had["connection"], "externalAddress": "x"})
        kit.eventually(lambda: self.one.rows("autoLink")[had["name"]]["address"] == had["address"], what="it is ours again")
        self.assertEqual(self.one.rows("autoLink")[had["name"]]["externalAddress"], had["externalAddress"])
        self.told(self.name("orders"), "autoLink", had["name"], "another")
        self.ready("orders")

    def test_MS051_foreign_entities_stay_and_orphans_go(self):
        self.use("two")
        self.made("orders")
        [connector] = self.one.rows("connector")
        [ours] = self.of(self.one)
        prefix = ours["name"].rpartition(".")[0]
        self.one.command("create", type="address", name="theirs", attributes={"pattern": "theirs"})
        self.one.command("create", type="autoLink", name="theirs", attributes={"address": "theirs", "direction": "in", "connection": connector})
        self.one.command("create", type="address", name=prefix + ".left", attributes={"pattern": "left"})
        self.ask(self.broker, "broker", "createAddress", "theirs/q", "ANYCAST")
        left = f"{self.space_id}/left"
        self.ask(self.broker, "broker", "createAddress", left, "ANYCAST")
        self.ask(self.broker, "broker", "createQueue", json.dumps({"name": left, "address": left, "routing-type": "ANYCAST", "durable": True}))
        kit.eventually(lambda: prefix + ".left" not in self.one.rows("address"), what="the orphan is gone")
        kit.eventually(lambda: left not in self.broker_addresses(self.broker), what="the orphan is gone from the broker")
        self.assertEqual((len(self.one.rows("address")), "theirs" in self.one.rows("address"), "theirs" in self.one.rows("autoLink")), (2, True, True))
        self.assertIn("theirs/q", self.ask(self.broker, "broker", "getAddressNames"))
        self.told("two", "address", prefix + ".left", "nobody's")
        self.told("two", "autoLink", "theirs", "two-r0", "stays", reason="ForeignEntity")
        self.one.command("delete", type="autoLink", name="theirs")
        self.one.command("delete", type="address", name="theirs")
        self.ask(self.broker, "broker", "deleteAddress", "theirs/q")
        self.ready("orders")

    def test_MS052_queues_and_settings_are_set_right(self):
        self.use("two")
        self.plan("short", queue={"ttl": "1m"})
        name = self.made("orders", plan="short")["brokerAddress"]
        match = name.partition(".")[0] + ".#"
        self.ask(self.broker, "broker", "destroyQueue", name, True)
        kit.eventually(lambda: self.queues(self.broker) == [name], what="the queue is there again")
        self.told(self.name("orders"), "queue", name, "missing")
        self.assertEqual(self.settings(self.broker, name)["expiryDelay"], 60000)
        self.ask(self.broker, "broker", "addAddressSettings", match, json.dumps({"expiryDelay": 5}))
        kit.eventually(lambda: self.settings(self.broker, name)["expiryDelay"] == 60000, what="the settings are ours again")
        self.told(self.name("orders"), "addressSettings", match)
        self.ready("orders")

    def test_MS052_a_queue_with_messages_is_never_destroyed(self):
        self.use("two")
        name = self.made("orders")["brokerAddress"]
        self.delete("orders")
        self.ask(self.broker, "broker", "createAddress", name, "ANYCAST")
        self.ask(self.broker, "broker", "createQueue", json.dumps({
            "name": name, "address": name, "routing-type": "ANYCAST", "durable": False, "max-consumers": 2}))
        self.assertEqual(self.client.do("send", connection=self.at(self.broker), address=name, bodies=["kept"])["accepted"], 1)
        self.told("two", "queue", name, "stays", reason="ForeignEntity")
        self.assertEqual(self.row(self.broker, name)["messageCount"], "1")
        self.make("orders")
        self.assertIn("durable", self.until("orders", "Created", "False", "Refused")["message"])
        kit.eventually(lambda: self.row(self.broker, name)["maxConsumers"] == "-1", what="what can be changed is changed")
        self.assertEqual(self.row(self.broker, name)["messageCount"], "1")


class Faults(messaging_addresses.Restarts, Case):
    """Nothing is checked but what has to be."""


    def test_MS055_a_broker_that_is_away_and_comes_back(self):
        relay = messaging_addresses.Relay("b9", self.broker.port).start()
        self.addCleanup(relay.stop)
        type(self).infra("relayed", 1, [relay])
        self.addCleanup(self.unmake, "relayed")
        self.tenant.until("MessagingInfra", "relayed", deadline=30)
        self.use("relayed")
        self.made("orders")
        self.made("news", "anycast")
        self.forget()
        before = {op: self.asked(op) for op in ("createAddress", "createQueue", "updateQueue", "addAddressSettings")}
        relay.stop()
        self.addCleanup(relay.start)  # what is there can be taken away
        self.assertIn("b9", self.until("orders", "Ready", "False")["message"])
        self.assertEqual(self.tenant.condition("MessagingInfra", "relayed", "BrokersConnected")["status"], "False")
        self.until("news")
        self.until("orders", "Scheduled")
        self.assertEqual(self.hosts("orders"), ["b9"])
        relay.start()
        self.ready("orders", deadline=40)
        self.assertEqual(self.writes(self.routers["relayed"][0]), {})
        self.assertEqual({op: self.asked(op) for op in before}, before)

    def unmake(self, name):
        self.tenant.client.request("DELETE", self.tenant.path("AddressSpacePlan", name))
        self.tenant.client.request("DELETE", self.tenant.path("MessagingInfra", name))
        self.tenant.gone("MessagingInfra", name)

    def test_MS057_MS059_a_router_that_hangs_and_an_answer_that_is_lost(self):
        self.use("two")
        self.made("before")
        self.forget()
        self.other.command("hang")
        self.addCleanup(self.other.command, "resume")
        self.one.command("drop-next-reply", operation="CREATE", type="autoLink")
        locals_ = [f"a{number}" for number in range(20)]
        for local in locals_:
            self.make(local)
        kit.eventually(lambda: len(self.of(self.one, "autoLink")) == 42, 10, "the router that answers has all")
        self.ready(*locals_[1:], deadline=10)  # minReady is one
        self.ready(locals_[0], deadline=30)
        self.assertEqual(sum(code == 400 for _, kind, code in self.log(self.one)), 1)  # it was there, as wanted
        self.assertEqual(self.writes(self.one, "autoLink"), {("CREATE", "router.config.autoLink"): 41})
        infra = kit.eventually(lambda: [one for one in self.tenant.get("MessagingInfra", "two")["status"]["routers"]
                                        if one["host"] == "two-r1" and not one["synchronized"]], 60, "the status tells")
        self.assertLessEqual(self.other.dump()["stuck"], 100)
        self.assertTrue(infra)
        self.other.command("resume")
        kit.eventually(lambda: len(self.of(self.other, "autoLink")) == 42, 60, "what hung has all")

    def test_MS058_a_vhost_that_is_refused_concerns_that_space_alone(self):
        self.use("two", "taken")
        host = f"{self.space_id}.two.default.svc"
        self.away("taken")
        for router in self.routers["two"]:
            router.command("create", type="vhost", name="by-hand", attributes={"hostname": "by-hand", "aliases": host, "maxConnections": 1})
        self.tenant.space("taken", "two", endpoints=[{"name": "all", "service": "messaging"}])
        self.addCleanup(self.away, "taken")
        self.use("two", "free")
        self.made("orders")
        self.assertIn("already in use", self.tenant.until("AddressSpace", "taken", "VhostApplied", "False")["message"])
        for router in self.routers["two"]:
            router.command("delete", type="vhost", name="by-hand")

    def test_MS063_a_worker_that_is_killed_between_broker_and_routers(self):
        self.use("two")
        for router in self.routers["two"]:
            router.command("hang")
            self.addCleanup(router.command, "resume")
        self.forget()
        self.make("orders")
        kit.eventually(lambda: self.queues(self.broker), what="the queue is there")
        row = self.row(self.broker, self.queues(self.broker)[0])
        self.worker.process.send_signal(signal.SIGKILL)
        self.worker.process.wait(20)
        for router in self.routers["two"]:
            self.assertEqual(self.of(router), [])
            router.command("cut")
            router.command("resume")
        self.worker.start()
        self.ready("orders", deadline=60)
        self.assertEqual(self.row(self.broker, self.queues(self.broker)[0])["id"], row["id"])
        for router in self.routers["two"]:
            self.assertEqual((len(self.of(router)), len(self.of(router, "autoLink"))), (1, 2))
            self.assertEqual(sum(code == 201 for _, kind, code in self.log(router) if kind in ("address", "autoLink")), 3)

    def test_MS040_a_worker_that_starts_again_moves_and_sends_nothing(self):
        self.use("two")
        self.plan("short", queue={"ttl": "1m"})
        self.make("queue", plan="short")
        self.make("topic", "topic")
        self.make("sub", "subscription", topic="topic")
        self.make("any", "anycast")
        self.make("dead", "deadLetter")
        self.ready("queue", "topic", "sub", "any", "dead")
        for local in ("queue", "topic", "sub", "any", "dead"):
            self.until(local, "Created")
        locals_ = ("queue", "topic", "sub", "any", "dead")

        def places():
            return {local: [self.status(local).get(key) for key in ("brokers", "brokerAddress", "spaceId", "configuration")] for local in locals_}

        before = places()
        self.worker.stop()
        self.forget()
        self.worker.start().until_ready()
        self.made("later")
        self.assertEqual(places(), before)
        for router in self.routers["two"]:
            self.assertEqual(sum(code == 201 for *_, code in self.log(router)), 3, self.log(router))
        ops = ("createAddress", "createQueue", "updateQueue", "addAddressSettings", "destroyQueue", "deleteAddress")
        self.assertEqual({op: self.asked(op) for op in ops}, {**dict.fromkeys(ops, 0), "createAddress": 1, "createQueue": 1})


if __name__ == "__main__":
    unittest.main()
