"""From an empty folder to an object that a hub has ordered: the commands of docs/workers/delivery.md, typed as they stand into a shell."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import delivery
import kit
import typed

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs" / "delivery"


class Walk(unittest.TestCase):
    def test_the_walk_of_the_document_works_as_it_stands(self):
        kit.needs_kubectl()
        if delivery.MOSQUITTO is None:
            self.skipTest("needs Debian's mosquitto")
        port = str(kit.free_port())
        with kit.Installation("--workers", "delivery", "--delivery-port", port, shards=2) as installation:
            self.assertTrue((installation.state / "run" / "broker.pid").exists())
            folder = installation.dir / "walk"
            shutil.copytree(CONFIGS, folder)
            shell = typed.Shell(folder)
            self.addCleanup(shell.close)
            shell.run(f"export KUBECONFIG={installation.kubeconfig} PATH={installation.dir}/bin:$PATH")
            (installation.dir / "bin").mkdir(exist_ok=True)
            (installation.dir / "bin" / "kintsugi").symlink_to(os.environ["KINTSUGI"])
            text = (ROOT / "docs/workers/delivery.md").read_text().replace(":1883", f":{port}").replace(":6443", f":{installation.port}")
            commands = self.commands(typed.section(text, "A walk"))
            self.assertGreater(len(commands), 8)
            for command, printed in commands:
                with self.subTest(command):
                    self.check(shell, command, printed)

    @staticmethod
    def commands(text):
        """(command, printed lines) of the fenced blocks."""
        found = []
        for line in re.findall(r"```\n(.*?)```", text, re.S):
            for one in line.splitlines():
                if one.startswith("$ "):
                    found.append((one[2:], []))
                elif found:
                    found[-1][1].append(one)
        return [one for one in found if not one[0].startswith("kintsugi up")]

    @staticmethod
    def comparable(lines):
        text = typed.comparable(lines)
        return re.sub(r"generation=\d+", "generation=N", text)

    def check(self, shell, command, printed):
        def works():
            status, lines = shell.run(command)
            assert status == 0, "\n".join(lines)
            if printed:
                assert self.comparable(lines) == self.comparable(printed), "\n".join(lines)
            return True

        if " get " in command or " status" in command:  # what a change brings about is seen a moment later
            kit.eventually(works, 20, command)
        else:
            works()


class Refused(unittest.TestCase):
    def test_nothing_is_made_of_what_cannot_be(self):
        for options, text in ((("--workers", "delivery", "--delivery-clients", "edge"), "--delivery-clients"),
                              (("--workers", "delivery", "--delivery-broker", "mqtt://broker.example.com"), "--delivery-broker"),
                              (("--workers", "delivery", "--delivery-broker", "http://127.0.0.1"), "--delivery-broker"),
                              (("--workers", "delivery", "--delivery-port", "0"), "--delivery-port")):  # fmt: skip
            folder = pathlib.Path(f"/tmp/kintsugi-none-{os.getpid()}")
            made = subprocess.run([os.environ["KINTSUGI"], "up", "--dir", str(folder), *options], capture_output=True, text=True, timeout=60,
                                  check=False)  # fmt: skip
            self.assertEqual(made.returncode, 2, made.stderr)
            self.assertIn(text, made.stderr)
            self.assertFalse(folder.exists())
