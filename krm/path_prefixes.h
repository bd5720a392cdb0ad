#pragma once

#include <string>
#include <string_view>

/// How request paths begin that are no plain API path. Whoever wants to know what a target means
/// asks request_target.h; these are for those who write paths, or tell what is theirs.
namespace kintsugi::krm {

/// "/clusters/<name or path><API path>": one logical cluster, or "*", all of them.
inline constexpr std::string_view kClustersPrefix = "/clusters/";
/// "/services/<virtual workspace>…": another way to look at objects of logical clusters.
inline constexpr std::string_view kServicesPrefix = "/services/";
/// "/shards/<name>/clusters/…": one shard and nothing else of the installation.
inline constexpr std::string_view kShardsPrefix = "/shards/";
/// "/partitions/<cluster>/<name>/services/…": the shards of one Partition.
inline constexpr std::string_view kPartitionsPrefix = "/partitions/";

/// What stands before the API path in all logical clusters, and in the one that everything hangs
/// from.
inline constexpr std::string_view kEverywhere = "/clusters/*";
inline constexpr std::string_view kRootClusterPath = "/clusters/root";
/// The same for clients that may meet servers which want the star escaped.
inline constexpr std::string_view kEverywhereEscaped = "/clusters/%2A";

/// "/clusters/<cluster>". @param cluster as it is to stand there, nothing is escaped.
[[nodiscard]] inline std::string cluster_root(std::string_view cluster) {
  return std::string(kClustersPrefix).append(cluster);
}

}  // namespace kintsugi::krm
