#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cel/internal/value.h"

namespace kintsugi::cel {

/// Work is what a loop is held for, whatever Kubernetes says that costs [steps of about 10 ns]: a
/// node of an expression, a place of a list that is walked through and so on.
inline constexpr std::uint64_t kStepsPerItem = 4;     ///< of lists that are walked through
inline constexpr std::uint64_t kStepsPerResult = 8;   ///< items of lists that a call makes
inline constexpr std::uint64_t kStepsPerElement = 8;  ///< that is looked up by a key
inline constexpr std::uint64_t kRunSteps = 64;        ///< an evaluation, however short
inline constexpr std::size_t kMadeBytesPerStep = 16;  ///< of a text that a call makes
inline constexpr std::uint64_t kPatternSteps = 2000;  ///< compiling a pattern that is no literal
inline constexpr std::size_t kKeyBytesPerStep = 64;   ///< of a key that is looked up or put in

/// Work of a call. The arguments may be error values.
/// @param most  counts no further than that; lists that share their parts may be endless.
using WorkFunction = std::uint64_t (*)(const Value* args, std::size_t count, std::uint64_t most);

/// Of a search for a pattern in a text. @param size  of the program that the pattern makes
/// The engine may come down to a walk through all of the program for each byte of a long text.
[[nodiscard]] std::uint64_t pattern_work(std::size_t text, std::size_t size) noexcept;
/// By the function's name. What is in no table walks through all that it is given. Never null.
[[nodiscard]] WorkFunction work_function(std::string_view function);
/// The same of `==` and `!=`, between values that have parts.
[[nodiscard]] std::uint64_t equality_work(const Value& left, const Value& right,
                                          std::uint64_t most);

}  // namespace kintsugi::cel
