"""What cannot start says why, and what to do (OP-202)."""
import os
import re
import shlex
import socket
import subprocess
import unittest

import kit


def start(*arguments):
    """Standard error of a `kintsugi up` that ends with status 1."""
    run = subprocess.run([str(kit.BINARY), "up", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 1, f"{run.returncode}\n{run.stderr}"
    return run.stderr


class NotStarted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1).start_for(cls)
        cls.installation.stop()

    def test_OP_202_whose_port_it_is(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            said = start("--dir", self.installation.state, "--port", port, "--shards", 1)
        self.assertIn(f"kintsugi up: proxy could not start: kintsugi proxy: 127.0.0.1:{port}: address already in use; pid {os.getpid()} has it; "
                      "end what listens there, or use another --port\n", said)

    def test_OP_202_a_damaged_store(self):
        data = self.installation.state / "shards" / "root" / "data"
        file = data / "data.mdb"
        sound = file.read_bytes()
        file.write_bytes(sound[:2 * 4096] + bytes(len(sound) - 2 * 4096))
        try:
            said = start("--dir", self.installation.state, "--port", self.installation.port, "--shards", 1)
            found = re.search(r"(?m)^kintsugi up: root could not start: kintsugi shard: the store is damaged: .*; `kintsugi (.*)` says what is left of it, and "
                              r"`kintsugi restore` brings a backup back$", said)
            self.assertIsNotNone(found, said)
            self.assertEqual(found.group(1), f"store check --dir {data}")
            check = subprocess.run([str(kit.BINARY), *shlex.split(found.group(1))], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(check.returncode, 1, check.stdout + check.stderr)
            self.assertIn("problems", check.stdout)
        finally:
            file.write_bytes(sound)


if __name__ == "__main__":
    unittest.main()
