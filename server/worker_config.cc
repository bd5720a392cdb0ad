#include "server/worker_config.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>

#include "base/host_port.h"
#include "base/strings.h"
#include "krm/config_values.h"
#include "net/address_rules.h"
#include "net/upstream.h"
#include "server/files.h"
#include "server/internal/delivery_settings.h"
#include "server/internal/eventing_settings.h"
#include "server/internal/messaging_settings.h"
#include "workers/runtime/endpoints/endpoint_url.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr std::int64_t kLeastBytes = std::int64_t{1} << 20, kMostBytes = std::int64_t{1} << 50;
constexpr Duration kLeastTime = milliseconds(10);
constexpr double kMostWrites = 1'000'000;
constexpr std::string_view kAddressForm = "must be <IP address>:<port>, :<port>, /<socket> or 0";

krm::ConfigValue address(WorkerAddress& target) {
  return {[&target](const Json& value) -> std::string {
            auto parsed =
                value.is_string() ? parse_worker_address(value.as_string()) : std::nullopt;
            if (!parsed) {
              return std::string(kAddressForm);
            }
            target = std::move(*parsed);
            return {};
          },
          [&target] { return Json(address_text(target)); }, krm::schema_of_type("string")};
}

std::optional<WorkerIsolation> isolation_of(std::string_view text) {
  return text == "process"  ? std::optional(WorkerIsolation::kProcess)
         : text == "thread" ? std::optional(WorkerIsolation::kThread)
                            : std::nullopt;
}

/// Names that stand in paths of requests.
bool is_cluster(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
  });
}

krm::ConfigValue clusters(std::vector<std::string>& target) {
  krm::ConfigValue list = krm::text_list(target);
  return {[&target, set = std::move(list.set)](const Json& value) -> std::string {
            return set(value).empty() && std::all_of(target.begin(), target.end(), is_cluster)
                       ? ""
                       : "must be a list of logical clusters";
          },
          std::move(list.show), std::move(list.schema)};
}

/// "" is none.
krm::ConfigValue cluster(std::string& target) {
  return {
      [&target](const Json& value) -> std::string {
        if (!value.is_string() || (!value.as_string().empty() && !is_cluster(value.as_string()))) {
          return "must be a logical cluster";
        }
        target = value.as_string();
        return {};
      },
      [&target] { return Json(target); }, krm::schema_of_type("string")};
}

/// One URL, or a list of them.
krm::ConfigValue servers(std::vector<std::string>& target) {
  krm::ConfigValue list = krm::text_list(target);
  Json either = Json::array();
  either.push_back(Json::object({{"type", "string"}, {"minLength", 1}}));
  either.push_back(std::move(list.schema));
  return {[&target, set = std::move(list.set)](const Json& value) -> std::string {
            if (value.is_string() && !value.as_string().empty()) {
              target = {std::string(value.as_string())};
              return {};
            }
            return set(value).empty() ? "" : "must be a URL, or a list of them";
          },
          [&target] { return target.size() == 1 ? Json(target.front()) : krm::texts(target); },
          Json::object({{"anyOf", std::move(either)}})};
}

krm::ConfigTable role_keys(WorkerRoleConfig& role, const std::string& folder) {
  const auto bytes = [](std::size_t& target, std::int64_t low) {
    return krm::number(target, low, kMostBytes, "number of bytes");
  };
  krm::ConfigTable keys = {
      {"endpoints.cluster", cluster(role.slice_cluster)},
      {"endpoints.name", krm::text(role.slice)},
      {"server", servers(role.servers)},
      {"allowed_endpoint_hosts", krm::text_list(role.allowed_endpoint_hosts)},
      {"lease_clusters", clusters(role.lease_clusters)},
      {"memory_limit_bytes", bytes(role.memory_limit, 16 * kLeastBytes)},
      {"journal_max_bytes", bytes(role.journal_max, kLeastBytes)},
      {"write_budget.per_second", krm::fraction(role.writes_per_second, 0.1, kMostWrites)},
      {"write_budget.burst", krm::fraction(role.burst, 1, kMostWrites)},
      {"lease.duration", krm::duration(role.lease_duration, kLeastTime)},
      {"lease.renew", krm::duration(role.lease_renew, kLeastTime)},
      {"lease.give_up", krm::duration(role.lease_give_up, kLeastTime)},
  };
  if (role.name == "messaging") {
    krm::ConfigTable own = messaging_keys(role.messaging, folder);
    std::move(own.begin(), own.end(), std::back_inserter(keys));
  }
  if (role.name == "delivery") {
    krm::ConfigTable own = delivery_keys(role.delivery, folder);
    std::move(own.begin(), own.end(), std::back_inserter(keys));
  }
  if (role.name == "eventing") {
    krm::ConfigTable own = eventing_keys(role.eventing);
    std::move(own.begin(), own.end(), std::back_inserter(keys));
  }
  return keys;
}

