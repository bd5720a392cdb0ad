"""Addresses by hundreds and thousands: what is made and deleted, and a router that begins anew (docs/spec/messaging.md)."""
import unittest

import amqp
import kit
import messaging_addresses
import messaging_stage

ONLY_WITH_ALL = "makes 5,000 addresses"


def setUpModule():
    global stage, brokers  # pylint: disable=global-variable-undefined
    installation = kit.Installation(shards=1).start_for()
    brokers = [amqp.Artemis("b0", memory=512, global_max_size=64 << 20).start_for()]
    stage = messaging_stage.Stage(installation, shards=("root",))


class Case(messaging_addresses.Case):
    @classmethod
    def infras(cls):
        cls.infra("two", 2, cls.brokers)

    def setUp(self):
        self.broker, (self.one, self.other) = self.brokers[0], self.routers["two"]


class Endings(messaging_addresses.Endings, Case):
    COUNT = 500


class Restarts(messaging_addresses.Restarts, Case):
    COUNT = 5000


if __name__ == "__main__":
    unittest.main()
