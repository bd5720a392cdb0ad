#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "net/internal/dialer.h"

namespace kintsugi::net {

/// The addresses of one host and how they did: connections are spread
/// by rotation; an address with 5 failures in a row is left out for 30 s, then 60 s and so on up to
/// 300 s, but never more than half of them. No clock. Threads: one.
class AddressBook {
 public:
  /// What a look-up found; what is known about those that stay is kept.
  void set(std::vector<SocketAddress> addresses);
  /// Those to try now, in this order; empty only when none is known.
  [[nodiscard]] std::vector<SocketAddress> order(TimePoint now);
  void on_result(const SocketAddress& address, bool connected, TimePoint now) noexcept;
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  static constexpr std::uint32_t kFailures = 5;
  static constexpr Duration kPause = seconds(30), kLongestPause = seconds(300);

 private:
  struct Entry {
    SocketAddress address;
    std::uint32_t failures = 0;  // in a row
    std::uint32_t pauses = 0;    // in a row
    TimePoint out_until{};
  };
  std::vector<Entry> entries_;
  std::size_t rotation_ = 0;
};

}  // namespace kintsugi::net
