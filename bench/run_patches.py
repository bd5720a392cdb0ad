#!/usr/bin/env python3
"""What a merge patch of the status of a bound custom kind costs a shard: Addresses of configs/messaging with the status that a worker
writes, patched through the export's virtual workspace as a worker of it does. By callgrind (user mode, all threads of the shard,
instructions per patch), or with --time by the clock: CPU of the shard per patch."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

import machine
import products

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))

OBJECTS = 200
STATUS = {"status": {
    "isReady": True, "phase": "Active", "type": "queue", "spaceId": "2fcbff5e", "brokerAddress": "2fcbff5e/load-17", "observedGeneration": 1,
    "brokers": [{"host": "b0", "state": "Active"}], "planStatus": {"name": "default", "partitions": 1},
    "messages": ["@"],
    "conditions": [{"type": kind, "status": "True", "reason": "AsExpected", "message": "", "lastTransitionTime": "2026-11-27T00:00:00Z",
                    "observedGeneration": 1} for kind in ("Ready", "Valid", "Scheduled", "Created")]}}


class Shard:
    """The shard of an installation that was stopped, alone, perhaps under callgrind."""

    def __init__(self, command, environment, run, tools, counted):
        self.run = run
        for old in run.glob("callgrind.out*"):
            old.unlink()
        if counted:
            environment = {**environment, "LD_PRELOAD": str(tools / "bench_small_map.so")}
            command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=callgrind.out", "-q", *command]
        self.log = open(run / "shard.log", "wb")  # pylint: disable=consider-using-with
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(command, env=environment, cwd=run, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        products.end_process(self.process, 60)
        self.log.close()

    def control(self, *words):
        subprocess.run(["callgrind_control", *words, str(self.process.pid)], cwd=self.run, check=True, capture_output=True)

    def counted(self):
        """Instructions since instrumentation began."""
        self.control("-i", "off")
        self.control("-d")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            totals = [re.findall(r"^(?:totals|summary): (\d+)", path.read_text(), re.M) for path in self.run.glob("callgrind.out*")]
            if any(totals):
                return max(int(total) for some in totals for total in some)
            time.sleep(0.1)
        raise RuntimeError("callgrind wrote no totals")


def prepare(kit, messaging, messaging_stage, installation):
    """Makes the objects; returns (URL path of one's status, what the shard was started with)."""
    stage = messaging_stage.Stage(installation, ("root",))
    tenant = messaging_stage.Tenant(stage.consumers["root"])
    for number in range(OBJECTS):
        name = f"space1.load-{number}"
        tenant.make("Address", {"metadata": {"name": name, "finalizers": ["enmasse.io/worker"]}, "spec": {"address": f"load-{number}", "type": "queue"}})
        tenant.client.must("PATCH", tenant.path("Address", name) + "/status?fieldManager=messaging", json.dumps(STATUS).encode(), headers=messaging.MERGE)
    provider = installation.client(f"/clusters/{messaging_stage.PROVIDER}")

    def url():
        slices = provider.must("GET", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/workers")
        return slices["status"]["endpoints"][0]["url"]

    view = kit.eventually(url, 30, "the slice has its shard")
    view = view[view.index("/services/"):]
    cluster = tenant.client.must("GET", tenant.path("Address", "space1.load-0"))["metadata"]["annotations"]["kcp.io/cluster"]
    pid = installation.pid("root")
    command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")
    environment = dict(one.split("=", 1) for one in pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode().rstrip("\0").split("\0"))
    return f"{view}/clusters/{cluster}{tenant.path('Address', 'space1.load-#')}/status?fieldManager=messaging", command, environment


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--tools", type=pathlib.Path, help="folder of the bench_* programs; default: that of --binary")
    parser.add_argument("--run", type=pathlib.Path, default=HERE / "run")
    parser.add_argument("--patches", type=int, default=1000)
    parser.add_argument("--inflight", type=int, default=32)
    parser.add_argument("--time", action="store_true", help="CPU instead of instructions")
    arguments = parser.parse_args()
    run, tools = arguments.run.resolve(), (arguments.tools or arguments.binary.parent).resolve()
    run.mkdir(parents=True, exist_ok=True)
    os.environ["KINTSUGI"] = str(arguments.binary)
    import kit
    import messaging
    import messaging_stage
    with contextlib.ExitStack() as stack:
        installation = stack.enter_context(kit.Installation("--quotas", "writes.rps=0", shards=1))
        target, command, environment = prepare(kit, messaging, messaging_stage, installation)
        installation.stop()
        print(shlex.join(command), target, flush=True)
        patch = run / "patch.json"
        patch.write_text(json.dumps(STATUS))
        shard = stack.enter_context(Shard(command, environment, run, tools, not arguments.time))
        url = installation.shard_url("root")
        pki = installation.pki
        client = kit.Client(url, pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")

        def ready():
            assert client.get("/readyz").status == 200

        kit.eventually(lambda: ready() or True, 120, "the shard is ready")
        load = products.Tool(run, [
            tools / "bench_request_load", "--op", "patch", "--port", url.rpartition(":")[2], "--target", target, "--patch", patch, "--names", OBJECTS,
            "--connections", 1, "--inflight", arguments.inflight, "--warm", 2 * OBJECTS, "--requests", arguments.patches,
            "--user", messaging_stage.Stage.user, "--group", messaging_stage.Stage.groups[0],
            "--cert", pki / "proxy-requestheader.crt", "--key", pki / "proxy-requestheader.key"])  # fmt: skip
        stack.callback(load.stop)
        load.read(300)
        if arguments.time:
            before = machine.cpu_ns(shard.process.pid)
        else:
            shard.control("-i", "on")
        load.tell("go")
        result = load.read(600)
        if arguments.time:
            print(f"{(machine.cpu_ns(shard.process.pid) - before) / 1e3 / arguments.patches:.1f} us of CPU for each of {arguments.patches}", result)
        else:
            print(f"{shard.counted() / arguments.patches:,.0f} instructions for each of {arguments.patches}")


if __name__ == "__main__":
    main()
