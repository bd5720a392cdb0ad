#!/usr/bin/env python3
"""Makes the boards, the rules with their tests and the PrometheusRule of configs/monitoring from the tables beside this file.
Usage: make.py [--check]   --check: writes nothing, ends with 1 where a file is another than the tables make."""
import json
import pathlib
import sys

import alerts
import boards

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "configs" / "monitoring"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
VARIABLES = {"job": ("label_values(up{job=~\"kintsugi-.*\"}, job)", "Job"), "instance": ('label_values(up{job=~"kintsugi-.*"}, instance)', "Instance"),
             "shard": ("label_values(kintsugi_shard_up, shard)", "Shard")}
MADE = "# Made by tools/monitoring/make.py.\n"


def variable(name):
    query, label = VARIABLES[name]
    return {"name": name, "label": label, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, "refresh": 2,
            "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}, "sort": 1}


def panel(number, one, x, y, width, height):
    made = {"id": number, "title": one.title, "description": one.says, "type": one.kind, "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": height},
            "fieldConfig": {"defaults": {"unit": one.unit}, "overrides": []},
            "targets": [{"refId": chr(65 + index), "datasource": SOURCE, "expr": query, "legendFormat": legend or "__auto"}
                        for index, (query, legend) in enumerate(one.queries)]}
    if one.kind == "stat":
        made["options"] = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    else:
        made["fieldConfig"]["defaults"]["custom"] = {"fillOpacity": 10, "showPoints": "never"}
        made["options"] = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}, "tooltip": {"mode": "multi", "sort": "desc"}}
    return made


def panels(board):
    """Stats in a line of their own, then three graphs a line."""
    made, stats = [], [one for one in board.panels if one.kind == "stat"]
    for index, one in enumerate(stats):
        width = 24 // len(stats)
        made.append(panel(len(made) + 1, one, index * width, 0, width, 4))
    top = 4 if stats else 0
    for index, one in enumerate(one for one in board.panels if one.kind != "stat"):
        made.append(panel(len(made) + 1, one, index % 3 * 8, top + index // 3 * 8, 8, 8))
    return made


def board_text(board):
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1, "current": {}}
    return json.dumps({
        "uid": board.uid, "title": board.title, "description": board.says, "tags": ["kintsugi"], "schemaVersion": 39, "editable": True, "version": 1,
        "refresh": "10s", "time": {"from": "now-30m", "to": "now"}, "timezone": "browser", "annotations": {"list": []},
        "links": [{"title": "Kintsugi", "type": "dashboards", "tags": ["kintsugi"], "asDropdown": True, "includeVars": True, "keepTime": True}],
        "templating": {"list": [source, *(variable(name) for name in board.variables)]}, "panels": panels(board)}, indent=1) + "\n"


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def full(one):
    return f"{one.left} {one.bound}" + (f" and {one.more}" if one.more else "")


def runbook(one):
    return "docs/operations.md#" + one.name.lower()


def rules_text():
    out = ["groups:", "- name: kintsugi-records", "  rules:"]
    for one in alerts.RECORDS:
        out += [f"  - record: {one.name}", f"    expr: {quoted(one.expr)}"]
    out += ["- name: kintsugi-alerts", "  rules:"]
    for one in alerts.ALERTS:
        out += [f"  - alert: {one.name}", f"    expr: {quoted(full(one))}", f"    for: {one.wait}", "    labels:", f"      severity: {one.severity}",
                "    annotations:", f"      summary: {quoted(one.summary)}", f"      runbook_url: {runbook(one)}"]
    return "\n".join(out) + "\n"


def minutes(wait):
    return int(wait[:-1]) * {"m": 1, "h": 60, "d": 1440}[wait[-1]]


def until(values):
    """The last minute that promtool's form of values has one for."""
    return sum(int(part.rpartition("x")[2]) + 1 if "x" in part else 1 for part in values.split()) - 1


def case(one, given, expected):
    """@param expected  (minute, whether it fires)"""
    out = ["- interval: 1m", "  input_series:"]
    for name, values in given:
        out += [f"  - series: {quoted(name)}", f"    values: {quoted(values)}"]
    out.append("  alert_rule_test:")
    for minute, fires in expected:
        out += [f"  - eval_time: {minute}m", f"    alertname: {one.name}"]
        if fires:
            labels = {"severity": one.severity, **one.labels}
            out += ["    exp_alerts:", "    - exp_labels:", *(f"        {name}: {quoted(value)}" for name, value in labels.items()),
                    "      exp_annotations:", f"        summary: {quoted(one.says)}", f"        runbook_url: {runbook(one)}"]
    return out


def rule_tests_text():
    out = ["rule_files: [kintsugi.rules.yml]", "evaluation_interval: 1m", "tests:"]
    for one in alerts.ALERTS:
        last = until(one.fires[0][1])
        early = [(minutes(one.wait) - 1, False)] if minutes(one.wait) else []
        out += [f"# {one.name}: not before its time, then so, and quiet", *case(one, one.fires, [*early, (last, True)]),
                *case(one, one.quiet, [(until(one.quiet[0][1]), False)])]
    return "\n".join(out) + "\n"


def prometheus_rule_text():
    head = ["apiVersion: monitoring.coreos.com/v1", "kind: PrometheusRule", "metadata:", "  name: kintsugi", "spec:"]
    return "\n".join(head + ["  " + line for line in rules_text().splitlines()]) + "\n"


def files():
    made = {f"grafana/dashboards/{board.uid.removeprefix('kintsugi-')}.json": board_text(board) for board in boards.BOARDS}
    made |= {"kintsugi.rules.yml": MADE + rules_text(), "kintsugi.rules.test.yml": MADE + rule_tests_text(), "prometheusrule.yaml": MADE + prometheus_rule_text()}
    return made


def main():
    stale = []
    for name, text in files().items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit(f"configs/monitoring: run tools/monitoring/make.py; stale: {', '.join(stale)}")


if __name__ == "__main__":
    main()
