"""Identities that outlive their proof (SE-040 to SE-050): certificates that end, authorities and serials that are taken back,
tokens that run out, under open connections and running streams, at the proxy and at a shard."""
import base64
import contextlib
import datetime
import json
import os
import pathlib
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import unittest

import fake_clock
import kit
from kit import bearer

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WATCH = f"{MAPS}?watch=true&allowWatchBookmarks=true"
WATCH_ALL = WATCH.replace("/namespaces/default", "")


def setUpModule():
    global installation, workspace
    installation = kit.Installation(shards=2).start_for()
    workspace = installation.make_workspace("door", selector={"name": "shard-1"})
    installation.client("/clusters/root:door").must("POST", MAPS, {"metadata": {"name": "seen"}, "data": {"v": "x"}})


def after(seconds):
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)


def seconds_until(end):
    return (end - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


class Authority:
    """A CA with a book of what it has signed, by openssl: certificates that end at a second, and revocation lists."""

    def __init__(self, folder, cert, key):
        self.folder, self.cert, self.key = pathlib.Path(folder), cert, key
        self.folder.mkdir(parents=True)
        self.config = self.folder / "ca.cnf"
        (self.folder / "index").write_text("")
        self.config.write_text(f"[ca]\ndefault_ca=d\n[d]\ndatabase={self.folder / 'index'}\nnew_certs_dir={self.folder}\ndefault_md=sha256\n"
                               "rand_serial=yes\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\norganizationName=optional\n")

    @classmethod
    def of_installation(cls, folder):
        return cls(folder, installation.pki / "client-ca.crt", installation.pki / "client-ca.key")

    @classmethod
    def new(cls, folder, name):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                        f"/CN={name}", "-keyout", folder / "ca.key", "-out", folder / "ca.crt"], check=True, capture_output=True)
        return cls(folder / "book", folder / "ca.crt", folder / "ca.key")

    def openssl(self, *arguments):
        subprocess.run(["openssl", "ca", "-batch", "-notext", "-config", self.config, "-cert", self.cert, "-keyfile", self.key,
                        *arguments], check=True, capture_output=True)

    def sign(self, name, end=None, group="system:kcp:admin"):
        base = self.folder / name
        cert, key, request = base.with_suffix(".crt"), base.with_suffix(".key"), base.with_suffix(".csr")
        subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                        "-out", request, "-subj", f"/O={group}/CN={name}"], check=True, capture_output=True)
        self.openssl("-in", request, "-out", cert, "-startdate", "20200101000000Z", "-enddate", f"{end or after(86400):%Y%m%d%H%M%SZ}")
        return cert, key

    def revoke(self, pair):
        self.openssl("-revoke", pair[0])

    def crl(self, seconds=3600):
        out = self.folder / "list.crl"
        self.openssl("-gencrl", "-crlsec", str(seconds), "-out", out)
        return out.read_bytes()


class Watching(threading.Thread):
    """A watch through HTTP/1.1: its events, when and how it ended."""

    def __init__(self, client, path=WATCH, headers=None):
        super().__init__(daemon=True)
        self.events, self.status, self.fault, self.ended_at = [], None, None, None
        self.client, self.path, self.headers = client, path, headers or {}
        self.start()

    def run(self):
        connection = self.client.connect(120)
        try:
            connection.request("GET", self.client.url.path + self.path, headers=self.headers)
            response = connection.getresponse()
            self.status = response.status
            for line in response:
                if line.strip():
                    self.events.append(json.loads(line))
        except Exception as fault:  # pylint: disable=broad-except
            self.fault = fault
        finally:
            self.ended_at = time.time()
            connection.close()

    def types(self):
        return [event["type"] for event in self.events]


