"""A shard on an etcd whose authentication is on: as a user who has its prefix and nothing else (GR-107, GR-123, GR-124)."""
import base64
import json
import shutil
import subprocess
import unittest

import etcds
import kit

MAPS = "/api/v1/namespaces/default/configmaps"
PREFIX = "/kintsugi/shards/extra/"


def code(text):
    return base64.b64encode(text.encode()).decode()


@unittest.skipUnless(shutil.which("etcd"), "no etcd on this machine")
class EtcdUsers(unittest.TestCase):
    def setUp(self):
        self.etcd = etcds.Member()
        self.addCleanup(self.etcd.end)
        self.token = None
        for user in ("root", "shard", "stranger"):
            self.admin("auth/user/add", name=user, password=f"of-{user}")
        for role in ("root", "one-prefix"):
            self.admin("auth/role/add", name=role)
        self.admin("auth/role/grant", name="one-prefix",
                   perm={"permType": "READWRITE", "key": code(PREFIX), "range_end": code(PREFIX[:-1] + chr(ord("/") + 1))})
        self.admin("auth/user/grant", user="root", role="root")
        self.admin("auth/user/grant", user="shard", role="one-prefix")
        self.admin("auth/enable")
        self.up = kit.Installation(shards=1).start_for(self)
        self.password = self.up.dir / "password"
        self.password.write_text("of-shard\n")

    def admin(self, method, **body):
        headers = ["-H", f"Authorization: {self.token}"] if self.token else []
        run = subprocess.run(["curl", "-sS", "--max-time", "10", *headers, "-d", json.dumps(body), f"{self.etcd.url}/v3/{method}"],
                             capture_output=True, text=True, timeout=60, check=True)
        answer = json.loads(run.stdout)
        self.assertNotIn("error", answer, method)
        return answer

    def change_password(self, password):
        self.token = None
        self.token = self.admin("auth/authenticate", name="root", password="of-root")["token"]
        self.admin("auth/user/changepw", name="shard", password=password)

    def words(self, user="shard", password=None, name="extra"):
        said = ["--etcd-user", user, "--etcd-password-file", str(password or self.password)] if user else []
        return [str(kit.BINARY), "shard", "--join", str(self.up.state), "--name", name, "--labels", "region=eu-west-1", "--allow-root",
                "--prefix", PREFIX.rstrip("/"), "--store", f"etcd={self.etcd.url}", *said]

    def test_GR_123_a_user_with_its_prefix_alone(self):
        with (self.up.dir / "extra.log").open("wb") as log:
            shard = subprocess.Popen(self.words(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(lambda: (shard.kill(), shard.wait()))
        self.up.make_workspace("there", selector={"name": "extra"})
        client = self.up.client("/clusters/root:there")
        first = kit.eventually(lambda: client.must("POST", MAPS, {"metadata": {"name": "first"}}), 30)
        watch = kit.Watch(client, f"{MAPS}?watch=1&resourceVersion={first['metadata']['resourceVersion']}")

        def told(name):
            return any(event["object"]["metadata"]["name"] == name for event in watch.events)

        # An etcd that begins anew knows none of the tokens that it has given: they are asked for anew.
        for number in range(2):
            self.etcd.kill()
            self.etcd.start()
            name = f"after-{number}"
            kit.eventually(lambda name=name: client.must("POST", MAPS, {"metadata": {"name": name}}, expect=(201, 409)), 40)
            kit.eventually(lambda name=name: told(name), 40, f"a watch that goes on with {name}")
        # One that is refused asks until it has a token, each time with what its file has by then: the old password, nothing, the half
        # of the new one, no file at all, and then all of it. That is known while it runs, without a signal.
        self.change_password("another")
        self.etcd.kill()
        self.etcd.start()
        for change in (lambda: None, lambda: self.password.write_text(""), lambda: self.password.write_text("anot"), self.password.unlink):
            change()
            asked = self.refusals()
            kit.eventually(lambda asked=asked: self.refusals() > asked + 1, 40, "it is refused")
            self.assertIsNone(watch.ended_at)
        self.password.touch(mode=0o600)
        self.password.write_text("another\n")
        kit.eventually(lambda: client.must("POST", MAPS, {"metadata": {"name": "last"}}, expect=(201, 409)), 40)
        kit.eventually(lambda: told("last"), 40, "the watch after another password")
        self.assertIsNone(watch.ended_at)
        self.assertNotIn("of-shard", (self.up.dir / "extra.log").read_text(errors="replace"), "nothing of a password is told")

    def refusals(self):
        return (self.up.dir / "extra.log").read_text(errors="replace").count("etcd gives no token to its user")

    def test_GR_124_who_may_not_is_told_in_a_line(self):
        wrong = self.up.dir / "wrong"
        wrong.write_text("of-nobody\n")
        for words, text in ((self.words(password=wrong), "authentication failed"), (self.words(user=""), "user name is empty"),
                            (self.words(user="stranger", password=self.file("of-stranger")), "permission denied")):
            run = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
            self.assertIn(text, run.stderr)
            self.assertNotIn("of-", run.stderr, "nothing of a password is told")

    def file(self, text):
        path = self.up.dir / text
        path.write_text(text + "\n")
        return path


if __name__ == "__main__":
    unittest.main()
