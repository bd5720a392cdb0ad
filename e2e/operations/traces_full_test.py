"""Traces by OTLP to a real collector: proxy, shards and workers as one (OP-501 to OP-504)."""
import json
import secrets
import subprocess
import time
import unittest

import collector
import kit
from up import workers_test

ONLY_WITH_ALL = "Go builds a collector of OpenTelemetry first"
PEOPLE = "/api/v1/namespaces/default/configmaps"


def setUpModule():
    global installation, receiver
    receiver = collector.Collector()
    unittest.addModuleCleanup(receiver.stop)
    installation = kit.Installation("--tracing-endpoint", receiver.endpoint, shards=2).start_for()


class Traces(unittest.TestCase):
    @staticmethod
    def ask(path, method="GET", client=None, flag="01", **more):
        """As an administrator, whose flag counts. @returns the answer, the trace"""
        trace = secrets.token_hex(16)
        parent = f"00-{trace}-00f067aa0ba902b7-{flag}"
        answer = (client or installation.client("")).request(method, path, headers={"traceparent": parent}, **more)
        return answer, trace

    @staticmethod
    def spans(trace, count):
        kit.eventually(lambda: len(receiver.spans(trace)) >= count, 30, lambda: f"{count} spans, not {receiver.spans(trace)}")
        return receiver.spans(trace)

    def one(self, spans, service, kind, instance=None):
        found = [one for one in spans if (one.service, one.kind) == (service, kind) and instance in (None, one.instance)]
        self.assertEqual(len(found), 1, spans)
        return found[0]

    def test_OP_501_OP_503_OP_T501_a_read_is_one_trace(self):
        answer, trace = self.ask("/clusters/root" + PEOPLE + "?limit=7")
        self.assertEqual(answer.status, 200)
        spans = self.spans(trace, 5)
        self.assertEqual(len(spans), 5, spans)
        proxy, sent, shard = self.one(spans, "kintsugi-proxy", 2), self.one(spans, "kintsugi-proxy", 3), self.one(spans, "kintsugi-shard", 2)
        self.assertEqual([proxy.parent, sent.parent, shard.parent], ["00f067aa0ba902b7", proxy.id, sent.id])
        self.assertEqual((proxy.name, sent.name, shard.name), ("list configmaps", "forward", "list configmaps"))
        self.assertEqual(proxy.attributes["url.path"], "/clusters/root" + PEOPLE)
        self.assertEqual((sent.attributes["kintsugi.shard"], shard.instance), ("root", "root"))
        self.assertEqual(sent.events, ["first byte"])
        inner = {one.name: one for one in spans if one.kind == 1}
        self.assertEqual(set(inner), {"authenticate", "authorize"})
        for one in inner.values():
            self.assertEqual((one.service, one.instance, one.parent, one.fault), ("kintsugi-shard", "root", shard.id, ""))
            self.assertTrue(shard.begin <= one.begin <= one.end <= shard.end, spans)
        for one in (proxy, sent, shard):
            self.assertEqual(str(one.attributes["http.response.status_code"]), "200")
        self.assertLessEqual(proxy.begin, sent.begin)
        self.assertLessEqual(sent.end, proxy.end + 50_000_000)
        self.assertEqual(proxy.attributes["audit-id"], shard.attributes["audit-id"])

    def test_OP_503_OP_T501_a_write_has_its_commit(self):
        body = {"metadata": {"name": "traced-write"}}
        for wanted, fault in ((201, ""), (409, "conflict")):
            answer, trace = self.ask("/clusters/root" + PEOPLE, "POST", body=body)
            self.assertEqual(answer.status, wanted)
            spans = self.spans(trace, 6)
            shard = self.one(spans, "kintsugi-shard", 2)
            self.assertEqual([(one.kind, one.parent, one.fault, str(one.attributes["kintsugi.rows"])) for one in spans if one.name == "store commit"],
                             [(1, shard.id, fault, "2")], "the object, and that its namespace is there")

    def test_OP_503_OP_T501_a_merged_list_has_a_span_for_each_shard(self):
        answer, trace = self.ask("/clusters/*" + "/api/v1/configmaps")
        self.assertEqual(answer.status, 200)
        spans = self.spans(trace, 9)
        proxy = self.one(spans, "kintsugi-proxy", 2)
        sent = {one.attributes["kintsugi.shard"]: one for one in spans if one.kind == 3 and one.service == "kintsugi-proxy"}
        self.assertEqual(set(sent), {"root", "shard-1"})
        for name, one in sent.items():
            self.assertEqual(one.parent, proxy.id)
            self.assertEqual(self.one(spans, "kintsugi-shard", 2, name).parent, one.id)

    def test_OP_503_a_watch_ends_with_its_head(self):
        client = installation.client("/clusters/root")
        watch = client.watch(PEOPLE)
        trace = secrets.token_hex(16)
        connection = client.connect()
        connection.request("GET", "/clusters/root" + PEOPLE + "?watch=1", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
        self.assertEqual(connection.getresponse().status, 200)
        spans = self.spans(trace, 5)
        self.assertEqual({one.name for one in spans if one.kind != 1}, {"watch configmaps", "forward"})
        connection.close()
        del watch

    def test_OP_502_whose_flag_counts(self):
        user = installation.user_client("ada", path="")
        answer, trace = self.ask("/clusters/root" + PEOPLE, client=user)
        self.assertEqual(answer.status, 403)
        _, other = self.ask("/clusters/root" + PEOPLE, flag="00")
        _, malformed = self.ask("/clusters/root" + PEOPLE, flag="0g")
        _, last = self.ask("/clusters/root" + PEOPLE)  # was sent later
        self.spans(last, 3)
        for not_recorded in (trace, other, malformed):
            self.assertEqual(receiver.spans(not_recorded), [])

    def test_OP_503_a_failure_says_so(self):
        answer, trace = self.ask("/clusters/root/api/v1/made-up")
        self.assertEqual(answer.status, 404)
        spans = self.spans(trace, 5)
        self.assertEqual({one.name for one in spans if one.kind != 1}, {"HTTP resource", "forward"})
        self.assertNotIn("made-up", json.dumps([one.name for one in spans]))

    def test_OP_306_the_access_log_has_the_trace(self):
        with kit.Proxy(installation, {"access_log": {"file": "access.log", "sample": 1}, "tracing": {
                "endpoint": receiver.endpoint, "sampling_per_million": 1000000}}) as proxy:  # fmt: skip
            proxy.client("/clusters/root").must("GET", PEOPLE)
            line = kit.eventually(lambda: next((json.loads(line) for line in (proxy.dir / "access.log").read_text().splitlines()
                                                if "configmaps" in line), None), 20, "a line")  # fmt: skip
            spans = self.spans(line["trace"], 5)
            self.assertEqual(self.one(spans, "kintsugi-proxy", 2).parent, "")  # nobody else's
            # The same decision at the shard, whose own share is none: the administrator's flag is passed on.
            self.assertEqual(self.one(spans, "kintsugi-shard", 2).trace, line["trace"])

    def test_OP_504_a_collector_that_hangs_or_is_away_slows_nothing(self):
        for endpoint in (f"http://127.0.0.1:{kit.free_port()}", receiver.endpoint):
            with kit.Proxy(installation, {"tracing": {"endpoint": endpoint, "sampling_per_million": 1000000}}) as proxy:
                client = proxy.client("/clusters/root")
                if endpoint == receiver.endpoint:
                    receiver.process.send_signal(19)  # STOP
                try:
                    begun = time.monotonic()
                    for _ in range(300):
                        self.assertEqual(client.get(PEOPLE).status, 200)
                    self.assertLess(time.monotonic() - begun, 60)
                    if endpoint != receiver.endpoint:  # five times, with pauses of 1, 2, 4 and 8 s
                        kit.eventually(lambda proxy=proxy: proxy.metrics("kintsugi_otlp_spans_total", result="failed"), 60, "lost ones")
                        self.assertIn("spans are lost", proxy.text())
                finally:
                    receiver.process.send_signal(18)  # CONT

    def test_OP_501_what_is_no_endpoint(self):
        run = subprocess.run([str(kit.BINARY), "shard", "--join", str(installation.state), "--name", "x", "--tracing-endpoint=collector:4318"],
                             capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 2)
        self.assertIn("--tracing-endpoint: ", run.stderr)


class WorkersTraces(unittest.TestCase):
    def test_OP_503_OP_T501_a_reconcile_and_its_requests_are_one_trace(self):
        """All traces are recorded: of the worker's own, the proxy and the shard have a part."""
        with workers_test.Installed("--tracing-endpoint", receiver.endpoint, "--tracing-sampling-per-million", "1000000") as up:
            client = up.consumer("root")
            up.greet(client, "traced")

            def whole():
                for reconcile in (one for one in receiver.spans() if one.name.startswith("reconcile ") and one.attributes.get("kintsugi.object") == "traced"):
                    of_it = receiver.spans(reconcile.trace)
                    sent = [one for one in of_it if one.service == "kintsugi-worker" and one.parent == reconcile.id and one.kind == 3]
                    proxy = [one for one in of_it if one.service == "kintsugi-proxy" and one.kind == 2 and one.parent in {each.id for each in sent}]
                    on = [one for one in of_it if one.service == "kintsugi-proxy" and one.kind == 3 and one.parent in {each.id for each in proxy}]
                    shard = [one for one in of_it if one.service == "kintsugi-shard" and one.kind == 2 and one.parent in {each.id for each in on}]
                    if shard:
                        return reconcile, shard
                return None

            reconcile, shard = kit.eventually(whole, 30, "a trace from the worker to the shard")
            self.assertEqual((reconcile.service, reconcile.kind, reconcile.parent, reconcile.fault), ("kintsugi-worker", 5, "", ""))
            self.assertIn(shard[0].name.split()[0], ("update", "patch", "get", "create"))


if __name__ == "__main__":
    unittest.main()
