#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kintsugi::krm {

class Json;
struct JsonMember;

/// A JSON value with value semantics: the form in which objects are changed, never the form in
/// which they are forwarded or served unchanged. Objects are vectors of members sorted by key, so
/// output is canonical (sorted) and equality is structural. Integers keep all 64 bits; a number
/// that fits neither int64 nor double exactly enough keeps its text. Doubles are written as Go's
/// encoding/json writes them (1.0 -> 1, 1e21 -> 1e+21). Size: 16 bytes a value. Lifetime: the view
/// that as_string() gives stays valid while that value is neither changed nor destroyed, also when
/// it is moved. Threads: as an int.
class Json {
 public:
  enum class Type : std::uint8_t {
    kNull,
    kBool,
    kInteger,
    kDouble,
    kBigNumber,
    kString,
    kArray,
    kObject
  };
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;  ///< sorted by key, keys unique

  Json() noexcept = default;
  Json(std::nullptr_t) noexcept;      // NOLINT(google-explicit-constructor)
  Json(bool value) noexcept;          // NOLINT
  Json(int value) noexcept;           // NOLINT
  Json(std::int64_t value) noexcept;  // NOLINT
  Json(std::uint64_t value);          // NOLINT: above int64 it becomes a big number
  Json(double value) noexcept;        // NOLINT
  Json(const char* value);            // NOLINT
  Json(std::string_view value);       // NOLINT
  Json(std::string value);            // NOLINT
  Json(Array value);                  // NOLINT
  Json(const Json& other);
  Json(Json&& other) noexcept : payload_(other.payload_), type_(other.type_) {
    other.type_ = Type::kNull;
  }
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept {
    Json taken(std::move(other));  // first: the source may be a part of the target
    std::swap(payload_, taken.payload_);
    std::swap(type_, taken.type_);
    return *this;
  }
  ~Json() {
    if (type_ >= Type::kBigNumber) {
      release_payload();
    }
  }

  [[nodiscard]] static Json array(std::initializer_list<Json> items = {});
  /// Json::object({{"kind", "Status"}, {"code", 404}}); later duplicates win.
  [[nodiscard]] static Json object(
      std::initializer_list<std::pair<std::string_view, Json>> members = {});
  [[nodiscard]] static Json big_number(std::string text);

  [[nodiscard]] Type type() const noexcept { return type_; }
  [[nodiscard]] bool is_null() const noexcept { return type() == Type::kNull; }
  [[nodiscard]] bool is_bool() const noexcept { return type() == Type::kBool; }
  [[nodiscard]] bool is_integer() const noexcept { return type() == Type::kInteger; }
  [[nodiscard]] bool is_number() const noexcept;
  [[nodiscard]] bool is_string() const noexcept { return type() == Type::kString; }
  [[nodiscard]] bool is_array() const noexcept { return type() == Type::kArray; }
  [[nodiscard]] bool is_object() const noexcept { return type() == Type::kObject; }
  /// "null", "boolean", "integer", "number", "string", "array", "object".
  [[nodiscard]] std::string_view type_name() const noexcept;

  // Access with a fallback; never fails.
  [[nodiscard]] bool as_bool(bool otherwise = false) const noexcept;
  [[nodiscard]] std::int64_t as_integer(std::int64_t otherwise = 0) const noexcept;
  [[nodiscard]] double as_double(double otherwise = 0) const noexcept;  ///< any number
  [[nodiscard]] std::string_view as_string(std::string_view otherwise = {}) const noexcept;
  /// Elements; empty for anything but an array.
  [[nodiscard]] const Array& items() const noexcept;
  /// Members; empty for anything but an object.
  [[nodiscard]] const Object& members() const noexcept;
  /// Mutable elements and members; turn null into an empty array or object. Other types: replaced
  /// by an empty one.
  Array& edit_items();
  Object& edit_members();                           ///< the caller keeps the order
  [[nodiscard]] std::size_t size() const noexcept;  ///< elements or members, else 0

  /// Member by key, nullptr when absent or no object. O(log n).
  [[nodiscard]] const Json* find(std::string_view key) const noexcept;
  [[nodiscard]] Json* find(std::string_view key) noexcept;
  /// Nested members, nullptr as soon as one is absent: at({"metadata", "labels"}).
  [[nodiscard]] const Json* at(std::initializer_list<std::string_view> path) const noexcept;
  [[nodiscard]] Json* at(std::initializer_list<std::string_view> path) noexcept;
  /// String at a nested path, "" when absent or no string.
  [[nodiscard]] std::string_view text(std::initializer_list<std::string_view> path) const noexcept;
  /// Member, created as null when absent; null and non-objects become an object first.
  Json& operator[](std::string_view key);
  /// Nested member, created on the way.
  Json& make(std::initializer_list<std::string_view> path);
  bool erase(std::string_view key);
  void push_back(Json value);

  bool operator==(const Json& other) const noexcept;  ///< 1 == 1.0 holds, as in JSON

  /// Compact text, keys sorted; `<`, `>`, `&`, U+2028, U+2029 are written as they are.
  [[nodiscard]] std::string dump() const;
  void dump_to(std::string& out) const;
  /// Two-space indentation and a final newline.
  [[nodiscard]] std::string dump_pretty() const;

  struct ParseOptions {
    std::size_t max_depth = 10'000;
    bool collect_duplicates = false;
    /// A member that is left out, by the names that lead to it, the outermost object's first: of
    /// its value no more than strings and brackets is read. Of several of that name the first;
    /// names that are written with escapes are not found. {}: none. Lifetime: the call.
    std::span<const std::string_view> leave_out{};
  };
  struct ParseReport {
    std::vector<std::string>
        duplicate_fields;  ///< paths in order of appearance ("metadata.name", "spec.a[0].b")
  };
  /// Strict RFC 8259 and valid UTF-8; of duplicate keys the last one wins; trailing bytes are an
  /// error.
  /// @error kBadRequest; the message is worded as Go's encoding/json would where that is cheap
  ///        ("unexpected end of JSON input", "invalid character 'x' looking for beginning of
  ///        value").
  [[nodiscard]] static Expected<Json> parse(std::string_view text, const ParseOptions& options,
                                            ParseReport* report = nullptr);
  [[nodiscard]] static Expected<Json> parse(std::string_view text) {
    return parse(text, ParseOptions());
  }

 private:
  struct Text;
  union Payload {
    bool boolean;
    std::int64_t integer;
    double real;
    Text* text;  ///< strings and big numbers; null is ""
    Array* array;
    Object* object;
  };
  [[nodiscard]] std::string_view as_text() const noexcept;
  void copy_payload(const Json& other);
  void release_payload() noexcept;

  Payload payload_{};
  Type type_ = Type::kNull;
};

struct JsonMember {
  std::string key;
  Json value;
  bool operator==(const JsonMember&) const = default;
};

/// Appends `text` as a JSON string with quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace kintsugi::krm
