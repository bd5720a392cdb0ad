"""configs/monitoring over a running installation: its README typed as it stands, a real Prometheus, and every query of boards and alerts
asked of it (OP-603, OP-604). Debian's `prometheus`; a `grafana` where there is one."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import unittest
import urllib.parse
import urllib.request

import kit
import monitoring
import typed

MAPS = "/api/v1/namespaces/default/configmaps"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
GREETINGS = "/apis/example.kintsugi.dev/v1alpha1/namespaces/{}/greetings"
SETS = "/apis/topology.kcp.io/v1alpha1/partitionsets"
SPACES = 16  # whose greetings workers share among them


def filled(query):
    return re.sub(r"\$(instance|shard|job)", ".*", query.replace("$__rate_interval", "15s"))


class Prometheus:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path, **words):
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(words)}", timeout=20) as answer:
            return json.load(answer)["data"]

    def asked(self, query):
        """The numbers that a board or an alert gets, with everything chosen, over the seconds of this test."""
        return [row for row in self.get("query", query=filled(query))["result"] if row["value"][1] != "NaN"]

    def moves(self, query):
        now = float(self.get("query", query="time()")["result"][1])
        rows = self.get("query_range", query=filled(query), start=now - 10, end=now, step=1)["result"]
        return any(len({value for _, value in row["values"]}) > 1 for row in rows)


class Load(threading.Thread):
    """Somebody uses the installation."""

    def __init__(self, installation, consumer):
        super().__init__(daemon=True)
        self.clients = [installation.client(), installation.client("/clusters/root:far"), installation.client("/clusters/*"), consumer]
        self.over = threading.Event()
        self.start()

    def run(self):
        root, far, everywhere, consumer = self.clients
        for number in range(SPACES):
            consumer.request("POST", "/api/v1/namespaces", {"metadata": {"name": f"space-{number}"}})
        turn = 0
        while not self.over.wait(0.05):
            turn += 1
            name = {"metadata": {"name": f"one-{turn}"}}
            for client, *request in (
                    (far, "POST", MAPS, name), (far, "GET", MAPS), (root, "GET", MAPS + "/none"), (everywhere, "GET", "/api/v1/configmaps"),
                    (everywhere, "GET", "/api/v1/configmaps?watch=1&resourceVersion=17"),
                    (root, "POST", SETS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", **name, "spec": {"dimensions": ["name"]}}),
                    (consumer, "POST", GREETINGS.format(f"space-{turn % SPACES}"), {
                        "apiVersion": "example.kintsugi.dev/v1alpha1", "kind": "Greeting", **name, "spec": {"name": "Ada"}})):  # fmt: skip
                with contextlib.suppress(OSError, http.client.HTTPException):
                    client.request(*request)


class Live(unittest.TestCase):
    """The commands of the README, one after another, with other ports and a reading each second; then every query."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("prometheus"):
            raise unittest.SkipTest("no prometheus on this machine (Debian: prometheus)")
        cls.installation = installation = kit.Installation("--workers", "example", shards=2).start_for(cls)
        cls.folder = installation.dir
        (cls.folder / ".kintsugi").symlink_to(installation.state)
        (cls.folder / "configs").symlink_to(monitoring.ROOT / "configs")
        cls.port = kit.free_port()
        cls.shell = typed.Shell(cls.folder)
        cls.addClassCleanup(cls.shell.close)
        for command, printed in typed.steps((monitoring.FOLDER / "README.md").read_text(encoding="utf-8")):
            if command.startswith("configs/monitoring/prepare"):
                cls.worker_port = cls.start_worker()
                typed.check(cls.shell, f"{command} --worker 127.0.0.1:{cls.worker_port}", printed)  # as many as three shards and no worker
                config = installation.state / "monitoring" / "prometheus.yml"
                config.write_text(config.read_text(encoding="utf-8").replace("15s", "1s"), encoding="utf-8")
            elif "grafana server" not in command or shutil.which("grafana"):
                typed.check(cls.shell, command.replace("9095", str(cls.port)), printed)
        cls.prometheus = Prometheus(cls.port)
        installation.make_workspace("far", selector={"name": "shard-1"})
        cls.load = Load(installation, cls.bind())
        cls.addClassCleanup(cls.load.join)
        cls.addClassCleanup(cls.load.over.set)

    @classmethod
    def start_worker(cls):
        """One more worker of the role, with a port as services have it. Its part of the work is the ring's to say."""
        port = kit.free_port()
        process = subprocess.Popen([kit.BINARY, "worker", "--config", cls.installation.state / "workers/example/worker.yaml", "--data-dir",
                                    cls.folder / "worker", "--metrics-bind-address", f"127.0.0.1:{port}", "--health-probe-bind-address", "0"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.kill)
        return port

    @classmethod
    def bind(cls):
        cls.installation.make_workspace("consumer", selector={"name": "root"})
        client = cls.installation.client("/clusters/root:consumer")
        client.must("POST", "/apis/apis.kcp.io/v1alpha2/apibindings", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "greetings"},
            "spec": {"reference": {"export": {"path": "root:example", "name": "greetings"}}}})
        kit.eventually(lambda: client.get(GREETINGS.format("default")).status == 200, 30, "greetings are served")
        return client

    def test_1_OP_604_every_target_is_read(self):
        def read():
            targets = self.prometheus.get("targets")["activeTargets"]
            assert all(one["health"] == "up" for one in targets), targets
            return sorted((one["labels"]["job"], one["labels"]["instance"]) for one in targets)

        worker = f"127.0.0.1:{self.worker_port}"
        wanted = [("kintsugi-proxy", "proxy"), ("kintsugi-shard", "root"), ("kintsugi-shard", "shard-1"), ("kintsugi-worker", worker)]
        kit.eventually(lambda: read() == wanted, 20)

    def test_1_OP_403_prometheus_reads_open_metrics_of_all(self):
        """It asks for OpenMetrics; only there families of counters are named without _total, and have a unit."""
        jobs = {"kintsugi-proxy", "kintsugi-shard", "kintsugi-worker"}

        def told():
            rows = self.prometheus.get("targets/metadata", metric="process_cpu_seconds")
            return {row["target"]["job"] for row in rows if (row["type"], row["unit"]) == ("counter", "seconds")} == jobs and rows
        kit.eventually(told, 20, "metadata of all")
        self.assertEqual(self.prometheus.get("targets/metadata", metric="process_cpu_seconds_total"), [])
        self.assertEqual({one["lastError"] for one in self.prometheus.get("targets")["activeTargets"]}, {""})

    def test_1_OP_604_the_reader_may_do_nothing_else(self):
        pair = [self.installation.state / "monitoring" / f"prometheus.{part}" for part in ("crt", "key")]
        for base in (f"https://127.0.0.1:{self.installation.port}", self.installation.shard_url("shard-1")):
            client = kit.Client(base, self.installation.pki / "serving-ca.crt", *pair)
            self.assertEqual([client.get(path).status for path in ("/metrics", "/clusters/root/api/v1/namespaces", "/clusters/root" + MAPS,
                                                                   "/clusters/*/api/v1/configmaps")], [200, 403, 403, 403])  # fmt: skip

    def test_2_OP_603_OP_T601_every_query_of_boards_and_alerts_shows_something(self):
        watch = kit.Watch(self.installation.client("/clusters/*"), "/api/v1/configmaps?watch=1")
        self.installation.client("/clusters/root").must("POST", SLICES, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "lost"},
            "spec": {"export": {"path": "root:example", "name": "greetings"}, "partition": "none"}})
        kit.eventually(lambda: watch.events, 20, "a watch over all shards")
        os.kill(self.installation.pid("proxy"), signal.SIGHUP)  # it reads its files again

        def failed():
            """The shard dies again and again, so that in the end not even those are answered that waited for it."""
            found = self.prometheus.asked('kintsugi_requests_total{code=~"5.."}')
            if not found:
                self.installation.kill("shard-1")
            return found

        kit.eventually(failed, 30, "requests that fail")
        queries = {**monitoring.board_queries(), **monitoring.alert_queries()}
        silent = []

        def shown():
            silent[:] = [f"{where}: {query}" for where, asked in queries.items() for query in asked
                         if not self.prometheus.asked(query) and where not in monitoring.ONLY_WHEN]  # fmt: skip
            assert not silent, "\n".join(silent)
            return True

        kit.eventually(shown, 40, "every query shows something")

        for board in monitoring.boards():
            self.assertTrue(any(self.prometheus.moves(target["expr"]) for panel in board["panels"] for target in panel["targets"]), board["uid"])

    def test_3_OP_601_rules_are_evaluated_without_a_fault(self):
        def rules():
            found = [rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]]
            assert all(rule["health"] == "ok" for rule in found), found
            return len(found) == len(monitoring.module("alerts").ALERTS) + len(monitoring.module("alerts").RECORDS)

        kit.eventually(rules, 20)

    def test_4_OP_604_a_grafana_that_is_there_has_the_boards(self):
        if not shutil.which("grafana"):
            self.skipTest("no grafana on this machine (Debian has none)")

        def has(uid):
            with urllib.request.urlopen(f"http://admin:admin@127.0.0.1:3000/api/dashboards/uid/{uid}", timeout=20) as answer:
                return answer.status == 200

        for board in monitoring.boards():
            kit.eventually(lambda board=board: has(board["uid"]), 60, board["uid"])


if __name__ == "__main__":
    unittest.main()
