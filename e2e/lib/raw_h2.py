"""An HTTP/2 client that says what it is told to, frame by frame, also what no library would (RFC 9113, 7541)."""
import contextlib
import select
import socket
import ssl
import time

DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STATIC_STATUS = {0x88: 200, 0x89: 204, 0x8A: 206, 0x8B: 304, 0x8C: 400, 0x8D: 404, 0x8E: 500}


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def text(value):
    value, size = value.encode("latin-1"), len(value)
    if size < 127:
        return bytes([size]) + value
    out, size = b"\x7f", size - 127
    while size >= 128:
        out, size = out + bytes([size % 128 + 128]), size // 128
    return out + bytes([size]) + value


def field(name, value):
    """A literal without indexing, with a literal name."""
    return b"\x00" + text(name) + text(value)


def status_of(block):
    """Of an answer's block: :status comes first, indexed or as a literal with Huffman code."""
    if block[0] & 0xE0 == 0x20:
        block = block[1:]  # the size of the table
    if block[0] in STATIC_STATUS:
        return STATIC_STATUS[block[0]]
    assert block[0] & 0x0F == 8, block[:8]
    if block[1] & 0x80 == 0:
        return int(block[2:5])
    bits, value, at = int.from_bytes(block[2:2 + (block[1] & 0x7F)], "big"), 0, (block[1] & 0x7F) * 8
    for _ in range(3):
        code = bits >> (at - 5) & 0x1F
        if code < 3:
            at -= 5
        else:
            code = (bits >> (at - 6) & 0x3F) - 0x19 + 3
            at -= 6
        value = value * 10 + code
    return value


class Stream:
    def __init__(self, number, window):
        self.number, self.window, self.sent = number, window, 0
        self.status, self.reset, self.ended, self.body = None, None, False, b""

    @property
    def over(self):
        return self.ended or self.reset is not None


class Connection:
    """One connection of a kit.Client's server and certificate."""

    def __init__(self, client, timeout=60):
        self.context = client.context
        self.context.set_alpn_protocols(["h2"])
        self.authority = f"{client.url.hostname}:{client.url.port}"
        self.prefix = client.url.path.rstrip("/")
        raw = socket.create_connection((client.url.hostname, client.url.port), timeout=timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.tls = self.context.wrap_socket(raw, server_hostname=client.url.hostname)
        self.context.set_alpn_protocols(["http/1.1"])  # the client goes on with it
        self.streams, self.next, self.buffer, self.goaway, self.closed = {}, 1, b"", None, False
        self.window, self.first_window, self.held = 65_535, 65_535, None
        self.tls.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW_UPDATE, 0, 0, (1 << 24).to_bytes(4, "big")))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.closed = True
        self.tls.close()

    def send(self, data):
        if self.held is None:
            self.tls.sendall(data)
        else:
            self.held += data

    @contextlib.contextmanager
    def at_once(self):
        """What is sent inside goes out in one piece at the end."""
        self.held = b""
        yield
        data, self.held = self.held, None
        self.send(data)

    def open(self, method, path, headers=(), authority=None, end=True):
        """Begins a request; returns its stream. @param authority  instead of the server's own"""
        number, self.next = self.next, self.next + 2
        block = field(":method", method) + field(":scheme", "https") + field(":path", self.prefix + path)
        block += field(":authority", self.authority if authority is None else authority)
        for name, value in headers:
            block += field(name, value)
        stream = self.streams[number] = Stream(number, self.first_window)
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), number, block))
        return stream

    def data(self, stream, payload, end=False):
        stream.sent += len(payload)
        stream.window -= len(payload)
        self.window -= len(payload)
        self.send(frame(DATA, END_STREAM if end else 0, stream.number, payload))

    def read(self, wait=0.05):
        """Takes what has come (1 MiB at most), or comes within `wait` seconds. False: the connection is over."""
        if self.closed:
            return False
        most = len(self.buffer) + (1 << 20)
        while len(self.buffer) < most and (self.tls.pending() or select.select([self.tls], [], [], wait)[0]):
            try:
                got = self.tls.recv(1 << 18)
            except (OSError, ssl.SSLError):
                got = b""
            if not got:
                self.closed = True
                break
            self.buffer, wait = self.buffer + got, 0
        self.take_frames()
        return not self.closed

    def take_frames(self):
        at = 0
        while len(self.buffer) >= at + 9:
            size = int.from_bytes(self.buffer[at:at + 3], "big")
            if len(self.buffer) < at + 9 + size:
                break
            kind, flags = self.buffer[at + 3], self.buffer[at + 4]
            number = int.from_bytes(self.buffer[at + 5:at + 9], "big") & 0x7FFFFFFF
            self.take(kind, flags, number, self.buffer[at + 9:at + 9 + size])
            at += 9 + size
        self.buffer = self.buffer[at:]

    def answer(self, data):
        """Sends what a frame asks for. Who has closed meanwhile gets none; what it said before is read all the same."""
        with contextlib.suppress(OSError, ssl.SSLError):
            self.send(data)

    def take(self, kind, flags, number, payload):
        stream = self.streams.get(number)
        if kind == SETTINGS and flags & 1 == 0:
            self.answer(frame(SETTINGS, 1, 0))
        elif kind == PING and flags & 1 == 0:
            self.answer(frame(PING, 1, 0, payload))
        elif kind == GOAWAY:
            self.goaway = int.from_bytes(payload[4:8], "big")
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if number == 0:
                self.window += more
            elif stream:
                stream.window += more
        elif stream is None:
            return
        elif kind == RST:
            stream.reset = int.from_bytes(payload, "big")
        elif kind == HEADERS:
            stream.status = stream.status or status_of(payload)
            stream.ended = stream.ended or bool(flags & END_STREAM)
        elif kind == DATA:
            stream.body += payload
            stream.ended = stream.ended or bool(flags & END_STREAM)
            if payload:
                self.answer(frame(WINDOW_UPDATE, 0, 0, len(payload).to_bytes(4, "big")))

    def until(self, done, seconds=60):
        """Reads until done() or the connection is over; whether done() holds then."""
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            if not self.read():
                break
        return bool(done())

    def ask(self, method, path, headers=(), authority=None):
        """One request without a body and its end."""
        stream = self.open(method, path, headers, authority)
        self.until(lambda: stream.over)
        return stream
