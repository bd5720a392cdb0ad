#!/usr/bin/env python3
"""Checks #include lines against the layers of docs/architecture.md: downward only, internal/ as in Go, testing/ from tests."""
import collections
import pathlib
import re
import sys

LOW = {"base", "krm", "http", "net", "store", "auth", "shards", "serving", "topology"}
ALLOWED = {
    "base": set(),
    "krm": {"base"},
    "cel": {"base", "krm"},
    "http": {"base"},
    "net": {"base", "http"},
    "store": {"base", "krm"},
    "auth": {"base", "krm", "cel", "http", "net"},
    "shards": {"base", "krm", "http", "net"},
    "serving": {"base", "krm", "http", "net", "auth"},
    "topology": {"base", "krm", "http", "net", "store", "shards"},
    "endpointslice": {"base", "krm", "http", "net", "store", "shards", "topology"},
    "apiserver": {"base", "krm", "cel", "http", "net", "store", "auth", "serving"},
    "kinds": {"base", "krm", "cel", "http", "net", "store", "auth", "serving", "apiserver"},
    "controlplane": {"base", "krm", "cel", "http", "net", "store", "auth", "shards", "serving", "apiserver", "kinds"},
    "aggregation": LOW,
    "proxy": LOW | {"endpointslice", "aggregation"},
    "workers": {"base", "krm", "http", "net", "store", "shards"},
    "server": LOW | {"cel", "endpointslice", "apiserver", "kinds", "controlplane", "aggregation", "proxy", "workers"},
    "cmd": None,
    "bench": None,
    "fuzz": None,
}
# Rooms of a module that may include more than the others of it.
ROOMS_ALLOWED = {"store/etcd": {"http", "net"}}
# Folders that are no modules: what stands there is for themselves.
OPEN = {"cmd", "bench", "fuzz"}
# Rooms that roles are written with: their headers wait for roles that use them.
FOR_ROLES = {"workers/delivery/agent", "workers/delivery/hub", "workers/delivery/mqtt", "workers/delivery/protocol", "workers/eventing/contract", "workers/eventing/delivering", "workers/eventing/dispatcher", "workers/eventing/events", "workers/eventing/kafka", "workers/eventing/model", "workers/eventing/scheduling", "workers/messaging/amqp", "workers/messaging/model", "workers/messaging/pipeline", "workers/messaging/wire", "workers/runtime/endpoints", "workers/runtime/journal", "workers/runtime/placement", "workers/runtime/status"}
# What tests may use besides: the machinery is tested with real kinds.
TESTS = {"apiserver": {"kinds"}}
# Libraries that one module owns: pattern -> modules that may include it.
LIBRARIES = {
    r"nghttp2/": {"http", "bench"},
    r"openssl/": {"base", "net", "auth", "bench"},
    r"lmdb\.h": {"store", "workers"},
    r"rapidjson/": {"krm"},
    r"yaml\.h": {"krm"},
    r"re2/": {"krm", "cel", "kinds", "controlplane", "aggregation", "proxy"},
    r"boost/asio": {"net"},
    r"boost/beast": {"http"},
    r"boost/program_options": {"cmd"},
    r"prometheus/": {"base"},
    r"proton/": {"workers"},
    r"(mosquitto|mqtt_protocol)\.h": {"workers"},
    r"librdkafka/": {"workers"},
}
# Headers that cost seconds of every file that includes them: pattern -> the only files that may.
COSTLY = {
    r"boost/beast": {"http/internal/h1_message.cc"},
}
# Libraries that take long to compile, or that stay behind a header of ours: (pattern, modules) whose headers do without.
IN_SOURCES_ONLY = [
    (r"openssl/", {"base"}),
    (r"boost/program_options", {"cmd"}),
    (r"(prometheus/|base/(metric_families|process_metrics)\.h)", set(ALLOWED)),
]
# The headers that those are for.
METRICS_HEADERS = {"base/metric_families.h", "base/process_metrics.h", "proxy/admin/metrics.h"}
# Rooms of a module that are layers, too: each includes those before it; "" is what stands in the module's own folder.
ROOMS = {"aggregation": [{"bytes"}, {"position"}, {"asking"}, {"documents", "rights"}, {"list"}, {"watch"}, {""}]}
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


def is_test(path: pathlib.Path):
    return path.name.endswith("_test.cc") or "testing" in path.parts


def is_visible(header: str, user: pathlib.PurePath):
    """What stands in a folder internal/ is for the files below that folder's parent, as in Go."""
    parts = header.split("/")
    for place, part in enumerate(parts[:-1]):
        if part == "internal" and list(user.parts[:place]) != parts[:place]:
            return False
    return True


def room_level(name: str):
    """The place of a file's room among those of its module; 0 where rooms are no layers. Rooms of one level are neighbours."""
    module, *folders, _ = name.split("/")
    room = folders[0] if folders else ""
    return next((level for level, rooms in enumerate(ROOMS.get(module, [])) if room in rooms), 0)


def sources(root: pathlib.Path):
    for path in sorted(root.glob("*/**/*.[ch]*")):
        name = path.relative_to(root)
        if name.parts[0] in ALLOWED and path.suffix in (".h", ".cc"):
            yield name, path.read_text(encoding="utf-8")


def check(root: pathlib.Path):
    users = collections.defaultdict(set)
    for name, text in sources(root):
        module = name.parts[0]
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(2)
            where = f"{name}:{number}"
            for pattern, owners in LIBRARIES.items():
                if re.match(pattern, target) and module not in owners and not name.name.endswith("_test.cc"):
                    yield f"{where}: <{target}> belongs to {', '.join(sorted(owners))}"
            for pattern, modules in IN_SOURCES_ONLY:
                if (re.match(pattern, target) and module in modules and name.suffix == ".h"
                        and str(name) not in METRICS_HEADERS):
                    yield f"{where}: <{target}> is included by .cc files only"
            for pattern, files in COSTLY.items():
                if re.match(pattern, target) and str(name) not in files:
                    yield f"{where}: <{target}> takes seconds to compile: only {', '.join(sorted(files))} may include it"
            other = target.split("/")[0]
            if match.group(1) != '"' or other not in ALLOWED:
                continue
            users[target].add(name)
            if not is_visible(target, name) and module != "fuzz":
                yield f"{where}: {target} is private to {target.split('/internal/')[0]}"
            if "/testing/" in target and not is_test(name) and module not in ("bench", "fuzz"):
                yield f"{where}: {target} is for tests"
            if other == module:
                if not is_test(name) and room_level(target) > room_level(str(name)):
                    yield f"{where}: a room above: {target}"
                continue
            allowed = ALLOWED[module]
            for room, more in ROOMS_ALLOWED.items():
                if str(name).startswith(room + "/"):
                    allowed = allowed | more
            if allowed is not None and is_test(name):
                allowed = allowed | TESTS.get(module, set())
            if allowed is not None and other not in allowed:
                yield f"{where}: {module} must not include {other} ({target})"
    yield from check_private(root, users)


def check_private(root: pathlib.Path, users):
    """Headers that only their own folder includes say so by standing in internal/."""
    for name, _ in sources(root):
        if name.suffix != ".h" or name.parts[0] in OPEN or "internal" in name.parts or is_test(name):
            continue
        folder = name.parts[:-1]
        if "/".join(folder) in FOR_ROLES:
            continue
        if all(user.parts[:len(folder)] == folder for user in users[str(name)] if user.parts[0] != "fuzz"):
            yield f"{name}: nothing outside of {'/'.join(folder)}/ includes it: it belongs in internal/"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    faults = list(check(root))
    print("\n".join(faults) if faults else "layers: ok")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
