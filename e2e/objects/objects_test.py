"""Rows of the objects, lists, watches and definitions chapters (AM-176 to AM-423) through the proxy and one shard."""
import contextlib
import http.client
import json
import re
import socket
import ssl
import struct
import subprocess
import threading
import unittest

import kit
import steady

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
OTHER_SPACE = "aside"


def config_map(name, labels=None, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


def setUpModule():
    global installation, root
    installation = kit.Installation(shards=1).start_for()
    root = steady.steady(installation.client())
    installation.make_workspace(OTHER_SPACE)


def shard_client(path):
    pki = installation.pki
    return kit.Client(installation.shard_url("root") + path, pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")


def names_of(answer):
    return [item["metadata"]["name"] for item in answer["items"]]


def version_of(thing):
    text = thing["metadata"]["resourceVersion"]
    assert re.fullmatch(r"[1-9][0-9]*", text), text
    return int(text)


def in_threads(count, work):
    """Runs work(i) on `count` threads; returns what they return; the first fault is raised."""
    results, faults = [None] * count, []

    def run(i):
        try:
            results[i] = work(i)
        except BaseException as fault:  # pylint: disable=broad-except
            faults.append(fault)
    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if faults:
        raise faults[0]
    assert not any(thread.is_alive() for thread in threads), "a thread did not end"
    return results


class Writes(unittest.TestCase):
    def test_AM_176_concurrent_patches_all_arrive(self):
        root.must("POST", MAPS, config_map("patched"))

        def patch(i):
            for n in range(10):
                root.must("PATCH", f"{MAPS}/patched", json.dumps({"data": {f"{i}-{n}": "x"}}), headers=MERGE, expect=(200,))
        in_threads(8, patch)
        self.assertEqual(set(root.must("GET", f"{MAPS}/patched")["data"]), {f"{i}-{n}" for i in range(8) for n in range(10)})

    def test_AM_176_a_put_with_a_version_never_loses_a_write(self):
        root.must("POST", MAPS, config_map("counted", n="0"))

        def count(_):
            stored = refused = 0
            while stored < 10:
                seen = root.must("GET", f"{MAPS}/counted")
                seen["data"]["n"] = str(int(seen["data"]["n"]) + 1)
                answer = root.request("PUT", f"{MAPS}/counted", seen)
                assert answer.status in (200, 409), answer
                stored += answer.status == 200
                refused += answer.status == 409
            return refused
        refused = in_threads(6, count)
        self.assertEqual(root.must("GET", f"{MAPS}/counted")["data"]["n"], "60")
        self.assertGreater(sum(refused), 0, "writers met")

    def test_AM_340_a_namespace_is_not_made_again_while_it_terminates(self):
        root.must("POST", "/api/v1/namespaces", {"metadata": {"name": "ending"}})
        held = config_map("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        root.must("POST", "/api/v1/namespaces/ending/configmaps", held)
        root.must("DELETE", "/api/v1/namespaces/ending")
        again = root.request("POST", "/api/v1/namespaces", {"metadata": {"name": "ending"}})
        self.assertEqual((again.status, again.json["reason"], again.json["message"]),
                         (409, "AlreadyExists", 'object is being deleted: namespaces "ending" already exists'))
        root.must("PATCH", "/api/v1/namespaces/ending/configmaps/held", '{"metadata":{"finalizers":null}}', headers=MERGE)
        kit.eventually(lambda: root.get("/api/v1/namespaces/ending").status == 404, what="the namespace goes")
        root.must("POST", "/api/v1/namespaces", {"metadata": {"name": "ending"}}, expect=(201,))


class Lists(unittest.TestCase):
    def test_AM_260_a_selector_holds_across_namespaces_and_clusters(self):
        aside = installation.client(f"/clusters/root:{OTHER_SPACE}")
        for client in (root, aside):
            client.must("POST", "/api/v1/namespaces", {"metadata": {"name": "second"}})
            for namespace in ("default", "second"):
                for name, labels in (("with", {"row": "am260"}), ("without", {"row": "other"})):
                    client.must("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("am260-" + name, labels))
        across = root.must("GET", "/api/v1/configmaps?labelSelector=row%3Dam260")["items"]
        self.assertEqual([(item["metadata"]["namespace"], item["metadata"]["name"]) for item in across],
                         [("default", "am260-with"), ("second", "am260-with")])
        across = root.must("GET", "/api/v1/configmaps?fieldSelector=metadata.name%3Dam260-without")["items"]
        self.assertEqual([item["metadata"]["namespace"] for item in across], ["default", "second"])
        everywhere = shard_client("/clusters/*").must("GET", "/api/v1/configmaps?labelSelector=row%3Dam260")["items"]
        clusters = {item["metadata"]["annotations"]["kcp.io/cluster"] for item in everywhere}
        self.assertEqual((len(everywhere), len(clusters), set(names_of({"items": everywhere}))), (4, 2, {"am260-with"}))
        paged = shard_client("/clusters/*").must("GET", "/api/v1/configmaps?labelSelector=row%3Dam260&limit=3")
        rest = shard_client("/clusters/*").must("GET", "/api/v1/configmaps?labelSelector=row%3Dam260&limit=3&continue="
                                                + paged["metadata"]["continue"])
        self.assertEqual(paged["items"] + rest["items"], everywhere)

    def test_AM_261_AM_262_reads_see_what_was_acknowledged_and_never_go_back(self):
        root.must("POST", MAPS, config_map("read-back", n="0"))
        direct, shown = shard_client("/clusters/root"), 0
        for n in range(1, 40):
            written = version_of(root.must("PATCH", f"{MAPS}/read-back", json.dumps({"data": {"n": str(n)}}), headers=MERGE))
            for reader in (root, direct):
                found = reader.must("GET", f"{MAPS}/read-back")
                self.assertEqual((found["data"]["n"], version_of(found)), (str(n), written))
                listed = reader.must("GET", MAPS + "?fieldSelector=metadata.name%3Dread-back")
                self.assertEqual(listed["items"][0]["data"]["n"], str(n))
                self.assertGreaterEqual(version_of(listed), written)
                shown = max(shown, version_of(listed))
                cached = reader.must("GET", MAPS + "?resourceVersion=0")
                self.assertGreaterEqual(version_of(cached), shown)
                shown = version_of(cached)
                self.assertGreaterEqual(version_of(reader.must("GET", f"{MAPS}/read-back?resourceVersion=0")), written)

    def test_AM_275_one_counter_for_all_kinds_and_clusters(self):
        aside = installation.client(f"/clusters/root:{OTHER_SPACE}")
        last = 0
        for i in range(10):
            for client, path, body in ((root, MAPS, config_map(f"rv-{i}")),
                                       (aside, "/api/v1/namespaces/default/secrets", {"metadata": {"name": f"rv-{i}"}}),
                                       (root, CLUSTER_ROLES, {"metadata": {"name": f"rv-{i}"}}),
                                       (aside, MAPS, config_map(f"rv-{i}"))):
                version = version_of(client.must("POST", path, body))
                self.assertGreater(version, last)
                last = version
                self.assertEqual(version_of(client.must("GET", f"{path}/rv-{i}")), version)
                other = root if client is aside else aside
                listed = other.must("GET", path)
                self.assertGreaterEqual(version_of(listed), last)
                self.assertTrue(all(version_of(item) <= version_of(listed) for item in listed["items"]))

    def test_AM_284_readers_of_pages_hold_no_copy_of_the_collection(self):
        """Scaled down: 40 MB of objects, four readers that have taken a page and stopped in the middle of the next."""
        aside = installation.client(f"/clusters/root:{OTHER_SPACE}")
        aside.must("POST", "/api/v1/namespaces", {"metadata": {"name": "large"}})
        maps, count, size, limit = "/api/v1/namespaces/large/configmaps", 400, 100000, 20
        for i in range(count):
            aside.must("POST", maps, config_map(f"large-{i:03}", {"row": "am284"}, k="x" * size))

        def own_memory():
            with open(f"/proc/{installation.pid('root')}/status", encoding="ascii") as file:
                return int(re.search(r"RssAnon:\s+(\d+) kB", file.read()).group(1)) << 10

        def page():
            return aside.must("GET", f"{maps}?labelSelector=row%3Dam284&limit={limit}", timeout=60)
        first = page()
        before = own_memory()
        pages = in_threads(4, lambda _: page())
        for i in range(count):       # the state that the readers hold is now history only
            aside.must("PATCH", f"{maps}/large-{i:03}", '{"data":{"n":"new"}}', headers=MERGE)
        stopped = []
        for each in pages:
            connection = aside.connect(20)
            self.addCleanup(connection.close)
            rest = f"{maps}?labelSelector=row%3Dam284&limit={count}&continue={each['metadata']['continue']}"
            connection.request("GET", aside.url.path + rest)
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            stopped.append((response, response.read(1000)))
        self.assertLess(own_memory() - before, count * size, "less than one copy for all four")
        for each, (response, begun) in zip(pages, stopped):
            rest = json.loads(begun + response.read())
            self.assertEqual(names_of(each) + names_of(rest), [f"large-{i:03}" for i in range(count)])
            self.assertEqual(rest["metadata"]["resourceVersion"], each["metadata"]["resourceVersion"])
            self.assertFalse([item for item in rest["items"] if "n" in item["data"]], "as of the first page")
        self.assertEqual(names_of(first), names_of(pages[0]))
        aside.must("DELETE", "/api/v1/namespaces/large")

    def test_AM_282_an_empty_list_has_items_and_a_version(self):
        for path in ("/api/v1/namespaces/default/configmaps?labelSelector=row%3Dnone&limit=500",
                     "/apis/coordination.k8s.io/v1/namespaces/none/leases?limit=500"):
            listed = root.must("GET", path)
            self.assertIs(type(listed["items"]), list)
            self.assertEqual(listed["items"], [])
            self.assertGreater(version_of(listed), 0)
            self.assertFalse(listed["metadata"].get("continue"))


class Watches(unittest.TestCase):
    def test_AM_304_the_old_watch_paths_give_the_same_stream(self):
        version = root.must("GET", MAPS)["metadata"]["resourceVersion"]
        for name in ("old-a", "old-b"):
            root.must("POST", MAPS, config_map(name))
        root.must("PATCH", f"{MAPS}/old-b", '{"data":{"k":"v"}}', headers=MERGE)
        root.must("DELETE", f"{MAPS}/old-a")

        def events(path, more=""):
            return list(root.watch(f"{path}{'&' if '?' in path else '?'}resourceVersion={version}&timeoutSeconds=1{more}"))
        expected = events(MAPS + "?watch=1")
        self.assertEqual([(e["type"], e["object"]["metadata"]["name"]) for e in expected],
                         [("ADDED", "old-a"), ("ADDED", "old-b"), ("MODIFIED", "old-b"), ("DELETED", "old-a")])
        old = "/api/v1/watch"
        got = in_threads(3, lambda i: events(old + ("/configmaps", "/namespaces/default/configmaps",
                                                    "/namespaces/default/configmaps/old-b")[i]))
        self.assertEqual(got[0], expected)
        self.assertEqual(got[1], expected)
        self.assertEqual(got[2], [event for event in expected if event["object"]["metadata"]["name"] == "old-b"])

    def test_AM_306_a_name_that_is_made_again_is_never_modified(self):
        version = root.must("GET", MAPS)["metadata"]["resourceVersion"]
        events = root.watch(f"{MAPS}?watch=1&resourceVersion={version}&fieldSelector=metadata.name%3Dphoenix")
        uids = []
        for i in range(30):
            if i:
                root.must("DELETE", f"{MAPS}/phoenix")
            uids.append(root.must("POST", MAPS, config_map("phoenix", n=str(i)))["metadata"]["uid"])
        self.assertEqual(len(set(uids)), 30)
        seen = [next(events) for _ in range(59)]
        self.assertEqual([e["type"] for e in seen], ["ADDED"] + ["DELETED", "ADDED"] * 29)
        self.assertEqual([e["object"]["metadata"]["uid"] for e in seen if e["type"] == "ADDED"], uids)
        self.assertEqual([e["object"]["metadata"]["uid"] for e in seen if e["type"] == "DELETED"], uids[:-1])
        versions = [version_of(e["object"]) for e in seen]
        self.assertEqual(versions, sorted(set(versions)))

    def test_AM_308_a_watch_goes_on_where_a_killed_shard_broke_it(self):
        version = root.must("GET", MAPS)["metadata"]["resourceVersion"]
        acknowledged, stop = [], threading.Event()

        def write():
            for n in range(100000):
                if stop.is_set():
                    return
                with contextlib.suppress(OSError, http.client.HTTPException):
                    answer = root.request("POST", MAPS, config_map(f"resume-{n}", {"row": "am308"}))
                    if answer.status == 201:
                        acknowledged.append(answer.json["metadata"]["name"])
        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        events, last, killed = [], version, False
        try:
            def follow():
                nonlocal last, killed
                for event in root.watch(f"{MAPS}?watch=1&labelSelector=row%3Dam308&resourceVersion={last}"):
                    self.assertNotEqual(event["type"], "ERROR", event)
                    events.append(event)
                    last = event["object"]["metadata"]["resourceVersion"]
                    if len(events) == 60 and not killed:
                        killed = True
                        installation.kill("root")
                    if len(events) >= 200:
                        stop.set()
                        writer.join(60)
                    if stop.is_set() and set(acknowledged) <= {each["object"]["metadata"]["name"] for each in events}:
                        return True
                return False
            faults = []

            def followed():
                try:
                    return follow()
                except AssertionError as fault:
                    faults.append(fault)    # 5xx while the shard is away is fine, a refused version is not
                    assert "Expired" not in str(fault) and "too old" not in str(fault), fault
                    raise
            kit.eventually(followed, 25, "the watch is resumed and complete")
            self.assertFalse([f for f in faults if "Expired" in str(f) or "too old" in str(f)])
        finally:
            stop.set()
            writer.join(60)
        names = [event["object"]["metadata"]["name"] for event in events]
        self.assertTrue(killed)
        self.assertEqual({event["type"] for event in events}, {"ADDED"})
        self.assertEqual(len(names), len(set(names)), "nothing twice")
        self.assertLessEqual(set(acknowledged), set(names), "nothing lost")
        versions = [version_of(event["object"]) for event in events]
        self.assertEqual(versions, sorted(versions))

    def test_AM_314_a_watch_by_http1_is_chunked_and_has_the_bytes_of_http2(self):
        version = root.must("GET", MAPS)["metadata"]["resourceVersion"]
        for i in range(20):
            root.must("POST", MAPS, config_map(f"bytes-{i}", k="é\"\\\n" * i))
        path = f"/clusters/root{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}"
        pki = installation.pki

        def fetch(i):
            command = ["curl", "-sS", "-i", "--raw", ("--http1.1", "--http2")[i], "--cacert", pki / "serving-ca.crt", "--cert",
                       pki / "admin.crt", "--key", pki / "admin.key", f"https://127.0.0.1:{installation.port}{path}"]
            return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
        (head1, raw), (_, plain) = (text.split(b"\r\n\r\n", 1) for text in in_threads(2, fetch))
        self.assertIn(b"transfer-encoding: chunked", head1.lower())
        body = b""
        while True:
            size, raw = raw.split(b"\r\n", 1)
            length = int(size.split(b";")[0], 16)
            body, end, raw = body + raw[:length], raw[length:length + 2], raw[length + 2:]
            self.assertEqual(end, b"\r\n")
            if length == 0:
                break
        self.assertEqual(body, plain)
        self.assertEqual(len(plain.splitlines()), 20)


class Http2:
    """A hand-made HTTP/2 client: nothing is acknowledged but what a test asks for."""

    def __init__(self, window):
        context = ssl.create_default_context(cafile=str(installation.pki / "serving-ca.crt"))
        context.load_cert_chain(str(installation.pki / "admin.crt"), str(installation.pki / "admin.key"))
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", installation.port), timeout=60)
        self.tls = context.wrap_socket(plain, server_hostname="127.0.0.1")
        self.data, self.ended, self.reset, self.buffer = {}, set(), set(), b""
        self.tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.send(4, 0, 0, struct.pack(">HI", 4, window))

    def send(self, kind, flags, stream, payload):
        self.tls.sendall(struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload)

    def get(self, stream, path):
        def text(value):
            length = len(value)
            return (bytes([length]) if length < 127 else bytes([127, length - 127])) + value.encode()
        self.data[stream] = b""
        self.send(1, 5, stream, b"\x82\x87" + b"\x04" + text(path) + b"\x01" + text("127.0.0.1"))

    def credit(self, stream, more):
        self.send(8, 0, stream, struct.pack(">I", more))

    def until(self, check):
        """Takes frames until check() holds."""
        while not check():
            while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
                chunk = self.tls.recv(65536)
                assert chunk, "the connection ended"
                self.buffer += chunk
            length, kind, flags = int.from_bytes(self.buffer[:3], "big"), self.buffer[3], self.buffer[4]
            stream, payload = int.from_bytes(self.buffer[5:9], "big"), self.buffer[9:9 + length]
            self.buffer = self.buffer[9 + length:]
            assert kind != 7, "GOAWAY"
            if kind == 0:
                self.data[stream] += payload
            if kind == 3:
                self.reset.add(stream)
            if kind in (0, 1) and flags & 1:
                self.ended.add(stream)
            if kind == 4 and not flags & 1:
                self.send(4, 1, 0, b"")


class FlowControl(unittest.TestCase):
    def test_AM_315_a_watch_without_credit_holds_up_only_itself(self):
        for i in range(10):
            root.must("POST", MAPS, config_map(f"window-{i}", {"row": "am315"}, k="x" * 1000))
        query = "?watch=1&labelSelector=row%3Dam315"
        client = Http2(window=100)
        self.addCleanup(client.tls.close)
        client.credit(0, 1 << 24)                  # the connection as such has enough
        client.get(1, f"/clusters/root{MAPS}{query}")
        client.until(lambda: len(client.data[1]) == 100)
        other = root.watch(MAPS + query)
        for _ in range(10):
            next(other)
        for i in range(20):                        # neighbours on the connection, and writers, are not held up
            stream = 3 + 2 * i
            client.get(stream, f"/clusters/root{MAPS}/window-{i % 10}")
            client.credit(stream, 100000)
            client.until(lambda: stream in client.ended)       # pylint: disable=cell-var-from-loop
            self.assertEqual(json.loads(client.data[stream])["metadata"]["name"], f"window-{i % 10}")
            root.must("PATCH", f"{MAPS}/window-{i % 10}", json.dumps({"data": {"n": str(i)}}), headers=MERGE)
            self.assertEqual(next(other)["object"]["data"]["n"], str(i))
        self.assertEqual(len(client.data[1]), 100, "not a byte over the window")
        client.credit(1, 1 << 20)
        client.until(lambda: client.data[1].count(b"\n") == 30)
        events = [json.loads(line) for line in client.data[1].splitlines()]
        self.assertEqual([e["type"] for e in events], ["ADDED"] * 10 + ["MODIFIED"] * 20)
        self.assertEqual([e["object"]["data"]["n"] for e in events[10:]], [str(i) for i in range(20)])
        self.assertEqual(client.reset, set())


def definition(plural, group, spec=None):
    kind = plural.capitalize()
    schema = {"type": "object", "properties": {"spec": spec or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced",
                     "names": {"plural": plural, "kind": kind, "singular": plural[:-1], "listKind": kind + "List"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}


def is_established(thing):
    conditions = thing.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def establish(body):
    """Makes a definition and watches it until it is established."""
    made = root.must("POST", DEFINITIONS, body, expect=(201,))
    name = body["metadata"]["name"]
    if not is_established(made):
        for event in root.watch(f"{DEFINITIONS}?watch=1&fieldSelector=metadata.name%3D{name}"):
            if is_established(event["object"]):
                return event["object"]
    return made


class Definitions(unittest.TestCase):
    def test_AM_381_what_is_established_is_served_everywhere(self):
        for i in range(12):
            group = f"g{i}.am381.example.com"
            things = f"/apis/{group}/v1/namespaces/default/gears"
            establish(definition("gears", group))
            gear = {"apiVersion": f"{group}/v1", "kind": "Gears", "metadata": {"name": "a"}}
            answers = in_threads(5, lambda n: (  # pylint: disable=cell-var-from-loop
                lambda: root.request("POST", things, gear).status,
                lambda: root.get(things).status,
                lambda: [r["name"] for r in root.must("GET", f"/apis/{group}/v1")["resources"]],
                lambda: group in [g["name"] for g in root.must("GET", "/apis")["groups"]],
                lambda: f"apis/{group}/v1" in root.must("GET", "/openapi/v3")["paths"])[n]())
            self.assertEqual(answers, [201, 200, ["gears"], True, True], group)
            self.assertEqual(next(root.watch(things + "?watch=1"))["type"], "ADDED")
            self.assertIn("/apis/" + group, root.get(f"/openapi/v3/apis/{group}/v1").body.decode())

    def test_AM_381_kubectl_waits_and_applies(self):
        body = definition("levers", "am381.example.com")
        path = installation.dir / "lever.json"
        path.write_text(json.dumps(body))
        installation.kubectl("apply", "-f", str(path))
        installation.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/levers.am381.example.com")
        out = installation.kubectl("apply", "-f", "-", input_text=json.dumps(
            {"apiVersion": "am381.example.com/v1", "kind": "Levers", "metadata": {"name": "a", "namespace": "default"}}))
        self.assertIn("created", out)

    def test_AM_384_a_schema_without_structure_is_refused_and_no_condition_says_so(self):
        loose = definition("loose", "am384.example.com")
        loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"properties": {"a": {}}}
        refused = root.request("POST", DEFINITIONS, loose)
        self.assertEqual((refused.status, refused.json["reason"]), (422, "Invalid"), refused)
        self.assertIn("openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields",
                      refused.json["message"])
        self.assertEqual(root.get(f"{DEFINITIONS}/loose.am384.example.com").status, 404)
        made = establish(definition("strict", "am384.example.com"))
        self.assertEqual({c["type"] for c in made["status"]["conditions"]}, {"NamesAccepted", "Established"})

    def test_AM_388_the_status_of_a_definition_is_a_subresource(self):
        made = establish(definition("states", "am388.example.com"))
        path = f"{DEFINITIONS}/states.am388.example.com"
        seen = root.must("GET", path + "/status")
        seen["status"]["conditions"].append({"type": "Mine", "status": "True", "reason": "Test", "message": "here",
                                             "lastTransitionTime": "2024-01-02T03:04:05Z"})
        seen["metadata"]["labels"] = {"taken": "yes"}  # by a kube-apiserver, too, although it means not to
        seen["spec"]["names"]["shortNames"] = ["lost"]
        stored = root.must("PUT", path + "/status", seen, expect=(200,))
        self.assertEqual((stored["spec"], stored["metadata"].get("labels")), (made["spec"], {"taken": "yes"}))
        self.assertEqual(stored["metadata"]["generation"], made["metadata"]["generation"])
        self.assertEqual([c["type"] for c in stored["status"]["conditions"]][-1], "Mine")
        main = root.must("GET", path)
        main["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
        kept = root.must("PUT", path, main, expect=(200,))
        self.assertEqual({c["type"] for c in kept["status"]["conditions"]}, {"NamesAccepted", "Established", "Mine"})
        # conditions are a list-map by type: an applied one joins the others and has its own owner
        applied = root.must("PATCH", path + "/status?fieldManager=am388&force=true", json.dumps({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": made["metadata"]["name"]}, "status": {"conditions": [
                {"type": "Applied", "status": "True", "reason": "Test", "message": "m",
                 "lastTransitionTime": "2024-01-02T03:04:05Z"}]}}), headers=APPLY, expect=(200,))
        self.assertEqual({c["type"] for c in applied["status"]["conditions"]},
                         {"NamesAccepted", "Established", "Mine", "Applied"})
        entry = next(e for e in applied["metadata"]["managedFields"] if e["manager"] == "am388")
        self.assertEqual(entry["subresource"], "status")
        self.assertIn('k:{"type":"Applied"}', entry["fieldsV1"]["f:status"]["f:conditions"])

    def test_AM_389_one_more_definition_changes_the_documents_of_its_group_only(self):
        for i in range(20):
            establish(definition("cogs", f"g{i}.am389.example.com"))
        def tags(paths):
            answers = {name: outside.get(where["serverRelativeURL"]) for name, where in paths.items()
                       if re.fullmatch(r"apis/g\d+\.am389\.example\.com/v1", name)}
            self.assertEqual({(answer.status, bool(answer.headers["ETag"])) for answer in answers.values()}, {(200, True)})
            return {name: answer.headers["ETag"] for name, answer in answers.items()}
        outside = installation.client("")
        before = root.must("GET", "/openapi/v3")["paths"]
        tags_before = tags(before)
        self.assertEqual(len(tags_before), 20)
        establish(definition("wheels", "g7.am389.example.com"))
        after = root.must("GET", "/openapi/v3")["paths"]
        grown = "apis/g7.am389.example.com/v1"
        self.assertEqual({name for name in after if after[name] != before.get(name)}, {grown})
        tags_after = tags(after)
        self.assertEqual({name for name, tag in tags_after.items() if tag != tags_before[name]}, {grown})
        self.assertEqual([r["name"] for r in root.must("GET", "/apis/g7.am389.example.com/v1")["resources"]], ["cogs", "wheels"])

    def test_AM_422_rules_run_only_where_the_schema_holds(self):
        spec = {"type": "object", "properties": {
            "size": {"type": "integer", "maximum": 10, "x-kubernetes-validations": [{"rule": "self < 5", "message": "too big"}]},
            "color": {"type": "string", "enum": ["red", "blue"]}},
            "x-kubernetes-validations": [{"rule": "self.size != 3 || self.color == 'red'", "message": "3 is red"}]}
        establish(definition("rules", "am422.example.com", spec))

        def faults(**values):
            answer = root.request("POST", "/apis/am422.example.com/v1/namespaces/default/rules?dryRun=All", {
                "apiVersion": "am422.example.com/v1", "kind": "Rules", "metadata": {"name": "a"}, "spec": values})
            causes = answer.json["details"]["causes"] if answer.status == 422 else []
            return [(c["field"], c["message"]) for c in causes] or answer.status
        self.assertEqual(faults(size=3, color="red"), 201)
        self.assertEqual(faults(size=3, color="blue"), [("spec", "Invalid value: 3 is red")])
        self.assertEqual(faults(size=7, color="blue"), [("spec.size", "Invalid value: 7: too big")])
        got = faults(size="seven", color="blue")
        self.assertEqual([field for field, _ in got], ["spec.size", "<nil>"])
        self.assertIn("must be of type integer", got[0][1])
        self.assertEqual(got[1][1], "Invalid value: null: some validation rules were not checked because the object was invalid; "
                                    "correct the existing errors to complete validation")

    def test_SE_102_rules_that_take_long_hold_nobody_up_and_say_the_same(self):
        """By a thread of their own, of which one logical cluster has one: what they say, warnings and transitions included, stays."""
        spec = {"type": "object", "properties": {"list": {"type": "array", "maxItems": 1000, "items": {"type": "integer"}, "x-kubernetes-validations": [
            {"rule": "self.all(x, self.exists(y, y == x))", "message": "cannot be"}, {"rule": "self.all(x, x < 2000)", "message": "too big"},
            {"rule": "oldSelf.size() <= self.size()", "message": "does not shrink"}]}}}
        establish(definition("longs", "se102.example.com", spec))
        path = "/apis/se102.example.com/v1/namespaces/default/longs"

        def write(method, name, last, size=500):
            items = [*range(size - 1), last]
            return root.request(method, path + ("" if method == "POST" else f"/{name}"), json.dumps({
                "apiVersion": "se102.example.com/v1", "kind": "Longs", "metadata": {"name": name}, "spec": {"list": items}}), headers={
                    "Content-Type": "application/json" if method == "POST" else "application/merge-patch+json"})
        threads = [threading.Thread(target=write, args=("POST", f"p{i}", 1)) for i in range(4)]
        for thread in threads:
            thread.start()
        self.assertEqual(root.get("/api/v1/namespaces/default").status, 200)
        made = write("POST", "a", 1)
        self.assertEqual(made.status, 201, made)
        refused = write("POST", "b", 5000)
        self.assertEqual((refused.status, [c["field"] for c in refused.json["details"]["causes"]]), (422, ["spec.list"]), refused)
        self.assertIn("too big", refused.json["message"])
        self.assertEqual(root.get(path + "/b").status, 404)
        shrunk = write("PATCH", "a", 1, 499)
        self.assertEqual(shrunk.status, 422)
        self.assertIn("does not shrink", shrunk.json["message"])
        self.assertEqual(write("PATCH", "a", 2).status, 200)
        for thread in threads:
            thread.join()
        self.assertEqual(len(root.must("GET", path)["items"]), 5)

    def test_AM_423_the_rules_of_the_kcp_kinds_run(self):
        def message(method, path, body, headers=None):
            answer = root.request(method, path, json.dumps(body), headers=headers or {"Content-Type": "application/json"})
            self.assertEqual(answer.status, 422, answer)
            return answer.json["message"]
        space = f"{WORKSPACES}/{OTHER_SPACE}"
        self.assertIn("spec.cluster: Invalid value", message("PATCH", space, {"spec": {"cluster": "other"}}, MERGE))
        self.assertIn("cluster is immutable", message("PATCH", space, {"spec": {"cluster": "other"}}, MERGE))
        self.assertIn("cluster cannot be unset", message("PATCH", space, {"spec": {"cluster": None}}, MERGE))
        self.assertIn("URL cannot be unset", message("PATCH", space, {"spec": {"URL": None}}, MERGE))
        self.assertIn("name is immutable", message("PATCH", space, {"spec": {"type": {"name": "other"}}}, MERGE))
        root.must("PATCH", space, '{"metadata":{"labels":{"row":"am423"}}}', headers=MERGE, expect=(200,))
        sets = "/apis/topology.kcp.io/v1alpha1/partitionsets"

        def chosen(selector):
            return {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "am423"},
                    "spec": {"shardSelector": selector}}
        self.assertIn("There should be at least one value for In and NotIn operators",
                      message("POST", sets, chosen({"matchExpressions": [{"key": "a", "operator": "In", "values": []}]})))
        self.assertIn("Label key prefixes are optional",
                      message("POST", sets, chosen({"matchExpressions": [{"key": "-a", "operator": "Exists"}]})))
        self.assertIn("Label values are limited", message("POST", sets, chosen({"matchLabels": {"a": "-b"}})))
        root.must("POST", sets, chosen({"matchExpressions": [{"key": "example.com/a", "operator": "In", "values": ["b"]}]}),
                  expect=(201,))
        exports, slices = "/apis/apis.kcp.io/v1alpha2/apiexports", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
        root.must("POST", exports, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "am423"},
                                    "spec": {}})
        root.must("POST", slices, {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
                                   "metadata": {"name": "am423-slice"}, "spec": {"export": {"name": "am423"}}}, expect=(201,))
        self.assertIn("APIExport reference must not be changed",
                      message("PATCH", f"{slices}/am423-slice", {"spec": {"export": {"name": "other"}}}, MERGE))


if __name__ == "__main__":
    unittest.main()
