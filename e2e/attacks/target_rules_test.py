"""The rules of targets as tables over every form, held together between the proxy and the shard: escaped slashes (SE-029a), clusters outside of
the grammar (SE-031), what `*` and identities refuse (SE-032), rewrites by claims and mounts (SE-024, SE-T004)."""
import base64
import json
import unittest
import urllib.parse

import kit
import steady

MAPS = "/api/v1/namespaces/default/configmaps"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
UNKNOWN = "aaaaaaaaaaaaaaaa"
# Outside of the grammar, as a client writes them.
NO_CLUSTERS = (":root", "root:", "root::x", "root:a_b", "a_b", "a.b", "-a", "a-", "root:-a", "%C3%BC", "a" * 64, "root:" + "b" * 64, "a%20b", "root%3A", "a+b",
               "a,b", "a@b", "~a", "root:*", "**")
OF_THE_SYSTEM = ("system:admin", "system:bound-crds", "system:shard", "system:x", "system%3Aadmin", "%73ystem:admin")
SLASHED = ("{c}%2Fapi", "{c}%2fapi%2Fv1", "root%2F..%2F{c}", "%2F{c}", "{c}%2F", "a%2Fb", "{c}%5Capi", "..%2F{c}", "%2e%2e%2F{c}")
HIDDEN = ("/..%2Fx", "/%2e%2e%2Fx", "/a%2F%2Fb", "/a%2F", "/%2Fa", "/a%2F.%2Fb", "/a%2F..", "/x%5C..%5Cy", "/..%5Cx", "/%2F", "/a/b%2F%2F")
WRITES = ("POST", "PUT", "PATCH", "DELETE")


