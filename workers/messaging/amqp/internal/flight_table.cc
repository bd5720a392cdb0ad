#include "workers/messaging/amqp/internal/flight_table.h"

#include <charconv>

namespace kintsugi::workers {

FlightTable::FlightTable(std::size_t window) : slots_(window) {
  free_.reserve(window);
  for (std::size_t slot = window; slot-- > 0;) {
    free_.push_back(static_cast<std::uint32_t>(slot));
  }
}

std::size_t FlightTable::take(TimePoint deadline) noexcept {
  const std::size_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = {next_id_++, deadline, nullptr};
  return slot;
}

void FlightTable::release(std::size_t slot) noexcept {
  slots_[slot] = {};
  free_.push_back(static_cast<std::uint32_t>(slot));
}

std::string_view FlightTable::correlation(std::size_t slot, Text& text) const noexcept {
  char* const end = text.data() + text.size();
  char* at = std::to_chars(text.data(), end, slot).ptr;
  *at++ = '.';
  at = std::to_chars(at, end, slots_[slot].id).ptr;
  return {text.data(), static_cast<std::size_t>(at - text.data())};
}

std::optional<std::size_t> FlightTable::find(std::string_view correlation) const noexcept {
  const char* const end = correlation.data() + correlation.size();
  std::size_t slot = 0;
  std::uint64_t id = 0;
  const auto first = std::from_chars(correlation.data(), end, slot);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') {
    return std::nullopt;
  }
  const auto second = std::from_chars(first.ptr + 1, end, id);
  if (second.ec != std::errc() || second.ptr != end || slot >= slots_.size() || id == 0 ||
      slots_[slot].id != id) {
    return std::nullopt;
  }
  return slot;
}

std::optional<TimePoint> FlightTable::first_deadline() const noexcept {
  std::optional<TimePoint> first;
  for (const SessionFlight& flight : slots_) {
    if (flight.id != 0 && (!first || flight.deadline < *first)) {
      first = flight.deadline;
    }
  }
  return first;
}

}  // namespace kintsugi::workers
