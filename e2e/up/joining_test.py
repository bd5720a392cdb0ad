"""SE-147, SE-T063: shards and proxies of other folders join an installation with a token; and `up` hands revocation lists on."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import kit

SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MAPS = "/api/v1/namespaces/default/configmaps"


def setUpModule():
    global installation, join_port
    join_port = kit.free_port()
    installation = kit.Installation("--join-bind", f"127.0.0.1:{join_port}", shards=1).start_for()


def kintsugi(*arguments, text=None):
    return subprocess.run([str(kit.BINARY), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, input=text)


def token(role, name, *more):
    made = kintsugi("token", "create", "--dir", installation.state, "--role", role, "--name", name, *more)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip(), re.search(r"sha256:[0-9a-f]{64}", made.stderr).group(0)


def audit():
    path = installation.state / "logs" / "join.log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Joining(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="joined-"))
        self.addCleanup(shutil.rmtree, self.dir, True)
        # Each address has five tries a minute; another process counts from the start.
        if audit():
            installation.stop()
            (installation.state / "logs" / "join.log").unlink()
            installation.start()
        kit.eventually(self.is_open, 30, "tokens are taken")

    def is_open(self):
        client = kit.Client(f"https://127.0.0.1:{join_port}", installation.pki / "serving-ca.crt")
        return client.get("/join/v1/authority").status == 200

    def told(self, secret, codes):
        """A line for each try: they are written by a thread of their own."""
        kit.eventually(lambda: [event["responseStatus"]["code"] for event in audit() if event["user"]["username"] == "join-token:" + secret[:8]] == codes,
                       10, f"{codes} in the audit log")

    def join(self, secret, pin, *more):
        return kintsugi("join", "--server", f"https://127.0.0.1:{join_port}", "--token-file", "-", "--ca-hash", pin, "--dir", self.dir, *more,
                        text=secret + "\n")

    def refused(self, secret, requests):
        client = kit.Client(f"https://127.0.0.1:{join_port}", installation.pki / "serving-ca.crt")
        return client.request("POST", "/join/v1", {"token": secret, "requests": requests})

    def request_for(self, subject, *key):
        file = self.dir / "asked"
        subprocess.run(["openssl", "req", "-new", *(key or ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")), "-nodes", "-keyout",
                        file.with_suffix(".key"), "-out", file.with_suffix(".csr"), "-subj", subject], check=True, capture_output=True)
        return file.with_suffix(".csr").read_text()

    def test_SE_147_a_shard_joins_and_serves(self):
        secret, pin = token("shard", "far", "--host", "localhost", "--host", "127.0.0.1")
        joined = self.join(secret, pin)
        self.assertEqual(joined.returncode, 0, joined.stderr)
        self.assertIn(f"kintsugi shard --join {self.dir} --name far", joined.stdout)
        names = {path.name for path in (self.dir / "pki").iterdir()}
        self.assertEqual(names, {"client-ca.crt", "requestheader-ca.crt", "serving-ca.crt", "shard-far.crt", "shard-far.key",
                                 "shard-far-client.crt", "shard-far-client.key"})
        for path in (self.dir / "pki").glob("*.key"):
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        subject = subprocess.run(["openssl", "x509", "-noout", "-subject", "-in", self.dir / "pki" / "shard-far-client.crt"], check=True,
                                 capture_output=True, text=True).stdout
        self.assertIn("system:kintsugi:shard", subject)
        place = kit.free_port()
        with (self.dir / "log").open("wb") as log:
            shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(self.dir), "--name", "far", "--allow-root", "--labels", "place=far",
                                      "--port", str(place), "--advertise", f"https://localhost:{place}"],
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            root = installation.client()
            kit.eventually(lambda: root.get(SHARDS + "/far").status == 200, 30, "the shard registers")
            installation.make_workspace("there", selector={"place": "far"})
            at = installation.client("/clusters/root:there")
            at.must("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello"}})
            port = (self.dir / "shards" / "far" / "port").read_text().strip()
            self.assertEqual(root.must("GET", SHARDS + "/far")["spec"]["baseURL"], f"https://localhost:{place}", "where it says that it is")
            cluster = root.must("GET", "/apis/tenancy.kcp.io/v1alpha1/workspaces/there")["spec"]["cluster"]
            direct = kit.Client(f"https://127.0.0.1:{port}/clusters/{cluster}", installation.pki / "serving-ca.crt", installation.pki / "shard-admin.crt",
                                installation.pki / "shard-admin.key")
            self.assertEqual(direct.get(MAPS + "/hello").status, 200)
            kit.eventually(lambda: "hello" in json.dumps(installation.client("/clusters/*").get("/api/v1/configmaps").json), 20, "it is among all")
            root.must("DELETE", "/apis/tenancy.kcp.io/v1alpha1/workspaces/there")
            kit.eventually(lambda: root.get("/apis/tenancy.kcp.io/v1alpha1/workspaces/there").status == 404, 30, "it is gone")
        finally:
            root.request("DELETE", SHARDS + "/far")
            shard.send_signal(signal.SIGTERM)
            shard.wait(120)
        self.told(secret, [201])

    def test_SE_147_a_proxy_joins_and_serves(self):
        secret, pin = token("proxy", "second")
        port = kit.free_port()
        joined = self.join(secret, pin, "--port", port)
        self.assertEqual(joined.returncode, 0, joined.stderr)
        with (self.dir / "log").open("wb") as log:
            proxy = subprocess.Popen([str(kit.BINARY), "proxy", "--config", str(self.dir / "proxy" / "proxy.yaml"), "--allow-root"],
                                     stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            client = kit.Client(f"https://127.0.0.1:{port}/clusters/root", installation.pki / "serving-ca.crt", installation.pki / "admin.crt",
                                installation.pki / "admin.key")
            kit.eventually(lambda: client.get(MAPS).status == 200, 30, "it serves")
        finally:
            proxy.send_signal(signal.SIGTERM)
            proxy.wait(120)

    def test_SE_T063_twice_late_and_revoked(self):
        secret, pin = token("proxy-reviewed", "reads")
        self.assertEqual(self.join(secret, pin).returncode, 0)
        again = self.join(secret, pin)
        self.assertEqual(again.returncode, 1)
        self.assertIn("no longer good", again.stderr)
        late, _ = token("shard", "late", "--ttl", "1s")
        kit.eventually(lambda: re.search(rf"{late[:8]}.* ended", kintsugi("token", "list", "--dir", installation.state).stdout), 10, "it ends")
        self.assertIn("no longer good", self.join(late, pin).stderr)
        gone, _ = token("shard", "gone")
        self.assertEqual(kintsugi("token", "revoke", gone[:8], "--dir", installation.state).returncode, 0)
        self.assertIn("no longer good", self.join(gone, pin).stderr)
        for text, codes in ((secret, [201, 403]), (late, [403]), (gone, [403])):
            self.told(text, codes)
        everything = (installation.state / "pki" / "join-tokens.json").read_text() + (installation.state / "logs" / "join.log").read_text()
        for text in (secret, late, gone):
            self.assertNotIn(text.split(".")[1], everything)
        self.assertEqual((installation.state / "pki" / "join-tokens.json").stat().st_mode & 0o777, 0o600)

    def test_SE_T063_another_role_in_the_request(self):
        for subject in ("/O=system:masters/CN=shard-x", "/CN=kcp-admin"):
            with self.subTest(subject=subject):
                secret, _ = token("shard", "x")
                request = self.request_for(subject)
                answer = self.refused(secret, {"serving": request, "client": request})
                self.assertEqual(answer.status, 403, answer.body)
                self.assertIn("more than the token gives", answer.json["message"])
                self.assertEqual(self.refused(secret, {}).status, 403, "and it is used up")
                self.told(secret, [403, 403])

    def test_SE_147_weak_keys_and_names_of_its_own(self):
        secret, _ = token("proxy-reviewed", "x")
        answer = self.refused(secret, {"client": self.request_for("/", "-newkey", "rsa:1024")})
        self.assertEqual(answer.status, 400, answer.body)
        secret, _ = token("proxy-reviewed", "x")
        file = self.dir / "named"
        subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", file.with_suffix(".key"),
                        "-out", file.with_suffix(".csr"), "-subj", "/", "-addext", "subjectAltName=DNS:root.example"], check=True, capture_output=True)
        self.assertEqual(self.refused(secret, {"client": file.with_suffix(".csr").read_text()}).status, 403)

    def test_SE_T063_a_wrong_hash_and_nothing_is_sent(self):
        secret, pin = token("shard", "pinned")
        wrong = pin[:-4] + ("0000" if not pin.endswith("0000") else "1111")
        before = len(audit())
        refused = self.join(secret, wrong)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("has no CA of --ca-hash; nothing was sent there", refused.stderr)
        self.assertEqual(len(audit()), before, "and nobody tried")
        self.assertFalse((self.dir / "pki").exists())
        self.assertEqual(self.join(secret, pin).returncode, 0, "the token is still good")

    def test_SE_147_five_tries_a_minute_and_garbage(self):
        client = kit.Client(f"https://127.0.0.1:{join_port}", installation.pki / "serving-ca.crt")
        self.assertEqual(client.get("/join/v1").status, 405)
        self.assertEqual(client.get("/clusters/root").status, 404)
        self.assertEqual(client.request("POST", "/join/v1", b"x" * (65 << 10)).status, 413)
        codes = [client.request("POST", "/join/v1", body).status for body in (b"", b"[]", b"{", b'{"token": 1}', b"\xff\x00")] + [
            client.request("POST", "/join/v1", {"token": "a" * 60000}).status for _ in range(3)]
        self.assertIn(429, codes)
        self.assertFalse(set(codes) - {400, 403, 429}, codes)

    def test_SE_147_off_unless_enabled(self):
        for typed in ("here", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", "name:1"):
            run = kintsugi("up", "--dir", self.dir, "--join-bind", typed)
            self.assertEqual(run.returncode, 2, typed)
            self.assertIn("is not <IP address>:<port>", run.stderr)


class Lists(unittest.TestCase):
    """SE-141: what `up` is told of revocation lists, its proxy and shards know."""

    def test_SE_T020_a_revoked_serial_at_an_installation(self):
        own = kit.Installation(shards=1).start_for(self)
        ada, bea = (kit.make_user(own.dir, own.pki, name, ("system:masters",)) for name in ("ada", "bea"))
        book = own.dir / "book"
        book.mkdir()
        (book / "index").write_text("")
        (book / "ca.cnf").write_text(f"[ca]\ndefault_ca=d\n[d]\ndatabase={book / 'index'}\nnew_certs_dir={book}\ndefault_md=sha256\nrand_serial=yes\n")
        command = ["openssl", "ca", "-batch", "-config", book / "ca.cnf", "-cert", own.pki / "client-ca.crt", "-keyfile", own.pki / "client-ca.key"]

        def write_list():
            subprocess.run([*command, "-gencrl", "-crlsec", "3600", "-out", book / "new"], check=True, capture_output=True)
            os.rename(book / "new", own.dir / "clients.crl")

        write_list()
        own.stop()
        own.options += ["--client-crl-file", str(own.dir / "clients.crl")]
        own.start()
        direct = own.shard_url("root")

        def codes(pair):
            return [kit.Client(base + "/clusters/root", own.pki / "serving-ca.crt", *pair).get(MAPS).status
                    for base in (f"https://127.0.0.1:{own.port}", direct)]

        self.assertEqual((codes(ada)[1], codes(bea)[1]), (200, 200))
        self.assertNotIn(401, codes(ada))
        subprocess.run([*command, "-revoke", ada[0]], check=True, capture_output=True)
        write_list()
        kit.eventually(lambda: codes(ada) == [401, 401], 15, "it is refused at proxy and shard")
        self.assertNotIn(401, codes(bea))
        run = kintsugi("up", "--dir", own.dir / "other", "--crl-required")
        self.assertEqual(run.returncode, 2)
        self.assertIn("--crl-required: needs a file of revocation lists", run.stderr)


if __name__ == "__main__":
    unittest.main()
