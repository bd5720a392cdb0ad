#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

enum class SelectorOp : std::uint8_t {
  kDoesNotExist,
  kEquals,
  kDoubleEquals,
  kIn,
  kNotEquals,
  kNotIn,
  kExists,
  kGreater,
  kLess
};

/// One condition on one label. Values are sorted and unique.
struct Requirement {
  std::string key;
  SelectorOp op = SelectorOp::kExists;
  std::vector<std::string> values;

  /// @param value the label's value, nullopt when the object does not have it.
  [[nodiscard]] bool matches(std::optional<std::string_view> value) const noexcept;
  bool operator==(const Requirement&) const = default;
};

/// A valid label selector: all requirements hold. Source: AM-251 to AM-260 and
/// T-07. Immutable use from any thread.
class Selector {
 public:
  /// Matches everything.
  Selector() = default;

  /// The query form, `a=b,c in (d,e),!f`; "" matches everything.
  /// @error kBadRequest with Kubernetes' text ("unable to parse requirement: …", AM-253, AM-254).
  [[nodiscard]] static Expected<Selector> parse(std::string_view text);

  /// The same of what a client asks for: with bounds of what it makes us keep and compare
  /// (SE-087).
  /// @error kBadRequest besides those: longer than kMostAskedBytes, more than kMostAskedTerms.
  [[nodiscard]] static Expected<Selector> parse_asked(std::string_view text);
  static constexpr std::size_t kMostAskedBytes = 64 * 1024, kMostAskedTerms = 1'000;

  /// {"matchLabels": …, "matchExpressions": …}; null and {} match everything.
  /// @error kInvalid with the text that LabelSelectorAsSelector gives (`"Foo" is not a valid label
  ///        selector operator`, `values: Invalid value: []: for 'in', 'notin' operators, values
  ///        set can't be empty`).
  [[nodiscard]] static Expected<Selector> from_json(const Json& selector);

  /// @param labels an object's metadata.labels; anything but an object has no labels.
  /// Cost: O(requirements * log labels), no allocation.
  [[nodiscard]] bool matches(const Json& labels) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return requirements_.empty(); }
  /// Sorted by key; those of one key in the order in which they were given.
  [[nodiscard]] const std::vector<Requirement>& requirements() const noexcept {
    return requirements_;
  }
  /// Canonical: `cloud in (aws,gcp),region=eu,!tier`; "" for everything. parse() reads it back.
  [[nodiscard]] std::string to_string() const;
  bool operator==(const Selector&) const = default;

 private:
  explicit Selector(std::vector<Requirement> requirements);
  std::vector<Requirement> requirements_;
};

/// A field selector, parsed but not yet checked against the fields that a kind knows (AM-257).
class FieldSelector {
 public:
  struct Term {
    std::string field;
    bool not_equal = false;
    std::string value;
    bool operator==(const Term&) const = default;
  };

  FieldSelector() = default;
  /// `a=b,c!=d`; "" matches everything; `\` escapes `\`, `,` and `=` in values.
  /// @error kBadRequest with Kubernetes' text (AM-256).
  [[nodiscard]] static Expected<FieldSelector> parse(std::string_view text);

  [[nodiscard]] bool empty() const noexcept { return terms_.empty(); }
  /// Sorted by their text, as Kubernetes keeps them.
  [[nodiscard]] const std::vector<Term>& terms() const noexcept { return terms_; }
  /// The value that `field` must have, nullopt when any may do.
  [[nodiscard]] std::optional<std::string_view> exact(std::string_view field) const noexcept;
  /// @param value_of gives a field's text, "" for an absent one: callable with a string_view,
  ///        returning something that compares with a string.
  template <class ValueOf>
  [[nodiscard]] bool matches(ValueOf&& value_of) const {
    for (const Term& term : terms_) {
      if ((value_of(std::string_view(term.field)) == term.value) == term.not_equal) {
        return false;
      }
    }
    return true;
  }

 private:
  std::vector<Term> terms_;
};

}  // namespace kintsugi::krm
