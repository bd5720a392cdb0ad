"""System facts in objects that tenants write (KK-027, the trust matrix KK-250 to KK-291): every protected annotation, label and
field by every way in which an object can be written, by the owner of a workspace and by an administrator. Refused with the
recorded text, and nothing has changed. The matrix is data; the rows that must go on working follow it."""
import contextlib
import json
import unittest

import kit
import trust
from trust import (A, APPLY, CORE, FIELDS, FREE, KINDS, L, MERGE, METADATA, MOUNT, OVERWRITTEN, PATCH, STATUS, Ways, again, as_bob,
                   body_of, found, grant, pointer)


def setUpModule():
    global up, admin, ann, prov, system, home, view, cluster  # pylint: disable=global-variable-undefined
    trust.begin()
    up, admin, ann, prov, system = trust.up, trust.admin, trust.ann, trust.prov, trust.system
    home, view, cluster = trust.home, trust.view, trust.cluster


class Case(unittest.TestCase):
    maxDiff = None

    def version(self, kind):
        collection, name, _ = KINDS[kind]
        return system.must("GET", f"{collection}/{name}")["metadata"]["resourceVersion"]

    @contextlib.contextmanager
    def nothing_changes(self, kind):
        """Nobody but the attacker writes these objects now."""
        before = kit.eventually(lambda: self.quiet(kind), what="the object rests")
        yield
        self.assertEqual(self.version(kind), before, f"{kind} was written")

    def quiet(self, kind):
        first = self.version(kind)
        return first if first == self.version(kind) else None

    def refused(self, answer, code, text, what):
        self.assertEqual(answer.status, code, (what, answer))
        self.assertIn(text, answer.json["message"], what)
        self.assertEqual(answer.json["reason"], "Forbidden" if code == 403 else "Invalid", what)

    @staticmethod
    def actors(who, bob=True):
        out = []
        if "t" in who:
            out.append(("ann", ann.request))
            if bob:
                out.append(("ann as bob", as_bob(ann)))
        if "a" in who:
            out.append(("the administrator", admin.request))
        return out


