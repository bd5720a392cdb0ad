"""The files of a kcp installation, as its operators have them: kubeconfigs and what they hold (FP-155, FP-156)."""
import base64
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile
import unittest

import front
import kit

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()
    installation.make_workspace("org", selector={"name": "shard-1"})


def root_url():
    text = (installation.state / "shards" / "root" / "admin.kubeconfig").read_text()
    return re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)


def mapping():
    return front.entry(installation, "/clusters/", front.CLUSTERS)


def proxy_with(root=None, shards=None, *more):
    flags = [flag for name, path in (("root", root), ("shards", shards)) if path for flag in [f"--{name}-kubeconfig={path}"]]
    return front.FrontProxy(installation, mapping(), *flags, *more)


def serves(proxy):
    return proxy.client("").get("/clusters/root:org/api/v1/namespaces/default").status == 200


numbers = itertools.count()


def reviewed_as(proxy, gate):
    """The credential of the review that a request for metrics needs, asked for once more."""
    gate.asked.clear()
    name = f"reader-{len(proxy.log.read_text())}-{next(numbers)}"  # a verdict is remembered by user
    pair = kit.make_user(installation.dir, installation.pki, name, [])
    kit.Client(f"https://127.0.0.1:{proxy.port}", installation.pki / "serving-ca.crt", *pair).get("/metrics")
    return {said for path, said in gate.asked if "subjectaccessreviews" in path}


class Kubeconfigs(unittest.TestCase):
    def gate(self, *accepted):
        gate = front.Gate(installation, root_url(), accepted)
        self.addCleanup(gate.close)
        return gate

    def test_FP_155_the_servers_of_shards_stand_elsewhere(self):
        paths = [front.kubeconfig(installation, front.pair(installation), server) for server in ("", "https://127.0.0.1:1")]
        absent = front.kubeconfig(installation, front.pair(installation))
        content = json.loads(absent.read_text())
        del content["clusters"][0]["cluster"]["server"]
        absent.write_text(json.dumps(content))
        for path in (*paths, absent):
            with proxy_with(None, path) as proxy:
                self.assertTrue(serves(proxy))
        # Where the root shard is, only its own kubeconfig says.
        run = proxy_with(paths[0]).run()
        self.assertEqual((run.returncode, run.stderr.count("no server for the cluster of context")), (1, 1), run.stderr)

    def test_FP_156_every_kind_of_credential_is_used(self):
        token = installation.dir / "token"
        token.write_text("of-a-file\n")
        basic = "Basic " + base64.b64encode(b"proxy:pass:word").decode()
        certificate = front.pair(installation)
        data = {f"{key}-data": base64.b64encode(open(path, "rb").read()).decode() for key, path in certificate.items()}
        for user, said in (({"token": "plain"}, "Bearer plain"), ({"tokenFile": str(token)}, "Bearer of-a-file"),
                           ({"username": "proxy", "password": "pass:word"}, basic), (data, None)):
            gate = self.gate("Bearer plain", "Bearer of-a-file", basic)
            url = gate.url if said else root_url()
            with self.subTest(user=list(user)), proxy_with(front.kubeconfig(installation, user, url)) as proxy:
                self.assertTrue(serves(proxy))
                if said:
                    own = [one for one in gate.asked if "X-Remote" not in str(one)]
                    self.assertTrue(own)
                    self.assertEqual({value for _, value in own}, {said})

    def test_FP_156_a_server_that_is_not_verified_is_warned_of(self):
        path = front.kubeconfig(installation, front.pair(installation), root_url())
        content = json.loads(path.read_text())
        cluster = content["clusters"][0]["cluster"]
        for key in [key for key in cluster if key.startswith("certificate-authority")]:
            del cluster[key]
        cluster["insecure-skip-tls-verify"] = True
        path.write_text(json.dumps(content))
        with proxy_with(path) as proxy:
            self.assertTrue(serves(proxy))
            self.assertIn("a server's certificate is not verified", proxy.log.read_text())

    def test_FP_156_warnings_about_files_come_once(self):
        path = front.kubeconfig(installation, front.pair(installation), root_url())
        with proxy_with(path, path, "--insecure-file-modes") as proxy:
            self.assertTrue(serves(proxy))
            self.assertEqual(sum(line["msg"] == "the proxy's own credential can do more than is needed" for line in proxy.lines()), 1)
            path.chmod(0o644)
            kit.eventually(lambda: any(line["msg"] == "files reloaded" for line in proxy.lines()) or os.utime(path) or
                           os.kill(proxy.process.pid, signal.SIGHUP), 15, "they are read again")
            self.assertEqual(sum(line["msg"] == "a secret file is open to others" for line in proxy.lines()), 1)

    def test_FP_156_shards_and_peers_are_asked_with_the_credentials_of_their_files(self):
        gate, asked = self.gate("Bearer of-shards"), set()
        shards = installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards")
        shown = dict(shards, items=[dict(one, spec=dict(one["spec"], baseURL=gate.url)) for one in shards["items"]
                                    if one["metadata"]["name"] == "root"])

        def answer(request):
            asked.add(request.headers.get("Authorization"))
            return (400, {"kind": "Status", "apiVersion": "v1", "code": 400}) if "watch=" in request.path else (200, shown)

        peer = kit.JsonServer(installation.pki, answer)
        self.addCleanup(peer.close)
        peers = front.kubeconfig(installation, {"token": "of-peers"}, peer.url)
        path = front.kubeconfig(installation, {"token": "of-shards"})
        with proxy_with(None, path, f"--shard-peer-kubeconfig={peers}") as proxy:
            self.assertEqual(proxy.client("").get("/clusters/root/api").status, 200)
            self.assertEqual(asked, {"Bearer of-peers"})
            self.assertIn(("Bearer of-shards"), {said for where, said in gate.asked if where.startswith("/clusters/*")
                                                 or where.startswith("/clusters/%2A")})
            # What callers ask for never has it.
            self.assertEqual({said for where, said in gate.asked if where == "/clusters/root/api"}, {None})

    def test_FP_156_a_token_that_is_rotated(self):
        token = installation.dir / "rotated"
        token.write_text("one")
        gate = self.gate("Bearer one")
        peer = ShownShards(lambda one: {"baseURL": gate.url} if one["metadata"]["name"] == "root" else None)
        self.addCleanup(peer.server.close)
        with proxy_with(None, front.kubeconfig(installation, {"tokenFile": str(token)}), peer.flag) as proxy:
            self.assertEqual(reviewed_as(proxy, gate), {"Bearer one"})
            gate.accepted = {"Bearer two"}
            kit.replace_file(token, b"two\n")
            kit.eventually(lambda: reviewed_as(proxy, gate) == {"Bearer two"}, 10, "the new token is used")
            kit.replace_file(token, b"")  # nothing is no token: the old one stays
            kit.eventually(lambda: f"tokenFile: {token} is empty" in proxy.log.read_text(), 10, "a line about it")
            self.assertEqual(reviewed_as(proxy, gate), {"Bearer two"})

    def plugin(self, **more):
        """A program that prints the token in the file `says`, for so many seconds; it counts how often it was asked."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="plugin-"))
        (folder / "says").write_text("first")
        (folder / "program").write_text(f"""#!{sys.executable}
