"""What a worker does at signals and at its limit of memory (docs/spec/worker-runtime.md)."""
import shutil
import signal
import unittest

import kit
import messaging_faults
import reflector_faults
import worker


class Terminated(reflector_faults.Case):
    def test_RT_T005_a_second_SIGTERM_ends_it_at_once(self):
        one = self.begun()
        self.works()
        held = self.relay.rule("PATCH ", "/greetings/", stall=True)
        self.make("held")
        kit.eventually(lambda: held.hits, what="a reconcile waits for its answer")
        one.process.send_signal(signal.SIGTERM)
        kit.stays(one.process.poll, 1)  # it waits for what runs
        one.process.send_signal(signal.SIGTERM)
        self.assertEqual(one.process.wait(120), 143)
        self.relay.clear()
        again = self.worker()
        again.until_ready()
        kit.eventually(lambda: self.said("held"), 40, "its successor goes on")


class Renewed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1).start_for(cls)
        cls.stage = type("Stage", (worker.Stage,), {"SHARDS": ("root",)})(cls.installation)
        cls.client = cls.stage.consumers["root"]

    def greet(self, name, deadline=20):
        kit.eventually(lambda: self.client.request("POST", worker.GREETINGS, self.stage.greeting(name, name)).status in (201, 409), 30, "it is made")
        kit.eventually(lambda: self.client.must("GET", f"{worker.GREETINGS}/{name}").get("status", {}).get("message"), deadline, f"hello to {name}")

    def test_RT_T107_after_SIGHUP_new_connections_have_the_new_certificate(self):
        self.installation.user_client("stranger")
        pair = {kind: (self.installation.dir / f"user-{worker.USER}.{kind}", self.installation.dir / f"user-stranger.{kind}") for kind in ("crt", "key")}
        kept = {kind: one.read_bytes() for kind, (one, _) in pair.items()}
        with worker.Worker(self.stage) as one:
            one.until_ready()
            self.greet("first")
            sockets = messaging_faults.connections(one.process.pid, self.installation.port)
            self.assertGreater(sockets, 0)
            relists = one.metric("reflector_relists_total")
            # Another user's, who may do nothing: what runs with the old pair goes on.
            for mine, theirs in pair.values():
                shutil.copy(theirs, mine)
            one.process.send_signal(signal.SIGHUP)
            kit.eventually(lambda: "reload" in one.log.read_text().lower(), 10, "the log tells")
            self.greet("second")
            self.assertEqual(one.metric("reflector_relists_total"), relists)
            # The next connection has the new one.
            self.installation.kill("proxy")
            self.assertTrue(kit.eventually(lambda: one.metric("rest_client_requests_total", code="403") > 0, 40, "the stranger is refused"))
            for kind, (mine, _) in pair.items():
                mine.write_bytes(kept[kind])
            one.process.send_signal(signal.SIGHUP)
            self.installation.kill("proxy")
            self.greet("third", 60)


class Memory(unittest.TestCase):
    COUNT = 1000
    LEAST = 16 << 20  # that a limit may be

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1).start_for(cls)
        cls.stage = type("Stage", (worker.Stage,), {"SHARDS": ("root",)})(cls.installation)
        for number in range(cls.COUNT):
            cls.stage.consumers["root"].must("POST", worker.GREETINGS, cls.stage.greeting(f"g{number}", f"g{number}"))

    def resident(self, one):
        one.until_ready()
        kit.eventually(lambda: one.metric("reflector_objects", resource="greetings") == self.COUNT, 20, "all are read")
        return int(one.metric("process_resident_memory_bytes"))

    def test_RT_T007_at_its_limit_of_memory_a_role_ends_with_70(self):
        with worker.Worker(self.stage) as one:
            base = self.resident(one)
            self.assertEqual(one.metric("worker_memory_pressure"), 0)
        with worker.Worker(self.stage, more={"memory_limit_bytes": base * 6 // 5}) as one:
            self.resident(one)
            kit.eventually(lambda: one.metric("worker_memory_pressure") == 1, 20, "more than four fifths")
        # What it needs to begin is there, what the objects need is not.
        self.assertGreater(base, self.LEAST)
        with worker.Worker(self.stage, more={"memory_limit_bytes": max(self.LEAST, base * 4 // 5)}) as one:
            self.assertEqual(one.process.wait(60), 70)
            self.assertIn("memory", one.log.read_text())


if __name__ == "__main__":
    unittest.main()
