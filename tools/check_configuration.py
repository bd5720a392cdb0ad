#!/usr/bin/env python3
"""Every key of a configuration stands in a table of docs/configuration.md or docs/kcp.md, and docs/cli.md has every flag: compares them
with what the program prints.
Usage: check_configuration.py <build folder or program> [--write]   --write: writes docs/cli.md"""
import difflib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLI = ROOT / "docs" / "cli.md"
# Documents with every section that there is: those that are lists or have free names, too.
STATIC = (ROOT / "configs" / "static.yaml").read_text(encoding="utf-8") + "\nshards:\n  any: {server_name: any.example}\n"
WORKER = ("apiVersion: kintsugi.dev/v1alpha1\nkind: WorkerConfiguration\nkubeconfig: k\nroles:\n  messaging: {endpoints: {cluster: root:m, name: w}, "
          "lease_clusters: ['root:l']}\n")  # fmt: skip
MESSAGING = "roles.messaging.messaging."
HEAD = """# Command line

Made from the program by `tools/check_configuration.py --write`; `./dev check metrics` fails when it is stale. `kintsugi help <command>` says the same.
What the values mean: `docs/configuration.md`; flags of kcp-front-proxy: `docs/kcp.md`.
"""


def expanded(name):
    """a.{b,c} is a.b and a.c."""
    match = re.search(r"\{([^}]*)\}", name)
    return [name] if not match else [one for part in match[1].split(",") for one in expanded(name.replace(match[0], part, 1))]


def documented(text):
    """Keys that tables name in code font: `a.b`, `.c` is a.b and a.c."""
    found, below = set(), ""
    for line in text.splitlines():
        if line.startswith("Keys of the role `messaging`"):
            below = MESSAGING
        elif line and not line.startswith("|"):
            below = ""
        if not line.startswith("| "):
            continue
        for cell in re.split(r"(?<!\\)\|", line)[1:3]:
            last = ""
            for code in re.findall(r"`([^`]+)`", cell):
                for name in expanded(code):
                    name = last.rsplit(".", 1)[0] + name if name.startswith(".") and last else name
                    found |= {name, below + name}
                    last = name
    return found


def keys(program, command, text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        run = subprocess.run([program, command, "--config", file.name, "--print-effective=json"], capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{command} --print-effective: {run.stderr}")
    return [re.sub(r"^shards\.any\.", "shards.<name>.", re.sub(r"\[\d+\]", "[]", one["key"])) for one in json.loads(run.stdout)]


def key_faults(program, text):
    known = documented(text)
    wanted = {*keys(program, "proxy", STATIC), *keys(program, "worker", WORKER)}
    for key in sorted(wanted):
        forms = {key, key.replace("topology.shards[].", ""), re.sub(r"^topology\.groups\..*", "topology.groups.<group>", key),
                 re.sub(r"^roles\.messaging\.", "roles.<role>.", key)}  # fmt: skip
        if not forms & known:
            yield f"{key}: no table of docs/configuration.md or docs/kcp.md has it"


def plain(text):
    return re.sub(r"\\f[BIR]|\\&", "", text).replace("\\-", "-").replace("\\e", "\\")


def cell(text):
    return plain(text).replace("|", "\\|").replace("<", "&lt;")


def command_line(program):
    """docs/cli.md, from the manual pages that the program makes of its tables."""
    out = [HEAD]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "manual-pages", folder], check=True)
        for page in sorted(pathlib.Path(folder).glob("kintsugi-*.1")):
            text = page.read_text(encoding="utf-8")
            name, says = re.search(r"\.SH NAME\n(\S+) \\- (.*)", text).groups()
            out.append(f"\n## {plain(name).replace('-', ' ', 1)}\n\n{plain(says)[0].upper()}{plain(says)[1:]}.\n")
            for group, body in re.findall(r"\.SS \"([^\"\n]*)\"\n(.*?)(?=\n\.S[SH]|\Z)", text, re.DOTALL):
                rows = re.findall(r"\.TP\n(.*)\n(.*)", body)
                out.append(f"\n| {cell(group)} | |\n|---|---|\n" + "".join(f"| `{plain(flag).replace('|', chr(92) + '|')}` | {cell(what)} |\n" for flag, what in rows))
    return "".join(out)


def main():
    build = next((one for one in sys.argv[1:] if not one.startswith("-")), "build/dev")
    program = ROOT / build if (ROOT / build).is_file() else ROOT / build / "bin" / "kintsugi"
    text = command_line(program)
    if "--write" in sys.argv:
        CLI.write_text(text, encoding="utf-8")
    known = CLI.read_text(encoding="utf-8") if CLI.exists() else ""
    wrong = list(key_faults(program, "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("configuration.md", "kcp.md"))))
    wrong += difflib.unified_diff(known.splitlines(), text.splitlines(), "docs/cli.md", "the program", n=0, lineterm="")
    if wrong:
        sys.exit("\n".join(wrong) + "\nconfiguration: run tools/check_configuration.py --write, or document the keys")
    print(f"configuration: ok, {text.count(chr(10) + '| `')} flags")


if __name__ == "__main__":
    main()
