"""`kintsugi up --regions-far`: proxies in two regions, and a link of 80 ms between them (GR-501, GR-502, GR-506 to GR-508)."""
import shutil
import signal
import subprocess
import time
import unittest

import kit
import trust

MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
TRIP = 0.08  # s
TURNS = 20


def fastest(client, path):
    """Of TURNS requests, with a new connection to the proxy each."""
    best = 60.0
    for _ in range(TURNS):
        begin = time.monotonic()
        client.must("GET", path)
        best = min(best, time.monotonic() - begin)
    return best


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class RegionsFar(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = kit.Installation("--store", "etcd", "--etcd-members", "3", "--proxies", "2", "--regions-far", shards=3).start_for(cls)
        cls.ports = {"eu-west-1": cls.up.port, "us-east-1": int((cls.up.state / "proxy-2" / "port").read_text())}
        cls.up.make_workspace("near", selector={"region": "eu-west-1"})
        cls.up.make_workspace("far", selector={"region": "us-east-1"})

    def client(self, region, path=""):
        pki = self.up.pki
        return kit.Client(f"https://127.0.0.1:{self.ports[region]}{path}", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")

    def test_GR_508_what_is_in_the_other_region_takes_a_round_trip(self):
        for region, near, far in (("eu-west-1", "near", "far"), ("us-east-1", "far", "near")):
            here, there = (fastest(self.client(region), f"/clusters/root:{name}{MAPS}") for name in (near, far))
            self.assertGreaterEqual(there, TRIP, region)
            self.assertLess(here, there, region)

    def test_GR_506_a_cursor_of_one_region_goes_on_in_the_other(self):
        cursor = self.client("us-east-1").must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        watch = kit.Watch(self.client("eu-west-1"), f"{ALL_MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={cursor}")
        begin = time.monotonic()
        self.client("us-east-1").must("POST", f"/clusters/root:far{MAPS}", {"metadata": {"name": "told"}})

        def told():
            return [event for event in watch.events if event["type"] == "ADDED" and event["object"]["metadata"]["name"] == "told"]

        kit.eventually(told, what="the event of the other region")
        self.assertGreaterEqual(time.monotonic() - begin, TRIP / 2)
        self.assertIsNone(watch.ended_at)

    def test_GR_502_slices_name_the_proxies_of_their_regions(self):
        client = self.client("us-east-1", "/clusters/root")
        trust.export_of(client, "gears")
        client.must("POST", SLICES, {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": "gears-far"},
                                     "spec": {"export": {"path": "root", "name": "gears"}}})
        urls = kit.eventually(lambda: [one["url"] for one in client.must("GET", f"{SLICES}/gears-far")["status"]["endpoints"]])
        at = {"root": "eu-west-1", "shard-1": "us-east-1", "shard-2": "eu-west-1"}  # nobody is in ap-south-1: the address of all
        self.assertEqual(urls, [f"https://127.0.0.1:{self.ports[region]}/shards/{shard}/services/apiexport/root/gears" for shard, region in at.items()])

    def test_GR_503_each_proxy_serves_what_is_in_both_regions(self):
        for name in ("near", "far"):
            for region in self.ports:
                client = self.client(region, f"/clusters/root:{name}")
                client.must("POST", MAPS, {"metadata": {"name": f"by-{region}"}})
                self.assertEqual(client.must("GET", f"{MAPS}/by-{region}")["metadata"]["name"], f"by-{region}")
        seen = [sorted((one["metadata"]["annotations"]["kcp.io/cluster"], one["metadata"]["name"]) for one in self.client(region).must("GET", ALL_MAPS)["items"]
                       if one["metadata"]["name"].startswith("by-")) for region in self.ports]
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(len(seen[0]), 4)

    def test_GR_504_own_kinds_are_read_without_the_link(self):
        client = self.client("us-east-1", "/clusters/root")
        self.assertLess(fastest(client, f"{PARTITIONS}?resourceVersion=0"), TRIP / 2)
        self.assertGreaterEqual(fastest(client, PARTITIONS), TRIP, "of the newest revision etcd is asked")

    def test_GR_504_without_the_first_member_of_etcd_a_far_proxy_writes(self):
        self.up.kill("etcd-1", signal.SIGSTOP)  # not started again, as one that ends would be
        self.addCleanup(self.up.kill, "etcd-1", signal.SIGCONT)
        client = self.client("us-east-1", "/clusters/root")
        body = {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "east"},
                "spec": {"selector": {"matchLabels": {"region": "us-east-1"}}}}
        kit.eventually(lambda: client.request("POST", PARTITIONS, body, timeout=30).status in (201, 409), 60, "a write at the far proxy")
        self.assertEqual(client.get(f"{PARTITIONS}/east").status, 200)


class RegionsFlags(unittest.TestCase):
    def test_GR_508_distances_that_are_none_are_refused(self):
        for flags, said in ((("--regions-rtt", "0"), "--regions-rtt: must be 1 to 10000"), (("--regions-loss", "501"), "--regions-loss: must be 0 to 500")):
            done = subprocess.run([str(kit.BINARY), "up", "--dir", "/nonexistent/kintsugi", "--regions-far", *flags], capture_output=True, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)

    def test_GR_507_an_algorithm_that_the_kernel_does_not_have_is_refused(self):
        for name in ("none-such", "a-name-that-is-too-long"):
            done = subprocess.run([str(kit.BINARY), "shard", "--join", "/nonexistent/kintsugi", "--name", "one", "--congestion", name], capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(f'--congestion: "{name}": ', done.stderr)


if __name__ == "__main__":
    unittest.main()
