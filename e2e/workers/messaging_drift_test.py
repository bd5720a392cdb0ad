"""What becomes of addresses when somebody changes entities of components behind the worker's back (docs/spec/messaging.md)."""
import contextlib
import json
import signal
import unittest

import kit
import messaging_addresses

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def setUpModule():
    messaging_addresses.begin()


class Drift(messaging_addresses.Two):
    """Everything is checked often."""

    CHECKS = {"counters": "500ms", "sweep": "1s", "links": "1s"}

    def repairs(self, component, kind):
        return self.worker.metric("messaging_drift_repairs_total", component=component, type=kind)

    @contextlib.contextmanager
    def worker_asleep(self):
        """It sends nothing, and the broker has done what it was sent before."""
        self.worker.process.send_signal(signal.SIGSTOP)
        try:
            self.row(self.broker, "")
            yield
        finally:
            self.worker.process.send_signal(signal.SIGCONT)

    def told(self, about, *words, reason="DriftRepaired"):
        """An event about that object with these words."""
        def there():
            notes = [one["note"] for one in self.tenant.client.must("GET", EVENTS)["items"]
                     if one["regarding"]["name"] == about and one["reason"] == reason]
            assert any(all(word in note for word in words) for note in notes), notes
            return True

        kit.eventually(there, what=f"an event about {about}")

    def test_MS049_an_address_that_was_deleted_by_hand_comes_back(self):
        self.use("two")
        self.made("orders")
        [had] = self.of(self.one)
        before = self.repairs("two-r0", "address")
        self.one.command("delete", type="address", name=had["name"])
        again = kit.eventually(lambda: self.of(self.one), what="the address is there again")
        self.assertEqual([(one["name"], one["pattern"]) for one in again], [(had["name"], had["pattern"])])
        kit.eventually(lambda: self.repairs("two-r0", "address") == before + 1, what="the repair is counted")
        self.told(self.name("orders"), "address", had["name"], "two-r0", "missing")

    def test_MS049_a_link_that_was_deleted_by_hand_is_missed_by_its_count(self):
        self.use("two")
        self.made("orders")
        had = self.of(self.one, "autoLink")
        self.one.command("delete", type="autoLink", name=had[0]["name"])
        kit.eventually(lambda: sorted(one["name"] for one in self.of(self.one, "autoLink")) == sorted(one["name"] for one in had))
        self.ready("orders")

    def test_MS050_an_autolink_that_somebody_replaced_is_replaced_back(self):
        self.use("two")
        self.made("orders")
        [had] = [one for one in self.of(self.one, "autoLink") if one["direction"] == "in"]
        self.one.command("delete", type="autoLink", name=had["name"])
        self.one.command("create", type="autoLink", name=had["name"],
                         attributes={"address": "elsewhere", "direction": "in", "connection": had["connection"], "externalAddress": "x"})
        kit.eventually(lambda: self.one.rows("autoLink")[had["name"]]["address"] == had["address"], what="it is ours again")
        self.assertEqual(self.one.rows("autoLink")[had["name"]]["externalAddress"], had["externalAddress"])
        self.told(self.name("orders"), "autoLink", had["name"], "another")
        self.ready("orders")

    def test_MS051_foreign_entities_stay_and_orphans_go(self):
        self.use("two")
        self.made("orders")
        [connector] = self.one.rows("connector")
        [ours] = self.of(self.one)
        prefix = ours["name"].rpartition(".")[0]
        self.one.command("create", type="address", name="theirs", attributes={"pattern": "theirs"})
        self.one.command("create", type="autoLink", name="theirs", attributes={"address": "theirs", "direction": "in", "connection": connector})
        self.one.command("create", type="address", name=prefix + ".left", attributes={"pattern": "left"})
        self.ask(self.broker, "broker", "createAddress", "theirs/q", "ANYCAST")
        left = f"{self.space_id}/left"
        with self.worker_asleep():  # the address alone would be taken away before the queue comes
            self.ask(self.broker, "broker", "createAddress", left, "ANYCAST")
            self.ask(self.broker, "broker", "createQueue", json.dumps({"name": left, "address": left, "routing-type": "ANYCAST", "durable": True}))
        kit.eventually(lambda: prefix + ".left" not in self.one.rows("address"), what="the orphan is gone")
        kit.eventually(lambda: left not in self.broker_addresses(self.broker), what="the orphan is gone from the broker")
        self.assertEqual((len(self.one.rows("address")), "theirs" in self.one.rows("address"), "theirs" in self.one.rows("autoLink")), (2, True, True))
        self.assertIn("theirs/q", self.ask(self.broker, "broker", "getAddressNames"))
        self.told("two", "address", prefix + ".left", "nobody's")
        self.told("two", "autoLink", "theirs", "two-r0", "stays", reason="ForeignEntity")
        self.one.command("delete", type="autoLink", name="theirs")
        self.one.command("delete", type="address", name="theirs")
        self.ask(self.broker, "broker", "deleteAddress", "theirs/q")
        self.ready("orders")

    def test_MS052_queues_and_settings_are_set_right(self):
        self.use("two")
        self.plan("short", queue={"ttl": "1m"})
        name = self.made("orders", plan="short")["brokerAddress"]
        match = name.partition(".")[0] + ".#"
        self.ask(self.broker, "broker", "destroyQueue", name, True)
        kit.eventually(lambda: self.queues(self.broker) == [name], what="the queue is there again")
        self.told(self.name("orders"), "queue", name, "missing")
        self.assertEqual(self.settings(self.broker, name)["expiryDelay"], 60000)
        self.ask(self.broker, "broker", "addAddressSettings", match, json.dumps({"expiryDelay": 5}))
        kit.eventually(lambda: self.settings(self.broker, name)["expiryDelay"] == 60000, what="the settings are ours again")
        self.told(self.name("orders"), "addressSettings", match)
        self.ready("orders")

    def test_MS052_a_queue_with_messages_is_never_destroyed(self):
        self.use("two")
        name = self.made("orders")["brokerAddress"]
        self.delete("orders")
        with self.worker_asleep():  # an empty one would be taken away before the message comes
            self.ask(self.broker, "broker", "createAddress", name, "ANYCAST")
            self.ask(self.broker, "broker", "createQueue", json.dumps({
                "name": name, "address": name, "routing-type": "ANYCAST", "durable": False, "max-consumers": 2}))
            self.assertEqual(self.client.do("send", connection=self.at(self.broker), address=name, bodies=["kept"])["accepted"], 1)
        self.told("two", "queue", name, "stays", reason="ForeignEntity")
        self.assertEqual(self.row(self.broker, name)["messageCount"], "1")
        self.make("orders")
        self.assertIn("durable", self.until("orders", "Created", "False", "Refused")["message"])
        kit.eventually(lambda: self.row(self.broker, name)["maxConsumers"] == "-1", what="what can be changed is changed")
        self.assertEqual(self.row(self.broker, name)["messageCount"], "1")


if __name__ == "__main__":
    unittest.main()
