"""What the tests of system facts share: a workspace of `ann` with one object of each kind of kcp, the facts that stand in them, and
every way of writing one."""
import copy
import json

import kit
import steady

CORE, TENANCY, APIS = "/apis/core.kcp.io/v1alpha1", "/apis/tenancy.kcp.io/v1alpha1", "/apis/apis.kcp.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE, PATCH, APPLY, STRATEGIC = ({"Content-Type": f"application/{kind}"} for kind in (
    "merge-patch+json", "json-patch+json", "apply-patch+yaml", "strategic-merge-patch+json"))

# Kind: path of the collection, name of the object that is attacked, how a refusal names it.
KINDS = {
    "lc": (f"{CORE}/logicalclusters", "cluster", 'logicalclusters.core.kcp.io "cluster"'),
    "ws": (f"{TENANCY}/workspaces", "child", 'workspaces.tenancy.kcp.io "child"'),
    "held": (f"{TENANCY}/workspaces", "held", 'workspaces.tenancy.kcp.io "held"'),  # finds no shard: Scheduling for ever
    "mount": (f"{TENANCY}/workspaces", "mount", 'workspaces.tenancy.kcp.io "mount"'),
    "wt": (f"{TENANCY}/workspacetypes", "kind", 'workspacetypes.tenancy.kcp.io "kind"'),
    "export": (f"{APIS}/apiexports", "gears", 'apiexports.apis.kcp.io "gears"'),
    "binding": (f"{APIS}/apibindings", "claims", 'apibindings.apis.kcp.io "claims"'),
    "map": ("/api/v1/namespaces/default/configmaps", "map", 'configmaps "map"'),
}

# Annotations and labels (KK-027): kind, map, key, value, who is refused ("t" the owner, "a" an administrator).
A, L = "annotations", "labels"
METADATA = [
    ("lc", A, "kcp.io/path", "root:prov", "ta"),
    ("lc", A, "core.kcp.io/shard", "elsewhere", "ta"),
    ("lc", A, "internal.tenancy.kcp.io/type", "root:organization", "ta"),
    ("lc", A, "experimental.tenancy.kcp.io/owner", '{"username":"eve"}', "ta"),
    ("lc", A, "authorization.kcp.io/required-groups", "nobody", "t"),
    ("lc", A, "core.kcp.io/inactive", "true", "t"),
    ("lc", A, "internal.kcp.io/inactive", "true", "t"),
    ("lc", A, "core.kcp.io/max-total-objects", "0", "t"),
    ("lc", A, "kintsugi.dev/max-total-bytes", "0", "t"),
    ("lc", A, "kintsugi.dev/max-children", "0", "t"),
    ("lc", A, "kintsugi.dev/max-definitions", "0", "t"),
    ("lc", A, "kintsugi.dev/max-exports", "0", "t"),
    ("lc", A, "kintsugi.dev/max-bindings", "0", "t"),
    ("lc", A, "kintsugi.dev/max-namespaces", "0", "t"),
    ("lc", A, "kintsugi.dev/max-serviceaccounts", "0", "t"),
    ("lc", A, "internal.apis.kcp.io/resource-bindings", '{"gears.gear.test":{"n":"x"}}', "ta"),
    ("lc", L, "tenancy.kcp.io/phase", "Initializing", "ta"),
    ("lc", L, "initializer.internal.kcp.io/x", "x", "ta"),
    ("lc", L, "terminator.internal.kcp.io/x", "x", "ta"),
    ("lc", A, "internal.kcp.io/replicate", "true", "ta"),
    ("lc", A, "internal.kcp.io/x", "x", "ta"),
    ("lc", L, "core.kcp.io/x", "x", "ta"),
    ("lc", A, "any.internal.apis.kcp.io/x", "x", "ta"),
    ("ws", A, "core.kcp.io/shard", "elsewhere", "ta"),
    ("ws", A, "internal.tenancy.kcp.io/cluster", "root", "ta"),
    ("ws", A, "internal.tenancy.kcp.io/shard", "elsewhere", "ta"),
    ("ws", A, "experimental.tenancy.kcp.io/owner", '{"username":"eve","groups":["system:masters"]}', "ta"),
    ("ws", A, "authorization.kcp.io/required-groups", "nobody", "t"),
    ("ws", L, "tenancy.kcp.io/phase", "Initializing", "ta"),
    ("ws", L, "initializer.internal.kcp.io/x", "x", "ta"),
    ("ws", L, "terminator.internal.kcp.io/x", "x", "ta"),
    ("held", A, "internal.tenancy.kcp.io/cluster", "root", "ta"),
    ("held", A, "internal.tenancy.kcp.io/shard", "root", "ta"),
    ("held", A, "experimental.tenancy.kcp.io/owner", '{"username":"eve","groups":["system:masters"]}', "ta"),
    ("wt", A, "internal.kcp.io/x", "x", "ta"),
    ("wt", L, "tenancy.kcp.io/x", "x", "ta"),
    ("export", A, "internal.apis.kcp.io/x", "x", "ta"),
    ("export", A, "internal.kcp.io/replicate", "true", "ta"),
    ("binding", L, "internal.apis.kcp.io/export", "x", "ta"),
    ("binding", A, "authorization.kcp.io/x", "x", "ta"),
    ("map", A, "internal.kcp.io/replicate", "true", "ta"),
]
# These an object gets at its creation, whatever was sent.
OVERWRITTEN = [("ws", "experimental.tenancy.kcp.io/owner"), ("ws", "authorization.kcp.io/required-groups"),
               ("wt", "kcp.io/path"), ("export", "kcp.io/path"), ("binding", "kcp.io/path"), ("map", "kcp.io/path"),
               ("map", "kcp.io/shard"), ("map", "kcp.io/cluster"), ("wt", "kcp.io/shard"), ("ws", "kcp.io/cluster")]

