"""Connectors, endpoints and infras: each flow is done once, and again with a process killed at each of its steps (docs/spec/messaging.md)."""
import unittest

import amqp
import messaging_faults
import messaging_flows
import messaging_stage
import messaging_steps

ONLY_WITH_ALL = "kills each process at each step of each flow, for minutes"


def setUpModule():
    messaging_steps.begin()


class Ends(messaging_flows.Case):
    def with_tenant(self):
        self.make("MessagingTenant", "default", messagingInfrastructureRef={"name": "infra1"})
        self.addCleanup(lambda: (self.remove("MessagingTenant", "default"), self.gone("MessagingTenant", "default")))
        self.tenant.until("MessagingTenant", "default", deadline=60)

    def one_of(self, kind, name, which="Ready", **spec):
        return (lambda: self.make(kind, name, **spec), lambda: self.tenant.until(kind, name, which, deadline=90),
                lambda: self.remove(kind, name), lambda: self.gone(kind, name))

    def test_MS063_MS072_a_connector(self):
        self.with_tenant()
        other = amqp.Router("other", hazards=False).start_for(self)
        self.through(*self.one_of("MessagingConnector", "far", endpointHosts=[{"host": "127.0.0.1", "port": other.port}],
                                  addresses=[{"name": "all", "pattern": "orders/#"}]))

    def test_MS063_MS068_an_endpoint_with_a_certificate_and_listener_of_its_own(self):
        self.with_tenant()
        self.through(*self.one_of("MessagingEndpoint", "safe", protocols=["AMQPS"], cluster={}, tls={"selfsigned": {}}, host="a.example.com"))

    def test_MS063_MS009_an_infra_with_all_that_is_in_it(self):
        second = amqp.Router("r2", hazards=False).start_for(self)
        self.gates["second"] = gate = messaging_faults.Gate(second.name, second.port)
        self.addCleanup(gate.close)
        self.addCleanup(self.gates.pop, "second")
        self.at_router, self.gate = second, "second"
        self.kills["router"] = lambda: self.again(second)
        infra = messaging_stage.infra([gate], [self.gates["broker"]], name="infra2")[1]["spec"]

        def come():
            self.make("MessagingInfra", "infra2", **infra)
            self.make("AddressSpacePlan", "plan2", messagingInfraRef="infra2")
            self.make("AddressSpace", "space2", type="shared", plan="plan2")
            self.make("Address", "space2.one", address="one", type="queue")

        def gone():
            for kind, name in (("Address", "space2.one"), ("AddressSpace", "space2"), ("AddressSpacePlan", "plan2"), ("MessagingInfra", "infra2")):
                self.remove(kind, name)
                self.gone(kind, name)

        self.through(come, lambda: (self.tenant.until("MessagingInfra", "infra2", deadline=90), self.tenant.ready("one", space="space2", deadline=90)),
                     lambda: [self.remove(kind, name) for kind, name in (("Address", "space2.one"), ("AddressSpace", "space2"), ("MessagingInfra", "infra2"))], gone)


if __name__ == "__main__":
    unittest.main()
