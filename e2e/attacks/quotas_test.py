"""SE-093, SE-T038, KK-233: what a workspace may have, reached by 64 writers at once; deletes, dry run, status, kill -9."""
import concurrent.futures
import functools
import http.client
import itertools
import json
import subprocess
import unittest

import kit
import trust
from trust import APIS, MERGE, TENANCY

MAPS, NAMESPACES = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces"
ACCOUNTS, EVENTS = "/api/v1/namespaces/default/serviceaccounts", "/api/v1/namespaces/default/events"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LOGICAL = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
WRITERS = 64
OBJECTS = "core.kcp.io/max-total-objects"


def setUpModule():
    global up, admin, path, shard  # pylint: disable=global-variable-undefined
    up = kit.Installation(shards=1).start_for()
    command = [str(kit.BINARY), "shard", "--join", str(up.state), "--name", "limited", "--labels", "region=limited",
               "--quotas", "owned=3,writes.rps=2,writes.burst=60,watches=4"]
    shard = Joined(command)
    shard.start()
    unittest.addModuleCleanup(shard.stop)
    kit.eventually(lambda: up.client().get("/apis/core.kcp.io/v1alpha1/shards/limited").status == 200)
    path = "/clusters/root:quotas"
    up.make_workspace("quotas", selector={"name": "root"})
    admin = up.client(path)


class Joined:
    def __init__(self, command):
        self.command, self.process = command, None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None


