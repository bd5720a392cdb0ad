"""The proxy's audit log (R-31, FP-143), and the webhook that events are posted to (SE-168)."""
import http.server
import json
import os
import subprocess
import threading
import time
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, nonResourceURLs: ["*"]}
- {level: Metadata, resources: [{group: "", resources: [configmaps, secrets]}]}
"""


def setUpModule():
    global installation
    installation = kit.Installation(shards=1).start_for()


def events_in(log, **wanted):
    """Events of a log whose fields have these values."""
    events = [json.loads(line) for line in log.read_text().split("\n")[:-1]] if log.exists() else []
    return [event for event in events if all(event.get(key) == value for key, value in wanted.items())]


def end_shard(process, name):
    """The next proxy does not wait for a shard that is no more."""
    process.terminate()
    process.wait(60)
    installation.client().request("DELETE", f"/apis/core.kcp.io/v1alpha1/shards/{name}")


class Collector:
    """A server that events are posted to; `status` is its answer."""

    def __init__(self, port=0):
        self.status, self.batches, self.events = 200, [], []
        collector = self

        class Posts(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if collector.status == 200:
                    collector.batches.append((self.path, self.headers["Authorization"], body))
                    collector.events.extend(body["items"])
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Posts)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def webhook_file(folder, port):
    """The kubeconfig of such a server."""
    file = folder / "webhook.kubeconfig"
    file.touch(0o600)
    file.write_text(f"""apiVersion: v1
