"""Sessions of TLS that clients resume: at a proxy that was restarted, and at another replica; and who may not come in that way."""
import datetime
import os
import signal
import socket
import ssl
import subprocess
import unittest

import kit


class Caller:
    """A client with a certificate and its newest session."""

    def __init__(self, ca, cert, key):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.load_verify_locations(ca)
        self.context.load_cert_chain(cert, key)
        self.session = None

    def call(self, proxy):
        """(whether TLS was resumed, status); keeps the session."""
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as plain:
            with self.context.wrap_socket(plain, server_hostname="127.0.0.1", session=self.session) as tls:
                tls.sendall(b"GET /clusters/root/api/v1/namespaces HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = b""
                while piece := tls.recv(65536):
                    answer += piece
                self.session = tls.session
                return tls.session_reused, int(answer.split(b" ", 2)[1])


def make_ca(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj",
                    f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"], check=True,
                   capture_output=True)  # fmt: skip


def sign_until(folder, ca, name, end):
    """A certificate that ends at a second of our choice."""
    files = {kind: folder / f"{name}.{kind}" for kind in ("crt", "key", "csr", "cnf", "index")}
    files["index"].write_text("")
    files["cnf"].write_text(f"[ca]\ndefault_ca=d\n[d]\ndatabase={files['index']}\nnew_certs_dir={folder}\ndefault_md=sha256\n"
                            "rand_serial=yes\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\norganizationName=optional\n")
    subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                    files["key"], "-out", files["csr"], "-subj", f"/CN={name}"], check=True, capture_output=True)  # fmt: skip
    subprocess.run(["openssl", "ca", "-batch", "-notext", "-config", files["cnf"], "-cert", f"{ca}.crt", "-keyfile", f"{ca}.key", "-in",
                    files["csr"], "-out", files["crt"], "-startdate", "20200101000000Z", "-enddate", f"{end:%Y%m%d%H%M%SZ}"],
                   check=True, capture_output=True)  # fmt: skip
    return files["crt"], files["key"]


class SessionTickets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=1).start_for(cls)

    def proxy(self, **change):
        proxy = kit.Proxy(self.installation, change=change)
        self.addCleanup(proxy.__exit__)
        return proxy

    def caller(self, cert=None, key=None):
        pki = self.installation.pki
        return Caller(pki / "serving-ca.crt", cert or pki / "admin.crt", key or pki / "admin.key")

    def test_PERF213_a_session_outlives_a_restart(self):
        proxy, caller = self.proxy(), self.caller()
        with proxy:
            self.assertEqual(caller.call(proxy), (False, 200))
            self.assertEqual(caller.call(proxy), (True, 200))
        with proxy:
            self.assertEqual(caller.call(proxy), (True, 200))
            self.assertEqual(caller.call(proxy), (True, 200))

    def test_PERF213_a_session_outlives_a_reload_of_the_certificate(self):
        caller = self.caller()
        with self.proxy() as proxy:
            self.assertEqual(caller.call(proxy), (False, 200))
            kit.replace_file(proxy.dir / "proxy.crt", (proxy.dir / "proxy.crt").read_bytes() + b"\n")
            kit.eventually(lambda: proxy.metric('kintsugi_reloads_total{file="listener.cert_file",result="ok"}') >= 1)
            self.assertEqual(caller.call(proxy), (True, 200))

    def test_PERF213_replicas_resume_each_others_sessions(self):
        keys, others = self.installation.dir / "keys", self.installation.dir / "others"
        keys.write_text(f"1 {os.urandom(32).hex()}\n")
        others.write_text(f"1 {os.urandom(32).hex()}\n")
        caller = self.caller()
        with self.proxy(aggregation={"token_keys_file": keys}) as one, self.proxy(aggregation={"token_keys_file": keys}) as two, \
                self.proxy(aggregation={"token_keys_file": others}) as stranger:  # fmt: skip
            self.assertEqual(caller.call(one), (False, 200))
            self.assertEqual(caller.call(two), (True, 200))
            self.assertEqual(caller.call(one), (True, 200))
            self.assertEqual(caller.call(stranger), (False, 200))

    def test_PERF213_a_key_is_replaced_without_losing_sessions(self):
        old, new = os.urandom(32).hex(), os.urandom(32).hex()
        caller = self.caller()
        proxy = self.proxy(aggregation={"token_keys_file": "keys"})
        (proxy.dir / "keys").write_text(f"1 {old}\n")
        with proxy:
            self.assertEqual(caller.call(proxy), (False, 200))
            for number, text in enumerate((f"2 {new}\n1 {old}\n", f"2 {new}\n"), 1):
                kit.replace_file(proxy.dir / "keys", text.encode())
                kit.eventually(lambda: proxy.metric('kintsugi_reloads_total{file="aggregation.token_keys_file",result="ok"}') >= number)
                self.assertEqual(caller.call(proxy), (True, 200))

    def test_a_session_of_a_ca_that_was_taken_out_lets_nobody_in(self):
        with self.proxy() as proxy:
            make_ca(proxy.dir, "second")
            alone = (proxy.dir / "client-ca.crt").read_bytes()
            kit.replace_file(proxy.dir / "client-ca.crt", alone + (proxy.dir / "second.crt").read_bytes())
            proxy.process.send_signal(signal.SIGHUP)
            end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
            caller = self.caller(*sign_until(proxy.dir, proxy.dir / "second", "carol", end))
            kit.eventually(lambda: caller.call(proxy)[1] != 401, 10, "carol is known")
            resumed, known = caller.call(proxy)
            self.assertTrue(resumed)
            self.assertEqual(known, 403)
            kit.replace_file(proxy.dir / "client-ca.crt", alone)
            kit.eventually(lambda: caller.call(proxy)[1] == 401, 10, "carol is unknown")
            self.assertEqual(caller.call(proxy), (True, 401))

    def test_a_session_does_not_outlive_its_certificate(self):
        with self.proxy() as proxy:
            end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=10)
            caller = self.caller(*sign_until(proxy.dir, self.installation.pki / "client-ca", "dave", end))
            self.assertEqual(caller.call(proxy), (False, 403))
            self.assertEqual(caller.call(proxy), (True, 403))
            kit.eventually(lambda: caller.call(proxy) == (True, 401), 20, "dave's time is over")


if __name__ == "__main__":
    unittest.main()
