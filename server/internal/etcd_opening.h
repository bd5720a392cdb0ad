#pragma once

#include <memory>
#include <string>

#include "store/etcd/etcd_store.h"

namespace kintsugi::server {

/// @param password_file  of the user; "": there is none
/// @error those of EtcdStore::open; kConfig, kIo the file.
[[nodiscard]] Expected<std::unique_ptr<store::EtcdStore>> open_etcd_store(
    store::EtcdParams params, const std::string& password_file);

}  // namespace kintsugi::server
