#include "krm/types/internal/tables.h"

namespace kintsugi::krm {

std::string_view meta_types() {
  return R"(
ObjectMeta
  name 1 string
  generateName 2 string
  namespace 3 string
  selfLink 4 string
  uid 5 string
  resourceVersion 6 string
  generation 7 int64
  creationTimestamp 8 Time
  deletionTimestamp 9 *Time
  deletionGracePeriodSeconds 10 *int64
  labels 11 map:string
  annotations 12 map:string
  ownerReferences 13 []OwnerReference merge=uid map=uid
  finalizers 14 []string merge set
  managedFields 17 []ManagedFieldsEntry keep
OwnerReference atomic
  apiVersion 5 string always
  kind 1 string always
  name 3 string always
  uid 4 string always
  controller 6 *bool
  blockOwnerDeletion 7 *bool
ManagedFieldsEntry
  manager 1 string
  operation 2 string
  apiVersion 3 string
  time 4 *Time
  fieldsType 6 string
  fieldsV1 7 *raw
  subresource 8 string
ListMeta
  selfLink 1 string
  resourceVersion 2 string
  continue 3 string
  remainingItemCount 4 *int64
  shardInfo 5 *ShardInfo
ShardInfo
  selector 1 string always
Status kind v1
  metadata 1 ListMeta always
  status 2 string
  message 3 string
  reason 4 string
  details 5 *StatusDetails
  code 6 int32
StatusDetails
  name 1 string
  group 2 string
  kind 3 string
  uid 6 string
  causes 4 []StatusCause
  retryAfterSeconds 5 int32
StatusCause
  reason 1 string
  message 2 string
  field 3 string
DeleteOptions kind v1
  gracePeriodSeconds 1 *int64
  preconditions 2 *Preconditions
  orphanDependents 3 *bool
  propagationPolicy 4 *string
  dryRun 5 []string
  ignoreStoreReadErrorWithClusterBreakingPotential 6 *bool
Preconditions
  uid 1 *string
  resourceVersion 2 *string
LabelSelector atomic
  matchLabels 1 map:string
  matchExpressions 2 []LabelSelectorRequirement
LabelSelectorRequirement
  key 1 string always
  operator 2 string always
  values 3 []string
PartialObjectMetadata kind meta.k8s.io/v1
  metadata 1 ObjectMeta always
APIVersions kind v1
  versions 1 []string always
  serverAddressByClientCIDRs 2 []ServerAddressByClientCIDR always
ServerAddressByClientCIDR
  clientCIDR 1 string always
  serverAddress 2 string always
APIGroupList kind v1
  groups 1 []APIGroup always
APIGroup kind v1
  name 1 string always
  versions 2 []GroupVersionForDiscovery always
  preferredVersion 3 GroupVersionForDiscovery
  serverAddressByClientCIDRs 4 []ServerAddressByClientCIDR
GroupVersionForDiscovery
  groupVersion 1 string always
  version 2 string always
APIResourceList kind v1
  groupVersion 1 string always
  resources 2 []APIResource always
APIResource
  name 1 string always
  namespaced 2 bool always
  kind 3 string always
  verbs 4 wrapped always
  shortNames 5 []string
  singularName 6 string always
  categories 7 []string
  group 8 string
  version 9 string
  storageVersionHash 10 string
Scale kind autoscaling/v1
  metadata 1 ObjectMeta always
  spec 2 ScaleSpec always
  status 3 ScaleStatus always
ScaleSpec
  replicas 1 int32
ScaleStatus
  replicas 1 int32 always
  selector 2 string
)";
}

}  // namespace kintsugi::krm
