"""Bounds of what a client brings along, of descriptors, and of work: seats and neighbours stay as they are whatever others reset
(SE-087, SE-089, SE-092, SE-T037, SE-T043, SE-T044)."""
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import ssl
import subprocess
import threading
import unittest

import kit
import raw_h2

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
JSON = [("content-type", "application/json")]
CANCEL = (8).to_bytes(4, "big")
SEATS = 4


def make(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}


def setUpModule():
    global installation
    installation = kit.Installation("--seats", str(SEATS), "--limits", "watches_per_user=40,merged_per_user=3", "--quotas", "namespaces=9",
                                    "--memory-budget", "3000", shards=1).start_for()
    installation.make_workspace("bounds")
    admin = installation.client("/clusters/root:bounds")
    for user in ("mallory", "bob", "crowd"):
        admin.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": user}, "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": "rbac.authorization.k8s.io"}})
        client = user_client(user)
        kit.eventually(lambda c=client: c.get(MAPS).status == 200, 20, f"{user} is let in")


def user_client(user, groups=()):
    return installation.user_client(user, groups, path="/clusters/root:bounds")


def at_shard(user, path=None, groups=()):
    cluster = installation.client("/clusters/root:bounds").must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
    path = "/clusters/" + cluster["metadata"]["annotations"]["kcp.io/cluster"] if path is None else path
    return kit.Client(installation.shard_url("root") + path, installation.pki / "serving-ca.crt", *kit.make_user(installation.dir, installation.pki, user, groups))


def shard_admin(path):
    """Everywhere at the shard, as the installation's administrator."""
    return kit.Client(installation.shard_url("root") + path, installation.pki / "serving-ca.crt", installation.pki / "admin.crt", installation.pki / "admin.key")


def fairness():
    return shard_admin("/clusters/*").must("GET", "/debug/fairness")


class Brought(unittest.TestCase):
    def test_SE_087_a_selector_of_too_many_terms(self):
        def terms(number):
            return MAPS + "?labelSelector=" + "%2C".join(f"a{i % 9}" for i in range(number))

        everywhere = installation.client("/clusters/*")
        for where, client in (("proxy", user_client("bob")), ("shard", at_shard("bob")), ("merged", everywhere)):
            with self.subTest(where=where):
                self.assertEqual(client.get(terms(1_000).replace("/namespaces/default", "")).status, 200)
                for watch in ("", "&watch=1"):
                    answer = client.get(terms(1_001).replace("/namespaces/default", "") + watch)
                    self.assertEqual(answer.status, 400, answer)
                    self.assertIn("more than 1000 terms", answer.json["message"])

    def test_SE_087_a_certificate_of_too_many_groups(self):
        for number, known in ((200, True), (1_000, True), (1_001, False)):
            groups = [f"g{i}" for i in range(number)]
            for where, client in (("proxy", user_client(f"crowd-{number}", groups)), ("shard", at_shard(f"crowd-{number}", groups=groups))):
                with self.subTest(where=where, number=number):
                    status = client.get(MAPS).status
                    self.assertEqual(status, 403 if known else 401)

    def test_SE_087_a_token_that_is_too_long(self):
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t" * (32 * 1024 + 1)}}
        for where, client in (("proxy", user_client("bob")), ("shard", at_shard("bob"))):
            with self.subTest(where=where):
                answer = client.must("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
                self.assertFalse(answer["status"].get("authenticated", False))
                bare = kit.Client(client.url.geturl(), installation.pki / "serving-ca.crt")
                # A field of a head has 32 KiB (SE-084): what is longer is never looked at as a token.
                self.assertEqual(bare.get(MAPS, headers={"Authorization": "Bearer " + "t" * 32_000}).status, 401)
                self.assertIn(bare.get(MAPS, headers={"Authorization": "Bearer " + "t" * 40_000}).status, (401, 431))


class Expressions(unittest.TestCase):
    def test_SE_002_expressions_that_break_off_are_refused_and_nothing_ends(self):
        bob, before = user_client("bob"), installation.pid("root")
        for rule in ("!-", "!-a", "self.size >= -", "[!-", "self.all(x, !-", "-", "(", "self.", "has(self.", "'", "{", "a?b:", "self[", "!\u00b4"):
            schema = {"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {"size": {"type": "integer"}}}
            answer = bob.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.broken.example"},
                "spec": {"group": "broken.example", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
                         "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}})
            self.assertEqual(answer.status, 422, (rule, answer))
            policy = bob.request("POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", {
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "broken"},
                "spec": {"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
                                                                 "resources": ["configmaps"]}]}, "validations": [{"expression": rule}]}})
            self.assertEqual(policy.status, 422, (rule, policy))
        self.assertEqual(installation.pid("root"), before)


