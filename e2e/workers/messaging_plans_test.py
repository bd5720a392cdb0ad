"""Plans that allow some address plans, what address plans say of themselves, and spaces of other types that are translated
(docs/spec/messaging.md)."""
import json
import unittest

import kit
import messaging_stage
from messaging_case import Case, begin


def setUpModule():
    begin()


class Plans(Case):
    """One router, no broker."""

    @classmethod
    def setUpClass(cls):
        [cls.router] = cls.routers_of("R0")

    def stand(self, namespace, **plan):
        tenant = self.tenant_of(namespace)
        self.addCleanup(tenant.clean)
        tenant.make(*messaging_stage.infra([self.router], []))
        tenant.plan(**plan)
        return tenant

    @staticmethod
    def address_plan(tenant, name, kind="anycast", **spec):
        tenant.make("AddressPlan", {"metadata": {"name": name}, "spec": {"addressType": kind, **spec}})

    def test_MR11_a_plan_allows_the_address_plans_that_it_lists(self):
        tenant = self.stand("allow", addressPlans=["small"])
        for name in ("small", "large"):
            self.address_plan(tenant, name)
        tenant.space()
        tenant.until("AddressSpace", "space1")
        tenant.address("a", "anycast", plan="small")
        tenant.address("b", "anycast", plan="large")
        tenant.address("c", "anycast")
        tenant.ready("a")
        for name in ("b", "c"):
            why = tenant.until("Address", f"space1.{name}", "Validated", "False", "PlanNotAllowed")
            self.assertIn("small", why["message"])
        self.assertEqual([one.rpartition("/")[2] for one in self.patterns(self.router)], ["a"])
        tenant.change("AddressSpacePlan", "plan1", addressPlans=["small", "large"])
        tenant.ready("a", "b")
        # What is applied stays when its plan is not allowed any more.
        tenant.change("AddressSpacePlan", "plan1", addressPlans=["large"])
        tenant.until("Address", "space1.a", "Validated", "False", "PlanNotAllowed")
        self.assertEqual(sorted(one.rpartition("/")[2] for one in self.patterns(self.router)), ["a", "b"])
        tenant.change("AddressSpacePlan", "plan1", addressPlans=[])
        tenant.ready("a", "b", "c")

    def test_MS031_what_address_plans_say_of_themselves(self):
        tenant = self.stand("says")
        self.address_plan(tenant, "good")
        self.address_plan(tenant, "sharded", "topic", queue={"partitions": {"min": 1, "max": 2}})
        self.address_plan(tenant, "old", "queue", resources={"broker": 0.5})
        tenant.make("MessagingAddressPlan", {"metadata": {"name": "good"}, "spec": {"addressType": "anycast"}})
        for kind in ("AddressPlan", "MessagingAddressPlan"):
            tenant.until(kind, "good")
            self.assertEqual(tenant.get(kind, "good")["status"]["phase"], "Active")
        tenant.until("AddressPlan", "sharded", status="False", reason="ShardedTopicNotSupported")
        self.assertEqual(tenant.get("AddressPlan", "sharded")["status"]["phase"], "Failed")
        self.assertNotIn("status", tenant.get("AddressPlan", "old"))

    def test_MS093_MS002_a_space_of_another_type_is_translated(self):
        tenant = self.stand("migrate", name="small")
        notes = {"enmasse.io/migrate-to": "shared", "enmasse.io/migrate-plan": "small", "note": "x"}
        before = tenant.make("AddressSpace", {"metadata": {"name": "old", "annotations": notes, "labels": {"team": "a"}}, "spec": {
            "type": "standard", "plan": "standard-small"}})
        tenant.make("AddressSpace", {"metadata": {"name": "other"}, "spec": {"type": "brokered", "plan": "brokered-small"}})
        tenant.until("AddressSpace", "old-shared")
        tenant.until("AddressSpace", "old-shared", "Migrated")
        copy = tenant.get("AddressSpace", "old-shared")
        self.assertEqual((copy["spec"]["type"], copy["spec"]["plan"], copy["metadata"]["labels"]["team"]), ("shared", "small", "a"))
        self.assertEqual(copy["metadata"]["annotations"]["enmasse.io/migrated-from"], "old")
        # Addresses that it has by then, or at its next change.
        tenant.make("Address", {"metadata": {"name": "old.a"}, "spec": {"address": "a", "addressSpace": "old", "type": "anycast"}})
        after = tenant.change("AddressSpace", "old", metadata={"labels": {"team": "b"}})
        tenant.ready("a", space="old-shared")
        self.assertEqual(tenant.get("Address", "old-shared.a")["spec"], {"address": "a", "type": "anycast"})
        now = tenant.get("AddressSpace", "old")
        self.assertEqual(json.dumps(now, sort_keys=True), json.dumps(after, sort_keys=True))
        self.assertEqual((now["spec"], now.get("status")), (before["spec"], None))
        self.assertEqual(tenant.client.get(tenant.path("AddressSpace", "other-shared")).status, 404)
        # What is of that name already stays.
        tenant.make("AddressSpace", {"metadata": {"name": "third-shared"}, "spec": {"type": "shared", "plan": "small"}})
        tenant.make("AddressSpace", {"metadata": {"name": "third", "annotations": notes}, "spec": {"type": "standard", "plan": "p"}})

        def told():
            events = tenant.client.must("GET", f"/apis/events.k8s.io/v1/namespaces/{tenant.namespace}/events")["items"]
            assert any(one["reason"] == "MigrationNameTaken" and one["regarding"]["name"] == "third" for one in events), [one["reason"] for one in events]
            return True

        kit.eventually(told, 15, "the event")
        self.assertNotIn("enmasse.io/migrated-from", tenant.get("AddressSpace", "third-shared")["metadata"].get("annotations", {}))


if __name__ == "__main__":
    unittest.main()
