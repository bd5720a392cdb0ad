#!/usr/bin/env python3
"""Tests of the check scripts themselves: each must find a planted fault."""
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_coawait  # noqa: E402
import check_layers  # noqa: E402
import check_machinery  # noqa: E402
import check_metrics  # noqa: E402
import check_throws  # noqa: E402
import check_tidy  # noqa: E402
import unity_groups  # noqa: E402


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

    def test_private_headers_are_for_the_folder_above_them(self):
        line = '#include "net/tls/internal/x.h"\n'
        self.assertEqual(self.faults("net/tls/a.cc", line), [])
        self.assertEqual(len(self.faults("net/a.cc", line)), 1)

    def test_support_of_tests_is_for_tests(self):
        line = '#include "net/testing/x.h"\n'
        self.assertEqual(self.faults("net/a_test.cc", line), [])
        self.assertEqual(len(self.faults("net/a.cc", line)), 1)

    def test_a_header_that_nobody_else_includes_has_to_say_so(self):
        self.assertEqual(len(self.faults("net/a.h", "")), 1)
        self.assertEqual(self.faults("net/internal/a.h", ""), [])

    def test_costly_headers_stay_in_their_files(self):
        beast = "#include <boost/beast/http/basic_parser.hpp>\n"
        self.assertEqual(self.faults("http/internal/h1_message.cc", beast), [])
        self.assertEqual(len(self.faults("http/internal/h1_message.h", beast)), 1)
        self.assertEqual(len(self.faults("http/a_test.cc", beast)), 1)
        self.assertEqual(len(self.faults("net/a.cc", beast)), 2)

    def test_rooms_of_a_module_may_be_layers(self):
        self.assertEqual(len(self.faults("aggregation/bytes/a.cc", '#include "aggregation/watch/x.h"\n')), 1)
        self.assertEqual(self.faults("aggregation/watch/a.cc", '#include "aggregation/bytes/x.h"\n'), [])

    def test_downward_includes_pass(self):
        self.assertEqual(self.faults("net/a.cc", '#include "base/error.h"\n#include <openssl/ssl.h>\n'), [])


class Machinery(unittest.TestCase):
    def faults(self, text):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, content in (("kinds/a.cc", 'make_kind("", "v1", "Widget", "widgets");\n'), ("apiserver/a.cc", text)):
                (root / name).parent.mkdir(parents=True)
                (root / name).write_text(content, encoding="utf-8")
            return [fault for fault in check_machinery.check(root) if fault.startswith("apiserver/a.cc")]

    def test_names_of_kinds_and_groups_are_found(self):
        for bad in ('find("", "widgets")', 'f("/widgets/")', 'if (group == "apps.k8s.io") {', 'f("tenancy.kcp.io/v1")', 'f("apps")'):
            self.assertEqual(len(self.faults(bad + ";\n")), 1, bad)

    def test_other_texts_and_comments_pass(self):
        self.assertEqual(self.faults('// "widgets"\nf("metadata", "no widgets here");\n#include "widgets"\n'), [])

    def test_a_string_may_hold_what_begins_a_comment(self):
        self.assertEqual(len(self.faults('f("https://x"); g("widgets");\nf("/*"); g("widgets"); f("*/");\n')), 2)


class Names(unittest.TestCase):
    """Keys and path prefixes of the field stand in one header each."""
    HEADERS = {
        "krm/annotations.h": 'constexpr std::string_view kCluster = "kcp.io/cluster";\n',
        "krm/labels.h": 'constexpr std::string_view kClaimed = "claimed.kcp.io/";\n',
        "krm/finalizers.h": 'constexpr std::string_view kOrphan = "orphan";\n',
        "krm/path_prefixes.h": 'constexpr std::string_view kClusters = "/clusters/";  // "/no/prefix/"\n',
    }

    def faults(self, text, name="proxy/a.cc"):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, content in {**self.HEADERS, name: text}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content, encoding="utf-8")
            return [fault for fault in check_machinery.check(root) if fault.startswith(name)]

    def test_names_that_are_spelled_out_are_found(self):
        for bad in ('"kcp.io/cluster"', r'"{\"kcp.io/cluster\":\"a\"}"', '"claimed.kcp.io/x"', '"/clusters/"', '"/clusters/root/apis"'):
            self.assertEqual(len(self.faults(f"f({bad});\n")), 1, bad)
            self.assertEqual(len(self.faults(f"// a note\nf({bad});\n", "cmd/kintsugi/a.cc")), 1, bad)

    def test_texts_patterns_documents_comments_and_tests_pass(self):
        for good in ('"see /clusters/<name>/"', '"the annotation kcp.io/cluster"', '"claimed.kcp.io/*"', '"authentication.kcp.io/cluster-name"',
                     'R"(/clusters/)"', 'x  // "/clusters/"', '"orphan"', '"/no/prefix/"'):
            self.assertEqual(self.faults(f"f({good}\n);\n"), [], good)
        self.assertEqual(self.faults('f("/clusters/");\n', "proxy/a_test.cc"), [])
        self.assertEqual(self.faults('f("/clusters/");\n', "fuzz/a_fuzz.cc"), [])


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


