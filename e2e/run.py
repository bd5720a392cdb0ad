#!/usr/bin/env python3
"""Runs the end-to-end tests: topics are the files e2e/<folder>/<topic>_test.py and the packages of the Go modules e2e/go*.

Words select topics: a folder (`topology`), a topic (`topology/requests`, also as the path of its file), or what is part of a
name (`kubectl`). Without words all run but those that need much time or another language's tools; --all adds these (`--list` tells
which). -j topics run at a time; the Go packages come after the others. One line tells how each went, before it what failed or was
skipped and why; at the end the slowest are named, and what failed is told once more. The last line is `N passed, N failed, N skipped`.
A process that a topic leaves running is a failure of it, and is ended."""
import argparse
import concurrent.futures
import contextlib
import importlib.util
import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TIMES = HERE.parent / "build" / "e2e_times.json"  # of the last run of each topic: what took longest begins first
TYPICAL = HERE / "times.json"  # the same, seconds on 2 cores, for what has not run here yet; a topic that is not there is short
MARK = "KINTSUGI_E2E_RUN"
MODEL_MINUTES = int(os.environ.setdefault("KINTSUGI_MODEL_MINUTES", "1"))  # of the model checker; more where somebody asks for it
os.environ.setdefault("KINTSUGI_GROWING_SECONDS", "180")  # of e2e/go/growing
FAULT_CHARACTERS = 4000  # of a topic that failed, told again at the end: who reads the end of a long log sees why
LONGEST = 900 + 60 * MODEL_MINUTES  # seconds that a topic may take
# A topic that runs with --all only says so, and why, in a line of its own: ONLY_WITH_ALL = "…". So do all Go packages:
GO_ONLY_WITH_ALL = "Go modules take minutes to compile"


class Result(unittest.TextTestResult):
    passed = 0

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def line(self, word, test, more=""):
        seconds = time.monotonic() - getattr(self, "begin", time.monotonic())
        print(f"{word:5} {test.id().removeprefix('e2e.')} ({seconds:.1f} s){more}", flush=True)

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
    name = ".".join(["e2e", *path.relative_to(HERE).with_suffix("").parts])
    spec = importlib.util.spec_from_file_location(name, path)
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


def run_go(package):
    """All tests of one Go package."""
    run = subprocess.run(["go", "test", "-count=1", "-v", f"-timeout={LONGEST - 100}s", "."], cwd=package, text=True,
                         capture_output=True, check=False)
    lines = run.stdout.splitlines()
    started = any(line.startswith("=== RUN") for line in lines)
    if run.returncode and not started and (lacks := GO_LACKS.search(run.stdout + run.stderr)):
        print(f"skip  {package.relative_to(HERE)}: this Go cannot build it here ({lacks[0].strip()})")
        return 0, 0, 1
    passed = sum(line.startswith("--- PASS") for line in lines)
    failed = sum(line.startswith("--- FAIL") for line in lines)
    skipped = sum(line.startswith("--- SKIP") for line in lines)
    said = logged(lines)
    bad = [fail[1] for line in lines if (fail := re.match(r"\s*--- FAIL: (\S+)", line))]
    for line in lines:
        if skip := re.match(r"\s*--- SKIP: (\S+)", line):
            print(f"skip  {line.strip().removeprefix('--- SKIP: ')}: " + said.get(skip[1], [""])[-1])
        elif fail := re.match(r"--- FAIL: (.*)", line):
            print(f"FAIL  {fail[1]}: {why(fail[1].split()[0], bad, said)}")
        elif line.startswith("--- PASS: "):
            print("ok    " + line.removeprefix("--- PASS: "))
        elif line.startswith("model: seed"):
            print("note: " + line)
    if run.returncode != 0:
        print("\n".join(line for line in lines if re.match(r"\s+(\+ *[\d.]+ s |FAILED )|panic: |FAIL\s", line)))
        for name in bad:
            print(f"--- {name} said:\n  " + "\n  ".join(said.get(name, [])))
        print(run.stdout[-6000:] + run.stderr[-6000:])
        failed = max(failed, 1)
    return passed, failed, skipped


class Topic:
    """A file of Python tests or a Go package."""

    def __init__(self, path):
        self.path, self.go = path, path.is_dir()
        text = "" if self.go else path.read_text(encoding="utf-8")
        self.name = str(path.relative_to(HERE)).removesuffix("_test.py")
        marked = re.search(r'^ONLY_WITH_ALL = "(.*)"$', text, re.MULTILINE)
        self.only_with_all = GO_ONLY_WITH_ALL if self.go else marked and marked[1]
        self.shares = "kit.shared(" in text

    def named_by(self, word):
        return self.name == word or self.name.startswith(word.rstrip("/") + "/")


def topics():
    files = [path for path in sorted(HERE.glob("*/*_test.py"))]
    packages = sorted({test.parent for test in HERE.glob("go*/**/*_test.go")})
    return [Topic(path) for path in files + packages]


