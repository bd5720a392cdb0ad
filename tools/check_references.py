#!/usr/bin/env python3
"""Every row of docs/spec that code, tests and documents name exists, and so does every document that they mention; and each row is
named by a test. A row whose cases stand in brackets at its end counts by these.

With --uncovered [kind…] prints the rows that no test names, per file, and fails nothing."""
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEC = "docs/spec"
KINDS = "AM|FP|TP|AGG|KK|SE|OP|GR|PERF"
WORKERS = "RT|CM|MR|MD|MH|BH|MS|KN|KD|KA|KP|DP"
ROW = re.compile(rf"^\| ((?:{KINDS})-T?\d{{3,4}}[a-z]?|(?:{WORKERS})-T?\d{{1,3}}|[RT]-\d\d|T\d{{2,3}}|[EU]\d{{1,2}}|V\d\d|[GMBLIR]\d(?:c|all)?) "
                 r"\| (.*) \|$")
CASES = re.compile(r"\[([^\[\]]+)\]$")

# AM-050, AM_050, AM050, SE-029a, KK_T012; AM232And233, FP062to071, "FP-110 to FP-114".
NAMED = re.compile(rf"(?<![A-Z])({KINDS})([-_]?)(T?)(\d{{3,4}})([a-z](?![A-Za-z]))?(?!\d)"
                   rf"(?:(_?[Aa]nd_?|_?[Tt]o_?| to |[–-])(?:(?:{KINDS})[-_]?T?)?(\d{{3,4}})(?!\d))?")
# RT-5, RT-T043, RT_T043, RT40_; "RT-40 to RT-47" and lists of them name each; MS-012.
OF_WORKERS = re.compile(r"(?<![A-Za-z0-9])(?:(RT|CM|KN|KD|KA|KP|DP)([-_]?)(T?)(\d{1,3})|(?!MD5)(MR|MD|MH|BH|MS)([-_]?)(\d{1,3}))(?![0-9])"
                        r"(?: (to|…|–) (?:RT|CM|KN|KD|KA|KP|DP)-T?(\d{1,3})(?!\d))?")
DASHED = re.compile(r"(?<![\w-])([RT])-(\d\d)(?![\w-])")  # R-06, T-05
CASE = re.compile(r"(?:(?<=Test)|(?<![A-Za-z0-9.:+/-])(?<!(?:KK|SE|RT|CM|MS|OP|KN)_))"  # T43, TestT46a_
                  r"T(\d{2,3})[a-z]?(?![A-Za-z0-9:])(?:[–-]T?(\d{2,3})\b)?")
SHORT = re.compile(r"(?<![\w.%&-])(E1?\d|U[1-7]|V[01]\d)(?![\w-])")  # E2, U6, V03: named where they are rows, else something else
FIGURE = re.compile(r"(?<![\w.-])([GMBLIRE]\d(?:c|all)?)(?![\w-])")

OUTSIDE = re.compile(r"(?<![\w/.-])(?:\.\./)*(?:shared/)?(?:specs|guides)/[\w.-]*|(?<!\w)design,? sections? \d+"
                     r"|(?i:\bspecification of [a-z]+)|(?i:performance guide)|\bguides?:? PERF")
BARE = re.compile(r"(?<![\w/.-])(?:front-proxy|topology|aggregation|api-machinery|kcp-kinds|performance)\.md\b")
DOCUMENT = re.compile(r"[\w./:@{}*<>$-]*(?:/[\w.{}*<>$-]*[\w}>*]|(?<![\w.-])[A-Z][A-Z-]+)\.md\b")

SKIP_FILES = {"LICENSE", "tools/check_references.py", "tools/references_test.py"}
SKIP_PARTS = {"corpus", "testdata", "configs", "node_modules"}
SKIP_SUFFIXES = {".json", ".jsonl", ".sum", ".pb", ".bin", ".pem", ".png", ".gz"}
TEST = re.compile(r"_test\.(cc|py|go)$|^e2e/|^fuzz/")
# Rows that no test names yet, and why. It only shrinks: one that a test names, or that is gone, fails the check.
OPEN = {}
FIGURES = re.compile(r"^bench/|^docs/performance\.md$")


def rows(root):
    """(file, id) -> text of each row; and the faults of the tables themselves."""
    found, faults = {}, []
    for path in sorted((root / SPEC).glob("*.md")):
        name = f"{SPEC}/{path.name}"
        if path.name == "README.md":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = ROW.match(line)
            if match:
                if (name, match[1]) in found:
                    faults.append(f"{name}:{number}: {match[1]} is there twice")
                found[name, match[1]] = match[2]
    return found, faults


def between(first, last):
    """The numbers of a range, as texts of the same width."""
    if int(first) < int(last) <= int(first) + 200:
        return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return [first, last]


