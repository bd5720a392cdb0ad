"""From an empty folder to messages: the section of README.md about messaging and the commands of docs/messaging-tenant.md, typed as they
stand; clients are Proton and npm rhea. Then what a person sees of every kind of messaging with kubectl: columns and events."""
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import amqp
import kit
import typed

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "configs" / "messaging"
PORTS = {"management": "5670", "clients": "5672", "broker": "61616", "proxy": "6443"}
# What the first line of `kubectl get -o wide` of each kind has.
COLUMNS = {
    "messaginginfras": "NAME DEPLOYMENT TOPOLOGY READY PHASE MESSAGE AGE",
    "addressspaceplans": "NAME TYPE SPACES FEASIBLE INFRA PHASE MESSAGE AGE",
    "addressplans": "NAME TYPE PHASE MESSAGE AGE",
    "addressspaces": "NAME TYPE PLAN READY PHASE MESSAGE AGE",
    "addresses": "NAME ADDRESS TYPE PLAN READY PHASE MESSAGE AGE",
    "messagingtenants": "NAME PLAN READY INFRA PHASE MESSAGE AGE",
    "messagingprojects": "NAME PLAN READY INFRA PHASE MESSAGE AGE",
    "messagingplans": "NAME SPACES FEASIBLE INFRA PHASE MESSAGE AGE",
    "messagingaddressplans": "NAME TYPE PHASE MESSAGE AGE",
    "messagingaddresses": "NAME ADDRESS TYPE PLAN READY PHASE MESSAGE AGE",
    "messagingendpoints": "NAME HOST TYPE PROTOCOLS READY PHASE MESSAGE AGE",
    "messagingconnectors": "NAME HOST READY PHASE MESSAGE AGE",
}
# One object of each kind that the walk does not make, beside a tenant of namespace myapp.
MORE = """
apiVersion: v1
kind: Namespace
metadata: {name: myapp, annotations: {enmasse.io/messaging: "true", enmasse.io/messaging-plan: team}}
---
apiVersion: v1
kind: Namespace
metadata: {name: typo, annotations: {enmasse.io/messaging: "yes"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: project}
---
apiVersion: enmasse.io/v1beta2
kind: MessagingPlan
metadata: {name: team, namespace: myapp}
spec: {messagingInfraRef: {name: walk, namespace: default}}
---
apiVersion: enmasse.io/v1
kind: MessagingProject
metadata: {name: default, namespace: project}
spec: {messagingInfrastructureRef: {name: walk, namespace: default}}
---
apiVersion: enmasse.io/v1beta2
kind: MessagingAddressPlan
metadata: {name: plain, namespace: myapp}
spec: {addressType: queue}
---
apiVersion: enmasse.io/v1beta2
kind: MessagingAddress
metadata: {name: jobs, namespace: myapp}
spec: {plan: plain, queue: {}}
---
apiVersion: enmasse.io/v1beta2
kind: MessagingEndpoint
metadata: {name: inside, namespace: myapp}
spec: {protocols: [AMQP], cluster: {}}
---
apiVersion: enmasse.io/v1beta2
kind: MessagingConnector
metadata: {name: away, namespace: myapp}
spec: {endpointHosts: [{host: localhost, port: 5671}]}
---
apiVersion: enmasse.io/v1beta1
kind: AddressSpace
metadata: {name: lost}
spec: {plan: none}
"""


def section(document, title):
    return typed.steps(typed.section((ROOT / document).read_text(encoding="utf-8"), title))


def python_with_proton():
    for program in ("python3", "/usr/bin/python3"):
        found = shutil.which(program)
        if found and subprocess.run([found, "-c", "import proton"], capture_output=True, check=False).returncode == 0:
            return found
    return None