class Matrix(Case):
    def test_KK027_metadata_is_refused_by_every_way(self):
        """AM-482, KK-026, KK-122, KK-T012, KK-T013: set, changed and removed."""
        for kind, part, key, value, who in METADATA:
            shown = f"{KINDS[kind][2]} is forbidden: modification of reserved {part[:-1]}: \"{key}\""
            with self.nothing_changes(kind):
                for actor, request in self.actors(who):
                    ways = Ways(request, kind)
                    path = ("metadata", part, key)
                    known = found(ways.present, path)
                    values = [value] if known is None else [value, None]
                    for wanted in values:
                        for way, answer in ways.all(path, wanted):
                            with self.subTest(kind=kind, key=key, way=way, actor=actor, value=wanted):
                                self.refused(answer, 403, shown, (kind, key, way, actor))

    def test_fields_are_refused_by_every_way(self):
        """KK-094, KK-095, KK-099, KK-100, KK-T025, KK-T027, KK-T051, KK-T055: what a Workspace and a LogicalCluster are is the system's to say."""
        for kind, path, value, code, text, who in FIELDS:
            with self.nothing_changes(kind):
                for actor, request in self.actors(who):
                    for way, answer in Ways(request, kind).all(tuple(path.split(".")), value):
                        if way == "apply" and value in ([], {}):
                            continue  # applying nothing takes nothing away from others
                        if way == "apply" and path == "metadata.finalizers" and "x/y" not in value:
                            continue
                        with self.subTest(kind=kind, path=path, way=way, actor=actor):
                            self.refused(answer, code, text, (kind, path, way, actor))

    def test_KK060_KK101_KK311_status_is_denied_by_every_way(self):
        for kind, path, value, who in STATUS:
            with self.nothing_changes(kind):
                for actor, request in self.actors(who):
                    for way, answer in Ways(request, kind, "/status").all(tuple(path.split(".")), value):
                        with self.subTest(kind=kind, path=path, way=way, actor=actor):
                            self.refused(answer, 403, ": access denied", (kind, path, way, actor))

    def test_KK311_these_statuses_are_not_read_either(self):
        """KK-143, KK-167, KK-T093."""
        for kind in ("export", "binding"):
            collection, name, _ = KINDS[kind]
            for client in (ann, admin):
                self.refused(client.get(f"{collection}/{name}/status"), 403, ": access denied", kind)
            self.assertEqual(system.get(f"{collection}/{name}/status").status, 200)
            review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"resourceAttributes": {
                "group": "apis.kcp.io", "resource": collection.rsplit("/", 1)[1], "subresource": "status", "verb": "update"}}}
            told = admin.must("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
            self.assertFalse(told["status"]["allowed"], "reviews say so, too")

    def test_KK006_a_status_write_carries_no_metadata(self):
        for kind, part, key, value, who in METADATA:
            if kind != "lc" or "a" not in who:
                continue
            with self.nothing_changes(kind):
                for way, answer in Ways(admin.request, kind, "/status").all(("metadata", part, key), value):
                    self.assertEqual(answer.status, 200, (key, way, answer))
                    self.assertNotEqual(found(answer.json, ("metadata", part, key)), value, (key, way))

    def test_through_the_virtual_workspace_of_an_export(self):
        request = prov.request

        def through(method, path, *args, **more):
            return request(method, view + path, *args, **more)

        for kind in ("map", "ws", "held", "export", "binding"):
            facts = [(("metadata", part, key), value, 403) for of, part, key, value, _ in METADATA if of == kind]
            facts += [(tuple(path.split(".")), value, code) for of, path, value, code, *_ in FIELDS if of == kind]
            with self.nothing_changes(kind):
                for path, value, code in facts:
                    for way, answer in Ways(through, kind).all(path, value):
                        with self.subTest(kind=kind, path=path, way=way):
                            self.assertIn(answer.status, (403, code), (path, way, answer))
                for of, path, value, _ in STATUS:
                    if of == kind:
                        for way, answer in Ways(through, kind, "/status").all(tuple(path.split(".")), value):
                            self.assertEqual(answer.status, 403, (path, way, answer))
        for kind in ("lc", "binding", "export"):
            collection, name, _ = KINDS[kind]
            parts = ("", "/status") if kind == "lc" else ("/status",)
            for part in parts:
                for method in ("GET", "PATCH") if part else ("PATCH",):
                    answer = through(method, f"{collection}/{name}{part}", "{}", headers=MERGE)
                    # Who claims logical clusters reads them (KK-149).
                    self.assertIn(answer.status, (200,) if (kind, method) == ("lc", "GET") else (403, 404), (kind, method, answer))
        for spec in ({"cluster": "root"}, {"URL": "https://evil.example"}):
            answer = through("POST", KINDS["ws"][0], body_of("ws", "thief", spec))
            self.refused(answer, 403, "can only be set by system privileged users", spec)


class Creation(Case):
    def test_KK027_forged_metadata_is_refused_or_replaced(self):
        """KK-168, KK-228: paths are the server's."""
        bodies = {
            "ws": lambda: body_of("ws", "made", {"location": {"selector": {"matchLabels": {"no": "shard"}}}}),
            "wt": lambda: body_of("wt", "made", {"extend": {"with": [{"name": "universal", "path": "root"}]}}),
            "export": lambda: body_of("export", "made", {"resources": []}),
            "binding": lambda: body_of("binding", "made", {"reference": {"export": {"name": "gears"}}}),
            "map": lambda: body_of("map", "made")}
        overwritten = {(kind, key) for kind, key in OVERWRITTEN} | {("binding", "internal.apis.kcp.io/export")}
        for kind, part, key, value, who in METADATA:
            if kind not in bodies or (kind, key) in overwritten:
                continue
            collection, name = KINDS[kind][0], 'made"'
            body = bodies[kind]()
            body["metadata"][part] = {key: value}
            for actor, request in self.actors(who + "t"):
                for query in ("", "?dryRun=All"):
                    text = f'{name} is forbidden: modification of reserved {part[:-1]}: "{key}"'
                    self.refused(request("POST", collection + query, body), 403, text, (kind, key, actor))
                applied = request("PATCH", f"{collection}/made?fieldManager=m&force=true", json.dumps(body), headers=APPLY)
                self.refused(applied, 403, f'modification of reserved {part[:-1]}: "{key}"', (kind, key, actor))
            self.assertEqual(system.get(f"{collection}/made").status, 404)
        for kind, key in OVERWRITTEN:
            collection, body = KINDS[kind][0], bodies[kind]()
            body["metadata"]["annotations"] = {key: "forged"}
            for query in ("?dryRun=All", ""):
                made = again(lambda c=collection, q=query, b=body: ann.request("POST", c + q, b))
                self.assertEqual(made.status, 201, (kind, key, made))
                self.assertNotEqual(found(made.json, ("metadata", "annotations", key)), "forged", (kind, key))
            if key == "kcp.io/path":
                self.assertEqual(made.json["metadata"]["annotations"][key], "root:anns", kind)
            ann.must("DELETE", f"{collection}/made", expect=(200, 202))
            kit.eventually(lambda c=collection: system.get(f"{c}/made").status == 404)

    def test_KK025_system_fields_are_the_servers(self):
        """KK-T011."""
        schema = {"group": "dated.test", "scope": "Cluster", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                  "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"type": "object"}}]}
        for collection, make in ((KINDS["map"][0], lambda: body_of("map", "dated")), ("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", lambda: {
                "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.things.dated.test"}, "spec": schema}),
                (KINDS["wt"][0], lambda: body_of("wt", "dated", {
                "extend": {"with": [{"name": "universal", "path": "root"}]}}))):
            body = make()
            uid, time = "11111111-2222-3333-4444-555555555555", "2001-01-01T00:00:00Z"
            body["metadata"].update(uid=uid, creationTimestamp=time, deletionTimestamp=time, annotations={"kcp.io/shard": "x"})
            for client in (ann, system):
                meta = client.must("POST", collection, body)["metadata"]
                self.assertNotEqual((meta["uid"], meta["creationTimestamp"]), (uid, time))
                self.assertNotIn("deletionTimestamp", meta)
                self.assertNotIn("kcp.io/shard", meta["annotations"])
                client.must("DELETE", f"{collection}/{body['metadata']['name']}")

    def test_KK046_KK047_a_workspace_does_not_say_where_it_is(self):
        victim = up.make_workspace("victim")["spec"]["cluster"]
        cases = [({"cluster": name}, "spec.Cluster can only be set by system privileged users")
                 for name in ("root", victim, cluster, "brandnewname", "system:admin")]
        cases += [({"URL": "https://evil.example"}, "spec.URL can only be set by system privileged users"),
                  ({"URL": "https://evil.example", "mount": MOUNT}, "spec.URL can only be set by system privileged users"),
                  ({"cluster": "root", "mount": MOUNT}, "spec.Cluster can only be set by system privileged users")]
        for spec, text in cases:
            for actor, request in self.actors("ta"):
                for query in ("", "?dryRun=All"):
                    answer = request("POST", KINDS["ws"][0] + query, body_of("ws", "thief", spec))
                    self.refused(answer, 403, f'workspaces.tenancy.kcp.io "thief" is forbidden: {text}', (spec, actor))
                applied = request("PATCH", f"{KINDS['ws'][0]}/thief?fieldManager=m", json.dumps(body_of("ws", "thief", spec)),
                                  headers=APPLY)
                self.refused(applied, 403, text, (spec, actor, "apply"))
        self.assertEqual(ann.get(f"{KINDS['ws'][0]}/thief").status, 404)
        root = up.client()
        self.assertEqual(root.get("/api/v1/namespaces/default").status, 200)
        shards = {s["metadata"]["name"]: s["spec"]["baseURL"] for s in root.must("GET", f"{CORE}/shards")["items"]}
        holders = []
        for name, base in shards.items():
            client = kit.Client(base + "/clusters/root", up.pki / "serving-ca.crt", up.pki / "shard-admin.crt",
                                up.pki / "shard-admin.key")
            if client.get(f"{CORE}/logicalclusters/cluster").status == 200:
                holders.append(name)
        self.assertEqual(holders, ["root"], "there is one root")

    def test_KK040_KK041_the_owner_is_who_asks(self):
        """KK-T020."""
        forged = {"experimental.tenancy.kcp.io/owner": '{"username":"root","groups":["system:masters"]}',
                  "authorization.kcp.io/required-groups": "mine"}
        body = body_of("ws", "owned", {"location": {"selector": {"matchLabels": {"no": "shard"}}}}, annotations=forged)
        for query in ("?dryRun=All", ""):
            notes = ann.must("POST", KINDS["ws"][0] + query, body)["metadata"]["annotations"]
            owner = json.loads(notes["experimental.tenancy.kcp.io/owner"])
            self.assertEqual((owner["username"], owner.get("groups")), ("ann", ["system:authenticated"]))
            self.assertNotIn("authorization.kcp.io/required-groups", notes)
        ann.must("DELETE", f"{KINDS['ws'][0]}/owned")
        made = admin.must("POST", KINDS["ws"][0] + "?dryRun=All", body)["metadata"]["annotations"]
        self.assertNotIn("system:kcp:admin", json.loads(made["experimental.tenancy.kcp.io/owner"]).get("groups", []))
        kept = system.must("POST", KINDS["ws"][0] + "?dryRun=All", body)["metadata"]["annotations"]
        self.assertEqual({key: kept[key] for key in forged}, forged)

    def test_KK055_types_that_one_may_not_use(self):
        """KK-T023, KK-T028."""
        provider = up.client("/clusters/root:prov")
        provider.must("POST", KINDS["wt"][0], body_of("wt", "secret", {"extend": {"with": [{"name": "universal", "path": "root"}]}}))
        ann.must("POST", KINDS["wt"][0], body_of("wt", "derived", {"extend": {"with": [{"name": "secret", "path": "root:prov"}]}}))
        missing = "unable to use workspace type {}: missing verb='use' permission on workspacetype"
        for kind, text in (({"name": "derived", "path": "root:anns"}, missing.format("root:prov:secret")),
                           ({"name": "secret", "path": "root:prov"}, missing.format("root:prov:secret")),
                           ({"name": "none", "path": "root:prov"}, missing.format("root:prov:none")),
                           ({"name": "x", "path": "root:nowhere"}, missing.format("root:nowhere:x")),
                           ({"name": "none"}, 'workspace type "none" cannot be resolved')):
            # A shard that has just started says 503 until it has read what others hold.
            answer = kit.eventually(lambda k=kind: said if (said := ann.request("POST", KINDS["ws"][0], body_of("ws", "typed", {"type": k}))).status != 503
                                    else None, what="an answer")
            self.refused(answer, 403, f'workspaces.tenancy.kcp.io "typed" is forbidden: {text}', kind)

    def test_KK070_KK092_names_and_kinds_that_are_the_systems(self):
        for name in ("any", "system"):
            self.refused(ann.request("POST", KINDS["wt"][0], body_of("wt", name)), 403,
                         f'metadata.name: Invalid value: "{name}": name is reserved', name)
        self.refused(ann.request("POST", KINDS["wt"][0], body_of("wt", "root")), 403,
                     "root workspace type can only be created in root cluster", "root")
        for client in (ann, admin):
            answer = client.request("POST", KINDS["lc"][0], body_of("lc", "cluster"))
            self.refused(answer, 403, 'logicalclusters.core.kcp.io "cluster" is forbidden: LogicalCluster cannot be created', "create")
            for query in ("", "?dryRun=All"):
                answer = client.request("DELETE", f"{KINDS['lc'][0]}/cluster{query}")
                self.refused(answer, 403, "LogicalCluster cannot be deleted", "delete")
            self.refused(client.request("DELETE", KINDS["lc"][0]), 403, "LogicalCluster cannot be deleted", "collection")

    def test_KK223_KK224_KKT103_groups_of_kcp(self):
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        schemas = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"

        def definition(group, **metadata):
            return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                    "metadata": {"name": f"things.{group}", **metadata},
                    "spec": {"group": group, "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                             "versions": [{"name": "v1", "served": True, "storage": True,
                                           "schema": {"openAPIV3Schema": {"type": "object"}}}]}}

        def schema(group):
            return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.things.{group}"},
                    "spec": {"group": group, "scope": "Cluster", "names": {"plural": "things", "singular": "thing", "kind": "Thing",
                                                                           "listKind": "ThingList"},
                             "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"type": "object"}}]}}

        for group in ("core.kcp.io", "kcp.io", "x.apis.kcp.io", "tenancy.kcp.io", "topology.kcp.io", "cache.kcp.io", "migration.kcp.io"):
            for client in (ann, admin):
                for path, body in ((crds, definition(group)), (schemas, schema(group))):
                    self.refused(client.request("POST", path, body), 403, f"{group} is a reserved group", (group, path))
        for group in ("mykcp.io", "x.kcp.io"):
            for path, body in ((crds, definition(group)), (schemas, schema(group))):
                ann.must("POST", path + "?dryRun=All", body)
        for key in ("apis.kcp.io", "apis.kcp.io/bound-crd", "apis.kcp.io/schema-cluster", "x.apis.kcp.io/y"):
            self.refused(ann.request("POST", crds, definition("mine.test", annotations={key: "x"})), 403,
                         f"{key} is a reserved annotation", key)


class Rights(Case):
    def test_KK166_nobody_accepts_claims_beyond_his_own_rights(self):
        """KK-T092."""
        grant(ann, "cleo", "binders", [
            {"apiGroups": ["apis.kcp.io"], "resources": ["apibindings"], "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}, {"nonResourceURLs": ["/"], "verbs": ["access"]}])
        grant(up.client("/clusters/root:prov"), "cleo", "bind-claims")
        cleo = up.user_client("cleo", path=home)
        kit.eventually(lambda: cleo.get(KINDS["binding"][0]).status == 200, what="cleo is in")

        def body(*claims, name="cleos"):
            return body_of("binding", name, {"reference": {"export": {"path": "root:prov", "name": "claims"}}, "permissionClaims": [
                {"group": "", "resource": resource, "verbs": verbs, "state": state, "selector": {"matchAll": True}}
                for resource, verbs, state in claims]})

        collection = KINDS["binding"][0]
        for verbs, missing in ((["*"], "[*]"), (["get", "delete"], "[delete]"), (["create", "update"], "[create update]")):
            text = f"permission claim 0 grants verbs the user does not hold: {missing}"
            attempt = body(("configmaps", verbs, "Accepted"))
            kit.eventually(lambda b=attempt: "no permission" not in cleo.request("POST", collection, b).json["message"])
            self.refused(cleo.request("POST", collection, attempt), 403, text, verbs)
            self.refused(cleo.request("POST", collection + "?dryRun=All", attempt), 403, text, verbs)
        self.refused(cleo.request("POST", collection, body(("configmaps", ["get"], "Accepted"), ("secrets", ["get"], "Accepted"))), 403,
                     "permission claim 1 grants verbs the user does not hold: [get]", "secrets")
        cleo.must("POST", collection + "?dryRun=All", body(("configmaps", ["get", "list"], "Accepted")))
        made = cleo.must("POST", collection, body(("configmaps", ["*"], "Rejected"), ("secrets", ["*"], "Rejected")))
        path = f"{collection}/{made['metadata']['name']}"
        for patch, headers in (([{"op": "replace", "path": "/spec/permissionClaims/1/state", "value": "Accepted"}], PATCH),
                               ({"spec": body(("configmaps", ["*"], "Rejected"), ("secrets", ["*"], "Accepted"))["spec"]}, MERGE)):
            self.refused(cleo.request("PATCH", path, json.dumps(patch), headers=headers), 403,
                         "permission claim 1 grants verbs the user does not hold: [*]", headers)
        self.assertEqual(cleo.must("GET", path)["spec"]["permissionClaims"][1]["state"], "Rejected")
        cleo.must("DELETE", path)

    def test_KK222_no_tenants_policy_judges_kcps_kinds(self):
        policies = "/apis/admissionregistration.k8s.io/v1"
        ann.must("POST", policies + "/validatingadmissionpolicies", {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no"},
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [
                {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]},
                "matchConditions": [{"name": "kinds", "expression":
                                     "request.resource.group in ['core.kcp.io', 'tenancy.kcp.io', 'apis.kcp.io'] || "
                                     "request.resource.resource == 'configmaps'"}],
                "validations": [{"expression": "false", "message": "the tenant says no"}]}})
        ann.must("POST", policies + "/validatingadmissionpolicybindings", {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no"},
            "spec": {"policyName": "no", "validationActions": ["Deny"]}})
        self.addCleanup(ann.must, "DELETE", policies + "/validatingadmissionpolicies/no")
        self.addCleanup(ann.must, "DELETE", policies + "/validatingadmissionpolicybindings/no")
        item = f"{KINDS['map'][0]}/map"
        note = json.dumps({"metadata": {"annotations": {"example.com/policy": "x"}}})
        kit.eventually(lambda: ann.request("PATCH", item + "?dryRun=All", note, headers=MERGE).status == 422, what="the policy acts")
        for kind in ("lc", "ws", "wt", "export", "binding"):
            collection, name, _ = KINDS[kind]
            for client in (ann, admin, system):
                client.must("PATCH", f"{collection}/{name}?dryRun=All", note, headers=MERGE)
        ann.must("POST", KINDS["ws"][0] + "?dryRun=All", body_of("ws", "policed"))

    def test_KK112_KK113_who_is_put_to_sleep_stays_asleep(self):
        """KK-T059; its watches end: admission_rows_test.py."""
        grant(up.client(), "ann", "sleepers", [{"apiGroups": ["tenancy.kcp.io"], "resources": ["workspaces"], "verbs": ["create"]}])
        up.user_client("ann").must("POST", KINDS["ws"][0], body_of("ws", "sleepy"))
        inside, outside = up.user_client("ann", path="/clusters/root:sleepy"), up.client("/clusters/root:sleepy")
        item = f"{KINDS['lc'][0]}/cluster"
        kit.eventually(lambda: inside.get(item).status == 200, what="ann is in")
        name = inside.must("GET", item)["metadata"]["annotations"]["kcp.io/cluster"]
        kit.eventually(lambda: outside.must("GET", item)["status"]["phase"] == "Ready")
        text = f'logicalclusters.core.kcp.io "{name}" is forbidden: logical cluster is marked inactive'

        def mark(key, value):
            outside.must("PATCH", item, json.dumps({"metadata": {"annotations": {key: value}}}), headers=MERGE)

        for key in ("core.kcp.io/inactive", "internal.kcp.io/inactive"):
            for value in ("True", "1", ""):
                mark(key, value)
                self.assertEqual(inside.get(KINDS["map"][0]).status, 200, (key, value))
            mark(key, "true")
            kit.eventually(lambda: inside.get(KINDS["map"][0]).status == 403, what="asleep")
            for path in (KINDS["map"][0], "/apis", "/openapixyz", f"{CORE}/logicalclustersX", f"{CORE}/shards", "/livez"):
                for client in (inside, outside):
                    self.refused(client.get(path), 403, text, path)
            self.assertEqual(inside.get(item).status, 200)
            self.assertEqual(inside.get("/openapi/v2").status, 200)
            for patch, headers in (({"metadata": {"annotations": {key: None}}}, MERGE),
                                   ([{"op": "remove", "path": pointer(("metadata", "annotations", key))}], PATCH)):
                for sub in ("", "/status"):
                    self.refused(inside.request("PATCH", item + sub, json.dumps(patch), headers=headers), 403, text, sub)
            self.refused(inside.request("PUT", item, inside.must("GET", item)), 403, text, "PUT")
            mark(key, None)
            kit.eventually(lambda: inside.get(KINDS["map"][0]).status == 200, what="awake")


class Accepted(Case):
    def test_KKT014_free_keys(self):
        for kind in ("lc", "ws", "wt", "export", "binding", "map"):
            collection, name, _ = KINDS[kind]
            for part in (A, L):
                keys = {key: "x" for key in FREE}
                for value in (keys, dict.fromkeys(keys)):
                    stored = again(lambda p=part, v=value, i=f"{collection}/{name}": ann.request(
                        "PATCH", i, json.dumps({"metadata": {p: v}}), headers=MERGE))
                    self.assertEqual(stored.status, 200, (kind, stored))
                    has = stored.json["metadata"].get(part, {})
                    self.assertEqual([has.get(key) for key in keys], list(value.values()), kind)
        reserved = {key: "x" for kind, part, key, *_ in METADATA if part == A and key != "internal.kcp.io/replicate"
                    and key != "kcp.io/path"}
        made = ann.must("POST", KINDS["map"][0], body_of("map", "means-nothing", annotations={**reserved, **dict.fromkeys(FREE, "x")}))
        for key, value in reserved.items():
            self.assertEqual(made["metadata"]["annotations"][key], value)

    def test_KKT015_what_was_read_can_be_written(self):
        for kind in ("lc", "ws", "held", "mount", "wt", "export", "binding", "map"):
            collection, name, _ = KINDS[kind]
            path = f"{collection}/{name}"
            for client in (ann, admin, system):
                stored = again(lambda c=client, p=path: c.request("PUT", p, c.must("GET", p)))
                self.assertEqual(stored.status, 200, (kind, stored))
                body = client.must("GET", path)
                for member in ("managedFields", "resourceVersion"):
                    body["metadata"].pop(member, None)
                applied = again(lambda c=client, p=path, b=body: c.request(
                    "PATCH", f"{p}?fieldManager=kubectl&force=true&dryRun=All", json.dumps(b), headers=APPLY))
                self.assertEqual(applied.status, 200, (kind, applied))

    def test_writers_may_write(self):
        item = f"{KINDS['lc'][0]}/cluster"
        for kind, part, key, value, who in METADATA:
            if kind != "lc" or "a" in who:
                continue
            for wanted in (value, None):
                admin.must("PATCH", item + "?dryRun=All", json.dumps({"metadata": {part: {key: wanted}}}), headers=MERGE)
        for kind, part, key, value, who in METADATA:
            collection, name, _ = KINDS[kind]
            system.must("PATCH", f"{collection}/{name}?dryRun=All", json.dumps({"metadata": {part: {key: value}}}), headers=MERGE)


if __name__ == "__main__":
    unittest.main()
