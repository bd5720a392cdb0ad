"""Rows of the catalogue, discovery, health, OpenAPI, create, update and delete chapters (AM-003 to AM-193)."""
import base64
import hashlib
import json
import re
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
GROUP = "ex.io"
WIDGETS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
PLAINS = f"/apis/{GROUP}/v1/namespaces/default/plains"
JSON = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"
ORDINARY = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
OPTIONS_OF = (("POST", "CreateOptions"), ("PUT", "UpdateOptions"), ("PATCH", "PatchOptions"))
HELD = ["example.com/hold"]


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def widget(name, kind="Widget", **spec):
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def definition(plural, subresources=None):
    kind = plural.capitalize()[:-1]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "replicas": {"type": "integer"}, "free": anything}}
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "sel": {"type": "string"}}}
    version = {"name": "v1", "served": True, "storage": True, "subresources": subresources or {},
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "versions": [version],
                     "names": {"plural": plural, "kind": kind, "singular": plural[:-1], "listKind": kind + "List",
                               "shortNames": [plural[:2]], "categories": ["all"]}}}


def is_established(thing):
    conditions = thing.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def establish(body):
    """Makes a definition and watches it until it is established."""
    root.must("POST", DEFINITIONS, body, expect=(201,))
    for event in root.watch(f"{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3D{body['metadata']['name']}"):
        if is_established(event["object"]):
            return


def setUpModule():
    global installation, root, shard
    installation = kit.Installation(shards=2).start_for()
    root, shard = installation.client(), shard_client("root", "/clusters/root")
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.sel"}
    establish(definition("widgets", {"status": {}, "scale": scale}))
    establish(definition("plains"))


