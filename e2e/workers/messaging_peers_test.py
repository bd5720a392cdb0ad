"""The peers that tests of the messaging worker run against are right: the stand-in for routers says what qpid-dispatch 1.19.0 was
recorded to say and does what it was seen to do, a real Artemis says what was recorded of it, and messages pass through both."""
import functools
import json
import time
import unittest

import amqp
import kit

ADDRESS, AUTO_LINK, LINK_ROUTE = "router.config.address", "router.config.autoLink", "router.config.linkRoute"
SOON = 300  # milliseconds in which what is never answered would have been
REFUSED = {"condition": "amqp:resource-limit-exceeded", "description": "connection disallowed by local policy"}
DETACHED = {"condition": "amqp:resource-limit-exceeded", "description": "link disallowed by local policy"}
GLOBAL_MAX_SIZE = 268435456
AGENT_KINDS = {"connector", "listener", "sslProfile", "vhost"}


@functools.lru_cache(maxsize=None)
def broker():
    """One for all tests of this topic; their addresses differ."""
    return amqp.Artemis("b0", global_max_size=GLOBAL_MAX_SIZE).start_for()


@functools.lru_cache(maxsize=None)
def client():
    return amqp.Client().start_for()


def client_of(port, broker_port=None):
    """The client of all tests, whose connections "default" and "broker" are to these ports from now on."""
    for name, port in (("default", port), ("broker", broker_port)):
        if port is not None:
            assert client().open(port, name=name)["opened"]
    return client()


def vhost(hostname, most=65535, links=None, aliases=""):
    group = {"remoteHosts": "*", "sources": "*", "targets": "*", "allowDynamicSource": True, "allowAnonymousSender": True}
    if links is not None:
        group.update(maxSenders=links, maxReceivers=links)
    return {"hostname": hostname, "aliases": aliases, "maxConnections": most, "allowUnknownUser": True, "groups": {"$default": group}}


