#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/routing/mapping.h"

namespace kintsugi::proxy {

/// The entries of a mapping file, compiled for look-ups. Immutable; shared by all loops.
class RouteTable {
 public:
  struct Match {
    const MappingEntry* entry = nullptr;  ///< lives as long as the table; null: none
    std::size_t depth = 0;                ///< segments of the pattern
    /// The logical cluster that the request names, decoded: the segment of {cluster}, else that of
    /// krm::named_cluster(); "" for none.
    std::string cluster;
  };

  explicit RouteTable(std::vector<MappingEntry> entries);

  /// The longest pattern that `path` is at or below, by whole segments; of equally long ones a
  /// literal segment goes before a placeholder, from the left. The entry "/clusters/" is none.
  /// Cost: one look-up per segment and placeholder, independent of the number of entries.
  /// @param path without query; of a target without a fault (krm::parse_target).
  [[nodiscard]] Match find(std::string_view path) const;
  [[nodiscard]] const std::vector<MappingEntry>& entries() const noexcept { return entries_; }
  /// The entry "/clusters/", null when there is none.
  [[nodiscard]] const MappingEntry* clusters() const noexcept;

 private:
  struct Node {
    std::map<std::string, std::uint32_t, std::less<>> literals;
    std::uint32_t placeholder = 0;  ///< 0: none, since node 0 is the root
    std::uint32_t entry = kNone;
  };
  static constexpr std::uint32_t kNone = 0xffffffff;
  void descend(std::uint32_t node, const std::vector<std::string>& segments, std::size_t depth,
               Match& best) const;

  std::vector<MappingEntry> entries_;
  std::vector<Node> nodes_;
};

}  // namespace kintsugi::proxy
