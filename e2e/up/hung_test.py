"""A process of `kintsugi up` that answers nothing any more is ended, and started again (OP-205)."""
import json
import signal
import subprocess
import unittest

import kit


class Hung(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation("--hang-timeout", "9s", shards=2).start_for(cls)

    def ask(self, path):
        return subprocess.run(["curl", "-sS", "--unix-socket", self.installation.state / "run/admin-up.sock", f"http://up{path}"],
                              capture_output=True, text=True, timeout=60, check=True).stdout

    def rows(self):
        return {one["name"]: one for one in json.loads(self.ask("/debug/processes"))["processes"]}

    def test_OP_205_shard_and_proxy(self):
        for name in ("shard-1", "proxy"):
            with self.subTest(process=name):
                before = self.rows()[name]
                self.installation.kill(name, signal.SIGSTOP)  # it cannot take SIGABRT
                kit.eventually(lambda n=name, b=before: self.rows()[n].get("pid", b["pid"]) != b["pid"], 60, "another process")
                row = kit.eventually(lambda n=name: [self.rows()[n]] if self.rows()[n]["ready"] else None, 60, "it is ready")[0]
                self.assertEqual((row["lastEnd"], row["restarts"]), ("hung, signal 9", before["restarts"] + 1))
                self.assertIn(f'kintsugi_child_restarts_total{{process="{name}",cause="hang"}} 1\n', self.ask("/metrics"))
                self.assertRegex(self.installation.log.read_text(), f"a process does not answer any more: it is ended, and started again.*{name}")
        kit.eventually(lambda: self.installation.client("/clusters/root").get("/api/v1/namespaces").status == 200, 30, "all serve")
        self.assertIn('kintsugi_child_restarts_total{process="root",cause="hang"} 0\n', self.ask("/metrics"), "who answers is left alone")


if __name__ == "__main__":
    unittest.main()
