"""What a worker makes of watches that are cut, wrong or refused, through a relay (docs/spec/worker-runtime.md)."""
import os
import time
import unittest

import fault_relay
import kit
import reflector_faults
from reflector_faults import COLLECTION, WATCH, event, status

CUTS = int(os.environ.get("KINTSUGI_CUTS", "10"))


class Watches(reflector_faults.Case):
    def test_RT_T020_present_objects_come_by_one_watch(self):
        since = time.monotonic()
        self.begun()
        self.works()
        [(_, target, code)] = self.watches(since)
        self.assertEqual((code, self.lists(since)), (200, []))
        for word in ("sendInitialEvents=true", "resourceVersionMatch=NotOlderThan", "allowWatchBookmarks=true", "timeoutSeconds="):
            self.assertIn(word, target)

    def test_RT_T021_a_server_without_initial_events_is_listed(self):
        since = time.monotonic()
        self.relay.rule(COLLECTION, "sendInitialEvents=true", answer=status(422))
        self.begun()
        self.assertLess(time.monotonic() - since, 12 + 20)
        self.works()
        self.assertEqual([("sendInitialEvents" in target, code) for _, target, code in self.watches(since)], [(True, 422), (False, 200)])
        self.assertIn("limit=500", self.lists(since)[0][1])

    def test_RT_T022_a_watch_that_is_cut_within_events_goes_on_from_its_cursor(self):
        self.begun()
        name = self.works()
        since, relists = time.monotonic(), self.relists()
        for number in range(CUTS):
            rule = self.relay.rule(*WATCH, line=lambda _: fault_relay.Rule.CUT, times=1)
            self.client.must("PATCH", f"{reflector_faults.worker.GREETINGS}/{name}", {"spec": {"name": f"n{number}"}},
                             headers={"Content-Type": "application/merge-patch+json"})
            kit.eventually(lambda r=rule: r.hits, what="the watch was cut")
            kit.eventually(lambda n=number: self.message(name) == f"Hello, n{n}!", 60, "the state was seen")
        self.assertEqual((self.relists(), self.lists(since), self.objects()), (relists, [], 1))
        self.assertGreaterEqual(len(self.watches(since)), CUTS)
        self.assertFalse([one for one in self.watches(since) if "sendInitialEvents" in one[1]])

    def test_RT_T024_too_many_requests_are_asked_again_when_it_is_time(self):
        since = time.monotonic()
        self.relay.rule(COLLECTION, "sendInitialEvents=true", answer=status(429, Retry_After="3"), times=1)
        self.begun()
        (first, _, code), (second, target, _) = self.watches(since)
        self.assertEqual(code, 429)
        self.assertIn("sendInitialEvents=true", target)
        self.assertGreaterEqual(second - first, 3)
        self.assertLess(second - first, 4 + 2)
        self.assertEqual(self.lists(since), [])

    def test_RT_T015_objects_of_system_clusters_are_left_alone(self):
        name = self.make("stranger")

        def of(cluster):
            one = self.client.must("GET", f"{reflector_faults.worker.GREETINGS}/{name}")
            one["metadata"]["annotations"]["kcp.io/cluster"] = cluster
            return event("ADDED", one)

        more = of("system:admin") + of("nobody")
        rule = self.relay.rule(*WATCH, line=lambda line: more + line, times=1)
        self.one = self.worker().until_ready()
        self.works()
        self.assertEqual(rule.hits, 1)
        kit.eventually(lambda: self.relay.asked("/clusters/nobody/"), 20, "another cluster's is worked on")
        self.assertEqual(self.relay.asked("/clusters/system:admin/") + self.relay.asked("system%3Aadmin"), [])

    def test_RT_T029_a_bookmark_of_another_kind_ends_nothing(self):
        other = {"kind": "Other", "apiVersion": "v1", "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}
        rule = self.relay.rule(*WATCH, line=lambda line: event("BOOKMARK", other) + line, times=1)
        self.begun()
        self.works()
        self.assertEqual((rule.hits, self.relists()), (1, 0))


if __name__ == "__main__":
    unittest.main()
