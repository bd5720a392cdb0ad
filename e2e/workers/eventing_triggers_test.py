"""Triggers of Brokers in Kafka: the worker makes their ConsumerGroups and tells them what became of these (docs/spec/eventing.md). Whoever runs Brokers
is this test."""
import subprocess
import time
import unittest

import kit
import rdkafka
from dispatchers import MockKafka, Sink
from eventing import (BROKERS, EVENTS, GROUPS, MERGE, TRIGGERS, Installed, Kubelet, conditions, group, make_broker, placements, says, say_of_broker,
                      trigger, until)  # fmt: skip

POOL = "kafka-broker-dispatcher"
PLACEABLE = "kafka.eventing.knative.dev/scheduler.placeable."
REPLICAS, ORDER = "kafka.eventing.knative.dev/replicas", "kafka.eventing.knative.dev/delivery.order"
TOPICS = ("events:6:3", "late:3:3", "two:2:3", "same:2:3", "kept:3:3")


class Triggers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = MockKafka(*TOPICS).start_for(cls)
        cls.installation = Installed().start_for(cls)
        cls.shop = cls.installation.shop()
        cls.installation.make_pool(2, POOL)
        cls.kubelet = Kubelet(cls.installation).start_for(cls)
        kit.eventually(lambda: all(cls.kubelet.status(number, POOL) for number in range(2)), 90, "two dispatchers run")
        cls.producer = rdkafka.Producer(cls.kafka.bootstrap)
        cls.addClassCleanup(cls.producer.close)

    def setUp(self):
        self.sink = Sink()
        self.addCleanup(self.sink.close)

    def broker(self, name, topic=None, client=None, **more):
        client = client or self.shop
        make_broker(client, name, topic, self.kafka.bootstrap, **more)
        self.addCleanup(client.request, "DELETE", f"{BROKERS}/{name}")

    def make(self, name, broker, client=None, **more):
        client = client or self.shop
        made = client.must("POST", TRIGGERS, trigger(name, broker, self.sink.url + "/" + more.pop("path", ""), **more))
        self.addCleanup(self.drop, name, client)
        return made["metadata"]["uid"]

    def drop(self, name, client):
        client.request("DELETE", f"{TRIGGERS}/{name}")
        kit.eventually(lambda: client.get(f"{TRIGGERS}/{name}").status == 404, 60, f"{name} is gone")

    def until(self, name, kind, what, deadline=60):
        return until(self.shop, name, kind, what, deadline, TRIGGERS)

    def get(self, name):
        return self.shop.must("GET", f"{TRIGGERS}/{name}")

    def patch(self, name, body):
        return self.shop.must("PATCH", f"{TRIGGERS}/{name}", body, headers=MERGE)

    def produce(self, topic, count, partitions, kind="order"):
        for number in range(count):
            self.producer.send(topic, b"%d" % number, partition=number % partitions, headers=[
                ("ce_specversion", b"1.0"), ("ce_id", b"%d" % number), ("ce_source", b"/e2e"), ("ce_type", kind.encode())])  # fmt: skip
        self.producer.flush()

    def after_a_turn(self, change):
        """The controller has looked at it again."""
        turns = self.installation.metric("controller_runtime_reconcile_total", controller="trigger")
        change()
        kit.eventually(lambda: self.installation.metric("controller_runtime_reconcile_total", controller="trigger") > turns, 30, "a turn")

    def test_1_KN_T060_KN_T023_KN_T024_KN_T067_KN_T068_the_life_of_a_trigger(self):
        uid = self.make("orders", "main", annotations={REPLICAS: "4"}, filter={"attributes": {"type": "order"}})
        one = self.until("orders", "BrokerReady", "False/BrokerDoesNotExist")
        self.assertEqual(says(one, "Ready"), "False/BrokerDoesNotExist")
        self.assertIn('"main"', conditions(one)["Ready"]["message"])
        self.assertNotIn("finalizers", one["metadata"])
        self.broker("main")
        self.until("orders", "Ready", "False/BrokerNotReady")
        say_of_broker(self.shop, "main", "True")
        self.until("orders", "Ready", "False/BrokerNotConfigured")
        self.assertEqual(self.shop.get(f"{GROUPS}/{uid}").status, 404)
        before = self.installation.writes()
        say_of_broker(self.shop, "main", "True", {"default.topic": "events", "bootstrap.servers": self.kafka.bootstrap})
        one = self.until("orders", "Ready", "True/Ready")
        # Finalizer, id, group, Ready; of the group, which has its finalizer, placement and Ready; Consumers, contracts and annotations of two pods.
        # And one from before, whose answer is counted when others have seen it.
        self.assertLessEqual(self.installation.writes() - before, 13)
        self.assertEqual({key.removeprefix(PLACEABLE): value for key, value in one["status"]["annotations"].items()}, {
            "group.id": "knative-trigger-default-orders", "MaxAllowedVReplicas": "6", "Placements.0.PodName": f"{POOL}-0", "Placements.0.VReplicas": "2",
            "Placements.1.PodName": f"{POOL}-1", "Placements.1.VReplicas": "2"})  # fmt: skip
        self.assertEqual((one["status"]["subscriberUri"], one["status"]["observedGeneration"]), (self.sink.url + "/", 1))
        self.assertEqual([says(one, kind).partition("/")[0] for kind in ("BrokerReady", "SubscriberResolved", "DependencyReady", "SubscriptionReady")], ["True"] * 4)
        self.assertNotIn("DeadLetterSinkResolved", conditions(one))
        made = self.shop.must("GET", f"{GROUPS}/{uid}")
        self.assertEqual((made["spec"]["replicas"], placements(made)), (4, {"0": 2, "1": 2}))
        self.assertEqual(made["spec"]["template"]["spec"]["topics"], ["events"])
        kit.eventually(lambda: sum(members for members, _ in self.kubelet.members(made["metadata"]["uid"], 2, POOL)) == 4, 60, "four members")
        self.produce("events", 60, 6)
        self.produce("events", 12, 6, "other")
        kit.eventually(lambda: len(set(self.sink.bodies())) == 60, 60, "those of its type")
        self.assertEqual({event["headers"]["ce-type"] for event in self.sink.at("/")}, {"order"})
        # KN-T068: what means nothing is written nowhere.
        writes = self.installation.writes()
        self.after_a_turn(lambda: self.patch("orders", {"metadata": {"labels": {"a": "b"}}}))
        self.assertEqual(self.installation.writes(), writes)
        # KN-T024: a wish that cannot be read names its key, and changes nothing; what else is changed does.
        for bad in ("abc", "-1", "2147483648"):
            self.patch("orders", {"metadata": {"annotations": {REPLICAS: bad}}})
            one = self.until("orders", "SubscriptionReady", "False/InvalidReplicas")
            self.assertIn(REPLICAS, conditions(one)["Ready"]["message"])
            self.assertEqual(one["status"]["annotations"][PLACEABLE + "Placements.1.VReplicas"], "2")
            self.assertEqual(placements(self.shop.must("GET", f"{GROUPS}/{uid}")), {"0": 2, "1": 2})
            self.patch("orders", {"metadata": {"annotations": {REPLICAS: "4"}}})
            self.until("orders", "Ready", "True/Ready")
        self.patch("orders", {"metadata": {"annotations": {ORDER: "any"}}})
        self.assertIn(ORDER, conditions(self.until("orders", "Ready", "False/InvalidDeliveryOrder"))["Ready"]["message"])
        # KN-T067: another template, the same group; fewer consumers leave no index.
        self.patch("orders", {"metadata": {"annotations": {ORDER: "ordered", REPLICAS: "1"}}, "spec": {
            "subscriber": {"uri": self.sink.url + "/new"}, "delivery": {"deadLetterSink": {"uri": self.sink.url + "/dead"}}}})  # fmt: skip

        def changed():
            status = self.get("orders")["status"]
            assert says(self.get("orders"), "Ready") == "True/Ready" and status["subscriberUri"].endswith("/new"), status
            assert status["annotations"] == {"group.id": "knative-trigger-default-orders", PLACEABLE + "MaxAllowedVReplicas": "6",
                                             PLACEABLE + "Placements.0.PodName": f"{POOL}-0", PLACEABLE + "Placements.0.VReplicas": "1"}, status  # fmt: skip
            return status

        status = kit.eventually(changed, 60, "it is as it was changed")
        self.assertEqual(status["deadLetterSinkUri"], self.sink.url + "/dead")
        self.assertEqual(says(self.get("orders"), "DeadLetterSinkResolved"), "True/DeadLetterSinkResolved")
        spec = self.shop.must("GET", f"{GROUPS}/{uid}")["spec"]["template"]["spec"]
        self.assertEqual((spec["configs"]["group.id"], spec["delivery"]["ordering"]), ("knative-trigger-default-orders", "ordered"))
        # A worker that begins again writes nothing.
        was = self.get("orders")["metadata"]["resourceVersion"], self.shop.must("GET", f"{GROUPS}/{uid}")["metadata"]["resourceVersion"]
        self.installation.configure(refresh_period="1h")
        kit.eventually(lambda: self.installation.metric("eventing_groups", phase="Ready") >= 1, 90, "it has taken over")
        kit.eventually(lambda: self.installation.metric("controller_runtime_reconcile_total", controller="trigger", result="success") >= 1, 60, "a turn")
        self.assertEqual((self.get("orders")["metadata"]["resourceVersion"], self.shop.must("GET", f"{GROUPS}/{uid}")["metadata"]["resourceVersion"]), was)
        # Its end waits for the group's.
        self.shop.must("DELETE", f"{TRIGGERS}/orders")
        kit.eventually(lambda: self.shop.get(f"{TRIGGERS}/orders").status == 404, 60, "it is gone")
        self.assertEqual(self.shop.get(f"{GROUPS}/{uid}").status, 404)

    def test_2_a_broker_that_is_not_ready_for_a_while_costs_nothing(self):
        self.broker("kept", "kept")
        uid = self.make("kept", "kept")
        self.until("kept", "Ready", "True/Ready")
        made = self.shop.must("GET", f"{GROUPS}/{uid}")
        kit.eventually(lambda: sum(members for members, _ in self.kubelet.members(made["metadata"]["uid"], 2, POOL)) == 1, 60, "a member")
        say_of_broker(self.shop, "kept", "False")
        one = self.until("kept", "Ready", "False/BrokerNotReady")
        self.assertIn("Told", conditions(one)["BrokerReady"]["message"])
        self.assertEqual(one["status"]["annotations"][PLACEABLE + "Placements.0.VReplicas"], "1")
        self.shop.must("DELETE", f"{BROKERS}/kept")
        one = self.until("kept", "Ready", "False/BrokerDoesNotExist")
        self.assertEqual(says(one, "SubscriptionReady"), "True/Ready")
        self.produce("kept", 9, 3)
        kit.eventually(lambda: len(self.sink.bodies()) == 9, 60, "events go on")
        make_broker(self.shop, "kept", "kept", self.kafka.bootstrap)
        self.until("kept", "Ready", "True/Ready")
        self.assertEqual(self.shop.must("GET", f"{GROUPS}/{uid}")["metadata"]["generation"], made["metadata"]["generation"])
        # One of another class takes its place: nothing of ours is left, and it is let alone from then on.
        self.shop.must("DELETE", f"{BROKERS}/kept")
        self.until("kept", "Ready", "False/BrokerDoesNotExist")
        make_broker(self.shop, "kept", of_class="MTChannelBasedBroker")
        kit.eventually(lambda: not self.get("kept")["metadata"].get("finalizers"), 60, "it is not ours any more")
        self.assertEqual(self.shop.get(f"{GROUPS}/{uid}").status, 404)
        was = self.get("kept")["metadata"]["resourceVersion"]
        self.after_a_turn(lambda: self.shop.must("PATCH", f"{BROKERS}/kept/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, headers=MERGE))
        self.assertEqual(self.get("kept")["metadata"]["resourceVersion"], was)

    def test_3_a_trigger_of_another_class_is_let_alone(self):
        self.broker("others", of_class="MTChannelBasedBroker")
        made = {}
        self.after_a_turn(lambda: made.update(uid=self.make("theirs", "others")))
        one = self.get("theirs")
        self.assertNotIn("status", one)
        self.assertNotIn("finalizers", one["metadata"])
        self.assertEqual(self.shop.get(f"{GROUPS}/{made['uid']}").status, 404)

    def test_3_kinds_are_validated(self):
        self.broker("main-2")
        self.make("fixed", "main-2")
        answer = self.shop.request("PATCH", f"{TRIGGERS}/fixed", {"spec": {"broker": "other"}}, headers=MERGE)
        self.assertEqual((answer.status, "immutable" in answer.json["message"]), (422, True), answer)
        answer = self.shop.request("POST", TRIGGERS, {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": {"name": "bad"}, "spec": {"broker": "a"}})
        self.assertEqual((answer.status, "subscriber" in answer.json["message"]), (422, True), answer)
        columns = self.shop.must("GET", TRIGGERS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})["columnDefinitions"]
        self.assertEqual([one["name"] for one in columns], ["Name", "Broker", "Subscriber_URI", "Age", "Ready", "Reason"])

    def test_4_replies_go_into_the_topic_and_brokers_deliver_for_triggers_without_wishes(self):
        replies = {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/sink", "ce-type": "reply", "content-type": "text/plain"}
        self.sink.answers = lambda event: (200, replies, b"answer-" + event["body"]) if event["path"] == "/asks" else (200, {}, b"")
        self.broker("late", "late", delivery={"retry": 3, "deadLetterSink": {"uri": self.sink.url + "/dead"}})
        self.make("asks", "late", path="asks", filter={"attributes": {"type": "order"}})
        uid = self.make("hears", "late", path="hears", filters=[{"exact": {"type": "reply"}}])
        for name in ("asks", "hears"):
            self.until(name, "Ready", "True/Ready")
        self.produce("late", 6, 3)
        kit.eventually(lambda: sorted(self.sink.bodies("/hears")) == [b"answer-%d" % number for number in range(6)], 60, "answers are events")
        self.assertEqual(self.shop.must("GET", f"{GROUPS}/{uid}")["spec"]["template"]["spec"]["delivery"]["retry"], 3)
        self.assertEqual(self.get("hears")["status"]["deadLetterSinkUri"], self.sink.url + "/dead")

    def test_5_KN_T063_two_workspaces_have_two_groups(self):
        other = self.installation.shop("other")
        for client, path in ((self.shop, "first"), (other, "second")):
            self.broker("two", "two", client)
            uid = self.make("twins", "two", client, path=path)
            one = until(client, "twins", "Ready", "True/Ready", path=TRIGGERS)
            group_id = "knative-trigger-default-twins" + ("" if client is self.shop else "-" + uid)
            self.assertEqual(one["status"]["annotations"]["group.id"], group_id)
            self.assertEqual(client.must("GET", f"{GROUPS}/{uid}")["spec"]["template"]["spec"]["configs"]["group.id"], group_id)

        def told():
            return [one for one in other.must("GET", EVENTS)["items"] if one["reason"] == "GroupIdTaken" and one["regarding"]["name"] == "twins"]

        self.assertEqual(kit.eventually(told, 30, "an event")[0]["regarding"]["kind"], "Trigger")
        self.produce("two", 20, 2)
        for path in ("/first", "/second"):
            kit.eventually(lambda path=path: len(set(self.sink.bodies(path))) == 20, 60, f"each has all: {path}")

    def test_6_KD_8_of_two_with_one_stored_id_the_second_gets_its_own(self):
        self.broker("same", "same")
        self.make("older", "same")
        self.until("older", "Ready", "True/Ready")
        made = self.get("older")["metadata"]["creationTimestamp"]
        kit.eventually(lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()) > made, 30, "the next second")
        uid = self.make("younger", "same")
        self.until("younger", "Ready", "True/Ready")
        stored = self.get("older")["status"]["annotations"]["group.id"]
        self.shop.must("PATCH", f"{TRIGGERS}/younger/status", {"status": {"annotations": {"group.id": stored}}}, headers=MERGE)
        kit.eventually(lambda: self.get("younger")["status"]["annotations"]["group.id"] == f"{stored}-{uid}", 60, "its own")
        self.until("younger", "Ready", "True/Ready")
        self.assertEqual(self.shop.must("GET", f"{GROUPS}/{uid}")["spec"]["template"]["spec"]["configs"]["group.id"], f"{stored}-{uid}")
        self.assertEqual(self.get("older")["status"]["annotations"]["group.id"], stored)

    def test_9_an_export_without_triggers_and_brokers_is_served(self):
        provider = self.installation.client("/clusters/root:eventing")
        path = "/apis/apis.kcp.io/v1alpha2/apiexports/eventing"
        resources = [one for one in provider.must("GET", path)["spec"]["resources"] if one["group"] != "eventing.knative.dev"]
        provider.must("PATCH", path, {"spec": {"resources": resources}}, headers=MERGE)
        self.installation.configure(refresh_period="1h")
        plain = self.installation.shop("plain")
        self.assertEqual(plain.get(TRIGGERS).status, 404)
        body = group("old", self.kafka.bootstrap, self.sink.url + "/", topics=("same",))
        body["spec"]["topLevelResourceRef"] = {"kind": "Trigger", "name": "old", "namespace": "default"}
        plain.must("POST", GROUPS, body)
        until(plain, "old", "Ready", "True/Ready")
        socket = str(self.installation.state / "run" / "worker-eventing.sock")

        def is_ready():
            said = subprocess.run(["curl", "-s", "--max-time", "5", "--unix-socket", socket, "http://worker/readyz"], capture_output=True, text=True, check=True)
            assert said.stdout.startswith("ok"), said.stdout
            return True

        kit.eventually(is_ready, 30, "the worker is ready")
