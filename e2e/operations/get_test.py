"""`kintsugi get` and `kintsugi explain`: what the admin listener tells, for people (R-32, FP-142)."""
import datetime
import json
import os
import re
import socket
import subprocess
import threading
import time
import unittest

import kit
import raw_h2

MAPS = "/api/v1/configmaps"


def ask(*words, admin=None):
    environment = {name: value for name, value in os.environ.items() if name != "KINTSUGI_ADMIN"}
    run = subprocess.run([kit.BINARY, *words, *(["--admin", str(admin)] if admin else [])], capture_output=True, text=True, timeout=60,
                         check=False, env=environment, cwd="/")  # fmt: skip
    return run.returncode, run.stdout, run.stderr


class Get(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        cls.admin = cls.installation.state / "run/admin.sock"
        cls.cluster = cls.installation.make_workspace("got", selector={"region": kit.REGIONS[1]})["spec"]["cluster"]

    def got(self, *words):
        status, out, fault = ask(*words, admin=self.admin)
        self.assertEqual((status, fault), (0, ""), words)
        return out

    def test_FP_142_shards_as_a_table_and_as_json(self):
        lines = self.got("get", "shards").splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "READY", "REGION", "CLUSTERS", "REASON"])
        self.assertEqual([line.split()[:3] for line in lines[1:]],
                         [["root", "yes", kit.REGIONS[0]], ["shard-1", "yes", kit.REGIONS[1]], ["shard-2", "yes", kit.REGIONS[2]]])
        self.assertEqual(self.got("get", "shards", "-o", "name").split(), ["root", "shard-1", "shard-2"])
        one, = json.loads(self.got("get", "shards", "shard-1", "-o=json"))
        self.assertEqual((one["name"], one["up"]), ("shard-1", True))
        self.assertIn(one["baseURL"], self.got("get", "shards", "shard-1", "--output", "wide"))

    def test_OP_210_days_left_of_the_certificates_that_shards_show(self):
        said = subprocess.run(["openssl", "x509", "-in", self.installation.pki / "shard-shard-1.crt", "-noout", "-enddate", "-dateopt", "iso_8601"], capture_output=True, text=True, check=True).stdout
        ends = datetime.datetime.fromisoformat(said.strip().removeprefix("notAfter=").replace("Z", "+00:00")).timestamp()
        metrics = subprocess.run(["curl", "-sS", "--unix-socket", str(self.admin), "http://admin/metrics"], capture_output=True, text=True, timeout=60,
                                 check=True).stdout
        self.assertEqual(re.findall(r'\nkintsugi_certificate_expiration_timestamp_seconds\{use="peer",name="(.*)"\} ', metrics), ["root", "shard-1", "shard-2"])
        self.assertEqual(float(re.search(r'\{use="peer",name="shard-1"\} (.*)', metrics)[1]), ends)
        one, = json.loads(self.got("get", "shards", "shard-1", "-o=json"))
        self.assertEqual(one["certificateDays"], int(ends - time.time()) // 86400)
        head, line = self.got("get", "shards", "shard-1", "-o", "wide").splitlines()
        self.assertEqual(line[head.index("CERT"):].split()[0], str(one["certificateDays"]))

    def test_FP_142_groups_name_those_who_share_a_merged_watch(self):
        client = self.installation.user_client("watcher-of-all", ["system:kcp:admin"], "/clusters/*")
        kit.Watch(client, MAPS + "?watch=1&timeoutSeconds=60")

        def row():
            found = [line.split() for line in self.got("get", "groups").splitlines() if "watcher-of-all" in line]
            return [sorted(found[0][3].split(",")), *found[0][:3]] == [["root", "shard-1", "shard-2"], "watcher-of-all", "/clusters/*",
                                                                       "/clusters/*" + MAPS]

        kit.eventually(row, 15)

    def test_FP_142_R32_streams_are_all_live_watches(self):
        """Merged, forwarded, of the proxy's own kinds; of two users, one of whom does not read."""
        reader = self.installation.user_client("reads-all", ["system:kcp:admin"], "/clusters/*")
        unread = raw_h2.Connection(self.installation.user_client("reads-nothing", ["system:kcp:admin"], f"/clusters/{self.cluster}"))
        self.addCleanup(unread.close)
        kit.Watch(reader, MAPS + "?watch=1&timeoutSeconds=60")
        kit.Watch(self.installation.user_client("reads-all", ["system:kcp:admin"], "/clusters/root"),
                  "/apis/topology.kcp.io/v1alpha1/partitions?watch=1&timeoutSeconds=60")
        unread.open("GET", MAPS + "?watch=1&labelSelector=unread&timeoutSeconds=60")  # no credit is given for its stream
        admin = self.installation.client(f"/clusters/{self.cluster}")
        for i in range(8):
            admin.must("POST", "/api/v1/namespaces/default/configmaps",
                       {"metadata": {"name": f"unread-{i}", "labels": {"unread": ""}}, "data": {"v": "v" * 30_000}})

        def rows():
            told = {(one["user"], one["kind"]): one for one in json.loads(self.got("get", "streams", "-o", "json"))}
            merged = told.get(("reads-all", "merged"), {})
            has_all = merged.get("sentBytes", 0) > 8 * 30_000 and merged["queueBytes"] == 0
            return has_all and ("reads-all", "served") in told and \
                told.get(("reads-nothing", "forwarded"), {}).get("queueBytes", 0) >= 64 << 10 and told
        told = kit.eventually(rows, 20, "three watches, of which one has all that it is to have, and what waits for another one")  # the rest waits at the shard
        slow, merged, own = (told[key] for key in (("reads-nothing", "forwarded"), ("reads-all", "merged"), ("reads-all", "served")))
        self.assertEqual((slow["cluster"], slow["shards"], slow["sentBytes"], slow["address"]),
                         (self.cluster, ["shard-1"], 65_535, "127.0.0.1"))
        self.assertEqual(slow["path"], f"/clusters/{self.cluster}{MAPS}?watch=1&labelSelector=unread&timeoutSeconds=60")
        self.assertLess(slow["queueBytes"] + slow["sentBytes"], 8 * 32_000)
        self.assertTrue(0 <= slow["ageSeconds"] < 60)
        self.assertEqual((merged["cluster"], merged["path"], sorted(merged["shards"]), merged["queueBytes"]),
                         ("*", "/clusters/*" + MAPS, ["root", "shard-1", "shard-2"], 0))
        self.assertGreater(merged["sentBytes"], 8 * 30_000)
        self.assertEqual((own["cluster"], own["path"], own["shards"], own["queueBytes"]),
                         ("root", "/clusters/root/apis/topology.kcp.io/v1alpha1/partitions", [], 0))
        lines = [line.split() for line in self.got("get", "streams").splitlines()]
        self.assertEqual(lines[0], ["USER", "CLUSTER", "SHARDS", "AGE", "SENT", "QUEUE", "PATH"])
        first = next(line for line in lines[1:] if line[0] == "reads-nothing")
        self.assertEqual((first[1], first[2], first[4]), (self.cluster, "shard-1", "65535"))
        self.assertIs(lines[1], first, "who is farthest behind comes first")

    def test_FP_142_explain_has_a_line_for_each_step_and_the_outcome(self):
        out = self.got("explain", "root:got")
        self.assertEqual([line.split()[:3] for line in out.splitlines()[1:4]],
                         [["root", "root", "root"], ["got", "root", self.cluster], [self.cluster, "shard-1", self.cluster]])
        self.assertRegex(out, rf"\nforwarded to shard shard-1 at https://\S+/clusters/{self.cluster}\n$")
        self.assertTrue(self.got("explain", "/clusters/*" + MAPS).startswith("merged-list over "))
        self.assertIn("takes the right to get /shards/shard-1/", self.got("explain", f"/shards/shard-1/clusters/{self.cluster}/api"))
        self.assertEqual(json.loads(self.got("explain", "root:got", "-o", "json"))["result"]["shard"], "shard-1")

    def test_FP_142_what_leads_nowhere_is_status_4_with_the_true_reason(self):
        for path, last in (("root:nobody", "refused with 403: unknown"), ("No_name", "refused with 403: invalid"),
                           ("/nobody?a=%zz&b=1", "refused with 404: no-such-path")):
            status, out, fault = ask("explain", path, admin=self.admin)
            self.assertEqual((status, out.splitlines()[-1], fault), (4, last, ""), path)
        self.assertEqual(ask("get", "shards", "nobody", admin=self.admin), (4, "", 'kintsugi get: no shards named "nobody"\n'))

    def test_wrong_use_is_status_2_before_anybody_is_asked(self):
        for words, text in ((("get",), "say what: one of shards, streams, groups, routes"), (("get", "shrads"), "did you mean shards?"),
                            (("get", "shards", "-o", "yml"), '"yml" is not one of table, wide, json, name'),
                            (("explain",), "say one workspace or path of a URL")):
            status, out, fault = ask(*words, admin="/nobody/there")
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn(text, fault)

    def test_nobody_there_and_a_peer_that_is_no_proxy(self):
        status, _, fault = ask("get", "shards")
        self.assertEqual(status, 1)
        self.assertIn("no proxy answers at .kintsugi/run/admin.sock (No such file or directory); is one running?", fault)
        for said in (b"", b"HTTP/1.1 200 OK\r\n\r\nno json", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 500 No\r\n\r\nbroken\n"):
            path = self.installation.dir / "peer.sock"
            path.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
                listener.listen()

                def answer(said=said, listener=listener):
                    peer, _ = listener.accept()
                    with peer:
                        peer.recv(1000)
                        peer.sendall(said)

                thread = threading.Thread(target=answer)
                thread.start()
                status, out, fault = ask("get", "shards", admin=path)
                thread.join()
            self.assertEqual((status, out), (1, ""), said)
            self.assertTrue(fault.startswith(f"kintsugi get: {path}: "), fault)


if __name__ == "__main__":
    unittest.main()
