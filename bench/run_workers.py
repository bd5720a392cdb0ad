#!/usr/bin/env python3
"""The worker runtime over one shard, by processes of the role `example` (workers/example): how soon an event is worked on, how soon keys are another
worker's, what a quiet worker costs (docs/spec/worker-runtime.md). What needs no processes is in bench_placement, bench_journal, bench_work_queue
and bench_object_cache. Figures to docs/performance.md by hand."""
import argparse
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import sys
import time

import machine

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e" / "lib"))

PARTITIONS = 1024


def quantiles(times):
    times = sorted(times)
    return f"p50 {times[len(times) // 2]:.1f}, p99 {times[len(times) * 99 // 100]:.1f}"


class Bench:
    def __init__(self, kit, worker, installation):
        self.kit, self.worker_module, self.rows = kit, worker, []
        self.stage = type("Stage", (worker.Stage,), {"SHARDS": ("root",)})(installation)
        self.client, self.path = self.stage.consumers["root"], worker.GREETINGS

    def row(self, figure, target, value):
        self.rows.append((figure, target, value))
        print(f"{figure}: {value} (target: {target})", flush=True)

    def worker(self, stack):
        budget = {"write_budget": {"per_second": 100000, "burst": 100000}}
        return stack.enter_context(self.worker_module.Worker(self.stage, more=budget)).until_ready(120)

    def until_owned(self, *shares):
        """(worker, least, most)… have so many partitions. @returns when."""

        def owned():
            return all(least <= one.metric("ring_partitions_owned") <= most for one, least, most in shares)

        self.kit.eventually(owned, 120, "the ring is theirs")
        return time.monotonic()

    def events(self, count):
        """From the answer of a POST until a watch shows the status that the reconcile wrote, ms: event, queue, reconcile, write and event again."""
        watcher = self.client.connect()
        watcher.request("GET", self.client.url.path + self.path + "?watch=1&resourceVersion=" + self.client.must("GET", self.path)["metadata"]["resourceVersion"])
        stream, times = watcher.getresponse(), []
        for number in range(count):
            self.client.must("POST", self.path, self.stage.greeting(f"event-{number}", "you"))
            begin = time.monotonic()
            while True:
                one = json.loads(stream.readline())["object"]
                if one["metadata"]["name"] == f"event-{number}" and one.get("status", {}).get("message"):
                    break
            times.append((time.monotonic() - begin) * 1e3)
        watcher.close()
        return times

    def bound_of(self, one, name, before, share):
        """The least bound of a histogram's buckets below which that share of what came since `before` is."""
        now = self.buckets(one, name)
        total = now["+Inf"] - before["+Inf"]
        return next(bound for bound, value in now.items() if value - before[bound] >= share * total)

    @staticmethod
    def buckets(one, name):
        out = {}
        for line in one.metrics().splitlines():
            if line.startswith(name + "_bucket"):
                bound = line.partition('le="')[2].partition('"')[0]
                out[bound] = out.get(bound, 0) + float(line.rpartition(" ")[2])
        return out

    def fill(self, count):
        """Greetings that are made by eight connections."""
        def some(part):
            connection = self.client.connect()
            for number in range(part, count, 8):
                body = json.dumps(self.stage.greeting(f"kept-{number}", "you"))
                connection.request("POST", self.client.url.path + self.path, body, {"Content-Type": "application/json"})
                assert connection.getresponse().read()
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(some, range(8)))

    def run(self, options):
        with contextlib.ExitStack() as stack:
            one = self.worker(stack)
            name = "workqueue_queue_duration_seconds"
            before = self.buckets(one, name)
            times = self.events(options.events)
            self.row("from readiness to the reconcile's start, idle: p50, p99", "1, 5 ms",
                     ", ".join(f"{float(self.bound_of(one, name, before, share)) * 1e3:g}" for share in (0.5, 0.99)) + " ms at most")
            self.row("POST answered until its status is seen by a watch", "-", quantiles(times) + " ms")
            two, begin = self.worker(stack), time.monotonic()
            end = self.until_owned((one, 1, PARTITIONS - 1), (two, 1, PARTITIONS - 1))
            three = self.worker(stack)
            begin = time.monotonic()
            end = self.until_owned(*((each, 100, 500) for each in (one, two, three)))
            self.row("a third worker is ready until the ring is shared by three", "5 s", f"{max(0, end - begin):.2f} s")
            begin = time.monotonic()
            one.stop()
            end = self.until_owned((two, 100, 900), (three, 100, 900))
            self.kit.eventually(lambda: two.metric("ring_partitions_owned") + three.metric("ring_partitions_owned") == PARTITIONS, 60, "all are owned")
            self.row("SIGTERM of one of three until the others own all", "2 s", f"{time.monotonic() - begin:.2f} s")
            begin = time.monotonic()
            two.process.kill()
            self.until_owned((three, PARTITIONS, PARTITIONS))
            self.row("SIGKILL of one of two until the other owns all", "15 s of the lease + 2 s", f"{time.monotonic() - begin:.1f} s")
            begin = time.monotonic()
            self.fill(options.objects)
            print(f"{options.objects:,} objects made in {time.monotonic() - begin:.0f} s", flush=True)
            self.kit.eventually(lambda: three.metric("controller_runtime_reconcile_total") >= options.objects and three.metric("workqueue_depth") == 0, 600, "all are greeted")
            time.sleep(15)  # its own echoes
            spent, written = machine.cpu_ns(three.process.pid), three.metric("rest_client_requests_total")
            time.sleep(options.quiet)
            self.row(f"quiet with {options.objects:,} cached objects: CPU", "1 % of a core", f"{(machine.cpu_ns(three.process.pid) - spent) / options.quiet / 1e7:.2f} %")
            self.row("quiet: requests of the worker a second", "0.5 for each Lease", f"{(three.metric('rest_client_requests_total') - written) / options.quiet:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--events", type=int, default=1000, help="one after another")
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--quiet", type=int, default=60, help="seconds")
    options = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(options.binary).resolve())
    import kit
    import worker

    with kit.Installation("--quotas", "writes.rps=0,objects=0,bytes=0", shards=1) as installation:
        bench = Bench(kit, worker, installation)
        bench.run(options)
    print(f"\n{datetime.date.today()}\n\n| figure | target | measured |\n|---|---|---|")
    for one in bench.rows:
        print("| " + " | ".join(one) + " |")


if __name__ == "__main__":
    main()
