#include "workers/messaging/control/internal/cached.h"

#include "base/strings.h"
#include "workers/messaging/control/internal/packed_text.h"

namespace kintsugi::workers {

bool CachedMeta::has_finalizer(std::string_view finalizer) const noexcept {
  std::string_view rest = finalizers;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    if (rest.substr(0, comma) == finalizer) {
      return true;
    }
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return false;
}

krm::Json CachedMeta::object(const ObjectIdentity& id) const {
  krm::Json out;
  krm::Json& metadata = out["metadata"];
  metadata["uid"] = id.uid;
  if (deleting) {
    metadata["deletionTimestamp"] = "1970-01-01T00:00:00Z";
  }
  if (!finalizers.empty()) {
    krm::Json list = krm::Json::array();
    std::string_view rest = finalizers;
    for (;;) {
      const std::size_t comma = rest.find(',');
      list.push_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) {
        break;
      }
      rest = rest.substr(comma + 1);
    }
    metadata["finalizers"] = std::move(list);
  }
  return out;
}

CachedMeta cached_meta(const krm::Json& object) {
  CachedMeta out;
  out.resource_version = object.text({"metadata", "resourceVersion"});
  out.deleting = object.at({"metadata", "deletionTimestamp"}) != nullptr;
  if (const krm::Json* finalizers = object.at({"metadata", "finalizers"})) {
    for (const krm::Json& one : finalizers->items()) {
      out.finalizers.append(out.finalizers.empty() ? "" : ",").append(one.as_string());
    }
  }
  return out;
}

std::optional<Key> bound_infra(const krm::Json& status) {
  const krm::Json* const infra = status.find("infra");
  if (infra == nullptr || infra->text({"name"}).empty()) {
    return std::nullopt;
  }
  return Key{std::string(infra->text({"cluster"})), std::string(infra->text({"namespace"})),
             std::string(infra->text({"name"}))};
}

std::string packed_status(const krm::Json& status) { return pack_text(status.dump()); }

krm::Json parsed_status(std::string_view packed) {
  if (packed.empty()) {
    return krm::Json::object();
  }
  Expected<krm::Json> status = krm::Json::parse(unpack_text(packed));
  return status ? std::move(*status) : krm::Json::object();
}

}  // namespace kintsugi::workers
