"""KK-201: slices of ClusterCachedResources are a shard's, Partitions the proxy's: what the proxy tells the shard of them, and who else
cannot."""
import signal
import unittest

import kit

CACHE = "/apis/cache.kcp.io/v1alpha1"
CACHED, SLICES = f"{CACHE}/clustercachedresources", f"{CACHE}/clustercachedresourceendpointslices"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
LOGICAL = "/apis/core.kcp.io/v1alpha1/logicalclusters"
MERGE = {"Content-Type": "application/merge-patch+json"}
NAMES = {"plural": "flavors", "singular": "flavor", "kind": "Flavor", "listKind": "FlavorList"}
CONTENT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def setUpModule():
    global installation, prov, cluster, at_root, urls_of_shards
    installation = kit.Installation(shards=2).start_for()
    installation.make_workspace("prov", selector={"name": "shard-1"})
    installation.make_workspace("other", selector={"name": "shard-1"})
    prov, at_root = installation.client("/clusters/root:prov"), installation.client("/clusters/root")
    cluster = cluster_of(prov)
    urls_of_shards = {one["metadata"]["name"]: one["spec"]["virtualWorkspaceURL"].rstrip("/") for one in at_root.must("GET", SHARDS)["items"]}
    versions = [{"name": "v1", "served": True, "storage": True}]
    prov.must("POST", CRDS, {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "flavors.offer.io"},
        "spec": {"group": "offer.io", "scope": "Cluster", "names": NAMES, "versions": [
            {**versions[0], "schema": {"openAPIV3Schema": CONTENT}}]}})
    kit.eventually(lambda: prov.get("/apis/offer.io/v1/flavors").status == 200)
    prov.must("POST", CACHED, {"apiVersion": "cache.kcp.io/v1alpha1", "kind": "ClusterCachedResource", "metadata": {"name": "flavors"},
                               "spec": {"group": "offer.io", "version": "v1", "resource": "flavors"}})
    identity = kit.eventually(lambda: prov.must("GET", f"{CACHED}/flavors")["status"]["identityHash"], what="identity")
    prov.must("POST", SCHEMAS, {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
                                "metadata": {"name": "v1.flavors.offer.io"},
                                "spec": {"group": "offer.io", "scope": "Cluster", "names": NAMES,
                                         "versions": [{**versions[0], "schema": CONTENT}]}})
    resources = [{"group": "offer.io", "name": f"flavors{n}", "schema": "v1.flavors.offer.io", "storage": {"virtual": {
        "identityHash": identity, "reference": {"apiGroup": "cache.kcp.io", "kind": "ClusterCachedResourceEndpointSlice",
                                                "name": name}}}} for n, name in (("", "followed"),)]
    prov.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "flavors"},
                                "spec": {"resources": resources}})


def cluster_of(client):
    return client.must("GET", f"{LOGICAL}/cluster")["metadata"]["annotations"]["kcp.io/cluster"]


def partition(name, **selector):
    return {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": name},
            "spec": {"selector": selector} if selector else {}}


def at_shard(pair=("shard-admin.crt", "shard-admin.key"), shard="shard-1", path=""):
    pair = [installation.pki / one if isinstance(one, str) else one for one in pair]
    return kit.Client(installation.shard_url(shard) + path, installation.pki / "serving-ca.crt", *pair)


def slice_object(name, **spec):
    return {"apiVersion": "cache.kcp.io/v1alpha1", "kind": "ClusterCachedResourceEndpointSlice", "metadata": {"name": name},
            "spec": {"clusterCachedResource": {"name": "flavors"}, "export": {"name": "flavors"}, **spec}}


def status_of(name, client=None):
    found = (client or prov).must("GET", f"{SLICES}/{name}").get("status", {})
    said = {one["type"]: (one["status"], one.get("reason", ""), one.get("message", "")) for one in found.get("conditions") or []}
    return said.get("PartitionValid"), [one["url"] for one in found.get("endpoints") or []], found.get("shardSelector", "")


def becomes(name, valid, shards, selector="", client=None):
    """@param valid  status and reason; @param shards  whose URLs are there."""
    wanted = sorted(f"{urls_of_shards[one]}/services/replication/{cluster}/{name}" for one in shards)

    def look():
        condition, urls, text = status_of(name, client)
        assert condition is not None and condition[:2] == valid and sorted(urls) == wanted and text == selector, (condition, urls, text)
        return True

    kit.eventually(look, what=f"{valid} {shards}")


