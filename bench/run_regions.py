#!/usr/bin/env python3
"""What 80 ms between two regions cost (GR-508; docs/regions.md has the figures): an installation of `kintsugi up --regions-far`, two
proxies and three shards over etcd.
  run_regions.py [--binary build/release/bin/kintsugi] [--count 200] [--watches 60] [--loss PER-MILLE] [--list MB]
stdout: a JSON line per figure, {"name", "p50", "p99", "unit", "budget"}; with --list only that of lists of so many MB (GR-507)."""
import argparse
import base64
import json
import os
import pathlib
import signal
import sys
import threading
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
REGIONS = ("eu-west-1", "us-east-1")


def tell(name, times, budget):
    times = sorted(times)
    print(json.dumps({"name": name, "p50": round(times[len(times) // 2] * 1e3, 1), "p99": round(times[int(len(times) * 0.99)] * 1e3, 1), "unit": "ms",
                      "budget": budget}), flush=True)


class Far:
    def __init__(self, kit, arguments):
        self.kit, self.arguments = kit, arguments
        self.up = kit.Installation("--store", "etcd", "--proxies", "2", "--regions-far", "--regions-loss", str(arguments.loss), shards=3)

    def __enter__(self):
        self.up.start()
        self.ports = (self.up.port, int((self.up.state / "proxy-2" / "port").read_text()))
        for name, region in zip(("near", "far"), REGIONS):
            self.up.make_workspace(name, selector={"region": region})
        return self

    def __exit__(self, *why):
        self.up.__exit__(*why)

    def client(self, index, path=""):
        pki = self.up.pki
        return self.kit.Client(f"https://127.0.0.1:{self.ports[index]}{path}", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")

    def timed(self, index, method, path, body=None):
        """Durations over one connection, which is there."""
        connection = self.client(index).connect()
        times = []
        for turn in range(self.arguments.count):
            text = json.dumps(body(turn)) if body else None
            begin = time.monotonic()
            connection.request(method, path, body=text, headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = answer.read()
            times.append(time.monotonic() - begin)
            assert answer.status in (200, 201), said
        connection.close()
        return times

    def gets(self):
        self.timed(0, "GET", f"/clusters/root:far{MAPS}/kube-root-ca.crt")  # connections are made
        tell("forwarded GET to the other region", self.timed(0, "GET", f"/clusters/root:far{MAPS}/kube-root-ca.crt"), 85)
        tell("forwarded GET within the region", self.timed(0, "GET", f"/clusters/root:near{MAPS}/kube-root-ca.crt"), None)

    def events(self):
        """From the answer to who wrote it in its region, to the line of a merged watch in the other."""
        cursor = self.client(0).must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        seen, done = {}, {}

        def follow():
            for event in self.client(0).watch(f"{ALL_MAPS}?watch=1&resourceVersion={cursor}"):
                seen[event["object"]["metadata"]["name"]] = time.monotonic()
                if len(seen) == self.arguments.count:
                    return

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        time.sleep(1)  # it is open
        connection = self.client(1).connect()
        for turn in range(self.arguments.count):
            connection.request("POST", f"/clusters/root:far{MAPS}", body=json.dumps({"metadata": {"name": f"event-{turn}"}}),
                               headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            done[f"event-{turn}"] = time.monotonic()
            assert answer.status == 201, answer.status
        thread.join(60)
        tell("merged event from the other region", [seen[name] - done[name] for name in done], 45)

    def slices(self):
        client = self.client(0, "/clusters/root")
        import trust  # pylint: disable=import-outside-toplevel,import-error
        trust.export_of(client, "gears")
        times = self.timed(1, "POST", f"/clusters/root{SLICES}", lambda turn: {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": f"gears-{turn}"},
            "spec": {"export": {"path": "root", "name": "gears"}}})
        tell("write of a slice far from the store", times, 250)

    def lists(self, megabytes):
        """A list of the other region through the proxy of this one: one workspace's, and merged. Of values that gzip makes smaller by
        a quarter (random base64) and by nine tenths (YAML)."""
        piece = 500_000
        lines = "".join(f"  - name: item-{number}\n    image: registry.example.test/library/thing:{number}\n    restartPolicy: Always\n" for number in range(4000))
        makers = {"random": lambda: base64.b64encode(os.urandom(piece * 3 // 4)).decode(), "yaml": lambda: lines[:piece]}
        for kind, make in makers.items():
            self.up.make_workspace(f"far-{kind}", selector={"region": REGIONS[1]})
            connection = self.client(1).connect()
            for number in range(megabytes * 1_000_000 // piece):
                connection.request("POST", f"/clusters/root:far-{kind}{MAPS}", headers={"Content-Type": "application/json"},
                                   body=json.dumps({"metadata": {"name": f"{kind}-{number}", "labels": {"kind": kind}}, "data": {"text": make()}}))
                answer = connection.getresponse()
                assert answer.status == 201, answer.read()
                answer.read()
            connection.close()
            for name, path in (("list of a workspace", f"/clusters/root:far-{kind}/api/v1/configmaps"),
                               ("merged list", f"{ALL_MAPS}?labelSelector=kind%3D{kind}")):
                for encoding in ("identity", "gzip"):
                    self.rate(f"{name} of the other region, {kind}, client takes {encoding}", path, encoding)

    def rate(self, name, path, encoding):
        connection = self.client(0).connect(timeout=600)
        begin = time.monotonic()
        connection.request("GET", path, headers={"Accept": "application/json", "Accept-Encoding": encoding})
        answer = connection.getresponse()
        wire = plain = 0
        unpack = zlib.decompressobj(31) if answer.headers.get("Content-Encoding") == "gzip" else None
        while part := answer.read(1 << 20):
            wire += len(part)
            plain += len(unpack.decompress(part)) if unpack else len(part)
        took = time.monotonic() - begin
        assert answer.status == 200 and plain > 1_000_000, (answer.status, plain)
        print(json.dumps({"name": name, "p50": round(plain / took / 1e6, 2), "unit": "MB/s", "budget": 2, "MB": round(plain / 1e6, 1),
                          "MB to the client": round(wire / 1e6, 1), "s": round(took, 1)}), flush=True)
        connection.close()

    def failover(self):
        """From the kill of a region's proxy until each of its merged watches has, by the other region's, what was written after it."""
        from informers import Follower  # pylint: disable=import-outside-toplevel,import-error
        cursor = self.client(1).must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        followers = [Follower((self.client(1), self.client(0)), cursor, ALL_MAPS) for _ in range(self.arguments.watches)]
        writer, back = self.client(0), []
        writer.must("POST", f"/clusters/root:near{MAPS}", {"metadata": {"name": "before"}})
        self.kit.eventually(lambda: all(("ADDED", "before") in one.names and one.bookmarks for one in followers), 120, "watches that run")
        self.up.kill("proxy-2", signal.SIGKILL)
        begin = time.monotonic()
        writer.must("POST", f"/clusters/root:near{MAPS}", {"metadata": {"name": "after"}})
        waiting = set(followers)
        while waiting and time.monotonic() - begin < 60:
            for one in [one for one in waiting if ("ADDED", "after") in one.names]:
                waiting.discard(one)
                back.append(time.monotonic() - begin)
            time.sleep(0.002)
        assert not waiting and not any(one.faults for one in followers), [one.faults for one in followers]
        for one in followers:
            one.done.set()
        tell("a region's watches at the other region's proxy", back, 5000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", default=str(HERE.parent / "build/release/bin/kintsugi"))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--watches", type=int, default=60)
    parser.add_argument("--loss", type=int, default=0)
    parser.add_argument("--list", type=int, default=0)
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))
    import kit  # pylint: disable=import-outside-toplevel
    with Far(kit, arguments) as far:
        if arguments.list:
            far.lists(arguments.list)
            return
        far.gets()
        far.events()
        far.slices()
        far.failover()


if __name__ == "__main__":
    main()
