"""Logical clusters move while they are used (GR-603 to GR-605), and are spread over shards by a plan."""
import json
import subprocess
import threading
import unittest

import kit

MIGRATIONS = "/apis/migration.kcp.io/v1alpha1/logicalclustermigrations"
MAPS = "/api/v1/namespaces/default/configmaps"


def migration(name, cluster, shard):
    return {"apiVersion": "migration.kcp.io/v1alpha1", "kind": "LogicalClusterMigration", "metadata": {"name": name},
            "spec": {"logicalCluster": cluster, "destinationShard": shard}}


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


class Informer(threading.Thread):
    """Lists once, then watches from where it was told last, as client-go does. A 410 makes it list again."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.stopped = client, threading.Event()
        self.objects, self.lists, self.watches, self.fault, self.stream = {}, 0, 0, None, None
        self.start()

    def run(self):
        try:
            while not self.stopped.is_set():
                self.list_once()
                self.follow()
        except Exception as fault:  # pylint: disable=broad-except
            self.fault = fault

    def list_once(self):
        answer = self.client.get(MAPS)
        while answer.status == 503:
            self.stopped.wait(0.1)
            answer = self.client.get(MAPS)
        assert answer.status == 200, answer
        self.lists += 1
        self.version = answer.json["metadata"]["resourceVersion"]
        self.objects = {one["metadata"]["name"]: one for one in answer.json["items"]}

    def follow(self):
        while not self.stopped.is_set():
            path = f"{MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=20&resourceVersion={self.version}"
            connection = self.client.connect()
            self.stream = connection
            connection.request("GET", self.client.url.path.rstrip("/") + path)
            answer = connection.getresponse()
            if answer.status == 503:
                self.stopped.wait(0.1)
                continue
            if answer.status == 410:
                return
            assert answer.status == 200, (answer.status, answer.read())
            self.watches += 1
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                self.version = event["object"]["metadata"]["resourceVersion"]
                name = event["object"]["metadata"].get("name")
                if event["type"] == "DELETED":
                    self.objects.pop(name, None)
                elif event["type"] != "BOOKMARK":
                    self.objects[name] = event["object"]


class Moves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=3).start_for(cls)
        cls.root = cls.installation.client()

    def workspace(self, name, shard):
        self.installation.make_workspace(name, selector={"name": shard})
        client = self.installation.client(f"/clusters/root:{name}")
        cluster = client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        return client, cluster

    def shard_of(self, client):
        answer = client.get("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        return answer.json["metadata"]["annotations"]["core.kcp.io/shard"] if answer.status == 200 else None

    def moved(self, name):
        def look():
            found = self.root.must("GET", f"{MIGRATIONS}/{name}").get("status", {})
            assert found.get("phase") == "Completed", found
            return found

        return kit.eventually(look, 60, what=f"{name} is over")

    def test_watches_follow_without_listing(self):
        """GR-603, GR-T603: informers list once, whatever is written while their logical cluster moves to and fro."""
        client, cluster = self.workspace("followed", "shard-1")
        for number in range(30):
            client.must("POST", MAPS, config_map(f"old-{number}", value="x" * 500))
        informers = [Informer(client) for _ in range(5)]
        kit.eventually(lambda: all(one.watches for one in informers))
        stop, fault, last = threading.Event(), [], {}

        def write():
            number = 0
            while not stop.is_set():
                number += 1
                name = f"new-{number % 20}"
                kinds = (("DELETE", f"{MAPS}/{name}", None),) if number % 7 == 0 else (
                    ("PUT", f"{MAPS}/{name}", config_map(name, n=str(number))), ("POST", MAPS, config_map(name, n=str(number))))
                for method, path, body in kinds:
                    answer = client.request(method, path, body)
                    if answer.status in (200, 201):
                        last[name] = None if method == "DELETE" else str(number)
                        break
                    if answer.status not in (404, 409, 503):
                        fault.append(answer)
                stop.wait(0.005)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        try:
            for round_, shard in enumerate(("shard-2", "root", "shard-1")):
                watches = [one.watches for one in informers]
                kit.eventually(lambda r=round_, s=shard: self.root.request("POST", MIGRATIONS, migration(f"follow-{r}", cluster, s)).status
                               in (201, 409))
                self.moved(f"follow-{round_}")
                kit.eventually(lambda s=shard: self.shard_of(client) == s)
                kit.eventually(lambda w=watches: all(one.watches > had for one, had in zip(informers, w)), what="all follow before it goes on")
                known = dict(last)
                kit.eventually(lambda k=known: last != k, what="writes go on")
        finally:
            stop.set()
            writer.join(60)
        self.assertEqual(fault, [])
        listed = {one["metadata"]["name"]: one for one in client.must("GET", MAPS)["items"]}
        self.assertEqual({name: one["data"]["n"] for name, one in listed.items() if name.startswith("new-")},
                         {name: number for name, number in last.items() if number is not None})
        for informer in informers:
            kit.eventually(lambda i=informer: {name: one["metadata"]["resourceVersion"] for name, one in i.objects.items()} ==
                           {name: one["metadata"]["resourceVersion"] for name, one in listed.items()}, what="it has what is there")
            informer.stopped.set()
            self.assertIsNone(informer.fault)
            self.assertEqual(informer.lists, 1)
            self.assertGreaterEqual(informer.watches, 4)

    def test_a_move_is_cancelled(self):
        """GR-604: who deletes the object while it is copied keeps the logical cluster where it is."""
        client, cluster = self.workspace("kept", "shard-1")
        for number in range(30):
            client.must("POST", MAPS, config_map(f"m{number}", value="y" * 900_000))
        self.root.must("POST", MIGRATIONS, migration("kept", cluster, "shard-2"))
        kit.eventually(lambda: self.root.must("GET", f"{MIGRATIONS}/kept").get("status", {}).get("originShard") == "shard-1")
        self.root.must("DELETE", f"{MIGRATIONS}/kept")
        client.must("POST", MAPS, config_map("meanwhile"))
        kit.eventually(lambda: self.root.get(f"{MIGRATIONS}/kept").status == 404, 30, what="the move ends")
        self.assertEqual(self.shard_of(client), "shard-1")
        client.must("POST", MAPS, config_map("after"))
        self.root.must("POST", MIGRATIONS, migration("kept", cluster, "shard-2"))
        self.moved("kept")
        kit.eventually(lambda: self.shard_of(client) == "shard-2")
        self.assertEqual(client.get(f"{MAPS}/meanwhile").status, 200)

    def rebalance(self, *arguments, status=0):
        done = subprocess.run([str(kit.BINARY), "rebalance", f"--kubeconfig={self.installation.kubeconfig}", *arguments],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_shards_are_balanced_by_a_plan(self):
        """GR-605, GR-T604: a plan, its moves, and an empty plan after it."""
        for number in range(4):
            self.installation.make_workspace(f"spread-{number}")
            client = self.installation.client(f"/clusters/root:spread-{number}")
            here = client.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]
            if here["core.kcp.io/shard"] != "shard-2":
                self.root.must("POST", MIGRATIONS, migration(f"spread-{number}", here["kcp.io/cluster"], "shard-2"))
                self.moved(f"spread-{number}")
                kit.eventually(lambda c=client: self.shard_of(c) == "shard-2")
            for object_ in range(150):
                client.must("POST", MAPS, config_map(f"m{object_}"))
        pinned, _ = self.workspace("pinned", "shard-2")
        for object_ in range(200):
            pinned.must("POST", MAPS, config_map(f"m{object_}"))
        self.assertIn("none of objects, bytes, watches", self.rebalance("--plan", "--by=neither", status=2)[1])
        self.rebalance(status=2)
        self.assertEqual(self.rebalance("--plan")[0], "Nothing is to be moved.\n")  # each shard is a region
        table, _ = self.rebalance("--plan", "--across")
        self.assertIn("root:spread-", table)
        plan, _ = self.rebalance("--plan", "--across", "--output=json")
        moves = json.loads(plan)["moves"]
        self.assertTrue(moves)
        self.assertEqual({one["from"] for one in moves}, {"shard-2"})
        self.assertNotIn("root:pinned", table)  # its Workspace names the shard
        file = self.installation.dir / "plan.json"
        file.write_text(plan)
        out, _ = self.rebalance(f"--apply={file}")
        self.assertEqual(out.count(" rows"), len(moves), out)
        for one in moves:
            client = self.installation.client(f"/clusters/{one['cluster']}")
            kit.eventually(lambda c=client, s=one["to"]: self.shard_of(c) == s)
            self.assertGreaterEqual(len(client.must("GET", MAPS)["items"]), 150)
        self.assertEqual(json.loads(self.rebalance("--plan", "--across", "--output=json")[0])["moves"], [])
        self.rebalance(f"--apply={file}")  # is done already
        self.assertEqual(self.rebalance("--cancel")[0], "")
        file.write_text("{}")
        self.assertIn("no plan of", self.rebalance(f"--apply={file}", status=1)[1])


if __name__ == "__main__":
    unittest.main()
