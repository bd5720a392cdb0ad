"""A fleet of real kube-apiservers, each with an etcd of its own, that a hub of the same kind names: with the definition of ClusterProfile
that SIG Multicluster's module has."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import fleet
import kit

MODULE = "sigs.k8s.io/cluster-inventory-api@v0.1.0"
VERSION = "v1.36.3"
ADMINS = "admins"  # the group that may do everything on every server


def go(*arguments, folder):
    if shutil.which("go") is None:
        raise unittest.SkipTest("no Go tool chain on this machine")
    run = subprocess.run(["go", *arguments], cwd=folder, text=True, capture_output=True, check=False)
    if run.returncode:
        raise unittest.SkipTest(f"go {arguments[0]} cannot be had here: {(run.stdout + run.stderr).strip().splitlines()[-1]}")
    return run.stdout


def server_program():
    if program := os.environ.get("KINTSUGI_KUBE_APISERVER"):
        return program
    program = fleet.ROOT / "build" / "e2e" / "kube-apiserver"
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"
    go("build", "-ldflags", flags, "-o", str(program), "./cmd/kube-apiserver", folder=fleet.ROOT / "e2e" / "kube")
    return str(program)


def definition():
    """The module's, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        said = json.loads(go("mod", "download", "-json", MODULE, folder=folder))
    text = pathlib.Path(said["Dir"], "config/crd/bases/multicluster.x-k8s.io_clusterprofiles.yaml").read_text()
    return text


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Server:
    """A kube-apiserver and its etcd."""

    def __init__(self, program, folder, pki, name):
        self.program, self.pki, self.name = program, pki, name
        self.dir = folder / name
        self.dir.mkdir()
        self.port, self.etcd_port = kit.free_port(), kit.free_port()
        self.etcd = self.begin("etcd", "etcd", self.dir / "etcd", f"http://127.0.0.1:{self.etcd_port}", "http://127.0.0.1:0")
        self.api = None

    def begin(self, log, *arguments):
        with (self.dir / f"{log}.log").open("ab") as file:
            return subprocess.Popen([self.program, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    def start(self):
        pki = self.pki
        self.api = self.begin(
            "api", f"--etcd-servers=http://127.0.0.1:{self.etcd_port}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}", f"--cert-dir={self.dir}", f"--tls-cert-file={pki}/proxy.crt",
            f"--tls-private-key-file={pki}/proxy.key", f"--client-ca-file={pki}/client-ca.crt",
            f"--service-account-issuer=https://{self.name}", f"--service-account-key-file={pki}/accounts.key",
            f"--service-account-signing-key-file={pki}/accounts.key", "--service-cluster-ip-range=10.9.0.0/24",
            "--authorization-mode=RBAC", "--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
            "--profiling=false", "--v=0", f"--audit-policy-file={pki}/audit.yaml", f"--audit-log-path={self.dir}/audit.log")

    def kill(self):
        self.api.kill()
        self.api.wait()

    def stop(self):
        for process in (self.api, self.etcd):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def etcd_call(self, path, **body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}/v3/kv/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def forget(self):
        """The history until now."""
        for value in ("eA==", "eQ==", "eg=="):
            self.etcd_call("put", key="eA==", value=value)
        self.etcd_call("compaction", revision=self.etcd_call("range", key="eA==")["header"]["revision"], physical=True)

    def users(self):
        """Who has asked it for something, as it has written down."""
        lines = (self.dir / "audit.log").read_text().splitlines()
        return {json.loads(line)["user"]["username"] for line in lines if line.endswith("}")}


class KubeFleet(fleet.Fleet):
    def __init__(self, case, names):  # pylint: disable=super-init-not-called
        program, text = server_program(), definition()
        self.case = case
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-e2e-fleet-"))
        case.addClassCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.pki = self.dir / "pki"
        self.pki.mkdir()
        self.make_pki()
        self.servers = {name: Server(program, self.dir, self.pki, name) for name in names}
        for server in self.servers.values():
            case.addClassCleanup(server.stop)
        for server in self.servers.values():
            kit.eventually(lambda s=server: s.etcd_call("range", key="eA=="), 60, f"etcd of {server.name}")
            server.start()
        for name in names:
            self.prepare(name)
        self.make_hub(text)

    def make_pki(self):
        for name in ("serving-ca", "client-ca"):
            openssl("req", "-x509", *KEY, "-days", 1, "-subj", f"/CN={name}", "-keyout", self.pki / f"{name}.key", "-out",
                    self.pki / f"{name}.crt")
        openssl("pkey", "-in", self.pki / "client-ca.key", "-traditional", "-out", self.pki / "accounts.key")  # the form that it reads
        request, names = self.dir / "server.csr", self.dir / "names"
        names.write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
        openssl("req", "-new", *KEY, "-subj", "/CN=server", "-keyout", self.pki / "proxy.key", "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.pki / "serving-ca.crt", "-CAkey", self.pki / "serving-ca.key",
                "-set_serial", 7, "-days", 1, "-extfile", names, "-out", self.pki / "proxy.crt")
        for name, groups in (("shard-admin", ["system:masters"]), ("admin", [ADMINS])):
            for made, ending in zip(kit.make_user(self.dir, self.pki, name, groups), ("crt", "key")):
                shutil.copy(made, self.pki / f"{name}.{ending}")
        (self.pki / "audit.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")

    def prepare(self, name):
        """It is ready, and lets the callers of the proxy in."""
        client = self.at(name)
        kit.eventually(lambda: client.get("/readyz").status == 200, 180, f"{name} is ready")
        client.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": ADMINS},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": ADMINS}]})
        kit.eventually(lambda: client.get("/api/v1/namespaces/default").status == 200, 60, f"{name} has its namespace")

    def make_hub(self, definition):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterprofiles.multicluster.x-k8s.io"
        hub = self.at("hub")
        hub.must("PATCH", f"{path}?fieldManager=e2e", definition, headers={"Content-Type": "application/apply-patch+yaml"})
        hub.must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}})
        self.hub = hub
        kit.eventually(lambda: hub.get(fleet.PROFILES).status == 200, 30, "the hub has ClusterProfiles")

    def root(self, name):
        return ""

    def shard_port(self, name):
        return self.servers[name].port

    def move(self, name):
        """The same server at another port."""
        server = self.servers[name]
        server.kill()
        server.port = kit.free_port()
        server.start()
        kit.eventually(lambda: self.at(name).get("/readyz").status == 200, 120, f"{name} is ready again")
