// Entities, holds, rings, notes.
#include "workers/messaging/pipeline/internal/entity_table.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace kintsugi::workers {

namespace {
constexpr std::size_t kMostNotes = 4096;
constexpr std::string_view kTooManyNotes = "failed; too many different errors to keep them all";
}  // namespace

EntityHash entity_hash(const DesiredEntity& entity) {
  const ContentHash all = content_hash(entity);
  EntityHash out = 0;
  std::memcpy(&out, all.data(), sizeof(out));
  return out == 0 ? 1 : out;
}

std::uint8_t entity_rank(EntityKind kind, std::string_view name) noexcept {
  switch (kind) {
    case EntityKind::kSslProfile:
    case EntityKind::kVhost:
      return 0;
    case EntityKind::kConnector:
      return 1;
    case EntityKind::kListener:
    case EntityKind::kAddress:
    case EntityKind::kAutoLink:
    case EntityKind::kLinkRoute:
      return 2;
    case EntityKind::kAddressSettings:
      return is_class_settings(kind, name) ? 0 : 2;
    case EntityKind::kBrokerAddress:
      return 1;
    case EntityKind::kQueue:
      return 3;
    case EntityKind::kDivert:
      return 4;
  }
  return 0;
}

bool is_class_settings(EntityKind kind, std::string_view name) noexcept {
  return kind == EntityKind::kAddressSettings && name.size() > 2 &&
         name.substr(name.size() - 2) == ".#";
}

std::uint32_t EntityTable::find(EntityKind kind, std::string_view name) const noexcept {
  if (index_.empty()) {
    return kNoIndex;
  }
  const std::size_t mask = index_.size() - 1;
  for (std::size_t at = hash(kind, name) & mask; index_[at] != kNoIndex; at = (at + 1) & mask) {
    const Entity& entity = entities_[index_[at]];
    if (entity.kind == kind && names_.is(entity.name, name)) {
      return index_[at];
    }
  }
  return kNoIndex;
}

/// A broker has an address and a queue of one name.
std::uint32_t EntityTable::twin(EntityKind kind, std::string_view name) const noexcept {
  return kind == EntityKind::kQueue           ? find(EntityKind::kBrokerAddress, name)
         : kind == EntityKind::kBrokerAddress ? find(EntityKind::kQueue, name)
                                              : kNoIndex;
}

void EntityTable::grow() {
  std::vector<std::uint32_t> old(index_.empty() ? 64 : index_.size() * 2, kNoIndex);
  old.swap(index_);
  const std::size_t mask = index_.size() - 1;
  for (const std::uint32_t entity : old) {
    if (entity == kNoIndex) {
      continue;
    }
    std::size_t at = hash(entities_[entity].kind, name(entities_[entity])) & mask;
    while (index_[at] != kNoIndex) {
      at = (at + 1) & mask;
    }
    index_[at] = entity;
  }
}

std::uint32_t EntityTable::ensure(EntityKind kind, std::string_view name) {
  if (const std::uint32_t found = find(kind, name); found != kNoIndex) {
    return found;
  }
  name = name.substr(0, std::numeric_limits<std::uint16_t>::max());  // no entity of ours
  if (index_.empty() || entities_.size() + 1 > index_.size() / 4 * 3) {
    grow();
  }
  const std::uint32_t index = entities_.add();
  Entity& entity = entities_[index];
  if (const std::uint32_t other = twin(kind, name); other != kNoIndex) {
    entity.name = entities_[other].name;
    entity.shares = entities_[other].shares = true;
  } else {
    entity.name = names_.put(name);
  }
  entity.kind = kind;
  entity.rank = entity_rank(kind, name) & 7U;
  classes_ += is_class_settings(kind, name) ? 1 : 0;
  ++by_kind_[static_cast<std::size_t>(kind)];
  const std::size_t mask = index_.size() - 1;
  std::size_t at = hash(kind, name) & mask;
  while (index_[at] != kNoIndex) {
    at = (at + 1) & mask;
  }
  index_[at] = index;
  return index;
}

void EntityTable::drop(std::uint32_t index) {
  Entity& entity = entities_[index];
  const std::string text = name(entity);
  classes_ -= is_class_settings(entity.kind, text) ? 1 : 0;
  --by_kind_[static_cast<std::size_t>(entity.kind)];
  set_note(entity, {});
  const std::size_t mask = index_.size() - 1;
  std::size_t hole = hash(entity.kind, text) & mask;
  while (index_[hole] != index) {
    hole = (hole + 1) & mask;
  }
  // What stands behind the hole and could not stand before it moves up.
  for (std::size_t at = (hole + 1) & mask; index_[at] != kNoIndex; at = (at + 1) & mask) {
    const Entity& other = entities_[index_[at]];
    const std::size_t home = hash(other.kind, name(other)) & mask;
    if (((at - home) & mask) >= ((at - hole) & mask)) {
      index_[hole] = index_[at];
      hole = at;
    }
  }
  index_[hole] = kNoIndex;
  // A timer of this one must not wake the next of its number.
  const std::uint16_t serial = entity.serial;
  if (entity.shares) {
    entities_[twin(entity.kind, text)].shares = false;
  } else {
    names_.drop(entity.name);
  }
  entities_.drop(index);
  entities_[index].serial = static_cast<std::uint16_t>(serial + 1);
}

