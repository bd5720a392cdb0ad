"""Identities through the proxy: ServiceAccount tokens, impersonation, reviews, rights that are withdrawn."""
import base64
import json
import pathlib
import signal
import subprocess
import threading
import unittest

import kit
from kit import bearer

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/{}/token"


def claims_of(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Identity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.workspaces = [cls.installation.make_workspace(name) for name in ("one", "two")]
        cls.admin = cls.installation.client("/clusters/root:one")
        cls.nobody = cls.installation.client("/clusters/root:one", cert=None)
        cls.cluster = cls.workspaces[0]["spec"]["cluster"]
        kit.eventually(lambda: cls.admin.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200)

    def account(self, name):
        self.admin.must("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        self.allow(name, f"system:serviceaccount:default:{name}")

    def allow(self, name, user, verbs=("get", "list", "watch"), resources=("configmaps",)):
        """A Role for ConfigMaps of namespace default, bound to a user; waits until it holds."""
        self.admin.must("POST", f"{RBAC}/namespaces/default/roles", {
            "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": list(resources), "verbs": list(verbs)}]})
        self.admin.must("POST", f"{RBAC}/namespaces/default/rolebindings", {
            "metadata": {"name": name}, "roleRef": {"kind": "Role", "name": name},
            "subjects": [{"kind": "User", "name": user}]})

    def token(self, name, **spec):
        return self.admin.must("POST", TOKENS.format(name), {"spec": spec})["status"]["token"]

    def status(self, token, path=MAPS, client=None):
        return (client or self.nobody).get(path, headers=bearer(token)).status

    def test_service_account_with_kubectl(self):
        """kubectl --token (AM-427, AM-428, AM-430, FP-080)."""
        self.account("robot")
        self.with_kubectl(self.token("robot", expirationSeconds=900))

    def test_service_account_whose_token_kubectl_makes(self):
        """kubectl create token, then kubectl --token and what it says of itself."""
        program = kit.needs_kubectl(28, "create token and auth whoami")
        self.account("maker")
        token = self.installation.kubectl("create", "token", "maker", "--duration=15m", server="/clusters/root:one", program=program).strip()
        kubectl = self.with_kubectl(token, "maker", program)
        code, out = kubectl("auth", "whoami", "-o", "json")
        self.assertEqual(code, 0, out)
        self.assertEqual(json.loads(out)["status"]["userInfo"]["username"], "system:serviceaccount:default:maker")

    def with_kubectl(self, token, name="robot", program=None):
        """What a fresh token lets kubectl do."""
        claims = claims_of(token)
        self.assertEqual(claims["sub"], f"system:serviceaccount:default:{name}")
        self.assertEqual(claims["kubernetes.io"]["clusterName"], self.cluster)
        self.assertEqual(claims["exp"] - claims["iat"], 900)
        plain = self.installation.dir / f"{name}.kubeconfig"
        plain.write_text("apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n")

        def kubectl(*args, at="/clusters/root:one"):
            run = subprocess.run([program or kit.needs_kubectl(), f"--kubeconfig={plain}", f"--token={token}",
                                  f"--certificate-authority={self.installation.pki / 'serving-ca.crt'}",
                                  f"--cache-dir={self.installation.dir / (name + '-cache')}",
                                  f"--server=https://127.0.0.1:{self.installation.port}{at}", *args],
                                 capture_output=True, text=True, timeout=60, check=False)
            return run.returncode, run.stdout + run.stderr

        kit.eventually(lambda: kubectl("get", "configmaps")[0] == 0, what="the robot may list")
        who = self.nobody.must("POST", kit.SELF_REVIEWS, kit.SELF_REVIEW, headers=bearer(token))["status"]["userInfo"]
        self.assertEqual(who["username"], f"system:serviceaccount:default:{name}")
        self.assertIn("system:serviceaccounts:default", who["groups"])
        self.assertEqual(who["extra"]["authentication.kcp.io/scopes"], [f"cluster:{self.cluster}"])
        self.assertEqual(kubectl("get", "secrets")[0], 1)
        code, out = kubectl("get", "configmaps", at="")
        self.assertEqual(code, 0, "plain paths go to the token's own cluster (FP-129): " + out)
        code, out = kubectl("get", "configmaps", at="/clusters/root:two")
        self.assertEqual(code, 1, out)
        return kubectl

    def test_tokens_end_with_their_account(self):
        """AM-429, AM-431, AM-433: deleted and made again, bound Secrets, audiences, reviews."""
        self.account("short")
        token = self.token("short", expirationSeconds=600)
        kit.eventually(lambda: self.status(token) == 200)
        self.admin.must("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "bound"}})
        bound = self.token("short", boundObjectRef={"kind": "Secret", "apiVersion": "v1", "name": "bound"})
        self.assertEqual(self.status(bound), 200)
        self.admin.must("DELETE", "/api/v1/namespaces/default/secrets/bound")
        kit.eventually(lambda: self.status(bound) == 401, what="the bound token ends with its Secret")
        self.assertEqual(self.status(self.token("short", audiences=["vault"])), 401)
        self.assertEqual(self.status(token[:-6] + "AAAAAA"), 401)

        def review(**spec):
            return self.admin.must("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": spec})["status"]

        self.assertEqual(review(token=token)["user"]["username"], "system:serviceaccount:default:short")
        self.assertEqual(review(token="x"), {"user": {}, "error": "invalid bearer token"})
        self.assertFalse(review(token=token, audiences=["vault"]).get("authenticated", False))
        self.assertEqual(self.admin.request("POST", TOKENS.format("short"), {"spec": {"expirationSeconds": 5}}).status, 422)
        path = "/api/v1/namespaces/default/serviceaccounts"
        self.admin.must("DELETE", path + "/short")
        self.admin.must("POST", path, {"metadata": {"name": "short"}})
        self.assertEqual(self.status(token), 401)

    def test_KK_331_KK_315_KK_T127_a_token_holds_at_every_shard(self):
        """Asked at the shards themselves, past the proxy: the account's shard says whether it lives; elsewhere it is its global name."""
        self.account("traveller")
        token = self.token("traveller")
        ca, who = self.installation.pki / "serving-ca.crt", f"system:kcp:serviceaccount:{self.cluster}:default:traveller"
        homes = [kit.Client(f"{self.installation.shard_url(name)}/clusters/{self.cluster}", ca) for name in ("root", "shard-1")]
        own = next(client for client in homes if kit.eventually(lambda c=client: c.get(MAPS, headers=bearer(token)).status) == 200)
        foreign = "shard-1" if own is homes[0] else "root"
        self.installation.make_workspace("abroad", selector={"name": foreign})
        there = self.installation.client("/clusters/root:abroad")
        cluster = there.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        direct = kit.Client(f"{self.installation.shard_url(foreign)}/clusters/{cluster}", ca)
        self.assertEqual(direct.get(MAPS, headers=bearer(token)).status, 403, "known, and without rights")
        self.assertEqual(direct.get(MAPS, headers=bearer(token[:-6] + "AAAAAA")).status, 401)
        there.must("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "traveller"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}, {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
        there.must("POST", f"{RBAC}/clusterrolebindings", {
            "metadata": {"name": "traveller"}, "roleRef": {"kind": "ClusterRole", "name": "traveller"}, "subjects": [{"kind": "User", "name": who}]})
        kit.eventually(lambda: direct.get(MAPS, headers=bearer(token)).status == 200, what="its global name has the right")
        self.assertEqual(direct.get("/api/v1/namespaces/default/secrets", headers=bearer(token)).status, 403)
        review = there.must("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})["status"]
        self.assertTrue(review["authenticated"])
        self.assertEqual(review["user"]["extra"]["authentication.kcp.io/cluster-name"], [self.cluster])
        # At a virtual workspace of that shard, too: 403 is of somebody who is known.
        view = kit.Client(f"{self.installation.shard_url(foreign)}/services/apiexport/root/tenancy.kcp.io/clusters/*", ca)
        self.assertEqual(view.get("/apis", headers=bearer(token)).status, 403)
        self.assertEqual(view.get("/apis", headers=bearer(token[:-6] + "AAAAAA")).status, 401)
        self.admin.must("DELETE", "/api/v1/namespaces/default/serviceaccounts/traveller")
        kit.eventually(lambda: direct.get(MAPS, headers=bearer(token)).status == 401, 15, "it ends within ten seconds")

    def test_token_secrets(self):
        """AM-332: filled, good as a bearer token, gone with the account."""
        self.account("legacy")
        secret = "/api/v1/namespaces/default/secrets/legacy-token"
        self.admin.must("POST", "/api/v1/namespaces/default/secrets", {
            "metadata": {"name": "legacy-token", "annotations": {"kubernetes.io/service-account.name": "legacy"}},
            "type": "kubernetes.io/service-account-token"})
        data = kit.eventually(lambda: self.admin.must("GET", secret).get("data"), what="the Secret is filled")
        self.assertEqual(sorted(data), ["ca.crt", "namespace", "token"])
        token = base64.b64decode(data["token"]).decode()
        kit.eventually(lambda: self.status(token) == 200)
        self.admin.must("DELETE", "/api/v1/namespaces/default/serviceaccounts/legacy")
        kit.eventually(lambda: self.admin.get(secret).status == 404, what="the Secret goes with its account")
        self.assertEqual(self.status(token), 401)

    def test_keys_are_published(self):
        """AM-432: whoever may, gets issuer and keys; ServiceAccounts may."""
        self.account("reader")
        token = self.token("reader")
        document = self.nobody.must("GET", "/.well-known/openid-configuration", headers=bearer(token))
        self.assertEqual(document["issuer"], claims_of(token)["iss"])
        self.assertTrue(document["jwks_uri"].endswith(f"/clusters/{self.cluster}/openid/v1/jwks"), document)
        answer = self.nobody.get("/openid/v1/jwks", headers=bearer(token))
        self.assertEqual(answer.headers["Content-Type"], "application/jwk-set+json")
        self.assertEqual([key["kty"] for key in answer.json["keys"]], ["EC"])
        stranger = self.installation.user_client("stranger", path="/clusters/root:one")
        self.assertEqual(stranger.get("/openid/v1/jwks").status, 403)

    def test_keys_rotate(self):
        """Tokens of a key hold while it is in the file, on every shard, after SIGHUP."""
        self.account("rotating")
        old = self.token("rotating")
        kit.eventually(lambda: self.status(old) == 200)
        path = pathlib.Path(self.installation.pki / "service-account.key")
        first = path.read_text()
        second = subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout"], check=True,
                                capture_output=True, text=True).stdout

        def load(text):
            path.write_text(text)
            for shard in ("root", "shard-1"):
                self.installation.kill(shard, signal.SIGHUP)

        try:
            public = subprocess.run(["openssl", "pkey", "-pubout"], input=first, check=True, capture_output=True, text=True).stdout
            load(second + public)
            kit.eventually(lambda: len(self.nobody.must("GET", "/openid/v1/jwks", headers=bearer(old))["keys"]) == 2)
            new = self.token("rotating")
            self.assertEqual((self.status(old), self.status(new)), (200, 200))
            load(second)
            kit.eventually(lambda: self.status(old) == 401, what="the old key is out")
            self.assertEqual(self.status(new), 200)
        finally:
            load(first)
            kit.eventually(lambda: self.status(old) == 200)

    def test_impersonation(self):
        """AM-435, AM-436 through the proxy: user, group, uid and extras, each with its own right."""
        headers = {"Impersonate-User": "carol", "Impersonate-Group": "devs", "Impersonate-Uid": "u-1",
                   "Impersonate-Extra-Acme.org%2fteam": "blue"}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        self.admin.must("POST", f"{RBAC}/clusterrolebindings", {
            "metadata": {"name": "carol"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "name": "carol"}]})
        answer = kit.eventually(lambda: self.admin.must("POST", path, review, headers=headers))
        self.assertEqual(answer["status"]["userInfo"], {
            "username": "carol", "uid": "u-1", "groups": ["devs", "system:authenticated"],
            "extra": {"acme.org/team": ["blue"], "authentication.kcp.io/scopes": ["cluster:" + self.cluster]}})
        self.account("mallory")
        token = self.token("mallory")
        kit.eventually(lambda: self.status(token) == 200)
        refused = self.nobody.request("POST", path, review, headers=bearer(token, **{"Impersonate-User": "carol"}))
        self.assertEqual(refused.status, 403)
        self.assertIn('cannot impersonate-on:user-info:create resource "selfsubjectreviews"', refused.json["message"])
        self.assertEqual(self.admin.request("POST", path, review, headers={"Impersonate-Group": "devs"}).status, 400)

    def test_watch_ends_when_the_right_goes(self):
        """AM-312, SE-047: within 60 seconds, with ERROR 403 and the end of the stream; other watches go on."""
        self.account("watcher")
        self.account("keeper")
        tokens = {name: self.token(name) for name in ("watcher", "keeper")}
        for token in tokens.values():
            kit.eventually(lambda token=token: self.status(token) == 200)
        ended = {name: threading.Event() for name in tokens}
        begun = {name: threading.Event() for name in tokens}
        connections, last, whole = {}, {}, set()

        def watch(name):
            connection = connections[name] = self.nobody.connect(timeout=90)
            connection.request("GET", self.nobody.url.path + MAPS + "?watch=1", headers=bearer(tokens[name]))
            try:
                response = connection.getresponse()
                for line in response:
                    last[name] = json.loads(line)
                    begun[name].set()
                whole.add(name)
            except (OSError, ValueError, AttributeError):
                pass
            ended[name].set()

        threads = [threading.Thread(target=watch, args=(name,), daemon=True) for name in tokens]
        for thread in threads:
            thread.start()
        for name in tokens:
            self.assertTrue(begun[name].wait(60), f"{name} sees the present state")
        self.admin.must("DELETE", f"{RBAC}/namespaces/default/rolebindings/watcher")
        self.assertTrue(ended["watcher"].wait(60), "the watch ends")
        self.assertEqual((last["watcher"]["type"], last["watcher"]["object"]["code"], last["watcher"]["object"]["reason"]), ("ERROR", 403, "Forbidden"))
        self.assertIn('cannot watch resource "configmaps"', last["watcher"]["object"]["message"])
        self.assertIn("watcher", whole, "its stream is not reset")
        self.assertFalse(ended["keeper"].is_set())
        self.assertEqual(self.status(tokens["watcher"]), 403)
        self.assertEqual(self.status(tokens["keeper"]), 200)

    def test_audit_log(self):
        """AM-455: a shard with --audit-log writes a line per request, and none of the secrets."""
        log = self.installation.dir / "audit.jsonl"
        with (self.installation.dir / "audited.log").open("wb") as out:
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(self.installation.state), "--name", "audited",
                                      "--labels", "audited=yes", "--audit-log", str(log)], stdout=out, stderr=out)
        try:
            root = self.installation.client()
            kit.eventually(lambda: root.get("/apis/core.kcp.io/v1alpha1/shards/audited").status == 200, 20, "the shard is known")
            self.installation.make_workspace("audited", selector={"audited": "yes"})
            client = self.installation.client("/clusters/root:audited")
            client.must("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"p": "hunter2"}})

            def written(verb):
                events = [json.loads(line) for line in log.read_text().split("\n")[:-1]]
                return [event for event in events if event.get("objectRef", {}).get("resource") == "secrets"
                        and event["verb"] == verb and event["user"]["username"] != "system:apiserver"]

            event = kit.eventually(lambda: written("create"), what="the request is in the log")[0]
            self.assertEqual(event["responseStatus"]["code"], 201)
            self.assertNotIn("hunter2", log.read_text())
            log.rename(log.with_suffix(".1"))
            shard.send_signal(signal.SIGHUP)
            kit.eventually(log.exists, what="the log is opened again")
            client.must("GET", "/api/v1/namespaces/default/secrets/s")
            event = kit.eventually(lambda: written("get"), what="the request is in the new log")[0]
            self.assertEqual(event["objectRef"]["name"], "s")
        finally:
            shard.terminate()
            shard.wait(60)

    def test_forged_headers_do_nothing(self):
        """A bearer token with identity headers stays what its token says."""
        self.account("forger")
        token = self.token("forger")
        answer = self.nobody.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                                     {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
                                     headers=bearer(token, **{"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}))
        self.assertEqual(answer.json["status"]["userInfo"]["username"], "system:serviceaccount:default:forger")
        self.assertEqual(self.nobody.get(MAPS, headers={"X-Remote-User": "admin"}).status, 401)
