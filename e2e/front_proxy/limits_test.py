"""What is refused early or taken away: requests above a limit, answers before the request was read, rights of open watches."""
import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import unittest

import kit
import raw_h2

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TOPOLOGY = "/apis/topology.kcp.io/v1alpha1/"
SERVED = {"partitions": TOPOLOGY + "partitions", "partitionsets": TOPOLOGY + "partitionsets",
          "apiexportendpointslices": "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"}
BUSY = "Too many requests, please try again later."


def setUpModule():
    global installation, root
    installation = kit.Installation(shards=2).start_for()
    root = installation.client()


def shard_url(name, of=None):
    text = ((of or installation).state / "shards" / name / "admin.kubeconfig").read_text()
    return re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)


class EarlyAnswers(unittest.TestCase):
    """curl 7.88 lost about every fifth answer whose stream was reset before its body was sent."""

    def curl(self, url, *arguments, times=50):
        pki = installation.pki
        for turn in range(times):
            done = subprocess.run(["curl", "-sS", "--http2", "--cacert", pki / "serving-ca.crt", "--cert", pki / "admin.crt",
                                   "--key", pki / "admin.key", "-w", "\n%{http_code} %{http_version}", *arguments, url],
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), f"{arguments[:2]}, turn {turn}: {done.stdout}")
            body, _, last = done.stdout.rpartition("\n")
            yield json.loads(body), *last.split()

    def servers(self):
        return f"https://127.0.0.1:{installation.port}", shard_url("root")

    def test_a_form_instead_of_an_object_is_answered_every_time(self):
        for server in self.servers():
            for status, code, version in self.curl(f"{server}/clusters/root{MAPS}", "-d", "a=b"):
                self.assertEqual((status["reason"], code, version), ("UnsupportedMediaType", "415", "2"), server)

    def test_bodies_that_are_sent_in_parts_are_no_exception(self):
        for name, size, times in (("medium", 40_000, 50), ("large", 4_000_000, 10)):
            path = installation.dir / name
            path.write_bytes(b"x" * size)
            for server in self.servers():
                for status, code, version in self.curl(f"{server}/clusters/root{MAPS}", "-H", "Content-Type: text/plain",
                                                       "--data-binary", f"@{path}", times=times):
                    self.assertIn((status["reason"], code, version),
                                  (("UnsupportedMediaType", "415", "2"), ("RequestEntityTooLarge", "413", "2")), server)

    def test_who_is_refused_by_the_proxy_itself_hears_so(self):
        path = installation.dir / "refused"
        path.write_bytes(b"x" * 40_000)
        for status, code, _ in self.curl(f"{self.servers()[0]}/clusters/root:nowhere{MAPS}", "--data-binary", f"@{path}"):
            self.assertEqual((status["reason"], code), ("Forbidden", "403"))


class Discovery(unittest.TestCase):
    def test_AM_055_writing_to_discovery_gives_what_reading_gives(self):
        for path in ("/apis", "/apis/apis.kcp.io", "/apis/apis.kcp.io/v1alpha1", "/apis/topology.kcp.io", "/openapi/v3"):
            plain = root.get(path)
            self.assertEqual(plain.status, 200)
            for method in ("PUT", "DELETE", "POST", "PATCH"):
                for body in (None, {"some": "body"}):
                    with self.subTest(method=method, path=path, body=body):
                        answer = root.request(method, path, body)
                        self.assertTrue(answer.status == 405 or (answer.status, answer.json) == (200, plain.json), answer)
        groups = [group["name"] for group in root.request("PUT", "/apis").json["groups"]]
        self.assertIn("topology.kcp.io", groups)


