#!/usr/bin/env python3
"""What others notice while one user asks an embedded shard, through the proxy, for ten times what there are seats for (SE-005).

A fresh installation of one shard on CPU 0, with a proxy of one loop. Nine users ask at an even rate for gets, updates, lists and watches, in turn, and each
follows what he writes; one more keeps --connections times --depth requests open for as long as the second of three phases lasts, and
asks again as soon as one is answered, whatever the answer is. Both are bench_users_load, processes of their own on CPU 1, that of the
nine before everything else there. Times of the nine are from when a request was due to the end of its answer (a watch: to its first
event; "event": from when a write was due to its event in a watch; "all": of each answer but events); "behind" is how late their client
was by itself.

    nice -n -10 python3 bench/run_overload.py --binary build/release/bin/kintsugi --rounds 3

One JSON line a round, then a table: median (lowest-highest) of the rounds.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import time

import machine
import products

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
KINDS = ("all", "get", "write", "list", "watch", "event")
PHASES = ("quiet", "flooded", "just after", "after")
RECOVERY = 2  # seconds


class Load(products.Tool):
    """Users of bench_users_load. `first`: before everything else on their CPU."""

    def __init__(self, run, arguments, user, *flags, first=False):
        before = ["chrt", "-f", "1"] if first and shutil.which("chrt") and os.geteuid() == 0 else []
        super().__init__(run, [*before, arguments.tools / "bench_users_load", "--port", arguments.port, "--user", user,
                               "--target", "/clusters/root:load" + MAPS, "--seconds", products.LIMIT, *flags])  # fmt: skip


def prepare(kit, installation, others):
    """A workspace in which everybody may do what is asked here, with the objects of the others."""
    installation.make_workspace("load")
    inside = installation.client("/clusters/root:load")
    inside.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "loads"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "update"]}]})
    for role in ("loads", "system:kcp:workspace:access"):
        inside.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "all-" + role.replace(":", "-")},
            "subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
    for number in range(others):
        inside.must("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"load-{number}"}})
    for name in (*(f"other-{number}" for number in range(others)), "heavy-0"):
        user = installation.user_client(name, [], "/clusters/root:load")
        kit.eventually(lambda u=user: u.get(MAPS + "/kube-root-ca.crt").status == 200, 30)


def watch_memory(pids, most, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.1)
        for name, pid in pids.items():
            most[name] = max(most.get(name, 0), machine.rss_kb(pid) // 1024)


def measure(installation, proxy, arguments):
    others = Load(installation.dir, arguments, installation.dir / "user-other-", "--users", arguments.others, "--rate", arguments.rate,
                  "--follow", arguments.follow, "--mix", arguments.mix, first=True)  # fmt: skip
    heavy = None
    try:
        pids = {"proxy": proxy.process.pid, "shard": installation.pid("root")}
        before, most, phases = {}, {}, {}
        others.tell("go")
        time.sleep(2)  # connections, and what is made with the first requests
        others.ask("mark")
        watch_memory(pids, before, arguments.seconds)
        phases["quiet"] = others.ask("mark")
        heavy = Load(installation.dir, arguments, installation.dir / "user-heavy-", "--connections", arguments.connections, "--depth",
                     arguments.depth, "--create", 1, "--mix", arguments.flood)  # fmt: skip
        window = machine.Window([*pids.values(), others.pid, heavy.pid])
        heavy.tell("go")
        others_cpu = {name: machine.cpu_ns(pid) for name, pid in pids.items()}
        watch_memory(pids, most, arguments.seconds)
        phases["flooded"] = others.ask("mark")
        told = heavy.ask("mark")
        seats = {name: proxy.metric(f"kintsugi_{name}") for name in ("seats_open", 'queue_length{level="tenant"}')}
        cpu = {name: round((machine.cpu_ns(pid) - others_cpu[name]) / 1e9 / arguments.seconds, 2) for name, pid in pids.items()}
        _, foreign, stolen = window.end()
        heavy.stop()
        time.sleep(RECOVERY)
        phases["just after"] = others.ask("mark")
        time.sleep(arguments.seconds)
        phases["after"] = others.ask("mark")
    finally:
        for load in filter(None, (others, heavy)):
            load.stop()
    answers = {}
    for phase in phases.values():
        for status, number in phase.pop("status").items():
            answers[status] = answers.get(status, 0) + number
    return {"phases": phases, "others": answers, "heavy": told.pop("status"), "heavy_ms": {kind: told[kind]["p50"] / 1000 for kind in KINDS[1:5]},
            "at_the_proxy": seats, "cpu": cpu, "resident_mib": {"before": before, "most": most}, "foreign": round(foreign, 2), "stolen": round(stolen, 2)}


def milliseconds(results, phase, kind, what):
    values = [result["phases"][phase][kind][what] / 1000 for result in results]
    return f"{statistics.median(values):.1f} ({min(values):.1f}–{max(values):.1f})"


def table(results):
    lines = ["| p50, p99 [ms] | " + " | ".join(PHASES) + " | p99 flooded / quiet |", "|---|---|---|---|---|---|"]
    for kind in KINDS:
        if not all(result["phases"]["quiet"][kind]["n"] for result in results):
            continue
        cells = ["; ".join(milliseconds(results, phase, kind, what) for what in ("p50", "p99")) for phase in PHASES]
        ratios = [result["phases"]["flooded"][kind]["p99"] / result["phases"]["quiet"][kind]["p99"] for result in results]
        lines.append(f"| {kind} | {' | '.join(cells)} | {statistics.median(ratios):.1f} ({min(ratios):.1f}–{max(ratios):.1f}) |")
    worst = [max(now / then for now, then in zip(*(result["phases"][phase]["users_p99"] for phase in ("flooded", "quiet")))) for result in results]
    return "\n".join([*lines, f"p99 of all that one asks, flooded / quiet, of the user for whom it is highest: {statistics.median(worst):.1f} "
                              f"({min(worst):.1f}–{max(worst):.1f})"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--tools", type=pathlib.Path, help="folder of the bench tools (default: that of the binary)")
    parser.add_argument("--seconds", type=float, default=25, help="of each phase; in a short one the moment in which the flood begins is the p99")
    parser.add_argument("--others", type=int, default=9)
    parser.add_argument("--rate", type=int, default=20, help="requests a second of each of them")
    parser.add_argument("--follow", type=int, default=1, help="watches of each of them that stay")
    parser.add_argument("--mix", default="get,write,list,watch", help="what they ask for")
    parser.add_argument("--connections", type=int, default=16, help="of the one who floods")
    parser.add_argument("--depth", type=int, default=250, help="requests that are open on each")
    parser.add_argument("--flood", default="get,write,list,watch", help="what he asks for")
    parser.add_argument("--quotas", default="writes.rps=500,writes.burst=2000", help="as those of kintsugi up")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    binary = pathlib.Path(arguments.binary).resolve()
    arguments.tools = (arguments.tools or binary.parent).resolve()
    os.environ["KINTSUGI"] = str(binary)
    os.sched_setaffinity(0, {int(products.PROXY_CPU)})  # that of all that is started here, but for the tools
    import kit  # pylint: disable=import-outside-toplevel
    results = []
    for _ in range(arguments.rounds):
        with kit.Installation("--quotas", arguments.quotas, shards=1) as installation:
            prepare(kit, installation, arguments.others)
            with kit.Proxy(installation, loops=1) as proxy:
                os.sched_setaffinity(0, {int(products.OTHER_CPU)})
                arguments.port = proxy.port
                results.append(measure(installation, proxy, arguments))
            os.sched_setaffinity(0, {int(products.PROXY_CPU)})
            print(json.dumps(results[-1]), flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
