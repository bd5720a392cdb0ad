// Requests in flight, and how many there were.
#include "workers/messaging/pipeline/internal/exchanges.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {

namespace {
constexpr std::size_t kMostFailures = 100;
constexpr std::size_t kMostCounts = 512;
}  // namespace

std::uint64_t Flights::add(Flight flight) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  flight.used = true;
  flight.serial = ++serial_;
  ++size_;
  agents_ += flight.agent ? 1 : 0;
  settings_ += flight.settings ? 1 : 0;
  slots_[slot] = std::move(flight);
  return std::uint64_t{slots_[slot].serial} << 32U | slot;
}

Flight* Flights::find(std::uint64_t tag) noexcept {
  const auto slot = static_cast<std::uint32_t>(tag);
  return slot < slots_.size() && slots_[slot].used && slots_[slot].serial == tag >> 32U
             ? &slots_[slot]
             : nullptr;
}

void Flights::remove(std::uint64_t tag) {
  if (Flight* flight = find(tag)) {
    --size_;
    agents_ -= flight->agent ? 1 : 0;
    settings_ -= flight->settings ? 1 : 0;
    *flight = Flight();
    free_.push_back(static_cast<std::uint32_t>(tag));
  }
}

std::vector<Flight> Flights::take_all() {
  std::vector<Flight> out;
  for (Flight& flight : slots_) {
    if (flight.used) {
      out.push_back(std::move(flight));
    }
  }
  slots_.clear();
  free_.clear();
  size_ = agents_ = settings_ = 0;
  return out;
}

std::uint16_t ExchangeCounts::operation(const ManagementRequest& request) {
  std::string_view name = "?";
  for (const Attribute& one : request.properties) {
    if (one.name == "operation" || one.name == "_AMQ_OperationName" ||
        one.name == "_AMQ_Attribute") {
      if (const auto* text = std::get_if<std::string>(&one.value)) {
        name = *text;
      }
    }
  }
  const auto at = std::find(operations_.begin(), operations_.end(), name);
  if (at != operations_.end()) {
    return static_cast<std::uint16_t>(at - operations_.begin());
  }
  operations_.emplace_back(name);
  return static_cast<std::uint16_t>(operations_.size() - 1);
}

void ExchangeCounts::answered(std::uint16_t operation, std::int64_t code) {
  const std::string& name = operations_[operation];
  for (auto& [key, count] : counts_.requests) {
    if (key.second == code && key.first == name) {
      ++count;
      return;
    }
  }
  if (counts_.requests.size() < kMostCounts) {
    counts_.requests.push_back({{name, code}, 1});
  }
}

void ExchangeCounts::failed(TimePoint now, std::string what, std::string_view text,
                            std::int64_t code) {
  if (failures_.size() == kMostFailures) {
    failures_.pop_front();
  }
  failures_.push_back({now, std::move(what), std::string(text), code});
}

std::int64_t reply_code(const ManagementReply& reply) noexcept {
  if (const krm::Json* code = reply.properties.find("statusCode")) {
    return code->as_integer();
  }
  if (const krm::Json* done = reply.properties.find("_AMQ_OperationSucceeded")) {
    return done->as_bool() ? 200 : 500;
  }
  return 0;
}

}  // namespace kintsugi::workers
