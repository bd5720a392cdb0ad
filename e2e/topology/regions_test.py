"""Proxies in two regions in front of shards in three (GR-501, GR-502, GR-505): where the URLs of slices lead, and what becomes of merged
watches while a region does not answer."""
import signal
import unittest

import kit
import trust

SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
STALL = 3000  # ms


def setUpModule():
    global installation, europe, america, export
    installation = kit.Installation(shards=3).start_for()  # of eu-west-1, us-east-1, ap-south-1
    ports = kit.free_port(), kit.free_port()
    urls = {"eu-west-1": f"https://127.0.0.1:{ports[0]}", "us-east-1": f"https://127.0.0.1:{ports[1]}"}
    europe, america = (region_proxy(region, port, urls) for region, port in zip(urls, ports))
    client = installation.client("/clusters/root")
    trust.export_of(client, "gears")
    export = "services/apiexport/root/gears"


def region_proxy(region, port, urls, freeze="unlimited"):
    proxy = kit.Proxy(installation, {
        "region": region, "external_url": f"https://127.0.0.1:{installation.port}", "wildcard": "serve", "listener": {"port": port},
        "regions": {"urls": "{" + ", ".join(f"{one}: '{url}'" for one, url in urls.items()) + "}", "freeze": freeze},
        "endpoint_slice": {"mode": "proxied"}, "aggregation": {"watch": f"{{max_stall_ms: {STALL}, bookmark_idle_ms: 500}}"}})
    proxy.port = port
    proxy.__enter__()
    unittest.addModuleCleanup(proxy.__exit__)
    return proxy


class Regions(unittest.TestCase):
    def slice_urls(self, name, partition=None, **annotations):
        client = europe.client("/clusters/root")
        made = client.request("POST", SLICES, {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
            "metadata": {"name": name, "annotations": {f"kintsugi.dev/endpoint-{key}": value for key, value in annotations.items()}},
            "spec": {"export": {"path": "root", "name": "gears"}, **({"partition": partition} if partition else {})}})
        self.assertEqual(made.status, 201, made)
        self.addCleanup(client.request, "DELETE", f"{SLICES}/{name}")
        self.warning = made.headers.get("Warning", "")
        return kit.eventually(lambda: [one["url"] for one in client.must("GET", f"{SLICES}/{name}")["status"]["endpoints"]])

    def test_GR_502_endpoints_are_at_the_proxies_of_the_shards_region(self):
        at = {"root": europe.port, "shard-1": america.port, "shard-2": installation.port}  # nobody is in ap-south-1
        self.assertEqual(self.slice_urls("here"), [f"https://127.0.0.1:{port}/shards/{shard}/{export}" for shard, port in at.items()])
        self.assertEqual(self.warning, "")
        for url in self.slice_urls("read"):  # each proxy serves every shard
            self.assertEqual(europe.client(cert="admin").get("/api").status, 200)
            pki = installation.pki
            self.assertEqual(kit.Client(url, pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key").get("/clusters/*/apis").status, 200, url)

    def test_GR_502_a_slice_may_name_a_region_or_none(self):
        self.assertEqual({url.split("/")[2] for url in self.slice_urls("there", region="us-east-1")}, {f"127.0.0.1:{america.port}"})
        self.assertEqual({url.split("/")[2] for url in self.slice_urls("anywhere", region="any")}, {f"127.0.0.1:{installation.port}"})
        self.assertEqual(len({url.split("/")[2] for url in self.slice_urls("mars", region="mars")}), 3)
        self.assertEqual(self.warning, '299 - "annotation kintsugi.dev/endpoint-region: unknown value \\"mars\\", the default is used"')

    def test_GR_502_one_url_of_a_partition_is_at_the_region_that_all_its_shards_are_in(self):
        client = europe.client("/clusters/root")
        for name, labels, port in (("america", {"region": "us-east-1"}, america.port), ("all", {}, installation.port)):
            client.must("POST", PARTITIONS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": name},
                                             "spec": {"selector": {"matchLabels": labels}}})
            self.addCleanup(client.request, "DELETE", f"{PARTITIONS}/{name}")
            self.assertEqual(self.slice_urls(name, name, mode="aggregated"), [f"https://127.0.0.1:{port}/partitions/root/{name}/{export}"])

    def test_GR_502_entries_follow_a_shard_to_another_region(self):
        self.slice_urls("moving")
        installation.client("/clusters/root").must("PATCH", "/apis/core.kcp.io/v1alpha1/shards/shard-2", '{"metadata":{"labels":{"region":"us-east-1"}}}',
                                                   headers={"Content-Type": "application/merge-patch+json"})
        self.addCleanup(installation.client("/clusters/root").must, "PATCH", "/apis/core.kcp.io/v1alpha1/shards/shard-2",
                        '{"metadata":{"labels":{"region":"ap-south-1"}}}', headers={"Content-Type": "application/merge-patch+json"})
        client = europe.client("/clusters/root")
        kit.eventually(lambda: f"https://127.0.0.1:{america.port}/shards/shard-2/{export}" in
                       [one["url"] for one in client.must("GET", f"{SLICES}/moving")["status"]["endpoints"]], what="the entry's new region")

    def test_GR_505_a_region_that_does_not_answer_ends_no_watch(self):
        bounded = region_proxy("eu-west-1", kit.free_port(), {"eu-west-1": "https://127.0.0.1:1"}, freeze="max-stall")
        for name, shard in (("near", "root"), ("far", "shard-2")):
            installation.make_workspace(name, selector={"name": shard})
        near, far = (installation.client(f"/clusters/root:{name}") for name in ("near", "far"))
        far.must("POST", MAPS, {"metadata": {"name": "before"}})
        watches = {}
        for name, proxy in (("frozen", europe), ("bounded", bounded)):
            begun = kit.eventually(lambda p=proxy: p.client("").must("GET", ALL_MAPS))["metadata"]["resourceVersion"]
            watches[name] = kit.Watch(proxy.client(""), f"{ALL_MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={begun}")

        def names(watch):
            return [(event["type"], event["object"]["metadata"].get("name")) for event in watch.events if event["type"] != "BOOKMARK"]

        kit.eventually(lambda: all(any(event["type"] == "BOOKMARK" for event in watch.events) for watch in watches.values()), what="watches that run")
        installation.kill("shard-2", signal.SIGSTOP)
        try:
            kit.eventually(lambda: watches["bounded"].ended_at, 60, "the watch whose silence has a bound ends")
            near.must("POST", MAPS, {"metadata": {"name": "meanwhile"}})
            kit.eventually(lambda: ("ADDED", "meanwhile") in names(watches["frozen"]), what="what is near is told")
            self.assertIsNone(watches["frozen"].ended_at)
            cut = europe.client("/clusters/root:far").get(MAPS)
            self.assertIn(cut.status, (503, 504), cut)
        finally:
            installation.kill("shard-2", signal.SIGCONT)
        kit.eventually(lambda: far.request("POST", MAPS, {"metadata": {"name": "after"}}).status in (201, 409), 60)
        kit.eventually(lambda: ("ADDED", "after") in names(watches["frozen"]), 60, "what was far is told again")
        self.assertEqual([one for one in names(watches["frozen"]) if one[0] == "DELETED"], [])
        self.assertIsNone(watches["frozen"].ended_at)


if __name__ == "__main__":
    unittest.main()
