"""The soft limit of files is no limit, and what is left of it is said (OP-206)."""
import contextlib
import json
import socket
import unittest

import kit

CLIENTS = 400
ASK = b"GET /livez HTTP/1.1\r\nhost: proxy\r\n\r\n"


def setUpModule():
    global installation
    installation = kit.Installation(shards=1).start_for()


class Files(unittest.TestCase):
    def open_and_ask(self, proxy, clients):
        """So many connections at once, each of which is answered, twice."""
        context = proxy.client("").context
        with contextlib.ExitStack() as stack:
            made = []
            for _ in range(clients):
                raw = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
                made.append(stack.enter_context(context.wrap_socket(raw, server_hostname="127.0.0.1")))
                made[-1].sendall(ASK)
            for turn in range(2):
                for one in made:
                    self.assertIn(b" 200 ", one.recv(65_536), turn)
                    one.sendall(ASK)

    @staticmethod
    def line(proxy, begins):
        return next(one for one in map(json.loads, proxy.text().splitlines()) if one["msg"].startswith(begins))

    def test_OP_206_a_soft_limit_of_256(self):
        with kit.Proxy(installation, under=["prlimit", "--nofile=256:4096"]) as proxy:
            self.open_and_ask(proxy, CLIENTS)
            line = self.line(proxy, "files that may be open")
            self.assertEqual((line["level"], line["files"], line["soft_limit_before"]), ("info", 4096, 256))
            self.assertEqual(proxy.metric("process_max_fds"), 4096)

    def test_OP_206_a_hard_limit_of_512_is_warned_of(self):
        with kit.Proxy(installation, under=["prlimit", "--nofile=256:512"]) as proxy:
            self.open_and_ask(proxy, 100)
            line = self.line(proxy, "few files may be open")
            self.assertEqual((line["level"], line["files"], line["soft_limit_before"]), ("warn", 512, 256))


if __name__ == "__main__":
    unittest.main()
