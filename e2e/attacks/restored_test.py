"""What a backup brings is believed no more than what is written (KK-293, KK-T111): rows that system:masters has forged are put back."""
import json
import re
import subprocess
import unittest

import kit

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
CLUSTER = CLUSTERS + "/cluster"
MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
OWNER = "experimental.tenancy.kcp.io/owner"
ALICE_HOME = "v1u4alow0iv9"


def workspace(name, annotations=None, **spec):
    return {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name, "annotations": annotations or {}},
            "spec": spec}


def logical_cluster(annotations, owner=None, **spec):
    if owner:
        spec["owner"] = {"apiVersion": "tenancy.kcp.io/v1alpha1", "resource": "workspaces", **owner}
    return {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "cluster", "annotations": annotations},
            "spec": spec}


class Restored(unittest.TestCase):
    def store(self, *arguments):
        run = subprocess.run([str(kit.BINARY), "store", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    def direct(self, installed, path=""):
        port, pki = (installed.state / "shards/root/port").read_text().strip(), installed.pki
        return kit.Client(f"https://127.0.0.1:{port}{path}", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")

    def test_KK293_KK_T111_a_backup_with_forged_rows(self):
        with kit.Installation(shards=1) as installed:
            victim = installed.make_workspace("victim")
            name, uid = victim["spec"]["cluster"], victim["metadata"]["uid"]
            installed.client(f"/clusters/{name}").must("POST", MAPS, {"metadata": {"name": "mine"}})
            inside_root = self.direct(installed, "/clusters/root")
            mount = {"ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "namespace": "default"}}
            note = {"internal.tenancy.kcp.io/cluster": name, "internal.tenancy.kcp.io/shard": "root", "core.kcp.io/shard": "root"}
            forged = {"to-root": workspace("to-root", cluster="root"), "to-victim": workspace("to-victim", note, cluster=name),
                      "mounted": workspace("mounted", note, cluster=name, mount=mount), "absent": workspace("absent", cluster="aaaaaaaaaaaaaaab"),
                      "ready": workspace("ready", cluster=name, URL=f"https://127.0.0.1:1/clusters/{name}")}
            for body in forged.values():
                inside_root.must("POST", WORKSPACES, body)
            inside_root.request("PATCH", f"{WORKSPACES}/ready/status", {"status": {"phase": "Ready"}}, headers=MERGE)
            twin = logical_cluster({"kcp.io/path": "root:victim", OWNER: '{"username":"eve"}'},
                                   owner={"name": "victim", "cluster": "root", "uid": uid},
                                   createdBy={"username": "system:admin", "groups": ["system:masters"]})
            self.direct(installed, "/clusters/aaaaaaaaaaaaaaaa").must("POST", CLUSTERS, twin)
            taken = logical_cluster({"kcp.io/path": "user:alice", OWNER: '{"username":"alice"}'}, createdBy={"username": "eve"})
            self.direct(installed, f"/clusters/{ALICE_HOME}").must("POST", CLUSTERS, taken)
            data, backup = installed.state / "shards/root/data", installed.dir / "backup"
            self.store("backup", "--from", data, "--to", backup)
            installed.stop()
            data.rename(installed.dir / "old")
            self.store("restore", "--from", backup, "--to", data)
            installed.start()

            self.obeyed_by_nobody(installed, name, forged)
            body = kit.eventually(lambda: (a := self.direct(installed).get("/clusters/*/metrics")).status == 200 and a.body.decode(), 20)
            text = json.loads(body) if body.startswith('"') else body
            counts = {m[1]: int(m[2]) for m in re.finditer(r'kintsugi_untrusted_fact_total\{fact="([^"]+)"\} (\d+)', text)}
            self.assertGreater(counts["workspace-cluster"], 0, "counted by the process that has read them")
            for one in forged:
                self.direct(installed, "/clusters/root").must("DELETE", f"{WORKSPACES}/{one}", expect=(200, 202))
            kit.eventually(lambda: all(self.direct(installed, "/clusters/root").get(f"{WORKSPACES}/{one}").status == 404 for one in forged), 30)
            self.obeyed_by_nobody(installed, name, ())

    def obeyed_by_nobody(self, installed, name, forged):
        kit.eventually(lambda: installed.client(f"/clusters/{name}").get(f"{MAPS}/mine").status == 200, 30, "the victim is there")
        self.assertEqual(installed.client("/clusters/root").get(WORKSPACES).status, 200)
        for _ in range(5):
            self.assertEqual(installed.client("/clusters/root:victim").get(f"{MAPS}/mine").status, 200, "not the twin")
        for one in forged:
            through = installed.client(f"/clusters/root:{one}")
            for path in (MAPS, "/api/v1/secrets", CLUSTER):
                self.assertEqual(through.get(path).status, 403, (one, path))
        alice = installed.user_client("alice")
        answer = kit.eventually(lambda: (a := alice.get(f"{WORKSPACES}/~")).status == 409 and a, 30, "alice is told")
        self.assertIn("home workspace name is taken", answer.body.decode())
        self.assertEqual(installed.user_client("alice", path="/clusters/user:alice").get(MAPS).status, 403)
