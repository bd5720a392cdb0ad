"""`kintsugi up --workers=eventing`: groups are placed on dispatchers, which are real processes that consume from brokers of librdkafka's mock cluster
and deliver to a sink (docs/spec/eventing.md). What stands in for Kubernetes is configs/eventing/kubelet.py."""
import base64
import json
import os
import signal
import subprocess
import tempfile
import unittest

import kit
import rdkafka
from dispatchers import MockKafka, Sink
from eventing import CONSUMERS, EVENTS, GROUPS, MAPS, MERGE, PODS, POOL, SEEN, SETS, SOURCES, Installed, Kubelet, conditions, group, placements, says, source, until

TOPICS = ("orders:12:3", "source:6:3", "few:3:3", "old:4:3", "small:1:3", "gone:2:3", "shrinks:12:3")


class Placed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = MockKafka(*TOPICS).start_for(cls)
        cls.installation = Installed().start_for(cls)
        cls.shop = cls.installation.shop()
        cls.home = cls.installation.home()
        cls.installation.make_pool(3)
        cls.kubelet = Kubelet(cls.installation).start_for(cls)
        kit.eventually(lambda: all(cls.kubelet.status(number) for number in range(3)), 90, "three dispatchers run")
        cls.producer = rdkafka.Producer(cls.kafka.bootstrap)
        cls.addClassCleanup(cls.producer.close)

    def setUp(self):
        self.sink = Sink()
        self.addCleanup(self.sink.close)

    def make(self, name, **more):
        made = self.shop.must("POST", GROUPS, group(name, self.kafka.bootstrap, self.sink.url + "/", **more))
        self.addCleanup(self.drop, name)
        return made["metadata"]["uid"]

    def drop(self, name):
        self.shop.request("DELETE", f"{GROUPS}/{name}")
        kit.eventually(lambda: self.shop.get(f"{GROUPS}/{name}").status == 404, 60, f"{name} is gone")

    def told(self, name, reason, *words):
        def there():
            events = [(one["reason"], one["note"]) for one in self.shop.must("GET", EVENTS)["items"] if one["regarding"]["name"] == name]
            assert any(why == reason and all(word in note for word in words) for why, note in events), events
            return True

        kit.eventually(there, 60, f"{name}: an event {reason}")

    def until_consumers(self, name, wanted):
        """@param wanted  what their conditions say, by pod"""

        def there():
            found = {one["spec"]["podBind"]["podName"]: " ".join(says(one, kind) for kind in ("Contract", "Bind", "Ready"))
                     for one in self.shop.must("GET", CONSUMERS)["items"] if one["metadata"]["ownerReferences"][0]["name"] == name}  # fmt: skip
            assert found == wanted, found
            return True

        kit.eventually(there, 60, f"{name}: Consumers say {wanted}")

    def get(self, name):
        return self.shop.must("GET", f"{GROUPS}/{name}")

    def produce(self, topic, count, begin=0, partitions=12):
        for number in range(begin, begin + count):
            self.producer.send(topic, b"%d" % number, partition=number % partitions)
        self.producer.flush()

    def until_all(self, count):
        kit.eventually(lambda: len(set(self.sink.bodies())) == count, 90, f"{count} records")

    def contract(self, number):
        return self.home.must("GET", f"{MAPS}/{POOL}-{number}")

    def state(self, *names):
        """What must not change: placements, and what pods are told."""
        out = {name: (placements(self.get(name)), self.get(name)["metadata"]["resourceVersion"]) for name in names}
        for number in range(3):
            out[number] = self.contract(number)["binaryData"]["data"], self.home.must("GET", f"{PODS}/{POOL}-{number}")["metadata"]["annotations"]
        return out

    def test_1_KN_T034_KN_T016_KN_T050_KP_4_a_group_over_three_dispatchers(self):
        before = self.installation.writes()
        uid = self.make("orders", replicas=3)
        one = until(self.shop, "orders", "Ready", "True/Ready")
        self.assertEqual(placements(one), {"0": 1, "1": 1, "2": 1})
        self.assertEqual(one["status"]["maxAllowedVReplicas"], 12)
        self.assertEqual(one["status"]["replicas"], 3)
        self.assertEqual([says(one, kind) for kind in ("ConsumersScheduled", "Autoscaler")], ["True/Scheduled", "True/AutoscalerDisabled"])
        self.told("orders", "Scheduled", f"placed: {POOL}-0=1,{POOL}-1=1,{POOL}-2=1")
        # Finalizer, placement, Ready; three Consumers, three contracts, three pods' annotations.
        self.assertLessEqual(self.installation.writes() - before, 12)
        cluster = one["metadata"]["annotations"]["kcp.io/cluster"]
        for number in range(3):
            map_ = self.contract(number)
            pod = self.home.must("GET", f"{PODS}/{POOL}-{number}")
            contract = json.loads(base64.b64decode(map_["binaryData"]["data"]))
            seen = json.loads(pod["metadata"]["annotations"][SEEN])
            self.assertRegex(seen[f"{cluster}|default/orders"], r"^1\.[0-9a-f]{8}$")
            self.assertEqual(pod["metadata"]["annotations"]["volumeGeneration"], contract["generation"])
            self.assertEqual(map_["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["uid"])
            self.assertEqual(contract["resources"][0]["egresses"][0]["vReplicas"], 1)
        self.assertEqual(sorted(each["spec"]["podBind"]["podName"] for each in self.shop.must("GET", CONSUMERS)["items"]),
                         [f"{POOL}-{number}" for number in range(3)])  # fmt: skip
        self.until_consumers("orders", {f"{POOL}-{number}": "True/Contract True/Bound True/Ready" for number in range(3)})
        kit.eventually(lambda: self.kubelet.members(uid, 3) == [(1, 4)] * 3, 60, "each has four partitions")
        self.produce("orders", 600)
        self.until_all(600)
        self.assertEqual(len(self.sink.bodies()), 600)  # every record once
        # One dispatcher is killed: the others have its partitions, it comes again, nothing is lost and nothing moves.
        was = self.state("orders")
        killed = self.kubelet.pod(1)["pid"]
        self.produce("orders", 300, 600)
        os.kill(killed, signal.SIGKILL)
        self.until_all(900)
        kit.eventually(lambda: self.kubelet.pod(1)["pid"] != killed and self.kubelet.members(uid, 3) == [(1, 4)] * 3, 90, "it is there again")
        self.assertEqual(self.state("orders"), was)
        # The worker is killed and comes again: it writes nothing.
        worker = self.installation.pid("worker-eventing")
        self.installation.kill("worker-eventing")
        kit.eventually(lambda: self.installation.pid("worker-eventing") != worker, 30, "a new worker")
        kit.eventually(lambda: self.installation.metric("eventing_groups", phase="Ready") >= 1, 90, "it has taken over")
        self.assertEqual(self.state("orders"), was)
        self.produce("orders", 100, 900)
        self.until_all(1000)
        # Six consumers by the scale subresource: only what is new is placed.
        self.shop.must("PATCH", f"{GROUPS}/orders/scale", {"spec": {"replicas": 6}}, headers=MERGE)
        kit.eventually(lambda: placements(self.get("orders")) == {"0": 2, "1": 2, "2": 2} and self.get("orders")["status"]["replicas"] == 6, 60, "six are ready")
        kit.eventually(lambda: [members for members, _ in self.kubelet.members(uid, 3)] == [2, 2, 2], 60, "six members")
        self.produce("orders", 200, 1000)
        self.until_all(1200)

    def test_2_six_writes_bring_a_group_of_one_to_ready(self):
        before = self.installation.writes()
        self.make("small", topics=("small",))
        until(self.shop, "small", "Ready", "True/Ready")
        self.assertLessEqual(self.installation.writes() - before, 6)
        # KN-T068: what means nothing is written nowhere.
        self.shop.must("PATCH", f"{GROUPS}/small", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
        until(self.shop, "small", "Ready", "True/Ready")
        self.assertLessEqual(self.installation.writes() - before, 6)

    def test_3_KN_T021_no_more_consumers_than_partitions(self):
        self.make("few", topics=("few",), replicas=10)
        one = until(self.shop, "few", "ConsumersScheduled", "True/CappedByPartitions")
        self.assertEqual(sum(placements(one).values()), 3)
        self.assertEqual(one["status"]["maxAllowedVReplicas"], 3)

    def test_3_KN_T037_KN_T038_where_a_group_begins(self):
        self.produce("old", 40, partitions=4)
        self.make("latest", topics=("old",), offset="latest")
        self.make("earliest", topics=("old",), group_id="group-earliest")
        for name in ("latest", "earliest"):
            until(self.shop, name, "Ready", "True/Ready")
        reader = rdkafka.Group(self.kafka.bootstrap, "group-latest")
        self.addCleanup(reader.close)
        self.assertEqual(sum(reader.committed("old", 4).values()), 40)  # before it was Ready
        kit.eventually(lambda: len(self.sink.bodies()) == 40, 60, "the old ones, once")
        self.produce("old", 4, 40, partitions=4)
        kit.eventually(lambda: len(self.sink.bodies()) == 48, 60, "the new ones, twice")

    def test_3_KN_T031_KN_T064_what_is_deleted_by_hand_is_made_again(self):
        self.make("small", topics=("small",))
        one = until(self.shop, "small", "Ready", "True/Ready")
        number = next(iter(placements(one)))
        generation = int(self.home.must("GET", f"{PODS}/{POOL}-{number}")["metadata"]["annotations"]["volumeGeneration"])
        self.home.must("DELETE", f"{MAPS}/{POOL}-{number}")

        def again():
            contract = json.loads(base64.b64decode(self.contract(number)["binaryData"]["data"]))
            assert int(contract["generation"]) == generation + 1, contract["generation"]
            assert self.home.must("GET", f"{PODS}/{POOL}-{number}")["metadata"]["annotations"]["volumeGeneration"] == str(generation + 1)
            return contract["resources"]

        self.assertTrue(kit.eventually(again, 40, "the contract is there again"))
        name = f"small-{POOL}-{number}"
        uid = self.shop.must("GET", f"{CONSUMERS}/{name}")["metadata"]["uid"]
        self.shop.must("DELETE", f"{CONSUMERS}/{name}")
        kit.eventually(lambda: self.shop.must("GET", f"{CONSUMERS}/{name}")["metadata"]["uid"] != uid, 40, "the Consumer is there again")
        self.assertEqual(says(self.get("small"), "Ready"), "True/Ready")

    def test_3_KN_T039_KN_T061_what_is_wrong_stands_in_conditions(self):
        self.kafka.tell("topic-error", "missing-topic", 3)  # UNKNOWN_TOPIC_OR_PART; these brokers make topics that are asked for
        self.make("nowhere", topics=("missing-topic",))
        self.shop.must("POST", GROUPS, group("lost", f"127.0.0.1:{kit.free_port()}", self.sink.url + "/"))
        self.addCleanup(self.drop, "lost")
        self.shop.must("POST", GROUPS, group("ftp", self.kafka.bootstrap, "ftp://127.0.0.1/"))
        self.addCleanup(self.drop, "ftp")
        one = until(self.shop, "ftp", "Consumers", "False/PropagateSubscriberURI")
        self.assertEqual(placements(one), {})
        self.assertIn("http", conditions(one)["Consumers"]["message"])
        until(self.shop, "lost", "Consumers", "False/KafkaClient", 90)
        self.told("nowhere", "TopicMissing", "missing-topic")
        self.told("ftp", "PropagateSubscriberURI", "http")
        self.shop.must("PATCH", f"{GROUPS}/ftp", {"spec": {"template": {"spec": {"subscriber": {"uri": self.sink.url + "/"}}}}}, headers=MERGE)
        until(self.shop, "ftp", "Ready", "True/Ready")
        self.told("ftp", "Recovered", "PropagateSubscriberURI is over")
        # One that is placed gets a filter that nobody has: its Consumers say so.
        self.shop.must("PATCH", f"{GROUPS}/ftp", {"spec": {"template": {"spec": {"filters": {"filters": [{"cesql": "true"}]}}}}}, headers=MERGE)
        one = until(self.shop, "ftp", "Consumers", "False/ReconcileConsumer")
        pod = one["status"]["placements"][0]["podName"]
        self.until_consumers("ftp", {pod: "False/FilterUnsupported False/BindInProgress False/FilterUnsupported"})

    def test_3_kinds_are_validated(self):
        bad = group("bad", self.kafka.bootstrap, self.sink.url + "/")
        for change, text in ((lambda spec: spec.pop("topics"), "topics"), (lambda spec: spec["configs"].pop("group.id"), "group.id and bootstrap.servers"),
                             (lambda spec: spec["topics"].append("a b"), "topics"), (lambda spec: spec["delivery"].update(ordering="any"), "ordering"),
                             (lambda spec: spec.update(reply={"noReply": {}, "topicReply": {}}), "takes one of")):  # fmt: skip
            one = json.loads(json.dumps(bad))
            change(one["spec"]["template"]["spec"])
            answer = self.shop.request("POST", GROUPS, one)
            self.assertEqual(answer.status, 422, answer)
            self.assertIn(text, answer.json["message"])

    def test_3_KN_T025_KN_2_a_source_has_a_group(self):
        self.shop.must("POST", SOURCES, source("five", self.kafka.bootstrap, self.sink.url + "/", topics=("source",), consumers=5))
        self.addCleanup(self.shop.request, "DELETE", f"{SOURCES}/five")
        one = until(self.shop, "five", "Ready", "True/Ready", path=SOURCES)
        self.assertEqual(sum(placements(one).values()), 5)
        self.assertEqual((one["status"]["maxAllowedVReplicas"], one["status"]["consumers"], one["status"]["sinkUri"]), (6, 5, self.sink.url + "/"))
        uid = one["metadata"]["uid"]
        made = self.get(uid)
        self.assertEqual(placements(made), placements(one))
        self.assertEqual(made["spec"]["template"]["spec"]["configs"]["group.id"], f"knative-kafka-source-{uid}")
        self.produce("source", 60, partitions=6)
        self.until_all(60)
        # A group that is changed by hand is set right; the scale subresource and another sink go to it.
        self.shop.must("PATCH", f"{GROUPS}/{uid}", {"spec": {"replicas": 1}}, headers=MERGE)
        kit.eventually(lambda: self.get(uid)["spec"]["replicas"] == 5, 60, "as the source says")
        self.shop.must("PATCH", f"{SOURCES}/five/scale", {"spec": {"replicas": 2}}, headers=MERGE)
        kit.eventually(lambda: self.shop.must("GET", f"{SOURCES}/five")["status"]["consumers"] == 2, 60, "two are ready")
        self.shop.must("PATCH", f"{SOURCES}/five", {"spec": {"sink": {"uri": "ftp://127.0.0.1/"}}}, headers=MERGE)
        until(self.shop, "five", "SinkProvided", "False/PropagateSubscriberURI", path=SOURCES)
        answer = self.shop.request("PATCH", f"{SOURCES}/five", {"spec": {"consumerGroup": "other"}}, headers=MERGE)
        self.assertEqual((answer.status, "immutable" in answer.json["message"]), (422, True), answer)
        self.shop.must("DELETE", f"{SOURCES}/five")
        kit.eventually(lambda: self.shop.get(f"{SOURCES}/five").status == 404, 60, "it is gone")
        self.assertEqual(self.shop.get(f"{GROUPS}/{uid}").status, 404)  # before it

    def test_4_KN_T002_a_full_pool_grows(self):
        """Of a pool of its own, with pods that hold 20 each."""
        self.installation.make_pool(1, "kafka-broker-dispatcher")
        for number in range(3):
            body = group(f"many-{number}", self.kafka.bootstrap, self.sink.url + "/", replicas=12)
            body["spec"]["topLevelResourceRef"] = {"kind": "Trigger", "name": f"many-{number}", "namespace": "default"}
            self.shop.must("POST", GROUPS, body)
            self.addCleanup(self.drop, f"many-{number}")
        for number in range(3):
            one = until(self.shop, f"many-{number}", "Ready", "True/Ready", 120)
            self.assertEqual(sum(placements(one).values()), 12)
        self.assertEqual(self.home.must("GET", SETS + "/kafka-broker-dispatcher")["spec"]["replicas"], 2)

    def test_8_KN_T041_a_deleted_group_leaves_nothing(self):
        self.make("gone", topics=("gone",), replicas=2)
        uid = self.get("gone")["metadata"]["uid"]
        until(self.shop, "gone", "Ready", "True/Ready")
        kit.eventually(lambda: sum(members for members, _ in self.kubelet.members(uid, 3)) == 2, 60, "two members")
        before = self.installation.metric("eventing_kafka_deletions_total", result="not_offered")
        self.drop("gone")
        # These brokers do not offer it: they are asked what they offer, and nothing else.
        self.assertEqual(self.installation.metric("eventing_kafka_deletions_total", result="not_offered"), before + 1)
        self.assertEqual(self.installation.metric("eventing_kafka_deletions_total", result="failed"), 0)
        self.assertFalse([one for one in self.shop.must("GET", CONSUMERS)["items"] if one["metadata"]["name"].startswith("gone-")])
        kit.eventually(lambda: sum(members for members, _ in self.kubelet.members(uid, 3)) == 0, 60, "no members")

    def test_9_KA_3_KA_4_pods_that_nobody_needs_are_emptied_and_go(self):
        uid = self.make("shrinks", topics=("shrinks",), replicas=3)
        self.assertEqual(placements(until(self.shop, "shrinks", "Ready", "True/Ready")), {"0": 1, "1": 1, "2": 1})
        kit.eventually(lambda: self.kubelet.members(uid, 3) == [(1, 4)] * 3, 60, "each has four partitions")
        self.produce("shrinks", 300)
        self.installation.configure(refresh_period="1s", join_patience="1h")  # dispatchers say that consumers have joined
        kit.eventually(lambda: placements(self.get("shrinks")) == {"0": 3}, 90, "all are on one pod")
        kit.eventually(lambda: self.home.must("GET", f"{SETS}/{POOL}")["spec"]["replicas"] == 1, 60, "its size is written")
        kit.eventually(lambda: self.kubelet.members(uid, 1) == [(3, 12)] and not self.kubelet.has(1) and not self.kubelet.has(2), 60, "one pod is left")
        self.produce("shrinks", 300, 300)
        self.until_all(600)
        self.assertEqual(says(self.get("shrinks"), "Ready"), "True/Ready")


class CommandLine(unittest.TestCase):
    def test_a_capacity_of_nothing_is_refused(self):

        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/worker.yaml"
            for key, value, text in (("pod_capacity", 0, "pod_capacity"), ("pool_namespace", "A/b", "pool_namespace"), ("contract_format", "xml", "contract_format"),
                                     ("nonsense", 1, "nonsense")):  # fmt: skip
                with open(path, "w", encoding="utf-8") as out:
                    json.dump({"apiVersion": "kintsugi.dev/v1alpha1", "kind": "WorkerConfiguration", "kubeconfig": "k", "roles": {"eventing": {
                        "server": "https://127.0.0.1:6443", "lease_clusters": ["root"], "eventing": {key: value}}}}, out)
                made = subprocess.run([str(kit.BINARY), "worker", "--roles=eventing", f"--config={path}", "--validate"], capture_output=True, text=True, check=False, timeout=30)
                self.assertEqual(made.returncode, 2, made)
                self.assertIn(text, made.stderr)


