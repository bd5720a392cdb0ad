#!/usr/bin/env python3
"""The runtime of workers beside controller-runtime (Go): the controller of workers/example and the same on controller-runtime
(e2e/go/cmd/greeter), one after the other over the same objects through the same proxy. Memory, CPU and time from start to synced and
until every object was looked at; then CPU per event, of updates that change the status and of ones that change nothing. The targets of
docs/performance.md stand beside; figures go there by hand."""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

import machine
import products

HERE = pathlib.Path(__file__).resolve().parent
GO = HERE.parent / "e2e" / "go"
sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))

OBJECT = {"apiVersion": "example.kintsugi.dev/v1alpha1", "kind": "Greeting",
          "metadata": {"name": "load-#", "labels": {"app": "load"}}, "spec": {"name": "Ada #"}}
TARGETS = {"memory": 1 / 5, "private": 1 / 5, "synced": 1, "written": 1 / 5, "quiet": 1 / 5}
PATIENCE = 600
PART = 2_000  # updates on one connection: the proxy ends those that are old


def memory_kb(pid):
    """(Pss, private pages) of smaps_rollup."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    sizes = {name: int(size) for name, size in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    return sizes["Pss"], sizes["Private_Clean"] + sizes["Private_Dirty"]


def metric(address, name, **labels):
    total = 0.0
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
        for line in answer.read().decode().splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(f'{key}="{want}"' in head for key, want in labels.items()):
                total += float(value)
    return total


class Greeter:
    """The controller on controller-runtime, as the same user."""

    def __init__(self, binary, kit, worker, url, strip):
        self.folder = worker.dir
        self.metrics_address, self.health = f"127.0.0.1:{kit.free_port()}", kit.free_port()
        self.environment = {**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig"), "CLUSTER_URL": url, "METRICS": self.metrics_address,
                            "HEALTH": f"127.0.0.1:{self.health}", "STRIP": "1" if strip else ""}
        self.binary, self.process = binary, None

    def start(self):
        with (self.folder / "greeter.log").open("ab") as log:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen([self.binary], env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ready(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=PATIENCE) as answer:
            assert answer.status == 200

    def stop(self):
        products.end_process(self.process, 30)


class Bench:
    def __init__(self, arguments, kit, worker):
        self.arguments, self.kit, self.worker, self.run = arguments, kit, worker, arguments.run.resolve()
        self.tools = arguments.tools.resolve()

    def begin(self, installation):
        self.installation = installation
        self.stage = type("Stage", (self.worker.Stage,), {"SHARDS": ("root",)})(installation)
        provider = installation.client("/clusters/root:greetings")

        def url():
            return provider.must("GET", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/workers")["status"]["endpoints"][0]["url"]

        view = self.kit.eventually(url, 30, "the slice has its shard")
        self.consumer = self.stage.consumers["root"]
        cluster = self.consumer.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        self.cluster_url = f"{view}/clusters/{cluster}"

    def load(self, op, body, count, pace=0, first=0):
        """Requests of the admin through the proxy."""
        pki = self.installation.pki
        (self.run / "body.json").write_text(json.dumps(body), encoding="utf-8")
        target = self.consumer.url.path + self.worker.GREETINGS + ("" if op == "post" else "/load-#")
        how = ["--pace", pace] if pace else ["--connections", 4, "--inflight", 8]
        tool = products.Tool(self.run, [self.tools / "bench_request_load", "--op", op, "--port", self.installation.port, "--target", target,
                                        "--patch", self.run / "body.json", "--requests", count, "--first", first % self.arguments.objects, "--seconds", PATIENCE,
                                        *how, "--cert", pki / "admin.crt", "--key", pki / "admin.key"])  # fmt: skip
        try:
            return tool.read(PATIENCE)
        finally:
            tool.stop()

    def until(self, check, what):
        end = time.monotonic() + PATIENCE
        while not check():
            if time.monotonic() > end:
                raise RuntimeError(what)
            time.sleep(0.05)

    def looked_at(self, address, least):
        """`least` reconciles have ended and none waits."""
        self.until(lambda: metric(address, "controller_runtime_reconcile_total") >= least and metric(address, "workqueue_depth") == 0 and
                   metric(address, "controller_runtime_active_workers") == 0, f"{least} reconciles")

    def until_still(self, pid):
        """It has used less than one percent of a CPU for a second."""
        spent = [machine.cpu_ns(pid)]

        def still():
            time.sleep(1)
            spent.append(machine.cpu_ns(pid))
            return spent[-1] - spent[-2] < 10_000_000

        self.until(still, "quiet")

    def events(self, one, body):
        """CPU of one per update, us."""
        count, address, pid = self.arguments.events, one.metrics_address, one.process.pid
        before, spent = metric(address, "controller_runtime_reconcile_total"), machine.cpu_ns(pid)
        for first in range(0, count, PART):
            self.load("patch", body, min(PART, count - first), pace=self.arguments.pace, first=first)
        self.until_still(pid)
        spent = machine.cpu_ns(pid) - spent
        print(f"  {metric(address, 'controller_runtime_reconcile_total') - before:.0f} reconciles for {count} updates", flush=True)
        return spent / 1e3 / count

    def measure(self, one, stamp):
        row = {}
        begin = time.monotonic()
        one.start()
        pid = one.process.pid

        def ready():
            with contextlib.suppress(AssertionError, OSError):
                one.ready()
                return True
            return False

        self.until(ready, "synced")
        row["synced"], row["synced CPU"] = time.monotonic() - begin, machine.cpu_ns(pid) / 1e9
        self.looked_at(one.metrics_address, self.arguments.objects)
        row["seen"], row["seen CPU"] = time.monotonic() - begin, machine.cpu_ns(pid) / 1e9
        time.sleep(self.arguments.rest)  # the garbage collector's share
        row["memory"], row["private"] = (kb / 1024 for kb in memory_kb(pid))
        row["peak"] = machine.peak_kb(pid) / 1024
        row["quiet"] = self.events(one, {"metadata": {"labels": {"stamp": stamp + "-@"}}})
        row["written"] = self.events(one, {"spec": {"name": stamp + " @"}})
        row["memory after"] = memory_kb(pid)[0] / 1024
        return row

    def all(self):
        options = self.arguments
        with contextlib.ExitStack() as stack:
            installation = stack.enter_context(self.kit.Installation("--quotas", "writes.rps=0,objects=0,bytes=0", shards=1))
            self.begin(installation)
            made = self.load("post", OBJECT, options.objects)
            print(f"{options.objects:,} objects made in {made['seconds']:.1f} s", flush=True)
            more = {"write_budget": {"per_second": 100000, "burst": 100000}, "memory_limit_bytes": 4 << 30}
            worker = stack.enter_context(self.worker.Worker(self.stage, more=more))
            begin = time.monotonic()
            self.until(lambda: worker.ask("/readyz")[0] == 200, "synced")
            self.looked_at(worker.metrics_address, options.objects)
            worker.stop(60)
            print(f"all greeted after {time.monotonic() - begin:.1f} s", flush=True)
            rows = {}
            for name in ("kintsugi", "controller-runtime", "without managedFields"):
                one = worker if name == "kintsugi" else Greeter(options.greeter, self.kit, worker, self.cluster_url, name.startswith("without"))
                try:
                    rows[name] = self.measure(one, name[:7].strip())
                finally:
                    one.stop()
                print(name, {key: round(value, 2) for key, value in rows[name].items()}, flush=True)
            return rows


FIGURES = {"synced": "start to synced, s", "synced CPU": "CPU until then, s", "seen": "start until every object was looked at, s",
           "seen CPU": "CPU until then, s", "memory": "memory (Pss), MiB", "private": "private pages, MiB", "peak": "most resident, MiB",
           "quiet": "CPU per event without a write, us", "written": "CPU per event with a status write and its echo, us",
           "memory after": "memory (Pss) after the events, MiB"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--tools", type=pathlib.Path, default="build/release/bin", help="folder of the bench_* programs")
    parser.add_argument("--greeter", help="e2e/go/cmd/greeter as built; default: it is built")
    parser.add_argument("--run", type=pathlib.Path, default=HERE / "run")
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--full", action="store_true", help="100,000 objects")
    parser.add_argument("--events", type=int, default=20_000, help="updates of each sort")
    parser.add_argument("--pace", type=int, default=500, help="updates a second")
    parser.add_argument("--rest", type=int, default=5, help="seconds before memory is read")
    arguments = parser.parse_args()
    if arguments.full:
        arguments.objects = 100_000
    if arguments.objects % PART != 0:
        parser.error(f"--objects is a multiple of {PART}")
    arguments.run.mkdir(parents=True, exist_ok=True)
    if not arguments.greeter:
        arguments.greeter = str(arguments.run.resolve() / "greeter")
        subprocess.run(["go", "build", "-o", arguments.greeter, "./cmd/greeter"], cwd=GO, check=True)
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    import kit
    import worker
    rows = Bench(arguments, kit, worker).all()
    print(f"\n{datetime.date.today()}, {arguments.objects:,} objects, {arguments.events:,} updates of each sort at {arguments.pace} a second\n")
    print("| figure | " + " | ".join(rows) + " | ratio | target |\n|---" * 1 + "|---" * (len(rows) + 2) + "|")
    ours, *theirs = rows.values()
    for key, figure in FIGURES.items():
        ratios = ", ".join(f"{ours[key] / one[key]:.2f}" for one in theirs)
        target = f"{TARGETS[key]:.2g}" if key in TARGETS else ""
        print(f"| {figure} | " + " | ".join(f"{one[key]:.1f}" for one in rows.values()) + f" | {ratios} | {target} |")


if __name__ == "__main__":
    main()
