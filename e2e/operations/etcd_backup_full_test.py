"""Backup and restore of 100,000 objects in etcd (GR-402, GR-409): times and sizes are in docs/operations.md."""
import unittest

from operations import etcd_backup_test

ONLY_WITH_ALL = "makes a hundred thousand objects"


class Large(etcd_backup_test.ThereAndBack):
    objects = 100_000


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase(Large)


if __name__ == "__main__":
    unittest.main()
