#pragma once

#include <string>

#include "krm/config_table.h"
#include "server/config_check.h"
#include "server/loaded_config.h"
#include "server/shard_program.h"
#include "server/worker_config.h"

/// `--validate=deep` (OP-105): the servers that a configuration names are asked, with the
/// credentials that it has for them. At most 5 s for each and 15 s in all. Nothing is written.
namespace kintsugi::server {

/// The own port; root and the shards that it has, plain servers, the hub; members of etcd, issuers
/// of tokens, webhooks, backends of the mapping file. Files have to be in order: check_files().
[[nodiscard]] ConfigCheck check_peers(const LoadedProxyConfig& loaded);

/// The proxy, the slices of the roles and what they list, other endpoints. After check_worker().
/// @param path  of the document
[[nodiscard]] ConfigCheck check_peers(const WorkerConfig& config, const std::string& path,
                                      const krm::ConfigOrigin& origin);

/// What a shard is made of: certificates, CAs, lists, keys of encryption, the audit webhook's
/// kubeconfig. Certificates that its first start makes may be missing.
[[nodiscard]] ConfigCheck check_files(const ShardOptions& options);
/// Root and the other shards, members of etcd, the audit webhook, the own port.
[[nodiscard]] ConfigCheck check_peers(const ShardOptions& options);

/// One after the other.
[[nodiscard]] ConfigCheck joined(ConfigCheck first, ConfigCheck second);

}  // namespace kintsugi::server
