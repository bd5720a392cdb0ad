"""Infras, plans and spaces on several shards: each shard has its own (docs/spec/messaging.md)."""
import unittest

import amqp
import kit
import messaging_stage
import worker


def setUpModule():
    global stage, installation  # pylint: disable=global-variable-undefined
    installation = kit.Installation(shards=2).start_for()
    stage = messaging_stage.Stage(installation, shards=("root", "shard-1"))


class Shards(unittest.TestCase):
    def test_MD13_a_space_uses_infras_of_its_own_shard(self):
        """Although the worker is told of the workspace whose infras are for all."""
        workspace = installation.client("/clusters/root").must("GET", "/apis/tenancy.kcp.io/v1alpha1/workspaces/consumer-root")
        own = installation.make_workspace("consumer-near", selector={"name": "root"})
        self.assertNotEqual(own["spec"]["cluster"], workspace["spec"]["cluster"])
        near, far = messaging_stage.Tenant(stage.bind("consumer-near")), messaging_stage.Tenant(stage.consumers["shard-1"])
        here = messaging_stage.Tenant(stage.consumers["root"], "enmasse-infra")
        here.client.must("POST", "/api/v1/namespaces", {"metadata": {"name": "enmasse-infra"}})
        router, other = (amqp.Router(name).start_for(self) for name in ("R0", "R1"))
        made = []

        def make(tenant, kind, name, spec):
            made.append((tenant, kind, name))
            tenant.make(kind, {"metadata": {"name": name}, "spec": spec})

        make(here, "MessagingInfra", "infra1", messaging_stage.infra([router], [])[1]["spec"])
        make(here, "AddressSpacePlan", "plan1", {"messagingInfraRef": "infra1"})
        with worker.Worker(stage, role="messaging", more={"messaging": {"infra_clusters": [workspace["spec"]["cluster"]]}}) as one:
            one.until_ready()
            here.until("MessagingInfra", "infra1")
            for tenant in (near, far):
                make(tenant, "AddressSpace", "space1", {"plan": "plan1"})
            near.until("AddressSpace", "space1", deadline=40)
            why = far.until("AddressSpace", "space1", "PlanFound", "False", "PlanNotFound")
            self.assertIn("plan1", why["message"])
            far_tenant = {"messagingInfrastructureRef": {"name": "infra1", "namespace": "enmasse-infra"}}
            make(far, "MessagingTenant", "default", far_tenant)
            far.until("MessagingTenant", "default", "Bound", "False", "InfraNotFound")
            self.assertEqual({name.split(".")[1] for name in router.rows("vhost")}, {"root"})
            self.assertEqual(len(router.rows("vhost")), 1)
            # Its own heals it.
            make(far, "MessagingInfra", "infra1", messaging_stage.infra([other], [])[1]["spec"])
            make(far, "AddressSpacePlan", "plan1", {"messagingInfraRef": "infra1"})
            far.until("AddressSpace", "space1", deadline=40)
            self.assertEqual({name.split(".")[1] for name in other.rows("vhost")}, {"shard-1"})
            self.assertEqual(len(router.rows("vhost")), 1)
            for kind in ("MessagingTenant", "AddressSpace", "AddressSpacePlan", "MessagingInfra"):
                for tenant, _, name in [each for each in made if each[1] == kind]:
                    tenant.delete(kind, name)
                    tenant.gone(kind, name, 30)
            for each in (router, other):
                self.assertEqual(each.rows("vhost"), {})


if __name__ == "__main__":
    unittest.main()
