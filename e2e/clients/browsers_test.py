"""What curl and browsers need (AM-557): text for people, and CORS for listed origins."""
import unittest

import kit

GOOD = "https://console.example:8443"


class Browsers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.installation = kit.shared(cls)

    def test_answers_to_people_are_indented_AM557(self):
        client = self.installation.client()
        path = "/api/v1/namespaces/default"
        for headers, query in (({"User-Agent": "curl/8.5.0"}, ""), ({"User-Agent": "Mozilla/5.0"}, ""), ({}, "?pretty=true")):
            answer = client.get(path + query, headers=headers)
            self.assertEqual(answer.status, 200)
            self.assertTrue(answer.body.startswith(b"{\n  \""), answer.body[:40])
        for headers, query in (({"User-Agent": "kubectl/v1.36"}, ""), ({"User-Agent": "curl/8.5.0"}, "?pretty=false")):
            self.assertNotIn(b"\n  ", client.get(path + query, headers=headers).body)
        refused = client.get("/api/v1/namespaces/none", headers={"User-Agent": "curl/8.5.0"})
        self.assertEqual((refused.status, refused.json["reason"]), (404, "NotFound"))
        self.assertIn(b"\n  \"kind\"", refused.body)

    def test_listed_origins_may_read_AM557(self):
        with kit.Proxy(self.installation, {"cors": {"allowed_origins": "['^https://console\\.example(:\\d+)?$']"}}) as proxy:
            client = proxy.client()
            path = "/api/v1/namespaces/default"
            allowed = client.get(path, headers={"Origin": GOOD})
            self.assertEqual(allowed.status, 200)
            self.assertEqual(allowed.headers["Access-Control-Allow-Origin"], GOOD)
            self.assertEqual(allowed.headers["Access-Control-Allow-Credentials"], "true")
            asked = client.request("OPTIONS", path, headers={"Origin": GOOD, "Access-Control-Request-Method": "PUT"})
            self.assertEqual((asked.status, asked.body), (204, b""))
            self.assertIn("PUT", asked.headers["Access-Control-Allow-Methods"])
            self.assertIn("Authorization", asked.headers["Access-Control-Allow-Headers"])
            for origin in ("https://console.example.evil.test", "null", ""):
                other = client.get(path, headers={"Origin": origin})
                self.assertEqual((other.status, other.headers["Access-Control-Allow-Origin"]), (200, None), origin)
            self.assertIsNone(proxy.client("").get("/livez", headers={"Origin": GOOD}).headers["Access-Control-Allow-Origin"])


if __name__ == "__main__":
    unittest.main()
