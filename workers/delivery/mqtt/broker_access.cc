#include "workers/delivery/mqtt/broker_access.h"

#include <utility>

#include "base/secret_file.h"
#include "base/strings.h"

namespace kintsugi::workers {

Expected<BrokerAccess> read_broker_access(const BrokerAccessSettings& settings) {
  auto url = parse_broker_url(settings.url);
  if (!url) {
    return fail(std::move(url.error()));
  }
  BrokerAccess out{std::move(*url), nullptr, settings.user, ""};
  if (!settings.password_file.empty()) {
    auto password = read_secret_file(settings.password_file);
    if (!password) {
      return fail(std::move(password.error()));
    }
    const std::string_view line =
        password->view().substr(0, password->view().find_first_of("\r\n"));
    out.password = std::string(trim(line));
  }
  if (out.url.tls) {
    net::TlsParams params;
    params.ca_file = settings.ca_file;
    params.certificate_file = settings.certificate_file;
    params.key_file = settings.key_file;
    params.server_name = settings.server_name.empty() ? out.url.host : settings.server_name;
    params.http2 = false;
    auto tls = net::TlsContext::client(params);
    if (!tls) {
      return fail(std::move(tls.error()));
    }
    out.tls = std::move(*tls);
  }
  return out;
}

}  // namespace kintsugi::workers