class H2Watching(Watching):
    """The same through HTTP/2, by curl."""

    def __init__(self, client, pair, path=WATCH):
        self.pair, self.code = pair, None
        super().__init__(client, path)

    def run(self):
        url = f"https://127.0.0.1:{self.client.url.port}{self.client.url.path}{self.path}"
        run = subprocess.run(["curl", "-sN", "--http2", "--cacert", installation.pki / "serving-ca.crt", "--cert", self.pair[0], "--key",
                              self.pair[1], "-w", "\n%{http_version} %{http_code}", "--max-time", "120", url],
                             capture_output=True, text=True, check=False)
        self.ended_at, self.code = time.time(), run.returncode
        *lines, last = run.stdout.splitlines() or [""]
        self.version, self.status = last.split(" ") if " " in last else (None, None)
        self.events = [json.loads(line) for line in lines if line.strip()]


class Frames:
    """HTTP/2 on one connection, frame by frame."""

    def __init__(self, port, pair):
        context = ssl.create_default_context(cafile=str(installation.pki / "serving-ca.crt"))
        context.load_cert_chain(*map(str, pair))
        context.set_alpn_protocols(["h2"])
        self.tls = context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30), server_hostname="127.0.0.1")
        self.tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(4, 0, 0))
        self.buffer, self.stream, self.bodies, self.goaways = b"", -1, {}, []

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    @staticmethod
    def literal(name, value):
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

    def get(self, path):
        self.stream += 2
        block = b"\x82\x87" + self.literal(b":path", path.encode()) + self.literal(b":authority", b"x")
        self.tls.sendall(self.frame(1, 5, self.stream, block))
        return self.stream

    def read(self, until, deadline=60):
        """Reads frames until `until()`; answers SETTINGS and PINGs."""
        end = time.monotonic() + deadline
        while not until():
            assert time.monotonic() < end, f"still waiting: {self.bodies} {self.goaways}"
            self.tls.settimeout(max(0.01, end - time.monotonic()))
            with contextlib.suppress(TimeoutError):
                piece = self.tls.recv(65536)
                assert piece, "the connection ended"
                self.buffer += piece
            while len(self.buffer) >= 9 and len(self.buffer) >= 9 + int.from_bytes(self.buffer[:3], "big"):
                size, kind, flags = int.from_bytes(self.buffer[:3], "big"), self.buffer[3], self.buffer[4]
                stream, payload = int.from_bytes(self.buffer[5:9], "big"), self.buffer[9:9 + size]
                self.buffer = self.buffer[9 + size:]
                if kind in (4, 6) and not flags & 1:
                    self.tls.sendall(self.frame(kind, 1, 0, payload if kind == 6 else b""))
                elif kind == 0:
                    body, _ = self.bodies.get(stream, (b"", False))
                    self.bodies[stream] = (body + payload, bool(flags & 1))
                elif kind == 7:
                    self.goaways.append((int.from_bytes(payload[:4], "big"), int.from_bytes(payload[4:8], "big")))

    def done(self, stream):
        return self.bodies.get(stream, (b"", False))[1]


class Sockets:
    """A watch over a WebSocket: reads frames."""

    def __init__(self, client, path, headers=None):
        self.connection = client.connect(60)
        self.connection.request("GET", client.url.path + path, headers={
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **(headers or {})})
        self.response = self.connection.response_class(self.connection.sock, method="GET")
        self.response.begin()
        assert self.response.status == 101, self.response.status

    def receive(self):
        def exactly(size):
            data = self.response.fp.read(size)
            assert len(data) == size, f"the stream ended within a frame: {data!r}"
            return data
        first, size = exactly(2)
        if size >= 126:
            size = int.from_bytes(exactly(2 if size == 126 else 8), "big")
        return first & 15, exactly(size)


class Case(unittest.TestCase):
    def proxy(self, loops=2, flags=(), **change):
        proxy = kit.Proxy(installation, change={"wildcard": "serve", **change}, loops=loops, flags=flags)
        self.addCleanup(proxy.__exit__)
        return proxy

    def client(self, proxy, pair=(None, None), path="/clusters/root:door"):
        return kit.Client(f"https://127.0.0.1:{proxy.port}{path}", installation.pki / "serving-ca.crt", *pair)

    def ends_in_order(self, watch, end, within, what=""):
        """The stream ends with END_STREAM after a bookmark, in time and not before."""
        watch.join(max(0, seconds_until(end)) + within + 20)
        self.assertIsNotNone(watch.ended_at, f"{what}: it goes on")
        late = watch.ended_at - end.timestamp()
        self.assertGreaterEqual(late, -1, f"{what}: ended early")
        self.assertLess(late, within, f"{what}: ended late")
        self.assertIsNone(watch.fault, what)
        self.assertIn(watch.status, (200, "200"), what)
        self.assertNotIn("ERROR", watch.types(), what)
        self.assertEqual(watch.types()[-1:], ["BOOKMARK"], what)

    def running(self, *watches):
        kit.eventually(lambda: all(watch.events or isinstance(watch, H2Watching) for watch in watches), 15, "the watches run")


