"""Faults of servers, brokers and credentials, by real ones: each is told, and nothing is lost (docs/spec/delivery.md)."""
import base64
import http.server
import json
import os
import signal
import subprocess
import time

import delivery
import fault_relay
import kit
from delivery import MAPS, config_map

ONLY_WITH_ALL = "brokers stand still for half a minute, and 200 clients change hands"


class Rejecting:
    """A validating webhook that allows nothing."""

    def __init__(self, pki, text):
        self.text, hook = text, self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                said = json.dumps({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": {
                    "uid": review["request"]["uid"], "allowed": False, "status": {"message": hook.text, "code": 403, "reason": "Invalid"}}})
                self.send_response(200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said.encode())

        self.server = kit.Server(Handler, pki)
        self.url, self.close = self.server.url, self.server.close


class Faults(delivery.OwnCase):
    def begin(self, profile="wide", more="", **agent):
        broker = self.enterContext(delivery.Broker(profile, more))
        return broker, self.enterContext(delivery.Agent(self.stage, broker, **agent))

    def data(self, name):
        answer = self.target.get(f"{MAPS}/{name}")
        return answer.json["data"] if answer.status == 200 else None

    def test_CM_T027_CM_T035_a_server_that_refuses_for_a_while_and_a_watch_that_ends(self):
        relay = fault_relay.Relay(self.installation, delivery.USER).start_for(self)
        broker, agent = self.begin(server=relay.url)
        agent.until_ready()
        hub = self.hub(broker)
        said = lambda code, reason: json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}).encode()
        kinds = {"Content-Type": "application/json"}
        for code, reason in ((409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")):
            rule = relay.rule("PATCH", f"configmaps/fault-{code}", times=2, answer=(code, kinds, said(code, reason)))
            hub.send(f"fault-{code}", config_map(f"fault-{code}", a="1"))
            hub.until(f"fault-{code}", "Reconciled", "True/Success", 40)
            self.assertEqual((rule.hits, self.data(f"fault-{code}")), (2, {"a": "1"}))
            self.assertEqual({one.says("Reconciled") for one in hub.of(f"fault-{code}")}, {"True/Success"})
            rule = relay.rule("DELETE", f"configmaps/fault-{code}", times=2, answer=(code, kinds, said(code, reason)))
            hub.send(f"fault-{code}", config_map(f"fault-{code}"), 2, deleted=True)
            hub.until(f"fault-{code}", "Deleted", "True/Success", 60)
            self.assertIsNone(self.data(f"fault-{code}"))
            hub.clear(f"fault-{code}")
        kit.eventually(lambda: agent.metric("delivery_orders") == 0, 20)
        self.assertEqual(agent.metric("delivery_watches"), 0)
        hub.send("mark", config_map("mark"))
        hub.until("mark", "Reconciled", "True/Success")
        self.assertEqual(agent.metric("delivery_watches"), 1)

    def test_CM_T037_the_words_of_a_webhook(self):
        hook = Rejecting(self.installation.pki, "no lamps on Sundays")
        self.addCleanup(hook.close)
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        ca = (self.installation.pki / "serving-ca.crt").read_bytes()
        self.target.must("POST", path, {"metadata": {"name": "sundays"}, "webhooks": [{
            "name": "sundays.test.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": hook.url + "/hook", "caBundle": base64.b64encode(ca).decode()},
            "objectSelector": {"matchLabels": {"judged": "yes"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}]}]})  # fmt: skip
        self.addCleanup(self.target.request, "DELETE", f"{path}/sundays")
        broker, agent = self.begin()
        agent.until_ready()
        hub = self.hub(broker)
        judged = {**config_map("judged"), "metadata": {"name": "judged", "namespace": "default", "labels": {"judged": "yes"}}}

        def refused():
            generation = int(time.time() * 1000)
            hub.send(f"judged-{generation}", judged, generation)
            said = kit.eventually(lambda: hub.of(f"judged-{generation}"), 20)[0].conditions["Reconciled"]
            assert "no lamps on Sundays" in said.get("message", ""), said  # the configuration is known a moment later
            return said["reason"]

        self.assertEqual(kit.eventually(refused, 30), "CreateFailed")

    def test_CM_T059_a_namespace_of_another_workspace(self):
        broker, agent = self.begin()
        agent.until_ready()
        hub = self.hub(broker)
        other = self.stage.targets["other"]
        other.must("POST", "/api/v1/namespaces", {"metadata": {"name": "theirs"}})
        hub.send("theirs", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": "theirs"}, "data": {"a": "1"}})
        hub.until("theirs", "Reconciled", "False/CreateFailed")
        self.assertEqual(other.get("/api/v1/namespaces/theirs/configmaps/theirs").status, 404)
        for name in ("../../../clusters/root:other/api/v1/namespaces/theirs/configmaps/x", "x?y", "x/y"):
            seen = len(hub.of("paths"))
            hub.send("paths", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
            hub.until("paths", "Reconciled", "False/InvalidManifest", after=seen)

    def test_CM_T019_credentials_that_are_refused(self):
        broker = delivery.Broker("wide")
        self.addCleanup(broker.__exit__)
        password, secret = broker.dir / "passwords", broker.dir / "secret"
        subprocess.run(["mosquitto_passwd", "-b", "-c", str(password), "agent", "right"], check=True, capture_output=True)
        broker.config.write_text(broker.config.read_text().replace("allow_anonymous true", f"allow_anonymous false\npassword_file {password}"))
        secret.write_text("wrong\n")
        secret.chmod(0o600)
        broker.start()
        agent = self.enterContext(delivery.Agent(self.stage, broker, delivery={"broker": {"url": broker.url, "user": "agent",
                                                                                          "password_file": str(secret)}}))  # fmt: skip
        kit.eventually(lambda: "refused" in agent.ask("/readyz?verbose")[1], 30, "the page says why")
        log = broker.dir / "log"
        begun, tries = time.monotonic(), lambda: log.read_text().count("disconnected, not authorised")
        kit.eventually(lambda: tries() == 2, 80, "it tries again")
        self.assertGreater(time.monotonic() - begun, 20)
        agent.stop()
        secret.write_text("right\n")
        agent.start().until_ready()

    def test_CM_T039_topics_of_others(self):
        broker = delivery.Broker("wide")
        self.addCleanup(broker.__exit__)
        rules = broker.dir / "acl"
        rules.write_text("pattern read v1/%c/+/content\npattern write v1/%c/+/status\npattern read v2/%c/+/content\n"
                         "user hub\ntopic readwrite #\n")  # fmt: skip
        password, secret = broker.dir / "passwords", broker.dir / "secret"
        for user in ("agent", "hub"):
            subprocess.run(["mosquitto_passwd", "-b", *([] if password.exists() else ["-c"]), str(password), user, "word"], check=True,
                           capture_output=True)  # fmt: skip
        broker.config.write_text(broker.config.read_text().replace("allow_anonymous true",
                                                                   f"allow_anonymous false\npassword_file {password}\nacl_file {rules}"))
        secret.write_text("word\n")
        secret.chmod(0o600)
        broker.start()
        agent = self.enterContext(delivery.Agent(self.stage, broker, delivery={
            "broker": {"url": broker.url, "user": "agent", "password_file": str(secret)}, "topic_prefixes": ["v1/", "v2/"]}))  # fmt: skip
        agent.until_ready()
        path = broker.dir / "object.json"
        path.write_text(json.dumps(config_map("allowed")))
        as_hub = {"CONCERTMASTER_BROKER_URL": broker.url, "CONCERTMASTER_CLIENT_ID": "edge", "CONCERTMASTER_BROKER_USERNAME": "hub",
                  "CONCERTMASTER_BROKER_PASSWORD": "word"}  # fmt: skip
        self.assertIn("Success", delivery.hub_tool(broker, "send", str(path), "--wait", "30s", env=as_hub))
        # Another client may not order for this one.
        path.write_text(json.dumps(config_map("forbidden")))
        said = delivery.hub_tool(broker, "send", str(path), env={**as_hub, "CONCERTMASTER_BROKER_USERNAME": "agent"}, expect=1)
        self.assertIn("reason 135", said)
        # Its own status is refused where it may not write: counted, told, tried again.
        path.write_text(json.dumps(config_map("silent")))
        delivery.hub_tool(broker, "send", str(path), "--prefix", "v2/", env=as_hub)
        kit.eventually(lambda: agent.metric("delivery_statuses_total", result="refused") >= 2, 30)
        kit.eventually(lambda: "refuses" in agent.ask("/readyz?verbose")[1], 20, "the page says it")
        # This broker ends the connection with each refusal: twenty that nobody may tell end it seldom, and others are served in between.
        for number in range(20):
            path.write_text(json.dumps(config_map(f"silent-{number}")))
            delivery.hub_tool(broker, "send", str(path), "--prefix", "v2/", env=as_hub)
        for number in range(5):
            path.write_text(json.dumps(config_map(f"beside-{number}")))
            self.assertIn("Success", delivery.hub_tool(broker, "send", str(path), "--wait", "30s", env=as_hub))
        self.assertLess(agent.metric("delivery_statuses_total", result="refused"), 10)
        self.assertLess(agent.metric("delivery_connects_total"), 12)
        self.assertIsNone(self.data("forbidden"))
        # Once it may write there, what waited is told.
        rules.write_text(rules.read_text().replace("user hub", "pattern write v2/%c/+/status\nuser hub"))
        broker.process.send_signal(signal.SIGHUP)
        said = lambda: delivery.hub_tool(broker, "status", "--prefix", "v2/", env=as_hub)
        kit.eventually(lambda: said().count("Reconciled=True") == 21, 90, "the statuses of v2/ are told")
        agent.until_ready()

    def test_CM_T060_TLS_by_the_right_certificates_alone(self):
        broker = delivery.Broker("wide")
        self.addCleanup(broker.__exit__)
        made = lambda name, *more: self.pair(broker.dir, name, *more)
        ca, other = made("ca"), made("other")
        server = made("server", ca)
        client, expired = made("edge", ca), made("expired", ca, "-days", "-1")
        text = broker.config.read_text().replace("allow_anonymous true", "allow_anonymous false")
        broker.config.write_text(text + f"cafile {ca[0]}\ncertfile {server[0]}\nkeyfile {server[1]}\nrequire_certificate true\n"
                                        "use_identity_as_username true\n")  # fmt: skip
        broker.start()
        url = f"mqtts://127.0.0.1:{broker.port}"

        def agent(authority, pair):
            return delivery.Agent(self.stage, broker, delivery={"broker": {
                "url": url, "ca_file": str(authority[0]), "certificate_file": str(pair[0]), "key_file": str(pair[1])}})

        for authority, pair in ((other, client), (ca, expired)):
            with agent(authority, pair) as refused:
                kit.eventually(lambda worker=refused: "client edge" in worker.ask("/readyz?verbose")[1], 30)
                kit.eventually(lambda worker=refused: worker.log.read_text().count("no connection to the broker") >= 2, 30)
                self.assertEqual(refused.metric("delivery_connects_total"), 0)
        with agent(ca, client) as right:
            right.until_ready().connected()
        self.assertIn("u'edge'", (broker.dir / "log").read_text())

    @staticmethod
    def pair(folder, name, issuer=None, *more):  # pylint: disable=keyword-arg-before-vararg
        """(certificate, key)"""
        crt, key, request = folder / f"{name}.crt", folder / f"{name}.key", folder / f"{name}.csr"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", str(key), "-subj", f"/CN={name}"]
        if issuer is None:
            command = ["openssl", "req", "-x509", *curve, "-out", str(crt), "-days", "2"]
        else:
            subprocess.run(["openssl", "req", "-new", *curve, "-out", str(request), "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                           capture_output=True)  # fmt: skip
            command = ["openssl", "x509", "-req", "-in", str(request), "-CA", str(issuer[0]), "-CAkey", str(issuer[1]), "-copy_extensions", "copy",
                       "-set_serial", str(int.from_bytes(os.urandom(8), "big")), "-out", str(crt), *(more or ("-days", "2"))]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        return crt, key

    def test_CM_T051_a_broker_that_stands_still(self):
        broker, agent = self.begin()
        agent.until_ready().connected()
        hub = self.hub(broker)
        broker.process.send_signal(signal.SIGSTOP)
        try:
            kit.eventually(lambda: agent.metric("delivery_connected") == 0, 60, "it notices")
            self.assertIn("silent", agent.log.read_text())
        finally:
            broker.process.send_signal(signal.SIGCONT)
        agent.connected()
        hub.send("moves", config_map("moves"))
        hub.until("moves", "Reconciled", "True/Success", 40)

    def test_CM_T064_two_hundred_clients_of_two_workers(self):
        broker = self.enterContext(delivery.Broker("wide"))
        clients = [f"c-{number}=root:edge" for number in range(200)]
        first = self.enterContext(delivery.Agent(self.stage, broker, clients=clients)).until_ready(90)
        second = self.enterContext(delivery.Agent(self.stage, broker, clients=clients)).until_ready(90)
        kit.eventually(lambda: second.metric("delivery_connected") > 50, 60, "both have some")
        kit.eventually(lambda: first.metric("delivery_connected") + second.metric("delivery_connected") == 200, 60)
        memory = kit.own_memory(first.process.pid)
        self.assertLess(memory, 300 << 20)
        hub = self.hub(broker, "c-7")
        first.process.kill()
        first.process.wait(120)
        second.connected(200)
        for number in range(0, 200, 20):
            path = broker.dir / "object.json"
            path.write_text(json.dumps(config_map(f"many-{number}")))
            self.assertIn("Success", delivery.hub_tool(broker, "send", str(path), "--wait", "30s", client=f"c-{number}"))
        hub.send("seven", config_map("seven"))
        hub.until("seven", "Reconciled", "True/Success")
