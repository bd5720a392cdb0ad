#include "store/encryption/encrypted_store.h"

#include <utility>

#include "base/log.h"

namespace kintsugi::store {
namespace {

/// Puts the plain text in the place of a value. @returns what ValueCodec::open says.
Expected<bool> open_value(const ValueCodec& codec, std::string_view key, SharedBytes& value) {
  auto opened = codec.open(key, value.view());
  if (!opened) {
    return fail(std::move(opened.error()));
  }
  if (opened->is_sealed) {
    value = SharedBytes(opened->plain);
    wipe(opened->plain);
  }
  return opened->stale;
}

bool is_sealed(const SharedBytes& value) noexcept { return value.view().starts_with(kSealedMark); }

bool has_sealed(const std::vector<Event>& events) noexcept {
  for (const Event& event : events) {
    if (is_sealed(event.value) || is_sealed(event.previous)) {
      return true;
    }
  }
  return false;
}

}  // namespace

struct EncryptedStore::Shared {
  std::atomic<const ValueCodec*> current = nullptr;

  std::mutex mutex;
  std::vector<std::shared_ptr<const ValueCodec>> all;  // readers may be in any of them
  std::weak_ptr<const std::vector<Event>> last_inner, last_opened;

  /// With the newest codec that can; a value that none opens comes as it would if it were damaged.
  void open_event_value(std::string_view key, SharedBytes& value) {
    if (!is_sealed(value)) {
      return;
    }
    std::string why;
    for (std::size_t i = all.size(); i-- > 0;) {
      const auto stale = open_value(*all[i], key, value);
      if (stale) {
        return;
      }
      why = why.empty() ? stale.error().to_string() : why;
    }
    log_error("an event cannot be decrypted", {{"error", why}});
  }

  /// The same for every subscriber, made once.
  EventBatch opened(const EventBatch& batch) {
    if (batch == nullptr || !has_sealed(*batch)) {
      return batch;
    }
    const std::lock_guard lock(mutex);
    if (last_inner.lock() == batch) {
      if (EventBatch made = last_opened.lock()) {
        return made;
      }
    }
    auto events = std::make_shared<std::vector<Event>>(*batch);
    for (Event& event : *events) {
      open_event_value(event.key, event.value);
      open_event_value(event.key, event.previous);
    }
    last_inner = batch;
    last_opened = events;
    return events;
  }
};

EncryptedStore::EncryptedStore(Store& inner, std::shared_ptr<const ValueCodec> codec)
    : inner_(inner), shared_(std::make_shared<Shared>()) {
  set_codec(std::move(codec));
}

void EncryptedStore::set_codec(std::shared_ptr<const ValueCodec> codec) {
  const std::lock_guard lock(shared_->mutex);
  shared_->current.store(codec.get(), std::memory_order_release);
  shared_->all.push_back(std::move(codec));
}

const ValueCodec& EncryptedStore::codec() const noexcept {
  return *shared_->current.load(std::memory_order_acquire);
}

Expected<Entry> EncryptedStore::get(std::string_view key) const {
  auto entry = inner_.get(key);
  if (!entry) {
    return entry;
  }
  if (auto opened = open_value(codec(), key, entry->value); !opened) {
    return fail(std::move(opened.error()));
  }
  return entry;
}

bool EncryptedStore::is_outdated(std::string_view key, Revision modified) const {
  const ValueCodec& with = codec();
  if (!with.covers(key)) {
    return false;
  }
  auto entry = inner_.get(key);
  const auto outdated = entry && entry->modified == modified ? open_value(with, key, entry->value)
                                                             : Expected<bool>(false);
  return outdated && *outdated;
}

Expected<Revision> EncryptedStore::range(const RangeQuery& query, const Visitor& visit) const {
  const ValueCodec& with = codec();
  Expected<void> failure;
  const auto open_and_visit = [&](const EntryView& entry) {
    auto opened = with.open(entry.key, entry.value);
    if (!opened) {
      failure = fail(std::move(opened.error()));
      return false;
    }
    if (!opened->is_sealed) {
      return visit(entry);
    }
    const bool more = visit({entry.key, opened->plain, entry.created, entry.modified});
    wipe(opened->plain);
    return more;
  };
  auto revision = inner_.range(query, open_and_visit);
  if (!failure) {
    return fail(std::move(failure.error()));
  }
  return revision;
}

void EncryptedStore::commit(std::vector<Op> ops, CommitCallback done) {
  const ValueCodec& with = codec();
  for (Op& op : ops) {
    // A delete without a last state has nothing to hide.
    if (!op.only_expected && (op.type == EventType::kPut || !op.value.empty())) {
      op.value = with.seal(op.key, std::move(op.value));
    }
  }
  inner_.commit(std::move(ops), std::move(done));
}

Expected<Store::Changes> EncryptedStore::changes(std::string_view prefix, Revision after,
                                                 std::size_t limit) const {
  auto changes = inner_.changes(prefix, after, limit);
  if (!changes) {
    return changes;
  }
  for (Event& event : changes->events) {
    for (SharedBytes* value : {&event.value, &event.previous}) {
      if (value->empty()) {
        continue;
      }
      if (auto stale = open_value(codec(), event.key, *value); !stale) {
        return fail(std::move(stale.error()));
      }
    }
  }
  return changes;
}

Store::Subscription EncryptedStore::subscribe(std::function<void(const EventBatch&)> listener) {
  return inner_.subscribe([shared = shared_, listener = std::move(listener)](
                              const EventBatch& batch) { listener(shared->opened(batch)); });
}

}  // namespace kintsugi::store
