#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "server/up_program.h"

namespace kintsugi::server {

/// A member of the etcd that `up` runs: on 127.0.0.1, with data in <dir>/<name>, TLS by the
/// installation's certificates, 8 GiB, on the ports of its first start.
struct EtcdProcess {
  std::string name;  ///< `etcd`, or of several `etcd-1`, …
  std::string program;
  std::vector<std::string> arguments;
};
/// All of them. @error kConfig PATH has no etcd, or there is one with another number of members;
/// kIo.
[[nodiscard]] Expected<std::vector<EtcdProcess>> prepare_etcd(const UpOptions& options);

/// A port of 127.0.0.1 that nobody uses now. @error kIo.
[[nodiscard]] Expected<std::uint16_t> free_port();

/// @{ After prepare_etcd() where `up` runs it. As `kintsugi shard` takes it. @error kIo.
[[nodiscard]] Expected<std::vector<std::string>> store_arguments(const UpOptions& options);
/// As a part of proxy.yaml; "": LMDB. A lone proxy that has data in its folder stays with that.
/// @param far_ports  by which its members are reached instead; none: as they are
/// @error kConfig one of several has; kIo.
[[nodiscard]] Expected<std::string> proxy_store_text(
    const UpOptions& options, std::uint32_t index,
    const std::vector<std::uint16_t>& far_ports = {});
/// Of each member of the etcd that `up` runs. After prepare_etcd(). @error kIo
[[nodiscard]] Expected<std::vector<std::uint16_t>> ports_of_etcd(const UpOptions& options);  /// @}

}  // namespace kintsugi::server