def setUpModule():
    global installation, mine, shard_url
    installation = kit.Installation(shards=2).start_for()
    mine = installation.make_workspace("rules", selector={"name": "shard-1"})["spec"]["cluster"]
    admin = installation.client("/clusters/root:rules")
    admin.must("POST", MAPS, {"metadata": {"name": "m"}, "data": {"of": "rules"}})
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    admin.must("POST", f"{rbac}/clusterroles", {"metadata": {"name": "reader"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}, {"nonResourceURLs": ["/", "/api", "/api/*"], "verbs": ["access", "get"]}]})
    admin.must("POST", f"{rbac}/clusterrolebindings", {
        "metadata": {"name": "bob"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]})
    bob = installation.user_client("bob", path=f"/clusters/{mine}")
    kit.eventually(lambda: bob.get(MAPS).status == 200, 20, "bob has his rights")
    installation.client().must("POST", "/apis/topology.kcp.io/v1alpha1/partitions", {
        "apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "rules"}, "spec": {"selector": {"matchLabels": {"name": "shard-1"}}}})
    shard_url = installation.shard_url("shard-1")


def at_shard(name, pair=None):
    """A client of the shard itself."""
    pki = installation.pki
    cert, key = pair or (pki / f"{name}.crt", pki / f"{name}.key")
    return steady.Steady(shard_url, pki / "serving-ca.crt", cert, key)


def told(answer):
    """What a client learns, but for names and ids."""
    return answer.status, answer.json.get("reason"), answer.json.get("message")


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        pair = kit.make_user(installation.dir, installation.pki, "bob", ())
        cls.bob, cls.admin, cls.stranger = (steady.steady(one) for one in (
            installation.user_client("bob", path=""), installation.client(""), installation.client("", cert=None)))
        cls.shard = {"bob": at_shard("bob", pair), "admin": at_shard("admin"), "system": at_shard("shard-admin")}

    def forms(self, cluster):
        return (f"/clusters/{cluster}", f"/%63lusters/{cluster}", f"/shards/shard-1/clusters/{cluster}", f"/services/apiexport/root/none/clusters/{cluster}",
                f"/services/initializingworkspaces/root:none/clusters/{cluster}", f"/shards/shard-1/services/apiexport/root/none/clusters/{cluster}")

    def unknown(self, actor, target, segment):
        """The answer is that of a cluster that does not exist, in the same form of path."""
        answer = actor.get(target)
        plain = actor.get(target.replace(segment, UNKNOWN))
        self.assertEqual((answer.status, answer.json["reason"]), (plain.status, plain.json["reason"]), target)
        self.assertIn(answer.status, (401, 403), target)

    def test_SE_029a_a_slash_in_the_segment_of_the_cluster(self):
        for segment in (one.replace("{c}", mine) for one in SLASHED):
            for base in (f"/clusters/{segment}", f"/shards/shard-1/clusters/{segment}"):
                for actor in (self.stranger, self.bob, self.admin):
                    with self.subTest(segment=segment, base=base):
                        self.unknown(actor, base + MAPS, segment)
            for name, shard in self.shard.items():  # it knows no such cluster either
                with self.subTest(segment=segment, shard=name):
                    self.assertIn(shard.get(f"/clusters/{segment}{MAPS}").status, (400, 403, 404))

    def test_SE_029a_a_slash_that_hides_a_segment(self):
        for trail in HIDDEN:
            for base in (MAPS, "", "/apis"):
                for form in (*self.forms(mine), *self.forms("*"), *self.forms("root:rules")):
                    target = form + base + trail
                    with self.subTest(target=target):
                        for actor in (self.stranger, self.bob, self.admin):
                            answer = actor.get(target)
                            self.assertEqual((answer.status, answer.json["message"]), (400, "invalid path: encoded slash"))
                for name, shard in self.shard.items():
                    for form in (f"/clusters/{mine}", "/clusters/*", f"/services/apiexport/root/none/clusters/{mine}"):
                        with self.subTest(shard=name, target=form + base + trail):
                            answer = shard.get(form + base + trail)
                            self.assertEqual((answer.status, answer.json["message"]), (400, "invalid path: encoded slash"))

    def test_SE_031_a_cluster_outside_of_the_grammar_is_nobodys(self):
        for segment in NO_CLUSTERS + OF_THE_SYSTEM:
            for base in (f"/clusters/{segment}", f"/%63lusters/{segment}", f"/shards/shard-1/clusters/{segment}"):
                for actor in (self.stranger, self.bob, self.admin):
                    for method in ("GET", "POST"):
                        with self.subTest(base=base, method=method):
                            answer = actor.request(method, base + MAPS, {} if method == "POST" else None)
                            plain = actor.request(method, base.replace(segment, UNKNOWN) + MAPS, {} if method == "POST" else None)
                            self.assertEqual((answer.status, answer.json["reason"]), (plain.status, plain.json["reason"]))
                            self.assertIn(answer.status, (401, 403))

    def test_SE_031_and_at_a_shard(self):
        """KK-361, KK-379: 400 in words of its own for who is known; clusters of the system for SYS alone."""
        for segment in NO_CLUSTERS:
            for name in ("admin", "system"):
                with self.subTest(segment=segment, who=name):
                    answer = self.shard[name].get(f"/clusters/{segment}{MAPS}")
                    self.assertEqual((answer.status, answer.json["reason"]), (400, "BadRequest"))
                    self.assertEqual(answer.json["message"], f'invalid cluster: "{urllib.parse.unquote(segment)}" does not match the regex')
        for segment in OF_THE_SYSTEM:
            for name in ("bob", "admin"):
                for trail in ("/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api", MAPS):
                    with self.subTest(segment=segment, who=name, trail=trail):
                        answer = self.shard[name].get(f"/clusters/{segment}{trail}")
                        self.assertIn(answer.status, (403,) if name == "bob" else (403, 404))

    def test_SE_032_all_clusters_take_no_writes(self):
        for base in ("/clusters/*", "/clusters/%2A", "/%63lusters/*", "/partitions/root/rules/clusters/*"):
            for trail in (MAPS, MAPS + "/m", "/api/v1/configmaps", "/apis/g.io/v1/things", "/%61pi/v1/configmaps"):
                for method in WRITES:
                    with self.subTest(method=method, target=base + trail):
                        answer = self.admin.request(method, base + trail, {} if method != "DELETE" else None)
                        self.assertEqual((answer.status, answer.json["reason"]), (405, "MethodNotAllowed"))
                        if base.startswith("/clusters") and "configmaps" in trail:  # a shard that does not serve it says that first
                            self.assertEqual(self.shard["system"].request(method, base + trail, {} if method != "DELETE" else None).status, 405)
        self.assertEqual(self.admin.must("GET", f"/clusters/{mine}{MAPS}/m")["data"], {"of": "rules"})

    def test_SE_032_an_empty_identity(self):
        for trail in ("/apis/g.io/v1/things:", "/apis/g.io/v1/namespaces/n/things:", "/apis/g.io/v1/things%3A", "/apis/g.io/v1/watch/things:"):
            texts = set()
            for where, target in ((self.admin, f"/clusters/*{trail}"), (self.admin, f"/partitions/root/rules/clusters/*{trail}"),
                                  (self.shard["admin"], f"/clusters/*{trail}"), (self.shard["system"], f"/clusters/*{trail}")):
                with self.subTest(target=target):
                    answer = where.get(target)
                    self.assertEqual(answer.status, 400, answer)
                    texts.add(answer.json["message"])
            self.assertEqual(len(texts), 1, texts)


def token(claim):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'ES256', 'kid': 'x'})}.{part({'kubernetes.io': {'clusterName': claim}})}.{base64.urlsafe_b64encode(b'x' * 64).decode().rstrip('=')}"


