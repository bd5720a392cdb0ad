"""Infras that leave routers and brokers to operators: a small one answers what the worker writes with pods, which are peers at addresses of this
machine (docs/spec/messaging.md)."""
import base64
import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

import amqp
import kit
import messaging
import messaging_stage
from messaging_case import Case, Forwarder, begin

ROUTERS = ("interconnectedcloud.github.io/v1alpha1", "interconnects", "interconnect_cr", 55671)
BROKERS = ("broker.amq.io/v1beta1", "activemqartemises", "ActiveMQArtemis", 5672)
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# What workspaces here do not serve by themselves: these are an export's, as any kind can be.
CLUSTERS = {("", "pods"): "Pod", ("", "services"): "Service", ("route.openshift.io", "routes"): "Route"}


def schema(group, plural, kind):
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.{plural}.{group or 'core'}"}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {}, "schema": OPEN}]}}


def setUpModule():
    global brokers  # pylint: disable=global-variable-undefined
    brokers = []
    broker(0)
    begin()
    Case.installation.make_workspace("cluster", selector={"name": "root"})
    provider, client = Case.installation.client("/clusters/root:cluster"), Case.stage.consumers["root"]
    for (group, plural), kind in CLUSTERS.items():
        provider.must("POST", messaging.SCHEMAS, schema(group, plural, kind))
    provider.must("POST", messaging.APIS + "/apiexports", {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "cluster"}, "spec": {
        "resources": [{"group": group, "name": plural, "schema": f"v1.{plural}.{group or 'core'}", "storage": {"crd": {}}} for group, plural in CLUSTERS]}})
    client.must("POST", messaging.APIS + "/apibindings", {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "cluster"}, "spec": {
        "reference": {"export": {"path": "root:cluster", "name": "cluster"}}}})
    for name in ("crds.yaml", "rbac.yaml"):
        for document in messaging.documents(messaging.CONFIGS / "operators" / name):
            client.must("POST", messaging.collection(document)[1], document.encode(), headers=messaging.YAML)
    for what in ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/services", "/apis/route.openshift.io/v1/namespaces/default/routes", *(f"/apis/{one[0]}/namespaces/default/{one[1]}" for one in (ROUTERS, BROKERS))):
        kit.eventually(lambda path=what: client.get(path).status == 200, 20, what)


def broker(number):
    """The real one behind the infra's broker of that number: each is another one."""
    while number >= len(brokers):
        brokers.append(amqp.Artemis(f"b{len(brokers)}", memory=128, global_max_size=268435456).start_for())
    return brokers[number]


class Operator:
    """Makes of each Interconnect and ActiveMQArtemis of a namespace as many peers and pods as it asks for, until it is closed."""

    numbers = itertools.count(1)

    def __init__(self, client, namespace):
        self.client, self.namespace, self.peers, self.fault, self.ended = client, namespace, {}, None, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def path(self, what, name=""):
        version, plural = what[:2]
        return f"/{'api' if '/' not in version else 'apis'}/{version}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def stored(self, what):
        return {one["metadata"]["name"]: one for one in self.client.must("GET", self.path(what))["items"]}

    def pod(self, name):
        return self.path(("v1", "pods"), name)

    def _run(self):
        while not self.ended.wait(0.1):
            try:
                self.turn()
            except Exception as fault:  # pylint: disable=broad-exception-caught
                self.fault = fault

    def turn(self):
        wanted = {}
        for what, form in ((ROUTERS, "{0}-{1}"), (BROKERS, "{0}-ss-{1}")):
            for name, one in self.stored(what).items():
                for number in range(one["spec"]["deploymentPlan"]["size"]):
                    wanted[form.format(name, number)] = (what, name)
        for host in [one for one in self.peers if one not in wanted]:
            self.client.request("DELETE", self.pod(host))
            self.peers.pop(host).close()
        for host in [one for one in wanted if one not in self.peers]:
            what, name = wanted[host]
            place = (f"127.{1 + os.getpid() % 250}.7.{next(self.numbers)}", what[3])
            self.peers[host] = amqp.Router(host, place=place).start() if what is ROUTERS else Forwarder(broker(int(name.rpartition("-b")[2])).port, host, place)
            self.client.must("POST", self.path(("v1", "pods")), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": host, "labels": {what[2]: name}},
                                                                 "status": {"podIP": place[0]}})

    def close(self):
        self.ended.set()
        self.thread.join(30)
        for one in self.peers.values():
            one.close()


