#pragma once

#include <string>

#include "topology/snapshot.h"

namespace kintsugi::aggregation {

/// What a shard's slot is known by: the UID of its Shard object, its name where a source has none.
[[nodiscard]] inline const std::string& slot_uid(const topology::ShardSpec& shard) noexcept {
  return shard.uid.empty() ? shard.name : shard.uid;
}

}  // namespace kintsugi::aggregation
