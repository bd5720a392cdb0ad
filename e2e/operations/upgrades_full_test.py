"""A proxy is replaced again and again while many use it; its port is somebody else's, as under a service manager (OP-T207)."""
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import unittest

import crowd
import kit
import raw_h2
from given_sockets import Given, listening

ONLY_WITH_ALL = "twenty upgrades under load"
MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
REFUSED_STREAM = 7
PATIENCE = 60  # [s] that a client waits for an answer
RATE, BATCH = 500, 25  # requests a second at most on each of two connections, and at once


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()


class Load(threading.Thread):
    """GETs over HTTP/2 as fast as its rate says. What the server says it has not begun (RFC 9113, 6.8) is asked again, as all clients do."""

    def __init__(self, client, path):
        super().__init__(daemon=True)
        self.client, self.path, self.ends = client, path, threading.Event()
        self.answered, self.connections, self.cut, self.refused, self.failed = 0, 0, 0, [], []
        self.start()

    def run(self):
        while not self.ends.is_set():
            try:
                connection = raw_h2.Connection(self.client, PATIENCE)
            except OSError as fault:
                self.refused.append(repr(fault))
                continue
            self.connections += 1
            while not self.ends.is_set() and self.batch(connection):
                pass
            connection.close()

    def batch(self, connection):
        """Whether the connection takes more."""
        due, streams = time.monotonic() + BATCH / RATE, []
        try:
            with connection.at_once():
                streams += [connection.open("GET", self.path) for _ in range(BATCH)]
        except OSError:
            pass  # what came before is read all the same

        def is_begun(stream):
            return connection.goaway is None or stream.number <= connection.goaway

        connection.until(lambda: all(one.over or not is_begun(one) for one in streams), PATIENCE)
        for one in streams:
            if one.ended and one.status == 200:
                self.answered += 1
            elif one.ended:
                self.failed.append(one.status)
            elif is_begun(one) and one.reset != REFUSED_STREAM:
                self.cut += 1
            del connection.streams[one.number]
        self.ends.wait(max(due - time.monotonic(), 0))
        return connection.goaway is None and not connection.closed

    @staticmethod
    def faults(loads):
        return [fault for one in loads for fault in one.refused + one.failed]


