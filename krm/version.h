#pragma once

#include <string>
#include <string_view>

namespace kintsugi::krm {

/// In the `gitVersion` of every release of this program, and of no other one.
inline constexpr std::string_view kVersionMark = "+kintsugi-";

/// The answer to GET /version, of shards and proxies alike (AM-117, FP-141): the release of
/// Kubernetes whose API is served, ours behind it, indented as Kubernetes does it. Threads: any.
/// Lifetime: the process.
[[nodiscard]] const std::string& version_document();

}  // namespace kintsugi::krm
