"""The trust matrix (SE-201, SE-T014): reserved labels and annotations, generated from admission's own table, which is held against
the rows of docs/spec here; and each row of the matrix with the tests that it has."""
import re
import unittest

import reserved
import trust_matrix


def setUpModule():
    trust_matrix.begin()


class Metadata(trust_matrix.Metadata):
    pass


class Table(unittest.TestCase):
    """Admission's table and the rows say the same (KK-027)."""

    @classmethod
    def setUpClass(cls):
        cls.table, cls.rows = reserved.rules(), reserved.documented()

    def test_every_row_is_in_the_table(self):
        self.assertGreater(len(self.rows), 30)
        for key, part, kinds, creators, writers, outcome in self.rows:
            for kind in kinds - {None}:
                for one in [part] if part else ["annotations", "labels"]:
                    rule = reserved.rule_for(self.table, "AnythingElse" if kind == "*" else kind, one, key.replace("/*", "/x"))
                    self.assertIsNotNone(rule, (key, kind, one))
                    same = {"Drop": {"Drop", "Kept"}}.get(outcome[0], {outcome[0]})
                    self.assertIn(rule.on_create, same, (key, kind, one))
                    if outcome[0] in ("Refuse", "Overwrite"):
                        self.assertEqual((rule.creators, rule.writers, rule.on_update), (creators, writers, outcome[1]), (key, kind, one))

    def test_every_rule_is_in_the_rows(self):
        named = {(kind, part, key) for key, of, kinds, *_ in self.rows for kind in kinds for part in ([of] if of else ["annotations", "labels"])}
        for rule in self.table:
            if rule.kinds >= reserved.KCPS and not rule.free and rule.pattern.endswith("/*") and "claimed" not in rule.pattern:
                continue  # a whole domain
            for kind in rule.kinds:
                for part in rule.parts:
                    self.assertTrue({(kind, part, rule.pattern), ("*", part, rule.pattern)} & named, (rule.pattern, kind, part))

    def test_whole_domains_are_reserved_on_all_of_kcps_kinds(self):
        text = re.search(r"every key of the domains (.*?), but for the free ones", reserved.ROWS.read_text(encoding="utf-8"))[1]
        domains = [one.replace(".kcp.io", "").rstrip(".") + ".kcp.io" for one in re.findall(r"`([^`]+)`", text.split("and below")[0])]
        domains[0] = "kcp.io"
        self.assertEqual(domains, ["kcp.io", "core.kcp.io", "authorization.kcp.io", "tenancy.kcp.io", "internal.kcp.io", "internal.tenancy.kcp.io",
                                   "internal.apis.kcp.io"])
        for domain in [*domains, "a.internal.kcp.io", "b.c.internal.apis.kcp.io"]:
            for kind in reserved.KCPS:
                for part in ("annotations", "labels"):
                    rule = reserved.rule_for(self.table, kind, part, domain + "/anything")
                    self.assertIsNotNone(rule, (domain, kind, part))
                    self.assertEqual((rule.creators, rule.writers, rule.on_create, rule.on_update),
                                     (reserved.SYSTEM, reserved.SYSTEM, "Refuse", "Refuse"), (domain, kind, part))

    def test_no_kind_is_left_out(self):
        kinds = {kind for rule in self.table for kind in rule.kinds}
        self.assertEqual(kinds, set(trust_matrix.NAMES.values()) | set(trust_matrix.ELSEWHERE))


if __name__ == "__main__":
    unittest.main()
