#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/internal/peer_probe.h"

/// Parts of check_peers() that several processes have.
namespace kintsugi::server {

/// Members of an etcd, one each. @param place  of findings
void add_etcd(PeerProbe& probe, const std::string& place, const store::EtcdParams& params,
              const std::string& password_file, bool required);
/// Who gets audit events or judges tokens. @param kubeconfig  "": nobody
void add_webhook(PeerProbe& probe, const std::string& place, const std::string& name,
                 const std::string& kubeconfig);
/// That a port can be had, by this process or from a socket unit of the service manager.
/// @param lock  of who may have it: what is running with this configuration
void check_port(PeerProbe& probe, const std::string& place, const std::string& address,
                std::uint16_t port, const std::string& lock);

/// A Shard object, as far as it is asked for.
struct NamedShard {
  std::string name, base_url;
};
/// Of a list of Shards.
[[nodiscard]] std::vector<NamedShard> shards_in(std::string_view list);

}  // namespace kintsugi::server
