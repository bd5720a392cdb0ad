"""An installation is backed up, lost and restored (GR-401 to GR-411), and what is refused."""
import base64
import json
import pathlib
import shutil
import subprocess
import unittest

import kit
import restore_drill
from restore_drill import tool

LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
MIGRATIONS = "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations"


def load_tests(loader, _tests, _pattern):
    suite = unittest.TestSuite()
    for case in (restore_drill.Drill, Merged, Checked, Moved, Encrypted, Refused):
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


def encrypt_everything(installation):
    """All that its shards store, also what they keep of logical clusters; before the first start."""
    installation.pki.mkdir(parents=True)
    (installation.pki / "encryption.yaml").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: ['*.*']\n  providers:\n"
        f"  - aesgcm: {{keys: [{{name: all, secret: {base64.b64encode(b'k' * 32).decode()}}}]}}\n")


class Merged(unittest.TestCase):
    def test_GR_405_one_full_backup_of_a_row(self):
        installation = kit.Installation(shards=1)
        installation.start_for(self)
        client, backups = installation.client(), installation.dir / "backups"
        key = installation.dir / "backup.key"
        key.write_bytes(b"k" * 32)
        key.chmod(0o600)

        def back_up(*options):
            return tool("backup", "--dir", installation.state, "--to", backups, "--key-file", key, *options)

        for i in range(30):
            client.must("POST", restore_drill.MAPS, restore_drill.config_map(f"kept-{i}", "first"))
        back_up()
        for turn in range(2):
            for i in range(10 * turn, 10 * turn + 5):
                client.must("DELETE", f"{restore_drill.MAPS}/kept-{i}")
                client.must("PUT", f"{restore_drill.MAPS}/kept-{i + 5}", restore_drill.config_map(f"kept-{i + 5}", f"turn {turn}"))
                client.must("POST", restore_drill.MAPS, restore_drill.config_map(f"made-{i}", "x" * 1_000))
            back_up("--incremental")
        before = {one["metadata"]["name"]: one for one in client.must("GET", restore_drill.MAPS)["items"]}
        names = sorted(one.parent.name for one in backups.glob("*/manifest.json"))
        said = tool("backup", "--merge", backups, "--key-file", key)
        self.assertIn("of 3 in a row", said)
        merged = max(one.parent.name for one in backups.glob("*/manifest.json"))
        self.assertGreater(merged, names[-1])
        old, new = (json.loads((backups / name / "manifest.json").read_text())["backup"] for name in (names[-1], merged))
        self.assertEqual([(one["name"], one["revision"], one["keys"]) for one in old["stores"]],
                         [(one["name"], one["revision"], one["keys"]) for one in new["stores"]])
        self.assertEqual(new["parent"], "")
        self.assertIn("adds to " + merged, back_up("--incremental"))
        for name in names:
            shutil.rmtree(backups / name)
        self.assertIn("ok, 2 in a row", tool("backup", "--verify", backups, "--key-file", key))
        self.assertIn("2 older ones removed", tool("backup", "--merge", backups, "--key-file", key, "--keep", "1"))
        installation.stop()
        target = installation.dir / "target"
        tool("restore", "--from", backups, "--to", target, "--key-file", key)
        lost, installation.state = installation.state, target
        installation.options[installation.options.index(str(lost))] = str(target)
        installation.start(deadline=60)
        after = {one["metadata"]["name"]: one for one in kit.eventually(lambda: installation.client().must("GET", restore_drill.MAPS))["items"]}
        self.assertEqual(after, before)


