#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kintsugi::workers {

/// Follows MQTT packets in a stream of bytes, in any pieces, and finds one that is larger than what
/// was asked for before it is read. Source: MQTT 5, 2.1.4.
class PacketBound {
 public:
  explicit PacketBound(std::size_t most) noexcept : most_(most) {}
  /// @returns false: a packet is too large, or its length is none; nothing may be read any more.
  [[nodiscard]] bool take(std::string_view bytes) noexcept;

 private:
  const std::size_t most_;
  std::size_t rest_ = 0;  // of the packet's body
  std::size_t length_ = 0;
  unsigned shift_ = 0;
  bool in_length_ = false;
};

}  // namespace kintsugi::workers
