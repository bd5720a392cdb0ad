"""The console without a browser (docs/console.md): the page's headers, what is refused, what the views say, what is told live."""
import json
import re
import signal
import unittest

import kit

HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
           "Cross-Origin-Resource-Policy": "same-origin"}


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.port = kit.free_port()
        cls.installation = kit.Installation("--admin-port", str(cls.port))
        cls.installation.start_for(cls)
        cls.admin = cls.client()

    @classmethod
    def client(cls, cert="admin"):
        pki = cls.installation.pki
        pair = (pki / f"{cert}.crt", pki / f"{cert}.key") if cert else (None, None)
        return kit.Client(f"https://127.0.0.1:{cls.port}", pki / "serving-ca.crt", *pair)

    def view(self, name, query=""):
        return self.admin.must("GET", f"/ui/api/v1/{name}{query}")

    def test_OP701_OP703_the_page_and_its_headers(self):
        nobody = self.client(None)
        moved = nobody.get("/ui")
        self.assertEqual((moved.status, moved.headers["Location"]), (308, "/ui/"))
        page = nobody.get("/ui/")
        self.assertEqual((page.status, page.headers["Cache-Control"]), (200, "no-cache"))
        policy = page.headers["Content-Security-Policy"]
        for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"):
            self.assertIn(part, policy)
        names = re.findall(rb'(?:src|href)="([^"]+)"', page.body)
        self.assertEqual(len(names), 3, names)
        for name in [b"", *names]:
            answer = nobody.get("/ui/" + name.decode())
            for header, value in HEADERS.items():
                self.assertEqual(answer.headers[header], value, name)
            self.assertIsNone(answer.headers["Set-Cookie"])
            self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
            again = nobody.get("/ui/" + name.decode(), headers={"If-None-Match": answer.headers["ETag"]})
            self.assertEqual((again.status, again.body), (304, b""))
            packed = nobody.get("/ui/" + name.decode(), headers={"Accept-Encoding": "gzip"})
            self.assertEqual((packed.headers["Content-Encoding"], packed.body[:2]), ("gzip", b"\x1f\x8b"))
            if name:
                self.assertIn("immutable", answer.headers["Cache-Control"])

    def test_OP703_what_is_refused(self):
        self.assertEqual(self.client(None).get("/ui/none.js").status, 404)
        self.assertEqual(self.admin.get("/ui/api/v1/none").status, 404)
        self.assertEqual(self.client(None).get("/ui/api/v1/shards").status, 401)
        self.assertEqual(self.admin.get("/ui/", headers={"Host": "evil.test"}).status, 421)
        self.assertEqual(self.admin.get("/ui/api/v1/shards?limit=501").status, 400)
        self.assertEqual(self.admin.get("/ui/api/v1/explain").status, 400)
        self.assertEqual(self.admin.get("/ui/api/v1/live?views=none").status, 400)
        posted = self.admin.request("POST", "/ui/api/v1/shards", {})
        self.assertEqual((posted.status, posted.headers["Allow"]), (405, "GET, HEAD"))

    def test_OP704_views_say_what_the_admin_listener_says(self):
        known = self.admin.must("GET", "/debug/shards")["shards"]
        shards = self.view("shards", "?sort=name")["items"]
        self.assertEqual([(one["name"], one["clusters"], one["urls"]["base"]) for one in shards],
                         sorted((one["name"], one["logicalClusters"], one["baseURL"]) for one in known))
        first = self.view("shards", "?sort=name&limit=1")
        self.assertEqual((len(first["items"]), first["total"], first["next"]), (1, len(known), "1"))
        overview = self.view("overview")
        self.assertEqual(overview["items"][0]["shards"]["total"], len(known))
        self.assertIn("shards", overview["viewer"]["full"])
        self.assertEqual(self.view("explain", "?path=root"), self.admin.must("GET", "/explain?path=root"))
        slices = self.view("slices", "?limit=500")["items"]
        self.assertTrue(slices)
        for one in slices[:3]:
            told = self.admin.must("GET", f"/explain?path=/clusters/{one['cluster']}/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/{one['name']}")
            self.assertIn(json.dumps(one["shards"]), json.dumps(told))
        for name in ("streams", "partitions"):
            self.assertIn("items", self.view(name))

    def test_OP705_a_shard_that_hangs_is_told_live(self):
        connection = self.admin.connect()
        connection.request("GET", "/ui/api/v1/live?views=shards,overview")
        lines = connection.getresponse()
        self.assertEqual(lines.status, 200)
        first = [json.loads(lines.readline()) for _ in range(2)]
        self.assertEqual({(one["view"], one["op"]) for one in first}, {("shards", "reset"), ("overview", "reset")})
        victim = "shard-1"
        self.installation.kill(victim, signal.SIGSTOP)
        clock = kit.Clock()
        try:
            while True:
                self.assertLess(clock.spent(), 30, "nothing is told of the shard")
                line = json.loads(lines.readline())
                if line.get("view") == "shards" and any(one["name"] == victim and not one["up"] for one in line["items"]):
                    break
        finally:
            self.installation.kill(victim, signal.SIGCONT)
            connection.close()

    def sent(self):
        """Requests that the proxy has passed on."""
        page = self.admin.get("/metrics").body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith("kintsugi_shard_request_duration_seconds_count"))

    def test_OP708_who_looks_at_what_rests_costs_little(self):
        """Between two signs of life: nothing of views that rest, a line a second of what goes on by itself, and no shard is asked for it."""
        kit.eventually(lambda: [one["up"] for one in self.view("shards")["items"]] == [True] * 3, 30, "shards that are up")
        kit.rests(lambda: self.view("events")["total"], 2)
        views = ("overview", "shards", "streams", "slices", "partitions", "sets", "events")
        connection = self.admin.connect()
        connection.request("GET", "/ui/api/v1/live?views=" + ",".join(views))
        answer = connection.getresponse()
        lines, asked, ticks = [], None, 0
        try:
            while ticks < 3:
                text = answer.readline()
                line = json.loads(text)
                ticks += line["op"] == "tick"
                asked = self.sent() if ticks == 1 and asked is None else asked  # from there on
                if ticks:
                    lines.append((line, len(text)))
            more = self.sent() - asked
        finally:
            connection.close()
        told = [line for line, _ in lines if line["op"] != "tick"]
        self.assertLessEqual({line["view"] for line in told}, {"overview", "shards"}, told)
        self.assertLessEqual(sum(size for _, size in lines), 10 * 4096)
        self.assertEqual(more, 0, "shards were asked")

    def test_OP705_twenty_may_look(self):
        open_ones = []
        try:
            for _ in range(20):
                connection = self.admin.connect()
                connection.request("GET", "/ui/api/v1/live?views=overview")
                self.assertEqual(connection.getresponse().status, 200)
                open_ones.append(connection)
            self.assertEqual(self.admin.get("/ui/api/v1/live").status, 429)
        finally:
            for connection in open_ones:
                connection.close()
        kit.eventually(lambda: self.first_status() == 200, 10, "a place is free again")

    def first_status(self):
        connection = self.admin.connect()
        try:
            connection.request("GET", "/ui/api/v1/live?views=overview")
            return connection.getresponse().status
        finally:
            connection.close()


if __name__ == "__main__":
    unittest.main()
