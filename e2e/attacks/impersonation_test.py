"""Rights outside the logical cluster where they were given: an administrator of A speaks for others, with what they have in B.
Each attack by every form of path and spelling of headers, through the proxy and at the shard itself."""
import json
import subprocess
import unittest

import kit

APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
MAPS = "/api/v1/namespaces/default/configmaps"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/{}/token"
SCOPES, CLUSTER_NAME = "authentication.kcp.io/scopes", "authentication.kcp.io/cluster-name"
WARRANT = "authorization.kcp.io/warrant"
REFUSAL = "forbidden: impersonation is not allowed for the requestor"
XLCA = "system:kcp:external-logical-cluster-admin"
MASTERS = json.dumps({"user": "admin", "groups": ["system:masters", "system:kcp:admin"]})

# KK-324: what only system:masters may ask for.
RESERVED = (
    *({"Impersonate-User": "eve", "Impersonate-Group": group} for group in (
        "system:masters", "system:kcp:admin", "system:kcp:logical-cluster-admin", XLCA, "system:kcp:tenancy:workspace-bootstrapper",
        "system:kcp:initializer:root:x", "system:kcp:terminator:root:x", "apis.kcp.io:binding:y", "system:cluster:B", "system:nodes",
        "system:kintsugi:proxy")),
    *({"Impersonate-User": user} for user in ("system:admin", "system:apiserver", "system:kcp:serviceaccount:c:default:r")),
    {"Impersonate-User": "eve", "Impersonate-Extra-Authorization.kcp.io%2fwarrant": MASTERS},
    {"Impersonate-User": "eve", "impersonate-extra-authorization%2Ekcp.io%2Fwarrant": MASTERS},
    {"Impersonate-User": "eve", "Impersonate-Extra-Authentication.kcp.io%2fcluster-name": "root"},
)


def spellings(headers):
    yield headers
    yield {name.lower(): value for name, value in headers.items()}
    yield {name.upper(): value for name, value in headers.items()}
    yield {name.replace("Impersonate-", "Impersonate_").replace("impersonate-", "impersonate_"): value for name, value in headers.items()}


def rule(group, resource, *verbs, **more):
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs), **more}


ENTER = {"nonResourceURLs": ["/"], "verbs": ["access"]}


