"""What a tenant's objects may make a shard and the proxy talk to (SE-103 to SE-109, SE-T052, SE-T053): conversion webhooks of
definitions, issuers of tokens and where their keys are."""
import base64
import contextlib
import http.server
import json
import re
import socket
import threading
import time
import unittest

import kit

MERGE = {"Content-Type": "application/merge-patch+json"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
SECRET = "the-innermost-secret"
NOT_ALLOWED, NOT_REACHED = "the URL is not allowed", "the server could not be reached"
NOT_VERIFIED, NOT_UNDERSTOOD = "the certificate could not be verified", "the answer was not understood"


class Trap:
    """A listener on all addresses of this machine that counts who comes."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET6)
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(("::", 0))
        self.socket.listen(64)
        self.port = self.socket.getsockname()[1]
        self.dialled = []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, address = self.socket.accept()
                self.dialled.append(address)
                connection.close()

    def close(self):
        self.socket.close()


class Server:
    """An HTTPS server of a tenant; `answer` gets the request handler, and writes what it likes."""

    def __init__(self, pki, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with contextlib.suppress(OSError):
                    answer(self)

            do_POST = do_GET

        self.server = kit.Server(Handler, pki)
        self.port, self.url, self.close = self.server.server_port, self.server.url, self.server.close


def plain(status=200, body=SECRET, **headers):
    def answer(request):
        request.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body.encode())

    return answer


def own_address():
    """An address of this machine that is not loopback; None where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        address = probe.getsockname()[0]
        return None if address.startswith("127.") else address
    return None


class Tenant:
    """A workspace with a definition that has a conversion webhook, and an object to convert."""

    def __init__(self, installation, name="tenant"):
        self.installation = installation
        installation.make_workspace(name)
        self.client = installation.client(f"/clusters/root:{name}")
        versions = [{"name": version, "served": True, "storage": version == "v1beta1", "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": True}}} for version in ("v1beta1", "v1")]
        self.client.must("POST", DEFINITIONS, {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "cogs.ex.io"},
            "spec": {"group": "ex.io", "scope": "Namespaced", "versions": versions,
                     "names": {"plural": "cogs", "singular": "cog", "kind": "Cog", "listKind": "CogList"},
                     "conversion": {"strategy": "Webhook", "webhook": {
                         "conversionReviewVersions": ["v1"],
                         "clientConfig": {"url": "https://192.0.2.1/", "caBundle": self.bundle()}}}}})
        kit.eventually(lambda: self.client.request("POST", "/apis/ex.io/v1beta1/namespaces/default/cogs", {
            "apiVersion": "ex.io/v1beta1", "kind": "Cog", "metadata": {"name": "a"}}).status in (201, 409), what="a cog")

    def bundle(self):
        return base64.b64encode((self.installation.pki / "serving-ca.crt").read_bytes()).decode()

    def point_to(self, url, bundle=None):
        """False: already the definition is refused."""
        config = {"url": url, "caBundle": bundle or self.bundle()}
        answer = self.client.request("PATCH", f"{DEFINITIONS}/cogs.ex.io", {"spec": {"conversion": {"webhook": {
            "clientConfig": config}}}}, headers=MERGE)
        assert answer.status in (200, 422), answer
        return answer.status == 200

    def convert(self, url, bundle=None):
        """What the tenant hears of it, and after how many seconds."""
        assert self.point_to(url, bundle), url
        begin = time.monotonic()
        answer = self.client.get("/apis/ex.io/v1/namespaces/default/cogs/a", timeout=60)
        took = time.monotonic() - begin
        assert answer.status == 500, answer
        text = answer.json["message"]
        begin = "conversion webhook for ex.io/v1beta1, Kind=Cog failed: "
        assert text.startswith(begin), text
        assert SECRET not in answer.body.decode(), text
        return text.removeprefix(begin), took


