#include "apiserver/internal/reader.h"

#include <string>

#include "apiserver/keys.h"
#include "apiserver/served_kind.h"
#include "apiserver/stored_object.h"
#include "base/log.h"

namespace kintsugi::apiserver::internal {
namespace {

Expected<krm::Json> decode(const ResourcePtr& def, std::string_view value,
                           store::Revision revision) {
  if (def == nullptr) {  // the definition is gone, its objects are still being removed
    return decode_stored(value, "", "", revision);
  }
  const Expected<StoredView> stored = StoredView::parse(value);
  const ResourceVersion* version = stored ? written_version(*def, stored->stamp) : nullptr;
  return decode_stored(
      value, def->api_version(version == nullptr ? def->storage_version().name : version->name),
      def->kind, revision);
}

/// @param resource  as store keys name it.
Expected<store::Entry> read(const store::Store& store, std::string_view resource,
                            std::string_view cluster, std::string_view ns, std::string_view name) {
  const std::optional<std::string> key = object_key(resource, cluster, ns, name);
  return key ? store.get(*key) : Expected<store::Entry>(fail(Errc::kNotFound));
}

std::string stored_name(const ResourcePtr& def, std::string_view group, std::string_view resource) {
  return def == nullptr ? stored_resource(group, resource) : storage_name(*def);
}

}  // namespace

Expected<store::Entry> StoreReader::find(std::string_view cluster, std::string_view group,
                                         std::string_view resource, std::string_view ns,
                                         std::string_view name) const {
  const ResourcePtr def = registry_.find(cluster, group, resource);
  return read(store_, stored_name(def, group, resource), cluster, ns, name);
}

std::optional<krm::Json> StoreReader::get(std::string_view cluster, std::string_view group,
                                          std::string_view resource, std::string_view ns,
                                          std::string_view name) const {
  const ResourcePtr def = registry_.find(cluster, group, resource);
  const Expected<store::Entry> entry =
      read(store_, stored_name(def, group, resource), cluster, ns, name);
  if (!entry) {
    return std::nullopt;
  }
  Expected<krm::Json> object = decode(def, entry->value.view(), entry->modified);
  if (!object) {
    log_error("stored object is corrupt", {{"cluster", cluster},
                                           {"resource", stored_resource(group, resource)},
                                           {"namespace", ns},
                                           {"name", name}});
    return std::nullopt;
  }
  return std::move(*object);
}

void StoreReader::list(std::string_view cluster, std::string_view group, std::string_view resource,
                       std::string_view ns,
                       const std::function<bool(const krm::Json&)>& visit) const {
  ResourcePtr def = cluster == "*" ? nullptr : registry_.find(cluster, group, resource);
  const std::string storage = stored_name(def, group, resource);
  std::string def_cluster(cluster);
  const auto read = [&](const store::EntryView& entry) {
    const std::optional<KeyParts> parts = parse_key(entry.key);
    if (!parts || (!ns.empty() && parts->ns != ns)) {
      return true;
    }
    if (cluster == "*" && def_cluster != parts->cluster) {
      def_cluster = parts->cluster;
      def = registry_.find(def_cluster, group, resource);
    }
    const Expected<krm::Json> object = decode(def, entry.value, entry.modified);
    if (!object) {
      log_error("stored object is corrupt",
                {{"key", position_of(entry.key)}, {"resource", storage}});
      return true;
    }
    return visit(*object);
  };
  const Expected<store::Revision> done =
      store_.range({collection_prefix(storage, cluster, ns), "", 0}, read);
  if (!done) {
    log_error("cannot read objects",
              {{"resource", storage}, {"errc", errc_name(done.error().code())}});
  }
}

}  // namespace kintsugi::apiserver::internal
