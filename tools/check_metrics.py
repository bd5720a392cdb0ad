#!/usr/bin/env python3
"""docs/metrics.md says what the program shows: compares it with what the program prints of its metrics.
Usage: check_metrics.py <build folder> [--write]"""
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "metrics.md"
SECTION = re.compile(r"^## ", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|", re.MULTILINE)

# Counters that Kubernetes calls otherwise.
KUBERNETES_COUNTS = {"apiserver_admission_webhook_rejection_count", "apiserver_admission_webhook_fail_open_count"}


def faults(text):
    """What is wrong with the metrics themselves: a name twice in one process, a counter that is not called so."""
    for section in SECTION.split(text)[1:]:
        seen = set()
        for name, kind in ROW.findall(section):
            if name in seen:
                yield f"{name}: there twice"
            seen.add(name)
            keeps_its_name = name.startswith("kcp_") or name in KUBERNETES_COUNTS
            if not keeps_its_name and (kind == "counter") != name.endswith("_total"):
                yield f"{name}: a {kind}; counters, and nothing else, end with _total"


def main():
    build = pathlib.Path(next((one for one in sys.argv[1:] if not one.startswith("-")), "build/dev"))
    text = subprocess.run([str(ROOT / build / "bin" / "kintsugi"), "metrics-document"], capture_output=True, text=True, check=True).stdout
    wrong = list(faults(text))
    if "--write" in sys.argv:
        DOCUMENT.write_text(text, encoding="utf-8")
    known = DOCUMENT.read_text(encoding="utf-8") if DOCUMENT.exists() else ""
    wrong += list(difflib.unified_diff(known.splitlines(), text.splitlines(), "docs/metrics.md", "the program", n=0, lineterm=""))
    if wrong:
        print("\n".join(wrong))
        sys.exit("metrics: run tools/check_metrics.py --write, or change the code")
    print(f"metrics: ok, {len(ROW.findall(text))} families")


if __name__ == "__main__":
    main()
