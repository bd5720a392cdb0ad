"""Topology source `clusterprofiles` (GR-701 to GR-704): clusters of a hub join, change and leave under open watches."""
import json
import subprocess
import unittest

import kit
from fleet import MAPS, PROFILES, SECRETS, Fleet, Relay

MEMBERS = 4


def setUpModule():
    global fleet, hub_relay
    fleet = Fleet(Fleets, MEMBERS)
    hub_relay = Relay(fleet.shard_port("hub"))
    for n in range(MEMBERS):
        kit.eventually(lambda n=n: fleet.at(f"m{n}").get("/api/v1/namespaces/default").status == 200)
        fleet.make_map(f"m{n}", f"first-{n}")
    fleet.put_profile("berlin", fleet.by_program(fleet.server("m0")), properties=[{"name": "region", "value": "eu"}])
    fleet.start_proxy(hub_relay.port, cluster_api=True, properties=["region"])


def maps_of(events):
    """(cluster, name) of what was ADDED, as often as it was told."""
    return [(one["object"]["metadata"]["annotations"]["kcp.io/cluster"], one["object"]["metadata"]["name"]) for one in events
            if one["type"] == "ADDED" and "kube-root" not in one["object"]["metadata"]["name"]]


class Fleets(unittest.TestCase):
    def told(self, watch, *wanted):
        def all_are():
            assert watch.fault is None and watch.is_alive(), (watch.fault, len(watch.events))
            seen = maps_of(watch.events)
            assert all(one in seen for one in wanted), (wanted, seen)
            return seen
        return kit.eventually(all_are, 30, f"the watch tells of {wanted}")

    def test_1_GR_703_clusters_join_change_and_leave_while_a_watch_is_open(self):
        kit.eventually(lambda: fleet.members() == {"berlin"}, 30, "berlin has joined")
        watch = kit.Watch(fleet.through("/clusters/*"), "/api/v1/configmaps?watch=true&sendInitialEvents=true"
                          "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
        self.told(watch, ("berlin", "first-0"))
        asked = [json.loads(line) for line in (fleet.folder / "asked").read_text().splitlines()]
        self.assertEqual(asked[0]["spec"]["cluster"]["server"], fleet.server("m0"))
        self.assertEqual(asked[0]["spec"]["interactive"], False)

        # Joins: by a Secret, and by one of Cluster API.
        before = Relay(fleet.shard_port("m1"))
        fleet.put_secret("way-to-ohio", fleet.kubeconfig("https://127.0.0.1:1"))  # the profile's own server counts
        fleet.put_profile("ohio", fleet.by_secret(fleet.server("m1", before.port), "way-to-ohio"))
        fleet.put_secret("mumbai-kubeconfig", fleet.kubeconfig(fleet.server("m2")), "cluster.x-k8s.io/secret",
                         {"cluster.x-k8s.io/cluster-name": "mumbai"})
        self.told(watch, ("ohio", "first-1"), ("mumbai", "first-2"))
        self.assertEqual(fleet.through("/clusters/ohio").must("GET", f"{MAPS}/first-1")["metadata"]["name"], "first-1")
        self.assertGreater(before.accepted, 0)

        # Another server and another credential for the same cluster; what it writes meanwhile is told, once.
        after = Relay(fleet.shard_port("m1"))
        cert, key = fleet.pair("fleet-second", ["system:masters"])
        fleet.put_secret("way-to-ohio", fleet.kubeconfig("https://127.0.0.1:1", {"client-certificate-data": cert, "client-key-data": key}))
        fleet.put_profile("ohio", fleet.by_secret(fleet.server("m1", after.port), "way-to-ohio"))
        for n in range(20):
            fleet.make_map("m1", f"moving-{n}")
        kit.eventually(lambda: fleet.rows()["ohio"]["baseURL"] == fleet.server("m1", after.port), what="the new server is used")
        before.close()
        for n in range(20, 40):
            fleet.make_map("m1", f"moving-{n}")
        seen = self.told(watch, *(("ohio", f"moving-{n}") for n in range(40)))
        self.assertEqual(sorted(one for one in seen if one[0] == "ohio"),
                         sorted([("ohio", f"moving-{n}") for n in range(40)] + [("ohio", "first-1")]))
        self.assertGreater(after.accepted, 0)

        # Leaves: those who are there go on.
        fleet.hub.must("DELETE", f"{PROFILES}/ohio")
        fleet.hub.must("DELETE", f"{SECRETS}/mumbai-kubeconfig")
        kit.eventually(lambda: set(fleet.rows()) == {"berlin"}, 30, "ohio and mumbai have left")
        self.assertIn(fleet.through("/clusters/ohio").get(MAPS).status, (403, 404))
        fleet.make_map("m0", "last-0")
        self.told(watch, ("berlin", "last-0"))

    def test_2_GR_704_what_is_wrong_with_a_cluster_is_told_and_is_its_own_fault(self):
        bad = {"plainly": ("BadServer", fleet.by_program("http://127.0.0.1:1")),
               "itself": ("BadServer", fleet.by_program(f"https://127.0.0.1:{fleet.port}")),
               "near": ("BadServer", fleet.by_program("https://127.0.0.2:6443")),
               "foreign": ("NoProvider", fleet.by_program(fleet.server("m1"), "nobody-knows")),
               "broken": ("PluginFailed", fleet.by_program(fleet.server("m1"), "broken")),
               "lost": ("NoSecret", fleet.by_secret(fleet.server("m1"), "there-is-none")),
               "silent": ("Unreachable", fleet.by_program(f"https://127.0.0.1:{kit.free_port()}")),
               "runs": ("BadKubeconfig", fleet.by_secret(fleet.server("m1"), "runs")),
               "fat": ("BadCertificate", [{"name": "program", "cluster": {
                   "server": fleet.server("m1"), "certificate-authority-data": "A" * 1_000_000}}])}
        fleet.put_secret("runs", fleet.kubeconfig(fleet.server("m1"), {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": f"/usr/bin/touch {fleet.folder}/run"}}))
        for name, (_, providers) in bad.items():
            fleet.put_profile(name, providers)
        fleet.put_profile("paris", fleet.by_program(fleet.server("m3")),
                          metadata={"labels": {"tier": "gold"}}, properties=[{"name": "region", "value": "no value!"}])
        kit.eventually(lambda: "paris" in fleet.members(), 20, "a good one joins beside them")

        def told():
            rows = fleet.rows()
            assert {name: rows[name]["source"]["reason"] for name in bad} == {name: reason for name, (reason, _) in bad.items()}, rows
            return rows
        rows = kit.eventually(told, 20, "reasons")
        self.assertFalse((fleet.folder / "run").exists())
        self.assertEqual({name: rows[name]["source"]["state"] for name in bad}, dict.fromkeys(bad, "joining"))
        self.assertEqual((rows["paris"]["labels"]["tier"], rows["paris"]["source"]["labelsLeftOut"]), ("gold", 1))
        self.assertEqual(rows["berlin"]["labels"]["region"], "eu")
        metrics = fleet.admin("/metrics").splitlines()
        self.assertIn('kintsugi_fleet_clusters{state="joining",reason="BadServer"} 3', metrics)
        self.assertIn('kintsugi_fleet_clusters{state="member",reason=""} 2', metrics)
        shown = subprocess.run([str(kit.BINARY), "get", "shards", "-o", "wide", "--admin", str(fleet.folder / "admin.sock")], text=True,
                               capture_output=True, check=True).stdout.splitlines()
        line = next(one for one in shown if one.startswith("broken "))
        self.assertIn("PluginFailed: ", line)
        self.assertIn("ClusterProfile fleet/broken, joining", line)
        for name in bad:
            fleet.hub.must("DELETE", f"{PROFILES}/{name}")
        kit.eventually(lambda: set(fleet.rows()) == {"berlin", "paris"}, what="they are forgotten")

    def test_3_GR_704_a_hub_that_is_away_takes_nothing_with_it(self):
        global hub_relay
        port = hub_relay.port
        hub_relay.close()
        fleet.make_map("m0", "alone")
        self.assertEqual(fleet.through("/clusters/berlin").get(f"{MAPS}/alone").status, 200)
        kit.eventually(lambda: any(one["status"] or one["cause"] for one in json.loads(fleet.admin("/debug/shards"))["hub"]["lists"]),
                       20, "the proxy has noticed")
        self.assertEqual(fleet.members(), {"berlin", "paris"})
        fleet.put_profile("tokyo", fleet.by_program(fleet.server("m2")))
        hub_relay = Relay(fleet.shard_port("hub"), port)
        kit.eventually(lambda: fleet.members() == {"berlin", "paris", "tokyo"}, 60, "the hub is heard again")

    def test_4_GR_704_a_restart_keeps_the_slots(self):
        before = kit.eventually(lambda: kit.stays(fleet.generation, 1.5), 20, "the slots are stored")
        fleet.end()
        fleet.begin()
        kit.eventually(lambda: fleet.members() == {"berlin", "paris", "tokyo"}, 30, "all are back")
        self.assertEqual(kit.stays(fleet.generation, 1.5), before)