def shard_client(name, path):
    pki = installation.pki
    return kit.Client(installation.shard_url(name) + path, pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")


class Case(unittest.TestCase):
    maxDiff = None

    def status(self, answer, code, reason, message=None):
        """The failure of a row; an ellipsis in `message` stands for text that the row leaves open."""
        self.assertEqual(answer.status, code, answer)
        body = answer.json
        self.assertEqual((body["kind"], body["apiVersion"], body["status"], body["code"], body.get("reason", "")),
                         ("Status", "v1", "Failure", code, reason), body)
        if message is not None and "…" in message:
            self.assertRegex(body["message"], "^" + ".+".join(re.escape(part) for part in message.split("…")) + "$")
        elif message is not None:
            self.assertEqual(body["message"], message)
        return body

    def invalid(self, answer, name, field, cause, text):
        """A 422 with one cause."""
        body = self.status(answer, 422, "Invalid", f"{name} is invalid: {field}: {text}")
        self.assertEqual(body["details"]["causes"], [{"reason": cause, "message": text, "field": field}])
        return body

    def not_found_text(self, answer):
        self.assertEqual((answer.status, answer.headers["Content-Type"], answer.headers["X-Content-Type-Options"], answer.body),
                         (404, "text/plain; charset=utf-8", "nosniff", b"404 page not found\n"))

    def held(self, name):
        """A ConfigMap that is being deleted and held by a finalizer."""
        made = config_map(name)
        made["metadata"]["finalizers"] = HELD
        root.must("POST", MAPS, made)
        deleted = root.must("DELETE", f"{MAPS}/{name}")
        self.assertIn("deletionTimestamp", deleted["metadata"])
        return f"{MAPS}/{name}"


class Catalogue(Case):
    def test_AM_003_other_unknown_paths_are_plain_text(self):
        for client in (root, shard):
            for path in ("/no/such/path", "/nope"):
                with self.subTest(path=path):
                    self.not_found_text(client.get(path))

    def test_AM_009_a_delete_precondition_on_the_version(self):
        made = root.must("POST", MAPS, config_map("am009"))
        answer = root.request("DELETE", f"{MAPS}/am009", {"preconditions": {"resourceVersion": "1"}})
        body = self.status(answer, 409, "Conflict",
                           'Operation cannot be fulfilled on ConfigMap "am009": the ResourceVersion in the precondition (1) does '
                           f'not match the ResourceVersion in record ({made["metadata"]["resourceVersion"]}). '
                           'The object might have been modified')
        self.assertEqual(body["details"], {"name": "am009", "kind": "ConfigMap"})
        fitting = {"preconditions": {"resourceVersion": made["metadata"]["resourceVersion"]}}
        root.must("DELETE", f"{MAPS}/am009", fitting, expect=(200,))

    def test_AM_031_a_timeout_that_is_no_duration(self):
        for value in ("abc", "5", "1x", "s"):
            for method, body in (("GET", None), ("POST", config_map("am031"))):
                with self.subTest(value=value, method=method):
                    self.status(root.request(method, f"{MAPS}?timeout={value}", body), 400, "BadRequest",
                                "invalid timeout specified in the request URL - …")
        self.assertEqual(root.get(f"{MAPS}/am031").status, 404)

    def test_AM_053_methods_that_a_path_does_not_serve(self):
        root.must("POST", MAPS, config_map("am053"))
        wide = "/api/v1/configmaps"
        for method, path in (("POST", f"{MAPS}/am053"), ("PUT", MAPS), ("PATCH", MAPS), ("POST", wide), ("DELETE", wide),
                             ("OPTIONS", MAPS), ("OPTIONS", f"{MAPS}/am053"), ("FOO", MAPS), ("FOO", f"{MAPS}/am053"),
                             ("POST", WIDGETS + "/a"), ("PUT", WIDGETS), ("POST", f"/apis/{GROUP}/v1/widgets")):
            with self.subTest(method=method, path=path):
                text = "{}" if method in ("POST", "PUT", "PATCH") else None
                answer = root.request(method, path, text, headers=MERGE if method == "PATCH" else JSON)
                body = self.status(answer, 405, "MethodNotAllowed",
                                   "the server does not allow this method on the requested resource")
                self.assertEqual(body["details"], {})
        self.assertEqual(root.get(f"{MAPS}/am053").status, 200)

    def test_AM_073_fairness_headers_name_no_flow_schema(self):
        names = ("X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID")
        for path in (MAPS, f"{MAPS}/nope", "/version"):
            answer = root.get(path, headers={name: "forged" for name in names})
            self.assertEqual([answer.headers[name] for name in names], ["", ""])


class Discovery(Case):
    def test_AM_104_the_list_of_groups(self):
        groups = root.must("GET", "/apis")
        self.assertEqual((groups["kind"], groups["apiVersion"]), ("APIGroupList", "v1"))
        found = {group["name"]: group for group in groups["groups"]}
        self.assertEqual(len(found), len(groups["groups"]))
        self.assertNotIn("", found)
        for name, group in found.items():
            self.assertEqual(set(group), {"name", "versions", "preferredVersion"}, name)
            self.assertIn(group["preferredVersion"], group["versions"])
            for version in group["versions"]:
                self.assertEqual(version["groupVersion"], f"{name}/{version['version']}")
        self.assertEqual(found[GROUP]["versions"], [{"groupVersion": f"{GROUP}/v1", "version": "v1"}])

    def test_AM_107_entries_of_resources(self):
        def entries(path):
            return {entry["name"]: entry for entry in root.must("GET", path)["resources"]}
        version_hash = base64.b64encode(hashlib.sha256(b"ex.io/v1/Widget").digest()[:8]).decode()
        custom, core = entries(f"/apis/{GROUP}/v1"), entries("/api/v1")
        self.assertEqual({**custom["widgets"], "verbs": sorted(custom["widgets"]["verbs"])}, {
            "name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget", "verbs": ORDINARY,
            "shortNames": ["wi"], "categories": ["all"], "storageVersionHash": version_hash})
        for name, kind, more in (("status", "Widget", {}), ("scale", "Scale", {"group": "autoscaling", "version": "v1"})):
            entry = custom["widgets/" + name]
            self.assertEqual({**entry, "verbs": sorted(entry["verbs"])}, {
                "name": "widgets/" + name, "singularName": "", "namespaced": True, "kind": kind,
                "verbs": ["get", "patch", "update"], **more})
        self.assertEqual({name for name in custom if name.startswith("plains")}, {"plains"})
        self.assertEqual({**core["configmaps"], "verbs": sorted(core["configmaps"]["verbs"])}, {
            "name": "configmaps", "singularName": "configmap", "namespaced": True, "kind": "ConfigMap", "verbs": ORDINARY,
            "shortNames": ["cm"], "storageVersionHash": core["configmaps"]["storageVersionHash"]})
        self.assertEqual(core["serviceaccounts/token"], {
            "name": "serviceaccounts/token", "singularName": "", "namespaced": True, "group": "authentication.k8s.io",
            "version": "v1", "kind": "TokenRequest", "verbs": ["create"]})
        self.assertEqual({name for name in core if "group" in core[name] or "version" in core[name]}, {"serviceaccounts/token"})

    def test_AM_111_items_of_the_aggregated_form(self):
        accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        core = root.must("GET", "/api", headers=accept)["items"]
        self.assertEqual(len(core), 1)
        self.assertFalse(core[0]["metadata"].get("name"))
        groups = {item["metadata"]["name"]: item for item in root.must("GET", "/apis", headers=accept)["items"]}
        (version,) = groups[GROUP]["versions"]
        self.assertEqual((version["version"], version["freshness"]), ("v1", "Current"))
        found = {entry["resource"]: entry for entry in version["resources"]}
        self.assertEqual(set(found), {"widgets", "plains"})
        entry = found["widgets"]
        self.assertEqual({**entry, "verbs": sorted(entry["verbs"]), "subresources": None}, {
            "resource": "widgets", "responseKind": {"group": GROUP, "version": "v1", "kind": "Widget"}, "scope": "Namespaced",
            "singularResource": "widget", "verbs": ORDINARY, "shortNames": ["wi"], "categories": ["all"], "subresources": None})
        self.assertEqual({each["subresource"]: (each["responseKind"], sorted(each["verbs"])) for each in entry["subresources"]}, {
            "status": ({"group": GROUP, "version": "v1", "kind": "Widget"}, ["get", "patch", "update"]),
            "scale": ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, ["get", "patch", "update"])})
        self.assertNotIn("subresources", found["plains"])
        spaces = next(each for each in core[0]["versions"][0]["resources"] if each["resource"] == "namespaces")
        self.assertEqual((spaces["scope"], spaces["responseKind"]),
                         ("Cluster", {"group": "", "version": "", "kind": "Namespace"}), "as the reference server fills it in")


