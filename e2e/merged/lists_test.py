"""Forms and failures of merged lists over three shards (docs/spec/aggregation.md; the numbers T.. are its cases)."""
import gzip
import json
import signal

import kit
from merged import MAPS, MergedCase, key_of, name_of

PROTOBUF = "application/vnd.kubernetes.protobuf"
TYPED_CLIENT = {"Accept": f"{PROTOBUF},application/json"}
PARTIAL = {"X-Kintsugi-Partial": "true", "Accept": "application/json"}


def fields(message):
    """Number and value of each field of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = varint()
        size = varint()
        if tag & 7 == 2:
            yield tag >> 3, message[at:at + size]
            at += size
        else:
            yield tag >> 3, size


def texts(message, number):
    return [value.decode() for field, value in fields(message) if field == number]


def decoded(body):
    """kind, resourceVersion, continue, and (cluster, namespace, name): resourceVersion of a list."""
    assert body[:4] == b"k8s\0", body[:40]
    unknown = dict(fields(body[4:]))
    meta, items = b"", {}
    for field, value in fields(unknown[2]):
        if field == 1:
            meta = value
            continue
        about = next(v for f, v in fields(value) if f == 1)
        entries = [dict(fields(v)) for f, v in fields(about) if f == 12]
        cluster = next(e[2].decode() for e in entries if e[1] == b"kcp.io/cluster")
        items[cluster, texts(about, 3)[0], texts(about, 1)[0]] = texts(about, 6)[0]
    return texts(unknown[1], 2)[0], texts(meta, 2)[0], "".join(texts(meta, 3)), items


class Lists(MergedCase):
    def raw(self, path, headers):
        answer = self.all.get(path, headers=headers)
        self.assertEqual(answer.status, 200, answer)
        return answer

    def test_T10_typed_clients_get_protobuf_of_all_shards(self):
        self.fill("t10")
        answer = self.raw(f"{MAPS}?labelSelector=row%3Dt10", TYPED_CLIENT)
        self.assertEqual(answer.headers["Content-Type"], PROTOBUF)
        kind, version, token, items = decoded(answer.body)
        self.assertEqual((kind, token), ("ConfigMapList", ""))
        self.assertEqual(len(version), 15 + 20 * 3)
        self.assertEqual(items, self.union("t10"))

    def test_T10_T20_pages_of_protobuf_have_every_object_once(self):
        self.fill("t20p", (5, 0, 4))
        seen, versions, token = [], set(), ""
        while True:
            more = f"&continue={token}" if token else ""
            _, version, token, items = decoded(self.raw(f"{MAPS}?labelSelector=row%3Dt20p&limit=2{more}", TYPED_CLIENT).body)
            self.assertLessEqual(len(items), 2)
            seen += items
            versions.add(version)
            if not token:
                break
        self.assertEqual(sorted(seen), sorted(self.union("t20p")))
        self.assertEqual(len(versions), 1)

    def test_T10_custom_objects_are_json_for_the_same_client(self):
        path = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
        answer = self.raw(path, TYPED_CLIENT)
        self.assertEqual(answer.headers["Content-Type"], "application/json")
        self.assertLessEqual(set("abc"), {name_of(i) for i in answer.json["items"]})
        self.assertEqual(self.all.get(path, headers={"Accept": PROTOBUF}).status, 406)

    def test_T09_metadata_comes_as_protobuf_too(self):
        self.fill("t09")
        accept = {"Accept": f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}
        kind, _, _, items = decoded(self.raw(f"{MAPS}?labelSelector=row%3Dt09", accept).body)
        self.assertEqual(kind, "PartialObjectMetadataList")
        self.assertEqual(items, self.union("t09"))

    def test_T15_large_lists_are_compressed_for_who_likes_that(self):
        for i in range(3):
            self.put("abc"[i], f"t15-{i}", "t15", data="Kintsugi " * 8000)
        plain = self.raw(f"{MAPS}?labelSelector=row%3Dt15", {"Accept": "application/json", "Accept-Encoding": "identity"})
        self.assertNotIn("Content-Encoding", plain.headers)
        packed = self.raw(f"{MAPS}?labelSelector=row%3Dt15", {"Accept": "application/json", "Accept-Encoding": "gzip"})
        self.assertEqual(packed.headers["Content-Encoding"], "gzip")
        self.assertLess(len(packed.body), len(plain.body) // 10)
        self.assertEqual(json.loads(gzip.decompress(packed.body))["items"], json.loads(plain.body)["items"])
        small = self.raw(f"{MAPS}?labelSelector=row%3Dnone", {"Accept": "application/json", "Accept-Encoding": "gzip"})
        self.assertNotIn("Content-Encoding", small.headers)
        self.assertEqual(small.json["items"], [])

    def test_kubectl_reads_in_pages(self):
        self.fill("paged", (4, 3, 2))
        out = self.installation.kubectl("get", "cm", "-A", "-l", "row=paged", "--chunk-size=2", "--no-headers", server="/clusters/*")
        self.assertEqual(len(out.splitlines()), 9, out)


class PartialLists(MergedCase):
    """A proxy that lets requests go on without shards that are away."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.proxy = kit.Proxy(cls.installation, {
            "wildcard": "serve", "aggregation": {"allow_partial": "true", "list": "{first_byte_ms: 400}"}}).__enter__()
        cls.addClassCleanup(cls.proxy.__exit__)
        cls.all = cls.proxy.client("/clusters/*")

    def test_T62_T63_a_list_without_a_shard_says_so_and_a_watch_brings_the_rest(self):
        self.fill("t63")
        kit.eventually(lambda: self.all.get(MAPS).status == 200, 20, "all shards")
        self.installation.kill("shard-2", signal.SIGSTOP)
        try:
            strict = self.all.get(f"{MAPS}?labelSelector=row%3Dt63")
            self.assertEqual(strict.status, 503, strict)
            answer = self.all.get(f"{MAPS}?labelSelector=row%3Dt63", headers=PARTIAL)
            self.assertEqual(answer.status, 200, answer)
            self.assertRegex(answer.headers["Warning"], r'^299 - "the answer lacks shard shard-2: ')
            listed = answer.json
            self.assertEqual({key_of(i)[0] for i in listed["items"]}, {self.cluster["a"], self.cluster["b"]})
            version = listed["metadata"]["resourceVersion"]
            self.assertIn("0" * 20, [version[15 + 20 * i:][:20] for i in range(3)])
            kit.eventually(lambda: self.proxy.metric('kintsugi_list_partial_total{policy="request"}') == 1, what="it is counted")
        finally:
            self.installation.kill("shard-2", signal.SIGCONT)
        kit.eventually(lambda: self.all.get(MAPS).status == 200, 20, "all shards again")
        stream = self.watch("t63", f"&resourceVersion={version}")
        stream.until(lambda events: [(e["type"], key_of(e["object"])[0]) for e in events] == [("ADDED", self.cluster["c"])],
                     "the object of the shard that was away")


if __name__ == "__main__":
    import unittest
    unittest.main()
