// What is sent next.
#include <algorithm>
#include <utility>

#include "workers/messaging/pipeline/internal/pipeline_core.h"

namespace kintsugi::workers {

namespace {
constexpr unsigned kLookEvery = 4;      ///< of so many requests one may be a look
constexpr std::size_t kMostLooks = 32;  ///< in flight
constexpr unsigned kSweepSkips = 512;   ///< entities that one call passes over
constexpr double kSweepBurst = 50;      ///< requests at once
constexpr unsigned kUnsendable = 64;    ///< entities that one call may find no request for
}  // namespace

ExchangeStep PipelineCore::step_of(const Entity& entity) const noexcept {
  if (!table.is_wanted(entity)) {
    if (entity.presence == Presence::kAbsent) {
      return ExchangeStep::kNone;
    }
    return entity.kind == EntityKind::kVhost && !entity.cleared ? ExchangeStep::kClearAliases
                                                                : ExchangeStep::kDelete;
  }
  if (entity.compare) {
    return ExchangeStep::kNone;
  }
  if (entity.read) {
    return ExchangeStep::kRead;
  }
  if (entity.presence != Presence::kPresent) {
    return ExchangeStep::kCreate;
  }
  if (entity.applied != entity.wanted) {
    if (entity.kind == EntityKind::kAddressSettings) {
      return ExchangeStep::kCreate;  // they are written over
    }
    if (entity.kind == EntityKind::kQueue ||  // BH-7
        (is_allowed(entity.kind, Operation::kUpdate) && !entity.replace)) {
      return ExchangeStep::kUpdate;
    }
    return entity.kind == EntityKind::kVhost && !entity.cleared ? ExchangeStep::kClearAliases
                                                                : ExchangeStep::kDelete;
  }
  return entity.verify ? ExchangeStep::kVerify : ExchangeStep::kNone;
}

bool PipelineCore::may_go(const Entity& entity) const noexcept {
  if (entity.holds == kNoIndex) {
    return true;
  }
  const Hold& own = table.hold(entity.holds);
  if (own.wanted && entity.rank == 0) {
    return true;
  }
  for (std::uint32_t at = table.find_object(own.object)->holds; at != kNoIndex;
       at = table.hold(at).next_of_object) {
    const Entity& other = table[table.hold(at).entity];
    if (other.settled) {
      continue;
    }
    if (own.wanted ? table.hold(at).wanted && other.rank < entity.rank : other.rank > entity.rank) {
      return false;
    }
  }
  return true;
}

Ring PipelineCore::ring_for(const Entity& entity, ExchangeStep step) const noexcept {
  if (entity.kind == EntityKind::kAddressSettings) {
    const bool is_awaited =
        step == ExchangeStep::kCreate && entity.presence == Presence::kAbsent && entity.rank == 0;
    return is_awaited ? Ring::kClassSettings : Ring::kSettings;
  }
  if (is_agent_kind(entity.kind)) {
    return is_first(entity) ? Ring::kAgentFirst : Ring::kAgent;
  }
  return is_first(entity) ? Ring::kFirst : Ring::kWork;
}

void PipelineCore::touch(Entity& entity) {
  const bool is_wanted = table.is_wanted(entity);
  const bool settled =
      is_wanted ? entity.presence == Presence::kPresent && entity.applied == entity.wanted
                : entity.presence == Presence::kAbsent;
  const bool waiting =
      is_wanted && settled && is_link_kind(entity.kind) && entity.link != LinkState::kActive;
  if (entity.waiting != waiting) {
    entity.waiting = waiting;
    waiting_ += waiting ? 1 : static_cast<std::size_t>(-1);
  }
  entity.settled = settled;
}

void PipelineCore::set_presence(Entity& entity, Presence presence) {
  if (entity.presence != presence) {
    const auto count = [&](Presence one) -> std::size_t& {
      return (one == Presence::kPresent ? present_
                                        : unsure_)[static_cast<std::size_t>(entity.kind)];
    };
    if (entity.presence != Presence::kAbsent) {
      --count(entity.presence);
    }
    if (presence != Presence::kAbsent) {
      ++count(presence);
    }
    link_changes_ += is_link_kind(entity.kind) || entity.kind == EntityKind::kQueue ? 1 : 0;
  }
  entity.presence = presence;
  if (presence == Presence::kPresent) {
    entity.seen = rounds_[static_cast<std::size_t>(entity.kind)];
  } else {
    entity.link = LinkState::kUnknown;
    entity.negative = false;
    entity.looks = 0;
  }
}

void PipelineCore::reconsider(std::uint32_t index, bool urgent) {
  Entity& entity = table[index];
  // An entity counts as pending from when it is first unsettled; a new one was never counted.
  const bool was = entity.settled;
  const bool counted = entity.pending;
  touch(entity);
  if (counted == entity.settled) {
    entity.pending = !entity.settled;
    pending += entity.pending ? 1 : static_cast<std::size_t>(-1);
  }
  const std::uint8_t rank = entity.rank;
  if (!entity.settled && was) {
    changed(entity);
  }
  const bool gone =
      entity.settled && !table.is_wanted(entity) && entity.activity != Activity::kFlying;
  if (gone) {
    if (entity.activity == Activity::kQueued) {
      rings_.remove(index);
    }
    const ObjectId object = entity.holds == kNoIndex ? kNoIndex : table.hold(entity.holds).object;
    if (object != kNoIndex) {
      table.remove_hold(entity.holds);
      changed(object);
    }
    table.drop(index);
    if (object != kNoIndex) {
      wake(object, rank);
    }
    return;
  }
  if (entity.activity != Activity::kFlying && entity.activity != Activity::kResting) {
    const ExchangeStep step = step_of(entity);
    if (step == ExchangeStep::kNone || !may_go(entity)) {
      if (entity.activity == Activity::kQueued && !is_look(entity.ring)) {
        rings_.remove(index);
      }
    } else {
      Ring ring = ring_for(entity, step);
      if (urgent && (ring == Ring::kWork || ring == Ring::kFirst)) {
        ring = Ring::kUrgent;
      }
      const bool moves = entity.activity == Activity::kQueued && entity.ring != ring &&
                         entity.ring != Ring::kUrgent;
      if (moves) {
        rings_.remove(index);
      }
      if (entity.activity == Activity::kIdle) {
        disarm(entity);
        rings_.push(ring, index);
      }
    }
  }
  if (entity.settled && !was) {
    changed(entity);
    for (std::uint32_t at = entity.holds; at != kNoIndex; at = table.hold(at).next_of_entity) {
      wake(table.hold(at).object, rank);
    }
  }
}

/// One of that rank is done: those of the object that waited for it may go. None of them is settled
/// by being queued, so the object's list stays as it is.
void PipelineCore::wake(ObjectId object, std::uint8_t rank) {
  for (std::uint32_t at = table.object(object).holds; at != kNoIndex;
       at = table.hold(at).next_of_object) {
    const Entity& other = table[table.hold(at).entity];
    if (other.rank != rank && !other.settled && other.activity == Activity::kIdle) {
      reconsider(table.hold(at).entity);
    }
  }
}

bool PipelineCore::has_bulk() const noexcept {
  return !rings_.empty(Ring::kWork) || !rings_.empty(Ring::kFirst) || !rings_.empty(Ring::kUrgent);
}

bool PipelineCore::looks_allowed(TimePoint now) const noexcept {
  return waiting_ < params_.most_read ? lookers_ < kMostLooks : lookers_ == 0 && now >= looks_free_;
}

std::uint32_t PipelineCore::pick(TimePoint now) {
  const bool agent = flights_.agents() < params_.agent_window;
  const auto look = [&]() -> std::uint32_t {
    const std::uint32_t index =
        rings_.front(rings_.empty(Ring::kNewLooks) ? Ring::kLooks : Ring::kNewLooks);
    if (index == kNoIndex || !looks_allowed(now) || (is_agent_kind(table[index].kind) && !agent)) {
      return kNoIndex;
    }
    return index;
  };
  if (!rings_.empty(Ring::kUrgent)) {
    return rings_.front(Ring::kUrgent);
  }
  if (flights_.settings() == 0 && !rings_.empty(Ring::kClassSettings)) {
    return rings_.front(Ring::kClassSettings);
  }
  if (++turn_ % kLookEvery == 0) {
    if (const std::uint32_t index = look(); index != kNoIndex) {
      return index;
    }
  }
  if (agent && !rings_.empty(Ring::kAgentFirst)) {
    return rings_.front(Ring::kAgentFirst);
  }
  for (const Ring ring : {Ring::kFirst, Ring::kWork}) {
    if (!rings_.empty(ring)) {
      return rings_.front(ring);
    }
  }
  if (agent && !rings_.empty(Ring::kAgent)) {
    return rings_.front(Ring::kAgent);
  }
  return look();
}

std::uint32_t PipelineCore::pick_sweep(TimePoint now) {
  const double passed = std::chrono::duration<double>(now - sweep_filled_).count();
  if (passed > 0) {
    sweep_tokens_ = std::min(kSweepBurst, sweep_tokens_ + passed * params_.sweep_per_second);
    sweep_filled_ = now;
  }
  if (sweep_tokens_ < 1 || flights_.size() >= (params_.window + 1) / 2) {
    return kNoIndex;
  }
  for (unsigned skipped = 0; skipped < kSweepSkips; ++skipped) {
    if (sweep_at_ >= table.end()) {
      sweeping_ = false;
      foreign_links_.reset();
      foreign_routes_.reset();
      if (std::exchange(tables_after_sweep_, false)) {
        for (const EntityKind kind :
             {EntityKind::kAddress, EntityKind::kAutoLink, EntityKind::kLinkRoute}) {
          if (small_enough(kind)) {
            ask(Question::kTable, kind);
          }
        }
      }
      return kNoIndex;
    }
    Entity& entity = table[sweep_at_++];
    if (entity.is_used() && entity.settled && table.is_wanted(entity) &&
        !is_agent_kind(entity.kind) && entity.rank == 2 &&
        (entity.activity == Activity::kIdle || is_look(entity.ring))) {
      sweep_tokens_ -= 1;
      entity.verify = true;
      return sweep_at_ - 1;
    }
  }
  return kNoIndex;
}

const DesiredEntity* PipelineCore::render(const Entity& entity) {
  const ObjectId object = table.hold(entity.holds).object;
  if (rendered_object_ != object) {
    rendered_ = callbacks_.render ? callbacks_.render(object) : std::vector<DesiredEntity>();
    rendered_object_ = object;
  }
  const std::string name = table.name(entity);
  for (const DesiredEntity& one : rendered_) {
    if (one.kind == entity.kind && one.name == name) {
      return &one;
    }
  }
  return nullptr;
}

namespace {

PipelineStep told_step(ExchangeStep step) noexcept {
  switch (step) {
    case ExchangeStep::kCreate:
      return PipelineStep::kCreate;
    case ExchangeStep::kVerify:
      return PipelineStep::kVerify;
    case ExchangeStep::kRead:
      return PipelineStep::kRead;
    case ExchangeStep::kLook:
      return PipelineStep::kLook;
    case ExchangeStep::kUpdate:
      return PipelineStep::kUpdate;
    case ExchangeStep::kClearAliases:
    case ExchangeStep::kDelete:
      return PipelineStep::kDelete;
    case ExchangeStep::kNone:
      break;
  }
  return PipelineStep::kCheck;
}

}  // namespace

std::optional<PipelineCore::Send> PipelineCore::send_entity(std::uint32_t index, ExchangeStep step,
                                                            TimePoint now) {
  Entity& entity = table[index];
  Flight flight;
  flight.entity = index;
  flight.step = step;
  flight.sent = now;
  flight.agent = is_agent_kind(entity.kind);
  if (step == ExchangeStep::kDelete || step == ExchangeStep::kClearAliases) {
    flight.desired.kind = entity.kind;
    flight.desired.name = table.name(entity);
  } else {
    const DesiredEntity* desired = render(entity);
    if (desired == nullptr) {
      fail(index, "its object does not say what it is", 0, now);
      return std::nullopt;
    }
    flight.desired = *desired;
    flight.hash = entity_hash(*desired);
    if (flight.hash != entity.wanted) {
      entity.wanted = flight.hash;  // the object is ahead of its want()
    }
  }
  Operation operation = Operation::kCreate;
  if (step == ExchangeStep::kRead || step == ExchangeStep::kLook) {
    operation = Operation::kRead;
  } else if (step == ExchangeStep::kUpdate) {
    operation = Operation::kUpdate;
  } else if (step == ExchangeStep::kDelete) {
    operation = Operation::kDelete;
  }
  Send out;
  if (step == ExchangeStep::kClearAliases) {
    out.request = clear_aliases_request(table.name(entity));
  } else {
    Expected<ManagementRequest> request = entity_request(operation, flight.desired);
    if (!request) {
      fail(index, request.error().message(), 0, now);
      return std::nullopt;
    }
    out.request = std::move(*request);
  }
  if (entity.kind == EntityKind::kAddressSettings && operation != Operation::kRead) {
    flight.settings = true;
    ComponentPipeline::Counts& counts = exchanges.counts();
    ++(table.is_class(entity) ? counts.class_writes : counts.exact_writes);
  }
  flight.operation = exchanges.operation(out.request);
  lookers_ += step == ExchangeStep::kLook ? 1 : 0;
  entity.activity = Activity::kFlying;
  exchanges.sent();
  out.step = told_step(step);
  out.tag = flights_.add(std::move(flight));
  return out;
}

std::optional<PipelineCore::Send> PipelineCore::next(TimePoint now) {
  now_ = now;
  if (!connected || flights_.size() >= params_.window) {
    return std::nullopt;
  }
  if (trouble &&
      (trouble->reason == "UnsupportedRouter" || trouble->reason == "UnsupportedVersion")) {
    return std::nullopt;
  }
  if (is_twin()) {
    return std::nullopt;
  }
  if (std::optional<Send> out = next_question(now, false)) {
    return out;
  }
  if (!greeted || now < forbidden_until_) {
    return std::nullopt;
  }
  // BH-1: a fifth of the time while others wait.
  if (flights_.settings() == 0 && !rings_.empty(Ring::kSettings)) {
    const std::uint32_t index = rings_.front(Ring::kSettings);
    const ExchangeStep step = step_of(table[index]);
    if (step == ExchangeStep::kRead || !has_bulk() || now >= settings_free_) {
      rings_.remove(index);
      if (std::optional<Send> out = send_entity(index, step, now)) {
        return out;
      }
    }
  }
  for (unsigned i = 0; i < kUnsendable; ++i) {
    const std::uint32_t index = pick(now);
    if (index == kNoIndex) {
      break;
    }
    const bool look = is_look(table[index].ring);
    rings_.remove(index);
    const ExchangeStep step = look ? ExchangeStep::kLook : step_of(table[index]);
    if (step == ExchangeStep::kNone) {
      continue;
    }
    if (std::optional<Send> out = send_entity(index, step, now)) {
      return out;
    }
  }
  if (std::optional<Send> out = next_question(now, true)) {
    return out;
  }
  if (sweeping_) {
    const std::uint32_t index = pick_sweep(now);
    if (index != kNoIndex) {
      if (table[index].activity == Activity::kQueued) {
        rings_.remove(index);
      }
      return send_entity(index, ExchangeStep::kVerify, now);
    }
  }
  if (relooking_ && lookers_ == 0 && now >= looks_free_) {
    for (unsigned skipped = 0; skipped < kSweepSkips; ++skipped) {
      if (relook_at_ >= table.end()) {
        relooking_ = false;
        break;
      }
      const std::uint32_t index = relook_at_++;
      const Entity& entity = table[index];
      if (entity.is_used() && is_link_kind(entity.kind) && entity.settled &&
          table.is_wanted(entity) && entity.activity == Activity::kIdle) {
        return send_entity(index, ExchangeStep::kLook, now);
      }
    }
  }
  return std::nullopt;
}

void PipelineCore::arm(std::uint32_t index, TimePoint due) {
  Entity& entity = table[index];
  ++entity.serial;
  timers_.push({due, index, entity.serial});
}

}  // namespace kintsugi::workers
