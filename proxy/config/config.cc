#include "proxy/config/config.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "aggregation/position/sequence_journal.h"
#include "aggregation/position/slot_table.h"
#include "base/strings.h"
#include "krm/yaml.h"
#include "proxy/config/internal/config_judge.h"
#include "proxy/config/internal/config_values.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

/// One key of the file: where it goes and what it must be.
struct Key {
  std::string path;  ///< "listener.port"
  ConfigSetter set;
  /// Of a list of sections, or of sections by name: the keys of a new one, whose path is given.
  std::function<std::vector<Key>(const std::string& path)> element = {};
  bool named = false;  ///< sections by name
};

constexpr std::size_t kMaxStaticShards = 4'096;

/// Sections `limits.user`, `.cluster`, `.shard`, `.unauthenticated`.
void add_limit_keys(serving::RequestLimits& limits, std::vector<Key>& out) {
  constexpr std::int64_t kMost = 1'000'000'000;
  for (const auto& [whose, rule] :
       {std::pair<const char*, serving::LimitRule*>("user", &limits.user),
        {"cluster", &limits.cluster},
        {"shard", &limits.shard}}) {
    const std::string section = std::string("limits.") + whose;
    out.push_back({section + ".rps", number(rule->rps, 0, kMost)});
    out.push_back({section + ".burst", number(rule->burst, 0, kMost)});
    out.push_back({section + ".concurrent", number(rule->concurrent, 0, kMost)});
    out.push_back({section + ".watches", number(rule->watches, 0, kMost)});
  }
  out.push_back({"limits.unauthenticated.rps", number(limits.unauthenticated_rps, 0, kMost)});
}

/// Section `authentication`.
std::vector<Key> authentication_keys(AuthenticationConfig& config, const std::string& folder) {
  auto& header = config.request_header;
  return {
      {"authentication.client_ca_file", file(config.client_ca_file, folder)},
      {"authentication.client_crl_file", file(config.client_crl_file, folder)},
      {"authentication.request_header.client_ca_file", file(header.client_ca_file, folder)},
      {"authentication.request_header.client_crl_file", file(header.client_crl_file, folder)},
      {"authentication.request_header.allowed_names", text_list(header.names.allowed_names)},
      {"authentication.request_header.username_headers", header_list(header.names.user_headers)},
      {"authentication.request_header.group_headers", header_list(header.names.group_headers)},
      {"authentication.request_header.uid_headers", header_list(header.names.uid_headers)},
      {"authentication.request_header.extra_prefixes", header_list(header.names.extra_prefixes)},
      {"authentication.token_file", file(config.token_file, folder)},
      {"authentication.service_accounts.key_files",
       file_list(config.service_accounts.key_files, folder)},
      {"authentication.service_accounts.issuers", text_list(config.service_accounts.issuers)},
      {"authentication.service_accounts.audiences", text_list(config.service_accounts.audiences)},
      {"authentication.service_accounts.lookup", boolean(config.service_accounts.lookup)},
      {"authentication.webhook.kubeconfig", file(config.webhook.kubeconfig, folder)},
      {"authentication.webhook.version",
       one_of<std::string>(config.webhook.version, {{"v1", "v1"}, {"v1beta1", "v1beta1"}})},
      {"authentication.webhook.cache_ms", milliseconds_of(config.webhook.cache)},
      {"authentication.oidc.issuer_url", text(config.oidc.issuer_url)},
      {"authentication.oidc.client_id", text(config.oidc.client_id)},
      {"authentication.oidc.ca_file", file(config.oidc.ca_file, folder)},
      {"authentication.oidc.username_claim", text(config.oidc.username_claim)},
      {"authentication.oidc.username_prefix", text(config.oidc.username_prefix)},
      {"authentication.oidc.groups_claim", text(config.oidc.groups_claim)},
      {"authentication.oidc.groups_prefix", text(config.oidc.groups_prefix)},
      {"authentication.oidc.required_claims", text_map(config.oidc.required_claims)},
      {"authentication.oidc.signing_algs", text_list(config.oidc.signing_algs)},
      {"authentication.config_file", file(config.config_file, folder)},
      {"authentication.workspaces", boolean(config.workspaces)},
      {"authentication.pass_groups", text_list(config.pass_groups)},
      {"authentication.drop_groups", text_list(config.drop_groups)},
      {"authentication.peers", text_list(config.border.peers)},
      {"authentication.system_users", text_list(config.border.system_users)},
      {"authentication.on_failure",
       one_of<bool>(config.pass_failed, {{"reject", false}, {"pass", true}})},
  };
}

