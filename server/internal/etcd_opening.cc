#include "server/internal/etcd_opening.h"

#include <utility>

#include "server/etcd_password.h"

namespace kintsugi::server {

store::EtcdParams access_of_etcd(const proxy::StoreConfig& config) {
  store::EtcdParams params;
  params.endpoints = config.endpoints;
  params.prefix = config.prefix;
  params.ca_file = config.ca_file;
  params.cert_file = config.cert_file;
  params.key_file = config.key_file;
  params.user = config.user;
  params.insecure = config.insecure;
  return params;
}

Expected<std::unique_ptr<store::EtcdStore>> open_etcd_store(store::EtcdParams params,
                                                            const std::string& password_file) {
  auto password = read_etcd_password(password_file);
  if (!password) {
    return fail(std::move(password.error()));
  }
  params.password = std::move(*password);
  if (!password_file.empty()) {
    params.password_now = [password_file] { return read_etcd_password(password_file); };
  }
  return store::EtcdStore::open(std::move(params));
}

}  // namespace kintsugi::server
