#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kintsugi::workers {

/// What becomes of an object that is there and was not made by an order.
enum class DeliveryAdoption : std::uint8_t {
  kNever,
  kLabelled,  ///< taken over where it has the label and no order's uid
  kAlways,    ///< taken over where it has no order's uid
};

/// `roles.delivery.delivery` of a WorkerConfiguration.
struct DeliveryConfig {
  std::string broker_url;
  std::string user, password_file;
  std::string ca_file, certificate_file, key_file, server_name;
  std::vector<std::string> prefixes{"v1/"};
  std::vector<std::string> clients;  ///< "<client id>=<logical cluster>"
  DeliveryAdoption adopt = DeliveryAdoption::kNever;
  bool resync = false;  ///< compares with a hub that does so, too
  bool status_retain = true;
  double status_rate = 5;  ///< a second and object
  std::size_t gzip_min_bytes = 4'096;
  std::size_t max_manifest_bytes = std::size_t{3} << 19;
  std::size_t max_packet_bytes = std::size_t{4} << 20;
  std::size_t reconciles = 64;  ///< at a time
};

/// "<client id>=<logical cluster>" taken apart; both "": it is none.
struct DeliveryClient {
  std::string id, cluster;
};
[[nodiscard]] DeliveryClient parse_delivery_client(const std::string& text);

}  // namespace kintsugi::workers
