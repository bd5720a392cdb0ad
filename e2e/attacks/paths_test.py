"""One path, one meaning: every form and spelling, by strangers and tenants (SE-T001, SE-T003, SE-T005, SE-T006, KK-T150 to KK-T153)."""
import json
import unittest
import urllib.parse

import kit

SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: None}
"""


def setUpModule():
    global installation, mine, other
    installation = kit.Installation(shards=2).start_for()
    mine = installation.make_workspace("mine")["spec"]["cluster"]
    other = installation.make_workspace("other")["spec"]["cluster"]
    admin = installation.client("/clusters/root:mine")
    admin.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
               {"metadata": {"name": "reader"},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
                          {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
    admin.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
               {"metadata": {"name": "bob"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]})
    for path in ("/clusters/root:mine", "/clusters/root:other"):
        client = installation.client(path)
        client.must("POST", SECRETS, {"metadata": {"name": "s"}, "stringData": {"p": "hunter2"}})
        client.must("POST", MAPS, {"metadata": {"name": "m"}, "data": {"k": "v"}})


def spellings(word):
    """The word with one byte escaped, with all, and with one escaped twice."""
    out = [word[:at] + f"%{ord(word[at]):02{case}}" + word[at + 1:] for at in range(len(word)) for case in "xX"]
    out.append("".join(f"%{ord(c):02X}" for c in word))
    out.append(f"%25{ord(word[0]):02X}" + word[1:])
    return out


def variants(target):
    """The target with each of its words in each spelling."""
    path, _, query = target.partition("?")
    segments = path.split("/")
    out = [target]
    for at, segment in enumerate(segments):
        for spelling in spellings(segment) if segment else ():
            out.append("/".join([*segments[:at], spelling, *segments[at + 1:]]) + ("?" + query if query else ""))
    return out


class Paths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stranger = installation.client("", cert=None)
        cls.bob = installation.user_client("bob", path="")
        cls.admin = installation.client("")
        kit.eventually(lambda: cls.bob.get("/clusters/root:mine" + MAPS).status == 200, 20, "bob has his rights")

    def setUp(self):
        self.process = installation.pid("proxy")

    def tearDown(self):
        self.assertEqual(installation.pid("proxy"), self.process, "the proxy was not started again")
        self.assertEqual(self.stranger.get("/livez").status, 200, "the proxy lives")

    def forms(self, trail):
        return [f"/clusters/*{trail}", f"/clusters/{mine}{trail}", f"/shards/root/clusters/*{trail}",
                f"/shards/root/clusters/{mine}{trail}", f"/partitions/root/none/clusters/*{trail}",
                f"/services/apiexport/root/none/clusters/*{trail}", f"/services/apiexport/root/none/clusters/{mine}{trail}",
                f"/services/initializingworkspaces/root:universal/clusters/*{trail}",
                f"/shards/root/services/apiexport/root/none/clusters/*{trail}", trail]

    def test_SE_T001_no_spelling_of_a_watch_ends_the_proxy(self):
        for trail in ("/apis/g/v1/watch/foo", "/api/v1/watch/namespaces/default/configmaps/m"):
            for form in self.forms(trail):
                for target in variants(form) if form.startswith("/clusters/*") else [form, form.replace("watch", "%77atch"),
                                                                                  form.replace("watch", "%77%61%74%63%68")]:
                    for method in ("POST", "DELETE"):
                        answer = self.stranger.request(method, target)
                        self.assertIn(answer.status, (307, 400, 401, 403, 404, 405), (method, target))
                    answer = self.stranger.get(target)
                    self.assertIn(answer.status, (307, 400, 401, 403, 404, 405), target)

    def test_SE_T001_a_spelling_reads_what_the_plain_words_read(self):
        for actor, path, expected in ((self.bob, f"/clusters/{mine}" + MAPS + "/m", 200), (self.bob, f"/clusters/{mine}" + SECRETS + "/s", 403),
                                      (self.bob, "/clusters/root:other" + MAPS + "/m", 403),
                                      (self.admin, "/clusters/root:mine" + SECRETS + "/s", 200)):
            plain = actor.get(path)
            self.assertEqual(plain.status, expected, path)
            for target in variants(path):
                answer = actor.get(target)
                if "%25" in target:
                    self.assertIn(answer.status, (400, 403, 404), target)
                else:
                    self.assertEqual(answer.status, expected, target)

    def test_KK_T151_an_escaped_slash_separates_for_rights_too(self):
        trail = "/api%2Fv1%2Fnamespaces%2Fdefault%2Fsecrets"
        for target in (f"/clusters/{mine}{trail}", f"/clusters/{mine}{trail}%2Fs", f"/clusters/{mine}/api%2fv1/secrets"):
            self.assertEqual(self.bob.get(target).status, 403, target)
            answer = self.admin.get(target)
            self.assertEqual(answer.status, 200, target)
        self.assertEqual(self.bob.get(f"/clusters/{mine}/api%2Fv1%2Fnamespaces/default/configmaps").status, 200)
        subresource = self.admin.get(f"/clusters/{mine}{MAPS}/m%2Fb")
        self.assertEqual(subresource.status, 404, "no subresource b")
        self.assertEqual(self.admin.get(f"/clusters/{mine}{MAPS}/m%2Fb").body, self.admin.get(f"/clusters/{mine}{MAPS}/m/b").body)
        twice = self.admin.get(f"/clusters/{mine}{MAPS}/a%252Fb")
        self.assertIn(twice.status, (400, 404), "decoded once")

    def test_KK_T151_slashes_in_the_cluster_are_nobodys(self):
        for target in (f"/clusters%2F{mine}/api", f"/clusters/{mine}%2Fapi", f"/clusters/{mine}%2Fapi/v1/secrets",
                       f"/clusters/root%2F..%2F{other}/api"):
            for actor in (self.stranger, self.bob, self.admin):
                unknown = actor.get("/clusters/aaaaaaaaaaaaaaaa/api").status
                self.assertIn(actor.get(target).status, (400, unknown, 404), target)
                self.assertIn(unknown, (401, 403))

    def test_SE_028_what_hides_something_is_refused_in_every_form(self):
        for bad, text in (("/a%00b", "control"), ("/..%2Fx", "encoded slash"), ("/a%2F%2Fb", "encoded slash"), ("/%zz", "hexadecimal"),
                          ("/%0d%0aX:y", "control"), ("/a%C2%85", "no text"), ("/x%5c..%5cy", "encoded slash")):
            for form in self.forms("/api/v1/namespaces/default/configmaps" + bad):
                for actor in (self.stranger, self.bob, self.admin):
                    answer = actor.get(form)
                    self.assertEqual(answer.status, 400, form)
                    self.assertEqual(answer.json["reason"], "BadRequest")
                    self.assertIn(text, answer.json["message"], form)

    def test_SE_030_unclean_paths_are_asked_for_anew(self):
        for target, location in ((f"/clusters/{mine}/../{other}/api", f"/clusters/{other}/api"), (f"//clusters/{mine}/api?x=1", f"/clusters/{mine}/api?x=1"),
                                 (f"/clusters/{mine}/./api", f"/clusters/{mine}/api"), (f"/clusters/{mine}/%2e%2E/x", "/clusters/x"),
                                 (f"/shards/root/../clusters/{mine}", f"/shards/clusters/{mine}")):
            for actor in (self.stranger, self.bob):
                answer = actor.get(target)
                self.assertEqual((answer.status, answer.headers["Location"]), (307, location), target)

    def test_SE_027_long_targets(self):
        self.assertEqual(self.stranger.get("/clusters/root/" + "a" * 17000).status, 414)
        self.assertIn(self.stranger.get("/clusters/root/" + "a" * 16000).status, (401, 403, 404))

    def test_SE_T003_the_first_value_of_a_decoded_key_counts(self):
        for query, watches in (("watch=0&watch=1", False), ("%77atch=1", True), ("watch", True), ("a;watch=1", False), ("watch=%zz&watch=0", False)):
            target = f"/clusters/{mine}{MAPS}?{query}&timeoutSeconds=1&resourceVersion=0"
            body = self.admin.get(target).body
            is_list = body.startswith(b"{") and json.loads(body.split(b"\n")[0]).get("kind") == "ConfigMapList"
            self.assertEqual(is_list, not watches, target)

    def test_KK_T152_a_shard_keeps_its_cluster(self):
        shard = kit.Client("https://127.0.0.1:%s" % self.shard_port(), installation.pki / "serving-ca.crt", installation.pki / "admin.crt",
                           installation.pki / "admin.key")
        for target, location in (("/clusters/root//api?x=1", "/clusters/root/api?x=1"), ("/clusters/root/./api", "/clusters/root/api"),
                                 ("/clusters/root/x/../api", "/clusters/root/api")):
            answer = shard.get(target)
            self.assertEqual((answer.status, answer.headers["Location"]), (307, location), target)
        for target in ("/clusters/root/../other/api", "/clusters/root/a%00b", "/clusters/root/..%2Fx", "/clusters/root/%zz"):
            self.assertEqual(shard.get(target).status, 400, target)
        for target in ("/clusters/*/apis/g/v1/%77atch/foo", "/clusters/root/api%2Fv1/%77atch%2Fsecrets?timeoutSeconds=1", "/%63lusters/root/api"):
            self.assertIn(shard.get(target).status, (200, 401, 403, 404), target)
        self.assertEqual(shard.get("/clusters/root%2Fapi").status, shard.get("/clusters/unknown/api").status)

    def shard_port(self):
        return urllib.parse.urlsplit(installation.shard_url("root")).port

    def test_SE_T006_every_form_has_its_audit_line(self):
        policy = installation.dir / "paths-policy.yaml"
        policy.write_text(POLICY)
        with kit.Proxy(installation, {"audit": {"log_file": "audit.jsonl", "policy_file": str(policy)}}) as proxy:
            admin = proxy.client("")
            stranger = proxy.client("", cert=None)
            kit.eventually(lambda: admin.get(f"/clusters/{mine}{SECRETS}").status == 200, 20, "the proxy knows the workspace")
            log = proxy.dir / "audit.jsonl"
            cases = [(admin, "GET", f"/shards/root/clusters/{mine}{SECRETS}", mine, "list"),
                     (admin, "POST", f"/shards/root/clusters/{mine}{SECRETS}", mine, "create"),
                     (stranger, "GET", f"/partitions/root/none/clusters/*{SECRETS}", "*", "list"),
                     (admin, "PATCH", f"/services/apiexport/root/none/clusters/{mine}{SECRETS}/s", mine, "patch"),
                     (stranger, "DELETE", f"/clusters/{other}{SECRETS}/s", other, "delete"),
                     (stranger, "GET", f"/clusters/nobody{SECRETS}/s", "nobody", "get"),
                     (stranger, "GET", f"/clusters/{mine}{SECRETS}/s%00", mine, "get"),
                     (admin, "GET", f"/%63lusters/{mine}/api%2Fv1/secrets", mine, "list"),
                     (admin, "GET", f"/clusters/{mine}/api/v1/%77atch/secrets?timeoutSeconds=1", mine, "watch")]
            for actor, method, target, cluster, verb in cases:
                body = {"metadata": {"name": "made"}} if method == "POST" else {} if method == "PATCH" else None
                answer = actor.request(method, target, body)

                def line(target=target, verb=verb):
                    events = [json.loads(text) for text in log.read_text().split("\n")[:-1]] if log.exists() else []
                    return [one for one in events if (one["requestURI"], one["verb"]) == (target, verb)]

                events = kit.eventually(line, what=f"a line for {method} {target}")
                self.assertEqual(len(events), 1, target)
                event = events[0]
                self.assertEqual(event["annotations"]["kcp.io/cluster"], cluster, target)
                self.assertEqual(event["objectRef"]["resource"], "secrets", target)
                self.assertEqual(event["responseStatus"]["code"], answer.status, target)


if __name__ == "__main__":
    unittest.main()