class Rewrites(unittest.TestCase):
    """SE-T004: nothing that a claim or a mount says is joined to a path as text."""

    @classmethod
    def setUpClass(cls):
        cls.outside = f"https://127.0.0.1:{installation.port}"
        pki = installation.pki
        cls.system = kit.Client(installation.shard_url("root") + "/clusters/root", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")
        cls.admin = installation.client("")

    def explain(self, path):
        import subprocess  # pylint: disable=import-outside-toplevel
        run = subprocess.run(["curl", "-sS", "--unix-socket", str(installation.state / "run/admin.sock"), "-G", "--data-urlencode", f"path={path}",
                              "http://admin/explain"], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(run.stdout)["result"]

    def test_SE_T004_a_claim_that_is_no_cluster_leads_nowhere(self):
        client = installation.client("", cert=None)
        nowhere = {}
        for claim in ("", "..", "../services/x", f"{mine}/../root", f"{mine}%2F..", f"{mine}/api", "*", f"*/../{mine}", "shards/root/clusters/root",
                      f"/clusters/{mine}", "root:", f"{mine}?watch=1", f"{mine}#", f"{mine} ", f"{mine}\n", "a" * 64):
            for target in (MAPS, "/api/v1/configmaps?watch=1", f"/x/../clusters/{mine}{MAPS}", "/"):
                answer = client.get(target, headers=kit.bearer(token(claim)))
                said = answer.status, answer.headers.get("Location")
                self.assertEqual(said, nowhere.setdefault(target, said), (claim, target))  # the first one is none at all
                self.assertIn(answer.status, (307, 401, 404), (claim, target))

    def mount(self, name, url):
        self.system.must("POST", WORKSPACES, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": {
            "URL": url, "mount": {"ref": {"apiVersion": "mounts.test/v1", "kind": "Mount", "name": name}}}})
        installation.client().must("PATCH", f"{WORKSPACES}/{name}/status", json.dumps({"status": {"phase": "Ready"}}),
                                   headers={"Content-Type": "application/merge-patch+json"})

    def test_SE_T004_mounts_are_judged_anew_and_end(self):
        urls = {"itself": (f"{self.outside}/clusters/root:itself", 508), "ping": (f"{self.outside}/clusters/root:pong", 508),
                "pong": (f"{self.outside}/clusters/root:ping", 508), "good": (f"{self.outside}/clusters/root:rules", 200),
                "dots": (f"{self.outside}/clusters/root:x/../root:rules", 403), "encoded": (f"{self.outside}/clusters/root%2F..%2Froot:rules", 403),
                "slash": (f"{self.outside}/clusters/root:rules%2Fapi", 403), "query": (f"{self.outside}/clusters/root:rules?watch=1", 403),
                "scope": (f"{self.outside}/shards/shard-1/clusters/{mine}", 403), "two": (f"{self.outside}/clusters/root/clusters/{mine}", 403),
                "all": (f"{self.outside}/clusters/*", 403), "service": (f"{self.outside}/services/apiexport/root/none/clusters/{mine}", 403)}
        for number in range(9):  # "mount-0" leads by eight more to the workspace
            urls[f"mount-{number}"] = (f"{self.outside}/clusters/root:" + (f"mount-{number + 1}" if number < 8 else "rules"), 508 if number == 0 else 200)
        for name, (url, _) in urls.items():
            self.mount(name, url)
        for name, (url, status) in urls.items():
            with self.subTest(name=name, url=url):
                answer = kit.eventually(lambda n=name, s=status: (a := self.admin.get(f"/clusters/root:{n}{MAPS}/m")).status in
                                        ((s, 404) if s == 403 else (s,)) and a, 30, f"{status} of {url}")
                if status == 200:
                    self.assertEqual(answer.json["metadata"]["annotations"]["kcp.io/cluster"], mine)
                escaped = self.admin.get(f"/clusters/root:{name}/api/v1/namespaces/default/configmaps/..%2F..%2Fm")
                self.assertEqual((escaped.status, escaped.json["message"]), (400, "invalid path: encoded slash"))


if __name__ == "__main__":
    unittest.main()
