#!/usr/bin/env python3
"""Measures merged reads over plain servers, and clients that ask each server themselves through HAProxy and nghttpx, in
interleaved rounds (bench/README.md). Raw lines go to bench/run/merged.jsonl, the table to stdout and bench/run/merged.md.
Names select groups: events memory list resume idle flood."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time

import figures
import machine
import products
from products import LIMIT, OTHER_CPU, SUITE
from run_bench import Results, table

HERE = pathlib.Path(__file__).resolve().parent
KIND = "/api/v1/configmaps"
WATCH = "watch=true&allowWatchBookmarks=true"
STREAMS = 400  # of a client connection

KINTSUGI = """
apiVersion: kintsugi.dev/v1alpha1
kind: ProxyConfiguration
data_dir: merged-data
loops: {loops}
admin: {{socket: merged.sock}}
listener: {{address: 127.0.0.1, port: {port}, cert_file: cert.pem, key_file: key.pem, max_streams: {streams}, watch_starts: 0}}
authentication: {{client_ca_file: client.pem}}
topology:
  source: static
  shards:
{shards}
backend: {{ca_file: cert.pem, cert_file: proxy-client.pem, key_file: proxy-client.key}}
shutdown: {{grace_ms: 1000}}
"""


class Bed:
    """A product between event sources, each a server of `objects` ConfigMaps, and a load; leaves no process behind."""

    patience = 30  # until it answers [s]

    def __init__(self, product, arguments, shards, size, objects=10):
        self.product, self.arguments, self.run = product, arguments, arguments.run
        self.shards, self.size, self.objects = shards, size, objects
        self.sources, self.proxy = [], None

    def __enter__(self):
        try:
            for number in range(1, self.shards + 1):
                self.sources.append(products.Tool(self.run, [
                    self.arguments.tools / "bench_event_source", "--cert", "cert.pem", "--key", "key.pem", "--objects",
                    self.objects, "--size", self.size, "--shard", number, "--seconds", LIMIT]))  # fmt: skip
            self.ports = [source.read()["port"] for source in self.sources]
            self.port = products.free_port()
            shutil.rmtree(self.run / "merged-data", ignore_errors=True)
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        self.log = open(self.run / f"merged-{self.product}.log", "ab")
        self.proxy = subprocess.Popen(["taskset", "-c", products.PROXY_CPU, *map(str, self._command())], cwd=self.run,
                                      stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)  # fmt: skip
        end = time.monotonic() + self.patience
        while time.monotonic() < end and self.proxy.poll() is None:
            if all(self.get(path)[0] == 200 for path in self.collections()):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.product} does not answer (see bench/run/merged-{self.product}.log)")

    def stop(self):
        if self.proxy is not None:
            products.end_process(self.proxy, 5)
            self.log.close()
            self.proxy = None

    def __exit__(self, *_):
        self.stop()
        for source in self.sources:
            source.stop()

    def _command(self):
        numbered = list(enumerate(self.ports, 1))
        if self.product == "haproxy":
            text = products.HAPROXY.format(port=self.port, shard=self.ports[0], suite=SUITE)
            text = text.replace("max-concurrent-streams 100", f"max-concurrent-streams {STREAMS}")
            rules = "".join(f"    use_backend be{n} if {{ path_beg /clusters/s{n}/ }}\n" for n, _ in numbered)
            text = text.replace("    default_backend", rules + "    default_backend")
            for n, port in numbered:
                text += f"backend be{n}\n    server s{n} 127.0.0.1:{port} ssl verify none alpn h2 pool-max-conn -1\n"
            (self.run / "merged.cfg").write_text(text)
            return ["haproxy", "-db", "-f", "merged.cfg"]
        if self.product == "nghttpx":
            return ["nghttpx", "--conf=/dev/null", "--single-process", "--workers=1", "--no-ocsp", "-k", f"-f127.0.0.1,{self.port}",
                    f"-b127.0.0.1,{self.ports[0]};;proto=h2;tls",
                    *[f"-b127.0.0.1,{port};/clusters/s{n}/;proto=h2;tls" for n, port in numbered],
                    "--tls-min-proto-version=TLSv1.3", f"--tls13-ciphers={SUITE}", f"--tls13-client-ciphers={SUITE}",
                    f"--frontend-http2-max-concurrent-streams={STREAMS}", "--frontend-http2-read-timeout=15m",
                    "--backend-read-timeout=15m", "--backend-write-timeout=15m", "--stream-write-timeout=15m",
                    "--errorlog-file=nghttpx.err", "key.pem", "cert.pem"]  # fmt: skip
        shards = "\n".join(f'  - {{name: s{n}, url: "https://127.0.0.1:{port}"}}' for n, port in numbered)
        (self.run / "merged.yaml").write_text(KINTSUGI.format(port=self.port, shards=shards, streams=STREAMS, loops=self.arguments.loops))
        return [self.arguments.binary, "proxy", "--config", "merged.yaml"]

    def collections(self):
        """What a client lists to have everything."""
        if self.product == "kintsugi":
            return ["/clusters/*" + KIND]
        return [f"/clusters/s{n}{KIND}" for n in range(1, self.shards + 1)]

    def get(self, path):
        """(status, body); None when there is no answer."""
        run = subprocess.run(["curl", "-gsk", "--max-time", "10", "--cert", "client.pem", "--key", "client.key", "-w", "\n%{http_code}",
                              f"https://127.0.0.1:{self.port}{path}"], cwd=self.run, capture_output=True, text=True, check=False)  # fmt: skip
        body, _, status = run.stdout.rpartition("\n")
        return int(status or 0), body

    def targets(self):
        """The watches of one subscriber, from what there is now."""
        return ",".join(f"{path}?{WATCH}&resourceVersion={json.loads(self.get(path)[1])['metadata']['resourceVersion']}"
                        for path in self.collections())  # fmt: skip

    def load(self, subscribers, connections, *flags):
        load = products.Tool(self.run, [
            self.arguments.tools / "bench_watch_load", "--port", self.port, "--cert", "client.pem", "--key", "client.key",
            "--seconds", LIMIT, "--form", "shards", "--target", self.targets(), "--connections", connections, "--streams",
            subscribers // connections, *flags])  # fmt: skip
        self.opened = load.read(120)
        return load

    def rate(self, total):
        """Events a second over all sources, evenly or in ticks; what it comes to."""
        each = -(-total // self.shards) if total else 0
        for source in self.sources:
            source.tell(f"rate {each} {self.arguments.tick_ms}")
        return each * self.shards

    def stats(self):
        """Sums over the sources."""
        all_of = [source.ask("stats") for source in self.sources]
        return {key: sum(one[key] for one in all_of) for key in all_of[0]}

    def metric(self, name):
        """Of the proxy; the sum of its samples."""
        run = subprocess.run(["curl", "-s", "--max-time", "5", "--unix-socket", "merged.sock", "http://admin/metrics"], cwd=self.run,
                             capture_output=True, text=True, check=True)  # fmt: skip
        return sum(float(line.split()[-1]) for line in run.stdout.splitlines() if line.split("{")[0].split(" ")[0] == name)

    @property
    def pids(self):
        return [self.proxy.pid, *[source.pid for source in self.sources]]


def settled(load, events, deadline=15):
    """The load's report once it has had so many events; all of them or an error."""
    end = time.monotonic() + deadline
    while (seen := load.ask("report"))["all_events"] < events and time.monotonic() < end:
        time.sleep(0.1)
    if seen["all_events"] != events:
        raise RuntimeError(f"{seen['all_events']} of {events} events came")
    return seen


