"""Tokens of OIDC and structured JWT issuers (R-17), also by type of workspace."""
import base64
import http.server
import json
import pathlib
import subprocess
import threading
import time
import unittest

import kit
from kit import bearer, token_user

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
UNAVAILABLE = "the token issuer is not available yet"


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()
    installation.make_workspace("beta", selector={"name": "shard-1"})
    grant("root:beta", [{"kind": "Group", "name": "oidc:dev"}, {"kind": "User", "name": "oidc:ann"}])


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

        self.server = kit.Server(Handler, installation.pki, self.port)
        return self

    def close(self):
        if self.server:
            self.server.close()

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
            status, user = token_user(proxy, good)
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
                self.assertEqual(token_user(proxy, token)[0], 401, why)
            self.assertEqual(proxy.client("/clusters/root:beta").get("/api").status, 200, "certificates as before")
            self.assertEqual(proxy.client("/clusters/root:beta", cert=None).get("/api").status, 401, "somebody has to be named")

    def test_the_group_filter_is_applied_and_names_get_the_issuers_url(self):
        flags = self.flags(username_prefix="", groups_prefix="") + ["--authentication-drop-groups=secret,system:masters"]
        grant("root:beta", [{"kind": "User", "name": self.issuer.url + "#bob"}], name="bob")
        with kit.Proxy(installation, flags=flags) as proxy:
            status, user = token_user(proxy, self.issuer.token(sub="bob", groups=["team", "secret", "system:masters"]))
            self.assertEqual(status, 201, user)
            self.assertEqual(user["username"], self.issuer.url + "#bob")
            self.assertEqual(sorted(user["groups"]), ["system:authenticated", "team"])

    def test_a_new_key_is_found(self):
        with kit.Proxy(installation, flags=self.flags(), loops=1) as proxy:
            self.assertEqual(token_user(proxy, self.issuer.token())[0], 201)
            self.issuer.add_key("k2")
            token = self.issuer.token(kid="k2")
            kit.eventually(lambda: token_user(proxy, token)[0] == 201, 12, "the issuer is asked again")
            before = len(self.issuer.requests)
            for _ in range(5):
                self.assertEqual(token_user(proxy, self.issuer.token(named="zz"))[0], 401)
            self.assertLessEqual(len(self.issuer.requests) - before, 2, "not for every unknown key")

    def test_FP_128_while_the_issuer_is_away_it_is_503(self):
        self.issuer.down = True
        with kit.Proxy(installation, flags=self.flags(), loops=1) as proxy:
            token = self.issuer.token()
            answer = proxy.client("/clusters/root:beta", cert=None).get("/api", headers=bearer(token))
            self.assertEqual((answer.status, answer.headers["Retry-After"], answer.json["message"]), (503, "1", UNAVAILABLE))
            self.assertEqual(token_user(proxy, "opaque")[0], 401)
            self.issuer.down = False
            kit.eventually(lambda: token_user(proxy, token)[0] == 201, 10, "without a restart")
            self.issuer.down = True
            self.assertEqual(token_user(proxy, self.issuer.token(jti="fresh"))[0], 201, "the keys stay")

    def test_what_is_wrong_is_one_line(self):
        def fails(*flags, change=()):
            proxy = kit.Proxy(installation, change, flags=flags)
            run = subprocess.run([kit.BINARY, "proxy", "--config", proxy.dir / "proxy.yaml", *proxy.flags], capture_output=True,
                                 text=True, timeout=60, check=False)
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
            status, user = token_user(proxy, first.token(**said))
            self.assertEqual(status, 201, user)
            self.assertEqual((user["username"], user["uid"], user["extra"]["example.com/team"]), ("oidc:ann", "ann", ["t"]))
            for why, token in (("rule of claims", first.token(**{**said, "level": 2})), ("rule of users", first.token(
                    **{**said, "nick": "eve"})), ("no issuer of ours", second.token())):
                status, body = token_user(proxy, token)
                self.assertEqual(status, 401, f"{why}: {body}")
            first.down = True
            write(rules, second.jwt())
            kit.eventually(lambda: token_user(proxy, second.token())[0] == 201, 5)
            for number in range(6):  # of both loops
                status, user = token_user(proxy, first.token(jti=str(number), **said))
                self.assertEqual(status, 201, f"its keys stay while it is away: {user}")
            write(second.jwt())
            kit.eventually(lambda: token_user(proxy, first.token(**said))[0] == 401, 5, "an issuer is gone")
            write({"issuer": {}})
            kit.eventually(lambda: "authentication.yaml" in proxy.text(), 5, "a line about it")
            self.assertEqual(token_user(proxy, second.token())[0], 201)


