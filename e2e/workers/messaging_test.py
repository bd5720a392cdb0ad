"""The messaging worker over real shards: what people write in their workspaces is made at routers (a stand-in) and at a real Artemis
(docs/spec/messaging.md)."""
import unittest

import amqp
import kit
import messaging_stage
import worker


def setUpModule():
    global installation, stage, broker  # pylint: disable=global-variable-undefined
    installation = kit.Installation().start_for()
    broker = amqp.Artemis("b0", global_max_size=268435456).start_for()
    stage = messaging_stage.Stage(installation)


class Case(unittest.TestCase):
    """One worker, and a consumer with an infra of R routers and the broker."""

    ROUTERS, shard = 1, "root"

    @classmethod
    def setUpClass(cls):
        cls.worker = worker.Worker(stage, role="messaging").__enter__()
        cls.addClassCleanup(cls.worker.__exit__)
        cls.routers = [amqp.Router(f"R{number}").start_for(cls) for number in range(cls.ROUTERS)]
        cls.tenant = messaging_stage.Tenant(stage.consumers[cls.shard])
        cls.addClassCleanup(cls.clean)
        cls.tenant.make(*messaging_stage.infra(cls.routers, [broker]))
        cls.tenant.make("AddressSpacePlan", {"metadata": {"name": "plan1"}, "spec": {"messagingInfraRef": "infra1"}})
        cls.worker.until_ready()
        cls.tenant.until("MessagingInfra", "infra1", deadline=30)

    @classmethod
    def clean(cls):
        """Everything goes as people would take it away: what is left in a component is a fault."""
        for kind in ("Address", "AddressSpace", "AddressSpacePlan", "AddressPlan", "MessagingInfra"):
            for one in cls.tenant.client.must("GET", cls.tenant.path(kind))["items"]:
                cls.tenant.delete(kind, one["metadata"]["name"])
            kit.eventually(lambda k=kind: not cls.tenant.client.must("GET", cls.tenant.path(k))["items"], 30, f"no {kind} is left")

    def space(self, name, plan="plan1", **spec):
        self.tenant.space(name, plan, **spec)
        self.tenant.until("AddressSpace", name)
        return self.tenant.get("AddressSpace", name)["status"]["spaceId"]

    def requests(self, router, *kinds):
        return sum(count for (_, kind), count in router.requests().items() if not kinds or kind in kinds)


class OneRouter(Case):
    def test_MS030_MS089_a_queue_carries_messages(self):
        space_id = self.space("flow")
        self.tenant.address("orders", space="flow")
        self.tenant.ready("orders", space="flow")
        client = amqp.Client().start_for(self)
        client.open(self.routers[0].tenants_port, hostname=space_id)
        sent = client.do("send", address="orders", bodies=[f"m{number}" for number in range(10)])
        self.assertEqual(sent.get("accepted"), 10, sent)
        got = client.do("receive", address="orders", count=10)
        self.assertEqual(sorted(got["bodies"]), sorted(f"m{number}" for number in range(10)))