class Attack(unittest.TestCase):
    """`prov` is the provider's, with an APIExport and a WorkspaceType that nobody else may use; `a` is mallory's, where she may
    impersonate whom she likes; `b` is another's, on the shard of `prov`, and consumes the export. `near` is on the shard of `a`."""

    installation = None

    @classmethod
    def setUpClass(cls):
        if Attack.installation is None:
            Attack.begin()

    @classmethod
    def begin(cls):
        cls.installation = kit.Installation(shards=2).start_for()
        cls.name, cls.at = {}, {}
        for name, shard in (("prov", "shard-1"), ("a", "root"), ("b", "shard-1"), ("near", "root")):
            cls.name[name] = cls.installation.make_workspace(name, selector={"name": shard})["spec"]["cluster"]
            cls.at[name] = cls.installation.client(f"/clusters/root:{name}")
        shards = cls.installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]
        cls.urls = {shard["metadata"]["name"]: shard["spec"]["baseURL"] for shard in shards}
        cls.own("a", "mallory")
        for name in ("prov", "b", "a"):  # in `a` the provider is welcome, too
            cls.own(name, "provider")
        prov = cls.at["prov"]
        prov.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.gems.own.test"},
            "spec": {"group": "own.test", "scope": "Namespaced",
                     "names": {"plural": "gems", "singular": "gem", "kind": "Gem", "listKind": "GemList"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
        prov.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "gems"},
            "spec": {"resources": [{"group": "own.test", "name": "gems", "schema": "v1.gems.own.test", "storage": {"crd": {}}}]}})
        prov.must("POST", TENANCY + "/workspacetypes", {
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": "private"}, "spec": {}})
        cls.view = f"/services/apiexport/{cls.name['prov']}/gems"
        cls.mallory, cls.provider = cls.user("mallory"), cls.user("provider")
        kit.eventually(lambda: cls.provider.request("POST", f"/clusters/root:b{APIS}/apibindings", cls.binding("gems")).status in (201, 409),
                       30, "who may bind binds")
        kit.eventually(lambda: cls.provider.get(f"{cls.view}/clusters/*/apis/own.test/v1/gems").status == 200, 30, "content")
        kit.eventually(lambda: cls.mallory.get(f"/clusters/root:a{MAPS}", headers={"Impersonate-User": "provider"}).status == 200,
                       30, "in her own workspace she speaks for him")

    @classmethod
    def user(cls, name, groups=(), path=""):
        return cls.installation.user_client(name, groups, path)

    @classmethod
    def at_shard(cls, shard, name, groups=()):
        cert, key = kit.make_user(cls.installation.dir, cls.installation.pki, name, groups)
        return kit.Client(cls.urls[shard], cls.installation.pki / "serving-ca.crt", cert, key)

    @classmethod
    def grant(cls, workspace, name, user, *rules):
        cls.at[workspace].must("POST", RBAC + "/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
        cls.at[workspace].must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})

    @classmethod
    def own(cls, workspace, user):
        cls.at[workspace].must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": f"owner-{user}"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})

    @staticmethod
    def binding(name):
        return {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": "root:prov", "name": "gems"}}}}

    def forms(self, workspace):
        """Where requests to one workspace can be sent, by whom and how."""
        shard = {"a": "root", "near": "root", "prov": "shard-1", "b": "shard-1"}[workspace]
        name = self.name[workspace]
        yield self.mallory, f"/clusters/root:{workspace}"
        yield self.mallory, f"/clusters/{name}"
        yield self.mallory, f"/clusters/root%3A{workspace}"
        yield self.mallory, f"/shards/{shard}/clusters/{name}"
        yield self.at_shard(shard, "mallory"), f"/clusters/{name}"
        yield self.at_shard(shard, "mallory"), f"/clusters/root:{workspace}"


class Scopes(Attack):
    def whoami(self, client, path, **headers):
        return client.must("POST", path + kit.SELF_REVIEWS, kit.SELF_REVIEW, headers=headers)["status"]["userInfo"]

    def test_KK_T131_who_is_impersonated_is_so_in_one_cluster(self):
        here = f"cluster:{self.name['a']}"
        as_him = {"Impersonate-User": "provider", "Impersonate-Group": "devs"}
        for client in (self.mallory, self.at_shard("root", "mallory")):
            found = self.whoami(client, "/clusters/root:a", **as_him)
            self.assertEqual(found["extra"], {SCOPES: [here]})
            both = {**as_him, "Impersonate-Extra-Authentication.kcp.io%2fscopes": here + ",cluster:x"}
            self.assertEqual(self.whoami(client, "/clusters/root:a", **both)["extra"], {SCOPES: [here + ",cluster:x", here]})
            other = {**as_him, "Impersonate-Extra-Authentication.kcp.io%2fscopes": "cluster:x"}
            self.assertEqual(client.get("/clusters/root:a/api/v1/namespaces", headers=other).status, 403, "in scope nowhere")
        self.assertEqual(self.whoami(self.installation.client(""), "/clusters/root:a", **as_him)["extra"], {SCOPES: [here]})
        pki = self.installation.pki
        masters = kit.Client(self.urls["root"], pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")
        self.assertNotIn("extra", self.whoami(masters, "/clusters/root:a", **as_him))

    def test_SE_T008_the_provider_is_nobody_elsewhere(self):
        """bind, use, slices and content, as the provider, by each form: what he may, mallory may not for him."""
        his = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "his"},
               "spec": {"type": {"path": "root:prov", "name": "private"}}}
        kit.eventually(lambda: self.provider.request("POST", f"/clusters/root:a{TENANCY}/workspaces", his).status == 201, 20, "he may")
        variants = ({}, {"Impersonate-Extra-Authentication.kcp.io%2fscopes": f"cluster:{self.name['prov']},cluster:{self.name['a']}"},
                    {"Impersonate-Group": "system:authenticated"}, {"Impersonate-Uid": "1"})
        as_provider = [{**headers, **more} for headers in ({"Impersonate-User": "provider"}, {"IMPERSONATE-USER": "provider"})
                       for more in variants]
        for number, headers in enumerate(as_provider):
            for client, path in self.forms("a"):
                through_shards = path.startswith("/shards/")
                with self.subTest(path=path, base=client.url.netloc, headers=headers):
                    seen = client.get(path + MAPS, headers=headers)
                    self.assertEqual(seen.status, 403 if through_shards else 200, seen)
                    name = f"x{number}"
                    bind = client.request("POST", f"{path}{APIS}/apibindings", self.binding(name), headers=headers)
                    self.assertEqual(bind.status, 403, bind)
                    use = client.request("POST", f"{path}{TENANCY}/workspaces", {
                        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
                        "spec": {"type": {"path": "root:prov", "name": "private"}}}, headers=headers)
                    self.assertEqual(use.status, 403, use)
                    if not through_shards:
                        self.assertIn("no permission to bind to export root:prov:gems", bind.json["message"])
                    slices = client.request("POST", path + SLICES, {
                        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": name},
                        "spec": {"export": {"path": "root:prov", "name": "gems"}}}, headers=headers)
                    self.assertIn(slices.status, (403, 404), slices)
            for workspace in ("b", "prov"):
                for client, path in self.forms(workspace):
                    answer = client.get(path + MAPS, headers=headers)
                    self.assertIn(answer.status, (403, 404), answer)
        self.assertEqual([b["metadata"]["name"] for b in self.at["a"].must("GET", f"{APIS}/apibindings")["items"]
                          if b["metadata"]["name"].startswith("x")], [])
        made = self.provider.request("POST", f"/clusters/root:a{APIS}/apibindings", self.binding("really-his"))
        self.assertEqual(made.status, 201, made)

    def test_SE_T008_content_of_the_export_by_each_form(self):
        name = self.name["b"]
        for path in (f"{self.view}/clusters/{name}", f"{self.view}/clusters/*", f"{self.view}/clusters/root:b",
                     f"/shards/shard-1{self.view}/clusters/{name}", f"/shards/shard-1{self.view}/clusters/*"):
            for user in ("provider", "admin", "mallory"):
                answer = self.mallory.get(path + "/apis/own.test/v1/gems", headers={"Impersonate-User": user})
                self.assertEqual(answer.status, 403, (path, answer))
            # Nor may he who has the right speak for others there, whatever he may in his own workspace.
            answer = self.provider.get(path + "/apis/own.test/v1/gems", headers={"Impersonate-User": "provider"})
            self.assertEqual((answer.status, answer.json["message"]), (403, REFUSAL), path)
        at_shard = self.at_shard("shard-1", "provider")
        for path in (f"{self.view}/clusters/{name}", f"{self.view}/clusters/*"):
            answer = at_shard.get(path + "/apis/own.test/v1/gems", headers={"Impersonate-User": "provider"})
            self.assertEqual((answer.status, answer.json["message"]), (403, REFUSAL), path)

    def test_SE_T008_roles_that_ask_for_groups_hold_out_of_scope_for_nobody(self):
        """A group that may bind, named by mallory for somebody: in `prov` she is not in it."""
        self.at["prov"].must("POST", RBAC + "/clusterroles", {"metadata": {"name": "guild"}, "rules": [
            rule("apis.kcp.io", "apiexports", "bind", resourceNames=["gems"]), ENTER]})
        self.at["prov"].must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "guild"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "guild"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "guild"}]})
        member = self.user("member", ("guild",))
        self.own("near", "member")
        kit.eventually(lambda: member.request("POST", f"/clusters/root:near{APIS}/apibindings", self.binding("by-group")).status in (201, 409),
                       20, "a member may")
        for client, path in self.forms("a"):
            answer = client.request("POST", f"{path}{APIS}/apibindings", self.binding("stolen"),
                                    headers={"Impersonate-User": "mallory", "Impersonate-Group": "guild"})
            self.assertEqual(answer.status, 403, (path, answer))


