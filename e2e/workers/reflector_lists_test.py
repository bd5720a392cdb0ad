"""What a worker makes of lists that are cut, wrong or refused, through a relay (docs/spec/worker-runtime.md)."""
import json
import time
import unittest

import kit
import reflector_faults
from reflector_faults import COLLECTION, LIST, status


class Lists(reflector_faults.Case):
    COUNT = 200

    def edited(self, change):
        """The next list, changed."""
        def edit(said):
            page = json.loads(said)
            change(page)
            return json.dumps(page).encode()

        return self.relay.rule(COLLECTION, **LIST, edit=edit, times=1)

    def test_RT_T023_an_expired_cursor_is_listed_again_down_the_ladder(self):
        self.begun()
        since = time.monotonic()
        gone = self.relay.rule(COLLECTION, **LIST, answer=status(410), times=1)
        name = self.end_watch()
        kit.eventually(lambda: self.said(name), 20, "what the watch did not tell")
        self.assertEqual((gone.hits, self.objects()), (1, self.COUNT + 1))
        self.assertGreaterEqual(self.relists(reason="expired"), 1)
        (_, first, code), (_, second, again) = self.lists(since)[:2]
        self.assertEqual((code, again, "limit=" in first, "limit=500" in second), (410, 200, False, True))
        self.works()

    def test_RT_T025_what_a_list_lacks_is_gone_and_no_more(self):
        self.begun()
        rule = self.edited(lambda page: page["items"].__delitem__(slice(0, 5)))
        self.end_watch()
        kit.eventually(lambda: rule.hits and self.objects() == self.COUNT + 1 - 5, 20, "five are gone")
        self.end_watch()  # and come back with a list that has them
        kit.eventually(lambda: self.objects() == self.COUNT + 2, 20, "all are there")
        self.assertEqual(self.guarded(), 0)

    def test_RT_T026_a_list_that_is_cut_deletes_nothing(self):
        self.begun()
        rule = self.relay.rule(COLLECTION, **LIST, cut=2000, times=2)
        name = self.end_watch()
        kit.eventually(lambda: self.said(name), 30, "it was asked again")
        self.assertEqual((rule.hits, self.objects(), self.guarded()), (2, self.COUNT + 1, 0))

    def test_RT_T027_an_empty_list_is_asked_for_once_more(self):
        def without_items(page):
            page["items"] = []

        self.begun()
        rule = self.edited(without_items)
        name = self.end_watch()
        kit.eventually(lambda: self.said(name), 30, "the second list has all")
        self.assertEqual((rule.hits, self.objects(), self.guarded()), (1, self.COUNT + 1, 1))

    def test_RT_T027_a_list_without_a_revision_is_none(self):
        def nothing(page):
            page["items"], page["metadata"]["resourceVersion"] = [], ""

        self.begun()
        rule = self.edited(nothing)
        name = self.end_watch()
        kit.eventually(lambda: self.said(name), 30, "it was asked again")
        self.assertEqual((rule.hits, self.objects()), (1, self.COUNT + 1))

    def test_RT_T028_a_list_that_lacks_a_shard_is_none(self):
        def part(page):
            page["items"] = page["items"][:3]

        self.begun()
        rule = self.edited(part)
        rule.headers = {"Warning": '299 - "lacks shard shard-9"'}
        name = self.end_watch()
        kit.eventually(lambda: self.said(name), 30, "it was asked again")
        self.assertEqual((rule.hits, self.objects(), self.guarded()), (1, self.COUNT + 1, 0))


if __name__ == "__main__":
    unittest.main()
