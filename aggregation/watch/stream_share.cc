#include "aggregation/watch/stream_share.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/memory.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kRest = seconds(1);       ///< of a reader that was too far behind
constexpr Duration kPoll = milliseconds(1);  ///< what comes faster is looked for, not announced

}  // namespace

/// Between a home and one reader.
struct StreamRelay {
  StreamRelay(std::shared_ptr<StreamHomes> of, net::Loop& to, StreamShare& share)
      : homes(std::move(of)), loop(to), reader(&share) {
    homes->relays_.fetch_add(1, std::memory_order_relaxed);
  }
  ~StreamRelay() {
    homes->relays_.fetch_sub(1, std::memory_order_relaxed);
    homes->queue_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  StreamRelay(const StreamRelay&) = delete;
  StreamRelay& operator=(const StreamRelay&) = delete;

  enum class End : std::uint8_t { kNone, kHomeGone, kShardAway, kCut };

  /// The home's: false: the reader is too far behind.
  [[nodiscard]] bool push(const SharedBytes& batch) noexcept {
    const std::size_t size = batch.size();
    const bool fits = bytes.load(std::memory_order_relaxed) + size <= StreamHomes::kMostBytes ||
                      bytes.load(std::memory_order_relaxed) == 0;
    if (!fits) {
      return false;
    }
    add(size);  // the reader may take it at once
    if (!batches.push(batch)) {
      take(size);
      return false;
    }
    return true;
  }
  /// The reader's.
  [[nodiscard]] std::optional<SharedBytes> pop() noexcept {
    std::optional<SharedBytes> batch = batches.pop();
    if (batch) {
      take(batch->size());
    }
    return batch;
  }
  void add(std::size_t size) noexcept {
    bytes.fetch_add(size, std::memory_order_relaxed);
    homes->queue_bytes_.fetch_add(size, std::memory_order_relaxed);
  }
  void take(std::size_t size) noexcept {
    bytes.fetch_sub(size, std::memory_order_relaxed);
    homes->queue_bytes_.fetch_sub(size, std::memory_order_relaxed);
  }
  /// The home's: one wake-up for all that comes until the reader is calm().
  static void wake(const std::shared_ptr<StreamRelay>& relay) {
    if (!relay->woken.exchange(true)) {
      relay->homes->wakes_.fetch_add(1, std::memory_order_relaxed);
      relay->loop.post([relay] {
        if (relay->reader != nullptr) {
          relay->reader->on_woken();
        }
      });
    }
  }
  /// The reader's: it wants to be woken for what comes from now on, and sees what came before.
  void calm() noexcept { woken.exchange(false); }
  /// The home's: the last it does.
  static void finish(const std::shared_ptr<StreamRelay>& relay, End how) {
    relay->end.store(how);
    if (!relay->left.load()) {  // then its loop may have gone
      wake(relay);
    }
  }

  const std::shared_ptr<StreamHomes> homes;
  net::Loop& loop;
  StreamShare* reader;  // its loop's own; null: it has left
  SpscRing<SharedBytes> batches{StreamHomes::kMostBatches};
  std::atomic<std::size_t> bytes = 0;
  std::atomic<bool> woken = false, left = false;
  std::atomic<End> end = End::kNone;
};

StreamHomes::Stats StreamHomes::stats() const noexcept {
  return {relays_.load(std::memory_order_relaxed), queue_bytes_.load(std::memory_order_relaxed),
          cut_.load(std::memory_order_relaxed), wakes_.load(std::memory_order_relaxed)};
}

StreamShare::StreamShare(std::shared_ptr<StreamHomes> homes, net::Loop& loop, std::string key,
                         Stream& stream)
    : homes_(std::move(homes)),
      loop_(loop),
      key_(std::move(key)),
      stream_(stream),
      again_(loop),
      poll_(loop) {}

StreamShare::~StreamShare() { be_lost(false); }

void StreamShare::be_live(std::string_view encoding) {
  be_lost(false);
  place_ = key_ + '\n' + std::string(encoding);
  claim();
}

void StreamShare::claim() {
  const std::scoped_lock lock(homes_->mutex_);
  const auto [home, is_new] = homes_->homes_.try_emplace(place_, StreamHomes::Home{&loop_, this});
  if (is_new) {
    role_ = Role::kHome;
    newest_ = stream_.position();
    return;
  }
  role_ = Role::kBehind;
  relay_ = std::make_shared<StreamRelay>(homes_, loop_, *this);
  // A home leaves the table on its loop, and before that goes.
  home->second.loop->post([homes = homes_, key = place_, relay = relay_, at = home->second.loop] {
    StreamShare* share = nullptr;
    {
      const std::scoped_lock again(homes->mutex_);
      const auto found = homes->homes_.find(key);
      share =
          found != homes->homes_.end() && found->second.loop == at ? found->second.share : nullptr;
    }
    if (share == nullptr) {
      StreamRelay::finish(relay, StreamRelay::End::kHomeGone);
    } else {
      share->admit(relay);
    }
  });
}

void StreamShare::be_lost(bool away) noexcept {
  again_.cancel();
  if (std::exchange(role_, Role::kAlone) == Role::kHome) {
    {
      const std::scoped_lock lock(homes_->mutex_);
      homes_->homes_.erase(place_);
    }
    for (const auto& relay : std::exchange(relays_, {})) {
      StreamRelay::finish(relay, away ? StreamRelay::End::kShardAway : StreamRelay::End::kHomeGone);
    }
    give_back(batch_);
  }
  leave();
}

void StreamShare::leave() noexcept {
  poll_.cancel();
  if (relay_ != nullptr) {
    relay_->reader = nullptr;
    relay_->left.store(true);
    relay_.reset();
  }
  since_ = 0;
}

void StreamShare::admit(const std::shared_ptr<StreamRelay>& relay) {
  std::erase_if(relays_, [](const auto& one) { return one->left.load(); });
  relays_.push_back(relay);
  relay->loop.post([relay, since = newest_] {
    if (relay->reader != nullptr) {
      relay->reader->on_admitted(since);
    }
  });
}

void StreamShare::on_admitted(std::uint64_t since) {
  since_ = since;
  join_if_level();
}

void StreamShare::join_if_level() {
  if (role_ == Role::kBehind && since_ != 0 && stream_.position() >= since_) {
    role_ = Role::kReader;
    stream_.on_joined();
    drain();
  }
}

void StreamShare::relay_batch() {
  const SharedBytes batch{std::string_view(batch_)};
  batch_.clear();
  std::erase_if(relays_, [&](const std::shared_ptr<StreamRelay>& relay) {
    if (relay->left.load()) {
      return true;
    }
    const bool taken = relay->push(batch);
    if (taken) {
      StreamRelay::wake(relay);
    } else {
      homes_->cut_.fetch_add(1, std::memory_order_relaxed);
      StreamRelay::finish(relay, StreamRelay::End::kCut);
    }
    return !taken;
  });
}

void StreamShare::on_woken() {
  if (role_ == Role::kReader && loop_.now() - drained_at_ < kPoll) {
    poll_.start(kPoll, [this] { poll(); });
    return;
  }
  relay_->calm();
  drain();
}

/// Nobody wakes it meanwhile.
void StreamShare::poll() {
  if (drain()) {
    poll_.start(kPoll, [this] { poll(); });
  } else if (relay_ != nullptr) {
    relay_->calm();
    drain();
  }
}

bool StreamShare::drain() {
  bool any = false;
  drained_at_ = loop_.now();
  const std::shared_ptr<StreamRelay> relay = relay_;
  const StreamRelay::End end = relay->end.load();  // before the last batches are taken
  for (std::size_t taken = 0; role_ == Role::kReader && relay == relay_;) {
    if (taken >= StreamHomes::kMostPerTurn) {
      poll_.start(kPoll, [this] { poll(); });
      return true;
    }
    const std::optional<SharedBytes> batch = relay->pop();
    if (!batch) {
      break;
    }
    any = true;
    taken += batch->size();
    stream_.on_relayed(batch->view());
  }
  if (end == StreamRelay::End::kNone || relay != relay_) {
    return any && relay == relay_;
  }
  const bool joined = role_ == Role::kReader;
  leave();
  role_ = Role::kAlone;
  if (joined) {
    stream_.on_home_lost(end == StreamRelay::End::kShardAway);
  } else {
    // Its own stream goes on: it is home now, or reads the next one's.
    again_.start(end == StreamRelay::End::kCut ? kRest : Duration{}, [this] { claim(); });
  }
  return false;
}

}  // namespace kintsugi::aggregation
