"""Virtual workspaces through the proxy (T-10, R-15): routing against servers that echo, consumers."""
import contextlib
import http.server
import json
import re
import socket
import subprocess
import unittest

import kit

PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
LIST = re.compile(r"/clusters/(\*|%2A)/apis/[^/]+/[^/]+/[^/?]+(\?|$)")
DISCOVERY = re.compile(r"/clusters/(\*|%2A)/apis/ex.io/v1$")
NOT_PERMITTED = "workspace access not permitted"
NO_ROUTE = b"404 page not found\n"


class Echo:
    """Stands in for the virtual workspaces of one shard: tells what it got."""

    def __init__(self, shard, port=0, below="vw"):
        self.connections = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(handler):
                super().setup()
                self.connections.append(handler.connection)

            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = {"shard": shard, "method": self.command, "path": self.path,
                        "headers": {k.lower(): v for k, v in self.headers.items()}, "body": self.rfile.read(length).decode()}
                if LIST.search(self.path) and "watch=" not in self.path:  # one object, so that lists can be merged
                    body = {"kind": "EchoList", "apiVersion": "ex.io/v1", "metadata": {"resourceVersion": "7"}, "items": [{
                        "kind": "Echo", "apiVersion": "ex.io/v1", "echo": body, "metadata": {
                            "name": shard, "resourceVersion": "7", "annotations": {"kcp.io/cluster": "cluster-of-" + shard}}}]}
                elif DISCOVERY.search(self.path):
                    body = {"kind": "APIResourceList", "groupVersion": "ex.io/v1", "resources": [{"name": shard, "verbs": ["get"]}]}
                body = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer

        self.server = kit.Server(Handler, port=port)
        self.url = f"{self.server.url}/{below}/{shard}"

    def close(self):
        self.server.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def condition(found, kind):
    return next((c for c in found.get("status", {}).get("conditions", []) if c["type"] == kind), {})


