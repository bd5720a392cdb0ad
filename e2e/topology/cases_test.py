"""Single cases of Partitions and APIExportEndpointSlices (docs/spec/topology.md), named by number: admission, rights, selection."""
import json
import re
import signal
import subprocess
import unittest

import kit

PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
MERGE = {"Content-Type": "application/merge-patch+json"}
REQUIRED = "spec.export.name: Required value"


def condition(found, kind):
    return next((c for c in found.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def endpoint_slice(name, spec):
    metadata = {"generateName": name} if name.endswith("-") else {"name": name}
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": metadata, "spec": spec}


def partition(name, spec):
    return {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": name}, "spec": spec}


def export(name):
    return {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name}, "spec": {}}


def allow(client, name, user, rules):
    """A ClusterRole and its binding to a user."""
    client.must("POST", RBAC + "/clusterroles", {"metadata": {"name": name}, "rules": [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs} for group, resource, verbs in rules]})
    grant(client, name, name, user)


def grant(client, name, role, user):
    client.must("POST", RBAC + "/clusterrolebindings", {
        "metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]})


class Selection(unittest.TestCase):
    """Which shards a slice sees."""

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.root = cls.installation.client()
        cls.root.must("POST", EXPORTS, export("widgets"))
        cls.names = sorted(s["metadata"]["name"] for s in cls.root.must("GET", SHARDS)["items"])

    def make(self, path, body):
        answer = self.root.request("POST", path, body)
        self.assertEqual(answer.status, 201, answer)
        self.addCleanup(lambda: self.root.request("DELETE", f"{path}/{body['metadata']['name']}"))
        return answer

    def label(self, shard, **labels):
        def write(values):
            return self.root.must("PATCH", f"{SHARDS}/{shard}", json.dumps({"metadata": {"labels": values}}), headers=MERGE)
        write(labels)
        self.addCleanup(write, dict.fromkeys(labels))

    def select(self, name, spec):
        """A Partition and a slice that names it; returns the answer to the Partition."""
        answer = self.make(PARTITIONS, partition(name, spec))
        self.make(SLICES, endpoint_slice(name, {"export": {"path": "root", "name": "widgets"}, "partition": name}))
        return answer

    def read(self, name):
        return self.root.must("GET", f"{SLICES}/{name}")

    def shards_of(self, name):
        found = self.read(name)
        assert condition(found, "EndpointURLsReady"), found
        return sorted(re.search("/shards/([^/]+)/services/apiexport/root/widgets$", e["url"])[1]
                      for e in found["status"].get("endpoints", []))

    def selects(self, name, shards, selector):
        def check():
            found = self.shards_of(name)
            assert found == sorted(shards), found
            return True
        kit.eventually(check)
        found = self.read(name)
        self.assertEqual(found["status"].get("shardSelector", ""), selector)
        self.assertEqual((condition(found, "APIExportValid")["status"], condition(found, "PartitionValid")["status"]),
                         ("True", "True"))

    def test_TP_026_an_empty_and_an_absent_selector_select_all(self):
        empty = self.select("empty", {"selector": {}})
        self.assertIsNone(empty.headers["Warning"])
        self.assertEqual(empty.json["spec"], {"selector": {}})
        absent = self.select("absent", {})
        self.assertEqual(absent.headers["Warning"], '299 - "spec.selector is not set: the Partition selects all shards"')
        self.assertNotIn("selector", absent.json["spec"])
        for name in ("empty", "absent"):
            self.selects(name, self.names, "")

    def test_TP_027_every_operator_on_a_present_and_an_absent_key(self):
        with_key, other, *rest = self.names
        self.label(with_key, **{"tp027": "gold"})
        self.label(other, **{"tp027": "silver"})
        for name, expression, expected, text in (
                ("in", {"operator": "In", "values": ["gold"]}, [with_key], "tp027 in (gold)"),
                ("notin", {"operator": "NotIn", "values": ["gold"]}, [other, *rest], "tp027 notin (gold)"),
                ("exists", {"operator": "Exists"}, [with_key, other], "tp027"),
                ("doesnotexist", {"operator": "DoesNotExist"}, rest, "!tp027")):
            with self.subTest(operator=expression["operator"]):
                self.select("op-" + name, {"selector": {"matchExpressions": [{"key": "tp027", **expression}]}})
                self.selects("op-" + name, expected, text)

    def test_TP_033_a_comma_is_no_selector(self):
        for path in (PARTITIONS, SLICES, SHARDS):
            answer = self.root.get(path + "?labelSelector=%2C")
            self.assertEqual((answer.status, answer.json["reason"]), (400, "BadRequest"), answer)
            self.assertIn("found ',', expected: !, identifier, or 'end of string'", answer.json["message"])
        self.assertEqual(self.root.get(PARTITIONS).status, 200)

    def test_TP_038_right_urls_are_not_written_again(self):
        one, two, *_ = self.names
        self.label(one, tp038="in")
        self.select("still", {"selector": {"matchLabels": {"tp038": "in"}}})
        self.selects("still", [one], "tp038=in")
        self.select("witness", {"selector": {"matchLabels": {"tp038-witness": "in"}}})
        self.selects("witness", [], "tp038-witness=in")
        before = self.read("still")
        # Every slice is looked at again; what the witness shows tells that the labels have been taken in.
        for _ in range(3):
            self.label(one, **{"tp038-witness": "in"})
            self.selects("witness", [one], "tp038-witness=in")
            self.label(one, **{"tp038-witness": None})
            self.selects("witness", [], "tp038-witness=in")
        self.label(two, tp038="in")
        self.selects("still", [one, two], "tp038=in")
        events = self.root.watch(f"{SLICES}?watch=true&resourceVersion={before['metadata']['resourceVersion']}"
                                 "&fieldSelector=metadata.name%3Dstill")
        first = next(events)["object"]
        self.assertEqual(len(first["status"]["endpoints"]), 2, "the first write since is that of the second shard")


class Admission(unittest.TestCase):
    """Who may make which slice: `bind` on the export, in the cluster of the export."""

    FORBIDDEN = ('apiexportendpointslices.apis.kcp.io "{}" is forbidden: unable to create APIExportEndpointSlice: '
                 "no permission to bind to export {}")

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.root = cls.installation.client()
        regions = kit.REGIONS[:2]
        for path, region in (("root:org", 0), ("root:org:here", 0), ("root:org:sibling", 1), ("root:child", 1)):
            parent, name = path.rsplit(":", 1)
            cls.installation.make_workspace(name, parent, {"region": regions[region]})
        # root:org:here is where slices are made; every other cluster has an export.
        for path in ("root", "root:org", "root:org:here", "root:org:sibling", "root:child"):
            client = cls.at(path)
            client.must("POST", EXPORTS, export("some-export"))
            allow(client, "binds", "binder", [("apis.kcp.io", "apiexports", ["bind"])])
        cls.here = cls.at("root:org:here")
        for user in ("binder", "nobody"):
            allow(cls.here, "makes-" + user, user, [("apis.kcp.io", "apiexportendpointslices", ["*"])])
            for path in ("root", "root:org", "root:org:here"):
                grant(cls.at(path), "enters-" + user, "system:kcp:workspace:access", user)
        cls.binder, cls.nobody = (cls.installation.user_client(user, path="/clusters/root:org:here")
                                  for user in ("binder", "nobody"))
        for client in (cls.binder, cls.nobody):
            kit.eventually(lambda c=client: c.get(SLICES).status == 200, what="the user may list slices")

    @classmethod
    def at(cls, path):
        return cls.installation.client("/clusters/" + path)

    def create(self, client, name, spec):
        answer = client.request("POST", SLICES, endpoint_slice(name, spec))
        if answer.status == 201:
            self.addCleanup(lambda: self.here.request("DELETE", f"{SLICES}/{answer.json['metadata']['name']}"))
        return answer

    def test_TP_040_a_slice_names_its_export(self):
        for spec, status in (({"export": {}}, 422), ({"export": {"path": "root:org"}}, 422), ({"export": {"name": ""}}, 403),
                             ({"export": {"path": "root:org", "name": ""}}, 403)):
            with self.subTest(spec=spec):
                refused = self.create(self.here, "no-export", spec)
                self.assertEqual(refused.status, status, refused)
                self.assertIn(REQUIRED, refused.json["message"])
        for spec in ({}, {"partition": "x"}):
            with self.subTest(spec=spec):
                refused = self.create(self.here, "no-export", spec)
                self.assertEqual(refused.status, 422, refused)
                self.assertIn("spec.export", refused.json["message"])
        self.assertEqual(self.here.get(SLICES + "/no-export").status, 404)

    def test_TP_041_whoever_may_bind_may_name_any_export(self):
        for number, path in enumerate(("root:org:sibling", "root", "root:org", "root:child", "root:org:here", None)):
            with self.subTest(path=path):
                spec = {"export": {"name": "some-export", **({"path": path} if path else {})}}
                made = kit.eventually(lambda n=number, s=spec: (a := self.create(self.binder, f"may-{n}", s)).status == 201 and a)
                self.assertEqual(made.json["spec"], spec)
                kit.eventually(lambda n=number: condition(self.here.must("GET", f"{SLICES}/may-{n}"), "APIExportValid")
                               .get("status") == "True")

    def test_only_the_proxy_asks_without_workspace_access(self):
        """The header of bind reviews counts when system:masters sends it; nobody gets that group through the proxy."""
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
            "user": "binder", "groups": ["system:authenticated"], "resourceAttributes": {
                "group": "apis.kcp.io", "resource": "apiexports", "name": "some-export", "verb": "bind"}}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        deep = {"X-Kcp-Internal-Deep-SubjectAccessReview": "true"}
        sibling = self.at("root:org:sibling")
        cluster = sibling.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        shard = next(s for s in self.root.must("GET", SHARDS)["items"] if s["metadata"]["labels"]["region"] == kit.REGIONS[1])
        pki = self.installation.pki
        direct = kit.Client(f"{shard['spec']['baseURL']}/clusters/{cluster}", pki / "serving-ca.crt", pki / "shard-admin.crt",
                            pki / "shard-admin.key")
        for client, headers, allowed in ((direct, {}, False), (direct, deep, True), (sibling, deep, False)):
            answer = client.must("POST", path, review, headers=headers)
            self.assertIs(answer["status"]["allowed"], allowed, headers)

    def test_TP_042_every_refusal_has_one_text(self):
        for client, path, name in (
                (self.nobody, "root:org:sibling", "some-export"),  # no opinion
                (self.nobody, "root", "some-export"),
                (self.nobody, None, "some-export"),                # own cluster, the export is there
                (self.binder, "root:org:sibling", "unknown"),      # unknown export
                (self.here, "root:org:sibling", "unknown"),
                (self.here, "root:org:nowhere", "some-export")):   # unknown cluster
            with self.subTest(user=client, path=path, name=name):
                refused = self.create(client, "refused", {"export": {"name": name, **({"path": path} if path else {})}})
                self.assertEqual((refused.status, refused.json["reason"]), (403, "Forbidden"), refused)
                self.assertEqual(refused.json["message"], self.FORBIDDEN.format("refused", f"{path}:{name}" if path else name))

    def test_TP_043_nobody_changes_the_export(self):
        self.assertEqual(self.create(self.here, "fixed", {"export": {"path": "root:org", "name": "some-export"}}).status, 201)
        # Its status is written once, then only these requests change the slice.
        kit.eventually(lambda: condition(self.here.must("GET", SLICES + "/fixed"), "EndpointURLsReady"))
        for client, wanted in ((self.here, {"path": "root:org:sibling", "name": "some-export"}),    # allowed
                               (self.nobody, {"path": "root:org:sibling", "name": "some-export"}),  # no opinion
                               (self.here, {"path": "root:org", "name": "unknown"}),
                               (self.here, {"path": "root:org:nowhere", "name": "some-export"})):
            with self.subTest(wanted=wanted):
                patched = client.request("PATCH", SLICES + "/fixed", json.dumps({"spec": {"export": wanted}}), headers=MERGE)
                now = self.here.must("GET", SLICES + "/fixed")
                self.assertEqual(now["spec"]["export"], {"path": "root:org", "name": "some-export"})
                now["spec"]["export"] = wanted
                for refused in (patched, client.request("PUT", SLICES + "/fixed", now)):
                    self.assertEqual((refused.status, refused.json["reason"]), (422, "Invalid"), refused)
                    self.assertIn("APIExport reference must not be changed", refused.json["message"])
        # Other fields need no right to bind.
        self.nobody.must("PATCH", SLICES + "/fixed", json.dumps({"spec": {"partition": "p"}}), headers=MERGE)

    def test_TP_045_once_the_export_is_there_the_slice_is_made(self):
        spec = {"export": {"path": "root:org:here", "name": "late"}}
        refused = self.create(self.here, "early-", spec)
        self.assertEqual(refused.status, 403, refused)
        self.assertEqual(refused.json["message"], self.FORBIDDEN.format("early-", "root:org:here:late"))
        waiting = self.create(self.here, "waiting", {"export": {"name": "late"}})
        self.assertEqual(waiting.status, 201, waiting)

        def valid(name):
            return condition(self.here.must("GET", f"{SLICES}/{name}"), "APIExportValid")

        kit.eventually(lambda: valid("waiting").get("reason") == "APIExportNotFound")
        self.assertFalse([s for s in self.here.must("GET", SLICES)["items"] if s["metadata"]["name"].startswith("early-")])
        self.here.must("POST", EXPORTS, export("late"))
        self.addCleanup(lambda: self.here.request("DELETE", EXPORTS + "/late"))
        made = self.create(self.here, "early-", spec)
        self.assertEqual(made.status, 201, made)
        for name in (made.json["metadata"]["name"], "waiting"):
            kit.eventually(lambda n=name: valid(n).get("status") == "True")

    def test_TP_122_what_the_proxy_serves_is_judged_at_the_shard(self):
        here, sibling = self.here, self.at("root:org:sibling")
        path = PARTITIONS
        anonymous = self.installation.client("/clusters/root:org:here", cert=None)
        # A bearer token that only the shard knows.
        kit.eventually(lambda: here.get(ACCOUNTS + "/default").status == 200)
        here.must("POST", ACCOUNTS, {"metadata": {"name": "robot"}})
        robot = "system:serviceaccount:default:robot"
        allow(here, "robot-reads", robot, [("topology.kcp.io", "partitions", ["get", "list", "watch"])])
        allow(sibling, "robot-reads", robot, [("topology.kcp.io", "partitions", ["get", "list", "watch"])])
        token = here.must("POST", ACCOUNTS + "/robot/token", {"spec": {}})["status"]["token"]
        bearer = {"Authorization": "Bearer " + token}
        kit.eventually(lambda: anonymous.get(path, headers=bearer).status == 200)
        refused = anonymous.request("POST", path, partition("p", {}), headers=bearer)
        self.assertEqual(refused.status, 403)
        self.assertEqual(refused.json["message"], f'partitions.topology.kcp.io is forbidden: User "{robot}" cannot create resource '
                         '"partitions" in API group "topology.kcp.io" at the cluster scope: access denied')
        self.assertEqual(anonymous.get(SLICES, headers=bearer).status, 403, "a right for one kind is none for another")
        # Of another cluster, and with a scope of another cluster.
        foreign = self.installation.client("/clusters/root:org:sibling", cert=None)
        self.assertIn(foreign.get(path, headers=bearer).status, (401, 403))
        allow(here, "carol-reads", "carol", [("topology.kcp.io", "partitions", ["list"])])
        grant(here, "carol-enters", "system:kcp:workspace:access", "carol")

        def carol(cluster=None, **more):
            scope = {"Impersonate-Extra-Authentication.kcp.io%2fscopes": "cluster:" + cluster} if cluster else {}
            return here.get(path, headers={"Impersonate-User": "carol", **scope, **more}).status

        own = here.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        kit.eventually(lambda: carol(own) == 200)
        self.assertEqual(carol(), 200)
        self.assertEqual(carol("0123456789abcdef"), 403)
        # Who may impersonate groups may not take a special one.
        allow(here, "poses", "binder", [("", "groups", ["impersonate"]), ("", "users", ["impersonate"])])
        pose = {"Impersonate-User": "carol", "Impersonate-Group": "devs"}
        kit.eventually(lambda: self.binder.get(path, headers=pose).status == 200)
        for group in ("system:masters", "system:kcp:admin", "system:kcp:external-logical-cluster-admin"):
            self.assertEqual(self.binder.get(path, headers={**pose, "Impersonate-Group": group}).status, 403, group)
        # The right goes: within 10 seconds for the user who had it.
        here.must("DELETE", RBAC + "/clusterrolebindings/robot-reads")
        kit.eventually(lambda: anonymous.get(path, headers=bearer).status == 403, 11)
        # Without any identity: the same for what the proxy serves and what a shard serves, here and where nothing is.
        for method, body in (("GET", None), ("POST", partition("p", {}))):
            refused = anonymous.request(method, path, body)
            self.assertEqual((refused.status, refused.json["reason"]), (401, "Unauthorized"), refused)
        self.assertEqual(anonymous.get("/api/v1/namespaces").status, 401)
        self.assertEqual(anonymous.get(path, headers={"Authorization": "Bearer nonsense"}).status, 401)


class ShardsAway(unittest.TestCase):
    def test_TP_121_TP_122_while_a_shard_is_away_its_answers_are_open(self):
        with kit.Installation(shards=2) as installation:
            root = installation.client()

            def join():
                return subprocess.Popen([str(kit.BINARY), "shard", "--join", str(installation.state), "--name", "shard-3",
                                         "--labels", "region=sa-east-1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

            process = join()
            try:
                kit.eventually(lambda: root.get(SHARDS + "/shard-3").status == 200)
                installation.make_workspace("far", selector={"region": "sa-east-1"})
                far = installation.client("/clusters/root:far")
                far.must("POST", EXPORTS, export("w"))

                def create():
                    return root.request("POST", SLICES, endpoint_slice("far-", {"export": {"path": "root:far", "name": "w"}}))

                def later(answer):
                    self.assertEqual((answer.status, answer.json["reason"]), (503, "ServiceUnavailable"), answer)
                    self.assertGreater(int(answer.headers["Retry-After"]), 0)
                    return True

                self.assertEqual(create().status, 201)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 0)
                # Down: neither the export nor a right can be looked up.
                later(create())
                later(installation.user_client("stranger", path="/clusters/root:far").get(PARTITIONS))
                # Unsynced: a proxy that has never heard of what is there.
                old = installation.pid("proxy")
                installation.kill("proxy")
                kit.eventually(lambda: installation.pid("proxy") != old and root.get(SLICES).status == 200)
                later(create())
                process = join()
                kit.eventually(lambda: create().status == 201, 20)
            finally:
                process.kill()
                process.wait()


if __name__ == "__main__":
    unittest.main()