/// Entry of `shards`.
std::vector<Key> override_keys(ShardOverride& shard, const std::string& at,
                               const std::string& folder) {
  return {
      {at + ".ca_file", file(shard.ca_file, folder)},
      {at + ".cert_file", file(shard.cert_file, folder)},
      {at + ".key_file", file(shard.key_file, folder)},
      {at + ".server_name", text(shard.server_name)},
      {at + ".kubeconfig", file(shard.kubeconfig, folder)},
  };
}

/// Element of `topology.shards`.
std::vector<Key> shard_keys(StaticShard& shard, const std::string& at, const std::string& folder) {
  return {
      {at + ".name", text(shard.name)},
      {at + ".uid", text(shard.uid)},
      {at + ".url", text(shard.url)},
      {at + ".labels", text_map(shard.labels)},
      {at + ".identity",
       one_of<CallerIdentity>(shard.identity, {{"request-header", CallerIdentity::kRequestHeader},
                                               {"impersonate", CallerIdentity::kImpersonate}})},
      {at + ".kubeconfig", file(shard.kubeconfig, folder)},
      {at + ".ca_file", file(shard.ca_file, folder)},
      {at + ".cert_file", file(shard.cert_file, folder)},
      {at + ".key_file", file(shard.key_file, folder)},
      {at + ".token_file", file(shard.token_file, folder)},
      {at + ".server_name", text(shard.server_name)},
  };
}

/// Section `aggregation` (AGG-1001, docs/configuration.md).
std::vector<Key> aggregation_keys(aggregation::MergeOptions& options,
                                  aggregation::MergeParams& params, std::string& own_user) {
  constexpr std::int64_t kMostBytes = 1LL << 34;
  return {
      {"aggregation.policy",
       one_of<aggregation::MissingShards>(options.policy,
                                          {{"strict", aggregation::MissingShards::kStrict},
                                           {"partial", aggregation::MissingShards::kPartial}})},
      {"aggregation.allow_partial", boolean(options.allow_partial)},
      {"aggregation.discovery",
       one_of<aggregation::Join>(options.discovery,
                                 {{"union", aggregation::Join::kUnion},
                                  {"intersection", aggregation::Join::kIntersection}})},
      {"aggregation.system_clusters",
       one_of<bool>(options.qualify_system, {{"exclude", false}, {"qualify", true}})},
      {"aggregation.resync.mode",
       one_of<aggregation::Resync>(options.resync, {{"diff", aggregation::Resync::kDiff},
                                                    {"expire", aggregation::Resync::kExpire}})},
      {"aggregation.resync.index_bytes", number(params.index_bytes, 0, kMostBytes)},
      {"aggregation.resync.index_after_ms", milliseconds_of(params.index_after)},
      {"aggregation.resync.spread_ms", milliseconds_of(params.expire_spread)},
      {"aggregation.resync.max_per_second", number(params.expire_rate, 1, 1'000'000)},
      {"aggregation.watchlist.mode",
       one_of<bool>(options.watch_list, {{"serve", true}, {"refuse", false}})},
      {"aggregation.watchlist.silence_ms", milliseconds_of(params.silence, 1)},
      {"aggregation.watchlist.initial_deadline_ms", milliseconds_of(params.initial_deadline, 1)},
      {"aggregation.watchlist.give_up_ms", milliseconds_of(params.give_up, 1)},
      {"aggregation.watch.bookmark_min_interval_ms", milliseconds_of(params.bookmark_gap, 1)},
      {"aggregation.watch.bookmark_idle_ms", milliseconds_of(params.bookmark_idle, 1)},
      {"aggregation.watch.headers_wait_ms", milliseconds_of(params.headers_wait, 1)},
      {"aggregation.watch.max_stall_ms", milliseconds_of(params.max_stall, 1)},
      {"aggregation.watch.group_linger_ms", milliseconds_of(params.group_linger)},
      {"aggregation.watch.group_log_bytes", number(params.group_log, 1024, kMostBytes)},
      {"aggregation.watch.resume_events", number(params.resume_events, 0, 1 << 20)},
      {"aggregation.watch.queue_high_bytes", number(params.queue_high, 1024, kMostBytes)},
      {"aggregation.watch.queue_high_events", number(params.queue_high_events, 1, 1 << 24)},
      {"aggregation.watch.queue_total_bytes", number(params.queue_total, 0, 1LL << 40)},
      {"aggregation.watch.slow_grace_ms", milliseconds_of(params.slow_grace)},
      {"aggregation.watch.max_event_bytes", number(params.max_event, 1024, 1LL << 30)},
      {"aggregation.list.first_byte_ms", milliseconds_of(params.first_byte, 1)},
      {"aggregation.list.deadline_ms", milliseconds_of(params.list_deadline, 1)},
      {"aggregation.list.max_streams", number(params.list_streams, 1, 1 << 20)},
      {"aggregation.list.protobuf_spool_bytes", number(params.protobuf_spool, 0, kMostBytes)},
      {"aggregation.absent.reprobe_ms", milliseconds_of(params.reprobe, 1)},
      {"aggregation.share",
       one_of<aggregation::Share>(options.share, {{"caller", aggregation::Share::kCaller},
                                                  {"reviewed", aggregation::Share::kReviewed}})},
      {"aggregation.authz.cache_ms", milliseconds_of(params.rights_age)},
      {"aggregation.authz.recheck_ms", milliseconds_of(params.rights_recheck, 100)},
      {"aggregation.authz.grace_ms", milliseconds_of(params.rights_grace)},
      {"aggregation.authz.user", text(own_user)},
      {"aggregation.cursor.generations_kept", number(params.generations_kept, 1, 1 << 16)},
      {"aggregation.cursor.future_wait_ms", milliseconds_of(params.future_wait)},
      {"aggregation.cursor.mode",
       one_of<bool>(options.sequence, {{"vector", false}, {"sequence", true}})},
      {"aggregation.cursor.sequence_bytes", number(params.sequence_bytes, 1 << 16, kMostBytes)},
  };
}