using Roles = std::vector<std::unique_ptr<WorkerRoleConfig>>;

/// Every key of the document. @param known  roles that this program has
krm::ConfigTable key_table(WorkerConfig& config, Roles& roles,
                           const std::vector<std::string>& known, const std::string& folder) {
  return {
      {"kubeconfig", krm::file(config.kubeconfig, folder)},
      {"data_dir", krm::file(config.data_dir, folder)},
      {"metrics_bind_address", address(config.metrics)},
      {"health_probe_bind_address", address(config.health)},
      {"tracing.endpoint", krm::text(config.tracing.endpoint)},
      {"tracing.ca_file", krm::file(config.tracing.ca_file, folder)},
      {"tracing.headers_file", krm::file(config.tracing.headers_file, folder)},
      {"tracing.sampling_per_million", krm::number(config.tracing.rules.per_million, 0, 1'000'000)},
      {"admin.socket", krm::file(config.admin_socket, folder)},
      {"isolation",
       krm::one_of<WorkerIsolation>(config.isolation, {{"process", WorkerIsolation::kProcess},
                                                       {"thread", WorkerIsolation::kThread}})},
      {"roles",
       {},
       {true,
        [&roles, &known, folder](const std::string& name) -> std::optional<krm::ConfigTable> {
          if (std::find(known.begin(), known.end(), name) == known.end()) {
            return std::nullopt;
          }
          roles.push_back(std::make_unique<WorkerRoleConfig>());
          roles.back()->name = name;
          return role_keys(*roles.back(), folder);
        },
        [&roles, folder] {
          std::vector<std::pair<std::string, krm::ConfigTable>> all;
          for (const auto& role : roles) {
            all.emplace_back(role->name, role_keys(*role, folder));
          }
          return all;
        }}},
  };
}

/// What one endpoint of a configuration must be. The host is the operator's own word here.
std::string wrong_endpoint(const std::string& url) {
  const auto parsed = net::Url::parse(url);
  workers::EndpointRules rules;
  rules.proxy_host = parsed ? parsed->host : "";
  const auto endpoint = workers::parse_endpoint(url, rules);
  return endpoint ? "" : std::string(endpoint.error().message());
}

void judge_role(const WorkerRoleConfig& role, krm::ConfigReader& reader) {
  const std::string path = "roles." + role.name;
  if (role.slice.empty() != role.slice_cluster.empty()) {
    reader.fault(path + ".endpoints", "needs both of cluster and name");
  } else if (role.slice.empty() == role.servers.empty()) {
    reader.fault(path, role.slice.empty() ? "needs endpoints, or server"
                                          : "has both of endpoints and server");
  }
  for (const std::string& url : role.servers) {
    if (const std::string wrong = wrong_endpoint(url); !wrong.empty()) {
      reader.fault(path + ".server", wrong);
    }
  }
  if (role.lease_clusters.empty()) {
    reader.fault(path + ".lease_clusters", "is required");
  }
  if (role.lease_duration % seconds(1) != Duration{}) {
    reader.fault(path + ".lease.duration", "must be whole seconds");
  }
  if (role.lease_give_up >= role.lease_duration) {
    reader.fault(path + ".lease.give_up",
                 "must be less than duration, which is " + krm::duration_text(role.lease_duration));
  }
  if (role.lease_renew >= role.lease_give_up) {
    reader.fault(path + ".lease.renew",
                 "must be less than give_up, which is " + krm::duration_text(role.lease_give_up));
  }
  if (const auto [key, what] = messaging_fault(role.messaging); !what.empty()) {
    reader.fault(path + "." + key, what);
  }
  if (role.name == "delivery") {
    if (const auto [key, what] = delivery_fault(role.delivery); !what.empty()) {
      reader.fault(path + "." + key, what);
    }
  }
  if (role.name == "eventing") {
    if (const auto [key, what] = eventing_fault(role.eventing); !what.empty()) {
      reader.fault(path + "." + key, what);
    }
  }
}

