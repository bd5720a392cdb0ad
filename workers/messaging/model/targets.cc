#include "workers/messaging/model/targets.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "workers/messaging/model/condition_of.h"

namespace kintsugi::workers {

namespace {

Condition refusal(std::string_view reason, std::string message) {
  return condition_of("Validated", ConditionStatus::kFalse, reason, std::move(message));
}

constexpr std::string_view kExpiry = "expiryQueue", kDeadLetter = "deadLetterQueue",
                           kTopic = "topic";

std::uint64_t spread(ObjectId object) noexcept {
  return (object * std::uint64_t{0x9E3779B97F4A7C15U}) >> 32U;
}

}  // namespace

const TargetIndex::Entry* TargetIndex::named(NameHash name) const {
  const std::uint32_t at =
      by_name_.find(name, [&](std::uint32_t one) { return entries_[one].name == name; });
  return at == NumberIndex::kNone ? nullptr : &entries_[at];
}

const TargetIndex::Entry* TargetIndex::entry(ObjectId object) const {
  const std::uint32_t at = by_object_.find(
      spread(object), [&](std::uint32_t one) { return entries_[one].object == object; });
  return at == NumberIndex::kNone ? nullptr : &entries_[at];
}

void TargetIndex::add(const Entry& entry) {
  auto at = static_cast<std::uint32_t>(entries_.size());
  if (free_.empty()) {
    entries_.push_back(entry);
  } else {
    at = free_.back();
    free_.pop_back();
    entries_[at] = entry;
  }
  by_name_.add(entry.name, at, [this](std::uint32_t one) { return entries_[one].name; });
  by_object_.add(spread(entry.object), at,
                 [this](std::uint32_t one) { return spread(entries_[one].object); });
}

void TargetIndex::drop(const Entry& entry) {
  const auto at = static_cast<std::uint32_t>(&entry - entries_.data());
  by_name_.remove(entry.name, at, [this](std::uint32_t one) { return entries_[one].name; });
  by_object_.remove(spread(entry.object), at,
                    [this](std::uint32_t one) { return spread(entries_[one].object); });
  free_.push_back(at);
}

const TargetIndex::Refers* TargetIndex::refers(ObjectId object) const noexcept {
  const auto found = refers_.find(object);
  return found == refers_.end() ? nullptr : &found->second;
}

std::vector<ObjectId> TargetIndex::targets(ObjectId object) const {
  std::vector<ObjectId> out;
  if (const Refers* const of = refers(object)) {
    for (const std::string* name : {&of->expiry, &of->dead_letter, &of->topic}) {
      if (const Entry* const at = named(hash(*name))) {
        out.push_back(at->object);
      }
    }
  }
  return out;
}

void TargetIndex::unlink(ObjectId object) {
  const auto found = refers_.find(object);
  if (found == refers_.end()) {
    return;
  }
  for (const std::string& name :
       {found->second.expiry, found->second.dead_letter, found->second.topic}) {
    const auto list = referrers_.find(hash(name));
    if (list != referrers_.end()) {
      std::erase(list->second, object);
      if (list->second.empty()) {
        referrers_.erase(list);
      }
    }
  }
  refers_.erase(found);
}

/// Those that refer to it; those that refer to them, too, where cycles may begin or end.
std::vector<ObjectId> TargetIndex::affected(ObjectId object) const {
  std::vector<ObjectId> all = referrers(object);
  const Refers* own = refers(object);
  if (own != nullptr && (!own->expiry.empty() || !own->dead_letter.empty())) {
    std::set<ObjectId> seen(all.begin(), all.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const ObjectId next : referrers(all[i])) {
        if (seen.insert(next).second) {
          all.push_back(next);
        }
      }
    }
  }
  return all;
}

