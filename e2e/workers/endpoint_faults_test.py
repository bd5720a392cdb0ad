"""Endpoints that stall, that are foreign, and an API that one of two workers does not reach, through a relay (docs/spec/worker-runtime.md)."""
import json
import socket
import unittest

import fault_relay
import kit
import worker

SLICES = "/apiexportendpointslices"
LEASE = {"lease": {"duration": "5s", "give_up": "3s", "renew": "1s"}}


class Endpoints(worker.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.relay = fault_relay.Relay(cls.installation, worker.USER).start_for(cls)

    def setUp(self):
        self.addCleanup(self.relay.clear)

    def behind(self, **more):
        """A worker whose requests go through the relay."""
        one = worker.Worker(self.stage, server=self.relay.url, **more).__enter__()
        self.addCleanup(one.__exit__)
        self.addCleanup(lambda: (self.relay.clear(), one.stop()))
        return one

    def test_RT_T012_a_foreign_endpoint_hears_nothing(self):
        with socket.create_server(("127.0.0.2", 0)) as foreign:
            foreign.settimeout(0)
            url = f"http://127.0.0.2:{foreign.getsockname()[1]}/services/apiexport/x/greetings"

            def more(said):
                one = json.loads(said)
                for item in [one["object"]] if "object" in one else one.get("items", [one]):
                    if item.get("status", {}).get("endpoints"):
                        item["status"]["endpoints"].append({"url": url})
                return json.dumps(one).encode() + b"\n"

            self.relay.rule(SLICES, line=more)
            self.relay.rule(SLICES, but=("watch=true",), edit=more)
            one = self.behind().until_ready()
            kit.eventually(lambda: one.metric("worker_endpoints_refused") == 1, what="it is refused")
            for shard in self.stage.SHARDS:
                self.expect(self.greet(shard, "near", shard), shard)
            self.assertIn(url, one.log.read_text())
            with self.assertRaises(BlockingIOError):
                foreign.accept()

    def test_RT_T013_an_endpoint_that_stalls_delays_no_other(self):
        one = self.behind().until_ready()
        paths = {target.partition("/services/")[0] for _, target, _ in self.relay.asked("/greetings", "/services/")}
        self.assertEqual(len(paths), len(self.stage.SHARDS), paths)
        stalled = next(path for path in paths if path.endswith("shard-1"))
        self.relay.rule(stalled + "/", stall=True)
        late = self.greet("shard-1", "late", "late")
        for number in range(10):
            for shard in ("root", "shard-2"):
                self.expect(self.greet(shard, f"n{number}", f"n{number}"), f"n{number}", 2)
        self.assertIsNone(late())
        self.relay.clear()
        self.expect(late, "late", 60)
        self.assertEqual(one.metric("worker_units"), 3)

    def test_RT_T055_a_worker_that_is_cut_off_stops_before_another_begins(self):
        one = self.behind(more=LEASE)
        with worker.Worker(self.stage, more=LEASE) as two:
            one.until_ready()
            two.until_ready()

            def owned():
                return one.metric("ring_partitions_owned"), two.metric("ring_partitions_owned")

            kit.eventually(lambda: min(owned()) > 3 * 300, 40, "both own")
            share = owned()[1]
            self.relay.rule("", stall=True)

            seen = []
            kit.eventually(lambda: seen.append(owned()) or seen[-1][1] == 3 * 1024, 40, "the other owns all")
            self.assertFalse([both for both in seen if both[0] > 0 and both[1] > share], "both had the same partitions")
            for shard in self.stage.SHARDS:
                self.expect(self.greet(shard, "cut-off", shard), shard)
            self.relay.clear()
            kit.eventually(lambda: one.metric("ring_partitions_owned") > 0, 60, "it is a member again")


if __name__ == "__main__":
    unittest.main()
