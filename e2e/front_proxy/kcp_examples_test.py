"""Every file of configs/kcp serves in front of shards that behave as kcp's do."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

import front
import kcp
import kit

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "configs" / "kcp"


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kcp = kcp.Kcp(cls, prepare=lambda installation: installation.make_workspace("org", selector={"name": "shard-1"}))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.kcp.installation.dir))

    def put(self, name, source):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
        return path

    def put_etc_kcp(self):
        """What the flags and the mapping name, in a folder of its own, with the files as they stand."""
        pki, root = self.kcp.pki, self.kcp.state / "shards" / "root"
        for name, source in {"tls.crt": pki / "proxy.crt", "tls.key": pki / "proxy.key", "client-ca.crt": pki / "client-ca.crt",
                             "requestheader-ca.crt": pki / "requestheader-ca.crt", "server-ca.crt": pki / "serving-ca.crt",
                             "requestheader-client.crt": pki / "proxy-requestheader.crt", "requestheader-client.key": pki / "proxy-requestheader.key",
                             "root.kubeconfig": root / "root.kubeconfig", "shards.kubeconfig": root / "shards.kubeconfig"}.items():
            self.put(name, source)
        for name in ("mapping.yaml", "flags", "proxy.yaml"):
            (self.folder / name).write_text(self.here((EXAMPLES / name).read_text()))

    def here(self, text):
        return (text.replace("/etc/kcp", str(self.folder)).replace("https://root.kcp.example:6443", self.kcp.url("root"))
                .replace("127.0.0.1:9443", "127.0.0.1:0"))

    def proxy(self, arguments):
        """That command line at a port of ours, on loopback."""
        proxy = front.FrontProxy(self.kcp.installation, "", flags=[])
        proxy.arguments = [re.sub("^--secure-port=.*", f"--secure-port={proxy.port}", argument) for argument in arguments]
        proxy.arguments.append("--bind-address=127.0.0.1")
        return proxy

    def serves(self, proxy, *unknown):
        with proxy:
            self.assertEqual(proxy.client("").get("/clusters/root:org/api/v1/namespaces/default").status, 200)
            self.assertEqual(proxy.client("").get("/services/apiexport/root/tenancy.kcp.io/clusters/root/api").status, 200)
            self.assertEqual([line["msg"] for line in proxy.lines() if "is not known" in line["msg"]], list(unknown))

    def test_command_line_and_mapping_file(self):
        self.put_etc_kcp()
        self.serves(self.proxy((self.folder / "flags").read_text().split()))

    def test_configuration_besides_the_command_line(self):
        self.put_etc_kcp()
        proxy = self.proxy([*(self.folder / "flags").read_text().split(), f"--config={self.folder / 'proxy.yaml'}", f"--root-directory={self.folder}"])
        with proxy:
            self.assertEqual(proxy.client("").get("/clusters/root:org/api/v1/namespaces/default").status, 200)
            everywhere = self.kcp.user(proxy, "root-admin", groups=("system:kcp:admin",))
            self.assertEqual(everywhere.get("/api/v1/namespaces").status, 200, "administrators of root may get every path there")
            self.assertEqual(self.kcp.user(proxy, "nobody").get("/api/v1/namespaces").status, 403)

    def test_unit_of_systemd(self):
        self.put_etc_kcp()
        unit = (EXAMPLES / "kcp-front-proxy.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.M).group(1)
        proxy = self.proxy([])
        (self.folder / "flags").write_text((self.folder / "flags").read_text().replace("--secure-port=6443", f"--secure-port={proxy.port} --bind-address=127.0.0.1"))
        program = self.folder / "kcp-front-proxy"
        program.symlink_to(kit.BINARY)
        shell = shlex.split(self.here(command).replace("/usr/local/bin/kcp-front-proxy", str(program)).replace("/var/lib/kcp-front-proxy", str(self.folder / "state")))
        proxy.program, proxy.arguments = shell[0], shell[1:]
        self.serves(proxy)

    def test_manifests(self):
        """What the container would be started with; the Secrets that it mounts are what kcp's operator puts there."""
        run = subprocess.run([kit.needs_kubectl(), "annotate", "--local", "-f", EXAMPLES / "manifests.yaml", "a=b", "-o", "json"],
                             capture_output=True, text=True, timeout=60, check=True)
        decoder, objects, rest = json.JSONDecoder(), {}, run.stdout.strip()
        while rest:
            value, end = decoder.raw_decode(rest)
            for one in value["items"] if value["kind"] == "List" else [value]:
                objects[one["kind"]] = one
            rest = rest[end:].strip()
        pod = objects["Deployment"]["spec"]["template"]["spec"]
        container, pki = pod["containers"][0], self.kcp.pki
        self.assertEqual(container["command"], ["/kcp-front-proxy"])
        etc = {mount["name"]: mount["mountPath"].removeprefix("/etc/") for mount in container["volumeMounts"]}
        self.assertEqual(set(etc), {volume["name"] for volume in pod["volumes"]})
        pairs = {"tls": "proxy", "kubeconfig-client-cert": "shard-admin", "requestheader-client": "proxy-requestheader"}
        for name, pair in pairs.items():
            for end in ("crt", "key"):
                self.put(f"{etc[name]}/tls.{end}", pki / f"{pair}.{end}")
        self.put(f"{etc['client-ca']}/tls.crt", pki / "client-ca.crt")
        self.put(f"{etc['ca']}/tls.crt", pki / "serving-ca.crt")
        self.put(f"{etc['service-account']}/tls.key", pki / "service-account.key")
        for name, text in objects["ConfigMap"]["data"].items():
            path = self.folder / etc["config"] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("/etc/", f"{self.folder}/").replace("https://root.kcp.example:6443", self.kcp.url("root")))
        pair = self.folder / etc["kubeconfig-client-cert"]
        config = front.kubeconfig(self.kcp.installation, {"client-certificate": f"{pair}/tls.crt", "client-key": f"{pair}/tls.key"}, self.kcp.url("root"))
        self.put(f"{etc['kubeconfig']}/kubeconfig", config)
        for path in self.folder.rglob("*.key"):  # as a mounted Secret has it with an fsGroup
            os.chmod(path, 0o440)
        proxy = self.proxy([argument.replace("/etc/", f"{self.folder}/") for argument in container["args"]])
        for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/livez")):
            self.assertEqual(container[probe]["httpGet"]["path"], path)
        port = next(one["containerPort"] for one in container["ports"] if one["name"] == container["readinessProbe"]["httpGet"]["port"])
        self.assertIn(f"--secure-port={port}", container["args"])
        self.assertEqual(objects["Service"]["spec"]["ports"][0]["targetPort"], "https")
        self.assertEqual(objects["Service"]["spec"]["selector"], objects["Deployment"]["spec"]["template"]["metadata"]["labels"])
        self.serves(proxy)


if __name__ == "__main__":
    unittest.main()
