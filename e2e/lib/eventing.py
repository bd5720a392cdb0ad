"""The role `eventing` for tests: an installation with its worker, dispatchers that configs/eventing/kubelet.py runs, workspaces with groups."""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import kit

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs" / "eventing"
GROUPS = "/apis/internal.kafka.eventing.knative.dev/v1alpha1/namespaces/default/consumergroups"
CONSUMERS = "/apis/internal.kafka.eventing.knative.dev/v1alpha1/namespaces/default/consumers"
SOURCES = "/apis/sources.knative.dev/v1/namespaces/default/kafkasources"
TRIGGERS = "/apis/eventing.knative.dev/v1/namespaces/default/triggers"
BROKERS = "/apis/eventing.knative.dev/v1/namespaces/default/brokers"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
PODS, MAPS = "/api/v1/namespaces/knative-eventing/pods", "/api/v1/namespaces/knative-eventing/configmaps"
SETS = "/apis/apps/v1/namespaces/knative-eventing/statefulsets"
SEEN = "kafka.eventing.knative.dev/scheduler.placeable.Placements"
POOL, HOME = "kafka-source-dispatcher", "root:eventing:leases-root"
MERGE = {"Content-Type": "application/merge-patch+json"}


class Kubelet:
    """A process of configs/eventing/kubelet.py; `pods` by name: what it says of each."""

    def __init__(self, installation):
        self.installation, self.process = installation, None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kubelet-", dir=installation.dir))

    def start_for(self, case):
        add = getattr(case, "addClassCleanup", None) if isinstance(case, type) else case.addCleanup
        with (self.folder / "kubelet.log").open("ab") as log:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen([sys.executable, str(CONFIGS / "kubelet.py"), "--dir", str(self.installation.state), "--server",
                                             f"https://127.0.0.1:{self.installation.port}", "--cluster", HOME, "--folder", str(self.folder),
                                             "--kintsugi", str(kit.BINARY)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # fmt: skip
        add(self.stop)
        return self

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)

    def pod(self, number, pool=POOL):
        """{"pid", "port", "uid"} of a dispatcher."""
        return json.loads((self.folder / f"{pool}-{number}.json").read_text())

    def has(self, number, pool=POOL):
        return (self.folder / f"{pool}-{number}.json").exists()

    def status(self, number, pool=POOL):
        made = subprocess.run(["curl", "-s", "--max-time", "5", f"http://127.0.0.1:{self.pod(number, pool)['port']}/status"], capture_output=True, check=True)
        return json.loads(made.stdout)

    def members(self, uid, pods, pool=POOL):
        """Of each dispatcher: members of the group and partitions that they have."""
        found = [self.status(number, pool)["egresses"].get(uid, {}) for number in range(pods)]
        return [(one.get("members", 0), len(one.get("partitions", []))) for one in found]


class Installed(kit.Installation):
    """`kintsugi up --workers eventing` with one shard."""

    def __init__(self, *options):
        super().__init__("--workers", "eventing", *options, shards=1)

    def start_for(self, case=None):
        super().start_for(case)
        self.configure(refresh_period="1h")  # tests count on their pods: KA-3 takes those that are not needed after 100 s
        return self

    def configure(self, **settings):
        """The worker begins again with these."""
        path = self.state / "workers" / "eventing" / "worker.yaml"
        text = path.read_text()
        for key, value in settings.items():
            text, changed = re.subn(rf"\b{key}: \S+", f"{key}: {value}", text)
            assert changed == 1, text
        path.write_text(text)
        worker = self.pid("worker-eventing")
        self.kill("worker-eventing", signal.SIGTERM)  # gives its Leases back
        kit.eventually(lambda: self.pid("worker-eventing") != worker and self.metric("process_start_time_seconds") > 0, 30, "the worker begins again")

    def home(self):
        return self.client(f"/clusters/{HOME}")

    def shop(self, name="shop"):
        """A client of a new workspace that has consumer groups."""
        self.make_workspace(name)
        client = self.client(f"/clusters/root:{name}")
        client.must("POST", "/apis/apis.kcp.io/v1alpha2/apibindings", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "eventing"},
            "spec": {"reference": {"export": {"path": "root:eventing", "name": "eventing"}}, "permissionClaims": [
                {"group": group, "resource": "events", "verbs": ["create", "update", "patch"], "state": "Accepted", "selector": {"matchAll": True}}
                for group in ("", "events.k8s.io")]}})  # fmt: skip
        kit.eventually(lambda: client.get(GROUPS).status == 200, 40, "consumer groups are served")
        return client

    def make_pool(self, replicas, name=POOL):
        self.home().must("POST", SETS, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {}}})  # fmt: skip

    def metrics(self):
        made = subprocess.run(["curl", "-s", "--max-time", "5", "--unix-socket", str(self.state / "run" / "worker-eventing.metrics.sock"),
                               "http://worker/metrics"], capture_output=True, text=True, check=True)
        return made.stdout.splitlines()

    def metric(self, name, lines=None, **labels):
        total = 0.0
        for line in lines or self.metrics():
            head, _, value = line.rpartition(" ")
            if re.match(rf"{name}(\{{|$)", head) and all(f'{key}="{want}"' in head for key, want in labels.items()):
                total += float(value)
        return total

    def writes(self):
        """What it takes to bring groups to Ready, so far: Leases and the ring are put; statuses of Consumers and events come besides."""
        lines = self.metrics()
        besides = self.metric("eventing_events_total", lines) + self.metric("eventing_consumer_statuses_total", lines)
        return sum(self.metric("rest_client_requests_total", lines, method=method) for method in ("POST", "PATCH", "DELETE")) - besides


