#!/usr/bin/env python3
"""How much slower others are while clients abuse HTTP/2 (SE-136: their p99 doubles at most). A neighbour asks for a list, one request
after the other on a connection of its own; each abuse of e2e/attacks/abuse_test.py runs for some seconds on 1 and on 50 connections
that come back as often as they are closed, beside quiet seconds before it. The abusers need a core of their own. A busy machine makes
the figures worthless: the quiet p99 of all rows tell, and rows in which no connection was closed."""
import argparse
import contextlib
import multiprocessing
import os
import pathlib
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUIET = 2.0  # seconds


def abuse(row, connections, stop, closed, abuse_test):
    """Runs in a process of its own."""
    os.nice(1)
    abusers = [None] * connections
    while not stop.is_set():
        for number, abuser in enumerate(abusers):
            if abuser is None:
                with contextlib.suppress(OSError):
                    abusers[number] = abuse_test.Abuser(row)
            elif not abuser.go_on():
                abuser.connection.close()
                abusers[number] = None
                with closed.get_lock():
                    closed.value += 1
    os._exit(0)


def measure(connection, maps, seconds):
    """Latencies [ms], sorted."""
    taken, end = [], time.monotonic() + seconds
    while (begin := time.monotonic()) < end:
        stream = connection.ask("GET", maps)
        assert stream.status == 200, stream.status
        taken.append((time.monotonic() - begin) * 1000)
    return sorted(taken)


def p99(values):
    return values[min(len(values) - 1, len(values) * 99 // 100)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--seconds", type=float, default=5, help="of each abuse (default: %(default)s)")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 50])
    parser.add_argument("names", nargs="*", help="parts of names of abuses; default: all")
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(arguments.binary)
    sys.path[:0] = [str(ROOT / "e2e" / "lib"), str(ROOT / "e2e" / "attacks")]
    import abuse_test
    import raw_h2

    processes = multiprocessing.get_context("fork")
    abuse_test.setUpModule()
    try:
        neighbour = raw_h2.Connection(abuse_test.proxy.client())
        measure(neighbour, abuse_test.MAPS, QUIET)  # warm
        ratios = []
        for row in abuse_test.ABUSES:
            if arguments.names and not any(name in row[0] for name in arguments.names):
                continue
            for connections in arguments.connections:
                quiet = measure(neighbour, abuse_test.MAPS, QUIET)
                stop, closed = processes.Event(), processes.Value("i", 0)
                child = processes.Process(target=abuse, args=(row, connections, stop, closed, abuse_test))
                child.start()
                busy = measure(neighbour, abuse_test.MAPS, arguments.seconds)
                stop.set()
                child.join(30)
                if child.is_alive():
                    child.kill()
                ratio = p99(busy) / p99(quiet)
                ratios.append(ratio)
                print(f"{row[0]:32} × {connections:3}: p99 {p99(busy):7.2f} ms, quiet {p99(quiet):7.2f} ms, ratio {ratio:5.2f}; "
                      f"{len(busy) / arguments.seconds:6.0f} requests/s; {closed.value} connections closed", flush=True)
        print(f"ratio of p99: {min(ratios):.2f} to {max(ratios):.2f}")
    finally:
        unittest.doModuleCleanups()


if __name__ == "__main__":
    main()
