"""The role `eventing` with Apache Kafka itself (KRaft): a group over three dispatchers while these, the worker and the broker are killed; no record is
missing. Skipped where Java or Maven are missing."""
import os
import signal
import unittest

import kit
import rdkafka
from dispatchers import RealKafka, Sink
from eventing import GROUPS, MERGE, Installed, Kubelet, group, placements, until

ONLY_WITH_ALL = "Kafka itself starts, and is killed"


class Real(unittest.TestCase):
    def test_KN_T034_KN_T035_KN_T016_KN_T050_no_record_is_missing(self):
        kafka = RealKafka().start_for(self)
        installation = Installed().start_for(self)
        shop, sink = installation.shop(), Sink()
        self.addCleanup(sink.close)
        installation.make_pool(3)
        kubelet = Kubelet(installation).start_for(self)
        kit.eventually(lambda: all(kubelet.status(number) for number in range(3)), 120, "three dispatchers run")
        producer = rdkafka.Producer(kafka.bootstrap)
        self.addCleanup(producer.close)
        producer.put("orders", b"made")  # the broker makes it, with 12 partitions
        sent = 0

        def produce(count):
            nonlocal sent
            for number in range(sent, sent + count):
                producer.send("orders", b"%d" % number, partition=number % 12)
            producer.flush(120)
            sent += count

        def until_all():
            kit.eventually(lambda: len({body for body in sink.bodies() if body.isdigit()}) == sent, 180, f"{sent} records")

        made = shop.must("POST", GROUPS, group("orders", kafka.bootstrap, sink.url + "/", replicas=3, delivery={"ordering": "ordered"}))
        one = until(shop, "orders", "Ready", "True/Ready", 120)
        self.assertEqual((placements(one), one["status"]["maxAllowedVReplicas"]), ({"0": 1, "1": 1, "2": 1}, 12))
        uid = made["metadata"]["uid"]
        kit.eventually(lambda: kubelet.members(uid, 3) == [(1, 4)] * 3, 120, "each has four partitions")
        produce(600)
        until_all()
        self.assertEqual(len(sink.bodies()), 601)  # and the first one: every record once
        os.kill(kubelet.pod(2)["pid"], signal.SIGKILL)
        produce(300)
        worker = installation.pid("worker-eventing")
        installation.kill("worker-eventing")
        until_all()
        kafka.kill()
        kafka.start()
        produce(300)
        until_all()
        kit.eventually(lambda: installation.pid("worker-eventing") != worker and installation.metric("eventing_groups", phase="Ready") == 1, 120,
                       "the worker has taken over")  # fmt: skip
        self.assertEqual(placements(shop.must("GET", GROUPS + "/orders")), {"0": 1, "1": 1, "2": 1})
        shop.must("PATCH", GROUPS + "/orders/scale", {"spec": {"replicas": 6}}, headers=MERGE)
        kit.eventually(lambda: [members for members, _ in kubelet.members(uid, 3)] == [2, 2, 2], 180, "six members")
        produce(300)
        until_all()
        repeated = len(sink.bodies()) - 1 - sent
        print(f"{sent} records, {repeated} of them twice")
        # What had come and was not committed: of the 300 before the dispatcher's end, and before the broker's.
        self.assertLessEqual(repeated, 600)
        # KN-T041: with the ConsumerGroup its group in Kafka goes.
        shop.must("DELETE", GROUPS + "/orders")
        kit.eventually(lambda: shop.get(GROUPS + "/orders").status == 404, 180, "it is gone")
        self.assertEqual(installation.metric("eventing_kafka_deletions_total", result="deleted"), 1)
