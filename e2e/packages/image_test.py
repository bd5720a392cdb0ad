"""The OCI image (OP-805), of the program under test: its form, its digest, and what runs in it."""
import gzip
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import kit

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKE = ROOT / "packaging/image/make.py"


@kit.without_sanitizer
class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-image-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        if shutil.which("dpkg-query") is None or shutil.which("strip") is None:
            raise unittest.SkipTest("needs dpkg and binutils")
        program = cls.dir / "kintsugi"
        subprocess.run(["strip", "-o", program, kit.BINARY], check=True)
        for name in ("one", "two"):
            made = subprocess.run([sys.executable, MAKE, "--program", program, "--out", cls.dir / name], capture_output=True, text=True,
                                  check=False, umask=0o022 if name == "one" else 0o077, env={**os.environ, "TZ": "Asia/Tokyo" if name == "two" else "UTC"})
            if made.returncode != 0:
                raise AssertionError(made.stderr)
        cls.layout = cls.dir / "one"
        cls.index = json.loads((cls.layout / "index.json").read_text())
        cls.manifest = json.loads(cls.blob(cls.index["manifests"][0]))
        cls.config = json.loads(cls.blob(cls.manifest["config"]))

    @classmethod
    def blob(cls, descriptor):
        kind, _, digest = descriptor["digest"].partition(":")
        content = (cls.layout / "blobs" / kind / digest).read_bytes()
        assert (kind, hashlib.sha256(content).hexdigest(), len(content)) == ("sha256", digest, descriptor["size"]), descriptor
        return content

    def test_OP_805_twice_made_it_has_one_digest(self):
        self.assertEqual((self.dir / "one/index.json").read_bytes(), (self.dir / "two/index.json").read_bytes())

    def test_OP_T804_the_layout_is_as_OCI_has_it(self):
        self.assertEqual(json.loads((self.layout / "oci-layout").read_text()), {"imageLayoutVersion": "1.0.0"})
        self.assertEqual((self.index["schemaVersion"], self.manifest["schemaVersion"]), (2, 2))
        layer, = self.manifest["layers"]
        plain = gzip.decompress(self.blob(layer))
        self.assertEqual(self.config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(plain).hexdigest()])
        used = {one["digest"].removeprefix("sha256:") for one in (self.index["manifests"][0], self.manifest["config"], layer)}
        self.assertEqual({path.name for path in (self.layout / "blobs/sha256").iterdir()}, used)
        self.assertEqual((self.config["config"]["User"], self.config["config"]["Entrypoint"]), ("65532:65532", ["/usr/bin/kintsugi"]))
        self.assertEqual(self.config["config"]["Labels"]["org.opencontainers.image.licenses"], "Apache-2.0")
        self.assertLess(layer["size"], 20 << 20)

    def unpacked(self):
        root = self.dir / "root"
        if not root.exists():
            layer, = self.manifest["layers"]
            with tarfile.open(self.layout / "blobs/sha256" / layer["digest"].removeprefix("sha256:")) as tar:
                tar.extractall(root, numeric_owner=True)
            self.dir.chmod(0o755)
            root.chmod(0o755)
        return root

    def test_OP_805_there_is_no_shell_and_what_scanners_read(self):
        root = self.unpacked()
        self.assertEqual({path.name for path in (root / "usr/bin").iterdir()}, {"kintsugi", "kcp-front-proxy"})
        self.assertIn("Package: libssl3\n", (root / "var/lib/dpkg/status.d/libssl3").read_text())
        self.assertEqual(json.loads((root / "usr/share/doc/kintsugi/sbom.spdx.json").read_text())["spdxVersion"], "SPDX-2.3")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "only root can make a root")
    def test_OP_T804_it_runs_read_only_as_its_user_and_ends_with_0(self):
        root, port = self.unpacked(), kit.free_port()
        data = self.dir / "data"
        data.mkdir()
        os.chown(data, 65532, 65532)
        (root / "data").mkdir(exist_ok=True)
        # In a root that is no mount point nothing is to be made private: whoever made that root has seen to it.
        begin = ('set -e; mount --make-rprivate / 2>/dev/null || true; mount --bind "$1" "$1"; mount --bind "$2" "$1/data"; mount -t proc proc "$1/proc"; mount -o remount,bind,ro "$1"; shift 2; '
                 'exec chroot --userspec=65532:65532 "$@"')
        process = subprocess.Popen(["unshare", "--mount", "--propagation", "unchanged", "bash", "-c", begin, "bash", root, data, root, "/usr/bin/kintsugi",
                                    "up", "--dir", "/data", "--port", str(port), "--shards", "1"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin"})
        try:
            kit.eventually(lambda: process.poll() is not None or (data / "ready").exists(), 30, "an installation")
            self.assertIsNone(process.poll(), process.stdout.read() if process.poll() is not None else "")
            pki = data / "pki"
            client = kit.Client(f"https://127.0.0.1:{port}/clusters/root", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")
            self.assertEqual(client.get("/api/v1/namespaces/default").status, 200)
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            self.assertIn("Uid:\t65532\t65532\t65532\t65532\n", status)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(120), 0)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                time.sleep(0.1)
                process.kill()
                process.wait()
            process.stdout.close()


if __name__ == "__main__":
    unittest.main()
