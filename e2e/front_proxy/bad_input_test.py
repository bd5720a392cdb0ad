"""Bad input through the proxy: each gets the right answer, and the next good request is served."""
import json
import socket
import ssl
import struct
import subprocess
import tempfile
import unittest

import kit

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def frame(kind, flags, stream, payload=b"", length=None):
    return struct.pack(">I", len(payload) if length is None else length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.root = cls.installation.client()

    def tearDown(self):
        self.assertEqual(self.root.get(CONFIGMAPS).status, 200, "the proxy still serves")

    def status(self, answer, code, reason, text):
        self.assertEqual(answer.status, code, answer)
        body = answer.json
        self.assertEqual((body["kind"], body["status"], body["code"]), ("Status", "Failure", code))
        self.assertEqual(body.get("reason"), reason)
        self.assertIn(text, body["message"])

    def raw(self, data, alpn):
        """Sends bytes over TLS and returns what comes back until the server closes or is silent."""
        context = ssl.create_default_context(cafile=str(self.installation.pki / "serving-ca.crt"))
        context.set_alpn_protocols([alpn])
        received = b""
        with socket.create_connection(("127.0.0.1", self.installation.port), timeout=5) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                tls.sendall(data)
                tls.settimeout(5)
                try:
                    while chunk := tls.recv(65536):
                        received += chunk
                        if alpn == "http/1.1" and b"\r\n\r\n" in received:
                            break
                except (ConnectionError, ssl.SSLError):
                    pass
                except TimeoutError:
                    return received, False
        return received, True

    def test_json_that_is_none(self):
        self.status(self.root.request("POST", CONFIGMAPS, "{bad", headers={"Content-Type": "application/json"}), 400, "BadRequest",
                    "couldn't get version/kind; json parse error")
        self.status(self.root.request("POST", CONFIGMAPS, "[" * 20000, headers={"Content-Type": "application/json"}), 400,
                    "BadRequest", "")
        self.status(self.root.request("POST", CONFIGMAPS, {"metadata": {"name": "a"}, "data": {"k": 5}}), 400, "BadRequest",
                    "ConfigMap in version \"v1\" cannot be handled as a ConfigMap")
        self.status(self.root.request("POST", CONFIGMAPS, "x", headers={"Content-Type": "text/plain"}), 415,
                    "UnsupportedMediaType", "unknown format")

    def test_names_selectors_and_versions(self):
        self.status(self.root.request("POST", CONFIGMAPS, {"metadata": {"name": "A_B"}}), 422, "Invalid", "metadata.name")
        self.status(self.root.get(CONFIGMAPS + "?labelSelector=a%3D%3D%3Db"), 400, "BadRequest", "unable to parse requirement")
        self.status(self.root.get(CONFIGMAPS + "?fieldSelector=spec.x%3D1"), 400, "BadRequest", "spec.x")
        self.status(self.root.get(CONFIGMAPS + "?limit=abc"), 400, "BadRequest", "abc")
        self.status(self.root.get(CONFIGMAPS + "?continue=abc&limit=1"), 400, "BadRequest", "continue")
        self.status(self.root.get(CONFIGMAPS + "?resourceVersion=abc"), 400, "BadRequest", "abc")

    def test_unknown_kinds_paths_and_workspaces(self):
        self.status(self.root.get("/api/v1/namespaces/default/nopes"), 404, "NotFound", "could not find the requested resource")
        outside = self.installation.client("")
        self.status(outside.get("/clusters/root:nope/api"), 403, "Forbidden", "workspace access not permitted")
        self.status(outside.get("/clusters/Bad_/api"), 403, "Forbidden", "workspace access not permitted")
        self.status(outside.get("/clusters/root/..%2F..%2Fx/api"), 400, "BadRequest", "encoded slash")
        self.status(outside.get("/clusters/root/%zz"), 400, "BadRequest", "% at offset 15")  # E16
        redirect = outside.get("/clusters//root/api?x=1")
        self.assertEqual((redirect.status, redirect.headers["Location"]), (307, "/clusters/root/api?x=1"))
        self.assertEqual(outside.get("/shards/nope/clusters/root/api").status, 404)

    def test_a_body_over_the_limit(self):
        """E12."""
        big = json.dumps({"metadata": {"name": "big"}, "data": {"k": "x" * (4 << 20)}})
        try:
            answer = self.root.request("POST", CONFIGMAPS, big, headers={"Content-Type": "application/json"}, timeout=20)
        except (BrokenPipeError, ConnectionResetError):
            return   # the answer came, and the connection was closed, before the client had sent everything
        self.status(answer, 413, "RequestEntityTooLarge", "limit is")

    def test_forged_identity_headers(self):
        """FP-049 to FP-061: whatever a client sends, the shard sees who connected."""
        mallory = self.installation.user_client("mallory", ["team"])
        kubectl = self.root.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "mallory"}, "roleRef": {"kind": "ClusterRole", "name": "system:kcp:workspace:access",
                                                         "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]})
        self.assertIn(kubectl.status, (201, 409))

        def whoami(headers):
            connection = mallory.connect()
            try:
                connection.putrequest("POST", "/clusters/root/apis/authentication.k8s.io/v1/selfsubjectreviews")
                body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
                connection.putheader("Content-Type", "application/json")
                connection.putheader("Content-Length", str(len(body)))
                for name, value in headers:
                    connection.putheader(name, value)
                connection.endheaders(body)
                response = connection.getresponse()
                text = response.read()
                assert response.status == 201, text
                return json.loads(text)["status"]["userInfo"]
            finally:
                connection.close()

        honest = kit.eventually(lambda: whoami([]))
        self.assertEqual(honest["username"], "mallory")
        self.assertNotIn("system:masters", honest["groups"])
        for headers in ([("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters")],
                        [("x-REMOTE-user", "admin"), ("X-rEmOtE-gRoUp", "system:masters")],
                        [("X_Remote_User", "admin"), ("X_Remote_Group", "system:masters")],
                        [("X-Remote_User", "admin"), ("X-Remote-Uid", "77")],
                        [("X-Remote-Group", "a"), ("X-Remote-Group", "system:masters"), ("X-Remote-Group", "b")],
                        [("X-Remote-Extra-authentication.kcp.io%2Fscopes", "cluster:x"), ("x-remote-extra-FOO", "1")],
                        [("Connection", "X-Remote-User, X-Remote-Group"), ("X-Remote-User", "admin")]):
            self.assertEqual(whoami(headers), honest, headers)

    def test_malformed_http1(self):
        for data in (b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                     b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
                     b"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
                     b"GET /livez HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", b"GET /livez HTTP/1.1\r\nHost: a\r\nBad Name: x\r\n\r\n"):
            received, _ = self.raw(data, "http/1.1")
            self.assertRegex(received[:12], rb"^HTTP/1\.1 (400|505)", data)
        received, _ = self.raw(b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 200000 + b"\r\n\r\n", "http/1.1")
        self.assertIn(b" 431 ", received[:20])  # E13

    def test_malformed_http2(self):
        settings = frame(4, 0, 0)
        for name, data in {
            "no preface": b"\0" * 64,
            "frame over the limit": PREFACE + settings + frame(0, 0, 1, b"", 1 << 23),
            "data on stream 0": PREFACE + settings + frame(0, 0, 0, b"x"),
            "headers on an even stream": PREFACE + settings + frame(1, 5, 2, b"\x82"),
            "bad header block": PREFACE + settings + frame(1, 5, 1, b"\xff\xff\xff\xff\xff"),
            "continuation without headers": PREFACE + settings + frame(9, 4, 1, b"\x82"),
            "settings with a torn entry": PREFACE + frame(4, 0, 0, b"\0\1\0"),
            "window update of 0 on the connection": PREFACE + settings + frame(8, 0, 0, b"\0\0\0\0"),
        }.items():
            _, closed = self.raw(data, "h2")
            self.assertTrue(closed, name)
        received, _ = self.raw(PREFACE + settings + b"".join(frame(6, 0, 0, b"12345678") for _ in range(5000)), "h2")
        self.assertTrue(received)

    def test_configuration_errors_name_file_line_and_key(self):
        good = (self.installation.state / "proxy" / "proxy.yaml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/proxy.yaml"
            for text, expected in ((good.replace("  port:", "  prot:"), f'error: {path}:8: listener.prot: unknown key "prot"; did you mean "port"?'),
                                   (good.replace("wildcard: serve", "wildcard: 7"), "wildcard: must be one of deny, serve"),
                                   ("kind: [", path)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                run = subprocess.run([str(kit.BINARY), "proxy", "--config", path, "--validate"], capture_output=True, text=True,
                                     timeout=60, check=False)
                self.assertEqual(run.returncode, 2)
                self.assertIn(expected, run.stderr)
                self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)


if __name__ == "__main__":
    unittest.main()
