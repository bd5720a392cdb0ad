#include "krm/config_values.h"

#include <algorithm>
#include <filesystem>

#include "base/strings.h"

namespace kintsugi::krm {
namespace {

constexpr Duration kLongest = std::chrono::hours(1);

std::string below(const std::string& folder, std::string_view name) {
  const std::filesystem::path path(name);
  return path.is_absolute() ? path.string() : (std::filesystem::path(folder) / path).string();
}

Json shown(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

}  // namespace

std::string must_be(std::string_view what) { return "must be " + std::string(what); }

ConfigValue text(std::string& target) {
  return {[&target](const Json& value) -> std::string {
            if (!value.is_string()) {
              return must_be("text");
            }
            target = value.as_string();
            return {};
          },
          [&target] { return Json(target); }, schema_of_type("string")};
}

ConfigValue some_text(std::string& target) {
  ConfigValue any = text(target);
  return {[set = std::move(any.set)](const Json& value) -> std::string {
            return value.is_string() && value.as_string().empty() ? must_be("text") : set(value);
          },
          std::move(any.show), Json::object({{"type", "string"}, {"minLength", 1}})};
}

ConfigValue file(std::string& target, const std::string& folder) {
  return {[&target, folder](const Json& value) -> std::string {
            if (!value.is_string()) {
              return must_be("a file name");
            }
            target = value.as_string().empty() ? "" : below(folder, value.as_string());
            return {};
          },
          [&target] { return Json(target); }, schema_of_type("string")};
}

ConfigValue boolean(bool& target) {
  return {[&target](const Json& value) -> std::string {
            if (!value.is_bool()) {
              return must_be("true or false");
            }
            target = value.as_bool();
            return {};
          },
          [&target] { return Json(target); }, schema_of_type("boolean")};
}

ConfigValue fraction(double& target, double low, double high) {
  return {[&target, low, high](const Json& value) -> std::string {
            if (!value.is_number() || !(value.as_double() >= low) || !(value.as_double() <= high)) {
              return must_be("a number from " + shown(low).dump() + " to " + shown(high).dump());
            }
            target = value.as_double();
            return {};
          },
          [&target] { return shown(target); },
          Json::object({{"type", "number"}, {"minimum", shown(low)}, {"maximum", shown(high)}})};
}

ConfigValue milliseconds_of(Duration& target, std::int64_t low, Duration high) {
  return {[&target, low, high](const Json& value) -> std::string {
            if (!value.is_integer() || value.as_integer() < low ||
                value.as_integer() > high / milliseconds(1)) {
              return must_be("milliseconds from " + std::to_string(low) + " to " +
                             std::to_string(high / milliseconds(1)));
            }
            target = milliseconds(value.as_integer());
            return {};
          },
          [&target] { return Json(std::int64_t{target / milliseconds(1)}); },
          Json::object({{"type", "integer"},
                        {"minimum", low},
                        {"maximum", std::int64_t{high / milliseconds(1)}}})};
}

ConfigValue duration(Duration& target, Duration low) {
  return {[&target, low](const Json& value) -> std::string {
            const auto time =
                value.is_string() ? parse_go_duration_ns(value.as_string()) : std::nullopt;
            if (!time || Duration(*time) < low || Duration(*time) > kLongest) {
              return must_be("a duration such as 500ms, 15s or 1m, from " + duration_text(low) +
                             " to 1h");
            }
            target = Duration(*time);
            return {};
          },
          [&target] { return Json(duration_text(target)); }, schema_of_type("string")};
}

ConfigValue text_list(std::vector<std::string>& target) {
  return {[&target](const Json& value) -> std::string {
            std::vector<std::string> read;
            for (const Json& item : value.is_array() ? value.items() : std::vector<Json>()) {
              if (!item.is_string() || item.as_string().empty()) {
                return must_be("a list of texts");
              }
              read.emplace_back(item.as_string());
            }
            if (!value.is_array()) {
              return must_be("a list of texts");
            }
            target = std::move(read);
            return {};
          },
          [&target] { return texts(target); }, schema_of_texts()};
}

ConfigValue file_list(std::vector<std::string>& target, const std::string& folder) {
  ConfigValue list = text_list(target);
  return {[set = std::move(list.set), &target, folder](const Json& value) -> std::string {
            std::string wrong = set(value);
            if (wrong.empty()) {
              std::transform(target.begin(), target.end(), target.begin(),
                             [&](const std::string& name) { return below(folder, name); });
            }
            return wrong;
          },
          std::move(list.show), std::move(list.schema)};
}

ConfigValue text_map(std::vector<std::pair<std::string, std::string>>& target) {
  return {[&target](const Json& value) -> std::string {
            std::vector<std::pair<std::string, std::string>> read;
            for (const JsonMember& member : value.members()) {
              if (!member.value.is_string()) {
                return must_be("texts by name");
              }
              read.emplace_back(member.key, member.value.as_string());
            }
            if (!value.is_object()) {
              return must_be("texts by name");
            }
            std::sort(read.begin(), read.end());
            target = std::move(read);
            return {};
          },
          [&target] {
            Json out = Json::object();
            for (const auto& [name, one] : target) {
              out[name] = one;
            }
            return out;
          },
          Json::object({{"type", "object"}, {"additionalProperties", schema_of_type("string")}})};
}

std::string duration_text(Duration time) {
  const std::int64_t ns = time.count();
  if (ns % 1'000'000'000 == 0) {
    return std::to_string(ns / 1'000'000'000) + "s";
  }
  return ns % 1'000'000 == 0 ? std::to_string(ns / 1'000'000) + "ms" : std::to_string(ns) + "ns";
}

Json schema_of_type(std::string_view type) { return Json::object({{"type", type}}); }

Json schema_of_texts() {
  return Json::object(
      {{"type", "array"}, {"items", Json::object({{"type", "string"}, {"minLength", 1}})}});
}

Json texts(const std::vector<std::string>& all) {
  Json out = Json::array();
  for (const std::string& one : all) {
    out.push_back(one);
  }
  return out;
}

}  // namespace kintsugi::krm