import datetime, json, os, pathlib
here = pathlib.Path(__file__).parent
with (here / "asked").open("a") as asked:
    asked.write(os.environ["KUBERNETES_EXEC_INFO"] + "\\n")
end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=float(os.environ["LASTS"]))
status = {{"token": (here / "says").read_text()}}
if os.environ["LASTS"] != "0":
    status["expirationTimestamp"] = end.strftime("%Y-%m-%dT%H:%M:%SZ")
print(json.dumps({{"apiVersion": os.environ["VERSION"], "kind": "ExecCredential", "status": status}}))
""")
        (folder / "program").chmod(0o700)
        version = more.pop("version", "client.authentication.k8s.io/v1")
        return folder, {"exec": {"apiVersion": version, "command": str(folder / "program"), "interactiveMode": "Never",
                                 "env": [{"name": "LASTS", "value": more.pop("lasts", "600")}, {"name": "VERSION", "value": version}], **more}}

    def test_FP_156_exec_credentials_are_asked_for_and_renewed(self):
        """By a helper, for the proxy itself runs no programs (SE-185)."""
        for version in ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"):
            folder, user = self.plugin(version=version, lasts="4", provideClusterInfo=True)
            gate = self.gate("Bearer first", "Bearer second")
            peer = ShownShards(lambda one, g=gate: {"baseURL": g.url} if one["metadata"]["name"] == "root" else None)
            self.addCleanup(peer.server.close)
            with self.subTest(version=version), proxy_with(front.kubeconfig(installation, user, gate.url),
                                                           front.kubeconfig(installation, user, gate.url), peer.flag) as proxy:
                self.assertEqual(reviewed_as(proxy, gate), {"Bearer first"})
                info = json.loads((folder / "asked").read_text().splitlines()[0])
                self.assertEqual((info["kind"], info["apiVersion"], info["spec"]["interactive"]), ("ExecCredential", version, False))
                self.assertEqual(info["spec"]["cluster"]["server"], gate.url)
                kit.replace_file(folder / "says", b"second")
                kit.eventually(lambda p=proxy, g=gate: reviewed_as(p, g) == {"Bearer second"}, 30, "the new token")
                self.assertNotIn("Bearer", proxy.log.read_text())

    def test_FP_156_an_exec_credential_that_is_refused_is_asked_for_again(self):
        """One that does not say how long it holds."""
        folder, user = self.plugin(lasts="0")
        gate = self.gate("Bearer second")
        proxy = proxy_with(front.kubeconfig(installation, user, gate.url))
        proxy.begin()
        self.addCleanup(proxy.__exit__)
        kit.eventually(lambda: any(said == "Bearer first" for _, said in gate.asked), 15, "the first token")
        kit.replace_file(folder / "says", b"second")
        kit.eventually(lambda: proxy.client("").get("/readyz").status == 200, 40, "the new token is used")
        self.assertTrue(serves(proxy))

    def test_FP_156_an_exec_credential_that_cannot_be_had(self):
        for change, text in (({"command": "/no/such"}, 'user "me": exec: "/no/such": there is no such program'),
                             ({"command": "/bin/false"}, 'exec: "/bin/false": it ended with status 1'),
                             ({"command": "/bin/echo"}, 'exec: "/bin/echo": what it prints is no JSON object'),
                             ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, 'user "me": exec.apiVersion: must be one of'),
                             ({"interactiveMode": "Always"}, 'user "me": exec.interactiveMode: nobody is asked here'),
                             ({"command": "", "installHint": "x"}, 'user "me": exec.command: missing')):
            _, user = self.plugin()
            user["exec"].update(change)
            path = front.kubeconfig(installation, user, root_url())
            run = proxy_with(path, None).run()
            lines = [line for line in run.stderr.splitlines() if not line.startswith("{")]
            self.assertEqual((run.returncode, len(lines)), (1, 1), run.stderr)
            self.assertIn(f"{path}: ", lines[0])
            self.assertIn(text, lines[0])

    def test_FP_156_who_impersonates_says_so_in_every_own_request(self):
        gate = self.gate("Bearer plain")
        user = {"token": "plain", "as": "kcp-reader", "as-groups": ["system:kcp:admin"], "as-user-extra": {"Some/Key": ["v"]}}
        with proxy_with(front.kubeconfig(installation, user, gate.url)) as proxy:
            self.assertTrue(serves(proxy))
            own = [headers for (_, said), headers in zip(gate.asked, gate.headers) if said]
            self.assertTrue(own)
            for headers in own:
                lower = {name.lower(): value for name, value in headers.items()}
                self.assertEqual((lower["impersonate-user"], lower["impersonate-extra-some%2fkey"]), ("kcp-reader", "v"))
            line = next(one for one in proxy.lines() if one["msg"] == "asked" and "apiexports" in one["path"])
            self.assertEqual(line["code"], 200)

    def test_FP_156_a_proxy_makes_the_connections(self):
        said = "Basic " + base64.b64encode(b"me:secret").decode()
        middle = front.ConnectProxy(said)
        self.addCleanup(middle.close)
        through = middle.url.replace("http://", "http://me:secret@")
        root = front.kubeconfig(installation, front.pair(installation), root_url(), **{"proxy-url": through})
        shards = front.kubeconfig(installation, front.pair(installation), "", **{"proxy-url": through})
        with proxy_with(root, shards) as proxy:
            self.assertTrue(serves(proxy))
            hosts = {shard["spec"]["baseURL"].removeprefix("https://")
                     for shard in installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]}
            self.assertEqual(set(middle.asked), hosts, "every shard, and nothing else")
            self.assertNotIn("secret", proxy.log.read_text())
        # One that refuses is told of, and nothing goes another way.
        other = front.kubeconfig(installation, front.pair(installation), root_url(), **{"proxy-url": middle.url})
        proxy = proxy_with(other, None)
        proxy.begin()
        self.addCleanup(proxy.__exit__)
        count = len(middle.asked)
        kit.eventually(lambda: len(middle.asked) > count + 2, 15, "it is asked")
        self.assertEqual(proxy.client("").get("/readyz").status, 500)

    def test_FP_156_what_is_not_supported_ends_the_start_with_a_line(self):
        for user, cluster, text in (({"auth-provider": {"name": "oidc"}}, {}, 'user "me": auth-provider: not supported'),
                                    ({"token": "t", "as-groups": ["somebody"]}, {}, 'user "me": as: missing, as-groups is there'),
                                    ({"token": "t", "exec": {"command": "x"}}, {}, 'user "me": exec: not beside another credential'),
                                    ({"token": "t"}, {"proxy-url": "socks5://127.0.0.1:1"},
                                     'cluster "here": proxy-url: only http://host:port is supported'),
                                    ({}, {}, "no client certificate, token or password")):
            path = front.kubeconfig(installation, user, root_url(), **cluster)
            for root, shards in ((path, None), (None, path)):
                run = proxy_with(root, shards).run()
                lines = [line for line in run.stderr.splitlines() if not line.startswith("{")]
                self.assertEqual((run.returncode, len(lines)), (1, 1), run.stderr)
                self.assertIn(f"{path}: {text}", lines[0])


class ShownShards:
    """A peer that shows the Shards with another external URL: that of the proxy which asks, as kcp's shards have it."""

    def __init__(self, change=lambda one: {}):
        self.shards = installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards")
        self.url = f"https://127.0.0.1:{installation.port}"

        def answer(request):
            if "watch=" in request.path:
                return 400, {"kind": "Status", "apiVersion": "v1", "code": 400}
            return 200, dict(self.shards, items=[dict(one, spec={**one["spec"], "externalURL": self.url, **change(one)}) for one in self.shards["items"] if change(one) is not None])

        self.server = kit.JsonServer(installation.pki, answer)
        self.flag = f"--shard-peer-kubeconfig={front.kubeconfig(installation, front.pair(installation), self.server.url)}"


