"""Backup of a running shard, restore, and what clients see afterwards (AM-309, AM-465); the check tool (AM-467)."""
import json
import subprocess
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"


def tool(*arguments, expect=0):
    run = subprocess.run([str(kit.BINARY), "store", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == expect, f"{arguments}: {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout + run.stderr


class Backup(unittest.TestCase):
    def test_AM_301_AM_309_backup_of_a_running_shard_and_restore(self):
        """AM-309 (no version from before the restore is served), AM-301 (the error of a Table or POM watch is a Status)."""
        with kit.Installation(shards=1) as installation:
            client = installation.client()
            data = installation.state / "shards" / "root" / "data"
            for i in range(50):
                client.must("POST", MAPS, {"metadata": {"name": f"kept-{i}"}, "data": {"n": str(i)}})
            backup = installation.dir / "backup"
            self.assertIn("objects at revision", tool("backup", "--from", data, "--to", backup))
            self.assertIn("is not empty", tool("backup", "--from", data, "--to", backup, expect=1))
            self.assertIn("already in use", tool("check", "--dir", data, expect=2))
            client.must("POST", MAPS, {"metadata": {"name": "too-late"}})
            before = int(client.must("GET", MAPS)["metadata"]["resourceVersion"])
            installation.stop()

            data.rename(installation.dir / "old")
            self.assertIn("the next revision is", tool("restore", "--from", backup, "--to", data))
            self.assertIn(": ok", tool("check", "--dir", data))
            installation.start()
            listed = kit.eventually(lambda: client.must("GET", MAPS))
            names = {item["metadata"]["name"] for item in listed["items"]}
            self.assertTrue({f"kept-{i}" for i in range(50)} <= names, names)
            self.assertNotIn("too-late", names)
            self.assertGreaterEqual(int(listed["metadata"]["resourceVersion"]), before + 900_000_000)
            stale = next(iter(client.watch(f"{MAPS}?watch=1&resourceVersion={before}")))
            self.assertEqual((stale["type"], stale["object"]["code"]), ("ERROR", 410), stale)
            for form in ("Table", "PartialObjectMetadata"):
                accept = {"Accept": f"application/json;as={form};g=meta.k8s.io;v=v1"}
                answer = client.get(f"{MAPS}?watch=1&resourceVersion={before}", headers=accept)
                self.assertEqual(answer.status, 200, answer)
                lines = [json.loads(line) for line in answer.body.splitlines()]
                self.assertEqual([(e["type"], e["object"]["kind"], e["object"]["code"], e["object"]["reason"]) for e in lines],
                                 [("ERROR", "Status", 410, "Expired")], form)
            exact = client.get(f"{MAPS}?resourceVersion={before}&resourceVersionMatch=Exact")
            self.assertEqual((exact.status, exact.json["reason"]), (410, "Expired"), exact)
            client.must("PUT", f"{MAPS}/kept-1", {"metadata": {"name": "kept-1"}, "data": {"n": "new"}})
            installation.stop()

            key = "configmaps/root/default/kept-2"
            self.assertIn("deleted: " + key, tool("check", "--dir", data, "--delete", key))
            self.assertIn("there is no object", tool("check", "--dir", data, "--delete", key, expect=1))
            installation.start()
            kit.eventually(lambda: client.get(f"{MAPS}/kept-2").status == 404)
            self.assertEqual(client.must("GET", f"{MAPS}/kept-1")["data"], {"n": "new"})

    def test_wrong_usage(self):
        self.assertIn("say one of", tool("paste", expect=2))
        self.assertIn("--from and --to are required", tool("backup", "--to", "x", expect=2))
        self.assertIn("no store is there", tool("backup", "--from", "/nonexistent", "--to", "/nonexistent-2", expect=1))
