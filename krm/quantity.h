#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kintsugi::krm {

/// Wide enough for every quantity in billionths.
__extension__ using WideInteger = __int128;

/// A resource.Quantity of Kubernetes: a number with a suffix of one of three families, written in
/// one canonical way ("1000m" is "1", "1024Mi" is "1Gi", "0.5" is "500m").
/// Range: at most 2^63-1 in size, larger ones are that; billionths are the smallest step, rounded
/// away from zero.
class Quantity {
 public:
  Quantity() = default;
  explicit Quantity(std::int64_t whole) : nanos_(WideInteger{whole} * kNanos) {}

  /// @error kBadRequest with the reference's text. Limit: 1,000 characters.
  [[nodiscard]] static Expected<Quantity> parse(std::string_view text);
  [[nodiscard]] std::string to_string() const;

  [[nodiscard]] bool is_negative() const noexcept { return nanos_ < 0; }
  [[nodiscard]] bool is_whole() const noexcept { return nanos_ % kNanos == 0; }
  /// Rounded up, as far as it fits.
  [[nodiscard]] std::int64_t ceiling() const noexcept;
  /// By value, whatever the suffixes.
  bool operator==(const Quantity& other) const noexcept { return nanos_ == other.nanos_; }

 private:
  enum class Family : std::uint8_t { kDecimal, kExponent, kBinary };
  static constexpr WideInteger kNanos = 1'000'000'000;

  WideInteger nanos_ = 0;
  Family family_ = Family::kDecimal;
};

}  // namespace kintsugi::krm
