"""What a messaging worker believes of what it finds after a restart, and who keeps an address that two objects name (docs/spec/messaging.md)."""
import json
import time
import unittest

import amqp
import kit
import messaging
import messaging_faults
import messaging_stage


def setUpModule():
    installation = kit.Installation(shards=1).start_for()
    messaging_faults.Case.broker = amqp.Artemis("b0", global_max_size=64 << 20).start_for()
    messaging_faults.Case.stage = messaging_stage.Stage(installation, ("root",))


class Records(messaging_faults.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.one = cls.worker().__enter__()
        cls.addClassCleanup(cls.one.__exit__)

    def setUp(self):
        self.space_id = self.begun(self.one)

    def patch(self, kind, name, body, part=""):
        return self.tenant.client.must("PATCH", self.tenant.path(kind, name) + part, json.dumps(body), headers=messaging.MERGE)

    def brokers(self, local):
        return [one["host"] for one in self.tenant.get("Address", f"space1.{local}").get("status", {}).get("brokers", [])]

    def restart(self, change, stop):
        """Ends the worker, makes a change, begins it again."""
        stop()
        change()
        self.one.start()
        self.one.until_ready()

    def end(self):
        self.assertEqual(self.one.stop(), 0)

    def kill(self):
        self.one.process.kill()
        self.one.process.wait(120)

    def call_broker(self, host, port=None):
        """The infra's broker from now on, by default the same by another name: the one by the name before is gone."""
        endpoint = {"host": host, "address": "127.0.0.1", "port": port or self.broker.port, "group": "default"}
        self.patch("MessagingInfra", "infra1", {"spec": {"brokers": {"endpoints": [endpoint]}}})

    def test_MS056_a_broker_that_is_gone_is_so_after_a_restart(self):
        self.tenant.address("stays")
        self.tenant.ready("stays")
        self.addCleanup(self.call_broker, "b0")
        self.call_broker("b1")
        gone = self.tenant.until("Address", "space1.stays", "Scheduled", reason="BrokerGone")
        self.assertIn("b0", gone["message"])
        for stop in (self.end, self.kill):
            self.restart(lambda: None, stop)
            self.tenant.until("MessagingInfra", "infra1")
            self.tenant.address("new" + stop.__name__)
            self.tenant.ready("new" + stop.__name__)
            self.assertEqual(self.brokers("new" + stop.__name__), ["b1"])
            self.tenant.until("Address", "space1.stays", "Scheduled", reason="BrokerGone")
            self.assertEqual(self.brokers("stays"), ["b0"])
        self.call_broker("b0")
        self.tenant.ready("stays")

    def test_MS056_a_broker_that_goes_while_nobody_looks_is_gone(self):
        for local in ("waits", "moves"):
            self.tenant.address(local)
        self.tenant.ready("waits", "moves")
        self.addCleanup(self.call_broker, "b0")
        for stop in (self.end, self.kill):
            self.restart(lambda: self.call_broker("b1"), stop)
            for local in ("waits", "moves"):
                for which, status in (("Scheduled", "True"), ("Ready", "False")):
                    self.assertIn("b0", self.tenant.until("Address", f"space1.{local}", which, status, "BrokerGone")["message"])
                self.assertEqual(self.brokers(local), ["b0"])
            self.restart(lambda: self.call_broker("b0"), stop)
            for local in ("waits", "moves"):
                self.tenant.until("Address", f"space1.{local}", "Scheduled", reason="Scheduled")
                self.tenant.ready(local)

        other = amqp.Artemis("b1", global_max_size=64 << 20).start_for(self)

        def gone_and_asked():
            self.call_broker("b1", other.port)
            self.patch("Address", "space1.moves", {"metadata": {"annotations": {"enmasse.io/reschedule": "true"}}})

        self.restart(gone_and_asked, self.kill)
        kit.eventually(lambda: self.brokers("moves") == ["b1"], what="what asks for it has moved")
        self.tenant.ready("moves")
        self.tenant.until("Address", "space1.waits", "Scheduled", reason="BrokerGone")
        self.assertEqual(self.brokers("waits"), ["b0"])
        self.call_broker("b0")
        self.tenant.ready("waits")

    def call_brokers(self, *hosts):
        """The infra's one broker by all of these names."""
        endpoints = [{"host": one, "address": "127.0.0.1", "port": self.broker.port, "group": "default"} for one in hosts]
        self.patch("MessagingInfra", "infra1", {"spec": {"brokers": {"max": len(hosts), "endpoints": endpoints}}})

    def asked_of_brokers(self, *operations):
        return sum(self.one.metric("messaging_mgmt_requests_total", component_kind="broker", op=op) for op in operations)

    def refused(self):
        said = self.tenant.until("MessagingInfra", "infra1", "BrokersConnected", "False", "SameBroker", deadline=40)
        for host in ("b0", "b1"):
            self.assertIn(f"broker {host}", said["message"])
        kit.eventually(lambda: self.tenant.condition("MessagingInfra", "infra1")["message"] == said["message"], what="Ready says why")

    def addresses_at_broker(self):
        done, names = self.client.broker("broker", "getAddressNames", connection="broker")
        self.assertTrue(done, names)
        return names

    def test_BH10_two_names_of_one_broker_are_refused_and_nothing_is_lost(self):
        self.tenant.address("kept")
        self.tenant.address("news", "topic")  # without a queue: what nobody wants by a name would go by it
        self.tenant.ready("kept", "news")
        kept, news = f"{self.space_id}/kept", f"{self.space_id}/news"
        self.addCleanup(self.call_brokers, "b0")
        self.call_brokers("b0", "b1")
        self.refused()
        writes = ("createAddress", "createQueue", "deleteAddress", "destroyQueue", "updateQueue", "addAddressSettings", "removeAddressSettings")
        before = self.asked_of_brokers(*writes)
        self.assertGreaterEqual(before, 3)
        self.tenant.address("later")
        self.tenant.address("other", "anycast")
        self.tenant.ready("other")
        self.assertEqual(self.asked_of_brokers(*writes), before)
        self.assertEqual(self.names(self.space_id), [kept])
        for stop in (self.end, self.kill):
            self.restart(lambda: None, stop)
            self.refused()
            self.tenant.address("other" + stop.__name__, "anycast")
            self.tenant.ready("other" + stop.__name__)
            # Until the second has said which one it is the first may make something: nothing goes.
            self.assertEqual(self.asked_of_brokers("deleteAddress", "destroyQueue"), 0)
            self.assertIn(news, self.addresses_at_broker())
        self.call_brokers("b0")
        self.tenant.until("MessagingInfra", "infra1")
        self.tenant.ready("kept", "news", deadline=40)
        brokers = [one["host"] for one in self.tenant.get("Address", "space1.later")["status"]["brokers"]]
        if brokers == ["b1"]:  # by the name that is gone
            self.tenant.until("Address", "space1.later", status="False", reason="BrokerGone")
            self.assertEqual(self.names(self.space_id), [kept])
        else:
            self.tenant.ready("later", deadline=40)
            self.assertEqual(self.names(self.space_id), [kept, f"{self.space_id}/later"])
        self.assertIn(news, self.addresses_at_broker())

    def twins(self):
        """Two Addresses of one spec.address, made in one second, the first of which is there before the second and has the larger uid."""
        for number in range(40):
            kit.eventually(lambda: time.time() % 1 < 0.3, what="a second begins")
            made = []
            for name in (f"first{number}", f"second{number}"):
                made.append(self.tenant.make("Address", {"metadata": {"name": f"space1.{name}"}, "spec": {"address": f"twin{number}", "type": "anycast"}}))
                if len(made) == 1:
                    self.tenant.ready(name)
            first, second = (one["metadata"] for one in made)
            if first["creationTimestamp"] == second["creationTimestamp"] and second["uid"] < first["uid"]:
                return number, first["name"], second["name"]
            for one in (second, first):
                self.tenant.delete("Address", one["name"])
                self.tenant.gone("Address", one["name"])
        raise AssertionError("no such pair in forty tries")

    def at_router(self, local):
        return [one["name"] for one in self.router.dump()["tables"]["address"] if one["pattern"] == f"{self.space_id}/{local}"]

    def test_MS042_of_two_made_in_one_second_the_one_that_is_there_keeps_the_address(self):
        number, first, second = self.twins()
        self.tenant.until("Address", second, "Validated", "False", "AddressConflict")
        [name] = self.at_router(f"twin{number}")
        for stop in (self.end, self.kill):
            self.restart(lambda: None, stop)
            self.tenant.address("beside" + stop.__name__, "anycast")
            self.tenant.ready("beside" + stop.__name__)
            self.assertEqual(self.tenant.condition("Address", first)["status"], "True")
            self.assertEqual(self.tenant.condition("Address", second, "Validated")["reason"], "AddressConflict")
            self.assertEqual(self.at_router(f"twin{number}"), [name])
        self.tenant.delete("Address", first)
        self.tenant.until("Address", second)
        [other] = self.at_router(f"twin{number}")
        self.assertNotEqual(other, name)

    def test_MS042_an_older_one_that_becomes_right_takes_the_address_over(self):
        self.tenant.make("Address", {"metadata": {"name": "space1.older"}, "spec": {"address": "shared", "type": "queue", "messageTtl": {"minimum": 10, "maximum": 5}}})
        self.tenant.until("Address", "space1.older", "Validated", "False")
        made = int(time.time())
        kit.eventually(lambda: int(time.time()) > made, what="another second")
        self.tenant.make("Address", {"metadata": {"name": "space1.younger"}, "spec": {"address": "shared", "type": "queue"}})
        self.tenant.ready("younger")
        [name] = self.at_router("shared")
        self.patch("Address", "space1.older", {"spec": {"messageTtl": None}})
        self.tenant.ready("older")
        self.tenant.until("Address", "space1.younger", "Validated", "False", "AddressConflict")
        [other] = self.at_router("shared")
        self.assertNotEqual(other, name)
        self.assertEqual(self.names(self.space_id).count(f"{self.space_id}/shared"), 1)
        self.restart(lambda: None, self.kill)
        self.tenant.ready("older")
        self.assertEqual(self.tenant.condition("Address", "space1.younger", "Validated")["reason"], "AddressConflict")
        for one in ("younger", "older"):
            self.tenant.delete("Address", f"space1.{one}")
            self.tenant.gone("Address", f"space1.{one}")
        self.assertEqual(self.at_router("shared"), [])

    def test_MR28_errors_of_components_are_a_page(self):
        pattern = f"{self.space_id}/taken"
        self.router.command("create", type="address", name="by-hand", attributes={"pattern": pattern, "distribution": "closest"})
        self.addCleanup(self.router.command, "delete", type="address", name="by-hand")
        self.tenant.address("taken", "anycast")

        def told():
            code, text = self.one.ask("/debug/messaging/errors", self.one.metrics_address)
            self.assertEqual(code, 200)
            errors = [one for one in json.loads(text)["errors"] if one["text"] == "Already exists"]
            assert errors, text
            return errors[-1]

        error = kit.eventually(told, what="the refusal is told")
        self.assertEqual((error["component"], error["host"], error["code"]), ("router", "r1", 400))
        self.assertTrue(error["infra"].endswith("|default/infra1") and error["entity"].startswith("ktg.root.addr."), error)
        self.assertRegex(error["at"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        for path in ("/debug/messaging", "/debug/other/errors"):
            self.assertEqual(self.one.ask(path, self.one.metrics_address)[0], 404)


if __name__ == "__main__":
    unittest.main()
