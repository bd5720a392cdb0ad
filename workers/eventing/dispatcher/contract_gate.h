#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "workers/eventing/contract/contract.h"

namespace kintsugi::workers {

/// Which contracts a dispatcher takes. Source: docs/spec/eventing.md, DP-1. No I/O.
class ContractGate {
 public:
  enum class Verdict : std::uint8_t {
    kUnreadable,
    kOldEpoch,       ///< of a writer that another has taken the place of
    kOldGeneration,  ///< what is applied, or older
    kApply
  };
  /// What is applied counts as known from then on.
  [[nodiscard]] Verdict judge(const Contract& contract);
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  [[nodiscard]] bool has_applied() const noexcept { return applied_; }

 private:
  std::uint64_t generation_ = 0, epoch_ = 0;
  bool applied_ = false;
};

}  // namespace kintsugi::workers
