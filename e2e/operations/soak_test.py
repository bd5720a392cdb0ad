"""Legal traffic with one abuse in a hundred requests for as long as is asked (SE-204, SE-T090): what a process keeps (memory of its own,
files, seats) is in the last quarter of the time what it was in the third, by the median of samples that are taken in silence.

KINTSUGI_SOAK_MINUTES is the length (default: 5); what was measured is printed."""
import collections
import contextlib
import json
import os
import pathlib
import random
import re
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
import unittest

import kit
import raw_h2

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "attacks"))
import abuse_test  # noqa: E402

ONLY_WITH_ALL = "plays for minutes, or for hours (KINTSUGI_SOAK_MINUTES)"
MINUTES = float(os.environ.get("KINTSUGI_SOAK_MINUTES", "5"))
ROUND = 5.0  # seconds of traffic between two samples; longer where there are many
MOST_SAMPLES = 400
PLAYERS = 6  # threads
ABUSE_IN = 100  # requests
MOST = 0.05  # what the last quarter may have more than the third
ROOM = {"memory": 3 << 20, "files": 2}  # what may come and go in a process that is small
MAPS, EVERYWHERE = "/api/v1/namespaces/default/configmaps", "/clusters/*"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
PROCESSES = ("proxy", "root", "shard-1")


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()
    for name, shard in (("soak-a", "root"), ("soak-b", "shard-1")):
        installation.make_workspace(name, selector={"name": shard})
        for role in ("cluster-admin", "system:kcp:workspace:access"):
            installation.client(f"/clusters/root:{name}").must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
                "metadata": {"name": "soak-" + role.rsplit(":", 1)[-1]}, "subjects": [{"kind": "User", "name": "soaker", "apiGroup": "rbac.authorization.k8s.io"}],
                "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}})
        kit.eventually(lambda at=name: tenant(at).get(MAPS).status == 200, 30, "the tenant is in")
    # The frames of abuse_test go to the proxy of this installation.
    abuse_test.proxy = installation


def tenant(workspace):
    return installation.user_client("soaker", path=f"/clusters/root:{workspace}")


class Round:
    """What players do between two samples. A legal request that is not answered as it should be is a fault."""

    def __init__(self, number, seconds):
        self.end = time.monotonic() + seconds
        self.count, self.abuses, self.faults = collections.Counter(), collections.Counter(), []
        self.players = [threading.Thread(target=self.play, args=(random.Random(number * PLAYERS + one), one)) for one in range(PLAYERS)]
        for player in self.players:
            player.start()
        for player in self.players:
            player.join(seconds + 120)
        assert not any(player.is_alive() for player in self.players), "a player does not end"

    def play(self, dice, number):
        workspace = dice.choice(("soak-a", "soak-b"))
        client = tenant(workspace)
        try:
            with contextlib.closing(Kept(client)) as kept:
                while time.monotonic() < self.end:
                    what = dice.choice(LEGAL)
                    what(kept, f"p{number}-{dice.randrange(8)}", dice)
                    self.count[what.__name__] += 1
                    if dice.random() * ABUSE_IN < 1:
                        what = dice.choice(ABUSES)
                        self.abuses[what(dice)] += 1
        except Exception as fault:  # pylint: disable=broad-except
            self.faults.append(fault)


class Kept:
    """A connection of a tenant for many requests, and one of an administrator for reads of all clusters."""

    def __init__(self, client):
        self.client, self.connection = client, client.connect()
        self.admin = installation.client("").connect()

    def close(self):
        self.connection.close()
        self.admin.close()

    def ask(self, method, path, body=None, headers=None, expect=(200, 201), base=None):
        text = json.dumps(body) if body is not None else None
        headers = {"Content-Type": "application/json", **(headers or {})}
        connection = self.admin if base == EVERYWHERE else self.connection
        connection.request(method, (base or self.client.url.path) + path, body=text, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status in expect, (method, path, answer.status, content[:300])
        return json.loads(content) if content else None


# --- what everybody may do


def reads(kept, name, dice):
    kept.ask("GET", f"{MAPS}/{name}", expect=(200, 404))
    kept.ask("GET", dice.choice((MAPS, f"{MAPS}?limit=3", "/api", "/apis", "/openapi/v3", "/version", "/api/v1/namespaces")))


def pages(kept, _, dice):
    more = ""
    for _ in range(5):
        page = kept.ask("GET", f"{MAPS}?limit=2{more}")["metadata"]
        if not page.get("continue"):
            return
        more = "&continue=" + page["continue"]


def writes(kept, name, dice):
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v" * dice.randrange(2000)}}
    kept.ask("POST", MAPS, body, expect=(201, 409))
    kept.ask("PATCH", f"{MAPS}/{name}", {"data": {"n": str(dice.random())}}, MERGE, expect=(200, 404))
    kept.ask("PATCH", f"{MAPS}/{name}?fieldManager=soak&force=true", {**body, "data": {"a": "b"}}, APPLY)
    kept.ask("DELETE", f"{MAPS}/{name}", expect=(200, 404))


def reviews(kept, *_):
    kept.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}}})


def merged_lists(kept, _, dice):
    kept.ask("GET", dice.choice(("/api/v1/configmaps", "/api/v1/configmaps?limit=5", "/apis")), base=EVERYWHERE)


def watches(kept, _, dice):
    client = dice.choice((kept.client, installation.client(EVERYWHERE)))
    how = dice.choice(("", "&allowWatchBookmarks=true", "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"))
    with contextlib.closing(client.connect()) as connection:
        connection.request("GET", f"{client.url.path}/api/v1/configmaps?watch=true&timeoutSeconds=1{how}")
        answer = connection.getresponse()
        if dice.random() < 0.5:  # the other half goes away in the middle
            answer.read()
        assert answer.status == 200, answer.status


