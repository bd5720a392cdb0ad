#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "net/task.h"
#include "net/x509_maker.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/runtime/client/api_client.h"

namespace kintsugi::workers {

class Site;

/// "/clusters/<cluster>/api/v1/namespaces/<ns>/<resource>".
[[nodiscard]] std::string namespaced_path(std::string_view cluster, std::string_view ns,
                                          std::string_view resource);

/// Secrets in namespaces of infras, by the claim of the export. Nothing is kept: they are read when
/// they are needed. Source: 11.7. Threads: the unit's loop's.
class SecretStore {
 public:
  explicit SecretStore(Site& site) : site_(site) {}

  [[nodiscard]] net::Task<ApiAnswer> read(Key infra, std::string name);
  /// @param object  whose key the write is made by  @param revision  "": it is new
  [[nodiscard]] net::Task<Outcome> put(ObjectRefKey object, Key infra, krm::Json secret,
                                       std::string revision);
  /// kDone: it is gone.
  [[nodiscard]] net::Task<Outcome> remove(ObjectRefKey object, Key infra, std::string name);

  struct Authority {
    Outcome outcome;
    std::optional<net::KeyPair> pair;
  };
  /// The infra's CA, made when there is none or its time has come.
  [[nodiscard]] net::Task<Authority> authority(ObjectRefKey object, Key infra);

 private:
  Site& site_;
};

}  // namespace kintsugi::workers
