#include "auth/impersonation.h"

#include <algorithm>
#include <utility>

#include "auth/effective_users.h"
#include "auth/impersonation_gate.h"
#include "auth/impersonation_modes.h"

namespace kintsugi::auth {
namespace {

/// The modes one after the other, each until something is denied.
struct Walk {
  std::vector<Mode> modes;
  std::string requester;
  std::optional<std::string> scope;  // the only logical cluster where he is that user
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
      if (walk->scope) {
        add_scope(mode.user, *walk->scope);
      }
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
    if (is_impersonation_header(headers[i].name)) {
      return true;
    }
  }
  return false;
}

Expected<std::optional<UserInfo>> read_impersonation(const http::HeaderList& headers,
                                                     const UserInfo& requester) {
  return admit_impersonation(headers, &requester, ImpersonationPlace::kCluster);
}

Impersonator::Impersonator(Authorizer& authorizer)
    : authorizer_(authorizer), memory_(std::make_shared<ModeMemory>()) {}
Impersonator::~Impersonator() = default;

void Impersonator::impersonate(const http::HeaderList& headers, Attributes request, Done done) {
  const ImpersonationPlace place =
      request.cluster == "*" ? ImpersonationPlace::kShared : ImpersonationPlace::kCluster;
  Expected<std::optional<UserInfo>> wanted = admit_impersonation(headers, &request.user, place);
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
  if (!request.user.in_group(kGroupMasters)) {
    walk->scope = request.cluster;
  }
  walk->authorizer = &authorizer_;
  walk->memory = memory_;
  walk->done = std::move(done);
  if (const std::optional<ModeName> last = memory_->get(walk->requester)) {
    const auto known = std::find_if(walk->modes.begin(), walk->modes.end(),
                                    [&](const Mode& mode) { return mode.name == *last; });
    if (known != walk->modes.end()) {
      std::rotate(walk->modes.begin(), known, known + 1);
    }
  }
  go_on(walk);
}

}  // namespace kintsugi::auth
