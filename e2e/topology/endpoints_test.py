"""Endpoints of slices as provider controllers use them (TP-136): read the URLs, then discovery, lists, watches and
writes below each of them with the same credentials; real bindings on several shards."""
import json
import threading
import unittest

import kit

APIS = "/apis/apis.kcp.io/v1alpha2"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GEARS = "/apis/gear.test/v1/namespaces/default/gears"
ALL_GEARS = "/apis/gear.test/v1/gears"
MERGE = {"Content-Type": "application/merge-patch+json"}


def gear(name):
    return {"apiVersion": "gear.test/v1", "kind": "Gear", "metadata": {"name": name}, "spec": {}}


class Endpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.external = f"https://127.0.0.1:{cls.installation.port}"
        cls.client = {}
        for name, shard in (("prov", "root"), ("one", "shard-1"), ("two", "shard-2")):
            cls.installation.make_workspace(name, selector={"name": shard})
            cls.client[name] = cls.installation.client(f"/clusters/root:{name}")
        cls.cluster = {name: client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
                       for name, client in cls.client.items()}
        prov = cls.client["prov"]
        prov.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.gears.gear.test"},
            "spec": {"group": "gear.test", "scope": "Namespaced",
                     "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
        prov.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "gears"},
            "spec": {"resources": [{"group": "gear.test", "name": "gears", "schema": "v1.gears.gear.test", "storage": {"crd": {}}}]}})
        for name, rule in (("content", {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["*"]}),
                           ("slices", {"apiGroups": ["apis.kcp.io"], "resources": ["apiexportendpointslices"], "verbs": ["get", "list", "watch"]}),
                           ("access", {"nonResourceURLs": ["/"], "verbs": ["access"]})):
            prov.must("POST", RBAC + "/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
            prov.must("POST", RBAC + "/clusterrolebindings", {
                "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "provider"}]})
        cls.provider = cls.installation.user_client("provider", path="/clusters/root:prov")
        cls.pair = [cls.installation.dir / f"user-provider.{end}" for end in ("crt", "key")]
        kit.eventually(lambda: cls.provider.get(SLICES).status == 200, what="rights of the provider")

    def bind(self, consumer):
        client = self.client[consumer]
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "gears"},
                "spec": {"reference": {"export": {"path": "root:prov", "name": "gears"}}}}
        kit.eventually(lambda: client.request("POST", APIS + "/apibindings", body).status == 201, what="binding made")

        def gone():
            client.request("DELETE", APIS + "/apibindings/gears")
            kit.eventually(lambda: client.get(APIS + "/apibindings/gears").status == 404, what="binding gone")

        self.addCleanup(gone)

        def bound():
            status = client.must("GET", APIS + "/apibindings/gears")["status"]
            assert status.get("phase") == "Bound", status
            return status

        self.assertEqual(kit.eventually(bound)["apiExportClusterName"], self.cluster["prov"])
        kit.eventually(lambda: client.get(GEARS).status == 200, what="gears are served")
        return gone

    def make(self, consumer, name):
        self.client[consumer].must("POST", GEARS, gear(name))
        self.addCleanup(self.client[consumer].request, "DELETE", f"{GEARS}/{name}")

    def slice_of(self, mode, **annotations):
        """A slice with consumers required; returns a function that reads its URLs as a provider does."""
        annotations.update({"kintsugi.dev/endpoint-mode": mode, "kintsugi.dev/consumers": "required"})
        self.client["prov"].must("POST", SLICES, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": mode, "annotations": annotations},
            "spec": {"export": {"path": "root:prov", "name": "gears"}}})
        self.addCleanup(self.client["prov"].request, "DELETE", f"{SLICES}/{mode}")

        def urls():
            listed = self.provider.must("GET", f"{SLICES}?fieldSelector=metadata.name%3D{mode}&limit=500&resourceVersion=0")
            return [one["url"] for item in listed["items"] for one in item.get("status", {}).get("endpoints", [])]

        return urls

    def at(self, url):
        """A client below an endpoint with the provider's credentials and the CA of the installation."""
        return kit.Client(url, self.installation.pki / "serving-ca.crt", *self.pair)

    def test_TP_048_TP_049_TP_050_TP_060_each_consumer_is_under_its_endpoint(self):
        for mode in ("direct", "proxied"):
            with self.subTest(mode):
                urls = self.slice_of(mode)
                kit.eventually(lambda u=urls: self.provider.get(f"{SLICES}/{mode}").status == 200)
                self.assertEqual(urls(), [])
                away = [self.bind("one")]
                kit.eventually(lambda u=urls: len(u()) == 1)
                self.make("one", "a")
                away.append(self.bind("two"))
                kit.eventually(lambda u=urls: len(u()) == 2)
                self.make("two", "b")
                tail = f"/services/apiexport/{self.cluster['prov']}/gears"
                if mode == "proxied":
                    self.assertEqual(urls(), [f"{self.external}/shards/{shard}{tail}" for shard in ("shard-1", "shard-2")])
                for url, consumer, name in zip(urls(), ("one", "two"), ("a", "b")):
                    endpoint = self.at(url)
                    kit.eventually(lambda e=endpoint: e.get("/clusters/*" + ALL_GEARS).status == 200)
                    found = endpoint.must("GET", "/clusters/*" + ALL_GEARS)
                    self.assertEqual([(o["metadata"]["annotations"]["kcp.io/cluster"], o["metadata"]["name"]) for o in found["items"]],
                                     [(self.cluster[consumer], name)])
                    resources = endpoint.must("GET", "/clusters/*/apis/gear.test/v1")["resources"]
                    self.assertIn("gears", [one["name"] for one in resources])
                    endpoint.must("POST", f"/clusters/{self.cluster[consumer]}{GEARS}", gear("made"))
                    self.assertEqual(self.client[consumer].must("GET", f"{GEARS}/made")["metadata"]["name"], "made")
                    endpoint.must("DELETE", f"/clusters/{self.cluster[consumer]}{GEARS}/made")
                for gone, left in zip(away, (1, 0)):
                    gone()
                    kit.eventually(lambda u=urls, n=left: len(u()) == n)

    def test_TP_081_human_paths_through_the_proxy(self):
        self.bind("one")
        path = "/services/apiexport/root:prov/gears/clusters/root:one"
        client = self.at(self.external)
        kit.eventually(lambda: client.get(path + GEARS).status == 200)
        client.must("POST", path + GEARS, gear("human"))
        self.addCleanup(client.request, "DELETE", f"{path}{GEARS}/human")
        self.assertEqual(self.client["one"].must("GET", f"{GEARS}/human")["metadata"]["name"], "human")
        client.must("PATCH", f"{path}{GEARS}/human", json.dumps({"spec": {"size": 3}}), headers=MERGE)
        self.assertEqual(client.must("GET", f"{path}{GEARS}/human")["spec"], {"size": 3})
        self.assertEqual(client.get("/services/apiexport/root:prov/gears/clusters/root:two" + GEARS).status, 403, "no binding there")

    def test_an_aggregated_endpoint_serves_the_consumers(self):
        """U4, and U7 below it."""
        urls = self.slice_of("aggregated")
        self.bind("one")
        kit.eventually(lambda: urls() == [f"{self.external}/services/apiexport/{self.cluster['prov']}/gears"])
        endpoint = self.at(urls()[0])
        kit.eventually(lambda: endpoint.get("/clusters/*" + ALL_GEARS).status == 200)
        seen, begun = [], endpoint.must("GET", "/clusters/*" + ALL_GEARS)["metadata"]["resourceVersion"]
        done = threading.Event()

        def follow():
            for event in endpoint.watch(f"/clusters/*{ALL_GEARS}?watch=true&resourceVersion={begun}"):
                if event["type"] != "BOOKMARK":
                    seen.append((event["type"], event["object"]["metadata"]["name"]))
                if len(seen) == 2:
                    return done.set()

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        endpoint.must("POST", f"/clusters/{self.cluster['one']}{GEARS}", gear("seen"))
        endpoint.must("DELETE", f"/clusters/{self.cluster['one']}{GEARS}/seen")
        self.assertTrue(done.wait(60), seen)
        self.assertEqual(seen, [("ADDED", "seen"), ("DELETED", "seen")])
        served = endpoint.must("GET", "/clusters/*/apis/gear.test/v1")["resources"]
        self.assertIn("gears", [one["name"] for one in served])
        endpoint.must("POST", f"/clusters/{self.cluster['one']}{GEARS}", gear("old"))
        first = next(endpoint.watch("/clusters/*/apis/gear.test/v1/watch/gears"))
        self.assertEqual((first["type"], first["object"]["metadata"]["name"]), ("ADDED", "old"))
