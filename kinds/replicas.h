#pragma once

#include <string_view>

namespace kintsugi::kinds {

/// Copies of objects of other shards (shard/replica_rows.h) lie in the store under resource names
/// "<plural>.replica", as if this were their API group. It has no dot, so nobody can define a
/// resource in it, and no registry knows it: clients never see them, and what works on all
/// resources of a logical cluster must leave this group alone.
inline constexpr std::string_view kReplicaGroup = "replica";

}  // namespace kintsugi::kinds