class Schemas(unittest.TestCase):
    def test_SE_002_schemas_with_parts_of_another_type_are_refused_and_nothing_ends(self):
        bob, before = user_client("bob"), installation.pid("root")
        names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
        for key in ("allOf", "anyOf", "oneOf", "items", "properties", "not", "enum", "required", "x-kubernetes-validations", "x-kubernetes-list-map-keys"):
            for value in ({"type": "string"}, [], [[]], [{"a": [1]}], "x", 1, None, True):
                part = {"type": "object", key: value}
                for schema in (part, {"type": "object", "properties": {"spec": part}}):
                    spec = {"group": "shapes.example", "scope": "Namespaced", "names": names}
                    for path, kind, name, stored in (
                            ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "CustomResourceDefinition", "things.shapes.example",
                             {"schema": {"openAPIV3Schema": schema}}),
                            ("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", "APIResourceSchema", "v1.things.shapes.example", {"schema": schema})):
                        group = path.split("/apis/")[1].rsplit("/", 1)[0]
                        answer = bob.request("POST", path + "?dryRun=All", {
                            "apiVersion": group, "kind": kind, "metadata": {"name": name},
                            "spec": spec | {"versions": [{"name": "v1", "served": True, "storage": True} | stored]}})
                        self.assertIn(answer.status, (201, 400, 403, 422), (kind, schema, answer))
        self.assertEqual(installation.pid("root"), before)


class Installed(unittest.TestCase):
    def test_SE_089_limits_of_up_are_those_of_its_processes(self):
        self.assertEqual(fairness()["seats"], SEATS)
        text = (installation.state / "proxy" / "proxy.yaml").read_text()
        for line in ("watches_per_user: 40", "merged_per_user: 3", f"budget: {1500 << 20}"):
            self.assertIn(line, text)
        metrics = shard_admin("/clusters/*").get("/metrics").body.decode()
        self.assertIn(f"kintsugi_memory_budget_bytes {1500 << 20}", metrics)
        for family in ("kintsugi_memory_used_bytes ", 'kintsugi_memory_bytes{account="bodies"} ', "kintsugi_shed_step 0",
                       'kintsugi_shed_total{step="watches"} 0'):
            self.assertIn(family, metrics)
        with contextlib.ExitStack() as stack:
            for where, client in (("proxy", user_client("crowd")), ("shard", at_shard("crowd"))):
                with self.subTest(where=where):
                    connection = stack.enter_context(raw_h2.Connection(client))
                    streams = [connection.open("GET", f"/api/v1/namespaces/n{number}/configmaps?watch=1") for number in range(41)]
                    connection.until(lambda all=streams: all[-1].status and len([s for s in all if s.status]) == 41)
                    self.assertEqual(sorted(s.status for s in streams), [200] * 40 + [429])
                    connection.close()

    def test_SE_092_the_soft_limit_of_descriptors_is_none(self):
        for process in ("proxy", "root"):
            limits = pathlib.Path(f"/proc/{installation.pid(process)}/limits").read_text()
            soft, hard = re.search(r"Max open files +(\S+) +(\S+)", limits).groups()
            self.assertEqual(soft, hard, process)