def select(words, everything, rest):
    """(the topics to run, those that only --all runs besides)"""
    known = topics()
    if rest:
        return [one for one in known if one.only_with_all], []
    if not words:
        return [one for one in known if everything or not one.only_with_all], [one for one in known if one.only_with_all and not everything]
    chosen = []
    for word in words:
        word = word.removeprefix("e2e/").removesuffix(".py").removesuffix("_test")
        found = [one for one in known if one.named_by(word) or one.name.endswith("/" + word)] or [one for one in known if word in one.name]
        if not found:
            sys.exit(f"no topic is called {word}; --list tells their names")
        chosen += [one for one in found if one not in chosen]
    return chosen, []


def times_of(file):
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


class Run:
    """One run of the suite."""

    def __init__(self, chosen, jobs, verbose, last):
        self.chosen, self.jobs, self.verbose = chosen, jobs, verbose
        self.last, self.late = last, []  # when the last topic may begin, and those that did not
        self.faults = []  # what the topics that failed have said of it
        self.mark = f"{os.getpid()}-{time.time_ns()}"
        self.begun, self.lock, self.results = [], threading.Lock(), []
        self.numbers = itertools.count(1)
        self.free = []  # installations that topics share, which nobody uses now
        self.times, self.typical = times_of(TIMES), times_of(TYPICAL)

    # what topics share
    @contextlib.contextmanager
    def shared(self, topic):
        """The environment of a topic: where the installation is that it shares with others of the same worker."""
        if not topic.shares:
            yield {}
            return
        import kit  # it reads $KINTSUGI

        with self.lock:
            installation = self.free.pop() if self.free else None
        if installation is None:
            installation = kit.Installation().start()
        pids = {path: path.read_text() for path in (installation.state / "run").glob("*.pid")}
        try:
            yield {kit.SHARED: f"{installation.state}:{installation.port}"}
        finally:
            whole = installation.process.poll() is None and all(path.exists() and path.read_text() == pid for path, pid in pids.items())
            if whole:
                with self.lock:
                    self.free.append(installation)
            else:
                self.results.append((topic.name, 0, 0, (0, 1, 0)))
                print(f"FAIL  {topic.name} has ended or restarted processes of the installation that it shares", flush=True)
                installation.__exit__(None, None, None)

    def end_shared(self):
        for installation in self.free:
            installation.__exit__(None, None, None)
        self.free = []

    # topics
    def run(self, topic):
        """One topic in a process of its own; what it says comes at its end, at once."""
        number, begin = next(self.numbers), time.monotonic()
        if self.last is not None and begin > self.last:
            self.late.append(topic)
            return
        with self.shared(topic) as environment:
            mark = f"{self.mark}/{number}/"
            # Into a file: the end of a pipe would wait for each process that the topic has left behind.
            with tempfile.TemporaryFile() as output:
                process = subprocess.Popen([sys.executable, __file__, "--binary", os.environ["KINTSUGI"], "--topic", str(topic.path)],
                                           stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                           env={**os.environ, **environment, MARK: mark})
                self.begun.append(process)
                late = ""
                try:
                    process.wait(LONGEST)
                except subprocess.TimeoutExpired:
                    late = f"\nFAIL  {topic.name} took longer than {LONGEST} s"
                    process.kill()
                    process.wait()
                output.seek(0)
                said = output.read().decode(errors="replace") + late
            *lines, last = said.rstrip().splitlines() or [""]
            match = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped; ([\d.]+) s", last)
            totals, used = ([int(one) for one in match.groups()[:3]], float(match[4])) if match else ([0, 1, 0], 0.0)
            if not match:
                lines += [last, f"FAIL  {topic.name} ended with {process.returncode}"]
            for left in left_over(mark):
                totals[1] += 1
                lines.append(f"FAIL  {topic.name} leaves a process: {left}")
        took = time.monotonic() - begin
        text = "\n".join(line for line in lines if self.verbose or totals[1] or not line.startswith("ok   "))
        if totals[1]:
            self.faults.append("\n".join(line for line in lines if not line.startswith(("ok   ", "skip ")))[-FAULT_CHARACTERS:])
        words = ", ".join(f"{count} {word}" for count, word in zip(totals, ("passed", "failed", "skipped")) if count or word == "passed")
        with self.lock:
            self.results.append((topic.name, took, used, tuple(totals)))
            done = sum(1 for name, *_ in self.results if any(name == one.name for one in self.chosen))
            print(f"{text}\n" * bool(text) + f"[{min(done, len(self.chosen))}/{len(self.chosen)}] {topic.name}: {words} "
                  f"({took:.1f} s, {used:.1f} s of CPU)", flush=True)
            if match and not totals[1]:
                self.times[topic.name] = round(took, 1)

    def run_all(self):
        """What fills the machine by itself, the Go packages, comes after the rest."""
        weight = lambda topic: -self.times.get(topic.name, self.typical.get(topic.name, 5))  # noqa: E731
        order = sorted((one for one in self.chosen if not one.go), key=weight)
        packages = sorted((one for one in self.chosen if one.go), key=weight)
        with contextlib.ExitStack() as stack:
            stack.callback(self.end_shared)
            self.pooled(order, self.jobs)
            self.end_shared()
            if packages and shutil.which("go") is None:
                for one in packages:
                    print(f"skip  {one.name}: no Go tool chain on this machine")
                    self.results.append((one.name, 0, 0, (0, 0, 1)))
            else:
                self.pooled(packages, min(self.jobs, 2))
        with contextlib.suppress(OSError):
            TIMES.parent.mkdir(exist_ok=True)
            TIMES.write_text(json.dumps(self.times, indent=1, sort_keys=True), encoding="utf-8")
        return [sum(column) for column in zip((0, 0, 0), *[totals for *_, totals in self.results])]

    def pooled(self, chosen, jobs):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                for _ in pool.map(self.run, chosen):
                    pass
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in self.begun:
                    process.terminate()
                raise


