"""The role `delivery` for tests: real Mosquitto brokers, a hub (paho, MQTT 5) and processes of the role."""
import contextlib
import gzip
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import kit
import steady
import worker

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs" / "delivery"
USER = "concertmaster"
MAPS = "/api/v1/namespaces/default/configmaps"
sys.path.append("/usr/lib/python3/dist-packages")  # Debian's python3-paho-mqtt is pure Python
try:
    import paho.mqtt.client as paho
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties
    from paho.mqtt.subscribeoptions import SubscribeOptions
except ImportError:
    paho = None
MOSQUITTO = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")


def needs_broker():
    if MOSQUITTO is None or paho is None:
        raise unittest.SkipTest("needs Debian's mosquitto and python3-paho-mqtt")


# What brokers are configured with besides a listener (docs/spec/delivery.md, "Brokers").
PROFILES = {
    "default": "allow_anonymous true\n",
    "wide": "allow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 0\n",
    "durable": "allow_anonymous true\nmax_queued_messages 0\npersistence true\npersistence_location {dir}/\nautosave_interval 1\n",
    "lossy": "allow_anonymous true\nmax_queued_messages 0\npersistence true\npersistence_location {dir}/\n",
}


class Broker:
    """One Mosquitto on a free port of loopback."""

    def __init__(self, profile="wide", more=""):
        needs_broker()
        self.folder = tempfile.TemporaryDirectory(prefix="kintsugi-mqtt-")
        self.dir = pathlib.Path(self.folder.name)
        self.port = kit.free_port()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.config = self.dir / "mosquitto.conf"
        user = "" if os.geteuid() else "user root\n"
        self.config.write_text(f"listener {self.port} 127.0.0.1\n{user}" + PROFILES[profile].format(dir=self.dir) + more)
        self.process = None

    def start(self):
        with (self.dir / "log").open("ab") as out:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen([MOSQUITTO, "-c", str(self.config)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        kit.eventually(lambda: kit.listening(self.port), 20, "the broker listens")
        return self

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(120)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(120)
        self.folder.cleanup()


def properties(content_type=None, user=()):
    out = Properties(PacketTypes.PUBLISH)
    if content_type is not None:
        out.ContentType = content_type
    if user:
        out.UserProperty = list(user)
    return out


class Status:
    """A status as it came."""

    def __init__(self, message):
        self.topic, self.raw, self.retained = message.topic, message.payload, bool(message.retain)
        self.uid = message.topic.split("/")[-2]
        self.type = getattr(message.properties, "ContentType", None)
        self.user = dict(getattr(message.properties, "UserProperty", []))
        text = gzip.decompress(self.raw) if self.type == "v1/json+gzip" else self.raw
        self.json = json.loads(text) if text else None

    @property
    def conditions(self):
        return {one["type"]: one for one in self.json["reconcileStatus"]["conditions"]}

    def says(self, kind):
        one = self.conditions.get(kind)
        return f"{one['status']}/{one['reason']}" if one else None

    def __repr__(self):
        return f"{self.topic} {self.raw!r}"


class Hub:
    """Publishes content and keeps the statuses of a client, in their order."""

    def __init__(self, broker, client="edge", prefix="v1/"):
        self.prefix, self.client, self.port = prefix, client, broker.port
        self.statuses, self.lists = [], []
        self.ready = queue.Queue()
        self.mqtt = paho.Client(f"hub-{client}-{os.urandom(4).hex()}", protocol=paho.MQTTv5)
        self.mqtt.max_inflight_messages_set(1000)
        self.mqtt.max_queued_messages_set(0)
        self.mqtt.on_connect = self._connected
        self.mqtt.on_subscribe = lambda *_: self.ready.put(True)
        self.mqtt.on_message = self._message
        self.mqtt.connect("127.0.0.1", broker.port, keepalive=60)
        self.mqtt.loop_start()
        self.ready.get(timeout=30)

    def _connected(self, *_):
        for prefix in {self.prefix, "v1/", "/v1/"}:
            self.mqtt.subscribe(f"{prefix}{self.client}/+/status", options=SubscribeOptions(qos=1, retainAsPublished=True))

    def _message(self, _client, _data, message):
        if message.topic.endswith("/_resync/status"):
            packed = getattr(message.properties, "ContentType", None) == "v1/json+gzip"
            self.lists.append(json.loads(gzip.decompress(message.payload) if packed else message.payload))
        elif message.payload:
            self.statuses.append(Status(message))

    def close(self):
        self.mqtt.disconnect()
        self.mqtt.loop_stop()

    def topic(self, uid, leaf="content"):
        return f"{self.prefix}{self.client}/{uid}/{leaf}"

    def raw(self, topic, payload, content_type="v1/json", retain=True, user=()):
        info = self.mqtt.publish(topic, payload, qos=1, retain=retain, properties=properties(content_type, user))
        info.wait_for_publish(30)

    def send(self, uid, manifest, generation=1, ident="1", retain=True, deleted=False, zipped=False, **meta):
        """@param ident  JSON text of resourceGenerationID"""
        manifest = json.loads(json.dumps(manifest))
        manifest["metadata"].update({"uid": uid, "generation": generation, **meta})
        if deleted:
            manifest["metadata"]["deletionTimestamp"] = "2023-04-07T14:50:44Z"
        text = '{"sentTimestamp":1680964785,"resourceGenerationID":%s,"content":%s}' % (ident, json.dumps(manifest))
        body = gzip.compress(text.encode()) if zipped else text.encode()
        self.raw(self.topic(uid), body, "v1/json+gzip" if zipped else "v1/json", retain)

    def clear(self, uid, leaf="content"):
        self.mqtt.publish(self.topic(uid, leaf), b"", qos=1, retain=True).wait_for_publish(30)

    def retained(self):
        """What a new subscriber gets of the client: the uids of contents and of statuses."""
        marker, seen, done = os.urandom(8).hex(), [], queue.Queue()
        mqtt = paho.Client(f"looks-{marker}", protocol=paho.MQTTv5)
        mqtt.on_message = lambda _c, _d, message: done.put(True) if message.topic.endswith(marker) else seen.append(message)
        mqtt.on_subscribe = lambda *_: mqtt.publish(f"marks/{marker}", b"x", qos=1)
        mqtt.on_connect = lambda *_: mqtt.subscribe([(f"{self.prefix}{self.client}/#", SubscribeOptions(qos=1)), ("marks/#", SubscribeOptions(qos=1))])
        mqtt.connect("127.0.0.1", self.port, keepalive=60)
        mqtt.loop_start()
        done.get(timeout=30)
        mqtt.disconnect()
        mqtt.loop_stop()
        return sorted(one.topic.split("/", 2)[2] for one in seen if one.retain)

    def of(self, uid):
        return [one for one in self.statuses if one.uid == uid]

    def until(self, uid, kind, says, deadline=20, after=0):
        """The first status of a uid, not before its number `after`, whose condition is "True/Success"."""

        def found():
            hits = [one for one in self.of(uid)[after:] if one.says(kind) == says]
            assert hits, self.of(uid)
            return hits[0]

        return kit.eventually(found, deadline, f"{uid}: {kind} {says}")


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


class Stage:
    """Workspaces for Leases and for what hubs order, with the rights of configs/delivery. `tag`: behind their names, where others use
    the installation, too."""

    SHARDS = ("root",)
    user = USER

    def __init__(self, installation, workspaces=("edge",), tag=""):
        self.installation, self.tag = installation, tag
        installation.user_client(USER)  # its pair
        installation.make_workspace(f"leases-root{tag}", selector={"name": "root"})
        self.apply(f"leases-root{tag}", "lease-rbac.yaml")
        self.targets = {}
        for name in workspaces:
            installation.make_workspace(name + tag)
            self.apply(name + tag, "rbac.yaml")
            self.targets[name] = steady.steady(installation.client(f"/clusters/root:{name}{tag}"))
            self.allow(self.targets[name], "test.dev")

    @staticmethod
    def allow(target, group):
        """The agent may do everything with the kinds of an API group."""
        base = "/apis/rbac.authorization.k8s.io/v1/"
        target.must("POST", base + "clusterroles", {"metadata": {"name": group}, "rules": [{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}]})
        target.must("POST", base + "clusterrolebindings", {
            "metadata": {"name": group}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": group},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]})  # fmt: skip

    def apply(self, workspace, file):
        kit.eventually(lambda: self.installation.kubectl("apply", "-f", str(CONFIGS / file), server=f"/clusters/root:{workspace}") or True,
                       30, f"{file} applied")  # fmt: skip


class Agent(worker.Worker):
    """A process of the role. `clients`: "<id>=<cluster>"; `delivery`: keys of its section besides."""

    def __init__(self, stage, broker, clients=None, delivery=None, **more):
        stage.endpoints = None
        super().__init__(stage, "delivery", more.pop("role_more", None), **more)
        config = json.loads(self.config.read_text())
        role = config["roles"]["delivery"]
        role.pop("endpoints")
        role["server"] = more.get("server") or f"https://127.0.0.1:{stage.installation.port}"
        role["write_budget"] = {"per_second": 100000, "burst": 100000}
        role["lease"] = {"duration": "6s", "renew": "1s", "give_up": "4s"}
        role["lease_clusters"] = [f"root:leases-root{stage.tag}"]
        clients = clients or [f"edge=root:edge{stage.tag}"]
        role["delivery"] = {"broker": {"url": broker.url}, "clients": list(clients), **(delivery or {})}
        self.config.write_text(json.dumps(config))

    def connected(self, count=1):
        kit.eventually(lambda: self.metric("delivery_connected") == count, 40, "the agent is connected")
        return self


def hub_tool(broker, *args, client="edge", expect=0, env=None):
    """`kintsugi delivery-hub` once: what it prints; nothing of the caller's environment names a broker."""
    named = ["--broker", broker.url, "--client", client] if env is None else []
    made = subprocess.run([os.environ["KINTSUGI"], "delivery-hub", *args, *named], capture_output=True, text=True, timeout=90, check=False,
                          env={**os.environ, **(env or {})})  # fmt: skip
    assert made.returncode == expect, (made.returncode, made.stdout, made.stderr)
    return made.stdout + made.stderr


class ServedHub:
    """`kintsugi delivery-hub serve` over a folder."""

    def __init__(self, broker, *flags, client="edge"):
        self.folder = tempfile.TemporaryDirectory(prefix="kintsugi-wishes-")
        self.broker, self.flags = broker, flags
        self.dir = pathlib.Path(self.folder.name) / client
        self.dir.mkdir()
        self.log = pathlib.Path(self.folder.name) / ".log"
        self.process = None

    def start(self):
        with self.log.open("ab") as out:
            # pylint: disable-next=consider-using-with
            self.process = subprocess.Popen([os.environ["KINTSUGI"], "delivery-hub", "serve", "--broker", self.broker.url, "--dir",
                                             self.folder.name, *self.flags], stdout=out, stderr=out, stdin=subprocess.DEVNULL)  # fmt: skip
        return self

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(120)

    def put(self, name, manifest):
        """A file, in one step."""
        new = self.dir / f".{name}"
        new.write_text(json.dumps(manifest))
        new.rename(self.dir / f"{name}.json")

    def drop(self, name):
        (self.dir / f"{name}.json").unlink()

    def lines(self):
        return self.log.read_text().splitlines()

    def until(self, *parts, deadline=30):
        """A line that has all parts."""

        def found():
            hits = [line for line in self.lines() if all(part in line for part in parts)]
            assert hits, self.lines()[-20:]
            return hits[-1]

        return kit.eventually(found, deadline, f"the hub says {parts}")

    def book(self):
        """What it keeps, by uid."""
        return {one["uid"]: one for one in json.loads((self.dir / ".hub.json").read_text())["objects"]}

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.stop()
        self.folder.cleanup()


class Case(unittest.TestCase):
    """Tests that share an installation, a broker and an agent of the client `edge`."""

    profile, delivery = "wide", {}

    @classmethod
    def setUpClass(cls):
        needs_broker()
        cls.installation = kit.shared(cls)
        cls.stage = Stage(cls.installation, tag=f"-{cls.__name__.lower()}-{os.getpid()}")
        cls.target = cls.stage.targets["edge"]
        cls.broker = Broker(cls.profile).start()
        cls.addClassCleanup(cls.broker.__exit__)
        cls.agent = Agent(cls.stage, cls.broker, delivery=cls.delivery).start()
        cls.addClassCleanup(cls.agent.__exit__)
        cls.agent.until_ready().connected()
        cls.hub = Hub(cls.broker)
        cls.addClassCleanup(cls.hub.close)

    def data(self, name):
        answer = self.target.get(f"{MAPS}/{name}")
        return answer.json["data"] if answer.status == 200 else None

    @staticmethod
    @contextlib.contextmanager
    def stopped(process):
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)


class OwnCase(unittest.TestCase):
    """Cases with an installation of their own: what they do to its processes, or how much, would disturb others."""

    WORKSPACES = ("edge", "other")

    @classmethod
    def setUpClass(cls):
        needs_broker()
        cls.installation = kit.Installation(shards=1).start_for(cls)
        cls.stage = Stage(cls.installation, cls.WORKSPACES)
        cls.target = cls.stage.targets["edge"]

    def hub(self, broker, client="edge"):
        hub = Hub(broker, client)
        self.addCleanup(hub.close)
        return hub
