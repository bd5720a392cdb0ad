"""Workers and routers that end in between, workers that take over from each other, and two shards at one router
(docs/spec/messaging.md)."""
import unittest

import amqp
import kit
import messaging_faults
import messaging_stage

ONLY_WITH_ALL = "workers and routers end and begin for more than a minute"


def setUpModule():
    global stage, broker  # pylint: disable=global-variable-undefined
    installation = kit.Installation(shards=2).start_for()
    broker = amqp.Artemis("b0", memory=192, global_max_size=64 << 20).start_for()
    stage = messaging_stage.Stage(installation, ("root", "shard-1"))
    messaging_faults.Case.stage, messaging_faults.Case.broker = stage, broker


class Faults(messaging_faults.Case):
    def test_MS063_MS048_a_worker_and_a_router_that_are_killed_lose_and_leave_nothing(self):
        early, late = [f"a{number}" for number in range(20)], [f"b{number}" for number in range(10)]
        with self.worker() as one:
            space_id = self.begun(one)
            for local in early:
                self.tenant.address(local)
            self.tenant.ready(early[0])
            one.process.kill()
            one.process.wait(120)
            for local in early[:10]:
                self.tenant.delete("Address", f"space1.{local}")
            for local in late:
                self.tenant.address(local)
            one.start()
            self.tenant.ready(late[0], deadline=60)
            self.router.kill()
            self.router.start()
            self.ends(space_id, early[10:] + late)
            self.all_away(space_id, early[10:] + late)

    def test_MS_two_workers_take_over_and_one_speaks_at_a_time(self):
        self.count_anew()
        with self.worker() as one, self.worker() as two:
            space_id = self.begun(one)
            two.until_ready()
            kit.eventually(lambda: all(each.metric("ring_partitions_owned") > 2 * 300 for each in (one, two)), 40, "both own")
            self.tenant.address("before")
            self.tenant.ready("before", deadline=40)
            speaks = kit.eventually(lambda: self.speaker(one, two), what="one speaks")
            other = two if speaks is one else one
            had = self.tenant.get("Address", "space1.before")
            self.assertEqual(speaks.stop(), 0)
            self.tenant.address("after")
            self.tenant.ready("after", deadline=40)
            self.assertTrue(messaging_faults.talks_to(other.process.pid, self.router.port))
            self.ends(space_id, ["before", "after"])
            self.one_spoke_at_a_time()
            self.assertEqual(self.tenant.get("Address", "space1.before"), had)  # it was ready all the time, and nobody said anything else
            self.all_away(space_id, ["before", "after"])


class TwoShards(messaging_faults.Case):
    def test_MS064_workers_of_two_shards_touch_their_own_alone(self):
        other = messaging_stage.Tenant(stage.consumers["shard-1"])
        other.make(*messaging_stage.infra([self.router], [broker]))
        self.addCleanup(self.clean, other)
        other.make("AddressSpacePlan", {"metadata": {"name": "plan1"}, "spec": {"messagingInfraRef": "infra1"}})
        other.space()
        with self.worker() as one:
            space_id = self.begun(one)
            other.until("AddressSpace", "space1", deadline=40)
            other_id = other.get("AddressSpace", "space1")["status"]["spaceId"]
            locals_ = [f"q{number}" for number in range(5)]
            for tenant in (self.tenant, other):
                for local in locals_:
                    tenant.address(local)
            for tenant in (self.tenant, other):
                tenant.ready(*locals_)
            for each in (space_id, other_id):
                self.exact(each, locals_)
            self.assertEqual({name.split(".")[1] for kind in ("address", "autoLink", "connector") for name in self.router.rows(kind)},
                             {"root", "shard-1"})

            def ours():
                return {name: row for kind in ("address", "autoLink") for name, row in self.router.rows(kind).items() if name.split(".")[1] == "root"}

            before = ours()
            self.router.command("forget")
            for local in locals_:
                other.delete("Address", f"space1.{local}")
            for local in locals_:
                other.gone("Address", f"space1.{local}")
            self.exact(other_id, [])
            self.assertEqual({name: row["identity"] for name, row in ours().items()}, {name: row["identity"] for name, row in before.items()})
            changed = [entry for entry in self.router.dump(log=True)["log"] if entry["operation"] in ("CREATE", "UPDATE", "DELETE")]
            self.assertEqual({entry["name"].split(".")[1] for entry in changed}, {"shard-1"})
            self.exact(space_id, locals_)
            self.all_away(space_id, locals_)


if __name__ == "__main__":
    unittest.main()
