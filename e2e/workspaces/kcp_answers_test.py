"""Exports, bindings, claims, schemas and types as kcp answers them, by rule (docs/spec/kcp-kinds.md), over three shards."""
import json
import unittest

import kit

APIS = "/apis/apis.kcp.io/v1alpha2"
OLD_APIS = "/apis/apis.kcp.io/v1alpha1"
SCHEMAS = f"{OLD_APIS}/apiresourceschemas"
TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
LC = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DRY = "?dryRun=All"
MERGE = {"Content-Type": "application/merge-patch+json"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def setUpModule():
    global up  # pylint: disable=global-statement,global-variable-undefined
    up = kit.shared()
    for name, shard in (("kaprov", "shard-1"), ("kaone", "shard-2"), ("katwo", "shard-2"), ("katyper", "root")):
        up.make_workspace(name, selector={"name": shard})


def at(name):
    return up.client(f"/clusters/root:{name}")


def everywhere(shard):
    """All logical clusters of a shard, asked at the shard itself, by the system."""
    pki = up.pki
    return kit.Client(up.shard_url(shard) + "/clusters/*", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")


def schema(group, resource, of, **names):
    names = {"plural": resource, "singular": of.lower(), "kind": of, "listKind": f"{of}List", **names}
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.{resource}.{group or 'core'}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names,
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": OPEN, "subresources": {}}]}}


def export(client, name, group, plural, kind, **spec):
    client.must("POST", SCHEMAS, schema(group, plural, kind))
    client.must("POST", f"{APIS}/apiexports", {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name}, "spec": {
        "resources": [{"group": group, "name": plural, "schema": f"v1.{plural}.{group}", "storage": {"crd": {}}}], **spec}})
    return kit.eventually(lambda: client.must("GET", f"{APIS}/apiexports/{name}").get("status", {}).get("identityHash"), what="identity")


def binding(name, path, of, claims=()):
    return {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
            "spec": {"reference": {"export": {"path": path, "name": of}}, "permissionClaims": list(claims)}}


def bind(client, name, path, of, claims=()):
    kit.eventually(lambda: client.request("POST", f"{APIS}/apibindings", binding(name, path, of, claims)).status in (201, 409), what=name)


def conditions(found):
    return {one["type"]: one for one in found.get("status", {}).get("conditions") or []}


def bound(client, name):
    return kit.eventually(lambda: (b := client.must("GET", f"{APIS}/apibindings/{name}"))["status"].get("phase") == "Bound" and b, 20, f"{name} is Bound")


def claim(resource, group="", **more):
    return {"group": group, "resource": resource, "verbs": ["get"], "state": "Accepted", "selector": {"matchAll": True}, **more}


class Case(unittest.TestCase):
    maxDiff = None

    def told(self, answer, code, text):
        self.assertEqual(answer.status, code, answer)
        self.assertIn(text, answer.json["message"])


class Bindings(Case):
    def test_KK_161_the_schema_judges_what_admission_leaves(self):
        client = at("kaone")

        def post(spec):
            return client.request("POST", f"{APIS}/apibindings{DRY}", {**binding("b", "root", "topology.kcp.io"), "spec": spec})

        topology = {"reference": {"export": {"path": "root", "name": "topology.kcp.io"}}}
        for reference in ("x", 7, {"export": "x"}, {"export": {"name": 5}}):
            self.told(post({"reference": reference}), 422, "must be of type")
        self.told(post({"reference": {}}), 403, "[spec.reference.export: Required value]")
        self.told(post({"reference": {"export": {"path": "root"}}}), 403, "[spec.reference.export.name: Required value]")
        # The schema before admission: nothing is said of the selector.
        self.told(post({**topology, "permissionClaims": [{"resource": "x", "verbs": []}]}), 422, "should match '^[a-z][-a-z0-9]*[a-z0-9]$'")
        self.told(post({**topology, "permissionClaims": [claim("secrets", selector={}), claim("configmaps", selector={"matchAll": True, "matchLabels": {"a": "b"}})]}), 403,
                  "[spec.permissionClaims[0].selector: Required value: either one of matchAll, matchLabels, or matchExpressions must be set "
                  "spec.permissionClaims[1].selector.matchLabels: Invalid value: ")
        # Keys that are empty are none, and what has none is told apart by the others.
        self.told(post({**topology, "permissionClaims": [claim("sets", "apps"), claim("sets", "apps")]}), 422, 'Duplicate value: {"group":"apps","resource":"sets"}')
        self.told(post({**topology, "permissionClaims": [claim("sets", "apps", identityHash="h"), claim("sets", "apps", identityHash="h")]}), 422,
                  'Duplicate value: {"group":"apps","identityHash":"h","resource":"sets"}')
        made = post({**topology, "permissionClaims": [{**claim("configmaps"), "selector": {"matchAll": False, "matchLabels": {"a": "b"}}}]})
        self.assertEqual(made.json["spec"]["permissionClaims"], [{**claim("configmaps"), "identityHash": "", "selector": {"matchLabels": {"a": "b"}}}])

    def test_KK_161_a_selector_is_kept_where_its_claim_is_told_apart(self):
        client = at("kaone")
        bind(client, "kept", "root", "topology.kcp.io", [claim("sets", "apps", identityHash="h"), claim("configmaps")])

        def patch(*claims):
            return client.request("PATCH", f"{APIS}/apibindings/kept{DRY}", json.dumps({"spec": {"permissionClaims": list(claims)}}), headers=MERGE)

        other = {"selector": {"matchLabels": {"a": "b"}}}
        self.told(patch(claim("sets", "apps", identityHash="h", **other)), 422, "Permission claim selector is immutable")
        self.assertEqual(patch(claim("configmaps", **other)).status, 200, "it has neither group nor identity: kcp finds no claim before it")
        client.must("DELETE", f"{APIS}/apibindings/kept")

    def test_KK_149_a_claim_of_what_nobody_bound_on_this_shard_is_settled(self):
        identity = export(at("kaprov"), "cogs", "cog.ka.test", "cogs", "Cog")
        export(at("katyper"), "gears", "gear.ka.test", "gears", "Gear",
               permissionClaims=[{"group": "cog.ka.test", "resource": "cogs", "identityHash": identity, "verbs": ["get"]}])
        bind(at("katwo"), "gears", "root:katyper", "gears", [claim("cogs", "cog.ka.test", identityHash=identity)])
        found = kit.eventually(lambda: (b := at("katwo").must("GET", f"{APIS}/apibindings/gears"))["status"].get("appliedPermissionClaims") and b, 20, "claims applied")
        self.assertEqual({kind: conditions(found)[kind]["status"] for kind in ("PermissionClaimsApplied", "PermissionClaimsValid")},
                         {"PermissionClaimsApplied": "True", "PermissionClaimsValid": "True"})

    def test_KK_169_what_another_binding_serves_outlives_the_one_that_goes(self):
        client, path = at("kaone"), "/apis/nut.ka.test/v1/namespaces/default/nuts"
        export(at("kaprov"), "nuts", "nut.ka.test", "nuts", "Nut")
        bind(client, "first", "root:kaprov", "nuts")
        bound(client, "first")
        made = client.must("POST", path, {"apiVersion": "nut.ka.test/v1", "kind": "Nut", "metadata": {"name": "a"}})
        bind(client, "second", "root:kaprov", "nuts")
        kit.eventually(lambda: conditions(client.must("GET", f"{APIS}/apibindings/second")).get("InitialBindingCompleted", {}).get("reason") == "NamingConflicts",
                       what="the second has to wait")
        client.must("DELETE", f"{APIS}/apibindings/first")
        bound(client, "second")
        self.assertEqual(client.must("GET", f"{path}/a")["metadata"]["uid"], made["metadata"]["uid"])
        client.must("DELETE", f"{APIS}/apibindings/second")
        kit.eventually(lambda: client.get(f"{APIS}/apibindings/second").status == 404, what="the last one goes")
        bind(client, "third", "root:kaprov", "nuts")
        bound(client, "third")
        self.assertEqual(client.must("GET", path)["items"], [], "with the last one they go")


class Schemas(Case):
    def test_KK_186_KK_188_names_are_all_given_and_groups_of_before_domains_are_free(self):
        client = at("kaprov")
        for name in ("singular", "listKind", "kind", "plural"):
            answer = client.request("POST", SCHEMAS + DRY, schema("w.ka.test", "things", "Thing", **{name: ""}))
            self.told(answer, 403, f"spec.names.{name}: Required value")
        for group in ("apps", "autoscaling", "batch", "extensions", "policy"):
            self.assertEqual(client.request("POST", SCHEMAS + DRY, schema(group, "things", "Thing")).status, 201, group)
        self.told(client.request("POST", SCHEMAS + DRY, schema("plain", "things", "Thing")), 403, "should be a domain with at least one dot")

    def test_KK_190_how_versions_convert(self):
        def post(conversion):
            body = schema("w.ka.test", "things", "Thing")
            body["spec"]["conversion"] = conversion
            return at("kaprov").request("POST", SCHEMAS + DRY, body)

        self.assertEqual(post({"strategy": "None"}).status, 201)
        self.told(post({"strategy": "Webhook"}), 422, "Webhook must be specified if strategy=Webhook")
        self.told(post({"strategy": "Other"}), 422, 'Unsupported value: "Other": supported values: "None", "Webhook"')
        self.told(post({}), 422, "spec.conversion.strategy: Required value")

    def test_KK_223_definitions_of_groups_that_are_nobodys(self):
        client = at("kaprov")
        for group in ("contrib.kcp.io", "apps"):
            client.must("POST", CRDS, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"things.{group}"},
                                       "spec": {"group": group, "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"}, "versions": [
                                           {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": OPEN}}]}})
            path = f"/apis/{group}/v1/things"
            kit.eventually(lambda p=path: client.get(p).status == 200, what=group)
            self.assertEqual(client.must("POST", path, {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}})["kind"], "Thing")


class Types(Case):
    def test_KK_044_a_path_that_is_given_is_kept(self):
        client = at("katyper")
        cluster = client.must("GET", LC)["metadata"]["annotations"]["kcp.io/cluster"]
        client.must("POST", f"{TENANCY}/workspacetypes", {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": "kept"}, "spec": {}})
        for path, stored in ((cluster, cluster), ("root:katyper", "root:katyper"), (None, "root:katyper")):
            of = {"name": "kept", **({"path": path} if path else {})}
            body = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "given"}, "spec": {"type": of}}
            made = client.must("POST", f"{TENANCY}/workspaces{DRY}", body)
            self.assertEqual(made["spec"]["type"], {"name": "kept", "path": stored})
        body["spec"]["type"]["path"] = cluster
        client.must("POST", f"{TENANCY}/workspaces", body)
        kit.eventually(lambda: client.must("GET", f"{TENANCY}/workspaces/given")["status"]["phase"] == "Ready", 20, "Ready")
        inside = at("katyper:given").must("GET", LC)["metadata"]["annotations"]
        self.assertEqual(inside["internal.tenancy.kcp.io/type"], "root:katyper:kept", "the cluster has the canonical one")

    def test_KK_073_default_bindings(self):
        client, ws = at("katyper"), f"{TENANCY}/workspaces"
        export(client, "bolts", "bolt.ka.test", "bolts", "Bolt", permissionClaims=[
            {"group": "", "resource": "configmaps", "verbs": ["get"], "defaultSelector": {"matchLabels": {"of": "bolts"}}},
            {"group": "", "resource": "secrets", "verbs": ["list"]}])

        def type_of(name, *entries):
            return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": name}, "spec": {"defaultAPIBindings": list(entries)}}

        # A list without keys: an entry may stand in it twice, and needs no path.
        client.must("POST", f"{TENANCY}/workspacetypes", type_of("bolted", {"export": "bolts"}, {"export": "bolts"}))
        body = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "bolted"}, "spec": {"type": {"name": "bolted"}}}
        client.must("POST", ws, body)
        kit.eventually(lambda: client.must("GET", f"{ws}/bolted")["status"]["phase"] == "Ready", 20, "Ready")
        mine = [one for one in at("katyper:bolted").must("GET", f"{APIS}/apibindings")["items"] if one["spec"]["reference"]["export"]["name"] == "bolts"]
        self.assertEqual(len(mine), 1)
        self.assertEqual({one["resource"]: one["selector"] for one in mine[0]["spec"]["permissionClaims"]},
                         {"configmaps": {"matchLabels": {"of": "bolts"}}, "secrets": {"matchAll": True}})
        self.assertEqual(conditions(mine[0])["PermissionClaimsValid"]["status"], "True")
        # Verb bind of each entry, in the workspace of the export.
        rule = [{"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"], "verbs": ["*"]}, {"nonResourceURLs": ["/"], "verbs": ["access"]}]
        for name, rules in (("katypist", rule), ("kabinder", rule + [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "verbs": ["bind"]}])):
            client.must("POST", f"{RBAC}/clusterroles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
            client.must("POST", f"{RBAC}/clusterrolebindings", {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]})
        typist, binder = (up.user_client(name, path="/clusters/root:katyper") for name in ("katypist", "kabinder"))
        types = f"{TENANCY}/workspacetypes{DRY}"
        kit.eventually(lambda: binder.request("POST", types, type_of("mine", {"export": "bolts"})).status == 201, what="bind in this workspace")
        kit.eventually(lambda: typist.request("POST", types, type_of("mine")).status == 201, what="types without bindings")
        text = "unable to create or update WorkspaceType: no permission to bind to export "
        self.told(typist.request("POST", types, type_of("mine", {"export": "bolts"})), 403, text + "bolts")
        self.told(binder.request("POST", types, type_of("mine", {"export": "bolts"}, {"export": "cogs", "path": "root:kaprov"})), 403, text + "root:kaprov:cogs")
        self.told(binder.request("POST", types, type_of("mine", {"export": "x", "path": "root:nowhere"})), 403, text + "root:nowhere:x")

    def test_KK_061_where_a_workspace_was_placed(self):
        for name, shard in (("kaprov", "shard-1"), ("kaone", "shard-2"), ("katyper", "root")):
            found = up.client().must("GET", f"{TENANCY}/workspaces/{name}")["metadata"]["annotations"]
            self.assertEqual(found["core.kcp.io/shard"], shard)
            self.assertEqual(at(name).must("GET", LC)["metadata"]["annotations"]["core.kcp.io/shard"], shard)
        for shard in ("root", "shard-1"):
            text = (up.state / "shards" / shard / "admin.kubeconfig").read_text()
            self.assertRegex(text, "name: \"?shard-base\"?\n")


