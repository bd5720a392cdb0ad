#pragma once

#include <string_view>

/// Keys of annotations of the field, each with what it means and who writes it. Labels: labels.h,
/// finalizers: finalizers.h.
namespace kintsugi::krm {

// Kubernetes.
/// On the bookmark behind the initial events of a watch; the API server.
inline constexpr std::string_view kInitialEventsEndAnnotation = "k8s.io/initial-events-end";
/// What `kubectl apply` sent last; kubectl, and server-side apply for it.
inline constexpr std::string_view kLastAppliedAnnotation =
    "kubectl.kubernetes.io/last-applied-configuration";
/// What an object is there for, in words; whoever makes it.
inline constexpr std::string_view kDescriptionAnnotation = "kubernetes.io/description";
/// On a Secret with a token: name of its ServiceAccount; whoever makes the Secret.
inline constexpr std::string_view kServiceAccountNameAnnotation =
    "kubernetes.io/service-account.name";
/// On a Secret with a token: uid of its ServiceAccount; the token controller.
inline constexpr std::string_view kServiceAccountUidAnnotation =
    "kubernetes.io/service-account.uid";

// Of audit events.
/// Which policies and bindings an object did not fulfil; admission, for the action Audit.
inline constexpr std::string_view kValidationFailureNote =
    "validation.policy.admission.k8s.io/validation_failure";
/// Which extras of an impersonated user were left out; the API server.
inline constexpr std::string_view kDroppedExtrasNote = "authorization.kcp.io/dropped";

// On objects of every kind.
/// The logical cluster that an object is in; the API server, on what it sends and stores.
inline constexpr std::string_view kClusterAnnotation = "kcp.io/cluster";
/// Path of the logical cluster ("root:org"); the server, from the Workspaces above it.
inline constexpr std::string_view kPathAnnotation = "kcp.io/path";
/// In lists of metadata under any identity: the apiVersion that an object has; the API server.
inline constexpr std::string_view kOriginalApiVersionAnnotation = "kcp.io/original-api-version";
/// On a copy of another shard's object: that shard; replication.
inline constexpr std::string_view kReplicatedFromAnnotation = "internal.kcp.io/replicated-from";
/// An object that bootstrapping makes once and does not change again; the controllers.
inline constexpr std::string_view kCreateOnlyAnnotation = "bootstrap.kcp.io/create-only";
/// "true" on a role or binding of the bootstrap policy that every start brings back to what the
/// policy says; bootstrapping.
inline constexpr std::string_view kAutoUpdateAnnotation =
    "rbac.authorization.kubernetes.io/autoupdate";

// On LogicalClusters and Workspaces.
/// Shard that holds the logical cluster; the server that made it.
inline constexpr std::string_view kShardAnnotation = "core.kcp.io/shard";
/// On a LogicalCluster: its type as "<path>:<name>"; the scheduler.
inline constexpr std::string_view kTypeAnnotation = "internal.tenancy.kcp.io/type";
/// On a Workspace and its LogicalCluster: who made it, as JSON; admission (KK-040).
inline constexpr std::string_view kOwnerAnnotation = "experimental.tenancy.kcp.io/owner";
/// On a LogicalCluster, and on the Workspace that it is made for: groups of those who may enter;
/// administrators, and admission from the parent.
inline constexpr std::string_view kRequiredGroupsAnnotation =
    "authorization.kcp.io/required-groups";
/// On a Workspace: where its logical cluster is made, from before it exists; the scheduler.
inline constexpr std::string_view kPlacedClusterAnnotation = "internal.tenancy.kcp.io/cluster";
inline constexpr std::string_view kPlacedShardAnnotation = "internal.tenancy.kcp.io/shard";
/// "true" on a LogicalCluster that answers nobody, in its present and its former name;
/// administrators.
inline constexpr std::string_view kInactiveAnnotation = "core.kcp.io/inactive";
inline constexpr std::string_view kFormerInactiveAnnotation = "internal.kcp.io/inactive";
/// On a LogicalCluster: how many objects it may hold; administrators.
inline constexpr std::string_view kMaxObjectsAnnotation = "core.kcp.io/max-total-objects";
/// @{ The same of what each is named after, a quantity; the first of bytes of stored values.
inline constexpr std::string_view kMaxBytesAnnotation = "kintsugi.dev/max-total-bytes";
inline constexpr std::string_view kMaxDefinitionsAnnotation = "kintsugi.dev/max-definitions";
inline constexpr std::string_view kMaxExportsAnnotation = "kintsugi.dev/max-exports";
inline constexpr std::string_view kMaxBindingsAnnotation = "kintsugi.dev/max-bindings";
inline constexpr std::string_view kMaxNamespacesAnnotation = "kintsugi.dev/max-namespaces";
inline constexpr std::string_view kMaxServiceAccountsAnnotation =
    "kintsugi.dev/max-serviceaccounts";
inline constexpr std::string_view kMaxChildrenAnnotation = "kintsugi.dev/max-children";
/// @}
/// On a LogicalCluster: which binding holds a resource, as JSON; the server that makes it.
inline constexpr std::string_view kResourceBindingsAnnotation =
    "internal.apis.kcp.io/resource-bindings";
/// On a Workspace: the mount that stands for its logical cluster; users.
inline constexpr std::string_view kMountAnnotation = "experimental.tenancy.kcp.io/mount";

// On other kinds of kcp.
/// On a Shard: nothing new is placed there; administrators.
inline constexpr std::string_view kUnschedulableAnnotation =
    "experimental.core.kcp.io/unschedulable";
/// On an APIExport: nobody makes its APIExportEndpointSlice; users.
inline constexpr std::string_view kSkipEndpointSliceAnnotation =
    "apiexports.apis.kcp.io/skip-endpointslice";
/// What one version of APIExport or APIBinding can say and the other cannot, as JSON; conversion.
inline constexpr std::string_view kSchemasV1alpha2Annotation =
    "apis.v1alpha2.kcp.io/resource-schemas";
inline constexpr std::string_view kClaimsV1alpha2Annotation =
    "apis.v1alpha2.kcp.io/permission-claims";
inline constexpr std::string_view kAcceptableClaimsV1alpha2Annotation =
    "apis.v1alpha2.kcp.io/acceptable-permission-claims";
inline constexpr std::string_view kClaimsV1alpha1Annotation =
    "apis.v1alpha2.kcp.io/v1alpha1-permission-claims";
/// @{ The same of the claims in the status of an APIBinding (KK-170): verbs and selectors for
/// v1alpha2, all and resourceSelector for v1alpha1.
inline constexpr std::string_view kStatusExportClaimsAnnotation =
    "apis.v1alpha2.kcp.io/status-export-permission-claims";
inline constexpr std::string_view kStatusAppliedClaimsAnnotation =
    "apis.v1alpha2.kcp.io/status-applied-permission-claims";
inline constexpr std::string_view kStatusExportClaimsV1alpha1Annotation =
    "apis.v1alpha2.kcp.io/v1alpha1-status-export-permission-claims";
inline constexpr std::string_view kStatusAppliedClaimsV1alpha1Annotation =
    "apis.v1alpha2.kcp.io/v1alpha1-status-applied-permission-claims";
/// @}

// Ours, on APIExportEndpointSlices.
/// Which URLs the slice lists; users.
inline constexpr std::string_view kEndpointModeAnnotation = "kintsugi.dev/endpoint-mode";
/// At which region's proxies its URLs are; users (GR-502).
inline constexpr std::string_view kEndpointRegionAnnotation = "kintsugi.dev/endpoint-region";
/// How many consumers must be on a shard before it is listed; users.
inline constexpr std::string_view kConsumersAnnotation = "kintsugi.dev/consumers";

}  // namespace kintsugi::krm
