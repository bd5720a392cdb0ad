"""Every table of a ring that there was, and who wrote which objects meanwhile: whether each key was one worker's at any time
(docs/spec/worker-runtime.md, 8)."""
import base64
import itertools
import json
import struct

import kit

MAPS = "/api/v1/namespaces/kintsugi-system/configmaps"
PARTITIONS, NOBODY = 1024, 0xFFFF
GARBAGE = "garbage"  # what a test writes in place of a table
MASK = (1 << 64) - 1
PRIMES = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261)


def turned(value, bits):
    return (value << bits | value >> (64 - bits)) & MASK


def mixed(into, word):
    return turned((into + word * PRIMES[1]) & MASK, 31) * PRIMES[0] & MASK


def xxh64(data):
    """XXH64 with seed 0 (github.com/Cyan4973/xxHash)."""
    one, two, three, four, five = PRIMES
    at, end = 0, len(data)
    if end >= 32:
        lanes = [(one + two) & MASK, two, 0, -one & MASK]
        while at + 32 <= end:
            lanes = [mixed(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at))]
            at += 32
        found = sum(turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            found = ((found ^ mixed(0, lane)) * one + four) & MASK
    else:
        found = five
    found = (found + end) & MASK
    while at + 8 <= end:
        found = (turned(found ^ mixed(0, struct.unpack_from("<Q", data, at)[0]), 27) * one + four) & MASK
        at += 8
    if at + 4 <= end:
        found = (turned(found ^ struct.unpack_from("<I", data, at)[0] * one & MASK, 23) * two + three) & MASK
        at += 4
    for byte in data[at:]:
        found = turned(found ^ byte * five & MASK, 11) * one & MASK
    for bits, prime in ((33, two), (29, three)):
        found = (found ^ found >> bits) * prime & MASK
    return found ^ found >> 32


assert (xxh64(b""), xxh64(b"abc")) == (0xEF46DB3751D8E999, 0x44BC2CF5AD770999)


def partition_of(key):
    return xxh64(key.encode()) % PARTITIONS


def collapsed(values):
    """Without repetitions of what stands before."""
    return [value for value, _ in itertools.groupby(values)]


def within(some, all_):
    """Whether `some` is `all_` without some of it, in the same order."""
    rest = iter(all_)
    return all(one in rest for one in some)


def process(owner):
    """Of an owner, whose identity is host, pid and random."""
    return int(owner[0].split("-")[-2])


class Table:
    """generation; owners: for each partition (owner, epoch), the owner as (identity, uid) or None; moving: how many wait for another owner."""

    def __init__(self, text):
        said = json.loads(text)
        members = [(one["id"], one["uid"]) for one in said["members"]]
        slots = list(struct.iter_unpack("<HHI", base64.b64decode(said["partitions"])))
        self.generation = said["generation"]
        self.owners = [(None if owner == NOBODY else members[owner], epoch) for owner, _, epoch in slots]
        self.moving = sum(later != NOBODY for _, later, _ in slots)
        assert len(self.owners) == PARTITIONS


class Log:
    """Watches the table of a role's ring from now on."""

    def __init__(self, client, role):
        self.watch = kit.Watch(client, f"{MAPS}?watch=true&fieldSelector=metadata.name%3Dring-{role}")

    def tables(self):
        assert self.watch.ended_at is None, self.watch.fault
        texts = [one["object"]["data"]["ring"] for one in list(self.watch.events) if one["type"] in ("ADDED", "MODIFIED")]
        return [Table(one) for one in texts if one != GARBAGE]

    def settled(self):
        """The last table, once nothing in it moves."""
        return kit.eventually(lambda: (last := self.tables()[-1]).moving == 0 and last, 30, "nothing moves")

    def proves(self):
        """An epoch of a partition is one owner's, and another owner's is higher. @returns  for each partition all its owners, in order"""
        tables = self.tables()
        for before, after in zip(tables, tables[1:]):
            assert after.generation > before.generation, (before.generation, after.generation)
            for number, ((was, old), (now, new)) in enumerate(zip(before.owners, after.owners)):
                assert new > old or (new == old and now == was), f"partition {number}: {was} in epoch {old}, then {now} in epoch {new}"
        return [collapsed(table.owners[number][0] for table in tables) for number in range(PARTITIONS)]
