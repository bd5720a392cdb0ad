#include "aggregation/position/move_keeper.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "krm/json.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kKey = "kintsugi.merge/moves";  ///< no key of an object
constexpr Duration kPause = milliseconds(250);
constexpr Duration kRetry = seconds(1);

}  // namespace

MoveKeeper::MoveKeeper(net::Loop& loop, store::Store& store, std::shared_ptr<MoveBook> book)
    : loop_(loop), store_(store), book_(std::move(book)), timer_(loop) {}

Expected<void> MoveKeeper::start() {
  if (store_.is_shared()) {
    follow();
  }
  if (auto known = read(); !known) {
    return known;
  }
  book_->on_change([&loop = loop_, wait = alive_.guard([this] {
    timer_.start(kPause, [this] { save(); });
  })] { loop.post(wait); });
  return {};
}

/// What cannot be read is no reason to serve nothing, and is written anew.
Expected<void> MoveKeeper::read() {
  const Expected<store::Entry> stored = store_.get(kKey);
  if (!stored) {
    const bool is_absent = stored.error().code() == Errc::kNotFound;
    return is_absent ? Expected<void>() : fail(stored.error().clone());
  }
  if (stored->modified == at_) {
    return {};
  }
  at_ = stored->modified;
  const Expected<krm::Json> json = krm::Json::parse(stored->value.view());
  auto theirs = json ? MoveBook::Record::from_json(*json) : fail(Errc::kCorrupt);
  if (!theirs) {
    log_error("what was known of moved clusters cannot be read", {});
    return {};
  }
  book_->take(stored_, *theirs);
  stored_ = std::move(*theirs);
  return {};
}

void MoveKeeper::follow() {
  auto subscription = store_.subscribe([&loop = loop_, look = alive_.guard([this] {
    if (!busy_) {
      (void)read();
    }
  })](const store::EventBatch& batch) {
    const bool changed = std::any_of(batch->begin(), batch->end(),
                                     [](const auto& event) { return event.key == kKey; });
    if (changed) {
      loop.post(look);
    }
  });
  changes_ = std::move(subscription.token);
}

void MoveKeeper::save() {
  if (busy_) {
    timer_.start(kPause, [this] { save(); });
    return;
  }
  (void)read();
  MoveBook::Record record = book_->record();
  if (record == stored_) {
    return;
  }
  busy_ = true;
  std::vector<store::Op> ops;
  ops.push_back({store::EventType::kPut, std::string(kKey), record.to_json().dump(), at_});
  store_.commit(std::move(ops),
                [this, &loop = loop_, owner = alive_.weak(),
                 record = std::move(record)](Expected<store::CommitResult> result) mutable {
                  auto kept = std::make_shared<Expected<store::CommitResult>>(std::move(result));
                  loop.post([this, owner, record = std::move(record), kept]() mutable {
                    if (owner) {
                      saved(std::move(record), *kept);
                    }
                  });
                });
}

void MoveKeeper::saved(MoveBook::Record record, const Expected<store::CommitResult>& result) {
  const auto again = [this] { timer_.start(kRetry, [this] { save(); }); };
  if (result && result->conflict) {  // another proxy was first: again, with what that has written
    store_.synchronize([&loop = loop_, go_on = alive_.guard([this] {
      busy_ = false;
      save();
    })](const Expected<store::Revision>& /*at*/) { loop.post(go_on); });
    return;
  }
  busy_ = false;
  if (!result) {
    log_error("what is known of moved clusters cannot be stored", {});
    again();
    return;
  }
  stored_ = std::move(record);
  at_ = result->revision;
  (void)read();
}

}  // namespace kintsugi::aggregation
