#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::workers {

/// Who works on an infra: `status.holder` {shard, names, epoch}. Written, with the object's
/// revision as precondition, before anything is sent to a component, so that it moves with the
/// infra's logical cluster, and the worker at the next shard knows whom to ask to let go (RT-14).
/// What stands in a status is not believed further than that: a user may have edited it.
struct InfraHolder {
  std::string shard;       ///< "": nobody has had it yet
  std::string names;       ///< owner in names of its entities (5.3): of the first shard, for ever
  std::int64_t epoch = 0;  ///< one more with each shard
  bool operator==(const InfraHolder&) const = default;
};
/// @param names  of this unit; stands for such that no shard can have
[[nodiscard]] InfraHolder infra_holder(const krm::Json& status, std::string_view names);
/// The one that follows at another shard.
[[nodiscard]] InfraHolder next_holder(const InfraHolder& before, std::string_view shard);
void write_holder(krm::Json& status, const InfraHolder& holder);

}  // namespace kintsugi::workers
