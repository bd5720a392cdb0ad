#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

struct YamlReport {
  /// `line 3: key "bar" already set in map`, in order of appearance (AM-150).
  std::vector<std::string> duplicate_keys;
  /// Fill key_lines; for configuration files, whose faults name a line.
  bool collect_lines = false;
  /// Line (from 1) of every mapping key by its path: "listener.port", "topology.shards[0].name".
  std::map<std::string, std::size_t> key_lines;
};

/// The first YAML document as JSON, by the rules of sigs.k8s.io/yaml: YAML 1.1 scalars (`yes`,
/// `on`, `y` are booleans, `0755` is octal, `1_000` a number, timestamps stay text), keys become
/// text, merge keys (`<<`) and aliases are expanded, of equal keys the last one wins. An empty text
/// is null.
/// @param report what strict field validation refuses; may be null.
/// What follows it is not looked at, but refused in configuration files.
/// @error kBadRequest "error converting YAML to JSON: yaml: line 3: …": malformed, depth over
/// 1,000,
///        infinite or not-a-number values.
/// @error kRequestEntityTooLarge aliases that expand to more than ten times the text (AM-063).
[[nodiscard]] Expected<Json> parse_yaml(std::string_view text, YamlReport* report = nullptr);

/// Block style with sorted keys, strings quoted where they would read as something else, texts of
/// several lines as literals; ends in a newline. parse_yaml() reads it back to an equal value.
[[nodiscard]] std::string to_yaml(const Json& value);

}  // namespace kintsugi::krm
