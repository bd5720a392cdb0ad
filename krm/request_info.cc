#include "krm/request_info.h"

#include <algorithm>

#include "base/digest.h"
#include "base/reading_counts.h"
#include "base/strings.h"
#include "krm/internal/path_shape.h"
#include "krm/names.h"
#include "krm/path_prefixes.h"
#include "krm/selector.h"

namespace kintsugi::krm {
namespace {

/// Segments of a decoded path without its outer slashes. Empty when one of them is empty.
std::vector<std::string> segments_of(std::string_view path) {
  while (!path.empty() && path.front() == '/') {
    path.remove_prefix(1);
  }
  while (!path.empty() && path.back() == '/') {
    path.remove_suffix(1);
  }
  std::vector<std::string> segments;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty()) {
      return {};
    }
    segments.emplace_back(part);
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

std::optional<std::string_view> Query::get(std::string_view key) const& noexcept {
  for (const auto& [name, value] : pairs_) {
    if (name == key) {
      return value;
    }
  }
  return std::nullopt;
}

std::vector<std::string_view> Query::all(std::string_view key) const& {
  std::vector<std::string_view> values;
  for (const auto& [name, value] : pairs_) {
    if (name == key) {
      values.emplace_back(value);
    }
  }
  return values;
}

bool asks_for_watch(std::optional<std::string_view> value) noexcept {
  return value && !equals_ignore_case(*value, "false") && *value != "0";
}

RequestInfo parse_request_info(std::string_view method, std::string_view target) {
  ++reading_counts.infos;
  RequestInfo info;
  const std::size_t mark = std::min(target.find('?'), target.size());
  const std::string_view path = target.substr(0, mark);
  info.query = Query(target.substr(std::min(mark + 1, target.size())));
  info.verb = to_lower(method);
  std::optional<std::string> decoded = percent_decode(path);
  info.path = decoded ? std::move(*decoded) : std::string(path);
  if (!decoded) {
    return info;
  }
  if (info.path.empty()) {
    info.path = "/";  // "/clusters/<name>?<query>" has a query behind the name at once
  }
  std::vector<std::string> segments = segments_of(info.path);
  const PathShape shape = PathShape::of(
      segments.size(), [&](std::size_t i) -> std::string_view { return segments[i]; });
  if (!shape.is_resource) {
    return info;
  }
  const auto text = [&](std::size_t i) {
    return i == PathShape::kNone ? std::string() : segments[i];
  };
  info.is_resource = true;
  info.api_prefix = segments[0];
  info.group = shape.core ? std::string() : segments[1];
  info.version = segments[shape.version];
  info.ns = text(shape.ns);
  info.resource = text(shape.resource);
  info.name = text(shape.name);
  info.subresource = text(shape.subresource);
  info.path_has_name = shape.has_name();
  info.deprecated_watch = shape.special == PathShape::Special::kWatch;
  segments.erase(segments.begin(), segments.begin() + static_cast<std::ptrdiff_t>(shape.parts));
  info.parts = std::move(segments);
  if (shape.special != PathShape::Special::kNone) {
    info.verb = info.deprecated_watch ? "watch" : "proxy";
    return info;
  }
  info.verb = resource_verb(method);
  if (info.path_has_name) {
    return info;
  }
  if (info.verb == "get") {
    info.verb = asks_for_watch(info.query.get("watch")) ? "watch" : "list";
    info.name = selected_name(info.query);
  } else if (info.verb == "delete") {
    info.verb = "deletecollection";
  }
  return info;
}

std::optional<ClusterPath> split_cluster_path(std::string_view target) {
  if (!target.starts_with(kClustersPrefix)) {
    return std::nullopt;
  }
  target.remove_prefix(kClustersPrefix.size());
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
