"""Logical clusters that move to a shard whose store is on etcd (GR-603, GR-604)."""
import shutil
import unittest

import kit
from workspaces import migration_test
from workspaces.migration_test import MAPS, config_map


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class ToEtcd(migration_test.Moves):
    @classmethod
    def setUpClass(cls):
        cls.shared = kit.Installation("--store", "etcd", shards=2).start_for(cls)

    def holders(self, cluster):
        return [shard for shard in ("root", "shard-1")
                if self.at_shard(shard, cluster).get("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").status == 200]

    def test_GR_603_one_stays_where_it_is_when_revisions_could_go_back(self):
        client, cluster = self.workspace("small", "shard-1")
        client.must("POST", MAPS, config_map("kept", value="1"))
        self.move("small", cluster, "root")
        status = self.moved("small", phase="Failed")
        self.assertIn("a store on etcd cannot jump", status["conditions"][0]["message"])
        kit.eventually(lambda: client.request("POST", MAPS, config_map("later")).status in (201, 409), what="writes go on where it was")
        self.assertEqual(self.holders(cluster), ["shard-1"])


def load_tests(_loader, _tests, _pattern):
    return unittest.TestSuite([ToEtcd("test_GR_603_one_stays_where_it_is_when_revisions_could_go_back")])
