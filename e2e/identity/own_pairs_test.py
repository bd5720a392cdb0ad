"""What the proxy is to others: the TLS that it speaks, its own pairs renewed under load, and whose request is whose behind it."""
import base64
import json
import re
import socket
import subprocess
import threading
import unittest
import urllib.parse

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def setUpModule():
    global installation
    installation = kit.Installation(shards=1).start_for()


def pair_of(ca, name, groups=()):
    """A pair of any of the installation's CAs."""
    base = installation.dir / f"{ca}-{name}-{kit.free_port()}"
    cert, key, request = (base.with_suffix(end) for end in (".crt", ".key", ".csr"))
    subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
    subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request,
                    "-subj", subject], check=True, capture_output=True)
    subprocess.run(["openssl", "x509", "-req", "-in", request, "-CA", installation.pki / f"{ca}.crt", "-CAkey", installation.pki / f"{ca}.key",
                    "-days", "1", "-CAcreateserial", "-out", cert], check=True, capture_output=True)
    return cert, key


class Tls(unittest.TestCase):
    """SE-140, at the proxy and at a shard."""

    def handshake(self, port, *arguments):
        run = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", installation.pki / "serving-ca.crt", *arguments],
                             input="", capture_output=True, text=True, timeout=60, check=False)
        return run.stdout + run.stderr, run.returncode == 0 and "Cipher is (NONE)" not in run.stdout

    def test_SE_140_versions_groups_and_ciphers(self):
        direct = urllib.parse.urlsplit(installation.shard_url("root")).port
        weak = ("-cipher", "ALL:@SECLEVEL=0")
        good = [("-tls1_3",), ("-tls1_2",), ("-groups", "X25519"), ("-groups", "P-256"), ("-groups", "P-384"),
                ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"), ("-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"),
                ("-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"), ("-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256")]
        bad = [("-tls1_1", *weak), ("-tls1", *weak), ("-groups", "P-521"), ("-groups", "X448"), ("-groups", "ffdhe2048"),
               ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"), ("-tls1_2", "-cipher", "AES128-GCM-SHA256"),
               ("-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256")]
        for port in (installation.port, direct):
            for arguments in good:
                with self.subTest(port=port, arguments=arguments):
                    text, done = self.handshake(port, *arguments)
                    self.assertTrue(done, text)
                    self.assertIn("Verify return code: 0", text)
                    self.assertIn("Compression: NONE", text)
            for arguments in bad:
                with self.subTest(port=port, arguments=arguments):
                    self.assertFalse(self.handshake(port, *arguments)[1])
            self.assertNotRegex(self.handshake(port, "-tls1_3")[0], r"Max Early Data: [1-9]")

    def test_SE_140_a_clients_certificate_has_to_be_a_clients(self):
        """That of a server, of the same CA, lets nobody in."""
        base = installation.dir / "server-only"
        cert, key, request = (base.with_suffix(end) for end in (".crt", ".key", ".csr"))
        (installation.dir / "server-only.ext").write_text("extendedKeyUsage=serverAuth\n")
        subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request,
                        "-subj", "/O=system:kcp:admin/CN=kcp-admin"], check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", request, "-CA", installation.pki / "client-ca.crt", "-CAkey", installation.pki / "client-ca.key",
                        "-days", "1", "-extfile", installation.dir / "server-only.ext", "-out", cert], check=True, capture_output=True)
        client = kit.Client(f"https://127.0.0.1:{installation.port}/clusters/root", installation.pki / "serving-ca.crt", cert, key)
        self.assertEqual(client.get(MAPS).status, 401)


class Caller(threading.Thread):
    """Asks again and again who it is, on one connection; `faults` has what was not its own answer."""

    def __init__(self, proxy, name, times=None):
        super().__init__(daemon=True)
        pair = kit.make_user(installation.dir, installation.pki, name, ("system:kcp:admin",))
        self.client = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root", installation.pki / "serving-ca.crt", *pair)
        self.name, self.times, self.done, self.faults, self.stopped = name, times, 0, [], threading.Event()
        self.start()

    def run(self):
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        connection = self.client.connect()
        while not self.stopped.is_set() and self.done != self.times:
            try:
                connection.request("POST", self.client.url.path + REVIEW, body=body, headers={"Content-Type": "application/json"})
                response = connection.getresponse()
                text = response.read()
                if response.status != 201 or json.loads(text)["status"]["userInfo"]["username"] != self.name:
                    self.faults.append((response.status, text[:300]))
            except (OSError, ValueError, KeyError) as fault:
                self.faults.append(fault)
                connection = self.client.connect()
            except Exception as fault:  # pylint: disable=broad-except
                self.faults.append(fault)
                return
            self.done += 1
        connection.close()

    def stop(self):
        self.stopped.set()
        self.join(60)


