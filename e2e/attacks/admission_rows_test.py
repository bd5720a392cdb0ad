"""Rows of docs/spec/kcp-kinds.md about who may write what and what is answered first, as a tenant (ann), somebody with access alone
(bob, dora), an administrator and the system meet them."""
import json
import unittest

import kit
import steady
import trust
from trust import KINDS, MERGE

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"
WS, LC = KINDS["ws"][0], f"{KINDS['lc'][0]}/cluster"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DRY = "?dryRun=All"


def setUpModule():
    trust.begin()
    # Somebody who may enter and nothing else.
    trust.grant(trust.ann, "dora", "system:kcp:workspace:access")


def merge(client, path, body):
    return client.request("PATCH", path, json.dumps(body), headers=MERGE)


def dora():
    return steady.steady(trust.up.user_client("dora", path="/clusters/root:anns"))


def selected(**labels):
    return {"location": {"selector": {"matchLabels": labels}}}


class Case(unittest.TestCase):
    maxDiff = None

    def told(self, answer, code, text):
        self.assertEqual(answer.status, code, answer)
        self.assertIn(text, answer.json["message"])


class Order(Case):
    """KK-001 to KK-010: the first step that fails answers."""

    def test_KK_T001_rights_come_before_the_body(self):
        client = dora()
        kit.eventually(lambda: client.get("/api").status == 200, what="dora has access")
        for body in ("{", "[]", '{"kind":"Workspace"}', '{"spec":{"cluster":"root"}}', "\x00"):
            answer = client.request("POST", WS, body, headers={"Content-Type": "application/json"})
            self.told(answer, 403, "access denied")
            self.assertTrue(answer.json["message"].endswith(": access denied"), answer)

    def test_KK_010_KK_T008_denials_of_a_shard_end_with_access_denied(self):
        client = dora()
        kit.eventually(lambda: client.get("/api").status == 200, what="dora has access")
        self.assertEqual(client.get(SECRETS).json["message"],
                         'secrets is forbidden: User "dora" cannot list resource "secrets" in API group "" in the namespace "default": access denied')
        self.assertEqual(client.get(WS).json["message"], 'workspaces.tenancy.kcp.io is forbidden: User "dora" cannot list resource '
                         '"workspaces" in API group "tenancy.kcp.io" at the cluster scope: access denied')
        self.assertEqual(client.get("/foo").json["message"], 'forbidden: User "dora" cannot get path "/foo": access denied')

    def test_KK_002_KK_T002_KK_T003_schemas_and_reserved_names(self):
        """A reserved name is 403 although the schema forbids it too; a changed cluster is 422, for the system too."""
        for client in (trust.ann, trust.admin, trust.system):
            self.told(merge(client, f"{WS}/child", {"spec": {"cluster": "root"}}), 422, "cluster is immutable")
        self.told(trust.ann.request("POST", KINDS["wt"][0], trust.body_of("wt", "any")), 403, "name is reserved")
        self.assertEqual(trust.ann.request("POST", KINDS["wt"][0], trust.body_of("wt", "Foo")).status, 422)

    def test_KK_T006_a_status_write_changes_status_alone(self):
        item = f"{WS}/child"
        before = trust.admin.must("GET", item)
        merge(trust.admin, item + "/status", {"metadata": {"annotations": {"example.com/x": "y"}}, "spec": {"type": {"name": "other"}},
                                              "status": {"phase": before["status"]["phase"]}})
        after = trust.admin.must("GET", item)
        self.assertEqual((after["spec"], after["metadata"]["annotations"]), (before["spec"], before["metadata"]["annotations"]))
        stored = trust.again(lambda: merge(trust.ann, item, {"status": {"phase": "Deleting", "URL": "https://evil.example"}}))
        self.assertEqual(stored.json["status"], trust.admin.must("GET", item)["status"])
        self.assertNotEqual(stored.json["status"]["phase"], "Deleting")
        made = trust.ann.must("POST", WS + DRY, {**trust.body_of("ws", "given"), "status": {"phase": "Ready", "URL": "https://evil.example"}})
        self.assertNotEqual(made["status"].get("phase"), "Ready")

    def test_KK_007_KK_T007_dry_runs_leave_nothing(self):
        before = trust.system.must("GET", LC)["metadata"]["resourceVersion"]
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "dries.dry.test"},
                      "spec": {"group": "dry.test", "scope": "Cluster", "names": {"plural": "dries", "singular": "dry", "kind": "Dry"},
                               "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}
        for _ in range(5):
            trust.ann.must("POST", CRDS + DRY, definition)
            trust.ann.must("POST", MAPS + DRY, {"metadata": {"name": "dry"}})
            trust.ann.must("POST", WS + DRY, trust.body_of("ws", "dry"))
        for path in (f"{CRDS}/dries.dry.test", f"{MAPS}/dry", f"{WS}/dry"):
            self.assertEqual(trust.ann.get(path).status, 404)
        self.assertEqual(trust.system.must("GET", LC)["metadata"]["resourceVersion"], before)

    def test_KK_008_an_apply_that_creates_needs_both_rights(self):
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}})
        client, rules = dora(), [{"apiGroups": [""], "resources": ["configmaps"]}]
        for verbs, wanted in ((["patch"], 403), (["create"], 403), (["create", "patch"], 201)):
            role = "maps-" + "-".join(verbs)
            trust.grant(trust.ann, "dora", role, [{**rules[0], "verbs": verbs}])
            may = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
                   "spec": {"resourceAttributes": {"verb": verbs[-1], "resource": "configmaps", "namespace": "default"}}}
            kit.eventually(lambda m=may: client.must("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", m)["status"]["allowed"],
                           what="the right is there")
            answer = client.request("PATCH", f"{MAPS}/applied?fieldManager=m&dryRun=All", body, headers=trust.APPLY)
            self.assertEqual(answer.status, wanted, (verbs, answer))
            trust.ann.must("DELETE", f"{trust.RBAC}/clusterrolebindings/dora-{role}")
            kit.eventually(lambda m=may: not client.must("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", m)["status"]["allowed"])


