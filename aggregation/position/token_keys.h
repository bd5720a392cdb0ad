#pragma once

#include <string_view>

#include "aggregation/position/continue_token.h"
#include "base/error.h"

namespace kintsugi::aggregation {

/// Reads a file of continue-token keys: one a line, `<id> <secret>`, an id of 0 to 255 and at least
/// 16 bytes in hex; empty lines and lines that begin with '#' are left out. The first key signs,
/// all are accepted: to change it, put the new key in front, and take the old one out when its
/// lists have ended.
/// @error kConfig no key, more than 8, an id twice; names the line
[[nodiscard]] Expected<TokenKeys> parse_token_keys(std::string_view text);

}  // namespace kintsugi::aggregation
