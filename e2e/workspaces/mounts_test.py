"""Workspaces that are mounts (R-16): where they lead, and where they do not."""
import json
import unittest

import kit

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
NOT_PERMITTED = "workspace access not permitted"


class Mounts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        cls.root = cls.installation.client()
        cls.outside = f"https://127.0.0.1:{cls.installation.port}"
        cls.cluster = cls.installation.make_workspace("target", selector={"name": "shard-1"})["spec"]["cluster"]
        shards = cls.root.must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]
        cls.base = {s["metadata"]["name"]: s["spec"]["baseURL"] for s in shards}
        pki = cls.installation.pki  # the URL of a mount is the system's to write (KK-053)
        cls.system = kit.Client(cls.base["root"] + "/clusters/root", pki / "serving-ca.crt", pki / "shard-admin.crt",
                                pki / "shard-admin.key")

    def mount(self, name, url):
        self.system.must("POST", WORKSPACES, {
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
            "spec": {"URL": url, "mount": {"ref": {"apiVersion": "mounts.test/v1", "kind": "Mount", "name": name}}}})
        self.addCleanup(self.root.request, "DELETE", f"{WORKSPACES}/{name}")
        self.phase(name, "Ready")
        return self.installation.client(f"/clusters/root:{name}")

    def phase(self, name, phase):
        self.root.must("PATCH", f"{WORKSPACES}/{name}/status", json.dumps({"status": {"phase": phase}}), headers=MERGE)

    def leads_to_target(self, client):
        def look():
            found = client.must("GET", "/api/v1/namespaces/default")
            return found["metadata"]["annotations"]["kcp.io/cluster"] == self.cluster

        kit.eventually(look, what="the mounted cluster")

    def test_FP_092_a_mount_that_is_not_ready_is_not_followed(self):
        client = self.mount("comes-and-goes", f"{self.outside}/clusters/root:target")
        self.leads_to_target(client)
        self.phase("comes-and-goes", "Unavailable")
        kit.eventually(lambda: client.get("/api/v1/namespaces/default").status == 503, what="E3")
        self.phase("comes-and-goes", "Ready")
        self.leads_to_target(client)

    def test_FP_124_the_proxy_itself(self):
        client = self.mount("inside", f"{self.outside}/clusters/root:target")
        self.leads_to_target(client)
        client.must("POST", MAPS, {"metadata": {"name": "made"}})
        self.assertEqual(client.must("GET", f"{MAPS}?fieldSelector=metadata.name%3Dmade")["items"][0]["metadata"]["name"], "made")
        seen = kit.Watch(client, f"{MAPS}?watch=true")
        kit.eventually(lambda: any(e["object"]["metadata"]["name"] == "made" for e in seen.events), what="a watch through it")
        again = self.mount("through-another", f"{self.outside}/clusters/root:inside")
        self.leads_to_target(again)
        stranger = self.installation.user_client("mallory", path="/clusters/root:inside")
        self.assertEqual(stranger.get(MAPS).status, 403, "everybody comes as oneself")
        self.assertEqual(client.get("/../../clusters/root/api").status, 307)

    def test_FP_124_a_shard(self):
        self.leads_to_target(self.mount("at-shard", f"{self.base['shard-1']}/clusters/{self.cluster}"))

    def test_FP_124_other_hosts_are_for_whom_the_administrator_lists(self):
        echo = kit.JsonServer(self.installation.pki, lambda request: (200, {
            "path": request.path, "user": request.headers.get("X-Remote-User")}))
        self.addCleanup(echo.close)
        for name, url in (("evil", "https://evil.example/clusters/x"), ("unlisted", f"https://{echo.host}/clusters/x"),
                          ("plain", f"http://{echo.host}/clusters/x")):
            client = self.mount(name, url)
            answer = kit.eventually(lambda c=client: (lambda a: a if a.status == 403 else None)(c.get("/api")), what="refused")
            self.assertIn(NOT_PERMITTED, answer.json["message"])
        for hosts in (echo.host, "*"):
            with kit.Proxy(self.installation, {"mounts": {"allowed_hosts": f'["{hosts}"]'}}) as proxy:
                client = proxy.client("/clusters/root:unlisted")
                answer = kit.eventually(lambda c=client: (lambda a: a if a.status == 200 else None)(c.get("/api/v1?limit=1")))
                self.assertEqual(answer.json, {"path": "/clusters/x/api/v1?limit=1", "user": "kcp-admin"})
                self.assertEqual(proxy.client("/clusters/root:plain").get("/api").status, 403)

    def test_mounts_that_lead_nowhere(self):
        for name, url, code in (("below", f"{self.outside}/clusters/root:nope", 403), ("elsewhere", f"{self.base['root']}/metrics", 404),
                                ("ring", f"{self.outside}/clusters/root:ring", 508)):
            client = self.mount(name, url)
            kit.eventually(lambda c=client, s=code: c.get("/api").status == s, what=f"{code} of {name}")
        self.assertEqual(self.installation.client("/clusters/root:below:child").get("/api").status, 403)


if __name__ == "__main__":
    unittest.main()
