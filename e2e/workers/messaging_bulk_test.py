"""Many spaces with many addresses each, all at once: how much is sent for them, to the request (docs/spec/messaging.md)."""
import concurrent.futures
import os
import unittest

import kit
import messaging_addresses

SPACES, EACH = (int(one) for one in os.environ.get("KINTSUGI_SPACES", "20x20").split("x"))


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


if __name__ == "__main__":
    unittest.main()
