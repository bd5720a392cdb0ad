"""Kintsugi in the place of kcp-front-proxy: its command line and mapping file (FP-101, R-03)."""
import json
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

import front
import kit

SERVICES = "/services/apiexport/root/tenancy.kcp.io/clusters/root/api"


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()
    installation.make_workspace("org", selector={"name": "shard-1"})


def backend(name):
    """Tells what it got."""
    return kit.JsonServer(installation.pki, lambda request: (200, {
        "backend": name, "path": request.path, "headers": dict(request.headers.items())}))


def root_url():
    text = (installation.state / "shards" / "root" / "admin.kubeconfig").read_text()
    return re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)


def entry(path, url, **more):
    return front.entry(installation, path, url, **more)


def front_proxy(mapping, *more, flags=None):
    return front.FrontProxy(installation, mapping, *more, flags=flags)


CLUSTERS = front.CLUSTERS


def peer_kubeconfig(*servers):
    pki, path = installation.pki, pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="peers-")) / "kubeconfig"
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "p",
        "clusters": [{"name": f"c{i}", "cluster": {"server": server, "certificate-authority": f"{pki}/serving-ca.crt"}}
                     for i, server in enumerate(servers)],
        "users": [{"name": "p", "user": {"client-certificate": f"{pki}/shard-admin.crt", "client-key": f"{pki}/shard-admin.key"}}],
        "contexts": [{"name": "p", "context": {"cluster": "c0", "user": "p"}}]}))
    return path


class Peers(unittest.TestCase):
    """--shard-peer-kubeconfig: Shards of the admin virtual workspace of other servers (17.5)."""

    @classmethod
    def setUpClass(cls):
        cls.shards = installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards")

    def test_FP_154_shards_are_those_that_a_living_peer_shows(self):
        shown, asked = dict(self.shards, items=[s for s in self.shards["items"] if s["metadata"]["name"] == "root"]), []

        def answer(request):
            asked.append(request.path)
            return (400, {"kind": "Status", "apiVersion": "v1", "code": 400}) if "watch=" in request.path else (200, shown)

        peer = kit.JsonServer(installation.pki, answer)
        self.addCleanup(peer.close)
        dead = f"https://127.0.0.1:{kit.free_port()}"
        flags = [f"--shard-peer-kubeconfig={peer_kubeconfig(dead)}", f"--shard-peer-kubeconfig={peer_kubeconfig(peer.url, dead)}"]
        with front_proxy(entry("/clusters/", CLUSTERS), *flags) as proxy:
            self.assertTrue(all(path.startswith("/services/admin/apis/core.kcp.io/v1alpha1/shards?") for path in asked), asked)
            client = proxy.client("")
            self.assertEqual(client.get("/clusters/root/api").status, 200)
            self.assertEqual(client.get("/clusters/root:org/api").status, 403, "its shard is not one that the peer shows")
            shown["items"] = self.shards["items"]
            kit.eventually(lambda: client.get("/clusters/root:org/api").status == 200, 20, "the shard that came")
            self.assertNotIn("read at the root shard", proxy.log.read_text())

    def test_FP_154_without_a_peer_they_are_read_at_the_root_shard(self):
        dead = [f"https://127.0.0.1:{kit.free_port()}" for _ in range(2)]
        with front_proxy(entry("/clusters/", CLUSTERS), f"--shard-peer-kubeconfig={peer_kubeconfig(*dead)}") as proxy:
            self.assertEqual(proxy.client("").get("/clusters/root:org/api").status, 200)
            self.assertIn("no peer shows the Shards, they are read at the root shard", proxy.log.read_text())

    def test_FP_154_what_is_wrong_with_the_file_is_one_line(self):
        path = peer_kubeconfig("https://127.0.0.1:1/clusters/root")
        for file, text in (("/no/such", "--shard-peer-kubeconfig: /no/such"), (path, "must have no path")):
            proxy = front_proxy(entry("/clusters/", CLUSTERS), f"--shard-peer-kubeconfig={file}")
            if file == path:
                with proxy.log.open("ab") as log:
                    proxy.process = subprocess.Popen([str(proxy.program), *proxy.arguments], stdout=log, stderr=log, cwd=proxy.dir)
                self.addCleanup(proxy.__exit__)
                kit.eventually(lambda p=proxy, t=text: t in p.log.read_text(), 10, "a line about it")
            else:
                run = proxy.run()
                self.assertEqual(run.returncode, 1)
                self.assertIn(text, run.stderr)


