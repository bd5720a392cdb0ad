"""Tests about addresses: one worker for a class, infras of router stand-ins and of the topic's brokers (a real Artemis each), and what
both hold."""
import concurrent.futures
import contextlib
import functools
import json
import os
import signal
import socket
import threading
import time
import unittest

import amqp
import kit
import messaging
import messaging_stage
import worker

CORE = {"address": "router.config.address", "autoLink": "router.config.autoLink", "linkRoute": "router.config.linkRoute"}
WRITES = ("CREATE", "UPDATE", "DELETE")
KINDS = ("Address", "AddressSpace", "AddressSpacePlan", "AddressPlan", "MessagingInfra")
SIZE = 64 << 20


def patience(count):
    """Seconds in which so many addresses go: thousands take a real broker minutes."""
    return max(20, count // 10)


def begin(sizes=(SIZE,), memory=192):
    """For a topic's setUpModule: an installation of one shard, and brokers b0, b1, … of these sizes [bytes] with heaps of `memory` MiB."""
    installation = kit.Installation(shards=1).start_for()
    Case.brokers = [amqp.Artemis(f"b{number}", memory, size, address_full_policy="FAIL") for number, size in enumerate(sizes)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(amqp.Artemis.start_for, Case.brokers))
    Case.stage = messaging_stage.Stage(installation, shards=("root",))


class Case(unittest.TestCase):
    """The topic's setUpModule calls begin(). Each test has a space of its own, which goes with all that is in it."""

    CHECKS, maxDiff = {}, None
    WORKER = {}
    PATIENCE = 20  # seconds, for all of a space to go
    stage, brokers = None, []

    @classmethod
    def setUpClass(cls):
        cls.start_worker()
        cls.addClassCleanup(lambda: cls.worker.__exit__())
        cls.tenant = messaging_stage.Tenant(cls.stage.consumers["root"])
        cls.client = amqp.Client().start_for(cls)
        cls.routers = {}
        cls.infras()
        cls.addClassCleanup(cls.clean)
        cls.worker.until_ready()
        for name in cls.routers:
            cls.tenant.until("MessagingInfra", name, deadline=30)

    @classmethod
    def start_worker(cls):
        cls.worker = worker.Worker(cls.stage, role="messaging", more={"messaging": {"checks": cls.CHECKS, **cls.WORKER}}).__enter__()

    @classmethod
    def infras(cls):
        raise NotImplementedError

    @classmethod
    def infra(cls, name, routers, brokers, /, *, capabilities=(), limits=None, **spec):
        """An infra of that many routers, and a plan of the same name for it."""
        cls.routers[name] = [amqp.Router(f"{name}-r{number}").start_for(cls) for number in range(routers)]
        kind, body = messaging_stage.infra(cls.routers[name], brokers, name=name)
        for key, value in spec.items():
            body["spec"][key].update(value)
        cls.tenant.make(kind, body)
        cls.tenant.make("AddressSpacePlan", {"metadata": {"name": name}, "spec": {
            "messagingInfraRef": name, **({"capabilities": list(capabilities)} if capabilities else {}),
            **({"resources": {"limits": limits}} if limits else {})}})

    @classmethod
    def clean(cls):
        """All goes as people would take it away: what stays is a fault."""
        for kind in KINDS:
            cls.tenant.remove_all(kind)

    def use(self, infra, name=None, **spec):
        """The test's space, on that infra from now on."""
        self.on, self.space = infra, name or self._testMethodName.split("_")[1].lower()
        self.tenant.space(self.space, infra, **spec)
        self.addCleanup(self.away, self.space)
        self.tenant.until("AddressSpace", self.space)
        self.space_id = self.tenant.get("AddressSpace", self.space)["status"]["spaceId"]
        return self.space_id

    def away(self, space):
        names = [one["metadata"]["name"] for one in self.tenant.client.must("GET", self.tenant.path("Address"))["items"]]
        self.tenant.many([("DELETE", self.tenant.path("Address", name), None) for name in names if name.startswith(space + ".")])
        self.tenant.client.request("DELETE", self.tenant.path("AddressSpace", space))
        self.tenant.gone("AddressSpace", space, self.PATIENCE)

    # Objects.
    def name(self, local):
        return f"{self.space}.{local}"

    def address(self, local, kind="queue", address=None, **spec):
        return {"metadata": {"name": self.name(local)}, "spec": {"address": address or local, "type": kind, **spec}}

    def make(self, local, kind="queue", address=None, **spec):
        return self.tenant.make("Address", self.address(local, kind, address, **spec))

    def make_all(self, locals_, kind="queue", **spec):
        head = {"apiVersion": messaging.KINDS["Address"][0], "kind": "Address"}
        self.tenant.many([("POST", self.tenant.path("Address"), {**head, **self.address(local, kind, **spec)}) for local in locals_], good=(201,))

    def ready(self, *locals_, deadline=20):
        self.tenant.ready(*locals_, space=self.space, deadline=deadline)

    def made(self, local, kind="queue", **spec):
        self.make(local, kind, **spec)
        self.ready(local)
        return self.status(local)

    def status(self, local):
        return self.tenant.get("Address", self.name(local)).get("status", {})

    def until(self, local, which="Ready", status="True", reason=None, deadline=20):
        return self.tenant.until("Address", self.name(local), which, status, reason, deadline)

    def patch(self, local, body):
        return self.tenant.client.must("PATCH", self.tenant.path("Address", self.name(local)), body, headers=messaging.MERGE)

    def delete(self, local, wait=True):
        self.tenant.delete("Address", self.name(local))
        if wait:
            self.gone(local)

    def delete_all(self, locals_):
        self.tenant.many([("DELETE", self.tenant.path("Address", self.name(local)), None) for local in locals_], good=(200, 202))

    def gone(self, local, deadline=20):
        self.tenant.gone("Address", self.name(local), deadline)

    def plan(self, name, kind="queue", **spec):
        self.tenant.make("AddressPlan", {"metadata": {"name": name}, "spec": {"addressType": kind, **spec}})
        self.addCleanup(self.tenant.client.request, "DELETE", self.tenant.path("AddressPlan", name))

    def older_than_others(self, local):
        """What is made from now on is younger by a second: of two of one second the uid decides which is the older."""
        made = self.tenant.get("Address", self.name(local))["metadata"]["creationTimestamp"]
        kit.eventually(lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) > made, what="another second")

    def passes(self):
        """Something that was begun later is done: what was begun before and could be done without waiting is done as well."""
        self.passed = getattr(self, "passed", 0) + 1
        local = f"passes{self.passed}"
        self.made(local, "anycast")
        self.delete(local)

    # Routers.
    def of(self, router, kind="address"):
        """What that router holds of the test's space."""
        keys = {"address": ("pattern",), "autoLink": ("address",), "linkRoute": ("prefix", "pattern")}[kind]
        return [one for one in router.rows(kind).values() for key in keys if (one.get(key) or "").startswith(self.space_id)]

    def links(self, local, routers=None):
        """Of the routers, how the autolink from the broker of that address is."""
        end = f"/{local}"
        return [one["operStatus"] for router in routers or self.routers[self.on] for one in self.of(router, "autoLink")
                if one["direction"] == "in" and one["address"].endswith(end)]

    def linked(self, local):
        """The number of the only router that has a link from the broker: the queue takes no second consumer. Routers of a mesh pass its
        messages on to each other, stand-ins do not: consumers have to be there."""
        return kit.eventually(lambda: self.links(local).count("active") == 1 and [self.links(local).index("active")],
                              what=f"one router has the link of {local}")[0]

    def writes(self, router, *kinds):
        """Writes that came there since forget(): {(operation, type): count}."""
        return {(operation, kind): count for (operation, kind), count in router.requests().items()
                if operation in WRITES and (not kinds or kind.rpartition(".")[2] in kinds)}

    def forget(self):
        for router in self.routers[self.on]:
            router.command("forget")

    def log(self, router):
        return [(one["operation"], one["type"].rpartition(".")[2], one.get("code")) for one in router.dump(log=True)["log"] if one["operation"] in WRITES]

    # Brokers.
    def at(self, broker):
        """A connection of the client to a broker, by the broker's name."""
        name = f"broker {broker.port}"
        if name not in self.opened():
            assert self.client.open(broker.port, name=name)["opened"]
            self.opened().add(name)
        return name

    @classmethod
    def opened(cls):
        if "connections" not in cls.__dict__:
            cls.connections = set()
        return cls.connections

    def ask(self, broker, resource, operation, *parameters):
        succeeded, value = self.client.broker(resource, operation, parameters, connection=self.at(broker), ms=60_000) or (False, "no answer")
        assert succeeded, value
        return value

    def settings(self, broker, match):
        return json.loads(self.ask(broker, "broker", "getAddressSettingsAsJSON", match))

    def queues(self, broker):
        """Queues of the test's space at that broker."""
        return sorted(one for one in self.ask(broker, "broker", "getQueueNames") if self.space_id in one)

    def broker_addresses(self, broker):
        return sorted(one for one in self.ask(broker, "broker", "getAddressNames") if self.space_id in one)

    def row(self, broker, queue):
        listed = json.loads(self.ask(broker, "broker", "listQueues", "", 1, 10000))["data"]
        return next((one for one in listed if one["name"] == queue), None)

    def pause(self, broker):
        """It says nothing until resume(), at the latest until the test ends."""
        self.addCleanup(self.resume, broker)
        os.kill(broker.process.pid, signal.SIGSTOP)

    @staticmethod
    def resume(broker):
        os.kill(broker.process.pid, signal.SIGCONT)

    def asked(self, op):
        """How many such requests the worker has sent to brokers."""
        return self.worker.metric("messaging_mgmt_requests_total", component_kind="broker", op=op)

    def hosts(self, local):
        return [one["host"] for one in self.status(local)["brokers"]]

    # Clients.
    def open(self, router=0, name=None):
        name = name or f"client {self.space_id} {router}"
        found = self.client.open(self.routers[self.on][router].tenants_port, hostname=self.space_id, name=name)
        assert found["opened"] and not found["error"], found
        self.addCleanup(self.client.do, "close", connection=name)
        return functools.partial(self.client.do, connection=name)


