#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "krm/json.h"

/// What the values of proxy.yaml may be. Each of these makes the function that reads one value into
/// its target, which must outlive it.
namespace kintsugi::proxy {

/// @returns what is wrong, "" when nothing is; the target is not changed then or is replaced.
using ConfigSetter = std::function<std::string(const krm::Json&)>;

[[nodiscard]] std::string must_be(std::string_view what);

[[nodiscard]] ConfigSetter text(std::string& target);
/// @param folder  what relative names start at.
[[nodiscard]] ConfigSetter file(std::string& target, const std::string& folder);
[[nodiscard]] ConfigSetter milliseconds_of(Duration& target, std::int64_t low = 0);
/// A number from 0 to `most`.
[[nodiscard]] ConfigSetter share(double& target, double most);
[[nodiscard]] ConfigSetter boolean(bool& target);
[[nodiscard]] ConfigSetter text_list(std::vector<std::string>& target);
/// What net::AddressList reads.
[[nodiscard]] ConfigSetter address_list(std::vector<std::string>& target);
/// One or more of 1 to 65535.
[[nodiscard]] ConfigSetter port_list(std::vector<std::uint16_t>& target);
/// Regular expressions.
[[nodiscard]] ConfigSetter pattern_list(std::vector<std::string>& target);
/// Texts by name, sorted.
[[nodiscard]] ConfigSetter text_map(std::vector<std::pair<std::string, std::string>>& target);
[[nodiscard]] ConfigSetter file_list(std::vector<std::string>& target, const std::string& folder);
/// Names of headers; none: the usual ones stay.
[[nodiscard]] ConfigSetter header_list(std::vector<std::string>& target);

template <class Integer>
[[nodiscard]] ConfigSetter number(Integer& target, std::int64_t low, std::int64_t high) {
  return [&target, low, high](const krm::Json& value) -> std::string {
    if (!value.is_integer() || value.as_integer() < low || value.as_integer() > high) {
      return must_be("a number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    target = static_cast<Integer>(value.as_integer());
    return {};
  };
}

template <class Value>
[[nodiscard]] ConfigSetter one_of(Value& target,
                                  std::vector<std::pair<std::string_view, Value>> known) {
  return [&target, known = std::move(known)](const krm::Json& value) -> std::string {
    std::string names;
    for (const auto& [name, meaning] : known) {
      if (value.is_string() && value.as_string() == name) {
        target = meaning;
        return {};
      }
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return must_be("one of " + names);
  };
}

}  // namespace kintsugi::proxy
