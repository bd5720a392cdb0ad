#include "server/internal/etcd_opening.h"

#include <utility>

#include "server/etcd_password.h"

namespace kintsugi::server {

Expected<std::unique_ptr<store::EtcdStore>> open_etcd_store(store::EtcdParams params,
                                                            const std::string& password_file) {
  auto password = read_etcd_password(password_file);
  if (!password) {
    return fail(std::move(password.error()));
  }
  params.password = std::move(*password);
  return store::EtcdStore::open(std::move(params));
}

}  // namespace kintsugi::server
