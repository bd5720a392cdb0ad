"""A proxy at sockets that somebody else has open, as systemd's kintsugi-proxy.socket gives them: its port is there while it is not (OP-211)."""
import os
import socket
import subprocess
import threading
import unittest

import kit
from given_sockets import Given, listening

MAPS = "/api/v1/namespaces/default/configmaps"


def setUpModule():
    global installation
    installation = kit.Installation(shards=1).start_for()


class Activation(unittest.TestCase):
    def test_OP_211_nobody_is_refused_while_it_is_started_again(self):
        with listening() as port:
            proxy = Given(installation, port, change={"shutdown": {"delay_ms": 0, "grace_ms": 5000}}, loops=2)
            unused, proxy.port = proxy.port, port.getsockname()[1]
            refused, answered, ends = [], [0], threading.Event()

            def ask():
                client = proxy.client("/clusters/root")
                while not ends.is_set():
                    try:
                        answer = client.get(MAPS)  # a connection each
                        answered[0] += 1
                        if answer.status != 200:
                            refused.append(answer.status)
                    except OSError as fault:
                        refused.append(str(fault))

            proxy.start()
            kit.eventually(lambda: proxy.client("").get("/readyz").status == 200, 20, "a proxy")
            with socket.socket() as other:
                self.assertNotEqual(other.connect_ex(("127.0.0.1", unused)), 0, "listener.port is served, too")
            askers = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
            for one in askers:
                one.start()
            for _ in range(3):
                before = answered[0]
                kit.eventually(lambda before=before: answered[0] > before + 20, 20, "answers")
                self.assertEqual(proxy.stop(), 0)
                proxy.start()
            before = answered[0]
            kit.eventually(lambda: answered[0] > before + 20, 20, "answers after the last start")
            ends.set()
            for one in askers:
                one.join(30)
            self.assertEqual(proxy.stop(), 0)
            self.assertEqual(refused, [])
            # Who keeps the socket keeps who comes while nobody is there.
            with socket.create_connection(port.getsockname()) as early:
                early.sendall(b"GET / HTTP/1.1\r\n\r\n")

    def test_OP_211_several_sockets(self):
        with listening() as first, listening(socket.AF_INET6, "::1") as second:
            proxy = Given(installation, first, second)
            proxy.start()
            try:
                for port in (first.getsockname()[1], second.getsockname()[1]):
                    host = "127.0.0.1" if port == first.getsockname()[1] else "[::1]"
                    code = ["curl", "-sk", "-o", os.devnull, "-w", "%{http_code}", f"https://{host}:{port}/healthz"]
                    kit.eventually(lambda code=code: subprocess.run(code, capture_output=True, text=True, timeout=60, check=False).stdout == "200", 20, host)
                self.assertIn(f'"127.0.0.1:{first.getsockname()[1]}"', proxy.text())
            finally:
                self.assertEqual(proxy.stop(), 0)

    def test_OP_211_what_is_no_socket_that_listens(self):
        with socket.socket() as idle, listening() as port, listening() as another, listening() as third:
            for given, wanted in (((port, idle), "LISTEN_FDS: descriptor 4 is no TCP socket that listens"), ((port, another, third), "LISTEN_FDS: 3 sockets, and loops: 2")):
                proxy = Given(installation, *given)
                proxy.start()
                self.assertEqual(proxy.process.wait(120), 1)
                self.assertIn(wanted, proxy.text())


if __name__ == "__main__":
    unittest.main()
