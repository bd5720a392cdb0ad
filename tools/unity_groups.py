#!/usr/bin/env python3
"""Which source files are compiled together: `unity_groups.py <folder for the groups> <source>…` prints the names of what is to be
compiled: files that it wrote there, and sources that are compiled by themselves.

A header is read once per compilation, and reading headers is half of what a cold build costs; so the preset `release` compiles
several files of a module at a time. What a file keeps for itself (an unnamed namespace, `static`, a macro, an alias) would
then be seen by the next one: two files come together only if no such name of one is a word of the other, or of a header that it
includes. Called by CMake (cmake/unity.cmake) whenever a source file has changed. `tools/check_test.py` has its tests."""
import contextlib
import pathlib
import pickle
import re
import sys

MOST_FILES = 12
MOST_BYTES = 110_000
ROOT = pathlib.Path(__file__).resolve().parent.parent

NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:\\\n|[^\n])*", re.MULTILINE)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
TOKEN = re.compile(r"[A-Za-z_]\w*|::|->|[^\s\w]")
WORD = re.compile(r"[A-Za-z_]\w*$")
KEYWORDS = set("alignas auto bool break case catch char class const consteval constexpr constinit continue co_await co_return "
               "co_yield decltype default delete do double else enum explicit extern false final float for friend if inline int "
               "long mutable namespace new noexcept nullptr operator override private protected public requires return short "
               "signed sizeof static static_assert struct switch template this throw true try typedef typename union unsigned "
               "using virtual void volatile while".split())
TYPES = set("auto bool char const double float int long short signed unsigned".split())
GOOGLETEST = re.compile(r"(TYPED_)?TEST(_F|_P)?$|INSTANTIATE_TEST_SUITE_P$")
OPENING, CLOSING = {"{", "(", "["}, {"}", ")", "]"}


class File:
    """What is seen of one file: `own`, the names that it keeps for itself; `aliases`, what it calls other names (text by name);
    `words`, those that it uses without saying whose they are; `includes`; `alone`, if it can only be compiled by itself."""

    def __init__(self, text):
        bare = NOISE.sub(lambda match: "\n" * match[0].count("\n") or " ", text)
        self.includes = INCLUDE.findall(text)
        self.macros = set(DEFINE.findall(bare))
        self.tokens = TOKEN.findall(DIRECTIVE.sub("", bare))
        self.words = self.unexplained()
        self.own, self.aliases, self.alone = set(self.macros), {}, False
        self.look_at_scopes()
        self.size, self.below = len(text), set()
        del self.tokens

    def unexplained(self):
        """Words that stand for something outside of a body: what is called, and what is no variable or parameter of its own."""
        used, called, local = set(), set(), set()
        for before, token, after in zip([""] + self.tokens, self.tokens, self.tokens[1:] + [""]):
            if not WORD.match(token) or token in KEYWORDS or before in (".", "->", "::"):
                continue
            used.add(token)
            typed = before in (">", "&", "*") or (WORD.match(before) and (before not in KEYWORDS or before in TYPES))
            if after in ("(", "<") and not typed:
                called.add(token)
            elif token[0].islower() and ((typed and after in ("=", ";", ",", ")", ":", "{", "[")) or (
                    before in ("[", ",") and after in ("]", ","))):
                local.add(token)
        return used - (local - called)

    def look_at_scopes(self):
        """Walks what stands in namespaces, statement by statement; bodies are passed over."""
        scopes, statement, depth = [], [], 0  # scopes: whether that namespace is (in) an unnamed one
        for at, token in enumerate(self.tokens):
            if depth == 0 and token == "{" and statement and statement[0] == "namespace" and "=" not in statement:
                scopes.append(len(statement) == 1 or (bool(scopes) and scopes[-1]))
                statement = []
            elif depth == 0 and token == "{" and statement[:2] == ["extern", " "]:
                scopes.append(bool(scopes) and scopes[-1])
                statement = []
            elif depth == 0 and token == "}" and scopes:
                scopes.pop()
                statement = []
            elif token in OPENING:
                if depth == 0:
                    statement.append(token)
                    if "enum" in statement and token == "{" and not {"class", "struct"} & set(statement):
                        end = self.tokens.index("}", at)
                        self.keep(scopes, statement, self.tokens[at + 1:end])
                depth += 1
            elif token in CLOSING:
                depth -= 1
                if depth == 0 and token == "}":
                    self.judge(scopes, statement)
                    statement = [] if not {"struct", "class", "enum", "union", "="} & set(statement) else statement
            elif depth == 0:
                statement.append(token)
                if token == ";":
                    self.judge(scopes, statement)
                    statement = []

    def keep(self, scopes, statement, names):
        if (scopes and scopes[-1]) or "static" in statement:
            self.own |= {name for name in names if WORD.match(name)} - KEYWORDS

    def judge(self, scopes, statement):
        if statement[:2] in (["using", "namespace"], ["using", "enum"]):  # names that are not told here
            self.alone = True
        elif statement[:1] in (["using"], ["namespace"]) and len(statement) > 2:
            # Seen by what follows wherever it stands; the same words mean the same.
            self.aliases[statement[1] if "=" in statement else statement[-2]] = " ".join(statement)
            return
        if statement[:1] and GOOGLETEST.match(statement[0]):  # a macro; what it makes has a name of its own in a whole program
            return
        end = statement.index("=") if "=" in statement and statement[0] != "template" else len(statement)  # then comes a value
        names = [token for at, (before, token, after) in enumerate(zip([""] + statement, statement, statement[1:] + [";"]))
                 if after in ("(", "{", "=", ";", "[", ":", ",", "final") and before not in ("::", ".", "->") and (at < end or before == ",")]
        self.keep(scopes, statement, names)


