"""A shard in two processes over one etcd: both serve, one acts by itself, the other one takes that over (GR-119, GR-301, GR-302)."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
SHARD = "/apis/core.kcp.io/v1alpha1/shards/root"


class Second:
    """Another process of a shard, started as `up` has started the first."""

    def __init__(self, up, shard="root", name="second"):
        self.up = up
        self.folder = up.state / "shards" / shard / "replicas" / name
        self.log = up.state / "logs" / f"{shard}-{name}.log"
        command = pathlib.Path(f"/proc/{up.pid(shard)}/cmdline").read_bytes().decode().split("\0")[:-1]
        self.command = [word for word in command if not word.startswith(("--port", "--log-file"))] + ["--replica", name]
        self.process = None

    def start(self):
        (self.folder / "port").unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        kit.eventually(lambda: self.client().get("/readyz").status == 200, 30, "the second process is ready")
        return self

    def end(self):
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()

    def client(self, path="/clusters/root"):
        text = (self.folder / "admin.kubeconfig").read_text()
        url = re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)
        return kit.Client(url + path, self.up.pki / "serving-ca.crt", self.up.pki / "shard-admin.crt", self.up.pki / "shard-admin.key")


def leads(log):
    """Whether what was said last of the duty is that the process has it."""
    words = re.findall(r"shard (leads|does not lead|listens)", log.read_text(errors="replace"))
    return bool(words) and words[-1] == "leads"


def times(log, words):
    return log.read_text(errors="replace").count(words)


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class ShardReplicas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.up = kit.Installation("--store", "etcd", shards=1).start_for(cls)
        cls.second = Second(cls.up)
        cls.addClassCleanup(cls.second.end)
        cls.second.start()

    def first(self, path="/clusters/root"):
        port = (self.up.state / "shards" / "root" / "port").read_text().strip()
        return kit.Client(f"https://127.0.0.1:{port}{path}", self.up.pki / "serving-ca.crt", self.up.pki / "shard-admin.crt",
                          self.up.pki / "shard-admin.key")

    @property
    def first_log(self):
        return self.up.state / "logs" / "root.log"

    def both(self):
        return ((self.first(), self.second.client()), (self.second.client(), self.first()))

    def roles(self):
        """(client, log, pid) of who leads and of the other one, once there is one of each."""
        one = (self.first, self.first_log, lambda: self.up.pid("root"))
        two = (self.second.client, self.second.log, lambda: self.second.process.pid)

        def found():
            first_leads, second_leads = leads(self.first_log), leads(self.second.log)
            return first_leads != second_leads and ((one, two) if first_leads else (two, one))

        return kit.eventually(found, 30, "one of the two leads")

    def led(self):
        """How often one of the two has begun to lead."""
        return times(self.first_log, "shard leads") + times(self.second.log, "shard leads")

    def bring_back(self, leader):
        """The process that has ended serves again; `up` starts the first one by itself."""
        if leader[1] == self.second.log:
            self.second.end()
            self.second.start()
        kit.eventually(lambda: self.first().get("/readyz").status == 200, 30, "the first process is back")

    def acts(self, client, name):
        """Somebody does for a new namespace what controllers do. Seconds that took, and the namespace's object."""
        begin = time.monotonic()
        made = kit.eventually(lambda: client.must("POST", NAMESPACES, {"metadata": {"name": name}}), 30)
        account = f"{NAMESPACES}/{name}/serviceaccounts/default"
        kit.eventually(lambda: client.get(account).status == 200, 30, f"default account of {name}")
        return time.monotonic() - begin, made

    def test_GR_119_what_is_written_at_one_is_read_at_the_other(self):
        for number, (writer, reader) in enumerate(self.both()):
            for turn in range(50):
                name = f"read-{number}-{turn}"
                made = writer.must("POST", MAPS, {"metadata": {"name": name}, "data": {"a": "0"}})
                self.assertEqual(reader.must("GET", f"{MAPS}/{name}")["metadata"], made["metadata"])
                made["data"]["a"] = "1"
                changed = reader.must("PUT", f"{MAPS}/{name}", made)
                names = [item["metadata"]["name"] for item in writer.must("GET", MAPS)["items"] if item.get("data", {}).get("a") == "1"]
                self.assertIn(name, names)
                # A version of the other one is not too large, and the delete knows what it deletes.
                at = changed["metadata"]["resourceVersion"]
                self.assertEqual(writer.get(f"{MAPS}?resourceVersion={at}&resourceVersionMatch=NotOlderThan").status, 200)
                writer.must("DELETE", f"{MAPS}/{name}")
                self.assertEqual(reader.get(f"{MAPS}/{name}").status, 404)

    def test_GR_301_a_namespace_of_one_is_there_at_the_other(self):
        for number, (writer, other) in enumerate(self.both()):
            for turn in range(10):
                name = f"there-{number}-{turn}"
                writer.must("POST", NAMESPACES, {"metadata": {"name": name}})
                other.must("POST", f"{NAMESPACES}/{name}/configmaps", {"metadata": {"name": "in-it"}})
                writer.must("DELETE", f"{NAMESPACES}/{name}")
                refused = other.request("POST", f"{NAMESPACES}/{name}/configmaps", {"metadata": {"name": "too-late"}})
                self.assertIn(refused.status, (403, 404), refused)

    def test_GR_305_rights_and_kinds_of_one_hold_at_the_other(self):
        ann = kit.make_user(self.up.dir, self.up.pki, "ann-of-both", ())
        bindings, crds = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for number, (writer, other) in enumerate(self.both()):
            as_ann = kit.Client(other.url.geturl(), self.up.pki / "serving-ca.crt", *ann)
            self.assertEqual(as_ann.get(MAPS).status, 403)
            writer.must("POST", bindings, {
                "metadata": {"name": "ann"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann-of-both"}]})
            kit.eventually(lambda c=as_ann: c.get(MAPS).status == 200, 5, "the right is there at the other one")
            writer.must("DELETE", f"{bindings}/ann")
            kit.eventually(lambda c=as_ann: c.get(MAPS).status == 403, 5, "and gone there")
            plural = f"pots{number}"
            writer.must("POST", crds, {"metadata": {"name": f"{plural}.both.io"}, "spec": {
                "group": "both.io", "scope": "Cluster", "names": {"plural": plural, "singular": f"pot{number}", "kind": f"Pot{number}"},
                "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
            kit.eventually(lambda o=other, p=plural: o.get(f"/apis/both.io/v1/{p}").status == 200, 5, "the kind is served by the other one")

    def test_GR_303_a_quota_holds_for_both(self):
        """GR-304, too: who was not the first looks again, and hears of the quota, not of a conflict."""
        space = f"{NAMESPACES}/limited"
        self.first().must("POST", NAMESPACES, {"metadata": {"name": "limited"}})
        kit.eventually(lambda: self.first().get(f"{space}/configmaps/kube-root-ca.crt").status == 200)
        quota = {"metadata": {"name": "ten"}, "spec": {"hard": {"count/secrets": "10"}}}
        self.first().must("POST", f"{space}/resourcequotas", quota)
        for client in (self.first(), self.second.client()):
            kit.eventually(lambda client=client: client.must("GET", f"{space}/resourcequotas/ten")["status"]["used"], 30)
        answers = []

        def create(client, number):
            answers.append(client.request("POST", f"{space}/secrets", {"metadata": {"name": f"s-{number}"}}).status)

        threads = [threading.Thread(target=create, args=(self.first() if number % 2 else self.second.client(), number))
                   for number in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((answers.count(201), answers.count(403)), (10, 40), answers)
        self.assertEqual(len(self.second.client().must("GET", f"{space}/secrets")["items"]), 10)

    def test_GR_301_a_watch_of_one_tells_what_is_written_at_the_other(self):
        for number, (writer, reader) in enumerate(self.both()):
            at = reader.must("GET", MAPS)["metadata"]["resourceVersion"]
            events, times = [], {}

            def follow(reader=reader, at=at, events=events, times=times):
                for event in reader.watch(f"{MAPS}?watch=1&resourceVersion={at}"):
                    times[event["object"]["metadata"]["name"]] = time.monotonic()
                    events.append((event["type"], event["object"]["metadata"]["name"]))
                    if len(events) == 100:
                        return

            thread = threading.Thread(target=follow, daemon=True)
            thread.start()
            lags = []
            for turn in range(100):
                name = f"told-{number}-{turn}"
                writer.must("POST", MAPS, {"metadata": {"name": name}})
                done = time.monotonic()
                kit.eventually(lambda name=name, times=times: name in times, 20, name)
                lags.append(times[name] - done)
            thread.join(20)
            self.assertEqual(events, [("ADDED", f"told-{number}-{turn}") for turn in range(100)])
            lags.sort()
            print(f"seen by the other one's watch after the answer: p50 {lags[50] * 1e3:.1f} ms, p99 {lags[98] * 1e3:.1f} ms")

    def test_GR_301_pages_go_on_at_the_other(self):
        for name in ("a", "b", "c", "d"):
            self.first().request("POST", MAPS, {"metadata": {"name": f"page-{name}"}})
        for one, other in self.both():
            first = one.must("GET", f"{MAPS}?limit=1")
            token = first["metadata"]["continue"]
            rest = other.must("GET", f"{MAPS}?limit=500&continue={token}")
            self.assertEqual(rest["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"])
            whole = one.must("GET", MAPS)
            names = [item["metadata"]["name"] for item in first["items"] + rest["items"]]
            self.assertEqual(names, [item["metadata"]["name"] for item in whole["items"]])

    def test_GR_301_kubectl_at_the_second(self):
        kubeconfig = self.second.folder / "admin.kubeconfig"
        run = subprocess.run([kit.needs_kubectl(), f"--kubeconfig={kubeconfig}", f"--cache-dir={self.up.dir / 'second-cache'}",
                              "get", "namespaces", "-o", "name"], capture_output=True, text=True, timeout=60, check=False,
                             env={**os.environ, "HOME": str(self.up.dir)})
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("namespace/default", run.stdout)

    def test_GR_302_the_one_that_leads_is_killed(self):
        for turn in range(2):
            leader, other = self.roles()
            _, made = self.acts(other[0](), f"before-kill-{turn}")
            led = self.led()
            os.kill(leader[2](), signal.SIGKILL)
            took, _ = self.acts(other[0](), f"after-kill-{turn}")
            print(f"killed: somebody acted again after {took:.2f} s")
            self.assertGreater(self.led(), led)
            self.assertEqual(other[0]().must("GET", f"{NAMESPACES}/before-kill-{turn}")["metadata"]["uid"], made["metadata"]["uid"])
            self.bring_back(leader)

    def test_GR_208_one_that_was_stopped_writes_nothing(self):
        leader, other = self.roles()
        number = leader[2]()
        client = other[0]()
        stop = threading.Event()

        def work():  # so that the leader is stopped in the midst of it
            turn = 0
            while not stop.is_set() and turn < 60:
                turn += 1
                client.request("POST", NAMESPACES, {"metadata": {"name": f"stopped-{turn}"}})

        worker = threading.Thread(target=work)
        worker.start()
        try:
            kit.eventually(lambda: client.get(f"{NAMESPACES}/stopped-10").status == 200, 30)
            os.kill(number, signal.SIGSTOP)
            try:
                stop.set()
                worker.join()
                took, _ = self.acts(client, "after-stop")
                print(f"stopped: somebody acted again after {took:.2f} s")
                kit.eventually(lambda: leads(other[1]), 30, "the other one leads")

                def settled():
                    spaces = {item["metadata"]["name"] for item in client.must("GET", NAMESPACES)["items"]}
                    accounts = client.must("GET", "/api/v1/serviceaccounts")["items"]
                    return spaces <= {item["metadata"]["namespace"] for item in accounts if item["metadata"]["name"] == "default"}

                kit.eventually(settled, 30, "the other one has done all that was left")
                seen = kit.rests(lambda: self.everything(client), 1)
                lost = times(leader[1], "shard does not lead")
            finally:
                os.kill(number, signal.SIGCONT)
            kit.eventually(lambda: times(leader[1], "shard does not lead") > lost, 30, "the stopped one knows")
            self.assertEqual(kit.stays(lambda: self.everything(client), 2), seen)
            self.assertEqual(self.everything(leader[0]()), seen)
        finally:
            stop.set()
            worker.join()

    @staticmethod
    def everything(client):
        """Versions of what controllers write; of the Shard its URLs, since who leads tells there which others answer (GR-301)."""
        out = []
        for path in (NAMESPACES, "/api/v1/serviceaccounts", "/api/v1/configmaps", "/apis/core.kcp.io/v1alpha1/logicalclusters"):
            out += [(path, item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for item in client.must("GET", path)["items"]]
        for shard in client.must("GET", "/apis/core.kcp.io/v1alpha1/shards")["items"]:
            out.append(("shards", shard["metadata"]["uid"], str(sorted(shard["spec"].items()))))
        return sorted(out)

    def test_GR_302_one_that_ends_in_order_is_not_waited_for(self):
        leader, other = self.roles()
        led = times(other[1], "shard leads")
        os.kill(leader[2](), signal.SIGTERM)
        kit.eventually(lambda: times(other[1], "shard leads") > led, 20, "the other one leads")
        took, _ = self.acts(other[0](), "after-end")
        print(f"ended in order: somebody acted again after {took:.2f} s")
        if leader[1] == self.second.log:
            self.second.process.wait(120)  # by itself
        self.bring_back(leader)

    def urls_of_the_shard(self):
        """At which proxies are told to find its processes."""
        return self.urls(self.second.client())

    @staticmethod
    def urls(client):
        shard = client.must("GET", SHARD)
        others = shard["metadata"].get("annotations", {}).get("kintsugi.dev/replica-urls", "")
        return sorted([shard["spec"]["baseURL"], *filter(None, others.split(","))])

    def test_GR_301_reads_by_the_proxy_come_to_both_and_none_fails_when_one_is_killed(self):
        proxy = self.up.client()
        for who in ("leader", "other"):
            leader, other = self.roles()
            victim, left = (leader, other) if who == "leader" else (other, leader)
            both = sorted(one[0]("").url.geturl() for one in (leader, other))
            kit.eventually(lambda both=both: self.urls_of_the_shard() == both, 30, "proxies are told of both")
            for one in (victim, left):
                kit.eventually(lambda one=one: one[0]("").get("/readyz").status == 200, 30, "both are ready")
                self.reads_come_to(proxy, one[0])
            answers, stop = [], threading.Event()
            everywhere = self.up.client("/clusters/*")
            at = everywhere.must("GET", "/api/v1/configmaps?limit=1")["metadata"]["resourceVersion"]
            watch = kit.Watch(everywhere, f"/api/v1/configmaps?watch=1&resourceVersion={at}")

            def read(client, path, answers=answers, stop=stop):
                while not stop.is_set():
                    answers.append(client.get(path).status)

            readers = [threading.Thread(target=read, args=(client, path))
                       for client, path in ((proxy, f"{MAPS}?limit=1"), (proxy, f"{MAPS}/kube-root-ca.crt"),
                                            (everywhere, "/api/v1/configmaps?limit=1"), (everywhere, "/api/v1/namespaces"))]
            for reader in readers:
                reader.start()
            try:
                kit.eventually(lambda answers=answers: len(answers) > 50, 30)
                os.kill(victim[2](), signal.SIGKILL)
                count = len(answers)
                kit.eventually(lambda: times(left[1], "shard leads") > 0 and len(answers) > count + 300, 60, "reads go on")
            finally:
                stop.set()
                for reader in readers:
                    reader.join()
            self.assertEqual(set(answers), {200}, f"{len(answers)} reads")
            name = f"after-{who}"
            kit.eventually(lambda name=name: proxy.must("POST", MAPS, {"metadata": {"name": name}}, expect=(201, 409)), 30)
            kit.eventually(lambda watch=watch, name=name: any(event["object"]["metadata"]["name"] == name for event in watch.events), 30,
                           "a merged watch goes on")
            self.assertIsNone(watch.ended_at)
            self.bring_back(victim)

    def test_GR_301_one_that_has_just_come_back_answers_when_the_other_one_is_killed(self):
        """What proxies read for clients, and what they ask for themselves to answer them: discovery, schemas, reviews."""
        proxy, everywhere = self.up.client(), self.up.client("/clusters/*")
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                  "spec": {"resourceAttributes": {"verb": "get", "resource": "configmaps"}}}
        asked = {"object": lambda: proxy.get(f"{MAPS}/kube-root-ca.crt"), "discovery": lambda: proxy.get("/apis"),
                 "schemas": lambda: proxy.get("/openapi/v3"), "merged list": lambda: everywhere.get("/api/v1/configmaps?limit=1"),
                 "merged discovery": lambda: everywhere.get("/apis"),
                 "review": lambda: proxy.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)}
        for turn in range(3):
            leader, other = self.roles()
            comes_back, goes = (other, leader) if turn % 2 == 0 else (leader, other)
            kit.eventually(lambda a=leader, b=other: self.known_to_the_proxy() == self.urls_of(a, b), 30, "the proxy knows both")
            for one in (leader, other):
                self.reads_come_to(proxy, one[0])
            answers, stop = [], threading.Event()

            def read(what, ask, answers=answers, stop=stop):
                while not stop.is_set():
                    answer = ask()
                    answers.append((what, answer.status, b"" if answer.status in (200, 201) else answer.body))

            readers = [threading.Thread(target=read, args=one) for one in asked.items()]
            for reader in readers:
                reader.start()
            try:
                os.kill(comes_back[2](), signal.SIGKILL)
                self.bring_back(comes_back)
                kit.eventually(lambda a=comes_back, b=goes: self.known_to_the_proxy() == self.urls_of(a, b), 60, "the proxy knows both again")
                os.kill(goes[2](), signal.SIGKILL)
                count = len(answers)
                kit.eventually(lambda count=count, answers=answers: len(answers) > count + 300, 60, "reads go on")
            finally:
                stop.set()
                for reader in readers:
                    reader.join()
            self.bring_back(goes)
            self.assertEqual([one for one in answers if one[1] not in (200, 201)], [], f"turn {turn}, {len(answers)} reads")
            self.assertEqual({what for what, *_ in answers}, set(asked))

    @staticmethod
    def urls_of(*processes):
        return sorted(one[0]("").url.geturl() for one in processes)

    def known_to_the_proxy(self):
        """The URLs of the shard as the proxy has heard of them."""
        answer = subprocess.run(["curl", "-sS", "--unix-socket", str(self.up.state / "run" / "admin.sock"), "http://admin/debug/shards"],
                                capture_output=True, text=True, timeout=30, check=True)
        shard = next(one for one in json.loads(answer.stdout)["shards"] if one["name"] == "root")
        return sorted([shard["baseURL"], *shard.get("replicaURLs", [])])

    def test_GR_301_what_hangs_at_one_that_stands_still_is_answered_by_the_other(self):
        proxy = self.up.client()
        leader, other = self.roles()
        both = sorted(one[0]("").url.geturl() for one in (leader, other))
        kit.eventually(lambda: self.urls_of_the_shard() == both, 30, "proxies are told of both")
        self.reads_come_to(proxy, other[0])
        answers = []

        def read():
            begin = time.monotonic()
            answer = proxy.get(f"{MAPS}?limit=1")
            answers.append(answer.status if answer.status == 200 else (answer.status, time.monotonic() - begin, answer.body))

        readers = [threading.Thread(target=read) for _ in range(6)]
        os.kill(other[2](), signal.SIGSTOP)
        try:
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join(90)
            self.assertEqual(answers, [200] * len(readers))
            kit.eventually(lambda: leader[0]("").url.geturl() == proxy.must("GET", SHARD)["spec"]["baseURL"] and len(self.urls(proxy)) == 1, 30,
                           "it is left out")
        finally:
            os.kill(other[2](), signal.SIGCONT)
        kit.eventually(lambda: self.urls_of_the_shard() == both, 30, "it is back")
        kit.eventually(lambda: other[0]("").get("/readyz").status == 200, 30, "and has news of etcd")

    def connections_to(self, port):
        """Of anybody, that are open."""
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(state == "01" and int(remote.split(":")[1], 16) == port for _, _, remote, state, *_ in rows)

    def reads_come_to(self, proxy, client):
        port = client("").url.port

        def there():
            proxy.must("GET", MAPS)
            return self.connections_to(port) > 0

        kit.eventually(there, 30, "the proxy has a connection to the process")

    def test_GR_301_the_proxy_follows_who_leads(self):
        proxy = self.up.client()
        leader, other = self.roles()
        kit.eventually(lambda: proxy.must("GET", MAPS), 30, "the proxy has followed who led before")
        os.kill(leader[2](), signal.SIGKILL)
        made = kit.eventually(lambda: proxy.must("POST", MAPS, {"metadata": {"name": "through-the-proxy"}}), 30)
        self.assertEqual(other[0]().must("GET", f"{MAPS}/through-the-proxy")["metadata"]["uid"], made["metadata"]["uid"])
        self.bring_back(leader)

    def test_GR_308_no_copy_into_a_folder_while_two_serve(self):
        words = self.second.command
        told = [part for i, word in enumerate(words) if word.startswith("--etcd-") and word != "--etcd-compaction" for part in words[i:i + 2]]
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([words[0], "store", "copy", "--online", "--from", words[words.index("--store") + 1], "--prefix", "/kintsugi/shards/root",
                                  "--to", f"lmdb:{folder}/data", *told], text=True, capture_output=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 1, run.stdout)
            self.assertRegex(run.stderr, r"processes at \S+ and \S+ serve /kintsugi/shards/root: stop all but")
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(self.second.client().get(MAPS).status, 200)

    def test_GR_301_wrong_usage(self):
        for arguments, text in ((["--replica", "x"], "--replica: for --store etcd=… only"),
                                (["--replica", "a/b", "--store", "etcd=http://127.0.0.1:1"], '--replica: "a/b" is not a name')):
            run = subprocess.run([str(kit.BINARY), "shard", "--join", str(self.up.state), "--name", "root", "--allow-root", *arguments],
                                 capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(text, run.stderr)


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class ReplicasOfAnotherShard(unittest.TestCase):
    def test_GR_302_workspaces_go_on_when_one_is_killed(self):
        up = kit.Installation("--store", "etcd", shards=2).start_for(self)
        second = Second(up, "shard-1")
        self.addCleanup(second.end)
        second.start()
        first_log = up.state / "logs" / "shard-1.log"
        shard = {"name": "shard-1"}
        up.make_workspace("before", selector=shard)
        kit.eventually(lambda: leads(first_log), 30, "the first process leads")
        url = "/apis/core.kcp.io/v1alpha1/shards/shard-1"
        before = up.client().must("GET", url)["spec"]["baseURL"]
        up.kill("shard-1", signal.SIGKILL)
        kit.eventually(lambda: leads(second.log), 30, "the second process leads")
        kit.eventually(lambda: up.client().must("GET", url)["spec"]["baseURL"] != before, 30, "the shard is at the second process")
        up.make_workspace("after", selector=shard)
        for name in ("before", "after"):
            client = up.client(f"/clusters/root:{name}")
            kit.eventually(lambda client=client: client.must("POST", MAPS, {"metadata": {"name": "kept"}}), 30)
