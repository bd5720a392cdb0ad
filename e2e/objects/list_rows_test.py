"""Rows of docs/spec/api-machinery.md on patches, applies, lists, watches and exports (AM-199 to AM-518), each under its number,
through the proxy."""
import base64
import collections
import json
import re
import subprocess
import threading
import unittest

import kit
import raw_h2
from rows import Case, Stream, config_map, definition, gear, names_of, schema, secret, version_of

CORE = "/api/v1/namespaces"
APIS = "/apis/apis.kcp.io/v1alpha2"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
STALE = 'Operation cannot be fulfilled on configmaps "%s": the object has been modified; please apply your changes to the ' \
        'latest version and try again'
INITIAL = "resourceVersionMatch=NotOlderThan&sendInitialEvents=true"


def setUpModule():
    """A shard that calls everything before a moment compacted: its store is restored from a backup."""
    global installation, root, before, old_token
    installation = kit.Installation(shards=2).start_for()
    Case.client = root = installation.client()
    secrets = space("pages", "secrets")
    for name in "abcde":
        root.must("POST", secrets, secret(name))
    page = root.must("GET", secrets + "?limit=2")
    before, old_token = page["metadata"]["resourceVersion"], page["metadata"]["continue"]
    data, backup = installation.state / "shards" / "root" / "data", installation.dir / "backup"
    store("backup", data, backup)
    installation.stop()
    data.rename(installation.dir / "old")
    store("restore", backup, data)
    installation.start()
    kit.eventually(lambda: root.get(secrets).status == 200, what="the restored shard")


def store(verb, origin, target):
    subprocess.run([str(kit.BINARY), "store", verb, "--from", str(origin), "--to", str(target)], check=True, timeout=60,
                   capture_output=True)


def space(name, resource="configmaps"):
    """The path of a resource in a new namespace."""
    root.must("POST", CORE, {"metadata": {"name": name}})
    return f"{CORE}/{name}/{resource}"


def future():
    return version_of(root.must("GET", CORE)) + 1_000_000


def define(plural, kind):
    root.must("POST", DEFINITIONS, definition(plural, kind))
    path = f"/apis/row.test/v1/namespaces/default/{plural}"
    kit.eventually(lambda: root.get(path).status == 200, what=plural)
    return path


