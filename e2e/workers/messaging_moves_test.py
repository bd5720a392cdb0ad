"""A logical cluster with an infra moves between shards that have workers of their own: one of them acts on its components at any
time, and nothing is made anew (docs/spec/worker-runtime.md, RT-14)."""
import copy
import signal
import unittest

import amqp
import fault_relay
import kit
import messaging_faults
import messaging_stage
import worker

TOPOLOGY = "/apis/topology.kcp.io/v1alpha1"
SHARDS = ("shard-1", "shard-2")


class Moves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.stage = messaging_stage.Stage(cls.installation)
        provider = cls.installation.client(f"/clusters/{messaging_stage.PROVIDER}")
        for shard in SHARDS:
            provider.must("POST", TOPOLOGY + "/partitions", {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": shard},
                                                             "spec": {"selector": {"matchLabels": {"name": shard}}}})
            mine = copy.deepcopy(messaging_stage.SLICE)
            mine["metadata"]["name"] = mine["spec"]["partition"] = shard
            provider.must("POST", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices", mine)
        cls.relay = fault_relay.Relay(cls.installation, cls.stage.user).start_for(cls)

    def worker(self, shard, server=None):
        """Of a Partition with that shard alone, or of all shards."""
        stage = copy.copy(self.stage)
        if shard:
            stage.endpoints = {**stage.endpoints, "name": shard}
        return worker.Worker(stage, role="messaging", more=messaging_faults.LEASE, server=server)

    def tenant(self, name):
        """A workspace on shard-1 with an infra of one router, and addresses that are ready once a worker is there."""
        made = self.installation.make_workspace(name, selector={"name": "shard-1"})
        tenant = messaging_stage.Tenant(self.stage.bind(name))
        router = amqp.Router(f"r-{name}", hazards=False).start_for(self)
        tenant.make(*messaging_stage.infra([router], []))
        tenant.make("AddressSpacePlan", {"metadata": {"name": "plan1"}, "spec": {"messagingInfraRef": "infra1"}})
        tenant.space()
        for local in ("a", "b"):
            tenant.address(local, "anycast")
        return tenant, router, made["spec"]["cluster"]

    def questions(self, shard, cluster):
        """What members of that shard's ring were asked about the cluster, and have answered."""
        leases = self.installation.client(f"/clusters/root:leases-{shard}").must("GET", "/apis/coordination.k8s.io/v1/namespaces/kintsugi-system/leases")
        notes = [one["metadata"].get("annotations", {}) for one in leases["items"]]

        def of(key):
            return {one for each in notes for one in each.get(f"kintsugi.dev/{key}", "").split() if one.startswith(f"{cluster}@")}

        return of("let-go"), of("let-gone")

    @staticmethod
    def entities(router):
        return {kind: router.rows(kind) for kind in ("address", "vhost")}

    @staticmethod
    def speaks(one, router):
        return messaging_faults.connections(one.process.pid, router.port) > 0

    def begins(self, two, one, router):
        """Waits until `two` is connected; says whether `one` is then."""
        return kit.eventually(lambda: self.speaks(two, router) and (self.speaks(one, router),), 60, "the other worker has it")[0]

    def serves(self, tenant, router, local):
        """What is there is Ready, and what comes and goes gets to the router."""
        tenant.ready("a", "b", deadline=40)
        before = self.entities(router)["address"]
        tenant.address(local, "anycast")
        tenant.ready(local, deadline=40)
        self.assertEqual(len(self.entities(router)["address"]), len(before) + 1)
        tenant.delete("Address", f"space1.{local}")
        tenant.gone("Address", f"space1.{local}", 40)
        self.assertEqual(self.entities(router)["address"], before)

    def test_RT14_a_worker_that_hears_of_nothing_lets_go_before_the_other_one_begins(self):
        tenant, router, cluster = self.tenant("lagging")
        with self.worker("shard-1", self.relay.url) as one, self.worker("shard-2") as two:
            one.until_ready()
            two.until_ready()
            tenant.ready("a", "b", deadline=40)
            self.assertEqual(tenant.get("MessagingInfra", "infra1")["status"]["holder"], {"shard": "shard-1", "names": "shard-1", "epoch": 1})
            made = self.entities(router)
            self.relay.rule("GET /shards/shard-1/services/", line=lambda said: b"")
            self.addCleanup(self.relay.clear)
            worker.move(self.installation, "lagging-there", cluster, "shard-2")
            self.assertFalse(self.begins(two, one, router), "both have a connection to the router")
            asked, answered = self.questions("shard-1", cluster)
            self.assertEqual((len(asked), answered), (1, asked))
            self.serves(tenant, router, "c")
            self.assertEqual(self.entities(router), made, "entities keep their names")
            self.assertEqual(tenant.get("MessagingInfra", "infra1")["status"]["holder"], {"shard": "shard-2", "names": "shard-1", "epoch": 2})
            self.relay.clear()  # now it hears of the move

            # And back, while the one that has it is stopped: not before its Lease has run out.
            two.process.send_signal(signal.SIGSTOP)
            worker.move(self.installation, "lagging-back", cluster, "shard-1")
            kit.eventually(lambda: self.speaks(one, router), 60, "the first worker has it again")
            asked, answered = self.questions("shard-2", cluster)
            self.assertEqual((len(asked), answered), (1, set()))
            self.serves(tenant, router, "d")
            since = router.requests()
            two.process.send_signal(signal.SIGCONT)
            kit.eventually(lambda: not self.speaks(two, router), 20, "who was stopped lets go")
            two.until_ready()
            self.assertEqual(self.entities(router), made)
            self.assertEqual({key: count for key, count in router.requests().items() if key[0] in ("CREATE", "DELETE")},
                             {key: count for key, count in since.items() if key[0] in ("CREATE", "DELETE")})
            for kind in ("Address", "AddressSpace", "AddressSpacePlan", "MessagingInfra"):
                tenant.remove_all(kind)
            self.assertEqual(self.entities(router), {"address": {}, "vhost": {}})

    def test_RT14_MD13_a_worker_of_both_shards_goes_on_with_what_is_there(self):
        tenant, router, cluster = self.tenant("near")
        with self.worker(None) as one:
            one.until_ready()
            tenant.ready("a", "b", deadline=40)
            made = self.entities(router)
            for number, shard in enumerate(("shard-2", "shard-1"), 2):
                worker.move(self.installation, f"near-{shard}", cluster, shard)
                kit.eventually(lambda s=shard: tenant.get("MessagingInfra", "infra1")["status"]["holder"]["shard"] == s, 40, f"it is held at {shard}")
                tenant.until("MessagingInfra", "infra1", deadline=40)
                self.assertEqual(tenant.get("MessagingInfra", "infra1")["status"]["holder"], {"shard": shard, "names": "shard-1", "epoch": number})
                tenant.ready("a", "b", deadline=40)
                self.assertEqual(self.entities(router), made)
            self.serves(tenant, router, "c")
            for kind in ("Address", "AddressSpace", "AddressSpacePlan", "MessagingInfra"):
                tenant.remove_all(kind)
            self.assertEqual(self.entities(router), {"address": {}, "vhost": {}})


if __name__ == "__main__":
    unittest.main()
