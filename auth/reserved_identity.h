#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "auth/user.h"

/// Groups and extras that only the system gives: they never come in from clients.
/// Source: KK-282, KK-325, KK-329, SE-052.
namespace kintsugi::auth {

/// Whose identities may be more than a client's.
struct BorderRules {
  /// Common names of peers: their certificates may be in the groups that administer logical
  /// clusters from outside, and what they assert by headers is taken as it is, but for lifecycle
  /// groups and system:kcp:logical-cluster-admin.
  std::vector<std::string> peers{"external-logical-cluster-admin", "kcp-mounts-proxy"};
  /// User names system:* that token files and issuers may give; entries are exact or `prefix*`.
  std::vector<std::string> system_users;
  bool operator==(const BorderRules&) const = default;

  [[nodiscard]] bool is_peer(std::string_view common_name) const noexcept;
  /// False: a user of the system that nobody has allowed.
  [[nodiscard]] bool may_be_named(std::string_view user) const noexcept;
};

/// How an identity came in.
enum class IdentityOrigin : std::uint8_t {
  kCertificate,
  kRequestHeader,
  kToken,     ///< of somebody else: token files, issuers, webhooks
  kOwnToken,  ///< ServiceAccounts, issuers of workspaces: the extras are ours
};

/// Removes what the identity must not have brought, and counts it. Scopes that a proxy asserts stay
/// in any case, since they only narrow. Threads: any.
void drop_reserved(UserInfo& user, IdentityOrigin origin, bool is_peer);

/// What was dropped since the process began, by kind. Threads: any.
struct DroppedCount {
  std::string_view kind;
  std::uint64_t count = 0;
};
[[nodiscard]] std::vector<DroppedCount> dropped_counts();
/// Counts a user whom BorderRules::may_be_named refused.
void count_refused_user() noexcept;

}  // namespace kintsugi::auth
