#include "controlplane/kinds/internal/kind_texts.h"

#include <string>

#include "base/strings.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kTexts = R"(
workspaces.tenancy.kcp.io: A workspace: a place with an API of its own, served like a cluster, below the one that holds this object.
  spec: What the workspace is to be.
  spec.type: The WorkspaceType that says what a new workspace gets. Without one the default of the parent's type is taken. It never changes.
  spec.type.name: Name of the type.
  spec.type.path: Workspace that holds the type. Empty when it is created: looked for here, then in the workspaces above, last in root.
  spec.location: Where the workspace may be placed. It is read until a shard is chosen.
  spec.location.selector: Shards by their labels; without one any shard will do.
  spec.cluster: Name of the logical cluster that the workspace leads to. The server writes it, once.
  spec.URL: Where the workspace is served. The server writes it.
  spec.mount: Makes the workspace stand for something that another object describes, in place of a logical cluster. It never changes.
  spec.mount.ref: The object that says where the mount leads and whether it is ready; in the same workspace as this one.
  spec.mount.ref.apiVersion: API group and version of the object.
  spec.mount.ref.kind: Kind of the object.
  spec.mount.ref.name: Name of the object.
  spec.mount.ref.namespace: Namespace of the object, empty for one outside of namespaces.
  status: What became of the workspace. The server writes it.
  status.phase: Where the workspace is in its life; it can be used while it is Ready.
workspacetypes.tenancy.kcp.io: A type of workspaces: what a new workspace of it gets, and next to which others it may stand.
  spec: What workspaces of the type get and may be.
  spec.initializer: A new workspace waits until whoever has the right to initialize this type says that it is set up.
  spec.terminator: A workspace that is deleted waits until whoever has the right to terminate this type has cleaned up.
  spec.initializerPermissions: What initializers may do inside of a workspace while it waits for them. Without rules they act as the user who made it.
  spec.terminatorPermissions: What terminators may do inside of a workspace while it waits for them. Without rules they act as the user who made it.
  spec.additionalWorkspaceLabels: Labels that new workspaces get where they have none of that key.
  spec.defaultAPIBindingLifecycle: InitializeOnly makes the default bindings once; Maintain makes them again, with new claims, as long as the workspace is there.
  spec.defaultAPIBindings: APIExports that new workspaces are bound to before they are Ready, with all claims accepted.
  spec.defaultAPIBindings.export: Name of the APIExport.
  spec.defaultAPIBindings.path: Workspace that holds the APIExport; empty: that of this type.
  spec.defaultChildWorkspaceType: The type of new workspaces below one of this type that name none.
  spec.extend: Other types that this one builds on.
  spec.extend.with: Types whose initializers, terminators and default bindings come with this one; where one of them may stand, this one may.
  spec.limitAllowedChildren: Which workspaces may be made below one of this type.
  spec.limitAllowedParents: Below which workspaces one of this type may be made.
  spec.authenticationConfigurations: WorkspaceAuthenticationConfigurations, in the type's workspace, by which users of workspaces of the type may be known.
  spec.authenticationConfigurations.name: Name of the WorkspaceAuthenticationConfiguration.
  status: What the server says of the type.
  status.virtualWorkspaces: Where initializers and terminators find the workspaces that wait for them.
  status.virtualWorkspaces.url: An address, one for each shard.
  status.virtualWorkspaces.type: For whom it is: initializing or terminating.
