"""The restore drill with 100,000 objects (GR-409): its times and sizes are in docs/operations.md."""
import unittest

import restore_drill

ONLY_WITH_ALL = "makes a hundred thousand objects"


class Drill(restore_drill.Drill):
    objects = 100_000


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase(Drill)


if __name__ == "__main__":
    unittest.main()
