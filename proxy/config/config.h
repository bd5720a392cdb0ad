#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/asking/merge_params.h"
#include "auth/request_header.h"
#include "auth/reserved_identity.h"
#include "base/error.h"
#include "base/time.h"
#include "endpointslice/slice_builder.h"
#include "krm/config_environment.h"
#include "krm/config_schema.h"
#include "krm/config_table.h"
#include "net/address_rules.h"
#include "net/revocation.h"
#include "net/serving_options.h"
#include "proxy/forwarding/forward.h"
#include "proxy/routing/local_kinds.h"
#include "serving/payer_bounds.h"
#include "serving/request_limits.h"
#include "serving/trace_gate.h"

namespace kintsugi::proxy {

/// proxy.yaml, kind ProxyConfiguration, kintsugi.dev/v1alpha1 (docs/configuration.md). Relative
/// file names are relative to the folder of the file that names them.
struct ListenerTimeouts {
  Duration handshake = seconds(10);
  Duration header = seconds(10);         ///< a started request head
  Duration first_request = seconds(30);  ///< after the handshake
  Duration idle = seconds(90);
  Duration slow_reader = seconds(60);  ///< no progress of a complete answer
  bool operator==(const ListenerTimeouts&) const = default;
};

/// Requests that one loop may run at once on what the proxy serves itself; 0: no limit.
struct ServedLimits {
  std::uint32_t reads = 4'000, writes = 1'000, watch_starts = 4'000;
  bool operator==(const ServedLimits&) const = default;
};

/// How a plain server is told who asks (FP-149).
enum class CallerIdentity : std::uint8_t {
  kRequestHeader,  ///< X-Remote-*, asserted with a request-header client certificate
  kImpersonate,    ///< Impersonate-*, with a credential of the proxy that may do that
};

/// A plain Kubernetes server of source `static`: one logical cluster of its own name.
struct StaticShard {
  std::string name;
  std::string uid;  ///< its slot is known by it; default: the name
  std::string url;  ///< without a trailing slash; "": of the kubeconfig
  std::vector<std::pair<std::string, std::string>> labels;  ///< sorted by key
  CallerIdentity identity = CallerIdentity::kRequestHeader;
  /// Server, CA and credential; the files below come first. What neither has is of `backend`.
  std::string kubeconfig;
  std::string ca_file, cert_file, key_file, token_file;
  std::string server_name;  ///< in the server's certificate; "": the host of the URL
  bool operator==(const StaticShard&) const = default;
};

/// `topology.fleet`: a hub whose objects are the plain servers (source `clusterprofiles`, GR-701).
struct FleetConfig {
  std::string kubeconfig;               ///< of the hub
  std::vector<std::string> namespaces;  ///< of its objects; none: all
  std::string selector;                 ///< of labels of ClusterProfiles
  std::string provider_file;            ///< "": only what is built in
  bool cluster_api = false;             ///< kubeconfig Secrets of Cluster API, too
  bool qualified = false;               ///< names have the namespace in front
  std::vector<std::string> properties;  ///< that become labels
  bool insecure = false;                ///< servers that are not verified are taken
  std::vector<std::string> allow;       ///< addresses and names near this machine that are
  Duration leave_grace = seconds(30);
  bool operator==(const FleetConfig&) const = default;
};

/// `shards.<name>`: how the proxy gets to one shard, where that differs from the others (R-29).
struct ShardOverride {
  std::string name;
  std::string ca_file, cert_file, key_file;  ///< "": of `backend`
  std::string server_name;                   ///< in its certificate; "": the host of its URL
  std::string kubeconfig;  ///< the proxy's own credential there; "": topology.shards_kubeconfig
  std::string proxy_url;   ///< of an HTTP proxy that makes the connections; "": none
  bool operator==(const ShardOverride&) const = default;
};

/// Who callers are, besides client certificates (R-17).
struct AuthenticationConfig {
  std::string client_ca_file;   ///< "": no client certificate is an identity
  std::string client_crl_file;  ///< what it revoked; "": nothing that is known
  struct {
    std::string client_ca_file;   ///< of proxies that may assert identities; "": none may
    std::string client_crl_file;  ///< the same
    auth::RequestHeaderConfig names;
  } request_header;
  std::string token_file;  ///< CSV token,user,uid[,"groups"]
  struct {
    std::vector<std::string> key_files;  ///< PEM; none: tokens are not looked at
    std::vector<std::string> issuers{"https://kcp.default.svc"};
    std::vector<std::string> audiences;  ///< none: the issuers
    bool lookup = true;                  ///< the account and what it is bound to must exist
  } service_accounts;
  struct {
    std::string kubeconfig;  ///< of the server that TokenReviews are sent to
    std::string version = "v1";
    Duration cache = seconds(120);
  } webhook;
  /// One issuer of tokens by the flags of kube-apiserver; none without `issuer_url`.
  struct Oidc {
    std::string issuer_url, client_id;
    std::string ca_file;  ///< of the issuer's server; "": the machine's CAs
    std::string username_claim = "sub", groups_claim;
    std::string username_prefix;  ///< "": the URL and "#", but for `email`; "-": none
    std::string groups_prefix;
    std::vector<std::pair<std::string, std::string>> required_claims;
    std::vector<std::string> signing_algs{"RS256"};
    bool operator==(const Oidc&) const = default;
  } oidc;
  std::string config_file;               ///< AuthenticationConfiguration with issuers of tokens
  bool workspaces = false;               ///< issuers of workspace types count, too (R-19)
  std::vector<std::string> pass_groups;  ///< 9.3; none: all
  std::vector<std::string> drop_groups = auth::default_drop_groups();
  auth::BorderRules border;  ///< peers, and users of the system that tokens may name
  bool pass_failed = false;  ///< on_failure: pass
};

/// The proxy's audit log (FP-143).
struct AuditConfig {
  std::string policy_file;         ///< "": every request, at level Metadata
  std::string log_file;            ///< "": there is none
  std::string webhook_kubeconfig;  ///< of the server that events are posted to; "": none
  std::uint32_t max_size_mb = 100, max_backups = 0, max_age_days = 0;
  bool operator==(const AuditConfig&) const = default;
};

/// A line for each request that is told of (OP-306).
struct AccessLogConfig {
  std::string file;  ///< "": there is none
  bool as_text = false;
  double sample = 0.01;        ///< share of the requests that nothing is remarkable about
  Duration slow = seconds(1);  ///< those that take longer are always told of
  std::uint32_t max_size_mb = 100, max_backups = 10, max_age_days = 0;
  bool operator==(const AccessLogConfig&) const = default;
};

/// Where the proxy keeps its own kinds, and what cursors and tokens mean (GR-123).
struct StoreConfig {
  bool is_etcd = false;  ///< else LMDB in `data_dir`
  std::vector<std::string> endpoints;
  std::string prefix = "/kintsugi/proxy";
  std::string ca_file, cert_file, key_file;
  std::string user, password_file;
  std::string seal_key_file;  ///< keys of tokens are sealed with what it has; "": they are not
  bool insecure = false;      ///< http also to other machines
  bool compacts = false;      ///< compaction: own
  Duration stale_limit = seconds(300);
  bool operator==(const StoreConfig&) const = default;
};

struct ProxyConfig {
  bool kcp_command_line = false;  ///< made by flags of kcp-front-proxy
  std::string external_url;  ///< of the proxy as users see it; needed for endpoint modes proxied
                             ///< and aggregated
  std::string region;        ///< that the proxy is in; told, and no more (GR-501)
  bool freezes_for_ever = true;     ///< regions.freeze: what a merged watch does with a far shard
  std::string congestion = "auto";  ///< net.congestion: net/congestion.h
  std::string data_dir = "proxy-data";  ///< store of the kinds that the proxy serves
  StoreConfig store;
  std::uint32_t loops = 0;  ///< 0: one per core