workspaceauthenticationconfigurations.tenancy.kcp.io: Issuers of tokens whose users workspaces accept, where the type of the workspace names this object.
  spec: The issuers.
  spec.jwt: One entry for each issuer of JSON web tokens.
  spec.jwt.issuer: Who issues the tokens.
  spec.jwt.issuer.url: The issuer's URL, as claim iss has it.
  spec.jwt.issuer.discoveryURL: Where the issuer's configuration is read, if that is not below its URL.
  spec.jwt.issuer.certificateAuthority: Certificates (PEM) by which the issuer's server is known; empty: those of the system.
  spec.jwt.issuer.audiences: Audiences of which a token has to name one.
  spec.jwt.issuer.audienceMatchPolicy: How audiences are compared where there are several: MatchAny.
  spec.jwt.claimValidationRules: What the claims of a token have to fulfil.
  spec.jwt.claimValidationRules.claim: Name of a claim that has to be there.
  spec.jwt.claimValidationRules.requiredValue: The value that the claim has to have.
  spec.jwt.claimValidationRules.expression: A CEL expression over claims that has to be true.
  spec.jwt.claimValidationRules.message: What is logged when the expression is not true.
  spec.jwt.claimMappings: How a user is made of the claims.
  spec.jwt.claimMappings.username: Where the user's name comes from.
  spec.jwt.claimMappings.groups: Where the user's groups come from.
  spec.jwt.claimMappings.uid: Where the user's UID comes from.
  spec.jwt.claimMappings.extra: What else is known of the user.
  spec.jwt.claimMappings.extra.key: Key under which it is known: a path below a domain.
  spec.jwt.claimMappings.extra.valueExpression: A CEL expression over claims that gives a text or a list of texts.
  spec.jwt.userValidationRules: What the user that was made has to fulfil.
  spec.jwt.userValidationRules.expression: A CEL expression over the user that has to be true.
  spec.jwt.userValidationRules.message: What is logged when the expression is not true.
logicalclusters.core.kcp.io: The logical cluster that the request goes to: each one holds exactly this object, named cluster.
  spec: What whoever made the cluster said of it. It does not change.
  spec.createdBy: The user who made it, and who becomes its administrator.
  spec.createdBy.username: His name.
  spec.createdBy.uid: His UID.
  spec.createdBy.groups: His groups.
  spec.createdBy.extra: What else was known of him.
  spec.directlyDeletable: Whether deleting this object deletes the cluster; else that goes through its owner.
  spec.owner: The object that the cluster was made for, and goes with.
  spec.owner.apiVersion: API group and version of the owner.
  spec.owner.resource: Resource of the owner, as workspaces.
  spec.owner.cluster: Logical cluster that holds the owner.
  spec.owner.namespace: Namespace of the owner, empty for one outside of namespaces.
  spec.owner.name: Name of the owner.
  spec.owner.uid: UID of the owner.
  spec.initializers: Who has to set up the cluster before it is Ready.
  spec.terminators: Who has to clean up before the cluster goes.
  status: What became of the cluster. The server writes it.
  status.URL: Where the cluster is served, by its name.
  status.phase: Where the cluster is in its life.
shards.core.kcp.io: A server that holds logical clusters.
  spec: Where the shard is reached.
  spec.baseURL: Where front proxies and other shards reach it.
  spec.externalURL: What the URLs of its workspaces begin with, usually a front proxy; baseURL where it is empty.
  spec.virtualWorkspaceURL: Where its virtual workspaces are served; baseURL where it is empty.
  status: What the server says of the shard.
  status.capacity: What the shard can hold.
