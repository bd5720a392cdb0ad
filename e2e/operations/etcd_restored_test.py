"""Somebody restores the etcd of a shard to an older state, without revisions that go on (GR-125)."""
import shutil
import unittest

import etcds
import kit

MAPS = "/api/v1/namespaces/default/configmaps"
AHEAD = 1_000_000_000


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class EtcdRestored(unittest.TestCase):
    def setUp(self):
        self.etcd = etcds.Member()
        self.addCleanup(self.etcd.end)
        self.up = kit.Installation("--store", f"etcd={self.etcd.url}", shards=1)
        self.up.start_for(self)
        self.saved = self.etcd.folder / "saved"

    def make(self, name):
        return kit.eventually(lambda: self.up.client().must("POST", MAPS, {"metadata": {"name": name}}, expect=(201, 409)), 40)

    def log(self):
        return (self.up.state / "logs" / "root.log").read_text(errors="replace")

    def save(self):
        """As `etcdctl snapshot save`, of an etcd that stands still."""
        self.etcd.kill()
        shutil.copytree(self.etcd.data, self.saved)
        self.etcd.start()

    def restore(self):
        self.etcd.kill()
        shutil.rmtree(self.etcd.data)
        shutil.copytree(self.saved, self.etcd.data)
        self.etcd.start()

    def goes_on_later(self, last):
        """What was lost is gone, what was told before is answered 410, and no number is given twice."""
        def is_forward():
            listed = self.up.client().must("GET", MAPS)
            return int(listed["metadata"]["resourceVersion"]) > last + AHEAD and listed

        listed = kit.eventually(is_forward, 60, "revisions that go on later")
        names = {one["metadata"]["name"] for one in listed["items"]}
        self.assertIn("kept", names)
        self.assertFalse({name for name in names if name.startswith("lost")}, names)
        # The proxy has a store in that etcd, too, and begins anew like the shard.
        event = kit.eventually(lambda: next(iter(self.up.client().watch(f"{MAPS}?watch=1&resourceVersion={last}&timeoutSeconds=10"))), 60)
        self.assertEqual((event["type"], event["object"]["code"]), ("ERROR", 410), event)
        made = kit.eventually(lambda: self.make("lost-0"), 60)
        self.assertGreater(int(made["metadata"]["resourceVersion"]), last + AHEAD)

    def lose(self):
        last = 0
        for i in range(30):
            last = max(last, int(self.make(f"lost-{i}")["metadata"]["resourceVersion"]))
        return last

    def test_GR_125_under_a_shard_that_runs(self):
        self.make("kept")
        self.save()
        last = self.lose()
        watch = kit.Watch(self.up.client(), f"{MAPS}?watch=1&resourceVersion={last}")
        self.restore()
        self.goes_on_later(last)
        self.assertIn("the history in etcd is not the one that was known", self.log())
        kit.eventually(lambda: watch.ended_at is not None, 30, "the end of the watch")
        self.assertFalse([event for event in watch.events if event["type"] == "DELETED"], "nothing was deleted")

    def test_GR_125_while_the_shard_was_down(self):
        self.make("kept")
        self.save()
        last = self.lose()
        self.up.stop()
        self.restore()
        (self.up.state / "ready").unlink(missing_ok=True)
        self.up.start(deadline=60)
        self.goes_on_later(last)
        self.assertIn("it was restored; revisions go forward", self.log())


if __name__ == "__main__":
    unittest.main()
