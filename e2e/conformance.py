#!/usr/bin/env python3
"""Runs the conformance kit (a folder with replay.py) against a fresh installation, through the proxy and, for the API
machinery areas, at a shard directly. Fails when an area passes less than the floor that the project holds."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

# Area -> smallest share of passed scenarios at level must. Raised when more is built, never lowered.
FLOORS = {"crud": 0.9, "errors": 1.0, "list": 1.0, "watch": 0.9, "kcp-proxy": 0.8, "kcp-topology": 0.8}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--kit", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="crud,errors,list,watch,kcp-topology,kcp-proxy")
    parser.add_argument("-v", action="store_true")
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    import kit

    users = json.loads((arguments.kit / "users.json").read_text())
    with kit.Installation() as installation, tempfile.TemporaryDirectory() as folder:
        installation.make_workspace("conformance")
        for name, groups in users.items():
            cert, key = kit.make_user(folder, installation.pki, name, groups)
            cert.rename(pathlib.Path(folder) / f"{name}.crt")
            key.rename(pathlib.Path(folder) / f"{name}.key")
        report = pathlib.Path(folder) / "report.json"
        command = [sys.executable, arguments.kit / "replay.py", "check", "--base",
                   f"https://127.0.0.1:{installation.port}/clusters/root:conformance", "--cacert",
                   installation.pki / "serving-ca.crt", "--cert", installation.pki / "admin.crt", "--key",
                   installation.pki / "admin.key", "--users", folder, "--level", "must", "--only", arguments.only,
                   "--report", report] + (["-v"] if arguments.v else [])
        subprocess.run(command, check=False, timeout=1200)
        scenarios = json.loads(report.read_text())["results"]
    areas = {}
    for scenario in scenarios:
        entry = areas.setdefault(scenario["area"], {"passed": 0, "failed": 0, "skipped": 0})
        entry[scenario["result"]] = entry.get(scenario["result"], 0) + 1
    bad = []
    for area, counts in sorted(areas.items()):
        ran = counts["passed"] + counts["failed"]
        share = counts["passed"] / ran if ran else 0.0
        floor = FLOORS.get(area, 0.0)
        print(f"{area}: {counts['passed']} of {ran} passed ({share:.0%}, floor {floor:.0%})")
        if share < floor:
            bad.append(area)
    sys.exit(1 if bad or not areas else 0)


if __name__ == "__main__":
    main()