apiresourceschemas.apis.kcp.io: A resource with its versions and their schemas, for APIExports to offer. Its spec never changes: another one takes its place.
  spec: The resource.
  spec.group: Its API group, empty for the core group.
  spec.scope: Cluster or Namespaced.
  spec.nameValidation: What names of objects look like: DNS1123Subdomain, or PathSegmentName, which takes nearly all.
  spec.names: What the resource is called.
  spec.names.plural: Its name in paths, in lower case.
  spec.names.singular: Its name for one object, in lower case.
  spec.names.kind: The kind of its objects.
  spec.names.listKind: The kind of its lists.
  spec.names.shortNames: Shorter names for command lines.
  spec.names.categories: Groups of resources it belongs to, as all.
  spec.conversion: How objects are converted between versions; needed where there are several.
  spec.conversion.strategy: None changes the apiVersion alone, Webhook asks a server.
  spec.conversion.webhook: The server that converts.
  spec.conversion.webhook.clientConfig: How it is reached.
  spec.conversion.webhook.clientConfig.url: Its URL, https.
  spec.conversion.webhook.clientConfig.caBundle: Certificates (PEM, in base64) by which it is known; empty: those of the system.
  spec.conversion.webhook.conversionReviewVersions: Versions of ConversionReview that it understands, best first.
  spec.versions: The versions, of which exactly one is stored.
  spec.versions.name: Name of the version, as v1beta1.
  spec.versions.served: Whether requests may use it.
  spec.versions.storage: Whether objects are stored in it.
  spec.versions.deprecated: Whether its users are warned.
  spec.versions.deprecationWarning: What they are told in place of the usual warning.
  spec.versions.schema: The OpenAPI v3 schema of its objects.
  spec.versions.subresources: Subresources that it has.
  spec.versions.subresources.status: The status can be written by itself, and by no other way.
  spec.versions.subresources.scale: The number of replicas can be read and written by itself.
  spec.versions.subresources.scale.specReplicasPath: Where the wanted number stands, below .spec.
  spec.versions.subresources.scale.statusReplicasPath: Where the present number stands, below .status.
  spec.versions.subresources.scale.labelSelectorPath: Where the selector of what is scaled stands, as text.
  spec.versions.selectableFields: Fields that objects can be selected by.
  spec.versions.selectableFields.jsonPath: Where the field stands.
  spec.versions.additionalPrinterColumns: Columns that tables of objects have besides the name.
  spec.versions.additionalPrinterColumns.name: Heading of the column.
  spec.versions.additionalPrinterColumns.type: Type of its values: string, integer, number, boolean or date.
  spec.versions.additionalPrinterColumns.format: How the type is to be read, as name for the first column.
  spec.versions.additionalPrinterColumns.description: What the column shows, for people.
  spec.versions.additionalPrinterColumns.priority: Columns above 0 are shown in wide tables alone.
  spec.versions.additionalPrinterColumns.jsonPath: Where its value stands in an object.
apiconversions.apis.kcp.io: Rules to convert objects between the versions of the APIResourceSchema that has the same name.
  spec: The rules.
  spec.conversions: One entry for each pair of versions.
  spec.conversions.from: Version that is converted.
  spec.conversions.to: Version that comes out.
  spec.conversions.rules: How each field is made.
  spec.conversions.rules.field: Where the value comes from.
  spec.conversions.rules.destination: Where it goes.
  spec.conversions.rules.transformation: A CEL expression that makes the new value of the old one.
  spec.conversions.preserve: Fields that the new version does not know and that are kept for the way back.
apiexports.apis.kcp.io: Offers resources to other workspaces, which take them with an APIBinding.
  spec: What is offered, under which identity, on which terms.
  spec.resources: The resources, each with the schema that it has now.
  spec.resources.group: API group of the resource, empty for the core group.
  spec.resources.name: Plural name of the resource.
  spec.resources.schema: Name of the APIResourceSchema in this workspace.
  spec.resources.storage: Where objects of the resource are: crd, or virtual.
  spec.resources.storage.crd: They are stored in the workspaces that bind it.
  spec.resources.storage.virtual: They are served by a virtual workspace.
  spec.resources.storage.virtual.reference: An object that has the addresses of that virtual workspace.
  spec.resources.storage.virtual.reference.apiGroup: API group of that object.
  spec.resources.storage.virtual.reference.kind: Kind of that object.
  spec.resources.storage.virtual.reference.name: Name of that object.
  spec.resources.storage.virtual.identityHash: Identity under which the objects are served.
  spec.latestResourceSchemas: Names of the APIResourceSchemas in this workspace that are offered now.
  spec.identity: What proves that the resources are this provider's.
  spec.identity.secretRef: The Secret with the key of the identity; one is made where none is named.
  spec.identity.secretRef.name: Name of the Secret.
  spec.identity.secretRef.namespace: Namespace of the Secret.
  spec.maximalPermissionPolicy: The most that anybody may do with the resources, whatever rights a consumer gives.
  spec.maximalPermissionPolicy.local: It is given by roles in this workspace, to users and groups with the prefix apis.kcp.io:binding:.
  spec.permissionClaims: Other resources of its consumers that the provider asks to use.
  status: What the server says of the export.
  status.identityHash: The identity: a hash of the key. It does not change.
  status.virtualWorkspaces: Not used any more; see APIExportEndpointSlice.
  status.virtualWorkspaces.url: An address.
