"""Bearer tokens that the proxy itself checks (R-17), and shards with credentials of their own."""
import json
import pathlib
import socket
import ssl
import subprocess
import unittest
import urllib.parse

import kit
from kit import bearer, token_user

CORE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def setUpModule():
    global installation
    installation = kit.Installation("--existence", "kcp", shards=2).start_for()  # refusals name the caller
    installation.make_workspace("beta", selector={"name": "shard-1"})


class Webhook(kit.JsonServer):
    """Answers TokenReviews by a table, and remembers what it was asked."""

    def __init__(self, users):
        super().__init__(installation.pki, self.review)
        self.asked, self.users, self.down = [], users, False

    def review(self, request):
        body = json.loads(request.body)
        self.asked.append((request.path, body["apiVersion"], body["spec"]["token"]))
        user = self.users.get(body["spec"]["token"])
        body["status"] = {"authenticated": True, "user": user} if user else {"authenticated": False}
        return 500 if self.down else 200, body

    def kubeconfig(self, folder):
        path = pathlib.Path(folder) / "webhook.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "w",
            "clusters": [{"name": "w", "cluster": {"server": self.url + "/authenticate",
                                                   "certificate-authority": str(installation.pki / "serving-ca.crt")}}],
            "users": [{"name": "w", "user": {}}], "contexts": [{"name": "w", "context": {"cluster": "w", "user": "w"}}]}))
        return path


