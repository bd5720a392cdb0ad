"""What the messaging worker tells people by events: what it set right at routers (a stand-in) and at a real Artemis, what it refuses
(docs/spec/messaging.md)."""
import json
import unittest

import amqp
import kit
import messaging_stage
import worker

CHECKS = {"messaging": {"checks": {"counters": "500ms", "sweep": "2s"}}}
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def setUpModule():
    global installation, stage, broker  # pylint: disable=global-variable-undefined
    installation = kit.Installation(shards=1).start_for()
    broker = amqp.Artemis("b0", global_max_size=268435456).start_for()
    stage = messaging_stage.Stage(installation, shards=("root",))


class Events(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.worker = worker.Worker(stage, role="messaging", more=CHECKS).__enter__()
        cls.addClassCleanup(cls.worker.__exit__)
        cls.router = amqp.Router("R0").start_for(cls)
        cls.tenant = messaging_stage.Tenant(stage.consumers["root"])
        cls.tenant.make(*messaging_stage.infra([cls.router], [broker]))
        cls.tenant.make("AddressSpacePlan", {"metadata": {"name": "plan1"}, "spec": {
            "messagingInfraRef": "infra1", "resources": {"limits": {"addresses": 2}}}})
        cls.tenant.space()
        cls.tenant.address("orders")
        cls.tenant.until("MessagingInfra", "infra1", deadline=30)
        cls.tenant.ready("orders")
        cls.name = cls.tenant.get("Address", "space1.orders")["status"]["brokerAddress"]

    def events(self, reason, about):
        return [one for one in self.tenant.client.must("GET", EVENTS)["items"] if one["reason"] == reason and one["regarding"]["name"] == about]

    def told(self, reason, about, *words, deadline=20):
        def there():
            for one in self.events(reason, about):
                if all(word in one["note"] for word in words):
                    return one
            raise AssertionError([(one["reason"], one["regarding"]["name"], one["note"]) for one in self.tenant.client.must("GET", EVENTS)["items"]])

        return kit.eventually(there, deadline, f"event {reason} of {about}")

    def test_RT83_an_event_says_of_which_object_it_is(self):
        address = self.tenant.get("Address", "space1.orders")
        event = self.told("Scheduled", "space1.orders", "placed on b0")
        self.assertEqual(event["regarding"], {"apiVersion": "enmasse.io/v1beta1", "kind": "Address", "namespace": "default", "name": "space1.orders",
                                              "uid": address["metadata"]["uid"]})  # fmt: skip
        self.assertEqual((event["type"], event["reportingController"]), ("Normal", "kintsugi.dev/messaging"))
        self.assertEqual(len(self.events("Ready", "space1.orders")), 1)

    def test_MS049_an_entity_that_was_taken_away_by_hand_is_told(self):
        [name] = [name for name, row in self.router.rows("address").items() if "/orders" in json.dumps(row)]
        self.router.command("delete", type="address", name=name)
        event = self.told("DriftRepaired", "space1.orders", "router R0: address", name, "was missing")
        self.assertEqual(event["type"], "Warning")
        self.assertIn(name, self.router.rows("address"))

    def test_MS052_a_queue_that_was_taken_away_by_hand_is_told(self):
        client = amqp.Client().start_for(self)
        client.open(broker.port)
        self.assertEqual(client.broker("broker", "destroyQueue", [self.name, True])[0], True)
        self.told("DriftRepaired", "space1.orders", "broker b0: queue " + self.name, "was missing")

    def test_MS051_an_orphan_is_told_of_the_infra(self):
        orphan = "ktg.root.addr." + "a" * 26
        self.router.command("create", type="address", name=orphan, attributes={"pattern": "nobodys", "distribution": "balanced"})
        self.told("DriftRepaired", "infra1", orphan, "is nobody's and is deleted")
        self.assertNotIn(orphan, self.router.rows("address"))

    def test_MS019_what_is_refused_is_a_warning(self):
        for local in ("second", "third"):
            self.tenant.address(local, "anycast")
        # Of two that are as old as each other chance decides.
        kit.eventually(lambda: self.events("AddressLimitExceeded", "space1.second") + self.events("AddressLimitExceeded", "space1.third"), 20,
                       "the third address is refused")


if __name__ == "__main__":
    unittest.main()
