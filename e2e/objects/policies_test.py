"""ValidatingAdmissionPolicies (AM-334) with kubectl and through every way to write: workspaces of their own, parameters, warnings,
transitions, bound APIs of other shards, virtual workspaces, rights, restarts."""
import json
import unittest

import kit

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = GROUP + "/validatingadmissionpolicies", GROUP + "/validatingadmissionpolicybindings"
APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}


def policy(name, *validations, group="", resources=("configmaps",), operations=("CREATE", "UPDATE"), **spec):
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [group], "apiVersions": ["v1"], "resources": list(resources),
                                                             "operations": list(operations)}]},
                     "validations": [{"expression": one} if isinstance(one, str) else one for one in validations], **spec}}


def binding(name, actions=("Deny",), **spec):
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": list(actions), **spec}}


def config_map(name, labels=None, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


class Policies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        for name, shard in (("team", "shard-1"), ("other", "shard-1"), ("prov", "root")):
            made = cls.installation.make_workspace(name, selector={"name": shard})
            if name == "prov":
                cls.provider = made["spec"]["cluster"]
            if name == "team":
                cls.cluster = made["spec"]["cluster"]
        cls.team, cls.other, cls.prov = (cls.installation.client(f"/clusters/root:{name}") for name in ("team", "other", "prov"))

    def bound(self, client, body, *args, **kwargs):
        """A policy and its binding, until the end of the test."""
        name = body["metadata"]["name"]
        client.must("POST", POLICIES, body)
        self.addCleanup(client.request, "DELETE", f"{POLICIES}/{name}")
        client.must("POST", BINDINGS, binding(name, *args, **kwargs))
        self.addCleanup(client.request, "DELETE", f"{BINDINGS}/{name}")

    def acts(self, client, path, body, message):
        """The policy refuses within 50 ms of its binding's commit; other loops may need a moment."""
        def refused():
            answer = client.request("POST", path + "?dryRun=All", body)
            assert answer.status == 422 and message in answer.json["message"], answer
            return True

        kit.eventually(refused, what=message)

    def test_AM334_kubectl_applies_a_policy_and_is_refused(self):
        kubectl = lambda *args, **kwargs: self.installation.kubectl(*args, server="/clusters/root:team", **kwargs)  # noqa: E731
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [
            policy("no-latest", {"expression": "object.data.image != 'latest'", "messageExpression": "'not ' + object.data.image"}),
            binding("no-latest", matchResources={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}})]})
        self.addCleanup(kubectl, "delete", "-f", "-", "--ignore-not-found", input_text=text)
        made = kubectl("apply", "-f", "-", input_text=text)
        self.assertIn("validatingadmissionpolicy.admissionregistration.k8s.io/no-latest created", made)
        self.acts(self.team, MAPS, config_map("a", image="latest"), "not latest")
        refused = kubectl("create", "configmap", "a", "--from-literal=image=latest", expect=1)
        said = "ValidatingAdmissionPolicy 'no-latest' with binding 'no-latest' denied request: not latest"
        self.assertIn(said, refused)  # versions of kubectl put other words in front of it
        answer = self.team.request("POST", MAPS, config_map("a", image="latest"))
        self.assertEqual((answer.status, answer.json["message"]), (422, f'configmaps "a" is forbidden: {said}'))
        kubectl("create", "configmap", "a", "--from-literal=image=v1")
        self.assertIn("not latest", kubectl("patch", "configmap", "a", "-p", '{"data":{"image":"latest"}}', expect=1))
        kubectl("delete", "configmap", "a")
        self.assertIn("unchanged", kubectl("apply", "-f", "-", input_text=text))
        table = kubectl("get", "validatingadmissionpolicy,validatingadmissionpolicybinding")
        self.assertRegex(table, r"VALIDATIONS\s+PARAMKIND\s+AGE")
        self.assertRegex(table, r"/no-latest\s+1\s+<unset>")
        self.assertRegex(table, r"/no-latest\s+no-latest\s+<unset>")
        self.assertIn("PolicyName", kubectl("describe", "validatingadmissionpolicybinding", "no-latest").replace("Policy Name", "PolicyName"))
        self.assertIn("FIELDS", kubectl("explain", "validatingadmissionpolicy.spec"))

    def test_AM334_policies_stay_in_their_workspace(self):
        self.bound(self.team, policy("never", "object.metadata.name != 'nobody'"))
        self.acts(self.team, MAPS, config_map("nobody"), "never")
        self.other.must("POST", MAPS, config_map("nobody"))
        self.other.must("DELETE", MAPS + "/nobody")
        self.assertEqual(self.other.must("GET", POLICIES)["items"], [])

    def test_AM334_a_policy_acts_at_once(self):
        for n in range(5):
            name = f"at-once-{n}"
            self.bound(self.team, policy(name, f"object.metadata.name != '{name}'"))
            clock = kit.Clock()
            kit.eventually(lambda name=name: self.team.request("POST", MAPS + "?dryRun=All", config_map(name)).status == 422, 1, name)
            self.assertLess(clock.spent(), 1)

    def test_AM334_warnings_and_transitions(self):
        self.bound(self.team, policy("keep", "oldObject == null || object.data.k == oldObject.data.k",
                                     matchConditions=[{"name": "mine", "expression": "object.metadata.name == 'kept'"}]))
        self.bound(self.team, policy("small", {"expression": "size(object.data) < 2", "message": "large \"map\""}), ["Warn"])
        kit.eventually(lambda: self.team.request("POST", MAPS + "?dryRun=All", config_map("x", a="1", b="2")).headers.get("Warning"))
        made = self.team.request("POST", MAPS, config_map("kept", k="1", l="2"))
        self.assertEqual(made.status, 201)
        self.assertEqual(made.headers["Warning"], '299 - "Validation failed for ValidatingAdmissionPolicy \'small\' with binding '
                                                  '\'small\': large \\"map\\""')
        for body, status in (({"data": {"k": "2"}}, 422), ({"data": {"l": "3"}}, 200)):
            self.assertEqual(self.team.request("PATCH", MAPS + "/kept", json.dumps(body), MERGE).status, status, body)
        self.team.must("DELETE", MAPS + "/kept")

    def test_AM334_parameters_and_failures(self):
        self.team.must("POST", MAPS, config_map("limits", most="3"))
        self.bound(self.team, policy("limit", "!('n' in object.data) || int(object.data.n) <= int(params.data.most)", failurePolicy="Ignore",
                                     paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
                   paramRef={"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"})
        self.acts(self.team, MAPS, config_map("four", n="4"), "failed expression")
        self.team.must("POST", MAPS + "?dryRun=All", config_map("three", n="3"))
        self.team.must("POST", MAPS + "?dryRun=All", config_map("text", n="many"))  # an error, which is ignored
        self.team.must("PATCH", MAPS + "/limits", json.dumps({"data": {"most": "4"}}), headers=MERGE)
        self.team.must("POST", MAPS + "?dryRun=All", config_map("four", n="4"))
        self.team.must("DELETE", MAPS + "/limits")

    def test_AM334_a_namespace_waits_for_the_policy(self):
        self.team.must("POST", "/api/v1/namespaces", {"metadata": {"name": "held"}})
        self.team.must("POST", "/api/v1/namespaces/held/configmaps", config_map("precious"))
        self.bound(self.team, policy("hold", "oldObject.metadata.name != 'precious'", operations=["DELETE"]))
        kit.eventually(lambda: self.team.request("DELETE", "/api/v1/namespaces/held/configmaps/precious?dryRun=All").status == 422)
        self.team.must("DELETE", "/api/v1/namespaces/held")

        def told():
            status = self.team.must("GET", "/api/v1/namespaces/held")["status"]
            return any("ValidatingAdmissionPolicy 'hold'" in one["message"] for one in status.get("conditions", []))

        kit.eventually(told, what="condition of the namespace")
        self.team.must("DELETE", BINDINGS + "/hold")
        kit.eventually(lambda: self.team.get("/api/v1/namespaces/held").status == 404, 30, "namespace gone")

    def test_AM334_types_are_checked(self):
        self.bound(self.team, policy("typed", "object.data.a == 'x' || object.nope == 1", {"expression": "object.data.size() >= 0"}))

        def checked():
            status = self.team.must("GET", POLICIES + "/typed")["status"]
            assert status["observedGeneration"] == 1, status
            return status["typeChecking"]["expressionWarnings"]

        found = kit.eventually(checked, what="types checked")
        self.assertEqual([one["fieldRef"] for one in found], ["spec.validations[0].expression"])
        self.assertIn("/v1, Kind=ConfigMap: ERROR: <input>:1:31: undefined field 'nope'", found[0]["warning"])

    def test_AM334_KK222_bound_apis_obey_the_export(self):
        group = "policies.test"
        names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
        self.prov.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.widgets.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names,
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
        self.prov.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "widgets"},
            "spec": {"resources": [{"group": group, "name": "widgets", "schema": f"v1.widgets.{group}", "storage": {"crd": {}}}]}})
        for client in (self.team, self.other):
            body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "widgets"},
                    "spec": {"reference": {"export": {"path": "root:prov", "name": "widgets"}}}}
            kit.eventually(lambda c=client, b=body: c.request("POST", APIS + "/apibindings", b).status == 201, what="bound")
            kit.eventually(lambda c=client: c.get(f"/apis/{group}/v1/namespaces/default/widgets").status == 200, what="served")
        path = f"/apis/{group}/v1/namespaces/default/widgets"
        widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 9}}
        self.bound(self.prov, policy("sizes", "object.spec.size < 5", group=group, resources=["widgets"]))
        self.bound(self.team, policy("sizes", "false", group=group, resources=["widgets"]))  # the consumer's are not asked
        self.acts(self.team, path, widget, "'sizes' denied request: failed expression: object.spec.size < 5")
        self.acts(self.other, path, widget, "'sizes'")
        inside = self.installation.client(f"/services/apiexport/{self.provider}/widgets/clusters/{self.cluster}")
        refused = kit.eventually(lambda: (lambda answer: answer if answer.status == 422 else None)(
            inside.request("POST", path, widget)), what="refused in the virtual workspace")
        self.assertIn("ValidatingAdmissionPolicy 'sizes'", refused.json["message"])
        inside.must("POST", path, {**widget, "spec": {"size": 4}})

    def test_AM334_parameters_are_for_those_who_may_read_them(self):
        user = self.installation.user_client("polly", ["pollies"], "/clusters/root:team")
        self.team.must("POST", RBAC + "/clusterroles", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "polly"},
            "rules": [{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
                      {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
        self.team.must("POST", RBAC + "/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "polly"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "polly"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "polly"}]})
        body = policy("readers", "true", paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
        refused = kit.eventually(lambda: (lambda answer: answer if answer.status == 422 else None)(user.request("POST", POLICIES, body)))
        self.assertEqual(refused.json["details"]["causes"][0]["field"], "spec.paramKind")
        self.assertIn('must have "get" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)',
                      refused.json["message"])
        self.team.must("POST", POLICIES, body)
        self.addCleanup(self.team.request, "DELETE", POLICIES + "/readers")
        refused = user.request("POST", BINDINGS, binding("readers", paramRef={"name": "p", "namespace": "default",
                                                                             "parameterNotFoundAction": "Allow"}))
        self.assertEqual(refused.status, 422)
        self.assertIn('does not have "get" permission on the object referenced by paramRef', refused.json["message"])
        user.must("POST", POLICIES, policy("plain", "true"))
        user.must("DELETE", POLICIES + "/plain")

    def test_z_AM334_a_restart_keeps_policies(self):
        self.bound(self.team, policy("stays", "object.metadata.name != 'gone'"))
        self.acts(self.team, MAPS, config_map("gone"), "'stays'")
        before = self.installation.pid("shard-1")
        self.installation.kill("shard-1")
        kit.eventually(lambda: self.installation.pid("shard-1") != before, what="restarted")
        kit.eventually(lambda: self.team.get(MAPS).status == 200, 30, "served again")
        self.assertEqual(self.team.request("POST", MAPS, config_map("gone")).status, 422)


if __name__ == "__main__":
    unittest.main()
