"""The trust matrix (SE-201, SE-T014): reserved labels and annotations, generated from admission's own table, which is held against
the rows of docs/spec here; and each row of the matrix with the tests that it has."""
import re
import unittest

import reserved
import trust
import trust_matrix


# Where each row of the trust matrix is tested: facts of the tables of e2e/lib/trust.py ("<kind> <field or key>", tried by every way),
# or tests of other files ("<file>: <part of its name>").
ROWS = {
    "KK-250": ["ws spec.cluster", "held spec.cluster", "mount spec.cluster", "attacks/takeover_test.py: test_routes"],
    "KK-251": ["ws spec.URL", "held spec.URL", "mount spec.URL", "attacks/rows_test.py: test_KK291"],
    "KK-252": ["ws internal.tenancy.kcp.io/cluster", "ws core.kcp.io/shard", "ws internal.tenancy.kcp.io/shard",
               "held internal.tenancy.kcp.io/cluster", "attacks/takeover_test.py: test_annotations"],
    "KK-253": ["ws experimental.tenancy.kcp.io/owner", "held experimental.tenancy.kcp.io/owner", "attacks/takeover_test.py: test_owner"],
    "KK-254": ["lc experimental.tenancy.kcp.io/owner", "attacks/takeover_test.py: test_admin_binding"],
    "KK-255": ["lc spec.createdBy", "attacks/takeover_test.py: test_creator"],
    "KK-256": ["lc spec.owner", "attacks/takeover_test.py: test_routes"],
    "KK-257": ["lc spec.directlyDeletable"], "KK-258": ["lc spec.initializers", "lc spec.terminators"],
    "KK-259": ["lc status.initializers"], "KK-260": ["lc status.terminators"], "KK-261": ["lc status.phase", "lc status.URL"],
    "KK-262": ["lc kcp.io/path", "attacks/takeover_test.py: test_paths"],
    "KK-263": ["attacks/system_facts_test.py: test_KK027_forged", "attacks/takeover_test.py: test_paths"],
    "KK-264": ["attacks/system_facts_test.py: test_KK027_forged"], "KK-265": ["attacks/system_facts_test.py: test_KK025"],
    "KK-266": ["lc internal.tenancy.kcp.io/type"], "KK-267": ["lc authorization.kcp.io/required-groups"],
    "KK-268": ["ws authorization.kcp.io/required-groups", "attacks/system_facts_test.py: test_KK040_KK041"],
    "KK-269": ["lc core.kcp.io/inactive", "lc internal.kcp.io/inactive", "attacks/system_facts_test.py: test_KK112_KK113"],
    "KK-270": ["lc core.kcp.io/max-total-objects"], "KK-271": ["lc internal.apis.kcp.io/resource-bindings"],
    "KK-272": ["export status.identityHash"], "KK-273": ["attacks/rows_test.py: test_KK273"],
    "KK-274": ["binding status.phase", "binding status.apiExportClusterName", "binding status.boundResources",
               "binding status.apiExportUID", "binding status.apiExportPolicy", "binding status.appliedPermissionClaims"],
    "KK-275": ["attacks/system_facts_test.py: test_KK166"], "KK-276": ["lib/trust_matrix.py: is_claimed"],
    "KK-278": ["lc tenancy.kcp.io/phase", "ws tenancy.kcp.io/phase", "attacks/rows_test.py: test_KK278"],
    "KK-279": ["attacks/system_facts_test.py: test_KK223_KK224"], "KK-280": ["attacks/impersonation_test.py: test_SE_T009"],
    "KK-281": ["attacks/impersonation_test.py: test_KK_T132"], "KK-282": ["attacks/impersonation_test.py: test_SE_T009"],
    "KK-283": ["attacks/rows_test.py: test_KK283"], "KK-284": ["attacks/rows_test.py: test_KK284"],
    "KK-285": ["attacks/existence_test.py: test_SE_T070_in_cluster_paths"], "KK-286": ["attacks/takeover_test.py: test_deletion"],
    "KK-287": ["wt spec.defaultAPIBindings", "binding spec.reference.export.name", "attacks/rows_test.py: test_KK173"],
    "KK-288": ["wt status.virtualWorkspaces"], "KK-289": ["lc internal.kcp.io/replicate", "map internal.kcp.io/replicate"],
    "KK-291": ["attacks/rows_test.py: test_KK291"], "KK-292": ["attacks/takeover_test.py: untrusted"],
    "KK-293": ["attacks/restored_test.py: test_KK293"],
}
ELSEWHERE = {"KK-294"}  # the index: topology/index_trust_test.cc


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

    def test_every_row_of_the_trust_matrix_has_its_tests(self):
        text = reserved.ROWS.read_text(encoding="utf-8")
        rows = set(re.findall(r"^\| (KK-\d{3}) \|", text[text.index("## Trust matrix"):text.index("## Authorization")], re.MULTILINE))
        self.assertEqual(rows, set(ROWS) | ELSEWHERE)
        facts = {f"{kind} {path}" for kind, path, *_ in (*trust.FIELDS, *trust.STATUS)}
        facts |= {f"{kind} {key}" for kind, _, key, *_ in trust.METADATA}
        for row, places in ROWS.items():
            for place in places:
                file, _, name = place.partition(": ")
                if name:
                    self.assertIn(name, (reserved.ROOT / "e2e" / file).read_text(encoding="utf-8"), row)
                else:
                    self.assertIn(place, facts, row)

    def test_no_kind_is_left_out(self):
        kinds = {kind for rule in self.table for kind in rule.kinds}
        self.assertEqual(kinds, set(trust_matrix.NAMES.values()) | set(trust_matrix.ELSEWHERE))


if __name__ == "__main__":
    unittest.main()
