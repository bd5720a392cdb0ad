#include "workers/runtime/reflector/internal/cache_core.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {
namespace {

using shards::ObjectKey;

std::uint64_t mark_of(std::string_view key, std::uint64_t revision) noexcept {
  return std::hash<std::string_view>{}(key) ^ (revision * 0x9E3779B97F4A7C15U);
}

/// In place of the revision of a delivery: that this object was deleted.
std::uint64_t gone(std::uint32_t uid) noexcept { return ~std::uint64_t{uid}; }

}  // namespace

std::string_view CacheCore::text_of(const ObjectKey& key) const {
  text_.clear();
  shards::append_key(text_, key);
  return text_;
}

ObjectKey CacheCore::key_of(Id id) const noexcept {
  const bool own = (id & kOverlay) != 0;
  ObjectKey key =
      shards::split_key(own ? std::string_view(overlays_[id & ~kOverlay].key) : keys_->key(id));
  key.id = id;
  return key;
}

CacheCore::Id CacheCore::visible(const ObjectKey& key) const {
  const std::string_view text = text_of(key);
  if (!laid_.empty()) {
    if (const auto at = laid_.find(text); at != laid_.end()) {
      return kOverlay | at->second;
    }
  }
  return keys_ == nullptr ? shards::KeyTable::kNone : keys_->find(text);
}

void CacheCore::note_deadline(TimePoint before) const {
  if (on_deadline_ && deadline() < before) {
    on_deadline_();
  }
}

void CacheCore::when_synced(std::function<void(Expected<void>)> done, TimePoint deadline) {
  if (synced_) {
    return done({});
  }
  const TimePoint before = this->deadline();
  waiters_.push_back({std::move(done), deadline});
  note_deadline(before);
}

TimePoint CacheCore::deadline() const noexcept {
  TimePoint first = TimePoint::max();
  for (const Waiter& waiter : waiters_) {
    first = std::min(first, synced_ ? TimePoint::min() : waiter.deadline);
  }
  for (const Overlay& overlay : overlays_) {
    first = overlay.used ? std::min(first, overlay.until) : first;
  }
  return first;
}

std::vector<std::function<void()>> CacheCore::due(TimePoint now) {
  for (std::uint32_t slot = 0; slot < overlays_.size(); ++slot) {
    if (!overlays_[slot].used || overlays_[slot].until > now) {
      continue;
    }
    const std::string text = overlays_[slot].key;
    CacheChange change{.key = shards::split_key(text),
                       .announced = leaving(kOverlay | slot),
                       .uid = uid(kOverlay | slot)};
    lift(slot);
    change.key.id = keys_->find(text);
    change.kind = change.key.id == shards::KeyTable::kNone ? Kind::kDeleted : Kind::kUpdated;
    tell(change);
  }
  std::vector<std::function<void()>> calls;
  for (std::size_t i = 0; i < waiters_.size();) {
    if (!synced_ && waiters_[i].deadline > now) {
      ++i;
      continue;
    }
    calls.emplace_back([done = std::move(waiters_[i].done), in_time = synced_] {
      done(in_time ? Expected<void>() : fail(Errc::kDeadline));
    });
    waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return calls;
}

CacheCore::HandlerId CacheCore::add_handler(Handler handler) {
  const HandlerId id = next_listener_++;
  listeners_.push_back({id, handler});
  each_visible([this, &handler](Id at) { handler({key_of(at), Kind::kAdded, true, false}); });
  return id;
}

void CacheCore::remove_handler(HandlerId id) noexcept {
  listeners_.erase(std::remove_if(listeners_.begin(), listeners_.end(),
                                  [id](const Listener& one) { return one.id == id; }),
                   listeners_.end());
}

void CacheCore::tell(const CacheChange& change) {
  for (const Listener& one : listeners_) {
    one.handler(change);
  }
}

void CacheCore::set_indexes(Id id, const ObjectKey& key) {
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    values_.clear();
    collect(i, id, key, values_);
    indexes_[i].set(id, values_);
  }
}

void CacheCore::remove_from_indexes(Id id) {
  for (ObjectIndex& one : indexes_) {
    one.remove(id);
  }
}

void CacheCore::Marks::add(std::string_view key, std::uint64_t revision) {
  if (all.size() < kRecent) {
    all.push_back(mark_of(key, revision));
    return;
  }
  all[at] = mark_of(key, revision);
  at = (at + 1) % kRecent;
}

bool CacheCore::Marks::has(std::string_view key, std::uint64_t revision) const noexcept {
  return std::find(all.begin(), all.end(), mark_of(key, revision)) != all.end();
}

