#pragma once

#include <string>
#include <string_view>

/// Names inside OpenAPI documents, as Kubernetes forms them.
namespace kintsugi::apiserver::internal {

/// Component of a type in the tables of krm/types: "io.k8s.api.core.v1.ConfigMap",
/// "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta". Types that no group shares belong to
/// `group`/`version`, whose document is written.
[[nodiscard]] std::string builtin_component(std::string_view group, std::string_view version,
                                            std::string_view type_name);
/// Component of a type of meta/v1.
[[nodiscard]] std::string meta_component(std::string_view type_name);
/// Component of a custom kind: "io.ex.v1.Widget" for ex.io.
[[nodiscard]] std::string custom_component(std::string_view group, std::string_view version,
                                           std::string_view kind);
/// Middle of operation ids: "CoreV1", "RbacAuthorizationV1"; "ExIoV1" for custom kinds, whose
/// groups stay whole.
[[nodiscard]] std::string operation_stem(std::string_view group, std::string_view version,
                                         bool builtin);

}  // namespace kintsugi::apiserver::internal
