#!/usr/bin/env python3
"""The delivery worker over one shard behind the proxy and a real Mosquitto: how soon an order is answered, how many are applied a second,
what cold starts, comparisons, storms and quiet cost (docs/spec/delivery.md; the targets stand beside). The hub is paho, in processes of its
own. Figures to docs/workers/delivery.md by hand."""
import argparse
import contextlib
import datetime
import gzip
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
import threading
import time

import machine

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))


def order(uid, generation=1, value="1"):
    content = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": value},
               "metadata": {"name": uid, "namespace": "default", "uid": uid, "generation": generation}}  # fmt: skip
    return json.dumps({"sentTimestamp": 1, "resourceGenerationID": 1, "content": content})


def publish_all(delivery, port, prefix, count, generation, done=None):
    """In a process of its own. `done`: gets the time when the broker has all."""
    hub = delivery.Hub(argparse.Namespace(port=port), "nobody")
    for number in range(count):
        uid = f"{prefix}{number}"
        sent = hub.mqtt.publish(f"v1/edge/{uid}/content", order(uid, generation), 1, True, delivery.properties("v1/json"))
        if number % 500 == 0:  # so that no queue of this hub grows
            sent.wait_for_publish(30)
    hub.raw("v1/edge/_mark/content", b"x", retain=False)
    if done is not None:
        done.put(time.monotonic())
    hub.close()


class Answers:
    """Statuses of the client as they come: the first time of each topic, and how many."""

    def __init__(self, delivery, port, prefix):
        self.first, self.hashes, self.count, self.prefix = {}, {}, 0, f"v1/edge/{prefix}"
        self.lists = []
        self.mqtt = delivery.paho.Client(f"answers-{os.urandom(4).hex()}", protocol=delivery.paho.MQTTv5)
        ready = threading.Event()
        self.mqtt.on_connect = lambda *_: self.mqtt.subscribe("v1/edge/+/status", qos=1)
        self.mqtt.on_subscribe = lambda *_: ready.set()
        self.mqtt.on_message = self.take
        self.mqtt.connect("127.0.0.1", port, keepalive=60)
        self.mqtt.loop_start()
        ready.wait(30)

    def take(self, _client, _data, message):
        now = time.monotonic()
        if message.topic.endswith("/_resync/status"):
            self.lists.append(len(message.payload))
        if not message.topic.startswith(self.prefix) or not message.payload:
            return
        self.count += 1
        self.first.setdefault(message.topic.split("/")[2], now)
        self.hashes[message.topic.split("/")[2]] = dict(message.properties.UserProperty)["kintsugi-hash"]

    def until(self, count, deadline):
        end = time.monotonic() + deadline
        while len(self.first) < count:
            if time.monotonic() > end:
                raise SystemExit(f"{len(self.first)} of {count} answers within {deadline} s")
            time.sleep(0.002)
        return max(self.first.values())

    def close(self):
        self.mqtt.disconnect()
        self.mqtt.loop_stop()


