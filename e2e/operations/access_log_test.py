"""The proxy's access log (OP-306)."""
import json
import re
import signal
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()


def lines_in(log, **wanted):
    """Lines of a log whose fields have these values."""
    lines = [json.loads(line) for line in log.read_text().split("\n")[:-1]] if log.exists() else []
    return [line for line in lines if all(line.get(key) == value for key, value in wanted.items())]


class AccessLog(unittest.TestCase):
    def test_OP_306_requests_have_lines(self):
        with kit.Proxy(installation, {"wildcard": "serve", "access_log": {"file": "access.jsonl", "sample": 1}}) as proxy:
            log = proxy.dir / "access.jsonl"
            client = proxy.client("/clusters/root")
            made = client.request("POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v" * 100}},
                                  headers={"User-Agent": "test/1", "Audit-ID": "mine",
                                           "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
            line = kit.eventually(lambda: lines_in(log, audit_id="mine"), what="the request's line")[0]
            self.assertEqual({key: line[key] for key in ("method", "path", "verb", "gvr", "ns", "cluster", "shard", "code", "flags", "user",
                                                         "agent", "trace", "client")},
                             {"method": "POST", "path": "/clusters/root" + MAPS, "verb": "create", "gvr": "v1/configmaps", "ns": "default",
                              "cluster": "root", "shard": "root", "code": 201, "flags": "-", "user": "kcp-admin", "agent": "test/1",
                              "trace": "0af7651916cd43dd8448eb211c80319c", "client": "127.0.0.1"})
            self.assertGreater(line["bytes_in"], 100)
            self.assertEqual(line["bytes_out"], len(made.body))
            self.assertGreater(line["dur_ms"], 0)
            self.assertGreaterEqual(line["dur_ms"], line["ttfb_ms"])
            self.assertGreater(line["upstream_ms"], 0)
            self.assertGreaterEqual(line["dur_ms"], line["upstream_ms"])
            answer = proxy.client("/clusters/*").get(MAPS.replace("namespaces/default/", "") + "?limit=3&token=hunter2")
            self.assertEqual(answer.status, 200, answer)
            line = kit.eventually(lambda: lines_in(log, path="/clusters/*/api/v1/configmaps"), what="the merged list's line")[0]
            self.assertEqual(line["flags"], "MG")
            self.assertNotIn("shard", line)
            self.assertNotIn("upstream_ms", line)
            proxy.client("/clusters/root:nobody").get("/api")
            self.assertEqual(kit.eventually(lambda: lines_in(log, path="/clusters/root:nobody/api"))[0]["flags"], "NR")
            stranger = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root", installation.pki / "serving-ca.crt")
            self.assertEqual(stranger.get(MAPS, headers={"Authorization": "Bearer hunter2", "Audit-ID": "nobody"}).status, 401)
            line = kit.eventually(lambda: lines_in(log, audit_id="nobody"), what="the line of who was refused")[0]
            self.assertEqual(line["code"], 401)
            self.assertNotIn("user", line)
            self.assertNotIn("hunter2", log.read_text())
            self.assertEqual(proxy.metric("kintsugi_access_log_dropped_total"), 0)

    def test_OP_306_without_a_sample_only_what_is_remarkable(self):
        with kit.Proxy(installation, {"access_log": {"file": "access.jsonl", "sample": 0}}) as proxy:
            log = proxy.dir / "access.jsonl"
            client = proxy.client("/clusters/root")
            for _ in range(20):
                self.assertEqual(client.get(MAPS).status, 200)
            watch = client.connect()
            watch.request("GET", "/clusters/root" + MAPS + "?watch=1")
            watch.getresponse()
            self.assertEqual(lines_in(log), [], "a watch has its line when it ends")
            watch.close()
            line = kit.eventually(lambda: lines_in(log, verb="watch"), what="the watch's line")[0]
            self.assertEqual((line["code"], line["flags"]), (200, "DC"))
            self.assertEqual(len(lines_in(log)), 1)
            # Moved away, it is begun anew.
            log.rename(proxy.dir / "old")
            proxy.process.send_signal(signal.SIGHUP)

            def again():
                watch = client.connect()
                watch.request("GET", "/clusters/root" + MAPS + "?watch=1")
                watch.getresponse()
                watch.close()
                return lines_in(log)

            kit.eventually(again, what="a line in the new file")

    def test_OP_306_flags_say_why_there_is_no_whole_answer(self):
        other = kit.certificate(installation.dir, "access-log", "DNS:other")["crt"]
        with kit.Proxy(installation, {"access_log": {"file": "access.jsonl", "sample": 1}, "backend": {"ca_file": other}}) as proxy:
            log = proxy.dir / "access.jsonl"
            self.assertGreaterEqual(proxy.client("/clusters/root").get(MAPS).status, 500)
            line = kit.eventually(lambda: lines_in(log, path="/clusters/root" + MAPS), what="the line of who was not reached")[0]
            self.assertEqual((line["flags"], line["shard"]), ("UF", "root"))
            self.assertNotIn("upstream_ms", line)
        with kit.Proxy(installation, {"access_log": {"file": "access.jsonl", "sample": 0}}) as proxy:
            log = proxy.dir / "access.jsonl"
            watch = proxy.client("").connect()
            watch.request("GET", "/clusters/root" + MAPS + "?watch=1")
            watch.getresponse()
            proxy.process.send_signal(signal.SIGTERM)
            proxy.process.wait(60)
            line, = lines_in(log, verb="watch")
            self.assertEqual((line["code"], line["flags"]), (200, "DR"))

    def test_OP_306_lines_of_text(self):
        with kit.Proxy(installation, {"access_log": {"file": "access.log", "sample": 1, "format": "text"}}) as proxy:
            log = proxy.dir / "access.log"
            proxy.client("/clusters/root").get(MAPS + "/none-such", headers={"Audit-ID": "one"})
            text = kit.eventually(lambda: log.exists() and [line for line in log.read_text().splitlines() if line.endswith(" one")])[0]
            self.assertRegex(text, r'^127\.0\.0\.1 - kcp-admin \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] '
                                   + re.escape(f'"GET /clusters/root{MAPS}/none-such HTTP/1.1" 404 ') + r'\d+ \d+\.\d{3} root - one$')


if __name__ == "__main__":
    unittest.main()
