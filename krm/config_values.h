#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/time.h"
#include "krm/config_table.h"

/// What the values of a configuration document may be. Each of these makes what reads one value
/// into its target and shows it; the target outlives it.
namespace kintsugi::krm {

[[nodiscard]] std::string must_be(std::string_view what);

[[nodiscard]] ConfigValue text(std::string& target);
/// Not "".
[[nodiscard]] ConfigValue some_text(std::string& target);
/// @param folder  what relative names start at; shown as an absolute name. "" is none.
[[nodiscard]] ConfigValue file(std::string& target, const std::string& folder);
[[nodiscard]] ConfigValue boolean(bool& target);
/// A number from `low` to `high`.
[[nodiscard]] ConfigValue fraction(double& target, double low, double high);
/// Whole milliseconds, at most `high`.
[[nodiscard]] ConfigValue milliseconds_of(Duration& target, std::int64_t low = 0,
                                          Duration high = std::chrono::hours(1));
/// "15s", "500ms", "1m": from `low` to an hour.
[[nodiscard]] ConfigValue duration(Duration& target, Duration low);
/// Texts of which none is "".
[[nodiscard]] ConfigValue text_list(std::vector<std::string>& target);
[[nodiscard]] ConfigValue file_list(std::vector<std::string>& target, const std::string& folder);
/// Texts by name, sorted.
[[nodiscard]] ConfigValue text_map(std::vector<std::pair<std::string, std::string>>& target);

/// A whole number from `low` to `high`.
/// @param unit  "number", "number of bytes".
template <class Integer>
[[nodiscard]] ConfigValue number(Integer& target, std::int64_t low, std::int64_t high,
                                 std::string_view unit = "number") {
  return {[&target, low, high, unit = std::string(unit)](const Json& value) -> std::string {
            if (!value.is_integer() || value.as_integer() < low || value.as_integer() > high) {
              return must_be("a " + unit + " from " + std::to_string(low) + " to " +
                             std::to_string(high));
            }
            target = static_cast<Integer>(value.as_integer());
            return {};
          },
          [&target] { return Json(static_cast<std::int64_t>(target)); },
          Json::object({{"type", "integer"}, {"minimum", low}, {"maximum", high}})};
}

template <class Value>
[[nodiscard]] Json names_of(const std::vector<std::pair<std::string_view, Value>>& known) {
  Json out = Json::array();
  for (const auto& [name, meaning] : known) {
    out.push_back(name);
  }
  return out;
}

template <class Value>
[[nodiscard]] ConfigValue one_of(Value& target,
                                 std::vector<std::pair<std::string_view, Value>> known) {
  return {[&target, known](const Json& value) -> std::string {
            std::string names;
            for (const auto& [name, meaning] : known) {
              if (value.is_string() && value.as_string() == name) {
                target = meaning;
                return {};
              }
              names += (names.empty() ? "" : ", ") + std::string(name);
            }
            return must_be("one of " + names);
          },
          [&target, known]() -> Json {
            for (const auto& [name, meaning] : known) {
              if (target == meaning) {
                return name;
              }
            }
            return "";  // not decided yet
          },
          Json::object({{"enum", names_of(known)}})};
}

/// "15s", "500ms": what duration() reads.
[[nodiscard]] std::string duration_text(Duration time);

[[nodiscard]] Json texts(const std::vector<std::string>& all);

/// Schemas of values: {"type": <type>}; a list of texts of which none is "".
[[nodiscard]] Json schema_of_type(std::string_view type);
[[nodiscard]] Json schema_of_texts();

}  // namespace kintsugi::krm