Expected<void> set_address(const char* flag, const std::optional<std::string>& text,
                           WorkerAddress& target) {
  if (text) {
    auto parsed = parse_worker_address(*text);
    if (!parsed) {
      return fail(Errc::kConfig,
                  std::string(flag) + ": \"" + *text + "\" " + std::string(kAddressForm));
    }
    target = std::move(*parsed);
  }
  return {};
}

Expected<void> apply(const WorkerOverrides& overrides, WorkerConfig& config) {
  if (overrides.isolation) {
    const auto known = isolation_of(*overrides.isolation);
    if (!known) {
      return fail(Errc::kConfig,
                  "--isolation: \"" + *overrides.isolation + "\" is none of process, thread");
    }
    config.isolation = *known;
  }
  if (overrides.data_dir) {
    if (overrides.data_dir->empty()) {
      return fail(Errc::kConfig, "--data-dir: \"\" is no folder");
    }
    config.data_dir = absolute_path(*overrides.data_dir);
  }
  if (overrides.admin_socket) {
    config.admin_socket = absolute_path(*overrides.admin_socket);
  }
  if (auto set = set_address("--metrics-bind-address", overrides.metrics, config.metrics); !set) {
    return set;
  }
  return set_address("--health-probe-bind-address", overrides.health, config.health);
}

/// The endpoints of every role, whatever the document says.
Expected<std::vector<std::string>> shards_of(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string_view url : split(text, ',')) {
    std::string one(url);
    if (const std::string wrong = wrong_endpoint(one); !wrong.empty()) {
      return fail(Errc::kConfig, "--shards: \"" + workers::shown_url(one) + "\" " + wrong);
    }
    if (std::find(out.begin(), out.end(), one) == out.end()) {
      out.push_back(std::move(one));
    }
  }
  return out;
}

}  // namespace

