#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kinds/rbac/internal/rbac_rules.h"

/// The policy that every logical cluster has without storing it: the ClusterRoles of Kubernetes and
/// kcp that bindings may refer to, and the bindings of the groups that every user is in, of
/// administrators and of kcp's own components.
/// Source: AM-449, AM-491, 15.2 of kcp's rows; workspaces show none of these as objects, a shard's
/// own cluster does.
namespace kintsugi::kinds {

/// Bits of roles that others are gathered into by labels
/// rbac.authorization.k8s.io/aggregate-to-{admin,edit,view}: "true".
inline constexpr std::uint8_t kToNone = 0;
inline constexpr std::uint8_t kToView = 1;
inline constexpr std::uint8_t kToEdit = 2;
inline constexpr std::uint8_t kToAdmin = 4;

struct BootstrapRole {
  std::string name;
  PolicyRules rules;
  std::uint8_t gathers = kToNone;  ///< labelled roles of the cluster add to it
};

/// nullptr: no such role. Threads: any.
[[nodiscard]] const BootstrapRole* bootstrap_role(std::string_view name);
[[nodiscard]] const std::vector<BootstrapRole>& bootstrap_roles();
/// Bindings in force in every logical cluster.
[[nodiscard]] const std::vector<Binding>& bootstrap_bindings();
/// @{ In force besides in logical clusters that are open, and in those that everybody may read
/// (RbacParams). What the first ones say is asked of reviews; admission knows it by itself.
[[nodiscard]] const std::vector<Binding>& bootstrap_open_bindings();
[[nodiscard]] const std::vector<Binding>& bootstrap_reader_bindings();
/// @}

/// The roles, then the bindings that are in force everywhere, as objects (KK-314).
[[nodiscard]] std::vector<krm::Json> bootstrap_policy_objects();

/// Which of the three roles a ClusterRole's labels add it to.
[[nodiscard]] std::uint8_t aggregation_labels(const krm::Json& cluster_role);

inline constexpr std::string_view kWorkspaceAccessRole = "system:kcp:workspace:access";

}  // namespace kintsugi::kinds
