#!/usr/bin/env python3
"""A sink for docs/workers/eventing.md: takes events at port 8000 of this machine; GET says how many, and how many different ones."""
import http.server
import sys

events = []


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        events.append((self.headers.get("ce-source"), self.headers.get("ce-id")))
        self.answer(b"")

    def do_GET(self):
        self.answer(f"{len(events)} events, {len(set(events))} different ones\n".encode())

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8000), Handler).serve_forever()
