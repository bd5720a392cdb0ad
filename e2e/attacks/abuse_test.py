"""What a client can do with HTTP/2 to hurt others (SE-119 to SE-136): the one that does it is told to calm down and closed, it costs
little memory, the counters name it, and whoever else asks is answered meanwhile. bench/abuse.py measures how fast."""
import contextlib
import socket
import ssl
import threading
import time
import unittest

import kit
import raw_h2

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = [("content-type", "application/json")]
CALM, PROTOCOL = 11, 1
CANCEL = (8).to_bytes(4, "big")
MORE = 4 << 20  # bytes that an abuser may cost
PRIORITY, CONTINUATION, UNKNOWN = 2, 9, 0x77


def setUpModule():
    global installation, proxy
    installation = kit.Installation(shards=1).start_for()
    proxy = kit.Proxy(installation, {"listener": {"header_timeout_ms": 1000, "slow_reader_timeout_ms": 2000, "handshake_timeout_ms": 2000}})
    proxy.__enter__()
    unittest.addModuleCleanup(proxy.__exit__)


def resident():
    return kit.own_memory(proxy.process.pid)


def counted(kind):
    return proxy.metric(f'kintsugi_abuse_total{{kind="{kind}"}}')


class Neighbour(threading.Thread):
    """Asks one thing after the other on a connection of its own until stop()."""

    def __init__(self):
        super().__init__(daemon=True)
        self.done, self.faults, self.over = 0, [], threading.Event()
        self.connection = raw_h2.Connection(proxy.client())

    def run(self):
        try:
            while not self.over.is_set():
                stream = self.connection.ask("GET", MAPS)
                if stream.status != 200 or stream.reset:
                    self.faults.append((stream.status, stream.reset, self.connection.goaway))
                    break
                self.done += 1
        except Exception as fault:  # pylint: disable=broad-except
            self.faults.append(fault)

    def stop(self):
        self.over.set()
        self.join(120)
        self.connection.close()


class Guarded(unittest.TestCase):
    """Somebody else asks all the time, and what the process keeps is measured."""

    def setUp(self):
        self.neighbour = Neighbour()
        self.neighbour.start()
        self.addCleanup(self.neighbour.stop)
        self.served(1)
        self.before = resident()

    def served(self, more=3):
        """The neighbour's requests succeed, also those that begin now, and new connections too."""
        wanted = self.neighbour.done + more + 1
        kit.eventually(lambda: self.neighbour.done >= wanted or self.neighbour.faults, 30, "the neighbour is served")
        self.assertEqual(self.neighbour.faults, [])

    def bounded(self, most=MORE):
        if not kit.SANITIZED:
            self.assertLess(resident() - self.before, most)


def ask(connection, path=MAPS, end=True, method="GET", headers=()):
    return connection.open(method, path, headers, end=end)


# Each sends a few hundred of its frames; `turn` counts its calls.
def resets(connection, turn):
    for _ in range(50):
        stream = ask(connection, MAPS + "?watch=1")
        connection.send(raw_h2.frame(raw_h2.RST, 0, stream.number, CANCEL))


def resets_together(connection, turn):
    streams = [ask(connection, MAPS + "?watch=1") for _ in range(200)]
    for stream in streams:
        connection.send(raw_h2.frame(raw_h2.RST, 0, stream.number, CANCEL))


def repeat(kind, flags=0, payload=b"", stream=0):
    def send(connection, turn):
        connection.send(raw_h2.frame(kind, flags, stream, payload) * 100)

    return send


def in_body(kind, payload=b"", times=100):
    """Frames on a request whose body has not ended."""
    def send(connection, turn):
        if turn == 0:
            ask(connection, end=False, method="POST", headers=JSON)
        connection.send(raw_h2.frame(kind, 0, 1, payload) * times)

    return send


def continuations(connection, turn):
    if turn == 0:
        block = raw_h2.field(":method", "GET") + raw_h2.field(":path", "/")
        connection.send(raw_h2.frame(raw_h2.HEADERS, 0, 1, block))
    connection.send(raw_h2.frame(CONTINUATION, 0, 1, raw_h2.field("x", "y")) * 20)


def head(connection, more):
    number, connection.next = connection.next, connection.next + 2
    block = b"".join(raw_h2.field(*pair) for pair in ((":method", "GET"), (":scheme", "https"), (":path", "/livez"), (":authority", "h")))
    connection.streams[number] = raw_h2.Stream(number, connection.first_window)
    connection.send(raw_h2.frame(raw_h2.HEADERS, raw_h2.END_HEADERS | raw_h2.END_STREAM, number, block + more))


def head_bomb(connection, turn):
    head(connection, b"\x40" + raw_h2.field("x-bomb", "b" * 3000)[1:] + b"\xbe" * 10_000)


