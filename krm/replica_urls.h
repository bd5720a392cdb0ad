#pragma once

#include <string_view>

namespace kintsugi::krm {

/// On a Shard: where its other processes serve the same, separated by commas (GR-301); whoever
/// leads the shard says so.
inline constexpr std::string_view kReplicaUrlsAnnotation = "kintsugi.dev/replica-urls";

}  // namespace kintsugi::krm
