"""Whatever is killed while addresses come and go, the end is the same; workers that join, leave and sleep (docs/spec/messaging.md)."""
import contextlib
import json
import os
import random
import signal
import unittest

import amqp
import kit
import messaging_faults
import messaging_stage

ONLY_WITH_ALL = "kills workers, routers and shards for minutes"
ROUNDS = int(os.environ.get("KINTSUGI_FAULT_ROUNDS", "8"))
MERGE = {"Content-Type": "application/merge-patch+json"}


def setUpModule():
    global stage, broker, installation  # pylint: disable=global-variable-undefined
    installation = kit.Installation(shards=2).start_for()
    broker = amqp.Artemis("b0", memory=192, global_max_size=64 << 20).start_for()
    stage = messaging_stage.Stage(installation, ("root", "shard-1"))
    messaging_faults.Case.stage, messaging_faults.Case.broker = stage, broker


class Storm(messaging_faults.Case):
    def test_MS063_MS048_killed_processes_change_nothing_of_the_end(self):
        seed = int(os.environ.get("KINTSUGI_SEED", "") or random.randrange(1 << 30))
        print(f"KINTSUGI_SEED={seed}", flush=True)
        chance = random.Random(seed)
        with self.worker() as one:
            space_id = self.begun(one)
            changes = messaging_faults.Changes(self, random.Random(seed + 1))

            def worker():
                one.process.kill()
                one.process.wait(120)
                one.start()

            def router():
                self.router.kill()
                self.router.start()

            def broken_broker():
                self.broker.kill()
                self.broker.start()
                kit.eventually(lambda: self.client.open(self.broker.port, name="broker")["opened"], what="the broker is asked again")

            faults = [worker, router, lambda: installation.kill("root"), lambda: installation.kill("proxy"), broken_broker,
                      lambda: installation.kill("shard-1")]
            for number in range(ROUNDS):
                made = changes.made
                kit.eventually(lambda m=made: changes.made >= m + 8 or changes.fault, 120, "changes go on")
                (faults[number] if number < len(faults) else chance.choice(faults))()
            left = changes.stop()
            self.ends(space_id, left, deadline=120)
            self.all_away(space_id, left, deadline=120)


class Members(messaging_faults.Case):
    def test_MS_three_workers_join_and_leave_and_one_speaks_at_a_time(self):
        self.count_anew()
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(self.worker())
            space_id = self.begun(first)
            changes = messaging_faults.Changes(self, random.Random(1), 0.1)
            members = [first]
            for step in ("join", "join", "leave", "join", "leave", "leave"):
                if step == "join":
                    members.append(stack.enter_context(self.worker()))
                    members[-1].until_ready(60)
                else:
                    self.assertEqual(members.pop(0).stop(), 0)
                kit.eventually(lambda: sum(each.metric("ring_partitions_owned") for each in members) == 2 * 1024
                               and all(each.metric("ring_partitions_owned") > 0 for each in members), 60, "the ring is theirs")
                kit.eventually(lambda: self.speaker(*members), 40, "one speaks")
            left = changes.stop()
            self.ends(space_id, left, deadline=90)
            self.one_spoke_at_a_time()
            self.all_away(space_id, left)

    def test_MS064_a_worker_that_slept_beyond_its_lease_sends_and_writes_nothing(self):
        with self.worker() as one, self.worker() as two:
            space_id = self.begun(one)
            two.until_ready()
            kit.eventually(lambda: all(each.metric("ring_partitions_owned") > 2 * 300 for each in (one, two)), 40, "both own")
            self.tenant.address("before")
            self.tenant.ready("before", deadline=40)
            sleeps = kit.eventually(lambda: self.speaker(one, two), what="one speaks")
            other = two if sleeps is one else one
            self.router.command("hang")  # it sleeps with requests that were not answered, and with more to do
            locals_ = [f"s{number}" for number in range(60)]
            for local in locals_:
                self.tenant.address(local)
            kit.eventually(lambda: self.router.dump()["stuck"] > 0, what="requests wait")
            sleeps.process.send_signal(signal.SIGSTOP)
            [old] = [one["identity"] for one in self.router.dump()["connections"] if one["container"] == "kintsugi-root"]
            self.router.command("resume")
            kit.eventually(lambda: other.metric("ring_partitions_owned") == 2 * 1024, 60, "the other owns all")
            self.tenant.ready("before", *locals_, deadline=60)
            self.exact(space_id, ["before", *locals_])
            revisions = self.revisions()
            self.router.command("forget")
            sleeps.process.send_signal(signal.SIGCONT)
            sleeps.until_ready(60)
            kit.eventually(lambda: sleeps.metric("ring_partitions_owned") > 0, 60, "it is a member again")
            # One that was made afterwards passes by all that it could have wanted.
            self.tenant.address("later")
            self.tenant.ready("later", deadline=40)
            said = [entry for entry in self.router.dump(log=True)["log"] if str(entry["connection"]) == old]
            self.assertEqual(said, [])
            revisions_now = self.revisions()
            revisions_now.pop("space1.later")
            self.assertEqual(revisions_now, revisions)
            self.all_away(space_id, ["before", "later", *locals_])

    def revisions(self):
        return {one["metadata"]["name"]: one["metadata"]["resourceVersion"]
                for one in self.tenant.client.must("GET", self.tenant.path("Address"))["items"]}


