"""Admission webhooks (AM-334) against HTTPS servers of the test: configurations and their faults, what is asked, what an answer
does, order, second round, dry run, failure policies, subresources, bound APIs of other shards (KK-222), and texts (SE-108)."""
import base64
import contextlib
import http.server
import json
import socket
import threading
import time
import unittest

import kit

GROUP = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = GROUP + "/mutatingwebhookconfigurations", GROUP + "/validatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"Content-Type": "application/merge-patch+json"}
SECRET = "the-innermost-secret"


def encoded(patch):
    return base64.b64encode((patch if isinstance(patch, str) else json.dumps(patch)).encode()).decode()


class Hook:
    """A webhook that keeps what it was asked; `answer` gets the request of a review and says what `response` has besides its uid,
    or None for one that writes its own answer through `handler`."""

    def __init__(self, pki, answer):
        self.asked, self.paths, self.versions, hook = [], [], [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.asked.append(review["request"])
                hook.paths.append(self.path)
                hook.versions.append(review["apiVersion"])
                with contextlib.suppress(OSError):
                    response = answer(review["request"], self)
                    if response is not None:
                        self.reply(json.dumps({"kind": "AdmissionReview", "apiVersion": review["apiVersion"],
                                               "response": {"uid": review["request"]["uid"], "allowed": True, **response}}))

            def reply(self, text, status=200, **headers):
                self.send_response(status)
                for name, value in {"Content-Length": str(len(text)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

        self.server = kit.Server(Handler, pki)
        self.url, self.close = self.server.url + "/hook", self.server.close


class Converter:
    """A conversion webhook: what v1beta1 has in spec.text, v1 has in spec.words."""

    def __init__(self, pki):
        self.asked, converter = [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                converter.asked.append(request["desiredAPIVersion"])
                objects = []
                for one in request["objects"]:
                    spec = one.pop("spec", {})
                    text = spec.get("text") or " ".join(spec.get("words", []))
                    fields = {"words": text.split()} if request["desiredAPIVersion"].endswith("/v1") else {"text": text}
                    objects.append({**one, "apiVersion": request["desiredAPIVersion"], "spec": fields})
                text = json.dumps({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": {
                    "uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.server = kit.Server(Handler, pki)
        self.url, self.close = self.server.url + "/convert", self.server.close


def allow(*_):
    return {}


def config_map(name, labels=None, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}


class Webhooks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.Installation(shards=2).start_for(cls)
        cls.clusters = {}
        for name, shard in (("team", "shard-1"), ("other", "shard-1"), ("prov", "root")):
            made = cls.installation.make_workspace(name, selector={"name": shard})
            cls.clusters[name] = made["spec"]["cluster"]
        cls.team, cls.other, cls.prov = (cls.installation.client(f"/clusters/root:{name}") for name in ("team", "other", "prov"))
        cls.bundle = base64.b64encode((cls.installation.pki / "serving-ca.crt").read_bytes()).decode()

    def serve(self, answer):
        hook = Hook(self.installation.pki, answer)
        self.addCleanup(hook.close)
        return hook

    def entry(self, url, name="a.hooks.test", rules=None, **more):
        return {"name": name, "clientConfig": {"url": url, "caBundle": self.bundle}, "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "rules": rules or [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                                                           "operations": ["CREATE", "UPDATE"]}],
                "objectSelector": {"matchLabels": {"test": self.id().rsplit(".", 1)[1][-60:]}}, **more}

    def configure(self, path, *entries, client=None, name=None):
        """A configuration until the end of the test. It acts at once on the loop that stored it; others hear of it."""
        client = client or self.team
        kind = "MutatingWebhookConfiguration" if path == MUTATING else "ValidatingWebhookConfiguration"
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": name or self.id().rsplit(".", 1)[1].lower().replace("_", "-")[:60]}, "webhooks": list(entries)}
        made = client.must("POST", path, body)
        self.addCleanup(client.request, "DELETE", f"{path}/{body['metadata']['name']}")
        return made

    def labels(self):
        return {"test": self.id().rsplit(".", 1)[1][-60:]}

    def make(self, name, client=None, query="", **data):
        return (client or self.team).request("POST", MAPS + query, config_map(name, self.labels(), **data))

    def acts(self, hook, **data):
        """Until the configuration is known on the loop that answers, and has been asked."""
        def asked():
            self.make("probe", query="?dryRun=All", **data)
            return hook.asked

        kit.eventually(asked, what="the webhook is asked")
        hook.asked.clear()
        hook.paths.clear()

    def test_AM334_configurations_have_defaults_and_faults(self):
        made = self.configure(MUTATING, self.entry("https://hooks.test/x"))
        self.assertEqual(made["metadata"]["generation"], 1)
        entry = made["webhooks"][0]
        self.assertEqual([entry[member] for member in ("failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy",
                                                       "namespaceSelector")], ["Fail", "Equivalent", 10, "Never", {}])
        self.assertEqual(entry["rules"][0]["scope"], "*")
        wrong = {"name": "short", "clientConfig": {"url": "http://u:p@hooks.test/?a#b"}, "sideEffects": "Some", "timeoutSeconds": 31,
                 "failurePolicy": "Foo", "matchPolicy": "Bar", "admissionReviewVersions": ["v2", "v2"], "rules": [{}],
                 "matchConditions": [{"name": "x", "expression": "1 +"}]}
        refused = self.team.request("POST", VALIDATING, {"metadata": {"name": "wrong"}, "webhooks": [wrong]})
        self.assertEqual(refused.status, 422)
        self.assertEqual([cause["field"].removeprefix("webhooks[0].") for cause in refused.json["details"]["causes"]], [
            "name", "rules[0].operations", "rules[0].apiGroups", "rules[0].apiVersions", "rules[0].resources", "failurePolicy",
            "matchPolicy", "sideEffects", "timeoutSeconds", "clientConfig.url", "clientConfig.url", "clientConfig.url",
            "clientConfig.url", "matchConditions[0].expression", "admissionReviewVersions[1]", "admissionReviewVersions"])
        for text in ("should be a domain with at least three segments separated by dots", 'supported values: "None", "NoneOnDryRun"',
                     "the timeout value must be between 1 and 30 seconds", "'https' is the only allowed URL scheme",
                     "must include at least one of v1, v1beta1"):
            self.assertIn(text, refused.json["message"])
        for config, text in (({}, "exactly one of url or service is required"),
                             ({"url": "https://a.test", "service": {"name": "s", "namespace": "n"}}, "exactly one of url or service")):
            refused = self.team.request("POST", VALIDATING, {"metadata": {"name": "wrong"}, "webhooks": [
                {**self.entry(""), "clientConfig": config}]})
            self.assertIn(text, refused.json["message"])
        twice = self.team.request("POST", VALIDATING, {"metadata": {"name": "wrong"}, "webhooks": [self.entry("https://a.test")] * 2})
        self.assertIn('webhooks[1].name: Duplicate value: "a.hooks.test"', twice.json["message"])

    def test_AM334_kubectl_shows_configurations(self):
        self.configure(VALIDATING, self.entry("https://hooks.test/x"), self.entry("https://hooks.test/y", "b.hooks.test"), name="shown")
        kubectl = lambda *args: self.installation.kubectl(*args, server="/clusters/root:team")  # noqa: E731
        self.assertRegex(kubectl("get", "validatingwebhookconfigurations"), r"NAME\s+WEBHOOKS\s+AGE\n(.*\n)*shown\s+2\s")
        self.assertIn("Exact, or Equivalent", kubectl("explain", "mutatingwebhookconfiguration.webhooks.matchPolicy"))
        patched = self.team.must("PATCH", VALIDATING + "/shown", json.dumps({"webhooks": [{"name": "b.hooks.test", "timeoutSeconds": 3}]}),
                                 headers={"Content-Type": "application/strategic-merge-patch+json"})
        self.assertEqual([entry["timeoutSeconds"] for entry in patched["webhooks"]], [10, 3])
        self.assertEqual(patched["metadata"]["generation"], 2)

    def test_AM334_there_are_no_services(self):
        entry = {**self.entry(""), "clientConfig": {"service": {"name": "s", "namespace": "n"}}}
        made = self.team.request("POST", VALIDATING, {"metadata": {"name": "service"}, "webhooks": [entry]})
        self.addCleanup(self.team.request, "DELETE", VALIDATING + "/service")
        self.assertEqual(made.status, 201)
        self.assertEqual(made.json["webhooks"][0]["clientConfig"]["service"]["port"], 443)
        self.assertIn("webhooks[0].clientConfig.service: there are no services here", made.headers["Warning"])
        refused = kit.eventually(lambda: (a := self.make("x")).status == 500 and a)
        self.assertEqual(refused.json["message"], 'Internal error occurred: failed calling webhook "a.hooks.test": failed to call '
                                                  "webhook: there are no services here, clientConfig.url is needed")

    def test_AM334_a_mutating_webhook_is_asked_and_changes(self):
        hook = self.serve(lambda request, _: {"patchType": "JSONPatch", "warnings": ["mind this"], "patch": encoded([
            {"op": "add", "path": "/data/added", "value": request["operation"]}, {"op": "add", "path": "/unknown", "value": 1}])})
        self.configure(MUTATING, self.entry(hook.url, timeoutSeconds=7))
        self.acts(hook, a="b")
        made = self.make("made", a="b")
        self.addCleanup(self.team.request, "DELETE", MAPS + "/made")
        self.assertEqual(made.status, 201)
        self.assertEqual(made.json["data"], {"a": "b", "added": "CREATE"})
        self.assertNotIn("unknown", made.json)
        self.assertEqual(made.headers["Warning"], '299 - "mind this"')
        asked = hook.asked[0]
        self.assertEqual(hook.paths, ["/hook?timeout=7s"])
        self.assertEqual((asked["operation"], asked["name"], asked["namespace"], asked["dryRun"], asked["oldObject"]),
                         ("CREATE", "made", "default", False, None))
        self.assertEqual(asked["resource"], {"group": "", "version": "v1", "resource": "configmaps"})
        self.assertEqual(asked["requestKind"], {"group": "", "version": "v1", "kind": "ConfigMap"})
        self.assertEqual(asked["options"]["kind"], "CreateOptions")
        self.assertEqual(asked["object"]["data"], {"a": "b"})
        self.assertEqual(asked["object"]["metadata"]["annotations"]["kcp.io/cluster"], self.clusters["team"])
        self.assertIn("username", asked["userInfo"])
        changed = self.team.must("PATCH", MAPS + "/made", json.dumps({"data": {"a": "c"}}), headers=MERGE)
        self.assertEqual(changed["data"], {"a": "c", "added": "UPDATE"})
        self.assertEqual(hook.asked[1]["oldObject"]["data"], {"a": "b", "added": "CREATE"})
        managers = {entry["manager"]: entry["fieldsV1"] for entry in changed["metadata"]["managedFields"]}
        self.assertNotIn("f:added", json.dumps(managers), "nobody owns what a webhook has added")
        self.other.must("POST", MAPS, config_map("made", self.labels(), a="b"))
        self.assertEqual(len(hook.asked), 2, "webhooks are their workspace's")

    def test_AM334_a_validating_webhook_refuses_in_its_own_words(self):
        verdicts = {"plain": {}, "said": {"status": {"message": "not like that"}}, "reason": {"status": {"reason": "MyReason"}},
                    "code": {"status": {"code": 418, "message": "tea", "reason": "Teapot", "details": {"causes": [{"field": "a"}]}}},
                    "low": {"status": {"code": 200, "message": "low", "status": "Success"}}}
        hook = self.serve(lambda request, _: {"allowed": request["name"] not in verdicts, **verdicts.get(request["name"], {}),
                                              "auditAnnotations": {"k": "v"}})
        self.configure(VALIDATING, self.entry(hook.url))
        self.acts(hook)
        begin = 'admission webhook "a.hooks.test" denied the request'
        for name, code, reason, message in (("plain", 400, None, begin + " without explanation"),
                                            ("said", 400, None, begin + ": not like that"),
                                            ("reason", 400, "MyReason", begin + ": MyReason"),
                                            ("code", 418, "Teapot", begin + ": tea"), ("low", 400, None, begin + ": low")):
            refused = self.make(name)
            self.assertEqual((refused.status, refused.json["code"], refused.json.get("reason"), refused.json["message"]),
                             (code, code, reason, message))
            self.assertEqual(refused.json["status"], "Failure")
            self.assertEqual(self.team.get(f"{MAPS}/{name}").status, 404)
        self.assertEqual(self.make("code").json["details"], {"causes": [{"field": "a"}]})
        self.assertEqual(self.make("fine", query="?dryRun=All").status, 201)

    def test_AM334_the_first_refusal_counts_and_all_are_asked(self):
        hooks = [self.serve(lambda request, _, n=n: {"allowed": n == 0, "status": {"message": f"hook {n}"}}) for n in range(3)]
        self.configure(VALIDATING, *(self.entry(hook.url, f"h{n}.hooks.test") for n, hook in enumerate(hooks)))
        self.acts(hooks[0])
        refused = self.make("x")
        self.assertEqual(refused.json["message"], 'admission webhook "h1.hooks.test" denied the request: hook 1')
        self.assertEqual([len(hook.asked) >= 1 for hook in hooks], [True] * 3)

    def test_AM334_order_and_the_second_round(self):
        def append(letter):
            def answer(request, _):
                text = request["object"]["data"].get("trace", "") + letter
                if letter == "v":
                    return {"allowed": False, "status": {"message": text[:-1]}}
                return {"patchType": "JSONPatch", "patch": encoded([{"op": "add", "path": "/data/trace", "value": text}])}

            return self.serve(answer)

        first, second, check = append("a"), append("b"), append("v")
        self.configure(VALIDATING, self.entry(check.url, "v.hooks.test"))
        self.configure(MUTATING, self.entry(second.url, "b.hooks.test"), name="z-second")
        self.configure(MUTATING, self.entry(first.url, "a.hooks.test", reinvocationPolicy="IfNeeded"), name="a-first")
        self.acts(check, n="1")
        kit.eventually(lambda: "aba" in self.make("x", n="1", query="?dryRun=All").json["message"], what="both configurations are known")
        first.asked.clear()
        second.asked.clear()
        refused = self.make("x", n="1")
        self.assertEqual(refused.json["message"], 'admission webhook "v.hooks.test" denied the request: aba')
        self.assertEqual((len(first.asked), len(second.asked)), (2, 1))
        self.assertEqual(first.asked[1]["object"]["data"]["trace"], "ab")

    def failing(self, answer, policy="Fail", path=VALIDATING, **more):
        """What is said of a webhook that answers so. With Ignore the object is stored in spite of it."""
        name = f"w{len(self.answers)}"
        self.answers.append(answer)
        hook = None if isinstance(answer, str) else self.serve(answer)
        entry = self.entry(hook.url if hook else answer, f"{name}.hooks.test", failurePolicy=policy, **more)
        entry["objectSelector"] = {"matchLabels": {"one": name}}
        made = self.configure(path, entry, name=f"failing-{name}-{path[-8:]}")
        wanted = 201 if policy == "Ignore" else 500

        def done():
            told = self.team.request("POST", MAPS + "?dryRun=All", config_map(name, {"one": name}, a="b"))
            return told.status == wanted and (hook is None or hook.asked) and told

        told = kit.eventually(done, 30, name)
        self.team.request("DELETE", f"{path}/{made['metadata']['name']}")
        self.assertNotIn(SECRET, told.body.decode())
        return told.json.get("message", "").removeprefix(f'Internal error occurred: failed calling webhook "{name}.hooks.test": ')

    def test_AM334_SE108_failures_have_fixed_words(self):
        self.answers = []
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}
        understood = "received invalid webhook response: "
        called = "failed to call webhook: "

        def text(value, status=200, **headers):
            def answer(_, handler):
                handler.reply(value if isinstance(value, str) else json.dumps(value), status, **headers)

            return answer

        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            absent = f"https://127.0.0.1:{closed.getsockname()[1]}/"
        cases = [
            (text(SECRET), understood + "the answer was not understood"),
            (text({**review, "kind": SECRET, "response": {}}), understood + "the answer was not understood"),
            (text({**review, "response": {"allowed": SECRET}}), understood + "the answer was not understood"),
            (text(review), understood + "webhook response was absent"),
            (text({**review, "response": {"uid": SECRET, "allowed": True}}), understood + "expected response.uid to be that of the request"),
            (text(SECRET, 500), called + "the server answered 500"),
            (text(SECRET, 302, Location="https://127.0.0.1:1/"), called + "the server answered 302"),
            (text("x" * (2 << 20)), called + "the answer was not understood"),
            (absent, called + "the server could not be reached"),
            (lambda request, _: {"patchType": "JSONPatch", "patch": encoded([])}, understood + "validating webhook may not return response.patch"),
        ]
        for answer, expected in cases:
            self.assertEqual(self.failing(answer), expected)
            self.failing(answer, "Ignore")
        mutating = [
            (lambda *_: {"patch": encoded([])}, understood + "webhook returned response.patch but not response.patchType"),
            (lambda *_: {"patchType": "JSONPatch"}, understood + "webhook returned response.patchType but not response.patch"),
            (lambda *_: {"patchType": SECRET, "patch": encoded([])}, understood + "webhook returned invalid response.patchType"),
            (lambda *_: {"patchType": "JSONPatch", "patch": "%%%"}, understood + "the answer was not understood"),
            (lambda *_: {"patchType": "JSONPatch", "patch": encoded(SECRET)},
             "received undecodable patch in webhook response: the answer was not understood"),
        ]
        for answer, expected in mutating:
            self.assertEqual(self.failing(answer, path=MUTATING), expected)
            self.failing(answer, "Ignore", path=MUTATING)
        for patch, expected in (([{"op": "remove", "path": "/data/none"}], "returned a patch that does not apply"),
                                ([{"op": "replace", "path": "/data", "value": SECRET}], "returned a patch that makes no object of the kind"),
                                ([{"op": "replace", "path": "/kind", "value": "Secret"}], "returned a patch that makes no object of the kind")):
            said = self.failing(lambda *_, p=patch: {"patchType": "JSONPatch", "patch": encoded(p)}, path=MUTATING)
            self.assertIn(expected, said)

    def test_AM334_a_wrong_bundle_and_a_slow_server(self):
        self.answers = []
        other = base64.b64encode((self.installation.pki / "client-ca.crt").read_bytes()).decode()
        hook = self.serve(allow)
        self.assertEqual(self.failing(hook.url, clientConfig={"url": hook.url, "caBundle": other}),
                         "failed to call webhook: the certificate could not be verified")
        release = threading.Event()
        self.addCleanup(release.set)
        slow = self.serve(lambda *_: release.wait(40) and {})
        entry = self.entry(slow.url, timeoutSeconds=2)
        self.configure(VALIDATING, entry)
        said = kit.eventually(lambda: (a := self.make("slow")).status == 500 and a, 30)
        self.assertEqual(said.json["message"], 'Internal error occurred: failed calling webhook "a.hooks.test": failed to call webhook: '
                                               "the server could not be reached")
        quick = self.team.request("POST", MAPS + "?dryRun=All", config_map("quick"))
        self.assertEqual(quick.status, 201)

    def test_AM334_dry_runs_are_told(self):
        hook = self.serve(allow)
        self.configure(VALIDATING, self.entry(hook.url, sideEffects="NoneOnDryRun"))
        self.acts(hook)
        self.assertEqual(self.make("dry", query="?dryRun=All").status, 201)
        self.assertEqual([asked["dryRun"] for asked in hook.asked], [True])
        self.assertEqual(hook.asked[0]["options"]["dryRun"], ["All"])

    def test_AM334_deletions(self):
        hook = self.serve(lambda request, _: {"allowed": request["oldObject"]["metadata"]["name"] != "kept", "status": {"message": "kept"}})
        rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["DELETE"]}]
        for name in ("kept", "goes"):
            self.assertEqual(self.make(name).status, 201)
        self.configure(VALIDATING, self.entry(hook.url, rules=rules), name="deletions")
        refused = kit.eventually(lambda: (a := self.team.request("DELETE", MAPS + "/kept?dryRun=All")).status == 400 and a)
        self.assertEqual(refused.json["message"], 'admission webhook "a.hooks.test" denied the request: kept')
        asked = hook.asked[0]
        self.assertEqual((asked["operation"], asked["object"], asked["name"], asked["options"]["kind"]), ("DELETE", None, "kept", "DeleteOptions"))
        self.team.must("DELETE", MAPS + "/goes")
        self.assertEqual(self.team.request("DELETE", MAPS + "?labelSelector=test%3D" + self.labels()["test"]).status, 400)
        self.assertEqual(self.team.get(MAPS + "/kept").status, 200)
        self.team.must("DELETE", VALIDATING + "/deletions")
        changer = self.serve(lambda *_: {"patchType": "JSONPatch", "patch": encoded([{"op": "add", "path": "/data/x", "value": "y"}])})
        self.configure(MUTATING, self.entry(changer.url, rules=rules), name="changes-deletions")
        refused = kit.eventually(lambda: (a := self.team.request("DELETE", MAPS + "/kept")).status == 500 and a)
        self.assertIn("attempted to modify the object, which is not supported for this operation", refused.json["message"])
        self.team.must("DELETE", MUTATING + "/changes-deletions")
        kit.eventually(lambda: self.team.request("DELETE", MAPS + "/kept").status in (200, 404))

    def test_AM334_conditions_select(self):
        hook = self.serve(allow)
        self.configure(VALIDATING, self.entry(hook.url, matchConditions=[
            {"name": "named", "expression": "object.metadata.name.startsWith('p')"},
            {"name": "right", "expression": "authorizer.group('').resource('configmaps').check('create').allowed()"}]))
        self.acts(hook)
        self.assertEqual(self.make("quiet", query="?dryRun=All").status, 201)
        self.assertEqual(hook.asked, [])
        self.assertEqual(self.make("p1", query="?dryRun=All").status, 201)
        self.assertEqual(len(hook.asked), 1)
        self.configure(VALIDATING, self.entry(hook.url, matchConditions=[{"name": "fails", "expression": "object.nope == 1"}]), name="fails")
        refused = kit.eventually(lambda: (a := self.make("broken", query="?dryRun=All")).status == 403 and a)
        self.assertIn("configmaps \"broken\" is forbidden: expression 'object.nope == 1' resulted in error", refused.json["message"])

    def test_SE_102_conditions_that_take_several_turns_say_the_same(self):
        """Six that scan 100,000 letters six times: more than a turn, less than the budget."""
        scans = "[1,2,3,4,5,6].all(i, i > 0 && !object.data.long.matches('[bc][0-9]'))"
        hook = self.serve(allow)
        self.configure(VALIDATING, self.entry(hook.url, matchConditions=[{"name": f"scan-{i}", "expression": scans} for i in range(6)]))

        def make(text):
            return self.make("long", query="?dryRun=All", long=text).status
        kit.eventually(lambda: make("a" * 100_000) == 201 and hook.asked)
        hook.asked.clear()
        self.assertEqual(make("a" * 100_000 + "b12"), 201)
        self.assertEqual(hook.asked, [])

    def test_AM334_namespaces_select(self):
        hook = self.serve(allow)
        self.team.must("POST", "/api/v1/namespaces", {"metadata": {"name": "watched", "labels": {"hooks": "yes"}}})
        self.addCleanup(self.team.request, "DELETE", "/api/v1/namespaces/watched")
        self.configure(VALIDATING, self.entry(hook.url, namespaceSelector={"matchLabels": {"hooks": "yes"}}))
        there = "/api/v1/namespaces/watched/configmaps?dryRun=All"
        kit.eventually(lambda: self.team.request("POST", there, config_map("a", self.labels())).status == 201 and hook.asked)
        hook.asked.clear()
        self.make("a", query="?dryRun=All")
        self.assertEqual(hook.asked, [])

    def define_cogs(self):
        versions = [{"name": version, "served": True, "storage": version == "v1", "subresources": {
            "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "replicas": {"type": "integer"},
                                                          "mode": {"type": "string", "default": "auto"}}},
                "status": {"type": "object", "properties": {"n": {"type": "integer"}, "replicas": {"type": "integer"}}}}}}}
            for version in ("v1", "v1beta1")]
        self.team.must("POST", DEFINITIONS, {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "cogs.hooks.test"},
            "spec": {"group": "hooks.test", "scope": "Namespaced", "versions": versions,
                     "names": {"plural": "cogs", "singular": "cog", "kind": "Cog", "listKind": "CogList"}}})
        self.addCleanup(self.team.request, "DELETE", DEFINITIONS + "/cogs.hooks.test")
        kit.eventually(lambda: self.team.get("/apis/hooks.test/v1/namespaces/default/cogs").status == 200, what="cogs")

    def test_AM334_custom_objects_versions_and_subresources(self):
        self.define_cogs()
        path = "/apis/hooks.test/{}/namespaces/default/cogs"
        rule = {"apiGroups": ["hooks.test"], "apiVersions": ["v1"], "operations": ["*"]}
        patch = {"": [{"op": "add", "path": "/spec/size", "value": 7}, {"op": "add", "path": "/spec/nope", "value": 1},
                      {"op": "add", "path": "/metadata/annotations/x", "value": "y"}],
                 "status": [{"op": "add", "path": "/status/n", "value": 5}, {"op": "replace", "path": "/spec/size", "value": 99}],
                 "scale": [{"op": "replace", "path": "/spec/replicas", "value": 4}]}
        hook = self.serve(lambda request, _: {"patchType": "JSONPatch", "patch": encoded(patch[request.get("subResource", "")])})
        entry = self.entry(hook.url, rules=[{**rule, "resources": ["cogs", "cogs/status", "cogs/scale"], "operations": ["CREATE", "UPDATE"]}])
        entry["objectSelector"] = {}
        self.configure(MUTATING, entry)
        cog = {"apiVersion": "hooks.test/v1beta1", "kind": "Cog", "metadata": {"name": "c"}, "spec": {"replicas": 1}}
        kit.eventually(lambda: self.team.request("POST", path.format("v1beta1") + "?dryRun=All", cog).status == 201 and hook.asked)
        hook.asked.clear()
        made = self.team.must("POST", path.format("v1beta1"), cog)
        self.assertEqual((made["apiVersion"], made["spec"]), ("hooks.test/v1beta1", {"replicas": 1, "size": 7, "mode": "auto"}))
        self.assertEqual(made["metadata"]["annotations"]["x"], "y")
        self.assertEqual((hook.asked[0]["kind"]["version"], hook.asked[0]["requestKind"]["version"], hook.asked[0]["object"]["apiVersion"]),
                         ("v1", "v1beta1", "hooks.test/v1"))
        status = self.team.must("PATCH", path.format("v1") + "/c/status", json.dumps({"status": {"replicas": 1}}), headers=MERGE)
        self.assertEqual((status["status"], status["spec"]["size"]), ({"replicas": 1, "n": 5}, 7))
        scale = self.team.must("PATCH", path.format("v1") + "/c/scale", json.dumps({"spec": {"replicas": 2}}), headers=MERGE)
        self.assertEqual(scale["spec"], {"replicas": 4})
        asked = hook.asked[-1]
        self.assertEqual((asked["kind"], asked["subResource"], asked["object"]["spec"]), (
            {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "scale", {"replicas": 2}))
        self.assertEqual(self.team.must("GET", path.format("v1") + "/c")["spec"]["replicas"], 4)

    def test_AM334_reviews_of_v1beta1(self):
        """The first version that both know; its answers need neither uid nor kind nor type of the patch."""
        def old(request, handler):
            handler.reply(json.dumps({"response": {"allowed": True, "patch": encoded([{"op": "add", "path": "/data/by", "value": "old"}])}}))

        hook = self.serve(old)
        for versions, wanted in ((["v1beta1"], "v1beta1"), (["v2", "v1beta1", "v1"], "v1beta1"), (["v2", "v1"], "v1")):
            self.configure(MUTATING, self.entry(hook.url, admissionReviewVersions=versions))
            self.acts(hook)
            hook.versions.clear()
            made = self.make("old", query="?dryRun=All", a="b")
            self.assertEqual(set(hook.versions), {f"admission.k8s.io/{wanted}"})
            request = hook.asked[-1]
            self.assertEqual((request["kind"], request["operation"], request["object"]["metadata"]["name"]),
                             ({"group": "", "version": "v1", "kind": "ConfigMap"}, "CREATE", "old"))
            if wanted == "v1beta1":
                self.assertEqual((made.status, made.json["data"]["by"]), (201, "old"))
            else:  # v1 is strict
                self.assertEqual(made.status, 500, made)
            self.team.must("DELETE", f"{MUTATING}/test-am334-reviews-of-v1beta1")
        answer = self.team.request("POST", MUTATING, {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
                                                      "metadata": {"name": "none"}, "webhooks": [self.entry(hook.url, admissionReviewVersions=["v2"])]})
        self.assertEqual(answer.status, 422, answer)
        self.assertIn("must include at least one of v1, v1beta1", answer.json["message"])

    def test_AM334_events_are_one_kind_in_two_groups(self):
        hooks = {}
        for policy in ("Equivalent", "Exact"):
            hooks[policy] = self.serve(allow)
            entry = self.entry(hooks[policy].url, name=f"{policy.lower()}.hooks.test", matchPolicy=policy, rules=[
                {"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"], "operations": ["CREATE"]}])
            self.configure(VALIDATING, entry, name=f"events-{policy.lower()}")
        core, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
        about = {"kind": "ConfigMap", "namespace": "default", "name": "m", "apiVersion": "v1"}

        def written(path, name):
            body = {"apiVersion": "v1", "kind": "Event", "involvedObject": about, "message": "m", "reason": "R", "type": "Normal"}
            if path == new:
                body = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": about, "note": "m", "reason": "R", "type": "Normal",
                        "action": "A", "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "hooks.test/c", "reportingInstance": "i"}
            return self.team.request("POST", path, {**body, "metadata": {"name": name, "namespace": "default", "labels": self.labels()}})

        kit.eventually(lambda: written(new, "probe").status in (201, 409) and all(hook.asked for hook in hooks.values()), what="both are asked")
        for hook in hooks.values():
            hook.asked.clear()
        self.assertEqual(written(core, "plain").status, 201)
        request, = hooks["Equivalent"].asked
        self.assertEqual((request["kind"], request["requestKind"]), ({"group": "events.k8s.io", "version": "v1", "kind": "Event"},
                                                                     {"group": "", "version": "v1", "kind": "Event"}))
        self.assertEqual((request["resource"]["group"], request["requestResource"]["group"]), ("events.k8s.io", ""))
        self.assertEqual((request["object"]["apiVersion"], request["object"]["note"], request["object"]["regarding"]["name"]),
                         ("events.k8s.io/v1", "m", "m"))
        self.assertEqual(hooks["Exact"].asked, [], "only for what it names")

    def test_AM334_a_converted_object_is_changed_in_the_form_that_is_named(self):
        """The workspace's own definition, its conversion webhook and its admission webhook in one write."""
        converter = Converter(self.installation.pki)
        self.addCleanup(converter.close)
        versions = [{"name": version, "served": True, "storage": version == "v1beta1", "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": True}}} for version in ("v1beta1", "v1")]
        self.team.must("POST", DEFINITIONS, {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "notes.hooks.test"},
            "spec": {"group": "hooks.test", "scope": "Namespaced", "versions": versions,
                     "names": {"plural": "notes", "singular": "note", "kind": "Note", "listKind": "NoteList"},
                     "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
                         "url": converter.url, "caBundle": self.bundle}}}}})
        self.addCleanup(self.team.request, "DELETE", DEFINITIONS + "/notes.hooks.test")
        path = "/apis/hooks.test/{}/namespaces/default/notes"
        kit.eventually(lambda: self.team.get(path.format("v1beta1")).status == 200, what="notes")
        hook = self.serve(lambda request, _: {"patchType": "JSONPatch", "patch": encoded(
            [{"op": "add", "path": "/spec/words/-", "value": "again"}])})
        entry = self.entry(hook.url, rules=[{"apiGroups": ["hooks.test"], "apiVersions": ["v1"], "resources": ["notes"],
                                             "operations": ["CREATE", "UPDATE"]}])
        entry["objectSelector"] = {}
        self.configure(MUTATING, entry)
        note = {"apiVersion": "hooks.test/v1beta1", "kind": "Note", "metadata": {"name": "n"}, "spec": {"text": "a b"}}
        kit.eventually(lambda: self.team.request("POST", path.format("v1beta1") + "?dryRun=All", note).status == 201 and hook.asked)
        hook.asked.clear()
        made = self.team.must("POST", path.format("v1beta1"), note)
        self.assertEqual((made["apiVersion"], made["spec"]), ("hooks.test/v1beta1", {"text": "a b again"}))
        self.assertEqual((hook.asked[0]["object"]["apiVersion"], hook.asked[0]["object"]["spec"], hook.asked[0]["requestKind"]["version"]),
                         ("hooks.test/v1", {"words": ["a", "b"]}, "v1beta1"))
        self.assertEqual(self.team.must("GET", path.format("v1") + "/n")["spec"], {"words": ["a", "b", "again"]})
        changed = self.team.must("PATCH", path.format("v1") + "/n", json.dumps({"spec": {"words": ["x"]}}), headers=MERGE)
        self.assertEqual((changed["apiVersion"], changed["spec"]), ("hooks.test/v1", {"words": ["x", "again"]}))
        self.assertEqual((hook.asked[-1]["oldObject"]["spec"], hook.asked[-1]["operation"]), ({"words": ["a", "b", "again"]}, "UPDATE"))
        self.assertEqual(self.team.must("GET", path.format("v1beta1") + "/n")["spec"], {"text": "x again"})

    def test_SE107_a_busy_workspace_has_its_webhooks(self):
        """Eight at once, the others wait; a server that understands is asked as often as its workspace writes."""
        lock, running, most = threading.Lock(), [0], [0]

        def count(*_):
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            time.sleep(0.02)
            with lock:
                running[0] -= 1
            return {}

        hook = self.serve(count)
        self.configure(VALIDATING, self.entry(hook.url))
        self.acts(hook)
        statuses, begun = [], time.monotonic()

        def writes(part):
            client = self.installation.client("/clusters/root:team")
            statuses.extend(self.make(f"busy-{part}-{number}", client=client, query="?dryRun=All").status for number in range(20))

        threads = [threading.Thread(target=writes, args=(part,)) for part in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begun
        self.assertEqual(set(statuses), {201}, "none fails")
        self.assertEqual(len(statuses), 320)
        self.assertLess(took, 14, "20 a second would take 15 s")
        self.assertLessEqual(most[0], 8)
        self.assertGreater(most[0], 1)

    def test_SE107_what_fails_together_shuts_nobody_out(self):
        hangs, released = threading.Event(), threading.Event()
        self.addCleanup(released.set)

        def sometimes(*_):
            if hangs.is_set():
                released.wait(20)
            return {}

        hook = self.serve(sometimes)
        self.configure(VALIDATING, self.entry(hook.url, timeoutSeconds=1))
        self.acts(hook)
        hangs.set()
        statuses = []
        threads = [threading.Thread(target=lambda name=f"hung-{number}": statuses.append(
            self.make(name, client=self.installation.client("/clusters/root:team"), query="?dryRun=All").status)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(statuses, [500] * 8, "all of them in vain")
        hangs.clear()
        released.set()
        self.assertEqual(self.make("after", query="?dryRun=All").status, 201, "no pause: that was one failure")

    def test_AM334_tokens_and_generated_names(self):
        def answer(request, _):
            return {"patchType": "JSONPatch", "patch": encoded([{"op": "add", "path": "/spec/expirationSeconds", "value": 700}])}

        hook = self.serve(answer)
        entry = self.entry(hook.url, rules=[{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                                             "resources": ["serviceaccounts/token"]}])
        entry["objectSelector"] = {}
        self.configure(MUTATING, entry)
        token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 900}}
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        given = kit.eventually(lambda: (a := self.team.must("POST", path, token)) and hook.asked and a)
        self.assertEqual(given["spec"]["expirationSeconds"], 700)

    def test_AM334_what_is_exempt(self):
        refuse = self.serve(lambda *_: {"allowed": False})
        everything = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]
        entry = self.entry(refuse.url, rules=everything)
        entry["objectSelector"] = {}
        self.configure(VALIDATING, entry, client=self.other, name="everything")
        self.configure(MUTATING, entry, client=self.other, name="everything")
        kit.eventually(lambda: self.other.request("POST", MAPS, config_map("x")).status == 400)
        self.other.must("POST", "/apis/tenancy.kcp.io/v1alpha1/workspaces?dryRun=All", {
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": "child"}, "spec": {}})
        for kind, spec in (("SelfSubjectAccessReview", {"nonResourceAttributes": {"path": "/", "verb": "get"}}),
                           ("SelfSubjectRulesReview", {"namespace": "default"}),
                           ("SubjectAccessReview", {"user": "ann", "nonResourceAttributes": {"path": "/", "verb": "get"}}),
                           ("SelfSubjectReview", None), ("TokenReview", {"token": "none"})):
            group = "authorization.k8s.io" if spec and "token" not in spec else "authentication.k8s.io"
            self.other.must("POST", f"/apis/{group}/v1/{kind.lower()}s", {"apiVersion": f"{group}/v1", "kind": kind, **({"spec": spec} if spec else {})})
        self.other.must("POST", "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": "default"},
            "spec": {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}})
        self.assertFalse([one for one in refuse.asked if one["kind"]["kind"].endswith("Review")])
        self.other.must("POST", VALIDATING, {"metadata": {"name": "more"}, "webhooks": []})
        self.other.must("DELETE", VALIDATING + "/more")
        self.other.must("DELETE", VALIDATING + "/everything")
        self.other.must("DELETE", MUTATING + "/everything")
        kit.eventually(lambda: self.other.request("POST", MAPS + "?dryRun=All", config_map("x")).status == 201)

    def test_AM334_nobody_gains_rights_by_a_webhook(self):
        """What a webhook adds to a Role is judged as if its writer had written it."""
        user = self.installation.user_client("ruby", ["rubies"], "/clusters/root:team")
        self.team.must("POST", RBAC + "/clusterroles", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "ruby"},
            "rules": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
                      {"nonResourceURLs": ["/"], "verbs": ["access"]}]})
        self.team.must("POST", RBAC + "/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "ruby"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ruby"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ruby"}]})
        hook = self.serve(lambda *_: {"patchType": "JSONPatch", "patch": encoded([
            {"op": "add", "path": "/rules", "value": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}])})
        self.configure(MUTATING, self.entry(hook.url, rules=[{"apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
                                                              "operations": ["CREATE"], "resources": ["roles"]}]))
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "labels": self.labels()}, "rules": []}
        path = RBAC + "/namespaces/default/roles"
        kit.eventually(lambda: self.team.must("POST", path + "?dryRun=All", role)["rules"], what="the webhook acts")
        refused = kit.eventually(lambda: (a := user.request("POST", path + "?dryRun=All", role)).status == 403 and
                                 "attempting to grant RBAC permissions not currently held" in a.json["message"] and a)
        self.assertEqual(refused.status, 403)

    def test_KK222_bound_apis_obey_the_export(self):
        group = "hooked.test"
        names = {"plural": "gears", "singular": "gear", "kind": "Gear", "listKind": "GearList"}
        self.prov.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.gears.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names,
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
        self.prov.must("POST", APIS + "/apiexports", {
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "gears"},
            "spec": {"resources": [{"group": group, "name": "gears", "schema": f"v1.gears.{group}", "storage": {"crd": {}}}]}})
        body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "gears"},
                "spec": {"reference": {"export": {"path": "root:prov", "name": "gears"}}}}
        kit.eventually(lambda: self.team.request("POST", APIS + "/apibindings", body).status == 201, what="bound")
        path = f"/apis/{group}/v1/namespaces/default/gears"
        kit.eventually(lambda: self.team.get(path).status == 200, what="served")
        rules = [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["gears"]}]
        theirs = self.serve(lambda request, _: {"patchType": "JSONPatch", "patch": encoded([
            {"op": "add", "path": "/spec/by", "value": "provider"}])})
        check = self.serve(lambda request, _: {"allowed": request["object"]["spec"]["by"] == "provider" and request["name"] != "bad",
                                               "status": {"message": "the provider says no"}})
        ours = self.serve(lambda *_: {"allowed": False})
        for client, place, hook in ((self.prov, MUTATING, theirs), (self.prov, VALIDATING, check), (self.team, VALIDATING, ours)):
            entry = self.entry(hook.url, rules=rules)
            entry["objectSelector"] = {}
            self.configure(place, entry, client=client, name="gears")
        gear = {"apiVersion": f"{group}/v1", "kind": "Gear", "metadata": {"name": "g"}, "spec": {"size": 1}}
        made = kit.eventually(lambda: (a := self.team.request("POST", path + "?dryRun=All", gear)).json["spec"].get("by") and a, 20,
                              "the provider's webhooks have come to the shard")
        self.assertEqual(made.json["spec"], {"size": 1, "by": "provider"})
        self.assertEqual(theirs.asked[-1]["object"]["metadata"]["annotations"]["kcp.io/cluster"], self.clusters["team"])
        refused = kit.eventually(lambda: (a := self.team.request("POST", path, {**gear, "metadata": {"name": "bad"}})).status == 400 and a)
        self.assertEqual(refused.json["message"], 'admission webhook "a.hooks.test" denied the request: the provider says no')
        self.team.must("POST", path, gear)
        self.assertEqual(ours.asked, [], "the consumer's are not asked")
        inside = self.installation.client(f"/services/apiexport/{self.clusters['prov']}/gears/clusters/{self.clusters['team']}")
        kit.eventually(lambda: inside.request("POST", path, {**gear, "metadata": {"name": "bad"}}).status == 400, what="in the view, too")
        self.prov.must("DELETE", VALIDATING + "/gears")
        self.prov.must("DELETE", MUTATING + "/gears")
        kit.eventually(lambda: "by" not in self.team.must("POST", path + "?dryRun=All", {**gear, "metadata": {"name": "h"}})["spec"],
                       what="and they are gone")

    def test_AM334_a_namespace_waits_for_the_webhook(self):
        hook = self.serve(lambda *_: {"allowed": False, "status": {"message": "stay"}})
        entry = self.entry(hook.url, rules=[{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}],
                           namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "held"}})
        entry["objectSelector"] = {}
        self.team.must("POST", "/api/v1/namespaces", {"metadata": {"name": "held"}})
        self.team.must("POST", "/api/v1/namespaces/held/configmaps", config_map("precious"))
        self.configure(VALIDATING, entry, name="held")
        kit.eventually(lambda: self.team.request("DELETE", "/api/v1/namespaces/held/configmaps/precious?dryRun=All").status == 400)
        self.team.must("DELETE", "/api/v1/namespaces/held")

        def told():
            status = self.team.must("GET", "/api/v1/namespaces/held")["status"]
            return any("denied the request: stay" in one["message"] for one in status.get("conditions", []))

        kit.eventually(told, 20, "condition of the namespace")
        self.team.must("DELETE", VALIDATING + "/held")
        kit.eventually(lambda: self.team.get("/api/v1/namespaces/held").status == 404, 40, "namespace gone")

    def test_z_AM334_a_restart_keeps_webhooks(self):
        hook = self.serve(lambda *_: {"allowed": False, "status": {"message": "still"}})
        self.configure(VALIDATING, self.entry(hook.url))
        kit.eventually(lambda: self.make("x").status == 400)
        before = self.installation.pid("shard-1")
        self.installation.kill("shard-1")
        kit.eventually(lambda: self.installation.pid("shard-1") != before, what="restarted")
        kit.eventually(lambda: self.team.get(MAPS).status == 200, 30, "served again")
        self.assertEqual(self.make("x").status, 400)


if __name__ == "__main__":
    unittest.main()
