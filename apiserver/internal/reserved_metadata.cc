#include "apiserver/internal/reserved_metadata.h"

#include <string_view>

#include "krm/go_text.h"

namespace kintsugi::apiserver::internal {
namespace {

bool is_reserved(std::string_view key) noexcept {
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos) {
    return false;
  }
  const std::string_view domain = key.substr(0, slash);
  return (domain.starts_with("internal.") && domain.ends_with("kcp.io")) ||
         domain.ends_with(".core.kcp.io");
}

bool may_change(const auth::UserInfo& user) noexcept {
  return user.in_group(auth::kGroupMasters) || user.in_group(auth::kGroupKcpAdmin) ||
         user.in_group(auth::kGroupExternalLogicalClusterAdmin);
}

/// First reserved key of `map` that `other` does not have with the same value.
std::optional<std::string_view> first_difference(const krm::Json* map, const krm::Json* other) {
  if (map == nullptr || !map->is_object()) {
    return std::nullopt;
  }
  for (const krm::JsonMember& member : map->members()) {
    const std::string_view key = member.key;
    const krm::Json* twin = other == nullptr ? nullptr : other->find(key);
    if (is_reserved(key) && (twin == nullptr || !(*twin == member.value))) {
      return key;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> reserved_metadata_change(const auth::UserInfo& user,
                                                    const krm::Json& object, const krm::Json* old) {
  if (may_change(user)) {
    return std::nullopt;
  }
  for (const auto& [member, shown] :
       {std::pair<std::string_view, std::string_view>{"annotations", "annotation"},
        std::pair<std::string_view, std::string_view>{"labels", "label"}}) {
    const krm::Json* now = object.at({"metadata", member});
    const krm::Json* before = old == nullptr ? nullptr : old->at({"metadata", member});
    std::optional<std::string_view> key = first_difference(before, now);
    if (!key) {
      key = first_difference(now, before);
    }
    if (key) {
      return "modification of reserved " + std::string(shown) + ": " + krm::go_quote(*key);
    }
  }
  return std::nullopt;
}

}  // namespace kintsugi::apiserver::internal
