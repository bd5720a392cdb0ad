"""In front of shards that behave as kcp's do: the start, and reads over all of them (FP-151, FP-163, FP-164, FP-165)."""
import json
import subprocess
import unittest

import kcp
import kit
from merged import NEWEST, Stream

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
VIEW = "/services/apiexport/root/tenancy.kcp.io/clusters/root/api"
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"}


def prepare(installation):
    installation.make_workspace("org", selector={"name": "root"})
    installation.make_workspace("far", selector={"name": "shard-1"})
    kit.eventually(lambda: installation.client("/clusters/root:far").request("POST", WORKSPACES, {
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "below"}}).status == 201, what="a workspace below")
    kit.eventually(lambda: installation.client("/clusters/root:far").must("GET", f"{WORKSPACES}/below")["status"]["phase"] == "Ready", what="it is ready")


class Shards(unittest.TestCase):
    """What the shards of these tests are: kcp's answers (17.3)."""

    @classmethod
    def setUpClass(cls):
        cls.kcp = kcp.Kcp(cls, prepare=prepare)

    def test_all_clusters_are_for_masters_alone(self):
        admin = kit.Client(self.kcp.url("root") + "/clusters/*", self.kcp.pki / "serving-ca.crt", self.kcp.pki / "admin.crt", self.kcp.pki / "admin.key")
        everywhere = self.kcp.masters("root", "/clusters/*")
        for path in ("/api/v1/namespaces", WORKSPACES, "/apis"):
            self.assertEqual(admin.get(path).status, 403, path)
        self.assertEqual(everywhere.get("/api/v1/namespaces").status, 200)

    def test_FP_094_exported_kinds_want_the_identity(self):
        root = self.kcp.masters("root")
        identity = root.must("GET", "/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io")["status"]["identityHash"]
        everywhere = self.kcp.masters("root", "/clusters/*")
        self.assertEqual(everywhere.get(WORKSPACES).status, 404)
        self.assertEqual(everywhere.get(f"{WORKSPACES}:{identity}").status, 200)
        metadata = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
        self.assertEqual(everywhere.get(WORKSPACES, headers=metadata).status, 200)

    def test_virtual_workspaces_have_a_server_of_their_own(self):
        shards = self.kcp.masters("root").must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]
        for shard in shards:
            self.assertNotEqual(shard["spec"]["virtualWorkspaceURL"], shard["spec"]["baseURL"])
        self.assertEqual(self.kcp.masters("root", "").get(VIEW).status, 404)
        url = next(shard["spec"]["virtualWorkspaceURL"] for shard in shards if shard["metadata"]["name"] == "root")
        services = kit.Client(url, self.kcp.pki / "serving-ca.crt", self.kcp.pki / "shard-admin.crt", self.kcp.pki / "shard-admin.key")
        self.assertEqual(services.get(VIEW).status, 200)
        self.assertEqual(services.get("/clusters/root/api").status, 404)

    def test_paths_of_other_shards_are_429(self):
        answer = self.kcp.masters("root", "").get("/clusters/root:far/api")
        self.assertEqual((answer.status, answer.headers["Retry-After"], answer.body), (429, "1", b"Not found on this shard\n"))


