"""Many spaces with many addresses each, all at once: how much is sent for them, to the request (docs/spec/messaging.md)."""
import concurrent.futures
import json
import os
import unittest

import kit
import messaging
import messaging_addresses

HELD, AT_ONCE = 300, 8
SPACES, EACH = (int(one) for one in os.environ.get("KINTSUGI_SPACES", "12x16").split("x"))


def setUpModule():
    messaging_addresses.begin(memory=256)


class Bulk(messaging_addresses.Two):
    CHECKS = {"counters": "30s", "sweep": "1h", "links": "1h"}

    def test_MS065_MR26_many_spaces_with_many_addresses_take_as_many_requests_as_they_must(self):
        self.on = "two"
        self.forget()
        before = {op: self.asked(op) for op in ("createAddress", "createQueue", "updateQueue", "addAddressSettings", "destroyQueue", "deleteAddress")}
        spaces = [f"s{number}" for number in range(SPACES)]
        names = [f"{space}.a{number}" for space in spaces for number in range(EACH)]
        for space in spaces:
            self.addCleanup(self.away, space)

        def make(name):
            if "." not in name:
                return self.tenant.space(name, "two")
            return self.tenant.make("Address", {"metadata": {"name": name}, "spec": {"address": name.partition(".")[2], "type": "queue"}})

        # Spaces and addresses in any order: some of these are there before their space.
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(make, names[:len(names) // 2] + spaces + names[len(names) // 2:]))

        def ready(path):
            left = [one["metadata"]["name"] for one in self.tenant.client.must("GET", path)["items"] if not one.get("status", {}).get("isReady")]
            assert not left, (len(left), left[:3])
            return True

        for kind in ("AddressSpace", "Address"):
            kit.eventually(lambda k=kind: ready(self.tenant.path(k)), 60 + len(names) // 20, f"each {kind} is ready")
        for router in self.routers["two"]:
            self.assertEqual(self.writes(router), {("CREATE", "vhost"): SPACES, ("CREATE", "router.config.address"): len(names),
                                                   ("CREATE", "router.config.autoLink"): 2 * len(names)})
        self.assertEqual({op: self.asked(op) - count for op, count in before.items()},
                         {**dict.fromkeys(before, 0), "createAddress": len(names), "createQueue": len(names)})
        self.assertEqual(self.worker.metric("messaging_addresses", type="queue", state="Active"), len(names))

    def restart_slowly(self, change):
        """The worker ends, something changes, and it begins anew with 200 writes a second, 8 objects at a time."""
        self.assertEqual(self.worker.stop(), 0)
        config = json.loads(self.worker.config.read_text())
        config["roles"]["messaging"]["write_budget"] = {"per_second": 200, "burst": 20}
        config["roles"]["messaging"]["messaging"]["reconciles"] = AT_ONCE
        self.worker.config.write_text(json.dumps(config))
        change()
        self.worker.start()
        self.worker.until_ready()

    def test_MS040_what_is_asked_at_a_restart_comes_before_the_look_at_what_is_there(self):
        self.use("two")
        client, path = self.tenant.client, self.tenant.path("Address")
        names = [f"held{number}" for number in range(HELD)]

        def all_of(what):
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(what, names))

        def edit(name):
            client.must("PATCH", f"{path}/{self.name(name)}/status", {"status": {"phase": "Pending"}}, headers=messaging.MERGE)

        all_of(self.make)
        all_of(lambda name: self.ready(name, deadline=60))
        # What their statuses say is another thing: each is written when its turn comes.
        self.restart_slowly(lambda: all_of(edit))
        version = client.must("GET", path + "?limit=1")["metadata"]["resourceVersion"]
        before = sum(one["status"]["phase"] == "Active" for one in client.must("GET", path)["items"])
        self.make("new", "anycast")
        watcher = client.connect()
        self.addCleanup(watcher.close)
        watcher.request("GET", f"{client.url.path}{path}?watch=1&resourceVersion={version}")
        stream, told = watcher.getresponse(), set()
        while True:
            one = json.loads(stream.readline())["object"]
            status = one.get("status", {})
            if one["metadata"]["name"] == self.name("new") and any(each["type"] == "Created" and each["status"] == "True" for each in status.get("conditions", [])):
                break
            if status.get("phase") == "Active":
                told.add(one["metadata"]["name"])
        self.assertLess(before + len(told), HELD - 4 * AT_ONCE)
        self.ready("new", *names, deadline=60)


if __name__ == "__main__":
    unittest.main()
