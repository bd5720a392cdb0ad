"""Addresses besides plain queues: each flow is done once, and again with a process killed at each of its steps (docs/spec/messaging.md)."""
import unittest

import messaging_flows
import messaging_steps

ONLY_WITH_ALL = "kills each process at each step of each flow, for minutes"


def setUpModule():
    messaging_steps.begin()


class Addresses(messaging_flows.Case):
    def addresses(self, **kinds):
        """come, ready, go, gone of addresses of space1, whose specs these are."""
        def names():
            return [f"{self.SPACE}.{local}" for local in kinds]

        return (lambda: [self.make("Address", f"{self.SPACE}.{local}", address=local, **spec) for local, spec in kinds.items()],
                lambda: self.tenant.ready(*kinds, space=self.SPACE, deadline=90),
                lambda: [self.remove("Address", one) for one in reversed(names())],
                lambda: [self.gone("Address", one) for one in names()])

    def test_MS063_MS028_an_anycast_address(self):
        self.through(*self.addresses(any={"type": "anycast"}))

    def test_MS063_MS032_a_topic_with_a_subscription(self):
        self.through(*self.addresses(news={"type": "topic"}, sub={"type": "subscription", "topic": "news"}))

    def test_MS063_MS082_a_queue_with_settings_of_its_plan(self):
        self.make("AddressPlan", "short", addressType="queue", queue={"ttl": "1m"})
        self.addCleanup(self.remove, "AddressPlan", "short")
        self.through(*self.addresses(brief={"type": "queue", "plan": "short"}))


if __name__ == "__main__":
    unittest.main()
