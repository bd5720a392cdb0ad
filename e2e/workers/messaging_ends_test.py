"""Endpoints and connectors of tenants and spaces: ports, certificates, Secrets, other servers, exports (docs/spec/messaging.md)."""
import base64
import json
import unittest

import amqp
import kit
import messaging
import messaging_stage
from messaging_case import Case, begin

SECRETS = "/api/v1/namespaces/{}/secrets"


def setUpModule():
    begin(allow_local_connectors=True, certificates={"cert_propagation_delay": "1s"}, checks={"secrets": "1s", "counters": "2s"})


class Ends(Case):
    """Each test has a namespace with a router and a tenant of its own."""

    def stand(self, namespace, ports=None):
        [router] = [amqp.Router("R0").start_for(self)]
        tenant = self.tenant_of(namespace)
        self.addCleanup(tenant.clean)
        kind, whole = messaging_stage.infra([router], [])
        if ports:
            whole["spec"]["router"]["listenerPorts"] = {"first": ports[0], "last": ports[1]}
        tenant.make(kind, whole)
        tenant.make("MessagingTenant", {"metadata": {"name": "default"}, "spec": {"messagingInfrastructureRef": {"name": "infra1"}}})
        tenant.until("MessagingTenant", "default")
        return tenant, router

    @staticmethod
    def endpoint(tenant, name, *protocols, **spec):
        return tenant.make("MessagingEndpoint", {"metadata": {"name": name}, "spec": {"protocols": list(protocols), "cluster": {}, **spec}})

    @staticmethod
    def ports(tenant, name):
        return {one["name"]: one["port"] for one in tenant.get("MessagingEndpoint", name)["status"].get("internalPorts", [])}

    @staticmethod
    def listeners(router):
        """Ports, and whether they are HTTP."""
        return {int(one["port"]): bool(one.get("http")) for one in router.rows("listener").values() if one["name"].startswith("ktg.")}

    def test_MS070_MS071_ports_of_dedicated_listeners(self):
        first = kit.free_port()
        tenant, router = self.stand("ms070", (first, first + 1))
        self.endpoint(tenant, "one", "AMQP", "AMQP-WS", dedicated=True)
        tenant.until("MessagingEndpoint", "one")
        one = self.ports(tenant, "one")
        self.assertEqual(sorted(one.values()), [first, first + 1])
        self.assertEqual(self.listeners(router), {one["AMQP"]: False, one["AMQP-WS"]: True})
        self.endpoint(tenant, "two", "AMQP", dedicated=True, host="two.example.com")
        tenant.until("MessagingEndpoint", "two", "AllocatedPorts", "False", "PortsExhausted")
        self.endpoint(tenant, "shared", "AMQP", host="shared.example.com")
        tenant.until("MessagingEndpoint", "shared")
        # An HTTP listener cannot be deleted: its port stays its owner's, the other one is free again.
        tenant.delete("MessagingEndpoint", "one")
        tenant.gone("MessagingEndpoint", "one")
        tenant.until("MessagingEndpoint", "two")
        self.assertEqual(self.ports(tenant, "two"), {"AMQP": one["AMQP"]})
        self.assertEqual(self.listeners(router), {one["AMQP"]: False, one["AMQP-WS"]: True})
        self.endpoint(tenant, "one", "AMQP-WS", dedicated=True)
        tenant.until("MessagingEndpoint", "one")
        self.assertEqual(self.ports(tenant, "one"), {"AMQP-WS": one["AMQP-WS"]})

    def test_MS068_MS095_certificates_come_before_listeners_and_are_replaced(self):
        first = kit.free_port()
        tenant, router = self.stand("ms068", (first, first + 3))
        self.endpoint(tenant, "safe", "AMQP", "AMQPS", tls={"selfsigned": {}}, host="a.example.com")
        tenant.until("MessagingEndpoint", "safe")
        [before] = router.rows("sslProfile")
        log = [one for one in router.dump(log=True)["log"] if one["operation"] == "CREATE"]
        order = [one["type"].rpartition(".")[2] for one in log if one["type"].endswith(("sslProfile", ".listener"))]
        self.assertEqual(order.index("sslProfile") < len(order) - 1 and order[-1], "listener")
        status = tenant.get("MessagingEndpoint", "safe")["status"]
        self.assertIn("BEGIN CERTIFICATE", status["tls"]["caCertificate"])
        self.assertTrue(status["tls"]["notAfter"])

        def secrets():
            return {one["metadata"]["name"] for one in tenant.client.must("GET", SECRETS.format("ms068"))["items"]}

        kinds = sorted(one.rpartition("-")[0] for one in secrets() if one.startswith("ktg-"))
        self.assertEqual(kinds, ["ktg-ca", "ktg-certificate", "ktg-leaf"])
        # Another host is another certificate: a new profile and listener, then the old ones go.
        was = secrets()
        tenant.change("MessagingEndpoint", "safe", host="b.example.com")
        kit.eventually(lambda: set(router.rows("sslProfile")) and before not in router.rows("sslProfile"), 20, "the old profile is gone")
        tenant.until("MessagingEndpoint", "safe")
        self.assertEqual(len(router.rows("sslProfile")), 1)
        kit.eventually(lambda: len(secrets() - was) == 1 and len(secrets()) == len(was), 15, "the old Secret is gone")
        # So is one whose time has come; between the old listener and the new one on its port nothing else is asked for.
        was, ports = secrets(), self.listeners(router)
        [before] = router.rows("sslProfile")
        self.forget(router)
        [leaf] = [one for one in was if one.startswith("ktg-leaf-")]
        tenant.client.must("PATCH", SECRETS.format("ms068") + f"/{leaf}", {"metadata": {"annotations": {"enmasse.io/renew-at": "1"}}}, headers=messaging.MERGE)
        kit.eventually(lambda: router.rows("sslProfile") and before not in router.rows("sslProfile"), 20, "the old profile is gone")
        tenant.until("MessagingEndpoint", "safe")
        said = [(one["operation"], one["type"].rpartition(".")[2], one["name"]) for one in router.dump(log=True)["log"] if one["operation"] in ("CREATE", "DELETE")]
        self.assertEqual([one[:2] for one in said], [("CREATE", "sslProfile"), ("DELETE", "listener"), ("CREATE", "listener"), ("DELETE", "sslProfile")])
        self.assertEqual(said[3][2], before)
        self.assertEqual(self.listeners(router), ports)
        kit.eventually(lambda: len(secrets()) == len(was), 15, "the old Secret is gone")
        tenant.delete("MessagingEndpoint", "safe")
        tenant.gone("MessagingEndpoint", "safe")
        self.assertEqual((router.rows("sslProfile"), self.listeners(router)), ({}, {}))

    def test_MS072_MS073_MS074_RT_T103_connectors_and_forwarders(self):
        tenant, router = self.stand("ms072")
        other = amqp.Router("other").start_for(self)
        other.kill()
        word = "swordfish-7c1"
        tenant.client.must("POST", SECRETS.format("ms072"), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "remote"},
                                                             "data": {"password": base64.b64encode(word.encode()).decode()}})
        tenant.make("MessagingConnector", {"metadata": {"name": "remote"}, "spec": {
            "endpointHosts": [{"host": "127.0.0.1", "port": other.port}], "addresses": [{"name": "all", "pattern": "orders/#"}],
            "credentials": {"username": {"value": "bridge"}, "password": {"valueFromSecret": {"name": "remote", "key": "password"}}}}})
        tenant.until("MessagingConnector", "remote", "Created")
        tenant.until("MessagingConnector", "remote", "Connected", "False")
        tenant.until("MessagingTenant", "default")  # meanwhile
        [row] = [one for one in router.rows("connector").values() if one["port"] == str(other.port)]
        self.assertEqual((row["saslUsername"], row["saslPassword"]), ("bridge", word))
        space = tenant.get("MessagingTenant", "default")["status"]["spaceId"]
        self.assertEqual({(one["pattern"], one["delExternalPrefix"]) for one in router.rows("linkRoute").values()},
                         {(f"{space}/remote/orders/#", f"{space}/remote/")})
        shown = json.dumps([tenant.client.must("GET", tenant.path(kind))["items"] for kind in ("MessagingConnector", "MessagingTenant", "MessagingInfra")])
        self.assertNotIn(word, shown + self.worker.log.read_text() + self.worker.metrics())
        tenant.change("MessagingConnector", "remote", credentials=None)  # the stand-in knows no users
        other.start()
        tenant.until("MessagingConnector", "remote", "Connected")
        tenant.until("MessagingConnector", "remote")
        code, errors = self.worker.ask("/debug/messaging/errors", self.worker.metrics_address)
        self.assertEqual(code, 200)

        def events():
            return json.dumps(tenant.client.must("GET", "/apis/events.k8s.io/v1/namespaces/ms072/events")["items"])

        kit.eventually(lambda: "MessagingConnector" in events(), what="an event of the connector")
        self.assertNotIn(word, errors + events() + self.worker.log.read_text())
        journals = [one for one in (self.worker.dir / "data").rglob("*") if one.is_file()]
        self.assertTrue([one for one in journals if one.stat().st_size > 0], journals)
        for one in journals:
            for text in (word.encode(), base64.b64encode(word.encode())):
                self.assertNotIn(text, one.read_bytes(), one)
        # What is wrong with others is said, and changes nothing.
        tenant.make("MessagingConnector", {"metadata": {"name": "wrong"}, "spec": {
            "endpointHosts": [{"host": "127.0.0.1", "port": other.port}], "addresses": [{"name": "all", "pattern": "a//b"}]}})
        tenant.until("MessagingConnector", "wrong", "Validated", "False")
        tenant.make("MessagingAddress", {"metadata": {"name": "a"}, "spec": {
            "address": "a", "queue": {}, "forwarders": [{"name": "f", "remoteAddress": "nobody/a", "direction": "out"}]}})
        tenant.until("MessagingAddress", "a", "Validated", "False", "ConnectorNotFound")
        forwarders = kit.eventually(lambda: tenant.get("MessagingAddress", "a")["status"].get("forwarders"), 10, "they are told of")
        self.assertEqual([(one["name"], one["isReady"]) for one in forwarders], [("f", False)])
        self.assertIn("nobody", forwarders[0]["messages"][0])
        for kind, name in (("MessagingAddress", "a"), ("MessagingConnector", "wrong"), ("MessagingConnector", "remote")):
            tenant.delete(kind, name)
            tenant.gone(kind, name)
        self.assertEqual((router.rows("connector"), router.rows("linkRoute")), ({}, {}))

    def test_S16_a_host_whose_endpoint_turned_wrong_stays_over_a_restart_of_the_worker(self):
        """Of a tenant's endpoint and of a space's, also where another endpoint wants the host meanwhile."""
        tenant, router = self.stand("ms016")
        self.endpoint(tenant, "one", "AMQP", host="one.example.com")
        tenant.until("MessagingEndpoint", "one")
        tenant.plan()
        inside = {"name": "in", "service": "messaging", "cert": {"provider": "wildcard"}, "expose": {"type": "route", "routeHost": "in.example.com"}}
        tenant.space(endpoints=[inside])

        def aliases():
            return sorted(host for one in self.vhosts(router).values() for host in one.get("aliases", "").split(",") if host)

        had = ["in.example.com", "one.example.com"]
        kit.eventually(lambda: aliases() == had, what="the hosts of both are names of vhosts")
        kit.eventually(lambda: {part.get("alias") for one in ("MessagingTenant", "AddressSpace") for item in tenant.client.must("GET", tenant.path(one))["items"]
                                for part in item["status"].get("parts", [])} >= set(had), what="both statuses say them")
        tenant.change("MessagingEndpoint", "one", host="two.example.com", tls={"letsencrypt": {}})
        tenant.until("MessagingEndpoint", "one", "Ready", "False")
        tenant.change("AddressSpace", "space1", endpoints=[{**inside, "expose": {**inside["expose"], "routeTlsTermination": "edge"}}])
        kit.eventually(lambda: aliases() == had, what="what was good is there")
        self.worker.stop()
        self.forget(router)
        self.endpoint(tenant, "other", "AMQP", host="one.example.com")
        self.worker.start()
        self.worker.until_ready()
        kit.eventually(lambda: tenant.get("MessagingEndpoint", "other").get("status", {}).get("conditions"), what="the worker has seen all")
        kit.stays(lambda: aliases() == had, 1)
        self.assertFalse({key for key in self.sent(router) if key[1] == "vhost"})
        tenant.change("MessagingEndpoint", "one", tls=None)
        kit.eventually(lambda: "two.example.com" in aliases(), what="what is good again is made")
        self.worker.until_ready()

    def test_MS090_exports_of_a_space(self):
        tenant, _ = self.stand("ms090")
        tenant.plan()
        exports = [{"kind": "ConfigMap", "name": "where"}, {"kind": "Secret", "name": "hidden"}]
        tenant.space(endpoints=[{"name": "in", "service": "messaging", "exports": exports}])
        tenant.until("AddressSpace", "space1")
        host = tenant.get("AddressSpace", "space1")["status"]["endpointStatuses"][0]["serviceHost"]
        where = kit.eventually(lambda: tenant.client.must("GET", "/api/v1/namespaces/ms090/configmaps/where"), 10, "the ConfigMap")
        self.assertEqual(where["data"]["service.host"], host)
        self.assertEqual([one["name"] for one in where["metadata"]["ownerReferences"]], ["space1"])
        hidden = tenant.client.must("GET", SECRETS.format("ms090") + "/hidden")
        self.assertEqual(base64.b64decode(hidden["data"]["service.host"]).decode(), host)


if __name__ == "__main__":
    unittest.main()
