"""The proxy's audit log (R-31, FP-143)."""
import json
import os
import subprocess
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

        def stop():
            shard.terminate()
            shard.wait(60)

        self.addCleanup(stop)
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
            kit.eventually(lambda: "nobody reads the audit log yet" in proxy.text(), what="a line about it")
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
        for wrong, text in ((["--audit-log-format=legacy"], "--audit-log-format: \"legacy\" is not json"),
                            (["--audit-policy-file=/no/such"], "--audit-policy-file: /no/such"),
                            (["--audit-log-path", "/no/such/log"], "audit.log_file: /no/such/log")):
            run = subprocess.run([*command, *wrong], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn(text, run.stderr)
        with proxy.log.open("ab") as out:
            proxy.process = subprocess.Popen([*command, *flags], stdout=out, stderr=out)
        self.addCleanup(proxy.__exit__)
        kit.eventually(lambda: proxy.client("").get("/readyz").status == 200, 20, "ready")
        self.assertEqual(proxy.client().get(MAPS).status, 200)
        kit.eventually(lambda: events_in(log, verb="list"), what="the event")


if __name__ == "__main__":
    unittest.main()