def at_rest(load):
    """The events that the load has had, once no more come."""
    seen = -1
    while (now := load.ask("report")["all_events"]) != seen:
        seen = now
        time.sleep(1)
    return seen


def paced(bed, load, rate, limits, subscribers):
    """(deliveries, CPU of the proxy [ns], report, note) of a window at this rate."""
    real = bed.rate(rate)
    time.sleep(limits.warm / 2)
    load.ask("mark")
    window = machine.Window([*bed.pids, load.pid])
    before = bed.stats()["events"]
    time.sleep(limits.measured)
    sent = bed.stats()["events"] - before
    cpu, foreign, stolen = window.end()
    seen = load.ask("report")
    bed.rate(0)
    figures.check_noise(foreign, stolen, limits, f"{rate} events/s")
    note = {"events": sent, "rate": real, "foreign": round(foreign, 3),
            "source_us": round(sum(cpu[s.pid] for s in bed.sources) / max(sent, 1) / 1e3, 2),
            "load_us": round(cpu[load.pid] / max(sent * subscribers, 1) / 1e3, 2),
            "proxy_cores": round(cpu[bed.proxy.pid] / limits.measured / 1e9, 3)}  # fmt: skip
    return sent * subscribers, cpu[bed.proxy.pid], seen, note


# subscribers -> (connections, events/s)
EVENT_LOADS = {1: (1, 5_000), 50: (5, 400), 1_000: (20, 20)}


