#pragma once

#include <memory>
#include <string>

#include "proxy/config/config.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::server {

/// What says where it is and how to come to it, but for the password.
[[nodiscard]] store::EtcdParams access_of_etcd(const proxy::StoreConfig& config);

/// @param password_file  of the user; "": there is none
/// @error those of EtcdStore::open; kConfig, kIo the file.
[[nodiscard]] Expected<std::unique_ptr<store::EtcdStore>> open_etcd_store(
    store::EtcdParams params, const std::string& password_file);

}  // namespace kintsugi::server
