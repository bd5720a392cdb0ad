#include "proxy/config/config.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krm/config_values.h"
#include "krm/names.h"
#include "krm/selector.h"
#include "net/proxy_rules.h"
#include "net/upstream.h"
#include "proxy/config/internal/config_judge.h"
#include "proxy/config/internal/config_keys.h"

namespace kintsugi::proxy {
namespace {

using krm::must_be;

constexpr std::size_t kMaxStaticShards = 4'096;
constexpr Duration kForEver = std::chrono::hours(24 * 365);

/// Defaults and rules of source `static`.
void finish_shards(ProxyConfig& config, krm::ConfigReader& reader) {
  std::vector<StaticShard>& shards = config.topology.shards;
  if (config.topology.source != "static") {
    if (!shards.empty()) {
      reader.fault("topology.shards", "is for source static only");
    }
    return;
  }
  if (shards.empty() || shards.size() > kMaxStaticShards) {
    reader.fault("topology.shards",
                 must_be("a list of 1 to " + std::to_string(kMaxStaticShards) + " shards"));
    return;
  }
  for (StaticShard& shard : shards) {
    shard.uid = shard.uid.empty() ? shard.name : shard.uid;
    while (shard.url.ends_with('/')) {
      shard.url.pop_back();
    }
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (const auto wrong = judge(config, i)) {
      const std::string at = "topology.shards[" + std::to_string(i) + "].";
      // A key that is missing has no line: that of the shard's name tells.
      const std::string key = at + std::string(wrong->key);
      if (reader.has(key)) {
        reader.fault(key, wrong->what);
      } else {
        reader.fault(at + "name", std::string(wrong->key) + " " + wrong->what);
      }
    }
  }
}

/// Section `topology.fleet`.
void judge_fleet(const ProxyConfig& config, krm::ConfigReader& reader) {
  const FleetConfig& fleet = config.topology.fleet;
  if (!config.has_fleet()) {
    if (fleet != FleetConfig()) {
      reader.fault("topology.fleet", "is for source clusterprofiles only");
    }
    return;
  }
  if (config.topology.generation != 0) {
    reader.fault("topology.generation", "is for source static only");
  }
  if (const auto selector = krm::Selector::parse(fleet.selector); !selector) {
    reader.fault("topology.fleet.selector", std::string(selector.error().message()));
  }
  for (const std::string& name : fleet.namespaces) {
    if (!krm::check_dns1123_label(name).empty()) {
      reader.fault("topology.fleet.namespaces", "\"" + name + "\" is no name of a namespace");
    }
  }
  for (const std::string& name : fleet.properties) {
    if (!krm::check_qualified_name(name).empty()) {
      reader.fault("topology.fleet.properties", "\"" + name + "\" cannot be the key of a label");
    }
  }
}

/// What depends on the source and the command line.
void fill_in(ProxyConfig& config) {
  config.endpoint_slice.external_url = config.external_url;
  if (config.existence.empty()) {
    config.existence = config.kcp_command_line ? "kcp" : "hide";
  }
  if (config.wildcard.empty()) {
    config.wildcard = config.has_plain_servers() ? "serve" : "deny";
  }
}

void judge_required(const ProxyConfig& config, krm::ConfigReader& reader) {
  const bool is_static = config.has_plain_servers();
  const bool has_backend = !is_static && config.backend.kubeconfig.empty();
  struct Required {
    std::string_view key;
    const std::string& value;
    bool needed = true;
  };
  for (const Required& required :
       {Required{"listener.cert_file", config.listener.cert_file},
        Required{"listener.key_file", config.listener.key_file},
        Required{"authentication.client_ca_file", config.authentication.client_ca_file,
                 !config.kcp_command_line},
        Required{"topology.root_kubeconfig", config.topology.root_kubeconfig,
                 config.topology.source == "kcp"},
        Required{"topology.shards_kubeconfig", config.topology.shards_kubeconfig, !is_static},
        Required{"topology.fleet.kubeconfig", config.topology.fleet.kubeconfig, config.has_fleet()},
        Required{"backend.ca_file", config.backend.ca_file, has_backend},
        Required{"backend.cert_file", config.backend.cert_file,
                 has_backend || !config.backend.key_file.empty()},
        Required{"backend.key_file", config.backend.key_file,
                 has_backend || !config.backend.cert_file.empty()}}) {
    if (required.needed && required.value.empty()) {
      reader.fault(std::string(required.key), "is required");
    }
  }
  if (config.external_url.empty() && !config.endpoint_slice.regions.urls.empty()) {
    reader.fault("external_url", "is required with regions.urls");
  }
  if (config.external_url.empty() &&
      config.endpoint_slice.mode != endpointslice::EndpointMode::kDirect) {
    reader.fault("external_url", "is required for this endpoint_slice.mode");
  }
}

/// What etcd needs, and what is for etcd alone.
void judge_store(const ProxyConfig& config, krm::ConfigReader& reader) {
  const StoreConfig& store = config.store;
  const StoreConfig none;
  if (!store.is_etcd) {
    if (store != none) {
      reader.fault("store", "keys besides type are for type etcd");
    }
    return;
  }
  if (store.endpoints.empty()) {
    reader.fault("store.endpoints", "is required for type etcd");
  }
  for (const std::string& endpoint : store.endpoints) {
    const auto url = net::Url::parse(endpoint);
    if (!url || !url->path.empty()) {
      reader.fault("store.endpoints", "\"" + endpoint + "\" is no URL of a member of etcd");
    }
  }
  if (!store.prefix.starts_with('/') || store.prefix.find_first_not_of('/') == std::string::npos) {
    reader.fault("store.prefix", "must begin with / and name something");
  }
  if (store.cert_file.empty() != store.key_file.empty()) {
    reader.fault(store.key_file.empty() ? "store.cert_file" : "store.key_file",
                 "needs both of cert_file and key_file");
  }
  if (store.user.empty() != store.password_file.empty()) {
    reader.fault(store.user.empty() ? "store.password_file" : "store.user",
                 "needs both of user and password_file");
  }
  if (!config.shared_file.empty()) {
    reader.fault("aggregation.shared_file", "is for proxies without store.type: etcd");
  }
}

/// What keys have to do with each other.
void judge_together(const ProxyConfig& config, krm::ConfigReader& reader) {
  for (const ShardOverride& shard : config.shards) {
    if (shard.cert_file.empty() != shard.key_file.empty()) {
      reader.fault("shards." + shard.name + (shard.key_file.empty() ? ".cert_file" : ".key_file"),
                   "needs both of cert_file and key_file");
    }
    if (!shard.proxy_url.empty() && !net::parse_proxy(shard.proxy_url, false)) {
      reader.fault("shards." + shard.name + ".proxy_url", "only http://host:port is supported");
    }
  }
  if (config.topology.source == "objects" && !config.shared_file.empty()) {
    // Every proxy has Shards of its own, with UIDs of its own.
    reader.fault("aggregation.shared_file", "is for sources kcp and static");
  }
  if (config.crl.is_required && config.authentication.client_crl_file.empty() &&
      config.authentication.request_header.client_crl_file.empty() &&
      config.backend.crl_file.empty()) {
    reader.fault("crl.required", "needs a file of revocation lists");
  }
  std::map<std::string_view, std::string_view> regions;  // by URL
  for (const auto& [region, url] : config.endpoint_slice.regions.urls) {
    const std::string_view whole = url;
    const auto [known, is_new] =
        regions.emplace(whole.substr(0, whole.find_last_not_of('/') + 1), region);
    if (region == "any" || region == "shard" || !krm::check_label_value(region).empty() ||
        region.empty()) {
      reader.fault("regions.urls",
                   "\"" + region +
                       "\" cannot be a region: it is no value of a label, or means something else");
    } else if (!endpointslice::join_url(url, "").has_value()) {
      reader.fault("regions.urls", region + ": must be an http or https URL");
    } else if (!is_new) {
      reader.fault("regions.urls", region + ": has the URL of " + std::string(known->second));
    }
  }
  if (!krm::check_qualified_name(config.endpoint_slice.regions.label).empty()) {
    reader.fault("regions.label", "must be the key of a label");
  }
  if (config.own_user.empty()) {
    reader.fault("aggregation.authz.user", "is required");
  }
  if (config.has_plain_servers() && config.wildcard == "reviewed") {
    reader.fault("wildcard",
                 "reviewed is for shards of kcp; plain servers are asked with aggregation.share: "
                 "reviewed");
  }
}

}  // namespace

aggregation::MergeParams ProxyConfig::merge_in_force() const {
  aggregation::MergeParams out = merge;
  if (!endpoint_slice.regions.urls.empty() && freezes_for_ever) {
    out.max_stall = kForEver;
  }
  return out;
}

Expected<ProxyConfig> parse_proxy_config(std::string_view text, const std::string& path,
                                         const AmendConfig& amend, krm::ConfigOrigin* origin,
                                         const krm::ConfigEnvironment& environment) {
  auto reader = krm::ConfigReader::open(text, path, "ProxyConfiguration");
  if (!reader) {
    return fail(std::move(reader.error()));
  }
  ProxyConfig config;
  const krm::ConfigTable table =
      key_table(config, std::filesystem::path(path).parent_path().string());
  reader->read(table);
  if (!reader->is_right()) {
    return fail(reader->error());
  }
  auto from_environment = krm::apply_environment(environment, table);
  if (!from_environment) {
    return fail(std::move(from_environment.error()));
  }
  if (origin != nullptr) {
    origin->lines = reader->lines();
    origin->environment = std::move(*from_environment);
  }
  if (amend) {
    const auto before = krm::ConfigOrigin::values_of(table);
    if (auto result = amend(config); !result) {
      return fail(std::move(result.error()));
    }
    if (origin != nullptr) {
      origin->amended_since(before, table);
    }
  }
  fill_in(config);
  finish_shards(config, *reader);
  judge_fleet(config, *reader);
  judge_store(config, *reader);
  judge_together(config, *reader);
  judge_required(config, *reader);
  if (!reader->is_right()) {
    return fail(reader->error());
  }
  return config;
}

std::vector<krm::ShownKey> shown_config(const ProxyConfig& config,
                                        const krm::ConfigOrigin& origin) {
  ProxyConfig copy = config;
  return krm::shown_keys(key_table(copy, ""), origin);
}

krm::ConfigDescription describe_proxy_config() {
  ProxyConfig config;
  return krm::describe_config("ProxyConfiguration", key_table(config, ""));
}

}  // namespace kintsugi::proxy