std::vector<Key> key_table(ProxyConfig& config, const std::string& folder) {
  using endpointslice::Consumers;
  using endpointslice::EndpointMode;
  const std::vector<std::pair<std::string_view, GroupMode>> modes = {
      {"proxy", GroupMode::kProxy}, {"shard", GroupMode::kShard}, {"auto", GroupMode::kAuto}};
  std::vector<Key> out = {
      {"external_url", text(config.external_url)},
      {"data_dir", file(config.data_dir, folder)},
      {"loops", number(config.loops, 0, 256)},
      {"listener.address", text(config.listener.address)},
      {"listener.port", number(config.listener.port, 0, 65535)},
      {"listener.cert_file", file(config.listener.cert_file, folder)},
      {"listener.key_file", file(config.listener.key_file, folder)},
      {"listener.max_streams", number(config.listener.max_streams, 1, 10'000)},
      {"listener.goaway_chance", share(config.listener.goaway_chance, 0.02)},
      {"listener.handshake_timeout_ms", milliseconds_of(config.listener.timeouts.handshake, 1)},
      {"listener.header_timeout_ms", milliseconds_of(config.listener.timeouts.header, 1)},
      {"listener.first_request_timeout_ms",
       milliseconds_of(config.listener.timeouts.first_request, 1)},
      {"listener.idle_timeout_ms", milliseconds_of(config.listener.timeouts.idle, 1)},
      {"listener.slow_reader_timeout_ms", milliseconds_of(config.listener.timeouts.slow_reader, 1)},
      {"topology.source",
       one_of<std::string>(config.topology.source,
                           {{"kcp", "kcp"}, {"objects", "objects"}, {"static", "static"}})},
      {"topology.root_kubeconfig", file(config.topology.root_kubeconfig, folder)},
      {"topology.shards_kubeconfig", file(config.topology.shards_kubeconfig, folder)},
      {"topology.reviewed_kubeconfig", file(config.topology.reviewed_kubeconfig, folder)},
      {"topology.peer_kubeconfigs", file_list(config.topology.peer_kubeconfigs, folder)},
      {"topology.generation", number(config.topology.generation, 1, aggregation::kMaxGeneration)},
      {"topology.shards",
       {},
       [&shards = config.topology.shards, folder](const std::string& path) {
         return shard_keys(shards.emplace_back(), path, folder);
       }},
      {"topology.groups.topology.kcp.io",
       one_of<GroupMode>(config.topology.groups.partitions, modes)},
      {"topology.groups.apis.kcp.io", one_of<GroupMode>(config.topology.groups.slices, modes)},
      {"shards",
       {},
       [&shards = config.shards, folder](const std::string& path) {
         shards.emplace_back().name = path.substr(sizeof("shards"));
         return override_keys(shards.back(), path, folder);
       },
       true},
      {"mapping_file", file(config.mapping_file, folder)},
      {"backend.ca_file", file(config.backend.ca_file, folder)},
      {"backend.cert_file", file(config.backend.cert_file, folder)},
      {"backend.key_file", file(config.backend.key_file, folder)},
      {"backend.crl_file", file(config.backend.crl_file, folder)},
      {"crl.stale", one_of<bool>(config.crl.stale_is_refused, {{"refuse", true}, {"warn", false}})},
      {"crl.required", boolean(config.crl.is_required)},
      {"endpoint_slice.mode", one_of<EndpointMode>(config.endpoint_slice.mode,
                                                   {{"direct", EndpointMode::kDirect},
                                                    {"proxied", EndpointMode::kProxied},
                                                    {"aggregated", EndpointMode::kAggregated}})},
      {"endpoint_slice.consumers",
       one_of<Consumers>(config.endpoint_slice.consumers,
                         {{"ignored", Consumers::kIgnored}, {"required", Consumers::kRequired}})},
      {"endpoint_slice.leave_grace_ms", milliseconds_of(config.endpoint_slice.leave_grace)},
      {"wildcard",
       one_of<std::string>(config.wildcard,
                           {{"deny", "deny"}, {"serve", "serve"}, {"reviewed", "reviewed"}})},
      {"cors.allowed_origins", pattern_list(config.cors_origins)},
      {"mounts.allowed_hosts", text_list(config.mount_hosts)},
      {"outgoing.allow", address_list(config.outgoing.allow)},
      {"outgoing.deny", address_list(config.outgoing.deny)},
      {"outgoing.ports", port_list(config.outgoing.ports)},
      {"existence", one_of<std::string>(config.existence, {{"hide", "hide"}, {"kcp", "kcp"}})},
      {"admin.bind", text(config.admin.bind)},
      {"admin.token_file", file(config.admin.token_file, folder)},
      {"admin.socket", file(config.admin.socket, folder)},
      {"audit.policy_file", file(config.audit.policy_file, folder)},
      {"audit.log_file", file(config.audit.log_file, folder)},
      {"audit.webhook_kubeconfig", file(config.audit.webhook_kubeconfig, folder)},
      {"audit.max_size_mb", number(config.audit.max_size_mb, 1, 1'000'000)},
      {"audit.max_backups", number(config.audit.max_backups, 0, 1'000'000)},
      {"audit.max_age_days", number(config.audit.max_age_days, 0, 100'000)},
      {"limits.body_bytes", number(config.limits.body_bytes, 1024, 1LL << 32)},
      {"memory.budget", number(config.memory_budget, 0, 1LL << 50)},
      {"limits.tunnel_idle_ms", milliseconds_of(config.limits.tunnel_idle, 0)},
      {"limits.seats", number(config.seats, 0, 1'000'000)},
      {"limits.total_seats", number(config.total_seats, 0, 1'000'000)},
      {"fairness.distribute_by_effective_user", text_list(config.distributed_users)},
      {"limits.served.reads", number(config.served_limits.reads, 0, 1'000'000)},
      {"limits.served.writes", number(config.served_limits.writes, 0, 1'000'000)},
      {"limits.served.watch_starts", number(config.served_limits.watch_starts, 0, 1'000'000)},
      {"authorization.recheck_watches_ms",
       milliseconds_of(config.authorization.recheck_watches, 100)},
      {"shutdown.delay_ms", milliseconds_of(config.shutdown.delay)},
      {"shutdown.grace_ms", milliseconds_of(config.shutdown.grace)},
      {"shutdown.spread_ms", milliseconds_of(config.shutdown.spread)},
      {"reload.poll_ms", milliseconds_of(config.reload.poll, 100)},
  };
  add_limit_keys(config.request_limits, out);
  for (const std::string_view key : serving::OpenLimits::kKeys) {
    out.push_back(
        {"limits." + std::string(key), number(*config.open_limits.member(key), 0, 1'000'000'000)});
  }
  std::vector<Key> aggregation =
      aggregation_keys(config.aggregation, config.merge, config.own_user);
  std::move(aggregation.begin(), aggregation.end(), std::back_inserter(out));
  out.push_back({"aggregation.shared_file", file(config.shared_file, folder)});
  out.push_back({"aggregation.token_keys_file", file(config.token_keys_file, folder)});
  out.push_back({"aggregation.cursor.journal", file(config.sequence_journal, folder)});
  out.push_back({"aggregation.cursor.journal_bytes",
                 number(config.sequence_journal_bytes, aggregation::SequenceJournal::kLeastBytes,
                        1LL << 34)});
  std::vector<Key> authentication = authentication_keys(config.authentication, folder);
  std::move(authentication.begin(), authentication.end(), std::back_inserter(out));
  return out;
}

struct Reader {
  const std::string& path;
  const std::map<std::string, std::size_t>& lines;
  const std::vector<Key>& keys;

  [[nodiscard]] Expected<void> fault(const std::string& key, const std::string& what) const {
    const auto line = lines.find(key);
    return fail(Errc::kConfig, path + ":" + std::to_string(line == lines.end() ? 1 : line->second) +
                                   ": " + key + ": " + what);
  }

  [[nodiscard]] Expected<void> read(const Json& object, const std::string& prefix) const {
    for (const krm::JsonMember& member : object.members()) {
      const std::string key = prefix.empty() ? member.key : prefix + "." + member.key;
      if (prefix.empty() && (member.key == "apiVersion" || member.key == "kind")) {
        continue;
      }
      const auto known =
          std::find_if(keys.begin(), keys.end(), [&](const Key& one) { return one.path == key; });
      if (known != keys.end() && known->element) {
        if (auto result = known->named ? read_named(member.value, key, *known)
                                       : read_list(member.value, key, *known);
            !result) {
          return result;
        }
        continue;
      }
      if (known != keys.end()) {
        if (const std::string wrong = known->set(member.value); !wrong.empty()) {
          return fault(key, wrong);
        }
        continue;
      }
      const bool section = std::any_of(keys.begin(), keys.end(), [&](const Key& one) {
        return one.path.starts_with(key + ".");
      });
      if (!section) {
        return fault(key, "unknown key");
      }
      if (!member.value.is_object()) {
        return fault(key, must_be("a section with keys"));
      }
      if (auto result = read(member.value, key); !result) {
        return result;
      }
    }
    return {};
  }

  [[nodiscard]] Expected<void> read_named(const Json& object, const std::string& key,
                                          const Key& known) const {
    if (!object.is_object()) {
      return fault(key, must_be("sections by name"));
    }
    for (const krm::JsonMember& member : object.members()) {
      const std::string path_of = key + "." + member.key;
      const std::vector<Key> of_element = known.element(path_of);
      if (!member.value.is_object()) {
        return fault(path_of, must_be("a section with keys"));
      }
      const Reader reader{path, lines, of_element};
      if (auto result = reader.read(member.value, path_of); !result) {
        return result;
      }
    }
    return {};
  }

  [[nodiscard]] Expected<void> read_list(const Json& list, const std::string& key,
                                         const Key& known) const {
    if (!list.is_array()) {
      return fault(key, must_be("a list"));
    }
    // Where an element is kept moves when the next one comes: its keys are read at once.
    for (std::size_t i = 0; i < list.items().size(); ++i) {
      const std::string path_of = key + "[" + std::to_string(i) + "]";
      const std::vector<Key> of_element = known.element(path_of);
      if (!list.items()[i].is_object()) {
        return fault(key, "element " + std::to_string(i) + " " + must_be("a section with keys"));
      }
      const Reader reader{path, lines, of_element};
      if (auto result = reader.read(list.items()[i], path_of); !result) {
        return result;
      }
    }
    return {};
  }
};

/// Defaults and rules of source `static`.
[[nodiscard]] Expected<void> finish_shards(ProxyConfig& config, const Reader& reader) {
  std::vector<StaticShard>& shards = config.topology.shards;
  if (config.topology.source != "static") {
    return shards.empty() ? Expected<void>()
                          : reader.fault("topology.shards", "is for source static only");
  }
  if (shards.empty() || shards.size() > kMaxStaticShards) {
    return reader.fault("topology.shards",
                        must_be("a list of 1 to " + std::to_string(kMaxStaticShards) + " shards"));
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
      return reader.lines.contains(key)
                 ? reader.fault(key, wrong->what)
                 : reader.fault(at + "name", std::string(wrong->key) + " " + wrong->what);
    }
  }
  return {};
}

}  // namespace

Expected<ProxyConfig> parse_proxy_config(std::string_view text_in, const std::string& path,
                                         const AmendConfig& amend) {
  krm::YamlReport report;
  report.collect_lines = true;
  auto document = krm::parse_yaml(text_in, &report);
  if (!document) {
    return fail(Errc::kConfig, path + ": " + std::string(document.error().message()));
  }
  if (!report.duplicate_keys.empty()) {
    return fail(Errc::kConfig, path + ": " + report.duplicate_keys.front());
  }
  ProxyConfig config;
  const std::vector<Key> keys =
      key_table(config, std::filesystem::path(path).parent_path().string());
  const Reader reader{path, report.key_lines, keys};
  if (document->text({"kind"}) != "ProxyConfiguration") {
    return fail(reader.fault("kind", must_be("ProxyConfiguration")).error().clone());
  }
  if (document->text({"apiVersion"}) != "kintsugi.dev/v1alpha1") {
    return fail(reader.fault("apiVersion", must_be("kintsugi.dev/v1alpha1")).error().clone());
  }
  if (auto result = reader.read(*document, ""); !result) {
    return fail(std::move(result.error()));
  }
  if (amend) {
    if (auto result = amend(config); !result) {
      return fail(std::move(result.error()));
    }
  }
  for (const ShardOverride& shard : config.shards) {
    if (shard.cert_file.empty() != shard.key_file.empty()) {
      return fail(
          reader
              .fault("shards." + shard.name + (shard.key_file.empty() ? ".cert_file" : ".key_file"),
                     "needs both of cert_file and key_file")
              .error()
              .clone());
    }
  }
  config.endpoint_slice.external_url = config.external_url;
  if (auto result = finish_shards(config, reader); !result) {
    return fail(std::move(result.error()));
  }
  if (config.topology.source == "objects" && !config.shared_file.empty()) {
    // Every proxy has Shards of its own, with UIDs of its own.
    return fail(
        reader.fault("aggregation.shared_file", "is for sources kcp and static").error().clone());
  }
  if (config.crl.is_required && config.authentication.client_crl_file.empty() &&
      config.authentication.request_header.client_crl_file.empty() &&
      config.backend.crl_file.empty()) {
    return fail(reader.fault("crl.required", "needs a file of revocation lists").error().clone());
  }
  if (config.own_user.empty()) {
    return fail(reader.fault("aggregation.authz.user", "is required").error().clone());
  }
  const bool is_static = config.topology.source == "static";
  const bool has_backend = !is_static && config.backend.kubeconfig.empty();
  if (config.existence.empty()) {
    config.existence = config.kcp_command_line ? "kcp" : "hide";
  }
  if (config.wildcard.empty()) {
    config.wildcard = is_static ? "serve" : "deny";
  }
  if (is_static && config.wildcard == "reviewed") {
    return fail(reader
                    .fault("wildcard",
                           "reviewed is for shards of kcp; plain servers are asked "
                           "with aggregation.share: reviewed")
                    .error()
                    .clone());
  }
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
        Required{"backend.ca_file", config.backend.ca_file, has_backend},
        Required{"backend.cert_file", config.backend.cert_file,
                 has_backend || !config.backend.key_file.empty()},
        Required{"backend.key_file", config.backend.key_file,
                 has_backend || !config.backend.cert_file.empty()}}) {
    if (required.needed && required.value.empty()) {
      return fail(reader.fault(std::string(required.key), "is required").error().clone());
    }
  }
  if (config.external_url.empty() &&
      config.endpoint_slice.mode != endpointslice::EndpointMode::kDirect) {
    return fail(
        reader.fault("external_url", "is required for this endpoint_slice.mode").error().clone());
  }
  return config;
}

}  // namespace kintsugi::proxy
