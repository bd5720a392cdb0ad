"""Initializers and terminators of WorkspaceTypes with controllers of one's own (TP-073 to TP-075,
AM-488): they find their work in the virtual workspaces initializingworkspaces and terminatingworkspaces."""
import queue
import threading
import unittest
import urllib.parse

import kit

TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}


def rules(kind, name, *rule):
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rule)}


class Lifecycle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.root = cls.installation.client()
        shards = cls.root.must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]
        cls.regions = {shard["metadata"]["name"]: shard["metadata"]["labels"]["region"] for shard in shards}
        cls.shard = next(name for name in cls.regions if name != "root")  # where the types are not
        cls.carol = {path: cls.installation.user_client("carol", path=path) for path in ("", "/clusters/root")}
        cls.number = 0

    def grant(self, client, user, *rule):
        """A ClusterRole of its own for the user."""
        Lifecycle.number += 1
        name = f"{user}-{self.number}"
        client.must("POST", f"{RBAC}/clusterroles", rules("ClusterRole", name, *rule))
        client.must("POST", f"{RBAC}/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})

    def add_type(self, name, **spec):
        self.root.must("POST", TYPES, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType",
                                       "metadata": {"name": name}, "spec": spec})

        def has_urls():
            status = self.root.must("GET", f"{TYPES}/{name}").get("status", {})
            return {c["type"]: c["status"] for c in status.get("conditions", [])}.get("Ready") == "True" and status.get(
                "virtualWorkspaces")

        return [one["url"] for one in kit.eventually(has_urls)]

    def add_workspace(self, name, type_name, client=None, **spec):
        kit.eventually(lambda: (client or self.root).request("POST", WORKSPACES, {
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
            "spec": {"type": {"name": type_name, "path": "root"},
                     "location": {"selector": {"matchLabels": {"region": self.regions[self.shard]}}}, **spec}}).status == 201,
            what=f"workspace {name} created")

    def workspace(self, name):
        return self.root.must("GET", f"{WORKSPACES}/{name}")

    def phase(self, name, phase):
        def reached():
            found = self.workspace(name)
            return found if found["status"].get("phase") == phase else None

        return kit.eventually(reached, what=f"{name} is {phase}")

    def view(self, kind, name, client):
        """Request function for one virtual workspace, on the shard where the workspaces are, through the proxy."""
        base = f"/shards/{self.shard}/services/{kind}/root:{name}/clusters"
        return lambda method, cluster, path, body=None, **more: client.request(method, f"{base}/{cluster}{path}", body, **more)

    def remove(self, view, cluster, field, name):
        """Takes `name` out of the list in status, as controllers do it."""
        seen = view("GET", cluster, f"{CLUSTERS}/cluster").json
        left = [one for one in seen["status"].get(field, []) if one != name]
        return view("PATCH", cluster, f"{CLUSTERS}/cluster/status", {"status": {field: left}}, headers=MERGE)

    def test_urls_and_lists_in_status(self):
        urls = self.add_type("listed", initializer=True, terminator=True)
        paths = [urllib.parse.urlsplit(url).path for url in urls]
        self.assertEqual(sorted(set(paths)), ["/services/initializingworkspaces/root:listed",
                                              "/services/terminatingworkspaces/root:listed"])
        shards = self.root.must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]
        self.assertEqual(sorted(urls), sorted(f"{shard['spec']['virtualWorkspaceURL'].rstrip('/')}{path}" for shard in shards
                                              for path in set(paths)))

        self.add_type("heir", initializer=True, extend={"with": [{"name": "listed", "path": "root"}]})
        self.add_workspace("listed-one", "heir")
        found = self.phase("listed-one", "Initializing")
        self.assertEqual(found["status"]["initializers"], ["root:heir", "root:listed"])
        self.assertEqual(found["status"]["terminators"], ["root:listed"])
        condition = next(c for c in found["status"]["conditions"] if c["type"] == "WorkspaceInitialized")
        self.assertEqual((condition["status"], condition["reason"], condition["message"]),
                         ("False", "InitializerExists", "Initializers still exist: [root:heir root:listed]"))

        cluster = self.installation.client(f"/clusters/{found['spec']['cluster']}").must("GET", f"{CLUSTERS}/cluster")
        self.assertEqual(cluster["spec"]["initializers"], ["root:heir", "root:listed"])
        self.assertEqual(cluster["spec"]["terminators"], ["root:listed"])
        labels = cluster["metadata"]["labels"]
        self.assertEqual(labels["tenancy.kcp.io/phase"], "Initializing")
        self.assertEqual(sum(label.startswith("initializer.internal.kcp.io/") for label in labels), 2)
        self.assertIn("kcp.io/has-terminators", cluster["metadata"]["finalizers"])

    def test_initializer_am_488_tp_073(self):
        self.add_type("starting", initializer=True)
        dave = self.installation.user_client("dave")
        self.grant(self.root, "dave", {"nonResourceURLs": ["/"], "verbs": ["access"]},
                   {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspaces"], "verbs": ["create", "get"]},
                   {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"], "verbs": ["use"]})
        self.grant(self.root, "carol", {"nonResourceURLs": ["/"], "verbs": ["access"]})
        carol = self.view("initializingworkspaces", "starting", self.carol[""])
        denied = carol("GET", "*", CLUSTERS)
        self.assertEqual((denied.status, denied.json["message"]), (
            403, 'logicalclusters.core.kcp.io is forbidden: User "carol" cannot list resource "logicalclusters" in API group '
            '"core.kcp.io" at the cluster scope: access denied'))
        self.grant(self.root, "carol", {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"],
                                        "resourceNames": ["starting"], "verbs": ["initialize"]})
        listed = kit.eventually(lambda: (lambda a: a if a.status == 200 else None)(carol("GET", "*", CLUSTERS)), what="list allowed")
        self.assertEqual(listed.json["items"], [])

        events = queue.Queue()
        path = (f"/shards/{self.shard}/services/initializingworkspaces/root:starting/clusters/*{CLUSTERS}?watch=1&allowWatchBookmarks=true"
                f"&resourceVersion={urllib.parse.quote(listed.json['metadata']['resourceVersion'])}")

        def follow():
            try:
                for event in self.carol[""].watch(path, timeout=60):
                    events.put(event)
            except OSError:
                pass

        threading.Thread(target=follow, daemon=True).start()
        self.add_workspace("starting-one", "starting", client=dave)
        added = events.get(timeout=60)
        self.assertEqual(added["type"], "ADDED")
        cluster = added["object"]["metadata"]["annotations"]["kcp.io/cluster"]
        found = self.phase("starting-one", "Initializing")
        self.assertEqual(found["spec"]["cluster"], cluster)
        self.assertEqual(found["status"]["initializers"], ["root:starting"])

        # The owner has to wait; who initializes works as him.
        owner = self.installation.user_client("dave", path=f"/clusters/{cluster}")
        self.assertEqual(owner.get("/api/v1/namespaces").status, 403)
        self.assertEqual(carol("GET", cluster, "/api/v1/namespaces").status, 200)
        made = carol("POST", cluster, "/api/v1/namespaces/default/configmaps",
                     {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "from-carol"}, "data": {"a": "b"}})
        self.assertEqual(made.status, 201, made)
        role = carol("POST", cluster, f"{RBAC}/clusterroles",
                     rules("ClusterRole", "made", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}))
        self.assertEqual(role.status, 201, role)  # the owner holds these rights, she does not
        self.assertEqual(self.carol["/clusters/root"].get("/api/v1/namespaces").status, 403)

        # The LogicalCluster may be read and loses its initializer, nothing else.
        mine = carol("GET", cluster, f"{CLUSTERS}/cluster")
        self.assertEqual(mine.json["status"]["initializers"], ["root:starting"])
        self.assertEqual(carol("PATCH", cluster, f"{CLUSTERS}/cluster", {"metadata": {"annotations": {"a": "b"}}},
                               headers=MERGE).status, 405)
        self.assertEqual(carol("DELETE", cluster, f"{CLUSTERS}/cluster").status, 405)
        for wrong in (["root:other"], ["root:starting", "root:other"], ["root:starting"]):
            answer = carol("PATCH", cluster, f"{CLUSTERS}/cluster/status",
                           {"status": {"initializers": wrong, "URL": "https://elsewhere"}}, headers=MERGE)
            self.assertEqual(answer.status, 422, answer)
            self.assertIn('only removing the "root:starting" initializer is supported', answer.json["message"])
        foreign = self.view("initializingworkspaces", "universal", self.carol[""])
        self.assertEqual(foreign("PATCH", cluster, f"{CLUSTERS}/cluster/status", {"status": {"initializers": []}},
                                 headers=MERGE).status, 403)
        inside = (f"/services/initializingworkspaces/root:starting/clusters/{cluster}/api/v1/secrets?watch=1")
        connection = self.carol[""].connect(60)
        connection.request("GET", inside)
        stream = connection.getresponse()
        self.assertEqual(stream.status, 200)
        ended = threading.Event()
        threading.Thread(target=lambda: (stream.read(), ended.set()), daemon=True).start()
        self.assertEqual(self.remove(carol, cluster, "initializers", "root:starting").status, 200)

        self.phase("starting-one", "Ready")
        self.assertTrue(ended.wait(60), "a watch inside ends with the work")
        kit.eventually(lambda: owner.get("/api/v1/namespaces/default/configmaps/from-carol").status == 200)
        refused = carol("GET", cluster, "/api/v1/namespaces")
        self.assertEqual((refused.status, refused.headers["Content-Type"], refused.body),
                         (403, "text/plain; charset=utf-8", b'initializer "root:starting" cannot access this workspace\n'))
        self.assertEqual(carol("GET", cluster, f"{CLUSTERS}/cluster").status, 404)
        self.assertEqual(carol("GET", "*", CLUSTERS).json["items"], [])
        kinds = []
        while "DELETED" not in kinds:
            kinds.append(events.get(timeout=60)["type"])

    def test_only_shrinks_am_488(self):
        self.add_type("shrinking", initializer=True)
        self.add_workspace("shrinking-one", "shrinking")
        cluster = self.phase("shrinking-one", "Initializing")["spec"]["cluster"]
        inside = self.installation.client(f"/clusters/{cluster}")
        for patch, text in ((["root:shrinking", "root:more"], "status.initializers must not grow"),):
            answer = inside.request("PATCH", f"{CLUSTERS}/cluster/status", {"status": {"initializers": patch}}, headers=MERGE)
            self.assertEqual((answer.status, answer.json["message"]),
                             (403, f'logicalclusters.core.kcp.io "cluster" is forbidden: {text}'))
        answer = inside.request("PATCH", f"{CLUSTERS}/cluster/status", {"status": {"phase": "Ready"}}, headers=MERGE)
        self.assertEqual((answer.status, answer.json["message"]),
                         (403, 'logicalclusters.core.kcp.io "cluster" is forbidden: status.initializers is not empty'))
        answer = inside.request("PATCH", f"{CLUSTERS}/cluster", {"spec": {"initializers": []}}, headers=MERGE)
        self.assertEqual((answer.status, answer.json["message"]),
                         (403, 'logicalclusters.core.kcp.io "cluster" is forbidden: spec.initializers is immutable'))

    def test_permissions_tp_074(self):
        maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]}
        self.add_type("narrow", initializer=True, initializerPermissions=[maps])
        self.grant(self.root, "carol", {"nonResourceURLs": ["/"], "verbs": ["access"]},
                   {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"], "resourceNames": ["narrow"],
                    "verbs": ["initialize"]})
        self.add_workspace("narrow-one", "narrow")
        cluster = self.phase("narrow-one", "Initializing")["spec"]["cluster"]
        carol = self.view("initializingworkspaces", "narrow", self.carol[""])
        kit.eventually(lambda: carol("GET", cluster, "/api/v1/namespaces/default/configmaps").status == 200)
        self.assertEqual(carol("POST", cluster, "/api/v1/namespaces/default/configmaps",
                               {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}).status, 201)
        refused = carol("GET", cluster, "/api/v1/namespaces/default/secrets")
        self.assertEqual((refused.status, refused.body), (
            403, b'initializer "root:narrow" denied by initializerPermissions: no rule allows list on core/secrets in namespace '
            b'default\n'))

        # The group that kcp gives such requests inside gives nothing from outside.
        forger = self.installation.user_client("mallory", ["system:kcp:initializer:root:narrow"], path="")
        for path in (f"/clusters/{cluster}/api/v1/namespaces/default/configmaps",
                     f"/services/initializingworkspaces/root:narrow/clusters/{cluster}/api/v1/namespaces/default/configmaps"):
            self.assertEqual(forger.get(path).status, 403)

    def test_terminator_tp_075(self):
        self.add_type("ending", terminator=True)
        self.add_type("ending-too", terminator=True, extend={"with": [{"name": "ending", "path": "root"}]})
        self.grant(self.root, "erin", {"nonResourceURLs": ["/"], "verbs": ["access"]})
        client = self.installation.user_client("erin", path="")
        erin = self.view("terminatingworkspaces", "ending", client)
        self.assertEqual(erin("GET", "*", CLUSTERS).status, 403)
        self.grant(self.root, "erin", {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"],
                                       "resourceNames": ["ending"], "verbs": ["terminate"]})
        kit.eventually(lambda: erin("GET", "*", CLUSTERS).status == 200, what="list allowed")
        self.add_workspace("ending-one", "ending-too")
        found = self.phase("ending-one", "Ready")
        cluster = found["spec"]["cluster"]
        self.assertEqual(found["status"]["terminators"], ["root:ending", "root:ending-too"])
        self.assertEqual(erin("GET", "*", CLUSTERS).json["items"], [])
        self.assertEqual(erin("GET", cluster, f"{CLUSTERS}/cluster").status, 404)
        self.assertEqual(erin("GET", cluster, "/api/v1/namespaces").status, 403)
        inside = self.installation.client(f"/clusters/{cluster}")
        inside.must("POST", "/api/v1/namespaces/default/configmaps",
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}})

        path = (f"/shards/{self.shard}/services/terminatingworkspaces/root:ending/clusters/*{CLUSTERS}?watch=1&allowWatchBookmarks=true"
                "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
        self.assertEqual(next(client.watch(path))["type"], "BOOKMARK")
        follow = kit.Watch(client, path)
        kit.eventually(lambda: follow.events, what="the open watch has told what there is")

        self.root.must("DELETE", f"{WORKSPACES}/ending-one")
        told = kit.eventually(lambda: [event for event in follow.events if event["type"] != "BOOKMARK"], what="the deletion on an open watch")
        self.assertEqual((told[0]["type"], told[0]["object"]["status"]["phase"]), ("MODIFIED", "Terminating"),
                         "it was known since it was made (KK-109)")
        listed = kit.eventually(lambda: erin("GET", "*", CLUSTERS).json["items"], what="waits for its terminator")
        self.assertEqual([one["metadata"]["annotations"]["kcp.io/cluster"] for one in listed], [cluster])
        self.assertEqual(listed[0]["status"]["phase"], "Terminating")
        self.phase("ending-one", "Terminating")
        self.assertEqual(erin("GET", cluster, "/api/v1/namespaces/default/configmaps/kept").status, 200)
        self.assertEqual(erin("PATCH", cluster, f"{CLUSTERS}/cluster", {"metadata": {"annotations": {"a": "b"}}},
                              headers=MERGE).status, 405)
        answer = erin("PATCH", cluster, f"{CLUSTERS}/cluster/status", {"status": {"terminators": ["root:ending"]}}, headers=MERGE)
        self.assertEqual(answer.status, 422)
        self.assertEqual(answer.json["message"], 'LogicalCluster.core.kcp.io "cluster" is invalid: status.terminators: Invalid '
                         'value: ["root:ending"]: only removing the "root:ending" terminator is supported')
        self.assertEqual(self.remove(erin, cluster, "terminators", "root:ending").status, 200)
        self.assertEqual(erin("GET", cluster, f"{CLUSTERS}/cluster").status, 404)

        # The other one still holds everything.
        self.assertEqual(inside.get("/api/v1/namespaces/default/configmaps/kept").status, 200)
        admin = self.view("terminatingworkspaces", "ending-too", self.installation.client(""))
        self.assertEqual(self.remove(admin, cluster, "terminators", "root:ending-too").status, 200)
        kit.eventually(lambda: self.root.get(f"{WORKSPACES}/ending-one").status == 404, deadline=30, what="workspace gone")
        self.assertIn(inside.get("/api/v1/namespaces").status, (403, 404))

    def test_KK_349_discovery_and_names_that_are_none(self):
        """Of a cluster and of all: logicalclusters to be read, with their status; under a name that is none for the system alone."""
        self.add_type("found", initializer=True, terminator=True)
        pki = self.installation.pki
        wanted = [("logicalclusters", ["get", "list", "watch"]), ("logicalclusters/status", ["get", "patch", "update"])]
        for kind in ("initializingworkspaces", "terminatingworkspaces"):
            for name, clients in (("root:found", ("shard-admin", "admin")), ("something-random", ("shard-admin",)), ("root:", ("shard-admin",))):
                for cert in clients:
                    client = kit.Client(self.installation.shard_url(self.shard), pki / "serving-ca.crt", pki / f"{cert}.crt", pki / f"{cert}.key")
                    base = f"/services/{kind}/{name}/clusters/*"
                    groups = client.must("GET", f"{base}/apis")["groups"]
                    self.assertEqual([one["name"] for one in groups], ["core.kcp.io"], (name, cert))
                    found = client.must("GET", f"{base}/apis/core.kcp.io/v1alpha1")["resources"]
                    self.assertEqual([(one["name"], one["verbs"]) for one in found], wanted)
                    self.assertEqual(client.must("GET", base + CLUSTERS)["items"], [])
                    self.assertEqual(client.request("PATCH", f"{base}{CLUSTERS}/cluster/status", {"status": {}}, headers=MERGE).status, 405)
            for cert in ("admin", None):
                pair = (pki / f"{cert}.crt", pki / f"{cert}.key") if cert else (None, None)
                client = kit.Client(self.installation.shard_url(self.shard), pki / "serving-ca.crt", *pair)
                for path in ("/apis", "/apis/core.kcp.io/v1alpha1", CLUSTERS):
                    self.assertEqual(client.get(f"/services/{kind}/something-random/clusters/*{path}").status, 403, (cert, path))

    def test_TP_075_bookmarks_come_within_half_a_minute(self):
        self.add_type("marked", initializer=True)
        client = self.installation.client("")
        path = (f"/shards/{self.shard}/services/initializingworkspaces/root:marked/clusters/*{CLUSTERS}?watch=1&allowWatchBookmarks=true"
                "&timeoutSeconds=300")
        kit.eventually(lambda: client.get(path.split("?", maxsplit=1)[0]).status == 200)
        direct = kit.Client(self.installation.shard_url(self.shard), self.installation.pki / "serving-ca.crt", self.installation.pki / "shard-admin.crt",
                            self.installation.pki / "shard-admin.key")
        follow = kit.Watch(direct, path.removeprefix(f"/shards/{self.shard}"))
        kit.eventually(lambda: any(event["type"] == "BOOKMARK" for event in follow.events), 30, "a bookmark")

    def test_KK_116_the_workspace_tells_what_keeps_its_content(self):
        self.add_workspace("full", "universal")
        cluster = self.phase("full", "Ready")["spec"]["cluster"]
        inside = self.installation.client(f"/clusters/{cluster}")
        inside.must("POST", "/api/v1/namespaces/default/configmaps", {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
        self.root.must("DELETE", f"{WORKSPACES}/full")

        def told():
            conditions = self.workspace("full")["status"]["conditions"]
            return next((one for one in conditions if one["type"] == "WorkspaceContentDeleted"), None)

        condition = kit.eventually(told, 20, "the condition")
        self.assertEqual((condition["status"], condition["severity"], condition["reason"]), ("False", "Info", "SomeResourcesRemain"))
        self.assertIn("configmaps. has 1 resource instances", condition["message"])
        self.assertRegex(condition["message"], r", Some content in the logical cluster has finalizers remaining: .*example\.com/hold in 1 resource instances$")
        self.assertEqual(self.workspace("full")["status"]["phase"], "Deleting")
        inside.must("PATCH", "/api/v1/namespaces/default/configmaps/held", {"metadata": {"finalizers": None}}, headers=MERGE)
        kit.eventually(lambda: self.root.get(f"{WORKSPACES}/full").status == 404, 30, "workspace gone")
        # What is left of it, nothing, is seen by the system alone.
        pki = self.installation.pki
        for cert, status in (("shard-admin", 200), ("admin", 403)):
            client = kit.Client(f"{self.installation.shard_url(self.shard)}/clusters/{cluster}", pki / "serving-ca.crt", pki / f"{cert}.crt", pki / f"{cert}.key")
            answer = kit.eventually(lambda c=client, s=status: (a := c.get("/api/v1/namespaces")).status == s and a)
            if status == 200:
                self.assertEqual(answer.json["items"], [])

    def test_default_bindings_am_484(self):
        """Exports that a type names are bound in its workspaces before they are Ready, on whatever shard."""
        prefix, group = "v1.gadgets.gadget.example.test", "gadget.example.test"
        reference = {"path": "root", "export": "gadgets"}
        self.add_type("binding", defaultAPIBindings=[reference], defaultAPIBindingLifecycle="Maintain")
        self.add_workspace("binding-one", "binding")

        def told():
            found = self.workspace("binding-one")
            return next((c for c in found["status"].get("conditions", []) if c["type"] == "APIBindingsInitialized"), None)

        condition = kit.eventually(told, what="says what it waits for")
        self.assertEqual((condition["status"], condition["reason"]), ("False", "APIBindingErrors"))
        self.assertEqual(self.workspace("binding-one")["status"]["initializers"], ["system:apibindings"])

        self.root.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": prefix},
            "spec": {"group": group, "scope": "Namespaced",
                     "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {
                         "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}]}})
        self.root.must("POST", "/apis/apis.kcp.io/v1alpha2/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "gadgets"},
            "spec": {"resources": [{"group": group, "name": "gadgets", "schema": prefix, "storage": {"crd": {}}}],
                     "permissionClaims": [{"group": "", "resource": "configmaps", "verbs": ["get", "list"]}]}})
        found = self.phase("binding-one", "Ready")
        self.assertEqual(told()["status"], "True")
        inside = self.installation.client("/clusters/root:binding-one")
        bindings = "/apis/apis.kcp.io/v1alpha2/apibindings"
        bound = inside.must("GET", bindings)["items"]
        self.assertEqual([one["spec"]["reference"]["export"] for one in bound], [{"name": "gadgets", "path": "root"}])
        self.assertEqual([(one["resource"], one["state"]) for one in bound[0]["spec"]["permissionClaims"]],
                         [("configmaps", "Accepted")])
        gadgets = f"/apis/{group}/v1/namespaces/default/gadgets"
        made = inside.request("POST", gadgets, {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": "g"},
                                                "spec": {"size": 3}})
        self.assertEqual(made.status, 201, made)

        # A type that maintains gets its binding back; without its type's wish a binding stays gone.
        inside.must("DELETE", f"{bindings}/{bound[0]['metadata']['name']}")
        old = bound[0]["metadata"]["uid"]
        again = kit.eventually(lambda: [one for one in inside.must("GET", bindings)["items"] if one["metadata"]["uid"] != old],
                               what="bound again")
        self.assertEqual(again[0]["metadata"]["name"], bound[0]["metadata"]["name"])
        kit.eventually(lambda: inside.get(gadgets).status == 200, what="served again")
        self.assertEqual(inside.must("GET", gadgets)["items"], [])
        self.root.must("DELETE", f"{WORKSPACES}/binding-one")
        kit.eventually(lambda: self.root.get(f"{WORKSPACES}/binding-one").status == 404, deadline=30, what="workspace gone")
        self.assertIn(self.installation.client(f"/clusters/{found['spec']['cluster']}").get(bindings).status, (403, 404))

    def test_type_of_a_workspace_on_other_shards(self):
        """The type lies in a workspace; clusters of that type on every shard wait for the same name."""
        self.add_workspace("provider", "universal")
        provider = self.phase("provider", "Ready")["spec"]["cluster"]
        inside = self.installation.client(f"/clusters/{provider}")
        inside.must("POST", TYPES, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType",
                                    "metadata": {"name": "far"}, "spec": {"initializer": True}})
        for shard in self.regions:
            body = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": f"far-{shard}"},
                    "spec": {"type": {"name": "far", "path": "root:provider"},
                             "location": {"selector": {"matchLabels": {"region": self.regions[shard]}}}}}
            kit.eventually(lambda body=body: self.root.request("POST", WORKSPACES, body).status == 201, deadline=20,
                           what=f"type known for {shard}")
        clusters = {shard: self.phase(f"far-{shard}", "Initializing")["spec"]["cluster"] for shard in self.regions}
        admin = self.installation.client("")
        for segment in (f"{provider}:far", "root:provider:far"):
            base = f"/services/initializingworkspaces/{segment}/clusters"
            for cluster in clusters.values():
                answer = admin.get(f"{base}/{cluster}{CLUSTERS}/cluster")
                self.assertEqual(answer.status, 200, answer)
        for shard, cluster in clusters.items():
            path = f"/services/initializingworkspaces/{provider}:far/clusters/{cluster}{CLUSTERS}/cluster/status"
            self.assertEqual(admin.request("PATCH", path, {"status": {"initializers": []}}, headers=MERGE).status, 200)
            self.phase(f"far-{shard}", "Ready")


if __name__ == "__main__":
    unittest.main()
