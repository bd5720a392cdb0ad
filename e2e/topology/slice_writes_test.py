"""Who writes endpoint slices: shards of kcp, third parties, and the proxy itself (T-10, T-12, T-09)."""
import json
import re
import subprocess
import unittest

import kit

SETS = "/apis/topology.kcp.io/v1alpha1/partitionsets"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
GROUP = "system:kcp:external-logical-cluster-admin"
PATH = "/services/apiexport/root/widgets"


def thing(path, kind, name, spec, **metadata):
    group, version = path.split("/")[2:4]
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def conditions(found):
    return {c["type"]: (c["status"], c.get("reason", "")) for c in found.get("status", {}).get("conditions", [])}


def whole(client, name):
    """The slice once all of its shards are there and nothing is left to be said about them."""
    def check():
        found = client.must("GET", f"{SLICES}/{name}")
        assert conditions(found).get("EndpointURLsReady") == ("True", ""), found
        return found
    return kit.eventually(check)


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.root = cls.installation.client()
        cls.root.must("POST", EXPORTS, thing(EXPORTS, "APIExport", "widgets", {}))
        whole(cls.root, "widgets")  # its default slice
        cls.shards = sorted(s["metadata"]["name"] for s in cls.root.must("GET", SHARDS)["items"])

    def make(self, path, kind, name, spec, **metadata):
        self.addCleanup(lambda: self.root.request("DELETE", f"{path}/{name}"))
        return self.root.must("POST", path, thing(path, kind, name, spec, **metadata), expect=(201,))

    def merge(self, path, body):
        return self.root.must("PATCH", path, json.dumps(body), headers=MERGE)

    def label(self, shard, **labels):
        self.merge(f"{SHARDS}/{shard}", {"metadata": {"labels": labels}})
        self.addCleanup(lambda: self.merge(f"{SHARDS}/{shard}", {"metadata": {"labels": dict.fromkeys(labels)}}))

    def read(self, name):
        return self.root.must("GET", f"{SLICES}/{name}")

    def urls(self, name):
        return [e["url"] for e in self.read(name).get("status", {}).get("endpoints", [])]


class ShardWrites(Base):
    """TP-119: what shards of kcp write among themselves is taken and not stored."""

    def apply(self, client, name, manager, status, what="/status"):
        body = {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {"name": name}, **status}
        return client.request("PATCH", f"{SLICES}/{name}{what}?fieldManager={manager}&force=false", json.dumps(body), headers=APPLY)

    def ignored(self):
        text = subprocess.run(["curl", "-sS", "--unix-socket", str(self.installation.state / "run/admin.sock"),
                               "http://admin/metrics"], capture_output=True, text=True, check=True).stdout
        return {shard: int(count) for shard, count in
                re.findall(r'^kintsugi_slice_shard_apply_ignored_total{shard="([^"]+)"} (\d+)$', text, re.MULTILINE)}

    def test_TP119_applies_of_shards_are_answered_and_not_stored(self):
        self.make(SLICES, "APIExportEndpointSlice", "plain", {"export": {"name": "widgets"}})
        before = whole(self.root, "plain")
        shard = self.installation.user_client("external-logical-cluster-admin", (GROUP,))
        other = "https://other.example.test" + PATH
        for status in ({"status": {"endpoints": [{"url": other}]}}, {"status": {"endpoints": [{"url": self.urls("plain")[0]}]}},
                       {"status": {}}):
            with self.subTest(status=status):
                answer = self.apply(shard, "plain", "shard-1", status)
                self.assertEqual(answer.status, 200, answer)
                self.assertEqual(answer.json, before, "the object as it is")
                self.assertEqual(self.read("plain"), before, "and stays")
        self.assertEqual(self.apply(shard, "plain", "root", {"status": {}}).status, 200)
        kit.eventually(lambda: sum(self.ignored().values()) == 4, what="all are counted")
        self.assertEqual(self.ignored(), {"root": 1, "shard-1": 3})
        missing = self.apply(shard, "nowhere", "shard-1", {"status": {}})
        self.assertEqual((missing.status, missing.json["reason"]), (404, "NotFound"))
        self.assertEqual(self.root.get(SLICES + "/nowhere").status, 404)
        # The rest of the slice is not theirs.
        refused = self.apply(shard, "plain", "shard-1", {"spec": {"export": {"name": "widgets"}, "partition": "p"}}, what="")
        self.assertEqual((refused.status, refused.json["reason"]), (403, "Forbidden"))

    def test_TP119_in_a_workspace_of_another_shard(self):
        self.installation.make_workspace("elsewhere", selector={"region": kit.REGIONS[1]})
        there = self.installation.client("/clusters/root:elsewhere")
        there.must("POST", SLICES, thing(SLICES, "APIExportEndpointSlice", "s", {"export": {"name": "missing"}}))

        def written():
            found = there.must("GET", SLICES + "/s")
            return found if "APIExportValid" in conditions(found) else None

        before = kit.eventually(written)
        shard = self.installation.user_client("external-logical-cluster-admin", (GROUP,), path="/clusters/root:elsewhere")
        answer = self.apply(shard, "s", "shard-2", {"status": {"endpoints": [{"url": "https://shard-2.example.test" + PATH}]}})
        self.assertEqual((answer.status, answer.json), (200, before))
        self.assertEqual(there.must("GET", SLICES + "/s"), before)

    def test_TP119_everybody_else_applies_by_their_rights(self):
        self.make(SLICES, "APIExportEndpointSlice", "rights", {"export": {"name": "widgets"}})
        before = whole(self.root, "rights")
        own = self.urls("rights")
        entry = "https://other.example.test" + PATH
        status = {"status": {"endpoints": [{"url": entry}]}}
        stranger = self.installation.user_client("stranger", ("devs",))
        refused = self.apply(stranger, "rights", "shard-1", status)
        self.assertEqual((refused.status, refused.json["reason"]), (403, "Forbidden"))
        self.assertEqual(self.read("rights"), before)
        # An administrator under the name of a shard: stored, and taken away as nobody's by the next reconciliation.
        answer = self.apply(self.root, "rights", "shard-1", status)
        self.assertEqual(answer.status, 200, answer)
        self.assertNotEqual(answer.json["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"])
        self.assertIn(entry, [e["url"] for e in answer.json["status"]["endpoints"]])
        kit.eventually(lambda: self.urls("rights") == own)
        # The group under a name that is no shard: a third party like others.
        shard = self.installation.user_client("external-logical-cluster-admin", (GROUP,))
        answer = self.apply(shard, "rights", "shard-99", status)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(self.urls("rights"), [*own, entry])
        self.assertEqual(self.apply(shard, "rights", "shard-99", {"status": {}}).status, 200)
        kit.eventually(lambda: self.urls("rights") == own)