class Certificates(Case):
    """SE-042."""

    def test_SE_T018_watches_end_when_the_certificate_does(self):
        authority = Authority.of_installation(installation.dir / "t018")
        with self.proxy() as proxy:
            end = after(9)
            pair = authority.sign("ada", end)
            here, everywhere = self.client(proxy, pair), self.client(proxy, pair, "/clusters/*")
            watches = {"h1": Watching(here), "h2": H2Watching(here, pair), "merged h1": Watching(everywhere, WATCH_ALL),
                       "merged h2": H2Watching(everywhere, pair, WATCH_ALL),
                       "partitions of the proxy": Watching(here, "/apis/topology.kcp.io/v1alpha1/partitions?watch=true")}
            other = Watching(self.client(proxy, authority.sign("bea")))
            self.running(watches["h1"], watches["merged h1"], other)
            partitions = watches.pop("partitions of the proxy")
            for what, watch in watches.items():
                self.ends_in_order(watch, end, 6, what)
            self.assertEqual([watches[what].code for what in ("h2", "merged h2")], [0, 0])
            partitions.join(10)
            self.assertIsNotNone(partitions.ended_at, "the proxy's own kinds, too")
            self.assertTrue(other.is_alive(), "another certificate")
            self.assertEqual(here.get(MAPS).status, 401)

    def test_SE_T018_requests_of_an_open_connection_get_401(self):
        authority = Authority.of_installation(installation.dir / "t018-h1")
        with self.proxy() as proxy:
            end = after(6)
            client = self.client(proxy, authority.sign("ada", end))
            connection = client.connect()
            self.addCleanup(connection.close)

            def ask():
                connection.request("GET", client.url.path + MAPS)
                response = connection.getresponse()
                response.read()
                return response.status, response.headers.get("Connection")

            self.assertEqual(ask()[0], 200)
            self.assertEqual(ask()[0], 200)
            sock = connection.sock
            kit.eventually(lambda: seconds_until(end) < -1.5, 20)
            self.assertIs(connection.sock, sock, "the same connection")
            self.assertEqual(ask(), (401, "close"))

    def test_SE_T018_h2_connections_are_told_to_go(self):
        authority = Authority.of_installation(installation.dir / "t018-h2")
        with self.proxy() as proxy:
            end = after(6)
            frames = Frames(proxy.port, authority.sign("ada", end))
            stream = frames.get("/clusters/root:door" + MAPS)
            frames.read(lambda: frames.done(stream))
            self.assertEqual(json.loads(frames.bodies[stream][0])["kind"], "ConfigMapList")
            watch = frames.get("/clusters/root:door" + WATCH)
            frames.read(lambda: b"ADDED" in frames.bodies.get(watch, (b"", 0))[0])
            self.assertEqual(frames.goaways, [])
            frames.read(lambda: frames.goaways)
            self.assertEqual(frames.goaways[0], (2**31 - 1, 0), "the first of two")
            self.assertLess(-seconds_until(end), 2.5)
            late = frames.get("/clusters/root:door" + MAPS)
            frames.read(lambda: len(frames.goaways) == 2 and frames.done(watch))
            self.assertEqual(json.loads(frames.bodies[watch][0].splitlines()[-1])["type"], "BOOKMARK")
            if frames.goaways[1][0] >= late:  # it crossed the notice
                frames.read(lambda: frames.done(late))
                self.assertEqual(json.loads(frames.bodies[late][0])["code"], 401)

    def test_SE_T018_a_write_that_runs_is_finished(self):
        authority = Authority.of_installation(installation.dir / "t018-post")
        with self.proxy() as proxy:
            end = after(6)
            client = self.client(proxy, authority.sign("ada", end))
            body = json.dumps({"metadata": {"name": "late"}, "data": {"v": "y" * 5000}}).encode()
            connection = client.connect()
            self.addCleanup(connection.close)
            connection.putrequest("POST", client.url.path + MAPS)
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body[:100])
            kit.eventually(lambda: seconds_until(end) < -2, 20)
            connection.send(body[100:])
            response = connection.getresponse()
            self.assertEqual(response.status, 201, response.read())

    def test_SE_049_websockets_are_closed_with_1008(self):
        authority = Authority.of_installation(installation.dir / "t018-ws")
        with self.proxy() as proxy:
            end = after(8)
            sock = Sockets(self.client(proxy, authority.sign("ada", end)), f"{MAPS}?watch=1")
            frames = [sock.receive()]
            while frames[-1][0] != 8:
                frames.append(sock.receive())
            self.assertEqual(json.loads(frames[0][1])["type"], "ADDED")
            self.assertEqual(frames[-1][1], (1008).to_bytes(2, "big"))
            self.assertGreaterEqual(-seconds_until(end), -1)
            self.assertLess(-seconds_until(end), 6)

    def test_SE_042_at_a_shard_too(self):
        authority = Authority.of_installation(installation.dir / "t018-shard")
        end = after(8)
        client = kit.Client(f"{installation.shard_url('shard-1')}/clusters/{workspace['spec']['cluster']}", installation.pki / "serving-ca.crt",
                            *authority.sign("ada", end, "system:masters"))
        connection = client.connect()
        self.addCleanup(connection.close)
        connection.request("GET", client.url.path + MAPS)
        first = connection.getresponse()
        first.read()
        self.assertEqual(first.status, 200)
        watch = Watching(client)
        self.running(watch)
        self.ends_in_order(watch, end, 6)
        connection.request("GET", client.url.path + MAPS)
        self.assertEqual(connection.getresponse().status, 401)


