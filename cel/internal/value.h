#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "krm/schema.h"

namespace kintsugi::cel {

enum class Kind : std::uint8_t {
  kError,
  kNull,
  kBool,
  kInt,
  kUint,
  kDouble,
  kString,
  kBytes,
  kDuration,   ///< `integer()`: nanoseconds
  kTimestamp,  ///< `integer()`: seconds since 1970; `nanos()`
  kList,
  kMap,
  kType,      ///< `text()`: its name
  kOptional,  ///< `boxed()`: the value, null for none
  kOpaque,    ///< a value of a library: `opaque()`
  kUnknown,   ///< content that x-kubernetes-preserve-unknown-fields keeps: no operation but ==
};

class Value;

/// A value of a library (quantity, IP address, URL, …).
struct Opaque {
  std::string_view type;  ///< "net.IP"; static
  explicit Opaque(std::string_view name) : type(name) {}
  Opaque(const Opaque&) = delete;
  Opaque& operator=(const Opaque&) = delete;
  virtual ~Opaque() = default;
  [[nodiscard]] virtual bool equals(const Opaque& other) const = 0;
};

/// Elements of a list that an expression made: own items, or two lists one after the other.
struct ListData {
  std::vector<Value> items;
  std::shared_ptr<const Value> left, right;
  std::size_t size = 0;  ///< of both, when there are two; kEndless at most
};
/// A list of lists of one list grows that large with no work. Nobody could walk through it.
inline constexpr std::size_t kEndless = std::size_t{1} << 40;

/// Members whose values are made when they are read.
class LazyFields {
 public:
  virtual ~LazyFields() = default;
  /// False when there is no member of that name.
  virtual bool find(std::string_view name, Value& out) const = 0;
};

/// Entries of a map that an expression made, by canonical key; numbers that are equal have one key.
struct MapData {
  std::map<std::string, std::pair<Value, Value>, std::less<>> entries;
  std::map<const void*, std::string> composite;  ///< keys that are lists and the like: by identity
  const LazyFields* lazy = nullptr;  ///< has the values of all entries; outlives the map

  /// The canonical key under which an entry is to be put; false when the value cannot be a key.
  bool new_key(const Value& key, std::string& out);
};

/// A value at run time. Strings, lists and maps of the object under validation are views into its
/// Json, which outlives the evaluation; what an expression makes is shared. Copies are cheap.
/// Threads: as an int.
class Value {
 public:
  Value() noexcept = default;  ///< null

  [[nodiscard]] static Value error(std::string message);
  [[nodiscard]] static Value no_overload();              ///< "no such overload"
  [[nodiscard]] static Value missing(const Value& key);  ///< "no such key: …"
  [[nodiscard]] static Value boolean(bool value) noexcept;
  [[nodiscard]] static Value integer(std::int64_t value) noexcept;
  [[nodiscard]] static Value unsigned_integer(std::uint64_t value) noexcept;
  [[nodiscard]] static Value real(double value) noexcept;
  [[nodiscard]] static Value string(std::string text);
  [[nodiscard]] static Value string_view(std::string_view text) noexcept;  ///< not owned
  /// A part of a string's text; shares what that shares.
  [[nodiscard]] static Value part_of(const Value& whole, std::string_view part);
  [[nodiscard]] static Value bytes(std::string bytes);
  [[nodiscard]] static Value duration(std::int64_t nanoseconds) noexcept;
  [[nodiscard]] static Value timestamp(std::int64_t seconds, std::int32_t nanos) noexcept;
  [[nodiscard]] static Value list(std::vector<Value> items);
  [[nodiscard]] static Value concatenation(Value left, Value right);
  /// A set or map list as the schema (not owned) says, that an expression made of others.
  [[nodiscard]] static Value merged_list(std::vector<Value> items, const krm::Schema& schema);
  [[nodiscard]] static Value map(std::shared_ptr<const MapData> data);
  [[nodiscard]] static Value type(std::string name);
  [[nodiscard]] static Value none();
  [[nodiscard]] static Value optional(Value value);
  [[nodiscard]] static Value opaque(std::shared_ptr<const Opaque> value);
  /// A part of an object by its schema; neither is owned. Data that does not fit is an error value.
  [[nodiscard]] static Value from_json(const krm::Json& json, const krm::Schema& schema);

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] bool is(Kind kind) const noexcept { return kind_ == kind; }
  [[nodiscard]] bool is_error() const noexcept { return kind_ == Kind::kError; }
  [[nodiscard]] bool is_true() const noexcept { return kind_ == Kind::kBool && integer_ != 0; }
  [[nodiscard]] bool is_false() const noexcept { return kind_ == Kind::kBool && integer_ == 0; }
  [[nodiscard]] bool is_number() const noexcept;
  [[nodiscard]] std::int64_t integer() const noexcept { return integer_; }
  [[nodiscard]] std::uint64_t unsigned_integer() const noexcept {
    return static_cast<std::uint64_t>(integer_);
  }
  [[nodiscard]] double real() const noexcept { return real_; }
  [[nodiscard]] std::int32_t nanos() const noexcept { return nanos_; }
  /// String, bytes, type name or error message.
  [[nodiscard]] std::string_view text() const noexcept { return text_; }
  [[nodiscard]] const Value* boxed() const noexcept;  ///< kOptional
  [[nodiscard]] const Opaque* opaque() const noexcept;
  [[nodiscard]] const krm::Json* json() const noexcept { return json_; }
  [[nodiscard]] const krm::Schema* schema() const noexcept { return schema_; }

