#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/siphash.h"
#include "workers/messaging/model/age.h"
#include "workers/messaging/model/number_index.h"
#include "workers/messaging/model/objects.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

/// The addresses of one space by name, and who refers to whom: expiry and dead-letter queues, the
/// topics of subscriptions. One object a name: of several only the winner is set (OldestWins), the
/// last one that is set has it.
/// Names are known by 8 bytes of a hash that nobody outside can guess. Memory: about 35 B an
/// address, 250 B more for one that refers to others or is referred to. Cost: O(1) an event, and
/// the referrers of the name. No I/O. Threads: one.
class TargetIndex {
 public:
  struct References {
    std::string_view expiry, dead_letter, topic;  ///< local addresses, "" for none
  };
  /// New or changed. @returns others whose check() may be another one now: those that refer to it.
  std::vector<ObjectId> set(ObjectId object, std::string_view address, AddressType type,
                            const References& references);
  /// It is gone. @returns as set().
  std::vector<ObjectId> remove(ObjectId object);

  /// Validated=False: TargetNotFound (none of that name, or of a type that cannot be it),
  /// TargetCycle. nullopt: all is there.
  [[nodiscard]] std::optional<Condition> check(ObjectId object) const;
  struct Target {
    ObjectId object = 0;
    AddressType type = AddressType::kQueue;
  };
  [[nodiscard]] std::optional<Target> find(std::string_view address) const;
  /// Why it cannot be deleted yet: "referred to by q1 (deadLetterQueue)". nullopt: nobody refers to
  /// it (MS-035).
  [[nodiscard]] std::optional<std::string> blocker(ObjectId object) const;
  /// Who refers to it, oldest number first.
  [[nodiscard]] std::vector<ObjectId> referrers(ObjectId object) const;
  /// Whom it refers to, of those that are there.
  [[nodiscard]] std::vector<ObjectId> targets(ObjectId object) const;
  [[nodiscard]] std::size_t size() const noexcept { return by_object_.size(); }

 private:
  using NameHash = std::uint64_t;
  struct Entry {
    NameHash name = 0;
    ObjectId object = 0;
    AddressType type = AddressType::kQueue;
  };
  struct Refers {
    std::string own, expiry, dead_letter, topic;
  };
  [[nodiscard]] NameHash hash(std::string_view name) const noexcept { return siphash(key_, name); }
  [[nodiscard]] const Entry* named(NameHash name) const;
  [[nodiscard]] const Entry* entry(ObjectId object) const;
  void add(const Entry& entry);
  void drop(const Entry& entry);
  void unlink(ObjectId object);
  [[nodiscard]] std::vector<ObjectId> affected(ObjectId object) const;
  [[nodiscard]] const Refers* refers(ObjectId object) const noexcept;
  [[nodiscard]] bool reaches(ObjectId from, ObjectId to) const;

  SipKey key_ = SipKey::random();
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  NumberIndex by_name_, by_object_;  // of entries_
  std::unordered_map<ObjectId, Refers> refers_;
  std::unordered_map<NameHash, std::vector<ObjectId>> referrers_;  // there or not; sorted
};

/// "waits for <what> <first> and 3 more", for spaces with addresses and infras with spaces.
[[nodiscard]] std::string waits_for(std::string_view what, std::string_view first,
                                    std::size_t count);

}  // namespace kintsugi::workers
