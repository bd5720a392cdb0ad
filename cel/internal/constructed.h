#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cel/internal/value.h"
#include "krm/json.h"

/// Values of Object{…}, Object.spec{…} and JSONPatch{…}, which expressions of
/// MutatingAdmissionPolicies make, and what becomes of them.
namespace kintsugi::cel {

inline constexpr std::string_view kObjectType = "Object";
inline constexpr std::string_view kPatchType = "JSONPatch";
inline constexpr std::uint64_t kStructCost = 40;  ///< making one

using Members = std::map<std::string, Value, std::less<>>;
/// @param name  of the type. An error value where members of a JSONPatch have the wrong types.
[[nodiscard]] Value constructed(std::string name, Members members);

/// An Object{…} as JSON. @error kInvalid  a nested type that is not named like its place, a value
/// that JSON has none for, more than kMostMade of them
[[nodiscard]] Expected<krm::Json> made_object(const Value& value);
/// A list of JSONPatch{…} as a JSON patch. @error as above
[[nodiscard]] Expected<krm::Json> made_patch(const Value& list);
inline constexpr std::size_t kMostMade = 200'000;  ///< values, and 64 bytes of text as one more

}  // namespace kintsugi::cel