class Answers(unittest.TestCase):
    """What a router says to requests."""

    @classmethod
    def setUpClass(cls):
        cls.router = amqp.Router("R1").start_for(cls)
        cls.client = client_of(cls.router.port)
        cls.free = kit.free_port()  # nobody listens there

    # (operation, type, name, body, (status code, description or its words), fields of the answer's body; None: there is no body)
    ROWS = [
        ("CREATE", ADDRESS, "a1", {"prefix": "p1", "distribution": "balanced", "waypoint": True}, (201, "Created"), {
            "name": "a1", "type": amqp.DISPATCH + ADDRESS, "prefix": "p1", "distribution": "balanced", "waypoint": True, "ingressPhase": 0,
            "egressPhase": 1, "pattern": None, "priority": -1, "fallback": False}),
        ("CREATE", ADDRESS, "a1", {"prefix": "p2"}, (400, "Name conflicts with an existing entity"), None),
        ("CREATE", ADDRESS, "a2", {"prefix": "p1"}, (400, "Already exists"), None),
        ("CREATE", ADDRESS, "a3", {"pattern": "x/y", "distribution": "multicast"}, (201, "Created"), {
            "prefix": None, "pattern": "x/y", "distribution": "multicast", "waypoint": False, "egressPhase": 0}),
        ("CREATE", ADDRESS, None, {"name": "inside", "pattern": "nameless"}, (201, "Created"), {"name": None, "pattern": "nameless"}),
        ("READ", ADDRESS, "inside", {}, (404, "Not Found"), None),
        ("READ", ADDRESS, "a3", {}, (200, "OK"), {"name": "a3", "pattern": "x/y"}),
        ("CREATE", "connector", "c1", {"host": "127.0.0.1", "port": "FREE", "role": "route-container"}, (201, "Created"), {
            "identity": "connector/127.0.0.1:FREE:c1", "cost": 1, "connectionStatus": "CONNECTING", "connectionMsg": ""}),
        ("CREATE", "connector", "c1", {"host": "127.0.0.1", "port": "FREE", "role": "route-container"},
         (400, ("adding ConnectorEntity(", ") duplicates unique attribute 'name' from existing ConnectorEntity(")), None),
        ("CREATE", "connector", "c2", {"host": "127.0.0.1", "port": "FREE", "role": "x"}, (400, "role"), None),
        ("UPDATE", "connector", "c1", {"cost": 2}, (501, ("Operation 'UPDATE' not implemented for ", " ['CREATE', 'DELETE', 'READ']")), None),
        ("CREATE", "connector", "c3", {"host": "127.0.0.1", "port": "FREE", "role": "route-container", "sslProfile": "none"}, (201, "Created"), {}),  # MH-12
        ("CREATE", AUTO_LINK, "in1", {"address": "x/y", "direction": "in", "connection": "c1", "externalAddress": "n"}, (201, "Created"), {
            "address": "x/y", "externalAddress": "n", "phase": 1, "operStatus": "inactive", "lastError": None, "linkRef": None, "containerId": None}),
        ("CREATE", AUTO_LINK, "out1", {"address": "x/y", "direction": "out", "connection": "c1"}, (201, "Created"), {"phase": 0, "operStatus": "inactive"}),
        ("CREATE", LINK_ROUTE, "l1", {"prefix": "t", "direction": "in", "connection": "c1"}, (201, "Created"), {
            "prefix": "t", "distribution": "linkBalanced", "operStatus": "inactive", "addExternalPrefix": None, "delExternalPrefix": None}),
        ("CREATE", "vhost", "v1", {"hostname": "h1", "aliases": "h2,h3", "maxConnections": 10, "groups": {"$default": {"maxSenders": 2}}}, (201, "Created"), {
            "identity": "vhost/h1", "maxConnections": 10, "maxConnectionsPerUser": 65535, "maxConnectionsPerHost": 65535, "aliases": "h2,h3"}),
        ("UPDATE", "vhost", "v1", {"maxConnections": 20}, (200, "OK"), {"maxConnections": 20, "aliases": "h2,h3", "hostname": "h1"}),
        ("UPDATE", "vhost", "v1", {"hostname": "other"}, (400, "Cannot update attribute 'hostname' in UPDATE"), None),
        ("UPDATE", "vhost", "none", {"maxConnections": 20}, (404, "No entity with name=none"), None),
        ("CREATE", "vhost", "v2", {"hostname": "h9", "maxConnections": -1}, (500, ("PolicyError: ", "below minimum '0'")), None),
        ("CREATE", "vhost", "v3", {"hostname": "h8", "maxConnections": 0}, (201, "Created"), {"maxConnections": 0}),
        ("CREATE", "listener", "li1", {"host": "127.0.0.1", "port": "TAKEN"}, (201, "Created"), {}),  # MH-12: somebody listens there
        ("CREATE", "listener", "li2", {"host": "127.0.0.1", "port": "FREE2", "http": True}, (201, "Created"), {}),
        ("DELETE", "listener", "li2", {}, (400, "HTTP listeners cannot be deleted"), None),
        ("CREATE", "sslProfile", "s1", {"certFile": "/none/tls.crt", "privateKeyFile": "/none/tls.key"}, (201, "Created"), {"name": "s1"}),  # MH-12
        ("READ", ADDRESS, "none", {}, (404, "Not Found"), None),
        ("READ", "router", "router/R1", {}, (403, ""), None),
        ("READ", "nothing", "x", {}, (400, f"No such entity type '{amqp.DISPATCH}nothing'"), None),
        ("DELETE", AUTO_LINK, "in1", {}, (204, "No Content"), None),
        ("DELETE", AUTO_LINK, "in1", {}, (404, "Not Found"), None),
        ("DELETE", ADDRESS, None, {}, (400, "No name or identity provided"), None),
        ("DELETE", "vhost", None, {}, (400, "No name or identity provided"), None),
        ("CREATE", ADDRESS, "odd", {"pattern": "odd", "waypoint": "yes", "distribution": "bogus", "unheard": 1}, (201, "Created"), {
            "waypoint": False, "distribution": "balanced"}),  # MH-10
        ("CREATE", ADDRESS, "dot", {"pattern": "x.y"}, (400, "Already exists"), None),  # MH-9
    ]

    def filled(self, value):
        """A row with real ports."""
        if isinstance(value, dict):
            return {key: self.filled(one) for key, one in value.items()}
        ports = {"FREE2": self.free2, "FREE": self.free, "TAKEN": self.router.port}
        for word, port in ports.items():
            value = value.replace(word, str(port)) if isinstance(value, str) else value
        return value

    def test_recorded_exchanges(self):
        self.free2 = kit.free_port()
        for operation, kind, name, body, (code, words), wanted in self.ROWS:
            with self.subTest(f"{operation} {kind} {name}"):
                found = self.client.router(operation, kind, name, self.filled(body))
                self.assertIsNotNone(found)
                self.assertEqual(found[0], code, found)
                for one in [words] if isinstance(words, str) else words:
                    self.assertIn(one, found[1])
                if isinstance(words, str) and kind not in AGENT_KINDS and code != 403:
                    self.assertEqual(found[1], words)
                if wanted is None:
                    self.assertIsNone(found[2])
                else:
                    self.assertEqual({key: found[2].get(key, "absent") for key in wanted}, self.filled(wanted))
        self.assertEqual(self.router.command("dump", log=True)["log"][0]["code"], 201)

    def test_status_of_a_connector_and_its_links(self):
        other = amqp.Router("R9").start_for(self)
        self.client.router("CREATE", "connector", "up", {"host": "127.0.0.1", "port": str(other.port), "role": "route-container"})
        self.client.router("CREATE", AUTO_LINK, "refused", {"address": "qq", "direction": "in", "connection": "up"})
        up = kit.eventually(lambda: self.status("connector", "up", "connectionStatus", "SUCCESS"), 5)
        self.assertRegex(up["connectionMsg"], rf"^\[C\d+\] Connection Opened: dir=out host=127\.0\.0\.1:{other.port} .*container_id=R9")
        failed = kit.eventually(lambda: self.status(AUTO_LINK, "refused", "operStatus", "failed"), 5)
        self.assertEqual(failed["lastError"], "qd:no-route-to-dest: No route to the destination node")
        other.kill()
        down = kit.eventually(lambda: "refused" in self.status("connector", "up", "connectionStatus", "CONNECTING")["connectionMsg"] and
                              self.status("connector", "up", "connectionStatus", "CONNECTING"), 5)
        self.assertIn("Connection refused", down["connectionMsg"])
        self.assertEqual(self.client.router("READ", AUTO_LINK, "refused")[2]["operStatus"], "inactive")
        other.start()
        kit.eventually(lambda: self.status("connector", "up", "connectionStatus", "SUCCESS"), 8)
        self.assertEqual(self.client.router("DELETE", "connector", "up"), (204, "No Content", None))
        kit.eventually(lambda: not other.dump()["connections"], 5)

    def status(self, kind, name, key, value):
        found = self.client.router("READ", kind, name)[2]
        self.assertEqual(found[key], value)
        return found

    def test_queries(self):
        for number in range(5):
            self.client.router("CREATE", ADDRESS, f"rows{number}", {"pattern": f"rows/{number}"})
        names = [one["name"] for one in self.client.query(ADDRESS, ["name"])]
        self.assertEqual([name for name in names if name and name.startswith("rows")], [f"rows{number}" for number in range(5)])
        self.assertEqual([one["name"] for one in self.client.query(ADDRESS, ["name"], offset=1, count=2)], names[1:3])
        self.assertEqual(self.client.query(ADDRESS, offset=10_000, count=5), [])
        self.assertEqual(set(self.client.query(ADDRESS)[0]), {"name", "identity", "type", "prefix", "pattern", "distribution", "waypoint", "ingressPhase",
                                                              "egressPhase", "priority", "fallback"})
        [short] = self.client.manage([({"operation": "QUERY", "entityType": ADDRESS}, {"attributeNames": []})])
        self.assertEqual((short["properties"]["statusCode"], short["body"]["results"]), (200, []))
        columns = ["addrCount", "linkCount", "autoLinkCount", "linkRouteCount", "connectionCount", "memoryUsage", "uptimeSeconds"]
        [router] = self.client.query("router", columns)
        self.assertEqual(list(router), columns)
        self.assertTrue(all(isinstance(one, int) for one in router.values()), router)
        [nodes] = self.client.manage([({"operation": "GET-MGMT-NODES", "type": "org.amqp.management"}, {})])
        self.assertEqual(nodes["body"], ["amqp:/_topo/0/R1/$management"])

    def test_form_of_answers_MH_6(self):
        opened = self.client.open(self.router.port, name="form")
        self.assertEqual(opened["peer"], {"container": "R1", "product": "qpid-dispatch-router", "version": "1.19.0"})
        ask = lambda kind, correlation, ms=5000: self.client.do("manage", connection="form", ms=ms, requests=[  # noqa: E731
            {"properties": {"operation": "READ", "type": amqp.DISPATCH + kind, "name": "none"}, "body": {}, "correlation": correlation}])
        for kind, correlation, echo in ((ADDRESS, "text", "text"), (ADDRESS, 7, 7), ("vhost", "text2", "text2")):
            with self.subTest(kind, correlation=correlation):
                [answer] = ask(kind, correlation)["answers"]
                self.assertEqual((answer["correlation"], answer["settled"], answer["properties"]["statusCode"]), (echo, True, 404))
        for kind, correlation in (("vhost", 8), (ADDRESS, None)):  # of the agent; a message-id alone
            said = ask(kind, correlation, SOON)
            self.assertEqual((said["answers"], [one["correlation"] for one in said["unknown"]]), ([None], [None]), kind)
        address = self.client.do("attach", connection="form", role="receiver", dynamic=True, **{"as": "r"})["address"]
        self.assertRegex(address, r"^amqp:/_topo/0/R1/temp\.")

    def test_update_of_a_core_type_is_never_answered_MH_3(self):
        self.client.router("CREATE", ADDRESS, "core", {"pattern": "core"})
        for kind in (ADDRESS, AUTO_LINK, LINK_ROUTE):
            self.assertIsNone(self.client.router("UPDATE", kind, "core", {"priority": 1}, ms=SOON), kind)
        self.assertEqual(self.client.router("READ", ADDRESS, "core")[0], 200)

    def test_aliases_outlive_their_vhost_MH_7(self):
        self.client.router("CREATE", "vhost", "one", vhost("one", aliases="leak"))
        self.assertEqual(self.client.router("DELETE", "vhost", "one"), (204, "No Content", None))
        code, text, _ = self.client.router("CREATE", "vhost", "one", vhost("one", aliases="leak"))
        self.assertEqual((code, text.split(":")[0]), (500, "PolicyError"))
        self.client.router("CREATE", "vhost", "two", vhost("two", aliases="fine"))
        self.assertEqual(self.client.router("UPDATE", "vhost", "two", {"aliases": ""})[0], 200)
        self.client.router("DELETE", "vhost", "two")
        self.assertEqual(self.client.router("CREATE", "vhost", "two", vhost("two", aliases="fine"))[0], 201)

    def test_types_of_the_agent_are_slow_one_after_the_other_MH_8(self):
        asked = [({"operation": "CREATE", "type": amqp.DISPATCH + "vhost", "name": f"slow{number}"}, vhost(f"slow{number}")) for number in range(25)]
        begin = time.monotonic()
        self.assertEqual({one["properties"]["statusCode"] for one in self.client.manage(asked)}, {201})
        self.assertGreaterEqual(time.monotonic() - begin, 25 * 0.008)


