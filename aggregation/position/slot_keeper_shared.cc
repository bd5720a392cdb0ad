// SlotKeeper: with a record that replicas share.
#include <algorithm>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "aggregation/position/internal/sequence_book.h"
#include "aggregation/position/slot_keeper.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kFollow = milliseconds(100);  ///< looks at the record
constexpr Duration kPause = seconds(1);          ///< changes within it share a generation
constexpr Duration kBusy = milliseconds(20);     ///< another replica writes
constexpr int kStartTries = 500;
/// A shard that this replica sees and the record lacks was removed by one that knew it sooner,
/// unless it stays.
constexpr Duration kLag = seconds(5);

bool is_older(const SlotHistory& one, const SlotHistory& other) {
  const auto age = [](const SlotHistory& history) {
    return std::tuple(!history.current().uids.empty(), history.era(), history.current().generation);
  };
  return age(one) < age(other);
}

}  // namespace

Expected<std::uint32_t> SlotKeeper::take_shared_epoch() {
  const auto begin = [this](SharedContent& content) {
    if (content.token_secret.empty()) {
      is_new_ = true;
      content.token_secret = Secret(random_bytes(32));
    }
    content.epoch = content.epoch >= kMaxEpoch ? 1 : content.epoch + 1;
    return true;
  };
  Expected<SharedContent> content = shared_->update(begin);
  for (int i = 0; i < kStartTries && !content && content.error().code() == Errc::kOverloaded; ++i) {
    std::this_thread::sleep_for(kBusy);
    content = shared_->update(begin);
  }
  if (!content) {
    return fail(std::move(content.error()).at("aggregation.shared_file"));
  }
  history_ = std::make_shared<const SlotHistory>(std::move(content->slots));
  keys_ = {{1, std::move(content->token_secret)}};
  return content->epoch;
}

void SlotKeeper::look_shared(SlotChange own) {
  const TimePoint now = loop_.now();
  bool is_lost = false;
  std::set<std::string> missed;
  for (const std::string& uid : own.present) {
    if (!history_->slot_of(uid)) {
      is_lost = true;
      if (missing_.try_emplace(uid, now).first->second + kLag <= now) {
        missed.insert(uid);
      }
    }
  }
  std::erase_if(missing_, [this](const auto& one) { return history_->slot_of(one.first); });
  const bool same = told_ && told_->present == own.present && told_->labels == own.labels;
  if (same && missed.empty() && own.rolled_back.empty()) {
    if (is_lost) {
      timer_.start(kLag, [this] { look(); });
    }
    return;
  }
  if (waiting_ && !is_lost) {
    return;
  }
  bool wrote = false;
  Expected<SharedContent> content = shared_->update([&](SharedContent& found) {
    wrote = false;
    if (is_older(found.slots, *history_)) {  // somebody took the record away
      found.slots = *history_;
      found.token_secret = keys_.front().secret;
      wrote = true;
    }
    if (auto next = found.slots.changed(shared_change(found.slots, own, told_, missed),
                                        unix_seconds(), kept_)) {
      found.slots = std::move(*next);
      wrote = true;
    }
    return wrote;
  });
  if (!content) {
    const bool is_busy = content.error().code() == Errc::kOverloaded;
    if (!is_busy) {
      log_error("the shared record cannot be written",
                {{"file", shared_->path()}, {"error", content.error().to_string()}});
    }
    timer_.start(is_busy ? kBusy : kPause, [this] { look(); });
    return;
  }
  own.rolled_back.clear();
  told_ = std::move(own);
  rolled_back_.clear();
  if (wrote) {
    waiting_ = true;
    timer_.start(kPause, [this] {
      waiting_ = false;
      look();
    });
  }
  adopt(std::move(*content));
}

void SlotKeeper::adopt(SharedContent content) {
  const bool is_news = is_older(*history_, content.slots);
  const bool is_new_key =
      !content.token_secret.empty() && !(content.token_secret == keys_.front().secret);
  if (!is_news && !is_new_key) {
    return;
  }
  if (is_new_key) {
    keys_ = {{1, std::move(content.token_secret)}};
  }
  if (is_news) {
    history_ = std::make_shared<const SlotHistory>(std::move(content.slots));
    log_info("the shards have changed",
             {{"generation", static_cast<std::uint64_t>(history_->current().generation)},
              {"slots", static_cast<std::uint64_t>(history_->current().uids.size())}});
  }
  publish();
}

void SlotKeeper::follow_record() {
  follow_timer_.start(kFollow, [this] {
    if (shared_->has_changed()) {
      if (Expected<SharedContent> content = shared_->read()) {
        adopt(std::move(*content));
        look();
      } else if (content.error().code() == Errc::kNotFound) {
        told_.reset();  // somebody took it away: it is written again
        look();
      }
    }
    follow_record();
  });
}

}  // namespace kintsugi::aggregation
