"""Spaces, tenants and their plans at routers that stand in for qpid-dispatch: what is sent for each, what is refused and why, and how
it heals (docs/spec/messaging.md)."""
import json
import time
import unittest

import amqp
import kit
import messaging
import messaging_stage
from messaging_case import Case, begin

ADDRESS, VHOST = "router.config.address", "vhost"


def setUpModule():
    begin()


class Spaces(Case):
    """Two routers, no broker."""

    @classmethod
    def setUpClass(cls):
        cls.routers = cls.routers_of("R0", "R1")
        cls.tenant = cls.tenant_of("spaces")
        cls.tenant.make(*messaging_stage.infra(cls.routers, []))
        cls.tenant.plan()
        cls.tenant.until("MessagingInfra", "infra1")

    def space(self, name, plan="plan1", **spec):
        """Ready, and its spaceId."""
        self.tenant.space(name, plan, **spec)
        self.tenant.until("AddressSpace", name)
        return self.tenant.get("AddressSpace", name)["status"]["spaceId"]

    def after(self, name, space="after"):
        """Another object, made now, is ready: whatever was to be done before it would have been done."""
        self.tenant.address(name, "anycast", space)
        self.tenant.ready(name, space=space)

    @classmethod
    def after_space(cls):
        if cls.tenant.client.get(cls.tenant.path("AddressSpace", "after")).status == 404:
            cls.tenant.space("after")
            cls.tenant.until("AddressSpace", "after")

    def test_MS002_spaces_of_other_types_are_left_alone(self):
        self.after_space()
        self.tenant.make("AddressSpacePlan", {"metadata": {"name": "old"}, "spec": {
            "addressSpaceType": "standard", "resourceLimits": {"router": 1.0}, "addressPlans": ["a"], "infraConfigRef": "default"}})
        made = [self.tenant.space(name, "old", type=kind) for name, kind in (("standard", "standard"), ("brokered", "brokered"))]
        plan = self.tenant.get("AddressSpacePlan", "old")
        address = self.tenant.address("a", "queue", "standard")
        self.forget(*self.routers)
        self.after("ms002")
        for before in made:
            self.assertEqual(self.tenant.get("AddressSpace", before["metadata"]["name"]), before)
            self.assertNotIn("finalizers", before["metadata"])
        self.assertEqual(self.tenant.get("AddressSpacePlan", "old"), plan)
        self.assertEqual(self.tenant.get("Address", "standard.a")["spec"], address["spec"])
        self.assertEqual(self.sent(*self.routers), {("CREATE", ADDRESS): 2})

    def test_MS014_a_space_is_one_vhost_on_each_router(self):
        self.forget(*self.routers)
        space_id = self.space("ms014")
        self.assertEqual(self.sent(*self.routers), {("CREATE", VHOST): 2})
        for router in self.routers:
            self.assertIn(space_id, self.vhosts(router))

    def test_MS015_limits_of_the_plan_are_those_of_the_routers(self):
        self.tenant.plan("limited", resources={"limits": {"connections": 10, "linksPerConnection": 2}})
        space_id = self.space("ms015", "limited")
        self.tenant.address("a", "anycast", "ms015")
        self.tenant.ready("a", space="ms015")
        for router in self.routers:
            vhost = self.vhosts(router)[space_id]
            group = vhost["groups"]["$default"]
            self.assertEqual((vhost["maxConnections"], group["maxSenders"], group["maxReceivers"]), (5, 2, 2))
        client = amqp.Client().start_for(self)
        for number in range(5):
            said = client.open(self.routers[0].tenants_port, hostname=space_id, name=f"c{number}")
            self.assertTrue(said["opened"] and not said["error"], said)
        self.assertEqual(client.open(self.routers[0].tenants_port, hostname=space_id, name="c5")["error"]["condition"], "amqp:resource-limit-exceeded")
        self.assertIsNone(client.open(self.routers[1].tenants_port, hostname=space_id, name="other")["error"])
        for number in range(3):
            said = client.do("attach", connection="c0", address="a", role="sender", **{"as": f"l{number}"})
            self.assertEqual((said["error"] or {}).get("condition"), "amqp:resource-limit-exceeded" if number == 2 else None)
        self.assertEqual(self.tenant.get("AddressSpace", "ms015")["status"]["effectiveConnectionsPerRouter"], 5)

    def test_MS016_limits_change_by_one_update(self):
        self.tenant.plan("growing", resources={"limits": {"connections": 4}})
        space_id = self.space("ms016", "growing")
        self.tenant.address("a", "anycast", "ms016")
        self.tenant.ready("a", space="ms016")
        client = amqp.Client().start_for(self)
        for number in range(2):
            self.assertIsNone(client.open(self.routers[0].tenants_port, hostname=space_id, name=f"c{number}")["error"])
        for connections, each in ((20, 10), (2, 1)):
            self.forget(*self.routers)
            self.tenant.change("AddressSpacePlan", "growing", resources={"limits": {"connections": connections}})
            kit.eventually(lambda n=each: all(self.vhosts(one)[space_id]["maxConnections"] == n for one in self.routers), what=f"{each} for each router")
            self.assertEqual(self.sent(*self.routers), {("UPDATE", VHOST): 2})
        for number in range(2):
            self.assertIsNone(client.do("attach", connection=f"c{number}", address="a", role="sender", **{"as": f"l{number}"})["error"])
        self.assertEqual(client.open(self.routers[0].tenants_port, hostname=space_id, name="more")["error"]["condition"], "amqp:resource-limit-exceeded")

    def test_MS017_a_missing_plan_or_infra_heals_when_it_comes(self):
        self.forget(*self.routers)
        self.tenant.space("ms017", "later")
        why = self.tenant.until("AddressSpace", "ms017", "PlanFound", "False", "PlanNotFound")
        self.assertIn("later", why["message"])
        self.tenant.make("AddressSpacePlan", {"metadata": {"name": "later"}, "spec": {
            "addressSpaceType": "standard", "resourceLimits": {"router": 1.0}, "addressPlans": ["a"], "infraConfigRef": "default"}})
        self.tenant.until("AddressSpace", "ms017", "PlanFound", "False", "WrongPlanType")
        self.tenant.delete("AddressSpacePlan", "later")
        self.tenant.until("AddressSpace", "ms017", "PlanFound", "False", "PlanNotFound")
        self.tenant.plan("later", "nowhere")
        self.tenant.until("AddressSpacePlan", "later", "InfraFound", "False", "InfraNotFound")
        why = self.tenant.until("AddressSpace", "ms017", "InfraBound", "False", "InfraNotFound")
        self.assertIn("spaces/nowhere", why["message"])
        self.assertEqual(self.sent(*self.routers), {})
        self.tenant.change("AddressSpacePlan", "later", messagingInfraRef="infra1")
        self.tenant.until("AddressSpace", "ms017")
        self.tenant.until("AddressSpacePlan", "later", "InfraFound")
        for which in ("PlanFound", "InfraBound"):
            self.assertEqual(self.tenant.condition("AddressSpace", "ms017", which)["status"], "True")
        self.assertEqual(self.sent(*self.routers), {("CREATE", VHOST): 2})

    def test_MS018_a_plan_that_moves_to_another_infra_moves_nothing(self):
        [other] = self.routers_of("R9")
        self.tenant.make(*messaging_stage.infra([other], [], "infra2"))
        self.addCleanup(self.tenant.gone, "MessagingInfra", "infra2")
        self.addCleanup(self.tenant.delete, "MessagingInfra", "infra2")
        self.tenant.until("MessagingInfra", "infra2")
        self.tenant.plan("moving")
        space_id = self.space("ms018", "moving")
        self.tenant.address("a", "anycast", "ms018")
        self.tenant.ready("a", space="ms018")
        self.forget(*self.routers, other)
        self.tenant.change("AddressSpacePlan", "moving", messagingInfraRef="infra2")
        why = self.tenant.until("AddressSpace", "ms018", "InfraBound", "False")
        self.assertIn("infra1", why["message"])
        self.assertIn("infra2", why["message"])
        self.after_space()
        self.after("ms018")
        self.tenant.change("AddressSpace", "ms018", metadata={"labels": {"seen": "again"}})
        self.assertEqual(self.tenant.condition("AddressSpace", "ms018", "InfraBound")["status"], "False")
        self.assertIn(("CREATE", ADDRESS), self.sent(*self.routers))
        self.assertEqual((self.sent(other), {key for key in self.sent(*self.routers) if key[0] != "CREATE"}), ({}, set()))
        for router in self.routers:
            self.assertIn(space_id + "/a", self.patterns(router))
        self.tenant.change("AddressSpacePlan", "moving", messagingInfraRef="infra1")
        self.tenant.until("AddressSpace", "ms018")
        self.assertEqual(self.tenant.condition("Address", "ms018.a")["status"], "True")
        # It is refused until its last address has left.
        self.tenant.change("AddressSpacePlan", "moving", messagingInfraRef="infra2")
        self.tenant.until("AddressSpace", "ms018", "InfraBound", "False")
        self.tenant.delete("Address", "ms018.a")
        self.tenant.until("AddressSpace", "ms018")

    def test_MS019_addresses_above_the_limit_wait_for_their_turn(self):
        self.tenant.plan("three", resources={"limits": {"addresses": 3}})
        self.space("ms019", "three")
        *first, last = "a0", "a1", "a2", "a3"
        made = [self.tenant.address(name, "anycast", "ms019") for name in first]
        self.tenant.ready(*first, space="ms019")
        # Ages are in seconds.
        kit.eventually(lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) > made[-1]["metadata"]["creationTimestamp"], what="a younger one")
        self.tenant.address(last, "anycast", "ms019")
        self.tenant.until("Address", f"ms019.{last}", "Scheduled", "False", "AddressLimitExceeded")
        self.assertEqual(self.tenant.get("Address", f"ms019.{last}")["status"]["phase"], "Pending")
        for router in self.routers:
            self.assertFalse([one for one in self.patterns(router) if one.startswith("ms019-") and one.endswith("/" + last)])
        self.tenant.delete("Address", f"ms019.{first[1]}")
        self.tenant.ready(last, space="ms019")
        self.tenant.gone("Address", f"ms019.{first[1]}")

    def test_MS019_the_status_counts_the_addresses(self):
        self.space("counted")

        def counts(addresses):
            kit.eventually(lambda: self.tenant.get("AddressSpace", "counted")["status"]["usage"]["addresses"] == addresses, what=f"{addresses} are counted")

        counts(0)
        for name in ("a", "b", "c"):
            self.tenant.address(name, "anycast", "counted")
        counts(3)
        self.tenant.delete("Address", "counted.b")
        counts(2)

    def test_MS065_RT81_what_is_made_in_one_space_is_no_work_of_others(self):
        quiet = [f"quiet{number}" for number in range(12)]
        for name in (*quiet, "busy"):
            self.tenant.space(name)
        for name in (*quiet, "busy"):
            self.tenant.until("AddressSpace", name)
        infra = self.tenant.path("MessagingInfra")
        version = self.tenant.client.must("GET", infra)["metadata"]["resourceVersion"]
        before, begin = self.turns(), time.monotonic()
        for number in range(20):
            self.tenant.address(f"a{number}", "anycast", "busy")
            self.tenant.ready(f"a{number}", space="busy")
        turns, took = self.turns() - before, time.monotonic() - begin
        # The space itself counts its addresses once a second, which it writes and sees come back; each may have seen its last write but now.
        self.assertLessEqual(turns, len(quiet) + 1 + 3 * (took + 1))
        answer = self.tenant.client.get(f"{infra}?watch=1&resourceVersion={version}&timeoutSeconds=1")
        states = [{one["type"]: one["status"] for one in json.loads(line)["object"]["status"]["conditions"]}["Ready"] for line in answer.body.splitlines()]
        self.assertTrue(states, "what its routers hold is told")
        self.assertLessEqual(len(states), took + 3 + states.count("False"))

    def turns(self):
        return self.worker.metric("controller_runtime_reconcile_total", controller="addressspace")

    def test_MS020_a_space_goes_after_its_addresses_and_can_be_made_again(self):
        space_id = self.space("ms020", endpoints=[{"name": "messaging", "service": "messaging", "expose": {"type": "route", "routeHost": "ms020.example.com"}}])
        self.tenant.address("a", "anycast", "ms020")
        self.tenant.ready("a", space="ms020")
        self.tenant.delete("AddressSpace", "ms020")
        why = self.tenant.until("AddressSpace", "ms020", status="False", reason="Terminating")
        self.assertIn("ms020.a", why["message"])
        for router in self.routers:
            self.assertIn(space_id, self.vhosts(router))
        self.tenant.delete("Address", "ms020.a")
        self.tenant.gone("AddressSpace", "ms020")
        for router in self.routers:
            self.assertNotIn(space_id, self.vhosts(router))
            self.assertFalse([one for one in self.patterns(router) if one.startswith(space_id)])
            self.assertFalse([one for one in router.dump()["aliases"] if "ms020" in one])
        self.assertEqual(self.space("ms020", endpoints=[{"name": "messaging", "service": "messaging", "expose": {"type": "route", "routeHost": "ms020.example.com"}}]),
                         space_id)

    def test_MS025_MS028_MS029_equal_names_in_two_spaces(self):
        ids = [self.space(name) for name in ("ms025", "ms025b")]
        self.forget(*self.routers)
        for name, kind in (("ms025", "anycast"), ("ms025b", "multicast")):
            self.tenant.address("same", kind, name)
        self.tenant.ready("same", space="ms025")
        self.tenant.ready("same", space="ms025b")
        self.assertEqual(self.sent(*self.routers), {("CREATE", ADDRESS): 4})
        for router in self.routers:
            found = [self.patterns(router)[one + "/same"] for one in ids]
            self.assertEqual([(one["distribution"], one["waypoint"]) for one in found], [("balanced", False), ("multicast", False)])
        client = amqp.Client().start_for(self)
        for number, space_id in enumerate(ids):
            client.open(self.routers[0].tenants_port, hostname=space_id, name=f"c{number}")
            client.do("attach", connection=f"c{number}", address="same", role="receiver", **{"as": f"r{number}"})
        waiting = [client.begin(do="receive", link=f"r{number}") for number in range(2)]
        for number in range(2):
            self.assertEqual(client.do("send", connection=f"c{number}", address="same", bodies=[f"of {number}"])["accepted"], 1)
        self.assertEqual([one()["bodies"] for one in waiting], [["of 0"], ["of 1"]])

    def test_MS026_without_a_type_it_is_shared(self):
        self.tenant.make("AddressSpace", {"metadata": {"name": "ms026"}, "spec": {"plan": "plan1"}})
        self.tenant.until("AddressSpace", "ms026")

    def test_MS077_what_does_not_fit_is_told(self):
        self.tenant.plan("huge", resources={"requests": {"addresses": 100001}})
        why = self.tenant.until("AddressSpacePlan", "huge", "Feasible", "False", "ExceedsInfraMaximum")
        self.assertIn("addresses", why["message"])
        self.tenant.plan("half", resources={"requests": {"addresses": 60000}})
        self.tenant.until("AddressSpacePlan", "half", "Feasible")
        self.space("ms077", "half")
        self.forget(*self.routers)
        self.tenant.space("ms077b", "half")
        why = self.tenant.until("AddressSpace", "ms077b", "InfraBound", "False", "InsufficientCapacity")
        self.assertIn("addresses 60000 with 40000 of 100000 left", why["message"])
        self.assertEqual(self.sent(*self.routers), {})
        kit.eventually(lambda: self.tenant.get("MessagingInfra", "infra1")["status"]["requested"]["addresses"] == 60000, what="it is counted")
        # Who waits is told what others have left.
        self.tenant.plan("tenth", resources={"requests": {"addresses": 10000}})
        self.space("ms077c", "tenth")
        kit.eventually(lambda: "addresses 60000 with 30000 of 100000 left" in self.tenant.message("AddressSpace", "ms077b", "InfraBound"), what="what is left")
        self.tenant.change("AddressSpacePlan", "tenth", resources={"requests": {"addresses": 5000}})
        kit.eventually(lambda: self.tenant.get("MessagingInfra", "infra1")["status"]["requested"]["addresses"] == 65000, what="it is counted anew")
        kit.eventually(lambda: "addresses 60000 with 35000 of 100000 left" in self.tenant.message("AddressSpace", "ms077b", "InfraBound"), what="what is left")
        self.tenant.delete("AddressSpace", "ms077c")
        self.tenant.delete("AddressSpace", "ms077")
        self.tenant.until("AddressSpace", "ms077b")
        kit.eventually(lambda: self.tenant.get("AddressSpacePlan", "half")["status"]["spaces"] == 1, what="the plan has one space")

    def test_MS091_another_authentication_service_than_the_infra(self):
        self.forget(*self.routers)
        self.tenant.space("ms091", authenticationService={"name": "mine"})
        why = self.tenant.until("AddressSpace", "ms091", "InfraBound", "False", "AuthenticationServiceMismatch")
        self.assertIn("mine", why["message"])
        self.assertEqual(self.sent(*self.routers), {})
        self.tenant.change("MessagingInfra", "infra1", router={"authenticationService": "mine"})
        self.tenant.until("AddressSpace", "ms091")
        self.tenant.change("MessagingInfra", "infra1", router={"authenticationService": None})
        # What was made stays as it was.
        self.tenant.until("AddressSpace", "ms091", "InfraBound", "False", "AuthenticationServiceMismatch")
        space_id = self.tenant.get("AddressSpace", "ms091")["status"]["spaceId"]
        for router in self.routers:
            self.assertIn(space_id, self.vhosts(router))
        self.assertEqual(self.sent(*self.routers), {("CREATE", VHOST): 2})

    def test_MS_16_a_status_that_somebody_writes_is_set_right(self):
        space_id = self.space("edited")
        self.tenant.address("a", "anycast", "edited")
        self.tenant.ready("a", space="edited")
        self.forget(*self.routers)
        self.tenant.change("AddressSpace", "edited", "/status", status={"spaceId": "somebody-elses", "phase": "Failed", "isReady": False})
        kit.eventually(lambda: self.tenant.get("AddressSpace", "edited")["status"]["spaceId"] == space_id, what="the spaceId is right again")
        self.tenant.until("AddressSpace", "edited")
        self.assertEqual(self.tenant.get("AddressSpace", "edited")["status"]["phase"], "Active")
        self.tenant.change("AddressSpace", "edited", "/status", status={"infra": {"cluster": "x", "namespace": "y", "name": "z"}})
        kit.eventually(lambda: self.tenant.get("AddressSpace", "edited")["status"]["infra"]["name"] == "infra1", what="its infra is right again")
        self.tenant.until("AddressSpace", "edited")
        self.assertEqual(self.sent(*self.routers), {})
        self.assertEqual(self.tenant.condition("Address", "edited.a")["status"], "True")

    def test_MS_16_bad_input_changes_nothing(self):
        space_id = self.space("bad")
        self.forget(*self.routers)
        connectors = [{"name": f"c{number}", "endpointHosts": [{"host": "a.example.com"}]} for number in range(65)]
        path = self.tenant.path("AddressSpace", "bad")
        for spec in ({"connectors": connectors}, {"connectors": [{**connectors[0], "name": f"c{number}"} for number in range(10_000)]}, {"capabilities": ["wings"]}):
            answer = self.tenant.client.request("PATCH", path, json.dumps({"spec": spec}), headers=messaging.MERGE)
            self.assertEqual(answer.status, 422, answer)
        self.tenant.change("AddressSpace", "bad", capabilities=["transactions"])
        why = self.tenant.until("AddressSpace", "bad", "PlanFound", "False", "CapabilityNotInPlan")
        self.assertIn("transactions", why["message"])
        self.tenant.change("AddressSpace", "bad", capabilities=None, networkPolicy={"ingress": []})
        self.tenant.until("AddressSpace", "bad")
        self.assertEqual(self.tenant.condition("AddressSpace", "bad", "NetworkPolicySupported")["status"], "False")
        self.assertEqual(self.sent(*self.routers), {})
        for router in self.routers:
            self.assertIn(space_id, self.vhosts(router))


