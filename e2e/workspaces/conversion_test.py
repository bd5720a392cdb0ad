"""APIConversion: objects of a bound schema are read and written in other versions than the stored one (KK-191 to KK-193)."""
import json
import unittest

import kit

SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
CONVERSIONS = "/apis/apis.kcp.io/v1alpha1/apiconversions"
APIS = "/apis/apis.kcp.io/v1alpha2"
NAME = "v1.people.conv.io"
MERGE = {"Content-Type": "application/merge-patch+json"}
TEXT = {"type": "string"}


def spec_of(properties):
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def schema():
    v1 = spec_of({"firstName": TEXT, "lastName": TEXT, "age": {"type": "integer"}})
    v2 = spec_of({"name": {"type": "object", "properties": {"first": TEXT, "last": TEXT, "upper": TEXT}},
                  "age": {"type": "integer"}, "extra": {"type": "object", "properties": {"n": {"type": "integer"}}}})
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": NAME},
            "spec": {"group": "conv.io", "scope": "Namespaced", "conversion": {"strategy": "None"},
                     "names": {"plural": "people", "singular": "person", "kind": "Person", "listKind": "PersonList"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": v1},
                                  {"name": "v2", "served": True, "storage": False, "schema": v2}]}}


def conversion(transformation="self.upperAscii()", first=".spec.firstName"):
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIConversion", "metadata": {"name": NAME}, "spec": {"conversions": [
        {"from": "v1", "to": "v2", "rules": [
            {"field": first, "destination": ".spec.name.first"},
            {"field": ".spec.lastName", "destination": ".spec.name.last"},
            {"field": ".spec.lastName", "destination": ".spec.name.upper", "transformation": transformation}]},
        {"from": "v2", "to": "v1", "preserve": [".spec.extra"], "rules": [
            {"field": ".spec.name.first", "destination": ".spec.firstName"},
            {"field": ".spec.name.last", "destination": ".spec.lastName"}]}]}}


