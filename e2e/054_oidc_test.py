"""Tokens of OIDC and structured JWT issuers (specs/front-proxy.md 9), also by type of workspace."""
import base64
import http.server
import json
import pathlib
import ssl
import subprocess
import threading
import time
import unittest

import kit

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SELF = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
UNAVAILABLE = "the token issuer is not available yet"


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start()
    installation.make_workspace("beta", selector={"name": "shard-1"})
    grant("root:beta", [{"kind": "Group", "name": "oidc:dev"}, {"kind": "User", "name": "oidc:ann"}])


def tearDownModule():
    installation.__exit__(None, None, None)


def grant(workspace, subjects, name="issued"):
    for subject in subjects:
        subject["apiGroup"] = "rbac.authorization.k8s.io"
    installation.client(f"/clusters/{workspace}").must("POST", f"{RBAC}/clusterrolebindings", {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, "subjects": subjects})


def base64url(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=").decode()


class Issuer:
    """An issuer of RS256 tokens on a port of its own: a discovery document, keys, a path for each of them."""

    def __init__(self, running=True):
        self.folder = pathlib.Path(subprocess.run(["mktemp", "-d", "-p", installation.dir], check=True, capture_output=True,
                                                  text=True).stdout.strip())
        self.port, self.requests, self.down, self.keys = kit.free_port(), [], False, []
        self.url = f"https://127.0.0.1:{self.port}"
        self.server = None
        self.add_key("k1")
        if running:
            self.start()

    def add_key(self, kid):
        path = self.folder / f"{kid}.pem"
        subprocess.run(["openssl", "genrsa", "-out", path, "2048"], check=True, capture_output=True)
        modulus = subprocess.run(["openssl", "rsa", "-in", path, "-noout", "-modulus"], check=True, capture_output=True,
                                 text=True).stdout.strip().split("=")[1]
        self.keys.append({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": kid, "e": "AQAB", "n": base64url(bytes.fromhex(modulus))})

    def start(self):
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                issuer.requests.append(self.path)
                found = {"/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": issuer.url + "/keys"},
                         "/keys": {"keys": issuer.keys}}.get(self.path)
                text = json.dumps(found).encode()
                self.send_response(503 if issuer.down else 200 if found else 404)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(installation.pki / "proxy.crt", installation.pki / "proxy.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def close(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()

    def token(self, kid="k1", algorithm="RS256", named=None, **claims):
        claims = {"iss": self.url, "aud": "kcp", "exp": int(time.time()) + 300, "sub": "ann", **claims}
        signed = base64url({"alg": algorithm, "kid": named or kid}) + "." + base64url(claims)
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.folder / f"{kid}.pem"], input=signed.encode(),
                                   check=True, capture_output=True).stdout
        return f"{signed}.{base64url(signature)}"

    def jwt(self, prefix="oidc:", name="sub", **mappings):
        """Its element of an AuthenticationConfiguration."""
        return {"issuer": {"url": self.url, "audiences": ["kcp"],
                           "certificateAuthority": (installation.pki / "serving-ca.crt").read_text()},
                "claimMappings": {"username": {"claim": name, "prefix": prefix}, "groups": {"claim": "groups", "prefix": prefix},
                                  **mappings}}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def review(proxy, token, path="/clusters/root:beta"):
    """Status and who the shard takes the caller for."""
    answer = proxy.client(path, cert=None).request("POST", REVIEW, SELF, headers=bearer(token))
    return answer.status, answer.json["status"]["userInfo"] if answer.status == 201 else answer.json


class Flags(unittest.TestCase):
    def setUp(self):
        self.issuer = Issuer()
        self.addCleanup(self.issuer.close)

    def flags(self, **more):
        options = {"issuer-url": self.issuer.url, "client-id": "kcp", "ca-file": installation.pki / "serving-ca.crt",
                   "username-prefix": "oidc:", "groups-claim": "groups", "groups-prefix": "oidc:", **more}
        return [f"--oidc-{key.replace('_', '-')}={value}" for key, value in options.items()]

    def test_a_token_is_a_user_and_groups(self):
        with kit.Proxy(installation, flags=self.flags(required_claim="tenant=t1"), loops=1) as proxy:
            good = self.issuer.token(groups=["dev", "ops"], tenant="t1")
            status, user = review(proxy, good)
            self.assertEqual(status, 201, user)
            self.assertEqual(user["username"], "oidc:ann")
            self.assertEqual(sorted(user["groups"]), ["oidc:dev", "oidc:ops", "system:authenticated"])
            self.assertEqual(self.issuer.requests, ["/.well-known/openid-configuration", "/keys"], "fetched once")
            others = {"required claim": self.issuer.token(), "audience": self.issuer.token(aud="other", tenant="t1"),
                      "time": self.issuer.token(exp=int(time.time()) - 1, tenant="t1"), "signature": good[:-8] + "AAAAAAAA",
                      "not yet": self.issuer.token(nbf=int(time.time()) + 200, tenant="t1"),
                      "algorithm": self.issuer.token(algorithm="RS512", tenant="t1"),
                      "none": base64url({"alg": "none"}) + "." + good.split(".")[1] + ".",
                      "issuer": self.issuer.token(iss="https://issuer.example"), "no token": "opaque"}
            for why, token in others.items():
                self.assertEqual(review(proxy, token)[0], 401, why)
            self.assertEqual(proxy.client("/clusters/root:beta").get("/api").status, 200, "certificates as before")
            self.assertEqual(proxy.client("/clusters/root:beta", cert=None).get("/api").status, 401, "somebody has to be named")

    def test_the_group_filter_is_applied_and_names_get_the_issuers_url(self):
        flags = self.flags(username_prefix="", groups_prefix="") + ["--authentication-drop-groups=secret,system:masters"]
        grant("root:beta", [{"kind": "User", "name": self.issuer.url + "#bob"}], name="bob")
        with kit.Proxy(installation, flags=flags) as proxy:
            status, user = review(proxy, self.issuer.token(sub="bob", groups=["team", "secret", "system:masters"]))
            self.assertEqual(status, 201, user)
            self.assertEqual(user["username"], self.issuer.url + "#bob")
            self.assertEqual(sorted(user["groups"]), ["system:authenticated", "team"])

    def test_a_new_key_is_found(self):
        with kit.Proxy(installation, flags=self.flags(), loops=1) as proxy:
            self.assertEqual(review(proxy, self.issuer.token())[0], 201)
            self.issuer.add_key("k2")
            token = self.issuer.token(kid="k2")
            kit.eventually(lambda: review(proxy, token)[0] == 201, 12, "the issuer is asked again")
            before = len(self.issuer.requests)
            for _ in range(5):
                self.assertEqual(review(proxy, self.issuer.token(named="zz"))[0], 401)
            self.assertLessEqual(len(self.issuer.requests) - before, 2, "not for every unknown key")

    def test_FP_128_while_the_issuer_is_away_it_is_503(self):
        self.issuer.down = True
        with kit.Proxy(installation, flags=self.flags(), loops=1) as proxy:
            token = self.issuer.token()
            answer = proxy.client("/clusters/root:beta", cert=None).get("/api", headers=bearer(token))
            self.assertEqual((answer.status, answer.headers["Retry-After"], answer.json["message"]), (503, "1", UNAVAILABLE))
            self.assertEqual(review(proxy, "opaque")[0], 401)
            self.issuer.down = False
            kit.eventually(lambda: review(proxy, token)[0] == 201, 10, "without a restart")
            self.issuer.down = True
            self.assertEqual(review(proxy, self.issuer.token(jti="fresh"))[0], 201, "the keys stay")

    def test_what_is_wrong_is_one_line(self):
        def fails(*flags, change=()):
            proxy = kit.Proxy(installation, change, flags=flags)
            run = subprocess.run([kit.BINARY, "proxy", "--config", proxy.dir / "proxy.yaml", *proxy.flags], capture_output=True,
                                 text=True, timeout=20, check=False)
            self.assertEqual(run.returncode, 1, run.stderr)
            return run.stderr.strip()

        self.assertIn("must be specified together", fails("--oidc-client-id=x"))
        self.assertIn("unsupported signing alg: \"HS256\"", fails(*self.flags(signing_algs="HS256")))
        self.assertIn("jwt[0].issuer.url: Invalid value: \"http://x\": URL scheme must be https",
                      fails(*self.flags(issuer_url="http://x")))
        self.assertIn("--oidc-required-claim: \"x\" is not key=value", fails(*self.flags(required_claim="x")))
        file = self.issuer.folder / "config.yaml"
        text = {"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "AuthenticationConfiguration", "jwt": [self.issuer.jwt()]}
        file.write_text(json.dumps(text))
        self.assertIn("mutually exclusive", fails(f"--authentication-config={file}", *self.flags()))
        text["jwt"][0]["claimMappings"]["username"] = {"claim": "sub", "expression": "claims.sub"}
        file.write_text(json.dumps(text))
        self.assertIn("jwt[0].claimMappings.username: Invalid value: \"\": claim and expression can't both be set",
                      fails(f"--authentication-config={file}"))


class Structured(unittest.TestCase):
    def test_FP_125_a_configuration_is_followed(self):
        first, second = Issuer(), Issuer()
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        file = installation.dir / "authentication.yaml"

        def write(*elements):
            kit.replace_file(file, json.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
                                               "jwt": list(elements)}).encode())

        rules = first.jwt()
        rules["claimMappings"] = {"username": {"expression": "'oidc:' + claims.nick"},
                                  "groups": {"expression": "claims.roles.map(r, 'oidc:' + r)"}, "uid": {"claim": "sub"},
                                  "extra": [{"key": "example.com/team", "valueExpression": "claims.team"}]}
        rules["claimValidationRules"] = [{"expression": "claims.level > 2", "message": "level"}]
        rules["userValidationRules"] = [{"expression": "user.username != 'oidc:eve'", "message": "eve"}]
        write(rules)
        said = {"nick": "ann", "roles": ["dev"], "team": "t", "level": 3}
        with kit.Proxy(installation, {"authentication": {"config_file": file}}) as proxy:
            status, user = review(proxy, first.token(**said))
            self.assertEqual(status, 201, user)
            self.assertEqual((user["username"], user["uid"], user["extra"]["example.com/team"]), ("oidc:ann", "ann", ["t"]))
            self.assertEqual(review(proxy, first.token(**{**said, "level": 2}))[0], 401)
            self.assertEqual(review(proxy, first.token(**{**said, "nick": "eve"}))[0], 401)
            self.assertEqual(review(proxy, second.token())[0], 401)
            write(rules, second.jwt())
            kit.eventually(lambda: review(proxy, second.token())[0] == 201, 5)
            self.assertEqual(review(proxy, first.token(**said))[0], 201)
            write(second.jwt())
            kit.eventually(lambda: review(proxy, first.token(**said))[0] == 401, 5, "an issuer is gone")
            write({"issuer": {}})
            kit.eventually(lambda: "authentication.yaml" in proxy.text(), 5, "a line about it")
            self.assertEqual(review(proxy, second.token())[0], 201)


if __name__ == "__main__":
    unittest.main()
