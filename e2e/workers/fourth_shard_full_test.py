"""A shard joins an installation whose workers run, and leaves again (docs/spec/worker-runtime.md)."""
import os
import subprocess
import time
import unittest

import kit
import worker

ONLY_WITH_ALL = "an installation and one more shard"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
FOURTH = "shard-3"


class FourthShard(worker.Case):
    def joins(self):
        process = subprocess.Popen([os.environ["KINTSUGI"], "shard", "--join", str(self.installation.state), "--name", FOURTH],  # pylint: disable=consider-using-with
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def endpoints(self):
        found = self.installation.client("/clusters/root:greetings").must("GET", f"{SLICES}/workers").get("status", {})
        return len(found.get("endpoints", []))

    def follows(self, one, count):
        """Units are as many as endpoints; seconds that took."""
        kit.eventually(lambda: self.endpoints() == count, 60, f"{count} endpoints")
        said = time.monotonic()
        kit.eventually(lambda: one.metric("worker_units") == count, 10, f"{count} units")
        return time.monotonic() - said

    def test_RT_T011_a_fourth_shard_is_a_unit_of_a_worker_that_runs(self):
        leases = [f"root:leases-{shard}" for shard in (*self.stage.SHARDS, FOURTH)]
        with worker.Worker(self.stage, more={"lease_clusters": leases}) as one:
            one.until_ready()
            for shard in self.stage.SHARDS:
                self.expect(self.greet(shard, "before", shard), shard)
            relists, errors = one.metric("reflector_relists_total"), one.metric("controller_runtime_reconcile_errors_total")
            self.joins()
            took = self.follows(one, 4)
            self.installation.make_workspace(f"leases-{FOURTH}", selector={"name": FOURTH})
            self.stage.apply(f"root:leases-{FOURTH}", "lease-rbac.yaml")
            self.installation.make_workspace(f"consumer-{FOURTH}", selector={"name": FOURTH})
            self.stage.consumers[FOURTH] = self.stage.bind(f"consumer-{FOURTH}")
            self.expect(self.greet(FOURTH, "joined", "joined"), "joined", 60)
            kit.eventually(lambda: one.metric("ring_partitions_owned") == 4 * 1024, 40, "four rings")
            self.assertEqual((one.metric("reflector_relists_total"), one.metric("controller_runtime_reconcile_errors_total")), (relists, errors))
            self.installation.client().must("DELETE", f"{SHARDS}/{FOURTH}")
            left = self.follows(one, 3)
            print(f"the unit came {took:.2f} s after its endpoint was seen, and went {left:.2f} s after it was not any more", flush=True)
            kit.eventually(lambda: one.metric("ring_partitions_owned") == 3 * 1024, 40, "three rings")
            for shard in self.stage.SHARDS:
                self.expect(self.greet(shard, "after", shard), shard)
            one.until_ready()
            self.assertEqual(one.metric("reflector_relists_total"), relists)


if __name__ == "__main__":
    unittest.main()