class Shared(Case):
    """KK-020 to KK-024."""

    def test_KK_020_paths_have_a_grammar(self):
        for path in ("Root", ":root", "root:", "root::a", "root/a", "-a", "root:a_b", "*", "root:*"):
            reference = {"name": "universal", "path": path}
            for field, spec in (("spec.defaultChildWorkspaceType.path", {"defaultChildWorkspaceType": reference}),
                                ("spec.limitAllowedParents.types[0].path", {"limitAllowedParents": {"types": [reference]}}),
                                ("spec.extend.with[0].path", {"extend": {"with": [reference]}})):
                self.told(trust.ann.request("POST", KINDS["wt"][0], trust.body_of("wt", "odd", spec)), 422, field)
        own = trust.body_of("binding", "own", {"reference": {"export": {"path": trust.cluster, "name": "gears"}}})
        self.assertEqual(trust.ann.request("POST", KINDS["binding"][0] + DRY, own).status, 201, "a cluster's name, too")

    def test_KK_021_names_of_types_have_a_grammar(self):
        for name in ("Universal", "1a", "-a", "", "_"):
            answer = trust.ann.request("POST", KINDS["wt"][0], trust.body_of("wt", "odd", {"extend": {"with": [{"name": name, "path": "root"}]}}))
            self.told(answer, 422, "spec.extend.with[0].name")
            answer = trust.ann.request("POST", KINDS["wt"][0], trust.body_of("wt", "odd", {"limitAllowedChildren": {"types": [
                {"name": name, "path": "root"}]}}))
            self.told(answer, 422, "spec.limitAllowedChildren.types[0].name")

    def test_KK_022_kinds_of_kcp_are_cluster_scoped_and_of_one_category(self):
        names = {"core.kcp.io/v1alpha1": {"logicalclusters"}, "tenancy.kcp.io/v1alpha1": {"workspaces", "workspacetypes"},
                 "apis.kcp.io/v1alpha2": {"apiexports", "apibindings"}, "apis.kcp.io/v1alpha1": {"apiresourceschemas"}}
        for group, plurals in names.items():
            listed = {one["name"]: one for one in trust.ann.must("GET", f"/apis/{group}")["resources"] if "/" not in one["name"]}
            self.assertLessEqual(plurals, set(listed))
            for name, one in listed.items():
                self.assertFalse(one["namespaced"], name)
                self.assertIn("kcp", one.get("categories", []), name)

    def test_KK_023_a_failed_rule_says_field_value_and_message(self):
        answer = merge(trust.ann, f"{WS}/child", {"spec": {"cluster": "abc"}})
        self.assertEqual(answer.status, 422)
        self.assertRegex(answer.json["message"], r'spec\.cluster: Invalid value: "?[a-z0-9]*"?: cluster is immutable')
        self.assertEqual([cause["field"] for cause in answer.json["details"]["causes"]], ["spec.cluster"])

    def test_KK_024_KK_T010_reads_say_where_it_is_stored(self):
        for number, client in enumerate((trust.ann, trust.admin, trust.system, trust.ann, trust.ann)):
            name, forged = f"placed-{number}", ("root", trust.cluster, "", "aaaaaaaaaaaaaaaa", "system:admin")[number]
            body = {"metadata": {"name": name, "annotations": {"kcp.io/cluster": forged, "a": "b"}}}
            made = client.must("POST", MAPS, body)
            merge(client, f"{MAPS}/{name}", {"metadata": {"annotations": {"kcp.io/cluster": "root"}}})
            for seen in (made, client.must("GET", f"{MAPS}/{name}"), trust.ann.must("GET", f"{MAPS}?fieldSelector=metadata.name%3D{name}")["items"][0],
                         trust.prov.must("GET", f"{trust.view}{MAPS}/{name}")):
                self.assertEqual((seen["metadata"]["annotations"]["kcp.io/cluster"], seen["metadata"]["annotations"]["a"]), (trust.cluster, "b"))