  /// Code points of strings, bytes, elements, entries; 1 for anything else. Cost of strings: O(n).
  [[nodiscard]] std::size_t size() const noexcept;
  /// True for kinds that have a size.
  [[nodiscard]] bool sized() const noexcept;
  /// True for lists, maps, optional values and contents that hold values.
  [[nodiscard]] bool has_parts() const noexcept;
  /// Values in it on all levels, and 64 bytes of text as one more; counts no further than `most`.
  [[nodiscard]] std::uint64_t parts(std::uint64_t most) const;
  /// Element of a list, index < size().
  [[nodiscard]] Value at(std::size_t index) const;
  /// Element of a list by a number of any kind; false when there is none at that place. An error
  /// value when the index is no whole number.
  bool element(const Value& index, Value& out) const;
  /// Entry of a map; false when absent. An error value when the key's type cannot be a key.
  bool find(const Value& key, Value& out) const;
  /// Keys of a map, one after the other, until `visit` returns false.
  void each_key(const std::function<bool(Value key)>& visit) const;
  /// Keys of a map.
  [[nodiscard]] std::vector<Value> keys() const;

  /// Elements of a list that an expression made in one piece; null of others.
  [[nodiscard]] const std::vector<Value>* own_items() const noexcept;
  /// Copy of the list's elements.
  [[nodiscard]] std::vector<Value> items() const;

  /// True or false, or an error value.
  [[nodiscard]] Value equals(const Value& other) const;
  /// -1, 0, 1 as integer, or an error value.
  [[nodiscard]] Value compare(const Value& other) const;
  /// Name of the type ("int", "list", "google.protobuf.Duration").
  [[nodiscard]] std::string_view type_name() const noexcept;
  /// As the reference's errors name its inner type ("types.Int", "*types.baseList").
  [[nodiscard]] std::string_view inner_type_name() const noexcept;
  /// True for what x[key] takes.
  [[nodiscard]] bool is_index() const noexcept;
  /// As error messages print it.
  [[nodiscard]] std::string print() const;
  /// False, 0, "", empty, null, none.
  [[nodiscard]] bool is_zero() const;

 private:
  static Value of_kind(Kind kind) noexcept;
  [[nodiscard]] Value list_equals(const Value& other) const;
  [[nodiscard]] Value set_equals(const Value& other) const;
  [[nodiscard]] Value map_list_equals(const Value& other) const;
  [[nodiscard]] Value map_equals(const Value& other) const;
  [[nodiscard]] const void* identity() const noexcept;
  /// Made by an expression, or by no schema: behaves as cel-go's own lists and maps.
  [[nodiscard]] bool is_native() const noexcept;
  /// Schema of a member of a Json object, null when it is not visible.
  [[nodiscard]] const krm::Schema* member_schema(std::string_view key) const;
  friend Value add_lists(const Value& left, const Value& right);
  friend struct MapData;

  Kind kind_ = Kind::kNull;
  std::int32_t nanos_ = 0;
  union {
    std::int64_t integer_ = 0;
    double real_;
  };
  std::string_view text_;
  const krm::Json* json_ = nullptr;
  const krm::Schema* schema_ = nullptr;
  std::shared_ptr<const void> owner_;
};

/// Concatenation as `+` does it: sets and maps of the schema merge by identity.
[[nodiscard]] Value add_lists(const Value& left, const Value& right);
/// Identity of a map key; false when the value cannot be one.
bool map_key(const Value& key, std::string& out);

/// A property's name in expressions ("namespace" is "__namespace__"); false: not accessible.
bool escape_name(std::string_view name, std::string& out);
/// The reverse; false when the text holds an unknown escape.
bool unescape_name(std::string_view escaped, std::string& out);

/// What is visible of ObjectMeta: name and generateName.
[[nodiscard]] const krm::SchemaPtr& visible_metadata();
[[nodiscard]] const krm::SchemaPtr& string_schema();
/// Of values that are what their JSON is, without escaped names (objects of admission policies).
[[nodiscard]] const krm::SchemaPtr& dynamic_schema();

}  // namespace kintsugi::cel
