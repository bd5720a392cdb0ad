#include "krm/types/internal/tables.h"

namespace kintsugi::krm {

std::string_view authorization_types() {
  return R"(
SubjectAccessReview kind authorization.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 SubjectAccessReviewSpec always
  status 3 SubjectAccessReviewStatus always
SubjectAccessReviewSpec
  resourceAttributes 1 *ResourceAttributes
  nonResourceAttributes 2 *NonResourceAttributes
  user 3 string
  groups 4 []string
  extra 5 map:wrapped
  uid 6 string
ResourceAttributes
  namespace 1 string
  verb 2 string
  group 3 string
  version 4 string
  resource 5 string
  subresource 6 string
  name 7 string
  fieldSelector 8 *FieldSelectorAttributes
  labelSelector 9 *LabelSelectorAttributes
FieldSelectorAttributes
  rawSelector 1 string
  requirements 2 []FieldSelectorRequirement
FieldSelectorRequirement
  key 1 string always
  operator 2 string always
  values 3 []string
LabelSelectorAttributes
  rawSelector 1 string
  requirements 2 []LabelSelectorRequirement
NonResourceAttributes
  path 1 string
  verb 2 string
SubjectAccessReviewStatus
  allowed 1 bool always
  denied 4 bool
  reason 2 string
  evaluationError 3 string
SelfSubjectAccessReview kind authorization.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 SelfSubjectAccessReviewSpec always
  status 3 SubjectAccessReviewStatus always
SelfSubjectAccessReviewSpec
  resourceAttributes 1 *ResourceAttributes
  nonResourceAttributes 2 *NonResourceAttributes
LocalSubjectAccessReview kind authorization.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 SubjectAccessReviewSpec always
  status 3 SubjectAccessReviewStatus always
SelfSubjectRulesReview kind authorization.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 SelfSubjectRulesReviewSpec always
  status 3 SubjectRulesReviewStatus always
SelfSubjectRulesReviewSpec
  namespace 1 string
SubjectRulesReviewStatus
  resourceRules 1 []ResourceRule always
  nonResourceRules 2 []NonResourceRule always
  incomplete 3 bool always
  evaluationError 4 string
ResourceRule
  verbs 1 []string always
  apiGroups 2 []string
  resources 3 []string
  resourceNames 4 []string
NonResourceRule
  verbs 1 []string always
  nonResourceURLs 2 []string
)";
}

std::string_view authentication_types() {
  return R"(
SelfSubjectReview kind authentication.k8s.io/v1
  metadata 1 ObjectMeta always
  status 2 SelfSubjectReviewStatus always
SelfSubjectReviewStatus
  userInfo 1 UserInfo always
UserInfo
  username 1 string
  uid 2 string
  groups 3 []string
  extra 4 map:wrapped
TokenReview kind authentication.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 TokenReviewSpec always
  status 3 TokenReviewStatus always
TokenReviewSpec
  token 1 string
  audiences 2 []string
TokenReviewStatus
  authenticated 1 bool
  user 2 UserInfo always
  audiences 4 []string
  error 3 string
TokenRequest kind authentication.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 TokenRequestSpec always
  status 3 TokenRequestStatus always
TokenRequestSpec
  audiences 1 []string always
  expirationSeconds 4 *int64 always
  boundObjectRef 3 *BoundObjectReference always
BoundObjectReference
  kind 1 string
  apiVersion 2 string
  name 3 string
  uid 4 string
TokenRequestStatus
  token 1 string always
  expirationTimestamp 2 Time always
)";
}

}  // namespace kintsugi::krm