class Workspaces(Case):
    """KK-042 to KK-061."""

    def test_KK_042_KK_049_a_mount_has_no_type_and_no_limits(self):
        made = trust.ann.must("POST", WS + DRY, trust.body_of("ws", "mounted", {"mount": trust.MOUNT}))
        self.assertNotIn("type", made["spec"])
        self.assertEqual([key for key in made["metadata"].get("labels", {}) if not key.startswith("claimed.internal.apis.kcp.io/")], [])
        # Not even a type that allows no parent is asked.
        for mount in ({}, {"ref": {}}, {"ref": None}, {"ref": {"apiVersion": "m/v1", "name": "x"}}, {"ref": {"apiVersion": "m/v1", "kind": "", "name": "x"}}):
            answer = trust.ann.request("POST", WS + DRY, trust.body_of("ws", "mounted", {"mount": mount}))
            self.told(answer, 403, "spec.mount.kind must be set")

    def test_KK_044_the_path_of_a_type_is_found_and_stored(self):
        for given, wanted in ((None, {"name": "universal", "path": "root"}), ({"name": "universal"}, {"name": "universal", "path": "root"}),
                              ({"name": "kind"}, {"name": "kind", "path": "root:anns"}),
                              ({"name": "universal", "path": "root"}, {"name": "universal", "path": "root"})):
            made = trust.ann.must("POST", WS + DRY, trust.body_of("ws", "typed", {"type": given} if given else {}))
            self.assertEqual(made["spec"]["type"], wanted)
        for given, text in (({"name": "nope"}, 'workspace type "nope" cannot be resolved'),
                            ({"name": "nope", "path": "root:prov"}, "unable to use workspace type root:prov:nope: missing verb='use' permission")):
            self.told(trust.ann.request("POST", WS, trust.body_of("ws", "typed", {"type": given})), 403, text)

    def test_KK_045_labels_of_the_type_are_added_where_there_is_none(self):
        spec = {"extend": {"with": [{"name": "universal", "path": "root"}]}, "additionalWorkspaceLabels": {"team": "of-the-type", "tier": "gold"}}
        trust.ann.must("POST", KINDS["wt"][0], trust.body_of("wt", "labelled", spec))
        body = trust.body_of("ws", "labelled", {"type": {"name": "labelled"}}, labels={"team": "mine"})
        made = kit.eventually(lambda: (a := trust.ann.request("POST", WS + DRY, body)).status == 201 and a.json)
        self.assertEqual({key: made["metadata"]["labels"].get(key) for key in ("team", "tier")}, {"team": "mine", "tier": "gold"})

    def test_KK_058_KK_059_KK_T031_parents_and_children_have_limits(self):
        base = {"extend": {"with": [{"name": "universal", "path": "root"}]}}
        types = {"orphan": {**base, "limitAllowedParents": {"none": True}},
                 "choosy": {**base, "limitAllowedParents": {"types": [{"name": "organization", "path": "root"}]}}}
        for name, spec in types.items():
            trust.ann.must("POST", KINDS["wt"][0], trust.body_of("wt", name, spec))
        for name, text in (("orphan", "workspace type root:anns:orphan cannot have any parent"),
                           ("choosy", "workspace type root:anns:choosy only allows [root:organization] parent workspaces, but parent type root:universal only implements [root:universal]")):
            body = trust.body_of("ws", name, {"type": {"name": name, "path": "root:anns"}})
            answer = kit.eventually(lambda b=body: (a := trust.ann.request("POST", WS, b)).status == 403 and "cannot be resolved" not in a.json["message"] and a)
            self.told(answer, 403, text)
        self.told(trust.ann.request("POST", WS, trust.body_of("ws", "team", {"type": {"name": "team", "path": "root"}})), 403, "workspace type root:team")
        root, inside = trust.up.client(), trust.up.client("/clusters/root:childless")
        root.must("POST", KINDS["wt"][0], trust.body_of("wt", "childless", {**base, "limitAllowedChildren": {"none": True}}))
        made = trust.body_of("ws", "childless", {"type": {"name": "childless", "path": "root"}, **selected(name="root")})
        kit.eventually(lambda: root.request("POST", WS, made).status in (201, 409), what="a workspace without children")
        kit.eventually(lambda: inside.get("/api/v1/namespaces/default").status == 200, 20)
        self.told(inside.request("POST", WS, trust.body_of("ws", "child")), 403, "workspace type root:childless cannot have any child")

    def test_KK_061_the_scheduler_takes_a_shard_that_fits(self):
        for name in ("root", "shard-1"):
            trust.ann.must("POST", WS, trust.body_of("ws", f"at-{name}", selected(name=name)))
        for name in ("root", "shard-1"):
            item = f"{WS}/at-{name}"
            found = kit.eventually(lambda i=item: (a := trust.ann.must("GET", i))["status"].get("phase") == "Ready" and a, 20)
            notes = found["metadata"]["annotations"]
            self.assertEqual(notes["internal.tenancy.kcp.io/shard"], name)
            self.assertEqual(notes["internal.tenancy.kcp.io/cluster"], found["spec"]["cluster"])
            self.assertIn("core.kcp.io/logicalcluster", found["metadata"]["finalizers"])
            self.assertTrue(found["spec"]["URL"].endswith(f":at-{name}"), found["spec"])
        held = trust.ann.must("GET", f"{WS}/held")
        self.assertNotIn("cluster", held["spec"])
        self.assertEqual([one["reason"] for one in held["status"]["conditions"] if one["type"] == "WorkspaceScheduled"], ["Unschedulable"])

    def test_KK_T021_required_groups_are_the_parents(self):
        trust.ann.must("POST", WS, trust.body_of("ws", "strict", selected(name="root")))
        outside = trust.up.client("/clusters/root:anns:strict")
        kit.eventually(lambda: outside.get(LC).status == 200 and outside.get(LC).json["status"].get("phase") == "Ready", 20)
        outside.must("PATCH", LC, json.dumps({"metadata": {"annotations": {"authorization.kcp.io/required-groups": "g"}}}), headers=MERGE)
        for given in (None, "", "other", "g,h;system:authenticated"):
            notes = {} if given is None else {"annotations": {"authorization.kcp.io/required-groups": given}}
            made = kit.eventually(lambda n=notes: (a := outside.request("POST", WS + DRY, trust.body_of("ws", "inner", **n))).status == 201 and a.json)
            self.assertEqual(made["metadata"]["annotations"]["authorization.kcp.io/required-groups"], "g", given)


