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
TOKEN = "the-token-of-vera"
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
        cls.installation = kit.Installation("--admin-port", str(port), "--ui", "--workers", "example")
        cls.installation.start_for(cls)
        cls.fill()
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
    def fill(cls):
        """Something to see in every view: a set and its partitions, watches of each kind, a proxy that knows a token."""
        everywhere, root = cls.installation.client("/clusters/*"), cls.installation.client()
        root.must("POST", "/apis/topology.kcp.io/v1alpha1/partitionsets", {
            "apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "by-region"}, "spec": {"dimensions": ["region"]}})
        for client, path in ((everywhere, "/api/v1/configmaps?watch=1"), (root, "/api/v1/configmaps?watch=1"),
                             (root, "/apis/topology.kcp.io/v1alpha1/partitions?watch=1")):  # fmt: skip
            connection = client.connect(600)  # nobody reads it: a quiet one is open as well
            cls.addClassCleanup(connection.close)
            connection.request("GET", client.url.path + path)
            assert connection.getresponse().status == 200
        tokens = cls.installation.dir / "tokens.csv"
        tokens.write_text(f"{TOKEN},vera,1\n", encoding="utf-8")
        tokens.chmod(0o600)
        cls.proxy = kit.Proxy(cls.installation, {"ui": {"enabled": "true"}, "authentication": {"token_file": tokens}})
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)

    @classmethod
    def end(cls):
        cls.node.stdin.close()
        try:
            cls.node.wait(120)
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
        self.assertEqual(len(list(PICTURES.glob("*.png"))), 28)

    def test_2_OP706_views_show_what_the_admin_listener_says(self):
        view = lambda name: self.admin.must("GET", f"/ui/api/v1/{name}?limit=500")["items"]
        shown = self.tell({"read": {"page": "map", "selector": "[data-shard] strong"}}, "texts")
        self.assertEqual(sorted(shown), sorted(one["name"] for one in view("shards")))
        tile = self.tell({"read": {"page": "map", "selector": "[data-tile='Shards up']"}}, "texts")
        self.assertEqual(tile, ["3 of 3"])
        shown = self.tell({"read": {"page": "slices", "selector": "[data-slice] > summary"}}, "texts")
        self.assertEqual(sorted(shown), sorted(f"{one['name']}: {one['export']}, {len(one['endpoints'])} endpoints" for one in view("slices")))

    def test_2_OP706_watches_open_their_positions(self):
        shown = self.tell({"read": {"page": "watches", "selector": "[data-id] button"}}, "texts")
        rows = self.admin.must("GET", "/ui/api/v1/streams?limit=500")["items"]
        self.assertEqual({one["kind"] for one in rows}, {"merged", "forwarded", "served"})
        self.assertLessEqual({one["path"] for one in rows}, set(shown))
        merged = next(one for one in rows if one["kind"] == "merged")
        self.assertEqual(sorted(one["name"] for one in merged["shards"]), ["root", "shard-1", "shard-2"])

    def test_2_OP706_OP711_sets_and_workers(self):
        partitions = self.admin.must("GET", "/ui/api/v1/sets")["items"][0]["partitions"]
        self.assertEqual(len(partitions), 3)
        shown = self.tell({"read": {"page": "partitions", "selector": "[data-tuple]"}}, "texts")
        self.assertEqual(shown, [f"{one['name']}\t{', '.join(one['shards'])}" for one in partitions])
        worker = kit.eventually(lambda: self.admin.must("GET", "/ui/api/v1/workers")["items"][0], 15)
        self.assertEqual((worker["role"], worker["ready"]), ("example", True))
        shown = self.tell({"read": {"page": "workers", "selector": "[data-worker]"}}, "texts")
        self.assertIn("✓ ready", shown[0])

    def test_2_OP704_the_main_port_shows_to_each_what_is_his(self):
        origin = f"https://127.0.0.1:{self.installation.port}"
        pki = self.installation.pki
        admin = {"origin": origin, "cert": str(pki / "admin.crt"), "key": str(pki / "admin.key")}
        seen = self.tell({"visit": {**admin, "page": "map", "selector": "[data-shard] strong"}}, "visited")
        self.assertEqual(len(seen["texts"]), 3)
        cert, key = kit.make_user(self.installation.dir, pki, "ann", ())
        ann = {"origin": origin, "cert": str(cert), "key": str(key)}
        for page, name in (("map", "shards"), ("workers", "workers"), ("timeline", "events"), ("path", "explain")):
            seen = self.tell({"visit": {**ann, "page": page, "selector": "[data-hidden]"}}, "visited")
            self.assertIn("/ui/api/v1/" + name, seen["texts"][0])
        seen = self.tell({"visit": {**ann, "page": "slices?cluster=root", "selector": "form [role=status]"}}, "visited")
        self.assertEqual(seen["texts"], ["There is nothing there that you may list."])

    def test_2_OP704_a_typed_token_goes_with_its_tab(self):
        origin = f"https://127.0.0.1:{self.proxy.port}"
        seen = self.tell({"visit": {"origin": origin, "token": TOKEN, "page": "watches", "selector": "header span:has-text('for vera')"}}, "visited")
        self.assertEqual(seen["kept"], f" 0 0 {origin}/ui/#/watches")

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
        self.tell({"wait": {"page": "timeline", "selector": "[data-event=shard]", "text": "shard-1 away"}}, "seen")


if __name__ == "__main__":
    unittest.main()
