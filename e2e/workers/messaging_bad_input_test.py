"""What the messaging worker makes of input that is wrong, as far as no other topic looks at it: names of addresses, topics of other spaces, answers of
brokers and routers that are none (docs/spec/messaging.md)."""
import json
import unittest

import amqp
import kit
import messaging
import messaging_addresses


def setUpModule():
    messaging_addresses.begin()


class BadInput(messaging_addresses.Case):
    CHECKS = {"counters": "500ms", "sweep": "1h", "links": "1h"}

    @classmethod
    def infras(cls):
        cls.infra("one", 1, cls.brokers)
        cls.tamper = amqp.Tamper(cls.brokers[0]).start_for(cls)
        cls.tamper.garble("GlobalMaxSize", "number")
        cls.infra("garbled", 1, [cls.tamper])

    def setUp(self):
        self.broker = self.brokers[0]

    def errors(self, host, infra):
        """What the worker says of exchanges with that component that failed."""
        code, text = self.worker.ask("/debug/messaging/errors", self.worker.metrics_address)
        self.assertEqual(code, 200)
        return [one["text"] for one in json.loads(text)["errors"] if one["host"] == host and one["infra"].endswith("/" + infra)]

    def test_S16_names_with_control_characters_are_never_sent(self):
        self.use("one")
        [router] = self.routers["one"]
        self.made("good")
        before = {op: self.asked(op) for op in ("createAddress", "createQueue")}
        self.forget()
        for number, address in enumerate(("a\0b", "\0", "a\x01b", "a\x7fb", "/lead", "trail/", "$management", "$management/x")):
            with self.subTest(repr(address)):
                self.make(f"bad{number}", address=address)
                why = self.until(f"bad{number}", "Validated", "False", "InvalidAddress")
                self.assertIn("spec.address: must ", why["message"])
                self.assertEqual(self.status(f"bad{number}")["phase"], "Failed")
        self.passes()
        self.assertEqual(self.writes(router), {("CREATE", "router.config.address"): 1, ("DELETE", "router.config.address"): 1})
        self.assertEqual({op: self.asked(op) for op in before}, before)
        self.ready("good")

    def test_S16_a_topic_of_another_space_is_none(self):
        self.use("one", "other")
        self.made("news", "topic")
        self.use("one", "mine")
        self.forget()
        before = self.asked("createQueue")
        for local, topic in (("sub", "news"), ("whole", "other.news"), ("slash", "other/news")):
            self.make(local, "subscription", topic=topic)
            self.assertIn(topic, self.until(local, "Validated", "False", "TargetNotFound")["message"])
        self.passes()
        self.assertEqual((self.queues(self.broker), self.asked("createQueue"), self.of(self.routers["one"][0], "autoLink")), ([], before, []))
        self.made("news", "topic")  # of this space
        self.ready("sub")

    def test_S16_answers_of_a_broker_that_are_none(self):
        self.use("garbled")
        self.assertIn("GlobalMaxSize is not a number", self.errors("b0", "garbled"))
        kit.eventually(lambda: int(self.tenant.get("MessagingInfra", "garbled")["status"]["capacity"]["queueMemory"]) == messaging_addresses.SIZE,
                       what="it was asked again")
        for how, said in (("text", "no array of one value"), ("two", "no array of one value"), ("types", "without _AMQ_OperationSucceeded"),
                          ("deep", "not of its operation")):
            with self.subTest(how):
                had, opened = len(self.errors("b0", "garbled")), self.tamper.dump()["opened"]["kintsugi-root"]
                self.tamper.garble("createQueue", how)
                self.make(how)
                # The stand-in lets management alone through: no link of the router's is ever active.
                self.until(how, "Created", deadline=40)
                new = self.errors("b0", "garbled")[had:]
                self.assertTrue(any(said in one for one in new), new)
                self.assertEqual((self.tamper.dump()["opened"]["kintsugi-root"], self.tamper.dump()["left"]), (opened, 0))
        self.assertEqual(self.queues(self.broker), [f"{self.space_id}/{how}" for how in ("deep", "text", "two", "types")])
        self.tenant.until("MessagingInfra", "one")  # nobody else is concerned

    def test_S16_answers_of_a_router_that_are_none(self):
        self.use("one")
        [router] = self.routers["one"]
        connections = {one["identity"] for one in router.dump()["connections"] if one["dir"] == "in"}
        for how in ("types", "deep"):
            for operation, kind in (("CREATE", "address"), ("CREATE", "autoLink"), ("READ", "autoLink")):
                with self.subTest(f"{how} {operation} {kind}"):
                    had = len(self.errors(router.name, "one"))
                    router.command("garble", operation=operation, type=kind, how=how)
                    local = f"{how}-{operation}-{kind}".lower()
                    self.make(local)
                    self.ready(local, deadline=40)
                    self.assertGreater(len(self.errors(router.name, "one")), had)
        self.assertEqual({one["identity"] for one in router.dump()["connections"] if one["dir"] == "in"}, connections)
        self.assertEqual((len(self.of(router)), len(self.of(router, "autoLink"))), (6, 12))

    def test_S16_a_connector_of_a_space_to_its_own_router(self):
        self.use("one", connectors=[{"name": "back", "endpointHosts": [{"host": "ONE-R0", "port": 5672}]},
                                    {"name": "here", "endpointHosts": [{"host": "127.0.0.1", "port": 5672}]}])

        def told():
            return {one["name"]: " ".join(one["messages"]) for one in self.tenant.get("AddressSpace", self.space)["status"].get("connectors", [])}

        kit.eventually(lambda: "endpointHosts[0].host: ONE-R0" in told()["back"], what="it is refused")
        self.assertIn("endpointHosts[0].host", told()["here"])
        self.passes()
        rows = self.routers["one"][0].rows("connector").values()
        self.assertEqual([one["port"] for one in rows], [str(self.broker.port)])

    def test_S16_what_turns_wrong_goes_on_as_it_was_good_the_last_time(self):
        """Connectors and addresses, also where the router begins anew meanwhile: what is wrong is not sent to it, either."""
        def far(**more):
            return {"name": "far", "endpointHosts": [{"host": "far.example.com", "port": 5672}], "addresses": [{"name": "a", "pattern": "x"}], **more}

        near = {"name": "near", "endpointHosts": [{"host": "near.example.com", "port": 5672}]}
        self.use("one", connectors=[far(), near])
        [router] = self.routers["one"]
        self.made("cast", "anycast")

        def held():
            return {kind: sorted((one["name"], one.get("host"), one.get("pattern")) for one in router.rows(kind).values())
                    for kind in ("connector", "linkRoute", "address", "vhost")}

        kit.eventually(lambda: {"far.example.com", "near.example.com"} <= {one[1] for one in held()["connector"]}, what="both are made")
        kit.eventually(lambda: len(held()["linkRoute"]) == 2, what="its link routes")
        good = held()

        def say(*connectors):
            self.tenant.client.must("PATCH", self.tenant.path("AddressSpace", self.space), {"spec": {"connectors": list(connectors)}}, headers=messaging.MERGE)

        def told():
            return {one["name"]: " ".join(one["messages"]) for one in self.tenant.get("AddressSpace", self.space)["status"].get("connectors", [])}

        for host, why in (("127.0.0.1", "is not allowed"), ("one-r0", "is a router of the infra")):
            say(far(endpointHosts=[{"host": host, "port": 5672}]), near)
            kit.eventually(lambda w=why: "endpointHosts[0].host" in told().get("far", "") and w in told()["far"], what="it is refused")
            self.passes()
            self.assertEqual(held(), good)
        self.patch("cast", {"spec": {"plan": "none-such"}})
        self.until("cast", "Validated", "False", "PlanNotFound")
        router.kill()
        router.start()
        kit.eventually(lambda: held() == good, 40, "the router has all of it again")
        say(far(endpointHosts=[{"host": "farther.example.com", "port": 5672}]))
        kit.eventually(lambda: {one[1] for one in held()["connector"]} >= {"farther.example.com"}, what="what is good again is made")
        kit.eventually(lambda: not {one[1] for one in held()["connector"]} & {"far.example.com", "near.example.com"}, what="what is not asked for any more goes")


if __name__ == "__main__":
    unittest.main()
