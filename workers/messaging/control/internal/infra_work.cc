#include "workers/messaging/control/internal/infra_work.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kintsugi::workers {

namespace {

constexpr ObjectId kReachedAtOnce = 1024;
constexpr std::size_t kMostUrgent = 64;

/// Nothing is amiss, and another change will come.
bool is_under_way(const ObjectProgress& progress) {
  return progress.error.empty() && progress.link_error.empty() &&
         (!progress.settled() || progress.active < progress.links);
}

}  // namespace

InfraWork::InfraWork(net::Loop& loop, Params params, Callbacks callbacks)
    : loop_(loop),
      params_(std::move(params)),
      callbacks_(std::move(callbacks)),
      numbers_(params_.seed) {}

InfraWork::~InfraWork() = default;

InfraComponent* InfraWork::find(ComponentKind kind, std::string_view host) const noexcept {
  const auto at = std::find_if(components_.begin(), components_.end(), [&](const auto& one) {
    return one->kind == kind && one->where.host == host;
  });
  return at == components_.end() ? nullptr : at->get();
}

void InfraWork::set_components(std::span<const ComponentEndpoint> routers,
                               std::span<const ComponentEndpoint> brokers) {
  const auto wanted = [&](const InfraComponent& one) {
    const auto& list = one.kind == ComponentKind::kRouter ? routers : brokers;
    return std::any_of(list.begin(), list.end(), [&](const ComponentEndpoint& other) {
      return other.host == one.where.host && other.address == one.where.address &&
             other.port == one.where.port;
    });
  };
  std::erase_if(reaching_.at, [&](const InfraComponent* one) { return !wanted(*one); });
  const bool fewer = std::erase_if(components_, [&](const auto& one) { return !wanted(*one); }) > 0;
  const std::size_t before = components_.size();
  for (const ComponentEndpoint& where : routers) {
    add(ComponentKind::kRouter, where);
  }
  for (const ComponentEndpoint& where : brokers) {
    add(ComponentKind::kBroker, where);
  }
  if (fewer || components_.size() != before) {
    tell_twins();
    look_for_orphans();
    reach_those_at({}, true);
  }
}

void InfraWork::follow_identity(InfraComponent& broker) {
  const bool identified = !broker.pipeline->is_unidentified();
  if (broker.identified == identified && broker.node == broker.pipeline->broker().node) {
    return;
  }
  broker.identified = identified;
  broker.node = broker.pipeline->broker().node;
  tell_twins();
  look_for_orphans();
}

void InfraWork::tell_twins() {
  std::map<std::string, std::vector<InfraComponent*>, std::less<>> by_node;
  for (const auto& one : components_) {
    if (one->kind == ComponentKind::kBroker) {
      by_node[one->node].push_back(one.get());
    }
  }
  std::vector<InfraComponent*> changed;
  for (const auto& [node, same] : by_node) {
    for (InfraComponent* const one : same) {
      std::string others;
      for (const InfraComponent* const other : same) {
        if (other != one && !node.empty()) {
          others.append(others.empty() ? "" : ", ").append(other->where.host);
        }
      }
      std::string text = others.empty() ? std::string()
                                        : "it is broker " + others + ", too, by its node id " +
                                              node + ": nothing is sent to it by either name";
      if (one->pipeline->set_twin(std::move(text), loop_.now())) {
        changed.push_back(one);
      }
    }
  }
  for (InfraComponent* const one : changed) {
    one->driver->wake();
  }
}

bool InfraWork::has_unclear_broker() const {
  return std::any_of(components_.begin(), components_.end(), [](const auto& one) {
    return one->kind == ComponentKind::kBroker && !one->identified;
  });
}

void InfraWork::look_for_orphans() {
  if (!complete_ || has_unclear_broker()) {
    return;
  }
  for (const auto& one : components_) {
    if (one->kind == ComponentKind::kBroker) {
      one->pipeline->complete(loop_.now());
      one->driver->wake();
    }
  }
}