ObjectRecord& EntityTable::object(ObjectId id) {
  if (id >= objects_.size()) {
    objects_.resize(std::size_t{id} + 1);
  }
  return objects_[id];
}

const ObjectRecord* EntityTable::find_object(ObjectId id) const noexcept {
  return id < objects_.size() ? &objects_[id] : nullptr;
}

void EntityTable::link_entity(std::uint32_t index) {
  Hold& hold = holds_[index];
  Entity& entity = entities_[hold.entity];
  hold.before_of_entity = kNoIndex;
  hold.next_of_entity = entity.holds;
  if (entity.holds != kNoIndex) {
    holds_[entity.holds].before_of_entity = index;
  }
  entity.holds = index;
}

void EntityTable::unlink_entity(std::uint32_t index) {
  Hold& hold = holds_[index];
  if (hold.before_of_entity == kNoIndex) {
    entities_[hold.entity].holds = hold.next_of_entity;
  } else {
    holds_[hold.before_of_entity].next_of_entity = hold.next_of_entity;
  }
  if (hold.next_of_entity != kNoIndex) {
    holds_[hold.next_of_entity].before_of_entity = hold.before_of_entity;
  }
}

std::uint32_t EntityTable::add_hold(ObjectId object, std::uint32_t entity) {
  const std::uint32_t index = holds_.add();
  holds_[index].entity = entity;
  holds_[index].object = object & Hold::kMostObjects;
  link_entity(index);
  return index;
}

void EntityTable::prefer(std::uint32_t hold) {
  if (entities_[holds_[hold].entity].holds != hold) {
    unlink_entity(hold);
    link_entity(hold);
  }
}

void EntityTable::drop_hold(std::uint32_t hold) {
  unlink_entity(hold);
  holds_.drop(hold);
}

void EntityTable::remove_hold(std::uint32_t hold) {
  std::uint32_t* at = &objects_[holds_[hold].object].holds;
  while (*at != kNoIndex && *at != hold) {
    at = &holds_[*at].next_of_object;
  }
  if (*at == hold) {
    *at = holds_[hold].next_of_object;
  }
  drop_hold(hold);
}

void EntityTable::set_note(Entity& entity, std::string_view text) {
  if (note(entity) == text) {
    return;
  }
  if (entity.note != 0) {
    Note& old = notes_[entity.note];
    if (--old.uses == 0) {
      notes_by_text_.erase(old.text);
      old.text.clear();
      free_notes_.push_back(entity.note);
    }
    entity.note = 0;
  }
  if (text.empty()) {
    return;
  }
  auto at = notes_by_text_.find(std::string(text));
  if (at == notes_by_text_.end()) {
    if (notes_.empty()) {
      notes_.emplace_back();
    }
    if (free_notes_.empty() && notes_.size() > kMostNotes) {
      text = kTooManyNotes;
      at = notes_by_text_.find(std::string(text));
    }
    if (at == notes_by_text_.end()) {
      std::uint16_t number = 0;
      if (free_notes_.empty()) {
        number = static_cast<std::uint16_t>(notes_.size());
        notes_.emplace_back();
      } else {
        number = free_notes_.back();
        free_notes_.pop_back();
      }
      notes_[number].text = text;
      at = notes_by_text_.emplace(std::string(text), number).first;
    }
  }
  entity.note = at->second;
  ++notes_[entity.note].uses;
}

void EntityRings::push(Ring ring, std::uint32_t index) {
  Entity& entity = table_[index];
  const auto at = static_cast<std::size_t>(ring);
  entity.ring = ring;
  entity.activity = Activity::kQueued;
  entity.before = tails_[at];
  entity.after = kNoIndex;
  if (tails_[at] == kNoIndex) {
    heads_[at] = index;
  } else {
    table_[tails_[at]].after = index;
  }
  tails_[at] = index;
}

void EntityRings::remove(std::uint32_t index) {
  Entity& entity = table_[index];
  const auto at = static_cast<std::size_t>(entity.ring);
  (entity.before == kNoIndex ? heads_[at] : table_[entity.before].after) = entity.after;
  (entity.after == kNoIndex ? tails_[at] : table_[entity.after].before) = entity.before;
  entity.before = entity.after = kNoIndex;
  entity.ring = Ring::kNone;
  entity.activity = Activity::kIdle;
}

}  // namespace kintsugi::workers
