"""What is asked of routers and what they answer: the longest names, tables of many pages, answers that come late, twice or incomplete, what goes
over the wire while nothing happens, and when everything is looked at again (docs/spec/messaging.md)."""
import unittest

import amqp
import kit
import messaging_addresses
import messaging_stage
from messaging_case import Forwarder

ONLY_WITH_ALL = "what comes by time, whole checks of components, takes four minutes"
OWN = "ktg.root."


def setUpModule():
    messaging_addresses.begin()


class Case(messaging_addresses.Two):
    @staticmethod
    def incoming(router):
        return {one["identity"] for one in router.dump()["connections"] if one["dir"] == "in"}


class Answers(Case):
    CHECKS = {"counters": "500ms", "sweep": "2s", "links": "1s"}
    ROWS = 1500

    def test_MS043_the_longest_names(self):
        infra, plan = "i" * 63, "p" * 63
        routers = [amqp.Router(f"r{number}" + "r" * 198).start_for(self) for number in range(2)]
        broker = Forwarder(self.broker.port, "b" * 200)
        self.addCleanup(broker.close)
        self.routers[infra] = routers
        self.tenant.make(*messaging_stage.infra(routers, [broker], name=infra))
        self.tenant.make("AddressSpacePlan", {"metadata": {"name": plan}, "spec": {"messagingInfraRef": infra}})
        self.addCleanup(self.remove, infra, plan)
        space = "s" * 63
        self.tenant.space(space, plan)
        self.addCleanup(self.away, space)
        self.tenant.until("AddressSpace", space)
        self.on, self.space, self.space_id = infra, space, self.tenant.get("AddressSpace", space)["status"]["spaceId"]
        self.assertLessEqual(len(self.space_id), 54)
        room = 253 - len(self.space_id) - 1
        topic = "t" * room
        for number, (kind, more) in enumerate((("anycast", {}), ("queue", {}), ("deadLetter", {}), ("topic", {}), ("subscription", {"topic": topic}))):
            self.make(f"n{number}" + "n" * (253 - len(space) - 3), kind, address={"topic": topic}.get(kind, str(number) + "a" * (room - 1)), **more)
        names = [one["metadata"]["name"] for one in self.tenant.client.must("GET", self.tenant.path("Address"))["items"] if one["metadata"]["name"].startswith(space)]
        self.assertEqual({len(name) for name in names}, {253})
        for name in names:
            self.tenant.until("Address", name)
        for router in routers:
            held = {kind: [name for name in rows if name.startswith(OWN)] for kind, rows in router_rows(router).items()}
            self.assertEqual({kind: len(held[kind]) for kind in ("address", "autoLink", "linkRoute", "connector", "vhost")},
                             {"address": 4, "autoLink": 4, "linkRoute": 2, "connector": 1, "vhost": 1})
            self.assertLessEqual(max(len(name.encode()) for one in held.values() for name in one), 100)
            self.assertFalse(router.dump()["hung"])
        do = self.open()
        self.assertEqual(do("send", address="1" + "a" * (room - 1), bodies=["far"])["accepted"], 1)
        self.assertEqual(do("receive", address="1" + "a" * (room - 1))["bodies"], ["far"])
        self.make("toolong", address="b" * (room + 1))
        self.until("toolong", "Validated", "False", "InvalidAddress")

    def remove(self, infra, plan):
        self.tenant.client.request("DELETE", self.tenant.path("AddressSpacePlan", plan))
        self.tenant.client.request("DELETE", self.tenant.path("MessagingInfra", infra))
        self.tenant.gone("MessagingInfra", infra)

    def test_MS061_MH5_tables_of_many_pages_are_read_to_their_end(self):
        self.use("two")
        self.made("orders")
        [ours] = self.of(self.one)
        prefix = ours["name"].rpartition(".")[0]
        for number in range(self.ROWS):
            self.one.command("create", type="address", name=f"theirs{number}", attributes={"pattern": f"theirs/{number}"})
        self.one.command("forget")  # before it is there: a check may be on its way and see it at once
        self.one.command("create", type="address", name=prefix + ".last", attributes={"pattern": "last"})
        kit.eventually(lambda: prefix + ".last" not in self.one.rows("address"), 90, "the last row was seen")
        said = self.one.dump(log=True)["log"]
        [gone] = [at for at, entry in enumerate(said) if entry["operation"] == "DELETE"]
        self.assertEqual(said[gone]["name"], prefix + ".last")
        # The check that saw it may have begun before it was made, but has read the page that it is on.
        pages = [entry["offset"] for entry in said[:gone] if (entry["operation"], entry["type"]) == ("QUERY", amqp.DISPATCH + "router.config.address")]
        self.assertEqual(max(pages), self.ROWS)
        self.assertEqual(len(self.one.rows("address")), self.ROWS + 1)
        self.ready("orders")
        self.one.command("restart-empty")  # theirs were made by hand
        self.ready("orders", deadline=40)

    def test_MS062_answers_in_another_order_twice_late_and_without_a_code(self):
        self.use("two")
        self.made("before")
        connections = self.incoming(self.one)

        def unknown():
            return self.worker.metric("messaging_mgmt_unknown_answers_total", component_kind="router")

        had = unknown()
        self.forget()
        self.one.command("reverse", count=30)
        self.one.command("duplicate", count=10, operation="CREATE")
        self.one.command("codeless", count=3, operation="CREATE", type="autoLink")
        locals_ = [f"a{number}" for number in range(20)]
        for local in locals_:
            self.make(local)
        self.ready(*locals_, deadline=60)
        kit.eventually(lambda: len(self.of(self.one, "autoLink")) == 42, 20)
        self.assertEqual((len(self.of(self.one)), len(self.of(self.other, "autoLink"))), (21, 42))
        kit.eventually(lambda: unknown() == had + 10, what="those that came twice are counted")
        codes = [code for operation, _, code in self.log(self.one) if operation == "CREATE"]
        self.assertEqual(codes.count(201), 60)
        self.assertTrue({operation for operation, _, _ in self.log(self.one)} <= {"CREATE"})  # nothing is taken away for it
        self.assertEqual(self.incoming(self.one), connections)  # it is the same connection