IMMUTABLE = ": field is immutable"
BY_SYSTEM = " can only be changed by system privileged users"
# Fields outside of metadata: kind, path, value (None: taken away), code, text behind the object's name, who is refused.
FIELDS = [
    ("lc", "spec.createdBy", {"username": "eve", "groups": ["system:masters"]}, 403, "spec.createdBy: Invalid value: ", "ta"),
    ("lc", "spec.createdBy", None, 403, "spec.createdBy: Invalid value: null" + IMMUTABLE, "ta"),
    ("lc", "spec.owner", {"apiVersion": "v1", "resource": "x", "name": "x", "cluster": "root", "uid": "x"}, 403,
     "spec.owner: Invalid value: ", "ta"),
    ("lc", "spec.owner", None, 403, "spec.owner: Invalid value: null" + IMMUTABLE, "ta"),
    ("lc", "spec.directlyDeletable", True, 403, "spec.directlyDeletable: Invalid value: true" + IMMUTABLE, "ta"),
    ("lc", "spec.initializers", ["root:xy"], 403, "spec.initializers is immutable", "ta"),
    ("lc", "spec.terminators", ["root:xy"], 403, 'spec.terminators: Invalid value: ["root:xy"]' + IMMUTABLE, "ta"),
    ("lc", "metadata.finalizers", [], 403, "finalizer core.kcp.io/logicalcluster-deletion is required", "t"),
    ("lc", "metadata.finalizers", ["core.kcp.io/logicalcluster-deletion", "x/y"], 403,
     "metadata.finalizers: Forbidden: only administrators may change them", "t"),
    ("held", "spec.cluster", "root", 403, "spec.cluster" + BY_SYSTEM, "ta"),
    ("held", "spec.cluster", "system:admin", 403, "spec.cluster" + BY_SYSTEM, "ta"),
    ("held", "spec.URL", "https://evil.example/clusters/root", 403, "spec.URL" + BY_SYSTEM, "ta"),
    ("held", "spec.mount", {"ref": {"apiVersion": "m.test/v1", "kind": "Mount", "name": "x"}}, 403, "spec.mount is immutable", "ta"),
    ("mount", "spec.cluster", "root", 403, "spec.cluster" + BY_SYSTEM, "ta"),
    ("mount", "spec.URL", "https://evil.example/clusters/root", 403, "spec.URL" + BY_SYSTEM, "ta"),
    ("mount", "spec.mount", None, 403, "spec.mount cannot be unset", "ta"),
    ("mount", "spec.mount.ref.name", "other", 422, "mount is immutable", "ta"),
    ("mount", "spec.type", {"name": "universal", "path": "root"}, 403, "spec.type cannot be set for mounted workspaces", "ta"),
    ("ws", "spec.cluster", "root", 422, "cluster is immutable", "ta"),
    ("ws", "spec.cluster", None, 422, "cluster cannot be unset", "ta"),
    ("ws", "spec.URL", "https://evil.example/clusters/root", 403, "spec.URL" + BY_SYSTEM, "ta"),
    ("ws", "spec.URL", None, 422, "URL cannot be unset", "ta"),
    ("wt", "spec.defaultAPIBindings", [{"path": "root:prov", "export": "private"}], 403,
     "unable to create or update WorkspaceType: no permission to bind to export root:prov:private", "t"),
    ("wt", "spec.defaultAPIBindings", [{"path": "root:nowhere", "export": "private"}], 403,
     "unable to create or update WorkspaceType: no permission to bind to export root:nowhere:private", "ta"),
    ("wt", "spec.limitAllowedParents", {"types": [{"name": "x"}]}, 403, ".spec.limitAllowedParents.types[0].path must be set", "ta"),
    ("binding", "spec.reference.export.name", "other", 403,
     "unable to update APIBinding: no permission to bind to export root:prov:other", "ta"),
]
# Status: kind, path, value, who is refused; the text is authorization's.
STATUS = [
    ("lc", "status.initializers", ["root:x"], "t"), ("lc", "status.initializers", [], "t"), ("lc", "status.terminators", [], "t"),
    ("lc", "status.phase", "Deleting", "t"), ("lc", "status.URL", "https://evil.example", "t"),
    ("ws", "status.phase", "Initializing", "t"), ("held", "status.phase", "Ready", "t"),
    ("wt", "status.virtualWorkspaces", [{"url": "https://evil.example", "type": "initializing"}], "t"),
    ("export", "status.identityHash", "0" * 64, "ta"),
    ("binding", "status.phase", "Bound", "ta"), ("binding", "status.apiExportClusterName", "root", "ta"),
    ("binding", "status.boundResources", [], "ta"), ("binding", "status.exportPermissionClaims", [], "ta"),
    ("binding", "status.apiExportUID", "forged", "ta"), ("binding", "status.apiExportPolicy", "", "ta"),
    ("binding", "status.appliedPermissionClaims", [], "ta"), ("binding", "status.conditions", [], "ta"),
    ("export", "status.conditions", [], "ta"), ("export", "status.virtualWorkspaces", [{"url": "https://evil.example"}], "ta"),
    ("lc", "status.conditions", [], "t"), ("ws", "status.initializers", ["root:x"], "t"), ("ws", "status.terminators", ["root:x"], "t"),
    ("ws", "status.conditions", [], "t"), ("wt", "status.conditions", [], "t"),
]
FREE = ["internal.kcp.io/e2e-test", "extra.apis.kcp.io/x", "apiexports.apis.kcp.io/skip-endpointslice", "bootstrap.kcp.io/x",
        "experimental.tenancy.kcp.io/mount", "syncagent.kcp.io/x", "workspace.kcp.io/x", "example.com/x", "notkcp.io/x"]


