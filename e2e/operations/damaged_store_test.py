"""A damaged store of a shard: what `kintsugi store check` says of it (GR-413, GR-416), and what the shard still serves (GR-415)."""
import pathlib
import re
import subprocess
import tempfile
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
LOGICAL = "/apis/core.kcp.io/v1alpha1/logicalclusters"
PAGE, COUNT = 4096, 120


def check(data, expect):
    run = subprocess.run([str(kit.BINARY), "store", "check", "--dir", str(data)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == expect, f"{run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout + run.stderr


def zero_page_of(file, key):
    """A page of the table of live objects that holds the key, zeroed: other tables have it, too."""
    sound = file.read_bytes()
    pages, at = set(), sound.find(key)
    while at >= 0:
        pages.add(at // PAGE)
        at = sound.find(key, at + 1)
    for page in sorted(pages):
        head = sound[page * PAGE:page * PAGE + 16]
        if int.from_bytes(head[:8], "little") != page or head[10:12] != b"\2\0":  # a leaf
            continue
        damaged = bytearray(sound)
        damaged[page * PAGE:(page + 1) * PAGE] = bytes(PAGE)
        file.write_bytes(damaged)
        run = subprocess.run([str(kit.BINARY), "store", "check", "--dir", str(file.parent)], capture_output=True, text=True, timeout=60,
                             check=False)
        assert run.returncode == 1, run
        said = run.stdout
        found = re.search(rf'page {page} of current: .*; keys from "(.*)" below "(.*)"', said)
        if found and found.group(1) <= key.replace(b"\0", b"/").decode() < found.group(2) and found.group(1):
            return page, said
    raise AssertionError(f"no page of current has {key}")


class Shard(unittest.TestCase):
    def test_GR_415_what_is_intact_is_served_and_what_is_lost_is_said(self):
        with kit.Installation(shards=2) as installation:
            installation.make_workspace("prov", selector={"name": "shard-1"})
            client = installation.client("/clusters/root:prov")
            cluster = client.must("GET", f"{LOGICAL}/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
            for i in range(COUNT):
                client.must("POST", MAPS, {"metadata": {"name": f"kept-{i:03}"}, "data": {"n": str(i), "fill": "x" * 700}})
            installation.stop()
            data = installation.state / "shards" / "shard-1" / "data"
            self.assertIn(": ok", check(data, 0))
            key = b"\0".join((b"configmaps", cluster.encode(), b"default", b"kept-060"))
            page, said = zero_page_of(data / "data.mdb", key)
            self.assertIn(": 1 problems", said)
            self.assertGreater(page, 1)
            before = (data / "data.mdb").read_bytes()
            self.serves_the_rest(installation, cluster)
            self.assertEqual((data / "data.mdb").read_bytes(), before, "the damaged file is left as it was")
            self.goes_on_with_the_rest(installation, data)

    def serves_the_rest(self, installation, cluster):
        pki = installation.pki
        at_shard = kit.Client(installation.shard_url("shard-1"), pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")
        with installation.log.open("ab") as log:
            installation.process = subprocess.Popen([str(kit.BINARY), "up", *installation.options], stdin=subprocess.DEVNULL,
                                                    stdout=log, stderr=log, start_new_session=True)
        kit.eventually(lambda: at_shard.get("/livez").status == 200, 20, "the shard")
        here = f"/clusters/{cluster}{MAPS}"
        states = {}
        for i in range(COUNT):
            answer = at_shard.get(f"{here}/kept-{i:03}")
            states[i] = answer.status
            if answer.status == 200:
                self.assertEqual(answer.json["data"]["n"], str(i))
            else:
                self.assertEqual(answer.status, 500, answer)
                self.assertIn("the store is damaged: keys from", answer.json["message"])
        self.assertEqual(states[60], 500)
        lost = sum(status == 500 for status in states.values())
        self.assertTrue(0 < lost < COUNT / 2, states)
        listed = at_shard.get(here)
        self.assertEqual(listed.status, 500, "a list that is not all")
        self.assertIn("are lost", listed.json["message"])
        self.assertEqual(at_shard.get(f"/clusters/{cluster}/api/v1/namespaces").status, 200)
        for method, path, body in (("POST", here, {"metadata": {"name": "new"}}), ("DELETE", f"{here}/kept-000", None),
                                   ("PUT", f"{here}/kept-000", {"metadata": {"name": "kept-000"}, "data": {}})):
            answer = at_shard.request(method, path, body)
            self.assertEqual(answer.status, 503, answer)
            self.assertIn("the store is damaged", answer.json["message"])
        ready = at_shard.get("/readyz?verbose")
        self.assertEqual(ready.status, 500, ready)
        self.assertIn(b"store", ready.body)
        log = (installation.state / "logs" / "shard-1.log").read_text()
        self.assertIn("the store is damaged: what is intact is served, nothing can be written", log)
        self.states = states
        installation.stop()

    def goes_on_with_the_rest(self, installation, data):
        """What is left becomes the store by the tools that there are."""
        restored = data.parent / "restored"
        run = subprocess.run([str(kit.BINARY), "store", "restore", "--from", str(data / "rescued"), "--to", str(restored)],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        data.rename(data.parent / "damaged")
        restored.rename(data)
        self.assertIn(": ok", check(data, 0))
        installation.start()
        client = installation.client("/clusters/root:prov")
        kept = {f"kept-{i:03}" for i, status in self.states.items() if status == 200}
        kit.eventually(lambda: {one["metadata"]["name"] for one in client.must("GET", MAPS)["items"]} >= kept, what="what was kept")
        client.must("POST", MAPS, {"metadata": {"name": "new"}})


class Check(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-check-"))
        self.addCleanup(lambda: subprocess.run(["rm", "-r", str(self.dir)], check=True))

    def test_GR_416_where_no_store_is_nothing_is_made(self):
        for name, content in (("none", None), ("empty", {}), ("short", {"data.mdb": b""}), ("foreign", {"data.mdb": b"text" * 5000})):
            with self.subTest(name=name):
                folder = self.dir / name
                if content is not None:
                    folder.mkdir()
                    for file, text in content.items():
                        (folder / file).write_bytes(text)
                self.assertIn("no store is there", check(folder, 2))
                self.assertEqual(folder.exists(), content is not None)
                self.assertEqual({one.name for one in folder.glob("*")}, set(content or {}))


if __name__ == "__main__":
    unittest.main()
