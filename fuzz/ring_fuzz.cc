// What workers read of each other: tables of the ring and Leases. What is taken is written as it
// was read, and a table follows itself never.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "workers/runtime/lease/lease_record.h"
#include "workers/runtime/ring/internal/ring_report.h"
#include "workers/runtime/ring/internal/ring_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;  // NOLINT
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto table = workers::RingTable::parse(text)) {
    const auto again = workers::RingTable::parse(table->encode());
    fuzz::check(again.has_value() && *again == *table);
    fuzz::check(table->generation != 0);
    fuzz::check(!workers::check_successor(*table, *table).has_value());
  } else {
    fuzz::check(!table.error().message().empty());
  }
  if (auto lease = workers::parse_lease(text)) {
    fuzz::check(!lease->name.empty() && !lease->rv.empty());
    fuzz::check(lease->patience(seconds(15)) > Duration{});
    fuzz::check(lease->patience(seconds(15)) <= workers::kMaxLeaseDuration);
    (void)workers::RingReport::read(*lease);
  }
  return 0;
}
