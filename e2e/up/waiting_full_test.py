"""A start that does not become ready says who it waits for and why (OP-202)."""
import re
import subprocess
import unittest

import kit

ONLY_WITH_ALL = "waits for what does not come"


class Waiting(unittest.TestCase):
    def test_OP_202_who_is_left_out_and_who_hangs(self):
        with kit.Installation(shards=2) as installation:
            installation.stop()
            with installation.log.open("wb") as log:
                installation.process = subprocess.Popen([str(kit.BINARY), "up", "--dir", installation.state, "--port", str(installation.port), "--shards", "1"],
                                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            said = (r"(?m)^kintsugi up: waiting for (proxy|root): .*; .*/logs/\1\.log tells more; shard-1 has data here and does not run: "
                    r"this start has --shards 1$")  # fmt: skip
            kit.eventually(lambda: re.search(said, installation.log.read_text()), 30, installation.log.read_text)
            self.assertFalse((installation.state / "ready").exists())
            self.assertEqual(installation.stop(), 0)

    def test_OP_202_ready_timeout_ends_the_start_with_status_3(self):
        with kit.Installation(shards=2) as installation:
            installation.stop()
            run = subprocess.run([str(kit.BINARY), "up", "--dir", installation.state, "--port", str(installation.port), "--shards", "1",
                                  "--ready-timeout", "3s"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 3, run.stderr)
            self.assertRegex(run.stderr, r"(?m)^kintsugi up: not ready after 3 s, waiting for (root|proxy): .*; .*/logs/\1\.log tells more; "
                                         r"shard-1 has data here and does not run: this start has --shards 1(; waiting for proxy: .* tells more)? "
                                         r"\(--ready-timeout\)$")
            self.assertFalse((installation.state / "ready").exists())
            self.assertEqual(list((installation.state / "run").glob("*.pid")), [], "its processes have ended")


if __name__ == "__main__":
    unittest.main()
