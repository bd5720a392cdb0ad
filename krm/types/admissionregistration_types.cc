#include "krm/types/internal/tables.h"

namespace kintsugi::krm {

std::string_view admissionregistration_types() {
  return R"(
ValidatingAdmissionPolicy kind admissionregistration.k8s.io/v1 kind admissionregistration.k8s.io/v1beta1
  metadata 1 ObjectMeta always
  spec 2 ValidatingAdmissionPolicySpec always
  status 3 ValidatingAdmissionPolicyStatus always
ValidatingAdmissionPolicySpec
  paramKind 1 *ParamKind
  matchConstraints 2 *MatchResources
  validations 3 []Validation
  failurePolicy 4 *string
  auditAnnotations 5 []AuditAnnotation
  matchConditions 6 []MatchCondition merge=name map=name
  variables 7 []Variable merge=name map=name
ParamKind atomic
  apiVersion 1 string
  kind 2 string
MatchResources atomic
  namespaceSelector 1 *LabelSelector
  objectSelector 2 *LabelSelector
  resourceRules 3 []NamedRuleWithOperations
  excludeResourceRules 4 []NamedRuleWithOperations
  matchPolicy 7 *string
NamedRuleWithOperations atomic
  resourceNames 1 []string
  operations 2.1 []string
  apiGroups 2.2.1 []string
  apiVersions 2.2.2 []string
  resources 2.2.3 []string
  scope 2.2.4 *string
Validation
  expression 1 string always
  message 2 string
  reason 3 *string
  messageExpression 4 string
AuditAnnotation
  key 1 string always
  valueExpression 2 string always
MatchCondition
  name 1 string always
  expression 2 string always
Variable atomic
  name 1 string always
  expression 2 string always
ValidatingAdmissionPolicyStatus
  observedGeneration 1 int64
  typeChecking 2 *TypeChecking
  conditions 3 []Condition map=type
TypeChecking
  expressionWarnings 1 []ExpressionWarning
ExpressionWarning
  fieldRef 2 string always
  warning 3 string always
Condition
  type 1 string always
  status 2 string always
  observedGeneration 3 int64
  lastTransitionTime 4 Time always
  reason 5 string always
  message 6 string always
ValidatingAdmissionPolicyBinding kind admissionregistration.k8s.io/v1 kind admissionregistration.k8s.io/v1beta1
  metadata 1 ObjectMeta always
  spec 2 ValidatingAdmissionPolicyBindingSpec always
ValidatingAdmissionPolicyBindingSpec
  policyName 1 string
  paramRef 2 *ParamRef
  matchResources 3 *MatchResources
  validationActions 4 []string set
ParamRef atomic
  name 1 string
  namespace 2 string
  selector 3 *LabelSelector
  parameterNotFoundAction 4 *string
MutatingAdmissionPolicy kind admissionregistration.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 MutatingAdmissionPolicySpec always
MutatingAdmissionPolicySpec
  paramKind 1 *ParamKind
  matchConstraints 2 *MatchResources
  variables 3 []Variable
  mutations 4 []Mutation
  failurePolicy 5 *string
  matchConditions 6 []MatchCondition merge=name map=name
  reinvocationPolicy 7 string
Mutation
  patchType 2 string always
  applyConfiguration 3 *ApplyConfiguration
  jsonPatch 4 *JSONPatch
ApplyConfiguration
  expression 1 string
JSONPatch
  expression 1 string
MutatingAdmissionPolicyBinding kind admissionregistration.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 MutatingAdmissionPolicyBindingSpec always
MutatingAdmissionPolicyBindingSpec
  policyName 1 string
  paramRef 2 *ParamRef
  matchResources 3 *MatchResources
MutatingWebhookConfiguration kind admissionregistration.k8s.io/v1
  metadata 1 ObjectMeta always
  webhooks 2 []MutatingWebhook merge=name map=name
MutatingWebhook
  name 1 string always
  clientConfig 2 WebhookClientConfig always
  rules 3 []RuleWithOperations
  failurePolicy 4 *string
  matchPolicy 9 *string
  namespaceSelector 5 *LabelSelector
  objectSelector 11 *LabelSelector
  sideEffects 6 *string always
  timeoutSeconds 7 *int32
  admissionReviewVersions 8 []string always
  reinvocationPolicy 10 *string
  matchConditions 12 []MatchCondition merge=name map=name
ValidatingWebhookConfiguration kind admissionregistration.k8s.io/v1
  metadata 1 ObjectMeta always
  webhooks 2 []ValidatingWebhook merge=name map=name
ValidatingWebhook
  name 1 string always
  clientConfig 2 WebhookClientConfig always
  rules 3 []RuleWithOperations
  failurePolicy 4 *string
  matchPolicy 9 *string
  namespaceSelector 5 *LabelSelector
  objectSelector 10 *LabelSelector
  sideEffects 6 *string always
  timeoutSeconds 7 *int32
  admissionReviewVersions 8 []string always
  matchConditions 11 []MatchCondition merge=name map=name
RuleWithOperations
  operations 1 []string
  apiGroups 2.1 []string
  apiVersions 2.2 []string
  resources 2.3 []string
  scope 2.4 *string
)";
}

}  // namespace kintsugi::krm
