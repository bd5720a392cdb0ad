#!/usr/bin/env python3
"""What a package says of what is in it (OP-808): an SBOM in SPDX 2.3 JSON, and NOTICE.

Libraries that the program is linked with come from ldd and dpkg, headers that are compiled into it from the table below. A library that
the table does not have, or a licence that may not be linked, ends it: somebody has to look first. The same input gives the same bytes."""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

ALLOWED = {"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "OLDAP-2.8", "LGPL-2.1-only", "LGPL-2.1-or-later",
           "GPL-3.0-or-later WITH GCC-exception-3.1", "BSD-Attribution-HPND-disclaimer", "Zlib"}
# Source package of Debian: (licence, whose, home).
KNOWN = {
    "boost1.81": ("BSL-1.0", "the Boost authors", "https://www.boost.org/"),
    "tl-expected": ("CC0-1.0", "Sy Brand", "https://github.com/TartanLlama/expected"),
    "gcc-12": ("GPL-3.0-or-later WITH GCC-exception-3.1", "Free Software Foundation, Inc.", "https://gcc.gnu.org/"),
    "glibc": ("LGPL-2.1-or-later", "Free Software Foundation, Inc.", "https://www.gnu.org/software/libc/"),
    "mosquitto": ("BSD-3-Clause",  # its other licence is EPL-2.0
                   "Roger Light and others", "https://mosquitto.org/"),
    "cyrus-sasl2": ("BSD-Attribution-HPND-disclaimer", "Carnegie Mellon University", "https://www.cyrusimap.org/sasl/"),
    "librdkafka": ("BSD-2-Clause", "Magnus Edenhill", "https://github.com/confluentinc/librdkafka"),
    "libzstd": ("BSD-3-Clause",  # its other licence is GPL-2.0
                "Yann Collet, Meta Platforms, Inc.", "https://facebook.github.io/zstd/"),
    "lz4": ("BSD-2-Clause", "Yann Collet", "https://lz4.org/"),
    "libseccomp": ("LGPL-2.1-only", "Paul Moore and others", "https://github.com/seccomp/libseccomp"),
    "libyaml": ("MIT", "Ingy döt Net, Kirill Simonov", "https://pyyaml.org/wiki/LibYAML"),
    "lmdb": ("OLDAP-2.8", "Howard Chu, Symas Corp.", "https://www.symas.com/mdb"),
    "nghttp2": ("MIT", "Tatsuhiro Tsujikawa", "https://nghttp2.org/"),
    "openssl": ("Apache-2.0", "The OpenSSL Project Authors", "https://www.openssl.org/"),
    "prometheus-cpp": ("MIT", "Jupp Müller", "https://github.com/jupp0r/prometheus-cpp"),
    "qpid-proton": ("Apache-2.0", "The Apache Software Foundation", "https://qpid.apache.org/proton/"),
    "rapidjson": ("MIT", "THL A29 Limited, Milo Yip", "https://rapidjson.org/"),
    "re2": ("BSD-3-Clause", "The RE2 Authors", "https://github.com/google/re2"),
    "xxhash": ("BSD-2-Clause", "Yann Collet", "https://xxhash.com/"),
    "zlib": ("Zlib", "Jean-loup Gailly, Mark Adler", "https://zlib.net/"),
}
HEADERS = ["libboost1.81-dev", "libexpected-dev", "rapidjson-dev", "libxxhash-dev"]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def libraries(program):
    """Packages of Debian that the program is linked with, from ldd."""
    found = set()
    for line in run("ldd", str(program)).splitlines():
        path = re.search(r"(/\S+) \(0x", line)
        if path is None:
            continue
        file = pathlib.Path(path[1])
        names = [str(file), str(file.resolve()), str(file.resolve()).removeprefix("/usr")]
        for name in names:
            said = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
            if said.returncode == 0:
                found.add(said.stdout.split(": ")[0].split(":")[0].split(",")[0])
                break
        else:
            raise SystemExit(f"evidence: no package has {file}")
    return found


def described(package):
    """(package, version, source package, licence, whose, home) of an installed package."""
    form = "${Version}\t${source:Package}\n"
    version, source = run("dpkg-query", "-W", f"-f={form}", package).splitlines()[0].split("\t")
    if source not in KNOWN:
        raise SystemExit(f"evidence: {package} is of {source}, whose licence nobody has written down; see KNOWN")
    if KNOWN[source][0] not in ALLOWED:
        raise SystemExit(f"evidence: {package} is under {KNOWN[source][0]}, which is not allowed")
    return (package, version, source, *KNOWN[source])


def parts(program):
    linked = sorted(described(one) for one in libraries(program))
    compiled = sorted(described(one) for one in HEADERS)
    return linked, compiled


def sbom(version, linked, compiled):
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    packages = [{
        "SPDXID": "SPDXRef-kintsugi", "name": "kintsugi", "versionInfo": version, "supplier": "Organization: Kintsugi maintainers",
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
        "copyrightText": "Copyright The Kintsugi authors", "primaryPackagePurpose": "APPLICATION"}]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-kintsugi"}]
    for kind, rows in (("DYNAMIC_LINK", linked), ("STATIC_LINK", compiled)):
        for package, number, source, licence, whose, home in rows:
            one = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", package)
            packages.append({
                "SPDXID": one, "name": package, "versionInfo": number, "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION",
                "homepage": home, "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
                "copyrightText": f"Copyright {whose}", "sourceInfo": f"Debian source package {source}",
                "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                  "referenceLocator": f"pkg:deb/debian/{package}@{number.replace('+', '%2B').replace(':', '%3A')}?distro=bookworm"}]})
            relations.append({"spdxElementId": "SPDXRef-kintsugi", "relationshipType": kind, "relatedSpdxElement": one})
    body = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"kintsugi-{version}",
            "creationInfo": {"created": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "creators": ["Tool: packaging/evidence.py", "Organization: Kintsugi maintainers"]},
            "packages": packages, "relationships": relations}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    body["documentNamespace"] = f"https://kintsugi.dev/spdx/kintsugi-{version}-{digest[:16]}"
    return json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def notice(linked, compiled):
    lines = ["Kintsugi", "Copyright The Kintsugi authors", "", "Licensed under the Apache License, Version 2.0.", "",
             "The program is linked with these libraries, as Debian packages them; their licences are in",
             "/usr/share/doc/<package>/copyright:", ""]
    lines += [f"  {source} ({package} {number}): {licence}, {whose}" for package, number, source, licence, whose, _ in linked]
    lines += ["", "Parts of these are compiled into it:", ""]
    lines += [f"  {source} ({package} {number}): {licence}, {whose}" for package, number, source, licence, whose, _ in compiled]
    return "\n".join(lines) + "\n"


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--program", type=pathlib.Path, required=True)
    asked.add_argument("--version", required=True)
    asked.add_argument("--sbom", type=pathlib.Path)
    asked.add_argument("--notice", type=pathlib.Path)
    said = asked.parse_args()
    linked, compiled = parts(said.program)
    for path, text in ((said.sbom, lambda: sbom(said.version, linked, compiled)), (said.notice, lambda: notice(linked, compiled))):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
