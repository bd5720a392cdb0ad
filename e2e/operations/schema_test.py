"""`kintsugi config`: the JSON Schema and the environment variables of configurations say what the programs take (OP-107, OP-108)."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import unittest.mock

import kit

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
KINDS = {"proxy": ("ProxyConfiguration", CONFIGS / "static.yaml"), "worker": ("WorkerConfiguration", CONFIGS / "worker" / "worker.yaml")}
TYPES = {"string": str, "array": list, "object": dict, "boolean": bool}
# Values that each key is given in turn: what the schema refuses the program refuses, and the other way round.
VALUES = [{"x": 1}, {}, -1, 0, 7, 1 << 40, 1 << 60, 0.5, 1e300, True, "", "text", "15s", "v1", [], ["a"], [""], [7], [70000], [{"x": 1}]]
# Keys whose texts have a form that the schema does not tell.
FORMS = re.compile(r"outgoing\.(allow|deny)|cors\.allowed_origins|lease\.\w+$|cert_propagation_delay|\.checks\.\w+$|_bind_address$|lease_clusters$|endpoints\.cluster$"
                   r"|journal_max_bytes|cursor\.journal_bytes|eventing\.(pool_namespace|refresh_period|join_patience)$|kafka\.(timeout|partitions_every)$")


def kintsugi(*words, **variables):
    return subprocess.run([kit.BINARY, *map(str, words)], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **variables})


def takes(schema, value):
    """What JSON Schema says, as far as ours use it."""
    if "anyOf" in schema:
        return any(takes(one, value) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return value in schema.get("enum", [schema.get("const")]) and not isinstance(value, bool)
    kind = schema["type"]
    if kind in ("integer", "number"):
        whole = isinstance(value, int) or kind == "number" and isinstance(value, float)
        return whole and not isinstance(value, bool) and schema["minimum"] <= value <= schema["maximum"]
    if not isinstance(value, TYPES[kind]) or kind != "boolean" and isinstance(value, bool):
        return False
    if kind == "string":
        return len(value) >= schema.get("minLength", 0)
    if kind == "array":
        return len(value) >= schema.get("minItems", 0) and all(takes(schema["items"], one) for one in value)
    if kind == "object":
        known, more = schema.get("properties", {}), schema["additionalProperties"]
        return all(takes(known[name], one) if name in known else more and takes(more, one) for name, one in value.items())
    return True


def leaves(schema, path=()):
    """(names, schema) of all keys outside lists and sections with free names."""
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            yield from leaves(inner, (*path, name))
        elif name not in ("apiVersion", "kind"):
            yield (*path, name), inner


def nested(pairs):
    out = {}
    for names, value in pairs:
        at = out
        for name in names[:-1]:
            at = at.setdefault(name, {})
        at[names[-1]] = value
    return out


def schema_of(which):
    run = kintsugi("config", "schema", which)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


class Schema(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kintsugi-e2e-")
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, "it.yaml")

    def refused(self, which, document):
        """Keys that the program finds wrong by themselves: it looks at what they have to do with each other once these are right."""
        self.file.write_text(json.dumps({"apiVersion": "kintsugi.dev/v1alpha1", "kind": KINDS[which][0], **document}), encoding="utf-8")
        run = kintsugi(which, "--config", self.file, "--print-effective=json")
        return {key for key, what in re.findall(r"^\S+:\d+: (\S+): ((?:element \d+ )?must be|unknown key)", run.stderr.replace(f"kintsugi {which}: ", ""), re.MULTILINE)}

    def test_OP_108_the_schema_refuses_what_the_program_refuses(self):
        for which in KINDS:
            keys = list(leaves(schema_of(which)))
            self.assertGreater(len(keys), 25)
            for value in VALUES:
                refused = self.refused(which, nested([(names, value) for names, _ in keys]))
                for names, schema in keys:
                    path = ".".join(names)
                    if not FORMS.search(path):
                        said = any(key == path or key.startswith((path + ".", path + "[")) for key in refused)
                        if said == takes(schema, value):
                            self.fail(f"{path}: {value!r}: the schema {'takes' if said else 'refuses'} it, the program does not")
                    elif not takes(schema, value):
                        self.assertIn(path, refused, value)

    def test_OP_108_it_takes_the_examples_and_knows_their_kinds(self):
        for which, (kind, path) in KINDS.items():
            run = kintsugi(which, "--config", path, "--print-effective=json")
            self.assertEqual(run.returncode, 0, run.stderr)
            pairs = [(re.findall(r"topology\.groups|[^.\[\]]+|\[\d+\]", one["key"]), one["value"]) for one in json.loads(run.stdout) if "[" not in one["key"]]
            pairs = [(names[0].split(".") + [".".join(names[1:])] if names[0] == "topology.groups" else names, value) for names, value in pairs]
            schema = schema_of(which)
            document = {"apiVersion": "kintsugi.dev/v1alpha1", "kind": kind, **nested(pairs)}
            self.assertTrue(takes(schema, document))
            self.assertFalse(takes(schema, {**document, "kind": "Other"}))
            self.assertFalse(takes(schema, {**document, "unknown": 1}))
            self.assertEqual(schema["required"], ["apiVersion", "kind"])

    def test_wrong_use(self):
        for words in ([], ["schema"], ["schema", "shard"], ["schmea", "proxy"], ["env", "proxy", "worker"]):
            self.assertEqual(kintsugi("config", *words).returncode, 2, words)


class Environment(unittest.TestCase):
    def sources(self, which, path, *flags, **variables):
        run = kintsugi(which, "--config", path, *flags, "--print-effective=json", **variables)
        self.assertEqual(run.returncode, 0, run.stderr)
        return {one["key"]: (one["value"], one["source"]) for one in json.loads(run.stdout)}

    def test_OP_107_flag_before_environment_before_file_before_default(self):
        path = KINDS["proxy"][1]
        plain = self.sources("proxy", path)
        self.assertIn("static.yaml", plain["listener.port"][1])
        told = self.sources("proxy", path, KINTSUGI_CFG_LISTENER_PORT="7443", KINTSUGI_CFG_LOOPS="2", KINTSUGI_CFG_OUTGOING_PORTS="443,444")
        self.assertEqual(told["listener.port"], (7443, "env KINTSUGI_CFG_LISTENER_PORT"))
        self.assertEqual(told["loops"], (2, "env KINTSUGI_CFG_LOOPS"))
        self.assertEqual(told["outgoing.ports"], ([443, 444], "env KINTSUGI_CFG_OUTGOING_PORTS"))
        self.assertEqual(told["listener.address"], plain["listener.address"])
        told = self.sources("proxy", path, "--secure-port=8443", KINTSUGI_CFG_LISTENER_PORT="7443")
        self.assertEqual(told["listener.port"], (8443, "command line"))
        told = self.sources("worker", KINDS["worker"][1], "--isolation=thread", KINTSUGI_CFG_ROLES_EXAMPLE_LEASE_DURATION="20s",
                            KINTSUGI_CFG_ISOLATION="process")  # fmt: skip
        self.assertEqual(told["roles.example.lease.duration"], ("20s", "env KINTSUGI_CFG_ROLES_EXAMPLE_LEASE_DURATION"))
        self.assertEqual(told["isolation"], ("thread", "command line"))

    def test_OP_107_the_command_lists_them_and_no_two_keys_meet(self):
        for which, (_, path) in KINDS.items():
            names = kintsugi("config", "env", which).stdout.split()
            keys = list(leaves(schema_of(which)))
            wanted = {"KINTSUGI_CFG_" + re.sub(r"\W", "_", ".".join(parts)).upper() for parts, schema in keys
                      if schema.get("type") != "array" or "properties" not in schema["items"]}
            free = {name for name in wanted if name in ("KINTSUGI_CFG_SHARDS",)}  # sections with free names
            self.assertEqual(set(names), wanted - free)
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual(len(wanted), len([one for one in keys if one[1].get("type") != "array" or "properties" not in one[1]["items"]]))
            self.assertTrue(path.exists())

    def test_OP_104_OP_107_a_wrong_one_is_named_with_status_2(self):
        for variables, said in (({"KINTSUGI_CFG_LISTENER_PORT": "tcp://10.0.0.1:80"}, "KINTSUGI_CFG_LISTENER_PORT: must be a number from 0 to 65535"),
                                ({"KINTSUGI_CFG_LISTENER_PROT": "1"}, "KINTSUGI_CFG_LISTENER_PROT: no key has this variable; did you mean KINTSUGI_CFG_LISTENER_PORT?"),
                                ({"KINTSUGI_CFG_TOPOLOGY_SHARDS": "[]"}, "KINTSUGI_CFG_TOPOLOGY_SHARDS: no key has this variable")):
            run = kintsugi("proxy", "--config", KINDS["proxy"][1], "--validate=syntax", **variables)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(said, run.stderr)

    def test_OP_107_kcps_command_line_has_none(self):
        with tempfile.TemporaryDirectory(prefix="kintsugi-e2e-") as name:
            front = pathlib.Path(name, "kcp-front-proxy")
            front.symlink_to(kit.BINARY)
            run = subprocess.run([front, "--config", KINDS["proxy"][1], "--print-effective"], capture_output=True, text=True, timeout=60, check=False,
                                 env={**os.environ, "KINTSUGI_CFG_LOOPS": "77"})  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("\nloops: 0  # default\n", run.stdout)
        self.assertIn("variables KINTSUGI_CFG_", run.stderr)

    def test_OP_107_up_has_none(self):
        with unittest.mock.patch.dict(os.environ, {"KINTSUGI_CFG_LISTENER_PORT": "1"}), kit.Installation(shards=1) as installation:
            self.assertEqual(installation.client().get("/api/v1/namespaces/default").status, 200)
            self.assertIn('"ignored":"KINTSUGI_CFG_LISTENER_PORT"', installation.log.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