class Concurrency(unittest.TestCase):
    """Limits of one at a time, at a shard and at a proxy that are started so."""

    @staticmethod
    @contextlib.contextmanager
    def half_sent(client, path, body):
        """A write whose body stays incomplete; yields a function that sends the rest and returns the status line."""
        raw = socket.create_connection((client.url.hostname, client.url.port), timeout=60)
        with client.context.wrap_socket(raw, server_hostname=client.url.hostname) as tls:
            text = json.dumps(body).encode()
            tls.sendall((f"POST {client.url.path.rstrip('/')}{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                         f"Content-Length: {len(text)}\r\n\r\n").encode() + text[:5])

            def finish():
                tls.sendall(text[5:])
                return tls.recv(4096).split(b"\r\n")[0]

            yield finish

    def test_AM_026_AM_067_a_shard_that_is_full_of_writes_still_reads(self):
        with kit.Installation(shards=1) as own:  # a Shard that is gone afterwards would keep other tests waiting
            command = [str(kit.BINARY), "shard", "--join", str(own.state), "--name", "narrow", "--labels", "region=sa-east-1",
                       "--max-writes", "1"]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                kit.eventually(lambda: own.client().get("/apis/core.kcp.io/v1alpha1/shards/narrow").status == 200)
                self.fill(own)
            finally:
                process.terminate()
                process.wait(60)

    def fill(self, own):
        own.make_workspace("narrow", selector={"region": "sa-east-1"})
        proxied = own.client("/clusters/root:narrow")
        kit.eventually(lambda: proxied.get(MAPS + "/kube-root-ca.crt").status == 200)
        found = proxied.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        shard, ca = shard_url("narrow", own), own.pki / "serving-ca.crt"
        direct = kit.Client(f"{shard}/clusters/{found['metadata']['annotations']['kcp.io/cluster']}", ca, own.pki / "admin.crt",
                            own.pki / "admin.key")

        def make(name):
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}

        for client, name in ((proxied, "by-proxy"), (direct, "direct")):
            with self.half_sent(client, MAPS, make(name)) as finish:  # takes no place (SE-075)
                self.assertEqual(client.request("DELETE", MAPS + "/nothing").status, 404)
                self.crowd(client, MAPS, lambda number, n=name: make(f"{n}-{number}"))
                self.assertEqual(client.get(MAPS).status, 200)
                self.assertEqual(next(client.watch(MAPS + "?watch=1"))["type"], "ADDED")
                self.assertEqual(kit.Client(shard, ca).get("/livez").status, 200)
                self.assertEqual(finish(), b"HTTP/1.1 201 Created")
            kit.eventually(lambda c=client, n=name: c.request("DELETE", f"{MAPS}/{n}").status == 200, what="its place is free")

    def crowd(self, client, path, thing):
        """Whole writes that come at once: one of them has the place, others are told to come again."""
        with raw_h2.Connection(client) as connection:
            with connection.at_once():
                streams = []
                for number in range(30):
                    streams.append(connection.open("POST", path, [("content-type", "application/json")], end=False))
                    connection.data(streams[-1], json.dumps(thing(number)).encode(), end=True)
            self.assertTrue(connection.until(lambda: all(s.over for s in streams)))
            refused = [json.loads(s.body) for s in streams if s.status == 429]
            self.assertEqual({s.status for s in streams}, {201, 429}, [s.body for s in streams])
            self.assertEqual({(r["reason"], r["message"], r["details"]["retryAfterSeconds"]) for r in refused},
                             {("TooManyRequests", BUSY, 1)})

    def test_AM_067_what_the_proxy_serves_is_limited_by_its_configuration(self):
        with kit.Proxy(installation, {"limits": {"served": "{writes: 1}"}}, loops=1) as proxy:
            client = proxy.client()

            def thing(name):
                return {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": f"held-{name}"},
                        "spec": {"selector": {}}}

            with self.half_sent(client, SERVED["partitions"], thing("late")) as finish:  # takes no place (SE-075)
                self.assertEqual(client.request("DELETE", SERVED["partitions"] + "/nothing").status, 404)
                self.crowd(client, SERVED["partitions"], thing)
                self.assertEqual(client.get(SERVED["partitions"]).status, 200)
                self.assertGreaterEqual(proxy.metric('kintsugi_limited_total{limit="served"}'), 1)
                self.assertEqual(finish(), b"HTTP/1.1 201 Created")
            for item in client.must("GET", SERVED["partitions"])["items"]:
                kit.eventually(lambda n=item["metadata"]["name"]:
                               client.request("DELETE", f"{SERVED['partitions']}/{n}").status in (200, 404))


class Fairness(unittest.TestCase):
    """One asks for more than he may have: he is told to come later, and nobody else is."""

    @staticmethod
    def clients(server, users, path):
        """A client for each, who may read ConfigMaps there."""
        out = {}
        for user in users:
            cert, key = kit.make_user(installation.dir, installation.pki, user, [])
            out[user] = kit.Client(server + path, installation.pki / "serving-ca.crt", cert, key)
        return out

    @classmethod
    def setUpClass(cls):
        installation.make_workspace("fair")
        inside = installation.client("/clusters/root:fair")
        inside.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "reads"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create"]}]})
        for role in ("reads", "system:kcp:workspace:access"):
            inside.must("POST", RBAC + "/clusterrolebindings", {
                "metadata": {"name": "all-" + role.replace(":", "-")},
                "subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}],
                "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
        for client in cls.clients(f"https://127.0.0.1:{installation.port}", ("heavy", "light"), "/clusters/root:fair").values():
            kit.eventually(lambda c=client: c.get(MAPS).status == 200, what="the right to read")

    def refusal(self, answer, limit, level="tenant"):
        self.assertEqual((answer.status, answer.json["reason"]), (429, "TooManyRequests"), answer)
        self.assertEqual(answer.headers["x-kubernetes-pf-prioritylevel-uid"], level)  # SE-094
        self.assertEqual(answer.json["message"], f"Too many requests: limits.{limit} is reached, please try again later.")
        self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
        self.assertEqual(answer.json["details"]["retryAfterSeconds"], int(answer.headers["retry-after"]))

    def test_FP_139_R_30_a_user_over_his_rate_is_refused_and_nobody_else(self):
        """E11."""
        with kit.Proxy(installation, {"limits": {"user": "{rps: 1, burst: 20}", "unauthenticated": "{rps: 1}"}}) as proxy:
            users = self.clients(f"https://127.0.0.1:{proxy.port}", ("heavy", "light"), "/clusters/root:fair")
            answers = [users["heavy"].get(MAPS) for _ in range(60)]
            counts = {status: sum(a.status == status for a in answers) for status in {a.status for a in answers}}
            self.assertGreaterEqual(counts[200], 20, counts)
            self.assertEqual(set(counts), {200, 429})
            self.refusal(next(a for a in answers if a.status == 429), "user.rps")
            self.assertEqual([users["light"].get(MAPS).status for _ in range(10)], [200] * 10)
            self.assertEqual(proxy.metric('kintsugi_limited_total{limit="user.rps"}'), counts[429])
            nobody = proxy.client("/clusters/root:fair", cert=None)
            self.refusal(next(a for a in (nobody.get(MAPS) for _ in range(60)) if a.status == 429), "unauthenticated.rps", "unknown")
            self.assertEqual([proxy.client("", cert=None).get("/livez").status for _ in range(10)], [200] * 10)

    def test_FP_139_a_watch_too_many_is_refused_until_one_ends(self):
        with kit.Proxy(installation, {"limits": {"user": "{watches: 5}"}}) as proxy:
            users = self.clients(f"https://127.0.0.1:{proxy.port}", ("heavy", "light"), "/clusters/root:fair")
            path = MAPS + "?watch=1&timeoutSeconds=300"
            with raw_h2.Connection(users["heavy"]) as connection:
                streams = [connection.open("GET", path) for _ in range(5)]
                self.assertTrue(connection.until(lambda: all(s.status == 200 for s in streams)))
                self.refusal(users["heavy"].get(path), "user.watches")
                self.assertEqual(users["heavy"].get(MAPS).status, 200, "it is no watch")
                self.assertEqual(next(users["light"].watch(path))["type"], "ADDED")
            kit.eventually(lambda: next(users["heavy"].watch(path))["type"] == "ADDED", what="the places are free again")

    @contextlib.contextmanager
    def narrow(self, *flags):
        """An installation with one more shard of such flags; the client of the workspace that is there, and the URL of the shard."""
        with kit.Installation(shards=1) as own:
            command = [str(kit.BINARY), "shard", "--join", str(own.state), "--name", "narrow", "--labels", "region=sa-east-1", *flags]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                kit.eventually(lambda: own.client().get("/apis/core.kcp.io/v1alpha1/shards/narrow").status == 200)
                own.make_workspace("narrow", selector={"region": "sa-east-1"})
                inside = own.client("/clusters/root:narrow")
                kit.eventually(lambda: inside.get(MAPS + "/kube-root-ca.crt").status == 200)
                yield own, inside, process
            finally:
                process.terminate()
                process.wait(60)

    def test_SE_077_what_somebody_else_refuses_is_charged_to_nobody(self):
        """What a request was charged before it was answered 429 is given back: at the proxy, when the shard says it; at the shard,
        when a later limit does."""
        with self.narrow("--limits", "user.rps=1,user.burst=400,cluster.concurrent=100,shard.rps=1,shard.burst=1") as (own, inside, _):
            with kit.Proxy(own, {"limits": {"user": "{rps: 1, burst: 30}"}}, loops=1) as proxy:
                client = proxy.client("/clusters/root:narrow")
                answers = [client.get(MAPS) for _ in range(150)]
                refused = [a.json["message"] for a in answers if a.status == 429]
                self.assertGreater(len(refused), 100)
                self.assertEqual(set(refused), {"Too many requests: limits.shard.rps is reached, please try again later."})
            for _ in range(400):
                answer = inside.get(MAPS)
                if answer.status == 429:
                    self.assertIn("limits.shard.rps", answer.json["message"], "his own rate is not used up by what was not done")
                    self.assertEqual(answer.headers["x-kubernetes-pf-prioritylevel-uid"], "operator")

    def test_SE_089_a_shard_reads_its_file_of_limits_again(self):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            file = pathlib.Path(folder) / "limits"
            file.write_text("# nobody yet\n")
            _, inside, process = stack.enter_context(self.narrow("--limits-file", str(file)))

            def refusal():
                """The first refusal among some requests at once, if there is one: a place may have come free before any of them."""
                return next((answer for answer in (inside.get(MAPS) for _ in range(10)) if answer.status == 429), None)

            self.assertIsNone(refusal())
            kit.replace_file(file, b"cluster.rps=1\ncluster.burst=2\n")
            self.refusal(kit.eventually(refusal, 30, "the file is read"), "cluster.rps", "operator")
            kit.replace_file(file, b"cluster.rps=a few\n")
            process.send_signal(signal.SIGHUP)
            self.assertTrue(kit.stays(lambda: refusal() is not None, 2), "what cannot be read changes nothing")
            self.assertIsNone(process.poll())
            kit.replace_file(file, b"user.watches=100\n")
            process.send_signal(signal.SIGHUP)
            kit.eventually(lambda: refusal() is None, 30, "it is read again")

    def test_SE_072_at_a_shard_with_few_seats_only_the_one_who_floods_it_is_refused(self):
        with self.narrow("--seats", "2") as (own, inside, _):
            self.flood(own, inside)

    def flood(self, own, inside):
        users = {user: own.user_client(user, [], "/clusters/root:narrow") for user in ("heavy", "light")}
        inside.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "writes"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]}]})
        for role in ("writes", "system:kcp:workspace:access"):
            inside.must("POST", RBAC + "/clusterrolebindings", {
                "metadata": {"name": "all-" + role.replace(":", "-")},
                "subjects": [{"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}],
                "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}, "data": {"k": "v" * 100}}
        for client in users.values():
            kit.eventually(lambda c=client: c.request("POST", MAPS, body).status == 201)
        refused, others = 0, []
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(raw_h2.Connection(users["heavy"])) for _ in range(4)]
            for _ in range(5):
                streams = {connection: [] for connection in connections}
                for connection, mine in streams.items():
                    with connection.at_once():
                        for _ in range(200):
                            mine.append(connection.open("POST", MAPS, [("content-type", "application/json")], end=False))
                            connection.data(mine[-1], json.dumps(body).encode(), end=True)
                others += [users["light"].request("POST", MAPS, body).status for _ in range(3)]
                for connection, mine in streams.items():
                    self.assertTrue(connection.until(lambda all_of=mine: all(s.over for s in all_of)))
                    self.assertLessEqual({s.status for s in mine}, {201, 429})
                    refused += sum(s.status == 429 for s in mine)
        self.assertEqual(others, [201] * 15, "others are never refused")
        self.assertLess(refused, 4_000)  # most wait in the proxy's queues until there is room
        kit.eventually(lambda: users["heavy"].request("POST", MAPS, body).status == 201, what="it is over for him, too")


class Rights(unittest.TestCase):
    def bind(self, client, name, user, rules):
        client.must("POST", RBAC + "/clusterroles", {"metadata": {"name": name}, "rules": rules})
        client.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": name}, "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}})

    def test_TP_122_a_watch_ends_after_its_right(self):
        installation.make_workspace("rights")
        inside = installation.client("/clusters/root:rights")
        for user in ("watcher", "stays"):
            inside.must("POST", RBAC + "/clusterrolebindings", {
                "metadata": {"name": "enters-" + user},
                "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
                "roleRef": {"kind": "ClusterRole", "name": "system:kcp:workspace:access", "apiGroup": "rbac.authorization.k8s.io"}})
            self.bind(inside, "reads-" + user, user, [{"apiGroups": ["topology.kcp.io", "apis.kcp.io"],
                                                       "resources": list(SERVED), "verbs": ["get", "list", "watch"]}])
            self.bind(root, "everywhere-" + user, user, [{"nonResourceURLs": ["/clusters/*"], "verbs": ["list", "watch"]}])
        with kit.Proxy(installation, {"wildcard": "serve", "authorization": {"recheck_watches_ms": 500}}) as proxy:
            def client(user, path):
                cert, key = kit.make_user(installation.dir, installation.pki, user, [])
                return kit.Client(f"https://127.0.0.1:{proxy.port}{path}", installation.pki / "serving-ca.crt", cert, key)

            places = "/clusters/root:rights", "/clusters/*"
            paths = [(place, path) for place in places for path in SERVED.values()]
            for user in ("watcher", "stays"):
                for place, path in paths:
                    kit.eventually(lambda u=user, p=place, q=path: client(u, p).get(q).status == 200, what=f"{user} {place}{path}")
            watches = {user: [kit.Watch(client(user, place), path + "?watch=1&timeoutSeconds=300&sendInitialEvents=true"
                                        "&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true") for place, path in paths]
                       for user in ("watcher", "stays")}
            kit.eventually(lambda: all(watch.events for some in watches.values() for watch in some), what="watches run")
            inside.must("DELETE", RBAC + "/clusterrolebindings/reads-watcher")
            root.must("DELETE", RBAC + "/clusterrolebindings/everywhere-watcher")
            kit.eventually(lambda: all(client("watcher", place).get(path).status == 403 for place, path in paths), 11,
                           "no new request is allowed")
            kit.eventually(lambda: all(watch.ended_at for watch in watches["watcher"]), 15, "the watches have ended")
            self.assertEqual([watch.fault for watch in watches["watcher"]], [None] * 6, "in order")
            self.assertEqual([watch.ended_at for watch in watches["stays"]], [None] * 6)

    def test_SE_160_nobody_is_told_the_same_wherever_it_is_served(self):
        for cluster in ("root", "root:nope"):
            anonymous = installation.client(f"/clusters/{cluster}", cert=None)
            for path in SERVED.values():
                for query in ("", "?watch=1"):
                    refused = anonymous.get(path + query)
                    self.assertEqual((refused.status, refused.json["reason"]), (401, "Unauthorized"), refused)


if __name__ == "__main__":
    unittest.main()
