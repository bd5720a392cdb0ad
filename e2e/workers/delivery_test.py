"""Manifests over MQTT, by a real broker and a hub that this project did not write (docs/spec/delivery.md)."""
import json
import signal
import struct
import zlib

import delivery
import kit
from delivery import MAPS, config_map

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.test.dev"},
    "spec": {"group": "test.dev", "scope": "Namespaced", "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp", "listKind": "LampList"},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}  # fmt: skip


def a_bomb():
    """1 GiB of blanks by gzip, made of one packed MiB again and again: nobody has to pack all of it."""
    blanks, packer = b" " * (1 << 20), zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(blanks) + packer.flush(zlib.Z_FULL_FLUSH)  # that knows nothing of what is before it
    checksum, size = 0x9AC47FA6, 1 << 30
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + piece * 1024 + b"\x03\0" + struct.pack("<II", checksum, size)


class Orders(delivery.Case):
    def test_CM_T001_an_object_is_applied_and_told(self):
        self.hub.send("u-1", config_map("one", a="1"), 12, '"12345"')
        status = self.hub.until("u-1", "Reconciled", "True/Success")
        self.assertEqual(self.data("one"), {"a": "1"})
        meta = self.target.must("GET", f"{MAPS}/one")["metadata"]
        self.assertEqual(meta["labels"], {"concertmaster-cache": "True"})
        self.assertEqual(meta["annotations"]["concertmaster/server-uid"], "u-1")
        self.assertEqual(meta["annotations"]["concertmaster/generation"], "12")
        # The fields of the protocol, and no others; what is more stands in properties.
        self.assertEqual(set(status.json), {"sentTimestamp", "resourceGenerationID", "reconcileStatus", "contentStatus"})
        self.assertEqual(status.json["resourceGenerationID"], "12345")
        self.assertEqual(status.json["reconcileStatus"]["creationTimestamp"], meta["creationTimestamp"])
        self.assertEqual((status.topic, status.type), ("v1/edge/u-1/status", "v1/json"))
        self.assertEqual(status.user["kintsugi-generation"], "12")
        self.assertEqual(len(status.user["kintsugi-hash"]), 64)

    def test_CM_T002_an_id_is_echoed_byte_for_byte(self):
        for number, ident in enumerate(("12345", "1.50", "null", '"a\\u0041\\/"')):
            self.hub.send(f"id-{number}", config_map(f"id-{number}"), 1, ident)
            status = self.hub.until(f"id-{number}", "Reconciled", "True/Success")
            self.assertIn(f'"resourceGenerationID":{ident},'.encode(), status.raw)
        self.hub.send("id-long", config_map("id-long"), 1, '"' + "x" * 300 + '"')
        self.hub.until("id-long", "Reconciled", "False/InvalidManifest")

    def test_CM_T003_gzip_in_and_out(self):
        self.hub.send("zip", config_map("zip", a="1"), zipped=True)
        self.assertIn(self.hub.until("zip", "Reconciled", "True/Success").type, ("v1/json", "v1/json+gzip"))
        self.assertEqual(self.data("zip"), {"a": "1"})

    def test_CM_T004_other_content_types(self):
        body = json.dumps({"resourceGenerationID": 1, "content": {**config_map("typed"), "metadata": {
            "uid": "x", "name": "typed", "namespace": "default", "generation": 1}}}).encode()  # fmt: skip
        for number, kind in enumerate((None, "json", "v1", "v9/json", "v1/json+zstd", "V1/json")):
            self.hub.raw(self.hub.topic(f"typed-{number}"), body, kind)
            self.hub.until(f"typed-{number}", "Reconciled", "False/UnsupportedContentType")
        self.assertIsNone(self.data("typed"))

    def test_CM_T005_a_gzip_bomb(self):
        before = kit.own_memory(self.agent.process.pid)
        self.hub.raw(self.hub.topic("bomb"), a_bomb(), "v1/json+gzip")
        self.hub.until("bomb", "Reconciled", "False/InvalidManifest")
        self.assertLess(kit.own_memory(self.agent.process.pid) - before, 16 << 20)

    def test_CM_T006_CM_T007_and_bad_input_is_answered(self):
        good = {"uid": "bad", "name": "bad", "namespace": "default", "generation": 1}
        whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": good}
        bad = [json.dumps({"resourceGenerationID": 1, "content": {**whole, "metadata": {k: v for k, v in good.items() if k != gone}}})
               for gone in ("uid", "name", "generation")]
        bad += [json.dumps({"content": {**whole, "kind": ""}}), json.dumps({"content": {**whole, "metadata": {**good, "uid": "other"}}}),
                json.dumps({"content": {**whole, "metadata": {**good, "deletionTimestamp": "yesterday"}}}),
                json.dumps({"content": {**whole, "apiVersion": "a/b/c"}}), "{", "null", "", '{"content":[]}',
                json.dumps({"content": whole}).replace("}", ',"uid":"bad"}', 1), "[" * 400]
        bad += [json.dumps({"content": {**whole, "metadata": {**good, "generation": one}}}) for one in (0, -1, 1.5, "12", 2**64)]
        sent = [one for one in bad if one]
        for one in sent:
            self.hub.raw(self.hub.topic("bad"), one.encode())
        self.hub.raw(self.hub.topic("bad"), json.dumps({"content": whole}).encode().replace(b"ConfigMap", b"\xff\xfe"))
        kit.eventually(lambda: len(self.hub.of("bad")) >= 1, 20)
        kit.eventually(lambda: self.agent.metric("delivery_messages_total", result="refused") >= len(sent) + 1, 20, "all are refused")
        self.assertEqual({one.says("Reconciled") for one in self.hub.of("bad")}, {"False/InvalidManifest"})
        self.assertIsNone(self.data("bad"))
        self.hub.send("after", config_map("after"))
        self.hub.until("after", "Reconciled", "True/Success")

    def test_CM_T008_a_namespace_is_asked_for(self):
        self.hub.send("no-ns", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "no-ns"}})
        self.assertIn("namespace", self.hub.until("no-ns", "Reconciled", "False/CreateFailed").conditions["Reconciled"]["message"])
        self.hub.send("missing-ns", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "missing"}})
        self.assertIn("missing", self.hub.until("missing-ns", "Reconciled", "False/CreateFailed").conditions["Reconciled"]["message"])

    def test_CM_T009_a_namespace_that_is_not_used(self):
        self.hub.send("space", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "space", "namespace": "default"}})
        self.assertIn("not used", self.hub.until("space", "Reconciled", "True/Success").conditions["Reconciled"]["message"])

    def test_CM_T010_CM_T055_a_kind_that_is_served_later_and_not_any_more_and_again(self):
        self.hub.send("lamp", {"apiVersion": "test.dev/v1", "kind": "Lamp", "metadata": {"name": "lamp", "namespace": "default"}, "spec": {"a": 1}})
        self.hub.until("lamp", "Reconciled", "False/KindNotServed")
        self.target.must("POST", DEFINITIONS, DEFINITION)
        self.hub.until("lamp", "Reconciled", "True/Success", 40)
        lamp = "/apis/test.dev/v1/namespaces/default/lamps/lamp"
        # What its controller says is told, and not every time.
        seen = len(self.hub.of("lamp"))
        for number in range(40):
            self.target.must("PATCH", lamp + "/status", {"status": {"n": number}}, headers={"Content-Type": "application/merge-patch+json"})
        kit.eventually(lambda: self.hub.of("lamp")[-1].json["contentStatus"] == {"n": 39}, 20, "the last one is told")
        self.assertLess(len(self.hub.of("lamp")) - seen, 40)
        seen = len(self.hub.of("lamp"))
        # The kind goes slowly: the object is gone and may not be made again, and the kind is served still.
        lamps = lamp.removesuffix("/lamp")
        self.target.must("POST", lamps, {"apiVersion": "test.dev/v1", "kind": "Lamp", "metadata": {"name": "held", "finalizers": ["test.dev/held"]}})
        self.target.must("DELETE", DEFINITIONS + "/lamps.test.dev")
        kit.eventually(lambda: self.target.get(lamp).status == 404, 30, "objects of the kind go")
        kit.stays(lambda: self.target.get(lamp).status, 1)
        self.target.must("PATCH", lamps + "/held", {"metadata": {"finalizers": []}}, headers={"Content-Type": "application/merge-patch+json"})
        self.hub.until("lamp", "Reconciled", "False/KindNotServed", 60, seen)
        seen = len(self.hub.of("lamp"))
        kit.eventually(lambda: self.target.request("POST", DEFINITIONS, DEFINITION).status == 201, 30)
        self.hub.until("lamp", "Reconciled", "True/Success", 40, seen)
        self.assertEqual(self.target.must("GET", lamp)["spec"], {"a": 1})

    def test_CM_T011_CM_T012_the_greater_generation_counts(self):
        self.hub.send("order", config_map("order", a="12"), 12, '"a"')
        self.hub.until("order", "Reconciled", "True/Success")
        self.hub.send("order", config_map("order", a="13"), 13, '"b"')
        self.hub.until("order", "Reconciled", "True/Success", after=1)
        older = self.agent.metric("delivery_messages_total", result="older")
        self.hub.send("order", config_map("order", a="late"), 12, '"c"')
        kit.eventually(lambda: self.agent.metric("delivery_messages_total", result="older") > older, 20)
        self.assertEqual(self.data("order"), {"a": "13"})
        self.assertNotIn("c", [one.json["resourceGenerationID"] for one in self.hub.of("order")])

    def test_CM_T013_the_same_message_again(self):
        for _ in range(100):
            self.hub.send("same", config_map("same", a="1"))
        self.hub.until("same", "Reconciled", "True/Success")
        kit.eventually(lambda: self.agent.metric("delivery_messages_total", result="same") >= 99, 20)
        self.assertLessEqual(len(self.hub.of("same")), 2)

    def test_CM_T022_an_empty_deletion_is_none(self):
        self.hub.send("empty", config_map("empty"), deletionTimestamp="")
        self.hub.until("empty", "Reconciled", "True/Success")

    def test_CM_T030_CM_T031_what_belongs_to_another(self):
        self.hub.send("mine", config_map("owned", a="1"))
        self.hub.until("mine", "Reconciled", "True/Success")
        self.hub.send("yours", config_map("owned", a="2"))
        self.hub.until("yours", "Reconciled", "False/NotOwned")
        self.target.must("POST", MAPS, config_map("foreign", a="1"))
        self.hub.send("theirs", config_map("foreign", a="2"))
        self.hub.until("theirs", "Reconciled", "False/NotOwned")
        self.hub.send("theirs", config_map("foreign"), 2, deleted=True)
        self.hub.until("theirs", "Deleted", "False/NotOwned")
        self.assertEqual((self.data("owned"), self.data("foreign")), ({"a": "1"}, {"a": "1"}))

    def test_CM_T032_CM_T033_changes_of_users_are_taken_back(self):
        self.hub.send("kept", config_map("kept", a="1"))
        self.hub.until("kept", "Reconciled", "True/Success")
        self.target.must("PATCH", f"{MAPS}/kept", {"data": {"a": "mine"}}, headers={"Content-Type": "application/merge-patch+json"})
        kit.eventually(lambda: self.data("kept") == {"a": "1"}, 10, "taken back")
        self.hub.send("again", config_map("again", a="1"))
        self.hub.until("again", "Reconciled", "True/Success")
        uid = self.target.must("GET", f"{MAPS}/again")["metadata"]["uid"]
        self.target.must("DELETE", f"{MAPS}/again")
        kit.eventually(lambda: self.data("again") == {"a": "1"}, 20, "made again")
        self.assertNotEqual(self.target.must("GET", f"{MAPS}/again")["metadata"]["uid"], uid)

    def test_CM_T036_CM_T065_what_the_agent_may_not_do(self):
        self.hub.send("secret", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
                                 "stringData": {"a": "hush-hush-hush"}})  # fmt: skip
        self.hub.until("secret", "Reconciled", "False/Forbidden")
        self.assertNotIn("hush-hush-hush", self.agent.log.read_text())

    def test_CM_T038_what_is_too_large(self):
        self.hub.send("mib", config_map("mib", a="x" * 900_000))
        self.hub.until("mib", "Reconciled", "True/Success", 60)
        self.hub.send("large", config_map("large", a="x" * (3 << 20)))
        self.hub.until("large", "Reconciled", "False/TooLarge", 60)
        self.hub.raw(self.hub.topic("huge"), b"x" * (16 << 20), retain=False)  # the broker keeps it from us, by our bound
        self.hub.send("next", config_map("next"))
        self.hub.until("next", "Reconciled", "True/Success", 60)

    def test_CM_T046_time_decides_nothing(self):
        for generation, when in ((1, 2_000_000_000), (2, 5)):
            content = {**config_map("time", a=str(generation)), "metadata": {"name": "time", "namespace": "default", "uid": "time",
                                                                            "generation": generation}}  # fmt: skip
            self.hub.raw(self.hub.topic("time"), json.dumps({"sentTimestamp": when, "resourceGenerationID": 1, "content": content}).encode())
        kit.eventually(lambda: self.data("time") == {"a": "2"}, 20)

    def test_CM_41_other_topics_are_left_alone(self):
        ignored = self.agent.metric("delivery_messages_total", result="ignored")
        self.hub.raw(self.hub.topic("_resync"), b"{}")
        kit.eventually(lambda: self.agent.metric("delivery_messages_total", result="ignored") > ignored, 20)
        self.assertEqual(self.hub.of("_resync"), [])

    def test_CM_T021_CM_T026_an_object_is_deleted(self):
        self.hub.send("d-1", config_map("d-1"))
        self.hub.until("d-1", "Reconciled", "True/Success")
        self.hub.send("d-1", config_map("d-1"), 2, '"bye"', deleted=True)
        status = self.hub.until("d-1", "Deleted", "True/Success")
        self.assertIsNone(self.data("d-1"))
        self.assertIsNone(status.json["contentStatus"])
        self.assertNotIn("observedGeneration", status.json["reconcileStatus"])
        self.assertEqual(status.json["resourceGenerationID"], "bye")
        seen = len(self.hub.of("d-1"))
        self.hub.send("d-1", config_map("d-1"), 2, '"bye"', deleted=True)
        self.hub.until("d-1", "Deleted", "True/Success", after=seen)

    def test_CM_T025_what_never_was(self):
        self.hub.send("never", config_map("never"), deleted=True)
        self.hub.until("never", "Deleted", "True/Success")

    def test_CM_T029_applied_anew(self):
        self.hub.send("anew", config_map("anew"))
        self.hub.until("anew", "Reconciled", "True/Success")
        self.hub.send("anew", config_map("anew"), 2, deleted=True)
        self.hub.until("anew", "Deleted", "True/Success")
        self.hub.send("anew", config_map("anew", a="2"), 3)
        kit.eventually(lambda: self.data("anew") == {"a": "2"}, 20)

    def test_CM_T023_finalizers_are_waited_for(self):
        self.hub.send("held", {**config_map("held"), "metadata": {"name": "held", "namespace": "default", "finalizers": ["test.dev/hold"]}})
        self.hub.until("held", "Reconciled", "True/Success")
        self.hub.send("held", config_map("held"), 2, deleted=True)
        self.assertIn("test.dev/hold", self.hub.until("held", "Deleted", "False/WaitingForFinalizers").conditions["Deleted"]["message"])
        self.assertNotIn("True/Success", [one.says("Deleted") for one in self.hub.of("held")])
        self.target.must("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}}, headers={"Content-Type": "application/merge-patch+json"})
        self.hub.until("held", "Deleted", "True/Success")

    def test_CM_T028_an_object_that_is_let_go(self):
        self.hub.send("free", config_map("free", a="1"))
        self.hub.until("free", "Reconciled", "True/Success")
        forgotten = self.agent.metric("delivery_messages_total", result="forgotten")
        self.hub.clear("free")
        kit.eventually(lambda: self.agent.metric("delivery_messages_total", result="forgotten") > forgotten, 20)
        self.target.must("PATCH", f"{MAPS}/free", {"data": {"a": "mine"}}, headers={"Content-Type": "application/merge-patch+json"})
        self.hub.send("mark", config_map("mark"))
        self.hub.until("mark", "Reconciled", "True/Success")
        self.assertEqual(self.data("free"), {"a": "mine"})

    def test_CM_T056_another_object_of_the_name(self):
        held = {**config_map("heir"), "metadata": {"name": "heir", "namespace": "default", "finalizers": ["test.dev/hold"]}}
        self.hub.send("heir", held)
        self.hub.until("heir", "Reconciled", "True/Success")
        self.hub.send("heir", held, 2, deleted=True)
        self.hub.until("heir", "Deleted", "False/WaitingForFinalizers")
        self.agent.process.send_signal(signal.SIGSTOP)
        try:
            self.target.must("PATCH", f"{MAPS}/heir", {"metadata": {"finalizers": None}}, headers={"Content-Type": "application/merge-patch+json"})
            kit.eventually(lambda: self.target.request("POST", MAPS, config_map("heir", a="user")).status == 201, 10)
        finally:
            self.agent.process.send_signal(signal.SIGCONT)
        self.hub.until("heir", "Deleted", "True/Success", 40)
        self.assertEqual(self.data("heir"), {"a": "user"})