class Start(unittest.TestCase):
    def test_FP_151_FP_155_FP_156_what_is_asked_before_the_first_request(self):
        installation = kcp.Kcp(self, prepare=prepare)
        before = {name: len(installation.audit(name)) for name in installation.names}
        own = {name: [] for name in installation.names}

        def look():
            for name in installation.names:
                own[name] = [row for row in installation.audit(name)[before[name]:] if row[4].startswith("kintsugi-proxy/")]
            return all(any("apibindings" in row[1] for row in rows) for rows in own.values())

        with installation.proxy() as proxy:
            kit.eventually(look, 15, "the lines of the audit logs")
            answer = proxy.client("").get("/clusters/root:far/api/v1/namespaces/default")
            self.assertEqual(answer.status, 200)
        root, far = own["root"], own["shard-1"]
        exports = "/clusters/root/apis/apis.kcp.io/v1alpha2/apiexports/"
        shards = "/clusters/root/apis/core.kcp.io/v1alpha1/shards"
        # The log has the path without the identity, which these shards require.
        wildcards = {f"/clusters/*{path}" for path in (WORKSPACES, "/apis/core.kcp.io/v1alpha1/logicalclusters",
                                                       "/apis/apis.kcp.io/v1alpha2/apiexports", "/apis/apis.kcp.io/v1alpha2/apibindings")}

        def paths(rows, user):
            return [row[1].replace("%2A", "*") for row in rows if row[2] == user]

        # The root kubeconfig has a token of kcp-admin, the other one the certificate of shard-admin.
        first = paths(root, "kcp-admin")
        self.assertEqual(set(first), {shards, *(exports + name for name in ("tenancy.kcp.io", "topology.kcp.io", "shards.core.kcp.io",
                                                                           "migration.kcp.io"))})
        self.assertLess(first.index(exports + "tenancy.kcp.io"), first.index(shards), "identities, then Shards")
        for rows in (root, far):
            self.assertEqual(set(paths(rows, "shard-admin")) - {"/livez"}, wildcards)
            self.assertEqual({row[2] for row in rows}, {"kcp-admin", "shard-admin"} if rows is root else {"shard-admin"})
        listed = [row[1].replace("%2A", "*") for row in root]
        self.assertLess(listed.index(shards), min(listed.index(path) for path in wildcards))
        # Nobody was anonymous, nothing was refused but what a kcp without that export has not.
        refused = [row for rows in own.values() for row in rows if row[3] is not None and row[3] >= 400]
        self.assertEqual([row for row in refused if "migration.kcp.io" not in row[1]], [])


