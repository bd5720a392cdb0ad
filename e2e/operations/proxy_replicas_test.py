"""Two proxies that share one store on etcd: what one stores, mints and gives out holds at the other; one acts by itself, the other one
takes that over; etcd goes away (GR-201 to GR-214)."""
import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import unittest
import urllib.request

import etcds
import informers
import kit

MAPS = "/api/v1/namespaces/default/configmaps"
ALL_MAPS = "/clusters/*/api/v1/configmaps"
PARTITIONS = "/apis/topology.kcp.io/v1alpha1/partitions"
SETS = "/apis/topology.kcp.io/v1alpha1/partitionsets"
SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
MERGE = {"Content-Type": "application/merge-patch+json"}


def partition(name, region="eu-west-1"):
    return {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"region": region}}}}


def leads(log):
    """Whether what was said last of the duty is that the proxy has it."""
    words = re.findall(r"proxy leads|proxy does not lead|listening", log.read_text(errors="replace"))
    return bool(words) and words[-1] == "proxy leads"


def times(log, words):
    return log.read_text(errors="replace").count(words)


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class ProxyReplicas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = kit.Installation("--store", "etcd", "--proxies", "2", shards=3).start_for(cls)
        cls.port = int((cls.up.state / "proxy-2" / "port").read_text())
        cls.up.make_workspace("beta", selector={"name": "shard-1"})

    def client(self, index, path="/clusters/root"):
        port = self.up.port if index == 0 else self.port
        return kit.Client(f"https://127.0.0.1:{port}{path}", self.up.pki / "serving-ca.crt", self.up.pki / "admin.crt",
                          self.up.pki / "admin.key")

    def both(self, path="/clusters/root"):
        one, other = self.client(0, path), self.client(1, path)
        return ((one, other), (other, one))

    def log(self, index):
        return self.up.state / "logs" / f"{self.name(index)}.log"

    @staticmethod
    def name(index):
        return "proxy" if index == 0 else "proxy-2"

    def holder(self):
        """Of the duty to write statuses, once one has it and the other not."""

        def found():
            held = [leads(self.log(0)), leads(self.log(1))]
            return held.count(True) == 1 and [held.index(True)]

        return kit.eventually(found, 30, "one proxy leads")[0]

    def all_ready(self):
        for index in (0, 1):
            kit.eventually(lambda index=index: self.client(index, "").get("/readyz").status == 200, 40, f"proxy {index} is ready")

    # own kinds

    def test_GR_201_what_is_stored_at_one_is_read_at_the_other(self):
        for number, (writer, reader) in enumerate(self.both()):
            for turn in range(20):
                name = f"read-{number}-{turn}"
                made = writer.must("POST", PARTITIONS, partition(name))
                self.assertEqual(reader.must("GET", f"{PARTITIONS}/{name}")["metadata"], made["metadata"])
                made["spec"]["selector"]["matchLabels"]["region"] = "us-east-1"
                changed = reader.must("PUT", f"{PARTITIONS}/{name}", made)
                self.assertEqual(writer.must("GET", f"{PARTITIONS}/{name}")["metadata"]["resourceVersion"],
                                 changed["metadata"]["resourceVersion"])
                writer.must("DELETE", f"{PARTITIONS}/{name}")
                self.assertEqual(reader.get(f"{PARTITIONS}/{name}").status, 404)

    def test_GR_201_a_watch_of_one_tells_what_is_stored_at_the_other(self):
        for number, (writer, reader) in enumerate(self.both()):
            at = reader.must("GET", PARTITIONS)["metadata"]["resourceVersion"]
            times = {}

            def follow(reader=reader, at=at, times=times):
                for event in reader.watch(f"{PARTITIONS}?watch=1&resourceVersion={at}"):
                    if event["type"] == "ADDED":
                        times[event["object"]["metadata"]["name"]] = time.monotonic()
                    if len(times) == 50:
                        return

            thread = threading.Thread(target=follow, daemon=True)
            thread.start()
            lags = []
            for turn in range(50):
                name = f"told-{number}-{turn}"
                writer.must("POST", PARTITIONS, partition(name))
                done = time.monotonic()
                kit.eventually(lambda name=name, times=times: name in times, 20, name)
                lags.append(times[name] - done)
            thread.join(20)
            lags.sort()
            print(f"stored at one, seen by the other's watch: p50 {lags[25] * 1e3:.1f} ms, p98 {lags[48] * 1e3:.1f} ms after the answer")
            for turn in range(50):
                writer.must("DELETE", f"{PARTITIONS}/told-{number}-{turn}")

    # cursors, tokens, tickets

    def test_GR_201_a_cursor_of_one_goes_on_at_the_other(self):
        for number, (one, other) in enumerate(self.both("")):
            listed = one.must("GET", ALL_MAPS)
            cursor = listed["metadata"]["resourceVersion"]
            for turn in range(5):
                for cluster in ("root", "root:beta"):
                    one.must("POST", f"/clusters/{cluster}{MAPS}", {"metadata": {"name": f"cursor-{number}-{turn}"}})
            expected = sorted(f"cursor-{number}-{turn}" for turn in range(5) for _ in range(2))
            seen = []
            for event in other.watch(f"{ALL_MAPS}?watch=1&resourceVersion={cursor}"):
                self.assertEqual(event["type"], "ADDED", event)
                seen.append(event["object"]["metadata"]["name"])
                if len(seen) == len(expected):
                    break
            self.assertEqual(sorted(seen), expected)
            # What the other one knows now is not too large for the first.
            newer = other.must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
            self.assertEqual(one.get(f"{ALL_MAPS}?resourceVersion={newer}&resourceVersionMatch=NotOlderThan").status, 200)

    def test_GR_201_a_continue_token_of_one_goes_on_at_the_other(self):
        for path, make in ((ALL_MAPS, None), (f"/clusters/root{PARTITIONS}", partition)):
            for number, (one, other) in enumerate(self.both("")):
                if make:
                    for turn in range(3):
                        one.must("POST", path, make(f"page-{number}-{turn}"))
                first = one.must("GET", f"{path}?limit=1")
                rest = other.must("GET", f"{path}?limit=500&continue={first['metadata']['continue']}")
                names = [item["metadata"]["uid"] for item in first["items"] + rest["items"]]
                self.assertEqual(names, [item["metadata"]["uid"] for item in one.must("GET", path)["items"]])

    def test_GR_201_a_session_of_one_is_resumed_at_the_other(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.up.pki / "serving-ca.crt")
        context.load_cert_chain(self.up.pki / "admin.crt", self.up.pki / "admin.key")
        session, reused = None, []
        for port in (self.up.port, self.port, self.up.port):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as plain:
                with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as tls:
                    tls.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    while tls.recv(65536):
                        pass
                    session = tls.session
                    reused.append(tls.session_reused)
        self.assertEqual(reused, [False, True, True])

    def test_GR_210_a_new_key_of_tokens(self):
        base = [client for client, _ in self.both("")]
        tokens = [client.must("GET", f"{ALL_MAPS}?limit=1")["metadata"]["continue"] for client in base]
        command = [str(kit.BINARY), "keys", "rotate", "--admin", str(self.up.state / "run" / "admin-proxy-2.sock")]
        first = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(first.returncode, 0, first.stderr)
        again = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn("a new key is on its way already", again.stderr)
        tokens += [client.must("GET", f"{ALL_MAPS}?limit=1")["metadata"]["continue"] for client in base]
        for client in base:
            for token in tokens:
                self.assertEqual(client.get(f"{ALL_MAPS}?limit=1&continue={token}").status, 200)

    # who acts

    def regions_of(self, client):
        """What the set has made of the shards' labels: the regions of its Partitions."""
        return sorted(item["spec"]["selector"]["matchLabels"]["storm"] for item in client.must("GET", PARTITIONS)["items"]
                      if any(owner["name"] == "storm" for owner in item["metadata"].get("ownerReferences", [])))

    def relabel(self, client, shard, region):
        answer = client.request("PATCH", f"{SHARDS}/{shard}", {"metadata": {"labels": {"storm": region}}}, headers=MERGE)
        return answer.status == 200

    def everything(self, client):
        """Versions of what is stored here."""
        out = []
        for path in (PARTITIONS, SETS, "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"):
            out += [(item["metadata"]["uid"], item["metadata"]["resourceVersion"])
                    for item in client.must("GET", f"/clusters/*{path}")["items"]]
        return sorted(out)

    def storm(self, client, turn):
        """Relabels all shards, several times. The regions that they have then."""
        for number in range(6):
            for shard in ("root", "shard-1", "shard-2"):
                kit.eventually(lambda shard=shard, number=number: self.relabel(client, shard, f"s{turn}-{number % 2}-{shard}"), 30)
        return [f"s{turn}-1-{shard}" for shard in ("root", "shard-1", "shard-2")]

    def test_GR_206_the_one_that_writes_is_killed_or_stopped_in_a_storm(self):
        root = self.client(0)
        if root.get(f"{SETS}/storm").status == 404:
            root.must("POST", SETS, {"apiVersion": "topology.kcp.io/v1alpha1", "kind": "PartitionSet", "metadata": {"name": "storm"},
                                     "spec": {"dimensions": ["storm"]}})
        for turn, fault in enumerate((signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP)):
            holder = self.holder()
            other = self.client(1 - holder)
            pid = self.up.pid(self.name(holder))
            self.storm(other, 2 * turn)
            os.kill(pid, fault)
            begin = time.monotonic()
            try:
                expected = self.storm(other, 2 * turn + 1)
                kit.eventually(lambda expected=expected, other=other: self.regions_of(other) == expected, 30, f"Partitions of {expected}")
                took = time.monotonic() - begin
                print(f"{signal.Signals(fault).name}: right again {took:.2f} s after it")
                if fault == signal.SIGSTOP:
                    kit.eventually(lambda holder=holder: leads(self.log(1 - holder)), 30, "the other one leads")
                    seen = kit.rests(lambda: self.everything(self.client(1 - holder, "")), 1)
                    lost = times(self.log(holder), "proxy does not lead")
                    os.kill(pid, signal.SIGCONT)
                    # On a busy machine the duty may come back to it after that.
                    kit.eventually(lambda holder=holder, lost=lost: times(self.log(holder), "proxy does not lead") > lost, 30, "the stopped one knows")
                    self.assertEqual(kit.stays(lambda: self.everything(self.client(1 - holder, "")), 2), seen)
                else:
                    self.holder()  # the other one, or the killed one, which `up` has started again, where that was faster
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            self.all_ready()

    def test_GR_209_a_takeover_writes_nothing(self):
        holder = self.holder()
        client = self.client(1 - holder, "")
        seen = kit.rests(lambda: self.everything(client), 1)
        led = times(self.log(1 - holder), "proxy leads")
        self.up.kill(self.name(holder), signal.SIGTERM)
        kit.eventually(lambda: times(self.log(1 - holder), "proxy leads") > led, 20, "the other one leads")
        self.assertEqual(kit.stays(lambda: self.everything(client), 2), seen)
        self.all_ready()

    # who is left

    def test_GR_201_merged_watches_go_on_at_the_other_when_one_is_killed(self):
        count = 60
        cursor = self.client(0, "").must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        followers = [informers.Follower((self.client(0, ""), self.client(1, "")), cursor, ALL_MAPS) for _ in range(count)]
        try:
            writer, made = self.client(1), []

            def write(name):
                writer.must("POST", MAPS, {"metadata": {"name": name}})
                made.append(("ADDED", name))

            def all_have(who=followers):
                return all(set(made) <= set(one.names) for one in who)

            for turn in range(5):
                write(f"before-{turn}")
            kit.eventually(all_have, 30, "all watches have what was written")
            # So that each has a cursor behind these.
            marks = [one.bookmarks for one in followers]
            kit.eventually(lambda: all(one.bookmarks > mark for one, mark in zip(followers, marks)), 120, "bookmarks")
            self.up.kill("proxy", signal.SIGKILL)
            begin = time.monotonic()
            for turn in range(5):
                write(f"after-{turn}")
            kit.eventually(all_have, 60, "all watches go on")
            print(f"{count} merged watches had all events of the other proxy {time.monotonic() - begin:.2f} s after the kill")
            self.assertEqual([one.faults for one in followers if one.faults], [])
            self.assertTrue(all(one.resumes for one in followers))
            self.assertFalse(any(kind != "ADDED" and name.startswith(("before", "after")) for one in followers for kind, name in one.names))
        finally:
            for one in followers:
                one.done.set()
            writer.request("POST", MAPS, {"metadata": {"name": "the-end"}})
        self.all_ready()

    # without etcd

    def test_GR_204_etcd_is_away(self):
        self.all_ready()
        one, other = self.client(0), self.client(1)
        one.must("POST", PARTITIONS, partition("away"))
        merged = self.client(0, "").must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        watch = kit.Watch(other, f"{PARTITIONS}?watch=1&resourceVersion=0")
        kit.eventually(lambda: watch.events, 20)
        self.assertEqual(one.must("GET", f"{PARTITIONS}/away")["metadata"]["name"], "away")
        # Shards have their objects in the same etcd: what they answer without it is theirs to say.
        number = self.up.pid("etcd")
        os.kill(number, signal.SIGSTOP)
        try:
            for client in (self.client(0, ""), self.client(1, "")):
                ready = kit.eventually(lambda client=client: "[!]store" in client.get("/readyz").body.decode() and client.get("/readyz"), 60)
                self.assertEqual(ready.status, 200, ready)
                self.assertEqual(client.get("/readyz?strict").status, 500)
            self.assertEqual(one.get(f"{PARTITIONS}/away?resourceVersion=0").status, 200)
            self.assertEqual(one.get(f"{PARTITIONS}?resourceVersion=0").status, 200)
            self.assertEqual(one.get(f"{MAPS}?resourceVersion=0").status, 200, "forwarded")
            refused = other.get(f"{PARTITIONS}/away")
            self.assertEqual(refused.status, 503, refused)
            self.assertTrue(refused.headers["Retry-After"])
            written = other.request("POST", PARTITIONS, partition("not-now"), timeout=60)
            self.assertIn(written.status, (503, 504), written)
            self.assertTrue(written.headers["Retry-After"])
            self.assertIsNone(watch.ended_at)
            resumed = self.client(1, "").request("GET", f"{ALL_MAPS}?resourceVersion={merged}&resourceVersionMatch=NotOlderThan&limit=1")
            self.assertEqual(resumed.status, 200, resumed)
        finally:
            os.kill(number, signal.SIGCONT)
        kit.eventually(lambda: one.request("POST", PARTITIONS, partition("again")).status == 201, 40, "writes again")
        kit.eventually(lambda: any(event["object"]["metadata"]["name"] == "again" for event in watch.events), 20, "the watch went on")
        kit.eventually(lambda: self.client(0, "").get("/readyz?strict").status == 200, 40, "all is well")

    # usage

    def test_GR_214_kubectl_by_context(self):
        for context in ("base", "base-2"):
            text = self.up.kubectl("get", "--raw", "/clusters/root/api/v1/namespaces/default", context=context)
            self.assertIn('"name":"default"', text)

    def test_GR_214_wrong_usage(self):
        for arguments, text in ((["--proxies", "2"], "--proxies: several share one store: add --store etcd"),
                                (["--proxies", "0"], "--proxies: must be 1 to 8"), (["--proxies", "99"], "--proxies: must be 1 to 8")):
            run = subprocess.run([str(kit.BINARY), "up", "--dir", str(self.up.dir / "none"), *arguments], capture_output=True, text=True,
                                 timeout=60, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(text, run.stderr)
        proxy = [str(kit.BINARY), "proxy", "--config", str(self.up.state / "proxy" / "proxy.yaml")]
        for arguments, text in ((["--store", "etcd="], "--store: must be lmdb or etcd=URL,…"),
                                (["--etcd-user", "u"], "--etcd-user, --etcd-password-file: for --store etcd=… only"),
                                (["--store", "etcd=http://192.0.2.1:2379"], "is on another machine: say https"),
                                (["--store", "lmdb"], "the data of this proxy is in etcd")):
            run = subprocess.run([*proxy, "--allow-root", *arguments], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 1, run.stderr)
            self.assertIn(text, run.stderr)


class OverAnEtcdOfTheirOwn:
    """The shards have their objects elsewhere: what goes on without etcd is what the proxies have in their hands."""

    @classmethod
    def setUpClass(cls):
        cls.up = kit.Installation(shards=2).start_for(cls)
        cls.etcd = etcds.Member()
        cls.addClassCleanup(cls.etcd.end)
        seal = cls.up.dir / "seal-key"
        seal.write_text("1 " + "ab" * 32 + "\n")
        change = {"store": {"type": "etcd", "endpoints": f'["{cls.etcd.url}"]', "seal_key_file": seal}, "wildcard": "serve"}
        cls.change = change
        cls.proxies = [kit.Proxy(cls.up, change=change) for _ in range(2)]
        for proxy in cls.proxies:
            proxy.__enter__()
            cls.addClassCleanup(proxy.__exit__)


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class ProxiesWithoutEtcd(OverAnEtcdOfTheirOwn, unittest.TestCase):
    def test_GR_204_what_goes_on_without_etcd(self):
        one, other = (proxy.client() for proxy in self.proxies)
        one_base, other_base = (proxy.client("") for proxy in self.proxies)
        one.must("POST", PARTITIONS, partition("kept"))
        page = one_base.must("GET", f"{ALL_MAPS}?limit=1")
        cursor = one_base.must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        merged = informers.Follower((other_base,), cursor, ALL_MAPS)
        own = kit.Watch(other, f"{PARTITIONS}?watch=1&resourceVersion=0")
        kit.eventually(lambda: own.events, 20, "the watch of Partitions")
        self.etcd.kill()
        try:
            # Forwarded, merged, resumed: nothing of it needs the store.
            one.must("POST", MAPS, {"metadata": {"name": "meanwhile"}})
            kit.eventually(lambda: ("ADDED", "meanwhile") in merged.names, 20, "the merged watch goes on")
            self.assertEqual(merged.resumes, [])
            self.assertIn("meanwhile", [item["metadata"]["name"] for item in other_base.must("GET", ALL_MAPS)["items"]])
            rest = other_base.must("GET", f"{ALL_MAPS}?limit=500&continue={page['metadata']['continue']}")
            self.assertNotIn("meanwhile", [item["metadata"]["name"] for item in rest["items"]])
            resumed = next(other_base.watch(f"{ALL_MAPS}?watch=1&resourceVersion={cursor}"))
            self.assertEqual(resumed["object"]["metadata"]["name"], "meanwhile")
            # What is stored is shown to whoever says how old it may be; discovery too.
            self.assertEqual(one.get(f"{PARTITIONS}/kept?resourceVersion=0").status, 200)
            self.assertEqual(one.get("/apis/topology.kcp.io/v1alpha1").status, 200)
            begin = time.monotonic()
            read, write = other.get(f"{PARTITIONS}/kept"), other.request("POST", PARTITIONS, partition("not-now"), timeout=60)
            # A write that was on its way may have happened: 504. With 503 it has not, see below.
            for answer, statuses in ((read, (503,)), (write, (503, 504))):
                self.assertIn(answer.status, statuses, answer)
                self.assertTrue(answer.headers["Retry-After"])
                self.assertEqual(answer.json["kind"], "Status")
            print(f"refused after {time.monotonic() - begin:.1f} s")
            for client in (one_base, other_base):
                kit.eventually(lambda client=client: "[!]store" in client.get("/readyz").body.decode(), 60, "/readyz tells")
                self.assertEqual(client.get("/readyz").status, 200)
                self.assertEqual(client.get("/readyz?strict").status, 500)
            self.assertIsNone(own.ended_at)
        finally:
            merged.done.set()
            self.etcd.start()
        kit.eventually(lambda: one.request("POST", PARTITIONS, partition("again")).status == 201, 40, "writes again")
        kit.eventually(lambda: any(event["object"]["metadata"]["name"] == "again" for event in own.events), 20, "the watch went on")
        if write.status == 503:
            self.assertEqual(one.get(f"{PARTITIONS}/not-now").status, 404)
        for client in (one_base, other_base):
            kit.eventually(lambda client=client: client.get("/readyz?strict").body == b"ok", 40, "all is well")

    def test_GR_203_what_etcd_has_of_keys_is_sealed(self):
        query = {"key": base64.b64encode(b"/kintsugi/proxy/").decode(), "range_end": base64.b64encode(b"/kintsugi/proxy0").decode()}
        request = urllib.request.Request(f"{self.etcd.url}/v3/kv/range", json.dumps(query).encode(), {"Content-Type": "application/json"})

        def rows():
            with urllib.request.urlopen(request, timeout=10) as answer:
                return {base64.b64decode(row["key"]): base64.b64decode(row.get("value", "")) for row in json.load(answer)["kvs"]}

        kept = kit.eventually(lambda: [value for key, value in rows().items() if b"token-key" in key], 20, "keys in etcd")
        self.assertTrue(all(value.startswith(b"sealed:") for value in kept), kept)

    def start_without_etcd(self, change=()):
        """One more proxy, of which all that needs no store is served."""
        proxy = kit.Proxy(self.up, change={**self.change, **dict(change)})
        with proxy.log.open("ab") as log:
            proxy.process = subprocess.Popen([str(kit.BINARY), "proxy", "--config", str(proxy.dir / "proxy.yaml")],
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(proxy.__exit__)
        kit.eventually(lambda: proxy.client().get("/api/v1/namespaces/default").status == 200, 40, "it forwards")
        return proxy

    def check_without_etcd(self, proxy):
        base, root = proxy.client(""), proxy.client()
        ready = base.get("/readyz?verbose")
        self.assertEqual(ready.status, 500, ready)
        self.assertIn("etcd has not answered yet", ready.body.decode())
        self.assertEqual(base.get("/livez").status, 200)
        for path in (ALL_MAPS, f"/clusters/root{PARTITIONS}", f"/clusters/root{PARTITIONS}?resourceVersion=0", f"/clusters/root{PARTITIONS}/kept",
                     f"/clusters/root{PARTITIONS}?watch=1", f"{ALL_MAPS}?watch=1"):
            refused = base.get(path)
            self.assertEqual((path, refused.status, refused.json["kind"]), (path, 503, "Status"))
            self.assertTrue(refused.headers["Retry-After"], path)
        refused = root.request("POST", PARTITIONS, partition("not-now"))
        self.assertEqual(refused.status, 503, refused)
        self.assertTrue(refused.headers["Retry-After"])

    def check_with_etcd(self, proxy, watch, name):
        """The store is there now: what is served goes on, and the rest begins."""
        kit.eventually(lambda: proxy.client("").get("/readyz").status == 200, 60, "it is ready")
        root, other = proxy.client(), self.proxies[0]
        root.must("POST", MAPS, {"metadata": {"name": name}})
        kit.eventually(lambda: any(event["object"]["metadata"]["name"] == name for event in watch.events), 20, "the watch of before goes on")
        self.assertIsNone(watch.ended_at)
        self.assertIn(name, [item["metadata"]["name"] for item in proxy.client("").must("GET", ALL_MAPS)["items"]])
        at = other.client().must("GET", PARTITIONS)["metadata"]["resourceVersion"]
        own = kit.Watch(root, f"{PARTITIONS}?watch=1&resourceVersion={at}")
        other.client().must("POST", PARTITIONS, partition(name))
        self.assertEqual(root.must("GET", f"{PARTITIONS}/{name}")["metadata"]["name"], name)
        kit.eventually(lambda: [event["object"]["metadata"]["name"] for event in own.events] == [name], 20, "events of what another one stores")
        cursor = other.client("").must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        root.must("POST", MAPS, {"metadata": {"name": f"{name}-more"}})
        event = next(proxy.client("").watch(f"{ALL_MAPS}?watch=1&resourceVersion={cursor}"))
        self.assertEqual(event["object"]["metadata"]["name"], f"{name}-more")
        kit.eventually(lambda: proxy.metric("kintsugi_slot_generation") == other.metric("kintsugi_slot_generation"), 20, "one generation")

    def open_watch(self, proxy):
        at = proxy.client().must("GET", MAPS)["metadata"]["resourceVersion"]
        return kit.Watch(proxy.client(), f"{MAPS}?watch=1&resourceVersion={at}")

    def test_GR_205_a_proxy_starts_while_no_etcd_runs(self):
        self.etcd.kill()
        try:
            proxy = self.start_without_etcd()
            self.check_without_etcd(proxy)
            watch = self.open_watch(proxy)
        finally:
            self.etcd.start()
        self.check_with_etcd(proxy, watch, "late-killed")

    def test_GR_205_a_proxy_starts_while_etcd_is_stopped(self):
        os.kill(self.etcd.process.pid, signal.SIGSTOP)
        try:
            proxy = self.start_without_etcd()
            self.check_without_etcd(proxy)
            watch = self.open_watch(proxy)
        finally:
            os.kill(self.etcd.process.pid, signal.SIGCONT)
        self.check_with_etcd(proxy, watch, "late-stopped")

    def test_GR_205_a_proxy_that_never_saw_etcd_ends_in_order(self):
        self.etcd.kill()
        try:
            proxy = self.start_without_etcd()
            proxy.process.terminate()
            self.assertEqual(proxy.process.wait(60), 0, proxy.text())
        finally:
            self.etcd.start()

    def test_GR_205_what_cannot_become_right_ends_it_late_too(self):
        row = {"key": base64.b64encode(b"/later/meta").decode(), "value": base64.b64encode(b'{"format": 99}').decode()}
        request = urllib.request.Request(f"{self.etcd.url}/v3/kv/put", json.dumps(row).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10):
            pass
        self.etcd.kill()
        try:
            proxy = self.start_without_etcd({"store": {**self.change["store"], "prefix": "/later"}})
        finally:
            self.etcd.start()
        self.assertEqual(proxy.process.wait(60), 1, proxy.text())
        self.assertIn("kintsugi proxy: store: ", proxy.text())


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class AShardJoins(OverAnEtcdOfTheirOwn, unittest.TestCase):
    def test_GR_202_a_shard_joins_while_etcd_is_away(self):
        clients = [proxy.client("") for proxy in self.proxies]
        cursor = clients[0].must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        generations = [proxy.metric("kintsugi_slot_generation") for proxy in self.proxies]
        self.etcd.kill()
        log = (self.up.state / "logs" / "late.log").open("ab")
        self.addCleanup(log.close)
        shard = subprocess.Popen([str(kit.BINARY), "shard", "--join", str(self.up.state), "--name", "late", "--allow-root"],
                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(shard.wait)
        self.addCleanup(shard.kill)
        try:
            kit.eventually(lambda: self.up.client().get(f"{SHARDS}/late").status == 200, 30, "the shard has joined")
            kit.eventually(lambda: self.up.make_workspace("on-late", selector={"name": "late"}), 30)
            for proxy in self.proxies:  # it is routed to
                kit.eventually(lambda proxy=proxy: proxy.client("/clusters/root:on-late").get("/api/v1/namespaces/default").status == 200, 20)
            # The place of the new shard cannot be stored: nobody mints what nobody could read.
            self.assertEqual([proxy.metric("kintsugi_slot_generation") for proxy in self.proxies], generations)
        finally:
            self.etcd.start()
        for client in clients:
            found = kit.eventually(lambda client=client: [item for item in client.must("GET", ALL_MAPS)["items"]
                                                          if item["metadata"]["name"] == "kube-root-ca.crt"], 40, "merged")
            self.assertTrue(found)
            kit.eventually(lambda client=client: client.get(f"{ALL_MAPS}?resourceVersion={cursor}&resourceVersionMatch=NotOlderThan").status == 200, 20)
        kit.eventually(lambda: len({proxy.metric("kintsugi_slot_generation") for proxy in self.proxies}) == 1
                       and self.proxies[0].metric("kintsugi_slot_generation") > generations[0], 20, "one generation for both")


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class OwnShards(unittest.TestCase):
    def test_GR_201_the_shards_of_one_are_those_of_the_other(self):
        """Source `objects`: Shards are a kind that the proxies store."""
        up = kit.Installation(shards=2).start_for(self)
        etcd = etcds.Member()
        self.addCleanup(etcd.end)
        change = {"store": {"type": "etcd", "endpoints": f'["{etcd.url}"]'}, "wildcard": "serve", "topology": {"source": "objects"}}
        proxies = [kit.Proxy(up, change=change) for _ in range(2)]
        for proxy in proxies:
            del proxy.config["topology"]["root_kubeconfig"]
            proxy.write_config()
            proxy.__enter__()
            self.addCleanup(proxy.__exit__)
        one, other = (proxy.client() for proxy in proxies)
        for name in ("root", "shard-1"):
            one.must("POST", SHARDS, {"apiVersion": "core.kcp.io/v1alpha1", "kind": "Shard", "metadata": {"name": name},
                                      "spec": {"baseURL": up.shard_url(name)}})
        for client in (one, other):
            kit.eventually(lambda client=client: client.get("/api/v1/namespaces/default").status == 200, 30, "root is found")
        there = "/clusters/" + up.make_workspace("there", selector={"name": "shard-1"})["spec"]["cluster"]
        for proxy in proxies:
            kit.eventually(lambda proxy=proxy: proxy.client(there).get("/api/v1/namespaces/default").status == 200, 20, "found by name")

        def is_ready(client):
            shard = client.must("GET", f"{SHARDS}/shard-1")
            return [one["status"] for one in shard.get("status", {}).get("conditions", []) if one["type"] == "Ready"] == ["True"]

        for client in (one, other):
            kit.eventually(lambda client=client: is_ready(client), 30, "conditions")
        cursor = proxies[0].client("").must("GET", ALL_MAPS)["metadata"]["resourceVersion"]
        one.must("POST", MAPS, {"metadata": {"name": "of-own-shards"}})
        event = next(proxies[1].client("").watch(f"{ALL_MAPS}?watch=1&resourceVersion={cursor}"))
        self.assertEqual(event["object"]["metadata"]["name"], "of-own-shards")
        other.must("DELETE", f"{SHARDS}/shard-1")
        for proxy in proxies:
            kit.eventually(lambda proxy=proxy: proxy.client(there).get("/api/v1/namespaces/default").status in (403, 404, 503), 20, "gone")
        kit.eventually(lambda: len({proxy.metric("kintsugi_slot_generation") for proxy in proxies}) == 1, 20, "one generation")
