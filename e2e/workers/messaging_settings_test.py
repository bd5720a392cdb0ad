"""Settings of addresses at a real broker, and what of addresses is refused (docs/spec/messaging.md)."""
import json
import unittest

import kit
import messaging_addresses


def setUpModule():
    messaging_addresses.begin()


class Settings(messaging_addresses.Two):
    # Settings.
    def test_MS034_expired_and_dead_letters_go_to_queues_of_the_same_broker(self):
        self.use("two")
        self.plan("both", queue={"expiryQueue": "old", "deadLetterQueue": "dead"})
        self.make("orders", plan="both")
        self.until("orders", "Validated", "False", "TargetNotFound")
        self.make("old")
        self.ready("old")
        self.until("orders", "Validated", "False", "TargetNotFound")
        self.forget()
        self.passes()
        self.assertEqual(self.queues(self.broker), [f"{self.space_id}/old"])
        self.make("dead", "deadLetter")
        self.ready("dead", "orders")
        name = self.status("orders")["brokerAddress"]
        found = self.settings(self.broker, name)
        self.assertEqual((found["expiryAddress"], found["deadLetterAddress"]), (f"{self.space_id}/old", f"{self.space_id}/dead"))
        self.assertEqual(self.hosts("orders"), self.hosts("old"))
        # MS-088: a message past its time, and one that nobody takes.
        do = self.open()
        self.assertEqual(do("send", address="orders", bodies=["late"], ttl=1)["accepted"], 1)
        self.assertEqual(do("receive", address="old", count=1, ms=45000)["bodies"], ["late"])

    def test_MS034_who_waits_for_a_queue_goes_on_once_it_is_placed(self):
        self.use("two", "ms034w")
        names = [f"{number}" for number in range(30)]
        for name in names:
            self.plan(f"p{name}", queue={"deadLetterQueue": f"dead{name}"})
            self.make(f"orders{name}", plan=f"p{name}")
        for name in names:
            self.until(f"orders{name}", "Validated", "False", "TargetNotFound")
        for name in names:
            self.make(f"dead{name}", "deadLetter")
        self.ready(*(f"orders{name}" for name in names))

    def test_MS088_what_is_rejected_arrives_in_the_dead_letters(self):
        self.use("two")
        self.plan("dead", queue={"deadLetterQueue": "dead"})
        self.make("dead", "deadLetter")
        self.make("orders", plan="dead")
        self.ready("dead", "orders")
        do = self.open()
        self.assertEqual(do("send", address="orders", bodies=["sour"])["accepted"], 1)
        for _ in range(10):
            if do("receive", address="orders", count=1, outcome="reject", ms=1000).get("late"):
                break
        self.assertEqual(do("receive", address="dead", count=1)["bodies"], ["sour"])

    def test_MS035_what_others_refer_to_stays(self):
        self.use("two")
        self.plan("dead", queue={"deadLetterQueue": "dead"})
        self.make("dead", "deadLetter")
        self.make("orders", plan="dead")
        self.make("news", "topic")
        self.make("sub", "subscription", topic="news")
        self.ready("dead", "orders", "news", "sub")
        for local, referrer in (("dead", "orders"), ("news", "sub")):
            self.delete(local, wait=False)
            kit.eventually(lambda which=local, who=referrer: who in self.tenant.condition("Address", self.name(which))["message"], what=f"{local} names {referrer}")
            self.assertEqual(self.status(local)["phase"], "Terminating")
        self.passes()
        self.assertEqual(self.broker_addresses(self.broker), sorted([f"{self.space_id}/dead", f"{self.space_id}/news", self.status("orders")["brokerAddress"]]))
        for local, referrer in (("dead", "orders"), ("news", "sub")):
            self.delete(referrer)
            self.gone(local)

    def test_MS036_MS037_overrides(self):
        self.use("two")
        self.plan("strict", queue={"ttl": "1h"})
        self.make("other", plan="strict")
        self.make("orders", plan="strict")
        self.ready("other", "orders")
        name, other = self.status("orders")["brokerAddress"], self.status("other")["brokerAddress"]
        before = self.asked("addAddressSettings")
        self.forget()
        self.patch("orders", {"spec": {"queue": {"ttl": "1200s"}}})
        self.assertIn("ttl", self.until("orders", "Validated", "False", "OverridesForbidden")["message"])
        self.passes()
        self.assertEqual((self.asked("addAddressSettings"), self.settings(self.broker, name)["expiryDelay"]), (before, 3600000))
        for router in self.routers["two"]:
            self.assertEqual(self.writes(router, "autoLink"), {})
        self.tenant.client.must("PATCH", self.tenant.path("AddressPlan", "strict"), {"spec": {"allowOverrides": True}},
                                headers=messaging_addresses.messaging.MERGE)
        self.ready("orders")
        found = kit.eventually(lambda: self.settings(self.broker, name)["expiryDelay"] == 1200000 and self.settings(self.broker, name))
        self.assertEqual(found["maxExpiryDelay"], 1200000)
        self.assertEqual(self.settings(self.broker, other)["expiryDelay"], 3600000)
        self.assertEqual(self.asked("addAddressSettings"), before + 1)

    def test_MS041_memory_is_a_bound_with_a_page(self):
        self.use("two")
        self.plan("small", resources={"limits": {"queueMemory": "1Mi"}})
        found = self.settings(self.broker, self.made("orders", plan="small")["brokerAddress"])
        self.assertEqual((found["maxSizeBytes"], found["pageSizeBytes"]), (1 << 20, 1 << 20))

    def test_MS084_another_plan_keeps_the_name_and_sets_it_exactly(self):
        self.use("two")
        self.plan("short", queue={"ttl": "1m"})
        self.plan("long", queue={"ttl": "1h"}, resources={"limits": {"queueDepth": 7}})
        name = self.made("orders", plan="short")["brokerAddress"]
        self.made("stays", plan="short")
        self.forget()
        self.patch("orders", {"spec": {"plan": "long"}})
        found = kit.eventually(lambda: self.settings(self.broker, name)["expiryDelay"] == 3600000 and self.settings(self.broker, name))
        self.assertEqual(found["maxSizeMessages"], 7)
        self.ready("orders")
        self.assertEqual(self.status("orders")["brokerAddress"], name)
        self.assertEqual(self.settings(self.broker, self.status("stays")["brokerAddress"])["expiryDelay"], 60000)
        for router in self.routers["two"]:
            self.assertEqual(self.writes(router), {})

    def test_MS087_a_full_queue_rejects_what_is_sent(self):
        self.use("two")
        self.plan("ten", resources={"limits": {"queueDepth": 10}})
        self.made("orders", plan="ten")
        do = self.open()
        self.assertEqual(do("send", address="orders", count=10)["accepted"], 10)
        said = do("send", address="orders", count=1)
        self.assertEqual((said["accepted"], len(said["rejected"])), (0, 1), said)

    def test_MS081_a_queue_that_is_there_and_another_one_is_set_right(self):
        self.use("two")
        name = f"{self.space_id}/orders"
        self.ask(self.broker, "broker", "createAddress", name, "ANYCAST")
        self.ask(self.broker, "broker", "createQueue", json.dumps({
            "name": name, "address": name, "routing-type": "ANYCAST", "durable": True, "max-consumers": 3}))
        self.client.do("send", connection=self.at(self.broker), address=name, bodies=["kept"])
        before = self.asked("updateQueue")
        self.made("orders")
        self.assertEqual((self.row(self.broker, name)["maxConsumers"], self.asked("updateQueue") - before), ("-1", 1))
        self.assertEqual(self.open()("receive", address="orders")["bodies"], ["kept"])

    # Bad input: section 16, what it says of addresses.
    def test_MS042_names_that_are_not_possible_are_never_sent(self):
        self.use("two")
        self.made("first", address="a.b")
        self.older_than_others("first")
        self.forget()
        before = self.asked("createAddress")
        self.make("second", address="a/b")
        self.make("third", address="a.b")
        for local in ("second", "third"):
            self.assertIn(self.name("first"), self.until(local, "Validated", "False", "AddressConflict")["message"])
        for number, address in enumerate(("x/#", "*/y", "a//b", "$management", "/lead", "q" * 254)):
            self.make(f"bad{number}", address=address)
            self.until(f"bad{number}", "Validated", "False", "InvalidAddress")
        blank = self.tenant.client.request("POST", self.tenant.path("Address"), {
            "apiVersion": "enmasse.io/v1beta1", "kind": "Address", "metadata": {"name": self.name("blank")}, "spec": {"address": "a b", "type": "queue"}})
        self.assertEqual(blank.status, 422)
        self.passes()
        for router in self.routers["two"]:
            self.assertEqual(self.writes(router), {("CREATE", "router.config.address"): 1, ("DELETE", "router.config.address"): 1})
        self.assertEqual(self.asked("createAddress"), before)
        self.delete("first")
        ages = {}  # creationTimestamp has seconds: of two of one second the first uid is the older
        for local in ("second", "third"):
            metadata = self.tenant.get("Address", self.name(local))["metadata"]
            ages[local] = (metadata["creationTimestamp"], metadata["uid"])
        older, younger = sorted(ages, key=ages.get)
        self.ready(older)
        self.until(younger, "Validated", "False", "AddressConflict")

    def test_S16_targets_that_lead_nowhere_or_back(self):
        self.use("two")
        self.plan("free", allowOverrides=True)
        self.make("self", plan="free", queue={"expiryQueue": "self"})
        self.make("left", plan="free", queue={"deadLetterQueue": "right"})
        self.make("right", plan="free", queue={"deadLetterQueue": "left"})
        for local in ("self", "left", "right"):
            self.until(local, "Validated", "False", "TargetCycle")
        self.make("topic", "topic")
        self.make("sub", "subscription", topic="topic")
        self.make("subsub", "subscription", topic="sub")
        self.ready("topic", "sub")
        self.until("subsub", "Validated", "False", "TargetNotFound")
        self.passes()
        self.assertEqual(self.queues(self.broker), [f"{self.space_id}/sub"])
        self.patch("right", {"spec": {"queue": None}})
        self.ready("left", "right")

    def test_S16_a_status_that_somebody_wrote_is_set_right(self):
        self.use("two")
        name = self.made("orders")["brokerAddress"]
        path = self.tenant.path("Address", self.name("orders")) + "/status"
        for wrong in ({"brokers": [{"host": "nowhere", "state": "Active"}]}, {"spaceId": "other-0000000000000"}, {"brokerAddress": "other/orders"},
                      {"phase": "Failed", "isReady": False}):
            with self.subTest(str(wrong)):
                self.tenant.client.must("PATCH", path, {"status": wrong}, headers=messaging_addresses.messaging.MERGE)

                def right():
                    status = self.status("orders")
                    assert self.hosts("orders") == ["b0"] and status["spaceId"] == self.space_id, status
                    return status["brokerAddress"] == name and status["phase"] == "Active" and status["isReady"]

                kit.eventually(right, what="the status is ours again")
        self.assertEqual(self.queues(self.broker), [name])


if __name__ == "__main__":
    unittest.main()