class Gate(Attack):
    def paths(self):
        """(client, path, whether nobody but system:masters speaks for others there)"""
        name = self.name["a"]
        for client, path in self.forms("a"):
            yield client, path + MAPS, False
        yield self.mallory, f"/clusters/root:a{SLICES}", False
        yield self.mallory, "/clusters/root:a/apis/topology.kcp.io/v1alpha1/partitions", False
        for path in ("/clusters/*/api/v1/configmaps", "/clusters/%2A/api/v1/configmaps", "/clusters/*/apis",
                     "/clusters/*/apis/topology.kcp.io/v1alpha1/partitions", "/shards/root/clusters/*/api/v1/configmaps",
                     f"{self.view}/clusters/*/apis/own.test/v1/gems", f"{self.view}/clusters/{name}/apis/own.test/v1/gems",
                     f"/shards/shard-1{self.view}/clusters/*/apis/own.test/v1/gems",
                     f"/services/initializingworkspaces/root:universal/clusters/{name}{MAPS}",
                     "/services/initializingworkspaces/root:universal/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters"):
            yield self.mallory, path, True
        for path in (f"{self.view}/clusters/*/apis/own.test/v1/gems", "/clusters/*/api/v1/configmaps"):
            yield self.at_shard("shard-1", "mallory"), path, True

    def test_KK_T132_reserved_identities_are_refused(self):
        """KK-322: what kcp lets through."""
        for client, path, _ in self.paths():
            for headers in RESERVED:
                for spelled in spellings(headers):
                    answer = client.get(path, headers=spelled)
                    with self.subTest(path=path, headers=spelled):
                        self.assertEqual((answer.status, answer.json["message"]), (403, REFUSAL))

    def test_KK_T133_where_nobody_speaks_for_others(self):
        for client, path, shared in self.paths():
            if not shared:
                continue
            for headers in ({"Impersonate-User": "eve"}, {"impersonate_user": "eve"}, {"Impersonate-Group": "devs"},
                            {"Impersonate-Uid": "1"}, {"Impersonate-Extra-X": "1"}):
                answer = client.get(path, headers=headers)
                with self.subTest(path=path, headers=headers):
                    self.assertEqual((answer.status, answer.json["message"]), (403, REFUSAL))
        admin = self.installation.client("")
        for path in ("/clusters/*/api/v1/configmaps", f"{self.view}/clusters/*/apis/own.test/v1/gems"):
            self.assertEqual(admin.get(path, headers={"Impersonate-User": "eve"}).status, 403, path)

    def test_KK_T130_what_may_be_asked_for(self):
        for client in (self.mallory, self.at_shard("root", "mallory")):
            path = "/clusters/root:a/api/v1/namespaces"
            self.assertEqual(client.get(path, headers={"Impersonate-User": "provider"}).status, 200)
            self.assertEqual(client.get(path, headers={"Impersonate-Group": "devs"}).status, 400)
            self.assertEqual(client.get(path, headers={"Impersonate-User": "provider", "Impersonate-Group": "system:authenticated"}).status, 200)
            many = {f"Impersonate-Extra-X{i}": "1" for i in range(64)}
            self.assertEqual(client.get(path, headers={"Impersonate-User": "provider", **many}).status, 400)
            large = {"Impersonate-Extra-" + c: c * 13_000 for c in "abcdef"}
            self.assertIn(client.get(path, headers={"Impersonate-User": "provider", **large}).status, (400, 431))
            self.assertEqual(client.get(path, headers={"Impersonate-User": "provider", "impersonate_user": "eve"}).status, 400)
        admin = self.installation.client("/clusters/root:a")
        asked = {"Impersonate-User": "helper", "Impersonate-Group": "system:kcp:admin"}
        self.assertEqual(admin.get("/api/v1/namespaces", headers=asked).status, 200)

    def test_KK_T132_reviews_ask_and_are_nobodys_identity(self):
        def allowed(at="a", **spec):
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                      "spec": {"resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": "default"}, **spec}}
            return self.at[at].must("POST", ACCESS, review)["status"]["allowed"]

        one, other = self.name["a"], self.name["b"]
        for values, expected in (([f"cluster:{one}"], True), ([f"cluster:{one},cluster:{other}", f"cluster:{one}"], True),
                                 ([f"cluster:{other}"], False), ([f"cluster:{one}", f"cluster:{other}"], False),
                                 ([f"workspace:{one}"], False), ([""], False)):
            self.assertEqual(allowed(user="provider", extra={SCOPES: values}), expected, values)
        for warrant, expected in (({"user": "w", "groups": ["system:kcp:admin"]}, True), ({"user": "w", "groups": ["system:masters"]}, False),
                                  ({"user": "w", "groups": [XLCA]}, False), ({"user": "provider"}, True),
                                  ({"user": "provider", "extra": {SCOPES: [f"cluster:{other}"]}}, False), ({"groups": ["system:kcp:admin"]}, False)):
            self.assertEqual(allowed(user="nobody", extra={WARRANT: [json.dumps(warrant)]}), expected, warrant)


