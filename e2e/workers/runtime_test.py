"""The runtime of workers over three shards, by its example role: units, the ring, what happens when processes end (docs/spec/worker-runtime.md)."""
import signal
import unittest

import kit
import worker

SAID = "Hello, {}!"


class Runtime(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation()
        cls.installation.start_for(cls)
        cls.stage = worker.Stage(cls.installation)

    def greet(self, shard, name, who):
        client = self.stage.consumers[shard]
        path = f"{worker.GREETINGS}/{name}"
        client.must("POST", worker.GREETINGS, self.stage.greeting(name, who))
        self.addCleanup(client.request, "DELETE", path)
        return lambda: self.said(client, path)

    @staticmethod
    def said(client, path):
        return client.must("GET", path).get("status", {}).get("message")

    def expect(self, read, text, deadline=15):
        kit.eventually(lambda: read() == text, deadline, text)

    def test_RT_T010_a_unit_for_each_endpoint_and_each_object_is_reconciled(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            reads = [self.greet(shard, "hello", shard) for shard in self.stage.SHARDS]
            for shard, read in zip(self.stage.SHARDS, reads):
                self.expect(read, SAID.format(shard))
            self.assertEqual(one.metric("ring_partitions_owned"), 3 * 1024)
            self.assertEqual(one.stop(), 0)

    def test_RT_T014_equal_names_in_two_clusters_are_two_objects(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            first, second = self.greet("root", "same", "first"), self.greet("shard-1", "same", "second")
            self.expect(first, SAID.format("first"))
            self.expect(second, SAID.format("second"))
            self.stage.consumers["root"].must("DELETE", f"{worker.GREETINGS}/same")
            self.stage.consumers["shard-1"].must("PATCH", f"{worker.GREETINGS}/same", {"spec": {"name": "again"}},
                                                 headers={"Content-Type": "application/merge-patch+json"})  # fmt: skip
            self.expect(second, SAID.format("again"))

    def test_RT_T100_what_changes_nothing_writes_nothing(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            read = self.greet("root", "calm", "calm")
            self.expect(read, SAID.format("calm"))
            client, path = self.stage.consumers["root"], f"{worker.GREETINGS}/calm"
            before = client.must("GET", path)["metadata"]["resourceVersion"]
            done = one.metric("controller_runtime_reconcile_total", result="success")
            labelled = client.must("PATCH", path, {"metadata": {"labels": {"a": "b"}}},
                                   headers={"Content-Type": "application/merge-patch+json"})["metadata"]["resourceVersion"]  # fmt: skip
            self.assertNotEqual(before, labelled)
            kit.eventually(lambda: one.metric("controller_runtime_reconcile_total", result="success") > done, what="reconciled")
            self.assertEqual(client.must("GET", path)["metadata"]["resourceVersion"], labelled)

    def test_RT_T050_two_workers_share_the_keys(self):
        with worker.Worker(self.stage) as one, worker.Worker(self.stage) as two:
            one.until_ready()
            two.until_ready()
            kit.eventually(lambda: all(each.metric("ring_partitions_owned") > 3 * 300 for each in (one, two)), 40, "both own")
            self.assertEqual(one.metric("ring_partitions_owned") + two.metric("ring_partitions_owned"), 3 * 1024)
            for shard in self.stage.SHARDS:
                self.expect(self.greet(shard, "shared", shard), SAID.format(shard))

    def test_RT_T051_a_killed_worker_is_succeeded_after_its_lease(self):
        with worker.Worker(self.stage) as one, worker.Worker(self.stage) as two:
            one.until_ready()
            two.until_ready()
            kit.eventually(lambda: two.metric("ring_partitions_owned") > 900, 40, "the second owns its share")
            one.process.kill()
            kit.eventually(lambda: two.metric("ring_partitions_owned") == 3 * 1024, 40, "the second owns all")
            for shard in self.stage.SHARDS:
                self.expect(self.greet(shard, "orphan", shard), SAID.format(shard))

    def test_RT_T004_a_worker_that_ends_hands_over_at_once(self):
        with worker.Worker(self.stage) as one, worker.Worker(self.stage) as two:
            one.until_ready()
            two.until_ready()
            kit.eventually(lambda: two.metric("ring_partitions_owned") > 900, 40, "the second owns its share")
            self.assertEqual(one.stop(), 0)
            clock = kit.Clock()
            kit.eventually(lambda: two.metric("ring_partitions_owned") == 3 * 1024, 30, "the second owns all")
            self.assertLess(clock.spent(), 13, "nobody waited for a Lease to expire")

    def test_RT_T052_a_worker_that_was_stopped_writes_nothing_when_it_wakes(self):
        with worker.Worker(self.stage) as one, worker.Worker(self.stage) as two:
            one.until_ready()
            two.until_ready()
            kit.eventually(lambda: two.metric("ring_partitions_owned") > 900, 40, "the second owns its share")
            one.process.send_signal(signal.SIGSTOP)
            kit.eventually(lambda: two.metric("ring_partitions_owned") == 3 * 1024, 60, "the second owns all")
            reads = [self.greet(shard, "awake", shard) for shard in self.stage.SHARDS]
            for shard, read in zip(self.stage.SHARDS, reads):
                self.expect(read, SAID.format(shard))
            revisions = [self.stage.consumers[shard].must("GET", f"{worker.GREETINGS}/awake")["metadata"]["resourceVersion"]
                         for shard in self.stage.SHARDS]  # fmt: skip
            one.process.send_signal(signal.SIGCONT)
            one.until_ready()
            self.assertEqual(revisions, [self.stage.consumers[shard].must("GET", f"{worker.GREETINGS}/awake")["metadata"]["resourceVersion"]
                                         for shard in self.stage.SHARDS])  # fmt: skip

    def test_RT_T023_RT_12_a_shard_that_restarts_loses_nothing_and_others_go_on(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            self.expect(self.greet("shard-1", "before", "before"), SAID.format("before"))
            self.installation.kill("shard-1")
            kit.eventually(lambda: self.stage.consumers["shard-1"].get(worker.GREETINGS).status == 200, 60, "the shard is back")
            self.expect(self.greet("shard-1", "after", "after"), SAID.format("after"), 60)
            self.expect(self.greet("shard-2", "beside", "beside"), SAID.format("beside"))

    def test_RT_T054_leases_that_are_deleted_come_back_with_higher_epochs(self):
        leases = "/apis/coordination.k8s.io/v1/namespaces/kintsugi-system/leases"
        admin = self.installation.client("/clusters/root:leases-root")
        with worker.Worker(self.stage) as one:
            one.until_ready()

            def member():
                names = [item for item in admin.must("GET", leases)["items"]
                         if item["metadata"]["name"].startswith("ring-example-") and "coordinator" not in item["metadata"]["name"]
                         and item["spec"].get("holderIdentity")]  # fmt: skip
                return next((item for item in names if str(one.process.pid) in item["spec"]["holderIdentity"]), None)

            before = kit.eventually(member, 20, "its Lease")
            admin.must("DELETE", f"{leases}/{before['metadata']['name']}")
            after = kit.eventually(lambda: (found := member()) and found["metadata"]["uid"] != before["metadata"]["uid"] and found, 60,
                                   "a new Lease")  # fmt: skip
            self.assertGreater(after["spec"]["leaseTransitions"], before["spec"].get("leaseTransitions", 0))
            one.until_ready(60)
            self.expect(self.greet("root", "again", "again"), SAID.format("again"), 60)

    def test_RT_T104_the_page_of_metrics_has_the_names_and_no_names_of_objects(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            self.expect(self.greet("root", "hidden-name", "hidden-who"), SAID.format("hidden-who"))
            page = one.metrics()
            for name in ("controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total",
                         "controller_runtime_terminal_reconcile_errors_total", "controller_runtime_reconcile_panics_total",
                         "controller_runtime_reconcile_timeouts_total", "controller_runtime_reconcile_time_seconds_bucket",
                         "controller_runtime_max_concurrent_reconciles", "controller_runtime_active_workers", "workqueue_depth",
                         "workqueue_adds_total", "workqueue_retries_total", "workqueue_queue_duration_seconds_bucket",
                         "workqueue_work_duration_seconds_bucket", "workqueue_unfinished_work_seconds",
                         "workqueue_longest_running_processor_seconds", "leader_election_master_status", "rest_client_requests_total",
                         "reflector_objects", "ring_partitions_owned", "ring_generation"):  # fmt: skip
                self.assertIn("\n" + name + "{", "\n" + page, name)
            for hidden in ("hidden-name", "hidden-who", "consumer-root", worker.USER):
                self.assertNotIn(hidden, page)


if __name__ == "__main__":
    unittest.main()
