"""What every shard offers to all others is known on all of them (T-13): exports, schemas, types, rights."""
import json
import signal
import time
import unittest

import kit

EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REPORT = "/clusters/*/debug/replication"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
DEADLINE = 60  # for what takes milliseconds on a quiet machine


def export(name):
    return {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name}, "spec": {}}


class Replication(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        shards = cls.installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]
        cls.shards = {s["metadata"]["name"]: s for s in shards}
        cls.home = {}  # workspace to shard
        for workspace, shard in (("provider", "shard-1"), ("consumer", "shard-2")):
            cls.installation.make_workspace(workspace, selector={"name": shard})
            cls.home[workspace] = shard
        cls.provider = cls.installation.client("/clusters/root:provider")
        cls.consumer = cls.installation.client("/clusters/root:consumer")

    def setUp(self):
        self.before = self.settled("shard-2")

    def tearDown(self):
        kit.eventually(lambda: self.settled("shard-2") == self.before, DEADLINE, "everything is as before")

    def at_shard(self, name):
        pki = self.installation.pki
        return kit.Client(self.shards[name]["spec"]["baseURL"], pki / "serving-ca.crt", pki / "shard-admin.crt",
                          pki / "shard-admin.key")

    def report(self, name):
        return self.at_shard(name).must("GET", REPORT)

    def settled(self, name):
        """The catalog of a shard once it has all that the others say they have."""
        def check():
            offered = {kind: sum(len(self.at_shard(other).must("GET", "/clusters/*" + path)["items"])
                                 for other in self.shards if other != name)
                       for kind, path in (("replicatedExports", EXPORTS), ("replicatedTypes", TYPES), ("replicatedSchemas", SCHEMAS))}
            report = self.report(name)
            assert len(report["shards"]) == len(self.shards) - 1 and all(s["synced"] for s in report["shards"].values()), report
            assert report["rows"]["waiting"] == 0, report
            found = {kind: report["catalog"][kind] for kind in offered if kind in report["catalog"]}
            assert found == {kind: offered[kind] for kind in found} and len(found) > 1, (found, offered)
            return report["catalog"]
        return kit.eventually(check, DEADLINE, f"{name} has read all others")

    def exports_become(self, name, count):
        def check():
            found = self.report(name)["catalog"]["replicatedExports"]
            assert found == count, found
            return True
        return kit.eventually(check, DEADLINE, f"{count} exports of others on {name}")

    def restarted(self, name, old):
        kit.eventually(lambda: self.installation.pid(name) != old, DEADLINE, f"{name} is started again")

    def lags(self, numbers):
        """Seconds until an export of the provider is known on shard-2, for each number."""
        before = self.settled("shard-2")["replicatedExports"]
        watcher = self.at_shard("shard-2").connect()
        lags = []
        for count, number in enumerate(numbers):
            self.provider.must("POST", EXPORTS, export(f"lag-{number}"))
            start = time.monotonic()
            while True:
                watcher.request("GET", REPORT)
                if json.loads(watcher.getresponse().read())["catalog"]["replicatedExports"] == before + count + 1:
                    break
                self.assertLess(time.monotonic() - start, DEADLINE)
            lags.append(time.monotonic() - start)
        watcher.close()
        print("lag [ms]:", " ".join(f"{lag * 1000:.0f}" for lag in lags))
        for number in numbers:
            self.provider.must("DELETE", f"{EXPORTS}/lag-{number}")
        return lags

    def test_an_export_is_known_elsewhere_within_100_ms(self):
        def round_of_ten():
            lags = self.lags(range(10))
            return sorted(lags)[len(lags) // 2] < 0.1

        kit.eventually(round_of_ten, DEADLINE, "half of them within 100 ms")

    def test_only_administrators_see_the_report(self):
        cert, key = kit.make_user(self.installation.dir, self.installation.pki, "nobody", [])
        stranger = kit.Client(self.shards["shard-2"]["spec"]["baseURL"], self.installation.pki / "serving-ca.crt", cert, key)
        self.assertEqual(stranger.get(REPORT).status, 403)
        self.assertEqual(stranger.get("/clusters/*/metrics").status, 403)
        metrics = self.at_shard("shard-2").get("/clusters/*/metrics")
        self.assertTrue(metrics.headers["Content-Type"].startswith("text/plain"), metrics)
        self.assertIn(b'\nkintsugi_replication_synced{shard="shard-1"} 1\n', metrics.body)
        self.assertRegex(metrics.body.decode(), r'(?m)^kintsugi_build_info\{version="[^"]+",compiler="[^"]+",process="shard"\} 1$')
        for use, name in (("serving", "shard-shard-2"), ("client", "shard-admin"), ("ca", "client-ca")):
            self.assertRegex(metrics.body.decode(), r'(?m)^kintsugi_certificate_expiration_timestamp_seconds\{'
                             f'use="{use}",name="{name}"\\}} [0-9]{{10}}$')
        # Copies are nobody's objects.
        self.assertEqual(self.at_shard("shard-2").get("/clusters/*/apis/replica/v1/apiexports").status, 404)

    def test_a_type_of_another_shard_is_usable_by_whom_it_allows(self):
        self.provider.must("POST", TYPES, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType",
                                           "metadata": {"name": "team"},
                                           "spec": {"additionalWorkspaceLabels": {"made-as": "team"}}})
        carol = self.installation.user_client("carol", path="/clusters/root:consumer")
        for name, role in (("carol-in", "system:kcp:workspace:access"), ("carol-admin", "cluster-admin")):
            self.consumer.must("POST", f"{RBAC}/clusterrolebindings", {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol"}]})
        workspace = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "w"},
                     "spec": {"type": {"name": "team", "path": "root:provider"}}}

        def refused(cause):
            def check():
                answer = carol.request("POST", WORKSPACES, workspace)
                assert answer.status == 403 and cause in answer.json["message"], answer
                return True
            kit.eventually(check, what=cause)

        refused("missing verb='use' permission")
        self.provider.must("POST", f"{RBAC}/clusterroles", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "use-team"},
            "rules": [{"apiGroups": ["tenancy.kcp.io"], "resources": ["workspacetypes"], "resourceNames": ["team"],
                       "verbs": ["use"]}]})
        self.provider.must("POST", f"{RBAC}/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "use-team"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "use-team"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "carol"}]})
        made = carol.must("POST", WORKSPACES, workspace)  # at once
        self.assertEqual(made["spec"]["type"], {"name": "team", "path": "root:provider"})
        self.assertEqual(made["metadata"]["labels"]["made-as"], "team")
        # It gives no way into the provider's workspace.
        self.assertEqual(self.installation.user_client("carol", path="/clusters/root:provider").get("/api/v1/namespaces").status, 403)
        self.provider.must("DELETE", f"{RBAC}/clusterrolebindings/use-team")
        workspace["metadata"]["name"] = "w2"
        refused("missing verb='use' permission")
        self.provider.must("DELETE", TYPES + "/team")

        def gone():  # those who may use any type hear it; others cannot tell it from one that they may not use (KK-332)
            answer = self.consumer.request("POST", WORKSPACES, workspace)
            return answer.status == 403 and "not found" in answer.json["message"]
        kit.eventually(gone, what="the type is gone")
        refused("missing verb='use' permission")

    def test_what_was_known_outlives_an_outage_and_a_restart(self):
        before = self.before["replicatedExports"]
        for name in ("kept", "gone"):
            self.provider.must("POST", EXPORTS, export(name))
        self.exports_become("shard-2", before + 2)
        self.installation.kill("shard-1", signal.SIGSTOP)
        try:
            old = self.installation.pid("shard-2")
            self.installation.kill("shard-2", signal.SIGKILL)
            self.restarted("shard-2", old)
            self.exports_become("shard-2", before + 2)
            self.assertFalse(kit.eventually(lambda: self.report("shard-2")["shards"].get("shard-1"))["synced"])
        finally:
            self.installation.kill("shard-1", signal.SIGCONT)
        self.settled("shard-2")
        # What goes while a shard is away is noticed when it is back.
        self.installation.kill("shard-2", signal.SIGSTOP)
        try:
            kit.eventually(lambda: self.provider.request("DELETE", EXPORTS + "/gone").status in (200, 404), what="the export is gone")
            old = self.installation.pid("shard-2")
        finally:
            self.installation.kill("shard-2", signal.SIGKILL)
        self.restarted("shard-2", old)
        self.exports_become("shard-2", before + 1)
        kit.eventually(lambda: self.provider.request("DELETE", EXPORTS + "/kept").status in (200, 404), what="the export is gone")

    def test_without_root_the_others_are_still_followed(self):
        before = self.before
        at_provider = self.at_shard("shard-1")
        cluster = self.installation.client().must("GET", f"{WORKSPACES}/provider")["spec"]["cluster"]
        self.installation.kill("root", signal.SIGSTOP)
        try:
            old = self.installation.pid("shard-2")
            self.installation.kill("shard-2", signal.SIGKILL)
            self.restarted("shard-2", old)
            kit.eventually(lambda: self.report("shard-2")["shards"]["shard-1"]["synced"], DEADLINE, "shard-1 is followed")
            at_provider.must("POST", f"/clusters/{cluster}{EXPORTS}", export("meanwhile"))
            self.exports_become("shard-2", before["replicatedExports"] + 1)
            self.assertEqual(self.report("shard-2")["catalog"]["replicatedTypes"], before["replicatedTypes"])
            self.assertFalse(self.report("shard-2")["shards"]["root"]["synced"])
        finally:
            self.installation.kill("root", signal.SIGCONT)
        at_provider.must("DELETE", f"/clusters/{cluster}{EXPORTS}/meanwhile")

    def make_api(self, name):
        """Schema and export of <name>.repl.example in the provider's workspace."""
        self.provider.must("POST", SCHEMAS, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.{name}.repl.example"},
            "spec": {"group": "repl.example", "scope": "Cluster",
                     "names": {"plural": name, "singular": name[:-1], "kind": name[:-1].title(), "listKind": name.title() + "List"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {
                         "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}]}})
        body = export(name)
        body["spec"] = {"resources": [{"group": "repl.example", "name": name, "schema": f"v1.{name}.repl.example"}]}
        self.provider.must("POST", EXPORTS, body)

    def remove_api(self, name):
        self.provider.must("DELETE", f"{EXPORTS}/{name}")
        self.provider.must("DELETE", f"{SCHEMAS}/v1.{name}.repl.example")

    def binding(self, name):
        return {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": "root:provider", "name": name}}}}

    def bound(self, name):
        def check():
            found = self.consumer.must("GET", f"{BINDINGS}/{name}")
            assert found.get("status", {}).get("phase") == "Bound", found.get("status")
            return found
        return kit.eventually(check, DEADLINE, f"{name} is bound")

    def unbind(self, name):
        self.consumer.must("DELETE", f"{BINDINGS}/{name}")
        kit.eventually(lambda: self.consumer.get(f"{BINDINGS}/{name}").status == 404, what=f"{name} is unbound")

    def test_an_api_of_another_shard_can_be_bound_at_once(self):
        for number in range(5):  # without a pause between the export and the binding
            name = f"gadgets{chr(97 + number)}s"
            self.make_api(name)
            self.consumer.must("POST", BINDINGS, self.binding(name))
            self.bound(name)
            kit.eventually(lambda n=name: self.consumer.get(f"/apis/repl.example/v1/{n}").status == 200)
        for number in range(5):
            name = f"gadgets{chr(97 + number)}s"
            self.unbind(name)
            self.remove_api(name)

    def test_the_right_to_bind_is_the_providers_to_give(self):
        self.make_api("bolts")
        erin = self.installation.user_client("erin", path="/clusters/root:consumer")
        grant = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "erin"},
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                 "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "erin"}]}
        self.consumer.must("POST", f"{RBAC}/clusterrolebindings", grant)
        kit.eventually(lambda: erin.get(BINDINGS).status == 200)
        answer = erin.request("POST", BINDINGS, self.binding("bolts"))
        self.assertEqual(answer.status, 403)
        self.assertIn("no permission to bind to export root:provider:bolts", answer.json["message"])
        self.provider.must("POST", f"{RBAC}/clusterroles", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "bind-bolts"},
            "rules": [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "resourceNames": ["bolts"], "verbs": ["bind"]}]})
        grant["metadata"]["name"] = grant["roleRef"]["name"] = "bind-bolts"
        self.provider.must("POST", f"{RBAC}/clusterrolebindings", grant)
        self.assertEqual(erin.request("POST", BINDINGS, self.binding("bolts")).status, 201)  # at once
        self.bound("bolts")
        self.unbind("bolts")
        for kind in ("clusterrolebindings", "clusterroles"):
            self.provider.must("DELETE", f"{RBAC}/{kind}/bind-bolts")
        self.remove_api("bolts")

    def test_bound_apis_live_on_while_their_shard_is_away(self):
        for name in ("rivets", "screws"):
            self.make_api(name)
        for name in ("rivets", "screws"):  # so the shard knows all of both
            self.consumer.must("POST", BINDINGS, self.binding(name))
            self.bound(name)
        self.unbind("screws")
        rivets = "/apis/repl.example/v1/rivets"
        rivet = {"apiVersion": "repl.example/v1", "kind": "Rivet", "metadata": {"name": "one"}, "spec": {"size": 3}}
        kit.eventually(lambda: self.consumer.request("POST", rivets, rivet).status in (201, 409))
        self.installation.kill("shard-1", signal.SIGSTOP)
        try:
            old = self.installation.pid("shard-2")
            self.installation.kill("shard-2", signal.SIGKILL)
            self.restarted("shard-2", old)
            kit.eventually(lambda: self.consumer.get(rivets + "/one").json["spec"]["size"] == 3, what="objects are served")
            # Each loop of the proxy finds the shard again by itself.
            rivet["metadata"]["name"] = "two"
            kit.eventually(lambda: self.consumer.request("POST", rivets, rivet).status in (201, 409), what="objects are made")
            # What was known can even be bound now.
            kit.eventually(lambda: self.consumer.request("POST", BINDINGS, self.binding("screws")).status in (201, 409),
                           what="screws can be bound")
            self.bound("screws")
        finally:
            self.installation.kill("shard-1", signal.SIGCONT)
        for name in ("rivets", "screws"):
            self.unbind(name)
            self.remove_api(name)

    def test_schemas_and_exports_of_a_shard_that_is_taken_out_go(self):
        self.provider.must("POST", EXPORTS, export("until-then"))
        root = self.installation.client()
        self.settled("root")
        rows = self.report("root")["rows"]["removed"]
        root.must("DELETE", "/apis/core.kcp.io/v1alpha1/shards/shard-1")

        def forgotten():
            report = self.report("root")
            assert "shard-1" not in report["shards"] and report["rows"]["removed"] > rows and report["rows"]["waiting"] == 0, report
            assert report["catalog"]["replicatedExports"] == 0, report
            return True
        kit.eventually(forgotten, DEADLINE, "copies of shard-1 are gone")
        # It registers again when it starts; everything is copied again.
        self.installation.kill("shard-1", signal.SIGKILL)
        kit.eventually(lambda: self.settled("root")["replicatedExports"] == 1, DEADLINE, "shard-1 is copied again")
        kit.eventually(lambda: self.provider.request("DELETE", EXPORTS + "/until-then").status in (200, 404), DEADLINE,
                       "the export is gone")


if __name__ == "__main__":
    unittest.main()
