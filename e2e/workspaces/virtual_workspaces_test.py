"""The apiexport virtual workspace of shards (KK-341, AM-510 to AM-518), provider and consumers
on different shards: rights, claims, isolation. Through the proxy unless said otherwise."""
import json
import threading
import unittest

import kit

APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
GEARS = "/apis/gear.test/v1/namespaces/default/gears"
ALL_GEARS = "/apis/gear.test/v1/gears"
MERGE = {"Content-Type": "application/merge-patch+json"}


def config_map(name, **labels):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


def gear(name):
    return {"apiVersion": "gear.test/v1", "kind": "Gear", "metadata": {"name": name}, "spec": {}}


def claim(*verbs, resource="configmaps", group="", **more):
    return {"group": group, "resource": resource, "verbs": list(verbs) or ["*"], **more}


def accepted(*verbs, **more):
    return claim(*verbs, **{"state": "Accepted", "selector": {"matchAll": True}, **more})


def schema(group, plural, kind):
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind,
                                                                      "listKind": kind + "List"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}}


class VirtualWorkspaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        shards = cls.installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]
        cls.shards = {s["metadata"]["name"]: s["spec"] for s in shards}
        for name, shard in (("prov", "shard-1"), ("one", "shard-2"), ("two", "shard-1"), ("stranger", "shard-2")):
            cls.installation.make_workspace(name, selector={"name": shard})
        cls.prov, cls.one, cls.two, cls.stranger = (cls.installation.client(f"/clusters/root:{name}")
                                                    for name in ("prov", "one", "two", "stranger"))
        cls.provider = cls.installation.user_client("provider", path="")
        cls.admin = cls.installation.client("")
        cls.cluster = {name: cls.lc(client) for name, client in
                       (("prov", cls.prov), ("one", cls.one), ("two", cls.two), ("stranger", cls.stranger))}
        cls.export(cls.prov, "gears", "gear.test", "gears", "Gear")
        cls.vw = f"/services/apiexport/{cls.cluster['prov']}/gears"
        for role, rule in (("content", {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["*"]}),
                           ("access", {"nonResourceURLs": ["/"], "verbs": ["access"]})):
            cls.grant(cls.prov, role, rule, "provider")
        for consumer in (cls.one, cls.two):
            cls.bind(consumer, "root:prov", "gears")
        kit.eventually(lambda: cls.provider.get(cls.vw + "/clusters/*" + ALL_GEARS).status == 200, what="content right")

    @staticmethod
    def lc(client):
        return client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]

    @staticmethod
    def export(client, name, group, plural, kind, **spec):
        client.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", schema(group, plural, kind))
        client.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name},
            "spec": {"resources": [{"group": group, "name": plural, "schema": f"v1.{plural}.{group}",
                                    "storage": {"crd": {}}}], **spec}})
        return kit.eventually(lambda: client.must("GET", f"{APIS}/apiexports/{name}")["status"]["identityHash"], what="identity")

    @staticmethod
    def bind(client, path, name, claims=()):
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": path, "name": name}}, "permissionClaims": list(claims)}}
        kit.eventually(lambda: client.request("POST", APIS + "/apibindings", body).status == 201, what="bound")
        kit.eventually(lambda: client.must("GET", f"{APIS}/apibindings/{name}")["status"]["phase"] == "Bound", what="Bound")

    @staticmethod
    def grant(client, name, rule, user):
        client.must("POST", RBAC + "/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
        client.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})

    def offer(self, *claims):
        self.prov.must("PATCH", APIS + "/apiexports/gears", json.dumps({"spec": {"permissionClaims": list(claims)}}), headers=MERGE)
        self.addCleanup(self.prov.must, "PATCH", APIS + "/apiexports/gears",
                        json.dumps({"spec": {"permissionClaims": []}}), headers=MERGE)

    def accept(self, client, *claims):
        body = json.dumps({"spec": {"permissionClaims": list(claims)}})
        kit.eventually(lambda: client.request("PATCH", APIS + "/apibindings/gears", body, headers=MERGE).status == 200)
        self.addCleanup(client.must, "PATCH", APIS + "/apibindings/gears",
                        json.dumps({"spec": {"permissionClaims": []}}), headers=MERGE)

    def at(self, consumer, path):
        return f"{self.vw}/clusters/{self.cluster.get(consumer, consumer)}{path}"

    def names(self, path):
        answer = self.provider.get(path)
        self.assertEqual(answer.status, 200, answer)
        return sorted(item["metadata"]["name"] for item in answer.json["items"])

    def becomes(self, path, names):
        kit.eventually(lambda: self.names(path) == names, what=f"{path} shows {names}")

    def make(self, client, path, body):
        client.must("POST", path, body)
        self.addCleanup(client.request, "DELETE", f"{path}/{body['metadata']['name']}")

    def test_both_consumers_on_their_shards_TP060(self):
        self.make(self.one, GEARS, gear("a"))
        self.make(self.two, GEARS, gear("b"))
        self.becomes(self.at("*", ALL_GEARS), ["a", "b"])
        self.assertEqual(self.names(self.at("one", ALL_GEARS)), ["a"])
        self.assertEqual(self.provider.request("DELETE", self.at("two", GEARS + "/b")).status, 200)
        self.becomes(self.at("*", ALL_GEARS), ["a"])

    def test_other_clusters_stay_shut_AM515(self):
        for cluster in ("stranger", "prov"):
            self.assertEqual(self.provider.get(self.at(cluster, ALL_GEARS)).status, 403)
            self.assertEqual(self.admin.get(self.at(cluster, ALL_GEARS)).status, 403)
            self.assertEqual(self.provider.request("POST", self.at(cluster, GEARS), gear("x")).status, 403)
        for path in (MAPS, "/api/v1/namespaces/default/secrets", RBAC + "/clusterroles", APIS + "/apiexports"):
            self.assertEqual(self.provider.get(self.at("one", path)).status, 403, path)
        stranger = self.installation.user_client("mallory", path="")
        for path in ("/api", "/apis", ALL_GEARS):
            self.assertEqual(stranger.get(self.at("*", path)).status, 403, path)

    def test_claim_comes_and_goes_TP062(self):
        self.make(self.one, MAPS, config_map("mine"))
        self.make(self.two, MAPS, config_map("foreign"))
        self.assertEqual(self.provider.get(self.at("*", "/api/v1/configmaps")).status, 404)
        self.offer(claim())
        kit.eventually(lambda: self.provider.get(self.at("*", "/api/v1/configmaps")).status == 200)
        self.assertEqual(self.names(self.at("*", "/api/v1/configmaps")), [])
        self.assertEqual(self.provider.request("POST", self.at("one", MAPS), config_map("x")).status, 403)
        self.accept(self.one, accepted())
        kit.eventually(lambda: "mine" in self.names(self.at("*", "/api/v1/configmaps")))
        self.assertNotIn("foreign", self.names(self.at("*", "/api/v1/configmaps")))
        self.assertEqual(self.provider.get(self.at("two", MAPS + "/foreign")).status, 403)
        self.one.must("PATCH", APIS + "/apibindings/gears",
                      json.dumps({"spec": {"permissionClaims": [accepted(state="Rejected")]}}), headers=MERGE)
        self.becomes(self.at("*", "/api/v1/configmaps"), [])
        self.assertEqual(self.provider.get(self.at("one", MAPS + "/mine")).status, 403)

    def test_claim_labels_cannot_be_forged_AM508(self):
        self.offer(claim())
        self.accept(self.one, accepted())
        self.make(self.one, MAPS, config_map("labelled"))

        def claimed():
            labels = self.one.must("GET", MAPS + "/labelled")["metadata"].get("labels", {})
            return labels if any(key.startswith("claimed.internal.apis.kcp.io/") for key in labels) else None

        labels = kit.eventually(claimed, what="the label of the claim")
        key = next(key for key in labels if key.startswith("claimed.internal.apis.kcp.io/"))
        forged = self.two.request("POST", MAPS, config_map("forged", **{key: labels[key]}))
        self.assertEqual(forged.status, 201)
        self.assertNotIn(key, forged.json["metadata"].get("labels", {}))
        self.one.must("PATCH", MAPS + "/labelled", json.dumps({"metadata": {"labels": {key: None}}}), headers=MERGE)
        self.assertEqual(self.one.must("GET", MAPS + "/labelled")["metadata"]["labels"][key], labels[key])

    def test_identity_cannot_be_forged_AM503(self):
        victim = self.prov.must("GET", APIS + "/apiexports/gears")["status"]["identityHash"]
        self.grant(self.stranger, "admin", {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, "thief")
        self.grant(self.stranger, "access", {"nonResourceURLs": ["/"], "verbs": ["access"]}, "thief")
        thief = self.installation.user_client("thief", path="/clusters/root:stranger")
        kit.eventually(lambda: thief.get(APIS + "/apiexports").status == 200)
        own = self.export(thief, "gears", "gear.test", "gears", "Gear")
        self.assertNotEqual(own, victim)
        forged = thief.request("PATCH", APIS + "/apiexports/gears/status", json.dumps({"status": {"identityHash": victim}}),
                               headers=MERGE)
        self.assertEqual(forged.status, 403)
        self.assertEqual(thief.must("GET", APIS + "/apiexports/gears")["status"]["identityHash"], own)
        self.make(self.one, GEARS, gear("precious"))
        vw = f"/services/apiexport/{self.cluster['stranger']}/gears/clusters/*" + ALL_GEARS
        user = self.installation.user_client("thief", path="")
        answer = kit.eventually(lambda: (lambda a: a if a.status == 200 else None)(user.get(vw)))
        self.assertEqual(answer.json["items"], [])

    def test_metadata_of_every_identity_is_read_together_AM479(self):
        """Only where nothing but metadata is asked for does a wildcard need no identity."""
        cogs, all_cogs = ("/apis/cog.test/v1" + part + "cogs" for part in ("/namespaces/default/", "/"))

        def cog(name):
            return {"apiVersion": "cog.test/v1", "kind": "Cog", "metadata": {"name": name}}

        for provider, path, consumer in ((self.prov, "root:prov", self.one), (self.stranger, "root:stranger", self.stranger)):
            self.export(provider, "cogs", "cog.test", "cogs", "Cog")
            self.bind(consumer, path, "cogs")
            kit.eventually(lambda c=consumer: c.get(cogs).status == 200)
        self.make(self.one, cogs, cog("of-one"))
        made = cog("of-stranger")
        made["metadata"]["annotations"] = {"mine": "1"}
        self.make(self.stranger, cogs, made)
        both = {("of-one", self.cluster["one"]), ("of-stranger", self.cluster["stranger"])}
        alone = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"

        def seen(objects):
            found = set()
            for item in objects:
                meta = item["metadata"]
                self.assertEqual((item["kind"], meta["annotations"]["kcp.io/original-api-version"]),
                                 ("PartialObjectMetadata", "cog.test/v1"))
                self.assertNotIn("spec", item)
                found.add((meta["name"], meta["annotations"]["kcp.io/cluster"]))
            return found & both

        every = self.installation.client("/clusters/*")
        listed = every.must("GET", all_cogs, headers={"Accept": alone.format("List")})
        self.assertEqual(listed["kind"], "PartialObjectMetadataList")
        self.assertEqual(seen(listed["items"]), both)
        paged, token = [], ""
        while True:
            page = every.must("GET", f"{all_cogs}?limit=1&continue={token}", headers={"Accept": alone.format("List")})
            paged += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                break
        self.assertEqual([i["metadata"]["uid"] for i in paged], [i["metadata"]["uid"] for i in listed["items"]])
        self.assertEqual(every.get(all_cogs).status, 404)
        self.assertEqual(every.get(all_cogs.replace("cogs", "cogs:*")).status, 404)
        self.assertEqual(every.get(all_cogs.replace("cogs", "cogs:" + "0" * 64)).status, 404)
        connection = every.connect(60)
        self.addCleanup(connection.close)
        connection.request("GET", f"/clusters/*{all_cogs}?watch=true", headers={"Accept": alone.format("")})
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.make(self.stranger, cogs, cog("late"))
        events = []
        for line in answer:  # all three come, in any order
            events.append(json.loads(line)["object"])
            if len({e["metadata"]["name"] for e in events} & {"of-one", "of-stranger", "late"}) == 3:
                break
        self.assertEqual(seen(events), both)
        binary = alone.format("List").replace("json", "vnd.kubernetes.protobuf", 1)
        native = [self.installation.client(f"/shards/{name}/clusters/*").get(all_cogs, headers={"Accept": binary})
                  for name in ("root", "shard-1", "shard-2")]
        self.assertTrue(any(a.status == 200 and b"PartialObjectMetadataList" in a.body for a in native), native)

    def test_reviews_are_answered_for_the_consumer_TP070(self):
        group = "authorization.k8s.io"
        self.offer(claim("create", resource="subjectaccessreviews", group=group),
                   claim("create", resource="localsubjectaccessreviews", group=group),
                   claim("create", resource="tokenreviews", group="authentication.k8s.io"))
        own = {"permissionClaims": [claim("create", resource="selfsubjectaccessreviews", group=group)]}
        self.assertEqual(self.prov.request("PATCH", APIS + "/apiexports/gears", json.dumps({"spec": own}), headers=MERGE).status, 403,
                         "those about oneself are nobody's to claim (KK-140)")
        self.accept(self.one, accepted("create", resource="subjectaccessreviews", group=group),
                    accepted("create", resource="localsubjectaccessreviews", group=group),
                    accepted("create", resource="tokenreviews", group="authentication.k8s.io"),
                    accepted("create", resource="selfsubjectaccessreviews", group=group))
        self.grant(self.one, "reader", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}, "reader")
        self.grant(self.one, "reader-access", {"nonResourceURLs": ["/"], "verbs": ["access"]}, "reader")
        asked = {"user": "reader", "resourceAttributes": {"verb": "list", "resource": "secrets", "namespace": "default"}}

        def allowed(consumer, kind, path):
            body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}, "spec": asked}
            if kind.startswith("Local"):
                body["metadata"]["namespace"] = "default"
            return self.provider.request("POST", self.at(consumer, f"/apis/{group}/v1{path}"), body)
        for kind, path in (("SubjectAccessReview", "/subjectaccessreviews"),
                           ("LocalSubjectAccessReview", "/namespaces/default/localsubjectaccessreviews")):
            kit.eventually(lambda k=kind, p=path: allowed("one", k, p).json["status"]["allowed"], what=kind)
            self.assertEqual(allowed("two", kind, path).status, 403)
        token = self.provider.request("POST", self.at("one", "/apis/authentication.k8s.io/v1/tokenreviews"), {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "nonsense"}})
        self.assertEqual(token.status, 201, token)
        self.assertNotIn("user", token.json["status"].get("user", {}))
        self.assertEqual(self.provider.request("POST", self.at("one", f"/apis/{group}/v1/selfsubjectaccessreviews"), {
            "apiVersion": f"{group}/v1", "kind": "SelfSubjectAccessReview", "spec": {}}).status, 403)

    def test_tokens_of_claimed_accounts_are_not_handed_out(self):
        self.offer(claim(resource="serviceaccounts"))
        self.accept(self.one, accepted(resource="serviceaccounts"))
        kit.eventually(lambda: "default" in self.names(self.at("one", "/api/v1/serviceaccounts")))
        answer = self.provider.request("POST", self.at("one", "/api/v1/namespaces/default/serviceaccounts/default/token"),
                                       {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        self.assertEqual(answer.status, 404, answer)

    def test_bindings_made_through_a_claim_need_bind_TP069(self):
        self.export(self.stranger, "other", "other.test", "things", "Thing")
        self.offer(claim(resource="apibindings", group="apis.kcp.io"))
        self.accept(self.one, accepted(resource="apibindings", group="apis.kcp.io"))
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "other"},
                "spec": {"reference": {"export": {"path": "root:stranger", "name": "other"}}}}
        create = lambda: self.provider.request("POST", self.at("one", APIS + "/apibindings"), body)

        def refused():
            answer = create()
            self.assertEqual(answer.status, 403, answer)
            self.assertIn("no permission to bind to export root:stranger:other", answer.json["message"])
            return True

        kit.eventually(refused, what="the claim holds, the right to bind is missing")
        rule = {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "resourceNames": ["other"], "verbs": ["bind"]}
        self.grant(self.stranger, "bind", rule, "provider")
        kit.eventually(lambda: create().status == 201, what="bound after the grant")
        self.one.must("DELETE", APIS + "/apibindings/other")

    def test_policy_of_a_claimed_api_decides_TP071_KK_346(self):
        identity = self.export(self.stranger, "sheriffs", "west.test", "sheriffs", "Sheriff",
                               maximalPermissionPolicy={"local": {}})
        self.grant(self.stranger, "consumers", {"apiGroups": ["west.test"], "resources": ["sheriffs"], "verbs": ["*"]},
                   "apis.kcp.io:binding:kcp-admin")
        self.bind(self.one, "root:stranger", "sheriffs")
        kit.eventually(lambda: self.one.get("/apis/west.test/v1/sheriffs").status == 200, what="allowed by the policy")
        self.make(self.one, "/apis/west.test/v1/namespaces/default/sheriffs",
                  {"apiVersion": "west.test/v1", "kind": "Sheriff", "metadata": {"name": "s"}})
        self.offer(claim(resource="sheriffs", group="west.test", identityHash=identity))
        self.accept(self.one, accepted(resource="sheriffs", group="west.test", identityHash=identity))
        path = self.at("*", "/apis/west.test/v1/sheriffs")
        kit.eventually(lambda: self.provider.get(path).status == 403, what="refused by the policy")
        self.assertEqual(self.provider.get(self.at("*", ALL_GEARS)).status, 200)
        rule = {"apiGroups": ["west.test"], "resources": ["sheriffs"], "verbs": ["list"]}
        self.grant(self.stranger, "policy", rule, "apis.kcp.io:binding:provider")
        kit.eventually(lambda: self.provider.get(path).status == 200, what="allowed by the policy")
        self.becomes(path, ["s"])

    def test_unbinding_deletes_on_open_watches_AM516_AM517(self):
        self.installation.make_workspace("guest", selector={"name": "shard-2"})
        guest = self.installation.client("/clusters/root:guest")
        seen = []
        listed = self.provider.must("GET", self.at("*", ALL_GEARS))["metadata"]["resourceVersion"]

        def follow():
            for event in self.provider.watch(f"{self.at('*', ALL_GEARS)}?watch=true&resourceVersion={listed}", timeout=60):
                seen.append((event["type"], event["object"]["metadata"]["name"]))
                if event["type"] == "DELETED":
                    return
        watching = threading.Thread(target=follow, daemon=True)
        watching.start()
        self.bind(guest, "root:prov", "gears")
        guest.must("POST", GEARS, gear("brief"))
        kit.eventually(lambda: ("ADDED", "brief") in seen, what="ADDED on the open watch")
        guest.must("DELETE", APIS + "/apibindings/gears")
        kit.eventually(lambda: ("DELETED", "brief") in seen, what="DELETED on the open watch")
        watching.join(60)
        cluster = self.lc(guest)
        kit.eventually(lambda: self.provider.get(self.at(cluster, ALL_GEARS)).status == 403, what="shut again")

    def test_shard_refuses_what_is_no_view_AM511_TP078_TP081(self):
        pki = self.installation.pki
        shard = kit.Client(self.shards["shard-1"]["baseURL"], pki / "serving-ca.crt", pki / "shard-admin.crt",
                           pki / "shard-admin.key")
        for path in (self.vw + "/api", "/services/apiexport/root:prov/gears/clusters/*/api", "/services/nothing/x",
                     self.vw + "/clusters/root:two/api"):
            answer = shard.get(path)
            self.assertEqual(answer.status, 403, path)
            self.assertTrue(answer.json["message"].endswith(": Path not resolved to a valid virtual workspace"), answer)
        self.assertEqual(shard.get(self.vw + "-none/clusters/*/apis").status, 403)
        for hops, status in (("0", 200), ("3", 200), ("4", 500), ("x", 500), ("-1", 500)):
            answer = shard.get(self.vw + "/clusters/*/apis", headers={"X-Kcp-Virtual-Resource-Hops": hops})
            self.assertEqual(answer.status, status, hops)
        for method, path, body in (("POST", GEARS, gear("x")), ("PUT", GEARS + "/x", gear("x")), ("DELETE", GEARS + "/x", None),
                                   ("DELETE", ALL_GEARS, None)):
            self.assertEqual(shard.request(method, self.vw + "/clusters/*" + path, body).status, 405, path)
        namespaced = shard.get(self.vw + "/clusters/*" + GEARS)
        self.assertEqual((namespaced.status, namespaced.json["message"]), (
            400, "cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to namespace default"))


if __name__ == "__main__":
    unittest.main()
