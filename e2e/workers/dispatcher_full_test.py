"""`kintsugi dispatcher` with Apache Kafka itself (KRaft): records under kills of dispatchers and of the broker (docs/spec/eventing.md). Skipped
where Java or Maven are missing."""
import collections
import os
import threading
import unittest

import kit
import rdkafka
from dispatchers import Dispatcher, RealKafka, Sink, egress, resource, until_spread

ONLY_WITH_ALL = "Kafka itself starts, and is killed"
BINARY = [("ce_specversion", b"1.0"), ("ce_source", b"/shop"), ("ce_type", b"order.new")]
REPLY = {"ce-specversion": "1.0", "ce-id": "reply", "ce-source": "/sink", "ce-type": "order.done"}


class Real(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = RealKafka().start_for(cls)

    def setUp(self):
        self.producer = rdkafka.Producer(self.kafka.bootstrap)
        self.addCleanup(self.producer.close)
        self.slow = threading.Event()
        self.sink = Sink(self.answer)
        self.addCleanup(self.sink.close)

    def answer(self, event):
        if event["path"] == "/bad":
            return 500, {}, b"no"
        if event["path"] == "/reply" and event["headers"]["ce-type"] == "order.new":
            return 200, REPLY, b"done"
        return 200, {}, b""

    def topic(self):
        """A new one, with its 12 partitions."""
        name = self.id().rpartition(".")[2].replace("_", "-")[:100]
        self.producer.put(name, b"first", partition=None)
        return name

    def produce(self, topic, begin, end):
        for number in range(begin, end):
            key = number % 60
            self.producer.send(topic, b"%d" % number, key=b"%d" % key, partition=key % 12)
        self.producer.flush()

    def numbers(self, path="/"):
        return [int(body) for body in self.sink.bodies(path) if body.isdigit()]

    def until_all(self, count, seconds=120):
        kit.eventually(lambda: len(set(self.numbers())) == count, seconds, f"{count} records")

    def committed(self, topic, group, count):
        reader = rdkafka.Group(self.kafka.bootstrap, group)
        self.addCleanup(reader.close)
        kit.eventually(lambda: sum(reader.committed(topic, 12).values()) == count, 60, f"{count} are committed")

    def three(self, topic, group, **more):
        out = []
        for number in range(3):
            one = Dispatcher(f"dispatcher-{number}")
            one.give(resource(self.kafka.bootstrap, [topic], egress("shared", self.sink.url + "/", group=group, replicas=2, **more)))
            out.append(one.start_for(self))
        until_spread(out, "shared", 12, 4)
        return out

    def assert_ordered(self):
        """Of each key, what came for the first time came in its order."""
        seen, last = set(), collections.defaultdict(lambda: -1)
        for number in self.numbers():
            if number not in seen:
                seen.add(number)
                self.assertGreater(number, last[number % 60])
                last[number % 60] = number

    def assert_begun_again_once(self):
        """What is repeated is what came after the last commit: its partition begins again there, once, and goes on in order."""
        last, again = {}, collections.Counter()
        for number in self.numbers():
            again[number % 60] += number <= last.get(number % 60, -1)
            last[number % 60] = number
        self.assertLessEqual(max(again.values()), 1, again)

    def test_KN_T034_KN_T035_KN_T036_DP_9_kills_lose_nothing(self):
        topic = self.topic()
        three = self.three(topic, "kills", deliveryOrder="ORDERED")
        self.assertEqual([one.egress("shared")["members"] for one in three], [2, 2, 2])
        self.produce(topic, 0, 1200)
        self.until_all(1200)
        self.assertEqual(len(self.numbers()), 1200)
        # One is killed, a new one takes its place; then one ends in order.
        self.produce(topic, 1200, 2400)
        three[0].kill()
        self.produce(topic, 2400, 3000)
        self.until_all(3000)
        three[0].start()
        until_spread(three, "shared", 12)
        repeated = len(self.numbers()) - 3000
        self.assert_begun_again_once()
        three[1].stop()
        self.assertEqual(three[1].process.returncode, 0)
        self.produce(topic, 3000, 3600)
        self.until_all(3600)
        self.assertEqual(len(self.numbers()) - 3600, repeated)  # who leaves in order repeats nothing
        self.assert_ordered()
        self.committed(topic, "kills", 3601)

    def test_KN_T040_a_broker_that_is_killed_comes_again(self):
        topic = self.topic()
        three = self.three(topic, "outage")
        self.produce(topic, 0, 600)
        self.until_all(600)
        self.kafka.kill()
        self.assertEqual([one.get("/healthz") for one in three], ["ok"] * 3)
        self.kafka.start()
        self.produce(topic, 600, 1200)
        self.until_all(1200)
        until_spread(three, "shared", 12)
        self.committed(topic, "outage", 1201)

    def test_DP_3_DP_4_DP_7_records_of_all_kinds(self):
        topic = self.topic()
        one = Dispatcher()
        url = self.sink.url
        reply = egress("reply", url + "/reply", group="reply", replyToOriginalTopic={})
        del reply["discardReply"]
        one.give(resource(self.kafka.bootstrap, [topic],
                          egress("all", url + "/", group="all"), reply,
                          egress("bad", url + "/bad", group="bad", egressConfig={"retry": 1, "backoffDelay": "10", "deadLetter": url + "/dead"}),
                          egress("few", url + "/few", group="few", dialectedFilter=[{"exact": {"attributes": {"type": "order.new"}}}])))
        one.start_for(self)
        for uid in ("all", "reply", "bad", "few"):
            one.until_joined(uid, 12)
        large = os.urandom(1 << 20) * 16
        self.producer.put(topic, large)
        self.producer.put(topic, None, key=b"tombstone")
        self.producer.put(topic, b"{}", headers=[*BINARY, ("ce_id", b"7"), ("junk", b"\xff")])
        # With the topic's first record and the reply: five, each at least once, to everyone whose filter lets it pass.
        kit.eventually(lambda: len(self.sink.at("/")) == 5, 60)
        self.assertEqual(sorted(len(body) for body in self.sink.bodies()), [0, 2, 4, 5, len(large)])
        kit.eventually(lambda: len(self.sink.at("/dead")) == 5, 60)
        self.assertEqual([event["headers"]["ce-id"] for event in self.sink.at("/few")], ["7"])
        self.assertEqual(sorted(event["headers"]["ce-type"] for event in self.sink.at("/reply")).count("order.done"), 1)
        for group in ("all", "reply", "bad", "few"):
            self.committed(topic, group, 5)