class Two(Case):
    """An infra `two`: the routers `one` and `other`, and `broker`."""

    @classmethod
    def infras(cls):
        cls.infra("two", 2, cls.brokers)

    def setUp(self):
        [self.broker], (self.one, self.other) = self.brokers, self.routers["two"]


class Endings:
    """Of Two."""

    COUNT = 40

    def test_MS048_what_is_made_and_deleted_leaves_nothing(self):
        self.use("two")
        locals_ = [f"a{number}" for number in range(self.COUNT)]
        self.make_all(locals_)
        self.delete_all(locals_[::2])  # before they are ready, many of them
        self.ready(*locals_[1::2], deadline=60)
        self.delete_all(locals_[1::2])
        kit.eventually(lambda: not [one for one in self.tenant.client.must("GET", self.tenant.path("Address"))["items"]
                                    if one["metadata"]["name"].startswith(self.space + ".")], 60, "all are gone")
        for router in self.routers["two"]:
            for kind in CORE:
                self.assertEqual(self.of(router, kind), [])
        self.assertEqual((self.queues(self.broker), self.broker_addresses(self.broker)), ([], []))
        self.assertEqual(self.worker.metric("messaging_pending_entities"), 0)


class Restarts:
    """Of Two."""

    CHECKS = {"counters": "1s", "sweep": "1h", "links": "1h"}
    COUNT = 60
    QUEUES = 60  # of them, the others are anycast

    def test_MS053_MS054_a_router_that_began_anew_and_one_that_was_cut(self):
        self.use("two")
        locals_ = [f"a{number}" for number in range(self.COUNT)]
        self.make_all(locals_[:self.QUEUES])
        self.make_all(locals_[self.QUEUES:], "anycast")
        self.ready(*locals_, deadline=90 + self.PATIENCE)
        kit.eventually(lambda: self.tenant.get("MessagingInfra", "two")["status"]["routers"][0]["synchronized"], 30)
        self.forget()
        self.one.command("cut")
        kit.eventually(lambda: self.one.requests().get(("QUERY", "router"), 0) >= 2, what="it is asked again")
        self.tenant.until("MessagingInfra", "two")
        self.made("afterwards", "anycast")
        self.assertEqual(self.writes(self.one), {("CREATE", "router.config.address"): 1})
        self.forget()
        had = self.made_or_there()
        self.one.command("restart-empty")
        wanted = {"address": self.COUNT + 1, "autoLink": 2 * self.QUEUES}
        kit.eventually(lambda: wanted.items() <= self.one.sizes().items(), 60 + self.PATIENCE, "all is there")
        self.assertEqual({kind: len(self.of(self.one, kind)) for kind in wanted}, wanted)
        self.ready(*locals_, deadline=60 + self.PATIENCE)
        self.assertEqual({kind for operation, kind in self.one.requests() if operation == "QUERY" and kind.startswith("router.config")}, set())
        # Each is made once, with a vhost and a connector. Where a stand-in under load owes an answer the next one says that it is there.
        writes = self.writes(self.one, "address", "autoLink", "linkRoute")
        self.assertEqual(set(writes), {("CREATE", CORE[kind]) for kind in wanted})
        self.assertEqual(self.made_or_there() - had, sum(wanted.values()) + 2)
        self.assertEqual(self.writes(self.other), {})

    def made_or_there(self):
        return sum(self.worker.metric("messaging_mgmt_requests_total", component_kind="router", op="CREATE", code=code) for code in ("201", "400"))


class Relay:
    """A broker's other port, which can be shut while the broker stays."""

    def __init__(self, name, target):
        self.name, self.target, self.port = name, target, kit.free_port()
        self.listener, self.open, self.lock = None, [], threading.Lock()

    def start(self):
        if self.listener is not None:
            return self
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()
        return self

    def accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                with self.lock:
                    self.open += [client, server]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self.carry, args=pair, daemon=True).start()

    @staticmethod
    def carry(source, target):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def stop(self):
        if self.listener is None:
            return
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.listener = None
        with self.lock:
            for one in self.open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self.open = []
