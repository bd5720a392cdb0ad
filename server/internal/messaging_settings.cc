#include "server/internal/messaging_settings.h"

#include "krm/config_values.h"

namespace kintsugi::server {

namespace {

constexpr Duration kLeast = milliseconds(10);

}  // namespace

krm::ConfigTable messaging_keys(workers::MessagingConfig& config, const std::string& folder) {
  return {
      {"messaging.infra_clusters", krm::text_list(config.infra_clusters)},
      {"messaging.allow_local_connectors", krm::boolean(config.allow_local_connectors)},
      {"messaging.certificates.directory", krm::some_text(config.certificate_directory)},
      {"messaging.certificates.cert_propagation_delay",
       krm::duration(config.cert_propagation_delay, Duration{})},
      {"messaging.components.ca_file", krm::file(config.ca_file, folder)},
      {"messaging.components.certificate_file", krm::file(config.certificate_file, folder)},
      {"messaging.components.key_file", krm::file(config.key_file, folder)},
      {"messaging.components.user", krm::text(config.user)},
      {"messaging.components.password_file", krm::file(config.password_file, folder)},
      {"messaging.components.window", krm::number(config.window, 1, 10'000)},
      {"messaging.checks.counters", krm::duration(config.counters, kLeast)},
      {"messaging.checks.secrets", krm::duration(config.secrets, kLeast)},
      {"messaging.checks.sweep", krm::duration(config.sweep, kLeast)},
      {"messaging.checks.links", krm::duration(config.links, kLeast)},
      {"messaging.checks.resync_by_reconnect", krm::boolean(config.resync_by_reconnect)},
      {"messaging.reconciles", krm::number(config.reconciles, 1, 100'000)},
  };
}

std::pair<std::string, std::string> messaging_fault(const workers::MessagingConfig& config) {
  if (config.certificate_file.empty() != config.key_file.empty()) {
    return {"messaging.components", "needs both of certificate_file and key_file, or none"};
  }
  if (!config.certificate_file.empty() && config.ca_file.empty()) {
    return {"messaging.components", "certificate_file needs ca_file"};
  }
  if (config.user.empty() != config.password_file.empty()) {
    return {"messaging.components", "needs both of user and password_file, or none"};
  }
  return {};
}

}  // namespace kintsugi::server