def configure(workspace, name, *elements):
    """A WorkspaceAuthenticationConfiguration."""
    return installation.client(f"/clusters/{workspace}").request("POST", f"{TENANCY}/workspaceauthenticationconfigurations", {
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceAuthenticationConfiguration", "metadata": {"name": name},
        "spec": {"jwt": list(elements)}})


def make_type(workspace, name, *configurations):
    installation.client(f"/clusters/{workspace}").must("POST", f"{TENANCY}/workspacetypes", {
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": name},
        "spec": {"authenticationConfigurations": [{"name": each} for each in configurations]}})


def make_typed(parent, name, kind, shard):
    """A workspace of a type; returns the name of its logical cluster."""
    client = installation.client(f"/clusters/{parent}")

    def made():
        answer = client.request("POST", f"{TENANCY}/workspaces", {
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
            "spec": {"type": {"name": kind, "path": parent}, "location": {"selector": {"matchLabels": {"name": shard}}}}})
        assert answer.status == 201, answer
        return True

    def ready():
        workspace = client.must("GET", f"{TENANCY}/workspaces/{name}")
        assert workspace.get("status", {}).get("phase") == "Ready", workspace
        assert installation.client(f"/clusters/{parent}:{name}").get("/api/v1/namespaces/default").status == 200
        return workspace["spec"]["cluster"]

    kit.eventually(made, 10, "the shard knows the type")
    return kit.eventually(ready, 20, f"{parent}:{name} is ready")