class DropIn(unittest.TestCase):
    def test_FP_041_FP_042_FP_048_entries_of_the_mapping_file(self):
        e2e, fallback, static = backend("e2e"), backend("fallback"), backend("static")
        for one in (e2e, fallback, static):
            self.addCleanup(one.close)
        mapping = (entry("/clusters/", CLUSTERS) + entry("/e2e/clusters/{cluster}/", e2e.url + "/base/")
                   + entry("/", fallback.url, user_header="X-User") + entry("/services/fixed/", static.url, static="true"))
        with front_proxy(mapping) as proxy:
            outside = proxy.client("")
            self.assertEqual(outside.get("/clusters/root:org/api/v1/namespaces/default").status, 200)
            got = outside.must("GET", "/e2e/clusters/root:org/foo?x=%zz", headers={"X-Remote-User": "evil"})
            self.assertEqual((got["backend"], got["path"]), ("e2e", "/base/e2e/clusters/root:org/foo?x=%zz"))
            self.assertEqual(got["headers"]["x-remote-user"], "kcp-admin")
            for path in ("/e2e/clusters/root:nobody/foo", "/services/fixed/clusters/root:nobody/x"):
                refused = outside.get(path)
                self.assertEqual(refused.status, 403)
                self.assertTrue(refused.json["message"].endswith("workspace access not permitted"), refused)
            got = outside.must("GET", "/unmatched/path")
            self.assertEqual((got["backend"], got["path"]), ("fallback", "/unmatched/path"))
            self.assertEqual(got["headers"]["x-user"], "kcp-admin")
            self.assertNotIn("x-remote-user", got["headers"])
            for path in ("/services/fixed/clusters/*/x", "/services/fixed/x", "/services/fixed/clusters/root:org/x"):
                got = outside.must("GET", path)
                self.assertEqual((got["backend"], got["path"]), ("static", path))
            self.assertIn(outside.get(SERVICES).status, (200, 403), "owner routing as before")
            # An entry that comes by a reload is served at once; a broken file changes nothing.
            kit.replace_file(proxy.mapping, (mapping + entry("/later/", e2e.url)).encode())
            kit.eventually(lambda: outside.must("GET", "/later/x")["backend"] == "e2e", 5, "FP-105: the new entry")
            kit.replace_file(proxy.mapping, b"- path: /broken\n")
            kit.eventually(lambda: "mapping.yaml:1: backend: is required" in proxy.log.read_text(), 5, "a line about it")
            self.assertEqual(outside.must("GET", "/later/x")["backend"], "e2e")

    def test_FP_105_a_mapping_file_without_entries(self):
        # The pair of --shards-kubeconfig is an administrator's: where shards do not take it for a proxy's, nobody gets in.
        proxy = front_proxy("")
        run = proxy.run()
        self.assertEqual(run.returncode, 1)
        self.assertEqual(len([line for line in run.stderr.splitlines() if "does not assert identities" in line]), 1, run.stderr)
        authority = installation.pki / "requestheader-ca.crt"
        before = authority.read_bytes()
        self.addCleanup(kit.replace_file, authority, before)
        kit.replace_file(authority, before + (installation.pki / "client-ca.crt").read_bytes())
        cert, key = kit.make_user(installation.dir, installation.pki, "kcp-front-proxy", ["system:masters"])
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": root_url(), "certificate-authority": f"{installation.pki}/serving-ca.crt"}}],
            "users": [{"name": "here", "user": {"client-certificate": str(cert), "client-key": str(key)}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}]}
        kubeconfig = installation.dir / "both.kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        shard = kit.Client(root_url(), installation.pki / "serving-ca.crt", cert, key)

        def believes():
            answer = shard.request("POST", "/clusters/root" + kit.SELF_REVIEWS, {"apiVersion": "authentication.k8s.io/v1",
                                   "kind": "SelfSubjectReview"}, headers={"X-Remote-User": "somebody-else"})
            return b"somebody-else" in answer.body

        kit.eventually(believes, 10, "the shard believes the pair")
        for mapping in ("", "[]\n"):
            with front_proxy(mapping, f"--shards-kubeconfig={kubeconfig}") as proxy:
                outside = proxy.client("")
                self.assertEqual(outside.get("/clusters/root:org/api/v1/namespaces/default").status, 200)
                review = proxy.client().must("POST", kit.SELF_REVIEWS, kit.SELF_REVIEW)
                self.assertEqual(review["status"]["userInfo"]["username"], "kcp-admin")

    def test_FP_105_a_thousand_entries(self):
        many = backend("many")
        self.addCleanup(many.close)
        mapping = "".join(entry(f"/x{n}/{{cluster}}/", many.url) for n in range(1000))
        with front_proxy(entry("/clusters/", CLUSTERS) + mapping) as proxy:
            self.assertEqual(proxy.client("").must("GET", "/x999/root/y")["path"], "/x999/root/y")
            self.assertEqual(proxy.client("").get("/x1000/root/y").status, 404)

    def test_FP_101_what_is_wrong_is_one_line(self):
        pki, kubeconfig = installation.pki, installation.state / "shards" / "root" / "admin.kubeconfig"
        good = [f"--root-kubeconfig={kubeconfig}", f"--shards-kubeconfig={kubeconfig}", f"--client-ca-file={pki}/client-ca.crt"]

        def fails(*flags, mapping=""):
            proxy = front_proxy(mapping, flags=list(flags))
            self.addCleanup(shutil.rmtree, proxy.dir, True)
            run = proxy.run()
            self.assertEqual(run.returncode, 1, run.stderr)
            lines = run.stderr.splitlines()
            self.assertEqual((len(lines), run.stdout), (1, ""), run.stderr)
            return lines[0]

        self.assertIn("--mapping-file, --shards-kubeconfig, --root-kubeconfig: required", fails())
        self.assertIn("--root-kubeconfig: required", fails("--mapping-file=mapping.yaml", f"--shards-kubeconfig={kubeconfig}"))
        missing = fails("--mapping-file=/nowhere/mapping.yaml", *good)
        self.assertIn("--mapping-file: /nowhere/mapping.yaml: No such file", missing)
        self.assertIn("--client-ca-file: /nowhere/ca", fails("--mapping-file=mapping.yaml", *good, "--client-ca-file=/nowhere/ca"))
        for mapping, text in (("- path: [\n", "mapping.yaml: "), ("- path: /a\n  backends: x\n", "mapping.yaml:2: backends: unknown key"),
                              (entry("/a/", "https://b") * 2, "mapping.yaml:6: path: /a/ is there already, in line 1")):
            line = fails("--mapping-file=mapping.yaml", *good, mapping=mapping)
            self.assertIn("--mapping-file: ", line)
            self.assertIn(text, line)
        for flag, text in (("--secure-port=0", '--secure-port: "0" is not a port'), ("--v=x", '--v: "x" is not a number'),
                           ("--disable-http2-serving=maybe", "neither true nor false"),
                           ("--validat", "unknown option --validat; did you mean --validate?"),
                           ("--secure-prot=1", "did you mean --secure-port?"),
                           ("--tls-min-version=3", "tls-min-version"), ("--cors-allowed-origins=(", "--cors-allowed-origins")):
            self.assertIn(text, fails("--mapping-file=mapping.yaml", *good, flag))

    def test_FP_102_what_is_unknown_is_a_warning(self):
        with front_proxy(entry("/clusters/", CLUSTERS), "--foo=1", "--foo-with", "value", "--feature-gates=Foo=true,WatchList=true",
                        "--log_flush_frequency=10s", "--vmodule", "a=1", f"--profiler-address=0.0.0.0:{kit.free_port()}",
                        "--http2-max-streams-per-connection=7") as proxy:
            log = proxy.log.read_text()
            self.assertEqual(proxy.client("").get("/clusters/root/api").status, 200)
            for text in ("--foo is not known", "--foo-with is not known", "Foo is not known", "it listens on 127.0.0.1"):
                self.assertEqual(log.count(text), 1, text)
            for text in ("WatchList", "flush", "vmodule"):
                self.assertNotIn(text, log)
            port = int(proxy.arguments[-2].rsplit(":", 1)[1])
            self.assertEqual(kit.listening(port), {"127.0.0.1"})
            with socket.create_connection(("127.0.0.1", port), timeout=60):
                pass

    def test_kcps_defaults_make_a_serving_certificate_and_listen_everywhere(self):
        kubeconfig = installation.state / "shards" / "root" / "admin.kubeconfig"
        proxy = front_proxy(entry("/clusters/", CLUSTERS), flags=[])
        proxy.arguments = ["--mapping-file", "mapping.yaml", "--root-kubeconfig", str(kubeconfig), "--shards-kubeconfig",
                           str(kubeconfig), "--secure-port", str(proxy.port), "--root_directory", "state", "-v", "4"]

        def answered():
            made = proxy.dir / "state" / "apiserver.crt"
            client = kit.Client(f"https://localhost:{proxy.port}", made, installation.pki / "admin.crt",
                                installation.pki / "admin.key")
            return client.get("/readyz").status == 200 and client

        with proxy.log.open("ab") as log:
            proxy.process = subprocess.Popen([str(proxy.program), *proxy.arguments], stdout=log, stderr=log, cwd=proxy.dir)
        self.addCleanup(proxy.__exit__)
        client = kit.eventually(answered, 20, "ready")
        self.assertEqual(client.get("/clusters/root/api").status, 401, "no CA makes identities")
        serving = (proxy.dir / "state" / "apiserver.crt").read_bytes()
        self.assertEqual((proxy.dir / "state" / "apiserver.key").stat().st_mode & 0o777, 0o600)
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(proxy.process.wait(120), 0)
        self.assertEqual((proxy.dir / "state" / "apiserver.crt").read_bytes(), serving)

    def test_help_names_every_flag_and_version_is_kcps(self):
        proxy = front_proxy("", flags=["--help"])
        text = proxy.run().stdout
        spec = ["--mapping-file", "--shards-kubeconfig", "--oidc-issuer-url", "--authentication-drop-groups", "--tls-sni-cert-key",
                "--service-account-key-file", "--shard-peer-kubeconfig", "--feature-gates", "--config"]
        for flag in spec:
            self.assertIn(flag, text)
        proxy.arguments = ["--version"]
        self.assertRegex(proxy.run().stdout, r"^kcp-front-proxy version \S+\n$")

    def test_sni_tls_versions_and_http1(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=installation.dir))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                        "-keyout", folder / "other.key", "-out", folder / "other.crt", "-subj", "/CN=other", "-addext",
                        "subjectAltName=DNS:other.example,DNS:*.wild.example"], check=True, capture_output=True)
        names = f"{folder}/other.crt,{folder}/other.key"
        with front_proxy(entry("/clusters/", CLUSTERS), f"--tls-sni-cert-key={names}", "--tls-min-version=VersionTLS13", "--disable-http2-serving") as proxy:

            def shown(host, version=None, alpn=()):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                if version:
                    context.maximum_version = version
                context.set_alpn_protocols(list(alpn) or ["http/1.1"])
                with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as plain:
                    with context.wrap_socket(plain, server_hostname=host) as tls:
                        return tls.getpeercert(True), tls.selected_alpn_protocol()

            other = ssl.PEM_cert_to_DER_cert((folder / "other.crt").read_text())
            self.assertEqual(shown("other.example")[0], other)
            self.assertEqual(shown("a.wild.example")[0], other)
            self.assertNotEqual(shown("elsewhere.example")[0], other)
            with self.assertRaises(ssl.SSLError):
                shown("x.example", ssl.TLSVersion.TLSv1_2)
            self.assertEqual(shown("x.example", alpn=["h2", "http/1.1"])[1], "http/1.1")

    def test_FP_147_browsers_of_listed_origins(self):
        with front_proxy(entry("/clusters/", CLUSTERS), r"--cors-allowed-origins=//good\.example$,^x$") as proxy:
            outside = proxy.client("")
            answer = outside.get("/clusters/root/api", headers={"Origin": "https://good.example"})
            self.assertEqual(answer.status, 200)
            expected = {"Allow-Origin": "https://good.example", "Allow-Methods": "POST, GET, OPTIONS, PUT, DELETE, PATCH",
                        "Allow-Headers": "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, "
                                         "X-Requested-With, If-Modified-Since",
                        "Expose-Headers": "Date", "Allow-Credentials": "true"}
            self.assertEqual({key: answer.headers.get("Access-Control-" + key) for key in expected}, expected)
            preflight = outside.request("OPTIONS", "/clusters/root/api", headers={"Origin": "https://good.example"})
            self.assertEqual((preflight.status, preflight.body), (204, b""))
            self.assertEqual(preflight.headers["Access-Control-Allow-Origin"], "https://good.example")
            other = outside.get("/clusters/root/api", headers={"Origin": "https://good.example.evil.test"})
            self.assertEqual([key for key in other.headers if key.lower().startswith("access-control")], [])

    def test_groups_that_are_passed_on(self):
        with front_proxy(entry("/clusters/", CLUSTERS), "--authentication-pass-on-groups=team*,system:authenticated",
                        "--authentication-drop-groups=team-secret") as proxy:
            cert, key = kit.make_user(installation.dir, installation.pki, "grouped", ["team-a", "team-secret", "other"])
            client = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root", installation.pki / "serving-ca.crt", cert, key)
            answer = client.request("POST", kit.SELF_REVIEWS, kit.SELF_REVIEW)
            if answer.status == 201:
                groups = set(answer.json["status"]["userInfo"]["groups"])
                self.assertEqual(groups & {"team-a", "team-secret", "other"}, {"team-a"})
            else:
                self.assertEqual(answer.status, 403, answer)


if __name__ == "__main__":
    unittest.main()
