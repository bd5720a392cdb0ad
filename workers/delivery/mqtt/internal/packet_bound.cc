#include "workers/delivery/mqtt/internal/packet_bound.h"

#include <algorithm>

namespace kintsugi::workers {

bool PacketBound::take(std::string_view bytes) noexcept {
  constexpr unsigned kMostShift = 21;  // of four bytes of seven bits
  while (!bytes.empty()) {
    if (rest_ > 0) {
      const std::size_t part = std::min(rest_, bytes.size());
      rest_ -= part;
      bytes.remove_prefix(part);
      continue;
    }
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (!in_length_) {  // type and flags
      in_length_ = true;
      length_ = 0;
      shift_ = 0;
      continue;
    }
    if (shift_ > kMostShift) {
      return false;
    }
    length_ |= static_cast<std::size_t>(byte & 0x7fU) << shift_;
    shift_ += 7;
    if ((byte & 0x80U) == 0) {
      in_length_ = false;
      rest_ = length_;
      if (rest_ > most_) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace kintsugi::workers
