#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/file_lock.h"
#include "server/up_program.h"

/// What an installation of `kintsugi up` is called, and its files.
namespace kintsugi::server {

/// "root", "shard-1", "shard-2", …
[[nodiscard]] std::string shard_name(std::uint32_t index);
/// Where the proxy is asked from this machine: the address that it listens on, 127.0.0.1 for all.
[[nodiscard]] std::string local_host(const UpOptions& options);
/// "https://127.0.0.1:6443"
[[nodiscard]] std::string url_of_proxy(const UpOptions& options);
/// proxy.yaml, whole.
[[nodiscard]] std::string proxy_config_text(const UpOptions& options);
/// Folders, certificates, the administrator's kubeconfig, proxy.yaml; no ready file. What is there
/// of certificates stays while it is young. @error kIo, kConfig.
[[nodiscard]] Expected<void> prepare_installation(const UpOptions& options);
/// Certificates of which a third of the life is over, while the installation runs, and the
/// administrator's and whom to trust in his kubeconfig. @returns whether that is another now.
/// @error kIo, kConfig.
[[nodiscard]] Expected<bool> renew_certificates(const UpOptions& options);

/// That one `kintsugi up` uses the folder, which is made where it is missing.
/// @error kIo it is in use, or cannot be made; kFull.
[[nodiscard]] Expected<FileLock> lock_installation(const Layout& layout);

}  // namespace kintsugi::server
