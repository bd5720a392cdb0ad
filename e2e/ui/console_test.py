"""The console in Chromium (docs/console.md): every view in light and dark, at 1280 and 390 px, without a fault of axe-core or a line on the
browser's console; what it shows is what the admin listener says; a shard that goes away is shown. Pictures: build/console/."""
import json
import pathlib
import shutil
import signal
import subprocess
import unittest

import kit

ONLY_WITH_ALL = "needs Chromium and node, and takes a minute"
HERE = pathlib.Path(__file__).resolve().parent / "browser"
PICTURES = HERE.parent.parent.parent / "build" / "console"


@unittest.skipUnless(shutil.which("chromium") and shutil.which("npm"), "there is no chromium or no npm")
class InABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (HERE / "node_modules").exists():
            run = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HERE, capture_output=True, text=True, timeout=300, check=False)
            if run.returncode != 0:
                raise unittest.SkipTest("npm ci: " + run.stderr[-300:])
        port = kit.free_port()
        cls.installation = kit.Installation("--admin-port", str(port))
        cls.installation.start_for(cls)
        pki = cls.installation.pki
        cls.admin = kit.Client(f"https://127.0.0.1:{port}", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")
        PICTURES.mkdir(parents=True, exist_ok=True)
        cls.node = subprocess.Popen(["node", "look.mjs", f"https://127.0.0.1:{port}", shutil.which("chromium"), str(pki / "admin.crt"), str(pki / "admin.key"),
                                     str(PICTURES)], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.end)
        cls.found = []
        for line in cls.node.stdout:
            cls.found.append(json.loads(line))
            if "ready" in cls.found[-1]:
                return
        raise AssertionError(f"the browser ended: {cls.found}")

    @classmethod
    def end(cls):
        cls.node.stdin.close()
        try:
            cls.node.wait(20)
        except subprocess.TimeoutExpired:
            cls.node.kill()
            cls.node.wait()
        cls.node.stdout.close()

    def tell(self, command, answer):
        """What the page answers; what the browser's console says on the way is kept in `found`."""
        self.node.stdin.write(json.dumps(command) + "\n")
        self.node.stdin.flush()
        for line in self.node.stdout:
            said = json.loads(line)
            if answer in said:
                return said[answer]
            self.found.append(said)
        raise AssertionError(f"the browser ended: {self.found[-3:]}")

    def test_1_OP707_OP709_no_fault_in_any_view(self):
        focused = next(one for one in self.found if "focused" in one)
        self.assertEqual((focused["focused"], focused["at"]), ("filter", "#/watches"))
        self.assertEqual([one for one in self.found if "ready" not in one and "focused" not in one], [])
        self.assertEqual(len(list(PICTURES.glob("*.png"))), 20)

    def test_2_OP706_views_show_what_the_admin_listener_says(self):
        view = lambda name: self.admin.must("GET", f"/ui/api/v1/{name}?limit=500")["items"]
        shown = self.tell({"read": {"page": "map", "selector": "[data-shard] strong"}}, "texts")
        self.assertEqual(sorted(shown), sorted(one["name"] for one in view("shards")))
        tile = self.tell({"read": {"page": "map", "selector": "[data-tile='Shards up']"}}, "texts")
        self.assertEqual(tile, ["3 of 3"])
        shown = self.tell({"read": {"page": "slices", "selector": "[data-slice] > summary"}}, "texts")
        self.assertEqual(sorted(shown), sorted(f"{one['name']}: {one['export']}, {len(one['endpoints'])} endpoints" for one in view("slices")))

    def test_3_OP_T704_texts_of_objects_are_texts(self):
        name = "<img src=x onerror=alert(1)>"
        self.tell({"read": {"page": "path?path=" + name, "selector": "#explained"}}, "texts")
        self.assertEqual([one for one in self.found if "console" in one], [])

    def test_4_OP705_a_shard_that_hangs_is_shown(self):
        self.installation.kill("shard-1", signal.SIGSTOP)
        try:
            self.tell({"wait": {"page": "map", "selector": "[data-shard=shard-1]", "text": "✗ away"}}, "seen")
        finally:
            self.installation.kill("shard-1", signal.SIGCONT)
        self.tell({"wait": {"page": "map", "selector": "[data-shard=shard-1]", "text": "✓ up"}}, "seen")


if __name__ == "__main__":
    unittest.main()
