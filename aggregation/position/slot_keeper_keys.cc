// SlotKeeper: how one key of tokens follows another.
#include <algorithm>
#include <memory>
#include <utility>

#include "aggregation/position/internal/record_keys.h"
#include "aggregation/position/slot_keeper.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kLongestWait = seconds(3'600);  ///< then the clock is looked at again
constexpr Duration kRetry = seconds(10);

}  // namespace

void SlotKeeper::rotate_key(std::function<void(Expected<void>)> done) {
  if (shared_ != nullptr || !configured_keys_.empty()) {
    done(fail(Errc::kConfig, shared_ != nullptr
                                 ? "the key is that of aggregation.shared_file"
                                 : "the keys are those of aggregation.token_keys_file"));
    return;
  }
  KeyRing next = ring_;
  if (!next.add_next(Secret(random_bytes(32)), unix_seconds())) {
    done(fail(Errc::kConflict, next.has_next() ? "a new key is on its way already"
                                               : "too many keys are still accepted"));
    return;
  }
  store_ring(next, std::move(done));
}

void SlotKeeper::store_ring(const KeyRing& next, std::function<void(Expected<void>)> done) {
  std::vector<store::Op> ops;
  ops.push_back({store::EventType::kPut, std::string(kRingKey),
                 seal_.seal(kRingKey, Secret(next.to_json().dump())), ring_at_});
  store_.commit(std::move(ops), [this, &loop = loop_, owner = alive_.weak(), next,
                                 done = std::move(done)](Expected<store::CommitResult> result) {
    auto kept = std::make_shared<Expected<store::CommitResult>>(std::move(result));
    loop.post([this, owner, next, done, kept] {
      if (owner) {
        ring_stored(next, *kept, done);
      }
    });
  });
}

void SlotKeeper::ring_stored(const KeyRing& next, const Expected<store::CommitResult>& result,
                             const std::function<void(Expected<void>)>& done) {
  if (!result) {
    done(fail(result.error().clone()));
  } else if (result->conflict) {  // its event comes
    done(fail(Errc::kConflict, "another proxy has changed the keys"));
  } else {
    if (ring_at_ != result->revision) {  // its own event has not come
      ring_at_ = result->revision;
      ring_ = next;
      keys_ = ring_.keys();
      publish();
      follow_ring();
    }
    done({});
  }
}

/// The next key signs when it was known here for long: then it is everywhere. Who is first does it.
void SlotKeeper::follow_ring() {
  if (ring_.has_next()) {
    ring_timer_.start(known_for_, [this] { turn_ring(); });
  } else if (const auto at = ring_.next_drop()) {
    const Duration left = seconds(std::max<std::int64_t>(*at - unix_seconds(), 1));
    ring_timer_.start(std::min(left, kLongestWait), [this] { turn_ring(); });
  } else {
    ring_timer_.cancel();
  }
}

void SlotKeeper::turn_ring() {
  KeyRing next = ring_;
  const std::int64_t now = unix_seconds();
  const bool dropped = next.drop_old(now);
  const bool promoted = next.promote(now);
  if (!dropped && !promoted) {
    follow_ring();
    return;
  }
  store_ring(next, [this, promoted](const Expected<void>& stored) {
    if (stored) {
      log_info("keys of continue tokens have changed", {{"signs", promoted ? "a new one" : ""}});
    } else if (stored.error().code() != Errc::kConflict) {
      log_warn("the keys of continue tokens cannot be stored",
               {{"error", stored.error().to_string()}});
    }
    if (!stored) {
      ring_timer_.start(kRetry, [this] { turn_ring(); });
    }
  });
}

}  // namespace kintsugi::aggregation
