#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "net/tls.h"
#include "workers/delivery/mqtt/broker_url.h"

namespace kintsugi::workers {

/// How a broker is reached, as people say it.
struct BrokerAccessSettings {
  std::string url, user, password_file;
  std::string ca_file, certificate_file, key_file, server_name;
};
/// The same with the files read.
struct BrokerAccess {
  BrokerUrl url;
  std::shared_ptr<const net::TlsContext> tls;  ///< null: of a broker without TLS
  std::string user, password;
};
/// @error kConfig, kIo: a file that cannot be used, or a URL that is none
[[nodiscard]] Expected<BrokerAccess> read_broker_access(const BrokerAccessSettings& settings);

}  // namespace kintsugi::workers
