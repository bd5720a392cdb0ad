"""What one client has open for long: connections, watches, memory that they take. Others, and whoever runs the proxy, are served
meanwhile (SE-081, SE-082, SE-085, SE-090, SE-091)."""
import json
import ssl
import subprocess
import unittest

import kit
import raw_h2

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def setUpModule():
    global installation
    installation = kit.Installation(shards=1).start_for()
    installation.make_workspace("open")
    admin = installation.client("/clusters/root:open")
    for user in ("mallory", "bob"):
        admin.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": user}, "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}})
        client = installation.user_client(user, path="/clusters/root:open")
        kit.eventually(lambda c=client: c.get(MAPS).status == 200, 20, f"{user} is let in")


def of_user(proxy, user):
    return kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root:open", installation.pki / "serving-ca.crt",
                      *kit.make_user(installation.dir, installation.pki, user, ()))


class Connections(unittest.TestCase):
    def connect(self, client):
        connection = raw_h2.Connection(client)
        self.addCleanup(connection.close)
        return connection

    def test_SE_081_a_user_has_no_more_than_his_connections(self):
        with kit.Proxy(installation, {"limits": {"connections_per_user": 4}}) as proxy:
            mallory = of_user(proxy, "mallory")
            open_ones = [self.connect(mallory) for _ in range(4)]
            for connection in open_ones:
                self.assertEqual(connection.ask("GET", MAPS).status, 200)
            fifth = self.connect(mallory)
            refused = fifth.ask("GET", MAPS)
            self.assertEqual(refused.status, 429)
            self.assertEqual(json.loads(refused.body)["reason"], "TooManyRequests")
            self.assertTrue(fifth.until(lambda: fifth.closed or fifth.goaway is not None))
            self.assertEqual(of_user(proxy, "bob").get(MAPS).status, 200)
            self.assertEqual(open_ones[0].ask("GET", MAPS).status, 200)
            self.assertGreaterEqual(proxy.metric('kintsugi_connections_refused_total{reason="payer"}'), 1)
            fairness = json.loads(subprocess.run(["curl", "-sS", "--unix-socket", str(proxy.dir / "admin.sock"), "http://admin/debug/fairness"],
                                                 capture_output=True, text=True, timeout=60, check=True).stdout)
            self.assertEqual(fairness["connections"]["payers"][0]["payer"], "user mallory", "SE-094")
            self.assertGreaterEqual(fairness["connections"]["payers"][0]["connections"], 4)
            self.assertGreater(fairness["seats"]["open"], 0)
            self.assertEqual(fairness["memory"]["step"], "none")
            for connection in (*open_ones, fifth):
                connection.close()
            kit.eventually(lambda: proxy.metric("kintsugi_connections_largest_user") == 0, 20, "they are given back")
            self.assertEqual(mallory.get(MAPS).status, 200)

    def test_SE_081_twice_as_many_are_closed_unheard(self):
        with kit.Proxy(installation, {"limits": {"connections_per_user": 2}}) as proxy:
            mallory = of_user(proxy, "mallory")
            silent = [self.connect(mallory) for _ in range(4)]
            for connection in silent:  # the server has had the end of the handshake
                self.assertIn(connection.ask("GET", "/livez" if connection in silent[2:] else MAPS).status, (200, 429))
            more = [self.connect(mallory) for _ in range(6)]
            kit.eventually(lambda: all(c.closed or not c.read(0.01) for c in more[2:]), 20, "the others are closed")
            self.assertEqual(of_user(proxy, "bob").get(MAPS).status, 200)

    def test_SE_081_SE_082_an_address_has_no_more_than_its_connections(self):
        with kit.Proxy(installation, {"limits": {"connections_per_address": 10}}) as proxy:
            mallory = of_user(proxy, "mallory")
            open_ones = []

            def refused():
                try:
                    open_ones.append(self.connect(mallory))
                except (OSError, ssl.SSLError):
                    return True
                return False

            kit.eventually(refused, 20, "connections are refused")
            self.assertLessEqual(len(open_ones), 10)
            for connection in open_ones:
                self.assertEqual(connection.ask("GET", MAPS).status, 200)
            self.assertGreaterEqual(proxy.metric('kintsugi_connections_refused_total{reason="address"}'), 1)
            open_ones.pop().close()
            kit.eventually(lambda: not refused(), 20, "a place has become free")

    def test_SE_081_operators_are_not_bounded(self):
        with kit.Proxy(installation, {"limits": {"connections_per_user": 1}}) as proxy:
            for connection in [self.connect(proxy.client("/clusters/root:open")) for _ in range(5)]:
                self.assertEqual(connection.ask("GET", MAPS).status, 200)


