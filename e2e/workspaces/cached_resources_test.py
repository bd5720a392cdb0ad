"""cache.kcp.io: a provider offers objects of his workspace, consumers on all shards read them (KK-200 to KK-203, KK-353)."""
import json
import signal
import unittest

import kit

CACHE = "/apis/cache.kcp.io/v1alpha1"
CACHED, SLICES = f"{CACHE}/clustercachedresources", f"{CACHE}/clustercachedresourceendpointslices"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}
FLAVORS = "/apis/offer.io/v1/flavors"
CONTENT = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"cpu": {"type": "integer"}}}}}


def cached(name, resource, group="", version="v1", **spec):
    return {"apiVersion": "cache.kcp.io/v1alpha1", "kind": "ClusterCachedResource", "metadata": {"name": name},
            "spec": {"group": group, "version": version, "resource": resource, **spec}}


def flavor(name, cpu, **labels):
    return {"apiVersion": "offer.io/v1", "kind": "Flavor", "metadata": {"name": name, "labels": labels}, "spec": {"cpu": cpu}}


def conditions(found):
    return {one["type"]: (one["status"], one.get("reason", ""), one.get("message", ""))
            for one in found.get("status", {}).get("conditions") or []}


class CachedResources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=3).start_for(cls)
        for name, shard in (("prov", "shard-1"), ("near", "shard-1"), ("far", "shard-2"), ("thief", "shard-2")):
            cls.installation.make_workspace(name, selector={"name": shard})
        cls.prov, cls.near, cls.far, cls.thief = (cls.installation.client(f"/clusters/root:{name}")
                                                  for name in ("prov", "near", "far", "thief"))
        cls.cluster = {name: cls.lc(cls.installation.client(f"/clusters/root:{name}")) for name in ("prov", "near", "far", "thief")}
        cls.prov.must("POST", CRDS, {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "flavors.offer.io"},
            "spec": {"group": "offer.io", "scope": "Cluster", "names": {"plural": "flavors", "singular": "flavor", "kind": "Flavor"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": CONTENT}}]}})
        kit.eventually(lambda: cls.prov.get(FLAVORS).status == 200)
        for body in (flavor("small", 1, tier="free"), flavor("large", 8, tier="free"), flavor("hidden", 99, tier="own")):
            cls.prov.must("POST", FLAVORS, body)
        cls.prov.must("POST", CACHED, cached("flavors", "flavors", "offer.io", labelSelector={"matchLabels": {"tier": "free"}}))
        cls.identity = kit.eventually(lambda: cls.prov.must("GET", f"{CACHED}/flavors")["status"]["identityHash"], what="identity")
        cls.prov.must("POST", SCHEMAS, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.flavors.offer.io"},
            "spec": {"group": "offer.io", "scope": "Cluster",
                     "names": {"plural": "flavors", "singular": "flavor", "kind": "Flavor", "listKind": "FlavorList"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": CONTENT}]}})
        cls.export(cls.prov, cls.identity)
        cls.prov.must("POST", SLICES, cls.slice())
        for consumer in (cls.near, cls.far):
            cls.bind(consumer, "root:prov")

    @staticmethod
    def lc(client):
        return client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]

    @staticmethod
    def slice(path=""):
        at = {"path": path} if path else {}
        return {"apiVersion": "cache.kcp.io/v1alpha1", "kind": "ClusterCachedResourceEndpointSlice", "metadata": {"name": "flavors"},
                "spec": {"clusterCachedResource": {"name": "flavors", **at}, "export": {"name": "flavors"}}}

    @staticmethod
    def export(client, identity):
        client.must("POST", f"{APIS}/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "flavors"}, "spec": {"resources": [{
                "group": "offer.io", "name": "flavors", "schema": "v1.flavors.offer.io", "storage": {"virtual": {
                    "identityHash": identity, "reference": {"apiGroup": "cache.kcp.io", "kind": "ClusterCachedResourceEndpointSlice",
                                                            "name": "flavors"}}}}]}})

    @staticmethod
    def bind(client, path):
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "flavors"},
                "spec": {"reference": {"export": {"path": path, "name": "flavors"}}}}
        kit.eventually(lambda: client.request("POST", APIS + "/apibindings", body).status in (201, 409), what="bound")
        kit.eventually(lambda: client.must("GET", f"{APIS}/apibindings/flavors")["status"]["phase"] == "Bound", what="Bound")

    def becomes(self, client, wanted, path=FLAVORS):
        def look():
            found = {one["metadata"]["name"]: one["spec"]["cpu"] for one in client.must("GET", path)["items"]}
            assert found == wanted, found
            return True

        kit.eventually(look, what=f"{wanted}")

    def test_status(self):
        """KK-200: identity, phase, conditions, counts; KK-201: where the objects can be read."""
        def ready():
            found = self.prov.must("GET", f"{CACHED}/flavors")
            said = conditions(found)
            assert found["status"]["phase"] == "Ready", found["status"]
            assert {said[one][0] for one in ("IdentityValid", "ResourceValid", "ReplicationStarted")} == {"True"}, said
            assert found["status"]["resourceCounts"] == {"cache": 2, "local": 2}, found["status"]
            return found

        found = kit.eventually(ready)
        secret = found["spec"]["identity"]["secretRef"]
        self.assertEqual(secret, {"name": "flavors", "namespace": "kcp-system"})
        self.assertEqual(self.prov.get(f"/api/v1/namespaces/kcp-system/secrets/{secret['name']}").status, 200)
        slices = kit.eventually(lambda: self.prov.must("GET", f"{SLICES}/flavors")["status"]["endpoints"])
        self.assertTrue(all(one["url"].endswith(f"/services/replication/{self.cluster['prov']}/flavors") for one in slices), slices)
        self.assertEqual(conditions(self.prov.must("GET", f"{SLICES}/flavors"))["APIExportValid"][0], "True")

    def test_what_cannot_be_offered(self):
        """KK-200, KK-202, KK-T101"""
        for body, text in (
                (cached("again", "flavors", "offer.io"), '"offer.io.v1.flavors": ClusterCachedResource with this GVR already exists in '
                                                         f'the "{self.cluster["prov"]}" workspace'),
                (cached("maps", "configmaps"), '"configmaps": Resource referenced in ClusterCachedResource must be cluster-scoped'),
                (cached("secrets", "secrets"), '"secrets": resource cannot be cached'),
                (cached("roles", "clusterroles", "rbac.authorization.k8s.io"),
                 '"clusterroles.rbac.authorization.k8s.io": resource cannot be cached'),
                (cached("roles", "roles", "rbac.authorization.k8s.io"), '"roles.rbac.authorization.k8s.io": Resource referenced in '
                                                                        "ClusterCachedResource must be cluster-scoped")):
            answer = self.prov.request("POST", CACHED, body)
            self.assertEqual(answer.status, 403, answer)
            self.assertEqual(answer.json["message"], f'clustercachedresources.cache.kcp.io "{body["metadata"]["name"]}" is forbidden: '
                                                     f"spec: Invalid value: {text}")
        self.assertEqual(self.prov.request("POST", CACHED, cached("flavors", "flavors", "offer.io")).status, 409)
        for field in ("clusterCachedResource", "export"):
            answer = self.prov.request("PATCH", f"{SLICES}/flavors", {"spec": {field: {"name": "other"}}}, headers=MERGE)
            self.assertEqual(answer.status, 422, answer)
            self.assertIn("reference must not be changed", answer.json["message"])
        for gone in ("/apis/cache.kcp.io/v1alpha1/cachedresources", "/apis/cache.kcp.io/v1alpha1/cachedobjects"):
            self.assertEqual(self.prov.get(gone).status, 404)

    def test_who_cannot_list_offers_nothing(self):
        """KK-202: an offer shows what its maker may see."""
        self.prov.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "offers"}, "rules": [
            {"apiGroups": ["cache.kcp.io"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
        self.prov.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "offers"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "offers"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "offerer"}]})
        client = self.installation.user_client("offerer", path="/clusters/root:prov")
        kit.eventually(lambda: client.get(CACHED).status == 200)
        answer = client.request("POST", CACHED, cached("spaces", "namespaces"))
        self.assertEqual(answer.status, 403, answer)
        self.assertIn("must be able to list it", answer.json["message"])

    def test_consumers_read_what_is_offered(self):
        """KK-203: on the provider's shard and on another one; label selector, changes, a watch; nothing can be written."""
        wanted = {"small": 1, "large": 8}
        for client in (self.near, self.far):
            self.becomes(client, wanted)
            self.assertEqual(client.must("GET", f"{FLAVORS}/large")["spec"], {"cpu": 8})
            self.assertEqual(client.get(f"{FLAVORS}/hidden").status, 404)
            self.assertEqual(client.must("GET", f"{FLAVORS}/large")["metadata"]["uid"],
                             self.prov.must("GET", f"{FLAVORS}/large")["metadata"]["uid"])
            for method, path, body in (("POST", FLAVORS, flavor("mine", 3)), ("DELETE", f"{FLAVORS}/large", None)):
                answer = client.request(method, path, body)
                self.assertEqual(answer.status, 403, answer)
                self.assertIn("write access to Replication virtual workspace is not allowed", answer.json["message"])
            verbs = [sorted(one["verbs"]) for one in client.must("GET", "/apis/offer.io/v1")["resources"] if one["name"] == "flavors"]
            self.assertEqual(verbs, [["get", "list", "watch"]])
        watches = [client.watch(FLAVORS + f"?watch=true&resourceVersion={client.must('GET', FLAVORS)['metadata']['resourceVersion']}")
                   for client in (self.near, self.far)]
        self.prov.must("POST", FLAVORS, flavor("huge", 64, tier="free"))
        for watch in watches:
            event = next(watch)
            self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", "huge"))
        self.prov.must("PATCH", f"{FLAVORS}/huge", {"metadata": {"labels": {"tier": "own"}}}, headers=MERGE)
        for watch in watches:
            self.assertEqual(next(watch)["type"], "DELETED")
            watch.close()
        for client in (self.near, self.far):
            self.becomes(client, wanted)
        self.prov.must("DELETE", f"{FLAVORS}/huge")

    def test_the_virtual_workspace(self):
        """KK-353, TP-076: by apiexports/content of the export; in a cluster only with a binding; read only."""
        base = f"/services/replication/{self.cluster['prov']}/flavors/clusters/"
        everywhere, far, thief = (self.installation.client(base + one) for one in ("*", self.cluster["far"], self.cluster["thief"]))
        for view in (everywhere, far):
            self.becomes(view, {"small": 1, "large": 8})
            self.assertEqual(view.must("GET", f"{FLAVORS}/small")["spec"], {"cpu": 1})
            answer = view.request("POST", FLAVORS, flavor("mine", 3))
            self.assertEqual(answer.status, 403, answer)
            self.assertIn("write access to Replication virtual workspace is not allowed", answer.json["message"])
        self.assertEqual(thief.get(FLAVORS).status, 403)
        for path in (base + "*", base + self.cluster["far"]):
            self.assertEqual(self.installation.user_client("nobody-special", path=path).get(FLAVORS).status, 403)
        offer = f"/services/replication/{self.cluster['prov']}/offer:flavors/clusters/*"
        for user in (self.installation.user_client("nobody-special", path=offer),
                     self.installation.user_client("posing", groups=("system:kintsugi:shard",), path=offer)):
            self.assertEqual(user.get(FLAVORS).status, 403)

    def test_the_virtual_workspace_of_the_export(self):
        """KK-203, KK-342: there a consumer has what it has in itself; by apiexports/content, only with a binding, read only."""
        base = f"/services/apiexport/{self.cluster['prov']}/flavors/clusters/"
        for consumer in ("near", "far"):
            view, own = self.installation.client(base + self.cluster[consumer]), getattr(self, consumer)
            self.becomes(view, {"small": 1, "large": 8})
            self.assertEqual(view.must("GET", f"{FLAVORS}/large")["metadata"]["uid"], own.must("GET", f"{FLAVORS}/large")["metadata"]["uid"])
            self.assertEqual(view.get(f"{FLAVORS}/hidden").status, 404)
            for method, path, body in (("POST", FLAVORS, flavor("mine", 3)), ("DELETE", f"{FLAVORS}/large", None)):
                answer = view.request(method, path, body)
                self.assertEqual(answer.status, 403, answer)
                self.assertIn("write access to Replication virtual workspace is not allowed", answer.json["message"])
            verbs = [sorted(one["verbs"]) for one in view.must("GET", "/apis/offer.io/v1")["resources"] if one["name"] == "flavors"]
            self.assertEqual(verbs, [["get", "list", "watch"]])
            watch = view.watch(FLAVORS + f"?watch=true&resourceVersion={view.must('GET', FLAVORS)['metadata']['resourceVersion']}")
            self.prov.must("POST", FLAVORS, flavor(f"seen-{consumer}", 2, tier="free"))
            event = next(watch)
            self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", f"seen-{consumer}"))
            self.prov.must("DELETE", f"{FLAVORS}/seen-{consumer}")
            self.assertEqual(next(watch)["type"], "DELETED")
            watch.close()
        self.assertEqual(self.installation.client(base + self.cluster["thief"]).get(FLAVORS).status, 403)
        everywhere = self.installation.client(base + "*")
        self.becomes(everywhere, {"small": 1, "large": 8})
        listed = everywhere.must("GET", FLAVORS)
        self.assertEqual(sorted(one["metadata"]["name"] for one in listed["items"]), ["large", "small"], "each once over all shards")
        self.assertEqual({one["metadata"]["annotations"]["kcp.io/cluster"] for one in listed["items"]}, {self.cluster["prov"]})
        watch = everywhere.watch(f"{FLAVORS}?watch=true&resourceVersion={listed['metadata']['resourceVersion']}")
        self.prov.must("POST", FLAVORS, flavor("seen-everywhere", 2, tier="free"))
        self.prov.must("DELETE", f"{FLAVORS}/seen-everywhere")
        self.assertEqual([(event["type"], event["object"]["metadata"]["name"]) for event in (next(watch), next(watch))],
                         [("ADDED", "seen-everywhere"), ("DELETED", "seen-everywhere")])
        watch.close()
        pki = self.installation.pki
        for shard, wanted in (("shard-1", ["large", "small"]), ("shard-2", [])):
            at = kit.Client(self.installation.shard_url(shard) + base + "*", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")
            self.assertEqual(sorted(one["metadata"]["name"] for one in at.must("GET", FLAVORS)["items"]), wanted, shard)
        self.assertEqual(self.installation.user_client("nobody-special", path=base + "*").get(FLAVORS).status, 403)
        stranger = self.installation.user_client("nobody-special", path=base + self.cluster["near"])
        self.assertEqual(stranger.get(FLAVORS).status, 403)

    def test_nobody_hands_on_what_is_anothers(self):
        """KK-203: slice, export and resource are of one cluster; an identity's hash is no key."""
        self.thief.must("POST", SCHEMAS, self.schema_of(self.prov))
        self.export(self.thief, self.identity)
        self.thief.must("POST", SLICES, self.slice("root:prov"))
        self.bind(self.thief, "root:thief")
        found = kit.eventually(lambda: conditions(self.thief.must("GET", f"{SLICES}/flavors")).get("ResourceValid"))
        self.assertEqual(found[:2], ("False", "ClusterCachedResourceNotFound"))
        kit.eventually(lambda: self.thief.get(FLAVORS).status == 503)
        self.assertEqual(self.installation.client(
            f"/services/replication/{self.cluster['thief']}/flavors/clusters/*").get(FLAVORS).status, 403)
        self.assertEqual(self.thief.must("GET", f"{SLICES}/flavors")["status"].get("endpoints", []), [])

    @staticmethod
    def schema_of(client):
        found = client.must("GET", f"{SCHEMAS}/v1.flavors.offer.io")
        return {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": {"name": found["metadata"]["name"]},
                "spec": found["spec"]}

    def test_z_copies_outlive_the_providers_shard_and_go_with_the_offer(self):
        """KK-203"""
        self.becomes(self.far, {"small": 1, "large": 8})
        self.installation.kill("shard-1", signal.SIGSTOP)
        try:
            self.assertEqual(len(self.far.must("GET", FLAVORS)["items"]), 2)
        finally:
            self.installation.kill("shard-1", signal.SIGCONT)
        kit.eventually(lambda: self.prov.get(f"{CACHED}/flavors").status == 200)
        self.prov.must("DELETE", f"{CACHED}/flavors")
        base = f"/services/apiexport/{self.cluster['prov']}/flavors/clusters/"
        for client in (self.near, self.far, *(self.installation.client(base + self.cluster[one]) for one in ("near", "far"))):
            kit.eventually(lambda c=client: c.get(FLAVORS).status == 503)
        self.assertIn("not offered", json.dumps(self.far.get(FLAVORS).json))


if __name__ == "__main__":
    unittest.main()
