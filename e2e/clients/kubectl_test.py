"""Unmodified kubectl through the proxy: workspaces on every shard, everyday commands, custom resources."""
import json
import subprocess
import unittest

import kit

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.test"},
    "spec": {"group": "example.test", "scope": "Namespaced",
             "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                           "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                           "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                               "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
                               "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}}


class Kubectl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        cls.workspaces = {}
        for region in kit.REGIONS:
            name = "w-" + region.split("-")[0]
            cls.workspaces[region] = name
            cls.installation.made.append(name)
            cls.installation.kubectl("create", "-f", "-", input_text=json.dumps({
                "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
                "spec": {"location": {"selector": {"matchLabels": {"region": region}}}}}))
        for name in cls.workspaces.values():
            kit.eventually(lambda n=name: cls.installation.kubectl("get", "workspace", n, "-o", "jsonpath={.status.phase}") == "Ready",
                           60, f"workspace {name} ready")

    def in_each(self):
        """(workspace path, kubectl) for a workspace on every shard."""
        for name in self.workspaces.values():
            path = f"/clusters/root:{name}"
            kit.eventually(lambda p=path: self.installation.client(p).get("/api/v1/namespaces/default").status == 200)
            yield path, lambda *args, p=path, **kwargs: self.installation.kubectl(*args, server=p, **kwargs)

    def test_workspaces_live_on_the_shard_of_their_region(self):
        shards = set()
        for region, name in self.workspaces.items():
            cluster = self.installation.client(f"/clusters/root:{name}").must(
                "GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
            self.assertEqual(cluster["metadata"]["annotations"]["kcp.io/path"], f"root:{name}")
            explained = self.installation_explain(f"root:{name}")
            shards.add(explained["shard"])
        self.assertEqual(shards, {"root", "shard-1", "shard-2"})

    def installation_explain(self, path):
        run = subprocess.run(["curl", "-sS", "--unix-socket", str(self.installation.state / "run/admin.sock"),
                              "http://admin/explain?path=" + path], capture_output=True, text=True, timeout=60, check=True)
        return json.loads(run.stdout)["result"]

    def test_configmap_life_in_every_shard(self):
        for _, kubectl in self.in_each():
            self.assertIn("configmap/a created", kubectl("create", "configmap", "a", "--from-literal=k=v"))
            self.assertEqual(kubectl("get", "configmap", "a", "-o", "jsonpath={.data.k}"), "v")
            self.assertIn("configmap/a labeled", kubectl("label", "configmap", "a", "x=y"))
            self.assertIn("configmap/a annotated", kubectl("annotate", "configmap", "a", "note=1"))
            self.assertIn("configmap/a patched", kubectl("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"m":"1"}}'))
            self.assertIn("configmap/a patched", kubectl("patch", "configmap", "a", "--type=json", "-p",
                                                         '[{"op":"add","path":"/data/j","value":"2"}]'))
            self.assertEqual(json.loads(kubectl("get", "cm", "a", "-o", "json"))["data"], {"k": "v", "m": "1", "j": "2"})
            self.assertEqual(kubectl("get", "cm", "-l", "x=y", "-o", "name").strip(), "configmap/a")
            self.assertIn("DATA", kubectl("get", "cm", "-o", "wide"))
            self.assertIn("name: a", kubectl("get", "cm", "a", "-o", "yaml"))
            self.assertIn('configmap "a" deleted', kubectl("delete", "configmap", "a"))
            self.assertIn("NotFound", kubectl("get", "configmap", "a", expect=1))

    def test_namespaces_secrets_and_accounts(self):
        for _, kubectl in self.in_each():
            kubectl("create", "namespace", "n1")
            kubectl("create", "secret", "generic", "s", "--from-literal=p=q", "-n", "n1")
            self.assertEqual(kubectl("get", "secret", "s", "-n", "n1", "-o", "jsonpath={.data.p}"), "cQ==")
            kit.eventually(lambda k=kubectl: "default" in k("get", "serviceaccounts", "-n", "n1", "-o", "name"))
            self.assertIn('namespace "n1" deleted', kubectl("delete", "namespace", "n1"))
            self.assertIn("NotFound", kubectl("get", "namespace", "n1", expect=1))

    def test_quotas_hold(self):
        for _, kubectl in self.in_each():
            kubectl("create", "namespace", "q1")
            self.assertIn("created", kubectl("create", "quota", "q", "--hard=count/secrets=2,secrets=5,pods=1", "-n", "q1"))
            for name in "ab":
                kubectl("create", "secret", "generic", name, "-n", "q1")
            self.assertIn('secrets "c" is forbidden: exceeded quota: q, requested: count/secrets=1, used: count/secrets=2, '
                          "limited: count/secrets=2", kubectl("create", "secret", "generic", "c", "-n", "q1", expect=1))
            kit.eventually(lambda k=kubectl: "pods: 0/1, secrets: 2/5" in k("get", "quota", "q", "-n", "q1"))
            self.assertRegex(kubectl("describe", "quota", "q", "-n", "q1"), r"count/secrets\s+2\s+2\n")
            kubectl("patch", "quota", "q", "-n", "q1", "-p", '{"spec":{"hard":{"pods":null,"secrets":"4000m"}}}')
            kit.eventually(lambda k=kubectl: "count/secrets: 2/2, secrets: 2/4 " in k("get", "quota", "q", "-n", "q1"))
            shown = kubectl("describe", "ns", "q1")
            self.assertIn("Resource Quotas", shown)
            self.assertRegex(shown, r"secrets\s+2\s+4")
            kubectl("delete", "secret", "a", "-n", "q1")
            kit.eventually(lambda k=kubectl: "created" in k("create", "secret", "generic", "c", "-n", "q1", expect=None))
            self.assertIn("deleted", kubectl("delete", "namespace", "q1"))

    def test_get_watch_shows_events(self):
        path, kubectl = next(iter(self.in_each()))
        command = [kit.needs_kubectl(), f"--kubeconfig={self.installation.kubeconfig}", f"--cache-dir={self.installation.dir / 'kube-cache'}",
                   f"--server=https://127.0.0.1:{self.installation.port}{path}", "get", "cm", "-w", "--no-headers"]
        watcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            self.assertIn("kube-root-ca.crt", watcher.stdout.readline())
            kubectl("create", "configmap", "seen")
            self.assertTrue(watcher.stdout.readline().startswith("seen"))
            kubectl("delete", "configmap", "seen")
            self.assertTrue(watcher.stdout.readline().startswith("seen"))
        finally:
            watcher.kill()
            watcher.communicate()

    def test_auth_and_discovery(self):
        for _, kubectl in self.in_each():
            self.assertEqual(kubectl("auth", "can-i", "create", "configmaps").strip(), "yes")
            resources = kubectl("api-resources", "--no-headers")
            for word in ("configmaps", "clusterroles", "partitionsets", "apiexportendpointslices", "workspaces"):
                self.assertIn(word, resources)

    def test_auth_whoami(self):
        program = kit.needs_kubectl(28, "auth whoami")
        for _, kubectl in self.in_each():
            self.assertIn("kcp-admin", kubectl("auth", "whoami", program=program))

    def test_custom_resources(self):
        for path, kubectl in self.in_each():
            kubectl("create", "-f", "-", input_text=json.dumps(CRD))
            kubectl("wait", "crd", "widgets.example.test", "--for=condition=Established", "--timeout=60s")
            kubectl("create", "-f", "-", input_text=json.dumps(
                {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {}}))
            self.assertEqual(kubectl("get", "widgets", "--no-headers").split()[:2], ["one", "3"])
            self.assertEqual(kubectl("get", "wd", "one", "-o", "jsonpath={.spec.size}"), "3")
            kubectl("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"size":5}}')
            self.assertEqual(kubectl("get", "widget", "one", "-o", "jsonpath={.spec.size}"), "5")
            kubectl("delete", "crd", "widgets.example.test")
            kit.eventually(lambda p=path: self.installation.client(p).get("/apis/example.test").status == 404)

    def test_server_side_apply(self):
        def config(**data):
            return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data})

        for _, kubectl in self.in_each():
            applied = ("apply", "--server-side", "-f", "-")
            self.assertIn("serverside-applied", kubectl(*applied, input_text=config(a="1", b="1")))
            self.assertIn("serverside-applied", kubectl(*applied, "--field-manager=other", input_text=config(a="1", c="1")))
            refused = kubectl(*applied, "--field-manager=other", input_text=config(b="2"), expect=1)
            self.assertIn('conflict with "kubectl": .data.b', refused)
            kubectl(*applied, "--field-manager=other", "--force-conflicts", input_text=config(b="2"))
            self.assertIn("-  b: \"2\"", kubectl("diff", "--server-side", "--field-manager=other", "-f", "-",
                                                input_text=config(x="1"), expect=1))
            self.assertEqual(json.loads(kubectl("get", "configmap", "applied", "-o", "jsonpath={.data}")), {"a": "1", "b": "2"})
            # From client-side to server-side apply: fields of the annotation change hands.
            kubectl("delete", "configmap", "applied")
            kubectl("apply", "-f", "-", input_text=config(a="1", b="1"))
            self.assertIn("serverside-applied", kubectl(*applied, input_text=config(a="2")))
            self.assertEqual(json.loads(kubectl("get", "configmap", "applied", "-o", "jsonpath={.data.a}")), 2)
            kubectl("delete", "configmap", "applied")

    def test_a_stranger_sees_nothing(self):
        for path, _ in self.in_each():
            answer = self.installation.user_client("stranger", path=path).get("/api/v1/namespaces/default/configmaps")
            self.assertEqual(answer.status, 403)
            self.assertIn("workspace access not permitted", answer.json["message"])  # as of one that does not exist (SE-161)


if __name__ == "__main__":
    unittest.main()
