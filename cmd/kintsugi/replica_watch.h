#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/error.h"
#include "server/replica_record.h"
#include "store/etcd/etcd_prefix.h"

namespace kintsugi::cmd {

/// Looks who of the processes that have left records in a store is at work: whoever is writes his
/// within kReplicaWriteSeconds, for which this waits, unless it is clear before that they are fewer
/// than `least`.
/// @param counts  which records are looked at, of those that are there and those that come
/// @param found  called with those that are at work, whenever it is one more; false: enough is
/// known
/// @error kUnavailable
[[nodiscard]] Expected<void> watch_replicas(
    store::EtcdPrefix& store, const std::function<bool(const server::Replica&)>& counts,
    std::size_t least,
    const std::function<bool(const std::vector<server::Replica>& at_work)>& found);

/// One process at most serves the store (GR-308).
/// @error kConflict names two that do; kUnavailable
[[nodiscard]] Expected<void> expect_one_process(const store::EtcdParams& etcd);

}  // namespace kintsugi::cmd
