#pragma once

#include <string>

namespace re2 {
class RE2;
}

namespace kintsugi::krm {

/// Why an expression does not compile, in the words of Go's regexp/syntax without the lead:
/// "missing closing ): `(`". @param expression whose ok() is false.
[[nodiscard]] std::string regexp_fault(const re2::RE2& expression);

}  // namespace kintsugi::krm
