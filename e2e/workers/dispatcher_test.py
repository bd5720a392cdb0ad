"""`kintsugi dispatcher`: records of Kafka become events at sinks (docs/spec/eventing.md). Kafka is librdkafka's mock cluster, which speaks its
protocol; the same against Apache Kafka is dispatcher_full_test.py."""
import collections
import json
import os
import pathlib
import socket
import subprocess
import threading
import time
import unittest

import kit
import rdkafka
from dispatchers import Dispatcher, MockKafka, Sink, egress, resource, until_spread

TOPICS = ("plain", "events", "retried", "dead", "skipped", "ordered", "unordered", "filtered", "refused", "replied", "to-topic", "odd", "secure",
          "gone", "latest", "paused", "formats")  # fmt: skip
BINARY = [("ce_specversion", b"1.0"), ("ce_id", b"1"), ("ce_source", b"/shop"), ("ce_type", b"order.new"), ("content-type", b"application/json")]
REPLY = {"ce-specversion": "1.0", "ce-id": "reply", "ce-source": "/sink", "ce-type": "order.done", "content-type": "text/plain"}
SLOW = 0.15  # seconds that the slow sink takes


def exact(**attributes):
    return {"exact": {"attributes": attributes}}


class Delivered(unittest.TestCase):
    """One dispatcher whose contract has an egress for each case: all join their groups at the same time."""

    @classmethod
    def setUpClass(cls):
        cls.kafka = MockKafka(*(f"{name}:2:1" for name in TOPICS)).start_for(cls)
        cls.producer = rdkafka.Producer(cls.kafka.bootstrap)
        cls.addClassCleanup(cls.producer.close)
        cls.counts, cls.hold = collections.Counter(), threading.Event()
        cls.sink = Sink(cls.answer)
        cls.addClassCleanup(cls.sink.close)
        cls.certificate = kit.certificate(cls.kafka.dir, "sink", "IP:127.0.0.1")
        pki = cls.kafka.dir / "pki"
        pki.mkdir()
        for kind, path in cls.certificate.items():
            path.rename(pki / f"proxy.{kind}")
        cls.secure = Sink(pki=pki)
        cls.addClassCleanup(cls.secure.close)
        url, retries = cls.sink.url, {"retry": 3, "backoffDelay": "200", "backoffPolicy": "Exponential"}
        to_dead = {"retry": 1, "backoffDelay": "50", "backoffPolicy": "Linear", "deadLetter": url + "/dead-letters"}
        trusted = (pki / "proxy.crt").read_text()
        group = rdkafka.Group(cls.kafka.bootstrap, "group-latest")
        cls.producer.put("latest", b"old", partition=0)
        group.commit("latest", {0: 1, 1: 0})
        group.close()
        cls.producer.put("plain", b"earlier", partition=0)
        cls.made = {
            "plain": egress("plain", url + "/plain?a=b"), "events": egress("events", url + "/events/"),
            "retried": egress("retried", url + "/retried", egressConfig=retries),
            "dead": egress("dead", url + "/always-500", egressConfig=to_dead),
            "skipped": egress("skipped", url + "/always-400"),
            "ordered": egress("ordered", url + "/slow-ordered", deliveryOrder="ORDERED"),
            "unordered": egress("unordered", url + "/slow-unordered"),
            "filtered": egress("filtered", url + "/filtered", dialectedFilter=[
                {"prefix": {"attributes": {"type": "order."}}}, {"not": {"filter": exact(source="/other")}}]),
            "refused": egress("refused", url + "/refused", dialectedFilter=[{"cesql": {"expression": "type = 'a'"}}]),
            "replied": egress("replied", url + "/replies"), "to-topic": egress("to-topic", url + "/replies-to-topic"),
            "odd": egress("odd", url + "/odd", egressConfig={"timeout": "60000"}),
            "secure": egress("secure", cls.secure.url + "/secure", destinationCACerts=trusted),
            "gone": egress("gone", url + "/hold"), "latest": egress("latest", url + "/latest"),
            "formats": egress("formats", url + "/formats"),
            "paused": egress("paused", url + "/hold-paused", deliveryOrder="ORDERED"),
        }  # fmt: skip
        for name, reply in (("replied", {"replyUrl": url + "/replies-taken"}), ("to-topic", {"replyToOriginalTopic": {}})):
            del cls.made[name]["discardReply"]
            cls.made[name].update(reply)
        cls.resources = [resource(cls.kafka.bootstrap, [name], made) for name, made in cls.made.items()]
        cls.resources.append(resource(f"127.0.0.1:{kit.free_port()}", ["nowhere"], egress("unreachable", url + "/nowhere")))
        cls.dispatcher = Dispatcher(flags=["--queued", "20", "--drain", "4s"])
        cls.dispatcher.give(*cls.resources)
        cls.dispatcher.start_for(cls)
        cls.dispatcher.until_joined("plain", 2)

    @classmethod
    def answer(cls, event):
        path = event["path"]
        cls.counts[path] += 1
        if path == "/retried":
            return (500 if cls.counts[path] < 3 else 200), {}, b"not yet"
        if path.startswith("/always-"):
            return int(path[-3:]), {}, b"never"
        if path.startswith("/slow-"):
            time.sleep(SLOW)
        if path.startswith("/hold"):
            cls.hold.wait(120)
        if path == "/replies" or (path == "/replies-to-topic" and event["headers"]["ce-type"] == "order.new"):
            return 200, REPLY, b"done"
        return 200, {}, b"thanks"

    def until(self, path, count=1, sink=None):
        sink = sink or self.sink
        kit.eventually(lambda: len(sink.at(path)) >= count, 30, f"{count} events at {path}")
        return sink.at(path)

    def committed(self, name, partitions):
        group = rdkafka.Group(self.kafka.bootstrap, f"group-{name}")
        self.addCleanup(group.close)
        kit.eventually(lambda: group.committed(name, 2) == partitions, 20, f"offsets of {name}")

    def test_DP_3_KN_T038_plain_records_are_wrapped_and_come_from_the_begin(self):
        self.producer.put("plain", b"later", key=b"k", partition=1, headers=[("X-Trace", b"t"), ("bad", b"\xff")])
        first, second = sorted(self.until("/plain?a=b", 2), key=lambda event: event["body"])
        self.assertEqual((first["body"], second["body"]), (b"earlier", b"later"))
        self.assertEqual({name: value for name, value in second["headers"].items() if name.startswith("ce-") and name != "ce-time"},
                         {"ce-specversion": "1.0", "ce-type": "dev.knative.kafka.event", "ce-id": "partition:1/offset:0", "ce-key": "k",
                          "ce-source": "/apis/v1/namespaces/ns/kafkasources/source#plain", "ce-subject": "partition:1#0",
                          "ce-kafkaheaderxtrace": "t"})  # fmt: skip
        self.committed("plain", {0: 1, 1: 1})

    def test_DP_3_events_are_kept(self):
        self.producer.put("events", b'{"a": 1}', headers=[*BINARY, ("ce_note", "ä b".encode())])
        structured = {"specversion": "1.0", "id": "2", "source": "/shop", "type": "order.new", "data": {"b": 2}}
        self.producer.put("events", json.dumps(structured).encode(), headers=[("content-type", b"application/cloudevents+json")])
        seen = {event["headers"]["ce-id"]: event for event in self.until("/events/", 2)}
        self.assertEqual(seen["1"]["body"], b'{"a": 1}')
        self.assertEqual(seen["1"]["headers"]["ce-note"], "%C3%A4%20b")
        self.assertEqual((seen["2"]["body"], seen["2"]["headers"]["content-type"]), (b'{"b":2}', "application/json"))

    def test_DP_4_KN_T055_tries_by_the_policy(self):
        self.producer.put("retried", b"once")
        tries = self.until("/retried", 3)
        kit.eventually(lambda: self.dispatcher.egress("retried")["inFlight"] == 0)
        self.assertEqual(len(self.sink.at("/retried")), 3)
        self.assertEqual(len({event["headers"]["ce-id"] for event in tries}), 1)
        gaps = [later["at"] - before["at"] for before, later in zip(tries, tries[1:])]
        self.assertTrue(gaps[0] >= 0.19 and gaps[1] >= 0.39, gaps)  # a timer never fires early

    def test_DP_4_KN_T056_dead_letters_and_the_partition_goes_on(self):
        for number in range(3):
            self.producer.send("dead", b"%d" % number, partition=0)
        self.producer.flush()
        dead = self.until("/dead-letters", 3)
        self.assertEqual({event["body"] for event in dead}, {b"0", b"1", b"2"})
        self.assertEqual(dead[0]["headers"]["ce-knativeerrorcode"], "500")
        self.assertEqual(dead[0]["headers"]["ce-knativeerrordest"], self.sink.url + "/always-500")
        self.assertEqual(len(self.sink.at("/always-500")), 6)
        self.committed("dead", {0: 3})

    def test_DP_4_without_a_dead_letter_sink_records_are_skipped(self):
        self.producer.put("skipped", b"x", partition=0)
        self.committed("skipped", {0: 1})
        self.assertIn("record skipped", self.dispatcher.log.read_text())
        self.assertGreaterEqual(self.dispatcher.metric('kintsugi_dispatcher_records_done_total{outcome="skipped"}'), 1)

    def test_DP_5_KN_T057_order_of_a_slow_sink(self):
        count = 8
        for name in ("ordered", "unordered"):
            for number in range(count):
                self.producer.send(name, b"%d" % number, key=b"k", partition=0)
        self.producer.flush()
        ordered, unordered = self.until("/slow-ordered", count), self.until("/slow-unordered", count)
        self.assertEqual([event["body"] for event in ordered], [b"%d" % number for number in range(count)])
        gaps = [later["at"] - before["at"] for before, later in zip(ordered, ordered[1:])]
        self.assertGreaterEqual(min(gaps), SLOW)  # one after the other
        self.assertEqual({event["body"] for event in unordered}, {b"%d" % number for number in range(count)})
        begun = sorted(event["at"] for event in unordered)
        self.assertLess(min(later - before for before, later in zip(begun, begun[1:])), SLOW)  # at the same time
        for name in ("ordered", "unordered"):
            self.committed(name, {0: count})

    def test_DP_6_KN_T058_filters(self):
        headers = dict(BINARY)
        for number, (kind, source) in enumerate([("order.new", "/shop"), ("return.new", "/shop"), ("order.new", "/other"), ("order.old", "/shop")]):
            headers.update({"ce_id": b"%d" % number, "ce_type": kind.encode(), "ce_source": source.encode()})
            self.producer.send("filtered", b"{}", partition=0, headers=list(headers.items()))
        self.producer.flush()
        self.committed("filtered", {0: 4})
        self.assertEqual(sorted(event["headers"]["ce-id"] for event in self.sink.at("/filtered")), ["0", "3"])
        self.assertIn("cesql is not supported", self.dispatcher.egress("refused")["refused"])
        self.assertGreaterEqual(self.dispatcher.metric('kintsugi_dispatcher_egresses{state="refused"}'), 1)

    def test_DP_7_replies_go_where_they_are_told(self):
        self.producer.put("replied", b"{}", headers=BINARY)
        taken, = self.until("/replies-taken")
        self.assertEqual((taken["body"], taken["headers"]["ce-type"]), (b"done", "order.done"))
        self.producer.put("to-topic", b"{}", headers=BINARY)
        seen = self.until("/replies-to-topic", 2)
        self.assertEqual([event["headers"]["ce-type"] for event in seen], ["order.new", "order.done"])
        self.assertEqual((seen[1]["body"], seen[1]["headers"]["content-type"]), (b"done", "text/plain"))

    def test_DP_3_bad_records_are_delivered_as_what_they_are(self):
        large = os.urandom(1 << 20) * 16
        self.producer.put("odd", large, partition=1)  # a mock broker keeps nothing beside one so large
        self.producer.put("odd", None, key=b"k", partition=0)
        self.producer.put("odd", b"x", key=b"\xff\xfe", partition=0, headers=[("a", b"\xff"), ("b", None), ("-", b"c")])
        seen = {event["headers"]["ce-id"]: event for event in self.until("/odd", 3)}
        whole, empty, other = (seen["partition:" + one] for one in ("1/offset:0", "0/offset:0", "0/offset:1"))
        self.assertEqual(len(whole["body"]), len(large))
        self.assertTrue(whole["body"] == large)
        self.assertEqual((empty["body"], empty["length"]), (b"", "0"))
        self.assertEqual(other["headers"]["ce-key"], "//4=")
        self.assertFalse([name for name in other["headers"] if name.startswith("ce-kafkaheader")])

    def test_DP_3_sinks_with_tls_are_verified(self):
        self.producer.put("secure", b"secret")
        self.assertEqual([event["body"] for event in self.until("/secure", sink=self.secure)], [b"secret"])

    def test_KN_T037_records_before_the_committed_offset_are_not_delivered(self):
        self.producer.put("latest", b"new", partition=0)
        self.assertEqual([event["body"] for event in self.until("/latest")], [b"new"])

    def test_KN_T039_an_unreachable_cluster_harms_no_other(self):
        one = self.dispatcher.egress("unreachable")
        self.assertEqual((one["members"], one["partitions"]), (0, []))
        kit.eventually(lambda: "lastError" in self.dispatcher.egress("unreachable"), 20)
        self.assertEqual(self.dispatcher.egress("plain")["members"], 1)

    def test_DP_2_a_full_queue_pauses_its_partition(self):
        for number in range(120):
            self.producer.send("paused", b"%d" % number, partition=0)
        self.producer.flush()
        kit.eventually(lambda: self.dispatcher.metric("kintsugi_dispatcher_pauses_total") >= 1, 20, "it is paused")
        self.assertLessEqual(self.dispatcher.metric("kintsugi_dispatcher_queued"), 20 + 50)
        self.hold.set()
        self.until("/hold-paused", 120)
        self.assertEqual(self.sink.bodies("/hold-paused"), [b"%d" % number for number in range(120)])
        self.hold.clear()

    def test_DP_8_what_is_on_its_way_ends_before_its_egress(self):
        self.producer.put("gone", b"last", partition=0)
        self.until("/hold")
        resources = [one for one in self.resources if one["egresses"][0]["uid"] != "gone"]
        self.dispatcher.give(*resources)
        self.assertEqual(self.dispatcher.egress("gone"), {})
        self.hold.set()
        self.committed("gone", {0: 1})
        self.hold.clear()
        self.dispatcher.give(*self.resources)
        self.dispatcher.until_joined("gone", 2)
        self.assertEqual(len(self.sink.at("/hold")), 1)

    def test_DP_1_KN_T059_contracts_by_generation_epoch_and_format(self):
        status = self.dispatcher.status()
        now = status["generation"]
        for refused, why in (({"generation": str(now - 1)}, "generation"), (b"{", "end of JSON"), ({"resources": [{"topics": 1}]}, "topics")):
            self.dispatcher.write(refused)
            kit.eventually(lambda: why in self.dispatcher.status().get("contract", ""), 20, why)  # pylint: disable=cell-var-from-loop
            self.assertEqual(self.dispatcher.egress("plain")["members"], 1)
        self.dispatcher.epoch = 5
        self.dispatcher.give(*self.resources)
        self.dispatcher.write({"generation": str(now + 9), "epoch": "4"})
        kit.eventually(lambda: "epoch 4 is below 5" in self.dispatcher.status().get("contract", ""), 20)
        # The same as protobuf: a resource with an egress, field by field.
        made = self.made["formats"]
        one = field(1, made["consumerGroup"]) + field(2, made["destination"]) + field(6, "formats") + b"\x4a\x00" + b"\x68\x01"
        whole = (field(1, "r") + field(2, "formats") + field(3, self.kafka.bootstrap) + field(6, one) +
                 field(11, field(2, "ns") + field(3, "source")))  # fmt: skip
        self.dispatcher.generation += 1
        self.dispatcher.write(b"\x08" + bytes([self.dispatcher.generation]) + field(2, whole) + b"\xc0\x3e\x05")
        kit.eventually(lambda: self.dispatcher.status()["generation"] == self.dispatcher.generation, 20)
        self.assertEqual(list(self.dispatcher.status()["egresses"]), ["formats"])
        self.producer.put("formats", b"by protobuf")
        self.until("/formats")
        self.dispatcher.give(*self.resources)
        for name in self.made:  # what other cases need
            if name != "refused":
                self.dispatcher.until_joined(name, 2)

    def test_KP_2_pages(self):
        self.assertEqual(self.dispatcher.get("/readyz"), "ok")
        self.assertIn("kintsugi_dispatcher_generation", self.dispatcher.get("/metrics"))
        self.assertEqual(self.dispatcher.status()["pod"], "dispatcher-0")


