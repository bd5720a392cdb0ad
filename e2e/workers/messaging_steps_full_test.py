"""What is ours is killed at each step of what is made or taken away: the end is the same (docs/spec/messaging.md)."""
import unittest

import messaging_steps

ONLY_WITH_ALL = "kills each process at each step, for minutes"


def setUpModule():
    messaging_steps.begin()


class Ours(messaging_steps.Steps, messaging_steps.Case):
    VICTIMS = ("worker", "proxy", "shard")


if __name__ == "__main__":
    unittest.main()
