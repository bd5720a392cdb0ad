"""What /explain tells of a request, and what becomes of it: the same, for every form of path (R-32, SE-036)."""
import json
import subprocess
import unittest

import kit

MAPS = "/api/v1/configmaps"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SHARD_FIELDS = ("mergedOver", "unionOf", "anyOf")
# path, route, reason, status. "{o}": a workspace on shard-1, "{c}": its logical cluster, "{e}": its export's path.
FORMS = (
    ("/livez", "probe", "", 200),
    ("/readyz", "probe", "", 200),
    ("/healthz", "probe", "", 200),
    ("/version", "probe", "", 200),
    ("/metrics", "metrics", "", 200),
    ("/clusters/root" + MAPS, "forwarded", "", 200),
    ("/clusters/{o}" + MAPS, "forwarded", "", 200),
    ("/clusters/{c}" + MAPS, "forwarded", "", 200),
    ("/clusters/root%3Aroutes" + MAPS, "forwarded", "", 200),
    ("/%63lusters/{c}" + MAPS, "forwarded", "", 200),
    ("/clusters/{o}/apis/nobody.example/v1/things", "forwarded", "", 404),
    ("/clusters/{o}" + PARTITIONS, "served", "", 200),
    ("/clusters/{o}/apis/apis.kcp.io/v1alpha1/apiexportendpointslices", "served", "", 200),
    ("/clusters/{o}/apis", "overlaid", "", 200),
    ("/clusters/{o}/openapi/v3", "overlaid", "", 200),
    ("/clusters/root:nobody" + MAPS, "refused", "unknown", 403),
    ("/clusters/No_name" + MAPS, "refused", "invalid", 403),
    ("/clusters/", "refused", "no-such-path", 404),
    ("/clusters/*" + MAPS, "merged-list", "", 200),
    ("/clusters/%2A" + MAPS, "merged-list", "", 200),
    ("/clusters/*/apis", "merged-document", "", 200),
    ("/clusters/*" + PARTITIONS, "served", "", 200),
    ("/clusters/*/debug/replication", "merged-document", "of-one-shard-only", 405),
    ("/clusters/*/api/v1/namespaces/default/configmaps", "refused", "namespace-and-all-clusters", 400),
    ("/clusters/*/api/v1/namespaces/default", "refused", "verb-not-for-all-clusters", 405),
    ("/shards/shard-1/clusters/{c}" + MAPS, "forwarded", "", 200),
    ("/shards/root/clusters/{c}" + MAPS, "refused", "elsewhere", 403),
    ("/shards/shard-1/clusters/*" + MAPS, "of-one-shard", "", 200),
    ("/shards/nobody/clusters/root" + MAPS, "refused", "no-such-shard", 404),
    ("/partitions/root/nobody/clusters/*" + MAPS, "refused", "no-such-partition", 404),
    ("/partitions/root/routes/clusters/*" + MAPS, "merged-list", "", 200),
    ("/partitions/root/routes/clusters/{c}" + MAPS, "refused", "no-such-path", 404),
    ("/services/apiexport/{o}/none/clusters/{c}" + MAPS, "service", "", 403),
    ("/services/apiexport/{o}/none/clusters/*" + MAPS, "service-merged", "", 403),
    ("/services/apiexport/root:nobody/none/clusters/*" + MAPS, "refused", "unknown", 403),
    ("/services/migratingworkspaces/clusters/*" + MAPS, "refused", "no-virtual-workspace", 404),
    ("/services/nobody/x", "refused", "no-virtual-workspace", 404),
    ("/shards/shard-1/services/apiexport/{o}/none/clusters/{c}" + MAPS, "service", "", 403),
    ("/clusters/root:mounted" + MAPS, "forwarded", "", 200),
    ("/clusters/root:at-shard" + MAPS, "mounted", "", 200),
    ("/clusters/root:astray" + MAPS, "refused", "mount-host", 403),
    ("/shards/root/clusters/root:mounted" + MAPS, "refused", "mount-below-prefix", 403),
    ("/nobody", "refused", "no-such-path", 404),
    ("/clusters//root/api", "refused", "unclean", 307),
    ("/clusters/root/../root/api", "refused", "unclean", 307),
    ("/clusters/root/a%zz", "refused", "malformed", 400),
    ("/clusters/root/" + "a" * 17000, "refused", "too-long", 414),
)


