#pragma once

#include <string>
#include <string_view>

#include "apiserver/resource.h"
#include "krm/json.h"

namespace kintsugi::controlplane {

/// Who serves what in a logical cluster, as its LogicalCluster's annotation
/// internal.apis.kcp.io/resource-bindings says it (KK-117): a JSON object of "<resource>.<group>",
/// sorted, each `{"n":"<binding>"}` for what an APIBinding has bound, or `{"c":true}` for an
/// established CustomResourceDefinition. Derived from these objects each time: nothing is decided
/// by the annotation. Cost: reads all bindings and definitions of the cluster. Threads: the
/// reader's.
[[nodiscard]] std::string resource_locks(const apiserver::ObjectReader& reader,
                                         std::string_view cluster);

}  // namespace kintsugi::controlplane