class Tunnels(unittest.TestCase):
    def test_SE_088_one_that_carries_nothing_ends(self):
        """A watch over a WebSocket is a tunnel to the proxy."""
        with kit.Proxy(installation, {"limits": {"tunnel_idle_ms": 2_000}}, loops=1) as proxy:
            client = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root:bounds", installation.pki / "serving-ca.crt",
                                *kit.make_user(installation.dir, installation.pki, "bob", ()))
            silent, busy = (self.tunnel(client, name) for name in ("never-made", "again-and-again"))
            ended = threading.Event()
            reader = threading.Thread(target=lambda: (silent.fp.read(), ended.set()), daemon=True)  # until the end of the stream
            reader.start()
            body = make("again-and-again")
            self.assertEqual(client.request("POST", MAPS, body).status, 201)
            number, end = 0, kit.Clock()
            while not ended.is_set():
                number += 1
                body["data"] = {"number": str(number)}
                self.assertEqual(client.request("PUT", MAPS + "/again-and-again", body).status, 200)
                ended.wait(0.2)
                self.assertLess(end.spent(), 60, "the one that carries nothing goes on")
            body["data"] = {"number": "last"}
            client.must("PUT", MAPS + "/again-and-again", body)
            seen = b""
            while b'"last"' not in seen:
                more = busy.fp.read1(65_536)
                self.assertTrue(more, "the one that carries something has ended, too")
                seen += more

    def tunnel(self, client, name):
        """The answer to a WebSocket watch of that object."""
        connection = client.connect(60)
        self.addCleanup(connection.close)
        connection.request("GET", f"{client.url.path}{MAPS}?watch=1&fieldSelector=metadata.name%3D{name}", headers={
            "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="})
        answer = connection.response_class(connection.sock, method="GET")
        answer.begin()
        self.assertEqual(answer.status, 101)
        self.addCleanup(answer.close)
        return answer


