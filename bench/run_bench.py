#!/usr/bin/env python3
"""Compares Kintsugi with HAProxy and nghttpx in interleaved rounds (bench/README.md). Raw lines go to
bench/run/results.jsonl, the table to stdout and bench/run/report.md. Names select groups: gets events memory burst."""
import argparse
import json
import pathlib
import statistics
import sys
import time

import figures
import machine
import products

HERE = pathlib.Path(__file__).resolve().parent
ALL = ["kintsugi", "haproxy", "nghttpx"]
TRIES = 4
OUTLIER = 0.25


def measure(product, group, arguments, limits, discards):
    """One measurement of a group; repeated when the machine was not quiet."""
    function, streams = figures.GROUPS[group]
    for attempt in range(1, TRIES + 1):
        try:
            binary = arguments.before if product == "before" else arguments.binary
            with products.Bed(product, binary, arguments.tools, arguments.run, streams) as bed:
                return list(function(bed, limits))
        except figures.Noise as noise:
            discards.append(f"{product} {noise}")
            print(f"  discarded: {product} {noise}", file=sys.stderr)
            time.sleep(2 * attempt)
    raise SystemExit(f"bench: the machine is not quiet: {product} {group} was disturbed {TRIES} times")


class Results:
    def __init__(self, path, facts):
        self.path, self.facts = path, facts
        self.rows = []

    def add(self, product, round_number, measured):
        for figure, value, unit, note in measured:
            row = {"product": product, "figure": figure, "round": round_number, "value": round(value, 3), "unit": unit,
                   **note}  # fmt: skip
            self.rows.append(row)
            with self.path.open("a", encoding="utf-8") as out:
                out.write(json.dumps({**row, **self.facts}) + "\n")
            print(f"  round {round_number}  {product:9} {figure:7} {value:9.2f} {unit}", file=sys.stderr)

    def values(self, product, figure):
        return {row["round"]: row["value"] for row in self.rows if (row["product"], row["figure"]) == (product, figure)}

    def figures(self):
        return list(dict.fromkeys(row["figure"] for row in self.rows))

    def outliers(self):
        """(product, round, figure) of CPU figures that are off by more than a quarter from the median."""
        for product in dict.fromkeys(row["product"] for row in self.rows):
            for figure in self.figures():
                values = self.values(product, figure)
                if not figure.startswith(("G", "E")) or len(values) < 3:
                    continue
                middle = statistics.median(values.values())
                for number, value in values.items():
                    if abs(value / middle - 1) > OUTLIER:
                        yield product, number, figure, value, middle

    def drop(self, product, number, names):
        self.rows = [row for row in self.rows
                     if (row["product"], row["round"]) != (product, number) or row["figure"] not in names]  # fmt: skip


def repeat_outliers(results, arguments, limits, discards):
    for _ in range(2):
        found = list(results.outliers())
        if not found:
            return
        for product, number, figure, value, middle in found:
            discards.append(f"{product} {figure} round {number}: {value:.2f} against a median of {middle:.2f}")
            group = "gets" if figure.startswith("G") else "events"
            measured = measure(product, group, arguments, limits, discards)
            results.drop(product, number, {item[0] for item in measured})
            results.add(product, number, measured)


def table(results, names):
    head = "| figure | unit | " + " | ".join(names) + " |"
    peers = [name for name in names if name != "kintsugi"] if "kintsugi" in names else []
    if peers:
        head += " " + " | ".join(f"kintsugi / {peer}" for peer in peers) + " |"
    lines = [head, "|" + "---|" * head.count(" | ") + "---|"]
    for figure in results.figures():
        unit = next(row["unit"] for row in results.rows if row["figure"] == figure)
        cells = []
        for name in names:
            values = list(results.values(name, figure).values())
            digits = 0 if unit == "B/watch" else 2
            cells.append(f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"
                         if values else "–")  # fmt: skip
        for peer in peers:
            ours, theirs = results.values("kintsugi", figure), results.values(peer, figure)
            below = sum(ours[number] <= theirs[number] for number in ours if number in theirs)
            if not ours or not theirs:
                cells.append("–")
                continue
            ratio = statistics.median(ours.values()) / max(statistics.median(theirs.values()), 1e-9)
            cells.append(f"{ratio:.2f} (lower in {below} of {len(ours)})")
        lines.append(f"| {figure} | {unit} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", help="gets, events, memory, burst; default: all")
    parser.add_argument("--binary", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--before", type=lambda text: pathlib.Path(text).resolve(), help="another one to compare with")
    parser.add_argument("--tools", type=pathlib.Path, help="folder of the bench_* programs; default: that of --binary")
    parser.add_argument("--run", type=pathlib.Path, default=HERE / "run")
    parser.add_argument("--products", default=",".join(ALL))
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--quick", action="store_true", help="two short rounds: a look, not a result")
    parser.add_argument("--foreign", type=float, default=0.05, help="foreign CPU that a measurement bears [cores]")
    arguments = parser.parse_args()
    arguments.tools = (arguments.tools or arguments.binary.parent).resolve()
    arguments.run = arguments.run.resolve()
    arguments.groups = arguments.groups or list(figures.GROUPS)
    names = arguments.products.split(",")
    unknown = (set(arguments.groups) - set(figures.GROUPS)) | (set(names) - set(ALL))
    if unknown:
        parser.error("unknown: " + ", ".join(sorted(unknown)))
    if arguments.before:
        names.append("before")
    rounds = arguments.rounds or (2 if arguments.quick else 5)
    limits = figures.Limits(arguments.quick, arguments.foreign)

    products.prepare(arguments.run)
    facts = machine.facts(str(arguments.binary))
    results, discards = Results(arguments.run / "results.jsonl", facts), []
    for number in range(1, rounds + 1):
        for group in arguments.groups:
            for name in names:
                results.add(name, number, measure(name, group, arguments, limits, discards))
    repeat_outliers(results, arguments, limits, discards)

    report = "\n".join([
        json.dumps(facts), f"{rounds} rounds{', quick' if arguments.quick else ''}; median (lowest–highest)", "",
        table(results, names), "", "discarded: " + ("none" if not discards else "\n  " + "\n  ".join(discards))])  # fmt: skip
    (arguments.run / "report.md").write_text(report + "\n", encoding="utf-8")
    print(report)


if __name__ == "__main__":
    main()
