"""The proxy as a server that runs for weeks: reload of every file, drain, limits on clients, shards that come back."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest

import kit

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def run(*command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


def issue(folder, name, ca, subject, extensions, serial=None):
    """A key pair `name`.crt, `name`.key in `folder`, signed by the pair `ca` (path without suffix)."""
    base = pathlib.Path(folder) / name
    run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{base}.key",
        "-out", f"{base}.csr", "-subj", subject)
    base.with_suffix(".ext").write_text(extensions)
    serial = serial or int.from_bytes(os.urandom(8), "big")
    run("openssl", "x509", "-req", "-in", f"{base}.csr", "-CA", f"{ca}.crt", "-CAkey", f"{ca}.key", "-set_serial", serial, "-days",
        1, "-out", f"{base}.crt", "-extfile", f"{base}.ext")
    return serial


class LongRunning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)

    def proxy(self, **change):
        return kit.Proxy(self.installation, change)

    def write(self, client, name, data="x", expect=(200, 201)):
        return client.must("POST", CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                                                "data": {"k": data}}, expect)

    # Reload

    def test_FP144_the_serving_pair_is_replaced_without_a_failed_request(self):
        with self.proxy() as proxy:
            old = proxy.serial()
            watch = kit.Watch(proxy.client(), CONFIGMAPS + "?watch=1")
            kit.eventually(lambda: len(watch.events) > 0, what="first event")
            load = subprocess.Popen(["h2load", "-c8", "-m4", "-D6", f"https://127.0.0.1:{proxy.port}/livez"],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            new = issue(proxy.dir, "next", self.installation.pki / "serving-ca", "/CN=proxy",
                        "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n")
            kit.replace_file(proxy.dir / "proxy.crt", proxy.dir / "next.crt")
            kit.replace_file(proxy.dir / "proxy.key", proxy.dir / "next.key")
            kit.eventually(lambda: proxy.serial() == new, 10, "the new certificate")
            self.assertNotEqual(old, new)
            output = load.communicate(timeout=60)[0]
            self.assertRegex(output, r"\b0 failed, 0 errored, 0 timeout", output)
            name = "seen-after-reload"
            self.write(proxy.client(), name)
            kit.eventually(lambda: any(e["object"]["metadata"]["name"] == name for e in watch.events), what="watch goes on")
            self.assertGreaterEqual(proxy.metric('kintsugi_reloads_total{file="listener.key_file",result="ok"}'), 1)

    def test_FP144_a_broken_file_changes_nothing_and_is_named(self):
        with self.proxy() as proxy:
            old, good = proxy.serial(), (proxy.dir / "proxy.key").read_bytes()
            kit.replace_file(proxy.dir / "proxy.key", b"no key at all\n")
            failed = 'kintsugi_reloads_total{file="listener.key_file",result="error"}'
            kit.eventually(lambda: proxy.metric(failed) >= 1, what="failed reload counted")
            self.assertIn(f"{proxy.dir}/proxy.key: holds no usable private key", proxy.text())
            self.assertEqual(proxy.serial(), old)
            self.assertEqual(proxy.client().get(CONFIGMAPS).status, 200)
            kit.replace_file(proxy.dir / "proxy.key", good)
            kit.eventually(lambda: proxy.metric(failed.replace("error", "ok")) >= 1, what="healed")

    def test_FP144_clients_of_another_ca_are_known_after_it_was_added(self):
        with self.proxy() as proxy:
            run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 1, "-subj",
                "/CN=second-ca", "-keyout", proxy.dir / "second.key", "-out", proxy.dir / "second.crt")
            issue(proxy.dir, "carol", proxy.dir / "second", "/O=system:masters/CN=carol", "extendedKeyUsage=clientAuth\n")
            client = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root", self.installation.pki / "serving-ca.crt",
                                proxy.dir / "carol.crt", proxy.dir / "carol.key")
            self.assertEqual(client.get(CONFIGMAPS).status, 401)
            both = (proxy.dir / "client-ca.crt").read_bytes() + (proxy.dir / "second.crt").read_bytes()
            kit.replace_file(proxy.dir / "client-ca.crt", both)
            # Known now; what a user may do is up to the shard (the group is dropped on the way).
            kit.eventually(lambda: client.get(CONFIGMAPS).status != 401, 10, "carol is known")
            self.assertEqual(proxy.client().get(CONFIGMAPS).status, 200)

    def test_FP144_the_pair_for_shards_and_the_kubeconfigs_are_replaced(self):
        with self.proxy() as proxy:
            watch = kit.Watch(proxy.client(), CONFIGMAPS + "?watch=1")
            kit.eventually(lambda: len(watch.events) > 0, what="first event")
            issue(proxy.dir, "next", self.installation.pki / "requestheader-ca", "/CN=kcp-front-proxy",
                  "extendedKeyUsage=clientAuth\n")
            kit.replace_file(proxy.dir / "proxy-requestheader.crt", proxy.dir / "next.crt")
            kit.replace_file(proxy.dir / "proxy-requestheader.key", proxy.dir / "next.key")
            kit.eventually(lambda: proxy.metric('kintsugi_reloads_total{file="backend.key_file",result="ok"}') >= 1)
            for _ in range(20):
                self.assertEqual(proxy.client().get(CONFIGMAPS).status, 200)
            # A pair that shards do not trust: requests are refused, so the new one is what is used.
            issue(proxy.dir, "wrong", self.installation.pki / "serving-ca", "/CN=kcp-front-proxy",
                  "extendedKeyUsage=clientAuth\n")
            kit.replace_file(proxy.dir / "proxy-requestheader.crt", proxy.dir / "wrong.crt")
            kit.replace_file(proxy.dir / "proxy-requestheader.key", proxy.dir / "wrong.key")
            kit.eventually(lambda: proxy.client().get(CONFIGMAPS).status in (401, 403), 10, "the other pair in use")
            self.assertIsNone(watch.ended_at, "a running watch is not cut")
            kit.replace_file(proxy.dir / "proxy-requestheader.crt", proxy.dir / "next.crt")
            kit.replace_file(proxy.dir / "proxy-requestheader.key", proxy.dir / "next.key")
            kit.eventually(lambda: proxy.client().get(CONFIGMAPS).status == 200, 10, "healed")
            kubeconfig = proxy.dir / "shards.kubeconfig"
            kit.replace_file(kubeconfig, kubeconfig.read_bytes() + b"\n")
            kit.eventually(lambda: proxy.metric('kintsugi_reloads_total{file="topology.shards_kubeconfig",result="ok"}') >= 1)
            self.assertEqual(proxy.client("").get("/readyz").status, 200)

    def test_FP144_the_configuration_is_reloaded_and_faults_name_the_line(self):
        with self.proxy() as proxy:
            self.write(proxy.client(), "large-before", "x" * 20000)
            proxy.config["limits"]["body_bytes"] = 10000
            proxy.config["listener"]["max_streams"] = 99
            proxy.write_config()
            kit.eventually(lambda: "needs a restart to change" in proxy.text(), 10, "reloaded")
            self.assertIn("listener.max_streams", proxy.text())
            self.write(proxy.client(), "large-after", "x" * 20000, expect=(413,))
            proxy.write_config("wildcard: maybe\n")
            kit.eventually(lambda: "proxy.yaml:5: wildcard: must be one of deny, serve" in proxy.text(), 10, "fault named")
            self.write(proxy.client(), "large-still", "x" * 20000, expect=(413,))
            before = proxy.metric('kintsugi_reloads_total{file="all",result="error"}')
            proxy.process.send_signal(signal.SIGHUP)
            kit.eventually(lambda: proxy.metric('kintsugi_reloads_total{file="all",result="error"}') > before, 10, "SIGHUP")
            self.assertIsNone(proxy.process.poll())

    def test_a_shard_takes_its_new_pair(self):
        pki, name = self.installation.pki, "shard-shard-1"
        port = int((self.installation.state / "shards" / "shard-1" / "port").read_text()) if (
            self.installation.state / "shards" / "shard-1" / "port").exists() else None
        if port is None:
            shards = self.installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards/shard-1")
            port = int(re.search(r":(\d+)$", shards["spec"]["baseURL"]).group(1))
        new = issue(self.installation.dir, "shard-next", pki / "serving-ca", f"/CN={name}",
                    "subjectAltName=IP:127.0.0.1,IP:::1,DNS:localhost\nextendedKeyUsage=serverAuth\n")
        kit.replace_file(pki / f"{name}.crt", self.installation.dir / "shard-next.crt")
        kit.replace_file(pki / f"{name}.key", self.installation.dir / "shard-next.key")
        context = ssl.create_default_context(cafile=str(pki / "serving-ca.crt"))
        context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))

        def serial():
            with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                    return int(tls.getpeercert()["serialNumber"], 16)

        kit.eventually(lambda: serial() == new, 10, "the shard's new certificate")

    # Drain

    def test_FP145_AM_035_sigterm_drains_in_order(self):
        with self.proxy(shutdown={"delay_ms": 6000, "grace_ms": 20000, "spread_ms": 3000}) as proxy:
            self.write(proxy.client(), "drain-first")
            watches = [kit.Watch(proxy.client(), CONFIGMAPS + "?watch=1&allowWatchBookmarks=true") for _ in range(20)]
            kit.eventually(lambda: all(w.events for w in watches), what="every watch runs")
            body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "drain-post"}}).encode()
            post = proxy.client().connect(30)
            post.putrequest("POST", "/clusters/root" + CONFIGMAPS)
            post.putheader("Content-Type", "application/json")
            post.putheader("Content-Length", str(len(body)))
            post.endheaders()
            post.send(body[:10])
            proxy.process.send_signal(signal.SIGTERM)
            start, clock = time.monotonic(), kit.Clock()
            answer = kit.eventually(lambda: (lambda a: a if a.status == 500 else None)(proxy.client("").get("/readyz")), 5,
                                    "readyz says shutdown")
            self.assertIn("[-]shutdown failed", answer.body.decode())
            self.write(proxy.client(), "drain-delay")  # work goes on during the delay

            def refused():
                with contextlib.suppress(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", proxy.port), timeout=60).close()
                    return False
                return True

            kit.eventually(refused, 15, "the listener is closed")
            self.assertGreater(time.monotonic() - start, 4.0)
            for watch in watches:
                watch.join(60)
                self.assertIsNotNone(watch.ended_at, "a watch did not end")
                self.assertIsNone(watch.fault)
                last = watch.events[-1]
                self.assertEqual(last["type"], "BOOKMARK", last)
                versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in watch.events]
                self.assertEqual(versions[-1], max(versions))
                self.assertEqual(last["object"]["kind"], "ConfigMap")
            ends = [w.ended_at for w in watches]
            self.assertGreater(max(ends) - min(ends), 1.0, "watches end one after another")
            self.assertIsNone(proxy.process.poll(), "the POST holds it")
            post.send(body[10:])
            answer = post.getresponse()
            self.assertEqual((answer.status, json.loads(answer.read())["metadata"]["name"]), (201, "drain-post"))
            post.close()
            self.assertEqual(proxy.process.wait(60), 0)
            self.assertLess(clock.spent(), 30)

    def test_FP145_what_does_not_end_is_cut_after_the_grace(self):
        with self.proxy(shutdown={"delay_ms": 0, "grace_ms": 1500}) as proxy:
            post = proxy.client().connect(30)
            post.putrequest("POST", "/clusters/root" + CONFIGMAPS)
            post.putheader("Content-Length", "100")
            post.endheaders()
            kit.eventually(lambda: proxy.metrics('kintsugi_streams', kind="other") >= 1, what="the POST is there")
            proxy.process.send_signal(signal.SIGTERM)
            self.assertEqual(proxy.process.wait(60), 0)
            post.close()

    def test_FP146_a_second_sigterm_ends_it_at_once(self):
        with self.proxy(shutdown={"delay_ms": 30000}) as proxy:
            proxy.process.send_signal(signal.SIGTERM)
            kit.eventually(lambda: "draining" in proxy.text(), what="draining")
            proxy.process.send_signal(signal.SIGTERM)
            self.assertEqual(proxy.process.wait(60), 1)

    # Limits (guides 3.9)

    def connect(self, proxy):
        plain = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
        context = ssl.create_default_context(cafile=str(self.installation.pki / "serving-ca.crt"))
        context.load_cert_chain(str(self.installation.pki / "admin.crt"), str(self.installation.pki / "admin.key"))
        return context.wrap_socket(plain, server_hostname="127.0.0.1")

    def test_slow_clients_are_let_go(self):
        # Long enough for an honest part of a client on a busy machine.
        timeouts = {"handshake_timeout_ms": 2000, "header_timeout_ms": 1000, "first_request_timeout_ms": 3000}
        with self.proxy(listener=timeouts) as proxy:
            clock = kit.Clock()
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=60) as silent:
                self.assertEqual(silent.recv(1), b"", "a handshake that never begins")
            with self.connect(proxy) as idle:
                self.assertEqual(idle.recv(1), b"", "no request after the handshake")
            with self.connect(proxy) as half:
                half.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nX-Slow: ")
                answer = half.recv(65536)
                self.assertTrue(answer.startswith(b"HTTP/1.1 408 "), answer)
            self.assertLess(clock.spent(), 15)
            kit.eventually(lambda: proxy.metric('kintsugi_timeouts_total{limit="request"}') >= 2, what="both are counted")
            kit.eventually(lambda: proxy.metric("kintsugi_tls_handshake_errors_total") >= 1, what="the handshake is counted")

    def test_a_client_that_takes_nothing_loses_its_answer(self):
        with self.proxy(listener={"slow_reader_timeout_ms": 800}) as proxy:
            client = proxy.client()
            for i in range(12):
                self.write(client, f"big-{i}", "y" * 900000, expect=(200, 201, 409))
            watch = kit.Watch(client, CONFIGMAPS + "?watch=1&fieldSelector=metadata.name%3Dnone")
            with socket.socket() as plain:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                plain.connect(("127.0.0.1", proxy.port))
                context = ssl.create_default_context(cafile=str(self.installation.pki / "serving-ca.crt"))
                context.load_cert_chain(str(self.installation.pki / "admin.crt"), str(self.installation.pki / "admin.key"))
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                    tls.sendall(f"GET /clusters/root{CONFIGMAPS} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                    kit.eventually(lambda: proxy.metric('kintsugi_timeouts_total{limit="slow-reader"}') >= 1, 20, "slow reader cut")
            self.assertIsNone(watch.ended_at, "a quiet watch is no slow reader")
            for i in range(12):
                client.request("DELETE", f"{CONFIGMAPS}/big-{i}")

    # Shards that come back

    def test_FP136_writers_hardly_notice_a_shard_that_crashes(self):
        workspace = self.installation.make_workspace("crashing", selector={"name": "shard-1"})
        self.assertTrue(workspace["spec"]["cluster"])
        stop, codes, lock = threading.Event(), {}, threading.Lock()

        def writer(index):
            client, n = self.installation.client("/clusters/root:crashing"), 0
            while not stop.is_set():
                n += 1
                status = client.request("POST", CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap",
                                                             "metadata": {"name": f"w{index}-{n}"}}, timeout=60).status
                with lock:
                    codes[status] = codes.get(status, 0) + 1

        writers = [threading.Thread(target=writer, args=(i,), daemon=True) for i in range(4)]
        for thread in writers:
            thread.start()
        try:
            for _ in range(3):
                before = codes.get(201, 0)
                kit.eventually(lambda: codes.get(201, 0) > before + 20, 20, "writes go on")
                self.installation.kill("shard-1")
            before = codes.get(201, 0)
            kit.eventually(lambda: codes.get(201, 0) > before + 40, 20, "writes go on after the last crash")
        finally:
            stop.set()
            for thread in writers:
                thread.join(30)
        print(f"      answers to writers while the shard crashed three times: {codes}")
        # 502: sent, and the shard died before it answered; each writer can lose one per crash.
        self.assertLessEqual(codes.get(502, 0), 12, codes)
        self.assertLessEqual(codes.get(503, 0), 12, codes)
        self.assertEqual(set(codes) - {201, 502, 503, 409}, set(), codes)

    def test_answers_carry_a_date(self):
        for path in ("/livez", "/clusters/nope/api", "/clusters/root" + CONFIGMAPS):
            headers = self.installation.client("").get(path).headers
            self.assertRegex(headers.get("Date", ""), r"^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$", path)
            self.assertEqual(len(headers.get_all("Date")), 1)


if __name__ == "__main__":
    unittest.main()
