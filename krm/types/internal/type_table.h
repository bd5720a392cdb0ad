#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "krm/schema.h"

namespace kintsugi::krm {

/// Types described by text, one row per field, read into schemas that refer to each other.
///
///     ConfigMap kind v1                    a type; "kind <apiVersion>" adds apiVersion and kind
///       data 2 map:string                  <json name> <protobuf number> <type> <flags>
///       immutable 4 *bool
///     OwnerReference atomic                a struct that is owned as a whole
///       uid 4 string always
///
/// A number like 2.2.1 is that of a field inside messages (2, in it 2, in it 1) that JSON shows
/// inline.
///
/// Types: string int32 int64 bool float64 bytes Time MicroTime Quantity raw wrapped, SchemaOrArray,
/// SchemaOrBool, SchemaOrNames (of JSONSchemaProps), the name of another type; `*T` pointer, `[]T`
/// list, `map:T`. Flags: `always` (no omitempty), `keep` (an explicit empty list stays: it means
/// something), `set`, `map=<key>` (list types of server-side apply), `merge`, `merge=<key>`
/// (strategic merge patch). A type is called by its name; what stands before a '.' in it only makes
/// it unique. Lifetime: the schemas live as long as the table; schema pointers do not own. Threads:
/// any.
class TypeTable {
 public:
  /// A mistake in the text ends the process: tables are part of the program.
  explicit TypeTable(std::initializer_list<std::string_view> texts);
  TypeTable(const TypeTable&) = delete;
  TypeTable& operator=(const TypeTable&) = delete;

  [[nodiscard]] SchemaPtr type(std::string_view name) const;
  /// @param kind "ConfigMap", @param api_version "v1".
  [[nodiscard]] SchemaPtr kind(std::string_view api_version, std::string_view kind) const;

 private:
  [[nodiscard]] SchemaPtr resolve(std::string_view expression);
  void add_field(Schema& owner, std::string_view row);

  StringMap<std::unique_ptr<Schema>> types_;
  StringMap<std::unique_ptr<Schema>> derived_;  ///< lists, maps and scalars by expression
  StringMap<SchemaPtr> kinds_;                  ///< "<apiVersion>/<kind>"
};

}  // namespace kintsugi::krm
