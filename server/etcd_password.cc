#include "server/etcd_password.h"

#include <string_view>
#include <utility>

#include "base/secret_file.h"

namespace kintsugi::server {

Expected<Secret> read_etcd_password(const std::string& file) {
  if (file.empty()) {
    return Secret();
  }
  const auto password = read_secret_file(file);
  if (!password) {
    return fail(password.error().clone());
  }
  std::string_view text = password->view();
  while (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  return Secret::copy_of(text);
}

}  // namespace kintsugi::server
