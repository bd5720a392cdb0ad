"""Rows of docs/spec/kcp-kinds.md about what each kind accepts, refuses and reports."""
import base64
import hashlib
import json
import unittest

import kit
import steady
import trust
from trust import KINDS, MERGE, RBAC, TENANCY

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
WS, LC, BINDINGS, EXPORTS = KINDS["ws"][0], f"{KINDS['lc'][0]}/cluster", KINDS["binding"][0], KINDS["export"][0]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
DRY = "?dryRun=All"
HERE = {"location": {"selector": {"matchLabels": {"name": "root"}}}}  # the shard that `system` is a client of


def setUpModule():
    trust.begin()


def merge(client, path, body):
    return client.request("PATCH", path, json.dumps(body), headers=MERGE)


def at_root_shard(cluster):
    """The system, in any logical cluster of the shard of ann's workspace."""
    pki = trust.up.pki
    return kit.Client(f"https://{trust.system.url.netloc}/clusters/{cluster}", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")


def conditions(obj):
    return {one["type"]: one for one in obj.get("status", {}).get("conditions") or []}


def base62(text):
    number, out = int.from_bytes(hashlib.sha224(text.encode()).digest(), "big"), ""
    while number:
        number, digit = divmod(number, 62)
        out = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + out
    return out


def made(name, client=None, spec=None):
    """A Ready workspace below ann's; its object, and the system inside of it."""
    client = client or trust.ann
    client.must("POST", WS, trust.body_of("ws", name, {**HERE, **(spec or {})}))
    found = kit.eventually(lambda: (a := client.must("GET", f"{WS}/{name}"))["status"].get("phase") == "Ready" and a, 20, f"{name} is Ready")
    return found, at_root_shard(found["spec"]["cluster"])


class Case(unittest.TestCase):
    maxDiff = None

    def told(self, answer, code, text):
        self.assertEqual(answer.status, code, answer)
        self.assertIn(text, answer.json["message"])


class Workspaces(Case):
    def test_KK_043_KK_T022_the_default_type_is_that_of_the_parents_type(self):
        made_one = trust.ann.must("POST", WS + DRY, trust.body_of("ws", "typed", {}))
        self.assertEqual(made_one["spec"]["type"], {"name": "universal", "path": "root"})
        key = "internal.tenancy.kcp.io/type"
        cases = [({}, f"annotation {key} on LogicalCluster must be set"), ({key: "nocolon"}, f"annotation {key} on LogicalCluster must be in the form of cluster:name"),
                 ({key: "root:nope"}, 'parent type cannot be resolved: workspacetypes.tenancy.kcp.io "root:nope" not found'),
                 ({key: ":universal"}, "must be in the form of cluster:name"), ({key: "root:"}, "must be in the form of cluster:name")]
        for number, (annotations, text) in enumerate(cases):
            cluster = at_root_shard(f"untyped{number}")
            cluster.must("POST", KINDS["lc"][0], trust.body_of("lc", "cluster", {}, annotations=annotations))
            for query in ("", DRY):
                answer = kit.eventually(lambda c=cluster, q=query: (a := c.request("POST", WS + q, trust.body_of("ws", "child", {}))).status == 403 and a)
                self.told(answer, 403, f'workspaces.tenancy.kcp.io "child" is forbidden: {text}' if number < 3 else text)
            self.assertEqual(cluster.get(f"{WS}/child").status, 404)
            given = trust.body_of("ws", "child", {"type": {"name": "universal", "path": "root"}})
            self.assertEqual(cluster.request("POST", WS + DRY, given).status, 201, "with a type it is one")

    def test_KK_058_KK_059_team_is_below_organizations_and_teams(self):
        for parent, kind, wanted in (("root:anns", "team", 403), ("root", "organization", 201)):
            answer = trust.up.client(f"/clusters/{parent}").request("POST", WS + DRY, trust.body_of("ws", "shipped", {"type": {"name": kind, "path": "root"}}))
            self.assertEqual(answer.status, wanted, answer)
        self.told(trust.ann.request("POST", WS + DRY, trust.body_of("ws", "team", {"type": {"name": "team", "path": "root"}})), 403,
                  "workspace type root:team only allows [root:organization root:team] parent workspaces, but parent type root:universal only "
                  "implements [root:universal]")
        trust.ann.must("POST", KINDS["wt"][0], trust.body_of("wt", "below-team", {"extend": {"with": [{"name": "team", "path": "root"}]}}))
        answer = kit.eventually(lambda: (a := trust.ann.request("POST", WS + DRY, trust.body_of("ws", "x", {"type": {"name": "below-team"}}))).status == 403
                                and "resolved" not in a.json["message"] and a)
        self.told(answer, 403, "workspace type root:anns:below-team extends root:team, which only allows [root:organization root:team] parent workspaces")

    def test_KK_T030_nothing_that_passes_is_stored_of_an_owner(self):
        pair = kit.make_user(trust.up.dir, trust.up.pki, "boss", ("system:kcp:admin", "dev", "system:mine"))
        boss = kit.Client(f"https://127.0.0.1:{trust.up.port}{trust.home}", trust.up.pki / "serving-ca.crt", *pair)
        _, inside = made("bosss", boss)
        creator = inside.must("GET", LC)["spec"]["createdBy"]
        self.assertEqual((creator["username"], sorted(creator["groups"])), ("boss", ["dev", "system:authenticated", "system:mine"]))
        self.assertFalse([key for key in creator.get("extra", {}) if "kcp.io" in key])

    def test_KK_075_everybody_uses_the_shipped_types(self):
        ann = steady.steady(trust.up.user_client("ann"))
        for kind in ("universal", "organization"):
            self.assertEqual(ann.request("POST", WS + DRY, trust.body_of("ws", "shipped", {"type": {"name": kind, "path": "root"}})).status, 201, kind)
        ann.must("POST", WS, trust.body_of("ws", "annorg", {**HERE, "type": {"name": "organization", "path": "root"}}))
        inside = steady.steady(trust.up.user_client("ann", path="/clusters/root:annorg"))
        for kind, wanted in (("team", 201), ("universal", 201), ("organization", 403), ("home", 403)):
            answer = kit.eventually(lambda k=kind: (a := inside.request("POST", WS + DRY, trust.body_of("ws", "x", {
                "type": {"name": k, "path": "root"}}))).status in (201, 403) and "access" not in a.json.get("message", "") and a, 20)
            self.assertEqual(answer.status, wanted, answer)
        wanda = trust.up.user_client("wanda")
        for path in (SECRETS, f"{TENANCY}/workspaces"):
            self.assertEqual(wanda.get(path).status, 403, path)

class Clusters(Case):
    def test_KK_108_KK_110_KK_111_KK_115_KK_116_how_a_cluster_comes_to_be(self):
        found, inside = made("becomes")
        cluster = kit.eventually(lambda: (c := inside.must("GET", LC))["status"]["phase"] == "Ready" and "groups" not in json.loads(
            c["metadata"]["annotations"]["experimental.tenancy.kcp.io/owner"]) and c, what="Ready, and its owner's name alone")
        self.assertEqual(json.loads(cluster["metadata"]["annotations"]["experimental.tenancy.kcp.io/owner"]), {"username": "ann"})
        self.assertEqual(cluster["metadata"]["labels"]["tenancy.kcp.io/phase"], "Ready")
        self.assertEqual(cluster["status"].get("initializers", []), [])
        states = conditions(cluster)
        self.assertEqual((states["WorkspaceInitialized"]["status"], states["APIBindingsInitialized"]["status"]), ("True", "True"))
        notes = trust.ann.must("GET", f"{WS}/becomes")["metadata"]["annotations"]
        self.assertEqual(notes["internal.tenancy.kcp.io/shard"], cluster["metadata"]["annotations"].get("core.kcp.io/shard", "root"))
        self.assertEqual(notes["core.kcp.io/shard"], notes["internal.tenancy.kcp.io/shard"])
        self.assertEqual((cluster["spec"]["owner"]["name"], cluster["spec"]["owner"]["uid"]), ("becomes", found["metadata"]["uid"]))
        # KK-108: marked inactive it is so, and Ready again without the mark.
        merge(inside, LC, {"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}})
        kit.eventually(lambda: trust.up.client("/clusters/root:anns:becomes").get(MAPS).status == 403, what="inactive")
        merge(inside, LC, {"metadata": {"annotations": {"core.kcp.io/inactive": None}}})
        kit.eventually(lambda: trust.up.client("/clusters/root:anns:becomes").get(MAPS).status == 200, what="active")

    def test_KK_114_KK_116_what_holds_content_holds_the_cluster(self):
        _, inside = made("leaves")
        inside.must("POST", MAPS, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
        inside.must("POST", MAPS, {"metadata": {"name": "free"}})
        trust.ann.must("DELETE", f"{WS}/leaves", expect=(200, 202))
        state = kit.eventually(lambda: (c := conditions(inside.must("GET", LC)).get("WorkspaceContentDeleted")) and c["status"] == "False" and c, 20,
                               "the condition")
        self.assertEqual((state["reason"], state["severity"]), ("SomeResourcesRemain", "Info"))
        self.assertIn("configmaps. has 1 resource instances", state["message"])
        kit.eventually(lambda: [one["metadata"]["name"] for one in inside.must("GET", MAPS)["items"]] == ["held"], 20, "what is not held is gone")
        self.assertEqual(inside.get(f"{RBAC}/clusterrolebindings/workspace-admin").status, 200, "rights go last")
        self.assertEqual(trust.ann.must("GET", f"{WS}/leaves")["status"]["phase"], "Deleting")
        merge(inside, f"{MAPS}/held", {"metadata": {"finalizers": None}})
        kit.eventually(lambda: trust.ann.get(f"{WS}/leaves").status == 404, 30, "all is gone")

    def test_KK_T050_a_logical_cluster_is_made_and_deleted_by_the_system(self):
        made("kept")
        ann = steady.steady(trust.up.user_client("ann", path="/clusters/root:anns:kept"))
        kit.eventually(lambda: ann.get(LC).status == 200)
        self.told(ann.request("POST", KINDS["lc"][0], trust.body_of("lc", "cluster")), 403, "LogicalCluster cannot be created")
        self.told(ann.request("DELETE", LC), 403, "LogicalCluster cannot be deleted")
        self.told(merge(ann, LC, {"spec": {"directlyDeletable": True}}), 403, "field is immutable")
        free = at_root_shard("directly")
        free.must("POST", KINDS["lc"][0], trust.body_of("lc", "cluster", {"directlyDeletable": True, "createdBy": {"username": "ann"}},
                                                          annotations={"internal.tenancy.kcp.io/type": "root:universal"}))
        pair = kit.make_user(trust.up.dir, trust.up.pki, "ann", ())
        owner = kit.Client(f"https://{trust.system.url.netloc}/clusters/directly", trust.up.pki / "serving-ca.crt", *pair)
        kit.eventually(lambda: owner.get(LC).status == 200, 20, "ann owns it")
        self.assertIn(owner.request("DELETE", LC).status, (200, 202))
        kit.eventually(lambda: free.get(LC).status in (403, 404), 30, "gone")


class Topology(Case):
    def test_KK_004_KK_130_urls_of_shards(self):
        root, wanda = trust.up.client(), trust.up.user_client("wanda")
        shards = f"{trust.CORE}/shards"
        body = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard", "metadata": {"name": "fresh"}, "spec": {}}
        self.told(root.request("POST", shards + DRY, body), 422, "spec.baseURL is required")
        for field in ("externalURL", "virtualWorkspaceURL"):
            spec = {"baseURL": "https://a.example:6443", field: ""}
            shown = root.must("POST", shards + DRY, {**body, "spec": spec})["spec"]
            self.assertEqual({shown[one] for one in ("baseURL", "externalURL", "virtualWorkspaceURL")}, {"https://a.example:6443"})
            changed = merge(root, f"{shards}/shard-1{DRY}", {"spec": {field: None}}).json["spec"]
            self.assertEqual(changed[field], changed["baseURL"], "on update too")
        for request in (lambda: wanda.get(shards), lambda: wanda.get(f"{shards}/shard-1"), lambda: wanda.request("POST", shards + DRY, body),
                        lambda: merge(wanda, f"{shards}/shard-1", {}), lambda: wanda.request("DELETE", f"{shards}/shard-1")):
            self.assertEqual(request().status, 403)

    def test_KK_131_everybody_binds_the_topology(self):
        body = trust.body_of("binding", "mine", {"reference": {"export": {"path": "root", "name": "topology.kcp.io"}}})
        self.assertEqual(trust.ann.request("POST", BINDINGS + DRY, body).status, 201)
        body["spec"]["reference"]["export"]["name"] = "shards.core.kcp.io"
        self.assertEqual(trust.ann.request("POST", BINDINGS + DRY, body).status, 403)

    def test_KK_132_slices_say_of_what_and_where(self):
        slim = {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "slim"}}
        forbidden = 'apiexportendpointslices.apis.kcp.io "slim" is forbidden: [spec.export.name: Required value]'
        for spec in ({}, {"spec": None}, {"spec": {"export": {"name": ""}}}):
            answer = trust.ann.request("POST", SLICES, {**slim, **spec})
            self.assertEqual((answer.status, answer.json["reason"], answer.json["message"]), (403, "Forbidden", forbidden), spec)
        for spec, field in (({}, "spec.export"), ({"export": {}}, "spec.export.name"), ({"export": {"path": "root"}}, "spec.export.name")):
            answer = trust.ann.request("POST", SLICES, {**slim, "spec": spec})
            self.assertEqual((answer.status, answer.json["reason"]), (422, "Invalid"), answer)
            self.assertEqual((answer.json["details"]["causes"][0]["field"], answer.json["details"]["causes"][0]["message"]), (field, "Required value"))
        self.assertEqual(trust.ann.get(f"{SLICES}/slim").status, 404)

    def test_KK_133_KK_T070_urls_of_tenants_are_data(self):
        asked = []
        server = kit.JsonServer(trust.up.pki, lambda request: (asked.append(request.path), (200, {}))[1])
        self.addCleanup(server.close)
        trust.ann.must("POST", SLICES, {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "lured"},
                                        "spec": {"export": {"name": "gears"}}})
        for client in (trust.ann, trust.admin):
            for url in (server.url, f"{server.url}/services/apiexport/{trust.cluster}/gears"):
                answer = merge(client, f"{SLICES}/lured/status", {"status": {"endpoints": [{"url": url}]}})
                self.assertIn(answer.status, (200, 403), answer)
                kit.stays(lambda: list(asked), 0.5)
        both = merge(trust.admin, f"{SLICES}/lured/status", {"status": {"endpoints": [
            {"url": "https://a.example", "shards": {"matchAll": True, "selector": {"matchLabels": {"a": "b"}}}}]}})
        self.assertEqual((both.status, both.json["message"]), (422, 'APIExportEndpointSlice.apis.kcp.io "lured" is invalid: '
                         "status.endpoints[0].shards: Invalid value: matchAll and selector are mutually exclusive"), both)
        self.assertEqual(asked, [])


class Exports(Case):
    def refused(self, spec, text, name="judged", **metadata):
        body = trust.body_of("export", name, spec, **metadata)
        for query in (DRY, ""):
            answer = trust.ann.request("POST", EXPORTS + query, body)
            self.told(answer, 403, f'apiexports.apis.kcp.io "{name}" is forbidden: {text}')
        self.assertEqual(trust.ann.get(f"{EXPORTS}/{name}").status, 404)

    def test_KK_140_KK_T080_claims_on_what_others_define_name_whose(self):
        for claim in ({"group": "example.io", "resource": "widgets"}, {"resource": "pods"}, {"group": "tenancy.kcp.io", "resource": "workspaces"},
                      {"group": "apps", "resource": "deployments"}, {"group": "core.kcp.io", "resource": "shards"}):
            self.refused({"permissionClaims": [{"resource": "secrets", "verbs": ["get"]}, {**claim, "verbs": ["*"]}]},
                         'spec.permissionClaims[1].identityHash: Invalid value: "": identityHash is required for API types that are not built-in')
        for claim in ({"resource": "configmaps"}, {"resource": "events"}, {"group": "events.k8s.io", "resource": "events"},
                      {"group": "core.kcp.io", "resource": "logicalclusters"}, {"group": "apis.kcp.io", "resource": "apibindings"},
                      {"group": "rbac.authorization.k8s.io", "resource": "roles"}, {"group": "example.io", "resource": "widgets", "identityHash": "ab"}):
            body = trust.body_of("export", "judged", {"permissionClaims": [{**claim, "verbs": ["get"]}]})
            self.assertEqual(trust.ann.request("POST", EXPORTS + DRY, body).status, 201, claim)
        widgets = {"spec": {"permissionClaims": [{"group": "example.io", "resource": "widgets", "verbs": ["get"]}]}}
        self.told(merge(trust.ann, f"{EXPORTS}/gears", widgets), 403, "identityHash is required")

    def test_KK_141_KK_T081_schemas_are_of_what_they_are_offered_as(self):
        storage = {"storage": {"crd": {}}}
        for group, name, schema, end in (("wild", "horses", "v1.cowboys.wild", ".horses.wild"), ("wild.test", "horses", "v1.horses.other", ".horses.wild.test"),
                                         ("", "horses", "v1.horses.wild", ".horses.core"), ("wild.test", "horses", "v1.wild.test", ".horses.wild.test")):
            self.refused({"resources": [{"group": group, "name": name, "schema": schema, **storage}]},
                         f'spec.resources[0].schema: Invalid value: "{schema}": must end in {end}')
        fit = {"resources": [{"group": "wild.test", "name": "horses", "schema": "v1.horses.wild.test", **storage}]}
        self.assertEqual(trust.ann.request("POST", EXPORTS + DRY, trust.body_of("export", "judged", fit)).status, 201, "it need not be there")

    def test_KK_145_KK_T082_a_key_has_a_length(self):
        trust.ann.request("POST", "/api/v1/namespaces", {"metadata": {"name": "keys"}})
        for number, (key, good) in enumerate(((b"8 bytes!", False), (b"15 bytes in all", False), (b"sixteen bytes...", True))):
            name = f"keyed-{number}"
            kit.eventually(lambda n=name, k=key: trust.ann.request("POST", "/api/v1/namespaces/keys/secrets", {
                "metadata": {"name": n}, "data": {"key": base64.b64encode(k).decode()}}).status in (201, 409))
            trust.ann.must("POST", EXPORTS, trust.body_of("export", name, {"identity": {"secretRef": {"namespace": "keys", "name": name}}}))
            state = kit.eventually(lambda n=name: conditions(trust.ann.must("GET", f"{EXPORTS}/{n}")).get("IdentityValid"), what="judged")
            identity = trust.ann.must("GET", f"{EXPORTS}/{name}")["status"].get("identityHash")
            if good:
                self.assertEqual((state["status"], identity), ("True", hashlib.sha256(key).hexdigest()))
            else:
                self.assertEqual((state["status"], state["reason"], state["message"], identity),
                                 ("False", "IdentityVerificationFailed", "identity key is too short", None))

    def test_KK_147_KK_170_KK_T083_what_v1alpha1_keeps_has_to_be_readable(self):
        old = "/apis/apis.kcp.io/v1alpha1"
        claims, schemas = "apis.v1alpha2.kcp.io/permission-claims", "apis.v1alpha2.kcp.io/resource-schemas"
        spec = {"latestResourceSchemas": ["v1.horses.wild.test"], "permissionClaims": [{"resource": "configmaps", "all": True}]}
        virtual = {"group": "wild.test", "name": "ponies", "schema": "v1.ponies.wild.test", "storage": {"virtual": {}}}
        cases = [(claims, "{", "failed to decode overhanging permission claims"), (claims, '["x"]', "failed to decode overhanging permission claims"),
                 (claims, '[{"resource":"secrets","verbs":["get"]}]',
                  "permission claims defined in annotation do not match permission claims defined in spec"),
                 (schemas, "nonsense", "failed to decode overhanging resource schemas"), (schemas, "{}", "failed to decode overhanging resource schemas"),
                 (schemas, json.dumps([{**virtual, "schema": "v1.horses.wild.test"}]), "duplicate resource schema")]
        for key, value, text in cases:
            body = {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": "old", "annotations": {key: value}}, "spec": spec}
            for query in (DRY, ""):
                answer = trust.ann.request("POST", f"{old}/apiexports{query}", body)
                self.told(answer, 403, f"metadata.annotations[{key}]: Invalid value: {json.dumps(value)}: {text}")
        good = {schemas: json.dumps([virtual]), claims: '[{"resource":"configmaps","verbs":["get"]}]'}
        body = {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExport", "metadata": {"name": "old", "annotations": good}, "spec": spec}
        trust.ann.must("POST", f"{old}/apiexports", body)
        new = trust.ann.must("GET", f"{EXPORTS}/old")["spec"]
        self.assertEqual([one["schema"] for one in new["resources"]], ["v1.horses.wild.test", "v1.ponies.wild.test"])
        self.assertEqual(new["permissionClaims"][0]["verbs"], ["get"])
        for _ in range(3):  # 2 to 1 to 2
            trust.again(lambda: trust.ann.request("PUT", f"{old}/apiexports/old", trust.ann.must("GET", f"{old}/apiexports/old")))
            now = trust.ann.must("GET", f"{EXPORTS}/old")["spec"]
            self.assertEqual((now["resources"], now["permissionClaims"]), (new["resources"], new["permissionClaims"]))
        key = "apis.v1alpha2.kcp.io/acceptable-permission-claims"
        for value, text in (("{", "failed to decode overhanging permission claims"), ('[{"resource":"secrets"}]', "do not match permission claims defined in spec")):
            body = {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIBinding", "metadata": {"name": "old", "annotations": {key: value}}, "spec": {
                "reference": {"export": {"name": "gears"}}, "permissionClaims": [{"resource": "configmaps", "all": True, "state": "Rejected"}]}}
            self.told(trust.ann.request("POST", f"{old}/apibindings{DRY}", body), 403, text)
        for name in ("status-export-permission-claims", "status-applied-permission-claims", "v1alpha1-status-export-permission-claims",
                     "v1alpha1-status-applied-permission-claims"):
            key = f"apis.v1alpha2.kcp.io/{name}"
            for version in ("v1alpha1", "v1alpha2"):
                for value, status in (("{", 403), ('["x"]', 403), ("[]", 201)):
                    body = {"apiVersion": f"apis.kcp.io/{version}", "kind": "APIBinding", "metadata": {"name": "kept", "annotations": {key: value}},
                            "spec": {"reference": {"export": {"name": "gears"}}}}
                    answer = trust.ann.request("POST", f"/apis/apis.kcp.io/{version}/apibindings{DRY}", body)
                    self.assertEqual(answer.status, status, answer)
                    if status == 403:
                        self.told(answer, 403, f"metadata.annotations[{key}]: Invalid value: {json.dumps(value)}: failed to decode overhanging permission claims")

    def test_KK_148_get_is_not_bind_and_not_content(self):
        provider = trust.up.client("/clusters/root:prov")
        trust.grant(provider, "ann", "looks", [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "verbs": ["get", "list", "update"]},
                                               {"nonResourceURLs": ["/"], "verbs": ["access"]}])
        ann = trust.up.user_client("ann", path="")
        kit.eventually(lambda: ann.get(f"/clusters/root:prov{EXPORTS}/private").status == 200, what="ann sees it")
        body = trust.body_of("binding", "seen", {"reference": {"export": {"path": "root:prov", "name": "private"}}})
        self.told(trust.ann.request("POST", BINDINGS, body), 403, "no permission to bind to export root:prov:private")
        self.told(ann.get(trust.view + MAPS), 403, "access denied")


class Bindings(Case):
    def test_KK_164_the_label_says_what_is_bound(self):
        provider = trust.up.client("/clusters/root:prov").must("GET", LC)["metadata"]["annotations"]["kcp.io/cluster"]
        item, key = f"{BINDINGS}/claims", "internal.apis.kcp.io/export"
        wanted = base62(f"{provider}:claims")
        self.assertEqual(trust.ann.must("GET", item)["metadata"]["labels"][key], wanted)
        for client in (trust.ann, trust.admin):
            for value in ("forged", None, base62("root:tenancy.kcp.io")):
                self.told(merge(client, item, {"metadata": {"labels": {key: value}}}), 403, f'modification of reserved label: "{key}"')
        merge(trust.system, item, {"metadata": {"labels": {key: "forged"}}})
        kit.eventually(lambda: trust.ann.must("GET", item)["metadata"]["labels"][key] == wanted, what="whoever wrote it")

    def test_KK_165_what_is_accepted_beyond_the_offer_is_nothing(self):
        provider = trust.up.client("/clusters/root:prov")
        trust.export_of(provider, "modest", group="modest.test", permissionClaims=[{"group": "", "resource": "configmaps", "verbs": ["get", "list"]}])
        trust.grant(provider, "ann", "bind-modest", [
            {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "resourceNames": ["modest"], "verbs": ["bind"]}])
        accepted = [{"group": "", "resource": one, "verbs": ["*"], "state": "Accepted", "selector": {"matchAll": True}} for one in ("configmaps", "secrets")]
        body = trust.body_of("binding", "modest", {"reference": {"export": {"path": "root:prov", "name": "modest"}}, "permissionClaims": accepted})
        kit.eventually(lambda: trust.ann.request("POST", BINDINGS, body).status in (201, 409), what="bound")
        view = trust.view.replace("/claims/", "/modest/")
        kit.eventually(lambda: trust.prov.get(f"{view}{MAPS}/map").status == 200, what="what is on both sides")
        self.assertIn(trust.prov.get(view + SECRETS).status, (403, 404))
        for method in ("POST", "DELETE"):
            path = MAPS if method == "POST" else f"{MAPS}/map"
            answer = trust.prov.request(method, view + path, {"metadata": {"name": "x"}} if method == "POST" else None)
            self.assertIn(answer.status, (403, 405), answer)
        state = kit.eventually(lambda: (c := conditions(trust.ann.must("GET", f"{BINDINGS}/modest")).get("PermissionClaimsValid")) and
                               c["status"] == "False" and c, what="the condition says so")
        self.assertIn(state["reason"], ("InvalidPermissionClaims", "PermissionClaimsMismatch"))

    def test_KK_226_a_definition_of_what_is_bound_waits(self):
        before = trust.ann.must("GET", "/apis/claim.test/v1/namespaces/default/gears")
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gears.claim.test"}, "spec": {
            "group": "claim.test", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"}, "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}
        trust.ann.must("POST", CRDS, definition)
        states = kit.eventually(lambda: (c := conditions(trust.ann.must("GET", f"{CRDS}/gears.claim.test"))).get("NamesAccepted") and c)
        self.assertEqual((states["NamesAccepted"]["status"], states["NamesAccepted"]["reason"]), ("False", "ListKindConflict"))
        self.assertEqual((states["Established"]["status"], states["Established"]["reason"]), ("False", "NotAccepted"))
        made_one = {"apiVersion": "claim.test/v1", "kind": "Gear", "metadata": {"name": "on"}, "spec": {"any": "thing"}}
        self.assertEqual(trust.ann.must("POST", "/apis/claim.test/v1/namespaces/default/gears", made_one)["spec"], {"any": "thing"})
        self.assertEqual(before["kind"], "GearList")
        trust.ann.must("DELETE", f"{CRDS}/gears.claim.test")


class Others(Case):
    def test_KK_215_kinds_that_there_are_not(self):
        for group, kinds in (("cache.kcp.io", ("cachedresources", "cachedobjects")),
                             ("tenancy.kcp.io", ("thisworkspaces", "clusterworkspaces")), ("workload.kcp.io", ("synctargets",))):
            for kind in kinds:
                path = f"/apis/{group}/v1alpha1/{kind}"
                body = {"apiVersion": f"{group}/v1alpha1", "kind": "X", "metadata": {"name": "x"}, "spec": {}}
                for client in (trust.ann, trust.admin, trust.system):
                    self.assertEqual(client.get(path).status, 404, path)
                    for method, target in (("POST", path), ("PUT", f"{path}/x"), ("DELETE", f"{path}/x")):
                        self.assertEqual(client.request(method, target, body).status, 404, (method, target))
                stranger = trust.up.user_client("mallory", path=trust.home)
                self.assertEqual(stranger.request("POST", path, body).status, 403)

    def test_KK_200_KK_202_KK_T101_what_is_offered_is_the_tenants_own(self):
        path = "/apis/cache.kcp.io/v1alpha1/clustercachedresources"
        body = {"apiVersion": "cache.kcp.io/v1alpha1", "kind": "ClusterCachedResource", "metadata": {"name": "x"},
                "spec": {"version": "v1", "resource": "secrets"}}
        for client in (trust.ann, trust.admin, trust.system):
            self.told(client.request("POST", path + DRY, body), 403, 'spec: Invalid value: "secrets": resource cannot be cached')
        body["spec"]["resource"] = "namespaces"
        self.assertEqual(trust.ann.request("POST", path + DRY, body).status, 201)
        self.assertEqual(trust.up.user_client("mallory", path=trust.home).request("POST", path, body).status, 403)

    def test_KK_210_KK_211_KK_212_KK_T102_nobody_moves_what_is_his(self):
        for kind, others in (("logicalclustermigrations", 404), ("logicalclusterdumps", 403)):
            path = f"/apis/migration.kcp.io/v1alpha1/{kind}"
            body = {"apiVersion": "migration.kcp.io/v1alpha1", "kind": "X", "metadata": {"name": "x"},
                    "spec": {"logicalCluster": "root", "destinationShard": "x", "step": "page", "migration": "x"}}
            for client, code in ((trust.ann, 403), (trust.up.user_client("mallory", path=trust.home), 403), (trust.admin, others),
                                 (trust.system, others)):
                for method, target in (("GET", path), ("POST", path), ("PUT", f"{path}/x"), ("DELETE", f"{path}/x")):
                    self.assertEqual(client.request(method, target, body).status, code, (method, target))

    def test_KK_220_namespaces_that_a_cluster_always_has(self):
        trust.ann.must("POST", "/api/v1/namespaces", {"metadata": {"name": "kube-public"}})
        for name in ("default", "kube-system", "kube-public"):
            for client in (trust.ann, trust.admin):
                answer = client.request("DELETE", f"/api/v1/namespaces/{name}")
                self.told(answer, 403, f'namespaces "{name}" is forbidden')
            self.assertEqual(trust.ann.get(f"/api/v1/namespaces/{name}").status, 200, name)
        self.assertEqual(trust.ann.get("/api/v1/namespaces/default").json["status"]["phase"], "Active")
        self.assertEqual(trust.ann.request("POST", "/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "x"}}).status, 404)

    def test_KK_227_a_quota_is_its_tenants(self):
        made("counted")
        inside = steady.steady(trust.up.user_client("ann", path="/clusters/root:anns:counted"))
        kit.eventually(lambda: inside.get(MAPS).status == 200)
        quotas = "/api/v1/namespaces/default/resourcequotas"
        inside.must("POST", quotas, {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "0", "count/logicalclusters.core.kcp.io": "0"}}})
        kit.eventually(lambda: inside.request("POST", MAPS + DRY, {"metadata": {"name": "x"}}).status == 403, what="counted")
        self.assertEqual(merge(inside, LC, {"metadata": {"labels": {"example.com/a": "b"}}}).status, 200)
        self.assertEqual(trust.ann.get(MAPS + "/map").status, 200)
        self.assertEqual(trust.ann.request("POST", MAPS + DRY, {"metadata": {"name": "x"}}).status, 201, "other clusters are not")
        inside.must("DELETE", f"{quotas}/few")
        kit.eventually(lambda: inside.request("POST", MAPS + DRY, {"metadata": {"name": "x"}}).status == 201, what="lifted")

    def test_KK_231_a_token_names_its_cluster(self):
        trust.ann.must("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "named"}})
        token = trust.ann.must("POST", "/api/v1/namespaces/default/serviceaccounts/named/token", {"spec": {}})["status"]["token"]
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        self.assertEqual(claims["kubernetes.io"]["clusterName"], trust.cluster)


if __name__ == "__main__":
    unittest.main()
