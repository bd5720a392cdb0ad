"""The Debian packages, built from this tree, and their life in a fresh Debian 12 that systemd runs (OP-801 to OP-804).

KINTSUGI_DEBS names a folder that has them already."""
import http.client
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import debian_root
import kit

ONLY_WITH_ALL = "builds packages, and needs debootstrap"
ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGMAPS = "/clusters/root:demo/api/v1/namespaces/default/configmaps"


def setUpModule():
    global folder, debs
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-deb-"))
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    made = os.environ.get("KINTSUGI_DEBS")
    if made is None:
        if missing := [name for name in ("dpkg-buildpackage", "dh", "cmake", "ninja") if shutil.which(name) is None]:
            raise unittest.SkipTest(f"there is no {missing[0]}; ./dev package installs it")
        made = folder
        subprocess.run([ROOT / "tools/package.py", "deb", "-j1", "--out", made], check=True, stdout=subprocess.DEVNULL)
    debs = {re.match(r"[a-z-]+", path.name)[0]: path for path in sorted(pathlib.Path(made).glob("*.deb"))}


def field(deb, name):
    return subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True, check=True).stdout.strip()


def contents(deb):
    """Path -> (mode, owner)."""
    listed = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
    return {line.split(None, 5)[5].split(" -> ")[0].lstrip("."): tuple(line.split(None, 2)[:2]) for line in listed.splitlines()}


def next_version(deb, into):
    """The same package under the version that comes next."""
    with tempfile.TemporaryDirectory() as tree:
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
        control = pathlib.Path(tree, "DEBIAN/control")
        version = field(deb, "Version") + ".next"
        control.write_text(re.sub(r"(?m)^Version: .*$", "Version: " + version, control.read_text()))
        out = into / f"kintsugi_{version}_amd64.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, out], check=True, stdout=subprocess.DEVNULL)
    return out


class Contents(unittest.TestCase):
    def test_OP_801_OP_T803_lintian_has_nothing_to_say(self):
        if shutil.which("lintian") is None:
            self.skipTest("there is no lintian")
        told = subprocess.run(["lintian", "--allow-root", "--fail-on=error,warning", "--display-info", *debs.values()], capture_output=True, text=True, check=False)
        self.assertEqual((told.returncode, [line for line in told.stdout.splitlines() if line[0] in "EW"]), (0, []), told.stdout + told.stderr)

    def test_OP_802_the_tree_is_what_is_told(self):
        files = contents(debs["kintsugi"])
        for path in ("/usr/bin/kintsugi", "/usr/lib/sysusers.d/kintsugi.conf", "/usr/lib/tmpfiles.d/kintsugi.conf", "/etc/logrotate.d/kintsugi",
                     "/usr/share/man/man1/kintsugi.1.gz", "/usr/share/man/man1/kintsugi-proxy.1.gz", "/usr/share/bash-completion/completions/kintsugi",
                     "/usr/share/zsh/vendor-completions/_kintsugi", "/usr/share/fish/vendor_completions.d/kintsugi.fish",
                     "/usr/share/kintsugi/monitoring/prepare", "/usr/share/kintsugi/monitoring/kintsugi.rules.yml",
                     *[f"/usr/share/doc/kintsugi/{name}" for name in ("copyright", "NOTICE", "changelog.gz", "sbom.spdx.json", "packages.md", "configuration.md")],
                     *[f"/lib/systemd/system/kintsugi{name}" for name in ("-proxy.service", "-proxy.socket", "-shard@.service", "-worker@.service", "-up.service",
                                                                         "-backup@.service", "-backup@.timer", ".target")]):
            self.assertIn(path, files)
        for path in ("/etc/kintsugi/proxy.yaml", "/etc/kintsugi/worker.yaml", "/etc/default/kintsugi"):
            self.assertEqual(files[path], ("-rw-r-----", "root/root"), path)
        conffiles = subprocess.run(["dpkg-deb", "--ctrl-tarfile", debs["kintsugi"]], capture_output=True, check=True).stdout
        listed = subprocess.run(["tar", "xO", "./conffiles"], input=conffiles, capture_output=True, check=True).stdout.decode().split()
        self.assertEqual(set(listed), {path for path in files if path.startswith("/etc/") and not path.endswith("/")})
        self.assertEqual(files["/usr/bin/kintsugi"], ("-rwxr-xr-x", "root/root"))
        self.assertTrue(any("/usr/lib/debug/.build-id/" in path for path in contents(debs["kintsugi-dbgsym"])))
        self.assertIn("/usr/bin/kcp-front-proxy", contents(debs["kintsugi-kcp"]))

    def test_OP_808_the_sbom_has_what_the_program_is_linked_with(self):
        with tempfile.TemporaryDirectory() as tree:
            subprocess.run(["dpkg-deb", "-x", debs["kintsugi"], tree], check=True)
            share = pathlib.Path(tree, "usr/share/doc/kintsugi")
            sbom = json.loads((share / "sbom.spdx.json").read_text())
            needed = subprocess.run(["objdump", "-p", pathlib.Path(tree, "usr/bin/kintsugi")], capture_output=True, text=True, check=True).stdout
            notice = (share / "NOTICE").read_text()
        self.assertEqual(sbom["spdxVersion"], "SPDX-2.3")
        packages = {one["SPDXID"]: one for one in sbom["packages"]}
        linked = {packages[one["relatedSpdxElement"]]["name"] for one in sbom["relationships"] if one["relationshipType"] == "DYNAMIC_LINK"}
        depends = {re.match(r"\S+", one.strip())[0] for one in field(debs["kintsugi"], "Depends").split(",")} - {"debconf", "procps", "systemd-standalone-sysusers"}
        self.assertLessEqual(depends, linked)
        self.assertGreaterEqual(len(linked) + 2, len(re.findall("NEEDED", needed)))
        for one in packages.values():
            self.assertEqual([key for key in ("SPDXID", "name", "versionInfo", "downloadLocation", "licenseConcluded") if not one.get(key)], [])
        for name in linked:
            self.assertIn(f"({name} ", notice)