class Mounts(unittest.TestCase):
    def mount(self, name, url):
        pki = installation.pki
        system = kit.Client(root_url() + "/clusters/root", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")
        system.must("POST", WORKSPACES, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": {
            "URL": url, "mount": {"ref": {"apiVersion": "mounts.test/v1", "kind": "Mount", "name": name}}}})
        self.addCleanup(system.request, "DELETE", f"{WORKSPACES}/{name}")
        installation.client().must("PATCH", f"{WORKSPACES}/{name}/status", json.dumps({"status": {"phase": "Ready"}}),
                                   headers={"Content-Type": "application/merge-patch+json"})

    def test_FP_131_mounts_of_workspaces_behind_the_same_proxy(self):
        peer = ShownShards()
        self.addCleanup(peer.server.close)
        here = installation.client("/clusters/root:org").must("GET", "/api/v1/namespaces/default")["metadata"]["annotations"]["kcp.io/cluster"]
        proxy = proxy_with(None, None, peer.flag)
        peer.url = f"https://127.0.0.1:{proxy.port}"
        chain = {f"far-{n}": f"far-{n + 1}" if n < 8 else "org" for n in range(9)}  # "far-0" leads by eight more to the workspace
        for name, to in {**chain, "itself": "itself", "ping": "pong", "pong": "ping"}.items():
            self.mount(name, f"{peer.url}/clusters/root:{to}")
        with proxy:
            client = proxy.client("")
            for name, status in (("far-8", 200), ("far-7", 200), ("far-1", 200), ("far-0", 508), ("itself", 508), ("ping", 508)):
                with self.subTest(name=name):
                    answer = kit.eventually(lambda n=name, s=status: (a := client.get(f"/clusters/root:{n}/api/v1/namespaces/default")).status == s
                                            and a, 10, f"{status} of {name}")
                    if status == 200:
                        self.assertEqual(answer.json["metadata"]["annotations"]["kcp.io/cluster"], here)
                    else:
                        self.assertEqual(answer.json["message"], "proxy loop detected")
            review = client.must("POST", f"/clusters/root:far-7{kit.SELF_REVIEWS}", kit.SELF_REVIEW)
            self.assertEqual(review["status"]["userInfo"]["username"], "kcp-admin", "everybody comes as oneself")


