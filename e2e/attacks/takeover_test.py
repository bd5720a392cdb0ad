"""What a tenant, a neighbour or a provider would take over by what objects say (KK-053, KK-062 to KK-064, KK-101 to KK-107, KK-292 to
KK-294, KK-350 to KK-352; KK-T026, T029, T033 to T035, T053, T056, T057, T110, T144, T145; SE-006, SE-T013). Where admission refuses the
words of a tenant, they are put into storage by system:masters at the shard itself: nobody obeys them all the same."""
import json
import re
import socket
import subprocess
import unittest

import kit

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
CLUSTER = CLUSTERS + "/cluster"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
OWNER = "experimental.tenancy.kcp.io/owner"
PLACED = "internal.tenancy.kcp.io/cluster"
PLACED_SHARD = "internal.tenancy.kcp.io/shard"
ALICE_HOME = "v1u4alow0iv9"
NOWHERE = {"location": {"selector": {"matchLabels": {"region": "nowhere"}}}}


def workspace(name, annotations=None, **spec):
    return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name, "annotations": annotations or {}},
            "spec": spec}


def logical_cluster(owner=None, **spec):
    if owner:
        spec["owner"] = {"apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", **owner}
    return {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "cluster"}, "spec": spec}


def condition(obj, kind):
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def setUpModule():
    global installation, root, shards
    installation = kit.Installation(shards=2).start_for()
    root = installation.client()
    shards = {s["metadata"]["name"]: s for s in root.must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]}


