#include "auth/request_header.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/strings.h"
#include "http/wire.h"

namespace kintsugi::auth {
namespace {

/// Lower case, `_` as `-`: how a shard behind a lenient gateway might read a name.
constexpr char folded(char c) noexcept {
  return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool starts_folded(std::string_view name, std::string_view prefix) noexcept {
  return name.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), name.begin(),
                    [](char a, char b) { return folded(a) == folded(b); });
}

bool names_one_of(std::string_view name, const std::vector<std::string>& names) noexcept {
  return std::any_of(names.begin(), names.end(), [&](const std::string& known) {
    return name.size() == known.size() && starts_folded(name, known);
  });
}

bool has_prefix_of(std::string_view name, const std::vector<std::string>& prefixes) noexcept {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& prefix) {
    return !prefix.empty() && starts_folded(name, prefix);
  });
}

bool is_identity_header(std::string_view name, const RequestHeaderConfig& config) noexcept {
  return names_one_of(name, config.user_headers) || names_one_of(name, config.group_headers) ||
         names_one_of(name, config.uid_headers) || has_prefix_of(name, config.extra_prefixes);
}

/// What tells nearly all other headers apart: a bit for each first letter of a name.
std::uint32_t letter(std::string_view name) noexcept {
  return name.empty() ? 0 : 1U << (static_cast<unsigned char>(folded(name.front())) & 31U);
}

std::uint32_t first_letters(const RequestHeaderConfig& config) noexcept {
  std::uint32_t letters = 0;
  for (const auto* names :
       {&config.user_headers, &config.group_headers, &config.uid_headers, &config.extra_prefixes}) {
    for (const std::string& name : *names) {
      letters |= letter(name);
    }
  }
  return letters;
}

/// Of a connection, not of a request; the size tells most names apart.
bool is_of_connection(std::string_view name) noexcept {
  switch (name.size()) {
    case 7:
      return name == "trailer" || name == "upgrade";
    case 10:
      return name == "connection" || name == "keep-alive";
    case 16:
      return name == "proxy-connection";
    case 17:
      return name == "transfer-encoding";
    case 18:
      return name == "proxy-authenticate";
    case 19:
      return name == "proxy-authorization";
    default:
      return false;
  }
}

bool is_header_value(std::string_view text) noexcept {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte == 0x7f;
  });
}

bool in_list(std::string_view group, const std::vector<std::string>& patterns) noexcept {
  return std::any_of(patterns.begin(), patterns.end(), [&](std::string_view pattern) {
    if (pattern.ends_with('*')) {
      return group.starts_with(pattern.substr(0, pattern.size() - 1));
    }
    return group == pattern;
  });
}

}  // namespace

bool may_assert_identity(std::string_view common_name, const RequestHeaderConfig& config) noexcept {
  return config.allowed_names.empty() ||
         std::find(config.allowed_names.begin(), config.allowed_names.end(), common_name) !=
             config.allowed_names.end();
}

std::optional<UserInfo> read_identity_headers(const http::HeaderList& headers,
                                              const RequestHeaderConfig& config) {
  UserInfo user;
  const auto first_of = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const std::string_view value = headers.get(to_lower(name));
      if (!value.empty()) {
        return std::string(value);
      }
    }
    return std::string();
  };
  user.name = first_of(config.user_headers);
  if (user.name.empty()) {
    return std::nullopt;
  }
  user.uid = first_of(config.uid_headers);
  for (const std::string& name : config.group_headers) {
    const std::string lower = to_lower(name);
    for (std::size_t i = 0; i < headers.size(); ++i) {
      const http::HeaderView field = headers[i];
      if (field.name == lower && !field.value.empty()) {
        user.groups.emplace_back(field.value);
      }
    }
  }
  for (const std::string& prefix : config.extra_prefixes) {
    const std::string lower = to_lower(prefix);
    for (std::size_t i = 0; i < headers.size(); ++i) {
      const http::HeaderView field = headers[i];
      if (lower.empty() || !field.name.starts_with(lower)) {
        continue;
      }
      const std::string_view escaped = field.name.substr(lower.size());
      const std::string key = to_lower(percent_decode(escaped).value_or(std::string(escaped)));
      const auto known = std::find_if(user.extra.begin(), user.extra.end(),
                                      [&](const auto& extra) { return extra.first == key; });
      if (known != user.extra.end()) {
        known->second.emplace_back(field.value);
      } else {
        user.extra.emplace_back(key, std::vector<std::string>{std::string(field.value)});
      }
    }
  }
  return user;
}

