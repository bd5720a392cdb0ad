#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

/// The JSONPath subset of printer columns (AM-401), compiled once: `.a.b`, `\.` in a name,
/// `['a']`, `["a"]`, `[n]` (negative from the end), `[a:b:c]`, `[*]`, `.*`, `..a`,
/// `[?(@.a=="b")]` with ==, !=, <, <=, >, >= or the bare path for "exists"; surrounding `{}` and a
/// leading `$` are allowed. Use from any thread.
class JsonPath {
 public:
  /// @error kInvalid with the reason.
  [[nodiscard]] static Expected<JsonPath> compile(std::string_view text);

  /// Everything the path leads to, in document order; pointers into `document`. Members that are
  /// absent lead nowhere; an index outside a list, a filter on what is no list or a comparison of
  /// different types makes the whole path lead nowhere, as in Kubernetes.
  [[nodiscard]] std::vector<const Json*> find(const Json& document) const;
  /// The first of these, nullptr when there is none.
  [[nodiscard]] const Json* first(const Json& document) const;

  /// The member names of a path of plain names (".spec.replicas"), nullopt for any other: what a
  /// scale subresource and selectable fields may use.
  [[nodiscard]] std::optional<std::vector<std::string>> plain_names() const;

 private:
  enum class Kind : std::uint8_t { kMember, kIndex, kSlice, kAll, kFilter, kDescend };
  enum class Compare : std::uint8_t {
    kExists,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kMore,
    kMoreEqual
  };
  /// One side of a filter: a path below the element, or a literal.
  struct Operand {
    std::shared_ptr<const JsonPath> path;
    Json literal;
  };
  struct Filter {
    Operand left, right;
    Compare compare = Compare::kExists;
  };
  struct Step {
    Kind kind = Kind::kMember;
    std::string name;
    std::int64_t begin = 0, end = 0, stride = 1;
    bool open_begin = true, open_end = true;
    std::shared_ptr<const Filter> filter;
  };
  friend class JsonPathParser;

  /// kStop: what follows in the same step is left out. kFailed: the whole path leads nowhere.
  enum class Outcome : std::uint8_t { kGoOn, kStop, kFailed };
  [[nodiscard]] static Outcome apply(const Step& step, const Json& value,
                                     std::vector<const Json*>& out);
  [[nodiscard]] static Outcome filter(const Step& step, const Json& value,
                                      std::vector<const Json*>& out);
  /// nullopt: the two sides cannot be compared.
  [[nodiscard]] static std::optional<bool> holds(const Filter& filter, const Json& value);
  /// nullopt: a step met a value that it cannot be taken on.
  [[nodiscard]] std::optional<std::vector<const Json*>> walk(const Json& document) const;

  std::vector<Step> steps_;
};

/// What a printer column of `type` shows (AM-401): strings as they are, composite values in a
/// string column as compact JSON text, integer, number and boolean as JSON; null when absent or of
/// another type. Dates come back as their RFC 3339 text; the caller turns them into an age.
[[nodiscard]] Json column_cell(const Json* value, std::string_view type);

}  // namespace kintsugi::krm
