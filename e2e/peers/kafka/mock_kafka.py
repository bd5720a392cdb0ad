#!/usr/bin/env python3
"""A cluster of Kafka that has faults when it is told: librdkafka's mock brokers, which speak its protocol over TCP, groups included.
Usage: mock_kafka.py [--brokers N] --topic NAME:PARTITIONS:REPLICAS …   prints `bootstrap=…`, then reads commands, a line each, and answers `ok`
or `error …`: down N | up N | rtt N MS | error APIKEY CODE COUNT | leader TOPIC PARTITION N | coordinator GROUP N | topic NAME PARTITIONS REPLICAS |
topic-error NAME CODE. It ends with its input."""
import argparse
import ctypes
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import rdkafka  # noqa: E402  pylint: disable=wrong-import-position


def obey(cluster, word, *rest):
    numbers = [int(one) if one.lstrip("-").isdigit() else one.encode() for one in rest]
    if word in ("down", "up"):
        return cluster.call("broker_set_" + word, *numbers)
    if word == "rtt":
        return cluster.call("broker_set_rtt", *numbers)
    if word == "error":
        key, code, count = numbers
        cluster.call("push_request_errors_array", key, count, (ctypes.c_int * count)(*[code] * count))
        return 0
    if word == "leader":
        return cluster.call("partition_set_leader", *numbers)
    if word == "coordinator":
        return cluster.call("coordinator_set", b"group", *numbers)
    if word == "topic":
        return cluster.call("topic_create", *numbers)
    if word == "topic-error":
        cluster.call("topic_set_error", *numbers)
        return 0
    return "no such command"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--topic", action="append", default=[])
    arguments = parser.parse_args()
    cluster = rdkafka.MockCluster(arguments.brokers)
    for topic in arguments.topic:
        obey(cluster, "topic", *topic.split(":"))
    print("bootstrap=" + cluster.bootstrap(), flush=True)
    for line in sys.stdin:
        why = obey(cluster, *line.split())
        print("ok" if not why else f"error {why}", flush=True)


main()
