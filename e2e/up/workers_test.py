"""`kintsugi up --workers`: what a role needs is installed, its worker is a process as the shards are, and workspaces may bind its kinds."""
import json
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import unittest

import kit

APIS = "/apis/apis.kcp.io/v1alpha2"
TENANCY = "/apis/tenancy.kcp.io/v1alpha1"
GREETINGS = "/apis/example.kintsugi.dev/v1alpha1/namespaces/default/greetings"
CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"


class Installed(kit.Installation):
    """With workers of a role."""

    def __init__(self, *options, role="example", shards=2):
        super().__init__("--workers", role, *options, shards=shards)
        self.role = role

    def ask(self, path, socket=""):
        made = subprocess.run(["curl", "-s", "-w", "\n%{http_code}", "--max-time", "5", "--unix-socket",
                               str(self.state / "run" / f"worker-{self.role}{socket}.sock"), f"http://worker{path}"], capture_output=True, text=True,
                              check=False)  # fmt: skip
        text, _, code = made.stdout.rpartition("\n")
        return int(code or 0), text

    def consumer(self, shard):
        """A client of a new workspace on this shard that binds the greetings."""
        self.make_workspace(f"consumer-{shard}", selector={"name": shard})
        client = self.client(f"/clusters/root:consumer-{shard}")
        client.must("POST", APIS + "/apibindings", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "greetings"},
            "spec": {"reference": {"export": {"path": "root:example", "name": "greetings"}}}})
        kit.eventually(lambda: client.get(GREETINGS).status == 200, 30, "greetings are served")
        return client

    @staticmethod
    def greet(client, name, deadline=20):
        client.must("POST", GREETINGS, {"apiVersion": "example.kintsugi.dev/v1alpha1", "kind": "Greeting", "metadata": {"name": name},
                                        "spec": {"name": name}})  # fmt: skip
        kit.eventually(lambda: client.must("GET", f"{GREETINGS}/{name}").get("status", {}).get("message") == f"Hello, {name}!", deadline,
                       f"hello to {name}")  # fmt: skip

    def with_shards(self, shards):
        self.options[self.options.index("--shards") + 1] = str(shards)


class Workers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = Installed().start_for(cls)
        cls.consumers = {shard: cls.installation.consumer(shard) for shard in ("root", "shard-1")}

    def test_1_the_start_waits_for_the_worker(self):
        self.assertEqual(self.installation.ask("/readyz")[0], 200)
        self.assertIn("workqueue_depth", self.installation.ask("/metrics", ".metrics")[1])
        self.assertGreater(self.installation.pid("worker-example"), 0)
        self.assertTrue((self.installation.state / "logs" / "worker-example.log").exists())

    def test_1_OP_110_kintsugi_get_workers_asks_them_now(self):
        """The first who asks is told of them, too: nobody has looked before."""
        run = subprocess.run([kit.BINARY, "get", "workers", "--admin", self.installation.state / "run/admin.sock"], capture_output=True, text=True,
                             timeout=60, check=True)
        head, line = run.stdout.splitlines()
        self.assertEqual(head.split(), ["INSTANCE", "ROLE", "READY", "UNITS", "QUEUE", "RING", "REASON"])
        self.assertEqual(line.split()[:3], ["worker-example", "example", "yes"])

    def test_1_consumers_on_every_shard_are_served(self):
        for shard, client in self.consumers.items():
            with self.subTest(shard):
                self.installation.greet(client, "first-" + shard)

    def test_1_what_is_secret_is_its_owners_alone(self):
        state = self.installation.state
        for name in ("workers/example/worker.kubeconfig", "pki/worker-example.key"):
            self.assertEqual(stat.S_IMODE((state / name).stat().st_mode), 0o600, name)
        subject = subprocess.run(["openssl", "x509", "-noout", "-subject", "-in", str(state / "pki/worker-example.crt")], capture_output=True,
                                 text=True, check=True).stdout  # fmt: skip
        self.assertRegex(subject, r"O ?= ?example-workers, ?CN ?= ?example-worker")

    def test_1_the_worker_may_do_no_more_than_its_role_needs(self):
        worker = self.installation.client("/clusters/root:example", cert="worker-example")
        self.assertEqual(worker.get("/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/workers").status, 200)
        self.assertEqual(worker.get("/api/v1/namespaces/default/secrets").status, 403)
        for cluster in ("root", "root:consumer-root"):
            client = self.installation.client("/clusters/" + cluster, cert="worker-example")
            self.assertEqual(client.get("/api/v1/namespaces/default/configmaps").status, 403, cluster)

    def test_2_a_killed_worker_comes_back_by_itself(self):
        before = self.installation.pid("worker-example")
        self.installation.kill("worker-example")
        kit.eventually(lambda: self.installation.pid("worker-example") != before, 10, "a new process")
        kit.eventually(lambda: self.installation.ask("/readyz")[0] == 200, 40, "ready again")
        for shard, client in self.consumers.items():
            self.installation.greet(client, "again-" + shard, 40)

    def test_3_a_second_start_finds_all_and_writes_nothing(self):
        def versions():
            out = {}
            for path in ("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", APIS + "/apiexports", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                         "/apis/topology.kcp.io/v1alpha1/partitions", TENANCY + "/workspaces"):  # fmt: skip
                for item in self.installation.client("/clusters/root:example").must("GET", path)["items"]:
                    out[path, item["metadata"]["name"]] = item["metadata"]["resourceVersion"]
            return out

        before = versions()
        self.assertGreaterEqual(len(before), 6)
        self.assertEqual(self.installation.stop(), 0)
        self.assertEqual(list((self.installation.state / "run").glob("*.pid")), [])
        self.installation.start()
        self.assertEqual(versions(), before)
        for shard, client in self.consumers.items():
            self.installation.greet(client, "restarted-" + shard, 40)

    def test_4_a_shard_that_joins_is_served(self):
        state = self.installation.state
        with (self.installation.dir / "far.log").open("wb") as log:
            # pylint: disable-next=consider-using-with
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(state), "--name", "far", "--allow-root"], stdin=subprocess.DEVNULL,
                                     stdout=log, stderr=log)  # fmt: skip

        def served():
            self.installation.process.send_signal(signal.SIGHUP)
            return "root:example:leases-far" in (state / "workers/example/worker.yaml").read_text()

        try:
            kit.eventually(served, 30, "the worker is told")
            client = self.installation.consumer("far")
            self.installation.greet(client, "far-away", 40)
            kit.eventually(lambda: self.installation.ask("/readyz")[0] == 200, 20, "all units follow their rings")
        finally:
            self.installation.client().request("DELETE", "/apis/core.kcp.io/v1alpha1/shards/far")
            shard.send_signal(signal.SIGTERM)
            shard.wait(120)

    def test_5_more_shards_are_served_and_fewer_do_no_harm(self):
        self.assertEqual(self.installation.stop(), 0)
        self.installation.with_shards(3)
        self.installation.start()
        self.installation.greet(self.installation.consumer("shard-2"), "third")
        self.assertEqual(self.installation.stop(), 0)
        self.installation.with_shards(2)
        self.installation.start(60)
        for shard, client in self.consumers.items():
            self.installation.greet(client, "fewer-" + shard, 40)
        self.assertEqual(self.installation.ask("/readyz")[0], 200)