class Life(unittest.TestCase):
    """One machine, one story."""

    @classmethod
    def setUpClass(cls):
        cls.machine = debian_root.Machine()
        cls.addClassCleanup(cls.machine.end)
        cls.port, cls.state = kit.free_port(), cls.machine.root / "var/lib/kintsugi"
        cls.old = debs["kintsugi"]
        cls.new = next_version(cls.old, cls.machine.dir)
        for deb in (cls.old, cls.new):
            shutil.copy(deb, cls.machine.root / "root")
        cls.machine.run("apt-get", "update")

    def install(self, deb, *options):
        return self.machine.run("apt-get", "install", "-y", "--no-install-recommends", *options, f"/root/{deb.name}")

    def client(self, path="/clusters/root"):
        pki = self.state / "pki"
        return kit.Client(f"https://127.0.0.1:{self.port}{path}", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")

    def start(self, *units):
        try:
            self.machine.run("systemctl", "start", *units)
        except AssertionError as fault:
            raise AssertionError("\n".join([str(fault), *map(self.machine.journal, units)])) from None

    def pid(self, unit):
        return int(self.machine.unit(unit)["MainPID"])

    def test_OP_T801_installed_configured_upgraded_removed_purged(self):
        for step in (self.is_installed, self.serves_a_first_workspace, self.has_a_service_for_each_process, self.is_upgraded_under_a_watch,
                     self.keeps_what_runs_where_the_configuration_is_wrong, self.reloads_and_is_watched, self.keeps_its_port_by_the_socket_unit,
                     self.is_backed_up, self.is_removed_and_purged, self.is_installed_again_and_purged_with_its_data):
            begin = time.monotonic()
            step()
            print(f"note: {step.__name__}: {time.monotonic() - begin:.1f} s", flush=True)

    def is_installed(self):
        said = self.install(self.old)
        self.assertNotRegex(said.stdout + said.stderr, r"(?i)error|failed|cannot")
        self.assertEqual(self.machine.run("dpkg", "--verify", "kintsugi").stdout, "")
        self.assertEqual(self.machine.run("kintsugi", "version").stdout, f"kintsugi {field(self.old, 'Version')}\n")
        modes = self.machine.run("stat", "-c", "%a %U %G %n", "/etc/kintsugi/proxy.yaml", "/etc/kintsugi/pki", "/var/lib/kintsugi", "/var/log/kintsugi").stdout
        self.assertEqual(modes.splitlines(), ["640 root kintsugi /etc/kintsugi/proxy.yaml", "750 root kintsugi /etc/kintsugi/pki",
                                              "700 kintsugi kintsugi /var/lib/kintsugi", "750 kintsugi kintsugi /var/log/kintsugi"])
        self.assertEqual(self.machine.run("systemctl", "list-units", "--plain", "--no-legend", "kintsugi*").stdout, "")
        self.assertNotIn("enabled ", self.machine.run("systemctl", "list-unit-files", "--no-legend", "kintsugi*").stdout.replace("enabled enabled", "enabled "))

    def serves_a_first_workspace(self):
        self.machine.put("/etc/default/kintsugi", f"KINTSUGI_UP_OPTIONS=--port {self.port} --shards 1\n")
        self.start("kintsugi-up")
        shown = self.machine.unit("kintsugi-up")
        self.assertEqual((shown["ActiveState"], shown["StatusText"]), ("active", f"ready: a proxy at https://127.0.0.1:{self.port}"))
        workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
        self.client().must("POST", workspaces, {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "demo"}, "spec": {}})
        kit.eventually(lambda: self.client().must("GET", workspaces + "/demo")["status"]["phase"] == "Ready", 20, "a workspace")
        kit.eventually(lambda: self.client("").get("/clusters/root:demo/api/v1/namespaces/default").status == 200, 20, "its namespace")
        self.machine.run("systemctl", "stop", "kintsugi-up")
        self.assertEqual(self.machine.unit("kintsugi-up")["Result"], "success")

    def has_a_service_for_each_process(self):
        text = (self.machine.root / "etc/kintsugi/proxy.yaml").read_text()
        self.machine.put("/etc/kintsugi/proxy.yaml", text.replace("6443", str(self.port)) + "shutdown:\n  delay_ms: 0\n  grace_ms: 3000\n")
        self.start("kintsugi-shard@root", "kintsugi-proxy")
        for unit, told in (("kintsugi-proxy", "ready"), ("kintsugi-shard@root", "shard root at https://127.0.0.1:")):
            shown = self.machine.unit(unit)
            self.assertEqual((shown["ActiveState"], shown["Type"], shown["WatchdogUSec"], shown["NRestarts"]), ("active", "notify", "30s", "0"))
            self.assertTrue(shown["StatusText"].startswith(told), shown["StatusText"])
            status = pathlib.Path(f"/proc/{self.host_pid(unit)}/status").read_text()
            self.assertRegex(status, r"NoNewPrivs:\t1\n")
            self.assertRegex(status, r"Seccomp:\t2\n")
            self.assertRegex(status, r"CapBnd:\t0{16}\n")
        self.assertEqual(self.client("").get("/clusters/root:demo/api/v1/namespaces/default").status, 200)
        self.assertIn("root", self.machine.run("kintsugi", "get", "shards").stdout)

    def host_pid(self, unit):
        """The number that this side has for its main process."""
        inner = str(self.pid(unit))
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                numbers = re.search(r"NSpid:\t(.*)", status.read_text())[1].split()
                if numbers[-1] == inner and len(numbers) > 1 and (status.parent / "comm").read_text() == "kintsugi\n":
                    return status.parent.name
            except (OSError, TypeError):
                continue
        raise AssertionError(f"no process is {unit}'s")

    def is_upgraded_under_a_watch(self):
        before = {unit: self.pid(unit) for unit in ("kintsugi-proxy", "kintsugi-shard@root")}
        resumed = ResumedWatch(self.client(""))
        writer = Writer(self.client(""))
        kit.eventually(lambda: len(resumed.names) >= 5, 20, "events")
        said = self.install(self.new)
        self.assertNotRegex(said.stdout + said.stderr, r"did not start again|runs on as before")
        written = len(writer.names)
        kit.eventually(lambda: len(writer.names) > written + 5, 30, "writes after the upgrade")
        names = writer.stop()
        kit.eventually(lambda: set(names) <= set(resumed.names), 30, "all events")
        resumed.stop()
        self.assertEqual(sorted(set(resumed.names)), sorted(resumed.names), "an event came twice")
        self.assertEqual(resumed.faults, [])
        self.assertGreaterEqual(resumed.connections, 2)
        for unit, pid in before.items():
            self.assertNotEqual(self.pid(unit), pid, unit)
            self.assertEqual(self.machine.unit(unit)["ActiveState"], "active")

    def keeps_what_runs_where_the_configuration_is_wrong(self):
        path = "/etc/kintsugi/proxy.yaml"
        right = (self.machine.root / path.lstrip("/")).read_text()
        self.machine.put(path, right + "wildcrad: deny\n")
        pid = self.pid("kintsugi-proxy")
        said = self.install(self.old, "--allow-downgrades")
        self.assertIn("wildcrad", said.stdout + said.stderr)
        self.assertIn("runs on as before the upgrade", said.stdout + said.stderr)
        self.assertEqual(self.pid("kintsugi-proxy"), pid)
        self.assertEqual(self.client("").get("/clusters/root:demo/api/v1/namespaces/default").status, 200)
        self.machine.put(path, right)

    def reloads_and_is_watched(self):
        pid = self.pid("kintsugi-proxy")
        self.machine.run("systemctl", "reload", "kintsugi-proxy")
        kit.eventually(lambda: "files reloaded" in self.machine.journal("kintsugi-proxy"), 20, "a reload")
        self.assertEqual(self.machine.unit("kintsugi-proxy")["ActiveState"], "active")
        sign = int(self.machine.unit("kintsugi-proxy")["WatchdogTimestampMonotonic"])
        kit.eventually(lambda: int(self.machine.unit("kintsugi-proxy")["WatchdogTimestampMonotonic"]) > sign, 20, "a sign of life")
        self.assertEqual(self.pid("kintsugi-proxy"), pid)
        self.machine.put("/etc/kintsugi/wrong.yaml", "apiVersion: kintsugi.dev/v1alpha1\n")
        self.assertNotEqual(self.machine.run("kintsugi", "worker", "--config", "/etc/kintsugi/wrong.yaml", check=False).returncode, 0)

    def keeps_its_port_by_the_socket_unit(self):
        """OP-211: nobody is refused while the package is upgraded."""
        self.machine.run("systemctl", "stop", "kintsugi-proxy")
        folder = "/etc/systemd/system/kintsugi-proxy.socket.d"
        self.machine.run("mkdir", "-p", folder)
        self.machine.put(f"{folder}/port.conf", f"[Socket]\nListenStream=\nListenStream=127.0.0.1:{self.port}\n")
        self.machine.run("systemctl", "daemon-reload")
        self.start("kintsugi-proxy.socket")
        self.assertEqual(self.pid("kintsugi-proxy"), 0)
        path = "/clusters/root:demo/api/v1/namespaces/default"
        kit.eventually(lambda: self.client("").get(path).status == 200, 60, "who comes first starts it")
        before = self.pid("kintsugi-proxy")
        askers = [Asker(self.client(""), path) for _ in range(4)]
        kit.eventually(lambda: all(one.answered > 10 for one in askers), 30, "answers")
        self.install(self.new)
        self.assertEqual(self.machine.run("dpkg-query", "-W", "-f", "${Version}", "kintsugi").stdout, field(self.new, "Version"))
        self.assertNotEqual(self.pid("kintsugi-proxy"), before)
        answered = [one.answered for one in askers]
        kit.eventually(lambda: all(one.answered > old + 10 for one, old in zip(askers, answered)), 30, "answers of the new one")
        self.assertEqual([fault for one in askers for fault in one.stop()], [])
        self.machine.run("rm", "-r", folder)

    def is_backed_up(self):
        for expected in (1, 2):
            self.start("kintsugi-backup@nightly")
            copies = [one for one in (self.state.parent / "kintsugi-backups/nightly").iterdir() if one.is_dir()]
            self.assertEqual(len(copies), expected)
            for one in copies:
                self.assertTrue((one / "manifest.json").exists())

    def is_removed_and_purged(self):
        self.machine.run("apt-get", "remove", "-y", "kintsugi")
        self.assertEqual(self.machine.run("systemctl", "list-units", "--plain", "--no-legend", "--state=active", "kintsugi*").stdout, "")
        for path in ("etc/kintsugi/proxy.yaml", "var/lib/kintsugi/shards/root/data", "var/lib/kintsugi/proxy"):
            self.assertTrue((self.machine.root / path).exists(), path)
        said = self.machine.run("apt-get", "purge", "-y", "kintsugi")
        self.assertIn("the data of shards stays in /var/lib/kintsugi", said.stdout + said.stderr)
        for path in ("etc/kintsugi", "etc/default/kintsugi", "etc/logrotate.d/kintsugi", "var/log/kintsugi", "var/lib/kintsugi/proxy"):
            self.assertFalse((self.machine.root / path).exists(), path)
        self.assertTrue((self.state / "shards/root/data").exists())
        self.assertIn("kintsugi", (self.machine.root / "etc/passwd").read_text())

    def is_installed_again_and_purged_with_its_data(self):
        self.install(self.new)
        self.machine.put("/etc/default/kintsugi", f"KINTSUGI_UP_OPTIONS=--port {self.port} --shards 1\n")
        self.start("kintsugi-up")
        self.assertEqual(self.client("").get("/clusters/root:demo/api/v1/namespaces/default").status, 200)
        self.machine.run("sh", "-c", "echo kintsugi kintsugi/purge-data boolean true | debconf-set-selections")
        self.machine.run("apt-get", "purge", "-y", "kintsugi")
        found = self.machine.run("find", "/etc", "/var", "/usr", "/lib/systemd", "-name", "*kintsugi*", "-not", "-path", "/var/lib/apt/*", "-not", "-path", "/var/cache/*").stdout
        self.assertEqual(found, "")


