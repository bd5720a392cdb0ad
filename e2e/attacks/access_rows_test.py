"""Rows of docs/spec/kcp-kinds.md about rights, virtual workspaces and request paths, at the proxy and at the shard itself."""
import json
import unittest
import urllib.parse

import kit
import steady
import trust
from trust import APIS, KINDS, MERGE, at_shard, masters, shard_admin

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
LC = f"{KINDS['lc'][0]}/cluster"
WS = KINDS["ws"][0]
SCOPES = "Impersonate-Extra-Authentication.kcp.io%2fscopes"
GEARS = "/apis/claim.test/v1/namespaces/default/gears"


def setUpModule():
    trust.begin()
    trust.grant(trust.ann, "dora", "system:kcp:workspace:access")
    kit.eventually(lambda: dora().get("/api").status == 200, what="dora has access and nothing else")


def dora(path="/clusters/root:anns"):
    return steady.steady(trust.up.user_client("dora", path=path))


def merge(client, path, body, **more):
    return client.request("PATCH", path, json.dumps(body), headers={**MERGE, **more})


class Case(unittest.TestCase):
    maxDiff = None

    def told(self, answer, code, text):
        self.assertEqual(answer.status, code, answer)
        self.assertIn(text, answer.json["message"])


class Rights(Case):
    """KK-300 to KK-333."""

    def test_KK_300_the_system_may_everything_everywhere(self):
        paths = [f"/clusters/{cluster}{path}" for cluster in (trust.cluster, "root") for path in (MAPS, SECRETS, "/api")]
        paths += [f"/clusters/*{path}" for path in ("/api/v1/secrets", KINDS["ws"][0], KINDS["binding"][0])]
        paths += [f"/clusters/{trust.cluster}{KINDS[kind][0]}/{KINDS[kind][1]}/status" for kind in ("export", "binding", "lc")]
        for path in paths:
            self.assertEqual(masters().get(path).status, 200, path)
        for path in ("/clusters/root" + SECRETS, "/clusters/*/api/v1/secrets", paths[-2], paths[-3]):
            self.assertEqual(at_shard("ann").get(path).status, 403, path)

    def test_KK_301_KK_330_KK_368_KK_T120_nobody_hears_nothing_of_a_cluster(self):
        shard, proxy = at_shard(), trust.up.client("", cert=None)
        for client in (shard, proxy):
            for cluster in (trust.cluster, "root", "aaaaaaaaaaaaaaaa"):
                for path in ("/livez", "/readyz", "/healthz", "/livez?verbose", "/livez/ping", "/livezX", "/api", "/version/x", MAPS):
                    self.assertEqual(client.get(f"/clusters/{cluster}{path}").status, 401, (client.url.netloc, cluster, path))
                    self.assertEqual(client.get(f"/clusters/{cluster}{path}", headers=kit.bearer("nonsense")).status, 401)
            self.assertEqual((client.get("/livez").status, client.get("/readyz").status), (200, 200))
        mallory, erin = at_shard("mallory"), at_shard("dora")
        for check in ("livez", "readyz", "healthz"):
            for query in ("", "?verbose", "?x=1"):
                answer = erin.get(f"/clusters/{trust.cluster}/{check}{query}")
                self.assertEqual((answer.status, answer.body), (200, b"ok"), (check, query))
                self.told(mallory.get(f"/clusters/{trust.cluster}/{check}{query}"), 403, "workspace access not permitted")
        self.assertIn(b"[+]ping ok", masters(f"/clusters/{trust.cluster}").get("/livez?verbose").body)

    def test_KK_303_KK_308_KK_T121_service_accounts_are_not_asked_for_groups(self):
        trust.ann.must("POST", WS, trust.body_of("ws", "guarded", {"location": {"selector": {"matchLabels": {"name": "root"}}}}))
        path = "/clusters/root:anns:guarded"
        outside, inside = trust.up.client(path), trust.up.user_client("ann", path=path)
        kit.eventually(lambda: inside.get(MAPS).status == 200 and outside.get(LC).json["status"].get("phase") == "Ready", 20, "ann is in")
        tokens = {}
        for name, client in (("own", outside), ("foreign", trust.ann)):
            client.must("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
            tokens[name] = client.must("POST", f"/api/v1/namespaces/default/serviceaccounts/{name}/token", {"spec": {}})["status"]["token"]
        outside.must("POST", f"{trust.RBAC}/clusterroles", {"metadata": {"name": "maps"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]})
        outside.must("POST", f"{trust.RBAC}/clusterrolebindings", {
            "metadata": {"name": "own"}, "roleRef": {"kind": "ClusterRole", "name": "maps"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "own"}]})
        merge(outside, LC, {"metadata": {"annotations": {"authorization.kcp.io/required-groups": "a,b;c"}}})
        nobody = trust.up.client(path, cert=None)
        kit.eventually(lambda: inside.get(MAPS).status == 403, what="the groups are asked for")
        kit.eventually(lambda: nobody.get(MAPS, headers=kit.bearer(tokens["own"])).status == 200, what="no access and no group is needed")
        self.assertEqual(nobody.get(SECRETS, headers=kit.bearer(tokens["own"])).status, 403)
        self.assertEqual(nobody.get(MAPS, headers=kit.bearer(tokens["foreign"])).status, 403)
        who = trust.ann.must("GET", LC)["metadata"]["annotations"]["kcp.io/cluster"]
        # By its global name, with rights of its own and that to enter, it passes, too.
        for role in ("maps", "system:kcp:workspace:access"):
            outside.must("POST", f"{trust.RBAC}/clusterrolebindings", {
                "metadata": {"name": "foreign-" + role.replace(":", "-")}, "roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "name": f"system:kcp:serviceaccount:{who}:default:foreign"}]})
        kit.eventually(lambda: nobody.get(MAPS, headers=kit.bearer(tokens["foreign"])).status == 200, what="the global name")

    def test_KK_304_an_empty_value_admits_nobody(self):
        trust.ann.must("POST", WS, trust.body_of("ws", "empty", {"location": {"selector": {"matchLabels": {"name": "root"}}}}))
        path = "/clusters/root:anns:empty"
        outside, inside = trust.up.client(path), trust.up.user_client("ann", path=path)
        kit.eventually(lambda: inside.get(MAPS).status == 200 and outside.get(LC).json["status"].get("phase") == "Ready", 20, "ann is in")
        for value, wanted in (("", 403), (None, 200), (";", 403), (",", 403), (None, 200), (" system:authenticated", 403),
                              ("system:authenticated", 200)):
            merge(outside, LC, {"metadata": {"annotations": {"authorization.kcp.io/required-groups": value}}})
            kit.eventually(lambda w=wanted: inside.get(MAPS).status == w, what=f"{value!r}: {wanted}")
            self.assertEqual(outside.get(MAPS).status, 200)

    def test_KK_314_roles_of_the_shard_of_the_cluster_and_of_others(self):
        """Bindings here name roles that every cluster has; those of another cluster count for what is asked there alone."""
        trust.grant(trust.ann, "finn", "system:kcp:workspace:access")
        trust.grant(trust.ann, "finn", "view")
        finn = trust.up.user_client("finn", path="")
        kit.eventually(lambda: finn.get(trust.home + MAPS).status == 200, what="bootstrap roles")
        self.assertEqual(finn.get(trust.home + SECRETS).status, 403)
        trust.grant(trust.ann, "finn", "own-secrets", [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}])
        kit.eventually(lambda: finn.get(trust.home + SECRETS).status == 200, what="a role of the cluster")
        self.assertEqual(finn.get("/clusters/root:prov" + MAPS).status, 403)
        body = trust.body_of("binding", "finns", {"reference": {"export": {"path": "root:prov", "name": "claims"}}})
        trust.grant(trust.ann, "finn", "binds", [{"apiGroups": ["apis.kcp.io"], "resources": ["*"], "verbs": ["*"]}])
        kit.eventually(lambda: "no permission to bind" in finn.request("POST", f"{trust.home}{KINDS['binding'][0]}?dryRun=All", body).json.get("message", ""))
        provider = trust.up.client("/clusters/root:prov")  # on another shard
        trust.grant(provider, "finn", "binds-there", [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "verbs": ["bind"]}])
        kit.eventually(lambda: finn.request("POST", f"{trust.home}{KINDS['binding'][0]}?dryRun=All", body).status == 201, what="replicated")

    def test_KK_060_KK_311_the_status_of_workspaces_and_types_is_read(self):
        """By the policy of tenancy.kcp.io tenants read the status of what is theirs; that of exports and bindings not even that."""
        trust.grant(trust.ann, "ivy", "system:kcp:workspace:access")
        trust.grant(trust.ann, "ivy", "cluster-admin")
        ivy = trust.up.user_client("ivy", path=trust.home)
        kit.eventually(lambda: ivy.get(MAPS).status == 200)
        for client in (trust.ann, ivy):
            for kind in ("ws", "wt", "lc"):
                item = f"{KINDS[kind][0]}/{KINDS[kind][1]}/status"
                self.assertEqual(client.get(item).status, 200, kind)
                for method, body in (("PATCH", {"status": {"phase": "Ready"}}), ("PUT", client.must("GET", item))):
                    self.told(client.request(method, item, json.dumps(body), headers=MERGE if method == "PATCH" else {"Content-Type": "application/json"}),
                              403, "access denied")
            for kind in ("export", "binding"):
                item = f"{KINDS[kind][0]}/{KINDS[kind][1]}/status"
                for method in ("GET", "PATCH", "PUT"):
                    self.told(client.request(method, item, None if method == "GET" else "{}", headers=MERGE), 403, "access denied")
        self.assertEqual(merge(trust.admin, f"{KINDS['ws'][0]}/child/status", {"status": {"phase": "Ready"}}).status, 200)

    def test_KK_318_KK_T126_every_value_of_scopes_is_needed(self):
        other = trust.up.client("/clusters/root:prov").must("GET", LC)["metadata"]["annotations"]["kcp.io/cluster"]
        own = f"cluster:{trust.cluster}"
        client = masters(f"/clusters/{trust.cluster}")

        def seen(*scopes):
            connection = client.connect()
            try:
                connection.putrequest("GET", client.url.path + MAPS)
                connection.putheader("Impersonate-User", "ann")
                for scope in scopes:
                    connection.putheader(SCOPES, scope)
                connection.endheaders()
                return connection.getresponse().status
            finally:
                connection.close()

        for scopes, wanted in (((), 200), ((own,), 200), ((f"{own},cluster:{other}", own), 200), ((f"{own},cluster:{other}",), 200),
                               ((f"{own},cluster:{other}", f"cluster:{other}"), 403), ((f"cluster:{other}",), 403),
                               ((f"workspace:{trust.cluster}",), 403), ((own, "workspace:x"), 403), (("",), 403), (("cluster:",), 403)):
            self.assertEqual(seen(*scopes), wanted, scopes)

    def test_KK_326_who_may_not_impersonate_hears_it_once(self):
        client = dora()
        for headers, what in (({"Impersonate-User": "bob"}, "bob"), ({"Impersonate-User": "bob", "Impersonate-Group": "dev"}, "bob")):
            answer = client.get(MAPS, headers=headers)
            self.assertEqual(answer.status, 403)
            self.assertRegex(answer.json["message"], r'User "dora" cannot impersonate', what)
        trust.grant(trust.ann, "dora", "speaks-for-bob", [
            {"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"], "verbs": ["impersonate"]}])
        kit.eventually(lambda: client.get(MAPS, headers={"Impersonate-User": "bob"}).status == 200, what="she may")
        self.assertEqual(client.get(MAPS, headers={"Impersonate-User": "eve"}).status, 403)
        self.assertEqual(client.get(MAPS, headers={"Impersonate-User": "bob", "Impersonate-Group": "dev"}).status, 403)

    def test_KK_333_deep_reviews_skip_what_it_takes_to_enter_but_not_the_statuses(self):
        deep = {"X-Kcp-Internal-Deep-SubjectAccessReview": "true"}
        trust.grant(trust.ann, "stays-out", "reads-all", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "update"]}])

        def allowed(headers, **attributes):
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
                "user": "stays-out", "groups": ["system:authenticated"], "resourceAttributes": {"namespace": "default", **attributes}}}
            return trust.system.must("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review, headers=headers)["status"]["allowed"]

        kit.eventually(lambda: allowed(deep, verb="get", resource="secrets"), what="deep")
        self.assertFalse(allowed({}, verb="get", resource="secrets"))
        for resource in ("apibindings", "apiexports"):
            self.assertTrue(allowed(deep, verb="update", group="apis.kcp.io", resource=resource))
            for verb in ("get", "update"):
                self.assertFalse(allowed(deep, verb=verb, group="apis.kcp.io", resource=resource, subresource="status"))


class Policies(Case):
    """KK-312, KK-313, KK-T124: what a provider lets consumers do, also when the export is gone."""

    def begin(self, plural, **spec):
        provider = trust.up.client("/clusters/root:prov")
        group = f"{plural}.test"
        trust.export_of(provider, plural, group=group, plural=plural, kind=plural.title(), **spec)
        trust.grant(provider, "ann", f"bind-{plural}", [
            {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "resourceNames": [plural], "verbs": ["bind"]}])
        body = trust.body_of("binding", plural, {"reference": {"export": {"path": "root:prov", "name": plural}}})
        kit.eventually(lambda: trust.ann.request("POST", KINDS["binding"][0], body).status in (201, 409), what="bound")
        path = f"/apis/{group}/v1/namespaces/default/{plural}"
        kit.eventually(lambda: trust.ann.must("GET", f"{KINDS['binding'][0]}/{plural}")["status"]["phase"] == "Bound")
        return provider, path, {"apiVersion": f"{group}/v1", "kind": plural.title(), "metadata": {"name": "one"}}

    def test_KK_312_KK_T124_a_verb_that_the_policy_lacks_is_403(self):
        provider, path, body = self.begin("policed", maximalPermissionPolicy={"local": {}})
        self.assertEqual(trust.ann.get(path).status, 403, "a policy that names nobody")
        trust.grant(provider, "apis.kcp.io:binding:ann", "policed", [
            {"apiGroups": ["policed.test"], "resources": ["policed"], "verbs": ["get", "list", "create"]}])
        kit.eventually(lambda: trust.ann.get(path).status == 200, what="the policy")
        self.assertEqual(trust.ann.request("POST", path, body).status, 201)
        self.assertEqual(trust.ann.request("DELETE", path + "/one").status, 403)
        self.assertEqual(merge(trust.ann, path + "/one", {"metadata": {"labels": {"a": "b"}}}).status, 403)
        # KK-313: without the export nobody can say what its policy allows.
        provider.must("DELETE", f"{APIS}/apiexports/policed")
        kit.eventually(lambda: trust.ann.request("POST", path, {**body, "metadata": {"name": "two"}}).status == 403, what="writes")
        self.assertEqual(trust.ann.request("DELETE", path + "/one").status, 403)
        self.assertEqual(trust.ann.get(path + "/one").status, 200, "reads")

    def test_KK_313_an_export_without_a_policy_leaves_writes_open(self):
        provider, path, body = self.begin("opened")
        self.assertEqual(trust.ann.request("POST", path, body).status, 201)
        provider.must("DELETE", f"{APIS}/apiexports/opened")
        condition = lambda: [one for one in trust.ann.must("GET", f"{KINDS['binding'][0]}/opened")["status"]["conditions"]
                             if one["type"] == "APIExportValid"][0]
        kit.eventually(lambda: condition()["status"] == "False", what="the export is gone")
        self.assertEqual(condition()["reason"], "APIExportNotFound")
        self.assertEqual(trust.ann.request("POST", path, {**body, "metadata": {"name": "two"}}).status, 201)
        self.assertEqual(trust.ann.request("DELETE", path + "/one").status, 200)


class Views(Case):
    """KK-340 to KK-355."""

    def through(self, method, path, *args, view=None, **more):
        return trust.prov.request(method, (view or trust.view) + path, *args, **more)

    def test_KK_340_KK_341_KK_342_KK_T140_what_is_bound_or_claimed_and_nothing_else(self):
        foreign = trust.up.client("/clusters/root:prov").must("GET", LC)["metadata"]["annotations"]["kcp.io/cluster"]
        elsewhere = trust.view.rsplit("/", 1)[0] + "/"
        for cluster in (foreign, "root", "aaaaaaaaaaaaaaaa", "system:admin"):
            for path in (MAPS, GEARS, KINDS["ws"][0], f"{KINDS['binding'][0]}/claims"):
                answer = self.through("GET", path, view=elsewhere + cluster)
                self.assertEqual(answer.status, 403, (cluster, path))
                self.assertRegex(answer.json["message"], "(access denied|workspace access not permitted)$")
        for path in (SECRETS, f"{trust.RBAC}/clusterroles", "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"):
            self.assertIn(self.through("GET", path).status, (403, 404), "not claimed")
        binding = f"{KINDS['binding'][0]}/claims"
        self.assertEqual(self.through("GET", binding).status, 200)
        for method, headers in (("PATCH", MERGE), ("DELETE", {}), ("PUT", {})):
            self.told(self.through(method, binding, json.dumps({"metadata": {"labels": {"a": "b"}}}), headers=headers), 403, "access denied")

    def test_KK_149_KK_T084_claims_on_what_rules_a_workspace_only_read(self):
        for kind in ("lc", "export", "binding"):
            collection, name, _ = KINDS[kind]
            before = trust.system.must("GET", f"{collection}/{name}")["metadata"]["resourceVersion"]
            self.assertEqual(self.through("GET", f"{collection}/{name}").status, 200, kind)
            self.assertEqual(self.through("GET", collection).status, 200, kind)
            for method, headers in (("PATCH", MERGE), ("DELETE", {}), ("PUT", {})):
                answer = self.through(method, f"{collection}/{name}", json.dumps({"metadata": {"labels": {"a": "b"}}}), headers=headers)
                self.told(answer, 403, "access denied")
            self.told(self.through("DELETE", collection), 403, "access denied")
            self.assertEqual(trust.system.must("GET", f"{collection}/{name}")["metadata"]["resourceVersion"], before)
        self.told(self.through("POST", KINDS["export"][0], trust.body_of("export", "through", {})), 403, "access denied")

    def test_KK_149_what_gives_much_is_told_when_it_is_accepted(self):
        claims = [{"group": "", "resource": "secrets"}, {"group": "rbac.authorization.k8s.io", "resource": "clusterrolebindings"}]
        for claim in claims + [{"group": "", "resource": "configmaps"}]:
            body = trust.body_of("binding", "warned", {"reference": {"export": {"path": "root:prov", "name": "claims"}}, "permissionClaims": [
                {**claim, "verbs": ["get"], "state": "Accepted", "selector": {"matchAll": True}}]})
            answer = trust.ann.request("POST", KINDS["binding"][0] + "?dryRun=All", body)
            self.assertEqual(answer.status, 201, answer)
            warned = claim["resource"] in (answer.headers.get("Warning") or "")
            self.assertEqual(warned, claim in claims, (claim, answer.headers.get("Warning")))

    def test_KK_344_KK_T141_the_verb_is_asked_of_the_content(self):
        provider = trust.up.client("/clusters/root:prov")
        trust.grant(provider, "greta", "enters", [{"nonResourceURLs": ["/"], "verbs": ["access"]}])
        greta = trust.up.user_client("greta", path="")
        for path in (MAPS, f"{KINDS['binding'][0]}/claims"):
            self.told(greta.get(trust.view + path), 403, "access denied")
        trust.grant(provider, "greta", "gets", [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["get"]}])
        kit.eventually(lambda: greta.get(f"{trust.view}{MAPS}/map").status == 200, what="get")
        self.told(greta.get(trust.view + MAPS), 403, "access denied")
        self.told(greta.request("POST", trust.view + MAPS, {"metadata": {"name": "x"}}), 403, "access denied")
        self.told(greta.request("DELETE", f"{trust.view}{MAPS}/map"), 403, "access denied")
        self.told(merge(greta, f"{trust.view}{MAPS}/map", {}), 403, "access denied")

    def test_KK_345_everywhere_is_only_read(self):
        every = trust.view.rsplit("/", 1)[0] + "/*"
        listed = self.through("GET", "/api/v1/configmaps", view=every)
        self.assertEqual(listed.status, 200)
        self.assertEqual({one["metadata"]["annotations"]["kcp.io/cluster"] for one in listed.json["items"]}, {trust.cluster})
        for method, path in (("GET", f"{MAPS}/map"), ("DELETE", f"{MAPS}/map"), ("POST", MAPS), ("PATCH", f"{MAPS}/map"), ("DELETE", MAPS)):
            answer = self.through(method, path, "{}" if method in ("POST", "PATCH") else None, view=every,
                                  headers=MERGE if method == "PATCH" else {"Content-Type": "application/json"})
            self.assertIn(answer.status, (400, 403, 405), (method, path, answer))
        self.assertEqual(trust.ann.get(f"{MAPS}/map").status, 200)

    def test_KK_343_claims_hold_for_whose_and_for_parts_alike(self):
        """Another identity than the one that is claimed opens nothing, nor does a binding that is not settled, nor a subresource."""
        provider = trust.up.client("/clusters/root:prov")
        tenancy = trust.up.client().must("GET", f"{APIS}/apiexports/tenancy.kcp.io")["status"]["identityHash"]
        claim = {"group": "tenancy.kcp.io", "resource": "workspaces", "verbs": ["*"]}
        trust.export_of(provider, "whose", group="whose.test", permissionClaims=[{**claim, "identityHash": tenancy}])
        trust.grant(provider, "ann", "bind-whose", [
            {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "resourceNames": ["whose"], "verbs": ["bind"]}])
        view = trust.view.replace("/claims/", "/whose/")
        body = trust.body_of("binding", "whose", {"reference": {"export": {"path": "root:prov", "name": "whose"}}})
        kit.eventually(lambda: trust.ann.request("POST", KINDS["binding"][0], body).status in (201, 409), what="bound")
        item = f"{KINDS['binding'][0]}/whose"
        kit.eventually(lambda: trust.ann.must("GET", item)["status"]["phase"] == "Bound")
        for identity, wanted in (("0" * 64, (403, 404)), (tenancy, (200,)), ("", (403, 404))):
            accepted = {**claim, "state": "Accepted", "selector": {"matchAll": True}, "identityHash": identity}
            answer = trust.again(lambda a=accepted: merge(trust.ann, item, {"spec": {"permissionClaims": [a]}}))
            self.assertEqual(answer.status, 200, answer)
            kit.eventually(lambda w=wanted: trust.prov.get(f"{view}{WS}/child").status in w, what=f"identity {identity!r}")
            listed = trust.prov.get(view + WS)
            if wanted != (200,):
                self.assertTrue(listed.status in (403, 404) or not listed.json["items"], listed)
            for method in ("PUT", "PATCH"):
                answer = self.through(method, f"{WS}/child/status", json.dumps({"status": {"phase": "Ready"}}), view=view, headers=MERGE)
                self.assertIn(answer.status, (403, 404), answer)

    def test_KK_348_KK_T143_what_is_forwarded_meets_the_same_admission(self):
        for spec in ({"cluster": "root"}, {"URL": "https://evil.example"}):
            through = self.through("POST", WS, trust.body_of("ws", "sly", spec))
            direct = trust.ann.request("POST", WS, trust.body_of("ws", "sly", spec))
            self.assertEqual((through.status, through.json["message"]), (403, direct.json["message"]))
        for part in ("", "/status"):
            self.told(merge_through(self, LC + part, {"spec": {"directlyDeletable": True}, "status": {"phase": "Ready"}}), 403, "access denied")

    def test_KK_355_what_a_client_says_of_himself_stays_outside(self):
        forged = [{"X-Remote-User": "root", "X-Remote-Group": "system:masters"}, {"X-Remote-Extra-Authorization.kcp.io%2fwarrant": "{}"}]
        for headers in forged:
            answer = self.through("GET", f"{trust.view[:0]}{MAPS}", headers=headers)
            self.assertEqual(answer.status, 200)
            self.assertEqual(self.through("GET", SECRETS, headers=headers).status, self.through("GET", SECRETS).status)
        for headers in ({"Impersonate-User": "root"}, {"Impersonate-User": "prov", "Impersonate-Group": "system:masters"}):
            self.told(self.through("GET", MAPS, headers=headers), 403, "impersonation is not allowed")
        nobody = trust.up.client("", cert=None)
        for headers in ({}, kit.bearer("nonsense"), *forged):
            self.assertEqual(nobody.get(trust.view + MAPS, headers=headers).status, 401, headers)