def field(number, value):
    data = value.encode() if isinstance(value, str) else value
    length, out = len(data), b""
    while length >= 0x80:
        out, length = out + bytes([length & 0x7F | 0x80]), length >> 7
    return bytes([number << 3 | 2]) + out + bytes([length]) + data


class Shared(unittest.TestCase):
    """Several dispatchers of one group."""

    def setUp(self):
        self.kafka = MockKafka("orders:12:3").start_for(self)
        self.producer = rdkafka.Producer(self.kafka.bootstrap)
        self.addCleanup(self.producer.close)
        self.sink = Sink()
        self.addCleanup(self.sink.close)
        self.group = rdkafka.Group(self.kafka.bootstrap, "group-shared")
        self.addCleanup(self.group.close)

    def dispatchers(self, *replicas, **more):
        out = []
        for number, count in enumerate(replicas):
            one = Dispatcher(f"dispatcher-{number}")
            one.give(resource(self.kafka.bootstrap, ["orders"], egress("shared", self.sink.url, replicas=count, **more)))
            out.append(one.start_for(self))
        return out

    def produce(self, count, begin=0):
        for number in range(begin, begin + count):
            self.producer.send("orders", b"%d" % number, key=b"%d" % (number % 40), partition=number % 12)
        self.producer.flush()

    def until_all(self, count):
        kit.eventually(lambda: len(set(self.sink.bodies())) == count, 60, f"{count} records")

    def test_KN_T034_KN_T035_KN_T036_KN_T040_members_share_and_take_over(self):
        three = self.dispatchers(2, 2, 2)
        until_spread(three, "shared", 12, 4)
        self.assertEqual([one.egress("shared")["members"] for one in three], [2, 2, 2])
        self.produce(600)
        self.until_all(600)
        self.assertEqual(len(self.sink.bodies()), 600)  # every record once
        # Of one that is killed the others have all: at least once, and never none.
        self.produce(300, 600)
        three[0].kill()
        self.until_all(900)
        kit.eventually(lambda: sum(len(one.egress("shared")["partitions"]) for one in three[1:]) == 12, 40, "the others have all")
        three[0].start()
        until_spread(three, "shared", 12, 4)
        # The coordinator goes to another broker, one broker ends, errors that nobody knows come: it goes on.
        self.kafka.tell("coordinator", "group-shared", 2)
        self.kafka.tell("down", 3)
        for key in (1, 8, 12):
            self.kafka.tell("error", key, 999, 3)
        for partition in range(12):
            self.kafka.tell("leader", "orders", partition, 1 + partition % 2)
        self.produce(300, 900)
        self.until_all(1200)
        self.kafka.tell("up", 3)
        until_spread(three, "shared", 12, 4)
        self.produce(300, 1200)
        self.until_all(1500)

        def all_committed():
            found = self.group.committed("orders", 12)
            assert sum(found.values()) == 1500, (found, [one.status() for one in three])
            return True

        kit.eventually(all_committed, 30, "all is committed")

    def test_KP_2_DP_2_vreplicas_grow_and_shrink(self):
        one, = self.dispatchers(1)
        one.until_joined("shared", 12, members=1)
        one.give(resource(self.kafka.bootstrap, ["orders"], egress("shared", self.sink.url, replicas=3)))
        one.until_joined("shared", 12, members=3)
        self.produce(60)
        self.until_all(60)
        one.give(resource(self.kafka.bootstrap, ["orders"], egress("shared", self.sink.url, replicas=1)))
        one.until_joined("shared", 12, members=1)
        self.produce(60, 60)
        self.until_all(120)
        # Members that leave at the same time may have commits refused: at least once, and no more than they had.
        repeated = len(self.sink.bodies()) - 120
        self.assertLessEqual(repeated, 60)
        # Drained and left in order, it has nothing to do again.
        kit.eventually(lambda: sum(self.group.committed("orders", 12).values()) == 120, 20)
        one.stop()
        self.assertEqual(one.process.returncode, 0)
        one.start()
        one.until_joined("shared", 12)
        self.produce(1, 120)
        self.until_all(121)
        self.assertEqual(len(self.sink.bodies()), 121 + repeated)

    def test_KN_T040_brokers_that_say_nonsense(self):
        """In front of the true ones: a frame that ends too early, one that is longer than any, one of garbage."""
        answers = [b"\x00\x00\x03\xe8\x00\x00", b"\x7f\xff\xff\xff" + b"x" * 64, b"\x00\x00\x00\x10" + b"\xff" * 16]
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        served = []

        def serve():
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.settimeout(5)
                    try:
                        peer.recv(4096)
                        peer.sendall(answers[len(served) % len(answers)])
                        served.append(peer)
                    except OSError:
                        pass

        threading.Thread(target=serve, daemon=True).start()
        lying = f"127.0.0.1:{server.getsockname()[1]}"
        one = Dispatcher()
        one.give(resource(f"{lying},{self.kafka.bootstrap}", ["orders"], egress("shared", self.sink.url)),
                 resource(lying, ["orders"], egress("lost", self.sink.url)))
        one.start_for(self)
        kit.eventually(lambda: len(served) >= 6, 30, "each was answered twice")
        one.until_joined("shared", 12)
        self.produce(24)
        self.until_all(24)
        self.assertEqual(one.egress("lost")["members"], 0)


class CommandLine(unittest.TestCase):
    def test_DP_1_what_is_missing_is_asked_for(self):
        for args, text in (((), "--pod"), (("--pod", "p"), "--contract"), (("--pod", "p", "--contract", "c", "--status-address", "x"), "--status-address"),
                           (("--pod", "p", "--contract", "c", "--queued", "0"), "--queued")):  # fmt: skip
            made = run(*args)
            self.assertEqual(made.returncode, 2, made)
            self.assertIn(text, made.stderr)
        self.assertIn("SIGTERM", run("--help").stdout)

    def test_DP_9_without_a_contract_it_waits_and_ends(self):
        one = Dispatcher()
        one.contract = pathlib.Path(one.dir, "later")
        one.start_for(self)
        self.assertIn("there is no contract", one.get("/readyz?verbose") + one.get("/readyz"))
        self.assertIn("later", one.status()["contract"])
        one.give()
        self.assertEqual(one.get("/readyz"), "ok")
        one.stop()
        self.assertEqual(one.process.returncode, 0)


def run(*args):
    return subprocess.run([str(kit.BINARY), "dispatcher", *args], capture_output=True, text=True, check=False, timeout=60)

