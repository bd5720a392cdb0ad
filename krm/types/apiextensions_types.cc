#include "krm/types/internal/tables.h"

namespace kintsugi::krm {

std::string_view apiextensions_types() {
  return R"(
CustomResourceDefinition kind apiextensions.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 CustomResourceDefinitionSpec always
  status 3 CustomResourceDefinitionStatus always
CustomResourceDefinitionSpec
  group 1 string always
  names 3 CustomResourceDefinitionNames always
  scope 4 string always
  versions 7 []CustomResourceDefinitionVersion always keep
  conversion 9 *CustomResourceConversion
  preserveUnknownFields 10 bool
CustomResourceDefinitionNames
  plural 1 string always
  singular 2 string
  shortNames 3 []string
  kind 4 string always
  listKind 5 string
  categories 6 []string
CustomResourceDefinitionVersion
  name 1 string always
  served 2 bool always
  storage 3 bool always
  deprecated 7 bool
  deprecationWarning 8 *string
  schema 4 *CustomResourceValidation
  subresources 5 *CustomResourceSubresources
  additionalPrinterColumns 6 []CustomResourceColumnDefinition
  selectableFields 9 []SelectableField
CustomResourceValidation
  openAPIV3Schema 1 *JSONSchemaProps
JSONSchemaProps
  id 1 string
  $schema 2 string
  $ref 3 *string
  description 4 string
  type 5 string
  format 6 string
  title 7 string
  default 8 *raw
  maximum 9 *float64
  exclusiveMaximum 10 bool
  minimum 11 *float64
  exclusiveMinimum 12 bool
  maxLength 13 *int64
  minLength 14 *int64
  pattern 15 string
  maxItems 16 *int64
  minItems 17 *int64
  uniqueItems 18 bool
  multipleOf 19 *float64
  enum 20 []raw
  maxProperties 21 *int64
  minProperties 22 *int64
  required 23 []string
  items 24 *SchemaOrArray
  allOf 25 []JSONSchemaProps
  oneOf 26 []JSONSchemaProps
  anyOf 27 []JSONSchemaProps
  not 28 *JSONSchemaProps
  properties 29 map:JSONSchemaProps
  additionalProperties 30 *SchemaOrBool
  patternProperties 31 map:JSONSchemaProps
  dependencies 32 map:SchemaOrNames
  additionalItems 33 *SchemaOrBool
  definitions 34 map:JSONSchemaProps
  externalDocs 35 *ExternalDocumentation
  example 36 *raw
  nullable 37 bool
  x-kubernetes-preserve-unknown-fields 38 *bool
  x-kubernetes-embedded-resource 39 bool
  x-kubernetes-int-or-string 40 bool
  x-kubernetes-list-map-keys 41 []string
  x-kubernetes-list-type 42 *string
  x-kubernetes-map-type 43 *string
  x-kubernetes-validations 44 []ValidationRule merge=rule map=rule
ExternalDocumentation
  description 1 string
  url 2 string
ValidationRule
  rule 1 string always
  message 2 string
  messageExpression 3 string
  reason 4 *string
  fieldPath 5 string
  optionalOldSelf 6 *bool
CustomResourceSubresources
  status 1 *CustomResourceSubresourceStatus
  scale 2 *CustomResourceSubresourceScale
CustomResourceSubresourceStatus
CustomResourceSubresourceScale
  specReplicasPath 1 string always
  statusReplicasPath 2 string always
  labelSelectorPath 3 *string
CustomResourceColumnDefinition
  name 1 string always
  type 2 string always
  format 3 string
  description 4 string
  priority 5 int32
  jsonPath 6 string always
SelectableField
  jsonPath 1 string always
CustomResourceConversion
  strategy 1 string always
  webhook 2 *WebhookConversion
WebhookConversion
  clientConfig 2 *WebhookClientConfig
  conversionReviewVersions 3 []string always keep
WebhookClientConfig
  url 3 *string
  service 1 *ServiceReference
  caBundle 2 bytes
ServiceReference
  namespace 1 string always
  name 2 string always
  path 3 *string
  port 4 *int32
CustomResourceDefinitionStatus
  conditions 1 []CustomResourceDefinitionCondition always map=type keep
  acceptedNames 2 CustomResourceDefinitionNames always
  storedVersions 3 []string always keep
  observedGeneration 4 int64
CustomResourceDefinitionCondition
  type 1 string always
  status 2 string always
  lastTransitionTime 3 Time always
  reason 4 string
  message 5 string
  observedGeneration 6 int64
)";
}

}  // namespace kintsugi::krm
