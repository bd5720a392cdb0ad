"""What strangers learn about workspaces, exports and Partitions of others: of those that exist the same as of none (SE-034,
SE-160 to SE-164, SE-T070, SE-T071)."""
import base64
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
import unittest

import kit
import steady

TRAILS = ["", "/", "/api", "/api/v1", "/apis", "/version", "/openapi/v2", "/openapi/v3", "/.well-known/openid-configuration",
          "/openid/v1/jwks", "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/x",
          "/api/v1/namespaces/default/secrets?watch=1", "/api/v1/namespaces/default/configmaps?timeout=wrong",
          "/api/v1/configmaps?limit=-1", "/api/v1/nothing", "/apis/no.such/v1/things", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster",
          "/apis/tenancy.kcp.io/v1alpha1/workspaces", "/apis/topology.kcp.io/v1alpha1/partitions",
          "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/x", "/nothing", "/api?pretty=true", "/watch/api/v1/pods"]
HEALTH = [f"/{name}{more}" for name in ("livez", "readyz", "healthz") for more in ("", "?verbose", "?verbose&exclude=ping", "/ping")]
SHARDS_OWN = ["/metrics", "/metrics/slis", "/debug", "/debug/pprof", "/debug/pprof/heap", "/debug/flags/v", "/configz", "/flagz",
              "/statusz", "/logs/", "/debug/api_priority_and_fairness/dump_requests"]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"]
VARYING = {"date", "audit-id"}  # of which only the presence counts


def view_of(answer, name):
    """Status, headers and body, without the name that the client has sent itself."""
    headers = sorted((key.lower(), "" if key.lower() in VARYING else value.replace(name, "NAME"))
                     for key, value in answer.headers.items())
    return answer.status, headers, answer.body.replace(name.encode(), b"NAME")