class Files:
    """Sources and project headers, read once, and again only when they have changed: `kept` is what an earlier call knew."""

    def __init__(self, root, kept=None):
        self.root, self.kept, self.known = root, kept if kept is not None else {}, {}

    def file(self, name):
        if name not in self.known:
            path = self.root / name
            if path.is_file():
                state = path.stat()
                stamp = (state.st_mtime_ns, state.st_size)
                if self.kept.get(name, (None,))[0] != stamp:
                    self.kept[name] = (stamp, File(path.read_text(encoding="utf-8", errors="replace")))
                self.known[name] = self.kept[name][1]
            else:
                self.known[name] = File("")
        return self.known[name]

    def read(self, name):
        """The words and the includes of a header."""
        file = self.file(name)
        return file.words, file.includes

    def below(self, names):
        seen, left = set(), list(names)
        while left:
            name = left.pop()
            if name not in seen:
                seen.add(name)
                left += self.read(name)[1]
        return seen


def disturb(one, other, headers, module):
    """True if a name that `one` keeps for itself means something to `other`, which comes after it, or the other way round."""
    for name in one.aliases.keys() & other.aliases.keys():
        if one.aliases[name] != other.aliases[name]:
            return True
    if one.own & (other.words | other.own) or other.own & one.words or (one.own | other.own) & (one.aliases.keys() | other.aliases.keys()):
        return True
    # Unnamed namespaces are within the module's: a header of another one cannot see them.
    hidden = one.own | {name for name, text in one.aliases.items() if " = " in text}
    return any(hidden & headers.read(name)[0] for name in other.below - one.below if name.split("/")[0] == module)


def groups(sources, root=ROOT, kept=None):
    """Lists of names, in the order of `sources`; each fits together. First fit: a change moves few files."""
    headers, found = Files(root, kept), []
    for name in sources:
        file = headers.file(name)
        file.below = headers.below(file.includes)
        for names, files, size in found:
            if (not file.alone and not files[0].alone and len(names) < MOST_FILES and size[0] + file.size <= MOST_BYTES
                    and not any(disturb(other, file, headers, name.split("/")[0]) for other in files)):
                names.append(name)
                files.append(file)
                size[0] += file.size
                break
        else:
            found.append(([name], [file], [file.size]))
    return [names for names, _, _ in found]


def main(folder, *sources):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = [str(pathlib.Path(source).resolve().relative_to(ROOT)) for source in sources]
    cache, kept = folder.parent / "known.pickle", {}
    with contextlib.suppress(OSError, ValueError, EOFError, AttributeError, pickle.PickleError):
        made_by, kept = pickle.loads(cache.read_bytes())
        kept = kept if made_by == pathlib.Path(__file__).stat().st_mtime_ns else {}
    before = {name: stamp for name, (stamp, _) in kept.items()}
    written, found = set(), groups(names, ROOT, kept)
    if before != {name: stamp for name, (stamp, _) in kept.items()}:
        cache.write_bytes(pickle.dumps((pathlib.Path(__file__).stat().st_mtime_ns, kept)))
    for group in found:
        if len(group) == 1:
            print(ROOT / group[0])
            continue
        target = folder / (pathlib.Path(group[0]).with_suffix("").as_posix().replace("/", "_") + f"_and_{len(group) - 1}.cc")
        text = "".join(f'#include "{name}"\n' for name in group)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
        written.add(target)
        print(target)
    for old in set(folder.glob("*.cc")) - written:
        old.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
