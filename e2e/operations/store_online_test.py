"""A shard whose data moves into etcd and back while it is served and written to (GR-308)."""
import contextlib
import http.client
import json
import shutil
import signal
import socket
import subprocess
import threading
import time
import traceback
import unittest

import etcds
import kit
from operations.store_copy_test import MAPS, PREFIX, Informer, copy

OBJECTS = 100


class Writer(threading.Thread):
    """Makes an object about every 10 ms; what is not answered is sent again."""

    def __init__(self, installation):
        super().__init__(daemon=True)
        self.installation, self.made, self.wrong, self.refused, self.longest = installation, [], [], [], 0.0
        self.stopped = threading.Event()
        self.start()

    def run(self):
        client, number, last = None, 0, time.monotonic()
        while not self.stopped.wait(0.008):
            name = f"written-{number}"
            try:
                client = client or self.installation.client()
                answer = client.request("POST", MAPS, {"metadata": {"name": name}})
            except (OSError, http.client.HTTPException, AssertionError, ValueError):
                client = None
                self.refused.append(traceback.format_exc())
                continue
            if answer.status in (201, 409):  # 409: the answer to the first one was lost
                self.made.append(name)
                number, now = number + 1, time.monotonic()
                self.longest, last = max(self.longest, now - last), now
            else:
                self.refused.append((answer.status, answer.json))
            if answer.status not in (201, 409, 429, 500, 502, 503, 504):
                self.wrong.append((answer.status, answer.json))

    def goes_on(self):
        """Some more are acknowledged."""
        until = len(self.made) + 20
        
        def more():
            assert not self.wrong and len(self.made) >= until, (self.wrong[:2], self.refused[-3:])
            return True

        kit.eventually(more, 5, "writes go on")


class Relay:
    """Passes TCP to a port of this machine, until hold() says that nothing more is to pass."""

    def __init__(self, port, hold):
        self.port, self.hold, self.held, self.all = port, hold, threading.Event(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.port))
                self.all += [near, far]
                threading.Thread(target=self.pump, args=(near, far, self.hold), daemon=True).start()
                threading.Thread(target=self.pump, args=(far, near, lambda: False), daemon=True).start()

    def pump(self, source, target, hold):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.held.is_set() or hold():
                    self.held.set()
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self):
        for one in (self.listener, *self.all):
            one.close()


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class StoreOnline(unittest.TestCase):
    def setUp(self):
        self.etcd = etcds.Member()
        self.addCleanup(self.etcd.end)
        self.up = kit.Installation(shards=1)
        self.up.start_for(self)
        self.data = self.up.state / "shards" / "root" / "data"
        self.there = f"etcd={self.etcd.url}"

    def fill(self):
        """By one connection: a handshake for each takes longer than all of it."""
        connection = self.up.client().connect()
        for i in range(OBJECTS):
            connection.request("POST", "/clusters/root" + MAPS, json.dumps({"metadata": {"name": f"kept-{i:04}"}, "data": {"fill": "x" * (i % 50 * 40)}}),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.assertEqual((answer.status, answer.read()[:1]), (201, b"{"))
        connection.close()

    def log(self):
        """What the shard has said."""
        return "".join(path.read_text(errors="replace") for path in sorted((self.up.state / "logs").glob("*root*")))

    def killed(self, *arguments):
        """A copy through a relay that passes nothing more once the shard has stopped its writes; then it is killed."""
        relay = Relay(int(self.etcd.url.rsplit(":", 1)[1]), lambda: "writes stop" in self.log())
        self.addCleanup(relay.close)
        process = subprocess.Popen([str(kit.BINARY), "store", "copy", *map(str, arguments), "--to", f"etcd={relay.url}"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            kit.eventually(relay.held.is_set, 60, "writes stop")
            self.assertIsNone(process.poll(), "it has ended")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def all_there(self, writer, informer, lists):
        """Every write that was acknowledged is there, and the informer has what the shard has."""
        def equal():
            items = {one["metadata"]["name"]: one for one in self.up.client().must("GET", MAPS)["items"]}
            assert set(items) == set(informer.objects), set(items) ^ set(informer.objects)
            shown = {name: (one["metadata"], one.get("data")) for name, one in informer.objects.items()}  # a watch tells the kind, too
            other = {name: (one, shown[name]) for name, one in items.items() if shown[name] != (one["metadata"], one.get("data"))}
            assert not other, f"{len(other)} differ, such as {next(iter(other.values()))}"
            self.assertEqual(informer.lists, lists)
            return True
        kit.eventually(equal, 10, f"an informer with {lists} lists")
        self.assertEqual(set(writer.made) - set(informer.objects), set())
        self.assertEqual(writer.wrong, [])
        self.assertEqual(informer.deleted, [])

    def test_GR_308_into_etcd_and_back_while_it_is_written_to(self):
        self.fill()
        informer = Informer(self.up)
        self.addCleanup(informer.stopped.set)
        writer = Writer(self.up)
        self.addCleanup(writer.stopped.set)
        writer.goes_on()
        to_etcd = ["--online", "--from", f"lmdb:{self.data}", "--to", self.there, "--prefix", PREFIX]
        said = copy(*to_etcd)
        self.assertRegex(said, r"nobody wrote for \d+ ms")
        writer.goes_on()
        self.assertIn("the store is there already, moved by an earlier run; nothing was copied", copy(*to_etcd))
        elsewhere = copy(*to_etcd[:-1], PREFIX + "/else", expect=1)
        self.assertIn(f"{self.data}: has moved to {PREFIX} in etcd", elsewhere)
        self.assertIn("has moved into etcd", self.log())
        writer.stopped.set()
        writer.join()
        self.all_there(writer, informer, 2)
        print(f"into etcd: {said.splitlines()[0]}; longest time without a write {writer.longest:.2f} s")

        # And back. The folder is free: what was there has moved.
        shutil.rmtree(self.data)
        writer = Writer(self.up)
        self.addCleanup(writer.stopped.set)
        writer.goes_on()
        back = ["--online", "--from", self.there, "--to", f"lmdb:{self.data}", "--prefix", PREFIX]
        said = copy(*back)
        self.assertIn("moved by an earlier run", copy(*back))
        writer.goes_on()
        writer.stopped.set()
        writer.join()
        self.all_there(writer, informer, 3)
        print(f"and back: {said.splitlines()[0]}; longest time without a write {writer.longest:.2f} s")
        self.assertEqual(informer.revisions, sorted(informer.revisions))
        self.up.stop()
        self.up.start()
        self.assertEqual(set(writer.made) - {one["metadata"]["name"] for one in self.up.client().must("GET", MAPS)["items"]}, set())

    def test_GR_308_killed_while_writes_stand_the_shard_goes_on(self):
        writer = Writer(self.up)
        self.addCleanup(writer.stopped.set)
        writer.goes_on()
        pid = self.up.pid("root")
        common = ["--online", "--from", f"lmdb:{self.data}", "--prefix", PREFIX]
        self.killed(*common)
        writer.goes_on()
        self.assertIn("whoever moves the store has not ended in time: it stays here", self.log())
        self.assertEqual(self.up.pid("root"), pid, "the same process goes on")
        self.assertNotIn("has moved into etcd", self.log())
        copy(*common, "--to", self.there)
        writer.goes_on()
        self.assertIn("has moved into etcd", self.log())
        writer.stopped.set()
        writer.join()
        names = {one["metadata"]["name"] for one in self.up.client().must("GET", MAPS)["items"]}
        self.assertEqual(set(writer.made) - names, set())
        self.assertEqual(writer.wrong, [])


if __name__ == "__main__":
    unittest.main()
