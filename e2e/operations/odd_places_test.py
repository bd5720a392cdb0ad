"""Started in odd places and with odd input, the program says one clear line, or what it says always (OP-T950)."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import kit

HEAD = "apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n"
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))


def run(*words, **how):
    how = {"capture_output": True, "timeout": 60, **how}
    return subprocess.run([str(kit.BINARY), *words], text=True, check=False, stdin=subprocess.DEVNULL, **how)


class OddPlaces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kintsugi-e2e-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def test_OP_T950_nothing_in_the_environment_and_no_folder(self):
        usual = run("version")
        self.assertEqual((usual.returncode, usual.stderr), (0, ""))
        for environment in ({}, {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"}):
            self.assertEqual(run("version", env=environment).stdout, usual.stdout)
        gone = self.dir / "gone"
        gone.mkdir()
        shell = f"cd {gone} && rmdir {gone} && exec {kit.BINARY} version"
        self.assertEqual(subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=60, check=True).stdout, usual.stdout)

    def test_OP_T950_a_standard_output_that_takes_nothing(self):
        for words in (("version",), ("help",), ("config", "schema", "proxy")):
            with open("/dev/full", "wb") as full:  # every write to it fails as on a full disk
                told = run(*words, capture_output=False, stdout=full, stderr=subprocess.PIPE)
            self.assertEqual((told.returncode, told.stderr), (1, "kintsugi: the standard output could not be written\n"), words)
        closed = subprocess.run(["sh", "-c", f"exec {kit.BINARY} version >&-"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((closed.returncode, closed.stderr), (0, ""))
        reads_a_line = subprocess.run(["bash", "-c", f"set -o pipefail; {kit.BINARY} config schema proxy | head -n 1"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((reads_a_line.returncode, reads_a_line.stdout, reads_a_line.stderr), (0, "{\n", ""))

    def test_OP_T950_what_is_no_configuration(self):
        for name, text, wanted in (("empty", "", "kind: must be ProxyConfiguration"), ("list", "- a\n", "kind: must be ProxyConfiguration"),
                                   ("two", HEAD + "---\n" + HEAD, "single document"), ("tab", HEAD + "listener:\n\tport: 1\n", "line 4: "),
                                   ("nul", "\0\0", "control characters"), ("bomb", BOMB, "excessive aliasing"),
                                   ("twice", HEAD + "data_dir: a\ndata_dir: b\n", "data_dir"), ("word", HEAD + "listener:\n  port: 1e3\n", ":4: listener.port: "),
                                   ("huge", HEAD + f"listener:\n  port: {2 ** 64}\n", ":4: listener.port: "),
                                   ("less", HEAD + "listener:\n  port: -1\n", ":4: listener.port: "),
                                   ("long", HEAD + "# " + "x" * (10 << 20) + "\n", "")):
            with self.subTest(name):
                file = self.dir / f"{name}.yaml"
                file.write_text(text)
                told = run("proxy", "--config", file, "--validate=syntax")
                self.assertEqual((told.returncode, told.stdout), (2, ""), told.stderr)
                self.assertTrue(all(line.startswith(f"error: {file}") for line in told.stderr.splitlines()), told.stderr)
                self.assertIn(wanted, told.stderr)
        folder = run("proxy", "--config", self.dir, "--validate")
        self.assertEqual((folder.returncode, folder.stderr), (1, f"error: --config: {self.dir}: Is a directory\n"))

    def test_OP_T950_numbers_and_words_of_options(self):
        for words, wanted in ((("--port", "0"), "--port: "), (("--port", "65536"), "--port: "), (("--port", "http"), "--port: "), (("--shards", "0"), "--shards: "),
                              (("--shards", "10000"), "--shards: "), (("--regions", ","), "--regions: ")):
            told = run("up", *words, "--dir", self.dir / "never")
            self.assertEqual(told.returncode, 2, words)
            self.assertEqual(len(told.stderr.splitlines()), 1, told.stderr)
            self.assertIn(f"kintsugi up: {wanted}", told.stderr)
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    unittest.main()
