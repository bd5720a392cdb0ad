#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "server/shard_program.h"
#include "store/etcd/etcd_store.h"
#include "store/store.h"

namespace kintsugi::server {

/// The store of a shard, opened where its data is: in its folder or in etcd, as it is told or,
/// where `kintsugi store copy --online` has moved it, where that is now (GR-306).
struct ShardStore {
  std::unique_ptr<store::Store> store;
  store::EtcdStore* etcd = nullptr;  ///< `store`, where it is on etcd
  std::string folder;                ///< whose disk has to have room
};

/// @param on_ended  the process has to begin anew: the data is elsewhere, or its history is another
/// one. On any thread; must only hand on.
/// @error kConfig the data is where it is not said to be; those of both stores.
[[nodiscard]] Expected<ShardStore> open_shard_store(const ShardOptions& options,
                                                    std::function<void()> on_ended);

}  // namespace kintsugi::server
