#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_lock.h"
#include "server/up_program.h"

/// What an installation of `kintsugi up` is called, and its files.
namespace kintsugi::server {

/// "root", "shard-1", "shard-2", …
[[nodiscard]] std::string shard_name(std::uint32_t index);
/// Where the proxy is asked from this machine: the address that it listens on, 127.0.0.1 for all.
[[nodiscard]] std::string local_host(const UpOptions& options);
/// "proxy", "proxy-2", …
[[nodiscard]] std::string proxy_name(std::uint32_t index);
/// That of the options, or the one that prepare_installation() has found; 0: none.
[[nodiscard]] std::uint16_t port_of_proxy(const UpOptions& options, std::uint32_t index);
/// "https://127.0.0.1:6443"
[[nodiscard]] std::string url_of_proxy(const UpOptions& options, std::uint32_t index = 0);
/// @{ Region of a shard, and of a proxy of an installation whose regions are far.
[[nodiscard]] const std::string& region_of(const UpOptions& options, std::uint32_t index);  /// @}
/// Ports of links between regions; 0: there is none.
struct FarPorts {
  std::uint16_t shards = 0;         ///< an HTTP proxy
  std::vector<std::uint16_t> etcd;  ///< lead to its members, which are in the first region
};
/// proxy.yaml, whole. @param store  proxy_store_text()
[[nodiscard]] std::string proxy_config_text(const UpOptions& options, std::uint32_t index = 0,
                                            const std::string& store = {},
                                            const FarPorts& far = {});
/// That of each proxy. After prepare_etcd() where `up` runs it. @error kIo, kConfig.
[[nodiscard]] Expected<void> write_proxy_configs(const UpOptions& options,
                                                 const FarPorts& far = {});
/// Folders, certificates, ports of proxies, the administrator's kubeconfig; no ready file. What is
/// there of certificates stays while it is young. @error kIo, kConfig.
[[nodiscard]] Expected<void> prepare_installation(const UpOptions& options);
/// Certificates of which a third of the life is over, while the installation runs, and the
/// administrator's and whom to trust in his kubeconfig. @returns whether that is another now.
/// @error kIo, kConfig.
[[nodiscard]] Expected<bool> renew_certificates(const UpOptions& options);

/// That one `kintsugi up` uses the folder, which is made where it is missing.
/// @error kIo it is in use, or cannot be made; kFull.
[[nodiscard]] Expected<FileLock> lock_installation(const Layout& layout);

}  // namespace kintsugi::server