CHECKS = {"livez": {"ping", "store-open", "loop-alive"},
          "readyz": {"ping", "store-open", "loop-alive", "store-write", "informers-synced", "crds-loaded", "shutdown"}}


class Health(Case):
    def lines(self, path):
        answer = shard.get(path)
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/plain; charset=utf-8"), answer)
        self.assertTrue(answer.body.endswith(b"\n"))
        return answer.body.decode().splitlines()

    def test_AM_119_verbose_shows_one_line_for_each_check(self):
        for name in ("healthz", "livez", "readyz"):
            with self.subTest(name=name):
                *checks, last = self.lines(f"/{name}?verbose")
                self.assertEqual(last, f"{name} check passed")
                self.assertIn("[+]ping ok", checks)
                for line in checks:
                    self.assertRegex(line, r"^\[\+\][a-z0-9/-]+ ok$")
                self.assertEqual(len(set(checks)), len(checks))

    def test_AM_121_one_check_alone(self):
        for name, checks in CHECKS.items():
            for check in sorted(checks):
                with self.subTest(name=name, check=check):
                    answer = shard.get(f"/{name}/{check}")
                    self.assertEqual((answer.status, answer.body), (200, b"ok"), answer)
            self.not_found_text(shard.get(f"/{name}/none"))

    def test_AM_122_excluded_checks(self):
        for query in ("exclude=ping", "exclude=ping&exclude=store-open", "exclude=nope", "exclude=ping&exclude=nope"):
            with self.subTest(query=query):
                excluded = {name for name in ("ping", "store-open") if name in query}
                plain = shard.get("/readyz?" + query)
                self.assertEqual((plain.status, plain.body), (200, b"ok"))
                *checks, last = self.lines(f"/readyz?verbose&{query}")
                self.assertEqual(last, "readyz check passed")
                self.assertEqual(set(checks), {f"[+]{name} excluded: ok" if name in excluded else f"[+]{name} ok"
                                               for name in CHECKS["readyz"]})

    def test_AM_123_the_checks(self):
        for name, checks in CHECKS.items():
            *lines, _ = self.lines(f"/{name}?verbose")
            self.assertEqual({re.fullmatch(r"\[\+\]([a-z-]+) ok", line).group(1) for line in lines}, checks, name)


