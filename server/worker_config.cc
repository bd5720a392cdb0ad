#include "server/worker_config.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/strings.h"
#include "krm/json.h"
#include "krm/yaml.h"
#include "net/address_rules.h"
#include "net/upstream.h"
#include "server/files.h"
#include "server/internal/messaging_settings.h"
#include "server/internal/worker_values.h"
#include "workers/runtime/endpoints/endpoint_url.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr std::size_t kLeastBytes = std::size_t{1} << 20, kMostBytes = std::size_t{1} << 50;
constexpr Duration kLeastTime = milliseconds(10);
constexpr double kMostWrites = 1'000'000;
constexpr std::string_view kAddressForm = "must be <IP address>:<port>, :<port>, /<socket> or 0";

/// As typed, before what belongs together is compared.
struct RoleSection {
  WorkerRoleConfig config;
  std::vector<std::string> servers;  ///< `server`
};

WorkerSetter address(WorkerAddress& target) {
  return [&target](const Json& value) -> std::string {
    auto parsed = value.is_string() ? parse_worker_address(value.as_string()) : std::nullopt;
    if (!parsed) {
      return std::string(kAddressForm);
    }
    target = std::move(*parsed);
    return {};
  };
}

std::optional<WorkerIsolation> isolation_of(std::string_view text) {
  return text == "process"  ? std::optional(WorkerIsolation::kProcess)
         : text == "thread" ? std::optional(WorkerIsolation::kThread)
                            : std::nullopt;
}

WorkerSetter isolation(WorkerIsolation& target) {
  return [&target](const Json& value) -> std::string {
    const auto known = value.is_string() ? isolation_of(value.as_string()) : std::nullopt;
    target = known.value_or(target);
    return known ? "" : "must be process or thread";
  };
}

/// Names that stand in paths of requests.
bool is_cluster(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
  });
}

WorkerSetter clusters(std::vector<std::string>& target) {
  return [&target, read = worker_texts(target)](const Json& value) -> std::string {
    return read(value).empty() && std::all_of(target.begin(), target.end(), is_cluster)
               ? ""
               : "must be a list of logical clusters";
  };
}

WorkerSetter cluster(std::string& target) {
  return [&target](const Json& value) -> std::string {
    if (!value.is_string() || !is_cluster(value.as_string())) {
      return "must be a logical cluster";
    }
    target = value.as_string();
    return {};
  };
}

/// One URL, or a list of them.
WorkerSetter servers(std::vector<std::string>& target) {
  return [&target, read = worker_texts(target)](const Json& value) -> std::string {
    if (value.is_string() && !value.as_string().empty()) {
      target = {std::string(value.as_string())};
      return {};
    }
    return read(value).empty() && !target.empty() ? "" : "must be a URL, or a list of them";
  };
}

std::vector<WorkerKey> role_keys(RoleSection& section, const std::string& folder) {
  WorkerRoleConfig& role = section.config;
  std::vector<WorkerKey> keys = {
      {"endpoints",
       {},
       {{"cluster", cluster(role.slice_cluster)}, {"name", worker_text(role.slice)}}},
      {"server", servers(section.servers)},
      {"allowed_endpoint_hosts", worker_texts(role.allowed_endpoint_hosts)},
      {"lease_clusters", clusters(role.lease_clusters)},
      {"memory_limit_bytes", worker_bytes(role.memory_limit, 16 * kLeastBytes, kMostBytes)},
      {"journal_max_bytes", worker_bytes(role.journal_max, kLeastBytes, kMostBytes)},
      {"write_budget",
       {},
       {{"per_second", worker_number(role.writes_per_second, 0.1, kMostWrites)},
        {"burst", worker_number(role.burst, 1, kMostWrites)}}},
      {"lease",
       {},
       {{"duration", worker_duration(role.lease_duration, kLeastTime)},
        {"renew", worker_duration(role.lease_renew, kLeastTime)},
        {"give_up", worker_duration(role.lease_give_up, kLeastTime)}}},
  };
  if (role.name == "messaging") {
    keys.push_back({"messaging", {}, messaging_keys(role.messaging, folder)});
  }
  return keys;
}

