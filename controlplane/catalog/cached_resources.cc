#include "controlplane/catalog/cached_resources.h"

#include <algorithm>

#include "controlplane/internal/names.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kCopies = "|cached.";

struct NeverCached {
  std::string_view group, plural;  ///< plural "": all of the group
};
constexpr NeverCached kNeverCached[] = {
    {"", "secrets"},
    {"", "serviceaccounts"},
    {"rbac.authorization.k8s.io", ""},
    {"authentication.k8s.io", ""},
    {"certificates.k8s.io", ""},
};

}  // namespace

std::optional<CachedEntry> cached_entry(const apiserver::ObjectReader& reader,
                                        std::string_view resource, std::string_view cluster,
                                        std::string_view name) {
  if (cluster.empty() || name.empty()) {
    return std::nullopt;
  }
  if (std::optional<krm::Json> own = reader.get(cluster, kCacheGroup, resource, "", name)) {
    return CachedEntry{std::move(*own), true};
  }
  if (std::optional<krm::Json> copy =
          reader.get(cluster, kinds::kReplicaGroup, resource, "", name)) {
    return CachedEntry{std::move(*copy), false};
  }
  return std::nullopt;
}

CachedResource read_cached_resource(const krm::Json& object) {
  return {std::string(object.text({"metadata", "uid"})),
          std::string(object.text({"spec", "group"})),
          std::string(object.text({"spec", "version"})),
          std::string(object.text({"spec", "resource"}))};
}

std::string copies_group(const CachedResource& resource) {
  return resource.group + std::string(kCopies) + resource.uid;
}

std::string_view offered_by(std::string_view stored_resource) noexcept {
  const std::size_t at = stored_resource.find(kCopies);
  return at == std::string_view::npos ? std::string_view()
                                      : stored_resource.substr(at + kCopies.size());
}

bool is_never_cached(std::string_view group, std::string_view plural) noexcept {
  return std::any_of(std::begin(kNeverCached), std::end(kNeverCached), [&](const NeverCached& one) {
    return one.group == group && (one.plural.empty() || one.plural == plural);
  });
}

}  // namespace kintsugi::controlplane
