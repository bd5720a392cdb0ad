"""Requests that want more than their share: bodies that never end, heads that are too large, and those that no backend takes.
Whoever else asks is served meanwhile (SE-075 to SE-079, SE-084, SE-110 to SE-118)."""
import json
import socket
import threading
import time
import unittest

import kit
import raw_h2

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JSON = [("content-type", "application/json")]


def make(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def setUpModule():
    global installation
    installation = kit.Installation(shards=1).start_for()
    for workspace, user in (("attacked", "mallory"), ("other", "mallory"), ("quiet", "bob")):
        installation.make_workspace(workspace)
        admin = installation.client(f"/clusters/root:{workspace}")
        admin.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "owner"}, "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}})
        kit.eventually(lambda u=user, w=workspace: user_client(u, w).get(MAPS).status == 200, 20, f"{user} is let in")


def user_client(user, workspace, base=None):
    client = installation.user_client(user, path=f"/clusters/root:{workspace}")
    if base:
        client = kit.Client(base, installation.pki / "serving-ca.crt", *kit.make_user(installation.dir, installation.pki, user, ()))
    return client


def cluster_of(workspace):
    admin = installation.client(f"/clusters/root:{workspace}")
    found = admin.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
    return found["metadata"]["annotations"]["kcp.io/cluster"]


def shard_base(workspace):
    return installation.shard_url("root") + "/clusters/" + cluster_of(workspace)


def clients(user, workspace):
    """The same through the proxy and straight at the shard."""
    return {"proxy": user_client(user, workspace), "shard": user_client(user, workspace, shard_base(workspace))}


