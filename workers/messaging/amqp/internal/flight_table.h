#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/time.h"

struct pn_delivery_t;

namespace kintsugi::workers {

/// A request that waits for its answer.
struct SessionFlight {
  std::uint64_t id = 0;  ///< 0: the slot is free
  TimePoint deadline{};
  pn_delivery_t* delivery = nullptr;  ///< not settled yet
};

/// The requests of one session that wait: as many slots as the window. Correlations are
/// "<slot>.<id>", texts (MH-6) that lead back without a search. Threads: one at a time.
class FlightTable {
 public:
  using Text = std::array<char, 48>;

  explicit FlightTable(std::size_t window);
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  [[nodiscard]] std::size_t used() const noexcept { return slots_.size() - free_.size(); }
  [[nodiscard]] bool is_used(std::size_t slot) const noexcept { return slots_[slot].id != 0; }
  [[nodiscard]] SessionFlight& at(std::size_t slot) noexcept { return slots_[slot]; }

  /// The next id, in a free slot; there is one.
  [[nodiscard]] std::size_t take(TimePoint deadline) noexcept;
  void release(std::size_t slot) noexcept;
  [[nodiscard]] std::string_view correlation(std::size_t slot, Text& text) const noexcept;
  /// nullopt: no request that waits.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view correlation) const noexcept;
  /// Cost: the window.
  [[nodiscard]] std::optional<TimePoint> first_deadline() const noexcept;

 private:
  std::vector<SessionFlight> slots_;
  std::vector<std::uint32_t> free_;
  std::uint64_t next_id_ = 1;
};

}  // namespace kintsugi::workers