class Denied(unittest.TestCase):
    """Loopback is not allowed, and its ports are no obstacle."""

    @classmethod
    def setUpClass(cls):
        cls.trap = Trap()
        cls.addClassCleanup(cls.trap.close)
        cls.installation = kit.Installation("--outgoing-allow", "198.51.100.7", "--outgoing-ports", f"443,{cls.trap.port}",
                                            shards=1).start_for(cls)
        cls.tenant = Tenant(cls.installation)

    def urls(self):
        port = self.trap.port
        hosts = ["127.0.0.1", "127.0.0.2", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.01",
                 "0.0.0.0", "0", "localhost", "LOCALHOST", "localhost.", "a.localhost", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]",
                 "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]",
                 "[2002:7f00:1::]", "169.254.169.254", "[fe80::1]", "[fe80::1%25lo]", "10.0.0.1", "172.16.0.1", "192.168.0.1",
                 "100.64.0.1", "[fd00::1]", "[fec0::1]", "224.0.0.1", "255.255.255.255", "[ff02::1]", "user@127.0.0.1",
                 "127.0.0.1#.example.com", "127.0.0.1%2e"]
        if own := own_address():
            hosts.append(own)
        return [f"https://{host}:{port}/convert" if "#" not in host else f"https://127.0.0.1:{port}#.example.com" for host in hosts]

    def test_SE_T052_no_form_of_a_denied_address_is_dialled(self):
        heard = {}
        for url in self.urls():
            if self.tenant.point_to(url):
                heard[url] = self.tenant.convert(url)[0]
        self.assertGreater(len(heard), 20, "most of them are URLs to the definition")
        others = {url: text for url, text in heard.items() if text != NOT_ALLOWED and "//a.localhost" not in url}  # may not resolve
        self.assertEqual(others, {})
        self.assertEqual(self.trap.dialled, [])

    def test_SE_T052_names_that_resolve_to_denied_addresses(self):
        own = socket.gethostname()
        if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", own) or own == "localhost" or not self.resolves(own):
            self.skipTest("this machine has no name that resolves to itself")
        text, took = self.tenant.convert(f"https://{own}:{self.trap.port}/")
        self.assertEqual(text, NOT_REACHED, "a name tells nothing about what it means here")
        self.assertGreater(took, 0.9)
        self.assertEqual(self.trap.dialled, [])

    @staticmethod
    def resolves(name):
        with contextlib.suppress(OSError):
            return bool(socket.getaddrinfo(name, 443))
        return False

    def test_SE_104_other_ports_and_schemes(self):
        for url in ("https://198.18.0.1:22/", "https://9.9.9.9:22/", "https://9.9.9.9:6443/"):
            if self.tenant.point_to(url):
                self.assertEqual(self.tenant.convert(url)[0], NOT_ALLOWED, url)
        self.assertFalse(self.tenant.point_to("http://9.9.9.9/"))

    def test_KK_T061_issuers_are_not_fetched_either(self):
        port = self.trap.port
        root = self.installation.client()
        issuers = {f"i{n}": url for n, url in enumerate([
            f"https://127.0.0.1:{port}", f"https://localhost:{port}", f"https://[::1]:{port}", f"https://[::ffff:127.0.0.1]:{port}",
            f"https://0x7f.1:{port}", f"https://2130706433:{port}", "https://169.254.169.254"])}
        for name, url in issuers.items():
            answer = root.request("POST", f"{TENANCY}/workspaceauthenticationconfigurations", {
                "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceAuthenticationConfiguration", "metadata": {"name": name},
                "spec": {"jwt": [{"issuer": {"url": url, "audiences": ["a"]},
                                  "claimMappings": {"username": {"claim": "sub", "prefix": ""}}}]}})
            self.assertIn(answer.status, (201, 422), answer)
            if answer.status == 422:
                continue
            root.must("POST", f"{TENANCY}/workspacetypes", {
                "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "WorkspaceType", "metadata": {"name": f"type-{name}"},
                "spec": {"authenticationConfigurations": [{"name": name}]}})
            kit.eventually(lambda name=name: root.request("POST", f"{TENANCY}/workspaces", {
                "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
                "spec": {"type": {"name": f"type-{name}", "path": "root"}}}).status in (201, 409), what=name)
            self.assert_token_is_not_judged(name, url)
        self.assertEqual(self.trap.dialled, [])

    def assert_token_is_not_judged(self, name, url):
        def part(value):
            return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

        token = f"{part({'alg': 'RS256'})}.{part({'iss': url, 'aud': 'a', 'sub': 'ann', 'exp': int(time.time()) + 600})}.AAAA"
        client = self.installation.client(f"/clusters/root:{name}", cert=None)
        answer = kit.eventually(lambda: (a := client.get("/api", headers=kit.bearer(token))).status == 503 and a, 20, url)
        self.assertEqual(answer.json["message"], "the token issuer is not available yet")


