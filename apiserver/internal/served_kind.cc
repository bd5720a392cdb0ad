#include "apiserver/internal/served_kind.h"

#include <utility>

#include "apiserver/stored_object.h"

namespace kintsugi::apiserver::internal {

std::string storage_name(const ResourceDef& def) {
  if (!def.stored_under_group) {
    return def.qualified_name();
  }
  return def.stored_under_group->empty() ? def.plural : def.plural + "." + *def.stored_under_group;
}

ServedKindPtr make_served_kind(ResourcePtr def, const ResourceVersion* version) {
  auto kind = std::make_shared<ServedKind>();
  kind->version = version == nullptr ? &def->storage_version() : version;
  kind->api_version = def->api_version(kind->version->name);
  kind->prefix = kind_prefix(kind->api_version, def->kind);
  kind->storage_name = storage_name(*def);
  kind->def = std::move(def);
  return kind;
}

Expected<krm::Json> ServedKind::decode(std::string_view value, store::Revision revision) const {
  Expected<krm::Json> object =
      decode_stored(value, def->api_version(def->storage_version().name), def->kind, revision);
  if (object) {
    from_storage(*object);
  }
  return object;
}

void ServedKind::from_storage(krm::Json& object) const {
  if (version->from_storage != nullptr) {
    version->from_storage(object);
  }
  object["apiVersion"] = api_version;
  object["kind"] = def->kind;
}

void ServedKind::to_storage(krm::Json& object) const {
  if (version->to_storage != nullptr) {
    version->to_storage(object);
  }
  object["apiVersion"] = def->api_version(def->storage_version().name);
  object["kind"] = def->kind;
}

}  // namespace kintsugi::apiserver::internal
