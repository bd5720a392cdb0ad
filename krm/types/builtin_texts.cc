#include "krm/types/builtin_texts.h"

#include <string>

#include "base/strings.h"
#include "krm/types/internal/text_rows.h"

namespace kintsugi::krm {
namespace {

constexpr char kMoreTexts[] = R"(
ValidationRule: A rule in CEL that values must fulfil.
  rule: The expression; `self` is the value.
  message: What to say when it does not hold.
  messageExpression: An expression that makes the message.
  reason: Reason of the fault.
  fieldPath: Field that has the fault, relative to this one.
  optionalOldSelf: True to evaluate rules with oldSelf also on creation.
JSONSchemaProps: A JSON schema, as far as definitions may use it.
  id: Not used.
  $schema: Not used.
  $ref: Not permitted.
  title: A heading for people.
  description: What the value is, for people.
  type: object, array, string, integer, number or boolean.
  format: What a text or a number looks like besides its type, as date-time.
  default: The value where none is given.
  example: An example, for people.
  nullable: null is a value, too.
  enum: The only values that there are.
  maximum: The greatest number.
  exclusiveMaximum: The number has to be below maximum.
  minimum: The least number.
  exclusiveMinimum: The number has to be above minimum.
  multipleOf: The number has to be a multiple of this one.
  maxLength: The most characters of a text.
  minLength: The fewest characters of a text.
  pattern: A regular expression that the text has to match.
  maxItems: The most items of a list.
  minItems: The fewest items of a list.
  uniqueItems: Not permitted as true.
  maxProperties: The most members of an object.
  minProperties: The fewest members of an object.
  required: Members that have to be there.
  properties: Schemas of members by name.
  additionalProperties: Schema of all members, where their names are not known.
  patternProperties: Not permitted.
  items: Schema of the items of a list.
  additionalItems: Not permitted.
  allOf: Schemas that all have to fit.
  anyOf: Schemas of which at least one has to fit.
  oneOf: Schemas of which exactly one has to fit.
  not: A schema that must not fit.
  dependencies: Not permitted.
  definitions: Not permitted.
  externalDocs: Where more can be read.
  x-kubernetes-preserve-unknown-fields: Members that the schema does not know are kept.
  x-kubernetes-embedded-resource: The value is an object with apiVersion, kind and metadata.
  x-kubernetes-int-or-string: The value is an integer or a text.
  x-kubernetes-list-type: How lists of several writers are joined: atomic, set or map.
  x-kubernetes-list-map-keys: The members by which items of a map are told apart.
  x-kubernetes-map-type: How objects of several writers are joined: granular or atomic.
  x-kubernetes-validations: Rules in CEL that the value has to fulfil.
ShardInfo: How a list was divided among several readers.
  selector: Which part of it this is.
Time: A time as RFC 3339 writes it, exact to the second.
MicroTime: A time as RFC 3339 writes it, exact to the microsecond.
Patch: Changes of an object, in the form that the content type names.
APIVersions: Versions of the core group.
  versions: The versions, best first.
  serverAddressByClientCIDRs: Addresses of the server by where a client is.
APIGroupList: The API groups that are served.
  groups: The groups.
APIGroup: An API group and its versions.
  name: Name of the group.
  versions: Its versions, best first.
  preferredVersion: The version to take.
  serverAddressByClientCIDRs: Addresses of the server by where a client is.
GroupVersionForDiscovery: A version of an API group.
  groupVersion: Group and version, like apps/v1.
  version: The version alone.
ServerAddressByClientCIDR: An address of the server, and for whom it is.
  clientCIDR: Addresses of those clients.
  serverAddress: Host and port, or a host name.
APIResourceList: The resources of a version.
  groupVersion: Group and version, like apps/v1.
  resources: The resources and their subresources.
APIResource: A resource or a subresource.
  name: Plural name, behind a slash that of the subresource.
  singularName: Name for one object.
  namespaced: Whether its objects are in namespaces.
  group: API group of its objects, where that is another.
  version: API version of its objects, where that is another.
  kind: Kind of its objects.
  verbs: What can be done with it.
  shortNames: Shorter names for command lines.
  categories: Groups of resources it belongs to, as all.
  storageVersionHash: Changes with the version in which objects are stored.
PartialObjectMetadata: An object of which the metadata alone is shown.
Condition: One aspect of an object.
  type: The aspect.
  status: True, False or Unknown.
  observedGeneration: Generation of the object that it was said of.
  lastTransitionTime: When status last changed.
  reason: Why, in one word for programs.
  message: Why, for people.
SelfSubjectReviewStatus: Who the caller is.
  userInfo: The caller as the server knows him.
TokenReviewSpec: A token that somebody came with.
  token: The token.
  audiences: For whom it must be meant; empty: for this server.
TokenReviewStatus: Whose token it is.
  authenticated: Whether it is anybody's.
  user: The user.
  audiences: Those of the asked ones that it is meant for.
  error: Why it could not be looked at.
TokenRequestSpec: What the token is to be like.
  audiences: For whom it is meant.
  expirationSeconds: How long it is to be valid.
  boundObjectRef: An object with which it ends.
TokenRequestStatus: The token.
  token: The token itself.
  expirationTimestamp: When it ends.
BoundObjectReference: An object with which a token ends.
  kind: Kind of the object.
  apiVersion: API version of the object.
  name: Name of the object.
  uid: UID of the object.
SubjectAccessReviewSpec: A user, and what he wants to do: with a resource or with a path.
  resourceAttributes: A request for a resource.
  nonResourceAttributes: A request for a path.
  user: Name of the user.
  groups: His groups.
  extra: What else is known of him.
  uid: His UID.
SelfSubjectAccessReviewSpec: What the caller wants to do: with a resource or with a path.
  resourceAttributes: A request for a resource.
  nonResourceAttributes: A request for a path.
SelfSubjectRulesReviewSpec: Where the caller wants to do something.
  namespace: The namespace.
SubjectRulesReviewStatus: What the caller may do.
  resourceRules: What he may do with resources, in no order.
  nonResourceRules: What he may do with paths, in no order.
  incomplete: There may be more than is listed.
  evaluationError: Why something could not be looked at.
ResourceRule: Something that is permitted with resources.
  verbs: Verbs; * for all.
  apiGroups: API groups; * for all.
  resources: Resources; * for all.
  resourceNames: Names of single objects; empty: all of them.
NonResourceRule: Something that is permitted with paths.
  verbs: Verbs; * for all.
  nonResourceURLs: Paths; * for all of them, or at the end for those that begin so.
FieldSelectorAttributes: The field selector of a request.
  rawSelector: The selector as it was sent.
  requirements: The selector as it was understood; all must hold.
FieldSelectorRequirement: A condition on one field.
  key: The field.
  operator: In, NotIn, Exists or DoesNotExist.
  values: Values for In and NotIn, else empty.
LabelSelectorAttributes: The label selector of a request.
  rawSelector: The selector as it was sent.
  requirements: The selector as it was understood; all must hold.
CustomResourceSubresourceStatus: The status can be written by itself, and by no other way.
ExternalDocumentation: Where more can be read.
  description: What is there.
  url: Where it is.
WebhookConversion: A server that converts objects.
  clientConfig: How it is reached.
  conversionReviewVersions: Versions of ConversionReview that it understands, best first.
)";

const std::string& texts() {
  static const std::string& all = *new std::string(std::string(kFirstTexts) + kMoreTexts);
  return all;
}

/// "Type" or "Type.field" to text.
StringMap<std::string_view> read() {
  StringMap<std::string_view> out;
  std::string type;
  for (const std::string_view row : split(texts(), '\n')) {
    const std::size_t colon = row.find(": ");
    if (colon == std::string_view::npos) {
      continue;
    }
    const std::string_view name = trim(row.substr(0, colon));
    std::string key(name);
    if (row.front() == ' ') {
      key = type + '.' + key;
    } else {
      type = name;
    }
    out.emplace(std::move(key), row.substr(colon + 2));
  }
  return out;
}

}  // namespace

std::string_view builtin_text(std::string_view type, std::string_view field) {
  static const StringMap<std::string_view>& texts = *new StringMap<std::string_view>(read());
  std::string key(type);
  if (!field.empty()) {
    key += '.';
    key += field;
  }
  const auto found = texts.find(key);
  return found == texts.end() ? std::string_view() : found->second;
}

std::string_view builtin_texts() { return texts(); }

}  // namespace kintsugi::krm
