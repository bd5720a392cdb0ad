"""SE-145, SE-T061: `kintsugi up` renews certificates, at its start and while it runs, months and years later by libfaketime."""
import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
import unittest

import fake_clock
import kit

PAIRS = ("proxy", "admin", "shard-admin", "proxy-requestheader", "shard-root", "shard-shard-1")
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

    def test_SE_T061_while_it_runs(self):
        self.start(0)
        before = self.certificates()
        self.installation.kubectl("config", "use-context", "base")
        watch = subprocess.Popen(["curl", "-sSN", "--cacert", self.pki / "serving-ca.crt", "--cert", self.pki / "admin.crt", "--key",
                                  self.pki / "admin.key", f"https://127.0.0.1:{self.installation.port}{MAPS}?watch=1&allowWatchBookmarks=true"],
                                 env=os.environ | fake_clock.variables(self.clock), stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(watch.wait, 30)
        self.addCleanup(watch.kill)
        self.addCleanup(watch.stdout.close)
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
        self.assertEqual(watch.wait(30), 0, "the certificate of the watch has ended, and it in order")


if __name__ == "__main__":
    unittest.main()
