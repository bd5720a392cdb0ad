"""Rows of the requests chapter (AM-005 to AM-075): errors, methods, limits, deadlines, headers, through the proxy."""
import json
import re
import signal
import socket
import subprocess
import unittest

import kit

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
BODY_LIMIT, DATA_LIMIT = 3145728, 1048576


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def setUpModule():
    global installation, root, outside
    installation = kit.Installation(shards=2).start_for()
    root, outside = installation.client(), installation.client("")


class Case(unittest.TestCase):
    def status(self, answer, code, reason, message=None):
        self.assertEqual(answer.status, code, answer)
        body = answer.json
        self.assertEqual((body["kind"], body["apiVersion"], body["status"], body["code"], body.get("reason", "")),
                         ("Status", "v1", "Failure", code, reason), body)
        if message is not None:
            self.assertEqual(body["message"], message)
        return body

    def held(self, name):
        """A ConfigMap that is being deleted and held by a finalizer."""
        made = config_map(name)
        made["metadata"]["finalizers"] = ["example.com/hold"]
        root.must("POST", MAPS, made)
        deleted = root.must("DELETE", f"{MAPS}/{name}")
        self.assertIn("deletionTimestamp", deleted.get("metadata", {}))

    def let_go(self, path):
        root.must("PATCH", path, json.dumps({"metadata": {"finalizers": None}}), headers=MERGE)
        self.assertEqual(root.get(path).status, 404)


class Errors(Case):
    def test_AM_005_create_while_the_old_object_is_being_deleted(self):
        self.held("f1")
        self.status(root.request("POST", MAPS, config_map("f1")), 409, "AlreadyExists",
                    'object is being deleted: configmaps "f1" already exists')
        self.let_go(f"{MAPS}/f1")
        root.must("POST", MAPS, config_map("f1"))

    def test_AM_010_an_apply_conflict_names_manager_and_field(self):
        path = f"{MAPS}/applied"
        root.must("PATCH", path + "?fieldManager=one", json.dumps(config_map("applied", k="1")), headers=APPLY)
        second = root.request("PATCH", path + "?fieldManager=two", json.dumps(config_map("applied", k="2")), headers=APPLY)
        body = self.status(second, 409, "Conflict", 'Apply failed with 1 conflict: conflict with "one": .data.k')
        self.assertEqual(body["details"]["causes"],
                         [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}])
        self.assertEqual(root.must("GET", path)["data"], {"k": "1"})

    def test_AM_023_an_accept_header_that_nothing_satisfies(self):
        served = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
        for accept, words in (("text/csv", "406: Not Acceptable\n\nAvailable representations: "),
                              ("application/json;as=Nothing", "only the following media types are accepted: ")):
            self.status(root.get(MAPS, headers={"Accept": accept}), 406, "NotAcceptable", words + served)
            created = root.request("POST", MAPS, config_map("unacceptable"), headers={**JSON, "Accept": accept})
            self.status(created, 406, "NotAcceptable", words + served)
        self.status(root.get("/apis/tenancy.kcp.io/v1alpha1/workspaces", headers={"Accept": "text/csv"}), 406, "NotAcceptable",
                    "only the following media types are accepted: application/json, application/yaml")
        self.assertEqual(root.get(f"{MAPS}/unacceptable").status, 404, "refused before anything is stored")

    def test_AM_024_a_body_of_a_type_that_nothing_reads(self):
        body = self.status(root.request("POST", MAPS, "a=b", headers={"Content-Type": "application/x-www-form-urlencoded"}), 415,
                           "UnsupportedMediaType")
        self.assertRegex(body["message"], r"^the body of the request was in an unknown format - accepted media types include: "
                                          r"application/json, application/yaml")

    def test_AM_072_too_many_requests_says_when_to_come_again(self):
        """A shard that is asked by path for a workspace of another shard answers 429."""
        installation.make_workspace("elsewhere", selector={"name": "shard-1"})
        answer = shard_client("root", "/clusters/root:elsewhere").get(MAPS)
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (429, "1"), answer)


def shard_url(name):
    text = (installation.state / "shards" / name / "admin.kubeconfig").read_text()
    return re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)


def shard_client(name, path):
    return kit.Client(shard_url(name) + path, installation.pki / "serving-ca.crt", installation.pki / "admin.crt",
                      installation.pki / "admin.key")


def curl(*arguments, url=None, background=False):
    pki = installation.pki
    command = ["curl", "-sS", "--cacert", pki / "serving-ca.crt", "--cert", pki / "admin.crt", "--key", pki / "admin.key",
               *arguments, url]
    if background:
        return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return subprocess.run([str(part) for part in command], capture_output=True, timeout=60, check=True).stdout


