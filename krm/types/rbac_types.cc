#include "krm/types/internal/tables.h"

namespace kintsugi::krm {

std::string_view rbac_types() {
  return R"(
Role kind rbac.authorization.k8s.io/v1
  metadata 1 ObjectMeta always
  rules 2 []PolicyRule always
PolicyRule
  verbs 1 []string always
  apiGroups 2 []string
  resources 3 []string
  resourceNames 4 []string
  nonResourceURLs 5 []string
RoleBinding kind rbac.authorization.k8s.io/v1
  metadata 1 ObjectMeta always
  subjects 2 []Subject
  roleRef 3 RoleRef always
Subject atomic
  kind 1 string always
  apiGroup 2 string
  name 3 string always
  namespace 4 string
RoleRef atomic
  apiGroup 1 string always
  kind 2 string always
  name 3 string always
ClusterRole kind rbac.authorization.k8s.io/v1
  metadata 1 ObjectMeta always
  rules 2 []PolicyRule always
  aggregationRule 3 *AggregationRule
AggregationRule
  clusterRoleSelectors 1 []LabelSelector
ClusterRoleBinding kind rbac.authorization.k8s.io/v1
  metadata 1 ObjectMeta always
  subjects 2 []Subject
  roleRef 3 RoleRef always
)";
}

}  // namespace kintsugi::krm