class Services(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=3).start_for(cls)
        cls.root = cls.installation.client()
        cls.proxy = cls.installation.client("")
        cls.names = sorted(s["metadata"]["name"] for s in cls.root.must("GET", SHARDS)["items"])
        cls.echoes = [Echo(name) for name in cls.names]
        cls.vw = {}
        for name, echo in zip(cls.names, cls.echoes):
            cls.patch_shard(name, {"spec": {"virtualWorkspaceURL": echo.url}})
            cls.vw[name] = echo.url
        cls.cluster = {}
        for name in cls.names:
            workspace = cls.installation.make_workspace(f"on-{name}", selector={"name": name})
            cls.cluster[name] = workspace["spec"]["cluster"]
        cls.root.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
                                        "metadata": {"name": "widgets"}, "spec": {}})

    @classmethod
    def tearDownClass(cls):
        for echo in cls.echoes:
            echo.close()

    @classmethod
    def patch_shard(cls, name, patch):
        return cls.root.must("PATCH", f"{SHARDS}/{name}", json.dumps(patch), headers=MERGE)

    def label(self, shard, **labels):
        self.patch_shard(shard, {"metadata": {"labels": labels}})
        self.addCleanup(self.patch_shard, shard, {"metadata": {"labels": dict.fromkeys(labels)}})

    def ask(self, path, method="GET", **kwargs):
        return self.proxy.request(method, path, **kwargs)

    def echoed(self, path, shard, seen, method="GET", **kwargs):
        """The request reaches the virtual workspaces of `shard` as `seen`."""
        answer = self.ask(path, method, **kwargs)
        self.assertEqual(answer.status, 200, answer)
        got = answer.json["items"][0]["echo"] if "items" in answer.json else answer.json
        self.assertEqual((got["shard"], got["path"], got["method"]), (shard, f"/vw/{shard}{seen}", method))
        return got

    def readers(self, path):
        """The shards of which a list of clusters/* shows something."""
        answer = self.ask(path)
        assert answer.status == 200, answer
        return sorted(item["metadata"]["name"] for item in answer.json["items"])

    def refused(self, path, status, text, method="GET", **kwargs):
        answer = self.ask(path, method, **kwargs)
        self.assertEqual(answer.status, status, answer)
        self.assertEqual(answer.json["kind"], "Status")
        self.assertIn(text, answer.json["message"])
        return answer.json

    def bind(self, shard, name="widgets", export="widgets"):
        """A consumer on a shard, for the time of the test; returns what takes it away."""
        client = self.installation.client(f"/clusters/root:on-{shard}")
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": "root", "name": export}}}}
        kit.eventually(lambda: client.request("POST", BINDINGS, body).status == 201, what="the export is known there")

        def bound():
            status = client.must("GET", f"{BINDINGS}/{name}").get("status", {})
            assert status.get("phase") == "Bound", status
            return status

        self.assertEqual(kit.eventually(bound)["apiExportClusterName"], "root")

        def gone():
            assert client.request("DELETE", f"{BINDINGS}/{name}").status in (200, 404)
            kit.eventually(lambda: client.get(f"{BINDINGS}/{name}").status == 404)

        self.addCleanup(gone)
        return gone

    def explain(self, path):
        run = subprocess.run(["curl", "-sS", "--unix-socket", str(self.installation.state / "run/admin.sock"), "-G",
                              "--data-urlencode", f"path={path}", "http://admin/explain"],
                             capture_output=True, text=True, timeout=60, check=True)
        return json.loads(run.stdout)

    def test_FP_120_FP_121_FP_122_TP_081_the_owner_of_the_cluster_gets_it_by_name(self):
        for name in self.names:
            cluster = self.cluster[name]
            self.echoed(f"/services/apiexport/root/widgets/clusters/root:on-{name}/api/v1/namespaces?limit=%35", name,
                        f"/services/apiexport/root/widgets/clusters/{cluster}/api/v1/namespaces?limit=%35")
            self.echoed(f"/services/apiexport/root%3Aon-{name}/e/clusters/{cluster}", name,
                        f"/services/apiexport/{cluster}/e/clusters/{cluster}")
            self.echoed(f"/services/initializingworkspaces/root:on-{name}:tenant/clusters/{cluster}/api", name,
                        f"/services/initializingworkspaces/{cluster}:tenant/clusters/{cluster}/api")
            self.echoed(f"/services/terminatingworkspaces/root:tenant/clusters/root:on-{name}/api", name,
                        f"/services/terminatingworkspaces/root:tenant/clusters/{cluster}/api")
            self.echoed(f"/services/apiresourceschema/root:on-{name}/clusters/*/apis", name,
                        f"/services/apiresourceschema/{cluster}/clusters/*/apis")
            self.echoed(f"/services/migratingworkspaces/clusters/root:on-{name}/apis", name,
                        f"/services/migratingworkspaces/clusters/{cluster}/apis")
            self.echoed(f"/services/replication/root:on-{name}/s/clusters/*/apis", name,
                        f"/services/replication/{cluster}/s/clusters/*/apis")

    def test_TP_059_every_verb_reaches_the_shard_with_its_body_and_identity(self):
        name = self.names[1]
        path = f"/services/apiexport/root/widgets/clusters/root:on-{name}/apis/ex.io/v1/namespaces/d/widgets"
        seen = f"/services/apiexport/root/widgets/clusters/{self.cluster[name]}/apis/ex.io/v1/namespaces/d/widgets"
        alice = self.installation.user_client("alice", ("team",), path="")
        for method, suffix in (("GET", "/a"), ("GET", ""), ("GET", "?watch=true"), ("POST", ""), ("PUT", "/a"), ("PUT", "/a/status"),
                               ("PATCH", "/a"), ("DELETE", "/a"), ("DELETE", "")):
            body = "some bytes" if method in ("POST", "PUT", "PATCH") else None
            answer = alice.request(method, path + suffix, body, headers={"X-Remote-User": "admin", "X-Kcp-Virtual-Resource-Hops": "2"})
            self.assertEqual(answer.status, 200, answer)
            got = answer.json
            self.assertEqual((got["shard"], got["method"], got["path"]), (name, method, f"/vw/{name}{seen}{suffix}"))
            self.assertEqual(got["body"], body or "")
            self.assertEqual(got["headers"]["x-remote-user"], "alice")
            self.assertEqual(got["headers"]["x-kcp-virtual-resource-hops"], "2")

    def test_FP_131_hops_pass_unchanged(self):
        """And the ninth pass of the same proxy is E15."""
        path = f"/services/apiexport/root/widgets/clusters/{self.cluster[self.names[0]]}/api"
        for hops in ("0", "1", "2", "3", "4", "x", "-1"):
            got = self.ask(path, headers={"X-Kcp-Virtual-Resource-Hops": hops}).json
            self.assertEqual(got["headers"]["x-kcp-virtual-resource-hops"], hops)
        via = self.ask(path).json["headers"]["via"]
        self.assertEqual(self.ask(path, headers={"Via": ", ".join([via] * 8)}).status, 200)
        self.refused(path, 508, "proxy loop detected", headers={"Via": ", ".join([via] * 9)})

    def test_paths_that_nothing_serves(self):
        for path in ("/services", "/services/", "/services/apiexport/root", "/services/apiexport/root/widgets",
                     "/services/apiexport/root/widgets/api", "/services/apiexport/root/widgets/clusters/",
                     "/services/initializingworkspaces/root/clusters/*/api", "/services/migratingworkspaces/clusters/*/api",
                     "/services/marketplace/clusters/root/api", "/shards/nope/services/apiexport/root/widgets/clusters/root/api",
                     "/partitions/root/nope/services/apiexport/root/widgets/clusters/root/api"):
            answer = self.ask(path)
            self.assertEqual((answer.status, answer.body), (404, NO_ROUTE), path)
        self.assertEqual(self.ask("/services/apiexport//widgets/clusters/root/api").status, 307)
        for path in ("/services/apiexport/root/widgets/clusters/nope/api", "/services/apiexport/root:nope/widgets/clusters/root/api",
                     "/services/apiexport/root/widgets/clusters/Root/api"):
            answer = self.refused(path, 403, NOT_PERMITTED)
            self.assertIn(f'path "{path}"', answer["message"])

    def test_TP_079_TP_080_wildcards_are_for_reading(self):
        base = "/services/apiexport/root/widgets/clusters/*"
        text = 'is not supported on resources of kind "widgets.ex.io" in the `*` logical cluster'
        for method, suffix, verb in (("POST", "", "create"), ("PUT", "/a", "update"), ("PATCH", "/a", "patch"), ("DELETE", "/a", "delete"),
                                     ("DELETE", "", "deletecollection"), ("GET", "/a", "get")):
            answer = self.refused(f"{base}/apis/ex.io/v1/widgets{suffix}", 405, f"{verb} {text}", method=method)
            self.assertEqual(answer["reason"], "MethodNotAllowed")
        for query in ("", "?watch=true"):
            self.refused(f"{base}/api/v1/namespaces/d/configmaps{query}", 400,
                         "cross-cluster LIST and WATCH are required to be cross-namespace, not scoped to namespace d")

    def test_FP_108_TP_135_one_shard_only(self):
        """U6."""
        one, other = self.names[0], self.names[1]
        tail = f"/services/apiexport/root/widgets/clusters/{self.cluster[one]}/api"
        self.echoed(f"/shards/{one}{tail}", one, tail)
        self.echoed(f"/shards/{other}{tail}", other, tail)  # which judges by itself what is not its own
        everything = "/services/apiexport/root/widgets/clusters/*/apis/ex.io/v1/widgets?watch=1"
        self.echoed(f"/shards/{other}{everything}", other, everything)

    def test_FP_109_TP_135_a_partition_is_looked_up_live(self):
        """U2 before U4."""
        one, other = self.names[0], self.names[1]
        self.root.must("POST", PARTITIONS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "live"},
                                            "spec": {"selector": {"matchLabels": {"fp109": "in"}}}})
        self.addCleanup(self.root.request, "DELETE", f"{PARTITIONS}/live")
        tail = f"/services/apiexport/root/widgets/clusters/{self.cluster[other]}/api"
        everything = "/services/apiexport/root/widgets/clusters/*/apis/ex.io/v1/widgets"
        self.label(one, fp109="in")
        kit.eventually(lambda: self.readers("/partitions/root/live" + everything) == [one])
        self.refused("/partitions/root/live" + tail, 403, NOT_PERMITTED)
        self.label(other, fp109="in")
        kit.eventually(lambda: self.ask("/partitions/root/live" + tail).status == 200)
        self.echoed("/partitions/root/live" + tail, other, tail)
        self.label(other, fp109="out")
        kit.eventually(lambda: self.ask("/partitions/root/live" + tail).status == 403)

    def test_FP_136_while_the_virtual_workspaces_of_a_shard_are_away(self):
        name = self.names[2]
        tail = f"/services/apiexport/root/widgets/clusters/{self.cluster[name]}/api"
        port = self.echoes[2].server.server_port
        self.echoes[2].close()

        def back():
            self.echoes[2] = Echo(name, port)

        try:
            for query, status in (("", 503), ("/v1/configmaps?watch=true", 429)):
                answer = kit.eventually(lambda q=query, s=status: (lambda a: a if a.status == s else None)(self.ask(tail + q)))
                self.assertEqual(answer.headers["Retry-After"], "1")
                self.assertEqual(answer.json["message"], "the shard is not reachable")
            self.assertEqual(self.proxy.get(f"/clusters/root:on-{name}/api/v1/namespaces/default").status, 200, "only they are away")
        finally:
            back()
        kit.eventually(lambda: self.ask(tail).status == 200)
        self.echoed(tail, name, tail)

    def test_FP_116_TP_110_a_new_url_is_used_at_once(self):
        name = self.names[2]
        tail = f"/services/apiexport/root/widgets/clusters/{self.cluster[name]}/api"
        other = Echo(name, below="moved")
        self.addCleanup(other.close)
        self.addCleanup(self.patch_shard, name, {"spec": {"virtualWorkspaceURL": self.vw[name]}})
        self.patch_shard(name, {"spec": {"virtualWorkspaceURL": other.url + "/"}})
        kit.eventually(lambda: self.ask(tail).json["path"] == f"/moved/{name}{tail}", deadline=2)
        slices = self.root.must("GET", f"{SLICES}/widgets")["status"]["endpoints"]
        self.assertEqual(len(slices), 3, "proxied URLs stay")

    def test_FP_123_any_shard_serves_admin(self):
        self.assertEqual({self.ask("/services/admin/shards").json["shard"] for _ in range(12)}, set(self.names))

    def test_wildcards_are_read_where_the_consumers_are(self):
        path = "/services/apiexport/root/gadgets/clusters/*/apis/ex.io/v1/gadgets"
        owner = self.ask("/services/apiexport/root/gadgets/clusters/root/api").json["shard"]
        self.root.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "gadgets"}, "spec": {}})
        self.addCleanup(self.root.request, "DELETE", f"{EXPORTS}/gadgets")
        self.assertEqual(self.readers(path), [owner], "none: the export's own shard stands in")
        one, other = [name for name in self.names if name != owner]
        unbind = self.bind(one, "gadgets", "gadgets")
        kit.eventually(lambda: self.readers(path) == [one])
        self.assertEqual(self.readers(path.replace("*", "%2A")), [one])
        self.bind(other, "gadgets", "gadgets")
        kit.eventually(lambda: self.readers(path) == sorted((one, other)))
        self.echoed(f"/shards/{other}{path}", other, path)
        discovery = self.ask("/services/apiexport/root/gadgets/clusters/*/apis/ex.io/v1").json
        # In the order of the shards' slots, which is that in which they came.
        self.assertEqual(sorted(resource["name"] for resource in discovery["resources"]), sorted((one, other)))
        shown = self.explain(path)
        self.assertEqual({row["shard"]: (row["selected"], row["effective"], row["contacted"], row.get("why", "")) for row in shown["shards"]},
                         {owner: (True, False, False, "it holds no APIBinding of the export"),
                          one: (True, True, True, ""), other: (True, True, True, "")})
        unbind()
        kit.eventually(lambda: self.readers(path) == [other])

    def test_TP_036_TP_048_TP_049_TP_050_slices_list_shards_with_consumers(self):
        one, other, _ = self.names
        self.label(one, shared="true")
        self.label(other, shared="true")
        self.root.must("POST", "/apis/topology.kcp.io/v1alpha1/partitionsets", {
            "apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "shared"},
            "spec": {"dimensions": [], "shardSelector": {"matchLabels": {"shared": "true"}}}})
        self.addCleanup(self.root.request, "DELETE", "/apis/topology.kcp.io/v1alpha1/partitionsets/shared")

        def partition():
            found = [p["metadata"]["name"] for p in self.root.must("GET", PARTITIONS)["items"] if p["metadata"]["name"].startswith("shared-")]
            assert len(found) == 1, found
            return found[0]

        self.root.must("POST", SLICES, {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice", "metadata": {
            "name": "shared", "annotations": {"kintsugi.dev/consumers": "required", "kintsugi.dev/endpoint-mode": "direct"}},
            "spec": {"export": {"path": "root", "name": "widgets"}, "partition": kit.eventually(partition)}})
        self.addCleanup(self.root.request, "DELETE", f"{SLICES}/shared")

        def urls():
            return [e["url"] for e in self.root.must("GET", f"{SLICES}/shared").get("status", {}).get("endpoints", [])]

        def ready():
            return condition(self.root.must("GET", f"{SLICES}/shared"), "EndpointURLsReady")

        kit.eventually(lambda: ready().get("reason") == "NoConsumers")
        self.assertEqual(ready()["message"], "no APIBinding to root|widgets on any of the 2 selected shards")
        tail = "/services/apiexport/root/widgets"
        self.bind(one)
        kit.eventually(lambda: urls() == [self.vw[one] + tail])
        unbind = self.bind(other)
        kit.eventually(lambda: urls() == [self.vw[one] + tail, self.vw[other] + tail])
        self.assertEqual(ready()["message"], "2 endpoints")
        shown = self.explain(f"/clusters/root{SLICES}/shared")
        self.assertEqual([(row["shard"], row["selected"], row["effective"], row["contacted"]) for row in shown["slice"]["shards"]],
                         [(one, True, True, True), (other, True, True, True), (self.names[2], False, False, False)])
        self.assertEqual(shown["slice"]["shards"][2]["why"], "its labels do not match the selector of the Partition")
        unbind()
        kit.eventually(lambda: urls() == [self.vw[one] + tail])
        # TP-114, TP-115: the same consumers in the other modes.
        external = f"https://127.0.0.1:{self.installation.port}"
        name = kit.eventually(partition)
        for mode, expected in (("proxied", [f"{external}/shards/{one}{tail}"]),
                               ("aggregated", [f"{external}/partitions/root/{name}{tail}"])):
            self.root.must("PATCH", f"{SLICES}/shared", json.dumps({"metadata": {"annotations": {"kintsugi.dev/endpoint-mode": mode}}}),
                           headers=MERGE)
            kit.eventually(lambda e=expected: urls() == e)
            self.assertEqual(self.readers(expected[0][len(external):] + "/clusters/*/apis/ex.io/v1/widgets"), [one])

    def test_TP_052_the_default_slice_follows_its_export(self):
        made = self.root.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "own"}, "spec": {}})

        def owner():
            found = self.root.get(f"{SLICES}/own")
            assert found.status == 200, found
            return found.json["metadata"]["ownerReferences"][0]["uid"]

        self.assertEqual(kit.eventually(owner), made["metadata"]["uid"])
        self.root.must("DELETE", f"{EXPORTS}/own")
        again = self.root.must("POST", EXPORTS, {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "own"}, "spec": {}})
        kit.eventually(lambda: owner() == again["metadata"]["uid"])
        self.root.must("DELETE", f"{EXPORTS}/own")
        kit.eventually(lambda: self.root.get(f"{SLICES}/own").status == 404)

    def test_TP_119_reports_of_shards_change_nothing(self):
        shard = self.installation.user_client("external-logical-cluster-admin", ("system:kcp:external-logical-cluster-admin",))
        before = kit.eventually(lambda: self.root.must("GET", f"{SLICES}/widgets"))
        path = f"{SLICES}/widgets/status?fieldManager={self.names[0]}&force=false"
        for status in ("{endpoints: [{url: https://mine}]}", "{}"):
            body = f"{{apiVersion: apis.kcp.io/v1alpha1, kind: APIExportEndpointSlice, metadata: {{name: widgets}}, status: {status}}}"
            answer = shard.request("PATCH", path, body, headers=APPLY)
            self.assertEqual(answer.status, 200, answer)
            self.assertEqual(answer.json["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"])
            self.assertNotIn("https://mine", answer.body.decode())
        self.assertEqual(shard.request("PATCH", path.replace("/widgets/", "/nope/"), "{}", headers=APPLY).status, 404)
        nobody = self.installation.user_client("nobody")
        self.assertEqual(nobody.request("PATCH", path, "{}", headers=APPLY).status, 403)
        metrics = subprocess.run(["curl", "-sS", "--unix-socket", str(self.installation.state / "run/admin.sock"), "http://admin/metrics"],
                                 capture_output=True, text=True, timeout=60, check=True).stdout
        self.assertIn(f'kintsugi_slice_shard_apply_ignored_total{{shard="{self.names[0]}"}} 3', metrics)
        for family in ("topology_reconcile_seconds", "topology_reconcile_errors_total", "topology_lag_seconds", "topology_objects",
                       "topology_writes_total", "slice_endpoints", "slices_not_ready", "partitions_per_set", "authz_reviews_total"):
            self.assertRegex(metrics, f"(?m)^# TYPE kintsugi_{family} ", family)
        self.assertTrue(re.search(r'kintsugi_topology_writes_total\{resource="apiexportendpointslices",op="create"\} [1-9]', metrics), metrics)