class Allowed(unittest.TestCase):
    """Loopback is allowed, as `kintsugi up` does it there (SE-109); what comes back is another matter."""

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1).start_for(cls)
        cls.tenant = Tenant(cls.installation)

    def serve(self, answer):
        server = Server(self.installation.pki, answer)
        self.addCleanup(server.close)
        return server

    def hear(self, answer, path="/convert"):
        return self.tenant.convert(self.serve(answer).url + path)[0]

    def test_SE_109_up_says_that_loopback_is_allowed(self):
        self.assertIn("--outgoing-allow 127.0.0.0/8,::1", self.installation.log.read_text())

    def test_SE_T053_no_status_and_no_body_is_echoed(self):
        for status in (201, 204, 400, 401, 403, 404, 418, 500, 503):
            self.assertEqual(self.hear(plain(status, "" if status == 204 else SECRET)), f"the server answered {status}")

    def test_SE_T053_answers_that_are_none(self):
        review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
        for body in (SECRET, "", "[]", "{", json.dumps({**review, "kind": SECRET}), json.dumps({**review, "response": SECRET}),
                     json.dumps({**review, "response": {"uid": SECRET, "result": {"status": "Success"}}}),
                     json.dumps({**review, "response": {"uid": SECRET, "result": {"status": "Failure", "message": SECRET}}})):
            self.assertEqual(self.hear(plain(body=body)), NOT_UNDERSTOOD, body)

    def test_SE_T053_other_objects_than_those_that_were_asked(self):
        def answer(request):
            asked = json.loads(request.body)["request"]
            objects = [{**one, "apiVersion": SECRET} for one in asked["objects"]]
            plain(body=json.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
                "uid": asked["uid"], "result": {"status": "Success"}, "convertedObjects": objects}}))(request)

        self.assertEqual(self.hear(answer), NOT_UNDERSTOOD)

    def test_SE_108_the_webhooks_own_message_is_its_tenants(self):
        def answer(request):
            uid = json.loads(request.body)["request"]["uid"]
            message = "no\n\x1b[31mway " + "x" * 300
            plain(body=json.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": {
                "uid": uid, "result": {"status": "Failure", "message": message}}}))(request)

        self.assertEqual(self.hear(answer), ("no[31mway " + "x" * 300)[:256])

    def test_SE_T052_KK_190_redirects_are_not_followed(self):
        other = []
        target = self.serve(lambda request: (other.append(request.path), plain()(request)))
        for status in (301, 302, 303, 307, 308):
            for location in (target.url + "/", "/elsewhere", "https://169.254.169.254/", "http://127.0.0.1/"):
                seen = []

                def answer(request, status=status, location=location, seen=seen):
                    seen.append(request.path)
                    plain(status, SECRET, Location=location)(request)

                self.assertEqual(self.hear(answer), f"the server answered {status}")
                self.assertEqual(seen, ["/convert?timeout=30s"])
        self.assertEqual(other, [])

    def test_SE_T053_endless_answers_end(self):
        def endless(request):
            request.send_response(200)
            request.end_headers()
            while True:
                request.wfile.write(SECRET.encode() * 1000)

        def long_head(request):
            request.send_response(200)
            for number in range(60):
                request.send_header(f"X-{number}", "x" * 500)
            request.send_header("Content-Length", "0")
            request.end_headers()

        self.assertEqual(self.hear(endless), NOT_UNDERSTOOD)
        self.assertEqual(self.hear(long_head), NOT_UNDERSTOOD)

    def test_SE_T053_closed_silent_and_broken_read_alike(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            heard = {"closed": self.tenant.convert(f"https://127.0.0.1:{closed.getsockname()[1]}/")}
        trap = Trap()
        self.addCleanup(trap.close)
        heard["reset"] = self.tenant.convert(f"https://127.0.0.1:{trap.port}/")
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            heard["no handshake"] = self.tenant.convert(f"https://127.0.0.1:{silent.getsockname()[1]}/")
        plain_text = kit.Server(http.server.BaseHTTPRequestHandler)
        self.addCleanup(plain_text.close)
        heard["no TLS"] = self.tenant.convert(f"https://127.0.0.1:{plain_text.server_port}/")
        heard["cut off"] = self.tenant.convert(self.serve(lambda request: request.connection.close()).url + "/")
        for why, (text, took) in heard.items():
            self.assertEqual(text, NOT_REACHED, why)
            self.assertGreater(took, 0.9, why)

    def test_SE_103_certificates_have_to_hold(self):
        server = self.serve(plain())
        other = base64.b64encode((self.installation.pki / "client-ca.crt").read_bytes()).decode()
        self.assertEqual(self.tenant.convert(server.url + "/", other)[0], NOT_VERIFIED)
        self.assertEqual(self.tenant.convert(server.url.replace("127.0.0.1", "127.0.0.5") + "/")[0], NOT_REACHED)

    def test_SE_103_nothing_of_ours_is_shown(self):
        heads = []
        self.hear(lambda request: (heads.append(dict(request.headers)), plain(500)(request)))
        names = {name.lower() for name in heads[0]}
        self.assertEqual(names & {"authorization", "cookie", "x-remote-user", "x-forwarded-for", "via", "accept-encoding"}, set())

    def test_SE_107_one_cluster_has_eight_at_once(self):
        running, most, lock = [0], [0], threading.Lock()

        def answer(request):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            time.sleep(0.3)  # that long the next ones wait
            with lock:
                running[0] -= 1
            plain(500)(request)

        self.assertTrue(self.tenant.point_to(self.serve(answer).url + "/"))
        threads = [threading.Thread(target=self.tenant.client.get, args=("/apis/ex.io/v1/namespaces/default/cogs/a",))
                   for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(most[0], 8)
        self.assertGreater(most[0], 1)


class OtherAddress(unittest.TestCase):
    def test_SE_109_another_bind_allows_nothing(self):
        with kit.Installation("--bind", "0.0.0.0", shards=1) as installation:
            self.assertNotIn("--outgoing-allow", installation.log.read_text())
            self.assertNotIn("outgoing", (installation.state / "proxy/proxy.yaml").read_text())
            trap = Trap()
            self.addCleanup(trap.close)
            tenant = Tenant(installation)
            for host in ("127.0.0.1", "[::1]", "localhost", "0.0.0.0", "127.0.0.9"):
                self.assertEqual(tenant.convert(f"https://{host}:8443/")[0], NOT_ALLOWED, host)
                self.assertEqual(tenant.convert(f"https://{host}:{trap.port}/")[0], NOT_ALLOWED, host)
            self.assertEqual(trap.dialled, [])


if __name__ == "__main__":
    unittest.main()