kind: Config
clusters: [{{name: hook, cluster: {{server: "http://127.0.0.1:{port}/audit"}}}}]
users: [{{name: us, user: {{token: known-to-the-hook}}}}]
contexts: [{{name: hook, context: {{cluster: hook, user: us}}}}]
current-context: hook
""")
    return file


class Audit(unittest.TestCase):
    def policy(self, text=POLICY):
        file = installation.dir / f"{self.id()}.yaml"
        file.write_text(text)
        return file

    def test_FP_143_one_event_has_the_id_that_the_shard_logs(self):
        shard_log = installation.dir / "shard-audit.jsonl"
        with (installation.dir / "audited.log").open("wb") as out:
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(installation.state), "--name", "audited",
                                      "--labels", "audited=yes", "--audit-log", str(shard_log)], stdout=out, stderr=out)

        self.addCleanup(end_shard, shard, "audited")
        root = installation.client()
        kit.eventually(lambda: root.get("/apis/core.kcp.io/v1alpha1/shards/audited").status == 200, 20, "the shard is known")
        cluster = installation.make_workspace("audited", selector={"audited": "yes"})["spec"]["cluster"]
        policy = self.policy()
        with kit.Proxy(installation, {"audit": {"log_file": "audit.jsonl", "policy_file": str(policy)}}) as proxy:
            log = proxy.dir / "audit.jsonl"
            client = proxy.client("/clusters/root:audited")
            client.must("POST", SECRETS, {"metadata": {"name": "s"}, "stringData": {"p": "hunter2"}})
            event = kit.eventually(lambda: events_in(log, verb="create"), what="the request is in the log")[0]
            self.assertEqual(event["requestURI"], "/clusters/root:audited" + SECRETS)
            self.assertEqual(event["user"]["username"], "kcp-admin")
            self.assertEqual(event["objectRef"], {"apiVersion": "v1", "namespace": "default", "resource": "secrets"})
            self.assertEqual((event["level"], event["stage"], event["responseStatus"]["code"]),
                             ("Metadata", "ResponseComplete", 201))
            at_shard = kit.eventually(lambda: events_in(shard_log, auditID=event["auditID"]), what="the shard's line")
            self.assertEqual(len(at_shard), 1)
            self.assertEqual(at_shard[0]["annotations"]["kcp.io/cluster"], cluster)
            self.assertEqual(at_shard[0]["verb"], "create")
            # KK-315: what peers read of Secrets is written down, whichever way they come.
            pair = kit.make_user(installation.dir, installation.pki, "external-logical-cluster-admin",
                                 ("system:kcp:external-logical-cluster-admin",))
            port = (installation.state / "shards/audited/port").read_text().strip()
            for number, base in enumerate((f"https://127.0.0.1:{proxy.port}", f"https://127.0.0.1:{port}")):
                peer = kit.Client(f"{base}/clusters/{cluster}", installation.pki / "serving-ca.crt", *pair)
                peer.must("GET", SECRETS + "/s", headers={"Audit-ID": f"peer-{number}"})
                line = kit.eventually(lambda n=number: events_in(shard_log, auditID=f"peer-{n}"), what="the shard's line")[0]
                self.assertEqual((line["user"]["username"], line["verb"], line["objectRef"]["resource"], line["objectRef"]["name"]),
                                 ("external-logical-cluster-admin", "get", "secrets", "s"))
            kit.eventually(lambda: events_in(log, auditID="peer-0"), what="the proxy's line")
            # What the caller names the request is its id everywhere.
            answer = client.get(SECRETS + "/s", headers={"Audit-ID": "mine"})
            self.assertEqual(answer.headers["Audit-ID"], "mine")
            kit.eventually(lambda: len(events_in(log, auditID="mine")) == len(events_in(shard_log, auditID="mine")) == 1)
            watch = client.connect()
            watch.request("GET", "/clusters/root:audited" + MAPS + "?watch=1")
            watch.getresponse()
            kit.eventually(lambda: events_in(log, verb="watch", stage="ResponseStarted"), what="the watch has begun")
            self.assertEqual(events_in(log, verb="watch", stage="ResponseComplete"), [])
            watch.close()
            kit.eventually(lambda: events_in(log, verb="watch", stage="ResponseComplete"), what="the watch has ended")
            self.assertEqual(client.get("/api").status, 200)
            self.assertEqual(len(events_in(log)), 5, "nothing of paths that the policy leaves out")
            self.assertNotIn("hunter2", log.read_text())
            # Another policy counts without a restart, a broken one does not.
            kit.replace_file(policy, b"rules: what?\n")
            kit.eventually(lambda: "reload failed" in proxy.text())
            kit.replace_file(policy, POLICY.replace("level: None", "level: Request").encode())
            kit.eventually(lambda: client.get("/version") and events_in(log, requestURI="/clusters/root:audited/version"))
            kit.eventually(lambda: "levels Request and RequestResponse are Metadata here" in proxy.text())
            self.assertEqual(proxy.metric("kintsugi_audit_dropped_total"), 0)

    def test_FP_143_a_full_disk_harms_no_traffic(self):
        log = installation.dir / "full.jsonl"
        log.symlink_to("/dev/full")
        with kit.Proxy(installation, {"audit": {"log_file": str(log)}}) as proxy:
            client = proxy.client()
            for _ in range(50):
                self.assertEqual(client.get(MAPS).status, 200)
            kit.eventually(lambda: proxy.metric("kintsugi_audit_dropped_total") >= 50, what="drops are counted")
            kit.eventually(lambda: proxy.metric("kintsugi_audit_events_total") >= 50, what="events are counted")

    def test_FP_143_a_disk_that_hangs_harms_no_traffic(self):
        log = installation.dir / "pipe.jsonl"
        os.mkfifo(log)  # nobody reads: writes block when it is full
        with kit.Proxy(installation, {"audit": {"log_file": str(log)}}) as proxy:
            client = proxy.client()
            for _ in range(300):
                self.assertEqual(client.get(MAPS).status, 200)
            kit.eventually(lambda: proxy.metric("kintsugi_audit_events_total") >= 300, what="events are counted")
            kit.eventually(lambda: "nobody reads the log yet" in proxy.text(), what="a line about it")
            with log.open() as reader:  # what was held back comes when somebody reads
                events = [json.loads(next(reader)) for _ in range(300)]
            self.assertEqual(events[-1]["requestURI"], "/clusters/root" + MAPS)
            self.assertEqual(proxy.metric("kintsugi_audit_dropped_total"), 0)

    def test_FP_143_flags_of_a_kubernetes_server(self):
        log = installation.dir / "flags.jsonl"
        flags = ["--audit-log-path", str(log), "--audit-policy-file", str(self.policy()), "--audit-log-maxsize=1",
                 "--audit-log-maxbackup=2", "--audit-log-maxage=7", "--audit-log-format=json"]
        proxy = kit.Proxy(installation)
        command = [str(kit.BINARY), "proxy", "--config", str(proxy.dir / "proxy.yaml")]
        for wrong, status, text in ((["--audit-log-format=legacy"], 1, "--audit-log-format: \"legacy\" is not json"),
                                    (["--audit-policy-file=/no/such"], 1, "--audit-policy-file: /no/such"),
                                    (["--audit-log-path", "/no/such/log"], 1, "audit.log_file: /no/such/log")):
            run = subprocess.run([*command, *wrong], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, status)
            self.assertIn(text, run.stderr)
        with proxy.log.open("ab") as out:
            proxy.process = subprocess.Popen([*command, *flags], stdout=out, stderr=out)
        self.addCleanup(proxy.__exit__)
        kit.eventually(lambda: proxy.client("").get("/readyz").status == 200, 20, "ready")
        self.assertEqual(proxy.client().get(MAPS).status, 200)
        kit.eventually(lambda: events_in(log, verb="list"), what="the event")

    def test_SE_168_events_are_posted_in_batches(self):
        collector = Collector()
        self.addCleanup(collector.close)
        hook = webhook_file(installation.dir, collector.port)
        with kit.Proxy(installation, {"audit": {"log_file": "audit.jsonl"}}, flags=["--audit-webhook-config-file", hook]) as proxy:
            client = proxy.client()
            for i in range(120):
                self.assertEqual(client.get(MAPS, headers={"Audit-ID": f"hook-{i}"}).status, 200)
            kit.eventually(lambda: len({event["auditID"] for event in collector.events if event["auditID"].startswith("hook-")}) == 120,
                           what="all events are posted")
            self.assertTrue(all(len(body["items"]) <= 400 for _, _, body in collector.batches))
            path, authorization, body = collector.batches[0]
            self.assertEqual((path, authorization), ("/audit", "Bearer known-to-the-hook"))
            self.assertEqual((body["kind"], body["apiVersion"]), ("EventList", "audit.k8s.io/v1"))
            event = next(event for event in collector.events if event["auditID"] == "hook-0")
            self.assertEqual((event["verb"], event["user"]["username"]), ("list", "kcp-admin"))
            # The file has the same ones.
            kit.eventually(lambda: events_in(proxy.dir / "audit.jsonl", auditID="hook-119"))
            self.assertEqual(events_in(proxy.dir / "audit.jsonl", auditID="hook-0"), [event])

    def test_SE_T074_a_dead_webhook_and_a_full_disk_harm_no_traffic(self):
        port = kit.free_port()
        hook = webhook_file(installation.dir, port)
        log = installation.dir / "full-too.jsonl"
        log.symlink_to("/dev/full")
        begun = time.monotonic()
        with kit.Proxy(installation, {"audit": {"log_file": str(log), "webhook_kubeconfig": str(hook)}}) as proxy:
            client = proxy.client()
            for i in range(100):
                self.assertEqual(client.get(MAPS, headers={"Audit-ID": f"dead-{i}"}).status, 200)
            kit.eventually(lambda: proxy.metric("kintsugi_audit_webhook_failures_total") >= 2, what="failures are counted")
            kit.eventually(lambda: proxy.metric("kintsugi_audit_dropped_total") >= 100, what="the disk's drops are counted")
            self.assertGreaterEqual(proxy.metric("kintsugi_audit_webhook_queued"), 100)
            self.assertEqual(proxy.metric('kintsugi_audit_webhook_events_total{result="dropped"}'), 0)
            self.assertEqual(proxy.client("").get("/readyz").status, 200)
            lines = proxy.text().count("audit webhook does not take events")
            self.assertLessEqual(lines, 1 + (time.monotonic() - begun) / 10, "one line in 10 s")
            self.assertGreaterEqual(lines, 1)
            # It comes back: nothing of what waited is lost.
            collector = Collector(port)
            self.addCleanup(collector.close)
            kit.eventually(lambda: {f"dead-{i}" for i in range(100)} <= {event["auditID"] for event in collector.events}, 60,
                           "what waited is posted")
            kit.eventually(lambda: proxy.metric("kintsugi_audit_webhook_queued") == 0)

    def test_SE_168_a_shard_posts_its_events(self):
        collector = Collector()
        self.addCleanup(collector.close)
        hook = webhook_file(installation.dir, collector.port)
        with (installation.dir / "posting.log").open("wb") as out:
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(installation.state), "--name", "posting",
                                      "--audit-webhook-config-file", str(hook)], stdout=out, stderr=out)

        self.addCleanup(end_shard, shard, "posting")
        root = installation.client()
        kit.eventually(lambda: root.get("/apis/core.kcp.io/v1alpha1/shards/posting").status == 200, 20, "the shard is known")
        kit.eventually(lambda: any(event["stage"] == "ResponseComplete" for event in collector.events), 20, "its events are posted")


if __name__ == "__main__":
    unittest.main()
