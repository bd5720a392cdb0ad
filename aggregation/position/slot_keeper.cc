#include "aggregation/position/slot_keeper.h"

#include <algorithm>
#include <utility>

#include "aggregation/position/internal/record_keys.h"
#include "aggregation/position/slot_uid.h"
#include "base/log.h"
#include "base/time.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kPause = seconds(1);  ///< changes within it share a generation
constexpr Duration kRetry = seconds(1);
constexpr Duration kBusy = milliseconds(20);  ///< after another proxy
/// A shard that is seen here and that the table lacks was removed by a proxy that knew it sooner,
/// unless it stays.
constexpr Duration kLag = seconds(5);

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
      ring_timer_(loop),
      timer_(loop),
      shared_(shared_file.empty() ? nullptr : std::make_unique<SharedRecord>(shared_file)),
      follow_timer_(loop) {
  view_->on_change(
      alive_.guard([this](const topology::Snapshot&, const topology::Snapshot&) { look(); }));
}

SlotKeeper::~SlotKeeper() = default;

void SlotKeeper::publish() {
  publish_(own_ != nullptr ? own_ : history_, configured_keys_.empty() ? keys_ : configured_keys_);
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
  if (store_.is_shared()) {
    follow_store();
  }
  for (const auto step : {&SlotKeeper::read_table, &SlotKeeper::make_key}) {
    if (auto done = (this->*step)(); !done) {
      return done;
    }
  }
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
  SlotChange own = change_of(snapshot);
  own.rolled_back = rolled_back_;
  if (fixed_generation_ != 0) {
    look_fixed(std::move(own));
    return;
  }
  if (shared_ != nullptr) {
    look_shared(std::move(own));
    return;
  }
  // Merged reads wait for a shard without a slot.
  bool urgent = std::any_of(own.present.begin(), own.present.end(),
                            [this](const auto& uid) { return !history_->slot_of(uid); });
  SlotChange change = own;
  if (store_.is_shared()) {
    const News news = this->news(own);
    if (!news.is_any) {
      return;
    }
    change = shared_change(*history_, own, told_, news.missed);
  }
  if (waiting_ && !urgent) {
    return;
  }
  if (auto next = history_->changed(change, unix_seconds(), kept_)) {
    store_table(std::move(*next), std::move(own));
  } else {
    take_told(std::move(own));
  }
}

SlotKeeper::News SlotKeeper::news(const SlotChange& own) {
  const TimePoint now = loop_.now();
  News news;
  for (const std::string& uid : own.present) {
    if (!history_->slot_of(uid)) {
      news.is_lost = true;
      if (missing_.try_emplace(uid, now).first->second + kLag <= now) {
        news.missed.insert(uid);
      }
    }
  }
  std::erase_if(missing_, [this](const auto& one) { return history_->slot_of(one.first); });
  const bool same = told_ && told_->present == own.present && told_->labels == own.labels;
  news.is_any = !same || !news.missed.empty() || !own.rolled_back.empty();
  if (!news.is_any && news.is_lost) {
    wait_for_more(kLag);
  }
  return news;
}

void SlotKeeper::look_fixed(SlotChange own) {
  auto next = fixed_table(own);
  if (!next) {
    return;
  }
  const bool is_ahead =
      table_at_ != 0 && history_->current().generation >= next->current().generation;
  if (!store_.is_shared() || !is_ahead) {
    store_table(std::move(*next), std::move(own));
  } else if (own_ == nullptr || own_->current() != next->current()) {
    own_ = std::make_shared<const SlotHistory>(std::move(*next));
    publish();
  }
}

void SlotKeeper::mark_rolled_back(const std::string& uid) {
  if (std::find(rolled_back_.begin(), rolled_back_.end(), uid) == rolled_back_.end()) {
    rolled_back_.push_back(uid);
  }
  look();
}

void SlotKeeper::wait_for_more(Duration pause) {
  waiting_ = true;
  timer_.start(pause, [this] {
    waiting_ = false;
    look();
  });
}

void SlotKeeper::take_told(SlotChange told) {
  std::erase_if(rolled_back_, [&told](const std::string& uid) {
    return std::find(told.rolled_back.begin(), told.rolled_back.end(), uid) !=
           told.rolled_back.end();
  });
  told.rolled_back.clear();
  told_ = std::move(told);
}

void SlotKeeper::store_table(SlotHistory next, SlotChange told) {
  busy_ = true;
  auto table = std::make_shared<const SlotHistory>(std::move(next));
  std::vector<store::Op> ops;
  ops.push_back(
      {store::EventType::kPut, std::string(kTableKey), table->to_json().dump(), std::nullopt});
  if (shared_ == nullptr) {  // else nobody has read it
    ops.back().expected = table_at_;
  }
  store_.commit(std::move(ops), [this, owner = alive_.weak(), &loop = loop_, table,
                                 told = std::move(told)](Expected<store::CommitResult> result) {
    auto kept = std::make_shared<Expected<store::CommitResult>>(std::move(result));
    loop.post([this, owner, table, told, kept] {
      if (owner) {
        stored(table, told, *kept);
      }
    });
  });
}

void SlotKeeper::stored(const SlotHistoryPtr& table, SlotChange told,
                        const Expected<store::CommitResult>& result) {
  if (result && result->conflict) {  // another proxy was first: again, on what it has written
    store_.synchronize([&loop = loop_, again = alive_.guard([this] {
      busy_ = false;
      look_at_records();
      wait_for_more(kBusy);
    })](const Expected<store::Revision>& /*at*/) { loop.post(again); });
    return;
  }
  busy_ = false;
  wait_for_more(result ? kPause : kRetry);  // what changes within a second is one change
  if (!result) {
    log_error("the slot table cannot be stored", {{"error", result.error().to_string()}});
    return;
  }
  take_told(std::move(told));
  history_ = table;
  table_at_ = result->revision;
  own_.reset();
  tell_of_table();
  publish();
  look_at_records();
  look();
}

void SlotKeeper::tell_of_table() const {
  log_info("the shards have changed",
           {{"generation", static_cast<std::uint64_t>(history_->current().generation)},
            {"slots", static_cast<std::uint64_t>(history_->current().uids.size())}});
}

}  // namespace kintsugi::aggregation