class Patches(Case):
    @classmethod
    def setUpClass(cls):
        cls.maps = space("patches")

    def made(self, name):
        self.path = f"{self.maps}/{name}"
        self.object = root.must("POST", self.maps, config_map(name, k="1"))

    def patch(self, body, headers, query=""):
        return root.request("PATCH", self.path + query, json.dumps(body), headers=headers)

    def unchanged(self):
        self.assertEqual(root.must("GET", self.path), self.object)

    def test_AM_199_a_result_that_is_no_object_of_the_kind(self):
        self.made("am199")
        cases = (("/data/y", {"data": {"y": 5}}, 5,
                  "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
                 ("/kind", {"kind": "Secret"}, "Secret", 'no kind "Secret" is registered for version "v1" in scheme "'),
                 ("/apiVersion", {"apiVersion": "v2"}, "v2", 'no kind "ConfigMap" is registered for version "v2" in scheme "'))
        for pointer, merge, value, why in cases:
            for body, headers in (([{"op": "add", "path": pointer, "value": value}], JSON_PATCH), (merge, MERGE)):
                said = self.status(self.patch(body, headers), 422, "Invalid",
                                   re.compile(r'^ "" is invalid: patch: Invalid value: "\{.*\}": ' + re.escape(why), re.DOTALL))
                self.assertEqual([(cause["field"], cause["reason"]) for cause in said["details"]["causes"]],
                                 [("patch", "FieldValueInvalid")])
        self.unchanged()

    def test_AM_200_the_name_may_not_change(self):
        self.made("am200")
        for body, headers in (([{"op": "replace", "path": "/metadata/name", "value": "b"}], JSON_PATCH),
                              ({"metadata": {"name": "b"}}, MERGE), ({"metadata": {"name": "b"}}, STRATEGIC)):
            self.status(self.patch(body, headers), 400, "BadRequest",
                        "the name of the object (b) does not match the name on the URL (am200)")
        self.unchanged()

    def test_AM_201_a_stale_version_in_a_patch(self):
        self.made("am201")
        for body, headers in (([{"op": "replace", "path": "/metadata/resourceVersion", "value": before}], JSON_PATCH),
                              ({"metadata": {"resourceVersion": before}, "data": {"k": "2"}}, MERGE),
                              ({"metadata": {"resourceVersion": before}, "data": {"k": "2"}}, STRATEGIC)):
            self.status(self.patch(body, headers), 409, "Conflict", STALE % "am201")
        self.unchanged()
        current = {"metadata": {"resourceVersion": self.object["metadata"]["resourceVersion"]}, "data": {"k": "2"}}
        self.assertEqual(self.patch(current, MERGE).json["data"], {"k": "2"})

    def test_AM_203_force_belongs_to_applies(self):
        self.made("am203")
        for body, headers in (([], JSON_PATCH), ({}, MERGE), ({}, STRATEGIC)):
            said = self.status(self.patch(body, headers, "?force=true"), 422, "Invalid",
                               'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for '
                               "non-apply patch")
            self.assertEqual(said["details"], {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [
                {"field": "force", "message": "Forbidden: may not be specified for non-apply patch",
                 "reason": "FieldValueForbidden"}]})
        self.unchanged()

    def test_AM_204_an_absent_object_and_a_charset(self):
        self.made("am204")
        for i, (body, headers) in enumerate((([{"op": "add", "path": "/data/k0", "value": "x"}], JSON_PATCH),
                                             ({"data": {"k1": "x"}}, MERGE), ({"data": {"k2": "x"}}, STRATEGIC))):
            absent = root.request("PATCH", self.maps + "/absent", json.dumps(body), headers=headers)
            self.status(absent, 404, "NotFound", 'configmaps "absent" not found')
            answer = self.patch(body, {"Content-Type": headers["Content-Type"] + "; charset=utf-8"})
            self.assertEqual((answer.status, answer.json["data"][f"k{i}"]), (200, "x"))


class Applies(Case):
    @classmethod
    def setUpClass(cls):
        cls.maps = space("applies")

    def apply(self, name, body, path=None, more=""):
        return root.request("PATCH", f"{path or self.maps}/{name}{more}?fieldManager=m", json.dumps(body), headers=APPLY)

    def test_AM_226_the_same_apply_again_writes_nothing(self):
        first = self.apply("am226", config_map("am226", k="1"))
        second = self.apply("am226", config_map("am226", k="1"))
        self.assertEqual((first.status, second.status), (201, 200))
        self.assertEqual(second.json, first.json)

    def test_AM_228_the_name_in_the_body(self):
        """As recorded: a body without a name is accepted for an object that exists."""
        self.apply("am228", config_map("am228", k="1"))
        self.status(self.apply("am228", config_map("other", k="1")), 400, "BadRequest",
                    "the name of the object (other) does not match the name on the URL (am228)")
        nameless = config_map("am228", k="2")
        del nameless["metadata"]
        answer = self.apply("am228", nameless)
        self.assertEqual((answer.status, answer.json["metadata"]["name"], answer.json["data"]), (200, "am228", {"k": "2"}))
        self.status(self.apply("am228-new", nameless), 400, "BadRequest",
                    "the name of the object (am228-new based on URL) was undeterminable: name must be provided")

    def test_AM_230_a_version_in_an_apply(self):
        self.apply("am230", config_map("am230", k="1"))
        body = config_map("am230", k="2")
        body["metadata"]["resourceVersion"] = before
        self.status(self.apply("am230", body), 409, "Conflict", STALE % "am230")
        self.assertEqual(root.must("GET", f"{self.maps}/am230")["data"], {"k": "1"})
        body["metadata"]["name"] = "am230-new"
        made = self.apply("am230-new", body)
        self.assertEqual(made.status, 201, made)
        self.assertNotEqual(made.json["metadata"]["resourceVersion"], before)

    def test_AM_231_a_uid_for_an_absent_object(self):
        """As the running reference answers."""
        body = config_map("am231", k="1")
        body["metadata"]["uid"] = "1"
        self.status(self.apply("am231", body), 409, "Conflict", 'Operation cannot be fulfilled on configmaps "am231": '
                    "uid mismatch: the provided object specified uid 1, and no existing object was found")
        self.assertEqual(root.get(f"{self.maps}/am231").status, 404)

    def test_AM_239_one_manager_owns_spec_and_status_apart(self):
        path = define("wheels", "Wheel")

        def wheel(**parts):
            return {"apiVersion": "row.test/v1", "kind": "Wheel", "metadata": {"name": "w"}, **parts}

        def entries(answer):
            self.assertIn(answer.status, (200, 201), answer)
            return {entry.get("subresource", ""): entry["fieldsV1"] for entry in answer.json["metadata"]["managedFields"]
                    if (entry["manager"], entry["operation"]) == ("m", "Apply")}
        size, phase = {"f:spec": {"f:size": {}}}, {"f:status": {"f:phase": {}}}
        self.assertEqual(entries(self.apply("w", wheel(spec={"size": 1}), path)), {"": size})
        self.assertEqual(entries(self.apply("w", wheel(status={"phase": "on"}), path, "/status")), {"": size, "status": phase})
        again = self.apply("w", wheel(spec={"size": 2}), path)
        self.assertEqual((entries(again), again.json["status"]), ({"": size, "status": phase}, {"phase": "on"}))
        dropped = self.apply("w", wheel(status={}), path, "/status")
        self.assertEqual((entries(dropped).get(""), dropped.json["spec"]), (size, {"size": 2}))
        self.assertNotIn("phase", dropped.json.get("status", {}))


class Lists(Case):
    def test_AM_086_SE_005_what_follows_a_page_is_counted_whole_in_steps(self):
        maps, most, made = space("many"), 4_500, 0
        with raw_h2.Connection(root) as connection:  # more than a list looks at in one step
            while made < most:
                with connection.at_once():
                    streams = []
                    for made in range(made + 1, made + 101):
                        streams.append(connection.open("POST", maps, [("content-type", "application/json")], end=False))
                        connection.data(streams[-1], json.dumps(config_map(f"m-{made:05}")).encode(), end=True)
                self.assertTrue(connection.until(lambda all_of=streams: all(s.over for s in all_of)))
                self.assertEqual({s.status for s in streams}, {201})
        page = root.must("GET", maps + "?limit=1")["metadata"]
        there = len(root.must("GET", maps)["items"])
        self.assertGreaterEqual(there, most)
        self.assertEqual(page["remainingItemCount"], there - 1)
        page = root.must("GET", maps + "?limit=2000&continue=" + page["continue"])["metadata"]
        self.assertEqual(page["remainingItemCount"], there - 2_001)
        self.assertEqual(names_of(root.must("GET", maps + "?limit=5&fieldSelector=metadata.name%3Dm-00007")), ["m-00007"])
        self.assertEqual(names_of(root.must("GET", maps + "?fieldSelector=metadata.name%3Dm-0000")), [])
        self.assertEqual(names_of(root.must("GET", maps + "?fieldSelector=metadata.name%3Dm-00007,metadata.name!%3Dm-00007")), [])

    def three(self, name):
        """Objects a and b, the version of that state, and c after it."""
        secrets = space(name, "secrets")
        for one in "ab":
            root.must("POST", secrets, secret(one, k="old"))
        then = version_of(root.must("GET", secrets))
        root.must("POST", secrets, secret("c"))
        root.must("PATCH", f"{secrets}/a", json.dumps({"metadata": {"labels": {"k": "new"}}}), headers=MERGE)
        return secrets, then

    def test_AM_257_unknown_field_labels(self):
        only = '"a.b" is not a known field selector: only "metadata.name", "metadata.namespace"'
        for path, label, message in ((f"{CORE}/default/configmaps", "a.b", only),
                                     ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "a.b", only),
                                     (CORE, "message", "field label not supported: message"),
                                     (f"{CORE}/default/events", "message", "field label not supported: message"),
                                     (f"{CORE}/default/secrets", "a.b", "field label not supported: a.b")):
            for query in (f"?fieldSelector={label}%3Dx", f"?watch=1&fieldSelector={label}%3Dx"):
                self.status(root.get(path + query), 400, "BadRequest", message)

    def test_AM_264_not_older_than_a_version_or_exactly_at_it(self):
        secrets, then = self.three("am264")
        newer = root.must("GET", f"{secrets}?resourceVersion={then}&resourceVersionMatch=NotOlderThan")
        self.assertGreaterEqual(version_of(newer), then)
        now = version_of(root.must("GET", secrets))
        newest = root.must("GET", f"{secrets}?resourceVersion={now}&resourceVersionMatch=NotOlderThan")
        self.assertEqual((names_of(newest), newest["items"][0]["metadata"]["labels"]), (["a", "b", "c"], {"k": "new"}))
        exact = root.must("GET", f"{secrets}?resourceVersion={then}&resourceVersionMatch=Exact")
        self.assertEqual((names_of(exact), version_of(exact)), (["a", "b"], then))
        self.assertEqual(exact["items"][0]["metadata"]["labels"], {"k": "old"})

    def test_AM_265_a_version_and_a_limit_are_exact(self):
        secrets, then = self.three("am265")
        page = root.must("GET", f"{secrets}?resourceVersion={then}&limit=1")
        self.assertEqual((names_of(page), version_of(page), page["items"][0]["metadata"]["labels"]), (["a"], then, {"k": "old"}))
        rest = root.must("GET", f"{secrets}?limit=9&continue={page['metadata']['continue']}")
        self.assertEqual((names_of(rest), version_of(rest)), (["b"], then))

    def test_AM_266_exact_versions_that_are_gone_or_to_come(self):
        secrets = f"{CORE}/pages/secrets"
        self.status(root.get(f"{secrets}?resourceVersion={before}&resourceVersionMatch=Exact"), 410, "Expired",
                    "The resourceVersion for the provided list is too old.")
        later = future()
        self.too_large(f"{secrets}?resourceVersion={later}&resourceVersionMatch=Exact", later)

    def test_AM_268_nothing_is_exactly_zero(self):
        self.invalid_options(CORE + "?resourceVersion=0&resourceVersionMatch=Exact", (
            "resourceVersionMatch", 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))

    def test_AM_269_an_unknown_match(self):
        self.invalid_options(CORE + "?resourceVersion=1&resourceVersionMatch=Foo", (
            "resourceVersionMatch", 'Unsupported value: "Foo": supported values: "Exact", "NotOlderThan", ""'))

    def test_AM_270_a_match_with_continue(self):
        token = root.must("GET", CORE + "?limit=1")["metadata"]["continue"]
        for match in ("NotOlderThan", "Exact"):
            self.invalid_options(
                f"{CORE}?resourceVersionMatch={match}&continue={token}",
                ("resourceVersionMatch", "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"),
                ("resourceVersionMatch", "Forbidden: resourceVersionMatch is forbidden when continue is provided"))

    def test_AM_271_versions_that_are_no_numbers(self):
        for text in ("abc", "-1"):
            self.status(root.get(f"{CORE}?resourceVersion={text}"), 400, "BadRequest",
                        f'invalid resource version: resourceVersion: Invalid value: "{text}": '
                        f'strconv.ParseUint: parsing "{text}": invalid syntax')

    def test_AM_272_initial_events_are_not_for_lists(self):
        for value in ("true", "false"):
            self.invalid_options(f"{CORE}?sendInitialEvents={value}",
                                 ("sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list"))

    def test_AM_273_numbers_that_are_none(self):
        for name in ("limit", "timeoutSeconds"):
            for more in ("", "&watch=1"):
                self.status(root.get(f"{CORE}?{name}=abc{more}"), 400, "BadRequest",
                            'strconv.ParseInt: parsing "abc": invalid syntax')

    def test_AM_274_no_limit(self):
        secrets, _ = self.three("am274")
        for limit in ("-1", "0"):
            listed = root.must("GET", f"{secrets}?limit={limit}")
            self.assertEqual((names_of(listed), listed["metadata"].get("continue", "")), (["a", "b", "c"], ""))

    def test_AM_280_the_token_that_an_expired_one_offers(self):
        secrets = f"{CORE}/pages/secrets"
        expired = root.get(f"{secrets}?limit=2&continue={old_token}")
        self.assertEqual((expired.status, expired.json["reason"]), (410, "Expired"), expired)
        offered = expired.json["metadata"]["continue"]
        root.must("POST", secrets, secret("bb"))
        root.must("DELETE", f"{secrets}/c")
        page = root.must("GET", f"{secrets}?limit=2&continue={offered}")
        self.assertEqual(names_of(page), ["bb", "d"])
        self.assertGreater(version_of(page), int(before))
        root.must("POST", secrets, secret("dd"))
        rest = root.must("GET", f"{secrets}?limit=2&continue={page['metadata']['continue']}")
        self.assertEqual((names_of(rest), version_of(rest)), (["e"], version_of(page)))
        self.assertEqual(rest["metadata"].get("continue", ""), "")

    def test_AM_281_SE_166_a_token_that_was_changed(self):
        token = root.must("GET", CORE + "?limit=1")["metadata"]["continue"]
        for made in (token[:-1] + ("A" if token[-1] != "A" else "B"), token[1:], token + "AAAA", token[:20], base64.urlsafe_b64encode(
                json.dumps({"v": "meta.k8s.io/v1", "rv": future(), "start": "a\0"}).encode()).decode().rstrip("=")):
            answer = root.request("GET", f"{CORE}?limit=1&continue={made}")
            self.assertEqual((answer.status, answer.json["reason"]), (400, "BadRequest"), made)


