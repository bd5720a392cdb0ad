"""Infras whose routers and brokers come, go and fail, and spaces with transactions (docs/spec/messaging.md)."""
import unittest

import amqp
import kit
import messaging_stage
from messaging_case import Case, Forwarder, begin

ADDRESS, ROUTE, VHOST, CONNECTOR = "router.config.address", "router.config.linkRoute", "vhost", "connector"


def setUpModule():
    global artemis  # pylint: disable=global-variable-undefined
    artemis = amqp.Artemis("b0", global_max_size=268435456).start_for()
    begin()


class Infras(Case):
    """Each test has a namespace with an infra of its own."""

    def infra(self, namespace, routers, brokers=(), **spec):
        tenant = self.tenant_of(namespace)
        self.addCleanup(tenant.clean)
        tenant.make(*messaging_stage.infra(routers, brokers, **spec))
        tenant.plan()
        return tenant

    def forwarder(self, name, to=None):
        made = Forwarder((to or artemis).port, name)
        self.addCleanup(made.close)
        return made

    def routers(self, *names, **more):
        return [amqp.Router(name, **more).start_for(self) for name in names]

    @staticmethod
    def with_routers(tenant, routers, brokers=(), name="infra1"):
        _, whole = messaging_stage.infra(routers, brokers)
        tenant.change("MessagingInfra", name, router=whole["spec"]["router"])

    @staticmethod
    def hosts(tenant, what="routers"):
        return {one["host"]: one for one in tenant.get("MessagingInfra", "infra1")["status"].get(what, [])}

    def test_MS003_MS004_MR24_a_connector_from_each_router_to_each_broker(self):
        brokers = [self.forwarder("b0"), self.forwarder("b1", amqp.Artemis("b1", memory=128, global_max_size=64 << 20).start_for(self))]
        routers = self.routers("R0", "R1")
        brokers[1].refused.add(routers[1].process.pid)
        tenant = self.infra("ms003", routers, brokers)

        def one_is_missing():
            why = tenant.message("MessagingInfra", "infra1", "BrokersConnected")
            assert all(word in why for word in ("b1", "R1")) and tenant.condition("MessagingInfra", "infra1", "BrokersConnected")["status"] == "False", why
            [row] = [one for one in routers[1].rows("connector").values() if one["port"] == str(brokers[1].port)]
            assert row["connectionStatus"] == "CONNECTING" and row["connectionMsg"] in why, (row, why)
            return True

        kit.eventually(one_is_missing, 20, "the condition names the connector")
        for router in routers:
            rows = router.rows("connector").values()
            self.assertEqual(sorted((one["role"], one["port"], one["idleTimeoutSeconds"]) for one in rows),
                             sorted(("route-container", str(broker.port), 16) for broker in brokers))
        # All else is made meanwhile.
        tenant.space()
        tenant.until("AddressSpace", "space1")
        tenant.address("a", "anycast")
        tenant.ready("a")
        brokers[1].refused.clear()
        tenant.until("MessagingInfra", "infra1", "BrokersConnected")
        tenant.until("MessagingInfra", "infra1")
        for router in routers:
            self.assertEqual([one["connectionStatus"] for one in router.rows("connector").values()], ["SUCCESS"] * 2)
        self.assertEqual(self.sent(*routers)["CREATE", CONNECTOR], 4)
        self.assertEqual({host: one["connected"] for host, one in self.hosts(tenant, "brokers").items()}, {"b0": True, "b1": True})

    def test_MS009_an_infra_goes_after_its_spaces(self):
        [router] = self.routers("R0")
        [broker] = [self.forwarder("b0")]
        tenant = self.infra("ms009", [router], [broker])
        tenant.space()
        tenant.until("AddressSpace", "space1")
        tenant.address("a", "anycast")
        tenant.ready("a")
        tenant.delete("MessagingInfra", "infra1")
        why = tenant.until("MessagingInfra", "infra1", status="False", reason="Terminating")
        self.assertIn("ms009/space1", why["message"])
        self.assertEqual(tenant.get("MessagingInfra", "infra1")["status"]["phase"], "Terminating")
        # A worker that begins only now takes away what another one has made.
        self.worker.stop()
        for kind, name in (("Address", "space1.a"), ("AddressSpace", "space1")):
            tenant.delete(kind, name)
        self.worker.start()
        for kind, name in (("Address", "space1.a"), ("AddressSpace", "space1"), ("MessagingInfra", "infra1")):
            tenant.gone(kind, name)
        for kind in ("vhost", "address", "connector"):
            self.assertEqual(router.rows(kind), {})

    def test_MS010_MR37_an_infra_that_stands_still_holds_no_other_one(self):
        still, good = self.routers("R0", "R1")
        tenants = [self.infra("ms010a", [still]), self.infra("ms010b", [good])]
        for tenant in tenants:
            tenant.space()
            tenant.until("AddressSpace", "space1")
            tenant.until("MessagingInfra", "infra1")

        def good_is_well():  # it may have said that it is being configured
            status = tenants[1].get("MessagingInfra", "infra1")["status"]
            assert status["phase"] == "Active" and all(one["status"] == "True" for one in status["conditions"]), status
            return True

        kit.eventually(good_is_well, 30)
        still.kill()
        tenants[0].until("MessagingInfra", "infra1", status="False")
        tenants[0].address("a", "anycast")
        for number in range(5):
            tenants[1].address(f"a{number}", "anycast")
        tenants[1].ready(*(f"a{number}" for number in range(5)))
        self.assertNotEqual(tenants[0].condition("Address", "space1.a").get("status"), "True")

        kit.eventually(good_is_well, 30)
        still.start()
        tenants[0].ready("a")
        tenants[0].until("MessagingInfra", "infra1")

    def test_MS010_a_tenant_that_names_no_infra_gets_one_when_that_becomes_active(self):
        [router] = self.routers("R0")
        router.kill()
        tenant = self.infra("ms010c", [router], namespaceSelector={"matchNames": ["ms010c"]})
        tenant.until("MessagingInfra", "infra1", status="False")
        tenant.make("MessagingTenant", {"metadata": {"name": "default"}, "spec": {}})
        kit.eventually(lambda: "InfraNotFound" in str(tenant.get("MessagingTenant", "default").get("status", {}).get("conditions")), what="there is none for it")
        router.start()
        tenant.until("MessagingInfra", "infra1")
        tenant.until("MessagingTenant", "default")

    def test_MS064_two_infras_with_one_router_leave_each_other_alone(self):
        router, = self.routers("R0")
        tenants = [self.infra(namespace, [router]) for namespace in ("one-router", "same-router")]
        for tenant in tenants:
            tenant.until("MessagingInfra", "infra1")
            tenant.space()
            tenant.until("AddressSpace", "space1")
            tenant.address("a", "anycast")
            tenant.ready("a")
        for tenant, other in zip(tenants, tenants[::-1]):
            why = tenant.until("MessagingInfra", "infra1", "Synchronized", reason="SharedRouter")
            self.assertIn(f"{other.namespace}/infra1", why["message"])
        both = router.rows("vhost"), router.rows("address")
        self.assertEqual([len(rows) for rows in both], [2, 2])
        self.forget(router)
        router.command("cut")  # whoever connects again looks at all that is there
        kit.eventually(lambda: router.requests().get(("QUERY", "vhost"), 0) >= 2, 40, "both have looked")
        for tenant in tenants:
            tenant.address("b", "anycast")
            tenant.ready("b")
        self.assertEqual(router.rows("vhost"), both[0])
        self.assertEqual({name: router.rows("address")[name] for name in both[1]}, both[1])
        self.assertFalse({key: count for key, count in self.sent(router).items() if key[0] == "DELETE"})

    def test_MS_16_a_router_that_is_too_old_is_not_managed(self):
        [good], [old] = self.routers("R0"), self.routers("R1", version="1.11.2")
        tenant = self.infra("ms16", [good, old])
        why = tenant.until("MessagingInfra", "infra1", "Synchronized", "False", "UnsupportedRouter")
        self.assertTrue("R1" in why["message"] and "1.11.2" in why["message"], why)
        self.assertEqual(tenant.condition("MessagingInfra", "infra1", "RoutersCreated")["status"], "True")
        tenant.until("MessagingInfra", "infra1", reason="Degraded")
        tenant.space()
        tenant.until("AddressSpace", "space1")
        self.assertEqual(old.requests(), {})
        self.with_routers(tenant, [good])
        tenant.until("MessagingInfra", "infra1", "Synchronized")
        tenant.until("MessagingInfra", "infra1", reason="Ready")

    def test_MS005_a_space_says_that_a_router_it_can_do_without_is_away(self):
        first, second = self.routers("R0", "R1")
        tenant = self.infra("ms005", [first, second])
        tenant.change("MessagingInfra", "infra1", router={"replicas": {"min": 2, "max": 2, "minReady": 1}})
        tenant.until("MessagingInfra", "infra1")
        tenant.space()
        tenant.until("AddressSpace", "space1", reason="Ready")
        second.kill()
        why = tenant.until("AddressSpace", "space1", reason="Degraded")
        self.assertIn("R1", why["message"])
        tenant.change("MessagingInfra", "infra1", router={"replicas": {"min": 1, "max": 1}})
        self.with_routers(tenant, [first])
        tenant.until("AddressSpace", "space1", reason="Ready")

    def test_MS011_MS012_MS013_MS096_routers_come_and_go(self):
        first, second, third = self.routers("R0", "R1", "R2")
        broker = self.forwarder("b0")
        tenant = self.infra("ms011", [first], [broker])
        tenant.plan("limited", resources={"limits": {"connections": 12}})
        tenant.space(plan="limited")
        tenant.until("AddressSpace", "space1")
        tenant.address("a", "anycast")
        tenant.address("q", "queue")
        tenant.ready("a", "q")
        [vhost] = first.rows("vhost").values()
        self.assertEqual(vhost["maxConnections"], 12)
        whole = {kind: sorted(first.rows(kind)) for kind in ("vhost", "address", "autoLink", "connector")}
        # One joins: all is there when it is said to be.
        self.forget(first)
        self.with_routers(tenant, [first, second], [broker])
        kit.eventually(lambda: self.hosts(tenant)["R1"]["synchronized"], what="R1 is synchronized")
        self.assertEqual({kind: sorted(second.rows(kind)) for kind in whole}, whole)
        kit.eventually(lambda: [one["maxConnections"] for router in (first, second) for one in router.rows("vhost").values()] == [6, 6], what="halved")
        self.assertEqual(self.sent(first), {("UPDATE", VHOST): 1})
        tenant.until("MessagingInfra", "infra1")
        tenant.ready("a", "q")
        # One fails: what is declared is the same.
        self.forget(first)
        second.kill()
        kit.eventually(lambda: not self.hosts(tenant)["R1"]["connected"], what="R1 is away")
        tenant.address("b", "anycast")
        kit.eventually(lambda: any(one.endswith("/b") for one in self.patterns(first)), what="b is at R0")
        self.assertEqual(self.sent(first), {("CREATE", ADDRESS): 1})
        # It is taken out of the infra: nobody waits for it.
        self.with_routers(tenant, [first], [broker])
        tenant.ready("a", "q", "b")
        kit.eventually(lambda: set(self.hosts(tenant)) == {"R0"}, what="R1 is not named any more")
        second.start()
        tenant.address("c", "anycast")
        tenant.ready("c")
        self.assertEqual((self.sent(second), second.dump()["connections"]), ({}, []))
        # The same host somewhere else.
        third.name = "R0"
        self.with_routers(tenant, [third], [broker])
        tenant.address("d", "anycast")
        tenant.ready("d")
        kit.eventually(lambda: len(third.rows("address")) == 5 and len(third.rows("vhost")) == 1, what="all of it is at the new place")
        kit.eventually(lambda: not [one for one in first.dump()["connections"] if one["dir"] == "in"], what="the old connection is closed")
        tenant.ready("a", "q", "b", "c")
        self.assertFalse([one for one in first.rows("address").values() if one["pattern"].endswith("/d")])


