#include "aggregation/position/restored_records.h"

#include <algorithm>

#include "aggregation/position/internal/record_keys.h"
#include "aggregation/position/internal/sequence_book.h"
#include "aggregation/position/slot_table.h"
#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::int64_t kStartsAhead = 1'024;
constexpr std::int64_t kStartEvery = 600;  ///< [s] of age: faster than proxies are started
constexpr std::int64_t kMostYears = std::int64_t{50} * 366 * 86'400;

}  // namespace

Expected<std::optional<std::string>> restored_record(std::string_view key, std::string_view value,
                                                     std::int64_t age) {
  const std::int64_t later = std::clamp<std::int64_t>(age, 1, kMostYears);
  if (key == kTableKey) {
    const auto json = krm::Json::parse(value);
    const auto table = json ? SlotHistory::from_json(*json) : fail(Errc::kCorrupt);
    if (!table) {
      return fail(Errc::kCorrupt, "the slot table cannot be read");
    }
    return table->restored(static_cast<std::uint32_t>(later)).to_json().dump();
  }
  if (key == kEpochKey) {
    const auto starts = parse_decimal<std::int64_t>(value);
    if (!starts || *starts < 0) {
      return fail(Errc::kCorrupt, "the number of starts cannot be read");
    }
    const std::int64_t next = *starts + kStartsAhead + later / kStartEvery;
    return std::to_string(std::min<std::int64_t>(next, kMaxEpoch));
  }
  return std::optional<std::string>();
}

}  // namespace kintsugi::aggregation
