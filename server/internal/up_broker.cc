#include "server/internal/up_broker.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "server/files.h"
#include "server/internal/child_process.h"
#include "server/internal/delivery_settings.h"
#include "server/internal/up_files.h"

namespace kintsugi::server {
namespace {

constexpr std::string_view kRole = "delivery";
constexpr double kWrites = 5'000;  // a second

/// Debian has it where users' PATH does not look.
std::optional<std::string> find_mosquitto() {
  auto found = program_in_path("mosquitto");
  const std::string debian = "/usr/sbin/mosquitto";
  return found || ::access(debian.c_str(), X_OK) != 0 ? found : std::optional(debian);
}

workers::DeliveryConfig delivery_of(const UpOptions& options) {
  workers::DeliveryConfig out;
  out.broker_url = url_of_broker(options);
  out.clients = options.delivery.clients;
  return out;
}

bool is_asked_for(const UpOptions& options) {
  return std::find(options.workers.begin(), options.workers.end(), kRole) != options.workers.end();
}

}  // namespace

bool runs_broker(const UpOptions& options) {
  return is_asked_for(options) && options.delivery.broker.empty();
}

std::string url_of_broker(const UpOptions& options) {
  return options.delivery.broker.empty()
             ? "mqtt://127.0.0.1:" + std::to_string(options.delivery.port)
             : options.delivery.broker;
}

Expected<void> check_delivery(const UpOptions& options) {
  if (!is_asked_for(options)) {
    return {};
  }
  if (runs_broker(options) && !find_mosquitto()) {
    return fail(Errc::kConfig,
                "--workers delivery: there is no mosquitto (Debian: mosquitto); or name a broker "
                "that runs: --delivery-broker URL");
  }
  if (const auto [key, what] = delivery_fault(delivery_of(options)); !what.empty()) {
    const char* const option = key == "delivery.clients" ? "--delivery-clients: "
                               : runs_broker(options)    ? "--delivery-port: "
                                                         : "--delivery-broker: ";
    return fail(Errc::kConfig, option + what);
  }
  return {};
}

Expected<BrokerProcess> prepare_broker(const UpOptions& options) {
  const auto program = find_mosquitto();
  if (!program) {
    return fail(Errc::kConfig, "--workers delivery: there is no mosquitto");
  }
  const std::string folder = options.layout.dir + "/broker", file = folder + "/mosquitto.conf";
  if (auto made = make_directories(folder); !made) {
    return fail(std::move(made.error()));
  }
  std::string text = "# Written by `kintsugi up` at each start.\nlistener " +
                     std::to_string(options.delivery.port) +
                     " 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
                     "max_inflight_messages 0\npersistence true\npersistence_location " +
                     folder + "/\nautosave_interval 5\n";
  if (::geteuid() == 0) {
    text += "user root\n";  // else it becomes another one, who may not write there
  }
  if (auto written = write_file(file, text); !written) {
    return fail(std::move(written.error()));
  }
  return BrokerProcess{*program, {"-c", file}};
}

std::vector<std::string> clusters_of_clients(const UpOptions& options) {
  std::vector<std::string> out;
  for (const std::string& client : options.delivery.clients) {
    out.push_back(workers::parse_delivery_client(client).cluster);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void aim_at_clients(WorkerConfig& config, const UpOptions& options) {
  WorkerRoleConfig& role = config.roles.front();
  role.slice_cluster.clear();
  role.slice.clear();
  role.servers = {url_of_proxy(options)};
  role.lease_clusters.resize(1);
  role.writes_per_second = role.burst = kWrites;
  role.delivery = delivery_of(options);
}

}  // namespace kintsugi::server
