#!/usr/bin/env python3
"""Workspaces with an APIBinding each, made by clients through the proxy of a fresh installation of three shards: how many a
second until they are bound, what memory they take, how late the proxy knows of them meanwhile, and how long the list of all
bound objects takes through the export's virtual workspace, merged over the shards."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import workspace_lag

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))

APIS = "/apis/apis.kcp.io/v1alpha2"
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
DEADLINE = 60


class Worker:
    """One connection that takes its work from a shared iterator."""

    def __init__(self, installation, work, lock, faults):
        self.connection = installation.client("").connect(DEADLINE)
        self.work, self.lock, self.faults = work, lock, faults

    def call(self, method, path, body=None):
        self.connection.request(method, path, body=None if body is None else json.dumps(body),
                                headers={"Content-Type": "application/json"})
        response = self.connection.getresponse()
        return response.status, response.read()

    def until(self, method, path, body, good):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            status, text = self.call(method, path, body)
            if good(status, text):
                return
            time.sleep(0.01)
        self.faults.append(f"{method} {path}: {status} {text[:200]}")

    def run(self, task):
        while True:
            with self.lock:
                number = next(self.work, None)
            if number is None:
                return
            task(self, f"bench-{number}")


def make_workspace(worker, name):
    root = f"/clusters/root:{name}"
    worker.until("POST", "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces",
                 {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
                  "spec": {"type": {"name": "universal", "path": "root"}}}, lambda status, _: status in (201, 409))
    binding = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "things"},
               "spec": {"reference": {"export": {"path": "root:provider", "name": "things"}}}}
    worker.until("POST", f"{root}{APIS}/apibindings", binding, lambda status, _: status in (201, 409))
    worker.until("GET", f"{root}{APIS}/apibindings/things", None,
                 lambda status, text: status == 200 and json.loads(text).get("status", {}).get("phase") == "Bound")


def fill(objects):
    def task(worker, name):
        for each in range(objects):
            worker.until("POST", f"/clusters/root:{name}/apis/bench.example.com/v1/namespaces/default/things",
                         {"apiVersion": "bench.example.com/v1", "kind": "Thing", "metadata": {"name": f"t-{each}"},
                          "spec": {"text": "x" * 500}}, lambda status, _: status in (201, 409))
    return task


def side_by_side(installation, count, clients, task):
    work, lock, faults = iter(range(count)), threading.Lock(), []
    workers = [Worker(installation, work, lock, faults) for _ in range(clients)]
    threads = [threading.Thread(target=worker.run, args=(task,)) for worker in workers]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - begin, faults


def export(installation, kit):
    installation.make_workspace("provider")
    provider = installation.client("/clusters/root:provider")
    provider.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.things.bench.example.com"},
        "spec": {"group": "bench.example.com", "scope": "Namespaced",
                 "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": SCHEMA}]}})
    provider.must("POST", f"{APIS}/apiexports", {
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "things"},
        "spec": {"resources": [{"group": "bench.example.com", "name": "things", "schema": "v1.things.bench.example.com",
                                "storage": {"crd": {}}}]}})
    kit.eventually(lambda: provider.must("GET", f"{APIS}/apiexports/things").get("status", {}).get("identityHash"))


def exports_to_probe(installation, kit, count):
    """Exports without resources, each with a slice that names shards with consumers only; a consumer per shard."""
    provider = installation.client("/clusters/root:provider")
    names = [f"probe-{number}" for number in range(count)]
    for name in names:
        provider.must("POST", f"{APIS}/apiexports", {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
                                                     "metadata": {"name": name}, "spec": {}})
    for name in names:
        body = {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
                "metadata": {"name": f"required-{name}", "annotations": {"kintsugi.dev/consumers": "required"}},
                "spec": {"export": {"path": "root:provider", "name": name}}}
        kit.eventually(lambda b=body: provider.request("POST", workspace_lag.SLICES, b).status in (201, 409))
    consumers = []
    for shard in ("root", "shard-1", "shard-2"):
        installation.make_workspace(f"probe-{shard}", selector={"name": shard})
        consumers.append(f"probe-{shard}")
    return names, consumers


def memory(pid, field):
    """KiB of a process: VmRSS, or RssAnon without the pages of the mapped store."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])


def timed_list(installation, path):
    """Seconds of one list by curl over HTTP/2, which throws the body away, and the bytes of it."""
    pki = installation.pki
    run = subprocess.run(["curl", "-sS", "--fail", "--http2", "-o", os.devnull, "-w", "%{time_total} %{size_download}", "--cacert",
                          pki / "serving-ca.crt", "--cert", pki / "admin.crt", "--key", pki / "admin.key",
                          f"https://127.0.0.1:{installation.port}{path}"], capture_output=True, text=True, timeout=DEADLINE, check=True)
    seconds, size = run.stdout.split()
    return float(seconds), int(size)


def show(what, figures):
    if figures["count"]:
        print(f"{what}: p50 {figures['p50']:.1f} ms, p99 {figures['p99']:.1f} ms, max {figures['max']:.1f} ms "
              f"of {figures['count']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--workspaces", type=int, default=1000)
    parser.add_argument("--objects", type=int, default=0, help="bound objects of 500 bytes in each workspace")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--bindings", type=int, default=200, help="bindings whose way into slices is timed")
    parser.add_argument("--lists", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    import kit

    with kit.Installation(shards=3) as installation:
        export(installation, kit)
        probed = exports_to_probe(installation, kit, arguments.bindings)
        pids = {process: installation.pid(process) for process in ("root", "shard-1", "shard-2", "proxy")}
        before = {field: {name: memory(pid, field) for name, pid in pids.items()} for field in ("VmRSS", "RssAnon")}
        probes = [workspace_lag.Probe(workspace_lag.routes, installation.client("")),
                  workspace_lag.Probe(workspace_lag.slices, installation.client(""), *probed)]
        seconds, faults = side_by_side(installation, arguments.workspaces, arguments.clients, make_workspace)
        lags = [probe.result() for probe in probes]
        print(f"{arguments.workspaces} workspaces with a binding: {seconds:.1f} s, {arguments.workspaces / seconds:.0f} workspaces/s")
        show("index lag, from Ready to an answered request", lags[0])
        show("index lag, from a binding to the slice", lags[1])
        for field, what in (("VmRSS", "resident"), ("RssAnon", "of them without the mapped stores")):
            more = {name: memory(pid, field) - before[field][name] for name, pid in pids.items()}
            print(f"KiB more, {what}: " + ", ".join(f"{name} {kib}" for name, kib in more.items()) +
                  f"; {sum(more.values()) / arguments.workspaces:.0f} KiB a workspace")
        seconds, more_faults = side_by_side(installation, arguments.workspaces, arguments.clients, fill(arguments.objects))
        faults += more_faults
        print(f"{arguments.objects} objects in each: {arguments.workspaces * arguments.objects / seconds:.0f} objects/s")
        path = "/services/apiexport/root:provider/things/clusters/*/apis/bench.example.com/v1/things"
        times = []
        for _ in range(arguments.lists):
            took, size = timed_list(installation, path)
            times.append(took)
        found = len(installation.client("").get(path, timeout=DEADLINE).json["items"])
        print(f"merged list of {found} objects, {size / 1e6:.1f} MB, by curl: " + ", ".join(f"{took:.2f}" for took in times) + " s")
        if found != arguments.workspaces * arguments.objects:
            faults.append(f"{arguments.workspaces * arguments.objects} objects were made")
    for fault in faults[:5]:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
