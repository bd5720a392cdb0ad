"""The proxy never lends its own identity: a pair by which callers would become its owner is refused at the start and at a reload,
and what is asked of servers for a caller is asked as the caller."""
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()
    installation.make_workspace("beta", selector={"name": "shard-1"})


def pair_of(name, groups=()):
    return kit.make_user(installation.dir, installation.pki, name, groups)


# Whom the shards would take every caller for.
OWNERS = (("kcp-admin", ("system:kcp:admin",)), ("shard-admin", ("system:masters",)), ("just-somebody", ()),
          ("kintsugi-backend-check", ()), ("x-kintsugi-backend-check-0123456789abcdef-x", ("system:masters",)))


LOGICAL = "/apis/core.kcp.io/v1alpha1/logicalclusters"
APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
# SE-148, line by line: what a proxy asks, below clusters/* and below one logical cluster.
READS = (LOGICAL, "/apis/tenancy.kcp.io/v1alpha1/workspaces", "/apis/tenancy.kcp.io/v1alpha1/workspacetypes",
         "/apis/tenancy.kcp.io/v1alpha1/workspaceauthenticationconfigurations", APIS + "/apiexports", APIS + "/apibindings",
         "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices",
         "/apis/cache.kcp.io/v1alpha1/clustercachedresourceendpointslices", "/apis/topology.kcp.io/v1alpha1/partitions",
         "/apis/topology.kcp.io/v1alpha1/partitionsets")
