#pragma once

#include <algorithm>
#include <array>
#include <string_view>

/// The API groups of kcp's own kinds, which nobody else may define anything in.
namespace kintsugi::controlplane {

inline constexpr std::array<std::string_view, 6> kKcpGroups = {"apis.kcp.io",    "cache.kcp.io",
                                                               "core.kcp.io",    "migration.kcp.io",
                                                               "tenancy.kcp.io", "topology.kcp.io"};

[[nodiscard]] constexpr bool is_kcp_group(std::string_view group) noexcept {
  return std::find(kKcpGroups.begin(), kKcpGroups.end(), group) != kKcpGroups.end();
}

/// KK-223: groups that no CustomResourceDefinition and no APIResourceSchema may have: those above,
/// `kcp.io`, and whatever ends with `apis.kcp.io`. Other groups below kcp.io are free.
[[nodiscard]] constexpr bool is_reserved_group(std::string_view group) noexcept {
  return group == "kcp.io" || group.ends_with("apis.kcp.io") || is_kcp_group(group);
}

}  // namespace kintsugi::controlplane
