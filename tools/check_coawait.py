#!/usr/bin/env python3
"""Allows only the coroutine statement forms that g++ 12 compiles rightly: one co_await a statement, its operand from
named variables, no &&, ||, ?:, brace list or capturing lambda beside it (docs/principles.md)."""
import pathlib
import re
import sys


def statements(text: str):
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    line = 1
    start = 0
    depth = 0
    for index, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char in ";" and depth <= 0:
            yield line + text[start:index].count("\n") - text[start:index].lstrip().count("\n"), text[start:index]
            line += text[start : index + 1].count("\n")
            start = index + 1


def faults(text: str):
    for line, statement in statements(text):
        body = statement[statement.rfind("}") + 1 :] if "co_await" in statement[statement.rfind("}") + 1 :] else statement
        count = body.count("co_await")
        if count == 0:
            continue
        if count > 1:
            yield line, "more than one co_await in a statement"
        tail = body[body.find("co_await") :]
        if re.search(r"&&|\|\||\?", body):
            yield line, "&&, || or ?: beside co_await"
        if "{" in tail:
            yield line, "brace list or lambda in the operand of co_await"
        if re.search(r"\bauto\s*&?\s*\[", body):
            yield line, "structured binding of a co_await"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    found = []
    for path in sorted(list(root.glob("*/**/*.cc")) + list(root.glob("*/**/*.h"))):
        if path.relative_to(root).parts[0] == "build":
            continue
        for line, fault in faults(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(root)}:{line}: {fault}")
    print("\n".join(found) if found else "coroutine forms: ok")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