std::optional<WorkerAddress> parse_worker_address(std::string_view text) {
  if (text == "0") {
    return WorkerAddress{};
  }
  if (text.starts_with('/') && text.size() > 1) {
    return WorkerAddress{std::string(text), 0};
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const auto port = parse_decimal<std::uint16_t>(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  if (!port || bracketed != (host.find(':') != std::string_view::npos)) {
    return std::nullopt;
  }
  if (host.empty()) {
    return WorkerAddress{"0.0.0.0", *port};
  }
  const auto ip = net::canonical_ip(std::string(host));
  return ip ? std::optional(WorkerAddress{net::ip_text(*ip), *port}) : std::nullopt;
}

std::string address_text(const WorkerAddress& address) {
  if (address.address.empty()) {
    return "0";
  }
  if (address.address.starts_with('/')) {
    return address.address;
  }
  return host_port(address.address, address.port);
}

Expected<std::vector<std::string>> parse_worker_roles(std::string_view text,
                                                      const std::vector<std::string>& known,
                                                      std::string_view flag) {
  const std::string at = std::string(flag) + ": \"";
  std::vector<std::string> out;
  for (const std::string_view part : split(text, ',')) {
    std::string role(part);
    if (role.empty()) {
      return fail(Errc::kConfig, at + std::string(text) + "\" has an empty name");
    }
    if (std::find(known.begin(), known.end(), role) == known.end()) {
      return fail(Errc::kConfig, at + role + "\" is no role; known: " + join(known, ", "));
    }
    if (std::find(out.begin(), out.end(), role) != out.end()) {
      return fail(Errc::kConfig, at + role + "\" is there twice");
    }
    out.push_back(std::move(role));
  }
  return out;
}

Expected<WorkerConfig> parse_worker_config(std::string_view text, const std::string& path,
                                           const std::vector<std::string>& known,
                                           const WorkerOverrides& overrides,
                                           krm::ConfigOrigin* origin,
                                           const krm::ConfigEnvironment& environment) {
  auto reader = krm::ConfigReader::open(text, path, "WorkerConfiguration");
  if (!reader) {
    return fail(std::move(reader.error()));
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  WorkerConfig config;
  config.data_dir = (std::filesystem::path(folder) / config.data_dir).string();
  Roles roles;
  const krm::ConfigTable table = key_table(config, roles, known, folder);
  reader->read(table);
  if (!reader->is_right()) {
    return fail(reader->error());
  }
  auto from_environment = krm::apply_environment(environment, table);
  if (!from_environment) {
    return fail(std::move(from_environment.error()));
  }
  const auto before = krm::ConfigOrigin::values_of(table);
  if (auto done = apply(overrides, config); !done) {
    return fail(std::move(done.error()));
  }
  if (overrides.shards) {
    auto urls = shards_of(*overrides.shards);
    if (!urls) {
      return fail(std::move(urls.error()));
    }
    for (const auto& role : roles) {
      role->servers = *urls;
      role->slice.clear();
      role->slice_cluster.clear();
    }
  }
  std::vector<std::string> wanted;
  if (overrides.roles) {
    auto named = parse_worker_roles(*overrides.roles, known);
    if (!named) {
      return fail(std::move(named.error()));
    }
    wanted = std::move(*named);
  }
  if (origin != nullptr) {
    origin->lines = reader->lines();
    origin->environment = std::move(*from_environment);
    origin->amended_since(before, table);
  }
  for (const auto& [key, value] :
       {std::pair<const char*, const std::string&>("kubeconfig", config.kubeconfig),
        {"data_dir", config.data_dir}}) {
    if (value.empty()) {
      reader->fault(key, "is required");
    }
  }
  for (const auto& role : roles) {
    judge_role(*role, *reader);
    if (!overrides.roles) {
      wanted.push_back(role->name);
    }
  }
  if (wanted.empty()) {
    reader->fault("roles", "names no role; known: " + join(known, ", "));
  }
  for (const std::string& name : wanted) {
    const auto found = std::find_if(roles.begin(), roles.end(),
                                    [&](const auto& role) { return role->name == name; });
    if (found == roles.end()) {
      reader->fault("roles", "has no section " + name + ", which is to run");
    } else {
      config.roles.push_back(**found);
    }
  }
  if (!config.metrics.address.empty() && config.metrics == config.health &&
      (config.metrics.port != 0 || config.metrics.address.starts_with('/'))) {
    reader->fault("health_probe_bind_address",
                  "is that of metrics_bind_address, " + address_text(config.metrics));
  }
  if (!reader->is_right()) {
    return fail(reader->error());
  }
  return config;
}

std::vector<krm::ShownKey> shown_config(const WorkerConfig& config,
                                        const krm::ConfigOrigin& origin) {
  WorkerConfig copy = config;
  Roles roles;
  for (const WorkerRoleConfig& role : config.roles) {
    roles.push_back(std::make_unique<WorkerRoleConfig>(role));
  }
  const std::vector<std::string> none;  // is added
  return krm::shown_keys(key_table(copy, roles, none, ""), origin);
}

krm::ConfigDescription describe_worker_config(const std::vector<std::string>& known) {
  WorkerConfig config;
  Roles roles;
  for (const std::string& name : known) {
    roles.push_back(std::make_unique<WorkerRoleConfig>());
    roles.back()->name = name;
  }
  return krm::describe_config("WorkerConfiguration", key_table(config, roles, known, ""));
}

std::string render_worker_config(const WorkerConfig& config) {
  return krm::config_yaml("WorkerConfiguration", shown_config(config));
}

}  // namespace kintsugi::server
