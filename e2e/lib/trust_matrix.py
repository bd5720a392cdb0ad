"""The matrix of reserved labels and annotations, generated from the table that admission uses: every key of it on every kind, by every
way of writing. What is expected is computed from the table; the rows of docs/spec are held against the table by a test of their own."""
import itertools
import json
import unittest

import reserved
import trust
from trust import KINDS, found, pointer

ANN, ADMINISTRATOR = reserved.EVERYBODY, reserved.EVERYBODY | reserved.ADMIN
# How the table of admission names the kinds of the stage.
NAMES = {"lc": "LogicalCluster", "ws": "Workspace", "held": "Workspace", "mount": "Workspace", "wt": "WorkspaceType", "export": "Export",
         "binding": "Binding", "map": "AnythingElse", "wac": "Authentication", "partition": "Partition", "set": "PartitionSet",
         "slice": "EndpointSlice", "schema": "Schema"}
# Kinds of the table of which a tenant's workspace has no object, and why.
ELSEWHERE = {"Shard": "in root alone, see test_shards", "Conversion": "made with its schema", "CachedResource": "is not served"}
MORE = {
    "wac": (f"{trust.TENANCY}/workspaceauthenticationconfigurations", "issuers", 'workspaceauthenticationconfigurations.tenancy.kcp.io "issuers"'),
    "partition": ("/apis/topology.kcp.io/v1alpha1/partitions", "part", 'partitions.topology.kcp.io "part"'),
    "set": ("/apis/topology.kcp.io/v1alpha1/partitionsets", "parts", 'partitionsets.topology.kcp.io "parts"'),
    "slice": ("/apis/apis.kcp.io/v1alpha1/apiexportendpointslices", "ends", 'apiexportendpointslices.apis.kcp.io "ends"'),
    "schema": ("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", "v1.gears.gear.test", 'apiresourceschemas.apis.kcp.io "v1.gears.gear.test"'),
}
SPECS = {"wac": {"jwt": []}, "partition": {"selector": {"matchLabels": {"a": "b"}}}, "set": {"dimensions": ["region"]},
         "slice": {"export": {"name": "gears"}}}
BODIES = {"ws": {"location": {"selector": {"matchLabels": {"no": "shard"}}}}, "wt": {"extend": {"with": [{"name": "universal", "path": "root"}]}},
          "export": {"resources": []}, "binding": {"reference": {"export": {"name": "gears"}}}, "map": None, **SPECS}
AT_PROXY = {"partition", "set", "slice"}  # kept beside the shards
KIND_NAMES = {"wac": "WorkspaceAuthenticationConfiguration", "partition": "Partition", "set": "PartitionSet", "slice": "APIExportEndpointSlice",
              "schema": "APIResourceSchema"}


def begin():
    """The stage with one object of each kind that a tenant may have."""
    trust.begin()
    KINDS.update(MORE)
    for kind in SPECS:
        trust.ann.must("POST", KINDS[kind][0], body_of(kind, KINDS[kind][1]))
    for kind in list(SPECS) + ["schema"]:
        trust.kit.eventually(lambda k=kind: trust.ann.get(f"{KINDS[k][0]}/{KINDS[k][1]}").status == 200)


def body_of(kind, name, **metadata):
    if kind not in KIND_NAMES:
        return trust.body_of(kind, name, BODIES.get(kind), **metadata)
    version = KINDS[kind][0].split("/apis/")[1].rsplit("/", 1)[0]
    return {"apiVersion": version, "kind": KIND_NAMES[kind], "metadata": {"name": name, **metadata}, "spec": SPECS[kind]}


