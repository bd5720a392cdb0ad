"""Topology source `objects`: Shards stored and served by the proxy, with their conditions (T-05)."""
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading
import unittest

import kit

SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
SETS = "/apis/topology.kcp.io/v1alpha1/partitionsets"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
MERGE = {"Content-Type": "application/merge-patch+json"}


class WrongServer:
    """Accepts TLS with a certificate that nobody trusts."""

    def __init__(self, folder):
        cert, key = pathlib.Path(folder) / "wrong.crt", pathlib.Path(folder) / "wrong.key"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.context, self.listener = context, socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            try:
                self.context.wrap_socket(connection, server_side=True).close()
            except OSError:
                connection.close()

    def close(self):
        self.listener.close()


class OwnShards(unittest.TestCase):
    def setUp(self):
        self.installation = kit.Installation().start_for(self)
        written = next(self.installation.state.rglob("proxy.yaml"))
        config, path = written.read_text(), written.with_name("own.yaml")
        self.port = kit.free_port()
        folder = self.installation.dir / "own"
        folder.mkdir()
        config = config.replace(f"port: {self.installation.port}", f"port: {self.port}")
        config = re.sub(r"data_dir: .*", f"data_dir: {folder / 'data'}", config)
        config = re.sub(r"socket: .*", f"socket: {folder / 'admin.sock'}", config)
        config = re.sub(r"\n *root_kubeconfig: .*", "", config)
        config = re.sub(r"topology:\n", "topology:\n  source: objects\n", re.sub(r"\n *source: .*", "", config))
        path.write_text(config)
        self.log = (folder / "log").open("wb")
        self.proxy = subprocess.Popen([str(kit.BINARY), "proxy", "--config", str(path)], stdin=subprocess.DEVNULL, stdout=self.log,
                                      stderr=self.log)
        self.addCleanup(self.log.close)
        self.addCleanup(self.proxy.wait)
        self.addCleanup(self.proxy.kill)
        pki = self.installation.pki
        self.own = kit.Client(f"https://127.0.0.1:{self.port}/clusters/root", pki / "serving-ca.crt", pki / "admin.crt",
                              pki / "admin.key")
        kit.eventually(lambda: self.own.get(SHARDS).status == 200, what="own proxy answers")

    def condition(self, name, kind):
        conditions = self.own.must("GET", f"{SHARDS}/{name}").get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def reaches(self, name, status, reason=None, deadline=30):
        def check():
            found = self.condition(name, "Ready")
            assert (found.get("status"), found.get("reason")) == (status, reason), found
            return found
        return kit.eventually(check, deadline, f"{name} Ready {status} {reason}")

    def test_TP108_conditions_follow_the_shard(self):
        installation = self.installation
        theirs = installation.client()
        before = {s["metadata"]["name"]: s for s in theirs.must("GET", SHARDS)["items"]}
        # Nothing is registered: strangers cannot, administrators can.
        stranger = kit.Client(self.own.url.geturl(), installation.pki / "serving-ca.crt",
                              *kit.make_user(installation.dir, installation.pki, "stranger", []))
        self.assertIn(stranger.get(SHARDS).status, (403, 503))
        refused = self.own.request("POST", SHARDS, {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard",
                                                    "metadata": {"name": "x"}, "spec": {}})
        self.assertEqual(refused.status, 422)
        self.assertIn("spec.baseURL is required", refused.json["message"])
        for name, shard in before.items():
            made = self.own.must("POST", SHARDS, {
                "apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard",
                "metadata": {"name": name, "labels": shard["metadata"]["labels"]}, "spec": {"baseURL": shard["spec"]["baseURL"]}})
            self.assertEqual(made["spec"]["virtualWorkspaceURL"], shard["spec"]["baseURL"])
        for name in before:
            self.reaches(name, "True")
            kit.eventually(lambda n=name: self.condition(n, "Synced").get("status") == "True")
        self.assertEqual(self.own.must("GET", "/apis/core.kcp.io/v1alpha1")["kind"], "APIResourceList")
        table = self.own.get(SHARDS, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}).json
        self.assertEqual([c["name"] for c in table["columnDefinitions"]], ["Name", "Region", "URL", "External URL", "Age"])
        # Logical clusters are found by name, Partitions are computed.
        kit.eventually(lambda: self.own.get("/api/v1/namespaces/default").status == 200)
        self.own.must("POST", SETS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "r"},
                                     "spec": {"dimensions": ["region"]}})

        def partitions():
            return {(p["metadata"]["name"], p["metadata"]["resourceVersion"]) for p in self.own.must("GET", PARTITIONS)["items"]}

        kit.eventually(lambda: len(partitions()) == 3)
        calm = partitions()
        # It stops, and goes on.
        installation.kill("shard-1", signal.SIGSTOP)
        try:
            down = self.reaches("shard-1", "False", "Unreachable", 40)
            self.assertEqual(down["severity"], "Error")
            self.assertTrue(down["message"])
        finally:
            installation.kill("shard-1", signal.SIGCONT)
        self.reaches("shard-1", "True")
        # Somebody else answers at its URL, with a certificate that does not hold.
        wrong = WrongServer(installation.dir)
        self.addCleanup(wrong.close)

        def move(url):
            self.own.must("PATCH", SHARDS + "/shard-1", json.dumps({"spec": {"baseURL": url}}), headers=MERGE)

        move(wrong.url)
        self.reaches("shard-1", "False", "CertificateInvalid", 40)
        move(before["shard-1"]["spec"]["baseURL"])
        self.reaches("shard-1", "True")
        kit.eventually(lambda: self.condition("shard-1", "Synced").get("status") == "True")
        # Nothing is written while nothing changes, and health changes no Partition.
        kit.stays(lambda: self.own.must("GET", SHARDS + "/shard-1")["metadata"]["resourceVersion"], 1)
        self.assertEqual(partitions(), calm)
        # Source kcp: the proxy of the installation saw the same and wrote nothing to the root shard.
        now = {s["metadata"]["name"]: s["metadata"]["resourceVersion"] for s in theirs.must("GET", SHARDS)["items"]}
        self.assertEqual(now, {name: s["metadata"]["resourceVersion"] for name, s in before.items()})
        # A Shard that goes takes its Partition along.
        self.own.must("DELETE", SHARDS + "/shard-2")
        kit.eventually(lambda: len(partitions()) == 2)


class OneWriter(unittest.TestCase):
    def test_a_folder_belongs_to_one_proxy(self):
        with kit.Installation() as installation:
            config = next(installation.state.rglob("proxy.yaml"))
            second = subprocess.run([str(kit.BINARY), "proxy", "--config", str(config)], capture_output=True, text=True, timeout=60,
                                    check=False)
            self.assertEqual(second.returncode, 1)
            self.assertIn("in use by process", second.stderr)
            self.assertEqual(installation.client().get(SETS).status, 200)


if __name__ == "__main__":
    unittest.main()
