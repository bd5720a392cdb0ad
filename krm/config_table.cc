#include "krm/config_table.h"

#include <algorithm>

#include "base/near_name.h"
#include "krm/config_environment.h"
#include "krm/config_values.h"
#include "krm/yaml.h"

namespace kintsugi::krm {
namespace {

std::string below(const std::string& prefix, std::string_view key) {
  return prefix.empty() ? std::string(key) : prefix + "." + std::string(key);
}

/// The names that may stand where "<prefix>.<name>" does, for a suggestion.
std::vector<std::string> names_at(const std::string& at, const ConfigTable& table) {
  std::vector<std::string> names;
  for (const ConfigKey& key : table) {
    if (key.path.starts_with(at)) {
      names.push_back(key.path.substr(at.size(), key.path.find('.', at.size()) - at.size()));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool is_section(const std::string& path, const ConfigTable& table) {
  return std::any_of(table.begin(), table.end(), [&](const ConfigKey& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) &&
           key.path[path.size()] == '.';
  });
}

bool is_index(const std::string& name) { return !name.empty() && name.front() == '['; }

std::string source_text(const ShownKey& key, std::string_view file) {
  switch (key.source.kind) {
    case ConfigSource::Kind::kFile:
      return std::string(file) + ":" + std::to_string(key.source.line);
    case ConfigSource::Kind::kEnvironment:
      return "env " + environment_name(path_of(key));
    case ConfigSource::Kind::kCommandLine:
      return "command line";
    case ConfigSource::Kind::kDefault:
      break;
  }
  return "default";
}

void show(const ConfigTable& table, const std::vector<std::string>& above,
          const ConfigOrigin& origin, std::vector<ShownKey>& out) {
  for (const ConfigKey& key : table) {
    std::vector<std::string> names = above;
    const std::vector<std::string> own = key_names(key);
    names.insert(names.end(), own.begin(), own.end());
    if (key.value.show) {
      ShownKey shown{std::move(names), key.value.show(), {}};
      const std::string path = path_of(shown);
      if (origin.amended.contains(path)) {
        shown.source.kind = ConfigSource::Kind::kCommandLine;
      } else if (origin.environment.contains(path)) {
        shown.source.kind = ConfigSource::Kind::kEnvironment;
      } else if (const auto line = origin.lines.find(path); line != origin.lines.end()) {
        shown.source = {ConfigSource::Kind::kFile, line->second};
      }
      out.push_back(std::move(shown));
      continue;
    }
    const auto all = key.sections.all();
    for (const auto& [name, keys] : all) {
      std::vector<std::string> inner = names;
      inner.push_back(key.sections.named ? name : "[" + name + "]");
      show(keys, inner, origin, out);
    }
    if (all.empty()) {
      out.push_back({std::move(names), key.sections.named ? Json::object() : Json::array(), {}});
    }
  }
}

/// One line in flow style, as JSON is YAML too; plain where that reads as the same text.
std::string scalar(const Json& value) {
  if (value.is_object() || value.is_array()) {
    return value.dump();
  }
  std::string text = to_yaml(value);
  text.pop_back();
  return text.find('\n') == std::string::npos ? text : value.dump();
}

}  // namespace

std::vector<std::string> key_names(const ConfigKey& key) {
  const std::string_view path = key.path;
  std::size_t last = path.rfind('.');
  for (std::size_t i = 0; i < key.dots; ++i) {
    last = path.rfind('.', last - 1);
  }
  std::vector<std::string> names;
  const std::size_t begin = last == std::string_view::npos ? 0 : last + 1;
  for (std::size_t at = 0; at < begin;) {
    const std::size_t dot = path.find('.', at);
    names.emplace_back(path.substr(at, dot - at));
    at = dot + 1;
  }
  names.emplace_back(path.substr(begin));
  return names;
}

Expected<ConfigReader> ConfigReader::open(std::string_view text, std::string path,
                                          std::string_view kind) {
  YamlReport report;
  report.collect_lines = true;
  auto document = parse_yaml(text, &report);
  if (!document) {
    return fail(Errc::kConfig, path + ": " + std::string(document.error().message()));
  }
  if (!report.duplicate_keys.empty()) {
    return fail(Errc::kConfig, path + ": " + report.duplicate_keys.front());
  }
  ConfigReader reader(std::move(*document), std::move(path), std::move(report.key_lines));
  if (reader.document_.text({"kind"}) != kind) {
    reader.fault("kind", must_be(kind));
  } else if (reader.document_.text({"apiVersion"}) != kConfigVersion) {
    reader.fault("apiVersion", must_be(kConfigVersion));
  }
  if (!reader.is_right()) {
    return fail(reader.error());
  }
  return reader;
}

void ConfigReader::fault(const std::string& key, std::string_view what) {
  if (faulty_.insert(key).second) {
    const std::size_t line = line_of(key);
    faults_.emplace_back(
        line, path_ + ":" + std::to_string(line) + ": " + key + ": " + std::string(what));
  }
}

std::size_t ConfigReader::line_of(const std::string& key) const {
  for (std::string at = key; !at.empty();) {
    if (const auto found = lines_.find(at); found != lines_.end()) {
      return found->second;
    }
    const std::size_t dot = at.find_last_of(".[");
    at.resize(dot == std::string::npos ? 0 : dot);
  }
  return 1;
}

Error ConfigReader::error() const {
  std::vector<std::pair<std::size_t, std::string>> faults = faults_;
  std::stable_sort(faults.begin(), faults.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (const auto& [line, what] : faults) {
    text += (text.empty() ? "" : "\n") + what;
  }
  return Error(Errc::kConfig, std::move(text));
}

void ConfigReader::read_section(const Json& section, const std::string& prefix,
                                const ConfigTable& table) {
  // The paths of the table begin at its section, those of the document at the top.
  const std::function<void(const Json&, const std::string&)> walk = [&](const Json& object,
                                                                        const std::string& inner) {
    for (const JsonMember& member : object.members()) {
      if (prefix.empty() && inner.empty() && (member.key == "apiVersion" || member.key == "kind")) {
        continue;
      }
      const std::string path = below(inner, member.key), whole = below(prefix, path);
      const auto known = std::find_if(table.begin(), table.end(),
                                      [&](const ConfigKey& one) { return one.path == path; });
      if (known != table.end()) {
        read_key(member.value, whole, *known);
      } else if (!is_section(path, table)) {
        unknown(whole, inner.empty() ? "" : inner + ".", member.key, table);
      } else if (!member.value.is_object()) {
        fault(whole, must_be("a section with keys"));
      } else {
        walk(member.value, path);
      }
    }
  };
  walk(section, "");
}

void ConfigReader::read_key(const Json& value, const std::string& path, const ConfigKey& key) {
  if (key.value.set) {
    if (const std::string wrong = key.value.set(value); !wrong.empty()) {
      fault(path, wrong);
    }
    return;
  }
  const bool named = key.sections.named;
  if (named ? !value.is_object() : !value.is_array()) {
    fault(path, must_be(named ? "sections by name" : "a list"));
    return;
  }
  const auto read_one = [&](const Json& one, const std::string& name, const std::string& at) {
    const auto table = key.sections.add(name);
    if (!table) {
      fault(at, "unknown key \"" + name + "\"");
    } else if (!one.is_object()) {
      fault(named ? at : path,
            (named ? "" : "element " + name + " ") + must_be("a section with keys"));
    } else {
      read_section(one, at, *table);
    }
  };
  if (named) {
    for (const JsonMember& member : value.members()) {
      read_one(member.value, member.key, path + "." + member.key);
    }
    return;
  }
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    read_one(value.items()[i], std::to_string(i), path + "[" + std::to_string(i) + "]");
  }
}

void ConfigReader::unknown(const std::string& path, const std::string& prefix,
                           const std::string& name, const ConfigTable& table) {
  const std::string near = nearest_name(name, names_at(prefix, table));
  fault(path,
        "unknown key \"" + name + "\"" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
}

std::string path_of(const ShownKey& key) {
  std::string path;
  for (const std::string& name : key.names) {
    path += (path.empty() || is_index(name) ? "" : ".") + name;
  }
  return path;
}

std::map<std::string, std::string> ConfigOrigin::values_of(const ConfigTable& table) {
  std::map<std::string, std::string> out;
  for (const ShownKey& key : shown_keys(table)) {
    out.emplace(path_of(key), key.value.dump());
  }
  return out;
}

void ConfigOrigin::amended_since(const std::map<std::string, std::string>& before,
                                 const ConfigTable& table) {
  for (const auto& [key, value] : values_of(table)) {
    const auto was = before.find(key);
    if (was == before.end() || was->second != value) {
      amended.insert(key);
    }
  }
}

std::vector<ShownKey> shown_keys(const ConfigTable& table, const ConfigOrigin& origin) {
  std::vector<ShownKey> out;
  show(table, {}, origin, out);
  std::stable_sort(out.begin(), out.end(), [](const ShownKey& a, const ShownKey& b) {
    return std::lexicographical_compare(
        a.names.begin(), a.names.end(), b.names.begin(), b.names.end(),
        [](const std::string& left, const std::string& right) {
          // Elements of a list stay in their order, which is that of their numbers.
          return is_index(left) && is_index(right) && left.size() != right.size()
                     ? left.size() < right.size()
                     : left < right;
        });
  });
  return out;
}

std::string config_yaml(std::string_view kind, const std::vector<ShownKey>& keys,
                        std::optional<std::string_view> file) {
  std::string out =
      "apiVersion: " + std::string(kConfigVersion) + "\nkind: " + std::string(kind) + "\n";
  std::vector<std::string> open;  // the section that was written last
  for (const ShownKey& key : keys) {
    std::size_t depth = 0;
    while (depth < open.size() && depth + 1 < key.names.size() && open[depth] == key.names[depth]) {
      ++depth;
    }
    std::size_t indent = 2 * depth;
    // What begins an element of a list stands behind its dash.
    bool behind_dash = false;
    const auto begin = [&] {
      if (!behind_dash) {
        out.append(indent, ' ');
      }
      behind_dash = false;
    };
    for (std::size_t i = depth; i + 1 < key.names.size(); ++i) {
      if (is_index(key.names[i])) {
        begin();
        out += "- ";
        indent += 2;
        behind_dash = true;
        continue;
      }
      begin();
      out += scalar(Json(key.names[i])) + ":\n";
      indent += 2;
    }
    begin();
    out += scalar(Json(key.names.back())) + ": " + scalar(key.value) +
           (file ? "  # " + source_text(key, *file) : "") + "\n";
    open.assign(key.names.begin(), key.names.end() - 1);
  }
  return out;
}

std::string config_json(const std::vector<ShownKey>& keys, std::string_view file) {
  Json out = Json::array();
  for (const ShownKey& key : keys) {
    const bool of_file = key.source.kind == ConfigSource::Kind::kFile;
    out.push_back(Json::object({{"key", path_of(key)},
                                {"value", key.value},
                                {"source", of_file ? std::string(file) : source_text(key, file)},
                                {"line", static_cast<std::int64_t>(key.source.line)}}));
  }
  return out.dump() + "\n";
}

std::string effective_config(std::string_view form, std::string_view kind,
                             const std::vector<ShownKey>& keys, std::string_view path) {
  const std::string_view file = path.substr(path.rfind('/') + 1);
  return form == "json" ? config_json(keys, file) : config_yaml(kind, keys, file);
}

}  // namespace kintsugi::krm
