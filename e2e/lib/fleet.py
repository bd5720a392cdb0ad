"""A hub with ClusterProfiles, clusters that it names, and a proxy that finds them there: all of them logical clusters of one
installation of embedded shards, each behind a URL of its own."""
import base64
import json
import pathlib
import socket
import subprocess
import threading

import kit

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GROUP = "/apis/multicluster.x-k8s.io/v1alpha1"
PROFILES = GROUP + "/namespaces/fleet/clusterprofiles"
SECRETS = "/api/v1/namespaces/fleet/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}

# The shape of SIG Multicluster's definition as far as it is used here; e2e/go/fleet has the real one.
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterprofiles.multicluster.x-k8s.io",
                 "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/cluster-inventory-api/issues/5"}},
    "spec": {"group": "multicluster.x-k8s.io", "scope": "Namespaced",
             "names": {"kind": "ClusterProfile", "listKind": "ClusterProfileList", "plural": "clusterprofiles",
                       "singular": "clusterprofile"},
             "versions": [{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                               "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                               "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}}


class Relay:
    """Passes TCP connections on from a port of its own, until it is closed; then those that there are break off."""

    def __init__(self, port, own=0):
        self.to, self.accepted, self.open = port, 0, set()
        self.listener = socket.create_server(("127.0.0.1", own))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                here, _ = self.listener.accept()
                there = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            self.accepted += 1
            self.open |= {here, there}
            for source, target in ((here, there), (there, here)):
                threading.Thread(target=self.pump, args=(source, target), daemon=True).start()

    def pump(self, source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
        except OSError:
            pass
        for end in (source, target):
            self.open.discard(end)
            end.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for end in list(self.open):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def port_of(url):
    return int(url.rsplit(":", 1)[1])


def encoded(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


class Fleet:
    """The hub and its clusters. `members`: how many of these there are."""

    def __init__(self, case, members):
        self.case = case
        self.installation = kit.Installation(shards=2).start_for(case)
        self.dir, self.pki = self.installation.dir, self.installation.pki
        self.ids = {name: self.installation.make_workspace(name)["spec"]["cluster"]
                    for name in ["hub", *(f"m{n}" for n in range(members))]}
        self.make_hub(DEFINITION)

    def make_hub(self, definition):
        self.hub = self.at("hub")
        self.hub.must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}})
        self.hub.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        kit.eventually(lambda: self.hub.get(PROFILES).status == 200, what="the hub has ClusterProfiles")

    def shard_port(self, name):
        """Of the shard that has the logical cluster."""
        for shard in ("root", "shard-1"):
            url = self.installation.shard_url(shard)
            if self.client(url, name).get("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").status == 200:
                return port_of(url)
        raise AssertionError(name)

    def root(self, name):
        return f"/clusters/{self.ids[name]}"

    def client(self, url, name):
        return kit.Client(url + self.root(name), self.pki / "serving-ca.crt", self.pki / "shard-admin.crt",
                          self.pki / "shard-admin.key")

    def at(self, name):
        """Past all proxies."""
        return self.client(f"https://127.0.0.1:{self.shard_port(name)}", name)

    def server(self, name, port=None):
        return f"https://127.0.0.1:{port or self.shard_port(name)}{self.root(name)}"

    def pair(self, name="shard-admin", groups=None):
        """(certificate, key) in base64; with groups of somebody new."""
        cert, key = (self.pki / f"{name}.crt", self.pki / f"{name}.key") if groups is None else kit.make_user(
            self.dir, self.pki, name, groups)
        return encoded(pathlib.Path(cert).read_bytes()), encoded(pathlib.Path(key).read_bytes())

    def kubeconfig(self, server, user=None):
        if user is None:
            cert, key = self.pair()
            user = {"client-certificate-data": cert, "client-key-data": key}
        return json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": server, "certificate-authority-data": self.ca()}}],
            "users": [{"name": "me", "user": user}], "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}]})

    def ca(self):
        return encoded((self.pki / "serving-ca.crt").read_bytes())

    # what the hub has
    def put_secret(self, name, kubeconfig, kind="Opaque", labels=None):
        body = {"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": name, "labels": labels or {}},
                "data": {"value": encoded(kubeconfig)}}
        if self.hub.get(f"{SECRETS}/{name}").status == 404:
            self.hub.must("POST", SECRETS, body)
        else:
            self.hub.must("PATCH", f"{SECRETS}/{name}", {"data": body["data"]}, headers=MERGE)

    def by_secret(self, server, secret):
        return [{"name": "kubeconfig-secret", "cluster": {"server": server, "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"name": secret, "key": "value"}}]}}]

    def by_program(self, server, provider="program"):
        return [{"name": provider, "cluster": {"server": server, "certificate-authority-data": self.ca()}}]

    def put_profile(self, name, providers, **more):
        if self.hub.get(f"{PROFILES}/{name}").status == 404:
            self.hub.must("POST", PROFILES, {
                "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
                "metadata": {"name": name, **more.pop("metadata", {})}, "spec": {"clusterManager": {"name": "e2e"}}})
        self.hub.must("PATCH", f"{PROFILES}/{name}/status", {"status": {"accessProviders": providers, **more}}, headers=MERGE)

    # the proxy
    def start_proxy(self, hub_port=None, **fleet):
        folder = self.dir / "fleet"
        folder.mkdir(exist_ok=True)
        self.folder = folder
        hub = self.kubeconfig(self.server("hub", hub_port))
        (folder / "hub.kubeconfig").write_text(hub)
        (folder / "hub.kubeconfig").chmod(0o600)
        cert, key = self.pair()
        (folder / "says.json").write_text(json.dumps({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"clientCertificateData": base64.b64decode(cert).decode(), "clientKeyData": base64.b64decode(key).decode()}}))
        (folder / "says.json").chmod(0o600)
        program = folder / "program"
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$KUBERNETES_EXEC_INFO\" >> {folder}/asked\ncat {folder}/says.json\n")
        program.chmod(0o700)
        exec_config = {"apiVersion": "client.authentication.k8s.io/v1", "provideClusterInfo": True, "interactiveMode": "Never"}
        (folder / "providers.json").write_text(json.dumps({"providers": [
            {"name": "program", "execConfig": {"command": "./program", **exec_config}},
            {"name": "broken", "execConfig": {"command": "/bin/false", **exec_config}}]}))
        self.port = kit.free_port()
        (folder / "proxy.yaml").write_text(json.dumps({
            "apiVersion": "kintsugi.dev/v1alpha1", "kind": "ProxyConfiguration", "data_dir": "data", "loops": 2,
            "listener": {"port": self.port, "cert_file": str(self.pki / "proxy.crt"), "key_file": str(self.pki / "proxy.key")},
            "authentication": {"client_ca_file": str(self.pki / "client-ca.crt")}, "admin": {"socket": str(folder / "admin.sock")},
            "topology": {"source": "clusterprofiles", "fleet": {
                "kubeconfig": "hub.kubeconfig", "namespaces": ["fleet"], "provider_file": "providers.json", "allow": ["127.0.0.1"],
                "leave_grace_ms": 500, **fleet}}}))
        checked = subprocess.run([str(kit.BINARY), "proxy", "--config", str(folder / "proxy.yaml"), "--validate"], text=True,
                                 capture_output=True, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        self.begin()
        self.case.addClassCleanup(self.end)

    def begin(self):
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([str(kit.BINARY), "proxy", "--config", str(self.folder / "proxy.yaml")],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        kit.eventually(lambda: self.through().get("/readyz").status == 200, 20, "the proxy is ready")

    def end(self):
        self.process.terminate()
        self.process.wait(120)

    def through(self, path=""):
        """Through the proxy, as a member of system:kcp:admin whom the clusters know as such."""
        return kit.Client(f"https://127.0.0.1:{self.port}{path}", self.pki / "serving-ca.crt", self.pki / "admin.crt",
                          self.pki / "admin.key")

    def admin(self, path):
        run = subprocess.run(["curl", "-sS", "--unix-socket", str(self.folder / "admin.sock"), "http://admin" + path],
                             capture_output=True, text=True, check=True)
        return run.stdout

    def generation(self):
        return next(line for line in self.admin("/metrics").splitlines() if line.startswith("kintsugi_slot_generation"))

    def rows(self):
        return {one["name"]: one for one in json.loads(self.admin("/debug/shards"))["shards"]}

    def members(self):
        return {name for name, one in self.rows().items() if one["source"]["state"] == "member" and one["up"]}

    def make_map(self, name, what):
        self.at(name).must("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": what}})
