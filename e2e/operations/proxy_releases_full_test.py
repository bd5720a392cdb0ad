"""The last release beside this one, on one etcd: in both orders, and back again (GR-211). KINTSUGI_PREVIOUS names its program."""
import os
import unittest

import informers
import kit
import over_etcd

ONLY_WITH_ALL = "needs the program of the last release, KINTSUGI_PREVIOUS"
MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MERGE = {"Content-Type": "application/merge-patch+json"}
PREVIOUS = os.environ.get("KINTSUGI_PREVIOUS", "")


@unittest.skipUnless(PREVIOUS, "KINTSUGI_PREVIOUS does not name the program of the last release")
class BesideTheLastRelease(over_etcd.Proxies):
    def use(self, proxy, program):
        """The proxy goes on as that program, once the one that it was has ended in order."""
        if proxy.process is not None and proxy.process.poll() is None:
            proxy.process.terminate()
            self.assertEqual(proxy.process.wait(60), 0, proxy.text())
        proxy.program = program
        self.start(proxy)

    def check_one_meaning(self, proxies, word):
        """What one gives out or stores means the same at the other."""
        for number, (one, other) in enumerate((proxies, proxies[::-1])):
            name = f"{word}-{number}"
            first = one.client("").must("GET", f"{ALL_MAPS}?limit=1")
            rest = other.client("").must("GET", f"{ALL_MAPS}?limit=500&continue={first['metadata']['continue']}")
            cursor = one.client("").must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
            self.assertTrue(rest["items"])
            one.client().must("POST", PARTITIONS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": name},
                                                   "spec": {"selector": {"matchLabels": {"region": "eu-west-1"}}}})
            self.assertEqual(other.client().must("GET", f"{PARTITIONS}/{name}")["metadata"]["name"], name)
            one.client().must("POST", MAPS, {"metadata": {"name": name}})
            event = next(other.client("").watch(f"{ALL_MAPS}?watch=1&resourceVersion={cursor}"))
            self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", name))
        # The slot table is written anew, by whichever is first.
        before = [proxy.metric("kintsugi_slot_generation") for proxy in proxies]
        self.up.client().request("PATCH", f"{SHARDS}/shard-1", {"metadata": {"labels": {"turn": word}}}, headers=MERGE)
        kit.eventually(lambda: len({proxy.metric("kintsugi_slot_generation") for proxy in proxies}) == 1
                       and proxies[0].metric("kintsugi_slot_generation") > max(before), 20, "one new generation for both")

    def go(self, prefix, programs):
        """Two proxies, of which one after the other is replaced: the list has their programs step by step."""
        proxies = [self.proxy(prefix) for _ in range(2)]
        for proxy, program in zip(proxies, programs[0]):
            self.use(proxy, program)
        clients = [proxy.client("") for proxy in proxies]
        cursor = clients[0].must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        watches = [informers.Follower(order, cursor, ALL_MAPS) for _ in range(10) for order in (clients, clients[::-1])]
        meta, made, writer = over_etcd.rows(self.etcd, f"{prefix}/meta"), [], self.up.client()
        try:
            for step, now in enumerate(programs):
                for proxy, program in zip(proxies, now):
                    if proxy.program != program:
                        self.use(proxy, program)
                self.check_one_meaning(proxies, f"{prefix[1:]}-{step}")
                made.append(f"{prefix[1:]}-step-{step}")
                writer.must("POST", MAPS, {"metadata": {"name": made[-1]}})
                kit.eventually(lambda: all(set(made) <= {name for _, name in one.names} for one in watches), 30, f"all watches go on, step {step}")
            self.assertEqual([one.faults for one in watches if one.faults], [])
            for one in watches:
                self.assertEqual({kind for kind, _ in one.names}, {"ADDED"})
            self.assertEqual(over_etcd.rows(self.etcd, f"{prefix}/meta"), meta, "nobody has raised anything")
        finally:
            for one in watches:
                one.done.set()
            writer.request("POST", MAPS, {"metadata": {"name": f"{prefix[1:]}-end"}})

    def test_GR_211_from_the_last_release_to_this_one(self):
        now = str(kit.BINARY)
        self.go("/up", [(PREVIOUS, PREVIOUS), (now, PREVIOUS), (now, now)])

    def test_GR_211_this_one_first_and_back_again(self):
        now = str(kit.BINARY)
        self.go("/back", [(now, PREVIOUS), (now, now), (PREVIOUS, now), (PREVIOUS, PREVIOUS)])
