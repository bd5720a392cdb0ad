#include "server/internal/etcd_opening.h"

#include <string_view>
#include <utility>

#include "base/secret_file.h"

namespace kintsugi::server {

Expected<std::unique_ptr<store::EtcdStore>> open_etcd_store(store::EtcdParams params,
                                                            const std::string& password_file) {
  if (!password_file.empty()) {
    auto password = read_secret_file(password_file);
    if (!password) {
      return fail(std::move(password.error()));
    }
    std::string_view text = password->view();
    while (text.ends_with('\n')) {
      text.remove_suffix(1);
    }
    params.password = Secret::copy_of(text);
  }
  return store::EtcdStore::open(std::move(params));
}

}  // namespace kintsugi::server
