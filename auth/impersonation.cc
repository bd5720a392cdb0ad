#include "auth/impersonation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "auth/impersonation_modes.h"
#include "base/strings.h"
#include "krm/go_text.h"

namespace kintsugi::auth {
namespace {

constexpr std::string_view kExtraPrefix = "impersonate-extra-";

constexpr std::array<std::string_view, 6> kSpecialGroups = {
    "system:masters",
    "system:kcp:admin",
    "system:kcp:logical-cluster-admin",
    "system:kcp:external-logical-cluster-admin",
    "system:kcp:tenancy:workspace-bootstrapper",
    "system:authenticated"};

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

/// The modes one after the other, each until something is denied.
struct Walk {
  std::vector<Mode> modes;
  std::string requester;
  Authorizer* authorizer = nullptr;
  std::shared_ptr<ModeMemory> memory;
  Impersonator::Done done;

  std::size_t mode = 0, step = 0;
  std::optional<Error> first;  // what is said if all of them are denied
  bool asking = false;
  std::optional<Expected<Decision>> answer;
};

void deny(Walk& walk, const Decision& decision) {
  const Mode& mode = walk.modes[walk.mode];
  const ModeStep& step = mode.steps[walk.step];
  if (step.spares > 0) {
    ++walk.step;
    return;
  }
  if (!walk.first) {
    walk.first = denied(step.attributes, decision);
  }
  ++walk.mode;
  walk.step = 0;
}

/// @return whether the walk goes on.
bool take_answer(Walk& walk) {
  Expected<Decision> decision = std::move(*walk.answer);
  walk.answer.reset();
  if (!decision) {
    walk.done(fail(std::move(decision.error())));
    return false;
  }
  if (decision->allowed) {
    walk.step += 1 + walk.modes[walk.mode].steps[walk.step].spares;
  } else {
    deny(walk, *decision);
  }
  return true;
}

void go_on(const std::shared_ptr<Walk>& walk) {
  while (!walk->answer || take_answer(*walk)) {
    if (walk->mode == walk->modes.size()) {
      walk->done(fail(std::move(*walk->first)));
      return;
    }
    Mode& mode = walk->modes[walk->mode];
    if (walk->step >= mode.steps.size()) {
      walk->memory->set(walk->requester, mode.name);
      walk->done(Impersonator::Effective{std::move(mode.user), std::move(mode.constraint)});
      return;
    }
    const ModeStep& step = mode.steps[walk->step];
    if (step.fault) {
      deny(*walk, Decision{false, *step.fault});
      continue;
    }
    walk->asking = true;
    walk->authorizer->authorize(step.attributes, [walk](Expected<Decision> decision) {
      walk->answer.emplace(std::move(decision));
      if (!walk->asking) {
        go_on(walk);
      }
    });
    walk->asking = false;
    if (!walk->answer) {
      return;
    }
  }
}

}  // namespace

bool has_impersonation(const http::HeaderList& headers) noexcept {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (headers[i].name.starts_with("impersonate-")) {
      return true;
    }
  }
  return false;
}

Expected<std::optional<UserInfo>> read_impersonation(const http::HeaderList& headers,
                                                     const UserInfo& requester) {
  UserInfo wanted;
  wanted.name = headers.get("impersonate-user");
  wanted.uid = headers.get("impersonate-uid");
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const http::HeaderView field = headers[i];
    if (field.name == "impersonate-group") {
      wanted.groups.emplace_back(field.value);
    } else if (field.name.starts_with(kExtraPrefix)) {
      add_extra(wanted, field.name.substr(kExtraPrefix.size()), field.value);
    }
  }
  if (wanted.name.empty()) {
    if (wanted == UserInfo()) {
      return std::nullopt;
    }
    return fail(Errc::kBadRequest,
                "requested " + go_text_of(wanted) + " without impersonating a user name");
  }
  for (const std::string& group : wanted.groups) {
    const bool special =
        std::find(kSpecialGroups.begin(), kSpecialGroups.end(), group) != kSpecialGroups.end();
    if (special && !requester.in_group(group) && !requester.in_group(kGroupMasters)) {
      return fail(Errc::kForbidden, "forbidden: impersonation is not allowed for the requestor");
    }
  }
  return std::optional<UserInfo>(std::move(wanted));
}

Impersonator::Impersonator(Authorizer& authorizer)
    : authorizer_(authorizer), memory_(std::make_shared<ModeMemory>()) {}
Impersonator::~Impersonator() = default;

void Impersonator::impersonate(const http::HeaderList& headers, Attributes request, Done done) {
  Expected<std::optional<UserInfo>> wanted = read_impersonation(headers, request.user);
  if (!wanted) {
    done(fail(std::move(wanted.error())));
    return;
  }
  if (!*wanted) {
    done(Effective{std::move(request.user), {}});
    return;
  }
  auto walk = std::make_shared<Walk>();
  walk->modes = impersonation_modes(**wanted, request);
  walk->requester = request.user.name;
  walk->authorizer = &authorizer_;
  walk->memory = memory_;
  walk->done = std::move(done);
  if (const std::optional<ModeName> last = memory_->get(walk->requester)) {
    const auto place = std::find_if(walk->modes.begin(), walk->modes.end(),
                                    [&](const Mode& mode) { return mode.name == *last; });
    if (place != walk->modes.end()) {
      std::rotate(walk->modes.begin(), place, place + 1);
    }
  }
  go_on(walk);
}

}  // namespace kintsugi::auth
