"""Shards on an etcd of three members, of which one ends or stands still (GR-109, GR-114)."""
import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import kit

MAPS = "/api/v1/namespaces/default/configmaps"


class Members:
    """Three members of one etcd on 127.0.0.1."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-e2e-etcd-"))
        self.clients = [f"http://127.0.0.1:{kit.free_port()}" for _ in range(3)]
        self.peers = [f"http://127.0.0.1:{kit.free_port()}" for _ in range(3)]
        self.processes = [None] * 3
        for number in range(3):
            self.start(number)
        kit.eventually(self.leader, 30, "a leader of etcd")

    def start(self, number):
        cluster = ",".join(f"m{other}={url}" for other, url in enumerate(self.peers))
        with (self.folder / f"m{number}.log").open("ab") as log:
            self.processes[number] = subprocess.Popen(
                ["etcd", f"--name=m{number}", f"--data-dir={self.folder}/m{number}", f"--listen-client-urls={self.clients[number]}",
                 f"--advertise-client-urls={self.clients[number]}", f"--listen-peer-urls={self.peers[number]}",
                 f"--initial-advertise-peer-urls={self.peers[number]}", f"--initial-cluster={cluster}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def status(self, number):
        request = urllib.request.Request(self.clients[number] + "/v3/maintenance/status", b"{}", {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=2) as answer:
            return json.load(answer)

    def leader(self):
        """The number of the member that leads, once all that run agree; None: there is none."""
        leaders = set()
        ids = {}
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                status = self.status(number)
                ids[status["header"]["member_id"]] = number
                leaders.add(status.get("leader", "0"))
        leader = leaders.pop()
        return None if leaders or leader not in ids else str(ids[leader])

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def store(*arguments, expect=0):
    run = subprocess.run([str(kit.BINARY), "store", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == expect, f"{arguments}: {run.returncode}\n{run.stdout}{run.stderr}"
    return run


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class EtcdMembers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.members = Members()
        cls.addClassCleanup(cls.members.end)
        cls.up = kit.Installation("--store", "etcd=" + ",".join(cls.members.clients), shards=1).start_for(cls)

    def test_GR_109_writes_pause_and_watches_stay_while_etcd_elects(self):
        client = self.up.client()
        at = client.must("GET", MAPS)["metadata"]["resourceVersion"]
        watch = kit.Watch(client, f"{MAPS}?watch=1&resourceVersion={at}")
        stop, done = threading.Event(), []

        def write():
            number = 0
            while not stop.is_set():
                number += 1
                with contextlib.suppress(OSError):
                    answer = client.request("POST", MAPS, {"metadata": {"name": f"w-{number}"}})
                    if answer.status == 201:
                        done.append((time.monotonic(), f"w-{number}"))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in (signal.SIGKILL, signal.SIGSTOP):
                count = len(done)
                kit.eventually(lambda count=count: len(done) > count + 20, 30, "writes")
                leader = int(kit.eventually(self.members.leader, 30, "a leader of etcd"))
                self.members.processes[leader].send_signal(number)
                begin, count = time.monotonic(), len(done)
                try:
                    kit.eventually(lambda count=count: len(done) > count + 20, 40, f"writes after {number.name} of the leader")
                    times = [begin] + [at for at, _ in done[max(count - 1, 0):]]
                    longest = max(after - before for before, after in zip(times, times[1:]))
                    print(f"{number.name} of etcd's leader: writes paused for {longest:.2f} s")
                finally:
                    if number == signal.SIGKILL:
                        self.members.processes[leader].wait()
                        self.members.start(leader)
                    else:
                        self.members.processes[leader].send_signal(signal.SIGCONT)
        finally:
            stop.set()
            writer.join()
        names = [name for _, name in done]
        kit.eventually(lambda: {event["object"]["metadata"]["name"] for event in list(watch.events)} >= set(names), 20)
        self.assertIsNone(watch.ended_at, watch.fault)
        told = [event["object"]["metadata"]["name"] for event in watch.events if event["type"] == "ADDED"]
        self.assertEqual(len(told), len(set(told)), "each once")
        listed = {item["metadata"]["name"] for item in client.must("GET", MAPS)["items"]}
        self.assertEqual(set(names) - listed, set())

    def test_GR_106_126_what_is_stored_and_files_written_anew(self):
        client = self.up.client()
        for text in ("one", "two"):
            client.must("POST" if text == "one" else "PUT", MAPS if text == "one" else f"{MAPS}/seen", {"metadata": {"name": "seen"}, "data": {"at": text}})
        client.must("POST", MAPS, {"metadata": {"name": "gone"}})
        client.must("DELETE", f"{MAPS}/gone")
        etcd = "--from", "etcd=" + ",".join(self.members.clients), "--prefix", "/kintsugi/shards/root"
        listed = store("list", *etcd)
        keys = [line.split(" ", 2) for line in listed.stdout.splitlines()]
        key, = [key for _, _, key in keys if key.endswith("/default/seen")]
        self.assertFalse([one for one in keys if one[2].endswith("/default/gone")])
        self.assertEqual(listed.stderr, f"{len(keys)} objects\n")
        shown = json.loads(store("get", *etcd, "--key", key).stdout)
        self.assertEqual(shown["data"], {"at": "two"})
        self.assertEqual([line.split(" ", 3)[1] for line in store("events", *etcd, "--key", key).stdout.splitlines()], ["PUT", "PUT"])
        gone = key.removesuffix("seen") + "gone"
        self.assertEqual([line.split(" ", 3)[1] for line in store("events", *etcd, "--key", gone).stdout.splitlines()], ["PUT", "DELETE"])
        self.assertIn(f"--key: there is no object {gone}", store("get", *etcd, "--key", gone, expect=1).stderr)

        ended = store("defrag", *etcd[:2]).stdout.splitlines()
        self.assertEqual(len(ended), 3, ended)
        self.assertEqual(["(leader)" in line for line in ended], [False, False, True])
        client.must("POST", MAPS, {"metadata": {"name": "after"}})
        one = etcd[1].split(",")[0]
        self.assertEqual(len([line for line in store("defrag", "--from", one).stdout.splitlines() if "left as it is" in line]), 2)
        away = kit.free_port()
        self.assertIn(f"http://127.0.0.1:{away}", store("defrag", "--from", f"{etcd[1]},http://127.0.0.1:{away}", expect=1).stderr)
