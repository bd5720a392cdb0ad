"""A shard whose data moves from its folder into etcd and back, under clients that watch (GR-306, GR-307)."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import unittest

import etcds
import kit

MAPS = "/api/v1/namespaces/default/configmaps"
OBJECTS = 1_500
JUMP = 1_000_000
PREFIX = "/kintsugi/shards/root"


def copy(*arguments, expect=0):
    run = subprocess.run([str(kit.BINARY), "store", "copy", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == expect, f"{arguments}: {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout + run.stderr


class Informer(threading.Thread):
    """Lists, then watches, and lists again when it is told that it comes too late: as client-go's."""

    def __init__(self, installation):
        super().__init__(daemon=True)
        self.installation, self.objects, self.lists, self.revisions, self.deleted = installation, {}, 0, [], []
        self.stopped = threading.Event()
        self.start()

    def run(self):
        at = None
        while not self.stopped.is_set():
            # Without a connection: again, from the same position.
            with contextlib.suppress(OSError, http.client.HTTPException, AssertionError, ValueError):
                client = self.installation.client()
                if at is None:
                    at = self.list(client)
                at = self.watch(client, at)
            time.sleep(0.05)

    def list(self, client):
        listed = client.must("GET", MAPS)
        self.objects = {one["metadata"]["name"]: one for one in listed["items"]}
        self.lists += 1
        self.revisions.append(int(listed["metadata"]["resourceVersion"]))
        return listed["metadata"]["resourceVersion"]

    def watch(self, client, at):
        answer = client.watch(f"{MAPS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=20&resourceVersion={at}")
        for event in answer:
            one = event["object"]
            if event["type"] == "ERROR":
                assert one["code"] == 410, one
                return None
            at = one["metadata"]["resourceVersion"]
            if event["type"] == "DELETED":
                self.deleted.append(one["metadata"]["name"])
                self.objects.pop(one["metadata"]["name"], None)
            elif event["type"] != "BOOKMARK":
                self.objects[one["metadata"]["name"]] = one
        return at


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class StoreCopy(unittest.TestCase):
    def setUp(self):
        self.etcd = etcds.Member()
        self.addCleanup(self.etcd.end)
        self.up = kit.Installation(shards=1)
        self.up.start_for(self)
        self.data = self.up.state / "shards" / "root" / "data"
        self.there = f"etcd={self.etcd.url}"

    def killed(self, begun, *arguments):
        """Runs a copy and kills it once begun() holds."""
        with (self.up.dir / "copy.log").open("w+b") as log:
            process = subprocess.Popen([str(kit.BINARY), "store", "copy", *map(str, arguments)], stdout=log, stderr=log)
            while process.poll() is None and not begun():
                time.sleep(0.0005)
            process.send_signal(signal.SIGKILL)
            code = process.wait()
            log.seek(0)
            self.assertEqual(code, -signal.SIGKILL, log.read())

    def rows_in_etcd(self):
        """How many keys the prefix has."""
        request = json.dumps({"key": "L2tpbnRzdWdpL3NoYXJkcy9yb290L28v", "range_end": "L2tpbnRzdWdpL3NoYXJkcy9yb290L28w", "count_only": True})
        run = subprocess.run(["curl", "-s", "--max-time", "5", "-d", request, self.etcd.url + "/v3/kv/range"], capture_output=True, text=True,
                             timeout=60, check=False)
        return int(json.loads(run.stdout or "{}").get("count", 0))

    def shard_says(self, *options):
        run = subprocess.run([str(kit.BINARY), "shard", "--join", str(self.up.state), "--name", "root", "--allow-root", *options],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        return run.stderr

    def start_on(self, *store):
        kept = [self.up.options[i] for i in range(len(self.up.options)) if "--store" not in self.up.options[max(i - 1, 0):i + 1]]
        self.up.options = [*kept, *store]
        (self.up.state / "ready").unlink(missing_ok=True)
        self.up.start(deadline=60)

    def same(self, informer, lists):
        """The informer has what the shard has, by so many lists."""
        client = self.up.client()

        def equal():
            items = {one["metadata"]["name"]: one for one in client.must("GET", MAPS)["items"]}
            return informer.lists == lists and informer.objects == items

        kit.eventually(equal, 60, f"an informer with {lists} lists; it has {informer.lists}")
        self.assertEqual(informer.revisions, sorted(informer.revisions))

    def test_GR_306_into_etcd_and_back_under_watches(self):
        client = self.up.client()
        for i in range(OBJECTS):
            client.must("POST", MAPS, {"metadata": {"name": f"kept-{i:04}"}, "data": {"n": str(i), "fill": "x" * (i % 50 * 40)}})
        informer = Informer(self.up)
        self.addCleanup(informer.stopped.set)
        self.same(informer, 1)
        before = dict(informer.objects)
        self.assertIn("in use", copy("--from", f"lmdb:{self.data}", "--to", self.there, "--prefix", PREFIX, expect=1))
        self.up.stop()
        self.assertIn("the data of this shard is in", self.shard_says("--store", self.there))

        # There, killed on the way.
        to_etcd = ["--from", f"lmdb:{self.data}", "--to", self.there, "--prefix", PREFIX]
        self.killed(lambda: self.rows_in_etcd() > 300, *to_etcd)
        self.assertIn("has not ended", self.start_is_refused())
        said = copy(*to_etcd)
        self.assertRegex(said, r"\d+ objects, digest [0-9a-f]{16}")
        self.assertIn(f"has moved to {PREFIX} in etcd; --force", self.shard_says())
        self.assertIn("remove it first", copy("--from", self.there, "--to", f"lmdb:{self.data}", "--prefix", PREFIX, expect=1))
        self.start_on("--store", self.there)
        self.same(informer, 2)
        self.assert_newer(before, informer.objects)
        self.goes_on(informer, "in-etcd")

        # And back, killed on the way.
        self.assertIn("is in use", copy("--from", self.there, "--to", f"lmdb:{self.up.dir}/no", "--prefix", PREFIX, expect=1))
        self.up.stop()
        shutil.rmtree(self.data)
        to_lmdb = ["--from", self.there, "--to", f"lmdb:{self.data}", "--prefix", PREFIX]
        partial = pathlib.Path(f"{self.data}.partial")
        self.killed(partial.exists, *to_lmdb)
        self.assertFalse(self.data.exists(), "half a store")
        self.assertIn("the data of this shard is in etcd", self.shard_says())
        copy(*to_lmdb)
        self.assertFalse(partial.exists())
        before = dict(informer.objects)
        self.start_on("--store", self.there)  # as before: it is found where it is
        self.assertIn("the data of the shard has moved into its folder", (self.up.state / "logs/root.log").read_text())
        self.same(informer, 3)
        self.assertEqual({name: (one["metadata"], one.get("data")) for name, one in informer.objects.items()},
                         {name: (one["metadata"], one.get("data")) for name, one in before.items()}, "rows keep their revisions")
        self.assertGreater(informer.revisions[2], informer.revisions[1] + JUMP)
        self.goes_on(informer, "in-its-folder")
        self.up.stop()
        self.start_on()
        self.goes_on(informer, "without-the-flag")
        self.assertEqual(informer.deleted, [], "nothing was deleted")
        check = subprocess.run([str(kit.BINARY), "store", "check", "--dir", str(self.data)], capture_output=True, text=True, check=False,
                               timeout=60)
        self.assertEqual(check.returncode, 2, "in use: " + check.stdout + check.stderr)

    def start_is_refused(self):
        """What a shard says on the prefix whose copy has not ended, in a folder without data of its own."""
        aside = pathlib.Path(f"{self.data}.aside")
        os.rename(self.data, aside)
        try:
            return self.shard_says("--store", self.there)
        finally:
            os.rename(aside, self.data)

    def assert_newer(self, before, after):
        self.assertEqual(set(before), set(after))
        newest = max(int(one["metadata"]["resourceVersion"]) for one in before.values())
        for name, one in after.items():
            old = json.loads(json.dumps(before[name]))
            self.assertGreater(int(one["metadata"]["resourceVersion"]), newest + JUMP)
            old["metadata"]["resourceVersion"] = one["metadata"]["resourceVersion"]
            self.assertEqual(one, old)

    def goes_on(self, informer, name):
        """What is written now reaches the informer by its watch."""
        client, lists = self.up.client(), informer.lists
        made = kit.eventually(lambda: client.must("POST", MAPS, {"metadata": {"name": name}}), 30)
        kit.eventually(lambda: informer.objects.get(name) == made, 30, f"{name} at the informer")
        self.assertEqual(informer.lists, lists)

    def test_GR_307_wrong_usage_is_one_clear_line(self):
        for arguments, text, status in (
                (["--from", "lmdb:/nowhere", "--to", self.there], "--prefix is required", 2),
                (["--from", "/nowhere", "--to", self.there, "--prefix", "/p"], "say --from lmdb:DIR --to etcd=URL,…", 2),
                (["--from", self.there, "--to", self.there, "--prefix", "/p"], "say --from lmdb:DIR --to etcd=URL,…", 2),
                (["--from", "lmdb:/nowhere", "--to", "etcd=nonsense", "--prefix", "/p"], "is no URL", 2),
                (["--from", "lmdb:/nowhere", "--to", self.there, "--prefix", "/p"], "/nowhere: no store is there", 1),
                (["--from", self.there, "--to", f"lmdb:{self.up.dir}/new", "--prefix", "/p"], "/p in etcd: no store is there", 1)):
            said = copy(*arguments, expect=status)
            self.assertIn(text, said)
        self.assertFalse((self.up.dir / "new").exists())


if __name__ == "__main__":
    unittest.main()