def many_large_heads(connection, turn):
    """Each within the limits, but of few bytes."""
    for number in range(20):
        head(connection, (b"\x40" + raw_h2.field("x-large", "b" * 3000)[1:] if turn == number == 0 else b"") + b"\xbe" * 16)


def malformed_names(connection, turn):
    for _ in range(20):
        head(connection, raw_h2.field("X-Upper", "case"))


def malformed_values(connection, turn):
    for _ in range(20):
        head(connection, raw_h2.field("x-odd", "a\0b"))


def two_authorities(connection, turn):
    for _ in range(20):
        head(connection, raw_h2.field("host", "other"))


def windows_that_overflow(connection, turn):
    for _ in range(20):
        stream = ask(connection, MAPS + "?watch=1")
        connection.send(raw_h2.frame(raw_h2.WINDOW_UPDATE, 0, stream.number, (2**31 - 1).to_bytes(4, "big")))


def data_on_what_is_over(connection, turn):
    if turn == 0:
        ask(connection)
    elif connection.streams[1].over:
        connection.send(raw_h2.frame(raw_h2.DATA, 0, 1, b"x") * 50)


def streams_without_end(connection, turn):
    for _ in range(100):
        ask(connection, MAPS + "?watch=1")


ABUSES = [
    # what, its counter, what the GOAWAY says, frames
    ("rapid reset", "reset", CALM, resets),
    ("resets of 200 together", "reset", CALM, resets_together),
    ("SETTINGS", "settings", CALM, repeat(raw_h2.SETTINGS)),
    ("PING", "ping", CALM, repeat(raw_h2.PING, payload=b"12345678")),
    ("PRIORITY", "priority", CALM, repeat(PRIORITY, payload=b"\0\0\0\1x", stream=3)),
    ("needless WINDOW_UPDATE", "window_update", CALM, repeat(raw_h2.WINDOW_UPDATE, payload=b"\0\0\0\1")),
    ("unknown frames", "unknown", CALM, repeat(UNKNOWN, payload=b"anything")),
    ("empty DATA", "empty_data", CALM, in_body(raw_h2.DATA)),
    ("tiny DATA", "small_data", CALM, in_body(raw_h2.DATA, b"x", 1000)),
    ("CONTINUATION", "continuation", CALM, continuations),
    ("a head of 30 MB out of 13 kB", "head", PROTOCOL, head_bomb),
    ("large heads out of few bytes", "hpack", CALM, many_large_heads),
    ("malformed names", "made_reset", CALM, malformed_names),
    ("malformed values", "field", CALM, malformed_values),
    ("two authorities", "authority", CALM, two_authorities),
    ("windows that overflow", "made_reset", CALM, windows_that_overflow),
    ("DATA on a stream that is over", "made_reset", CALM, data_on_what_is_over),
    ("streams beyond the limit", "refused", CALM, streams_without_end),
]


class Abuser:
    """One connection, and one of the rows."""

    def __init__(self, row):
        self.name, self.kind, self.code, self.frames = row
        self.connection, self.turn = raw_h2.Connection(proxy.client()), 0

    def go_on(self):
        """False once the connection is over."""
        with contextlib.suppress(OSError, ssl.SSLError):
            with self.connection.at_once():
                self.frames(self.connection, self.turn)
        self.turn += 1
        with contextlib.suppress(OSError, ssl.SSLError):
            return self.connection.read(0.01)
        return True  # what is still to be read comes with the next turn

    def run(self, turns=1_000):
        while self.turn < turns and self.go_on():
            pass
        return self.connection.closed


class Floods(Guarded):
    def test_SE_T041_SE_136_each_abuse_ends_its_connection_and_nothing_else(self):
        for row in ABUSES:
            with self.subTest(row[0]):
                self.before, counter = resident(), counted(row[1])
                abuser = Abuser(row)
                self.addCleanup(abuser.connection.close)
                self.assertTrue(abuser.run(), f"still open after {abuser.turn} turns")
                self.assertEqual(abuser.connection.goaway, abuser.code)
                self.served()
                self.bounded()
                self.assertGreater(counted(row[1]), counter)

    def test_SE_T041_SE_136_fifty_connections_at_once(self):
        counters = {row[1]: counted(row[1]) for row in ABUSES}
        abusers = [Abuser(ABUSES[number % len(ABUSES)]) for number in range(3 * len(ABUSES))]
        for abuser in abusers:
            self.addCleanup(abuser.connection.close)
        running = list(abusers)
        while running and max(one.turn for one in running) < 1_000:
            running = [one for one in running if one.go_on()]
        self.assertEqual([one.name for one in running], [])
        self.assertEqual([(one.name, one.connection.goaway) for one in abusers if one.connection.goaway != one.code], [])
        self.served()
        self.bounded(16 * MORE)
        for kind, counter in counters.items():
            self.assertGreater(counted(kind), counter, kind)

    def test_SE_083_T85_a_stream_too_many_is_refused_and_the_rest_lives(self):
        with raw_h2.Connection(proxy.client()) as connection:
            self.assertEqual(connection.ask("GET", MAPS).status, 200)  # its SETTINGS are acknowledged
            streams = [ask(connection, MAPS + "?watch=1") for _ in range(251)]
            self.assertTrue(connection.until(lambda: all(s.status or s.over for s in streams)))
            self.assertEqual([s.reset for s in streams], [None] * 250 + [7])
            self.assertEqual([s.status for s in streams], [200] * 250 + [None])
            self.assertIsNone(connection.goaway)


