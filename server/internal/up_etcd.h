#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "server/layout.h"

namespace kintsugi::server {

/// Where `up` has the data of shards, when it is in etcd.
struct UpEtcd {
  bool is_used = false;
  std::vector<std::string> urls;  ///< of one that others run; none: `up` runs one
};

/// The etcd that `up` runs: one member on 127.0.0.1, with data in <dir>/etcd, TLS by the
/// installation's certificates, 8 GiB, on the ports of its first start.
struct EtcdProcess {
  std::string program;
  std::vector<std::string> arguments;
};
/// @error kConfig PATH has no etcd; kIo.
[[nodiscard]] Expected<EtcdProcess> prepare_etcd(const Layout& layout);

/// As `kintsugi shard` takes them; after prepare_etcd() where `up` runs it. @error kIo.
[[nodiscard]] Expected<std::vector<std::string>> store_arguments(const Layout& layout,
                                                                 const UpEtcd& etcd);

}  // namespace kintsugi::server
