"""Tests of the messaging worker that share an installation: one worker over one shard, and for each class namespaces of its own."""
import contextlib
import json
import pathlib
import socket
import threading
import unittest

import amqp
import kit
import messaging
import messaging_stage
import worker

LAST_FIRST = ("MessagingEndpoint", "MessagingConnector", "MessagingAddress", "Address", "MessagingTenant", "MessagingProject", "AddressSpace",
              "AddressSpacePlan", "AddressPlan", "MessagingPlan", "MessagingAddressPlan", "MessagingInfra")
CORE = ("router.config.address", "router.config.autoLink", "router.config.linkRoute", "vhost", "connector", "listener", "sslProfile")


class Tenant(messaging_stage.Tenant):
    """Objects of one namespace of a consumer."""

    def change(self, kind, name, part="", **fields):
        """Merges these fields, of the spec unless they say otherwise: metadata, status."""
        whole = {key: fields.pop(key) for key in ("metadata", "status") if key in fields}
        body = {**whole, **({"spec": fields} if fields else {})}
        return self.client.must("PATCH", self.path(kind, name) + part, json.dumps(body), headers=messaging.MERGE)

    def plan(self, name="plan1", infra="infra1", **spec):
        return self.make("AddressSpacePlan", {"metadata": {"name": name}, "spec": {"messagingInfraRef": infra, **spec}})

    def annotate(self, **annotations):
        """Of the namespace, with `_` for `-`."""
        notes = {"enmasse.io/" + name.replace("_", "-"): value for name, value in annotations.items()}
        return self.client.must("PATCH", "/api/v1/namespaces/" + self.namespace, json.dumps({"metadata": {"annotations": notes}}), headers=messaging.MERGE)

    def message(self, kind, name, which="Ready"):
        return self.condition(kind, name, which).get("message", "")

    def clean(self):
        """Everything goes as people would take it away: what holds it up is a fault."""
        for kind in LAST_FIRST:
            for one in self.client.must("GET", self.path(kind))["items"]:
                self.client.request("DELETE", self.path(kind, one["metadata"]["name"]))
            kit.eventually(lambda k=kind: self.none(k), 30, f"no {kind} is left in {self.namespace}")

    def none(self, kind):
        left = self.client.must("GET", self.path(kind))["items"]
        assert not left, [(one["metadata"]["name"], one["metadata"].get("finalizers"), one.get("status", {}).get("conditions")) for one in left]
        return True


class Case(unittest.TestCase):
    """The module's setUpModule calls begin()."""

    @classmethod
    def tenant_of(cls, namespace, labels=None):
        client = Case.stage.consumers["root"]
        client.must("POST", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels or {}}})
        tenant = Tenant(client, namespace)
        cls.addClassCleanup(tenant.clean)
        return tenant

    @classmethod
    def routers_of(cls, *names, **more):
        return [amqp.Router(name, **more).start_for(cls) for name in names]

    @staticmethod
    def sent(*routers):
        """What changes entities, of all these routers together, by (operation, type); reads and queries aside."""
        total = {}
        for router in routers:
            for (operation, kind), count in router.requests().items():
                if operation in ("CREATE", "UPDATE", "DELETE") and kind in CORE:
                    total[operation, kind] = total.get((operation, kind), 0) + count
        return total

    @staticmethod
    def forget(*routers):
        for router in routers:
            router.command("forget")

    @staticmethod
    def vhosts(router):
        return {one["hostname"]: one for one in router.rows("vhost").values()}

    @staticmethod
    def patterns(router):
        return {one["pattern"]: one for one in router.rows("address").values()}


def begin(**settings):
    """An installation of one shard, and a worker with these settings of its role."""
    Case.installation = kit.Installation(shards=1).start_for()
    Case.stage = messaging_stage.Stage(Case.installation, ("root",))
    Case.worker = worker.Worker(Case.stage, role="messaging", more={"messaging": settings} if settings else None).__enter__()
    unittest.addModuleCleanup(Case.worker.__exit__)
    Case.worker.until_ready()


class Forwarder:
    """A way to a port on which a broker can be away, or be away for some: in its stead it has a port that stays the same."""

    def __init__(self, to, name="b0", place=None):
        """@param place  (address, port), else a free port of 127.0.0.1"""
        self.to, self.name, self.away, self.refused, self.pairs = to, name, False, set(), []
        self.server = socket.create_server(place or ("127.0.0.1", kit.free_port()))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, peer = self.server.accept()
            except OSError:
                return
            if self.away or any(owns(process, peer[1]) for process in self.refused):
                client.close()
                continue
            there = socket.create_connection(("127.0.0.1", self.to))
            self.pairs.append((client, there))
            for one, other in ((client, there), (there, client)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    @staticmethod
    def _pass(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def go(self):
        """All connections end, and new ones as well, until come()."""
        self.away = True
        for pair in self.pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        self.pairs.clear()

    def come(self):
        self.away = False

    def close(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.go()


def owns(process, port):
    """Whether that process has a connection from this local port of 127.0.0.1."""
    inodes = {fields[9] for fields in map(str.split, pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:])
              if fields[1] == f"0100007F:{port:04X}"}
    for link in pathlib.Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()).removeprefix("socket:[").removesuffix("]") in inodes:
                return True
    return False
