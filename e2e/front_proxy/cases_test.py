"""Single cases of the front proxy (docs/spec/front-proxy.md), named by number: names, state of clusters, what shards answer."""
import contextlib
import json
import re
import signal
import socket
import ssl
import subprocess
import threading
import unittest
import urllib.parse

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"Content-Type": "application/merge-patch+json"}
NOT_PERMITTED = "workspace access not permitted"


def setUpModule():
    global installation, root, outside
    installation = kit.Installation(shards=2).start_for()
    root, outside = installation.client(), installation.client("")


def shard_client(name, path="", pair="shard-admin"):
    text = (installation.state / "shards" / name / "admin.kubeconfig").read_text()
    url = re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)
    pki = installation.pki
    return kit.Client(url + path, pki / "serving-ca.crt", pki / f"{pair}.crt", pki / f"{pair}.key")


def name_of(client):
    return client.must("GET", CLUSTER)["metadata"]["annotations"]["kcp.io/cluster"]


class Names(unittest.TestCase):
    VALID = ("root", "root:foo", "root:foo:bar", "system", "system:foo", "f", "foo:0", "foo:bar0", "foo:0bar", "foo:bar-bar",
             "foo:b123456789-0123-4567-89ab-0123456789ab", "a" * 32, "a" * 32 + ":" + "b" * 32, "a" * 63)
    INVALID = ("", "root:", ":root", "root::foo", "root:föö:bär", "foo:bar_bar", "foo:bar-", "foo:-bar", "a" * 64, "Foo")

    def test_FP_035_FP_036_what_is_a_name(self):
        shard = shard_client("shard-1")

        def ask(client, name):
            return client.get(f"/clusters/{urllib.parse.quote(name, safe=':')}/api")

        for name in self.VALID:
            with self.subTest(name=name):
                answer = ask(shard, name)
                self.assertIn(answer.status, (200, 403, 404, 429), answer)
                self.assertNotIn("regex", answer.body.decode())
                self.assertEqual(ask(outside, name).status, 200 if name == "root" else 403)
        for name in self.INVALID[1:]:
            with self.subTest(name=name):
                answer = ask(shard, name)
                self.assertEqual((answer.status, answer.json["message"]),
                                 (400, f'invalid cluster: "{name}" does not match the regex'), answer)
                refused = ask(outside, name)
                self.assertEqual((refused.status, refused.json["reason"]), (403, "Forbidden"), refused)
                self.assertTrue(refused.json["message"].endswith(NOT_PERMITTED), refused)

    def test_FP_046_FP_047_a_shard_and_paths_that_lead_nowhere(self):
        shard = shard_client("root", pair="admin")
        lost = shard.get("/clusters/root:internal-cluster/api")
        self.assertEqual((lost.status, lost.json["message"]), (404, 'workspaces.tenancy.kcp.io "root:internal-cluster" not found'))
        installation.make_workspace("known", selector={"name": "root"})
        name = name_of(installation.client("/clusters/root:known"))
        self.assertEqual(shard.get(f"/clusters/{name}{MAPS}").status, 200)
        self.assertEqual(shard.get(f"/clusters/root:known{MAPS}").json["items"], shard.get(f"/clusters/{name}{MAPS}").json["items"])

    def test_FP_044_a_resource_that_is_called_clusters(self):
        installation.make_workspace("clusters")
        client = installation.client("/clusters/root:clusters")
        client.must("POST", CRDS, {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "clusters.ex.io"},
            "spec": {"group": "ex.io", "scope": "Cluster",
                     "names": {"plural": "clusters", "singular": "cluster", "kind": "Cluster", "listKind": "ClusterList"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
        path = "/apis/ex.io/v1/clusters"
        kit.eventually(lambda: client.get(path).status == 200)
        for name in ("x", "root", "api"):
            made = client.must("POST", path, {"apiVersion": "ex.io/v1", "kind": "Cluster", "metadata": {"name": name}})
            self.assertEqual(client.must("GET", f"{path}/{name}")["metadata"]["uid"], made["metadata"]["uid"])
        self.assertEqual({item["metadata"]["name"] for item in client.must("GET", path)["items"]}, {"x", "root", "api"})


class States(unittest.TestCase):
    def test_FP_087_what_belongs_to_a_shard_is_not_in_a_workspace(self):
        installation.make_workspace("levels")
        for path in ("/clusters/root:levels/metrics", "/clusters/root/metrics"):
            answer = outside.get(path)
            self.assertEqual((answer.status, answer.body), (501, b"shard-level endpoint not available at workspace scope\n"))
        for path in ("/livez", "/readyz", "/healthz"):
            answer = outside.get("/clusters/root:levels" + path)
            self.assertEqual((answer.status, answer.body), (200, b"ok"), path)

    def test_FP_141_the_proxy_tells_everybody_that_it_lives_and_what_it_is(self):
        nobody = installation.client("", cert=None)
        for path, body in (("/healthz", b"ok"), ("/healthz?verbose", b"[+]ping ok\nhealthz check passed\n"), ("/livez/ping", b"ok"),
                           ("/readyz/informer-sync", b"ok")):
            answer = nobody.get(path)
            self.assertEqual((answer.status, answer.body), (200, body), path)
        version = nobody.must("GET", "/version")
        self.assertEqual(version, installation.client().must("GET", "/version"), "a workspace and the proxy are of one release")
        self.assertRegex(version["gitVersion"], r"^v1\.\d+\.\d+\+kintsugi-\d+\.\d+\.\d+$")
        self.assertEqual(nobody.request("POST", "/version").status, 405)
        with kit.Installation("--existence", "kcp", shards=1) as as_kcp:
            self.assertEqual([as_kcp.client("").get(path).status for path in ("/healthz", "/version")], [404, 404])

    def test_FP_091_an_inactive_cluster_answers_nothing_and_comes_back(self):
        cluster = installation.make_workspace("sleepy")["spec"]["cluster"]
        client = installation.client("/clusters/root:sleepy")

        def mark(value):
            client.must("PATCH", CLUSTER, json.dumps({"metadata": {"annotations": {"core.kcp.io/inactive": value}}}), headers=MERGE)

        watch = kit.Watch(client, MAPS + "?watch=1&allowWatchBookmarks=true")
        kit.eventually(lambda: watch.events)
        mark("true")
        kit.eventually(lambda: watch.ended_at, what="the watch has ended")
        self.assertIsNone(watch.fault, "in order")
        for method, path in (("GET", MAPS), ("GET", MAPS + "?watch=1"), ("POST", MAPS), ("GET", "/apis"), ("GET", "/api/v1")):
            refused = kit.eventually(lambda m=method, p=path: (a := client.request(m, p)).status == 403 and a)
            self.assertEqual((refused.json["reason"], refused.json["message"]),
                             ("Forbidden", f'logicalclusters.core.kcp.io "{cluster}" is forbidden: logical cluster is marked '
                              'inactive'), (method, path))
        self.assertEqual(client.get(CLUSTER).status, 200)
        self.assertEqual(client.get("/openapi/v2").status, 200)
        mark(None)
        kit.eventually(lambda: client.get(MAPS).status == 200)
        kit.eventually(lambda: next(client.watch(MAPS + "?watch=1"))["type"] == "ADDED")


class Moves(unittest.TestCase):
    def test_FP_026_FP_116_a_shard_at_another_address(self):
        installation.make_workspace("moved", selector={"name": "shard-1"})
        client = installation.client("/clusters/root:moved")
        before = root.must("GET", f"{SHARDS}/shard-1")["spec"]["baseURL"]
        after = before.replace("127.0.0.1", "localhost")
        self.assertNotEqual(before, after)

        def move(url):
            root.must("PATCH", f"{SHARDS}/shard-1", json.dumps({"spec": {"baseURL": url}}), headers=MERGE)

        self.addCleanup(move, before)
        watches = [kit.Watch(client, MAPS + "?watch=1&allowWatchBookmarks=true") for _ in range(5)]
        other = kit.Watch(root, MAPS + "?watch=1")
        kit.eventually(lambda: all(watch.events for watch in [*watches, other]))
        move(after)

        def ended():
            self.assertEqual(client.get(MAPS).status, 200)
            return all(watch.ended_at for watch in watches)

        kit.eventually(ended, 10, "the watches of the old address have ended")
        for watch in watches:
            self.assertEqual((watch.fault, watch.events[-1]["type"]), (None, "BOOKMARK"))
        version = watches[0].events[-1]["object"]["metadata"]["resourceVersion"]
        again = kit.Watch(client, f"{MAPS}?watch=1&resourceVersion={version}")
        client.must("POST", MAPS, {"metadata": {"name": "after-the-move"}})
        kit.eventually(lambda: [event["object"]["metadata"]["name"] for event in again.events] == ["after-the-move"])
        self.assertIsNone(other.ended_at, "watches of other shards go on")
        self.assertIsNone(again.ended_at)


class NotKnownYet(unittest.TestCase):
    def test_FP_114_a_client_waits_until_the_workspace_is_known(self):
        """kubectl is client-go: 503 with Retry-After is repeated, and its user sees nothing of it."""
        with kit.Installation(shards=1) as own:
            client = own.client()

            def join():
                return subprocess.Popen([str(kit.BINARY), "shard", "--join", str(own.state), "--name", "late", "--labels",
                                         "region=sa-east-1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

            process = join()
            try:
                kit.eventually(lambda: client.get(f"{SHARDS}/late").status == 200)
                own.make_workspace("late", selector={"region": "sa-east-1"})
                kit.eventually(lambda: own.client("/clusters/root:late").get(MAPS + "/kube-root-ca.crt").status == 200)
                process.terminate()
                process.wait(60)
                # A proxy that has never heard of what is on that shard.
                proxy = own.pid("proxy")
                own.kill("proxy")
                kit.eventually(lambda: own.pid("proxy") != proxy and own.client("").get("/livez").status == 200)

                def unknown():
                    answer = own.client("/clusters/root:late").get(MAPS)
                    self.assertEqual((answer.status, answer.json["reason"], answer.headers["Retry-After"]),
                                     (503, "ServiceUnavailable", "1"), answer)
                    return answer.json["message"] == "the location of this workspace is not known yet"

                kit.eventually(unknown)
                program = kit.needs_kubectl(23, "repeating `get --raw`")
                waiting = subprocess.Popen([program, f"--kubeconfig={own.kubeconfig}", f"--cache-dir={own.dir / 'cache'}",
                                            f"--server=https://127.0.0.1:{own.port}", "get", "--raw", "/clusters/root:late" + MAPS],
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                with self.assertRaises(subprocess.TimeoutExpired):
                    waiting.wait(2)
                # It tries ten times. Until the shard is there it is stopped: that takes longer than ten seconds where others work.
                waiting.send_signal(signal.SIGSTOP)
                try:
                    process = join()
                    kit.eventually(lambda: own.client("/clusters/root:late").get(MAPS).status == 200, 30, "the shard is back")
                finally:
                    waiting.send_signal(signal.SIGCONT)
                output, errors = waiting.communicate(timeout=60)
                self.assertEqual((waiting.returncode, errors), (0, ""))
                self.assertEqual(json.loads(output)["kind"], "ConfigMapList")
            finally:
                process.kill()
                process.wait()


class Upgrades(unittest.TestCase):
    """A stand-in of a shard that switches protocols and then sends back what it gets."""

    @classmethod
    def setUpClass(cls):
        cls.listener = socket.create_server(("127.0.0.1", 0))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(installation.pki / "shard-root.crt", installation.pki / "shard-root.key")
        context.set_alpn_protocols(["http/1.1"])
        cls.seen = []
        threading.Thread(target=cls.accept, args=(context,), daemon=True).start()
        url = f"https://127.0.0.1:{cls.listener.getsockname()[1]}"
        root.must("POST", SHARDS, {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard", "metadata": {
            "name": "echo", "annotations": {"experimental.core.kcp.io/unschedulable": "true"}},
            "spec": {"baseURL": url, "externalURL": url, "virtualWorkspaceURL": url}})

    @classmethod
    def tearDownClass(cls):
        root.must("DELETE", SHARDS + "/echo")
        cls.listener.close()

    @classmethod
    def accept(cls, context):
        while True:
            try:
                plain = cls.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=cls.serve, args=(context, plain), daemon=True).start()

    @classmethod
    def serve(cls, context, plain):
        with contextlib.suppress(OSError), plain, context.wrap_socket(plain, server_side=True) as peer:
            head = b""
            while b"\r\n\r\n" not in head:
                part = peer.recv(4096)
                if not part:
                    return
                head += part
            head, early = head.split(b"\r\n\r\n", 1)
            fields = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
            if "upgrade" not in fields:
                peer.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            cls.seen.append((head.split(b"\r\n")[0].decode(), fields))
            peer.sendall(f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {fields['upgrade']}\r\n\r\n".encode()
                         + early)
            while part := peer.recv(65536):
                peer.sendall(part)

    def upgrade(self, protocol):
        client = installation.client("")
        plain = socket.create_connection((client.url.hostname, client.url.port), timeout=60)
        peer = client.context.wrap_socket(plain, server_hostname=client.url.hostname)
        self.addCleanup(peer.close)
        peer.sendall(f"POST /shards/echo/services/exec/a?command=sh HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                     f"Upgrade: {protocol}\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            part = peer.recv(4096)
            self.assertTrue(part, head)
            head += part
        head, rest = head.split(b"\r\n\r\n", 1)
        self.assertEqual(rest, b"")
        return peer, head.decode()

    def test_FP_150_sessions_of_exec_pass_both_ways(self):
        kit.eventually(lambda: outside.get("/shards/echo/services/x").status == 503, what="the shard is known")
        for protocol in ("SPDY/3.1", "websocket"):
            with self.subTest(protocol=protocol):
                self.seen.clear()
                peer, head = self.upgrade(protocol)
                self.assertEqual(head.split("\r\n")[0], "HTTP/1.1 101 Switching Protocols")
                self.assertIn(f"upgrade: {protocol}".lower(), head.lower())
                ((line, fields),) = self.seen
                self.assertEqual(line, "POST /services/exec/a?command=sh HTTP/1.1")
                self.assertEqual(fields["x-stream-protocol-version"], "v4.channel.k8s.io")
                self.assertEqual(fields["x-remote-user"], "kcp-admin")
                for data in (b"\x80\x03\x00\x01", *[bytes([n]) * 8192 for n in range(25)], b"bye"):
                    peer.sendall(data)
                    got = b""
                    while len(got) < len(data):
                        part = peer.recv(65536)
                        self.assertTrue(part, "the session broke")
                        got += part
                    self.assertEqual(got, data)


class Wildcards(unittest.TestCase):
    def test_FP_094_a_bound_resource_needs_its_identity(self):
        installation.make_workspace("listed", selector={"name": "root"})
        shard = shard_client("root")
        group = root.must("GET", "/apis/apis.kcp.io/v1alpha2/apiexports/tenancy.kcp.io")["status"]["identityHash"]
        wildcard = "/clusters/*" + WORKSPACES
        named = shard.get(f"{wildcard}:{group}")
        self.assertEqual(named.status, 200, named)
        self.assertIn("listed", [item["metadata"]["name"] for item in named.json["items"]])
        self.assertEqual(shard.get(f"{wildcard}:{'0' * 64}").status, 404)
        metadata = shard.get(f"{wildcard}:{group}", headers={
            "Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"})
        self.assertEqual((metadata.status, metadata.json["kind"]), (200, "PartialObjectMetadataList"))


if __name__ == "__main__":
    unittest.main()