class Hazards(unittest.TestCase):
    """What a router does, each on one of its own."""

    def test_large_tables_MH_1_MH_5(self):
        router = amqp.Router("R2", scale=1).start_for(self)
        client = client_of(router.port)
        rows, columns = 1_700, ["name"] * 40
        made = client.manage([({"operation": "CREATE", "type": amqp.DISPATCH + ADDRESS, "name": f"a{number}"}, {"pattern": f"a/{number}"})
                              for number in range(rows)], ms=30_000)
        self.assertEqual({one["properties"]["statusCode"] for one in made}, {201})
        asked = {"operation": "QUERY", "type": "org.amqp.management", "entityType": amqp.DISPATCH + ADDRESS, "offset": 0, "count": rows}
        begin = time.monotonic()
        [few], [many] = (client.manage([(asked, {"attributeNames": columns[:width]})]) for width in (1, 40))
        self.assertGreaterEqual(time.monotonic() - begin, 2 * rows * rows * 1e-8)  # 1e-5 ms for each row on the way to each row
        self.assertEqual(few["body"]["results"], [[f"a{number}"] for number in range(rows)])
        # Cut without a word: the map, its keys and lists, 40 columns, then 41 values a row and a last one that is not whole.
        results = many["body"]["results"]
        self.assertEqual((many["properties"]["statusCode"], {len(row) for row in results[:-1]}), (200, {40}))
        self.assertLess(len(results[-1]), 40)
        self.assertEqual(6 + 40 + sum(1 + len(row) for row in results), 65535)

    def test_a_long_name_hangs_the_router_MH_4(self):
        router = amqp.Router("R3").start_for(self)
        client = client_of(router.port)
        self.assertEqual(client.router("CREATE", ADDRESS, "n" * 512, {"pattern": "a"})[0], 201)
        self.assertIsNone(client.router("CREATE", ADDRESS, "n" * 513, {"pattern": "b"}, ms=SOON))
        self.assertIsNone(client.router("READ", ADDRESS, "n" * 512, ms=SOON))
        router.command("restart-empty")
        client.open(router.port)
        self.assertEqual(client.router("READ", ADDRESS, "n" * 512), (404, "Not Found", None))

    def test_faults_on_command_MH_11(self):
        router = amqp.Router("R4").start_for(self)
        client = client_of(router.port)
        router.command("drop-next-reply", operation="CREATE", type="address")
        self.assertEqual(client.router("READ", ADDRESS, "a")[0], 404)
        self.assertIsNone(client.router("CREATE", ADDRESS, "a", {"pattern": "a"}, ms=SOON))
        self.assertEqual(client.router("CREATE", ADDRESS, "a", {"pattern": "a"}), (400, "Name conflicts with an existing entity", None))
        router.command("duplicate")
        said = client.do("manage", requests=[{"properties": {"operation": "READ", "type": amqp.DISPATCH + ADDRESS, "name": name}, "body": {}} for name in "ab"])
        self.assertEqual([one["properties"]["statusCode"] for one in said["answers"]], [200, 404])
        self.assertEqual([one["correlation"] for one in said["unknown"]], [said["answers"][0]["correlation"]])
        router.command("delay", ms=200)
        begin = time.monotonic()
        client.router("READ", ADDRESS, "a")
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)
        router.command("delay", ms=0)
        router.command("hang")
        wait = client.begin(do="manage", requests=[{"properties": {"operation": "READ", "type": amqp.DISPATCH + ADDRESS, "name": "a"}, "body": {}}])
        kit.eventually(lambda: router.dump()["stuck"] == 1, 5)
        router.command("resume")
        self.assertEqual(wait()["answers"][0]["properties"]["statusCode"], 200)
        # by hand: nobody counts it
        router.command("forget")
        router.command("create", type="address", name="hand", attributes={"pattern": "hand"})
        router.command("delete", type="address", name="a")
        self.assertEqual([one["name"] for one in client.query(ADDRESS, ["name"])], ["hand"])
        self.assertEqual(router.requests(), {("QUERY", ADDRESS): 1})
        router.command("cut")
        kit.eventually(lambda: not router.dump()["connections"], 5)
        client.open(router.port)
        self.assertEqual(client.router("READ", ADDRESS, "hand")[0], 200)
        router.command("restart-empty")
        kit.eventually(lambda: not router.dump()["connections"], 5)
        client.open(router.port)
        self.assertEqual(client.query(ADDRESS, ["name"]), [])
        self.assertEqual(client.query("router", ["uptimeSeconds"])[0]["uptimeSeconds"], 0)

    def test_without_hazards(self):
        router = amqp.Router("R5", hazards=False).start_for(self)
        client = client_of(router.port)
        self.assertEqual(client.router("CREATE", ADDRESS, "a" * 600, {"pattern": "x/y"})[0], 201)
        self.assertEqual(client.router("CREATE", ADDRESS, "b", {"pattern": "x.y"})[0], 201)
        self.assertEqual(client.router("UPDATE", ADDRESS, "b", {"priority": 1})[0], 501)
        for body in ({"pattern": "c", "waypoint": "yes"}, {"pattern": "c", "distribution": "bogus"}, {"pattern": "c", "unheard": 1}):
            self.assertEqual(client.router("CREATE", ADDRESS, "c", body)[0], 400, body)
        for _ in range(2):
            self.assertEqual(client.router("CREATE", "vhost", "v", vhost("v", aliases="w"))[0], 201)
            self.assertEqual(client.router("DELETE", "vhost", "v")[0], 204)


