#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "http/headers.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "server/worker_config.h"

namespace kintsugi::server {

/// What a worker's kubeconfig says: where the proxy is, and who the worker is there.
struct WorkerAccess {
  net::Url proxy;  ///< without a path
  /// With the credentials; null where the proxy is reached without TLS.
  std::shared_ptr<net::TlsContext> tls;
  http::HeaderList headers;  ///< the credentials where there is no TLS
};

/// @error kConfig, kIo name the file: it cannot be read, its pair does not fit, it has no
/// credential or no server.
[[nodiscard]] Expected<WorkerAccess> load_worker_access(const std::string& kubeconfig);

/// Reads it again: what connections and requests of `access` say from now on (RT-4). What runs goes
/// on. @error as load_worker_access(); kConfig, too, where the proxy is another one now or there is
/// no TLS: that takes a restart. The credential stays then.
[[nodiscard]] Expected<void> renew_worker_access(const WorkerAccess& access,
                                                 const std::string& kubeconfig);

/// That every endpoint which the configuration names may get the credential (RT-15).
/// @error kConfig names the key.
[[nodiscard]] Expected<void> judge_worker_access(const WorkerConfig& config,
                                                 const WorkerAccess& access);

}  // namespace kintsugi::server