def events(product, arguments, limits):
    """E4: CPU per delivered event, and latency."""
    for shards in arguments.shards:
        for size in arguments.sizes:
            with Bed(product, arguments, shards, size) as bed:
                for subscribers, (connections, rate) in EVENT_LOADS.items():
                    if subscribers not in arguments.subscribers:
                        continue
                    rate = arguments.rate or rate
                    load = bed.load(subscribers, connections, "--pace", limits.pace)
                    try:
                        start = bed.stats()["events"]
                        delivered, cpu, seen, note = paced(bed, load, rate, limits, subscribers)
                        settled(load, (bed.stats()["events"] - start) * subscribers)
                        name = f"E4 {shards}×{size} B, {subscribers}" + (f" @{rate}" if arguments.rate else "")
                        note = {**note, "p50_us": seen["p50_us"], "p99_us": seen["p99_us"], "max_us": seen["max_us"]}
                        yield name, cpu / delivered / 1e3, "us/delivery", note
                        yield name + " p50", seen["p50_us"], "us", {}
                        yield name + " p99", seen["p99_us"], "us", {}
                    finally:
                        load.stop()


def memory(product, arguments, limits):
    """Resident memory of idle subscribers, from 1,000 to 2,000; for the peers each has a watch per shard (PERF-232)."""
    for shards in arguments.shards:
        for distinct in ((0, 1) if product == "kintsugi" else (0,)):
            with Bed(product, arguments, shards, 500) as bed:
                time.sleep(limits.quiet)
                empty = machine.rss_kb(bed.proxy.pid)
                load = bed.load(1_000, 10, "--pace", limits.pace, "--distinct", distinct)
                try:
                    time.sleep(limits.quiet)
                    half = machine.rss_kb(bed.proxy.pid)
                    load.ask("add 10")
                    time.sleep(limits.quiet)
                    full = machine.rss_kb(bed.proxy.pid)
                finally:
                    load.stop()
                name = f"M {shards} shard(s), {'own queries' if distinct else 'one query'}"
                note = {"rss_kb": [empty, half, full], "upstream": bed.stats()["watches"]}
                yield name, (full - half) * 1024 / 1000, "B/watch", note
                yield name + ", all in", (full - empty) * 1024 / 2000, "B/watch", note


