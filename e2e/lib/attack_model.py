"""What a request should be answered, computed from who asks what and how: a small model of rights and paths (SE-200). Nothing in it is
recorded from the program. It knows four people, three workspaces, the forms of paths, verbs and who may be impersonated."""
import dataclasses
import itertools

SECRETS, MAPS = "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/configmaps"
ODD = ("connect", "trace", "unknown method")
WORKSPACES = ("mine", "other", "none")  # of ann, of eve on the other shard, and one that does not exist
SHARD_OF = {"mine": "root", "other": "shard-1"}
ADMINISTERS = {"ann": {"mine"}, "eve": {"other"}, "prov": set(), "admin": {"mine", "other"}}
ACTORS = ("nobody", "bad token", "ann", "eve", "prov", "admin")


@dataclasses.dataclass(frozen=True)
class Verb:
    name: str
    method: str
    item: bool = True          # one object, else a collection
    query: str = ""
    code: int = 200            # of who may
    headers: tuple = ()
    body: object = None

    @property
    def reads(self):
        return self.name in ("get", "head", "list", "watch", "websocket")


def verbs(plural, name):
    one = {"apiVersion": "v1", "kind": "Secret" if plural == "secrets" else "ConfigMap", "metadata": {"name": name}}
    dry = "?dryRun=All"
    return [
        Verb("get", "GET"), Verb("head", "HEAD", code=405), Verb("list", "GET", False), Verb("watch", "GET", False, "?watch=1&timeoutSeconds=1"),
        Verb("create", "POST", False, dry, 201, body={**one, "metadata": {"name": "made"}}), Verb("update", "PUT", True, dry, body=one),
        Verb("patch", "PATCH", True, dry, headers=(("Content-Type", "application/merge-patch+json"),), body={"metadata": {"labels": {"a": "b"}}}),
        Verb("apply", "PATCH", True, dry + "&fieldManager=m&force=true", headers=(("Content-Type", "application/apply-patch+yaml"),), body=one),
        Verb("delete", "DELETE", True, dry), Verb("deletecollection", "DELETE", False, dry),
        Verb("websocket", "GET", False, "?watch=1&timeoutSeconds=1", 101, headers=(
            ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="))),
        Verb("connect", "CONNECT"), Verb("trace", "TRACE"), Verb("unknown method", "FROB")]


# Forms of paths. {c} is the workspace's cluster or path; what a form means is a word that Model.expected knows.
@dataclasses.dataclass(frozen=True)
class Form:
    name: str
    means: str
    make: object  # (name of the workspace, its cluster, trail) -> target


def forms(provider):
    """@param provider  the logical cluster of the export."""
    view = f"/services/apiexport/{provider}/claims"
    last = lambda trail, what: trail + what  # noqa: E731
    return [
        Form("path", "direct", lambda ws, c, t: f"/clusters/root:{ws}{t}"),
        Form("cluster", "direct", lambda ws, c, t: f"/clusters/{c}{t}"),
        Form("escaped colon", "direct", lambda ws, c, t: f"/clusters/root%3A{ws}{t}"),
        Form("escaped scope", "direct", lambda ws, c, t: f"/%63lusters/{c}{t}"),
        Form("escaped trail", "direct", lambda ws, c, t: f"/clusters/{c}{t.replace('/api/', '/%61pi/')}"),
        Form("escaped slash", "direct", lambda ws, c, t: f"/clusters/{c}{t.replace('/api/v1/', '/api%2Fv1%2f')}"),
        Form("double slash", "unclean", lambda ws, c, t: f"//clusters/{c}{t}"),
        Form("double slash inside", "unclean", lambda ws, c, t: f"/clusters/{c}/{t}"),
        Form("dot", "unclean", lambda ws, c, t: f"/clusters/{c}/.{t}"),
        Form("dots", "unclean", lambda ws, c, t: f"/clusters/{c}/../{c}{t}"),
        Form("escaped dots", "unclean", lambda ws, c, t: f"/clusters/{c}/%2e%2E/{c}{t}"),
        Form("zero", "malformed", lambda ws, c, t: last(f"/clusters/{c}{t}", "%00")),
        Form("dots and slash", "malformed", lambda ws, c, t: f"/clusters/{c}/..%2F{c}{t}"),
        Form("broken escape", "malformed", lambda ws, c, t: last(f"/clusters/{c}{t}", "%zz")),
        Form("no text", "malformed", lambda ws, c, t: last(f"/clusters/{c}{t}", "%ff")),
        Form("cluster and slash", "nowhere", lambda ws, c, t: f"/clusters/{c}%2Fx{t}"),
        Form("system", "nowhere", lambda ws, c, t: f"/clusters/system:{ws}{t}"),
        Form("wildcard", "wildcard", lambda ws, c, t: f"/clusters/*{t}"),
        Form("escaped wildcard", "wildcard", lambda ws, c, t: f"/clusters/%2A{t}"),
        Form("shard", "shard", lambda ws, c, t: f"/shards/{SHARD_OF.get(ws, 'root')}/clusters/{c}{t}"),
        Form("escaped shard", "shard", lambda ws, c, t: f"/%73hards/{SHARD_OF.get(ws, 'root')}/%63lusters/{c}{t}"),
        Form("partition", "no partition", lambda ws, c, t: f"/partitions/root/absent/clusters/{c}{t}"),
        Form("view", "view", lambda ws, c, t: f"{view}/clusters/{c}{t}"),
        Form("escaped view", "view", lambda ws, c, t: f"{view.replace('apiexport', '%61piexport')}/clusters/{c}{t}"),
        Form("view of a shard", "view", lambda ws, c, t: f"/shards/{SHARD_OF.get(ws, 'root')}{view}/clusters/{c}{t}"),
        Form("in the cluster", "no scope", lambda ws, c, t: t),
        Form("a cluster behind", "no path", lambda ws, c, t: f"/clusters/{c}/clusters/{c}{t}"),
        Form("escaped cluster behind", "no path", lambda ws, c, t: f"/clusters/{c}/%63lusters/{c}{t}"),
        Form("two clusters for all", "two scopes", lambda ws, c, t: f"/clusters/*/clusters/{c}{t}"),
        Form("a scope in a view", "two scopes", lambda ws, c, t: f"{view}/clusters/{c}/clusters/{c}{t}"),
        Form("a shard behind", "two scopes", lambda ws, c, t: f"/clusters/{c}/shards/root{t}"),
        Form("escaped second scope", "two scopes", lambda ws, c, t: f"/clusters/{c}/%73hards/root{t}"),
        Form("a Partition behind", "two scopes", lambda ws, c, t: f"/clusters/*/partitions/root/x{t}"),
        Form("a scope before nothing", "two scopes", lambda ws, c, t: f"/shards/{SHARD_OF.get(ws, 'root')}{t}"),
        Form("a view of another shape", "two scopes", lambda ws, c, t: f"/services/apiexport/{c}{t}"),
    ]


@dataclasses.dataclass(frozen=True)
class Impersonation:
    name: str
    headers: tuple = ()
    user: str = ""           # who is asked for
    reserved: bool = False   # only system:masters may ask for that
    groups: tuple = ()


def impersonations():
    def asks(name, user="", reserved=False, groups=(), **headers):
        headers = {**({"Impersonate-User": user} if user else {}), **{key.replace("_", "-"): value for key, value in headers.items()}}
        out = tuple(headers.items()) + tuple(("Impersonate-Group", group) for group in groups)
        return Impersonation(name, out, user, reserved, tuple(groups))

    return [
        Impersonation("none"), asks("a stranger", "bob"), asks("the tenant", "ann"), asks("the neighbour", "eve"),
        asks("a group", "bob", groups=("devs",)), asks("a uid", "ann", Impersonate_Uid="1"),
        asks("an extra", "ann", Impersonate_Extra_Team="x"),
        asks("masters", "ann", True, ("system:masters",)), asks("peers", "ann", True, ("system:kcp:external-logical-cluster-admin",)),
        asks("cluster admins", "ann", True, ("system:kcp:logical-cluster-admin",)), asks("initializers", "ann", True, ("system:kcp:initializer:x",)),
        asks("another cluster", "ann", True, ("system:cluster:x",)), asks("a policy", "ann", True, ("apis.kcp.io:binding:x",)),
        asks("the system", "system:admin", True), asks("an own account", "system:kcp:serviceaccount:a:b:c", True),
        Impersonation("a warrant", (("Impersonate-User", "ann"), ("Impersonate-Extra-Authorization.kcp.io%2Fwarrant", '{"user":"admin"}')),
                      "ann", True),
        Impersonation("a cluster", (("Impersonate-User", "ann"), ("Impersonate-Extra-Authentication.kcp.io%2fcluster-name", "root")), "ann", True),
    ]


@dataclasses.dataclass(frozen=True)
class Expected:
    codes: frozenset
    why: str
    may_read: frozenset = frozenset()  # whose data may be in the answer


def codes(*which):
    return frozenset(which)


def expected(actor, form, workspace, verb, impersonation):
    """In the order in which a request is judged."""
    if form.means == "malformed":
        return Expected(codes(400), "no target may be that")
    if form.means == "unclean":
        return Expected(codes(307), "asked for anew at the cleaned path")
    if form.means in ("no scope", "two scopes"):
        return Expected(codes(404), "no route, whoever asks (SE-033)")
    if actor == "nobody":
        return Expected(codes(401), "no identity")
    if actor == "bad token":
        return Expected(codes(401), "no identity")
    if form.means == "no path":
        return Expected(codes(400, 403, 404, 405), "nobody serves that, and the shard judges who is told so (FP-043)")
    if verb.name in ODD:
        return Expected(codes(403, 404, 405), "no method, which is told to who is known")
    effective, refused = speaks_as(actor, form, workspace, impersonation)
    if refused:
        return Expected(codes(403), refused)
    return judged(actor, effective, form, workspace, verb)


def speaks_as(actor, form, workspace, impersonation):
    """Who is asked to be believed, or why that is refused (KK-321 to KK-327)."""
    if not impersonation.headers:
        return actor, ""
    if impersonation.reserved:
        return None, "a reserved identity"
    if form.means in ("view", "wildcard"):
        return None, "nobody speaks for others there"
    if form.means in ("direct", "shard") and workspace in ADMINISTERS[actor]:
        return impersonation.user, ""
    if form.means == "no partition":
        return impersonation.user, ""  # it leads nowhere, whoever he says to be
    return None, "no right to impersonate"


def judged(actor, effective, form, workspace, verb):
    """Rights and routes of who is believed."""
    mine = ADMINISTERS.get(effective, set())
    if effective != actor and effective == "admin":
        mine = set()
    if form.means == "direct":
        if workspace in mine:
            return Expected(codes(verb.code), "his own", frozenset({workspace}))
        return Expected(codes(403), "no access")
    if form.means == "nowhere":
        return Expected(codes(403), "no such cluster")
    if form.means == "wildcard":
        if not verb.reads or verb.name in ("get", "head"):
            return Expected(codes(403, 405), "lists and watches alone")
        return Expected(codes(200, 403, verb.code), "what he may read", frozenset(mine))
    if form.means == "shard":  # the way is the requester's choice, what is done there is whom he speaks for
        if actor != "admin":
            return Expected(codes(403), "a right in root")
        if effective != actor:
            return Expected(codes(verb.code) if workspace in mine else codes(403), "a tenant in his own", frozenset(mine & {workspace}))
        return Expected(codes(verb.code) if workspace in mine else codes(403, 404), "an administrator", frozenset(mine & {workspace}))
    if form.means == "view":
        if actor == "prov" and workspace == "mine":
            return Expected(codes(verb.code), "accepted claims", frozenset({"mine"}))
        if actor == "admin" and workspace == "mine":
            return Expected(codes(verb.code), "an administrator", frozenset({"mine"}))
        return Expected(codes(403, 404), "no content of that export there")
    return Expected(codes(403, 404), "no such route")


def known_hole(actor, form, verb, impersonation, status):
    """The row that the program does not keep yet; this only gets shorter. Each entry has to be met, see KNOWN."""
    return ""


KNOWN = 0


JUDGED = ("cluster", "escaped slash", "wildcard", "shard", "view", "view of a shard")  # forms that are judged in ways of their own


def everything(provider):
    """Each actor, form, workspace and verb; and with each impersonation where it is judged in a way of its own, else with one verb."""
    turn = itertools.count()
    for actor, form, workspace, one in itertools.product(ACTORS, forms(provider), WORKSPACES, impersonations()):
        for number in range(14) if form.name in JUDGED or not one.headers else [next(turn) * 3 % 14]:
            yield actor, form, workspace, ("secrets", "configmaps")[next(turn) % 2], number, one


def some(provider):
    """Each actor by each form to each workspace with each verb; and each impersonation by each form, the verbs in turn."""
    turn, others = itertools.count(), impersonations()[1:]
    for actor, form, workspace in itertools.product(ACTORS, forms(provider), WORKSPACES):
        alike = form.means in ("unclean", "malformed") or workspace == "none"
        whole = not alike and form.name in ("cluster", "wildcard", "shard", "view")
        for number in range(14) if whole else [next(turn) * 5 % 14]:
            yield actor, form, workspace, ("secrets", "configmaps")[next(turn) % 2], number, impersonations()[0]
        for one in others if actor in ("ann", "admin") and whole else [others[next(turn) % len(others)]]:
            yield actor, form, workspace, ("secrets", "configmaps")[next(turn) % 2], next(turn) * 3 % 10, one
