"""What the tests of merged lists and watches share: an installation with a workspace on each of three shards, and a
client that collects a watch's events."""
import json
import threading
import unittest

import kit

MAPS = "/api/v1/configmaps"
WORKSPACES = ("a", "b", "c")
NEWEST = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def name_of(item):
    return item["metadata"]["name"]


def key_of(item):
    meta = item["metadata"]
    return meta["annotations"]["kcp.io/cluster"], meta["namespace"], meta["name"]


def is_end(event):
    annotations = event["object"].get("metadata", {}).get("annotations", {})
    return event["type"] == "BOOKMARK" and annotations.get("k8s.io/initial-events-end") == "true"


class Stream:
    """A running watch; its events are collected by a thread."""

    def __init__(self, client, path, headers=None, timeout=60):
        self.events, self.ended, self.error = [], False, None
        self.connection = client.connect(timeout)
        self.connection.request("GET", client.url.path.rstrip("/") + path, headers=headers or {"Accept": "application/json"})
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for line in self.response:
                if line.strip():
                    self.events.append(json.loads(line))
        except (OSError, ValueError, AttributeError) as fault:
            self.error = fault
        self.ended = True

    def close(self):
        try:
            self.connection.sock.shutdown(2)
        except (OSError, AttributeError):
            pass
        self.thread.join(5)
        self.connection.close()

    def objects(self):
        return [e for e in self.events if e["type"] in ("ADDED", "MODIFIED", "DELETED")]

    def bookmarks(self):
        return [e for e in self.events if e["type"] == "BOOKMARK"]

    def until(self, check, what, deadline=15):
        return kit.eventually(lambda: check(self.events) or self.fail(what), deadline, what)

    def fail(self, what):
        raise AssertionError(f"{what}: {[(e['type'], e['object']['metadata'].get('name')) for e in self.events][-20:]}")

    def until_synced(self):
        self.until(lambda events: any(is_end(e) for e in events), "end of the initial events")
        return self


class MergedCase(unittest.TestCase):
    """Three workspaces, one on each shard."""

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation().start_for(cls)
        cls.shard = dict(zip(WORKSPACES, ("root", "shard-1", "shard-2")))
        cls.cluster = {}
        for workspace, shard in cls.shard.items():
            cls.cluster[workspace] = cls.installation.make_workspace(workspace, selector={"name": shard})["spec"]["cluster"]
        cls.at = {w: cls.installation.client(f"/clusters/root:{w}") for w in WORKSPACES}
        cls.all = cls.installation.client("/clusters/*")

    def put(self, workspace, name, row, data="x"):
        return self.at[workspace].must("POST", "/api/v1/namespaces/default/configmaps", {
            "metadata": {"name": name, "labels": {"row": row}}, "data": {"v": data}})

    def change(self, workspace, name, data):
        return self.at[workspace].must("PATCH", f"/api/v1/namespaces/default/configmaps/{name}", json.dumps({"data": {"v": data}}),
                                       headers={"Content-Type": "application/merge-patch+json"})

    def drop(self, workspace, name):
        return self.at[workspace].must("DELETE", f"/api/v1/namespaces/default/configmaps/{name}")

    def fill(self, row, counts=(3, 2, 1)):
        for workspace, count in zip(WORKSPACES, counts):
            for i in range(count):
                self.put(workspace, f"{row}-{workspace}-{i}", row)

    def listed(self, row, more=""):
        return self.all.must("GET", f"{MAPS}?labelSelector=row%3D{row}{more}")

    def watch(self, row, more="", **kwargs):
        stream = Stream(self.all, f"{MAPS}?watch=true&labelSelector=row%3D{row}{more}", **kwargs)
        self.addCleanup(stream.close)
        self.assertEqual(stream.status, 200)
        return stream

    def union(self, row):
        out = {}
        for workspace in WORKSPACES:
            for item in self.at[workspace].must("GET", f"{MAPS}?labelSelector=row%3D{row}")["items"]:
                out[key_of(item)] = item["metadata"]["resourceVersion"]
        return out

    def model(self, events, start=None):
        store = dict(start or {})
        for event in events:
            if event["type"] == "DELETED":
                store.pop(key_of(event["object"]), None)
            elif event["type"] in ("ADDED", "MODIFIED"):
                store[key_of(event["object"])] = event["object"]["metadata"]["resourceVersion"]
        return store
