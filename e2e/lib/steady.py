"""A client that keeps its connections: what asks thousands of times does not shake hands thousands of times."""
import contextlib
import http.client
import json
import select
import socket
import threading
import time

import kit


class Steady(kit.Client):
    """As kit.Client, over HTTP/1.1 connections that are kept, one for each thread. A connection that the server has closed
    meanwhile is made anew, once."""

    patient = False  # what is refused with 429 is asked again when the answer says so, for a minute

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept = threading.local()

    @property
    def connection(self):
        return getattr(self.kept, "connection", None)

    def request(self, method, path, body=None, headers=None, timeout=40, first=None):
        """@param first  of a 200 only what comes within so many seconds (a watch)."""
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        until = time.monotonic() + 60
        while True:
            answer = self.ask_kept(method, path, body, headers, timeout, first)
            if answer.status != 429 or not self.patient or time.monotonic() > until:
                return answer
            time.sleep(int(answer.headers["Retry-After"]))

    def ask_kept(self, method, path, body, headers, timeout, first):
        if self.connection is not None and select.select([self.connection.sock], [], [], 0)[0]:
            self.close()  # nothing is expected: that is its end
        kept = self.connection is not None
        try:
            try:
                return self.ask(method, path, body, headers, timeout, first)
            except (http.client.RemoteDisconnected, ConnectionError, http.client.CannotSendRequest):
                if not kept:
                    raise
                self.close()
                return self.ask(method, path, body, headers, timeout, first)
        except BaseException:
            self.close()
            raise

    def ask(self, method, path, body, headers, timeout, first):
        if self.connection is None:
            connection = self.connect(timeout)
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.kept.connection = connection
        self.connection.sock.settimeout(timeout)
        self.connection.request(method, self.url.path.rstrip("/") + path, body=body, headers=headers)
        response = self.connection.getresponse()
        if first is not None and response.status == 200:
            return self.begun(response, first)
        answer = kit.Answer(response.status, response.headers, response.read())
        if response.will_close or response.status == 101:  # what comes then is no HTTP
            self.close()
        return answer

    def begun(self, response, seconds):
        body, end = b"", time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            while (left := end - time.monotonic()) > 0:
                self.connection.sock.settimeout(left)
                part = response.read1(65536)
                if not part:
                    break
                body += part
        self.close()
        return kit.Answer(response.status, response.headers, body)

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.kept.connection = None


def steady(client):
    """The same client, with connections that are kept."""
    out = Steady.__new__(Steady)
    out.url, out.context, out.kept = client.url, client.context, threading.local()
    return out
