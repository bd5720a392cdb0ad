#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/siphash.h"
#include "base/strings.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/model/age.h"
#include "workers/messaging/model/text_arena.h"

namespace kintsugi::workers {

/// Objects of one infra and their numbers, which are small and used again. Memory: about 35 B an
/// object: kind, cluster and namespace are kept once for all that have them in common. Cost: O(1).
/// Threads: one at a time.
class ObjectNumbers {
 public:
  explicit ObjectNumbers(std::uint64_t seed) : key_{seed, ~seed} {}

  /// @returns its number, a new one if it has none.
  [[nodiscard]] ObjectId ensure(const ObjectRefKey& object);
  [[nodiscard]] std::optional<ObjectId> find(const ObjectRefKey& object) const;
  /// Its number may be another one's from now on.
  void drop(ObjectId number);
  [[nodiscard]] bool is_used(ObjectId number) const noexcept {
    return number < records_.size() && records_[number].name != TextArena::kNone;
  }
  /// Of a number that is not used: an object without a name.
  [[nodiscard]] ObjectRefKey object(ObjectId number) const;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// One more than the largest number ever given.
  [[nodiscard]] ObjectId end() const noexcept { return static_cast<ObjectId>(records_.size()); }

 private:
  static constexpr ObjectId kNone = 0xFFFFFFFFU;
  struct Place {
    MessagingKind kind = MessagingKind::kInfra;
    std::string cluster, ns;
    std::size_t uses = 0;
  };
  struct Record {
    TextArena::Place name = TextArena::kNone;  ///< kNone: not used; ends with a 0
    std::uint32_t place = 0;
  };
  [[nodiscard]] std::string_view name_of(const Record& record) const noexcept {
    return names_.text(record.name, 0).data();  // up to the 0
  }
  [[nodiscard]] std::uint32_t place_of(const ObjectRefKey& object);
  [[nodiscard]] std::size_t home(std::uint32_t place, std::string_view name) const noexcept;
  [[nodiscard]] std::size_t slot_of(std::uint32_t place, std::string_view name) const noexcept;
  void grow();

  SipKey key_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_places_;
  StringMap<std::uint32_t> places_by_text_;
  TextArena names_;
  std::vector<Record> records_;
  std::vector<ObjectId> free_;
  std::vector<ObjectId> index_;  // by name, kNone: empty
  std::size_t size_ = 0;
};

}  // namespace kintsugi::workers