class Existence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        made = cls.installation.make_workspace("there", selector={"name": "shard-1"})
        cls.cluster = made["spec"]["cluster"]
        cls.installation.make_workspace("inside", selector={"name": "root"})
        owner = cls.installation.client("/clusters/root:there")
        owner.must("POST", "/apis/apis.kcp.io/v1alpha2/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "exported"}, "spec": {}})
        owner.must("POST", "/apis/topology.kcp.io/v1alpha1/partitions", {
            "apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "parted"}, "spec": {}})
        # The same lengths: only the name may differ.
        absent = "".join(reversed(cls.cluster))
        cls.pairs = [("root:there", "root:thare"), ("root%3Athere", "root%3Athare"), (cls.cluster, absent)]
        cls.users = {"bob": cls.installation.user_client("bob", path=""), "none": cls.installation.client("", cert=None),
                     "bad token": cls.installation.client("", cert=None), "bad JWT": cls.installation.client("", cert=None),
                     "bad certificate": cls.stranger()}
        cls.users = {name: steady.steady(client) for name, client in cls.users.items()}
        cls.headers = {"bad token": kit.bearer("opaque"), "bad JWT": kit.bearer(cls.forged(cls.cluster))}

    @classmethod
    def stranger(cls):
        folder = cls.installation.dir
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        folder / "stranger.key", "-out", folder / "stranger.crt", "-subj", "/O=system:masters/CN=kcp-admin",
                        "-days", "2"], check=True, capture_output=True)
        return kit.Client(f"https://127.0.0.1:{cls.installation.port}", cls.installation.pki / "serving-ca.crt",
                          folder / "stranger.crt", folder / "stranger.key")

    @staticmethod
    def forged(cluster):
        def part(value):
            return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

        claims = {"iss": "https://kcp.default.svc", "sub": "system:serviceaccount:default:x", "exp": int(time.time()) + 900,
                  "aud": ["https://kcp.default.svc"],
                  "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "x", "uid": "u"}, "clusterName": cluster}}
        return f"{part({'alg': 'RS256'})}.{part(claims)}.AAAA"

    def ask(self, user, method, target, client=None, **headers):
        return (client or self.users[user]).request(method, target, headers={**self.headers.get(user, {}), **headers})

    def compare(self, user, method, pattern, pairs=None, client=None, **headers):
        """The answers for a name that exists and for one that does not; returns the status of both."""
        for existing, absent in pairs or self.pairs:
            one = self.ask(user, method, pattern.replace("{}", existing), client, **headers)
            other = self.ask(user, method, pattern.replace("{}", absent), client, **headers)
            what = f"{user}: {method} {pattern} of {existing}"
            self.assertEqual(view_of(one, existing.replace("%3A", ":")), view_of(other, absent.replace("%3A", ":")), what)
            # A method that nobody knows is told to whoever is known, wherever it is asked for (SE-116).
            self.assertIn(one.status, (401, 403, 405) if method == "PROPFIND" else (401, 403), what)
        return one.status

    def test_SE_T070_strangers_and_those_without_access(self):
        expected = {"bob": 403}
        for user in self.users:
            for trail in TRAILS + HEALTH + SHARDS_OWN:
                with self.subTest(user=user, trail=trail):
                    self.assertEqual(self.compare(user, "GET", "/clusters/{}" + trail), expected.get(user, 401))

    def test_SE_T070_methods_and_forms(self):
        for user in self.users:
            for method in METHODS:
                for trail in ("/api/v1/namespaces/default/configmaps", "/livez", "/metrics"):
                    with self.subTest(user=user, method=method, trail=trail):
                        self.compare(user, method, "/clusters/{}" + trail)
            for accept in ("application/yaml", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io", "x/y"):
                with self.subTest(user=user, accept=accept):
                    self.compare(user, "GET", "/clusters/{}/api/v1/namespaces/default/configmaps", Accept=accept)
            for more in ({"Impersonate-User": "ann"}, {"Impersonate-Group": "system:masters"}, {"Impersonate-User": "system:admin"},
                         {"Content-Encoding": "gzip"}, {"User-Agent": "curl/8"}, {"X-Remote-User": "kcp-admin"}):
                with self.subTest(user=user, more=more):
                    self.compare(user, "GET", "/clusters/{}/api/v1/namespaces/default/configmaps", **more)

    def test_SE_T070_shards_views_and_partitions(self):
        path = [("root:there", "root:thare"), (self.cluster, "".join(reversed(self.cluster)))]
        below = "/api/v1/configmaps"
        forms = [("/shards/shard-1/clusters/{}" + below, path), ("/services/apiexport/{}/exported/clusters/*" + below, path),
                 ("/services/apiexport/{}/exported/clusters/root" + below, path),
                 ("/services/apiexport/{}/exported/clusters/*/apis", path),
                 ("/services/apiexport/root:there/{}/clusters/*" + below, [("exported", "excepted")]),
                 ("/services/apiexport/root:there/{}/clusters/*/apis", [("exported", "excepted")]),
                 ("/services/initializingworkspaces/{}:some/clusters/*" + below, path),
                 ("/shards/shard-1/services/apiexport/{}/exported/clusters/*" + below, path),
                 ("/partitions/{}/parted/services/apiexport/root:inside/exported/clusters/*" + below, path),
                 ("/partitions/root:there/{}/services/apiexport/root:there/exported/clusters/*" + below, [("parted", "absent")])]
        for user in self.users:
            for pattern, pairs in forms:
                with self.subTest(user=user, pattern=pattern):
                    self.compare(user, "GET", pattern, pairs)

    def test_SE_160_SE_T070_wildcards_and_views_tell_strangers_nothing(self):
        """With a bad credential every path below clusters/* and virtual workspaces has one answer, whatever is there."""
        views = [f"/services/apiexport/{owner}/{name}/clusters/{of}" for owner in ("root:there", "root:thare") for name in ("exported", "excepted")
                 for of in ("*", "root", "root:there", self.cluster)]
        views += [f"/services/initializingworkspaces/{owner}:some/clusters/*" for owner in ("root:there", "root:thare")]
        asks = {"Impersonate-User": "ann", "Impersonate-Group": "system:masters"}
        for user in ("bad token", "bad JWT", "bad certificate", "none"):
            known = None
            for base in ["/clusters/*", "/clusters/%2A", *views]:
                some = [trail for trail in TRAILS[::2] + HEALTH[::3] + SHARDS_OWN[::2] if "pretty" not in trail]
                trails = some if base == "/clusters/*" else ["/api", "/api/v1/configmaps", "/livez", "/metrics", "/nothing"]
                for trail in trails:
                    for method, headers in (("GET", {}), ("POST", {}), ("DELETE", {}), ("GET", asks), ("GET", {"Impersonate-User": "bob"})):
                        answer = view_of(self.ask(user, method, base + trail, **headers), "NAME")
                        known = known or answer
                        with self.subTest(user=user, method=method, target=base + trail, headers=headers):
                            self.assertEqual(answer, known)
            self.assertEqual(known[0], 401)

    def test_SE_160_accounts_of_others_hear_the_same_of_all(self):
        """A ServiceAccount of another workspace, on the shard of the one that is asked for or not, and of none."""
        owner = self.installation.client("/clusters/root:inside")
        kit.eventually(lambda: owner.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}}).status in (201, 409))
        token = owner.must("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", {"spec": {}})["status"]["token"]
        self.installation.make_workspace("beside", selector={"name": "root"})  # on the shard that knows the account
        none = self.installation.client("", cert=None)
        kit.eventually(lambda: none.get("/clusters/root:inside/api", headers=kit.bearer(token)).status == 200, what="it is known at home")
        for trail in ("/api", "/livez", "/metrics", "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/secrets/x"):
            for method in ("GET", "POST", "DELETE"):
                seen = {}
                for name in ("root:there", "root:thare", "root:beside", "root:besyde", self.cluster, "".join(reversed(self.cluster))):
                    answer = none.request(method, f"/clusters/{name}{trail}", headers=kit.bearer(token))
                    seen.setdefault(view_of(answer, name)[:1] + (view_of(answer, name)[2],), []).append(name)
                with self.subTest(trail=trail, method=method):
                    self.assertEqual(len(seen), 1, seen)
                    self.assertEqual(next(iter(seen))[0], 403)

    def test_SE_T070_in_cluster_paths(self):
        for user, make in (("JWT", self.forged),):
            answers = []
            for cluster in (self.cluster, "".join(reversed(self.cluster))):
                answer = self.installation.client("", cert=None).get("/api/v1/pods", headers=kit.bearer(make(cluster)))
                answers.append(view_of(answer, cluster))
            self.assertEqual(answers[0], answers[1], user)
            self.assertEqual(answers[0][0], 401)

    def test_SE_T070_at_the_shard(self):
        shard = (self.installation.state / "shards/shard-1/port").read_text().strip()
        ca = self.installation.pki / "serving-ca.crt"
        bob = kit.make_user(self.installation.dir, self.installation.pki, "bob", [])
        clients = {"bob": kit.Client(f"https://127.0.0.1:{shard}", ca, *bob), "none": kit.Client(f"https://127.0.0.1:{shard}", ca),
                   "bad token": kit.Client(f"https://127.0.0.1:{shard}", ca)}
        pairs = self.pairs + [("root:inside", "root:inzide")]  # which lives on the other shard
        for user, client in clients.items():
            for trail in TRAILS + HEALTH + SHARDS_OWN:
                with self.subTest(user=user, trail=trail):
                    status = self.compare(user, "GET", "/clusters/{}" + trail, pairs, client)
                    self.assertEqual(status, 403 if user == "bob" else 401)
            for method in METHODS:
                with self.subTest(user=user, method=method):
                    self.compare(user, method, "/clusters/{}/api/v1/namespaces/default/configmaps", pairs, client)

    def test_SE_161_who_has_no_access_hears_E1(self):
        for target in ("/clusters/root:there/api/v1/pods?limit=1", "/clusters/root:thare/api/v1/pods?limit=1"):
            answer = self.ask("bob", "GET", target)
            self.assertEqual(answer.json, {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
                "details": {}, "message": f'forbidden: User "" cannot get path "{target.split("?")[0]}": workspace access not permitted'})
            self.assertNotIn("x-kintsugi-access", {name.lower() for name in answer.headers})

    def test_SE_034_health_is_for_those_with_access(self):
        path = "/clusters/root:there"
        admin = self.installation.client(path)
        kit.eventually(lambda: self.grant("carol"), what="carol may enter")
        carol = self.installation.user_client("carol", path=path)
        kit.eventually(lambda: carol.get("/livez").status == 200, what="carol has access")
        for check in ("livez", "readyz", "healthz"):
            self.assertEqual((carol.get(f"/{check}").status, carol.get(f"/{check}").body), (200, b"ok"))
            self.assertEqual(carol.get(f"/{check}?verbose").body, b"ok", "what is checked is for those with rights in root")
            self.assertIn(b"[+]ping ok", admin.get(f"/{check}?verbose").body)
            self.assertEqual(self.ask("bob", "GET", f"{path}/{check}").status, 403)
        self.assertIn("cannot list resource", carol.get("/api/v1/namespaces/default/configmaps").json["message"],
                      "who may know of it hears what is wrong")

    def grant(self, name):
        rbac = self.installation.client("/clusters/root:there/apis/rbac.authorization.k8s.io/v1")
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": f"enter-{name}"},
                "rules": [{"nonResourceURLs": ["/"], "verbs": ["access"]}]}
        binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"enter-{name}"},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"enter-{name}"},
                   "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]}
        return all(rbac.request("POST", f"/{plural}", body).status in (201, 409)
                   for plural, body in (("clusterroles", role), ("clusterrolebindings", binding)))

    def test_SE_T071_nothing_of_the_shard_below_a_cluster(self):
        """KK-T150: rights first, then 501, and 404 for what is nowhere."""
        admin = self.installation.client("/clusters/root:there")
        for path in ("/metrics", "/metrics/slis", "/debug/pprof", "/debug/pprof/heap", "/debug/flags/v", "/statusz",
                     "/debug/api_priority_and_fairness/dump_requests"):
            answer = admin.get(path)
            self.assertEqual((answer.status, answer.body), (501, b"shard-level endpoint not available at workspace scope\n"), path)
            self.assertEqual(self.ask("bob", "GET", f"/clusters/root:there{path}").status, 403, path)
        self.assertEqual(admin.request("PUT", "/debug/flags/v", "4").status, 501)
        for path in ("/debug", "/configz", "/logs/", "/flagz"):
            self.assertEqual(admin.get(path).status, 404, path)

    def test_SE_162_strangers_do_not_wait(self):
        """A path that nobody knows makes those wait who are known, for a late workspace."""
        for user in ("none", "bad token", "bad certificate"):
            spent = []
            for _ in range(5):
                begin = time.monotonic()
                self.ask(user, "GET", "/clusters/root:thare/api")
                spent.append(time.monotonic() - begin)
            known = []
            for _ in range(5):
                begin = time.monotonic()
                self.ask(user, "GET", "/clusters/root:there/api")
                known.append(time.monotonic() - begin)
            self.assertLess(min(spent), min(known) + 0.15, user)

    def test_SE_164_the_admin_socket_is_for_us_and_root(self):
        path = self.installation.state / "run/admin.sock"
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertIn(b"200 OK", self.admin(path))
        if os.geteuid() != 0:
            self.skipTest("only root can be somebody else")
        # As if modes did not protect it: another user gets no answer.
        link = self.installation.dir / "s"
        opened = [self.installation.dir, self.installation.state, path.parent, path]
        modes = [stat.S_IMODE(os.stat(one).st_mode) for one in opened]
        try:
            for one in opened:
                os.chmod(one, 0o777)
            os.symlink(path, link)
            script = ("import os, socket, sys\nos.setgid(65534); os.setuid(65534)\ns = socket.socket(socket.AF_UNIX)\n"
                      "s.connect(sys.argv[1])\ntry:\n  s.sendall(b'GET /metrics HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')\n"
                      "  print(s.recv(1000))\nexcept OSError as e:\n  print(b'')\n")
            run = subprocess.run([sys.executable, "-c", script, str(link)], capture_output=True, text=True, check=True, timeout=60)
            self.assertEqual(run.stdout.strip(), "b''")
        finally:
            for one, mode in zip(opened, modes):
                os.chmod(one, mode)

    @staticmethod
    def admin(path):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(str(path))
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n")
            return connection.recv(1000)

    def test_SE_163_texts_name_no_address_url_or_file(self):
        texts = [self.ask(user, "GET", f"/clusters/{name}{trail}").body.decode(errors="replace")
                 for user in self.users for name in ("root:there", "root:thare") for trail in ("/api", "/livez", "/metrics")]
        for text in texts:
            self.assertNotRegex(text, r"127\.0\.0\.1|https?://|/tmp/|\.cc|SSL|openssl")
            self.assertFalse(re.search(self.cluster, text), "what a path leads to")