def router_rows(router):
    return {kind: {row["name"]: row for row in rows} for kind, rows in router.dump()["tables"].items()}


class Flows(Case):
    CHECKS = {"counters": "500ms", "sweep": "2s", "links": "1s"}

    def test_MS060_MH3_no_flow_updates_a_core_type(self):
        self.forget_all()
        self.use("two", endpoints=[{"name": "all", "service": "messaging"}])
        self.plan("short", queue={"ttl": "1m"})
        self.plan("long", queue={"ttl": "1h"}, allowOverrides=True)
        for local, kind, more in (("queue", "queue", {"plan": "short"}), ("any", "anycast", {}), ("multi", "multicast", {}), ("topic", "topic", {}),
                                  ("sub", "subscription", {"topic": "topic"}), ("dead", "deadLetter", {})):
            self.make(local, kind, **more)
        locals_ = ("queue", "any", "multi", "topic", "sub", "dead")
        self.ready(*locals_)
        # Changes of everything that can change.
        self.patch("any", {"spec": {"type": "multicast"}})
        self.patch("queue", {"spec": {"plan": "long"}})
        self.patch("queue", {"spec": {"queue": {"ttl": "10m"}}})
        self.patch("sub", {"spec": {"subscription": {"maxConsumers": 3}}})
        self.tenant.client.must("PATCH", self.tenant.path("AddressSpacePlan", "two"), {"spec": {"resources": {"limits": {"connections": 30}}}},
                                headers=messaging_addresses.messaging.MERGE)
        self.addCleanup(self.tenant.client.request, "PATCH", self.tenant.path("AddressSpacePlan", "two"), '{"spec": {"resources": null}}',
                        headers=messaging_addresses.messaging.MERGE)
        kit.eventually(lambda: all(one["maxConnections"] == 15 for router in (self.one, self.other) for one in router.rows("vhost").values()), what="the limit")
        for router in (self.one, self.other):
            kit.eventually(lambda r=router: [one["distribution"] for one in self.of(r) if one["pattern"].endswith("/any")] == ["multicast"])
        # Faults.
        [link] = [one for one in self.of(self.one, "autoLink") if one["direction"] == "in" and one["address"].endswith("/queue")]
        self.one.command("delete", type="autoLink", name=link["name"])
        self.one.command("create", type="autoLink", name=link["name"], attributes={**{key: link[key] for key in ("direction", "connection")}, "address": "x"})
        kit.eventually(lambda: self.one.rows("autoLink")[link["name"]]["address"] == link["address"], what="it is ours again")
        self.other.command("cut")
        self.one.command("drop-next-reply", operation="CREATE")
        self.made("later")
        self.other.command("restart-empty")
        kit.eventually(lambda: len(self.of(self.other)) == len(self.of(self.one)), 40, "all is there again")
        self.ready(*locals_, "later", deadline=40)
        for local in ("sub", "topic", "queue", "any", "multi", "dead", "later"):
            self.delete(local)
        updates = {}
        for router in (self.one, self.other):
            self.assertEqual((self.of(router), self.of(router, "autoLink"), self.of(router, "linkRoute")), ([], [], []))
            for (operation, kind), count in router.requests().items():
                if operation == "UPDATE":
                    updates[kind] = updates.get(kind, 0) + count
        self.assertEqual(set(updates), {"vhost"})
        self.assertLessEqual({operation for router in (self.one, self.other) for operation, _ in router.requests()}, {"CREATE", "READ", "UPDATE", "DELETE", "QUERY"})

    def forget_all(self):
        for router in (self.one, self.other):
            router.command("forget")