class Reloads(Case):
    """SE-043, SE-044, SE-050."""

    def test_SE_043_a_removed_authority(self):
        second = Authority.new(installation.dir / "se043", "second")
        with self.proxy() as proxy:
            alone = (proxy.dir / "client-ca.crt").read_bytes()
            kit.replace_file(proxy.dir / "client-ca.crt", alone + second.cert.read_bytes())
            pair = second.sign("ada")
            client = self.client(proxy, pair)
            kit.eventually(lambda: client.get(MAPS).status == 200, 15, "the second authority is known")
            watches = [Watching(client), Watching(self.client(proxy, pair, "/clusters/*"), WATCH_ALL), Watching(client, headers={"X": "1"})]
            other = Watching(proxy.client("/clusters/root:door"), WATCH)
            self.running(*watches, other)
            now = after(0)
            kit.replace_file(proxy.dir / "client-ca.crt", alone)
            for watch in watches:
                self.ends_in_order(watch, now, 15)
            self.assertEqual(client.get(MAPS).status, 401)
            self.assertTrue(other.is_alive())

    def test_SE_T020_a_revoked_serial(self):
        authority = Authority.of_installation(installation.dir / "t020")
        ada, bea = authority.sign("ada"), authority.sign("bea")
        proxy = self.proxy(authentication={"client_crl_file": "clients.crl"})
        (proxy.dir / "clients.crl").write_bytes(authority.crl())
        with proxy:
            watch, other = Watching(self.client(proxy, ada)), Watching(self.client(proxy, bea))
            self.running(watch, other)
            authority.revoke(ada)
            now = after(0)
            kit.replace_file(proxy.dir / "clients.crl", authority.crl())
            self.ends_in_order(watch, now, 15)
            self.assertEqual(self.client(proxy, ada).get(MAPS).status, 401)
            self.assertEqual(self.client(proxy, bea).get(MAPS).status, 200)
            self.assertTrue(other.is_alive())
            kit.replace_file(proxy.dir / "clients.crl", b"broken")
            kit.eventually(lambda: "clients.crl" in proxy.text() and "reload failed" in proxy.text(), 15, "a line about it")
            self.assertEqual(self.client(proxy, ada).get(MAPS).status, 401, "the old list stays")
            self.assertEqual(self.client(proxy, bea).get(MAPS).status, 200)

    def test_SE_T020_a_revoked_serial_at_a_shard(self):
        authority = Authority.of_installation(installation.dir / "t020-shard")
        ada, bea = (authority.sign(name, group="system:masters") for name in ("ada", "bea"))
        crl, log = installation.dir / "shard.crl", installation.dir / "shard.log"
        crl.write_bytes(authority.crl())
        with log.open("ab") as out:
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(installation.state), "--name", "listed",
                                      "--client-crl-file", str(crl)], stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        # A shard that is away would keep the proxies of other tests waiting.
        self.addCleanup(installation.client().request, "DELETE", "/apis/core.kcp.io/v1alpha1/shards/listed")
        self.addCleanup(shard.wait)
        self.addCleanup(shard.kill)
        access = installation.state / "shards" / "listed" / "admin.kubeconfig"
        kit.eventually(lambda: access.exists() and "server: " in access.read_text(), 20, "the shard is there")
        port = int(access.read_text().split("server: ")[1].split()[0].split(":")[2].split("/")[0])
        clients = [kit.Client(f"https://127.0.0.1:{port}/clusters/*", installation.pki / "serving-ca.crt", *pair) for pair in (ada, bea)]
        kit.eventually(lambda: all(client.get("/api/v1/configmaps").status == 200 for client in clients), 20, "the shard serves")
        watch, other = (Watching(client, WATCH_ALL) for client in clients)
        kit.eventually(lambda: watch.status == 200 and other.status == 200, 15, "the watches run")
        authority.revoke(ada)
        now = after(0)
        kit.replace_file(crl, authority.crl())
        watch.join(20)
        self.assertIsNotNone(watch.ended_at, "it goes on")
        self.assertLess(watch.ended_at - now.timestamp(), 15)
        self.assertNotIn("ERROR", watch.types())
        self.assertEqual([client.get("/api/v1/configmaps").status for client in clients], [401, 200])
        self.assertTrue(other.is_alive())
        refused = subprocess.run([str(kit.BINARY), "shard", "--join", str(installation.state), "--name", "other", "--client-crl-file",
                                  str(installation.pki / "client-ca.crt")], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("client-ca.crt: holds no PEM revocation list", refused.stderr)

    def test_SE_T020_lists_that_run_out_and_of_others(self):
        authority = Authority.of_installation(installation.dir / "t020-stale")
        foreign = Authority.new(installation.dir / "t020-foreign", "foreign")
        pair = authority.sign("ada")
        for rule, stale, status in (("refuse", 6, 401), ("warn", 6, 200), ("refuse", 3600, 200)):
            with self.subTest(rule=rule, stale=stale):
                proxy = self.proxy(authentication={"client_crl_file": "clients.crl"}, crl={"stale": rule})
                (proxy.dir / "clients.crl").write_bytes(authority.crl() + foreign.crl())
                with proxy:
                    client = self.client(proxy, pair)
                    watch = Watching(client)
                    self.running(watch)
                    end = after(stale)
                    kit.replace_file(proxy.dir / "clients.crl", authority.crl(stale) + foreign.crl(stale))
                    if status == 401:
                        self.ends_in_order(watch, end, 12)
                    else:
                        kit.eventually(lambda: time.time() > after(0).timestamp() - 1 and (stale > 60 or seconds_until(end) < -3), 15)
                        self.assertTrue(watch.is_alive())
                    self.assertEqual(client.get(MAPS).status, status)
        for rules, status in (({}, 200), ({"required": "true"}, 401)):
            with self.subTest(rules=rules):
                proxy = self.proxy(authentication={"client_crl_file": "clients.crl"}, crl=rules)
                (proxy.dir / "clients.crl").write_bytes(foreign.crl())
                with proxy:
                    self.assertEqual(self.client(proxy, pair).get(MAPS).status, status, "a list of another authority only")

    def test_SE_T023_a_reload_that_changes_nothing_ends_nothing(self):
        authority = Authority.of_installation(installation.dir / "t023")
        second = Authority.new(installation.dir / "t023-second", "second")
        proxy = self.proxy(authentication={"client_crl_file": "clients.crl"})
        (proxy.dir / "clients.crl").write_bytes(authority.crl())
        with proxy:
            clients = [self.client(proxy, authority.sign(f"user-{i}")) for i in range(4)]
            watches = [Watching(client) for client in clients for _ in range(10)]
            self.running(*watches)
            for number in range(3):
                proxy.process.send_signal(signal.SIGHUP)
                kit.eventually(lambda: proxy.metric('kintsugi_reloads_total{file="all",result="ok"}') > number, 15)
            kit.replace_file(proxy.dir / "clients.crl", authority.crl(7200))
            kit.replace_file(proxy.dir / "client-ca.crt", (proxy.dir / "client-ca.crt").read_bytes() + second.cert.read_bytes())
            pair = second.sign("ada")
            kit.eventually(lambda: self.client(proxy, pair).get(MAPS).status == 200, 15, "the added authority is known")
            installation.client("/clusters/root:door").must("POST", MAPS, {"metadata": {"name": "afterwards"}})
            kit.eventually(lambda: all("afterwards" in json.dumps(watch.events[-1]) for watch in watches), 20, "all go on")

    def test_SE_T027_another_group_filter(self):
        authority = Authority.of_installation(installation.dir / "t027")
        pair = authority.sign("ada", group="staff")
        installation.client("/clusters/root:door").must("POST", f"{RBAC}/clusterrolebindings", {
            "metadata": {"name": "staff"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "staff"}]})
        with self.proxy() as proxy:
            client = self.client(proxy, pair)
            kit.eventually(lambda: client.get(MAPS).status == 200, 15, "staff may read")
            connection = client.connect()
            self.addCleanup(connection.close)

            def ask():
                connection.request("GET", client.url.path + MAPS)
                response = connection.getresponse()
                response.read()
                return response.status

            self.assertEqual(ask(), 200)
            watch, other = Watching(client), Watching(proxy.client("/clusters/root:door"))
            self.running(watch, other)
            now, sock = after(0), connection.sock
            proxy.config["authentication"]["drop_groups"] = "[staff]"
            proxy.write_config()
            self.ends_in_order(watch, now, 15)
            self.assertEqual(ask(), 403, "the same user without the group")
            self.assertIs(connection.sock, sock, "the connection goes on")
            self.assertTrue(other.is_alive())


