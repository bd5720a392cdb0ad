"""What tests of a worker's reflectors share: one worker of the example role whose requests all go through a relay that breaks them."""
import json
import unittest

import fault_relay
import kit
import worker

COLLECTION = "/clusters/*/apis/example.kintsugi.dev/v1alpha1/greetings"
WATCH = (COLLECTION, "watch=true")
LIST = {"but": ("watch=true",)}
GONE = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "too old", "reason": "Expired", "code": 410}


def status(code, **headers):
    """An answer of the relay itself."""
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": f"told by the relay: {code}", "code": code}
    return code, {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}, json.dumps(said).encode()


def event(kind, body):
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


class Case(unittest.TestCase):
    COUNT = 0  # Greetings that are there from the start

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1).start_for(cls)
        cls.stage = type("Stage", (worker.Stage,), {"SHARDS": ("root",)})(cls.installation)
        cls.client = cls.stage.consumers["root"]
        cls.relay = fault_relay.Relay(cls.installation, worker.USER).start_for(cls)
        for number in range(cls.COUNT):
            cls.client.must("POST", worker.GREETINGS, cls.stage.greeting(f"g{number}", f"g{number}"))

    def setUp(self):
        self.addCleanup(self.relay.clear)
        self.number = 0

    def worker(self, **more):
        """Begins; ends with the test, in order, so that the next one does not wait for its Lease to expire."""
        one = worker.Worker(self.stage, server=self.relay.url, **more).__enter__()

        def end():
            self.relay.clear()
            one.stop()

        self.addCleanup(one.__exit__)
        self.addCleanup(end)
        return one

    def begun(self, **more):
        """A worker that has read all."""
        self.one = self.worker(**more).until_ready()
        kit.eventually(lambda: self.objects() == self.COUNT, 30, "all are read")
        return self.one

    def objects(self):
        return self.one.metric("reflector_objects", resource="greetings")

    def relists(self, **labels):
        return self.one.metric("reflector_relists_total", resource="greetings", **labels)

    def guarded(self):
        return self.one.metric("reflector_mass_delete_guard_total", resource="greetings")

    def lists(self, since=0.0):
        return [one for one in self.relay.asked(COLLECTION, since=since) if "watch=true" not in one[1]]

    def watches(self, since=0.0):
        return self.relay.asked(*WATCH, since=since)

    def make(self, name=None):
        """A Greeting that goes with the test; returns its name."""
        self.number += 1
        name = name or f"t{self.number}"
        self.client.must("POST", worker.GREETINGS, self.stage.greeting(name, name))
        self.addCleanup(self.client.request, "DELETE", f"{worker.GREETINGS}/{name}")
        return name

    def message(self, name):
        return self.client.must("GET", f"{worker.GREETINGS}/{name}").get("status", {}).get("message")

    def said(self, name):
        return self.message(name) == f"Hello, {name}!"

    def works(self, deadline=20):
        """What is made now is reconciled."""
        name = self.make()
        kit.eventually(lambda: self.said(name), deadline, f"hello to {name}")
        return name

    def end_watch(self, body=GONE):
        """The watch that runs gets that instead of its next event, which something new brings about; returns its name."""
        rule = self.relay.rule(*WATCH, line=lambda _: event("ERROR", body), times=1)
        name = self.make()
        kit.eventually(lambda: rule.hits, what="the watch was ended")
        return name
