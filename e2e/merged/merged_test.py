"""Lists and watches of clusters/* over three shards (docs/spec/aggregation.md; the numbers T.. are its cases)."""
import json
import signal
import subprocess
import time
import unittest

import kit
from merged import MAPS, NEWEST, WORKSPACES, MergedCase, is_end, key_of, name_of


class Merged(MergedCase):
    def test_T01_T11_a_list_has_every_shards_objects_with_their_own_versions(self):
        """R-12, as it is with `wildcard: serve`."""
        self.fill("t01")
        listed = self.listed("t01")
        self.assertEqual((listed["kind"], listed["apiVersion"]), ("ConfigMapList", "v1"))
        self.assertEqual({key_of(i): i["metadata"]["resourceVersion"] for i in listed["items"]}, self.union("t01"))
        self.assertEqual(len(listed["items"]), 6)
        self.assertNotIn("continue", listed["metadata"])
        for workspace in WORKSPACES:
            self.assertIn(self.cluster[workspace], [key_of(i)[0] for i in listed["items"]])

    def test_T02_a_shard_without_objects_joins_the_watch_later(self):
        self.fill("t02", (1, 1, 0))
        stream = self.watch("t02", f"&resourceVersion={self.listed('t02')['metadata']['resourceVersion']}")
        self.put("c", "t02-late", "t02")
        stream.until(lambda events: [name_of(e["object"]) for e in events] == ["t02-late"], "the object of c")

    def test_T03_selectors_are_the_shards_business_and_bad_ones_are_refused(self):
        self.fill("t03")
        self.assertEqual([name_of(i) for i in self.all.must("GET", f"{MAPS}?fieldSelector=metadata.name%3Dt03-b-1")["items"]], ["t03-b-1"])
        self.assertEqual(self.all.get(f"{MAPS}?labelSelector=a%20in%20(").status, 400)

    def test_T04_what_was_created_is_in_the_next_list(self):
        for i in range(30):
            workspace = WORKSPACES[i % 3]
            self.put(workspace, f"t04-{i}", "t04")
            self.assertIn(f"t04-{i}", [name_of(item) for item in self.listed("t04")["items"]])
            self.assertEqual(self.all.get(f"{MAPS}?labelSelector=row%3Dt04&resourceVersion=0").status, 200)

    def test_T05_T06_a_cursor_asks_for_at_least_or_exactly_that_state(self):
        self.fill("t05")
        first = self.listed("t05")
        version = first["metadata"]["resourceVersion"]
        for workspace in WORKSPACES:
            self.put(workspace, f"t05-new-{workspace}", "t05")
            self.change(workspace, f"t05-{workspace}-0", "changed")
        newer = self.listed("t05", f"&resourceVersion={version}")
        self.assertEqual(len(newer["items"]), 9)
        self.assertGreater(int(newer["metadata"]["resourceVersion"]), int(version))
        exact = self.listed("t05", f"&resourceVersion={version}&resourceVersionMatch=Exact")
        self.assertEqual([i["metadata"] for i in exact["items"]], [i["metadata"] for i in first["items"]])
        self.assertEqual(exact["metadata"]["resourceVersion"], version)
        paged = self.listed("t05", f"&resourceVersion={version}&limit=500")
        self.assertEqual([key_of(i) for i in paged["items"]], [key_of(i) for i in first["items"]])

    def test_T07_T30_T48_combinations_that_are_forbidden_name_their_field(self):
        for query, code, field in (
                ("limit=abc", 400, None), ("limit=9223372036854775808", 400, None),
                ("resourceVersionMatch=Exact", 422, "resourceVersionMatch"),
                ("resourceVersion=0&resourceVersionMatch=Exact", 422, "resourceVersionMatch"),
                ("sendInitialEvents=true", 422, "sendInitialEvents"),
                ("watch=1&sendInitialEvents=true", 422, "resourceVersionMatch"),
                ("watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", 422, "resourceVersionMatch"),
                ("watch=1&sendInitialEvents=true&resourceVersionMatch=foo", 422, "resourceVersionMatch"),
                ("continue=x&resourceVersion=5", 400, None)):
            with self.subTest(query):
                answer = self.all.get(f"{MAPS}?{query}")
                self.assertEqual(answer.status, code, answer)
                self.assertEqual(answer.json["kind"], "Status")
                if field:
                    self.assertIn(field, [c["field"] for c in answer.json["details"]["causes"]])
        self.assertEqual(self.all.get(f"{MAPS}?limit=-1").status, 200)

    def test_T08_T09_T40_T108_tables_and_metadata_are_merged_too(self):
        self.fill("t08")
        table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
        answer = self.all.must("GET", f"{MAPS}?labelSelector=row%3Dt08", headers=table)
        self.assertEqual(answer["kind"], "Table")
        self.assertEqual([c["name"] for c in answer["columnDefinitions"]], ["Name", "Data", "Age"])
        self.assertEqual(len(answer["rows"]), 6)
        partial = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
        answer = self.all.must("GET", f"{MAPS}?labelSelector=row%3Dt08", headers=partial)
        self.assertEqual((answer["kind"], len(answer["items"])), ("PartialObjectMetadataList", 6))
        stream = self.watch("t08", "&" + NEWEST, headers=table)
        stream.until(lambda events: len(events) >= 7 and events[-1]["type"] == "BOOKMARK", "six rows and the end")
        self.assertTrue(stream.events[0]["object"]["columnDefinitions"])
        for event in stream.events[1:]:
            self.assertFalse(event["object"]["columnDefinitions"])
        end = stream.bookmarks()[0]["object"]
        self.assertEqual((end["kind"], len(end["rows"])), ("Table", 1))
        self.assertEqual(end["rows"][0]["object"]["metadata"]["annotations"], {"k8s.io/initial-events-end": "true"})
        out = self.installation.kubectl("get", "cm", "-A", "-l", "row=t08", server="/clusters/*")
        self.assertEqual(len(out.splitlines()), 7, out)

    def test_T12_T14_cursors_are_numbers_and_say_the_same_twice(self):
        version = self.listed("t12")["metadata"]["resourceVersion"]
        self.assertRegex(version, r"^[1-9][0-9]*$")
        self.assertEqual(len(version), 15 + 20 * 3)
        # Leases and events may move a shard's revision; two lists without a write between are equal.
        pairs = [(self.listed("t12")["metadata"]["resourceVersion"], self.listed("t12")["metadata"]["resourceVersion"])
                 for _ in range(10)]
        self.assertTrue(any(x == y for x, y in pairs), pairs)

    def test_T16_T18_T92_T106_other_verbs_and_namespaced_reads_are_refused(self):
        for method, path, code in (("POST", MAPS, 405), ("DELETE", MAPS, 405),
                                   ("PUT", "/api/v1/namespaces/default/configmaps/x", 405),
                                   ("GET", "/api/v1/namespaces/default/configmaps/x", 405),
                                   ("GET", "/api/v1/namespaces/default/configmaps", 400)):
            with self.subTest(f"{method} {path}"):
                answer = self.all.request(method, path, {} if method in ("POST", "PUT") else None)
                self.assertEqual(answer.status, code, answer)
                self.assertEqual(answer.json["kind"], "Status")
        self.assertEqual(self.all.request("HEAD", MAPS).status, 405)
        self.assertEqual(self.all.get(MAPS, headers={"Accept": "image/png"}).status, 406)
        self.assertEqual(self.all.get(MAPS, headers={"Accept": "application/cbor"}).status, 406)

    def test_T20_T21_pages_have_every_object_once(self):
        self.fill("t20", (23, 0, 31))
        everything = sorted(self.union("t20"))
        for limit in (1, 2, 7, 23, 500):
            with self.subTest(limit):
                seen, versions, token, empty = [], set(), "", 0
                while True:
                    page = self.listed("t20", f"&limit={limit}" + (f"&continue={token}" if token else ""))
                    self.assertLessEqual(len(page["items"]), limit)
                    seen += [key_of(i) for i in page["items"]]
                    versions.add(page["metadata"]["resourceVersion"])
                    token = page["metadata"].get("continue", "")
                    empty += not page["items"]
                    if not token:
                        break
                self.assertEqual(sorted(seen), everything)
                self.assertEqual(len(versions), 1)
                self.assertLessEqual(empty, 1)

    def test_T23_pages_show_one_state(self):
        self.fill("t23", (4, 4, 4))
        page = self.listed("t23", "&limit=3")
        self.put("c", "t23-new", "t23")
        self.drop("c", "t23-c-3")
        names = [name_of(i) for i in page["items"]]
        while "continue" in page["metadata"]:
            page = self.listed("t23", f"&limit=3&continue={page['metadata']['continue']}")
            names += [name_of(i) for i in page["items"]]
        self.assertEqual(len(names), 12)
        self.assertIn("t23-c-3", names)
        self.assertNotIn("t23-new", names)

    def test_T25_T26_a_token_is_good_for_its_own_list_only(self):
        """V12."""
        self.fill("t25")
        token = self.listed("t25", "&limit=2")["metadata"]["continue"]
        flipped = token[:20] + ("A" if token[20] != "A" else "B") + token[21:]
        for bad in ("x", token[:-1], flipped, "AAAA" + token):
            self.assertEqual(self.all.get(f"{MAPS}?labelSelector=row%3Dt25&limit=2&continue={bad}").status, 400, bad)
        self.assertEqual(self.all.get(f"{MAPS}?labelSelector=row%3Dother&limit=2&continue={token}").status, 400)
        self.assertEqual(self.all.get(f"/api/v1/secrets?labelSelector=row%3Dt25&limit=2&continue={token}").status, 400)

    # Watches
    def test_T31_every_change_of_every_shard_comes_once_and_in_order(self):
        stream = self.watch("t31", f"&resourceVersion={self.listed('t31')['metadata']['resourceVersion']}")
        expected = []
        for workspace in WORKSPACES:
            made = self.put(workspace, f"t31-{workspace}", "t31")
            changed = self.change(workspace, f"t31-{workspace}", "y")
            self.drop(workspace, f"t31-{workspace}")
            expected += [("ADDED", name_of(made), made["metadata"]["resourceVersion"]),
                         ("MODIFIED", name_of(changed), changed["metadata"]["resourceVersion"])]
        stream.until(lambda events: len(events) == 9, "nine events")
        got = [(e["type"], name_of(e["object"]), e["object"]["metadata"]["resourceVersion"]) for e in stream.events]
        for one in expected:
            self.assertIn(one, got)
        for workspace in WORKSPACES:
            mine = [g for g in got if g[1] == f"t31-{workspace}"]
            self.assertEqual([g[0] for g in mine], ["ADDED", "MODIFIED", "DELETED"])
            versions = [int(g[2]) for g in mine]
            self.assertEqual(versions, sorted(set(versions)))

    def test_T34_T35_without_bookmarks_there_are_none(self):
        self.fill("t34")
        for more in ("", "&resourceVersion=0", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"):
            with self.subTest(more):
                stream = self.watch("t34", more)
                stream.until(lambda events: len(events) == 6, "six present objects")
                made = self.put("b", f"t34-{len(more)}", "t34")
                stream.until(lambda events: name_of(events[-1]["object"]) == name_of(made), "the new one")
                self.drop("b", name_of(made))
                self.assertEqual(stream.bookmarks(), [])

    def test_T36_a_trailing_bookmark_follows_each_burst(self):
        stream = self.watch("t36", "&" + NEWEST).until_synced()
        for i in range(30):
            self.put(WORKSPACES[i % 3], f"t36-{i}", "t36")
        stream.until(lambda events: len(stream.objects()) == 30 and events[-1]["type"] == "BOOKMARK", "a last bookmark")
        for bookmark in stream.bookmarks():
            self.assertEqual((bookmark["object"]["kind"], bookmark["object"]["apiVersion"]), ("ConfigMap", "v1"))
        self.assertEqual(set(stream.bookmarks()[-1]["object"]["metadata"]), {"resourceVersion"})
        versions = [int(b["object"]["metadata"]["resourceVersion"]) for b in stream.bookmarks()]
        self.assertEqual(versions, sorted(versions))

    def test_T37_a_watch_ends_in_order_at_its_time(self):
        begin, clock = time.monotonic(), kit.Clock()
        stream = self.watch("t37", "&timeoutSeconds=5&" + NEWEST)
        stream.thread.join(60)
        self.assertTrue(stream.ended and stream.error is None)
        self.assertEqual(stream.events[-1]["type"], "BOOKMARK")
        self.assertGreater(time.monotonic() - begin, 4)
        self.assertLess(clock.spent(), 10)
        begin, clock = time.monotonic(), kit.Clock()
        stream = self.watch("t37", f"&timeoutSeconds=1&resourceVersion={self.listed('t37')['metadata']['resourceVersion']}")
        stream.thread.join(60)
        self.assertTrue(stream.ended and not stream.events)
        self.assertGreaterEqual(time.monotonic() - begin, 0.9)
        self.assertLess(clock.spent(), 5)

    def test_T39_an_object_that_leaves_the_selector_is_deleted(self):
        stream = self.watch("t39", "&" + NEWEST).until_synced()
        self.put("b", "t39", "t39")
        for row in ("other", "t39"):
            self.at["b"].must("PATCH", "/api/v1/namespaces/default/configmaps/t39", json.dumps({"metadata": {"labels": {"row": row}}}),
                              headers={"Content-Type": "application/merge-patch+json"})
        stream.until(lambda _: [e["type"] for e in stream.objects()] == ["ADDED", "DELETED", "ADDED"], "there and back")

    def test_T44_one_end_of_the_initial_events_for_all_shards(self):
        self.fill("t44", (40, 30, 20))
        stream = self.watch("t44", "&" + NEWEST).until_synced()
        end = next(i for i, e in enumerate(stream.events) if is_end(e))
        self.assertEqual(sum(is_end(e) for e in stream.events), 1)
        self.assertEqual([e["type"] for e in stream.events[:end]], ["ADDED"] * 90)
        self.assertEqual(self.model(stream.events), self.union("t44"))

    def test_T51_a_bookmark_resumes_without_gap_or_repetition(self):
        stream = self.watch("t51", "&" + NEWEST).until_synced()
        version = stream.bookmarks()[-1]["object"]["metadata"]["resourceVersion"]
        stream.close()
        for i in range(60):
            self.put(WORKSPACES[i % 3], f"t51-{i}", "t51")
        again = self.watch("t51", f"&allowWatchBookmarks=true&resourceVersion={version}")
        again.until(lambda _: len(again.objects()) >= 60, "sixty events")
        again.until(lambda events: events[-1]["type"] == "BOOKMARK", "a bookmark behind them")
        self.assertEqual(len({key_of(e["object"]) for e in again.objects()}), 60)
        self.assertEqual(len(again.objects()), 60)

    def test_T57_T112_versions_that_nobody_or_somebody_else_made(self):
        """V14, V15."""
        good = self.listed("t57")["metadata"]["resourceVersion"]
        for version in ("abc", "-1", "01", "1" * 10_000):
            self.assertEqual(self.all.get(f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact").status, 400)
            self.assertEqual(self.all.get(f"{MAPS}?watch=1&resourceVersion={version}").status, 400)
        other = self.all.must("GET", "/api/v1/secrets?limit=1")["metadata"]["resourceVersion"]
        for version in ("2" + good[1:], good[:-1], good[:3] + "999998" + good[9:], other, good + "0" * 20):
            with self.subTest(version):
                self.assertEqual(self.all.get(f"{MAPS}?resourceVersion={version}").status, 410)
                self.assertEqual(self.all.get(f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact").status, 410)
                stream = self.watch("t57", f"&resourceVersion={version}")
                stream.thread.join(60)
                self.assertEqual([(e["type"], e["object"]["code"]) for e in stream.events], [("ERROR", 410)])
        self.assertEqual(self.all.get(f"{MAPS}?resourceVersion=5&resourceVersionMatch=Exact").status, 410)
        self.assertEqual(self.all.get(f"{MAPS}?resourceVersion=5").status, 200)

    def test_T90_who_may_not_read_everything_reads_nothing(self):
        nobody = self.installation.user_client("mallory", path="/clusters/*")
        self.assertEqual(nobody.get(MAPS).status, 403)
        self.assertEqual(nobody.get(MAPS + "?watch=1").status, 403)

    def test_T94_discovery_of_everything_is_that_of_a_cluster(self):
        groups = self.all.must("GET", "/apis")["groups"]
        self.assertIn("tenancy.kcp.io", [g["name"] for g in groups])
        self.assertIn("topology.kcp.io", [g["name"] for g in groups])
        self.assertEqual(self.all.get("/api/v1").status, 200)


class MergedFaults(MergedCase):
    """Shards and proxy that go away. Each test leaves everything running."""

    def await_all(self):
        kit.eventually(lambda: self.all.get(MAPS, timeout=60).status == 200, 30, "all shards again")

    def test_T59_a_killed_shard_is_caught_up_with(self):
        self.fill("t59")
        stream = self.watch("t59", "&" + NEWEST).until_synced()
        self.installation.kill("shard-1")
        self.put("a", "t59-meanwhile-a", "t59")
        self.put("c", "t59-meanwhile-c", "t59")
        stream.until(lambda _: len(stream.objects()) == 8, "events of the others")

        def write():
            answer = self.at["b"].request("POST", "/api/v1/namespaces/default/configmaps",
                                          {"metadata": {"name": "t59-after", "labels": {"row": "t59"}}})
            assert answer.status in (201, 409), answer
            return True
        kit.eventually(write, 30, "shard-1 takes writes again")
        stream.until(lambda _: self.model(stream.events) == self.union("t59"), "the events of the killed shard", 30)
        self.assertFalse(stream.ended)
        self.assertEqual(sum(is_end(e) for e in stream.events), 1)
        self.assertEqual(len(stream.objects()), len({key_of(e["object"]) for e in stream.objects()}))
        self.await_all()

    def test_T62_T64_a_shard_that_is_away_fails_new_reads_clearly(self):
        self.installation.kill("shard-2", signal.SIGSTOP)
        try:
            answer = self.all.get(MAPS, timeout=60)
            self.assertEqual((answer.status, answer.json["reason"]), (503, "ServiceUnavailable"), answer)
            self.assertIn("shard-2", [c["field"] for c in answer.json["details"]["causes"]])
            self.assertTrue(1 <= int(answer.headers["Retry-After"]) <= 5)
        finally:
            self.installation.kill("shard-2", signal.SIGCONT)
        self.await_all()

    def test_T53_T29_a_restarted_proxy_knows_its_cursors_and_tokens(self):
        self.fill("t53")
        stream = self.watch("t53", "&" + NEWEST).until_synced()
        version = stream.bookmarks()[-1]["object"]["metadata"]["resourceVersion"]
        token = self.listed("t53", "&limit=2")["metadata"]["continue"]
        self.installation.kill("proxy")
        made = {"metadata": {"name": "t53-after", "labels": {"row": "t53"}}}
        kit.eventually(lambda: self.at["c"].request("POST", "/api/v1/namespaces/default/configmaps", made).status in (201, 409), 30,
                       "a write through the new proxy")
        self.await_all()
        again = self.watch("t53", f"&allowWatchBookmarks=true&resourceVersion={version}")
        again.until(lambda _: [name_of(e["object"]) for e in again.objects()] == ["t53-after"], "just what was missed")
        rest = self.listed("t53", f"&limit=10&continue={token}")
        self.assertEqual(len(rest["items"]), 4)
        self.assertNotIn("continue", rest["metadata"])

    def test_T71_T72_shards_that_join_and_leave(self):
        self.fill("t71")
        stream = self.watch("t71", "&" + NEWEST).until_synced()
        before = self.listed("t71")["metadata"]["resourceVersion"]
        binary = str(kit.BINARY)
        joined = subprocess.Popen([binary, "shard", "--join", str(self.installation.state), "--name", "late"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            shards = self.installation.client("/clusters/root")
            kit.eventually(lambda: shards.get("/apis/core.kcp.io/v1alpha1/shards/late").status == 200, 30, "shard late")
            workspace = self.installation.make_workspace("late", selector={"name": "late"})
            client = self.installation.client("/clusters/root:late")
            client.must("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "t71-late", "labels": {"row": "t71"}}})
            stream.until(lambda _: "t71-late" in [name_of(e["object"]) for e in stream.objects()], "the new shard's object", 20)
            self.assertFalse(stream.ended)
            stream.until(lambda events: len(events[-1]["object"]["metadata"]["resourceVersion"]) == 15 + 80, "a cursor of four", 20)
            after = stream.bookmarks()[-1]["object"]["metadata"]["resourceVersion"]
            self.assertGreater(int(after[3:9]), int(before[3:9]))
            old = self.watch("t71", f"&resourceVersion={before}")
            old.until(lambda _: [name_of(e["object"]) for e in old.objects()] == ["t71-late"], "the old cursor brings just it")
            self.assertEqual(key_of(old.objects()[0]["object"])[0], workspace["spec"]["cluster"])
            stopped = stream.bookmarks()[-1]["object"]["metadata"]["resourceVersion"]
            root = self.installation.client()
            root.must("DELETE", "/apis/core.kcp.io/v1alpha1/shards/late")
        finally:
            joined.send_signal(signal.SIGTERM)
            joined.wait(60)
        # Who has seen the shard's present objects is told that they are gone; who was away has to list again.
        stream.until(lambda events: self.model(events) == self.union("t71"), "the end of the shard's object", 30)
        gone = stream.objects()[-1]
        self.assertEqual((gone["type"], name_of(gone["object"])), ("DELETED", "t71-late"))
        stream.until(lambda _: int(stream.bookmarks()[-1]["object"]["metadata"]["resourceVersion"][3:9]) > int(after[3:9]), "a new generation", 20)
        self.assertFalse(stream.ended)
        old.until(lambda _: old.objects()[-1]["type"] == "DELETED", "the end of the one object that it got", 30)
        offline = self.watch("t71", f"&resourceVersion={stopped}")
        offline.until(lambda events: events and events[-1]["object"].get("code") == 410, "410 for who was away")
        self.await_all()


if __name__ == "__main__":
    unittest.main()