class Clusters(Case):
    """KK-090 to KK-113."""

    def test_KK_T052_lists_of_a_cluster_only_shrink(self):
        item = LC + "/status"
        for status in ({"initializers": ["root:xx"]}, {"terminators": ["root:x"]}, {"phase": "Initializing"}, {"URL": "https://evil.example"}):
            self.told(merge(trust.ann, item, {"status": status}), 403, "access denied")
        self.assertEqual(trust.ann.must("GET", LC)["status"]["phase"], "Ready")
        self.told(merge(trust.admin, item, {"status": {"initializers": ["root:xx"]}}), 403, "status.initializers is immutable after initialization")
        for phase in ("Scheduling", "Initializing"):
            self.told(merge(trust.admin, item, {"status": {"phase": phase}}), 403, f'cannot transition from "Ready" to "{phase}"')
        self.assertEqual(merge(trust.admin, item, {"status": {"phase": "Unknown"}}).status, 422)

    def test_KK_T054_required_groups_shut_out_at_once(self):
        trust.ann.must("POST", WS, trust.body_of("ws", "shut", selected(name="root")))
        inside, outside = trust.up.user_client("ann", path="/clusters/root:anns:shut"), trust.up.client("/clusters/root:anns:shut")
        kit.eventually(lambda: inside.get(MAPS).status == 200, 20, "ann is in")
        for number in range(3):
            self.assertEqual(merge(inside, LC, {"metadata": {"annotations": {"authorization.kcp.io/required-groups": f"g{number}"}}}).status, 403)
            outside.must("PATCH", LC, json.dumps({"metadata": {"annotations": {"authorization.kcp.io/required-groups": f"g{number};h"}}}), headers=MERGE)
            self.assertEqual(inside.get(MAPS).status, 403, "at once")
            for value in (None, ""):
                self.assertEqual(merge(inside, LC, {"metadata": {"annotations": {"authorization.kcp.io/required-groups": value}}}).status, 403)
            outside.must("PATCH", LC, json.dumps({"metadata": {"annotations": {"authorization.kcp.io/required-groups": None}}}), headers=MERGE)
            self.assertEqual(inside.get(MAPS).status, 200)

    def test_KK_T058_watches_of_an_inactive_cluster_end(self):
        trust.ann.must("POST", WS, trust.body_of("ws", "drowsy", selected(name="root")))
        inside, outside = trust.up.user_client("ann", path="/clusters/root:anns:drowsy"), trust.up.client("/clusters/root:anns:drowsy")
        kit.eventually(lambda: inside.get(MAPS).status == 200 and outside.get(LC).json["status"].get("phase") == "Ready", 20, "ann is in")
        for _ in range(2):
            watch = inside.watch(f"{MAPS}?watch=1&timeoutSeconds=50", timeout=30)
            next(watch)
            outside.must("PATCH", LC, json.dumps({"metadata": {"annotations": {"core.kcp.io/inactive": "true"}}}), headers=MERGE)
            clock = kit.Clock()
            for _ in watch:
                pass
            self.assertLess(clock.spent(), 5, "the watch has ended")
            self.told(inside.get(MAPS), 403, "logical cluster is marked inactive")
            outside.must("PATCH", LC, json.dumps({"metadata": {"annotations": {"core.kcp.io/inactive": None}}}), headers=MERGE)
            kit.eventually(lambda: inside.get(MAPS).status == 200)