class OpenApi(Case):
    DOCUMENT = "/openapi/v3/apis/coordination.k8s.io/v1"

    def hash_of(self, client):
        url = client.must("GET", "/openapi/v3")["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"]
        return url, re.search(r"\?hash=([0-9A-F]+)$", url).group(1)

    def test_AM_127_documents_without_and_with_a_wrong_hash(self):
        url, expected = self.hash_of(root)
        plain = root.get(self.DOCUMENT)
        self.assertEqual((plain.status, plain.headers["Cache-Control"], plain.headers["ETag"]),
                         (200, "no-cache, private", f'"{expected}"'))
        wrong = root.get(self.DOCUMENT + "?hash=WRONG")
        self.assertEqual((wrong.status, wrong.headers["Location"]), (301, url))
        right = installation.client("").get(wrong.headers["Location"])
        self.assertEqual((right.status, right.body), (200, plain.body))

    def test_AM_128_the_hash_is_that_of_the_document_on_every_shard(self):
        _, expected = self.hash_of(root)
        self.assertEqual(hashlib.sha512(root.get(self.DOCUMENT).body).hexdigest().upper(), expected)
        installation.make_workspace("am128", selector={"name": "shard-1"})
        self.assertEqual(self.hash_of(installation.client("/clusters/root:am128"))[1], expected)


class Decoding(Case):
    def test_AM_139_custom_bodies_without_version_or_kind(self):
        body = widget("am139")
        del body["apiVersion"]
        self.status(root.request("POST", WIDGETS, body), 400, "BadRequest",
                    "the API version in the data () does not match the expected API version (ex.io/v1)")
        text = '{"apiVersion":"ex.io/v1","metadata":{"name":"am139"}}'
        self.status(root.request("POST", WIDGETS, text, headers=JSON), 400, "BadRequest",
                    f"the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{text}' "
                    f"({text[:30]} ...)")

    def test_AM_140_a_custom_body_of_another_kind(self):
        self.invalid(root.request("POST", WIDGETS, widget("am140", "Widgets")), 'Widgets.ex.io "am140"', "kind",
                     "FieldValueInvalid", 'Invalid value: "Widgets": must be Widget')

    def test_AM_141_bodies_that_are_no_object(self):
        for text, summary in (("", "<empty>"), ('{"metadata":', '{"metadata":'), ("[]", "5b5d"), ("hello", "68656c6c6f")):
            with self.subTest(text=text):
                self.status(root.request("POST", MAPS, text, headers=JSON), 400, "BadRequest",
                            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
                            f"json parse error: … ({summary})")

    def test_AM_143_the_namespace_of_the_body(self):
        for path, body in ((MAPS, config_map("am143")), (WIDGETS, widget("am143"))):
            body["metadata"]["namespace"] = "other"
            self.status(root.request("POST", path, body), 400, "BadRequest",
                        "the namespace of the provided object does not match the namespace sent on the request")
            del body["metadata"]["namespace"]
            self.assertEqual(root.must("POST", path, body, expect=(201,))["metadata"]["namespace"], "default")
            body["metadata"]["namespace"] = "other"
            self.status(root.request("PUT", path + "/am143", body), 400, "BadRequest",
                        "the namespace of the provided object does not match the namespace sent on the request")
        made = root.must("POST", "/api/v1/namespaces", {"metadata": {"name": "am143", "namespace": "other"}}, expect=(201,))
        self.assertNotIn("namespace", made["metadata"])

    def test_AM_144_the_name_of_a_put(self):
        for path, make in ((MAPS, config_map), (WIDGETS, widget)):
            root.must("POST", path, make("am144"))
            self.status(root.request("PUT", path + "/am144", make("zz")), 400, "BadRequest",
                        "the name of the object (zz) does not match the name on the URL (am144)")
            nameless = make("")
            del nameless["metadata"]["name"]
            self.status(root.request("PUT", path + "/am144", nameless), 400, "BadRequest",
                        "the name of the object (am144 based on URL) was undeterminable: name must be provided")


