#include "controlplane/kinds/kcp_kinds.h"

namespace kintsugi::controlplane {
namespace {

constexpr std::string_view kDocument = R"json({
"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
"metadata": {"name": "workspaceauthenticationconfigurations.tenancy.kcp.io"},
"spec": {"group": "tenancy.kcp.io", "scope": "Cluster",
 "names": {"plural": "workspaceauthenticationconfigurations", "singular": "workspaceauthenticationconfiguration",
  "kind": "WorkspaceAuthenticationConfiguration", "listKind": "WorkspaceAuthenticationConfigurationList", "categories": ["kcp"]},
 "versions": [{"name": "v1alpha1", "served": true, "storage": true,
  "schema": {"openAPIV3Schema": {"type": "object", "required": ["metadata", "spec"],
   "description": "WorkspaceAuthenticationConfiguration specifies additional authentication options\nfor workspaces.",
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["jwt"], "properties": {
     "jwt": {"type": "array", "items": {"type": "object", "required": ["claimMappings", "issuer"], "properties": {
      "issuer": {"type": "object", "required": ["url"],
       "description": "Issuer provides the configuration for an external provider's specific settings.", "properties": {
       "url": {"type": "string"}, "discoveryURL": {"type": "string"}, "certificateAuthority": {"type": "string"},
       "audiences": {"type": "array", "items": {"type": "string"}},
       "audienceMatchPolicy": {"type": "string",
        "description": "AudienceMatchPolicyType is a set of valid values for Issuer.AudienceMatchPolicy."}}},
      "claimValidationRules": {"type": "array", "items": {"type": "object",
       "description": "ClaimValidationRule provides the configuration for a single claim validation rule.",
       "x-kubernetes-validations": [
        {"rule": "has(self.claim) || has(self.expression)", "message": "either claim or expression must be specified"},
        {"rule": "!(has(self.claim) && has(self.expression))", "message": "claim and expression cannot both be specified"},
        {"rule": "(has(self.expression) && !has(self.requiredValue)) || (has(self.claim) && has(self.requiredValue))",
         "message": "requiredValue can only be specified when claim is specified"},
        {"rule": "(has(self.expression) && has(self.message)) || (has(self.claim) && !has(self.message))",
         "message": "message can only be specified when expression is specified"}],
       "properties": {"claim": {"type": "string", "minLength": 1}, "requiredValue": {"type": "string", "minLength": 1},
        "expression": {"type": "string", "minLength": 1}, "message": {"type": "string", "minLength": 1}}}},
      "claimMappings": {"type": "object", "description": "ClaimMappings provides the configuration for claim mapping.",
       "properties": {"username": $mapping, "groups": $mapping,
        "uid": {"type": "object", "description": "ClaimOrExpression provides the configuration for a single claim or expression.",
         "x-kubernetes-validations": [
          {"rule": "!(has(self.claim) && has(self.expression))", "message": "claim and expression cannot both be specified"}],
         "properties": {"claim": {"type": "string", "minLength": 1}, "expression": {"type": "string", "minLength": 1}}},
        "extra": {"type": "array", "items": {"type": "object", "required": ["key", "valueExpression"],
         "description": "ExtraMapping provides the configuration for a single extra mapping.",
         "properties": {"key": {"type": "string"}, "valueExpression": {"type": "string"}}}}}},
      "userValidationRules": {"type": "array", "items": {"type": "object", "required": ["expression", "message"],
       "description": "UserValidationRule provides the configuration for a single user validation rule.",
       "properties": {"expression": {"type": "string"}, "message": {"type": "string"}}}}}}}}}}}}}]}})json";

constexpr std::string_view kMapping = R"json({"type": "object",
 "description": "PrefixedClaimOrExpression provides the configuration for a single prefixed claim or expression.",
 "x-kubernetes-validations": [
  {"rule": "has(self.claim) || has(self.expression)", "message": "either claim or expression must be specified"},
  {"rule": "!(has(self.claim) && has(self.expression))", "message": "claim and expression cannot both be specified"},
  {"rule": "!(has(self.prefix)) || has(self.claim)", "message": "prefix can only be specified when claim is specified"}],
 "properties": {"claim": {"type": "string", "minLength": 1}, "prefix": {"type": "string"},
  "expression": {"type": "string", "minLength": 1}}})json";

}  // namespace

apiserver::ResourcePtr workspace_authentication_kind() {
  static const apiserver::ResourcePtr kKind = [] {
    constexpr std::string_view kMark = "$mapping";
    std::string text(kDocument);
    for (std::size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark)) {
      text.replace(at, kMark.size(), kMapping);
    }
    return std::make_shared<const apiserver::ResourceDef>(resource_from_document(text));
  }();
  return kKind;
}

}  // namespace kintsugi::controlplane