class Routes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start()
        cls.addClassCleanup(cls.installation.__exit__, None, None, None)
        cls.root, cls.base = cls.installation.client(), cls.installation.client("")
        cls.cluster = cls.installation.make_workspace("routes", selector={"name": "shard-1"})["spec"]["cluster"]
        cls.root.must("POST", PARTITIONS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "routes"},
                                           "spec": {"selector": {"matchLabels": {"name": "shard-1"}}}})
        shards = cls.root.must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]
        url = {shard["metadata"]["name"]: shard["spec"]["baseURL"] for shard in shards}
        pki = cls.installation.pki  # the URL of a mount is the system's to write (KK-053)
        cls.system = kit.Client(url["root"] + "/clusters/root", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")
        outside = f"https://127.0.0.1:{cls.installation.port}"
        cls.mount("mounted", f"{outside}/clusters/root:routes")
        cls.mount("at-shard", f"{url['shard-1']}/clusters/{cls.cluster}")
        cls.mount("astray", "https://evil.example/clusters/x")

    @classmethod
    def mount(cls, name, url):
        workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
        cls.system.must("POST", workspaces, {
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
            "spec": {"URL": url, "mount": {"ref": {"apiVersion": "mounts.test/v1", "kind": "Mount", "name": name}}}})
        cls.root.must("PATCH", f"{workspaces}/{name}/status", json.dumps({"status": {"phase": "Ready"}}),
                      headers={"Content-Type": "application/merge-patch+json"})
        kit.eventually(lambda: cls.explain(f"/clusters/root:{name}")["result"].get("mount"), what="the mount")

    @classmethod
    def admin(cls, path, *arguments):
        run = subprocess.run(["curl", "-sS", "--unix-socket", str(cls.installation.state / "run/admin.sock"), "-G", *arguments,
                              f"http://admin{path}"], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(run.stdout)

    @classmethod
    def explain(cls, path):
        return cls.admin("/explain", "--data-urlencode", f"path={path}")

    def requests(self):
        """Requests that callers' connections have carried, by shard."""
        count = {}
        for loop in self.admin("/debug/loops")["loops"]:
            for shard, kinds in loop.get("upstreams", {}).items():
                count[shard] = count.get(shard, 0) + sum(kind["requests"] for kind in kinds.values())
        return count

    def asked_by(self, path):
        before = self.requests()
        answer = self.base.get(path)
        after = self.requests()
        return answer, {shard for shard, count in after.items() if count > before.get(shard, 0)}

    def test_PERF_281_metrics_are_the_sum_of_what_each_loop_counts(self):
        with kit.Proxy(self.installation, loops=3) as proxy:
            path = f"/clusters/{self.cluster}/api/v1/namespaces/default/configmaps"
            for _ in range(12):  # a connection each
                self.assertEqual(proxy.client("").get(path).status, 200)
            run = subprocess.run(["curl", "-sS", "--unix-socket", str(proxy.dir / "admin.sock"), "http://admin/debug/loops"],
                                 capture_output=True, text=True, timeout=60, check=True)
            counts = [loop["forwardedRequests"] for loop in json.loads(run.stdout)["loops"]]
            self.assertEqual((len(counts), sum(counts)), (3, proxy.metrics("kintsugi_requests_total")), counts)
            self.assertGreaterEqual(sum(counts), 12)
            self.assertGreater(sum(count > 0 for count in counts), 1, counts)

    def test_PERF_101_104_turns_and_writes_of_each_loop_are_told(self):
        self.assertEqual(self.base.get(f"/clusters/{self.cluster}/api/v1/namespaces/default/configmaps").status, 200)
        loops = self.admin("/debug/loops")["loops"]
        self.assertGreater(sum(loop["writes"] for loop in loops), 0)
        for loop in loops:
            self.assertEqual(loop["writesOutsideFlush"], 0, loop)
            times = loop["turnTimes"]
            # The turn in which the loop says so is not over.
            self.assertEqual(sum(one["turns"] for one in times["histogram"]), loop["turns"] - 1, loop)
            self.assertEqual(sum(times["slowBy"].values()), loop["slowTurns"], loop)
            bounds = [one.get("belowMicroseconds", float("inf")) for one in times["histogram"]]
            self.assertEqual(bounds, sorted(set(bounds)))
            self.assertLess(times["longest"]["microseconds"], bounds[-1])
            self.assertIn(times["longest"]["largestPart"], {"handler", "reading", "posts", "timers", "writing", "deferred"})

    def test_FP_142_SE_036_what_is_explained_is_what_happens(self):
        for form, route, reason, status in FORMS:
            path = form.replace("{o}", "root:routes").replace("{c}", self.cluster)
            with self.subTest(path=path[:120]):
                result = self.explain(path)["result"]
                self.assertEqual((result["route"], result.get("reason", "")), (route, reason))
                if reason:
                    self.assertEqual(result["status"], status)
                told = {name for field in SHARD_FIELDS for name in result.get(field, ())}
                if result["handler"].endswith("shard"):
                    told.add(result["shard"])
                answer, asked = self.asked_by(path)
                self.assertEqual(answer.status, status, answer)
                if route.endswith("-document"):  # what is known of a document is not asked again
                    self.assertLessEqual(asked, told)
                else:
                    self.assertEqual(asked, told)

    def test_FP_142_a_watch_of_all(self):
        path = f"/clusters/*{MAPS}?watch=true"
        result = self.explain(path)["result"]
        self.assertEqual((result["route"], sorted(result["mergedOver"])), ("merged-watch", ["root", "shard-1"]))
        before = self.requests()
        watch = kit.Watch(self.base, path)
        kit.eventually(lambda: all(self.requests()[name] > before.get(name, 0) for name in result["mergedOver"]), what="both are asked")
        self.assertTrue(watch.is_alive())

    def test_FP_142_the_forms_are_listed_as_they_are(self):
        routes = self.admin("/debug/routes")["routes"]
        self.assertGreater(len(routes), 15)
        for row in routes:
            with self.subTest(path=row["path"]):
                result = self.explain(row["example"])["result"]
                self.assertEqual((row["route"], row["handler"], row.get("reason")), (result["route"], result["handler"], result.get("reason")))
        shown = {row["path"]: row["route"] for row in routes}
        self.assertEqual(shown["/clusters/*/… (list)"], "merged-list")
        self.assertEqual(shown["/services/<vw>/…/clusters/*/… (list)"], "service-merged")
        self.assertNotIn("E1", json.dumps(self.explain("/clusters/root:nobody/api")))

    def test_FP_142_methods_are_told_apart(self):
        def told(method):
            return self.admin("/explain", "--data-urlencode", "path=/clusters/*" + MAPS, "-d", f"method={method}")["result"]

        self.assertEqual(told("GET")["route"], "merged-list")
        self.assertEqual((told("DELETE")["reason"], told("DELETE")["status"]), ("verb-not-for-all-clusters", 405))
        self.assertEqual(self.base.request("DELETE", "/clusters/*" + MAPS).status, 405)


if __name__ == "__main__":
    unittest.main()
