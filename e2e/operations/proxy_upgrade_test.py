"""Two proxies over one etcd are replaced one after the other, share out their watches, and agree on which releases may work there
(GR-211 to GR-213)."""
import json
import subprocess
import threading

import crowd
import informers
import kit
import over_etcd
import raw_h2

MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"


class RollingUpgrade(over_etcd.Proxies):
    def test_GR_212_one_after_the_other_is_replaced_under_merged_watches(self):
        proxies = [self.start(self.proxy()) for _ in range(2)]
        clients = [proxy.client("") for proxy in proxies]
        cursor = clients[0].must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        watches = [informers.Follower(order, cursor, ALL_MAPS) for _ in range(10) for order in (clients, clients[::-1])]
        writer, made = self.up.client(), []

        def write(word):
            for turn in range(5):
                writer.must("POST", MAPS, {"metadata": {"name": f"{word}-{turn}"}})
                made.append(f"{word}-{turn}")
            kit.eventually(lambda: all(set(made) <= {name for _, name in one.names} for one in watches), 30, f"all watches have {word}")

        try:
            write("before")
            for number, proxy in enumerate(proxies):
                proxy.process.terminate()
                write(f"without-{number}")
                self.assertEqual(proxy.process.wait(120), 0, proxy.text())
                proxy.__enter__()  # ready: the next one may go
                write(f"with-{number}")
            self.assertEqual([one.faults for one in watches if one.faults], [])
            self.assertTrue(all(one.resumes for one in watches), "each has gone on elsewhere")
            for one in watches:
                self.assertEqual({kind for kind, _ in one.names}, {"ADDED"})
                self.assertEqual([name for _, name in one.names if name in made], made, "once: each is read to its end")
        finally:
            for one in watches:
                one.done.set()
            writer.request("POST", MAPS, {"metadata": {"name": "the-end"}})

    def test_GR_212_in_place_on_one_port(self):
        old = self.start(self.proxy("/in-place", ["--permit-port-sharing"]))
        new = self.proxy("/in-place", ["--permit-port-sharing"], port=old.port)
        new.port = old.port
        faults, asked, end = [], [0], threading.Event()

        def ask():
            while not end.is_set():  # each by a connection of its own
                answer = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20",
                                         "--cacert", self.up.pki / "serving-ca.crt", f"https://127.0.0.1:{old.port}/livez"], capture_output=True, text=True, check=False)
                asked[0] += 1
                if answer.stdout != "200":
                    faults.append(answer.stdout + answer.stderr)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        try:
            self.start(new)
            kit.eventually(lambda: len(self.replicas("/in-place")) == 2 and all(one["ready"] for one in self.replicas("/in-place")), 20, "both serve")
            old.process.terminate()
            self.assertEqual(old.process.wait(120), 0, old.text())
            before = asked[0]
            kit.eventually(lambda: asked[0] > before + 5, 20, "the new one answers")
        finally:
            end.set()
            thread.join(30)
        self.assertEqual(faults, [])
        self.assertGreater(asked[0], 10)
        kit.eventually(lambda: len(self.replicas("/in-place")) == 1, 20, "the old one has left")