class Methods(Case):
    def test_AM_052_every_method_does_its_verb(self):
        labelled = config_map("verbs", k="1")
        labelled["metadata"]["labels"] = {"row": "am052"}
        self.assertEqual(root.request("POST", MAPS, labelled).status, 201)
        listed = root.must("GET", MAPS + "?labelSelector=row%3Dam052")
        self.assertEqual((listed["kind"], [item["metadata"]["name"] for item in listed["items"]]), ("ConfigMapList", ["verbs"]))
        events = root.watch(f"{MAPS}?watch=1&labelSelector=row%3Dam052")
        self.assertEqual(next(events)["type"], "ADDED")
        labelled["data"] = {"k": "2"}
        self.assertEqual(root.must("PUT", f"{MAPS}/verbs", labelled, expect=(200,))["data"], {"k": "2"})
        root.must("PATCH", f"{MAPS}/verbs", '{"data":{"k":"3"}}', headers=MERGE, expect=(200,))
        self.assertEqual(root.must("GET", f"{MAPS}/verbs", expect=(200,))["data"], {"k": "3"})
        root.must("DELETE", f"{MAPS}/verbs", expect=(200,))
        self.assertEqual([next(events)["type"] for _ in range(3)], ["MODIFIED", "MODIFIED", "DELETED"])
        for name in ("a", "b"):
            root.must("POST", MAPS, {"metadata": {"name": "verbs-" + name, "labels": {"row": "am052"}}})
        root.must("POST", MAPS, {"metadata": {"name": "verbs-kept"}})
        gone = root.must("DELETE", MAPS + "?labelSelector=row%3Dam052", expect=(200,))
        self.assertEqual(gone["kind"], "ConfigMapList")
        self.assertEqual({item["metadata"]["name"] for item in gone["items"]}, {"verbs-a", "verbs-b"})
        self.assertEqual([root.get(f"{MAPS}/verbs-{name}").status for name in ("a", "b", "kept")], [404, 404, 200])

    def test_AM_054_namespaces_are_not_deleted_as_a_collection(self):
        body = self.status(root.request("DELETE", "/api/v1/namespaces"), 405, "MethodNotAllowed",
                           "the server does not allow this method on the requested resource")
        self.assertEqual(body["details"], {})
        self.assertEqual(root.get("/api/v1/namespaces/default").status, 200)

    def test_AM_055_writing_to_discovery_health_and_version(self):
        shard = shard_client("root", "/clusters/root")
        for client, method, path in ((shard, "PUT", "/apis"), (shard, "DELETE", "/apis"), (shard, "POST", "/healthz"),
                                     (root, "POST", "/healthz")):
            answer, plain = client.request(method, path), client.get(path)
            self.assertEqual(plain.status, 200)
            self.assertTrue(answer.status == 405 or (answer.status, answer.body) == (200, plain.body), (method, path, answer))
        self.assertEqual(root.request("POST", "/version").status, 405)

    def test_AM_056_unknown_parameters_are_ignored(self):
        root.must("POST", MAPS + "?foo=bar", config_map("parameters", k="1"), expect=(201,))
        for query in ("?foo=bar", "?shardSelector=", "?foo", "?foo=%20&foo=1"):
            self.assertEqual(root.must("GET", f"{MAPS}/parameters{query}"), root.must("GET", f"{MAPS}/parameters"), query)
            names = {item["metadata"]["name"] for item in root.must("GET", MAPS + query)["items"]}
            self.assertIn("parameters", names, query)
        root.must("DELETE", f"{MAPS}/parameters?foo=bar", expect=(200,))


