#include "store/memory/memory_store.h"

#include <algorithm>
#include <utility>

#include "store/internal/transaction.h"
#include "store/raise.h"
#include "store/undated.h"

namespace kintsugi::store {

Revision MemoryStore::current() const noexcept {
  const std::lock_guard lock(mutex_);
  return current_;
}

Revision MemoryStore::compacted() const noexcept {
  const std::lock_guard lock(mutex_);
  return compacted_;
}

const MemoryStore::Version* MemoryStore::live(std::string_view key) const {
  const auto found = keys_.find(key);
  return found != keys_.end() && found->second.back().end == 0 ? &found->second.back() : nullptr;
}

Expected<Entry> MemoryStore::get(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  if (fault_ != Errc::kOk) {
    return fail(fault_, "the disk is gone");
  }
  const Version* version = live(key);
  if (version == nullptr) {
    return fail(Errc::kNotFound);
  }
  return Entry{std::string(key), version->value, version->created, version->modified};
}

Expected<std::vector<Entry>> MemoryStore::collect(const RangeQuery& query, Revision& at) const {
  const std::lock_guard lock(mutex_);
  at = query.at == 0 ? current_ : query.at;
  if (at > current_) {
    return fail(Errc::kFutureRevision);
  }
  if (at < compacted_) {
    return fail(Errc::kCompacted);
  }
  std::vector<Entry> entries;
  for (auto it = keys_.lower_bound(std::max(query.prefix, query.start)); it != keys_.end(); ++it) {
    if (!it->first.starts_with(query.prefix)) {
      break;
    }
    for (const Version& version : it->second) {
      if (version.modified <= at && (version.end == 0 || version.end > at)) {
        entries.push_back({it->first, version.value, version.created, version.modified});
      }
    }
  }
  return entries;
}

Expected<Revision> MemoryStore::range(const RangeQuery& query, const Visitor& visit) const {
  Revision at = 0;
  auto entries = collect(query, at);
  if (!entries) {
    return fail(std::move(entries).error());
  }
  for (const Entry& entry : *entries) {
    if (!visit({entry.key, entry.value.view(), entry.created, entry.modified})) {
      break;
    }
  }
  return at;
}

Expected<std::uint64_t> MemoryStore::count(const RangeQuery& query) const {
  Revision at = 0;
  auto entries = collect(query, at);
  if (!entries) {
    return fail(std::move(entries).error());
  }
  return entries->size();
}

Expected<CommitResult> MemoryStore::apply(std::vector<Op>& ops, std::vector<Event>& events) {
  if (auto valid = check_transaction(ops, limits()); !valid) {
    return fail(std::move(valid).error());
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Version* version = live(ops[i].key);
    const Revision present = version == nullptr ? 0 : version->modified;
    const Revision actual = ops[i].key == kRaiseKey ? current_ : present;
    if (ops[i].expected && *ops[i].expected != actual) {
      ++conflicts_;
      return CommitResult{0, true, i, actual, {}};
    }
  }
  const Revision revision = next_revision(current_, ops);
  if (only_raises(ops)) {
    current_ = revision - 1;
  }
  std::erase_if(ops, [](const Op& op) { return op.only_expected; });
  for (std::size_t i = 0; books_.is_open() && i < ops.size(); ++i) {
    const Version* before = live(ops[i].key);
    books_.row(ops[i].key, before != nullptr ? std::optional(before->value.view()) : std::nullopt,
               ops[i].type == EventType::kPut ? std::optional<std::string_view>(ops[i].value)
                                              : std::nullopt,
               ops[i].keeps);
  }
  if (auto excess = books_.settle()) {
    return CommitResult{0, false, 0, 0, excess};
  }
  books_.publish();
  for (Op& op : ops) {
    const Version* before = live(op.key);
    if (before == nullptr && op.type == EventType::kDelete) {
      continue;
    }
    Event event{revision, op.type, op.key, SharedBytes(op.value), {}, revision, 0};
    if (before != nullptr) {
      event.previous = before->value;
      event.created = before->created;
      event.previous_modified = before->modified;
    }
    event.created = is_undated(op) ? kUndated : event.created;
    std::vector<Version>& versions = keys_[op.key];
    if (before != nullptr) {
      versions.back().end = revision;
    }
    if (op.type == EventType::kPut) {
      versions.push_back({event.created, revision, 0, event.value});
    }
    log_.push_back(event);
    events.push_back(std::move(event));
  }
  if (!events.empty()) {
    current_ = revision;
    ++commits_;
  }
  return CommitResult{current_, false, 0, 0, {}};
}

void MemoryStore::commit(std::vector<Op> ops, CommitCallback done) {
  const bool makes = !ops.empty() && ops.front().expected == Revision{0};
  if (makes && meanwhile_) {
    std::exchange(meanwhile_, {})();
  }
  std::unique_lock lock(mutex_);
  auto events = std::make_shared<std::vector<Event>>();
  const bool loses = makes && lost_races_ > 0;
  lost_races_ -= loses ? 1 : 0;
  auto result = fault_ != Errc::kOk ? Expected<CommitResult>(fail(fault_, "the disk is gone"))
                : loses             ? CommitResult{0, true, 0, current_, {}}
                                    : apply(ops, *events);
  deliveries_.push_back({current_, std::move(events), std::move(done), std::move(result)});
  if (delivering_) {
    return;
  }
  delivering_ = true;
  while (!deliveries_.empty()) {
    Delivery next = std::move(deliveries_.front());
    deliveries_.pop_front();
    lock.unlock();
    subscribers_.publish(next.revision, next.batch);
    if (next.done) {
      next.done(std::move(next.result));
    }
    lock.lock();
  }
  delivering_ = false;
}

Expected<Store::Changes> MemoryStore::changes(std::string_view prefix, Revision after,
                                              std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  if (after > current_) {
    return fail(Errc::kFutureRevision);
  }
  if (after < compacted_) {
    return fail(Errc::kCompacted);
  }
  Changes changes;
  if (limit == 0) {
    changes.complete_to = after;
    return changes;
  }
  for (const Event& event : log_) {
    if (event.revision <= after || !event.key.starts_with(prefix)) {
      continue;
    }
    if (changes.events.size() >= limit && event.revision != changes.events.back().revision) {
      changes.complete_to = event.revision - 1;
      return changes;
    }
    changes.events.push_back(event);
  }
  changes.complete_to = current_;
  return changes;
}

Store::Subscription MemoryStore::subscribe(std::function<void(const EventBatch&)> listener) {
  return subscribers_.add(std::move(listener));
}

void MemoryStore::compact(Revision revision) {
  const std::lock_guard lock(mutex_);
  compacted_ = std::max(compacted_, std::min(revision, current_));
  while (!log_.empty() && log_.front().revision <= compacted_) {
    log_.pop_front();
  }
  for (auto it = keys_.begin(); it != keys_.end();) {
    std::erase_if(it->second, [&](const Version& version) {
      return version.end != 0 && version.end <= compacted_;
    });
    it = it->second.empty() ? keys_.erase(it) : std::next(it);
  }
}

StoreStats MemoryStore::stats() const {
  const std::lock_guard lock(mutex_);
  StoreStats stats;
  stats.current = current_;
  stats.compacted = compacted_;
  for (const auto& [key, versions] : keys_) {
    stats.keys += versions.back().end == 0 ? 1U : 0U;
    for (const Version& version : versions) {
      stats.bytes += key.size() + version.value.size();
    }
  }
  stats.commits = commits_;
  stats.conflicts = conflicts_;
  return stats;
}

}  // namespace kintsugi::store
