#!/usr/bin/env python3
"""Packages of this tree, below build/package/: `./dev package deb|image|chart|sbom` (docs/packages.md).

deb    kintsugi, its debug symbols and kintsugi-kcp, by dpkg-buildpackage over an export of what git tracks
image  an OCI image, from the .deb
chart  the Helm chart as a .tgz
sbom   the list of what the program is made of, from the .deb"""
import argparse
import datetime
import email.utils
import gzip
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build/package"
WHO = "Kintsugi maintainers <maintainers@kintsugi.dev>"


def say(text):
    print(f"package: {text}", file=sys.stderr, flush=True)


def version_of_tree(root=ROOT):
    """What the file VERSION of an export has, as names and values (cmake/build_data.cmake)."""
    project = re.search(r"project\(kintsugi VERSION (\S+)", (root / "CMakeLists.txt").read_text())[1]
    text = subprocess.run(["cmake", f"-DROOT={root}", f"-DVERSION={project}", "-DPRINT=ON", "-P", root / "cmake/build_data.cmake"],
                          capture_output=True, text=True, check=True).stdout
    return dict((line.split(" ", 1) + [""])[:2] for line in text.splitlines())


def files_of_tree():
    """What git tracks, and what it would; without git everything but builds."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
    else:
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not {"build", ".git", ".kintsugi"} & set(path.relative_to(ROOT).parts)]
    return sorted(name for name in set(names) if name and (ROOT / name).is_file())


def build_depends():
    packages = [line.split()[1] for line in (ROOT / "tools/packages.txt").read_text().splitlines() if line.startswith("build ")]
    return ",\n ".join(sorted(packages))


def export(folder, version):
    """A clean tree with debian/ in it."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in files_of_tree():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    (folder / "VERSION").write_text("".join(f"{key} {value}\n" for key, value in version.items()))
    debian = folder / "debian"
    shutil.copytree(folder / "packaging/debian", debian)
    control = debian / "control"
    control.write_text(control.read_text().replace("@BUILD@", build_depends()))
    date = email.utils.format_datetime(datetime.datetime.fromtimestamp(int(version["date"] or 0), datetime.timezone.utc))
    (debian / "changelog").write_text(f"kintsugi ({version['version']}) unstable; urgency=medium\n\n"
                                      "  * What is new: CHANGELOG.md in /usr/share/doc/kintsugi\n\n"
                                      f" -- {WHO}  {date}\n")


def environment():
    """Of a build: a bare one, but for the compiler cache, which tells languages of messages apart."""
    env = {name: value for name, value in os.environ.items() if name.startswith("CCACHE_") or name in ("PATH", "HOME", "TERM", "LANG")}
    if "CCACHE_DIR" not in env and shutil.which("ccache"):  # debhelper gives builds a home of their own
        env["CCACHE_DIR"] = subprocess.run(["ccache", "-k", "cache_dir"], capture_output=True, text=True, check=True).stdout.strip()
    return env


def make_deb(said):
    version = version_of_tree()
    folder = said.out / f"kintsugi-{version['version']}"
    export(folder, version)
    env = {**environment(), "DEB_BUILD_OPTIONS": f"parallel={said.jobs}", "TZ": "UTC"}
    old = os.umask(0o022)
    with (said.out / "deb.log").open("w") as log:
        status = subprocess.run(["dpkg-buildpackage", "--build=binary", "--no-sign", "--no-check-builddeps"] if said.unchecked else
                                ["dpkg-buildpackage", "--build=binary", "--no-sign"], cwd=folder, env=env, stdout=log, stderr=log, check=False).returncode
    os.umask(old)
    if status != 0:
        sys.stderr.write("".join((said.out / "deb.log").read_text().splitlines(True)[-40:]))
        raise SystemExit(f"package: dpkg-buildpackage failed; {said.out / 'deb.log'}")
    if not said.keep:
        shutil.rmtree(folder)
    made = sorted(path for path in said.out.glob(f"kintsugi*_{version['version']}_*.*deb"))
    for path in made:
        print(path)
    return made


def newest_deb(said):
    """The package of this tree, made where it is not there."""
    version = version_of_tree()["version"]
    found = sorted(path for path in said.out.glob(f"kintsugi_{version}_*.deb"))
    return found[0] if found else next(path for path in make_deb(said) if path.name.startswith("kintsugi_"))


def make_image(said):
    with tempfile.TemporaryDirectory() as tree:
        subprocess.run(["dpkg-deb", "-x", newest_deb(said), tree], check=True)
        return subprocess.run([sys.executable, ROOT / "packaging/image/make.py", "--program", pathlib.Path(tree, "usr/bin/kintsugi"),
                               "--out", said.out / "image"], check=False).returncode


def make_sbom(said):
    with tarfile.open(fileobj=io.BytesIO(subprocess.run(["dpkg-deb", "--fsys-tarfile", newest_deb(said)], capture_output=True, check=True).stdout)) as tar:
        packed = next(one for one in tar if one.name.endswith("doc/kintsugi/sbom.spdx.json.gz") or one.name.endswith("doc/kintsugi/sbom.spdx.json"))
        text = tar.extractfile(packed).read()
    (said.out / "sbom.spdx.json").write_bytes(gzip.decompress(text) if packed.name.endswith(".gz") else text)
    print(said.out / "sbom.spdx.json")


def make_chart(said):
    """As `helm package` has it; the same tree gives the same bytes."""
    version = version_of_tree()
    chart = ROOT / "charts/kintsugi"
    number = re.search(r"^version: (\S+)", (chart / "Chart.yaml").read_text(), re.M)[1]
    path = said.out / f"kintsugi-{number}.tgz"
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(one for one in chart.rglob("*") if one.is_file()):
            entry = tarfile.TarInfo(f"kintsugi/{file.relative_to(chart)}")
            entry.size, entry.mode, entry.mtime = file.stat().st_size, 0o644, int(version["date"] or 0)
            tar.addfile(entry, io.BytesIO(file.read_bytes()))
    print(path)


MADE = {"deb": make_deb, "image": make_image, "chart": make_chart, "sbom": make_sbom}


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("what", nargs="?", default="deb", choices=MADE)
    asked.add_argument("-j", dest="jobs", type=int, default=os.cpu_count(), help="compilers at a time")
    asked.add_argument("--out", type=pathlib.Path, default=OUT, help="folder for what is made (default build/package)")
    asked.add_argument("--keep", action="store_true", help="leave the tree that was built")
    asked.add_argument("--unchecked", action="store_true", help="do not ask whether the packages that a build needs are installed")
    said = asked.parse_args()
    said.out = said.out.resolve()
    said.out.mkdir(parents=True, exist_ok=True)
    made = MADE[said.what](said)
    return made if isinstance(made, int) else 0


if __name__ == "__main__":
    sys.exit(main())
