"""Proxies that the environment names (FP-166): HTTPS_PROXY, HTTP_PROXY and NO_PROXY lead to backends, shards and issuers as they lead
kcp. The names below .example are known to the proxy alone."""
import http.server
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

import front
import kit

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()


def root_port():
    text = (installation.state / "shards" / "root" / "admin.kubeconfig").read_text()
    return re.search(r"server: \"?https://[0-9.]+:([0-9]+)", text).group(1)


def serving_pair():
    """A folder with a pair of the installation's CA for the names below .example, as kit.Server takes it."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="named-"))
    ca = installation.pki / "serving-ca"
    names = ",".join(f"DNS:{name}.example" for name in ("echo", "issuer", "plain"))
    (folder / "names").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
    for command in ((*"req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=named -keyout".split(), "proxy.key", "-out", "proxy.csr"),
                    (*"x509 -req -days 1 -in proxy.csr -out proxy.crt -extfile names -set_serial 77".split(), "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key")):
        subprocess.run(["openssl", *command], check=True, capture_output=True, cwd=folder)
    return folder


class Named:
    """A server that is known by a name below .example alone; `asked`: the paths."""

    def __init__(self, name, tls=True, answers=lambda path: {"served": path}):
        self.asked, self.headers, named = [], [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                named.asked.append(self.path)
                named.headers.append({key.lower(): value for key, value in self.headers.items()})
                text = json.dumps(answers(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.server = kit.Server(Handler, serving_pair() if tls else None)
        self.place = f"{name}.example:{self.server.server_port}"
        self.url = f"http{'s' if tls else ''}://{self.place}"
        self.close = self.server.close


class Environment(unittest.TestCase):
    def setUp(self):
        self.middle, self.echo = front.ConnectProxy(), Named("echo")
        self.addCleanup(self.middle.close)
        self.addCleanup(self.echo.close)

    def proxy(self, *flags, echo=None, **environment):
        mapping = (front.entry(installation, "/clusters/", front.CLUSTERS) +
                   front.entry(installation, "/echo/", (echo or self.echo).url))
        proxy = front.FrontProxy(installation, mapping, *flags)
        proxy.environment = {name: "" for one in VARIABLES for name in (one, one.lower())} | environment
        return proxy

    def echoes(self, proxy):
        return proxy.client("").get("/echo/x").status

    def test_FP_166_a_backend_is_reached_through_it_and_loopback_is_not(self):
        for name in ("HTTPS_PROXY", "https_proxy"):
            self.middle.asked.clear()
            with self.proxy(**{name: self.middle.url}) as proxy:
                answer = proxy.client("").get("/echo/x")
                self.assertEqual((answer.status, json.loads(answer.body)), (200, {"served": "/echo/x"}), name)
                self.assertEqual(proxy.client("").get("/clusters/root/api/v1/namespaces/default").status, 200)
                self.assertEqual(set(self.middle.asked), {self.echo.place}, "shards are on loopback")

    def test_FP_166_upper_case_counts_first_and_the_scheme_chooses(self):
        other, plain = front.ConnectProxy(), Named("plain", tls=False)
        self.addCleanup(other.close)
        self.addCleanup(plain.close)
        with self.proxy(HTTPS_PROXY=self.middle.url.removeprefix("http://"), https_proxy=other.url, HTTP_PROXY=other.url) as proxy:
            self.assertEqual(self.echoes(proxy), 200)
            self.assertEqual((set(self.middle.asked), other.asked), ({self.echo.place}, []))
        self.middle.asked.clear()
        with self.proxy(echo=plain, HTTPS_PROXY=self.middle.url, HTTP_PROXY=other.url) as proxy:
            for number in range(3):
                answer = proxy.client("").get(f"/echo/x?y={number}")
                self.assertEqual((answer.status, json.loads(answer.body)), (200, {"served": f"/echo/x?y={number}"}))
            self.assertEqual((self.middle.asked, other.asked), ([], []), "nobody is asked for a connection to a plain server")
            self.assertEqual((self.middle.forwarded, other.forwarded), ([], [f"{plain.url}/echo/x?y={number}" for number in range(3)]))

    def test_FP_166_a_proxy_that_forwards_is_told_who_one_is(self):
        middle, plain = front.ConnectProxy("Basic bWU6c2VjcmV0"), Named("plain", tls=False)
        self.addCleanup(middle.close)
        self.addCleanup(plain.close)
        with self.proxy(echo=plain, HTTP_PROXY=middle.url.replace("://", "://me:secret@")) as proxy:
            answer = proxy.client("").get("/echo/x", headers={"Proxy-Authorization": "Basic evil", "Host": "elsewhere.example"})
            self.assertEqual((answer.status, middle.forwarded), (200, [f"{plain.url}/echo/x"]))
            self.assertEqual(plain.headers[0]["host"], plain.place)
            self.assertNotIn("proxy-authorization", plain.headers[0])
            self.assertNotIn("secret", proxy.log.read_text())
        with self.proxy(echo=plain, HTTP_PROXY=middle.url) as proxy:
            self.assertEqual(self.echoes(proxy), 407, "its answer is the answer")
        self.assertEqual((len(plain.asked), middle.asked), (1, []))

    def test_FP_166_no_proxy_keeps_it_out(self):
        for exception in ("*", ".example", "echo.example", self.echo.place):
            with self.proxy(HTTPS_PROXY=self.middle.url, NO_PROXY=exception) as proxy:
                self.assertEqual(self.echoes(proxy), 503, "nobody else knows that name")
        with self.proxy(HTTPS_PROXY=self.middle.url, no_proxy="echo.example") as proxy:
            self.assertEqual(self.echoes(proxy), 503)
        self.assertEqual(self.middle.asked, [])
        with self.proxy(HTTPS_PROXY=self.middle.url, NO_PROXY="cho.example,echo.example:1,10.0.0.0/8") as proxy:
            self.assertEqual(self.echoes(proxy), 200)
        self.assertIn(self.echo.place, self.middle.asked)

    def test_FP_166_who_one_is_to_it_is_said_to_it_alone(self):
        middle = front.ConnectProxy("Basic bWU6c2VjcmV0")
        self.addCleanup(middle.close)
        with self.proxy(HTTPS_PROXY=middle.url.replace("://", "://me:secret@")) as proxy:
            self.assertEqual(self.echoes(proxy), 200)
            self.assertNotIn("secret", proxy.log.read_text())
        with self.proxy(HTTPS_PROXY=middle.url) as proxy:
            self.assertEqual(self.echoes(proxy), 503, "it refuses, and there is no other way")
        self.assertEqual(len(self.echo.asked), 1)

    def test_FP_166_shards_and_proxy_url(self):
        own = front.ConnectProxy()
        self.addCleanup(own.close)
        named = {"server": f"https://root.example:{root_port()}", "tls-server-name": "localhost"}
        root = front.kubeconfig(installation, front.pair(installation), **named)
        with self.proxy(f"--root-kubeconfig={root}", HTTPS_PROXY=self.middle.url) as proxy:
            self.assertEqual(proxy.client("").get("/clusters/root/api/v1/namespaces/default").status, 200)
            self.assertEqual(set(self.middle.asked) - {self.echo.place}, {f"root.example:{root_port()}"})
        self.middle.asked.clear()
        root = front.kubeconfig(installation, front.pair(installation), **named, **{"proxy-url": own.url})
        with self.proxy(f"--root-kubeconfig={root}", HTTPS_PROXY=self.middle.url, NO_PROXY="*"):
            self.assertEqual((set(own.asked), self.middle.asked), ({f"root.example:{root_port()}"}, []))

    def test_FP_166_issuers(self):
        issuer = Named("issuer", answers=lambda path: {"keys": []} if path == "/keys" else {
            "issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"})
        self.addCleanup(issuer.close)
        with self.proxy(f"--oidc-issuer-url={issuer.url}", "--oidc-client-id=kcp", f"--oidc-ca-file={installation.pki}/serving-ca.crt",
                        HTTPS_PROXY=self.middle.url):
            kit.eventually(lambda: "/keys" in issuer.asked, 15, "its keys are read")
            self.assertEqual(set(issuer.asked), {"/.well-known/openid-configuration", "/keys"})
            self.assertIn(issuer.place, self.middle.asked)

    def test_FP_166_one_that_is_of_another_kind_is_no_reason_to_go_directly(self):
        with self.proxy(HTTPS_PROXY="socks5://me:secret@127.0.0.1:1") as proxy:
            self.assertEqual(self.echoes(proxy), 503)
            self.assertEqual(proxy.client("").get("/clusters/root/api/v1/namespaces/default").status, 200)
            text = proxy.log.read_text()
            self.assertEqual(text.count("HTTPS_PROXY: only http://host:port is supported"), 1, "a line says why")
            self.assertNotIn("secret", text)
        self.assertEqual(self.echo.asked, [])


if __name__ == "__main__":
    unittest.main()
