#pragma once

#include <string_view>

/// Finalizers of the field, each with what it waits for and who takes it away.
namespace kintsugi::krm {

// Kubernetes.
/// Dependents are to lose their owner; the garbage collector.
inline constexpr std::string_view kOrphanFinalizer = "orphan";
/// Dependents are to go first; the garbage collector.
inline constexpr std::string_view kForegroundFinalizer = "foregroundDeletion";
/// In spec.finalizers of a Namespace: its contents go first; the namespace controller.
inline constexpr std::string_view kNamespaceFinalizer = "kubernetes";
/// On a CustomResourceDefinition: its objects go first; the definition controller.
inline constexpr std::string_view kDefinitionFinalizer =
    "customresourcecleanup.apiextensions.k8s.io";

// kcp.
/// On a Workspace: its LogicalCluster goes first; the scheduler.
inline constexpr std::string_view kWorkspaceFinalizer = "core.kcp.io/logicalcluster";
/// On a LogicalCluster: what lies in it goes first; its controller.
inline constexpr std::string_view kLogicalClusterFinalizer = "core.kcp.io/logicalcluster-deletion";
/// On a LogicalCluster as long as it has terminators; the one above is what holds it.
inline constexpr std::string_view kTerminatorsFinalizer = "kcp.io/has-terminators";
/// On an APIBinding: objects of what it binds go first; its controller.
inline constexpr std::string_view kBindingFinalizer = "apis.kcp.io/apibinding-finalizer";

}  // namespace kintsugi::krm
