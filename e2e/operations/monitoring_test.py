"""configs/monitoring over a running installation: its README typed as it stands, a real Prometheus, and every query of boards and alerts
asked of it (OP-601 to OP-604). Debian's `prometheus`; a `grafana` where there is one."""
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest
import urllib.parse
import urllib.request

import kit
import typed

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "configs" / "monitoring"
MAKER = ROOT / "tools" / "monitoring"
MAPS = "/api/v1/namespaces/default/configmaps"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
GREETINGS = "/apis/example.kintsugi.dev/v1alpha1/namespaces/default/greetings"
WORDS = {"sum", "min", "max", "count", "rate", "increase", "changes", "histogram_quantile", "label_replace", "time", "vector", "and", "or"}
OTHERS = {"up", "ALERTS", "kintsugi:error_ratio:5m", "kintsugi:error_ratio:1h"}  # Prometheus' own, and our recording rules
UNITS = {"none", "short", "s", "bytes", "Bps", "ops", "reqps", "percentunit"}
# What has nothing to show in an installation where all is well, and why.
MESSAGING = "with role messaging alone"
ONLY_WHEN = {
    "kintsugi-overview: Refused": "a limit was reached",
    "kintsugi-processes: Abuse": "a client did something that brings nothing",
    "kintsugi-topology: Errors": "what was computed could not be written",
    "kintsugi-workers: Starts": "a supervisor of several roles has them",
    "kintsugi-workers: Messaging: addresses": MESSAGING, "kintsugi-workers: Messaging: entities to come": MESSAGING,
    "kintsugi-workers: Messaging: management requests": MESSAGING,
    "kintsugi-shards: Admission webhooks": "a workspace has one",
    "KintsugiTopologyErrors": "what was computed could not be written",
}


def module(name):
    if str(MAKER) not in sys.path:
        sys.path.insert(0, str(MAKER))
    return __import__(name)


def boards():
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((FOLDER / "grafana" / "dashboards").glob("*.json"))]


def documented():
    """Names of series that docs/metrics.md has."""
    found = set()
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"), re.MULTILINE):
        found |= {name + part for part in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return found


def metrics_of(query):
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|on) \([^)]*\)', " ", query)
    return set(re.findall(r"[a-zA-Z_:][\w:]*", bare)) - WORDS


def board_queries():
    return {f"{board['uid']}: {panel['title']}": [target["expr"] for target in panel["targets"]] for board in boards() for panel in board["panels"]}


def alert_queries():
    """What alerts look at, without the bound that is wrong."""
    return {one.name: [one.left, *([one.more.rpartition(" > ")[0]] if one.more else [])] for one in module("alerts").ALERTS}


