"""`--validate=deep` of proxy, shard and worker: the servers that a configuration names are asked (OP-105)."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import kit
from given_sockets import GIVE

WORKER = """apiVersion: kintsugi.dev/v1alpha1
kind: WorkerConfiguration
kubeconfig: {kubeconfig}
data_dir: data
roles:
  example:
    endpoints: {{cluster: root, name: {slice}}}
    lease_clusters: [root]
"""


def setUpModule():
    global installation
    installation = kit.Installation(*(["--store", "etcd"] if shutil.which("etcd") else []), shards=2).start_for()


def look(*words, expect):
    """The findings and the last line."""
    run = subprocess.run([str(kit.BINARY), *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == expect, (run.returncode, run.stdout, run.stderr)
    *findings, last = run.stdout.splitlines()
    return findings, last


def asked(path):
    """Of the admin listener."""
    return subprocess.run(["curl", "-sS", "--unix-socket", str(installation.state / "run/admin.sock"), f"http://admin{path}"], capture_output=True, text=True,
                          timeout=60, check=True).stdout


class ProxyLooks(unittest.TestCase):
    def setUp(self):
        self.proxy = kit.Proxy(installation, {})
        self.file = self.proxy.dir / "proxy.yaml"

    def deep(self, expect):
        findings, last = look("proxy", "--config", self.file, "--validate=deep", expect=expect)
        return [line.replace(f"{self.proxy.dir}/", "") for line in findings], last

    def edit(self, name, old, new):
        path = self.proxy.dir / name
        text = path.read_text()
        self.assertRegex(text, old)
        kit.replace_file(path, re.sub(old, new, text).encode())

    def test_OP_105_all_is_well(self):
        self.assertEqual(self.deep(0)[0], [])
        self.assertFalse((self.proxy.dir / "data").exists())  # nothing is written
        findings, last = look("proxy", "--config", installation.state / "proxy/proxy.yaml", "--validate=deep", expect=0)
        self.assertEqual(len(findings), 1)  # it runs
        self.assertRegex(findings[0], rf"^warning: .*: listener.port: 127\.0\.0\.1:{installation.port} is in use \(pid {installation.pid('proxy')}\), as is .*store.lock: by what runs with")
        self.assertRegex(last, r"^/.*/proxy.yaml: ok \(\d+ checks, 1 warning\)$")

    def test_OP_105_a_port_of_somebody_else(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            self.proxy.config["listener"]["port"] = other.getsockname()[1]
            self.proxy.write_config()
            self.assertRegex(self.deep(1)[0][0], r"^error: proxy.yaml:\d+: listener.port: 127\.0\.0\.1:\d+ is in use \(pid %d\)$" % os.getpid())
            given = subprocess.run([sys.executable, "-c", GIVE, "1", str(other.fileno()), kit.BINARY, "proxy", "--config", self.proxy.dir / "proxy.yaml", "--validate=deep"],
                                   pass_fds=[other.fileno()], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(given.returncode, 0, given.stderr)
            self.assertNotIn("in use", given.stdout + given.stderr, "who is given the socket may have it")

    def test_OP_105_root_is_away(self):
        self.edit("root.kubeconfig", r"https://127\.0\.0\.1:\d+", f"https://127.0.0.1:{kit.free_port()}")
        self.assertRegex("\n".join(self.deep(1)[0]), r"^error: proxy.yaml:\d+: topology.root_kubeconfig: root \(https://127\.0\.0\.1:\d+\): refused the connection$")

    def test_OP_105_root_has_another_certificate(self):
        files = kit.certificate(self.proxy.dir, "other", "DNS:k.example")
        for ca, wanted in ((installation.pki / "serving-ca.crt", "its certificate is not of the CA that is named"),
                           (files["crt"], r"its certificate does not name the host \(it is for k\.example\)")):  # fmt: skip
            with self.subTest(wanted):
                with subprocess.Popen(["openssl", "s_server", "-quiet", "-accept", "127.0.0.1:0", "-cert", str(files["crt"]), "-key",
                                       str(files["key"])], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:  # fmt: skip
                    try:
                        port = kit.eventually(lambda: port_of(server.pid), 20, "openssl listens")
                        text = (installation.state / "shards/root/proxy.kubeconfig").read_text()
                        text = re.sub(r"https://127\.0\.0\.1:\d+", f"https://127.0.0.1:{port}", text)
                        text = re.sub(r"certificate-authority-data: .*", f"certificate-authority: {ca}", text)
                        kit.replace_file(self.proxy.dir / "root.kubeconfig", text.encode())
                        self.assertRegex(self.deep(1)[0][0], rf"^error: proxy.yaml:\d+: topology.root_kubeconfig: root \(https://127\.0\.0\.1:{port}\): {wanted}$")
                    finally:
                        server.kill()

    def test_OP_105_credentials_that_are_nobodys(self):
        cert, key = kit.make_user(self.proxy.dir, installation.pki, "ada", ())
        self.proxy.config["topology"]["shards_kubeconfig"] = "ada.kubeconfig"
        self.proxy.config["backend"].update(cert_file=cert, key_file=key)
        self.proxy.write_config()
        text = (self.proxy.dir / "shards.kubeconfig").read_text()
        text = re.sub(r"client-certificate-data: .*", f"client-certificate: {cert}", text)
        text = re.sub(r"client-key-data: .*", f"client-key: {key}", text)
        kit.replace_file(self.proxy.dir / "ada.kubeconfig", text.encode())
        (self.proxy.dir / "ada.kubeconfig").chmod(0o600)
        found = "\n".join(self.deep(1)[0])
        for shard in ("root", "shard-1"):
            self.assertRegex(found, rf"(?m)^warning: proxy.yaml:\d+: topology.shards_kubeconfig: {shard} \(https://[0-9.:]+\): does not allow it \(403\): .*ada")
            self.assertRegex(found, rf'(?m)^error: proxy.yaml:\d+: backend.cert_file: {shard} \(.*every caller would be user "ada"')

    def test_OP_105_a_shard_hangs(self):
        pid = installation.pid("shard-1")
        try:
            installation.kill("shard-1", signal.SIGSTOP)
            found, last = self.deep(0)
            # what people read changes with the metric, at the first probe that fails.
            kit.eventually(lambda: 'kintsugi_shard_up{shard="shard-1"} 0' in asked("/metrics"), 20, "the metric")
            table = subprocess.run([str(kit.BINARY), "get", "shards", "--admin", str(installation.state / "run/admin.sock")], capture_output=True, text=True,
                                   timeout=60, check=True)  # fmt: skip
            self.assertRegex(table.stdout, r"(?m)^shard-1 +no .*does not answer")
        finally:
            installation.kill("shard-1", signal.SIGCONT)
        self.assertEqual(installation.pid("shard-1"), pid)
        self.assertRegex("\n".join(found), r"(?m)^warning: .*: topology.shards_kubeconfig: shard-1 \(https://[0-9.:]+\): did not answer within 5 s$")
        self.assertRegex(last, r": ok \(\d+ checks, 2 warnings\)$")

    @unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
    def test_OP_105_etcd(self):
        text = (installation.state / "proxy/proxy.yaml").read_text()
        section = re.search(r"^store:\n((?:  .*\n)+)", text, re.MULTILINE)[1]
        self.proxy.config["store"] = dict(re.findall(r"^  (\w+): (.*)$", section, re.MULTILINE))
        keys = self.proxy.config["store"]
        self.proxy.write_config()
        self.assertEqual(self.deep(0)[0], [])
        authority = keys.pop("ca_file")
        keys["ca_file"] = kit.certificate(self.proxy.dir, "not-etcds", "DNS:etcd")["crt"]
        self.proxy.write_config()
        self.assertRegex("\n".join(self.deep(0)[0]), r"(?m)^warning: proxy.yaml:\d+: store.endpoints: etcd \(https://[0-9.:]+\): its certificate is not of the CA")
        keys["ca_file"] = authority
        keys.pop("cert_file")
        keys.pop("key_file")
        self.proxy.write_config()
        self.assertRegex("\n".join(self.deep(0)[0]), r"(?m)^warning: proxy.yaml:\d+: store.endpoints: etcd \(https://[0-9.:]+\): .*certificate")


class ShardLooks(unittest.TestCase):
    def test_OP_105_who_would_join(self):
        join = ["shard", "--join", installation.state, "--name", "other"]
        self.assertEqual(look(*join, "--validate=syntax", expect=0), ([], "shard other: ok (0 checks)"))
        findings, last = look(*join, "--validate=deep", expect=0)
        self.assertEqual(findings, [])
        self.assertRegex(last, r"^shard other: ok \(\d+ checks\)$")
        self.assertFalse((installation.state / "shards/other").exists())
        findings, _ = look(*join, "--encryption-provider-config=/nowhere", "--validate", expect=1)
        self.assertRegex(findings[0], "^error: command line: --encryption-provider-config: .*/nowhere")
        findings, _ = look("shard", "--join", "/nowhere", "--name", "other", "--validate", expect=1)
        self.assertRegex(findings[0], "^error: command line: --join: /nowhere does not exist")

    def test_OP_105_its_etcd_is_away(self):
        findings, last = look("shard", "--join", installation.state, "--name", "other", f"--store=etcd=http://127.0.0.1:{kit.free_port()}",
                              "--validate=deep", expect=1)  # fmt: skip
        self.assertRegex("\n".join(findings), r"^error: command line: --store: etcd \(http://127\.0\.0\.1:\d+\): refused the connection$")
        self.assertRegex(last, r"^shard other: 1 error \(\d+ checks\)$")


class WorkerLooks(unittest.TestCase):
    def write(self, slice_name):
        folder = pathlib.Path(installation.dir)
        file = folder / "worker.yaml"
        file.write_text(WORKER.format(kubeconfig=installation.kubeconfig, slice=slice_name))
        return file

    def test_OP_105_its_slice_and_its_endpoints(self):
        client = installation.client()
        client.must("POST", "/apis/apis.kcp.io/v1alpha2/apiexports", {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
                                                                       "metadata": {"name": "gears"}, "spec": {}})  # fmt: skip
        kit.eventually(lambda: client.must("GET", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/gears")["status"]["endpoints"], 20, "a slice")
        self.assertEqual(look("worker", "--config", self.write("gears"), "--validate=deep", expect=0)[0], [])
        findings, _ = look("worker", "--config", self.write("wheels"), "--validate=deep", expect=1)
        self.assertRegex("\n".join(findings), r"^error: /.*/worker.yaml:\d+: roles.example.endpoints.name: proxy \(https://127\.0\.0\.1:\d+\): answers 404: .*wheels")

    def test_OP_105_syntax_looks_at_no_file(self):
        file = self.write("gears")
        file.write_text(file.read_text().replace(str(installation.kubeconfig), "/nowhere"))
        self.assertEqual(look("worker", "--config", file, "--validate=syntax", expect=0), ([], f"{file}: ok"))
        run = subprocess.run([str(kit.BINARY), "worker", "--config", str(file), "--validate"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((run.returncode, run.stdout), (2, ""))


def port_of(pid):
    """The port that a process listens on; None: none yet."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        target = str(fd.readlink())
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            return int(fields[1].split(":")[1], 16)
    return None


if __name__ == "__main__":
    unittest.main()
