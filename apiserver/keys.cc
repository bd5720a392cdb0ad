#include "apiserver/keys.h"

#include <algorithm>

#include "base/digest.h"

namespace kintsugi::apiserver {
namespace {

constexpr char kSeparator = '\0';
constexpr char kCutMark = '\x01';
constexpr std::size_t kHashDigits = 32;

bool has_separator(std::string_view text) {
  return text.find(kSeparator) != std::string_view::npos;
}

bool is_of_any_identity(std::string_view qualified_resource) {
  return qualified_resource.ends_with(":*");
}

}  // namespace

std::string resource_prefix(std::string_view qualified_resource) {
  std::string prefix(qualified_resource);
  if (is_of_any_identity(qualified_resource)) {
    prefix.pop_back();
  } else {
    prefix += kSeparator;
  }
  return prefix;
}

std::string collection_prefix(std::string_view qualified_resource, std::string_view cluster,
                              std::string_view ns) {
  std::string prefix = resource_prefix(qualified_resource);
  if (cluster == "*") {
    return prefix;
  }
  prefix.append(cluster) += kSeparator;
  if (!ns.empty()) {
    prefix.append(ns) += kSeparator;
  }
  return prefix;
}

std::optional<std::string> object_key(std::string_view qualified_resource, std::string_view cluster,
                                      std::string_view ns, std::string_view name) {
  if (name.empty() || has_separator(cluster) || has_separator(ns) || has_separator(name)) {
    return std::nullopt;
  }
  std::string key = collection_prefix(qualified_resource, cluster, ns);
  if (key.size() + name.size() <= kMaxKeyBytes) {
    key.append(name);
    return key;
  }
  if (key.size() + 1 + kHashDigits > kMaxKeyBytes) {
    return std::nullopt;
  }
  const std::string hash = sha256_hex(name).substr(0, kHashDigits);
  key.append(name.substr(0, kMaxKeyBytes - key.size() - 1 - kHashDigits));
  key += kCutMark;
  key += hash;
  return key;
}

std::optional<KeyParts> parse_key(std::string_view key) noexcept {
  KeyParts parts;
  const std::size_t first = key.find(kSeparator);
  if (first == std::string_view::npos || first == 0) {
    return std::nullopt;
  }
  const std::size_t second = key.find(kSeparator, first + 1);
  if (second == std::string_view::npos) {
    return std::nullopt;
  }
  parts.resource = key.substr(0, first);
  parts.cluster = key.substr(first + 1, second - first - 1);
  const std::size_t third = key.find(kSeparator, second + 1);
  if (third == std::string_view::npos) {
    parts.name = key.substr(second + 1);
  } else {
    parts.ns = key.substr(second + 1, third - second - 1);
    parts.name = key.substr(third + 1);
  }
  if (parts.name.empty()) {
    return std::nullopt;
  }
  parts.name_is_cut = parts.name.size() > kHashDigits &&
                      parts.name[parts.name.size() - kHashDigits - 1] == kCutMark;
  return parts;
}

StoredResource parse_stored_resource(std::string_view name) noexcept {
  StoredResource out;
  if (const std::size_t colon = name.find(':'); colon != std::string_view::npos) {
    out.identity = name.substr(colon + 1);
    name = name.substr(0, colon);
  }
  const std::size_t dot = name.find('.');
  out.plural = name.substr(0, dot);
  out.group = dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
  return out;
}

std::string stored_resource(std::string_view group, std::string_view resource) {
  const std::size_t colon = resource.find(':');
  std::string name(resource.substr(0, colon));
  if (!group.empty()) {
    (name += '.') += group;
  }
  if (colon != std::string_view::npos) {
    name += resource.substr(colon);
  }
  return name;
}

std::string position_of(std::string_view key) {
  const std::size_t first = key.find(kSeparator);
  std::string position(first == std::string_view::npos ? key : key.substr(first + 1));
  std::replace(position.begin(), position.end(), kSeparator, '/');
  return position;
}

std::string position_in(std::string_view qualified_resource, std::string_view key) {
  if (!is_of_any_identity(qualified_resource)) {
    return position_of(key);
  }
  std::string position(key.substr(std::min(qualified_resource.size() - 1, key.size())));
  std::replace(position.begin(), position.end(), kSeparator, '/');
  return position;
}

std::optional<std::string> key_at(std::string_view qualified_resource, std::string_view position) {
  if (position.empty() || position.front() == '.' || has_separator(position)) {
    return std::nullopt;
  }
  std::string key = resource_prefix(qualified_resource);
  for (const char c : position) {
    key += c == '/' ? kSeparator : c;
  }
  return key;
}

}  // namespace kintsugi::apiserver
