#pragma once

#include <cstddef>
#include <optional>
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

/// Extras of identities that hold in some logical clusters only.
inline constexpr std::string_view kExtraScopes = "authentication.kcp.io/scopes";
inline constexpr std::string_view kExtraClusterName = "authentication.kcp.io/cluster-name";
inline constexpr std::string_view kExtraCredentialId = "authentication.kubernetes.io/credential-id";

/// What a credential may bring (SE-087): an identity beyond these is none, and the answer is 401.
inline constexpr std::size_t kMostGroups = 1'000;
inline constexpr std::size_t kMostExtraBytes = 64 * 1024;  ///< keys and values of all extras
inline constexpr std::size_t kMostTokenBytes = 32 * 1024;  ///< of a bearer token
/// Within kMostGroups and kMostExtraBytes. Cost: a pass over the extras.
[[nodiscard]] bool is_within_bounds(const UserInfo& user) noexcept;

[[nodiscard]] UserInfo anonymous_user();

/// What every authenticated identity gains (FP 9.1). Anonymous users and those in
/// system:unauthenticated stay as they are.
void add_authenticated_group(UserInfo& user);

struct ServiceAccountName {
  std::string ns, name;
};
/// "system:serviceaccount:<ns>:<name>" taken apart; nullopt for any other user name.
[[nodiscard]] std::optional<ServiceAccountName> parse_service_account_user(std::string_view user);
[[nodiscard]] std::string service_account_user(std::string_view ns, std::string_view name);
/// system:serviceaccounts and system:serviceaccounts:<ns>.
[[nodiscard]] std::vector<std::string> service_account_groups(std::string_view ns);

}  // namespace kintsugi::auth
