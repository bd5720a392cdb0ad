#!/usr/bin/env python3
"""Measures one embedded shard, and Debian's etcd beside it, in interleaved rounds (bench/README.md). Raw lines go to
bench/run/shard.jsonl, the table to stdout and bench/run/shard.md. Names select groups: writes list start watchers."""
import argparse
import json
import os
import pathlib
import shutil
import ssl
import statistics
import subprocess
import sys
import time

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

    def load(self, op, requests, first=0, connections=100, inflight=1, value=VALUE, warm=500, **more):
        """(result, CPU per request [us] of all threads of the server); connections are made and warm before."""
        tool = products.Tool(self.run, [
            self.tools / "bench_request_load", "--port", self.port, "--op", op, "--target", self.target, "--requests",
            requests, "--warm", warm, "--first", first, "--connections", connections, "--inflight", inflight, "--value", value,
            *[word for name, number in more.items() for word in (f"--{name}", number)], *self.identity])  # fmt: skip
        try:
            before = machine.cpu_ns(self.pid)
            if warm > 0:
                tool.read(120)
                before = machine.cpu_ns(self.pid)
                tool.tell("go")
            result = tool.read(600)
            return result, (machine.cpu_ns(self.pid) - before) / 1e3 / requests
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
        self.store = self.dir / "shards/root/data/data.mdb"

    def watched(self):
        """The watch of all of them, from now on."""
        revision = json.loads(self.open(CONFIGMAPS + "?limit=1").read())["metadata"]["resourceVersion"]
        return f"{CONFIGMAPS}?watch=true&allowWatchBookmarks=true&resourceVersion={revision}"

    def open(self, target):
        context = ssl.create_default_context(cafile=self.dir / "pki/serving-ca.crt")
        context.load_cert_chain(self.dir / "pki/shard-admin.crt", self.dir / "pki/shard-admin.key")
        import http.client

        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=120)
        connection.request("GET", target, headers={"accept": "application/json"})
        return connection.getresponse()


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
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS) + "; default: all")
    parser.add_argument("--binary", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--tools", type=pathlib.Path, help="folder of the bench_* programs; default: that of --binary")
    parser.add_argument("--run", type=pathlib.Path, default=HERE / "run")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="one small round: a look, not a result")
    arguments = parser.parse_args()
    arguments.tools = (arguments.tools or arguments.binary.parent).resolve()
    arguments.run = arguments.run.resolve()
    if unknown := set(arguments.groups) - set(GROUPS):
        parser.error("unknown: " + ", ".join(sorted(unknown)))

    products.prepare(arguments.run)
    facts = machine.facts(str(arguments.binary))
    facts["versions"]["etcd"] = machine.version("etcd", "--version").split(": ")[-1]
    rows = []
    for number in range(1, (arguments.rounds or (1 if arguments.quick else 3)) + 1):
        for group in arguments.groups or GROUPS:
            if group == "start" and number > 1:
                continue
            for server, figure, unit, value, note in GROUPS[group](arguments):
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