def field_of(path, value):
    """{"a": {"b": value}} of "a.b"."""
    for part in reversed(path.split(".")):
        value = {part: value}
    return value


def put(obj, path, value):
    *way, last = path
    for part in way:
        obj = obj.setdefault(part, {})
    if value is None:
        obj.pop(last, None)
    else:
        obj[last] = value


def found(obj, path):
    for part in path:
        obj = obj.get(part) if isinstance(obj, dict) else None
    return obj


def grant(client, user, role, rules=None):
    if rules is not None:
        client.must("POST", f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules})
    client.must("POST", f"{RBAC}/clusterrolebindings", {
        "metadata": {"name": f"{user}-{role}".replace(":", "-")}, "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user}]})


ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}]
MOUNT = {"ref": {"apiVersion": "m.test/v1", "kind": "Mount", "name": "one"}}


def body_of(kind, name, spec=None, **metadata):
    collection = KINDS[kind][0]
    api_version = collection.split("/apis/")[1].rsplit("/", 1)[0] if "/apis/" in collection else "v1"
    kinds = {"lc": "LogicalCluster", "wt": "WorkspaceType", "export": "APIExport", "binding": "APIBinding", "map": "ConfigMap"}
    out = {"apiVersion": api_version, "kind": kinds.get(kind, "Workspace"), "metadata": {"name": name, **metadata}}
    if kind != "map":
        out["spec"] = spec or {}
    return out


