"""A start that does not become ready says who it waits for and why (OP-202)."""
import re
import subprocess
import unittest

import kit

ONLY_WITH_ALL = "waits for what does not come"
LEFT_OUT = (r"(?m)^kintsugi up: shard-1 \(https://127\.0\.0\.1:\d+\) has data here and does not run: this start has --shards 1, the folder 2; "
            r"use --shards 2, or, if nobody needs what it has, `(kubectl --kubeconfig=\S+ delete shard shard-1)`$")  # fmt: skip


class Waiting(unittest.TestCase):
    def test_OP_202_who_is_left_out_and_who_hangs(self):
        with kit.Installation(shards=2) as installation:
            installation.stop()
            with installation.log.open("wb") as log:
                installation.process = subprocess.Popen([str(kit.BINARY), "up", "--dir", installation.state, "--port", str(installation.port), "--shards", "1"],
                                                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            kit.eventually(lambda: re.search(r"(?m)^kintsugi up: waiting for (proxy|root): .*; .*; .*/logs/\1\.log tells more$", installation.log.read_text()), 30,
                           installation.log.read_text)
            said = kit.eventually(lambda: re.search(LEFT_OUT, installation.log.read_text()), 30, installation.log.read_text)
            self.assertFalse((installation.state / "ready").exists())
            kit.needs_kubectl()
            subprocess.run(said.group(1).split(), check=True, timeout=60, capture_output=True)
            kit.eventually((installation.state / "ready").exists, 30, "what the line says to do helps")
            self.assertEqual(installation.stop(), 0)

    def test_OP_202_ready_timeout_ends_the_start_with_status_3(self):
        with kit.Installation(shards=2) as installation:
            installation.stop()
            run = subprocess.run([str(kit.BINARY), "up", "--dir", installation.state, "--port", str(installation.port), "--shards", "1",
                                  "--ready-timeout", "3s"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 3, run.stderr)
            self.assertRegex(run.stderr, r"(?m)^kintsugi up: not ready after 3 s, waiting for (root|proxy): .*; .*/logs/\1\.log tells more; "
                                         r"(waiting for proxy: .* tells more; )?shard-1 .* has data here and does not run: this start has --shards 1, the folder 2; "
                                         r".* delete shard shard-1` \(--ready-timeout\)$")
            self.assertFalse((installation.state / "ready").exists())
            self.assertEqual(list((installation.state / "run").glob("*.pid")), [], "its processes have ended")


if __name__ == "__main__":
    unittest.main()