class OwnWrites(Base):
    """What the proxy writes, seen by clients."""

    def mode(self, name, mode):
        self.merge(f"{SLICES}/{name}", {"metadata": {"annotations": {"kintsugi.dev/endpoint-mode": mode}}})

    def endpoints(self, name):
        return self.read(name).get("status", {}).get("endpoints", [])

    def becomes(self, name, wanted):
        def check():
            found = self.endpoints(name)
            assert found == wanted, found
            return True
        kit.eventually(check)

    def test_TP114_TP116_every_mode_with_and_without_partition(self):
        proxy = f"https://127.0.0.1:{self.installation.port}"
        direct = {s["metadata"]["name"]: s["spec"]["virtualWorkspaceURL"] for s in self.root.must("GET", SHARDS)["items"]}
        one = self.shards[1]
        self.label(one, tp114="in")
        self.make(PARTITIONS, "Partition", "tp114", {"selector": {"matchLabels": {"tp114": "in"}}})
        for name, shards, spec, prefix, selects in (
                ("whole", self.shards, {}, "", {"matchAll": True}),
                ("part", [one], {"partition": "tp114"}, "/partitions/root/tp114", {"selector": {"matchLabels": {"tp114": "in"}}})):
            self.make(SLICES, "APIExportEndpointSlice", name, {"export": {"path": "root", "name": "widgets"}, **spec})
            with self.subTest(slice=name):
                self.mode(name, "direct")
                self.becomes(name, [{"url": direct[s] + PATH} for s in shards])
                self.mode(name, "proxied")
                self.becomes(name, [{"url": f"{proxy}/shards/{s}{PATH}", "shards": {"selector": {"matchLabels": {"name": s}}}}
                                    for s in shards])
                self.mode(name, "aggregated")
                self.becomes(name, [{"url": proxy + prefix + PATH, "shards": selects}])
        # TP-116: one selected shard without its name makes selectors useless for all.
        self.make(SHARDS, "Shard", "tp116", {"baseURL": "https://tp116.example.test"})
        self.mode("whole", "proxied")
        self.becomes("whole", [{"url": f"{proxy}/shards/{s}{PATH}"} for s in [*self.shards, "tp116"]])
        self.root.must("DELETE", SHARDS + "/tp116")
        self.becomes("whole", [{"url": f"{proxy}/shards/{s}{PATH}", "shards": {"selector": {"matchLabels": {"name": s}}}}
                               for s in self.shards])

    def test_TP110_every_change_of_a_shard_shows(self):
        self.make(SLICES, "APIExportEndpointSlice", "tp110", {"export": {"name": "widgets"}},
                  annotations={"kintsugi.dev/endpoint-mode": "direct"})
        kit.eventually(lambda: len(self.urls("tp110")) == 3)
        own = self.urls("tp110")
        new = "https://tp110.example.test"
        self.make(SHARDS, "Shard", "tp110", {"baseURL": new, "virtualWorkspaceURL": new + "/vw"})
        kit.eventually(lambda: self.urls("tp110") == [*own, new + "/vw" + PATH])
        version = self.read("tp110")["metadata"]["resourceVersion"]
        # Not what clients connect to; then the one that is, in one write.
        self.merge(SHARDS + "/tp110", {"spec": {"baseURL": "https://elsewhere.example.test"}})
        self.merge(SHARDS + "/tp110", {"spec": {"virtualWorkspaceURL": "https://other.example.test"}})
        event = next(self.root.watch(f"{SLICES}?watch=true&resourceVersion={version}&fieldSelector=metadata.name%3Dtp110"))
        self.assertEqual([e["url"] for e in event["object"]["status"]["endpoints"]], [*own, "https://other.example.test" + PATH])
        self.root.must("DELETE", SHARDS + "/tp110")
        kit.eventually(lambda: self.urls("tp110") == own)

    def test_TP130_the_first_status_is_whole(self):
        version = self.root.must("GET", SLICES)["metadata"]["resourceVersion"]
        self.make(SLICES, "APIExportEndpointSlice", "tp130", {"export": {"name": "widgets"}})
        events = self.root.watch(f"{SLICES}?watch=true&resourceVersion={version}&fieldSelector=metadata.name%3Dtp130")
        made, first = next(events), next(events)
        self.assertEqual((made["type"], made["object"].get("status")), ("ADDED", None))
        self.assertEqual(conditions(first["object"]), {kind: ("True", "") for kind in
                                                       ("APIExportValid", "PartitionValid", "EndpointURLsReady")})
        self.assertEqual(len(first["object"]["status"]["endpoints"]), 3)

    def test_TP128_a_slice_heals_when_its_tuple_returns(self):
        one = self.shards[1]
        self.label(one, tp128="here")
        self.make(SETS, "PartitionSet", "tp128", {"dimensions": ["tp128"]})

        def partitions():
            return [p["metadata"]["name"] for p in self.root.must("GET", PARTITIONS)["items"]
                    if any(o["name"] == "tp128" for o in p["metadata"].get("ownerReferences", []))]

        name, = kit.eventually(partitions)
        self.make(SLICES, "APIExportEndpointSlice", "tp128", {"export": {"name": "widgets"}, "partition": name})
        kit.eventually(lambda: len(self.urls("tp128")) == 1)
        self.merge(f"{SHARDS}/{one}", {"metadata": {"labels": {"tp128": None}}})
        kit.eventually(lambda: conditions(self.read("tp128"))["PartitionValid"] == ("False", "PartitionInvalidReference"))
        self.assertEqual((self.urls("tp128"), partitions()), ([], []))
        self.merge(f"{SHARDS}/{one}", {"metadata": {"labels": {"tp128": "here"}}})
        kit.eventually(lambda: conditions(self.read("tp128"))["PartitionValid"] == ("True", ""))
        self.assertEqual((len(self.urls("tp128")), partitions()), (1, [name]))

    def test_TP132_an_invalid_selector_leaves_running_controllers_alone(self):
        self.make(PARTITIONS, "Partition", "tp132", {"selector": {}})
        self.make(SLICES, "APIExportEndpointSlice", "tp132", {"export": {"name": "widgets"}, "partition": "tp132"})
        kit.eventually(lambda: len(self.urls("tp132")) == 3)
        before = self.read("tp132")
        warned = self.root.request("PATCH", PARTITIONS + "/tp132", json.dumps(
            {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}}}), headers=MERGE)
        self.assertEqual(warned.status, 200)
        self.assertIn("is not a valid label selector operator", warned.headers["Warning"])
        kit.eventually(lambda: conditions(self.read("tp132"))["PartitionValid"] == ("False", "PartitionInvalidReference"))
        after = self.read("tp132")
        self.assertEqual(after["status"]["endpoints"], before["status"]["endpoints"])
        event = next(self.root.watch(f"{SLICES}?watch=true&fieldSelector=metadata.name%3Dtp132"
                                     f"&resourceVersion={before['metadata']['resourceVersion']}"))
        self.assertEqual(event["object"], after, "one write")

    def test_TP021_TP024_TP025_TP126_names_and_selectors_of_odd_values(self):
        values = {self.shards[0]: "eu_1.a", self.shards[1]: "EU-1.a", self.shards[2]: ""}
        for shard, value in values.items():
            self.label(shard, **{"topology.kubernetes.io/zone": value})
        self.make(SHARDS, "Shard", "without", {"baseURL": "https://without.example.test"})  # TP-025: no such label
        self.make(SETS, "PartitionSet", "zones", {"dimensions": ["topology.kubernetes.io/zone", "topology.kubernetes.io/zone"]})

        def found():
            return {p["metadata"]["name"]: p["spec"]["selector"]["matchLabels"] for p in self.root.must("GET", PARTITIONS)["items"]
                    if any(o["name"] == "zones" for o in p["metadata"].get("ownerReferences", []))}

        kit.eventually(lambda: len(found()) == 3)
        held = found()
        self.assertEqual(held["zones-eu-1-a-5fthw"], {"topology.kubernetes.io/zone": "eu_1.a"})
        self.assertEqual(held["zones-eu-1-a-tcws2"], {"topology.kubernetes.io/zone": "EU-1.a"})
        self.assertIn({"topology.kubernetes.io/zone": ""}, held.values())
        kit.eventually(lambda: self.root.must("GET", SETS + "/zones").get("status", {}).get("count") == 3)
        # TP-021: long values in one name.
        labels = {f"partition-test-label{i}": f"label{i}-" + "1234567890" * 5 for i in range(1, 6)}
        self.label(self.shards[0], **labels)
        self.make(SETS, "PartitionSet", "test-partitionset", {"dimensions": sorted(labels)})
        name = "test-partitionset-label1-1234567890123456789012345678901235b759"
        self.assertEqual(kit.eventually(lambda: self.root.get(f"{PARTITIONS}/{name}").json.get("spec")),
                         {"selector": {"matchLabels": labels}})


