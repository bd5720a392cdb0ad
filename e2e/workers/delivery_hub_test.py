"""`kintsugi delivery-hub`: orders by command line and by files, with real agents and a real broker (docs/spec/delivery.md)."""
import concurrent.futures
import gzip
import json
import re

import delivery
import kit
from delivery import MAPS, config_map, hub_tool


class Calls(delivery.Case):
    delivery = {"resync": True}

    def file(self, manifest, name="object.json"):
        path = self.broker.dir / name
        path.write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
        return str(path)

    def test_CM_T062_apply_delete_cleanup(self):
        path = self.file("# YAML, several\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: tried, namespace: default}\ndata: {a: '1'}\n---\n"
                         "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: tried-too, namespace: default, uid: second}\n", "two.yaml")  # fmt: skip
        said = hub_tool(self.broker, "send", path, "--wait", "30s")
        self.assertEqual(len(re.findall(r"^edge/\S+ Reconciled=True Success generation=\d+$", said, re.M)), 2, said)
        self.assertEqual(self.data("tried"), {"a": "1"})
        with concurrent.futures.ThreadPoolExecutor() as both:  # each one listens for a while
            lines, texts = both.map(lambda flags: hub_tool(self.broker, "status", *flags), ((), ("--output", "json")))
        self.assertIn("edge/second Reconciled=True", lines)
        shown = [json.loads(line) for line in texts.splitlines()]
        self.assertTrue(all(one["reconcileStatus"]["conditions"] for one in shown))
        said = hub_tool(self.broker, "delete", path, "--wait", "30s")
        self.assertEqual(len(re.findall(r"^edge/\S+ Deleted=True Success", said, re.M)), 2, said)
        self.assertIsNone(self.data("tried"))
        self.assertIn("second/status", self.hub.retained())
        hub_tool(self.broker, "cleanup", path)
        self.assertNotIn("second", " ".join(self.hub.retained()))

    def test_CM_29_variables_name_broker_and_client(self):
        path = self.file(config_map("named"))
        variables = {"CONCERTMASTER_BROKER_URL": self.broker.url, "CONCERTMASTER_CLIENT_ID": "edge", "CONCERTMASTER_TOPIC_PREFIX": "v1/"}
        self.assertIn("Success", hub_tool(self.broker, "send", path, "--wait", "30s", env=variables))

    def test_CM_29_what_cannot_be_says_so_by_its_status(self):
        refused = self.file({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "missing"}})
        self.assertIn("CreateFailed", hub_tool(self.broker, "send", refused, "--wait", "30s", expect=1))
        fine = self.file(config_map("nobody"))
        self.assertIn("no answer", hub_tool(self.broker, "send", fine, "--wait", "1s", client="nobody", expect=3))
        for args, text in ((("send",), "say one of"), (("send", fine, "--prefix", "x"), "--prefix"), (("serve",), "--dir"),
                           (("status", "--output", "xml"), "--output"), (("nonsense",), "say one of")):  # fmt: skip
            self.assertIn(text, hub_tool(self.broker, *args, expect=2))
        self.assertIn("outside of this machine", hub_tool(self.broker, "status", "--broker", "mqtt://127.evil.example.com", env={}, expect=2))
        self.assertIn("kind", hub_tool(self.broker, "send", self.file("{}"), expect=1))
        self.assertIn("broker", hub_tool(self.broker, "status", "--broker", f"mqtt://127.0.0.1:{kit.free_port()}", "--client", "edge", env={}, expect=1))
        self.assertIn("Exit status", hub_tool(self.broker, "--help", env={}))

    def test_CM_26_CM_27_CM_T049_files_are_what_is_wanted(self):
        served = delivery.ServedHub(self.broker)
        served.put("one", config_map("served", a="1"))
        with served as hub:
            first = hub.until("Reconciled=True")
            uid = re.match(r"edge/(\S+)", first)[1]
            self.assertEqual(self.data("served"), {"a": "1"})
            hub.put("one", config_map("served", a="2"))
            kit.eventually(lambda: self.data("served") == {"a": "2"}, 20)
            (hub.dir / "broken.yaml").write_text("kind: [")
            hub.until("broken.yaml", "stay as they are")
            # The last word comes while the hub is away, and is worked through when it is back.
            hub.drop("one")
            kit.eventually(lambda: self.data("served") is None, 20)
            hub.until(uid, "Deleted=True")
            kit.eventually(lambda: uid not in " ".join(self.hub.retained()), 20, "neither content nor status is retained")
            hub.put("two", {**config_map("away"), "metadata": {"name": "away", "namespace": "default", "uid": "away"}})
            hub.until("edge/away", "Reconciled=True")
            hub.stop()
            self.hub.send("away", config_map("away"), hub.book()["away"]["generation"] + 1, deleted=True)
            self.hub.until("away", "Deleted", "True/Success")
            hub.drop("two")
            hub.start()
            kit.eventually(lambda: "away" not in " ".join(self.hub.retained()), 20, "neither is retained")

    def test_CM_52_CM_T057_statuses_of_an_older_sequence_are_dropped(self):
        served = delivery.ServedHub(self.broker)
        served.put("seq", {**config_map("seq"), "metadata": {"name": "seq", "namespace": "default", "uid": "seq"}})
        with served as hub:
            hub.until("edge/seq", "Reconciled=True")
            hub.stop()
            kept = hub.book()["seq"]
            self.assertGreater(kept["sequence"], 1 << 32)
            hub.start()
            body = json.dumps({"resourceGenerationID": "1", "reconcileStatus": {"conditions": [
                {"type": "Reconciled", "status": "False", "reason": "Old", "message": ""}]}, "contentStatus": None}).encode()  # fmt: skip
            generation = str(kept["generation"])
            self.hub.raw(self.hub.topic("seq", "status"), body, retain=False, user=[("kintsugi-seq", "7"), ("kintsugi-generation", generation)])
            self.hub.raw(self.hub.topic("seq", "status"), body.replace(b"Old", b"New"), retain=False,
                         user=[("kintsugi-seq", str(kept["sequence"] + 1)), ("kintsugi-generation", generation)])  # fmt: skip
            hub.until("edge/seq", "New")
            self.assertFalse([line for line in hub.lines() if " Old" in line])

    def test_CM_51_lists_that_are_none_are_ignored(self):
        ignored = self.agent.metric("delivery_messages_total", result="ignored")
        bad = [b"{", b'{"kind":"StatusHashList","batch":5,"of":3,"items":[]}', b'{"kind":"VersionList","items":[]}', b"\xff\xfe"]
        for one in bad:
            self.hub.raw(self.hub.topic("_resync"), one, retain=False)
        self.hub.raw(self.hub.topic("_other"), b"{}", retain=False)
        kit.eventually(lambda: self.agent.metric("delivery_messages_total", result="ignored") == ignored + len(bad) + 1, 20)
        self.hub.send("still", config_map("still"))
        self.hub.until("still", "Reconciled", "True/Success")

    def test_CM_54_the_same_refusal_is_told_once(self):
        self.hub.raw(self.hub.topic("refused"), b'{"resourceGenerationID":7,"content":{"metadata":{"generation":4}}}')
        self.hub.until("refused", "Reconciled", "False/InvalidManifest")
        same = self.agent.metric("delivery_messages_total", result="same")
        self.hub.raw(self.hub.topic("refused"), b'{"resourceGenerationID":7,"content":{"metadata":{"generation":4}}}')
        kit.eventually(lambda: self.agent.metric("delivery_messages_total", result="same") > same, 20)
        self.assertEqual(len(self.hub.of("refused")), 1)

    def test_CM_50_the_agent_says_what_it_has(self):
        self.hub.send("listed", config_map("listed"), 3)
        self.hub.until("listed", "Reconciled", "True/Success")
        kit.eventually(lambda: self.hub.lists and self.hub.lists[0]["kind"] == "VersionList", 20, "a list when the session is new")
        # What the hub has otherwise is told again, and nothing else.
        self.assertEqual(self.target.get(f"{MAPS}/listed").status, 200)
        hashes = {one.uid: one.user["kintsugi-hash"] for one in self.hub.statuses}
        hashes["listed"] = "0" * 64
        before = len(self.hub.statuses)
        told = json.dumps({"kind": "StatusHashList", "id": "a", "batch": 1, "of": 1, "items": [
            {"uid": uid, "statusHash": value} for uid, value in [*hashes.items(), ("unknown", "")]]})  # fmt: skip
        self.hub.raw(self.hub.topic("_resync"), gzip.compress(told.encode()), "v1/json+gzip", retain=False)
        kit.eventually(lambda: len(self.hub.of("listed")) == 2, 20)
        self.hub.send("mark", config_map("mark"))
        self.hub.until("mark", "Reconciled", "True/Success")
        self.assertEqual([one.uid for one in self.hub.statuses[before:]], ["listed", "mark"])
