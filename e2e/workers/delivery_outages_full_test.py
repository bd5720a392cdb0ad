"""What was acknowledged is not lost: brokers, workers and proxies that end while orders are on their way (docs/spec/delivery.md)."""
import json
import signal

import delivery
import kit
from delivery import MAPS, config_map

ONLY_WITH_ALL = "processes end and begin for two minutes"


class Outage(delivery.OwnCase):
    def begin(self, profile="durable", **more):
        broker = self.enterContext(delivery.Broker(profile))
        agent = self.enterContext(delivery.Agent(self.stage, broker, **more)).until_ready()
        agent.connected(len(more.get("clients", ("edge",))))  # a session is there: what is not retained waits in it
        return broker, agent

    def names(self, prefix, client=None):
        items = (client or self.target).must("GET", MAPS)["items"]
        return {one["metadata"]["name"] for one in items if one["metadata"]["name"].startswith(prefix)}

    def all_applied(self, prefix, count, deadline=60):
        want = {f"{prefix}{number}" for number in range(count)}
        kit.eventually(lambda: self.names(prefix) == want, deadline, f"{count} of {prefix} are applied")

    def test_CM_T015_CM_T052_what_is_retained_and_what_is_acknowledged_is_applied_after_a_kill(self):
        broker, agent = self.begin()
        hub = self.hub(broker)
        for number in range(200):
            hub.mqtt.publish(hub.topic(f"k-{number}"), *self.order(f"k-{number}"))
            if number == 100:
                agent.process.kill()  # in the middle
                agent.process.wait(120)
        agent.start().until_ready()
        self.assertEqual(agent.metric("delivery_connected"), 1)  # not while the ring still has the dead one's place
        self.all_applied("k-", 200)
        for number in range(200):
            hub.until(f"k-{number}", "Reconciled", "True/Success", 40)

    @staticmethod
    def order(name, generation=1):
        manifest = config_map(name)
        manifest["metadata"].update({"uid": name, "generation": generation})
        return json.dumps({"resourceGenerationID": 1, "content": manifest}), 1, True, delivery.properties("v1/json")

    def test_CM_T016_a_broker_that_begins_anew_loses_and_doubles_nothing(self):
        broker, _ = self.begin()
        hub = self.hub(broker)
        for number in range(100):
            hub.mqtt.publish(hub.topic(f"b-{number}"), *self.order(f"b-{number}"))
            if number == 50:
                broker.stop()
                broker.start()
        self.all_applied("b-", 100)
        for number in range(100):
            hub.until(f"b-{number}", "Reconciled", "True/Success", 60)

    def test_CM_T018_a_broker_that_comes_later(self):
        broker = delivery.Broker()
        self.addCleanup(broker.__exit__)
        agent = self.enterContext(delivery.Agent(self.stage, broker))
        kit.eventually(lambda: "edge" in agent.ask("/readyz?verbose")[1], 40, "the page says which client waits")
        broker.start()
        agent.until_ready()

    def test_CM_T040_two_clients_two_workspaces(self):
        broker, _ = self.begin("wide", clients=("edge=root:edge", "other=root:other"))
        hub, other = self.hub(broker), self.hub(broker, "other")
        hub.send("x-1", config_map("x-edge"))
        other.send("x-1", config_map("x-other"))
        hub.until("x-1", "Reconciled", "True/Success")
        other.until("x-1", "Reconciled", "True/Success")
        self.assertEqual(self.names("x-"), {"x-edge"})
        self.assertEqual(self.names("x-", self.stage.targets["other"]), {"x-other"})

    def test_CM_T053_a_kill_between_deletion_and_status(self):
        broker, agent = self.begin()
        hub = self.hub(broker)
        hub.send("gone", config_map("gone"))
        hub.until("gone", "Reconciled", "True/Success")
        # The broker stands still: the object is deleted, nobody can be told.
        hub.send("gone", config_map("gone"), 2, deleted=True)
        broker.process.send_signal(signal.SIGSTOP)
        try:
            agent.process.kill()
            agent.process.wait(120)
        finally:
            broker.process.send_signal(signal.SIGCONT)
        agent.start().until_ready()
        hub.until("gone", "Deleted", "True/Success", 40)
        self.assertEqual(self.names("gone"), set())

    def test_CM_T024_a_restart_while_finalizers_are_waited_for(self):
        broker, agent = self.begin()
        hub = self.hub(broker)
        hub.send("held", {**config_map("held"), "metadata": {"name": "held", "namespace": "default", "finalizers": ["test.dev/hold"]}})
        hub.until("held", "Reconciled", "True/Success")
        hub.send("held", config_map("held"), 2, deleted=True)
        hub.until("held", "Deleted", "False/WaitingForFinalizers")
        agent.process.kill()
        agent.process.wait(120)
        agent.start().until_ready()
        self.assertNotIn("True/Success", [one.says("Deleted") for one in hub.of("held")])
        kit.eventually(lambda: self.target.request("PATCH", f"{MAPS}/held", {"metadata": {"finalizers": None}},
                                                   headers={"Content-Type": "application/merge-patch+json"}).status == 200)  # fmt: skip
        hub.until("held", "Deleted", "True/Success")

    def test_CM_54_a_refusal_that_nobody_was_told_of(self):
        broker, agent = self.begin()
        hub = self.hub(broker)
        broker.process.send_signal(signal.SIGSTOP)  # the answer cannot leave
        try:
            hub.mqtt.publish(hub.topic("bad"), b'{"resourceGenerationID":7}', 1, False, delivery.properties("v1/json"))
        finally:
            broker.process.send_signal(signal.SIGCONT)
        agent.process.kill()
        agent.process.wait(120)
        agent.start().until_ready()
        hub.until("bad", "Reconciled", "False/InvalidManifest", 40)

    def test_CM_T061_an_agent_that_stands_still_while_messages_come(self):
        broker, agent = self.begin("wide")
        hub = self.hub(broker)
        for number in range(100):
            hub.mqtt.publish(hub.topic(f"f-{number}"), self.order(f"f-{number}")[0], 1, False, delivery.properties("v1/json"))
            if number == 50:
                agent.process.send_signal(signal.SIGSTOP)  # for longer than its Lease is good
        lapsed = kit.Clock()
        kit.eventually(lambda: lapsed.spent() > 8, 30)
        agent.process.send_signal(signal.SIGCONT)
        self.all_applied("f-", 100)
        for number in range(100):
            hub.until(f"f-{number}", "Reconciled", "True/Success", 40)

    def test_CM_T061_a_session_that_is_kept(self):
        broker, agent = self.begin("wide")
        hub = self.hub(broker)
        agent.stop()
        for number in range(100):
            hub.mqtt.publish(hub.topic(f"s-{number}"), self.order(f"s-{number}")[0], 1, False, delivery.properties("v1/json"))
        agent.start().until_ready()
        self.all_applied("s-", 100)

    def test_CM_T063_a_proxy_that_begins_anew(self):
        broker, _ = self.begin("wide")
        hub = self.hub(broker)
        for number in range(60):
            hub.mqtt.publish(hub.topic(f"p-{number}"), *self.order(f"p-{number}"))
            if number == 20:
                self.installation.kill("proxy")
        self.all_applied("p-", 60)
        for number in range(60):
            hub.until(f"p-{number}", "Reconciled", "True/Success", 60)

    def test_CM_T020_another_process_takes_over_and_an_old_journal_brings_nothing_back(self):
        broker, first = self.begin("wide")
        hub = self.hub(broker)
        hub.send("old", config_map("old"))
        hub.until("old", "Reconciled", "True/Success")
        first.process.kill()
        first.process.wait(120)
        with delivery.Agent(self.stage, broker) as second:
            second.until_ready()
            hub.send("old", config_map("old"), 2, deleted=True)
            hub.until("old", "Deleted", "True/Success", 40)
            hub.clear("old")
            kit.eventually(lambda: second.metric("delivery_orders") == 0, 20)
            second.stop()
        first.start().until_ready()  # whose journal says that it is applied
        hub.send("mark", config_map("mark"))
        hub.until("mark", "Reconciled", "True/Success", 40)
        self.assertEqual(self.names("old"), set())