def group(name, bootstrap, sink, *, topics=("orders",), replicas=1, offset="earliest", group_id=None, delivery=None, **more):
    return {"apiVersion": "internal.kafka.eventing.knative.dev/v1alpha1", "kind": "ConsumerGroup", "metadata": {"name": name}, "spec": {
        "replicas": replicas, "template": {"spec": {
            "topics": list(topics), "configs": {"group.id": group_id or f"group-{name}", "bootstrap.servers": bootstrap},
            "delivery": {"initialOffset": offset, **(delivery or {})}, "subscriber": {"uri": sink}, **more}}}}  # fmt: skip


def source(name, bootstrap, sink, *, topics=("orders",), **more):
    return {"apiVersion": "sources.knative.dev/v1", "kind": "KafkaSource", "metadata": {"name": name}, "spec": {
        "bootstrapServers": bootstrap.split(","), "topics": list(topics), "initialOffset": "earliest", "sink": {"uri": sink}, **more}}  # fmt: skip


def trigger(name, broker, sink, annotations=None, **more):
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"broker": broker, "subscriber": {"uri": sink}, **more}}  # fmt: skip


def make_broker(client, name, topic=None, bootstrap="", of_class="Kafka", **spec):
    """With a topic it is ready, as who runs Brokers says it."""
    client.must("POST", BROKERS, {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "spec": spec, "metadata": {
        "name": name, "annotations": {"eventing.knative.dev/broker.class": of_class}}})  # fmt: skip
    if topic:
        say_of_broker(client, name, "True", {"default.topic": topic, "bootstrap.servers": bootstrap})


def say_of_broker(client, name, ready, annotations=None):
    client.must("PATCH", f"{BROKERS}/{name}/status", {"status": {"annotations": annotations or {}, "conditions": [
        {"type": "Ready", "status": ready, "reason": "Told"}]}}, headers=MERGE)  # fmt: skip


def conditions(one):
    return {each["type"]: each for each in one.get("status", {}).get("conditions", [])}


def says(one, kind):
    each = conditions(one).get(kind, {})
    return f"{each.get('status')}/{each.get('reason')}"


def placements(one):
    return {each["podName"].rpartition("-")[2]: each["vreplicas"] for each in one.get("status", {}).get("placements", [])}


def until(client, name, kind, what, deadline=60, path=GROUPS):
    """The group, or the object at another path, once a condition says so ("True/Ready")."""

    def there():
        one = client.must("GET", f"{path}/{name}")
        assert says(one, kind) == what, one.get("status")
        return one

    return kit.eventually(there, deadline, f"{name}: {kind} {what}")