void InfraWork::add(ComponentKind kind, const ComponentEndpoint& where) {
  if (find(kind, where.host) != nullptr) {
    return;
  }
  auto component = std::make_unique<InfraComponent>();
  InfraComponent* const self = component.get();
  self->kind = kind;
  self->where = where;
  ComponentPipeline::Params pipeline = params_.pipeline;
  pipeline.kind = kind;
  const std::uint64_t pipeline_seed = params_.seed + std::hash<std::string>{}(where.host);
  pipeline.seed = pipeline_seed;
  ComponentPipeline::Callbacks calls;
  calls.render = [this, self](ObjectId object) {
    return callbacks_.render(this->object(object), *self);
  };
  calls.changed = [this, self](ObjectId object) {
    if (object == turn_of_) {
      return;
    }
    const bool busy = self->pipeline->is_connected() && callbacks_.busy();
    const bool urgent = urgent_[object];
    if (busy) {
      const ObjectProgress progress = self->pipeline->progress(object);
      if (is_under_way(progress) && !(urgent && progress.settled())) {
        return;
      }
    }
    callbacks_.changed(this->object(object), busy && !urgent ? Priority::kRetry : Priority::kLive);
  };
  calls.repaired = [this, self](const DriftRepair& repair) {
    const bool known = numbers_.is_used(repair.object);
    const ObjectRefKey of = known ? this->object(repair.object) : ObjectRefKey();
    callbacks_.repaired(known ? &of : nullptr, *self, repair);
  };
  calls.facts = [this, self] {
    const ComponentPipeline* const at = self->pipeline.get();
    self->configured =
        at != nullptr && at->is_connected() && (self->configured || at->synchronized());
    const bool synchronized = at != nullptr && at->is_connected() && at->synchronized();
    if (synchronized && !std::exchange(self->was_synchronized, synchronized)) {
      self->last_sync = unix_seconds();
    }
    self->was_synchronized = synchronized;
    if (self->kind == ComponentKind::kBroker && at != nullptr) {
      follow_identity(*self);
    }
    callbacks_.facts();
  };
  calls.ours = callbacks_.ours;
  calls.shared = [this, self] {
    return self->kind == ComponentKind::kBroker ? has_unclear_broker() : callbacks_.shared(*self);
  };
  self->pipeline = std::make_unique<ComponentPipeline>(std::move(pipeline), std::move(calls));
  ComponentLink::Params link = params_.link;
  link.host = where.host;
  link.address = where.address;
  link.port = static_cast<std::uint16_t>(where.port > 0 ? where.port : 5672);
  if (where.plain) {
    link.tls.reset();
    link.session.sasl = ManagementSession::Sasl::kAnonymous;
  }
  link.session.kind = kind;
  link.session.hostname = where.host;
  link.seed = pipeline_seed;
  self->driver = std::make_unique<ComponentDriver>(loop_, *self->pipeline, std::move(link),
                                                   callbacks_.may_act);
  if (complete_) {
    self->pipeline->complete(loop_.now());
  }
  components_.push_back(std::move(component));
}

void InfraWork::set_complete() {
  if (!std::exchange(complete_, true)) {
    for (const auto& one : components_) {
      one->pipeline->complete(loop_.now());
      one->driver->wake();
    }
  }
}

ObjectId InfraWork::number(const ObjectRefKey& object) {
  const ObjectId number = numbers_.ensure(object);
  if (number >= seen_.size()) {
    seen_.resize(std::size_t{number} + 1);
    urgent_.resize(seen_.size());
  }
  return number;
}

std::optional<ObjectId> InfraWork::known(const ObjectRefKey& object) const {
  return numbers_.find(object);
}

void InfraWork::want(const ObjectRefKey& object, InfraComponent& component,
                     std::span<const DesiredEntity> entities, bool first) {
  component.pipeline->want(number(object), entities, first);
  component.driver->wake();
}