class Workspaces(unittest.TestCase):
    """R-19."""

    @classmethod
    def setUpClass(cls):
        cls.a, cls.b = Issuer(), Issuer()
        for issuer in (cls.a, cls.b):
            cls.addClassCleanup(issuer.close)
        installation.make_workspace("types", selector={"name": "shard-1"})
        for name, element in (("a", cls.a.jwt(name="email")), ("b", cls.b.jwt(name="email"))):
            assert configure("root:types", name, element).status == 201
        make_type("root:types", "type-a", "a")
        make_type("root:types", "type-b", "b")
        make_type("root:types", "type-c", "a", "b")
        cls.clusters = {name: make_typed("root:types", f"team-{name}", f"type-{name}", shard)
                        for name, shard in (("a", "root"), ("b", "shard-1"), ("c", "root"))}
        # As in kcp's own test: the developers of A and B in each, besides single users.
        for name, users, groups in (("a", ["user-a"], ["developers"]), ("b", ["user-b"], ["developers", "testers"]),
                                    ("c", ["user-c"], ["developers"])):
            grant(f"root:types:team-{name}", [{"kind": "User", "name": f"oidc:{user}@example.com"} for user in users]
                  + [{"kind": "Group", "name": f"oidc:{group}"} for group in groups])
        cls.proxy = kit.Proxy(installation, {"authentication": {"workspaces": "true"}, "outgoing": {"allow": "[127.0.0.1]"}})
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)

    def status(self, team, token=None, proxy=None):
        client = (proxy or self.proxy).client(f"/clusters/root:types:team-{team}", cert=None)
        return client.get("/api/v1/namespaces/default/configmaps", headers=bearer(token) if token else None).status

    def test_FP_073_issuers_by_type(self):
        for team in "abc":
            self.assertEqual(self.proxy.client(f"/clusters/root:types:team-{team}").get("/api").status, 200, "certificates as before")
            self.assertEqual(self.status(team), 401, "nobody without a token")
            self.assertEqual(self.status(team, "invalid-token"), 401)
        cases = [("user-a of A", self.a, "user-a", [], {"a": 200, "b": 401, "c": 403}),
                 ("user-b of B", self.b, "user-b", [], {"a": 401, "b": 200, "c": 403}),
                 ("developer of A", self.a, "rando", ["developers"], {"a": 200, "b": 401, "c": 200}),
                 ("developer of B", self.b, "rando", ["developers"], {"a": 401, "b": 200, "c": 200}),
                 ("user-c of A", self.a, "user-c", [], {"a": 403, "b": 401, "c": 200}),
                 ("user-c of B", self.b, "user-c", [], {"a": 401, "b": 403, "c": 200}),
                 ("system groups", self.b, "hacker", ["system:kcp:admin", "system:masters"], {"a": 401, "b": 403, "c": 403})]
        for why, issuer, user, groups, expected in cases:
            token = issuer.token(email=f"{user}@example.com", groups=groups)
            self.assertEqual({team: self.status(team, token) for team in "abc"}, expected, why)
        by_name = self.proxy.client("/clusters/" + self.clusters["a"], cert=None).get("/api", headers=bearer(
            self.a.token(email="user-a@example.com")))
        self.assertEqual(by_name.status, 200, "by the cluster's name, too")
        elsewhere = self.proxy.client("/clusters/root:beta", cert=None).get("/api", headers=bearer(self.a.token(email="x")))
        self.assertEqual(elsewhere.status, 401, "the shard's answer to a token that it does not know")

    def test_FP_074_KK_120_KK_T060_no_system_from_an_issuer_without_prefixes(self):
        issuer = Issuer()
        self.addCleanup(issuer.close)
        self.assertEqual(configure("root:types", "evil", issuer.jwt(prefix="", name="email")).status, 201)
        make_type("root:types", "type-evil", "evil")
        make_typed("root:types", "team-evil", "type-evil", "shard-1")
        grant("root:types:team-evil", [{"kind": "User", "name": "dummy@example.com"}])
        kit.eventually(lambda: self.status("evil", issuer.token(email="dummy@example.com")) == 200, 5)
        for email, groups, status in (("al@bundy.com", ["system:masters"], 403), ("al@bundy.com", ["system:kcp:admin"], 403),
                                      ("shard-admin", [], 403), ("system:admin", [], 401),
                                      ("system:serviceaccount:default:default", [], 401)):
            self.assertEqual(self.status("evil", issuer.token(email=email, groups=groups)), status, email)

    def test_FP_075_KK_120_KK_T060_who_such_a_user_is(self):
        issuer = Issuer()
        self.addCleanup(issuer.close)
        extra = [{"key": key, "valueExpression": "'forged'"} for key in ("authentication.kcp.io/scopes", "kcp.io/test",
                                                                           "other.example.com/test")]
        self.assertEqual(configure("root:types", "extra", issuer.jwt(name="email", extra=extra)).status, 201)
        make_type("root:types", "type-extra", "extra")
        cluster = make_typed("root:types", "team-extra", "type-extra", "root")
        grant("root:types:team-extra", [{"kind": "User", "name": "oidc:peter@example.com"}])
        token = issuer.token(email="peter@example.com", groups=["developers", "admins", "system:masters"])
        path = "/clusters/root:types:team-extra"
        kit.eventually(lambda: token_user(self.proxy, token, path)[0] == 201, 5)
        user = token_user(self.proxy, token, path)[1]
        self.assertEqual(user["username"], "oidc:peter@example.com")
        self.assertEqual(sorted(user["groups"]), ["oidc:admins", "oidc:developers", "oidc:system:masters", "system:authenticated"])
        self.assertEqual(user["extra"], {"authentication.kcp.io/scopes": [f"cluster:{cluster}"],
                                         "authentication.kcp.io/cluster-name": [cluster], "other.example.com/test": ["forged"]})

        # The scope is what limits such a user at a shard, whatever a role elsewhere says.
        grant("root:beta", [{"kind": "User", "name": "oidc:peter@example.com"}], name="peter")
        shard = kit.Client(installation.shard_url("shard-1"), installation.pki / "serving-ca.crt",
                           installation.pki / "proxy-requestheader.crt", installation.pki / "proxy-requestheader.key")
        stamp = {"X-Remote-User": "oidc:peter@example.com", "X-Remote-Group": "system:authenticated"}
        scoped = {**stamp, "X-Remote-Extra-authentication.kcp.io%2Fscopes": f"cluster:{cluster}"}
        other = "/clusters/root:beta/api/v1/namespaces/default/configmaps"
        kit.eventually(lambda: shard.get(other, headers=stamp).status == 200, 5)
        self.assertEqual(shard.get(other, headers=scoped).status, 403)

    def test_FP_077_a_token_review_in_that_workspace(self):
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"

        def status(client, token, **spec):
            answer = client.request("POST", path, {**kind, "spec": {"token": token, **spec}})
            self.assertEqual(answer.status, 201, answer)
            return answer.json["status"]

        token = self.a.token(email="user-a@example.com", groups=["developers", "system:masters"])
        client = self.proxy.client("/clusters/root:types:team-a")
        found = status(client, token)
        self.assertTrue(found["authenticated"], found)
        self.assertEqual(found["user"], token_user(self.proxy, token, "/clusters/root:types:team-a")[1], "who the token's user is")
        for wrong in (token[:-6] + "AAAAAA", "opaque", self.b.token(email="user-b@example.com")):
            self.assertFalse(status(client, wrong).get("authenticated", False), wrong)
        self.assertFalse(status(client, token, audiences=["other"]).get("authenticated", False))
        self.assertFalse(status(self.proxy.client("/clusters/root:beta"), token).get("authenticated", False), "elsewhere")
        account = installation.client("/clusters/root:types:team-a")
        account.request("POST", "/api/v1/namespaces/default/serviceaccounts", {
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reviewed"}})
        made = account.must("POST", "/api/v1/namespaces/default/serviceaccounts/reviewed/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        self.assertEqual(status(client, made)["user"]["username"], "system:serviceaccount:default:reviewed", "the shard knows it")
        outsider = self.proxy.client("/clusters/root:types:team-a", cert=None).request(
            "POST", path, {**kind, "spec": {"token": token}}, headers=bearer(self.a.token(email="nobody@example.com")))
        self.assertEqual(outsider.status, 403, "who may not review learns nothing")

    def test_KK_120_KK_T060_a_shard_knows_the_issuers_of_a_workspaces_type(self):
        """TokenReview at the shard itself, past the proxy, also where the type's workspace is on another shard: user, extras, audience."""
        kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        shards = {"a": "root", "b": "shard-1", "c": "root"}

        def review(team, token, cluster=None, **spec):
            pki, cluster = installation.pki, cluster or self.clusters[team]
            client = kit.Client(f"{installation.shard_url(shards[team])}/clusters/{cluster}", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")
            answer = client.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {**kind, "spec": {"token": token, **spec}})
            self.assertEqual(answer.status, 201, answer)
            return answer.json["status"]

        for team, issuer in (("a", self.a), ("b", self.b), ("c", self.b)):
            token = issuer.token(email="user@example.com", groups=["developers", "system:masters"])
            found = kit.eventually(lambda t=team, k=token: (s := review(t, k)).get("authenticated") and s, what=f"the shard of team-{team} knows its issuer")
            self.assertEqual(found["user"]["username"], "oidc:user@example.com")
            self.assertEqual(sorted(found["user"]["groups"]), ["oidc:developers", "oidc:system:masters", "system:authenticated"])
            self.assertEqual(found["user"]["extra"], {"authentication.kcp.io/scopes": [f"cluster:{self.clusters[team]}"],
                                                      "authentication.kcp.io/cluster-name": [self.clusters[team]]})
            self.assertEqual(found["audiences"], ["https://kcp.default.svc"])
            self.assertEqual(review(team, token, audiences=["https://kcp.default.svc", "x"])["audiences"], ["https://kcp.default.svc"])
            self.assertEqual(review(team, token, audiences=["other"]), {"user": {}, "error": "invalid bearer token"})
            self.assertEqual(review(team, token[:-6] + "AAAAAA"), {"user": {}, "error": "invalid bearer token"})
            outside = kit.Client(f"{installation.shard_url(shards[team])}/clusters/{self.clusters[team]}", installation.pki / "serving-ca.crt")
            self.assertEqual(outside.get("/api", headers=bearer(token)).status, 401, "a request with it comes by the proxy")
        self.assertFalse(review("a", self.b.token(email="user@example.com")).get("authenticated", False), "another type's issuer")
        self.assertFalse(review("a", self.a.token(email="user@example.com"), cluster="root").get("authenticated", False), "another workspace")

    def test_FP_076_what_a_configuration_may_say(self):
        def element(username, groups):
            return {"issuer": {"url": "https://example.com"}, "claimMappings": {"username": username, "groups": groups}}

        both = "claim and expression cannot both be specified"
        cases = [("empty", [None], "spec.jwt"), ("claim", [element({"claim": "email"}, {"claim": "groups"})], None),
                 ("expression", [element({"expression": "concat('oidc:', email)"}, {"expression": "groups"})], None),
                 ("both", [element({"claim": "e", "expression": "x"}, {"claim": "r", "expression": "g"})], both),
                 ("prefix", [element({"expression": "x", "prefix": "p:"}, {"expression": "g", "prefix": "p:"})],
                  "prefix can only be specified when claim is specified")]
        for name, elements, fault in cases:
            answer = configure("root:types", name, *elements)
            self.assertEqual(answer.status, 422 if fault else 201, answer)
            if fault:
                self.assertIn(fault, answer.json["message"])
        client = installation.client("/clusters/root:types")
        for spec in ({}, {"jwt": None}):
            answer = client.request("POST", f"{TENANCY}/workspaceauthenticationconfigurations", {
                "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceAuthenticationConfiguration", "metadata": {"name": "e"},
                "spec": spec})
            self.assertEqual(answer.status, 422, answer)
            self.assertIn("spec.jwt: Required value", answer.json["message"])

    def test_FP_128_SE_048_changes_act_within_a_second(self):
        issuer = Issuer()
        self.addCleanup(issuer.close)
        issuer.down = True
        self.assertEqual(configure("root:types", "later", issuer.jwt(name="email")).status, 201)
        make_type("root:types", "type-later")
        make_typed("root:types", "team-later", "type-later", "root")
        grant("root:types:team-later", [{"kind": "User", "name": "oidc:ann"}])
        token = issuer.token(email="ann")
        self.assertEqual(self.status("later", token), 401, "the shard judges")
        types = installation.client("/clusters/root:types")

        def change(names):
            types.must("PATCH", f"{TENANCY}/workspacetypes/type-later", {"spec": {"authenticationConfigurations": [
                {"name": name} for name in names]}}, headers={"Content-Type": "application/merge-patch+json"})
            return kit.Clock()

        clock = change(["later"])
        client = self.proxy.client("/clusters/root:types:team-later", cert=None)
        answer = kit.eventually(lambda: (a := client.get("/api", headers=bearer(token))).status == 503 and a, 5)
        self.assertLess(clock.spent(), 1.5)
        self.assertEqual((answer.headers["Retry-After"], answer.json["message"]), ("1", UNAVAILABLE))
        issuer.down = False
        kit.eventually(lambda: self.status("later", token) == 200, 10, "without a restart")

        def watched():
            connection = client.connect(30)
            self.addCleanup(connection.close)
            connection.request("GET", client.url.path + "/api/v1/namespaces/default/configmaps?watch=1", headers=bearer(token))
            return (found := connection.getresponse()).status == 200 and found

        watch = kit.eventually(watched, 10, "the other loop has the keys, too")
        clock = change([])
        kit.eventually(lambda: self.status("later", token) == 401, 5)
        self.assertLess(clock.spent(), 1.5)
        self.assertNotIn(b'"ERROR"', watch.read(), "what is no identity any more ends in order")
        self.assertLess(clock.spent(), 15)
        clock = change(["later"])
        kit.eventually(lambda: self.status("later", token) == 200, 5)
        types.must("DELETE", f"{TENANCY}/workspaceauthenticationconfigurations/later")
        kit.eventually(lambda: self.status("later", token) == 401, 5)

    def test_SE_048_SE_T027_running_watches_end_with_the_issuer_of_their_workspace(self):
        """The type names another configuration, none, the configuration changes or goes: within 15 s, with a bookmark; others go on."""
        issuer, other = Issuer(), Issuer()
        self.addCleanup(issuer.close)
        self.addCleanup(other.close)
        self.assertEqual(configure("root:types", "wary", issuer.jwt(name="email")).status, 201)
        self.assertEqual(configure("root:types", "wary-too", other.jwt(name="email")).status, 201)
        make_type("root:types", "type-wary", "wary")
        make_typed("root:types", "team-wary", "type-wary", "shard-1")
        grant("root:types:team-wary", [{"kind": "User", "name": "oidc:ann"}])
        types, patch = installation.client("/clusters/root:types"), {"Content-Type": "application/merge-patch+json"}
        token, elsewhere = issuer.token(email="ann"), self.a.token(email="user-a@example.com")
        configuration = f"{TENANCY}/workspaceauthenticationconfigurations/wary"
        before = types.must("GET", configuration)["spec"]

        def name(*names):
            return lambda: types.must("PATCH", f"{TENANCY}/workspacetypes/type-wary", {"spec": {"authenticationConfigurations": [
                {"name": one} for one in names]}}, headers=patch)

        def judge_by(spec):
            return lambda: types.must("PATCH", configuration, {"spec": spec}, headers=patch)

        audience = json.loads(json.dumps(before))
        audience["jwt"][0]["issuer"]["audiences"] = ["somebody else"]
        for what, change, back in (("none", name(), name("wary")), ("another", name("wary-too"), name("wary")),
                                   ("another audience", judge_by(audience), judge_by(before)),
                                   ("another issuer", judge_by({"jwt": [other.jwt(name="email")]}), judge_by(before)),
                                   ("gone", lambda: types.must("DELETE", configuration), lambda: configure("root:types", "wary", *before["jwt"]))):
            with self.subTest(change=what):
                kit.eventually(lambda: self.status("wary", token) == 200, 10, "ann may read")
                watches = [self.watch("team-wary", token), self.watch("team-wary", token), self.watch("team-a", elsewhere)]
                kit.eventually(lambda: all(events for _, events in watches), 10, "the watches run")
                clock = kit.Clock()
                change()
                for thread, events in watches[:2]:
                    thread.join(20)
                    self.assertFalse(thread.is_alive(), "it goes on")
                    self.assertLess(clock.spent(), 15)
                    self.assertEqual([event["type"] for event in events][-1], "BOOKMARK", events[-1])
                self.assertEqual(self.status("wary", token), 401)
                self.assertTrue(watches[2][0].is_alive(), "of another type")
                back()

    def watch(self, team, token):
        """A thread that reads a watch of ConfigMaps to its end, and its events."""
        client, events = self.proxy.client(f"/clusters/root:types:{team}", cert=None), []

        def read():
            connection = client.connect(60)
            try:
                connection.request("GET", f"{client.url.path}/api/v1/namespaces/default/configmaps?watch=1&allowWatchBookmarks=true"
                                   "&timeoutSeconds=50", headers=bearer(token))
                for line in connection.getresponse():
                    if line.strip():
                        events.append(json.loads(line))
            finally:
                connection.close()

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        return thread, events

    def test_kintsugi_up_knows_them_and_the_shard_its_accounts(self):
        token, account = self.a.token(email="user-a@example.com"), installation.client("/clusters/root:types:team-a")
        client = installation.client("/clusters/root:types:team-a", cert=None)
        path = "/api/v1/namespaces/default/configmaps"
        kit.eventually(lambda: client.get(path, headers=bearer(token)).status == 200, 5)
        account.request("POST", "/api/v1/namespaces/default/serviceaccounts", {
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
        robot = account.must("POST", "/api/v1/namespaces/default/serviceaccounts/robot/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        self.assertEqual(client.get(path, headers=bearer(robot)).status, 403, "known, without a role")
        self.assertEqual(client.get(path, headers=bearer(self.b.token(email="user-b@example.com"))).status, 401)
        self.assertIn(client.get(path).status, (401, 403))

    def test_the_gate_is_kcps(self):
        token = self.a.token(email="user-a@example.com")
        with kit.Proxy(installation) as proxy:
            self.assertEqual(self.status("a", token, proxy), 401, "off: the shard does not know it")
        with kit.Proxy(installation, {"outgoing": {"allow": "[127.0.0.1]"}},
                       flags=["--feature-gates=WorkspaceAuthentication=true"]) as proxy:
            kit.eventually(lambda: self.status("a", token, proxy) == 200, 5)


if __name__ == "__main__":
    unittest.main()
