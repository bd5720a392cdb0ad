#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cmd/kintsugi/flags.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::cmd {

/// --store and what goes with etcd, as typed.
struct StoreFlags {
  std::string store = "lmdb";  ///< "": nothing was said
  std::string prefix, ca_file, cert_file, key_file, user, password_file;
  std::string compaction = "none";
  bool insecure = false;
  bool force = false;  ///< opens what was copied elsewhere
};
/// Where not to say it means what a file says.
[[nodiscard]] inline StoreFlags unsaid_store() {
  StoreFlags flags;
  flags.store.clear();
  return flags;
}
/// @param whose  "shard", "proxy". @param prefix  the default
[[nodiscard]] FlagGroup store_flags(StoreFlags& flags, const std::string& whose = "shard",
                                    const std::string& prefix = "/kintsugi/shards/<name>");
/// How to come to an etcd, without which one.
[[nodiscard]] std::vector<Flag> etcd_flags(StoreFlags& flags, const std::string& whose,
                                           const std::string& prefix);

/// Without endpoints: LMDB, or nothing was said. The password is read by read_etcd_password().
/// @error kConfig names the flag and what is wrong with it.
[[nodiscard]] Expected<store::EtcdParams> understood_store(const StoreFlags& flags);

}  // namespace kintsugi::cmd
