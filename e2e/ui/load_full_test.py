"""The console over 1,000 shards and 10,000 watches in Chromium (OP-708, OP-T703): the Map is whole, the counts are right, one more connection of
watches shows at once, and the page does not stand still. The shards are not there; the watches are of Partitions, which the proxy has itself."""
import json
import pathlib
import shutil
import subprocess
import time
import unittest

import kit

ONLY_WITH_ALL = "needs Chromium, node and bench_watch_load, and opens 10,000 watches"
HERE = pathlib.Path(__file__).resolve().parent / "browser"
SHARDS, CONNECTIONS, STREAMS = 1_000, 100, 100
TOOLS = (kit.BINARY.parent, HERE.parent.parent.parent / "build" / "release" / "bin")


def tool():
    found = [folder / "bench_watch_load" for folder in TOOLS if (folder / "bench_watch_load").exists()]
    if not found:
        raise unittest.SkipTest("bench_watch_load is not built (ninja bench_watch_load)")
    return found[0]


@unittest.skipUnless(shutil.which("chromium") and (HERE / "node_modules").exists(), "there is no chromium, or e2e/ui/browser has no node_modules")
class Load(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        watch_load = tool()
        cls.installation = kit.shared(cls)
        cls.port = kit.free_port()
        cls.proxy = kit.Proxy(cls.installation, {
            "admin": {"bind": f"127.0.0.1:{cls.port}"}, "listener": {"watch_starts": 0},
            "limits": {"served": "{watch_starts: 0}", "watches_per_user": 50_000, "watches_per_resource": 50_000}})
        shards = [{"name": f"shard-{i:04}", "url": "https://127.0.0.1:1", "labels": {"region": f"region-{i % 10}"}} for i in range(SHARDS)]
        cls.proxy.config["topology"] = {"source": "static", "shards": json.dumps(shards)}
        cls.proxy.write_config()
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)
        pki = cls.installation.pki
        cls.admin = kit.Client(f"https://127.0.0.1:{cls.port}", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")
        cls.watches = cls.process(watch_load, "--port", cls.proxy.port, "--target", "/clusters/root/apis/topology.kcp.io/v1alpha1/partitions?watch=true",
                                  "--connections", CONNECTIONS, "--streams", STREAMS, "--pace", 50, "--cert", pki / "admin.crt", "--key", pki / "admin.key")
        cls.said = json.loads(cls.watches.stdout.readline())
        cls.page = cls.process("node", "look.mjs", f"https://127.0.0.1:{cls.port}", shutil.which("chromium"), pki / "admin.crt", pki / "admin.key", "-")
        cls.found = []
        while not cls.found or "ready" not in cls.found[-1]:
            cls.found.append(json.loads(cls.page.stdout.readline()))

    @classmethod
    def process(cls, *command):
        process = subprocess.Popen([str(one) for one in command], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(process.stdout.close)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)
        cls.addClassCleanup(process.stdin.close)
        return process

    def tell(self, command, answer):
        self.page.stdin.write(json.dumps(command) + "\n")
        self.page.stdin.flush()
        for line in self.page.stdout:
            said = json.loads(line)
            if answer in said:
                return said[answer]
            self.found.append(said)
        raise AssertionError(f"the browser ended: {self.found[-3:]}")

    def test_OP708_OP_T703_a_thousand_shards_and_ten_thousand_watches(self):
        self.assertEqual(self.said["watches"], CONNECTIONS * STREAMS)
        shown = self.tell({"read": {"page": "map", "selector": "[data-shard] strong"}}, "texts")
        self.assertEqual(len(shown), SHARDS)
        self.tell({"wait": {"page": "map", "selector": "[data-tile=Watches]", "text": str(CONNECTIONS * STREAMS)}}, "seen")
        self.tell({"read": {"page": "map?filter=shard-0042", "selector": "[data-shard=shard-0042]"}}, "texts")
        self.tell({"wait": {"page": "watches", "selector": "main p", "text": "of 1000 watches"}}, "seen")
        self.watches.stdin.write("add 1\n")
        self.watches.stdin.flush()
        self.assertEqual(json.loads(self.watches.stdout.readline())["watches"], (CONNECTIONS + 1) * STREAMS)
        begin, clock = time.monotonic(), kit.Clock()
        self.tell({"wait": {"page": "map", "selector": "[data-tile=Watches]", "text": str((CONNECTIONS + 1) * STREAMS)}}, "seen")
        spent, took = clock.spent(), time.monotonic() - begin
        longest, heap = self.tell({"stalls": True}, "stalls")
        print(f"OP-T703: a change shows after {took:.2f} s, longest task {longest} ms, heap {heap >> 20} MiB")
        self.assertLess(spent, 1)
        self.assertLess(longest, 1_000)
        self.assertEqual([one for one in self.found if "console" in one or "elsewhere" in one], [])


if __name__ == "__main__":
    unittest.main()
