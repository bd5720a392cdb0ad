"""The kinds that the proxy serves, request by request (T-01, T-03), and what a killed proxy leaves."""
import http.client
import json
import threading
import unittest
import urllib.parse

import kit

TOPOLOGY = "/apis/topology.kcp.io/v1alpha1"
SETS, PARTITIONS = TOPOLOGY + "/partitionsets", TOPOLOGY + "/partitions"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MERGE, PATCH = "application/merge-patch+json", "application/json-patch+json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"

# path, kind, spec, what an update may change, columns of its Table
KINDS = [
    (PARTITIONS, "Partition", {"selector": {"matchLabels": {"region": "x"}}}, ["spec", "selector", "matchLabels", "region"],
     ["Name", "Owner", "Age"]),
    (SETS, "PartitionSet", {"dimensions": [], "shardSelector": {"matchLabels": {"region": "x"}}},
     ["spec", "shardSelector", "matchLabels", "region"], ["Name", "Count", "Age"]),
    (SLICES, "APIExportEndpointSlice", {"export": {"name": "widgets"}, "partition": "x"}, ["spec", "partition"],
     ["Name", "Export", "Partition", "Age"]),
    (SHARDS, "Shard", {"baseURL": "https://x.example.test"}, ["spec", "externalURL"],
     ["Name", "Region", "URL", "External URL", "Age"]),
]


def version_of(path):
    return "/".join(path.split("/")[2:4])