class Tokens(unittest.TestCase):
    def test_a_token_file_follows_its_changes(self):
        file = installation.dir / "tokens.csv"
        file.write_text('abc,carol,uid1,"team,system:masters"\n')
        with kit.Proxy(installation, {"existence": "kcp", "authentication": {"token_file": file}}) as proxy:
            status, user = token_user(proxy, "abc")
            if status == 201:
                self.assertEqual((user["username"], user["uid"]), ("carol", "uid1"))
                self.assertEqual(set(user["groups"]), {"team", "system:authenticated"})
            else:
                self.assertEqual(status, 403)
                self.assertIn("carol", user["message"])
            self.assertEqual(token_user(proxy, "wrong")[0], 401)
            self.assertEqual(proxy.client("/clusters/root:beta", cert=None).get("/api").status, 401, "somebody has to be named")
            self.assertEqual(proxy.client("/clusters/root:beta").get("/api").status, 200, "certificates as before")
            unknown = proxy.client("/clusters/root:nowhere", cert=None).get("/api", headers=bearer("wrong"))
            self.assertEqual((unknown.status, unknown.json["reason"]), (403, "Forbidden"), "E1 goes before E5")
            kit.replace_file(file, b"def,dave,uid2\n")
            kit.eventually(lambda: token_user(proxy, "abc")[0] == 401, 5)
            self.assertIn("dave", json.dumps(token_user(proxy, "def")[1]))
            kit.replace_file(file, b"broken\n")
            kit.eventually(lambda: "tokens.csv" in proxy.text(), 5, "a line about it")
            self.assertIn("dave", json.dumps(token_user(proxy, "def")[1]))

    def test_FP_125_a_webhook_is_asked(self):
        webhook = Webhook({"good": {"username": "erin", "uid": "u", "groups": ["ops"], "extra": {"a": ["b"]}}})
        self.addCleanup(webhook.close)
        config = webhook.kubeconfig(installation.dir)
        with kit.Proxy(installation, {"existence": "kcp", "authentication": {"webhook": f"{{kubeconfig: {config}}}"}}, loops=1) as proxy:
            for _ in range(3):
                self.assertIn("erin", json.dumps(token_user(proxy, "good")[1]))
                self.assertEqual(token_user(proxy, "bad")[0], 401)
            self.assertEqual(sorted(webhook.asked), [("/authenticate", "authentication.k8s.io/v1", token) for token in ("bad", "good")])
            webhook.down = True
            answer = proxy.client(cert=None).get("/api", headers=bearer("other"))
            self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "1"))
            webhook.down = False
            self.assertEqual(token_user(proxy, "other")[0], 401, "an outage is not remembered")
        # on_failure: pass. The shard judges what failed here; a certificate that does not hold stays E5.
        with kit.Proxy(installation, {"existence": "kcp", "authentication": {"webhook": f"{{kubeconfig: {config}}}", "on_failure": "pass"}}) as proxy:
            self.assertIn("erin", json.dumps(token_user(proxy, "good")[1]))
            token = self.account_token("webhook-pass")
            self.assertIn("system:serviceaccount:default:webhook-pass", json.dumps(token_user(proxy, token)[1]))
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                            "-keyout", proxy.dir / "x.key", "-out", proxy.dir / "x.crt", "-subj", "/CN=x"], check=True,
                           capture_output=True)
            client = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root", installation.pki / "serving-ca.crt",
                                proxy.dir / "x.crt", proxy.dir / "x.key")
            self.assertEqual(client.get("/api").status, 401)

    def account_token(self, name, secret=None):
        client = installation.client("/clusters/root:beta")
        client.request("POST", f"{CORE}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        spec = {}
        if secret:
            made = client.must("POST", f"{CORE}/secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}})
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": made["metadata"]["uid"]}
        return client.must("POST", f"{CORE}/serviceaccounts/{name}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})["status"]["token"]

    def test_FP_127_tokens_of_accounts_are_checked_at_their_shard(self):
        token = self.account_token("bound", "held")
        keys = installation.pki / "service-account.key"
        with kit.Proxy(installation, {"authentication": {"service_accounts": f"{{key_files: [{keys}]}}"}}, loops=1) as proxy:
            status, user = token_user(proxy, token)
            self.assertEqual(status, 201, user)
            self.assertEqual(user["username"], "system:serviceaccount:default:bound")
            # A pod knows no workspace: its token does.
            inside = proxy.client("", cert=None).get(f"{CORE}/secrets", headers=bearer(token))
            self.assertIn(inside.status, (200, 403))
            self.assertNotIn("not permitted", inside.body.decode())
            installation.client("/clusters/root:beta").must("DELETE", f"{CORE}/secrets/held")
            clock = kit.Clock()
            kit.eventually(lambda: token_user(proxy, token)[0] == 401, 15)
            self.assertLess(clock.spent(), 12)
            fresh = self.account_token("fresh")
            self.assertEqual(token_user(proxy, fresh)[0], 201)
            other = self.account_token("unasked")
            installation.kill("shard-1", 19)
            self.addCleanup(installation.kill, "shard-1", 18)
            answer = kit.eventually(lambda: (a := proxy.client("/clusters/root", cert=None).get(
                "/api", headers=bearer(other), timeout=60)).status == 503 and a, 20)
            self.assertEqual(answer.headers["Retry-After"], "1", "not accepted while nobody can tell")


class Groups(unittest.TestCase):
    """topology.groups: these shards store none of the kinds, so what they answer is their 404."""

    PATHS = ("/apis/topology.kcp.io/v1alpha1/partitions", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices")

    def test_TP_032_who_stores_a_group(self):
        for mode, status in (("proxy", 200), ("auto", 200), ("shard", 404)):
            groups = f"{{topology.kcp.io: {mode}, apis.kcp.io: {mode}}}"
            with self.subTest(mode=mode), kit.Proxy(installation, {"topology": {"groups": groups}}) as proxy:
                client = proxy.client("/clusters/root:beta")
                for path in self.PATHS:
                    kit.eventually(lambda c=client, p=path, s=status: c.get(p).status == s, what=f"{status} of {path}")
                names = [group["name"] for group in client.must("GET", "/apis")["groups"]]
                self.assertEqual("topology.kcp.io" in names, mode != "shard")
                if mode == "shard":
                    shard = kit.Client(installation.shard_url("shard-1"), installation.pki / "serving-ca.crt",
                                       installation.pki / "admin.crt", installation.pki / "admin.key")
                    cluster = client.must("GET", CORE)["metadata"]["annotations"]["kcp.io/cluster"]
                    for path in ("/apis", "/apis/apis.kcp.io/v1alpha1", "/openapi/v3"):
                        theirs = json.dumps(shard.must("GET", f"/clusters/{cluster}{path}")).replace(cluster, "root:beta")
                        self.assertEqual(json.loads(theirs.replace("root:beta", cluster)),
                                         json.loads(json.dumps(client.must("GET", path)).replace("root:beta", cluster)), path)


class OwnCredentials(unittest.TestCase):
    def test_FP_138_shards_with_certificates_of_different_authorities(self):
        own = kit.Installation("--existence", "kcp", shards=2).start_for(self)
        own.make_workspace("far", selector={"name": "shard-1"})
        folder, pki = own.dir, own.pki

        def openssl(*args):
            subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True)

        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-keyout",
                folder / "ca.key", "-out", folder / "ca.crt", "-subj", "/CN=other-ca")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "s.key", "-out",
                folder / "s.csr", "-subj", "/CN=shard-1")
        (folder / "ext").write_text("subjectAltName=DNS:inside.example\n")
        openssl("x509", "-req", "-in", folder / "s.csr", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-set_serial", "7",
                "-days", "2", "-out", folder / "s.crt", "-extfile", folder / "ext")
        kit.make_user(folder, pki, "the-proxy", ["far-team"])
        url = urllib.parse.urlsplit(own.shard_url("shard-1"))
        host, port = url.hostname, url.port
        kit.replace_file(pki / "shard-shard-1.key", folder / "s.key")
        kit.replace_file(pki / "shard-shard-1.crt", folder / "s.crt")

        def shown():
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with socket.create_connection((host, port), timeout=60) as plain, context.wrap_socket(plain) as tls:
                return tls.getpeercert(True) == ssl.PEM_cert_to_DER_cert((folder / "s.crt").read_text())

        kit.eventually(shown, 10, "the shard has its new certificate")
        # The pair of shard-1 is used there: everybody would be whom it names, so the proxy does not start (FP-162).
        overrides = {"existence": "kcp", "shards": {"shard-1": f"{{ca_file: {folder}/ca.crt, server_name: inside.example, "
                                           f"cert_file: {folder}/user-the-proxy.crt, key_file: {folder}/user-the-proxy.key}}"}}
        refused = kit.Proxy(own, overrides)
        run = subprocess.run([str(kit.BINARY), "proxy", "--config", str(refused.dir / "proxy.yaml")], capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn('shard shard-1: the client certificate does not assert identities there: every caller would be user "the-proxy"', run.stderr)
        overrides = {"existence": "kcp", "shards": {"shard-1": f"{{ca_file: {folder}/ca.crt, server_name: inside.example}}"}}
        with kit.Proxy(own, overrides) as proxy:
            self.assertEqual(kit.eventually(lambda: (a := proxy.client("/clusters/root:far").get(CORE)).status == 200 and a, 10).status,
                             200)
            shards = subprocess.run(["curl", "-sS", "--unix-socket", str(proxy.dir / "admin.sock"), "http://admin/debug/shards"],
                                    capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertNotIn("unable to get local issuer", shards)


if __name__ == "__main__":
    unittest.main()
