#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "krm/json.h"
#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/core.h"
#include "store/etcd/internal/marks.h"

// How far back etcd's history goes, and what happens when it is not the one that this process
// knows.
namespace kintsugi::store::etcd {
namespace {

constexpr const char* kCompact = "compact";
constexpr Revision kForward = 1'000'000'000;
/// Native revisions stay below (AGG-517).
constexpr Revision kMostRevision = Revision{1} << 44U;
constexpr Duration kRenewPause = milliseconds(200);

}  // namespace

// One of the processes compacts: the holder of a duty (GR-118).
void Core::watch_compaction() {
  if (!params_.compacts) {
    return;
  }
  compactor_ = compete(kCompact, [this](const std::optional<Fence>& held) {
    if (held && !compacts_) {
      samples_.clear();
      compacted_to_ = 0;
    }
    // Without space nobody can renew: the last one goes on, which makes room.
    compacts_ = held.has_value() || (compacts_ && shared_.is_full);
    if (held) {
      compact_etcd();
    }
  });
}

/// By this process's own clock, and what it has seen itself.
void Core::compact_etcd() {
  if (!compacts_) {
    return;
  }
  compact_timer_.start(params_.compaction_interval, [this] { compact_etcd(); });
  if (shared_.position <= offset_) {
    return;  // the mirror is not there yet
  }
  const std::uint64_t newest = shared_.position - offset_;
  if (samples_.empty() || samples_.back().revision < newest) {
    samples_.push_back({now(), newest});
  }
  std::uint64_t bound = 0;
  for (const Sample& sample : samples_) {
    if (now() - sample.at >= params_.history_age &&
        sample.revision + params_.history_events <= newest) {
      bound = sample.revision;
    }
  }
  if (bound != 0) {  // older ones will not be asked for any more
    const auto is_older = [bound](const Sample& sample) { return sample.revision < bound; };
    samples_.erase(samples_.begin(), std::find_if_not(samples_.begin(), samples_.end(), is_older));
  }
  if (samples_.size() > kMostMarks) {
    samples_.erase(samples_.begin());
  }
  write_marks();
  if (bound == 0 || bound <= compacted_to_) {
    return;
  }
  if (shared_.is_full) {  // that all can write again comes first
    compact_to(bound);
    return;
  }
  // Not past what somebody reads (GR-406).
  RangeRequest pins;
  pins.key = keys_.pin({});
  pins.range_end = prefix_end(pins.key);
  pins.keys_only = true;
  const std::size_t member = choice_.pick(now());
  pins_call_ = client_.call(member, request_of("KV/Range", encode(pins)),
                            [this, member, bound](const Reply& reply) {
                              note(member, reply);
                              RangeResponse held;
                              if (!reply.ok() || !decode(reply.message, held)) {
                                return;  // the next round asks again
                              }
                              std::uint64_t lowest = bound;
                              for (const KeyValue& pin : held.kvs) {
                                lowest = std::min(lowest, pin.mod_revision);
                              }
                              compact_to(lowest);
                            });
}

void Core::compact_to(std::uint64_t bound) {
  if (bound <= compacted_to_ || !compacts_) {
    return;
  }
  compacted_to_ = bound;
  CallRequest request = request_of("KV/Compact", encode_compaction(bound));
  const std::size_t member = choice_.pick(now());
  compact_call_ = client_.call(member, std::move(request),
                               [this, member](const Reply& reply) { note(member, reply); });
}

/// For those that start: from which revisions on they can follow (GR-117).
void Core::write_marks() {
  const auto lease = leases_.find(compactor_);
  if (lease == leases_.end() || !lease->second->book.is_held()) {
    return;
  }
  Marks marks;
  marks.every = params_.compaction_interval;
  for (const Sample& sample : samples_) {
    marks.revisions.push_back(sample.revision);
  }
  TxnRequest request;
  request.compares = {{keys_.epoch(kCompact), lease->second->book.fence()}};
  request.success = {{TxnOp::Kind::kPut, keys_.marks(), encode(marks), 0}};
  const std::size_t member = choice_.pick(now());
  marks_call_ = client_.call(member, request_of("KV/Txn", encode(request)),
                             [this, member](const Reply& reply) { note(member, reply); });
}

/// Where a mirror that has nothing may begin; 0: at the newest revision.
net::Task<std::uint64_t> Core::marked_begin(std::size_t member) {
  RangeRequest range;
  range.key = keys_.marks();
  CallRequest request = request_of("KV/Range", encode(range));
  net::Task<Reply> asking = ask(member, std::move(request));
  const Reply reply = co_await asking;
  RangeResponse response;
  if (!reply.ok() || !decode(reply.message, response) || response.kvs.empty()) {
    co_return 0;
  }
  const Marks marks = parse_marks(response.kvs.front().value);
  co_return std::min(begin_of(marks, params_.history_age), response.header.revision);
}

/// A revision at etcd below one that it has told before: it was restored (GR-125).
void Core::note_revision(const Header& header, Revision floor) {
  if (header.revision != 0 && header.revision + offset_ < floor) {
    end_history("it is older than what it has told");
  }
}

void Core::on_meta_event(const JoinedEvent& event, std::uint64_t revision) {
  if (revision < meta_revision_) {
    return;  // a watch that is resumed comes to it after a look at the newest one
  }
  const auto meta = event.is_delete ? Expected<Meta>(fail(Errc::kNotFound))
                                    : parse_meta(event.value, params_.prefix);
  if (!meta || !take_again({*meta, revision})) {
    end_history("its record was written anew");
  }
}

void Core::finish_upgrade() {
  if (ended_ || upgrade_call_ != nullptr || meta_.state != Meta::State::kWhole ||
      !is_for_earlier(meta_, params_.program)) {
    return;
  }
  Meta next = meta_;
  next.lowest = params_.program;
  TxnRequest request;
  request.compares = {{keys_.meta(), meta_revision_}};
  request.success = {{TxnOp::Kind::kPut, keys_.meta(), encode(next), 0}};
  const std::size_t member = choice_.pick(now());
  upgrade_call_ = client_.call(
      member, request_of("KV/Txn", encode(request)),
      [this, member, before = meta_.lowest](const Reply& reply) {
        note(member, reply);
        TxnResponse response;
        const bool done = reply.ok() && decode(reply.message, response) && response.succeeded;
        log_info(done ? "the upgrade is finished: earlier releases do not open the store any more"
                      : "the upgrade could not be finished",
                 {{"prefix", params_.prefix}, {"was_for", before}, {"is_for", params_.program}});
        loop_.defer([call = std::shared_ptr<net::Call>(std::move(upgrade_call_))] { (void)call; });
      });
}

/// A record that was written later and says the same of the history (GR-211). False: another one.
bool Core::take_again(const Introduction::Known& known) {
  const Meta& meta = known.meta;
  if (meta.epoch != meta_.epoch || meta.offset != offset_ || meta.uid != meta_.uid ||
      meta.state != meta_.state || known.revision < meta_revision_) {
    return false;
  }
  take_meta(known);
  if (const auto allowed = check_program(meta_, params_.prefix, params_.program); !allowed) {
    end_history(allowed.error().message(), false);
  }
  return true;
}

/// From here on nothing is read, written or told: what comes next has revisions of its own, which
/// begin with a mirror that is made anew.
void Core::end_history(std::string_view why, bool goes_on) {
  if (std::exchange(ended_, true)) {
    return;
  }
  log_error(goes_on ? "the history in etcd is not the one that was known: the store ends"
                    : "the store in etcd is not for this program any more: it ends",
            {{"prefix", params_.prefix}, {"why", std::string(why)}});
  shared_.is_ended = true;
  loop_.post(alive_.guard([this, goes_on] {
    job_.end();
    watch_.reset();
    seat_job_.end();
    look_job_.end();
    guard_timer_.cancel();
    compact_timer_.cancel();
    for (const auto& [number, lease] : leases_) {
      if (std::exchange(lease->is_told, false)) {
        lease->told(std::nullopt);
      }
    }
    leases_.clear();
    writes_book_ = WriteBook();
    while (!writes_.empty()) {
      answer(writes_.begin()->first,
             fail(Errc::kTimeout, std::string(kEndedHistory) + "; it may have happened"));
    }
    if (goes_on) {
      renew_job_ = net::Job(renew());
    } else {
      tell_ended();
    }
  }));
}

/// Until it is known under which revisions the store goes on.
net::Task<> Core::renew() {
  while (true) {
    net::Task<Expected<void>> moving = move_forward(fed());
    const Expected<void> moved = co_await moving;
    if (moved || moved.error().code() != Errc::kUnavailable) {
      break;
    }
    net::Sleep pause(loop_, kRenewPause);
    co_await pause;
  }
  tell_ended();
}

void Core::tell_ended() {
  if (ready_ != nullptr) {
    std::exchange(ready_, nullptr)(fail(Errc::kUnavailable, kEndedHistory));
  }
  if (params_.on_ended) {
    params_.on_ended();
  }
}

/// Revisions go on above `seen`, whoever does that first (GR-125).
net::Task<Expected<void>> Core::move_forward(Revision seen) {
  net::Task<Expected<Introduction::Read>> reading = introduction_.read_meta();
  const Expected<Introduction::Read> read = co_await reading;
  if (!read) {
    co_return fail(read.error().clone());
  }
  if (read->known && (read->known->meta.epoch > meta_.epoch || read->known->meta.uid != meta_.uid ||
                      read->known->meta.state != Meta::State::kWhole)) {
    take_meta(*read->known);
    co_return Expected<void>();
  }
  Meta next = read->known ? read->known->meta : meta_;
  const Revision newest = read->head + next.offset;
  next.epoch = std::max(next.epoch, meta_.epoch) + 1;
  next.offset += kForward + (seen > newest ? seen - newest : 0);
  if (read->head + next.offset >= kMostRevision) {
    co_return fail(Errc::kConfig, "revisions under " + params_.prefix + " have become too large");
  }
  TxnRequest request;
  request.compares = {{keys_.meta(), read->known ? read->known->revision : 0}};
  // Nobody writes on whose seat was taken before.
  request.success = {{TxnOp::Kind::kPut, keys_.meta(), encode(next), 0},
                     {TxnOp::Kind::kDelete, keys_.seat({}), {}, 0, prefix_end(keys_.seat({}))}};
  CallRequest call = request_of("KV/Txn", encode(request));
  const std::size_t member = choice_.pick(now());
  net::Task<Reply> asking = ask(member, std::move(call));
  const Reply reply = co_await asking;
  TxnResponse response;
  if (!reply.ok() || !decode(reply.message, response) || !response.succeeded) {
    co_return fail(Errc::kUnavailable, client_.name(member) + ": " + reply.text());
  }
  take_meta({next, response.header.revision});
  log_warn("revisions of the store go on later",
           {{"prefix", params_.prefix}, {"epoch", next.epoch}, {"offset", next.offset}});
  co_return Expected<void>();
}

}  // namespace kintsugi::store::etcd