class Stalls(Guarded):
    def closed(self, connections, seconds=60):
        """All are over within so many seconds."""
        end = time.monotonic() + seconds
        while (left := [one for one in connections if not one.closed]) and time.monotonic() < end:
            for one in left:
                one.read(0.01)
        return not left

    def test_SE_132_heads_that_never_end(self):
        connections = [raw_h2.Connection(proxy.client()) for _ in range(20)]
        for connection in connections:
            self.addCleanup(connection.close)
            self.assertEqual(connection.ask("GET", MAPS).status, 200)  # so it has no SETTINGS to acknowledge inside of a head
            connection.send(raw_h2.frame(raw_h2.HEADERS, 0, connection.next, raw_h2.field(":method", "GET")))
        self.assertTrue(self.closed(connections))
        self.assertEqual({one.goaway for one in connections}, {CALM})
        self.served()
        self.bounded()

    def test_SE_132_heads_of_HTTP_1_that_never_end(self):
        client, waiting = proxy.client(), []
        for text in (b"", b"G", b"GET /livez HTTP/1.1\r\nHost: x\r\nA: "):
            for _ in range(10):
                raw = socket.create_connection((client.url.hostname, client.url.port), timeout=60)
                tls = client.context.wrap_socket(raw, server_hostname=client.url.hostname)
                self.addCleanup(tls.close)
                tls.sendall(text)
                waiting.append((text, tls))
        for text, tls in waiting:
            if text:
                said = b""
                while part := tls.recv(4096):
                    said += part
                self.assertEqual(said[:13], b"HTTP/1.1 408 ", text)
        self.served()
        self.bounded()

    @kit.without_sanitizer
    def test_SE_136_answers_that_nobody_reads(self):
        """Windows of 0, and sockets that are not read: the answers wait in the backend, and then not at all."""
        path, root = MAPS.replace("default", "stalls"), installation.client()
        root.must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stalls"}})
        for number in range(4):
            root.must("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{number}"}, "data": {"x": "x" * 500_000}})
        size = len(proxy.client().get(path).body)
        self.assertGreater(size, 2_000_000, "an answer worth waiting for")
        before, stalled = resident(), []
        with contextlib.ExitStack() as stack:
            for number in range(10):
                connection = stack.enter_context(raw_h2.Connection(proxy.client()))
                if number % 2:
                    connection.send(raw_h2.frame(raw_h2.SETTINGS, 0, 0, b"\0\4" + bytes(4)))
                stalled.append((connection, [ask(connection, path) for _ in range(20)]))
            self.served()
            most = 0

            def over():
                nonlocal most
                most = max(most, resident() - before)
                for number, (connection, _) in enumerate(stalled):
                    if number % 2:
                        connection.read(0)  # its frames, but no window
                return all(s.over for number, (_, streams) in enumerate(stalled) if number % 2 for s in streams)

            kit.eventually(over, 60, "streams that take nothing are reset")
            # What windows at the shard allow, 256 KiB, and 64 KiB may wait for each of 200 streams.
            self.assertLess(most, 200 * (384 << 10))
            self.served()
        for _, streams in stalled[1::2]:
            self.assertEqual({s.reset for s in streams}, {2})

    def test_SE_082_ten_thousand_handshakes_that_say_nothing(self):
        """Who is connected notices nothing; who comes new waits until the oldest silent ones have given way."""
        address, silent = ("127.0.0.1", proxy.port), []
        try:
            for _ in range(10_000):
                one = socket.socket()
                one.setblocking(False)
                silent.append(one)
                with contextlib.suppress(BlockingIOError):
                    one.connect(address)
            self.served(20)
            self.bounded(4 * MORE)
        finally:
            for one in silent:
                one.close()
        self.assertEqual(kit.eventually(lambda: proxy.client().get(MAPS).status, 120, "a new connection"), 200)
        self.served()


if __name__ == "__main__":
    unittest.main()
