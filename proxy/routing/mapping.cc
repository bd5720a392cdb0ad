#include "proxy/routing/mapping.h"

#include <algorithm>
#include <map>

#include "base/strings.h"
#include "krm/yaml.h"
#include "net/upstream.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

constexpr std::size_t kMostEntries = 10'000;
constexpr std::size_t kMostSegments = 32;

bool is_placeholder(std::string_view segment) {
  if (segment.size() < 3 || segment.front() != '{' || segment.back() != '}') {
    return false;
  }
  const std::string_view name = segment.substr(1, segment.size() - 2);
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

/// What is wrong with a pattern, "" when nothing is; fills `segments`.
std::string take_pattern(std::string_view path, std::vector<std::string>& segments) {
  if (!path.starts_with('/')) {
    return "path: must begin with /";
  }
  if (path.find_first_of("?#%") != std::string_view::npos) {
    return "path: is a path, without ?, # and %";
  }
  std::string_view rest = path.substr(1);
  if (rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  bool has_cluster = false;
  for (const std::string_view segment :
       rest.empty() ? std::vector<std::string_view>() : split(rest, '/')) {
    const bool braces = segment.find_first_of("{}") != std::string_view::npos;
    if (segment.empty() || segment == "." || segment == "..") {
      return "path: must have no empty or dot segments";
    }
    if (braces && !is_placeholder(segment)) {
      return "path: \"" + std::string(segment) + "\" is no {name}";
    }
    if (segment == "{cluster}" && std::exchange(has_cluster, true)) {
      return "path: has {cluster} twice";
    }
    segments.emplace_back(segment);
  }
  return segments.size() > kMostSegments
             ? "path: must have at most " + std::to_string(kMostSegments) + " segments"
             : std::string();
}

/// The same for all patterns that match the same paths.
std::string shape_of(const MappingEntry& entry) {
  std::string shape = entry.is_clusters() ? "clusters:" : "";
  for (const std::string& segment : entry.segments) {
    shape += '/' + (segment.front() == '{' ? std::string("{}") : segment);
  }
  return shape;
}

/// Texts of an entry by key.
struct TextKey {
  std::string_view key;
  std::string* target;
};

std::string take_fields(const Json& item, MappingEntry& entry, std::string& faulty) {
  std::string user, group, extra, uid;
  const TextKey texts[] = {{"path", &entry.path},
                           {"backend", &entry.backend},
                           {"backend_server_ca", &entry.ca_file},
                           {"proxy_client_cert", &entry.cert_file},
                           {"proxy_client_key", &entry.key_file},
                           {"server_name", &entry.server_name},
                           {"user_header", &user},
                           {"group_header", &group},
                           {"extra_header_prefix", &extra},
                           {"uid_header", &uid}};
  for (const krm::JsonMember& member : item.members()) {
    faulty = member.key;
    if (member.key == "static") {
      if (!member.value.is_bool()) {
        return "static: must be true or false";
      }
      entry.is_static = member.value.as_bool();
      continue;
    }
    const auto* const known =
        std::find_if(std::begin(texts), std::end(texts),
                     [&](const TextKey& one) { return one.key == member.key; });
    if (known == std::end(texts)) {
      return member.key + ": unknown key";
    }
    if (!member.value.is_string()) {
      return member.key + ": must be text";
    }
    *known->target = member.value.as_string();
  }
  faulty.clear();
  const auto rename = [&entry](const std::string& name, std::vector<std::string>& target) {
    if (!name.empty()) {
      entry.own_names = entry.own_names || to_lower(name) != to_lower(target.front());
      target = {name};
    }
  };
  rename(user, entry.identity.user_headers);
  rename(group, entry.identity.group_headers);
  rename(extra, entry.identity.extra_prefixes);
  rename(uid, entry.identity.uid_headers);
  return {};
}

/// What has to be there, and be right.
std::string judge(MappingEntry& entry, std::string& faulty) {
  faulty = "path";
  if (entry.path.empty()) {
    faulty.clear();
    return "path: is required";
  }
  if (std::string wrong = take_pattern(entry.path, entry.segments); !wrong.empty()) {
    return wrong;
  }
  faulty = "backend";
  bool plain = false;
  if (!entry.is_clusters()) {
    const auto url = net::Url::parse(entry.backend);
    if (entry.backend.empty() || !url) {
      return entry.backend.empty() ? "backend: is required"
                                   : "backend: must be an http or https URL";
    }
    plain = url->scheme == "http";
  }
  for (const TextKey& file : {TextKey{"backend_server_ca", &entry.ca_file},
                              {"proxy_client_cert", &entry.cert_file},
                              {"proxy_client_key", &entry.key_file}}) {
    if (!plain && file.target->empty()) {
      faulty = "path";
      return std::string(file.key) + ": is required";
    }
  }
  return {};
}

}  // namespace

Expected<std::vector<MappingEntry>> parse_mapping(std::string_view text, const std::string& path) {
  krm::YamlReport report;
  report.collect_lines = true;
  auto document = krm::parse_yaml(text, &report);
  if (!document) {
    return fail(Errc::kConfig, path + ": " + std::string(document.error().message()));
  }
  if (!report.duplicate_keys.empty()) {
    return fail(Errc::kConfig, path + ": " + report.duplicate_keys.front());
  }
  std::vector<MappingEntry> entries;
  if (document->is_null()) {
    return entries;
  }
  if (!document->is_array()) {
    return fail(Errc::kConfig, path + ":1: must be a list of entries");
  }
  if (document->items().size() > kMostEntries) {
    return fail(Errc::kConfig,
                path + ":1: must have at most " + std::to_string(kMostEntries) + " entries");
  }
  std::map<std::string, std::size_t> seen;  // line by shape
  std::size_t last_line = 1;
  for (std::size_t i = 0; i < document->items().size(); ++i) {
    const Json& item = document->items()[i];
    const std::string at = "[" + std::to_string(i) + "]";
    const auto line_of = [&](std::string_view key) {
      const auto found = report.key_lines.find(at + "." + std::string(key));
      return found != report.key_lines.end() ? found->second : std::size_t{0};
    };
    MappingEntry entry;
    for (const krm::JsonMember& member : item.members()) {
      const std::size_t line = line_of(member.key);
      entry.line = entry.line == 0 ? line : std::min(entry.line, line);
    }
    entry.line = entry.line == 0 ? last_line : entry.line;
    last_line = entry.line;
    std::string faulty;
    std::string wrong = item.is_object() ? take_fields(item, entry, faulty)
                                         : "entry " + std::to_string(i) + " must have keys";
    if (wrong.empty()) {
      wrong = judge(entry, faulty);
    }
    if (wrong.empty()) {
      const auto [first, is_new] = seen.emplace(shape_of(entry), entry.line);
      if (!is_new) {
        faulty = "path";
        wrong =
            "path: " + entry.path + " is there already, in line " + std::to_string(first->second);
      }
    }
    if (!wrong.empty()) {
      const std::size_t line = faulty.empty() ? 0 : line_of(faulty);
      return fail(Errc::kConfig,
                  path + ":" + std::to_string(line == 0 ? entry.line : line) + ": " + wrong);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace kintsugi::proxy