def listing(product, arguments, limits):
    """L1: everything of three shards, to /dev/null."""
    count = 10_000 if limits.quick else 100_000
    with Bed(product, arguments, 3, 2_000, count // 3 + 1) as bed:
        pid = bed.proxy.pid
        urls = [f"https://127.0.0.1:{bed.port}{path}" for path in bed.collections()]
        outs = [word for _ in urls for word in ("-o", "/dev/null")]
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
        resident = machine.rss_kb(pid)
        before, begin = machine.cpu_ns(pid), time.monotonic()
        run = subprocess.run(["taskset", "-c", OTHER_CPU, "curl", "-gsk", "--http2", "--parallel", "--max-time", "120", "--cert", "client.pem",
                              "--key", "client.key", "-w", "%{http_code} %{size_download}\n", *outs, *urls],
                             cwd=bed.run, capture_output=True, text=True, check=True)  # fmt: skip
        seconds, cpu = time.monotonic() - begin, machine.cpu_ns(pid) - before
        answers = [line.split() for line in run.stdout.splitlines()]
        size = sum(int(answer[1]) for answer in answers)
        if any(answer[0] != "200" for answer in answers) or size < count * 1_900:
            raise RuntimeError(f"{product}: not the whole list: {answers}")
        note = {"objects": count, "bytes": size}
        yield "L1", seconds, "s", note
        yield "L1 CPU", cpu / size / 1e3 * 1e6, "us/MB", note
        yield "L1 memory", (machine.peak_kb(pid) - resident) / 1024, "MiB", note


def resume(product, arguments, limits):
    """R1: all at once with cursors; and when the proxy was restarted meanwhile."""
    watches = 2_000 if limits.quick else 10_000
    yield from _resume(product, arguments, watches // 100, 100)
    yield from _resume(product, arguments, watches, 1)


def _resume(product, arguments, connections, streams):
    watches, form = connections * streams, "R1" if streams > 1 else "R1, a connection each"
    rate = 9 if streams > 1 else 3  # of events; with a connection each every delivery is a write of its own
    with Bed(product, arguments, 3, 500) as bed:
        load = bed.load(watches, connections, "--pace", 0 if streams > 1 else 500)
        try:
            for what in (form, form + ", after a restart"):
                bed.rate(rate)
                time.sleep(1)
                bed.rate(0)
                end = time.monotonic() + 30
                while load.ask("report")["with_cursor"] < watches and time.monotonic() < end:
                    time.sleep(0.2)
                if what != form:
                    load.ask("drop")
                    bed.stop()
                    bed.start()
                before, window = bed.stats(), machine.Window([*bed.pids, load.pid])
                load.tell("reconnect")
                bed.rate(rate if streams > 1 else 0)
                seen = load.read(60)
                cpu, foreign, _ = window.end()
                time.sleep(1)
                bed.rate(0)
                after = bed.stats()
                opened = {key: after[key] - before[key] for key in ("resumed", "watch_lists", "lists", "exact_lists", "probes", "expired")}
                # Who joins a group after ten seconds is asked for at the servers, by a watch that ends at once.
                opened["rights_checks"] = opened["resumed"] + opened["watch_lists"] - (after["watches"] - before["watches"])
                if seen["watches"] != watches:
                    raise RuntimeError(f"{what}: {seen['watches']} came back")
                yield what, seen["since_us"] / 1e6, "s", {"watches": seen["watches"], "tls_resumed": seen["resumed"],
                                                          "proxy_cpu_s": round(cpu[bed.proxy.pid] / 1e9, 2),
                                                          "load_cpu_s": round(cpu[load.pid] / 1e9, 2), "foreign": round(foreign, 2),
                                                          **opened}  # fmt: skip
                yield what + ": streams to shards", opened["resumed"] + opened["watch_lists"], "", {}
                yield what + ": relists", opened["lists"] + opened["watch_lists"], "", {}  # exact_lists fill key indexes
            # That nothing is lost or repeated the load has seen; now that everything is delivered again.
            start, sent = at_rest(load), bed.stats()["events"]
            bed.rate(rate)
            time.sleep(1)
            bed.rate(0)
            settled(load, start + (bed.stats()["events"] - sent) * watches)
        finally:
            load.stop()


def idle(product, arguments, limits):
    """I1: CPU of 5,000 idle subscribers, of which bookmarks are the most (PERF-235)."""
    with Bed(product, arguments, 3, 500) as bed:
        load = bed.load(5_000, 50)
        try:
            time.sleep(limits.quiet)
            seconds = 10 if limits.quick else 130  # two rounds of bookmarks
            window = machine.Window([*bed.pids, load.pid])
            time.sleep(seconds)
            cpu, foreign, _ = window.end()
            yield "I1", cpu[bed.proxy.pid] / seconds / 1e7, "% of a core", {
                "seconds": seconds, "bookmarks": load.ask("report")["bookmarks"], "foreign": round(foreign, 3)}  # fmt: skip
        finally:
            load.stop()


def flood(product, arguments, limits):
    """T81: 50 subscribers, more and more events of 512 B, up to 20,000 a second."""
    with Bed(product, arguments, 3, 512) as bed:
        quiet = None
        for rate in (2_000, 5_000, 10_000, 15_000, 20_000):
            load = bed.load(50, 5, "--ends", "count")
            try:
                quiet = quiet or machine.rss_kb(bed.proxy.pid)
                start, wakes = bed.stats()["events"], bed.metric("kintsugi_watch_relay_wakeups_total")
                _, cpu, seen, note = paced(bed, load, rate, limits, 50)
                time.sleep(limits.quiet)
                done, sent = load.ask("report"), bed.stats()["events"] - start
            finally:
                load.stop()
            name = f"T81@{rate // 1000}k"
            if done["ended"] > 0:
                yield name + " readers that were ended as too slow", done["ended"], "", note
                break
            if done["all_events"] != sent * 50:
                raise RuntimeError(f"{done['all_events']} of {sent * 50} events came")
            note = {**note, "delivered_s": round(seen["events"] / limits.measured), "p50_us": seen["p50_us"]}
            if arguments.loops > 1:
                wakes = bed.metric("kintsugi_watch_relay_wakeups_total") - wakes
                yield name + " wake-ups between loops", wakes / sent, "per event", {"relays": bed.metric("kintsugi_watch_relayed_streams")}
            yield name, cpu / seen["events"] / 1e3, "us/delivery", note
            yield name + " p99", seen["p99_us"], "us", {}
        time.sleep(limits.quiet)
        yield "T81 memory kept", (machine.rss_kb(bed.proxy.pid) - quiet) / 1024, "MiB", {"before_kb": quiet}
        if not limits.quick:
            time.sleep(35)  # the group and its log of recent events go after 30 s
            yield "T81 memory left", (machine.rss_kb(bed.proxy.pid) - quiet) / 1024, "MiB", {"before_kb": quiet}


# name -> (measurement, whether the peers take part)
GROUPS = {"events": (events, True), "memory": (memory, True), "list": (listing, True), "resume": (resume, False),
          "idle": (idle, False), "flood": (flood, False)}  # fmt: skip
TRIES = 3


def measure(product, function, arguments, limits, discards):
    for attempt in range(1, TRIES + 1):
        try:
            return list(function(product, arguments, limits))
        except figures.Noise as noise:
            discards.append(f"{product} {noise}")
            print(f"  discarded: {product} {noise}", file=sys.stderr)
            time.sleep(2 * attempt)
    raise SystemExit(f"bench: the machine is not quiet: {product} was disturbed {TRIES} times (--foreign)")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help=", ".join(GROUPS) + "; default: all")
    parser.add_argument("--binary", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--tools", type=pathlib.Path, help="folder of the bench_* programs; default: that of --binary")
    parser.add_argument("--run", type=pathlib.Path, default=HERE / "run")
    parser.add_argument("--products", default="kintsugi,haproxy,nghttpx")
    parser.add_argument("--shards", default="1,3", help="of the groups events and memory")
    parser.add_argument("--sizes", default="500,2000", help="of the group events [bytes]")
    parser.add_argument("--subscribers", default="1,50,1000", help="of the group events")
    parser.add_argument("--tick-ms", type=int, default=0, help="events come in ticks of so many milliseconds; default: evenly spaced")
    parser.add_argument("--rate", type=int, help="of the group events, instead of what each number of subscribers has [events/s]")
    parser.add_argument("--loops", type=int, default=1, help="data loops of the proxy, all on its one CPU")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a result")
    parser.add_argument("--foreign", type=float, default=0.05, help="foreign CPU that a measurement bears [cores]")
    arguments = parser.parse_args()
    arguments.tools = (arguments.tools or arguments.binary.parent).resolve()
    arguments.run = arguments.run.resolve()
    arguments.shards = [int(text) for text in arguments.shards.split(",")]
    arguments.sizes = [int(text) for text in arguments.sizes.split(",")]
    arguments.subscribers = [int(text) for text in arguments.subscribers.split(",")]
    if unknown := set(arguments.subscribers) - set(EVENT_LOADS):
        parser.error("--subscribers: 1, 50 and 1000 are measured")
    if arguments.tick_ms and (1_000 in arguments.subscribers or arguments.tick_ms < 10):
        parser.error("--tick-ms: 10 or more, for 1 and 50 subscribers; else not every tick has an event")
    names = arguments.products.split(",")
    if unknown := set(arguments.groups) - set(GROUPS):
        parser.error("unknown: " + ", ".join(sorted(unknown)))
    limits = figures.Limits(arguments.quick, arguments.foreign)
    limits.quick = arguments.quick
    if arguments.quick:
        limits.measured = 3
    rounds = arguments.rounds or (1 if arguments.quick else 5)

    products.prepare(arguments.run)
    facts = machine.facts(str(arguments.binary))
    results, discards = Results(arguments.run / "merged.jsonl", facts), []
    for number in range(1, rounds + 1):
        for group in arguments.groups or GROUPS:
            function, peers = GROUPS[group]
            for name in names:
                if name == "kintsugi" or peers:
                    results.add(name, number, measure(name, function, arguments, limits, discards))
    report = "\n".join([
        json.dumps(facts), f"{rounds} rounds{', quick' if arguments.quick else ''}; median (lowest–highest)", "",
        table(results, names), "", "discarded: " + ("none" if not discards else "\n  " + "\n  ".join(discards))])  # fmt: skip
    (arguments.run / "merged.md").write_text(report + "\n", encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
