#!/usr/bin/env python3
"""Tests of check_references.py, which leaves this file out: it plants faults and names rows that nobody has."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_references  # noqa: E402


class References(unittest.TestCase):
    TABLE = """| id | rule |
|---|---|
| FP-001 | one |
| FP-002 | two |
| FP-003 | three |
| FP-004 | four |
| KK-001 | rule [KK-T001 KK-T002] |
| KK-T001 | first |
| KK-T002 | second |
| SE-029a | with a letter |
| R-06 | rule [FP-001] |
| T-05 | topology |
| T43 | merged |
| E2 | answer |
| RT-5 | of workers |
| RT-40 | queue |
| RT-T043 | case |
| MS-012 | messaging |
"""

    def checked(self, files, table=TABLE):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            subprocess.run(["git", "init", "-q"], cwd=root, check=True)
            for name, text in {"docs/spec/all.md": table, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return check_references.check(root)

    def faults(self, text, name="base/a_test.cc"):
        return self.checked({name: text})[0]

    def test_every_spelling_of_a_row_is_known(self):
        for good in ("FP-001", "FP_001", "WhenFP001Fits", "test_FP_002_and_more", "FP001to003", "FP-001 to FP-004",
                     "FP001And002", "KK-T001", "test_KK_T002_x", "WhenKKT001IsAsked", "SE-029a", "R-06", "asks for T-05",
                     "T43", "TestT43b_name", "E2", "KK-T001, T002", "RT-5", "RT40_AKey", "RT_T043_x", "test_RT_T043_RT_40_x", "MS-012",
                     "test_MS_3_1_some"):
            self.assertEqual(self.faults("// " + good), [], good)

    def test_a_row_that_is_not_there_is_a_fault_with_its_place(self):
        for bad in ("FP-005", "FP_005", "WhenFP005Fits", "FP001to005", "FP-001 to FP-005", "FP001And005", "KK-T003",
                    "KK_T003", "SE-030", "R-07", "T-06", "T44", "TestT44_name", "KK-T001, T003", "RT-41", "RT41_AKey", "RT_T044_x",
                    "MS-013"):
            self.assertEqual(len(self.faults("\n// " + bad)), 1, bad)
            self.assertIn("base/a_test.cc:2: ", self.faults("\n// " + bad)[0])

    def test_what_only_looks_like_a_row_passes(self):
        for other in ("2026-01-01T00:00:00Z", "__SSE2__", "VT100", "E402", "P-256", "E7", "UTF-8", "v10", "START40", "MD5"):
            self.assertEqual(self.faults("// " + other), [], other)

    def test_documents_must_be_there(self):
        for good in ("docs/spec/all.md", "`spec/all.md`", "https://example.com/docs/none.md", "docs/<area>.md"):
            self.assertEqual(self.faults(good), [], good)
        self.assertEqual(len(self.faults("see docs/none.md")), 1)
        self.assertEqual(len(self.faults("see NONE.md")), 1)
        self.assertEqual(self.checked({"krm/README.md": "x", "krm/a.h": "// README.md"})[0], [])

    def test_documents_outside_of_the_repository_are_faults(self):
        page = ".md"  # put together, so that this file names none itself
        for bad in (f"specs/topology{page} 13", f"guides/style{page}", f"../specs/x{page}", "design, section 12",
                    "specification of aggregation", f"topology{page} 9.3"):
            self.assertEqual(len(self.faults("// " + bad)), 1, bad)

    def test_a_row_twice_is_a_fault(self):
        self.assertEqual(len(self.checked({}, self.TABLE + "| FP-001 | again |\n")[0]), 1)

    def test_a_row_that_no_test_names_is_a_fault_and_so_is_one_that_is_open_no_more(self):
        _, table, tests = self.checked({"base/a_test.cc": "// FP-001, FP-002, FP-003, KK-T001, KK-T002, SE-029a, R-06, T-05, T43, E2, RT-5, "
                                                              "RT-40, RT-T043, MS-012"})
        self.assertEqual(check_references.coverage_faults(table, tests, {"FP-004": "later"}), [])
        found = check_references.coverage_faults(table, tests, {"FP-001": "later", "FP-009": "later"})
        self.assertEqual(len(found), 3, found)
        self.assertIn("docs/spec/all.md: no test names FP-004", found)
        for row in ("FP-001", "FP-009"):
            self.assertTrue(any(f"{row} is no longer open" in fault for fault in found), row)

    def test_tests_of_the_tools_count(self):
        _, table, tests = self.checked({"tools/a_test.py": "# FP-001", "tools/a.py": "# FP-002"})
        missing = {one for _, one in check_references.uncovered(table, tests)}
        self.assertNotIn("FP-001", missing)
        self.assertIn("FP-002", missing)

    def test_rows_without_a_test_are_found(self):
        _, table, tests = self.checked({"base/a_test.cc": "TEST(A, WhenFP001to002_)\n// KK-T001, FP-003 to FP-004",
                                        "base/a.cc": "// T-05"})
        missing = {one for _, one in check_references.uncovered(table, tests)}
        self.assertEqual(missing, {"FP-003", "FP-004", "KK-001", "KK-T002", "SE-029a", "T-05", "T43", "E2", "RT-5", "RT-40",
                                   "RT-T043", "MS-012"})
        _, table, tests = self.checked({"e2e/a_test.py": "KK-T001 KK-T002"})
        self.assertNotIn("KK-001", {one for _, one in check_references.uncovered(table, tests)})


if __name__ == "__main__":
    unittest.main()
