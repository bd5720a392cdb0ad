"""The figures of the bench. Each takes a Bed and yields (figure, value, unit, facts)."""
import re
import subprocess
import time

import machine
from products import OTHER_CPU, SUITE


class Noise(Exception):
    """Something else used the CPUs; the measurement is to be repeated."""


class Limits:
    def __init__(self, quick: bool, foreign: float):
        self.foreign = foreign  # of a core
        self.requests = 30_000 if quick else 100_000
        self.pace = 10 if quick else 2  # watch connections opened per second
        self.quiet = 1 if quick else 5  # before a look at memory [s]
        self.warm = 2 if quick else 5
        self.measured = 5 if quick else 15


def check_noise(foreign, stolen, limits, what):
    if foreign > limits.foreign or stolen > limits.foreign:
        raise Noise(f"{what}: foreign {foreign:.2f}, stolen {stolen:.2f} of a core")


def _h2load(bed, count):
    command = ["taskset", "-c", OTHER_CPU, "timeout", "120", "h2load", "-t1", f"--tls13-ciphers={SUITE}", "-c10", "-m32",
               f"-n{count}", f"https://127.0.0.1:{bed.port}/clusters/bench/1k"]  # fmt: skip
    run = subprocess.run(command, cwd=bed.run, capture_output=True, text=True, check=True)
    good = re.search(r"status codes: (\d+) 2xx", run.stdout)
    if good is None or int(good.group(1)) != count:
        raise RuntimeError(f"{bed.product}: not every request was answered by 2xx\n{run.stdout}")
    return command, float(re.search(r"finished in [^,]*, ([\d.]+) req/s", run.stdout).group(1))


def gets(bed, limits):
    """CPU per forwarded 1 kB GET: h2load (no client certificate), then with a client certificate."""
    pid = bed.proxy.pid
    _h2load(bed, 5_000)
    window = machine.Window(bed.pids)
    command, rate = _h2load(bed, limits.requests)
    cpu, foreign, stolen = window.end()
    check_noise(foreign, stolen, limits, "G1")
    yield "G1", cpu[pid] / limits.requests / 1e3, "us/request", {
        "req_s": round(rate), "foreign": round(foreign, 3), "command": " ".join(command)}  # fmt: skip

    def certified(count):
        load = bed.load("request_load", "--op", "fetch", "--target", "/clusters/bench/1k", "--connections", 10, "--inflight", 32,
                        "--requests", count)  # fmt: skip
        try:
            return load.command, load.read(120)
        finally:
            load.stop()

    certified(5_000)
    window = machine.Window(bed.pids)
    command, result = certified(limits.requests)
    cpu, foreign, stolen = window.end()
    check_noise(foreign, stolen, limits, "G1c")
    yield "G1c", cpu[pid] / limits.requests / 1e3, "us/request", {
        "req_s": round(result["requests"] / result["seconds"]), "p50_us": result["p50_us"], "p99_us": result["p99_us"],
        "foreign": round(foreign, 3), "command": " ".join(command)}  # fmt: skip


def memory(bed, limits):
    """Resident memory of idle watches."""
    pid = bed.proxy.pid
    time.sleep(limits.quiet)
    empty = machine.rss_kb(pid)
    load = bed.load("watch_load", "--connections", 10, "--streams", 100, "--pace", limits.pace)
    try:
        sizes = []
        for step in range(2):
            if step == 1:
                load.tell("add 10")
            load.read(120)
            time.sleep(limits.quiet)
            sizes.append(machine.rss_kb(pid))
        carriers = bed.source.ask("stats")["watch_connections"]
        note = {"command": " ".join(load.command), "backend_connections": carriers, "empty_kb": empty, "rss_kb": sizes}
        yield "M1", (sizes[1] - sizes[0]) * 1024 / 1000, "B/watch", note
        yield "M1all", (sizes[1] - empty) * 1024 / 2000, "B/watch", note
    finally:
        load.stop()


def events(bed, limits):
    """CPU per event, evenly spaced over 2,000 watches."""
    pid = bed.proxy.pid
    load = bed.load("watch_load", "--connections", 20, "--streams", 100, "--pace", limits.pace)
    try:
        load.read(120)
        for rate in (5_000, 20_000):
            bed.source.tell(f"rate {rate} 0")
            time.sleep(limits.warm)
            load.ask("mark")
            window = machine.Window([*bed.pids, load.pid])
            before = bed.source.ask("stats")
            time.sleep(limits.measured)
            after = bed.source.ask("stats")
            cpu, foreign, stolen = window.end()
            seen = load.ask("report")
            sent = after["events"] - before["events"]
            check_noise(foreign, stolen, limits, f"E2 at {rate}")
            if sent < 0.97 * rate * limits.measured:
                raise Noise(f"E2 at {rate}: the source sent only {sent} events")
            yield f"E2@{rate // 1000}k", cpu[pid] / sent / 1e3, "us/event", {
                "events": sent, "p50_us": seen["p50_us"], "p99_us": seen["p99_us"], "max_us": seen["max_us"],
                "source_us": round(cpu[bed.source.pid] / sent / 1e3, 2), "load_us": round(cpu[load.pid] / sent / 1e3, 2),
                "backend_connections": after["watch_connections"], "foreign": round(foreign, 3),
                "threads": machine.threads(pid), "command": " ".join(load.command)}  # fmt: skip
    finally:
        load.stop()


def burst(bed, limits):
    """2,000 watches over 20 connections, opened all at once on a cold proxy; shard limit 250 (PERF-261)."""
    pid = bed.proxy.pid
    time.sleep(limits.quiet)
    load = bed.load("watch_load", "--connections", 20, "--streams", 100, "--pace", 0)
    try:
        load.read(120)
        time.sleep(limits.quiet)
        seen = bed.source.ask("stats")
        yield "B1", machine.rss_kb(pid) / 1024, "MiB", {
            "backend_connections": seen["watch_connections"], "accepted": seen["accepted"],
            "command": " ".join(load.command)}  # fmt: skip
    finally:
        load.stop()


# name -> (measurement, streams that the shard allows per connection)
GROUPS = {"gets": (gets, 100), "events": (events, 100), "memory": (memory, 100), "burst": (burst, 250)}
