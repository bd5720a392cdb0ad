"""SE-005, SE-072, SE-086: one user asks for many merged lists, or does not read those that he has; what others notice."""
import threading
import time
import unittest

import kit
import raw_h2

MAPS = "/clusters/*/api/v1/configmaps"
LARGE = 8  # objects of 400 kB each
PATIENCE = 10  # [s] aggregation.list.first_byte_ms


def setUpModule():
    global up  # pylint: disable=global-variable-undefined
    up = kit.Installation(shards=2).start_for()
    up.make_workspace("large")
    inside = up.client("/clusters/root:large")
    for number in range(LARGE):
        inside.must("POST", "/api/v1/namespaces/default/configmaps", {
            "metadata": {"name": f"large-{number}", "labels": {"size": "large"}}, "data": {"k": "v" * 400_000}})


def of_user(proxy, user):
    return kit.Client(f"https://127.0.0.1:{proxy.port}", up.pki / "serving-ca.crt",
                      *kit.make_user(up.dir, up.pki, user, ("system:kcp:admin",)))


class Slow(unittest.TestCase):
    def test_SE_086_who_does_not_read_his_lists_leaves_the_streams_to_others(self):
        """Eight streams are four lists over two shards; of the one user a single one runs."""
        with kit.Proxy(up, {"wildcard": "serve", "aggregation": {"list": "{max_streams: 8}"}}) as proxy:
            heavy, light = of_user(proxy, "heavy"), of_user(proxy, "light")
            kit.eventually(lambda: light.get(MAPS + "?limit=1").status == 200, 30, "the shards are known")
            with raw_h2.Connection(heavy) as connection:
                begun = time.monotonic()
                lists = [connection.open("GET", MAPS + "?labelSelector=size%3Dlarge") for _ in range(8)]
                self.assertTrue(connection.until(lambda: any(one.status == 200 for one in lists), 30), "one of them runs")
                done = 0
                while time.monotonic() - begun < PATIENCE / 2:  # nobody has been turned away yet
                    answer = light.get(MAPS + "?limit=2")
                    self.assertEqual(answer.status, 200, answer)
                    done += 1
                self.assertGreater(done, 10, "each waited for nobody")
                self.assertTrue(connection.until(lambda: sum(one.status is not None for one in lists) == len(lists), 3 * PATIENCE))
                self.assertEqual(sorted(one.status for one in lists), [200] + [429] * 7)
                running = next(one for one in lists if one.status == 200)
                self.assertFalse(running.over, "what nobody reads is not cut off")
            kit.eventually(lambda: heavy.get(MAPS + "?labelSelector=size%3Dlarge").status == 200, 30, "its place was given back")


class Many(unittest.TestCase):
    def test_SE_072_many_merged_lists_take_turns_with_what_others_ask(self):
        with kit.Proxy(up, {"wildcard": "serve", "limits": {"seats": 1}}, loops=1) as proxy:
            heavy, light = of_user(proxy, "heavy"), of_user(proxy, "light")
            kit.eventually(lambda: light.get(MAPS + "?limit=1").status == 200, 30, "the shards are known")
            waited = proxy.metric('kintsugi_queue_seconds_count{level="operator"}')
            stop, counts = threading.Event(), {}

            def flood():
                with raw_h2.Connection(heavy) as connection:
                    running = []
                    while not stop.is_set() and not connection.closed:
                        with connection.at_once():
                            while len(running) < 30:
                                running.append(connection.open("GET", MAPS + "?labelSelector=size%3Dnone"))  # fits into a stream's window
                        connection.until(lambda: any(one.over for one in running), 30)
                        for one in [one for one in running if one.over]:
                            counts[one.status] = counts.get(one.status, 0) + 1
                            running.remove(one)

            thread = threading.Thread(target=flood, daemon=True)
            thread.start()
            try:
                kit.eventually(lambda: counts.get(200, 0) > 20, 30, "his lists are answered")
                for path in ("/clusters/root:large/api/v1/namespaces/default", MAPS + "?limit=1") * 10:
                    self.assertEqual(light.get(path).status, 200, path)
            finally:
                stop.set()
                thread.join(60)
            self.assertLessEqual(set(counts), {200, 429}, counts)
            self.assertGreater(proxy.metric('kintsugi_queue_seconds_count{level="operator"}'), waited, "his parts waited for seats")
            kit.eventually(lambda: proxy.metric('kintsugi_seats{level="operator",state="taken"}') == 0, 20, "seats are given back")
            self.assertEqual(proxy.metric('kintsugi_queue_length{level="operator"}'), 0)


if __name__ == "__main__":
    unittest.main()