class Descriptors(unittest.TestCase):
    """SE-T037; that a full store takes deletes: store/lmdb/lmdb_store_test.cc."""

    def test_SE_T037_a_thousand_connections_and_256_descriptors(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        admin = installation.client("/clusters/root:bounds")
        admin.must("POST", MAPS, make("doomed"))
        with kit.Proxy(installation, under=("prlimit", "--nofile=256:256")) as proxy, contextlib.ExitStack() as stack:
            before = stack.enter_context(raw_h2.Connection(proxy.client("/clusters/root:bounds")))
            self.assertEqual(before.ask("GET", MAPS).status, 200)
            context = ssl.create_default_context(cafile=str(installation.pki / "serving-ca.crt"))
            held = 0
            for _ in range(1_000):
                with contextlib.suppress(OSError):
                    raw = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), timeout=10))
                    stack.enter_context(context.wrap_socket(raw, server_hostname="127.0.0.1"))
                    held += 1
            self.assertLess(held, 256, "some were turned away")
            self.assertLessEqual(len(os.listdir(f"/proc/{proxy.process.pid}/fd")), 256)
            self.assertEqual(before.ask("GET", "/livez").status, 200)
            reloads = proxy.metric('kintsugi_reloads_total{file="config",result="ok"}')
            answer = subprocess.run(["curl", "-sS", "--unix-socket", str(proxy.dir / "admin.sock"), "http://admin/metrics"],
                                    capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertIn("kintsugi_", answer, "whoever runs it is answered")
            proxy.process.send_signal(signal.SIGHUP)
            kit.eventually(lambda: "reload" in proxy.text().lower() or reloads, 20, "a reload")
            deleted = before.ask("DELETE", MAPS + "/doomed")
            self.assertEqual(deleted.status, 200)
            self.assertIsNone(proxy.process.poll())
        self.assertEqual(admin.get(MAPS + "/doomed").status, 404)


def body_of(name):
    return json.dumps(make(name)).encode()


def whole_then_reset(connection, name):
    stream = connection.open("POST", MAPS, JSON, end=False)
    connection.data(stream, body_of(name), end=True)
    connection.send(raw_h2.frame(raw_h2.RST, 0, stream.number, CANCEL))


def half_then_reset(connection, name):
    stream = connection.open("POST", MAPS, JSON, end=False)
    connection.data(stream, body_of(name)[:9])
    connection.send(raw_h2.frame(raw_h2.RST, 0, stream.number, CANCEL))


def data_after_the_end(connection, name):
    stream = connection.open("POST", MAPS, JSON, end=False)
    connection.data(stream, body_of(name), end=True)
    connection.data(stream, b"more", end=True)


def window_that_overflows(connection, name):
    stream = connection.open("POST", MAPS, JSON, end=False)
    connection.data(stream, body_of(name), end=True)
    connection.send(raw_h2.frame(raw_h2.WINDOW_UPDATE, 0, stream.number, (2**31 - 1).to_bytes(4, "big")))


def length_that_lies(connection, name):
    stream = connection.open("POST", MAPS, [*JSON, ("content-length", "5")], end=False)
    connection.data(stream, body_of(name), end=True)


def malformed_trailers(connection, name):
    stream = connection.open("POST", MAPS, JSON, end=False)
    connection.data(stream, body_of(name))
    connection.send(raw_h2.frame(raw_h2.HEADERS, raw_h2.END_HEADERS | raw_h2.END_STREAM, stream.number, raw_h2.field("X-Upper", "x")))


WAYS = (whole_then_reset, half_then_reset, data_after_the_end, window_that_overflows, length_that_lies, malformed_trailers)


class Resets(unittest.TestCase):
    def test_SE_T043_work_never_exceeds_the_seats(self):
        """Each way of six, again and again on connections of its own, beside bodies that never end."""
        client, admin, most, over = at_shard("mallory"), shard_admin("/clusters/*"), [], threading.Event()

        def look():
            while not over.is_set():
                levels = admin.must("GET", "/debug/fairness")["levels"]
                most.append(sum(level["seats"] for level in levels.values()))

        looker = threading.Thread(target=look, daemon=True)
        looker.start()
        self.addCleanup(lambda: (over.set(), looker.join(60)))
        slow = raw_h2.Connection(client)
        self.addCleanup(slow.close)
        for _ in range(50):
            slow.data(slow.open("POST", MAPS, JSON, end=False), b"{")
        reset = 0
        for way in WAYS:
            for turn in range(5):
                with contextlib.suppress(OSError, ssl.SSLError), raw_h2.Connection(client) as connection:
                    for number in range(60):
                        way(connection, f"{way.__name__.replace('_', '-')}-{turn}-{number}")
                        reset += 1
                        if not connection.read(0):
                            break
        self.assertGreater(reset, len(WAYS) * 5 * 10)
        neighbour = at_shard("bob")
        answer = neighbour.request("POST", MAPS, make("after"))
        self.assertEqual(answer.status, 201, answer)
        kit.eventually(lambda: fairness()["levels"]["tenant"] | {"served": 0, "full": 0, "late": 0}
                       == {"seats": 0, "waiting": 0, "served": 0, "full": 0, "late": 0}, 30, "every seat comes back")
        over.set()
        looker.join(60)
        self.assertGreater(len(most), 5)
        self.assertLessEqual(max(most), SEATS)

    def test_SE_T044_a_tenants_cancels_are_his_own(self):
        """5,000 requests of one tenant, each taken back at once: the neighbour's streams to the same shard go on."""
        bob, mallory = user_client("bob"), user_client("mallory")
        quiet = "/api/v1/namespaces/quiet/configmaps"  # without objects
        version = bob.must("GET", quiet)["metadata"]["resourceVersion"]
        watch = kit.Watch(user_client("bob"), MAPS + "?watch=1&resourceVersion=" + version)  # of HTTP/1.1, unlike those of raw_h2
        neighbour = raw_h2.Connection(bob)
        self.addCleanup(neighbour.close)
        streams = [neighbour.open("GET", f"/api/v1/namespaces/w{number}/configmaps?watch=1") for number in range(20)]
        self.assertTrue(neighbour.until(lambda: all(s.status == 200 for s in streams)))
        cancelled, asked = 0, 0
        while cancelled < 5_000:
            with contextlib.suppress(OSError, ssl.SSLError), raw_h2.Connection(mallory) as connection:
                with connection.at_once():
                    for _ in range(100):
                        stream = connection.open("GET", quiet)
                        connection.send(raw_h2.frame(raw_h2.RST, 0, stream.number, CANCEL))
                cancelled += 100
                connection.read(0.01)
            asked += 1
            if asked % 10 == 0:
                self.assertEqual(neighbour.ask("GET", quiet).status, 200)
        self.assertEqual([(s.status, s.over) for s in streams], [(200, False)] * 20)
        self.assertIsNone(neighbour.goaway)
        self.assertIsNone(watch.ended_at, watch.fault)
        self.assertEqual(bob.request("POST", MAPS, make("seen")).status, 201)
        kit.eventually(lambda: any(event["object"]["metadata"].get("name") == "seen" for event in watch.events), 30, "the watch goes on")


if __name__ == "__main__":
    unittest.main()
