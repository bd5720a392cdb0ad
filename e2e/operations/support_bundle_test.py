"""`kintsugi support-bundle`: what is in it, also with a shard that hangs and with nobody there; no secret (OP-904, OP-305)."""
import secrets
import signal
import subprocess
import tarfile
import unittest

import kit

OF_THE_PROXY = {"config.yaml", "events.json", "fairness.json", "livez.txt", "log-level.json", "loops.json", "metrics-1.txt", "metrics-2.txt",
                "overview.json", "partitions.json", "readyz.txt", "routes.json", "shards.json", "slices.json", "streams.json", "workers.json"}


class SupportBundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.made = 0

    def bundle(self, *words, folder=None):
        """Its files by their names, as one text each."""
        SupportBundle.made += 1
        path = self.installation.dir / f"bundle-{self.made}.tar.gz"
        run = subprocess.run([kit.BINARY, "support-bundle", "--admin", (folder or self.installation.state) / "run/admin.sock", "-o", path, "--apart", "0s",
                              *words], capture_output=True, text=True, timeout=120, check=False, cwd="/")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertLess(path.stat().st_size, 20 << 20)
        with tarfile.open(path) as packed:
            names = packed.getnames()
            self.assertEqual(names[0], "kintsugi-support/contents.txt", "what is in it comes first")
            self.assertEqual(len(set(names)), len(names))
            return {name.removeprefix("kintsugi-support/"): packed.extractfile(name).read().decode() for name in names}

    def test_OP_904_it_has_what_helps_and_says_so(self):
        files = self.bundle()
        self.assertLessEqual({f"proxy/{name}" for name in OF_THE_PROXY}, set(files))
        for name in ("root", "shard-1"):
            self.assertIn("process_cpu_seconds_total", files[f"shards/{name}/metrics-2.txt"])
            self.assertIn("Max open files", files[f"processes/{name}.txt"])
            self.assertIn("\n", files[f"logs/{name}.log"])
            self.assertIn(f"/shards/{name}/data", files["files.txt"])
        self.assertIn("kintsugi_shard_up", files["proxy/metrics-1.txt"])
        self.assertIn("/pki/serving-ca.crt", files["certificates.txt"])
        self.assertIn('"version"', files["version.json"])
        told = [line.split()[0] for line in files["contents.txt"].splitlines()]
        self.assertEqual(sorted(told), sorted(set(files) - {"contents.txt"}))

    def test_OP_904_OP_305_no_secret_is_in_it(self):
        token = "canary-" + secrets.token_hex(16)
        noisy = self.installation.dir / "noisy.log"
        noisy.write_text(f"a careless program said Bearer {token}\nhttps://user:{token}@host/x?sent={token}\npassword={token}\nthe end\n")
        self.installation.client("/clusters/root").get("/api/v1/namespaces?fieldManager=" + token, headers=kit.bearer(token))
        files = self.bundle("--log", noisy)
        self.assertIn("the end", files["logs/noisy.log"])
        hidden = [token] + [line for path in self.installation.pki.glob("*.key") for line in path.read_text().splitlines() if "-----" not in line]
        self.assertGreater(len(hidden), 10)
        for name, text in files.items():
            self.assertEqual([one for one in hidden if one in text], [], name)
            self.assertNotIn("PRIVATE KEY", text, name)

    def test_OP_904_a_shard_that_hangs_is_told(self):
        self.installation.kill("shard-1", signal.SIGSTOP)
        try:
            files = self.bundle()
        finally:
            self.installation.kill("shard-1", signal.SIGCONT)
        self.assertIn("process_cpu_seconds_total", files["shards/root/metrics-1.txt"])
        self.assertNotIn("shards/shard-1/metrics-1.txt", files)
        self.assertRegex(files["contents.txt"], r"(?m)^shards/shard-1/metrics-1\.txt  is not here: cannot reach https://")
        self.assertRegex(files["contents.txt"], r"(?m)^shards/shard-1/metrics-2\.txt  is not here: it did not answer before$")
        self.assertIn("State:\tT (stopped)", files["processes/shard-1.txt"])
        self.assertLessEqual({f"proxy/{name}" for name in OF_THE_PROXY}, set(files))

    def test_OP_904_a_proxy_that_hangs_and_nobody_at_all(self):
        self.installation.kill("proxy", signal.SIGSTOP)
        try:
            files = self.bundle()
        finally:
            self.installation.kill("proxy", signal.SIGCONT)
        self.assertNotIn("proxy/livez.txt", files)
        self.assertIn("logs/proxy.log", files)
        self.assertIn("process_cpu_seconds_total", files["shards/root/metrics-1.txt"])
        files = self.bundle("--dir", "/proc/nowhere", folder=self.installation.dir / "nobody")
        self.assertIn("machine.txt", files)
        self.assertRegex(files["contents.txt"], r"(?m)^proxy/livez\.txt  is not here: no proxy answers at ")

    def test_OP_904_a_file_that_is_there_stays(self):
        there = self.installation.dir / "there.tar.gz"
        there.write_text("mine")
        run = subprocess.run([kit.BINARY, "support-bundle", "--admin", "/nobody/admin.sock", "--dir", "/proc/nowhere", "--apart", "0s", "-o", there],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((run.returncode, run.stderr), (1, f"kintsugi support-bundle: {there}: is there already\n"))
        self.assertEqual(there.read_text(), "mine")


if __name__ == "__main__":
    unittest.main()