class Validation(Case):
    def test_AM_147_faults_that_are_ignored(self):
        root.must("POST", MAPS, config_map("am147"))
        text = ('{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"zz","name":"am147","foo":1},"bar":2,'
                '"data":{"k":"1"}}')
        answer = root.request("PUT", f"{MAPS}/am147?fieldValidation=Ignore", text, headers=JSON)
        self.assertEqual((answer.status, answer.headers.get_all("Warning")), (200, None), answer)
        self.assertEqual(answer.json["data"], {"k": "1"})
        self.assertNotIn("bar", answer.json)
        self.assertNotIn("foo", answer.json["metadata"])

    def test_AM_149_strict_custom_bodies(self):
        text = ('{"apiVersion":"ex.io/v1","kind":"Widget","metadata":{"name":"am149","foo":1},'
                '"spec":{"foo":1,"size":1,"size":2,"free":{"any":{"thing":1}}}}')
        self.status(root.request("POST", WIDGETS + "?fieldValidation=Strict", text, headers=JSON), 400, "BadRequest",
                    'Widget in version "v1" cannot be handled as a Widget: strict decoding error: duplicate field "spec.size", '
                    'unknown field "metadata.foo", unknown field "spec.foo"')
        self.assertEqual(root.get(WIDGETS + "/am149").status, 404)
        clean = widget("am149", size=2, free={"any": {"thing": 1}})
        made = root.must("POST", WIDGETS + "?fieldValidation=Strict", clean, expect=(201,))
        self.assertEqual(made["spec"], clean["spec"])

    def each_options(self, query, field, cause, text):
        for method, options in OPTIONS_OF:
            with self.subTest(method=method):
                path = MAPS if method == "POST" else f"{MAPS}/options"
                answer = root.request(method, f"{path}?{query}", json.dumps(config_map("options")),
                                      headers=MERGE if method == "PATCH" else JSON)
                details = self.invalid(answer, f'{options}.meta.k8s.io ""', field, cause, text)["details"]
                self.assertEqual((details["group"], details["kind"]), ("meta.k8s.io", options))

    def test_AM_153_a_dry_run_of_an_unknown_sort(self):
        self.each_options("dryRun=Foo", "dryRun", "FieldValueNotSupported",
                          'Unsupported value: ["Foo"]: supported values: "All"')

    def test_AM_154_names_of_field_managers(self):
        self.each_options("fieldManager=" + "m" * 129, "fieldManager", "FieldValueTooLong",
                          "Too long: may not be more than 128 bytes")
        self.each_options("fieldManager=a%01b", "fieldManager", "FieldValueInvalid",
                          'Invalid value: "a\\x01b": invalid character U+0001 (at position 1)')
        made = root.must("POST", f"{MAPS}?dryRun=All&fieldManager=" + "m" * 128, config_map("am154", k="1"))
        self.assertEqual(made["metadata"]["managedFields"][0]["manager"], "m" * 128)


class Creates(Case):
    def test_AM_157_generated_names(self):
        for base, expected in (("gen-", "gen-" + SUFFIX), ("a" * 70, "a{58}" + SUFFIX)):
            for path, kind in ((MAPS, {"kind": "ConfigMap", "apiVersion": "v1"}),
                               (WIDGETS, {"kind": "Widget", "apiVersion": "ex.io/v1"})):
                made = root.must("POST", path, {**kind, "metadata": {"generateName": base}}, expect=(201,))["metadata"]
                self.assertRegex(made["name"], f"^{expected}$")
                self.assertEqual(made["generateName"], base)
                self.assertEqual(root.get(f"{path}/{made['name']}").status, 200)

    def test_AM_158_a_version_on_an_object_to_be_created(self):
        for path, body in ((MAPS, config_map("am158")), (WIDGETS, widget("am158"))):
            body["metadata"]["resourceVersion"] = "1"
            self.status(root.request("POST", path, body), 500, "",
                        "resourceVersion should not be set on objects to be created")
            self.assertEqual(root.get(path + "/am158").status, 404)