def refused(kept, *_):
    kept.ask("GET", f"{MAPS}/none", expect=(404,))
    kept.ask("POST", MAPS, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "No Name"}}, expect=(422,))
    kept.ask("GET", MAPS, base="/clusters/root:nobody", expect=(403, 404))


def many_streams(*_):
    with contextlib.closing(raw_h2.Connection(installation.client(""))) as connection:
        streams = [connection.open("GET", f"/clusters/root:soak-a{MAPS}") for _ in range(20)]
        assert connection.until(lambda: all(stream.over for stream in streams)), "streams without an end"
        assert all(stream.status == 200 for stream in streams), [stream.status for stream in streams]


LEGAL = (*(reads,) * 6, *(writes,) * 3, pages, reviews, merged_lists, watches, refused, many_streams)


# --- what nobody should do


def floods(dice):
    row = dice.choice(abuse_test.ABUSES)
    abuser = abuse_test.Abuser(row)
    with contextlib.closing(abuser.connection), contextlib.suppress(OSError):
        abuser.run(200)
    return row[0]


def bytes_of(*texts):
    """On a TLS connection without a certificate, and no look at the answer."""
    def send(dice):
        context = ssl.create_default_context(cafile=str(installation.pki / "serving-ca.crt"))
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", installation.port), timeout=20) as plain:
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
                    tls.sendall(dice.choice(texts))
                    tls.settimeout(1)
                    tls.recv(100)
        return "bytes"
    return send


def half_handshakes(_):
    with contextlib.suppress(OSError):
        with socket.create_connection(("127.0.0.1", installation.port), timeout=20) as plain:
            plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
    return "half a handshake"


def half_bodies(_):
    client = installation.client("/clusters/root:soak-a")
    with contextlib.suppress(OSError), contextlib.closing(client.connect()) as connection:
        connection.putrequest("POST", client.url.path + MAPS)
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "100000")
        connection.endheaders(b'{"kind":')
    return "half a body"


def bad_tokens(dice):
    client = installation.client(dice.choice(("/clusters/root:soak-a", "/clusters/*", "/services/apiexport/root/x")), cert=None)
    status = client.request("GET", MAPS, headers=kit.bearer("x" * dice.randrange(1, 4000))).status
    assert status in (400, 401, 403, 404, 429), status
    return "a bad token"


ABUSES = (floods, half_handshakes, half_bodies, bad_tokens, bytes_of(
    b"GET /clusters/root%00/api HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"\x00" * 1000, b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 5000 + b"\r\n"))


# --- what the processes keep


def metrics_of(process):
    if process == "proxy":
        return subprocess.run(["curl", "-sS", "--unix-socket", str(installation.state / "run/admin.sock"), "http://admin/metrics"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
    client = kit.Client(installation.shard_url(process), installation.pki / "serving-ca.crt", installation.pki / "admin.crt", installation.pki / "admin.key")
    return client.get(EVERYWHERE + "/metrics").body.decode()


def seats_of(process):
    """Seats that are taken, and requests that wait for one; but the one that asks a shard."""
    found = re.findall(r'^(?:kintsugi_seats|kintsugi_queue_length)\{level="\w+"(?:,state="taken")?\} (\S+)$', metrics_of(process), re.MULTILINE)
    assert found, process
    return sum(map(float, found)) - (process != "proxy")


def kept_by(process):
    folder = pathlib.Path(f"/proc/{installation.pid(process)}")
    memory = int(re.search(r"^RssAnon:\s+(\d+) kB", (folder / "status").read_text(), re.MULTILINE)[1]) * 1024
    return {"memory": memory, "files": len(list((folder / "fd").iterdir()))}


class Soak(unittest.TestCase):
    def silent(self):
        """Nothing is under way: no seat is taken, and the number of files has come to rest."""
        kit.eventually(lambda: not any(seats_of(process) for process in PROCESSES), 60, "no seat is taken")
        before = None
        for _ in range(60):
            files = [kept_by(process)["files"] for process in PROCESSES]
            if files == before:
                return
            before = files
            kit.stays(lambda: 0, 0.5)

    def test_SE_204_SE_T090_what_is_kept_stays(self):
        pids = {process: installation.pid(process) for process in PROCESSES}
        length = MINUTES * 60
        seconds = max(ROUND, length / MOST_SAMPLES)
        samples, count, abuses, begin = [], collections.Counter(), collections.Counter(), time.monotonic()
        while (at := time.monotonic() - begin) < length:
            played = Round(len(samples), seconds)
            self.assertEqual(played.faults, [])
            count, abuses = count + played.count, abuses + played.abuses
            self.silent()
            samples.append((at / length, {process: kept_by(process) for process in PROCESSES}))
            if len(samples) % 10 == 1:
                print(f"{at:.0f} s: {samples[-1][1]}", flush=True)
        self.assertEqual({process: installation.pid(process) for process in PROCESSES}, pids, "a process was started again")
        print(f"{sum(count.values())} actions, {sum(abuses.values())} abuses, {len(samples)} samples: {dict(count)}, {dict(abuses)}")
        self.assertGreater(sum(count.values()), 100)
        faults = []
        for process in PROCESSES:
            for what, room in ROOM.items():
                third, last = ([sample[process][what] for part, sample in samples if low <= part < low + 0.25] for low in (0.5, 0.75))
                first, old, new = samples[0][1][process][what], statistics.median(third), statistics.median(last)
                print(f"{process:8} {what}: {first} at first, {old:.0f} in the third quarter, {new:.0f} in the last: {new / old - 1:+.1%}")
                if abs(new - old) > max(old * MOST, room):
                    faults.append((process, what, old, new))
        self.assertEqual(faults, [])


if __name__ == "__main__":
    unittest.main()
