"""What tests of rows share: the objects that they make, answers that refuse, and watches that are open."""
import json
import re
import unittest


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name, **labels):
    """A new namespace has none of these. What the rows look at are the labels."""
    return {"metadata": {"name": name, "labels": labels}}


def names_of(listed):
    return [item["metadata"]["name"] for item in listed["items"]]


def version_of(thing):
    return int(thing["metadata"]["resourceVersion"])


def definition(plural, kind):
    properties = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                  "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.row.test"}, "spec": {
                "group": "row.test", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [{
                    "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}]}}


def gear(name):
    return {"apiVersion": "gear.test/v1", "kind": "Gear", "metadata": {"name": name}, "spec": {}}


def schema(name):
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": name}, "spec": {
        "group": "gear.test", "scope": "Namespaced",
        "names": {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                      "schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}]}}


class Stream:
    """A watch that is open when this returns: the server has answered."""

    def __init__(self, case, client, path):
        self.connection = client.connect(20)
        case.addCleanup(self.connection.close)
        self.connection.request("GET", client.url.path + path)
        self.response = self.connection.getresponse()
        case.assertEqual(self.response.status, 200)

    def next(self):
        return json.loads(self.response.readline())

    def names(self, count):
        return [(event["type"], event["object"]["metadata"]["name"]) for event in (self.next() for _ in range(count))]


class Case(unittest.TestCase):
    client = None    # set by the module of the tests

    def status(self, answer, code, reason, message):
        """`message` is the whole text, or a pattern of it."""
        self.assertEqual(answer.status, code, answer)
        body = answer.json
        self.assertEqual((body["kind"], body["status"], body["code"], body.get("reason")), ("Status", "Failure", code, reason))
        if isinstance(message, re.Pattern):
            self.assertRegex(body["message"], message)
        else:
            self.assertEqual(body["message"], message)
        return body

    def invalid_options(self, path, *causes):
        """A 422 of ListOptions with these causes, each `(field, text)`."""
        texts = [f"{field}: {text}" for field, text in causes]
        message = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
        details = self.status(self.client.get(path), 422, "Invalid",
                              'ListOptions.meta.k8s.io "" is invalid: ' + message)["details"]
        self.assertEqual((details["group"], details["kind"]), ("meta.k8s.io", "ListOptions"))
        self.assertEqual([(cause["field"], cause["message"]) for cause in details["causes"]], list(causes))

    def too_large(self, path, version):
        body = self.status(self.client.get(path), 504, "Timeout",
                           re.compile(rf"^Timeout: Too large resource version: {version}, current: [0-9]+$"))
        self.assertEqual([cause["reason"] for cause in body["details"]["causes"]], ["ResourceVersionTooLarge"])
