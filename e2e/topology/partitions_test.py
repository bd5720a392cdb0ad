"""PartitionSet, Partition and APIExportEndpointSlice follow the shards, live."""
import json
import signal
import subprocess
import threading
import time
import unittest

import kit

SETS = "/apis/topology.kcp.io/v1alpha1/partitionsets"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MERGE = {"Content-Type": "application/merge-patch+json"}


def condition(thing, kind):
    return next((c for c in thing.get("status", {}).get("conditions", []) if c["type"] == kind), {})


class Topology(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.root = cls.installation.client()
        cls.root.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "widgets"},
                                        "spec": {}})

    def make_set(self, name, spec):
        self.root.must("POST", SETS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet",
                                      "metadata": {"name": name}, "spec": spec})
        self.addCleanup(lambda: self.root.request("DELETE", f"{SETS}/{name}"))

    def make_slice(self, name, spec, annotations=None, expect=(201,)):
        body = {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
                "metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}
        made = self.root.must("POST", SLICES, body, expect=expect)
        self.addCleanup(lambda: self.root.request("DELETE", f"{SLICES}/{name}"))
        return made

    def owned(self, name):
        return {p["metadata"]["name"]: p["spec"]["selector"].get("matchLabels") for p in self.root.must("GET", PARTITIONS)["items"]
                if any(o["name"] == name for o in p["metadata"].get("ownerReferences", []))}

    def settled(self, name, count):
        def check():
            found = self.root.must("GET", f"{SETS}/{name}")
            assert found.get("status", {}).get("count") == count, found.get("status")
            assert len(self.owned(name)) == count
            return found
        return kit.eventually(check)

    def relabel(self, shard, labels):
        return self.root.must("PATCH", f"{SHARDS}/{shard}", json.dumps({"metadata": {"labels": labels}}), headers=MERGE)

    def urls(self, name):
        return [e["url"] for e in self.root.must("GET", f"{SLICES}/{name}").get("status", {}).get("endpoints", [])]

    def test_a_set_over_regions_gives_three_partitions(self):
        self.make_set("regions", {"dimensions": ["region"]})
        found = self.settled("regions", 3)
        self.assertEqual(sorted(p["region"] for p in self.owned("regions").values()), sorted(kit.REGIONS))
        for kind in ("PartitionSetValid", "PartitionsReady"):
            self.assertEqual(condition(found, kind)["status"], "True")
        lines = self.installation.kubectl("get", "partitionsets").splitlines()
        self.assertEqual(lines[0].split(), ["NAME", "COUNT", "AGE"])
        self.assertRegex("\n".join(lines), r"(?m)^regions\s+3\s+\d")
        self.assertEqual(self.installation.kubectl("get", "partitions").splitlines()[0].split(), ["NAME", "OWNER", "AGE"])

    def test_TP013_to_TP018_shards_that_nobody_can_reach(self):
        """Shards with unreachable URLs are legal and count (TP-014)."""
        self.make_set("test", {"dimensions": ["partition-test-region"], "shardSelector": {
            "matchExpressions": [{"key": "excluded", "operator": "DoesNotExist"}]}})
        self.settled("test", 0)

        def add(name, region):
            self.root.must("POST", SHARDS, {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard", "metadata": {
                "name": name, "labels": {"partition-test-region": region},
                "annotations": {"experimental.core.kcp.io/unschedulable": "true"}},
                "spec": {"baseURL": "https://base.kcp.test.dev"}})
            self.addCleanup(lambda: self.root.request("DELETE", f"{SHARDS}/{name}"))

        add("tp-one", "one")
        self.settled("test", 1)
        add("tp-two", "two")
        self.settled("test", 2)
        self.relabel("tp-two", {"partition-test-region": "one"})
        self.settled("test", 1)
        add("tp-three", "three")
        self.settled("test", 2)
        self.relabel("tp-three", {"excluded": "true"})
        self.settled("test", 1)

    def test_TP019_TP020_TP112_rules_of_the_selector(self):
        def attempt(selector):
            return self.root.request("POST", SETS + "?dryRun=All", {
                "apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "x"},
                "spec": {"dimensions": [], "shardSelector": selector}}).status
        self.assertEqual(attempt({"matchExpressions": [{"key": "region/" + "1" * 70, "operator": "Exists"}]}), 422)
        self.assertEqual(attempt({"matchExpressions": [{"key": "a", "operator": "In", "values": ["_x"]}]}), 422)
        self.assertEqual(attempt({"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": ["x"]}]}), 422)
        self.assertEqual(attempt({"matchLabels": {"1234567890123456789_01234567890123456789/aaa": "x"}}), 422)
        self.assertEqual(attempt({"matchLabels": {"a": "%%%"}}), 422)
        self.assertEqual(attempt({"matchLabels": {"topology.kubernetes.io/region": "x"}}), 201)
        for key in ("a..b/x", "-a.b/x", "a" * 254 + "/x", "a/b/c", "/x"):
            self.assertEqual(attempt({"matchLabels": {key: "x"}}), 422, key)

    def test_TP022_TP023_deleting_and_editing(self):
        self.make_set("gone", {"dimensions": ["cloud"]})
        self.settled("gone", 3)
        name = sorted(self.owned("gone"))[0]
        before = self.root.must("GET", f"{PARTITIONS}/{name}")
        self.root.must("PATCH", f"{PARTITIONS}/{name}", json.dumps({"spec": {"selector": {"matchLabels": {"cloud": "no"}}}}),
                       headers=MERGE)

        def restored():
            now = self.root.must("GET", f"{PARTITIONS}/{name}")
            assert now["spec"] == before["spec"] and now["metadata"]["uid"] == before["metadata"]["uid"], now
            return True

        kit.eventually(restored)
        self.root.must("DELETE", f"{PARTITIONS}/{name}")
        kit.eventually(lambda: self.root.get(f"{PARTITIONS}/{name}").status == 200)
        names = set(self.owned("gone"))
        self.root.must("DELETE", f"{SETS}/gone")
        kit.eventually(lambda: not self.owned("gone"))
        # TP-127: the same tuples get the same names again.
        self.make_set("gone", {"dimensions": ["cloud"]})
        self.settled("gone", 3)
        self.assertEqual(set(self.owned("gone")), names)

    def test_a_watch_sees_a_relabelled_shard_within_100_ms(self):
        self.make_set("live", {"dimensions": ["tier"]})
        self.settled("live", 0)
        version = self.root.must("GET", SETS)["metadata"]["resourceVersion"]
        counts = []
        seen = threading.Event()

        def follow():
            for event in self.root.watch(f"{SETS}?watch=true&resourceVersion={version}&fieldSelector=metadata.name%3Dlive"):
                counts.append((time.monotonic(), event["object"]["status"]["count"]))
                if len(counts) == 2:
                    seen.set()
                    return

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        time_of = []
        for value in ("gold", None):
            time_of.append(time.monotonic())
            self.relabel("shard-1", {"tier": value})
            kit.eventually(lambda n=len(time_of): len(counts) >= n)
        self.assertTrue(seen.wait(60))
        self.assertEqual([count for _, count in counts], [1, 0])
        print("      relabel to status in ms: " + ", ".join(f"{(at - begin) * 1000:.0f}" for begin, (at, _) in zip(time_of, counts)))

    def test_TP031_slices_without_and_with_partition(self):
        self.make_set("byregion", {"dimensions": ["region"]})
        self.settled("byregion", 3)
        partition = next(n for n, labels in self.owned("byregion").items() if labels["region"] == "us-east-1")
        base = f"https://127.0.0.1:{self.installation.port}/shards/"
        path = "/services/apiexport/root/widgets"
        self.make_slice("all", {"export": {"path": "root", "name": "widgets"}})
        kit.eventually(lambda: self.urls("all") == [f"{base}{s}{path}" for s in ("root", "shard-1", "shard-2")])
        self.make_slice("east", {"export": {"path": "root", "name": "widgets"}, "partition": partition})
        kit.eventually(lambda: self.urls("east") == [f"{base}shard-1{path}"])
        east = self.root.must("GET", f"{SLICES}/east")
        self.assertEqual(east["status"]["shardSelector"], "region=us-east-1")
        self.assertEqual(east["status"]["endpoints"][0]["shards"], {"selector": {"matchLabels": {"name": "shard-1"}}})
        for kind in ("APIExportValid", "PartitionValid", "EndpointURLsReady"):
            self.assertEqual(condition(east, kind)["status"], "True", kind)
        # Another shard joins the region, then leaves it.
        self.relabel("shard-2", {"region": "us-east-1"})
        kit.eventually(lambda: len(self.urls("east")) == 2)
        self.relabel("shard-2", {"region": "ap-south-1"})
        kit.eventually(lambda: self.urls("east") == [f"{base}shard-1{path}"])
        # TP-115: another mode in one write.
        self.root.must("PATCH", f"{SLICES}/east", json.dumps({"metadata": {"annotations": {"kintsugi.dev/endpoint-mode": "direct"}}}),
                       headers=MERGE)
        shard_url = self.root.must("GET", f"{SHARDS}/shard-1")["spec"]["virtualWorkspaceURL"]
        kit.eventually(lambda: self.urls("east") == [shard_url + path])

    def test_TP028_TP030_TP044_TP046_conditions(self):
        self.assertEqual(self.root.request("POST", SLICES, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "x"},
            "spec": {"export": {"path": "root", "name": "missing"}}}).status, 403)
        self.make_slice("later", {"export": {"name": "missing"}})

        def not_found():
            found = condition(self.root.must("GET", f"{SLICES}/later"), "APIExportValid")
            assert found.get("reason") == "APIExportNotFound", found
            return found

        self.assertEqual(kit.eventually(not_found)["message"], "Error getting APIExport root|missing")
        self.make_slice("nopart", {"export": {"name": "widgets"}, "partition": "my-partition"})

        def invalid():
            found = self.root.must("GET", f"{SLICES}/nopart")
            assert condition(found, "PartitionValid").get("reason") == "PartitionInvalidReference", found
            return found

        found = kit.eventually(invalid)
        self.assertNotIn("endpoints", found["status"])
        self.assertEqual(condition(found, "EndpointURLsReady")["message"], "PartitionValid is False")
        # TP-047, TP-128: it heals when the Partition appears.
        self.root.must("POST", PARTITIONS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition",
                                            "metadata": {"name": "my-partition"},
                                            "spec": {"selector": {"matchLabels": {"region": "nowhere"}}}})
        self.addCleanup(lambda: self.root.request("DELETE", f"{PARTITIONS}/my-partition"))

        def no_match():
            found = self.root.must("GET", f"{SLICES}/nopart")
            assert condition(found, "EndpointURLsReady").get("reason") == "NoShardMatches", found
            return found

        self.assertEqual(condition(kit.eventually(no_match), "EndpointURLsReady")["message"],
                         'selector "region=nowhere" matches none of the 3 shards')

    def test_TP051_the_export_of_a_slice_cannot_change(self):
        self.make_slice("fixed", {"export": {"path": "root", "name": "widgets"}})
        answer = self.root.request("PATCH", f"{SLICES}/fixed", json.dumps({"spec": {"export": {"name": "other"}}}), headers=MERGE)
        self.assertEqual(answer.status, 422)
        self.assertIn("APIExport reference must not be changed", answer.json["message"])

    def test_TP052_default_slice_comes_back(self):
        def there():
            found = self.root.get(f"{SLICES}/widgets")
            assert found.status == 200, found
            return found.json
        first = kit.eventually(there)
        self.assertEqual(first["metadata"]["ownerReferences"][0]["kind"], "APIExport")
        self.root.must("DELETE", f"{SLICES}/widgets")
        self.assertNotEqual(kit.eventually(there)["metadata"]["uid"], first["metadata"]["uid"])

    def test_TP056_shard_urls_default_to_the_base_url(self):
        def dry(spec):
            return self.root.request("POST", SHARDS + "?dryRun=All", {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard",
                                                                      "metadata": {"name": "dry"}, "spec": spec})
        self.assertEqual(dry({"baseURL": "https://a"}).json["spec"],
                         {"baseURL": "https://a", "externalURL": "https://a", "virtualWorkspaceURL": "https://a"})
        self.assertEqual(dry({"baseURL": "https://a", "externalURL": "https://b"}).json["spec"]["virtualWorkspaceURL"], "https://a")
        refused = dry({})
        self.assertEqual(refused.status, 422)
        self.assertIn("spec.baseURL", refused.json["message"])

    def test_TP105_the_kinds_are_discovered_everywhere(self):
        for path in ("/clusters/root",):
            client = self.installation.client(path)
            groups = [g["name"] for g in client.must("GET", "/apis")["groups"]]
            self.assertIn("topology.kcp.io", groups)
            names = [r["name"] for r in client.must("GET", "/apis/apis.kcp.io/v1alpha1")["resources"]]
            self.assertIn("apiexportendpointslices", names)
            self.assertIn("apiresourceschemas", names)
            aggregated = client.get("/apis", headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"})
            self.assertEqual(aggregated.json["kind"], "APIGroupDiscoveryList")
            self.assertIn("topology.kcp.io", [i["metadata"].get("name") for i in aggregated.json["items"]])

    def test_TP111_partition_without_selector_warns(self):
        answer = self.root.request("POST", PARTITIONS + "?dryRun=All", {
            "apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "p"}, "spec": {}})
        self.assertEqual(answer.status, 201)
        self.assertIn("spec.selector is not set: the Partition selects all shards", answer.headers["Warning"])


class ShardsComeAndGo(unittest.TestCase):
    def test_a_fourth_shard_joins_and_leaves(self):
        with kit.Installation() as installation:
            root = installation.client()
            root.must("POST", SETS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "r"},
                                     "spec": {"dimensions": ["region"]}})
            root.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "w"},
                                        "spec": {}})

            def count(n, endpoints):
                def check():
                    assert root.must("GET", f"{SETS}/r").get("status", {}).get("count") == n
                    found = root.must("GET", f"{SLICES}/w").get("status", {}).get("endpoints", [])
                    assert len(found) == endpoints, found
                    return True
                kit.eventually(check)

            count(3, 3)
            fourth = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(installation.state), "--name", "shard-3",
                                       "--labels", "region=sa-east-1,cloud=aws"], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                count(4, 4)
                installation.make_workspace("far", selector={"region": "sa-east-1"})
                # A shard that is down stays in the topology, and says so.
                fourth.send_signal(signal.SIGTERM)
                self.assertEqual(fourth.wait(60), 0)
                count(4, 4)
                answer = installation.client("/clusters/root:far").get("/api/v1/namespaces")
                self.assertEqual(answer.status, 503)
                self.assertEqual(answer.headers["Retry-After"], "1")
                self.assertEqual(answer.json["message"], "the shard is not reachable")
                # Removing the Shard object removes it from both.
                root.must("DELETE", f"{SHARDS}/shard-3")
                count(3, 3)
            finally:
                fourth.kill()
                fourth.wait()


if __name__ == "__main__":
    unittest.main()
