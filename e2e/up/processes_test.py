"""`kintsugi up` is asked how its processes are (OP-202, OP-406)."""
import json
import os
import signal
import subprocess
import unittest

import kit


class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)

    def ask(self, path):
        """Status and text."""
        done = subprocess.run(["curl", "-sS", "-w", "\n%{http_code}", "--unix-socket", self.installation.state / "run/admin-up.sock", f"http://up{path}"],
                              capture_output=True, text=True, timeout=60, check=True)
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text

    def rows(self):
        return {one["name"]: one for one in json.loads(self.ask("/debug/processes")[1])["processes"]}

    def test_OP_406_a_line_and_a_row_for_each_process(self):
        kit.eventually(lambda: self.ask("/readyz")[0] == 200, 20, "all are ready")
        self.assertEqual(self.ask("/readyz?verbose"), (200, "[+]root ok\n[+]shard-1 ok\n[+]proxy ok\nreadyz check passed\n"))
        self.assertEqual(self.ask("/readyz"), (200, "ok"))
        self.assertEqual(self.ask("/livez"), (200, "ok\n"))
        rows = self.rows()
        self.assertEqual(list(rows), ["root", "shard-1", "proxy"])
        for name, row in rows.items():
            self.assertEqual((row["ready"], row["pid"]), (True, self.installation.pid(name)), row)
            self.assertNotIn("why", row)
        self.assertEqual(self.ask("/debug/nothing"), (404, "there are /debug/log, /livez, /debug/processes, /metrics, /readyz\n"))

    def test_OP_202_who_hangs_and_who_ended_is_told(self):
        before = self.rows()["shard-1"]
        pid = before["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            status, text = self.ask("/readyz?verbose")
            self.assertEqual(status, 503)
            self.assertIn("[-]shard-1 failed: does not answer\n", text)
            self.assertIn("[+]root ok\n", text)
            row = self.rows()["shard-1"]
            self.assertEqual((row["ready"], row["why"], row["pid"]), (False, "does not answer", pid))
        finally:
            os.kill(pid, signal.SIGCONT)
        kit.eventually(lambda: self.ask("/readyz")[0] == 200, 20, "it is ready again")
        os.kill(pid, signal.SIGKILL)
        kit.eventually(lambda: self.rows()["shard-1"].get("pid", pid) != pid and self.ask("/readyz")[0] == 200, 30, "another process")
        row = self.rows()["shard-1"]
        self.assertEqual((row["lastEnd"], row["restarts"]), ("signal 9", before["restarts"] + 1))
        series = dict(line.rsplit(" ", 1) for line in self.ask("/metrics")[1].splitlines() if line.startswith("kintsugi_child_"))
        self.assertEqual({name: value for name, value in series.items() if "shard-1" in name},
                         {'kintsugi_child_up{process="shard-1"}': "1", 'kintsugi_child_ready{process="shard-1"}': "1",
                          **{f'kintsugi_child_restarts_total{{process="shard-1",cause="{cause}"}}': str(count)
                             for cause, count in (("exit", 0), ("signal", row["restarts"]), ("hang", 0))}})


if __name__ == "__main__":
    unittest.main()
