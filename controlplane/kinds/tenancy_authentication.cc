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
   "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
    "spec": {"type": "object", "required": ["jwt"], "properties": {
     "jwt": {"type": "array", "items": {"type": "object", "required": ["claimMappings", "issuer"], "properties": {
      "issuer": {"type": "object", "required": ["url"], "properties": {
       "url": {"type": "string"}, "discoveryURL": {"type": "string"}, "certificateAuthority": {"type": "string"},
       "audiences": {"type": "array", "items": {"type": "string"}},
       "audienceMatchPolicy": {"type": "string"}}},
      "claimValidationRules": {"type": "array", "items": {"type": "object",
       "x-kubernetes-validations": [
        {"rule": "has(self.claim) || has(self.expression)", "message": "either claim or expression must be specified"},
        {"rule": "!(has(self.claim) && has(self.expression))", "message": "claim and expression cannot both be specified"},
        {"rule": "(has(self.expression) && !has(self.requiredValue)) || (has(self.claim) && has(self.requiredValue))",
         "message": "requiredValue can only be specified when claim is specified"},
        {"rule": "(has(self.expression) && has(self.message)) || (has(self.claim) && !has(self.message))",
         "message": "message can only be specified when expression is specified"}],
       "properties": {"claim": {"type": "string", "minLength": 1}, "requiredValue": {"type": "string", "minLength": 1},
        "expression": {"type": "string", "minLength": 1}, "message": {"type": "string", "minLength": 1}}}},
      "claimMappings": {"type": "object",
       "properties": {"username": $mapping, "groups": $mapping,
        "uid": {"type": "object",
         "x-kubernetes-validations": [
          {"rule": "!(has(self.claim) && has(self.expression))", "message": "claim and expression cannot both be specified"}],
         "properties": {"claim": {"type": "string", "minLength": 1}, "expression": {"type": "string", "minLength": 1}}},
        "extra": {"type": "array", "items": {"type": "object", "required": ["key", "valueExpression"],
         "properties": {"key": {"type": "string"}, "valueExpression": {"type": "string"}}}}}},
      "userValidationRules": {"type": "array", "items": {"type": "object", "required": ["expression", "message"],
       "properties": {"expression": {"type": "string"}, "message": {"type": "string"}}}}}}}}}}}}}]}})json";

constexpr std::string_view kMapping = R"json({"type": "object",
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