GOOD, MISSING = ("True", ""), ("False", "PartitionInvalidReference")


class Followed(unittest.TestCase):
    def test_KK_201_a_slice_follows_its_partition_and_the_labels(self):
        prov.must("POST", SLICES, slice_object("followed", partition="some"))
        becomes("followed", MISSING, ())
        self.assertIn('partitions.topology.kcp.io "some" not found', status_of("followed")[0][2])
        prov.must("POST", PARTITIONS, partition("some", matchLabels={"name": "shard-1"}))
        becomes("followed", GOOD, ("shard-1",), "name=shard-1")
        prov.must("PATCH", f"{PARTITIONS}/some", {"spec": {"selector": {"matchLabels": {"name": None, "tier": "one"}}}}, headers=MERGE)
        becomes("followed", GOOD, (), "tier=one")
        at_root.must("PATCH", f"{SHARDS}/root", {"metadata": {"labels": {"tier": "one"}}}, headers=MERGE)
        becomes("followed", GOOD, ("root",), "tier=one")
        at_root.must("PATCH", f"{SHARDS}/root", {"metadata": {"labels": {"tier": None}}}, headers=MERGE)
        becomes("followed", GOOD, (), "tier=one")
        prov.must("PATCH", f"{PARTITIONS}/some", {"spec": {"selector": None}}, headers=MERGE)
        becomes("followed", GOOD, ("root", "shard-1"))
        prov.must("PATCH", f"{SLICES}/followed", {"spec": {"partition": "later"}}, headers=MERGE)
        becomes("followed", MISSING, ())
        prov.must("PATCH", f"{SLICES}/followed", {"spec": {"partition": "some"}}, headers=MERGE)
        becomes("followed", GOOD, ("root", "shard-1"))
        self.proxy_away()
        prov.must("DELETE", f"{PARTITIONS}/some")
        becomes("followed", MISSING, ())
        prov.must("PATCH", f"{SLICES}/followed", {"spec": {"partition": None}}, headers=MERGE)
        becomes("followed", GOOD, ("root", "shard-1"))

    def proxy_away(self):
        """The last that was told counts, also after a restart of the shard; what changed is told when both are there."""
        prov.must("PATCH", f"{PARTITIONS}/some", {"spec": {"selector": {"matchLabels": {"name": "root"}}}}, headers=MERGE)
        becomes("followed", GOOD, ("root",), "name=root")
        direct = at_shard(path=f"/clusters/{cluster}")
        installation.kill("proxy", signal.SIGSTOP)
        try:
            before = installation.pid("shard-1")
            installation.kill("shard-1")
            kit.eventually(lambda: installation.pid("shard-1") not in (None, before), what="a new shard")
            kit.eventually(lambda: listens(direct), what="the shard")
            becomes("followed", GOOD, ("root",), "name=root", client=direct)
            direct.must("PATCH", f"{SLICES}/followed", {"metadata": {"labels": {"seen": "yes"}}}, headers=MERGE)
            becomes("followed", GOOD, ("root",), "name=root", client=direct)
        finally:
            installation.kill("proxy", signal.SIGCONT)
        kit.eventually(lambda: prov.get(f"{SLICES}/followed").status == 200)
        prov.must("PATCH", f"{PARTITIONS}/some", {"spec": {"selector": {"matchLabels": {"name": "shard-1"}}}}, headers=MERGE)
        becomes("followed", GOOD, ("shard-1",), "name=shard-1")

    def test_KK_201_a_selector_that_cannot_be_read(self):
        prov.must("POST", PARTITIONS, partition("odd", matchExpressions=[{"key": "a", "operator": "Foo"}]))
        prov.must("POST", SLICES, slice_object("odd", partition="odd"))
        becomes("odd", MISSING, ())
        kit.eventually(lambda: "Foo" in status_of("odd")[0][2], what="the cause")

    def test_KK_201_partitions_of_other_workspaces_are_none(self):
        installation.client("/clusters/root:other").must("POST", PARTITIONS, partition("theirs", matchLabels={"name": "root"}))
        for name in ("theirs", f"{cluster_of(installation.client('/clusters/root:other'))}|theirs", "root:other:theirs"):
            prov.must("POST", SLICES, slice_object("foreign", partition=name))
            becomes("foreign", MISSING, ())
            prov.must("DELETE", f"{SLICES}/foreign")


def listens(client):
    try:
        return client.get("/readyz").status == 200
    except OSError:
        return False