class Checked(unittest.TestCase):
    def test_GR_412_what_does_not_fit_together_is_named(self):
        installation = kit.Installation(shards=2)
        installation.start_for(self)
        backups = installation.dir / "backups"
        installation.make_workspace("old", selector={"name": "shard-1"})
        at_old = installation.client("/clusters/root:old")
        old = at_old.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        tool("backup", "--dir", installation.state, "--to", backups)
        self.assertIn(": ok", tool("restore", "--check", installation.state))
        # What comes later: a workspace at the shard that is restored, an export there, and one who binds it; what goes: the old one.
        installation.make_workspace("new", selector={"name": "shard-1"})
        at_new, consumer = installation.client("/clusters/root:new"), installation.client()
        new = at_new.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        at_new.must("POST", "/apis/apis.kcp.io/v1alpha2/apiexports", {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
                                                                  "metadata": {"name": "offer"}, "spec": {}})
        bindings = "/apis/apis.kcp.io/v1alpha2/apibindings"
        kit.eventually(lambda: consumer.must("POST", bindings, {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "takes"}, "spec": {"reference": {"export": {"path": "root:new", "name": "offer"}}}}, expect=(201, 409)), 30)
        kit.eventually(lambda: consumer.must("GET", f"{bindings}/takes")["status"]["apiExportClusterName"] == new, 30)
        workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
        consumer.must("DELETE", f"{workspaces}/old")
        kit.eventually(lambda: consumer.get(f"{workspaces}/old").status == 404, 30)
        self.assertIn(": ok", tool("restore", "--check", installation.state))
        installation.stop()
        shutil.rmtree(installation.state / "shards" / "shard-1" / "data")
        self.assertIn("`kintsugi restore --check` names them",
                      tool("restore", "--from", backups, "--to", installation.state, "--only", "shard/shard-1"))
        said = tool("restore", "--check", installation.state, expect=3)
        for line in (f"Workspace root/new: its logical cluster {new} is missing", f"LogicalCluster {old}: its Workspace root/old is missing",
                     f"APIBinding root/takes: its APIExport {new}/offer is missing", "3 to look at"):
            self.assertIn(line, said)
        self.assertIn("no installation is there", tool("restore", "--check", installation.dir / "nowhere", expect=1))


