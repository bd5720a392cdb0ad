#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "cmd/kintsugi/store_flags.h"
#include "store/etcd/etcd_prefix.h"

namespace kintsugi::cmd {

/// As typed: "lmdb:DIR" or "etcd=URL,…" each.
struct StoreCopyWords {
  std::string from, to;
  StoreFlags etcd;      ///< the end that is in etcd
  bool online = false;  ///< who serves the source goes on until the end
};

/// Moves a store from its folder into etcd, or back. @returns the exit status.
int run_store_copy(StoreCopyWords words);

/// Lets revisions of a store in etcd go on later. @param from  "etcd=URL,…"
int run_store_renew(const std::string& from, StoreFlags etcd);

/// Ends an upgrade: only programs of this release and later open the store from then on (GR-211).
/// @param from  "etcd=URL,…"
int run_store_finish_upgrade(const std::string& from, StoreFlags etcd);

/// Writes the files of etcd's members anew, one after the other (GR-126). @param from  "etcd=URL,…"
int run_store_defrag(const std::string& from, StoreFlags etcd);

/// As typed.
struct StoreLook {
  std::string from;   ///< "etcd=URL,…"
  std::string key;    ///< of get; what keys begin with
  std::string after;  ///< of events
  StoreFlags etcd;
};
/// Prints what is in a store in etcd, whoever serves it (GR-106). @param action  get, list, events
int run_store_look(const std::string& action, StoreLook look);

/// As typed, with the password. @error kConfig
[[nodiscard]] Expected<store::EtcdParams> etcd_params(const StoreFlags& flags);

/// A store in etcd that a command is about.
struct NamedPrefix {
  std::string name;
  std::unique_ptr<store::EtcdPrefix> store;
};
/// Opens it. @param from  "etcd=URL,…". @returns the exit status where it cannot be had, after a
/// line that says why.
[[nodiscard]] tl::expected<NamedPrefix, int> open_prefix(const std::string& command,
                                                         const std::string& from, StoreFlags etcd);

}  // namespace kintsugi::cmd
