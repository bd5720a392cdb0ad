#include "auth/impersonation.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/strings.h"

namespace kintsugi::auth {
namespace {

constexpr std::string_view kExtraPrefix = "impersonate-extra-";
constexpr std::string_view kAuthenticationGroup = "authentication.k8s.io";

constexpr std::array<std::string_view, 6> kSpecialGroups = {
    "system:masters",
    "system:kcp:admin",
    "system:kcp:logical-cluster-admin",
    "system:kcp:external-logical-cluster-admin",
    "system:kcp:tenancy:workspace-bootstrapper",
    "system:authenticated"};

Attributes check_of(const UserInfo& requester, std::string_view cluster) {
  Attributes attributes;
  attributes.user = requester;
  attributes.cluster = cluster;
  attributes.verb = "impersonate";
  attributes.version = "v1";
  return attributes;
}

void complete_groups(UserInfo& user) {
  if (user.name == kAnonymous) {
    if (!user.in_group(kGroupUnauthenticated)) {
      user.groups.emplace_back(kGroupUnauthenticated);
    }
    return;
  }
  add_authenticated_group(user);
}

struct Walk {
  Impersonation wanted;
  Authorizer* authorizer = nullptr;
  std::function<void(Expected<UserInfo>)> done;
};

void ask_next(std::shared_ptr<Walk> walk, std::size_t index) {
  if (index == walk->wanted.checks.size()) {
    walk->done(std::move(walk->wanted.user));
    return;
  }
  walk->authorizer->authorize(walk->wanted.checks[index],
                              [walk, index](Expected<Decision> decision) {
                                if (!decision) {
                                  walk->done(fail(std::move(decision.error())));
                                } else if (!decision->allowed) {
                                  walk->done(fail(denied(walk->wanted.checks[index], *decision)));
                                } else {
                                  ask_next(walk, index + 1);
                                }
                              });
}

}  // namespace

Expected<std::optional<Impersonation>> parse_impersonation(const http::HeaderList& headers,
                                                           const UserInfo& requester,
                                                           std::string_view cluster) {
  Impersonation result;
  const std::string user_name(headers.get("impersonate-user"));
  const std::string uid(headers.get("impersonate-uid"));
  std::vector<std::string> groups;
  bool extras = false;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const http::HeaderView field = headers[i];
    if (field.name == "impersonate-group") {
      groups.emplace_back(field.value);
    }
    extras = extras || field.name.starts_with(kExtraPrefix);
  }
  if (user_name.empty()) {
    if (groups.empty() && uid.empty() && !extras) {
      return std::nullopt;
    }
    const char* what = !groups.empty() ? "groups" : !uid.empty() ? "a uid" : "extras";
    return fail(Errc::kBadRequest,
                std::string("requested ") + what + " without impersonating a user");
  }

  result.user.name = user_name;
  Attributes user_check = check_of(requester, cluster);
  const std::optional<ServiceAccountName> account = parse_service_account_user(user_name);
  if (account) {
    user_check.resource = "serviceaccounts";
    user_check.ns = account->ns;
    user_check.name = account->name;
  } else {
    user_check.resource = "users";
    user_check.name = user_name;
  }
  result.checks.push_back(std::move(user_check));

  for (const std::string& group : groups) {
    const bool special =
        std::find(kSpecialGroups.begin(), kSpecialGroups.end(), group) != kSpecialGroups.end();
    if (special && !requester.in_group(group) && !requester.in_group(kGroupMasters)) {
      return fail(Errc::kForbidden, "forbidden: impersonation is not allowed for the requestor");
    }
    Attributes check = check_of(requester, cluster);
    check.resource = "groups";
    check.name = group;
    result.checks.push_back(std::move(check));
    result.user.groups.push_back(group);
  }
  if (groups.empty() && account) {
    result.user.groups = service_account_groups(account->ns);
  }

  for (std::size_t i = 0; i < headers.size(); ++i) {
    const http::HeaderView field = headers[i];
    if (!field.name.starts_with(kExtraPrefix)) {
      continue;
    }
    const std::string_view escaped = field.name.substr(kExtraPrefix.size());
    const std::string key = to_lower(percent_decode(escaped).value_or(std::string(escaped)));
    Attributes check = check_of(requester, cluster);
    check.group = kAuthenticationGroup;
    check.resource = "userextras";
    check.subresource = key;
    check.name = field.value;
    result.checks.push_back(std::move(check));
    const auto known = std::find_if(result.user.extra.begin(), result.user.extra.end(),
                                    [&](const auto& extra) { return extra.first == key; });
    if (known != result.user.extra.end()) {
      known->second.emplace_back(field.value);
    } else {
      result.user.extra.emplace_back(key, std::vector<std::string>{std::string(field.value)});
    }
  }
  if (!uid.empty()) {
    Attributes check = check_of(requester, cluster);
    check.group = kAuthenticationGroup;
    check.resource = "uids";
    check.name = uid;
    result.checks.push_back(std::move(check));
    result.user.uid = uid;
  }
  complete_groups(result.user);
  return std::optional<Impersonation>(std::move(result));
}

void impersonate(const http::HeaderList& headers, const UserInfo& requester,
                 std::string_view cluster, Authorizer& authorizer,
                 std::function<void(Expected<UserInfo>)> done) {
  Expected<std::optional<Impersonation>> parsed = parse_impersonation(headers, requester, cluster);
  if (!parsed) {
    done(fail(std::move(parsed.error())));
    return;
  }
  if (!parsed->has_value()) {
    done(requester);
    return;
  }
  auto walk = std::make_shared<Walk>();
  walk->wanted = std::move(**parsed);
  walk->authorizer = &authorizer;
  walk->done = std::move(done);
  ask_next(std::move(walk), 0);
}

}  // namespace kintsugi::auth