class Bindings(Case):
    def test_KK_161_KK_T090_what_a_binding_has_to_say(self):
        claim = {"group": "", "resource": "configmaps", "verbs": ["get"], "state": "Accepted"}
        export = {"export": {"path": "root:prov", "name": "claims"}}
        cases = [({"reference": {}}, "[spec.reference.export: Required value]"),
                 ({"reference": {"export": {"path": ""}}}, "[spec.reference.export.name: Required value]"),
                 ({"reference": {"export": {"path": "", "name": ""}}}, "[spec.reference.export.name: Required value]"),
                 ({"reference": export, "permissionClaims": [{**claim, "selector": {"matchAll": True, "matchLabels": {"a": "b"}}}]},
                  "matchLabels cannot be used with matchAll"),
                 ({"reference": export, "permissionClaims": [{**claim, "selector": {"matchAll": True, "matchExpressions": [
                     {"key": "a", "operator": "Exists"}]}}]}, "matchExpressions cannot be used with matchAll"),
                 ({"reference": export, "permissionClaims": [{**claim, "selector": {}}]}, "[spec.permissionClaims[0].selector: Required value: "
                  "either one of matchAll, matchLabels, or matchExpressions must be set]")]
        for spec, text in cases:
            answer = trust.ann.request("POST", KINDS["binding"][0] + DRY, trust.body_of("binding", "said", spec))
            self.assertEqual((answer.status, answer.json["reason"]), (403, "Forbidden"), (spec, answer))
            self.assertIn(text, answer.json["message"])

    def test_KK_162_KK_T091_no_right_and_no_such_path_sound_alike(self):
        for path, name in (("root:prov", "private"), ("root:prov", "none"), ("root:nowhere", "x"), ("root:prov:x", "x"), ("aaaaaaaaaaaaaaaa", "x")):
            answer = trust.ann.request("POST", KINDS["binding"][0], trust.body_of("binding", "no", {"reference": {"export": {"path": path, "name": name}}}))
            self.assertEqual((answer.status, answer.json["message"]), (403, 'apibindings.apis.kcp.io "no" is forbidden: unable to create APIBinding: '
                                                                            f"no permission to bind to export {path}:{name}"))