def merge_through(case, path, body):
    return case.through("PATCH", path, json.dumps(body), headers=MERGE)


class Documents(Case):
    def test_SE_167_nobody_gets_the_document_or_the_etag_of_another(self):
        """The same path asked in turn by those who see different things; their ETags are tried at each other's."""
        provider, bob, mallory = trust.up.client("/clusters/root:prov"), trust.up.user_client("bob", path=trust.home), trust.up.user_client("mallory", path=trust.home)
        kit.eventually(lambda: bob.get("/api").status == 200)
        v3 = {"/openapi/v3", "/openapi/v2", "/apis", "/api/v1", "/apis/apis.kcp.io/v1alpha2"}
        def asked_in_turn(path):
            first = {name: client.get(path) for name, client in (("ann", trust.ann), ("prov", provider), ("bob", bob))}
            self.assertEqual({name: answer.status for name, answer in first.items()}, {"ann": 200, "prov": 200, "bob": 200}, path)
            if path.startswith("/openapi") or path == "/apis":
                self.assertIn(b"claim.test", first["ann"].body, path)
                self.assertNotIn(b"claim.test", first["prov"].body.replace(b"v1.gears.claim.test", b""), path)
            tags = {answer.headers.get("ETag") for answer in first.values()} - {None}
            for tag in tags:
                asks = {"If-None-Match": tag}
                self.assertIn(mallory.get(path, headers=asks).status, (403,), path)
                self.assertEqual(mallory.get(path, headers=asks).headers.get("ETag"), None)
                for client, name in ((trust.ann, "ann"), (provider, "prov")):
                    answer = client.get(path, headers=asks)
                    self.assertEqual(answer.status, 304 if tag == first[name].headers.get("ETag") else 200, (path, name))
                    if answer.status == 200:
                        self.assertEqual(answer.body, first[name].body)
            self.assertEqual((trust.ann.get(path).body, provider.get(path).body), (first["ann"].body, first["prov"].body))

        for path in sorted(v3):  # what was made just now may still come into a document
            kit.eventually(lambda p=path: asked_in_turn(p) or True, what=path)
        # A warning is of the write that it is about.
        claim = {"group": "", "resource": "secrets", "verbs": ["get"], "state": "Accepted", "selector": {"matchAll": True}}
        plain = trust.body_of("binding", "warned", {"reference": {"export": {"path": "root:prov", "name": "claims"}}})
        warned = {**plain, "spec": {**plain["spec"], "permissionClaims": [claim]}}
        for body, wanted in ((warned, True), (plain, False), (warned, True), (plain, False)):
            answer = trust.ann.request("POST", KINDS["binding"][0] + "?dryRun=All", body)
            self.assertEqual((answer.status, "Warning" in answer.headers), (201, wanted))
            self.assertNotIn("Warning", provider.get("/api").headers)


