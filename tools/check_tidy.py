#!/usr/bin/env python3
"""Runs clang-tidy 14 as .clang-tidy says, on the compile commands of the dev build. On demand: a file takes 5 to 30 seconds.

    check_tidy.py                 files that differ from what was there 20 commits ago
    check_tidy.py --since REV     from REV
    check_tidy.py --all           all of them: hours
    check_tidy.py FILE...         these; a header stands for the source beside it, and a source shows its headers' faults as well
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "dev"
TIDY = "clang-tidy-14"
PATIENCE = 900  # [s] for one file
FAULT = re.compile(r"^/.*?:\d+:\d+: (?:warning|error): .*", re.M)


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def compiled():
    """What the dev build compiles, relative to the root."""
    with open(BUILD / "compile_commands.json", encoding="utf-8") as commands:
        files = (pathlib.Path(row["directory"], row["file"]).resolve() for row in json.load(commands))
        return {path.relative_to(ROOT).as_posix() for path in files if path.is_relative_to(ROOT)}


def sources_of(names, known):
    """The sources that stand for these names, sorted; a name that nothing stands for is left out."""
    wanted = (re.sub(r"\.h$", ".cc", name) for name in names)
    return sorted({name for name in wanted if name in known})


def since(commit):
    """Names of files that were changed since then, in commits and besides."""
    return git("diff", "--name-only", "--diff-filter=d", commit) + git("ls-files", "--others", "--exclude-standard")


def oldest(count):
    """The commit `count` before this one, or the first."""
    return git("rev-list", "--first-parent", f"--max-count={count + 1}", "HEAD")[-1]


def look(name):
    """(name, what it found, whether it worked at all)"""
    try:
        done = subprocess.run([TIDY, "-p", str(BUILD), "--quiet", f"--header-filter=^{re.escape(str(ROOT))}/", str(ROOT / name)],
                              cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return name, [f"{name}: took longer than {PATIENCE} s"], False
    found = FAULT.findall(done.stdout)
    if done.returncode != 0 and not found:
        found = [f"{name}: {(done.stderr.strip() or 'failed').splitlines()[-1]}"]
    return name, found, done.returncode == 0


def chosen(words, known):
    if words == ["--all"]:
        return sorted(known)
    if words[:1] == ["--since"] and len(words) == 2:
        return sources_of(since(words[1]), known)
    if any(word.startswith("-") for word in words):
        sys.exit(__doc__)
    if not words:
        return sources_of(since(oldest(20)), known)
    unknown = [word for word in words if not sources_of([word], known)]
    if unknown:
        sys.exit(f"tidy: the dev build does not compile {', '.join(unknown)}")
    return sources_of(words, known)


def main():
    names = chosen(sys.argv[1:], compiled())
    faults, failed = {}, 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (name, found, worked) in enumerate(pool.map(look, names), 1):
            print(f"tidy: {number}/{len(names)} {name}", file=sys.stderr)
            failed += not worked
            faults.update(dict.fromkeys(fault.replace(f"{ROOT}/", "") for fault in found))
    print("\n".join(faults) if faults else f"tidy: ok, {len(names)} files")
    sys.exit(1 if faults or failed else 0)


if __name__ == "__main__":
    main()