def export_of(client, name, group="gear.test", plural="gears", kind="Gear", **spec):
    client.must("POST", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", {
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": f"v1.{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind,
                                                                  "listKind": kind + "List"},
                 "versions": [{"name": "v1", "served": True, "storage": True,
                               "schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}]}})
    client.must("POST", f"{APIS}/apiexports", body_of("export", name, {"resources": [
        {"group": group, "name": plural, "schema": f"v1.{plural}.{group}", "storage": {"crd": {}}}], **spec}))
    kit.eventually(lambda: client.must("GET", f"{APIS}/apiexports/{name}")["status"]["identityHash"], what="identity")


def at_shard(name=None, path="", groups=()):
    """A client of the shard of ann's workspace: nobody, or a user with a certificate."""
    pki = up.pki
    pair = kit.make_user(up.dir, pki, name, groups) if name else (None, None)
    return kit.Client(f"https://{system.url.netloc}{path}", pki / "serving-ca.crt", *pair)


def shard_admin(path=""):
    pki = up.pki
    return kit.Client(f"https://{system.url.netloc}{path}", pki / "serving-ca.crt", pki / "admin.crt", pki / "admin.key")


def masters(path=""):
    pki = up.pki
    return kit.Client(f"https://{system.url.netloc}{path}", pki / "serving-ca.crt", pki / "shard-admin.crt", pki / "shard-admin.key")


def begin():
    """Starts an installation until the tests of the module are over, and makes what is attacked. Its clients keep their connections:
    they are for one thread."""
    global up, admin, ann, prov, system, home, view, cluster  # pylint: disable=global-variable-undefined
    up = kit.Installation(shards=2).start_for()
    root = up.client()
    grant(root, "ann", "makers", [{"apiGroups": ["tenancy.kcp.io"], "resources": ["workspaces"], "verbs": ["create", "get"]}])
    up.make_workspace("prov", selector={"name": "shard-1"})
    owner = up.user_client("ann")
    kit.eventually(lambda: owner.request("POST", f"{TENANCY}/workspaces", body_of("ws", "anns", {
        "location": {"selector": {"matchLabels": {"name": "root"}}}})).status in (201, 409), what="ann's workspace")
    kit.eventually(lambda: owner.must("GET", f"{TENANCY}/workspaces/anns")["status"].get("phase") == "Ready")
    home = "/clusters/root:anns"
    ann, admin = steady.steady(up.user_client("ann", path=home)), steady.steady(up.client(home))
    kit.eventually(lambda: ann.get(KINDS["lc"][0]).status == 200, what="ann is in")
    cluster = ann.must("GET", f"{KINDS['lc'][0]}/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
    system = steady.Steady(up.shard_url("root") + f"/clusters/{cluster}", up.pki / "serving-ca.crt", up.pki / "shard-admin.crt",
                           up.pki / "shard-admin.key")
    grant(ann, "bob", "cluster-admin")
    grant(ann, "bob", "system:kcp:workspace:access")

    provider = up.client("/clusters/root:prov")
    export_of(provider, "private", plural="secrets-of-prov", kind="Private")
    tenancy = root.must("GET", f"{APIS}/apiexports/tenancy.kcp.io")["status"]["identityHash"]
    claims = [{"group": "tenancy.kcp.io", "resource": "workspaces", "identityHash": tenancy, "verbs": ["*"]},
              {"group": "core.kcp.io", "resource": "logicalclusters", "verbs": ["*"]},
              {"group": "apis.kcp.io", "resource": "apiexports", "verbs": ["*"]},
              {"group": "apis.kcp.io", "resource": "apibindings", "verbs": ["*"]},
              {"group": "", "resource": "configmaps", "verbs": ["*"]}]
    export_of(provider, "claims", group="claim.test", permissionClaims=claims)
    grant(provider, "prov", "content", [
        {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports/content"], "verbs": ["*"]},
        {"nonResourceURLs": ["/"], "verbs": ["access"]}])
    grant(provider, "ann", "bind-claims", [
        {"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "resourceNames": ["claims"], "verbs": ["bind"]}])
    prov = steady.steady(up.user_client("prov", path=""))
    name = provider.must("GET", f"{KINDS['lc'][0]}/cluster")["metadata"]["annotations"]["kcp.io/cluster"]
    view = f"/services/apiexport/{name}/claims/clusters/{cluster}"

    ann.must("POST", KINDS["ws"][0], body_of("ws", "child"))
    ann.must("POST", KINDS["ws"][0], body_of("ws", "held", {"location": {"selector": {"matchLabels": {"no": "shard"}}}}))
    ann.must("POST", KINDS["ws"][0], body_of("ws", "mount", {"mount": MOUNT}))
    ann.must("POST", KINDS["wt"][0], body_of("wt", "kind", {"extend": {"with": [{"name": "universal", "path": "root"}]}}))
    export_of(ann, "gears")
    accepts = body_of("binding", "claims", {
        "reference": {"export": {"path": "root:prov", "name": "claims"}},
        "permissionClaims": [{"state": "Accepted", "selector": {"matchAll": True}, **claim} for claim in claims]})
    kit.eventually(lambda: ann.request("POST", KINDS["binding"][0], accepts).status in (201, 409), what="ann has bound")
    ann.must("POST", KINDS["map"][0], body_of("map", "map"))
    kit.eventually(lambda: ann.must("GET", f"{KINDS['binding'][0]}/claims")["status"]["phase"] == "Bound")
    kit.eventually(lambda: ann.must("GET", f"{KINDS['ws'][0]}/child")["status"]["phase"] == "Ready")
    for kind in ("map", "ws", "held", "export", "binding"):
        kit.eventually(lambda k=kind: prov.get(f"{view}{KINDS[k][0]}/{KINDS[k][1]}").status == 200, what=f"{kind} is seen by its claim")


def as_bob(client):
    return lambda *args, headers=None, **more: client.request(*args, headers={**(headers or {}), "Impersonate-User": "bob"}, **more)


class Ways:
    """How one value at one path of an object is written. Each gives the answers of its attempts."""

    def __init__(self, request, kind, part=""):
        collection, name, _ = KINDS[kind]
        self.request, self.kind, self.item, self.part = request, kind, f"{collection}/{name}", part
        self.present = request("GET", self.item).json
        self.builtin = kind == "map"

    def all(self, path, value):
        for name, attempt in self.named(path, value):
            yield name, attempt()

    def named(self, path, value):
        """Each way and how it is gone."""
        known = found(self.present, path)
        out = [("PUT", lambda: self.put(path, value)), ("JSON patch", lambda: self.json_patch(path, value, known)),
               ("merge patch", lambda: self.merge(path, value)), ("dry run", lambda: self.merge(path, value, "?dryRun=All")),
               ("PUT dry run", lambda: self.put(path, value, "?dryRun=All"))]
        if self.builtin:
            out.append(("strategic", lambda: self.merge(path, value, headers=STRATEGIC)))
        if value is not None:
            out.append(("apply", lambda: self.apply(path, value)))
        return out

    def put(self, path, value, query=""):
        def attempt():
            obj = self.request("GET", self.item).json
            put(obj, path, value)
            return self.request("PUT", self.item + self.part + query, obj)

        return again(attempt)

    def json_patch(self, path, value, known):
        steps, at = [], self.present
        for i, key in enumerate(path[:-1]):
            at = at.get(key) if isinstance(at, dict) else None
            if at is None:
                steps.append({"op": "add", "path": pointer(path[:i + 1]), "value": {}})
        if value is None:
            steps.append({"op": "remove", "path": pointer(path)})
        else:
            steps.append({"op": "replace" if known is not None else "add", "path": pointer(path), "value": value})
        return self.request("PATCH", self.item + self.part, json.dumps(steps), headers=PATCH)

    def merge(self, path, value, query="", headers=None):
        body = value
        for key in reversed(path):
            body = {key: body}
        return self.request("PATCH", self.item + self.part + query, json.dumps(body), headers=headers or MERGE)

    def apply(self, path, value):
        body = {"apiVersion": self.present["apiVersion"], "kind": self.present["kind"],
                "metadata": {"name": self.present["metadata"]["name"]}}
        if self.present["kind"] == "APIBinding":  # what the schema requires in whatever is applied
            body["spec"] = {"reference": copy.deepcopy(self.present["spec"]["reference"])}
        put(body, path, value)
        return self.request("PATCH", f"{self.item}{self.part}?fieldManager=thief&force=true", json.dumps(body), headers=APPLY)


def pointer(path):
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def again(attempt):
    """Until no controller writes at the same time."""
    answer = attempt()
    for _ in range(20):
        if answer.status != 409:
            break
        answer = attempt()
    return answer
