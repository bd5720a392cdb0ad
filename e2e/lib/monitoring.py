"""configs/monitoring for tests: its boards and alerts, and what each asks Prometheus."""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "configs" / "monitoring"
MAKER = ROOT / "tools" / "monitoring"
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
    "KintsugiBackupOld": "`kintsugi backup` has run",
    "KintsugiTopologyErrors": "what was computed could not be written",
}


def module(name):
    """A table of tools/monitoring."""
    if str(MAKER) not in sys.path:
        sys.path.insert(0, str(MAKER))
    return __import__(name)


def boards():
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((FOLDER / "grafana" / "dashboards").glob("*.json"))]


def board_queries():
    return {f"{board['uid']}: {panel['title']}": [target["expr"] for target in panel["targets"]] for board in boards() for panel in board["panels"]}


def alert_queries():
    """What alerts look at, without the bound that is wrong."""
    return {one.name: [one.left, *([one.more.rpartition(" > ")[0]] if one.more else [])] for one in module("alerts").ALERTS}
