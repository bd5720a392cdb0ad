#pragma once

#include <string>

namespace kintsugi::krm {

/// The answer to GET /version, of shards and proxies alike (AM-117, FP-141): the release of
/// Kubernetes whose API is served, ours behind it, indented as Kubernetes does it. Threads: any.
/// Lifetime: the process.
[[nodiscard]] const std::string& version_document();

}  // namespace kintsugi::krm
