#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace kintsugi::store {

/// How many rows there are, and a digest of all their keys and values that does not depend on their
/// order: two stores have the same rows if both are equal, chance aside.
class RowSum {
 public:
  void add(std::string_view key, std::string_view value);
  /// One that was added.
  void remove(std::string_view key, std::string_view value);
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  /// 64 hex digits.
  [[nodiscard]] std::string digest() const;
  bool operator==(const RowSum&) const = default;

 private:
  using Lanes = std::array<std::uint64_t, 4>;
  [[nodiscard]] static Lanes lanes_of(std::string_view key, std::string_view value);

  std::uint64_t rows_ = 0;
  Lanes lanes_{};  // sums of SHA-256
};

}  // namespace kintsugi::store