apibindings.apis.kcp.io: Brings the resources of an APIExport into this workspace.
  spec: What is bound, and what its provider may do here.
  spec.reference: The export. It never changes.
  spec.reference.export: An APIExport.
  spec.reference.export.path: Workspace that holds the export; empty: this one.
  spec.reference.export.name: Name of the export.
  spec.permissionClaims: Answers to the claims of the export; what is not answered is not given.
  status: What became of the binding. The server writes it.
  status.phase: Binding until the resources are served for the first time, then Bound.
  status.apiExportClusterName: Logical cluster of the export that was found; the binding stays with that one.
  status.apiExportUID: UID of that export; one made anew under its name is another.
  status.apiExportPolicy: local where the export limits what anybody may do; that holds when the export is gone, too.
  status.boundResources: The resources that the binding brought.
  status.boundResources.group: API group of the resource.
  status.boundResources.resource: Plural name of the resource.
  status.boundResources.schema: The schema that is served.
  status.boundResources.schema.name: Name of the APIResourceSchema.
  status.boundResources.schema.UID: UID of the APIResourceSchema.
  status.boundResources.schema.identityHash: Identity of the export that it comes from.
  status.boundResources.storageVersions: Versions in which objects may be stored.
  status.exportPermissionClaims: The claims that the export makes now.
  status.appliedPermissionClaims: The claims that are accepted and in force.
apiexportendpointslices.apis.kcp.io: Addresses at which the provider of an APIExport finds the objects of its consumers.
  spec: Whose addresses, and of which shards.
  spec.export: The APIExport. It never changes.
  spec.export.path: Workspace that holds the export; empty: that of this object.
  spec.export.name: Name of the export.
  spec.partition: Name of a Partition in the same workspace: only its shards count. Empty: all shards.
  status: The addresses. The server writes it.
  status.endpoints: An entry for each address, which is to be read besides all others.
  status.endpoints.url: The address of a virtual workspace.
  status.endpoints.shards: Whose objects it shows, where that is not one shard.
  status.endpoints.shards.matchAll: Those of all shards.
  status.endpoints.shards.selector: Those of the shards with these labels.
  status.shardSelector: Labels of the shards that the Partition selects, as text.
partitions.topology.kcp.io: A part of the shards.
  spec: Which shards.
  spec.selector: Shards by their labels; without one all of them.
partitionsets.topology.kcp.io: Divides shards into Partitions, which the server makes, one for each combination of values.
  spec: Which shards, and by what.
  spec.dimensions: Keys of labels by whose values the shards are divided.
  spec.shardSelector: Shards by their labels; without one all of them.
  status: What the server made of it.
  status.count: Number of Partitions.
clustercachedresources.cache.kcp.io: Offers the objects of a cluster-scoped resource of this workspace to be read in others.
  spec: What is offered.
  spec.group: API group of the resource; empty for the core group.
  spec.version: Version in which the objects are offered.
  spec.resource: Plural name of the resource.
  spec.labelSelector: Labels of the objects that are offered; without one all of them are.
  spec.identity: Where the key is whose hash names what is offered.
  spec.identity.secretRef: The Secret with the key. The server makes one where it is empty.
  spec.identity.secretRef.name: Name of the Secret.
  spec.identity.secretRef.namespace: Namespace of the Secret.
  status: What became of the offer. The server writes it.
  status.identityHash: Hash of the key.
  status.phase: Where the offer is in its life; it can be read while it is Ready.
  status.resourceCounts: How many objects there are.
  status.resourceCounts.cache: Objects that are offered.
  status.resourceCounts.local: Objects of the workspace that the selector selects.
