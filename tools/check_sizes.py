#!/usr/bin/env python3
"""Reports the largest sources; more than 600 lines is an error."""
import pathlib
import subprocess
import sys

LIMIT = 600


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    names = subprocess.run(["git", "ls-files", "*.cc", "*.h"], cwd=root, capture_output=True, text=True, check=True)
    sizes = sorted(((len((root / name).read_text(encoding="utf-8").splitlines()), name)
                    for name in names.stdout.split() if (root / name).exists()), reverse=True)
    total = sum(size for size, _ in sizes)
    print(f"sizes: {len(sizes)} files, {total} lines; largest: " + ", ".join(f"{n} ({s})" for s, n in sizes[:5]))
    too_big = [f"{name}: {size} lines, limit {LIMIT}" for size, name in sizes if size > LIMIT]
    print("\n".join(too_big), end="\n" if too_big else "")
    sys.exit(1 if too_big else 0)


if __name__ == "__main__":
    main()