class Moved(unittest.TestCase):
    def test_GR_411_what_has_moved_since_is_served_at_one_place(self):
        up = kit.Installation(shards=3)
        encrypt_everything(up)  # what is read and written of LogicalClusters in a backup, too
        up.start_for(self)
        backups, later = up.dir / "backups", up.dir / "later"
        up.make_workspace("wanders", selector={"name": "shard-1"})
        client = up.client("/clusters/root:wanders")
        client.must("POST", restore_drill.MAPS, restore_drill.config_map("before", "x"))
        cluster = client.must("GET", LOGICAL_CLUSTER)["metadata"]["annotations"]["kcp.io/cluster"]
        tool("backup", "--dir", up.state, "--to", backups)
        root = up.client()
        root.must("POST", MIGRATIONS, {"apiVersion": "migration.kcp.io/v1alpha1", "kind": "LogicalClusterMigration", "metadata": {"name": "away"},
                                       "spec": {"logicalCluster": cluster, "destinationShard": "shard-2"}})
        kit.eventually(lambda: root.must("GET", f"{MIGRATIONS}/away").get("status", {}).get("phase") == "Completed", 60, "the move")
        kit.eventually(lambda: client.must("POST", restore_drill.MAPS, restore_drill.config_map("after", "y")), 30)
        tool("backup", "--dir", up.state, "--to", later)
        up.stop()
        (up.state / "shards" / "shard-1" / "data").rename(up.dir / "lost")
        said = tool("restore", "--from", backups, "--to", up.state, "--only", "shard/shard-1")
        self.assertIn(f"inactive here: logical cluster {cluster}, which is at shard/shard-2", said)
        self.assertIn(f"LogicalCluster {cluster}: is at shard/shard-1 and shard/shard-2", tool("restore", "--check", up.state, expect=3))
        for _ in range(2):  # whichever shard is heard first
            self.is_at_shard_2_alone(up, client, cluster)
        # What rests is not what counts: the other one is not made to rest, too.
        (up.state / "shards" / "shard-2" / "data").rename(up.dir / "lost-too")
        self.assertNotIn("inactive here", tool("restore", "--from", later, "--to", up.state, "--only", "shard/shard-2"))
        self.is_at_shard_2_alone(up, client, cluster)

    def is_at_shard_2_alone(self, up, client, cluster):
        (up.state / "ready").unlink(missing_ok=True)
        up.start(deadline=60)
        kit.eventually(lambda: client.get(f"{restore_drill.MAPS}/after").status == 200, 30, "what was written after the move")
        self.assertEqual(client.must("GET", LOGICAL_CLUSTER)["metadata"]["annotations"]["core.kcp.io/shard"], "shard-2")
        pki = up.pki
        there = kit.Client(f"{up.shard_url('shard-1')}/clusters/{cluster}", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")
        refused = there.request("POST", restore_drill.MAPS, restore_drill.config_map("elsewhere", "z"))
        self.assertEqual(refused.status, 403, refused)
        self.is_merged_once(up, there, cluster)
        up.stop()

    def is_merged_once(self, up, there, cluster):
        """The copy's objects are at its shard, and in no merged list or watch."""
        wildcard = kit.Client(f"{up.shard_url('shard-1')}/clusters/*", up.pki / "serving-ca.crt", up.pki / "shard-admin.crt", up.pki / "shard-admin.key")
        everywhere = up.client("/clusters/*")

        def of_it(objects, names):
            return sorted(one["metadata"]["name"] for one in objects
                          if one["metadata"]["name"] in names and one["metadata"]["annotations"]["kcp.io/cluster"] == cluster)

        for path, names, copy in ((restore_drill.ALL_MAPS, ["after", "before"], ["before"]),
                                  ("/apis/core.kcp.io/v1alpha1/logicalclusters", ["cluster"], ["cluster"])):
            self.assertEqual(of_it(wildcard.must("GET", path)["items"], names), copy)
            for query in ("?limit=500", "?limit=1"):
                kit.eventually(lambda path=path, names=names, query=query: of_it(self.pages(everywhere, path, query), names) == names, 30, path + query)
            watch = kit.Watch(everywhere, f"{path}?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan")
            kit.eventually(lambda watch=watch: any(event["type"] == "BOOKMARK" for event in watch.events), 30, "all initial events")
            self.assertEqual(of_it([event["object"] for event in watch.events if event["type"] == "ADDED"], names), names)

    @staticmethod
    def pages(client, path, query):
        page = client.must("GET", path + query)
        while True:
            yield from page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return
            page = client.must("GET", f"{path}{query}&continue={token}")


class Encrypted(unittest.TestCase):
    def test_GR_404_SE_149_what_is_encrypted_at_rest_is_so_in_a_backup_and_is_read_where_it_is_restored(self):
        up = kit.Installation(shards=1)
        encrypt_everything(up)
        up.start_for(self)
        up.make_workspace("kept")
        backups, paths = up.dir / "backups", (restore_drill.MAPS, "/api/v1/namespaces", LOGICAL_CLUSTER)
        up.client("/clusters/root:kept").must("POST", restore_drill.MAPS, restore_drill.config_map("told", "canary-5d0e"))
        before = [up.client(f"/clusters/{where}").must("GET", path) for where in ("root", "root:kept") for path in paths]
        tool("backup", "--dir", up.state, "--to", backups)
        up.client("/clusters/root:kept").must("POST", restore_drill.MAPS, restore_drill.config_map("later", "canary-77a1"))
        tool("backup", "--dir", up.state, "--to", backups, "--incremental")
        up.stop()
        for folder in (up.state / "shards" / "root" / "data", backups):
            files = [path for path in folder.rglob("*") if path.is_file()]
            self.assertGreater(len(files), 0)
            for path in files:
                for text in (b"canary-", b"root:kept"):
                    self.assertNotIn(text, path.read_bytes(), path)
        target = up.dir / "target"
        first = min(one.parent.name for one in backups.glob("*/manifest.json"))
        tool("restore", "--from", backups, "--to", target, "--at", first)
        said = tool("restore", "--check", target)
        self.assertRegex(said, r": [1-9]\d* workspaces, [1-9]\d* logical clusters, \d+ bindings: ok")
        self.assertNotIn("could not be read", said)
        up.options[up.options.index(str(up.state))] = str(target)
        up.state = target
        up.start(deadline=60)

        def now():
            return [up.client(f"/clusters/{where}").must("GET", path) for where in ("root", "root:kept") for path in paths]

        def rests(answers):
            """Without what moves with the revision of the store."""
            return [{**one, "metadata": {key: value for key, value in one["metadata"].items() if "items" not in one or key != "resourceVersion"}}
                    for one in answers]

        self.assertEqual(rests(kit.eventually(now, 30)), rests(before))


class Refused(unittest.TestCase):
    """Bad input of section 9, and what a key changes. One installation, which is stopped."""

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1)
        cls.installation.start_for(cls)
        cls.installation.client().must("POST", restore_drill.MAPS, {"metadata": {"name": "kept"}, "data": {"word": "a-word-that-is-found"}})
        cls.installation.stop()
        cls.state = cls.installation.state
        cls.key = cls.installation.dir / "backup.key"
        cls.key.write_bytes(b"k" * 32)
        cls.other_key = cls.installation.dir / "other.key"
        cls.other_key.write_bytes(b"o" * 32)

    def setUp(self):
        self.dir = self.installation.dir / self.id().rsplit(".", 1)[-1]
        self.dir.mkdir()

    def back_up(self, to, *options, expect=0):
        return tool("backup", "--dir", self.state, "--to", to, *options, expect=expect)

    def newest(self, folder):
        return sorted(folder.glob("*/manifest.json"))[-1].parent

    def test_GR_401_folders_that_are_no_place_for_a_backup(self):
        foreign = self.dir / "foreign"
        foreign.mkdir()
        (foreign / "letter.txt").write_text("dear")
        self.assertIn("letter.txt in it is no backup", self.back_up(foreign, expect=1))
        self.assertEqual([one.name for one in foreign.iterdir()], ["letter.txt"])
        self.assertIn("is in the installation", self.back_up(self.state / "backups", expect=1))
        self.assertFalse((self.state / "backups").exists())
        nothing = self.dir / "nothing"
        self.assertIn("no installation is there", tool("backup", "--dir", nothing, "--to", self.dir / "x", expect=1))
        self.assertFalse(nothing.exists() or (self.dir / "x").exists())
        self.assertIn("say one of --to, --list, --verify", tool("backup", expect=2))
        self.assertIn("--from and --to are required", tool("restore", "--to", self.dir, expect=2))

    def test_GR_403_GR_408_whatever_is_damaged_is_named_and_nothing_is_made(self):
        backups = self.dir / "backups"
        self.back_up(backups)
        self.back_up(backups, "--incremental")
        base, newest = sorted(backups.glob("*/manifest.json"))
        target = self.dir / "target"
        for file in [*base.parent.iterdir(), *newest.parent.iterdir()]:
            sound = file.read_bytes()
            damaged = bytearray(sound)
            damaged[len(damaged) // 2] ^= 1
            for how, bytes_ in (("bit", bytes(damaged)), ("cut", sound[:-2]), ("missing", None)):
                if bytes_ is None:
                    file.unlink()
                else:
                    file.write_bytes(bytes_)
                with self.subTest(file=file.name, how=how):
                    said = tool("restore", "--from", backups, "--to", target, "--at", newest.parent.name, expect=1)
                    self.assertIn(file.name, said)
                    self.assertFalse(target.exists() or pathlib.Path(str(target) + ".partial").exists())
                    self.assertNotEqual(subprocess.run([str(kit.BINARY), "backup", "--verify", str(backups), "--at", newest.parent.name],
                                                       capture_output=True, check=False).returncode, 0)
                file.write_bytes(sound)
        self.assertIn("ok, 2 in a row", tool("backup", "--verify", backups))
        newer = json.loads(newest.read_text())
        newer["backup"]["format"] = 2
        newest.write_text(json.dumps(newer))
        self.assertIn("another format", tool("restore", "--from", backups, "--to", target, expect=1))

    def test_GR_405_a_parent_that_is_no_use_gives_a_full_backup_that_says_why(self):
        backups = self.dir / "backups"
        self.assertIn("full, because there is none yet", self.back_up(backups, "--incremental"))
        first = self.newest(backups)
        next(first.glob("rows-*")).write_bytes(b"")
        self.assertIn("is damaged", self.back_up(backups, "--incremental"))
        self.assertEqual(json.loads((self.newest(backups) / "manifest.json").read_text())["backup"]["parent"], "")
        # The store that a restore makes is another one: what was noted of the old one is not true of it.
        target = self.dir / "target"
        tool("restore", "--from", backups, "--to", target)
        self.assertIn("was made anew since then", tool("backup", "--dir", target, "--to", backups, "--incremental"))
        self.assertEqual(len(tool("backup", "--list", backups).splitlines()), 4)
        self.assertIn("2 older ones removed", self.back_up(backups, "--keep", "2"))
        self.assertEqual(len(list(backups.glob("*/manifest.json"))), 2)

    def test_GR_404_with_a_key_nothing_is_readable_without_it(self):
        plain, sealed = self.dir / "plain", self.dir / "sealed"
        self.assertIn("--key-file encrypts it", self.back_up(plain))
        self.back_up(sealed, "--key-file", self.key)
        words = (b"a-word-that-is-found", b"PRIVATE KEY")
        for folder, found in ((plain, True), (sealed, False)):
            text = b"".join(one.read_bytes() for one in self.newest(folder).iterdir())
            for word in words:
                self.assertEqual(word in text, found, (folder.name, word))
        target = self.dir / "target"
        self.assertIn("say --key-file", tool("restore", "--from", sealed, "--to", target, expect=1))
        self.assertIn("another key", tool("restore", "--from", sealed, "--to", target, "--key-file", self.other_key, expect=1))
        self.assertIn("is not encrypted", tool("restore", "--from", plain, "--to", target, "--key-file", self.key, expect=1))
        short = self.dir / "short.key"
        short.write_bytes(b"k" * 31)
        self.assertIn("a key needs 32", self.back_up(sealed, "--key-file", short, expect=1))
        self.assertFalse(target.exists())
        self.assertIn("2 in a row", self.back_up(sealed, "--key-file", self.key, "--incremental")
                      + tool("backup", "--verify", sealed, "--key-file", self.key))
        tool("restore", "--from", sealed, "--to", target, "--key-file", self.key)
        for pair in (self.state / "pki").glob("*.key"):
            self.assertEqual((target / "pki" / pair.name).read_bytes(), pair.read_bytes())
            self.assertEqual((target / "pki" / pair.name).stat().st_mode & 0o777, 0o600)
        for file in self.newest(sealed).iterdir():
            self.assertEqual(file.stat().st_mode & 0o077, 0, file)

    def test_GR_411_one_store_alone(self):
        backups = self.dir / "backups"
        self.back_up(backups)
        target = self.dir / "target"
        tool("restore", "--from", backups, "--to", target)
        self.assertIn("is not empty", tool("restore", "--from", backups, "--to", target, "--only", "shard/root", expect=1))
        self.assertIn("is none of proxy, shard/root", tool("restore", "--from", backups, "--to", target, "--only", "shard/x", expect=1))
        (target / "shards" / "root" / "data").rename(self.dir / "lost")
        self.assertIn("the other way round", tool("restore", "--from", backups, "--to", target, "--only", "shard/root"))
        self.assertIn(": ok", tool("store", "check", "--dir", target / "shards" / "root" / "data"))


if __name__ == "__main__":
    unittest.main()
