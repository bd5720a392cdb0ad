#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::server {

/// What a process that shares its store with others says of itself there (GR-211, GR-213).
struct Replica {
  std::string id = {};                    ///< random, of this run
  std::string version = {};               ///< the release: product_version()
  std::string address = {}, region = {};  ///< for people
  std::int64_t started = 0;               ///< [s since 1970], for people
  bool ready = false;                     ///< takes requests
  std::size_t watches = 0;                ///< of shards that are open at it
  [[nodiscard]] bool operator==(const Replica&) const = default;
  [[nodiscard]] krm::Json to_json() const;
  /// Members that this program does not know are left alone. @error kCorrupt
  [[nodiscard]] static Expected<Replica> parse(std::string_view id, std::string_view text);
};

/// Key of a record: this and its id. No key of an object.
inline constexpr std::string_view kReplicaRecords = "kintsugi.replicas/";
/// How often a record is written at least, and how long it rests until its process is gone.
inline constexpr int kReplicaWriteSeconds = 10, kReplicaGoneSeconds = 60;
/// The same of a shard's processes where there are several: proxies ask those that have written
/// this lately (GR-301).
inline constexpr int kShardReplicaWriteSeconds = 2, kShardReplicaFreshSeconds = 5;
/// How long after the last process of another release was seen an upgrade is finished (GR-211).
inline constexpr int kReplicaSettledSeconds = 24 * 60 * 60;

}  // namespace kintsugi::server
