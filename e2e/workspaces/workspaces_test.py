"""Rows of the chapter on workspaces (AM-483 to AM-487, AM-489 to AM-491), through the proxy."""
import json
import re
import subprocess
import unittest

import kit

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAPS = "/api/v1/namespaces/default/configmaps"
GADGETS = "/apis/example.org/v1/namespaces/default/gadgets"
MERGE = {"Content-Type": "application/merge-patch+json"}


def workspace(name, **spec):
    return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": spec}


def workspace_type(name, **spec):
    extend = {"with": [{"name": "universal", "path": "root"}]}
    return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": name},
            "spec": {"extend": extend, **spec}}


def conditions(obj):
    return {c["type"]: c["status"] for c in obj["status"].get("conditions", [])}


def setUpModule():
    global installation, root
    installation = kit.Installation(shards=2).start_for()
    root = installation.client()


def grant(client, user, role, name=None):
    """A ClusterRoleBinding of a user to a role of the cluster."""
    client.must("POST", f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": name or f"{user}-{role}".replace(":", "-")}, "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user}]})


def grant_rule(client, user, name, **rule):
    client.must("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    grant(client, user, name)


class Case(unittest.TestCase):
    def refused(self, answer, code, *words):
        self.assertEqual(answer.status, code, answer)
        for word in words:
            self.assertIn(word, answer.json["message"])
        return answer.json

    def ready(self, client, name):
        def look():
            obj = client.must("GET", f"{WORKSPACES}/{name}")
            return obj if obj["status"].get("phase") == "Ready" else None
        return kit.eventually(look, 20, f"workspace {name} ready")


class Creation(Case):
    def test_AM_483_a_workspace_comes_to_be(self):
        made = root.must("POST", WORKSPACES, workspace("prov"), expect=(201,))
        self.assertEqual(made["spec"]["type"], {"name": "universal", "path": "root"})
        self.assertEqual(made["status"]["phase"], "Scheduling")
        owner = json.loads(made["metadata"]["annotations"]["experimental.tenancy.kcp.io/owner"])
        self.assertEqual(owner["username"], "kcp-admin")
        self.assertNotIn("system:kcp:admin", owner["groups"], "no privilege outlives its request (KK-057)")
        obj = self.ready(root, "prov")
        self.assertRegex(obj["spec"]["cluster"], "^[0-9a-z]{16}$")
        self.assertEqual(obj["spec"]["URL"], f"https://127.0.0.1:{installation.port}/clusters/root:prov")
        self.assertEqual({kind: conditions(obj).get(kind) for kind in ("WorkspaceScheduled", "WorkspaceInitialized")},
                         {"WorkspaceScheduled": "True", "WorkspaceInitialized": "True"})
        self.assertEqual(obj["metadata"]["labels"]["tenancy.kcp.io/phase"], "Ready")
        self.assertEqual(obj["metadata"]["finalizers"], ["core.kcp.io/logicalcluster"])

    def test_AM_483_phases_only_go_forward(self):
        start = root.must("GET", WORKSPACES)["metadata"]["resourceVersion"]
        events = root.watch(f"{WORKSPACES}?watch=true&resourceVersion={start}&fieldSelector=metadata.name=seen")
        root.must("POST", WORKSPACES, workspace("seen"))
        phases = []
        for event in events:
            phases.append(event["object"]["status"]["phase"])
            if phases[-1] == "Ready":
                break
        order = ["Scheduling", "Initializing", "Ready"]
        places = [order.index(phase) for phase in phases]
        self.assertEqual(places, sorted(places), phases)
        self.assertEqual((phases[0], phases[-1]), ("Scheduling", "Ready"))

    def test_AM_483_it_is_ready_within_a_second(self):
        """Of several, because other work of the machine may hold up one."""
        taken = []
        for number in range(5):
            clock = kit.Clock()
            root.must("POST", WORKSPACES, workspace(f"quick-{number}"))
            self.ready(root, f"quick-{number}")
            taken.append(clock.spent())
        print("      ready after ms: " + ", ".join(f"{t * 1000:.0f}" for t in taken))
        self.assertLess(min(taken), 1)

    def test_AM_484_a_new_logical_cluster_has_its_first_content(self):
        grant_rule(root, "carl", "carls", apiGroups=["tenancy.kcp.io"], resources=["workspaces"], verbs=["create", "get"])
        carl = installation.user_client("carl", ("dev",))
        kit.eventually(lambda: carl.request("POST", WORKSPACES, workspace("carls")).status == 201)
        obj = self.ready(root, "carls")
        inside = installation.client("/clusters/root:carls")
        cluster = inside.must("GET", f"{CLUSTER}/cluster")
        notes = cluster["metadata"]["annotations"]
        self.assertEqual(notes["kcp.io/path"], "root:carls")
        self.assertEqual(notes["kcp.io/cluster"], obj["spec"]["cluster"])
        self.assertEqual(notes["internal.tenancy.kcp.io/type"], "root:universal")
        self.assertIn(notes["core.kcp.io/shard"], ("root", "shard-1"))
        self.assertEqual(cluster["spec"]["owner"], {
            "apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", "name": "carls", "cluster": "root",
            "uid": obj["metadata"]["uid"]})
        self.assertEqual(cluster["spec"]["createdBy"]["username"], "carl")
        self.assertIn("dev", cluster["spec"]["createdBy"]["groups"])
        self.assertEqual(len(cluster["metadata"]["finalizers"]), 1)
        self.assertEqual(cluster["status"]["phase"], "Ready")

        spaces = [item["metadata"]["name"] for item in inside.must("GET", "/api/v1/namespaces")["items"]]
        self.assertEqual(spaces, ["default", "kube-system"])
        for space in spaces:
            kit.eventually(lambda s=space: inside.get(f"/api/v1/namespaces/{s}/serviceaccounts/default").status == 200)
            kit.eventually(lambda s=space: inside.get(f"/api/v1/namespaces/{s}/configmaps/kube-root-ca.crt").status == 200)
        binding = inside.must("GET", f"{RBAC}/clusterrolebindings/workspace-admin")
        self.assertEqual((binding["roleRef"]["name"], binding["subjects"][0]["kind"], binding["subjects"][0]["name"]),
                         ("cluster-admin", "User", "carl"))
        own = installation.user_client("carl", ("dev",), path="/clusters/root:carls")
        own.must("POST", MAPS, {"metadata": {"name": "mine"}})

    def test_AM_484_a_type_brings_its_default_bindings(self):
        wanted = sorted(one["export"] for one in root.must("GET", TYPES + "/universal")["spec"]["defaultAPIBindings"])
        installation.make_workspace("bindings")
        inside = installation.client("/clusters/root:bindings")

        def bound():
            items = inside.must("GET", "/apis/apis.kcp.io/v1alpha2/apibindings")["items"]
            return sorted(item["spec"]["reference"]["export"]["name"] for item in items) == wanted
        kit.eventually(bound)

    def test_AM_485_types_that_are_unknown_or_not_for_everyone(self):
        bad = 'workspaces.tenancy.kcp.io "bad" is forbidden: '
        for kind in ({"name": "absent"}, {"name": "absent", "path": "root"}, {"name": "universal", "path": "root:absent"}):
            self.refused(root.request("POST", WORKSPACES, workspace("bad", type=kind)), 403, bad, kind["name"])
        root.must("POST", TYPES, workspace_type("guarded"))
        grant_rule(root, "dave", "daves", apiGroups=["tenancy.kcp.io"], resources=["workspaces"], verbs=["create", "get"])
        dave = installation.user_client("dave")
        kit.eventually(lambda: dave.request("POST", WORKSPACES, workspace("allowed")).status == 201)
        self.refused(dave.request("POST", WORKSPACES, workspace("bad", type={"name": "guarded"})), 403,
                     bad + "unable to use workspace type root:guarded: missing verb='use' permission on workspacetype")
        grant_rule(root, "dave", "guarded-users", apiGroups=["tenancy.kcp.io"], resources=["workspacetypes"],
                   resourceNames=["guarded"], verbs=["use"])
        kit.eventually(lambda: dave.request("POST", WORKSPACES, workspace("bad", type={"name": "guarded"})).status == 201)
        self.ready(root, "bad")

    def test_AM_486_names(self):
        body = self.refused(root.request("POST", WORKSPACES, workspace("Bad_x")), 422, "lowercase RFC 1123 subdomain",
                            "metadata.name in body should match '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'")
        self.assertEqual([cause["field"] for cause in body["details"]["causes"]], ["metadata.name", "metadata.name"])
        self.refused(root.request("POST", WORKSPACES, workspace("a.b")), 422, "metadata.name in body should match")
        self.refused(root.request("POST", WORKSPACES, workspace("a" * 64)), 422, "metadata.name")

    def test_AM_487_what_cannot_change(self):
        installation.make_workspace("fixed")
        path = f"{WORKSPACES}/fixed"

        def patch(spec):
            return root.request("PATCH", path, json.dumps({"spec": spec}), headers=MERGE)
        self.refused(patch({"cluster": "zzz"}), 422, 'spec.cluster: Invalid value: "zzz": cluster is immutable')
        self.refused(patch({"type": {"name": "team"}}), 422, "name is immutable")
        self.refused(patch({"type": {"path": "root:other"}}), 422, "path is immutable")
        self.refused(patch({"cluster": None}), 422, "cluster cannot be unset")
        self.refused(patch({"URL": None}), 422, "URL cannot be unset")


def export_gadgets(client):
    """A schema and an APIExport of gadgets.example.org."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    client.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.gadgets.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced",
                 "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}})
    client.must("POST", "/apis/apis.kcp.io/v1alpha2/apiexports", {
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "gadgets"},
        "spec": {"resources": [{"group": "example.org", "name": "gadgets", "schema": "v1.gadgets.example.org",
                                "storage": {"crd": {}}}]}})


def bind_gadgets(client, path):
    """Waits until the API is served."""
    binding = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "gadgets"},
               "spec": {"reference": {"export": {"path": path, "name": "gadgets"}}}}
    kit.eventually(lambda: client.request("POST", "/apis/apis.kcp.io/v1alpha2/apibindings", binding).status == 201)
    kit.eventually(lambda: client.get(GADGETS).status == 200)


class Deletion(Case):
    def crd(self):
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.com"},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                         "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}]}}

    def fill(self, path):
        """Objects of builtin and custom kinds, one custom object held by a finalizer."""
        client = installation.client(f"/clusters/{path}")
        client.must("POST", MAPS, {"metadata": {"name": "plain"}})
        client.must("POST", "/api/v1/namespaces", {"metadata": {"name": "more"}})
        client.must("POST", "/api/v1/namespaces/more/secrets", {"metadata": {"name": "hidden"}})
        client.must("POST", CRDS, self.crd())
        widgets = "/apis/example.com/v1/namespaces/default/widgets"
        kit.eventually(lambda: client.get(widgets).status == 200)
        for name, finalizers in (("free", []), ("held", ["example.com/hold"])):
            client.must("POST", widgets, {"apiVersion": "example.com/v1", "kind": "Widget",
                                          "metadata": {"name": name, "finalizers": finalizers}})
        return client, widgets

    def test_AM_489_a_workspace_goes_with_all_that_is_in_it(self):
        obj = installation.make_workspace("gone")
        installation.make_workspace("inner", parent="root:gone")
        inner, inner_widgets = self.fill("root:gone:inner")
        client, widgets = self.fill("root:gone")
        root.must("DELETE", f"{WORKSPACES}/gone", expect=(200, 202))
        kit.eventually(lambda: inner.get(f"{inner_widgets}/free").status == 404)
        kit.eventually(lambda: client.get(f"{widgets}/free").status == 404)
        kit.eventually(lambda: client.get(f"{MAPS}/plain").status == 404)
        self.assertIn("deletionTimestamp", root.must("GET", f"{WORKSPACES}/gone")["metadata"])
        self.assertIn("deletionTimestamp", client.must("GET", f"{widgets}/held")["metadata"])
        self.refused(client.request("POST", MAPS, {"metadata": {"name": "late"}}), 403)
        for one, path in ((inner, inner_widgets), (client, widgets)):
            one.must("PATCH", f"{path}/held", json.dumps({"metadata": {"finalizers": None}}), headers=MERGE)
        kit.eventually(lambda: root.get(f"{WORKSPACES}/gone").status == 404, 30)
        for path in ("root:gone", "root:gone:inner", obj["spec"]["cluster"]):
            kit.eventually(lambda p=path: installation.client(f"/clusters/{p}").get(MAPS).status in (403, 404))

    def test_AM_489_objects_of_bound_apis_go_too(self):
        installation.make_workspace("provider")
        export_gadgets(installation.client("/clusters/root:provider"))
        for name in ("user-one", "user-two"):
            installation.make_workspace(name)
            client = installation.client(f"/clusters/root:{name}")
            bind_gadgets(client, "root:provider")
            client.must("POST", GADGETS, {"apiVersion": "example.org/v1", "kind": "Gadget",
                                          "metadata": {"name": "held", "finalizers": ["example.org/hold"]}})
        one, two = (installation.client(f"/clusters/root:{name}") for name in ("user-one", "user-two"))
        root.must("DELETE", f"{WORKSPACES}/user-one", expect=(200, 202))
        kit.eventually(lambda: "deletionTimestamp" in one.must("GET", f"{GADGETS}/held")["metadata"])
        self.assertIn("deletionTimestamp", root.must("GET", f"{WORKSPACES}/user-one")["metadata"])
        one.must("PATCH", f"{GADGETS}/held", json.dumps({"metadata": {"finalizers": None}}), headers=MERGE)
        kit.eventually(lambda: root.get(f"{WORKSPACES}/user-one").status == 404, 30)
        self.assertNotIn("deletionTimestamp", two.must("GET", f"{GADGETS}/held")["metadata"])

    def test_AM_489_nothing_of_it_stays_in_the_store(self):
        with kit.Installation(shards=2) as own:
            def come_and_go(name):
                own.make_workspace(name, selector={"name": "shard-1"})
                client = own.client(f"/clusters/root:{name}")
                client.must("POST", CRDS, self.crd())
                bind_gadgets(client, "root:provider")
                widgets = "/apis/example.com/v1/namespaces/default/widgets"
                kit.eventually(lambda: client.get(widgets).status == 200)
                for number in range(20):
                    client.must("POST", MAPS, {"metadata": {"name": f"map-{number}"}})
                    client.must("POST", widgets, {"apiVersion": "example.com/v1", "kind": "Widget",
                                                  "metadata": {"name": f"widget-{number}"}})
                    client.must("POST", GADGETS, {"apiVersion": "example.org/v1", "kind": "Gadget",
                                                  "metadata": {"name": f"gadget-{number}"}})
                own.client().must("DELETE", f"{WORKSPACES}/{name}", expect=(200, 202))
                kit.eventually(lambda: own.client().get(f"{WORKSPACES}/{name}").status == 404, 30)

            def stored():
                """Objects in each shard's store, which no shard uses now."""
                own.stop()
                counts = []
                for shard in ("root", "shard-1"):
                    out = subprocess.run([str(kit.BINARY), "store", "check", "--dir", str(own.state / "shards" / shard / "data")],
                                         capture_output=True, text=True, check=True).stdout
                    counts.append(int(re.search(r"(\d+) objects", out).group(1)))
                own.start()
                kit.eventually(lambda: own.client("").get("/readyz").status == 200, 60)
                return counts

            def settled():
                """The same twice: what a stop has interrupted is done after the next start."""
                last = stored()

                def same():
                    nonlocal last
                    had, last = last, stored()
                    return had == last

                kit.eventually(same, 60, "nothing more goes")
                return last

            own.make_workspace("provider")
            export_gadgets(own.client("/clusters/root:provider"))
            come_and_go("first")
            before = settled()
            come_and_go("second")
            # What went late of the first one is counted in `before`; it is no fault that it is gone by now.
            kit.eventually(lambda: all(now <= then for now, then in zip(stored(), before)), 60, f"no more than {before}")


class Access(Case):
    def test_AM_490_logical_clusters_are_the_systems(self):
        installation.make_workspace("systems")
        inside = installation.client("/clusters/root:systems")
        made = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "x"}, "spec": {}}
        self.refused(inside.request("POST", CLUSTER, made), 422,
                     'metadata.name: Unsupported value: "x": supported values: "cluster"')
        self.refused(inside.request("DELETE", f"{CLUSTER}/cluster"), 403, "LogicalCluster cannot be deleted")
        self.assertEqual(inside.get(f"{CLUSTER}/cluster").status, 200)

    def test_AM_491_rights_need_the_right_to_enter(self):
        installation.make_workspace("doors")
        inside = installation.client("/clusters/root:doors")
        eva = installation.user_client("eva", path="/clusters/root:doors")
        self.assertEqual((eva.get(MAPS).status, eva.get("/api").status), (403, 403))
        grant_rule(inside, "eva", "map-reader", apiGroups=[""], resources=["configmaps"], verbs=["list"])
        fred = installation.user_client("fred", path="/clusters/root:doors")
        grant(inside, "fred", "system:kcp:workspace:access")
        kit.eventually(lambda: fred.get("/api").status == 200)
        self.assertEqual((fred.get(MAPS).status, eva.get(MAPS).status), (403, 403))
        grant(inside, "eva", "system:kcp:workspace:access")
        kit.eventually(lambda: eva.get(MAPS).status == 200)
        self.assertEqual(eva.get("/api/v1/namespaces/default/secrets").status, 403)

    def test_AM_491_service_accounts_of_the_cluster_are_in(self):
        for name in ("robots", "others"):
            installation.make_workspace(name)
            client = installation.client(f"/clusters/root:{name}")
            kit.eventually(lambda c=client: c.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200)
            grant_rule(client, "system:serviceaccount:default:default", "map-reader", apiGroups=[""], resources=["configmaps"],
                       verbs=["list"])
        client = installation.client("/clusters/root:robots")
        token = client.must("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})["status"]["token"]
        headers = {"Authorization": "Bearer " + token}
        nobody = installation.client("", cert=None)
        kit.eventually(lambda: nobody.get("/clusters/root:robots" + MAPS, headers=headers).status == 200)
        self.assertIn(nobody.get("/clusters/root:others" + MAPS, headers=headers).status, (401, 403))

    def test_AM_491_a_cluster_that_goes_lets_its_users_in(self):
        installation.make_workspace("leaving")
        inside = installation.client("/clusters/root:leaving")
        grant_rule(inside, "gina", "map-reader", apiGroups=[""], resources=["configmaps"], verbs=["list"])
        grant(inside, "gina", "system:kcp:workspace:access")
        inside.must("POST", MAPS, {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
        gina = installation.user_client("gina", path="/clusters/root:leaving")
        kit.eventually(lambda: gina.get(MAPS).status == 200)
        root.must("DELETE", f"{WORKSPACES}/leaving", expect=(200, 202))
        kit.eventually(lambda: "deletionTimestamp" in inside.must("GET", f"{MAPS}/held")["metadata"])
        kit.eventually(lambda: len(gina.must("GET", MAPS)["items"]) == 1)
        inside.must("PATCH", f"{MAPS}/held", json.dumps({"metadata": {"finalizers": None}}), headers=MERGE)
        kit.eventually(lambda: root.get(f"{WORKSPACES}/leaving").status == 404, 30)

    def test_AM_491_required_groups(self):
        installation.make_workspace("club")
        inside = installation.client("/clusters/root:club")
        members = {"both": ("a", "b"), "third": ("c",), "half": ("a",), "none": ()}
        for name in members:
            grant(inside, name, "cluster-admin")
        clients = {name: installation.user_client(name, groups, path="/clusters/root:club") for name, groups in members.items()}
        for client in clients.values():
            kit.eventually(lambda c=client: c.get(MAPS).status == 200)
        note = {"metadata": {"annotations": {"authorization.kcp.io/required-groups": "a,b;c"}}}
        inside.must("PATCH", f"{CLUSTER}/cluster", json.dumps(note), headers=MERGE)
        kit.eventually(lambda: clients["none"].get(MAPS).status == 403)
        self.assertEqual({name: client.get(MAPS).status for name, client in clients.items()},
                         {"both": 200, "third": 200, "half": 403, "none": 403})
        self.assertEqual(inside.get(MAPS).status, 200)  # system:kcp:admin

        clients["third"].must("POST", WORKSPACES, workspace("below"))
        kit.eventually(lambda: inside.must("GET", f"{WORKSPACES}/below")["status"].get("phase") == "Ready")
        below = installation.client("/clusters/root:club:below")
        kit.eventually(lambda: below.get(MAPS).status == 200)
        self.assertEqual(below.must("GET", f"{CLUSTER}/cluster")["metadata"]["annotations"]["authorization.kcp.io/required-groups"],
                         "a,b;c")
        loose = workspace("loose")
        loose["metadata"]["annotations"] = {"authorization.kcp.io/required-groups": "nobody"}
        made = clients["both"].must("POST", WORKSPACES, loose)
        self.assertEqual(made["metadata"]["annotations"]["authorization.kcp.io/required-groups"], "a,b;c")

        inside.must("PATCH", f"{CLUSTER}/cluster", json.dumps({"metadata": {"annotations": {
            "authorization.kcp.io/required-groups": None}}}), headers=MERGE)
        kit.eventually(lambda: clients["none"].get(MAPS).status == 200)


if __name__ == "__main__":
    unittest.main()
