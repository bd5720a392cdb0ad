"""Workers that join, leave, are killed and sleep while objects change all the time: each key is one worker's at any time, which the tables of the
ring and what each worker sends say together (docs/spec/worker-runtime.md)."""
import pathlib
import re
import signal
import tempfile
import threading
import time
import unittest

import fake_clock
import kit
import ring_case
import ring_log

ONLY_WITH_ALL = "workers join and leave for minutes, and one sleeps for half a minute"
NAMESPACES = ring_case.RingCase.NAMESPACES
STATUS = re.compile(r"/clusters/([^/*]+)/.*/namespaces/([^/]+)/greetings/([^/]+)/status")


class Changes(threading.Thread):
    """Changes a Greeting of each namespace in turn until stop()."""

    def __init__(self, case):
        super().__init__(daemon=True)
        self.case, self.over, self.fault, self.number = case, threading.Event(), None, 0
        case.addCleanup(self.over.set)
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                self.number += 1
                for namespace in NAMESPACES:
                    self.case.says(namespace, f"{self.number}")
        except Exception as fault:  # pylint: disable=broad-except
            self.fault = fault

    def stop(self):
        self.over.set()
        self.join(60)
        assert self.fault is None, self.fault
        return f"Hello, {self.number}!"


class OneOwner(ring_case.RingCase):
    def written(self):
        """For each ring key which members sent statuses of it, in order: the member by its process."""
        sent = sorted((when, STATUS.search(target).groups(), one.process.pid) for one, relay in self.members
                      for when, target, _ in relay.asked("/greetings/", "/status"))
        keys = {}
        for _, (cluster, namespace, _), pid in sent:
            keys.setdefault(f"{cluster}|{namespace}", []).append(pid)
        return {key: ring_log.collapsed(pids) for key, pids in keys.items()}

    def proven(self, log):
        """Who wrote what had it by the tables, in their order. @returns  written()"""
        owners, written = log.proves(), self.written()
        self.assertEqual(len(written), len(NAMESPACES))
        for key, pids in written.items():
            had = [ring_log.process(owner) for owner in owners[ring_log.partition_of(key)] if owner]
            self.assertTrue(ring_log.within(pids, had), f"{key}: written by {pids}, owned by {had}")
        return written

    def test_RT_T050_RT_T061_each_key_is_one_workers_while_three_join_and_leave(self):
        log = ring_log.Log(self.installation.client(self.LEASES), "example")
        one = self.joins()
        changes = Changes(self)
        two, three = self.joins(), self.joins()
        self.shared_by(one, two, three)

        def go_on():
            number = changes.number
            kit.eventually(lambda: changes.number >= number + 3 or changes.fault, 60, "changes go on")

        go_on()
        self.assertEqual(one.stop(), 0)
        self.shared_by(two, three)
        go_on()
        four = self.joins()
        self.shared_by(two, three, four)
        go_on()
        two.process.kill()  # whatever it is at
        self.shared_by(three, four)
        go_on()
        five = self.joins()
        self.shared_by(three, four, five)
        self.assertEqual((three.stop(), four.stop()), (0, 0))
        self.shared_by(five)
        last = changes.stop()
        for namespace in NAMESPACES:
            kit.eventually(lambda at=namespace: self.message(at) == last, 30, "the last change is seen")
        written = self.proven(log)
        self.assertGreater(sum(len(pids) > 2 for pids in written.values()), len(NAMESPACES) // 4)  # else it would prove little
        print(f"{len(log.tables())} tables; " + ", ".join(f"{len(pids)}" for pids in written.values()) + " writers of each key", flush=True)

    def answered(self, who):
        for namespace in NAMESPACES:
            self.says(namespace, who)
        for namespace in NAMESPACES:
            kit.eventually(lambda at=namespace: self.message(at) == f"Hello, {who}!", 60, f"{who} is greeted in {namespace}")

    def coordinator(self):
        """The member that is the ring's coordinator."""
        [holder] = [one["spec"]["holderIdentity"] for one in self.leases() if one["metadata"]["name"] == "ring-example-coordinator"]
        return next(one for one, _ in self.members if one.process.pid == ring_log.process((holder, "")))

    def test_RT_T062_RT_T063_a_coordinator_that_is_killed_and_a_table_that_is_gone_or_broken(self):
        client = self.installation.client(self.LEASES)
        log = ring_log.Log(client, "example")
        workers = [self.joins(), self.joins(), self.joins()]
        self.shared_by(*workers)
        before = log.settled()
        killed = self.coordinator()
        killed.process.kill()
        workers.remove(killed)
        self.shared_by(*workers)
        after = log.tables()[-1]
        stayed = [(was, now) for was, now in zip(before.owners, after.owners) if ring_log.process(was[0]) != killed.process.pid]
        self.assertEqual([was for was, _ in stayed], [now for _, now in stayed])  # owners and epochs
        workers.append(self.joins())
        self.shared_by(*workers)
        self.answered("joined")
        log.proves()
        path = f"{ring_log.MAPS}/ring-example"
        for number, harm in enumerate((lambda: client.must("DELETE", path),
                                       lambda: client.must("PATCH", path, {"data": {"ring": ring_log.GARBAGE}}, headers={"Content-Type": "application/merge-patch+json"}))):
            had = log.settled()
            harm()
            again = kit.eventually(lambda had=had: (found := log.tables()[-1]).generation > had.generation and None not in [one for one, _ in found.owners] and found, 60,
                                   "there is a table again")
            for (_, old), (_, new) in zip(had.owners, again.owners):
                self.assertGreater(new, old)
            self.shared_by(*workers)
            self.answered(f"again{number}")
        self.proven(log)

    @fake_clock.needed
    def test_RT_T053_wall_clocks_that_are_an_hour_off_change_no_owner(self):
        log = ring_log.Log(self.installation.client(self.LEASES), "example")
        with tempfile.TemporaryDirectory(prefix="kintsugi-e2e-clock-") as folder:
            clock = pathlib.Path(folder, "clock")
            clock.write_text("+0s")
            with fake_clock.for_children(clock):
                off = self.joins()
            other = self.joins()
            self.shared_by(off, other)
            had = log.settled()
            for hour in ("+1h", "-1h"):
                clock.write_text(hour)
                who = hour.replace("+", "later-").replace("-1", "earlier-1")
                self.answered(who)
                kit.stays(lambda: (self.owned(off), self.owned(other)), 12)  # more than two Leases
                now = log.settled()
                self.assertEqual((now.generation, now.owners), (had.generation, had.owners))
            times = {one["spec"]["renewTime"][:13] for one in self.leases() if one["spec"].get("holderIdentity") and one["spec"].get("renewTime")}
            self.assertGreater(len(times), 1)  # by the hour, else its clock was right

    def test_RT_T052_a_worker_that_was_stopped_for_half_a_minute_sends_nothing_of_what_it_had_to_do(self):
        log = ring_log.Log(self.installation.client(self.LEASES), "example")
        sleeps, other = self.joins(), self.joins()
        self.shared_by(sleeps, other)
        relay = self.members[0][1]
        held = relay.rule("PATCH ", "/greetings/", stall=True)
        for namespace in NAMESPACES:
            self.says(namespace, "late")
        kit.eventually(lambda: held.hits, what="it has something to do")
        mine = [namespace for namespace in NAMESPACES if self.message(namespace) != "Hello, late!"]
        sleeps.process.send_signal(signal.SIGSTOP)
        clock = time.monotonic()
        relay.clear()  # what it had sent is lost
        self.shared_by(other)
        for namespace in NAMESPACES:
            kit.eventually(lambda at=namespace: self.message(at) == "Hello, late!", 30, "the other one has done it")

        def revisions():
            return {namespace: self.client.must("GET", self.path(namespace, "one"))["metadata"]["resourceVersion"] for namespace in NAMESPACES}

        had = kit.stays(revisions, max(1, clock + 30 - time.monotonic()))
        wakes = time.monotonic()
        sleeps.process.send_signal(signal.SIGCONT)
        sleeps.until_ready(60)
        self.shared_by(sleeps, other)
        self.assertEqual(relay.asked("/greetings/", "/status", since=wakes), [])
        self.assertEqual(revisions(), had)
        log.proves()
        self.says(NAMESPACES[0], "again")
        kit.eventually(lambda: self.message(NAMESPACES[0]) == "Hello, again!", 20, "both work")
        self.assertTrue(mine)


if __name__ == "__main__":
    unittest.main()
