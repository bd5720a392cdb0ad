"""SE-145, SE-T061: `kintsugi up` renews certificates, at its start and while it runs, months and years later by libfaketime."""
import base64
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import unittest

import fake_clock
import kit

PAIRS = ("proxy", "admin", "shard-admin", "proxy-requestheader", "kintsugi-proxy", "shard-root", "shard-shard-1", "shard-root-client",
         "shard-shard-1-client")
AUTHORITIES = ("client-ca", "requestheader-ca", "serving-ca")
MAPS = "/clusters/root/api/v1/namespaces/default/configmaps"


@fake_clock.needed
class Renewal(unittest.TestCase):
    def setUp(self):
        self.installation = kit.Installation(shards=2)
        self.addCleanup(self.installation.__exit__, None, None, None)
        self.clock = self.installation.dir / "clock"
        self.pki = self.installation.state / "pki"

    def start(self, days):
        self.clock.write_text(f"+{days}d\n")
        with fake_clock.for_children(self.clock):
            self.installation.start()

    def certificates(self):
        return {name: (self.pki / f"{name}.crt").read_bytes() for name in PAIRS}

    def curl(self, *arguments):
        """With the administrator's pair, by the clock of the installation."""
        run = subprocess.run(["curl", "-sS", "--max-time", "20", "--cacert", self.pki / "serving-ca.crt", "--cert", self.pki / "admin.crt",
                              "--key", self.pki / "admin.key", *arguments[1:], f"https://127.0.0.1:{self.installation.port}{arguments[0]}"],
                             env=os.environ | fake_clock.variables(self.clock), capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        return run.stdout if run.returncode == 0 else ""

    def names(self):
        with contextlib.suppress(ValueError, KeyError):
            return [item["metadata"]["name"] for item in json.loads(self.curl(MAPS))["items"]]
        return []

    def make(self, name):
        body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        return kit.eventually(lambda: f'"name":"{name}"' in self.curl(MAPS, "-H", "Content-Type: application/json", "-d", body)
                              or name in self.names(), 60, f"a write of {name}")  # fmt: skip

    def look_now(self):
        """What happens every minute by itself."""
        self.installation.process.send_signal(signal.SIGHUP)
        for name in ("root", "shard-1"):
            os.kill(int((self.installation.state / f"run/{name}.pid").read_text()), signal.SIGHUP)

    def test_SE_T061_at_a_start_of_later(self):
        self.start(0)
        self.make("first")
        before = self.certificates()
        for days, renewed in ((120, False), (400, True), (3400, True)):
            with self.subTest(days=days):
                self.installation.stop()
                self.start(days)
                after = self.certificates()
                self.assertEqual({name for name in PAIRS if after[name] != before[name]}, set(PAIRS) if renewed else set())
                kit.eventually(lambda: "first" in self.names(), 30, "the administrator is let in")
                kubeconfig = (self.installation.state / "admin.kubeconfig").read_text()
                self.assertIn(base64.b64encode(after["admin"]).decode(), kubeconfig)
                before = after

    def trusted(self):
        return [(self.pki / f"{name}.crt").read_text().count("BEGIN CERTIFICATE") for name in AUTHORITIES]

    def follow(self, path, *pair):
        """A watch by its own client: the lines that came, and the process."""
        pair = pair or (self.pki / "admin.crt", self.pki / "admin.key")
        own = [self.installation.dir / f"watch-{len(os.listdir(self.installation.dir))}{end}" for end in (".crt", ".key")]
        for file, source in zip(own, pair):
            file.write_bytes(pathlib.Path(source).read_bytes())
        watch = subprocess.Popen(["curl", "-sSN", "--cacert", self.pki / "serving-ca.crt", "--cert", own[0], "--key", own[1],
                                  f"https://127.0.0.1:{self.installation.port}{path}?watch=1&allowWatchBookmarks=true"],
                                 env=os.environ | fake_clock.variables(self.clock), stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(watch.stdout.close)  # the last of these: not while the thread waits for a line
        self.addCleanup(watch.wait, 30)
        self.addCleanup(watch.kill)
        lines = []
        threading.Thread(target=lambda: lines.extend(iter(watch.stdout.readline, "")), daemon=True).start()
        return watch, lines

    def test_SE_T061_CAs_follow_each_other_while_it_runs(self):
        """SE-145: the new CAs are trusted beside the old ones, then they issue, then the old ones leave. No watch of a client ends while both are trusted."""
        self.start(0)
        self.make("first")
        watches = [self.follow(path) for path in (MAPS, "/clusters/*/api/v1/configmaps")]

        def all_hear(name, of):
            self.make(name)
            for watch, lines in of:
                kit.eventually(lambda lines=lines: any(f'"name":"{name}"' in line for line in list(lines)), 30, f"the event of {name}")
                self.assertIsNone(watch.poll(), "a watch ended")

        all_hear("before", watches)
        old, old_ca = self.certificates(), (self.pki / "serving-ca.crt").read_text()
        user = kit.make_user(self.installation.dir, self.pki, "long-since", ("system:kcp:admin",))
        rotated = subprocess.run([str(kit.BINARY), "pki", "rotate-ca", "--dir", str(self.installation.state), "--leaves-after", "10m", "--old-out-after",
                                  "2d"], env=os.environ | fake_clock.variables(self.clock), capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        self.assertEqual(rotated.returncode, 0, rotated.stderr)
        self.assertEqual(self.trusted(), [2, 2, 2])
        again = subprocess.run([str(kit.BINARY), "pki", "rotate-ca", "--dir", str(self.installation.state)], capture_output=True, text=True, timeout=60,
                               env=os.environ | fake_clock.variables(self.clock), check=False)  # fmt: skip
        self.assertEqual((again.returncode, "is being changed already" in again.stderr), (1, True), again.stderr)
        self.look_now()
        all_hear("both", watches)
        self.assertEqual(self.certificates(), old, "who issues is the old one")

        self.clock.write_text("+11m\n")
        self.look_now()

        def are_new():
            self.look_now()
            return all(self.certificates()[name] != old[name] for name in PAIRS)

        kit.eventually(are_new, 30, "all pairs are of the new CAs")
        self.assertEqual(self.trusted(), [2, 2, 2])
        kit.eventually(lambda: base64.b64encode((self.pki / "serving-ca.crt").read_bytes()).decode() in
                       (self.installation.state / "admin.kubeconfig").read_text(), 30, "the kubeconfig trusts both")
        all_hear("new", watches)
        self.assertIn("kintsugi-client-ca", self.subject_of_issuer(self.pki / "admin.crt"))
        only_old = self.installation.dir / "old-ca.crt"
        only_old.write_text(old_ca)
        kit.eventually(lambda: self.status_of("/readyz", "--cacert", only_old) is None, 30, "the proxy shows a certificate of the new CA")
        self.assertEqual(self.status_of(MAPS, "--cert", user[0], "--key", user[1]), "200", "an old certificate holds")
        later = [self.follow(path) for path in (MAPS, "/clusters/*/api/v1/configmaps")]
        all_hear("between", watches + later)

        self.clock.write_text("+49h\n")
        kit.eventually(lambda: self.look_now() or self.trusted() == [1, 1, 1], 60, "the old CAs leave")
        # One that went to its shard by a connection of the old pair has ended in order with it.
        later = [self.follow(path) for path in (MAPS, "/clusters/*/api/v1/configmaps")]
        all_hear("after", later)
        kit.eventually(lambda: self.status_of(MAPS, "--cert", user[0], "--key", user[1]) == "401", 30, "and what they issued")
        for watch, _ in watches:
            self.assertEqual(watch.wait(120), 0, "a client of the old CA hears the end in order")
        all_hear("last", later)
        status = subprocess.run([str(kit.BINARY), "pki", "status", "--dir", str(self.installation.state)], capture_output=True, text=True, timeout=60,
                                check=True).stdout  # fmt: skip
        self.assertEqual(len(re.findall(r"1 trusted, ends [0-9TZ:-]+$", status, re.M)), 3, status)
        self.installation.stop()
        self.start(3)
        kit.eventually(lambda: "last" in self.names(), 30, "and after a start")

    def subject_of_issuer(self, cert):
        return subprocess.run(["openssl", "x509", "-noout", "-issuer", "-in", cert], check=True, capture_output=True, text=True).stdout

    def status_of(self, path, *arguments):
        """By a client with other files; None where it does not trust the proxy."""
        more = list(arguments)
        if "--cacert" not in more:
            more += ["--cacert", self.pki / "serving-ca.crt"]
        run = subprocess.run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", *more,
                              f"https://127.0.0.1:{self.installation.port}{path}"], env=os.environ | fake_clock.variables(self.clock),
                             capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        return run.stdout if run.returncode == 0 else None

    def test_SE_T061_while_it_runs(self):
        self.start(0)
        before = self.certificates()
        self.installation.kubectl("config", "use-context", "base")
        watch = subprocess.Popen(["curl", "-sSN", "--cacert", self.pki / "serving-ca.crt", "--cert", self.pki / "admin.crt", "--key",
                                  self.pki / "admin.key", f"https://127.0.0.1:{self.installation.port}{MAPS}?watch=1&allowWatchBookmarks=true"],
                                 env=os.environ | fake_clock.variables(self.clock), stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(watch.stdout.close)  # the last of these: not while the thread waits for a line
        self.addCleanup(watch.wait, 30)
        self.addCleanup(watch.kill)
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(iter(watch.stdout.readline, "")), daemon=True)
        reader.start()

        def comes(name):
            kit.eventually(lambda: any(f'"name":"{name}"' in line for line in list(seen)), 30, f"the event of {name}")

        self.make("before")
        comes("before")

        self.clock.write_text("+130d\n")
        self.look_now()
        kit.eventually(lambda: all(self.certificates()[name] != before[name] for name in PAIRS), 30, "all pairs are renewed")
        kit.eventually(lambda: base64.b64encode(self.certificates()["admin"]).decode() in (self.installation.state / "admin.kubeconfig").read_text(), 30,
                       "the kubeconfig has the new pair")
        self.assertIn("current-context: base", (self.installation.state / "admin.kubeconfig").read_text())
        self.make("between")
        comes("between")
        self.assertIsNone(watch.poll(), "the watch goes on")

        before = self.certificates()
        self.clock.write_text("+600d\n")  # what it had has ended all at once
        self.look_now()
        kit.eventually(lambda: all(self.certificates()[name] != before[name] for name in PAIRS), 30, "all pairs are renewed again")
        self.make("after")
        kit.eventually(lambda: {"before", "between", "after"} <= set(self.names()), 60, "it serves 600 days later")
        self.assertEqual(watch.wait(120), 0, "the certificate of the watch has ended, and it in order")


if __name__ == "__main__":
    unittest.main()
