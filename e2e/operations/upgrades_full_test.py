"""A proxy is replaced again and again while many use it; its port is somebody else's, as under a service manager (OP-T207)."""
import os
import pathlib
import signal
import socket
import subprocess
import time
import unittest

import crowd
import kit
from given_sockets import Given, listening
from request_load import Load

ONLY_WITH_ALL = "twenty upgrades under load"
MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
PATIENCE = 60  # [s] that a client waits
RATE = 550  # requests a second at most of each of two clients
EACH_TURN = 1000  # answers of each before the next upgrade


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()


class Upgrades(unittest.TestCase):
    def setUp(self):
        self.port = self.enterContext(listening()) if hasattr(self, "enterContext") else listening()
        self.addCleanup(self.port.close)
        self.proxy = Given(installation, self.port, change={"wildcard": "serve", "shutdown": {"delay_ms": 0, "grace_ms": 30_000, "spread_ms": 1000}}, loops=2)
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
        watches = crowd.Crowd([[self.proxy.client("")] for _ in range(users)], ALL_MAPS, cursor, each, stays=True)
        self.addCleanup(watches.join, 30)
        self.addCleanup(watches.end.set)
        kit.eventually(lambda: all(one.status == 200 for one in watches.all), 60, "all watches are open")
        return watches

    def load(self):
        one = Load(f"https://127.0.0.1:{self.proxy.port}/clusters/root", installation.pki, MAPS + "?limit=1", RATE)
        self.addCleanup(one.end)
        return one

    def in_use(self, loads, answers):
        """Each has so many answers more. @returns how many all had a second meanwhile, once answers came"""
        before = [one.answered for one in loads]
        kit.eventually(lambda: all(one.answered > old for one, old in zip(loads, before)), 60, "an answer")
        began, first = time.monotonic(), sum(one.answered for one in loads)
        kit.eventually(lambda: all(one.answered >= old + answers for one, old in zip(loads, before)), 60, "answers")
        return (sum(one.answered for one in loads) - first) / (time.monotonic() - began)

    def missing(self, watches):
        return [one for one in watches.all if not set(self.names()) <= {name for _, name in one.events}]

    def test_OP_T207_twenty(self):
        """Watches that are read to their end, as HTTP libraries do, are told everything once."""
        self.begin()
        watches, loads = self.watch(5, 100), [self.load() for _ in range(2)]
        began, pids, rates = time.monotonic(), set(), []
        for turn in range(20):
            rates.append(self.in_use(loads, EACH_TURN))
            self.write()
            self.install(kit.BINARY)
            pids.add(self.proxy.process.pid)
            self.assertEqual(self.proxy.stop(), 0, f"turn {turn}: {self.proxy.text()[-2000:]}")
            self.write()  # while there is none
            self.proxy.start()
            kit.eventually(lambda: not self.missing(watches), 60, f"all watches have what was written by turn {turn}")
        self.in_use(loads, EACH_TURN)
        took = time.monotonic() - began
        for one in loads:
            one.end()
        answered = sum(one.answered for one in loads)
        print(f"note: 20 upgrades in {took:.0f} s, {answered} requests ({answered / took:.0f}/s; while a proxy serves {min(rates):.0f} to "
              f"{max(rates):.0f}/s), {watches.moves} connections of watches began anew", flush=True)
        self.assertEqual(len(pids), 20)
        self.assertEqual(([one.refused + one.failed for one in loads], sum(one.cut for one in loads)), ([[], []], 0))
        self.assertTrue(all(one.connections > 20 for one in loads))
        self.assertEqual((watches.faults, watches.refused), ([], set()))
        self.assertEqual(watches.moves, 5 * 20, "each user's connection once an upgrade")
        mine = set(self.names())
        for one in watches.all:
            self.assertEqual([event for event in one.events if event[1] in mine], [("ADDED", name) for name in self.names()])

    def test_OP_T207_a_new_program_that_does_not_start(self):
        """It exits, is no program, or hangs and is ended for it: who comes meanwhile waits, and is served by the one that is put back."""
        self.begin()
        watches, load = self.watch(2, 10), self.load()
        hangs = self.script("#!/bin/sh\nexec sleep 1000\n")
        for wrong in ("/bin/false", "/etc/passwd", hangs):
            self.in_use([load], 50)
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
        load.end()
        self.assertEqual((load.refused, load.failed, load.cut), ([], [], 0))
        self.assertEqual((watches.faults, watches.refused), ([], set()))

    def test_OP_T207_killed_at_each_step(self):
        """kill -9 while it starts, when it has just begun to serve, in use, and while it ends: nobody is refused, only what was under way is
        cut; no event is missed; its store has one writer, and is whole."""
        self.begin()
        watches, load = self.watch(2, 10), self.load()
        partitions = "/apis/topology.kcp.io/v1alpha1/partitions"

        def in_use():
            self.in_use([load], 50)

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
        load.end()
        print(f"note: {load.cut} requests were under way when it was killed", flush=True)
        self.assertEqual(load.failed, [])
        self.assertEqual([one for one in load.refused if "refused" in one.lower()], [])
        self.assertEqual(watches.faults, [])
        self.assertEqual(self.proxy.stop(), 0)
        check = subprocess.run([kit.BINARY, "store", "check", "--dir", self.proxy.dir / "data"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(check.returncode, 0, check.stdout + check.stderr)


if __name__ == "__main__":
    unittest.main()