class Tokens(Case):
    """SE-045, SE-046."""

    def test_SE_T022_a_line_of_the_token_file(self):
        file = installation.dir / "se046.csv"
        lines = {name: f'{name}-token,{name},{name},"system:kcp:admin"\n' for name in ("ada", "bea")}
        file.write_text("".join(lines.values()))
        with self.proxy(authentication={"token_file": file}) as proxy:
            here = self.client(proxy)
            watches = [Watching(self.client(proxy, path=path), watch, bearer("ada-token"))
                       for path, watch in (("/clusters/root:door", WATCH), ("/clusters/*", WATCH_ALL), ("/clusters/root:door", WATCH))]
            sock = Sockets(here, f"{MAPS}?watch=1", bearer("ada-token"))
            other = Watching(here, headers=bearer("bea-token"))
            self.running(*watches, other)
            time_of_youth = after(2)
            kit.eventually(lambda: seconds_until(time_of_youth) < 0, 5)
            now = after(0)
            kit.replace_file(file, lines["bea"].encode())
            for watch in watches:
                self.ends_in_order(watch, now, 6)
            opcode, payload = sock.receive()
            while opcode != 8:
                opcode, payload = sock.receive()
            self.assertEqual(payload, (1008).to_bytes(2, "big"))
            self.assertEqual(here.get(MAPS, headers=bearer("ada-token")).status, 401)
            self.assertTrue(other.is_alive())
            kit.replace_file(file, 'bea-token,bea,bea,"staff"\n'.encode())
            self.ends_in_order(other, after(0), 6, "it means somebody else now")

    def token(self, lifetime, account):
        """A ServiceAccount's token that ends sooner than the API would have it, signed with the installation's key."""
        admin = installation.client("/clusters/root:door")
        token = admin.must("POST", f"/api/v1/namespaces/default/serviceaccounts/{account}/token", {"spec": {}})["status"]["token"]
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
        claims["exp"] = int(time.time() + lifetime)
        text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims))
        der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", installation.pki / "service-account.key"], input=text.encode(),
                             check=True, capture_output=True).stdout
        size = der[3]
        r, s = der[4:4 + size], der[6 + size:]
        signature = b"".join(int.from_bytes(number, "big").to_bytes(32, "big") for number in (r, s))
        return text + "." + base64.urlsafe_b64encode(signature).rstrip(b"=").decode(), claims["exp"]

    def account(self, name):
        admin = installation.client("/clusters/root:door")
        admin.must("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})
        admin.must("POST", f"{RBAC}/clusterrolebindings", {
            "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}]})
        return admin

    def test_SE_T021_a_jwt_runs_out(self):
        self.account("robot")
        keys = {"service_accounts": f"{{key_files: [{installation.pki / 'service-account.key'}]}}"}
        with self.proxy(authentication=keys) as checking, self.proxy() as passing:
            for what, proxy in (("judged by the proxy", checking), ("judged by the shard", passing)):
                with self.subTest(what):
                    token, end = self.token(8, "robot")
                    client = self.client(proxy)
                    kit.eventually(lambda: client.get(MAPS, headers=bearer(token)).status == 200, 6, "the account may read")
                    watch = Watching(client, headers=bearer(token))
                    self.running(watch)
                    self.ends_in_order(watch, datetime.datetime.fromtimestamp(end, datetime.timezone.utc), 6, what)
                    self.assertEqual(client.get(MAPS, headers=bearer(token)).status, 401)

    def test_SE_T022_the_account_is_deleted(self):
        admin = self.account("leaver")
        token, _ = self.token(600, "leaver")
        with self.proxy() as proxy:
            client = self.client(proxy)
            kit.eventually(lambda: client.get(MAPS, headers=bearer(token)).status == 200, 10, "the account may read")
            watch = Watching(client, headers=bearer(token))
            self.running(watch)
            now = after(0)
            admin.must("DELETE", "/api/v1/namespaces/default/serviceaccounts/leaver")
            self.ends_in_order(watch, now, 60)
            self.assertEqual(client.get(MAPS, headers=bearer(token)).status, 401)


class Clocks(Case):
    """SE-T024: the wall clock jumps, by 400 days and back."""

    @fake_clock.needed
    def test_SE_T024_the_clock_jumps(self):
        authority = Authority.of_installation(installation.dir / "t024")
        proxy = self.proxy()
        clock = proxy.dir / "clock"
        clock.write_text("+0d\n")
        with fake_clock.for_children(clock):
            proxy.__enter__()
        short, long = authority.sign("ada", after(2 * 86400)), authority.sign("bea", after(800 * 86400))
        connection = self.client(proxy, short).connect()
        self.addCleanup(connection.close)

        def ask():
            connection.request("GET", "/clusters/root:door" + MAPS)
            response = connection.getresponse()
            response.read()
            return response.status

        self.assertEqual(ask(), 200)
        watch, other = Watching(self.client(proxy, short)), Watching(self.client(proxy, long))
        self.running(watch, other)
        now = after(0)
        clock.write_text("+400d\n")
        watch.join(15)
        self.assertIsNotNone(watch.ended_at, "it goes on 400 days later")
        self.assertLess(watch.ended_at - now.timestamp(), 8)
        self.assertEqual(watch.types()[-1], "BOOKMARK")
        clock.write_text("-1d\n")
        self.assertEqual(ask(), 401, "nothing is revived")
        self.assertTrue(other.is_alive(), "its authority and itself were in their time all along")


class Handshakes(Case):
    """SE-041, SE-053."""

    def tls(self, proxy, cert, key, session=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(installation.pki / "serving-ca.crt")
        context.load_cert_chain(cert, key)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as tls:
                tls.sendall(f"GET /clusters/root:door{MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                answer = b""
                while piece := tls.recv(65536):
                    answer += piece
                return int(answer.split(b" ", 2)[1])

    def test_SE_T017_chains_and_keys_have_a_size(self):
        authority = Authority.of_installation(installation.dir / "t017")
        cert, key = authority.sign("ada")
        with self.proxy(loops=1) as proxy:
            for count, fits in ((10, True), (11, False), (40, False)):
                with self.subTest(certificates=count):
                    chain = installation.dir / f"chain-{count}.crt"
                    chain.write_bytes(cert.read_bytes() + (installation.pki / "client-ca.crt").read_bytes() * (count - 1))
                    if fits:
                        self.assertEqual(self.tls(proxy, chain, key), 200)
                    else:
                        with self.assertRaises(OSError):
                            self.tls(proxy, chain, key)
            big = installation.dir / "t017-big"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                            "/CN=big", "-addext", "nsComment=" + "x" * 17000, "-keyout", f"{big}.key", "-out", f"{big}.crt"],
                           check=True, capture_output=True)
            with self.assertRaises(OSError):
                self.tls(proxy, f"{big}.crt", f"{big}.key")
            for bits, fits in ((8192, True), (16384, False)):
                with self.subTest(rsa=bits):
                    chain = installation.dir / f"rsa-{bits}.crt"
                    chain.write_bytes(cert.read_bytes() + self.with_rsa_key(authority, bits).read_bytes())
                    if fits:
                        self.assertEqual(self.tls(proxy, chain, key), 200)
                    else:
                        with self.assertRaises(OSError):
                            self.tls(proxy, chain, key)
            self.assertEqual(self.tls(proxy, cert, key), 200)

    @staticmethod
    def with_rsa_key(authority, bits):
        """A certificate of a key that nobody has: making one of that size takes minutes."""
        def der(tag, body):
            size = len(body).to_bytes(4, "big").lstrip(b"\0") or b"\0"
            return bytes([tag]) + (size if len(body) < 128 else bytes([0x80 | len(size)]) + size) + body
        modulus = b"\0" + bytes([0xC0]) + os.urandom(bits // 8 - 2) + b"\x01"
        key = der(0x30, der(0x02, modulus) + der(0x02, b"\x01\0\x01"))
        algorithm = bytes.fromhex("300d06092a864886f70d0101010500")
        base = installation.dir / f"rsa-key-{bits}"
        public = base64.encodebytes(der(0x30, algorithm + der(0x03, b"\0" + key))).decode()
        base.with_suffix(".pub").write_text(f"-----BEGIN PUBLIC KEY-----\n{public}-----END PUBLIC KEY-----\n")
        request = authority.sign(f"rsa-{bits}")[0].with_suffix(".csr")
        subprocess.run(["openssl", "x509", "-req", "-in", request, "-force_pubkey", base.with_suffix(".pub"), "-CA", authority.cert, "-CAkey",
                        authority.key, "-set_serial", "7", "-days", "1", "-out", base.with_suffix(".crt")], check=True, capture_output=True)
        return base.with_suffix(".crt")

    def test_SE_T025_a_session_of_a_revoked_certificate(self):
        authority = Authority.of_installation(installation.dir / "t025")
        pair = authority.sign("ada")
        proxy = self.proxy(authentication={"client_crl_file": "clients.crl"}, loops=1)
        (proxy.dir / "clients.crl").write_bytes(authority.crl())
        with proxy:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(installation.pki / "serving-ca.crt")
            context.load_cert_chain(*pair)
            session = None

            def call():
                nonlocal session
                with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as plain:
                    with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as tls:
                        tls.sendall(f"GET /clusters/root:door{MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                        answer = b""
                        while piece := tls.recv(65536):
                            answer += piece
                        session = tls.session
                        return tls.session_reused, int(answer.split(b" ", 2)[1])

            self.assertEqual([call(), call()], [(False, 200), (True, 200)])
            authority.revoke(pair)
            kit.replace_file(proxy.dir / "clients.crl", authority.crl())
            kit.eventually(lambda: call() == (True, 401), 15, "the session is no proof")


if __name__ == "__main__":
    unittest.main()
