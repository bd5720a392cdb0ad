"""Pairs by which callers are asserted: to a server that takes one for a user's every caller would be that user (FP-162)."""
import json
import re
import unittest

import front
import kit

WRONG = "does not assert identities there: every caller would be user"


def setUpModule():
    global installation
    installation = kit.Installation(shards=2).start_for()
    installation.make_workspace("org", selector={"name": "shard-1"})


def url_of(name):
    text = (installation.state / "shards" / name / "admin.kubeconfig").read_text()
    return re.search(r"server: \"?(https://[0-9.:]+)", text).group(1)


def entry(path, url, pair="proxy-requestheader"):
    return front.entry(installation, path, url).replace("proxy-requestheader", pair)


class Pairs(unittest.TestCase):
    def refused(self, mapping, *flags):
        """The one line with which the start ends."""
        run = front.FrontProxy(installation, mapping, *flags).run()
        lines = [line for line in run.stderr.splitlines() if not line.startswith("{")]
        self.assertEqual((run.returncode, len(lines)), (1, 1), run.stderr)
        return lines[0]

    def who(self, proxy, path="/clusters/root:org"):
        return proxy.client(path).must("POST", kit.SELF_REVIEWS, kit.SELF_REVIEW)["status"]["userInfo"]["username"]

    def test_FP_162_a_shard_that_takes_the_pair_for_a_users_ends_the_start(self):
        self.assertRegex(self.refused(entry("/clusters/", front.CLUSTERS, "admin")),
                         f'shard (root|shard-1): the client certificate {WRONG} "kcp-admin"')

    def test_FP_162_a_pair_of_the_shards_kubeconfig_is_judged_where_it_serves_callers(self):
        self.assertIn(f'{WRONG} "shard-admin"', self.refused("[]\n"))

    def test_FP_162_an_entry_of_the_mapping_file_ends_the_start(self):
        mapping = entry("/clusters/", front.CLUSTERS) + entry("/beside/", url_of("root"), "admin")
        self.assertRegex(self.refused(mapping), rf'mapping.yaml:6: the backend of /beside/: the client certificate {WRONG} "kcp-admin"')

    def test_FP_162_a_reload_with_such_a_pair_changes_nothing(self):
        good = entry("/clusters/", front.CLUSTERS) + entry("/beside/{cluster}/", url_of("shard-1"))
        with front.FrontProxy(installation, good) as proxy:
            self.assertEqual(self.who(proxy), "kcp-admin")
            for bad in (good.replace("proxy-requestheader", "shard-admin"),
                        entry("/clusters/", front.CLUSTERS) + entry("/beside/{cluster}/", url_of("shard-1"), "shard-admin")):
                before = len(proxy.lines())
                kit.replace_file(proxy.mapping, bad.encode())
                line = kit.eventually(lambda n=before: next(one for one in proxy.lines()[n:] if one["msg"].startswith("reload failed")), 15, "a line")
                self.assertIn(f'{WRONG} "shard-admin"', line["error"])
                self.assertEqual(self.who(proxy), "kcp-admin")
                stranger = kit.Client(f"https://127.0.0.1:{proxy.port}/clusters/root", installation.pki / "serving-ca.crt",
                                      *kit.make_user(installation.dir, installation.pki, "stranger", ()))
                self.assertEqual(stranger.must("POST", kit.SELF_REVIEWS, kit.SELF_REVIEW)["status"]["userInfo"]["username"], "stranger")
            kit.replace_file(proxy.mapping, good.encode())
            kit.eventually(lambda: any(one["msg"] == "files reloaded" for one in proxy.lines()), 15, "the good one is taken")

    @staticmethod
    def changed(shard, spec):
        """With another resourceVersion for another URL."""
        revision = f"{shard['metadata']['resourceVersion']}{len(json.dumps(spec))}{spec.get('baseURL', '0').rpartition(':')[2]}"
        return dict(shard, metadata=dict(shard["metadata"], resourceVersion=revision), spec={**shard["spec"], **spec})

    def shown(self, change):
        """A peer that shows the Shards as `change` makes their specs."""
        shards = installation.client().must("GET", "/apis/core.kcp.io/v1alpha1/shards")

        def answer(request):
            if "watch=" in request.path:
                return 400, {"kind": "Status", "apiVersion": "v1", "code": 400}
            return 200, dict(shards, items=[self.changed(one, change(one["metadata"]["name"])) for one in shards["items"]])

        peer = kit.JsonServer(installation.pki, answer)
        self.addCleanup(peer.close)
        return f"--shard-peer-kubeconfig={front.kubeconfig(installation, front.pair(installation), peer.url)}"

    def test_FP_162_a_shard_that_comes_to_do_so_is_not_used(self):
        takes = {"for": None}

        def answer(method, path, _):
            if method == "POST" and path.endswith(kit.SELF_REVIEWS) and takes["for"]:
                return 201, {"kind": "SelfSubjectReview", "status": {"userInfo": {"username": takes["for"]}}}
            return None

        gate, urls = front.Gate(installation, url_of("shard-1"), answer=answer), {"shard-1": url_of("shard-1")}
        self.addCleanup(gate.close)
        flag = self.shown(lambda name: {"baseURL": urls[name]} if name in urls else {})
        with front.FrontProxy(installation, entry("/clusters/", front.CLUSTERS), flag) as proxy:
            self.assertEqual(self.who(proxy), "kcp-admin")
            takes["for"], urls["shard-1"] = "the-proxy", gate.url
            kit.eventually(lambda: any("a server is not used" in one["msg"] for one in proxy.lines()), 40, "it is told of")
            line = next(one for one in proxy.lines() if one["msg"] == "a server is not used")
            self.assertIn(f'shard shard-1: the client certificate {WRONG} "the-proxy"', line["error"])
            self.assertEqual(proxy.client("/clusters/root:org").get("/api").status, 503)
            self.assertEqual(proxy.client("/clusters/root").get("/api").status, 200, "the others are")

    def test_FP_162_a_server_of_virtual_workspaces_is_judged_by_itself(self):
        """It has no reviews: whom it refuses, it names."""
        def answer(method, path, _):
            if path.endswith(kit.SELF_REVIEWS):
                return 404, {"kind": "Status", "apiVersion": "v1", "code": 404}
            return 403, {"kind": "Status", "apiVersion": "v1", "code": 403, "reason": "Forbidden",
                         "message": f'forbidden: User "the-proxy" cannot {method.lower()} path "{path}"'}

        gate = front.Gate(installation, url_of("shard-1"), answer=answer)
        self.addCleanup(gate.close)
        flag = self.shown(lambda name: {"virtualWorkspaceURL": gate.url} if name == "shard-1" else {})
        self.assertIn(f'virtual workspaces of shard shard-1: the client certificate {WRONG} "the-proxy"',
                      self.refused(entry("/clusters/", front.CLUSTERS), flag))


if __name__ == "__main__":
    unittest.main()