class Updates(Case):
    def test_AM_168_the_last_put_without_a_version_wins(self):
        root.must("POST", MAPS, config_map("am168", k="1"))
        for value in ("2", "3"):
            self.assertEqual(root.must("PUT", f"{MAPS}/am168", config_map("am168", k=value), expect=(200,))["data"], {"k": value})
        self.assertEqual(root.must("GET", f"{MAPS}/am168")["data"], {"k": "3"})

    def test_AM_169_kinds_whose_put_needs_a_version(self):
        name = "am169"
        export = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name}, "spec": {}}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}
        for path, body in ((WIDGETS, widget(name)), (LEASES, lease), (EXPORTS, export)):
            root.must("POST", path, body, expect=(201,))
        for path, body, plural, group in (
                (WIDGETS, widget(name), "widgets", GROUP), (LEASES, lease, "leases", "coordination.k8s.io"),
                (DEFINITIONS, definition("plains"), "customresourcedefinitions", "apiextensions.k8s.io"),
                (EXPORTS, export, "apiexports", "apis.kcp.io")):
            with self.subTest(plural=plural):
                own = body["metadata"]["name"]
                details = self.invalid(root.request("PUT", f"{path}/{own}", body), f'{plural}.{group} "{own}"',
                                       "metadata.resourceVersion", "FieldValueInvalid",
                                       "Invalid value: 0: must be specified for an update")["details"]
                self.assertEqual((details["kind"], details["group"], details["name"]), (plural, group, own))

    def test_AM_170_stale_and_garbage_versions(self):
        for path, make, resource in ((MAPS, config_map, "configmaps"), (WIDGETS, widget, "widgets.ex.io")):
            made = root.must("POST", path, make("am170"))
            root.must("PATCH", path + "/am170", '{"metadata":{"labels":{"a":"b"}}}', headers=MERGE)
            body = make("am170")
            body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
            self.status(root.request("PUT", path + "/am170", body), 409, "Conflict",
                        f'Operation cannot be fulfilled on {resource} "am170": the object has been modified; please apply your '
                        'changes to the latest version and try again')
            body["metadata"]["resourceVersion"] = "abc"
            self.status(root.request("PUT", path + "/am170", body), 500, "",
                        'strconv.ParseUint: parsing "abc": invalid syntax')
            self.assertEqual(root.must("GET", path + "/am170")["metadata"]["labels"], {"a": "b"})

    def test_AM_171_a_put_with_another_uid(self):
        made = root.must("POST", MAPS, config_map("am171", k="1"))
        body = config_map("am171", k="2")
        body["metadata"]["uid"] = "foo"
        self.assertIn(f"Precondition failed: UID in precondition: foo, UID in object meta: {made['metadata']['uid']}",
                      self.status(root.request("PUT", f"{MAPS}/am171", body), 409, "Conflict")["message"])
        self.assertEqual(root.must("GET", f"{MAPS}/am171"), made)

    def test_AM_175_fields_that_a_patch_does_not_set(self):
        for path, make, kind in ((MAPS, config_map, "ConfigMap"), (WIDGETS, widget, "Widget.ex.io")):
            made = root.must("POST", path, make("am175"))
            for change in ({"creationTimestamp": "2001-01-01T00:00:00Z"}, {"generation": 77}, {"selfLink": "/x"}):
                with self.subTest(kind=kind, change=change):
                    root.must("PATCH", path + "/am175", json.dumps({"metadata": change}), headers=MERGE, expect=(200,))
                    stored = root.must("GET", path + "/am175")["metadata"]
                    for field in change:
                        self.assertEqual(stored.get(field), made["metadata"].get(field), field)
            # the running reference server refuses this one
            self.invalid(root.request("PATCH", path + "/am175", '{"metadata":{"deletionGracePeriodSeconds":5}}', headers=MERGE),
                         f'{kind} "am175"', "metadata.deletionGracePeriodSeconds", "FieldValueInvalid",
                         "Invalid value: 5: field is immutable")
            self.assertNotIn("deletionGracePeriodSeconds", root.must("GET", path + "/am175")["metadata"])

    def generations(self, path, name, kind):
        """The generation after each change of a fresh object, in turn."""
        made = root.must("POST", path, {**widget(name, kind, size=1), "status": {"replicas": 1}})
        seen = [made["metadata"]["generation"]]
        for change in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"size": 2}}, {"status": {"replicas": 2}},
                       {"spec": {"size": 2}}, {"metadata": {"finalizers": HELD}}):
            patched = root.must("PATCH", f"{path}/{name}", json.dumps(change), headers=MERGE, expect=(200,))
            seen.append(patched["metadata"]["generation"])
        seen.append(root.must("DELETE", f"{path}/{name}")["metadata"]["generation"])
        root.must("PATCH", f"{path}/{name}", '{"metadata":{"finalizers":null}}', headers=MERGE)
        return seen

    def test_AM_179_generations(self):
        self.assertEqual(self.generations(WIDGETS, "am179", "Widget"), [1, 1, 2, 2, 2, 2, 3], "with status subresource")
        self.assertEqual(self.generations(PLAINS, "am179", "Plain"), [1, 1, 2, 3, 3, 3, 4], "without")
        root.must("POST", WIDGETS, widget("am179", size=1))
        by_status = root.must("PATCH", f"{WIDGETS}/am179/status", '{"status":{"replicas":3}}', headers=MERGE, expect=(200,))
        self.assertEqual((by_status["metadata"]["generation"], by_status["status"]), (1, {"replicas": 3}))

    def test_AM_181_writes_of_scale(self):
        path = WIDGETS + "/w3"
        made = root.must("POST", WIDGETS, widget("w3", size=1, replicas=1))
        scaled = root.must("PATCH", path + "/scale?fieldManager=scaler", '{"spec":{"replicas":4}}', headers=MERGE, expect=(200,))
        self.assertEqual((scaled["kind"], scaled["apiVersion"], scaled["spec"]), ("Scale", "autoscaling/v1", {"replicas": 4}))
        whole = root.must("GET", path)
        self.assertEqual(whole["spec"], {"size": 1, "replicas": 4})
        self.assertIn(("scaler", "scale", {"f:spec": {"f:replicas": {}}}),
                      [(e["manager"], e.get("subresource"), e["fieldsV1"]) for e in whole["metadata"]["managedFields"]])
        put = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w3", "namespace": "default",
                                                                          "labels": {"lost": "yes"}}, "spec": {"replicas": 5}}
        self.assertEqual(root.must("PUT", path + "/scale", put, expect=(200,))["spec"], {"replicas": 5})
        whole = root.must("GET", path)
        self.assertEqual((whole["spec"], whole["metadata"].get("labels")), ({"size": 1, "replicas": 5}, None))
        put["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
        self.status(root.request("PUT", path + "/scale", put), 409, "Conflict",
                    'Operation cannot be fulfilled on widgets.ex.io "w3": the object has been modified; please apply your '
                    'changes to the latest version and try again')
        del put["metadata"]["resourceVersion"]
        put["spec"]["replicas"] = -1
        for method, headers in (("PUT", JSON), ("PATCH", MERGE)):
            self.invalid(root.request(method, path + "/scale", json.dumps(put), headers=headers), 'Widget.ex.io "w3"',
                         ".spec.replicas", "FieldValueInvalid", "Invalid value: -1: should be a non-negative integer")
        self.assertEqual(root.must("GET", path), whole)


class Deletes(Case):
    def test_AM_184_no_new_finalizer_while_deleting(self):
        path = self.held("am184")
        text = ("Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
                '[]string{"d.e/f"}')
        more = root.request("PATCH", path, json.dumps({"metadata": {"finalizers": HELD + ["d.e/f"]}}), headers=MERGE)
        body = self.status(more, 422, "Invalid", f'ConfigMap "am184" is invalid: metadata.finalizers: {text}')
        self.assertTrue(body["details"]["causes"])
        for cause in body["details"]["causes"]:
            self.assertEqual(cause, {"reason": "FieldValueForbidden", "message": text, "field": "metadata.finalizers"})
        self.assertEqual(root.must("GET", path)["metadata"]["finalizers"], HELD)

    def test_AM_185_the_last_finalizer(self):
        path = self.held("am185")
        events = root.watch(f"{MAPS}?watch=1&fieldSelector=metadata.name%3Dam185")
        self.assertEqual(next(events)["type"], "ADDED")
        last = root.must("PATCH", path, '{"metadata":{"finalizers":null}}', headers=MERGE, expect=(200,))
        self.assertIn("deletionTimestamp", last["metadata"])
        self.assertEqual(root.get(path).status, 404)
        event = next(events)
        self.assertEqual((event["type"], event["object"]["metadata"]["uid"]), ("DELETED", last["metadata"]["uid"]))
        events.close()

    def test_AM_188_two_ways_to_say_the_propagation(self):
        root.must("POST", MAPS, config_map("am188"))
        options = {"propagationPolicy": "Foreground", "orphanDependents": True}
        for query, body in (("", options), ("?propagationPolicy=Foreground&orphanDependents=true", None)):
            self.invalid(root.request("DELETE", f"{MAPS}/am188{query}", body), 'DeleteOptions.meta.k8s.io ""',
                         "propagationPolicy", "FieldValueInvalid",
                         'Invalid value: "Foreground": orphanDependents and deletionPropagation cannot be both set')
        self.assertEqual(root.get(f"{MAPS}/am188").status, 200)

    def test_AM_190_a_grace_period_that_is_no_number(self):
        root.must("POST", MAPS, config_map("am190"))
        self.status(root.request("DELETE", f"{MAPS}/am190?gracePeriodSeconds=abc"), 400, "BadRequest",
                    'strconv.ParseInt: parsing "abc": invalid syntax')
        self.assertEqual(root.get(f"{MAPS}/am190").status, 200)

    def test_AM_191_dry_runs_and_absent_objects(self):
        made = root.must("POST", MAPS, config_map("am191"))
        for query, body in (("?dryRun=All", None), ("", {"dryRun": ["All"]})):
            answer = root.must("DELETE", f"{MAPS}/am191{query}", body, expect=(200,))
            self.assertEqual((answer["kind"], answer["status"], answer["details"]),
                             ("Status", "Success", {"name": "am191", "kind": "configmaps", "uid": made["metadata"]["uid"]}))
            self.assertEqual(root.must("GET", f"{MAPS}/am191"), made)
            gone = self.status(root.request("DELETE", f"{MAPS}/absent{query}", body), 404, "NotFound",
                               'configmaps "absent" not found')
            self.assertEqual(gone["details"], {"name": "absent", "kind": "configmaps"})

    def test_AM_193_a_collection_some_of_whose_items_are_held(self):
        for i in range(6):
            made = config_map(f"am193-{i}")
            made["metadata"].update({"labels": {"row": "am193"}, "finalizers": HELD if i % 2 else []})
            root.must("POST", MAPS, made)
        query = MAPS + "?labelSelector=row%3Dam193"
        answer = root.must("DELETE", query, expect=(200,))
        self.assertEqual((answer["kind"], len(answer["items"])), ("ConfigMapList", 6))
        left = {item["metadata"]["name"]: item["metadata"] for item in root.must("GET", query)["items"]}
        self.assertEqual(set(left), {"am193-1", "am193-3", "am193-5"})
        for held in left.values():
            self.assertEqual((held["finalizers"], held["deletionGracePeriodSeconds"]), (HELD, 0))
            self.assertIn("deletionTimestamp", held)


if __name__ == "__main__":
    unittest.main()
