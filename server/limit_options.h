#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::server {

/// A key of `limits` that only a proxy has: merged reads, tunnels.
[[nodiscard]] bool is_limit_of_proxy(std::string_view key) noexcept;

/// Limits of a whole installation (`kintsugi up`), as typed. Checked before.
struct InstallationLimits {
  std::vector<std::string> limits;  ///< "user.rps=100", …: of the proxy and of each shard
  std::vector<std::string> quotas;  ///< of each workspace
  std::uint32_t seats = 0;          ///< of each shard; 0: by the cores
  std::uint32_t memory_mib = 0;     ///< of all processes together; 0: nothing is said
  /// Users who take turns by whom they impersonate; of the proxy and of each shard.
  std::vector<std::string> distributed_users;

  /// As command line for a shard, one of so many.
  [[nodiscard]] std::vector<std::string> arguments(std::uint32_t shards) const;
  /// As part of proxy.yaml. Of a key that is there twice the last one counts.
  [[nodiscard]] std::string config_text(std::uint32_t shards) const;
  /// Part of a process: as much as any other's. [MiB]
  [[nodiscard]] std::uint32_t memory_of_process(std::uint32_t shards) const noexcept;
};

/// What an installation may use where nobody says it [MiB]: three quarters of what its control
/// groups let it have; 0 where they let it have all of the machine, and each process looks for
/// itself.
[[nodiscard]] std::uint32_t memory_of_control_group();

}  // namespace kintsugi::server
