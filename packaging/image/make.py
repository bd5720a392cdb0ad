#!/usr/bin/env python3
"""An OCI image (layout 1.0) of the program, without a daemon and with the standard library only (OP-805).

One layer: the program and the libraries that ldd names, the user 65532, a folder of CAs, /tmp, NOTICE, licences, the SBOM, and what dpkg
knows of the packages (status.d), which scanners read. No shell; the root can be read-only. Names are sorted, times are those of the
commit, so that the same program and packages give the same digest."""
import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import evidence  # pylint: disable=wrong-import-position

USER = 65532
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
CA_BUNDLE = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
OS_RELEASE = 'PRETTY_NAME="Kintsugi on Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\nID=debian\n'


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Tree:
    """What the layer has: path -> (kind, mode, content or target)."""

    def __init__(self):
        self.entries = {}

    def folder(self, path, mode=0o755):
        if path and path not in self.entries:
            self.folder(path.rpartition("/")[0])
            self.entries[path] = (tarfile.DIRTYPE, mode, b"")

    def file(self, path, content, mode=0o644):
        self.folder(path.rpartition("/")[0])
        self.entries[path] = (tarfile.REGTYPE, mode, content)

    def link(self, path, target):
        self.folder(path.rpartition("/")[0])
        self.entries[path] = (tarfile.SYMTYPE, 0o777, target)

    def tar(self, time):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(self.entries):
                kind, mode, content = self.entries[path]
                one = tarfile.TarInfo(path)
                one.type, one.mode, one.mtime = kind, mode, time
                if kind == tarfile.SYMTYPE:
                    one.linkname = content
                elif kind == tarfile.REGTYPE:
                    one.size = len(content)
                tar.addfile(one, io.BytesIO(content) if kind == tarfile.REGTYPE else None)
        return out.getvalue()


def add_libraries(tree, program):
    """As the loader looks for them; merged /usr."""
    for name in ("lib", "lib64"):
        tree.link(name, "usr/" + name)
    for line in run("ldd", str(program)).splitlines():
        found = re.search(r"(?:=> )?(/\S+) \(0x", line)
        if found is None:
            continue
        path = pathlib.Path(found[1])
        where = str(path) if str(path).startswith("/usr/") else "/usr" + str(path)
        real = path.resolve()
        tree.file(where.lstrip("/"), real.read_bytes(), 0o755)


def add_evidence(tree, program, version):
    linked, compiled = evidence.parts(program)
    doc = "usr/share/doc/"
    tree.file(doc + "kintsugi/NOTICE", evidence.notice(linked, compiled).encode())
    tree.file(doc + "kintsugi/sbom.spdx.json", evidence.sbom(version, linked, compiled).encode())
    for package, *_ in linked:
        tree.file(f"var/lib/dpkg/status.d/{package}", run("dpkg-query", "-s", package).encode())
        copyright_file = pathlib.Path("/usr/share/doc", package, "copyright")
        tree.file(f"{doc}{package}/copyright", copyright_file.read_bytes())
    for name in ("Apache-2.0", "GPL-3", "LGPL-2.1"):
        tree.file("usr/share/common-licenses/" + name, pathlib.Path("/usr/share/common-licenses", name).read_bytes())


def tree_of(program, version):
    tree = Tree()
    tree.file("usr/bin/kintsugi", program.read_bytes(), 0o755)
    tree.link("usr/bin/kcp-front-proxy", "kintsugi")
    tree.link("bin", "usr/bin")
    add_libraries(tree, program)
    add_evidence(tree, program, version)
    tree.file("etc/passwd", f"root:x:0:0:root:/:/sbin/nologin\nkintsugi:x:{USER}:{USER}:Kintsugi:/:/sbin/nologin\n".encode())
    tree.file("etc/group", f"root:x:0:\nkintsugi:x:{USER}:\n".encode())
    tree.file("etc/nsswitch.conf", b"hosts: files dns\n")
    tree.file("etc/os-release", OS_RELEASE.encode())
    tree.folder("etc/ssl/certs")
    if CA_BUNDLE.exists():
        tree.file(str(CA_BUNDLE).lstrip("/"), CA_BUNDLE.read_bytes())
    tree.folder("tmp", 0o1777)
    for folder in ("proc", "sys", "dev", "run"):
        tree.folder(folder)
    return tree


class Layout:
    def __init__(self, folder):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "blobs/sha256").mkdir(parents=True)

    def blob(self, kind, content):
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs/sha256" / digest).write_bytes(content)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    def json(self, kind, value):
        return self.blob(kind, json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def make(program, out):
    about = json.loads(run(str(program), "version", "-o", "json"))
    version, created = about["version"], about["buildDate"]
    os.environ["SOURCE_DATE_EPOCH"] = str(int(datetime.datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp()))
    plain = tree_of(program, version).tar(int(os.environ["SOURCE_DATE_EPOCH"]))
    layout = Layout(out)
    layer = layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(plain, 6, mtime=0))
    labels = {"org.opencontainers.image." + name: text for name, text in {
        "title": "kintsugi", "description": "One API endpoint in front of many control planes", "version": version, "revision": about["gitCommit"],
        "created": created, "licenses": "Apache-2.0", "vendor": "Kintsugi maintainers", "url": "https://kintsugi.dev"}.items()}
    machine = {"architecture": MACHINES.get(os.uname().machine, os.uname().machine), "os": "linux"}
    config = layout.json("application/vnd.oci.image.config.v1+json", {
        **machine, "created": created, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]},
        "history": [{"created": created, "created_by": "packaging/image/make.py"}],
        "config": {"User": f"{USER}:{USER}", "Entrypoint": ["/usr/bin/kintsugi"], "Env": ["PATH=/usr/bin"], "WorkingDir": "/", "StopSignal": "SIGTERM",
                   "Labels": labels}})
    manifest = layout.json("application/vnd.oci.image.manifest.v1+json", {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer], "annotations": labels})
    (out / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", version)  # what a tag may have
    (out / "index.json").write_text(json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{**manifest, "platform": machine, "annotations": {"org.opencontainers.image.ref.name": name}}]}, sort_keys=True))
    return manifest["digest"], layer["size"]


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--program", type=pathlib.Path, required=True, help="stripped, as the Debian package has it")
    asked.add_argument("--out", type=pathlib.Path, required=True, help="folder of the layout; what is there goes")
    said = asked.parse_args()
    digest, size = make(said.program.resolve(), said.out)
    print(f"{said.out}: {digest}, {size} bytes")


if __name__ == "__main__":
    main()
