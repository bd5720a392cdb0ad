"""The kinds of the messaging worker (configs/messaging): installed in a workspace of a provider, bound by others. What a person can
get wrong in one object is refused by its schema and rules, what depends on other objects or is not supported is accepted. Names
of tests have the section of the table that their rows are of (MS_3_1 to MS_3_5), or the number of the case."""
import json
import re
import unittest

import kit
import messaging
from messaging import CONFIGS, HOSTS, KINDS, LEAST, MERGE, RBAC, SCHEMAS, V1BETA2, WITHOUT, YAML, collection, documents, made_of, place


class Kinds(messaging.Bound):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        super().setUpClass()

    # 3.1: MessagingInfra
    def test_MS_3_1_refused(self):
        greater, less = "should be greater than or equal to ", "should be less than or equal to "
        number = "must be a number of bytes from 1 to 2^63-2, for example 10Mi, not "
        pod, unknown = {"spec": {"containers": []}}, "must validate at least one schema (anyOf)"
        self.refused([
            ("infra", "deployment", "Later", 'spec.deployment: Unsupported value: "Later": supported values: "Immediate", "OnDemand"'),
            ("infra", "router.image", "", "spec.router.image in body should be at least 1 chars long"),
            ("infra", "router.image", 7, "spec.router.image: Invalid value: 7"),
            ("infra", "router.image", True, '"spec.router.image" must not validate the schema (not)'),
            ("infra", "router.image", ["a"], "spec.router.image: Too many: 1"),
            ("infra", "router.image", [], "spec.router.image in body should have at least 1 items"),
            ("infra", "router.image", {"pullPolicy": "Always"}, "spec.router.image.name: Required value"),
            ("infra", "router.image", {"name": "i", "pullPolicy": "Maybe"}, 'spec.router.image.pullPolicy: Unsupported value: "Maybe"'),
            ("infra", "brokers.image", {"name": 3}, "spec.brokers.image.name in body must be of type string"),
            ("infra", "brokers.initImage", False, '"spec.brokers.initImage" must not validate the schema (not)'),
            ("infra", "router.replicas", 0, "spec.router.replicas: Invalid value: 0: spec.router.replicas in body " + greater + "1"),
            ("infra", "router.replicas", 65, "spec.router.replicas: Invalid value: 65: spec.router.replicas in body " + less + "64"),
            ("infra", "router.replicas", 2.5, "spec.router.replicas: Invalid value: 2.5: "),
            ("infra", "router.replicas", "3", "spec.router.replicas: Too long"),
            ("infra", "router.replicas", [2], "spec.router.replicas: Too many: 1"),
            ("infra", "router.replicas", True, '"spec.router.replicas" must not validate the schema (not)'),
            ("infra", "router.replicas.min", 0, "spec.router.replicas.min: Invalid value: 0: spec.router.replicas.min in body " + greater + "1"),
            ("infra", "router.replicas", {"min": 65, "max": 65}, "spec.router.replicas.max: Invalid value: 65: spec.router.replicas.max in body " + less + "64"),
            ("infra", "router.replicas", {"min": 5, "max": 3}, "spec.router.replicas.min: Invalid value: 5: spec.router.replicas.min in body " + less + "3"),
            ("infra", "router.replicas", {"min": 64, "max": 63}, "spec.router.replicas.min: Invalid value: 64: spec.router.replicas.min in body " + less + "63"),
            ("infra", "router.replicas", {"min": 2, "minReady": 3}, "spec.router.replicas.minReady: Invalid value: 3: spec.router.replicas.minReady in body " + less + "2"),
            ("infra", "router.replicas.minReady", -1, "spec.router.replicas.minReady: Invalid value: -1"),
            ("infra", "router.topology", "star", 'spec.router.topology: Unsupported value: "star": supported values: "mesh", "ring"'),
            ("infra", "router.groups", [{"name": "a"}, {"name": "b"}, {"name": "a"}], 'spec.router.groups[2]: Duplicate value: {"name":"a"}'),
            ("infra", "router.groups", [{"name": "A"}], 'spec.router.groups[0].name: Invalid value: "A"'),
            ("infra", "router.groups", [{"name": "a" * 41}], "spec.router.groups[0].name: Too long: may not be more than 40 bytes"),
            ("infra", "router.groups", [{"linkWeight": 3}], "spec.router.groups[0].name: Required value"),
            ("infra", "router.groups", [{"name": "a", "linkWeight": 0}], "spec.router.groups[0].linkWeight: Invalid value: 0"),
            ("infra", "router.groups", [{"name": "a", "linkWeight": 1001}], "spec.router.groups[0].linkWeight: Invalid value: 1001"),
            ("infra", "router.linkWeight", 0, "spec.router.linkWeight: Invalid value: 0: spec.router.linkWeight in body " + greater + "1"),
            ("infra", "router.linkWeight", 1001, "spec.router.linkWeight: Invalid value: 1001: spec.router.linkWeight in body " + less + "1000"),
            ("infra", "router.connectionsPerRouter", 0, "spec.router.connectionsPerRouter: Invalid value: 0"),
            ("infra", "router.domain", "under_score.example", 'spec.router.domain: Invalid value: "under_score.example"'),
            ("infra", "router.domain", "a..b", 'spec.router.domain: Invalid value: "a..b"'),
            ("infra", "router.domain", "", 'spec.router.domain: Invalid value: ""'),
            ("infra", "router.listenerPorts", {"first": 2000, "last": 1999}, "spec.router.listenerPorts.first: Invalid value: first 2000 exceeds last 1999"),
            ("infra", "router.listenerPorts.first", 41000, "first 41000 exceeds last 40999"),
            ("infra", "router.listenerPorts.first", 1023, "spec.router.listenerPorts.first: Invalid value: 1023"),
            ("infra", "router.listenerPorts.last", 65536, "spec.router.listenerPorts.last: Invalid value: 65536"),
            ("infra", "router.endpoints", HOSTS * 2, 'spec.router.endpoints[1]: Duplicate value: {"host":"h"}'),
            ("infra", "brokers.endpoints", HOSTS * 2, 'spec.brokers.endpoints[1]: Duplicate value: {"host":"h"}'),
            ("infra", "brokers.endpoints", [{"address": "10.0.0.1"}], "spec.brokers.endpoints[0].host: Required value"),
            ("infra", "router.endpoints", [{"host": "h", "port": 65536}], "spec.router.endpoints[0].port: Invalid value: 65536"),
            ("infra", "router.podTemplate", {"metdata": {}}, ['"spec.router.podTemplate" ' + unknown]),
            ("infra", "router.podTemplate", pod, '"spec.router.podTemplate.spec" ' + unknown),
            ("infra", "brokers.podTemplate", {"spec": {"affinity": {}, "tolerations": [], "nodeName": "n"}}, '"spec.brokers.podTemplate.spec" ' + unknown),
            ("infra", "brokers.podTemplate", {"metadata": {"name": {}}}, 'spec.brokers.podTemplate.metadata: Invalid value: may have labels and annotations, not ["name"]'),
            ("infra", "router.podTemplate", {"metadata": {"labels": {"a": 1}}}, "spec.router.podTemplate.metadata.labels.a in body must be of type string"),
            ("infra", "brokers.min", -1, "spec.brokers.min: Invalid value: -1"),
            ("infra", "brokers.max", 257, "spec.brokers.max: Invalid value: 257: spec.brokers.max in body " + less + "256"),
            ("infra", {"brokers.min": 3, "brokers.max": 2}, "spec.brokers.min: Invalid value: min 3 exceeds max 2"),
            ("infra", "brokers.replicas", 0, "spec.brokers.replicas: Invalid value: 0"),
            ("infra", "brokers.addressFullPolicy", "LOSE", 'spec.brokers.addressFullPolicy: Unsupported value: "LOSE": supported values: "PAGE", "BLOCK", "FAIL", "DROP"'),
            ("infra", "brokers.queueMemory", "0", 'spec.brokers.queueMemory: Invalid value: "0": ' + number + "0"),
            ("infra", "brokers.queueMemory", 0, "spec.brokers.queueMemory: Invalid value: 0: " + number + "0"),
            ("infra", "brokers.queueMemory", "10Mib", 'spec.brokers.queueMemory: Invalid value: "10Mib": ' + number + "10Mib"),
            ("infra", "brokers.queueMemory", "-1", 'spec.brokers.queueMemory: Invalid value: "-1": '),
            ("infra", "brokers.queueMemory", str(2 ** 63), f'spec.brokers.queueMemory: Invalid value: "{2 ** 63}": '),
            ("infra", "brokers.storage", "big", 'spec.brokers.storage: Invalid value: "big": '),
            ("infra", "brokers.storageClassName", 3, "spec.brokers.storageClassName in body must be of type string"),
            ("infra", "brokers.javaOpts", ["-Xmx1g"], "spec.brokers.javaOpts in body must be of type string"),
            ("infra", "brokers.globalMaxSize", "a lot", 'spec.brokers.globalMaxSize: Invalid value: "a lot"'),
            ("infra", "router.workerThreads", "4", "spec.router.workerThreads in body must be of type integer"),
            ("infra", "router.idleTimeout", -1, "spec.router.idleTimeout: Invalid value: -1"),
            ("infra", "router.linkCapacity", 0, "spec.router.linkCapacity: Invalid value: 0"),
            ("infra", "router.handshakeTimeout", 1.5, "spec.router.handshakeTimeout in body must be of type integer"),
            ("infra", "router.authenticationService", {"name": "a"}, "spec.router.authenticationService in body must be of type string"),
            ("infra", "namespaceSelector.matchNames", ["Upper"], 'spec.namespaceSelector.matchNames[0]: Invalid value: "Upper"'),
            ("infra", "namespaceSelector.matchLabels", ["a"], "spec.namespaceSelector.matchLabels in body must be of type object"),
            ("infra", "namespaceSelector.matchExpressions", [{"key": "a", "operator": "Has"}], 'matchExpressions[0].operator: Unsupported value: "Has"'),
            ("infra", "namespaceSelector.matchExpressions", [{"operator": "Exists"}], "matchExpressions[0].key: Required value"),
            ("infra", "namespaceSelector.matchExpressions", [{"key": "a", "operator": "In"}], "matchExpressions[0].values: Invalid value: operator In needs values for key a"),
            ("infra", "namespaceSelector.matchExpressions", [{"key": "a", "operator": "Exists", "values": ["b"]}], "operator Exists takes no values for key a")])

    def test_MS_3_1_accepted(self):
        pod = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {
            "affinity": {"podAntiAffinity": {"x": [1]}}, "tolerations": [{"key": "k", "operator": "Exists"}],
            "resources": {"limits": {"memory": "1Gi", "cpu": 2}}, "priorityClassName": "high"}}
        expressions = [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "DoesNotExist"}]
        self.accepted([
            ("infra", {}), ("infra", "router.topology", "ring"), ("infra", "brokers.replicas", 2), ("infra", "deployment", "OnDemand"),
            ("infra", "router.image", "registry/router:1"), ("infra", "router.image", {"name": "registry/router:1", "pullPolicy": "Never"}),
            ("infra", "brokers.initImage", {"name": "i"}),
            ("infra", "router.replicas", 1), ("infra", "router.replicas", 64), ("infra", "router.replicas", {"min": 64, "max": 64, "minReady": 64}),
            ("infra", "router.replicas", {"minReady": 0}), ("infra", "router.replicas", {"min": 2, "max": 3, "minReady": 1}), ("infra", "router.replicas", {"max": 64}),
            ("infra", "router.groups", [{"name": "a" * 40, "linkWeight": 1000}, {"name": "b", "linkWeight": 1}]),
            ("infra", "router.listenerPorts", {"first": 1024, "last": 1024}), ("infra", "router.listenerPorts", {"first": 65535, "last": 65535}),
            ("infra", "router.endpoints", [{"host": "r0", "address": "10.0.0.1", "port": 55671, "group": "a"}, {"host": "r1"}]),
            ("infra", "brokers.endpoints", [{"host": "b0", "address": "10.0.0.2", "port": 5672}]),
            *[("infra", f"{of}.podTemplate", template) for of in ("router", "brokers") for template in (
                pod, {}, {"spec": {}}, {"metadata": {}}, *({"spec": {key: value}} for key, value in pod["spec"].items()))],
            ("infra", {"brokers.min": 256, "brokers.max": 256}), ("infra", {"brokers.min": 0, "brokers.max": 0}), ("infra", "brokers.min", 7),
            *[("infra", "brokers.addressFullPolicy", policy) for policy in ("PAGE", "BLOCK", "FAIL", "DROP")],
            *[("infra", "brokers.queueMemory", value) for value in (1, "1", "1.5Gi", "512Mi", 2 ** 62, str(2 ** 63 - 2))],
            ("infra", {"brokers.globalMaxSize": "256MB", "brokers.javaOpts": "-Xmx1g", "brokers.storageClassName": "fast", "brokers.storage": "2Gi"}),
            *[("infra", "brokers.globalMaxSize", value) for value in (268435456, "268435456", "256Mi", "1 GB")],
            ("infra", {"router.connectionsPerRouter": 1, "router.domain": "msg.example.com", "router.authenticationService": "standard"}),
            ("infra", "namespaceSelector", {"matchNames": ["a"], "matchLabels": {"a": "b", "c": ""}, "matchExpressions": expressions})])

    def test_MS_007_min_above_max_no_router_a_policy_and_a_group_twice(self):
        self.refused([("infra", "router.replicas", {"min": 2, "max": 1}, "spec.router.replicas.min: Invalid value: 2"),
                      ("infra", "router.replicas", {"min": 0}, "spec.router.replicas.min: Invalid value: 0"),
                      ("infra", "brokers.addressFullPolicy", "NONE", 'Unsupported value: "NONE"'),
                      ("infra", "router.groups", [{"name": "a"}] * 2, "Duplicate value")])

    # 3.2: AddressSpacePlan, MessagingPlan
    def test_MS_3_2_refused(self):
        legacy = {"addressSpaceType": "standard", "messagingInfraRef": WITHOUT}
        rows = [("asplan", legacy, "resourceLimits, addressPlans and infraConfigRef are required for addressSpaceType standard"),
                ("asplan", {**legacy, "resourceLimits": {"router": 1}, "addressPlans": ["a"]}, "required for addressSpaceType standard"),
                ("asplan", {"addressSpaceType": "shared", "messagingInfraRef": WITHOUT}, "spec.messagingInfraRef: Required value"),
                ("msgplan", "namespaceSelector.matchNames", ["-a"], 'spec.namespaceSelector.matchNames[0]: Invalid value: "-a"'),
                ("msgplan", "namespaceSelector.matchExpressions", [{"key": "a", "operator": "NotIn"}], "operator NotIn needs values for key a")]
        for plan in ("asplan", "msgplan"):
            rows += [
                (plan, "messagingInfraRef", WITHOUT, "spec.messagingInfraRef: Required value"),
                (plan, "messagingInfraRef", "", 'spec.messagingInfraRef: Invalid value: ""'),
                (plan, "messagingInfraRef", 5, "spec.messagingInfraRef: Invalid value: 5"),
                (plan, "messagingInfraRef", ["a"], "spec.messagingInfraRef: Too many: 1"),
                (plan, "messagingInfraRef", True, '"spec.messagingInfraRef" must not validate the schema (not)'),
                (plan, "messagingInfraRef", {"namespace": "a"}, "spec.messagingInfraRef.name: Required value"),
                (plan, "capabilities", ["sharding"], 'spec.capabilities[0]: Unsupported value: "sharding": supported values: "transactions", "transactional"'),
                (plan, "resources.limits.linksPerConnection", -1, "spec.resources.limits.linksPerConnection: Invalid value: -1"),
                *[(plan, f"resources.{of}.{what}", -1, f"spec.resources.{of}.{what}: Invalid value: -1")
                  for of in ("requests", "limits") for what in ("addresses", "connections", "queueMemory")],
                *[(plan, f"resources.{of}.queueMemory", value, f'spec.resources.{of}.queueMemory: Invalid value: "{value}": must be a number of bytes from 0')
                  for of in ("requests", "limits") for value in ("10Mib", "-1", str(2 ** 63), "100m")],
                *[(plan, "resources", {"requests": {what: 11}, "limits": {what: 10}}, f"spec.resources.requests.{what}: Invalid value: requests.{what} 11 exceeds limits.{what} 10")
                  for what in ("addresses", "connections", "queueMemory")],
                (plan, "resources", {"requests": {"queueMemory": "1Gi"}, "limits": {"queueMemory": "1000Mi"}}, "requests.queueMemory 1Gi exceeds limits.queueMemory 1000Mi")]
        self.refused(rows)

    def test_MS_3_2_accepted(self):
        resources = {"requests": {"queueMemory": "10Mi", "addresses": 10, "connections": 1},
                     "limits": {"queueMemory": "100Mi", "addresses": 100, "connections": 10, "linksPerConnection": 2}}
        both = [("messagingInfraRef", "infra1"), ("messagingInfraRef", {"name": "infra1"}), ("messagingInfraRef", {"name": "infra1", "namespace": "enmasse-infra"}),
                ("capabilities", ["transactions", "transactional"]), ("capabilities", []), ("resources", resources), ("resources.limits", {"connections": 0}),
                ("resources", {"requests": {"queueMemory": 2 ** 20}, "limits": {"queueMemory": "1Mi"}}), ("addressPlans", ["a", "b"])]
        legacy = {"addressSpaceType": "standard", "resourceLimits": {"router": 1, "broker": 1.5, "aggregate": 2}, "addressPlans": ["a"], "infraConfigRef": "default",
                  "messagingInfraRef": WITHOUT, "displayName": "Standard", "displayOrder": 3, "shortDescription": "s", "longDescription": "l"}
        self.accepted([*((plan, *row) for plan in ("asplan", "msgplan") for row in both), ("asplan", legacy), ("asplan", "addressSpaceType", "shared"),
                       ("msgplan", "namespaceSelector", {"matchLabels": {"a": "b"}}), ("msgplan", "metadata.annotations", {"enmasse.io/default": "true"})])

    def test_MS_3_2_what_is_taken_for_granted(self):
        plan = self.tried("asplan", {"resources": {}}).json["spec"]
        self.assertEqual(plan, {"messagingInfraRef": "infra1", "addressSpaceType": "shared",
                                "resources": {"requests": {"queueMemory": 0, "addresses": 0, "connections": 0}}})
        legacy = {"addressSpaceType": "brokered", "resourceLimits": {}, "addressPlans": [], "infraConfigRef": "default"}
        self.assertEqual(self.tried("asplan", {**legacy, "messagingInfraRef": WITHOUT}).json["spec"], legacy)
        self.assertEqual(self.tried("msgplan", {}).json["spec"], {"messagingInfraRef": "infra1"})

    # 3.3: AddressSpace, MessagingTenant, MessagingProject
    def test_MS_3_3_refused(self):
        def connectors(**more):
            return {"connectors": [{"name": "c", "endpointHosts": HOSTS, **more}]}

        here = "spec.connectors[0]."
        rows = [
            ("space", "type", "private", 'spec.type: Unsupported value: "private": supported values: "shared", "standard", "brokered"'),
            *[("space", {"type": kind, "plan": WITHOUT}, f"spec.plan: Required value: plan is required for type {kind}") for kind in ("standard", "brokered")],
            ("space", "capabilities", ["sharding"], 'spec.capabilities[0]: Unsupported value: "sharding"'),
            ("space", connectors(name="--"), here + 'name: Invalid value: "--": ' + here + "name in body should match '[a-zA-Z0-9]+'"),
            ("space", connectors(name=""), here + 'name: Invalid value: ""'),
            ("space", "connectors", [{"endpointHosts": HOSTS}], here + "name: Required value"),
            ("space", "connectors", [{"name": "c", "endpointHosts": HOSTS}] * 2, 'spec.connectors[1]: Duplicate value: {"name":"c"}'),
            ("space", "connectors", [{"name": f"c{n}", "endpointHosts": HOSTS} for n in range(65)], "spec.connectors: Too many: 65: must have at most 64 items")]
        for word, path, wrap in (("space", here, connectors), ("connector", "spec.", lambda **more: more)):
            value = path + "credentials.username: Invalid value: username takes exactly one of value and valueFromSecret"
            password = {"password": {"value": "p"}}
            rows += [
                (word, wrap(endpointHosts=[]), path + "endpointHosts: Invalid value: 0: " + path + "endpointHosts in body should have at least 1 items"),
                (word, wrap(endpointHosts=[{"port": 1}]), path + "endpointHosts[0].host: Required value"),
                (word, wrap(endpointHosts=[{"host": "h", "port": 0}]), path + "endpointHosts[0].port: Invalid value: 0"),
                (word, wrap(endpointHosts=[{"host": "h", "port": "amqps"}]), path + "endpointHosts[0].port in body must be of type integer"),
                (word, wrap(role="inter-router"), path + 'role: Unsupported value: "inter-router": supported values: "normal", "route-container", "edge"'),
                (word, wrap(idleTimeout=-1), path + "idleTimeout: Invalid value: -1"),
                (word, wrap(maxFrameSize=511), path + "maxFrameSize: Invalid value: 511"),
                *[(word, wrap(tls={name: {}}), f"{path}tls.{name}: Invalid value: {name} takes exactly one of value and valueFromSecret")
                  for name in ("caCert", "clientCert", "clientKey")],
                (word, wrap(tls={"caCert": "text"}), path + "tls.caCert in body must be of type object"),
                (word, wrap(credentials={"username": {"value": "u"}}), path + "credentials.password: Required value"),
                (word, wrap(credentials=password), path + "credentials.username: Required value"),
                (word, wrap(credentials={"username": {}, **password}), value),
                (word, wrap(credentials={"username": {"value": "u", "valueFromSecret": {"name": "s"}}, **password}), value),
                (word, wrap(credentials={"username": {"valueFromSecret": {"key": "k"}}, **password}), path + "credentials.username.valueFromSecret.name: Required value"),
                (word, wrap(addresses=[{"name": "a"}]), path + "addresses[0].pattern: Required value"),
                (word, wrap(addresses=[{"pattern": "#"}]), path + "addresses[0].name: Required value")]
        for word in ("tenant", "project"):
            rows += [(word, "metadata.name", "mine", "metadata.name must be default, not mine"),
                     (word, "messagingPlanRef", {"namespace": "a"}, "spec.messagingPlanRef.name: Required value"),
                     (word, "messagingInfrastructureRef", {}, "spec.messagingInfrastructureRef.name: Required value"),
                     (word, "capabilities", ["sharding"], 'spec.capabilities[0]: Unsupported value: "sharding"')]
        self.refused(rows)

    def test_MS_3_3_accepted(self):
        secret = {"valueFromSecret": {"name": "s", "key": "k"}}
        connector = {"endpointHosts": [{"host": "a", "port": 5671}, {"host": "b"}], "role": "edge", "idleTimeout": 16, "maxFrameSize": 16384,
                     "tls": {"caCert": secret, "clientCert": {"value": "c"}, "clientKey": secret}, "credentials": {"username": {"value": "u"}, "password": secret},
                     "addresses": [{"name": "all", "pattern": "a/*/#"}]}
        endpoint = {"name": "e", "service": "messaging", "cert": {"provider": "certBundle", "secretName": "s", "tlsCert": "c", "tlsKey": "k"},
                    "exports": [{"kind": kind, "name": "x"} for kind in ("ConfigMap", "Secret", "Service")],
                    "expose": {"type": "route", "routeHost": "h", "routeServicePort": "amqps", "routeTlsTermination": "passthrough", "annotations": {"a": "b"}}}
        balancer = {"type": "loadbalancer", "loadBalancerPorts": ["amqps"], "loadBalancerSourceRanges": ["10.0.0.0/8"]}
        spaces = [{"type": "shared"}, {"plan": WITHOUT}, {"capabilities": ["transactional"]}, {"authenticationService": {"name": "another"}},
                  {"endpoints": [endpoint, {"service": "mqtt"}, {"service": "console", "expose": balancer}]}, {"connectors": [{"name": "c1", **connector}]},
                  {"connectors": [{"name": "a/b", "endpointHosts": HOSTS, "addresses": [{"name": "a", "pattern": "a//b"}]}]},
                  {"connectors": [{"name": f"c{n}", "endpointHosts": [{"host": "localhost"}]} for n in range(64)]},
                  {"networkPolicy": {"ingress": [{"from": [{"podSelector": {}}]}], "egress": [{"to": []}]}}]
        tenants = [{}, {"messagingPlanRef": {"name": "nowhere"}}, {"messagingInfrastructureRef": {"name": "i", "namespace": "n"}, "capabilities": ["transactions"]},
                   {"authenticationService": {"name": "standard"}}]
        self.accepted([*(("space", spec) for spec in spaces), *((word, spec) for word in ("tenant", "project") for spec in tenants), ("connector", connector),
                       *(("connector", {"endpointHosts": [{"host": host}]}) for host in ("localhost", "169.254.0.1"))])

    def test_MS_002_spaces_of_other_types_are_stored_as_they_came(self):
        """Also what has the words of these types alone."""
        specs = [("space", {"type": kind, "plan": "p", "endpoints": [{"name": "m", "service": "mqtt", "cert": {"provider": "wildcard"}}],
                            "authenticationService": {"name": "n", "type": "standard", "overrides": {"host": "h", "port": 1, "realm": "r"}},
                            "connectors": [{"name": "c", "endpointHosts": HOSTS}]}) for kind in ("standard", "brokered")]
        redelivery = {"maximumDeliveryAttempts": -1, "redeliveryDelay": 1, "redeliveryDelayMultiplier": 1.5, "maximumDeliveryDelay": 9}
        times = {"minimum": 1, "maximum": 2}
        specs += [("plan", {"addressType": kind, "resources": {"router": 0.1, "broker": 0.2}, "partitions": 2, "displayName": "d", "displayOrder": 1, "shortDescription": "s",
                            "longDescription": "l", "messageTtl": times, "messageRedelivery": redelivery}) for kind in ("queue", "deadletter")]
        specs += [("address", {"address": "a", "type": "deadletter", "plan": "p", "deadletter": "d", "expiry": "e", "messageTtl": times, "messageRedelivery": redelivery,
                               "forwarders": [{"name": "f", "remoteAddress": "c/a", "direction": "out", "priority": 3}]})]
        for word, spec in specs:
            with self.subTest(word, kind=spec.get("type") or spec.get("addressType")):
                answer = self.tried(word, spec)
                self.assertEqual((answer.status, answer.headers.get("Warning")), (201, None), answer)
                self.assertEqual(answer.json["spec"], spec)
                self.assertNotIn("finalizers", answer.json["metadata"])

    def test_MS_025_a_space_without_a_type_is_shared(self):
        self.assertEqual(self.tried("space", {}).json["spec"], {"plan": "small", "type": "shared"})

    # 3.4: AddressPlan, MessagingAddressPlan, Address, MessagingAddress
    def test_MS_3_4_refused(self):
        types = ': Unsupported value: "DeadLetter": supported values: "anycast", "multicast", "queue", "topic", "subscription", "deadLetter"'
        one = "exactly one of anycast, multicast, queue, topic, subscription and deadLetter is required, not "
        rows = [
            ("plan", "addressType", "DeadLetter", "spec.addressType" + types), ("plan", "addressType", WITHOUT, "spec.addressType: Required value"),
            ("msgaplan", "addressType", "DeadLetter", "spec.addressType" + types), ("msgaplan", "addressType", "deadletter", 'spec.addressType: Unsupported value: "deadletter"'),
            ("address", "type", "DeadLetter", "spec.type" + types), ("address", "type", WITHOUT, "spec.type: Required value"),
            ("address", "address", WITHOUT, "spec.address: Required value"),
            ("address", {"type": "subscription"}, "spec.topic: Required value: topic is required for type subscription"),
            ("address", {"type": "subscription", "topic": "t", "subscription": {"maxConsumers": 0}}, "spec.subscription.maxConsumers: Invalid value: 0"),
            ("plan", "allowOverrides", "yes", "spec.allowOverrides in body must be of type boolean"),
            ("address", "forwarders", [{"name": "f", "remoteAddress": "c/a", "direction": "both"}], 'spec.forwarders[0].direction: Unsupported value: "both"'),
            ("address", "forwarders", [{"name": "f", "direction": "in"}], "spec.forwarders[0].remoteAddress: Required value"),
            ("address", "messageTtl.minimum", "1s", "spec.messageTtl.minimum in body must be of type integer"),
            ("msga", "queue", WITHOUT, "spec: Invalid value: " + one + "0"), ("msga", "topic", {}, "spec: Invalid value: " + one + "2"),
            ("msga", {"queue": WITHOUT, "subscription": {}}, "spec.subscription.topic: Required value"),
            ("msga", {"queue": WITHOUT, "subscription": {"topic": "t", "maxConsumers": 0}}, "spec.subscription.maxConsumers: Invalid value: 0")]
        rows += [(word, "address", text, f"spec.address: Invalid value: {json.dumps(text)}") for word in ("address", "msga") for text in ("a b", "", " ", "a\n")]
        for word in ("plan", "msgaplan", "address", "msga"):
            rows += [
                (word, "queue.partitions", {"min": 3, "max": 2}, "spec.queue.partitions.min: Invalid value: min 3 exceeds max 2"),
                (word, "queue.partitions", {"min": 0}, "spec.queue.partitions.min: Invalid value: 0"),
                (word, "queue.partitions", {"max": 17}, "spec.queue.partitions.max: Invalid value: 17"),
                *[(word, "queue.ttl", text, f'spec.queue.ttl: Invalid value: "{text}": must be numbers with units, for example 60s or 1h30m, not {text}'.rstrip())
                  for text in ("60", "-1s", "", "1 s", "1d", "1h 5m", "s", "0")],
                *[(word, "queue.ttl", text, f'spec.queue.ttl: Invalid value: "{text}": must be at least 1ms and less than 2^63 ns') for text in ("999us", "0s", "0.9ms")],
                *[(word, "queue.ttl", text, ["spec.queue.ttl: Invalid value: ", "must be at least 1ms and less than 2^63 ns"])
                  for text in (f"{2 ** 63}ns", "2562047h47m17s")],
                *[(word, "resources", {"requests": {what: 11}, "limits": {what: 10}}, f"spec.resources.requests.{what}: Invalid value: requests.{what} 11 exceeds limits.{what} 10")
                  for what in ("queueDepth", "queueMemory")],
                (word, "resources.limits.queueDepth", -1, "spec.resources.limits.queueDepth: Invalid value: -1"),
                (word, "resources.requests.queueMemory", "1GiB", 'spec.resources.requests.queueMemory: Invalid value: "1GiB": must be a number of bytes')]
        self.refused(rows)

    def test_MS_3_4_accepted(self):
        """What the worker tells in a condition is stored all the same."""
        names = ["#", "*", "a//b", "a.b", "a/b", "$management", "/a", "a" * 254, "a\u0001b", "ä"]
        queue = {"partitions": {"min": 16, "max": 16}, "ttl": "1h30m", "expiryQueue": "nowhere", "deadLetterQueue": "nowhere"}
        resources = {"requests": {"queueDepth": 3, "queueMemory": "1Mi"}, "limits": {"queueDepth": 3, "queueMemory": 2 ** 20}}
        kinds = ("anycast", "multicast", "queue", "topic", "deadLetter")
        own = [{kind: {}} for kind in ("anycast", "multicast", "topic", "deadLetter")] + [{"subscription": {"topic": "t", "maxConsumers": 3}}]
        self.accepted([
            *((word, "address", name) for word in ("address", "msga") for name in names),
            *((word, "queue", queue) for word in ("plan", "msgaplan", "address")), ("msga", "queue", {"ttl": "60s", "expiryAddress": "e", "deadLetterAddress": "d"}),
            *((word, "resources", resources) for word in ("plan", "msgaplan", "address", "msga")),
            *((word, "queue.ttl", ttl) for word in ("plan", "address") for ttl in ("1ms", "60s", "1.5h", "1500us", f"{2 ** 63 - 1}ns")),
            *((word, "addressType", kind) for word in ("plan", "msgaplan") for kind in (*kinds, "subscription")), *(("address", "type", kind) for kind in kinds),
            *((word, "allowOverrides", allowed) for word in ("plan", "msgaplan") for allowed in (True, False)),
            ("plan", {"addressType": "topic", "queue.partitions": {"min": 1, "max": 2}}), ("address", {"type": "subscription", "topic": "missing"}),
            ("address", {"type": "topic", "queue.partitions": {"max": 2}}), ("address", "plan", "missing"), ("address", "messageTtl", {"minimum": 1, "maximum": 2}),
            ("address", {"type": "anycast", "forwarders": [{"name": "f", "remoteAddress": "no-connector", "direction": "in"}]}),
            *(("msga", {"queue": WITHOUT, **spec}) for spec in own), *(("address", "metadata.name", name) for name in ("alone", "myspace.a", "a.b.c"))])

    def test_MS_3_4_what_is_taken_for_granted(self):
        for word, changes, spec in (
                ("plan", {"queue": {"partitions": {}}}, {"addressType": "queue", "queue": {"partitions": {"min": 1, "max": 1}}}),
                ("msgaplan", {"queue": {"partitions": {}}}, {"addressType": "queue", "allowOverrides": False, "queue": {"partitions": {"min": 1, "max": 1}}}),
                ("address", {"queue": {"partitions": {}}}, {"address": "a", "type": "queue", "queue": {"partitions": {}}}),
                ("address", {"type": "subscription", "topic": "t", "subscription": {}}, {"address": "a", "type": "subscription", "topic": "t", "subscription": {"maxConsumers": 1}}),
                ("msga", {"queue": WITHOUT, "subscription": {"topic": "t"}}, {"subscription": {"topic": "t", "maxConsumers": 1}}),
                ("endpoint", {}, {"protocols": ["AMQP"], "cluster": {}, "dedicated": False}),
                ("connector", {}, {"endpointHosts": HOSTS, "role": "route-container"})):
            self.assertEqual(self.tried(word, changes).json["spec"], spec)

    def test_MS_3_4_an_address_never_changes(self):
        for word, name in (("address", "fixed"), ("msga", "fixed")):
            kind, whole = made_of(word, {"address": "a"}, name)
            self.one.must("POST", place(kind), whole)
            for change, words in (({"address": "b"}, 'spec.address: Invalid value: "b": is immutable: a cannot become b'),
                                  *(({"address": None}, "spec.address: Invalid value") for _ in range(word == "msga"))):
                answer = self.one.request("PATCH", f"{place(kind)}/{name}", json.dumps({"spec": change}), headers=MERGE)
                self.assertEqual(answer.status, 422, answer)
                self.assertIn(words, answer.json["message"])
            self.one.must("PATCH", f"{place(kind)}/{name}", json.dumps({"spec": {"plan": "another"}}), headers=MERGE)

    # 3.5: MessagingEndpoint; connectors are above
    def test_MS_3_5_refused(self):
        one, both = "spec: Invalid value: exactly one of cluster, ingress, route, nodePort and loadBalancer is required, not ", "(or its other spelling ports, but not both)"
        key, at = {"value": "k"}, "spec.tls.external."
        self.refused([
            ("endpoint", "protocols", [], "spec.protocols in body should have at least 1 items"), ("endpoint", "protocols", ["MQTT"], 'spec.protocols[0]: Unsupported value: "MQTT"'),
            ("endpoint", "protocols", WITHOUT, "spec.protocols: Required value: protocols is required " + both), ("endpoint", "ports", ["amqp"], both),
            ("endpoint", {"protocols": WITHOUT, "ports": ["AMQP"]}, 'spec.ports[0]: Unsupported value: "AMQP"'), ("endpoint", {"protocols": WITHOUT, "ports": []}, "spec.ports in body"),
            ("endpoint", "cluster", WITHOUT, one + "0"), *[("endpoint", other, {}, one + "2") for other in ("ingress", "route", "nodePort", "loadBalancer")],
            ("endpoint", {"cluster": WITHOUT, "route": {"tlsTermination": "none"}}, 'spec.route.tlsTermination: Unsupported value: "none"'),
            ("endpoint", {"cluster": WITHOUT, "host": "a", "route": {"host": "b"}}, "spec.route.host: Invalid value: route.host b differs from host a"),
            ("endpoint", "host", "", 'spec.host: Invalid value: ""'), ("endpoint", "dedicated", "yes", "spec.dedicated in body must be of type boolean"),
            ("endpoint", "annotations", {"a": 1}, "spec.annotations.a in body must be of type string"),
            ("endpoint", "tls", {"selfsigned": {}, "openshift": {}}, "spec.tls: Invalid value: at most one of selfsigned, openshift and external is allowed, not 2"),
            ("endpoint", "tls.external", {"key": key}, at + "certificate: Required value"), ("endpoint", "tls.external", {"certificate": key}, at + "key: Required value"),
            ("endpoint", "tls.external", {"certificate": {}, "key": key}, at + "certificate: Invalid value: certificate takes exactly one of value and valueFromSecret"),
            ("endpoint", {"tls": {"selfsigned": {}}, "cert": {"selfsigned": {}}}, "spec.cert: Invalid value: cert is another spelling of tls"),
            ("endpoint", "cert", {"secret": {}}, "spec.cert.secret.name: Required value")])

    def test_MS_3_5_accepted(self):
        ways = [{"cluster": {}}, {"ingress": {}}, {"route": {"tlsTermination": "edge"}}, {"nodePort": {}}, {"loadBalancer": {"annotations": {"a": "b"}}}, {"loadbalancer": {}},
                {"route": {"host": "h"}}, {"route": {"host": "h"}, "host": "h"}]
        external = {"certificate": {"valueFromSecret": {"name": "s", "key": "tls.crt"}}, "key": {"value": "k"}}
        self.accepted([
            *(("endpoint", {"cluster": WITHOUT, **way}) for way in ways), ("endpoint", "protocols", ["AMQP", "AMQPS", "AMQP-WS", "AMQP-WSS"]),
            ("endpoint", {"protocols": WITHOUT, "ports": ["amqp", "amqps", "amqpws", "amqpwss"]}), ("endpoint", "dedicated", True), ("endpoint", "annotations", {"a": "b"}),
            *(("endpoint", "tls", {"protocols": "TLSv1.3", "ciphers": "HIGH", **by}) for by in ({}, {"selfsigned": {}}, {"openshift": {}}, {"external": external})),
            *(("endpoint", "cert", by) for by in ({"selfsigned": {}}, {"secret": {"name": "s"}}, {"letsencrypt": {"email": "a@b"}})),
            ("endpoint", "protocols", ["AMQPS"]), ("endpoint", {"cluster": WITHOUT, "ingress": {}, "protocols": ["AMQP", "AMQPS"]})])

    def test_MS_092_the_objects_of_the_design(self):
        """Without their comments; what they leave open is null."""
        pod = "{spec: {affinity: , tolerations: , resources: , priorityClassName: }}"
        objects = [
            ("MessagingInfra", "{router: {image: , replicas: {min: 2, max: 3, minReady: 1}, topology: mesh, groups: [{name: grp1, linkWeight: 30}, {name: grp2, linkWeight: 60}], "
             f"linkWeight: 100, podTemplate: {pod}}}, brokers: {{image: , min: 1, max: 5, replicas: 1, addressFullPolicy: BLOCK, storageClassName: , "
             f"podTemplate: {{metadata: , {pod[1:]}}}}}"),
            ("AddressSpacePlan", "{messagingInfraRef: shared1, capabilities: [transactions], resources: {requests: {queueMemory: 10Mi, addresses: 10, connections: 1}, "
             "limits: {queueMemory: 100Mi, addresses: 100, connections: 10, linksPerConnection: 2}}}"),
            ("AddressSpace", "{type: shared, capabilities: [transactions]}"),
            ("AddressPlan", "{addressType: queue, resources: {requests: {queueDepth: 3}, limits: {queueDepth: 10}}, allowOverrides: true, "
             "queue: {partitions: {min: 1, max: 2}, ttl: 60s, expiryQueue: exp1, deadLetterQueue: dlq1}}"),
            ("Address", "{address: addr1, type: queue, plan: small-queue, queue: {ttl: 1200s}}"),
            ("MessagingEndpoint", "{cert: {selfsigned: {}, secret: {name: endpointcert}, letsencrypt: }, ports: [amqp, amqps, amqpws, amqpwss], "
             "route: {host: example.com}, loadbalancer: {annotations: {}}}")]
        for kind, spec in objects:
            with self.subTest(kind):
                whole = f"apiVersion: {KINDS[kind][0]}\nkind: {kind}\nmetadata: {{name: seed}}\nspec: {spec}\n"
                answer = self.one.request("POST", place(kind) + "?dryRun=All&fieldValidation=Strict", whole.encode(), headers=YAML)
                self.assertEqual(answer.status, 201, answer.body[:2000])

    # All kinds
    def test_MS_3_1_what_is_taken_for_granted(self):
        self.assertEqual(self.tried("infra", {}).json["spec"], {
            "deployment": "Immediate", "router": {
                "replicas": {"min": 1}, "topology": "mesh", "groups": [{"name": "default"}], "linkWeight": 1, "listenerPorts": {"first": 40000, "last": 40999},
                "workerThreads": 4, "idleTimeout": 16, "linkCapacity": 100, "handshakeTimeout": 20},
            "brokers": {"min": 0, "replicas": 1, "addressFullPolicy": "FAIL"}})

    def test_MS_3_status(self):
        """A place of its own, whose conditions have their types as keys."""
        ready = {"type": "Ready", "status": "False", "reason": "Why", "message": "not yet", "observedGeneration": 1, "lastTransitionTime": "2024-01-01T00:00:00Z"}
        for word in LEAST:
            kind, whole = made_of(word, {"metadata.namespace": "default"}, "default")
            with self.subTest(word):
                self.one.must("POST", place(kind), {**whole, "status": {"phase": "Active"}})
                path = place(kind) + "/default"
                self.addCleanup(self.one.request, "DELETE", path)
                self.assertNotIn("status", self.one.must("GET", path))
                status = {"phase": "Pending", "observedGeneration": 1, "conditions": [ready]}
                changed = self.one.must("PATCH", path + "/status", json.dumps({"status": status, "spec": {"no": 1}}), headers=MERGE)
                self.assertEqual((changed["status"], changed["metadata"]["generation"]), (status, 1))
                apply = {"apiVersion": whole["apiVersion"], "kind": kind, "status": {"conditions": [{"type": "Other", "status": "True"}]}}
                found = self.one.must("PATCH", path + "/status?fieldManager=other", json.dumps(apply), headers={"Content-Type": "application/apply-patch+yaml"})
                self.assertEqual([one["type"] for one in found["status"]["conditions"]], ["Ready", "Other"])
                twice = self.one.request("PATCH", path + "/status", json.dumps({"status": {"conditions": [ready, ready]}}), headers=MERGE)
                self.assertEqual(twice.status, 422, twice)
                self.assertIn('status.conditions[1]: Duplicate value: {"type":"Ready"}', twice.json["message"])

    def test_MS_3_1_status_has_one_row_for_each_component(self):
        kind, whole = made_of("infra", {}, "rows")
        self.one.must("POST", place(kind), whole)
        status = {"phase": "Active", "message": "m", "capacity": {"queueMemory": "1Gi", "addresses": 9, "connections": 8}, "requested": {"queueMemory": 5},
                  "routers": [{"host": "r", "group": "g", "connected": True, "synchronized": False, "lastSync": "2024-01-01T00:00:00Z", "entities": 4, "pendingEntities": 1,
                               "lastError": "e"}],
                  "brokers": [{"host": "b", "connected": True, "synchronized": True, "queues": 3, "queueMemoryRequested": "1Mi", "settingsClasses": 2}]}
        path = f"{place(kind)}/rows/status"
        self.assertEqual(self.one.must("PATCH", path, json.dumps({"status": status}), headers=MERGE)["status"], status)
        for bad, words in (({"phase": "Done"}, 'status.phase: Unsupported value: "Done"'), ({"routers": [{"host": "r"}] * 2}, 'Duplicate value: {"host":"r"}')):
            answer = self.one.request("PATCH", path, json.dumps({"status": bad}), headers=MERGE)
            self.assertEqual((answer.status, words in answer.json["message"]), (422, True), answer)

    def test_MS_3_discovery_and_every_field_is_described(self):
        found = {}
        for version in {version for version, _ in KINDS.values()}:
            for one in self.one.must("GET", f"/apis/{version}")["resources"]:
                found[one["name"]] = (version, one)
        for kind, (version, plural) in KINDS.items():
            self.assertEqual((found[plural][0], found[plural][1]["kind"], found[plural][1]["categories"], found[plural][1]["namespaced"]), (version, kind, ["enmasse"], True))
            self.assertTrue(found[plural][1]["shortNames"])
            self.assertIn(plural + "/status", found)
        self.assertEqual(found["messaginginfras"][1]["shortNames"], ["msgi", "msginfra"])
        short = [name for _, one in found.values() for name in one.get("shortNames", [])]
        self.assertEqual(len(short), len(set(short)))

        def undescribed(path, schema):
            for name, inner in schema.get("properties", {}).items():
                if not inner.get("description"):
                    yield f"{path}.{name}"
                yield from undescribed(f"{path}.{name}", inner)
            for part in ("items", "additionalProperties"):
                yield from undescribed(path, schema[part]) if isinstance(schema.get(part), dict) else ()

        schemas = self.prov.must("GET", SCHEMAS)["items"]
        self.assertEqual(len(schemas), len(KINDS))
        self.assertEqual([text for one in schemas for text in undescribed(one["spec"]["names"]["kind"], one["spec"]["versions"][0]["schema"])], [])
        for one in schemas:
            columns = {column["name"]: column.get("priority", 0) for column in one["spec"]["versions"][0]["additionalPrinterColumns"]}
            self.assertEqual((columns["Phase"], columns["Message"], columns["Age"]), (0, 1, 0), one["metadata"]["name"])

    def test_MS_3_the_examples_and_what_kubectl_shows(self):
        server = "/clusters/root:mk-one"
        for name in ("shared.yaml", "tenant.yaml"):
            for document in documents(CONFIGS / "examples" / name):
                self.one.must("POST", collection(document)[1] + "?fieldValidation=Strict", document.encode(), headers=YAML)
        self.assertEqual(sum(one["metadata"]["name"].startswith("myspace.") for one in self.one.must("GET", place("Address"))["items"]), 10)
        status = {"isReady": True, "phase": "Active", "messages": ["all is well", "more"]}
        self.one.must("PATCH", place("Address") + "/myspace.addr1/status", json.dumps({"status": status}), headers=MERGE)
        self.one.must("PATCH", place("MessagingInfra") + "/infra1/status", json.dumps({"status": {
            "phase": "Configuring", "message": "2 of 4", "conditions": [{"type": "Synchronized", "status": "True"}, {"type": "Ready", "status": "False"}]}}), headers=MERGE)

        def shown(*what):
            lines = [re.split(r" {2,}", line.strip()) for line in self.installation.kubectl("get", *what, server=server).splitlines()]
            return [lines[0], *(line[:-1] for line in lines[1:])]  # without the age

        self.assertEqual(shown("addr", "myspace.addr1"), [["NAME", "ADDRESS", "TYPE", "READY", "PHASE", "AGE"], ["myspace.addr1", "addr1", "queue", "true", "Active"]])
        self.assertEqual(shown("address", "myspace.addr1", "-o", "wide"), [["NAME", "ADDRESS", "TYPE", "PLAN", "READY", "PHASE", "MESSAGE", "AGE"],
                                                                           ["myspace.addr1", "addr1", "queue", "small-queue", "true", "Active", "all is well"]])
        self.assertEqual(shown("msgi", "infra1"), [["NAME", "READY", "PHASE", "AGE"], ["infra1", "False", "Configuring"]])
        self.assertEqual(shown("msgi", "infra1", "-o", "wide"), [["NAME", "DEPLOYMENT", "TOPOLOGY", "READY", "PHASE", "MESSAGE", "AGE"],
                                                                 ["infra1", "Immediate", "mesh", "False", "Configuring", "2 of 4"]])
        everything = self.installation.kubectl("get", "enmasse", "--all-namespaces", "-o", "name", server=server).split()
        self.assertLessEqual({"messaginginfra.admin.enmasse.io/infra1", "addressspace.enmasse.io/myspace", "address.enmasse.io/myspace.readers",
                              "messagingendpoint.enmasse.io/inside", "messagingtenant.enmasse.io/default", "messagingaddress.enmasse.io/lost"}, set(everything))
        told = [("messaginginfra.spec.router.podTemplate.spec.affinity", "as in a PodSpec")]
        if kit.kubectl_version(kit.needs_kubectl()) < (1, 27):
            told = []  # asks OpenAPI v2, which has nothing below what keeps unknown fields
        for field, words in (*told, ("messaginginfra.spec.router.replicas", "0 <= minReady <= min <= max <= 64"),
                             ("addressspaceplan.spec.messagingInfraRef", "its name, when it stands in the namespace of the plan"), ("address.spec.queue.ttl", "at least 1ms"),
                             ("messagingendpoint.spec.route.tlsTermination", "Where TLS ends"), ("messagingproject", "There is one in a namespace")):
            self.assertIn(words, " ".join(self.installation.kubectl("explain", field, server=server).split()), field)

    def test_MS_3_the_worker_sees_what_is_bound_and_claimed(self):
        """rbac.yaml: through the virtual workspace of the export, as a member of the group of workers, and nobody else."""
        kind, whole = made_of("connector", {}, "seen")
        self.one.must("POST", place(kind), whole)
        lc = self.prov.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        path = f"/services/apiexport/{lc}/messaging/clusters/*"
        worker = self.installation.user_client("mk-worker", ["messaging-workers"], path=path)

        def names(resource):
            answer = worker.get(resource)
            assert answer.status == 200, answer
            return [one["metadata"]["name"] for one in answer.json["items"]]

        kit.eventually(lambda: "seen" in names(f"/apis/{V1BETA2}/messagingconnectors"))
        kit.eventually(lambda: "default" in names("/api/v1/namespaces"))
        names("/api/v1/secrets"), names("/api/v1/configmaps")  # pylint: disable=expression-not-assigned
        consumer = self.one.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        there = self.installation.user_client("mk-worker", ["messaging-workers"], path=path.replace("*", consumer))
        event = {"metadata": {"name": "told", "namespace": "default"}, "type": "Normal", "reason": "Told", "message": "m",
                 "involvedObject": {"apiVersion": V1BETA2, "kind": kind, "name": "seen", "namespace": "default"}}
        there.must("POST", "/api/v1/namespaces/default/events", event)
        for refused in ("/api/v1/events", "/api/v1/serviceaccounts", RBAC + "/clusterroles"):
            self.assertIn(there.get(refused).status, (403, 404), refused)
        namespace = there.request("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})
        self.assertEqual(namespace.status, 403, namespace)
        self.assertEqual(self.installation.user_client("mk-nobody", path=path).get(f"/apis/{V1BETA2}/messagingconnectors").status, 403)


if __name__ == "__main__":
    unittest.main()
