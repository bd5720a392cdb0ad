#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/core.h"
#include "store/raise.h"
#include "store/undated.h"

// Makes the mirror what etcd is at one revision: the difference, in the order of revisions. What
// was between is gone, so history begins there. Until it is whole the position stays where it was:
// of a row that was written twice the mirror lacks the first, which somebody may wait for.
namespace kintsugi::store::etcd {
namespace {

constexpr std::uint64_t kPage = 1'000;
constexpr std::size_t kMostAtOnce = 100;
constexpr Duration kFillTimeout = seconds(30);
constexpr std::string_view kNoRow{"\x01none", 5};
constexpr std::size_t kFedAtOnce = 10'000;

std::uint64_t hash_of(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

Error fault_of(const Reply& reply) {
  return Error(reply.status && is_compacted(*reply.status) ? Errc::kCompacted : Errc::kUnavailable,
               reply.text());
}

}  // namespace

net::Task<Expected<void>> Core::fill(std::size_t member) {
  const TimePoint begin = now();
  ++shared_.resyncs;
  net::Task<Expected<Listing>> listing_task = list(member);
  Expected<Listing> listing = co_await listing_task;
  if (!listing) {
    co_return fail(std::move(listing).error());
  }
  const Revision revision = listing->revision + offset_;
  const std::size_t rows = listing->present.size();
  const std::size_t changed = listing->changed.size();
  Landmark landmark = listing->newest;
  if (auto noted = note_identity(true); !noted) {
    co_return noted;
  }
  on_mirror_published();           // as far as it is whole
  shared_.lost_before = revision;  // before the first part of it: who comes from below lists
  shared_.is_comparing = true;     // until one of these has come to its end
  net::Task<Expected<void>> equalling = make_equal(member, std::move(*listing));
  Expected<void> equal = co_await equalling;
  if (!equal) {
    co_return equal;
  }
  if (auto noted = note_identity(false); !noted) {
    co_return noted;
  }
  shared_.is_comparing = false;
  landmark_ = std::move(landmark);
  told_ = std::max(told_, revision);
  WriteActions actions;
  writes_book_.on_resync(now(), actions);
  perform(std::move(actions));
  on_mirror_published();
  log_info("mirror of etcd filled",
           {{"revision", revision},
            {"rows", static_cast<std::uint64_t>(rows)},
            {"changed", static_cast<std::uint64_t>(changed)},
            {"ms", static_cast<std::int64_t>((now() - begin) / milliseconds(1))}});
  co_return Expected<void>();
}

net::Task<Expected<void>> Core::make_equal(std::size_t member, Listing listing) {
  const Revision revision = listing.revision + offset_;
  net::Task<Expected<void>> copying = copy(member, std::move(listing));
  Expected<void> copied = co_await copying;
  if (!copied) {
    co_return copied;
  }
  net::Task<Expected<void>> waiting = wait_for_mirror();
  Expected<void> whole = co_await waiting;
  if (!whole) {
    co_return whole;
  }
  net::Task<Expected<void>> forgetting = forget_history(revision);
  Expected<void> forgotten = co_await forgetting;
  co_return forgotten;
}

/// What was before `revision` is not known, deletes that nothing came after included. Until nobody
/// can ask for it any more: the mirror compacts before it does what it is given next.
net::Task<Expected<void>> Core::forget_history(Revision revision) {
  std::vector<Op> raise = {raise_from(fed_, revision)};
  net::Task<bool> raising = do_in_mirror(std::move(raise));
  const bool raised = co_await raising;
  if (!raised) {
    shared_.mirror_torn = true;
    co_return fail(Errc::kIo, "the mirror cannot be written");
  }
  fed_ = revision;
  shared_.mirror_published = revision;
  mirror_->compact(mirror_->current());
  std::vector<Op> nothing(1);
  nothing[0].type = EventType::kDelete;
  nothing[0].key = kNoRow;
  net::Task<bool> waiting = do_in_mirror(std::move(nothing));
  const bool waited = co_await waiting;
  co_return waited && mirror_->compacted() >= revision
      ? Expected<void>()
      : fail(Errc::kIo, "the mirror cannot be written");
}

net::Task<bool> Core::do_in_mirror(std::vector<Op> ops) {
  net::Answer<bool> answer;
  mirror_->commit(std::move(ops),
                  [&loop = loop_, done = answer.callback()](const Expected<CommitResult>& result) {
                    loop.post([done, is_done = result && !result->conflict] { done(is_done); });
                  });
  const bool done = co_await answer;
  co_return done;
}

/// Which rows are not in the mirror as etcd has them at its newest revision.
net::Task<Expected<Core::Listing>> Core::list(std::size_t member) {
  Listing listing;
  const Revision floor = fed();  // what comes meanwhile is newer than what is listed
  RangeRequest range;
  range.key = keys_.prefix();
  range.range_end = prefix_end(keys_.prefix());
  range.keys_only = true;
  range.limit = kPage;
  bool more = true;
  if (fed() == 0) {
    net::Task<std::uint64_t> looking = marked_begin(member);
    listing.revision = co_await looking;
  }
  const bool is_marked = listing.revision != 0;
  while (more) {
    range.revision = listing.revision;
    CallRequest request = request_of("KV/Range", encode(range));
    request.timeout = kFillTimeout;
    net::Task<Reply> asking = ask(member, std::move(request));
    const Reply reply = co_await asking;
    RangeResponse page;
    if (is_marked && listing.present.empty() && reply.status && is_compacted(*reply.status)) {
      listing.revision = 0;  // it is gone since: at the newest one
      continue;
    }
    if (!reply.ok()) {
      co_return fail(fault_of(reply));
    }
    if (!decode(reply.message, page) || page.header.revision == 0) {
      co_return fail(Errc::kUnavailable, "a list was not understood");
    }
    listing.revision = listing.revision != 0 ? listing.revision : page.header.revision;
    if (listing.revision + offset_ < floor) {
      end_history("it is older than what it has told");
      co_return fail(Errc::kUnavailable, kEndedHistory);
    }
    for (const KeyValue& kv : page.kvs) {
      if (kv.mod_revision > listing.newest.revision) {
        listing.newest = {std::string(kv.key), kv.mod_revision};
      }
      const auto key = keys_.store_key(kv.key);
      if (!key) {
        continue;
      }
      listing.present.push_back(hash_of(*key));
      const auto known = mirror_->get(*key);
      if (!known || known->modified != kv.mod_revision + offset_) {
        listing.changed.push_back({std::string(kv.key), kv.create_revision, kv.mod_revision});
      }
    }
    more = page.more && !page.kvs.empty();
    if (more) {
      range.key = std::string(page.kvs.back().key) + '\0';
    }
  }
  std::sort(listing.present.begin(), listing.present.end());
  std::sort(listing.changed.begin(), listing.changed.end(),
            [](const Listed& a, const Listed& b) { return a.modified < b.modified; });
  co_return listing;
}

/// Rows of the mirror that etcd does not have, or has made anew since.
Expected<std::vector<std::string>> Core::rows_that_are_gone(const Listing& listing) const {
  std::vector<std::string> gone;
  auto read = mirror_->range({}, [&](const EntryView& entry) {
    if (!std::binary_search(listing.present.begin(), listing.present.end(), hash_of(entry.key))) {
      gone.emplace_back(entry.key);
    }
    return true;
  });
  if (!read) {
    return fail(std::move(read).error());
  }
  for (const Listed& one : listing.changed) {
    const auto key = keys_.store_key(one.key);
    const auto known = mirror_->get(*key);
    if (known && known->created != one.created + offset_) {
      gone.push_back(*key);
    }
  }
  return gone;
}

/// Where nothing is different the mirror is as of what is newest (GR-110).
net::Task<> Core::look_for_difference(std::size_t member) {
  net::Task<Expected<Listing>> listing_task = list(member);
  const Expected<Listing> listing = co_await listing_task;
  const bool is_whole = !resync_ && !shared_.is_comparing && shared_.mirror_published >= fed_;
  if (!listing || !is_whole) {
    co_return;
  }
  const auto gone = rows_that_are_gone(*listing);
  const bool is_equal =
      gone && gone->empty() &&
      std::all_of(listing->changed.begin(), listing->changed.end(), [this](const Listed& one) {
        return shared_.is_corrupt(*keys_.store_key(one.key));
      });
  if (is_equal) {
    told_ = std::max(told_, listing->revision + offset_);
    on_mirror_published();
  }
}

net::Task<Expected<void>> Core::copy(std::size_t member, Listing listing) {
  auto gone = rows_that_are_gone(listing);
  if (!gone) {
    co_return fail(std::move(gone).error());
  }
  std::vector<Op> ops;
  const Revision first = fed() + 1;  // somebody has written since, or nothing is different
  for (std::string& key : *gone) {
    shared_.set_corrupt(key, false);
    Op op;
    op.type = EventType::kDelete;
    op.created = kUndated;
    const auto present = mirror_->get(key);
    op.value = present ? std::string(present->value.view()) : std::string();
    op.key = std::move(key);
    ops.push_back(std::move(op));
  }
  Revision revision = ops.empty() ? 0 : first;
  std::size_t at_once = kMostAtOnce;
  std::size_t next = 0;
  while (next < listing.changed.size()) {
    const std::size_t end = std::min(next + at_once, listing.changed.size());
    TxnRequest read;
    for (std::size_t i = next; i < end; ++i) {
      read.success.push_back({TxnOp::Kind::kRead, listing.changed[i].key, {}, listing.revision});
    }
    CallRequest request = request_of("KV/Txn", encode(read));
    request.timeout = kFillTimeout;
    net::Task<Reply> asking = ask(member, std::move(request));
    const Reply reply = co_await asking;
    if (!reply.status && reply.transport == Errc::kRequestEntityTooLarge && at_once > 1) {
      at_once = std::max<std::size_t>(at_once / 4, 1);
      continue;
    }
    TxnResponse response;
    if (!reply.ok()) {
      co_return fail(fault_of(reply));
    }
    if (!decode(reply.message, response) || response.ranges.size() != end - next) {
      co_return fail(Errc::kUnavailable, "a read was not understood");
    }
    for (std::size_t i = next; i < end; ++i) {
      const Listed& listed = listing.changed[i];
      const RangeResponse& found = response.ranges[i - next];
      if (found.kvs.size() != 1 || found.kvs[0].mod_revision != listed.modified) {
        co_return fail(Errc::kUnavailable, "a row is not what it was at its revision");
      }
      std::string key = *keys_.store_key(listed.key);
      const auto opened = open_value(listed.key, found.kvs[0].value);
      shared_.set_corrupt(key, !opened);
      if (!opened) {
        log_error("a record in etcd is damaged", {{"key", listed.key}});
        continue;
      }
      const Revision modified = listed.modified + offset_;
      if (modified != revision && !ops.empty()) {
        feed(revision, std::move(ops));
        ops.clear();
      }
      revision = modified;
      Op op;
      op.key = std::move(key);
      op.value = opened->value;
      op.created = listed.created + offset_;
      ops.push_back(std::move(op));
    }
    next = end;
    if (shared_.mirror_transactions > kFedAtOnce) {
      net::Task<Expected<void>> waiting = wait_for_mirror();
      Expected<void> whole = co_await waiting;
      if (!whole) {
        co_return whole;
      }
    }
  }
  if (!ops.empty()) {
    feed(revision, std::move(ops));
  }
  co_return Expected<void>();
}

}  // namespace kintsugi::store::etcd
