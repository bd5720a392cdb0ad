"""Who may read /metrics of a proxy and of a shard: as at a kube-apiserver, whoever has the right to the path, by certificate or token (OP-402)."""
import unittest

import kit

RBAC = "/apis/rbac.authorization.k8s.io/v1"


class MetricsRights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        cls.root = cls.installation.client()
        cls.tokens = {name: cls.account(name) for name in ("reads-metrics", "reads-nothing")}
        cls.root.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "reads-metrics"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                                                               "name": "system:kcp:metrics-reader"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "reads-metrics"}]})
        cls.addClassCleanup(cls.root.request, "DELETE", RBAC + "/clusterrolebindings/reads-metrics")

    @classmethod
    def account(cls, name):
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        cls.root.must("POST", accounts, {"metadata": {"name": name}})
        cls.addClassCleanup(cls.root.request, "DELETE", f"{accounts}/{name}")
        return cls.root.must("POST", f"{accounts}/{name}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                                                                  "spec": {}})["status"]["token"]  # fmt: skip

    def read(self, base, token=None, **headers):
        client = kit.Client(base, self.installation.pki / "serving-ca.crt")
        return client.request("GET", "/metrics", headers={**({"authorization": f"Bearer {token}"} if token else {}), **headers})

    def test_OP_402_a_service_account_with_the_right_reads_them_at_proxy_and_shard(self):
        for base in (f"https://127.0.0.1:{self.installation.port}", self.installation.shard_url("root")):
            answer = kit.eventually(lambda base=base: (lambda got: got.status == 200 and got)(self.read(base, self.tokens["reads-metrics"])), 20, "200")
            self.assertIn(b"process_cpu_seconds_total", answer.body)
            self.assertEqual(self.read(base, self.tokens["reads-nothing"]).status, 403)
            self.assertEqual(self.read(base, "no.token.atall").status, 401)
            self.assertEqual(self.read(base).status, 401)

    def test_OP_403_open_metrics_for_who_asks(self):
        for base in (f"https://127.0.0.1:{self.installation.port}", self.installation.shard_url("root")):
            answer = kit.eventually(lambda base=base: (lambda got: got.status == 200 and got)(self.read(base, self.tokens["reads-metrics"])), 20, "200")
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            self.assertNotIn(b"# EOF", answer.body)
            asked = self.read(base, self.tokens["reads-metrics"], accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
            self.assertEqual(asked.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
            self.assertTrue(asked.body.endswith(b"\n# EOF\n"))
            self.assertIn(b"# TYPE process_cpu_seconds counter\n# UNIT process_cpu_seconds seconds\n", asked.body)
            names = [{line.split(b"{")[0].split(b" ")[0] for line in page.splitlines() if line and not line.startswith(b"#")} for page in (answer.body, asked.body)]
            self.assertLessEqual(*names)

    def test_OP_402_what_a_head_says_of_who_asks_counts_for_nothing(self):
        base = f"https://127.0.0.1:{self.installation.port}"
        forged = {"x-remote-user": "root", "x-remote-group": "system:masters"}
        self.assertEqual(self.read(base, self.tokens["reads-nothing"], **forged).status, 403)
        self.assertEqual(self.read(base, "no.token.atall", **forged).status, 401)
        self.assertEqual(self.read(base, **forged).status, 401)


if __name__ == "__main__":
    unittest.main()