class Elsewhere(Case):
    def test_AM_479_metadata_of_definitions_over_workspaces_and_versions(self):
        group, kind = "metal.ka.test", "Rod"
        for name, version in (("kaone", "v1"), ("katwo", "v2")):
            client = at(name)
            client.must("POST", CRDS, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"rods.{group}"}, "spec": {
                "group": group, "scope": "Namespaced", "names": {"plural": "rods", "kind": kind}, "versions": [
                    {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": OPEN}}]}})
            path = f"/apis/{group}/{version}/namespaces/default/rods"
            kit.eventually(lambda c=client, p=path: c.get(p).status == 200, what=name)
            client.must("POST", path, {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": f"of-{name}"}, "spec": {"a": 1}})
        shard = everywhere("shard-2")
        partial = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
        for version in ("v1", "v2"):
            answer = kit.eventually(lambda v=version: (a := shard.get(f"/apis/{group}/{v}/rods", headers=partial)).status == 200 and a, what=version)
            self.assertEqual(answer.json["kind"], "PartialObjectMetadataList")
            self.assertEqual({(one["metadata"]["name"], one["metadata"]["annotations"]["kcp.io/original-api-version"]) for one in answer.json["items"]},
                             {("of-kaone", f"{group}/v1"), ("of-katwo", f"{group}/v2")})
            self.assertNotIn(b'"spec"', answer.body)
            self.assertEqual(shard.get(f"/apis/{group}/{version}/rods").status, 404, "whole objects are of one definition each")
        self.assertEqual(shard.get(f"/apis/{group}/v3/rods", headers=partial).status, 404)

    def test_AM_125_links_of_a_virtual_workspace_lead_the_way_that_was_taken(self):
        prov = at("kaprov")
        export(prov, "links", "link.ka.test", "links", "Link")
        cluster = prov.must("GET", LC)["metadata"]["annotations"]["kcp.io/cluster"]
        view = f"/services/apiexport/{cluster}/links/clusters/*"
        for root in (view, f"/shards/shard-1{view}"):
            client = up.client("")
            paths = kit.eventually(lambda r=root: (a := client.get(f"{r}/openapi/v3")).status == 200 and "apis/link.ka.test/v1" in a.json["paths"] and a.json["paths"],
                                   what=root)
            for entry in paths.values():
                self.assertTrue(entry["serverRelativeURL"].startswith(f"{root}/openapi/v3/"), entry)
            document = client.must("GET", paths["apis/link.ka.test/v1"]["serverRelativeURL"])
            self.assertIn("test.ka.link.v1.Link", document["components"]["schemas"])
        shard = kit.Client(up.shard_url("shard-1"), up.pki / "serving-ca.crt", up.pki / "shard-admin.crt", up.pki / "shard-admin.key")
        for entry in shard.must("GET", f"{view}/openapi/v3")["paths"].values():
            self.assertTrue(entry["serverRelativeURL"].startswith(f"{view}/openapi/v3/"), entry)
            self.assertEqual(shard.get(entry["serverRelativeURL"]).status, 200)
        self.assertEqual(up.user_client("kanobody", path="").get(f"/shards/shard-1{view}/openapi/v3").status, 403)

    def test_KK_142_the_path_of_what_the_proxy_keeps(self):
        cluster = at("kaone").must("GET", LC)["metadata"]["annotations"]["kcp.io/cluster"]
        for place in ("root:kaone", cluster):
            client = up.client(f"/clusters/{place}")
            for kind, plural, spec in (("Partition", "partitions", {}), ("PartitionSet", "partitionsets", {"dimensions": []})):
                body = {"apiVersion": "topology.kcp.io/v1alpha1", "kind": kind, "metadata": {"name": "x", "annotations": {"kcp.io/path": "root:forged"}}, "spec": spec}
                made = client.must("POST", f"/apis/topology.kcp.io/v1alpha1/{plural}{DRY}", body)
                self.assertEqual(made["metadata"]["annotations"].get("kcp.io/path"), "root:kaone", (place, kind))


class Descriptions(Case):
    @staticmethod
    def undescribed(name, schema_of):
        """Fields, and the type itself, without a description."""
        out = [] if schema_of.get("description") else [name]

        def walk(part, path):
            for key, value in (part.get("properties") or {}).items():
                if not value.get("description"):
                    out.append(f"{path}.{key}")
                walk(value, f"{path}.{key}")
            for inner in (part.get("items"), part.get("additionalProperties")):
                if isinstance(inner, dict):
                    walk(inner, path)

        walk(schema_of, name)
        return out

    @staticmethod
    def of_the_server(name):
        return name.startswith("io.k8s.") or name.startswith("io.kcp.")

    def test_AM_539_every_served_field_is_described(self):
        client = at("katyper")
        missing, seen = [], 0
        for key in client.must("GET", "/openapi/v3")["paths"]:
            for name, one in client.must("GET", f"/openapi/v3/{key}").get("components", {}).get("schemas", {}).items():
                if self.of_the_server(name):
                    seen += 1
                    missing += self.undescribed(name, one)
        self.assertGreater(seen, 100)
        self.assertEqual(missing, [])
        whole = client.must("GET", "/openapi/v2")["definitions"]
        self.assertEqual([text for name, one in whole.items() if self.of_the_server(name) for text in self.undescribed(name, one)], [])
        for kind in ("workspaces.tenancy", "apibindings.apis"):
            self.assertIn(f"io.kcp.{kind.split('.')[1]}.v1alpha1.{'Workspace' if 'work' in kind else 'APIBinding'}", whole)

    def test_AM_539_kubectl_explains(self):
        for field, text in (("workspace.spec", "The server writes it, once"), ("apibinding.status", "Binding until the resources are served"),
                            ("partitionset.spec", "Keys of labels by whose values"), ("apiexport.spec.resources", "Plural name of the resource"),
                            ("configmap.metadata", "Keys and values to select objects by"), ("crd.spec.conversion.webhook", "best first"),
                            ("logicalcluster", "named cluster")):
            shown = " ".join(up.kubectl("explain", field, server="/clusters/root:katyper").split())
            self.assertIn(text, shown, field)


if __name__ == "__main__":
    unittest.main()
