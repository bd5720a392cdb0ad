"""Watches over WebSockets through the proxy (AM-313): with a certificate, and as browsers do it, with a
token among the subprotocols."""
import base64
import hashlib
import json
import os
import struct
import unittest

import kit

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PATH = "/api/v1/namespaces/default/configmaps"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Socket:
    def __init__(self, client, path, headers=None):
        self.connection = client.connect(20)
        self.key = base64.b64encode(os.urandom(16))
        self.connection.request("GET", client.url.path + path, headers={
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": self.key.decode(),
            **(headers or {})})
        self.socket = self.connection.sock
        self.response = self.connection.response_class(self.socket, method="GET")
        self.response.begin()
        self.stream = self.response.fp if self.response.status == 101 else None

    def accepted(self):
        return self.response.status == 101 and self.response.headers["Sec-WebSocket-Accept"] == base64.b64encode(
            hashlib.sha1(self.key + GUID).digest()).decode()

    def send(self, opcode, payload=b""):
        mask = os.urandom(4)
        self.socket.sendall(bytes([0x80 | opcode, 0x80 | len(payload)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)))

    def exactly(self, size):
        data = self.stream.read(size)
        assert len(data) == size, f"the stream ended within a frame: {data!r}"
        return data

    def receive(self):
        first, size = self.exactly(2)
        if size >= 126:
            size = int.from_bytes(self.exactly(2 if size == 126 else 8), "big")
        return first & 15, self.exactly(size)

    def event(self):
        opcode, payload = self.receive()
        assert opcode == TEXT and not payload.endswith(b"\n"), (opcode, payload)
        return json.loads(payload)

    def close(self):
        self.response.close()
        self.connection.close()


class WebSockets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        cls.installation.make_workspace("sockets", selector={"region": "us-east-1"})
        cls.path = "/clusters/root:sockets"
        cls.client = cls.installation.client(cls.path)

    def open(self, client, query="", **headers):
        socket = Socket(client, f"{PATH}?watch=1{query}", headers)
        self.addCleanup(socket.close)
        return socket

    def make(self, name):
        self.client.must("POST", PATH, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        self.addCleanup(self.client.request, "DELETE", f"{PATH}/{name}")

    def test_events_pings_and_close_AM313(self):
        socket = self.open(self.client, "&fieldSelector=metadata.name=live")
        self.assertTrue(socket.accepted(), socket.response.status)
        self.make("live")
        event = socket.event()
        self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", "live"))
        socket.send(PING, b"there?")
        self.assertEqual(socket.receive(), (PONG, b"there?"))
        socket.send(CLOSE, struct.pack("!H", 1001))
        self.assertEqual(socket.receive(), (CLOSE, struct.pack("!H", 1001)))
        self.assertEqual(socket.stream.read(1), b"")

    def test_server_ends_with_1000_AM313(self):
        socket = self.open(self.client, "&fieldSelector=metadata.name=nobody&timeoutSeconds=1")
        self.assertEqual(socket.receive(), (CLOSE, struct.pack("!H", 1000)))
        self.assertEqual(socket.stream.read(1), b"")  # also for a client that does not answer

    def test_token_among_the_subprotocols_AM313(self):
        self.client.must("POST", "/api/v1/namespaces/default/serviceaccounts",
                         {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "browser"}})
        self.client.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "browser"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "browser", "namespace": "default"}]})
        token = self.client.must("POST", "/api/v1/namespaces/default/serviceaccounts/browser/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        anonymous = self.installation.client(self.path, cert=None)
        offered = "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()

        def watched():
            socket = self.open(anonymous, "&fieldSelector=metadata.name=seen", **{
                "Sec-WebSocket-Protocol": f"{offered}, base64.binary.k8s.io"})
            return socket if socket.accepted() else None

        socket = kit.eventually(watched, 20, "the token is accepted")
        self.assertEqual(socket.response.headers["Sec-WebSocket-Protocol"], "base64.binary.k8s.io")
        self.make("seen")
        self.assertEqual(socket.event()["object"]["metadata"]["name"], "seen")
        refused = self.open(anonymous, **{"Sec-WebSocket-Protocol": "base64.binary.k8s.io"})
        self.assertIn(refused.response.status, (401, 403))
        self.assertEqual(self.open(self.client, **{"Sec-WebSocket-Version": "8"}).response.status, 400)


if __name__ == "__main__":
    unittest.main()