class Partitions(messaging_faults.Case):
    """The shards of the worker are those of a Partition, by a label."""

    def test_MS_a_shard_that_leaves_a_partition_and_comes_back(self):
        provider, root = installation.client(f"/clusters/{messaging_stage.PROVIDER}"), installation.client()
        shards = "/apis/core.kcp.io/v1alpha1/shards"

        def label(shard, value):
            root.must("PATCH", f"{shards}/{shard}", json.dumps({"metadata": {"labels": {"messaging": value}}}), headers=MERGE)

        for shard in stage.SHARDS:
            label(shard, "yes")
            self.addCleanup(label, shard, None)
        partitions, slices = "/apis/topology.kcp.io/v1alpha1/partitions", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
        provider.must("POST", partitions, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "some"},
                                           "spec": {"selector": {"matchLabels": {"messaging": "yes"}}}})
        self.addCleanup(provider.request, "DELETE", f"{partitions}/some")
        body = json.loads(json.dumps(messaging_stage.SLICE))
        body["metadata"]["name"] = "some"
        body["spec"]["partition"] = "some"
        provider.must("POST", slices, body)
        self.addCleanup(provider.request, "DELETE", f"{slices}/some")
        with self.worker(endpoints={"cluster": messaging_stage.PROVIDER, "name": "some"}) as one:
            space_id = self.begun(one)
            kit.eventually(lambda: one.metric("ring_partitions_owned") == 2 * 1024, 40, "two units")
            self.tenant.address("kept")
            self.tenant.ready("kept")
            rows = {kind: self.router.rows(kind) for kind in ("address", "autoLink", "vhost", "connector")}
            self.router.command("forget")
            label("root", "no")
            kit.eventually(lambda: one.metric("ring_partitions_owned") == 1024, 60, "one unit is left")
            kit.eventually(lambda: not messaging_faults.talks_to(one.process.pid, self.router.port), 20, "nobody speaks to the router")
            self.tenant.address("waits")
            self.assertEqual(self.names(space_id), [f"{space_id}/kept"])
            label("root", "yes")
            self.tenant.ready("waits", "kept", deadline=60)
            self.ends(space_id, ["kept", "waits"])
            changed = [entry for entry in self.router.dump(log=True)["log"] if entry["operation"] in ("UPDATE", "DELETE") or entry.get("code") == 201]
            self.assertEqual(sorted(entry["type"].rpartition(".")[2] for entry in changed), ["address", "autoLink", "autoLink"])
            for kind, before in rows.items():
                now = self.router.rows(kind)
                self.assertEqual({name: now[name]["identity"] for name in before}, {name: row["identity"] for name, row in before.items()})
            self.all_away(space_id, ["kept", "waits"])


if __name__ == "__main__":
    unittest.main()
