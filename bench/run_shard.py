#!/usr/bin/env python3
"""Measures one embedded shard, and Debian's etcd beside it, in interleaved rounds (bench/README.md). Raw lines go to
bench/run/shard.jsonl, the table to stdout and bench/run/shard.md. Names select groups: writes list start watchers; peers, which needs a
kube-apiserver, is run by name only."""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import ssl
import statistics
import subprocess
import sys
import time
import urllib.request

import machine
import products

HERE = pathlib.Path(__file__).resolve().parent
SERVER_CPU = products.PROXY_CPU
CONFIGMAPS = "/clusters/root/api/v1/namespaces/default/configmaps"
WRITES, READS, VALUE = 20_000, 50_000, 1024


class Server:
    """A server under load on CPU 0, with its data in an empty folder; a context manager that leaves nothing running."""

    def __init__(self, arguments, name):
        self.run, self.tools, self.binary, self.name = arguments.run, arguments.tools, arguments.binary, name
        self.dir = self.run / f"{name}-data"
        self.process = self.pid = self.port = None
        self.etcd, self.at_etcd = None, {}  # what it keeps its objects in, and what the last load() was to that

    def __enter__(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def launch(self, command):
        self.log = open(self.run / f"{self.name}.log", "ab")
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CPU, *map(str, command)], cwd=self.run,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)  # fmt: skip

    def until(self, check, what, deadline=120):
        end = time.monotonic() + deadline
        while not check():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name}: {what} (see bench/run/{self.name}.log)")
            time.sleep(0.02)

    def load(self, op, requests, first=0, connections=100, inflight=1, value=VALUE, warm=500, target=None, **more):
        """(result, CPU per request [us] of all threads of the server); connections are made and warm before."""
        tool = products.Tool(self.run, [
            self.tools / "bench_request_load", "--port", self.port, "--op", op, "--target", target or self.target, "--requests",
            requests, "--warm", warm, "--first", first, "--connections", connections, "--inflight", inflight, "--value", value,
            *[word for name, number in more.items() for word in (f"--{name}", number)], *self.identity])  # fmt: skip
        try:
            before = machine.cpu_ns(self.pid)
            if warm > 0:
                tool.read(120)
                counts = self.etcd.counts() if self.etcd else {}
                before = machine.cpu_ns(self.pid)
                tool.tell("go")
            result = tool.read(600)
            cpu = (machine.cpu_ns(self.pid) - before) / 1e3 / requests
            if self.etcd and warm > 0:
                self.at_etcd = {what: (count - counts[what]) / requests for what, count in self.etcd.counts().items()}
            return result, cpu
        finally:
            tool.stop()

    def __exit__(self, *_):
        if self.process is not None:
            products.end_process(self.process, 40)
            self.log.close()
            self.process = None


class Shard(Server):
    """`kintsugi up` with one shard; the load goes to the shard itself."""

    target = CONFIGMAPS
    options = ()

    def start(self):
        begin = time.monotonic()
        (self.dir / "ready").unlink(missing_ok=True)
        self.launch([self.binary, "up", "--dir", self.dir, "--shards", 1, "--port", products.free_port(), *self.options])
        self.until((self.dir / "ready").exists, "not ready")
        self.start_seconds = time.monotonic() - begin
        self.pid = int((self.dir / "run/root.pid").read_text())
        self.port = int((self.dir / "shards/root/port").read_text())
        pki = self.dir / "pki"
        self.identity = ["--cert", pki / "shard-admin.crt", "--key", pki / "shard-admin.key"]
        self.ca = pki / "serving-ca.crt"
        self.store = self.dir / "shards/root/data/data.mdb"

    def watched(self):
        """The watch of all of them, from now on."""
        revision = json.loads(self.open(self.target + "?limit=1").read())["metadata"]["resourceVersion"]
        return f"{self.target}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}"

    def open(self, target, body=None):
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.identity[1], self.identity[3])
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=120)
        connection.request("GET" if body is None else "POST", target, body and json.dumps(body),
                           {"accept": "application/json", "content-type": "application/json"})  # fmt: skip
        return connection.getresponse()

    def make_namespace(self, name):
        """Whether it is there."""
        answer = self.open(self.target.partition("/namespaces/")[0] + "/namespaces", {"metadata": {"name": name}})
        answer.read()
        return answer.status in (201, 409)


