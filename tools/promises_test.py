#!/usr/bin/env python3
"""What docs/threat-model.md and SECURITY.md promise against what is in the repository (SE-T092, SE-250). Run by
`./dev check selftest`."""
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


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