class Watches(Case):
    def two(self, name):
        secrets = space(name, "secrets")
        for one in "ab":
            root.must("POST", secrets, secret(one))
        return secrets

    def goes_on(self, stream, secrets):
        root.must("POST", secrets, secret("live"))
        self.assertEqual(stream.names(1), [("ADDED", "live")])

    def test_AM_290_a_match_without_initial_events(self):
        self.invalid_options(CORE + "?watch=1&resourceVersionMatch=NotOlderThan", (
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))

    def test_AM_291_initial_events_need_their_match(self):
        needs = ("resourceVersionMatch", "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        self.invalid_options(CORE + "?watch=1&sendInitialEvents=true", needs)
        self.invalid_options(CORE + "?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact", needs,
                             ("resourceVersionMatch", 'Unsupported value: "Exact": supported values: "NotOlderThan"'))

    def test_AM_293_the_bookmark_comes_where_nothing_is(self):
        """The stream ends after a second: the bookmark came before."""
        root.must("POST", DEFINITIONS, definition("spokes", "Spoke"))
        spokes = "/apis/row.test/v1/spokes"
        kit.eventually(lambda: root.get(spokes).status == 200, what="spokes")
        secrets = self.two("am293")
        more = f"watch=true&allowWatchBookmarks=true&{INITIAL}&timeoutSeconds=1"
        for path, kind in ((f"{spokes}?", "Spoke"), (f"{CORE}/none/configmaps?", "ConfigMap"),
                           (f"{secrets}?labelSelector=row%3Dnone&", "Secret")):
            events = list(root.watch(path + more))
            self.assertEqual([(event["type"], event["object"]["kind"]) for event in events], [("BOOKMARK", kind)], path)
            metadata = events[0]["object"]["metadata"]
            self.assertEqual(metadata["annotations"], {"k8s.io/initial-events-end": "true"})
            self.assertGreater(int(metadata["resourceVersion"]), 0)

    def test_AM_294_initial_events_without_bookmarks(self):
        secrets = self.two("am294")
        stream = Stream(self, root, f"{secrets}?watch=1&{INITIAL}")
        self.assertEqual(sorted(stream.names(2)), [("ADDED", "a"), ("ADDED", "b")])
        self.goes_on(stream, secrets)

    def test_AM_295_initial_events_refused(self):
        secrets = self.two("am295")
        for more in ("", "&allowWatchBookmarks=true"):
            stream = Stream(self, root, f"{secrets}?watch=1&resourceVersionMatch=NotOlderThan&sendInitialEvents=false{more}")
            self.goes_on(stream, secrets)
            root.must("DELETE", f"{secrets}/live")

    def test_AM_297_a_watch_has_no_limit(self):
        secrets = self.two("am297")
        stream = Stream(self, root, f"{secrets}?watch=1&limit=1")
        self.assertEqual(sorted(stream.names(2)), [("ADDED", "a"), ("ADDED", "b")])
        self.goes_on(stream, secrets)

    def test_AM_298_a_watch_continues_nothing(self):
        token = root.must("GET", CORE + "?limit=1")["metadata"]["continue"]
        for text in ("abc", token):
            self.invalid_options(f"{CORE}?watch=1&continue={text}", (
                "resourceVersionMatch", "Forbidden: resourceVersionMatch is forbidden when continue is provided"))

    def test_AM_307_all_watches_see_one_sequence(self):
        """Smaller than the row: 100 watches, half of them at the shard itself, and 1,000 writes of four writers; every watch
        has the same bytes in the same order."""
        secrets, watches, writers, objects, changes = space("am307", "secrets"), 100, 4, 25, 8
        count = writers * objects * (changes + 2)
        version = root.must("GET", secrets)["metadata"]["resourceVersion"]
        shard = shard_client("root", "/clusters/root")
        streams = [Stream(self, (root, shard)[i % 2], f"{secrets}?watch=1&resourceVersion={version}") for i in range(watches)]
        seen, faults = [None] * watches, []

        def read(i):
            seen[i] = [streams[i].response.readline() for _ in range(count)]

        def write(i):
            connection = root.connect(20)
            path = root.url.path + secrets
            steps = [("POST", "", lambda name, _: secret(name, n="0"), {"Content-Type": "application/json"})]
            steps += [("PATCH", "/", lambda _, n: {"metadata": {"labels": {"n": str(n)}}}, MERGE)] * changes
            steps += [("DELETE", "/", lambda *_: {}, {"Content-Type": "application/json"})]
            try:
                for n, (method, slash, body, headers) in enumerate(steps):
                    for name in (f"{i}-{each:02}" for each in range(objects)):
                        connection.request(method, path + (slash and slash + name), json.dumps(body(name, n)), headers)
                        response = connection.getresponse()
                        answer = response.read()
                        assert response.status in (200, 201), answer
            finally:
                connection.close()

        def guarded(work, i):
            try:
                work(i)
            except BaseException as fault:  # pylint: disable=broad-except
                faults.append(fault)
        threads = [threading.Thread(target=guarded, args=job, daemon=True) for job in
                   [(read, i) for i in range(watches)] + [(write, i) for i in range(writers)]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        self.assertFalse(faults)
        self.assertFalse([i for i, lines in enumerate(seen) if lines != seen[0]], "watches that saw something else")
        events = [json.loads(line) for line in seen[0]]
        versions = [version_of(event["object"]) for event in events]
        self.assertEqual(versions, sorted(set(versions)))
        histories = collections.defaultdict(list)
        for event in events:
            histories[event["object"]["metadata"]["name"]].append((event["type"], event["object"]["metadata"]["labels"]["n"]))
        whole = [("ADDED", "0")] + [("MODIFIED", str(n)) for n in range(1, changes + 1)] + [("DELETED", str(changes))]
        self.assertEqual(dict(histories), {f"{i}-{each:02}": whole for i in range(writers) for each in range(objects)})


def shard_client(name, path):
    pki = installation.pki
    return kit.Client(installation.shard_url(name) + path, pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")


class Exports(Case):
    GEARS = "/apis/gear.test/v1/namespaces/default/gears"

    @classmethod
    def setUpClass(cls):
        for name, shard in (("prov", "root"), ("one", "shard-1"), ("two", "shard-1")):
            installation.make_workspace(name, selector={"name": shard})
        cls.prov, cls.one, cls.two = (installation.client(f"/clusters/root:{name}") for name in ("prov", "one", "two"))
        cls.prov.must("POST", SCHEMAS, schema("v1.gears.gear.test"))

    def export(self, name):
        """An APIExport of the gears that has its identity."""
        self.prov.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name}, "spec": {"resources": [
                {"group": "gear.test", "name": "gears", "schema": "v1.gears.gear.test", "storage": {"crd": {}}}]}})
        path = f"{APIS}/apiexports/{name}"
        return kit.eventually(lambda: self.prov.must("GET", path)["status"]["identityHash"], what="identity")

    def bind(self, client, name):
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": "root:prov", "name": name}}}}
        kit.eventually(lambda: client.request("POST", APIS + "/apibindings", body).status == 201, what="binding made")
        self.addCleanup(self.unbind, client, name)
        kit.eventually(lambda: client.must("GET", f"{APIS}/apibindings/{name}")["status"]["phase"] == "Bound", what="Bound")

    def unbind(self, client, name):
        client.request("DELETE", f"{APIS}/apibindings/{name}")
        kit.eventually(lambda: client.get(f"{APIS}/apibindings/{name}").status == 404, what="the binding gone")

    def condition(self, name, *expected):
        """Waits for status, reason and message of IdentityValid; returns the identity hash."""
        def look():
            status = self.prov.must("GET", f"{APIS}/apiexports/{name}")["status"]
            found = next(one for one in status["conditions"] if one["type"] == "IdentityValid")
            got = (found["status"], found.get("reason", ""), found.get("message", ""))
            assert got == expected, got
            return status["identityHash"]
        return kit.eventually(look, what="IdentityValid")

    def test_AM_492_names_of_schemas(self):
        for name in ("gears.gear.test", "v1.others.gear.test", "gear.test"):
            self.status(self.prov.request("POST", SCHEMAS, schema(name)), 403, "Forbidden",
                        f'apiresourceschemas.apis.kcp.io "{name}" is forbidden: [metadata.name: Invalid value: "{name}": '
                        "must end in .gears.gear.test]")

    def test_AM_493_schemas_do_not_change(self):
        path = f"{SCHEMAS}/v1.gears.gear.test"
        made = self.prov.must("GET", path)
        for body, headers in (({"spec": {"names": {"shortNames": ["gr"]}}}, MERGE), ({"spec": {"scope": "Cluster"}}, MERGE),
                              ([{"op": "add", "path": "/spec/versions/0/schema/description", "value": "x"}], JSON_PATCH)):
            self.status(self.prov.request("PATCH", path, json.dumps(body), headers=headers), 403, "Forbidden", re.compile(
                r'^apiresourceschemas\.apis\.kcp\.io "v1\.gears\.gear\.test" is forbidden: '
                r'\[spec: Invalid value: \{"group":"gear\.test",.*\}: is immutable\]$'))
        self.assertEqual(self.prov.must("GET", path), made)
        labelled = self.prov.must("PATCH", path, '{"metadata":{"labels":{"a":"b"}}}', headers=MERGE)
        self.assertEqual((labelled["spec"], labelled["metadata"]["generation"]), (made["spec"], 1))

    def test_AM_495_a_secret_that_is_absent_or_another(self):
        path = APIS + "/apiexports/lost"
        identity = self.export("lost")
        for name in ("nope", "lost"):
            self.prov.must("PATCH", path, json.dumps({"spec": {"identity": {"secretRef": {"name": name}}}}), headers=MERGE)
            expected = ("True", "", "") if name == "lost" else (
                "False", "IdentityVerificationFailed", 'secrets "nope" not found')
            self.assertEqual(self.condition("lost", *expected), identity)
        self.bind(self.one, "lost")
        secret = f"{CORE}/kcp-system/secrets/lost"
        key = self.prov.must("GET", secret)["data"]["key"]
        self.prov.must("PATCH", secret, json.dumps({"stringData": {"key": "another-key-of-20-b."}}), headers=MERGE)
        other = "c2fa11e672c95dfae5c4a3be3bbaf827bc7f187e9171bab0a8aa84f0b8d98969"  # its SHA-256
        refused = f'hash mismatch: identity secret hash "{other}" must match status.identityHash "{identity}"'
        self.assertEqual(self.condition("lost", "False", "IdentityVerificationFailed", refused), identity)
        self.one.must("POST", self.GEARS, gear("kept"))
        self.prov.must("PATCH", secret, json.dumps({"data": {"key": key}}), headers=MERGE)
        self.assertEqual(self.condition("lost", "True", "", ""), identity)

    def test_AM_500_a_reference_does_not_change(self):
        self.export("first")
        self.export("second")
        self.bind(self.one, "first")
        path = APIS + "/apibindings/first"
        for reference in ({"name": "second"}, {"path": "root"}, {"path": None}):
            answer = self.one.request("PATCH", path, json.dumps({"spec": {"reference": {"export": reference}}}), headers=MERGE)
            said = self.status(answer, 422, "Invalid", 'APIBinding.apis.kcp.io "first" is invalid: spec.reference: '
                               "Invalid value: APIExport reference must not be changed")
            self.assertEqual(said["details"]["causes"], [{"field": "spec.reference", "reason": "FieldValueInvalid",
                                                          "message": "Invalid value: APIExport reference must not be changed"}])
        self.assertEqual(self.one.must("GET", path)["spec"]["reference"], {"export": {"path": "root:prov", "name": "first"}})

    def everywhere(self, name):
        """A client of `clusters/*` of the virtual workspace of an export, through the proxy."""
        found = self.prov.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        return installation.client(f"/services/apiexport/{found['metadata']['annotations']['kcp.io/cluster']}/{name}/clusters/*")

    def test_AM_513_a_wildcard_list_of_one_namespace(self):
        self.export("narrow")
        self.bind(self.one, "narrow")
        client = self.everywhere("narrow")
        kit.eventually(lambda: client.get("/apis/gear.test/v1/gears").status == 200)
        for query in ("", "?watch=true", "?limit=1&labelSelector=a%3Db"):
            answer = client.get(self.GEARS + query)
            body = answer.json
            self.assertEqual((answer.status, body["kind"], body["code"], body["message"]), (
                400, "Status", 400,
                "cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to namespace default"))

    def test_AM_514_wildcards_are_not_written(self):
        self.export("readonly")
        self.bind(self.one, "readonly")
        made = self.one.must("POST", self.GEARS, gear("a"))
        client = self.everywhere("readonly")
        kit.eventually(lambda: len(client.must("GET", "/apis/gear.test/v1/gears")["items"]) == 1, what="the gear")
        item, all_of_them = self.GEARS + "/a", "/apis/gear.test/v1/gears"
        for method, path, body, headers in (
                ("POST", self.GEARS, gear("b"), None), ("POST", all_of_them, gear("b"), None), ("PUT", item, gear("a"), None),
                ("PUT", item + "/status", gear("a"), None), ("PATCH", item, '{"metadata":{"labels":{"a":"b"}}}', MERGE),
                ("PATCH", item + "?fieldManager=m", json.dumps(gear("a")), APPLY), ("DELETE", item, None, None),
                ("DELETE", self.GEARS, None, None), ("DELETE", all_of_them, None, None)):
            answer = client.request(method, path, body, headers=headers)
            self.assertIn(answer.status, (404, 405), (method, path, answer))
            self.assertEqual((answer.json["kind"], answer.json["code"]), ("Status", answer.status))
        self.assertEqual(self.one.must("GET", self.GEARS)["items"], [made])

    def test_AM_518_an_endpoint_for_each_shard_with_consumers(self):
        self.export("slices")
        kit.eventually(lambda: self.prov.get(f"{SLICES}/slices").status == 200, what="the slice of the export")
        self.prov.must("PATCH", f"{SLICES}/slices", '{"metadata":{"annotations":{"kintsugi.dev/consumers":"required"}}}',
                       headers=MERGE)

        def shows(*shards):
            def look():
                found = self.prov.must("GET", f"{SLICES}/slices").get("status", {}).get("endpoints", [])
                got = sorted(re.search(r"/shards/([^/]+)/services/apiexport/[^/]+/slices$", one["url"]).group(1) for one in found)
                assert got == sorted(shards), got
                return True
            kit.eventually(look, what=f"endpoints of {shards}")
        shows()
        self.bind(self.one, "slices")
        shows("shard-1")
        self.bind(self.two, "slices")
        self.unbind(self.one, "slices")
        self.bind(self.prov, "slices")
        shows("root", "shard-1")
        self.unbind(self.two, "slices")
        shows("root")
        self.unbind(self.prov, "slices")
        shows()


if __name__ == "__main__":
    unittest.main()
