#include "proxy/config/internal/config_keys.h"

#include <iterator>
#include <utility>
#include <vector>

#include "aggregation/position/sequence_journal.h"
#include "aggregation/position/slot_table.h"
#include "proxy/config/internal/config_values.h"

namespace kintsugi::proxy {
namespace {

using krm::boolean;
using krm::ConfigTable;
using krm::file;
using krm::file_list;
using krm::milliseconds_of;
using krm::number;
using krm::one_of;
using krm::text;
using krm::text_list;
using krm::text_map;

/// Sections `limits.user`, `.cluster`, `.shard`, `.unauthenticated`.
void add_limit_keys(serving::RequestLimits& limits, ConfigTable& out) {
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
ConfigTable authentication_keys(AuthenticationConfig& config, const std::string& folder) {
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
ConfigTable override_keys(ShardOverride& shard, const std::string& folder) {
  return {
      {"ca_file", file(shard.ca_file, folder)},       {"cert_file", file(shard.cert_file, folder)},
      {"key_file", file(shard.key_file, folder)},     {"server_name", text(shard.server_name)},
      {"kubeconfig", file(shard.kubeconfig, folder)}, {"proxy_url", text(shard.proxy_url)},
  };
}

/// Element of `topology.shards`.
ConfigTable shard_keys(StaticShard& shard, const std::string& folder) {
  return {
      {"name", text(shard.name)},
      {"uid", text(shard.uid)},
      {"url", text(shard.url)},
      {"labels", text_map(shard.labels)},
      {"identity",
       one_of<CallerIdentity>(shard.identity, {{"request-header", CallerIdentity::kRequestHeader},
                                               {"impersonate", CallerIdentity::kImpersonate}})},
      {"kubeconfig", file(shard.kubeconfig, folder)},
      {"ca_file", file(shard.ca_file, folder)},
      {"cert_file", file(shard.cert_file, folder)},
      {"key_file", file(shard.key_file, folder)},
      {"token_file", file(shard.token_file, folder)},
      {"server_name", text(shard.server_name)},
  };
}

/// Section `aggregation` (AGG-1001, docs/configuration.md).
ConfigTable aggregation_keys(aggregation::MergeOptions& options, aggregation::MergeParams& params,
                             std::string& own_user) {
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

krm::ConfigSections static_shards(std::vector<StaticShard>& shards, const std::string& folder) {
  return {false,
          [&shards, folder](const std::string&) {
            return std::optional(shard_keys(shards.emplace_back(), folder));
          },
          [&shards, folder] {
            std::vector<std::pair<std::string, ConfigTable>> all;
            for (std::size_t i = 0; i < shards.size(); ++i) {
              all.emplace_back(std::to_string(i), shard_keys(shards[i], folder));
            }
            return all;
          }};
}

krm::ConfigSections shard_overrides(std::vector<ShardOverride>& shards, const std::string& folder) {
  return {true,
          [&shards, folder](const std::string& name) {
            shards.emplace_back().name = name;
            return std::optional(override_keys(shards.back(), folder));
          },
          [&shards, folder] {
            std::vector<std::pair<std::string, ConfigTable>> all;
            for (ShardOverride& shard : shards) {
              all.emplace_back(shard.name, override_keys(shard, folder));
            }
            return all;
          }};
}

}  // namespace

ConfigTable key_table(ProxyConfig& config, const std::string& folder) {
  using endpointslice::Consumers;
  using endpointslice::EndpointMode;
  const std::vector<std::pair<std::string_view, GroupMode>> modes = {
      {"proxy", GroupMode::kProxy}, {"shard", GroupMode::kShard}, {"auto", GroupMode::kAuto}};
  ConfigTable out = {
      {"external_url", text(config.external_url)},
      {"region", text(config.region)},
      {"regions.label", krm::some_text(config.endpoint_slice.regions.label)},
      {"regions.urls", text_map(config.endpoint_slice.regions.urls)},
      {"regions.freeze",
       one_of<bool>(config.freezes_for_ever, {{"unlimited", true}, {"max-stall", false}})},
      {"net.congestion", krm::some_text(config.congestion)},
      {"data_dir", file(config.data_dir, folder)},
      {"store.type", one_of<bool>(config.store.is_etcd, {{"lmdb", false}, {"etcd", true}})},
      {"store.endpoints", text_list(config.store.endpoints)},
      {"store.prefix", text(config.store.prefix)},
      {"store.ca_file", file(config.store.ca_file, folder)},
      {"store.cert_file", file(config.store.cert_file, folder)},
      {"store.key_file", file(config.store.key_file, folder)},
      {"store.user", text(config.store.user)},
      {"store.password_file", file(config.store.password_file, folder)},
      {"store.seal_key_file", file(config.store.seal_key_file, folder)},
      {"store.insecure", boolean(config.store.insecure)},
      {"store.compaction", one_of<bool>(config.store.compacts, {{"none", false}, {"own", true}})},
      {"store.stale_limit_ms", milliseconds_of(config.store.stale_limit, 1'000)},
      {"loops", number(config.loops, 0, 256)},
      {"listener.address", text(config.listener.address)},
      {"listener.port", number(config.listener.port, 0, 65535)},
      {"listener.cert_file", file(config.listener.cert_file, folder)},
      {"listener.key_file", file(config.listener.key_file, folder)},
      {"listener.max_streams", number(config.listener.max_streams, 1, 10'000)},
      {"listener.goaway_chance", krm::fraction(config.listener.goaway_chance, 0, 0.02)},
      {"listener.watch_starts", number(config.listener.watch_starts, 0, 1'000'000)},
      {"listener.balance_watches", boolean(config.listener.balance_watches)},
      {"listener.handshake_timeout_ms", milliseconds_of(config.listener.timeouts.handshake, 1)},
      {"listener.header_timeout_ms", milliseconds_of(config.listener.timeouts.header, 1)},
      {"listener.first_request_timeout_ms",
       milliseconds_of(config.listener.timeouts.first_request, 1)},
      {"listener.idle_timeout_ms", milliseconds_of(config.listener.timeouts.idle, 1)},
      {"listener.slow_reader_timeout_ms", milliseconds_of(config.listener.timeouts.slow_reader, 1)},
      {"topology.source",
       one_of<std::string>(config.topology.source, {{"kcp", "kcp"},
                                                    {"objects", "objects"},
                                                    {"static", "static"},
                                                    {"clusterprofiles", "clusterprofiles"}})},
      {"topology.root_kubeconfig", file(config.topology.root_kubeconfig, folder)},
      {"topology.shards_kubeconfig", file(config.topology.shards_kubeconfig, folder)},
      {"topology.reviewed_kubeconfig", file(config.topology.reviewed_kubeconfig, folder)},
      {"topology.peer_kubeconfigs", file_list(config.topology.peer_kubeconfigs, folder)},
      {"topology.generation", number(config.topology.generation, 0, aggregation::kMaxGeneration)},
      {"topology.shards", {}, static_shards(config.topology.shards, folder)},
      {"topology.fleet.kubeconfig", file(config.topology.fleet.kubeconfig, folder)},
      {"topology.fleet.namespaces", text_list(config.topology.fleet.namespaces)},
      {"topology.fleet.selector", text(config.topology.fleet.selector)},
      {"topology.fleet.provider_file", file(config.topology.fleet.provider_file, folder)},
      {"topology.fleet.cluster_api", boolean(config.topology.fleet.cluster_api)},
      {"topology.fleet.names",
       one_of<bool>(config.topology.fleet.qualified, {{"short", false}, {"qualified", true}})},
      {"topology.fleet.properties", text_list(config.topology.fleet.properties)},
      {"topology.fleet.insecure", boolean(config.topology.fleet.insecure)},
      {"topology.fleet.allow", address_list(config.topology.fleet.allow)},
      {"topology.fleet.leave_grace_ms", milliseconds_of(config.topology.fleet.leave_grace)},
      {"topology.groups.topology.kcp.io",
       one_of<GroupMode>(config.topology.groups.partitions, modes),
       {},
       2},
      {"topology.groups.apis.kcp.io",
       one_of<GroupMode>(config.topology.groups.slices, modes),
       {},
       2},
      {"shards", {}, shard_overrides(config.shards, folder)},
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
      {"ui.enabled", boolean(config.ui.enabled)},
      {"ui.workers", file_list(config.ui.workers, folder)},
      {"audit.policy_file", file(config.audit.policy_file, folder)},
      {"audit.log_file", file(config.audit.log_file, folder)},
      {"audit.webhook_kubeconfig", file(config.audit.webhook_kubeconfig, folder)},
      {"audit.max_size_mb", number(config.audit.max_size_mb, 1, 1'000'000)},
      {"audit.max_backups", number(config.audit.max_backups, 0, 1'000'000)},
      {"audit.max_age_days", number(config.audit.max_age_days, 0, 100'000)},
      {"access_log.file", file(config.access_log.file, folder)},
      {"access_log.format",
       one_of<bool>(config.access_log.as_text, {{"json", false}, {"text", true}})},
      {"access_log.sample", krm::fraction(config.access_log.sample, 0, 1)},
      {"access_log.slow_ms", milliseconds_of(config.access_log.slow)},
      {"access_log.max_size_mb", number(config.access_log.max_size_mb, 1, 1'000'000)},
      {"access_log.max_backups", number(config.access_log.max_backups, 0, 1'000'000)},
      {"access_log.max_age_days", number(config.access_log.max_age_days, 0, 100'000)},
      {"tracing.endpoint", text(config.tracing.endpoint)},
      {"tracing.ca_file", file(config.tracing.ca_file, folder)},
      {"tracing.headers_file", file(config.tracing.headers_file, folder)},
      {"tracing.sampling_per_million", number(config.tracing.rules.per_million, 0, 1'000'000)},
      {"tracing.trusted_groups", text_list(config.tracing.rules.trusted_groups)},
      {"limits.body_bytes", number(config.limits.body_bytes, 1024, 1LL << 32)},
      {"memory.budget", number(config.memory_budget, 0, 1LL << 50)},
      {"limits.tunnel_idle_ms",
       milliseconds_of(config.limits.tunnel_idle, 0, std::chrono::hours(24))},
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
  ConfigTable aggregation = aggregation_keys(config.aggregation, config.merge, config.own_user);
  std::move(aggregation.begin(), aggregation.end(), std::back_inserter(out));
  out.push_back({"aggregation.shared_file", file(config.shared_file, folder)});
  out.push_back({"aggregation.token_keys_file", file(config.token_keys_file, folder)});
  out.push_back({"aggregation.cursor.journal", file(config.sequence_journal, folder)});
  out.push_back({"aggregation.cursor.journal_bytes",
                 number(config.sequence_journal_bytes, aggregation::SequenceJournal::kLeastBytes,
                        1LL << 34)});
  ConfigTable authentication = authentication_keys(config.authentication, folder);
  std::move(authentication.begin(), authentication.end(), std::back_inserter(out));
  return out;
}

}  // namespace kintsugi::proxy
