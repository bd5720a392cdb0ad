#include "auth/impersonation_modes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/names.h"

namespace kintsugi::auth {
namespace {

constexpr std::string_view kAuthenticationGroup = "authentication.k8s.io";
constexpr std::string_view kNodePrefix = "system:node:";
constexpr std::string_view kNodesGroup = "system:nodes";
constexpr std::string_view kNodeNameExtra = "authentication.kubernetes.io/node-name";
constexpr std::string_view kNodeKeysExtra = "authentication.kubernetes.io/associated-node-keys";
/// From so many on one right to all is looked for first.
constexpr std::size_t kMany = 4;

/// By ModeName.
constexpr std::array<std::string_view, 4> kConstrained = {"associated-node", "arbitrary-node",
                                                          "serviceaccount", "user-info"};

std::string_view node_of(std::string_view user) {
  if (!user.starts_with(kNodePrefix)) {
    return {};
  }
  user.remove_prefix(kNodePrefix.size());
  return krm::check_dns1123_subdomain(user).empty() ? user : std::string_view();
}

bool is_service_account(std::string_view user) {
  return parse_service_account_user(user).has_value();
}

bool only_name(const UserInfo& user) {
  return user.uid.empty() && user.groups.empty() && user.extra.empty();
}

bool runs_on(const UserInfo& requester, std::string_view node) {
  const std::vector<std::string>* values = requester.extra_values(kNodeNameExtra);
  return is_service_account(requester.name) && values != nullptr && values->size() == 1 &&
         values->front() == node;
}

bool applies(ModeName mode, const UserInfo& wanted, const UserInfo& requester) {
  const std::string_view node = node_of(wanted.name);
  switch (mode) {
    case ModeName::kAssociatedNode:
      return only_name(wanted) && !node.empty() && runs_on(requester, node);
    case ModeName::kArbitraryNode:
      return only_name(wanted) && !node.empty();
    case ModeName::kServiceAccount:
      return only_name(wanted) && is_service_account(wanted.name);
    case ModeName::kUserInfo:
      return node.empty() && !is_service_account(wanted.name);
    case ModeName::kClassic:
      return true;
  }
  return false;
}

/// The requester as associated-node rights see it: the node is checked, and its pod does not
/// matter. Where an identity holds still does.
UserInfo without_pod(const UserInfo& requester) {
  UserInfo out = requester;
  std::vector<std::string> keys;
  for (const auto& [key, values] : requester.extra) {
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  std::erase_if(out.extra, [](const auto& extra) {
    const std::string_view domain = std::string_view(extra.first).substr(0, extra.first.find('/'));
    return !domain.ends_with(".kcp.io");
  });
  out.extra.emplace_back(kNodeKeysExtra, std::move(keys));
  return out;
}

/// Steps of one mode.
class Steps {
 public:
  Steps(Mode& mode, Attributes base) : mode_(mode), base_(std::move(base)) {
    constrained_ = !mode.constraint.empty();
    base_.verb = constrained_ ? mode.constraint : "impersonate";
    base_.version = "v1";
  }

  /// Users, groups and accounts are of the core group in the classic mode.
  [[nodiscard]] Attributes ask(std::string_view resource, std::string_view name,
                               bool core = false) const {
    Attributes out = base_;
    out.group = core && !constrained_ ? "" : kAuthenticationGroup;
    out.resource = resource;
    out.name = name;
    return out;
  }

  void add_name(const UserInfo& wanted) {
    Attributes check = ask("users", wanted.name, true);
    const std::string_view node = node_of(wanted.name);
    if (constrained_ && !node.empty()) {
      check.resource = "nodes";
      check.name = mode_.name == ModeName::kAssociatedNode ? "*" : node;
      mode_.user.groups = {std::string(kNodesGroup)};
    }
    if (const auto account = parse_service_account_user(wanted.name)) {
      check.resource = "serviceaccounts";
      check.ns = account->ns;
      check.name = account->name;
      if (wanted.groups.empty()) {
        mode_.user.groups = service_account_groups(account->ns);
      }
    }
    add(std::move(check));
  }

  void add_uid(const std::string& uid) {
    if (!uid.empty()) {
      add(ask("uids", uid));
    }
  }

  void add_groups(const std::vector<std::string>& groups) {
    if (constrained_) {
      const auto has = [&](std::string_view group) {
        return std::find(groups.begin(), groups.end(), group) != groups.end();
      };
      if (has("")) {
        refuse(ask("groups", "", true), "impersonating the empty string group is not allowed");
      }
      if (has(kGroupMasters)) {
        refuse(ask("groups", kGroupMasters, true),
               "impersonating the system:masters group is not allowed");
      }
      if (groups.size() >= kMany) {
        mode_.steps.push_back({ask("groups", "*", true), groups.size()});
      }
    }
    for (const std::string& group : groups) {
      add(ask("groups", group, true));
    }
  }

  void add_extras(const UserInfo& wanted) {
    std::size_t values = 0;
    for (const auto& extra : wanted.extra) {
      values += extra.second.size();
    }
    if (constrained_) {
      for (const auto& extra : wanted.extra) {
        if (std::string fault = fault_of(extra); !fault.empty()) {
          refuse(ask("userextras", ""), std::move(fault));
          break;
        }
      }
      if (values >= kMany) {
        Attributes all = ask("userextras", "*");
        all.subresource = "*";
        mode_.steps.push_back({std::move(all), values});
      }
    }
    for (const auto& [key, values_of_key] : wanted.extra) {
      for (const std::string& value : values_of_key) {
        Attributes check = ask("userextras", value);
        check.subresource = key;
        add(std::move(check));
      }
    }
  }

 private:
  using Extra = decltype(UserInfo::extra)::value_type;

  static std::string fault_of(const Extra& extra) {
    const auto& [key, values] = extra;
    if (key.empty()) {
      return "impersonating the empty string key in extra is not allowed";
    }
    if (std::string fault = path_fault(key); !fault.empty()) {
      return "impersonating an invalid key in extra is not allowed: " + fault;
    }
    if (key != to_lower(key)) {
      return "impersonating a non-lowercase key in extra is not allowed: " + krm::go_quote(key);
    }
    return std::find(values.begin(), values.end(), "") == values.end()
               ? std::string()
               : "impersonating the empty string value in extra is not allowed";
  }

  /// IsDomainPrefixedPath of the apimachinery.
  static std::string path_fault(std::string_view key) {
    const auto invalid = [](std::string_view value, std::string_view why) {
      return "extra.key: Invalid value: " + krm::go_quote(value) + ": " + std::string(why);
    };
    const std::size_t slash = key.find('/');
    if (slash == std::string_view::npos || slash == 0 || slash + 1 == key.size()) {
      return invalid(key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    std::vector<std::string> faults;
    for (const std::string& message : krm::check_dns1123_subdomain(key.substr(0, slash))) {
      faults.push_back(invalid(key.substr(0, slash), message));
    }
    const std::string_view path = key.substr(slash + 1);
    const bool fine = std::all_of(path.begin(), path.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("/-._~%!$&'()*+,;=:").find(c) != std::string_view::npos;
    });
    if (!fine) {
      faults.push_back(invalid(path,
                               "Invalid path (regex used for validation is "
                               "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"));
    }
    if (faults.empty()) {
      return {};
    }
    return faults.size() == 1 ? faults.front() : "[" + join(faults, ", ") + "]";
  }

  void add(Attributes attributes) { mode_.steps.push_back({std::move(attributes)}); }
  void refuse(Attributes attributes, std::string why) {
    mode_.steps.push_back({std::move(attributes), 0, std::move(why)});
  }

  Mode& mode_;
  Attributes base_;
  bool constrained_;
};

Mode mode_of(ModeName name, const UserInfo& wanted, const Attributes& request) {
  Mode mode{name, wanted, {}, {}};
  Attributes base;
  base.user = name == ModeName::kAssociatedNode ? without_pod(request.user) : request.user;
  base.cluster = request.cluster;
  if (name != ModeName::kClassic) {
    const std::string_view text = kConstrained[static_cast<std::size_t>(name)];
    mode.constraint = "impersonate:" + std::string(text);
    Attributes on = request;
    on.user = base.user;
    on.verb = "impersonate-on:" + std::string(text) + ":" + request.verb;
    mode.steps.push_back({std::move(on)});
  }
  Steps steps(mode, std::move(base));
  steps.add_name(wanted);
  steps.add_uid(wanted.uid);
  steps.add_groups(wanted.groups);
  steps.add_extras(wanted);
  if (mode.user.name == kAnonymous) {
    if (!mode.user.in_group(kGroupUnauthenticated)) {
      mode.user.groups.emplace_back(kGroupUnauthenticated);
    }
  } else {
    add_authenticated_group(mode.user);
  }
  return mode;
}

}  // namespace

std::vector<Mode> impersonation_modes(const UserInfo& wanted, const Attributes& request) {
  std::vector<Mode> modes;
  for (const ModeName name : {ModeName::kAssociatedNode, ModeName::kArbitraryNode,
                              ModeName::kServiceAccount, ModeName::kUserInfo, ModeName::kClassic}) {
    if (applies(name, wanted, request.user)) {
      modes.push_back(mode_of(name, wanted, request));
    }
  }
  return modes;
}

std::optional<ModeName> ModeMemory::get(std::string_view user) {
  const auto place = places_.find(std::hash<std::string_view>()(user));
  if (place == places_.end()) {
    return std::nullopt;
  }
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->mode;
}

void ModeMemory::set(std::string_view user, ModeName mode) {
  const std::size_t key = std::hash<std::string_view>()(user);
  if (const auto place = places_.find(key); place != places_.end()) {
    place->second->mode = mode;
    entries_.splice(entries_.begin(), entries_, place->second);
    return;
  }
  if (entries_.size() >= users_) {
    places_.erase(entries_.back().user);
    entries_.pop_back();
  }
  entries_.push_front({key, mode});
  places_.emplace(key, entries_.begin());
}

}  // namespace kintsugi::auth