def setUpModule():
    global installation, router, broker, shell, proton  # pylint: disable=global-variable-undefined
    proton = python_with_proton()
    router = amqp.Router("router").start_for()
    broker = amqp.Artemis("broker", global_max_size=268435456).start_for()
    installation = kit.Installation("--workers", "messaging", shards=1).start_for()
    folder = installation.dir
    (folder / ".kintsugi").symlink_to(installation.state)
    (folder / "configs").mkdir()
    shutil.copytree(CONFIGS, folder / "configs" / "messaging")
    walk = folder / "configs" / "messaging" / "walk.yaml"
    walk.write_text(with_ports(walk.read_text(encoding="utf-8")), encoding="utf-8")
    os.environ["NODE_PATH"] = str(amqp.node_modules())
    shell = typed.Shell(folder)
    unittest.addModuleCleanup(shell.close)
    shell.run(f"export KUBECONFIG={folder}/.kintsugi/admin.kubeconfig HOME={folder}")


def with_ports(text):
    """With the ports of this run."""
    for name, port in {"management": router.port, "clients": router.tenants_port, "broker": broker.port, "proxy": installation.port}.items():
        text = re.sub(rf"\b{PORTS[name]}\b", str(port), text)
    return text


class Walk(unittest.TestCase):
    def type(self, commands):
        for command, printed in commands:
            with self.subTest(command=command):
                if command.startswith("python3 "):
                    if proton is None:
                        continue
                    command = proton + command.removeprefix("python3")
                typed.check(shell, with_ports(command), [with_ports(line) for line in printed])

    def test_1_the_readme_leads_to_messages(self):
        commands = section("README.md", "Messages")
        self.assertGreater(len(commands), 5)
        self.type(commands)

    def test_2_MS089_the_clients_of_the_guide_carry_messages_of_each_type(self):
        commands = section("docs/messaging-tenant.md", "Send and receive")
        self.assertGreater(len(commands), 3)
        self.type(commands)

    def test_2_MS089_proton_is_a_client(self):
        if proton is None:
            self.skipTest("no python3-qpid-proton on this machine")
        space = installation.kubectl("get", "addressspace", "shop", "-o", "jsonpath={.status.spaceId}")
        for address, source in (("orders", "orders"), ("prices", "prices"), ("ticker", "ticker"), ("news", "press")):
            with self.subTest(address):
                run = subprocess.run([proton, str(CONFIGS / "examples" / "hello.py"), f"127.0.0.1:{router.tenants_port}", space, address, source],
                                     capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
                self.assertEqual((run.returncode, run.stdout), (0, f"sent, and accepted\nreceived: hello, {address}\n"), run.stderr)

    def test_3_columns_of_every_kind(self):
        installation.kubectl("apply", "-f", "-", input_text=MORE)
        for kind, columns in COLUMNS.items():
            with self.subTest(kind):

                def shown(kind=kind, columns=columns):
                    head, *rows = installation.kubectl("get", kind, "-A", "-o", "wide").splitlines()
                    assert " ".join(head.split()) == "NAMESPACE " + columns, head
                    assert rows and all(row.split()[-1][-1] in "smh" for row in rows), rows
                    return True

                kit.eventually(shown, 20, f"columns of {kind}")

        def tenants():
            rows = installation.kubectl("get", "messagingtenants", "-n", "myapp").splitlines()
            assert re.fullmatch(r"default +team +true +Active +\d+s", rows[1]), rows
            return True

        kit.eventually(tenants, 30, "the tenant of the annotations")

    def test_4_MS017_MS027_events_tell_what_became_of_objects(self):
        def told():
            lines = installation.kubectl("get", "events", "-A", "-o", "custom-columns=T:.type,R:.reason,K:.involvedObject.kind,N:.involvedObject.name,"
                                         "M:.message", "--no-headers").splitlines()  # fmt: skip
            text = "\n".join(" ".join(line.split()) for line in lines)
            for wanted in ("Normal Ready MessagingInfra walk it is ready", "Normal Bound AddressSpace shop bound to infra default/walk",
                           "Normal Ready AddressSpace shop it is ready", "Normal Scheduled Address shop.orders placed on broker",
                           "Normal Ready Address shop.orders it is ready", "Warning UnknownAnnotationValue Namespace typo enmasse.io/messaging is ",
                           "Warning ForbiddenHost MessagingConnector away ", "Normal Ready MessagingTenant default it is ready",
                           "Warning PlanNotFound AddressSpace lost "):  # fmt: skip
                assert wanted in text, f"{wanted}\nin\n{text}"
            return True

        kit.eventually(told, 30, "events")


if __name__ == "__main__":
    unittest.main()
