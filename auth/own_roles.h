#pragma once

#include <string_view>

/// Groups of the certificates of our own processes: each may do what its role is for at an embedded
/// shard, and nothing else. They come by a certificate of the client CA alone. Source: SE-148.
namespace kintsugi::auth {

inline constexpr std::string_view kOwnGroupPrefix = "system:kintsugi:";
inline constexpr std::string_view kGroupOwnProxy = "system:kintsugi:proxy";
inline constexpr std::string_view kGroupOwnReader = "system:kintsugi:reader";
inline constexpr std::string_view kGroupOwnShard = "system:kintsugi:shard";

}  // namespace kintsugi::auth