class LeaveGrace(Base):
    """TP-129 with a proxy of its own in front of the same shards."""

    def start_proxy(self, grace):
        written = next(self.installation.state.rglob("proxy.yaml"))
        folder = self.installation.dir / f"grace-{grace}"
        folder.mkdir()
        port = kit.free_port()
        config = written.read_text().replace(f"port: {self.installation.port}", f"port: {port}")
        config = re.sub(r"data_dir: .*", f"data_dir: {folder / 'data'}", config)
        config = re.sub(r"socket: .*", f"socket: {folder / 'admin.sock'}", config)
        config = config.replace("endpoint_slice:\n", f"endpoint_slice:\n  leave_grace_ms: {grace}\n")
        (folder / "proxy.yaml").write_text(config)
        log = (folder / "log").open("wb")
        process = subprocess.Popen([str(kit.BINARY), "proxy", "--config", str(folder / "proxy.yaml")], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log)
        for cleanup in (log.close, process.wait, process.kill):
            self.addCleanup(cleanup)
        pki = self.installation.pki
        client = kit.Client(f"https://127.0.0.1:{port}/clusters/root", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")
        kit.eventually(lambda: client.get(SLICES).status == 200, 20)
        return client

    def test_TP129_a_relabelled_shard_leaves_after_the_grace(self):
        one, two, *_ = self.shards
        for grace in (3_600_000, 200):
            with self.subTest(grace=grace):
                for shard in (one, two):
                    self.label(shard, tp129="in")
                client = self.start_proxy(grace)
                client.must("POST", PARTITIONS, thing(PARTITIONS, "Partition", "in", {"selector": {"matchLabels": {"tp129": "in"}}}))
                client.must("POST", SETS, thing(SETS, "PartitionSet", "witness", {"dimensions": ["tp129"]}))
                client.must("POST", SLICES, thing(SLICES, "APIExportEndpointSlice", "s",
                                                  {"export": {"name": "widgets"}, "partition": "in"}))

                def read(client=client):
                    return client.must("GET", SLICES + "/s")

                def size(client=client):
                    return len(client.must("GET", SLICES + "/s").get("status", {}).get("endpoints", []))

                def tuples(client=client):
                    return client.must("GET", SETS + "/witness").get("status", {}).get("count")

                kit.eventually(lambda: size() == 2)
                before = whole(client, "s")
                self.label(one, tp129="out")
                kit.eventually(lambda: tuples() == 2)  # the label is known by now
                if grace < 1000:
                    kit.eventually(lambda: size() == 1)
                    continue
                self.assertEqual(read(), before)
                self.label(one, tp129="in")
                kit.eventually(lambda: tuples() == 1)
                self.assertEqual(read(), before)
                # Another selector is not the shard's doing.
                client.must("PATCH", PARTITIONS + "/in", json.dumps({"spec": {"selector": {"matchLabels": {"name": two}}}}),
                            headers=MERGE)
                kit.eventually(lambda: size() == 1)


if __name__ == "__main__":
    unittest.main()