/// What one endpoint of a configuration must be. The host is the operator's own word here.
std::string wrong_endpoint(const std::string& url) {
  const auto parsed = net::Url::parse(url);
  workers::EndpointRules rules;
  rules.proxy_host = parsed ? parsed->host : "";
  const auto endpoint = workers::parse_endpoint(url, rules);
  return endpoint ? "" : std::string(endpoint.error().message());
}

Expected<void> judge_role(const RoleSection& section, const std::string& path,
                          const WorkerReader& reader) {
  const WorkerRoleConfig& role = section.config;
  if (role.slice.empty() != role.slice_cluster.empty()) {
    return fail(reader.fault(path + ".endpoints", "needs both of cluster and name"));
  }
  if (role.slice.empty() == section.servers.empty() && role.servers.empty()) {
    return fail(reader.fault(path, role.slice.empty() ? "needs endpoints, or server"
                                                      : "has both of endpoints and server"));
  }
  for (const std::string& url : section.servers) {
    if (const std::string wrong = wrong_endpoint(url); !wrong.empty()) {
      return fail(reader.fault(path + ".server", wrong));
    }
  }
  if (role.lease_clusters.empty()) {
    return fail(reader.fault(path + ".lease_clusters", "is required"));
  }
  if (role.lease_duration % seconds(1) != Duration{}) {
    return fail(reader.fault(path + ".lease.duration", "must be whole seconds"));
  }
  if (role.lease_give_up >= role.lease_duration) {
    return fail(reader.fault(path + ".lease.give_up", "must be less than duration, which is " +
                                                          duration_text(role.lease_duration)));
  }
  if (role.lease_renew >= role.lease_give_up) {
    return fail(reader.fault(path + ".lease.renew", "must be less than give_up, which is " +
                                                        duration_text(role.lease_give_up)));
  }
  if (const auto [key, what] = messaging_fault(role.messaging); !what.empty()) {
    return fail(reader.fault(path + ".messaging." + key, what));
  }
  return {};
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

Json texts(const std::vector<std::string>& all) {
  Json out = Json::array();
  for (const std::string& one : all) {
    out.push_back(one);
  }
  return out;
}

Json number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

Json role_document(const WorkerRoleConfig& role) {
  Json out = Json::object(
      {{"allowed_endpoint_hosts", texts(role.allowed_endpoint_hosts)},
       {"journal_max_bytes", static_cast<std::int64_t>(role.journal_max)},
       {"lease", Json::object({{"duration", duration_text(role.lease_duration)},
                               {"give_up", duration_text(role.lease_give_up)},
                               {"renew", duration_text(role.lease_renew)}})},
       {"lease_clusters", texts(role.lease_clusters)},
       {"memory_limit_bytes", static_cast<std::int64_t>(role.memory_limit)},
       {"write_budget", Json::object({{"burst", number(role.burst)},
                                      {"per_second", number(role.writes_per_second)}})}});
  if (role.servers.empty()) {
    out["endpoints"] = Json::object({{"cluster", role.slice_cluster}, {"name", role.slice}});
  } else if (role.servers.size() == 1) {
    out["server"] = role.servers.front();
  } else {
    out["server"] = texts(role.servers);
  }
  if (role.name == "messaging") {
    out["messaging"] = messaging_document(role.messaging);
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
  const bool is_v6 = address.address.find(':') != std::string::npos;
  return (is_v6 ? "[" + address.address + "]" : address.address) + ":" +
         std::to_string(address.port);
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
                                           const WorkerOverrides& overrides) {
  krm::YamlReport report;
  report.collect_lines = true;
  auto document = krm::parse_yaml(text, &report);
  if (!document) {
    return fail(Errc::kConfig, path + ": " + std::string(document.error().message()));
  }
  if (!report.duplicate_keys.empty()) {
    return fail(Errc::kConfig, path + ": " + report.duplicate_keys.front());
  }
  const WorkerReader reader(path, report.key_lines);
  if (document->text({"kind"}) != "WorkerConfiguration") {
    return fail(reader.fault("kind", "must be WorkerConfiguration"));
  }
  if (document->text({"apiVersion"}) != "kintsugi.dev/v1alpha1") {
    return fail(reader.fault("apiVersion", "must be kintsugi.dev/v1alpha1"));
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  WorkerConfig config;
  config.data_dir = (std::filesystem::path(folder) / config.data_dir).string();
  std::vector<std::unique_ptr<RoleSection>> sections;
  std::string head;
  const std::vector<WorkerKey> keys = {
      {"apiVersion", worker_text(head)},
      {"kind", worker_text(head)},
      {"kubeconfig", worker_file(config.kubeconfig, folder)},
      {"data_dir", worker_file(config.data_dir, folder)},
      {"metrics_bind_address", address(config.metrics)},
      {"health_probe_bind_address", address(config.health)},
      {"isolation", isolation(config.isolation)},
      {"roles",
       {},
       {},
       [&](const std::string& name) -> std::vector<WorkerKey> {
         if (std::find(known.begin(), known.end(), name) == known.end()) {
           return {};
         }
         sections.push_back(std::make_unique<RoleSection>());
         sections.back()->config.name = name;
         return role_keys(*sections.back(), folder);
       }},
  };
  if (auto done = reader.read(*document, "", keys); !done) {
    return fail(std::move(done.error()));
  }
  if (config.kubeconfig.empty()) {
    return fail(reader.fault("kubeconfig", "is required"));
  }
  if (auto done = apply(overrides, config); !done) {
    return fail(std::move(done.error()));
  }
  std::vector<std::string> wanted;
  if (overrides.roles) {
    auto named = parse_worker_roles(*overrides.roles, known);
    if (!named) {
      return fail(std::move(named.error()));
    }
    wanted = std::move(*named);
  }
  std::vector<std::string> shards;
  if (overrides.shards) {
    auto urls = shards_of(*overrides.shards);
    if (!urls) {
      return fail(std::move(urls.error()));
    }
    shards = std::move(*urls);
  }
  for (const auto& section : sections) {
    WorkerRoleConfig& role = section->config;
    if (!shards.empty()) {
      role.servers = shards;
    }
    if (auto right = judge_role(*section, "roles." + role.name, reader); !right) {
      return fail(std::move(right.error()));
    }
    if (!shards.empty()) {
      role.slice.clear();
      role.slice_cluster.clear();
    } else {
      role.servers = section->servers;
    }
    if (!overrides.roles) {
      wanted.push_back(role.name);
    }
  }
  if (wanted.empty()) {
    return fail(reader.fault("roles", "names no role; known: " + join(known, ", ")));
  }
  for (const std::string& name : wanted) {
    const auto found = std::find_if(sections.begin(), sections.end(), [&](const auto& section) {
      return section->config.name == name;
    });
    if (found == sections.end()) {
      return fail(reader.fault("roles", "has no section " + name + ", which is to run"));
    }
    config.roles.push_back((*found)->config);
  }
  if (!config.metrics.address.empty() && config.metrics == config.health &&
      (config.metrics.port != 0 || config.metrics.address.starts_with('/'))) {
    return fail(reader.fault("health_probe_bind_address",
                             "is that of metrics_bind_address, " + address_text(config.metrics)));
  }
  return config;
}

std::string render_worker_config(const WorkerConfig& config) {
  Json roles = Json::object();
  for (const WorkerRoleConfig& role : config.roles) {
    roles[role.name] = role_document(role);
  }
  return krm::to_yaml(Json::object(
      {{"apiVersion", "kintsugi.dev/v1alpha1"},
       {"kind", "WorkerConfiguration"},
       {"kubeconfig", config.kubeconfig},
       {"data_dir", config.data_dir},
       {"metrics_bind_address", address_text(config.metrics)},
       {"health_probe_bind_address", address_text(config.health)},
       {"isolation", config.isolation == WorkerIsolation::kProcess ? "process" : "thread"},
       {"roles", std::move(roles)}}));
}

}  // namespace kintsugi::server
