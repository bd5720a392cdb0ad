#pragma once

#include <string>
#include <string_view>

namespace kintsugi::krm {

/// What Go's encoding/json says about a text that is no JSON; "" for a text that it accepts.
/// Cost: O(n) time, O(depth / 8) memory.
[[nodiscard]] std::string describe_json_error(std::string_view text);

/// A double as Go's encoding/json writes it: shortest digits that round-trip, exponent form below
/// 1e-6 and from 1e21 on. `value` must be finite.
void append_json_double(std::string& out, double value);

}  // namespace kintsugi::krm
