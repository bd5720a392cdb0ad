// SlotKeeper: records in the store, which other proxies may share.
#include <algorithm>
#include <utility>

#include "aggregation/position/internal/record_keys.h"
#include "aggregation/position/internal/sequence_book.h"
#include "aggregation/position/slot_keeper.h"
#include "base/log.h"
#include "base/strings.h"
#include "krm/json.h"
#include "store/compared.h"

namespace kintsugi::aggregation {
namespace {

constexpr int kStartTries = 500;  ///< others start at the same time

tl::unexpected<Error> busy() {
  return fail(Errc::kOverloaded, "other proxies write the records all the time");
}

}  // namespace

Expected<std::uint32_t> SlotKeeper::take_epoch() {
  if (shared_ != nullptr) {
    return take_shared_epoch();
  }
  for (int i = 0; i < kStartTries; ++i) {
    const Expected<store::Entry> last = store::get_or_none(store_, kEpochKey);
    if (!last) {
      return fail(last.error().clone());
    }
    std::uint32_t epoch = 0;
    if (last->modified != 0) {
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
    const auto written =
        store::put_compared(store_, kEpochKey, std::to_string(epoch), last->modified);
    if (!written) {
      return fail(written.error().clone());
    }
    if (*written) {
      return epoch;
    }
  }
  return busy();
}

Expected<void> SlotKeeper::read_table() {
  const Expected<store::Entry> table = store::get_or_none(store_, kTableKey);
  if (!table) {
    return fail(table.error().clone());
  }
  if (table->modified == 0) {
    return {};
  }
  const Expected<krm::Json> json = krm::Json::parse(table->value.view());
  Expected<SlotHistory> read = json ? SlotHistory::from_json(*json) : fail(Errc::kCorrupt);
  if (!read) {
    return fail(std::move(read.error()).at("slot table in the store"));
  }
  history_ = std::make_shared<const SlotHistory>(std::move(*read));
  table_at_ = table->modified;
  return {};
}

Expected<bool> SlotKeeper::read_key() {
  const Expected<store::Entry> ring = store::get_or_none(store_, kRingKey);
  const Expected<store::Entry> first = store::get_or_none(store_, kTokenKey);
  if (!ring || !first) {
    return fail((ring ? first.error() : ring.error()).clone());
  }
  if (ring->modified == 0 && first->modified == 0) {
    return false;
  }
  KeyRing now;
  if (ring->modified != 0) {
    const auto plain = seal_.open(kRingKey, ring->value.view());
    if (!plain) {
      return fail(plain.error().clone());
    }
    const Expected<krm::Json> json = krm::Json::parse(plain->view());
    auto read = json ? KeyRing::from_json(*json) : fail(Errc::kCorrupt);
    if (!read) {
      return fail(std::move(read.error()).at(std::string(kRingKey)));
    }
    now = std::move(*read);
  } else {
    auto plain = seal_.open(kTokenKey, first->value.view());
    if (!plain) {
      return fail(std::move(plain.error()));
    }
    now = KeyRing::of(std::move(*plain));
  }
  const bool is_new = keys_.empty() || ring->modified != ring_at_;
  ring_at_ = ring->modified;
  if (is_new) {
    keys_ = now.keys();
    ring_ = std::move(now);
    follow_ring();
  }
  return is_new;
}

Expected<void> SlotKeeper::make_key() {
  for (int i = 0; i < kStartTries && keys_.empty(); ++i) {
    if (const auto read = read_key(); !read) {
      return fail(read.error().clone());
    }
    if (!keys_.empty()) {
      return seal_again();
    }
    const auto written =
        store::put_compared(store_, kTokenKey, seal_.seal(kTokenKey, Secret(random_bytes(32))), 0);
    if (!written) {
      return fail(written.error().clone());
    }
    is_new_ = *written;
  }
  return keys_.empty() ? Expected<void>(busy()) : Expected<void>();
}

Expected<void> SlotKeeper::seal_again() {
  for (const std::string_view name : {kTokenKey, kRingKey}) {
    const Expected<store::Entry> found = store::get_or_none(store_, name);
    if (!found) {
      return fail(found.error().clone());
    }
    if (found->modified == 0 || seal_.fits(found->value.view())) {
      continue;
    }
    const auto plain = seal_.open(name, found->value.view());
    if (!plain) {
      return fail(plain.error().clone());
    }
    // Who is second has nothing to add.
    const auto written =
        store::put_compared(store_, name, seal_.seal(name, *plain), found->modified);
    if (!written) {
      return fail(written.error().clone());
    }
  }
  const auto again = read_key();
  return again ? Expected<void>() : fail(again.error().clone());
}

void SlotKeeper::follow_store() {
  auto subscription = store_.subscribe([&loop = loop_, look = alive_.guard([this] {
    look_at_records();
  })](const store::EventBatch& batch) {
    const bool changed = std::any_of(batch->begin(), batch->end(), [](const auto& event) {
      return event.key == kTableKey || event.key == kTokenKey || event.key == kRingKey;
    });
    if (changed) {
      loop.post(look);
    }
  });
  changes_ = std::move(subscription.token);
}

/// What others have written; while a table of ours is on its way, after that.
void SlotKeeper::look_at_records() {
  if (busy_ || !store_.is_shared()) {
    return;
  }
  const store::Revision table_at = table_at_;
  const Expected<void> table = read_table();
  const Expected<bool> key = read_key();
  if (!table || !key) {
    log_error("the records of merged reads cannot be read",
              {{"error", (table ? key.error() : table.error()).to_string()}});
    return;
  }
  const bool is_new_table = table_at_ != table_at;
  if (is_new_table) {
    tell_of_table();
  }
  if (is_new_table || *key) {
    publish();
  }
  if (is_new_table) {
    look();
  }
}

}  // namespace kintsugi::aggregation
