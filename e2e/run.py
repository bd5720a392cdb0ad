#!/usr/bin/env python3
"""Runs the end-to-end tests e2e/NNN_topic_test.py and e2e/attacks/topic_test.py (and the Go modules e2e/go* where a Go tool
chain is present), with `-j N` so many topics at a time. Arguments select topics by substring. The slowest are named at the
end; the last line is `N passed, N failed, N skipped`. A process that runs on after them is a failure, too."""
import argparse
import concurrent.futures
import contextlib
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
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


def run_python(path):
    """All tests of one file, in this process."""
    spec = importlib.util.spec_from_file_location("e2e_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception:  # pylint: disable=broad-except
        print(f"FAIL  {path.name} cannot be read\n{traceback.format_exc()}", flush=True)
        return 0, 1, 0
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    with open(os.devnull, "w", encoding="utf-8") as sink:
        result = unittest.TextTestRunner(stream=sink, resultclass=Result).run(suite)
    return result.passed, len(result.failures) + len(result.errors), len(result.skipped)


def topics(selected):
    """Files and Go modules, in their order."""
    files = [path for path in [*sorted(HERE.glob("[0-9]*_test.py")), *sorted(HERE.glob("attacks/*_test.py"))]
             if not selected or any(word in str(path.relative_to(HERE)) for word in selected)]
    modules = [path.parent for path in sorted(HERE.glob("go*/go.mod")) if not selected or path.parent.name in selected]
    return files, modules


def run_topic(topic, begun=None):
    """One topic in a process of its own; what it says comes at its end, at once. The same triple as of run_python."""
    begin = time.monotonic()
    run = subprocess.Popen([sys.executable, __file__, "--binary", os.environ["KINTSUGI"], "--topic", str(topic)],
                           text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (begun if begun is not None else []).append(run)
    said = run.communicate()[0]
    lines = said.rstrip().splitlines() or [""]
    totals = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", lines[-1])
    print("\n".join(lines[:-1]) if totals else f"{said}\nFAIL  {topic.name} ended with {run.returncode}", flush=True)
    return (topic.name, time.monotonic() - begin), tuple(int(one) for one in totals.groups()) if totals else (0, 1, 0)


def run_all(selected, jobs):
    """What fills the machine by itself, the Go modules, comes one after another, after the rest."""
    files, modules = topics(selected)
    begun, results = [], []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            results += pool.map(lambda topic: run_topic(topic, begun), files)
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for run in begun:
                run.terminate()
            raise
    if shutil.which("go") is None:
        for module in modules:
            print(f"skip  {module.name}: no Go tool chain on this machine")
            results.append(((module.name, 0.0), (0, 0, 1)))
    else:
        results += [run_topic(module) for module in modules]
    slowest = sorted((took for took, _ in results), key=lambda one: -one[1])[:10]
    print("slowest: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in slowest))
    return [sum(column) for column in zip((0, 0, 0), *[totals for _, totals in results])]


# What Go says where it is too old for a module or cannot get what that is made of: nothing is wrong with the module.
GO_LACKS = re.compile(r"requires go >= |invalid go version|toolchain not available|module lookup disabled|dial tcp|no such host|"
                      r"connection refused|i/o timeout|TLS handshake timeout|proxyconnect", re.MULTILINE)


def logged(lines):
    """What each Go test has logged, by its name."""
    said, name, inside = {}, "", False
    for line in lines:
        if switch := re.match(r"=== (?:RUN|CONT|NAME)\s+(\S+)", line):
            name, inside = switch[1], False
        elif begin := re.match(r"    (\w+\.go:\d+: .*)", line):
            said.setdefault(name, []).append(begin[1])
            inside = True
        elif inside and line.startswith("        "):
            said[name][-1] += "\n" + line
        else:
            inside = False
    return said


def why(name, failed, said):
    """One line of what the innermost of the failed tests in and below `name` have logged, without the ends of logs."""
    inner = [one for one in failed if (one + "/").startswith(name + "/") and not any(other.startswith(one + "/") for other in failed)]
    texts = []
    for one in inner:
        words = [" ".join(text.split()) for text in said.get(one, []) if ": --- end of " not in text]
        texts += [(one[len(name):].lstrip("/") + " " + text).strip()[:500] for text in (words if one != name else words[-3:])[:3]]
    return "; ".join(texts)[:2000]


def run_module(module):
    # A minute of the model checker, more where somebody asks for it.
    environment = {"KINTSUGI_MODEL_MINUTES": "1", **os.environ}
    run = subprocess.run(["go", "test", "-count=1", "-v", "-timeout=900s", "./..."], cwd=module, text=True,
                         capture_output=True, check=False, env=environment)
    lines = run.stdout.splitlines()
    started = any(line.startswith("=== RUN") for line in lines)
    if run.returncode and not started and (lacks := GO_LACKS.search(run.stdout + run.stderr)):
        print(f"skip  {module.name}: this Go cannot build it here ({lacks[0].strip()})")
        return 0, 0, 1
    passed = sum(line.startswith("--- PASS") for line in lines)
    failed = sum(line.startswith("--- FAIL") for line in lines)
    skipped = sum(line.startswith("--- SKIP") for line in lines)
    said = logged(lines)
    bad = [fail[1] for line in lines if (fail := re.match(r"\s*--- FAIL: (\S+)", line))]
    for line in lines:
        if skip := re.match(r"\s*--- SKIP: (\S+)", line):
            print(line + ": " + said.get(skip[1], [""])[-1])
        elif fail := re.match(r"--- FAIL: (\S+)", line):
            print(f"{line}: {why(fail[1], bad, said)}")
        elif line.startswith(("--- ", "model: seed")):
            print(line)
    if run.returncode != 0:
        print("\n".join(line for line in lines if re.match(r"\s+(\+ *[\d.]+ s |FAILED )|panic: |FAIL\s", line)))
        for name in bad:
            print(f"--- {name} said:\n  " + "\n  ".join(said.get(name, [])))
        print(run.stdout[-6000:] + run.stderr[-6000:])
        failed = max(failed, 1)
    return passed, failed, skipped


MARK = "KINTSUGI_E2E_RUN"


def running():
    """Processes that this run has started, and theirs, wherever they are now: {id: command line}."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found[entry.name] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            pass  # gone, or somebody else's
    return found


def end_all():
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)
        end = time.monotonic() + 10
        while running() and time.monotonic() < end:
            time.sleep(0.2)


def left_over():
    """Counts what runs on, and ends it; what was told to end may take a moment."""
    end = time.monotonic() + 10
    while (left := running()) and time.monotonic() < end:
        time.sleep(0.2)
    for pid, line in left.items():
        print(f"FAIL  process {pid} is left over: {line}")
    end_all()
    return len(left)


def folders():
    return set(pathlib.Path(tempfile.gettempdir()).glob("kintsugi-*"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="topics at a time (default: %(default)s)")
    parser.add_argument("--topic", type=pathlib.Path, help=argparse.SUPPRESS)  # one, in this process
    parser.add_argument("topics", nargs="*")
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    sys.path.insert(0, str(HERE))
    if not os.access(os.environ["KINTSUGI"], os.X_OK):
        parser.error(f"there is no program {arguments.binary}; `./dev build` makes it")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.topic:
        run = run_python if arguments.topic.is_file() else run_module
        print("%d passed, %d failed, %d skipped" % run(arguments.topic))
        return
    os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"  # this process itself began without it
    before = folders()
    try:
        totals = run_all(arguments.topics, max(1, arguments.jobs))
    except KeyboardInterrupt:
        end_all()
        sys.exit("interrupted")
    totals[1] += left_over()
    for folder in sorted(folders() - before):
        print(f"note: {folder} is left over, or of another run")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    sys.exit(1 if totals[1] or totals[0] == 0 else 0)


if __name__ == "__main__":
    main()
