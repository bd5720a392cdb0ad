"""Asks what attack_model.py lists and holds the answers, what is stored and the audit log against it (SE-200, SE-T016, SE-007, SE-036)."""
import collections
import http.client
import json
import re
import unittest

import attack_model as model
import kit
import steady
import trust

POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: Metadata}
"""
CLAIMS = [{"group": "", "resource": "configmaps", "verbs": ["*"]}, {"group": "", "resource": "secrets", "verbs": ["*"]}]
NAMES = {"nobody": "system:anonymous", "admin": "kcp-admin"}


# What a text for callers never has (SE-163): addresses, URLs, files, words of libraries.
TELLS = re.compile(rb"127\.0\.0\.1|localhost:\d|https?://|/tmp/|\.cc:\d|OpenSSL|SSL_|[Ee]rrno")
VARYING = {"date", "audit-id"}  # headers of which only the presence counts


def canary(workspace):
    return f"canary-of-{workspace}-3f9c"


class Stage:
    """Two tenants on two shards, a provider whose export one of them has bound, and a proxy that writes an audit log."""

    def __init__(self):
        self.up = up = kit.Installation(shards=2).start_for()
        self.clusters = {"none": "aaaaaaaaaaaaaaaa"}
        for name, shard in (("mine", "root"), ("other", "shard-1"), ("prov", "shard-1")):
            self.clusters[name] = up.make_workspace(name, selector={"name": shard})["spec"]["cluster"]
        for user, workspace in (("ann", "mine"), ("eve", "other")):
            trust.grant(up.client(f"/clusters/root:{workspace}"), user, "cluster-admin")
            trust.grant(up.client(f"/clusters/root:{workspace}"), user, "system:kcp:workspace:access")
        provider = up.client("/clusters/root:prov")
        trust.export_of(provider, "claims", group="claim.test", permissionClaims=CLAIMS)
        trust.grant(provider, "prov", "content", [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["*"]},
                                                  {"nonResourceURLs": ["/"], "verbs": ["access"]}])
        trust.grant(provider, "ann", "binder", [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "verbs": ["bind"]}])
        for workspace in ("mine", "other"):
            for path, kind in ((model.SECRETS, "s"), (model.MAPS, "m")):
                up.client(f"/clusters/root:{workspace}").must("POST", path, {"metadata": {"name": kind}, **(
                    {"stringData": {"k": canary(workspace)}} if kind == "s" else {"data": {"k": canary(workspace)}})})
        ann = up.user_client("ann", path="/clusters/root:mine")
        accepts = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "claims"}, "spec": {
            "reference": {"export": {"path": "root:prov", "name": "claims"}},
            "permissionClaims": [{"state": "Accepted", "selector": {"matchAll": True}, **claim} for claim in CLAIMS]}}
        kit.eventually(lambda: ann.request("POST", f"{trust.APIS}/apibindings", accepts).status in (201, 409), what="ann binds")
        policy = up.dir / "policy.yaml"
        policy.write_text(POLICY)
        self.proxy = kit.Proxy(up, {"audit": {"log_file": "audit.jsonl", "policy_file": str(policy)}})
        self.proxy.__enter__()  # pylint: disable=unnecessary-dunder-call
        unittest.addModuleCleanup(self.proxy.__exit__)
        self.actors = {actor: self.client(actor) for actor in model.ACTORS}
        view = f"/services/apiexport/{self.clusters['prov']}/claims/clusters/{self.clusters['mine']}"
        for actor, target in (("ann", f"/clusters/root:mine{model.SECRETS}/s"), ("eve", f"/clusters/root:other{model.SECRETS}/s"),
                              ("prov", f"{view}{model.SECRETS}/s"), ("prov", f"{view}{model.MAPS}/m"), ("admin", f"{view}{model.MAPS}/m"),
                              ("admin", f"/shards/shard-1/clusters/{self.clusters['other']}{model.SECRETS}/s")):
            kit.eventually(lambda a=actor, t=target: self.actors[a].get(t).status == 200, 30, f"{actor} has his rights at {target}")
        self.asked = {}  # audit id -> (actor, target, method, answer)

    def client(self, actor):
        pki = self.up.pki
        if actor in ("nobody", "bad token"):
            pair = (None, None)
        elif actor == "admin":
            pair = (pki / "admin.crt", pki / "admin.key")
        else:
            pair = kit.make_user(self.up.dir, pki, actor, ())
        return steady.Steady(f"https://127.0.0.1:{self.proxy.port}", pki / "serving-ca.crt", *pair)

    def state(self):
        """What must be the same afterwards."""
        out = {}
        for workspace in ("mine", "other"):
            client = self.up.client(f"/clusters/root:{workspace}")
            for path in (model.SECRETS, model.MAPS):
                out[workspace, path] = sorted((one["metadata"]["name"], one["metadata"]["resourceVersion"])
                                              for one in client.must("GET", path)["items"])
        return out

    def ask(self, actor, form, workspace, plural, verb, impersonation):
        trail = model.SECRETS if plural == "secrets" else model.MAPS
        trail += f"/{plural[0] if plural == 'secrets' else 'm'}" if verb.item else ""
        target = form.make(workspace, self.clusters[workspace], trail) + verb.query
        number = f"attack-{len(self.asked)}"
        headers = http.client.HTTPMessage()
        for key, value in (*verb.headers, *impersonation.headers):
            headers[key] = value
        headers["Audit-ID"] = number
        if actor == "bad token":
            headers["Authorization"] = "Bearer nobody-knows-this-token"
        body = verb.body if verb.body is None else json.dumps(verb.body)
        if body is not None and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        # Of a watch its first events count, if somebody's data may come at all.
        first = 0.1 if form.means == "wildcard" else 0.0
        answer = self.actors[actor].request(verb.method, target, body, headers=dict(headers.items()),
                                            first=first if verb.name == "watch" else None)
        self.asked[number] = (actor, target, verb, impersonation, answer)
        return target, answer

    def audit(self):
        """The lines by their ids, when all have come."""
        log = self.proxy.dir / "audit.jsonl"

        def lines():
            found = collections.defaultdict(list)
            for text in log.read_text().split("\n")[:-1]:
                event = json.loads(text)
                found[event["auditID"]].append(event)
            return found

        try:
            return kit.eventually(lambda: got if set(self.asked) <= set(got := lines()) else None, 10, "all lines of the audit")
        except kit.Timeout:
            return lines()


class Attacks(unittest.TestCase):
    """`cases` says which; tests run in their order."""

    maxDiff, longMessage = None, False
    stage = None
    cases = None

    def test_1_answers(self):
        stage, wrong, known = self.stage, collections.defaultdict(list), collections.Counter()
        before, count = stage.state(), 0
        for actor, form, workspace, plural, number, impersonation in type(self).cases(stage.clusters["prov"]):
            verb = model.verbs(plural, plural[0] if plural == "secrets" else "m")[number]
            wanted = model.expected(actor, form, workspace, verb, impersonation)
            target, answer = stage.ask(actor, form, workspace, plural, verb, impersonation)
            count += 1
            what = f"{actor} {verb.name} {target} as {impersonation.name}: {answer.status}, wanted {sorted(wanted.codes)} ({wanted.why})"
            hole = answer.status not in wanted.codes and model.known_hole(actor, form, verb, impersonation, answer.status)
            if hole:
                known[hole] += 1
            elif answer.status not in wanted.codes:
                wrong[actor, form.means, verb.name, impersonation.reserved, answer.status].append(what + f" {answer.body[:200]!r}")
            if answer.status >= 400 and (told := TELLS.search(answer.body)):
                wrong["tells", told[0]].append("TELLS " + what)
            for other in ("mine", "other"):
                if canary(other).encode() in answer.body and other not in wanted.may_read:
                    wrong["leak", actor, form.means].append("READ " + what)
        self.assertEqual(stage.state(), before, "nothing was written")
        print(f"{count} requests; known: {dict(known)}")
        self.assertEqual(len(known), model.KNOWN, "what is mended is taken out of known_hole()")
        self.assertFalse(wrong, "\n".join(f"{len(texts)} x {texts[0]}" for texts in wrong.values()))

    def test_2_audit(self):
        """One line each, with who asked, for whom, where, and what he was answered."""
        lines, wrong = self.stage.audit(), collections.defaultdict(list)
        for number, (actor, target, verb, impersonation, answer) in self.stage.asked.items():
            events = lines.get(number, [])
            what = f"{actor} {verb.name} {target} as {impersonation.name}: {answer.status}"
            if len(events) != 1:
                wrong[len(events), "lines", verb.name, answer.status].append(what)
                continue
            event = events[0]
            user = event.get("user", {}).get("username")
            # A bad token names nobody; where no target is read nobody is asked for his name.
            known = {NAMES.get(actor, actor)} | ({"system:anonymous", None, ""} if actor == "bad token" or answer.status in (307, 400, 401, 404, 405) else set())
            if user not in known:
                wrong["user", actor, user, answer.status].append(what)
            if event["responseStatus"]["code"] != answer.status:
                wrong["code", event["responseStatus"]["code"], answer.status].append(what)
            if event["requestURI"] != target:
                wrong["requestURI", verb.name].append(what + " " + event["requestURI"])
            if impersonation.user and answer.status < 300 and event.get("impersonatedUser", {}).get("username") != impersonation.user:
                wrong["impersonated", verb.name].append(what + str(event.get("impersonatedUser")))
        self.assertFalse(wrong, "\n".join(f"{key}: {len(texts)} x {texts[0]}" for key, texts in wrong.items()))

    def test_3_strangers_hear_the_same_of_what_exists_and_what_does_not(self):
        """SE-160, SE-T070: byte for byte, but for what they sent themselves."""
        stage, wrong = self.stage, []
        some = [verb for verb in model.verbs("secrets", "s") if verb.name in ("get", "head", "list", "create", "delete", "websocket", "trace")]
        for actor in ("nobody", "bad token"):
            for form in model.forms(stage.clusters["prov"]):
                for verb in some:
                    seen = {}
                    for workspace in model.WORKSPACES:
                        target, answer = stage.ask(actor, form, workspace, "secrets", verb, model.impersonations()[0])
                        seen[self.as_nobodys(answer, workspace)] = f"{workspace}: {answer.status} {answer.body[:120]!r}"
                    if len(seen) > 1:
                        wrong.append(f"{actor} {verb.name} {target}: {list(seen.values())}")
        self.assertFalse(wrong, f"{len(wrong)}, first:\n" + "\n".join(wrong[:20]))

    def as_nobodys(self, answer, workspace):
        """Status, headers and body without the names that were sent."""
        def plain(text):
            for name in (self.stage.clusters[workspace], f"root:{workspace}", f"root%3A{workspace}", f"system:{workspace}",
                         "shards/shard-1", "shards/root"):
                text = text.replace(name, "NAME")
            return text

        headers = tuple(sorted((key.lower(), "" if key.lower() in VARYING else plain(value)) for key, value in answer.headers.items()
                               if key.lower() != "content-length"))
        return answer.status, headers, plain(answer.body.decode(errors="replace"))

    def test_4_nothing_secret_is_in_logs(self):
        """SE-165: neither the token nor what is in the objects."""
        texts = [self.stage.proxy.log, self.stage.proxy.dir / "audit.jsonl", self.stage.up.log, *self.stage.up.state.glob("logs/*.log")]
        for path in texts:
            text = path.read_text(errors="replace")
            for word in ("nobody-knows-this-token", canary("mine"), canary("other")):
                self.assertNotIn(word, text, path)
