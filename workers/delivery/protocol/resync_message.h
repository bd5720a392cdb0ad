#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace kintsugi::workers {

/// The level of a topic that lists go by, in the place of a uid: to the agent with "content", to
/// the hub with "status".
inline constexpr std::string_view kResyncLevel = "_resync";
/// Digits of a status' hash that lists have at least.
inline constexpr std::size_t kLeastStatusHash = 16;
inline constexpr std::size_t kMaxResyncItems = 1'000, kMaxResyncBytes = std::size_t{512} << 10;

enum class ResyncKind : std::uint8_t {
  kVersions,      ///< of an agent: the orders that it has
  kStatusHashes,  ///< of a hub: the statuses that it has
};

/// One object in a list; what the list's kind does not say is as it is here.
struct ResyncItem {
  std::string uid;
  std::int64_t generation = 0;
  bool deleted = false;     ///< its deletion was ordered
  std::string status_hash;  ///< begin of what statuses have in `kintsugi-hash`
  bool operator==(const ResyncItem&) const = default;
};

struct ResyncBatch {
  ResyncKind kind = ResyncKind::kVersions;
  std::string id;  ///< of the list
  std::size_t batch = 1, of = 1;
  std::vector<ResyncItem> items;
};

/// A list as messages of at most kMaxResyncItems and kMaxResyncBytes; an empty one is a message
/// without items. Source: CM-50.
[[nodiscard]] std::vector<std::string> encode_resync(ResyncKind kind, const std::string& id,
                                                     const std::vector<ResyncItem>& items);
/// @error kBadRequest
[[nodiscard]] Expected<ResyncBatch> parse_resync(std::string_view json);

/// Puts batches together. A batch of another list than the last one begins anew.
class ResyncList {
 public:
  /// @returns the whole list, with its last batch.
  [[nodiscard]] std::optional<std::vector<ResyncItem>> take(ResyncBatch batch);

 private:
  std::string id_;
  std::vector<bool> seen_;
  std::size_t missing_ = 0;
  std::vector<ResyncItem> items_;
};

}  // namespace kintsugi::workers
