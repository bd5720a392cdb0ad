#!/usr/bin/env python3
"""What docs/threat-model.md and SECURITY.md promise against what is in the repository (SE-T092, SE-250). Run by
`./dev check selftest`."""
import ast
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


# Classes of holes that were found, and where each is tried: a test that goes through variants, a class of tests that are variants, or the
# table of several tests. What is found later has a line here, too.
HOLES = {
    "facts of the system in objects that tenants write": ("system_facts", "test_KK046_KK047_a_workspace_does_not_say_where_it_is"),
    "a request that ends the process": ("paths", "test_SE_T001_no_spelling_of_a_watch_ends_the_proxy"),
    "rights outside of the cluster where they were given": ("impersonation", "RESERVED"),
    "one path read in two ways": ("target_rules", "HIDDEN"),
    "memory and seats without an owner": ("exhaustion", "HalfSentBodies"),
    "a loop without an end": ("takeover", "test_hostile_objects_of_every_kind"),
    "one bad request that delays others": ("exhaustion", "test_SE_115_SE_118_an_authority_that_no_backend_takes_delays_nobody"),
    "an identity that outlives its proof": ("expired_identity", "Certificates"),
    "the proxy's own identity lent out": ("own_identity", "OWNERS"),
    "requests made for tenants": ("outgoing", "test_KK_T061_issuers_are_not_fetched_either"),
    "existence told to strangers": ("existence", "TRAILS"),
}


def variants(source, name):
    """Of a constant the elements, of a class its tests, of a test the elements of the longest literal that it goes through."""
    most = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            most = max(most, len(getattr(node.value, "elts", ())))
        elif isinstance(node, ast.ClassDef) and node.name == name:
            most = max(most, sum(isinstance(one, ast.FunctionDef) and one.name.startswith("test") for one in node.body))
        elif isinstance(node, ast.FunctionDef) and node.name == name:
            most = max([most, *(len(getattr(one, "elts", getattr(one, "keys", ()))) for one in ast.walk(node)
                                if isinstance(one, (ast.Tuple, ast.List, ast.Set, ast.Dict)))])
    return most


def promises():
    """(attack, promise, shown by) of the table."""
    table = text("docs/threat-model.md").split("## What is promised")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ") and not line.startswith("| attack")]
    return [[cell.strip() for cell in row] for row in rows]


class Promises(unittest.TestCase):
    def test_SE_T092_each_promise_names_tests_that_exist(self):
        rows = promises()
        self.assertGreater(len(rows), 15)
        for attack, promise, shown in rows:
            with self.subTest(attack=attack):
                self.assertTrue(promise)
                files = re.findall(r"`([\w./-]+\.(?:py|cc|go))`", shown)
                self.assertTrue(files, "no test is named")
                for name in files:
                    self.assertTrue((ROOT / name).is_file(), name)
                    self.assertRegex(name, r"_test\.(cc|py|go)$|_fuzz\.cc$")

    def test_SE_T092_each_rule_of_a_promise_has_a_test(self):
        run = subprocess.run(["python3", str(ROOT / "tools/check_references.py"), "--uncovered", "SE"], capture_output=True, text=True, check=True)
        open_rows = set(re.findall(r"SE-T?\d+[a-z]?", run.stdout))
        named = set(re.findall(r"SE-T?\d{3}[a-z]?", " ".join(" ".join(row) for row in promises())))
        self.assertGreater(len(named), 30)
        self.assertEqual(named & open_rows, set(), "promised, and no test names it")

    def test_SE_202_each_class_of_holes_is_tried_in_five_variants_at_least(self):
        for hole, (topic, name) in HOLES.items():
            with self.subTest(hole=hole):
                self.assertGreaterEqual(variants(text(f"e2e/attacks/{topic}_test.py"), name), 5)
        source = "A = (1, 2)\nclass B:\n    def test_c(self):\n        for one in (1, 2, 3):\n            pass\n"
        self.assertEqual([variants(source, name) for name in ("A", "B", "test_c", "D")], [2, 1, 3, 0])

    def test_SE_T092_each_file_of_the_attacks_is_told_of(self):
        told = text("docs/threat-model.md") + text("docs/testing.md")
        known = {"model_full_test.py", "trust_matrix_full_test.py"}  # all combinations of those named
        missing = [path.name for path in sorted((ROOT / "e2e/attacks").glob("*_test.py")) if path.name not in told and path.name not in known]
        self.assertEqual(missing, [])

    def test_SE_250_the_policy_says_what_it_must(self):
        policy = text("SECURITY.md")
        for what in ("Report a vulnerability", "3 working days", "10 working days", "90 days, 14 if it is used by attackers", "## Scope", "## Versions",
                     "we take no steps against it", "checksums that are signed", "list of what is linked", "known vulnerabilities"):
            self.assertIn(what, policy)


if __name__ == "__main__":
    unittest.main()
