#pragma once

#include "base/error.h"
#include "net/loop.h"
#include "net/task.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::store {

/// Whether the members of an etcd take who `params` says one is, are of a release that does, and
/// let read what is under the prefix, which is for this program. Nothing is written. Those of
/// `params` that are about serving are not used, but for attempt_timeout.
/// @error kConfig it will not get right by itself; kUnavailable. Names the member.
[[nodiscard]] net::Task<Expected<void>> check_etcd(net::Loop& loop, EtcdParams params);

}  // namespace kintsugi::store