clustercachedresourceendpointslices.cache.kcp.io: Addresses at which the objects of a ClusterCachedResource can be read.
  spec: Whose addresses.
  spec.clusterCachedResource: What is offered. It never changes.
  spec.clusterCachedResource.name: Name of the ClusterCachedResource.
  spec.clusterCachedResource.path: Workspace that holds it; empty: this one.
  spec.export: The APIExport that has it among its resources. It never changes.
  spec.export.name: Name of the APIExport.
  spec.export.path: Workspace that holds the APIExport; empty: this one.
  spec.partition: The Partition whose shards are listed; without one all are.
  status: The addresses. The server writes it.
  status.shardSelector: Labels of the shards that are listed.
  status.endpoints: One entry for each address.
  status.endpoints.url: The address.
  status.endpoints.shards: Shards whose objects it shows.
  status.endpoints.shards.matchAll: All shards.
  status.endpoints.shards.selector: Shards with these labels.
logicalclustermigrations.migration.kcp.io: Moves a logical cluster to another shard.
  spec: What goes where. It never changes.
  spec.logicalCluster: Name of the logical cluster.
  spec.destinationShard: The shard that is to hold it.
  status: How far the move is. The server writes it.
  status.phase: Step of the move; the cluster can be used again when it is Completed or Failed.
  status.originShard: The shard that held it.
  status.entriesCopied: Rows that were copied so far.
  status.dumpContinue: Where the copy goes on.
  status.attempts: How often the move began anew after writes had been stopped for too long, or the root shard was restarted.
logicalclusterdumps.migration.kcp.io: What shards ask each other about a logical cluster that moves. It is never stored.
  spec: The question.
  status: The answer.
shared
  conditions: What holds of the object at present, one entry for each aspect.
  conditions.type: The aspect.
  conditions.status: True, False or Unknown.
  conditions.severity: How bad it is where it does not hold: Error, Warning or Info.
  conditions.reason: Why, in one word for programs.
  conditions.message: Why, for people.
  conditions.lastTransitionTime: When the status last changed.
  matchLabels: Labels that must have these values.
  matchExpressions: Conditions on labels; all must hold.
  matchExpressions.key: The label.
  matchExpressions.operator: In, NotIn, Exists or DoesNotExist.
  matchExpressions.values: Values for In and NotIn, else empty.
  status.initializers: Who still has to set it up.
  status.terminators: Who still has to clean up.
  *Permissions.verbs: Verbs that are permitted; * for all.
  *Permissions.apiGroups: API groups of the resources; * for all.
  *Permissions.resources: Resources; * for all.
  *Permissions.resourceNames: Names of single objects; empty: all of them.
  *Permissions.nonResourceURLs: Paths that are not of resources.
  defaultChildWorkspaceType.name: Name of the type.
  defaultChildWorkspaceType.path: Workspace that holds the type.
  extend.with.name: Name of the type.
  extend.with.path: Workspace that holds the type; empty: that of this one.
  limitAllowedChildren.none: No workspace at all.
  limitAllowedParents.none: No workspace at all.
  limitAllowedChildren.types: Those of these types, or of types that build on them.
  limitAllowedParents.types: Those of these types, or of types that build on them.
  limitAllowedChildren.types.name: Name of the type.
  limitAllowedParents.types.name: Name of the type.
  limitAllowedChildren.types.path: Workspace that holds the type.
  limitAllowedParents.types.path: Workspace that holds the type.
  username.claim: Name of the claim that has it.
  username.expression: A CEL expression over claims that gives it.
  username.prefix: Text that is put before what the claim has.
  groups.claim: Name of the claim that has them.
  groups.expression: A CEL expression over claims that gives them.
  groups.prefix: Text that is put before each of them.
  uid.claim: Name of the claim that has it.
  uid.expression: A CEL expression over claims that gives it.
  *ermissionClaims.group: API group of the claimed resource, empty for the core group.
  *ermissionClaims.resource: Plural name of the claimed resource.
  *ermissionClaims.identityHash: Identity of the export that the resource comes from; empty for what every workspace has.
  *ermissionClaims.verbs: What the provider may do with the objects; * for everything.
  *ermissionClaims.all: All objects of the resource.
  *ermissionClaims.resourceSelector: Only these objects.
  resourceSelector.name: Name of the object; empty: any.
  resourceSelector.namespace: Namespace of the objects; empty: any.
  *ermissionClaims.selector: Which objects the provider may use. It never changes.
  *ermissionClaims.defaultSelector: The selector that the provider proposes, taken where a claim is accepted by default.
  *ermissionClaims.state: Accepted or Rejected.
  *elector.matchAll: All objects of the resource.
)";

