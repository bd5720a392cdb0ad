#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "krm/json.h"
#include "workers/delivery/agent/manifest_record.h"
#include "workers/delivery/delivery_config.h"
#include "workers/delivery/protocol/status_message.h"
#include "workers/runtime/status/kept_json.h"

namespace kintsugi::workers {

inline constexpr std::string_view kDeliveryLabel = "concertmaster-cache";
inline constexpr std::string_view kServerUid = "concertmaster/server-uid";
inline constexpr std::string_view kServerGeneration = "concertmaster/generation";
inline constexpr std::string_view kFieldManager = "concertmaster";

/// What is kept of an object that an order made.
struct Target {
  std::string uid, server_uid, revision, creation;
  std::string content_hash;  ///< of all but status and what servers write into metadata
  std::int64_t generation = 0;
  bool labelled = false, deleting = false;
  std::vector<std::string> finalizers;
  KeptJson status;
};
[[nodiscard]] Target make_target(const krm::Json& object);

/// Whether an object that is there may be an order's. Source: CM-31.
[[nodiscard]] bool may_own(const Target& target, std::string_view uid, DeliveryAdoption adopt);

/// The manifest with label and annotations of its order, for a server-side apply.
[[nodiscard]] std::string apply_body(krm::Json manifest, const ManifestRecord& record,
                                     std::string_view uid, bool namespaced);

/// @param target  null: there is none
[[nodiscard]] DeliveryStatus reconciled_status(bool holds, std::string_view reason,
                                               std::string message, const Target* target);
[[nodiscard]] DeliveryStatus deleted_status(bool holds, std::string_view reason,
                                            std::string message, const Target* target);

/// How often changes of others are taken back: once in 10 s, and after ten of them within 10
/// minutes once in 5 minutes. Source: CM-32. No clock.
class RevertPacer {
 public:
  /// How long to wait; zero: now.
  [[nodiscard]] Duration wait(TimePoint now) const noexcept;
  /// One changed something.
  void reverted(TimePoint now) noexcept;
  [[nodiscard]] bool contended(TimePoint now) const noexcept;

 private:
  TimePoint last_{}, since_{};
  unsigned count_ = 0;
};

}  // namespace kintsugi::workers
