#pragma once

#include <string_view>

#include "base/error.h"

namespace kintsugi::serving {

/// On a 503 of a shard: nothing of the request was done, because its logical cluster is being moved
/// to another shard; it may be sent again, to where the cluster is then (GR-606).
inline constexpr std::string_view kMovingHeader = "x-kintsugi-moving";
/// What such a 503 says (KK-214), and no other one.
inline constexpr std::string_view kMovingText = "logical cluster is being migrated";

/// The answer to this failure has the header.
[[nodiscard]] inline bool tells_of_move(const Error& error) noexcept {
  return error.code() == Errc::kUnavailable && error.message() == kMovingText;
}

}  // namespace kintsugi::serving