  struct {
    std::string address = "127.0.0.1";
    std::uint16_t port = 6443;
    std::string cert_file, key_file;
    std::uint32_t max_streams = 250;
    ListenerTimeouts timeouts;
    bool http2 = true;
    double goaway_chance = 0;          ///< share of requests that end their connection (goaway.h)
    std::uint32_t watch_starts = 200;  ///< a second and loop (watch_start_gate.h); 0: no limit
    bool balance_watches = false;      ///< over replicas (server/internal/watch_balance.h)
    net::ServingOptions tls;           ///< of command lines
  } listener;
  AuthenticationConfig authentication;
  struct {
    std::string source = "kcp";
    std::string root_kubeconfig, shards_kubeconfig;
    std::string reviewed_kubeconfig;            ///< `share: reviewed`; "": shards_kubeconfig
    std::vector<std::string> peer_kubeconfigs;  ///< source `kcp`: servers that show the Shards
    std::vector<StaticShard> shards;            ///< source `static`, in the order of their slots
    FleetConfig fleet;                          ///< source `clusterprofiles`
    std::uint32_t generation = 0;  ///< of that slot table (AGG-509); 0: kept in data_dir
    GroupModes groups;             ///< who stores what kcp's shards could store, too
  } topology;
  /// The shards are plain Kubernetes servers, each one logical cluster.
  [[nodiscard]] bool has_plain_servers() const {
    return topology.source == "static" || has_fleet();
  }
  [[nodiscard]] bool has_fleet() const { return topology.source == "clusterprofiles"; }
  struct {
    std::string ca_file, cert_file, key_file;  ///< request-header client pair for every shard
    std::string kubeconfig;                    ///< has them, where there are no files
    std::string crl_file;  ///< revoked certificates of servers that the proxy asks; "": none known
  } backend;
  net::CrlRules crl;                  ///< for all of these files
  std::vector<ShardOverride> shards;  ///< sources `kcp` and `objects`
  std::string mapping_file;           ///< entries for other paths (mapping.h); "": none
  bool clusters = true;               ///< /clusters/… is served
  endpointslice::SliceDefaults endpoint_slice;
  std::string wildcard;                   ///< "deny", "serve"
  std::vector<std::string> cors_origins;  ///< regular expressions (cors.h); none: no CORS
  net::OutgoingRules outgoing;            ///< what tenants' objects may make the proxy talk to
  /// "hide": strangers hear the same of what exists and of what does not; "kcp": what kcp tells
  /// them (SE-160).
  std::string existence;
  std::vector<std::string> mount_hosts;  ///< where mounts may lead, besides shards and the proxy
  aggregation::MergeOptions aggregation;
  aggregation::MergeParams merge;
  std::string sequence_journal;  ///< keeps the vectors behind sequence cursors; "": nothing does
  std::size_t sequence_journal_bytes = 32U << 20;
  std::string shared_file;      ///< slot table of several replicas; "": one proxy has its own
  std::string token_keys_file;  ///< keys of continue tokens; "": one that the proxy makes
  /// Whom a plain server with request headers is told, when the proxy reads for itself.
  std::string own_user = "system:kintsugi";
  struct {
    std::string bind;        ///< "127.0.0.1:0"; empty: no TCP admin listener. TLS
    std::string socket;      ///< path of a Unix socket; empty: none
    std::string token_file;  ///< whose content lets in at `bind`, besides certificates; empty: none
  } admin;
  struct {
    bool enabled = false;              ///< the console at the main port (OP-704)
    std::vector<std::string> workers;  ///< health sockets of workers that it shows (OP-711)
  } ui;
  AuditConfig audit;
  AccessLogConfig access_log;
  serving::TracingConfig tracing;
  ForwardLimits limits;
  /// What clients may make the process keep [bytes]; 0: 75 % of what it may use.
  std::size_t memory_budget = 0;
  ServedLimits served_limits;
  serving::RequestLimits request_limits;
  serving::OpenLimits open_limits;
  /// `merge` as it holds: with regions a far shard may be silent for as long as it takes (GR-505).
  [[nodiscard]] aggregation::MergeParams merge_in_force() const;
  /// Those that hold. Plain servers bound their clients themselves: of theirs only what is said.
  [[nodiscard]] serving::PayerBounds payer_bounds() const {
    return has_plain_servers() ? open_limits.payers
                               : open_limits.payers.or_else(serving::PayerBounds::usual());
  }
  std::uint32_t seats = 0;  ///< requests at one shard at once; 0: by the machine's cores
  /// The same at all shards; 0: by the cores, and at least twice those of one.
  std::uint32_t total_seats = 0;
  /// Users who take turns by whom they impersonate, ProcessLimits::distribute_by_effective_user().
  std::vector<std::string> distributed_users;
  struct {
    /// Every so often the rights of open watches are asked about again: with the 10 s of a cached
    /// answer a watch ends within a minute of its right.
    Duration recheck_watches = seconds(45);
  } authorization;
  struct {
    Duration delay = milliseconds(0);       ///< readiness fails, work goes on
    Duration grace = milliseconds(25'000);  ///< then what is left is cut
    Duration spread = seconds(10);          ///< in which watches end one after another
  } shutdown;
  struct {
    Duration poll = seconds(60);  ///< files are compared by content this often
  } reload;
};

using AmendConfig = std::function<Expected<void>(ProxyConfig& config)>;

/// @param path of the file, for messages and relative names.
/// @param amend changes what was read before it is judged as a whole: command lines win over files.
/// @param origin  is filled; may be null.
/// @param environment  wins over the file; `amend` comes after it.
/// @error kConfig "<file>:<line>: <key>: <what is wrong>", a line for each fault (OP-105).
[[nodiscard]] Expected<ProxyConfig> parse_proxy_config(
    std::string_view text, const std::string& path, const AmendConfig& amend = {},
    krm::ConfigOrigin* origin = nullptr, const krm::ConfigEnvironment& environment = {});

/// Every key with its value and source (OP-106). None of them is a secret: those are in files.
[[nodiscard]] std::vector<krm::ShownKey> shown_config(const ProxyConfig& config,
                                                      const krm::ConfigOrigin& origin);

/// The documents that there may be, and their variables (OP-107, OP-108).
[[nodiscard]] krm::ConfigDescription describe_proxy_config();

}  // namespace kintsugi::proxy
