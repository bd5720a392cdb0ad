#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "server/up_program.h"
#include "server/worker_config.h"

/// The MQTT broker of `up --workers=delivery`, and what the worker is told of it.
namespace kintsugi::server {

/// A Mosquitto on 127.0.0.1 with data in <dir>/broker, whose queues are as long as they need to be.
struct BrokerProcess {
  std::string program;
  std::vector<std::string> arguments;
};

/// Whether `up` runs one.
[[nodiscard]] bool runs_broker(const UpOptions& options);
/// Its URL, or that of the one that was named.
[[nodiscard]] std::string url_of_broker(const UpOptions& options);
/// @error kConfig: names the option; there is no Mosquitto, or a client or broker is none
[[nodiscard]] Expected<void> check_delivery(const UpOptions& options);
/// Writes what it reads. @error kConfig, kIo
[[nodiscard]] Expected<BrokerProcess> prepare_broker(const UpOptions& options);

/// Logical clusters that clients fill.
[[nodiscard]] std::vector<std::string> clusters_of_clients(const UpOptions& options);
/// The role has no slice: it goes to the proxy, and has its Leases in the first of its workspaces.
void aim_at_clients(WorkerConfig& config, const UpOptions& options);

}  // namespace kintsugi::server
