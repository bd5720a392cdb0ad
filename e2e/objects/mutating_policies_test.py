"""MutatingAdmissionPolicies (AM-334): their faults, ApplyConfiguration and JSONPatch, conditions, variables, parameters, order and the
second round, failures, custom objects, bound APIs of other shards (KK-222)."""
import json
import unittest

import kit

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = GROUP + "/mutatingadmissionpolicies", GROUP + "/mutatingadmissionpolicybindings"
APIS = "/apis/apis.kcp.io/v1alpha2"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}


def patch(expression):
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def apply(expression):
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def policy(name, *mutations, group="", resources=("configmaps",), operations=("CREATE", "UPDATE"), **spec):
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources),
                                                             "operations": list(operations)}]},
                     "reinvocationPolicy": "Never", "mutations": list(mutations), **spec}}


def binding(name, **spec):
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, **spec}}


def config_map(name, labels=None, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


class MutatingPolicies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        for name, shard in (("team", "shard-1"), ("prov", "root")):
            cls.installation.make_workspace(name, selector={"name": shard})
        cls.team, cls.prov = (cls.installation.client(f"/clusters/root:{name}") for name in ("team", "prov"))

    def labels(self):
        return {"test": self.id().rsplit(".", 1)[1][-60:]}

    def bound(self, body, client=None, selects=True, **spec):
        """A policy and its binding, until the end of the test, about this test's objects."""
        client, name = client or self.team, body["metadata"]["name"]
        if selects:
            body["spec"]["matchConstraints"]["objectSelector"] = {"matchLabels": self.labels()}
        client.must("POST", POLICIES, body)
        self.addCleanup(client.request, "DELETE", f"{POLICIES}/{name}")
        client.must("POST", BINDINGS, binding(name, **spec))
        self.addCleanup(client.request, "DELETE", f"{BINDINGS}/{name}")

    def make(self, name, query="?dryRun=All", **data):
        return self.team.request("POST", MAPS + query, config_map(name, self.labels(), **data))

    def becomes(self, wanted, **data):
        """The data of a new object, once all loops know the policies."""
        def made():
            answer = self.make("x", **data)
            assert answer.status == 201 and answer.json.get("data") == wanted, answer
            return answer.json

        return kit.eventually(made, 20, what=str(wanted))

    def refused(self, message, reason="Invalid", **data):
        def made():
            answer = self.make("x", **data)
            assert answer.status == 403 and message in answer.json["message"], answer
            return answer.json

        status = kit.eventually(made, 20, what=message)
        self.assertEqual((status["reason"], status["details"]["name"], status["details"]["kind"]), (reason, "x", "configmaps"))
        self.assertEqual(status["details"]["causes"][0]["message"], status["message"])

    def test_AM334_faults(self):
        body = policy("wrong", {"patchType": "Foo"}, patch("[1]"), apply("Object{spec: 1 +}"), patch("JSONPatch{op: 1}"),
                      {"patchType": "JSONPatch"}, {**apply("Object{}"), **{"jsonPatch": {"expression": "[]"}}}, apply(" "), apply("Foo{}"),
                      patch("[JSONPatch{op: 1, nope: 2}]"), {}, operations=("CREATE", "DELETE"), reinvocationPolicy="Foo")
        refused = self.team.request("POST", POLICIES, body)
        self.assertEqual(refused.status, 422)
        told = {}
        for cause in refused.json["details"]["causes"]:
            told[cause["field"].removeprefix("spec.")] = told.get(cause["field"].removeprefix("spec."), "") + cause["message"]
        for field, text in {
                "matchConstraints.resourceRules.operations": 'supported values: "*", "CONNECT", "CREATE", "UPDATE"',
                "mutations[0].patchType": 'supported values: "ApplyConfiguration", "JSONPatch"',
                "mutations[1].jsonPatch.expression": "must evaluate to list(JSONPatch) but got list(int)",
                "mutations[2].applyConfiguration.expression": "Syntax error",
                "mutations[3].jsonPatch.expression": "expected type of field 'op' is 'string' but provided type is 'int'",
                "mutations[4].jsonPatch": "must be specified when patchType is JSONPatch",
                "mutations[5].jsonPatch": "must not be specified when patchType is ApplyConfiguration",
                "mutations[6].applyConfiguration.expression": "Required value",
                "mutations[7].applyConfiguration.expression": "undeclared reference to 'Foo'",
                "mutations[8].jsonPatch.expression": "undefined field 'nope'",
                "mutations[9].patchType": "Required value",
                "reinvocationPolicy": 'supported values: "IfNeeded", "Never"'}.items():
            self.assertIn(text, told.get(field, ""), field)
        empty = self.team.request("POST", POLICIES, {"metadata": {"name": "empty"}, "spec": {}})
        self.assertEqual([cause["field"] for cause in empty.json["details"]["causes"]],
                         ["spec.matchConstraints", "spec.mutations", "spec.reinvocationPolicy"])
        validating = GROUP + "/validatingadmissionpolicies"
        other = self.team.request("POST", validating, {"metadata": {"name": "v"}, "spec": {
            "matchConstraints": body["spec"]["matchConstraints"], "validations": [{"expression": "JSONPatch{} == null"},
                                                                                  {"expression": "jsonpatch.escapeKey('a') == 'a'"}]}})
        self.assertIn("undeclared reference to 'JSONPatch'", other.json["message"])

    def test_AM334_kubectl_shows_policies(self):
        self.bound(policy("shown", patch("[]  + [JSONPatch{op: 'test', path: '/x', value: 1}]")))
        kubectl = lambda *args: self.installation.kubectl(*args, server="/clusters/root:team")  # noqa: E731
        table = kubectl("get", "mutatingadmissionpolicy,mutatingadmissionpolicybinding")
        self.assertRegex(table, r"MUTATIONS\s+PARAMKIND\s+AGE")
        self.assertRegex(table, r"/shown\s+1\s+<unset>")
        self.assertIn("Never, or IfNeeded", kubectl("explain", "mutatingadmissionpolicy.spec.reinvocationPolicy"))

    def test_AM334_patches(self):
        self.bound(policy("patches", patch(
            "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a/b~c'), value: 'no'},"
            " JSONPatch{op: 'remove', path: '/data/' + jsonpatch.escapeKey('a/b~c')},"
            " JSONPatch{op: 'add', path: '/metadata/labels/made', value: object.metadata.name},"
            " JSONPatch{op: 'copy', from: '/data/a', path: '/data/copy'}]"),
            patch("[JSONPatch{op: 'test', path: '/data/a', value: 'never'}, JSONPatch{op: 'remove', path: '/data/a'}]"),
            patch("has(object.data.copy) ? [JSONPatch{op: 'add', path: '/data/second', value: string(size(object.data))}] : []")))
        made = self.becomes({"a": "1", "copy": "1", "second": "2"}, a="1")
        self.assertEqual(made["metadata"]["labels"]["made"], "x")

    def test_AM334_applied_configurations(self):
        self.bound(policy("applies", apply(
            "Object{metadata: Object.metadata{annotations: {'by': request.userInfo.username, 'of': namespaceObject.metadata.name}},"
            " data: {'b': variables.b}}"), variables=[{"name": "b", "expression": "object.data.a + '!'"}]))
        made = self.becomes({"a": "1", "b": "1!"}, a="1")
        self.assertEqual(made["metadata"]["annotations"]["of"], "default")

    def test_AM334_failures(self):
        self.bound(policy("fails", apply("Object{data: {'x': object.nope}}"),
                          matchConditions=[{"name": "named", "expression": "object.data.case == 'nope'"}]))
        self.refused("policy 'fails' with binding 'fails' denied request: expression 'Object{data: {'x': object.nope}}' resulted in error: "
                     "no such key: nope", case="nope")
        self.bound(policy("mistyped", apply("Object{metadata: Object.spec{}}"),
                          matchConditions=[{"name": "named", "expression": "object.data.case == 'mistyped'"}]))
        self.refused('unexpected type name "Object.spec", expected "Object.metadata", which matches field name path', case="mistyped")
        self.bound(policy("absent", patch("[JSONPatch{op: 'remove', path: '/data/none'}]"),
                          matchConditions=[{"name": "named", "expression": "object.data.case == 'absent'"}]))
        self.refused("denied request: JSON Patch: ", case="absent")
        self.bound(policy("ignored", apply("Object{data: {'x': object.nope}}"), patch("[JSONPatch{op: 'add', path: '/data/y', value: 'z'}]"),
                          failurePolicy="Ignore", matchConditions=[{"name": "named", "expression": "object.data.case == 'ignored'"}]))
        self.becomes({"case": "ignored", "y": "z"}, case="ignored")
        self.bound(policy("atomic", apply("Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: 'a'}]}}"),
                          matchConditions=[{"name": "named", "expression": "object.data.case == 'atomic'"}]))
        self.refused("error applying patch: ", case="atomic")

    def test_SE_102_conditions_that_take_several_turns_say_the_same(self):
        """Six that scan 100,000 letters six times: more than a turn, less than the budget."""
        scans = "[1,2,3,4,5,6].all(i, i > 0 && !object.data.long.matches('[bc][0-9]'))"
        long = [{"name": f"scan-{i}", "expression": scans} for i in range(6)]
        self.bound(policy("long", patch("[JSONPatch{op: 'add', path: '/data/y', value: 'z'}]"), matchConditions=long))
        self.becomes({"long": "a" * 100_000, "y": "z"}, long="a" * 100_000)
        self.assertNotIn("y", self.make("x", long="a" * 100_000 + "b12").json["data"])

    def test_AM334_parameters(self):
        self.team.must("POST", MAPS, config_map("values", color="red"))
        self.addCleanup(self.team.request, "DELETE", MAPS + "/values")
        self.bound(policy("params", apply("Object{data: {'color': params.data.color}}"), paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
                   paramRef={"name": "values", "namespace": "default", "parameterNotFoundAction": "Deny"})
        self.becomes({"a": "1", "color": "red"}, a="1")
        self.team.must("DELETE", MAPS + "/values")
        self.refused("policy 'params' with binding 'params' denied request: failed to configure binding: no params found", "Forbidden")

    def test_AM334_order_and_the_second_round(self):
        trace = "[JSONPatch{{op: 'add', path: '/data/trace', value: object.data.trace + '{0}'}}]"
        self.bound(policy("a-first", patch(trace.format("a")), reinvocationPolicy="IfNeeded"))
        self.bound(policy("b-second", patch(trace.format("b"))))
        self.becomes({"trace": "aba"}, trace="")

    def test_AM334_updates_and_custom_objects(self):
        self.team.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "cogs.mutating.test"},
            "spec": {"group": "mutating.test", "scope": "Namespaced",
                     "names": {"plural": "cogs", "singular": "cog", "kind": "Cog", "listKind": "CogList"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "properties": {"spec": {"type": "object", "properties": {
                             "size": {"type": "integer"}, "list": {"type": "array", "items": {"type": "string"}},
                             "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                                       "items": {"type": "object", "required": ["name"], "properties": {
                                           "name": {"type": "string"}, "n": {"type": "integer"}}}}}}}}}}]}})
        path = "/apis/mutating.test/v1/namespaces/default/cogs"
        kit.eventually(lambda: self.team.get(path).status == 200, what="cogs")
        self.bound(policy("cogs", apply("Object{spec: Object.spec{size: 7, parts: [Object.spec.parts{name: 'b', n: 2}]}}"),
                          group="mutating.test", resources=["cogs"]))
        cog = {"apiVersion": "mutating.test/v1", "kind": "Cog", "metadata": {"name": "c", "labels": self.labels()},
               "spec": {"size": 1, "parts": [{"name": "a"}, {"name": "b"}]}}
        wanted = {"size": 7, "parts": [{"name": "a"}, {"name": "b", "n": 2}]}
        kit.eventually(lambda: self.team.must("POST", path + "?dryRun=All", cog)["spec"] == wanted, 20, "the policy acts")
        self.team.must("POST", path, cog)
        changed = self.team.must("PATCH", path + "/c", json.dumps({"spec": {"size": 2}}), headers=MERGE)
        self.assertEqual(changed["spec"], wanted)
        self.bound(policy("list", apply("Object{spec: Object.spec{list: ['x']}}"), group="mutating.test", resources=["cogs"]))
        refused = kit.eventually(lambda: (a := self.team.request("POST", path + "?dryRun=All", cog)).status == 403 and a)
        self.assertIn("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.list", refused.json["message"])

    def test_KK222_bound_apis_obey_the_export(self):
        group = "shaped.test"
        names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
        self.prov.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.gears.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names,
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
        self.prov.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "gears"},
            "spec": {"resources": [{"group": group, "name": "gears", "schema": f"v1.gears.{group}", "storage": {"crd": {}}}]}})
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "gears"},
                "spec": {"reference": {"export": {"path": "root:prov", "name": "gears"}}}}
        kit.eventually(lambda: self.team.request("POST", APIS + "/apibindings", body).status == 201, what="bound")
        path = f"/apis/{group}/v1/namespaces/default/gears"
        kit.eventually(lambda: self.team.get(path).status == 200, what="served")
        for client, by in ((self.prov, "provider"), (self.team, "consumer")):
            self.bound(policy("gears", patch(f"[JSONPatch{{op: 'add', path: '/spec/by', value: '{by}'}}]"), group=group, resources=["gears"]),
                       client=client, selects=False)
        gear = {"apiVersion": f"{group}/v1", "kind": "Gear", "metadata": {"name": "g"}, "spec": {"size": 1}}
        kit.eventually(lambda: self.team.must("POST", path + "?dryRun=All", gear)["spec"] == {"size": 1, "by": "provider"}, 20,
                       "the provider's policies have come to the shard")


if __name__ == "__main__":
    unittest.main()
