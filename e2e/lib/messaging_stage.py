"""The messaging worker for tests: its kinds in a provider's workspace, consumers that bind them, an infra of peers (amqp.py)."""
import json

import kit
import messaging
import steady
import worker

PROVIDER = "root:messaging"
SLICE = {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIExportEndpointSlice",
         "metadata": {"name": "workers", "annotations": {"kintsugi.dev/endpoint-mode": "proxied", "kintsugi.dev/consumers": "ignored"}},
         "spec": {"export": {"path": PROVIDER, "name": "messaging"}}}


MANY = 50  # of more than these a list tells


class Stage:
    """A provider's workspace, workspaces for Leases, and on each of `shards` a consumer."""

    user, groups = "messaging-worker", ("messaging-workers",)
    endpoints = {"cluster": PROVIDER, "name": "workers"}

    def __init__(self, installation, shards=("root", "shard-1", "shard-2")):
        self.installation, self.SHARDS = installation, shards
        installation.user_client(self.user, self.groups)
        self.apply("root", worker.CONFIGS / "root-rbac.yaml")
        installation.make_workspace("messaging", selector={"name": "root"})
        provider = installation.client(f"/clusters/{PROVIDER}")
        for path in sorted((messaging.CONFIGS / "schemas").glob("*.yaml")):
            provider.must("POST", messaging.SCHEMAS, path.read_bytes(), headers=messaging.YAML)
        for name in ("export.yaml", "rbac.yaml"):
            for document in messaging.documents(messaging.CONFIGS / name):
                provider.must("POST", messaging.collection(document)[1], document.encode(), headers=messaging.YAML)
        provider.must("POST", "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices", SLICE)
        self.consumers = {}
        for shard in shards:
            installation.make_workspace(f"leases-{shard}", selector={"name": shard})
            self.apply(f"root:leases-{shard}", worker.CONFIGS / "lease-rbac.yaml")
            installation.make_workspace(f"consumer-{shard}", selector={"name": shard})
            self.consumers[shard] = self.bind(f"consumer-{shard}")

    def apply(self, workspace, file):
        text = file.read_text(encoding="utf-8").replace(worker.USER, self.user)
        kit.eventually(lambda: self.installation.kubectl("apply", "-f", "-", server=f"/clusters/{workspace}", input_text=text) or True,
                       30, f"{file.name} applied")  # fmt: skip

    def bind(self, workspace):
        client = self.installation.client(f"/clusters/root:{workspace}")
        binding = (messaging.CONFIGS / "examples" / "binding.yaml").read_bytes()
        kit.eventually(lambda: client.request("POST", messaging.APIS + "/apibindings", binding, headers=messaging.YAML).status in (201, 409),
                       what="binding made")
        for kind in messaging.KINDS:
            kit.eventually(lambda k=kind: client.get(messaging.place(k)).status == 200, 30, f"{kind} is served")
        return client


def infra(routers, brokers, name="infra1", **spec):
    """A MessagingInfra whose components are these peers."""
    def endpoints(peers):
        return [{"host": one.name, "address": "127.0.0.1", "port": one.port, "group": "default"} for one in peers]

    return "MessagingInfra", {"metadata": {"name": name}, "spec": {
        "router": {"replicas": {"min": len(routers), "max": len(routers)}, "endpoints": endpoints(routers)},
        "brokers": {"min": len(brokers), "max": max(1, len(brokers)), "endpoints": endpoints(brokers)}, **spec}}


class Tenant:
    """Objects of one consumer."""

    def __init__(self, client, namespace="default"):
        self.client, self.namespace = steady.steady(client), namespace

    def path(self, kind, name=""):
        return messaging.place(kind, self.namespace) + (f"/{name}" if name else "")

    def make(self, kind, body):
        body = {"apiVersion": messaging.KINDS[kind][0], "kind": kind, **body}
        return self.client.must("POST", self.path(kind), body)

    def space(self, name="space1", plan="plan1", **spec):
        return self.make("AddressSpace", {"metadata": {"name": name}, "spec": {"type": "shared", "plan": plan, **spec}})

    def address(self, local, kind="queue", space="space1", **spec):
        return self.make("Address", {"metadata": {"name": f"{space}.{local}"}, "spec": {"address": local, "type": kind, **spec}})

    def get(self, kind, name):
        return self.client.must("GET", self.path(kind, name))

    def delete(self, kind, name):
        return self.client.must("DELETE", self.path(kind, name))

    def remove_all(self, kind):
        """All objects of a kind, as people would take them away."""
        for one in self.client.must("GET", self.path(kind))["items"]:
            self.client.request("DELETE", self.path(kind, one["metadata"]["name"]))
        kit.eventually(lambda: not self.client.must("GET", self.path(kind))["items"], 30, f"no {kind} is left")

    def gone(self, kind, name, deadline=20):
        kit.eventually(lambda: self.client.get(self.path(kind, name)).status == 404, deadline, f"{kind} {name} gone")

    def condition(self, kind, name, which="Ready"):
        for one in self.get(kind, name).get("status", {}).get("conditions", []):
            if one["type"] == which:
                return one
        return {}

    def until(self, kind, name, which="Ready", status="True", reason=None, deadline=20):
        def holds():
            one = self.condition(kind, name, which)
            assert one.get("status") == status and reason in (None, one.get("reason")), json.dumps(self.get(kind, name).get("status"))
            return one

        return kit.eventually(holds, deadline, f"{kind} {name}: {which}={status}")

    def ready(self, *locals_, space="space1", deadline=20):
        if len(locals_) > MANY:
            kit.eventually(lambda: self.all_ready({f"{space}.{local}" for local in locals_}), deadline, f"{len(locals_)} addresses are ready")
            return
        for local in locals_:
            self.until("Address", f"{space}.{local}", deadline=deadline)

    def all_ready(self, names):
        items = {one["metadata"]["name"]: one.get("status", {}) for one in self.client.must("GET", self.path("Address"))["items"]}
        left = [name for name in names if not any((one["type"], one["status"]) == ("Ready", "True") for one in items.get(name, {}).get("conditions", []))]
        assert not left, f"{len(left)} are not, as {left[0]}: {items.get(left[0])}"
        return True

    def many(self, requests, good=(200, 201, 202, 404)):
        """(method, path, body or None) one after the other on one connection: a thousand handshakes take longer than what they are for."""
        connection = self.client.connect()
        try:
            for method, path, body in requests:
                connection.request(method, self.client.url.path.rstrip("/") + path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = answer.read()
                assert answer.status in good, (method, path, answer.status, said)
        finally:
            connection.close()
