"""A role that ends again and again beside one that works (docs/spec/worker-runtime.md)."""
import unittest

import kit
import worker_roles

ONLY_WITH_ALL = "a role is started again after 1, 2, 4 and 8 s"


class CrashLoop(worker_roles.Case):
    def test_RT_T003_a_role_that_ends_again_and_again_is_a_crash_loop_of_its_own(self):
        example = worker_roles.children(self.one.process.pid)["example"]
        for _ in range(4):
            self.another("messaging", self.kill("messaging"))
        self.kill("messaging")  # the fifth within a minute
        told = kit.eventually(lambda: "CrashLoop" in self.one.ask("/readyz/messaging")[1] and self.one.ask("/readyz/messaging"), 20, "it is told")
        self.assertEqual(told[0], 503, told)
        self.assertEqual((self.one.ask("/readyz/example"), worker_roles.children(self.one.process.pid)["example"]), ((200, "ok"), example))
        self.greet("beside")
        kit.eventually(lambda: "messaging" in worker_roles.children(self.one.process.pid), 40, "it is tried again")


if __name__ == "__main__":
    unittest.main()
