#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::aggregation {

inline constexpr std::uint32_t kMaxGeneration = 999'999;
inline constexpr std::size_t kGenerationsKept = 256;

/// Which shard stands at which position of a cursor, in one generation (AGG-509).
struct SlotTable {
  std::uint32_t generation = 1;   ///< 1..kMaxGeneration
  std::vector<std::string> uids;  ///< by slot; slots of removed shards keep their UID
  std::int64_t made_at = 0;       ///< [s since 1970]
  bool operator==(const SlotTable&) const = default;
};

/// What changes the generation.
struct SlotChange {
  /// UIDs of all shards that there are now, in the order in which new ones get slots.
  std::vector<std::string> present;
  /// A text that differs when the labels of a shard do.
  std::map<std::string, std::string, std::less<>> labels;
  /// Shards that were found to have lost revisions since the last change.
  std::vector<std::string> rolled_back;
};

/// The slot table and the generations before it that cursors may still name. Immutable: a change
/// makes a new one, which all loops then share. One record in the store says it all (to_json): the
/// oldest table, and of each later one what differs.
class SlotHistory {
 public:
  /// An installation that has seen no shard.
  SlotHistory();
  /// @error kCorrupt
  [[nodiscard]] static Expected<SlotHistory> from_json(const krm::Json& record);
  [[nodiscard]] krm::Json to_json() const;

  /// The history after a change; nullopt when nothing differs. A removed shard's slot is reused by
  /// the next new one. Generations beyond `kept` that are older than a day are forgotten.
  /// @param now [s since 1970]
  [[nodiscard]] std::optional<SlotHistory> changed(const SlotChange& change, std::int64_t now,
                                                   std::size_t kept = kGenerationsKept) const;

  /// The history when the configuration says what the table is: the shards that are present, in
  /// their order (AGG-509). nullopt when it is so. Earlier generations stay known; of a history
  /// that contradicts the configuration nothing does.
  [[nodiscard]] std::optional<SlotHistory> fixed(const SlotChange& change, std::uint32_t generation,
                                                 std::int64_t now,
                                                 std::size_t kept = kGenerationsKept) const;

  [[nodiscard]] const SlotTable& current() const noexcept { return tables_.back(); }
  /// nullptr: not kept, or not yet known.
  [[nodiscard]] const SlotTable* find(std::uint32_t generation) const noexcept;
  /// Slot of a shard in the current table; nullopt: removed or unknown.
  [[nodiscard]] std::optional<std::size_t> slot_of(std::string_view uid) const noexcept;
  /// The same of one that had `slot` in an earlier table, and mostly has it still.
  [[nodiscard]] std::optional<std::size_t> slot_of(std::string_view uid,
                                                   std::size_t slot) const noexcept;
  [[nodiscard]] bool is_present(std::size_t slot) const noexcept { return present_[slot]; }
  /// The shard lost revisions after this generation was made: components from then are void.
  [[nodiscard]] bool rolled_back_since(std::string_view uid,
                                       std::uint32_t generation) const noexcept;
  /// The same in an installation that was restored: no cursor of before is one of it (GR-410).
  [[nodiscard]] SlotHistory restored(std::uint32_t later) const;
  /// 0 until generations began anew; part of every check from then on (5.3, end).
  [[nodiscard]] std::uint32_t era() const noexcept { return era_; }

 private:
  std::vector<SlotTable> tables_;  // oldest first, never empty
  std::vector<bool> present_;      // of the current table
  std::map<std::string, std::string, std::less<>> labels_;
  std::map<std::string, std::uint32_t, std::less<>> rolled_back_;  // generation that says so
  std::uint32_t era_ = 0;
  krm::Json others_ = krm::Json::object();  // members of later programs
};
using SlotHistoryPtr = std::shared_ptr<const SlotHistory>;

}  // namespace kintsugi::aggregation
