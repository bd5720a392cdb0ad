"""The restore drill (GR-402 to GR-410): an installation is backed up while it is written to, deleted, and made anew elsewhere."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/api/v1/configmaps"
SHARDS = ("root", "shard-1", "shard-2")
AHEAD = 1_000_000_000


def tool(*arguments, expect=0, environment=None):
    run = subprocess.run([str(kit.BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False,
                         env={**os.environ, **(environment or {})})
    assert run.returncode == expect, f"{arguments}: {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout + run.stderr


class Kept:
    """A client that keeps its connection: for many requests."""

    def __init__(self, client):
        self.client, self.connection = client, None

    def must(self, method, path, body):
        if self.connection is None:
            self.connection = self.client.connect()
        self.connection.request(method, self.client.url.path.rstrip("/") + path, json.dumps(body), {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        text = response.read()
        assert response.status in (200, 201), f"{method} {path}: {response.status} {text[:300]}"
        return text


def config_map(name, text):
    return {"metadata": {"name": name, "labels": {"drill": "yes"}}, "data": {"text": text}}


class Chain(threading.Thread):
    """Writes an object to one shard, then, because it is there, its like to the next one: what a cut has of a later one is there
    in it of an earlier one."""

    def __init__(self, clients):
        super().__init__(daemon=True)
        self.clients, self.written, self.fault, self.stopped = [Kept(one) for one in clients], 0, None, threading.Event()
        self.start()

    def run(self):
        try:
            while not self.stopped.is_set():
                for client in self.clients:
                    client.must("POST", MAPS, config_map(f"chain-{self.written:06}", "x"))
                self.written += 1
        except (OSError, http.client.HTTPException, AssertionError) as fault:
            self.fault = fault

    def stop(self):
        self.stopped.set()
        self.join(60)
        assert self.fault is None, self.fault


class Stage(unittest.TestCase):
    """An installation with workspaces at its shards, and what is looked at when it is backed up and made anew."""
    objects = 0
    shards = SHARDS
    store = ()  # options of `up`

    def setUp(self):
        self.installation = kit.Installation(*self.store, shards=len(self.shards))
        self.installation.start_for(self)
        self.backups = self.installation.dir / "backups"
        self.figures = {}

    # the parts of it
    def at_shard(self, installation, name):
        pki = installation.pki
        return kit.Client(installation.shard_url(name), pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")

    def listed(self, installation, name, revision=None):
        """What a shard has, in all workspaces: (revision, {(cluster, name): object})."""
        query = f"?resourceVersion={revision}&resourceVersionMatch=Exact" if revision else ""
        answer = self.at_shard(installation, name).must("GET", f"/clusters/*{ALL_MAPS}{query}", timeout=120)
        return int(answer["metadata"]["resourceVersion"]), {
            (one["metadata"]["annotations"]["kcp.io/cluster"], one["metadata"]["namespace"], one["metadata"]["name"]): one
            for one in answer["items"]}

    def fill(self, clients):
        text = "x" * 1_500
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            def some(worker):
                kept = [Kept(one) for one in clients]
                for i in range(worker, self.objects, 4):
                    kept[i % len(kept)].must("POST", MAPS, config_map(f"kept-{i:06}", f"{i} {text}"))
            list(pool.map(some, range(4)))

    def measured(self, what, *arguments, **how):
        begin = time.monotonic()
        said = tool(*arguments, **how)
        self.figures[what] = round(time.monotonic() - begin, 1)
        return said

    def back_up(self, *options, expect=0):
        return self.measured("incremental" if "--incremental" in options else "backup", "backup", "--dir", self.installation.state, "--to",
                             self.backups, *options, expect=expect)

    def names(self):
        return sorted(one.parent.name for one in self.backups.glob("*/manifest.json") if one.parent.name != "unfinished")

    def manifest(self, name):
        return json.loads((self.backups / name / "manifest.json").read_text())["backup"]

    def killed(self, arguments, begun):
        """Runs a command and kills it once begun() holds; whether that was in the middle of it."""
        process = subprocess.Popen([str(kit.BINARY), *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not begun():
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL

    def killed_somewhen(self, arguments, begun, undo):
        for _ in range(40):
            if self.killed(arguments, begun):
                return
            undo()
        self.fail(f"{arguments[0]} was always faster")

    def cut_of(self, name):
        """What the shards had at the revisions that the backup says."""
        manifest = self.manifest(name)
        self.assertEqual(manifest["cut"], "exact")
        cut = {}
        for store in manifest["stores"]:
            if store["name"] != "proxy":
                shard = store["name"].removeprefix("shard/")
                cut[shard] = self.listed(self.installation, shard, store["revision"])
                self.assertEqual(cut[shard][0], store["revision"])
        self.assertEqual(set(cut), set(self.shards))
        return cut

    def check_causes(self, cut, clients):
        links = [sorted(name for (_, _, name) in cut[shard][1] if name.startswith("chain-")) for shard in (*self.shards[1:], "root")]
        self.assertGreater(len(links[-1]), 3)
        for cause, effect in zip(links, links[1:]):
            self.assertLessEqual(set(effect), set(cause))
            self.assertLessEqual(len(set(cause) - set(effect)), 1)
        self.assertEqual(len(clients), len(links))

    def check_equal(self, cut):
        total = 0
        for shard, (revision, before) in cut.items():
            now_at, now = self.listed(self.installation, shard)
            self.assertGreaterEqual(now_at, revision + AHEAD)
            self.assertEqual(set(now), set(before), shard)
            for key, one in before.items():
                self.assertEqual(now[key], one, key)  # UID and resourceVersion as well
            total += len(now)
        self.assertGreaterEqual(total, self.objects - 100)

    def positions(self, client):
        """What clients hold: of one workspace, of all, in the middle of a list."""
        everything = self.installation.client("/clusters/*")
        listed = client.must("GET", MAPS + "?limit=10")
        merged = everything.must("GET", ALL_MAPS + "?limit=10")
        return {"workspace": (client, MAPS, listed["metadata"]["resourceVersion"]), "token": (client, MAPS, listed["metadata"]["continue"]),
                "merged": (everything, ALL_MAPS, merged["metadata"]["resourceVersion"]),
                "merged token": (everything, ALL_MAPS, merged["metadata"]["continue"])}

    def check_positions(self, old):
        """410, and nothing else: neither events that do not follow nor silence."""
        for what, (client, path, position) in old.items():
            with self.subTest(what=what):
                if "token" in what:
                    answer = kit.eventually(lambda c=client, p=path, t=position: self.settled(c.get(f"{p}?limit=10&continue={t}")))
                    self.assertEqual((answer.status, answer.json["reason"]), (410, "Expired"), answer)
                    continue
                answer = kit.eventually(lambda c=client, p=path, v=position: self.settled(c.get(f"{p}?watch=1&resourceVersion={v}&timeoutSeconds=5")))
                first = answer.json if answer.status != 200 else json.loads(answer.body.splitlines()[0])["object"]
                self.assertEqual((first.get("code"), first.get("reason")), (410, "Expired"), answer)

    @staticmethod
    def settled(answer):
        assert answer.status in (200, 410), answer
        return answer

    def check_goes_on(self, clients):
        everything = self.installation.client("/clusters/*")
        listed = kit.eventually(lambda: everything.must("GET", ALL_MAPS + "?limit=1"))
        path = f"{ALL_MAPS}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}&labelSelector=after=yes"
        watch = kit.Watch(everything, path)
        for i, client in enumerate(clients):
            client.must("POST", MAPS, {"metadata": {"name": f"after-{i}", "labels": {"after": "yes"}}})
        kit.eventually(lambda: len(watch.events) >= len(clients), what="events of all shards")
        self.assertEqual({(one["type"], one["object"]["metadata"]["name"]) for one in watch.events},
                         {("ADDED", f"after-{i}") for i in range(len(clients))})


class Drill(Stage):
    objects = 3_000

    def test_GR_402_GR_406_GR_407_GR_409_GR_410_everything_is_lost_and_made_anew(self):
        installation = self.installation
        for name in SHARDS[1:]:
            installation.make_workspace(f"at-{name}", selector={"name": name})
        clients = [installation.client(f"/clusters/root:at-{name}") for name in SHARDS[1:]] + [installation.client()]
        self.fill(clients)
        old = self.positions(clients[0])

        chain = Chain(clients)
        kit.eventually(lambda: chain.written > 3, what="writes")
        said = self.back_up()
        self.assertIn(f"{len(SHARDS) + 1} stores of one moment", said)
        kit.eventually(lambda: chain.written > 20, what="more writes")
        for i in range(0, min(self.objects, 300), 3):
            clients[0].must("DELETE", f"{MAPS}/kept-{i:06}")
        self.assertIn("adds to " + self.names()[0], self.back_up("--incremental"))
        before = self.names()
        self.killed_somewhen(["backup", "--dir", installation.state, "--to", self.backups],
                             lambda: any((self.backups / "unfinished").glob("rows-*")), lambda: None)
        self.assertIn("ok", tool("backup", "--verify", self.backups))
        for name in set(self.names()) - set(before):  # those that were faster
            shutil.rmtree(self.backups / name)
        self.back_up("--incremental")
        self.assertEqual(len(self.names()), 3)
        self.assertFalse((self.backups / "unfinished").exists())
        chain.stop()
        cut = self.cut_of(self.names()[-1])
        self.check_causes(cut, clients)
        self.figures["MB"] = round(sum(one.stat().st_size for one in self.backups.glob("*/*")) / 1e6, 1)

        installation.stop()
        port, lost = installation.port, installation.state
        shutil.rmtree(lost)
        target = installation.dir / "elsewhere"
        restore = ["restore", "--from", self.backups, "--to", target]
        partial = pathlib.Path(str(target) + ".partial")
        self.killed_somewhen(restore, partial.exists, lambda: shutil.rmtree(target))
        self.assertFalse(target.exists(), "half an installation")
        said = self.measured("restore", *restore)
        self.assertIn("list once more (410 Expired)", said)
        self.assertFalse(partial.exists())
        self.assertIn("is not empty", tool(*restore, expect=1))
        for data in [target / "proxy" / "data", *(target / "shards").glob("*/data")]:
            self.assertIn(": ok", tool("store", "check", "--dir", data))

        installation.state = target
        installation.options[installation.options.index(str(lost))] = str(target)
        self.assertEqual(installation.port, port)
        installation.start(deadline=60)
        self.check_equal(cut)
        self.check_positions(old)
        self.check_goes_on(clients)
        print(f"note: {self.objects} objects: {self.figures}", flush=True)
