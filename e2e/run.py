#!/usr/bin/env python3
"""Runs the end-to-end tests e2e/NNN_topic_test.py (and the Go modules e2e/go* where a Go tool chain is present) one after
another. Arguments select topics by substring. The last line is `N passed, N failed, N skipped`."""
import argparse
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class Result(unittest.TextTestResult):
    passed = 0

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def line(self, word, test, more=""):
        seconds = time.monotonic() - getattr(self, "begin", time.monotonic())
        print(f"{word:5} {test.id().replace('e2e_', '')} ({seconds:.1f} s){more}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        self.line("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line("FAIL", test)
        print(self.failures[-1][1], flush=True)

    def addError(self, test, err):
        super().addError(test, err)
        self.line("FAIL", test)
        print(self.errors[-1][1], flush=True)

    def addSubTest(self, test, subtest, err):
        before = len(self.failures) + len(self.errors)
        super().addSubTest(test, subtest, err)
        if len(self.failures) + len(self.errors) > before:
            self.line("FAIL", subtest)
            print((self.failures if issubclass(err[0], test.failureException) else self.errors)[-1][1], flush=True)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line("skip", test, ": " + reason)


def run_python(selected):
    passed = failed = skipped = 0
    for path in sorted(HERE.glob("[0-9]*_test.py")):
        if selected and not any(word in path.name for word in selected):
            continue
        spec = importlib.util.spec_from_file_location("e2e_" + path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        suite = unittest.defaultTestLoader.loadTestsFromModule(module)
        with open(os.devnull, "w", encoding="utf-8") as sink:
            result = unittest.TextTestRunner(stream=sink, resultclass=Result).run(suite)
        bad = len(result.failures) + len(result.errors)
        failed += bad
        skipped += len(result.skipped)
        passed += result.passed
    return passed, failed, skipped


def run_go(selected):
    """The tests of a Go module count as one each; without Go every module is one skipped line."""
    modules = [path.parent for path in sorted(HERE.glob("go*/go.mod")) if not selected or path.parent.name in selected]
    if shutil.which("go") is None:
        for module in modules:
            print(f"skip  {module.name}: no Go tool chain on this machine")
        return 0, 0, len(modules)
    return tuple(sum(column) for column in zip((0, 0, 0), *[run_module(module) for module in modules]))


def run_module(module):
    # A minute of the model checker, more where somebody asks for it.
    environment = {"KINTSUGI_MODEL_MINUTES": "1", **os.environ}
    run = subprocess.run(["go", "test", "-count=1", "-v", "-timeout=900s", "./..."], cwd=module, text=True,
                         capture_output=True, check=False, env=environment)
    lines = run.stdout.splitlines()
    passed = sum(line.startswith("--- PASS") for line in lines)
    failed = sum(line.startswith("--- FAIL") for line in lines)
    skipped = sum(line.startswith("--- SKIP") for line in lines)
    for line in lines:
        if line.startswith(("--- ", "model: seed")):
            print(line)
    if run.returncode != 0:
        said = [line for line in lines if re.match(r"\s+(\w+\.go:\d+: |\+ *[\d.]+ s |FAILED )", line) or line.startswith("--- FAIL")]
        print("\n".join(said) + "\n" + run.stdout[-6000:] + run.stderr[-6000:])
        failed = max(failed, 1)
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("topics", nargs="*")
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    sys.path.insert(0, str(HERE))
    totals = [sum(column) for column in zip(run_python(arguments.topics), run_go(arguments.topics))]
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    sys.exit(1 if totals[1] or totals[0] == 0 else 0)


if __name__ == "__main__":
    main()