class AsKcp(unittest.TestCase):
    def test_existence_kcp_answers_as_kcp(self):
        with kit.Installation("--existence", "kcp", shards=1) as installation:
            installation.make_workspace("there")
            none = installation.client("", cert=None)
            self.assertEqual(none.get("/clusters/root:there/api").status, 401)
            self.assertEqual(none.get("/clusters/root:thare/api").status, 403)
            bob = installation.user_client("bob", path="")
            self.assertIn("access denied", bob.get("/clusters/root:there/api").json["message"])
            self.assertEqual(bob.get("/clusters/root:there/livez").status, 200)
            self.assertEqual(none.get("/clusters/root:there/metrics").status, 501)
            for query in ("", "?pretty=true"):
                for slash in ("", "/"):
                    self.assertIn('cannot get path "/": access denied', bob.get(f"/clusters/root:there{slash}{query}").json["message"])
            # KK-075, KK-106, KK-131: what everybody may in root, and nowhere else.
            for where, allowed in (("root", True), ("root:there", None)):
                for verb, group, resource, name in (("use", "tenancy.kcp.io", "workspacetypes", "universal"),
                                                    ("bind", "apis.kcp.io", "apiexports", "topology.kcp.io"),
                                                    ("create", "tenancy.kcp.io", "workspaces", "~")):
                    review = bob.request("POST", f"/clusters/{where}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
                        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {
                            "verb": verb, "group": group, "resource": resource, "name": name}}})
                    self.assertEqual(review.json["status"]["allowed"] if review.status == 201 else None, allowed, (where, verb, review))
            for kind in ("tenancy.kcp.io/v1alpha1/workspaces", "tenancy.kcp.io/v1alpha1/workspacetypes", "core.kcp.io/v1alpha1/logicalclusters"):
                self.assertTrue(bob.must("GET", f"/clusters/root/apis/{kind}")["items"], kind)
                for path in (f"/clusters/root:there/apis/{kind}", f"/clusters/*/apis/{kind}"):
                    self.assertEqual(bob.get(path).status, 403, path)
                self.assertEqual(bob.request("DELETE", f"/clusters/root/apis/{kind}").status, 403)
            # KK-301, KK-330, KK-363, KK-366: at the shard nobody is system:anonymous, whom no role lets in.
            shard = kit.Client(installation.shard_url("root"), installation.pki / "serving-ca.crt")
            for cluster in ("root", "aaaaaaaaaaaaaaaa", "system:admin"):
                for path in ("/livez", "/readyz", "/healthz"):
                    self.assertEqual((shard.get(f"/clusters/{cluster}{path}").status, shard.get(f"/clusters/{cluster}{path}").body), (200, b"ok"))
                self.assertEqual(shard.get(f"/clusters/{cluster}/metrics").status, 501)
                for path in ("/api", "/livez/ping", "/api/v1/namespaces/default/configmaps", "/version"):
                    answer = shard.get(f"/clusters/{cluster}{path}")
                    self.assertEqual(answer.status, 403, path)
                    self.assertIn('User "system:anonymous" cannot', answer.json["message"])
                    self.assertTrue(answer.json["message"].endswith(": access denied"), answer)
                    self.assertEqual(shard.get(f"/clusters/{cluster}{path}", headers=kit.bearer("nonsense")).status, 401)
            for path in ("/metrics", "/api", "/clusters/*/api/v1/secrets", "/clusters/root/debug/pprof"):
                self.assertEqual(shard.get(path).status, 403, path)


if __name__ == "__main__":
    unittest.main()