void CacheCore::lay(const krm::Json& object, TimePoint now) {
  const ObjectKey key = shards::object_key(object, default_cluster_);
  const std::uint64_t revision =
      shards::revision_number(object.text({"metadata", "resourceVersion"}));
  const std::string text(text_of(key));
  const Id base = keys_->find(text);
  const bool faster = base == shards::KeyTable::kNone
                          ? recent_.has(text, gone(uid_hash(object.text({"metadata", "uid"}))))
                          : keys_->revision(base) == revision;
  if (key.name.empty() || faster || recent_.has(text, revision)) {
    return;
  }
  const TimePoint before = deadline();
  std::uint32_t slot = 0;
  if (const auto at = laid_.find(text); at != laid_.end()) {
    slot = at->second;
  } else {
    if (free_overlays_.empty()) {
      free_overlays_.push_back(static_cast<std::uint32_t>(overlays_.size()));
      overlays_.emplace_back();
    }
    slot = free_overlays_.back();
    free_overlays_.pop_back();
    laid_.emplace(text, slot);
    if (base != shards::KeyTable::kNone) {
      remove_from_indexes(base);
    }
  }
  const Id own = kOverlay | slot;
  const Id was = overlays_[slot].used ? own : base;
  overlays_[slot] = {text, revision, now + kOverlayFor, true};
  if (store(own, key, object, was)) {
    echoes_.add(text, revision);
  }
  set_indexes(kOverlay | slot, key);
  note_deadline(before);
}

void CacheCore::lift(std::uint32_t slot) {
  Overlay& overlay = overlays_[slot];
  laid_.erase(overlay.key);
  remove_from_indexes(kOverlay | slot);
  discard(kOverlay | slot);
  if (const Id base = keys_->find(overlay.key); base != shards::KeyTable::kNone && holds(base)) {
    set_indexes(base, key_of(base));
  }
  overlay = {};
  free_overlays_.push_back(slot);
}

void CacheCore::on_upsert(const ObjectKey& key, const krm::Json& object) {
  const bool known = holds(key.id);
  const bool same = store(key.id, key, object, known ? key.id : shards::KeyTable::kNone);
  if (!known) {
    clusters_.add(key.cluster, key.id);
  }
  bool hidden = false, echo = false;
  if (synced_ || !laid_.empty()) {
    const std::string_view text = text_of(key);
    const std::uint64_t revision = keys_->revision(key.id);
    if (synced_) {
      recent_.add(text, revision);
      echo = known && echoes_.has(text, revision);
    }
    if (const auto at = laid_.find(text); at != laid_.end()) {
      hidden = overlays_[at->second].revision != revision;
      if (!hidden) {
        lift(at->second);
      }
    }
  }
  if (!hidden) {
    set_indexes(key.id, key);
  }
  tell({.key = key,
        .kind = known ? Kind::kUpdated : Kind::kAdded,
        .initial = !synced_,
        .echo = echo,
        .minor = same});
}

void CacheCore::on_delete(const ObjectKey& key) {
  if (!laid_.empty()) {
    const auto at = laid_.find(text_of(key));
    // The deletion of one that had this name before says nothing about the present one.
    if (at != laid_.end() && holds(key.id) && uid(key.id) == uid(kOverlay | at->second)) {
      lift(at->second);
    }
  }
  remove_from_indexes(key.id);
  CacheChange change{.key = key, .kind = Kind::kDeleted, .initial = !synced_};
  if (holds(key.id)) {
    clusters_.remove(key.cluster, key.id);
    change.announced = leaving(key.id);
    change.uid = uid(key.id);
    if (synced_) {
      recent_.add(text_of(key), gone(change.uid));
    }
  }
  discard(key.id);
  tell(change);
}

void CacheCore::on_synced() {
  const TimePoint before = deadline();
  synced_ = true;
  note_deadline(before);
}

std::optional<ObjectKey> CacheCore::any_of(std::string_view cluster) const {
  const std::optional<Id> id = clusters_.any(cluster);
  return id ? std::optional(key_of(*id)) : std::nullopt;
}

std::optional<std::uint64_t> CacheCore::revision(const ObjectKey& key) const {
  const Id id = keys_ == nullptr ? shards::KeyTable::kNone : keys_->find(text_of(key));
  return id == shards::KeyTable::kNone ? std::nullopt : std::optional(keys_->revision(id));
}

std::size_t CacheCore::bytes() const noexcept {
  std::size_t sum =
      clusters_.bytes() + (recent_.all.capacity() + echoes_.all.capacity()) * sizeof(std::uint64_t);
  for (const ObjectIndex& one : indexes_) {
    sum += one.bytes();
  }
  return sum;
}

}  // namespace kintsugi::workers
