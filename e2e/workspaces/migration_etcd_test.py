"""Logical clusters that move to a shard whose store is on etcd (GR-603, GR-604)."""
import pathlib
import shutil
import subprocess
import unittest

import kit
from workspaces import migration_test
from workspaces.migration_test import MAPS, config_map

MOVED = 150  # objects: more than a transaction of etcd takes


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class ToEtcd(migration_test.Moves):
    @classmethod
    def setUpClass(cls):
        cls.shared = kit.Installation("--store", "etcd", shards=2).start_for(cls)

    def holders(self, cluster):
        return [shard for shard in ("root", "shard-1")
                if self.at_shard(shard, cluster).get("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").status == 200]

    def renew(self, shard):
        """Its process ends, and `up` starts it again."""
        pid = self.installation.pid(shard)
        flags = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        told = [part for i, flag in enumerate(flags) if flag.startswith(("--etcd-ca", "--etcd-cert", "--etcd-key")) for part in flags[i:i + 2]]
        done = subprocess.run([str(kit.BINARY), "store", "renew", "--from", flags[flags.index("--store") + 1], "--prefix",
                               f"/kintsugi/shards/{shard}", *told], text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        kit.eventually(lambda: self.installation.pid(shard) not in (None, pid), 30, what=f"{shard} is started again")

    def test_GR_603_one_stays_where_revisions_could_go_back_and_moves_in_parts_when_they_cannot(self):
        client, cluster = self.workspace("small", "root")
        client.must("POST", MAPS, config_map("kept", value="1"))
        self.move("small", cluster, "shard-1")
        status = self.moved("small", phase="Failed")
        self.assertIn("a store on etcd cannot jump: `kintsugi store renew` raises them", status["conditions"][0]["message"])
        kit.eventually(lambda: client.request("POST", MAPS, config_map("later")).status in (201, 409), what="writes go on where it was")
        self.assertEqual(self.holders(cluster), ["root"])

        self.renew("shard-1")
        for number in range(MOVED):
            client.must("POST", MAPS, config_map(f"m{number}", value="x" * 500))
        before = {one["metadata"]["name"]: one for one in client.must("GET", MAPS)["items"]}
        listed = client.must("GET", MAPS)["metadata"]["resourceVersion"]
        kit.eventually(lambda: self.at_shard("shard-1", "*").get("/readyz").status == 200, 30, what="it serves again")
        self.move("again", cluster, "shard-1")
        self.assertGreater(self.moved("again")["entriesCopied"], MOVED)
        kit.eventually(lambda: self.holders(cluster) == ["shard-1"] and client.get(MAPS).status == 200)
        found = client.must("GET", MAPS)
        self.assertEqual({one["metadata"]["name"]: (one["metadata"]["uid"], one["data"]) for one in found["items"] if one.get("data")},
                         {name: (one["metadata"]["uid"], one["data"]) for name, one in before.items() if one.get("data")})
        self.assertTrue(all(int(one["metadata"]["resourceVersion"]) > int(listed) for one in found["items"]))
        resumed = kit.Watch(client, MAPS + f"?watch=true&resourceVersion={listed}")
        client.must("POST", MAPS, config_map("new"))
        kit.eventually(lambda: resumed.events and resumed.events[-1]["object"]["metadata"]["name"] == "new", what="it goes on")
        told = [one["object"]["metadata"]["name"] for one in resumed.events]
        self.assertEqual(sorted(told), sorted([*before, "new"]), "each once")


def load_tests(_loader, _tests, _pattern):
    return unittest.TestSuite([ToEtcd("test_GR_603_one_stays_where_revisions_could_go_back_and_moves_in_parts_when_they_cannot")])