class Paths(Case):
    """KK-361 to KK-384."""

    def both(self):
        yield trust.up.client("")
        yield shard_admin()

    def test_KK_361_KK_363_segments_that_are_no_cluster(self):
        stranger, proxy = at_shard("mallory"), trust.up.user_client("mallory", path="")
        for segment in ("Root", "a_b", "-a", "a-", "a::b", ":a", "a:", "root:A", "%20", "a.b"):
            wanted = urllib.parse.unquote(segment)
            for client in (shard_admin(), stranger):
                answer = client.get(f"/clusters/{segment}/api")
                self.told(answer, 400, f'invalid cluster: "{wanted}" does not match the regex')
            self.assertIn(proxy.get(f"/clusters/{segment}/api").status, (400, 403), segment)
        for name in ("aaaaaaaaaaaaaaaa", "unknown"):
            for client in (stranger, proxy, shard_admin(), trust.up.client("")):
                for path in (MAPS, "/livez", "/metrics"):
                    self.assertEqual(client.get(f"/clusters/{name}{path}").status, 403, (client.url.netloc, path))
            for client in (stranger, proxy):
                self.told(client.get(f"/clusters/{name}{MAPS}"), 403, "workspace access not permitted")
                self.told(client.get(f"/clusters/{name}/livez"), 403, "workspace access not permitted")

    def test_KK_362_paths_that_are_nowhere_or_elsewhere(self):
        client = shard_admin()
        for path in ("root:nobody", "root:anns:nobody", "other:x"):
            answer = client.get(f"/clusters/{path}{MAPS}")
            self.told(answer, 404, f'workspaces.tenancy.kcp.io "{path}" not found')
            self.assertNotIn("Retry-After", answer.headers)
        answer = client.get(f"/clusters/root:prov{MAPS}")  # on shard-1
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (429, "1"))
        self.assertIn(b"Not found on this shard", answer.body)

    def test_KK_364_without_a_cluster_there_is_none(self):
        for path in ("/api", MAPS, "/apis/apps/v1", LC):
            self.assertEqual(shard_admin().get(path).status, 403, path)
            self.assertEqual(at_shard("ann").get(path).status, 403, path)
            self.assertIn(trust.up.client("").get(path).status, (403, 404), path)
        for path in (MAPS, LC):
            answer = masters().get(path)
            self.assertEqual((answer.status, answer.json["reason"]), (404, "NotFound"), path)

    def test_KK_365_KK_369_rights_come_before_what_is_not_there(self):
        for base in (trust.home, f"/clusters/{trust.cluster}"):
            for path in ("/foo", "/foo/bar", f"/services/apiexport/{trust.cluster}/gears/clusters/*/api", "/services", "/services/nonsense/x"):
                for client in (trust.up.user_client("ann", path=""), at_shard("ann")):
                    answer = client.get(base + path)
                    self.assertEqual((answer.status, answer.body.strip()), (404, b"404 page not found"), path)
                for client in (dora(""), at_shard("dora")):
                    self.told(client.get(base + path), 403, f'User "dora" cannot get path "{path}": access denied')

    def test_KK_366_metrics_are_of_no_cluster(self):
        text = b"shard-level endpoint not available at workspace scope\n"
        for cluster in (trust.cluster, "root"):
            for client in (shard_admin(), at_shard("dora"), trust.up.client(""), masters()):
                answer = client.get(f"/clusters/{cluster}/metrics")
                self.assertEqual((answer.status, answer.body), (501, text))
            for client, code in ((at_shard("mallory"), 403 if cluster != "root" else 501), (at_shard(), 401)):
                self.assertEqual(client.get(f"/clusters/{cluster}/metrics").status, code, cluster)

    def test_KK_370_the_wildcard_is_for_lists(self):
        for client in (masters(),):
            for method, path, verb in (("GET", f"{WS}/x", "get"), ("POST", WS, "create"), ("PUT", f"{WS}/x", "update"), ("DELETE", f"{WS}/x", "delete"),
                                       ("DELETE", WS, "deletecollection"), ("PATCH", f"{WS}/x", "patch")):
                answer = client.request(method, "/clusters/*" + path, trust.body_of("ws", "x") if method in ("POST", "PUT", "PATCH") else None,
                                        headers=MERGE if method == "PATCH" else {"Content-Type": "application/json"})
                self.told(answer, 405, f'{verb} is not supported on resources of kind "workspaces.tenancy.kcp.io" in the `*` logical cluster')

    def test_KK_373_KK_374_KK_377_escapes_are_read_once(self):
        for client in self.both():
            self.assertEqual(client.get(f"/clusters/root%3Aanns{MAPS}/map").status, 200)
            answer = client.get(f"{trust.home}{MAPS}/a%252Fb")
            self.assertIn(answer.status, (400, 404))
            made = client.request("PUT", f"{trust.home}{MAPS}/a%252Fb", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a%2Fb"}})
            self.assertIn(made.status, (400, 404, 422), made)
            for path in (MAPS, "/api", "/apis", "/version", "/api/v1", "/apis/apps/v1", f"{MAPS}/map"):
                self.assertEqual(client.get(f"{trust.home}{path}/").status, client.get(f"{trust.home}{path}").status, path)
            self.assertEqual(client.get(f"{trust.home}/apis/apps/").status, 404)
        for base in ("", "/"):
            self.told(dora().get(SECRETS + base), 403, 'cannot list resource "secrets"')

    def test_KK_378_an_identity_in_a_path_is_not_for_tenants(self):
        known = trust.up.client().must("GET", f"{APIS}/apiexports/tenancy.kcp.io")["status"]["identityHash"]
        where = "/clusters/*/apis/tenancy.kcp.io/v1alpha1/workspaces:"
        for client in (masters(), shard_admin()):
            self.assertEqual(client.get(where + known).status, 200)
            self.assertEqual(client.get(where + "0" * 64).status, 404)
            self.assertEqual(client.get(where).status, 400)
        for client in (at_shard("ann"), trust.up.user_client("ann", path="")):
            self.assertEqual(client.get(where + known).status, 403)
            self.assertEqual(client.get(f"/clusters/{trust.cluster}/apis/tenancy.kcp.io/v1alpha1/workspaces:{'0' * 64}").status, 404)

    def test_KK_380_a_token_leads_to_its_cluster(self):
        trust.ann.must("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "led"}})
        token = trust.ann.must("POST", "/api/v1/namespaces/default/serviceaccounts/led/token", {"spec": {}})["status"]["token"]
        trust.ann.must("POST", f"{trust.RBAC}/clusterrolebindings", {
            "metadata": {"name": "led"}, "roleRef": {"kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "led"}]})
        for client in (trust.up.client("", cert=None),):
            names = kit.eventually(lambda c=client: (a := c.get(MAPS, headers=kit.bearer(token))).status == 200 and [
                one["metadata"]["name"] for one in a.json["items"]], what=client.url.netloc)
            self.assertIn("map", names)
            self.assertEqual(client.get("/clusters/root:prov" + MAPS, headers=kit.bearer(token)).status, 403)
        self.assertEqual(at_shard().get(MAPS, headers=kit.bearer(token)).status, 403, "a shard leads nobody")

    def test_KK_381_exceptions_of_inactive_clusters_go_by_whole_segments(self):
        trust.ann.must("POST", WS, trust.body_of("ws", "sleeps", {"location": {"selector": {"matchLabels": {"name": "root"}}}}))
        path = "/clusters/root:anns:sleeps"
        inside, outside = trust.up.user_client("ann", path=path), trust.up.client(path)
        kit.eventually(lambda: inside.get(MAPS).status == 200 and outside.get(LC).json["status"].get("phase") == "Ready", 20, "ann is in")
        outside.must("PATCH", LC, json.dumps({"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}}), headers=MERGE)
        self.addCleanup(merge, outside, LC, {"metadata": {"annotations": {"core.kcp.io/inactive": None}}})
        text = "logical cluster is marked inactive"
        for target in ("/openapiX", "/openapixyz/v2", KINDS["lc"][0] + "X", KINDS["lc"][0] + "X/cluster", "/livez", "/apis/core.kcp.io/v1alpha1",
                       "/openap%69X", "/apis/core.kcp.io/v1alpha1/workspaces"):
            self.told(inside.get(target), 403, text)
        for target in ("/openapi/v2", "/openapi/v3", LC, KINDS["lc"][0]):
            self.assertEqual(inside.get(target).status, 200, target)


if __name__ == "__main__":
    unittest.main()
