#pragma once

#include <string_view>

#include "apiserver/resource.h"

/// What kcp's admission plugin CRDNoOverlappingGVR refuses. Source: KK-226, KK-007.
namespace kintsugi::controlplane {

/// As `--enable-admission-plugins` spells it, here and at kcp.
inline constexpr std::string_view kNoOverlappingDefinitions = "apis.kcp.io/CRDNoOverlappingGVR";

/// CustomResourceDefinitions: a new one must not be of a resource that an APIBinding of its logical
/// cluster has bound. Once stored it has the resource itself. Whoever makes it is asked, the system
/// too; clusters `system:…` are free. A dry run is answered alike. Cost: reads the bindings of the
/// cluster. @error (of the write) kForbidden names the binding.
[[nodiscard]] apiserver::ResourcePtr with_resource_locks(const apiserver::ResourcePtr& definitions);

}  // namespace kintsugi::controlplane