class ShardOnEtcd(Shard):
    """The same with its objects in an etcd that `up` runs, on the same CPU."""

    options = ("--store", "etcd")


class Etcd(Server):
    target = "/registry/configmaps/default"

    def watched(self):
        return self.target

    def start(self):
        self.port, peer = products.free_port(), products.free_port()
        self.identity = []
        self.launch([
            "etcd", "--name", "bench", "--data-dir", self.dir, "--listen-client-urls", f"https://127.0.0.1:{self.port}",
            "--advertise-client-urls", f"https://127.0.0.1:{self.port}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}", "--initial-cluster", f"bench=http://127.0.0.1:{peer}",
            "--cert-file", "cert.pem", "--key-file", "key.pem", "--logger", "zap", "--log-level", "error"])  # fmt: skip
        self.pid = self.process.pid

        def ready():
            run = subprocess.run(["curl", "-ks", f"https://127.0.0.1:{self.port}/health"], capture_output=True, check=False)
            return b"true" in run.stdout

        self.until(ready, "not ready", 30)


class PlainEtcd(Server):
    """Without TLS, with the disk's syncs, for servers beside it on the same CPU."""

    def start(self):
        self.port, peer = products.free_port(), products.free_port()
        self.url, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{peer}"
        self.launch([
            self.program, "--name", "bench", "--data-dir", self.dir, "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"bench={peer}",
            "--quota-backend-bytes", 8 << 30, "--logger", "zap", "--log-level", "error"])  # fmt: skip
        self.pid = self.process.pid

        def ready():
            with contextlib.suppress(OSError):
                return b"true" in urllib.request.urlopen(self.url + "/health", timeout=5).read()

        self.until(ready, "not ready", 30)

    def counts(self):
        """What it has done so far: CPU [us], calls by kind, watches that are open."""
        text = urllib.request.urlopen(self.url + "/metrics", timeout=20).read().decode()
        found = {"cpu": machine.cpu_ns(self.pid) / 1e3, "Range": 0.0, "Txn": 0.0, "watches": 0.0}
        for line in text.splitlines():
            if line.startswith("grpc_server_handled_total{"):
                for kind in ("Range", "Txn"):
                    found[kind] += float(line.rsplit(" ", 1)[1]) if f'grpc_method="{kind}"' in line else 0
            elif line.startswith("etcd_debugging_mvcc_watcher_total "):
                found["watches"] = float(line.rsplit(" ", 1)[1])
        return found


class ShardBesideEtcd(Shard):
    def start(self):
        self.options = ("--store", f"etcd={self.etcd.url}")
        super().start()


class Kube(Shard):
    """kube-apiserver, asked by a member of system:masters, whom its fairness lets pass."""

    target = "/api/v1/namespaces/default/configmaps"

    def start(self):
        self.port, self.ca = products.free_port(), self.run / "cert.pem"
        self.identity = ["--cert", self.run / "masters.pem", "--key", self.run / "masters.key"]
        self.launch([
            self.program, f"--etcd-servers={self.etcd.url}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}", f"--cert-dir={self.dir}", "--tls-cert-file=cert.pem", "--tls-private-key-file=key.pem",
            "--client-ca-file=masters.pem", "--service-account-issuer=https://bench", "--service-account-key-file=masters.pem",
            "--service-account-signing-key-file=masters.key", "--service-cluster-ip-range=10.9.0.0/24", "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount", "--profiling=false", "--v=0",
            "--http2-max-streams-per-connection=1000"])  # fmt: skip
        self.pid = self.process.pid

        def ready():
            with contextlib.suppress(OSError):
                return self.open("/readyz").status == 200 and self.make_namespace("default")

        self.until(ready, "not ready")