class Releases(over_etcd.Proxies):
    def finish(self, prefix):
        return subprocess.run([str(kit.BINARY), "store", "finish-upgrade", "--from", f"etcd={self.etcd.url}", "--prefix", prefix],
                              capture_output=True, text=True, timeout=60, check=False)

    def test_GR_211_a_prefix_for_later_programs_is_not_opened(self):
        over_etcd.put(self.etcd, "/later/meta", json.dumps({"format": 1, "uid": "u", "offset": 0, "epoch": 1, "lowest": "99.0.0"}))
        proxy = self.proxy("/later")
        run = subprocess.run([str(kit.BINARY), "proxy", "--config", str(proxy.dir / "proxy.yaml"), "--allow-root"], capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("/later in etcd is for kintsugi 99.0.0 and later", run.stderr)
        self.assertEqual(self.finish("/later").returncode, 1)

    def test_GR_211_an_upgrade_is_finished_when_all_are_of_this_release(self):
        proxy = self.start(self.proxy("/finish"))
        mine = kit.eventually(lambda: self.replicas("/finish"), 20, "its record")
        self.assertEqual([one["address"] for one in mine], [f"127.0.0.1:{proxy.port}"])
        meta = json.loads(over_etcd.rows(self.etcd, "/finish/meta")["/finish/meta"])
        over_etcd.put(self.etcd, "/finish/meta", json.dumps({**meta, "moons": ["mars"]}))
        run = self.finish("/finish")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"for kintsugi {mine[0]['version']} and later", run.stdout)
        meta = json.loads(over_etcd.rows(self.etcd, "/finish/meta")["/finish/meta"])
        self.assertEqual((meta["lowest"], meta["moons"]), (mine[0]["version"], ["mars"]))
        self.assertIsNone(proxy.process.poll(), "who is at work goes on")
        proxy.client().must("POST", "/apis/topology.kcp.io/v1alpha1/partitions",
                            {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "after"}, "spec": {}})
        # A program that is too old for what somebody has decided meanwhile ends.
        over_etcd.put(self.etcd, "/finish/meta", json.dumps({**meta, "lowest": "99.0.0"}))
        self.assertEqual(proxy.process.wait(120), 1, proxy.text())
        self.assertIn("is not for this program any more", proxy.text())


class Watches(over_etcd.Proxies):
    def test_GR_213_watches_begin_one_after_the_other_when_many_come(self):
        proxy = self.start(self.proxy("/starts", watch_starts=5))
        connection = raw_h2.Connection(proxy.client(""))
        streams = [connection.open("GET", f"{ALL_MAPS}?watch=1", [("accept", "application/json")]) for _ in range(120)]
        self.assertTrue(connection.until(lambda: all(stream.status for stream in streams), 30), [stream.status for stream in streams])
        statuses = [stream.status for stream in streams]
        self.assertEqual(set(statuses), {200, 429})
        self.assertGreaterEqual(statuses.count(200), 50)
        refused = next(stream for stream in streams if stream.status == 429)
        connection.until(lambda: refused.ended, 10)
        self.assertEqual(json.loads(refused.body)["details"]["retryAfterSeconds"], 1)
        self.assertEqual(proxy.client().get(MAPS).status, 200, "what is no watch is answered")
        connection.close()

    def test_GR_213_a_proxy_with_all_watches_gives_some_away(self):
        proxies = [self.start(self.proxy("/balance", balance_watches="true")) for _ in range(2)]
        kit.eventually(lambda: [one["ready"] for one in self.replicas("/balance")] == [True, True], 20, "both know of each other")
        cursor = proxies[0].client("").must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        watches = crowd.Crowd([[proxy.client("") for proxy in proxies] for _ in range(4)], ALL_MAPS, cursor, 30, elsewhere=True)
        self.addCleanup(watches.join, 20)
        self.addCleanup(watches.end.set)
        kit.eventually(lambda: all(one.status == 200 for one in watches.all), 20, "all watches are open")

        def counts():
            return [one["watches"] for one in sorted(self.replicas("/balance"), key=lambda one: one["address"] != f"127.0.0.1:{proxies[0].port}")]

        kit.eventually(lambda: counts()[1] >= 30, 40, f"some are at the other one: {counts()}")
        self.assertIsNone(proxies[0].process.poll())
        self.up.client().must("POST", MAPS, {"metadata": {"name": "balanced"}})
        kit.eventually(lambda: all(("ADDED", "balanced") in one.events for one in watches.all), 20, "all go on")
        self.assertEqual(watches.faults, [])
        self.assertEqual(watches.refused, set())
        self.assertTrue(all(kind == "ADDED" for one in watches.all for kind, _ in one.events))
