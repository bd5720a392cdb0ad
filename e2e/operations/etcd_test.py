"""A shard whose objects are in etcd: what survives whose end, and what is refused (GR-101 to GR-124)."""
import shutil
import signal
import subprocess
import threading
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class Etcd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = kit.Installation("--store", "etcd", shards=1).start_for(cls)
        cls.client = cls.up.client()

    def test_GR_101_objects_survive_the_shard_and_etcd(self):
        client = self.client
        stop, acknowledged = threading.Event(), []

        def write():
            mine, number = self.up.client(), 0
            while not stop.is_set():
                number += 1
                name = f"kept-{number}"
                try:
                    if mine.request("POST", MAPS, {"metadata": {"name": name}}).status in (200, 201):
                        acknowledged.append(name)
                except OSError:
                    mine = self.up.client()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for process in ("root", "etcd", "root"):
                count = len(acknowledged)
                kit.eventually(lambda count=count: len(acknowledged) > count + 20, 30, "writes")
                self.up.kill(process, signal.SIGKILL)
                count = len(acknowledged)
                kit.eventually(lambda count=count: len(acknowledged) > count + 5, 40, f"writes after the end of {process}")
        finally:
            stop.set()
            writer.join()
        listed = kit.eventually(lambda: client.must("GET", MAPS), 20)
        names = {item["metadata"]["name"] for item in listed["items"]}
        self.assertEqual(set(acknowledged) - names, set())

    def test_GR_401_a_backup_comes_to_the_etcd_of_up(self):
        """By the certificate that the shard and the proxy use."""
        run = subprocess.run([str(kit.BINARY), "backup", "--dir", str(self.up.state), "--to", str(self.up.dir / "backups")], capture_output=True,
                             text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("2 stores of one moment", run.stdout)

    def test_GR_114_reads_and_watches_go_on_while_etcd_is_away(self):
        client = self.client
        made = client.must("POST", MAPS, {"metadata": {"name": "read-on"}})
        revision = made["metadata"]["resourceVersion"]
        self.up.kill("etcd", signal.SIGSTOP)
        try:
            self.assertEqual(client.get(f"{MAPS}/read-on?resourceVersion=0").status, 200)
            self.assertEqual(client.get(f"{MAPS}?resourceVersion=0").status, 200)
        finally:
            self.up.kill("etcd", signal.SIGCONT)
        events = client.watch(f"{MAPS}?watch=1&resourceVersion={revision}")
        kit.eventually(lambda: client.request("PATCH", f"{MAPS}/read-on", {"data": {"a": "1"}},
                                              headers={"Content-Type": "application/merge-patch+json"}).status == 200, 20)
        event = next(one for one in events if one["object"]["metadata"]["name"] == "read-on")
        self.assertEqual((event["type"], event["object"]["data"]), ("MODIFIED", {"a": "1"}))

    def test_GR_119_nothing_is_refused_by_what_may_be_old(self):
        made = self.client.must("POST", MAPS, {"metadata": {"name": "newer"}})
        stale = {"preconditions": {"resourceVersion": str(int(made["metadata"]["resourceVersion"]) + 1)}}
        self.up.kill("etcd", signal.SIGSTOP)
        try:
            for method, name, body in (("PUT", "nowhere", {"metadata": {"name": "nowhere"}}), ("DELETE", "nowhere", None), ("DELETE", "newer", stale)):
                refused = self.client.request(method, f"{MAPS}/{name}", body)
                self.assertEqual(refused.status, 503, refused)
                self.assertIn("the store does not tell what is newest", refused.json["message"])
        finally:
            self.up.kill("etcd", signal.SIGCONT)
        found = kit.eventually(lambda: self.client.must("GET", f"{MAPS}/newer"), 20)
        self.assertEqual(found["metadata"], made["metadata"])
        self.assertEqual(self.client.request("DELETE", f"{MAPS}/newer", stale).status, 409)

    def test_GR_111_the_largest_object(self):
        roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"

        def role(size):
            rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": ["x" * size]}
            return {"metadata": {"name": f"of-{size}"}, "rules": [rule]}

        self.client.must("POST", roles, role(1_550_000))
        refused = self.client.request("POST", roles, role(1_560_000))
        self.assertEqual(refused.status, 413, refused)
        self.assertIn("limit is 1556480", refused.json["message"])

    def test_GR_124_wrong_usage_is_one_clear_line(self):
        state = str(self.up.state)
        for arguments, text, status in (
                (["--store", "etcd="], "--store: must be lmdb or etcd=URL,…", 2),
                (["--store", "etcd=nowhere"], '--store: "nowhere" is no URL', 2),
                (["--store", "etcd=http://192.0.2.1:2379"], "is on another machine: say https", 1),
                (["--prefix", "/p"], "--prefix: for --store etcd=… only", 2),
                (["--store", "etcd=http://127.0.0.1:1", "--prefix", "/"], "--prefix: must begin with / and name something", 2),
                (["--store", "etcd=http://127.0.0.1:1", "--etcd-user", "u"], "belong together", 2)):
            run = subprocess.run([str(kit.BINARY), "shard", "--join", state, "--name", "other", "--allow-root", *arguments],
                                 capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, status, (arguments, run.stderr))
            self.assertIn(text, run.stderr)

    def test_GR_117_a_shard_stays_with_its_store(self):
        run = subprocess.run([str(kit.BINARY), "shard", "--join", str(self.up.state), "--name", "root", "--allow-root"],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("the data of this shard is in etcd", run.stderr)
