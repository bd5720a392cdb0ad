#include "auth/effective_users.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::auth {
namespace {

using krm::Json;

constexpr std::string_view kClusterPrefix = "cluster:";
constexpr std::string_view kGlobalPrefix = "system:kcp:serviceaccount:";
constexpr std::string_view kClusterGroupPrefix = "system:cluster:";
constexpr std::size_t kMostUsers = 32;
constexpr int kDeepestWarrant = 4;

/// Groups that no warrant gives.
constexpr std::array<std::string_view, 4> kNeverWarranted = {
    kGroupMasters, kGroupLogicalClusterAdmin, kGroupExternalLogicalClusterAdmin,
    kGroupBootstrapper};

/// "" for other forms.
std::string_view cluster_of_scope(std::string_view part) {
  const std::string_view scope = trim(part);
  return scope.starts_with(kClusterPrefix) ? scope.substr(kClusterPrefix.size())
                                           : std::string_view();
}

bool names(const std::string& value, std::string_view cluster) {
  const std::vector<std::string_view> parts = split(value, ',');
  return !cluster.empty() && std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return cluster_of_scope(part) == cluster;
  });
}

bool all_name(const std::vector<std::string>& values, std::string_view cluster) {
  return std::all_of(values.begin(), values.end(),
                     [&](const std::string& value) { return names(value, cluster); });
}

/// system:cluster:<x> for all logical clusters that every scope names.
void add_cluster_groups(const UserInfo& user, std::vector<std::string>& groups) {
  const std::vector<std::string>* scopes = user.extra_values(kExtraScopes);
  if (scopes == nullptr || scopes->empty()) {
    return;
  }
  for (const std::string_view part : split(scopes->front(), ',')) {
    const std::string_view cluster = cluster_of_scope(part);
    if (!cluster.empty() && all_name(*scopes, cluster)) {
      groups.push_back(std::string(kClusterGroupPrefix) + std::string(cluster));
    }
  }
}

UserInfo stranger(const UserInfo& user) {
  UserInfo out = anonymous_user();
  if (user.in_group(kGroupAuthenticated)) {
    out.groups = {std::string(kGroupAuthenticated)};
    add_cluster_groups(user, out.groups);
  }
  return out;
}

/// The logical cluster of a ServiceAccount; nullopt: another user, or one without exactly one.
std::optional<std::string> home_of_account(const UserInfo& user) {
  const std::vector<std::string>* home = user.extra_values(kExtraClusterName);
  if (home == nullptr || home->size() != 1 || !parse_service_account_user(user.name)) {
    return std::nullopt;
  }
  return home->front();
}

UserInfo global_account(const UserInfo& user, const std::string& cluster) {
  const auto account = parse_service_account_user(user.name);
  UserInfo out;
  out.name = std::string(kGlobalPrefix) + cluster + ":" + account->ns + ":" + account->name;
  if (user.in_group(kGroupAuthenticated)) {
    out.groups.emplace_back(kGroupAuthenticated);
    add_cluster_groups(user, out.groups);
  }
  return out;
}

std::vector<std::string> texts_of(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list.items()) {
    out.emplace_back(item.as_string());
  }
  return out;
}

/// nullopt for what is none.
std::optional<UserInfo> read_warrant(const std::string& text) {
  const Expected<Json> warrant = Json::parse(text);
  if (!warrant || !warrant->is_object() || warrant->text({"user"}).empty()) {
    return std::nullopt;
  }
  UserInfo user;
  user.name = warrant->text({"user"});
  user.uid = warrant->text({"uid"});
  if (const Json* groups = warrant->find("groups")) {
    user.groups = texts_of(*groups);
    std::erase_if(user.groups, [](const std::string& group) {
      return std::find(kNeverWarranted.begin(), kNeverWarranted.end(), group) !=
             kNeverWarranted.end();
    });
  }
  if (const Json* extra = warrant->find("extra")) {
    for (const krm::JsonMember& member : extra->members()) {
      user.extra.emplace_back(member.key, texts_of(member.value));
    }
  }
  if (parse_service_account_user(user.name) && !home_of_account(user)) {
    return std::nullopt;
  }
  return user;
}

void collect(const UserInfo& user, std::string_view cluster, int depth,
             std::vector<UserInfo>& out) {
  if (out.size() >= kMostUsers) {
    return;
  }
  out.push_back(in_scope(user, cluster) ? user : stranger(user));
  if (const std::optional<std::string> home = home_of_account(user)) {
    out.push_back(global_account(user, *home));
  }
  const std::vector<std::string>* warrants = user.extra_values(kExtraWarrant);
  if (warrants == nullptr || depth == kDeepestWarrant) {
    return;
  }
  for (const std::string& text : *warrants) {
    if (const std::optional<UserInfo> warranted = read_warrant(text)) {
      collect(*warranted, cluster, depth + 1, out);
    }
  }
}

}  // namespace

bool in_scope(const UserInfo& user, std::string_view cluster) {
  const std::vector<std::string>* scopes = user.extra_values(kExtraScopes);
  if (scopes != nullptr && !all_name(*scopes, cluster)) {
    return false;
  }
  const std::vector<std::string>* home = user.extra_values(kExtraClusterName);
  return home == nullptr || !parse_service_account_user(user.name) ||
         (home->size() == 1 && home->front() == cluster);
}

void add_scope(UserInfo& user, std::string_view cluster) {
  std::string scope = std::string(kClusterPrefix) + std::string(cluster);
  for (auto& [key, values] : user.extra) {
    if (key == kExtraScopes) {
      values.push_back(std::move(scope));
      return;
    }
  }
  user.extra.emplace_back(kExtraScopes, std::vector<std::string>{std::move(scope)});
}

std::vector<UserInfo> effective_users(const UserInfo& user, std::string_view cluster) {
  std::vector<UserInfo> out;
  collect(user, cluster, 0, out);
  return out;
}

bool has_bounds(const UserInfo& user) noexcept {
  return std::any_of(user.extra.begin(), user.extra.end(), [](const auto& extra) {
    return extra.first == kExtraScopes || extra.first == kExtraClusterName ||
           extra.first == kExtraWarrant;
  });
}

}  // namespace kintsugi::auth