class HalfSentBodies(unittest.TestCase):
    """SE-T033: 1,045 of them held every place of a shard for writes."""

    TOTAL = 1_045

    def served(self, name):
        """Neighbours read and write as if nothing was."""
        for number, (where, client) in enumerate(clients("bob", "quiet").items()):
            with self.subTest(where=where):
                answer = client.request("POST", MAPS, make(f"{name}-{number}"))
                self.assertEqual(answer.status, 201, answer)
                self.assertEqual(client.get(f"{MAPS}/{name}-{number}").status, 200)
                self.assertEqual(client.request("DELETE", f"{MAPS}/{name}-{number}").status, 200)

    def hold(self, where, connections, headers=()):
        """As many half-sent creates as there are, spread over the connections; all have been looked at."""
        client, open_ones = clients("mallory", "attacked")[where], []
        for index in range(connections):
            connection = raw_h2.Connection(client)
            self.addCleanup(connection.close)
            for _ in range(self.TOTAL // connections):
                stream = connection.open("POST", MAPS, [*JSON, *headers], end=False)
                connection.data(stream, b"{")
            open_ones.append(connection)
        for connection in open_ones:  # requests are taken in their order, so this one is behind all of them
            self.assertEqual(connection.ask("GET", MAPS).status, 200)
        return open_ones

    def case(self, where, connections, name, headers=()):
        self.hold(where, connections, headers)
        self.served(name)

    def test_SE_075_eleven_connections_through_the_proxy(self):
        self.case("proxy", 11, "eleven-proxy")

    def test_SE_075_eleven_connections_to_the_shard(self):
        self.case("shard", 11, "eleven-shard")

    def test_SE_075_a_hundred_connections_through_the_proxy(self):
        self.case("proxy", 95, "hundred-proxy")

    def test_SE_075_a_hundred_connections_to_the_shard(self):
        self.case("shard", 95, "hundred-shard")

    def test_SE_071_every_stream_as_another_user(self):
        client, open_ones = clients("mallory", "attacked")["shard"], []
        for index in range(11):
            connection = raw_h2.Connection(client)
            self.addCleanup(connection.close)
            for number in range(self.TOTAL // 11):
                stream = connection.open("POST", MAPS, [*JSON, ("impersonate-user", f"user-{index}-{number}"),
                                                        ("impersonate-group", "system:authenticated")], end=False)
                connection.data(stream, b"{")
            open_ones.append(connection)
        for connection in open_ones:
            self.assertEqual(connection.ask("GET", MAPS).status, 200)
        self.served("impersonated")

    def test_SE_075_other_ways_to_begin_a_write_and_not_to_end_it(self):
        for where, client in clients("mallory", "other").items():
            for method, path in (("PUT", MAPS + "/x"), ("PATCH", MAPS + "/x"), ("DELETE", MAPS + "/x"), ("DELETE", MAPS),
                                 ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")):
                with self.subTest(where=where, method=method, path=path):
                    connection = raw_h2.Connection(client)
                    self.addCleanup(connection.close)
                    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
                    streams = [connection.open(method, path, [("content-type", kind)], end=False) for _ in range(200)]
                    self.assertEqual(connection.ask("GET", MAPS).status, 200)
                    self.assertFalse([s for s in streams if s.status == 429])
        self.served("other-ways")

    def test_SE_075_what_is_sent_whole_in_the_end_is_done(self):
        for where, client in clients("mallory", "attacked").items():
            with self.subTest(where=where), raw_h2.Connection(client) as connection:
                body = json.dumps(make(f"late-{where}")).encode()
                stream = connection.open("POST", MAPS, JSON, end=False)
                for byte in body[:-1]:
                    connection.data(stream, bytes([byte]))
                self.assertEqual(connection.ask("GET", f"{MAPS}/late-{where}").status, 404)
                connection.data(stream, body[-1:], end=True)
                self.assertTrue(connection.until(lambda s=stream: s.over))
                self.assertEqual(stream.status, 201)


class SlowBodies(unittest.TestCase):
    def test_SE_078_bodies_that_do_not_come_are_given_up_with_408(self):
        """All at once, since each takes ten seconds: nothing, a byte, a byte now and then; HTTP/2 and HTTP/1.1."""
        waiting = []
        for where, client in clients("mallory", "attacked").items():
            connection = raw_h2.Connection(client)
            self.addCleanup(connection.close)
            silent = connection.open("POST", MAPS, JSON, end=False)
            begun = connection.open("POST", MAPS, JSON, end=False)
            connection.data(begun, b"{")
            drip = connection.open("PATCH", MAPS + "/x", [("content-type", "application/merge-patch+json")], end=False)
            plain = self.half_sent(client)
            self.addCleanup(plain.close)
            waiting.append((where, connection, (silent, begun, drip), drip, plain))
        end = time.monotonic() + 120
        while time.monotonic() < end and not all(s.over for _, _, streams, _, _ in waiting for s in streams):
            for _, connection, _, drip, _ in waiting:
                if not drip.over and not connection.closed:
                    connection.data(drip, b" ")
                connection.read(0.2)
        for where, connection, streams, _, plain in waiting:
            with self.subTest(where=where):
                self.assertEqual([s.status for s in streams], [408] * 3)
                self.assertIn(b"the request body did not arrive in time", streams[0].body)
                self.assertTrue(connection.until(lambda ss=streams: all(s.reset in (None, 0) for s in ss), 1))
                self.assertEqual(connection.ask("GET", MAPS).status, 200, "the connection goes on")
                text = b""
                while part := plain.recv(4096):
                    text += part
                self.assertTrue(text.startswith(b"HTTP/1.1 408 "), text)
                self.assertIn(b"connection: close", text.lower())

    @staticmethod
    def half_sent(client):
        raw = socket.create_connection((client.url.hostname, client.url.port), timeout=120)
        context = installation.user_client("mallory").context
        tls = context.wrap_socket(raw, server_hostname=client.url.hostname)
        tls.sendall((f"POST {client.url.path}{MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     "Content-Length: 100\r\n\r\n{").encode())
        return tls


class Heads(unittest.TestCase):
    """SE-084, SE-110 to SE-117 on the wire."""

    @staticmethod
    def say(client, text):
        """The status of the answer to these bytes; None without one."""
        raw = socket.create_connection((client.url.hostname, client.url.port), timeout=60)
        context = installation.user_client("mallory").context
        with context.wrap_socket(raw, server_hostname=client.url.hostname) as tls:
            tls.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
            got = b""
            while b"\r\n" not in got and (part := tls.recv(4096)):
                got += part
            return int(got.split()[1]) if got else None

    def test_SE_084_large_heads_are_refused_and_everybody_else_is_served(self):
        start = "GET /livez HTTP/1.1\r\nHost: x\r\n"
        cases = [("a field", 431, start + "a: " + "b" * 33_000 + "\r\n\r\n"),
                 ("fields", 431, start + "".join(f"a{i}: b\r\n" for i in range(257)) + "\r\n"),
                 ("the sum", 431, start + "".join(f"a{i}: {'b' * 1000}\r\n" for i in range(70)) + "\r\n"),
                 ("the target", 431, f"GET /livez?{'a' * 70_000} HTTP/1.1\r\nHost: x\r\n\r\n"),
                 ("Connection", 400, start + "Connection: " + ",".join(f"{i:x}" for i in range(6_000)) + "\r\n\r\n"),
                 ("many Connections", 400, start + "".join(f"Connection: a{i}\r\n" for i in range(65)) + "\r\n")]
        for where, client in clients("mallory", "attacked").items():
            for what, status, text in cases:
                with self.subTest(where=where, what=what):
                    self.assertEqual(self.say(client, text), status)
            self.assertEqual(self.say(client, start + "Connection: " + ",".join(f"a{i}" for i in range(63)) + "\r\n\r\n"), 200)

    def test_SE_110_SE_111_SE_112_messages_with_two_meanings(self):
        post = f"POST {{}}{MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        cases = [(400, "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
                 (400, "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
                 (501, "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
                 (400, "Host: y\r\n\r\n"), (400, "a : b\r\n\r\n"), (400, "a: b\r\n c\r\n\r\n"), (400, "a: b\nc: d\r\n\r\n"),
                 (400, "Transfer-Encoding: chunked\r\n\r\n2\n{}\r\n0\r\n\r\n"),
                 (400, "Transfer-Encoding: chunked\r\n\r\n00000000000000002\r\n{}\r\n0\r\n\r\n"),
                 (400, "Transfer-Encoding: chunked\r\n\r\n2;" + "x" * 300 + "\r\n{}\r\n0\r\n\r\n"),
                 (400, "Transfer-Encoding: chunked\r\n\r\nzz\r\n")]
        for where, client in clients("mallory", "attacked").items():
            for status, rest in cases:
                with self.subTest(where=where, rest=rest[:60]):
                    self.assertEqual(self.say(client, post.format(client.url.path) + rest), status)

    def test_SE_117_expectations(self):
        """100 where the head is not refused by itself: who is not known, or has no right at the shard that he speaks to, is told so at once."""
        def post(cluster, expectation, length=2):
            return (f"POST /clusters/{cluster}{MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
                    f"Expect: {expectation}\r\n\r\n")

        for where, client in clients("mallory", "attacked").items():
            path = client.url.path.removeprefix("/clusters/")
            for expectation in ("100-continue", "100-Continue", "100-CONTINUE"):
                with self.subTest(where=where, expectation=expectation):
                    self.assertEqual(self.say(client, post(path, expectation)), 100)
                    of_a_shard = () if where == "proxy" else ("aaaaaaaaaaaaaaaa", "root")  # the proxy asks its shards first, which takes time
                    for cluster in (*of_a_shard, "..", "a%00b", "a%2F..%2Fb/api"):
                        self.assertNotIn(self.say(client, post(cluster, expectation)), (100, None), cluster)
            for expectation in ("magic", "100-continue, magic", "200-ok", "100"):
                with self.subTest(where=where, expectation=expectation):
                    self.assertEqual(self.say(client, post(path, expectation)), 417)

    def test_SE_116_methods(self):
        for where, client in clients("mallory", "attacked").items():
            path = client.url.path
            for method, target in (("get", path + MAPS), ("TRACE", path + MAPS), ("PROPFIND", path + MAPS), ("get", "/livez"),
                                   ("POST", "/livez"), ("DELETE", "/readyz"), ("Post", path + MAPS)):
                with self.subTest(where=where, method=method, target=target):
                    self.assertEqual(self.say(client, f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n"), 405)


class Backends(unittest.TestCase):
    """A proxy in front of servers that speak HTTP/1.1, which answer everything with what they got."""

    @classmethod
    def setUpClass(cls):
        cls.seen = []

        def answer(request):
            cls.seen.append((request.command, request.path, request.headers.get("Host"), len(request.body)))
            return 200, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}

        cls.backend = kit.JsonServer(installation.pki, answer)
        cls.addClassCleanup(cls.backend.close)
        cls.backend.server.RequestHandlerClass.do_PUT = cls.backend.server.RequestHandlerClass.do_GET
        cls.proxy = kit.Proxy(installation, {"limits": {"body_bytes": 16 << 20}}, loops=1)
        cls.proxy.config["topology"] = {"source": "static", "shards": f"[{{name: one, url: \"{cls.backend.url}\"}}]"}
        cls.proxy.write_config()
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)
        cls.client = cls.proxy.client("/clusters/one")
        kit.eventually(lambda: cls.client.get(MAPS).status == 200, 20, "the backend answers")

    def test_SE_115_SE_118_an_authority_that_no_backend_takes_delays_nobody(self):
        bad = ("a@b", "user:pass@a", "a:0", "a:65536", "a:b", "a%40b", "a,b", "[::1", "x" * 300)
        before = len(self.seen)
        with raw_h2.Connection(self.client) as attacker, raw_h2.Connection(self.client) as neighbour:
            streams = [attacker.open("GET", f"{MAPS}?n={number}", authority=authority) for number, authority in enumerate(bad)]
            for _ in range(5):
                self.assertEqual(neighbour.ask("GET", MAPS).status, 200)
                self.assertEqual(attacker.ask("GET", MAPS).status, 200)
            self.assertTrue(attacker.until(lambda: all(s.over for s in streams)))
            self.assertEqual([s.status for s in streams], [400] * len(bad))
            self.assertIn(b"malformed authority", streams[0].body)
        self.assertFalse([path for _, path, _, _ in self.seen[before:] if "?n=" in path], "nothing of it was sent")

    def test_SE_T049_before_backends_of_both_protocols(self):
        """An HTTP/1.1 backend, and a shard through HTTP/2: nothing of it is sent, nobody waits for it."""
        bad = ("a@b", "a:b", "x" * 300, "[::1", "a%40b")
        for where, client in (("HTTP/1.1", self.client), ("HTTP/2", installation.client("/clusters/root"))):
            with self.subTest(where=where), raw_h2.Connection(client) as attacker, raw_h2.Connection(client) as neighbour:
                self.assertEqual(neighbour.ask("GET", MAPS).status, 200)
                quiet = min(self.seconds_of(neighbour) for _ in range(5))
                streams = [attacker.open("GET", f"{MAPS}?n={number}", authority=bad[number % len(bad)]) for number in range(60)]
                took = sorted(self.seconds_of(neighbour) for _ in range(9))[4]
                self.assertTrue(attacker.until(lambda: all(s.over for s in streams)))
                self.assertEqual({s.status for s in streams}, {400})
                self.assertLess(took, quiet * 10 + 0.5, "no queue is blocked")
                for authority in ("a b", ""):  # HTTP/2 itself does not allow them: reset PROTOCOL_ERROR
                    refused = attacker.ask("GET", MAPS, authority=authority)
                    self.assertEqual((refused.status, refused.reset), (None, 1), authority)
                self.assertEqual(attacker.ask("GET", MAPS).status, 200)

    def seconds_of(self, connection):
        begin = time.monotonic()
        self.assertEqual(connection.ask("GET", MAPS).status, 200)
        return time.monotonic() - begin

    def test_SE_115_authorities_that_http_2_does_not_allow_are_reset(self):
        with raw_h2.Connection(self.client) as attacker:
            for authority in ("a b", "a/b", "a\tb"):
                stream = attacker.ask("GET", MAPS, authority=authority)
                self.assertEqual((stream.status, stream.reset), (None, 1), authority)
            stream = attacker.ask("GET", MAPS, [("host", "other")])
            self.assertEqual((stream.status, stream.reset), (None, 1))
            self.assertEqual(attacker.ask("GET", MAPS).status, 200)

    def test_SE_115_the_same_in_http_1(self):
        for host in ("a@b", "a b", "", "a:0", "x" * 300, "a/b"):
            with self.subTest(host=host):
                self.assertEqual(Heads.say(self.client, f"GET {self.client.url.path}{MAPS} HTTP/1.1\r\nHost: {host}\r\n\r\n"), 400)

    def resident(self):
        return kit.own_memory(self.proxy.process.pid)

    @kit.without_sanitizer
    def test_SE_090_writes_that_wait_for_their_end_have_one_purse(self):
        """250 bodies of which each may be 16 MiB: the proxy keeps them until they are whole, and not all of them."""
        begin, most = self.resident(), 0
        kinds = ("application/json", "application/vnd.kubernetes.protobuf", "")
        with raw_h2.Connection(self.client) as attacker:
            streams = []
            for number in range(240):
                kind = kinds[number % 3]
                streams.append(attacker.open("POST" if number % 2 else "PUT", MAPS + ("" if number % 2 else "/x"),
                                             [("content-type", kind)] if kind else [], end=False))
            end = time.monotonic() + 120
            served = 0
            while time.monotonic() < end and not attacker.closed:
                attacker.read(0.01)
                waiting = [s for s in streams if not s.over and s.sent < 1_000_000]
                if not waiting:
                    break
                for stream in waiting:
                    room = min(stream.window, attacker.window, 16_384)
                    if room > 0:
                        attacker.data(stream, b" " * room)
                most = max(most, self.resident() - begin)
                served += self.client.get(MAPS).status == 200
            self.assertLess(most, 100 << 20)
            self.assertGreater(served, 0)
            refused = [s for s in streams if s.status == 429]
            late = [s for s in streams if s.status == 408]  # on a busy machine bodies come too slowly to be kept (SE-078)
            self.assertGreater(len(refused) + len(late), 150, [s.status for s in streams])
            self.assertGreater(len(refused), 50)
            self.assertIn(b"too many bytes of request bodies", refused[0].body)
        kit.eventually(lambda: self.proxy.metric('kintsugi_memory_bytes{account="bodies"}') == 0 and
                       self.proxy.metric("kintsugi_memory_budget_bytes") > 0, 20, "nothing is left of them")

    def test_SE_090_bodies_that_are_announced_too_large_are_refused_before_they_come(self):
        with raw_h2.Connection(self.client) as attacker:
            for method, kind in (("POST", "application/json"), ("PUT", "application/json"), ("PATCH", "application/merge-patch+json")):
                stream = attacker.open(method, MAPS + "/x", [("content-type", kind), ("content-length", str(17 << 20))], end=False)
                self.assertTrue(attacker.until(lambda s=stream: s.status))
                self.assertEqual(stream.status, 413)

    def test_what_the_marker_is_taken_out_of_arrives(self):
        for name, size in (("small", 10), ("medium", 100_000), ("large", 3_000_000)):
            thing = make("x", text="x" * size)
            thing["metadata"]["annotations"] = {"kcp.io/cluster": "one", "kept": "yes"}
            bare = json.loads(json.dumps(thing))
            del bare["metadata"]["annotations"]["kcp.io/cluster"]
            cut = len(', "kcp.io/cluster": "one"')
            self.assertEqual(self.client.request("PUT", f"{MAPS}/{name}", thing).status, 200)
            sent = [length for command, path, _, length in self.seen if command == "PUT" and path.endswith("/" + name)]
            self.assertEqual(sent, [len(json.dumps(thing)) - cut], name)

    def test_SE_076_clients_that_leave_make_room(self):
        stop, leaving = threading.Event(), self.proxy.client("/clusters/one")

        def leave():
            while not stop.is_set():
                with raw_h2.Connection(leaving) as attacker:
                    for _ in range(100):
                        attacker.data(attacker.open("POST", MAPS, JSON, end=False), b"{" * 1_000)

        thread = threading.Thread(target=leave, daemon=True)
        thread.start()
        try:
            for _ in range(20):
                self.assertEqual(self.client.request("POST", MAPS, make("x")).status, 200)
        finally:
            stop.set()
            thread.join(60)
        kit.eventually(lambda: self.proxy.metric('kintsugi_memory_bytes{account="bodies"}') == 0 and
                       self.proxy.metric("kintsugi_memory_budget_bytes") > 0, 20, "nothing is left of them")


if __name__ == "__main__":
    unittest.main()
