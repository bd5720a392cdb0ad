#!/usr/bin/env python3
"""The messaging worker over one shard with a router and a broker that have management alone (bench_fake_component): how soon an
address is Ready, how long many take, what they cost, and what restarts and quiet send (docs/spec/messaging.md; the targets stand
beside). R=B=1. Figures to docs/performance.md by hand."""
import argparse
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import machine

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e" / "lib"))

PER_QUEUE = {"router": {"CREATE router.config.address": 1, "CREATE router.config.autoLink": 2}, "broker": {"createAddress": 1, "createQueue": 1}}
# What a workspace may write by default, 500 a second, would be what is measured.
QUOTAS = "writes.rps=0,objects=0,bytes=0"


class Fake:
    """A router or a broker."""

    def __init__(self, binary, kind, latency_us, serial):
        command = [binary, "--kind", kind, "--latency-us", str(latency_us), "--restart-empty", "--hazards", "none"]
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen(command + ["--parallel"] * (not serial), stdout=subprocess.PIPE, text=True)
        self.kind, self.name = kind, "r0" if kind == "router" else "b0"
        self.port = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(20)

    def state(self):
        self.process.send_signal(signal.SIGUSR1)
        return json.loads(self.process.stdout.readline())

    def sent(self):
        """Requests so far: {operation and type: count}."""
        return {name.replace("org.apache.qpid.dispatch.", ""): count for name, count in self.state()["operations"].items()}

    def restart_empty(self):
        self.process.send_signal(signal.SIGHUP)


def more(after, before):
    return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}


