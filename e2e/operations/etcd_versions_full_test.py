"""The store on etcd 3.5 and 3.6, built from their Go modules: its own tests, and shards on them (GR-101 to GR-125, GR-306)."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

import etcds
import kit

ONLY_WITH_ALL = "builds two versions of etcd and runs the tests of the store on each"
RUN = pathlib.Path(__file__).resolve().parents[1] / "run.py"
TOPICS = ("operations/etcd", "operations/etcd_restored", "operations/etcd_members", "operations/shard_replicas", "operations/store_copy")
SUITES = "Etcd*:Restored*:Transfer*:Store*:*Etcd*"
LONGEST = 800  # seconds


class EtcdVersions(unittest.TestCase):
    def environment(self, version):
        folder = etcds.folder_of(version)
        told = subprocess.run([str(folder / "etcd"), "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
        self.assertIn(f"etcd Version: {version}.", told)
        # A run of its own: what it leaves behind is told by it.
        mine = {name: value for name, value in os.environ.items() if not name.startswith("KINTSUGI_E2E")}
        return {**mine, "PATH": f"{folder}:{os.environ['PATH']}", "KINTSUGI_ETCD": str(folder / "etcd")}

    def store(self, version):
        environment = self.environment(version)
        program = kit.BINARY.resolve().parent / "kintsugi_store_test"
        if not program.exists():
            self.skipTest(f"{program} is not built (target tests)")
        run = subprocess.run([str(program), f"--gtest_filter={SUITES}"], env=environment, capture_output=True, text=True, check=False,
                             timeout=LONGEST, cwd=kit.BINARY.resolve().parent)
        failed = re.findall(r"^\[  FAILED  \].*", run.stdout, re.MULTILINE)
        self.assertEqual((run.returncode, failed), (0, []), run.stdout[-4000:])
        self.assertRegex(run.stdout, r"\[  PASSED  \] \d{2,} tests")

    def topics(self, version):
        run = subprocess.run([sys.executable, str(RUN), "--binary", str(kit.BINARY), "-j", "1", *TOPICS], env=self.environment(version),
                             capture_output=True, text=True, check=False, timeout=LONGEST)
        self.assertEqual(run.returncode, 0, run.stdout[-6000:] + run.stderr[-1000:])
        self.assertRegex(run.stdout, r"(?m)^\d{2} passed, 0 failed, 0 skipped$")

    def test_GR_101_GR_124_the_store_on_3_5(self):
        self.store("3.5")

    def test_GR_101_GR_124_the_store_on_3_6(self):
        self.store("3.6")

    def test_GR_101_GR_124_shards_on_3_5(self):
        self.topics("3.5")

    def test_GR_101_GR_124_shards_on_3_6(self):
        self.topics("3.6")


if __name__ == "__main__":
    unittest.main()
