#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "workers/messaging/model/text_arena.h"

namespace kintsugi::workers {

/// A name of EntityNames. 8 bytes.
struct EntityName {
  TextArena::Place rest = TextArena::kNone;
  std::uint16_t length = 0;  ///< of the rest
  std::uint16_t prefix = 0;
  [[nodiscard]] bool is_set() const noexcept { return rest != TextArena::kNone; }
  bool operator==(const EntityName&) const = default;
};

/// Names of entities. What many begin with is kept once: up to the first slash (class and space of
/// broker names), else up to the last dot (owner and kind of routers' entities). Memory: the rest
/// of a name in steps of 4 bytes. Cost: O(length). Threads: one at a time.
class EntityNames {
 public:
  EntityNames() : prefixes_(1) {}

  /// @param name  at most 65,535 bytes
  [[nodiscard]] EntityName put(std::string_view name);
  void drop(const EntityName& name) noexcept;
  [[nodiscard]] bool is(const EntityName& name, std::string_view text) const noexcept;
  [[nodiscard]] std::string text(const EntityName& name) const;
  [[nodiscard]] std::size_t prefixes() const noexcept { return by_text_.size(); }

 private:
  static constexpr std::size_t kMostPrefixes = 4096;
  struct Prefix {
    std::string text;
    std::uint32_t uses = 0;
  };
  [[nodiscard]] std::uint16_t prefix_of(std::string_view text);

  TextArena rests_;
  std::vector<Prefix> prefixes_;  // the first is none
  std::vector<std::uint16_t> free_;
  StringMap<std::uint16_t> by_text_;
};

}  // namespace kintsugi::workers