def peers(arguments):
    """The same work on a shard over LMDB, and on a shard and a kube-apiserver over one etcd."""
    number, part = getattr(arguments, "number", 1), 10 if arguments.quick else 1
    etcd = PlainEtcd(arguments, "etcd")
    etcd.program = arguments.etcd
    with etcd:
        order = [(Shard, "lmdb", None), (ShardBesideEtcd, "etcd", etcd), (Kube, "kube", etcd)]
        for kind, name, store in order if number % 2 else reversed(order):
            server = kind(arguments, f"peer-{name}")
            server.name, server.etcd, server.program = name, store, arguments.kube_apiserver
            with server:
                server.load("create", 100, warm=0, connections=10, value=300)  # names that are watched
                yield from peer_watchers(server, part)
                yield from peer_requests(server, part)


def peer_requests(server, part):
    server.make_namespace("few")
    few = server.target.replace("/default/", "/few/")
    server.load("create", 100, warm=0, connections=10, target=few)
    writes_, reads = 10_000 // part, 20_000 // part
    cell = {"connections": 10, "inflight": 10, "first": 1000, "names": writes_}
    for figure, op, count, how in (
            ("create", "create", writes_, {"first": 1000}), ("update", "update", writes_, {"first": 1000}),
            ("get", "get", reads, cell), ("get RV=0", "get", reads, {**cell, "query": "?resourceVersion=0"}),
            ("list of 100", "fetch", reads // 10, {"connections": 10, "target": few, "warm": 50}),
            ("list of 100 RV=0", "fetch", reads // 10, {"connections": 10, "target": few + "?resourceVersion=0", "warm": 50})):  # fmt: skip
        speed, cpu, note = rate(server, op, count, **how)
        yield server.name, figure, "1/s", speed, note
        yield server.name, f"{figure}: CPU", "us", cpu, {}
        if server.etcd:
            at = server.at_etcd
            yield server.name, f"{figure}: CPU of etcd", "us", at["cpu"], {"ranges": round(at["Range"], 4), "txns": round(at["Txn"], 3)}


def peer_watchers(server, part):
    connections, count = 100 // part, 10_000 // part
    before = anonymous(server.pid)
    opened = server.etcd.counts()["watches"] if server.etcd else 0
    watches = products.Tool(server.run, [
        server.tools / "bench_watch_load", "--port", server.port, "--connections", connections, "--streams", 100, "--pace", 10,
        "--form", "rising", "--ends", "count", "--target", server.watched(), *server.identity])  # fmt: skip
    try:
        watches.read(200)
        time.sleep(2)
        more = server.etcd.counts()["watches"] - opened if server.etcd else 0
        yield server.name, "10,000 watchers: memory of one", "B", (anonymous(server.pid) - before) * 1024 / count, {"more_watches_at_etcd": more}
        for rate_, events in ((1, 5), (10, 50)):
            yield from deliveries(server, watches, "update", rate_, events, 100, count)
    finally:
        watches.stop()


def rate(server, op, requests, **how):
    """(operations/s, CPU per operation [us], note)"""
    result, cpu = server.load(op, requests, **how)
    return requests / result["seconds"], cpu, {"p50_us": result["p50_us"], "p99_us": result["p99_us"]}


def writes(arguments):
    """Durable writes of 1 kB by 100 clients, and gets of them."""
    requests = WRITES // (10 if arguments.quick else 1)
    reads = READS // (10 if arguments.quick else 1)
    for kind, operations in ((Shard, ("create", "update", "get")), (ShardOnEtcd, ("create", "update", "get")), (Etcd, ("put",))):
        with kind(arguments, kind.__name__.lower()) as server:
            for op in operations:
                speed, cpu, note = gets(server, reads, requests) if op == "get" else rate(server, op, requests)
                yield server.name, op, "1/s", speed, note
                yield server.name, f"{op} CPU", "us", cpu, note


def gets(server, reads, there):
    """Reads run over the objects that were written, as often as it takes."""
    speed = cpu = 0.0
    rounds = max(1, reads // there)
    for _ in range(rounds):
        once, each, note = rate(server, "get", there - 500, connections=10, inflight=10)
        speed, cpu = speed + once / rounds, cpu + each / rounds
    return speed, cpu, note


def listing(arguments):
    """A list of 100,000 objects of 2 kB: time, memory, and what an object costs in memory and in the store."""
    count = 5_000 if arguments.quick else 100_000
    with Shard(arguments, "shard") as server:
        empty = machine.rss_kb(server.pid)
        server.load("create", count - 500, connections=50, inflight=8, value=2048 - 400)
        stored = machine.rss_kb(server.pid)
        before, begin = machine.cpu_ns(server.pid), time.monotonic()
        answer = server.open(CONFIGMAPS)
        size = first = 0
        while chunk := answer.read(1 << 20):
            first = first or time.monotonic() - begin
            size += len(chunk)
        seconds, cpu = time.monotonic() - begin, (machine.cpu_ns(server.pid) - before) / 1e9
        peak = machine.rss_kb(server.pid)
        note = {"objects": count, "bytes": size, "cpu_s": round(cpu, 3), "first_byte_s": round(first, 4)}
        yield "shard", "list", "s", seconds, note
        yield "shard", "list CPU", "us/object", cpu * 1e6 / count, note
        yield "shard", "list memory", "MiB", (peak - stored) / 1024, {"empty_kb": empty, "stored_kb": stored, "peak_kb": peak}
        yield "shard", "memory per object", "B", (anonymous(server.pid)) * 1024 / count, {"rss_anon_kb": anonymous(server.pid)}
        yield "shard", "store per object", "B", os.stat(server.store).st_blocks * 512 / count, {}


def anonymous(pid):
    """Memory that is not the mapped store [kB]."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def watchers(arguments):
    """10,000 watchers of one resource (100 connections): delivery of events of 512 B, CPU and memory of the server. etcd
    gets one event/s: with many more its puts time out."""
    connections, seconds = (20, 3) if arguments.quick else (100, 10)
    names, count = 100, connections * 100
    for kind, op, rates in ((Shard, "update", (10, 100)), (Etcd, "put", (1,))):
        with kind(arguments, kind.__name__.lower()) as server:
            server.load("create" if kind is Shard else "put", names, warm=0, connections=10, value=300)
            time.sleep(1)
            empty = anonymous(server.pid)
            watches = products.Tool(server.run, [
                server.tools / "bench_watch_load", "--port", server.port, "--connections", connections, "--streams", 100, "--pace", 20,
                "--form", "rising" if kind is Shard else "etcd", "--ends", "count", "--target", server.watched(), *server.identity])  # fmt: skip
            try:
                watches.read(120)
                time.sleep(1 if arguments.quick else 5)
                idle = anonymous(server.pid)
                yield server.name, "watchers: memory of one", "B", (idle - empty) * 1024 / count, {"watchers": count, "idle_kb": idle}
                for rate in rates:
                    yield from deliveries(server, watches, op, rate, rate * seconds, names, count)
                yield server.name, "watchers: memory after", "B", (anonymous(server.pid) - empty) * 1024 / count, {}
            finally:
                watches.stop()


def deliveries(server, watches, op, rate, events, names, count):
    """`events` at this rate to `count` watchers, until all are delivered."""
    before, begin, clock = machine.cpu_ns(server.pid), watches.ask("mark")["all_events"], time.monotonic()
    server.load(op, events, warm=0, connections=1, value=300, names=names, pace=rate)
    seen = watches.ask("report")
    had, since = seen["all_events"], time.monotonic()
    while seen["all_events"] - begin < events * count and seen["ended"] == 0 and time.monotonic() < since + 15:
        time.sleep(0.1)
        seen = watches.ask("report")
        if seen["all_events"] > had:
            had, since = seen["all_events"], time.monotonic()
    seconds, cpu = time.monotonic() - clock, machine.cpu_ns(server.pid) - before
    what = f"{rate} events/s"
    if seen["ended"] > 0:
        yield server.name, f"{what}: ended as too slow", "", seen["ended"], {}
        return
    if seen["all_events"] - begin != events * count:
        raise RuntimeError(f"{server.name}: {seen['all_events'] - begin} of {events * count} events came")
    yield server.name, f"{what}: p99", "us", seen["p99_us"], {"p50_us": seen["p50_us"], "max_us": seen["max_us"]}
    yield server.name, f"{what}: CPU per delivery", "us", cpu / 1e3 / seen["events"], {
        "cpu_s": round(cpu / 1e9, 2), "delivered_s": round(seen["events"] / seconds)}  # fmt: skip


def start(arguments):
    """From the start of the processes until the proxy is ready, with 1,000,000 objects in the shard's store."""
    count = 20_000 if arguments.quick else 1_000_000
    with Shard(arguments, "shard") as server:
        server.load("create", count - 500, connections=50, inflight=16, value=256)
        server.__exit__()
        server.start()
        yield "shard", "start", "s", server.start_seconds, {"objects": count, "rss_kb": machine.rss_kb(server.pid),
                                                            "rss_anon_kb": anonymous(server.pid)}  # fmt: skip


GROUPS = {"writes": writes, "list": listing, "start": start, "watchers": watchers}
BY_NAME = {"peers": peers}


def table(rows):
    lines = ["| server | figure | unit | median (lowest–highest) | note |", "|---|---|---|---|---|"]
    for server, figure in dict.fromkeys((row["server"], row["figure"]) for row in rows):
        same = [row for row in rows if (row["server"], row["figure"]) == (server, figure)]
        values = [row["value"] for row in same]
        note = ", ".join(f"{key} {value}" for key, value in same[-1]["note"].items())
        lines.append(f"| {server} | {figure} | {same[0]['unit']} | {statistics.median(values):.4g} ({min(values):.4g}–{max(values):.4g}) | {note} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS) + "; default: all; peers")
    parser.add_argument("--binary", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--tools", type=pathlib.Path, help="folder of the bench_* programs; default: that of --binary")
    parser.add_argument("--run", type=pathlib.Path, default=HERE / "run")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--etcd", default=shutil.which("etcd"), help="of peers")
    parser.add_argument("--kube-apiserver", default=HERE.parent / "build/e2e/kube-apiserver", type=pathlib.Path,
                        help="of peers; as e2e/go/plain builds it")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one small round: a look, not a result")
    arguments = parser.parse_args()
    arguments.tools = (arguments.tools or arguments.binary.parent).resolve()
    arguments.run, arguments.kube_apiserver = arguments.run.resolve(), arguments.kube_apiserver.resolve()
    groups = {**GROUPS, **BY_NAME}
    if unknown := set(arguments.groups) - set(groups):
        parser.error("unknown: " + ", ".join(sorted(unknown)))

    products.prepare(arguments.run)
    facts = machine.facts(str(arguments.binary))
    facts["versions"]["etcd"] = machine.version(arguments.etcd, "--version").split(": ")[-1]
    rows = []
    for number in range(1, (arguments.rounds or (1 if arguments.quick else 3)) + 1):
        for group in arguments.groups or GROUPS:
            if group == "start" and number > 1:
                continue
            arguments.number = number
            for server, figure, unit, value, note in groups[group](arguments):
                row = {"server": server, "figure": figure, "round": number, "value": round(value, 3), "unit": unit, "note": note}
                rows.append(row)
                with (arguments.run / "shard.jsonl").open("a", encoding="utf-8") as out:
                    out.write(json.dumps({**row, **facts}) + "\n")
                print(f"  round {number}  {server:6} {figure:18} {value:12.2f} {unit}", file=sys.stderr)
    report = "\n".join([json.dumps(facts), "", table(rows)])
    (arguments.run / "shard.md").write_text(report + "\n", encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
