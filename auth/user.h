#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kintsugi::auth {

/// Who asks: what authentication found, after impersonation the effective one.
struct UserInfo {
  std::string name;
  std::string uid;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;  ///< keys in lower case

  [[nodiscard]] bool in_group(std::string_view group) const noexcept;
  [[nodiscard]] const std::vector<std::string>* extra_values(std::string_view key) const noexcept;
  bool operator==(const UserInfo&) const = default;
};

inline constexpr std::string_view kAnonymous = "system:anonymous";
inline constexpr std::string_view kGroupUnauthenticated = "system:unauthenticated";
inline constexpr std::string_view kGroupAuthenticated = "system:authenticated";
inline constexpr std::string_view kGroupMasters = "system:masters";
inline constexpr std::string_view kGroupKcpAdmin = "system:kcp:admin";
inline constexpr std::string_view kGroupExternalLogicalClusterAdmin =
    "system:kcp:external-logical-cluster-admin";

[[nodiscard]] UserInfo anonymous_user();

}  // namespace kintsugi::auth