class Told(unittest.TestCase):
    """Who may tell a shard of Partitions: the proxy's certificate, of those that slices name, and nothing else."""

    def setUp(self):
        self.path = f"/services/partitions/{cluster}/clusters/{cluster}/apis/topology.kcp.io/v1alpha1/partitionnotes"
        self.note = {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionNote", "spec": {"partition": "told", "source": "me"}}
        if prov.get(f"{SLICES}/told").status == 404:
            prov.must("POST", SLICES, slice_object("told", partition="told"))
        becomes("told", MISSING, ())

    def test_KK_201_nobody_else(self):
        reader = kit.make_user(installation.dir, installation.pki, "kintsugi-proxy-reviewed", ("system:kintsugi:reader",))
        clients = {
            "tenant by the proxy": installation.user_client("tenant", ("system:kintsugi:proxy",), path=""),
            "tenant by the shard's prefix": installation.user_client("tenant", ("system:kintsugi:proxy",), path="/shards/shard-1"),
            "administrator by the shard's prefix": installation.client("/shards/shard-1"),
            "the proxy's own pair at the proxy": kit.Client(f"https://127.0.0.1:{installation.port}/shards/shard-1",
                                                            installation.pki / "serving-ca.crt", installation.pki / "kintsugi-proxy.crt",
                                                            installation.pki / "kintsugi-proxy.key"),
            "who may do anything at the shard": at_shard(),
            "the reader": at_shard(reader),
            "nobody": kit.Client(installation.shard_url("shard-1"), installation.pki / "serving-ca.crt")}
        for who, client in clients.items():
            with self.subTest(who=who):
                self.assertIn(client.request("POST", self.path, self.note).status, (401, 403, 404), who)
                self.assertIn(client.get(self.path).status, (401, 403, 404, 405), who)
        front = at_shard(("proxy-requestheader.crt", "proxy-requestheader.key"))
        for groups in ("system:kintsugi:proxy", "system:masters"):
            headers = {"X-Remote-User": "kintsugi-proxy", "X-Remote-Group": groups}
            self.assertEqual(front.request("POST", self.path, self.note, headers=headers).status, 403, groups)
        self.assertEqual(status_of("told")[0][:2], MISSING)

    def test_KK_201_the_proxys_certificate_and_no_more_than_notes(self):
        own = at_shard(("kintsugi-proxy.crt", "kintsugi-proxy.key"))
        for spec, wanted in (({"partition": "unnamed"}, 404), ({"partition": ""}, 400), ({"partition": "a/b"}, 400), ({"source": None}, 400), ({"selector": "all"}, 400),
                             ({"selector": {"matchLabels": {"a": "x" * 300_000}}}, 400)):
            answer = own.request("POST", self.path, {**self.note, "spec": {**self.note["spec"], **spec}})
            self.assertEqual(answer.status, wanted, answer)
        elsewhere = "/services/partitions/root/clusters/root/apis/topology.kcp.io/v1alpha1/partitionnotes"
        self.assertIn(own.request("POST", elsewhere, self.note).status, (403, 404))
        crossed = f"/services/partitions/root/clusters/{cluster}/apis/topology.kcp.io/v1alpha1/partitionnotes"
        self.assertEqual(own.request("POST", crossed, self.note).status, 403)
        for method, path in (("GET", self.path), ("PUT", self.path + "/told"), ("DELETE", self.path + "/told"),
                             ("POST", self.path.replace("partitionnotes", "partitions")),
                             ("GET", self.path.replace("/apis/topology.kcp.io/v1alpha1/partitionnotes", "/api/v1/secrets"))):
            self.assertIn(own.request(method, path, self.note if method != "GET" else None).status, (403, 404, 405), (method, path))
        self.assertEqual(status_of("told")[0][:2], MISSING)
        self.assertEqual(own.request("POST", self.path, self.note).status, 201)
        kit.eventually(lambda: status_of("told")[0][:2] == GOOD, what="told")
        gone = {**self.note, "spec": {**self.note["spec"], "gone": True}}
        self.assertEqual(own.request("POST", self.path, {**gone, "spec": {**gone["spec"], "source": "another"}}).status, 201)
        kit.stays(lambda: status_of("told")[0][:2] == GOOD, 1)
        self.assertEqual(own.request("POST", self.path, gone).status, 201)
        kit.eventually(lambda: status_of("told")[0][:2] == MISSING, what="taken back")


if __name__ == "__main__":
    unittest.main()
