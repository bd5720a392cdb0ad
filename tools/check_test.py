#!/usr/bin/env python3
"""Tests of the check scripts themselves: each must find a planted fault."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_coawait  # noqa: E402
import check_layers  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