class Ways(trust.Ways):
    """With spellings of a write that reach the same member by another way."""

    def named(self, path, value):
        out = [*super().named(path, value), ("PUT as YAML", lambda: self.put(path, value, content="application/yaml"))]
        if value is not None:
            return [*out, ("JSON patch by copy", lambda: self.copied(path, value)), ("apply dry run", lambda: self.apply(path, value, "&dryRun=All"))]
        return [*out, ("merge patch of all", lambda: self.merge(path[:-1], None)),
                ("JSON patch of all", lambda: self.patched({"op": "replace", "path": pointer(path[:-1]), "value": {}})),
                ("JSON patch by move", lambda: self.patched({"op": "move", "from": pointer(path), "path": pointer((*path[:-1], "example.com/moved"))}))]

    def patched(self, *steps):
        return self.request("PATCH", self.item + self.part, json.dumps(steps), headers=trust.PATCH)

    def put(self, path, value, query="", content=None):
        if content is None:
            return super().put(path, value, query)

        def attempt():
            obj = self.request("GET", self.item).json
            trust.put(obj, path, value)
            return self.request("PUT", self.item + self.part, json.dumps(obj), headers={"Content-Type": content})

        return trust.again(attempt)

    def copied(self, path, value):
        """Puts the value elsewhere first, as a value that nobody looks at."""
        known = found(self.present, path[:-1])
        steps = [] if known is not None else [{"op": "add", "path": pointer(path[:-1]), "value": {}}]
        aside = pointer((*path[:-1], "example.com/aside"))
        steps += [{"op": "add", "path": aside, "value": value}, {"op": "copy", "from": aside, "path": pointer(path)},
                  {"op": "remove", "path": aside}]
        return self.patched(*steps)

    def apply(self, path, value, more=""):
        body = {"apiVersion": self.present["apiVersion"], "kind": self.present["kind"], "metadata": {"name": self.present["metadata"]["name"]}}
        if self.present["kind"] in ("APIBinding", "APIExportEndpointSlice", "Partition", "PartitionSet", "APIResourceSchema",
                                    "WorkspaceAuthenticationConfiguration"):  # what their schemas require in whatever is applied
            body["spec"] = self.present["spec"]
        trust.put(body, path, value)
        return self.request("PATCH", f"{self.item}{self.part}?fieldManager=thief&force=true{more}", json.dumps(body), headers=trust.APPLY)


def cells(table):
    """(kind, part, key, rule) for every key of the table on every kind; a key is judged by the first rule that matches, so those of
    another kind or part are keys here, too."""
    keys = list(dict.fromkeys(rule.key for rule in table))
    for kind, name in NAMES.items():
        for part, key in itertools.product(("annotations", "labels"), keys):
            yield kind, part, key, reserved.rule_for(table, name, part, key)


def is_claimed(rule, part):
    """Labels that accepted claims make (KK-229)."""
    return rule is not None and rule.on_update == "Kept" and part == "labels"


