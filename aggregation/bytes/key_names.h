#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>

#include "aggregation/bytes/json_split.h"

namespace kintsugi::aggregation {

/// Whose objects of several plain servers have one namespace and name: clients that know no marker
/// keep only one of them (AGG-1504). Remembers one server for each name, by
/// hash. Pure.
class KeyNames {
 public:
  /// @param collided  told the server of each object that came when another one had its name
  explicit KeyNames(std::function<void(std::size_t slot)> collided)
      : collided_(std::move(collided)) {}

  /// An object that was not known is on the server of this slot.
  void enter(const ObjectFacts& facts, std::size_t slot);
  /// It is there no longer.
  void leave(const ObjectFacts& facts, std::size_t slot);
  void clear() noexcept { names_.clear(); }
  /// About what it takes of memory.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  struct Owner {
    std::uint64_t uid = 0;  // its hash
    std::size_t slot = 0;
  };
  std::unordered_map<std::uint64_t, Owner> names_;  // by the hash of namespace and name
  std::function<void(std::size_t slot)> collided_;
};

}  // namespace kintsugi::aggregation
