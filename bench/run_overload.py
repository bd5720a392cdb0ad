#!/usr/bin/env python3
"""Ten times the load that one user's fair share is, by one user, beside others who ask now and then: what the others notice.

A fresh installation of one shard. First the quiet figure: some users read and write at an even rate. Then one more user keeps as many
requests open as it can for a while; the others go on. Then they go on without him. Told is, for each phase, the others' median and
p99, who was refused, the most resident memory of proxy and shard, and how long after the flood the others' times are quiet again.

    python3 bench/run_overload.py --binary build/release/bin/kintsugi --seconds 10
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "load-"}, "data": {"k": "v" * 1000}}


class Other(threading.Thread):
    """A user who asks at an even rate, a read and a write in turn; a request that is late is measured from when it was due."""

    def __init__(self, client, rate, stop):
        super().__init__(daemon=True)
        self.connection = client.connect(60)
        self.prefix, self.rate, self.stop = client.url.path.rstrip("/"), rate, stop
        self.times, self.refused = [], 0

    def run(self):
        due = time.monotonic()
        number = 0
        while not self.stop.is_set():
            due += 1 / self.rate
            time.sleep(max(due - time.monotonic(), 0))
            number += 1
            method, path, body = (("POST", MAPS, json.dumps(BODY)) if number % 2 else ("GET", MAPS + "/kube-root-ca.crt", None))
            self.connection.request(method, self.prefix + path, body=body, headers={"Content-Type": "application/json"})
            answer = self.connection.getresponse()
            answer.read()
            self.refused += answer.status == 429
            self.times.append((due, time.monotonic() - due))


class Flood(threading.Thread):
    """A connection of the one user that always has `depth` requests open."""

    def __init__(self, raw_h2, client, depth, stop):
        super().__init__(daemon=True)
        self.connection, self.depth, self.stop, self.counts = raw_h2.Connection(client), depth, stop, {}

    def run(self):
        body = json.dumps(BODY).encode()
        number, open_streams = 0, []
        while not self.stop.is_set() and not self.connection.closed:
            with self.connection.at_once():
                while len(open_streams) < self.depth:
                    number += 1
                    if number % 2:
                        stream = self.connection.open("POST", MAPS, [("content-type", "application/json")], end=False)
                        self.connection.data(stream, body, end=True)
                    else:
                        stream = self.connection.open("GET", MAPS + "/kube-root-ca.crt")
                    open_streams.append(stream)
            self.connection.read(0.01)
            for stream in [one for one in open_streams if one.over]:
                self.counts[stream.status] = self.counts.get(stream.status, 0) + 1
                self.connection.streams.pop(stream.number, None)
                open_streams.remove(stream)
        self.connection.close()


def ask_as_others(users, rate, stop, results):
    others = [Other(user, rate, stop) for user in users]
    for other in others:
        other.start()
    for other in others:
        other.join()
    results.put(("others", (sorted(one for other in others for one in other.times), sum(other.refused for other in others))))


def flood_as_one(raw_h2, client, arguments, stop, results):
    floods = [Flood(raw_h2, client, arguments.depth, stop) for _ in range(arguments.connections)]
    for flood in floods:
        flood.start()
    counts = {}
    for flood in floods:
        flood.join()
        for status, number in flood.counts.items():
            counts[str(status)] = counts.get(str(status), 0) + number
    results.put(("heavy", counts))


def resident(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) // 1024
    return 0


def figures(times):
    values = sorted(taken for _, taken in times)
    if not values:
        return {}
    return {"requests": len(values), "median_ms": round(statistics.median(values) * 1000, 1),
            "p99_ms": round(values[min(len(values) * 99 // 100, len(values) - 1)] * 1000, 1),
            "most_ms": round(values[-1] * 1000, 1)}


def measure(kit, raw_h2, installation, arguments):
    installation.make_workspace("load")
    inside = installation.client("/clusters/root:load")
    inside.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "loads"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]}]})
    for role in ("loads", "system:kcp:workspace:access"):
        inside.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "all-" + role.replace(":", "-")},
            "subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
    users = [installation.user_client(f"other-{n}", [], "/clusters/root:load") for n in range(arguments.others)]
    heavy = installation.user_client("heavy", [], "/clusters/root:load")
    for user in (*users, heavy):
        kit.eventually(lambda u=user: u.get(MAPS + "/kube-root-ca.crt").status == 200, 30)
    spawn = multiprocessing.get_context("fork")
    stop, stop_flood, results = spawn.Event(), spawn.Event(), spawn.Queue()
    # Processes of their own, so that they do not wait for each other's Python.
    ask = spawn.Process(target=ask_as_others, args=(users, arguments.rate, stop, results))
    load = spawn.Process(target=flood_as_one, args=(raw_h2, heavy, arguments, stop_flood, results))
    pids = {name: installation.pid(name) for name in ("proxy", "root")}
    most = {name: resident(pid) for name, pid in pids.items()}
    marks = [time.monotonic()]
    ask.start()
    time.sleep(arguments.seconds)
    marks.append(time.monotonic())
    load.start()
    end = time.monotonic() + arguments.seconds
    quiet_memory = dict(most)
    while time.monotonic() < end:
        time.sleep(0.1)
        most = {name: max(most[name], resident(pid)) for name, pid in pids.items()}
    stop_flood.set()
    marks.append(time.monotonic())
    time.sleep(arguments.seconds)
    stop.set()
    marks.append(time.monotonic())
    found = dict([results.get(timeout=60), results.get(timeout=60)])
    for process in (ask, load):
        process.join(60)
    times, refused = found["others"]
    phases = [[one for one in times if begin <= one[0] < to] for begin, to in zip(marks, marks[1:])]
    quiet, loaded, after = map(figures, phases)
    slow = [due - marks[2] for due, taken in phases[2] if taken * 1000 > 2 * quiet["p99_ms"]]
    return {"quiet": quiet, "flooded": loaded, "after": after, "others_refused": refused, "heavy": found["heavy"], "ratio_p99": round(loaded["p99_ms"] / quiet["p99_ms"], 2),
            "recovered_after_s": round(max(slow, default=0), 2), "resident_mib": {"before": quiet_memory, "most": most}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--seconds", type=float, default=10, help="of each phase")
    parser.add_argument("--others", type=int, default=9)
    parser.add_argument("--rate", type=float, default=10, help="requests a second of each of them")
    parser.add_argument("--connections", type=int, default=8, help="of the one who floods")
    parser.add_argument("--depth", type=int, default=200, help="requests that are open on each")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    import kit  # pylint: disable=import-outside-toplevel
    import raw_h2  # pylint: disable=import-outside-toplevel
    for _ in range(arguments.rounds):
        with kit.Installation(shards=1) as installation:
            print(json.dumps(measure(kit, raw_h2, installation, arguments)), flush=True)


if __name__ == "__main__":
    main()
