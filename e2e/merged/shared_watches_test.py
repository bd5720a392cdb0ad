"""Watches that share streams (AGG-901, AGG-1201; the numbers T.. are its cases)."""
import json
import signal
import socket
import ssl
import subprocess
import time
import unittest

import kit
from merged import MAPS, NEWEST, MergedCase, Stream, is_end, key_of


def h2_frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def h2_text(index, text):
    """A literal header field without indexing, its name from the static table (RFC 7541 6.2.2)."""
    size, out = len(text), bytes([index])
    if size < 127:
        return out + bytes([size]) + text.encode()
    out, size = out + b"\x7f", size - 127
    while size >= 128:
        out, size = out + bytes([size % 128 + 128]), size // 128
    return out + bytes([size]) + text.encode()


class Shared(MergedCase):
    """A second proxy with one loop and short times, whose groups are looked at through its admin socket."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.proxy = kit.Proxy(cls.installation, {
            "wildcard": "serve",
            "aggregation": {"watch": "{group_linger_ms: 1000, queue_high_bytes: 65536, slow_grace_ms: 1000}"}}, loops=1)
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)
        cls.all = cls.proxy.client("/clusters/*")
        kit.eventually(lambda: cls.all.get(MAPS).status == 200, 20, "all shards")

    def groups(self, row):
        answer = subprocess.run(["curl", "-sS", "--unix-socket", str(self.proxy.dir / "admin.sock"),
                                 "http://admin/debug/streams"], capture_output=True, text=True, timeout=60, check=True)
        return [g for g in json.loads(answer.stdout)["mergedWatches"] if f"row%3D{row}" in g["query"]]

    def settled(self, row, readers):
        """The row's groups once they have so many readers that all follow the log of three shards."""
        def look():
            groups = self.groups(row)
            return (sum(g["readers"] for g in groups) == readers and
                    all([s["state"] for s in g["shards"]] == ["live"] * 3 for g in groups) and groups)
        return kit.eventually(look, 15, f"{readers} readers of {row}")

    def test_T43_clients_with_one_question_share_one_stream_per_shard(self):
        self.fill("t43")
        streams = [self.watch("t43", "&" + NEWEST).until_synced() for _ in range(20)]
        groups = self.settled("t43", 20)
        self.assertEqual([len(g["shards"]) for g in groups], [3])
        other = [self.watch("t43", "%2Cnever%21%3Dx&" + NEWEST).until_synced(),
                 self.watch("t43", "&" + NEWEST, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
                 self.watch("t43", "&includeObject=None&" + NEWEST).until_synced()]
        cert, key = kit.make_user(self.installation.dir, self.installation.pki, "t43-user", ("system:kcp:admin",))
        user = kit.Client(self.all.url.geturl(), self.installation.pki / "serving-ca.crt", cert, key)
        theirs = Stream(user, f"{MAPS}?watch=true&labelSelector=row%3Dt43&{NEWEST}")
        self.addCleanup(theirs.close)
        self.assertEqual(theirs.status, 200)
        theirs.until_synced()
        self.assertEqual(len(self.settled("t43", 24)), 5)
        self.put("b", "t43-new", "t43")
        self.change("b", "t43-b-0", "changed")
        self.drop("c", "t43-c-0")
        for stream in streams + other[:1] + [theirs]:
            stream.until(lambda _: len(stream.objects()) == 6 + 3, "nine events")
            self.assertEqual(self.model(stream.events), self.union("t43"))
            self.assertEqual(sum(is_end(e) for e in stream.events), 1)
        self.assertEqual(len({json.dumps(s.objects()[6:]) for s in streams}), 1)
        for stream in streams + other + [theirs]:
            stream.close()
        kit.eventually(lambda: not self.groups("t43"), 10, "the groups are gone")

    def test_T51_T84_who_reconnects_finds_the_log_of_the_group(self):
        stays = self.watch("t84", "&" + NEWEST).until_synced()
        leaves = self.watch("t84", "&" + NEWEST).until_synced()
        version = leaves.bookmarks()[-1]["object"]["metadata"]["resourceVersion"]
        leaves.close()
        for i in range(30):
            self.put("abc"[i % 3], f"t84-{i}", "t84")
        again = [self.watch("t84", f"&allowWatchBookmarks=true&resourceVersion={version}") for _ in range(10)]
        for stream in again:
            stream.until(lambda _: len(stream.objects()) >= 30, "thirty events")
            stream.until(lambda events: events[-1]["type"] == "BOOKMARK", "a bookmark behind them")
            self.assertEqual(len({key_of(e["object"]) for e in stream.objects()}), 30)
            self.assertEqual(len(stream.objects()), 30)
        self.assertEqual([len(g["shards"]) for g in self.settled("t84", 11)], [3])
        self.assertEqual(self.model(stays.events), self.union("t84"))

    def test_T52_a_watch_resumes_at_the_version_of_an_event(self):
        stream = self.watch("t52", "&" + NEWEST).until_synced()
        for i in range(9):
            self.put("abc"[i % 3], f"t52-{i}", "t52")
        stream.until(lambda _: len(stream.objects()) == 9, "nine events")
        stream.close()
        seen = stream.objects()[:5]
        for i in range(9, 12):
            self.put("abc"[i % 3], f"t52-{i}", "t52")
        again = self.watch("t52", f"&resourceVersion={seen[-1]['object']['metadata']['resourceVersion']}")
        start = self.model(seen)
        again.until(lambda _: self.model(again.events, start) == self.union("t52"), "everything since the fifth")
        unknown = self.watch("t52", "&resourceVersion=1")
        unknown.until(lambda events: events and events[-1]["type"] == "ERROR", "an end")
        self.assertEqual(unknown.events[-1]["object"]["code"], 410)
        self.assertEqual(unknown.events[-1]["object"]["reason"], "Expired")

    def test_T41_protobuf_watches_share_frames(self):
        self.fill("t41")
        accept = {"Accept": "application/vnd.kubernetes.protobuf,application/json"}
        readers = []
        for _ in range(3):
            connection = self.all.connect(20)
            connection.request("GET", f"/clusters/*{MAPS}?watch=true&labelSelector=row%3Dt41&{NEWEST}", headers=accept)
            response = connection.getresponse()
            self.addCleanup(connection.close)
            self.assertEqual((response.status, response.headers["Content-Type"]),
                             (200, "application/vnd.kubernetes.protobuf;stream=watch"))
            readers.append(response)

        def frame(response):
            size = int.from_bytes(response.read(4), "big")
            body = response.read(size)
            kind = body[2:2 + body[1]].decode()
            self.assertIn(b"k8s\0", body)
            return kind, body

        for response in readers:
            self.assertEqual([frame(response)[0] for _ in range(6)], ["ADDED"] * 6)
            kind, body = frame(response)
            self.assertEqual(kind, "BOOKMARK")
            self.assertIn(b"k8s.io/initial-events-end", body)
            self.assertRegex(body, rb"\D1\d{74}(\D|$)")
        self.settled("t41", 3)
        self.put("b", "t41-new", "t41")
        self.drop("a", "t41-a-0")
        for response in readers:
            frames = []
            while len(frames) < 2:
                kind, body = frame(response)
                frames += [(kind, body)] if kind != "BOOKMARK" else []
            self.assertEqual({(kind, b"t41-new" in body) for kind, body in frames}, {("ADDED", True), ("DELETED", False)})

    def test_T53_T97_a_proxy_that_stops_in_order_costs_no_list(self):
        self.fill("t97")
        with kit.Proxy(self.installation, {"wildcard": "serve", "shutdown": {"spread_ms": 200}}, loops=1) as proxy:
            client = proxy.client("/clusters/*")
            kit.eventually(lambda: client.get(MAPS).status == 200, 20, "all shards")
            streams = [Stream(client, f"{MAPS}?watch=true&labelSelector=row%3Dt97&{NEWEST}") for _ in range(5)]
            for stream in streams:
                stream.until_synced()
            self.put("a", "t97-last", "t97")
            for stream in streams:
                stream.until(lambda _: len(stream.objects()) == 7, "seven events")
            proxy.process.send_signal(signal.SIGTERM)
            for stream in streams:
                kit.eventually(lambda: stream.ended, 15, "the end")
                self.assertIsNone(stream.error)
                self.assertEqual(stream.events[-1]["type"], "BOOKMARK")
                stream.connection.close()
            self.assertEqual(proxy.process.wait(60), 0)
        version = streams[0].events[-1]["object"]["metadata"]["resourceVersion"]
        self.assertTrue(version.isdigit() and len(version) == 75, version)

    def test_T79_a_slow_reader_is_ended_in_order_and_nobody_else_notices(self):
        reads = [self.watch("t79", "&" + NEWEST).until_synced() for _ in range(5)]
        pki = self.installation.pki
        context = ssl.create_default_context(cafile=str(pki / "serving-ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", self.proxy.port), timeout=20)
        tls = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self.addCleanup(tls.close)
        path = f"/clusters/*{MAPS}?watch=true&labelSelector=row%3Dt79&{NEWEST}"
        tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0) +
                    h2_frame(1, 5, 1, b"\x82\x87" + h2_text(4, path) + h2_text(1, "x")))
        received, got, ended, changes = b"", 0, None, 0
        deadline = time.monotonic() + 60
        tls.settimeout(0.05)
        while ended is None and time.monotonic() < deadline:
            if changes < 60 and got:  # it never gives credit: 64 KiB reach it, the rest waits for its end
                self.at["a"].must("PUT" if changes else "POST",
                                  "/api/v1/namespaces/default/configmaps" + ("/t79-big" if changes else ""),
                                  {"metadata": {"name": "t79-big", "labels": {"row": "t79"}}, "data": {"v": f"{changes:06}" * 5000}})
                changes += 1
            try:
                data = tls.recv(1 << 16)
            except TimeoutError:
                continue
            self.assertTrue(data, "the connection was closed")
            received += data
            while len(received) >= 9 + int.from_bytes(received[:3], "big"):
                size, kind, flags = int.from_bytes(received[:3], "big"), received[3], received[4]
                received = received[9 + size:]
                got += kind == 1
                if kind == 3 or (kind in (0, 1) and flags & 1):
                    ended = kind
        self.assertIn(ended, (0, 1), "no RST_STREAM")
        for stream in reads:
            stream.until(lambda _: len(stream.objects()) == changes, "every change")
            self.assertFalse(stream.ended)
        kit.eventually(lambda: self.proxy.metric('kintsugi_watch_evictions_total{reason="slow"}') >= 1, what="it is counted")


if __name__ == "__main__":
    unittest.main()
