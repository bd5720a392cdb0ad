// SlotKeeper: with a record that replicas share.
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
  const News news = this->news(own);
  if (!news.is_any || (waiting_ && !news.is_lost)) {
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
    if (auto next = found.slots.changed(shared_change(found.slots, own, told_, news.missed),
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
  take_told(std::move(own));
  if (wrote) {
    wait_for_more(kPause);
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
    tell_of_table();
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
