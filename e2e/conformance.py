#!/usr/bin/env python3
"""Runs the conformance kit (a folder with replay.py) against a fresh installation: through the proxy, then at a shard
directly. Scenarios have to pass where the installation answers as kcp (AS_KCP), but for those that are listed here. With the
defaults of `kintsugi up` the kcp areas run again, and some more differ. One that is listed and passes is to be taken off."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "lib"))

MACHINERY = ["crud", "errors", "patch", "apply", "list", "watch", "content", "discovery", "custom"]
KCP = ["kcp-auth", "kcp-bindings", "kcp-crd", "kcp-proxy", "kcp-topology", "kcp-virtual", "kcp-workspaces"]
TOLD = ["--existence", "kcp"]  # the recordings tell strangers what kcp tells them
AS_KCP = ["--wildcard", "deny", "--consumers", "required", *TOLD]

WILDCARD = "`kintsugi up` serves clusters/*; the reference refuses it, as `--wildcard deny` does"
# With the defaults of `kintsugi up`, besides.
DIFFERENCES = {
    "kcp-proxy-wildcard": WILDCARD,
    "kcp-proxy-invalid-paths": WILDCARD,
    "kcp-proxy-wildcard-by-user": WILDCARD,
    "kcp-unknown-workspace": WILDCARD,
}
# The specification asks for something else: 400 for a control byte anywhere in a path (SE-028), 405 for methods that nobody knows
# and for health checks that are not read (SE-116), 400 for the continue token of another list (SE-166).
STRICTER = ["kcp-proxy-health", "kcp-proxy-invalid-paths", "kcp-proxy-methods", "list-continue-errors"]
# What fails yet, by area. Whatever passes is to be taken off; nothing is to be added.
NOT_YET = {}
LISTED = {**dict.fromkeys(STRICTER, "stricter"),
          **{f"{area}-{name}": "not yet" for area, names in NOT_YET.items() for name in names}}

# With the defaults, these pass or fail by where the scheduler puts workspaces.
SOMETIMES = {
    "kcp-virtual-two-consumers": "takes the last endpoint of a slice, which may be of a shard without consumers",
}


def replay(kit_folder, base, pki, users, only, identity, verbose):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [sys.executable, kit_folder / "replay.py", "check", "--base", base, "--cacert", pki / "serving-ca.crt", "--cert",
                   pki / f"{identity}.crt", "--key", pki / f"{identity}.key", "--users", users, "--only", ",".join(only), "--report",
                   report] + (["-v"] if verbose else [])  # fmt: skip
        subprocess.run(command, check=False, timeout=1200)
        return json.loads(report.read_text())["results"]


def judge(title, results, listed, sometimes):
    """Prints what differs from the list; returns the number of such differences."""
    bad = 0
    for result in results:
        name, passed = result["name"], result["result"] != "failed"
        if not passed and name not in listed and name not in sometimes:
            print(f"{title}: {name} failed")
            bad += 1
        elif result["result"] == "passed" and name in listed:
            print(f"{title}: {name} passes; take it off the list")
            bad += 1
    ran = [result for result in results if result["result"] != "skipped"]
    passed = sum(result["result"] == "passed" for result in ran)
    print(f"{title}: {passed} of {len(ran)} passed, {len(ran) - passed - bad} listed differences, {bad} others", flush=True)
    return bad if ran else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--kit", required=True, type=pathlib.Path)
    parser.add_argument("--only", type=lambda text: text.split(","), help="areas or scenarios, through the proxy only")
    parser.add_argument("-v", action="store_true")
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    import kit

    users = json.loads((arguments.kit / "users.json").read_text())

    def installed(options, runs):
        """Runs (title, areas, directly at the root shard, listed, those that differ sometimes) against a fresh installation of three shards."""
        with kit.Installation(*options) as installation, tempfile.TemporaryDirectory() as folder:
            installation.make_workspace("conformance", selector={"region": kit.REGIONS[0]})
            for name, groups in users.items():
                cert, key = kit.make_user(folder, installation.pki, name, groups)
                cert.rename(pathlib.Path(folder) / f"{name}.crt")
                key.rename(pathlib.Path(folder) / f"{name}.key")
            bad = 0
            for title, areas, direct, listed, sometimes in runs:
                port = (installation.state / "shards/root/port").read_text().strip() if direct else installation.port
                base = f"https://127.0.0.1:{port}/clusters/root:conformance"
                bad += judge(title, replay(arguments.kit, base, installation.pki, folder, areas,
                                           "shard-admin" if direct else "admin", arguments.v), listed, sometimes)  # fmt: skip
            return bad

    areas = arguments.only or MACHINERY + KCP
    at_shard = [] if arguments.only else [("at the shard", MACHINERY, True, LISTED, {})]
    bad = installed(AS_KCP, [("through the proxy, as kcp", areas, False, LISTED, {}), *at_shard])
    bad += installed(TOLD, [("through the proxy, defaults", arguments.only or KCP, False, {**LISTED, **DIFFERENCES}, SOMETIMES)])
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