class Transactions(Case):
    """Two routers; a broker that can be away."""

    @classmethod
    def setUpClass(cls):
        cls.routers = cls.routers_of("R0", "R1")
        cls.broker = Forwarder(artemis.port)
        cls.addClassCleanup(cls.broker.close)
        cls.tenant = cls.tenant_of("transactions")
        cls.tenant.make(*messaging_stage.infra(cls.routers, [cls.broker]))
        cls.tenant.plan("plan1", capabilities=["transactions"])
        cls.tenant.until("MessagingInfra", "infra1")

    def test_MS021_MS024_MR14_a_space_with_transactions_has_a_broker(self):
        self.forget(*self.routers)
        self.tenant.space("whole", capabilities=["transactions"])
        self.tenant.until("AddressSpace", "whole", "Scheduled")
        self.tenant.until("AddressSpace", "whole")
        status = self.tenant.get("AddressSpace", "whole")["status"]
        self.assertEqual(status["broker"], {"host": "b0", "state": "Active"})
        self.assertEqual(self.sent(*self.routers), {("CREATE", VHOST): 2, ("CREATE", ROUTE): 4})
        for router in self.routers:
            self.assertIn(status["spaceId"], self.vhosts(router))
            self.assertEqual(sorted((one["prefix"], one["direction"]) for one in router.rows("linkRoute").values()),
                             [(status["spaceId"], "in"), (status["spaceId"], "out")])
        self.forget(*self.routers)
        self.tenant.address("q", "queue", "whole")
        self.tenant.ready("q", space="whole")
        self.assertEqual(self.sent(*self.routers), {})
        self.broker.go()
        why = self.tenant.until("AddressSpace", "whole", status="False")
        self.assertIn("b0", why["message"])
        self.assertEqual(self.tenant.get("AddressSpace", "whole")["status"]["broker"], {"host": "b0", "state": "Scheduled"})
        self.tenant.until("Address", "whole.q", status="False")
        self.broker.come()
        self.tenant.until("AddressSpace", "whole", deadline=60)
        self.tenant.ready("q", space="whole", deadline=60)
        self.assertEqual(self.tenant.get("AddressSpace", "whole")["status"]["broker"], {"host": "b0", "state": "Active"})
        self.assertEqual(self.sent(*self.routers), {})


if __name__ == "__main__":
    unittest.main()
