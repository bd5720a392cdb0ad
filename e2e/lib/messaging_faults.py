"""What tests of faults of the messaging worker share: one router (a stand-in) and one broker (a real Artemis) of an infra on the shard
`root`, workers with short Leases, and what is to be there in the end."""
import contextlib
import http.client
import pathlib
import re
import socket
import threading
import time
import unittest

import amqp
import kit
import messaging_stage
import worker

LEASE = {"lease": {"duration": "5s", "give_up": "3s", "renew": "1s"}}


class Case(unittest.TestCase):
    stage = broker = None  # set by the module
    SPACE = "space1"

    @classmethod
    def setUpClass(cls):
        cls.router = amqp.Router("r1", hazards=False).start_for(cls)
        cls.client = amqp.Client().start_for(cls)
        cls.client.open(cls.broker.port, name="broker")
        cls.tenant = messaging_stage.Tenant(cls.stage.consumers["root"])
        cls.tenant.make(*messaging_stage.infra(*cls.peers()))
        cls.tenant.make("AddressSpacePlan", {"metadata": {"name": "plan1"}, "spec": {"messagingInfraRef": "infra1"}})
        cls.tenant.space(cls.SPACE)
        cls.addClassCleanup(cls.clean)

    @classmethod
    def peers(cls):
        """Routers and brokers of the infra."""
        return [cls.router], [cls.broker]

    @classmethod
    def worker(cls, **more):
        return worker.Worker(cls.stage, role="messaging", more={**LEASE, **more})

    @classmethod
    def clean(cls, tenant=None):
        """What is left takes a worker away, in the order in which people would."""
        tenant = tenant or cls.tenant
        with cls.worker():
            for kind in ("Address", "AddressSpace", "AddressSpacePlan", "MessagingInfra"):
                for one in tenant.client.must("GET", tenant.path(kind))["items"]:
                    tenant.delete(kind, one["metadata"]["name"])
                kit.eventually(lambda k=kind: not tenant.client.must("GET", tenant.path(k))["items"], 60, f"no {kind} is left")

    def begun(self, one):
        one.until_ready()
        self.tenant.until("AddressSpace", self.SPACE, deadline=40)
        return self.tenant.get("AddressSpace", self.SPACE)["status"]["spaceId"]

    def names(self, space_id):
        """Queues of a space at the broker."""
        done, names = self.client.broker("broker", "getQueueNames", connection="broker")
        assert done, names
        return sorted(one for one in names if one.startswith(space_id + "/"))

    def exact(self, space_id, locals_, router=None):
        """The components hold what these queues need: each once, and nothing else of the space."""
        wanted = sorted(f"{space_id}/{one}" for one in locals_)
        tables = (router or self.router).dump()["tables"]
        assert self.names(space_id) == wanted, (self.names(space_id), wanted)
        found = sorted(one["pattern"] for one in tables["address"] if (one["pattern"] or "").startswith(space_id + "/"))
        assert found == wanted, (found, wanted)
        links = sorted((one["externalAddress"], one["direction"]) for one in tables["autoLink"] if one["externalAddress"].startswith(space_id + "/"))
        assert links == sorted((one, way) for one in wanted for way in ("in", "out")), (links, wanted)
        return True

    def ends(self, space_id, locals_, deadline=60):
        self.tenant.ready(*locals_, space=self.SPACE, deadline=deadline)
        have = sorted(one["spec"]["address"] for one in self.tenant.client.must("GET", self.tenant.path("Address"))["items"])
        self.assertEqual(have, sorted(locals_))
        kit.eventually(lambda: self.exact(space_id, locals_), deadline, "components hold what is wanted")

    def all_away(self, space_id, locals_, deadline=60):
        for local in locals_:
            self.tenant.client.request("DELETE", self.tenant.path("Address", f"{self.SPACE}.{local}"))
        kit.eventually(lambda: not self.tenant.client.must("GET", self.tenant.path("Address"))["items"], deadline, "all addresses are gone")
        kit.eventually(lambda: self.exact(space_id, []), deadline, "nothing is left")

    def insist(self, method, local, body=None):
        """A change that is asked for until it is there, whatever fails meanwhile."""
        path = self.tenant.path("Address", f"{self.SPACE}.{local}" if body is None else "")
        good = (200, 202, 404) if body is None else (200, 201, 409)

        def asked():
            answer = self.tenant.client.request(method, path, body, timeout=10)
            assert answer.status in good, answer
            return True

        kit.eventually(asked, 60, f"{method} {local}")

    def insist_on(self, local):
        self.insist("POST", local, {"apiVersion": "enmasse.io/v1beta1", "kind": "Address", "metadata": {"name": f"{self.SPACE}.{local}"},
                                    "spec": {"address": local, "type": "queue"}})

    def count_anew(self):
        """What the router counts is of this test alone: workers of another may have had two connections for good reasons."""
        kit.eventually(lambda: not any(one["container"] == "kintsugi-root" for one in self.router.dump()["connections"]), what="no worker is left")
        self.router.command("forget")

    def one_spoke_at_a_time(self, owner="root"):
        """The router had one connection of that shard's workers at a time, and none spoke once a younger one had."""
        seen = self.router.dump()
        self.assertEqual((seen["most"].get(f"kintsugi-{owner}"), seen["overtaken"]), (1, 0))

    def speaker(self, *workers):
        """The worker that has a connection to the router. There is exactly one."""
        [one] = [each for each in workers if talks_to(each.process.pid, self.router.port)]
        return one


