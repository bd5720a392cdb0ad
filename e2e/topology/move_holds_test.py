"""Clients do not see that their logical cluster moves: the proxy holds their requests until it is at its new shard (GR-606)."""
import http.client
import itertools
import json
import socket
import threading
import time
import unittest

import kit
from topology.moves_test import MAPS, MIGRATIONS, config_map, migration

WRITERS = 4
PAUSE = 0.032  # of each: about 100 writes a second by all of them
LEAST, MOST = 4, 20  # moves; more than the least until requests were seen waiting
OBJECTS = 100  # what a move has to copy besides


class Writer(threading.Thread):
    """Makes objects through one connection after another, and reads each back. Nothing is sent twice: an error is kept."""

    def __init__(self, client, name):
        super().__init__(daemon=True)
        self.client, self.name_ = client, name
        self.made, self.wrong, self.longest, self.sent = [], [], 0.0, 0
        self.stopped = threading.Event()
        self.start()

    def run(self):
        connection = self.client.connect()
        root = self.client.url.path.rstrip("/") + MAPS
        for number in itertools.count():
            if self.stopped.wait(PAUSE):
                break
            name = f"{self.name_}-{number}"
            for method, path, body, good in (("POST", root, json.dumps(config_map(name, n=str(number))), 201),
                                             ("GET", f"{root}/{name}", None, 200)):
                begin = time.monotonic()
                try:
                    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
                    answer = connection.getresponse()
                    text, status = answer.read(), answer.status
                except (OSError, http.client.HTTPException) as fault:
                    text, status, connection = repr(fault), 0, self.client.connect()
                self.sent += 1
                self.longest = max(self.longest, time.monotonic() - begin)
                if status != good:
                    self.wrong.append((method, name, status, text))
                elif method == "POST":
                    self.made.append(name)
        connection.close()


class Unix(http.client.HTTPConnection):
    """To the proxy's own door."""

    def __init__(self, path):
        super().__init__("admin", timeout=20)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Held(threading.Thread):
    """Reads again and again how many requests wait, until some were seen."""

    def __init__(self, installation):
        super().__init__(daemon=True)
        self.installation, self.most, self.stopped = installation, 0, threading.Event()
        self.start()

    def now(self):
        connection = Unix(self.installation.state / "run" / "admin.sock")
        try:
            connection.request("GET", "/metrics")
            lines = connection.getresponse().read().decode().splitlines()
        finally:
            connection.close()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line.startswith("kintsugi_move_held_"))}

    def run(self):
        while not self.stopped.is_set() and self.most == 0:
            self.most = max(self.most, self.now()["kintsugi_move_held_requests"])


class MoveHolds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.root = cls.installation.client()

    def at_shard(self, name, cluster):
        """Past the proxy."""
        pki = self.installation.pki
        return kit.Client(f"{self.installation.shard_url(name)}/clusters/{cluster}", pki / "serving-ca.crt", pki / "shard-admin.crt",
                          pki / "shard-admin.key")

    def move(self, number, cluster, shard):
        name = f"held-{number}"
        self.root.must("POST", MIGRATIONS, migration(name, cluster, shard))

        def over():
            found = self.root.must("GET", f"{MIGRATIONS}/{name}").get("status", {})
            assert found.get("phase") == "Completed", found
            return True

        kit.eventually(over, 60, f"{name} is over")

    def test_GR606_nobody_sees_an_error_while_his_cluster_moves(self):
        self.installation.make_workspace("busy", selector={"name": "shard-1"})
        client = self.installation.client("/clusters/root:busy")
        facts = client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]
        self.assertEqual(facts["core.kcp.io/shard"], "shard-1")
        cluster = facts["kcp.io/cluster"]
        for number in range(OBJECTS):
            client.must("POST", MAPS, config_map(f"old-{number}", fill="x" * 4_000))
        held = Held(self.installation)
        self.assertEqual(set(held.now().values()), {0.0})
        writers = [Writer(client, f"w{number}") for number in range(WRITERS)]
        begin, here = time.monotonic(), "shard-1"
        try:
            kit.eventually(lambda: all(one.made for one in writers))
            for number in range(MOST):
                origin, here = here, "root" if here == "shard-1" else "shard-1"
                self.move(number, cluster, here)
                # What they are spared: the shard that the cluster has left refuses.
                straight = self.at_shard(origin, cluster).request("POST", MAPS, config_map(f"straight-{number}"))
                self.assertEqual((straight.status, straight.headers.get("X-Kintsugi-Moving"), straight.headers.get("Retry-After")),
                                 (503, "1", "1"), straight)
                known = sum(one.sent for one in writers)
                kit.eventually(lambda k=known: sum(one.sent for one in writers) > k + 2 * WRITERS, what="writes go on")
                if number + 1 >= LEAST and held.most and held.now()['kintsugi_move_held_total{outcome="sent"}']:
                    break
        finally:
            for one in (*writers, held):
                one.stopped.set()
            for one in (*writers, held):
                one.join(60)
        took = time.monotonic() - begin
        self.assertEqual([one.wrong for one in writers], [[]] * WRITERS)
        made = {name for one in writers for name in one.made}
        there = {one["metadata"]["name"] for one in self.at_shard(here, cluster).must("GET", MAPS)["items"]}
        self.assertEqual(made - there, set(), "acknowledged, and not at the new shard")
        self.assertEqual({name for name in there if name.startswith("straight-")}, set())
        counted = held.now()
        self.assertGreater(held.most, 0)
        self.assertGreater(counted['kintsugi_move_held_total{outcome="sent"}'], 0)
        self.assertEqual([counted[f'kintsugi_move_held_total{{outcome="{name}"}}'] for name in ("given-up", "no-room")], [0, 0])
        self.assertEqual(counted["kintsugi_move_held_requests"], 0)
        print(f"{number + 1} moves in {took:.1f} s, {len(made)} objects made, {len(made) / took:.0f}/s; "
              f"{counted}; longest request {max(one.longest for one in writers):.2f} s")


if __name__ == "__main__":
    unittest.main()
