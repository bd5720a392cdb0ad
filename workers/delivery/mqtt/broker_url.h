#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kintsugi::workers {

/// Where an MQTT broker is.
struct BrokerUrl {
  std::string host;  ///< name or numeric address, an IPv6 one without brackets
  std::uint16_t port = 0;
  bool tls = false;
};

/// "mqtt://host[:1883]", "mqtts://host[:8883]"; tcp and ssl are other words for them.
/// @error kConfig
[[nodiscard]] Expected<BrokerUrl> parse_broker_url(std::string_view text);
/// Credentials and bytes may go there in the clear.
[[nodiscard]] bool is_loopback(const BrokerUrl& url);

}  // namespace kintsugi::workers