def thing(path, kind, name, spec, **metadata):
    return {"apiVersion": version_of(path), "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def at(value, path):
    for key in path:
        value = value[key]
    return value


def yaml_of(body):
    """YAML 1.2 reads JSON; this is block style, so that a YAML parser is needed."""
    def block(value, indent):
        if isinstance(value, dict) and value:
            return "".join(f"\n{indent}{key}:{block(inner, indent + '  ')}" for key, inner in value.items())
        return " " + json.dumps(value)
    return block(body, "").lstrip("\n") + "\n"


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.root = cls.installation.client()
        cls.root.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
                                        "metadata": {"name": "widgets"}, "spec": {}})

    def make(self, path, kind, name, spec, **metadata):
        self.addCleanup(lambda: self.root.request("DELETE", f"{path}/{name}"))
        return self.root.must("POST", path, thing(path, kind, name, spec, **metadata), expect=(201,))

    def change(self, path, content_type, body, expect=(200,)):
        return self.root.must("PATCH", path, json.dumps(body), expect=expect, headers={"Content-Type": content_type})

    def test_TP101_every_verb_on_every_kind(self):
        for path, kind, spec, field, _ in KINDS:
            with self.subTest(kind=kind):
                version = self.root.must("GET", path)["metadata"]["resourceVersion"]
                made = self.make(path, kind, "one", spec, labels={"batch": "tp101"})
                self.assertEqual((made["kind"], made["apiVersion"]), (kind, version_of(path)))
                self.assertEqual(made["metadata"]["annotations"]["kcp.io/cluster"], "root")
                again = self.root.request("POST", path, thing(path, kind, "one", spec))
                self.assertEqual((again.status, again.json["reason"]), (409, "AlreadyExists"))
                # YAML in and out; what a client says about the cluster does not count.
                other = thing(path, kind, "two", spec, labels={"batch": "tp101"}, annotations={"kcp.io/cluster": "elsewhere"})
                self.addCleanup(lambda p=path: self.root.request("DELETE", p + "/two"))
                answer = self.root.request("POST", path, yaml_of(other), headers={"Content-Type": "application/yaml",
                                                                                  "Accept": "application/yaml"})
                self.assertEqual(answer.status, 201, answer)
                self.assertTrue(answer.headers["Content-Type"].startswith("application/yaml"))
                self.assertIn(b"name: two", answer.body)
                read = self.root.must("GET", path + "/two")
                self.assertEqual(read["metadata"]["annotations"]["kcp.io/cluster"], "root")
                self.assertEqual(at(read, field[:-1]).get(field[-1]), at(made, field[:-1]).get(field[-1]))
                # update, with and against the present version
                stale = json.loads(json.dumps(read))
                at(read, field[:-1])[field[-1]] = "https://y.example.test" if kind == "Shard" else "y"
                kit.eventually(lambda r=read, p=path: self.update(p, r))
                self.assertEqual(at(self.root.must("GET", path + "/two"), field), at(read, field))
                stale["metadata"].setdefault("labels", {})["late"] = "true"
                refused = self.root.request("PUT", path + "/two", stale)
                self.assertEqual((refused.status, refused.json["reason"]), (409, "Conflict"))
                # patches
                self.change(path + "/two", MERGE, {"metadata": {"labels": {"a": "1"}}})
                patched = self.change(path + "/two", PATCH, [{"op": "test", "path": "/metadata/labels/a", "value": "1"},
                                                             {"op": "replace", "path": "/metadata/labels/a", "value": "2"}])
                self.assertEqual(patched["metadata"]["labels"]["a"], "2")
                strategic = self.root.request("PATCH", path + "/two", "{}",
                                              headers={"Content-Type": "application/strategic-merge-patch+json"})
                self.assertEqual((strategic.status, strategic.json["reason"]), (415, "UnsupportedMediaType"))
                # watch tells all of it
                events = self.root.watch(f"{path}?watch=true&resourceVersion={version}&labelSelector=batch%3Dtp101")
                seen = []
                for event in events:
                    seen.append((event["type"], event["object"]["metadata"]["name"]))
                    if event["object"]["metadata"].get("labels", {}).get("a") == "2":
                        break
                self.assertEqual([e for e in seen if e[0] == "ADDED"], [("ADDED", "one"), ("ADDED", "two")])
                # delete: preconditions, one, many
                wrong = self.root.request("DELETE", path + "/one", {"apiVersion": "v1", "kind": "DeleteOptions",
                                                                    "preconditions": {"uid": "not-this-one"}})
                self.assertEqual(wrong.status, 409)
                self.root.must("DELETE", path + "/one")
                self.assertEqual(self.root.get(path + "/one").status, 404)
                self.root.must("DELETE", path + "?labelSelector=batch%3Dtp101")
                kit.eventually(lambda p=path: not self.root.must("GET", p + "?labelSelector=batch%3Dtp101")["items"])
                generated = thing(path, kind, "", spec)
                generated["metadata"] = {"generateName": "tp-", "finalizers": ["x.example.test/hold"]}
                held = self.root.must("POST", path, generated)["metadata"]["name"]
                self.assertRegex(held, "^tp-[a-z0-9]{5}$")
                self.root.must("DELETE", f"{path}/{held}")
                self.assertIn("deletionTimestamp", self.root.must("GET", f"{path}/{held}")["metadata"])
                self.change(f"{path}/{held}", MERGE, {"metadata": {"finalizers": None}})
                self.assertEqual(self.root.get(f"{path}/{held}").status, 404)

    def update(self, path, wanted):
        """PUT on top of what controllers wrote meanwhile."""
        now = self.root.must("GET", f"{path}/{wanted['metadata']['name']}")
        now["spec"] = wanted["spec"]
        return self.root.must("PUT", f"{path}/{wanted['metadata']['name']}", now)

    def test_TP101_dry_run_and_field_validation(self):
        for path, kind, spec, _, _ in KINDS:
            with self.subTest(kind=kind):
                self.assertEqual(self.root.request("POST", path + "?dryRun=All", thing(path, kind, "dry", spec)).status, 201)
                self.assertEqual(self.root.get(path + "/dry").status, 404)
                odd = thing(path, kind, "odd", {**spec, "selectors": []})
                strict = self.root.request("POST", path + "?fieldValidation=Strict", odd)
                self.assertEqual(strict.status, 400)
                self.assertIn("spec.selectors", strict.json["message"])
                self.assertEqual(self.root.get(path + "/odd").status, 404)
                for query in ("", "?fieldValidation=Warn"):
                    warned = self.root.request("POST", path + (query + "&" if query else "?") + "dryRun=All", odd)
                    self.assertEqual(warned.status, 201)
                    self.assertRegex(warned.headers["Warning"], '^299 - "unknown field .*spec.selectors')
                    self.assertNotIn("selectors", warned.json["spec"])
                ignored = self.root.request("POST", path + "?fieldValidation=Ignore&dryRun=All", odd)
                self.assertEqual((ignored.status, ignored.headers["Warning"]), (201, None))

    def test_TP101_status_is_a_part_of_its_own(self):
        self.make(SETS, "PartitionSet", "st", {"dimensions": ["nowhere"]})
        kit.eventually(lambda: self.root.must("GET", SETS + "/st/status").get("status", {}).get("count") == 0)
        before = self.root.must("GET", SETS + "/st")
        # The main resource cannot change status, the status resource nothing else; the controller restores its own.
        self.change(SETS + "/st", MERGE, {"status": {"count": 7}})
        self.assertEqual(self.root.must("GET", SETS + "/st")["status"]["count"], 0)
        self.change(SETS + "/st/status", MERGE, {"spec": {"dimensions": ["region"]}, "status": {"count": 7}})
        self.assertEqual(self.root.must("GET", SETS + "/st")["spec"], before["spec"])
        kit.eventually(lambda: self.root.must("GET", SETS + "/st")["status"]["count"] == 0)
        self.assertEqual(self.root.get(PARTITIONS + "/st/status").status, 404)

    def test_TP102_selectors_pages_and_versions(self):
        for path, kind, spec, _, _ in KINDS[:3]:
            with self.subTest(kind=kind):
                for i in range(5):
                    self.make(path, kind, f"tp102-{i}", spec, labels={"batch": "tp102", "even": str(i % 2 == 0).lower()})

                def names(query, path=path):
                    return [i["metadata"]["name"] for i in self.root.must("GET", path + "?" + query)["items"]]

                self.assertEqual(names("fieldSelector=metadata.name%3Dtp102-3"), ["tp102-3"])
                self.assertEqual(names("fieldSelector=metadata.name%3D%3Dtp102-3"), ["tp102-3"])
                self.assertNotIn("tp102-3", names("fieldSelector=metadata.name!%3Dtp102-3"))
                for label in ("spec.partition", "status.count"):
                    refused = self.root.get(f"{path}?fieldSelector={label}%3Dx")
                    self.assertEqual(refused.status, 400)
                    self.assertIn(f"field label not supported: {label}", refused.json["message"])
                self.assertEqual(names("labelSelector=batch%3Dtp102,even%3Dtrue"), ["tp102-0", "tp102-2", "tp102-4"])
                self.assertEqual(names("labelSelector=batch%3Dtp102,even+notin+(true)"), ["tp102-1", "tp102-3"])
                # pages show one state, whatever happens between them
                first = self.root.must("GET", path + "?labelSelector=batch%3Dtp102&limit=2")
                state = first["metadata"]["resourceVersion"]
                self.root.must("DELETE", path + "/tp102-4")
                kit.eventually(lambda p=path: self.root.get(p + "/tp102-4").status == 404)
                pages, token = [[i["metadata"]["name"] for i in first["items"]]], first["metadata"].get("continue")
                while token:
                    page = self.root.must("GET", f"{path}?labelSelector=batch%3Dtp102&limit=2&continue={urllib.parse.quote(token)}")
                    self.assertEqual(page["metadata"]["resourceVersion"], state)
                    pages.append([i["metadata"]["name"] for i in page["items"]])
                    token = page["metadata"].get("continue")
                self.assertEqual(pages, [["tp102-0", "tp102-1"], ["tp102-2", "tp102-3"], ["tp102-4"]])
                # resourceVersion
                self.assertEqual(len(names("labelSelector=batch%3Dtp102&resourceVersion=0")), 4)
                self.assertEqual(len(names(f"labelSelector=batch%3Dtp102&resourceVersion={state}&resourceVersionMatch=Exact")), 5)
                fresh = self.root.must("GET", f"{path}?resourceVersion={state}&resourceVersionMatch=NotOlderThan")
                self.assertGreaterEqual(int(fresh["metadata"]["resourceVersion"]), int(state))
                self.assertEqual(self.root.get(f"{path}?resourceVersionMatch=Exact").status, 422)
                ahead = self.root.get(f"{path}?resourceVersion=999999999", timeout=60)
                self.assertEqual((ahead.status, ahead.json["reason"]), (504, "Timeout"))
                self.assertIn("Too large resource version: 999999999", ahead.json["message"])
                self.assertEqual(self.root.get(f"{path}?resourceVersion=-1").status, 400)

    def test_TP103_forms_of_an_answer(self):
        for path, kind, spec, _, columns in KINDS:
            with self.subTest(kind=kind):
                self.make(path, kind, "tp103", spec)
                for url in (path, path + "/tp103"):
                    table = self.root.get(url, headers={"Accept": TABLE}).json
                    self.assertEqual(table["kind"], "Table")
                    self.assertEqual([c["name"] for c in table["columnDefinitions"]], columns)
                rows = {r["cells"][0]: r["cells"] for r in self.root.get(path, headers={"Accept": TABLE}).json["rows"]}
                self.assertEqual(len(rows["tp103"]), len(columns))
                partial = self.root.get(path + "/tp103", headers={
                    "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}).json
                self.assertEqual((partial["kind"], partial["metadata"]["name"]), ("PartialObjectMetadata", "tp103"))
                self.assertNotIn("spec", partial)
                for url, list_of in ((path, "List"), (path + "/tp103", "")):
                    packed = self.root.get(url, headers={
                        "Accept": f"{PROTOBUF};as=PartialObjectMetadata{list_of};g=meta.k8s.io;v=v1"})
                    self.assertEqual((packed.status, packed.body[:4]), (200, b"k8s\0"))
                    self.assertIn(b"tp103", packed.body)
                    only = self.root.get(url, headers={"Accept": PROTOBUF})
                    self.assertEqual(only.status, 406)
                    either = self.root.get(url, headers={"Accept": PROTOBUF + ",application/json"})
                    self.assertEqual(either.status, 200)
                    self.assertTrue(either.headers["Content-Type"].startswith("application/json"))

    def test_TP104_watch_list_and_bookmarks(self):
        for path, kind, spec, _, _ in KINDS[:3]:
            with self.subTest(kind=kind):
                for i in range(3):
                    self.make(path, kind, f"tp104-{i}", spec, labels={"batch": "tp104"})
                stream = self.root.watch(f"{path}?watch=true&labelSelector=batch%3Dtp104&sendInitialEvents=true"
                                         "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
                seen = []
                for event in stream:
                    seen.append(event)
                    if event["type"] == "BOOKMARK":
                        break
                self.assertEqual([(e["type"], e["object"]["metadata"]["name"]) for e in seen[:-1]],
                                 [("ADDED", f"tp104-{i}") for i in range(3)])
                end = seen[-1]["object"]
                self.assertEqual(end["metadata"]["annotations"]["k8s.io/initial-events-end"], "true")
                self.assertEqual((end["kind"], end["apiVersion"]), (kind, version_of(path)))
                # It goes on from there, with one end mark only.
                self.make(path, kind, "tp104-late", spec, labels={"batch": "tp104"})
                # Controllers write status meanwhile, and a bookmark may tell how far that is.
                event = next(e for e in stream if e["type"] not in ("MODIFIED", "BOOKMARK") or
                             "annotations" in e["object"]["metadata"] and e["type"] == "BOOKMARK")
                self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", "tp104-late"))
                resumed = self.root.watch(f"{path}?watch=true&labelSelector=batch%3Dtp104"
                                          f"&resourceVersion={end['metadata']['resourceVersion']}")
                event = next(e for e in resumed if e["type"] == "ADDED")
                self.assertEqual(event["object"]["metadata"]["name"], "tp104-late")

    def test_TP111_an_invalid_operator_warns(self):
        answer = self.root.request("POST", PARTITIONS, thing(PARTITIONS, "Partition", "foo", {
            "selector": {"matchExpressions": [{"key": "region", "operator": "Foo"}]}}))
        self.addCleanup(lambda: self.root.request("DELETE", PARTITIONS + "/foo"))
        self.assertEqual(answer.status, 201)
        self.assertIn("is not a valid label selector operator", answer.headers["Warning"])
        self.make(SLICES, "APIExportEndpointSlice", "foo", {"export": {"name": "widgets"}, "partition": "foo"})

        def told():
            conditions = self.root.must("GET", SLICES + "/foo").get("status", {}).get("conditions", [])
            found = next(c for c in conditions + [{"type": "PartitionValid"}] if c["type"] == "PartitionValid")
            assert found.get("status") == "False", found
            return found

        self.assertIn("is not a valid label selector operator", kit.eventually(told)["message"])

    def test_TP117_unknown_annotation_values_warn(self):
        for key, value in (("endpoint-mode", "sideways"), ("consumers", "perhaps")):
            answer = self.root.request("POST", SLICES + "?dryRun=All", thing(
                SLICES, "APIExportEndpointSlice", "odd", {"export": {"name": "widgets"}}, annotations={f"kintsugi.dev/{key}": value}))
            self.assertEqual(answer.status, 201)
            self.assertIn(f"kintsugi.dev/{key}: unknown value", answer.headers["Warning"])

    def test_TP115_a_changed_mode_is_one_write(self):
        self.make(SLICES, "APIExportEndpointSlice", "mode", {"export": {"name": "widgets"}})

        def endpoints():
            return self.root.must("GET", SLICES + "/mode").get("status", {}).get("endpoints", [])

        kit.eventually(lambda: len(endpoints()) == 3)
        start = self.root.must("GET", SLICES + "/mode")["metadata"]["resourceVersion"]
        for mode, count in (("direct", 3), ("proxied", 3), ("aggregated", 1)):
            self.change(SLICES + "/mode", MERGE, {"metadata": {"annotations": {"kintsugi.dev/endpoint-mode": mode}}})
            kit.eventually(lambda m=mode, n=count: len(endpoints()) == n and all(
                ("/shards/" in e["url"]) == (m == "proxied") and ("matchAll" in e.get("shards", {})) == (m == "aggregated")
                for e in endpoints()))
        last = self.root.must("GET", SLICES + "/mode")["metadata"]["resourceVersion"]
        stream = self.root.watch(f"{SLICES}?watch=true&resourceVersion={start}&fieldSelector=metadata.name%3Dmode")
        states = []
        for event in stream:
            states.append((event["object"]["metadata"]["annotations"]["kintsugi.dev/endpoint-mode"],
                           [e["url"] for e in event["object"]["status"]["endpoints"]]))
            if event["object"]["metadata"]["resourceVersion"] == last:
                break
        # Each mode shows once with the old and once with its own entries, but `direct`, what it was, may need no write.
        for mode in ("proxied", "aggregated"):
            self.assertLessEqual(len([s for s in states if s[0] == mode]), 2, states)
        self.assertEqual(len(states[-1][1]), 1)


    def test_TP120_entries_of_third_parties_stay(self):
        self.make(SLICES, "APIExportEndpointSlice", "shared", {"export": {"name": "widgets"}})

        def urls():
            return [e["url"] for e in self.root.must("GET", SLICES + "/shared").get("status", {}).get("endpoints", [])]

        def apply(status):
            body = {"apiVersion": version_of(SLICES), "kind": "APIExportEndpointSlice", "metadata": {"name": "shared"}, "status": status}
            return self.root.must("PATCH", SLICES + "/shared/status?fieldManager=third", json.dumps(body),
                                  headers={"Content-Type": "application/apply-patch+yaml"})

        own = kit.eventually(lambda: len(urls()) == 3 and urls())
        apply({"endpoints": [{"url": "https://vw.example", "shards": {"matchAll": True}}]})
        self.assertEqual(sorted(urls()), sorted([*own, "https://vw.example"]))
        # The set of shards changes: the entry stays where it is.
        self.make(SHARDS, "Shard", "fourth", {"baseURL": "https://fourth.example.test"})
        kit.eventually(lambda: len(urls()) == 5)
        self.assertIn("https://vw.example", urls())
        self.root.must("DELETE", SHARDS + "/fourth")
        kit.eventually(lambda: len(urls()) == 4)
        self.assertIn("https://vw.example", urls())
        apply({})
        kit.eventually(lambda: urls() == own)


class Clusters(unittest.TestCase):
    """Workspaces on three shards, with and without their shard."""

    def make(self, client, path, kind, name, spec):
        return client.must("POST", path, thing(path, kind, name, spec), expect=(201,))

    def test_TP104_TP106_clusters_come_go_and_sleep(self):
        with kit.Installation() as installation:
            root = installation.client()
            spaces, clients = {}, {}
            for name, region in zip(("one", "two", "three"), kit.REGIONS):
                spaces[name] = installation.make_workspace(name, selector={"region": region})["spec"]["cluster"]
                clients[name] = installation.client("/clusters/root:" + name)
            # TP-104: one stream over three clusters on three shards, one space of versions.
            everywhere = installation.client("/clusters/*")
            version = everywhere.must("GET", SLICES)["metadata"]["resourceVersion"]
            stream = everywhere.watch(f"{SLICES}?watch=true&resourceVersion={version}")
            for name in spaces:
                self.make(clients[name], SLICES, "APIExportEndpointSlice", "s-" + name, {"export": {"name": "missing"}})
            added, versions = {}, []
            for event in stream:
                versions.append(int(event["object"]["metadata"]["resourceVersion"]))
                if event["type"] == "ADDED":
                    added[event["object"]["metadata"]["name"]] = event["object"]["metadata"]["annotations"]["kcp.io/cluster"]
                if len(added) == 3:
                    break
            self.assertEqual(added, {"s-" + name: cluster for name, cluster in spaces.items()})
            self.assertEqual(versions, sorted(versions))
            listed = everywhere.must("GET", SLICES.replace("slices", "slices:0a1b2c"))
            self.assertLessEqual(set(added), {i["metadata"]["name"] for i in listed["items"]})
            self.assertEqual(everywhere.request("DELETE", SLICES).status, 405)
            self.assertEqual(everywhere.must("GET", "/api/v1/configmaps")["kind"], "ConfigMapList")  # what shards have: merged
            for path in (SLICES, "/api/v1/configmaps"):
                self.assertEqual(installation.user_client("stranger", path="/clusters/*").get(path).status, 403)

            # TP-106: unknown.
            unknown = installation.client("/clusters/root:nowhere").get(PARTITIONS)
            self.assertEqual((unknown.status, unknown.json["reason"]), (403, "Forbidden"))
            # Inactive, and back.
            logical = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"

            def mark(value):
                kit.eventually(lambda: clients["one"].must("PATCH", logical, json.dumps(
                    {"metadata": {"annotations": {"core.kcp.io/inactive": value}}}), headers={"Content-Type": MERGE}))

            self.make(clients["one"], PARTITIONS, "Partition", "p", {"selector": {}})
            mark("true")
            refused = kit.eventually(lambda: (a := clients["one"].get(PARTITIONS)).status == 403 and a)
            self.assertEqual(refused.json["message"], f'logicalclusters.core.kcp.io "{spaces["one"]}" is forbidden: '
                             'logical cluster is marked inactive')
            mark(None)
            kit.eventually(lambda: clients["one"].get(PARTITIONS + "/p").status == 200)
            # Deleted: its objects go, seen from all clusters.
            self.make(clients["two"], PARTITIONS, "Partition", "held", {"selector": {}})
            clients["two"].must("PATCH", PARTITIONS + "/held", json.dumps({"metadata": {"finalizers": ["x.test/y"]}}),
                                headers={"Content-Type": MERGE})
            root.must("DELETE", "/apis/tenancy.kcp.io/v1alpha1/workspaces/two")

            def left():
                return [i["metadata"]["name"] for path in (SLICES, PARTITIONS) for i in everywhere.must("GET", path)["items"]
                        if i["metadata"]["annotations"]["kcp.io/cluster"] == spaces["two"]]

            kit.eventually(lambda: not left())
            kit.eventually(lambda: installation.client(f"/clusters/{spaces['two']}").get(PARTITIONS).status == 403)
            # Its shard down: who has been judged lately may read on, others have to wait. The supervisor brings it back.
            # One connection, as verdicts are kept by the loop that serves it.
            connection = clients["three"].connect()
            self.addCleanup(connection.close)

            def read():
                connection.request("GET", "/clusters/root:three" + PARTITIONS)
                answer = connection.getresponse()
                answer.read()
                return answer.status

            never_seen = installation.user_client("never-seen", path="/clusters/root:three")
            self.assertEqual(read(), 200)
            shard = next(s["metadata"]["name"] for s in root.must("GET", SHARDS)["items"]
                         if s["metadata"]["labels"]["region"] == kit.REGIONS[2])
            installation.kill(shard)
            stranger = never_seen.get(PARTITIONS)
            self.assertIn(stranger.status, (403, 503))  # 403 when the shard was quicker
            if stranger.status == 503:
                self.assertIn("Retry-After", stranger.headers)
            self.assertEqual(read(), 200)

    def test_TP138_TP104_a_killed_writer_leaves_nothing_undone(self):
        with kit.Installation() as installation:
            root = installation.client()
            root.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "w"},
                                        "spec": {}})
            for i in range(20):
                self.make(root, SETS, "PartitionSet", f"set-{i}", {"dimensions": ["wave"]})
            version = root.must("GET", SETS)["metadata"]["resourceVersion"]
            stop, written = threading.Event(), []
            shards = [s["metadata"]["name"] for s in root.must("GET", SHARDS)["items"]]

            def storm():
                wave = 0
                while not stop.is_set():
                    wave += 1
                    try:
                        answer = root.request("PATCH", f"{SHARDS}/{shards[wave % 3]}", json.dumps(
                            {"metadata": {"labels": {"wave": f"w{wave % 5}"}}}), headers={"Content-Type": MERGE}, timeout=60)
                        if answer.status == 200:
                            written.append(wave)
                    except (OSError, http.client.HTTPException):
                        stop.wait(0.02)

            thread = threading.Thread(target=storm, daemon=True)
            thread.start()
            try:
                for _ in range(3):
                    goal = len(written) + 30
                    kit.eventually(lambda g=goal: len(written) > g)
                    installation.kill("proxy")
                goal = len(written) + 30
                kit.eventually(lambda: len(written) > goal)
            finally:
                stop.set()
                thread.join()
            labels = kit.eventually(lambda: {s["metadata"]["labels"]["wave"] for s in root.must("GET", SHARDS)["items"]})

            def settled():
                held = {}
                for partition in root.must("GET", PARTITIONS)["items"]:
                    owner = partition["metadata"]["ownerReferences"][0]["name"]
                    held.setdefault(owner, []).append(partition["spec"]["selector"]["matchLabels"]["wave"])
                assert held == {f"set-{i}": held.get(f"set-{i}") for i in range(20)}, held
                for owner, values in held.items():
                    assert sorted(values) == sorted(labels), (owner, values, labels)
                for one in root.must("GET", SETS)["items"]:
                    assert one["status"]["count"] == len(labels), one["status"]
                return True

            kit.eventually(settled, deadline=15)
            # A restart in peace writes nothing: no Partition is made again.
            kinds = (SETS, PARTITIONS, SLICES)

            def everything():
                return {(i["metadata"]["uid"], i["metadata"]["resourceVersion"]) for k in kinds for i in root.must("GET", k)["items"]}

            calm = kit.eventually(lambda: kit.stays(everything, 0.3))
            installation.kill("proxy")
            kit.eventually(everything)
            installation.make_workspace("after")  # by then the shards are known and all is looked at
            self.assertEqual(everything(), calm)
            # A watch from before the kills has no gap: what it tells ends where the list is.
            wanted = {i["metadata"]["name"]: i["metadata"]["resourceVersion"] for i in root.must("GET", SETS)["items"]}
            newest = max(map(int, wanted.values()))
            last = {}
            for event in root.watch(f"{SETS}?watch=true&resourceVersion={version}"):
                last[event["object"]["metadata"]["name"]] = event["object"]["metadata"]["resourceVersion"]
                if int(event["object"]["metadata"]["resourceVersion"]) >= newest:
                    break
            self.assertEqual({**wanted, **last}, wanted)


if __name__ == "__main__":
    unittest.main()
