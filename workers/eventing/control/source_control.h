#pragma once

#include "workers/eventing/control/internal/owner_control.h"

namespace kintsugi::workers {

/// Keeps the ConsumerGroup of each KafkaSource, and tells the source what became of it: KN-1, KN-2,
/// KN-G5. What passes within 10 s is not told. Threads: the unit's loop's.
class SourceControl final : public OwnerControl {
 public:
  explicit SourceControl(EventingSite& site);

 private:
  [[nodiscard]] GroupWrite next(const Turn& turn) override;
};

}  // namespace kintsugi::workers
