#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace kintsugi::workers {

/// A broker in the scheduler's table.
using BrokerSlot = std::uint16_t;

/// The brokers of one address, in 16 bytes: nearly all have one. Movable. Threads: as an int.
class SlotList {
 public:
  [[nodiscard]] std::span<const BrokerSlot> view() const noexcept {
    return more_ ? std::span<const BrokerSlot>(*more_)
                 : std::span<const BrokerSlot>(few_).first(count_);
  }
  [[nodiscard]] std::size_t size() const noexcept { return view().size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] bool has(BrokerSlot slot) const noexcept {
    const auto all = view();
    return std::find(all.begin(), all.end(), slot) != all.end();
  }
  void assign(std::span<const BrokerSlot> slots) {
    more_.reset();
    count_ = 0;
    if (slots.size() <= few_.size()) {
      std::copy(slots.begin(), slots.end(), few_.begin());
      count_ = static_cast<std::uint16_t>(slots.size());
    } else {
      more_ = std::make_unique<std::vector<BrokerSlot>>(slots.begin(), slots.end());
    }
  }

 private:
  std::unique_ptr<std::vector<BrokerSlot>> more_;
  std::array<BrokerSlot, 3> few_{};
  std::uint16_t count_ = 0;
};

}  // namespace kintsugi::workers