class Bench:
    def __init__(self, arguments, kit, messaging_stage, worker):
        self.arguments, self.kit, self.messaging_stage, self.worker_module = arguments, kit, messaging_stage, worker
        self.rows, self.faults = [], []

    def row(self, figure, target, value, good=None):
        self.rows.append((figure, target, value, "" if good is None else "holds" if good else "MISSED"))
        print(f"{figure}: {value} (target: {target})", flush=True)

    def begin(self, installation, router, broker):
        self.installation, self.router, self.broker = installation, router, broker
        self.stage = self.messaging_stage.Stage(installation, ("root",))
        self.tenant = self.messaging_stage.Tenant(self.stage.consumers["root"])
        self.tenant.make(*self.messaging_stage.infra([router], [broker]))
        self.tenant.make("AddressSpacePlan", {"metadata": {"name": "plan1"}, "spec": {"messagingInfraRef": "infra1"}})

    def worker(self):
        more = {"write_budget": {"per_second": 100000, "burst": 100000}}
        if self.arguments.reconciles:
            more["messaging"] = {"reconciles": self.arguments.reconciles}
        return self.worker_module.Worker(self.stage, role="messaging", more=more)

    def until_ready(self, worker):
        while True:
            with contextlib.suppress(AssertionError):
                return worker.ready()
            time.sleep(0.01)

    def name(self, number):
        """Of an address; they go round the spaces."""
        return f"space{number % self.arguments.spaces + 1}.a{number}"

    def body(self, number):
        return json.dumps({"apiVersion": "enmasse.io/v1beta1", "kind": "Address", "metadata": {"name": self.name(number)},
                           "spec": {"address": f"a{number}", "type": "queue"}})

    def post(self, connection, number):
        url = self.tenant.client.url.path + self.tenant.path("Address")
        connection.request("POST", url, body=self.body(number), headers={"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 201, text

    def one_after_another(self, first, count):
        """Times from a POST's answer to (all components confirmed, Ready), as a watch shows them; ms, sorted."""
        client = self.tenant.client
        poster, watcher = client.connect(), client.connect()
        version = client.must("GET", self.tenant.path("Address") + "?limit=1")["metadata"]["resourceVersion"]
        watcher.request("GET", client.url.path + self.tenant.path("Address") + f"?watch=1&resourceVersion={version}")
        stream = watcher.getresponse()
        created, ready = [], []
        for number in range(first, first + count):
            self.post(poster, number)
            begin, seen = time.monotonic(), False
            while True:
                one = json.loads(stream.readline())["object"]
                if one["metadata"].get("name") != self.name(number):
                    continue
                holds = {each["type"] for each in one.get("status", {}).get("conditions", []) if each["status"] == "True"}
                took = (time.monotonic() - begin) * 1e3
                if "Created" in holds and not seen:
                    seen = True
                    created.append(took)
                if "Ready" in holds:
                    ready.append(took)
                    break
        poster.close()
        watcher.close()
        return sorted(created), sorted(ready)

    def create(self, first, count):
        """Objects alone, by some processes at once."""
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            def some(part):
                connection = self.tenant.client.connect()
                for number in range(first + part, first + count, 8):
                    self.post(connection, number)
                connection.close()
            list(pool.map(some, range(8)))
        return time.monotonic() - begin

    def delete(self, count):
        """The first ones, and waits until none is left."""
        connection = self.tenant.client.connect()
        for number in range(count):
            connection.request("DELETE", self.tenant.client.url.path + self.tenant.path("Address", self.name(number)))
            connection.getresponse().read()
        connection.close()
        while self.tenant.client.must("GET", self.tenant.path("Address"))["items"]:
            time.sleep(0.05)

    def active(self, worker):
        return int(worker.metric("messaging_addresses", state="Active"))

    def until_confirmed(self, worker, count, deadline=600):
        """Until all components hold what so many addresses want; the time of that."""
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            if worker.metric("messaging_entities") >= 5 * count and worker.metric("messaging_pending_entities") == 0:
                return time.monotonic()
            time.sleep(0.1)
        self.faults.append(f"{worker.metric('messaging_entities')} entities of {count} addresses after {deadline} s")
        return time.monotonic()

    def until_active(self, worker, count, deadline=600):
        """Until so many are Active and no turn waits; the time of that. With --confirmed-only: now."""
        if self.arguments.confirmed_only:
            return time.monotonic()
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            if self.active(worker) >= count and worker.metric("workqueue_depth") == 0 and worker.metric("messaging_pending_entities") == 0:
                return time.monotonic()
            time.sleep(0.2)
        self.faults.append(f"{self.active(worker)} of {count} addresses are Active after {deadline} s")
        return time.monotonic()

    def until_told(self, worker, count, deadline=600):
        """Until statuses say what was applied, the third write of each: no turn waits, and hardly anything is written for a while but of links, which are looked at
        one after the other, some 400 a second."""
        end, before = time.monotonic() + deadline, -1
        while time.monotonic() < end:
            written = worker.metric("rest_client_requests_total")
            if written >= 2.9 * count and written - before < 1_600 and worker.metric("workqueue_depth") == 0:
                return
            before = written
            time.sleep(4)
        self.faults.append(f"the worker writes all the time, {deadline} s")

    def check_all(self, count):
        """By the objects themselves; in pages, for memory."""
        found, token = 0, ""
        while True:
            page = self.tenant.client.get(self.tenant.path("Address") + f"?limit=5000&continue={token}", timeout=300).json
            found += sum(one.get("status", {}).get("isReady", False) for one in page["items"])
            token = page["metadata"].get("continue", "")
            if not token:
                break
        if found != count:
            self.faults.append(f"{found} of {count} objects are Ready")

    def idle(self, count):
        with self.worker() as worker:
            self.until_ready(worker)
            for number in range(1, self.arguments.spaces + 1):
                self.tenant.space(f"space{number}")
            begin = time.monotonic()
            while worker.metric("messaging_spaces", state="Active") < self.arguments.spaces:
                assert time.monotonic() < begin + 300, "not all spaces are Active"
                time.sleep(0.05)
            if self.arguments.spaces > 1:
                self.row(f"{self.arguments.spaces:,} spaces, from the last POST until all are Active", "<= 20 s a router", f"{time.monotonic() - begin:.1f} s",
                         time.monotonic() - begin <= 20)
            self.one_after_another(0, 20)
            spent = ("rest_client_requests_total", "messaging_mgmt_seconds_sum", "messaging_mgmt_seconds_count")
            before = [worker.metric(name) for name in spent]
            created, ready = self.one_after_another(20, count - 20)
            writes, asking, asked = ((worker.metric(name) - was) / (count - 20) for name, was in zip(spent, before))
            for what, times, half, most in (("confirmed by all components", created, 20, 100), ("Ready, link seen active", ready, None, 1000)):
                p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
                self.row(f"idle create to {what}, of {len(times)}", f"p50 <= {half} ms, p99 <= {most} ms" if half else f"p99 <= {most} ms",
                         f"p50 {p50:.1f} ms, p99 {p99:.1f} ms", (half is None or p50 <= half) and p99 <= most)
            self.row("requests of the worker to the API for each", "-", f"{writes:.2f}")
            self.row("requests to components for each, looks at links included; time until all are answered", "-", f"{asked:.1f}; {asking * 1e3:.1f} ms")
            begin = time.monotonic()
            self.delete(count)
            self.row(f"{count} deleted, until all are gone", "-", f"{time.monotonic() - begin:.1f} s")
            self.memory = machine.rss_kb(worker.process.pid)
            worker.stop()

    def many(self, worker, count):
        target = f"<= {60 if count >= 100_000 else 60 * count / 100_000:.0f} s (60 s for 100,000)"
        before = {fake.kind: fake.sent() for fake in (self.router, self.broker)}
        others = [self.installation.pid(name) for name in ("proxy", "root")] + [fake.process.pid for fake in (self.router, self.broker)]
        others = {pid: machine.cpu_ns(pid) for pid in others}
        begin = time.monotonic()
        worker.start()
        self.until_ready(worker)
        synced = time.monotonic()
        perfs = [self.profile("worker", worker.process.pid), self.profile("shard", self.installation.pid("root"))]
        end = self.until_confirmed(worker, count)
        confirmed = machine.cpu_ns(worker.process.pid)
        ready = self.until_active(worker, count)
        for end_profile in perfs:
            end_profile()
        pid = worker.process.pid
        cpu, memory = machine.cpu_ns(pid), machine.rss_kb(pid)
        self.row(f"{count:,} queue addresses, from the worker's start until all are confirmed", target, f"{end - begin:.1f} s ({synced - begin:.1f} s until its caches "
                 "were read)", end - begin <= 60 * count / 100_000)
        if not self.arguments.confirmed_only:
            self.row("until all are Ready, links seen active", "-", f"{ready - begin:.1f} s")
        self.row("worker's CPU for each until confirmed", "-", f"{confirmed / 1e3 / count:.0f} us")
        self.row("CPU for each address: worker, proxy, shard, router, broker", "-", f"{cpu / 1e3 / count:.0f}, " +
                 ", ".join(f"{(machine.cpu_ns(one) - was) / 1e3 / count:.0f}" for one, was in others.items()) + " us")
        for what, controller in (("reconciles", "address"), ("reconciles of spaces", "addressspace")):
            self.row(f"{what} for each address", "-", f"{worker.metric('controller_runtime_reconcile_total', controller=controller) / count:.2f}")
        self.row("resident memory for each address", "<= 1.5 KiB", f"{(memory - self.memory) / count:.2f} KiB", (memory - self.memory) / count <= 1.5)
        self.row("API requests of the worker for each address", "-", f"{worker.metric('rest_client_requests_total') / count:.2f}")
        self.row("of these refused (429)", "-", f"{worker.metric('rest_client_requests_total', code='429') / count:.2f}")
        exact = True
        for fake in (self.router, self.broker):
            sent = more(fake.sent(), before[fake.kind])
            print(fake.kind, sent, flush=True)
            exact &= all(sent.get(name, 0) == each * count for name, each in PER_QUEUE[fake.kind].items())
        self.row("changing requests for each queue address", "exactly 3R+2", "3R+2" if exact else "others, see above", exact)

    def profile(self, name, pid):
        """With --perf; what it gives ends it."""
        if not self.arguments.perf:
            return lambda: None
        # pylint: disable-next=consider-using-with
        perf = subprocess.Popen(["perf", "record", "-q", "-g", "-F", "499", "-o", f"{self.arguments.perf}.{name}", *(["-p", str(pid)] if pid else ["-a"])])

        def end():
            perf.send_signal(signal.SIGINT)
            perf.wait(60)

        return end

    def router_restart(self, worker, count):
        before, begin = self.router.sent(), time.monotonic()
        spent = machine.cpu_ns(worker.process.pid)
        self.router.restart_empty()
        holds, emptied = {}, False
        while time.monotonic() - begin < 300:
            holds = self.router.state()["holds"]
            has = sum(number for name, number in holds.items() if name.endswith(("config.address", "autoLink")))
            emptied |= has < 3 * count
            if emptied and has >= 3 * count:
                break
            time.sleep(0.02)
        took = time.monotonic() - begin
        sent = more(self.router.sent(), before)
        print("router", sent, holds, flush=True)
        queries = sum(number for name, number in sent.items() if name.startswith("QUERY router.config"))
        self.row(f"router restart, {count:,} addresses, until it holds everything", "<= 8 s for 20,000", f"{took:.1f} s", took <= 8 * max(1, count / 20_000))
        self.row("QUERYs of tables with that", "0", str(queries), queries == 0)
        self.until_active(worker, count)
        self.row("worker's CPU for that, for each address", "-", f"{(machine.cpu_ns(worker.process.pid) - spent) / 1e3 / count:.0f} us")

    def worker_restart(self, worker, count):
        self.until_told(worker, count)
        worker.stop()
        before = {fake.kind: fake.sent() for fake in (self.router, self.broker)}
        begin = time.monotonic()
        end_profile = self.profile("restart", None)
        worker.start()
        self.until_ready(worker)
        synced = time.monotonic()
        created, ready = self.one_after_another(count, 1)
        end_profile()
        served = time.monotonic() - (ready[0] - created[0]) / 1e3
        self.row(f"worker restart, {count:,} applied: a new create confirmed after its caches are read", "<= 2 s",
                 f"{served - synced:.2f} s, {created[0]:.0f} ms after its answer, Ready {ready[0]:.0f} ms after it ({synced - begin:.1f} s until the caches were "
                 "read)", served - synced <= 2)
        self.until_active(worker, count + 1)
        if self.arguments.confirmed_only:
            return
        self.row("until every one was looked at again", "-", f"{time.monotonic() - begin:.1f} s, {machine.cpu_ns(worker.process.pid) / 1e3 / count:.0f} us of the "
                 "worker's CPU for each")
        self.until_quiet()
        for fake in (self.router, self.broker):
            print(fake.kind, more(fake.sent(), before[fake.kind]), flush=True)
        self.row("until the sweep of all that they hold has ended", "in the background", f"{time.monotonic() - begin:.1f} s")

    def until_quiet(self, deadline=600):
        """Until the router is asked next to nothing: the sweep behind a restart has ended."""
        end, before = time.monotonic() + deadline, -1
        while time.monotonic() < end:
            sent = sum(self.router.sent().values())
            if 0 <= sent - before < 20 and before >= 0:
                return
            before = sent
            time.sleep(2)
        self.faults.append(f"the router is asked all the time, {deadline} s after a restart")

    def quiet(self, worker, seconds):
        before, spent = {fake.kind: fake.sent() for fake in (self.router, self.broker)}, machine.cpu_ns(worker.process.pid)
        time.sleep(seconds)
        spent = machine.cpu_ns(worker.process.pid) - spent
        for fake, most in ((self.router, 2), (self.broker, 1)):
            sent = more(fake.sent(), before[fake.kind])
            print(fake.kind, sent, flush=True)
            each = sum(sent.values()) / seconds * 30
            self.row(f"quiet: requests to the {fake.kind} in 30 s", f"<= {most}", f"{each:.1f}", each <= most)
        self.row("quiet: CPU of the worker", "independent of N", f"{spent / 1e9 / seconds * 100:.2f} % of a core")

    def beside_artemis(self, amqp):
        """Create to confirmed with the real broker; the router answers at once, so that what components take is the broker's share."""
        with contextlib.ExitStack() as stack:
            router = stack.enter_context(Fake(self.arguments.fake, "router", 0, self.arguments.serial))
            broker = amqp.Artemis("b0", memory=512, global_max_size=256 << 20)
            stack.callback(broker.close)
            broker.start()
            self.begin(stack.enter_context(self.kit.Installation("--quotas", QUOTAS, shards=1)), router, broker)
            self.idle(self.arguments.idle)

    def run(self):
        options = self.arguments
        with contextlib.ExitStack() as stack:
            router, broker = (stack.enter_context(Fake(options.fake, kind, options.latency_us, options.serial)) for kind in ("router", "broker"))
            self.begin(stack.enter_context(self.kit.Installation("--quotas", QUOTAS, shards=1)), router, broker)
            self.idle(options.idle)
            seconds = self.create(0, options.addresses)
            print(f"{options.addresses:,} objects made in {seconds:.1f} s", flush=True)
            worker = stack.enter_context(self.worker_object())
            total = options.addresses
            self.many(worker, total)
            if not options.confirmed_only:
                self.check_all(total)
            self.router_restart(worker, total)
            self.worker_restart(worker, total)
            if not options.confirmed_only:
                self.quiet(worker, options.quiet)

    def worker_object(self):
        one = self.worker()

        @contextlib.contextmanager
        def ended():
            try:
                yield one
            finally:
                one.__exit__()

        return ended()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("--fake", default="build/release/bin/bench_fake_component")
    parser.add_argument("--addresses", type=int, default=20_000)
    parser.add_argument("--full", action="store_true", help="100,000 addresses")
    parser.add_argument("--spaces", type=int, default=1, help="that the addresses are in")
    parser.add_argument("--idle", type=int, default=500, help="addresses one after another")
    parser.add_argument("--quiet", type=int, default=60, help="seconds")
    parser.add_argument("--latency-us", type=int, default=1000, help="of an operation of the fakes")
    parser.add_argument("--confirmed-only", action="store_true", help="waits for no link: above 5,000 addresses their state is read one by one")
    parser.add_argument("--artemis", action="store_true", help="idle addresses alone, with a real broker (Java and Maven are needed) and a router that answers at once")
    parser.add_argument("--serial", action="store_true", help="fakes do one operation after the other")
    parser.add_argument("--reconciles", type=int, help="of one kind at a time, instead of the default")
    parser.add_argument("--perf", help="files for profiles of the worker and the shard while they are made, and of all at a restart")
    arguments = parser.parse_args()
    if arguments.full:
        arguments.addresses = 100_000
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    import amqp
    import kit
    import messaging_stage
    import worker
    bench = Bench(arguments, kit, messaging_stage, worker)
    if arguments.artemis:
        bench.beside_artemis(amqp)
    else:
        bench.run()
    print(f"\n{datetime.date.today()}\n\n| figure | target | measured | |\n|---|---|---|---|")
    for one in bench.rows:
        print("| " + " | ".join(one) + " |")
    for fault in bench.faults:
        print(fault, file=sys.stderr)
    sys.exit(1 if bench.faults else 0)


if __name__ == "__main__":
    main()
