#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "server/layout.h"

namespace kintsugi::server {

/// The stores of an installation and what else there is of it (GR-404).
struct StoreFolder {
  std::string name;       ///< "proxy", "shard/root"
  std::string directory;  ///< of its data
};

/// All that are in the folder. @error kConfig there is none; one is in etcd, or is damaged.
[[nodiscard]] Expected<std::vector<StoreFolder>> stores_of(const Layout& layout);

/// Where a store of that name is; "": there is no such name.
[[nodiscard]] std::string data_folder_of(const Layout& layout, std::string_view name);

/// Files that are no data: PKI, kubeconfigs, configuration, ports; as paths in the folder. Neither
/// logs nor what only a running process needs.
[[nodiscard]] std::vector<std::string> files_of(const Layout& layout);

}  // namespace kintsugi::server
