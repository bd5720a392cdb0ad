#!/usr/bin/env python3
"""Tells what a built program lacks of what KINTSUGI_HARDEN (cmake/options.cmake) gives it: fortified functions, stack protector,
stack clash protection, assertions of the standard library, PIE, full RELRO, no executable stack, `endbr64` at the begin of
functions. Reads the program itself, not the flags. Usage: check_hardening.py [program]; --selftest builds a small program
once as it should be, and once without each flag, and wants that one told."""
import pathlib
import re
import subprocess
import sys
import tempfile

ENDBR64 = b"\xf3\x0f\x1e\xfa"
# What `-fstack-clash-protection` touches each page of a large frame with: orq $0x0,(%rsp).
PROBE = b"\x48\x83\x0c\x24\x00"


def output(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Program:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.header = output("readelf", "-hW", path)
        self.segments = output("readelf", "-lW", path)
        self.dynamic = output("readelf", "-dW", path)
        self.imports = set(re.findall(r"\bU (\S+?)(?:@\S*)?$", output("nm", "-D", path), re.M))
        name, address, offset, size = re.search(
            r"\] (\.text) +PROGBITS +(\w+) (\w+) (\w+)", output("readelf", "-SW", path)
        ).groups()
        self.text_at = int(address, 16)
        with self.path.open("rb") as file:
            file.seek(int(offset, 16))
            self.text = file.read(int(size, 16))

    def functions(self) -> dict[str, int]:
        """Our own functions that other files may call, hence also by pointer: name to address."""
        found = {}
        for line in output("nm", "--defined-only", self.path).splitlines():
            address, kind, name = line.split(maxsplit=2)
            # Parts that the compiler split off (.cold) are only jumped to.
            if kind == "T" and name.startswith("_ZN") and "8kintsugi" in name and "." not in name:
                found[name] = int(address, 16)
        return found


def segment_flags(program, name):
    found = re.search(rf"^ +{name} .*? (R[W ][E ]) 0x", program.segments, re.M)
    return found.group(1) if found else None


def without_endbr64(program) -> str | None:
    functions = program.functions()
    if not functions:
        return "no function of namespace kintsugi: is it stripped?"
    bare = [name for name, at in functions.items() if not program.text.startswith(ENDBR64, at - program.text_at)]
    return f"{len(bare)} of {len(functions)} functions do not begin with endbr64, such as {bare[0]}" if bare else None


def wants(holds, text):
    return None if holds else text


# Name of the property, and what tells that it is missing.
PROPERTIES = {
    "fortify": lambda p: wants(any(re.fullmatch(r"__\w+_chk", s) and s != "__stack_chk_fail" for s in p.imports),
                               "no function of the C library is called in its checked form (-D_FORTIFY_SOURCE)"),
    "assertions": lambda p: wants(any("__glibcxx_assert_fail" in s for s in p.imports),
                                  "the standard library asserts nothing (-D_GLIBCXX_ASSERTIONS)"),
    "stack protector": lambda p: wants("__stack_chk_fail" in p.imports, "no frame is guarded (-fstack-protector-strong)"),
    "stack clash": lambda p: wants(PROBE in p.text, "large frames are not probed (-fstack-clash-protection)"),
    "endbr64": without_endbr64,
    "pie": lambda p: wants(re.search(r"Type: +DYN", p.header) and "PIE" in p.dynamic, "not position independent (-fPIE -pie)"),
    "relro": lambda p: wants(segment_flags(p, "GNU_RELRO"), "no RELRO segment (-z relro)"),
    "bind now": lambda p: wants(re.search(r"BIND_NOW|FLAGS_1.*NOW", p.dynamic), "symbols are bound lazily (-z now)"),
    "stack": lambda p: wants(segment_flags(p, "GNU_STACK") == "RW ", "the stack may be executed (-z noexecstack)"),
}  # fmt: skip


def missing(path) -> dict[str, str]:
    program = Program(path)
    return {name: text for name, tell in PROPERTIES.items() if (text := tell(program))}


SMALL = """
#include <cstring>
#include <string>
#include <vector>
namespace kintsugi {
void fill(char* into, const char* text) { char page[20000]; std::strcpy(page, text); std::memcpy(into, page, 8); }
int at(const std::vector<int>& all, unsigned long i) { return all[i]; }
}
int main(int argc, char** argv) {
  char into[8];
  kintsugi::fill(into, argv[0]);
  return kintsugi::at({1, 2, 3}, static_cast<unsigned long>(argc)) + into[0];
}
"""

# Flags as cmake/options.cmake gives them, and what undoes each.
FLAGS = ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-D_GLIBCXX_ASSERTIONS", "-fstack-protector-strong",
         "-fstack-clash-protection", "-fcf-protection=full", "-fPIE", "-pie", "-Wl,-z,relro,-z,now,-z,noexecstack"]  # fmt: skip
UNDONE = {
    "fortify": ["-U_FORTIFY_SOURCE"], "assertions": ["-U_GLIBCXX_ASSERTIONS"], "stack protector": ["-fno-stack-protector"],
    "stack clash": ["-fno-stack-clash-protection"], "endbr64": ["-fcf-protection=none"], "pie": ["-fno-pie", "-no-pie"],
    "relro": ["-Wl,-z,norelro"], "bind now": ["-Wl,-z,lazy"], "stack": ["-Wl,-z,execstack"],
}  # fmt: skip


def selftest() -> list[str]:
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "small.cc"), pathlib.Path(folder, "small")
        source.write_text(SMALL)
        for name in [None, *PROPERTIES]:
            subprocess.run(["g++-12", *FLAGS, *UNDONE.get(name, []), source, "-o", program], check=True)
            told = set(missing(program))
            if told != ({name} if name else set()):
                wrong.append(f"without {name}: told {sorted(told)}")
    return wrong


def main():
    if sys.argv[1:] == ["--selftest"]:
        wrong = selftest()
        print("\n".join(wrong) or f"each of {len(PROPERTIES)} properties is told when it is left out")
        return 1 if wrong else 0
    program = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/kintsugi"
    lacks = missing(program)
    for name, text in lacks.items():
        print(f"{program}: {name}: {text}")
    if not lacks:
        print(f"{program} has {', '.join(PROPERTIES)}")
    return 1 if lacks else 0


if __name__ == "__main__":
    sys.exit(main())
