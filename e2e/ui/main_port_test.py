"""The console at the proxy's main port (docs/console.md): off unless it is wanted; who is nobody sees the page and nothing behind it, a tenant
his own, whom rights in root let everything, for as long as they do."""
import json
import re
import unittest

import kit

RBAC = "/apis/rbac.authorization.k8s.io/v1/"
MAPS = "/api/v1/configmaps"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
API = "/ui/api/v1/"
HIDDEN = ("shards", "slices", "partitions", "sets", "workers", "events", "explain?path=root")
TOKEN = "the-token-of-vera"


class MainPort(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1)
        cls.installation.start_for(cls)
        tokens = cls.installation.dir / "tokens.csv"
        tokens.write_text(f'{TOKEN},vera,1,"ops"\n', encoding="utf-8")
        tokens.chmod(0o600)
        cls.proxy = kit.Proxy(cls.installation, {"ui": {"enabled": "true"}, "authorization": {"recheck_watches_ms": 100},
                                                 "authentication": {"token_file": tokens, "on_failure": "pass"}, "cors": {"allowed_origins": '[".*"]'}})  # fmt: skip
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)
        cls.root = cls.installation.client()
        cls.admin, cls.nobody = cls.proxy.client(""), cls.proxy.client("", None)

    def user(self, name):
        pair = kit.make_user(self.installation.dir, self.installation.pki, name, ())
        return kit.Client(f"https://127.0.0.1:{self.proxy.port}", self.installation.pki / "serving-ca.crt", *pair)

    def grant(self, user, *rules, role=None):
        """Rights in root. @returns the path of the binding."""
        name = f"console-{user}-{role or 'own'}".replace(":", "-")
        if role is None:
            self.root.must("POST", RBAC + "clusterroles", {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                                                           "metadata": {"name": name}, "rules": list(rules)})  # fmt: skip
        self.root.must("POST", RBAC + "clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role or name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
        return RBAC + "clusterrolebindings/" + name

    def live(self, client, views, headers):
        """@returns the lines of a stream over a connection of its own; None while it is refused."""
        connection = client.connect()
        self.addCleanup(connection.close)
        connection.request("GET", API + f"live?views={views}", headers=headers)
        answer = connection.getresponse()
        return answer if answer.status == 200 else None

    def refused(self, answer, code):
        self.assertEqual(answer.status, code, answer.body)
        status = json.loads(answer.body)
        self.assertEqual((status["kind"], status["code"]), ("Status", code))
        self.assertNotIn("items", status)

    def test_OP704_it_is_off_unless_it_is_wanted(self):
        elsewhere = self.installation.client("")
        unknown = elsewhere.get("/uix/")
        for path in ("/ui", "/ui/", API + "overview"):
            answer = elsewhere.get(path)
            self.assertEqual((answer.status, answer.body), (unknown.status, unknown.body), path)

    def test_OP704_the_page_is_for_everybody_and_no_other_site(self):
        page = self.nobody.get("/ui/", headers={"Origin": "https://evil.test"})
        self.assertEqual(page.status, 200)
        self.assertIn("frame-ancestors 'none'", page.headers["Content-Security-Policy"])
        self.assertIsNone(page.headers["Access-Control-Allow-Origin"])
        self.assertIsNone(page.headers["Set-Cookie"])
        script = re.search(rb'src="([^"]+)"', page.body)[1].decode()
        self.assertIn("immutable", self.nobody.get("/ui/" + script).headers["Cache-Control"])
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.test"}, {"Origin": "null"}):
            answer = self.admin.get(API + "overview", headers=headers)
            self.assertEqual(answer.status, 403, headers)
            self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
        answer = self.admin.get(API + "overview", headers={"Sec-Fetch-Site": "same-origin"})
        self.assertEqual((answer.status, answer.headers["Cache-Control"]), (200, "no-store"))
        self.assertEqual(self.admin.request("POST", API + "overview", {}).status, 405)
        self.assertEqual(self.admin.get(API + "none").status, 404)

    def test_OP704_OP_T705_nobody_gets_nothing(self):
        for name in ("overview", "streams", "live", *HIDDEN):
            self.refused(self.nobody.get(API + name), 401)
            self.refused(self.nobody.get(API + name, headers=kit.bearer("wrong")), 401)

    def test_OP704_OP_T705_an_administrator_sees_everything(self):
        viewer = self.admin.must("GET", API + "overview")["viewer"]
        self.assertEqual(viewer["part"], [])
        self.assertEqual(len(viewer["full"]), 9)
        self.assertEqual([one["name"] for one in self.admin.must("GET", API + "shards")["items"]], ["root"])
        self.assertTrue(self.admin.must("GET", API + "slices")["items"])
        self.assertTrue(self.admin.must("GET", API + "explain?path=root")["steps"])
        self.refused(self.admin.get(API + "shards", headers={"Impersonate-User": "ann"}), 403)

    def test_OP704_OP_T705_a_tenant_sees_his_own(self):
        ann = self.user("ann")
        overview = ann.must("GET", API + "overview")
        self.assertEqual([set(one) for one in overview["items"]], [{"id", "version", "ready"}])
        self.assertEqual((overview["viewer"]["full"], overview["viewer"]["part"]), ([], ["overview", "streams"]))
        for name in HIDDEN:
            self.refused(ann.get(API + name), 403)
        self.refused(ann.get(API + "live?views=streams,events"), 403)
        self.grant("ann", {"nonResourceURLs": ["/"], "verbs": ["access"]},
                   {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]})  # fmt: skip
        path = "/clusters/root" + MAPS + "?watch=1"
        kit.eventually(lambda: ann.get("/clusters/root" + MAPS).status == 200, 15, "ann may list")
        kit.Watch(ann, path)
        kit.Watch(self.admin, path)
        everything = kit.eventually(lambda: (rows := self.admin.must("GET", API + "streams")["items"]) and
                                    {"ann", "kcp-admin"} <= {one["user"] for one in rows} and rows, 10, "both watches are told")  # fmt: skip
        self.assertTrue(all(one["shards"] for one in everything if one["kind"] == "forwarded"))
        own = ann.must("GET", API + "streams")
        self.assertEqual([(one["user"], one["shards"]) for one in own["items"]], [("ann", [])])
        self.assertNotIn("watchesOpen", own)
        connection = ann.connect()
        self.addCleanup(connection.close)
        connection.request("GET", API + "live")
        lines = connection.getresponse()
        first = [json.loads(lines.readline()) for _ in range(2)]
        self.assertEqual({one["view"]: [row.get("user", "") for row in one["items"]] for one in first}, {"overview": [""], "streams": ["ann"]})

    def test_OP704_OP_T705_slices_of_a_cluster_to_whom_may_list_them_there(self):
        bob = self.user("bob")
        cluster = self.admin.must("GET", API + "slices")["items"][0]["cluster"]
        refused = bob.get(API + f"slices?cluster={cluster}")
        self.refused(refused, 403)
        self.assertEqual(bob.get(API + "slices?cluster=root:nowhere").body, refused.body)
        self.grant("bob", {"nonResourceURLs": ["/"], "verbs": ["access"]},
                   {"apiGroups": ["apis.kcp.io"], "resources": ["apiexportendpointslices"], "verbs": ["list"]},
                   {"apiGroups": ["core.kcp.io"], "resources": ["shards"], "verbs": ["list"]})  # fmt: skip
        kit.eventually(lambda: bob.get("/clusters/root" + SLICES).status == 200, 15, "bob may list")
        rows = kit.eventually(lambda: (answer := bob.get(API + "slices?cluster=root")).status == 200 and json.loads(answer.body)["items"], 15)
        self.assertEqual({one["cluster"] for one in rows}, {"root"})
        self.refused(bob.get(API + "partitions?cluster=root"), 403)
        shard = kit.eventually(lambda: (answer := bob.get(API + "shards")).status == 200 and json.loads(answer.body)["items"][0], 15)
        self.assertEqual({"cause", "urls", "resources"} & set(shard), set())

    def test_OP704_OP_T705_a_token_with_the_role_and_without_it_again(self):
        binding = self.grant("vera", role="system:kintsugi:console-viewer")
        vera = self.nobody
        headers = kit.bearer(TOKEN)
        viewer = kit.eventually(lambda: (one := vera.must("GET", API + "overview", headers=headers)["viewer"])["full"] and one, 15, "vera may see")
        self.assertEqual((viewer["user"], len(viewer["full"])), ("vera", 9))
        lines = kit.eventually(lambda: self.live(vera, "shards,events", headers), 15, "vera may see live")
        self.assertEqual(json.loads(lines.readline())["op"], "reset")
        self.assertEqual(self.root.request("DELETE", binding).status, 200)
        clock = kit.Clock()
        while lines.readline():
            self.assertLess(clock.spent(), 30, "the stream goes on without the right")
        self.refused(vera.get(API + "shards", headers=headers), 403)

    def test_OP704_OP_T705_a_service_account_as_long_as_it_is_there(self):
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self.root.must("POST", accounts, {"metadata": {"name": "sees"}})
        token = self.root.must("POST", accounts + "/sees/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        headers = kit.bearer(token)
        self.refused(self.nobody.get(API + "shards", headers=headers), 403)
        self.refused(self.nobody.get(API + "shards", headers={**headers, "x-remote-user": "root", "x-remote-group": "system:masters"}), 403)
        self.refused(self.nobody.get(API + "shards", headers=kit.bearer(token[:-4] + "AAAA")), 401)
        self.root.must("POST", RBAC + "clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "console-sees"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kintsugi:console-viewer"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "sees"}]})
        kit.eventually(lambda: self.nobody.get(API + "shards", headers=headers).status == 200, 15, "it may see")
        viewer = lambda: self.nobody.must("GET", API + "overview", headers=headers)["viewer"]  # noqa: E731
        kit.eventually(lambda: len(viewer()["full"]) == 9, 15, "it may see all views in full")  # each is asked for by itself
        self.assertEqual(viewer()["user"], "system:serviceaccount:default:sees")
        lines = kit.eventually(lambda: self.live(self.nobody, "shards", headers), 15, "it may see live")  # each loop knows by itself
        self.assertEqual(json.loads(lines.readline())["op"], "reset")
        self.assertEqual(self.root.request("DELETE", accounts + "/sees").status, 200)
        clock = kit.Clock()
        while lines.readline():
            self.assertLess(clock.spent(), 60, "the stream goes on without the account")
        self.refused(self.nobody.get(API + "shards", headers=headers), 401)

    def test_OP705_one_user_does_not_take_all_places(self):
        carl = self.user("carl")
        for _ in range(4):
            connection = carl.connect()
            self.addCleanup(connection.close)
            connection.request("GET", API + "live?views=overview")
            self.assertEqual(connection.getresponse().status, 200)
        self.assertEqual(carl.get(API + "live?views=overview").status, 429)
        connection = self.admin.connect()
        self.addCleanup(connection.close)
        connection.request("GET", API + "live?views=overview")
        self.assertEqual(connection.getresponse().status, 200)


class Stops(unittest.TestCase):
    def test_OP705_live_streams_end_in_order_when_the_proxy_stops(self):
        installation = kit.shared(type(self))
        with kit.Proxy(installation, {"ui": {"enabled": "true"}, "shutdown": {"delay_ms": 0}}) as proxy:
            connection = proxy.client("").connect()
            self.addCleanup(connection.close)
            connection.request("GET", API + "live?views=overview")
            lines = connection.getresponse()
            self.assertEqual(json.loads(lines.readline())["op"], "reset")
            proxy.process.terminate()
            while lines.readline():
                pass
            self.assertEqual(proxy.process.wait(120), 0)


if __name__ == "__main__":
    unittest.main()
