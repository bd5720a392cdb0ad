#include "aggregation/position/slot_keeper.h"

#include <algorithm>
#include <utility>

#include "aggregation/position/internal/record_keys.h"
#include "aggregation/position/slot_uid.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"
#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kPause = seconds(1);  ///< changes within it share a generation
constexpr Duration kRetry = seconds(1);

SlotChange change_of(const topology::Snapshot& snapshot) {
  SlotChange change;
  for (const auto& shard : snapshot.shards()) {
    const std::string& uid = slot_uid(shard->spec);
    change.present.push_back(uid);
    std::string& labels = change.labels[uid];
    for (const auto& [key, value] : shard->spec.labels) {
      labels += key + '=' + value + '\n';
    }
  }
  return change;
}

}  // namespace

SlotKeeper::SlotKeeper(net::Loop& loop, store::Store& store, topology::SnapshotPublisher& publisher,
                       Publish publish, const std::string& shared_file)
    : loop_(loop),
      store_(store),
      view_(publisher.attach(loop)),
      publish_(std::move(publish)),
      timer_(loop),
      shared_(shared_file.empty() ? nullptr : std::make_unique<SharedRecord>(shared_file)),
      follow_timer_(loop) {
  view_->on_change(
      alive_.guard([this](const topology::Snapshot&, const topology::Snapshot&) { look(); }));
}

SlotKeeper::~SlotKeeper() = default;

Expected<std::uint32_t> SlotKeeper::take_epoch() {
  if (shared_ != nullptr) {
    return take_shared_epoch();
  }
  const Expected<store::Entry> last = store_.get(kEpochKey);
  if (!last && last.error().code() != Errc::kNotFound) {
    return fail(last.error().clone());
  }
  std::uint32_t epoch = 0;
  if (last) {
    const auto read = parse_decimal<std::uint32_t>(last->value.view());
    if (!read || *read > kMaxEpoch) {
      return fail(Errc::kCorrupt, "the epoch in the store is no number of starts");
    }
    epoch = *read;
  }
  if (epoch == kMaxEpoch) {
    log_error("sequence cursors begin anew: clients may take new ones for old", {});
    epoch = 0;
  }
  ++epoch;
  std::vector<store::Op> ops;
  ops.push_back(
      {store::EventType::kPut, std::string(kEpochKey), std::to_string(epoch), std::nullopt});
  if (const auto stored = store_.commit_wait(std::move(ops)); !stored) {
    return fail(stored.error().clone());
  }
  return epoch;
}

void SlotKeeper::publish() {
  publish_(history_, configured_keys_.empty() ? keys_ : configured_keys_);
}

void SlotKeeper::set_keys(TokenKeys keys) {
  configured_keys_ = std::move(keys);
  if (!keys_.empty()) {
    publish();
  }
}

Expected<void> SlotKeeper::start() {
  if (shared_ != nullptr) {  // take_epoch() has read it
    publish();
    look();
    follow_record();
    return {};
  }
  const Expected<store::Entry> table = store_.get(kTableKey);
  if (table) {
    const Expected<krm::Json> json = krm::Json::parse(table->value.view());
    Expected<SlotHistory> read = json ? SlotHistory::from_json(*json) : fail(Errc::kCorrupt);
    if (!read) {
      return fail(std::move(read.error()).at("slot table in the store"));
    }
    history_ = std::make_shared<const SlotHistory>(std::move(*read));
  } else if (table.error().code() != Errc::kNotFound) {
    return fail(table.error().clone());
  }
  const Expected<store::Entry> key = store_.get(kTokenKey);
  Secret secret;
  if (key) {
    secret = Secret::copy_of(key->value.view());
  } else {
    is_new_ = true;
    secret = Secret(random_bytes(32));
    std::vector<store::Op> ops;
    ops.push_back(
        {store::EventType::kPut, std::string(kTokenKey), std::string(secret.view()), std::nullopt});
    if (const auto stored = store_.commit_wait(std::move(ops)); !stored) {
      return fail(stored.error().clone());
    }
  }
  keys_ = {{1, std::move(secret)}};
  publish();
  look();
  return {};
}

void SlotKeeper::fix(std::uint32_t generation, std::vector<std::string> uids) {
  fixed_generation_ = generation;
  fixed_uids_ = std::move(uids);
  look();
}

std::optional<SlotHistory> SlotKeeper::fixed_table(SlotChange change) const {
  if (!std::is_permutation(change.present.begin(), change.present.end(), fixed_uids_.begin(),
                           fixed_uids_.end())) {
    return std::nullopt;  // the snapshot is about to follow
  }
  change.present = fixed_uids_;
  return history_->fixed(change, fixed_generation_, unix_seconds(), kept_);
}

void SlotKeeper::look() {
  const topology::Snapshot& snapshot = view_->current();
  if (busy_ || !snapshot.shards_listed()) {
    return;
  }
  SlotChange change = change_of(snapshot);
  change.rolled_back = rolled_back_;
  if (shared_ != nullptr && fixed_generation_ == 0) {
    look_shared(std::move(change));
    return;
  }
  if (fixed_generation_ != 0) {
    if (auto next = fixed_table(change)) {
      store_table(std::move(*next));
    }
    return;
  }
  // Merged reads wait for a shard without a slot.
  const bool urgent = std::any_of(change.present.begin(), change.present.end(),
                                  [this](const auto& uid) { return !history_->slot_of(uid); });
  if (waiting_ && !urgent) {
    return;
  }
  rolled_back_.clear();
  if (auto next = history_->changed(change, unix_seconds(), kept_)) {
    store_table(std::move(*next));
  }
}

void SlotKeeper::mark_rolled_back(const std::string& uid) {
  if (std::find(rolled_back_.begin(), rolled_back_.end(), uid) == rolled_back_.end()) {
    rolled_back_.push_back(uid);
  }
  look();
}

void SlotKeeper::store_table(SlotHistory next) {
  busy_ = true;
  auto table = std::make_shared<const SlotHistory>(std::move(next));
  std::vector<store::Op> ops;
  ops.push_back(
      {store::EventType::kPut, std::string(kTableKey), table->to_json().dump(), std::nullopt});
  store_.commit(std::move(ops), [this, owner = alive_.weak(), &loop = loop_,
                                 table](Expected<store::CommitResult> result) {
    loop.post([this, owner, table, ok = result.has_value()] {
      if (!owner) {
        return;
      }
      busy_ = false;
      waiting_ = true;  // what changes within a second is one change
      timer_.start(ok ? kPause : kRetry, [this] {
        waiting_ = false;
        look();
      });
      if (!ok) {
        log_error("the slot table cannot be stored", {});
        return;
      }
      history_ = table;
      log_info("the shards have changed",
               {{"generation", static_cast<std::uint64_t>(table->current().generation)},
                {"slots", static_cast<std::uint64_t>(table->current().uids.size())}});
      publish();
      look();
    });
  });
}

}  // namespace kintsugi::aggregation
