#include "auth/reserved_identity.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "auth/effective_users.h"

namespace kintsugi::auth {
namespace {

enum Kind : std::size_t {
  kAdministrators,
  kLifecycle,
  kPolicies,
  kClusters,
  kOwnRoles,
  kWarrants,
  kExtras,
  kUsers,
  kKinds,
  kNone = kKinds
};
constexpr std::array<std::string_view, kKinds> kNames = {
    "admin_group", "lifecycle_group", "policy_group", "cluster_group",
    "own_group",   "warrant",         "extra",        "system_user"};

std::array<std::atomic<std::uint64_t>, kKinds>& counters() {
  static std::array<std::atomic<std::uint64_t>, kKinds> counts{};
  return counts;
}

void count(Kind kind) noexcept { counters()[kind].fetch_add(1, std::memory_order_relaxed); }

/// Entries are exact or `prefix*`.
struct ReservedGroup {
  std::string_view pattern;
  Kind kind;
  bool for_peer_certificates, for_peer_headers;
};
constexpr std::array<ReservedGroup, 8> kGroups = {{
    {kGroupLogicalClusterAdmin, kAdministrators, false, false},
    {kGroupExternalLogicalClusterAdmin, kAdministrators, true, true},
    {kGroupBootstrapper, kAdministrators, true, true},
    {"system:kcp:initializer:*", kLifecycle, false, false},
    {"system:kcp:terminator:*", kLifecycle, false, false},
    {"apis.kcp.io:*", kPolicies, false, true},
    {"system:cluster:*", kClusters, false, true},
    {"system:kintsugi:*", kOwnRoles, false, true},
}};

bool matches(std::string_view text, std::string_view pattern) noexcept {
  return pattern.ends_with('*') ? text.starts_with(pattern.substr(0, pattern.size() - 1))
                                : text == pattern;
}

Kind kind_of_group(std::string_view group, IdentityOrigin origin, bool is_peer) noexcept {
  for (const ReservedGroup& one : kGroups) {
    if (matches(group, one.pattern)) {
      const bool kept =
          is_peer && (origin == IdentityOrigin::kRequestHeader
                          ? one.for_peer_headers
                          : origin == IdentityOrigin::kCertificate && one.for_peer_certificates);
      return kept ? kNone : one.kind;
    }
  }
  return kNone;
}

Kind kind_of_extra(std::string_view key, IdentityOrigin origin, bool is_peer) noexcept {
  const bool by_header = origin == IdentityOrigin::kRequestHeader;
  if (by_header && is_peer) {
    return kNone;
  }
  if (key == kExtraWarrant) {
    return kWarrants;
  }
  if (origin == IdentityOrigin::kOwnToken || (by_header && key == kExtraScopes)) {
    return kNone;
  }
  const std::string_view domain = key.substr(0, key.find('/'));
  return domain == "kcp.io" || domain.ends_with(".kcp.io") ? kExtras : kNone;
}

}  // namespace

bool BorderRules::is_peer(std::string_view common_name) const noexcept {
  return std::find(peers.begin(), peers.end(), common_name) != peers.end();
}

bool BorderRules::may_be_named(std::string_view user) const noexcept {
  return !user.starts_with("system:") ||
         std::any_of(system_users.begin(), system_users.end(),
                     [&](const std::string& pattern) { return matches(user, pattern); });
}

void drop_reserved(UserInfo& user, IdentityOrigin origin, bool is_peer) {
  const auto drops = [](Kind kind) {
    if (kind != kNone) {
      count(kind);
    }
    return kind != kNone;
  };
  std::erase_if(user.groups, [&](const std::string& group) {
    return drops(kind_of_group(group, origin, is_peer));
  });
  std::erase_if(user.extra, [&](const auto& extra) {
    return drops(kind_of_extra(extra.first, origin, is_peer));
  });
}

std::vector<DroppedCount> dropped_counts() {
  std::vector<DroppedCount> out;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    out.push_back({kNames[kind], counters()[kind].load(std::memory_order_relaxed)});
  }
  return out;
}

void count_refused_user() noexcept { count(kUsers); }

}  // namespace kintsugi::auth