class Throws(unittest.TestCase):
    """SE-182."""

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
        for body in ("void f(std::vector<int>& v) { v.push_back(1); }", "std::string f(std::string_view s) { return std::string(s); }",
                     "std::string f() { return \"a\"; }"):
            self.assertEqual(self.helpers(body), set(), body)


class Tidy(unittest.TestCase):
    def test_a_header_stands_for_the_source_beside_it(self):
        known = {"net/a.cc", "net/b.cc"}
        self.assertEqual(check_tidy.sources_of(["net/b.h", "net/a.cc", "net/only.h", "dev"], known), ["net/a.cc", "net/b.cc"])
        self.assertEqual(check_tidy.chosen(["--all"], known), ["net/a.cc", "net/b.cc"])
        for bad in (["net/none.cc"], ["--some"]):
            with self.assertRaises(SystemExit):
                check_tidy.chosen(bad, known)

    @unittest.skipUnless(shutil.which(check_tidy.TIDY), "no clang-tidy")
    def test_a_value_that_is_used_after_it_was_moved_is_found(self):
        text = ("#include <string>\n#include <utility>\nstd::size_t f(std::string a) {\n  const std::string b = std::move(a);\n"
                "  return a.size() + b.size();\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            shutil.copy(check_tidy.ROOT / ".clang-tidy", root)
            (root / "a.cc").write_text(text, encoding="utf-8")
            (root / "compile_commands.json").write_text(json.dumps(
                [{"directory": folder, "file": str(root / "a.cc"), "command": f"c++ -std=c++20 -c {root}/a.cc"}]), encoding="utf-8")
            with mock.patch.multiple(check_tidy, ROOT=root, BUILD=root):
                self.assertEqual(check_tidy.compiled(), {"a.cc"})
                _, found, worked = check_tidy.look("a.cc")
        self.assertFalse(worked)
        self.assertEqual(len(found), 2, found)
        self.assertIn("bugprone-use-after-move", found[0])
        self.assertIn("clang-analyzer-cplusplus.Move", found[1])


class Unity(unittest.TestCase):
    def groups(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                (root / "m").mkdir(exist_ok=True)
                (root / "m" / (name.replace("_h", ".h") if name.endswith("_h") else name + ".cc")).write_text(text, encoding="utf-8")
            return unity_groups.groups([f"m/{name}.cc" for name in files if not name.endswith("_h")], root)

    def together(self, one, other, **headers):
        return len(self.groups(one=one, other=other, **headers)) == 1

    def test_files_that_keep_to_themselves_come_together(self):
        inner = "namespace k::m {\nnamespace {\nint %s(int x) { return x; }\n}\nint %s() { return %s(1); }\n}\n"
        self.assertTrue(self.together(inner % ("a", "A", "a"), inner % ("b", "B", "b")))
        self.assertFalse(self.together(inner % ("a", "A", "a"), inner % ("a", "B", "a")))

    def test_a_name_that_another_file_means_differently_keeps_them_apart(self):
        for mine, theirs in (
                ("namespace {\nint trim(int x) { return x; }\n}", "int B() { return trim(2); }"),
                ("namespace {\nconstexpr int kMost = 1;\n}", "int B() { return kMost; }"),
                ("namespace {\nstruct Row { int x; };\n}", "void B(Row& r);"),
                ("namespace {\nenum Way { kIn, kOut };\n}", "int B() { return kOut; }"),
                ("static int count = 0;", "int B() { return count; }"),
                ("#define LIMIT 7", "int B() { return LIMIT; }"),
                ("namespace {\nstd::optional<int> found(int x) {\n  if (x) { return {}; }\n  return 1;\n}\n}", "int B() { return found(2); }"),
                ("namespace {\nclass None final : public Base {};\n}", "namespace {\nclass None final : public Base {};\n}"),
                ("using Json = one::Json;", "using Json = other::Json;"),
                ("using namespace std;", "int B();"),
                ("using enum Way;", "int B();")):
            self.assertFalse(self.together(mine, theirs), (mine, theirs))
            self.assertFalse(self.together(theirs, mine), (theirs, mine))

    def test_words_that_mean_nothing_outside_do_not(self):
        for mine, theirs in (
                ("namespace {\nint trim(int x) { return x; }\n}", "int B(X x) { return x.trim(2) + y->trim(1) + other::trim(3); }"),
                ("namespace {\nint text(int x) { return x; }\n}", "int B() { auto text = 1; return text; }"),
                ("namespace {\nint text(int x) { return x; }\n}", "int B(const std::string& text) { return use(text); }"),
                ("namespace {\nint trim(int x) { return x; }\n}", "// trim(2)\nauto x = \"trim(3)\";"),
                ("namespace {\nTEST(Suite, One) { use(1); }\n}", "namespace {\nTEST(Suite, Two) { use(2); }\n}"),
                ("namespace {\nTEST_F(Fixture, One) { use(1); }\n}", "namespace {\nTEST_F(Fixture, Two) { use(2); }\n}"),
                ("using one::Json;", "using one::Json;")):
            self.assertTrue(self.together(mine, theirs), (mine, theirs))

    def test_headers_that_come_later_are_read_too(self):
        mine = "namespace {\nint trim(int x) { return x; }\n}"
        header = "inline int use(int x) { return trim(x); }"
        self.assertFalse(self.together(mine, '#include "m/a.h"\nint B();', a_h=header))
        self.assertTrue(self.together('#include "m/a.h"\n' + mine, '#include "m/a.h"\nint B();', a_h=header))
        alias = "namespace {\nusing Kind = Other::Kind;\n}"
        self.assertFalse(self.together(alias, '#include "m/a.h"\nint B();', a_h="enum class Kind { kOne };\nKind kind();"))


class EndToEnd(unittest.TestCase):
    """e2e/run.py over a tree of topics of our own."""

    def run_over(self, topics, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            here = pathlib.Path(folder) / "e2e"
            for name, text in topics.items():
                path = here / (name + "_test.py")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("import subprocess\nimport unittest\n" + text, encoding="utf-8")
            shutil.copy(pathlib.Path(__file__).resolve().parent.parent / "e2e" / "run.py", here / "run.py")
            return subprocess.run([sys.executable, str(here / "run.py"), "--binary", "/bin/true", *arguments], capture_output=True,
                                  text=True, check=False, timeout=120)

    PASSES = "class A(unittest.TestCase):\n    def test_a(self):\n        pass\n"

    def test_words_select_folders_topics_and_parts_of_names(self):
        topics = {"one/alpha": self.PASSES, "one/beta": self.PASSES, "two/alphabet": 'ONLY_WITH_ALL = "long"\n' + self.PASSES}
        for words, chosen in (([], ["one/alpha", "one/beta"]), (["--all"], ["one/alpha", "one/beta", "two/alphabet"]),
                              (["one"], ["one/alpha", "one/beta"]), (["alpha"], ["one/alpha"]), (["alphab"], ["two/alphabet"]),
                              (["e2e/one/beta_test.py"], ["one/beta"])):
            run = self.run_over(topics, *words)
            ran = sorted(line.split("] ")[1].split(":")[0] for line in run.stdout.splitlines() if line.startswith("["))
            self.assertEqual((run.returncode, ran), (0, chosen), run.stdout + run.stderr)
        self.assertIn("left out without --all: two/alphabet", self.run_over(topics).stdout)
        self.assertIn("\n[1/1] two/alphabet: 1 passed", "\n" + self.run_over(topics, "--rest").stdout)
        late = self.run_over(topics, "--minutes=0", "--rest")
        self.assertIn("left out after 0 minutes: two/alphabet", late.stdout)
        self.assertNotEqual(self.run_over(topics, "nothing").returncode, 0)

    def test_what_a_topic_leaves_does_not_hold_up_the_others(self):
        leaves = "class A(unittest.TestCase):\n    def test_a(self):\n        subprocess.Popen(['sleep', '7532'])\n"  # it holds the output
        run = self.run_over({"one/leaves": leaves})
        self.assertRegex(run.stdout, r"FAIL  one/leaves leaves a process: \d+ sleep 7532")

    def test_what_a_topic_leaves_is_its_failure_and_is_ended(self):
        leaves = ("class A(unittest.TestCase):\n    def test_a(self):\n"
                  "        subprocess.Popen(['sleep', '7531'], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n")
        run = self.run_over({"one/leaves": leaves, "one/passes": self.PASSES})
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertRegex(run.stdout, r"FAIL  one/leaves leaves a process: \d+ sleep 7531")
        self.assertTrue(run.stdout.endswith("2 passed, 1 failed, 0 skipped\n"), run.stdout)
        for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                self.assertNotEqual(line.read_bytes(), b"sleep\x007531\x00")

    def test_what_fails_or_cannot_be_read_is_counted(self):
        fails = "class A(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        raise ValueError('no')\n\n    def test_a(self):\n        pass\n"
        run = self.run_over({"one/fails": fails, "one/odd": "import nothing_like_it\n", "one/passes": self.PASSES})
        self.assertEqual(run.returncode, 1)
        self.assertTrue(run.stdout.endswith("1 passed, 2 failed, 0 skipped\n"), run.stdout)


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
        for path, include in (("base/internal/a.h", "<openssl/evp.h>"), ("cmd/kintsugi/a.h", "<boost/program_options.hpp>"),
                              ("base/internal/a.h", "<prometheus/metric_family.h>"), ("proxy/internal/a.h", '"base/metric_families.h"')):
            self.assertEqual(len(self.faults(path, f"#include {include}\n")), 1, include)
            self.assertEqual(self.faults(path[:-1] + "cc", f"#include {include}\n"), [], include)
        own = self.faults("base/metric_families.h", "#include <prometheus/metric_family.h>\n")
        self.assertEqual([fault for fault in own if "prometheus" in fault], [])


if __name__ == "__main__":
    unittest.main()
