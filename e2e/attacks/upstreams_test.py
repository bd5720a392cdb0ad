"""A shard that answers what no server may (SE-135, SE-T046): the request fails in order, the connection to the shard is closed, little
memory is kept, and the other shards are as before."""
import contextlib
import socket
import ssl
import threading
import time
import unittest

import kit
import raw_h2

SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MAPS = "/api/v1/namespaces/default/configmaps"
MORE = 8 << 20  # bytes that a shard may cost
CONTINUATION, UNKNOWN, PUSH_PROMISE = 9, 0x77, 5
STATUS_200, OK = b"\x88", b"HTTP/1.1 200 OK\r\n"
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


def setUpModule():
    global installation, proxy
    installation = kit.Installation(shards=1).start_for()
    proxy = kit.Proxy(installation)
    proxy.__enter__()
    unittest.addModuleCleanup(proxy.__exit__)


# What the shard sends once a request is there, on HTTP/1.1 …

def h1_hints(peer):
    peer.sendall(HINT * 17 + OK + b"Content-Length: 2\r\n\r\nok")


def h1_hints_without_end(peer):
    while True:
        peer.sendall(HINT * 100)


def h1_large_head(peer):
    peer.sendall(OK + b"X-Large: " + b"a" * (300 << 10) + b"\r\nContent-Length: 2\r\n\r\nok")


def h1_head_without_end(peer):
    peer.sendall(OK)
    while True:
        peer.sendall(b"X-More: " + b"a" * 1000 + b"\r\n")


def h1_no_http(peer):
    peer.sendall(b"220 mail.example.test ESMTP\r\n" * 10 + b"\r\n")