def at_shard(name, path=""):
    """The shard itself, as system:masters: what it lets through was put into storage."""
    pki = installation.pki
    return kit.Client(shards[name]["spec"]["baseURL"] + path, pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")


def restart(shard):
    """Ended without warning; `kintsugi up` starts it again."""
    before = installation.pid(shard)
    installation.kill(shard)
    kit.eventually(lambda: installation.pid(shard) != before and at_shard(shard).get("/readyz").status == 200, 40, f"{shard} is back")
    kit.eventually(lambda: root.get(WORKSPACES).status == 200 or None, 30, "root is routed")


def untrusted(shard):
    """Counts by fact."""
    body = at_shard(shard).get("/clusters/*/metrics").body.decode()
    text = json.loads(body) if body.startswith('"') else body
    return {m[1]: int(m[2]) for m in re.finditer(r'kintsugi_untrusted_fact_total\{fact="([^"]+)"\} (\d+)', text)}


def names_of(shard):
    """Logical clusters that the shard has."""
    items = at_shard(shard).must("GET", "/clusters/*" + CLUSTERS)["items"]
    return {one["metadata"]["annotations"]["kcp.io/cluster"] for one in items}


def quiet(client, path, most=8):
    """Until nothing changes for three seconds; fails when there are many changes."""
    seen = 0
    try:
        for _ in client.watch(path, timeout=3):
            seen += 1
            assert seen <= most, f"{path}: written for ever"
    except (socket.timeout, TimeoutError):
        pass
    return seen


class Takeover(unittest.TestCase):
    number = 0

    def name(self, prefix="w"):
        Takeover.number += 1
        return f"{prefix}-{self.number}"

    def tenant(self, user, *, where="root"):
        """A client of the user in a workspace of his own."""
        name = self.name(user)
        made = installation.make_workspace(name, parent=where, selector={"name": "root"})
        admin = installation.client(f"/clusters/{made['spec']['cluster']}")
        admin.must("POST", f"{RBAC}/clusterrolebindings", {
            "metadata": {"name": "own"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]})
        client = installation.user_client(user, path=f"/clusters/{made['spec']['cluster']}")
        kit.eventually(lambda: client.get(MAPS).status == 200)
        return client, made

    def stalled(self, client, name):
        def look():
            found = client.must("GET", f"{WORKSPACES}/{name}")
            return found if condition(found, "Stalled").get("status") == "True" else None
        return kit.eventually(look, 20, f"{name} is stalled")

    def ready(self, client, name):
        def look():
            found = client.must("GET", f"{WORKSPACES}/{name}")
            return found if found["status"].get("phase") == "Ready" else None
        return kit.eventually(look, 30, f"{name} is ready")

    def everybody_is_there(self, victim):
        self.assertEqual(root.get(WORKSPACES).status, 200)
        self.assertEqual(installation.client(f"/clusters/{victim['spec']['cluster']}").get(MAPS).status, 200)
        self.assertEqual(installation.client(f"/clusters/root:{victim['metadata']['name']}").get(MAPS).status, 200)

    def test_routes_KK_T024_KK_T035_SE_T050(self):
        """A Workspace that names another's logical cluster leads nowhere, rests, and takes nothing with it when it goes."""
        victim = installation.make_workspace(self.name("victim"), selector={"name": "shard-1"})
        own = installation.make_workspace(self.name("own"), selector={"name": "root"})
        before = {shard: names_of(shard) for shard in shards}
        direct = at_shard("root", "/clusters/root")
        taken = {"root": "root", "other": victim["spec"]["cluster"], "mine": own["spec"]["cluster"], "home": ALICE_HOME,
                 "absent": "aaaaaaaaaaaaaaaa", "system": "system:admin"}
        shapes = {"plain": {}, "placed": {"location": {"selector": {"matchLabels": {"name": "shard-1"}}}},
                  "annotated": {}, "finalized": {}, "ready": {}}
        made = []
        for shape, spec in shapes.items():
            for key, cluster in taken.items():
                with self.subTest(shape=shape, cluster=key):
                    name = self.name("evil")
                    body = workspace(name, cluster=cluster, URL=f"https://127.0.0.1:1/clusters/{cluster}",
                                     type={"name": "universal", "path": "root"}, **spec)
                    if shape == "annotated":
                        body["metadata"]["annotations"] = {PLACED: cluster, PLACED_SHARD: "shard-1", "core.kcp.io/shard": "shard-1"}
                    if shape == "finalized":
                        body["metadata"]["finalizers"] = ["core.kcp.io/logicalcluster"]
                    answer = direct.request("POST", WORKSPACES, body)
                    if answer.status == 422:
                        continue  # no name at all
                    self.assertEqual(answer.status, 201, answer)
                    made.append(name)
                    if shape == "ready":
                        direct.request("PATCH", f"{WORKSPACES}/{name}/status", {"status": {"phase": "Ready"}}, headers=MERGE)
                    found = self.stalled(root, name)
                    self.assertEqual(condition(found, "WorkspaceScheduled")["status"], "False")
                    through = installation.client(f"/clusters/root:{name}")
                    for path in (MAPS, "/api/v1/secrets", CLUSTER):
                        self.assertEqual(through.get(path).status, 403, path)
        self.assertGreater(len(made), 20)
        quiet(direct, f"{WORKSPACES}?watch=1&resourceVersion={direct.must('GET', WORKSPACES)['metadata']['resourceVersion']}")
        restart("root")
        self.everybody_is_there(victim)
        for name in made:
            self.assertEqual(installation.client(f"/clusters/root:{name}").get(MAPS).status, 403, name)
        self.assertGreater(untrusted("root")["workspace-cluster"], 0)
        quiet(direct, f"{WORKSPACES}?watch=1&resourceVersion={direct.must('GET', WORKSPACES)['metadata']['resourceVersion']}")
        for name in made:
            direct.must("DELETE", f"{WORKSPACES}/{name}", expect=(200, 202))
        for name in made:
            kit.eventually(lambda n=name: direct.get(f"{WORKSPACES}/{n}").status == 404, 30, f"{name} is gone")
        self.everybody_is_there(victim)
        self.assertEqual({shard: names_of(shard) for shard in shards}, before)

    def test_annotations_KK_T033(self):
        """No logical cluster is made under a name that annotations say, whoever writes them and however."""
        eve, home = self.tenant("eve")
        before = set().union(*(names_of(shard) for shard in shards))
        targets = [ALICE_HOME, "root", "system:admin", home["spec"]["cluster"], "brandnewname0000"]
        waiting = []
        for target in targets:
            note = {PLACED: target, PLACED_SHARD: "shard-1", "core.kcp.io/shard": "shard-1"}
            for form in ("create", "merge", "json", "apply", "put", "injected"):
                name = self.name("held")
                if form == "create":
                    if eve.request("POST", WORKSPACES, workspace(name, note, type={"name": "universal"}, **NOWHERE)).status == 201:
                        waiting.append((name, target))
                    continue
                eve.must("POST", WORKSPACES, workspace(name, type={"name": "universal"}, **NOWHERE))
                waiting.append((name, target))
                path = f"{WORKSPACES}/{name}"
                writer = eve
                if form == "merge":
                    eve.request("PATCH", path, {"metadata": {"annotations": note}}, headers=MERGE)
                elif form == "json":
                    eve.request("PATCH", path, [{"op": "add", "path": "/metadata/annotations/" + key.replace("/", "~1"), "value": value}
                                                for key, value in note.items()], headers=JSON)
                elif form == "apply":
                    eve.request("PATCH", path + "?fieldManager=eve&force=true", json.dumps(
                        {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name, "annotations": note}}),
                        headers=APPLY)
                elif form == "put":
                    seen = eve.must("GET", path)
                    seen["metadata"]["annotations"].update(note)
                    eve.request("PUT", path, seen)
                else:
                    writer = at_shard("root", f"/clusters/{home['spec']['cluster']}")
                    writer.must("PATCH", path, {"metadata": {"annotations": note}}, headers=MERGE)
        for name, target in waiting:
            eve.must("PATCH", f"{WORKSPACES}/{name}",
                     {"spec": {"location": {"selector": {"matchLabels": {"region": None, "name": "shard-1"}}}}}, headers=MERGE)
        for name, target in waiting:
            found = self.ready(eve, name)
            self.assertRegex(found["spec"]["cluster"], "^[0-9a-z]{16}$")
            self.assertNotIn(found["spec"]["cluster"], targets)
            self.assertEqual(found["metadata"]["annotations"][PLACED], found["spec"]["cluster"], "repaired")
        new = set().union(*(names_of(shard) for shard in shards)) - before
        self.assertFalse(new & set(targets), new)
        self.everybody_is_there(home)
        for name, _ in waiting:
            eve.must("DELETE", f"{WORKSPACES}/{name}", expect=(200, 202))
        for name, _ in waiting:
            kit.eventually(lambda n=name: eve.get(f"{WORKSPACES}/{n}").status == 404, 30, f"{name} is gone")
        self.everybody_is_there(home)

    def test_owner_KK_T029(self):
        """Who made a Workspace is its creator, whatever its annotation says later."""
        eve, home = self.tenant("erin")
        inject = at_shard("root", f"/clusters/{home['spec']['cluster']}")
        forged = ['{"username":"erin","groups":["system:masters"]}', '{"username":"alice"}', '{"username":"system:admin"}',
                  '{"username":"erin","groups":["system:kcp:admin"],"extra":{"authorization.kcp.io/warrant":["{}"]}}', "nonsense"]
        for number, value in enumerate(forged):
            with self.subTest(value=value):
                name = self.name("waits")
                eve.must("POST", WORKSPACES, workspace(name, type={"name": "universal"}, **NOWHERE))
                kit.eventually(lambda n=name: condition(eve.must("GET", f"{WORKSPACES}/{n}"), "WorkspaceScheduled").get("reason"), 20)
                note = {"metadata": {"annotations": {OWNER: value, "authorization.kcp.io/required-groups": "forged"}}}
                eve.request("PATCH", f"{WORKSPACES}/{name}", note, headers=MERGE)
                inject.must("PATCH", f"{WORKSPACES}/{name}", note, headers=MERGE)
                if number == 0:
                    restart("root")
                kit.eventually(lambda n=name: eve.request("PATCH", f"{WORKSPACES}/{n}", {"spec": {"location": None}},
                                                          headers=MERGE).status == 200, 20)
                found = self.ready(eve, name)
                cluster = installation.client(f"/clusters/{found['spec']['cluster']}").must("GET", CLUSTER)
                self.assertEqual(cluster["spec"]["createdBy"]["username"], "erin")
                self.assertFalse({g for g in cluster["spec"]["createdBy"].get("groups", []) if g.startswith("system:")}
                                 - {"system:authenticated"})
                self.assertNotIn("authorization.kcp.io/required-groups", cluster["metadata"]["annotations"])
                self.assertEqual(json.loads(found["metadata"]["annotations"][OWNER])["username"], "erin")
        self.assertGreater(untrusted("root")["workspace-owner"], 0)

    def test_deletion_KK_T034_KK_T026(self):
        """Nobody's logical cluster is deleted by another Workspace: a mount, one without a phase, one of the same name."""
        victim = installation.make_workspace(self.name("kept"), selector={"name": "shard-1"})
        cluster = victim["spec"]["cluster"]
        direct = at_shard("root", "/clusters/root")
        mount = {"ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "namespace": "default"}}
        bodies = [workspace(self.name("d"), cluster=cluster),
                  workspace(self.name("d"), {PLACED: cluster, PLACED_SHARD: "shard-1"}),
                  workspace(self.name("d"), {PLACED: cluster, PLACED_SHARD: "shard-1"}, mount=mount),
                  workspace(self.name("d"), cluster=cluster, mount=mount),
                  workspace(self.name("d"), cluster="root", mount=mount),
                  workspace(self.name("d"), {PLACED: "root", PLACED_SHARD: "root"}, **NOWHERE)]
        for body in bodies:
            with self.subTest(body=body):
                body["metadata"]["finalizers"] = ["core.kcp.io/logicalcluster"]
                made = direct.request("POST", WORKSPACES, body)
                self.assertEqual(made.status, 201, made)
                path = f"{WORKSPACES}/{body['metadata']['name']}"
                direct.must("DELETE", path, expect=(200, 202))
                kit.eventually(lambda p=path: direct.get(p).status == 404, 30, f"{path} is gone")
                self.everybody_is_there(victim)
        self.assertIn(cluster, names_of("shard-1"))

    def test_home_KK_T057_KK_107(self):
        """A home that is taken before its user's first visit is nobody's home."""
        users = {"alice": ALICE_HOME, "bob": "2okdry95y5lkv", "user172": "0f9mt7goyif7"}
        eve = installation.make_workspace(self.name("thief"), selector={"name": "root"})
        owners = {"alice": {"owner": {"name": eve["metadata"]["name"], "cluster": "root", "uid": eve["metadata"]["uid"]}},
                  "bob": {"createdBy": {"username": "eve"}},
                  "user172": {"createdBy": {"groups": ["user172"]}}}
        for user, cluster in users.items():
            with self.subTest(user=user):
                body = logical_cluster(**owners[user])
                body["metadata"]["annotations"] = {"kcp.io/path": f"user:{user}", OWNER: json.dumps({"username": user})}
                at_shard("root", f"/clusters/{cluster}").must("POST", CLUSTERS, body)
                client = installation.user_client(user)
                answer = kit.eventually(lambda c=client: (a := c.get(f"{WORKSPACES}/~")).status == 409 and a, 20, f"{user} is told")
                self.assertIn("home workspace name is taken", answer.body.decode())
                self.assertEqual(client.get(f"{WORKSPACES}/~").status, 409)
                inside = installation.user_client(user, path=f"/clusters/user:{user}")
                self.assertEqual(inside.get(MAPS).status, 403)
        # A home that its user has cannot be taken by what says that it is another's.
        carl = installation.user_client("carl")
        home = kit.eventually(lambda: (a := carl.get(f"{WORKSPACES}/~")).status == 200 and a.json, 30)["spec"]["cluster"]
        inject = at_shard("root", f"/clusters/{home}")
        for note in ({OWNER: '{"username":"eve"}'}, {"kcp.io/path": "user:eve"}, {"kcp.io/path": "root"},
                     {PLACED: "root"}, {"core.kcp.io/shard": "shard-1"}):
            inject.must("PATCH", CLUSTER, {"metadata": {"annotations": note}}, headers=MERGE)
            self.assertEqual(carl.get(f"{WORKSPACES}/~").json["spec"]["cluster"], home)
        kit.eventually(lambda: inject.must("GET", CLUSTER)["metadata"]["annotations"]["kcp.io/path"] == "user:carl", 10, "repaired")
        installation.client("/clusters/root").must("GET", WORKSPACES)

    def test_admin_binding_KK_104(self):
        """Rights of the owner follow createdBy alone, and come back."""
        _, home = self.tenant("fred")
        name = home["spec"]["cluster"]
        inject = at_shard("root", f"/clusters/{name}")
        path = f"{RBAC}/clusterrolebindings/workspace-admin"
        creator = inject.must("GET", CLUSTER)["spec"]["createdBy"]["username"]

        def holds():
            found = inject.get(path)
            return (found.status == 200 and [s["name"] for s in found.json["subjects"]] == [creator] and
                    found.json["roleRef"]["name"] == "cluster-admin")

        kit.eventually(holds, 10)
        inject.must("PATCH", CLUSTER, {"metadata": {"annotations": {OWNER: '{"username":"mallory"}'}}}, headers=MERGE)
        changes = [lambda: inject.must("PATCH", path, {"subjects": [{"kind": "User", "name": "mallory",
                                                                     "apiGroup": "rbac.authorization.k8s.io"}]}, headers=MERGE),
                   lambda: inject.must("PATCH", path, {"subjects": []}, headers=MERGE),
                   lambda: inject.must("PATCH", path, [{"op": "add", "path": "/subjects/-", "value": {
                       "kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}}], headers=JSON),
                   lambda: inject.must("DELETE", path),
                   self.other_role(inject, path)]
        for change in changes:
            change()
            kit.eventually(holds, 10, "restored")
        self.assertGreater(untrusted("root")["admin-binding"], 0)
        quiet(inject, f"{RBAC}/clusterrolebindings?watch=1&resourceVersion="
                      f"{inject.must('GET', RBAC + '/clusterrolebindings')['metadata']['resourceVersion']}")

    @staticmethod
    def other_role(client, path):
        def change():
            seen = client.must("GET", path)
            client.must("DELETE", path)
            client.request("POST", path.rsplit("/", 1)[0], {**{k: seen[k] for k in ("apiVersion", "kind")}, "metadata": {
                "name": "workspace-admin"}, "roleRef": {**seen["roleRef"], "name": "view"}, "subjects": seen["subjects"]})
        return change

    def test_paths_KK_T056(self):
        """A path is where a Workspace is; who claims another's gets nothing of it."""
        provider = installation.make_workspace(self.name("prov"), selector={"name": "root"})
        prov = "root:" + provider["metadata"]["name"]
        export = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "things"}, "spec": {}}
        installation.client(f"/clusters/{prov}").must("POST", EXPORTS, export)
        consumers = []
        for number, where in enumerate(("root", "shard-1")):
            thief = installation.make_workspace(self.name("eve"), selector={"name": where})
            name = thief["spec"]["cluster"]
            own = "root:" + thief["metadata"]["name"]
            inject = at_shard(where, f"/clusters/{name}")
            inject.must("PATCH", CLUSTER, {"metadata": {"annotations": {"kcp.io/path": prov}}}, headers=MERGE)
            inject.must("POST", EXPORTS, {**export, "metadata": {"name": "things", "annotations": {"kcp.io/path": prov}}})
            inject.request("PATCH", f"{EXPORTS}/things", {"metadata": {"annotations": {"kcp.io/path": prov}}}, headers=MERGE)
            kit.eventually(lambda i=inject, o=own: i.must("GET", CLUSTER)["metadata"]["annotations"]["kcp.io/path"] == o, 10, "repaired")
            self.assertEqual(inject.must("GET", f"{EXPORTS}/things")["metadata"]["annotations"]["kcp.io/path"], own)
            if number == 0:
                restart("root")
            child = installation.make_workspace(self.name("below"), parent=name, selector={"name": where})
            self.assertTrue(child["spec"]["URL"].endswith(f"/clusters/{own}:{child['metadata']['name']}"), child["spec"])
            for shard in shards:
                consumer = installation.make_workspace(self.name("cons"), selector={"name": shard})
                consumers.append(installation.client(f"/clusters/{consumer['spec']['cluster']}"))
                consumers[-1].must("POST", BINDINGS, {
                    "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "things"},
                    "spec": {"reference": {"export": {"path": prov, "name": "things"}}}})
        for client in consumers:
            bound = kit.eventually(lambda c=client: (b := c.must("GET", f"{BINDINGS}/things"))["status"].get("phase") == "Bound" and b, 30)
            self.assertEqual(bound["status"]["apiExportClusterName"], provider["spec"]["cluster"])
        self.assertGreater(untrusted("shard-1")["cluster-path"], 0)
        # KK-173: the one that answers to the path later is another.
        direct = at_shard("root", f"/clusters/{provider['spec']['cluster']}")
        direct.must("DELETE", f"{EXPORTS}/things", expect=(200, 202))
        for client in consumers:
            kit.eventually(lambda c=client: condition(c.must("GET", f"{BINDINGS}/things"), "APIExportValid").get("reason")
                           == "APIExportNotFound", 30)
            self.assertEqual(client.must("GET", f"{BINDINGS}/things")["status"]["apiExportClusterName"], provider["spec"]["cluster"])

    def test_two_shards_KK_T035_SE_T013(self):
        """A second shard that has a logical cluster of the name is told of and not routed."""
        victim = installation.make_workspace(self.name("twice"), selector={"name": "root"})
        cluster = victim["spec"]["cluster"]
        marker = installation.client(f"/clusters/{cluster}").must("POST", MAPS, {"metadata": {"name": "marker"}})
        copy = at_shard("root", f"/clusters/{cluster}").must("GET", CLUSTER)
        liar = at_shard("shard-1", f"/clusters/{cluster}")
        owner = {k: copy["spec"]["owner"][k] for k in ("name", "cluster", "uid")}
        before = names_of("shard-1")
        for body in (logical_cluster(owner=owner), logical_cluster(), logical_cluster(owner={**owner, "uid": "other"})):
            body["metadata"]["annotations"] = {"kcp.io/path": copy["metadata"]["annotations"]["kcp.io/path"]}
            liar.must("POST", CLUSTERS, body)
            kit.eventually(lambda: 'kintsugi_topology_conflicting_clusters 1' in self.proxy_metrics(), 20, "the conflict is seen")
            for path in (cluster, f"root:{victim['metadata']['name']}"):
                found = installation.client(f"/clusters/{path}").must("GET", f"{MAPS}/marker")
                self.assertEqual(found["metadata"]["uid"], marker["metadata"]["uid"])
            self.assertRegex(self.proxy_metrics(), r'kintsugi_untrusted_fact_total\{fact="cluster-name"\} [1-9]')
            liar.must("DELETE", CLUSTER, expect=(200, 202))
            kit.eventually(lambda: names_of("shard-1") == before, 30, "the second is gone")
            kit.eventually(lambda: 'kintsugi_topology_conflicting_clusters 0' in self.proxy_metrics(), 20)
        # Nobody takes root.
        at_shard("shard-1", "/clusters/root").must("POST", CLUSTERS, logical_cluster())
        kit.eventually(lambda: 'kintsugi_topology_conflicting_clusters 1' in self.proxy_metrics(), 20)
        self.assertEqual({w["metadata"]["uid"] for w in root.must("GET", WORKSPACES)["items"]},
                         {w["metadata"]["uid"] for w in at_shard("root", "/clusters/root").must("GET", WORKSPACES)["items"]})
        at_shard("shard-1", "/clusters/root").must("DELETE", CLUSTER, expect=(200, 202))
        kit.eventually(lambda: names_of("shard-1") == before, 30)

    @staticmethod
    def proxy_metrics():
        return subprocess.run(["curl", "-sS", "--unix-socket", str(installation.state / "run/admin.sock"), "http://admin/metrics"],
                              capture_output=True, text=True, timeout=60, check=True).stdout

    def test_creator_KK_T053_KK_T144_KK_T145(self):
        """Whoever initializes for a creator of forged powers is an ordinary user in that cluster alone."""
        root.must("POST", TYPES, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": "taking"},
                                  "spec": {"initializer": True}})
        for rule in ({"nonResourceURLs": ["/"], "verbs": ["access"]},
                     {"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"], "resourceNames": ["taking"], "verbs": ["initialize"]}):
            name = self.name("carol")
            root.must("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
            root.must("POST", f"{RBAC}/clusterrolebindings", {
                "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "User", "name": "carol", "apiGroup": "rbac.authorization.k8s.io"}]})
        carol = installation.user_client("carol", path="")
        creators = {"masters": {"username": "gil", "groups": ["system:masters"]},
                    "admin": {"username": "gil", "groups": ["system:kcp:admin", "system:kcp:logical-cluster-admin", "dev"]},
                    "warrant": {"username": "gil", "extra": {"authorization.kcp.io/warrant": ['{"user":"x","groups":["system:masters"]}']}},
                    "scopes": {"username": "gil", "extra": {"authentication.kcp.io/scopes": ["cluster:root"], "mine": ["v"]}},
                    "nameless": {"groups": ["system:masters"]}}
        for key, creator in creators.items():
            with self.subTest(key=key):
                cluster = self.name("forged").replace("-", "")
                body = logical_cluster(createdBy=creator, initializers=["root:taking"])
                body["metadata"]["annotations"] = {OWNER: '{"username":"gil","groups":["system:masters"]}',
                                                   "internal.tenancy.kcp.io/type": "root:taking"}
                at_shard("root", f"/clusters/{cluster}").must("POST", CLUSTERS, body)
                base = f"/shards/root/services/initializingworkspaces/root:taking/clusters/{cluster}"

                def ask(method, path, content=None, base=base, **more):
                    return carol.request(method, base + path, content, **more)

                kit.eventually(lambda a=ask: a("GET", CLUSTER).status == 200, 20, "it waits")
                if key == "nameless":
                    self.assertEqual(ask("GET", MAPS).status, 403)
                    continue
                who = kit.eventually(lambda a=ask: (r := a("POST", REVIEWS, {"apiVersion": "authentication.k8s.io/v1",
                                                                             "kind": "SelfSubjectReview"})).status == 201 and r, 10)
                user = who.json["status"]["userInfo"]
                self.assertEqual(user["username"], "gil")
                self.assertFalse([g for g in user["groups"] if g.startswith("system:") and g != "system:authenticated"], user)
                self.assertIn("system:authenticated", user["groups"])
                self.assertEqual(user["extra"]["authentication.kcp.io/scopes"], [f"cluster:{cluster}"])
                self.assertFalse({k for k in user["extra"] if "kcp.io" in k} - {"authentication.kcp.io/scopes"})
                kit.eventually(lambda a=ask: a("GET", MAPS).status == 200, 10, "gil's own rights")
                for resource in ("apibindings", "apiexports"):
                    answer = ask("PATCH", f"/apis/apis.kcp.io/v1alpha2/{resource}/any/status", {"status": {"phase": "Bound"}}, headers=MERGE)
                    self.assertEqual(answer.status, 403, answer)
                self.assertIn(ask("PATCH", CLUSTER, {"metadata": {"annotations": {OWNER: "x"}}}, headers=MERGE).status, (403, 404, 405))
                forged = {"X-Remote-User": "root", "X-Remote-Group": "system:masters", "Impersonate-User": "root"}
                for header, value in forged.items():
                    answer = ask("GET", "/api/v1/secrets", headers={header: value})
                    self.assertIn(answer.status, (200, 403), header)
                    if header.startswith("X-"):
                        again = ask("POST", REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
                                    headers={header: value})
                        self.assertEqual(again.json["status"]["userInfo"]["username"], "gil")
                    else:
                        self.assertEqual(answer.status, 403)
                before = ask("GET", CLUSTER).json
                status = before["status"]
                for wrong in ({"initializers": ["root:other"]}, {"initializers": ["root:taking", "root:more"]},
                              {"initializers": ["root:taking"], "URL": "https://evil"}, {"initializers": [], "phase": "Ready"},
                              {"initializers": [], "terminators": ["root:taking"]}, {"initializers": ["root:taking", "root:taking"]}):
                    answer = ask("PATCH", f"{CLUSTER}/status", {"status": wrong}, headers=MERGE)
                    self.assertEqual(answer.status, 422, (wrong, answer))
                    self.assertIn('LogicalCluster.tenancy.kcp.io "cluster" is invalid', answer.json["message"])
                self.assertEqual(ask("GET", CLUSTER).json["status"]["initializers"], status["initializers"])
                done = ask("PATCH", f"{CLUSTER}/status", {"status": {"initializers": []}, "spec": {"createdBy": {"username": "x"}}},
                           headers=MERGE)
                self.assertEqual(done.status, 200, done)
                self.assertEqual(done.json["spec"], before["spec"])
        names = [n for n in names_of("root") if n.startswith("forged")]
        for name in names:
            at_shard("root", f"/clusters/{name}").must("DELETE", CLUSTER, expect=(200, 202))
        kit.eventually(lambda: not [n for n in names_of("root") if n.startswith("forged")], 30)


class FixedPoint(unittest.TestCase):
    """SE-T050: whatever objects say, controllers come to an end with them."""

    def test_hostile_objects_of_every_kind(self):
        place = installation.make_workspace("hostile", selector={"name": "root"})
        direct = at_shard("root", f"/clusters/{place['spec']['cluster']}")
        v1, v2 = "apis.kcp.io/v1alpha1", "apis.kcp.io/v1alpha2"
        hostile = []
        for n in range(8):
            hostile += [
                (WORKSPACES, workspace(f"ws{n}", cluster=["root", "none", "a", ALICE_HOME][n % 4])),
                (WORKSPACES, workspace(f"wsa{n}", {PLACED: "root", PLACED_SHARD: "none"}, type={"name": "nothing", "path": "root"})),
                (TYPES, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": f"loop{n}"},
                         "spec": {"extend": {"with": [{"name": f"loop{(n + 1) % 8}", "path": "root:hostile"}]},
                                  "defaultAPIBindings": [{"path": "root:none", "export": "none"}]}}),
                (EXPORTS, {"apiVersion": v2, "kind": "APIExport", "metadata": {"name": f"bad{n}"}, "spec": {
                    "identity": {"secretRef": {"namespace": "none", "name": "none"}},
                    "resources": [{"group": "x.io", "name": "things", "schema": f"v{n}.things.x.io", "storage": {"crd": {}}}]}}),
                (BINDINGS, {"apiVersion": v2, "kind": "APIBinding", "metadata": {"name": f"b{n}"}, "spec": {
                    "reference": {"export": {"path": "root:hostile", "name": f"bad{n}"}}}}),
                ("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
                    "apiVersion": v1, "kind": "APIResourceSchema", "metadata": {"name": f"v{n}.things.x.io"}, "spec": {
                        "group": "x.io", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing",
                                                                          "listKind": "ThingList"},
                        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"type": "object", "properties": {
                            "a": {"type": "no-type"}}}}]}}),
                ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
                    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"t{n}s.y.io"},
                    "spec": {"group": "y.io", "scope": "Namespaced", "names": {"plural": f"t{n}s", "singular": "t", "kind": "T",
                                                                               "listKind": "TList"},
                             "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                                 "type": "object"}}}]}}),
                (f"{RBAC}/clusterroles", {"metadata": {"name": f"agg{n}", "labels": {f"a{n}": "x"}}, "rules": [], "aggregationRule": {
                    "clusterRoleSelectors": [{"matchLabels": {f"a{(n + 1) % 8}": "x"}}]}}),
                ("/api/v1/namespaces", {"metadata": {"name": f"ns{n}"}, "spec": {"finalizers": ["kubernetes", "none.example/x"]}}),
                ("/api/v1/namespaces/default/resourcequotas", {"metadata": {"name": f"q{n}"}, "spec": {"hard": {
                    "count/things.x.io": "0", "configmaps": "100"}}}),
                (MAPS, {"metadata": {"name": f"own{n}", "finalizers": ["none.example/x"], "ownerReferences": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "name": f"own{(n + 1) % 8}", "uid": "nobody", "controller": True,
                     "blockOwnerDeletion": True}]}}),
            ]
        stored = sum(direct.request("POST", path, body).status == 201 for path, body in hostile)
        self.assertGreater(stored, 40)
        watch = {path for path, _ in hostile}

        def still():
            """No resource version of this cluster moves between two looks that a quiet watch lies between."""
            for path in sorted(watch):
                version = direct.must("GET", path)["metadata"]["resourceVersion"]
                quiet(direct, f"{path}?watch=1&resourceVersion={version}", most=200)
            before = {path: sorted((i["metadata"]["name"], i["metadata"]["resourceVersion"]) for i in direct.must("GET", path)["items"])
                      for path in watch}
            quiet(direct, f"{WORKSPACES}?watch=1&resourceVersion={direct.must('GET', WORKSPACES)['metadata']['resourceVersion']}")
            after = {path: sorted((i["metadata"]["name"], i["metadata"]["resourceVersion"]) for i in direct.must("GET", path)["items"])
                     for path in watch}
            assert before == after, {p: set(map(tuple, after[p])) ^ set(map(tuple, before[p])) for p in watch if after[p] != before[p]}
            return True

        kit.eventually(still, 120, "nothing is written any more")
