"""An installation of kcp, as far as a proxy meets it: shards with --as-kcp and their audit logs."""
import json
import re
import subprocess

import front
import kit

PREPARED = 30  # seconds until shards that know each other are ready


class Kcp:
    """`prepare` gets an Installation of ours with the same data and CAs, before its shards become kcp's."""

    def __init__(self, case, shards=2, prepare=lambda installation: None):
        self.installation = kit.Installation(shards=shards).start()
        register = case.addClassCleanup if isinstance(case, type) else case.addCleanup
        register(self.installation.__exit__, None, None, None)
        prepare(self.installation)
        self.installation.stop()
        self.state, self.pki = self.installation.state, self.installation.pki
        self.names = sorted(path.name for path in (self.state / "shards").iterdir())
        self.processes = []
        register(self.stop)
        for name in sorted(self.names, key=lambda name: name != "root"):
            with (self.state / "logs" / f"{name}.log").open("ab") as log:
                self.processes.append(subprocess.Popen(
                    [str(kit.BINARY), "shard", "--join", str(self.state), "--name", name, "--as-kcp", "--audit-log", str(self.audit_file(name))],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        for name in self.names:
            kit.eventually(lambda n=name: self.masters(n, "").get("/readyz").status == 200, PREPARED, f"shard {name}")

    def stop(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()

    def audit_file(self, name):
        return self.state / f"audit-{name}.log"

    def audit(self, name):
        """What was asked of a shard so far: [(method, path without query, user, code)]."""
        lines = [json.loads(line) for line in self.audit_file(name).read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [(line["verb"], line["requestURI"].partition("?")[0], line.get("user", {}).get("username"),
                 line.get("responseStatus", {}).get("code"), line.get("userAgent", "")) for line in lines]

    def url(self, name):
        text = (self.state / "shards" / name / "admin.kubeconfig").read_text()
        return re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)

    def masters(self, shard, path="/clusters/root"):
        """As system:masters, at a shard."""
        return kit.Client(self.url(shard) + path, self.pki / "serving-ca.crt", self.pki / "shard-admin.crt", self.pki / "shard-admin.key")

    def files(self):
        """The kubeconfigs as kcp writes them."""
        root = self.state / "shards" / "root"
        return [f"--root-kubeconfig={root}/root.kubeconfig", f"--shards-kubeconfig={root}/shards.kubeconfig"]

    def proxy(self, config="", *flags):
        """In the place of kcp's; `config`: what else stands in a --config."""
        proxy = front.FrontProxy(self.installation, front.entry(self.installation, "/clusters/", front.CLUSTERS), *self.files(), *flags)
        if config:
            file = proxy.dir / "proxy.yaml"
            file.write_text("apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n" + config)
            proxy.arguments.append(f"--config={file}")
        return proxy

    def user(self, proxy, name, path="/clusters/*", groups=()):
        pair = kit.make_user(self.installation.dir, self.pki, name, groups)
        return kit.Client(f"https://127.0.0.1:{proxy.port}{path}", self.pki / "serving-ca.crt", *pair)
