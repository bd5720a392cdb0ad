"""Addresses while components are away: connections that are cut, routers that begin anew or hang, a broker that is away, a worker that ends
in between (docs/spec/messaging.md)."""
import signal
import unittest

import kit
import messaging_addresses

ONLY_WITH_ALL = "waits for what is away"


def setUpModule():
    messaging_addresses.begin()


class Outages(messaging_addresses.Restarts, messaging_addresses.Two):
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

    def test_MS057_MS059_MR27_a_router_that_hangs_and_an_answer_that_is_lost(self):
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
        self.worker.process.wait(120)
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
