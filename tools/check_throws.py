#!/usr/bin/env python3
"""SE-182: object files of the data plane refer to no throwing helper of the standard library but those that end nothing a client
chooses. `nm` tells what every object refers to; tools/throws.txt names the files that may, and only shrinks: a file that is not
listed, or a line that is no longer needed, fails the check; --shrink takes the latter out.
Usage: check_throws.py <build folder> [--shrink]"""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "throws.txt"
MODULES = ("base", "http", "krm", "net", "auth", "topology", "shards", "serving", "aggregation", "proxy")
# logic_error is what libstdc++ has for a string made of a null pointer: every std::string of a string_view or a literal refers to it,
# and neither throws it.
HARMLESS = {"bad_alloc", "length_error", "logic_error", "bad_function_call", "bad_array_new_length"}
REFERENCE = re.compile(r"U std::__throw_(\w+?)(?:_fmt)?\(")
# The same as they stand in code that the compiler has made of templates.
DIRECT = {"std::bad_optional_access": "bad_optional_access", "std::bad_variant_access": "bad_variant_access"}


def helpers(path):
    """Throwing helpers that an object refers to, without the harmless ones."""
    names = subprocess.run(["nm", "-C", str(path)], capture_output=True, text=True, check=True).stdout
    found = {match for match in REFERENCE.findall(names)} - HARMLESS
    found |= {short for name, short in DIRECT.items() if f"typeinfo for {name}" in names}
    return found


def objects(build):
    """(source file, object) of every source of the data plane; tests and what is left of removed files are none."""
    for module in MODULES:
        folder = build / module / "CMakeFiles" / f"kintsugi_{module}.dir"
        for path in sorted(folder.rglob("*.cc.o")):
            source = f"{module}/{path.relative_to(folder)}"[:-2]
            if (ROOT / source).exists():
                yield source, path


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/dev")
    pairs = list(objects(ROOT / build))
    missing = [module for module in MODULES if not any(source.startswith(module + "/") for source, _ in pairs)]
    if missing:
        sys.exit(f"throws: no object files of {', '.join(missing)} in {build}: build the program first")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = pool.map(helpers, [path for _, path in pairs])
        found = {f"{source} {name}" for (source, _), names in zip(pairs, results) for name in names}
    known = set(LIST.read_text().split("\n")) - {""}
    if "--shrink" in sys.argv:
        known &= found
        LIST.write_text("\n".join(sorted(known)) + "\n")
    for line in sorted(found - known):
        print(f"throws: {line}: use what is total (parse_decimal, std::min before substr, find and a test) instead")
    seen = {source for source, _ in pairs}
    for line in sorted(known - found):
        print(f"throws: {line}: no longer needed, take the line out (--shrink)"
              + ("" if line.split()[0] in seen else " (no such file is built)"))
    if found != known:
        sys.exit(1)
    print(f"throws: ok, {len(known)} references in {len({line.split()[0] for line in known})} of {len(pairs)} files")


if __name__ == "__main__":
    main()
