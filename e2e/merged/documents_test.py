"""Discovery and OpenAPI of clusters/* over three shards (AGG-1601, AGG-1705)."""
import signal
import unittest

import kit
import trust

METADATA = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.test"},
    "spec": {"group": "example.test", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
             "versions": [{"name": "v1", "served": True, "storage": True,
                           "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}


def group_of(document, name):
    return next((g for g in document["items"] if g["metadata"].get("name", "") == name), None)


class MergedDocuments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.all = cls.installation.client("/clusters/*")

    def test_T94_discovery_is_the_union_with_its_own_tag(self):
        for path, accept in (("/api", AGGREGATED), ("/apis", AGGREGATED), ("/apis", {}), ("/apis/apis.kcp.io/v1alpha1", {})):
            first = self.all.get(path, headers=accept)
            self.assertEqual(first.status, 200, path)
            again = self.all.get(path, headers={**accept, "If-None-Match": first.headers["ETag"]})
            self.assertEqual((again.status, again.body, again.headers["ETag"]), (304, b"", first.headers["ETag"]), path)
        found = self.all.must("GET", "/apis", headers=AGGREGATED)
        bindings = next(r for r in group_of(found, "apis.kcp.io")["versions"][0]["resources"] if r["resource"] == "apibindings")
        self.assertEqual(sorted(bindings["verbs"]), ["list", "watch"], "what merged reads serve")
        self.assertIsNotNone(group_of(found, "topology.kcp.io"), "the proxy's own kinds")
        self.assertEqual([v["version"] for v in group_of(found, "apis.kcp.io")["versions"]], ["v1alpha2", "v1alpha1"])

    def test_T94_every_proxy_says_the_same(self):
        with kit.Proxy(self.installation, {"wildcard": "serve"}) as other:
            for path, accept in (("/api", AGGREGATED), ("/apis", AGGREGATED), ("/apis", {}), ("/openapi/v3", {}), ("/version", {})):
                def same(path=path, accept=accept):
                    ours, theirs = (c.get(path, headers=accept) for c in (self.all, other.client("/clusters/*")))
                    self.assertEqual((theirs.status, theirs.headers["ETag"], theirs.body),
                                     (200, ours.headers["ETag"], ours.body), path)
                    return True

                kit.eventually(same, what=path)

    def test_T94_T95_kubectl_lists_and_explains_what_all_shards_have(self):
        listed = self.installation.kubectl("api-resources", "--no-headers", server="/clusters/*")
        for name in ("configmaps", "apibindings", "workspaces", "partitions"):
            self.assertIn(name, listed)
        said = self.installation.kubectl("explain", "configmaps.data", server="/clusters/*")
        self.assertRegex(said, r"FIELD:\s+data <map\[string\]string>")
        said = self.installation.kubectl("explain", "partitions.spec.selector", server="/clusters/*")
        self.assertIn("matchLabels", said)
        self.assertIn("default", self.installation.kubectl("get", "namespaces", server="/clusters/*"))

    def test_T95_openapi_is_read_by_hash(self):
        root = self.all.get("/openapi/v3")
        self.assertEqual(root.status, 200)
        links = [entry["serverRelativeURL"] for entry in root.json["paths"].values()]
        self.assertTrue(all(link.startswith("/clusters/*/openapi/v3/") for link in links), links)
        for key in ("api/v1", "apis/apis.kcp.io/v1alpha1", "apis/topology.kcp.io/v1alpha1"):
            link = root.json["paths"][key]["serverRelativeURL"][len("/clusters/*"):]
            document = self.all.get(link)
            self.assertEqual((document.status, document.headers["Cache-Control"]), (200, "public, immutable"), key)
            self.assertEqual(document.headers["ETag"].strip('"'), link.split("hash=")[1])
            self.assertIn("paths", document.json)
            moved = self.all.get(link.split("?")[0] + "?hash=OLD")
            self.assertEqual((moved.status, moved.headers["Location"]), (301, "/clusters/*" + link), key)
        swagger = self.all.must("GET", "/openapi/v2")
        self.assertIn("/apis/topology.kcp.io/v1alpha1/partitions", swagger["paths"])
        self.assertIn("/api/v1/configmaps", swagger["paths"])

    def test_T96_one_audit_id_goes_to_every_shard_and_back(self):
        for path in ("/apis", "/api/v1/configmaps", "/openapi/v3", "/version"):
            self.assertEqual(self.all.get(path, headers={"Audit-ID": "mine"}).headers["Audit-ID"], "mine", path)
            self.assertTrue(self.all.get(path).headers["Audit-ID"], path)

    def test_T16_other_methods_and_types_are_refused(self):
        for path in ("/apis", "/api/v1/configmaps", "/openapi/v3"):
            for method in ("HEAD", "OPTIONS", "TRACE"):
                answer = self.all.request(method, path)
                self.assertEqual(answer.status, 405, f"{method} {path}")
                if method != "HEAD":
                    self.assertEqual(answer.json["kind"], "Status")
            answer = self.all.get(path, headers={"Accept": "image/png"})
            self.assertEqual((answer.status, answer.json["kind"]), (406, "Status"), path)

    def test_OP_113_kinds_that_workspaces_define(self):
        """One name may be another kind in each workspace: clusters/* has their metadata alone, an export's URL all that its consumers hold."""
        places = {"root": self.installation.client()}
        for name, shard in (("one", "shard-1"), ("two", "shard-2")):
            self.installation.make_workspace(name, selector={"name": shard})
            places[name] = self.installation.client(f"/clusters/root:{name}")
        trust.export_of(places["root"], "gears")
        for name in ("one", "two"):
            at, widget = places[name], {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": f"of-{name}"}}
            kit.eventually(lambda: at.request("POST", "/apis/apis.kcp.io/v1alpha2/apibindings", {  # pylint: disable=cell-var-from-loop
                "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "gears"},
                "spec": {"reference": {"export": {"path": "root", "name": "gears"}}}}).status in (201, 409), 30, "bound")
            at.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
            for path, body in (("example.test/v1/namespaces/default/widgets", widget),
                               ("gear.test/v1/namespaces/default/gears", {**widget, "apiVersion": "gear.test/v1", "kind": "Gear"})):
                kit.eventually(lambda: at.request("POST", f"/apis/{path}", body).status in (201, 409), 30, path)  # pylint: disable=cell-var-from-loop
        for kind in ("widgets", "gears"):
            said = self.installation.kubectl("get", kind, "-A", server="/clusters/*", expect=1)
            self.assertIn(f'the server doesn\'t have a resource type "{kind}"', said)
        for path in ("example.test/v1/widgets", "gear.test/v1/gears"):
            self.assertEqual(self.all.get(f"/apis/{path}").status, 404, "whose, nobody can say")
            found = self.all.must("GET", f"/apis/{path}", headers=METADATA)["items"]
            self.assertEqual(sorted(item["metadata"]["name"] for item in found), ["of-one", "of-two"])
        listed = self.installation.kubectl("get", "gears", "-A", "--no-headers", server="/services/apiexport/root/gears/clusters/*")
        self.assertEqual(sorted(line.split()[1] for line in listed.splitlines()), ["of-one", "of-two"])
        self.assertIn("of-one", self.installation.kubectl("get", "widgets", "-A", server="/clusters/root:one"))

    def test_partitions_have_documents_of_their_own(self):
        """U2 before U3; and U7 below it."""
        root = self.installation.client()
        root.must("POST", "/apis/topology.kcp.io/v1alpha1/partitions", {
            "apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "one"},
            "spec": {"selector": {"matchLabels": {"name": "shard-1"}}}})
        part = self.installation.client("/partitions/root/one/clusters/*")
        found = kit.eventually(lambda: part.must("GET", "/apis", headers=AGGREGATED), 10, "discovery of the Partition")
        self.assertIsNotNone(group_of(found, "apis.kcp.io"))
        links = part.must("GET", "/openapi/v3")["paths"]
        self.assertTrue(links["api/v1"]["serverRelativeURL"].startswith("/partitions/root/one/clusters/*/openapi/v3/api/v1?hash="))
        self.assertIn("KIND:", self.installation.kubectl("explain", "configmaps", server="/partitions/root/one/clusters/*"))
        newest = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        self.assertIn("BOOKMARK", (event["type"] for event in part.watch("/api/v1/watch/configmaps" + newest)))


class LostShard(unittest.TestCase):
    def test_T94_AGG1602_what_a_lost_shard_served_stays(self):
        with kit.Installation() as installation:
            every = installation.client("/clusters/*")
            before = every.get("/apis", headers=AGGREGATED)
            installation.kill("shard-2", signal.SIGSTOP)
            try:
                after = every.get("/apis", headers=AGGREGATED, timeout=60)
                self.assertEqual((after.status, after.json), (200, before.json))
            finally:
                installation.kill("shard-2", signal.SIGCONT)


if __name__ == "__main__":
    unittest.main()