class Identities(Attack):
    def test_SE_T009_what_never_comes_in(self):
        """Groups of certificates, headers, WebSocket names: dropped, and counted."""
        groups = ["devs", "system:kcp:initializer:root:x", "system:kcp:terminator:root:x", "apis.kcp.io:binding:y", "system:cluster:B",
                  "system:kintsugi:proxy", "system:kcp:logical-cluster-admin", XLCA, "system:kcp:tenancy:workspace-bootstrapper"]
        self.own("a", "shady")
        forged = {"X-Remote-Extra-Authorization.kcp.io%2Fwarrant": MASTERS, "X-Remote-Group": "system:masters",
                  "X_Remote_Extra_authorization.kcp.io%2Fwarrant": MASTERS, "x-remote-extra-authentication.kcp.io%2Fcluster-name": "root",
                  "Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.eA"}
        shady = self.user("shady", groups)

        def who():
            return shady.must("POST", "/clusters/root:a" + kit.SELF_REVIEWS, kit.SELF_REVIEW, headers=forged)["status"]["userInfo"]

        found = kit.eventually(who, 20)
        self.assertEqual(sorted(found["groups"]), ["devs", "system:authenticated"])
        self.assertEqual(list(found["extra"]), ["authentication.kubernetes.io/credential-id"])
        self.assertEqual(shady.get(f"/clusters/root:b{MAPS}", headers=forged).status, 403)
        metrics = self.metrics()
        for kind in ("lifecycle_group", "policy_group", "cluster_group", "own_group", "admin_group"):
            self.assertRegex(metrics, rf'(?m)^kintsugi_identity_dropped_total{{kind="{kind}"}} [1-9]')

    def metrics(self):
        return subprocess.run(["curl", "-sS", "--unix-socket", str(self.installation.state / "run/admin.sock"), "http://admin/metrics"],
                              capture_output=True, text=True, timeout=60, check=True).stdout

    def test_KK_T134_only_registered_peers_administer_from_outside(self):
        path = f"/clusters/{self.name['b']}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
        self.assertEqual(self.user("external-logical-cluster-admin", (XLCA,)).get(path).status, 200)
        for name in ("shard-1", "kcp-front-proxy", "external-logical-cluster-admin2", "mallory-peer"):
            self.assertEqual(self.user(name, (XLCA,)).get(path).status, 403, name)

    def test_KK_T122_lifecycle_groups_open_nothing(self):
        """A workspace that is being deleted, and waits: whoever says that he terminates it gets nothing."""
        root = self.installation.client()
        root.must("POST", TENANCY + "/workspacetypes", {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType",
                                                        "metadata": {"name": "slowly"}, "spec": {"terminator": True}})
        body = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "ending"},
                "spec": {"type": {"path": "root", "name": "slowly"}}}
        kit.eventually(lambda: root.request("POST", TENANCY + "/workspaces", body).status in (201, 409), 20)
        ready = kit.eventually(lambda: (w := root.must("GET", TENANCY + "/workspaces/ending"))["status"].get("phase") == "Ready" and w, 20)
        name = ready["spec"]["cluster"]
        root.must("DELETE", TENANCY + "/workspaces/ending")
        for group in ("system:kcp:terminator:root:slowly", "system:kcp:initializer:root:slowly"):
            user = self.user("ender" + group[11:15], (group,))
            direct = [kit.Client(url, self.installation.pki / "serving-ca.crt", *kit.make_user(
                self.installation.dir, self.installation.pki, "ender" + group[11:15], (group,))) for url in self.urls.values()]
            for client in (user, *direct):
                answer = client.get(f"/clusters/{name}{MAPS}")
                self.assertIn(answer.status, (403, 404), answer)
            answer = self.mallory.get(f"/clusters/{name}{MAPS}", headers={"Impersonate-User": "mallory", "Impersonate-Group": group})
            self.assertEqual(answer.status, 403, answer)

    def test_KK_T127_accounts_have_a_global_name_of_their_own(self):
        a, near = self.at["a"], self.at["near"]
        a.must("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
        token = a.must("POST", TOKEN.format("robot"), {"spec": {}})["status"]["token"]
        nobody = self.installation.client("", cert=None)

        def read(path, **headers):
            return nobody.get(f"/clusters/root:{path}{MAPS}", headers=kit.bearer(token, **headers)).status

        self.assertEqual(read("near"), 403)
        self.grant("near", "local-name", "system:serviceaccount:default:robot", ENTER, rule("", "configmaps", "list"))
        self.grant("near", "elsewhere", f"system:kcp:serviceaccount:{self.name['b']}:default:robot", ENTER, rule("", "configmaps", "list"))
        self.grant("near", "global", f"system:kcp:serviceaccount:{self.name['a']}:default:robot", ENTER, rule("", "configmaps", "list"))
        kit.eventually(lambda: read("near") == 200, 10, "by its global name")
        near.must("DELETE", RBAC + "/clusterrolebindings/global")
        kit.eventually(lambda: read("near") == 403, 10, "its local name is another's there")
        self.assertEqual(read("near", **{"X-Remote-Extra-Authentication.kcp.io%2Fcluster-name": self.name["b"]}), 403)
        pretender = {"Impersonate-User": "system:serviceaccount:default:robot"}
        self.own("near", "mallory")
        kit.eventually(lambda: self.mallory.get(f"/clusters/root:near{MAPS}", headers=pretender).status in (200, 403), 10)
        forged = {**pretender, "Impersonate-Extra-Authentication.kcp.io%2fcluster-name": self.name["b"]}
        self.assertEqual(self.mallory.get(f"/clusters/root:near{MAPS}", headers=forged).status, 403)

    def test_KK_T135_tokens_end_with_their_account_and_workspace(self):
        self.name["gone"] = self.installation.make_workspace("gone", selector={"name": "root"})["spec"]["cluster"]
        gone = self.installation.client("/clusters/root:gone")
        nobody = self.installation.client("", cert=None)
        tokens = {}
        for name in ("first", "second"):
            gone.must("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
            tokens[name] = gone.must("POST", TOKEN.format(name), {"spec": {}})["status"]["token"]

        def status(name, path="a"):
            return nobody.get(f"/clusters/root:{path}/api/v1/namespaces", headers=kit.bearer(tokens[name])).status

        self.assertEqual((status("first"), status("second")), (403, 403), "known, without rights")
        gone.must("DELETE", "/api/v1/namespaces/default/serviceaccounts/first")
        kit.eventually(lambda: status("first") == 401, 10)
        self.assertEqual(status("second"), 403)
        self.installation.client().must("DELETE", TENANCY + "/workspaces/gone")
        kit.eventually(lambda: status("second") == 401, 20, "gone with its workspace")


if __name__ == "__main__":
    unittest.main()