class Told(unittest.TestCase):
    """What the log, the probes and the metrics say to those who run the proxy."""

    def test_FP_157_what_the_root_shard_refuses_is_told_once(self):
        status = {"now": 403}
        gate = front.Gate(installation, root_url(), ["Bearer plain"], lambda path: status["now"] if "/apiexports/tenancy" in path else None)
        self.addCleanup(gate.close)
        proxy = proxy_with(front.kubeconfig(installation, {"token": "plain"}, gate.url), None)
        begun, ended = "a server refuses what the proxy asks for itself", "a server answers again what it refused"
        proxy.begin()
        self.addCleanup(proxy.__exit__)
        line = kit.eventually(lambda: next(one for one in proxy.lines() if one["msg"] == begun), 15, "a warning")
        self.assertEqual((line["level"], line["shard"], line["code"], line["user"], line["message"]),
                         ("warn", "root", 403, "the bearer of a token", "the gate says 403"))
        self.assertTrue(line["url"].endswith("/apiexports/tenancy.kcp.io"), line)
        count = len(gate.asked)
        kit.eventually(lambda: len(gate.asked) > count + 8, 15, "it goes on asking")
        self.assertEqual(sum(one["msg"] == begun for one in proxy.lines()), 1)
        probe = proxy.client("").get("/readyz?verbose")
        self.assertEqual(probe.status, 500)
        self.assertIn(b"[-]informer-sync failed: reason withheld", probe.body)  # root, which knows the rights, is not known yet
        status["now"] = None
        kit.eventually(lambda: proxy.client("").get("/readyz").status == 200, 15, "ready")
        kit.eventually(lambda: any(one["msg"] == ended for one in proxy.lines()), 5, "the end of it")
        self.assertEqual(sum(one["msg"] == begun for one in proxy.lines()), 1)

    def test_FP_157_requests_upstream_are_in_the_log_from_v4_on(self):
        for level, is_told in (("--v=4", True), ("--v=3", False)):
            with proxy_with(None, None, level) as proxy:
                self.assertEqual(proxy.client("").get("/clusters/root:org/api/v1/namespaces/default?secret=x").status, 200)
                asked = [one for one in proxy.lines() if one["msg"] == "asked"]
                self.assertEqual(bool(asked), is_told, level)
                if is_told:
                    mine = [one for one in asked if one["path"].endswith("/namespaces/default")]
                    self.assertEqual([(one["server"], one["method"], one["code"]) for one in mine], [("shard-1", "GET", 200)])
                    self.assertTrue(all(isinstance(one["ms"], int) for one in asked))
                    self.assertNotIn("secret", json.dumps(mine))
                    for resource in ("workspaces", "logicalclusters", "apiexports", "apibindings"):
                        followed = [one for one in asked if f"/{resource}" in one["path"] and one["path"].startswith("/clusters/%2A/")]
                        self.assertTrue(followed, resource)
                        self.assertEqual({one["code"] for one in followed}, {200})
                    self.assertNotIn("watch=", proxy.log.read_text())

    def test_FP_160_metrics_of_the_secure_port(self):
        root = installation.client()
        root.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", {
            "metadata": {"name": "scraper"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]})
        root.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "scraper"}, "subjects": [{"kind": "User", "name": "scraper", "apiGroup": "rbac.authorization.k8s.io"}],
            "roleRef": {"kind": "ClusterRole", "name": "scraper", "apiGroup": "rbac.authorization.k8s.io"}})
        with proxy_with() as proxy:
            pki = installation.pki

            def scrape(name):
                pair = kit.make_user(installation.dir, pki, name, []) if name else (None, None)
                return kit.Client(f"https://127.0.0.1:{proxy.port}", pki / "serving-ca.crt", *pair).get("/metrics")

            self.assertEqual(proxy.client("").get("/clusters/root:org/api").status, 200)
            answer = kit.eventually(lambda: (a := scrape("scraper")).status == 200 and a, 10, "the metrics")
            for name in ('kcp_indexed_logicalclusters{shard="root"}', 'kintsugi_shard_up{shard="shard-1"}', "process_cpu_seconds_total"):
                self.assertIn("\n" + name + " ", answer.body.decode())
            self.assertEqual((scrape("stranger").status, scrape(None).status), (403, 401))

    def test_FP_083_FP_081_kcps_own_metrics(self):
        """By kcp's names, also while a watch runs."""
        admin = front.FrontProxy(installation, mapping(), f"--profiler-address=127.0.0.1:{kit.free_port()}")
        port = admin.arguments[-1].rpartition(":")[2]

        def value(name, **labels):
            text = kit.Client(f"https://127.0.0.1:{port}", installation.pki / "serving-ca.crt", installation.pki / "admin.crt",
                              installation.pki / "admin.key").get("/metrics").body.decode()
            rows = [line.rpartition(" ") for line in text.splitlines() if line.startswith(name + "{")]
            return sum(float(row[2]) for row in rows if all(f'{key}="{wanted}"' in row[0] for key, wanted in labels.items()))

        with admin as proxy:
            maps = "/clusters/root:org/api/v1/namespaces/default/configmaps"
            watch = kit.Watch(proxy.client(""), f"{maps}?watch=1&timeoutSeconds=30")
            proxy.client("").must("POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m-{port}"}})
            kit.eventually(lambda: watch.events, 15, "an event")
            down = value("kcp_backend_rs_body_bytes", shard="shard-1")
            self.assertGreater(down, 0)
            self.assertGreater(value("kcp_backend_rq_body_bytes", shard="shard-1"), 0)
            proxy.client("").must("POST", maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"n-{port}"}})
            kit.eventually(lambda: value("kcp_backend_rs_body_bytes", shard="shard-1") > down, 15, "they rise while it runs")
            self.assertEqual(value("proxy_request_duration_seconds_count", method="post", code="201"), 2)
            self.assertEqual(value("proxy_request_duration_seconds_bucket", method="post", code="201", le="60"), 2)
            self.assertEqual(proxy.client("").get("/clusters/root:nobody/api").status, 403)
            self.assertEqual(value("proxy_request_duration_seconds_count", method="get", code="403"), 1)
            self.assertEqual(value("proxy_request_duration_seconds_count", method="get", code="200"), 0, "the watch is not among them")
            # Kintsugi's own, by shard.
            for labels, count in (({"verb": "create", "code": "201"}, 2), ({"verb": "watch", "code": "200"}, 1), ({"verb": "get"}, 0)):
                self.assertEqual(value("kintsugi_requests_total", shard="shard-1", **labels), count, labels)
            self.assertEqual(value("kintsugi_streams", shard="shard-1", kind="watch"), 1)
            self.assertEqual(value("kintsugi_streams", shard="root"), 0)
            for direction, kcps in (("request", "kcp_backend_rq_body_bytes"), ("response", "kcp_backend_rs_body_bytes")):
                self.assertEqual(value("kintsugi_stream_bytes_total", shard="shard-1", direction=direction), value(kcps, shard="shard-1"))
            self.assertEqual(value("kintsugi_retries_total", shard="shard-1"), 0)
            self.assertEqual(value("kintsugi_request_overhead_seconds_bucket", le="+Inf"), 3)
            for cause in ("unknown_ca", "expired_cert", "cipher_mismatch", "hostname_mismatch", "other"):
                self.assertEqual(value("kcp_listener_tls_connection_error", shard="shard-1", error_type=cause), 0)


