"""A worker that begins with tens of thousands of objects, to each of which there is something to say (docs/spec/worker-runtime.md)."""
import concurrent.futures
import json
import os
import threading
import time
import unittest

import kit
import reflector_faults
import worker
from reflector_faults import WATCH

ONLY_WITH_ALL = "makes 50,000 objects"
COUNT = int(os.environ.get("KINTSUGI_OBJECTS", "50000"))
HANDS = 4


class FirstList(reflector_faults.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()

        def make(hand):
            connection = cls.client.connect()
            for number in range(hand, COUNT, HANDS):
                connection.request("POST", cls.client.url.path.rstrip("/") + worker.GREETINGS, json.dumps(cls.stage.greeting(f"g{number}", f"g{number}")),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 201, answer.status
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(HANDS) as pool:
            list(pool.map(make, range(HANDS)))

    def written(self, since):
        return len(self.relay.asked("/greetings/", "/status", since=since))

    def test_RT_T042_what_is_made_during_the_first_list_comes_before_it(self):
        for name in ("started", "started-again"):
            with self.subTest(name):
                lines, half, goes_on = [0], threading.Event(), threading.Event()
                self.addCleanup(goes_on.set)

                def line(said, lines=lines, half=half, goes_on=goes_on):
                    lines[0] += 1
                    if lines[0] == COUNT // 2:
                        half.set()
                        goes_on.wait(120)
                    return said

                self.relay.rule(*WATCH, line=line)
                begun = time.monotonic()
                one = self.worker()
                self.assertTrue(half.wait(120), "half of the list has come")
                kit.eventually(lambda one=one: one.metric("ring_partitions_owned") == 1024, 40, "all keys are its")
                self.make(name)
                made = time.monotonic()
                goes_on.set()
                kit.eventually(lambda name=name: self.said(name), 60, "it is answered")
                took, others = time.monotonic() - made, self.written(begun)
                print(f"{name}: answered {took:.2f} s after the list went on, after {others} of {COUNT}", flush=True)
                self.assertLess(others, COUNT // 4)
                self.relay.clear()
                self.assertEqual(one.stop(), 0)


if __name__ == "__main__":
    unittest.main()
