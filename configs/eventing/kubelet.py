#!/usr/bin/env python3
"""Runs the dispatchers of docs/workers/eventing.md on one machine: makes the pods of StatefulSets, and a `kintsugi dispatcher` process for each
pod whose contract is there. Where Kubernetes runs pods it is not needed.

    python3 kubelet.py --dir .kintsugi --server https://127.0.0.1:6443 --cluster root:eventing:leases-root
"""
import argparse
import base64
import http.client
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse

LABEL, CONTRACTS = "app.kubernetes.io/kind=kafka-dispatcher", "app.kubernetes.io/kind=kafka-dispatcher-contract"


class Api:
    """Requests to one logical cluster, as the installation's admin."""

    def __init__(self, options):
        url, pki = urllib.parse.urlsplit(options.server), pathlib.Path(options.dir) / "pki"
        self.host, self.port, self.root = url.hostname, url.port, f"/clusters/{options.cluster}"
        self.tls = ssl.create_default_context(cafile=pki / "serving-ca.crt")
        self.tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self.connection = None

    def ask(self, method, path, body=None, kind="application/json"):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=20)
        try:
            self.connection.request(method, self.root + path, json.dumps(body) if body is not None else None, {"Content-Type": kind, "Accept": "application/json"})
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException, ValueError):
            self.connection.close()
            self.connection = None
            return 0, {}

    def items(self, path, selector=""):
        """By name; None: nobody can say."""
        status, body = self.ask("GET", path + (f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""))
        return {one["metadata"]["name"]: one for one in body["items"]} if status == 200 else None


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Kubelet:
    def __init__(self, options):
        self.api, self.options, self.folder = Api(options), options, pathlib.Path(options.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.pods, self.sets = f"/api/v1/namespaces/{options.namespace}/pods", f"/apis/apps/v1/namespaces/{options.namespace}/statefulsets"
        self.maps = f"/api/v1/namespaces/{options.namespace}/configmaps"
        self.running = {}  # uid of a pod -> (name, process)

    def make_pods(self, sets, pods):
        for name, one in sets.items():
            wanted = one["spec"].get("replicas", 1)
            for number in range(wanted):
                if f"{name}-{number}" not in pods:
                    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": one["metadata"]["uid"], "controller": True}
                    self.api.ask("POST", self.pods, {
                        "apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": socket.gethostname(), "containers": [{"name": "dispatcher", "ports": [
                            {"name": "status", "containerPort": free_port()}]}]},
                        "metadata": {"name": f"{name}-{number}", "labels": {"app.kubernetes.io/kind": "kafka-dispatcher"}, "ownerReferences": [owner]}})  # fmt: skip
            for pod in pods:
                prefix, _, number = pod.rpartition("-")
                if prefix == name and int(number) >= wanted:
                    self.api.ask("DELETE", f"{self.pods}/{pod}")

    def write(self, name, data):
        path = self.folder / f"{name}.contract"
        if not path.exists() or path.read_bytes() != data:
            beside = path.with_suffix(".new")
            beside.write_bytes(data)
            beside.rename(path)
        return path

    def start(self, name, pod, contract):
        """@param contract  its file"""
        port = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([self.options.kintsugi, "dispatcher", "--pod", name, "--contract", str(contract),  # pylint: disable=consider-using-with
                                        "--status-address", f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
        self.running[pod["metadata"]["uid"]] = (name, process)
        beside = self.folder / f"{name}.tmp"
        beside.write_text(json.dumps({"pid": process.pid, "port": port, "uid": pod["metadata"]["uid"]}))
        beside.rename(self.folder / f"{name}.json")
        self.api.ask("PATCH", f"{self.pods}/{name}/status", {"status": {"phase": "Running", "podIP": "127.0.0.1"}}, "application/merge-patch+json")

    def turn(self):
        sets, pods, maps = self.api.items(self.sets), self.api.items(self.pods, LABEL), self.api.items(self.maps, CONTRACTS)
        if sets is None or pods is None or maps is None:
            return
        self.make_pods(sets, pods)
        uids = {one["metadata"]["uid"] for one in pods.values()}
        for uid, (name, process) in list(self.running.items()):
            if uid not in uids and process.poll() is None:
                process.send_signal(signal.SIGTERM)
            if process.poll() is not None:  # it ended: again, if its pod is there
                del self.running[uid]
                if uid not in uids and name not in pods:
                    for suffix in ("json", "contract"):
                        (self.folder / f"{name}.{suffix}").unlink(missing_ok=True)
        alive = {name for name, _ in self.running.values()}
        for name, pod in pods.items():
            if name in maps and "data" in maps[name].get("binaryData", {}):
                contract = self.write(name, base64.b64decode(maps[name]["binaryData"]["data"]))
                if name not in alive:
                    self.start(name, pod, contract)

    def run(self):
        stopped = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.append(True))
        while not stopped:
            self.turn()
            time.sleep(self.options.pause)
        for _, process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for _, process in self.running.values():
            process.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default=".kintsugi", help="folder of `kintsugi up`")
    parser.add_argument("--server", default="https://127.0.0.1:6443")
    parser.add_argument("--cluster", default="root:eventing:leases-root", help="where the StatefulSets are")
    parser.add_argument("--namespace", default="knative-eventing")
    parser.add_argument("--folder", default="dispatchers", help="for contracts, logs and <pod>.json with pid and port")
    parser.add_argument("--kintsugi", default=os.environ.get("KINTSUGI", "kintsugi"), help="the program")
    parser.add_argument("--pause", type=float, default=0.3, help="seconds between two looks")
    Kubelet(parser.parse_args()).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
