#!/usr/bin/env python3
"""Runs the conformance kit (a folder with replay.py) against a fresh installation: through the proxy, then at a shard
directly. Every scenario up to level should has to pass but for the differences listed here; one of those that passes is
to be taken off the list."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

MACHINERY = ["crud", "errors", "patch", "apply", "list", "watch", "content", "discovery", "custom"]
THROUGH_PROXY = MACHINERY + ["kcp-auth", "kcp-bindings", "kcp-crd", "kcp-proxy", "kcp-topology", "kcp-workspaces"]
VIRTUAL = ["kcp-virtual"]

BAD_REQUEST = "400 with a reason where the reference answers 500 without one (docs/errors.md)"
DIFFERENCES = {
    "apply-custom-list-map": BAD_REQUEST,
    "apply-custom-sets": BAD_REQUEST,
    "apply-lease": BAD_REQUEST,
    "apply-list-map": BAD_REQUEST,
    "crud-get-options": BAD_REQUEST,
    "patch-strategic-failures": BAD_REQUEST,
    "watch-invalid-version": BAD_REQUEST,
    "kcp-proxy-wildcard": "`kintsugi up` serves clusters/*; the reference refuses it, as `wildcard: deny` does",
    "kcp-proxy-invalid-paths": "the same",
    "kcp-unknown-workspace": "the same",
    "kcp-proxy-answer-headers": "no flow schemas, hence no headers that name them",
    "kcp-proxy-warrants-and-scopes": "the impersonation text of all releases before the reference's",
}
# These pass or fail by where the scheduler puts workspaces.
SOMETIMES = {
    "kcp-virtual-two-consumers": "takes the last endpoint of a slice, which may be of a shard without consumers",
}


def replay(kit_folder, base, pki, users, only, identity, verbose):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [sys.executable, kit_folder / "replay.py", "check", "--base", base, "--cacert", pki / "serving-ca.crt", "--cert",
                   pki / f"{identity}.crt", "--key", pki / f"{identity}.key", "--users", users, "--level", "should", "--only",
                   ",".join(only), "--report", report] + (["-v"] if verbose else [])  # fmt: skip
        subprocess.run(command, check=False, timeout=1200)
        return json.loads(report.read_text())["results"]


def judge(title, results):
    """Prints what differs from the list above; returns the number of such differences."""
    bad = 0
    for result in results:
        name, passed = result["name"], result["result"] != "failed"
        if not passed and name not in DIFFERENCES and name not in SOMETIMES:
            print(f"{title}: {name} failed")
            bad += 1
        elif result["result"] == "passed" and name in DIFFERENCES:
            print(f"{title}: {name} passes; take it off the list")
            bad += 1
    ran = [result for result in results if result["result"] != "skipped"]
    passed = sum(result["result"] == "passed" for result in ran)
    listed = len(ran) - passed - bad
    print(f"{title}: {passed} of {len(ran)} passed, {listed} listed differences, {bad} others", flush=True)
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

    def installed(shards, runs):
        """Runs (title, areas, directly at the root shard) against a fresh installation."""
        bad = 0
        with kit.Installation(shards=shards) as installation, tempfile.TemporaryDirectory() as folder:
            installation.make_workspace("conformance", selector={"region": kit.REGIONS[0]})
            for name, groups in users.items():
                cert, key = kit.make_user(folder, installation.pki, name, groups)
                cert.rename(pathlib.Path(folder) / f"{name}.crt")
                key.rename(pathlib.Path(folder) / f"{name}.key")
            for title, areas, direct in runs:
                port = (installation.state / "shards/root/port").read_text().strip() if direct else installation.port
                base = f"https://127.0.0.1:{port}/clusters/root:conformance"
                bad += judge(title, replay(arguments.kit, base, installation.pki, folder, areas,
                                           "shard-admin" if direct else "admin", arguments.v))  # fmt: skip
        return bad

    bad = 0
    only = arguments.only or []
    rest = [each for each in only if not each.startswith("kcp-virtual")]
    if rest or not only:
        runs = [("through the proxy", rest or THROUGH_PROXY, False)]
        bad += installed(3, runs if only else [*runs, ("at the shard", MACHINERY, True)])
    virtual = [each for each in only if each.startswith("kcp-virtual")]
    for shards in (1, 3) if virtual or not only else ():
        bad += installed(shards, [(f"virtual workspaces, {shards} shards", virtual or VIRTUAL, False)])
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
