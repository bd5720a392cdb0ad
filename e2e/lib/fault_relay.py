"""A relay between a worker and the real proxy: HTTP/1.1 without TLS to the worker, TLS with the worker's certificate to the proxy. Rules
change what passes, by a part of the path. URLs of the proxy in answers become those of the relay, so that endpoints lead through it."""
import contextlib
import http.client
import http.server
import select
import socket
import ssl
import threading
import time

import kit

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}


class Rule:
    """What happens to requests whose target has all `parts` and none of `but`, `times` of them (None: all). One of:
    answer=(status, headers, body)  without asking the proxy;  stall=True  nothing comes back until the rule is off;
    silent=True  the head of the answer and then nothing, as long;  cut=N  the connection ends after N bytes of the body;
    edit=f  the body of a list, f(bytes) -> bytes;  headers={…}  besides;
    line=f  a line of a watch, also of one that runs, f(bytes) -> bytes, or CUT for the end of the connection after half of the line."""

    CUT = object()

    def __init__(self, *parts, but=(), times=None, answer=None, stall=False, silent=False, cut=None, edit=None, headers=None, line=None):
        self.parts, self.but, self.left, self.answer, self.stall = parts, but, times, answer, stall
        self.silent, self.cut, self.edit, self.headers, self.line = silent, cut, edit, headers or {}, line
        self.hits, self.off = 0, threading.Event()

    def takes(self, target):
        return not self.off.is_set() and self.left != 0 and all(part in target for part in self.parts) and not any(no in target for no in self.but)


class Relay:
    def __init__(self, installation, user):
        self.upstream = ("127.0.0.1", installation.port)
        self.context = ssl.create_default_context(cafile=str(installation.pki / "serving-ca.crt"))
        self.context.load_cert_chain(installation.dir / f"user-{user}.crt", installation.dir / f"user-{user}.key")
        self.lock, self.rules, self.log = threading.Lock(), [], []  # of the log: (when, target, status), 0 until there is one
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self):
                relay.handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        self.server = kit.Server(Handler)
        self.url = self.server.url

    def start_for(self, case):
        (case.addClassCleanup if isinstance(case, type) else case.addCleanup)(self.close)
        return self

    def close(self):
        self.clear()
        self.server.close()

    def rule(self, *parts, **what):
        one = Rule(*parts, **what)
        with self.lock:
            self.rules.append(one)
        return one

    def clear(self):
        with self.lock:
            rules, self.rules = self.rules, []
        for one in rules:
            one.off.set()

    def asked(self, *parts, since=0.0):
        """[(when, target, status)] of requests whose target has all parts."""
        with self.lock:
            return [tuple(one) for one in self.log if one[0] >= since and all(part in one[1] for part in parts)]

    def take(self, target, lines=False):
        with self.lock:
            for one in self.rules:
                if lines == (one.line is not None) and one.takes(target):
                    one.hits += 1
                    one.left = None if one.left is None else one.left - 1
                    return one
        return Rule()

    def handle(self, request):
        target, size = request.path, int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(size) if size else None
        rule, entry = self.take(f"{request.command} {target}"), [time.monotonic(), target, 0]
        with self.lock:
            self.log.append(entry)
        try:
            self.pass_on(request, body, rule, entry)
        except (OSError, http.client.HTTPException):
            request.close_connection = True
            with contextlib.suppress(OSError):
                request.connection.shutdown(socket.SHUT_RDWR)

    def pass_on(self, request, body, rule, entry):
        if rule.stall:
            rule.off.wait(600)
            raise OSError("stalled")
        if rule.answer is not None:
            entry[2], headers, said = rule.answer
            return self.say(request, entry[2], headers, said)
        upstream = http.client.HTTPSConnection(*self.upstream, context=self.context, timeout=600)
        try:
            upstream.request(request.command, request.path, body,
                             {key: value for key, value in request.headers.items() if key.lower() not in HOP})
            answer = upstream.getresponse()
            entry[2] = answer.status
            headers = {key: value for key, value in answer.getheaders() if key.lower() not in HOP}
            headers.update(rule.headers)
            if "watch=true" in request.path and answer.status == 200:
                return self.stream(request, answer, headers, rule)
            said = self.renamed(answer.read())
            if rule.edit is not None:
                said = rule.edit(said)
            return self.say(request, answer.status, headers, said, rule.cut)
        finally:
            upstream.close()

    def renamed(self, said):
        return said.replace(f"https://127.0.0.1:{self.upstream[1]}".encode(), self.url.encode())

    @staticmethod
    def say(request, status, headers, said, cut=None):
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(said))}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.write(said if cut is None else said[:cut])
        request.wfile.flush()
        if cut is not None:
            raise OSError("cut")

    def stream(self, request, answer, headers, rule):
        request.send_response(200)
        for key, value in {**headers, "Transfer-Encoding": "chunked"}.items():
            request.send_header(key, value)
        request.end_headers()
        request.wfile.flush()
        if rule.silent:
            rule.off.wait(600)
            raise OSError("silent")
        rest = b""
        while piece := answer.read1(65536):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self.write_line(request, self.renamed(line) + b"\n")
        request.wfile.write(b"0\r\n\r\n")

    def write_line(self, request, line):
        def chunk(piece):
            request.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            request.wfile.flush()

        peer = request.connection
        if select.select([peer], [], [], 0)[0] and not peer.recv(1, socket.MSG_PEEK):
            raise OSError("nobody is there any more")
        rule = self.take(f"{request.command} {request.path}", lines=True)
        said = line if rule.line is None else rule.line(line)
        if said is Rule.CUT:
            chunk(line[:len(line) // 2])
            raise OSError("cut")
        if said:
            chunk(said)
