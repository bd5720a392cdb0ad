#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "net/task.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/control/internal/secret_store.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

class Site;

/// The two Secrets that Interconnects of an infra name: what routers trust (`<infra>-ca`: the
/// infra's CA, and for a while the one before it), and by what they are known to each other and to
/// clients (`<infra>-router-cert`, 30 days, renewed when two thirds are over). Where there are such
/// Secrets that somebody else wrote they stay, and both are his. The CA's key is in neither: it is
/// in the Secret of which endpoints have their certificates. Source: 3.6, 11.7, MS-001. Threads:
/// the unit's loop's.
class RouterCertificates {
 public:
  explicit RouterCertificates(Site& site) : site_(site), secrets_(site) {}

  /// Reads and writes what is due: every ten minutes, after a fault ten seconds later. What does
  /// not work is known then; what routers have stays as it was.
  [[nodiscard]] net::Task<> prepare(Key infra);
  struct Known {
    Condition ca, certificate;  ///< CaCreated, CertCreated
    TimePoint read_at{};
    [[nodiscard]] bool good() const noexcept {
      return ca.status == ConditionStatus::kTrue && certificate.status == ConditionStatus::kTrue;
    }
  };
  /// Null before the first time.
  [[nodiscard]] const Known* find(const Key& infra) const;
  /// All that were written for an infra, its CA too. kDone: they are gone, or not to be reached.
  [[nodiscard]] net::Task<Outcome> remove(Key infra);
  void forget(const Key& infra) { known_.erase(infra_text(infra)); }

 private:
  struct Found {
    std::optional<std::string> trouble;  ///< it cannot be read
    bool forbidden = false;              ///< nor ever
    krm::Json secret;                    ///< null: there is none
    [[nodiscard]] bool ours() const;
  };
  [[nodiscard]] net::Task<Found> look(Key infra, std::string name);
  [[nodiscard]] net::Task<Outcome> remove_one(Key infra, std::string name);
  [[nodiscard]] net::Task<Known> settle(Key infra);
  [[nodiscard]] net::Task<Condition> write_ca(Key infra, Found has, net::KeyPair authority);
  [[nodiscard]] net::Task<Condition> write_certificate(Key infra, Found has,
                                                       net::KeyPair authority);

  Site& site_;
  SecretStore secrets_;
  std::map<std::string, Known, std::less<>> known_;  // by infra_text()
};

}  // namespace kintsugi::workers
