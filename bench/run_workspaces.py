#!/usr/bin/env python3
"""Workspaces with an APIBinding each, made by clients through the proxy of a fresh installation of three shards: how many a
second until they are bound, what memory they take, and how long the list of all bound objects takes through the export's
virtual workspace, merged over the shards."""
import argparse
import json
import os
import pathlib
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

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

    def run(self, objects):
        while True:
            with self.lock:
                number = next(self.work, None)
            if number is None:
                return
            name = f"bench-{number}"
            root = f"/clusters/root:{name}"
            self.until("POST", "/clusters/root/apis/tenancy.kcp.io/v1alpha1/workspaces",
                       {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
                        "spec": {"type": {"name": "universal", "path": "root"}}}, lambda status, _: status in (201, 409))
            binding = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "things"},
                       "spec": {"reference": {"export": {"path": "root:provider", "name": "things"}}}}
            self.until("POST", f"{root}{APIS}/apibindings", binding, lambda status, _: status in (201, 409))
            self.until("GET", f"{root}{APIS}/apibindings/things", None,
                       lambda status, text: status == 200 and json.loads(text).get("status", {}).get("phase") == "Bound")
            for each in range(objects):
                self.until("POST", f"{root}/apis/bench.example.com/v1/namespaces/default/things",
                           {"apiVersion": "bench.example.com/v1", "kind": "Thing", "metadata": {"name": f"t-{each}"},
                            "spec": {"text": "x" * 500}}, lambda status, _: status in (201, 409))


def side_by_side(installation, count, clients, objects):
    work, lock, faults = iter(range(count)), threading.Lock(), []
    workers = [Worker(installation, work, lock, faults) for _ in range(clients)]
    threads = [threading.Thread(target=worker.run, args=(objects,)) for worker in workers]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--workspaces", type=int, default=1000)
    parser.add_argument("--objects", type=int, default=0, help="bound objects of 500 bytes in each workspace")
    parser.add_argument("--clients", type=int, default=16)
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    import kit

    with kit.Installation(shards=3) as installation:
        export(installation, kit)
        processes = ("root", "shard-1", "shard-2", "proxy")

        def resident(process):
            status = pathlib.Path(f"/proc/{installation.pid(process)}/status").read_text()
            return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

        before = {process: resident(process) for process in processes}
        seconds, faults = side_by_side(installation, arguments.workspaces, arguments.clients, arguments.objects)
        more = {process: resident(process) - before[process] for process in processes}
        print(f"{arguments.workspaces} workspaces with a binding and {arguments.objects} objects each: {seconds:.1f} s, "
              f"{arguments.workspaces / seconds:.0f} workspaces/s")
        print("KiB more resident: " + ", ".join(f"{process} {kib}" for process, kib in more.items()) +
              f"; {sum(more.values()) / arguments.workspaces:.0f} KiB a workspace")
        everything = installation.client("/services/apiexport/root:provider/things/clusters/*")
        begin = time.monotonic()
        listed = everything.get("/apis/bench.example.com/v1/things", timeout=DEADLINE)
        took = time.monotonic() - begin
        assert listed.status == 200, listed
        print(f"merged list of {len(listed.json['items'])} objects, {len(listed.body) / 1e6:.1f} MB: {took:.2f} s")
    for fault in faults[:5]:
        print(fault, file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
