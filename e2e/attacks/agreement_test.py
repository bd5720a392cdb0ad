"""SE-036: /explain, the audit lines of proxy and shard, and the object that is touched agree, for every form of path, through HTTP/1.1 and
HTTP/2, for a read, a watch, a write and a deletion. Rows of targets that the forms show: SE-003, SE-023, SE-029; KK-384 and
KK-T153, for any bytes: fuzz/target_fuzz.cc, fuzz/shard_request_fuzz.cc."""
import json
import subprocess
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata}
"""
# {c} is the cluster, {o} its path; the trail is put behind. Each leads to the shard "audited".
FORMS = ("/clusters/{c}", "/clusters/{o}", "/clusters/root%3Aagreed", "/%63lusters/{c}", "/clusters/%72oot:agreed", "/shards/audited/clusters/{c}",
         "/%73hards/audited/%63lusters/{o}")
TRAILS = (lambda trail: trail, lambda trail: trail.replace("/api/", "/%61pi/"), lambda trail: trail.replace("/api/v1/", "/api%2Fv1%2f"))


class Agreement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = up = kit.Installation(shards=1).start_for(cls)
        cls.shard_log = up.dir / "shard-audit.jsonl"
        with (up.dir / "audited.log").open("wb") as out:
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(up.state), "--name", "audited", "--labels", "audited=yes",
                                      "--audit-log", str(cls.shard_log)], stdout=out, stderr=out)

        def stop():
            shard.terminate()
            shard.wait(60)

        cls.addClassCleanup(stop)
        kit.eventually(lambda: up.client().get("/apis/core.kcp.io/v1alpha1/shards/audited").status == 200, 20, "the shard is known")
        cls.cluster = up.make_workspace("agreed", selector={"audited": "yes"})["spec"]["cluster"]
        up.make_workspace("other", selector={"audited": "yes"})
        for name in ("agreed", "other"):
            up.client(f"/clusters/root:{name}").must("POST", MAPS, {"metadata": {"name": "seen"}, "data": {"of": name}})
        policy = up.dir / "agreement.yaml"
        policy.write_text(POLICY)
        cls.proxy = kit.Proxy(up, {"audit": {"log_file": "audit.jsonl", "policy_file": str(policy)}, "admin": {"socket": "admin.sock"}}, loops=2)
        cls.proxy.__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)
        kit.eventually(lambda: cls.proxy.client("/clusters/root:agreed").get(MAPS).status == 200, 20, "the proxy knows the workspace")
        cls.number = 0

    def explain(self, target, method):
        run = subprocess.run(["curl", "-sS", "--unix-socket", str(self.proxy.dir / "admin.sock"), "-G", "--data-urlencode", f"path={target}",
                              "-d", f"method={method}", "http://admin/explain"], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(run.stdout)["result"]

    def ask(self, version, method, target, number, body):
        """Status and body, by curl."""
        pki = self.installation.pki
        command = ["curl", "-sS", "--path-as-is", f"--http{version}", "--cacert", pki / "serving-ca.crt", "--cert", pki / "admin.crt", "--key", pki / "admin.key",
                   "-X", method, "-H", f"Audit-ID: {number}", "-w", "\n%{http_version} %{http_code}"]
        if body is not None:
            command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        run = subprocess.run([*command, f"https://127.0.0.1:{self.proxy.port}{target}"], capture_output=True, text=True, timeout=60, check=True)
        text, _, last = run.stdout.rpartition("\n")
        spoken, code = last.split(" ")
        self.assertEqual(spoken, {"1.1": "1.1", "2": "2"}[version])
        return int(code), text

    @staticmethod
    def lines(log, number):
        texts = log.read_text().split("\n")[:-1] if log.exists() else []
        return [event for event in map(json.loads, texts) if event["auditID"] == number]

    def test_SE_036_what_is_explained_is_audited_twice_and_done(self):
        count = 0
        for form in FORMS:
            for version in ("1.1", "2"):
                spell, made = TRAILS[count % len(TRAILS)], f"made-{count}"
                count += 1
                requests = [("GET", f"{MAPS}/seen", "", "get", "seen", None), ("POST", MAPS, "", "create", made, {"metadata": {"name": made}}),
                            ("GET", MAPS, f"?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D{made}", "watch", "", None),
                            ("DELETE", f"{MAPS}/{made}", "", "delete", made, None)]
                for method, trail, query, verb, name, body in requests:
                    target = form.replace("{c}", self.cluster).replace("{o}", "root:agreed") + spell(trail) + query
                    with self.subTest(target=target, version=version):
                        self.agree(version, method, target, verb, name, body)
        items = self.installation.client("/clusters/root:other").must("GET", MAPS)["items"]
        self.assertFalse([one["metadata"]["name"] for one in items if one["metadata"]["name"].startswith("made")], "another cluster was touched")

    def agree(self, version, method, target, verb, name, body):
        Agreement.number += 1
        number = f"agree-{self.number}"
        told = self.explain(target, method)
        code, text = self.ask(version, method, target, number, body)
        self.assertEqual(code, 201 if method == "POST" else 200, text)
        self.assertEqual((told["shard"], told["cluster"]), ("audited", self.cluster), told)
        self.assertIn(told["route"], ("forwarded", "of-one-shard"))
        at_proxy = kit.eventually(lambda: self.lines(self.proxy.dir / "audit.jsonl", number), 10, "the proxy's line")
        at_shard = kit.eventually(lambda: self.lines(self.shard_log, number), 10, "the shard's line")  # of a watch: when it begins
        self.assertEqual((len(at_proxy), len(at_shard)), (1, 1))
        named = "root:agreed" if "agreed" in target else self.cluster  # the proxy's line says what was asked for
        for event, where in ((at_proxy[0], named), (at_shard[0], self.cluster)):
            self.assertEqual((event["annotations"]["kcp.io/cluster"], event["verb"], event["user"]["username"], event["responseStatus"]["code"]),
                             (where, verb, "kcp-admin", code))
            of = event["objectRef"]
            self.assertEqual((of["resource"], of["namespace"], of.get("apiVersion")), ("configmaps", "default", "v1"))
            if verb in ("get", "delete"):
                self.assertEqual(of["name"], name)
        self.assertEqual(at_proxy[0]["requestURI"], target)
        if verb == "get":
            touched = json.loads(text)
            self.assertEqual((touched["metadata"]["annotations"]["kcp.io/cluster"], touched["data"]), (self.cluster, {"of": "agreed"}))
        elif verb == "create":
            self.assertEqual(json.loads(text)["metadata"]["annotations"]["kcp.io/cluster"], self.cluster)
        elif verb == "watch":
            seen = [json.loads(line) for line in text.split("\n") if line.strip()]
            self.assertEqual([one["object"]["metadata"]["annotations"]["kcp.io/cluster"] for one in seen if one["type"] == "ADDED"], [self.cluster])


if __name__ == "__main__":
    unittest.main()