class Tenants(Case):
    """Tenants find an infra and a plan by their namespaces."""

    @classmethod
    def setUpClass(cls):
        cls.routers = cls.routers_of("R0", "R1", "R2")
        cls.infras = cls.tenant_of("infras")

    def infra(self, number, **spec):
        name = ("any", "names", "labels")[number]
        self.infras.make(*messaging_stage.infra([self.routers[number]], [], name, **spec))
        self.infras.until("MessagingInfra", name)

    def tenant_in(self, namespace, **labels):
        """A tenant in a namespace of that name."""
        tenant = self.tenant_of(namespace, labels)
        self.addCleanup(tenant.clean)
        return tenant

    def test_MS008_which_infra_a_tenant_gets(self):
        self.addCleanup(self.infras.clean)
        named, labelled, plain = self.tenant_in("named", tier="gold"), self.tenant_in("labelled", tier="gold"), self.tenant_in("plain")
        self.infra(2, namespaceSelector={"matchLabels": {"tier": "gold"}})
        self.infra(1, namespaceSelector={"matchNames": ["named"]})
        plain.make("MessagingTenant", {"metadata": {"name": "default"}})
        plain.until("MessagingTenant", "default", "Bound", "False", "InfraNotFound")
        self.infra(0)
        plain.until("MessagingTenant", "default")
        for again in (False, True):
            for tenant, infra, number in ((plain, "any", 0), (named, "names", 1), (labelled, "labels", 2)):
                if again:
                    tenant.delete("MessagingTenant", "default")
                    tenant.gone("MessagingTenant", "default")
                if again or tenant is not plain:
                    tenant.make("MessagingTenant", {"metadata": {"name": "default"}})
                tenant.until("MessagingTenant", "default")
                status = tenant.get("MessagingTenant", "default")["status"]
                self.assertEqual(status["infra"]["name"], infra)
                self.assertEqual([status["spaceId"] in self.vhosts(router) for router in self.routers], [one == number for one in range(3)])
        refused = self.tenant_in("refused")
        refused.make("MessagingTenant", {"metadata": {"name": "default"}, "spec": {"messagingInfrastructureRef": {"name": "names", "namespace": "infras"}}})
        why = refused.until("MessagingTenant", "default", "Bound", "False", "NamespaceNotSelected")
        self.assertIn("refused", why["message"])

    def test_S16_hosts_that_a_connector_must_not_have(self):
        self.infra(0)
        self.addCleanup(self.infras.clean)
        tenant, router = self.tenant_in("hosts"), self.routers[0]
        tenant.make("MessagingTenant", {"metadata": {"name": "default"}})
        tenant.until("MessagingTenant", "default")
        tenant.make("MessagingConnector", {"metadata": {"name": "remote"}, "spec": {
            "endpointHosts": [{"host": "amqp.invalid", "port": 5672}], "addresses": [{"name": "all", "pattern": "a/#"}]}})
        tenant.until("MessagingConnector", "remote", "Created")
        kinds = ("connector", "linkRoute")
        before = [{name: row["identity"] for name, row in router.rows(kind).items()} for kind in kinds]
        self.forget(router)
        for host in ("localhost", "LocalHost.", "a.localhost", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0.0.0.0", "169.254.169.254", "::1", "[::1]", "::",
                     "fe80::1", "::ffff:127.0.0.1", "::ffff:a9fe:1", "r0", "R0"):
            with self.subTest(host):
                tenant.change("MessagingConnector", "remote", endpointHosts=[{"host": "amqp.invalid", "port": 5672}, {"host": host, "port": 5672}])
                generation = tenant.get("MessagingConnector", "remote")["metadata"]["generation"]

                def refused(generation=generation):
                    why = tenant.condition("MessagingConnector", "remote", "Validated")
                    return why["observedGeneration"] == generation and (why["status"], why["reason"]) == ("False", "ForbiddenHost") and why

                self.assertIn("endpointHosts[1].host", kit.eventually(refused, what=f"{host} is refused")["message"])
        self.assertEqual(self.sent(router), {})
        self.assertEqual([{name: row["identity"] for name, row in router.rows(kind).items()} for kind in kinds], before)
        tenant.change("MessagingConnector", "remote", endpointHosts=[{"host": "amqp.invalid", "port": 5673}])
        tenant.until("MessagingConnector", "remote", "Validated")
        kit.eventually(lambda: [one["port"] for one in router.rows("connector").values()] == ["5673"], what="what is right again is made")

    def test_MS027_annotations_of_a_namespace_make_a_tenant(self):
        self.infra(0)
        self.addCleanup(self.infras.clean)
        tenant = self.tenant_in("noted")
        tenant.annotate(messaging="true", messaging_plan="small")
        tenant.until("MessagingTenant", "default", "PlanApplied", "False", "PlanNotFound")
        tenant.make("MessagingPlan", {"metadata": {"name": "small"}, "spec": {"messagingInfraRef": {"name": "any", "namespace": "infras"},
                                                                              "resources": {"limits": {"connections": 3}}}})
        tenant.until("MessagingTenant", "default")
        tenant.until("MessagingTenant", "default", "PlanApplied")
        made = tenant.get("MessagingTenant", "default")
        self.assertEqual(made["metadata"]["ownerReferences"][0]["kind"], "Namespace")
        self.assertEqual(self.vhosts(self.routers[0])[made["status"]["spaceId"]]["maxConnections"], 3)
        tenant.annotate(messaging_plan="missing")
        why = tenant.until("MessagingTenant", "default", "PlanApplied", "False", "PlanNotFound")
        self.assertIn("missing", why["message"])
        self.assertIn(made["status"]["spaceId"], self.vhosts(self.routers[0]))
        tenant.annotate(messaging=None)
        tenant.gone("MessagingTenant", "default")
        self.assertEqual(self.vhosts(self.routers[0]), {})
        # An object that somebody wrote stays as it is.
        tenant.make("MessagingTenant", {"metadata": {"name": "default"}, "spec": {"messagingPlanRef": {"name": "small"}}})
        tenant.until("MessagingTenant", "default")
        tenant.annotate(messaging="true")
        other = self.tenant_in("noted2")
        other.annotate(messaging="true")
        other.until("MessagingTenant", "default")
        self.assertEqual(tenant.get("MessagingTenant", "default")["spec"], {"messagingPlanRef": {"name": "small"}})
        for one in (tenant, other):
            one.annotate(messaging=None)
        other.gone("MessagingTenant", "default")
        tenant.until("MessagingTenant", "default")

    def test_MS_16_another_value_of_the_annotation_is_told(self):
        tenant = self.tenant_in("yes")
        tenant.annotate(messaging="yes")

        def told():
            events = tenant.client.must("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
            return [one for one in events if one["reason"] == "UnknownAnnotationValue" and one["regarding"]["name"] == "yes"]

        kit.eventually(told, what="an event")
        self.assertEqual(tenant.client.get(tenant.path("MessagingTenant", "default")).status, 404)

    def test_MS094_of_a_tenant_and_a_project_the_older_one_counts(self):
        self.infra(0)
        self.addCleanup(self.infras.clean)
        tenant = self.tenant_in("both")
        for kind in ("MessagingProject", "MessagingTenant"):
            tenant.make(kind, {"metadata": {"name": "default"}})
        ages = sorted((one["metadata"]["creationTimestamp"], one["metadata"]["uid"], one["kind"])
                      for one in (tenant.get(kind, "default") for kind in ("MessagingProject", "MessagingTenant")))
        older, younger = (kind for _, _, kind in ages)
        tenant.until(younger, "default", status="False", reason="DuplicateTenant")
        tenant.until(older, "default")
        self.assertEqual(len(self.vhosts(self.routers[0])), 1)
        tenant.make("MessagingAddress", {"metadata": {"name": "a"}, "spec": {"anycast": {}}})
        tenant.until("MessagingAddress", "a")
        tenant.until("MessagingAddress", "a", "FoundTenant" if older == "MessagingTenant" else "FoundProject")
        tenant.delete("MessagingAddress", "a")
        tenant.gone("MessagingAddress", "a")
        tenant.delete(older, "default")
        tenant.gone(older, "default")
        tenant.until(younger, "default")
        self.assertEqual(len(self.vhosts(self.routers[0])), 1)

    def test_MD14_of_an_address_space_and_a_tenant_with_one_id_the_older_one_counts(self):
        self.infra(0)
        self.addCleanup(self.infras.clean)
        tenant = self.tenant_in("oneid")
        tenant.make("AddressSpacePlan", {"metadata": {"name": "plan1"}, "spec": {"messagingInfraRef": {"name": "any", "namespace": self.infras.namespace}}})
        tenant.space("default")
        tenant.until("AddressSpace", "default")
        tenant.address("a", "anycast", "default")
        tenant.ready("a", space="default")
        held = self.routers[0].rows("vhost"), self.routers[0].rows("address")
        made = tenant.get("AddressSpace", "default")["metadata"]["creationTimestamp"]
        kit.eventually(lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) > made, what="another second")
        tenant.make("MessagingTenant", {"metadata": {"name": "default"}})
        why = tenant.until("MessagingTenant", "default", status="False", reason="DuplicateSpace")
        self.assertIn("AddressSpace default", why["message"])
        self.assertEqual((self.routers[0].rows("vhost"), self.routers[0].rows("address")), held)
        tenant.delete("Address", "default.a")
        tenant.gone("Address", "default.a")
        tenant.delete("AddressSpace", "default")
        tenant.gone("AddressSpace", "default")
        tenant.until("MessagingTenant", "default")


if __name__ == "__main__":
    unittest.main()
