"""What tests of faults at each step share: a router (a stand-in) and a broker (a real Artemis) behind gates, a worker that uses them, and each
process killed where a request stands. A topic names its victims."""
import os

import amqp
import kit
import messaging_faults
import messaging_stage

BOTH = bool(os.environ.get("KINTSUGI_FAULTS_BOTH"))  # each step before its request arrives and before its answer does, else in turn
LONGEST_REST = 120  # seconds: after several ends in two minutes a watch rests for up to 30 s, and again if nobody is there yet (RT-25)
CHOSEN = os.environ.get("KINTSUGI_FAULT_VICTIMS", "worker,proxy,shard,router,broker").split(",")


def begin():
    """For a topic's setUpModule."""
    Case.installation = kit.Installation(shards=2).start_for()
    messaging_faults.Case.broker = amqp.Artemis("b0", memory=192, global_max_size=64 << 20).start_for()
    messaging_faults.Case.stage = messaging_stage.Stage(Case.installation, ("root", "shard-1"))


def core(operation, kind):
    return rb"operation.{1,4}" + operation + rb".{0,300}" + kind


CREATES = (("broker", rb"createAddress"), ("broker", rb"createQueue"), ("router", core(rb"CREATE", rb"router\.config\.address")),
           ("router", core(rb"CREATE", rb"router\.config\.autoLink")))
DELETES = (("router", core(rb"DELETE", rb"router\.config\.autoLink")), ("router", core(rb"DELETE", rb"router\.config\.address")), ("broker", rb"destroyQueue"),
           ("broker", rb"deleteAddress"))


class Case(messaging_faults.Case):
    VICTIMS = ()
    installation = None

    @classmethod
    def peers(cls):
        cls.gates = {one: messaging_faults.Gate(peer.name, peer.port) for one, peer in (("router", cls.router), ("broker", cls.broker))}
        for one in cls.gates.values():
            cls.addClassCleanup(one.close)
        return [cls.gates["router"]], [cls.gates["broker"]]

    def setUp(self):
        self.one = self.worker().__enter__()
        self.addCleanup(self.one.__exit__)
        for one in self.gates.values():
            self.addCleanup(one.open)  # before the worker ends
        kills = {"worker": self.kill_worker, "proxy": lambda: self.installation.kill("proxy"), "shard": lambda: self.installation.kill("root"),
                 "router": lambda: self.again(self.router), "broker": self.kill_broker}
        self.kills = {victim: kills[victim] for victim in self.VICTIMS if victim in CHOSEN}

    def kill_worker(self):
        self.one.process.kill()
        self.one.process.wait(120)
        self.one.start()

    @staticmethod
    def again(peer):
        peer.kill()
        peer.start()

    def kill_broker(self):
        self.again(self.broker)
        kit.eventually(lambda: self.client.open(self.broker.port, name="broker")["opened"], what="the broker is asked again")

    def at(self, step, answered, do, kill):
        """Kills at a step of what `do` begins."""
        where, pattern = step
        gate = self.gates[where]
        gate.shut_at(pattern, answered)
        do()
        if not gate.reached.wait(LONGEST_REST):
            gate.open()
            addresses = {one["metadata"]["name"]: one.get("status") for one in self.tenant.client.must("GET", self.tenant.path("Address"))["items"]}
            self.fail(f"{pattern} is not sent to the {where}; {addresses}; the worker's log ends with\n{self.one.log.read_text()[-6000:]}")
        kill()
        gate.open()

    def gone(self, kind, name):
        """The API says so of that object: a proxy that has just begun answers 404 as well."""
        def told():
            answer = self.tenant.client.get(self.tenant.path(kind, name))
            return answer.status == 404 and answer.json.get("details", {}).get("name") == name

        kit.eventually(told, 90, f"{kind} {name} is gone")


class Steps:
    """Tests of a Case: each victim is killed at each step of what is done for a queue or a space, before the request arrives or before its answer does."""

    def test_MS063_a_process_that_is_killed_at_any_step_changes_nothing_of_the_end(self):
        space_id = self.begun(self.one)
        self.insist_on("stays")
        self.tenant.ready("stays", deadline=60)
        number = 0
        for victim, kill in self.kills.items():
            for create, delete in zip(CREATES, DELETES):
                for answered in (False, True) if BOTH else (number % 2 == 1,):
                    local = f"{victim}{number}"
                    number += 1
                    with self.subTest(victim=victim, create=create[1], delete=delete[1], answered=answered):
                        self.at(create, answered, lambda name=local: self.insist_on(name), kill)
                        self.ends(space_id, ["stays", local], deadline=90)
                        self.at(delete, answered, lambda name=local: self.insist("DELETE", name), kill)
                        self.gone("Address", f"{self.SPACE}.{local}")
                        self.ends(space_id, ["stays"], deadline=90)
        self.all_away(space_id, ["stays"], deadline=90)

    def test_MS063_MS020_a_process_that_is_killed_while_a_space_comes_or_goes(self):
        self.begun(self.one)
        create, *leave = [("router", core(operation, rb"dispatch\.vhost")) for operation in (rb"CREATE", rb"UPDATE", rb"DELETE")]
        for victim, kill in self.kills.items():
            for answered, going in zip((True, False), leave):
                name = f"{victim}-{'answered' if answered else 'asked'}"
                with self.subTest(victim=victim, going=going[1], answered=answered):
                    self.at(create, answered, lambda name=name: self.tenant.space(name), kill)
                    kit.eventually(lambda name=name: self.tenant.until("AddressSpace", name, deadline=1), 90, f"{name} is there")
                    space_id = self.tenant.get("AddressSpace", name)["status"]["spaceId"]
                    # A router may end when it has said that the vhost is there: it has it again soon.
                    kit.eventually(lambda of=space_id: [one["hostname"] for one in self.router.rows("vhost").values()].count(of) == 1, 90, "there is one vhost")
                    self.at(going, answered, lambda name=name: self.tenant.delete("AddressSpace", name), kill)
                    self.gone("AddressSpace", name)
                    self.assertNotIn(space_id, [one["hostname"] for one in self.router.rows("vhost").values()])