class Access(Case):
    """KK-300 to KK-330."""

    def test_KK_309_KK_T123_a_right_without_access_is_none(self):
        trust.grant(trust.ann, "eric", "reads-maps", [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}])
        eric = trust.up.user_client("eric", path="/clusters/root:anns")
        kit.stays(lambda: eric.get(MAPS).status == 403, 1)
        for path in (MAPS, f"{MAPS}/map", f"{MAPS}/none", "/api", "/apis", "/version", "/openapi/v2"):
            self.assertEqual(eric.get(path).status, 403, path)
        trust.grant(trust.ann, "eric", "system:kcp:workspace:access")
        kit.eventually(lambda: eric.get(MAPS).status == 200)
        self.assertEqual(eric.get("/api").status, 200)
        self.assertEqual(eric.get(SECRETS).status, 403)

    def test_KK_304_KK_T121_required_groups_are_alternatives_of_sets(self):
        trust.ann.must("POST", WS, trust.body_of("ws", "grouped", selected(name="root")))
        outside = trust.up.client("/clusters/root:anns:grouped")
        kit.eventually(lambda: outside.get(LC).status == 200 and outside.get(LC).json["status"].get("phase") == "Ready", 20)
        outside.must("POST", f"{trust.RBAC}/clusterrolebindings", {"metadata": {"name": "all"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
                     "subjects": [{"kind": "Group", "name": "system:authenticated"}]})
        outside.must("PATCH", LC, json.dumps({"metadata": {"annotations": {"authorization.kcp.io/required-groups": "a,b;c"}}}), headers=MERGE)
        for groups, code in ((("a",), 403), (("b",), 403), (("a", "b"), 200), (("c",), 200), (("a", "c"), 200), ((), 403)):
            client = trust.up.user_client("member-" + "-".join(groups), groups, path="/clusters/root:anns:grouped")
            self.assertEqual(client.get(MAPS).status, code, groups)
        self.assertEqual(outside.get(MAPS).status, 200, "administrators satisfy it")

    def test_KK_225_KK_302_KK_305_KK_379_clusters_of_the_system_are_the_systems(self):
        pki = trust.up.pki
        shard = f"https://{trust.system.url.netloc}"
        adm = kit.Client(shard, pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")
        for client in (trust.up.client(""), trust.up.user_client("ann", path=""), adm):
            for name in ("system:admin", "system:system-crds", "system:bound-crds", "system:x"):
                self.assertEqual(client.get(f"/clusters/{name}{MAPS}").status, 403, (client.url.netloc, name))
        self.assertEqual(adm.get(MAPS).status, 403, "no cluster at all")


if __name__ == "__main__":
    unittest.main()
