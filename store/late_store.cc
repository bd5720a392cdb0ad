#include "store/late_store.h"

#include "krm/status.h"

namespace kintsugi::store {
namespace {

Error not_open() { return krm::unavailable("the store has not been opened yet", 1); }

}  // namespace

LateStore::~LateStore() { subscription_.reset(); }

void LateStore::open(std::unique_ptr<Store> store) {
  const std::lock_guard lock(opening_);
  store_ = std::move(store);
  Subscription subscription = store_->subscribe([this](const EventBatch& batch) {
    { const std::lock_guard until_told(opening_); }
    early_.publish(batch->back().revision, batch);
  });
  subscription_ = std::move(subscription.token);
  Event begin;
  begin.revision = subscription.from;
  begin.key = kNoRow;
  opened_.store(store_.get(), std::memory_order_release);
  early_.publish(subscription.from,
                 std::make_shared<const std::vector<Event>>(std::vector<Event>{std::move(begin)}));
  for (const std::weak_ptr<Competitor>& one : std::exchange(competitors_, {})) {
    if (const std::shared_ptr<Competitor> competitor = one.lock()) {
      competitor->token = store_->compete(competitor->duty, competitor->listener);
    }
  }
}

Revision LateStore::current() const noexcept {
  const Store* const store = inner();
  return store == nullptr ? 0 : store->current();
}

Revision LateStore::compacted() const noexcept {
  const Store* const store = inner();
  return store == nullptr ? 0 : store->compacted();
}

Expected<Entry> LateStore::get(std::string_view key) const {
  const Store* const store = inner();
  return store == nullptr ? fail(not_open()) : store->get(key);
}

Expected<Revision> LateStore::range(const RangeQuery& query, const Visitor& visit) const {
  const Store* const store = inner();
  return store == nullptr ? fail(not_open()) : store->range(query, visit);
}

Expected<std::uint64_t> LateStore::count(const RangeQuery& query) const {
  const Store* const store = inner();
  return store == nullptr ? fail(not_open()) : store->count(query);
}

void LateStore::commit(std::vector<Op> ops, CommitCallback done) {
  if (Store* const store = inner()) {
    store->commit(std::move(ops), std::move(done));
  } else {
    done(fail(not_open()));
  }
}

void LateStore::synchronize(SynchronizeCallback done) {
  if (Store* const store = inner()) {
    store->synchronize(std::move(done));
  } else {
    done(fail(not_open()));
  }
}

Limits LateStore::limits() const noexcept {
  const Store* const store = inner();
  return store == nullptr ? Limits{} : store->limits();
}

std::shared_ptr<void> LateStore::compete(std::string duty, DutyListener listener) {
  const std::lock_guard lock(opening_);
  auto competitor = std::make_shared<Competitor>();
  if (Store* const store = inner()) {
    competitor->token = store->compete(std::move(duty), std::move(listener));
  } else {
    competitor->duty = std::move(duty);
    competitor->listener = std::move(listener);
    competitors_.push_back(competitor);
  }
  return competitor;
}

Expected<Store::Changes> LateStore::changes(std::string_view prefix, Revision after,
                                            std::size_t limit) const {
  const Store* const store = inner();
  return store == nullptr ? fail(not_open()) : store->changes(prefix, after, limit);
}

Store::Subscription LateStore::subscribe(std::function<void(const EventBatch&)> listener) {
  const std::lock_guard lock(opening_);
  Store* const store = inner();
  return store == nullptr ? early_.add(std::move(listener)) : store->subscribe(std::move(listener));
}

void LateStore::compact(Revision revision) {
  if (Store* const store = inner()) {
    store->compact(revision);
  }
}

StoreStats LateStore::stats() const {
  const Store* const store = inner();
  return store == nullptr ? StoreStats{} : store->stats();
}

Books* LateStore::books() noexcept {
  Store* const store = inner();
  return store == nullptr ? nullptr : store->books();
}

Expected<void> LateStore::health() const {
  const Store* const store = inner();
  return store == nullptr ? fail(not_open()) : store->health();
}

bool LateStore::is_outdated(std::string_view key, Revision modified) const {
  Store* const store = inner();
  return store != nullptr && is_stored_outdated(*store, key, modified);
}

}  // namespace kintsugi::store
