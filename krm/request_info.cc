#include "krm/request_info.h"

#include <algorithm>

#include "base/sha256.h"
#include "base/strings.h"
#include "krm/names.h"
#include "krm/selector.h"

namespace kintsugi::krm {
namespace {

/// Segments of a path without its outer slashes, each decoded on its own, so that %2F never
/// separates. Empty when the path has an empty segment or a broken escape.
std::vector<std::string> decode_segments(std::string_view path) {
  while (!path.empty() && path.front() == '/') {
    path.remove_prefix(1);
  }
  while (!path.empty() && path.back() == '/') {
    path.remove_suffix(1);
  }
  std::vector<std::string> segments;
  for (const std::string_view part : split(path, '/')) {
    std::optional<std::string> decoded = percent_decode(part);
    if (!decoded || decoded->empty()) {
      return {};
    }
    segments.push_back(std::move(*decoded));
  }
  return segments;
}

std::string resource_verb(std::string_view method) {
  if (method == "GET" || method == "HEAD") {
    return "get";
  }
  if (method == "POST") {
    return "create";
  }
  if (method == "PUT") {
    return "update";
  }
  if (method == "PATCH") {
    return "patch";
  }
  return method == "DELETE" ? "delete" : "";
}

bool is_watch(const Query& query) {
  const std::optional<std::string_view> value = query.get("watch");
  return value && !equals_ignore_case(*value, "false") && *value != "0";
}

/// The name that a field selector pins down, "" when there is none.
std::string selected_name(const Query& query) {
  const std::optional<std::string_view> text = query.get("fieldSelector");
  if (!text || text->empty()) {
    return {};
  }
  const Expected<FieldSelector> selector = FieldSelector::parse(*text);
  if (!selector) {
    return {};
  }
  const std::optional<std::string_view> name = selector->exact("metadata.name");
  return name && is_path_segment_name(*name) ? std::string(*name) : std::string();
}

/// Reads resource, name and subresource; `segments` are those after the version.
void read_resource(RequestInfo& info, std::vector<std::string> segments) {
  info.parts = std::move(segments);
  const std::vector<std::string>& parts = info.parts;
  std::size_t at = 0;
  if (parts[0] == "namespaces" && parts.size() > 1) {
    info.ns = parts[1];
    // Everything but these two below a namespace is a resource of its own.
    if (parts.size() > 2 && parts[2] != "status" && parts[2] != "finalize") {
      at = 2;
    }
  }
  info.resource = parts[at];
  if (parts.size() > at + 1) {
    info.name = parts[at + 1];
    info.path_has_name = true;
  }
  if (parts.size() > at + 2) {
    info.subresource = parts[at + 2];
  }
}

/// Upper-case digits never occur, lengths are those of strconv.FormatUint(n, 36).
std::string base36(std::uint64_t value) {
  std::string text;
  do {
    text.push_back("0123456789abcdefghijklmnopqrstuvwxyz"[value % 36]);
    value /= 36;
  } while (value != 0);
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace

Query::Query(std::string_view raw) {
  while (!raw.empty()) {
    const std::size_t end = std::min(raw.find('&'), raw.size());
    const std::string_view pair = raw.substr(0, end);
    raw.remove_prefix(std::min(end + 1, raw.size()));
    // Go refuses pairs with a semicolon.
    if (pair.empty() || pair.find(';') != std::string_view::npos) {
      continue;
    }
    const std::size_t equals = std::min(pair.find('='), pair.size());
    std::optional<std::string> key = percent_decode(pair.substr(0, equals), true);
    std::optional<std::string> value =
        percent_decode(pair.substr(std::min(equals + 1, pair.size())), true);
    if (key && value) {
      pairs_.emplace_back(std::move(*key), std::move(*value));
    }
  }
}

std::optional<std::string_view> Query::get(std::string_view key) const noexcept {
  for (const auto& [name, value] : pairs_) {
    if (name == key) {
      return value;
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> Query::all(std::string_view key) const {
  std::vector<std::string_view> values;
  for (const auto& [name, value] : pairs_) {
    if (name == key) {
      values.emplace_back(value);
    }
  }
  return values;
}

RequestInfo parse_request_info(std::string_view method, std::string_view target) {
  RequestInfo info;
  const std::size_t mark = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, mark);
  info.query = Query(target.substr(std::min(mark + 1, target.size())));
  info.verb = to_lower(method);
  info.path = percent_decode(path).value_or(std::string(path));

  std::vector<std::string> segments = decode_segments(path);
  if (segments.size() < 3 || (segments[0] != "api" && segments[0] != "apis")) {
    return info;
  }
  const bool core = segments[0] == "api";
  std::size_t used = core ? 2 : 3;
  if (segments.size() <= used) {
    return info;
  }
  const bool watch_form = segments[used] == "watch";
  if (watch_form && segments.size() == used + 1) {
    return info;
  }
  info.is_resource = true;
  info.api_prefix = segments[0];
  info.group = core ? std::string() : segments[1];
  info.version = segments[used - 1];
  info.deprecated_watch = watch_form;
  info.verb = watch_form ? "watch" : resource_verb(method);
  used += watch_form ? 1 : 0;
  segments.erase(segments.begin(), segments.begin() + static_cast<std::ptrdiff_t>(used));
  read_resource(info, std::move(segments));

  if (!info.name.empty() || watch_form) {
    return info;
  }
  if (info.verb == "get") {
    info.verb = is_watch(info.query) ? "watch" : "list";
    info.name = selected_name(info.query);
  } else if (info.verb == "delete") {
    info.verb = "deletecollection";
  }
  return info;
}

std::optional<ClusterPath> split_cluster_path(std::string_view target) {
  constexpr std::string_view kPrefix = "/clusters/";
  if (target.substr(0, kPrefix.size()) != kPrefix) {
    return std::nullopt;
  }
  target.remove_prefix(kPrefix.size());
  const std::size_t end = std::min(target.find_first_of("/?"), target.size());
  if (end == 0) {
    return std::nullopt;
  }
  const std::string_view raw = target.substr(0, end);
  return ClusterPath{percent_decode(raw).value_or(std::string(raw)), target.substr(end)};
}

bool is_cluster_name(std::string_view text) noexcept {
  const auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (text.empty() || text.size() > 63 || !alphanumeric(text.front()) ||
      !alphanumeric(text.back())) {
    return false;
  }
  return std::all_of(text.begin(), text.end(), [&](char c) { return alphanumeric(c) || c == '-'; });
}

bool is_workspace_path(std::string_view text) noexcept {
  for (;;) {
    const std::size_t colon = text.find(':');
    if (!is_cluster_name(text.substr(0, colon))) {
      return false;
    }
    if (colon == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(colon + 1);
  }
}

std::string home_cluster_name(std::string_view user_name) {
  const auto hash = sha224(user_name);
  std::uint64_t value = 0;
  std::string zeros;
  for (std::size_t i = 0; i < 8; ++i) {
    value = value << 8U | hash[i];
    if (value == 0) {
      zeros.push_back('0');
    }
  }
  return zeros + base36(value);
}

}  // namespace kintsugi::krm
