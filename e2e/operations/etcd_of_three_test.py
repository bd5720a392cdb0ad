"""`kintsugi up --etcd-members 3` (GR-214): an etcd of three, of which one ends."""
import os
import shutil
import signal
import subprocess
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"


def up(directory, *flags):
    return subprocess.run([str(kit.BINARY), "up", "--dir", str(directory), *flags], capture_output=True, text=True, timeout=60, check=False)


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class EtcdOfThree(unittest.TestCase):
    def test_GR_214_one_of_three_ends(self):
        installation = kit.Installation("--store", "etcd", "--etcd-members", "3", shards=1).start_for(self)
        client = installation.client()
        members = [installation.pid(f"etcd-{number}") for number in (1, 2, 3)]
        self.assertEqual(len(set(members)), 3)
        self.assertTrue(all((installation.state / f"etcd-{number}" / "data" / "member").is_dir() for number in (1, 2, 3)))
        client.must("POST", MAPS, {"metadata": {"name": "before"}})
        os.kill(members[0], signal.SIGSTOP)  # it is not started again, as one that ends would be
        try:
            kit.eventually(lambda: client.request("POST", MAPS, {"metadata": {"name": "with-two"}}, timeout=30).status in (201, 409), 30, "writes go on")
            self.assertEqual(client.get(f"{MAPS}/with-two").status, 200)
        finally:
            os.kill(members[0], signal.SIGCONT)
        self.assertEqual(client.get(f"{MAPS}/before").status, 200)
        installation.stop()
        other = up(installation.state, "--port", str(installation.port), "--store", "etcd")
        self.assertEqual(other.returncode, 1, other.stderr)
        self.assertIn("--etcd-members: the etcd of this installation has 3", other.stderr)

    def test_GR_214_wrong_usage(self):
        for flags, text in ((["--etcd-members", "2", "--store", "etcd"], "--etcd-members: must be 1 or 3"),
                            (["--etcd-members", "3"], "--etcd-members: of an etcd that `up` runs: add --store etcd"),
                            (["--etcd-members", "3", "--store", "etcd=http://127.0.0.1:1"], "--etcd-members: of an etcd that `up` runs")):
            run = up("/nonexistent/none", *flags)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(text, run.stderr)