class Files(unittest.TestCase):
    def test_OP_601_OP_602_they_are_what_the_tables_make(self):
        run = subprocess.run([sys.executable, MAKER / "make.py", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_OP_603_they_name_no_metric_that_is_not_documented(self):
        known = documented()
        queries = {**board_queries(), **alert_queries(), **{one.name: [one.expr] for one in module("alerts").RECORDS}}
        for where, asked in queries.items():
            for query in asked:
                self.assertTrue(metrics_of(query), query)
                self.assertEqual(metrics_of(query) - known - OTHERS, set(), where)
        self.assertEqual(set(ONLY_WHEN) - set(queries), set())

    def test_OP_602_boards_are_of_a_form_that_grafana_takes(self):
        found = boards()
        self.assertEqual(len({board["uid"] for board in found}), 6)
        for board in found:
            with self.subTest(board["uid"]):
                self.assertGreaterEqual(board["schemaVersion"], 38)
                chosen = [one["name"] for one in board["templating"]["list"]]
                self.assertEqual(chosen[0], "datasource")
                self.assertEqual(sorted(panel["id"] for panel in board["panels"]), list(range(1, len(board["panels"]) + 1)))
                self.assertEqual(len({panel["title"] for panel in board["panels"]}), len(board["panels"]))
                places = set()
                for panel in board["panels"]:
                    at = panel["gridPos"]
                    self.assertLessEqual(at["x"] + at["w"], 24)
                    taken = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
                    self.assertFalse(places & taken, panel["title"])
                    places |= taken
                    self.assertIn(panel["type"], ("stat", "timeseries"))
                    self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS)
                    for target in panel["targets"]:
                        self.assertEqual(target["datasource"], {"type": "prometheus", "uid": "${datasource}"})
                        self.assertEqual(set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"} - set(chosen), set(), panel["title"])
                unused = {name for name in chosen[1:] if not any("$" + name in target["expr"] for panel in board["panels"] for target in panel["targets"])}
                self.assertEqual(unused, set())

    def test_OP_601_each_alert_fires_at_its_time_and_not_otherwise(self):
        if not shutil.which("promtool"):
            self.skipTest("no promtool on this machine (Debian: prometheus)")
        for words in (["check", "rules", "kintsugi.rules.yml"], ["test", "rules", "kintsugi.rules.test.yml"]):
            run = subprocess.run(["promtool", *words], cwd=FOLDER, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        tested = re.findall(r"alertname: (\w+)", (FOLDER / "kintsugi.rules.test.yml").read_text(encoding="utf-8"))
        for one in module("alerts").ALERTS:
            self.assertGreaterEqual(tested.count(one.name), 2, one.name)


class Prometheus:
    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path, **words):
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(words)}", timeout=20) as answer:
            return json.load(answer)["data"]

    def asked(self, query):
        """What a board or an alert asks, with everything chosen, over the seconds of this test."""
        return self.get("query", query=re.sub(r"\$(instance|shard|job)", ".*", query.replace("$__rate_interval", "15s")))["result"]


class Load(threading.Thread):
    """Somebody uses the installation."""

    def __init__(self, installation, consumer):
        super().__init__(daemon=True)
        self.clients = [installation.client(), installation.client("/clusters/root:far"), installation.client("/clusters/*"), consumer]
        self.over = threading.Event()
        self.start()

    def run(self):
        root, far, everywhere, consumer = self.clients
        greeting = {"apiVersion": "example.kintsugi.dev/v1alpha1", "kind": "Greeting", "spec": {"name": "Ada"}}
        turn = 0
        while not self.over.wait(0.05):
            turn += 1
            for ask in (lambda: far.request("POST", MAPS, {"metadata": {"name": f"m-{turn}"}}), lambda: far.get(MAPS), lambda: root.get(MAPS + "/none"),
                        lambda: everywhere.get("/api/v1/configmaps"), lambda: everywhere.get("/api/v1/configmaps?watch=1&resourceVersion=17"),
                        lambda: consumer.request("POST", GREETINGS, {**greeting, "metadata": {"name": f"g-{turn}"}})):
                try:
                    ask()
                except OSError:
                    pass


class Live(unittest.TestCase):
    """The commands of the README, one after another, with other ports and a reading each second; then every query."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("prometheus"):
            raise unittest.SkipTest("no prometheus on this machine (Debian: prometheus)")
        cls.installation = installation = kit.Installation("--workers", "example", shards=2).start_for(cls)
        cls.folder = installation.dir
        (cls.folder / ".kintsugi").symlink_to(installation.state)
        (cls.folder / "configs").symlink_to(ROOT / "configs")
        cls.port = kit.free_port()
        installation.make_workspace("far", selector={"name": "shard-1"})
        cls.shell = typed.Shell(cls.folder)
        cls.addClassCleanup(cls.shell.close)
        for command, printed in typed.steps((FOLDER / "README.md").read_text(encoding="utf-8")):
            if command.startswith("configs/monitoring/prepare"):
                cls.worker_port = cls.start_worker()
                typed.check(cls.shell, f"{command} --worker 127.0.0.1:{cls.worker_port}", printed)  # as many as three shards and no worker
                config = installation.state / "monitoring" / "prometheus.yml"
                config.write_text(config.read_text(encoding="utf-8").replace("15s", "1s"), encoding="utf-8")
            elif "grafana server" not in command or shutil.which("grafana"):
                typed.check(cls.shell, command.replace("9090", str(cls.port)), printed)
        cls.prometheus = Prometheus(cls.port)
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
        kit.eventually(lambda: client.get(GREETINGS).status == 200, 30, "greetings are served")
        return client

    def test_1_OP_604_every_target_is_read(self):
        def read():
            targets = self.prometheus.get("targets")["activeTargets"]
            assert all(one["health"] == "up" for one in targets), targets
            return sorted((one["labels"]["job"], one["labels"]["instance"]) for one in targets)

        worker = f"127.0.0.1:{self.worker_port}"
        wanted = [("kintsugi-proxy", "proxy"), ("kintsugi-shard", "root"), ("kintsugi-shard", "shard-1"), ("kintsugi-worker", worker)]
        kit.eventually(lambda: read() == wanted, 20)

    def test_1_OP_604_the_reader_may_do_nothing_else(self):
        pair = [self.installation.state / "monitoring" / f"prometheus.{part}" for part in ("crt", "key")]
        for base in (f"https://127.0.0.1:{self.installation.port}", self.installation.shard_url("shard-1")):
            client = kit.Client(base, self.installation.pki / "serving-ca.crt", *pair)
            self.assertEqual([client.get(path).status for path in ("/metrics", "/clusters/root/api/v1/namespaces", "/clusters/root" + MAPS,
                                                                   "/clusters/*/api/v1/configmaps")], [200, 403, 403, 403])  # fmt: skip

    def test_2_OP_603_every_query_of_boards_and_alerts_shows_something(self):
        watch = kit.Watch(self.installation.client("/clusters/*"), "/api/v1/configmaps?watch=1")
        self.installation.client("/clusters/root").must("POST", SLICES, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "lost"},
            "spec": {"export": {"path": "root:example", "name": "greetings"}, "partition": "none"}})
        kit.eventually(lambda: watch.events, 20, "a watch over all shards")
        self.installation.kill("shard-1", signal.SIGSTOP)  # long enough for requests to fail
        try:
            kit.eventually(lambda: self.prometheus.asked('kintsugi_requests_total{code=~"5.."}'), 30, "requests that fail")
        finally:
            self.installation.kill("shard-1", signal.SIGKILL)
        queries = {**board_queries(), **alert_queries()}
        silent = []

        def shown():
            silent[:] = [f"{where}: {query}" for where, asked in queries.items() for query in asked
                         if not self.prometheus.asked(query) and where not in ONLY_WHEN]  # fmt: skip
            assert not silent, "\n".join(silent)
            return True

        kit.eventually(shown, 40, "every query shows something")

        def moves(board):
            return any(len({value for _, value in row["values"]}) > 1 for panel in board["panels"] for target in panel["targets"]
                       for row in self.prometheus.get("query_range", query=re.sub(r"\$(instance|shard|job)", ".*", target["expr"].replace(
                           "$__rate_interval", "15s")), start=now - 10, end=now, step=1)["result"])  # fmt: skip

        now = float(self.prometheus.get("query", query="time()")["result"][1])
        for board in boards():
            self.assertTrue(moves(board), board["uid"])

    def test_3_OP_601_rules_are_evaluated_without_a_fault(self):
        def rules():
            found = [rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]]
            assert all(rule["health"] == "ok" for rule in found), found
            return len(found) == len(module("alerts").ALERTS) + len(module("alerts").RECORDS)

        kit.eventually(rules, 20)

    def test_4_OP_604_a_grafana_that_is_there_has_the_boards(self):
        if not shutil.which("grafana"):
            self.skipTest("no grafana on this machine (Debian has none)")

        def has(uid):
            with urllib.request.urlopen(f"http://admin:admin@127.0.0.1:3000/api/dashboards/uid/{uid}", timeout=20) as answer:
                return answer.status == 200

        for board in boards():
            kit.eventually(lambda board=board: has(board["uid"]), 60, board["uid"])


if __name__ == "__main__":
    unittest.main()
