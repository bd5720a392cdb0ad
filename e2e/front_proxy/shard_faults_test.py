"""A shard that hangs, refuses, resets, is slow or shows a wrong certificate: the answer, the metric, the one log line, the recovery
(E6, E7, R-24 to R-27, FP-081, FP-082, FP-133, FP-136); and every file of the proxy replaced under load (FP-144)."""
import contextlib
import json
import pathlib
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import front
import kit

ONLY_WITH_ALL = "a shard that hangs is noticed when deadlines pass, and every file is replaced under load: two minutes"

MAPS = "/api/v1/namespaces/default/configmaps"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MERGE = {"Content-Type": "application/merge-patch+json"}


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()
    installation.make_workspace("far", selector={"name": "shard-1"})


def pair(ca=None, days=1, names="IP:127.0.0.1,DNS:localhost"):
    """A folder with cert.pem and key.pem; of a CA of its own, or the one whose path without suffix is given."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=installation.dir, prefix="pair-"))
    (folder / "ext").write_text(f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
    signed = ("-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-set_serial", "7") if ca else ("-signkey", "key.pem")
    for command in (("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=faulty", "-keyout", "key.pem",
                     "-out", "csr.pem"),
                    ("x509", "-req", "-in", "csr.pem", "-out", "cert.pem", "-days", str(days), "-extfile", "ext", *signed)):
        subprocess.run(["openssl", *command], check=True, capture_output=True, cwd=folder)
    return folder


class Relay:
    """What stands between the proxy and a shard, and passes bytes until it is told to do otherwise."""

    def __init__(self, target):
        self.target, self.mode, self.pair, self.open, self.lock = target, "pass", None, [], threading.Lock()
        self.port, self.listening = 0, None
        self.listen()

    def listen(self):
        self.listening = socket.create_server(("127.0.0.1", self.port), backlog=64)
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self.accept, args=(self.listening,), daemon=True).start()

    def accept(self, listening):
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                threading.Thread(target=self.serve, args=(client, self.mode), daemon=True).start()

    def serve(self, client, mode):
        with contextlib.suppress(OSError):
            if mode == "reset":
                client.recv(1)
                return self.cut(client)
            if mode == "certificate":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.pair / "cert.pem", self.pair / "key.pem")
                context.set_alpn_protocols(["h2"])
                with context.wrap_socket(client, server_side=True) as tls:
                    return tls.recv(1)
            there = socket.create_connection(self.target, timeout=600)
            with self.lock:
                self.open += [client, there]
            threading.Thread(target=self.carry, args=(client, there, 0), daemon=True).start()
            self.carry(there, client, 1)

    def carry(self, source, target, down):
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                while self.mode == "hang":
                    time.sleep(0.02)
                if self.mode == "slow" and down:
                    time.sleep(0.4)
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    @staticmethod
    def cut(one):
        with contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()

    def become(self, mode, certificate=None):
        """What is open hangs or is slow from now on, too; otherwise it is cut, unless all is well again."""
        before, self.mode, self.pair = self.mode, mode, certificate
        if before == "refuse":
            self.listen()
        if mode == "refuse":
            with contextlib.suppress(OSError):
                self.listening.shutdown(socket.SHUT_RDWR)
            self.listening.close()
        if mode not in ("hang", "slow", "pass"):
            with self.lock:
                gone, self.open = self.open, []
            for one in gone:
                self.cut(one)


class Faults(unittest.TestCase):
    """One shard behind a relay; the other one answers all the time."""

    def setUp(self):
        root = installation.client()
        before = root.must("GET", f"{SHARDS}/shard-1")["spec"]["baseURL"]
        self.relay = Relay(("127.0.0.1", int(before.rsplit(":", 1)[1])))
        self.addCleanup(self.relay.become, "refuse")

        def move(url):
            root.must("PATCH", f"{SHARDS}/shard-1", json.dumps({"spec": {"baseURL": url}}), headers=MERGE)

        self.addCleanup(move, before)
        self.addCleanup(self.relay.become, "pass")
        move(f"https://127.0.0.1:{self.relay.port}")

    def rows(self):
        ca = installation.pki / "serving-ca"
        unreachable = (503, "ServiceUnavailable", "the shard is not reachable")
        unsecured = (502, None, "the connection to the backend could not be secured")
        # name, mode, certificate, answers that may come, reason of the failures, cause of failed handshakes, seconds until it is told
        yield "refuses", "refuse", None, {unreachable}, {"connect", "lost", "full"}, None, 10
        yield "resets", "reset", None, {unreachable, unsecured}, {"tls", "lost", "connect", "full"}, "other", 10
        yield "hangs", "hang", None, {unreachable}, {"timeout", "lost", "connect", "full"}, None, 45
        for name, certificate, cause in (("unknown CA", pair(), "unknown_ca"), ("expired", pair(ca, days=-1), "expired_cert"),
                                         ("another name", pair(ca, names="DNS:other.example"), "hostname_mismatch")):
            yield name, "certificate", certificate, {unsecured, unreachable}, {"tls", "lost", "full"}, cause, 10

    def told(self, proxy):
        """What the log says of the shard, without times."""
        lines = (json.loads(line) for line in proxy.text().splitlines() if line.startswith("{"))
        return [line["msg"] for line in lines if line.get("shard") == "shard-1" and line["level"] == "warn"]

    def test_E6_E7_FP_081_FP_082_FP_133_FP_136_each_fault(self):
        for name, mode, certificate, answers, reasons, cause, limit in self.rows():
            self.relay.become("pass")
            with self.subTest(name), kit.Proxy(installation) as proxy:
                far, near = proxy.client("/clusters/root:far"), proxy.client()
                kit.eventually(lambda one=far: one.get(MAPS).status == 200, 20, "it is well")
                watch = kit.Watch(far, MAPS + "?watch=1")
                kit.eventually(lambda one=watch: one.events, 20, "a watch")
                self.relay.become(mode, certificate)
                began, seen = time.monotonic(), set()

                def fails(client=far, into=seen):
                    with contextlib.suppress(TimeoutError):
                        answer = client.get(MAPS, timeout=10)
                        said = answer.json if answer.status != 200 else {}
                        into.add((answer.status, said.get("reason") if answer.status == 503 else None, said.get("message")))
                        if answer.status == 503:
                            self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
                    return proxy.metrics("kintsugi_shard_up", shard="shard-1") == 0 and into

                kit.eventually(fails, limit, f"{name}: it is told")
                self.assertLessEqual(seen - {(200, None, None)}, answers, name)
                took = self.ten_at_once(far, near, answers)
                if mode == "hang":  # requests that are on their way learn it from PINGs; then it is down, but for trials
                    kit.eventually(lambda: sorted(self.ten_at_once(far, near, answers))[7] < 2, 45, "it is known")
                else:
                    self.assertLess(max(took), 10)
                refused = far.get(MAPS + "?watch=1")
                self.assertIn(refused.status, {429, *({502} if cause else ())}, "a watch that begins")
                watch.join(60)
                self.assertIsNone(watch.fault, "the one that ran ends in order")
                found = {reason: proxy.metrics("kintsugi_forward_failures_total", shard="shard-1", reason=reason)
                         for reason in ("connect", "tls", "timeout", "not-processed", "lost", "full", "refused")}
                self.assertGreater(sum(found.values()), 0)
                self.assertLessEqual({reason for reason, count in found.items() if count}, reasons, (name, found))
                self.assertEqual(sum(proxy.metrics("kintsugi_forward_failures_total", shard="root", reason=reason) for reason in found), 0)
                causes = {one for one in ("unknown_ca", "expired_cert", "cipher_mismatch", "hostname_mismatch", "other")
                          if proxy.metrics("kcp_listener_tls_connection_error", shard="shard-1", error_type=one)}
                self.assertLessEqual(causes, {cause} if cause else {"other"}, name)
                if mode == "certificate":
                    self.assertEqual(causes, {cause})
                kit.eventually(lambda: proxy.metrics("kintsugi_index_lag_seconds", shard="shard-1") > 0, 15, "the index lags")
                said = self.told(proxy)
                self.assertEqual(said.count("a shard does not answer"), 1, (name, said))
                self.assertLessEqual(said.count("shard is down"), 1, (name, said))
                self.relay.become("pass")
                kit.eventually(lambda one=far: one.get(MAPS).status == 200, 15, f"{name}: it is back")
                kit.eventually(lambda: proxy.metrics("kintsugi_shard_up", shard="shard-1") == 1 and
                               proxy.metrics("kintsugi_index_lag_seconds", shard="shard-1") == 0, 15, "and told so")
                for _ in range(5):
                    self.assertEqual(far.get(MAPS).status, 200, name)
                self.assertLess(time.monotonic() - began, 150)

    def ten_at_once(self, far, near, answers):
        """How long they took [s]."""
        took, wrong = [], []

        def ask():
            at = time.monotonic()
            answer = far.get(MAPS, timeout=50)
            took.append(time.monotonic() - at)
            said = (answer.status, answer.json.get("reason") if answer.status == 503 else None, answer.json.get("message"))
            if said not in answers:
                wrong.append(said)

        threads = [threading.Thread(target=ask) for _ in range(10)]
        for thread in threads:
            thread.start()
        at = time.monotonic()
        self.assertEqual(near.get(MAPS).status, 200, "the other shard does not notice")
        self.assertLess(time.monotonic() - at, 3)
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, len(took)), ([], 10))
        return took

    def test_R_24_a_slow_shard_is_no_fault(self):
        with kit.Proxy(installation) as proxy:
            far = proxy.client("/clusters/root:far")
            kit.eventually(lambda: far.get(MAPS).status == 200, 20, "it is well")
            self.relay.become("slow")
            for number in range(5):
                at = time.monotonic()
                self.assertEqual(far.get(MAPS).status, 200)
                if number:
                    self.assertGreater(time.monotonic() - at, 0.35, "it is")
                self.assertLess(self.near_takes(proxy), 2)
            slow = (proxy.metrics("proxy_request_duration_seconds_count", method="get", code="200") -
                    proxy.metrics("proxy_request_duration_seconds_bucket", method="get", code="200", le="0.2"))
            self.assertGreaterEqual(slow, 4, "the histogram tells")
            self.assertEqual(proxy.metrics("kintsugi_shard_up", shard="shard-1"), 1)
            self.assertEqual(self.told(proxy), [])

    @staticmethod
    def near_takes(proxy):
        at = time.monotonic()
        assert proxy.client().get(MAPS).status == 200
        return time.monotonic() - at


class Files(unittest.TestCase):
    """Every file that the proxy reads, replaced while requests come (FP-144)."""

    def test_FP_144_each_file_under_load(self):
        proxy = kit.Proxy(installation, {
            "mapping_file": "mapping.yaml", "authentication": {"token_file": "tokens.csv", "request_header": "{client_ca_file: front-ca.crt}"},
            "audit": {"policy_file": "audit.yaml", "log_file": "audit.log"}, "shards": "{shard-1: {ca_file: shard-ca.crt}}"})
        pki = installation.pki
        for name, source in (("front-ca.crt", "requestheader-ca.crt"), ("shard-ca.crt", "serving-ca.crt"), ("mapped-ca.crt", "serving-ca.crt")):
            (proxy.dir / name).write_bytes((pki / source).read_bytes())
        (proxy.dir / "mapping.yaml").write_text(front.entry(installation, "/elsewhere/", "https://127.0.0.1:1").replace(
            f"{pki}/serving-ca.crt", f"{proxy.dir}/mapped-ca.crt"))
        (proxy.dir / "tokens.csv").write_text("some-token-of-a-user,somebody,1\n")
        (proxy.dir / "audit.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
        with proxy:
            self.replaced(proxy)

    def replaced(self, proxy):
        failures, counts, done = [], [0] * 4, threading.Event()

        def load(part, client, path):
            connection = None
            while not done.is_set():
                try:
                    if connection is None or part % 2:  # an old connection, or a new one each time
                        connection = client.connect(30)
                    connection.request("GET", path)
                    answer = connection.getresponse()
                    body = answer.read()
                    counts[part] += 1
                    if answer.status != 200:
                        failures.append((path, answer.status, body[:200]))
                except OSError as fault:
                    failures.append((path, repr(fault)))
                    connection = None

        far, near = proxy.client("/clusters/root:far"), proxy.client()
        kit.eventually(lambda: far.get(MAPS).status == 200)
        threads = [threading.Thread(target=load, args=(part, client, client.url.path.rstrip("/") + MAPS)) for part, client in enumerate((far, far, near, near))]
        for thread in threads:
            thread.start()
        try:
            for key, files in {
                    "listener.cert_file": ("proxy.crt",), "listener.key_file": ("proxy.key",), "authentication.client_ca_file": ("client-ca.crt",),
                    "authentication.request_header.client_ca_file": ("front-ca.crt",), "authentication.token_file": ("tokens.csv",),
                    "backend.ca_file": ("serving-ca.crt",), "backend.cert_file": ("proxy-requestheader.crt",),
                    "backend.key_file": ("proxy-requestheader.key",), "topology.root_kubeconfig": ("root.kubeconfig",),
                    "topology.shards_kubeconfig": ("shards.kubeconfig",), "mapping_file": ("mapping.yaml", "mapped-ca.crt"),
                    "shards": ("shard-ca.crt",), "audit.policy_file": ("audit.yaml",), "config": ("proxy.yaml",)}.items():
                for file in files:
                    with self.subTest(file=file):
                        self.replace(proxy, key, proxy.dir / file)
        finally:
            done.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures[:3], [])
        self.assertGreater(min(counts), 20)

    def replace(self, proxy, key, file):
        def count(result):
            return proxy.metrics("kintsugi_reloads_total", file=key, result=result)

        good, taken, refused = file.read_bytes(), count("ok"), count("error")
        kit.replace_file(file, good + b"\n")
        kit.eventually(lambda: count("ok") > taken, 15, f"{file.name} is taken")
        kit.replace_file(file, b"\x01 nothing of that kind: [\n")
        kit.eventually(lambda: count("error") > refused, 15, f"{file.name} is refused")
        taken = count("ok")
        kit.replace_file(file, good)
        kit.eventually(lambda: count("ok") > taken or "nothing to" in proxy.text(), 15, f"{file.name} is well again")


if __name__ == "__main__":
    unittest.main()
