"""What a worker makes of silence and refusals that last, and of watches that are cut a hundred times (docs/spec/worker-runtime.md)."""
import time
import unittest

import fault_relay
import kit
import reflector_faults
from reflector_faults import COLLECTION, WATCH, status

ONLY_WITH_ALL = "silence is noticed after 150 s"


class Long(reflector_faults.Case):
    COUNT = 20

    def test_RT_T021_silence_behind_the_head_ends_in_a_list(self):
        since = time.monotonic()
        rule = self.relay.rule(COLLECTION, "sendInitialEvents=true", silent=True, times=1)
        self.begun()
        self.works()
        self.assertEqual(rule.hits, 1)
        asked, listed = self.watches(since)[0][0], self.lists(since)[0][0]
        self.assertGreaterEqual(listed - asked, 10)
        self.assertLess(listed - asked, 12 + 3)

    def test_RT_T030_a_refusal_keeps_what_is_known(self):
        self.begun()
        rule = self.relay.rule(COLLECTION, answer=status(403))
        self.relay.rule(*WATCH, line=lambda _: fault_relay.Rule.CUT, times=1)
        name = self.make()
        kit.eventually(lambda: rule.hits >= 1 and "403" in self.one.ask("/readyz?verbose")[1], 20, "the refusal is told")
        kit.stays(self.objects, 20)
        self.assertEqual(self.objects(), self.COUNT)
        rule.off.set()
        kit.eventually(lambda: self.said(name), 40, "it is allowed again")
        self.assertEqual((self.objects(), self.guarded()), (self.COUNT + 1, 0))

    def test_RT_T031_a_type_that_is_served_later(self):
        rule = self.relay.rule(COLLECTION, answer=status(404))
        self.one = self.worker()
        kit.eventually(lambda: rule.hits >= 1, 30, "it was asked for")
        self.one.until_ready()
        self.assertEqual(self.objects(), 0)
        rule.off.set()
        kit.eventually(lambda: self.objects() == self.COUNT, 31, "it is read")
        self.works()

    def test_RT_T032_a_silent_watch_is_begun_again(self):
        self.begun()
        since, relists = time.monotonic(), self.relists()
        rule = self.relay.rule(*WATCH, silent=True, times=1)
        cut = self.relay.rule(*WATCH, line=lambda _: fault_relay.Rule.CUT, times=1)
        name = self.make()
        kit.eventually(lambda: cut.hits and rule.hits, 30, "the next one is silent")
        kit.eventually(lambda: self.said(name), 150 + 30, "it was begun again")
        self.assertEqual((self.relists(), self.lists(since)), (relists, []))

    def test_RT_T022_a_hundred_cuts(self):
        self.begun()
        name, relists = self.works(), self.relists()
        since = time.monotonic()
        for number in range(100):
            rule = self.relay.rule(*WATCH, line=lambda _: fault_relay.Rule.CUT, times=1)
            self.client.must("PATCH", f"{reflector_faults.worker.GREETINGS}/{name}", {"spec": {"name": f"n{number}"}},
                             headers={"Content-Type": "application/merge-patch+json"})
            kit.eventually(lambda r=rule: r.hits, 60, "the watch was cut")
            kit.eventually(lambda n=number: self.message(name) == f"Hello, n{n}!", 60, "the state was seen")
        self.assertEqual((self.relists(), self.lists(since), self.objects()), (relists, [], self.COUNT + 1))


if __name__ == "__main__":
    unittest.main()
