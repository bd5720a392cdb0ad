"""A worker of two roles: a process each under one that supervises, of which one is killed (docs/spec/worker-runtime.md)."""
import pathlib
import unittest

from worker_roles import Case, children


class Roles(Case):
    def test_1_RT_T105_one_role_that_is_not_ready_is_named_and_the_other_one_is(self):
        code, text = self.one.ask("/readyz")
        self.assertEqual(code, 503, text)
        self.assertIn("[-]messaging failed: ", text)
        self.assertIn("[+]example ok", text)
        self.assertEqual(self.one.ask("/readyz/messaging")[0], 503)
        self.assertEqual(self.one.ask("/readyz/example"), (200, "ok"))
        self.assertEqual(self.one.ask("/readyz/network")[0], 404)
        self.assertEqual(self.one.ask("/livez")[0], 200)

    def test_2_RT_T002_a_role_that_is_killed_comes_back_and_the_other_one_does_not_notice(self):
        self.greet("before")
        both, leases = children(self.one.process.pid), self.leases()
        self.assertEqual(set(both), {"example", "messaging"})
        self.assertEqual({name.split("-")[1] for name in leases}, {"example"})
        relists = self.one.metric("reflector_relists_total", role="example")
        self.another("messaging", self.kill("messaging"))
        self.assertEqual(children(self.one.process.pid)["example"], both["example"])
        self.assertEqual(self.one.metric("worker_role_restarts_total", role="messaging"), 1)
        self.assertEqual(self.one.metric("worker_role_restarts_total", role="example"), 0)
        self.greet("after")
        self.assertEqual((self.leases(), self.one.metric("reflector_relists_total", role="example")), (leases, relists))

    def test_3_RT_T004_all_of_it_ends_at_once(self):
        both = children(self.one.process.pid)
        self.assertEqual(self.one.stop(), 0)
        for pid in both.values():
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())
        self.assertEqual([holder for _, holder, _ in self.leases().values() if holder], [])


if __name__ == "__main__":
    unittest.main()
