#include "proxy/merge/initial_gate.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kintsugi::proxy {

bool InitialGate::has_place(const Scope& scope, const std::string& identity) {
  const auto mine = scope.by_identity.find(identity);
  return scope.running < kRunning &&
         (mine == scope.by_identity.end() || mine->second < kRunningOfIdentity);
}

std::unique_ptr<InitialGate::Ticket> InitialGate::enter(net::Loop& loop, const std::string& scope,
                                                        const std::string& identity,
                                                        std::function<void(Answer)> then) {
  std::unique_ptr<Ticket> ticket(new Ticket(*this, loop, scope, identity));
  Scope& place = scopes_[scope];
  if (has_place(place, identity)) {
    ++place.running;
    ++place.by_identity[identity];
    ticket->running_ = true;
    then(Answer::kGo);
    return ticket;
  }
  if (place.waiting.size() >= kWaiting) {
    then(Answer::kTurnedAway);
    return ticket;
  }
  ticket->then_ = std::move(then);
  place.waiting.push_back(ticket.get());
  ticket->patience_.start(kPatience, [this, waits = ticket.get()] {
    scopes_[waits->scope_].waiting.remove(waits);
    std::exchange(waits->then_, nullptr)(Answer::kTurnedAway);
  });
  return ticket;
}

void InitialGate::admit_soon(net::Loop& loop) {
  if (std::exchange(admits_soon_, true)) {
    return;
  }
  loop.post([this, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) {
      return;
    }
    admits_soon_ = false;
    std::vector<std::string> names;
    for (const auto& [name, scope] : scopes_) {
      names.push_back(name);
    }
    for (const std::string& name : names) {
      while (admit(name)) {
      }
    }
  });
}

/// The next one that has a place; false: nobody.
bool InitialGate::admit(const std::string& name) {
  const auto found = scopes_.find(name);
  if (found == scopes_.end()) {
    return false;
  }
  Scope& scope = found->second;
  const auto next = std::find_if(scope.waiting.begin(), scope.waiting.end(),
                                 [&](Ticket* one) { return has_place(scope, one->identity_); });
  if (next != scope.waiting.end()) {
    Ticket* ticket = *next;
    scope.waiting.erase(next);
    ++scope.running;
    ++scope.by_identity[ticket->identity_];
    ticket->running_ = true;
    ticket->patience_.cancel();
    std::exchange(ticket->then_, nullptr)(Answer::kGo);
    return true;
  }
  if (scope.running == 0 && scope.waiting.empty()) {
    scopes_.erase(found);
  }
  return false;
}

InitialGate::Ticket::~Ticket() {
  const auto found = gate_.scopes_.find(scope_);
  if (found == gate_.scopes_.end()) {
    return;
  }
  Scope& scope = found->second;
  if (!running_) {
    scope.waiting.remove(this);
    gate_.admit_soon(loop_);
    return;
  }
  --scope.running;
  if (const auto mine = scope.by_identity.find(identity_); --mine->second == 0) {
    scope.by_identity.erase(mine);
  }
  gate_.admit_soon(loop_);
}

}  // namespace kintsugi::proxy
