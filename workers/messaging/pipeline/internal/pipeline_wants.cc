// What objects want, and how far they are.
#include <algorithm>
#include <utility>

#include "workers/messaging/pipeline/internal/pipeline_core.h"

namespace kintsugi::workers {

PipelineCore::PipelineCore(Params params, Callbacks callbacks)
    : table(params.seed), params_(std::move(params)), callbacks_(std::move(callbacks)) {}

bool PipelineCore::is_first(const Entity& entity) const noexcept {
  if (entity.holds == kNoIndex) {
    return false;
  }
  const ObjectRecord* object = table.find_object(table.hold(entity.holds).object);
  return object != nullptr && object->first;
}

void PipelineCore::want(ObjectId object, std::span<const DesiredEntity> entities, bool first) {
  if (rendered_object_ == object) {
    rendered_object_ = kNoIndex;
  }
  std::vector<std::uint32_t> old;
  for (std::uint32_t at = table.object(object).holds; at != kNoIndex;
       at = table.hold(at).next_of_object) {
    old.push_back(at);
  }
  table.object(object).first = first;
  bool is_changed = false;
  std::vector<std::uint32_t> held, touched;
  held.reserve(entities.size() + old.size());
  std::size_t cursor = 0;
  for (const DesiredEntity& one : entities) {
    const EntityHash hash = entity_hash(one);
    const std::uint32_t index = table.ensure(one.kind, one.name);
    // As a rule an object names the same ones in the same order.
    std::uint32_t hold = kNoIndex;
    for (std::size_t i = 0; i < old.size(); ++i) {
      const std::size_t at = (cursor + i) % old.size();
      if (old[at] != kNoIndex && table.hold(old[at]).entity == index) {
        hold = std::exchange(old[at], kNoIndex);
        cursor = at + 1;
        break;
      }
    }
    bool is_new = false;
    if (hold == kNoIndex) {
      if (std::any_of(held.begin(), held.end(), [&](std::uint32_t other) {
            return table.hold(other).object == object && table.hold(other).entity == index;
          })) {
        continue;  // named twice
      }
      Entity& entity = table[index];
      if (entity.holds != kNoIndex && !table.is_wanted(entity)) {
        changed(table.hold(entity.holds).object);
        table.remove_hold(entity.holds);  // the leftover of another object
      }
      hold = table.add_hold(object, index);
      is_new = true;
    } else if (!table.hold(hold).wanted) {
      table.hold(hold).wanted = true;
      is_new = true;
    }
    Entity& entity = table[index];
    held.push_back(hold);
    if (is_new || entity.wanted != hash) {
      is_changed = true;
      if (entity.wanted != hash) {
        entity.wanted = hash;
        entity.failures = 0;
        table.prefer(hold);
        if (entity.activity == Activity::kResting) {
          disarm(entity);
          entity.activity = Activity::kIdle;
        }
      }
      if (entity.foreign && entity.activity != Activity::kFlying) {
        set_presence(entity, Presence::kUnsure);  // what it is was not looked at
      }
      entity.foreign = false;
      touched.push_back(index);
    }
  }
  std::vector<std::uint32_t> gone;
  for (const std::uint32_t hold : old) {
    if (hold != kNoIndex) {
      gone.push_back(hold);
      held.push_back(hold);
    }
  }
  table.object(object).holds = held.empty() ? kNoIndex : held.front();
  for (std::size_t i = 0; i < held.size(); ++i) {
    table.hold(held[i]).next_of_object = i + 1 < held.size() ? held[i + 1] : kNoIndex;
  }
  for (const std::uint32_t index : touched) {
    reconsider(index);
  }
  for (auto at = gone.rbegin(); at != gone.rend(); ++at) {
    if (table.hold(*at).wanted) {
      is_changed = true;
      release(*at);
    }
  }
  if (is_changed) {
    changed(object);
  }
}

/// A hold that is not wanted any more: the entity goes with its last one.
void PipelineCore::release(std::uint32_t hold) {
  const std::uint32_t index = table.hold(hold).entity;
  Entity& entity = table[index];
  const bool is_shared = entity.holds != hold || table.hold(hold).next_of_entity != kNoIndex;
  if (is_shared) {
    table.remove_hold(hold);
    return;
  }
  table.hold(hold).wanted = false;
  entity.failures = 0;
  entity.compare = false;
  entity.verify = entity.read = false;
  if (entity.activity == Activity::kResting) {
    disarm(entity);
    entity.activity = Activity::kIdle;
  }
  reconsider(index);
}

void PipelineCore::assume(ObjectId object, std::span<const DesiredEntity> entities, bool active) {
  for (const DesiredEntity& one : entities) {
    const EntityHash hash = entity_hash(one);
    const std::uint32_t index = table.ensure(one.kind, one.name);
    bool is_held = false;
    std::uint32_t* end = &table.object(object).holds;
    for (; *end != kNoIndex; end = &table.hold(*end).next_of_object) {
      is_held = is_held || table.hold(*end).entity == index;
    }
    Entity& entity = table[index];
    if (!is_held) {
      if (entity.holds == kNoIndex) {
        entity.wanted = hash;
      } else if (!table.is_wanted(entity)) {
        table.remove_hold(entity.holds);
        end = &table.object(object).holds;
        while (*end != kNoIndex) {
          end = &table.hold(*end).next_of_object;
        }
        entity.wanted = hash;
      }
      *end = table.add_hold(object, index);
    }
    if (entity.activity != Activity::kFlying) {
      if (entity.activity == Activity::kResting) {
        disarm(entity);
        entity.activity = Activity::kIdle;
      }
      entity.applied = hash;
      entity.checked = true;
      entity.foreign = false;
      set_presence(entity, Presence::kPresent);
      if (active && is_link_kind(entity.kind)) {
        entity.link = LinkState::kActive;
      }
    }
    reconsider(index);
    if (is_link_kind(entity.kind)) {
      look_again(index, now_);
    }
  }
  changed(object);
}

void PipelineCore::forget(ObjectId object) {
  if (rendered_object_ == object) {
    rendered_object_ = kNoIndex;
  }
  if (table.find_object(object) == nullptr) {
    return;
  }
  std::uint32_t at = table.object(object).holds;
  while (at != kNoIndex) {
    const std::uint32_t next = table.hold(at).next_of_object;
    const std::uint32_t index = table.hold(at).entity;
    table.remove_hold(at);
    reconsider(index);
    at = next;
  }
  table.object(object).first = false;
}

ObjectProgress PipelineCore::progress(ObjectId object) const {
  ObjectProgress out;
  const ObjectRecord* record = table.find_object(object);
  if (record == nullptr) {
    return out;
  }
  for (std::uint32_t at = record->holds; at != kNoIndex; at = table.hold(at).next_of_object) {
    const Hold& hold = table.hold(at);
    const Entity& entity = table[hold.entity];
    const std::string_view note = table.note(entity);
    const auto described = [&] {
      std::string_view kind = entity_kind_text(entity.kind);
      if (kind.empty()) {
        kind = entity.kind == EntityKind::kBrokerAddress     ? "address"
               : entity.kind == EntityKind::kQueue           ? "queue"
               : entity.kind == EntityKind::kAddressSettings ? "settings"
                                                             : "divert";
      }
      return std::string(kind) + " " + table.name(entity) + ": " + std::string(note);
    };
    if (!hold.wanted) {
      ++out.leftover;
      if (!note.empty() && out.error.empty()) {
        out.error = described();
      }
      continue;
    }
    ++out.wanted;
    out.applied += entity.settled ? 1 : 0;
    if (!entity.settled && !note.empty() && out.error.empty()) {
      out.error = described();
    }
    if (is_link_kind(entity.kind)) {
      ++out.links;
      out.active += entity.settled && entity.link == LinkState::kActive ? 1 : 0;
      out.link_unknown = out.link_unknown || entity.link == LinkState::kUnknown;
      if (entity.settled && entity.link == LinkState::kInactive && out.link_error.empty()) {
        out.link_error = described();
      }
    }
  }
  return out;
}

bool PipelineCore::wants(ObjectId object) const noexcept {
  const ObjectRecord* record = table.find_object(object);
  for (std::uint32_t at = record == nullptr ? kNoIndex : record->holds; at != kNoIndex;
       at = table.hold(at).next_of_object) {
    if (table.hold(at).wanted) {
      return true;
    }
  }
  return false;
}

LinkStatus PipelineCore::connector(std::string_view name) const {
  const std::uint32_t index = table.find(EntityKind::kConnector, name);
  if (index == kNoIndex || !connected) {
    return {};
  }
  return {table[index].link, std::string(table.note(table[index]))};
}

void PipelineCore::changed(ObjectId object) {
  ObjectRecord& record = table.object(object);
  if (!record.told) {
    record.told = true;
    told_.push_back(object);
  }
}

void PipelineCore::changed(const Entity& entity) {
  for (std::uint32_t at = entity.holds; at != kNoIndex; at = table.hold(at).next_of_entity) {
    changed(table.hold(at).object);
  }
}

void PipelineCore::repaired(std::uint32_t index, DriftRepair::Cause cause) {
  const Entity& entity = table[index];
  ++exchanges.counts().repairs[entity.kind];
  repairs_.push_back({entity.holds == kNoIndex ? kNoIndex : table.hold(entity.holds).object,
                      entity.kind, table.name(entity), cause});
}

void PipelineCore::tell() {
  if (telling_) {
    return;
  }
  telling_ = true;
  if (was_synchronized_ != synchronized()) {
    was_synchronized_ = !was_synchronized_;
    facts_ = true;
    if (was_synchronized_) {
      last_sync = now_;
    }
  }
  // A router's counters tell whether it began anew; of a broker only its lists do.
  const bool seen = params_.kind == ComponentKind::kRouter ? greeted : first_checks_done;
  if (connected && !looked_at && (seen || trouble)) {
    looked_at = facts_ = true;
    ++looks;
  }
  while (!told_.empty() || !repairs_.empty() || facts_) {
    const std::vector<ObjectId> told = std::exchange(told_, {});
    const std::vector<DriftRepair> repairs = std::exchange(repairs_, {});
    const bool facts = std::exchange(facts_, false);
    for (const DriftRepair& one : repairs) {
      if (callbacks_.repaired) {
        callbacks_.repaired(one);
      }
    }
    for (const ObjectId object : told) {
      table.object(object).told = false;
      if (callbacks_.changed) {
        callbacks_.changed(object);
      }
    }
    if (facts && callbacks_.facts) {
      callbacks_.facts();
    }
  }
  telling_ = false;
}

}  // namespace kintsugi::workers
