#include "auth/impersonation_gate.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "auth/effective_users.h"
#include "base/strings.h"
#include "krm/go_text.h"

namespace kintsugi::auth {
namespace {

constexpr std::string_view kPrefix = "impersonate-";
constexpr std::string_view kExtraPrefix = "impersonate-extra-";

/// Those who are in it may name it.
constexpr std::array<std::string_view, 2> kForMembers = {kGroupKcpAdmin, kGroupAuthenticated};
/// Entries are exact or `prefix*`.
constexpr std::array<std::string_view, 6> kNobodysGroups = {kGroupMasters,      "system:kcp:*",
                                                            "system:cluster:*", "system:kintsugi:*",
                                                            "apis.kcp.io:*",    "system:nodes"};
constexpr std::array<std::string_view, 5> kNobodysUsers = {
    "system:kcp:*", "system:kintsugi:*", "apis.kcp.io:*", "system:apiserver", "system:admin"};

template <std::size_t N>
bool in_table(std::string_view text, const std::array<std::string_view, N>& table) noexcept {
  return std::any_of(table.begin(), table.end(), [&](std::string_view entry) {
    return entry.ends_with('*') ? text.starts_with(entry.substr(0, entry.size() - 1))
                                : text == entry;
  });
}

constexpr char folded(char c) noexcept {
  return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string folded(std::string_view name) {
  std::string out(name);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return folded(c); });
  return out;
}

/// As %#v prints a user.
std::string go_text_of(const UserInfo& user) {
  std::string out =
      "&user.DefaultInfo{Name:" + krm::go_quote(user.name) + ", UID:" + krm::go_quote(user.uid) +
      ", Groups:" + (user.groups.empty() ? "[]string(nil)" : krm::go_string_slice(user.groups)) +
      ", Extra:map[string][]string";
  if (user.extra.empty()) {
    return out + "(nil)}";
  }
  auto extras = user.extra;
  std::sort(extras.begin(), extras.end());
  std::string_view comma = "{";
  for (const auto& [key, values] : extras) {
    out += std::string(comma) + krm::go_quote(key) + ":" + krm::go_string_slice(values);
    comma = ", ";
  }
  return out + "}}";
}

void add_extra(UserInfo& user, std::string_view escaped, std::string_view value) {
  const std::string lower = to_lower(escaped);
  std::string key = percent_decode(lower).value_or(lower);
  const auto known = std::find_if(user.extra.begin(), user.extra.end(),
                                  [&](const auto& extra) { return extra.first == key; });
  if (known != user.extra.end()) {
    known->second.emplace_back(value);
  } else {
    user.extra.emplace_back(std::move(key), std::vector<std::string>{std::string(value)});
  }
}

struct Wanted {
  UserInfo user;
  std::size_t users = 0, uids = 0, values = 0, bytes = 0;
};

Wanted read(const http::HeaderList& headers) {
  Wanted wanted;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const http::HeaderView field = headers[i];
    if (!is_impersonation_header(field.name)) {
      continue;
    }
    ++wanted.values;
    wanted.bytes += field.name.size() + field.value.size();
    const std::string name = folded(field.name);
    if (name == "impersonate-user") {
      wanted.user.name = wanted.users++ == 0 ? std::string(field.value) : wanted.user.name;
    } else if (name == "impersonate-uid") {
      wanted.user.uid = wanted.uids++ == 0 ? std::string(field.value) : wanted.user.uid;
    } else if (name == "impersonate-group") {
      wanted.user.groups.emplace_back(field.value);
    } else if (name.starts_with(kExtraPrefix)) {
      // The key as it was sent: in it `_` is a letter like others.
      add_extra(wanted.user, field.name.substr(kExtraPrefix.size()), field.value);
    }
  }
  return wanted;
}

bool is_kcp_domain(std::string_view key) {
  const std::string lower = to_lower(key);
  const std::string_view domain = std::string_view(lower).substr(0, lower.find('/'));
  return domain == "kcp.io" || domain.ends_with(".kcp.io");
}

bool may_name(const UserInfo& wanted, const UserInfo* requester) {
  const auto group_fits = [&](const std::string& group) {
    if (in_table(group, kForMembers)) {
      return requester == nullptr || requester->in_group(group);
    }
    return !in_table(group, kNobodysGroups);
  };
  const auto extra_fits = [](const auto& extra) {
    return extra.first == kExtraScopes || !is_kcp_domain(folded(extra.first));
  };
  return !in_table(wanted.name, kNobodysUsers) &&
         std::all_of(wanted.groups.begin(), wanted.groups.end(), group_fits) &&
         std::all_of(wanted.extra.begin(), wanted.extra.end(), extra_fits);
}

Error bad_request(std::string text) { return Error(Errc::kBadRequest, std::move(text)); }

}  // namespace

bool is_impersonation_header(std::string_view name) noexcept {
  return name.size() >= kPrefix.size() && std::equal(kPrefix.begin(), kPrefix.end(), name.begin(),
                                                     [](char a, char b) { return a == folded(b); });
}

void spell_impersonation(http::HeaderList& headers) {
  http::HeaderList out;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const http::HeaderView field = headers[i];
    if (!is_impersonation_header(field.name)) {
      out.add(field.name, field.value);
      continue;
    }
    std::string name = folded(field.name);
    if (name.starts_with(kExtraPrefix)) {  // the key stays as it was sent
      name.replace(kExtraPrefix.size(), std::string::npos, field.name.substr(kExtraPrefix.size()));
    }
    out.add(name, field.value);
  }
  headers = std::move(out);
}

Expected<std::optional<UserInfo>> admit_impersonation(const http::HeaderList& headers,
                                                      const UserInfo* requester,
                                                      ImpersonationPlace place) {
  Wanted wanted = read(headers);
  if (wanted.values == 0) {
    return std::nullopt;
  }
  if (wanted.values > kMostImpersonationValues || wanted.bytes > kMostImpersonationBytes) {
    return fail(bad_request("impersonation takes at most 64 values of 64 KiB"));
  }
  if (wanted.users > 1 || wanted.uids > 1) {
    return fail(bad_request("impersonation takes one user and one uid"));
  }
  const bool unlimited = requester != nullptr && requester->in_group(kGroupMasters);
  if (!unlimited && (place == ImpersonationPlace::kShared || !may_name(wanted.user, requester))) {
    return fail(Errc::kForbidden, "forbidden: impersonation is not allowed for the requestor");
  }
  if (wanted.user == UserInfo()) {
    return std::nullopt;  // headers that mean nothing
  }
  if (wanted.user.name.empty()) {
    return fail(
        bad_request("requested " + go_text_of(wanted.user) + " without impersonating a user name"));
  }
  return std::optional<UserInfo>(std::move(wanted.user));
}

}  // namespace kintsugi::auth
