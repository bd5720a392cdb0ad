"""Logical clusters move between embedded shards (KK-210 to KK-214, FP-088 to FP-090, GR-601 to GR-603)."""
import json
import random
import signal
import subprocess
import threading
import unittest

import kit

MIGRATIONS = "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations"
MAPS = "/api/v1/namespaces/default/configmaps"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
APIS = "/apis/apis.kcp.io/v1alpha2"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MERGE = {"Content-Type": "application/merge-patch+json"}


def migration(name, cluster, shard):
    return {"apiVersion": "migration.kcp.io/v1alpha1", "kind": "LogicalClusterMigration", "metadata": {"name": name},
            "spec": {"logicalCluster": cluster, "destinationShard": shard}}


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Moves(unittest.TestCase):
    def setUp(self):
        self.installation = self.shared
        self.root = self.installation.client()

    @classmethod
    def setUpClass(cls):
        cls.shared = kit.Installation(shards=3).start_for(cls)

    def workspace(self, name, shard):
        self.installation.make_workspace(name, selector={"name": shard})
        client = self.installation.client(f"/clusters/root:{name}")
        cluster = client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        return client, cluster

    def at_shard(self, shard, cluster):
        pki = self.installation.pki
        return kit.Client(f"{self.installation.shard_url(shard)}/clusters/{cluster}", pki / "serving-ca.crt", pki / "shard-admin.crt",
                          pki / "shard-admin.key")

    def move(self, name, cluster, shard):
        kit.eventually(lambda: self.root.request("POST", MIGRATIONS, migration(name, cluster, shard)).status in (201, 409))

    def phase(self, name):
        return self.root.must("GET", f"{MIGRATIONS}/{name}").get("status", {}).get("phase")

    def moved(self, name, deadline=60, phase="Completed"):
        def look():
            found = self.root.must("GET", f"{MIGRATIONS}/{name}").get("status", {})
            assert found.get("phase") == phase, found
            return found

        return kit.eventually(look, deadline, what=f"{name} is {phase}")

    def holders(self, cluster):
        """Shards that serve the logical cluster."""
        return [shard for shard in ("root", "shard-1", "shard-2")
                if self.at_shard(shard, cluster).get("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").status == 200]

    def test_a_workspace_moves_with_all_that_is_in_it(self):
        """FP-088, GR-603: the same URL, uids and contents; revisions that only rise; watches go on, and where they cannot it is a 410."""
        client, cluster = self.workspace("mover", "shard-1")
        client.must("POST", CRDS, {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "pots.mv.io"},
            "spec": {"group": "mv.io", "scope": "Namespaced", "names": {"plural": "pots", "singular": "pot", "kind": "Pot"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
        pots = "/apis/mv.io/v1/namespaces/default/pots"
        kit.eventually(lambda: client.request("POST", pots, {"apiVersion": "mv.io/v1", "kind": "Pot", "metadata": {"name": "a"},
                                                             "size": 3}).status == 201)
        for number in range(30):
            client.must("POST", MAPS, config_map(f"m{number}", value="x" * 2000))
        early = client.must("GET", MAPS)["metadata"]["resourceVersion"]
        client.must("DELETE", f"{MAPS}/m29")
        self.installation.make_workspace("child", parent="root:mover", selector={"name": "shard-1"})
        before = {one["metadata"]["name"]: one for one in client.must("GET", MAPS)["items"]}
        listed = client.must("GET", MAPS)["metadata"]["resourceVersion"]
        page = client.must("GET", MAPS + "?limit=5")["metadata"]["continue"]
        watch = kit.Watch(client, MAPS + f"?watch=true&resourceVersion={listed}")
        phases = kit.Watch(self.root, MIGRATIONS + "?watch=true&fieldSelector=metadata.name%3Dmover")
        self.move("mover", cluster, "shard-2")
        status = self.moved("mover")
        seen = [one["object"].get("status", {}).get("phase") for one in phases.events]
        self.assertEqual([one for one in dict.fromkeys(seen) if one not in (None, "Preparing")], ["Migrating", "OriginCleanup", "DestinationFinalize", "Completed"], seen)
        self.assertEqual(status["originShard"], "shard-1")
        self.assertGreater(status["entriesCopied"], 30)
        kit.eventually(lambda: self.holders(cluster) == ["shard-2"])
        kit.eventually(lambda: client.get(MAPS).status == 200)
        found = client.must("GET", MAPS)
        after = {one["metadata"]["name"]: one for one in found["items"]}
        self.assertEqual(sorted(after), sorted(before))
        self.assertGreater(int(found["metadata"]["resourceVersion"]), int(listed))
        for name, one in after.items():
            for member in ("uid", "creationTimestamp", "managedFields"):
                self.assertEqual(one["metadata"].get(member), before[name]["metadata"].get(member), name)
            self.assertEqual(one.get("data"), before[name].get("data"))
            self.assertGreater(int(one["metadata"]["resourceVersion"]), int(listed))
        self.assertEqual(client.must("GET", pots + "/a")["size"], 3)
        self.assertEqual(client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]
                         ["core.kcp.io/shard"], "shard-2")
        kit.eventually(lambda: watch.ended_at is not None, what="the watch at the origin ends")
        for path in (f"{MAPS}?watch=true&resourceVersion={early}", f"{MAPS}?limit=5&continue={page}"):
            self.assertEqual(client.get(path).status, 410, path)
        resumed = kit.Watch(client, MAPS + f"?watch=true&resourceVersion={listed}")
        client.must("POST", MAPS, config_map("new"))
        kit.eventually(lambda: resumed.events and resumed.events[-1]["object"]["metadata"]["name"] == "new", what="it goes on")
        told = {one["object"]["metadata"]["name"]: one["object"]["metadata"]["resourceVersion"] for one in resumed.events}
        self.assertEqual({name: told.get(name) for name in after},
                         {name: one["metadata"]["resourceVersion"] for name, one in after.items()})
        self.assertEqual(self.installation.client("/clusters/root:mover:child").get(MAPS).status, 200)
        kit.eventually(lambda: not self.leftovers("shard-1", cluster), what="the origin forgets it")
        # Its Workspace finds it where it is now.
        self.root.must("DELETE", f"{WORKSPACES}/mover")
        kit.eventually(lambda: self.root.get(f"{WORKSPACES}/mover").status == 404, 40, what="the workspace goes")
        kit.eventually(lambda: self.holders(cluster) == [], what="and its logical cluster")

    def leftovers(self, shard, cluster):
        return [one for one in self.at_shard(shard, "*").must("GET", "/api/v1/configmaps")["items"]
                if one["metadata"]["annotations"]["kcp.io/cluster"] == cluster]

    def test_writes_meanwhile_are_refused_or_kept(self):
        """GR-601, GR-602, KK-214: no acknowledged write is lost, none is there that was refused."""
        client, cluster = self.workspace("busy", "shard-1")
        acknowledged, refused, fault, stop = set(), set(), [], threading.Event()

        def write(worker):
            number = 0
            while not stop.is_set():
                name = f"w{worker}-{number}"
                number += 1
                try:
                    answer = client.request("POST", MAPS, config_map(name))
                except OSError as error:
                    fault.append(error)
                    continue
                if answer.status == 201:
                    acknowledged.add(name)
                elif answer.status in (503, 429):
                    refused.add(name)
                    stop.wait(0.02)
                else:
                    fault.append(answer)

        workers = [threading.Thread(target=write, args=(worker,), daemon=True) for worker in range(4)]
        for worker in workers:
            worker.start()
        try:
            for round_, shard in enumerate(("shard-2", "shard-1", "root")):
                self.move(f"busy-{round_}", cluster, shard)
                self.moved(f"busy-{round_}")
                kit.eventually(lambda s=shard: self.holders(cluster) == [s])
                known = len(acknowledged)
                kit.eventually(lambda k=known: len(acknowledged) > k, what="writes go on")
        finally:
            stop.set()
            for worker in workers:
                worker.join(60)
        self.assertEqual(fault, [])
        found = {one["metadata"]["name"] for one in client.must("GET", MAPS)["items"]} - {"kube-root-ca.crt"}
        self.assertEqual(found, acknowledged)

    def test_a_crash_at_any_time_leaves_one_owner(self):
        """GR-601, GR-T601: shards are killed while a logical cluster moves; it ends on one shard with all that was acknowledged."""
        client, cluster = self.workspace("crash", "shard-1")
        for number in range(60):
            client.must("POST", MAPS, config_map(f"m{number}", value="y" * 4000))
        chance = random.Random(20)
        place = "shard-1"
        for round_ in range(6):
            target = "shard-2" if place == "shard-1" else "shard-1"
            name = f"crash-{round_}"
            self.move(name, cluster, target)
            victim = ("root", "shard-1", "shard-2")[round_ % 3]
            pause = threading.Event()
            pause.wait(chance.random() * 0.4)
            self.installation.kill(victim, signal.SIGKILL)
            with self.subTest(round_, victim=victim):
                def over(migration_name=name):
                    phase = self.phase(migration_name)
                    assert phase in ("Completed", "Failed"), phase
                    return phase

                phase = kit.eventually(over, 90, what=f"{name} ends")
                place = target if phase == "Completed" else place
                kit.eventually(lambda p=place: self.holders(cluster) == [p], 30, what=f"{place} alone has it")
                kit.eventually(lambda: client.get(MAPS).status == 200, 30)
                names = {one["metadata"]["name"] for one in client.must("GET", MAPS)["items"]}
                self.assertEqual({f"m{number}" for number in range(60)} - names, set())
                kit.eventually(lambda r=round_: client.request("POST", MAPS, config_map(f"after-{r}")).status == 201)

    def test_several_moves_at_once(self):
        """FP-090"""
        made = {name: self.workspace(name, "shard-1") for name in ("many-a", "many-b", "many-c", "many-d")}
        for client, _ in made.values():
            client.must("POST", MAPS, config_map("here"))
        for name, (_, cluster) in made.items():
            self.move(name, cluster, "shard-2")
        for name, (client, cluster) in made.items():
            self.moved(name)
            kit.eventually(lambda c=cluster: self.holders(c) == ["shard-2"])
            kit.eventually(lambda c=client: c.get(f"{MAPS}/here").status == 200)

    def test_a_provider_moves(self):
        """FP-089: consumers stay bound, the virtual workspace goes on, watches recover."""
        prov, cluster = self.workspace("mv-prov", "shard-1")
        consumer, _ = self.workspace("mv-consumer", "shard-2")
        prov.must("POST", SCHEMAS, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": "v1.cups.mv.io"},
            "spec": {"group": "mv.io", "scope": "Namespaced",
                     "names": {"plural": "cups", "singular": "cup", "kind": "Cup", "listKind": "CupList"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
        prov.must("POST", f"{APIS}/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "cups"}, "spec": {"resources": [
                {"group": "mv.io", "name": "cups", "schema": "v1.cups.mv.io", "storage": {"crd": {}}}]}})
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "cups"},
                "spec": {"reference": {"export": {"path": "root:mv-prov", "name": "cups"}}}}
        kit.eventually(lambda: consumer.request("POST", APIS + "/apibindings", body).status in (201, 409))
        kit.eventually(lambda: consumer.must("GET", f"{APIS}/apibindings/cups")["status"]["phase"] == "Bound")
        cups = "/apis/mv.io/v1/namespaces/default/cups"
        consumer.must("POST", cups, {"apiVersion": "mv.io/v1", "kind": "Cup", "metadata": {"name": "one"}})
        view = self.installation.client(f"/services/apiexport/{cluster}/cups/clusters/*")
        kit.eventually(lambda: len(view.must("GET", "/apis/mv.io/v1/cups")["items"]) == 1)
        self.move("mv-prov", cluster, "root")
        self.moved("mv-prov")
        kit.eventually(lambda: self.holders(cluster) == ["root"])
        self.assertEqual(consumer.must("GET", f"{APIS}/apibindings/cups")["status"]["phase"], "Bound")
        consumer.must("POST", cups, {"apiVersion": "mv.io/v1", "kind": "Cup", "metadata": {"name": "two"}})
        kit.eventually(lambda: sorted(one["metadata"]["name"] for one in view.must("GET", "/apis/mv.io/v1/cups")["items"]) ==
                       ["one", "two"])
        events = kit.Watch(view, "/apis/mv.io/v1/cups?watch=true")
        kit.eventually(lambda: len(events.events) == 2)
        consumer.must("POST", cups, {"apiVersion": "mv.io/v1", "kind": "Cup", "metadata": {"name": "three"}})
        kit.eventually(lambda: [one["object"]["metadata"]["name"] for one in events.events[2:]] == ["three"])
        again, _ = self.workspace("mv-later", "shard-1")
        kit.eventually(lambda: again.request("POST", APIS + "/apibindings", body).status in (201, 409), what="it can be bound")
        kit.eventually(lambda: again.must("GET", f"{APIS}/apibindings/cups")["status"]["phase"] == "Bound")

    def test_who_may_move_what(self):
        """KK-211, KK-212, KK-T102"""
        client, cluster = self.workspace("owned", "shard-1")
        client.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "ann"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]})
        ann = self.installation.user_client("ann", path="/clusters/root:owned")
        kit.eventually(lambda: ann.get(MAPS).status == 200)
        for where in (ann, self.installation.user_client("ann")):
            for method, path, body in (("POST", MIGRATIONS, migration("mine", cluster, "shard-2")), ("GET", MIGRATIONS, None)):
                self.assertEqual(where.request(method, path, body).status, 403)
        dump = {"apiVersion": "migration.kcp.io/v1alpha1", "kind": "LogicalClusterDump", "metadata": {},
                "spec": {"step": "page", "migration": "x"}}
        answer = ann.request("POST", "/apis/migration.kcp.io/v1alpha1/logicalclusterdumps", dump)
        self.assertEqual((answer.status, answer.json["message"]), (403, (
            "logicalclusterdumps.migration.kcp.io is forbidden: user is not in group system:kcp:external-logical-cluster-admin")))
        steps = f"/services/moves/{cluster}/clusters/{cluster}"
        for user in (self.installation.client(steps), self.installation.user_client("ann", path=steps),
                     self.installation.user_client("posing", groups=("system:kintsugi:shard",), path=steps)):
            self.assertIn(user.request("POST", "/apis/migration.kcp.io/v1alpha1/logicalclusterdumps", dump).status, (403, 404))
        for name in ("root", "system:admin"):
            self.assertEqual(self.root.request("POST", MIGRATIONS, migration("never", name, "shard-2")).status, 403)
        for shard, why in (("no-such-shard", "there is no such Shard"), ("shard-1", "the logical cluster is there")):
            answer = self.root.request("POST", MIGRATIONS, migration("nowhere", cluster, shard))
            self.assertEqual((answer.status, answer.json["message"]), (422, (
                f'LogicalClusterMigration.migration.kcp.io "nowhere" is invalid: spec.destinationShard: Invalid value: "{shard}": {why}')))
        shard_2 = f"{SHARDS}/shard-2"
        self.root.must("PATCH", shard_2, {"metadata": {"annotations": {"experimental.core.kcp.io/unschedulable": "true"}}}, headers=MERGE)
        self.move("nowhere", cluster, "shard-2")
        kit.eventually(lambda: "takes no logical" in json.dumps(self.root.must("GET", f"{MIGRATIONS}/nowhere").get("status", {})))
        self.assertEqual(self.root.request("POST", MIGRATIONS, migration("twice", cluster, "shard-2")).status, 409)
        answer = self.root.request("PATCH", f"{MIGRATIONS}/nowhere", {"spec": {"destinationShard": "root"}}, headers=MERGE)
        self.assertEqual(answer.status, 422, answer)
        self.root.must("DELETE", f"{MIGRATIONS}/nowhere")
        kit.eventually(lambda: self.root.get(f"{MIGRATIONS}/nowhere").status == 404)
        self.root.must("PATCH", shard_2, {"metadata": {"annotations": {"experimental.core.kcp.io/unschedulable": None}}}, headers=MERGE)
        self.assertEqual(client.get(MAPS).status, 200)

    def other_program(self, name, version, loads=404):
        """A Shard that answers like another program; what it was asked, and a switch for its answers."""
        asked, away = [], threading.Event()

        def answer(request):
            if away.is_set():
                request.close_connection = True
                return 503, {}
            asked.append((request.command, request.path))
            if request.path.endswith("/debug/logical_clusters") and loads == 403:
                return 403, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "forbidden"}
            return (200, {"gitVersion": version}) if request.path == "/version" else (404, {
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"})

        server = kit.JsonServer(self.installation.pki, answer)
        self.addCleanup(server.close)
        self.root.must("POST", SHARDS, {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard", "metadata": {"name": name}, "spec": {
            "baseURL": server.url, "externalURL": server.url, "virtualWorkspaceURL": server.url}})
        self.addCleanup(lambda: self.root.must("DELETE", f"{SHARDS}/{name}"))
        return asked, away

    def test_KK_211_none_goes_to_a_shard_of_another_program(self):
        """GR-601: nothing is asked of it, and nothing changes where the cluster is."""
        client, cluster = self.workspace("stays", "shard-1")
        why = "this Shard is another program's: logical clusters move between shards of kintsugi alone"
        for name, version in (("of-kcp", "v1.33.3+kcp-v0.29.0"), ("plain", "v1.36.3")):
            asked, away = self.other_program(name, version)
            answer = self.root.request("POST", MIGRATIONS, migration(f"to-{name}", cluster, name))
            self.assertEqual((answer.status, answer.json["message"]), (422, (
                f'LogicalClusterMigration.migration.kcp.io "to-{name}" is invalid: spec.destinationShard: Invalid value: "{name}": {why}')))
            self.assertEqual([one for one in asked if "/moves/" in one[1]], [])
            if name == "plain":
                continue
            # It was away when somebody wanted to move there, and takes none when it is back.
            self.root.must("PATCH", f"{SHARDS}/{name}", {"metadata": {"annotations": {"experimental.core.kcp.io/unschedulable": "true"}}}, headers=MERGE)
            away.set()
            self.root.must("POST", MIGRATIONS, migration(f"to-{name}", cluster, name))
            kit.eventually(lambda n=name: self.phase(f"to-{n}") == "Preparing")
            away.clear()
            self.root.must("PATCH", f"{SHARDS}/{name}", {"metadata": {"annotations": {"experimental.core.kcp.io/unschedulable": None}}}, headers=MERGE)
            status = self.moved(f"to-{name}", phase="Failed")
            self.assertEqual((status["conditions"][0]["message"], status.get("originShard")), (why, None))
            self.assertEqual([one for one in asked if "/moves/" in one[1]], [])
        client.must("POST", MAPS, config_map("later"))
        self.assertEqual(self.holders(cluster), ["shard-1"])

    def test_GR_605_shards_that_do_not_say_what_they_have_are_left_alone(self):
        fakes = {"says-404": self.other_program("says-404", "v1.36.3"), "says-403": self.other_program("says-403", "v1.33.3+kcp-v0.29.0", loads=403)}
        words = [str(kit.BINARY), "rebalance", f"--kubeconfig={self.installation.kubeconfig}", "--plan", "--across", "--limit=1.01", "--output=json"]

        def planned():
            run = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            assert run.returncode == 0, run.stderr
            return run

        run = kit.eventually(planned, 60, "a plan")
        told = [line for line in run.stderr.splitlines() if line.startswith("left alone, it does not say what it has: ") and ": shard says-40" in line]
        self.assertEqual(len(told), 2, run.stderr)
        for name, (asked, away) in fakes.items():
            self.assertTrue(any(name in line for line in told), told)
            self.assertIn("/clusters/*/debug/logical_clusters", [path for _, path in asked])
            self.assertNotIn(name, run.stdout, "nothing goes there or comes from there")
            away.set()
        failed = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(failed.returncode, 1, "one that fails is not one that has nothing: " + failed.stdout)
        self.assertIn("shard says-40", failed.stderr)


if __name__ == "__main__":
    unittest.main()
