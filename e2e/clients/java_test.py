"""The Java clients, unmodified (AM-555): fabric8's and the official one, in a workspace of another shard
than root's, through the proxy. Maven fetches the libraries into a temporary folder; $KINTSUGI_JAVA_LIBRARIES names a folder that
has them already. Without Maven, a JDK or the libraries the tests are skipped."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import kit

ONLY_WITH_ALL = "fetches the clients by Maven, and needs a JDK"

SOURCES = pathlib.Path(__file__).resolve().parent / "java"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "beans.java.example.com"},
    "spec": {"group": "java.example.com", "scope": "Namespaced",
             "names": {"plural": "beans", "singular": "bean", "kind": "Bean", "listKind": "BeanList"},
             "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {
                 "openAPIV3Schema": {"type": "object", "properties": {
                     "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                     "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}]}}


def libraries(folder):
    """A folder with the clients' archives; raises SkipTest with the reason if they can not be had."""
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            raise unittest.SkipTest(f"no {program} on this machine")
    if given := os.environ.get("KINTSUGI_JAVA_LIBRARIES"):
        return given
    try:
        run = subprocess.run(["mvn", "--batch-mode", "--quiet", f"--file={SOURCES / 'pom.xml'}", f"-Dmaven.repo.local={folder / 'repository'}",
                              "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}", "-DincludeScope=runtime"],
                             capture_output=True, text=True, check=False, timeout=400)
    except subprocess.TimeoutExpired:
        raise unittest.SkipTest("the Java libraries did not come within 400 s") from None
    if run.returncode:
        raise unittest.SkipTest(f"Maven can not get the libraries: {run.stdout.strip()[-200:]}")
    return str(folder / "lib")


class JavaClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="kintsugi-e2e-java-"))
        cls.addClassCleanup(shutil.rmtree, folder, True)
        cls.libraries = libraries(folder)
        cls.installation = kit.shared(cls)
        cls.installation.make_workspace("java", selector={"region": "us-east-1"})
        cls.kubeconfig, cls.crd = folder / "kubeconfig", folder / "crd.json"
        cls.kubeconfig.write_text(cls.installation.kubeconfig.read_text().replace("/clusters/root\n", "/clusters/root:java\n"))
        cls.crd.write_text(json.dumps(CRD))

    def run_program(self, name, steps):
        # TieredStopAtLevel and UseSerialGC: short programs start faster. fabric8 takes keys for RSA ones unless told otherwise.
        run = subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dkubernetes.certs.client.key.algo=EC",
                              "-cp", f"{self.libraries}/*", SOURCES / f"{name}.java", self.kubeconfig, self.crd], capture_output=True, text=True, check=False, timeout=90)
        done = [line.removeprefix("done: ") for line in run.stdout.splitlines() if line.startswith("done: ")]
        self.assertEqual((run.returncode, done), (0, steps), run.stdout[-2000:] + run.stderr[-4000:])

    def test_fabric8(self):
        self.run_program("Fabric8", ["objects", "patches", "pages", "watch", "informer", "custom resources", "leader election",
                                     "watch", "informer"])

    def test_official(self):
        self.run_program("Official", ["objects", "patches", "watch", "informer", "dynamic"])


if __name__ == "__main__":
    unittest.main()
