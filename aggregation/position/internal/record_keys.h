#pragma once

#include <string_view>

/// Records of the SlotKeeper in the proxy's store. No keys of objects: those have NUL bytes.
namespace kintsugi::aggregation {

inline constexpr std::string_view kTableKey = "kintsugi.merge/slots";
inline constexpr std::string_view kTokenKey = "kintsugi.merge/token-key";
/// Once the key was changed: a KeyRing, which counts instead of it.
inline constexpr std::string_view kRingKey = "kintsugi.merge/token-keys";
inline constexpr std::string_view kEpochKey = "kintsugi.merge/epoch";

}  // namespace kintsugi::aggregation
