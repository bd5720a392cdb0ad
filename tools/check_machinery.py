#!/usr/bin/env python3
"""Names stand where they belong.

The API machinery knows no kind by name: no string in apiserver/ is the plural of a kind or an API group. Plurals and groups are those
that kinds/ and controlplane/ define; whatever ends with .k8s.io or .kcp.io is a group too.

Keys of annotations and labels, finalizers and prefixes of paths stand in one header each of krm/; all other code has them from there.
Texts for people, patterns ("….kcp.io/*") and documents in raw strings may spell them out.

Tests may name what they like. What stays is listed with its reason, and has to be there.
"""
import itertools
import pathlib
import re
import sys

import check_layers

# file in apiserver/, string: why the machinery itself has to say it.
EXCEPTIONS = {
    ("internal/routing.cc", "namespaces"): "grammar of paths: /namespaces/<name>/ stands in front of every namespaced resource",
    ("internal/scale.h", "autoscaling"): "the subresource scale belongs to the machinery; its kind is of this group",
    ("internal/scale.h", "autoscaling/v1"): "the same",
    ("internal/options.cc", "meta.k8s.io"): "the machinery's own group: options, tables, lists",
    ("internal/media.cc", "meta.k8s.io"): "the same, in Accept headers",
    ("internal/media.h", "meta.k8s.io/v1"): "the same",
    ("internal/media.h", "meta.k8s.io/v1beta1"): "the same",
    ("internal/discovery.cc", "apidiscovery.k8s.io/v2"): "documents of discovery are of this group",
    ("internal/discovery_requests.cc", "apidiscovery.k8s.io"): "the same, in Accept headers",
    ("internal/conversion_review.cc", "apiextensions.k8s.io/"): "ConversionReview, the message to conversion webhooks",
    ("internal/openapi_names.cc", "apiextensions.k8s.io"): "OpenAPI names types by Go packages; those of this group lie elsewhere",
    ("internal/openapi_names.cc", ".k8s.io"): "ending that operation names leave out",
    ("internal/openapi_schemas.cc", "apiextensions.k8s.io"): "values of any type are shown differently in its schemas",
}
# Where names of the field stand, and what else may spell one out.
NAME_HEADERS = ("krm/annotations.h", "krm/labels.h", "krm/finalizers.h")
PATH_HEADER = "krm/path_prefixes.h"
NAME_EXCEPTIONS = {
    ("server/layout.h", "/shards/"): "a folder of an installation",
}
# One after the other, so that a string may hold what begins a comment and the other way round.
TOKEN = re.compile(
    r'R"(?P<mark>\w*)\(.*?\)(?P=mark)"|//[^\n]*|/\*.*?\*/|^\s*#\s*include[^\n]*'
    r"""|'(?:[^'\\\n]|\\.)+'|"(?P<string>(?:[^"\\\n]|\\.)*)\"""", re.S | re.M)
FOR_PEOPLE = re.compile(r"[ <…]")
GROUP = re.compile(r"^(?:[a-z0-9.-]*\.)?(?:k8s|kcp)\.io(?:/[a-z0-9]*)?$")
WORDS = re.compile(r"^(?:/|count/)?([a-z0-9.-]+)(?:/v[0-9][a-z0-9]*)?/?$")
KIND = re.compile(r'"([A-Z][A-Za-z]+)"')
CORE_GROUPS = {"apps", "autoscaling", "batch", "policy"}  # without a dot
# Members of documents that read like plurals of something that kinds/ or controlplane/ call by a capital.
MEMBERS = {"resources", "bindings", "clusters", "exports", "facts", "groups", "lists", "names", "objects", "types", "verbs"}


def literals(text):
    """(line, string) for each plain string of the code."""
    for match in TOKEN.finditer(text):
        if match["string"] is not None:
            yield text.count("\n", 0, match.start()) + 1, match["string"]


def is_test(path: pathlib.Path):
    return path.name.endswith("_test.cc") or "testing" in path.parts


def sources(root: pathlib.Path, *folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc") and not is_test(path):
                yield path, path.read_text(encoding="utf-8")


def plurals(root: pathlib.Path):
    """Plurals of the Kinds that kinds/ and controlplane/ name, where they name those as well."""
    kinds, strings = set(), set()
    for _, text in sources(root, "kinds", "controlplane"):
        kinds.update(KIND.findall(text))
        strings.update(re.findall(r'"([a-z]+)"', text))
    words = {kind.lower() for kind in kinds}
    made = {word + "s" for word in words} | {word[:-1] + "ies" for word in words if word.endswith("y")}
    return (strings & made) - MEMBERS


def check_kinds(root: pathlib.Path):
    kinds = plurals(root)
    unused = set(EXCEPTIONS)
    for path, text in sources(root, "apiserver"):
        name = path.relative_to(root / "apiserver").as_posix()
        for line, literal in literals(text):
            words = WORDS.match(literal)
            plain = words.group(1) if words else ""
            if plain not in kinds | CORE_GROUPS and not GROUP.match(literal):
                continue
            if (name, literal) in EXCEPTIONS:
                unused.discard((name, literal))
                continue
            yield f'apiserver/{name}:{line}: "{literal}" is the name of a kind or group; it belongs into kinds/ or controlplane/'
    for name, literal in sorted(unused):
        yield f'tools/check_machinery.py: the exception "{literal}" in {name} is not needed any more'


def strings_of(root: pathlib.Path, *headers):
    texts = ((root / header).read_text(encoding="utf-8") for header in headers if (root / header).is_file())
    return {literal for text in texts for _, literal in literals(text) if "/" in literal}


def named_in(literal: str, names, prefixes):
    """The name of the field that a string spells out: as a whole, as a member of JSON, or as the beginning of a path."""
    if FOR_PEOPLE.search(literal):
        return None
    for prefix in prefixes:
        if literal.startswith(prefix):
            return prefix
    quoted = literal.replace('\\"', '"')
    for name in names:
        if quoted == name or f'"{name}"' in quoted or (name.endswith("/") and quoted.startswith(name) and not quoted.endswith("*")):
            return name
    return None


def check_names(root: pathlib.Path):
    names = strings_of(root, *NAME_HEADERS)
    prefixes = sorted(prefix for prefix in strings_of(root, PATH_HEADER) if prefix.endswith("/"))
    unused = set(NAME_EXCEPTIONS)
    modules = [folder for folder in check_layers.ALLOWED if folder not in ("bench", "fuzz")]
    for path, text in sources(root, *modules):
        name = path.relative_to(root).as_posix()
        if name in NAME_HEADERS or name == PATH_HEADER:
            continue
        for line, literal in literals(text):
            if (found := named_in(literal, names, prefixes)) is None:
                continue
            if (name, literal) in NAME_EXCEPTIONS:
                unused.discard((name, literal))
                continue
            header = PATH_HEADER if found in prefixes else "krm/{annotations,labels,finalizers}.h"
            yield f'{name}:{line}: "{literal}" spells out {found}; take it from {header}'
    for name, literal in sorted(unused):
        yield f'tools/check_machinery.py: the exception "{literal}" in {name} is not needed any more'


def check(root: pathlib.Path):
    return itertools.chain(check_kinds(root), check_names(root))


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    faults = list(check(root))
    print("\n".join(faults) if faults else "machinery: ok")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