class Steady(Case):
    CHECKS = {"counters": "1s", "sweep": "1h", "links": "1h"}

    def test_MS066_two_requests_a_router_and_one_a_broker_while_nothing_happens(self):
        self.use("two")
        locals_ = [f"a{number}" for number in range(40)]
        for local in locals_:
            self.make(local)
        self.ready(*locals_, deadline=60)
        for local in locals_:
            self.until(local, "Created")
        kit.eventually(lambda: all(one["synchronized"] for one in self.tenant.get("MessagingInfra", "two")["status"]["routers"]), 30)
        self.settled(self.one)
        broker = {"listQueues": self.asked("listQueues"), "all": self.of_brokers()}
        self.forget()
        rounds = kit.eventually(lambda: (count := self.one.requests().get(("QUERY", "router"), 0)) >= 6 and count, 30, "six rounds")
        asked = self.one.requests()
        self.assertLessEqual(asked.pop(("QUERY", "router")), rounds + 1)
        self.assertLessEqual(asked.pop(("QUERY", "connector")), rounds + 1)
        self.assertEqual(asked, {})
        self.assertGreaterEqual(self.asked("listQueues") - broker["listQueues"], 4)
        self.assertLessEqual(self.of_brokers() - broker["all"], rounds + 2)

    def of_brokers(self):
        return self.worker.metric("messaging_mgmt_requests_total", component_kind="broker")

    def settled(self, router):
        """What follows on a change is asked for: links that are looked at, connectors."""
        def calm():
            router.command("forget")
            kit.eventually(lambda: router.requests().get(("QUERY", "router"), 0) >= 2, 10)
            return set(router.requests()) <= {("QUERY", "router"), ("QUERY", "connector")}

        kit.eventually(calm, 40, "nothing but counters")


class Spread(Case):
    CHECKS = {"counters": "1h", "sweep": "9s", "links": "1h"}

    @classmethod
    def infras(cls):
        cls.infra("many", 6, [])

    def setUp(self):
        pass

    def test_MS067_no_two_components_are_checked_within_a_second(self):
        routers = self.routers["many"]
        self.tenant.until("MessagingInfra", "many", "Synchronized")
        for router in routers:
            router.command("forget")

        def begun():
            """When each began, in seconds."""
            out = [[one["at"] / 1000 for one in router.dump(log=True)["log"] if (one["operation"], one["type"].rpartition(".")[2]) == ("QUERY", "vhost")]
                   for router in routers]
            return all(len(one) >= 2 for one in out) and sorted(at for one in out for at in one)

        times = kit.eventually(begun, 90, "each was checked twice")
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        # 1.1 s as the worker counts; half of it may get lost on the way and between processes.
        self.assertGreater(min(gaps), 0.5, times)


class Reconnects(Case):
    CHECKS = {"counters": "1h", "sweep": "2s", "links": "1h", "resync_by_reconnect": True}

    @classmethod
    def infras(cls):
        cls.relay = Forwarder(cls.brokers[0].port)
        cls.addClassCleanup(cls.relay.close)
        cls.infra("two", 2, [cls.relay])

    def test_MD_5_by_reconnect_what_was_changed_is_found_by_another_connection(self):
        self.use("two", "md5")
        self.made("orders")
        name = self.status("orders")["brokerAddress"]
        seen, pairs = set(), len(self.relay.pairs)

        def another(times):
            seen.update(self.incoming(self.one))
            return len(seen) > times

        kit.eventually(lambda: another(2), 30, "the router has had three connections")
        kit.eventually(lambda: len(self.relay.pairs) > pairs + 1, 30, "the broker, too")
        [had] = [one for one in self.of(self.one, "autoLink") if one["direction"] == "in"]
        self.one.command("delete", type="autoLink", name=had["name"])
        self.one.command("create", type="autoLink", name=had["name"],
                         attributes={"address": "elsewhere", "direction": "in", "connection": had["connection"], "externalAddress": "x"})
        self.ask(self.broker, "broker", "destroyQueue", name, True)
        kit.eventually(lambda: self.one.rows("autoLink")[had["name"]]["address"] == had["address"], 40, "it is ours again")
        kit.eventually(lambda: self.queues(self.broker) == [name], 40, "the queue is there again")
        self.ready("orders", deadline=90)


if __name__ == "__main__":
    unittest.main()
