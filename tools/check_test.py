#!/usr/bin/env python3
"""Tests of the check scripts themselves: each must find a planted fault."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_coawait  # noqa: E402
import check_layers  # noqa: E402
import check_metrics  # noqa: E402
import check_references  # noqa: E402
import check_throws  # noqa: E402


class Layers(unittest.TestCase):
    def faults(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            return list(check_layers.check(pathlib.Path(folder)))

    def test_upward_sideways_and_private_includes_are_found(self):
        self.assertEqual(len(self.faults("krm/a.cc", '#include "net/loop.h"\n')), 1)
        self.assertEqual(len(self.faults("auth/a.cc", '#include "shards/informer.h"\n')), 1)
        self.assertEqual(len(self.faults("proxy/a.cc", '#include "net/internal/x.h"\n')), 1)
        self.assertEqual(len(self.faults("proxy/a.cc", "#include <nghttp2/nghttp2.h>\n")), 1)

    def test_downward_includes_pass(self):
        self.assertEqual(self.faults("net/a.cc", '#include "base/error.h"\n#include <openssl/ssl.h>\n'), [])


class Coroutines(unittest.TestCase):
    def count(self, text):
        return len(list(check_coawait.faults(text)))

    def test_forms_that_break_are_found(self):
        for bad in ("if (co_await a(s) && co_await b(s)) { x(); }", "auto r = co_await f({1, 2});",
                    "co_await (flag ? f(1) : f(2));", "co_await g([cap] { return 1; });",
                    "auto [a, b] = co_await f(x);"):
            self.assertGreater(self.count("void f() {\n" + bad + "\n}"), 0, bad)

    def test_the_allowed_form_passes(self):
        self.assertEqual(self.count("void f() {\n  auto reply = co_await client.get(std::move(request));\n}"), 0)


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
                     "T43", "TestT43b_name", "E2", "KK-T001, T002"):
            self.assertEqual(self.faults("// " + good), [], good)

    def test_a_row_that_is_not_there_is_a_fault_with_its_place(self):
        for bad in ("FP-005", "FP_005", "WhenFP005Fits", "FP001to005", "FP-001 to FP-005", "FP001And005", "KK-T003",
                    "KK_T003", "SE-030", "R-07", "T-06", "T44", "TestT44_name", "KK-T001, T003"):
            self.assertEqual(len(self.faults("\n// " + bad)), 1, bad)
            self.assertIn("base/a_test.cc:2: ", self.faults("\n// " + bad)[0])

    def test_what_only_looks_like_a_row_passes(self):
        for other in ("2026-01-01T00:00:00Z", "__SSE2__", "VT100", "E402", "P-256", "E7", "UTF-8", "v10"):
            self.assertEqual(self.faults("// " + other), [], other)

    def test_documents_must_be_there(self):
        for good in ("docs/spec/all.md", "`spec/all.md`", "https://example.com/docs/none.md", "docs/<area>.md"):
            self.assertEqual(self.faults(good), [], good)
        self.assertEqual(len(self.faults("see docs/none.md")), 1)
        self.assertEqual(len(self.faults("see NONE.md")), 1)
        self.assertEqual(self.checked({"krm/README.md": "x", "krm/a.h": "// README.md"})[0], [])

    def test_documents_outside_of_the_repository_are_faults(self):
        for bad in ("specs/topology.md 13", "guides/style.md", "../specs/x.md", "design, section 12",
                    "specification of aggregation", "topology.md 9.3"):
            self.assertEqual(len(self.faults("// " + bad)), 1, bad)

    def test_a_row_twice_is_a_fault(self):
        self.assertEqual(len(self.checked({}, self.TABLE + "| FP-001 | again |\n")[0]), 1)

    def test_rows_without_a_test_are_found(self):
        _, table, tests = self.checked({"base/a_test.cc": "TEST(A, WhenFP001to002_)\n// KK-T001, FP-003 to FP-004",
                                        "base/a.cc": "// T-05"})
        missing = {one for _, one in check_references.uncovered(table, tests)}
        self.assertEqual(missing, {"FP-003", "FP-004", "KK-001", "KK-T002", "SE-029a", "T-05", "T43", "E2"})
        _, table, tests = self.checked({"e2e/a_test.py": "KK-T001 KK-T002"})
        self.assertNotIn("KK-001", {one for _, one in check_references.uncovered(table, tests)})


class Throws(unittest.TestCase):
    def helpers(self, body):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "a.cc"
            source.write_text("#include <optional>\n#include <string>\n#include <string_view>\n#include <vector>\n" + body, encoding="utf-8")
            target = source.with_suffix(".o")
            subprocess.run(["g++", "-std=c++20", "-O1", "-c", str(source), "-o", str(target)], check=True)
            return check_throws.helpers(target)

    def test_a_planted_throw_is_found(self):
        for body, name in (("char f(std::string_view s) { return s.substr(s.find('x') + 1).front(); }", "out_of_range"),
                           ("int f(const std::vector<int>& v, unsigned long i) { return v.at(i); }", "out_of_range"),
                           ("int f(const std::string& s) { return std::stoi(s); }", "invalid_argument"),
                           ("int f(const std::optional<int>& o) { return o.value(); }", "bad_optional_access")):
            self.assertIn(name, self.helpers(body), body)

    def test_what_only_wants_memory_passes(self):
        self.assertEqual(self.helpers("void f(std::vector<int>& v) { v.push_back(1); }"), set())


class Metrics(unittest.TestCase):
    def faults(self, *rows):
        return list(check_metrics.faults("# Metrics\n\n## Proxy\n\n" + "\n".join(rows)))

    def test_names_are_there_once_and_counters_are_called_so(self):
        row = "| `{}` | {} | | what |".format
        self.assertEqual(self.faults(row("a_total", "counter"), row("b_bytes", "gauge"), row("c_seconds", "histogram")), [])
        for rows in ((row("a_total", "counter"),) * 2, (row("a", "counter"),), (row("a_total", "gauge"),)):
            self.assertEqual(len(self.faults(*rows)), 1, rows)


class HeavyHeaders(unittest.TestCase):
    def faults(self, path, text):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / path
            target.parent.mkdir(parents=True)
            target.write_text(text, encoding="utf-8")
            return list(check_layers.check(pathlib.Path(folder)))

    def test_heavy_headers_stay_in_source_files(self):
        for path, include in (("base/a.h", "<openssl/evp.h>"), ("cmd/kintsugi/a.h", "<boost/program_options.hpp>"),
                              ("base/a.h", "<prometheus/metric_family.h>"), ("proxy/a.h", '"base/metric_families.h"')):
            self.assertEqual(len(self.faults(path, f"#include {include}\n")), 1, include)
            self.assertEqual(self.faults(path[:-1] + "cc", f"#include {include}\n"), [], include)
        self.assertEqual(self.faults("base/metric_families.h", "#include <prometheus/metric_family.h>\n"), [])


if __name__ == "__main__":
    unittest.main()
