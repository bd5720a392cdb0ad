#include "server/internal/delivery_settings.h"

#include <algorithm>
#include <set>

#include "krm/config_values.h"
#include "workers/delivery/mqtt/broker_url.h"
#include "workers/delivery/protocol/topics.h"

namespace kintsugi::server {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
constexpr std::size_t kMostId = 128;

bool is_logical_cluster(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
  });
}

}  // namespace

krm::ConfigTable delivery_keys(workers::DeliveryConfig& config, const std::string& folder) {
  using workers::DeliveryAdoption;
  return {
      {"delivery.broker.url", krm::text(config.broker_url)},
      {"delivery.broker.user", krm::text(config.user)},
      {"delivery.broker.password_file", krm::file(config.password_file, folder)},
      {"delivery.broker.ca_file", krm::file(config.ca_file, folder)},
      {"delivery.broker.certificate_file", krm::file(config.certificate_file, folder)},
      {"delivery.broker.key_file", krm::file(config.key_file, folder)},
      {"delivery.broker.server_name", krm::text(config.server_name)},
      {"delivery.topic_prefixes", krm::text_list(config.prefixes)},
      {"delivery.clients", krm::text_list(config.clients)},
      {"delivery.adopt",
       krm::one_of<DeliveryAdoption>(config.adopt, {{"never", DeliveryAdoption::kNever},
                                                    {"labelled", DeliveryAdoption::kLabelled},
                                                    {"always", DeliveryAdoption::kAlways}})},
      {"delivery.resync", krm::boolean(config.resync)},
      {"delivery.status.retain", krm::boolean(config.status_retain)},
      {"delivery.status.per_second", krm::fraction(config.status_rate, 0.01, 1'000)},
      {"delivery.status.gzip_min_bytes",
       krm::number(config.gzip_min_bytes, 1, kMostBytes, "number of bytes")},
      {"delivery.max_manifest_bytes",
       krm::number(config.max_manifest_bytes, 1'024, std::int64_t{3} << 20, "number of bytes")},
      {"delivery.max_packet_bytes",
       krm::number(config.max_packet_bytes, 4'096, kMostBytes, "number of bytes")},
      {"delivery.reconciles", krm::number(config.reconciles, 1, 100'000)},
  };
}

std::pair<std::string, std::string> delivery_fault(const workers::DeliveryConfig& config) {
  const auto broker = workers::parse_broker_url(config.broker_url);
  if (!broker) {
    return {"delivery.broker.url", std::string(broker.error().message())};
  }
  if (config.user.empty() != config.password_file.empty()) {
    return {"delivery.broker", "needs both of user and password_file, or none"};
  }
  if (config.certificate_file.empty() != config.key_file.empty()) {
    return {"delivery.broker", "needs both of certificate_file and key_file, or none"};
  }
  if (broker->tls != !config.ca_file.empty()) {
    return {"delivery.broker.ca_file",
            broker->tls ? "is required by that url" : "needs a url of mqtts:// or ssl://"};
  }
  if (!broker->tls && !workers::is_loopback(*broker)) {
    return {"delivery.broker.url", "must be mqtts:// or ssl:// outside of this machine"};
  }
  if (config.prefixes.empty() ||
      !std::all_of(config.prefixes.begin(), config.prefixes.end(), workers::is_topic_prefix)) {
    return {"delivery.topic_prefixes", "must be levels of a topic with a slash behind each"};
  }
  std::set<std::string> ids;
  for (const std::string& text : config.clients) {
    const auto [id, cluster] = workers::parse_delivery_client(text);
    if (!workers::is_topic_level(id) || id.size() > kMostId || !is_logical_cluster(cluster)) {
      return {"delivery.clients", "\"" + text + "\" is no <client id>=<logical cluster>"};
    }
    if (!ids.insert(id).second) {
      return {"delivery.clients", "has " + id + " twice"};
    }
  }
  return ids.empty() ? std::pair<std::string, std::string>("delivery.clients", "is required")
                     : std::pair<std::string, std::string>();
}

}  // namespace kintsugi::server
