"""How late the proxy knows what shards have acknowledged, measured by a process of its own while others make workspaces: from
the event that says a workspace is Ready to its first answered request (routes), and from an acknowledged APIBinding to the event
of the slice that names its shard (slices)."""
import contextlib
import json
import multiprocessing
import queue
import threading
import time

APIS = "/apis/apis.kcp.io/v1alpha2"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
PATIENCE = 30
PAUSE = 0.02  # between two bindings


def call(connection, method, path, body=None):
    connection.request(method, path, body=None if body is None else json.dumps(body), headers={"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read()


def summary(lags):
    """Count, median, 99th of 100 and greatest, in milliseconds."""
    ordered = sorted(lags)
    if not ordered:
        return {"count": 0}
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99)]
    return {"count": len(ordered), "p50": at[0] * 1000, "p99": at[1] * 1000, "max": ordered[-1] * 1000}


class Probe:
    """Runs `measure(client, stop)` in a process; result() ends it and has its figures."""

    def __init__(self, measure, client, *arguments):
        context = multiprocessing.get_context("fork")
        self.ours, theirs = context.Pipe()
        self.process = context.Process(target=self.run, args=(measure, client, theirs, arguments), daemon=True)
        self.process.start()
        assert self.ours.poll(PATIENCE), "the probe does not begin"
        self.ours.recv()

    @staticmethod
    def run(measure, client, pipe, arguments):
        stop = threading.Event()

        def wait():
            pipe.recv()
            stop.set()

        pipe.send("ready")
        threading.Thread(target=wait, daemon=True).start()
        pipe.send(measure(client, stop, *arguments))

    def result(self):
        with contextlib.suppress(BrokenPipeError):  # it has ended
            self.ours.send("end")
        assert self.ours.poll(2 * PATIENCE), "the probe does not end"
        found = self.ours.recv()
        self.process.join(PATIENCE)
        return found


def routes(client, stop, askers=4):
    """Lags of routes to workspaces that become Ready in root."""
    ready, lags, seen = queue.Queue(), [], set()

    def ask():
        connection = client.connect(PATIENCE)
        while (entry := ready.get()) is not None:
            name, begin = entry
            while call(connection, "GET", f"/clusters/root:{name}/api/v1/namespaces/default")[0] != 200:
                if time.monotonic() - begin > PATIENCE:
                    break
            lags.append(time.monotonic() - begin)

    def follow():
        connection = client.connect(3600)
        connection.request("GET", f"/clusters/root{WORKSPACES}?watch=true")
        for line in connection.getresponse():
            at = time.monotonic()
            workspace = json.loads(line)["object"]
            name = workspace["metadata"]["name"]
            if workspace.get("status", {}).get("phase") == "Ready" and name not in seen:
                seen.add(name)
                ready.put((name, at))

    threading.Thread(target=follow, daemon=True).start()
    threads = [threading.Thread(target=ask, daemon=True) for _ in range(askers)]
    for thread in threads:
        thread.start()
    stop.wait()
    for _ in threads:
        ready.put(None)
    for thread in threads:
        thread.join(PATIENCE)
    return summary(lags)


def slices(client, stop, exports, consumers):
    """Lags of slices behind the first binding of their exports."""
    named, lags = {}, []

    def follow():
        connection = client.connect(3600)
        connection.request("GET", f"/clusters/root:provider{SLICES}?watch=true")
        for line in connection.getresponse():
            at = time.monotonic()
            found = json.loads(line)["object"]
            if found.get("status", {}).get("endpoints"):
                named.setdefault(found["metadata"]["name"], at)

    threading.Thread(target=follow, daemon=True).start()
    connection, asked = client.connect(PATIENCE), {}
    for number, name in enumerate(exports):
        if stop.is_set():
            break
        binding = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                   "spec": {"reference": {"export": {"path": "root:provider", "name": name}}}}
        if call(connection, "POST", f"/clusters/root:{consumers[number % len(consumers)]}{APIS}/apibindings", binding)[0] == 201:
            asked[f"required-{name}"] = time.monotonic()
        time.sleep(PAUSE)
    end = time.monotonic() + PATIENCE
    while len(named.keys() & asked.keys()) < len(asked) and time.monotonic() < end:
        time.sleep(0.01)
    for name, begin in asked.items():
        lags.append(max(0.0, named.get(name, end) - begin))
    return summary(lags)
