"""Credentials and secrets that clients and operators bring are in no log, audit log, metric, debug output or command line, and in no core
(SE-165, SE-T072)."""
import base64
import contextlib
import json
import os
import pathlib
import secrets
import subprocess
import unittest
import urllib.parse

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
DEBUG = ["/metrics", "/debug/shards", "/debug/routes", "/debug/loops", "/debug/streams", "/debug/config", "/debug/fairness",
         "/explain?path=root:canaries"]


def encoded(canary) -> set[str]:
    """How it may look elsewhere."""
    text = canary.encode()
    return {canary, base64.b64encode(text).decode().rstrip("="), base64.urlsafe_b64encode(text).decode().rstrip("="),
            urllib.parse.quote(canary, safe=""), text.hex()}


class Canaries(unittest.TestCase):
    def setUp(self):
        self.installation = kit.Installation(shards=1).start_for(self)
        self.canaries = {}
        self.logs = [self.installation.state / "logs/proxy.log", self.installation.state / "logs/root.log"]
        self.pids = [int((self.installation.state / f"run/{name}.pid").read_text()) for name in ("proxy", "root")]

    def plant(self, name):
        """Each differs also where encodings begin anew."""
        self.canaries[name] = "canary" + secrets.token_hex(12) + name.replace(" ", "")
        return self.canaries[name]

    def start_shard(self):
        """One that writes an audit log."""
        log = self.installation.dir / "noisy.log"
        self.audit = [self.installation.dir / "noisy-audit.jsonl"]
        with log.open("wb") as out:
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(self.installation.state), "--name", "noisy", "--labels",
                                      "noisy=yes", "--audit-log", str(self.audit[0])], stdout=out, stderr=out)

        def stop():
            shard.terminate()
            shard.wait(60)

        self.addCleanup(stop)
        self.logs.append(log)
        self.pids.append(shard.pid)
        root = self.installation.client()
        kit.eventually(lambda: root.get("/apis/core.kcp.io/v1alpha1/shards/noisy").status == 200, 20, "the shard is known")
        self.cluster = self.installation.make_workspace("canaries", selector={"noisy": "yes"})["spec"]["cluster"]

    def start_proxy(self):
        tokens = self.installation.dir / "tokens.csv"
        tokens.touch(0o600)
        tokens.write_text(f"{self.plant('file token')},filed,7\n")
        config = {"authentication": {"client_ca_file": "client-ca.crt", "token_file": str(tokens)}, "audit": {"log_file": "audit.jsonl"}}
        self.proxy = kit.Proxy(self.installation, config, flags=["--log-level", "debug"])
        self.proxy.__enter__()
        self.addCleanup(self.proxy.__exit__)
        self.logs.append(self.proxy.log)
        self.audit.append(self.proxy.dir / "audit.jsonl")
        self.pids.append(self.proxy.process.pid)
        self.canaries["private key"] = (self.proxy.dir / "proxy.key").read_text().split("\n")[2]

    def tempt(self):
        """Requests that bring each, with success and without."""
        admin, nobody = self.proxy.client("/clusters/root:canaries"), self.proxy.client("/clusters/root:canaries", cert=None)
        self.assertEqual(nobody.get(MAPS, headers=kit.bearer(self.plant("bearer"))).status, 401)
        self.assertIn(nobody.get(MAPS, headers=kit.bearer(self.canaries["file token"])).status, (200, 403))
        basic = base64.b64encode(f"user:{self.plant('basic')}".encode()).decode()
        self.assertEqual(nobody.get(MAPS, headers={"Authorization": "Basic " + basic}).status, 401)
        self.assertEqual(admin.get(MAPS, headers={"Cookie": "session=" + self.plant("cookie")}).status, 200)
        protocol = "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(self.plant("sub protocol").encode()).decode().rstrip("=")
        for client in (nobody, admin):
            client.get(MAPS + "?watch=1&timeoutSeconds=1", headers={
                "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AQIDBAUGBwgJCgsMDQ4PEA==",
                "Sec-WebSocket-Protocol": f"{protocol}, v4.channel.k8s.io"})
        for key in ("token", "access_token", "code"):
            for client in (nobody, admin):
                client.get(f"{MAPS}?{key}={self.plant('query ' + key)}&limit=1")
        admin.must("POST", SECRETS, {"metadata": {"name": "s"}, "stringData": {"p": self.plant("secret")}})
        admin.must("POST", SECRETS, {"metadata": {"name": "s"}, "stringData": {"p": self.canaries["secret"]}}, expect=(409,))
        admin.must("POST", SECRETS, {"metadata": {"name": "S!"}, "stringData": {"p": self.canaries["secret"]}}, expect=(422,))
        admin.must("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": self.plant("reviewed token")}})
        made = admin.must("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        self.canaries["account token"] = made.rsplit(".", 1)[1]  # its signature
        self.assertEqual(nobody.get(MAPS, headers=kit.bearer(made)).status, 401, "this proxy does not know accounts")
        through = self.installation.client("/clusters/root:canaries", cert=None)
        self.assertEqual(through.get(MAPS, headers=kit.bearer(made)).status, 403, "it is good, and may do nothing")

    def outputs(self):
        """(where, text) of all that these processes let out."""
        for log in (*self.logs, *self.audit):
            yield log.name, log.read_text(errors="replace")
        for path in DEBUG:
            answer = subprocess.run(["curl", "-sS", "--unix-socket", str(self.proxy.dir / "admin.sock"), "http://admin" + path],
                                    capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertNotEqual(answer, "", path)
            yield path, answer
        admin = self.proxy.client(f"/clusters/{self.cluster}")
        for path in ("/metrics", "/debug/replication"):
            yield "shard " + path, admin.get(path).body.decode(errors="replace")
        for pid in self.pids:
            for name in ("cmdline", "environ"):
                yield f"/proc/{pid}/{name}", pathlib.Path(f"/proc/{pid}/{name}").read_text(errors="replace")

    def test_SE_T072_none_of_twelve_is_found(self):
        self.start_shard()
        self.start_proxy()
        self.tempt()
        # What is searched has the requests that brought them.
        for log in self.audit:
            kit.eventually(lambda log=log: any(json.loads(line)["verb"] == "create" and "serviceaccounts" in line
                                               for line in log.read_text().splitlines()), what=f"{log.name} has the last request")
        self.assertEqual(len(self.canaries), 12, sorted(self.canaries))
        found = [(name, where) for where, text in self.outputs() for name, canary in self.canaries.items()
                 if any(form in text for form in encoded(canary))]
        self.assertEqual(found, [])
        self.assertIn("token=hidden", self.audit[1].read_text(), "the key is told, the value is not")
        # There is no core that could have them.
        for pid in self.pids:
            self.assertRegex(pathlib.Path(f"/proc/{pid}/limits").read_text(), r"Max core file size +0 +0 ")

    def test_SE_T072_the_search_finds_what_is_there(self):
        """An audit log that shows a canary in any of the forms is found."""
        canary = self.plant("shown")
        for form in encoded(canary):
            with self.subTest(form), contextlib.ExitStack() as stack:
                file = self.installation.dir / "shown"
                stack.callback(os.unlink, file)
                file.write_text(f'{{"requestURI":"/api?x={form}"}}')
                self.assertTrue(any(each in file.read_text() for each in encoded(canary)))


if __name__ == "__main__":
    unittest.main()
