"""Parameters and forms of merged reads over three embedded shards (docs/spec/aggregation.md; the numbers T.. are its cases)."""
import urllib.parse

from merged import MAPS, NEWEST, MergedCase, Stream, is_end

META = "g=meta.k8s.io"
FORMS = {
    "JSON": ("application/json", "", "ConfigMap"),
    "Table": (f"application/json;as=Table;v=v1;{META},application/json", "", "Table"),
    "old Table": (f"application/json;as=Table;v=v1beta1;{META}", "", "Table"),
    "Table of objects": (f"application/json;as=Table;v=v1;{META}", "&includeObject=Object", "Table"),
    "metadata": (f"application/json;as=PartialObjectMetadata%s;v=v1;{META}", "", "PartialObjectMetadata"),
}


def objects_of(answer):
    """The objects of a list or of the object of an event."""
    if answer["kind"] == "Table":
        return [row["object"] for row in answer["rows"]]
    return answer["items"] if answer["kind"].endswith("List") else [answer]


def key(item):
    return item["metadata"]["annotations"]["kcp.io/cluster"], item["metadata"]["namespace"], item["metadata"]["name"]


class Parameters(MergedCase):
    def get(self, query, **headers):
        return self.all.get(f"{MAPS}?{query}", headers={"Accept": "application/json", **headers})

    def refused(self, code, query, **headers):
        answer = self.get(query, **headers)
        self.assertEqual(answer.status, code, f"{query[:200]}: {answer}")
        self.assertEqual((answer.json["kind"], answer.json["code"]), ("Status", code))
        return answer.json

    def test_T05_T06_T17_every_version_with_every_match(self):
        self.fill("t06m", (3, 2, 1))
        row = "labelSelector=row%3Dt06m"
        then = self.union("t06m")
        cursor = self.listed("t06m")["metadata"]["resourceVersion"]
        native = next(iter(then.values()))
        self.put("b", "t06m-later", "t06m")
        self.drop("a", "t06m-a-0")
        now = self.union("t06m")
        newest, exact, paged = (now, False), (then, True), (now, False)
        cells = {  # match and limit, version: the state that is shown and whether at the cursor, or a code
            ("", ""): newest, ("", "0"): newest, ("", cursor): newest, ("", native): newest,
            ("&limit=4", ""): paged, ("&limit=1", "0"): newest, ("&limit=4", cursor): exact, ("&limit=4", native): 410,
            ("&resourceVersionMatch=Exact", ""): 422, ("&resourceVersionMatch=Exact", "0"): 422,
            ("&resourceVersionMatch=Exact", cursor): exact, ("&resourceVersionMatch=Exact", native): 410,
            ("&resourceVersionMatch=Exact&limit=2", cursor): exact, ("&resourceVersionMatch=Exact&limit=2", native): 410,
            ("&resourceVersionMatch=NotOlderThan", ""): 422, ("&resourceVersionMatch=NotOlderThan", "0"): newest,
            ("&resourceVersionMatch=NotOlderThan", cursor): newest, ("&resourceVersionMatch=NotOlderThan", native): newest,
            ("&resourceVersionMatch=NotOlderThan&limit=2", cursor): newest, ("&resourceVersionMatch=NotOlderThan&limit=2", native): newest,
            ("&resourceVersionMatch=NotOlderThan&limit=2", "0"): newest,
        }
        for (how, version), want in cells.items():
            with self.subTest(f"{how} {version[:30]}"):
                query = f"{row}{how}&resourceVersion={version}"
                if isinstance(want, int):
                    self.refused(want, query)
                    continue
                seen, at, pages, token = {}, set(), 0, None
                while token != "":
                    answer = self.get(query if token is None else f"{row}{how.split('&resourceVersionMatch')[0]}&limit=4&continue={token}")
                    self.assertEqual(answer.status, 200, answer)
                    page = answer.json
                    seen.update({key(i): i["metadata"]["resourceVersion"] for i in page["items"]})
                    at.add(page["metadata"]["resourceVersion"])
                    token, pages = page["metadata"].get("continue", ""), pages + 1
                self.assertEqual(seen, want[0])
                self.assertEqual(len(at), 1)
                if want[1]:
                    self.assertEqual(at, {cursor})
                self.assertEqual(pages > 1, "limit" in how and version != "0")
        token = self.get(f"{row}&limit=1").json["metadata"]["continue"]
        for version, code in (("0", 200), (cursor, 400), (native, 400), ("abc", 400)):
            self.assertEqual(self.get(f"{row}&limit=1&continue={token}&resourceVersion={version}").status, code, version)

    def test_T07_T11_T16_checks_come_in_their_order(self):
        png = {"Accept": "image/png"}
        self.refused(406, "limit=abc&resourceVersionMatch=foo", **png)
        self.refused(406, "watch=1&resourceVersion=abc", **png)
        self.refused(400, "limit=&resourceVersionMatch=foo")
        self.refused(400, "labelSelector=a%20in%20(&resourceVersionMatch=foo")
        self.refused(422, "fieldSelector=spec.x%3D1&resourceVersionMatch=foo&resourceVersion=abc")
        for query in ("fieldSelector=spec.x%3D1", "watch=1&fieldSelector=spec.x%3D1"):
            self.assertIn("spec.x", self.refused(400, query)["message"])
        self.assertIn("abc", self.refused(400, "resourceVersion=abc")["message"])
        status = self.refused(422, "resourceVersionMatch=foo&resourceVersion=1")
        self.assertEqual([(c["reason"], c["field"]) for c in status["details"]["causes"]],
                         [("FieldValueNotSupported", "resourceVersionMatch")])
        self.assertIn('"foo"', status["message"])
        self.assertEqual(len(self.refused(422, "resourceVersionMatch=Exact&sendInitialEvents=1")["details"]["causes"]), 2)

    def test_T56_a_state_of_the_future(self):
        """V16."""
        now = self.listed("t56")["metadata"]["resourceVersion"]
        future = now[:35] + f"{int(now[35:55]) + 10_000_000:020}" + now[55:]
        for how in ("", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"):
            with self.subTest(how):
                answer = self.get(f"resourceVersion={future}{how}")
                self.assertEqual((answer.status, answer.headers["Retry-After"]), (504, "1"), answer)
                status = answer.json
                self.assertEqual((status["reason"], status["details"]["retryAfterSeconds"]), ("Timeout", 1))
                self.assertEqual([c["reason"] for c in status["details"]["causes"]], ["ResourceVersionTooLarge"])

    def test_T38_deprecated_paths_are_watches(self):
        """U7, below U3."""
        self.fill("t38d", (2, 1, 1))
        row = "labelSelector=row%3Dt38d"
        for path, count in (("/api/v1/watch/configmaps?" + row, 4), ("/api/v1/watch/configmaps?watch=0&" + row, 4),
                            (f"/api/v1/watch/configmaps?{row}&fieldSelector=metadata.name%3Dt38d-a-1", 1)):
            stream = self.stream(path)
            stream.until(lambda events, n=count: len(events) == n, path)
        for path in ("/api/v1/watch/namespaces/default/configmaps", "/api/v1/watch/namespaces/default/configmaps/x"):
            self.assertEqual(self.all.get(path).status, 400)
        self.assertEqual(self.all.get("/api/v1/watch/configmaps?resourceVersion=abc").status, 400)

    def stream(self, path, headers=None):
        stream = Stream(self.all, path, headers=headers)
        self.addCleanup(stream.close)
        self.assertEqual(stream.status, 200)
        return stream

    def test_T08_T09_T34_T40_T44_T108_every_form_of_lists_and_watches(self):
        self.fill("forms", (3, 2, 1))
        for form, (accept, more, kind) in FORMS.items():
            with self.subTest(form):
                lists, watches = (accept.replace("%s", end) for end in ("List", ""))
                self.follow("forms", {"Accept": lists}, {"Accept": watches}, more, kind)

    def follow(self, row, headers, watch_headers, more, kind):
        def listed(query=""):
            return self.all.must("GET", f"{MAPS}?labelSelector=row%3D{row}{more}{query}", headers=headers)

        def model(items):
            return {key(i): i["metadata"]["resourceVersion"] for i in items}

        def watched(query, start):
            stream = self.watch(row, more + query, headers=watch_headers)
            same(stream, start)
            return stream

        def same(stream, start):
            want = self.union(row)

            def check(events):
                got = dict(start)
                for event in events:
                    if event["type"] in ("ADDED", "MODIFIED"):
                        got.update(model(objects_of(event["object"])))
                    elif event["type"] == "DELETED":
                        got.pop(key(objects_of(event["object"])[0]), None)
                return got == want
            stream.until(check, f"{kind}{more} equal")

        full = listed()
        self.assertEqual(model(objects_of(full)), self.union(row))
        pages, token = [], ""
        while not pages or token:
            page = listed("&limit=2" + (f"&continue={urllib.parse.quote(token)}" if token else ""))
            pages.append(page)
            token = page["metadata"].get("continue", "")
        self.assertEqual(model(o for p in pages for o in objects_of(p)), self.union(row))
        self.assertEqual({p["kind"] for p in pages}, {full["kind"]})
        self.assertEqual(model(objects_of(listed(f"&resourceVersionMatch=Exact&resourceVersion={full['metadata']['resourceVersion']}"))),
                         self.union(row))
        quiet = self.watch(row, f"{more}&timeoutSeconds=1&allowWatchBookmarks=1&resourceVersion={full['metadata']['resourceVersion']}",
                           headers=watch_headers)
        quiet.thread.join(60)
        self.assertEqual([(e["type"], e["object"]["kind"]) for e in quiet.events][-1:], [("BOOKMARK", kind)])
        initial = watched("&" + NEWEST, {})
        initial.until(lambda events: any(e["type"] == "BOOKMARK" for e in events), "the end")
        state = watched("", {})
        resumed = watched(f"&allowWatchBookmarks=1&resourceVersion={full['metadata']['resourceVersion']}", model(objects_of(full)))
        for workspace in "abc":
            self.put(workspace, f"{row}-live", row)
            self.change(workspace, f"{row}-live", "y")
            self.drop(workspace, f"{row}-live")
            self.change(workspace, f"{row}-{workspace}-0", kind + more)
        same(initial, {})
        same(state, {})
        same(resumed, model(objects_of(full)))
        for stream in (initial, state, resumed):
            for n, event in enumerate(stream.events):
                self.assertEqual(event["object"]["kind"], kind)
                if kind == "Table":
                    self.assertEqual(bool(event["object"]["columnDefinitions"]), n == 0, (n, event))
            stream.close()
        ends = [e for e in initial.bookmarks() if is_end(e) or is_end({"type": "BOOKMARK", "object": objects_of(e["object"])[0]})]
        self.assertEqual(len(ends), 1)
        self.assertFalse(state.bookmarks())
        for event in resumed.bookmarks():
            meta = objects_of(event["object"])[0]["metadata"]
            self.assertEqual({k: v for k, v in meta.items() if v}, {"resourceVersion": meta["resourceVersion"]})


if __name__ == "__main__":
    import unittest
    unittest.main()
