"""Addresses by hundreds and thousands: what is made and deleted, and a router that begins anew (docs/spec/messaging.md)."""
import unittest

import kit
import messaging_addresses

ONLY_WITH_ALL = "makes 5,000 addresses"


def setUpModule():
    messaging_addresses.begin(memory=512)


class Endings(messaging_addresses.Endings, messaging_addresses.Two):
    COUNT = 500

    def test_MS047_a_router_that_is_down_holds_the_finalizer_alone(self):
        self.use("two")
        self.made("orders")
        here, away = self.one, self.other
        away.kill()
        self.delete("orders", wait=False)
        kit.eventually(lambda: not self.of(here) and not self.of(here, "autoLink"), what="gone from the other router")
        self.assertEqual(self.status("orders")["phase"], "Terminating")
        away.start()
        self.gone("orders", 40)
        self.assertEqual(self.of(away), [])
        self.assertEqual((self.queues(self.broker), self.broker_addresses(self.broker)), ([], []))

    def test_MS032_MS089_another_router_takes_a_subscription_over(self):
        self.use("two")
        self.make("topic", "topic")
        self.make("sub", "subscription", topic="topic")
        self.ready("topic", "sub")
        had = self.linked("sub")
        left = 1 - had
        self.routers["two"][had].kill()
        self.addCleanup(self.routers["two"][had].start)
        kit.eventually(lambda: self.links("sub", [self.routers["two"][left]]) == ["active"], 30, "the other router takes it over")
        self.ready("sub", deadline=30)
        do = self.open(left)
        self.assertEqual(do("send", address="topic", bodies=["a"])["accepted"], 1)
        self.assertEqual(do("receive", address="sub", count=1)["bodies"], ["a"])


class Restarts(messaging_addresses.Restarts, messaging_addresses.Two):
    """MR-37: a load. A stand-in looks at all its links at each frame: of 10,000 it goes on for minutes, which routers do not."""

    COUNT = 5000
    QUEUES = 500
    PATIENCE = messaging_addresses.patience(COUNT)


if __name__ == "__main__":
    unittest.main()
