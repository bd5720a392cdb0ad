"""The runtime of workers over three shards, by its example role: units, reconciles, what a shard does (docs/spec/worker-runtime.md)."""
import unittest

import kit
import worker


class Runtime(worker.Case):
    def test_RT_T010_a_unit_for_each_endpoint_and_each_object_is_reconciled(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            reads = [self.greet(shard, "hello", shard) for shard in self.stage.SHARDS]
            for shard, read in zip(self.stage.SHARDS, reads):
                self.expect(read, shard)
            self.assertEqual(one.metric("ring_partitions_owned"), 3 * 1024)
            self.assertEqual(one.stop(), 0)

    def test_RT_T014_equal_names_in_two_clusters_are_two_objects(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            first, second = self.greet("root", "same", "first"), self.greet("shard-1", "same", "second")
            self.expect(first, "first")
            self.expect(second, "second")
            self.stage.consumers["root"].must("DELETE", f"{worker.GREETINGS}/same")
            self.stage.consumers["shard-1"].must("PATCH", f"{worker.GREETINGS}/same", {"spec": {"name": "again"}},
                                                 headers={"Content-Type": "application/merge-patch+json"})  # fmt: skip
            self.expect(second, "again")

    def test_RT_T100_what_changes_nothing_writes_nothing(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            read = self.greet("root", "calm", "calm")
            self.expect(read, "calm")
            client, path = self.stage.consumers["root"], f"{worker.GREETINGS}/calm"
            before = client.must("GET", path)["metadata"]["resourceVersion"]
            done = one.metric("controller_runtime_reconcile_total", result="success")
            labelled = client.must("PATCH", path, {"metadata": {"labels": {"a": "b"}}},
                                   headers={"Content-Type": "application/merge-patch+json"})["metadata"]["resourceVersion"]  # fmt: skip
            self.assertNotEqual(before, labelled)
            kit.eventually(lambda: one.metric("controller_runtime_reconcile_total", result="success") > done, what="reconciled")
            self.assertEqual(client.must("GET", path)["metadata"]["resourceVersion"], labelled)

    def test_RT_T023_RT_12_a_shard_that_restarts_loses_nothing_and_others_go_on(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            self.expect(self.greet("shard-1", "before", "before"), "before")
            self.installation.kill("shard-1")
            kit.eventually(lambda: self.stage.consumers["shard-1"].get(worker.GREETINGS).status == 200, 60, "the shard is back")
            self.expect(self.greet("shard-1", "after", "after"), "after", 60)
            self.expect(self.greet("shard-2", "beside", "beside"), "beside")

    def test_RT_T104_the_page_of_metrics_has_the_names_and_no_names_of_objects(self):
        with worker.Worker(self.stage) as one:
            one.until_ready()
            self.expect(self.greet("root", "hidden-name", "hidden-who"), "hidden-who")
            page = one.metrics()
            for name in ("controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total",
                         "controller_runtime_terminal_reconcile_errors_total", "controller_runtime_reconcile_panics_total",
                         "controller_runtime_reconcile_timeouts_total", "controller_runtime_reconcile_time_seconds_bucket",
                         "controller_runtime_max_concurrent_reconciles", "controller_runtime_active_workers", "workqueue_depth",
                         "workqueue_adds_total", "workqueue_retries_total", "workqueue_queue_duration_seconds_bucket",
                         "workqueue_work_duration_seconds_bucket", "workqueue_unfinished_work_seconds",
                         "workqueue_longest_running_processor_seconds", "leader_election_master_status", "rest_client_requests_total",
                         "reflector_objects", "ring_partitions_owned", "ring_generation", "ring_handover_seconds_bucket",
                         "placement_moves_total", "placement_pending", "schedule_seconds_bucket", "unit_duplicate_cluster_total"):  # fmt: skip
                self.assertIn("\n" + name + "{", "\n" + page, name)
            for hidden in ("hidden-name", "hidden-who", "consumer-root", worker.USER):
                self.assertNotIn(hidden, page)

    def test_RT_T011_units_follow_the_endpoints(self):
        provider = self.installation.client("/clusters/root:greetings")
        partitions = "/apis/topology.kcp.io/v1alpha1/partitions"
        slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"

        def select(names):
            return {"spec": {"selector": {"matchExpressions": [{"key": "name", "operator": "In", "values": names}]}}}

        provider.must("POST", partitions, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "some"},
                                           **select(["root"])})  # fmt: skip
        provider.must("POST", slices, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
            "metadata": {"name": "some", "annotations": {"kintsugi.dev/endpoint-mode": "proxied", "kintsugi.dev/consumers": "ignored"}},
            "spec": {"export": {"path": "root:greetings", "name": "greetings"}, "partition": "some"}})
        merge = {"Content-Type": "application/merge-patch+json"}
        with worker.Worker(self.stage, more={"endpoints": {"cluster": "root:greetings", "name": "some"}}) as one:
            one.until_ready()
            self.expect(self.greet("root", "near", "near"), "near")
            far = self.greet("shard-2", "far", "far")
            self.assertEqual(one.metric("ring_partitions_owned"), 1024)
            self.assertIsNone(far())
            provider.must("PATCH", f"{partitions}/some", select(["root", "shard-1", "shard-2"]), headers=merge)
            self.expect(far, "far")
            kit.eventually(lambda: one.metric("ring_partitions_owned") == 3 * 1024, 20, "three units")
            provider.must("PATCH", f"{partitions}/some", select(["shard-2"]), headers=merge)
            kit.eventually(lambda: one.metric("ring_partitions_owned") == 1024, 40, "one unit is left")
            self.expect(self.greet("shard-2", "still", "still"), "still")
            self.assertIsNone(self.greet("root", "nobody", "nobody")())
            self.assertEqual(one.stop(), 0)


if __name__ == "__main__":
    unittest.main()
