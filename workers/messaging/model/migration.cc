#include "workers/messaging/model/migration.h"

#include "krm/annotations.h"
#include "workers/messaging/model/internal/parse.h"

namespace kintsugi::workers {

namespace {

using krm::Json;

constexpr std::string_view kPrefix = "enmasse.io/";
constexpr std::string_view kFrom = "enmasse.io/migrated-from";

/// Kind, place and what people wrote to it; nothing of what the server or a controller keeps there.
Json copy_of(const Json& object, std::string name, std::string_view from) {
  Json out =
      Json::object({{"apiVersion", object.text({"apiVersion"})}, {"kind", object.text({"kind"})}});
  Json& metadata = out["metadata"];
  metadata["name"] = std::move(name);
  metadata["namespace"] = object.text({"metadata", "namespace"});
  if (const Json* const labels = object.at({"metadata", "labels"})) {
    for (const krm::JsonMember& one : labels->members()) {
      if (std::string_view(one.key).find("internal.apis.kcp.io/") == std::string_view::npos) {
        metadata.make({"labels"})[one.key] = one.value;
      }
    }
  }
  if (const Json* const notes = object.at({"metadata", "annotations"})) {
    for (const krm::JsonMember& one : notes->members()) {
      const std::string_view key = one.key;
      if (!key.starts_with(kPrefix) && key != krm::kLastAppliedAnnotation &&
          key.find("kcp.io/") == std::string_view::npos) {
        metadata.make({"annotations"})[key] = one.value;
      }
    }
  }
  metadata.make({"annotations"})[kFrom] = from;
  if (const Json* const spec = object.find("spec")) {
    out["spec"] = *spec;
  } else {
    out["spec"] = Json::object();
  }
  return out;
}

}  // namespace

std::optional<MigrationWish> migration_of(const Json& space) {
  const std::string_view type = space.text({"spec", "type"});
  if (annotation_of(space, "enmasse.io/migrate-to") != "shared" || type.empty() ||
      type == "shared") {
    return std::nullopt;
  }
  MigrationWish out;
  out.name = annotation_of(space, "enmasse.io/migrate-name");
  if (out.name.empty()) {
    out.name = std::string(space.text({"metadata", "name"})) + "-shared";
  }
  out.plan = annotation_of(space, "enmasse.io/migrate-plan");
  if (out.plan.empty()) {
    out.plan = space.text({"spec", "plan"});
  }
  return out;
}

std::string_view migrated_from(const Json& object) noexcept { return annotation_of(object, kFrom); }

Json migrated_space(const Json& space, const MigrationWish& wish) {
  Json out = copy_of(space, wish.name, space.text({"metadata", "name"}));
  Json& spec = out["spec"];
  spec["type"] = "shared";
  if (!wish.plan.empty()) {
    spec["plan"] = wish.plan;
  }
  return out;
}

std::string migrated_address_name(std::string_view address, std::string_view space,
                                  const MigrationWish& wish) {
  if (!address.starts_with(space) || address.size() <= space.size() + 1 ||
      address[space.size()] != '.') {
    return {};
  }
  return wish.name + std::string(address.substr(space.size()));
}

std::optional<Json> migrated_address(const Json& address, std::string_view space,
                                     const MigrationWish& wish) {
  const std::string_view from = address.text({"metadata", "name"});
  std::string name = migrated_address_name(from, space, wish);
  if (name.empty()) {
    return std::nullopt;
  }
  Json out = copy_of(address, std::move(name), from);
  Json& spec = out["spec"];
  spec.erase("addressSpace");
  if (spec.text({"type"}) == "deadletter") {
    spec["type"] = "deadLetter";
  }
  return out;
}

}  // namespace kintsugi::workers
