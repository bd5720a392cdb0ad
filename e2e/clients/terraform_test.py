"""The requests of Terraform's kubernetes_manifest resource and of its kubernetes backend (AM-556): types out of OpenAPI v2,
plans by a dry run, applies that refuse what others own, state in a Secret and its lock in a Lease."""
import base64
import gzip
import json
import unittest

import kit

ONLY_WITH_ALL = "needs Terraform"

APPLY = {"Content-Type": "application/apply-patch+yaml", "Accept": "application/json"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PLANETS = "/apis/terra.test/v1/namespaces/default/planets"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# The provider does not follow references to the one type that contains itself.
OPAQUE = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "planets.terra.test"},
    "spec": {"group": "terra.test", "scope": "Namespaced", "names": {"plural": "planets", "singular": "planet", "kind": "Planet"},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                           "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                               "spec": {"type": "object", "required": ["radius"], "properties": {
                                   "radius": {"type": "integer", "minimum": 1},
                                   "port": {"x-kubernetes-int-or-string": True},
                                   "moons": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                                   "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                                   "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                   "climate": {"type": "string", "default": "mild"}}},
                               "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}}}]}}


def setUpModule():
    global installation, client
    installation = kit.shared()
    installation.make_workspace("terra")
    client = installation.client("/clusters/root:terra")


class Foundry:
    """The types that the provider builds out of the document, by its rules."""

    def __init__(self, document):
        self.definitions = document["definitions"]
        self.index = {}
        for name, schema in self.definitions.items():
            for kind in schema.get("x-kubernetes-group-version-kind", []):
                self.index.setdefault((kind["group"], kind["version"], kind["kind"]), []).append(name)

    def resolve(self, schema):
        while "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            if name == OPAQUE:
                return {}
            schema = self.definitions[name]
        return schema

    def build(self, schema, depth=50):
        assert depth > 0, "a type without end"
        schema = self.resolve(schema)
        kind, more = schema.get("type", ""), schema.get("additionalProperties")
        if kind in ("string", "boolean", "number", "integer"):
            return kind
        if kind == "":
            return "string" if schema.get("x-kubernetes-int-or-string") else "dynamic"
        if kind == "array":
            return [self.build(schema["items"], depth - 1)]
        assert kind == "object", schema
        assert not ("properties" in schema and more is not None), schema
        if more is not None:
            return {"*": self.build(more, depth - 1)}
        if "properties" not in schema:
            return "dynamic"
        return {name: self.build(part, depth - 1) for name, part in schema["properties"].items()}

    def of(self, group, version, kind):
        names = self.index[(group, version, kind)]
        assert len(names) == 1, names
        return self.build(self.definitions[names[0]])


