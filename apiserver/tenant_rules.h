#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/server.h"
#include "net/outgoing.h"

namespace kintsugi::apiserver {

/// What a server that has tenants does beyond one that has users.
struct TenantRules {
  /// The logical cluster that a name or path means, "" when none is known. With it, those without
  /// `access` hear the same of a cluster as of none (SE-161). Empty: nothing is hidden.
  std::function<std::string(std::string_view segment)> cluster_of;
  /// The logical cluster whose rights decide about the server as a whole, with `cluster_of`.
  std::string root{};
  /// The logical cluster that pays for the ServiceAccounts of that one (SE-071). Empty: its own.
  std::function<std::string(std::string_view cluster)> tree_of{};
  /// Plural of the resource whose writes take several seats, since they change what is served.
  std::string wide_resource{};
  /// /metrics, /debug/pprof and the like are the server's own: 501 below a cluster (KK-367).
  bool has_shard_endpoints = false;
  /// Where webhooks of tenants may be; null: the defaults.
  std::shared_ptr<const net::OutgoingPolicy> outgoing;
};

/// Before the first request.
void set_tenant_rules(ApiServer& server, TenantRules rules);

}  // namespace kintsugi::apiserver