std::vector<ObjectId> TargetIndex::set(ObjectId object, std::string_view address, AddressType type,
                                       const References& references) {
  const NameHash name = hash(address);
  const Entry* const had = entry(object);
  if (had != nullptr) {
    static const Refers kNone;
    const Refers* const referred = refers(object);
    const Refers& old = referred != nullptr ? *referred : kNone;
    if (had->name == name && had->type == type && old.expiry == references.expiry &&
        old.dead_letter == references.dead_letter && old.topic == references.topic) {
      return {};
    }
  }
  std::vector<ObjectId> affected = this->affected(object);  // by what it was
  unlink(object);
  if (had != nullptr) {
    drop(*had);
  }
  if (const Entry* const other = named(name)) {
    unlink(other->object);
    drop(*other);
  }
  add({name, object, type});
  if (!references.expiry.empty() || !references.dead_letter.empty() || !references.topic.empty()) {
    refers_[object] = {std::string(address), std::string(references.expiry),
                       std::string(references.dead_letter), std::string(references.topic)};
    for (const std::string_view one :
         {references.expiry, references.dead_letter, references.topic}) {
      if (one.empty()) {
        continue;
      }
      std::vector<ObjectId>& list = referrers_[hash(one)];
      const auto at = std::lower_bound(list.begin(), list.end(), object);
      if (at == list.end() || *at != object) {
        list.insert(at, object);
      }
    }
  }
  const std::vector<ObjectId> now = this->affected(object);
  affected.insert(affected.end(), now.begin(), now.end());
  std::sort(affected.begin(), affected.end());
  affected.erase(std::unique(affected.begin(), affected.end()), affected.end());
  std::erase(affected, object);
  return affected;
}

std::vector<ObjectId> TargetIndex::remove(ObjectId object) {
  const Entry* const found = entry(object);
  if (found == nullptr) {
    return {};
  }
  std::vector<ObjectId> affected = this->affected(object);
  std::erase(affected, object);
  unlink(object);
  drop(*found);
  return affected;
}

std::optional<TargetIndex::Target> TargetIndex::find(std::string_view address) const {
  const Entry* const found = named(hash(address));
  return found == nullptr ? std::nullopt : std::optional(Target{found->object, found->type});
}

/// Whether the expiry and dead-letter queues of `from` lead to `to`.
bool TargetIndex::reaches(ObjectId from, ObjectId to) const {
  std::vector<ObjectId> seen{from};
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Refers* one = refers(seen[i]);
    if (one == nullptr) {
      continue;
    }
    for (const std::string* name : {&one->expiry, &one->dead_letter}) {
      const Entry* const next = name->empty() ? nullptr : named(hash(*name));
      if (next == nullptr) {
        continue;
      }
      const ObjectId target = next->object;
      if (target == to) {
        return true;
      }
      if (std::find(seen.begin(), seen.end(), target) == seen.end()) {
        seen.push_back(target);
      }
    }
  }
  return false;
}

std::optional<Condition> TargetIndex::check(ObjectId object) const {
  const Refers* one = refers(object);
  if (one == nullptr) {
    return std::nullopt;
  }
  const std::array<std::pair<std::string_view, const std::string*>, 3> all{
      {{kExpiry, &one->expiry}, {kDeadLetter, &one->dead_letter}, {kTopic, &one->topic}}};
  for (const auto& [field, name] : all) {
    if (name->empty()) {
      continue;
    }
    const std::optional<Target> target = find(*name);
    const bool fits = target && (field == kTopic ? target->type == AddressType::kTopic
                                                 : target->type == AddressType::kQueue ||
                                                       target->type == AddressType::kDeadLetter);
    if (!fits) {
      const std::string kind = field == kTopic ? "topic" : "queue or deadLetter";
      return refusal("TargetNotFound", std::string(field) + ": " +
                                           (target ? "address " + *name + " is no " + kind
                                                   : "there is no " + kind + " " + *name));
    }
  }
  if (reaches(object, object)) {
    return refusal("TargetCycle", "its expiry and dead-letter queues lead back to it");
  }
  return std::nullopt;
}

std::vector<ObjectId> TargetIndex::referrers(ObjectId object) const {
  const Entry* const found = entry(object);
  if (found == nullptr) {
    return {};
  }
  const auto list = referrers_.find(found->name);
  return list == referrers_.end() ? std::vector<ObjectId>() : list->second;
}

std::optional<std::string> TargetIndex::blocker(ObjectId object) const {
  std::vector<ObjectId> all = referrers(object);
  std::erase(all, object);
  if (all.empty()) {
    return std::nullopt;
  }
  const Refers& one = *refers(all.front());
  const NameHash name = entry(object)->name;
  const std::string_view field = hash(one.dead_letter) == name ? kDeadLetter
                                 : hash(one.expiry) == name    ? kExpiry
                                                               : kTopic;
  std::string text = "referred to by " + one.own + " (" + std::string(field) + ")";
  if (all.size() > 1) {
    text += " and " + std::to_string(all.size() - 1) + " more";
  }
  return text;
}

std::string waits_for(std::string_view what, std::string_view first, std::size_t count) {
  std::string text = "waits for " + std::string(what) + " " + std::string(first);
  if (count > 1) {
    text += " and " + std::to_string(count - 1) + " more";
  }
  return text;
}

}  // namespace kintsugi::workers
