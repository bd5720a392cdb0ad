"""`kintsugi ws`: the workspace that a kubeconfig points to, and kubectl beside it (AM-544)."""
import os
import pathlib
import pty
import re
import shutil
import subprocess
import unittest

import kit

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"


class Ws(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)

    def setUp(self):
        self.config = self.installation.dir / f"{self.id().rsplit('.', 1)[1]}.kubeconfig"
        shutil.copyfile(self.installation.kubeconfig, self.config)
        self.config.chmod(0o600)

    def run_ws(self, *arguments, expect=0, config=None, environment=None):
        env = {**os.environ, "KUBECONFIG": str(config or self.config), "HOME": str(self.installation.dir),
               **(environment or {})}
        run = subprocess.run([str(kit.BINARY), "ws", *arguments], capture_output=True, text=True, timeout=90, env=env,
                             check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(run.returncode, expect, f"ws {' '.join(arguments)}\n{run.stdout}{run.stderr}")
        return run

    def ws(self, *arguments, **more):
        return self.run_ws(*arguments, **more).stdout

    def fails(self, status, *arguments, **more):
        """The one line that it says."""
        run = self.run_ws(*arguments, expect=status, **more)
        self.assertRegex(run.stderr.splitlines()[-1], "^kintsugi ws: ")
        return run.stderr

    def kubectl(self, *arguments):
        run = subprocess.run([kit.needs_kubectl(), f"--kubeconfig={self.config}", f"--cache-dir={self.installation.dir}/cache",
                              *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def user_config(self, name, path="root"):
        """A kubeconfig of a user without rights, with its certificate in files beside it."""
        cert, key = kit.make_user(self.installation.dir, self.installation.pki, name, ())
        config = self.installation.dir / f"{name}-{self.id().rsplit('.', 1)[1]}.kubeconfig"
        shutil.copyfile(self.installation.pki / "serving-ca.crt", self.installation.dir / "ca.crt")
        config.write_text(f"""
clusters: [{{name: c, cluster: {{server: "https://127.0.0.1:{self.installation.port}/clusters/{path}", certificate-authority: ca.crt}}}}]
users: [{{name: u, user: {{client-certificate: {pathlib.Path(cert).name}, client-key: {pathlib.Path(key).name}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
""")
        return config

    def test_from_creation_to_deletion(self):
        self.assertEqual(self.ws(), "root\n")
        said = self.run_ws("create", "team", "--enter")
        self.assertIn('Workspace "root:team" (type root:universal) is ready to use.\n', said.stdout)
        self.assertIn('Current workspace is "root:team" (type root:universal).\n', said.stdout)
        self.assertIn("created. Waiting", said.stderr)
        self.assertNotIn("\r", said.stderr)
        self.assertEqual(self.ws(), "root:team\n")
        self.kubectl("create", "configmap", "here")
        self.assertIn("here", self.kubectl("get", "configmaps"))

        self.ws("create", "a")
        self.ws("create", "b", "--location-selector", "name=shard-1")
        self.ws("create", "a:deep")
        self.assertEqual(self.ws("tree"), "team\n├── a\n│   └── deep\n└── b\n")
        self.assertEqual(self.ws("tree", "--depth", "1"), "team\n├── a\n└── b\n")
        self.assertEqual(self.ws("tree", "a", "--full"), "root:team:a\n└── root:team:a:deep\n")
        table = [line.split() for line in self.ws("list").splitlines()]
        self.assertEqual([row[0] for row in table], ["NAME", "a", "b"])
        self.assertEqual(table[2][1:4], ["universal", "us-east-1", "Ready"])
        self.assertRegex(table[1][-1], "^[0-9a-z]{16}$")

        self.assertEqual(self.ws(".."), 'Current workspace is "root".\n')
        self.assertEqual(self.ws("-"), 'Current workspace is "root:team".\n')
        self.assertEqual(self.ws("a/deep"), 'Current workspace is "root:team:a:deep" (type root:universal).\n')
        self.assertEqual(self.ws("use", "../../b"), 'Current workspace is "root:team:b" (type root:universal).\n')
        self.assertEqual(self.ws("-"), 'Current workspace is "root:team:a:deep".\n')
        self.assertEqual(self.ws(":"), 'Current workspace is "root".\n')
        self.ws("root:team")

        said = self.run_ws("delete", "root:team")
        self.assertEqual(said.stdout, 'Workspace "root:team" deleted.\n')
        self.assertIn("went with it", said.stderr)
        self.assertEqual(self.installation.client().get(WORKSPACES + "/team").status, 404)
        self.assertIn('"root:team" not found', self.fails(4, "use", ":root:team"))
        self.ws("root")

    def test_the_kubeconfig_keeps_what_it_had(self):
        before = self.kubectl("config", "view", "--raw", "-o", "jsonpath={.users}")
        self.ws("create", "kept", "--enter")
        self.assertEqual(self.config.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.kubectl("config", "view", "--raw", "-o", "jsonpath={.users}"), before)
        self.assertEqual(self.kubectl("config", "current-context"), "workspace.kcp.io/current\n")
        servers = self.kubectl("config", "view", "-o", r'jsonpath={range .clusters[*]}{.name}={.cluster.server}{"\n"}{end}')
        base = f"https://127.0.0.1:{self.installation.port}"
        self.assertEqual(set(servers.split()), {f"root={base}/clusters/root", f"base={base}",
                                                f"workspace.kcp.io/current={base}/clusters/root:kept"})
        self.kubectl("config", "use-context", "base")
        self.assertIn("names no workspace", self.fails(1))
        self.assertIn("absolute", self.fails(1, "kept"))
        self.ws(":root:kept")
        self.assertEqual(self.ws(), "root:kept\n")
        self.assertEqual(self.ws("-"), f"Current server is {base}, which names no workspace.\n")

    def test_home(self):
        config = self.user_config("hanna")
        self.assertEqual(self.ws("~", config=config).split('"')[0], "Current workspace is ")
        home = self.ws(config=config).strip()
        self.assertRegex(home, "^[0-9a-z]{11,13}$")
        self.ws("create", "~:mine", config=config)
        self.assertEqual(self.ws("tree", config=config), f"{home}\n└── mine\n")
        self.ws(":user:hanna:mine", config=config)
        self.assertEqual(self.ws(config=config), "user:hanna:mine\n")
        self.assertEqual(self.ws("..", config=config), 'Current workspace is "user:hanna".\n')
        self.assertIn("nothing above", self.fails(1, "..", config=config))
        self.ws("delete", "~/mine", config=config)
        self.assertEqual(self.ws("tree", "~", config=config), f"{home}\n")

    def test_failures_say_what_is_wrong(self):
        self.ws("create", "once")
        self.assertIn('"once" already exists', self.fails(1, "create", "once"))
        self.ws("create", "once", "--ignore-existing")
        self.assertIn("instead of root:organization",
                      self.fails(1, "create", "once", "--ignore-existing", "--type", "root:organization"))
        self.assertIn('"root:absent" not found', self.fails(4, "absent"))
        self.assertIn('"root:absent" not found', self.fails(4, "delete", "absent"))
        self.assertIn("Bad_x", self.fails(1, "create", "Bad_x"))
        self.assertIn("cannot be resolved", self.fails(5, "create", "typed", "--type", "nothing"))
        self.assertIn("No available shards", self.fails(3, "create", "nowhere", "--location-selector", "region=moon",
                                                        "--timeout", "3"))
        self.assertIn("(Scheduling)", self.ws("tree"))
        self.ws("delete", "nowhere")
        self.assertIn("no previous workspace", self.fails(1, "-"))
        stranger = self.user_config("stranger")
        self.assertIn("access", self.fails(5, "root:once", config=stranger))
        self.assertIn("forbidden", self.fails(5, "list", config=stranger))
        self.assertEqual(self.ws(config=stranger), "root\n")

    def test_wrong_usage(self):
        self.assertIn("unknown option", self.fails(2, "--nothing"))
        self.assertIn("option of `ws create`", self.fails(2, "tree", "--enter"))
        self.assertIn("option of `ws tree`", self.fails(2, "--depth=2"))
        self.assertIn("takes one workspace", self.fails(2, "create"))
        self.assertIn("takes one workspace", self.fails(2, "a", "b"))
        self.assertIn("--timeout", self.fails(2, "create", "x", "--timeout", "0"))
        self.assertIn("location-selector", self.fails(1, "create", "x", "--location-selector", "a=="  "=b"))
        help_text = self.ws("--help")
        for word in ("create", "tree", "list", "delete", "--type", "--location-selector", "--enter", "--ignore-existing",
                     "--depth", "--timeout", "--kubeconfig", "Exit status"):
            self.assertIn(word, help_text)
        self.assertIn("  ws ", subprocess.run([str(kit.BINARY), "help"], capture_output=True, text=True, check=True).stdout)

    def test_servers_and_files_that_are_not_there(self):
        absent = self.installation.dir / "absent"
        self.assertIn("No such file", self.fails(1, config=absent))
        self.assertEqual(self.ws("--kubeconfig", str(self.config), config=absent), "root\n")
        self.assertEqual(self.ws(config=f"{absent}:{self.config}"), "root\n")
        text = self.config.read_text()
        broken = self.installation.dir / "broken"
        broken.write_text(text.replace(f":{self.installation.port}", f":{kit.free_port()}"))
        self.assertRegex(self.fails(1, "list", config=broken), "cannot reach https://127.0.0.1:.*refused")
        broken.write_text(re.sub(r"certificate-authority-data: \S+", "", text))
        self.assertIn("cannot reach", self.fails(1, "list", config=broken))
        broken.write_text(re.sub(r"client-(certificate|key)-data: \S+", "", text))
        self.fails(5, "list", config=broken)
        broken.write_text(re.sub(r"    client-certificate-data: \S+\n    client-key-data: \S+", "    token: wrong", text))
        self.assertIn("does not accept the credentials", self.fails(5, "list", config=broken))
        broken.write_text("a: [")
        self.assertIn("yaml", self.fails(1, config=broken))
        self.assertIn("no current context", self.fails(1, config=os.devnull))

    def test_a_token_is_enough(self):
        self.installation.make_workspace("tokens")
        admin = self.installation.client("/clusters/root:tokens")
        kit.eventually(lambda: admin.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200)
        admin.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "robot"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]})
        token = admin.must("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})["status"]["token"]
        (self.installation.dir / "token").write_text(token + "\n")
        text = self.config.read_text().replace("/clusters/root\n", "/clusters/root:tokens\n")
        self.config.write_text(re.sub(r"    client-certificate-data: \S+\n    client-key-data: \S+", "    tokenFile: token", text))
        self.ws("create", "by-token")
        self.assertEqual(self.ws("tree"), "tokens\n└── by-token\n    └── (no access)\n")

    def test_progress_on_a_terminal(self):
        main, child = pty.openpty()
        env = {**os.environ, "KUBECONFIG": str(self.config)}
        with subprocess.Popen([str(kit.BINARY), "ws", "create", "shown"], stdout=subprocess.DEVNULL, stderr=child,
                              stdin=subprocess.DEVNULL, env=env) as run:
            os.close(child)
            seen = b""
            while True:
                try:
                    part = os.read(main, 4096)
                except OSError:
                    break
                if not part:
                    break
                seen += part
            self.assertEqual(run.wait(), 0)
        os.close(main)
        text = seen.decode()
        self.assertIn("\r\x1b[K", text)
        self.assertRegex(text, r'workspace "root:shown": \w+ … \d+\.\d s')
        self.assertTrue(text.endswith("\r\x1b[K"), repr(text[-40:]))


if __name__ == "__main__":
    unittest.main()