class Bench:
    def __init__(self, arguments, kit, delivery):
        self.arguments, self.kit, self.delivery, self.rows = arguments, kit, delivery, []

    def row(self, figure, target, value, good=None):
        self.rows.append((figure, target, value, "" if good is None else "holds" if good else "MISSED"))
        print(f"{figure}: {value} (target: {target})", flush=True)

    def agent(self, broker, **more):
        return self.delivery.Agent(self.stage, broker, delivery={"resync": True, **more.pop("delivery", {})}, **more)

    def bursts(self, broker, rounds, size):
        answers = self.delivery.Hub(broker, "nobody")
        taken = Answers(self.delivery, broker.port, "burst-")
        took = []
        for number in range(rounds):
            sent = {}
            for one in range(size):
                uid = f"burst-{number}-{one}"
                sent[uid] = time.monotonic()
                answers.mqtt.publish(f"v1/edge/{uid}/content", order(uid), 1, True, self.delivery.properties("v1/json"))
            taken.until((number + 1) * size, 60)
            took += [(taken.first[uid] - when) * 1e3 for uid, when in sent.items()]
        answers.close()
        taken.close()
        took.sort()
        median, high = statistics.median(took), took[int(len(took) * 0.99)]
        self.row(f"publish to first status, {rounds} bursts of {size}: p50", "< 50 ms", f"{median:.0f} ms", median < 50)
        self.row("the same: p99", "< 300 ms", f"{high:.0f} ms", high < 300)

    def sustained(self, broker, agent, count):
        taken = Answers(self.delivery, broker.port, "flow-")
        pids = {name: self.installation.pid(name) for name in ("proxy", "root")} | {"agent": agent.process.pid, "broker": broker.process.pid}
        before = {name: machine.cpu_ns(pid) for name, pid in pids.items()}
        done, begin = multiprocessing.Queue(), time.monotonic()
        sender = multiprocessing.Process(target=publish_all, args=(self.delivery, broker.port, "flow-", count, 1, done))
        sender.start()
        sent = done.get(timeout=120)
        end = taken.until(count, 300)
        sender.join()
        taken.close()
        rate = count / (end - begin)
        self.row(f"{count:,} orders of new objects, from the first publish to the last answer", ">= 2,000/s",
                 f"{rate:,.0f}/s ({end - begin:.1f} s; the broker had all after {sent - begin:.1f} s)", rate >= 2000)
        cpu = ", ".join(f"{name} {(machine.cpu_ns(pid) - before[name]) / 1e3 / count:.0f}" for name, pid in pids.items())
        self.row("CPU for each", "-", cpu + " us")

    def cold(self, broker, count):
        publish_all(self.delivery, broker.port, "cold-", count, 1)
        taken = Answers(self.delivery, broker.port, "cold-")
        begin = time.monotonic()
        with self.agent(broker) as agent:
            end = taken.until(count, 300)
            self.row(f"cold start with {count:,} retained, from the process's start to the last answer", "< 10 s", f"{end - begin:.1f} s", end - begin < 10)
            memory = machine.rss_kb(agent.process.pid) / 1024
            self.row(f"memory with {count:,} objects, resident", "< 100 MB", f"{memory:.0f} MiB", memory < 95)
            agent.until_ready()
            self.compare(broker, taken, count)
            agent.stop()
            begin = time.monotonic()
            agent.start().until_ready()
            self.row(f"restart with {count:,} in the journal, until it is ready", "-", f"{time.monotonic() - begin:.1f} s")
            self.idle(agent)
        taken.close()

    def compare(self, broker, taken, count):
        hub = self.delivery.Hub(broker, "nobody")
        items = [{"uid": uid, "statusHash": value} for uid, value in taken.hashes.items()]
        batches = [json.dumps({"kind": "StatusHashList", "id": "a", "batch": at // 1000 + 1, "of": (len(items) + 999) // 1000,
                               "items": items[at:at + 1000]}) for at in range(0, len(items), 1000)]  # fmt: skip
        mark = Answers(self.delivery, broker.port, "compared")
        batches = [gzip.compress(batch.encode()) for batch in batches]
        before, begin = taken.count, time.monotonic()
        for batch in batches:
            hub.mqtt.publish("v1/edge/_resync/content", batch, 1, False, self.delivery.properties("v1/json+gzip"))
        hub.mqtt.publish("v1/edge/compared/content", order("compared"), 1, True, self.delivery.properties("v1/json"))
        took = mark.until(1, 60) - begin
        size = sum(map(len, batches)) + sum(taken.lists)
        self.row(f"comparison of {count:,} objects without a difference, until the order behind it is answered", "< 1 s",
                 f"{took * 1e3:.0f} ms, {taken.count - before} statuses", took < 1 and taken.count == before)
        self.row("its lists, of both sides", "< 1 MB", f"{size / 1e6:.2f} MB", size < 1e6)
        mark.close()
        hub.close()

    def idle(self, agent, span=20):
        asked = agent.metric("rest_client_requests_total")
        time.sleep(3)
        asked, cpu, begin = agent.metric("rest_client_requests_total"), machine.cpu_ns(agent.process.pid), time.monotonic()
        time.sleep(span)
        spent = (machine.cpu_ns(agent.process.pid) - cpu) / 1e7 / (time.monotonic() - begin)
        self.row("idle: CPU of a core", "<= 1 %", f"{spent:.2f} %", spent <= 1)
        asked = agent.metric("rest_client_requests_total") - asked
        self.row(f"idle: API requests in {span} s; its Lease and the coordinator's are renewed every second", "Leases alone", f"{asked:.0f}",
                 asked <= span * 2 + 2)  # fmt: skip

    def storm(self, broker, seconds=6):
        target, hub = self.stage.targets["edge"], self.delivery.Hub(broker, "edge")
        target.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", LAMPS)
        lamp = {"apiVersion": "test.dev/v1", "kind": "Lamp", "metadata": {"name": "lamp", "namespace": "default"}}
        hub.send("lamp", lamp)
        hub.until("lamp", "Reconciled", "True/Success", 40)
        before, end, made = len(hub.of("lamp")), time.monotonic() + seconds, []

        def change(part):
            connection, number = target.connect(), 0
            path = target.url.path + "/apis/test.dev/v1/namespaces/default/lamps/lamp/status"
            while time.monotonic() < end:
                number += 1
                connection.request("PATCH", path, json.dumps({"status": {f"p{part}": number}}), {"Content-Type": "application/merge-patch+json"})
                connection.getresponse().read()
            made.append(number)

        threads = [threading.Thread(target=change, args=(part,)) for part in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        stopped = time.monotonic()
        last = target.must("GET", "/apis/test.dev/v1/namespaces/default/lamps/lamp")["status"]
        self.kit.eventually(lambda: hub.of("lamp")[-1].json["contentStatus"] == last, 20)
        late, told = time.monotonic() - stopped, len(hub.of("lamp")) - before
        self.row(f"storm: {sum(made) / seconds:,.0f} changes a second of one object: statuses a second", "<= 5", f"{told / (seconds + late):.1f}",
                 told <= 5 * (seconds + late) + 1)  # fmt: skip
        self.row("the last one told after", "<= 1 s", f"{late:.2f} s", late <= 1)
        hub.close()

    def clients(self, broker, count=200):
        names = [f"c-{number}=root:edge" for number in range(count)]
        with self.agent(broker, clients=names) as first:
            first.connected(count)
            memory = machine.rss_kb(first.process.pid) / 1024
            self.row(f"{count} client ids in one process, resident", "< 300 MB", f"{memory:.0f} MiB", memory < 286)
            with self.agent(broker, clients=names) as second:
                second.until_ready(90)
                self.kit.eventually(lambda: second.metric("delivery_connected") > count / 4, 60)
                first.process.kill()
                begin = time.monotonic()
                second.connected(count)
                took = time.monotonic() - begin
                self.row("one of two ends by SIGKILL: the other one has all (Leases of 6 s)", "< 11 s", f"{took:.1f} s", took < 11)

    def run(self):
        count = self.arguments.count
        with contextlib.ExitStack() as stack:
            # A workspace may have 500 writes a second unless somebody says otherwise.
            self.installation = stack.enter_context(self.kit.Installation("--quotas", "writes.rps=0", shards=1))
            self.stage = self.delivery.Stage(self.installation)
            with self.delivery.Broker("wide") as broker, self.agent(broker) as agent:
                agent.until_ready()
                self.bursts(broker, 20, 100)
                self.sustained(broker, agent, count)
                self.storm(broker)
            with self.delivery.Broker("wide") as broker:
                self.cold(broker, count)
            with self.delivery.Broker("wide") as broker:
                self.clients(broker)
        print(f"\n{datetime.date.today()}, load before {self.load}\n")
        print("| what | target | measured | |\n|---|---|---|---|")
        for line in self.rows:
            print("| " + " | ".join(line) + " |")
        return 1 if any(line[3] == "MISSED" for line in self.rows) else 0


LAMPS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.test.dev"},
    "spec": {"group": "test.dev", "scope": "Namespaced", "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary", help="kintsugi of a release build")
    parser.add_argument("--count", type=int, default=10_000)
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    import delivery  # pylint: disable=import-outside-toplevel
    import kit  # pylint: disable=import-outside-toplevel

    bench = Bench(arguments, kit, delivery)
    bench.load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    return bench.run()


if __name__ == "__main__":
    sys.exit(main())