class Reads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kcp = kcp.Kcp(cls, prepare=prepare)
        cls.proxy = cls.kcp.proxy("wildcard: reviewed\naggregation: {authz: {recheck_ms: 600000, cache_ms: 1000}}\n")
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)

    def grant(self, user, *urls):
        """In root, by whoever administers it: nobody becomes a master."""
        root = self.kcp.user(self.proxy, "root-admin", "/clusters/root", ("system:kcp:admin",))
        root.must("POST", RBAC + "/clusterroles", {"metadata": {"name": user}, "rules": [{"nonResourceURLs": list(urls), "verbs": ["get"]}]})
        root.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": user}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
        return lambda: root.must("DELETE", f"{RBAC}/clusterrolebindings/{user}")

    def test_FP_163_without_the_right_it_is_refused(self):
        with self.kcp.proxy("wildcard: serve\n") as proxy:
            self.assertEqual(self.kcp.user(proxy, "nobody").get("/api/v1/namespaces").status, 403)
            self.assertEqual(self.kcp.user(proxy, "master", groups=("system:masters",)).get("/api/v1/namespaces").status, 403)
        nobody = self.kcp.user(self.proxy, "nobody")
        for path in ("/api/v1/namespaces", WORKSPACES, f"{WORKSPACES}?watch=true", "/apis", "/api/v1", "/openapi/v3", "/version"):
            answer = nobody.get(path)
            where = "/clusters/*" + path.partition("?")[0]
            self.assertEqual((answer.status, answer.json["message"]), (403, f'forbidden: User "nobody" cannot get path "{where}": access denied'))

    def test_FP_163_FP_164_with_it_workspaces_of_all_shards_are_read(self):
        reader = self.kcp.user(self.proxy, "reader")
        self.assertEqual(reader.get(WORKSPACES).status, 403)
        revoke = self.grant("reader", f"/clusters/*{WORKSPACES}", "/clusters/*/apis", "/clusters/*/apis/*")
        listed = kit.eventually(lambda: (a := reader.get(WORKSPACES)).status == 200 and a, 15, "the right").json
        self.assertEqual(sorted(item["metadata"]["name"] for item in listed["items"]), ["below", "far", "org"])
        self.assertEqual((listed["kind"], listed["apiVersion"]), ("WorkspaceList", "tenancy.kcp.io/v1alpha1"))
        self.assertEqual(reader.get("/api/v1/secrets").status, 403, "of other paths it says nothing")
        # The shards are told of nobody, and the name of the resource is whole there.
        for name in self.kcp.names:
            asked = [row for row in self.kcp.audit(name) if WORKSPACES in row[1] and row[1].startswith("/clusters/*") and row[2] != "shard-admin"]
            self.assertEqual(asked, [])
        def opened():  # another loop may remember for a second that it was denied
            stream = Stream(reader, f"{WORKSPACES}?watch=true&{NEWEST}")
            self.addCleanup(stream.close)
            return stream.status == 200 and stream

        stream = kit.eventually(opened, 15, "the right to watch").until_synced()
        self.assertEqual(len(stream.objects()), 3)
        far = self.kcp.user(self.proxy, "root-admin", "/clusters/root:far", ("system:kcp:admin",))
        far.must("POST", WORKSPACES, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "later"}})
        stream.until(lambda _: any(one["object"]["metadata"]["name"] == "later" for one in stream.objects()), "the new one")
        revoke()
        kit.eventually(lambda: stream.ended, 15, "the watch ends with the right")
        self.assertEqual((stream.events[-1]["type"], stream.events[-1]["object"]["code"]), ("ERROR", 403))
        far.must("DELETE", f"{WORKSPACES}/later")

    def test_FP_164_a_resource_with_its_identity_is_taken_as_it_is(self):
        self.grant("exact", "/clusters/*/apis/*")
        reader = self.kcp.user(self.proxy, "exact")
        identity = self.kcp.masters("root").must("GET", "/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io")["status"]["identityHash"]
        self.assertEqual(kit.eventually(lambda: (a := reader.get(f"{WORKSPACES}:{identity}")).status != 403 and a, 15).status, 200)
        self.assertEqual(reader.get(f"{WORKSPACES}:{'0' * 64}").status, 404)
        self.assertEqual(reader.get("/apis/core.kcp.io/v1alpha1/shards").status, 200)
        self.assertEqual(reader.get("/apis/core.kcp.io/v1alpha1/logicalclusters").status, 200, "kcp's own kinds that no export has")

    def test_FP_165_discovery_has_no_group_without_a_resource(self):
        self.grant("discoverer", "/clusters/*/*")
        reader = self.kcp.user(self.proxy, "discoverer")
        kit.eventually(lambda: reader.get("/apis").status == 200, 15, "the right")
        groups = {group["name"] for group in reader.must("GET", "/apis")["groups"]}
        found = {item["metadata"]["name"]: item for item in reader.must("GET", "/apis", headers=AGGREGATED)["items"]}
        self.assertEqual(groups, set(found))
        for group in ("authentication.k8s.io", "authorization.k8s.io"):
            self.assertNotIn(group, groups)
            for path in (f"/apis/{group}", f"/apis/{group}/v1"):
                self.assertEqual(reader.get(path).status, 404, path)
        for item in found.values():
            for version in item["versions"]:
                self.assertTrue(version["resources"], item["metadata"]["name"])
                self.assertTrue(reader.must("GET", f"/apis/{item['metadata']['name']}/{version['version']}")["resources"])
        kubectl = self.kubectl("discoverer")
        listed = kubectl("api-resources", "--no-headers")
        for name in ("workspaces", "logicalclusters", "configmaps", "shards"):
            self.assertIn(name, listed)
        self.assertIn("below", kubectl("get", "workspaces"))

    def kubectl(self, user):
        cert, key = kit.make_user(self.kcp.installation.dir, self.kcp.pki, user, ())
        path = self.kcp.installation.dir / f"{user}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": f"https://127.0.0.1:{self.proxy.port}/clusters/*",
                                                   "certificate-authority": f"{self.kcp.pki}/serving-ca.crt"}}],
            "users": [{"name": "x", "user": {"client-certificate": str(cert), "client-key": str(key)}}]}))
        command = [kit.needs_kubectl(), f"--kubeconfig={path}", f"--cache-dir={self.kcp.installation.dir / 'cache'}"]

        def run(*arguments):
            done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout

        return run

    def test_virtual_workspaces_are_reached_at_their_own_servers(self):
        admin = self.kcp.user(self.proxy, "root-admin", "", ("system:kcp:admin",))
        self.assertEqual(admin.get(VIEW).status, 200)


if __name__ == "__main__":
    unittest.main()
