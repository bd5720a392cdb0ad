#include "krm/types/internal/tables.h"

namespace kintsugi::krm {

std::string_view core_types() {
  return R"(
ConfigMap kind v1
  metadata 1 ObjectMeta always
  immutable 4 *bool
  data 2 map:string
  binaryData 3 map:bytes
Secret kind v1
  metadata 1 ObjectMeta always
  immutable 5 *bool
  data 2 map:bytes
  stringData 4 map:string
  type 3 string
Namespace kind v1
  metadata 1 ObjectMeta always
  spec 2 NamespaceSpec always
  status 3 NamespaceStatus always
NamespaceSpec
  finalizers 1 []string
NamespaceStatus
  phase 1 string
  conditions 2 []NamespaceCondition merge=type map=type
NamespaceCondition
  type 1 string always
  status 2 string always
  lastTransitionTime 4 Time always
  reason 5 string
  message 6 string
ServiceAccount kind v1
  metadata 1 ObjectMeta always
  secrets 2 []ObjectReference merge=name map=name
  imagePullSecrets 3 []LocalObjectReference
  automountServiceAccountToken 4 *bool
ObjectReference atomic
  kind 1 string
  namespace 2 string
  name 3 string
  uid 4 string
  apiVersion 5 string
  resourceVersion 6 string
  fieldPath 7 string
LocalObjectReference atomic
  name 1 string
ResourceQuota kind v1
  metadata 1 ObjectMeta always
  spec 2 ResourceQuotaSpec always
  status 3 ResourceQuotaStatus always
ResourceQuotaSpec
  hard 1 map:Quantity
  scopes 2 []string
  scopeSelector 3 *ScopeSelector
ResourceQuotaStatus
  hard 1 map:Quantity
  used 2 map:Quantity
ScopeSelector atomic
  matchExpressions 1 []ScopedResourceSelectorRequirement
ScopedResourceSelectorRequirement
  scopeName 1 string always
  operator 2 string always
  values 3 []string
Event kind v1
  metadata 1 ObjectMeta always
  involvedObject 2 ObjectReference always
  reason 3 string
  message 4 string
  source 5 EventSource always
  firstTimestamp 6 Time always
  lastTimestamp 7 Time always
  count 8 int32
  type 9 string
  eventTime 10 MicroTime always
  series 11 *EventSeries
  action 12 string
  related 13 *ObjectReference
  reportingComponent 14 string always
  reportingInstance 15 string always
EventSource
  component 1 string
  host 2 string
EventSeries
  count 1 int32
  lastObservedTime 2 MicroTime always
)";
}

std::string_view events_types() {
  return R"(
events.Event kind events.k8s.io/v1
  metadata 1 ObjectMeta always
  eventTime 2 MicroTime always
  series 3 *events.EventSeries
  reportingController 4 string
  reportingInstance 5 string
  action 6 string
  reason 7 string
  regarding 8 ObjectReference always
  related 9 *ObjectReference
  note 10 string
  type 11 string
  deprecatedSource 12 EventSource always
  deprecatedFirstTimestamp 13 Time always
  deprecatedLastTimestamp 14 Time always
  deprecatedCount 15 int32
events.EventSeries
  count 1 int32 always
  lastObservedTime 2 MicroTime always
)";
}

std::string_view coordination_types() {
  return R"(
Lease kind coordination.k8s.io/v1
  metadata 1 ObjectMeta always
  spec 2 LeaseSpec always
LeaseSpec
  holderIdentity 1 *string
  leaseDurationSeconds 2 *int32
  acquireTime 3 *MicroTime
  renewTime 4 *MicroTime
  leaseTransitions 5 *int32
  strategy 6 *string
  preferredHolder 7 *string
)";
}

}  // namespace kintsugi::krm
