"""Topology source `clusterprofiles` with real kube-apiservers and SIG Multicluster's own definition (GR-703, GR-704)."""
import datetime
import json
import shutil
import threading
import unittest

import kit
import typed
from fleet import PROFILES, ROOT, Relay
from kube_fleet import KubeFleet

ONLY_WITH_ALL = "kube-apiserver takes minutes to compile"
NAMES = ["hub", "s1", "s2", "s3", "s4"]


class KubeFleets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        global fleet, hub_relay
        fleet = KubeFleet(cls, NAMES)
        hub_relay = Relay(fleet.shard_port("hub"))
        fleet.start_proxy(hub_relay.port, cluster_api=True)

    def told(self, watch, wanted):
        def all_are():
            assert watch.fault is None and watch.is_alive(), (watch.fault, len(watch.events))
            seen = [(one["object"]["metadata"]["annotations"]["kcp.io/cluster"], one["object"]["metadata"]["name"])
                    for one in watch.events if one["type"] == "ADDED"]
            missing = [one for one in wanted if one not in seen]
            assert not missing, (len(missing), missing[:5])
            return seen
        return kit.eventually(all_are, 120, "the watch tells of all")

    def say(self, name, life):
        """What the provider's program says from now on."""
        cert, key = (part.read_text() for part in kit.make_user(fleet.dir, fleet.pki, name, ["system:masters"]))
        ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=life)
        said = fleet.folder / "says.new"
        said.write_text(json.dumps({
            "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": {"clientCertificateData": cert, "clientKeyData": key, "expirationTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}}))
        said.chmod(0o600)
        said.rename(fleet.folder / "says.json")

    def test_1_GR_703_join_rotate_leave(self):
        self.say("proxy-one", 20)
        fleet.put_profile("s1", fleet.by_program(fleet.server("s1")))
        kit.eventually(lambda: fleet.members() == {"s1"}, 60, "s1 has joined")
        watch = kit.Watch(fleet.through("/clusters/*"), "/api/v1/configmaps?watch=true&sendInitialEvents=true"
                          "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
        fleet.make_map("s1", "first")
        self.told(watch, [("s1", "first")])
        for name in NAMES:
            fleet.make_map(name, "before")
        fleet.put_secret("s2-way", fleet.kubeconfig(fleet.server("s2")))
        fleet.put_profile("s2", fleet.by_secret(fleet.server("s2"), "s2-way"))
        fleet.put_secret("s3-kubeconfig", fleet.kubeconfig(fleet.server("s3")), "cluster.x-k8s.io/secret",
                         {"cluster.x-k8s.io/cluster-name": "s3"})
        fleet.put_profile("s4", fleet.by_program(fleet.server("s4")))
        fleet.put_profile("hub", fleet.by_program(fleet.server("hub")))
        self.told(watch, [(name, "before") for name in NAMES])

        # Credentials of the program end: it is asked again, and the server hears of somebody else.
        self.say("proxy-two", 3600)
        kit.eventually(lambda: "proxy-two" in fleet.servers["s1"].users(), 90, "the new credential is used")
        self.assertIn("proxy-one", fleet.servers["s1"].users())

        # Another server and user of s2, while others write.
        stop, written = threading.Event(), []

        def write():
            while not stop.is_set():
                fleet.make_map("s1", f"meanwhile-{len(written)}")
                written.append(("s1", f"meanwhile-{len(written)}"))
                stop.wait(0.02)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for n in range(50):
                fleet.make_map("s2", f"here-{n}")
            fleet.move("s2")
            cert, key = fleet.pair("fleet-second", ["system:masters"])
            fleet.put_secret("s2-way", fleet.kubeconfig(fleet.server("s2"), {"client-certificate-data": cert, "client-key-data": key}))
            fleet.put_profile("s2", fleet.by_secret(fleet.server("s2"), "s2-way"))
            for n in range(50):
                fleet.make_map("s2", f"there-{n}")
        finally:
            stop.set()
            writer.join()
        seen = self.told(watch, written + [("s2", f"{where}-{n}") for where in ("here", "there") for n in range(50)])
        own = [one for one in seen if one[1].startswith(("here", "there", "meanwhile"))]
        self.assertEqual(len(own), len(set(own)), "an object was told twice")
        kit.eventually(lambda: "fleet-second" in fleet.servers["s2"].users(), 30, "the new user is used")

        fleet.hub.must("DELETE", f"{PROFILES}/s4")
        kit.eventually(lambda: set(fleet.rows()) == {"s1", "s2", "s3", "hub"}, 60, "s4 has left")
        fleet.make_map("s3", "last")
        self.told(watch, [("s3", "last")])

    def test_2_GR_704_200_profiles_20_bad_and_a_hub_that_forgets(self):
        bad = [("http://127.0.0.1:1", "program", "BadServer"), ("https://127.0.0.2:1", "program", "BadServer"),
               (fleet.server("s1"), "nobody", "NoProvider"), (fleet.server("s1"), "broken", "PluginFailed")]
        wanted = {}
        for n in range(200):
            server, provider, wanted[f"p{n}"] = bad[n % 4] if n % 10 == 0 else (fleet.server(f"s{1 + n % 3}"), "program", "")
            fleet.put_profile(f"p{n}", fleet.by_program(server, provider))

        def reasons():
            rows = fleet.rows()
            found = {name: rows[name]["source"]["reason"] for name in wanted if name in rows}
            assert found == wanted, [(name, found.get(name), reason) for name, reason in wanted.items() if found.get(name) != reason][:5]
            states = [rows[name]["source"]["state"] for name, reason in wanted.items() if not reason]
            assert states == ["member"] * 180, set(states)
            return True
        kit.eventually(reasons, 120, "180 have joined and 20 say why not")
        self.assertEqual(fleet.through("/clusters/p1").get("/api/v1/namespaces/default").status, 200)

        # The hub is away, and when it is back its list lacks half of them.
        global hub_relay
        port = hub_relay.port
        hub_relay.close()
        for n in range(100):
            fleet.hub.must("DELETE", f"{PROFILES}/p{n}")
        hub = fleet.servers["hub"]
        hub.kill()
        hub.forget()
        hub.start()
        kit.eventually(lambda: fleet.hub.get("/readyz").status == 200, 120, "the hub is ready again")
        self.assertTrue(reasons())
        hub_relay = Relay(fleet.shard_port("hub"), port)

        def states():
            rows = fleet.rows()
            return [rows[f"p{n}"]["source"]["state"] if f"p{n}" in rows else "gone" for n in range(100) if n % 10]
        kit.eventually(lambda: states() == ["in doubt"] * 90, 90, "they are in doubt")
        self.assertEqual(fleet.through("/clusters/p1").get("/api/v1/namespaces/default").status, 200)
        kit.eventually(lambda: states() == ["gone"] * 90, 90, "a second list lacks them, too")
        self.assertEqual(len([name for name in fleet.rows() if name.startswith("p")]), 100)

    def test_3_GR_702_the_walk_of_the_document(self):
        """With rights at hub and cluster that are those of the files, and no others."""
        kit.needs_kubectl(24, "--subresource")
        folder, port = fleet.dir / "walk", kit.free_port()
        here = folder / "configs" / "fleet"
        shutil.copytree(ROOT / "configs" / "fleet", here)
        shutil.copytree(fleet.pki, here / "pki")
        (folder / "kintsugi").symlink_to(kit.BINARY)
        for name, target, server, groups in (
                ("configs/fleet/hub", "kintsugi-fleet", "hub", ()), ("berlin", "kintsugi", "s4", ()),
                ("hub-admin", "hub-admin", "hub", ["system:masters"]), ("berlin-admin", "berlin-admin", "s4", ["system:masters"])):
            cert, key = fleet.pair(target, groups)
            path = folder / f"{name}.kubeconfig"
            path.write_text(fleet.kubeconfig(fleet.server(server), {"client-certificate-data": cert, "client-key-data": key}))
            path.chmod(0o600)
        socket = str(folder / "admin.sock")
        for name, change in (("proxy.yaml", {"port: 6443": f"port: {port}", "/var/lib/kintsugi/proxy": str(folder / "data"),
                                             "/run/kintsugi/admin.sock": socket, "    cluster_api: true": "    allow: [127.0.0.1]\n    cluster_api: true"}),
                             ("profile.yaml", {"https://berlin.example:6443": fleet.server("s4")})):
            text = (here / name).read_text()
            for old, new in change.items():
                self.assertIn(old, text)
                text = text.replace(old, new)
            (here / name).write_text(text)
        shell = typed.Shell(folder)
        try:
            shell.run(f"export KUBECONFIG={folder}/hub-admin.kubeconfig PATH={folder}:$PATH HOME={folder}")
            steps = typed.steps(typed.section((ROOT / "docs" / "fleets.md").read_text(), "A walk"))
            self.assertEqual(len(steps), 8)
            for command, printed in steps:
                typed.check(shell, command.replace("/run/kintsugi/admin.sock", socket), printed)

            def is_there():
                status, lines = shell.run(f"kintsugi get shards berlin -o wide --admin {socket}")
                assert status == 0 and " yes " in lines[1] and "region=eu" in lines[1], lines
                return "ClusterProfile fleet/berlin, member" in lines[1]
            kit.eventually(is_there, 60, "berlin is a member")
            caller = kit.Client(f"https://127.0.0.1:{port}/clusters/berlin", fleet.pki / "serving-ca.crt", fleet.pki / "admin.crt",
                                fleet.pki / "admin.key")
            self.assertEqual(caller.get("/api/v1/namespaces/default").status, 200)
            self.assertIn("kintsugi", fleet.servers["s4"].users())
        finally:
            shell.close()
