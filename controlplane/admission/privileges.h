#pragma once

#include <string_view>

#include "auth/user.h"

/// Who is privileged towards kcp's kinds, by the groups of the effective user themselves.
namespace kintsugi::controlplane {

/// A set of the bits below; 0 is a tenant, the owner of a workspace included.
using Privileges = unsigned;
inline constexpr Privileges kSystem = 1U << 0U;                ///< system:masters, and other shards
inline constexpr Privileges kClusterAdmin = 1U << 1U;          ///< …logical-cluster-admin
inline constexpr Privileges kExternalClusterAdmin = 1U << 2U;  ///< …external-logical-cluster-admin
inline constexpr Privileges kBootstrapper = 1U << 3U;          ///< …workspace-bootstrapper
inline constexpr Privileges kAdmin = 1U << 4U;                 ///< system:kcp:admin
inline constexpr Privileges kEverybody = 1U << 5U;             ///< whoever it is

/// Those whom the rules of logical clusters do not bind (KK-091); administrators are none of them.
inline constexpr Privileges kExempt =
    kSystem | kClusterAdmin | kExternalClusterAdmin | kBootstrapper;

inline constexpr std::string_view kGroupLogicalClusterAdmin = "system:kcp:logical-cluster-admin";
inline constexpr std::string_view kGroupBootstrapper = "system:kcp:tenancy:workspace-bootstrapper";

/// kEverybody and what the groups add. Cost: linear in the groups, no allocation.
[[nodiscard]] Privileges privileges_of(const auth::UserInfo& user) noexcept;

[[nodiscard]] inline bool has_any(const auth::UserInfo& user, Privileges wanted) noexcept {
  return (privileges_of(user) & wanted) != 0;
}

}  // namespace kintsugi::controlplane
