"""Merged reads that reviewed callers share (AGG-904), over an APIExport with consumers on every shard."""
import base64
import json
import re
import subprocess
import unittest

import kit
from merged import NEWEST, Stream

APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "reviewed.test"
WIDGETS = f"/apis/{GROUP}/v1/widgets"
SHARDS = ("root", "shard-1", "shard-2")


class Reviewed(unittest.TestCase):
    """A provider on shard-1, a consumer on each shard, and a proxy with share: reviewed that looks again only when it is told."""

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.cluster, cls.at = {}, {}
        for name, shard in (("prov", "shard-1"), *((f"on-{shard}", shard) for shard in SHARDS)):
            cls.cluster[name] = cls.installation.make_workspace(name, selector={"name": shard})["spec"]["cluster"]
            cls.at[name] = cls.installation.client(f"/clusters/root:{name}")
        prov = cls.at["prov"]
        prov.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.widgets.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced",
                     "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
        prov.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "widgets"},
            "spec": {"resources": [{"group": GROUP, "name": "widgets", "schema": f"v1.widgets.{GROUP}", "storage": {"crd": {}}}]}})
        prov.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "reader"}, "rules": [
            {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["list", "watch"], "resourceNames": ["widgets"]},
            {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
        for user in ("alice", "bob"):
            cls.grant(user)
        for shard in SHARDS:
            consumer = cls.at[f"on-{shard}"]
            kit.eventually(lambda at=consumer: at.request("POST", APIS + "/apibindings", {
                "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "widgets"},
                "spec": {"reference": {"export": {"path": "root:prov", "name": "widgets"}}}}).status == 201, what="bound")
            kit.eventually(lambda at=consumer: at.must("GET", f"{APIS}/apibindings/widgets")["status"]["phase"] == "Bound", what="Bound")
            cls.put(shard, "first")
        cert, key = kit.make_user(cls.installation.dir, cls.installation.pki, "kintsugi-proxy-reviewed", ("system:kintsugi:reader",))
        access = (cls.installation.state / "shards" / "root" / "proxy.kubeconfig").read_text()
        for field, file in (("client-certificate-data", cert), ("client-key-data", key)):
            access = re.sub(rf"{field}: .*", f"{field}: {base64.b64encode(file.read_bytes()).decode()}", access)
        reader = cls.installation.dir / "reader.kubeconfig"
        kit.replace_file(reader, access.encode())
        reader.chmod(0o600)
        cls.proxy = kit.Proxy(cls.installation, {"topology": {"reviewed_kubeconfig": str(reader)}, "wildcard": "serve", "aggregation": {
            "share": "reviewed", "authz": "{recheck_ms: 600000, cache_ms: 1000}"}}, loops=1)
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)
        cls.view = f"/services/apiexport/{cls.cluster['prov']}/widgets/clusters/*"
        kit.eventually(lambda: len(cls.user("alice").must("GET", WIDGETS)["items"]) == 3, 30, "all shards")

    @classmethod
    def grant(cls, user):
        cls.at["prov"].must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": f"reader-{user}"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})

    @classmethod
    def put(cls, shard, name):
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {}}
        kit.eventually(lambda: cls.at[f"on-{shard}"].request("POST", f"/apis/{GROUP}/v1/namespaces/default/widgets", body).status == 201,
                       what=f"{name} made")

    @classmethod
    def user(cls, name, path=None, groups=()):
        cert, key = kit.make_user(cls.installation.dir, cls.installation.pki, name, groups)
        return kit.Client(f"https://127.0.0.1:{cls.proxy.port}{path or cls.view}", cls.installation.pki / "serving-ca.crt", cert, key)

    def watch(self, user, more=""):
        stream = Stream(self.user(user), f"{WIDGETS}?watch=true&{more or NEWEST}")
        self.addCleanup(stream.close)
        return stream

    def groups(self):
        answer = subprocess.run(["curl", "-sS", "--unix-socket", str(self.proxy.dir / "admin.sock"), "http://admin/debug/streams"],
                                capture_output=True, text=True, timeout=60, check=True)
        return json.loads(answer.stdout)["mergedWatches"]

    def test_T90_T103_streams_are_shared_and_end_with_the_right(self):
        alice, bob = self.watch("alice").until_synced(), self.watch("bob").until_synced()
        more = [self.watch("bob").until_synced() for _ in range(3)]
        def one_group():
            groups = [g for g in self.groups() if g["readers"] == 5]
            return groups and all(s["state"] == "live" for s in groups[0]["shards"]) and groups[0]
        group = kit.eventually(one_group, 15, "one group")
        self.assertEqual((group["share"], group["callers"], group["streams"], group["streamsUnshared"]), ("reviewed", 2, 3, 15))
        kit.eventually(lambda: self.proxy.metric("kintsugi_watch_reviewed_streams") == 5, what="five watches are counted")
        kit.eventually(lambda: self.proxy.metric("kintsugi_authz_grant_watches") == 1, what="one watch of grants")
        for user in ("carol", "alice2"):
            self.assertEqual(self.user(user).get(WIDGETS).status, 403)
            self.assertEqual(self.watch(user).status, 403)
            self.assertEqual(self.watch(user, f"resourceVersion={alice.bookmarks()[-1]['object']['metadata']['resourceVersion']}").status, 403)
        clock = kit.Clock()
        self.at["prov"].must("DELETE", RBAC + "/clusterrolebindings/reader-alice")
        kit.eventually(lambda: alice.ended, 10, "the watch ends with its right")
        self.assertLess(clock.spent(), 2)
        self.assertEqual((alice.events[-1]["type"], alice.events[-1]["object"]["code"]), ("ERROR", 403))
        self.assertIsNone(alice.error)
        self.assertEqual(self.user("alice").get(WIDGETS).status, 403)
        for shard in SHARDS:
            self.put(shard, "later")
        for stream in [bob, *more]:
            stream.until(lambda _, s=stream: len(s.objects()) == 6, "three more events")
        self.assertEqual(len(alice.objects()), 3)
        self.grant("alice")
        kit.eventually(lambda: self.user("alice").get(WIDGETS).status == 200, 10, "the right is back")
        self.assertEqual(len(self.watch("alice").until_synced().objects()), 6)

    def test_T90_other_wildcards_are_read_as_the_caller(self):
        path = "/api/v1/configmaps"
        self.assertEqual(self.user("alice", "/clusters/*").get(path).status, 403)
        admin = Stream(self.proxy.client("/clusters/*"), f"{path}?watch=true&{NEWEST}")
        self.addCleanup(admin.close)
        admin.until_synced()
        self.assertEqual({g["share"] for g in self.groups() if g["path"].endswith("/configmaps")}, {"caller"})

    def test_T89_nobody_speaks_for_others_in_a_virtual_workspace(self):
        """KK-327: rights to impersonate hold in one logical cluster; here none is meant, whatever the right in the export's."""
        refusal = "forbidden: impersonation is not allowed for the requestor"
        of_one = f"/services/apiexport/{self.cluster['prov']}/widgets/clusters/{self.cluster['on-root']}"
        every = [rule for verb in ("impersonate", "impersonate:user-info", "impersonate-on:user-info:list", "impersonate-on:user-info:watch")
                 for rule in ({"apiGroups": ["", "authentication.k8s.io", GROUP], "resources": ["*"], "verbs": [verb]},)]
        prov = self.at["prov"]
        prov.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "speaker"}, "rules": [*every, {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
        prov.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "speaker"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "speaker"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "speaker"}]})
        own = "/clusters/" + self.cluster["prov"]
        kit.eventually(lambda: self.user("speaker", own).get("/apis", headers={"Impersonate-User": "alice"}).status == 200, 15, "he may, there")
        for user in ("bob", "alice", "speaker", "carol"):
            for view in (self.view, of_one):
                for query in ("", "?watch=true&timeoutSeconds=1"):
                    answer = self.user("speaker", view).request("GET", WIDGETS + query, headers={"Impersonate-User": user})
                    self.assertEqual((answer.status, answer.json["message"]), (403, refusal), (user, view))
        self.assertEqual(self.user("bob").get(WIDGETS).status, 200)

    def test_T90_claimed_apis_of_others_are_read_as_the_caller(self):
        """Their maximal permission policies judge alice and bob, who may not have what the other has."""
        at, content = self.at["prov"], {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["*"]}
        self.cluster["west"] = self.installation.make_workspace("west", selector={"name": "shard-2"})["spec"]["cluster"]
        self.at["west"] = west = self.installation.client("/clusters/root:west")
        west.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.sheriffs.west.test"},
            "spec": {"group": "west.test", "scope": "Namespaced",
                     "names": {"plural": "sheriffs", "singular": "sheriff", "kind": "Sheriff", "listKind": "SheriffList"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
        west.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "sheriffs"},
            "spec": {"maximalPermissionPolicy": {"local": {}}, "resources": [
                {"group": "west.test", "name": "sheriffs", "schema": "v1.sheriffs.west.test", "storage": {"crd": {}}}]}})
        identity = kit.eventually(lambda: west.must("GET", APIS + "/apiexports/sheriffs").get("status", {}).get("identityHash"))
        self.allow(west, "owners", {"apiGroups": ["west.test"], "resources": ["sheriffs"], "verbs": ["*"]}, "apis.kcp.io:binding:kcp-admin")
        self.allow(west, "readers", {"apiGroups": ["west.test"], "resources": ["sheriffs"], "verbs": ["list", "watch"]},
                   "apis.kcp.io:binding:alice")
        claim = {"group": "west.test", "resource": "sheriffs", "identityHash": identity, "verbs": ["*"]}
        at.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "towns"}, "spec": {"permissionClaims": [claim]}})
        self.allow(at, "towns", content, "alice", "bob")
        consumer = self.at["on-root"]
        accepted = dict(claim, selector={"matchAll": True}, state="Accepted")
        for path, name, claims in (("root:west", "sheriffs", []), ("root:prov", "towns", [accepted])):
            kit.eventually(lambda: consumer.request("POST", APIS + "/apibindings", {
                "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": path, "name": name}}, "permissionClaims": claims}}).status == 201, what="bound")
        kit.eventually(lambda: consumer.request("POST", "/apis/west.test/v1/namespaces/default/sheriffs", {
            "apiVersion": "west.test/v1", "kind": "Sheriff", "metadata": {"name": "s"}}).status == 201, 20, "a sheriff")
        view, sheriffs = f"/services/apiexport/{self.cluster['prov']}/towns/clusters/*", "/apis/west.test/v1/sheriffs"
        kit.eventually(lambda: [o["metadata"]["name"] for o in (self.user("alice", view).get(sheriffs).json or {}).get("items", [])] == ["s"],
                       20, "alice reads")
        stream = Stream(self.user("alice", view), f"{sheriffs}?watch=true&{NEWEST}")
        self.addCleanup(stream.close)
        stream.until_synced()
        refused = Stream(self.user("bob", view), f"{sheriffs}?watch=true&{NEWEST}")
        self.addCleanup(refused.close)
        self.assertEqual((self.user("bob", view).get(sheriffs).status, refused.status), (403, 403))
        group, = [g for g in self.groups() if g["path"].endswith("/sheriffs") and g["readers"]]
        self.assertEqual((group["share"], group["user"]), ("caller", "alice"))

    def allow(self, at, role, rule, *users):
        at.must("POST", RBAC + "/clusterroles", {"metadata": {"name": role}, "rules": [rule, {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
        at.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user} for user in users]})


if __name__ == "__main__":
    unittest.main()
