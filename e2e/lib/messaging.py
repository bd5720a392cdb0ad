"""What tests of the messaging worker's kinds (configs/messaging) share: the kinds installed in a workspace of a provider and bound
by another one, the least object of each kind, and rows of what is refused and what is accepted."""
import copy
import pathlib
import re
import unittest

import kit

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs" / "messaging"
SCHEMAS = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas"
APIS = "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
YAML = {"Content-Type": "application/yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
WITHOUT = object()  # as a value: the field is not there

ADMIN1, ADMIN2, V1BETA1, V1BETA2, V1 = "admin.enmasse.io/v1beta1", "admin.enmasse.io/v1beta2", "enmasse.io/v1beta1", "enmasse.io/v1beta2", "enmasse.io/v1"
KINDS = {"MessagingInfra": (ADMIN1, "messaginginfras"), "AddressSpacePlan": (ADMIN2, "addressspaceplans"), "AddressPlan": (ADMIN2, "addressplans"),
         "AddressSpace": (V1BETA1, "addressspaces"), "Address": (V1BETA1, "addresses"), "MessagingTenant": (V1BETA2, "messagingtenants"),
         "MessagingPlan": (V1BETA2, "messagingplans"), "MessagingAddressPlan": (V1BETA2, "messagingaddressplans"),
         "MessagingEndpoint": (V1BETA2, "messagingendpoints"), "MessagingConnector": (V1BETA2, "messagingconnectors"),
         "MessagingAddress": (V1BETA2, "messagingaddresses"), "MessagingProject": (V1, "messagingprojects")}
# The least that each kind takes, by the word that rows name it with.
LEAST = {"infra": ("MessagingInfra", {}), "asplan": ("AddressSpacePlan", {"messagingInfraRef": "infra1"}),
         "msgplan": ("MessagingPlan", {"messagingInfraRef": "infra1"}), "plan": ("AddressPlan", {"addressType": "queue"}),
         "msgaplan": ("MessagingAddressPlan", {"addressType": "queue"}), "space": ("AddressSpace", {"plan": "small"}),
         "address": ("Address", {"address": "a", "type": "queue"}), "msga": ("MessagingAddress", {"queue": {}}),
         "endpoint": ("MessagingEndpoint", {"protocols": ["AMQP"], "cluster": {}}),
         "connector": ("MessagingConnector", {"endpointHosts": [{"host": "h"}]}), "tenant": ("MessagingTenant", {}), "project": ("MessagingProject", {})}
HOSTS = [{"host": "h"}]


def documents(path):
    return [one for one in re.split(r"^---\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE) if "\nkind:" in "\n" + one]


def collection(document):
    """Where a document of YAML is posted to: (kind, path)."""
    kind, version = (re.search(rf"^{key}: *(\S+)", document, re.MULTILINE)[1] for key in ("kind", "apiVersion"))
    if kind == "Namespace":
        return kind, "/api/v1/namespaces"
    if kind.startswith("ClusterRole"):
        return kind, f"{RBAC}/{kind.lower()}s"
    if kind not in KINDS:
        return kind, f"/apis/{version}/{kind.lower()}s"
    namespace = re.search(r"^  namespace: *(\S+)", document, re.MULTILINE)
    return kind, place(kind, namespace[1] if namespace else "default")


def place(kind, namespace="default"):
    return f"/apis/{KINDS[kind][0]}/namespaces/{namespace}/{KINDS[kind][1]}"


def made_of(word, changes, name="default"):
    """The least object with these changes, {path: value}; a path without dots is one below the spec."""
    kind, spec = LEAST[word]
    whole = {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": {"name": name}, "spec": copy.deepcopy(spec)}
    for path, value in changes.items():
        *steps, last = path.split(".")
        here = whole if steps and steps[0] == "metadata" else whole["spec"]
        for step in steps:
            here = here.setdefault(step, {})
        if value is WITHOUT:
            here.pop(last)
        else:
            here[last] = value
    return kind, whole


def deep(value, path):
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value.get(step)
    return value


class Bound(unittest.TestCase):
    """Workspaces of the names <prefix>-prov and <prefix>-one in the installation that the test has set."""

    installation, prefix = None, "mk"

    @classmethod
    def setUpClass(cls):
        for name, shard in ((f"{cls.prefix}-prov", "shard-1"), (f"{cls.prefix}-one", "shard-2")):
            cls.installation.make_workspace(name, selector={"name": shard})
        cls.prov, cls.one = (cls.installation.client(f"/clusters/root:{cls.prefix}-{name}") for name in ("prov", "one"))
        for path in sorted((CONFIGS / "schemas").glob("*.yaml")):
            cls.prov.must("POST", SCHEMAS, path.read_bytes(), headers=YAML)
        for name in ("export.yaml", "rbac.yaml"):
            for document in documents(CONFIGS / name):
                cls.prov.must("POST", collection(document)[1], document.encode(), headers=YAML)
        # Bound by somebody who has all rights in his workspace and none elsewhere.
        cls.one.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "mk-owner"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "mk-owner"}]})
        cls.owner = cls.installation.user_client("mk-owner", path=f"/clusters/root:{cls.prefix}-one")
        binding = (CONFIGS / "examples" / "binding.yaml").read_text(encoding="utf-8").replace("root:messaging", f"root:{cls.prefix}-prov")

        def asked():
            answer = cls.owner.request("POST", APIS + "/apibindings", binding.encode(), headers=YAML)
            assert answer.status == 201, answer
            return answer

        def bound():
            status = cls.one.must("GET", APIS + "/apibindings/messaging")["status"]
            assert status["phase"] == "Bound" and all(one["status"] == "True" for one in status["conditions"]), status
            return status

        kit.eventually(asked, 20, "asked for")
        cls.bound = kit.eventually(bound, 20, "bound")
        for kind in KINDS:
            kit.eventually(lambda k=kind: cls.one.get(place(k)).status == 200, what=f"{kind} served")

    def tried(self, word, changes, dry=True):
        kind, whole = made_of(word, changes)
        return self.one.request("POST", place(kind) + "?dryRun=All" * dry, whole)

    def refused(self, rows):
        """422, and among its words those of the row, for (word, {path: value} or path, value, words)."""
        for row in rows:
            word, changes, words = row if isinstance(row[1], dict) else (row[0], {row[1]: row[2]}, row[3])
            with self.subTest(word, **{re.sub(r"\W", "_", key): "absent" if value is WITHOUT else str(value)[:60] for key, value in changes.items()}):
                answer = self.tried(word, changes)
                self.assertEqual(answer.status, 422, answer.body[:2000])
                for one in [words] if isinstance(words, str) else words:
                    self.assertIn(one, answer.json["message"])

    def accepted(self, rows):
        """201, without a warning, and the value is what was given, for (word, {path: value}) or (word, path, value)."""
        for row in rows:
            word, changes = row if isinstance(row[1], dict) else (row[0], {row[1]: row[2]})
            with self.subTest(word, **{re.sub(r"\W", "_", key): str(value)[:60] for key, value in changes.items()}):
                answer = self.tried(word, changes)
                self.assertEqual((answer.status, answer.headers.get("Warning")), (201, None), answer.body[:2000])
                for path, value in changes.items():
                    if value is not WITHOUT:
                        self.assertEqual(self.holds(deep(answer.json if path.startswith("metadata.") else answer.json["spec"], path), value), value)

    def holds(self, found, wanted):
        """What is found, without what defaults have added to what was wanted."""
        if isinstance(wanted, dict):
            return {key: self.holds(found.get(key), value) for key, value in wanted.items()}
        if isinstance(wanted, list):
            return [self.holds(*pair) for pair in zip(found, wanted)]
        return found