class Metadata(unittest.TestCase):
    """`everything`: each cell by every way and actor. Else each cell by all ways or, where a whole domain is reserved, by one of them in
    turn; and by the administrator by one."""

    everything = False
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.table = reserved.rules()
        for client in (trust.ann, trust.admin, trust.system, trust.prov):  # it asks faster than a workspace may write
            client.patient = True

    def version(self, kind):
        reader = trust.admin if kind in AT_PROXY else trust.system
        return reader.must("GET", f"{KINDS[kind][0]}/{KINDS[kind][1]}")["metadata"]["resourceVersion"]

    def rests(self, kind):
        first = self.version(kind)
        return first if first == self.version(kind) else None

    def test_updates(self):
        turns = itertools.count()
        before = {kind: trust.kit.eventually(lambda k=kind: self.rests(k), what=f"{kind} rests") for kind in NAMES}
        seen = 0
        actors = [("ann", trust.ann.request, ANN), ("ann as bob", trust.as_bob(trust.ann), ANN), ("the administrator", trust.admin.request,
                                                                                              ADMINISTRATOR)]
        forms = {(kind, actor): Ways(request, kind) for kind in NAMES for actor, request, _ in actors}
        for kind, part, key, rule in cells(self.table):
            name = NAMES[kind]
            whole = self.everything or (rule is not None and "*" not in rule.pattern)
            for actor, _, privileges in actors:
                path = ("metadata", part, key)
                ways = forms[kind, actor]
                known = found(ways.present, path)
                for value in ["forged"] if known is None else ["forged", None]:
                    some = self.chosen(ways, path, value, next(turns), whole and actor == "ann" or self.everything)
                    for way, answer in some:
                        seen += 1
                        with self.subTest(kind=kind, part=part, key=key, way=way, actor=actor, value=value):
                            self.judge(rule, privileges, answer, kind, part, key, value, way)
            self.assertIn(name, NAMES.values())
        self.assertGreater(seen, 1500)
        self.assertEqual({kind: self.version(kind) for kind in NAMES}, before, "who was written to")

    def chosen(self, ways, path, value, turn, all_ways):
        """The answers of some or all ways. Nothing that is accepted is stored: those are dry runs."""
        rule = reserved.rule_for(self.table, NAMES[ways.kind], path[1], path[2])
        if rule is None or rule.on_update != "Refuse" or rule.writers & (ANN | reserved.ADMIN):
            yield "dry run", ways.merge(path, value, "?dryRun=All")
            if rule is None or rule.on_update != "Refuse" or rule.free:
                return
        if rule.writers & reserved.ADMIN and ways.request == trust.admin.request:
            return
        named = ways.named(path, value)
        for name, attempt in named if all_ways else [named[turn % len(named)]]:
            yield name, attempt()

    def judge_claimed(self, answer, kind, key, status):
        """A shard drops what no claim has made; the proxy, which no claim reaches, refuses it."""
        if kind in AT_PROXY:
            self.assertEqual(answer.status, 403, answer)
            self.assertIn(f"metadata.labels[{key}]: Forbidden: must not be set", answer.json["message"])
            return
        self.assertEqual(answer.status, status, answer)
        self.assertIsNone(found(answer.json, ("metadata", "labels", key)))

    def judge(self, rule, privileges, answer, kind, part, key, value, way):
        if rule is not None and rule.on_update == "Refuse" and not rule.writers & privileges:
            self.assertEqual(answer.status, 403, answer)
            self.assertIn(f"{KINDS[kind][2]} is forbidden: modification of reserved {part[:-1]}: \"", answer.json["message"])
            if " of all" not in way:  # which of the keys is told first is the server's to say
                self.assertTrue(answer.json["message"].endswith(f'"{key}"'), answer)
            return
        if is_claimed(rule, part):
            self.judge_claimed(answer, kind, key, 200)
            return
        self.assertEqual(answer.status, 200, answer)
        stored = found(answer.json, ("metadata", part, key))
        if rule is None or rule.on_update == "Refuse":
            self.assertEqual(stored, value)
        else:
            self.assertNotEqual(stored, "forged")
            if rule.on_update == "Path" and stored is not None:
                self.assertEqual(stored, "root:anns")

    def test_creations(self):
        for kind in BODIES:
            collection = KINDS[kind][0]
            for part, key in itertools.product(("annotations", "labels"), dict.fromkeys(rule.key for rule in self.table)):
                rule = reserved.rule_for(self.table, NAMES[kind], part, key)
                for actor, request, privileges in (("ann", trust.ann.request, ANN), ("the administrator", trust.admin.request, ADMINISTRATOR)):
                    body = body_of(kind, "made", **{part: {key: "forged"}})
                    answer = request("POST", collection + "?dryRun=All", body)
                    with self.subTest(kind=kind, part=part, key=key, actor=actor):
                        if is_claimed(rule, part):
                            self.judge_claimed(answer, kind, key, 201)
                        elif rule is not None and rule.on_create == "Refuse" and not rule.creators & privileges:
                            text = f'"made" is forbidden: modification of reserved {part[:-1]}: "{key}"'
                            self.assertEqual(answer.status, 403, answer)
                            self.assertTrue(answer.json["message"].endswith(text), answer)
                            whole = request("POST", collection, body)
                            self.assertEqual((whole.status, whole.json["message"]), (403, answer.json["message"]))
                        else:
                            self.assertEqual(answer.status, 201, answer)
                            stored = found(answer.json, ("metadata", part, key))
                            free = rule is None or rule.on_create == "Refuse"
                            (self.assertEqual if free else self.assertNotEqual)(stored, "forged")
            self.assertEqual((trust.admin if kind in AT_PROXY else trust.system).get(f"{collection}/made").status, 404, kind)

    def test_shards(self):
        """In root, where only administrators come."""
        item = f"{trust.CORE}/shards/shard-1"
        root = trust.up.client()
        before = root.must("GET", item)["metadata"]["resourceVersion"]
        for part, key in itertools.product(("annotations", "labels"), dict.fromkeys(rule.key for rule in self.table)):
            rule = reserved.rule_for(self.table, "Shard", part, key)
            patch = json.dumps({"metadata": {part: {key: "forged"}}})
            answer = root.request("PATCH", item + "?dryRun=All", patch, headers=trust.MERGE)
            if is_claimed(rule, part):
                self.judge_claimed(answer, "Shard", key, 200)
                continue
            refused = rule is not None and rule.on_update == "Refuse" and not rule.writers & ADMINISTRATOR
            self.assertEqual(answer.status, 403 if refused else 200, (part, key, answer))
            if refused:
                self.assertIn(key, answer.json["message"])
                self.assertEqual(root.request("PATCH", item, patch, headers=trust.MERGE).status, 403)
            elif rule is not None and rule.on_update not in ("Refuse", "Kept"):
                self.assertNotEqual(found(answer.json, ("metadata", part, key)), "forged", key)
        self.assertEqual(root.must("GET", item)["metadata"]["resourceVersion"], before)