def named(line, ids, figures=False):
    """Ids that a line names: (id, it must be a row, a test that says so shows it)."""
    for match in NAMED.finditer(line):
        kind, _, case, number, letter, join, last = match.groups()
        base = f"{kind}-{case}"
        whole = f"{base}{number}{letter or ''}"
        prose = bool(last) and " " in join or join == "–"  # of a chapter rather than of what is tested
        yield (whole if whole in ids else base + number), True, not prose
        if last:
            for one in [last] if "nd" in join else between(number, last)[1:]:
                yield base + one, one == last, not prose
    for match in OF_WORKERS.finditer(line):
        kind, base = match[1] or match[5], match[3] or ""
        first = match[4] or match[7]
        if kind != "MS" or len(first) == 3:
            for one in between(first, match[9]) if match[9] else [first]:
                yield f"{kind}-{base}{one}", True, not match[9]
    for match in DASHED.finditer(line):
        yield f"{match[1]}-{match[2]}", True, True
    cases = [match for match in NAMED.finditer(line) if match[3]]
    for match in CASE.finditer(line):
        before = [f"{case[1]}-T" for case in cases if case.end() <= match.start()]  # KK-T024, T029: the second is KK-T029
        for one in [match[1], match[2]] if match[2] else [match[1]]:
            whole = before[-1] + one if before else ""
            yield (whole if whole in ids else "T" + one), True, not match[2]
    for match in (FIGURE if figures else SHORT).finditer(line):
        if match[1] in ids:
            yield match[1], False, True


def documents(line):
    """Mentions of files *.md that are paths rather than patterns or addresses."""
    for match in DOCUMENT.finditer(line):
        if not re.search(r"://|[{}*<>$@]", match[0]):
            yield match[0].removeprefix("./") if not match[0].startswith("../") else match[0]


def files(root):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=root, capture_output=True, check=True)
    for name in sorted(set(listed.stdout.decode().split("\0"))):
        path = root / name
        if not name or name in SKIP_FILES or path.suffix in SKIP_SUFFIXES or SKIP_PARTS & set(pathlib.PurePath(name).parts[:-1]):
            continue
        if not path.is_file():
            continue
        raw = path.read_bytes()
        if b"\0" not in raw[:8192]:
            yield name, raw.decode("utf-8", "replace")


def ignored(root, name):
    return subprocess.run(["git", "check-ignore", "-q", name], cwd=root, check=False).returncode == 0


def exists(root, name, mention):
    at = [root / mention, (root / name).parent / mention, root / "docs" / mention]
    return any(path.exists() for path in at) or (not mention.startswith("..") and ignored(root, mention))


def check(root):
    """(faults, rows, files that name each row in tests)."""
    table, faults = rows(root)
    ids = {one for _, one in table}
    tests = collections.defaultdict(set)
    for name, text in files(root):
        figures, test = bool(FIGURES.search(name)), bool(TEST.search(name) or name.startswith("bench/"))
        for number, line in enumerate(text.splitlines(), 1):
            for one, must, shown in named(line, ids, figures):
                if must and one not in ids:
                    faults.append(f"{name}:{number}: {one} is no row of {SPEC}")
                elif test and shown:
                    tests[one].add(name)
            for match in [*OUTSIDE.finditer(line), *BARE.finditer(line)]:
                faults.append(f"{name}:{number}: {match[0]!r} is not in this repository: name a row or a file of {SPEC}")
            for mention in documents(line):
                if not OUTSIDE.search(mention) and not exists(root, name, mention):
                    faults.append(f"{name}:{number}: there is no {mention}")
    return faults, table, tests


def uncovered(table, tests):
    """Rows that no test names, neither themselves nor all of the cases in brackets at their end."""
    texts = collections.defaultdict(list)
    for (_, one), text in table.items():
        texts[one].append(text)

    def covered(one, seen=()):
        if tests.get(one):
            return True
        if one in seen:
            return False
        for text in texts.get(one, []):
            match = CASES.search(text)
            cases = match[1].split() if match else []
            if cases and all(case in texts and covered(case, (*seen, one)) for case in cases):
                return True
        return False

    return [(name, one) for name, one in table if not covered(one)]


def coverage_faults(table, tests, known):
    """Rows that no test names beyond those that are known to be open, and of these the ones that no longer are."""
    missing = {one: name for name, one in uncovered(table, tests)}
    return [*(f"{name}: no test names {one}" for one, name in missing.items() if one not in known),
            *(f"tools/check_references.py: {one} is no longer open ({why}): take it out" for one, why in known.items() if one not in missing)]


def main(arguments):
    faults, table, tests = check(ROOT)
    if arguments[:1] == ["--uncovered"]:
        kinds = arguments[1:]
        missing = collections.defaultdict(list)
        for name, one in uncovered(table, tests):
            if not kinds or re.match(r"[A-Z]+", one)[0] in kinds:
                missing[name].append(one)
        for name in sorted({name for name, _ in table}):
            total = sum(1 for file, _ in table if file == name)
            print(f"{name}: {len(missing[name])} of {total} rows are named by no test")
            if missing[name]:
                print("  " + " ".join(missing[name]))
        return 0
    faults += coverage_faults(table, tests, OPEN)
    for fault in faults:
        print(fault)
    print(f"references: {len(table)} rows, " + (f"{len(faults)} faults" if faults else f"{len(OPEN)} of them open, ok"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