class Terraform_AM556(unittest.TestCase):
    maxDiff = None

    def apply(self, path, manifest, manager="Terraform", force=False, dry=False):
        """As the provider patches: a plan is the same request with dryRun."""
        query = f"?fieldManager={manager}&force={str(force).lower()}" + ("&dryRun=All" if dry else "")
        return client.request("PATCH", f"{path}/{manifest['metadata']['name']}{query}", json.dumps(manifest), headers=APPLY)

    def served_kinds(self):
        for group in client.must("GET", "/apis")["groups"]:
            for version in group["versions"]:
                listed = client.must("GET", "/apis/" + version["groupVersion"])
                yield from ((group["name"], version["version"], each["kind"], "/" in each["name"]) for each in listed["resources"])
        yield from (("", "v1", each["kind"], "/" in each["name"]) for each in client.must("GET", "/api/v1")["resources"])

    def test_1_WhenPlanned_HasATypeForEveryKind(self):
        document = client.request("GET", "/openapi/v2?timeout=30s", headers={"Accept": "application/json"})
        self.assertEqual(document.status, 200)
        self.assertEqual(document.json["swagger"], "2.0")
        foundry = Foundry(document.json)
        for group, version, kind, part in self.served_kinds():
            if not part:
                with self.subTest(group=group, version=version, kind=kind):
                    built = foundry.of(group, version, kind)
                    self.assertEqual((built["apiVersion"], built["kind"]), ("string", "string"))
                    self.assertEqual(built["metadata"]["labels"], {"*": "string"})
        self.assertEqual(foundry.of("", "v1", "ConfigMap")["data"], {"*": "string"})
        # The fields of metadata, which the provider puts into the types of custom resources.
        meta = foundry.build(foundry.definitions[META])
        self.assertEqual(meta["annotations"], {"*": "string"})
        self.assertEqual(meta["ownerReferences"][0]["uid"], "string")

    def test_2_WhenDefined_HasTheTypeOfACustomResource(self):
        self.assertEqual(self.apply(DEFINITIONS, DEFINITION).status, 201)

        def listed():
            foundry = Foundry(client.must("GET", "/openapi/v2", headers={"Accept": "application/json"}))
            return foundry if ("terra.test", "v1", "Planet") in foundry.index else None

        built = kit.eventually(listed, 15, "the type Planet").of("terra.test", "v1", "Planet")
        self.assertEqual(built["spec"], {"radius": "integer", "port": "string", "moons": [{"name": "string"}], "tags": {"*": "string"},
                                         "any": "dynamic", "climate": "string"})
        self.assertEqual(built["metadata"]["labels"], {"*": "string"})
        # It is looked up in the definitions too: what is stored must still be the author's schema.
        found = [each for each in client.must("GET", DEFINITIONS)["items"] if each["spec"]["names"]["kind"] == "Planet"]
        schema = found[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        self.assertEqual(schema, DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"])

    def test_3_WhenApplied_DoesWhatThePlanSaid(self):
        planet = {"apiVersion": "terra.test/v1", "kind": "Planet", "metadata": {"name": "mars", "namespace": "default"},
                  "spec": {"radius": 3390, "port": "http", "moons": [{"name": "phobos"}]}}
        self.assertEqual(client.get(PLANETS + "/mars").status, 404)
        planned = self.apply(PLANETS, planet, dry=True)
        self.assertEqual(planned.status, 201)
        self.assertEqual(client.get(PLANETS + "/mars").status, 404)
        made = self.apply(PLANETS, planet)
        self.assertEqual(made.status, 201)
        self.assertEqual(made.json["spec"], planned.json["spec"])
        self.assertEqual(made.json["spec"], {**planet["spec"], "climate": "mild"})
        self.assertEqual([(each["manager"], each["operation"]) for each in made.json["metadata"]["managedFields"]], [("Terraform", "Apply")])
        # The same again is the same object.
        again = self.apply(PLANETS, planet)
        self.assertEqual((again.status, again.json["metadata"]), (200, made.json["metadata"]))

        # An update drops a field and adds one; its plan does neither.
        del planet["spec"]["port"]
        planet["spec"]["tags"] = {"colour": "red"}
        planned = self.apply(PLANETS, planet, dry=True)
        self.assertEqual(planned.json["spec"], {**planet["spec"], "climate": "mild"})
        self.assertEqual(client.must("GET", PLANETS + "/mars"), made.json)
        self.assertEqual(self.apply(PLANETS, planet).json["spec"], planned.json["spec"])

        # A wrong value: the causes name the fields, for the diagnostics of the plan and of the apply.
        for dry in (True, False):
            refused = self.apply(PLANETS, {**planet, "spec": {**planet["spec"], "radius": 0}}, dry=dry)
            self.assertEqual((refused.status, refused.json["reason"]), (422, "Invalid"))
            self.assertEqual(refused.json["details"]["causes"], [{
                "reason": "FieldValueInvalid", "field": "spec.radius",
                "message": "Invalid value: 0: spec.radius in body should be greater than or equal to 1"}])

    def test_4_WhenOwnedByAnother_IsRefusedUntilForced(self):
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "1", "b": "2"}}
        made = self.apply(MAPS, settings).json
        client.must("PATCH", MAPS + "/settings?fieldManager=kubectl-edit", {"data": {"a": "9"}}, headers={"Content-Type": "application/merge-patch+json"})
        # The next refresh shows the drift, plan and apply name who made it.
        self.assertEqual(client.must("GET", MAPS + "/settings")["data"], {"a": "9", "b": "2"})
        for dry in (True, False):
            conflict = self.apply(MAPS, settings, dry=dry)
            self.assertEqual((conflict.status, conflict.json["reason"]), (409, "Conflict"))
            self.assertIn('conflict with "kubectl-edit" using v1: .data.a', conflict.json["message"])
            self.assertEqual([(each["reason"], each["field"]) for each in conflict.json["details"]["causes"]], [("FieldManagerConflict", ".data.a")])
        self.assertEqual(self.apply(MAPS, settings, force=True).json["data"], made["data"])
        self.assertEqual(self.apply(MAPS, settings).status, 200)
        # Two resources of two configurations share an object as long as their fields differ.
        other = {**settings, "data": {"c": "3"}}
        self.assertEqual(self.apply(MAPS, other, manager="Other").json["data"], {"a": "1", "b": "2", "c": "3"})
        self.assertEqual(self.apply(MAPS, {**settings, "data": {"a": "1"}}).json["data"], {"a": "1", "c": "3"})

    def test_5_WhenDestroyed_IsGone(self):
        for path in (PLANETS + "/mars", MAPS + "/settings", DEFINITIONS + "/planets.terra.test"):
            self.assertEqual(client.request("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1"}).status, 200)
            kit.eventually(lambda path=path: client.get(path).status == 404, 15, path)

    def test_6_WhenLocked_KeepsStateForOne(self):
        """The kubernetes backend: the first to create or to take the Lease may write the Secret."""
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                 "metadata": {"name": "lock-tfstate-default-prod", "labels": {"tfstate": "true"}}, "spec": {"holderIdentity": "one"}}
        mine = client.must("POST", LEASES, lease)
        second = client.request("POST", LEASES, lease)
        self.assertEqual((second.status, second.json["reason"]), (409, "AlreadyExists"))
        mine["metadata"]["annotations"] = {"app.terraform.io/lock-info": '{"ID":"one"}'}
        mine = client.must("PUT", LEASES + "/lock-tfstate-default-prod", mine)

        state = gzip.compress(json.dumps({"version": 4, "resources": [{"name": str(n)} for n in range(5000)]}).encode(), mtime=0)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": "tfstate-default-prod", "labels": {"tfstate": "true", "tfstateSecretSuffix": "prod", "tfstateWorkspace": "default"},
            "annotations": {"encoding": "gzip"}}, "data": {"tfstate": base64.b64encode(state).decode()}}
        self.assertEqual(client.get(SECRETS + "/tfstate-default-prod").status, 404)
        made = client.must("POST", SECRETS, secret)
        listed = client.must("GET", SECRETS + "?labelSelector=tfstate%3Dtrue%2CtfstateSecretSuffix%3Dprod")
        self.assertEqual([each["metadata"]["name"] for each in listed["items"]], ["tfstate-default-prod"])
        self.assertEqual(base64.b64decode(listed["items"][0]["data"]["tfstate"]), state)
        made["data"]["tfstate"] = base64.b64encode(gzip.compress(b"{}", mtime=0)).decode()
        client.must("PUT", SECRETS + "/tfstate-default-prod", made)
        stale = client.request("PUT", SECRETS + "/tfstate-default-prod", made)
        self.assertEqual((stale.status, stale.json["reason"]), (409, "Conflict"))

        # Unlocked it is taken by whoever updates first; the second one's read is too old by then.
        mine["spec"]["holderIdentity"] = None
        free = client.must("PUT", LEASES + "/lock-tfstate-default-prod", mine)
        self.assertNotIn("holderIdentity", free["spec"])
        taken = {**free, "spec": {"holderIdentity": "two"}}
        self.assertEqual(client.must("PUT", LEASES + "/lock-tfstate-default-prod", taken)["spec"]["holderIdentity"], "two")
        late = client.request("PUT", LEASES + "/lock-tfstate-default-prod", {**free, "spec": {"holderIdentity": "three"}})
        self.assertEqual((late.status, late.json["reason"]), (409, "Conflict"))


if __name__ == "__main__":
    unittest.main()