class Policy(unittest.TestCase):
    """Limits of vhosts, by the hostname of a client's open."""

    @classmethod
    def setUpClass(cls):
        cls.router = amqp.Router("R6").start_for(cls)
        cls.client = client_of(cls.router.port)

    def opened(self, hostname, name, port=None):
        said = self.client.open(port or self.router.tenants_port, hostname, name)
        self.assertTrue(said["opened"], said)  # also where it is closed at once
        return said["error"]

    def test_limits_MS_015(self):
        self.client.router("CREATE", "vhost", "space", vhost("space", most=5, links=2, aliases="alias"))
        self.client.router("CREATE", ADDRESS, "space", {"prefix": "space", "distribution": "balanced"})
        for number in range(5):
            self.assertIsNone(self.opened("space" if number else "alias", f"c{number}"))
        self.assertEqual(self.opened("space", "c5"), REFUSED)
        self.assertEqual(self.opened("nobody", "c6"), REFUSED)
        for role in ("sender", "receiver"):
            errors = [self.client.do("attach", connection="c0", role=role, address="a", **{"as": f"{role}{number}"})["error"] for number in range(3)]
            self.assertEqual(errors, [None, None, DETACHED], role)
        self.assertIsNone(self.client.do("attach", connection="c1", role="sender", address="a")["error"])  # for each connection
        self.client.do("detach", link="sender0")
        self.assertIsNone(self.client.do("attach", connection="c0", role="sender", address="a")["error"])
        # New connections alone: raised, and lowered below those that are there.
        self.client.router("UPDATE", "vhost", "space", {"maxConnections": 6})
        self.assertIsNone(self.opened("space", "c5"))
        self.client.router("UPDATE", "vhost", "space", {"maxConnections": 1})
        self.assertIsNone(self.client.do("attach", connection="c4", role="sender", address="a")["error"])
        self.client.do("close", connection="c5")
        self.assertEqual(self.opened("space", "c5"), REFUSED)

    def test_tenants_have_names_of_their_own(self):
        for space in ("one", "two"):
            self.client.router("CREATE", "vhost", space, vhost(space))
            self.client.router("CREATE", ADDRESS, space, {"pattern": f"{space}/a", "distribution": "balanced"})
            self.assertIsNone(self.opened(space, space))
            self.assertIsNone(self.client.do("attach", connection=space, role="receiver", address="a", **{"as": space})["error"])
        waits = {space: self.client.begin(do="receive", link=space) for space in ("one", "two")}
        for space in ("two", "one"):
            self.assertEqual(self.client.do("send", connection=space, address="a", bodies=[space])["accepted"], 1, space)
        self.assertEqual({space: wait()["bodies"] for space, wait in waits.items()}, {"one": ["one"], "two": ["two"]})
        nothing = self.client.do("attach", connection="one", role="sender", address="b")["error"]
        self.assertEqual(nothing["condition"], "qd:no-route-to-dest")
        self.assertIsNotNone(self.client.do("attach", connection="one", role="sender", address="$management")["error"])

    def test_listeners_listen(self):
        port = kit.free_port()
        self.client.router("CREATE", "vhost", "own", vhost("own"))
        self.client.router("CREATE", ADDRESS, "own", {"pattern": "own/a", "distribution": "balanced"})
        self.client.router("CREATE", "listener", "own", {"host": "127.0.0.1", "port": str(port), "multiTenant": True, "policyVhost": "own"})
        self.assertIsNone(self.opened("whatever", "own", port))
        self.assertIsNone(self.client.do("attach", connection="own", role="sender", address="a")["error"])
        self.assertEqual(self.client.router("DELETE", "listener", "own")[0], 204)
        self.assertEqual(kit.listening(port), set())
        self.client.router("CREATE", "listener", "again", {"host": "127.0.0.1", "port": str(port), "multiTenant": True})
        self.assertIsNone(self.opened("own", "again", port))

    def test_balanced_and_multicast(self):
        self.client.router("CREATE", "vhost", "plain", vhost("plain"))
        for kind in ("balanced", "multicast"):
            self.client.router("CREATE", ADDRESS, kind, {"pattern": f"plain/{kind}", "distribution": kind})
        for number in range(3):
            self.assertIsNone(self.opened("plain", f"p{number}"))
        for kind, each in (("balanced", 5), ("multicast", 10)):
            waits = [self.client.begin(do="receive", connection=f"p{number}", address=kind, count=each) for number in (1, 2)]
            kit.eventually(lambda kind=kind: sum(one["owningAddr"] == f"M0plain/{kind}" for one in self.router.dump()["links"]) == 2, 5)
            self.assertEqual(self.client.do("send", connection="p0", address=kind, count=10)["accepted"], 10)
            got = [wait()["bodies"] for wait in waits]
            self.assertEqual(sorted(got[0] + got[1]), sorted([f"m{number}" for number in range(10)] * (1 if kind == "balanced" else 2)), kind)


