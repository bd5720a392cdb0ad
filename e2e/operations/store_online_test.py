"""A shard whose data moves into etcd and back while it is served and written to (GR-308)."""
import http.client
import shutil
import signal
import subprocess
import threading
import time
import unittest

import etcds
import kit
from operations.store_copy_test import MAPS, PREFIX, Informer, copy

OBJECTS = 200


class Writer(threading.Thread):
    """Makes an object about every 10 ms; what is not answered is sent again."""

    def __init__(self, installation):
        super().__init__(daemon=True)
        self.installation, self.made, self.wrong, self.longest = installation, [], [], 0.0
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
                continue
            if answer.status in (201, 409):  # 409: the answer to the first one was lost
                self.made.append(name)
                number, now = number + 1, time.monotonic()
                self.longest, last = max(self.longest, now - last), now
            elif answer.status not in (429, 500, 502, 503, 504):
                self.wrong.append((answer.status, answer.json))

    def goes_on(self):
        """Some more are acknowledged."""
        until = len(self.made) + 20
        kit.eventually(lambda: len(self.made) >= until, 60, "writes go on")


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class StoreOnline(unittest.TestCase):
    def setUp(self):
        self.etcd = etcds.Member()
        self.addCleanup(self.etcd.end)
        self.up = kit.Installation(shards=1)
        self.up.start_for(self)
        self.data = self.up.state / "shards" / "root" / "data"
        self.there = f"etcd={self.etcd.url}"

    def log(self):
        """What the shard has said."""
        return "".join(path.read_text(errors="replace") for path in sorted((self.up.state / "logs").glob("*root*")))

    def killed(self, *arguments):
        """Begins a copy and kills it once it has begun to copy."""
        process = subprocess.Popen([str(kit.BINARY), "store", "copy", *map(str, arguments)], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            kit.eventually(lambda: "writes stop" in self.log() or process.poll() is not None, 60, "it stops writes")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def all_there(self, writer, informer, lists):
        """Every write that was acknowledged is there, and the informer has what the shard has."""
        def equal():
            items = {one["metadata"]["name"]: one for one in self.up.client().must("GET", MAPS)["items"]}
            return informer.lists == lists and informer.objects == items
        kit.eventually(equal, 60, f"an informer with {lists} lists; it has {informer.lists}")
        self.assertEqual(set(writer.made) - set(informer.objects), set())
        self.assertEqual(writer.wrong, [])
        self.assertEqual(informer.deleted, [])

    def test_GR_308_into_etcd_and_back_while_it_is_written_to(self):
        client = self.up.client()
        for i in range(OBJECTS):
            client.must("POST", MAPS, {"metadata": {"name": f"kept-{i:04}"}, "data": {"fill": "x" * (i % 50 * 40)}})
        informer = Informer(self.up)
        self.addCleanup(informer.stopped.set)
        writer = Writer(self.up)
        self.addCleanup(writer.stopped.set)
        writer.goes_on()
        to_etcd = ["--online", "--from", f"lmdb:{self.data}", "--to", self.there, "--prefix", PREFIX]
        said = copy(*to_etcd)
        self.assertRegex(said, r"nobody wrote for \d+ ms")
        writer.goes_on()
        self.assertIn("has moved to", copy(*to_etcd, expect=1))
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
        said = copy("--online", "--from", self.there, "--to", f"lmdb:{self.data}", "--prefix", PREFIX)
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
        to_etcd = ["--online", "--from", f"lmdb:{self.data}", "--to", self.there, "--prefix", PREFIX]
        self.killed(*to_etcd)
        writer.goes_on()
        copy(*to_etcd, expect=0 if "has moved into etcd" not in self.log() else 1)
        writer.goes_on()
        writer.stopped.set()
        writer.join()
        names = {one["metadata"]["name"] for one in self.up.client().must("GET", MAPS)["items"]}
        self.assertEqual(set(writer.made) - names, set())
        self.assertEqual(writer.wrong, [])


if __name__ == "__main__":
    unittest.main()
