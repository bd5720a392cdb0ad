"""What is a shard's own: cluster system:admin, whose roles hold everywhere, what is left of clusters that are gone, its metrics. At the
shards themselves; the proxy leads nobody there."""
import unittest

import kit
import trust
from trust import KINDS, MERGE, at_shard, masters, shard_admin

MAPS, SECRETS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets"


def setUpModule():
    trust.begin()


class Own(unittest.TestCase):
    """KK-300, KK-305, KK-314, KK-366, KK-379."""

    def test_KK_305_KK_314_KK_379_the_shards_own_cluster_is_the_systems_and_its_roles_hold_everywhere(self):
        """system:admin of each shard: who is not the system neither reads nor writes there, however he asks."""
        here, roles = masters("/clusters/system:admin"), f"{trust.RBAC}/clusterroles"
        self.assertEqual(here.get("/api").status, 200)
        self.assertEqual(here.get(MAPS).json["items"], [])
        here.must("POST", roles, {"metadata": {"name": "shared-maps"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]})
        self.addCleanup(here.request, "DELETE", f"{roles}/shared-maps")
        gina = at_shard("gina")
        trust.grant(trust.ann, "gina", "system:kcp:workspace:access")
        trust.grant(trust.ann, "gina", "shared-maps")
        kit.eventually(lambda: gina.get(f"/clusters/{trust.cluster}{MAPS}").status == 200, what="a role of system:admin, bound by ann")
        self.assertEqual(gina.get(f"/clusters/{trust.cluster}{SECRETS}").status, 403)
        self.assertEqual(trust.ann.get(f"{roles}/shared-maps").status, 404, "it is no object of hers")
        # What is bound there holds in every cluster of the shard, for whoever may enter.
        hal = at_shard("hal")
        trust.grant(trust.ann, "hal", "system:kcp:workspace:access")
        kit.eventually(lambda: hal.get(f"/clusters/{trust.cluster}/api").status == 200)
        self.assertEqual(hal.get(f"/clusters/{trust.cluster}{MAPS}").status, 403)
        here.must("POST", f"{trust.RBAC}/clusterrolebindings", {
            "metadata": {"name": "shared-hal"}, "roleRef": {"kind": "ClusterRole", "name": "shared-maps"}, "subjects": [{"kind": "User", "name": "hal"}]})
        kit.eventually(lambda: hal.get(f"/clusters/{trust.cluster}{MAPS}").status == 200, what="a binding of system:admin")
        here.must("DELETE", f"{trust.RBAC}/clusterrolebindings/shared-hal")
        kit.eventually(lambda: hal.get(f"/clusters/{trust.cluster}{MAPS}").status == 403, what="no binding any more")
        # Nobody else gets in.
        strangers = [at_shard("ann"), at_shard("hal"), shard_admin(), at_shard("outer", groups=("system:kcp:external-logical-cluster-admin",)),
                     at_shard("boot", groups=("system:kcp:tenancy:workspace-bootstrapper",)), trust.up.client(""), trust.up.user_client("ann", path="")]
        for client in strangers:
            for cluster in ("system:admin", "system%3Aadmin", "system:bound-crds", "system:x"):
                for path in (roles, f"{roles}/shared-maps", MAPS, "/api", "/livez", f"{KINDS['ws'][0]}"):
                    self.assertEqual(client.get(f"/clusters/{cluster}{path}").status, 403, (client.url.netloc, cluster, path))
                self.assertEqual(client.request("POST", f"/clusters/{cluster}{roles}", {"metadata": {"name": "x"}}).status, 403)
                for view in ("apiexport/root/tenancy.kcp.io", "initializingworkspaces/root:universal", "terminatingworkspaces/root:universal"):
                    self.assertIn(client.get(f"/services/{view}/clusters/{cluster}{roles}").status, (403, 404), (view, cluster))
        for kind, spec in (("binding", {"reference": {"export": {"path": "system:admin", "name": "x"}}}), ("ws", {"cluster": "system:admin"}),
                           ("ws", {"type": {"path": "system:admin", "name": "x"}})):
            self.assertIn(trust.ann.request("POST", KINDS[kind][0], trust.body_of(kind, "inward", spec)).status, (403, 422), kind)

    def test_KK_314_the_bootstrap_policy_is_there_to_be_seen_and_changed_by_the_system_alone(self):
        """Its roles and bindings are objects of system:admin, of no other cluster; a change of one counts at once; what is deleted is as built in."""
        here, roles, bindings = masters("/clusters/system:admin"), f"{trust.RBAC}/clusterroles", f"{trust.RBAC}/clusterrolebindings"
        wanted = {"cluster-admin", "admin", "edit", "view", "system:discovery", "system:basic-user", "system:kcp:workspace:access",
                  "system:kcp:tenancy:reader", "system:kcp:logical-cluster-admin", "system:kcp:external-logical-cluster-admin"}
        shown = {one["metadata"]["name"]: one for one in here.must("GET", roles)["items"]}
        self.assertEqual(wanted - set(shown), set())
        self.assertEqual(shown["cluster-admin"]["rules"], [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                                                           {"verbs": ["*"], "nonResourceURLs": ["*"]}])
        bound = here.must("GET", f"{bindings}/system:discovery")
        self.assertEqual((bound["roleRef"]["name"], [one["name"] for one in bound["subjects"]]), ("system:discovery", ["system:authenticated"]))
        for name in ("cluster-admin", "system:discovery"):
            self.assertEqual(shown[name]["metadata"]["labels"], {"kubernetes.io/bootstrapping": "rbac-defaults"})
        self.assertEqual(set(shown) & {one["metadata"]["name"] for one in trust.ann.must("GET", roles)["items"]}, set(), "no objects of hers")
        for client in (at_shard("ann"), shard_admin(), trust.up.client("")):
            for method, path in (("GET", roles), ("GET", f"{roles}/view"), ("PATCH", f"{roles}/view"), ("DELETE", f"{bindings}/system:discovery")):
                answer = client.request(method, "/clusters/system:admin" + path, {} if method == "PATCH" else None, headers=MERGE)
                self.assertEqual(answer.status, 403, (method, path))
        ivy = at_shard("ivy")
        trust.grant(trust.ann, "ivy", "system:kcp:workspace:access")
        trust.grant(trust.ann, "ivy", "view")
        look = f"/clusters/{trust.cluster}{MAPS}"
        kit.eventually(lambda: ivy.get(look).status == 200)
        here.must("PATCH", f"{roles}/view", {"rules": []}, headers=MERGE)
        try:
            kit.eventually(lambda: ivy.get(look).status == 403, what="no rules any more")
        finally:
            here.must("DELETE", f"{roles}/view")
        kit.eventually(lambda: ivy.get(look).status == 200, what="the role that is built in")

    def test_KK_300_KK_306_the_system_clears_what_is_left_of_a_cluster(self):
        """A name without LogicalCluster: SYS reads and deletes there, and makes nothing; everybody else hears that it is unknown."""
        for path in ("/clusters/aaaaaaaaaaaaaaaa",):
            self.assertEqual(masters(path).get(MAPS).json["items"], [])
            self.assertEqual(masters(path).get("/api/v1/namespaces").json["items"], [])
            self.assertEqual(masters(path).request("DELETE", MAPS + "/x").status, 404)
            for method in ("POST", "PUT", "PATCH"):
                answer = masters(path).request(method, MAPS + ("" if method == "POST" else "/x"), {"metadata": {"name": "x"}}, headers=MERGE)
                self.assertEqual(answer.status, 403, method)
            for client in (shard_admin(path), at_shard("ann", path), at_shard("outer", path, ("system:kcp:external-logical-cluster-admin",))):
                self.assertEqual(client.get(MAPS).status, 403)

    def test_KK_300_KK_366_the_metrics_of_a_shard_are_roots_to_give(self):
        """Bare /metrics of each shard: for the system, administrators, and whom root lets get that path; not for who has it elsewhere."""
        pki, root = trust.up.pki, trust.up.client()
        shards = [one["spec"]["baseURL"] for one in root.must("GET", f"{trust.CORE}/shards")["items"]]
        self.assertEqual(len(shards), 2)

        def status(url, name, path="/metrics", groups=()):
            pair = (pki / f"{name}.crt", pki / f"{name}.key") if (pki / f"{name}.crt").exists() else kit.make_user(trust.up.dir, pki, name, groups)
            return kit.Client(url, pki / "serving-ca.crt", *pair).get(path).status

        trust.grant(trust.ann, "scraper", "system:kcp:metrics-reader")  # in a workspace of hers: says nothing of the shard
        for url in shards:
            answer = kit.Client(url, pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key").get("/metrics")
            self.assertEqual(answer.status, 200)
            self.assertTrue(answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers)
            self.assertIn(b"kintsugi_", answer.body)
            self.assertEqual(status(url, "admin"), 200)
            for name in ("ann", "scraper", "mallory"):
                self.assertEqual(status(url, name), 403, (url, name))
            self.assertEqual(kit.Client(url, pki / "serving-ca.crt").get("/metrics").status, 401)
        trust.grant(root, "scraper", "system:kcp:metrics-reader")
        for url in shards:
            kit.eventually(lambda u=url: status(u, "scraper") == 200, what="root's binding")
            for path in ("/metrics/slis", "/metrics/", "/debug/pprof", "/api", MAPS, f"/clusters/root{SECRETS}"):
                self.assertEqual(status(url, "scraper", path), 403, path)
            self.assertEqual(status(url, "ann"), 403)


if __name__ == "__main__":
    unittest.main()
