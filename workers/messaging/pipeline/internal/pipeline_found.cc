// What tables and lists of a component hold, against what is wanted.
#include <algorithm>
#include <utility>

#include "workers/messaging/pipeline/internal/pipeline_core.h"

namespace kintsugi::workers {

namespace {

std::string_view member(const krm::Json& object, std::string_view key) noexcept {
  const krm::Json* found = object.find(key);
  return found == nullptr ? std::string_view() : found->as_string();
}

bool is_still(const Entity& entity) noexcept {
  return entity.activity == Activity::kIdle || is_look(entity.ring);
}

}  // namespace

void PipelineCore::router_page(Scan& scan, const QueryPage& page, TimePoint now) {
  const auto at = std::find(page.columns.begin(), page.columns.end(), "name");
  if (at == page.columns.end()) {
    return;
  }
  const auto column = static_cast<std::size_t>(at - page.columns.begin());
  for (const krm::Json& row : page.rows) {
    const krm::Json::Array& values = row.items();
    if (values.size() != page.columns.size()) {
      continue;
    }
    const std::string_view name = values[column].as_string();
    if (table.find(scan.kind, name) == kNoIndex) {
      if (scan.question == Question::kTable && is_own_entity(params_.owner, name)) {
        if (!callbacks_.shared || !callbacks_.shared()) {
          orphan(scan.kind, name);
        }
      } else if (scan.question == Question::kTable && !is_agent_kind(scan.kind)) {
        foreign(scan, name);
      }
      continue;
    }
    krm::Json object = krm::Json::object();
    for (std::size_t i = 0; i < values.size(); ++i) {
      object[page.columns[i]] = values[i];
    }
    router_row(scan, name, object, now);
  }
}

void PipelineCore::router_row(const Scan& scan, std::string_view name, const krm::Json& row,
                              TimePoint now) {
  const std::uint32_t index = table.find(scan.kind, name);
  Entity& entity = table[index];
  entity.seen = scan.round;
  if (!table.is_wanted(entity) || !entity.settled || !is_still(entity)) {
    return;
  }
  if (scan.question == Question::kTable) {
    const DesiredEntity* desired = render(entity);
    if (desired != nullptr && entity_hash(*desired) == entity.applied &&
        !differing(*desired, row).empty()) {
      entity.applied = 0;
      repaired(index, DriftRepair::Cause::kDifferent);
      reconsider(index);
      return;
    }
  }
  set_link(index, link_status(scan.kind, row), now);
}

/// One that stays: somebody is told of the first of each walk.
void PipelineCore::foreign(Scan& scan, std::string_view name) {
  constexpr std::uint8_t kMostTold = 10;
  if (!name.empty() && !name.starts_with("ktg.") && scan.foreign < kMostTold) {
    ++scan.foreign;
    repairs_.push_back({kNoIndex, scan.kind, std::string(name), DriftRepair::Cause::kForeign});
  }
}

/// One that nothing wants, to be deleted.
void PipelineCore::orphan(EntityKind kind, std::string_view name) {
  const bool is_unclear =
      params_.kind == ComponentKind::kBroker && callbacks_.shared && callbacks_.shared();
  if (!complete_ || is_unclear) {
    orphans_left_ = true;
    return;
  }
  const std::uint32_t index = table.ensure(kind, name);
  Entity& entity = table[index];
  entity.foreign = true;
  set_presence(entity, Presence::kPresent);
  reconsider(index);
}

/// Of those that a whole walk did not show: routers are asked again by a blind CREATE, since rows
/// move while they are read in pages.
void PipelineCore::find_missing(EntityKind kind, std::uint8_t round) {
  for (std::uint32_t index = 0; index < table.end(); ++index) {
    Entity& entity = table[index];
    if (entity.is_used() && entity.kind == kind && entity.settled && entity.seen != round &&
        table.is_wanted(entity) && is_still(entity)) {
      entity.verify = true;
      reconsider(index);
    }
  }
}

void PipelineCore::names_page(const Scan& scan, const krm::Json& names) {
  const bool queues = scan.question == Question::kQueueNames;
  const EntityKind kind = queues ? EntityKind::kQueue : EntityKind::kBrokerAddress;
  std::int64_t ours = 0;
  for (const krm::Json& one : names.items()) {
    const std::string_view name = one.as_string();
    const std::uint32_t index = table.find(kind, name);
    if (index != kNoIndex) {
      table[index].seen = scan.round;
      ++ours;
    } else if (!queues && callbacks_.ours && callbacks_.ours(name) &&
               table.find(EntityKind::kQueue, name) == kNoIndex) {
      orphan(kind, name);
    }
  }
  bool is_missing = false;
  for (std::uint32_t index = 0; index < table.end(); ++index) {
    Entity& entity = table[index];
    if (!entity.is_used() || entity.kind != kind || entity.presence != Presence::kPresent ||
        entity.seen == scan.round || entity.activity == Activity::kFlying) {
      continue;
    }
    set_presence(entity, Presence::kAbsent);
    entity.applied = 0;
    if (table.is_wanted(entity)) {
      is_missing = true;
      repaired(index, DriftRepair::Cause::kMissing);
    }
    reconsider(index);
  }
  if (queues) {
    broker.queues = ours;
    foreign_queues_.reset();
    facts_ = true;
  }
  if (is_missing) {
    read_settings();
  }
}

void PipelineCore::queues_page(Scan& scan, const QueuePage& page, TimePoint now) {
  for (const krm::Json& row : page.queues) {
    queue_row(scan, member(row, "name"), row);
  }
  ++scan.offset;
  if (!page.queues.empty() && scan.offset * 1000 < page.count) {
    return;
  }
  const std::uint8_t round = scan.round;
  end_scan(now);
  for (std::uint32_t index = 0; index < table.end(); ++index) {
    Entity& entity = table[index];
    if (!entity.is_used() || !entity.compare) {
      continue;
    }
    if (entity.seen == round) {
      ask(Question::kQueues, EntityKind::kQueue);  // it came too late for this walk
      continue;
    }
    entity.compare = false;
    set_presence(entity, Presence::kAbsent);
    fail(index, "it is said to exist and is not in the list of queues", 0, now);
  }
}

void PipelineCore::queue_row(Scan& scan, std::string_view name, const krm::Json& row) {
  if (name.empty()) {
    return;
  }
  const std::uint32_t index = table.find(EntityKind::kQueue, name);
  if (index == kNoIndex) {
    // BH-7: one that holds messages, or has consumers, stays.
    if (callbacks_.ours && callbacks_.ours(name) && member(row, "messageCount") == "0" &&
        member(row, "consumerCount") == "0") {
      orphan(EntityKind::kQueue, name);
    } else if (callbacks_.ours && callbacks_.ours(name) && complete_) {
      foreign(scan, name);
    }
    return;
  }
  Entity& entity = table[index];
  if (!table.is_wanted(entity) || (!entity.compare && (!entity.settled || !is_still(entity)))) {
    if (!entity.compare) {
      entity.seen = scan.round;
    }
    return;
  }
  const DesiredEntity* desired = render(entity);
  if (desired == nullptr) {
    return;
  }
  entity.seen = scan.round;
  const bool differs = !queue_differs(*desired, row).empty();
  const EntityHash hash = entity_hash(*desired);
  if (entity.compare) {
    entity.compare = false;
    set_presence(entity, Presence::kPresent);
    entity.applied = differs ? EntityHash{0} : hash;
    entity.failures = 0;
    table.set_note(entity, {});
    reconsider(index);
  } else if (differs && entity.applied == hash) {
    entity.applied = 0;
    repaired(index, DriftRepair::Cause::kDifferent);
    reconsider(index);
  }
}

/// What is written of settings is read and compared: by the ring of settings, one at a time.
void PipelineCore::read_settings() {
  if (!is_allowed(EntityKind::kAddressSettings, Operation::kRead)) {
    return;
  }
  for (std::uint32_t index = 0; index < table.end(); ++index) {
    Entity& entity = table[index];
    if (entity.is_used() && entity.kind == EntityKind::kAddressSettings && entity.settled &&
        table.is_wanted(entity)) {
      entity.read = true;
      reconsider(index);
    }
  }
}

}  // namespace kintsugi::workers
