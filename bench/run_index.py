#!/usr/bin/env python3
"""The index of 100,000 logical clusters on three shards (FP-119): how long a proxy takes to be ready, what a logical cluster takes of
memory, how late the proxy knows of changes at 1,000 a second and of 10,000 deletions at once, and a path of 100 levels. The shards
are scripted, so that they are not what is measured: each says what a shard of kcp says to a proxy, and nothing else."""
import argparse
import concurrent.futures
import http.server
import json
import os
import pathlib
import re
import socket
import statistics
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))

import front  # noqa: E402  pylint: disable=wrong-import-position
import kit  # noqa: E402  pylint: disable=wrong-import-position

SHARDS = ("root", "shard-1", "shard-2")
FOLLOWED = ("workspaces", "logicalclusters", "apiexports", "apibindings")
LEVELS = 100


def event(kind, value):
    return (json.dumps({"type": kind, "object": value}, separators=(",", ":")) + "\n").encode()


class Shard:
    """What it has, and the watches of it that are open."""

    def __init__(self, name, pki):
        self.name, self.lock = name, threading.Lock()
        self.objects = {resource: {} for resource in FOLLOWED}  # by key, as bytes of an ADDED event
        self.watches = {resource: [] for resource in FOLLOWED}
        self.shards = lambda: []
        shard = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize, disable_nagle_algorithm = 1 << 16, True

            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path, _, query = self.path.partition("?")
                path = path.replace("%2A", "*")
                found = re.match(r"/clusters/\*/apis/[^/]+/[^/]+/([a-z]+)(:[a-z0-9]+)?$", path)
                if found and found.group(1) in FOLLOWED:
                    return self.watch(found.group(1)) if "watch=" in query else self.say(400, {})
                if path.endswith("/shards"):
                    return self.watch_shards() if "watch=" in query else self.say(400, {})
                if "/apiexports/" in path:
                    return self.say(200, {"status": {"identityHash": "abc"}})
                if path.endswith("selfsubjectreviews"):
                    return self.say(201, {"status": {"userInfo": {"username": self.headers.get("X-Remote-User", "shard-admin")}}})
                return self.say(200, {"kind": "Served"})

            do_POST = do_GET

            def say(self, status, value):
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def begin(self):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.flush()
                self.close_connection = True

            def end_of_initial(self):
                self.wfile.write(event("BOOKMARK", {"metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}))
                self.wfile.flush()

            def watch(self, resource):
                self.begin()
                with shard.lock:
                    self.wfile.write(b"".join(shard.objects[resource].values()))
                    self.end_of_initial()
                    shard.watches[resource].append(self.wfile)
                while self.connection.recv(1):
                    pass

            def watch_shards(self):
                self.begin()
                self.wfile.write(b"".join(event("ADDED", one) for one in shard.shards()))
                self.end_of_initial()
                while self.connection.recv(1):
                    pass

        self.server = kit.Server(Handler, pki)
        self.url = self.server.url

    def put(self, resource, key, value):
        self.objects[resource][key] = event("ADDED", value)

    def tell(self, resource, texts):
        """Events to those who watch, at once."""
        with self.lock:
            for to in self.watches[resource]:
                to.write(b"".join(texts))
                to.flush()


class Tree:
    """Clusters c0, c1, … below root; number n is on shard n % 3, and its Workspace where its parent is."""

    def __init__(self, shards):
        self.shards, self.revision = shards, 1
        self.put_cluster(shards[0], "root", None)

    def put_cluster(self, shard, cluster, owner):
        shard.put("logicalclusters", cluster, self.cluster(cluster, owner))

    def cluster(self, cluster, owner):
        self.revision += 1
        value = {"metadata": {"name": "cluster", "uid": f"u-{cluster}", "resourceVersion": str(self.revision), "creationTimestamp": "2026-01-01T00:00:00Z",
                              "annotations": {"kcp.io/cluster": cluster, "internal.tenancy.kcp.io/type": "root:universal"}}, "spec": {},
                 "status": {"phase": "Ready", "conditions": [{"type": "WorkspaceInitialized", "status": "True"}]}}
        if owner:
            value["spec"]["owner"] = {"apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", "name": f"w-{cluster}", "cluster": owner,
                                      "uid": f"w-{cluster}"}
        return value

    def workspace(self, cluster, parent):
        self.revision += 1
        return {"metadata": {"name": f"w-{cluster}", "uid": f"w-{cluster}", "resourceVersion": str(self.revision),
                             "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"kcp.io/cluster": parent}},
                "spec": {"cluster": cluster, "URL": f"https://kcp.example:6443/clusters/root:{cluster}", "type": {"name": "universal", "path": "root"}},
                "status": {"phase": "Ready"}}

    def home(self, cluster):
        return self.shards[0] if cluster == "root" else self.shards[int(cluster[1:]) % 3]

    def add(self, number, parent):
        cluster = f"c{number}"
        self.put_cluster(self.home(cluster), cluster, parent)
        self.home(parent).put("workspaces", cluster, self.workspace(cluster, parent))
        return cluster

    def events(self, kind, number, parent):
        """What is told, and to whom: the cluster first, as it is there before its Workspace is Ready."""
        cluster = f"c{number}"
        return ((self.home(cluster), "logicalclusters", event(kind, self.cluster(cluster, parent))),
                (self.home(parent), "workspaces", event(kind, self.workspace(cluster, parent))))


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def metric(proxy, port, name):
    pki = proxy.installation.pki
    text = kit.Client(f"https://127.0.0.1:{port}", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key").get("/metrics").body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(name + r"[ {]", line))


def resident(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) * 1024


def cpu_seconds(process):
    """Of all its threads, user and system."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Caller:
    """One connection that asks whether a cluster is known."""

    def __init__(self, proxy):
        self.connection = proxy.client("").connect()

    def status(self, cluster):
        self.connection.request("GET", f"/clusters/{cluster}/api/v1/namespaces/default")
        response = self.connection.getresponse()
        response.read()
        return response.status

    def until(self, cluster, status, begun):
        """Seconds since `begun` until that is the answer; a request that nobody can answer waits for the next snapshots, 200 ms at most."""
        while self.status(cluster) != status:
            if time.monotonic() - begun > 60:
                raise TimeoutError(f"{cluster} is never {status}")
        return time.monotonic() - begun


def changes(tree, proxy, first, rate, duration):
    """So many new clusters a second, told in ticks of 10 ms; every tick one of its last is waited for."""
    caller, lags, number, late = Caller(proxy), [], first, 0
    begun = time.monotonic()
    waiting, done = [], threading.Event()

    def wait():
        while not done.is_set() or waiting:
            if not waiting:
                time.sleep(0.001)
                continue
            cluster, at = waiting[-1]
            waiting.clear()
            lags.append(caller.until(cluster, 200, at))

    thread = threading.Thread(target=wait)
    thread.start()
    tick = 0.01
    while time.monotonic() - begun < duration:
        due = begun + (number - first) / (rate / 2)  # a new cluster is two changes
        pause = due - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        late = max(late, -pause)
        told = {}
        for _ in range(max(1, int(rate / 2 * tick))):
            for shard, resource, text in tree.events("ADDED", number, "root"):
                told.setdefault((shard.name, resource), (shard, []))[1].append(text)
            number += 1
        for (_, resource), (shard, texts) in sorted(told.items(), key=lambda one: one[0][1]):
            shard.tell(resource, texts)
        waiting.append((f"c{number - 1}", time.monotonic()))
    took = time.monotonic() - begun
    done.set()
    thread.join()
    return lags, 2 * (number - first) / took, late


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=1_000, help="changes a second")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--deletions", type=int, default=10_000)
    options = parser.parse_args()

    installation = kit.Installation(shards=1).start()
    installation.stop()
    pki, figures = installation.pki, {}
    shards = [Shard(name, pki) for name in SHARDS]
    shards[0].shards = lambda: [{"metadata": {"name": shard.name, "uid": shard.name, "annotations": {"kcp.io/cluster": "root"}}, "spec": {
        "baseURL": shard.url, "externalURL": "https://kcp.example:6443", "virtualWorkspaceURL": shard.url}} for shard in shards]
    tree = Tree(shards)
    parents = ["root"] * (options.clusters // 100)
    for number in range(options.clusters):
        cluster = tree.add(number, parents[number % len(parents)] if number >= len(parents) else "root")
        if number < len(parents):
            parents[number] = cluster
    path, parent = "root", "root"
    for number in range(options.clusters, options.clusters + LEVELS):
        cluster = tree.add(number, parent)
        path, parent = f"{path}:w-{cluster}", cluster

    port = kit.free_port()
    access = front.kubeconfig(installation, front.pair(installation), shards[0].url)
    proxy = front.FrontProxy(installation, front.entry(installation, "/clusters/", front.CLUSTERS), f"--root-kubeconfig={access}",
                             f"--shards-kubeconfig={access}", f"--profiler-address=127.0.0.1:{port}", "--v=2")
    begun = time.monotonic()
    proxy.begin()
    try:
        while True:
            try:
                if proxy.client("").get("/readyz").status == 200:
                    break
            except OSError:
                pass
            time.sleep(0.05)  # a handshake each, which is work of the proxy, too
        figures["ready_s"] = round(time.monotonic() - begun, 2)
        figures["ready_cpu_s"] = round(cpu_seconds(proxy.process), 2)
        figures["index_bytes_per_cluster"] = round(metric(proxy, port, "kintsugi_index_bytes") / (options.clusters + LEVELS), 1)
        figures["rss_mib"] = resident(proxy.process) >> 20
        caller = Caller(proxy)
        assert caller.status(f"c{options.clusters - 1}") == 200
        figures["levels"] = LEVELS
        times = []
        for _ in range(100):
            at = time.monotonic()
            assert caller.status(path) == 200, "a path of 100 levels"
            times.append(time.monotonic() - at)
        figures["deep_path_ms"] = round(statistics.median(times) * 1000, 2)

        first = options.clusters + LEVELS
        lags, rate, late = changes(tree, proxy, first, options.rate, options.seconds)
        figures["changes_per_s"] = round(rate)
        figures["behind_ms"] = round(late * 1000, 1)
        figures["lag_ms"] = {"samples": len(lags), "p50": round(percentile(lags, 0.5) * 1000, 1), "p99": round(percentile(lags, 0.99) * 1000, 1),
                             "max": round(max(lags) * 1000, 1)}

        told = {}
        for number in range(options.clusters - options.deletions, options.clusters):
            for shard, resource, text in tree.events("DELETED", number, parents[number % len(parents)]):
                told.setdefault((shard.name, resource), (shard, []))[1].append(text)
        spent, begun = cpu_seconds(proxy.process), time.monotonic()
        for (_, resource), (shard, texts) in sorted(told.items(), reverse=True):
            shard.tell(resource, texts)
        figures["told_deletions_ms"] = round((time.monotonic() - begun) * 1000, 1)
        with concurrent.futures.ThreadPoolExecutor(len(SHARDS)) as pool:  # at once: a 403 takes 200 ms by itself
            gone = [pool.submit(Caller(proxy).until, f"c{last}", 403, begun) for last in range(options.clusters - len(SHARDS), options.clusters)]
            for one in gone:
                one.result()
        figures["deletions_ms"] = round((time.monotonic() - begun) * 1000, 1)
        figures["deletions_cpu_ms"] = round((cpu_seconds(proxy.process) - spent) * 1000)
        figures["rss_after_mib"] = resident(proxy.process) >> 20
    finally:
        proxy.__exit__()
        for shard in shards:
            shard.server.close()
        installation.__exit__(None, None, None)
    print(json.dumps(figures))


if __name__ == "__main__":
    socket.setdefaulttimeout(60)
    main()