def crd(name):
    return {"metadata": {"name": f"{name}.quota.test"}, "spec": {
        "group": "quota.test", "scope": "Cluster",
        "names": {"plural": name, "singular": name, "kind": name.capitalize(), "listKind": name + "List"},
        "versions": [{"name": "v1", "served": True, "storage": True,
                      "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def named(name):
    return {"metadata": {"name": name}}


# What is limited: annotation, collection, an object of it, words of the refusal.
KINDS = [
    ("kintsugi.dev/max-definitions", CRDS, crd, "CustomResourceDefinitions and bound schemas"),
    ("kintsugi.dev/max-exports", f"{APIS}/apiexports", lambda n: trust.body_of("export", n, {}), "APIExports"),
    ("kintsugi.dev/max-serviceaccounts", ACCOUNTS, named, "ServiceAccounts"),  # before namespaces, which get some of their own
    ("kintsugi.dev/max-namespaces", NAMESPACES, named, "namespaces"),
    ("kintsugi.dev/max-children", f"{TENANCY}/workspaces", lambda n: trust.body_of("ws", n, {
        "location": {"selector": {"matchLabels": {"no": "shard"}}}}), "workspaces"),
]


def annotate(client=None, **values):
    (client or admin).must("PATCH", LOGICAL, json.dumps({"metadata": {"annotations": values}}), headers=MERGE)


def race(count, write):
    """The answers of so many writers at once."""
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(write, range(count)))


def bound():
    """Resources that the bindings of the workspace have bound."""
    return sum(len(one.get("status", {}).get("boundResources", ())) for one in admin.must("GET", f"{APIS}/apibindings")["items"])


def cluster_name():
    return admin.must("GET", LOGICAL)["metadata"]["annotations"]["kcp.io/cluster"]


class Quotas(unittest.TestCase):
    def full(self, answer, text):
        self.assertEqual((answer.status, answer.json["reason"]), (403, "Forbidden"), answer)
        self.assertTrue(answer.json["message"].endswith(text), answer.json["message"])

    def test_SE_T038_each_kind_is_reached_exactly(self):
        for annotation, collection, make, words in KINDS:
            with self.subTest(annotation):
                there = bound() if "definitions" in annotation else 0
                limit = there + len(admin.must("GET", collection.replace("/namespaces/default/", "/"))["items"]) + 20
                annotate(**{annotation: str(limit)})
                text = f'is forbidden: logical cluster "{cluster_name()}" has reached its limit of {limit} {words}'
                for number in range(30):  # dry run counts nothing
                    answer = admin.request("POST", collection + "?dryRun=All", make(f"dry{number}"))
                    self.assertEqual(answer.status, 201, answer)
                answers = race(WRITERS, lambda n, c=collection, m=make: up.client(path).request("POST", c, m(f"q{n}")))
                made = [n for n, answer in enumerate(answers) if answer.status == 201]
                self.assertEqual(len(made), 20, {a.status for a in answers})
                for answer in answers:
                    if answer.status != 201:
                        self.full(answer, text)
                self.full(admin.request("POST", collection + "?dryRun=All", make("late")), text)
                # what is there may change; a delete passes and makes room for one
                item = f"{collection}/{make(f'q{made[0]}')['metadata']['name']}"
                admin.must("PATCH", item, json.dumps({"metadata": {"labels": {"changed": "yes"}}}), headers=MERGE)
                admin.must("DELETE", item)
                kit.eventually(lambda i=item: admin.get(i).status == 404, what="it is gone")
                again = race(8, lambda n, c=collection, m=make: up.client(path).request("POST", c, m(f"again{n}")).status)
                self.assertEqual(sorted(again), [201] + [403] * 7)
                annotate(**{annotation: None})
                self.assertEqual(admin.request("POST", collection, make("free")).status, 201, "the default is far away")

    def test_SE_T038_bindings_and_who_is_not_bound(self):
        trust.export_of(admin, "bindable", group="bindable.test")

        def binding(name):
            return trust.body_of("binding", name, {"reference": {"export": {"path": "root:quotas", "name": "bindable"}}})

        def refused_soon(text):  # what is made before the limit is known there, is made: each has a name of its own
            names = itertools.count()
            kit.eventually(lambda: text in admin.request("POST", f"{APIS}/apibindings", binding(f"early{next(names)}")).json.get("message", ""),
                           what=f"refused: {text}")

        limit = len(admin.must("GET", f"{APIS}/apibindings")["items"])
        annotate(**{"kintsugi.dev/max-bindings": str(limit)})
        text = f"has reached its limit of {limit} APIBindings"
        refused_soon(text)
        self.full(admin.request("POST", f"{APIS}/apibindings?dryRun=All", binding("one")), text)
        answer = masters_client().request("POST", f"{APIS}/apibindings", binding("one"))
        self.assertEqual(answer.status, 201, f"no quota binds the installation's own servers: {answer}")
        self.full(admin.request("POST", f"{APIS}/apibindings", binding("two")), text)
        definitions = len(admin.must("GET", CRDS)["items"]) + bound()
        annotate(**{"kintsugi.dev/max-bindings": None, "kintsugi.dev/max-definitions": str(definitions)})
        refused_soon("bound schemas")
        annotate(**{"kintsugi.dev/max-definitions": None})

    def test_KK233_KK_T104_as_many_objects_as_the_administrator_says(self):
        up.make_workspace("limited", selector={"name": "root"})
        inside = up.client("/clusters/root:limited")
        settled(inside)
        inside.must("POST", MAPS, named("first"))
        annotate(inside, **{OBJECTS: "1"})
        cluster = inside.must("GET", LOGICAL)["metadata"]["annotations"]["kcp.io/cluster"]

        def refusal(answer):
            self.assertEqual(answer.status, 403, answer)
            self.assertRegex(answer.json["message"], f'^configmaps "[a-z]+" is forbidden: logical cluster "{cluster}" has reached '
                             r"its total object count limit \(\d+/\d+ objects\); delete objects to free up capacity$")
            return [int(n) for n in answer.json["message"].split("(")[1].split(" ")[0].split("/")]

        count, limit = refusal(inside.request("POST", MAPS, named("late")))
        self.assertEqual(limit, 1)
        refusal(inside.request("POST", MAPS + "?dryRun=All", named("dry")))
        applied = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", **named("applied")})
        refusal(inside.request("PATCH", f"{MAPS}/applied?fieldManager=x", applied, headers=trust.APPLY))
        event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "r", "type": "Normal"}
        inside.must("POST", EVENTS, event)  # those do not count
        inside.must("PATCH", f"{MAPS}/first", json.dumps({"data": {"k": "v"}}), headers=MERGE)
        annotate(inside, **{OBJECTS: str(count)})
        inside.must("DELETE", f"{MAPS}/first")
        answers = race(WRITERS, lambda n: up.client("/clusters/root:limited").request("POST", MAPS, named(f"n{n}")).status)
        self.assertEqual((answers.count(201), answers.count(403)), (1, WRITERS - 1))
        annotate(inside, **{OBJECTS: "0"})
        self.assertEqual(inside.request("POST", MAPS, named("unlimited")).status, 201)
        ann = tenant(inside, "ann", "/clusters/root:limited")
        for value in ("1000", None):
            answer = ann.request("PATCH", LOGICAL, json.dumps({"metadata": {"annotations": {OBJECTS: value}}}), headers=MERGE)
            self.assertEqual(answer.status, 403, answer)
            self.assertIn("modification of reserved annotation", answer.json["message"])

    def test_SE_T038_bytes_deletes_finalizers_and_status(self):
        up.make_workspace("heavy", selector={"name": "root"})
        inside = up.client("/clusters/root:heavy")
        inside.must("POST", CRDS, {**crd("weights"), "spec": {**crd("weights")["spec"], "versions": [
            {**crd("weights")["spec"]["versions"][0], "subresources": {"status": {}}}]}})
        weights = "/apis/quota.test/v1/weights"
        weight = {"apiVersion": "quota.test/v1", "kind": "Weights", "metadata": {"name": "one", "finalizers": ["quota.test/hold"]}}
        kit.eventually(lambda: inside.request("POST", weights, weight).status in (201, 409), what="the kind is served")
        inside.must("POST", MAPS, {**named("big"), "data": {"k": "v" * 200_000}})
        annotate(inside, **{"kintsugi.dev/max-total-bytes": "100k"})
        text = "has reached its limit of 100000 bytes"
        self.full(inside.request("POST", MAPS, named("late")), text)
        self.full(inside.request("PATCH", f"{MAPS}/big", json.dumps({"data": {"more": "v" * 100}}), headers=MERGE), text)
        self.full(inside.request("PATCH", f"{MAPS}/big?dryRun=All", json.dumps({"data": {"more": "v" * 100}}), headers=MERGE), text)
        inside.must("PATCH", f"{MAPS}/big", json.dumps({"data": {"k": "v" * 190_000}}), headers=MERGE)  # it shrinks
        inside.must("DELETE", f"{weights}/one")
        inside.must("PATCH", f"{weights}/one", json.dumps({"metadata": {"finalizers": None, "labels": {"it": "grows"}}}), headers=MERGE)
        self.assertEqual(inside.get(f"{weights}/one").status, 404)
        inside.must("DELETE", f"{MAPS}/big")
        annotate(inside, **{"kintsugi.dev/max-total-bytes": "10M"})
        inside.must("POST", weights, {**weight, "metadata": {"name": "two"}})
        annotate(inside, **{"kintsugi.dev/max-total-bytes": "1"})
        self.full(inside.request("POST", weights, {**weight, "metadata": {"name": "three"}}), "has reached its limit of 1 bytes")
        self.full(inside.request("PATCH", f"{weights}/two/status", json.dumps({"status": {"x": "y"}}), headers=MERGE),
                  "has reached its limit of 1 bytes")  # far over: a tenth more is left to status alone

    def test_SE_T038_counters_outlive_kill_9(self):
        up.make_workspace("killed", selector={"name": "root"})
        inside = up.client("/clusters/root:killed")
        settled(inside)
        inside.must("POST", MAPS, named("first"))
        annotate(inside, **{OBJECTS: "1"})
        count = int(inside.request("POST", MAPS, named("late")).json["message"].split("(")[1].split("/")[0])
        annotate(inside, **{OBJECTS: str(count + 400)})

        def write(number):
            client, kept = up.client("/clusters/root:killed"), 0
            for turn in range(40):
                try:
                    kept += client.request("POST", MAPS, named(f"w{number}-{turn}"), timeout=10).status == 201
                    if turn % 3 == 0:
                        client.request("DELETE", f"{MAPS}/w{number}-{turn}", timeout=10)
                except (OSError, http.client.HTTPException):
                    continue
            return kept

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            writers = [pool.submit(write, number) for number in range(8)]
            kit.eventually(lambda: len(inside.must("GET", MAPS)["items"]) > 40, what="they write")
            up.kill("root")
            for writer in writers:
                writer.result()
        kit.eventually(lambda: up.client("/clusters/root:killed").get(MAPS).status == 200, 60, "the shard is back")
        inside = up.client("/clusters/root:killed")
        maps = len(inside.must("GET", MAPS)["items"])
        annotate(inside, **{OBJECTS: "1"})
        now = int(inside.request("POST", MAPS, named("late")).json["message"].split("(")[1].split("/")[0])
        self.assertEqual(now - count, maps - 2, "kube-root-ca.crt and first were counted before")
        annotate(inside, **{OBJECTS: str(now + 3)})
        answers = race(16, lambda n: up.client("/clusters/root:killed").request("POST", MAPS, named(f"last{n}")).status)
        self.assertEqual(answers.count(201), 3, answers)


class Limited(unittest.TestCase):
    """What is said for a whole shard: workspaces of one owner, writes a second, watches."""

    def setUp(self):
        if getattr(Limited, "inside", None) is None:
            up.make_workspace("elsewhere", selector={"region": "limited"})
            Limited.inside = up.client("/clusters/root:elsewhere")
        self.place = "/clusters/root:elsewhere"

    def test_1_SE093_workspaces_of_one_owner(self):
        ann, bob = (tenant(self.inside, user, self.place) for user in ("ann", "bob"))
        spec = {"location": {"selector": {"matchLabels": {"no": "shard"}}}}
        answers = [ann.request("POST", f"{TENANCY}/workspaces", trust.body_of("ws", f"anns{n}", spec)) for n in range(4)]
        self.assertEqual([answer.status for answer in answers], [201, 201, 201, 403], answers[-1])
        self.assertTrue(answers[-1].json["message"].endswith('user "ann" has reached the limit of 3 workspaces'), answers[-1])
        self.assertEqual(bob.request("POST", f"{TENANCY}/workspaces", trust.body_of("ws", "bobs", spec)).status, 201)
        for number in range(5):
            self.inside.must("POST", f"{TENANCY}/workspaces", trust.body_of("ws", f"admins{number}", spec))
        ann.must("DELETE", f"{TENANCY}/workspaces/anns0")
        kit.eventually(lambda: ann.request("POST", f"{TENANCY}/workspaces", trust.body_of("ws", "more", spec)).status == 201)

    def test_2_SE093_watches(self):
        ann = tenant(self.inside, "ann", self.place)
        watches = [ann.watch(f"{MAPS}?watch=1&timeoutSeconds=60") for _ in range(4)]
        for watch in watches:
            self.assertEqual(next(watch)["type"], "ADDED")
        answer = ann.get(f"{MAPS}?watch=1&timeoutSeconds=1")
        self.assertEqual(answer.status, 429, answer)
        self.assertIn("limits.workspace.watches", answer.json["message"])
        for watch in watches:
            watch.close()

    def test_3_SE093_writes_a_second(self):
        ann = tenant(self.inside, "ann", self.place)
        answers = race(120, lambda n: ann.request("POST", MAPS, named(f"w{n}")))
        refused = [answer for answer in answers if answer.status == 429]
        self.assertEqual({answer.status for answer in answers}, {201, 429})
        self.assertTrue(all(int(answer.headers["retry-after"]) >= 1 for answer in refused))
        self.assertIn("limits.workspace.writes", refused[0].json["message"])
        self.assertEqual(ann.get(MAPS).status, 200, "reads are none")
        kit.eventually(lambda: ann.request("POST", MAPS, named("later")).status == 201, what="it is over")

    def test_4_SE094_the_gauge_and_the_check_of_the_store(self):
        pki = up.pki
        text = subprocess.run(["curl", "-sS", "--cacert", pki / "serving-ca.crt", "--cert", pki / "shard-admin.crt", "--key",
                               pki / "shard-admin.key", up.shard_url("limited") + "/clusters/*/metrics"],
                              capture_output=True, text=True, check=True, timeout=60).stdout
        ratios = {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                  if line.startswith("kintsugi_quota_used_ratio{")}
        self.assertAlmostEqual(ratios["owned"], 5 / 3, msg="an administrator's, whom it does not bind")
        self.assertGreater(ratios["objects"], 0)
        self.assertLess(ratios["objects"], 0.1)
        shard.stop()
        run = subprocess.run([str(kit.BINARY), "store", "check", "--dir", str(up.state / "shards" / "limited" / "data")],
                             capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertNotIn("quota", run.stdout)


def masters_client():
    return kit.Client(f"{up.shard_url('root')}/clusters/{cluster_name()}", up.pki / "serving-ca.crt", up.pki / "shard-admin.crt",
                      up.pki / "shard-admin.key")


def settled(inside):
    """What controllers make in every workspace is there."""
    kit.eventually(lambda: inside.get(MAPS + "/kube-root-ca.crt").status == 200 and inside.get(ACCOUNTS + "/default").status == 200)


@functools.cache
def tenant(inside, user, where):
    """A client of that user as admin of the workspace."""
    for role in ("cluster-admin", "system:kcp:workspace:access"):
        trust.grant(inside, user, role)
    client = up.user_client(user, path=where)
    kit.eventually(lambda: client.get(MAPS).status == 200, what=f"{user} is in")
    return client


if __name__ == "__main__":
    unittest.main()
