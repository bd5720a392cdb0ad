"""What only shards of kcp have, through the proxy (docs/spec/topology.md, the cases that need one): virtual workspaces replication and
apiresourceschema against a server that plays them, and the endpoint slices of cached resources, whose controller is played."""
import http.server
import json
import queue
import unittest

import kit

SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"Content-Type": "application/merge-patch+json"}
VERSION = "/apis/apis.kcp.io/v1alpha1"
ENDPOINTS = "/apis/cache.kcp.io/v1alpha1/clustercachedresourceendpointslices"


def status(code, reason, message):
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}


class Shard:
    """Plays a virtual workspace of a shard: read-only objects below one path, for those who have the right."""

    def __init__(self, below, resources, objects):
        self.below, self.resources, self.objects = below, resources, objects
        self.allowed, self.watches, self.seen = set(), [], []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, code, body):
                body = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def stream(self, events):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while (event := events.get()) is not None:
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            def do_GET(handler):
                user, (path, _, more) = handler.headers.get("X-Remote-User"), handler.path.partition("?")
                self.seen.append((handler.command, path, user))
                rest = path.removeprefix(self.below)
                if user not in self.allowed:
                    return handler.answer(403, status(403, "Forbidden", f'User "{user}" cannot read here'))
                if rest == path or handler.command != "GET":
                    return handler.answer(405, status(405, "MethodNotAllowed", "this is read-only"))
                if rest == "":
                    return handler.answer(200, self.resources)
                name = rest.strip("/").partition("/")[2]
                if name:
                    found = [o for o in self.objects if o["metadata"]["name"] == name]
                    return handler.answer(200, found[0]) if found else handler.answer(404, status(404, "NotFound", "not found"))
                if "watch=" in more:
                    events = queue.Queue()
                    self.watches.append(events)
                    return handler.stream(events)
                return handler.answer(200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"},
                                            "items": self.objects})

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        self.server = kit.Server(Handler)
        self.url = self.server.url

    def tell(self, event):
        for watch in self.watches:
            watch.put(event)

    def close(self):
        self.tell(None)
        self.server.close()


class KcpViews(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The views are played as kcp's shards have them, which tell more than ours.
        cls.installation = kit.Installation("--existence", "kcp", shards=3).start_for(cls)
        cls.root = cls.installation.client()
        cls.cluster = cls.installation.make_workspace("owner", selector={"name": "shard-1"})["spec"]["cluster"]
        cls.alice = cls.installation.user_client("alice", path="")

    def play(self, below, resources, objects):
        shard = Shard(below, resources, objects)
        self.addCleanup(shard.close)
        before = self.root.must("GET", f"{SHARDS}/shard-1")["spec"]["virtualWorkspaceURL"]
        self.addCleanup(self.lead, before)
        self.lead(shard.url)
        return shard

    def lead(self, url):
        self.root.must("PATCH", f"{SHARDS}/shard-1", json.dumps({"spec": {"virtualWorkspaceURL": url}}), headers=MERGE)

    def reaches(self, path, code):
        return kit.eventually(lambda: (lambda a: a if a.status == code else None)(self.alice.get(path)), what=f"{code} of {path}")

    def follows(self, shard, path, changed):
        """A watch begins with the right and shows what changes."""
        watch = kit.Watch(self.alice, f"{path}?watch=true")
        kit.eventually(lambda: shard.watches, what="the watch at the shard")
        shard.tell({"type": "MODIFIED", "object": changed})
        kit.eventually(lambda: watch.events == [{"type": "MODIFIED", "object": changed}], what="the event")

    def test_TP_076_replicated_objects_for_whom_the_shard_lets(self):
        objects = [{"kind": "Widget", "apiVersion": "ex.io/v1", "metadata": {"name": "w", "labels": {"a": "b"}}}]
        base = f"/services/replication/{self.cluster}/slice/clusters/{self.cluster}/apis/ex.io/v1"
        shard = self.play(base, {"kind": "APIResourceList", "groupVersion": "ex.io/v1", "resources": []}, objects)
        path = "/services/replication/root:owner/slice/clusters/root:owner/apis/ex.io/v1/widgets"
        for tail in ("", "/w"):
            kit.eventually(lambda t=tail: "cannot read here" in self.reaches(path + t, 403).json["message"], what="its own words")
        self.assertEqual(self.alice.get(path + "?watch=true").status, 403)
        shard.allowed.add("alice")
        self.assertEqual(self.reaches(path, 200).json["items"], objects)
        self.assertEqual(self.reaches(path + "/w", 200).json, objects[0])
        self.follows(shard, path, {**objects[0], "metadata": {"name": "w", "labels": {"a": "c"}}})

    def test_TP_077_schemas_of_what_a_cluster_has_bound(self):
        objects = [{"kind": "APIResourceSchema", "apiVersion": "apis.kcp.io/v1alpha1", "metadata": {"name": f"v1.{name}.ex.io"}}
                   for name in ("widgets", "gears")]
        resources = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apis.kcp.io/v1alpha1", "resources": [
            {"name": "apiresourceschemas", "kind": "APIResourceSchema", "namespaced": False, "singularName": "apiresourceschema",
             "verbs": ["get", "list", "watch"]}]}
        base = f"/services/apiresourceschema/{self.cluster}/clusters"
        for target in ("*", self.cluster):
            with self.subTest(target):
                shard = self.play(f"{base}/{target}{VERSION}", resources, objects)
                path = f"/services/apiresourceschema/root:owner/clusters/{target.replace(self.cluster, 'root:owner')}{VERSION}"
                self.reaches(path, 403)
                shard.allowed.add("alice")
                self.assertEqual(self.reaches(path, 200).json, resources)
                self.assertEqual(self.reaches(path + "/apiresourceschemas", 200).json["items"], objects)
                self.assertEqual(self.reaches(path + "/apiresourceschemas/v1.widgets.ex.io", 200).json, objects[0])
                self.reaches(path + "/apiresourceschemas/v1.nuts.ex.io", 404)
                for method in ("POST", "PUT", "PATCH", "DELETE"):
                    self.assertEqual(self.alice.request(method, path + "/apiresourceschemas/v1.widgets.ex.io").status, 405)
                self.follows(shard, path + "/apiresourceschemas", objects[1])

    def test_TP_057_slices_of_cached_resources_are_the_shards(self):
        owner = self.installation.client("/clusters/root:owner")
        pki = self.installation.pki
        shard = kit.Client(f"{self.installation.shard_url('shard-1')}/clusters/{self.cluster}", pki / "serving-ca.crt",
                           pki / "shard-admin.crt", pki / "shard-admin.key")
        owner.must("POST", ENDPOINTS, {
            "apiVersion": "cache.kcp.io/v1alpha1", "kind": "ClusterCachedResourceEndpointSlice", "metadata": {"name": "s"},
            "spec": {"clusterCachedResource": {"name": "missing"}, "export": {"name": "missing"}, "partition": "eu"}})

        def told():
            found = owner.must("GET", f"{ENDPOINTS}/s")
            self.assertEqual(found, shard.must("GET", f"{ENDPOINTS}/s"), "as the shard says it")
            return found["status"] if found.get("status", {}).get("conditions") else None

        status = kit.eventually(told, what="the shard's status")
        self.assertEqual(status.get("endpoints", []), [], "the proxy computes nothing of it")
        self.assertNotIn("True", {condition["status"] for condition in status["conditions"]})


if __name__ == "__main__":
    unittest.main()
