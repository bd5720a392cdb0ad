// AddressSpace, tenant and project (3.3).
#include <set>

#include "krm/annotations.h"
#include "krm/names.h"
#include "workers/messaging/model/internal/parse.h"
#include "workers/messaging/model/migration.h"

namespace kintsugi::workers {

namespace {

void parse_space_parts(const Fields& spec, bool allow_local, Parsed<MessagingSpace>& parsed) {
  MessagingSpace& space = parsed.object;
  space.authentication_service = spec.object("authenticationService").text("name");
  for (const Fields& fields : spec.objects("endpoints", kMostEndpoints)) {
    space.endpoints.push_back(parse_space_endpoint(fields, space.id));
  }
  std::set<std::string> names;
  for (const Fields& fields : spec.objects("connectors", kMostConnectors)) {
    FieldProblems own;
    const Fields inner = fields.with(own);
    Parsed<MessagingConnector> connector = parse_connector_fields(inner, allow_local);
    connector.object.id = space.id;
    connector.object.name = inner.text("name");
    bool good = !connector.object.name.empty();
    for (const char c : connector.object.name) {
      good = good && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'));
    }
    if (!good) {
      own.add(fields.path() + ".name", "must match [a-zA-Z0-9]+");
    } else if (!names.insert(connector.object.name).second) {
      own.add(fields.path() + ".name", "must be unique");
    }
    finish(connector, "Validated", own, space.id.generation);
    space.connectors.push_back(std::move(connector));
  }
  if (spec.has("networkPolicy")) {
    parsed.conditions.push_back(
        unsupported("NetworkPolicySupported", "NotSupported", "spec.networkPolicy: is ignored"));
  }
}

}  // namespace

Parsed<MessagingSpace> parse_space(const krm::Json& object, bool allow_local) {
  Parsed<MessagingSpace> parsed;
  MessagingSpace& space = parsed.object;
  FieldProblems problems;
  space.id = parse_identity(object);
  const std::string_view kind = object.text({"kind"});
  space.front = kind == "MessagingTenant"    ? MessagingSpace::Front::kTenant
                : kind == "MessagingProject" ? MessagingSpace::Front::kProject
                                             : MessagingSpace::Front::kAddressSpace;
  const Fields spec = Fields(&object, "", problems).object("spec");
  if (space.is_tenant()) {
    if (space.id.name != "default") {
      problems.add("metadata.name", "must be default");
    }
    space.infra = parse_ref(spec, "messagingInfrastructureRef");
    space.plan = parse_ref(spec, "messagingPlanRef");
    if (space.infra.ns.empty() && !space.infra.empty()) {
      space.infra.ns = space.id.ns;
    }
    if (const krm::Json* owners = object.at({"metadata", "ownerReferences"})) {
      for (const krm::Json& owner : owners->items()) {
        space.owned = space.owned || owner.text({"kind"}) == "Namespace";
      }
    }
  } else {
    const std::size_t type = spec.choice("type", {"shared", "standard", "brokered"}, 0);
    space.shared = type == 0;
    if (!space.shared) {
      space.migrates = migration_of(object).has_value();
      return parsed;  // its own controller judges it
    }
    space.plan.name = spec.required_text("plan");
  }
  space.transactions = parse_transactions(spec);
  parse_space_parts(spec, allow_local, parsed);
  if (const std::string_view from = migrated_from(object); !from.empty()) {
    space.migrated_from = from;
    Condition migrated;
    migrated.type = "Migrated";
    migrated.status = ConditionStatus::kTrue;
    migrated.reason = "Migrated";
    migrated.message = "of " + space.migrated_from + ", which stays as it is";
    parsed.conditions.push_back(std::move(migrated));
  }
  finish(parsed, "Ready", problems, space.id.generation);
  return parsed;
}

std::optional<MessagingSpace> tenant_of_namespace(const krm::Json& ns, bool* unknown) {
  const std::string_view asked = annotation_of(ns, "enmasse.io/messaging");
  if (unknown != nullptr) {
    *unknown = !asked.empty() && asked != "true" && asked != "false";
  }
  if (asked != "true") {
    return std::nullopt;
  }
  MessagingSpace space;
  space.id.cluster = annotation_of(ns, krm::kClusterAnnotation);
  space.id.ns = ns.text({"metadata", "name"});
  space.id.name = "default";
  space.front = MessagingSpace::Front::kTenant;
  space.owned = true;
  space.plan.name = annotation_of(ns, "enmasse.io/messaging-plan");
  space.authentication_service = annotation_of(ns, "enmasse.io/authentication-service");
  return space;
}

}  // namespace kintsugi::workers