class Writer(threading.Thread):
    """Makes ConfigMaps, one after the other, each until it is there."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.names, self.ends = client, [], False
        self.start()

    def run(self):
        while not self.ends:
            name = f"object-{len(self.names):04}"
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            try:
                done = self.client.request("POST", CONFIGMAPS, body, timeout=10).status in (201, 409)
            except (OSError, http.client.HTTPException):
                done = False
            if done:
                self.names.append(name)
            time.sleep(0.05)

    def stop(self):
        self.ends = True
        self.join()
        return self.names


class Asker(threading.Thread):
    """GETs, one after the other, each by a connection of its own."""

    def __init__(self, client, path):
        super().__init__(daemon=True)
        self.client, self.path, self.answered, self.faults, self.ends = client, path, 0, [], False
        self.start()

    def run(self):
        while not self.ends:
            try:
                status = self.client.request("GET", self.path, timeout=60).status
                self.answered += 1
            except (OSError, http.client.HTTPException) as fault:
                status = repr(fault)
            if status != 200:
                self.faults.append(status)

    def stop(self):
        self.ends = True
        self.join(90)
        return self.faults


class ResumedWatch(threading.Thread):
    """As a client-go informer watches: from the last version it saw, again whenever the stream ends."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.names, self.faults, self.connections, self.ends = client, [], [], 0, False
        self.version = client.must("GET", CONFIGMAPS)["metadata"]["resourceVersion"]
        self.start()

    def run(self):
        while not self.ends:
            try:
                for event in self.client.watch(f"{CONFIGMAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=60&resourceVersion={self.version}", timeout=10):
                    self.take(event)
                self.connections += 1
            except (OSError, http.client.HTTPException, ssl.SSLError, json.JSONDecodeError):
                self.connections += 1
            except AssertionError:
                pass  # not yet there again
            time.sleep(0.05)

    def take(self, event):
        if event["type"] == "ERROR":
            self.faults.append(event)
            return
        self.version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] == "ADDED":
            self.names.append(event["object"]["metadata"]["name"])

    def stop(self):
        self.ends = True
        self.join(15)


if __name__ == "__main__":
    unittest.main()