class Machine(unittest.TestCase):
    """Ports, folders and processes."""

    def test_FP_161_a_port_is_of_one_process(self):
        with proxy_with() as first:
            port = f"--secure-port={first.port}"
            second = proxy_with(None, None, port)
            run = second.run()
            self.assertEqual(run.returncode, 1)
            self.assertIn(f"127.0.0.1:{first.port}: address already in use", run.stderr)
        with proxy_with(None, None, "--permit-port-sharing") as first:
            second = proxy_with(None, None, f"--secure-port={first.port}", "--permit-port-sharing")
            second.port = first.port
            with second:
                kit.eventually(lambda: "listening" in second.log.read_text(), 10, "both have the port")
                self.assertIsNone(first.process.poll())
                first.__exit__()
                kit.eventually(lambda: serves(second), 15, "the other one serves")

    def test_FP_158_nothing_is_written_where_nothing_can_be(self):
        """As the image of kcp's operator has it: another user, and a working directory that is not his."""
        home = pathlib.Path(tempfile.mkdtemp(dir="/tmp", prefix="kintsugi-fp158-"))
        self.addCleanup(shutil.rmtree, home, True)
        user = 65532 if os.getuid() == 0 else os.getuid()
        files, read_only = home / "files", home / "ro"
        read_only.mkdir()
        shutil.copytree(installation.pki, files)
        shutil.copy(kit.BINARY, home / "kcp-front-proxy")
        shutil.copy(installation.state / "shards" / "root" / "admin.kubeconfig", files / "admin.kubeconfig")
        text = mapping().replace(str(installation.pki), str(files))
        for path in (home, files, *files.iterdir(), home / "kcp-front-proxy"):
            os.chown(path, user, user)
        for path in (home, read_only):
            path.chmod(0o755)
        (home / "kcp-front-proxy").chmod(0o755)
        read_only.chmod(0o555)
        before = sorted(home.rglob("*"))

        def replaced(proxy):
            proxy.mapping = files / "mapping.yaml"
            proxy.mapping.write_text(text)
            os.chown(proxy.mapping, user, user)
            names = {"--mapping-file": proxy.mapping, "--root-kubeconfig": files / "admin.kubeconfig", "--shards-kubeconfig": files / "admin.kubeconfig"}
            given = [flag for flag in proxy.arguments if not flag.startswith("--root-directory")]
            proxy.arguments = [f"{name}={names[name]}" if (name := flag.split("=")[0]) in names else flag.replace(str(installation.pki), str(files))
                               for flag in given]
            proxy.program, proxy.dir, proxy.user = home / "kcp-front-proxy", read_only, user
            return proxy

        for root in ([], ["--root-directory=absent"], [f"--root-directory={read_only}"]):
            proxy = replaced(proxy_with())
            proxy.arguments += root
            with proxy:
                self.assertTrue(serves(proxy))
                warned = [line for line in proxy.lines() if line["msg"].startswith("the folder for the proxy's own data cannot be written")]
                self.assertEqual([(line["flag"], line["folder"]) for line in warned],
                                 [("--root-directory", str((read_only / "absent" if "absent" in str(root) else read_only / ".kcp" if not root else read_only)
                                                           / "kintsugi-proxy"))])
        self.assertEqual([path for path in sorted(home.rglob("*")) if path not in before and path.name != "mapping.yaml"], [])
        # What has to be kept somewhere ends the start: a serving pair of its own, kinds that it stores.
        proxy = replaced(proxy_with())
        proxy.arguments = [flag for flag in proxy.arguments if not flag.startswith("--tls-")]
        run = proxy.run()
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, f"--root-directory: {read_only}/.kcp: ")

    def test_FP_159_objects_stay_where_the_shard_has_them(self):
        """A kcp shard serves topology.kcp.io itself; embedded ones do not, so the gate in front of one does."""
        group, stored = "/clusters/root/apis/topology.kcp.io/v1alpha1", {}

        def answer(method, path, body):
            path = path.partition("?")[0]
            if path == group:
                return 200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "topology.kcp.io/v1alpha1", "resources": [
                    {"name": name, "kind": kind, "namespaced": False, "verbs": ["get", "list", "create"]}
                    for name, kind in (("partitions", "Partition"), ("partitionsets", "PartitionSet"))]}
            if path == f"{group}/partitions" and method == "POST":
                value = json.loads(body)
                stored[value["metadata"]["name"]] = value
                return 201, value
            name = path.removeprefix(f"{group}/partitions/")
            return (200, stored[name]) if name in stored else None

        gate = front.Gate(installation, root_url(), ["Bearer of-shards"], answer=answer)
        self.addCleanup(gate.close)
        peer = ShownShards(lambda one: {"baseURL": gate.url} if one["metadata"]["name"] == "root" else None)
        self.addCleanup(peer.server.close)
        shards = front.kubeconfig(installation, {"token": "of-shards"})
        partition = {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": "mine"}, "spec": {}}
        path = "/apis/topology.kcp.io/v1alpha1/partitions"
        with proxy_with(None, shards, peer.flag) as one, proxy_with(None, shards, peer.flag) as two:
            self.assertEqual(one.client().must("POST", path, partition), partition)
            self.assertEqual(stored, {"mine": partition})
            for proxy in (one, two):
                self.assertEqual(proxy.client().must("GET", f"{path}/mine"), partition)
            one.__exit__()
            self.assertEqual(two.client().must("GET", f"{path}/mine"), partition)


if __name__ == "__main__":
    unittest.main()
