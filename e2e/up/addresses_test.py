"""Where an installation listens, and who has the port already (OP-207)."""
import json
import re
import socket
import subprocess
import unittest

import kit


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
        return True
    except OSError:
        return False


class Addresses(unittest.TestCase):
    def curl(self, installation, path):
        done = subprocess.run(["curl", "-sS", "-w", "\n%{http_code}", "--cacert", installation.pki / "serving-ca.crt", f"https://[::1]:{installation.port}{path}"],
                              capture_output=True, text=True, timeout=60, check=True)
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text

    @unittest.skipUnless(has_ipv6(), "there is no IPv6 here")
    def test_OP_207_an_address_of_IPv6_has_brackets_in_URLs(self):
        with kit.Installation("--bind", "::1", shards=1) as installation:
            servers = set(re.findall(r"server: \"?(https://[^\s\"]+)", installation.kubeconfig.read_text()))
            self.assertEqual(servers, {f"https://[::1]:{installation.port}", f"https://[::1]:{installation.port}/clusters/root"})
            self.assertNotIn("//::1", installation.log.read_text())
            self.assertIn(f"--server=https://[::1]:{installation.port}/clusters/root:demo", installation.log.read_text())
            if subprocess.run(["sh", "-c", "command -v kubectl"], capture_output=True, check=False).returncode == 0:
                self.assertIn("root", installation.kubectl("get", "shards"))
            for path in ("/healthz", "/livez", "/readyz"):
                self.assertEqual(self.curl(installation, path), (200, "ok"), path)
            status, text = self.curl(installation, "/version")
            self.assertEqual((status, json.loads(text)["major"]), (200, "1"))
            self.assertEqual(self.curl(installation, "/clusters/root/api/v1/namespaces")[0], 401, "nobody")

    def test_OP_207_a_second_installation_at_the_port_ends_with_a_line(self):
        with kit.Installation(shards=1) as installation:
            other = kit.Installation(shards=1)
            self.addCleanup(subprocess.run, ["rm", "-r", other.dir], check=False)
            other.options[other.options.index("--port") + 1] = str(installation.port)
            run = subprocess.run([kit.BINARY, "up", *other.options], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertRegex(run.stderr, rf"kintsugi up: proxy could not start: .*{installation.port}.* in use")
            again = subprocess.run([kit.BINARY, "up", *installation.options], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(again.returncode, 1)
            self.assertIn(f"{installation.state} is in use", again.stderr)
            self.assertEqual(installation.client("").get("/readyz").status, 200, "the first one is unharmed")


if __name__ == "__main__":
    unittest.main()
