#!/usr/bin/env python3
"""Checks #include lines against the layers of docs/architecture.md: downward only, never into a foreign internal/ folder."""
import pathlib
import re
import sys

ALLOWED = {
    "base": set(),
    "krm": {"base"},
    "cel": {"base", "krm"},
    "http": {"base"},
    "net": {"base", "http"},
    "store": {"base", "krm"},
    "auth": {"base", "krm", "cel", "http", "net"},
    "shards": {"base", "krm", "http", "net"},
    "topology": {"base", "krm", "http", "net", "store", "shards"},
    "endpointslice": {"base", "krm", "http", "net", "store", "shards", "topology"},
    "proxy": {"base", "krm", "http", "net", "store", "auth", "shards", "topology", "endpointslice"},
    "apiserver": {"base", "krm", "cel", "http", "net", "store", "auth", "shards"},
    "workers": {"base", "krm", "http", "net", "store", "auth", "shards", "topology", "endpointslice"},
    "cmd": None,
    "bench": None,
    "fuzz": None,
}
# Libraries that one module owns: pattern -> modules that may include it.
LIBRARIES = {
    r"nghttp2/": {"http", "bench"},
    r"openssl/": {"base", "net", "auth", "bench"},
    r"lmdb\.h": {"store"},
    r"rapidjson/": {"krm"},
    r"yaml\.h": {"krm"},
    r"re2/": {"krm", "cel", "apiserver", "proxy"},
    r"boost/asio": {"net"},
    r"boost/program_options": {"cmd"},
    r"prometheus/": {"base"},
}
# Libraries that take long to compile, or that stay behind a header of ours: (pattern, modules) whose headers do without.
IN_SOURCES_ONLY = [
    (r"openssl/", {"base"}),
    (r"boost/program_options", {"cmd"}),
    (r"(prometheus/|base/(metric_families|process_metrics)\.h)", set(ALLOWED)),
]
# The headers that those are for.
METRICS_HEADERS = {"base/metric_families.h", "base/process_metrics.h", "proxy/metrics.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def check(root: pathlib.Path):
    for path in sorted(root.glob("*/**/*.[ch]*")):
        module = path.relative_to(root).parts[0]
        if module not in ALLOWED or path.suffix not in (".h", ".cc"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(2)
            where = f"{path.relative_to(root)}:{number}"
            for pattern, owners in LIBRARIES.items():
                if re.match(pattern, target) and module not in owners and not path.name.endswith("_test.cc"):
                    yield f"{where}: <{target}> belongs to {', '.join(sorted(owners))}"
            for pattern, modules in IN_SOURCES_ONLY:
                if (re.match(pattern, target) and module in modules and path.suffix == ".h"
                        and str(path.relative_to(root)) not in METRICS_HEADERS):
                    yield f"{where}: <{target}> is included by .cc files only"
            other = target.split("/")[0]
            if match.group(1) != '"' or other not in ALLOWED or other == module:
                continue
            if ALLOWED[module] is not None and other not in ALLOWED[module]:
                yield f"{where}: {module} must not include {other} ({target})"
            if "/internal/" in target and module != "fuzz":
                yield f"{where}: {target} is private to {other}"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    faults = list(check(root))
    print("\n".join(faults) if faults else "layers: ok")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
