"""A proxy is killed under 2,000 merged watches of twenty users: all go on at the other one, which shares a store on etcd with it, and nobody
lists anything."""
import json
import shutil
import subprocess
import time
import unittest

import crowd
import etcds
import kit

ONLY_WITH_ALL = "opens two thousand watches"
MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
USERS, EACH, CLUSTERS = 20, 100, ("root", "root:beta")


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class TwoThousandWatches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = kit.Installation(shards=3).start_for(cls)
        cls.start_audited()
        cls.up.make_workspace("beta", selector={"audited": "yes"})
        cls.etcd = etcds.Member()
        cls.addClassCleanup(cls.etcd.end)
        change = {"store": {"type": "etcd", "endpoints": f'["{cls.etcd.url}"]'}, "wildcard": "serve"}
        cls.proxies = [kit.Proxy(cls.up, change=change) for _ in range(2)]
        for proxy in cls.proxies:
            proxy.__enter__()
            cls.addClassCleanup(proxy.__exit__)

    @classmethod
    def start_audited(cls):
        """One more shard, which says what it is asked for."""
        cls.log = cls.up.dir / "asked.jsonl"
        with (cls.up.dir / "audited.log").open("wb") as out:
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(cls.up.state), "--name", "audited", "--labels", "audited=yes",
                                      "--audit-log", str(cls.log)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        cls.addClassCleanup(shard.wait)
        cls.addClassCleanup(shard.kill)
        shards = "/apis/core.kcp.io/v1alpha1/shards"
        kit.eventually(lambda: cls.up.client().get(f"{shards}/audited").status == 200, 30, "the shard has joined")

    def asked(self):
        """What that shard was asked for of all ConfigMaps: lists, looks at its revision (by a list of one), watches."""
        uris = [json.loads(line)["requestURI"] for line in self.log.read_text().splitlines()]
        queries = [uri.partition("?")[2] for uri in uris if uri.startswith("/clusters/*/api/v1/configmaps")]
        looks, watches = queries.count("limit=1"), sum("watch=true" in query for query in queries)
        return len(queries) - looks - watches, looks, watches

    def user(self, number):
        """Clients of both proxies for somebody who may watch everything."""
        cert, key = kit.make_user(self.up.dir, self.up.pki, f"watcher-{number}", ("system:kcp:admin",))
        return [kit.Client(f"https://127.0.0.1:{proxy.port}", self.up.pki / "serving-ca.crt", cert, key) for proxy in self.proxies]

    def test_GR_201_a_proxy_is_killed_under_two_thousand_merged_watches(self):
        one, other = (proxy.client("") for proxy in self.proxies)
        cursor = one.must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        watches = crowd.Crowd([self.user(number) for number in range(USERS)], ALL_MAPS, cursor, EACH)
        self.addCleanup(watches.join, 20)
        self.addCleanup(watches.end.set)
        made = {cluster: [] for cluster in CLUSTERS}

        def write(word, client):
            for turn in range(5):
                for cluster in CLUSTERS:
                    name = f"{word}-{turn}-{cluster.replace(':', '-')}"
                    client.must("POST", f"/clusters/{cluster}{MAPS}", {"metadata": {"name": name}})
                    made[cluster].append(("ADDED", name))

        def counts():
            return sum(len(follower.events) for follower in watches.all), watches.faults

        def all_have():
            wanted = sum(map(len, made.values()))
            assert not watches.faults, watches.faults
            return all(len(follower.events) >= wanted for follower in watches.all)

        kit.eventually(lambda: watches.faults or all(follower.status == 200 for follower in watches.all), 60,
                       f"all watches are open: {watches.refused}")
        self.assertFalse(watches.faults)
        write("before", one)
        kit.eventually(all_have, 60, "all watches have what was written")
        marks = [follower.bookmarks for follower in watches.all]
        write("behind", one)  # so that each has a cursor behind the first ones
        kit.eventually(all_have, 60, "all watches have that, too")
        kit.eventually(lambda: all(follower.bookmarks > mark for follower, mark in zip(watches.all, marks)), 120, "bookmarks")
        before = self.asked()
        self.assertGreater(before[0], 0, "the first list is seen there")
        self.proxies[0].process.kill()
        begin = time.monotonic()
        write("after", other)
        kit.eventually(lambda: watches.moves >= USERS and all(follower.status == 200 for follower in watches.all), 60, "all are accepted")
        accepted = time.monotonic() - begin
        kit.eventually(all_have, 60, f"all watches go on: {counts()}")
        lists, looks, streams = (now - then for now, then in zip(self.asked(), before))
        print(f"{len(watches.all)} merged watches: accepted by the other proxy {accepted:.2f} s after the kill, with all events after "
              f"{time.monotonic() - begin:.2f} s; asked of a shard: {lists} lists, {looks} looks at its revision, {streams} watches")
        self.assertEqual(lists, 0)
        self.assertEqual(watches.moves, USERS, "each connection went on once")
        wanted = {cluster: [name for _, name in names] for cluster, names in made.items()}
        for follower in watches.all:
            self.assertEqual({kind for kind, _ in follower.events}, {"ADDED"})
            seen = list(dict.fromkeys(name for _, name in follower.events))
            for cluster, names in wanted.items():
                self.assertEqual([name for name in seen if name in names], names)
