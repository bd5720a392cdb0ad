"""One of three proxies is restarted under 450 watches: within a minute it has its share of them again, and nobody lists (GR-213)."""
import informers
import kit
import over_etcd

ONLY_WITH_ALL = "waits until watches are spread again"
MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
EACH = 150


class OneOfThree(over_etcd.Proxies):
    def counts(self):
        return [one["watches"] for one in self.replicas() if one["ready"]]

    def is_spread(self):
        counts = self.counts()
        self.assertTrue(len(counts) == 3 and sum(counts) >= 3 * EACH - 20 and max(counts) <= 1.2 * EACH, counts)
        return True

    def test_GR_213_a_proxy_that_comes_back_gets_its_share(self):
        proxies = [self.start(self.proxy(balance_watches="true")) for _ in range(3)]
        clients = [proxy.client("") for proxy in proxies]
        watches, ready = [], list(clients)

        def cost(client):
            """As of a balancer that knows who is ready, and who has the fewest connections."""
            return client not in ready, sum(one.proxies[0] is client for one in watches)

        cursor = clients[0].must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        for number in range(3 * EACH):
            first = number % 3
            watches.append(informers.Follower(clients[first:] + clients[:first], cursor, ALL_MAPS, cost))
        writer, made = self.up.client(), []

        def write(name):
            writer.must("POST", MAPS, {"metadata": {"name": name}})
            made.append(name)
            kit.eventually(lambda: all(set(made) <= {seen for _, seen in one.names} for one in watches), 60, f"all watches have {name}")

        try:
            write("before")
            kit.eventually(self.is_spread, 30, "each has as many")
            ready.remove(clients[2])
            proxies[2].process.terminate()
            self.assertEqual(proxies[2].process.wait(120), 0, proxies[2].text())
            write("without")
            kit.eventually(lambda: sum(self.counts()) >= 3 * EACH - 20, 30, "the others have them")
            before = self.counts()
            proxies[2].__enter__()
            ready.append(clients[2])
            kit.eventually(self.is_spread, 60, "spread again")
            print(f"watches of the two that were left: {before}, of three a while after the third was back: {self.counts()}")
            write("after")
            self.assertEqual([one.faults for one in watches if one.faults], [])
            for one in watches:
                self.assertEqual({kind for kind, _ in one.names}, {"ADDED"})
        finally:
            for one in watches:
                one.done.set()
            writer.request("POST", MAPS, {"metadata": {"name": "the-end"}})
