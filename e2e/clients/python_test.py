"""The Python client, unmodified (AM-554): its typed, custom-object and dynamic clients, watches and its
informer, in a workspace of another shard than root's, through the proxy. The library is the interpreter's own if it has one,
else it comes from the package index into a temporary environment; without either the tests are skipped."""
import datetime
import importlib
import logging
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import unittest

import kit

ONLY_WITH_ALL = "fetches the client from the package index"

VERSION = "37.0.2"
GROUP = "py.example.com"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"snakes.{GROUP}"},
    "spec": {"group": GROUP, "scope": "Namespaced",
             "names": {"plural": "snakes", "singular": "snake", "kind": "Snake", "listKind": "SnakeList", "shortNames": ["sn"]},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {
                 "openAPIV3Schema": {"type": "object", "properties": {
                     "spec": {"type": "object", "required": ["length"], "properties": {
                         "length": {"type": "integer"}, "colors": {"type": "array", "items": {"type": "string"}}}},
                     "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}}
SPACE = "default"


def import_library(folder):
    """Imports `kubernetes`; raises SkipTest with the reason if it can not be had."""
    try:
        return importlib.import_module("kubernetes")
    except ImportError:
        pass
    run = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True, check=False)
    if run.returncode:
        raise unittest.SkipTest(f"no virtual environment: {(run.stderr or run.stdout).strip()[-200:]}")
    try:
        run = subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--retries=1", "--timeout=10",
                              f"kubernetes=={VERSION}"], capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        raise unittest.SkipTest(f"kubernetes {VERSION} not installed within 300 s") from None
    if run.returncode:
        raise unittest.SkipTest(f"kubernetes {VERSION} can not be installed: {run.stderr.strip()[-200:]}")
    packages = next(folder.glob("lib/python*/site-packages"))
    sys.path.insert(0, str(packages))
    importlib.invalidate_caches()
    return importlib.import_module("kubernetes")


class PythonClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-e2e-venv-"))
        cls.addClassCleanup(shutil.rmtree, folder, True)
        cls.library = import_library(folder)
        for module in ("client", "config", "dynamic", "dynamic.exceptions", "informer", "utils", "watch"):
            importlib.import_module("kubernetes." + module)
        logging.getLogger("kubernetes").setLevel(logging.CRITICAL)
        cls.installation = kit.shared(cls)
        cls.installation.make_workspace("python", selector={"region": "us-east-1"})
        library = cls.library
        configuration = library.client.Configuration()
        library.config.load_kube_config(str(cls.installation.kubeconfig), context="base", client_configuration=configuration,
                                        persist_config=False)
        configuration.host = configuration.host.rstrip("/") + "/clusters/root:python"
        cls.api = library.client.ApiClient(configuration)
        cls.addClassCleanup(cls.api.close)
        cls.core = library.client.CoreV1Api(cls.api)
        cls.objects = library.client.CustomObjectsApi(cls.api)
        library.utils.create_from_dict(cls.api, CRD)
        kit.eventually(cls.snakes_are_served, 20, "CRD served")
        cls.cache = str(cls.installation.dir / "python-discovery.json")
        cls.dynamic = library.dynamic.DynamicClient(cls.api, cache_file=cls.cache)

    @classmethod
    def snakes_are_served(cls):
        try:
            return cls.objects.list_namespaced_custom_object(GROUP, "v1", SPACE, "snakes")["kind"] == "SnakeList"
        except cls.library.client.ApiException as fault:
            raise AssertionError(f"{fault.status} {fault.reason}") from fault

    def fails(self, status, reason, call, *args, **kwargs):
        with self.assertRaises(self.library.client.ApiException) as caught:
            call(*args, **kwargs)
        self.assertEqual(caught.exception.status, status, caught.exception)
        self.assertIn(f'"reason":"{reason}"', str(caught.exception.body).replace('": "', '":"'))

    def config_map(self, name, labels=None, **data):
        models = self.library.client
        return models.V1ConfigMap(metadata=models.V1ObjectMeta(name=name, labels=labels), data=data)

    def test_typed_objects_live_and_die(self):
        core = self.core
        made = core.create_namespaced_config_map(SPACE, self.config_map("typed", {"app": "py"}, a="1"))
        self.addCleanup(core.delete_collection_namespaced_config_map, SPACE, label_selector="app=py")
        self.assertIsInstance(made.metadata.creation_timestamp, datetime.datetime)
        self.assertTrue(made.metadata.resource_version.isdecimal())
        self.fails(409, "AlreadyExists", core.create_namespaced_config_map, SPACE, self.config_map("typed"))
        stale = core.read_namespaced_config_map("typed", SPACE)
        made.data["a"] = "2"
        core.replace_namespaced_config_map("typed", SPACE, made)
        stale.data["a"] = "3"
        self.fails(409, "Conflict", core.replace_namespaced_config_map, "typed", SPACE, stale)
        self.assertEqual(core.read_namespaced_config_map("typed", SPACE).data, {"a": "2"})
        dry = core.create_namespaced_config_map(SPACE, self.config_map("dry", {"app": "py"}), dry_run="All")
        self.assertTrue(dry.metadata.uid)
        self.fails(404, "NotFound", core.read_namespaced_config_map, "dry", SPACE)
        found = core.list_namespaced_config_map(SPACE, label_selector="app=py", field_selector="metadata.name=typed")
        self.assertEqual([item.metadata.name for item in found.items], ["typed"])
        self.assertIn("typed", [item.metadata.name for item in core.list_config_map_for_all_namespaces().items])
        wrong = self.library.client.V1DeleteOptions(preconditions=self.library.client.V1Preconditions(uid="another"))
        self.fails(409, "Conflict", core.delete_namespaced_config_map, "typed", SPACE, body=wrong)
        answer = core.delete_namespaced_config_map("typed", SPACE)
        self.assertEqual(answer["status"], "Success")
        self.fails(404, "NotFound", core.read_namespaced_config_map, "typed", SPACE)
        self.fails(422, "Invalid", core.create_namespaced_config_map, SPACE, self.config_map("Not A Name"))
        self.assertEqual(self.library.client.VersionApi(self.api).get_code().major, "1")

    def test_patches_of_every_kind(self):
        core = self.core
        core.create_namespaced_config_map(SPACE, self.config_map("patched", None, a="1", b="1"))
        self.addCleanup(core.delete_namespaced_config_map, "patched", SPACE)

        def patch(kind, body, **more):
            return core.patch_namespaced_config_map("patched", SPACE, body, _content_type=f"application/{kind}", **more).data

        self.assertEqual(patch("merge-patch+json", {"data": {"a": None, "c": "1"}}), {"b": "1", "c": "1"})
        self.assertEqual(patch("json-patch+json", [{"op": "test", "path": "/data/b", "value": "1"},
                                                   {"op": "move", "from": "/data/b", "path": "/data/d"}]), {"c": "1", "d": "1"})
        self.assertEqual(patch("strategic-merge-patch+json", {"data": {"$patch": "replace", "e": "1"}}), {"e": "1"})
        self.assertEqual(core.patch_namespaced_config_map("patched", SPACE, {"data": {"f": "1"}}).data, {"e": "1", "f": "1"})
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched"}, "data": {"g": "1"}}
        self.assertEqual(patch("apply-patch+yaml", applied, field_manager="py")["g"], "1")
        applied["data"] = {"e": "2"}
        self.fails(409, "Conflict", patch, "apply-patch+yaml", applied, field_manager="py")
        self.assertEqual(patch("apply-patch+yaml", applied, field_manager="py", force=True), {"e": "2", "f": "1"})
        self.fails(422, "Invalid", patch, "json-patch+json", [{"op": "remove", "path": "/data/absent"}])

    def test_lists_come_in_pages(self):
        names = [f"page-{n}" for n in range(7)]
        for name in names:
            self.core.create_namespaced_secret(SPACE, self.library.client.V1Secret(
                metadata=self.library.client.V1ObjectMeta(name=name, labels={"paged": "py"}), string_data={"k": "v"}))
        self.addCleanup(self.core.delete_collection_namespaced_secret, SPACE, label_selector="paged=py")
        seen, versions, token = [], set(), None
        while True:
            page = self.core.list_namespaced_secret(SPACE, label_selector="paged=py", limit=3, _continue=token)
            seen += [item.metadata.name for item in page.items]
            versions.add(page.metadata.resource_version)
            token = page.metadata._continue
            if not token:
                break
        self.assertEqual(seen, names)
        self.assertEqual(len(versions), 1)
        self.assertEqual(page.items[0].data, {"k": "dg=="})

    def test_watch_resumes_and_ends(self):
        core, watch = self.core, self.library.watch.Watch()
        core.create_namespaced_config_map(SPACE, self.config_map("watched", {"watched": "py"}, n="0"))
        start = core.list_namespaced_config_map(SPACE, label_selector="watched=py").metadata.resource_version
        for n in "12":
            core.patch_namespaced_config_map("watched", SPACE, {"data": {"n": n}})
        core.delete_namespaced_config_map("watched", SPACE)

        def events(since, **more):
            return watch.stream(core.list_namespaced_config_map, SPACE, label_selector="watched=py", resource_version=since, **more)

        seen = []
        for event in events(start, allow_watch_bookmarks=True):
            if event["type"] != "BOOKMARK":
                self.assertIsInstance(event["object"], self.library.client.V1ConfigMap)
                seen.append((event["type"], event["object"].data["n"]))
                if event["type"] == "DELETED":
                    watch.stop()
        self.assertEqual(seen, [("MODIFIED", "1"), ("MODIFIED", "2"), ("DELETED", "2")])
        self.assertGreater(int(watch.resource_version), int(start))
        # Nothing happens after the last event, so that the server's end of the watch is the end of the stream; a bookmark of
        # its last second moves the position.
        last = watch.resource_version
        quiet = list(events(last, timeout_seconds=1, allow_watch_bookmarks=True))
        self.assertLessEqual({event["type"] for event in quiet}, {"BOOKMARK"})
        self.assertGreaterEqual(int(watch.resource_version), int(last))
        initial = []
        for event in events("", send_initial_events=True, resource_version_match="NotOlderThan", allow_watch_bookmarks=True,
                            timeout_seconds=10):
            initial.append(event)
            if event["type"] == "BOOKMARK":
                watch.stop()
        self.assertEqual(len(initial), 1)
        self.assertEqual(initial[0]["raw_object"]["metadata"]["annotations"], {"k8s.io/initial-events-end": "true"})
        with self.assertRaises(self.library.client.ApiException) as caught:
            list(events("no-number", timeout_seconds=1))
        self.assertEqual(caught.exception.status, 500)  # without a reason, as from a kube-apiserver
        self.assertIn("invalid syntax", str(caught.exception.body))

    def test_T31_T51_one_watch_over_all_shards(self):
        library, watch = self.library, self.library.watch.Watch()
        configuration = library.client.Configuration()
        library.config.load_kube_config(str(self.installation.kubeconfig), context="base", client_configuration=configuration,
                                        persist_config=False)
        configuration.host = configuration.host.rstrip("/") + "/clusters/*"
        everywhere = library.client.ApiClient(configuration)
        self.addCleanup(everywhere.close)
        places = [self.core]
        for region in ("eu-west-1", "ap-south-1"):
            self.installation.make_workspace("python-" + region, selector={"region": region})
            own = library.client.Configuration()
            library.config.load_kube_config(str(self.installation.kubeconfig), context="base", client_configuration=own,
                                            persist_config=False)
            own.host = own.host.rstrip("/") + "/clusters/root:python-" + region
            api = library.client.ApiClient(own)
            self.addCleanup(api.close)
            places.append(library.client.CoreV1Api(api))
        chosen = {"label_selector": "merged=py"}
        for place in places:
            place.create_namespaced_config_map(SPACE, self.config_map("shared", {"merged": "py"}, n="0"))
        ask = library.client.CoreV1Api(everywhere).list_config_map_for_all_namespaces
        listed = ask(**chosen)
        clusters = {item.metadata.annotations["kcp.io/cluster"]: item.metadata.resource_version for item in listed.items}
        self.assertEqual(len(clusters), len(places))
        paged = ask(limit=1, **chosen)
        self.assertEqual((len(paged.items), paged.metadata.resource_version), (1, listed.metadata.resource_version))
        for place in places:
            place.patch_namespaced_config_map("shared", SPACE, {"data": {"n": "1"}})
        since, seen = listed.metadata.resource_version, {}
        for event in watch.stream(ask, resource_version=since, allow_watch_bookmarks=True, timeout_seconds=20, **chosen):
            if event["type"] == "BOOKMARK" and len(seen) == len(places):
                watch.stop()
            elif event["type"] != "BOOKMARK":
                seen[event["object"].metadata.annotations["kcp.io/cluster"]] = (event["type"], event["object"].data["n"])
        self.assertEqual(seen, dict.fromkeys(clusters, ("MODIFIED", "1")))
        self.assertGreater(int(watch.resource_version), int(since))  # a cursor: the client goes on from here
        for place in places:
            place.delete_namespaced_config_map("shared", SPACE)
        gone = []
        for event in watch.stream(ask, resource_version=watch.resource_version, timeout_seconds=20, **chosen):
            gone.append((event["type"], event["object"].metadata.annotations["kcp.io/cluster"]))
            if len(gone) == len(places):
                watch.stop()
        self.assertEqual(sorted(gone), sorted(("DELETED", cluster) for cluster in clusters))
        self.fails(405, "MethodNotAllowed", library.client.CoreV1Api(everywhere).create_namespaced_config_map, SPACE, self.config_map("no"))

    def test_informer_follows(self):
        seen = queue.Queue()
        informer = self.library.informer.SharedInformer(self.core.list_namespaced_config_map, namespace=SPACE,
                                                        label_selector="informed=py")
        for kind in ("ADDED", "MODIFIED", "DELETED", "ERROR"):
            informer.add_event_handler(kind, lambda found, kind=kind: seen.put((kind, getattr(found, "data", found))))
        self.core.create_namespaced_config_map(SPACE, self.config_map("before", {"informed": "py"}, n="1"))
        informer.start()
        try:
            self.assertEqual(seen.get(timeout=60), ("ADDED", {"n": "1"}))
            self.core.create_namespaced_config_map(SPACE, self.config_map("after", {"informed": "py"}, n="2"))
            self.assertEqual(seen.get(timeout=60), ("ADDED", {"n": "2"}))
            self.core.patch_namespaced_config_map("after", SPACE, {"data": {"n": "3"}})
            self.assertEqual(seen.get(timeout=60), ("MODIFIED", {"n": "3"}))
            self.assertEqual(sorted(informer.cache.list_keys()), [f"{SPACE}/after", f"{SPACE}/before"])
            self.core.delete_collection_namespaced_config_map(SPACE, label_selector="informed=py")
            self.assertEqual({seen.get(timeout=60)[0], seen.get(timeout=60)[0]}, {"DELETED"})
        finally:
            informer.stop()

    def test_custom_objects(self):
        place, api = (GROUP, "v1", SPACE, "snakes"), self.objects
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Snake", "metadata": {"name": "adder"}, "spec": {"length": 1},
                "status": {"dropped": True}}
        made = api.create_namespaced_custom_object(*place, body)
        self.assertNotIn("status", made)
        self.assertEqual(made["metadata"]["generation"], 1)
        made["spec"]["colors"] = ["black"]
        made = api.replace_namespaced_custom_object(*place, "adder", made)
        self.assertEqual(made["metadata"]["generation"], 2)
        merged = api.patch_namespaced_custom_object(*place, "adder", {"spec": {"length": 2}}, _content_type="application/merge-patch+json")
        self.assertEqual(merged["spec"], {"length": 2, "colors": ["black"]})
        status = api.patch_namespaced_custom_object_status(*place, "adder", {"status": {"seen": 1}, "spec": {"length": 9}},
                                                           _content_type="application/merge-patch+json")
        self.assertEqual((status["status"], status["spec"]["length"]), ({"seen": 1}, 2))
        self.assertEqual(api.get_namespaced_custom_object_status(*place, "adder")["status"], {"seen": 1})
        self.fails(422, "Invalid", api.create_namespaced_custom_object, *place, {**body, "metadata": {"name": "x"}, "spec": {}})
        self.assertEqual(len(api.list_cluster_custom_object(GROUP, "v1", "snakes")["items"]), 1)
        watch = self.library.watch.Watch()
        for event in watch.stream(api.list_namespaced_custom_object, *place, timeout_seconds=10):
            self.assertEqual((event["type"], event["object"]["metadata"]["name"]), ("ADDED", "adder"))
            watch.stop()
        self.assertEqual(api.delete_namespaced_custom_object(*place, "adder")["status"], "Success")
        self.fails(404, "NotFound", api.get_namespaced_custom_object, *place, "adder")
        with self.assertRaises(self.library.client.ApiException) as caught:
            api.list_cluster_custom_object(GROUP, "v1", "lizards")
        self.assertEqual((caught.exception.status, caught.exception.body), (404, "404 page not found\n"))

    def test_dynamic_client(self):
        faults = self.library.dynamic.exceptions
        snakes = self.dynamic.resources.get(api_version=f"{GROUP}/v1", kind="Snake")
        self.assertEqual((snakes.name, snakes.namespaced, snakes.short_names), ("snakes", True, ["sn"]))
        self.assertEqual(self.dynamic.resources.get(kind="Lease", api_version="coordination.k8s.io/v1").name, "leases")
        self.assertTrue(self.dynamic.resources.get(api_version="v1", kind="ConfigMapList").kind)
        with self.assertRaises(faults.ResourceNotFoundError):
            self.dynamic.resources.get(api_version=f"{GROUP}/v1", kind="Lizard")
        self.assertEqual(self.dynamic.version["kubernetes"]["major"], "1")
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Snake", "metadata": {"name": "boa"}, "spec": {"length": 3}}
        made = snakes.create(body=body, namespace=SPACE)
        with self.assertRaises(faults.ConflictError):
            snakes.create(body=body, namespace=SPACE)
        patched = snakes.patch(body={"metadata": {"name": "boa"}, "spec": {"colors": ["green"]}}, namespace=SPACE,
                               content_type="application/merge-patch+json")
        self.assertEqual(patched.spec.colors, ["green"])
        stale = made.to_dict()
        with self.assertRaises(faults.ConflictError):
            snakes.replace(body=stale, namespace=SPACE)
        applied = snakes.server_side_apply(body={**body, "spec": {"length": 4}}, namespace=SPACE, field_manager="py", force_conflicts=True)
        self.assertEqual((applied.spec.length, applied.spec.colors), (4, ["green"]))
        status = snakes.status.patch(body={"metadata": {"name": "boa"}, "status": {"phase": "Resting"}}, namespace=SPACE,
                                     content_type="application/merge-patch+json")
        self.assertEqual(status.status.phase, "Resting")
        seen = []
        watcher = self.library.watch.Watch()
        for event in snakes.watch(namespace=SPACE, resource_version=made.metadata.resourceVersion, timeout=10, watcher=watcher):
            seen.append(event["type"])
            if event["object"].status:
                watcher.stop()
        self.assertEqual(seen, ["MODIFIED"] * 3)
        self.assertEqual([item.metadata.name for item in snakes.get(namespace=SPACE).items], ["boa"])
        snakes.delete(name="boa", namespace=SPACE)
        with self.assertRaises(faults.NotFoundError):
            snakes.get(name="boa", namespace=SPACE)
        again = self.library.dynamic.DynamicClient(self.api, cache_file=self.cache)  # discovery comes from the file
        self.assertEqual(again.resources.get(api_version=f"{GROUP}/v1", kind="Snake").name, "snakes")


if __name__ == "__main__":
    unittest.main()
