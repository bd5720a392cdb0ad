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
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SETS = "/apis/topology.kcp.io/v1alpha1/partitionsets"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"


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
        self.assertEqual(lines[0].split(), ["NAME", "READY", "REGION", "CLUSTERS", "WATCHES", "LAG", "CERT", "REASON"])
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

    def test_OP_110_watches_of_shards_and_their_lag_are_those_of_the_loops(self):
        kit.Watch(self.installation.user_client("of-one-shard", ["system:kcp:admin"], f"/clusters/{self.cluster}"), MAPS + "?watch=1&timeoutSeconds=60")

        def row():
            one, = json.loads(self.got("get", "shards", "shard-1", "-o", "json"))
            return one["watches"] >= 1 and one
        one = kit.eventually(row, 15, "a watch of its workspace is one of shard-1")
        self.assertEqual(one["lagSeconds"], 0)

    def make_partition(self, name):
        self.installation.client(f"/clusters/{self.cluster}").must("POST", PARTITIONS, {
            "apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"region": kit.REGIONS[1]}}}})
        self.addCleanup(self.installation.client(f"/clusters/{self.cluster}").request, "DELETE", f"{PARTITIONS}/{name}")

    def test_OP_110_partitions_sets_and_slices(self):
        client = self.installation.client(f"/clusters/{self.cluster}")
        self.make_partition("got-by-hand")
        client.must("POST", SETS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "got-by-region"},
                                   "spec": {"dimensions": ["region"]}})
        line = self.got("get", "partitions", "got-by-hand").splitlines()
        self.assertEqual(line[0].split(), ["CLUSTER", "NAME", "SET", "SELECTOR", "SHARDS"])
        self.assertEqual(line[1].split(), [self.cluster, "got-by-hand", "-", f"region={kit.REGIONS[1]}", "shard-1"])

        def of_set():
            return [one.split() for one in self.got("get", "partitions", self.cluster).splitlines() if " got-by-region " in one]
        kit.eventually(lambda: len(of_set()) == 3, 15, "a partition for each region")
        self.assertEqual(sorted(one[-1] for one in of_set()), ["root", "shard-1", "shard-2"])
        self.assertEqual(self.got("get", "sets", f"{self.cluster}/got-by-region").splitlines()[1].split(), [self.cluster, "got-by-region", "region", "3"])
        self.assertIn(f"{self.cluster}/got-by-hand", self.got("get", "partitions", "-o", "name").split())
        client.request("DELETE", f"{SETS}/got-by-region")

    def test_OP_110_slices_say_whether_they_are_ready_and_why_not(self):
        self.installation.client(f"/clusters/{self.cluster}").must("POST", EXPORTS, {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "got-export"}, "spec": {}})
        head, line = kit.eventually(lambda: (lines := self.got_if("get", "slices", f"{self.cluster}/got-export")) and " yes " in lines[1] and lines, 15,
                                    "the slice of the export is ready")
        self.assertEqual(head.split(), ["CLUSTER", "NAME", "MODE", "PARTITION", "ENDPOINTS", "READY", "WHY"])
        self.assertEqual(line.split()[:6], [self.cluster, "got-export", "default", "-", "3", "yes"])
        one, = json.loads(self.got("get", "slices", f"{self.cluster}/got-export", "-o", "json"))
        self.assertIn(one["endpoints"][0]["url"], self.got("get", "slices", f"{self.cluster}/got-export", "-o", "wide"))

    def got_if(self, *words):
        """None while there is no such thing."""
        status, out, _ = ask(*words, admin=self.admin)
        self.assertIn(status, (0, 4))
        return out.splitlines() if status == 0 else None

    def test_OP_110_yaml_is_what_json_is(self):
        one, = json.loads(self.got("get", "shards", "shard-1", "-o", "json"))
        lines = self.got("get", "shards", "shard-1", "-o", "yaml").splitlines()
        self.assertTrue(lines[0].startswith("- "), lines[0])
        for field in ("name", "baseURL"):
            self.assertIn(f"  {field}: {one[field]}", lines + ["  " + lines[0][2:]])
        self.assertIn("  route: forwarded", self.got("explain", "root:got", "-o", "yaml").splitlines())

    def test_OP_110_watch_prints_what_changes_and_what_is_gone(self):
        with subprocess.Popen([kit.BINARY, "get", "partitions", self.cluster, "-w", "--admin", str(self.admin)], stdout=subprocess.PIPE, text=True) as run:
            self.addCleanup(run.kill)
            self.assertEqual(run.stdout.readline().split()[:2], ["CLUSTER", "NAME"])
            self.make_partition("got-later")
            told = next(line for line in run.stdout if "got-later" in line)
            self.assertEqual(told.split()[-1], "shard-1")
            self.installation.client(f"/clusters/{self.cluster}").must("DELETE", f"{PARTITIONS}/got-later")
            self.assertEqual(next(line for line in run.stdout if "got-later" in line), f"{self.cluster}/got-later is gone\n")
            run.stdout.close()
            self.assertEqual(run.wait(120), 0)

    def test_OP_110_no_workers_is_no_fault(self):
        self.assertEqual(ask("get", "workers", admin=self.admin), (0, "", "No workers.\n"))

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

    def test_OP_111_explain_says_whether_somebody_may(self):
        client = self.installation.client(f"/clusters/{self.cluster}")
        for kind, body in (("clusterroles", {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]},
                                                       {"nonResourceURLs": ["/"], "verbs": ["access"]}]}),
                           ("clusterrolebindings", {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "explained"},
                                                    "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "explainers"}]})):
            client.must("POST", f"/apis/rbac.authorization.k8s.io/v1/{kind}", {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": {"clusterroles": "ClusterRole"}.get(kind, "ClusterRoleBinding"),
                "metadata": {"name": "explained"}, **body})
        path = f"/clusters/root:got{MAPS}"

        def said(*words):
            status, out, fault = ask("explain", *words, admin=self.admin)
            self.assertEqual(fault, "")
            return status, out.splitlines()[-1]

        def may():
            status, line = said(path, "--as", "ada", "--as-group", "explainers", "--as-group", "others")
            return status == 0 and line
        self.assertTrue(kit.eventually(may, 15, "the binding counts").startswith(f"ada may list configmaps in {self.cluster}: "))
        status, line = said(path, "--as", "ada", "--as-group", "others")
        self.assertEqual((status, line.split(":")[0]), (5, f"ada may not list configmaps in {self.cluster}"))
        status, line = said(path, "--method", "POST", "--as", "ada", "--as-group", "explainers")
        self.assertEqual((status, line.split(":")[0]), (5, f"ada may not create configmaps in {self.cluster}"))
        self.assertEqual(said("root:got", "--as", "ada", "--as-group", "explainers")[0], 0)
        status, line = said("root:got", "--as", "ada")
        self.assertEqual((status, line.split(":")[0]), (5, f"ada may not enter {self.cluster}"))
        self.assertEqual(said("/clusters/*" + MAPS, "--as", "ada"), (0, "ada: nobody is asked: each shard decides that by itself"))
        self.assertEqual(said("/shards/shard-1/clusters/root:got/api", "--as", "ada")[0], 5)
        self.assertEqual(said("root:nobody", "--as", "ada")[0], 4)
        # Groups that the proxy tells nobody of make nobody an administrator.
        status, out, _ = ask("explain", path, "--as", "ada", "--as-group", "system:masters", "-o", "json", admin=self.admin)
        told = json.loads(out)
        self.assertEqual((status, told["review"]["allowed"], told["review"]["groups"]), (5, False, ["system:authenticated"]))
        self.assertEqual((told["right"]["verb"], told["right"]["resource"], told["right"]["cluster"]), ("list", "configmaps", self.cluster))

    def test_wrong_use_is_status_2_before_anybody_is_asked(self):
        for words, text in ((("get",), "say what: one of shards, streams, groups, routes, slices, partitions, sets, workers"), (("get", "shrads"), "did you mean shards?"),
                            (("get", "shards", "-o", "yml"), '"yml" is not one of table, wide, json, yaml, name'),
                            (("get", "shards", "-w", "-o", "json"), "--watch prints tables"),
                            (("explain", "root", "--as-group", "x"), "--as-group: say --as, too"),
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
