#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "endpointslice/slice_builder.h"
#include "proxy/forward.h"
#include "proxy/merge/merge_params.h"

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

/// How a plain server is told who asks (specs/front-proxy.md 7.3).
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

struct ProxyConfig {
  std::string external_url;  ///< of the proxy as users see it; needed for endpoint modes proxied
                             ///< and aggregated
  std::string data_dir = "proxy-data";  ///< store of the kinds that the proxy serves
  std::uint32_t loops = 0;              ///< 0: one per core

  struct {
    std::string address = "127.0.0.1";
    std::uint16_t port = 6443;
    std::string cert_file, key_file;
    std::uint32_t max_streams = 250;
    ListenerTimeouts timeouts;
  } listener;
  struct {
    std::string client_ca_file;
  } authentication;
  struct {
    std::string source = "kcp";
    std::string root_kubeconfig, shards_kubeconfig;
    std::vector<StaticShard> shards;  ///< source `static`, in the order of their slots
    std::uint32_t generation = 0;     ///< of that slot table (AGG-509); 0: kept in data_dir
  } topology;
  struct {
    std::string ca_file, cert_file, key_file;  ///< request-header client pair for every shard
  } backend;
  endpointslice::SliceDefaults endpoint_slice;
  std::string wildcard;                   ///< "deny", "serve"
  std::vector<std::string> cors_origins;  ///< regular expressions (cors.h); none: no CORS
  std::vector<std::string> mount_hosts;   ///< where mounts may lead, besides shards and the proxy
  MergeOptions aggregation;
  MergeParams merge;
  std::string sequence_journal;  ///< keeps the vectors behind sequence cursors; "": nothing does
  std::size_t sequence_journal_bytes = 32U << 20;
  std::string shared_file;      ///< slot table of several replicas; "": one proxy has its own
  std::string token_keys_file;  ///< keys of continue tokens; "": one that the proxy makes
  struct {
    std::string bind;    ///< "127.0.0.1:0"; empty: no TCP admin listener
    std::string socket;  ///< path of a Unix socket; empty: none
  } admin;
  ForwardLimits limits;
  ServedLimits served_limits;
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

/// @param path of the file, for messages and relative names.
/// @error kConfig "<file>:<line>: <key>: <what is wrong>"; the first fault in file order.
[[nodiscard]] Expected<ProxyConfig> parse_proxy_config(std::string_view text,
                                                       const std::string& path);

}  // namespace kintsugi::proxy
