"""What serving processes give up (SE-184, SE-185), as the kernel tells it, and the units of packaging/systemd (SE-186, OP-804)."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import kit

CHECK = pathlib.Path(__file__).resolve().parents[2] / "tools/check_hardening.py"
ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = sorted([*(ROOT / "packaging/systemd").glob("*.service"), *(ROOT / "configs").rglob("*.service")])
MOST_EXPOSURE = 2.0
MOST_OF_PACKAGED = 1.5


def status_of(folder) -> dict[str, str]:
    """The lines of the file `status` of a process or thread."""
    return dict(line.split(":\t", 1) for line in pathlib.Path(folder, "status").read_text().splitlines() if ":\t" in line)


class Confinement(unittest.TestCase):
    @kit.without_sanitizer
    def test_SE_185_proxy_and_shards_run_in_a_sandbox_all_threads(self):
        installation = kit.Installation(shards=1).start_for(self)
        for name in ("proxy", "root"):
            pid = int((installation.state / f"run/{name}.pid").read_text())
            for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
                status = status_of(thread)
                self.assertEqual((status["Seccomp"], status["NoNewPrivs"], status["Umask"]), ("2", "1", "0077"), (name, thread))
                # A thread that began before the port was bound may have kept the one for that.
                self.assertEqual(int(status["CapPrm"], 16) & ~(1 << 10), 0, (name, thread))
                self.assertEqual(int(status["CapBnd"], 16) if os.geteuid() == 0 else 0, 0, (name, thread))
            self.assertEqual(int(status_of(f"/proc/{pid}")["CapPrm"], 16), 0, name)
            limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
            self.assertRegex(limits, r"Max core file size +0 +0 ")
            # Not dumpable: its files in /proc are not its user's.
            self.assertEqual(os.stat(f"/proc/{pid}/environ").st_uid, 0)

    def test_SE_185_a_word_that_is_neither_on_nor_off_starts_nothing(self):
        for command, status in (("proxy", 1), ("shard", 2)):
            run = subprocess.run([str(kit.BINARY), command, "--sandbox=maybe"], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, status)
            self.assertIn('--sandbox: "maybe" is neither on nor off', run.stderr)

    def test_SE_T080_the_program_has_all_flags_and_each_that_is_left_out_is_told(self):
        def check(*arguments):
            return subprocess.run([sys.executable, str(CHECK), *arguments], capture_output=True, text=True, timeout=300, check=False)

        told = check(str(kit.BINARY))
        if all(f": {name}: " in told.stdout for name in ("fortify", "assertions", "stack protector")):
            self.skipTest("the program is of a preset that nobody ships")
        self.assertEqual((told.returncode, told.stdout.count("\n")), (0, 1), told.stdout + told.stderr)
        if shutil.which("g++-12"):
            self.assertEqual(check("--selftest").returncode, 0)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_SE_186_OP_T802_the_units_are_sandboxed(self):
        for unit in UNITS:
            with tempfile.TemporaryDirectory() as folder:
                copy = pathlib.Path(folder, unit.name.replace("@.", "@root."))
                copy.write_text(re.sub("/usr/(local/)?bin/(kintsugi|kcp-front-proxy)", str(kit.BINARY), unit.read_text()))
                verified = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual((verified.returncode, verified.stderr), (0, ""), unit)
                told = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", copy], capture_output=True, text=True,
                                      timeout=60, check=False)
            found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", told.stdout)
            self.assertIsNotNone(found, told.stdout + told.stderr)
            self.assertLessEqual(float(found.group(1)), MOST_OF_PACKAGED if "packaging" in unit.parts else MOST_EXPOSURE, told.stdout)


if __name__ == "__main__":
    unittest.main()
