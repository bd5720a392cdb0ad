"""What a build says of itself (OP-109), and what packages make from the tables of options (OP-101, OP-112)."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import kit

ROOT = pathlib.Path(__file__).resolve().parents[2]


def said_by(*arguments):
    run = subprocess.run([str(kit.BINARY), *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@unittest.skipUnless(shutil.which("git") and shutil.which("cmake"), "needs git and cmake")
class Versions(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-version-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def git(self, *arguments):
        names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        dates = {f"GIT_{who}_DATE": "1700000000 +0000" for who in ("AUTHOR", "COMMITTER")}
        subprocess.run(["git", "-C", self.dir, "-c", "init.defaultBranch=main", *arguments], check=True, capture_output=True,
                       env={"PATH": os.environ["PATH"], "HOME": str(self.dir), **names, **dates})

    def commit(self, text):
        (self.dir / "file").write_text(text)
        self.git("add", "file")
        self.git("commit", "-m", text)

    def told(self, project="0.2.0"):
        run = subprocess.run(["cmake", f"-DROOT={self.dir}", f"-DVERSION={project}", "-DPRINT=ON", "-P", ROOT / "cmake/build_data.cmake"],
                             capture_output=True, text=True, check=True)
        return dict((line.split(" ", 1) + [""])[:2] for line in run.stdout.splitlines())

    def test_OP_T105_a_tag_later_dirty_and_without_git(self):
        self.assertEqual(self.told()["version"], "0.2.0")
        self.git("init")
        self.commit("one")
        self.commit("two")
        early = self.told()
        self.assertRegex(early["version"], r"^0\.2\.0~dev\.2\+g[0-9a-f]{7}$")
        self.assertEqual((len(early["commit"]), early["state"], early["date"]), (40, "clean", "1700000000"))
        self.git("tag", "v0.2.0")
        release = self.told()
        self.assertEqual((release["version"], release["state"]), ("0.2.0", "clean"))
        self.commit("three")
        later = self.told()["version"]  # the next one is not told yet
        self.assertRegex(later, r"^0\.2\.1~dev\.1\+g[0-9a-f]{7}$")
        following = self.told("0.3.0")["version"]
        self.assertRegex(following, r"^0\.3\.0~dev\.1\+g[0-9a-f]{7}$")
        (self.dir / "file").write_text("four")
        dirty = self.told()
        self.assertEqual((dirty["version"], dirty["state"]), (later + "+dirty", "dirty"))
        shutil.rmtree(self.dir / ".git")
        (self.dir / "VERSION").write_text("".join(f"{key} {value}\n" for key, value in dirty.items()))
        self.assertEqual(self.told(), dirty)
        if shutil.which("dpkg"):
            order = [early["version"], "0.2.0", later, dirty["version"], "0.2.1", following, "0.3.0"]
            for older, newer in zip(order, order[1:]):
                self.assertEqual(subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=False).returncode, 0, (older, newer))

    def test_OP_109_the_program_tells_what_it_is(self):
        about = json.loads(said_by("version", "-o", "json"))
        self.assertEqual(said_by("version"), f"kintsugi {about['version']}\n")
        self.assertEqual(said_by("--version"), said_by("version"))
        self.assertEqual(set(about), {"version", "gitCommit", "gitTreeState", "buildDate", "compiler", "platform", "kubernetes", "libraries"})
        self.assertRegex(about["buildDate"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(about["kubernetes"], r"^v1\.\d+\.\d+$")
        self.assertRegex(about["platform"], r"^linux/(amd64|arm64)$")
        self.assertLessEqual({"boost", "nghttp2", "openssl", "re2"}, set(about["libraries"]))
        self.assertEqual([name for name, number in about["libraries"].items() if not re.match(r"\d", number)], [])


class Tables(unittest.TestCase):
    def setUp(self):
        self.commands = re.findall(r"(?m)^  ([a-z-]+) ", said_by("help"))

    def test_OP_T101_help_manual_and_completions_have_the_same_commands(self):
        self.assertIn("proxy", self.commands)
        with tempfile.TemporaryDirectory() as folder:
            said_by("manual-pages", folder)
            pages = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
            if shutil.which("man"):
                for name in pages:
                    run = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", pathlib.Path(folder, name)],
                                         capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""})
                    self.assertEqual((run.returncode, run.stderr), (0, ""), name)
        self.assertEqual(set(pages), {"kintsugi.1", *[f"kintsugi-{one}.1" for one in self.commands if one != "help"]})
        for command in self.commands:
            if command == "help":
                continue
            options = set(re.findall(r"(?m)^  (?:-(\w)|--([a-z0-9-]+))(?= |$)", said_by(command, "--help")))
            page = pages[f"kintsugi-{command}.1"].replace("\\-", "-")
            for short, name in options:
                self.assertIn(f"\\fB-{short}\\fR" if short else f"\\fB--{name}\\fR", page)
        for shell in ("bash", "zsh", "fish"):
            script = said_by("completion", shell)
            for command in self.commands:
                self.assertIn(command, script)

    def test_OP_112_the_scripts_are_what_their_shells_read(self):
        for shell in ("bash", "zsh", "fish"):
            if shutil.which(shell) is None:
                print(f"note: there is no {shell}")
                continue
            run = subprocess.run([shell, "-n"], input=said_by("completion", shell), capture_output=True, text=True, check=False)
            self.assertEqual((run.returncode, run.stderr), (0, ""), shell)

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_OP_112_fish_completes_commands_options_and_sets(self):
        script = said_by("completion", "fish")

        def completed(line):
            run = subprocess.run(["fish", "-c", f"{script}\ncomplete -C '{line}'"], capture_output=True, text=True, check=True)
            return {one.split("\t")[0] for one in run.stdout.splitlines()}

        self.assertEqual(completed("kintsugi s"), {"shard", "store"})
        self.assertLessEqual({"--shards", "--shard-loops"}, completed("kintsugi up --sh"))
        self.assertEqual(completed("kintsugi up --wildcard "), {"serve", "deny"})
        self.assertLessEqual({"--mapping-file"}, completed("kcp-front-proxy --mapp"))


if __name__ == "__main__":
    unittest.main()
