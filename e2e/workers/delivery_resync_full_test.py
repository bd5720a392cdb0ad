"""What brokers lose is found again by comparing both sides: `kintsugi delivery-hub serve` and real agents (docs/spec/delivery.md, CM-50)."""
import json
import signal

import delivery
import kit
from delivery import MAPS, config_map

ONLY_WITH_ALL = "thousands of objects are applied, and sent again"


def named(uid, **data):
    return {**config_map(uid, **data), "metadata": {"name": uid, "namespace": "default", "uid": uid}}


class Resync(delivery.OwnCase):
    WORKSPACES = ("edge",)

    def names(self, prefix):
        return {one["metadata"]["name"] for one in self.target.must("GET", MAPS)["items"] if one["metadata"]["name"].startswith(prefix)}

    def data(self, name):
        answer = self.target.get(f"{MAPS}/{name}")
        return answer.json.get("data", {}) if answer.status == 200 else None

    def begin(self, profile, *flags):
        broker = self.enterContext(delivery.Broker(profile))
        hub = self.enterContext(delivery.ServedHub(broker, "--resync", *flags))
        return broker, hub, self.enterContext(delivery.Agent(self.stage, broker, delivery={"resync": True}))

    def test_CM_T014_a_broker_whose_queues_are_short(self):
        broker = self.enterContext(delivery.Broker("default"))
        hub = self.enterContext(delivery.ServedHub(broker, "--resync"))
        documents = "\n---\n".join(json.dumps(named(f"many-{number}", a="1")) for number in range(5000))
        (hub.dir / "many.yaml").write_text(documents)
        kit.eventually(lambda: len(hub.book()) == 5000 and "many-4999" in hub.book(), 60)
        agent = self.enterContext(delivery.Agent(self.stage, broker, delivery={"resync": True})).until_ready()
        kit.eventually(lambda: len(self.names("many-")) == 5000, 120, "all are applied")
        kit.eventually(lambda: all(one["answered"] == one["generation"] for one in hub.book().values()), 60, "and answered")
        self.assertEqual(agent.metric("delivery_orders"), 5000)

    def test_CM_T017_CM_T043_a_broker_that_forgets(self):
        broker, hub, agent = self.begin("lossy")
        for uid in ("x", "y", "z"):
            hub.put(uid, named(uid, a="1"))
        agent.until_ready()
        for uid in ("x", "y", "z"):
            hub.until(f"edge/{uid} Reconciled=True")
        agent.stop()
        broker.stop(signal.SIGKILL)
        hub.drop("x")
        hub.put("y", named("y", a="2"))
        broker.start()
        agent.start().until_ready()
        kit.eventually(lambda: self.data("x") is None, 60, "what was deleted meanwhile is gone")
        kit.eventually(lambda: self.data("y") == {"a": "2"}, 60)
        # The agent is there, the broker loses all of it: nothing is deleted, and what was said meanwhile comes.
        broker.stop(signal.SIGKILL)
        hub.put("w", named("w", a="1"))
        broker.start()
        hub.until("edge/w Reconciled=True", deadline=90)
        self.assertEqual((self.data("y"), self.data("z"), self.data("w")), ({"a": "2"}, {"a": "1"}, {"a": "1"}))

    def test_CM_T058_what_the_hub_does_not_know(self):
        broker, hub, agent = self.begin("wide")
        agent.until_ready()
        raw = delivery.Hub(broker)
        self.addCleanup(raw.close)
        raw.send("stranger", config_map("stranger"), 5)
        raw.until("stranger", "Reconciled", "True/Success")
        hub.stop()
        agent.process.kill()
        agent.process.wait(120)
        broker.stop()
        broker.start()  # whose sessions are gone
        hub.start()
        agent.start().until_ready()
        hub.put("mark", named("mark"))
        hub.until("edge/mark Reconciled=True", deadline=60)
        self.assertIsNotNone(self.data("stranger"))
        # A hub that decides deletes it, by its uid alone.
        hub.stop()
        agent.stop()
        broker.stop()
        broker.start()
        hub.flags = (*hub.flags, "--authoritative")
        hub.start()
        agent.start().until_ready()
        hub.until("edge/stranger", "Deleted=True", deadline=60)
        self.assertIsNone(self.data("stranger"))
        self.assertIsNotNone(self.data("mark"))

    def test_CM_T041_CM_T042_statuses_that_differ_are_told_again(self):
        broker = self.enterContext(delivery.Broker("wide"))
        agent = self.enterContext(delivery.Agent(self.stage, broker, delivery={"resync": True})).until_ready()
        raw = delivery.Hub(broker)
        self.addCleanup(raw.close)
        count = 10_000
        for number in range(count):
            uid = f"s-{number}"
            content = {**named(uid), "metadata": {**named(uid)["metadata"], "generation": 1}}
            raw.mqtt.publish(raw.topic(uid), json.dumps({"resourceGenerationID": 1, "content": content}), 1, True, delivery.properties("v1/json"))
        kit.eventually(lambda: len(raw.statuses) >= count, 120, "all are answered")
        hashes = {one.uid: one.user["kintsugi-hash"] for one in raw.statuses}

        def tell(ident):
            items = [{"uid": uid, "statusHash": value} for uid, value in hashes.items()]
            for at in range(0, count, 1000):
                raw.raw(raw.topic("_resync"), json.dumps({"kind": "StatusHashList", "id": ident, "batch": at // 1000 + 1, "of": count // 1000,
                                                          "items": items[at:at + 1000]}).encode(), retain=False)  # fmt: skip

        seen = len(raw.statuses)
        tell("equal")
        raw.send("s-mark-1", config_map("s-mark-1"))
        raw.until("s-mark-1", "Reconciled", "True/Success")
        self.assertEqual([one.uid for one in raw.statuses[seen:]], ["s-mark-1"])
        for uid in ("s-3", "s-5000", "s-9999"):
            hashes[uid] = "0" * 64
        seen = len(raw.statuses)
        tell("other")
        kit.eventually(lambda: len(raw.statuses) >= seen + 3, 30)
        raw.send("s-mark-2", config_map("s-mark-2"))
        raw.until("s-mark-2", "Reconciled", "True/Success")
        told = sorted(one.uid for one in raw.statuses[seen:])
        self.assertEqual(told, ["s-3", "s-5000", "s-9999", "s-mark-1", "s-mark-2"])  # the list does not have the mark
        self.assertEqual(agent.metric("delivery_orders"), count + 2)

    def test_CM_T044_a_deletion_that_overtakes_statuses(self):
        broker = self.enterContext(delivery.Broker("wide"))
        self.enterContext(delivery.Agent(self.stage, broker)).until_ready()
        raw = delivery.Hub(broker)
        self.addCleanup(raw.close)
        for number in range(30):
            uid = f"race-{number}"
            for generation in (1, 2):
                content = {**named(uid, a=str(generation)), "metadata": {**named(uid)["metadata"], "generation": generation}}
                raw.mqtt.publish(raw.topic(uid), json.dumps({"resourceGenerationID": 1, "content": content}), 1, True, delivery.properties("v1/json"))
            raw.send(uid, config_map(uid), 3, deleted=True)
        for number in range(30):
            raw.until(f"race-{number}", "Deleted", "True/Success", 40)
        raw.send("race-mark", config_map("race-mark"))
        raw.until("race-mark", "Reconciled", "True/Success")
        for number in range(30):
            self.assertEqual([one.says("Deleted") for one in raw.of(f"race-{number}")].count("True/Success"), 1)
            self.assertEqual(raw.of(f"race-{number}")[-1].says("Deleted"), "True/Success")
        self.assertEqual(self.names("race-"), {"race-mark"})
