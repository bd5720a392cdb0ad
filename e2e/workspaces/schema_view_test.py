"""The virtual workspace apiresourceschema: who may get APIBindings of a logical cluster reads the schemas that it has bound
(KK-354, TP-077)."""
import unittest

import kit

SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def schema(plural, kind):
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.{plural}.seen.io"},
            "spec": {"group": "seen.io", "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind,
                                                                         "listKind": kind + "List"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}}


class SchemaView(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        for name, shard in (("sv-prov", "shard-1"), ("sv-one", "shard-2"), ("sv-other", "shard-2")):
            cls.installation.make_workspace(name, selector={"name": shard})
        cls.prov, cls.one, cls.other = (cls.installation.client(f"/clusters/root:{name}") for name in ("sv-prov", "sv-one", "sv-other"))
        cls.cluster = cls.lc(cls.one)
        for plural, kind in (("trees", "Tree"), ("stones", "Stone"), ("clouds", "Cloud")):
            cls.prov.must("POST", SCHEMAS, schema(plural, kind))
            cls.prov.must("POST", f"{APIS}/apiexports", {
                "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": plural}, "spec": {"resources": [
                    {"group": "seen.io", "name": plural, "schema": f"v1.{plural}.seen.io", "storage": {"crd": {}}}]}})
        for plural in ("trees", "stones"):
            cls.bind(cls.one, plural)

    @staticmethod
    def lc(client):
        return client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]

    @staticmethod
    def bind(client, name):
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": "root:sv-prov", "name": name}}}}
        kit.eventually(lambda: client.request("POST", APIS + "/apibindings", body).status in (201, 409), what="bound")
        kit.eventually(lambda: client.must("GET", f"{APIS}/apibindings/{name}")["status"]["phase"] == "Bound", what="Bound")

    def view(self, cluster=None, inner="*", client=None):
        path = f"/services/apiresourceschema/{cluster or self.cluster}/clusters/{inner}"
        return self.installation.client(path) if client is None else client(path)

    def names(self, view):
        return sorted(one["metadata"]["name"] for one in view.must("GET", SCHEMAS)["items"])

    def test_what_is_bound_is_listed_read_and_nothing_else(self):
        """TP-077: equal to the bound schemas; others 404; discovery has get, list, watch."""
        wanted = ["v1.stones.seen.io", "v1.trees.seen.io"]
        for inner in ("*", self.cluster):
            view = self.view(inner=inner)
            kit.eventually(lambda v=view: self.names(v) == wanted)
            for name in wanted:
                found, own = view.must("GET", f"{SCHEMAS}/{name}"), self.prov.must("GET", f"{SCHEMAS}/{name}")
                self.assertEqual((found["spec"], found["metadata"]["uid"]), (own["spec"], own["metadata"]["uid"]))
                uid = own["metadata"]["uid"]
                self.assertEqual(view.get(f"{SCHEMAS}/{uid}").status, 404)
            self.assertEqual(view.get(f"{SCHEMAS}/v1.clouds.seen.io").status, 404)
            selected = view.must("GET", SCHEMAS + "?fieldSelector=metadata.name%3Dv1.trees.seen.io")["items"]
            self.assertEqual([one["metadata"]["name"] for one in selected], ["v1.trees.seen.io"])
        found = {one["name"]: sorted(one["verbs"]) for one in self.view().must("GET", "/apis/apis.kcp.io/v1alpha1")["resources"]}
        self.assertEqual(found, {"apiresourceschemas": ["get", "list", "watch"]})

    def test_nothing_is_written(self):
        """KK-354: `only read-only access is allowed to apiresourceschemas`."""
        view = self.view()
        for method, path, body in (("POST", SCHEMAS, schema("clouds", "Cloud")), ("DELETE", f"{SCHEMAS}/v1.trees.seen.io", None),
                                   ("PATCH", f"{SCHEMAS}/v1.trees.seen.io", {"metadata": {"labels": {"a": "b"}}}),
                                   ("DELETE", SCHEMAS, None)):
            answer = view.request(method, path, body, headers={"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None)
            self.assertEqual(answer.status, 403, answer)
            self.assertIn("only read-only access is allowed to apiresourceschemas", answer.json["message"])
        self.assertEqual(self.prov.get(f"{SCHEMAS}/v1.trees.seen.io").status, 200)

    def test_it_takes_the_right_to_get_bindings(self):
        """KK-354: in the consumer's cluster; a right elsewhere, or nobody's cluster, is 403."""
        def reader(path):
            return self.installation.user_client("schema-reader", path=path)

        self.assertEqual(self.view(client=reader).get(SCHEMAS).status, 403)
        for target in (self.other, self.one):
            if target is self.one:
                self.assertEqual(self.view(client=reader).get(SCHEMAS).status, 403)
            target.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "schema-reader"}, "rules": [
                {"apiGroups": ["apis.kcp.io"], "resources": ["apibindings"], "verbs": ["get"]},
                {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
            target.must("POST", RBAC + "/clusterrolebindings", {
                "metadata": {"name": "schema-reader"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "schema-reader"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "schema-reader"}]})
        kit.eventually(lambda: self.view(client=reader).get(SCHEMAS).status == 200)
        self.assertEqual(self.view(cluster=self.lc(self.prov), client=reader).get(SCHEMAS).status, 403)
        self.assertEqual(self.view(cluster="nobody", client=reader).get(SCHEMAS).status, 403)

    def test_a_watch_tells_and_ends_when_something_else_is_bound(self):
        """TP-077: watch."""
        cluster = self.lc(self.other)
        view = self.view(cluster=cluster)
        self.assertEqual(self.names(view), [])
        watch = kit.Watch(view, SCHEMAS + "?watch=true")
        self.assertTrue(watch.accepted.wait(30))
        self.bind(self.other, "clouds")
        kit.eventually(lambda: self.names(view) == ["v1.clouds.seen.io"])
        kit.eventually(lambda: watch.ended_at is not None, what="the watch of before ends")
        events = view.watch(SCHEMAS + "?watch=true")
        event = next(events)
        self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", "v1.clouds.seen.io"))
        events.close()


if __name__ == "__main__":
    unittest.main()
