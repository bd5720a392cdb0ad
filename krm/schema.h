#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

struct Schema;
using SchemaPtr = std::shared_ptr<const Schema>;

enum class SchemaType : std::uint8_t {
  kAny,
  kObject,
  kArray,
  kString,
  kInteger,
  kNumber,
  kBoolean,
  kIntOrString
};
enum class ListType : std::uint8_t { kAtomic, kSet, kMap };
enum class MapType : std::uint8_t { kGranular, kAtomic };

/// How a builtin string travels: decides JSON type checks and protobuf form.
enum class ScalarForm : std::uint8_t {
  kPlain,
  kBytes,      ///< base64 text in JSON, raw bytes in protobuf
  kTime,       ///< RFC 3339 with seconds; protobuf message {1: seconds, 2: nanos}
  kMicroTime,  ///< RFC 3339 with exactly six fractional digits
  kDuration,
  kQuantity,   ///< protobuf message {1: string}
  kRawObject,  ///< free-form JSON (JSONSchemaProps.default, RawExtension): protobuf message {1: raw
               ///< JSON}
  kWrappedList,    ///< list of strings that is a message {1: repeated string} (ExtraValue)
  kSchemaOrArray,  ///< a schema or a list of schemas: message {1: schema, 2: repeated schema}
  kSchemaOrBool,   ///< a schema or a boolean: message {1: boolean, 2: schema}
  kSchemaOrNames,  ///< a schema or a list of names: message {1: schema, 2: repeated string}
};

/// One property of an object schema.
struct SchemaProperty {
  std::string name;
  SchemaPtr schema;
  std::uint16_t proto = 0;  ///< protobuf field number, 0: none
  bool required = false;
  bool always = false;     ///< builtin kinds: written also when empty (Go field without omitempty)
  bool keep_zero = false;  ///< builtin kinds: an explicit zero value stays (Go pointer)
};

/// Structural schema: describes builtin kinds (tables in krm/types/) and the objects of
/// CustomResourceDefinitions alike, so that strict decoding, pruning, defaulting, validation, field
/// ownership, patches and OpenAPI read one thing. Immutable after construction. Threads: any.
struct Schema {
  SchemaType type = SchemaType::kAny;
  ScalarForm form = ScalarForm::kPlain;
  std::string type_name;  ///< builtin types: "ObjectMeta"; "" for CustomResourceDefinitions
  std::string format;
  std::string description;

  // objects
  std::vector<SchemaProperty> properties;   ///< sorted by name
  std::vector<std::string> required_names;  ///< required members without a property of their own
  SchemaPtr additional;  ///< additionalProperties: the value schema of a map; null: none
  MapType map_type = MapType::kGranular;
  bool preserve_unknown = false;
  bool embedded_resource = false;

  // arrays
  SchemaPtr items;
  ListType list_type = ListType::kAtomic;
  std::vector<std::string> list_map_keys;
  std::string patch_merge_key;  ///< strategic merge patch; "" = replace
  bool patch_merge_primitive =
      false;  ///< strategic merge of a list of scalars as a set (finalizers)

  // values
  bool nullable = false;
  std::optional<Json> default_value;
  std::vector<Json> enum_values;
  std::optional<double> minimum, maximum, multiple_of;
  bool exclusive_minimum = false, exclusive_maximum = false;
  std::optional<std::int64_t> min_length, max_length, min_items, max_items, min_properties,
      max_properties;
  std::string pattern;  ///< RE2; "" = none
  std::vector<SchemaPtr> all_of, any_of, one_of;
  SchemaPtr negated;  ///< not

  /// x-kubernetes-validations. Evaluated by the CEL engine when there is one; kept and served as
  /// they are.
  struct Rule {
    std::string rule, message, message_expression, reason, field_path;
    bool optional_old_self = false;
  };
  std::vector<Rule> rules;

  [[nodiscard]] const SchemaProperty* property(std::string_view name) const noexcept;  ///< O(log n)
};

}  // namespace kintsugi::krm
