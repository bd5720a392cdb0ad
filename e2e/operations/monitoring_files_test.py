"""The files of configs/monitoring: made from the tables, in a form that Grafana and Prometheus take, about metrics that there are (OP-601
to OP-603). `promtool` is in Debian's package `prometheus`."""
import re
import shutil
import subprocess
import sys
import unittest

import monitoring

WORDS = {"sum", "min", "max", "count", "rate", "increase", "changes", "histogram_quantile", "label_replace", "time", "vector", "and", "or"}
OTHERS = {"up", "ALERTS", "kintsugi:error_ratio:5m", "kintsugi:error_ratio:1h"}  # Prometheus' own, and our recording rules
UNITS = {"none", "short", "s", "bytes", "Bps", "ops", "reqps", "percentunit"}


def documented():
    """Names of series that docs/metrics.md has."""
    found = set()
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", (monitoring.ROOT / "docs" / "metrics.md").read_text(encoding="utf-8"), re.MULTILINE):
        found |= {name + part for part in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
    return found


def metrics_of(query):
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|on) \([^)]*\)', " ", query)
    return set(re.findall(r"[a-zA-Z_:][\w:]*", bare)) - WORDS


class Files(unittest.TestCase):
    def test_OP_601_OP_602_they_are_what_the_tables_make(self):
        run = subprocess.run([sys.executable, monitoring.MAKER / "make.py", "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_OP_603_they_name_no_metric_that_is_not_documented(self):
        known = documented()
        queries = {**monitoring.board_queries(), **monitoring.alert_queries(), **{one.name: [one.expr] for one in monitoring.module("alerts").RECORDS}}
        for where, asked in queries.items():
            for query in asked:
                self.assertTrue(metrics_of(query), query)
                self.assertEqual(metrics_of(query) - known - OTHERS, set(), where)
        self.assertEqual(set(monitoring.ONLY_WHEN) - set(queries), set())

    def test_OP_602_boards_are_of_a_form_that_grafana_takes(self):
        found = monitoring.boards()
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

    def test_OP_601_OP_T601_each_alert_fires_at_its_time_and_not_otherwise(self):
        if not shutil.which("promtool"):
            self.skipTest("no promtool on this machine (Debian: prometheus)")
        for words in (["check", "rules", "kintsugi.rules.yml"], ["test", "rules", "kintsugi.rules.test.yml"]):
            run = subprocess.run(["promtool", *words], cwd=monitoring.FOLDER, capture_output=True, text=True, check=False)
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        tested = re.findall(r"alertname: (\w+)", (monitoring.FOLDER / "kintsugi.rules.test.yml").read_text(encoding="utf-8"))
        for one in monitoring.module("alerts").ALERTS:
            self.assertGreaterEqual(tested.count(one.name), 2, one.name)


if __name__ == "__main__":
    unittest.main()
