#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "server/up_program.h"

namespace kintsugi::server {

/// The etcd that `up` runs: one member on 127.0.0.1, with data in <dir>/etcd, TLS by the
/// installation's certificates, 8 GiB, on the ports of its first start.
struct EtcdProcess {
  std::string program;
  std::vector<std::string> arguments;
};
/// @error kConfig PATH has no etcd; kIo.
[[nodiscard]] Expected<EtcdProcess> prepare_etcd(const Layout& layout);

/// A port of 127.0.0.1 that nobody uses now. @error kIo.
[[nodiscard]] Expected<std::uint16_t> free_port();

/// @{ After prepare_etcd() where `up` runs it. As `kintsugi shard` takes it. @error kIo.
[[nodiscard]] Expected<std::vector<std::string>> store_arguments(const UpOptions& options);
/// As a part of proxy.yaml; "": LMDB. A lone proxy that has data in its folder stays with that.
/// @error kConfig one of several has; kIo.
[[nodiscard]] Expected<std::string> proxy_store_text(const UpOptions& options,
                                                     std::uint32_t index);  /// @}

}  // namespace kintsugi::server
