#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace kintsugi::topology {

/// What lists of a hub lack is not gone at once (GR-704). An event that tells of a deletion is
/// believed, and so is a list that lacks few. One that lacks more than three and more than 30 % of
/// what was there is in doubt: after 30 s another one is asked for, and what that lacks, too, is
/// gone. Threads: one at a time; no clock.
class RemovalGuard {
 public:
  static constexpr Duration kConfirmAfter = seconds(30);

  /// The list that ends with the next listed() lacks it.
  void lacks(std::string_view key) { lacking_.emplace(key); }
  /// It is there.
  void has(std::string_view key);
  /// It was deleted, for sure.
  void forget(std::string_view key) { has(key); }
  /// A list is complete. @param known  how many there were before it, those in doubt among them
  /// @returns what is gone
  [[nodiscard]] std::vector<std::string> listed(std::size_t known, TimePoint now);
  /// When another list has to be asked for; max(): never.
  [[nodiscard]] TimePoint due() const noexcept { return due_; }
  /// The list that comes next was asked for then.
  void confirming() noexcept {
    confirms_ = true;
    due_ = TimePoint::max();
  }
  [[nodiscard]] bool doubts(std::string_view key) const { return doubted_.count(key) != 0; }
  [[nodiscard]] std::size_t doubted() const noexcept { return doubted_.size(); }

 private:
  std::set<std::string, std::less<>> lacking_, doubted_;
  TimePoint due_ = TimePoint::max();
  bool confirms_ = false;
};

}  // namespace kintsugi::topology
