"""APIExports bound across shards (AM-492 to AM-509): what a binding brings, what it keeps apart, and that bound
APIs are served while the shard of their export is away."""
import json
import signal
import subprocess
import time
import unittest

import kit

APIS = "/apis/apis.kcp.io/v1alpha2"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DRY = "?dryRun=All"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}


def schema(prefix, plural, kind, properties):
    versions = [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {
        "type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}}]
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"{prefix}.{plural}.ex.io"},
            "spec": {"group": "ex.io", "scope": "Namespaced", "versions": versions,
                     "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}}}


def conditions(binding):
    return {one["type"]: (one["status"], one.get("reason", ""), one.get("message", ""))
            for one in binding.get("status", {}).get("conditions") or []}


class Bindings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=3).start_for(cls)
        for name, shard in (("prov", "shard-1"), ("other", "shard-1"), ("one", "shard-2"), ("two", "shard-2")):
            cls.make(name, shard)
        cls.prov = cls.installation.client("/clusters/root:prov")

    @classmethod
    def make(cls, name, shard):
        cls.installation.make_workspace(name, selector={"name": shard})

    def everywhere(self, shard):
        """All logical clusters of a shard, asked at the shard itself."""
        pki = self.installation.pki
        return kit.Client(self.installation.shard_url(shard) + "/clusters/*", pki / "serving-ca.crt", pki / "shard-admin.crt",
                          pki / "shard-admin.key")

    def client(self, workspace):
        return self.installation.client(f"/clusters/root:{workspace}")

    def export(self, plural, kind, properties=None, provider=None, **spec):
        provider = provider or self.prov
        made = schema("v1", plural, kind, properties or {"size": {"type": "integer", "default": 1}})
        provider.must("POST", SCHEMAS, made)
        provider.must("POST", f"{APIS}/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": plural},
            "spec": {"resources": [{"group": "ex.io", "name": plural, "schema": made["metadata"]["name"],
                                    "storage": {"crd": {}}}], **spec}})

        def identity():
            return provider.must("GET", f"{APIS}/apiexports/{plural}").get("status", {}).get("identityHash")

        return kit.eventually(identity, what=f"identity of {plural}")

    def bind(self, consumer, plural, path="root:prov", name=None):
        name = name or plural
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": path, "name": plural}}}}
        kit.eventually(lambda: consumer.request("POST", f"{APIS}/apibindings", body).status in (201, 409),
                       what=f"{name} created")
        return self.binding(consumer, name, lambda found: found.get("status", {}).get("phase") == "Bound")

    def binding(self, consumer, name, holds):
        def look():
            found = consumer.must("GET", f"{APIS}/apibindings/{name}")
            assert holds(found), found.get("status")
            return found

        return kit.eventually(look, what=f"binding {name}")

    @staticmethod
    def objects(plural, ns="default"):
        return f"/apis/ex.io/v1/namespaces/{ns}/{plural}"

    def put(self, consumer, plural, kind, name, spec=None, **metadata):
        return consumer.must("POST", self.objects(plural), {
            "apiVersion": "ex.io/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec or {}})

    def names(self, client, plural):
        return sorted(one["metadata"]["name"] for one in client.must("GET", f"/apis/ex.io/v1/{plural}")["items"])

    def test_am_499_a_binding_of_another_shards_export(self):
        identity = self.export("acorns", "Acorn")
        found = self.bind(self.client("one"), "acorns")
        self.assertEqual(found["metadata"]["finalizers"], ["apis.kcp.io/apibinding-finalizer"])
        bound = found["status"]["boundResources"]
        self.assertEqual([(b["group"], b["resource"], b["schema"]["name"], b["schema"]["identityHash"], b["storageVersions"])
                          for b in bound], [("ex.io", "acorns", "v1.acorns.ex.io", identity, ["v1"])])
        self.assertEqual({kind: value[0] for kind, value in conditions(found).items()}, {kind: "True" for kind in (
            "Ready", "APIExportValid", "BindingUpToDate", "InitialBindingCompleted", "PermissionClaimsApplied",
            "PermissionClaimsValid")})
        self.assertEqual(self.put(self.client("one"), "acorns", "Acorn", "a")["spec"], {"size": 1})

    def test_kk_226_a_shard_that_refuses_definitions_of_what_is_bound(self):
        self.export("locks", "Lock")
        self.export("latches", "Latch")
        arguments = [str(kit.BINARY), "shard", "--join", str(self.installation.state), "--name", "strict", "--enable-admission-plugins"]
        unknown = subprocess.run([*arguments, "apis.kcp.io/Nothing"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((unknown.returncode, '"apis.kcp.io/Nothing" is not apis.kcp.io/CRDNoOverlappingGVR' in unknown.stderr), (2, True), unknown)
        with (self.installation.dir / "strict.log").open("wb") as out:
            shard = subprocess.Popen([*arguments, "apis.kcp.io/CRDNoOverlappingGVR"], stdout=out, stderr=out)
        try:
            root = self.installation.client()
            kit.eventually(lambda: root.get("/apis/core.kcp.io/v1alpha1/shards/strict").status == 200, 20, "the shard is known")
            self.make("strict", "strict")
            client = self.client("strict")
            self.bind(client, "locks", name="holder")

            def define(plural, kind, query=""):
                return client.request("POST", CRDS + query, {
                    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.ex.io"},
                    "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                             "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})

            for query in ("", DRY):
                answer = define("locks", "Lock", query)
                self.assertEqual((answer.status, answer.json["message"]), (
                    403, 'customresourcedefinitions.apiextensions.k8s.io "locks.ex.io" is forbidden: cannot create because resource is bound by '
                    'APIBinding "holder"'))
            self.assertEqual(client.get(f"{CRDS}/locks.ex.io").status, 404)
            self.put(client, "locks", "Lock", "a")
            # KK-007: a dry run takes no lock, so that a binding comes first; a stored definition has one.
            self.assertEqual(define("latches", "Latch", DRY).status, 201)
            self.bind(client, "latches")
            self.assertEqual(define("latches", "Latch").status, 403)
            client.must("DELETE", f"{APIS}/apibindings/holder")
            kit.eventually(lambda: define("locks", "Lock").status == 201, what="what no binding has is anybody's")
            client.must("POST", f"{APIS}/apibindings", {
                "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "later"},
                "spec": {"reference": {"export": {"path": "root:prov", "name": "locks"}}}})
            self.binding(client, "later", lambda found: conditions(found).get("BindingUpToDate", ("", ""))[1] == "NamingConflicts")
        finally:
            shard.terminate()
            shard.wait(60)

    def test_am_503_479_two_exports_of_one_resource(self):
        first = self.export("twins", "Twin")
        second = self.export("twins", "Twin", {"color": {"type": "string", "default": "red"}},
                             provider=self.client("other"))
        self.assertNotEqual(first, second)
        self.bind(self.client("one"), "twins")
        self.bind(self.client("two"), "twins", path="root:other")
        self.put(self.client("one"), "twins", "Twin", "a")
        made = self.put(self.client("two"), "twins", "Twin", "a")
        self.assertEqual(made["spec"], {"color": "red"})
        self.assertEqual(self.names(self.client("one"), "twins"), ["a"])
        shard = self.everywhere("shard-2")
        for identity, spec in ((first, {"size": 1}), (second, {"color": "red"})):
            items = shard.must("GET", f"/apis/ex.io/v1/twins:{identity}")["items"]
            self.assertEqual([one["spec"] for one in items], [spec])
        for path, status in (("twins", 404), ("twins:" + "0" * 64, 404), ("twins:", 400)):  # KK-378
            self.assertEqual(shard.get(f"/apis/ex.io/v1/{path}").status, status, path)
        # An identity that this cluster has not bound is not a way to the objects of another consumer.
        one = self.client("one")
        self.assertEqual(one.get(f"/apis/ex.io/v1/twins:{second}").status, 404)
        self.assertEqual([o["spec"] for o in one.must("GET", f"/apis/ex.io/v1/twins:{first}")["items"]], [{"size": 1}])

    def test_status_cannot_be_forged(self):
        identity = self.export("keys", "Key")
        self.export("jars", "Jar")
        self.bind(self.client("two"), "keys")
        found = self.bind(self.client("one"), "jars")
        bound = self.client("two").must("GET", f"{APIS}/apibindings/keys")["status"]["boundResources"]
        answer = self.client("one").request("PATCH", f"{APIS}/apibindings/jars/status", {"status": {
            "boundResources": found["status"]["boundResources"] + bound}}, headers=MERGE)
        self.assertEqual(answer.status, 403, answer)
        for path in ("keys", f"keys:{identity}"):
            self.assertEqual(self.client("one").get(f"/apis/ex.io/v1/{path}").status, 404)

    def test_am_501_KK_172_conflicts(self):
        self.export("crates", "Crate")
        one, two = self.client("one"), self.client("two")
        self.bind(one, "crates")
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                      "metadata": {"name": "boxes.ex.io"}, "spec": {
                          "group": "ex.io", "scope": "Namespaced", "names": {"plural": "boxes", "kind": "Crate"},
                          "versions": [{"name": "v1", "served": True, "storage": True, "schema": {
                              "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        one.must("POST", crds, definition)

        def refused():
            return conditions(one.must("GET", f"{crds}/boxes.ex.io")).get("NamesAccepted", ("",))[0] == "False"

        kit.eventually(refused, what="names of the definition refused")
        # Where the definition came first the binding waits, and is bound when it has gone.
        two.must("POST", crds, definition)
        kit.eventually(lambda: conditions(two.must("GET", f"{crds}/boxes.ex.io")).get("Established", ("",))[0] == "True")
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "crates"},
                "spec": {"reference": {"export": {"path": "root:prov", "name": "crates"}}}}
        two.must("POST", f"{APIS}/apibindings", body)
        found = self.binding(two, "crates", lambda b: conditions(b).get("Ready", ("", ""))[1] == "NamingConflicts")
        self.assertEqual(conditions(found)["Ready"][2], 'Unable to bind APIs: naming conflict with CustomResourceDefinition '
                         '"boxes.ex.io": spec.names.singular=crate is forbidden')
        two.must("DELETE", f"{crds}/boxes.ex.io")
        self.binding(two, "crates", lambda b: b["status"]["phase"] == "Bound")

    def test_am_502_reserved_groups(self):
        self.client("one").must("POST", f"{RBAC}/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "erin"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "erin"}]})
        erin = self.installation.user_client("erin", path="/clusters/root:one")
        body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "things.my.apis.kcp.io"}, "spec": {
                    "group": "my.apis.kcp.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                    "versions": [{"name": "v1", "served": True, "storage": True,
                                  "schema": {"openAPIV3Schema": {"type": "object"}}}]}}
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        kit.eventually(lambda: erin.get(path).status == 200)
        answer = erin.request("POST", path, body)
        self.assertEqual(answer.status, 403)
        self.assertIn("my.apis.kcp.io is a reserved group", answer.json["message"])

    def test_am_504_a_new_schema(self):
        self.export("drums", "Drum")
        one = self.client("one")
        self.bind(one, "drums")
        self.put(one, "drums", "Drum", "old", {"size": 3})
        second = schema("v2", "drums", "Drum", {"size": {"type": "integer"}, "more": {"type": "string", "default": "new"}})
        second["spec"]["versions"][0]["storage"] = False
        second["spec"]["versions"].append({**second["spec"]["versions"][0], "name": "v2", "storage": True})
        second["spec"]["conversion"] = {"strategy": "None"}
        self.prov.must("POST", SCHEMAS, second)
        begin = time.monotonic()
        self.prov.must("PATCH", f"{APIS}/apiexports/drums", {"spec": {"resources": [
            {"group": "ex.io", "name": "drums", "schema": "v2.drums.ex.io", "storage": {"crd": {}}}]}}, headers=MERGE)

        def seen():
            return one.must("GET", "/apis/ex.io/v2/namespaces/default/drums/old")["spec"] == {"size": 3, "more": "new"}

        kit.eventually(seen, 10, "the new schema")
        print(f"a new schema was served by another shard after {time.monotonic() - begin:.2f} s")
        found = self.binding(one, "drums", lambda b: b["status"]["boundResources"][0]["storageVersions"] == ["v1", "v2"])
        self.assertEqual(conditions(found)["BindingUpToDate"][0], "True")

    def test_am_505_the_export_goes_and_returns(self):
        self.export("eels", "Eel")
        one = self.client("one")
        self.bind(one, "eels")
        self.put(one, "eels", "Eel", "a")
        self.prov.must("DELETE", f"{APIS}/apiexports/eels")
        found = self.binding(one, "eels", lambda b: conditions(b)["APIExportValid"][0] == "False")
        self.assertEqual(conditions(found)["APIExportValid"], ("False", "APIExportNotFound", "APIExport root:prov|eels not found"))
        self.assertEqual((found["status"]["phase"], conditions(found)["Ready"][0]), ("Bound", "True"))
        self.put(one, "eels", "Eel", "b")
        self.assertEqual(self.names(one, "eels"), ["a", "b"])
        self.prov.must("POST", f"{APIS}/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "eels"},
            "spec": {"identity": {"secretRef": {"namespace": "kcp-system", "name": "eels"}}, "resources": [
                {"group": "ex.io", "name": "eels", "schema": "v1.eels.ex.io", "storage": {"crd": {}}}]}})
        self.put(one, "eels", "Eel", "c")
        found = self.binding(one, "eels", lambda b: conditions(b)["Ready"][0] == "True")
        self.assertEqual(conditions(found)["APIExportValid"][:2], ("False", "APIExportNotFound"), "it is another one (KK-173)")
        self.assertEqual(self.names(one, "eels"), ["a", "b", "c"])

    def test_am_506_KK_169_unbinding_honours_finalizers(self):
        self.export("flags", "Flag")
        one, two = self.client("one"), self.client("two")
        self.bind(one, "flags")
        self.bind(two, "flags")
        self.put(one, "flags", "Flag", "free")
        self.put(one, "flags", "Flag", "held", finalizers=["example.test/hold"])
        self.put(two, "flags", "Flag", "others")
        one.must("DELETE", f"{APIS}/apibindings/flags")
        found = self.binding(one, "flags", lambda b: "BindingResourceDeleteSuccess" in conditions(b))
        self.assertEqual(conditions(found)["BindingResourceDeleteSuccess"],
                         ("False", "SomeFinalizersRemain", "Some content in the workspace has finalizers remaining: "
                          "example.test/hold in 1 resource instances"))
        self.assertEqual(self.names(one, "flags"), ["held"])
        self.assertNotEqual(one.request("POST", self.objects("flags"), {
            "apiVersion": "ex.io/v1", "kind": "Flag", "metadata": {"name": "late"}}).status, 201)
        one.must("PATCH", f"{self.objects('flags')}/held", {"metadata": {"finalizers": None}}, headers=MERGE)
        kit.eventually(lambda: one.get(f"{APIS}/apibindings/flags").status == 404, what="the binding gone")
        kit.eventually(lambda: one.get("/apis/ex.io/v1/flags").status == 404, what="the API gone")
        self.assertEqual(self.names(two, "flags"), ["others"])
        self.bind(one, "flags")
        self.assertEqual(self.names(one, "flags"), [])

    def test_am_509_maximal_permission_policy(self):
        self.export("gates", "Gate", maximalPermissionPolicy={"local": {}})
        one = self.client("one")
        self.bind(one, "gates")
        one.must("POST", f"{RBAC}/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "fred"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "fred"}]})
        fred = self.installation.user_client("fred", path="/clusters/root:one")
        kit.eventually(lambda: fred.get("/api/v1/namespaces/default/configmaps").status == 200)
        self.assertEqual(fred.get(self.objects("gates")).status, 403)
        self.prov.must("POST", f"{RBAC}/clusterroles", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "gates"},
            "rules": [{"apiGroups": ["ex.io"], "resources": ["gates"], "verbs": ["list", "get", "watch"]}]})
        self.prov.must("POST", f"{RBAC}/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "gates"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gates"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "apis.kcp.io:binding:fred"}]})
        kit.eventually(lambda: fred.get(self.objects("gates")).status == 200, what="the policy lets fred list")
        connection = fred.connect(50)
        connection.request("GET", f"/clusters/root:one{self.objects('gates')}?watch=true&timeoutSeconds=60")
        stream = connection.getresponse()
        self.assertEqual(stream.status, 200)
        self.prov.must("DELETE", f"{RBAC}/clusterrolebindings/gates")
        last = json.loads(stream.read())
        self.assertEqual((last["type"], last["object"]["code"]), ("ERROR", 403), "the watch ends when the policy takes the right away")
        connection.close()
        answer = fred.request("POST", self.objects("gates"), {"apiVersion": "ex.io/v1", "kind": "Gate", "metadata": {"name": "a"}})
        self.assertEqual(answer.status, 403, answer)

    def test_am_489_a_workspace_goes_with_its_bound_objects(self):
        identity = self.export("hats", "Hat")
        self.make("doomed", "shard-2")
        doomed = self.client("doomed")
        self.bind(doomed, "hats")
        self.put(doomed, "hats", "Hat", "a")
        self.bind(self.client("two"), "hats")
        root = self.installation.client()
        path = "/apis/tenancy.kcp.io/v1alpha1/workspaces/doomed"
        root.must("DELETE", path)
        kit.eventually(lambda: root.get(path).status == 404, 30, "the workspace gone")
        shard = self.everywhere("shard-2")
        self.assertEqual(shard.must("GET", f"/apis/ex.io/v1/hats:{identity}")["items"], [])

    def test_z_bound_apis_outlive_the_exports_shard(self):
        """And what only a cold cache could refuse is 503, then 201, never 403 (KK-005, KK-T005)."""
        self.export("ivies", "Ivy")
        one = self.client("one")
        self.bind(one, "ivies")
        self.put(one, "ivies", "Ivy", "a")
        self.installation.kill("shard-1", signal.SIGKILL)
        self.put(one, "ivies", "Ivy", "b")
        kit.eventually(lambda: self.prov.get("/api/v1/namespaces/default").status == 200, 30, "the export's shard again")
        self.installation.kill("shard-2", signal.SIGSTOP)
        self.export("yews", "Yew")  # of which shard-2 never hears
        self.installation.kill("shard-1", signal.SIGSTOP)
        yews = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "yews"},
                "spec": {"reference": {"export": {"path": "root:prov", "name": "yews"}}}}
        told = set()

        def bound():
            answer = one.request("POST", f"{APIS}/apibindings", yews)
            told.add((answer.status, answer.headers.get("retry-after")))
            return answer.status == 201

        try:
            old = self.installation.pid("shard-2")
            self.installation.kill("shard-2", signal.SIGKILL)
            kit.eventually(lambda: self.installation.pid("shard-2") != old, what="shard-2 is started again")

            def served():
                answer = one.get(self.objects("ivies"))
                return answer.status == 200 and len(answer.json["items"]) == 2

            kit.eventually(served, 30, "bound objects after a restart")
            # Each loop of the proxy finds the shard again by itself.
            kit.eventually(lambda: one.request("POST", self.objects("ivies"), {
                "apiVersion": "ex.io/v1", "kind": "Ivy", "metadata": {"name": "c"}, "spec": {}}).status in (201, 409), what="c is made")
            self.assertEqual(conditions(kit.eventually(lambda: one.must("GET", f"{APIS}/apibindings/ivies")))["Ready"][0], "True")
            self.assertFalse(bound())
            self.assertEqual(told, {(503, "1")})
        finally:
            self.installation.kill("shard-1", signal.SIGCONT)
        kit.eventually(bound, 30, "the binding")
        self.assertEqual({status for status, _ in told}, {503, 201})


if __name__ == "__main__":
    unittest.main()
