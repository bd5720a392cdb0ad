"""What a running proxy tells of itself, family by family: names and labels (FP-167), and what some of them count (FP-083, FP-140)."""
import json
import re
import subprocess
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
ROWS = {
    "proxy_request_duration_seconds_bucket": {"method", "code", "le"}, "kcp_backend_rq_body_bytes": {"shard"}, "kcp_backend_rs_body_bytes": {"shard"},
    "kcp_listener_tls_connection_error": {"shard", "error_type"}, "kcp_indexed_logicalclusters": {"shard"}, "kintsugi_shard_up": {"shard"},
    "kintsugi_shard_connections": {"shard", "kind"}, "kintsugi_shard_upstream_streams": {"shard", "kind"},
    "kintsugi_shard_queue_length": {"shard", "kind"}, "kintsugi_requests_total": {"shard", "verb", "code"}, "kintsugi_streams": {"shard", "kind"},
    "kintsugi_stream_bytes_total": {"shard", "direction"}, "kintsugi_index_synced": {"shard", "resource"}, "kintsugi_index_lag_seconds": {"shard"},
    "kintsugi_index_objects": {"shard", "resource"}, "kintsugi_lookups_total": {"result"}, "kintsugi_retries_total": {"shard", "reason"},
    "kintsugi_forward_failures_total": {"shard", "reason"}, "kintsugi_limited_total": {"limit"}, "kintsugi_reloads_total": {"file", "result"},
    "kintsugi_identity_headers_stripped_total": set(), "kintsugi_audit_dropped_total": set(), "kintsugi_draining": set(),
    "process_cpu_seconds_total": set(), "process_resident_memory_bytes": set()}
GONE = ("kintsugi_forwarded_requests_total", "kintsugi_forwarded_responses_total")


class Rows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.installation.make_workspace("far", selector={"name": "shard-1"})

    @staticmethod
    def text(proxy):
        return subprocess.run(["curl", "-sS", "--unix-socket", str(proxy.dir / "admin.sock"), "http://admin/metrics"], capture_output=True, text=True,
                              timeout=60, check=True).stdout

    def test_FP_167_FP_083_FP_140_families_labels_and_counts(self):
        with kit.Proxy(self.installation) as proxy:
            far, near = proxy.client("/clusters/root:far"), proxy.client()
            kit.eventually(lambda: far.get("/api/v1/namespaces/default").status == 200)
            count = {}
            for verb, code in (("get", 200), ("get", 404), ("create", 201), ("create", 409), ("delete", 200), ("patch", 404)):
                count[verb, code] = proxy.metrics("kintsugi_requests_total", shard="shard-1", verb=verb, code=code)
            up = proxy.metrics("kintsugi_stream_bytes_total", shard="shard-1", direction="request")
            body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "counted"}})
            answers = [far.request(*one).status for one in (
                ("POST", MAPS, json.loads(body)), ("POST", MAPS, json.loads(body)), ("GET", f"{MAPS}/counted"), ("GET", f"{MAPS}/none"),
                ("DELETE", f"{MAPS}/counted"))]
            self.assertEqual(answers, [201, 409, 200, 404, 200])
            watch = kit.Watch(far, MAPS + "?watch=1")
            kit.eventually(lambda: watch.events, what="a watch")
            for (verb, code), more in {("create", 201): 1, ("create", 409): 1, ("get", 200): 1, ("get", 404): 1, ("delete", 200): 1,
                                       ("patch", 404): 0}.items():
                self.assertEqual(proxy.metrics("kintsugi_requests_total", shard="shard-1", verb=verb, code=code) - count[verb, code], more, (verb, code))
            self.assertEqual(proxy.metrics("kintsugi_requests_total", shard="shard-1", verb="watch", code=200), 1, "a watch counts when it is answered")
            self.assertEqual(proxy.metrics("kintsugi_streams", shard="shard-1", kind="watch"), 1)
            self.assertEqual(proxy.metrics("kintsugi_streams", shard="root", kind="watch"), 0)
            self.assertEqual(proxy.metrics("kintsugi_stream_bytes_total", shard="shard-1", direction="request") - up, 2 * len(body))
            self.assertGreaterEqual(proxy.metrics("kintsugi_shard_connections", shard="shard-1", kind="watch"), 1)
            self.assertEqual(proxy.metrics("kintsugi_index_lag_seconds"), 0)
            near.get(MAPS)
            kit.replace_file(proxy.dir / "shards.kubeconfig", (proxy.dir / "shards.kubeconfig").read_bytes() + b"\n")
            kit.eventually(lambda: proxy.metrics("kintsugi_reloads_total", result="ok") >= 1, what="a reload")
            rows = re.findall(r"^(\w+)(?:\{(.*)\})? [0-9.e+-]+$", self.text(proxy), re.MULTILINE)
            found = {}
            for name, labels in rows:
                found.setdefault(name, set()).add(frozenset(re.findall(r"(\w+)=\"", labels)))
            for name, labels in ROWS.items():
                self.assertEqual(found.get(name), {frozenset(labels)}, name)
            for name in GONE:
                self.assertNotIn(name, found)
            for name, labels in rows:
                self.assertNotIn("far", re.findall(r'"(.*?)"', labels), f"{name}: nothing that a client chooses")


if __name__ == "__main__":
    unittest.main()
