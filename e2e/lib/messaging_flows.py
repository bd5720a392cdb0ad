"""What tests of flows share: each is done once, and again with a process killed at each of its steps; what routers and broker hold in the end is
the same."""
import collections
import itertools
import json

import amqp
import kit
import messaging
import messaging_steps

HELD = ("address", "autoLink", "linkRoute", "connector", "listener", "sslProfile", "vhost")
SAID = ("pattern", "prefix", "address", "direction", "externalAddress", "distribution", "waypoint", "hostname", "aliases", "maxConnections", "host", "port", "role")
WRITES = ("createAddress", "createQueue", "addAddressSettings", "destroyQueue", "deleteAddress", "removeAddressSettings")


class Case(messaging_steps.Case):
    """A pair of steps, one of what comes and one of what goes, is done with each of these pairs of victims; `owner` is the component of the step."""

    VICTIMS = ("worker", "proxy", "shard", "router", "broker")
    PAIRS = (("worker", "owner"), ("owner", "worker"), ("proxy", "shard"))

    @classmethod
    def worker(cls, **more):
        return super().worker(messaging={"allow_local_connectors": True, "certificates": {"cert_propagation_delay": "1s"}}, **more)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        first = kit.free_port()
        cls.tenant.client.must("PATCH", cls.tenant.path("MessagingInfra", "infra1"), {"spec": {"router": {"listenerPorts": {"first": first, "last": first + 7}}}},
                               headers=messaging.MERGE)

    def setUp(self):
        super().setUp()
        self.at_router, self.gate, self.probes, self.doing = self.router, "router", set(), None
        self.begun(self.one)

    def held(self):
        """What the router and the broker hold, without names that change with the objects' uids."""
        tables = self.at_router.dump()["tables"]
        rows = sorted((kind, *((key, json.dumps(one[key])) for key in SAID if key in one)) for kind in HELD for one in tables[kind]
                      if one["name"].startswith("ktg."))
        ours = self.client.broker("broker", "listQueues", ("", 1, 1000), connection="broker")
        queues = sorted((one["name"], one["address"], one["routingType"], one["maxConsumers"]) for one in json.loads(ours[1])["data"] if "/" in one["name"])
        addresses = sorted(one for one in self.client.broker("broker", "getAddressNames", connection="broker")[1] if "/" in one)
        self.probes |= {one[0] for one in queues}
        settings = [json.loads(self.client.broker("broker", "getAddressSettingsAsJSON", (one,), connection="broker")[1]) for one in sorted(self.probes)]
        return rows, queues, addresses, [one.get("expiryDelay") for one in settings]

    def becomes(self, wanted):
        def same():
            now = self.held()
            more, less = (list((collections.Counter(one) - collections.Counter(other)).elements()) for one, other in ((now[0], wanted[0]), (wanted[0], now[0])))
            assert now == wanted, (self.doing, more, less, now[1:], wanted[1:])
            return True

        kit.eventually(same, 90, "components hold what they should")

    def make(self, kind, name, **spec):
        body = {"apiVersion": messaging.KINDS[kind][0], "kind": kind, "metadata": {"name": name}, "spec": spec}

        def asked():
            answer = self.tenant.client.request("POST", self.tenant.path(kind), body, timeout=10)
            assert answer.status in (201, 409), answer
            return True

        kit.eventually(asked, 60, f"{kind} {name} is made")

    def remove(self, kind, name):
        def asked():
            answer = self.tenant.client.request("DELETE", self.tenant.path(kind, name), timeout=10)
            assert answer.status in (200, 202) or (answer.status == 404 and answer.json.get("details", {}).get("name") == name), answer
            return True

        kit.eventually(asked, 60, f"{kind} {name} is deleted")

    def asked_of_broker(self):
        return {op: self.one.metric("messaging_mgmt_requests_total", component_kind="broker", op=op) for op in WRITES}

    def steps(self, do, gates):
        """Does it; the writes that it took, as messaging_steps.CREATES has them."""
        self.at_router.command("forget")
        before = self.asked_of_broker()
        do()
        after = self.asked_of_broker()
        found = [("broker", op.encode()) for op in WRITES if after[op] > before[op]]
        for entry in self.at_router.dump(log=True)["log"]:
            if entry["operation"] in ("CREATE", "UPDATE", "DELETE"):
                kind = entry["type"].removeprefix(amqp.DISPATCH).replace(".", r"\.").encode()
                found.append((gates, messaging_steps.core(entry["operation"].encode(), (b"" if b"." in kind else rb"dispatch\.") + kind)))
        return list(dict.fromkeys(found))

    def through(self, come, ready, go, gone):
        """@param come, go  begin it; @param ready, gone  wait until it is done"""
        base = self.held()
        for do in (come, ready, self.held, go, gone):  # a worker that begins asks for connectors that are there: no step of this
            do()
        base = (*base[:3], self.held()[3])  # what is probed is known since
        self.becomes(base)
        coming = self.steps(lambda: (come(), ready()), self.gate)
        full = self.held()
        self.assertNotEqual(full, base)
        going = self.steps(lambda: (go(), gone()), self.gate)
        self.becomes(base)
        self.assertTrue(coming and going, (coming, going))
        print(f"{self._testMethodName}: {len(coming)} and {len(going)} steps", flush=True)
        answered = False
        for create, delete in itertools.zip_longest(coming, going, fillvalue=None):
            for pair in self.PAIRS:
                answered = not answered
                self.doing = create, delete, pair, answered
                self.killed(create, answered, come, pair[0])
                ready()
                self.becomes(full)
                self.killed(delete, answered, go, pair[1])
                gone()
                self.becomes(base)

    def killed(self, step, answered, do, victim):
        if step is None:
            do()
            return
        owner = "broker" if step[0] == "broker" else "router"
        try:
            self.at(step, answered, do, self.kills[owner if victim == "owner" else victim])
        except AssertionError as fault:
            raise AssertionError(f"{self.doing}: {fault}") from fault
