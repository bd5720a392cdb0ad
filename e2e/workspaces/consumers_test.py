"""Providers and consumers on every shard (TP-068, TP-134): what discovery, claims, conflicts and the first consumer
look like through the proxy, and what becomes of all of it when exports, schemas, claims or bindings go while they are used."""
import json
import threading
import unittest

import kit

APIS = "/apis/apis.kcp.io/v1alpha2"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"Content-Type": "application/merge-patch+json"}
SHARDS = ("root", "shard-1", "shard-2")
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def names_of(plural, kind):
    return {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"}


def schema(group, plural, kind, prefix="v1", structure=None):
    return {"apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"{prefix}.{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names_of(plural, kind),
                     "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                                   "schema": structure or FREE}]}}


def definition(group, plural, kind):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names_of(plural, kind),
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": FREE}}]}}


def conditions(found):
    return {one["type"]: (one["status"], one.get("reason", "")) for one in found.get("status", {}).get("conditions", [])}


def claim(group, resource, verbs=("*",), **more):
    return {"group": group, "resource": resource, "verbs": list(verbs), **more}


def accepted(group, resource, verbs=("*",), **more):
    return claim(group, resource, verbs, state="Accepted", selector={"matchAll": True}, **more)


def named(item):
    return item["metadata"].get("name")


class Consumers(unittest.TestCase):
    """A provider on shard-1, a consumer on each shard."""
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(*cls.OPTIONS).start_for(cls)
        cls.cluster, cls.at = {}, {}
        for name, shard in (("prov", "shard-1"), ("other", "shard-2"), *((f"on-{shard}", shard) for shard in SHARDS)):
            cls.cluster[name] = cls.installation.make_workspace(name, selector={"name": shard})["spec"]["cluster"]
            cls.at[name] = cls.installation.client(f"/clusters/root:{name}")
        cls.prov, cls.proxy = cls.at["prov"], cls.installation.client("")
        cls.consumers = [cls.at[f"on-{shard}"] for shard in SHARDS]

    def group(self):
        """A group of APIs of this test alone."""
        return self.id().rsplit(".", 1)[1].replace("_", "-").lower()[:30].strip("-") + ".test"

    def export(self, *resources, name=None, provider="prov", **spec):
        """An export of (plural, kind) in the group of the test; its identity."""
        at, group = self.at[provider], self.group()
        for plural, kind in resources:
            at.must("POST", SCHEMAS, schema(group, plural, kind))
        name = name or resources[0][0]
        at.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name},
            "spec": {"resources": [{"group": group, "name": plural, "schema": f"v1.{plural}.{group}", "storage": {"crd": {}}}
                                   for plural, _ in resources], **spec}})
        self.addCleanup(at.request, "DELETE", f"{APIS}/apiexports/{name}")
        return kit.eventually(lambda: at.must("GET", f"{APIS}/apiexports/{name}")["status"]["identityHash"], what="identity")

    def bind(self, consumer, name, claims=(), path="root:prov", wait="Bound"):
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
                "spec": {"reference": {"export": {"path": path, "name": name}}, "permissionClaims": list(claims)}}
        kit.eventually(lambda: consumer.request("POST", APIS + "/apibindings", body).status == 201, what="bound")
        self.addCleanup(self.unbind, consumer, name)
        if wait:
            kit.eventually(lambda: self.binding(consumer, name)["status"]["phase"] == wait, what=wait)

    def binding(self, consumer, name):
        return consumer.must("GET", f"{APIS}/apibindings/{name}")

    @staticmethod
    def unbind(consumer, name):
        consumer.request("DELETE", f"{APIS}/apibindings/{name}")
        kit.eventually(lambda: consumer.get(f"{APIS}/apibindings/{name}").status == 404, what="binding gone")

    def patch(self, client, path, **body):
        return client.must("PATCH", path, json.dumps(body), headers=MERGE)

    def vw(self, name, cluster="*", provider="prov"):
        return self.installation.client(f"/services/apiexport/{self.cluster[provider]}/{name}/clusters/{self.cluster.get(cluster, cluster)}")

    def objects(self, plural, namespace="default"):
        return f"/apis/{self.group()}/v1/{f'namespaces/{namespace}/' if namespace else ''}{plural}"

    def put(self, client, plural, kind, name, group=None):
        body = {"apiVersion": f"{group or self.group()}/v1", "kind": kind, "metadata": {"name": name}, "spec": {}}
        path = f"/apis/{group or self.group()}/v1/namespaces/default/{plural}"
        return kit.eventually(lambda: client.must("POST", path, body), what=f"{name} made")

    def shows(self, client, path, names):
        def look():
            answer = client.get(path)
            assert answer.status == 200, answer
            found = sorted(named(item) for item in answer.json["items"])
            assert found == sorted(names), found
            return True

        kit.eventually(look, what=f"{path} shows {names}")

    def watch(self, client, path):
        """A running watch from now on."""
        listed = client.must("GET", path)["metadata"]["resourceVersion"]
        return kit.Watch(client, f"{path}?watch=true&allowWatchBookmarks=true&resourceVersion={listed}")

    @staticmethod
    def saw(watch, kind, name):
        kit.eventually(lambda: any(e["type"] == kind and named(e["object"]) == name for e in watch.events),
                       what=f"{kind} {name} on the watch")

    def test_TP_061_discovery_shows_what_the_export_has_and_claims(self):
        group = self.group()
        self.export(("apples", "Apple"), ("pears", "Pear"), name="fruit", permissionClaims=[
            claim("", "configmaps", ("get", "list")), claim("rbac.authorization.k8s.io", "roles")])
        self.bind(self.at["on-root"], "fruit")
        self.bind(self.at["on-shard-2"], "fruit")
        for cluster in ("*", "on-root", "on-shard-2"):
            view = self.vw("fruit", cluster)

            def groups(v=view):
                found = {g["name"] for g in v.must("GET", "/apis")["groups"]}
                self.assertEqual(found, {group, "rbac.authorization.k8s.io", "apis.kcp.io"})
                return found

            kit.eventually(groups, what=f"groups of {cluster}")

            def resources(path, v=view):
                return {one["name"]: sorted(one["verbs"]) for one in v.must("GET", path)["resources"]}

            own = resources(f"/apis/{group}/v1")
            self.assertEqual(sorted(own), ["apples", "apples/status", "pears", "pears/status"], cluster)
            self.assertIn("deletecollection", own["pears"])
            self.assertEqual(list(resources("/api/v1")), ["configmaps"], cluster)
            self.assertEqual(list(resources("/apis/rbac.authorization.k8s.io/v1")), ["roles"], cluster)
            self.assertEqual([name for name in resources("/apis/apis.kcp.io/v1alpha2") if "/" not in name], ["apibindings"], cluster)
            self.assertEqual(resources("/apis/apis.kcp.io/v1alpha2")["apibindings"], ["get", "list", "watch"])
            documents = view.must("GET", "/openapi/v3")["paths"]
            self.assertIn(f"apis/{group}/v1", documents)
            self.assertNotIn("apis/apps/v1", documents)
            own = view.must("GET", f"/openapi/v3/apis/{group}/v1")["components"]["schemas"]
            kinds = {k["kind"] for one in own.values() for k in one.get("x-kubernetes-group-version-kind", []) if k["group"] == group}
            self.assertLessEqual({"Apple", "Pear"}, kinds, cluster)

    def test_TP_068_claimed_objects_of_every_shard_at_every_endpoint(self):
        identity = self.export(("nuts", "Nut"), provider="other")
        group = self.group()
        self.export(("trees", "Tree"), permissionClaims=[claim("", "configmaps"), claim(group, "nuts", identityHash=identity)])
        grants = [accepted("", "configmaps"), accepted(group, "nuts", identityHash=identity)]
        for number, consumer in enumerate(self.consumers):
            self.bind(consumer, "nuts", path="root:other")
            self.bind(consumer, "trees", grants)
            self.put(consumer, "nuts", "Nut", f"nut-{number}")
            consumer.must("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"map-{number}"}})
            self.addCleanup(consumer.request, "DELETE", f"/api/v1/namespaces/default/configmaps/map-{number}")
        tail = f"/services/apiexport/{self.cluster['prov']}/trees/clusters/*"
        for path, what in ((f"/apis/{group}/v1/nuts", "nut"), ("/api/v1/configmaps?labelSelector=!none", "map")):
            def own(prefix, p=path, w=what):
                answer = self.proxy.get(prefix + tail + p)
                assert answer.status == 200, answer
                return sorted(named(item) for item in answer.json["items"] if named(item).startswith(w + "-"))

            for number, shard in enumerate(SHARDS):
                kit.eventually(lambda n=number, s=shard: own(f"/shards/{s}") == [f"{what}-{n}"], what=f"{what} of {shard}")
            kit.eventually(lambda: own("") == [f"{what}-{n}" for n in range(3)], what=f"{what} of all")

    def test_TP_072_a_definition_of_the_consumer_stands_in_the_way(self):
        group, one, two = self.group(), self.at["on-root"], self.at["on-shard-2"]
        self.export(("rocks", "Rock"))
        one.must("POST", CRDS, definition(group, "rocks", "Rock"))
        self.addCleanup(one.request, "DELETE", f"{CRDS}/rocks.{group}")
        self.put(one, "rocks", "Rock", "local")
        self.bind(two, "rocks")
        self.put(two, "rocks", "Rock", "bound")
        self.bind(one, "rocks", wait=None)
        kit.eventually(lambda: conditions(self.binding(one, "rocks"))["BindingUpToDate"] == ("False", "NamingConflicts"),
                       what="the conflict is told")
        view = self.vw("rocks")
        self.shows(view, self.objects("rocks", None), ["bound"])
        self.assertEqual(named(one.must("GET", self.objects("rocks"))["items"][0]), "local")
        one.must("DELETE", f"{CRDS}/rocks.{group}")
        kit.eventually(lambda: self.binding(one, "rocks")["status"]["phase"] == "Bound", what="bound once the definition is gone")
        self.put(one, "rocks", "Rock", "second")
        self.shows(view, self.objects("rocks", None), ["bound", "second"])

    def test_TP_118_a_claimed_api_that_one_shard_alone_has(self):
        group = self.group()
        identity = self.export(("spokes", "Spoke"), provider="other")
        self.export(("hubs", "Hub"), permissionClaims=[claim(group, "spokes", identityHash=identity)])
        for consumer in self.consumers:
            self.bind(consumer, "hubs", [accepted(group, "spokes", identityHash=identity)])
        one, two = self.at["on-root"], self.at["on-shard-2"]
        self.bind(one, "spokes", path="root:other")
        self.put(one, "spokes", "Spoke", "first")
        view, path = self.vw("hubs"), self.objects("spokes", None)
        self.shows(view, path, ["first"])
        stream = self.watch(view, path)
        self.put(one, "spokes", "Spoke", "second")
        self.saw(stream, "ADDED", "second")
        self.bind(two, "spokes", path="root:other")
        self.put(two, "spokes", "Spoke", "third")
        self.saw(stream, "ADDED", "third")
        self.shows(view, path, ["first", "second", "third"])
        self.assertIsNone(stream.ended_at, "it is one stream")

    def test_TP_134_the_first_consumer_comes_to_an_open_watch(self):
        self.export(("firsts", "First"))
        view, path = self.vw("firsts"), self.objects("firsts", None)
        listed = kit.eventually(lambda: view.must("GET", path), what="an empty list")
        self.assertEqual(listed["items"], [])
        self.assertTrue(listed["metadata"]["resourceVersion"].isdigit())
        stream = self.watch(view, path)
        for number, consumer in enumerate(self.consumers):
            self.bind(consumer, "firsts")
            self.put(consumer, "firsts", "First", f"of-{number}")
            self.saw(stream, "ADDED", f"of-{number}")
        self.assertIsNone(stream.ended_at, "it is one stream")
        seen = [named(e["object"]) for e in stream.events if e["type"] == "ADDED"]
        self.assertEqual(sorted(seen), ["of-0", "of-1", "of-2"], "each once")

    def test_a_claim_withdrawn_under_an_open_watch(self):
        self.export(("taps", "Tap"), permissionClaims=[claim("", "configmaps")])
        maps = "/api/v1/namespaces/default/configmaps"
        one, two = self.at["on-root"], self.at["on-shard-2"]
        for consumer, name in ((one, "of-one"), (two, "of-two")):
            self.bind(consumer, "taps", [accepted("", "configmaps")])
            consumer.must("POST", maps, {"metadata": {"name": name, "labels": {"test": "taps"}}})
            self.addCleanup(consumer.request, "DELETE", f"{maps}/{name}")
        view, path = self.vw("taps"), "/api/v1/configmaps"
        own = path + "?labelSelector=test%3Dtaps"
        self.shows(view, own, ["of-one", "of-two"])
        stream = self.watch(view, path)
        # A consumer takes its grant back: its objects leave the stream, those of the other stay.
        self.patch(one, f"{APIS}/apibindings/taps", spec={"permissionClaims": [{**accepted("", "configmaps"), "state": "Rejected"}]})
        self.saw(stream, "DELETED", "of-one")
        self.shows(view, own, ["of-two"])
        self.assertEqual(self.vw("taps", "on-root").get(maps + "/of-one").status, 403)
        self.assertEqual(one.must("GET", maps + "/of-one")["metadata"]["name"], "of-one", "the object itself stays")
        two.must("PATCH", maps + "/of-two", json.dumps({"data": {"a": "b"}}), headers=MERGE)
        self.saw(stream, "MODIFIED", "of-two")
        # The provider stops to claim: the kind is gone, the watch ends, a new one is refused.
        self.patch(self.prov, f"{APIS}/apiexports/taps", spec={"permissionClaims": []})
        kit.eventually(lambda: view.get(path).status == 404, what="nothing of the kind")
        kit.eventually(lambda: stream.ended_at, 40, "the end of the watch")
        two.must("PATCH", maps + "/of-two", json.dumps({"data": {"a": "secret"}}), headers=MERGE)
        self.assertNotIn("secret", json.dumps(stream.events))
        kit.eventually(lambda: view.get(path + "?watch=true&timeoutSeconds=1").status != 200, what="a new watch is refused")

    def test_an_export_that_vanishes_while_it_is_watched(self):
        self.export(("ghosts", "Ghost"))
        one = self.at["on-shard-2"]
        self.bind(one, "ghosts")
        self.put(one, "ghosts", "Ghost", "a")
        view, path = self.vw("ghosts"), self.objects("ghosts", None)
        self.shows(view, path, ["a"])
        stream = self.watch(view, path)
        self.prov.must("DELETE", f"{APIS}/apiexports/ghosts")
        kit.eventually(lambda: view.get(path).status in (403, 404), what="its virtual workspace is shut")
        kit.eventually(lambda: stream.ended_at, what="the end of the watch")
        kit.eventually(lambda: conditions(self.binding(one, "ghosts"))["APIExportValid"] == ("False", "APIExportNotFound"))
        self.put(one, "ghosts", "Ghost", "b")
        self.assertEqual(len(one.must("GET", self.objects("ghosts"))["items"]), 2, "what is bound stays")
        self.assertNotIn("b", [named(e["object"]) for e in stream.events])

    def test_a_schema_that_is_not_valid(self):
        group, one = self.group(), self.at["on-shard-2"]
        self.export(("forms", "Form"))
        self.bind(one, "forms")
        self.put(one, "forms", "Form", "a")
        bad = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "wrong"}}}}}
        answer = self.prov.request("POST", SCHEMAS, schema(group, "forms", "Form", "v2", bad))
        self.assertEqual(answer.status, 403, answer)  # KK-185
        name = f"v2.forms.{group}"  # which is not there
        self.patch(self.prov, f"{APIS}/apiexports/forms", spec={"resources": [
            {"group": group, "name": "forms", "schema": name, "storage": {"crd": {}}}]})

        def told():
            found = conditions(self.binding(one, "forms"))
            return "False" in (found["APIExportValid"][0], found["BindingUpToDate"][0])

        kit.eventually(told, what="the binding says that it is behind")
        self.assertEqual(self.binding(one, "forms")["status"]["phase"], "Bound")
        self.put(one, "forms", "Form", "b")
        self.assertEqual(sorted(named(o) for o in one.must("GET", self.objects("forms"))["items"]), ["a", "b"], "served as before")
        self.prov.must("POST", SCHEMAS, schema(group, "forms", "Form", "v4"))
        self.patch(self.prov, f"{APIS}/apiexports/forms", spec={"resources": [
            {"group": group, "name": "forms", "schema": f"v4.forms.{group}", "storage": {"crd": {}}}]})
        kit.eventually(lambda: conditions(self.binding(one, "forms"))["BindingUpToDate"][0] == "True", what="healed")

    def test_a_binding_deleted_while_objects_are_written(self):
        self.export(("sparks", "Spark"))
        one, two = self.at["on-root"], self.at["on-shard-2"]
        stop, made, other = threading.Event(), [], []

        def write(consumer, into, prefix):
            number = 0
            while not stop.is_set() and number < 5000:
                number += 1
                answer = consumer.request("POST", self.objects("sparks"), {
                    "apiVersion": f"{self.group()}/v1", "kind": "Spark", "metadata": {"name": f"{prefix}-{number}"}})
                into.append(answer.status)

        self.bind(two, "sparks")
        self.bind(one, "sparks")
        view, path = self.vw("sparks"), self.objects("sparks", None)
        stream = self.watch(view, path)
        writers = [threading.Thread(target=write, args=arguments, daemon=True) for arguments in (
            (one, made, "a"), (one, made, "b"), (two, other, "c"))]
        for writer in writers:
            writer.start()
        for _ in range(2):
            kit.eventually(lambda: made.count(201) > 20, what="objects are written")
            self.unbind(one, "sparks")
            kit.eventually(lambda: made[-1] in (403, 404), what="writes are refused")
            before = len(made)
            kit.eventually(lambda: len(made) > before + 4)
            self.assertEqual(set(made[before + 2:]) & {200, 201, 500, 503}, set(), "no write gets in without a binding")
            del made[:]
            self.bind(one, "sparks")
        kit.eventually(lambda: made.count(201) > 5, what="writes go on")
        self.unbind(one, "sparks")
        stop.set()
        for writer in writers:
            writer.join(60)
        self.assertEqual(set(other), {201}, "the other consumer notices nothing")
        self.assertTrue(set(made) <= {201, 403, 404, 409}, sorted(set(made)))
        self.bind(one, "sparks")
        self.assertEqual(one.must("GET", self.objects("sparks"))["items"], [], "nothing was left behind")
        for item in two.must("GET", self.objects("sparks"))["items"]:
            self.saw(stream, "ADDED", named(item))
        left = {}
        kit.eventually(lambda: len(stream.events) >= len(other), what="the stream has all")

        def replayed():
            left.clear()
            for event in list(stream.events):
                if event["type"] in ("ADDED", "MODIFIED"):
                    left[event["object"]["metadata"]["uid"]] = named(event["object"])
                elif event["type"] == "DELETED":
                    left.pop(event["object"]["metadata"]["uid"], None)
            return sorted(left.values()) == sorted(named(o) for o in two.must("GET", self.objects("sparks"))["items"])

        kit.eventually(replayed, what="the watch tells the same")

    def test_rights_on_a_claimed_api_that_change_under_an_open_watch(self):
        group = self.group()
        identity = self.export(("badges", "Badge"), provider="other", maximalPermissionPolicy={"local": {}})
        for role, user, verbs in (("owners", "apis.kcp.io:binding:kcp-admin", ["*"]),
                                  ("readers", "apis.kcp.io:binding:watcher", ["list", "watch"])):
            self.at["other"].must("POST", RBAC + "/clusterroles", {"metadata": {"name": role}, "rules": [
                {"apiGroups": [group], "resources": ["badges"], "verbs": verbs}]})
            self.at["other"].must("POST", RBAC + "/clusterrolebindings", {
                "metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
        for role, rule in (("content", {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["*"]}),
                           ("access", {"nonResourceURLs": ["/"], "verbs": ["access"]})):
            self.prov.must("POST", RBAC + "/clusterroles", {"metadata": {"name": role}, "rules": [rule]})
            self.prov.must("POST", RBAC + "/clusterrolebindings", {
                "metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "watcher"}]})
        self.export(("houses", "House"), permissionClaims=[claim(group, "badges", identityHash=identity)])
        one = self.at["on-root"]
        self.bind(one, "badges", path="root:other")
        self.bind(one, "houses", [accepted(group, "badges", identityHash=identity)])
        self.put(one, "badges", "Badge", "a")
        view = self.installation.user_client("watcher", path=f"/services/apiexport/{self.cluster['prov']}/houses/clusters/*")
        path = self.objects("badges", None)
        self.shows(view, path, ["a"])
        stream = self.watch(view, path)
        self.put(one, "badges", "Badge", "b")
        self.saw(stream, "ADDED", "b")
        # The right is taken away in the cluster of the claimed export, which is on another shard than everything else.
        self.at["other"].must("DELETE", RBAC + "/clusterrolebindings/readers")
        clock = kit.Clock()
        kit.eventually(lambda: view.get(path).status == 403, what="lists are refused")
        kit.eventually(lambda: stream.ended_at, what="the watch ends with its right")
        self.assertLess(clock.spent(), 10)
        self.put(one, "badges", "Badge", "c")
        self.assertNotIn("c", [named(e["object"]) for e in stream.events])


class OnSeveralLoops(Consumers):
    """The same where each request may come to another thread of a shard than the one before."""
    OPTIONS = ("--shard-loops", "3")


if __name__ == "__main__":
    unittest.main()
