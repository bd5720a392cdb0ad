// What answers mean for entities.
#include <algorithm>
#include <string>
#include <utility>

#include "workers/messaging/pipeline/internal/pipeline_core.h"

namespace kintsugi::workers {

namespace {

constexpr unsigned kMostFailures = 20;
constexpr Duration kLostMemory = seconds(60), kMostFull = seconds(30);
/// When a link is looked at after it was made, and after each look.
constexpr std::array<Duration, 4> kLinkLooks = {milliseconds(50), milliseconds(200),
                                                milliseconds(1000), milliseconds(5000)};
/// Looks at a connector before the regular query is enough.
constexpr std::uint8_t kConnectorLooks = 3;
constexpr Duration kSecondLook = seconds(1);
constexpr std::int64_t kAddressMissing = 229203;
constexpr unsigned kQueueReads = 16;
constexpr Duration kQueueReadsEach = seconds(10);

Duration doubled(Duration least, Duration most, unsigned times) {
  Duration out = least;
  for (unsigned i = 1; i < times && out < most; ++i) {
    out *= 2;
  }
  return std::min(out, most);
}

}  // namespace

void PipelineCore::on_answer(std::uint64_t tag, const ManagementReply* reply, TimePoint now) {
  now_ = now;
  Flight* found = flights_.find(tag);
  if (found == nullptr) {
    return;
  }
  Flight flight = std::move(*found);
  found->agent = flight.agent;
  flights_.remove(tag);
  rendered_object_ = kNoIndex;
  if (reply == nullptr) {
    if (now - last_lost_ > kLostMemory) {
      lost = 0;
    }
    last_lost_ = now;
    ++lost;
    exchanges.answered(flight.operation, 0);
    exchanges.failed(now, flight.question == Question::kNone ? flight.desired.name : "check",
                     "no answer", 0);
    set_trouble("NoAnswer", "a request was not answered in time");
    unanswered(flight, now, true);
    return;
  }
  heard_ = std::max(heard_, flight.sent);
  if (trouble && trouble->reason == "NoAnswer") {
    clear_trouble();
  }
  if (flight.question != Question::kNone) {
    exchanges.answered(flight.operation, reply_code(*reply));
    question_answer(flight, reply, now);
    return;
  }
  entity_answer(flight.entity, flight, *reply, now);
}

/// @param back_off  its entity rests for a while; else it is sent again at once when it may.
void PipelineCore::unanswered(const Flight& flight, TimePoint now, bool back_off) {
  if (flight.question != Question::kNone) {
    Flight copy;
    copy.question = flight.question;
    copy.sent = flight.sent;
    question_answer(copy, nullptr, now);
    return;
  }
  const std::uint32_t index = flight.entity;
  Entity& entity = table[index];
  entity.activity = Activity::kIdle;
  switch (flight.step) {
    case ExchangeStep::kCreate:
    case ExchangeStep::kDelete:
      set_presence(entity, Presence::kUnsure);
      break;
    case ExchangeStep::kUpdate:
      entity.applied = 0;
      break;
    case ExchangeStep::kLook:
      --lookers_;
      look_again(index, now);
      break;
    case ExchangeStep::kVerify:
    case ExchangeStep::kRead:
    case ExchangeStep::kClearAliases:
    case ExchangeStep::kNone:
      break;
  }
  if (back_off && flight.step != ExchangeStep::kLook) {
    fail(index, "no answer", 0, now);
  } else {
    reconsider(index);
  }
}

void PipelineCore::entity_answer(std::uint32_t index, Flight& flight, const ManagementReply& reply,
                                 TimePoint now) {
  Entity& entity = table[index];
  entity.activity = Activity::kIdle;
  EntityOutcome outcome;
  if (flight.step == ExchangeStep::kClearAliases) {
    const std::int64_t code = reply_code(reply);
    outcome.code = code;
    const krm::Json* text = reply.properties.find("statusDescription");
    outcome.text = std::string(text == nullptr ? std::string_view() : text->as_string());
    outcome.verdict = code >= 200 && code < 300    ? Verdict::kDone
                      : code == 404                ? Verdict::kMissing
                      : code == 401 || code == 403 ? Verdict::kForbidden
                      : code == 0                  ? Verdict::kMalformed
                                                   : Verdict::kRefused;
  } else {
    const Operation operation =
        flight.step == ExchangeStep::kDelete   ? Operation::kDelete
        : flight.step == ExchangeStep::kUpdate ? Operation::kUpdate
        : flight.step == ExchangeStep::kRead || flight.step == ExchangeStep::kLook
            ? Operation::kRead
            : Operation::kCreate;
    outcome = entity_outcome(operation, flight.desired, reply);
  }
  exchanges.answered(flight.operation, outcome.code);
  if (flight.settings) {
    settings_free_ = now + (now - flight.sent) * 4;
  }
  if (flight.step == ExchangeStep::kLook) {
    --lookers_;
    looks_free_ =
        now + (now - flight.sent) * (entity.link == LinkState::kActive || has_bulk() ? 19 : 1);
  }
  if (outcome.verdict == Verdict::kForbidden) {
    exchanges.failed(now, table.name(entity), outcome.text, outcome.code);
    forbidden(outcome.text, now);
    reconsider(index);
    look_again(index, now);
    return;
  }
  if (forbidden_ > 0) {
    forbidden_ = 0;
    clear_trouble();
  }
  if (outcome.verdict == Verdict::kMalformed && flight.step == ExchangeStep::kLook) {
    exchanges.failed(now, table.name(entity), outcome.text, outcome.code);
    reconsider(index);
    look_again(index, now);
    return;
  }
  if (outcome.verdict == Verdict::kMalformed) {
    if (flight.step == ExchangeStep::kCreate || flight.step == ExchangeStep::kDelete) {
      set_presence(entity, Presence::kUnsure);
    }
    fail(index, outcome.text.empty() ? "not an answer to such a request" : outcome.text,
         outcome.code, now);
    return;
  }
  switch (flight.step) {
    case ExchangeStep::kCreate:
    case ExchangeStep::kVerify:
      created(index, flight, outcome, now);
      break;
    case ExchangeStep::kRead:
      read_back(index, flight, outcome, now);
      break;
    case ExchangeStep::kLook:
      looked(index, flight, outcome, now);
      break;
    case ExchangeStep::kUpdate:
      updated(index, flight, outcome, now);
      break;
    case ExchangeStep::kClearAliases:
    case ExchangeStep::kDelete:
      deleted(index, flight, outcome, now);
      break;
    case ExchangeStep::kNone:
      break;
  }
}

/// It is there as it was sent.
void PipelineCore::applied(std::uint32_t index, EntityHash hash, TimePoint now) {
  Entity& entity = table[index];
  set_presence(entity, Presence::kPresent);
  entity.applied = hash;
  entity.failures = 0;
  entity.read = entity.verify = entity.compare = false;
  entity.replace = entity.cleared = false;
  entity.looks = 0;
  if (!is_link_kind(entity.kind) && entity.kind != EntityKind::kConnector) {
    table.set_note(entity, {});
  } else if (entity.link == LinkState::kUnknown) {
    table.set_note(entity, {});
  }
  reconsider(index);
  look_again(index, now);
}

void PipelineCore::created(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
                           TimePoint now) {
  Entity& entity = table[index];
  const bool verify = flight.step == ExchangeStep::kVerify;
  entity.verify = false;
  switch (outcome.verdict) {
    case Verdict::kDone:
      if (verify && table.is_wanted(entity)) {
        set_presence(entity, Presence::kAbsent);
        repaired(index, DriftRepair::Cause::kMissing);
      }
      if (table.is_class(entity) && !entity.checked && is_allowed(entity.kind, Operation::kRead)) {
        entity.checked = true;
        applied(index, flight.hash, now);
        table[index].read = true;  // BH-3
        reconsider(index);
        return;
      }
      entity.is_new = !verify && is_link_kind(entity.kind);
      applied(index, flight.hash, now);
      return;
    case Verdict::kExists:
      if (verify) {
        reconsider(index);
        look_again(index, now);
        return;
      }
      if (!table.is_wanted(entity)) {
        set_presence(entity, Presence::kUnsure);
        reconsider(index);
        return;
      }
      if (entity.kind == EntityKind::kQueue && !may_read_queue(now)) {
        set_presence(entity, Presence::kUnsure);
        entity.compare = true;
        entity.seen = rounds_[static_cast<std::size_t>(EntityKind::kQueue)];
        ask(Question::kQueues, EntityKind::kQueue);
        reconsider(index);
        return;
      }
      if (is_allowed(entity.kind, Operation::kRead)) {
        set_presence(entity, Presence::kUnsure);
        entity.read = true;
        reconsider(index, true);
        return;
      }
      applied(index, flight.hash, now);
      return;
    case Verdict::kDifferent:
      set_presence(entity, Presence::kPresent);
      entity.applied = 0;
      if (entity.kind == EntityKind::kQueue) {
        reconsider(index, true);  // BH-2: there already, and of another kind
        return;
      }
      break;
    case Verdict::kMissing:
    case Verdict::kBlocked:
    case Verdict::kRefused:
    case Verdict::kForbidden:
    case Verdict::kMalformed:
      if (!verify && entity.presence == Presence::kUnsure) {
        set_presence(entity, Presence::kAbsent);
      }
      // A queue whose address is gone: that one is looked at anew.
      if (outcome.code == kAddressMissing && entity.holds != kNoIndex) {
        for (std::uint32_t at = table.object(table.hold(entity.holds).object).holds; at != kNoIndex;
             at = table.hold(at).next_of_object) {
          const std::uint32_t other = table.hold(at).entity;
          Entity& address = table[other];
          if (address.kind == EntityKind::kBrokerAddress && table.hold(at).wanted &&
              address.settled && address.activity == Activity::kIdle) {
            address.verify = true;
            reconsider(other);
          }
        }
      }
      break;
  }
  fail(index, outcome.text, outcome.code, now);
}

/// Whether a queue that exists is read by its name, which walks all queues, and not by the list.
bool PipelineCore::may_read_queue(TimePoint now) {
  if (now - queue_reads_since_ > kQueueReadsEach) {
    queue_reads_since_ = now;
    queue_reads_ = 0;
  }
  return ++queue_reads_ <= kQueueReads;
}

void PipelineCore::read_back(std::uint32_t index, const Flight& flight,
                             const EntityOutcome& outcome, TimePoint now) {
  Entity& entity = table[index];
  const bool was_there = entity.presence == Presence::kPresent;
  const bool was_applied = was_there && entity.applied == flight.hash;
  entity.read = false;
  switch (outcome.verdict) {
    case Verdict::kDone:
      applied(index, flight.hash, now);
      return;
    case Verdict::kExists:
    case Verdict::kDifferent:
      set_presence(entity, Presence::kPresent);
      entity.applied = 0;
      if (was_applied) {
        repaired(index, DriftRepair::Cause::kDifferent);
        if (entity.kind == EntityKind::kAddressSettings && ++entity.failures > 1) {
          fail(index, "the component does not keep what was written: " + outcome.text, outcome.code,
               now);
          return;
        }
      }
      reconsider(index, true);
      return;
    case Verdict::kMissing:
      set_presence(entity, Presence::kAbsent);
      if (was_there) {
        repaired(index, DriftRepair::Cause::kMissing);
        reconsider(index, true);
        return;
      }
      if (entity.kind == EntityKind::kQueue && table.is_wanted(entity)) {
        // A broker that does not know the filter: the list says it.
        set_presence(entity, Presence::kUnsure);
        entity.compare = true;
        entity.seen = rounds_[static_cast<std::size_t>(EntityKind::kQueue)];
        ask(Question::kQueues, EntityKind::kQueue);
        reconsider(index);
        return;
      }
      break;  // one of that name in its way that is not to be read: not at once
    case Verdict::kBlocked:
    case Verdict::kRefused:
    case Verdict::kForbidden:
    case Verdict::kMalformed:
      break;
  }
  fail(index, outcome.text, outcome.code, now);
}

void PipelineCore::updated(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
                           TimePoint now) {
  Entity& entity = table[index];
  switch (outcome.verdict) {
    case Verdict::kDone:
      applied(index, flight.hash, now);
      return;
    case Verdict::kMissing:
      set_presence(entity, Presence::kAbsent);
      repaired(index, DriftRepair::Cause::kMissing);
      reconsider(index, true);
      return;
    case Verdict::kDifferent:
      entity.applied = 0;
      if (entity.kind != EntityKind::kQueue) {
        entity.replace = true;
        reconsider(index, true);
        return;
      }
      break;
    case Verdict::kExists:
    case Verdict::kBlocked:
    case Verdict::kRefused:
    case Verdict::kForbidden:
    case Verdict::kMalformed:
      break;
  }
  fail(index, outcome.text, outcome.code, now);
}

void PipelineCore::deleted(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
                           TimePoint now) {
  Entity& entity = table[index];
  if (outcome.verdict == Verdict::kDone && flight.step == ExchangeStep::kClearAliases) {
    entity.cleared = true;
    entity.applied = 0;
    reconsider(index, true);
    return;
  }
  if (outcome.verdict == Verdict::kDone || outcome.verdict == Verdict::kMissing) {
    if (entity.foreign && outcome.verdict == Verdict::kDone) {
      repaired(index, DriftRepair::Cause::kOrphan);
    }
    set_presence(entity, Presence::kAbsent);
    entity.applied = 0;
    entity.replace = entity.cleared = entity.foreign = false;
    entity.failures = 0;
    table.set_note(entity, {});
    reconsider(index, true);
    return;
  }
  if (entity.foreign) {
    exchanges.failed(now, table.name(entity), outcome.text, outcome.code);
    set_presence(entity, Presence::kAbsent);  // it is left
    reconsider(index);
    return;
  }
  if (outcome.verdict == Verdict::kBlocked && table.is_wanted(entity)) {
    set_presence(entity, Presence::kUnsure);  // it is in use: what it is is looked at
  }
  fail(index, outcome.text, outcome.code, now);
}

void PipelineCore::fail(std::uint32_t index, std::string_view text, std::int64_t code,
                        TimePoint now) {
  Entity& entity = table[index];
  exchanges.failed(now, table.name(entity), text, code);
  table.set_note(entity, text.empty() ? "failed without a word" : text);
  entity.failures =
      static_cast<std::uint8_t>(std::min<unsigned>(entity.failures + 1U, kMostFailures));
  entity.activity = Activity::kResting;
  arm(index, now + doubled(params_.retry_least, params_.retry_most, entity.failures));
  changed(entity);
  reconsider(index);
}

void PipelineCore::forbidden(std::string_view text, TimePoint now) {
  ++forbidden_;
  const bool full = says_full(text);
  const Duration most = full ? std::min(params_.retry_most, kMostFull) : params_.retry_most;
  forbidden_until_ = now + doubled(params_.retry_least, most, forbidden_);
  set_trouble(full ? "BrokerFull" : "Forbidden", std::string(text));
}

void PipelineCore::looked(std::uint32_t index, const Flight& flight, const EntityOutcome& outcome,
                          TimePoint now) {
  Entity& entity = table[index];
  if (!table.is_wanted(entity) || entity.presence != Presence::kPresent) {
    reconsider(index);
    return;
  }
  switch (outcome.verdict) {
    case Verdict::kDone:
      set_link(index, link_status(entity.kind, outcome.body), now);
      reconsider(index);
      look_again(index, now);
      return;
    case Verdict::kMissing:
      set_presence(entity, Presence::kAbsent);
      repaired(index, DriftRepair::Cause::kMissing);
      reconsider(index, true);
      return;
    case Verdict::kDifferent:
      if (is_verified_kind(entity.kind)) {  // the tables are compared at each connect
        set_link(index, link_status(entity.kind, outcome.body), now);
        reconsider(index);
        look_again(index, now);
        return;
      }
      if (entity.applied == flight.hash) {
        entity.applied = 0;
        repaired(index, DriftRepair::Cause::kDifferent);
      }
      reconsider(index, true);
      return;
    case Verdict::kExists:
    case Verdict::kBlocked:
    case Verdict::kRefused:
    case Verdict::kForbidden:
    case Verdict::kMalformed:
      exchanges.failed(now, table.name(entity), outcome.text, outcome.code);
      reconsider(index);
      look_again(index, now);
      return;
  }
}

/// An active one is believed to be inactive when that was seen twice (11.5).
void PipelineCore::set_link(std::uint32_t index, const LinkStatus& status, TimePoint now) {
  Entity& entity = table[index];
  if (!is_link_kind(entity.kind) && entity.kind != EntityKind::kConnector) {
    return;
  }
  if (status.state != LinkState::kActive && entity.link == LinkState::kActive && !entity.negative &&
      is_link_kind(entity.kind)) {
    entity.negative = true;
    if (entity.activity == Activity::kIdle) {
      arm(index, now + kSecondLook);
    }
    return;
  }
  entity.negative = false;
  const bool is_other = entity.link != status.state || table.note(entity) != status.message;
  if (!is_other) {
    return;
  }
  const bool was_active = entity.link == LinkState::kActive;
  if (was_active) {
    entity.looks = 2;
  }
  entity.link = status.state;
  if (entity.settled) {
    table.set_note(entity, status.state == LinkState::kActive ? std::string_view()
                                                              : std::string_view(status.message));
  }
  changed(entity);
  if (entity.kind == EntityKind::kConnector) {
    facts_ = true;
  }
  reconsider(index);
  if (was_active && entity.waiting && entity.activity == Activity::kIdle) {
    arm(index, now + kSecondLook);
  }
}

/// The next look at what is settled but not seen to work yet.
void PipelineCore::look_again(std::uint32_t index, TimePoint now) {
  Entity& entity = table[index];
  if (!entity.is_used() || !entity.settled || !table.is_wanted(entity) ||
      entity.activity != Activity::kIdle) {
    return;
  }
  if (is_link_kind(entity.kind)) {
    if (entity.waiting) {
      arm(index, now + kLinkLooks[std::min<std::size_t>(entity.looks, kLinkLooks.size() - 1)]);
      entity.looks = static_cast<std::uint8_t>(std::min(entity.looks + 1, 3));
    } else if (entity.negative) {
      arm(index, now + kSecondLook);
    }
  } else if (is_verified_kind(entity.kind) && is_allowed(entity.kind, Operation::kRead)) {
    const std::uint8_t most = entity.kind == EntityKind::kConnector ? kConnectorLooks : 1;
    if (entity.looks < most && entity.link != LinkState::kActive) {
      arm(index, now + params_.verify * (1 << entity.looks));
      ++entity.looks;
    }
  }
}

}  // namespace kintsugi::workers