def h1_chunks(size_line):
    def send(peer):
        peer.sendall(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" + size_line)

    return send


def h1_two_lengths(peer):
    peer.sendall(OK + b"Content-Length: 2\r\nContent-Length: 5\r\n\r\nhello")


def h1_long_body(peer):
    peer.sendall(OK + b"Content-Length: 5\r\n\r\nhello" + b"more" * 100_000)


# … and on HTTP/2, on stream `at`.

def h2_head(at, block, more=0):
    return raw_h2.frame(raw_h2.HEADERS, raw_h2.END_HEADERS | more, at, block)


def h2_hints(peer, at):
    peer.sendall(h2_head(at, raw_h2.field(":status", "103")) * 17 + h2_head(at, STATUS_200, raw_h2.END_STREAM))


def h2_hints_without_end(peer, at):
    while True:
        peer.sendall(h2_head(at, raw_h2.field(":status", "103")) * 100)


def h2_large_head(peer, at):
    peer.sendall(raw_h2.frame(raw_h2.HEADERS, 0, at, STATUS_200))
    while True:
        peer.sendall(raw_h2.frame(CONTINUATION, 0, at, raw_h2.field("x-more", "a" * 16_000)))


def h2_bomb(peer, at):
    block = STATUS_200 + b"\x40" + raw_h2.field("x-bomb", "b" * 3000)[1:] + b"\xbe" * 10_000
    peer.sendall(h2_head(at, block, raw_h2.END_STREAM))


def h2_long_body(peer, at):
    peer.sendall(h2_head(at, STATUS_200 + raw_h2.field("content-length", "5")) + raw_h2.frame(raw_h2.DATA, 0, at, b"hello and more"))


def h2_short_body(peer, at):
    peer.sendall(h2_head(at, STATUS_200 + raw_h2.field("content-length", "50"))
                 + raw_h2.frame(raw_h2.DATA, raw_h2.END_STREAM, at, b"hello"))


def h2_beyond_window(peer, at):
    peer.sendall(h2_head(at, STATUS_200))
    while True:
        peer.sendall(raw_h2.frame(raw_h2.DATA, 0, at, b"a" * 16_384))


def h2_no_status(peer, at):
    peer.sendall(h2_head(at, raw_h2.field(":status", "051")) + raw_h2.frame(raw_h2.DATA, raw_h2.END_STREAM, at, b"ok"))


def h2_push(peer, at):
    peer.sendall(raw_h2.frame(raw_h2.SETTINGS, 1, 0) + raw_h2.frame(PUSH_PROMISE, raw_h2.END_HEADERS, at, (2).to_bytes(4, "big") + STATUS_200))


def h2_flood(frame, within=True):
    """@param within  the answer has begun"""
    def send(peer, at):
        peer.sendall(h2_head(at, STATUS_200) if within else b"")
        while True:
            peer.sendall(frame(at) * 100)

    return send


PINGS = h2_flood(lambda at: raw_h2.frame(raw_h2.PING, 0, 0, b"12345678"))
SETTINGS = h2_flood(lambda at: raw_h2.frame(raw_h2.SETTINGS, 0, 0))
EMPTY_DATA = h2_flood(lambda at: raw_h2.frame(raw_h2.DATA, 0, at))
UNKNOWNS = h2_flood(lambda at: raw_h2.frame(UNKNOWN, 0, at, b"x"))
PINGS_BEFORE = h2_flood(lambda at: raw_h2.frame(raw_h2.PING, 0, 0, b"12345678"), within=False)


class BadShard:
    """A registered shard that answers every request with what `answer` sends."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.answer, self.protocol, self.closed, self.peers = None, "http/1.1", 0, []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                plain = self.listener.accept()[0]
                threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def serve(self, plain):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(installation.pki / "shard-root.crt", installation.pki / "shard-root.key")
        context.set_alpn_protocols([self.protocol])
        with contextlib.suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as peer:
            self.peers.append(peer)
            behaviour = self.answer
            try:
                self.h1(peer) if self.protocol == "http/1.1" else self.h2(peer)
                peer.settimeout(30)
                while peer.recv(65_536):
                    pass
            except TimeoutError:
                return  # the proxy keeps it
            except OSError:
                pass
            if behaviour is self.answer:  # one of before may end late
                self.closed += 1

    def h1(self, peer):
        head = b""
        while b"\r\n\r\n" not in head:
            part = peer.recv(4096)
            if not part:
                return
            head += part
        self.answer(peer)

    def h2(self, peer):
        """Up to the first HEADERS, whose stream is asked for."""
        peer.sendall(raw_h2.frame(raw_h2.SETTINGS, 0, 0))
        data = b""
        while True:
            part = peer.recv(65_536)
            if not part:
                return
            data += part
            at = len(raw_h2.PREFACE)
            while len(data) >= at + 9:
                size, kind, stream = int.from_bytes(data[at:at + 3], "big"), data[at + 3], int.from_bytes(data[at + 5:at + 9], "big")
                if kind == raw_h2.HEADERS:
                    self.answer(peer, stream)
                    return
                at += 9 + size

    def behave(self, protocol, answer):
        self.protocol, self.answer = protocol, answer
        for peer in self.peers:  # what is open has the other behaviour
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        self.peers.clear()
        self.closed = 0


def resident():
    return kit.own_memory(proxy.process.pid)


class BadShards(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shard = BadShard()
        cls.shard.behave("http/1.1", lambda peer: peer.sendall(OK + b"Content-Length: 2\r\n\r\nok"))
        cls.root = proxy.client()
        cls.root.must("POST", SHARDS, {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard", "metadata": {
            "name": "bad", "annotations": {"experimental.core.kcp.io/unschedulable": "true"}},
            "spec": {"baseURL": cls.shard.url, "externalURL": cls.shard.url, "virtualWorkspaceURL": cls.shard.url}})
        kit.eventually(lambda: cls.outcome()[0] == 200, what="the shard is asked")

    @classmethod
    def tearDownClass(cls):
        cls.root.must("DELETE", SHARDS + "/bad")
        cls.shard.listener.close()

    @staticmethod
    def outcome():
        """Status and body of a request to the shard; the body is None when it was cut."""
        connection = raw_h2.Connection(proxy.client(""))
        try:
            stream = connection.ask("GET", "/shards/bad/services/x")
            return stream.status, None if stream.reset is not None else stream.body
        finally:
            connection.close()

    def fails(self, protocol, answer, within):
        """@param within  the answer has begun when it goes wrong, so that it can only be cut"""
        before, failed = resident(), proxy.metrics("kintsugi_forward_failures_total")
        self.shard.behave(protocol, answer)
        seen = []

        def failed_so():
            began = time.monotonic()
            status, body = self.outcome()
            self.assertLess(time.monotonic() - began, 10)
            seen.append((status, body and body[:200]))
            self.assertTrue(body is None or status >= 500, seen[-1])
            if body is not None:
                self.assertIn(b'"kind":"Status"', body)
            return (status, body) == (200, None) if within else status >= 500

        kit.eventually(failed_so, 20, f"the request fails: {seen}")
        kit.eventually(lambda: self.shard.closed > 0, 20, "the connection is closed")
        self.assertEqual(self.root.get(MAPS).status, 200)
        if not kit.SANITIZED:
            self.assertLess(resident() - before, MORE)
        self.assertGreater(proxy.metrics("kintsugi_forward_failures_total"), failed)

    def test_SE_135_what_goes_wrong_before_the_answer(self):
        for protocol, answer in (("http/1.1", h1_hints), ("http/1.1", h1_hints_without_end), ("http/1.1", h1_large_head),
                                 ("http/1.1", h1_head_without_end), ("http/1.1", h1_no_http), ("http/1.1", h1_two_lengths),
                                 ("h2", h2_hints), ("h2", h2_hints_without_end), ("h2", h2_large_head), ("h2", h2_bomb),
                                 ("h2", h2_push), ("h2", PINGS_BEFORE)):
            with self.subTest(answer=answer.__name__):
                self.fails(protocol, answer, within=False)

    def test_SE_135_what_goes_wrong_inside_the_answer(self):
        for name, protocol, answer in (
                ("size of 17 digits", "http/1.1", h1_chunks(b"0" * 17 + b"5\r\nhello\r\n")),
                ("size that is none", "http/1.1", h1_chunks(b"-5\r\nhello\r\n")),
                ("bare line feed", "http/1.1", h1_chunks(b"5\nhello\r\n")),
                ("long extension", "http/1.1", h1_chunks(b"5;" + b"a" * 20_000 + b"\r\nhello\r\n")),
                ("long body", "h2", h2_long_body), ("short body", "h2", h2_short_body), ("beyond the window", "h2", h2_beyond_window),
                ("pings", "h2", PINGS), ("settings", "h2", SETTINGS), ("empty data", "h2", EMPTY_DATA), ("unknown frames", "h2", UNKNOWNS)):
            with self.subTest(answer=name):
                self.fails(protocol, answer, within=True)

    def test_SE_135_a_status_that_is_none_is_no_answer(self):
        self.shard.behave("h2", h2_no_status)
        for _ in range(3):
            kit.eventually(lambda: self.outcome()[0] >= 500, 20, "the request fails")
            self.assertEqual(self.root.get(MAPS).status, 200)

    def test_SE_135_a_body_beyond_its_length_is_not_the_next_answer(self):
        self.shard.behave("http/1.1", h1_long_body)
        for _ in range(3):
            kit.eventually(lambda: self.outcome() == (200, b"hello"), 20, "the answer as long as it was told")
        kit.eventually(lambda: self.shard.closed >= 3, 20, "the connections are closed")

    def test_SE_135_what_is_within_the_limits_passes(self):
        hints = h2_head(1, raw_h2.field(":status", "103"))
        for protocol, answer in (
                ("http/1.1", lambda peer: peer.sendall(HINT * 16 + OK + b"Content-Length: 2\r\n\r\nok")),
                ("h2", lambda peer, at: peer.sendall(hints[:5] + at.to_bytes(4, "big") + hints[9:]) or peer.sendall(
                    h2_head(at, STATUS_200) + raw_h2.frame(raw_h2.PING, 0, 0, b"12345678") * 50
                    + raw_h2.frame(raw_h2.DATA, raw_h2.END_STREAM, at, b"ok")))):
            with self.subTest(protocol=protocol):
                self.shard.behave(protocol, answer)
                kit.eventually(lambda: self.outcome() == (200, b"ok"), 20, "the answer")


if __name__ == "__main__":
    unittest.main()
