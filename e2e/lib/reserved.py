"""The table of reserved labels and annotations: as admission has it (read from its source, so that tests are never behind it), and as
the rows of docs/spec have it."""
import dataclasses
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "controlplane/admission/reserved_metadata"
ROWS = ROOT / "docs/spec/kcp-kinds.md"

SYSTEM, CLUSTER_ADMIN, EXTERNAL, BOOTSTRAPPER, ADMIN, EVERYBODY = (1 << bit for bit in range(6))
EXEMPT = SYSTEM | CLUSTER_ADMIN | EXTERNAL | BOOTSTRAPPER


@dataclasses.dataclass(frozen=True)
class Rule:
    pattern: str
    parts: tuple      # of "annotations", "labels"
    kinds: frozenset  # as the source names them: "LogicalCluster", …, "AnythingElse"
    creators: int
    writers: int
    on_create: str    # "Refuse", "Overwrite", "Drop", "Path", "Kept"
    on_update: str

    @property
    def key(self):
        """One that the pattern matches."""
        return self.pattern.replace("*.", "any.", 1).replace("/*", "/x") if "*" in self.pattern else self.pattern

    @property
    def free(self):
        return self.writers & EVERYBODY and self.creators & EVERYBODY

    def matches(self, key):
        domain, _, name = key.partition("/")
        wanted, _, last = self.pattern.partition("/")
        inside = domain.endswith(wanted[1:]) if wanted.startswith("*.") else domain == wanted
        return inside and last in ("*", name)


def numbers(text, kind, known):
    """`constexpr <kind> kName = <expression>;` of a source, in Python's own arithmetic."""
    for name, value in re.findall(rf"constexpr {kind} (k\w+) =\s*([^;]+);", text):
        known[name] = value_of(value, known)
    return known


def value_of(expression, known):
    expression = re.sub(r"\b(\d+)U\b", r"\1", expression)
    assert re.fullmatch(r"[\w\s|()<\-+]+", expression), expression
    return eval(expression, {"__builtins__": {}}, known)  # pylint: disable=eval-used


def rules():
    """The rows of kKeys, in their order: the first that matches holds."""
    header, source = (SOURCE.with_suffix(end).read_text(encoding="utf-8") for end in (".h", ".cc"))
    kinds = numbers(source, "KindSet", numbers(header, "KindSet", {}))
    bits = {name[3:]: value for name, value in kinds.items() if bin(value).count("1") == 1}
    privileges = numbers((SOURCE.parent / "privileges.h").read_text(encoding="utf-8"), "Privileges", {})
    privileges = numbers(source, "Privileges", privileges)
    texts = {}
    for name in ("annotations.h", "labels.h"):
        texts.update(re.findall(r'constexpr std::string_view (k\w+) =\s*"([^"]*)";', (ROOT / "krm" / name).read_text(encoding="utf-8")))
    table = re.search(r"constexpr ReservedKey kKeys\[\] = \{(.*?)\n\};", source, re.DOTALL)[1]
    table = re.sub(r"//[^\n]*", "", table)
    out = []
    for row in re.findall(r"\{([^{}]*)\}", table):
        fields = [" ".join(field.split()) for field in row.split(",")]
        assert len(fields) == 7, row
        pattern = fields[0].strip('"') if fields[0].startswith('"') else texts[fields[0].removeprefix("krm::")]
        parts = {"kAnnotation": ("annotations",), "kLabel": ("labels",), "kBoth": ("annotations", "labels")}[fields[1]]
        of = value_of(fields[2], kinds)
        out.append(Rule(pattern, parts, frozenset(name for name, bit in bits.items() if of & bit),
                        value_of(fields[3], privileges), value_of(fields[4], privileges), fields[5][1:], fields[6][1:]))
    assert len(out) == table.count("{") > 30, "a row of the table was not read"
    return out


def rule_for(table, kind, part, key):
    return next((rule for rule in table if kind in rule.kinds and part in rule.parts and rule.matches(key)), None)


# The table below KK-027, and the two lists in its text.
KINDS = {"LC": "LogicalCluster", "WS": "Workspace", "WT": "WorkspaceType", "APIExport": "Export", "APIBinding": "Binding",
         "ClusterCachedResource": "CachedResource", "Shard": "Shard", "CRD": None}
WHO = {"server": SYSTEM, "SYS": SYSTEM, "LCA": CLUSTER_ADMIN, "XLCA": EXTERNAL, "BOOT": BOOTSTRAPPER, "ADMIN": ADMIN, "anybody": EVERYBODY}
KCPS = {"LogicalCluster", "Shard", "Workspace", "WorkspaceType", "Authentication", "Partition", "PartitionSet", "EndpointSlice", "Export",
        "Binding", "Schema", "Conversion"}


def expand(key):
    """`a/{b,c}` and `…/shard` are several keys, or one of the domain before it."""
    brace = re.search(r"\{([^}]*)\}", key)
    return [key.replace(brace[0], one) for one in brace[1].split(",")] if brace else [key]


def documented():
    """(key, part or None, kinds, creators, writers, outcome) of each line; an outcome is (on create, on update)."""
    lines = ROWS.read_text(encoding="utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| key | on | writer"))
    out = []
    for line in lines[begin + 2:]:
        if not line.startswith("|"):
            break
        keys, where, rest = (cell.strip() for cell in line.strip("|").split(" | "))
        free = keys.startswith("free: ")
        names = re.findall(r"`([^`]+)`( \(labels?\))?", keys)
        part = "labels" if "(label" in keys else None if free or "unschedulable" in keys or "replicate" in keys else "annotations"
        domain = ""
        for name, _ in names:
            name = domain + name[1:] if name.startswith("…") else name
            domain = name.rsplit("/", 1)[0]
            for key in expand(name):
                out.append((key, part, kinds_of(where), *judged(rest, free)))
    return out


def kinds_of(where):
    if where.startswith("all"):
        return {"*"}
    found = {KINDS[word] for word in re.findall(r"[A-Za-z]+", where) if word in KINDS}
    return found | ({"*"} if "others where it is present" in where else set())


def judged(rest, free):
    if free:
        return EVERYBODY, EVERYBODY, ("Refuse", "Refuse")
    who, _, what = rest.partition(";")
    outcomes = {"": ("Refuse", "Refuse"), "403": ("Refuse", "Refuse"), "dropped, ignored": ("Drop", "Drop"), "overwritten, then 403":
                ("Overwrite", "Refuse"), "overwritten from the LC": ("Path", "Path"), "overwritten (KK-229)": ("Kept", "Kept")}
    outcome = outcomes.get(what.strip().removesuffix(" KK-224").strip())
    assert outcome, rest
    creators = writers = 0
    now = ""
    for word in re.findall(r"at creation|to rename|later|[A-Za-z]+", who):
        if word == "at creation":
            creators, writers = creators | writers, SYSTEM
        elif word == "later":
            creators, writers = writers, 0
        elif word == "to rename":
            pass
        else:
            assert word in WHO, rest
            writers |= WHO[word]
        now = word
    assert now, rest
    return creators or writers, writers, outcome