class OwnPairs(unittest.TestCase):
    def connections(self, proxy):
        answer = subprocess.run(["curl", "-sS", "--unix-socket", str(proxy.dir / "admin.sock"), "http://admin/metrics"], capture_output=True, text=True,
                                timeout=60, check=True).stdout
        return sum(float(line.rsplit(" ", 1)[1]) for line in answer.splitlines() if line.startswith("kintsugi_shard_connections{"))

    def test_SE_T026_the_proxys_own_pairs_are_renewed_under_load(self):
        """SE-054: nothing fails, and what was connected with an old pair goes when it is empty."""
        with kit.Proxy(installation, loops=1) as proxy:
            callers = [Caller(proxy, f"under-load-{i}") for i in range(3)]
            for caller in callers:
                self.addCleanup(caller.stop)
            watch = kit.Watch(proxy.client("/clusters/root"), MAPS + "?watch=1")
            kit.eventually(lambda: all(caller.done > 20 for caller in callers), 60, "a load")
            before = self.connections(proxy)
            for turn in range(4):
                reloads = proxy.text().count("files reloaded")
                done = [caller.done for caller in callers]
                cert, key = pair_of("requestheader-ca", "kcp-front-proxy")
                kit.replace_file(proxy.dir / "proxy-requestheader.key", key)
                kit.replace_file(proxy.dir / "proxy-requestheader.crt", cert)
                own_cert, own_key = pair_of("client-ca", "kintsugi-proxy", ("system:kintsugi:proxy",))
                self.write_access(proxy, own_cert, own_key)
                kit.eventually(lambda: proxy.text().count("files reloaded") > reloads, 30, f"reload {turn}")
                kit.eventually(lambda: all(caller.done > count + 20 for caller, count in zip(callers, done)), 60, "the load goes on")
            for caller in callers:
                caller.stop()
                self.assertEqual(caller.faults, [])
            name = f"renewed-{kit.free_port()}"
            proxy.client("/clusters/root").must("POST", MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
            kit.eventually(lambda: any(event["object"]["metadata"]["name"] == name for event in watch.events), 30, "the watch goes on")
            self.assertIsNone(watch.ended_at)
            # One connection more is the watch's, which stays where it is.
            kit.eventually(lambda: self.connections(proxy) <= before + 2, 60, "old connections retire")

    def write_access(self, proxy, cert, key):
        for name in ("root.kubeconfig", "shards.kubeconfig"):
            text = (proxy.dir / name).read_text()
            for field, file in (("client-certificate-data", cert), ("client-key-data", key)):
                text = re.sub(rf"{field}: .*", f"{field}: {base64.b64encode(file.read_bytes()).decode()}", text)
            kit.replace_file(proxy.dir / name, text.encode())

    def test_SE_T010_callers_behind_one_connection_get_their_own(self):
        with kit.Proxy(installation, loops=1) as proxy:
            callers = [Caller(proxy, f"caller-{i}", 2500) for i in range(4)]
            resets = 0
            while any(caller.is_alive() for caller in callers):
                client = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root", installation.pki / "serving-ca.crt",
                                    *kit.make_user(installation.dir, installation.pki, "breaks-off", ("system:kcp:admin",)))
                connection = client.connect()
                connection.request("POST", client.url.path + REVIEW, body='{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}',
                                   headers={"Content-Type": "application/json"})
                connection.sock.shutdown(socket.SHUT_RDWR)  # nobody hears the answer
                connection.close()
                resets += 1
            for caller in callers:
                caller.join(300)
                self.assertEqual((caller.faults, caller.done), ([], 2500))
            self.assertGreater(resets, 20)

    def test_SE_056_what_authenticated_here_is_not_passed_on(self):
        """Nor written down: SE-165."""
        seen = []

        def answer(request):
            seen.append({name.lower(): value for name, value in request.headers.items()})
            return 200, {"kind": "Status", "status": "Success"}

        backend = kit.JsonServer(installation.pki, answer)
        self.addCleanup(backend.close)
        tokens = installation.dir / "tokens.csv"
        tokens.write_text("very-secret-token,carol,uid1,team\n")
        pki = installation.pki
        with kit.Proxy(installation, {"authentication": {"token_file": tokens}}) as proxy:
            (proxy.dir / "mapping.yaml").write_text(
                f"- path: /beside/\n  backend: {backend.url}\n  backend_server_ca: {pki}/serving-ca.crt\n"
                f"  proxy_client_cert: {pki}/proxy-requestheader.crt\n  proxy_client_key: {pki}/proxy-requestheader.key\n")
            proxy.config["mapping_file"] = "mapping.yaml"
            proxy.write_config()
            nobody = proxy.client("", cert=None)
            headers = {"Authorization": "Bearer very-secret-token"}
            kit.eventually(lambda: nobody.get("/beside/x", headers=headers).status == 200, 30, "the mapping is read")
            asked = [one for one in seen if one.get("x-remote-user") == "carol"]
            self.assertTrue(asked, seen)
            for one in seen:
                self.assertNotIn("authorization", one)
                self.assertNotIn("very-secret-token", json.dumps(one))
            self.assertNotIn("very-secret-token", proxy.text())


if __name__ == "__main__":
    unittest.main()