RIGHTS = tuple(f"{RBAC}/{kind}" for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings"))
PATHS = ("/livez", "/readyz", "/version", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v3")
REVIEWS = {
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {"kind": "SubjectAccessReview", "spec": {
        "user": "x", "resourceAttributes": {"verb": "get", "resource": "secrets"}}},
    "/apis/authentication.k8s.io/v1/tokenreviews": {"kind": "TokenReview", "spec": {"token": "nonsense"}},
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": {"kind": "SelfSubjectReview"}}


class Role(unittest.TestCase):
    """SE-T011: the proxy's certificate in somebody's hands."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = installation.client("/clusters/root:beta").must("GET", LOGICAL + "/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        cls.installation_pair = (installation.pki / "kintsugi-proxy.crt", installation.pki / "kintsugi-proxy.key")

    def at(self, shard, path="", pair=None):
        return kit.Client(installation.shard_url(shard) + path, installation.pki / "serving-ca.crt", *(pair or self.installation_pair))

    def everywhere(self):
        for shard, clusters in (("root", ("*", "root")), ("shard-1", ("*", self.cluster))):
            for cluster in clusters:
                yield f"{shard} {cluster}", cluster, self.at(shard, f"/clusters/{cluster}")

    def begun(self, client, path):
        """The status of a watch, which is not waited for."""
        connection = client.connect()
        try:
            connection.request("GET", client.url.path + path)
            return connection.getresponse().status
        finally:
            connection.close()

    def test_SE_T011_all_of_its_list_is_allowed(self):
        for where, cluster, client in self.everywhere():
            # Kinds that this shard does not have are 404, for who may do anything too.
            anybody = self.at(where.split()[0], f"/clusters/{cluster}", (installation.pki / "shard-admin.crt", installation.pki / "shard-admin.key"))
            served = 0
            for path in READS + RIGHTS:
                with self.subTest(where=where, path=path):
                    status = anybody.get(path).status
                    self.assertIn(status, (200, 404))
                    self.assertEqual(client.get(path).status, status)
                    self.assertEqual(self.begun(client, path + "?watch=true"), status)
                    served += status == 200
            self.assertGreaterEqual(served, 10)
            for path in PATHS:
                with self.subTest(where=where, path=path):
                    status = anybody.get(path).status
                    self.assertIn(status, (200, 404))
                    self.assertEqual(client.get(path).status, status)
            if cluster == "*":
                continue
            self.assertEqual(client.get(LOGICAL + "/cluster").status, 200)
            for path, body in REVIEWS.items():
                with self.subTest(where=where, path=path):
                    group, version = path.split("/")[2:4]
                    headers = {"X-Kcp-Internal-Deep-SubjectAccessReview": "true"}
                    answer = client.request("POST", path, {"apiVersion": f"{group}/{version}", **body}, headers=headers)
                    self.assertEqual(answer.status, 201, answer.body)
        self.assertEqual(self.at("root", "/clusters/root").get("/apis/core.kcp.io/v1alpha1/shards").status, 200)

    def test_SE_T011_beyond_its_list_is_403(self):
        objects = {"configmaps": "v1", "secrets": "v1", "serviceaccounts": "v1"}
        for where, cluster, client in self.everywhere():
            refused = [("GET", "/api/v1/" + kind, None) for kind in (*objects, "namespaces", "events")]
            refused += [("GET", path, None) for path in (
                "/apis/apps/v1/deployments", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/metrics", "/debug/pprof",
                "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", "/logs")]
            if cluster != "*":
                refused += [("GET", f"/api/v1/namespaces/default/{kind}/x", None) for kind in objects]
                refused += [("POST", f"/api/v1/namespaces/default/{kind}", {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}})
                            for kind, version in objects.items()]
                refused += [("GET", f"{RBAC}/clusterroles/cluster-admin", None), ("GET", APIS + "/apiexports/x/status", None),
                            ("POST", "/api/v1/namespaces/default/serviceaccounts/default/token",
                             {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}),
                            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                             {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}),
                            ("POST", RBAC + "/clusterrolebindings", {
                                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "mine"},
                                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "kintsugi-proxy"}]})]
                for path in READS:
                    group, version, kind = path.split("/")[2:]
                    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "mine"}, "spec": {}}
                    refused += [("POST", path, body), ("PUT", path + "/mine", body), ("DELETE", path + "/mine", None), ("DELETE", path, None)]
            for method, path, body in refused:
                with self.subTest(where=where, method=method, path=path):
                    answer = client.request(method, path, body)
                    # What belongs to the shard is in no cluster for anybody.
                    allowed = (403, 501) if path in ("/metrics", "/debug/pprof") else (403,)
                    self.assertIn(answer.status, allowed, answer.body)
            for headers in ({"Impersonate-User": "kcp-admin"}, {"Impersonate-User": "x", "Impersonate-Group": "system:masters"}):
                for path in (LOGICAL, "/api/v1/configmaps"):
                    with self.subTest(where=where, headers=headers, path=path):
                        self.assertEqual(client.get(path, headers=headers).status, 403)

    def test_SE_T011_no_binding_of_a_tenant_gives_it_more(self):
        tenant = installation.client("/clusters/root:beta")
        tenant.must("POST", RBAC + "/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "for-the-proxy"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "kintsugi-proxy"},
                         {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:kintsugi:proxy"},
                         {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}]})
        other = kit.Client(installation.shard_url("shard-1") + f"/clusters/{self.cluster}", installation.pki / "serving-ca.crt", *pair_of("anybody"))
        kit.eventually(lambda: other.get(MAPS).status == 200, 10, "the binding acts for others")
        client = self.at("shard-1", f"/clusters/{self.cluster}")
        self.assertEqual(client.get(MAPS).status, 403)
        self.assertEqual(client.get("/api/v1/namespaces/default/secrets").status, 403)
        tenant.must("DELETE", RBAC + "/clusterrolebindings/for-the-proxy")

    def test_SE_T012_a_role_counts_by_its_certificate_at_a_shard_alone(self):
        """At the proxy it is nobody's; and who may assert identities cannot assert this one."""
        at_proxy = kit.Client(f"https://127.0.0.1:{installation.port}/clusters/root", installation.pki / "serving-ca.crt", *self.installation_pair)
        for path in (LOGICAL, READS[1], MAPS):
            self.assertEqual(at_proxy.get(path).status, 403, path)
        front = (installation.pki / "proxy-requestheader.crt", installation.pki / "proxy-requestheader.key")
        for groups in ("system:kintsugi:proxy", "system:kintsugi:reader"):
            client = self.at("shard-1", f"/clusters/{self.cluster}", front)
            headers = {"X-Remote-User": "kintsugi-proxy", "X-Remote-Group": groups}
            for path in (LOGICAL, READS[1], "/api/v1/secrets"):
                self.assertEqual(client.get(path, headers=headers).status, 403, (groups, path))
        asserts = self.at("shard-1", f"/clusters/{self.cluster}").get(MAPS, headers={"X-Remote-User": "kcp-admin", "X-Remote-Group": "system:masters"})
        self.assertEqual(asserts.status, 403)

    def test_SE_148_who_reads_for_reviewed_callers_writes_and_reviews_nothing(self):
        reader = pair_of("kintsugi-proxy-reviewed", ("system:kintsugi:reader",))
        for cluster in ("*", self.cluster):
            client = self.at("shard-1", f"/clusters/{cluster}", reader)
            for path in ("/api/v1/configmaps", "/api/v1/secrets", LOGICAL):
                self.assertEqual(client.get(path).status, 200, path)
        for path, body in REVIEWS.items():
            group, version = path.split("/")[2:4]
            self.assertEqual(client.request("POST", path, {"apiVersion": f"{group}/{version}", **body}).status, 403, path)
        maps = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
        self.assertEqual(client.request("POST", MAPS, maps).status, 403)
        self.assertEqual(client.request("DELETE", MAPS + "/kube-root-ca.crt").status, 403)
        self.assertEqual(client.get("/api/v1/namespaces/default/configmaps", headers={"Impersonate-User": "x"}).status, 403)

    def test_SE_148_the_proxy_of_the_installation_comes_in_its_role(self):
        config = (installation.state / "proxy" / "proxy.yaml").read_text()
        self.assertIn("shards/root/proxy.kubeconfig", config)
        self.assertNotIn("admin.kubeconfig", config)
        self.assertNotIn("more than is needed", (installation.state / "logs" / "proxy.log").read_text())
        with kit.Proxy(installation, {"topology": {
                "shards_kubeconfig": installation.state / "shards" / "root" / "admin.kubeconfig"}}, loops=1) as proxy:
            self.assertIn("can do more than is needed", proxy.text())


class Pairs(unittest.TestCase):
    def test_SE_T012_a_backend_pair_of_a_user_is_refused_at_the_start(self):
        for name, groups in OWNERS:
            cert, key = pair_of(name, groups)
            with self.subTest(name=name):
                proxy = kit.Proxy(installation, {"backend": {"cert_file": str(cert), "key_file": str(key)}}, loops=1)
                run = subprocess.run([str(kit.BINARY), "proxy", "--config", str(proxy.dir / "proxy.yaml")], capture_output=True, text=True,
                                     timeout=60, check=False)
                self.assertEqual(run.returncode, 1, run.stderr)
                lines = [line for line in run.stderr.splitlines() if "does not assert identities" in line]
                self.assertEqual(len(lines), 1, run.stderr)
                self.assertIn(name, lines[0])

    def test_SE_T012_the_pair_of_one_shard(self):
        cert, key = pair_of("only-there", ("system:masters",))
        proxy = kit.Proxy(installation, {"shards": {"shard-1": f"{{cert_file: {cert}, key_file: {key}}}"}}, loops=1)
        run = subprocess.run([str(kit.BINARY), "proxy", "--config", str(proxy.dir / "proxy.yaml")], capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertRegex(run.stderr, r"shard shard-1: .*does not assert identities there: every caller would be user .*only-there")

    def mapping(self, cert, key, url=None, path="/beside/"):
        pki = installation.pki
        return (f"- path: /clusters/\n  backend: https://not.used:1\n  backend_server_ca: {pki}/serving-ca.crt\n"
                f"  proxy_client_cert: {pki}/proxy-requestheader.crt\n  proxy_client_key: {pki}/proxy-requestheader.key\n"
                f"- path: {path}\n  backend: {url or installation.shard_url('root')}\n  backend_server_ca: {pki}/serving-ca.crt\n"
                f"  proxy_client_cert: {cert}\n  proxy_client_key: {key}\n")

    def front(self, mapping):
        folder = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="front-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "mapping.yaml").write_text(mapping)
        program = folder / "kcp-front-proxy"
        program.symlink_to(kit.BINARY)
        pki, kubeconfig = installation.pki, installation.state / "shards" / "root" / "admin.kubeconfig"
        return folder, [str(program), "--bind-address=127.0.0.1", f"--mapping-file={folder}/mapping.yaml", f"--root-directory={folder}",
                        f"--root-kubeconfig={kubeconfig}", f"--shards-kubeconfig={kubeconfig}", f"--client-ca-file={pki}/client-ca.crt",
                        f"--tls-cert-file={pki}/proxy.crt", f"--tls-private-key-file={pki}/proxy.key", f"--secure-port={kit.free_port()}"]

    def test_SE_T012_the_pair_of_an_entry_of_the_mapping_file(self):
        for name, groups in OWNERS[1:3]:
            for path in ("/beside/", "/services/fixed/{cluster}/"):
                with self.subTest(name=name, path=path):
                    _, command = self.front(self.mapping(*pair_of(name, groups), path=path))
                    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
                    self.assertEqual(run.returncode, 1, run.stderr)
                    self.assertRegex(run.stderr, rf"mapping.yaml:6: the backend of {re.escape(path)}: .*does not assert identities there: "
                                                 rf"every caller would be user .*{name}")

    def test_SE_T012_a_server_that_only_repeats_what_it_gets(self):
        """An echo has the name in its text; that says nothing of whom it takes the proxy for."""
        echo = kit.JsonServer(installation.pki, lambda request: (200, {"headers": dict(request.headers.items()), "path": request.path}))
        self.addCleanup(echo.close)
        liar = kit.JsonServer(installation.pki, lambda request: (201, {
            "kind": "SelfSubjectReview", "status": {"userInfo": {"username": "system:admin", "groups": [request.headers.get("X-Remote-User")]}}}))
        self.addCleanup(liar.close)
        pki = installation.pki
        good = (pki / "proxy-requestheader.crt", pki / "proxy-requestheader.key")
        _, command = self.front(self.mapping(*good, url=liar.url))
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("system:admin", run.stderr)
        folder, command = self.front(self.mapping(*good, url=echo.url))
        log = folder / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            kit.eventually(lambda: "does not tell whom it takes the proxy for" in log.read_text(), 20)
            self.assertIsNone(process.poll())
        finally:
            process.kill()
            process.wait()

    def test_SE_T012_at_a_reload_what_was_there_stays(self):
        with kit.Proxy(installation, loops=1) as proxy:
            cert, key = pair_of("kcp-admin", ("system:kcp:admin",))
            stranger = pair_of("stranger")
            client = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root:beta", installation.pki / "serving-ca.crt", *stranger)
            self.assertEqual(client.get(MAPS).status, 403)
            old = (proxy.dir / "proxy-requestheader.crt").read_bytes()
            kit.replace_file(proxy.dir / "proxy-requestheader.key", key)
            kit.replace_file(proxy.dir / "proxy-requestheader.crt", cert)
            kit.eventually(lambda: "does not assert identities" in proxy.text(), 20, "a line about it")
            self.assertIn("what was loaded before stays", proxy.text())
            for _ in range(20):
                self.assertEqual(client.get(MAPS).status, 403)
            self.assertEqual(proxy.client("/clusters/root:beta").get(MAPS).status, 200)
            kit.replace_file(proxy.dir / "proxy-requestheader.key", installation.pki / "proxy-requestheader.key")
            kit.replace_file(proxy.dir / "proxy-requestheader.crt", old)
            before = proxy.text().count("files reloaded")
            kit.eventually(lambda: proxy.text().count("files reloaded") > before or before > 0, 20)
            self.assertEqual(proxy.client("/clusters/root:beta").get(MAPS).status, 200)


class PlainServer:
    """A plain server that keeps whom it was asked by, and knows two groups."""

    def __init__(self):
        self.seen = seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                value = {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}
                if self.path.startswith("/api/v1"):
                    value = {"kind": "APIResourceList", "groupVersion": "v1", "resources": []}
                elif self.path.startswith("/api"):
                    value = {"kind": "APIVersions", "versions": ["v1"]} if self.path.startswith("/api?") or self.path == "/api" else value
                elif self.path.startswith("/version"):
                    value = {"gitVersion": "v1.36.0"}
                text = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET

        self.server = kit.Server(Handler)
        self.url = self.server.url

    def close(self):
        self.server.close()


class Discovery(unittest.TestCase):
    """Documents of all plain servers (source `static`), where callers are impersonated."""

    @classmethod
    def setUpClass(cls):
        cls.servers = [PlainServer(), PlainServer()]
        for server in cls.servers:
            cls.addClassCleanup(server.close)
        cls.dir = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="plain-"))
        (cls.dir / "token").write_text("own-token")
        pki, cls.port = installation.pki, kit.free_port()
        shards = "".join(f"    - {{name: s{i}, url: \"{server.url}\", identity: impersonate, token_file: {cls.dir}/token}}\n"
                         for i, server in enumerate(cls.servers))
        (cls.dir / "proxy.yaml").write_text(
            f"apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\ndata_dir: data\nloops: 1\n"
            f"listener: {{port: {cls.port}, cert_file: {pki}/proxy.crt, key_file: {pki}/proxy.key}}\n"
            f"authentication: {{client_ca_file: {pki}/client-ca.crt}}\nadmin: {{socket: admin.sock}}\n"
            f"topology:\n  source: static\n  shards:\n{shards}")
        cls.log = cls.dir / "log"
        with cls.log.open("wb") as out:
            cls.process = subprocess.Popen([str(kit.BINARY), "proxy", "--config", str(cls.dir / "proxy.yaml")], stdout=out, stderr=out)
        cls.addClassCleanup(cls.end)
        kit.eventually(lambda: cls.user("admin").get("/readyz").status == 200, 20, "ready")

    @classmethod
    def end(cls):
        cls.process.kill()
        cls.process.wait()

    @classmethod
    def user(cls, name, groups=()):
        return kit.Client(f"https://127.0.0.1:{cls.port}", installation.pki / "serving-ca.crt", *pair_of("plain-" + name, groups))

    def test_documents_are_asked_for_as_the_caller(self):
        client = self.user("alice", ("team",))
        for path in ("/clusters/*/apis", "/clusters/*/api", "/clusters/*/api/v1", "/clusters/*/version", "/clusters/*/openapi/v3"):
            before = [len(server.seen) for server in self.servers]
            client.get(path, headers={"X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
            for server, count in zip(self.servers, before):
                asked = [(target, headers) for target, headers, _ in server.seen[count:] if not target.startswith("/livez")]
                for target, headers in asked:
                    with self.subTest(path=path, target=target):
                        self.assertEqual(headers.get("impersonate-user"), "plain-alice", headers)
                        self.assertEqual(headers.get("authorization"), "Bearer own-token")
                        self.assertFalse([name for name in headers if name.startswith("x-remote")], headers)
            self.assertGreater(sum(len(server.seen) for server in self.servers), sum(before), path)

    def test_who_is_not_known_gets_none(self):
        nobody = kit.Client(f"https://127.0.0.1:{self.port}", installation.pki / "serving-ca.crt")
        for path in ("/clusters/*/apis", "/clusters/*/api/v1", "/clusters/s0/apis", f"/clusters/*{MAPS}"):
            self.assertEqual(nobody.get(path).status, 401, path)
        self.assertFalse([target for server in self.servers for target, headers, _ in server.seen
                          if "authorization" in headers and "impersonate-user" not in headers])

    def test_nobody_speaks_for_others_in_turn(self):
        client = self.user("alice", ("team",))
        for path in ("/clusters/*/apis", f"/clusters/s0{MAPS}", f"/clusters/*{MAPS}", f"/shards/s1/clusters/*{MAPS}"):
            for headers in ({"Impersonate-User": "admin"}, {"impersonate_user": "admin"}, {"Impersonate-Group": "system:masters"},
                            {"Impersonate-User": "bob", "Impersonate-Extra-Authorization.kcp.io%2fwarrant": "{}"}):
                self.assertEqual(client.get(path, headers=headers).status, 403, (path, headers))
        self.assertFalse([headers for server in self.servers for _, headers, _ in server.seen
                          if headers.get("impersonate-user") in ("admin", "bob")])


if __name__ == "__main__":
    unittest.main()