def marked(mark):
    """Processes that have that mark in their environment, wherever they are now: {id: command line}."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if any(one.startswith(f"{MARK}={mark}".encode()) for one in (entry / "environ").read_bytes().split(b"\0")):
                found[entry.name] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            pass  # gone, or somebody else's
    return found


def end_all(mark):
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), number)
        end = time.monotonic() + 10
        while marked(mark) and time.monotonic() < end:
            time.sleep(0.2)


def left_over(mark):
    """What runs on, and is ended; what was told to end may take a moment."""
    end = time.monotonic() + 10
    while (left := marked(mark)) and time.monotonic() < end:
        time.sleep(0.2)
    if left:
        end_all(mark)
    return [f"{pid} {line}" for pid, line in left.items()]


def folders():
    return set(pathlib.Path(tempfile.gettempdir()).glob("kintsugi-*"))


def tell(chosen, left_out):
    for one in chosen + left_out:
        print(f"{one.name:36}{'--all: ' + one.only_with_all if one.only_with_all else ''}".rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/bin/kintsugi")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="topics at a time (default: %(default)s)")
    parser.add_argument("-v", "--verbose", action="store_true", help="name each test that passed")
    parser.add_argument("--all", action="store_true", help="also what takes long or needs other languages' tools")
    parser.add_argument("--rest", action="store_true", help="only what --all runs besides")
    parser.add_argument("--minutes", type=float, metavar="N", help="begin no topic after N minutes; those left out are named")
    parser.add_argument("--list", action="store_true", help="name the topics and run nothing")
    parser.add_argument("--topic", type=pathlib.Path, help=argparse.SUPPRESS)  # one, in this process
    parser.add_argument("topics", nargs="*")
    arguments = parser.parse_args()
    os.environ["KINTSUGI"] = str(pathlib.Path(arguments.binary).resolve())
    sys.path.insert(0, str(HERE / "lib"))
    if arguments.topic:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        totals = (run_go if arguments.topic.is_dir() else run_python)(arguments.topic)
        used = sum(one for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN) for one in resource.getrusage(who)[:2])
        print("%d passed, %d failed, %d skipped; " % totals + f"{used:.1f} s")
        return
    chosen, left_out = select(arguments.topics, arguments.all, arguments.rest)
    if arguments.list:
        tell(chosen, left_out)
        return
    if not os.access(os.environ["KINTSUGI"], os.X_OK):
        parser.error(f"there is no program {arguments.binary}; `./dev build` makes it")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    last = None if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes
    run = Run(chosen, max(1, arguments.jobs), arguments.verbose, last)
    os.environ[MARK] = run.mark  # this process itself began without it
    before, begin = folders(), time.monotonic()
    try:
        totals = run.run_all()
    except KeyboardInterrupt:
        end_all(run.mark)
        sys.exit("interrupted")
    for left in left_over(run.mark):
        totals[1] += 1
        print(f"FAIL  a process is left over: {left}")
    for folder in sorted(folders() - before):
        print(f"note: {folder} is left over, or of another run")
    slowest = sorted(run.results, key=lambda one: -one[1])[:10]
    print("slowest: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds, *_ in slowest))
    if run.late:
        print(f"left out after {arguments.minutes:.0f} minutes: {', '.join(one.name for one in run.late)}")
    if left_out:
        print(f"left out without --all: {', '.join(one.name for one in left_out)}")
    if run.faults:
        print("\n".join(["What failed, once more:", *run.faults]))
    used = sum(one[2] for one in run.results)
    print(f"{time.monotonic() - begin:.0f} s, {used:.0f} s of CPU")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    sys.exit(1 if totals[1] or totals[0] == 0 else 0)


if __name__ == "__main__":
    main()
