#pragma once

#include "workers/messaging/control/internal/address_facts.h"
#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

/// Addresses of AddressSpaces and tenants: validated, placed, made at brokers and then at routers,
/// taken away in the other order; their status. Each turn looks at everything anew. Source:
/// docs/spec/messaging.md. Threads: the unit's loop's.
class AddressControl {
 public:
  explicit AddressControl(Site& site) : site_(site) {}

  [[nodiscard]] net::Task<Outcome> reconcile(ObjectRefKey key);
  /// The object is gone.
  void forget(const ObjectRefKey& key);

 private:
  /// One look at an address: what is to be written next.
  struct Turn {
    enum class Kind : std::uint8_t {
      kFinalizer,  ///< our finalizer; then another look
      kPlace,      ///< where it is to be; then another look
      kTell,       ///< a status, the last of this reconcile
      kNothing,    ///< the status says all there is
      kLater       ///< nothing yet: it is on its way, or something is not known
    };
    Kind kind = Kind::kLater;
    krm::Json status;
    bool precise = false;  ///< with the revision that was read as precondition
    Duration again{};      ///< of kLater
  };
  [[nodiscard]] net::Task<Outcome> make(ObjectRefKey key, bool for_change);
  [[nodiscard]] net::Task<Outcome> take_away(ObjectRefKey key, bool for_change);
  [[nodiscard]] Turn look(const ObjectRefKey& key, bool for_change);
  [[nodiscard]] Turn place(AddressFacts& facts);
  [[nodiscard]] bool withdraw(const AddressFacts& facts);
  [[nodiscard]] Turn apply(const AddressFacts& facts, const SettingsChoice& settings);
  void want(const AddressFacts& facts, const DesiredEntities& entities);
  void assume(const AddressFacts& facts, const DesiredEntities& entities);

  Site& site_;
};

}  // namespace kintsugi::workers
