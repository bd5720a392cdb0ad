#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "aggregation/bytes/json_split.h"
#include "aggregation/bytes/key_names.h"

namespace kintsugi::aggregation {

/// What the readers of a stream have of one shard's objects: enough to tell them what they missed
/// when the shard has forgotten it (AGG-1002). Pure.
class KeyIndex {
 public:
  struct Entry {
    std::string uid;
    std::string kept;  ///< labels and ownerReferences, in the stream's encoding
    std::uint64_t revision = 0;
    std::uint32_t seen = 0;
  };
  enum class Change : std::uint8_t { kNone, kAdded, kModified, kReplaced };

  KeyIndex() = default;
  /// @param names  of the objects of all servers, which must outlive what follows. @param slot  of
  /// this one
  KeyIndex(KeyNames& names, std::size_t slot) noexcept : names_(&names), slot_(slot) {}

  /// Enters an object as it is now. Objects that merges leave out are ignored.
  void put(const ObjectFacts& facts, std::string kept);
  void erase(const ObjectFacts& facts);
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// About what it takes of memory.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_ + erased_bytes_; }

  /// A list of everything as it was just now begins; each of its objects is given to fill(), and
  /// what put() and erase() tell meanwhile is newer. Until end_fill() objects may be missing.
  void begin_fill() noexcept { filling_ = true; }
  void fill(const ObjectFacts& facts, std::string kept);
  void end_fill() noexcept;
  [[nodiscard]] bool filling() const noexcept { return filling_; }

  /// A list of everything begins; each of its objects is met(), then the rest is swept.
  void begin_sweep() noexcept { ++sweep_; }
  /// How the object differs from what is known. put() has to follow. kReplaced: another object had
  /// its name.
  [[nodiscard]] Change meet(const ObjectFacts& facts);
  /// What was not met is forgotten; `gone` is told of each.
  void sweep(const std::function<void(const ObjectFacts& facts, const Entry& entry)>& gone);
  /// Everything is forgotten.
  void drain(const std::function<void(const ObjectFacts& facts, const Entry& entry)>& gone);
  /// The objects of one logical cluster are forgotten.
  void drain_cluster(std::string_view cluster,
                     const std::function<void(const ObjectFacts& facts, const Entry& entry)>& gone);
  /// The objects of one logical cluster.
  void each_of_cluster(
      std::string_view cluster,
      const std::function<void(const ObjectFacts& facts, const Entry& entry)>& call) const;
  /// The entry of an object; nullptr: none.
  [[nodiscard]] const Entry* find(const ObjectFacts& facts) const;

 private:
  using Map = std::unordered_map<std::string, Entry>;
  Map::iterator forget(Map::iterator at);

  Map entries_;                             // by "cluster\nnamespace\nname"
  std::unordered_set<std::string> erased_;  // while filling
  std::size_t bytes_ = 0, erased_bytes_ = 0;
  std::uint32_t sweep_ = 0;
  bool filling_ = false;
  KeyNames* names_ = nullptr;
  std::size_t slot_ = 0;
};

}  // namespace kintsugi::aggregation
