#pragma once

#include <string>

#include "cmd/kintsugi/store_flags.h"

namespace kintsugi::cmd {

/// As typed: "lmdb:DIR" or "etcd=URL,…" each.
struct StoreCopyWords {
  std::string from, to;
  StoreFlags etcd;  ///< the end that is in etcd
};

/// Moves a store from its folder into etcd, or back. @returns the exit status.
int run_store_copy(StoreCopyWords words);

/// Lets revisions of a store in etcd go on later. @param from  "etcd=URL,…"
int run_store_renew(const std::string& from, StoreFlags etcd);

}  // namespace kintsugi::cmd
