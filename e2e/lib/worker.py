"""`kintsugi worker` for tests: the example's kind, a provider, consumers on each shard, and processes of the role `example`."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import kit
import steady

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs" / "worker"
APIS = "/apis/apis.kcp.io/v1alpha2"
GREETINGS = "/apis/example.kintsugi.dev/v1alpha1/namespaces/default/greetings"
USER = "greeter"
MIGRATIONS = "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations"


def move(installation, name, cluster, shard):
    """A logical cluster goes to another shard; returns when it is over."""
    root = installation.client()
    body = {"apiVersion": "migration.kcp.io/v1alpha1", "kind": "LogicalClusterMigration", "metadata": {"name": name},
            "spec": {"logicalCluster": cluster, "destinationShard": shard}}
    kit.eventually(lambda: root.request("POST", MIGRATIONS, body).status in (201, 409))

    def over():
        found = root.must("GET", f"{MIGRATIONS}/{name}").get("status", {})
        assert found.get("phase") == "Completed", found
        return True

    kit.eventually(over, 60, f"{cluster} is at {shard}")


class Stage:
    """A provider's workspace `greetings` with the export and the slice, and on each shard a workspace for Leases and a consumer."""

    SHARDS = ("root", "shard-1", "shard-2")
    user, groups = USER, ()
    endpoints = {"cluster": "root:greetings", "name": "workers"}

    def __init__(self, installation):
        self.installation = installation
        installation.user_client(USER)  # its pair
        self.apply("root", "root-rbac.yaml")
        installation.make_workspace("greetings", selector={"name": "root"})
        for file in ("export.yaml", "provider-rbac.yaml"):
            self.apply("root:greetings", file)
        self.consumers = {}
        for shard in self.SHARDS:
            installation.make_workspace(f"leases-{shard}", selector={"name": shard})
            self.apply(f"root:leases-{shard}", "lease-rbac.yaml")
            installation.make_workspace(f"consumer-{shard}", selector={"name": shard})
            self.consumers[shard] = self.bind(f"consumer-{shard}")

    def apply(self, workspace, file):
        kit.eventually(lambda: self.installation.kubectl("apply", "-f", str(CONFIGS / file), server=f"/clusters/{workspace}") or True,
                       30, f"{file} applied")  # fmt: skip

    def bind(self, workspace):
        client = steady.steady(self.installation.client(f"/clusters/root:{workspace}"))
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "greetings"},
                "spec": {"reference": {"export": {"path": "root:greetings", "name": "greetings"}}}}
        kit.eventually(lambda: client.request("POST", APIS + "/apibindings", body).status in (201, 409), what="binding made")
        kit.eventually(lambda: client.get(GREETINGS).status == 200, 30, "greetings are served")
        return client

    @staticmethod
    def greeting(name, who):
        return {"apiVersion": "example.kintsugi.dev/v1alpha1", "kind": "Greeting", "metadata": {"name": name}, "spec": {"name": who}}


class Worker:
    """One process. `more`: keys of the role's configuration besides. `server`: of its kubeconfig, instead of the proxy."""

    def __init__(self, stage, role="example", more=None, flags=(), server=None):
        self.folder = tempfile.TemporaryDirectory(prefix="kintsugi-worker-")
        self.dir = pathlib.Path(self.folder.name)
        self.stage = stage
        installation = stage.installation
        self.health, user = kit.free_port(), stage.user
        kubeconfig = self.dir / "kubeconfig"
        kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "base",
            "contexts": [{"name": "base", "context": {"cluster": "base", "user": user}}],
            "clusters": [{"name": "base", "cluster": {"server": server or f"https://127.0.0.1:{installation.port}",
                                                      "certificate-authority": str(installation.pki / "serving-ca.crt")}}],
            "users": [{"name": user, "user": {"client-certificate": str(installation.dir / f"user-{user}.crt"),
                                              "client-key": str(installation.dir / f"user-{user}.key")}}]}))
        kubeconfig.chmod(0o600)
        config = {"apiVersion": "kintsugi.dev/v1alpha1", "kind": "WorkerConfiguration", "kubeconfig": str(kubeconfig),
                  "data_dir": str(self.dir / "data"), "health_probe_bind_address": f"127.0.0.1:{self.health}",
                  "metrics_bind_address": f"127.0.0.1:{kit.free_port()}",
                  "roles": {role: {"endpoints": stage.endpoints,
                                   "lease_clusters": [f"root:leases-{shard}" for shard in stage.SHARDS], **(more or {})}}}
        self.config = self.dir / "worker.yaml"
        self.config.write_text(json.dumps(config))
        self.metrics_address = config["metrics_bind_address"]
        self.log = self.dir / "log"
        self.flags = flags
        self.role = role
        self.process = None

    def start(self):
        with self.log.open("ab") as out:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen([os.environ["KINTSUGI"], "worker", f"--roles={self.role}", f"--config={self.config}",
                                             *self.flags], stdout=out, stderr=out, stdin=subprocess.DEVNULL)  # fmt: skip
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(120)
        self.folder.cleanup()

    def ask(self, path, address=None):
        made = subprocess.run(["curl", "-s", "-o", "-", "-w", "\n%{http_code}", "--max-time", "5",
                               f"http://{address or f'127.0.0.1:{self.health}'}{path}"], capture_output=True, text=True, check=False)
        text, _, code = made.stdout.rpartition("\n")
        return int(code or 0), text

    def ready(self):
        code, text = self.ask("/readyz")
        assert code == 200, (code, text, self.log.read_text()[-3000:])
        return True

    def until_ready(self, deadline=40):
        kit.eventually(self.ready, deadline, "the worker is ready")
        return self

    def metrics(self):
        return self.ask("/metrics", self.metrics_address)[1]

    def metric(self, name, **labels):
        """The sum of a metric's values with these labels."""
        total = 0.0
        for line in self.metrics().splitlines():
            head, _, value = line.rpartition(" ")
            base, _, rest = head.partition("{")
            if base == name and all(f'{key}="{want}"' in rest for key, want in labels.items()):
                total += float(value)
        return total

    def stop(self, deadline=30):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(deadline)


class Case(unittest.TestCase):
    """Tests that share an installation with a stage."""

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.stage = Stage(cls.installation)

    def greet(self, shard, name, who):
        """Makes a Greeting; returns what reads its message."""
        client, path = self.stage.consumers[shard], f"{GREETINGS}/{name}"
        client.must("POST", GREETINGS, self.stage.greeting(name, who))
        self.addCleanup(client.request, "DELETE", path)
        return lambda: client.must("GET", path).get("status", {}).get("message")

    @staticmethod
    def expect(read, who, deadline=15):
        kit.eventually(lambda: read() == f"Hello, {who}!", deadline, f"hello to {who}")
