"""A client of one connection: what asks thousands of times does not shake hands thousands of times."""
import http.client
import json
import socket

import kit


class Steady(kit.Client):
    """As kit.Client, over HTTP/1.1 connections that are kept (one for each thread would be wrong: use it on one). A connection that
    the server has closed meanwhile is made anew, once."""

    connection = None

    def request(self, method, path, body=None, headers=None, timeout=40):
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        kept = self.connection is not None
        try:
            return self.ask(method, path, body, headers, timeout)
        except (http.client.RemoteDisconnected, ConnectionError, BrokenPipeError, http.client.CannotSendRequest):
            self.close()
            if not kept:
                raise
            return self.ask(method, path, body, headers, timeout)
        except BaseException:
            self.close()
            raise

    def ask(self, method, path, body, headers, timeout):
        if self.connection is None:
            self.connection = self.connect(timeout)
            self.connection.connect()
            self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.request(method, self.url.path.rstrip("/") + path, body=body, headers=headers)
        response = self.connection.getresponse()
        answer = kit.Answer(response.status, response.headers, response.read())
        if response.will_close:
            self.close()
        return answer

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def steady(client):
    """The same client, with one connection."""
    out = Steady.__new__(Steady)
    out.url, out.context = client.url, client.context
    return out
