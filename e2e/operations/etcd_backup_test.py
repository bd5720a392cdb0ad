"""Installations whose data is in etcd: backed up while they are written to, made anew in folders and in etcd again (GR-401 to GR-410)."""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import etcds
import kit
import restore_drill
from restore_drill import AHEAD, MAPS, tool

ROOT = "/kintsugi"


def load_tests(loader, _tests, _pattern):
    return unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in (ThereAndBack, Mixed))


class Keys:
    """What an etcd has below a prefix, as etcdctl would say."""

    def __init__(self, member, prefix):
        begin, end = (base64.b64encode(one.encode()).decode() for one in (prefix + "/", prefix + "0"))
        self.member, self.range = member, {"key": begin, "range_end": end}

    def ask(self, what, **more):
        run = subprocess.run(["curl", "-s", "--max-time", "5", "-d", json.dumps({**self.range, **more}), f"{self.member.url}/v3/kv/{what}"],
                             capture_output=True, text=True, timeout=60, check=False)
        return json.loads(run.stdout or "{}")

    def count(self):
        return int(self.ask("range", count_only=True).get("count", 0))

    def remove(self):
        assert int(self.ask("deleterange").get("deleted", 0)) > 0


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class ThereAndBack(restore_drill.Stage):
    objects = 600
    shards = ("root", "shard-1")

    def setUp(self):
        self.etcd = etcds.Member()
        self.addCleanup(self.etcd.end)
        self.there = ("--store", f"etcd={self.etcd.url}")
        self.store = self.there
        super().setUp()

    def moved(self, target, *store):
        """The installation is that of this folder from now on."""
        installation = self.installation
        lost, installation.state = installation.state, target
        options = [word for word in installation.options if word not in self.there]
        options[options.index(str(lost))] = str(target)
        installation.options = [*options, *store]
        installation.start(deadline=60)

    def lose(self):
        self.installation.stop()
        shutil.rmtree(self.installation.state)

    def test_GR_402_GR_405_GR_409_GR_410_from_etcd_into_folders_and_back(self):
        installation = self.installation
        installation.make_workspace("at-shard-1", selector={"name": "shard-1"})
        clients = [installation.client("/clusters/root:at-shard-1"), installation.client()]
        self.fill(clients)
        old = self.positions(clients[0])
        chain = restore_drill.Chain(clients)
        self.addCleanup(chain.stopped.set)
        kit.eventually(lambda: chain.written > 3, what="writes")
        self.assertIn("3 stores of one moment", self.back_up())
        kit.eventually(lambda: chain.written > 20, what="more writes")
        for i in range(0, 60, 2):
            clients[0].must("DELETE", f"{MAPS}/kept-{i:06}")
        before = self.names()
        self.killed_somewhen(["backup", "--dir", installation.state, "--to", self.backups],
                             (self.backups / "unfinished").exists, lambda: None)
        for name in set(self.names()) - set(before):  # those that were faster
            shutil.rmtree(self.backups / name)
        self.assertIn("adds to " + before[0], self.back_up("--incremental"))
        self.assertFalse((self.backups / "unfinished").exists())
        chain.stop()
        self.assertIn("ok, 2 in a row", tool("backup", "--verify", self.backups))
        self.assertEqual(len(tool("backup", "--list", self.backups).splitlines()), 3)
        full, added = (self.manifest(name) for name in self.names())
        self.assertLess(self.bytes_of(added), self.bytes_of(full) / 2)
        cut = self.cut_of(self.names()[-1])
        self.check_causes(cut, clients)
        self.assertIn(": ok", tool("restore", "--check", installation.state))
        self.assertTrue((installation.state / "shards" / "root" / "mirror" / "backed-up").exists())

        # Into folders, elsewhere.
        self.lose()
        into_folders = installation.dir / "in-folders"
        self.measured("into folders", "restore", "--from", self.backups, "--to", into_folders)
        self.moved(into_folders)
        self.check_equal(cut)
        self.check_positions(old)
        self.check_goes_on(clients)
        old = self.positions(clients[0])

        # And into etcd, killed on the way.
        self.assertIn("was made anew since then", self.back_up("--incremental"))
        cut = self.cut_of(self.names()[-1])
        self.lose()
        target = installation.dir / "in-etcd"
        restore = ["restore", "--from", self.backups, "--to", target, *self.there]
        self.assertIn(f"{ROOT}/proxy in etcd: is not empty", tool(*restore, expect=1))
        keys = Keys(self.etcd, ROOT)
        keys.remove()
        self.killed_somewhen(restore, lambda: keys.count() > 200, lambda: (shutil.rmtree(target), keys.remove()))
        self.assertFalse(target.exists(), "half an installation")
        said = self.measured("into etcd", *restore)
        self.assertIn(f"start it with --store etcd={self.etcd.url}", said)
        self.assertFalse(pathlib.Path(f"{target}.partial").exists())
        other = [str(installation.dir / "other") if word == target else word for word in restore]
        self.assertIn("is not empty", tool(*other, expect=1))
        self.assertIn("the data of this shard is in etcd", self.shard_says(target))
        self.moved(target, *self.there)
        self.check_equal_in_etcd(cut)
        self.check_positions(old)
        self.assertIn("3 stores of one moment", self.back_up())
        self.check_one_alone(target)
        print(f"note: {self.objects} objects: {self.figures}", flush=True)

    def check_one_alone(self, state):
        """The store of one shard, into its prefix."""
        self.installation.stop()
        self.assertIn(": ok", tool("restore", "--check", state))
        one = ["restore", "--from", self.backups, "--to", state, "--only", "shard/shard-1", *self.there]
        mirror = state / "shards" / "shard-1" / "mirror"
        self.assertIn(f"{mirror}: is not empty", tool(*one, expect=1))
        shutil.rmtree(mirror)
        self.assertIn("/shards/shard-1 in etcd: is not empty", tool(*one, expect=1))
        Keys(self.etcd, f"{ROOT}/shards/shard-1").remove()
        self.assertIn("no store is there", tool("restore", "--check", state, expect=1))
        self.assertIn("`kintsugi restore --check` names them", tool(*one))
        self.assertIn(": ok", tool("restore", "--check", state))

    def bytes_of(self, manifest):
        return sum(file["bytes"] for store in manifest["stores"] for file in store["rows"])

    def check_equal(self, cut):
        for shard, (revision, before) in cut.items():
            now_at, now = self.listed(self.installation, shard)
            self.assertGreaterEqual(now_at, revision + AHEAD)
            self.assertEqual(now, before, shard)

    def check_equal_in_etcd(self, cut):
        """All but the revisions of objects, which are of the new store."""
        for shard, (revision, before) in cut.items():
            _, now = self.listed(self.installation, shard)
            self.assertEqual(set(now), set(before), shard)
            for key, one in before.items():
                self.assertGreater(int(now[key]["metadata"]["resourceVersion"]), revision + AHEAD)
                now[key]["metadata"]["resourceVersion"] = one["metadata"]["resourceVersion"]
                self.assertEqual(now[key], one)

    def shard_says(self, state):
        """Of a shard of a restored installation that is started as if its data were in the folder."""
        run = subprocess.run([str(kit.BINARY), "shard", "--join", str(state), "--name", "root", "--allow-root"], capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        return run.stderr


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class Mixed(unittest.TestCase):
    """Stores in folders, and that of one shard in etcd."""

    def setUp(self):
        self.etcd = etcds.Member()
        self.addCleanup(self.etcd.end)
        self.up = kit.Installation(shards=1)
        self.up.start_for(self)
        self.backups = self.up.dir / "backups"
        with (self.up.dir / "far.log").open("ab") as log:
            far = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(self.up.state), "--name", "far", "--allow-root", "--labels",
                                    "region=far", "--store", f"etcd={self.etcd.url}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(far.wait)
        self.addCleanup(far.kill)

    def test_GR_402_folders_and_etcd_are_of_one_moment_or_there_is_no_backup(self):
        kit.eventually(lambda: (self.up.state / "shards" / "far" / "store.json").exists(), 30, "a shard on etcd")
        kit.eventually(lambda: self.up.make_workspace("far", selector={"region": "far"}), 30, "a workspace there")
        chain = restore_drill.Chain([self.up.client(), self.up.client("/clusters/root:far")])
        self.addCleanup(chain.stopped.set)
        kit.eventually(lambda: chain.written > 5, what="writes")
        back_up = ["backup", "--dir", self.up.state, "--to", self.backups]
        said = tool(*back_up)
        self.assertIn("3 stores of one moment", said)
        self.assertNotIn("needs a backup of its own", said)
        chain.stop()
        name = re.search(r"backups/(\w+):", said).group(1)
        stores = {one["name"]: one for one in json.loads((self.backups / name / "manifest.json").read_text())["backup"]["stores"]}
        self.assertEqual(set(stores), {"proxy", "shard/root", "shard/far"})
        causes, effects = (self.links(shard, stores[f"shard/{shard}"]["revision"]) for shard in ("root", "far"))
        self.assertGreater(len(effects), 3)
        self.assertLessEqual(effects, causes)
        self.assertLessEqual(len(causes - effects), 1)

        self.etcd.kill()
        self.assertIn("shard/far", tool(*back_up, expect=1))
        self.assertEqual([one.name for one in self.backups.iterdir() if one.is_dir()], [name])
        note = self.up.state / "shards" / "far" / "store.json"
        os.rename(note, f"{note}.aside")
        self.assertIn("no process has noted where", tool(*back_up, expect=1))

    def links(self, shard, revision):
        pki = self.up.pki
        client = kit.Client(self.up.shard_url(shard), pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")
        path = f"/clusters/*{restore_drill.ALL_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact"
        return {one["metadata"]["name"] for one in client.must("GET", path)["items"] if one["metadata"]["name"].startswith("chain-")}


if __name__ == "__main__":
    unittest.main()