class Limits(Case):
    def head_only(self, *headers):
        """The answer to a POST whose body never comes."""
        connection = root.connect(10)
        try:
            connection.putrequest("POST", "/clusters/root" + MAPS)
            for name, value in (("Content-Type", "application/json"), *headers):
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
            return kit.Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def test_AM_058_a_large_body_is_refused_before_it_is_read(self):
        self.status(self.head_only(("Content-Length", str(BODY_LIMIT + 1))), 413, "RequestEntityTooLarge",
                    f"Request entity too large: limit is {BODY_LIMIT}")

    def test_AM_058_the_limit_counts_bytes_that_come_without_a_length(self):
        def chunks():
            for _ in range(BODY_LIMIT // 65536 + 1):
                yield b" " * 65536
        connection = root.connect(20)
        try:
            connection.putrequest("POST", "/clusters/root" + MAPS)
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders()
            try:
                for chunk in chunks():
                    connection.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                connection.send(b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):
                pass   # the answer may come before everything is sent
            response = connection.getresponse()
            self.assertEqual((response.status, json.loads(response.read())["reason"]), (413, "RequestEntityTooLarge"))
        finally:
            connection.close()

    def test_AM_058_a_body_of_exactly_the_limit_is_read(self):
        text = json.dumps(config_map("padded", k="1"))
        answer = root.request("POST", MAPS, text + " " * (BODY_LIMIT - len(text)), headers=JSON, timeout=60)
        self.assertEqual(answer.status, 201, answer)

    def test_AM_058_encoded_bodies_are_refused(self):
        for encoding in ("gzip", "deflate"):
            answer = root.request("POST", MAPS, config_map("encoded"), headers={**JSON, "Content-Encoding": encoding})
            self.status(answer, 415, "UnsupportedMediaType")
        plain = root.request("POST", MAPS, config_map("encoded"), headers={**JSON, "Content-Encoding": "identity"})
        self.assertEqual(plain.status, 201)

    def test_AM_061_the_data_of_a_config_map_is_limited_in_sum(self):
        half = DATA_LIMIT // 2
        binary = "eHh4" * (half // 4)                           # half * 3 / 4 bytes when decoded
        rest = DATA_LIMIT - half * 3 // 4
        made = config_map("full", k="x" * rest)
        made["binaryData"] = {"b": binary}
        root.must("POST", MAPS, made, expect=(201,), timeout=60)
        made["metadata"]["name"], made["data"]["k"] = "overfull", "x" * (rest + 1)
        self.status(root.request("POST", MAPS, made, timeout=60), 422, "Invalid",
                    f'ConfigMap "overfull" is invalid: []: Too long: may not be more than {DATA_LIMIT} bytes')

    def test_AM_061_the_data_of_a_secret_is_limited_in_sum(self):
        def secret(name, size):
            return {"metadata": {"name": name}, "stringData": {"a": "x" * (size // 2), "b": "x" * (size - size // 2)}}
        root.must("POST", SECRETS, secret("full", DATA_LIMIT), expect=(201,), timeout=60)
        self.status(root.request("POST", SECRETS, secret("overfull", DATA_LIMIT + 1), timeout=60), 422, "Invalid",
                    f'Secret "overfull" is invalid: data: Too long: may not be more than {DATA_LIMIT} bytes')

    def test_AM_065_a_watch_ignores_timeout_and_obeys_timeout_seconds(self):
        query = "?watch=1&timeout=1ms&fieldSelector=metadata.name%3Dlong-running"
        events = root.watch(MAPS + query)
        root.must("POST", MAPS, config_map("long-running"))
        self.assertEqual(next(events)["type"], "ADDED")
        for i in range(5):
            root.must("PATCH", f"{MAPS}/long-running", json.dumps({"data": {"k": str(i)}}), headers=MERGE)
            self.assertEqual(next(events)["object"]["data"], {"k": str(i)})
        events.close()
        self.assertEqual([event["type"] for event in root.watch(MAPS + query + "&timeoutSeconds=1")], ["ADDED"])

    def test_AM_066_a_write_past_its_deadline_happens_whole_or_not_at_all(self):
        answers = []
        for i in range(60):
            limit = ("1ns", "100us", "300us", "1ms", "2ms", "4ms")[i % 6]
            name, data = f"deadline-{i}", {str(k): "v" * 200 for k in range(20)}
            answer = root.request("POST", f"{MAPS}?timeout={limit}", config_map(name, **data))
            self.assertIn(answer.status, (201, 504), answer)
            answers.append(answer.status)
            if answer.status == 504:
                self.status(answer, 504, "Timeout")
            found = root.get(f"{MAPS}/{name}")
            self.assertIn(found.status, (200, 404) if answer.status == 504 else (200,))
            if found.status == 200:
                self.assertEqual(found.json["data"], data)
            again = root.request("POST", MAPS, config_map(name, **data))
            self.assertIn(again.status, (201, 409))
            self.assertEqual(root.must("GET", f"{MAPS}/{name}")["data"], data)
        self.assertIn(504, answers)


class Headers(Case):
    def test_AM_070_answers_are_not_to_be_kept(self):
        for client, path in ((root, MAPS), (root, f"{MAPS}/nope"), (root, "/apis/nope/v1"), (root, MAPS + "?limit=x"),
                             (root, "/version"), (installation.client(cert=None), MAPS)):
            answer = client.get(path)
            self.assertEqual(answer.headers.get_all("Cache-Control"), ["no-cache, private"], (path, answer))
        self.assertEqual(root.request("POST", MAPS, "{", headers=JSON).headers["Cache-Control"], "no-cache, private")
        made = root.request("POST", MAPS, config_map("kept-not"))
        self.assertEqual((made.status, made.headers["Cache-Control"]), (201, "no-cache, private"))

    def warnings_of(self, fields):
        body = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"warned"},' + ",".join(
            f"{json.dumps(field)}:1" for field in fields) + "}"
        answer = root.request("POST", MAPS + "?dryRun=All&fieldValidation=Warn", body, headers=JSON)
        self.assertEqual(answer.status, 201, answer)
        return answer.headers.get_all("Warning") or []

    def test_AM_071_warnings_are_quoted_and_each_has_a_header(self):
        self.assertEqual(self.warnings_of(["one"]), ['299 - "unknown field \\"one\\""'])
        self.assertEqual(sorted(self.warnings_of(["two", "back\\slash"])),
                         ['299 - "unknown field \\"back\\\\\\\\slash\\""', '299 - "unknown field \\"two\\""'])

    def test_AM_071_equal_warnings_are_sent_once(self):
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1"}
        answer = root.request("POST", MAPS + "?dryRun=All", {"metadata": {"name": "w", "ownerReferences": [owner] * 5}})
        self.assertEqual(answer.status, 201, answer)
        self.assertEqual(len(answer.headers.get_all("Warning")), 1)

    def test_AM_071_many_warnings_are_cut(self):
        few = self.warnings_of(["f" * 1000, "g" * 1000])
        self.assertEqual(len(few), 2)
        self.assertTrue(all(len(text) > 1000 for text in few), "below 4,096 characters nothing is cut")
        texts = [re.fullmatch(r'299 - "(.*)"', each).group(1).replace('\\"', '"')
                 for each in self.warnings_of([f"{i:03}" + "x" * 400 for i in range(40)])]
        self.assertTrue(all(len(text) <= 256 for text in texts), [len(text) for text in texts])
        self.assertLessEqual(sum(map(len, texts)), 4096)
        self.assertEqual(len(texts), 4096 // 256)

    def test_AM_072_a_version_of_the_future_says_when_to_come_again(self):
        answer = root.get(MAPS + "?resourceVersion=9999999999")
        body = self.status(answer, 504, "Timeout")
        self.assertEqual((answer.headers["Retry-After"], body["details"]["retryAfterSeconds"]), ("1", 1))

    def test_AM_074_date_length_and_nosniff(self):
        for path, code in ((MAPS + "/nope", 404), ("/version", 200), ("/api/v1/namespaces/default", 200), ("/nope", 404),
                           ("/livez", 200)):
            answer = root.get(path)
            self.assertEqual(answer.status, code)
            self.assertRegex(answer.headers["Date"], r"^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$")
            self.assertEqual(answer.headers["Content-Length"], str(len(answer.body)), path)
            if answer.headers["Content-Type"].startswith("text/plain"):
                self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff", path)

    def test_AM_075_no_hop_by_hop_header_on_http2(self):
        for path, more in ((MAPS, ()), (MAPS + "/nope", ()), ("/livez", ()), (MAPS + "?watch=1&timeoutSeconds=1", ()),
                           (MAPS, ("-d", "{", "-H", "Content-Type: application/json"))):
            shown = curl("--http2", "-i", *more, url=f"https://127.0.0.1:{installation.port}/clusters/root{path}").decode()
            head = shown.split("\r\n\r\n", 1)[0].lower().split("\r\n")
            self.assertTrue(head[0].startswith("http/2 "), head)
            names = {line.split(":", 1)[0] for line in head[1:]}
            self.assertIn("content-type", names)
            self.assertEqual(names & {"connection", "keep-alive", "transfer-encoding", "proxy-connection", "upgrade"}, set())


class Shutdown(Case):
    def test_AM_035_watches_at_a_shard_that_stops_end_cleanly_and_new_requests_are_refused(self):
        url = shard_url("shard-1")
        port = int(url.rsplit(":", 1)[1])
        installation.make_workspace("stopping", selector={"name": "shard-1"})
        watches = [curl("--http2", "-N", url=f"{url}/clusters/root:stopping{MAPS}?watch=1", background=True) for _ in range(3)]
        first = [json.loads(watch.stdout.readline()) for watch in watches]
        self.assertEqual({event["type"] for event in first}, {"ADDED"})
        before = installation.pid("shard-1")
        installation.kill("shard-1", signal.SIGTERM)
        for watch in watches:
            rest, errors = watch.communicate(timeout=60)
            self.assertEqual((watch.returncode, errors), (0, b""), "END_STREAM, no reset")
            self.assertTrue(not rest or rest.endswith(b"\n"))
        last = {"status": None}

        def back():
            assert installation.pid("shard-1") != before
            with socket.create_connection(("127.0.0.1", port), timeout=60):
                pass
            answer = installation.client("/clusters/root:stopping").get(MAPS)
            last["status"] = answer.status
            if answer.status != 200:
                assert answer.status in (429, 503), answer
                assert answer.headers["Retry-After"], answer
            return answer.status == 200

        kit.eventually(back, 20, "the shard is back")


if __name__ == "__main__":
    unittest.main()