class Broker(unittest.TestCase):
    """What a real Artemis says."""

    @classmethod
    def setUpClass(cls):
        cls.client = client_of(broker().port)

    def ask(self, operation, *parameters, resource="broker"):
        return self.client.broker(resource, operation, parameters)

    @staticmethod
    def queue(**changes):
        return json.dumps({"name": "ns1/q1", "address": "ns1/q1", "routing-type": "ANYCAST", "durable": True, "max-consumers": -1,
                           **{key.replace("_", "-"): value for key, value in changes.items()}})

    def test_recorded_exchanges_MS_080_BH_2_BH_3_BH_4_BH_6(self):
        queue, made = self.queue, "Address [name=ns1/q1, routingTypes={ANYCAST}, autoCreated=false]"
        names = self.ask("getQueueNames")
        self.assertTrue(names[0])
        self.assertGreaterEqual(set(names[1]), {"$sys.mqtt.sessions", "DLQ", "ExpiryQueue"})
        self.assertTrue(any(len(one) == 36 for one in names[1]), names)  # that of our answers
        shared = self.ask("addAddressSettings", "c1.#", '{"maxSizeBytes":65536,"pageSizeBytes":65536,"expiryDelay":1000}')
        self.assertTrue(shared[0], shared)
        rows = [  # (operation, parameters, succeeded, value: text, its words in a tuple, or fields of the JSON that it is)
            ("createAddress", ["ns1/q1", "ANYCAST"], True, made),
            ("createAddress", ["ns1/q1", "ANYCAST"], False, "AMQ229204: Address already exists: ns1/q1"),
            ("createQueue", [queue()], True, {"name": "ns1/q1", "address": "ns1/q1", "routing-type": "ANYCAST", "max-consumers": -1}),
            ("createQueue", [queue()], False, "AMQ229019: Queue ns1/q1 already exists on address ns1/q1"),
            ("createQueue", [queue(name="x", address="none")], False, "AMQ229203: Address Does Not Exist: none"),
            ("createQueue", [queue(max_consumers=7), True], True, {"max-consumers": 7, "id": "absent"}),
            ("createAddress", ["ns1/t1", "MULTICAST"], True, "Address [name=ns1/t1, routingTypes={MULTICAST}, autoCreated=false]"),
            ("createQueue", [queue(name="ns1/x", address="ns1/t1")], False,
             ("AMQ229207: Can not create queue with routing type: ANYCAST, Supported ", " are [MULTICAST]")),
            ("updateQueue", [queue(max_consumers=5)], True, {"name": "ns1/q1", "max-consumers": 5}),
            ("updateQueue", [queue(name="nope")], False, "AMQ229017: Queue nope does not exist"),
            ("deleteAddress", ["ns1/q1"], False, ("AMQ229205: Address ", " has bindings")),
            ("destroyQueue", ["ns1/q1", "true"], False, "AMQ229069: no operation destroyQueue/2"),
            ("destroyQueue", ["ns1/q1"], True, None),
            ("destroyQueue", ["ns1/q1"], False, ("AMQ229017",)),
            ("deleteAddress", ["ns1/q1"], True, None),
            ("deleteAddress", ["ns1/q1"], False, ("AMQ229203",)),
            ("addAddressSettings", ["c2.#", '{"maxSizeBytes":65536}'], False, "pageSize has to be lower than maxSizeBytes. Invalid argument (10485760 < 65536)"),
            ("addAddressSettings", ["c2.#", '{"maxSizeBytes":-2}'], False, "Invalid argument on maxSizeBytes"),
            ("addAddressSettings", ["c2.#", '{"unheard":1}'], True, {"unheard": "absent"}),
            ("addAddressSettings", ["c2.#", '{"addressFullMessagePolicy":"X"}'], False, ("Error while parsing MetaData{",)),
            ("getAddressSettingsAsJSON", ["c1.x"], True, {"maxSizeBytes": 65536, "expiryDelay": 1000, "deadLetterAddress": "DLQ"}),
            ("removeAddressSettings", ["c1.#"], True, None),
            ("removeAddressSettings", ["c1.#"], True, None),
            ("listQueues", ["", 99, 1000], True, {"data": []}),
            ("nope", [], False, "AMQ229069: no operation nope/0"),
        ]
        for operation, parameters, succeeded, wanted in rows:
            with self.subTest(operation, parameters=str(parameters)[:80], succeeded=succeeded):
                found = self.ask(operation, *parameters)
                self.assertEqual(found[0], succeeded, found)
                if isinstance(wanted, dict):
                    value = json.loads(found[1])
                    self.assertEqual({key: value.get(key, "absent") for key in wanted}, wanted)
                elif isinstance(wanted, tuple):
                    for words in wanted:
                        self.assertIn(words, found[1])
                else:
                    self.assertEqual(found[1], wanted)
        self.assertEqual(self.ask("x", resource="nope"), (False, "AMQ229067: Cannot find resource with name nope"))
        for attribute, wanted in (("Version", (True, "2.44.0")), ("GlobalMaxSize", (True, GLOBAL_MAX_SIZE)),
                                  ("Nope", (False, "Problem while retrieving attribute Nope"))):
            self.assertEqual(self.client.attribute("broker", attribute), wanted)
        known, node = self.client.attribute("broker", "NodeID")
        self.assertTrue(known)
        self.assertRegex(node, r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        self.assertEqual(self.client.attribute("broker", "NodeID"), (True, node))
        listed = json.loads(self.ask("listQueues", "", 1, 1000)[1])
        self.assertTrue(listed["data"] and all(isinstance(one, str) for row in listed["data"] for one in row.values()), listed)
        self.assertEqual(listed["count"], len(listed["data"]))

    def test_form_of_answers(self):
        [answer] = self.client.manage([({"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "getQueueNames"}, "[]")], address="activemq.management")
        self.assertFalse(answer["settled"])
        self.assertIsInstance(answer["correlation"], str)
        self.assertEqual(len(json.loads(answer["body"])), 1)


class Both(unittest.TestCase):
    """Messages from a client through the stand-in to Artemis and back."""

    @classmethod
    def setUpClass(cls):
        port = broker().port
        cls.router = amqp.Router("R7").start_for(cls)
        cls.client = client_of(cls.router.port, port)
        cls.made("vhost", "s", vhost("s"))
        cls.made("connector", "b", {"host": "127.0.0.1", "port": str(port), "role": "route-container"})
        assert cls.client.open(cls.router.tenants_port, "s", "tenant")["error"] is None

    @classmethod
    def made(cls, kind, name, body):
        found = cls.client.router("CREATE", kind, name, body)
        assert found[0] == 201, found

    @classmethod
    def told(cls, operation, *parameters):
        found = cls.client.broker("broker", operation, parameters, connection="broker")
        assert found[0], found

    def queue(self, name, address=None, routing="ANYCAST"):
        if address is None:
            self.told("createAddress", name, routing)
        self.told("createQueue", json.dumps({"name": name, "address": address or name, "routing-type": routing, "durable": True, "auto-create-address": False}))

    def auto_links(self, address, *directions, external=None):
        for direction in directions:
            self.made(AUTO_LINK, f"{address}.{direction}", {"address": address, "direction": direction, "connection": "b", "externalAddress": external or address})
        self.active(AUTO_LINK)

    def active(self, kind):
        kit.eventually(lambda: all(one["operStatus"] == "active" for one in self.client.query(kind, ["operStatus"])), 5, "links are active")

    def tenant(self, action, **more):
        return self.client.do(action, connection="tenant", **more)

    def test_a_queue_by_autolinks_MS_089(self):
        self.queue("c1.s/q")
        self.made(ADDRESS, "q", {"pattern": "s/q", "distribution": "balanced", "waypoint": True})
        self.auto_links("s/q", "in", "out", external="c1.s/q")
        sent = self.tenant("send", address="q", count=300)
        self.assertEqual(sent["accepted"], 300, sent)
        self.assertEqual(self.client.attribute("queue.c1.s/q", "MessageCount", connection="broker"), (True, 300))
        got = self.tenant("receive", address="q", count=200)["bodies"] + self.tenant("receive", address="q", count=100)["bodies"]
        self.assertEqual(sorted(got), sorted(f"m{number}" for number in range(300)))  # each once
        kit.eventually(lambda: self.client.attribute("queue.c1.s/q", "MessageCount", connection="broker") == (True, 0), 5)
        self.assertEqual(self.tenant("receive", address="q", ms=SOON)["bodies"], [])

    def test_a_topic_by_link_routes_and_a_subscription_MS_089(self):
        self.told("createAddress", "s/t", "MULTICAST")
        for direction in ("in", "out"):
            self.made(LINK_ROUTE, f"t.{direction}", {"prefix": "s/t", "direction": direction, "connection": "b"})
        self.active(LINK_ROUTE)
        self.queue("s/sub", "s/t", "MULTICAST")
        self.made(ADDRESS, "sub", {"pattern": "s/sub", "distribution": "balanced", "waypoint": True})
        self.auto_links("s/sub", "in", external="s/t::s/sub")
        for name in ("r1", "r2"):
            self.assertIsNone(self.tenant("attach", role="receiver", address="t", **{"as": name})["error"])
        sent = self.tenant("send", address="t", count=20)
        self.assertEqual(sent["accepted"], 20, sent)
        wanted = [f"m{number}" for number in range(20)]
        for name in ("r1", "r2"):
            self.assertEqual(self.client.do("receive", link=name, count=20)["bodies"], wanted)
            self.client.do("detach", link=name)
        self.assertEqual(self.tenant("receive", address="sub", count=20)["bodies"], wanted)
        refused = self.tenant("attach", role="receiver", address="t/none")["error"]
        self.assertEqual(refused["condition"], "amqp:not-found", refused)

    def test_outcomes_and_limits_come_through(self):
        self.queue("s/few")
        self.told("addAddressSettings", "s/few", '{"maxSizeMessages":3,"addressFullMessagePolicy":"FAIL"}')
        self.made(ADDRESS, "few", {"pattern": "s/few", "distribution": "balanced", "waypoint": True})
        self.auto_links("s/few", "in", "out")
        sent = self.tenant("send", address="few", count=5)
        self.assertEqual((sent["accepted"], len(sent["rejected"])), (3, 2), sent)
        self.assertEqual(self.tenant("receive", address="few", count=2, outcome="release")["bodies"], ["m0", "m1"])
        got = self.tenant("receive", address="few", count=3)["bodies"]
        self.assertEqual(sorted(got), ["m0", "m1", "m2"])

    def test_a_connector_of_a_tenant(self):
        """Its own prefix is not sent on."""
        self.queue("far/x")
        for direction in ("in", "out"):
            self.made(LINK_ROUTE, f"far.{direction}", {"pattern": "s/mine/#", "direction": direction, "connection": "b", "delExternalPrefix": "s/mine/"})
        self.assertEqual(self.tenant("send", address="mine/far/x", bodies=["hello"])["accepted"], 1)
        self.assertEqual(self.tenant("receive", address="mine/far/x")["bodies"], ["hello"])

    def test_transactions_by_a_link_route_of_all_of_a_space(self):
        for space in ("tx", "plain"):
            self.made("vhost", space, vhost(space))
            self.assertIsNone(self.client.open(self.router.tenants_port, space, space)["error"])
        for direction in ("in", "out"):
            self.made(LINK_ROUTE, f"tx.{direction}", {"prefix": "tx", "direction": direction, "connection": "b"})
        self.queue("tx/q")
        begun = {"connection": "tx", "address": "q"}
        self.assertEqual(self.client.do("transaction", bodies=["kept1", "kept2"], **begun),
                         {"declared": True, "sent": 2, "discharged": True, "error": None})
        self.assertEqual(self.client.do("transaction", bodies=["lost"], fail=True, **begun),
                         {"declared": True, "sent": 1, "discharged": True, "error": None})
        self.assertEqual(self.client.attribute("queue.tx/q", "MessageCount", connection="broker"), (True, 2))
        self.assertEqual(self.client.do("receive", connection="tx", address="q", count=2)["bodies"], ["kept1", "kept2"])
        refused = self.client.do("transaction", connection="plain", address="q", bodies=["x"])
        self.assertEqual((refused["declared"], refused["error"]["condition"]), (False, "qd:no-route-to-dest"))

    def test_nobody_there(self):
        self.made(ADDRESS, "idle", {"pattern": "s/idle", "distribution": "balanced", "waypoint": True})
        sent = self.tenant("send", address="idle", count=1, ms=SOON)
        self.assertEqual((sent.get("late"), sent["sent"]), (True, 0))  # no credit
        self.made(LINK_ROUTE, "gone", {"prefix": "s/gone", "direction": "in", "connection": "nobody"})
        self.assertEqual(self.tenant("attach", role="sender", address="gone")["error"]["condition"], "qd:no-route-to-dest")
        self.client.router("DELETE", LINK_ROUTE, "gone")


if __name__ == "__main__":
    unittest.main()
