#include "krm/config_environment.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/near_name.h"
#include "base/strings.h"
#include "krm/yaml.h"

namespace kintsugi::krm {
namespace {

struct Settable {
  std::string path;
  ConfigValue value;
};
using Settables = std::map<std::string, Settable>;  // by the names of their variables

void collect(const ConfigTable& table, const std::string& above, Settables& out) {
  for (const ConfigKey& key : table) {
    const std::string path = above + key.path;
    if (key.value.set) {
      out.emplace(environment_name(path), Settable{path, key.value});
    } else if (key.sections.named) {
      for (const auto& [name, keys] : key.sections.all()) {
        collect(keys, path + "." + name + ".", out);
      }
    }
  }
}

/// The text itself where the key takes one, else what YAML takes it for, else its parts.
std::string set_from_text(const ConfigValue& value, std::string_view text) {
  std::string wrong = value.set(Json(text));
  if (wrong.empty()) {
    return {};
  }
  if (const auto read = parse_yaml(text); read && value.set(*read).empty()) {
    return {};
  }
  Json words = Json::array(), numbers = Json::array();
  for (const std::string_view part : split(text, ',')) {
    const std::string_view word = trim(part);
    if (word.empty()) {
      continue;
    }
    words.push_back(word);
    if (const auto number = parse_decimal<std::int64_t>(word)) {
      numbers.push_back(*number);
    }
  }
  const bool all_numbers = numbers.items().size() == words.items().size();
  const bool taken = value.set(words).empty() || (all_numbers && value.set(numbers).empty());
  return taken ? std::string() : wrong;
}

std::string unknown(const std::string& name, const ConfigTable& table) {
  const std::string near = nearest_name(name, environment_names(table));
  return name + ": no key has this variable" +
         (near.empty() ? std::string() : "; did you mean " + near + "?");
}

}  // namespace

std::string environment_name(std::string_view path) {
  std::string out(kEnvironmentPrefix);
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    out += std::isalnum(byte) != 0 ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return out;
}

std::vector<std::string> environment_names(const ConfigTable& table) {
  Settables known;
  collect(table, "", known);
  std::vector<std::string> names;
  for (const auto& [name, key] : known) {
    names.push_back(name);
  }
  return names;
}

ConfigEnvironment config_environment() {
  ConfigEnvironment out;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view one(*at);
    const std::size_t equals = one.find('=');
    if (one.starts_with(kEnvironmentPrefix) && equals != std::string_view::npos) {
      out.emplace_back(one.substr(0, equals), one.substr(equals + 1));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

Expected<std::set<std::string>> apply_environment(const ConfigEnvironment& environment,
                                                  const ConfigTable& table) {
  Settables known;
  if (!environment.empty()) {
    collect(table, "", known);
  }
  std::set<std::string> done;
  std::vector<std::string> faults;
  for (const auto& [name, text] : environment) {
    const auto found = known.find(name);
    if (found == known.end()) {
      faults.push_back(unknown(name, table));
    } else if (const std::string wrong = set_from_text(found->second.value, text); !wrong.empty()) {
      faults.push_back(name + ": " + wrong);
    } else {
      done.insert(found->second.path);
    }
  }
  if (!faults.empty()) {
    return fail(Errc::kConfig, join(faults, "\n"));
  }
  return done;
}

}  // namespace kintsugi::krm
