"""Proxies over one etcd, in front of shards that have their objects in their folders."""
import base64
import json
import shutil
import unittest
import urllib.request

import etcds
import kit


def put(etcd, key, value):
    row = {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value.encode()).decode()}
    request = urllib.request.Request(f"{etcd.url}/v3/kv/put", json.dumps(row).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10):
        pass


def rows(etcd, prefix):
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    query = {"key": base64.b64encode(prefix.encode()).decode(), "range_end": base64.b64encode(end.encode()).decode()}
    request = urllib.request.Request(f"{etcd.url}/v3/kv/range", json.dumps(query).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return {base64.b64decode(row["key"]).decode(): base64.b64decode(row.get("value", "")) for row in json.load(answer).get("kvs", [])}


class Proxies(unittest.TestCase):
    """Shards that have their objects in their folders, and an etcd for proxies."""

    @classmethod
    def setUpClass(cls):
        if not shutil.which("etcd"):
            raise unittest.SkipTest("no etcd on this machine")
        cls.up = kit.Installation(shards=2).start_for(cls)
        cls.etcd = etcds.Member()
        cls.addClassCleanup(cls.etcd.end)

    def proxy(self, prefix="/kintsugi/proxy", flags=(), **listener):
        change = {"store": {"type": "etcd", "endpoints": f'["{self.etcd.url}"]', "prefix": prefix}, "wildcard": "serve",
                  "listener": listener, "shutdown": {"delay_ms": 200, "spread_ms": 500}}
        return kit.Proxy(self.up, change=change, flags=flags)

    def start(self, proxy):
        proxy.__enter__()
        self.addCleanup(proxy.__exit__)
        return proxy

    def replicas(self, prefix="/kintsugi/proxy"):
        """What the proxies say of themselves."""
        found = rows(self.etcd, f"{prefix}/x/kintsugi.replicas%2F").values()
        return sorted((json.loads(value[:-20]) for value in found), key=lambda one: one["address"])