class Conversion(unittest.TestCase):
    """A provider on one shard, consumers there and on another one."""

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)
        cls.prov = cls.workspace("conv-prov", "shard-1")
        cls.consumers = {"beside": cls.workspace("conv-beside", "shard-1"), "away": cls.workspace("conv-away", "shard-2")}
        cls.prov.must("POST", SCHEMAS, schema())
        cls.prov.must("POST", CONVERSIONS, conversion())
        cls.prov.must("POST", f"{APIS}/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "people"},
            "spec": {"resources": [{"group": "conv.io", "name": "people", "schema": NAME, "storage": {"crd": {}}}]}})
        for consumer in cls.consumers.values():
            body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "people"},
                    "spec": {"reference": {"export": {"path": "root:conv-prov", "name": "people"}}}}
            kit.eventually(lambda c=consumer, b=body: c.request("POST", f"{APIS}/apibindings", b).status in (201, 409))
            kit.eventually(lambda c=consumer: c.must("GET", f"{APIS}/apibindings/people")["status"]["phase"] == "Bound")

    @classmethod
    def workspace(cls, name, shard):
        cls.installation.make_workspace(name, selector={"name": shard})
        return cls.installation.client(f"/clusters/root:{name}")

    def setUp(self):
        answer = self.prov.request("PATCH", f"{CONVERSIONS}/{NAME}", conversion(), headers=MERGE)
        self.assertEqual(answer.status, 200, answer)

    def people(self, version, name=""):
        return f"/apis/conv.io/{version}/namespaces/default/people" + (f"/{name}" if name else "")

    def person(self, version, name, spec):
        return {"apiVersion": f"conv.io/{version}", "kind": "Person", "metadata": {"name": name}, "spec": spec}

    def converted(self, client, name, wanted):
        """The rules have come to the consumer's shard."""
        return kit.eventually(lambda: client.must("GET", self.people("v2", name))["spec"] == wanted, what=f"{name}: {wanted}")

    def test_what_is_written_in_one_version_is_read_in_the_other(self):
        """KK-192: get, list, watch and write, where the provider is and elsewhere."""
        for where, client in self.consumers.items():
            with self.subTest(where):
                client.must("POST", self.people("v1"), self.person("v1", "ada", {"firstName": "Ada", "lastName": "Byron", "age": 36}))
                wanted = {"name": {"first": "Ada", "last": "Byron", "upper": "BYRON"}, "age": 36}
                self.converted(client, "ada", wanted)
                made = client.must("POST", self.people("v2"), self.person("v2", "alan", {"name": {"first": "Alan", "last": "Turing"}}))
                self.assertEqual(made["apiVersion"], "conv.io/v2")
                self.assertEqual(client.must("GET", self.people("v1", "alan"))["spec"], {"firstName": "Alan", "lastName": "Turing"})
                listed = client.must("GET", self.people("v2"))
                self.assertEqual({one["metadata"]["name"]: one["spec"]["name"]["upper"] for one in listed["items"]},
                                 {"ada": "BYRON", "alan": "TURING"})
                self.assertEqual(client.must("GET", self.people("v1", "alan"))["metadata"]["uid"], made["metadata"]["uid"])
                patched = client.must("PATCH", self.people("v2", "alan"), {"spec": {"name": {"last": "T"}}}, headers=MERGE)
                self.assertEqual(patched["spec"]["name"]["first"], "Alan")
                self.assertEqual(client.must("GET", self.people("v1", "alan"))["spec"]["lastName"], "T")
                watch = client.watch(self.people("v2") + f"?watch=true&resourceVersion={listed['metadata']['resourceVersion']}")
                event = next(watch)
                self.assertEqual((event["type"], event["object"]["apiVersion"], event["object"]["spec"]["name"]["upper"]),
                                 ("MODIFIED", "conv.io/v2", "T"))
                watch.close()
                for name in ("ada", "alan"):
                    client.must("DELETE", self.people("v1", name))

    def test_what_is_preserved_comes_back(self):
        """KK-193"""
        for where, client in self.consumers.items():
            with self.subTest(where):
                client.must("POST", self.people("v1"), self.person("v1", "probe", {"firstName": "P", "lastName": "q"}))
                self.converted(client, "probe", {"name": {"first": "P", "last": "q", "upper": "Q"}})
                spec = {"name": {"first": "A", "last": "b"}, "extra": {"n": 7}}
                client.must("POST", self.people("v2"), self.person("v2", "kept", spec))
                stored = client.must("GET", self.people("v1", "kept"))
                self.assertEqual(stored["spec"], {"firstName": "A", "lastName": "b"})
                key = "preserve.conversion.apis.kcp.io/v2"
                self.assertEqual(json.loads(stored["metadata"]["annotations"][key]), {"spec.extra": {"n": 7}})
                back = client.must("GET", self.people("v2", "kept"))
                self.assertEqual(back["spec"], {**spec, "name": {"first": "A", "last": "b", "upper": "B"}})
                self.assertNotIn(key, back["metadata"].get("annotations", {}))
                forged = {"metadata": {"annotations": {key: json.dumps({"metadata.uid": "x", "spec.extra": {"n": "no number"}})}}}
                client.must("PATCH", self.people("v1", "kept"), forged, headers=MERGE)
                after = client.must("GET", self.people("v2", "kept"))
                self.assertEqual(after["metadata"]["uid"], back["metadata"]["uid"])
                self.assertNotIn("extra", after["spec"])
                for name in ("probe", "kept"):
                    client.must("DELETE", self.people("v1", name))

    def test_the_view_of_the_export_converts(self):
        """KK-192: the provider reads his consumers' objects in the version that he asks for."""
        consumer = self.consumers["away"]
        consumer.must("POST", self.people("v1"), self.person("v1", "seen", {"firstName": "See", "lastName": "n"}))
        self.addCleanup(consumer.request, "DELETE", self.people("v1", "seen"))

        cluster = self.prov.must("GET", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
        view = self.installation.client(f"/services/apiexport/{cluster}/people/clusters/*")

        def seen():
            return [one["spec"]["name"] for one in view.must("GET", "/apis/conv.io/v2/people")["items"]
                    if one["metadata"]["name"] == "seen"] == [{"first": "See", "last": "n", "upper": "N"}]

        kit.eventually(seen)

    def test_rules_that_do_not_compile_are_told(self):
        """KK-192: nobody compiles them when they are written; reads in the stored version go on."""
        client = self.consumers["away"]
        client.must("POST", self.people("v1"), self.person("v1", "told", {"firstName": "A", "lastName": "b"}))
        self.addCleanup(client.request, "DELETE", self.people("v1", "told"))
        for broken, text in (
                (conversion(first=".spec.nope"), 'spec.conversions[0].rules[0].field: Invalid value: ".spec.nope": '
                                                 'field "spec.nope" doesn\'t exist'),
                (conversion("self.nope()"), 'spec.conversions[0].rules[2].transformation: Invalid value: "self.nope()": '
                                            "error compiling CEL program: ERROR: <input>:1:10:")):
            self.prov.must("PATCH", f"{CONVERSIONS}/{NAME}", broken, headers=MERGE)

            def refused(wanted=text):
                answer = client.get(self.people("v2", "told"))
                assert answer.status == 500, answer
                assert answer.json["message"].startswith(
                    "conversion for conv.io/v1, Kind=Person failed: error getting converter: error compiling conversion "
                    "rules: " + wanted), answer
                return True

            kit.eventually(refused)
            self.assertEqual(client.get(self.people("v1", "told")).status, 200)
        self.prov.must("PATCH", f"{CONVERSIONS}/{NAME}", conversion(transformation="self.split('x')[4]"), headers=MERGE)

        def fails():
            answer = client.get(self.people("v2", "told"))
            return answer.status == 500 and "failed: error converting: error executing transformation: " in answer.json["message"]

        kit.eventually(fails)

    def test_extra_annotations_of_the_export_are_on_its_bindings(self):
        """KK-171: copied, changed, removed."""
        key = "extra.apis.kcp.io/colour"
        for value in ("red", "blue", None):
            self.prov.must("PATCH", f"{APIS}/apiexports/people", {"metadata": {"annotations": {key: value}}}, headers=MERGE)
            for consumer in self.consumers.values():
                kit.eventually(lambda c=consumer, v=value: c.must("GET", f"{APIS}/apibindings/people")["metadata"].get(
                    "annotations", {}).get(key) == v, what=f"{key}: {value}")

    def test_what_an_api_conversion_may_say(self):
        """KK-191: versions by their pattern, one entry for a pair, one rule for a destination."""
        def spec(*conversions):
            return {**conversion(), "metadata": {"name": "v2.people.conv.io"}, "spec": {"conversions": list(conversions)}}

        rule = {"field": "a", "destination": "b"}
        for wrong, field in ((spec({"from": "v0", "to": "v2", "rules": []}), "spec.conversions[0].from"),
                             (spec({"from": "v1", "to": "V2", "rules": []}), "spec.conversions[0].to"),
                             (spec({"from": "v1", "to": "v2", "rules": [{**rule, "field": ""}]}), "spec.conversions[0].rules[0].field"),
                             (spec({"from": "v1", "to": "v2", "rules": [rule, rule]}), "spec.conversions[0].rules[1]"),
                             (spec(*[{"from": "v1", "to": "v2", "rules": []}] * 2), "spec.conversions[1]")):
            answer = self.prov.request("POST", CONVERSIONS, wrong)
            self.assertEqual(answer.status, 422, answer)
            self.assertIn(field, [one["field"] for one in answer.json["details"]["causes"]])


if __name__ == "__main__":
    unittest.main()
