"""SE-005, SE-T030, SE-T032: one user, or one behind a gateway, has far more open than there are seats; what others notice."""
import contextlib
import json
import threading
import unittest

import kit
import raw_h2

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "load-"}, "data": {"k": "v" * 1000}}
ONE = "fieldSelector=metadata.name%3Dkube-root-ca.crt"
READS = ("/kube-root-ca.crt", "?limit=10", "?watch=true&timeoutSeconds=1&" + ONE)  # answers that fit into a stream's window
SEATS = 8
CONNECTIONS, DEPTH, REQUESTS = 4, 100, 40_000  # all together, at most
OTHERS = 5


def setUpModule():
    global up, admin, heavy, others  # pylint: disable=global-variable-undefined
    # Of what a workspace may write a second (SE-093) the one has no more than what leaves the others theirs.
    up = kit.Installation("--seats", str(SEATS), "--quotas", "writes.rps=400,writes.burst=400", "--distribute-by-effective-user", "gateway,other-gateway",
                          shards=1).start_for()
    up.make_workspace("load")
    admin = up.client("/clusters/root:load")
    admin.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "loads"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create"]}]})
    for role in ("loads", "system:kcp:workspace:access"):
        admin.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "all-" + role.replace(":", "-")},
            "subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
    others = [up.user_client(f"other-{n}", [], "/clusters/root:load") for n in range(OTHERS)]
    heavy = up.user_client("heavy", [], "/clusters/root:load")
    for user in (*others, heavy):
        kit.eventually(lambda u=user: u.get(MAPS + "/kube-root-ca.crt").status == 200, 30)


class Flood(threading.Thread):
    """A connection of the one user that has DEPTH requests open until it has had its share of REQUESTS."""

    def __init__(self, wanted, client, extra):
        super().__init__(daemon=True)
        self.connection, self.stop, self.counts, self.begun = raw_h2.Connection(client), threading.Event(), {}, threading.Event()
        self.wanted, self.strange, self.extra = wanted, [], extra

    def begin(self, number):
        if number % 4 == 0:
            stream = self.connection.open("POST", MAPS, [("content-type", "application/json"), *self.extra], end=False)
            self.connection.data(stream, json.dumps(BODY).encode(), end=True)
            return stream
        return self.connection.open("GET", MAPS + READS[number % 4 - 1], self.extra)

    def run(self):
        number, running = 0, []
        while not self.connection.closed and (running or not self.stop.is_set()):
            with self.connection.at_once():
                while len(running) < DEPTH and not self.stop.is_set():
                    number += 1
                    running.append(self.begin(number))
            self.connection.read(0.02)
            for stream in [one for one in running if one.over]:
                self.counts[stream.status] = self.counts.get(stream.status, 0) + 1
                if stream.status not in (200, 201, 429):
                    self.strange.append((stream.status, stream.reset, stream.body[:200]))
                self.connection.streams.pop(stream.number, None)
                running.remove(stream)
            if sum(self.counts.values()) >= DEPTH:
                self.begun.set()
            if number >= self.wanted:
                self.stop.set()
        self.begun.set()


@contextlib.contextmanager
def flooded(case, client, extra=()):
    """While CONNECTIONS of this client have DEPTH requests open each, which are answered as they should; begins when all are busy."""
    floods = [Flood(REQUESTS // CONNECTIONS, client, extra) for _ in range(CONNECTIONS)]
    for flood in floods:
        flood.start()
    try:
        for flood in floods:
            case.assertTrue(flood.begun.wait(120))
        yield floods
    finally:
        for flood in floods:
            flood.stop.set()
        for flood in floods:
            flood.join(120)
            flood.connection.close()
    case.assertEqual([flood.strange for flood in floods], [[]] * CONNECTIONS)


def fairness():
    """How the shard's queues stand; asked by an administrator, who has others."""
    shard = kit.Client(up.shard_url("root") + "/clusters/*", up.pki / "serving-ca.crt", up.pki / "admin.crt", up.pki / "admin.key")
    return shard.must("GET", "/debug/fairness")


def tenants_at_the_shard():
    """Seats and places in queues of all tenants."""
    level = fairness()["levels"]["tenant"]
    return level["seats"], level["waiting"]


def payers_at_the_shard():
    """Names of those who run or wait."""
    return {payer["payer"] for payer in fairness()["payers"]}


class OneOfTenTimesTheCapacity(unittest.TestCase):
    def test_SE_T030_others_are_served_meanwhile_and_nobody_is_remembered(self):
        answers = {"read": [], "write": []}
        with flooded(self, heavy) as floods:
            while any(flood.is_alive() for flood in floods) and len(answers["read"]) < 100:
                for user in others:
                    answers["read"].append(user.get(MAPS + "/kube-root-ca.crt").status)
                    answers["write"].append(user.request("POST", MAPS, BODY).status)
        self.assertGreater(len(answers["read"]), OTHERS, "the flood was over before others asked")
        self.assertEqual(set(answers["read"]), {200})
        self.assertEqual(set(answers["write"]), {201})
        total = {}
        for flood in floods:
            for status, count in flood.counts.items():
                total[status] = total.get(status, 0) + count
        self.assertGreater(total.get(200, 0), 0, total)
        kit.eventually(lambda: tenants_at_the_shard() == (0, 0), 30, "seats and queues are empty")
        self.assertEqual(heavy.get(MAPS + "/kube-root-ca.crt").status, 200, "he is served as before")


class OneBehindAGateway(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        admin.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "speaks"}, "rules": [
            {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]})
        admin.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "speaks"}, "subjects": [{"kind": "User", "name": "gateway", "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "speaks", "apiGroup": "rbac.authorization.k8s.io"}})
        cls.gateway = up.user_client("gateway", [], "/clusters/root:load")
        kit.eventually(lambda: cls.ask(cls.gateway, "user-0") == 200, 30)

    @staticmethod
    def ask(gateway, user):
        return gateway.get(MAPS + "/kube-root-ca.crt", headers={"Impersonate-User": user}).status

    def test_SE_T032_at_the_shard(self):
        named, answers = set(), []
        with flooded(self, self.gateway, [("impersonate-user", "greedy")]) as floods:
            for number in range(50):
                answers.append(self.ask(self.gateway, f"user-{number}"))
                named |= payers_at_the_shard()
            self.assertTrue(any(flood.is_alive() for flood in floods), "the flood was over before others asked")
        self.assertEqual(answers, [200] * 50)
        self.assertIn("user gateway for greedy", named)
        self.assertNotIn("user gateway", named)


if __name__ == "__main__":
    unittest.main()
