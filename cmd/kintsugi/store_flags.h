#pragma once

#include <string>

#include "base/error.h"
#include "cmd/kintsugi/flags.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::cmd {

/// --store and what goes with etcd, as typed.
struct StoreFlags {
  std::string store = "lmdb";
  std::string prefix, ca_file, cert_file, key_file, user, password_file;
  std::string compaction = "none";
  bool insecure = false;
};
[[nodiscard]] FlagGroup store_flags(StoreFlags& flags);

/// Without endpoints: LMDB. @error kConfig names the flag and what is wrong with it.
[[nodiscard]] Expected<store::EtcdParams> understood_store(const StoreFlags& flags);

}  // namespace kintsugi::cmd
