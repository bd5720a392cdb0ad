"""Home workspaces: `workspaces/~` in root and the path user:<name> (KK-105, KK-106, FP-093)."""
import json
import subprocess
import unittest

import kit

HOME = "/apis/tenancy.kcp.io/v1alpha1/workspaces/~"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
MAPS = "/api/v1/namespaces/default/configmaps"


def workspace(name, **spec):
    return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": spec}


class Home(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.admin = cls.installation.client()

    def home_of(self, client, **more):
        def ready():
            answer = client.get(HOME, **more)
            assert answer.status == 200, answer
            return answer.json
        return kit.eventually(ready, 20, "home workspace")

    def test_FP_093_it_is_made_when_it_is_asked_for(self):
        alice = self.installation.user_client("alice")
        first = alice.get(HOME)
        self.assertEqual(first.status, 429, first)
        self.assertEqual(first.headers["Retry-After"], "1")
        self.assertIn("text/plain", first.headers["Content-Type"])
        self.assertEqual(first.body.decode().strip(), "Creating the home workspace")
        home = self.home_of(alice)
        self.assertEqual(home["kind"], "Workspace")
        self.assertEqual(home["metadata"]["name"], "cluster")
        self.assertNotIn("type", home["spec"])
        self.assertEqual(home["spec"]["cluster"], "v1u4alow0iv9")
        self.assertEqual(home["spec"]["URL"], f"https://127.0.0.1:{self.installation.port}/clusters/v1u4alow0iv9")
        self.assertEqual(home["status"]["phase"], "Ready")
        cluster = self.admin_of("v1u4alow0iv9").must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        notes = cluster["metadata"]["annotations"]
        self.assertEqual(notes["kcp.io/path"], "user:alice")
        self.assertEqual(notes["internal.tenancy.kcp.io/type"], "root:home")
        self.assertEqual(cluster["spec"]["createdBy"]["username"], "alice")
        self.assertNotIn("owner", cluster["spec"])
        self.assertEqual(self.admin.get(WORKSPACES).json["items"], [])
        alias = self.installation.user_client("alice", path="/clusters/user:alice")
        made = alias.must("POST", MAPS, {"metadata": {"name": "mine"}})
        self.assertEqual(made["metadata"]["annotations"]["kcp.io/cluster"], "v1u4alow0iv9")

    def admin_of(self, path):
        return self.installation.client(f"/clusters/{path}")

    def test_its_owner_is_its_administrator(self):
        bob = self.installation.user_client("bob")
        name = self.home_of(bob)["spec"]["cluster"]
        self.assertEqual(name, "2okdry95y5lkv")
        for path in (name, "user:bob"):
            client = self.installation.user_client("bob", path=f"/clusters/{path}")
            kit.eventually(lambda c=client: c.get("/api/v1/namespaces/default").status == 200)
            self.assertEqual(client.request("POST", MAPS, {"metadata": {"name": "by-" + path.replace(":", "-")}}).status, 201)
        self.assertEqual(len(client.must("GET", MAPS)["items"]), 3)  # and kube-root-ca.crt
        client.must("POST", WORKSPACES, workspace("below", type={"name": "universal"}))
        below = kit.eventually(lambda: self.ready(client, "below"))
        self.assertTrue(below["spec"]["URL"].endswith("/clusters/user:bob:below"), below)
        deep = self.installation.user_client("bob", path="/clusters/user:bob:below")
        kit.eventually(lambda: deep.get("/api/v1/namespaces/default").status == 200)
        mallory = self.installation.user_client("mallory", path="/clusters/user:bob")
        self.assertEqual(mallory.get(MAPS).status, 403)
        self.assertEqual(mallory.request("POST", WORKSPACES, workspace("x")).status, 403)

    def ready(self, client, name):
        made = client.must("GET", f"{WORKSPACES}/{name}")
        return made if made["status"].get("phase") == "Ready" else None

    def test_only_users_have_one(self):
        nobody = self.installation.client(cert=None)
        self.assertIn(nobody.get(HOME).status, (401, 403))
        robots = self.installation.make_workspace("robots")
        admin = self.admin_of("root:robots")
        kit.eventually(lambda: admin.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200)
        token = admin.must("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})["status"]["token"]
        answer = nobody.get(HOME, headers={"Authorization": "Bearer " + token})
        self.assertIn(answer.status, (401, 403), answer)
        robot = {"Impersonate-User": "system:serviceaccount:default:default", "Impersonate-Group": "system:serviceaccounts"}
        self.assertIn(self.admin.get(HOME, headers=robot).status, (403, 404))
        scoped = {"Impersonate-User": "carla", "Impersonate-Extra-authentication.kcp.io%2Fscopes":
                  "cluster:" + robots["spec"]["cluster"]}
        self.assertEqual(self.admin.get(HOME, headers=scoped).status, 403)

    def test_impersonation_asks_for_the_other_user(self):
        headers = {"Impersonate-User": "user172", "Impersonate-Group": "dev"}
        self.assertEqual(self.home_of(self.admin, headers=headers)["spec"]["cluster"], "0f9mt7goyif7")
        cluster = self.admin_of("user:user172").must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        self.assertEqual(cluster["spec"]["createdBy"]["username"], "user172")
        self.assertIn("dev", cluster["spec"]["createdBy"]["groups"])

    def test_names_that_are_no_path_go_by_the_hash(self):
        name = "User@Example.com"
        client = self.installation.user_client(name)
        home = self.home_of(client)["spec"]["cluster"]
        own = self.installation.user_client(name, path=f"/clusters/{home}")
        kit.eventually(lambda: own.get("/api/v1/namespaces/default").status == 200)
        own.must("POST", WORKSPACES, workspace("w"))
        self.assertTrue(kit.eventually(lambda: self.ready(own, "w"))["spec"]["URL"].endswith(f"/clusters/{home}:w"))
        deep = self.installation.user_client(name, path=f"/clusters/{home}:w")
        kit.eventually(lambda: deep.get("/api/v1/namespaces/default").status == 200)

    def test_other_verbs_and_clusters_have_none(self):
        self.installation.make_workspace("plain")
        plain = self.admin_of("root:plain").get(HOME)
        self.assertEqual((plain.status, plain.json["message"]), (404, 'workspaces.tenancy.kcp.io "~" not found'))
        dora = self.installation.user_client("dora")
        for method, body in (("DELETE", None), ("PUT", {"metadata": {"name": "~"}}), ("PATCH", {})):
            answer = dora.request(method, HOME, body, headers={"Content-Type": "application/merge-patch+json"})
            self.assertIn(answer.status, (403, 405, 415), (method, answer))
        self.assertEqual(dora.get(HOME + "/status").status, 403)
        self.assertEqual(dora.get(WORKSPACES).status, 403)
        self.assertEqual(self.admin_of("user:dora").get("/api").status, 403)  # nothing was made by the attempts

    def test_kubectl_shows_it(self):
        cert, key = kit.make_user(self.installation.dir, self.installation.pki, "erna", ())
        config = self.installation.dir / "erna.kubeconfig"
        config.write_text(json.dumps({
            "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {
                "server": f"https://127.0.0.1:{self.installation.port}/clusters/root",
                "certificate-authority": str(self.installation.pki / "serving-ca.crt")}}],
            "users": [{"name": "u", "user": {"client-certificate": str(cert), "client-key": str(key)}}]}))
        self.home_of(self.installation.user_client("erna"))
        command = [kit.needs_kubectl(), f"--kubeconfig={config}", f"--cache-dir={self.installation.dir}/erna", "get", "workspaces", "~"]
        name = subprocess.run([*command, "-o", "jsonpath={.spec.cluster}"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(name, "^[0-9a-z]{11,13}$")
        table = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertEqual(len(table), 2, table)
        self.assertIn("Ready", table[1])

    def test_it_survives_the_root_shard(self):
        frida = self.installation.user_client("frida")
        before = self.home_of(frida)
        self.installation.kill("root")
        after = kit.eventually(lambda: frida.get(HOME).status == 200 and frida.get(HOME).json, 20)
        self.assertEqual(after["spec"], before["spec"])


if __name__ == "__main__":
    unittest.main()
