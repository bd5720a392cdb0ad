#!/usr/bin/env python3
"""SE-203: which lines of the parsers of outside bytes their tests and corpora reach. Beneath 95 % a parser needs a reason here.

  cmake --preset release -B build/coverage -DKINTSUGI_COVERAGE=ON
  ninja -C build/coverage kintsugi_krm_test replay_target …       # those of PARSERS (--programs), or some of them
  python3 tools/parser_coverage.py build/coverage [krm http …]

Runs what is built of the programs that PARSERS names for the modules (all of them), and prints a row for each parser; programs that are
not built are named. Ends with 1 for a parser beneath the bound without a reason, or with a reason that is not needed."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BOUND = 95.0  # per cent of lines
WITHOUT_COSTS = "-MergedWatchCost.*"  # tests that count instructions: counting lines is made of these
# Module: (parsers, programs of the module's own tests and of its corpora).
PARSERS = {
    "base": (["strings.cc", "encoding.cc"], []),
    "krm": (["request_target.cc", "request_info.cc", "service_path.cc", "selector.cc", "json_parse.cc", "json_patch.cc", "json_path.cc",
             "strict_order.cc", "protobuf.cc", "protobuf_wire.cc", "quantity.cc", "yaml_parse.cc", "yaml_scalar.cc"],
            ["target", "request_info", "service_path", "selector", "json", "patch", "json_path", "strict_order", "protobuf", "quantity",
             "yaml"]),
    "http": (["internal/h1_engine.cc", "internal/h1_message.cc", "internal/h1_rules.cc", "internal/h2_callbacks.cc",
              "internal/h2_engine.cc", "web_socket.cc", "gunzip.cc", "wire.cc"], ["http_h1", "http_h2", "web_socket", "gunzip"]),
    "auth": (["jwt.cc", "internal/jwk.cc", "jwt_issuer.cc", "key_pair.cc", "request_header.cc", "impersonation.cc", "audit_policy.cc",
              "token_file.cc", "x509_identity.cc"],
             ["token", "issuer", "key_pair", "identity_headers", "audit_policy", "x509_chain"]),
    "net": (["revocation.cc", "url.cc"], ["crl", "outgoing_url"]),
    "aggregation": (["bytes/json_split.cc", "bytes/json_list.cc", "bytes/proto_split.cc", "bytes/marker.cc", "position/cursor.cc", "position/continue_token.cc",
                     "position/sequence_journal.cc"],
                    ["proto_split", "marker", "merge", "cursor", "continue", "sequence_journal", "watch_tail"]),
    "store": (["encryption/configuration.cc", "encryption/value_codec.cc"], ["encryption_config", "sealed_value"]),
    "proxy": (["config/config.cc", "routing/route_table.cc"], ["config", "mapping", "proxy_request"]),
    "server": (["kubeconfig.cc"], ["kubeconfig"]),
    "apiserver": (["internal/media.cc"], ["accept", "shard_request"]),
}
REASONS: dict[str, str] = {  # parser: why it stays beneath the bound
    "krm/protobuf.cc": "packed lists, quantities and schemas of kinds whose bytes are in the corpus of shard_request, which runs with another module",
    "http/internal/h1_engine.cc": "ends of connections and slow readers, which the tests of net/ and the proxy bring about",
    "http/wire.cc": "words for status codes and the date of answers, no parser; the parsers of the file are reached",
    "auth/jwt.cc": "public keys in PEM, which the tests of server/ read, and failures of OpenSSL",
    "auth/internal/jwk.cc": "names for a message, and failures of OpenSSL",
    "auth/jwt_issuer.cc": "what CEL expressions of another type give, which the tests of server/ and e2e/identity show",
    "auth/token_file.cc": "quotes within quotes and lines that are cut, of a file of the operator",
    "auth/x509_identity.cc": "files of CAs and revocation lists, which the tests of server/ load, and failures of OpenSSL",
    "base/strings.cc": "random names and closing braces, no parser",
    "base/encoding.cc": "closing braces and failures of OpenSSL",
    "aggregation/position/cursor.cc": "sequences, which the tests of proxy/merged bring about",
    "aggregation/position/continue_token.cc": "tokens of other generations, likewise",
    "aggregation/position/sequence_journal.cc": "disks that fail",
    "net/revocation.cc": "what is asked of lists, which auth/certificate_proofs_test.cc does; faults of lists are the corpus of crl",
}


def run_programs(build, module, corpora):
    """Those that are built; the names of the others."""
    missing = []
    commands = [(f"kintsugi_{module}_test", [])] + [(f"replay_{name}", [str(ROOT / "fuzz/corpus" / name)]) for name in corpora]
    for name, arguments in commands:
        program = build / "bin" / name
        if not program.exists():
            missing.append(name)
            continue
        subprocess.run([str(program), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1800, check=True, cwd=build,
                       env={**os.environ, "GTEST_FILTER": WITHOUT_COSTS})
    return missing


def lines_of(build, module, parser):
    """(lines that ran, lines) of a source; None: it is not compiled there."""
    counting = build / module / "CMakeFiles" / f"kintsugi_{module}_counting.dir" / f"{parser}.gcno"
    notes = next(build.glob(f"*/CMakeFiles/kintsugi_{module}_counting.dir/**/{pathlib.PurePath(parser).name}.gcno"), counting)
    if not notes.exists():
        return None
    told = subprocess.run(["gcov-12", "--json-format", "--stdout", str(notes)], capture_output=True, text=True, cwd=build, check=True).stdout
    counts: dict[int, int] = {}
    for text in told.splitlines():
        for file in json.loads(text)["files"]:
            if file["file"].endswith(f"{module}/{parser}"):
                for line in file["lines"]:
                    counts[line["line_number"]] = counts.get(line["line_number"], 0) + line["count"]
    return sum(1 for count in counts.values() if count > 0), len(counts)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--list":  # for cmake/module.cmake
        print("\n".join(f"{name}/{parser}" for name in sys.argv[2:] for parser in PARSERS.get(name, ([], []))[0]))
        return
    if sys.argv[1] == "--programs":
        for name in sys.argv[2:] or PARSERS:
            print("\n".join([f"kintsugi_{name}_test", *(f"replay_{corpus}" for corpus in PARSERS[name][1])]))
        return
    build, wrong = pathlib.Path(sys.argv[1]).resolve(), []
    for module in sys.argv[2:] or PARSERS:
        parsers, corpora = PARSERS[module]
        for name in run_programs(build, module, corpora):
            print(f"left out: {name} is not built")
        for parser in parsers:
            name = f"{module}/{parser}"
            found = lines_of(build, module, parser)
            if found is None or found[1] == 0:
                print(f"left out: {name} is not built")
                continue
            share = 100.0 * found[0] / found[1]
            print(f"| `{name}` | {found[1]} | {share:.1f} % | {REASONS.get(name, '')} |")
            if (share < BOUND) != (name in REASONS):
                wrong.append(name)
    if wrong:
        sys.exit("parser coverage: beneath 95 % without a reason, or with one and above: " + ", ".join(wrong))


if __name__ == "__main__":
    main()