void InfraWork::want_at_routers(const ObjectRefKey& object, std::span<const DesiredEntity> entities,
                                bool first) {
  for (const auto& one : components_) {
    if (one->kind == ComponentKind::kRouter) {
      want(object, *one, entities, first);
    }
  }
}

void InfraWork::want_nothing(const ObjectRefKey& object, ComponentKind kind) {
  for (const auto& one : components_) {
    if (one->kind == kind) {
      want(object, *one, {});
    }
  }
}

void InfraWork::set_urgent(ObjectId number, bool urgent) {
  if (urgent_[number] != urgent && (!urgent || urgent_ones_ < kMostUrgent)) {
    urgent_[number] = urgent;
    urgent_ones_ += urgent ? 1 : static_cast<std::size_t>(-1);
  }
}

bool InfraWork::is_urgent(const ObjectRefKey& object) const {
  if (urgent_ones_ == 0) {
    return false;
  }
  const std::optional<ObjectId> number = known(object);
  return number && urgent_[*number];
}

bool InfraWork::first_sight(ObjectId number) {
  const bool first = !seen_[number];
  seen_[number] = true;
  return first;
}

std::int64_t InfraWork::count(ComponentKind kind) const noexcept {
  return std::count_if(components_.begin(), components_.end(),
                       [kind](const auto& one) { return one->kind == kind; });
}

std::size_t InfraWork::pending() const noexcept {
  std::size_t out = 0;
  for (const auto& one : components_) {
    out += one->pipeline->is_connected() ? one->pipeline->pending() : 0;
  }
  return out;
}

void InfraWork::assume(const ObjectRefKey& object, InfraComponent& component,
                       std::span<const DesiredEntity> entities, bool active) {
  component.pipeline->assume(number(object), entities, active);
}

ObjectProgress InfraWork::progress(const ObjectRefKey& object,
                                   const InfraComponent& component) const {
  const std::optional<ObjectId> id = known(object);
  return id ? component.pipeline->progress(*id) : ObjectProgress();
}

bool InfraWork::settled(const ObjectRefKey& object, ComponentKind kind) const {
  const std::optional<ObjectId> id = known(object);
  return !id || std::all_of(components_.begin(), components_.end(), [&](const auto& one) {
    return one->kind != kind || one->pipeline->progress(*id).settled();
  });
}

void InfraWork::forget(const ObjectRefKey& object) {
  const std::optional<ObjectId> number = known(object);
  if (!number) {
    return;
  }
  for (const auto& one : components_) {
    one->pipeline->forget(*number);
  }
  numbers_.drop(*number);
  seen_[*number] = false;
  set_urgent(*number, false);
}

void InfraWork::reach_those_at(std::span<const InfraComponent* const> components, bool everyone) {
  for (const InfraComponent* const one : components) {
    if (std::find(reaching_.at.begin(), reaching_.at.end(), one) == reaching_.at.end()) {
      reaching_.at.push_back(one);
    }
  }
  reaching_.everyone = reaching_.everyone || everyone;
  reaching_.next = 0;
  if (!std::exchange(reaching_.runs, true)) {
    reach_some();
  }
}

void InfraWork::reach_some() {
  const ObjectId end = numbers_.end();
  const ObjectId until = std::min(end, reaching_.next + kReachedAtOnce);
  for (; reaching_.next < until; ++reaching_.next) {
    const ObjectId number = reaching_.next;
    const bool there = reaching_.everyone || std::any_of(reaching_.at.begin(), reaching_.at.end(),
                                                         [number](const InfraComponent* one) {
                                                           return one->pipeline->wants(number);
                                                         });
    if (there && numbers_.is_used(number)) {
      callbacks_.reach(object(number));
    }
  }
  if (reaching_.next < end) {
    loop_.post(alive_.guard([this] { reach_some(); }));
    return;
  }
  reaching_ = {};
}

}  // namespace kintsugi::workers
