"""Secrets at rest (SE-149 to SE-151, SE-T064): what lies on the disk, rotation of keys while it runs and while it does not, kill -9
in the middle, values that do not open; files of keys that others may read (SE-143, SE-T060)."""
import base64
import contextlib
import os
import pathlib
import re
import subprocess
import unittest

import kit

SECRETS = "/api/v1/namespaces/default/secrets"
MAPS = "/api/v1/namespaces/default/configmaps"
CANARY = "canary-7f1c9e"
ENCODED = base64.b64encode(CANARY.encode()).decode()
IDENTITY = "  - identity: {}\n"


def secret(name):
    return {"metadata": {"name": name}, "data": {"password": ENCODED}}


def config(*providers, resources="[secrets]"):
    return ("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
            f"- resources: {resources}\n  providers:\n" + "".join(providers)).encode()


def aesgcm(*names):
    """Keys of these names; a name's first letter is its bytes."""
    keys = "".join(f"      - {{name: {name}, secret: {base64.b64encode(name[0].encode() * 32).decode()}}}\n" for name in names)
    return "  - aesgcm:\n      keys:\n" + keys


def store(*arguments, expect=0):
    run = subprocess.run([str(kit.BINARY), "store", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == expect, f"{arguments}: {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout + run.stderr


def found(folder, *texts):
    """The files below the folder in which one of the texts stands."""
    out = []
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            out += [path.name for text in texts if text.encode() in content]
    return out


class Encryption(unittest.TestCase):
    def installation(self, text=None):
        """One shard, with this configuration in the place of the one that `up` would make."""
        made = kit.Installation(shards=1)
        self.addCleanup(made.__exit__, None, None, None)
        self.data = made.state / "shards" / "root" / "data"
        self.file = made.pki / "encryption.yaml"
        if text is not None:
            made.pki.mkdir(parents=True)
            self.file.write_bytes(text)
        return made.start()

    def password(self, client, name):
        return base64.b64decode(client.must("GET", f"{SECRETS}/{name}")["data"]["password"]).decode()

    def test_SE_149_up_encrypts_secrets_by_itself(self):
        installation = self.installation()
        client = installation.client()
        text = self.file.read_text()
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        name, key = re.search(r"name: (\S+)\n\s+secret: (\S+)\n", text).groups()
        self.assertEqual(len(base64.b64decode(key)), 32)
        client.must("POST", SECRETS, secret("a"))
        client.must("POST", SECRETS, secret("gone"))
        client.must("DELETE", f"{SECRETS}/gone")
        client.must("POST", MAPS, {"metadata": {"name": "plain"}, "data": {"text": "seen-anyway"}})
        watched = next(iter(client.watch(f"{SECRETS}?watch=1&resourceVersion=1")))
        self.assertEqual(watched["object"]["data"], {"password": ENCODED})
        backup = installation.dir / "backup"
        store("backup", "--from", self.data, "--to", backup)
        self.assertEqual(found(installation.state, CANARY, ENCODED), [])
        self.assertEqual(found(backup, CANARY, ENCODED), [])
        self.assertEqual(found(backup, "seen-anyway", f"k8s:enc:aesgcm:v1:{name}:"), ["data.mdb", "data.mdb"])  # it looks
        self.assertEqual(found(installation.state, key), ["encryption.yaml"])
        installation.stop()
        installation.start()
        self.assertEqual(kit.eventually(lambda: self.password(client, "a")), CANARY)
        self.assertEqual(self.file.read_text(), text)

    def test_SE_151_what_lay_there_plain_is_rewritten(self):
        installation = self.installation(config(IDENTITY))
        client = installation.client()
        for name in "abc":
            client.must("POST", SECRETS, secret(name))
        client.must("DELETE", f"{SECRETS}/c")
        installation.stop()
        self.assertIn("data.mdb", found(self.data, ENCODED))
        self.file.write_bytes(config(aesgcm("new"), IDENTITY))
        installation.start()
        before = kit.eventually(lambda: client.must("GET", f"{SECRETS}/a"))
        client.must("POST", SECRETS, secret("d"))
        rewrite = ["rewrite", "--dir", self.data, "--encryption-provider-config", self.file]
        self.assertIn("already in use", store(*rewrite, expect=1))
        installation.stop()
        self.assertRegex(store(*rewrite), r"values, [1-9]\d* of them rewritten")
        self.assertEqual(found(self.data, CANARY, ENCODED), [])
        self.assertIn(": ok", store("check", "--dir", self.data))
        self.assertRegex(store(*rewrite), r"values, 0 of them rewritten")
        self.file.write_bytes(config(aesgcm("new")))
        installation.start()
        self.assertEqual(kit.eventually(lambda: client.must("GET", f"{SECRETS}/a")), before)  # its version, too
        self.assertEqual(self.password(client, "d"), CANARY)

    def test_SE_T064_rotation_that_is_killed(self):
        installation = self.installation(config(aesgcm("old")))
        client = installation.client()
        for i in range(60):
            client.must("POST", SECRETS, {"metadata": {"name": f"s{i}"}, "data": {"password": ENCODED, "more": "eHh4" * 20_000}})
        installation.stop()
        self.file.write_bytes(config(aesgcm("new", "old")))
        partial = self.data / "rewrite.partial"
        command = [str(kit.BINARY), "store", "rewrite", "--dir", str(self.data), "--encryption-provider-config", str(self.file)]
        killed = 0
        for size in (1, 8_192, 65_536, 500_000, 4_000_000):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
                def far(size=size, run=run):
                    with contextlib.suppress(OSError):
                        return (partial / "data.mdb").stat().st_size >= size or run.poll() is not None
                    return run.poll() is not None

                kit.eventually(far, what="a rewrite under way")
                run.kill()
                killed += run.wait() != 0
            self.assertIn(": ok", store("check", "--dir", self.data))
        self.assertGreater(killed, 0)
        installation.start()
        self.assertEqual(kit.eventually(lambda: self.password(client, "s7")), CANARY)
        installation.stop()
        self.assertIn(" values, ", store(*command[2:]))
        self.assertFalse(partial.exists())
        self.file.write_bytes(config(aesgcm("new")))
        installation.start()
        names = kit.eventually(lambda: {item["metadata"]["name"] for item in client.must("GET", SECRETS)["items"]})
        self.assertTrue({f"s{i}" for i in range(60)} <= names, names)

    def test_SE_T064_rotation_while_it_runs(self):
        installation = self.installation(config(aesgcm("old")))
        client = installation.client()
        for name in "ab":
            client.must("POST", SECRETS, secret(name))
        log = installation.state / "logs" / "root.log"

        def reload(text, mark):
            kit.replace_file(self.file, text)
            kit.eventually(lambda: mark in log.read_text(), what=mark)

        reload(config(aesgcm("new", "old")), "aesgcm (new, old)")
        old = client.must("GET", f"{SECRETS}/a")
        new = client.must("PUT", f"{SECRETS}/a", old)
        self.assertNotEqual(new["metadata"]["resourceVersion"], old["metadata"]["resourceVersion"])
        self.assertEqual(client.must("PUT", f"{SECRETS}/a", new), new)  # nothing is left to do
        kit.replace_file(self.file, config("  - secretbox: {keys: []}\n"))
        kit.eventually(lambda: "providers[0].secretbox: Unsupported value" in log.read_text(), what="the refusal")
        self.assertEqual(self.password(client, "b"), CANARY)  # what was there stays
        reload(config(aesgcm("new")), "aesgcm (new)")
        self.assertEqual(self.password(client, "a"), CANARY)
        said = 'unable to transform key "secrets/root/default/b": no key "old" of aesgcm is configured'
        for path in (f"{SECRETS}/b", SECRETS, "/api/v1/secrets"):
            answer = client.get(path)
            self.assertEqual((answer.status, answer.json["reason"]), (500, "InternalError"), answer)
            self.assertIn(said, answer.json["message"])
        self.assertEqual(client.get(MAPS).status, 200)
        installation.kill("root")  # it comes back, although it cannot read that one
        kit.eventually(lambda: client.get(f"{SECRETS}/a").status == 200, 30, what="the shard after kill -9")
        self.assertEqual(client.get(f"{SECRETS}/b").status, 500)
        rewrite = ["rewrite", "--dir", self.data, "--encryption-provider-config", self.file]
        installation.stop()
        self.assertIn("stays as it is: secrets/root/default/b: ", store(*rewrite, expect=1))
        kit.replace_file(self.file, config(aesgcm("new", "old")))
        store(*rewrite)
        kit.replace_file(self.file, config(aesgcm("new")))
        installation.start()
        self.assertEqual(kit.eventually(lambda: self.password(client, "b")), CANARY)

    def test_SE_143_SE_T060_files_that_others_may_read(self):
        installation = self.installation(config(aesgcm("k"), IDENTITY))
        installation.stop()

        def shard(*options):
            run = subprocess.run([str(kit.BINARY), "shard", "--join", str(installation.state), "--name", "root", *options],
                                 capture_output=True, text=True, timeout=60, check=False)
            return run.returncode, run.stderr.splitlines()[-1]

        os.chmod(self.file, 0o644)
        status, line = shard()
        self.assertEqual(status, 1)
        self.assertIn("encryption.yaml: holds a secret and has mode 0644, which lets others at it; `chmod 600` helps", line)
        os.chmod(self.file, 0o600)
        os.chmod(installation.pki / "service-account.key", 0o640)
        status, line = shard()
        self.assertEqual((status, "service-account.key: holds a secret and has mode 0640" in line), (1, True), line)
        os.chmod(installation.pki / "service-account.key", 0o600)
        fifo = installation.dir / "fifo"
        os.mkfifo(fifo)
        status, line = shard("--encryption-provider-config", str(fifo))
        self.assertEqual((status, "fifo: is not a regular file" in line), (1, True), line)
        status, line = shard("--encryption-provider-config", "/nonexistent")
        self.assertEqual((status, "/nonexistent: No such file" in line), (1, True), line)
        for path in sorted(installation.pki.glob("*.key")) + sorted(installation.state.rglob("*.kubeconfig")):
            self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)

    def test_wrong_usage(self):
        self.assertIn("--dir is required", store("rewrite", "--encryption-provider-config", "x", expect=2))
        self.assertIn("--encryption-provider-config is required", store("rewrite", "--dir", "x", expect=2))
        self.assertIn("/nonexistent: No such file", store("rewrite", "--dir", "x", "--encryption-provider-config", "/nonexistent",
                                                          expect=1))
