#pragma once

#include <string>

#include "store/etcd/etcd_store.h"

namespace kintsugi::server {

/// What `kintsugi store copy --online` leaves in the folder of a shard whose data has gone into
/// etcd, by which the shard follows (GR-306). Nothing secret is in it.
/// @param password_file  of etcd.user. @param uid  of the copy
[[nodiscard]] std::string moved_note(const store::EtcdParams& etcd,
                                     const std::string& password_file, const std::string& uid);

}  // namespace kintsugi::server