constexpr std::string_view kShared = "shared";

/// "<kind>\n<path>" to text; of ends that are shared "shared\n<end>", where a `*` in front stands
/// for the beginning of a name.
StringMap<std::string_view> read() {
  StringMap<std::string_view> out;
  std::string kind;
  for (const std::string_view row : split(kTexts, '\n')) {
    const std::size_t colon = row.find(": ");
    if (colon == std::string_view::npos) {
      kind = row.empty() ? kind : std::string(row);
      continue;
    }
    const std::string_view name = trim(row.substr(0, colon));
    if (row.front() != ' ') {
      kind = name;
    }
    out.emplace(kind + '\n' + std::string(row.front() == ' ' ? name : std::string_view()),
                row.substr(colon + 2));
  }
  return out;
}

void describe(std::string_view kind, const std::string& path, Json& schema) {
  if (const std::string_view text = kind_text(kind, path); !text.empty()) {
    schema["description"] = text;
  }
  for (const char* below : {"items", "additionalProperties"}) {
    Json* inner = schema.find(below);
    if (inner != nullptr && inner->is_object() && inner->find("properties") != nullptr) {
      Json own = *inner;
      describe(kind, path, own);
      own.erase("description");  // said of the list or map
      *inner = std::move(own);
    }
  }
  Json* properties = schema.find("properties");
  if (properties == nullptr) {
    return;
  }
  const Json known = *properties;
  for (const krm::JsonMember& member : known.members()) {
    const bool common = path.empty() && member.key != "spec" && member.key != "status";
    if (!common) {
      describe(kind, path.empty() ? std::string(member.key) : path + '.' + std::string(member.key),
               (*properties)[member.key]);
    }
  }
}

}  // namespace

std::string_view kind_text(std::string_view kind, std::string_view path) {
  static const StringMap<std::string_view>& texts = *new StringMap<std::string_view>(read());
  const auto find = [](std::string_view block, std::string_view field) {
    std::string key(block);
    (key += '\n') += field;
    const auto found = texts.find(key);
    return found == texts.end() ? std::string_view() : found->second;
  };
  std::string_view text = find(kind, path);
  bool begins = true;
  for (std::size_t at = 0; text.empty() && at < path.size(); ++at) {
    const std::string end(path.substr(at));
    text = begins ? find(kShared, end) : find(kShared, "*" + end);
    begins = path[at] == '.';
  }
  return text;
}

std::string_view kind_texts() { return kTexts; }

void describe_document(Json& definition) {
  const std::string kind(definition.text({"metadata", "name"}));
  Json* versions = definition.at({"spec", "versions"});
  if (versions == nullptr) {
    return;
  }
  for (Json& version : versions->edit_items()) {
    if (Json* schema = version.at({"schema", "openAPIV3Schema"})) {
      describe(kind, "", *schema);
    }
  }
}

}  // namespace kintsugi::controlplane
