#include "apiserver/served_kind.h"

#include <utility>

#include "krm/structural.h"

namespace kintsugi::apiserver {

std::string storage_name(const ResourceDef& def) {
  if (!def.identity.empty()) {
    return def.qualified_name() + ":" + def.identity;
  }
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

const ResourceVersion* written_version(const ResourceDef& def, const StoredStamp& stamp) noexcept {
  return def.webhook == nullptr || stamp.version.empty() ? &def.storage_version()
                                                         : def.version(stamp.version);
}

bool ServedKind::is_stored_form(const StoredView& stored) const noexcept {
  if (!is_custom()) {
    return version->from_storage == nullptr;
  }
  return stored.stamp.schema_digest == version->schema_digest &&
         (def->webhook == nullptr || stored.stamp.version == version->name);
}

bool ServedKind::needs_webhook(const StoredView& stored) const noexcept {
  return def->webhook != nullptr && written_version(*def, stored.stamp) != version;
}

bool ServedKind::needs_webhook(std::string_view value) const noexcept {
  if (def->webhook == nullptr) {
    return false;
  }
  const Expected<StoredView> stored = StoredView::parse(value);
  return stored && needs_webhook(*stored);
}

Expected<krm::Json> ServedKind::decode(std::string_view value, store::Revision revision) const {
  const Expected<StoredView> stored = StoredView::parse(value);
  if (!stored) {
    return fail(stored.error().clone());
  }
  const ResourceVersion* written = def->version(stored->stamp.version);
  if (!is_custom() || written == nullptr) {
    written = &def->storage_version();
  }
  const bool foreign = needs_webhook(*stored);
  Expected<krm::Json> object = decode_stored(
      value, foreign ? def->api_version(written->name) : api_version, def->kind, revision);
  if (!object) {
    return object;
  }
  if (!is_custom()) {
    from_storage(*object);
    return object;
  }
  if (stored->stamp.schema_digest != written->schema_digest) {
    fill(*written, *object);
  }
  if (!foreign && !is_stored_form(*stored)) {
    shape(*object);
  }
  return object;
}

void ServedKind::fill(const ResourceVersion& written, krm::Json& object) {
  if (written.schema != nullptr) {
    krm::apply_defaults(*written.schema, object);
  }
}

void ServedKind::shape(krm::Json& object) const {
  object["apiVersion"] = api_version;
  object["kind"] = def->kind;
  if (version->schema != nullptr) {
    static_cast<void>(krm::prune(*version->schema, object));
  }
}

void ServedKind::from_storage(krm::Json& object) const {
  if (is_custom()) {
    fill(def->storage_version(), object);
    shape(object);
    return;
  }
  if (version->from_storage != nullptr) {
    version->from_storage(object);
  }
  object["apiVersion"] = api_version;
  object["kind"] = def->kind;
}

void ServedKind::to_storage(krm::Json& object) const {
  const ResourceVersion& storage = def->storage_version();
  if (is_custom() && storage.schema_digest != version->schema_digest && storage.schema != nullptr) {
    static_cast<void>(krm::prune(*storage.schema, object));
  }
  if (version->to_storage != nullptr) {
    version->to_storage(object);
  }
  object["apiVersion"] = def->api_version(storage.name);
  object["kind"] = def->kind;
}

}  // namespace kintsugi::apiserver