std::size_t strip_identity_headers(http::HeaderList& headers, const RequestHeaderConfig& config) {
  static const RequestHeaderConfig kDefault;
  static const std::uint32_t kDefaultLetters = first_letters(kDefault);
  const std::uint32_t letters = first_letters(config) | kDefaultLetters;
  const std::size_t stripped = headers.remove_if([&](const http::HeaderView& field) {
    return (letter(field.name) & letters) != 0 &&
           (is_identity_header(field.name, config) || is_identity_header(field.name, kDefault));
  });

  std::vector<std::string_view> nominating;  // stay where they are while fields are removed
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (const http::HeaderView field = headers[i]; field.name == "connection") {
      nominating.push_back(field.value);
    }
  }
  headers.remove_if([&](const http::HeaderView& field) {
    if (field.name == "te") {
      return !equals_ignore_case(trim(field.value), "trailers");
    }
    return is_of_connection(field.name) ||
           std::any_of(nominating.begin(), nominating.end(), [&](std::string_view list) {
             return http::list_contains(list, field.name);
           });
  });
  return stripped;
}

Expected<void> stamp_identity(http::HeaderList& headers, const UserInfo& user,
                              const RequestHeaderConfig& config) {
  const auto add = [&](std::string_view name, std::string_view value) {
    if (!is_header_value(value)) {
      return false;
    }
    headers.add(name, value);
    return true;
  };
  bool good = true;
  if (!config.user_headers.empty()) {
    good = add(config.user_headers.front(), user.name) && good;
  }
  if (!config.group_headers.empty()) {
    for (const std::string& group : user.groups) {
      good = add(config.group_headers.front(), group) && good;
    }
  }
  if (!config.uid_headers.empty() && !user.uid.empty()) {
    good = add(config.uid_headers.front(), user.uid) && good;
  }
  if (!config.extra_prefixes.empty()) {
    for (const auto& [key, values] : user.extra) {
      const std::string name = config.extra_prefixes.front() + percent_encode(key);
      for (const std::string& value : values) {
        good = add(name, value) && good;
      }
    }
  }
  if (!good) {
    return fail(Errc::kUnauthorized, "the identity cannot be passed on in headers");
  }
  return {};
}

std::vector<std::string> filter_groups(const std::vector<std::string>& groups,
                                       const std::vector<std::string>& pass,
                                       const std::vector<std::string>& drop) {
  std::vector<std::string> kept;
  for (const std::string& group : groups) {
    if ((pass.empty() || in_list(group, pass)) && !in_list(group, drop)) {
      kept.push_back(group);
    }
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  return kept;
}

const std::vector<std::string>& default_drop_groups() {
  static const std::vector<std::string> kGroups = {
      "system:masters", "system:kcp:logical-cluster-admin", "system:kcp:initializer:*",
      "system:kcp:terminator:*"};
  return kGroups;
}

std::vector<std::pair<std::string, std::vector<std::string>>> filter_extra(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& extra,
    const std::vector<std::string>& allow, const std::vector<std::string>& drop_containing) {
  std::vector<std::pair<std::string, std::vector<std::string>>> kept;
  for (const auto& entry : extra) {
    const std::string& key = entry.first;
    const bool allowed = allow.empty() || std::find(allow.begin(), allow.end(), key) != allow.end();
    const bool dropped =
        std::any_of(drop_containing.begin(), drop_containing.end(),
                    [&](const std::string& part) { return key.find(part) != std::string::npos; });
    if (allowed && !dropped) {
      kept.push_back(entry);
    }
  }
  return kept;
}

}  // namespace kintsugi::auth