def talks_to(pid, port):
    """Whether a process has a TCP connection to that port of this machine."""
    return connections(pid, port) > 0


def connections(pid, port):
    """How many TCP connections a process has to that port of this machine."""
    inodes = set()
    for one in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(str(one.readlink()))
    rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "01" and int(row[2].split(":")[1], 16) == port and f"socket:[{row[9]}]" in inodes for row in rows)


class Gate:
    """A way to a component, on a port of its own. It can be shut at a request: what comes after it waits as well."""

    def __init__(self, name, port):
        self.name, self.target, self.port = name, port, kit.free_port()
        self.pattern = None
        self.reached, self.released = threading.Event(), threading.Event()
        self.server = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def shut_at(self, pattern, answered):
        """At the next request that is so. @param answered  it goes through, and its answer waits"""
        self.reached.clear()
        self.released.clear()
        self.answered, self.pattern = answered, re.compile(pattern, re.DOTALL)

    def open(self):
        self.pattern = None
        self.released.set()

    def close(self):
        self.open()
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.server.accept()
                try:
                    there = socket.create_connection(("127.0.0.1", self.target))
                except OSError:
                    client.close()
                    continue
                back = threading.Event()  # answers of this connection wait
                threading.Thread(target=self._pass, args=(client, there, self._request, back), daemon=True).start()
                threading.Thread(target=self._pass, args=(there, client, self._answer, back), daemon=True).start()

    def _pass(self, one, other, look, back):
        seen = b""
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                seen = look(seen + data, back)
                other.sendall(data)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _request(self, seen, back):
        pattern = self.pattern
        if pattern is not None and pattern.search(seen):
            self.pattern = None
            if self.answered:
                back.set()
            else:
                self.reached.set()
                self.released.wait(120)
            return b""
        return seen[-400:]

    def _answer(self, _, back):
        if back.is_set():
            self.reached.set()
            self.released.wait(120)
            back.clear()
        return b""


class Changes(threading.Thread):
    """Makes addresses and deletes some of them, again and again, until stop(); says which are left."""

    def __init__(self, case, seed, pause=0.05):
        super().__init__(daemon=True)
        self.case, self.random, self.pause = case, seed, pause
        self.left, self.fault, self.ends, self.made = [], None, threading.Event(), 0
        case.addCleanup(self.ends.set)
        self.start()

    def run(self):
        try:
            while not self.ends.is_set():
                if len(self.left) > 40 or (self.left and self.random.random() < 0.35):
                    local = self.left.pop(self.random.randrange(len(self.left)))
                    self.case.insist("DELETE", local)
                else:
                    local = f"c{self.made}"
                    self.made += 1
                    self.case.insist_on(local)
                    self.left.append(local)
                time.sleep(self.pause)
        except (AssertionError, OSError, http.client.HTTPException) as fault:
            self.fault = fault

    def stop(self):
        self.ends.set()
        self.join(120)
        assert self.fault is None and not self.is_alive(), self.fault
        return self.left
