#pragma once

#include <cstdint>
#include <string_view>

#include "krm/json.h"
#include "krm/schema.h"

/// How server-side apply sees values (AM-217 to AM-250): the schema decides, free-form
/// values (schema null) decide themselves.
namespace kintsugi::krm {

enum class Shape : std::uint8_t { kLeaf, kList, kMap };

/// What a value is walked as. Atomic lists and maps are owned as a whole.
struct Atom {
  Shape shape = Shape::kLeaf;
  bool atomic = false;
  bool operator==(const Atom&) const = default;
};

[[nodiscard]] Atom atom_of(const Schema* schema, const Json& value) noexcept;

/// Schema of a member of a map, null when it is free-form or not known.
[[nodiscard]] const Schema* member_schema(const Schema* schema, std::string_view key) noexcept;

/// True for fields with a schema of their own, false for keys of maps.
[[nodiscard]] bool declares(const Schema* schema, std::string_view key) noexcept;

/// True when values of any scalar type are accepted: int-or-string, quantities, texts with a
/// format.
[[nodiscard]] bool is_untyped(const Schema& schema) noexcept;

}  // namespace kintsugi::krm