class Watches(unittest.TestCase):
    def watch(self, connection, path=MAPS):
        stream = connection.open("GET", path + "?watch=true")
        self.assertTrue(connection.until(lambda: stream.status is not None))
        return stream

    def test_SE_085_a_users_watches_are_bounded_in_all_and_per_resource(self):
        bounds = {"limits": {"watches_per_user": 5, "watches_per_resource": 3}}
        with kit.Proxy(installation, bounds, loops=2) as proxy:
            mallory, bob = of_user(proxy, "mallory"), of_user(proxy, "bob")
            connections = [raw_h2.Connection(mallory) for _ in range(3)]
            for connection in connections:
                self.addCleanup(connection.close)
            streams = [self.watch(connection) for connection in connections]
            self.assertEqual([one.status for one in streams], [200] * 3)
            self.assertEqual(self.watch(connections[0]).status, 429)
            others = [self.watch(connections[1], f"/api/v1/namespaces/default/{kind}") for kind in ("secrets", "serviceaccounts", "events")]
            self.assertEqual([one.status for one in others], [200, 200, 429])
            self.assertEqual(mallory.get(MAPS).status, 200)
            with raw_h2.Connection(bob) as neighbour:
                self.assertEqual(self.watch(neighbour).status, 200)
            for name in ("watches_per_resource", "watches_per_user"):
                self.assertEqual(proxy.metric(f'kintsugi_limited_total{{limit="{name}"}}'), 1, name)
            connections[2].close()
            kit.eventually(lambda: self.watch(connections[0]).status == 200, 20, "a watch has ended")


class Memory(unittest.TestCase):
    def used(self):
        """What a proxy takes when nobody asks for anything."""
        with kit.Proxy(installation) as proxy:
            self.assertEqual(of_user(proxy, "bob").get(MAPS).status, 200)
            return kit.eventually(lambda: proxy.metric("kintsugi_memory_used_bytes"), 20, "memory is known")

    def test_SE_091_tenants_are_refused_when_memory_is_short_and_operators_are_not(self):
        with kit.Proxy(installation, {"memory": {"budget": int(self.used() * 0.9)}}) as proxy:
            bob = of_user(proxy, "bob")
            answer = kit.eventually(lambda: (lambda got: got if got.status == 429 else None)(bob.get(MAPS)), 20, "tenants are refused")
            self.assertEqual(dict((k.lower(), v) for k, v in dict(answer.headers).items())["retry-after"], "5")
            self.assertEqual(proxy.client("", cert=None).get("/clusters/root:open" + MAPS).status, 429)
            self.assertEqual(proxy.client("/clusters/root:open").get(MAPS).status, 200)
            self.assertEqual(proxy.client("", cert=None).get("/readyz").status, 200)
            kit.eventually(lambda: proxy.metric("kintsugi_shed_step") == 5, 20, "it is the last step")
            self.assertGreaterEqual(proxy.metric('kintsugi_shed_total{step="tenants"}'), 2)

    @kit.without_sanitizer
    def test_SE_T036_watches_that_nobody_reads_end_before_anything_else(self):
        room = 6 << 20
        base = self.used()
        with kit.Proxy(installation, {"memory": {"budget": int((base + room) / 0.85)},
                                      "limits": {"watches_per_resource": 100_000},
                                      "listener": {"slow_reader_timeout_ms": 3_600_000}}) as proxy:  # which is another reason
            mallory, bob = of_user(proxy, "mallory"), of_user(proxy, "bob")
            admin = proxy.client("/clusters/root:open")
            connections = [raw_h2.Connection(mallory) for _ in range(4)]
            for connection in connections:
                self.addCleanup(connection.close)
            streams = [connection.open("GET", MAPS + "?watch=true") for connection in connections for _ in range(50)]
            reader = kit.Watch(bob, MAPS + "?watch=true")
            for connection in connections:
                self.assertTrue(connection.until(lambda c=connection: all(s.status for s in c.streams.values())))
            written, clock = 0, kit.Clock()
            while proxy.metric('kintsugi_shed_total{step="watches"}') == 0:
                used = proxy.metric("kintsugi_memory_used_bytes") / (base + room)
                self.assertLess(clock.spent(), 60, used)
                name = f"large-{written}"
                admin.must("POST", MAPS, {"metadata": {"name": name}, "data": {"k": "x" * 2_000}})
                written += 1
                if used > 0.6:  # it is looked at five times a second: what comes must not pass two steps between two looks
                    kit.stays(lambda: None, 0.4)
            self.assertEqual(proxy.metric('kintsugi_shed_total{step="connections"}'), 0)
            self.assertEqual(admin.get(MAPS + "/large-0").status, 200)
            kit.eventually(lambda: proxy.metric("kintsugi_shed_step") < 3, 20, "memory is there again")
            kit.eventually(lambda: bob.get(MAPS + "/large-0").status == 200, 20, "tenants are served")
            kit.eventually(lambda: any(one["object"]["metadata"]["name"] == f"large-{written - 1}" for one in list(reader.events)),
                           20, "who reads has lost nothing")
            self.assertTrue(streams)


if __name__ == "__main__":
    unittest.main()