class Refused(unittest.TestCase):
    def test_a_role_that_is_not_there_is_named(self):
        for roles, text in (("nonsense", '--workers: "nonsense" is no role; known: '), ("example,example", '--workers: "example" is there twice'),
                            ("example,", "--workers: ")):  # fmt: skip
            run = subprocess.run([str(kit.BINARY), "up", f"--workers={roles}", "--dir", "/proc/nowhere"], capture_output=True, text=True, timeout=60,
                                 check=False)  # fmt: skip
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(text, run.stderr)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)

    def test_a_worker_that_cannot_start_ends_with_one_line(self):
        installation = Installed(shards=1)
        self.addCleanup(shutil.rmtree, installation.dir)
        (installation.state / "workers" / "example" / "data").mkdir(parents=True)
        (installation.state / "workers" / "example" / "data" / "example").write_text("in the way")
        run = subprocess.run([str(kit.BINARY), "up", *installation.options], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("worker-example could not start: ", run.stderr)


def known_roles():
    told = subprocess.run([str(kit.BINARY), "worker", "--roles=?"], capture_output=True, text=True, timeout=60, check=False).stderr
    return re.sub(r".*known: ", "", told).strip().split(", ")


@unittest.skipUnless("messaging" in known_roles(), "this program has no role `messaging`")
class Messaging(unittest.TestCase):
    def test_the_binding_of_the_examples_works_at_once(self):
        with Installed(role="messaging") as installation:
            for shard in ("root", "shard-1"):
                installation.make_workspace("uses-" + shard, selector={"name": shard})
                place = f"/clusters/root:uses-{shard}"
                installation.kubectl("apply", "-f", str(CONFIGS / "messaging" / "examples" / "binding.yaml"), server=place)
                client = installation.client(place)

                def bound(client=client):
                    status = client.must("GET", APIS + "/apibindings/messaging")["status"]
                    assert status["phase"] == "Bound" and all(one["status"] == "True" for one in status["conditions"]), json.dumps(status)
                    return client.get("/apis/enmasse.io/v1beta1/namespaces/default/addressspaces").status == 200

                kit.eventually(bound, 30, "bound and served")


if __name__ == "__main__":
    unittest.main()