class Operators(Case):
    """Each test has a namespace with an infra and an operator of its own."""

    def begin_in(self, namespace, **spec):
        tenant = self.tenant_of(namespace)
        operator = Operator(tenant.client, namespace)
        self.addCleanup(operator.close)
        self.addCleanup(tenant.clean)
        tenant.make("MessagingInfra", {"metadata": {"name": "infra1"}, "spec": spec})
        return tenant, operator

    @staticmethod
    def status(tenant):
        return tenant.get("MessagingInfra", "infra1").get("status", {})

    def size(self, operator):
        return operator.stored(ROUTERS)["infra1-default"]["spec"]["deploymentPlan"]["size"]

    def test_MS001_MS009_MR29_MD4_what_operators_are_told_and_when_it_goes(self):
        tenant, operator = self.begin_in("ms001", router={"replicas": {"min": 2, "max": 3}, "image": "router:1"}, brokers={"min": 1})
        tenant.until("MessagingInfra", "infra1")
        self.assertEqual(self.status(tenant)["phase"], "Active")
        [router], [broker] = (list(operator.stored(what).values()) for what in (ROUTERS, BROKERS))
        self.assertEqual((router["metadata"]["name"], self.size(operator), router["spec"]["deploymentPlan"]["image"]), ("infra1-default", 2, "router:1"))
        self.assertEqual((broker["metadata"]["name"], broker["spec"]["deploymentPlan"]["size"]), ("infra1-b0", 1))
        for one in (router, broker):
            self.assertEqual([(owner["kind"], owner["name"]) for owner in one["metadata"]["ownerReferences"]], [("MessagingInfra", "infra1")])
            self.assertEqual([(field["manager"], field["operation"]) for field in one["metadata"]["managedFields"]], [("kintsugi-messaging", "Apply")])
        status = self.status(tenant)
        self.assertEqual({one["host"] for one in status["routers"]}, {"infra1-default-0", "infra1-default-1"})
        self.assertEqual([(one["host"], one["connected"]) for one in status["brokers"]], [("infra1-b0-ss-0", True)])
        self.assertEqual({one["status"] for one in status["conditions"]}, {"True"}, status["conditions"])
        ca, pair = (tenant.client.must("GET", f"/api/v1/namespaces/ms001/secrets/infra1-{name}")["data"] for name in ("ca", "router-cert"))
        self.assertEqual((sorted(ca), ca["ca.crt"], pair["ca.crt"]), (["ca.crt", "tls.crt"], ca["tls.crt"], ca["tls.crt"]))
        self.verify(ca["ca.crt"], pair["tls.crt"], pair["tls.key"], "infra1-default.ms001.svc", "space-id.infra1.ms001.svc")
        self.assertEqual([next(one["reason"] for one in status["conditions"] if one["type"] == which) for which in ("CaCreated", "CertCreated")],
                         ["CaCreated", "CertCreated"])
        for host in ("infra1-default-0", "infra1-default-1"):
            [connector] = operator.peers[host].rows("connector").values()
            self.assertEqual((connector["host"], connector["port"], connector["role"]), (operator.peers["infra1-b0-ss-0"].server.getsockname()[0], "5672", "route-container"))
        self.assertNotIn("connectors", router["spec"])
        before = {name: one["metadata"]["resourceVersion"] for what in (ROUTERS, BROKERS) for name, one in operator.stored(what).items()}
        tenant.plan(resources={"limits": {"connections": 8}})
        tenant.space()
        tenant.address("q")
        tenant.ready("q")
        # What spaces and addresses say is not said to operators; another image is an update of the same resource.
        self.assertEqual({name: one["metadata"]["resourceVersion"] for what in (ROUTERS, BROKERS) for name, one in operator.stored(what).items()}, before)
        tenant.change("MessagingInfra", "infra1", router={"image": "router:2"})
        kit.eventually(lambda: operator.stored(ROUTERS)["infra1-default"]["spec"]["deploymentPlan"]["image"] == "router:2", 15, "the new image")
        tenant.delete("MessagingInfra", "infra1")
        self.assertIn("ms001/space1", tenant.until("MessagingInfra", "infra1", status="False", reason="Terminating")["message"])
        self.assertEqual((list(operator.stored(ROUTERS)), list(operator.stored(BROKERS))), (["infra1-default"], ["infra1-b0"]))
        for kind, name in (("Address", "space1.q"), ("AddressSpace", "space1"), ("AddressSpacePlan", "plan1"), ("MessagingInfra", "infra1")):
            if kind != "MessagingInfra":
                tenant.delete(kind, name)
            tenant.gone(kind, name)
        self.assertEqual((operator.stored(ROUTERS), operator.stored(BROKERS)), ({}, {}))
        left = [one["metadata"]["name"] for one in tenant.client.must("GET", "/api/v1/namespaces/ms001/secrets")["items"]]
        self.assertEqual([one for one in left if one.startswith(("infra1-", "ktg-"))], [])
        self.assertIsNone(operator.fault)

    def verify(self, ca, certificate, key, *hosts):
        """By a stranger: the certificate is the CA's, for these hosts, for servers and clients, and the key is its own."""
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, value in (("ca", ca), ("crt", certificate), ("key", key)):
                paths.append(pathlib.Path(folder) / name)
                paths[-1].write_bytes(base64.b64decode(value))
            for host, purpose in itertools.product(hosts, ("sslserver", "sslclient")):
                subprocess.run(["openssl", "verify", "-CAfile", paths[0], "-purpose", purpose, "-verify_hostname", host, paths[1]], check=True, capture_output=True)
            public = [subprocess.run(["openssl", *what], check=True, capture_output=True).stdout
                      for what in (("x509", "-in", paths[1], "-noout", "-pubkey"), ("pkey", "-in", paths[2], "-pubout"))]
            self.assertEqual(*public)

    def test_MS001_secrets_that_somebody_else_provides_stay(self):
        tenant = self.tenant_of("ms001c")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "infra1-ca"}, "data": {"ca.crt": "eA=="}}
        tenant.client.must("POST", "/api/v1/namespaces/ms001c/secrets", secret)
        operator = Operator(tenant.client, "ms001c")
        self.addCleanup(operator.close)
        self.addCleanup(tenant.clean)
        tenant.make("MessagingInfra", {"metadata": {"name": "infra1"}, "spec": {"brokers": {"max": 0}}})
        tenant.until("MessagingInfra", "infra1", "CaCreated", reason="Provided")
        self.assertIn("infra1-router-cert", tenant.until("MessagingInfra", "infra1", "CertCreated", "False", "NotProvided")["message"])
        tenant.client.must("POST", "/api/v1/namespaces/ms001c/secrets", {**secret, "metadata": {"name": "infra1-router-cert"}})
        tenant.until("MessagingInfra", "infra1", "CertCreated", reason="Provided")
        tenant.until("MessagingInfra", "infra1")
        tenant.delete("MessagingInfra", "infra1")
        tenant.gone("MessagingInfra", "infra1")
        for name in ("infra1-ca", "infra1-router-cert"):
            self.assertEqual(tenant.client.must("GET", f"/api/v1/namespaces/ms001c/secrets/{name}")["data"], secret["data"])

    def test_MR5_MS075_MS038_MS041_on_demand_and_brokers_for_what_fits_nowhere(self):
        tenant, operator = self.begin_in("ms075", deployment="OnDemand", brokers={"max": 2, "queueMemory": "1Mi"})
        tenant.until("MessagingInfra", "infra1", status="False", reason="OnDemand")
        self.assertEqual((self.status(tenant)["phase"], operator.stored(ROUTERS), operator.stored(BROKERS)), ("Pending", {}, {}))
        tenant.plan()
        tenant.make("AddressPlan", {"metadata": {"name": "big"}, "spec": {"addressType": "queue", "resources": {"requests": {"queueMemory": "700Ki"}}}})
        tenant.space()
        tenant.until("AddressSpace", "space1")
        self.assertEqual((list(operator.stored(ROUTERS)), operator.stored(BROKERS)), (["infra1-default"], {}))
        tenant.address("q0", plan="big")
        tenant.ready("q0")
        self.assertEqual(list(operator.stored(BROKERS)), ["infra1-b0"])
        tenant.address("q1", plan="big")
        tenant.ready("q1", deadline=40)
        self.assertEqual(sorted(operator.stored(BROKERS)), ["infra1-b0", "infra1-b1"])
        tenant.address("q2", plan="big")
        tenant.until("Address", "space1.q2", "Scheduled", "False", "MaxBrokersReached")
        for name in ("q2", "q1"):
            tenant.delete("Address", f"space1.{name}")
            tenant.gone("Address", f"space1.{name}")
        kit.eventually(lambda: list(operator.stored(BROKERS)) == ["infra1-b0"], 15, "the empty broker goes")
        tenant.ready("q0")
        self.assertIsNone(operator.fault)

    def test_MS005_MS006_MS076_MS079_groups_ring_replicas(self):
        tenant, operator = self.begin_in("ms076", router={"replicas": 1, "topology": "ring", "linkWeight": 100, "groups": [
            {"name": "a", "linkWeight": 30}, {"name": "b", "linkWeight": 60}]}, brokers={"min": 1, "replicas": 2})
        tenant.until("MessagingInfra", "infra1", reason="Ready")
        tenant.until("MessagingInfra", "infra1", "TopologySupported", "False", "RingNotSupported")
        tenant.until("MessagingInfra", "infra1", "BrokerHA", "False", "NotSupported")
        tenant.until("MessagingInfra", "infra1", "GroupsSpread", "Unknown", "ZonesUnknown")
        routers = operator.stored(ROUTERS)
        self.assertEqual({name: [(one["name"], one["cost"]) for one in whole["spec"]["interRouterConnectors"]] for name, whole in routers.items()},
                         {"infra1-a": [("b", 2)], "infra1-b": [("a", 4)]})
        for whole in routers.values():
            self.assertIn("topology.kubernetes.io/zone", json.dumps(whole["spec"]["deploymentPlan"]["affinity"]["podAntiAffinity"]))
        self.assertEqual([one["spec"]["deploymentPlan"]["size"] for one in operator.stored(BROKERS).values()], [1])
        for host in ("infra1-a-0", "infra1-b-0"):
            tenant.client.must("PATCH", operator.pod(host), json.dumps({"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}}), headers=messaging.MERGE)
        # A router that is away: minReady of each group is 0.
        operator.peers["infra1-b-0"].kill()
        tenant.until("MessagingInfra", "infra1", reason="Degraded")
        tenant.until("MessagingInfra", "infra1", "GroupsSpread", "False", "SharedZone")
        self.assertIsNone(operator.fault)

    def test_MS078_MS096_routers_follow_what_plans_ask_for(self):
        tenant, operator = self.begin_in("ms078", router={"replicas": {"min": 1, "max": 3}, "connectionsPerRouter": 10})
        tenant.plan(resources={"requests": {"connections": 10}, "limits": {"connections": 30}})
        for name in ("space1", "space2"):
            tenant.space(name)
            tenant.until("AddressSpace", name)
        kit.eventually(lambda: self.size(operator) == 2, 15, "two routers")
        kit.eventually(lambda: len(self.status(tenant)["routers"]) == 2 and all(one["synchronized"] for one in self.status(tenant)["routers"]), 15, "in order")
        router = operator.peers["infra1-default-0"]
        kit.eventually(lambda: {one["maxConnections"] for one in router.rows("vhost").values()} == {15}, 10, "the limit is divided by two")
        tenant.space("space3")
        tenant.until("AddressSpace", "space3")
        kit.eventually(lambda: self.size(operator) == 3, 15, "three routers")
        tenant.space("space4")
        tenant.until("AddressSpace", "space4", "InfraBound", "False", "InsufficientCapacity")
        for name in ("space4", "space3", "space2"):
            tenant.delete("AddressSpace", name)
            tenant.gone("AddressSpace", name)
        kit.eventually(lambda: self.size(operator) == 1, 15, "one router")
        tenant.until("MessagingInfra", "infra1")
        self.assertIsNone(operator.fault)

    def test_MS068_MS069_services_and_routes_of_endpoints(self):
        tenant, operator = self.begin_in("ms068", router={"replicas": 1}, brokers={"max": 0})
        tenant.until("MessagingInfra", "infra1")
        tenant.make("MessagingTenant", {"metadata": {"name": "default"}, "spec": {"messagingInfrastructureRef": {"name": "infra1"}}})
        tenant.until("MessagingTenant", "default")
        tenant.make("MessagingEndpoint", {"metadata": {"name": "inside"}, "spec": {"protocols": ["AMQP"], "cluster": {}, "annotations": {"note": "x"}}})
        tenant.make("MessagingEndpoint", {"metadata": {"name": "outside"}, "spec": {
            "protocols": ["AMQP-WS"], "host": "a.example.com", "route": {"tlsTermination": "edge"}, "dedicated": True}})
        tenant.until("MessagingEndpoint", "inside", "ServiceCreated", reason="ServiceCreated")
        tenant.until("MessagingEndpoint", "inside")
        tenant.until("MessagingEndpoint", "outside", "ServiceCreated", reason="ServiceCreated")
        status = tenant.get("MessagingEndpoint", "outside")["status"]
        services, routes = (operator.stored(one) for one in (("v1", "services"), ("route.openshift.io/v1", "routes")))
        [inside] = [one for name, one in services.items() if name.startswith("inside-")]
        self.assertEqual((inside["spec"]["type"], inside["spec"]["selector"]["kintsugi.dev/infra"], inside["metadata"]["annotations"]["note"]), ("ClusterIP", "infra1", "x"))
        self.assertEqual([(one["name"], one["port"], one["targetPort"]) for one in inside["spec"]["ports"]], [("amqp", 5672, 55667)])
        [route] = routes.values()
        self.assertEqual((route["spec"]["host"], route["spec"]["tls"], route["spec"]["port"]), ("a.example.com", {"termination": "edge"}, {"targetPort": "amqp-ws"}))
        name = route["metadata"]["name"]
        self.assertEqual(status["resources"], [f"Service/{name}", f"Route/{name}"])
        [port] = [one["port"] for one in status["internalPorts"]]
        self.assertEqual([(one["port"], one["targetPort"]) for one in services[name]["spec"]["ports"]], [(80, port)])
        # Another way in: the Route goes, the Service is of another type.
        tenant.change("MessagingEndpoint", "outside", route=None, nodePort={})
        kit.eventually(lambda: operator.stored(("route.openshift.io/v1", "routes")) == {} and operator.stored(("v1", "services"))[name]["spec"]["type"] == "NodePort",
                       15, "no route, a node port")
        # Ingresses are not served here.
        tenant.change("MessagingEndpoint", "outside", nodePort=None, ingress={})
        why = tenant.until("MessagingEndpoint", "outside", "ServiceCreated", "False")
        self.assertIn(why["reason"], ("NotServed", "Forbidden"))
        for one in ("inside", "outside"):
            tenant.delete("MessagingEndpoint", one)
            tenant.gone("MessagingEndpoint", one)
        self.assertEqual(operator.stored(("v1", "services")), {})
        self.assertIsNone(operator.fault)

    def test_MS090_services_and_routes_of_endpoints_that_stand_in_a_space(self):
        tenant, operator = self.begin_in("ms090", router={"replicas": 1}, brokers={"max": 0})
        tenant.until("MessagingInfra", "infra1")
        tenant.plan()
        inside = {"name": "in", "service": "messaging"}
        outside = {"name": "out", "service": "messaging", "cert": {"provider": "wildcard"},
                   "expose": {"type": "route", "routeHost": "b.example.com", "annotations": {"note": "y"}}}
        tenant.space(endpoints=[inside, outside])
        kit.eventually(lambda: len(operator.stored(("v1", "services"))) == 2 and operator.stored(("route.openshift.io/v1", "routes")), 15, "Services and a Route")
        tenant.until("AddressSpace", "space1", "EndpointsReady")
        services, routes = (operator.stored(one) for one in (("v1", "services"), ("route.openshift.io/v1", "routes")))
        [first], [second] = ([name for name in services if name.startswith(part)] for part in ("in-", "out-"))
        self.assertEqual([(one["name"], one["port"], one["targetPort"]) for one in services[first]["spec"]["ports"]], [("amqp", 5672, 55667)])
        self.assertEqual(list(routes), [second])
        self.assertEqual((routes[second]["spec"]["host"], routes[second]["metadata"]["annotations"]["note"]), ("b.example.com", "y"))
        resources = tenant.get("AddressSpace", "space1")["status"]["resources"]
        self.assertEqual(resources, [f"Service/{first}", f"Service/{second}", f"Route/{second}"])
        # What is taken out of the space goes; the other one stays.
        tenant.change("AddressSpace", "space1", endpoints=[inside])
        kit.eventually(lambda: (list(operator.stored(("v1", "services"))), operator.stored(("route.openshift.io/v1", "routes"))) == ([first], {}), 15, "one Service")
        kit.eventually(lambda: tenant.get("AddressSpace", "space1")["status"]["resources"] == [f"Service/{first}"], 15, "the status says so")
        # Deleted by hand it comes back with the next change.
        tenant.client.must("DELETE", operator.path(("v1", "services"), first))
        tenant.change("AddressSpace", "space1", endpoints=[{**inside, "expose": {"type": "loadbalancer"}}])
        kit.eventually(lambda: operator.stored(("v1", "services"))[first]["spec"]["type"] == "LoadBalancer", 15, "a Service of another type")
        tenant.delete("AddressSpace", "space1")
        tenant.gone("AddressSpace", "space1")
        self.assertEqual(operator.stored(("v1", "services")), {})
        self.assertIsNone(operator.fault)

    def test_MS001_names_that_others_have_and_kinds_that_are_not_served(self):
        tenant, operator = self.begin_in("ms001b", router={"replicas": 1}, brokers={"max": 0})
        tenant.until("MessagingInfra", "infra1")
        tenant.client.must("POST", operator.path(ROUTERS), {"apiVersion": ROUTERS[0], "kind": "Interconnect", "metadata": {"name": "infra2-default"},
                                                            "spec": {"deploymentPlan": {"size": 0}}})
        tenant.make("MessagingInfra", {"metadata": {"name": "infra2"}, "spec": {"brokers": {"max": 0}}})
        tenant.until("MessagingInfra", "infra2", "RoutersCreated", "False", "NameTaken")
        self.assertEqual(operator.stored(ROUTERS)["infra2-default"]["spec"], {"deploymentPlan": {"size": 0}})
        # A workspace without the definitions.
        Case.installation.make_workspace("bare", selector={"name": "root"})
        bare = messaging_stage.Tenant(Case.stage.bind("bare"))
        bare.make("MessagingInfra", {"metadata": {"name": "infra1"}, "spec": {}})
        why = kit.eventually(lambda: bare.condition("MessagingInfra", "infra1", "RoutersCreated").get("reason"), 15, "the condition")
        self.assertIn(why, ("Forbidden", "OperatorNotInstalled"))
        bare.delete("MessagingInfra", "infra1")
        bare.gone("MessagingInfra", "infra1")


if __name__ == "__main__":
    unittest.main()
