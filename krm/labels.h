#pragma once

#include <string_view>

/// Keys of labels of the field, each with what it means and who writes it.
namespace kintsugi::krm {

// Kubernetes.
/// On a Namespace: its name, so that selectors can choose it; the API server.
inline constexpr std::string_view kNamespaceNameLabel = "kubernetes.io/metadata.name";
/// "rbac-defaults" on what the bootstrap policy consists of; bootstrapping.
inline constexpr std::string_view kBootstrappingLabel = "kubernetes.io/bootstrapping";
/// "true" on a ClusterRole whose rules the role admin, edit or view takes in; whoever makes it.
inline constexpr std::string_view kAggregateToAdminLabel =
    "rbac.authorization.k8s.io/aggregate-to-admin";
inline constexpr std::string_view kAggregateToEditLabel =
    "rbac.authorization.k8s.io/aggregate-to-edit";
inline constexpr std::string_view kAggregateToViewLabel =
    "rbac.authorization.k8s.io/aggregate-to-view";

// kcp.
/// Phase of a LogicalCluster or Workspace, so that selectors can choose it; the server.
inline constexpr std::string_view kPhaseLabel = "tenancy.kcp.io/phase";
/// In front of a name (or its digest): an initializer or terminator that a LogicalCluster waits
/// for; the server.
inline constexpr std::string_view kInitializerLabelPrefix = "initializer.internal.kcp.io/";
inline constexpr std::string_view kTerminatorLabelPrefix = "terminator.internal.kcp.io/";
/// On an APIBinding: digest of the APIExport that it binds; admission.
inline constexpr std::string_view kExportLabel = "internal.apis.kcp.io/export";
/// In front of the digest of an APIExport: its claim on the object was accepted; the server.
inline constexpr std::string_view kClaimedLabelPrefix = "claimed.internal.apis.kcp.io/";

}  // namespace kintsugi::krm