class Upgrades(unittest.TestCase):
    def setUp(self):
        self.port = self.enterContext(listening()) if hasattr(self, "enterContext") else listening()
        self.addCleanup(self.port.close)
        self.proxy = Given(installation, self.port, change={"wildcard": "serve", "shutdown": {"delay_ms": 0, "grace_ms": 10_000}}, loops=2)
        self.proxy.port = self.port.getsockname()[1]
        self.program = pathlib.Path(self.proxy.dir, "kintsugi")  # what the service manager starts
        self.proxy.program = str(self.program)
        self.written = 0

    def install(self, program):
        """Another file, under the name of the old one."""
        fresh = self.program.with_suffix(".new")
        os.symlink(program, fresh)
        os.replace(fresh, self.program)

    def script(self, text):
        path = self.proxy.dir / "other"
        path.write_text(text)
        path.chmod(0o755)
        return path

    def begin(self):
        self.install(kit.BINARY)
        self.proxy.start()
        self.addCleanup(self.proxy.__exit__)
        kit.eventually(self.is_ready, 30, "a proxy")

    def is_ready(self):
        return self.proxy.client("").get("/readyz").status == 200

    def write(self, names=3):
        client = installation.client()
        for _ in range(names):
            client.must("POST", MAPS, {"metadata": {"name": f"{self.id().rsplit('_', 1)[1]}-{self.written}"}})
            self.written += 1

    def names(self):
        return [f"{self.id().rsplit('_', 1)[1]}-{number}" for number in range(self.written)]

    def watch(self, users, each):
        cursor = self.proxy.client("").must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        watches = crowd.Crowd([[self.proxy.client("")] for _ in range(users)], ALL_MAPS, cursor, each)
        self.addCleanup(watches.join, 30)
        self.addCleanup(watches.end.set)
        kit.eventually(lambda: all(one.status == 200 for one in watches.all), 60, "all watches are open")
        return watches

    def missing(self, watches):
        return [one for one in watches.all if not set(self.names()) <= {name for _, name in one.events}]

    def test_OP_T207_twenty(self):
        self.begin()
        watches = self.watch(5, 100)
        loads = [Load(self.proxy.client("/clusters/root"), MAPS + "?limit=1") for _ in range(2)]
        began, pids = time.monotonic(), set()
        for turn in range(20):
            before = [one.answered for one in loads]
            kit.eventually(lambda before=before: all(one.answered > old + 100 for one, old in zip(loads, before)), 60, "answers")
            self.write()
            self.install(kit.BINARY)
            pids.add(self.proxy.process.pid)
            self.assertEqual(self.proxy.stop(), 0, f"turn {turn}: {self.proxy.text()[-2000:]}")
            self.write()  # while there is none
            self.proxy.start()
            kit.eventually(lambda: not self.missing(watches), 60, f"all watches have what was written by turn {turn}")
        before = [one.answered for one in loads]
        kit.eventually(lambda: all(one.answered > old + 100 for one, old in zip(loads, before)), 60, "answers after the last")
        took = time.monotonic() - began
        for one in loads:
            one.ends.set()
        for one in loads:
            one.join(90)
        answered = sum(one.answered for one in loads)
        print(f"note: 20 upgrades in {took:.0f} s, {answered} requests ({answered / took:.0f}/s), {watches.moves} connections of watches began anew", flush=True)
        self.assertEqual(len(pids), 20)
        self.assertEqual((Load.faults(loads), sum(one.cut for one in loads)), ([], 0))
        self.assertTrue(all(one.connections > 20 for one in loads))
        self.assertEqual((watches.faults, watches.refused), ([], set()))
        for one in watches.all:  # who leaves at GOAWAY, before the last bookmark, has some of them twice
            self.assertEqual([event for event in dict.fromkeys(one.events) if event[1] in set(self.names())], [("ADDED", name) for name in self.names()])

    def test_OP_T207_a_new_program_that_does_not_start(self):
        """It exits, is no program, or hangs and is ended for it: who comes meanwhile waits, and is served by the one that is put back."""
        self.begin()
        watches = self.watch(2, 10)
        load = Load(self.proxy.client("/clusters/root"), MAPS + "?limit=1")
        hangs = self.script("#!/bin/sh\nexec sleep 1000\n")
        for wrong in ("/bin/false", "/etc/passwd", hangs):
            before = load.answered
            kit.eventually(lambda before=before: load.answered > before + 50, 60, "answers")
            self.write()
            self.install(wrong)
            self.assertEqual(self.proxy.stop(), 0)
            for _ in range(2):  # it is tried again
                self.proxy.start()
                if wrong == hangs:
                    self.assertIsNone(self.proxy.process.poll())
                    self.proxy.process.kill()
                self.assertNotEqual(self.proxy.process.wait(60), 0)
            with socket.create_connection(self.port.getsockname(), timeout=PATIENCE) as early:  # the kernel takes it
                self.install(kit.BINARY)
                self.proxy.start()
                kit.eventually(lambda: not self.missing(watches), 60, "all watches go on")
                early.close()
        load.ends.set()
        load.join(90)
        self.assertEqual((load.refused, load.failed, load.cut), ([], [], 0))
        self.assertEqual((watches.faults, watches.refused), ([], set()))

    def test_OP_T207_killed_at_each_step(self):
        """kill -9 while it starts, when it has just begun to serve, in use, and while it ends: nobody is refused, only what was under way is
        cut; no event is missed; its store has one writer, and is whole."""
        self.begin()
        watches = self.watch(2, 10)
        load = Load(self.proxy.client("/clusters/root"), MAPS + "?limit=1")
        partitions = "/apis/topology.kcp.io/v1alpha1/partitions"

        def in_use():
            before = load.answered
            kit.eventually(lambda: load.answered > before + 50, 60, "answers")

        def ends():
            self.proxy.process.send_signal(signal.SIGTERM)
            kit.eventually(lambda: '"drain' in self.proxy.text() or "drain" in self.proxy.text(), 30, "a drain")

        steps = [lambda: None, lambda: kit.eventually(lambda: "listening" in self.proxy.text()[mark:], 30, "it listens"), in_use, ends]
        for number, step in enumerate(steps):
            mark = len(self.proxy.text())
            step()
            self.write()
            stored = self.proxy.client().request("POST", partitions, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition",
                                                                      "metadata": {"name": f"killed-{number}"}, "spec": {}}).status if step is in_use else None
            other = subprocess.run([kit.BINARY, "proxy", "--config", self.proxy.dir / "proxy.yaml", "--allow-root"], capture_output=True, text=True,
                                   timeout=60, check=False) if step is in_use else None
            self.proxy.process.kill()
            self.proxy.process.wait(30)
            self.proxy.start()
            kit.eventually(lambda: not self.missing(watches), 60, f"all watches go on after step {number}")
            if step is in_use:
                self.assertEqual((stored, other.returncode), (201, 1), other.stderr)
                self.assertIn("in use", other.stderr)
                self.assertEqual(self.proxy.client().get(f"{partitions}/killed-{number}").status, 200, "what was answered is stored")
        load.ends.set()
        load.join(90)
        print(f"note: {load.cut} requests were under way when it was killed", flush=True)
        self.assertEqual(load.failed, [])
        self.assertEqual([one for one in load.refused if "refused" in one.lower()], [])
        self.assertEqual(watches.faults, [])
        self.assertEqual(self.proxy.stop(), 0)
        check = subprocess.run([kit.BINARY, "store", "check", "--dir", self.proxy.dir / "data"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)


if __name__ == "__main__":
    unittest.main()
