#!/usr/bin/env python3
"""Instructions of Kintsugi per forwarded GET and per relayed watch event, by callgrind (user mode, of the data loop: what
other threads do now and then, such as a handshake, is as much as hundreds of requests). They tell a percent apart on a
machine that is busy; what the kernel does is not in them. Two binaries compare when the second is
given by --before. `GET` is a closed loop of 10 connections × 32, `strangers` the same without a client certificate, as G1 of
`./dev bench`; `GET alone` and `event` come one by one, each in a turn of its own. `merged` is an event of a merged watch of three plain
servers, `merged 50` the same for each of 50 subscribers of one question."""
import argparse
import pathlib
import re
import subprocess
import time

import products
import run_merged

HERE = pathlib.Path(__file__).resolve().parent
GROUPS = ["gets", "events", "merged"]


class Counting:
    """Kintsugi under callgrind; it counts only between on() and off()."""

    patience = 120

    def _command(self):
        for old in self.run.glob("callgrind.out*"):
            old.unlink()
        return ["env", f"LD_PRELOAD={self.preload}", "valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--callgrind-out-file=callgrind.out", "-q",
                *super()._command()]  # fmt: skip

    def _control(self, *words):
        subprocess.run(["callgrind_control", *words, str(self.proxy.pid)], cwd=self.run, check=True, capture_output=True)

    def on(self):
        self._control("-z")
        self._control("-i", "on")

    def off(self) -> int:
        """Instructions of the busiest thread since on()."""
        self._control("-i", "off")
        known = set(self.run.glob("callgrind.out.*"))
        threads = len(list(pathlib.Path(f"/proc/{self.proxy.pid}/task").iterdir()))
        self._control("-d")
        end = time.monotonic() + 30
        while time.monotonic() < end:
            texts = [path.read_text() for path in set(self.run.glob("callgrind.out.*")) - known]
            totals = [int(total) for text in texts for total in re.findall(r"^totals: (\d+)", text, re.M)]
            if len(totals) >= threads:
                return max(totals)
            time.sleep(0.1)
        raise RuntimeError("callgrind wrote no totals")


class Counted(Counting, products.Bed):
    @property
    def preload(self):
        return self.tools / "bench_small_map.so"


class CountedMerged(Counting, run_merged.Bed):
    """Between three plain servers and watchers of all of them."""

    def __init__(self, binary, tools, run):
        super().__init__("kintsugi", argparse.Namespace(binary=binary, tools=tools, run=run, loops=1, tick_ms=0), 3, 500)
        self.preload = tools / "bench_small_map.so"


def gets(bed, requests, *how):
    load = bed.load("request_load", "--op", "fetch", "--target", "/clusters/bench/1k", "--warm", 400, "--requests", requests,
                    *how)  # fmt: skip
    try:
        load.read(300)
        bed.on()
        load.tell("go")
        load.read(300)
        return bed.off() / requests
    finally:
        load.stop()


def events(bed, rate, seconds):
    load = bed.load("watch_load", "--connections", 20, "--streams", 10, "--pace", 5)
    try:
        load.read(120)
        bed.source.tell(f"rate {rate} 0")
        time.sleep(2)
        before = bed.source.ask("stats")
        bed.on()
        time.sleep(seconds)
        after = bed.source.ask("stats")
        return bed.off() / (after["events"] - before["events"])
    finally:
        load.stop()


def merged(bed, subscribers, connections, rate, seconds):
    """Per event that a subscriber gets."""
    load = bed.load(subscribers, connections, "--pace", 5)
    try:
        bed.rate(rate)
        time.sleep(2)
        before = bed.stats()
        bed.on()
        time.sleep(seconds)
        after = bed.stats()
        count = bed.off()
        bed.rate(0)
        return count / (after["events"] - before["events"]) / subscribers
    finally:
        load.stop()


def measure(binary, tools, run, groups):
    if "gets" in groups:
        with Counted("kintsugi", binary, tools, run) as bed:
            yield "GET", gets(bed, 2_000, "--connections", 10, "--inflight", 32)
            yield "strangers", gets(bed, 2_000, "--connections", 10, "--inflight", 32, "--cert", "")
            yield "GET alone", gets(bed, 500, "--connections", 1, "--pace", 100)
    if "events" in groups:
        with Counted("kintsugi", binary, tools, run) as bed:
            yield "event", events(bed, 100, 10)
    if "merged" in groups:
        with CountedMerged(binary, tools, run) as bed:
            yield "merged", merged(bed, 1, 1, 300, 10)
            yield "merged 50", merged(bed, 50, 5, 60, 10)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--before", type=lambda text: pathlib.Path(text).resolve(), help="another one to compare with")
    parser.add_argument("--tools", type=pathlib.Path, help="folder of the bench_* programs; default: that of --binary")
    parser.add_argument("--run", type=pathlib.Path, default=HERE / "run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("groups", nargs="*", default=GROUPS, help="of figures: " + " ".join(GROUPS))
    arguments = parser.parse_args()
    run = arguments.run.resolve()
    tools = (arguments.tools or arguments.binary.parent).resolve()
    products.prepare(run)
    best = {}
    for _ in range(arguments.rounds):
        for binary in filter(None, (arguments.before, arguments.binary)):
            for figure, value in measure(binary, tools, run, arguments.groups):
                row = best.setdefault(figure, {}).setdefault(binary, [])
                row.append(value)
    for figure, row in best.items():
        values = sorted(row[arguments.binary])
        text = f"{figure:10} {values[len(values) // 2]:9.0f} ({values[0]:.0f}–{values[-1]:.0f})"
        if arguments.before:
            old = sorted(row[arguments.before])
            middle = old[len(old) // 2]
            text += f"  before {middle:9.0f} ({old[0]:.0f}–{old[-1]:.0f})  {values[len(values) // 2] / middle - 1:+.1%}"
        print(text)


if __name__ == "__main__":
    main()
