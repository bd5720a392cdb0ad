"""What shared infrastructure is required to have, as people see it: plans and what they cost, both fronts, settings of addresses at a broker, spaces
with everything, metrics, and that the chapters for administrators and tenants say what the kinds take (docs/spec/messaging.md)."""
import json
import pathlib
import re
import unittest

import amqp
import kit
import messaging
import messaging_addresses

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
TYPES = ("anycast", "multicast", "queue", "topic", "subscription", "deadLetter")


def setUpModule():
    messaging_addresses.begin(2 * (messaging_addresses.SIZE,), memory=128)


class Requirements(messaging_addresses.Case):
    WORKER = {"allow_local_connectors": True, "certificates": {"cert_propagation_delay": "1s"}}

    @classmethod
    def infras(cls):
        cls.infra("two", 2, cls.brokers, brokers={"queueMemory": "10Mi"})
        cls.infra("trans", 1, cls.brokers, capabilities=["transactional"])
        cls.infra("near", 1, cls.brokers[:1])

    def setUp(self):
        self.routers_here = self.routers["two"]

    def make_for_test(self, kind, name, **spec):
        self.addCleanup(self.vanish, kind, name)
        return self.tenant.make(kind, {"metadata": {"name": name}, "spec": spec})

    def vanish(self, kind, name):
        self.tenant.client.request("DELETE", self.tenant.path(kind, name))
        self.tenant.gone(kind, name, 30)

    # Plans.
    def test_MR3_MR10_MR12_plans_of_both_schemas_and_what_a_space_costs(self):
        resources = {"requests": {"queueMemory": "5Mi", "addresses": 10, "connections": 4}, "limits": {"queueMemory": "8Mi", "connections": 9, "linksPerConnection": 3}}
        for number, spec in enumerate(({"addressSpaceType": "shared"}, {})):
            self.make_for_test("AddressSpacePlan", f"cost{number}", messagingInfraRef="two", resources=resources, **spec)
        self.make_for_test("AddressSpacePlan", "dear", messagingInfraRef="two", resources={"requests": {"queueMemory": "21Mi"}})
        legacy = {"addressSpaceType": "standard", "resourceLimits": {"router": 1.0, "broker": 2.5, "aggregate": 3}, "addressPlans": ["old"],
                  "infraConfigRef": "default", "displayName": "Old"}
        old = self.make_for_test("AddressSpacePlan", "old", **legacy)
        old_address = self.make_for_test("AddressPlan", "oldqueue", addressType="queue", resources={"broker": 0.5, "router": 0.1}, displayName="Old")
        for name in ("cost0", "cost1"):
            self.tenant.until("AddressSpacePlan", name, "Feasible")
            self.assertEqual(self.tenant.get("AddressSpacePlan", name)["status"]["cost"], {"queueMemory": 5 << 20, "addresses": 10, "connections": 4})
        why = self.tenant.until("AddressSpacePlan", "dear", "Feasible", "False", "ExceedsInfraMaximum")  # nobody has a space of it
        self.assertIn("queueMemory", why["message"])
        self.use("two", "limited")
        self.tenant.client.must("PATCH", self.tenant.path("AddressSpace", "limited"), {"spec": {"plan": "cost0"}}, headers=messaging.MERGE)
        for router in self.routers_here:
            kit.eventually(lambda r=router: {one["hostname"]: one for one in r.rows("vhost").values()}[self.space_id]["maxConnections"] == 5, what="half of 9")
            group = {one["hostname"]: one for one in router.rows("vhost").values()}[self.space_id]["groups"]["$default"]
            self.assertEqual((group["maxSenders"], group["maxReceivers"]), (3, 3))
        for kind, before in (("AddressSpacePlan", old), ("AddressPlan", old_address)):
            self.assertEqual(self.tenant.get(kind, before["metadata"]["name"]), before)

    def test_MR14_MR35_the_other_word_for_transactions(self):
        self.use("trans", capabilities=["transactional"])
        status = self.tenant.get("AddressSpace", self.space)["status"]
        self.assertEqual(self.tenant.get("AddressSpacePlan", "trans")["status"]["capabilities"], ["transactions"])
        [router] = self.routers["trans"]
        self.assertEqual(sorted((one["prefix"], one["direction"]) for one in self.of(router, "linkRoute")), [(self.space_id, "in"), (self.space_id, "out")])
        self.made("orders")
        do = self.open()
        self.assertTrue(do("transaction", address="orders", bodies=["a"])["discharged"])
        self.assertEqual(do("receive", address="orders")["bodies"], ["a"])
        self.assertEqual([broker.name for broker in self.brokers if self.queues(broker)], [status["broker"]["host"]])

    # Addresses.
    def test_MR15_MR16_MR17_all_that_plans_of_addresses_say_is_at_the_broker(self):
        self.use("two")
        self.make("old")
        self.make("dead")
        self.ready("old", "dead")
        settings = {"resources": {"requests": {"queueDepth": 5, "queueMemory": "1Mi"}, "limits": {"queueDepth": 10, "queueMemory": "2Mi"}},
                    "queue": {"partitions": {"min": 1, "max": 1}, "ttl": "90s", "expiryQueue": "old", "deadLetterQueue": "dead"}}
        self.plan("all", allowOverrides=True, **settings)
        self.plan("none", allowOverrides=True)
        # What one has of its plan, the other says for itself.
        self.make("planned", plan="all")
        self.make("own", plan="none", **settings)
        self.ready("planned", "own")
        for local in ("planned", "own"):
            with self.subTest(local):
                self.assertEqual(set(self.hosts(local)) - set(self.hosts("old")), set())
                self.assertEqual(set(self.hosts(local)) - set(self.hosts("dead")), set())
                [broker] = [one for one in self.brokers if [one.name] == self.hosts(local)]
                found = self.settings(broker, self.status(local)["brokerAddress"])
                self.assertEqual({key: found[key] for key in ("expiryDelay", "maxExpiryDelay", "maxSizeBytes", "maxSizeMessages", "expiryAddress", "deadLetterAddress")},
                                 {"expiryDelay": 90000, "maxExpiryDelay": 90000, "maxSizeBytes": 2 << 20, "maxSizeMessages": 10,
                                  "expiryAddress": f"{self.space_id}/old", "deadLetterAddress": f"{self.space_id}/dead"})
                for target in ("old", "dead"):
                    self.assertIn(f"{self.space_id}/{target}", self.queues(broker))
        do = self.open()
        sent = do("send", address="own", count=11)
        self.assertEqual((sent["accepted"], len(sent["rejected"])), (10, 1), sent)
        # Requests decide where: what does not fit beside these is elsewhere, or waits.
        self.plan("nine", resources={"requests": {"queueMemory": "9Mi"}})
        for local in ("big0", "big1"):
            self.make(local, plan="nine")
            kit.eventually(lambda one=local: self.status(one).get("brokers") or self.tenant.condition("Address", self.name(one), "Scheduled").get("status") == "False")
        taken = {local: self.status(local).get("brokers", []) for local in ("big0", "big1")}
        free = [broker.name for broker in self.brokers if [broker.name] not in (self.hosts("planned"), self.hosts("own"))]
        self.assertEqual(sorted(one["host"] for hosts in taken.values() for one in hosts), free)

    def test_MS074_MR35_forwarders_move_messages_to_and_from_another_server(self):
        _, far = self.brokers
        for name in ("outside", "inbox"):
            self.ask(far, "broker", "createAddress", name, "ANYCAST")
            self.addCleanup(self.ask, far, "broker", "deleteAddress", name)
            self.ask(far, "broker", "createQueue", json.dumps({"name": name, "address": name, "routing-type": "ANYCAST", "durable": True}))
            self.addCleanup(self.ask, far, "broker", "destroyQueue", name, True)
        self.use("near", connectors=[{"name": "far", "endpointHosts": [{"host": "127.0.0.1", "port": far.port}]}])
        [router] = self.routers["near"]

        def forwards(remote, direction):
            return [{"name": "f", "remoteAddress": remote, "direction": direction}]

        self.make("news", "topic")
        self.make("sent", forwarders=forwards("far/outside", "out"))
        self.make("got", forwarders=forwards("far/inbox", "in"))
        self.make("sub", "subscription", topic="news", forwarders=forwards("far/outside", "out"))
        self.ready("news", "sent", "got", "sub")
        for local in ("sent", "got", "sub"):
            kit.eventually(lambda one=local: self.status(one)["forwarders"] == [{"name": "f", "isReady": True, "messages": []}], what=f"{local} forwards")
        do, there = self.open(), self.at(far)

        self.assertEqual(do("send", address="sent", bodies=["away"])["accepted"], 1)
        self.assertEqual(self.client.do("receive", connection=there, address="outside")["bodies"], ["away"])
        self.assertEqual(self.client.do("send", connection=there, address="inbox", bodies=["home"])["accepted"], 1)
        self.assertEqual(do("receive", address="got")["bodies"], ["home"])
        self.assertEqual(do("send", address="news", bodies=["told"])["accepted"], 1)
        self.assertEqual(self.client.do("receive", connection=there, address="outside")["bodies"], ["told"])
        held = {kind: sorted(one["name"] for one in self.of(router, kind)) for kind in ("address", "autoLink", "linkRoute")}
        self.assertEqual(len(held["autoLink"]), 2 + 2 + 1 + 3)
        # What is refused has nothing at the router.
        for local, kind, remote, direction, field in (
                ("back", "subscription", "far/inbox", "in", "spec.forwarders[0].direction"), ("cast", "anycast", "far/outside", "out", "spec.forwarders[0].direction"),
                ("many", "multicast", "far/outside", "out", "spec.forwarders[0].direction"), ("other", "topic", "far/outside", "out", "spec.forwarders[0].direction"),
                ("dead", "deadLetter", "far/outside", "out", "spec.forwarders[0].direction"), ("bare", "queue", "outside", "out", "spec.forwarders[0].remoteAddress"),
                ("empty", "queue", "far/", "in", "spec.forwarders[0].remoteAddress"), ("nobody", "queue", "nobody/outside", "out", "nobody")):
            with self.subTest(local):
                self.make(local, kind, forwarders=forwards(remote, direction), **({"topic": "news"} if kind == "subscription" else {}))
                self.assertIn(field, self.until(local, "Validated", "False")["message"])
        self.passes()
        self.assertEqual({kind: sorted(one["name"] for one in self.of(router, kind)) for kind in held}, held)
        # Who forwards no more keeps its queue.
        self.patch("sent", {"spec": {"forwarders": None}})
        kit.eventually(lambda: len(self.of(router, "autoLink")) == len(held["autoLink"]) - 1, what="its link is gone")
        self.ready("sent")
        self.assertEqual(do("send", address="sent", bodies=["stays"])["accepted"], 1)
        self.assertEqual(do("receive", address="sent")["bodies"], ["stays"])

    def test_MD2_MR22_MR34_both_fronts_are_one_model(self):
        self.use("two")
        self.tenant.make("MessagingTenant", {"metadata": {"name": "default"}, "spec": {"messagingInfrastructureRef": {"name": "two"}}})
        self.addCleanup(self.vanish, "MessagingTenant", "default")
        self.tenant.until("MessagingTenant", "default")
        other = self.tenant.get("MessagingTenant", "default")["status"]["spaceId"]
        for kind in TYPES:
            self.make(kind.lower(), kind, **({"topic": "topic"} if kind == "subscription" else {}))
            self.make_for_test("MessagingAddress", kind.lower(), **{kind: {"topic": "topic"} if kind == "subscription" else {}})
        # These go in another order than they were made in.
        self.addCleanup(self.vanish, "MessagingAddress", "subscription")
        self.ready(*(kind.lower() for kind in TYPES))
        for kind in TYPES:
            self.tenant.until("MessagingAddress", kind.lower())

        def rows(router, space_id):
            out = []
            for kind, keys in (("address", ("pattern", "distribution", "waypoint")), ("autoLink", ("address", "direction", "externalAddress")),
                               ("linkRoute", ("prefix", "direction")), ("vhost", ("hostname", "maxConnections"))):
                out += [json.dumps([kind, *(row[key] for key in keys)]).replace(space_id, "S") for row in router.rows(kind).values() if space_id in json.dumps(row)]
            return sorted(out)

        for router in self.routers_here:
            self.assertEqual(rows(router, self.space_id), rows(router, other))
        queues = [sorted(one.replace(space_id, "S") for broker in self.brokers for one in self.ask(broker, "broker", "getQueueNames") if space_id in one)
                  for space_id in (self.space_id, other)]
        self.assertEqual(queues[0], queues[1])
        # What the console reads.
        for kind in TYPES:
            for read in (lambda k=kind: self.status(k.lower()), lambda k=kind: self.tenant.get("MessagingAddress", k.lower())["status"]):
                status = read()
                self.assertEqual((status["isReady"], status["phase"], status["type"]), (True, "Active", kind))
                # One router has the only link of a subscription; stand-ins are no mesh. Other links are seen to be up a moment later.
                expected = ["degraded"] if kind == "subscription" else []
                kit.eventually(lambda r=read, e=expected: [one.partition(":")[0] for one in r()["messages"]] == e, 20, f"{kind}: messages are {expected}")
        self.make("lost", "subscription", topic="nowhere")
        self.until("lost", "Ready", "False")
        status = self.status("lost")
        self.assertFalse(status["isReady"])
        self.assertTrue(status["messages"])
        space = self.tenant.get("AddressSpace", self.space)["status"]
        self.assertEqual((space["isReady"], space["phase"], space["messages"]), (True, "Active", []))
        for local in ("subscription", "topic"):
            self.delete(local)
            self.vanish("MessagingAddress", local)

    def test_MR20_MR23_a_space_with_everything(self):
        port = kit.free_port()
        self.tenant.client.must("PATCH", self.tenant.path("MessagingInfra", "two"), {"spec": {"router": {"listenerPorts": {"first": port, "last": port + 1}}}},
                                headers=messaging.MERGE)
        far = amqp.Router("far").start_for(self)
        self.make_for_test("AddressSpacePlan", "some", messagingInfraRef="two", resources={"limits": {"connections": 8}})
        self.space = "whole"
        endpoints = [{"name": "safe", "service": "messaging", "cert": {"provider": "selfsigned"}, "expose": {"type": "route", "routeHost": "whole.example.com", "routeServicePort": "amqps", "routeTlsTermination": "passthrough"}},
                     {"name": "things", "service": "mqtt"}]
        self.tenant.space("whole", "some", endpoints=endpoints, connectors=[
            {"name": "far", "endpointHosts": [{"host": "127.0.0.1", "port": far.port}], "addresses": [{"name": "all", "pattern": "x/#"}]}])
        self.addCleanup(self.away, "whole")
        self.tenant.until("AddressSpace", "whole", "VhostApplied")
        status = kit.eventually(lambda: (one := self.tenant.get("AddressSpace", "whole")["status"]) and one.get("endpointStatuses") and one.get("connectors") and one,
                                30, "the status tells of both")
        self.space_id, self.on = status["spaceId"], "two"
        kit.eventually(lambda: self.tenant.get("AddressSpace", "whole")["status"]["connectors"][0]["isReady"], 30, "it is connected")
        for router in self.routers_here:
            self.assertEqual({one["hostname"]: one for one in router.rows("vhost").values()}[self.space_id]["maxConnections"], 4)
            self.assertEqual({(one["pattern"], one["direction"]) for one in self.of(router, "linkRoute")}, {(f"{self.space_id}/far/x/#", way) for way in ("in", "out")})
            kit.eventually(lambda r=router: [one["sslProfile"] in r.rows("sslProfile") for one in r.rows("listener").values() if one["policyVhost"] == self.space_id] == [True],
                           30, "a listener with its certificate")
        whole = self.tenant.get("AddressSpace", "whole")
        [safe, things] = sorted(whole["status"]["endpointStatuses"], key=lambda one: one["name"])
        self.assertEqual((safe["serviceHost"], safe["servicePorts"]), ("whole.example.com", [{"name": "AMQPS", "port": 5671}]))
        self.assertEqual(things["messages"], ["spec.endpoints[1].service: is not supported"])
        self.assertGreaterEqual(self.worker.metric("messaging_spaces", state="Active"), 1)

    def test_MR21_one_worker_for_the_addresses_of_all_spaces_and_no_names_in_metrics(self):
        self.use("two", "first")
        for local in ("secretname0", "secretname1"):
            self.made(local)
        self.use("two", "second")
        self.made("secretname2", "multicast")
        kit.eventually(lambda: self.worker.metric("messaging_addresses", type="queue", state="Active") == 2, 20, "two queues")
        kit.eventually(lambda: self.worker.metric("messaging_addresses", type="multicast", state="Active") == 1, 20, "one multicast")
        for text in (self.worker.metrics(), ):
            self.assertNotIn("secretname", text)
            self.assertNotIn(self.space_id, text)

    # Documents.
    def test_MR38_the_chapters_for_administrators_and_tenants_say_what_is_taken(self):
        tried = 0
        for name in ("messaging-admin.md", "messaging-tenant.md"):
            text = (DOCS / name).read_text(encoding="utf-8")
            for block in re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", text):
                for document in re.split(r"^    ---\n", block, flags=re.MULTILINE):
                    plain = re.sub(r"(?m)^    ", "", document).strip() + "\n"
                    if not plain.startswith("apiVersion:") or not any(f"kind: {kind}\n" in plain for kind in messaging.KINDS):
                        continue
                    kind = re.search(r"(?m)^kind: (\w+)", plain)[1]
                    with self.subTest(name, kind=kind):
                        plain = plain.replace("namespace: myapp}", "namespace: default}")
                        answer = self.tenant.client.request("POST", self.tenant.path(kind) + "?dryRun=All", plain.encode(), headers=messaging.YAML)
                        self.assertIn(answer.status, (201, 409), answer)
                        tried += 1
            for kind in ("MessagingInfra", "AddressSpacePlan", "AddressPlan") if "admin" in name else ("AddressSpace", "Address", "MessagingTenant", "MessagingConnector", "MessagingEndpoint"):
                self.assertIn(kind, text)
        self.assertGreaterEqual(tried, 6)


if __name__ == "__main__":
    unittest.main()
