#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/core.h"
#include "store/raise.h"

// The one watch, and the mirror that it feeds.
namespace kintsugi::store::etcd {
namespace {

constexpr std::size_t kMostRevision = std::size_t{16} << 20U;
constexpr std::size_t kHeldBytes = std::size_t{16} << 20U;
constexpr std::size_t kHeldTransactions = 20'000;
constexpr Duration kFirstPause = milliseconds(20);
constexpr Duration kLastPause = seconds(1);
constexpr Duration kGuardEvery = milliseconds(500);
constexpr Duration kSilence = seconds(1);
constexpr Duration kGuardLimit = seconds(2);

}  // namespace

net::Task<> Core::follow() {
  Duration pause = kFirstPause;
  while (true) {
    const std::size_t member = choice_.pick(now());
    watch_member_ = member;
    std::string fault;
    net::Task<Expected<void>> emptying = wait_for_mirror();
    (void)co_await emptying;
    const Expected<void> is_fit = take_up_mirror();
    net::Task<Expected<History>> looking = look_at_history(member);
    const Expected<History> history = co_await looking;
    if (history && history->kind == History::Kind::kAnother) {
      end_history(history->why);
    }
    if (ended_) {
      co_return;
    }
    if (!is_fit) {
      fault = is_fit.error().to_string();
    } else if (!history) {
      fault = history.error().to_string();
    } else if (resync_ || history->kind == History::Kind::kGone) {
      net::Task<Expected<void>> filling = fill(member);
      const Expected<void> filled = co_await filling;
      fault = filled ? std::string() : filled.error().to_string();
      resync_ = !filled;
    }
    if (ended_) {
      co_return;
    }
    if (fault.empty()) {
      net::Answer<Reply> ended;
      watch_ended_ = ended.callback();
      created_ = false;
      heard_at_ = now();
      const std::uint64_t position = fed() - offset_;
      joiner_.emplace(position, kMostRevision);
      WatchCreate create;
      create.key = keys_.prefix();
      create.range_end = prefix_end(keys_.prefix());
      create.start_revision = position + 1;
      ++shared_.watches;
      watch_ = client_.watch(
          member, encode(create), [this](std::string_view message) { on_watch_message(message); },
          watch_ended_);
      const Reply reply = co_await ended;
      watch_.reset();
      watch_ended_ = nullptr;
      created_call_.reset();
      if (created_) {
        pause = kFirstPause;
      }
      fault = reply.text();
      if (reply.status && classify(*reply.status).renew_token) {
        renew_token();
      }
      choice_.on_failed(member, now());
    }
    log_warn("watch of etcd ended", {{"member", client_.name(member)}, {"error", fault}});
    net::Sleep resting(loop_, pause);
    co_await resting;
    pause = std::min(pause * 2, kLastPause);
  }
}

/// The newest thing that was heard of is still what it was then, as of the newest revision.
net::Task<Expected<Core::History>> Core::look_at_history(std::size_t member) {
  const History there{History::Kind::kThere};
  const History gone{History::Kind::kGone};
  const auto another = [](std::string_view why) { return History{History::Kind::kAnother, why}; };
  if (fed() <= offset_) {
    co_return gone;
  }
  RangeRequest range;
  range.key = landmark_.key.empty() ? keys_.absent() : landmark_.key;
  range.keys_only = true;
  range.revision = std::max(fed() - offset_, landmark_.revision);
  CallRequest request = request_of("KV/Range", encode(range));
  net::Task<Reply> asking = ask(member, std::move(request));
  const Reply reply = co_await asking;
  if (reply.status && is_compacted(*reply.status)) {
    co_return gone;
  }
  if (reply.status && is_future(*reply.status)) {
    co_return another("it is older than what it has told");
  }
  RangeResponse response;
  if (!reply.ok() || !decode(reply.message, response)) {
    co_return fail(Errc::kUnavailable, reply.text());
  }
  const std::uint64_t found = response.kvs.empty() ? 0 : response.kvs.front().mod_revision;
  if (!landmark_.key.empty() && found != landmark_.revision) {
    co_return another("the newest thing that it has told is not there");
  }
  const std::uint64_t met = meta_revision_;
  net::Task<Expected<Introduction::Read>> reading = introduction_.read_meta();
  const Expected<Introduction::Read> read = co_await reading;
  if (!read) {
    co_return fail(read.error().clone());
  }
  // Who took a seat meanwhile may have been told of a later one, which was looked at then.
  const bool is_overtaken =
      read->known && read->known->revision >= met && read->known->revision < meta_revision_;
  const bool same = is_overtaken || (read->known && take_again(*read->known));
  co_return same ? there : another("its record was written anew");
}

void Core::on_watch_message(std::string_view message) {
  WatchResponse response;
  if (!decode(message, response)) {
    end_watch("what it says is no answer to a watch");
    return;
  }
  heard_at_ = now();
  Joined joined = joiner_->on_response(response);
  switch (joined.kind) {
    case Joined::Kind::kNothing:
      break;
    case Joined::Kind::kCreated:
      created_ = true;
      choice_.on_answered(watch_member_);
      look_after_created();
      break;
    case Joined::Kind::kGroups:
      apply(std::move(joined.groups));
      break;
    case Joined::Kind::kProgress:
      if (introduction_.tells_progress()) {
        told_ = std::max(told_, joined.revision + offset_);
        on_mirror_published();
      }
      break;
    case Joined::Kind::kCompacted:
      resync_ = true;
      end_watch("its history is compacted");
      break;
    case Joined::Kind::kCanceled:
    case Joined::Kind::kBroken:
      end_watch(joined.reason.empty() ? "canceled" : joined.reason);
      break;
  }
}

/// In a later turn: this may be called by the watch itself.
void Core::end_watch(std::string reason) {
  loop_.post(alive_.guard([this, reason = std::move(reason)] {
    if (watch_ended_ != nullptr) {
      Reply reply;
      reply.status = GrpcStatus{GrpcCode::kOk, reason};
      const auto ended = watch_ended_;
      ended(std::move(reply));
    }
  }));
}

/// History may have been compacted between the look at it and the watch: at the compacted revision
/// 3.4 would begin without telling, and leave a delete out (GR-115).
void Core::look_after_created() {
  if (fed() > offset_) {
    created_call_ =
        client_.call(watch_member_, head_request(fed() - offset_), [this](const Reply& reply) {
          if (reply.status && is_compacted(*reply.status) &&
              joiner_->position() <= fed() - offset_) {
            resync_ = true;
            end_watch("its history was compacted meanwhile");
          }
        });
  }
  if (ready_ != nullptr) {
    synchronize([this](const Expected<Revision>& done) {
      if (done && ready_ != nullptr) {
        std::exchange(ready_, nullptr)(Expected<void>());
      } else if (ready_ != nullptr) {
        std::exchange(ready_,
                      nullptr)(fail(Errc::kUnavailable, std::string(done.error().message())));
      }
    });
  }
}

/// While the watch is silent, asks what the newest revision is, and whether the watch has it.
void Core::watch_guard() {
  guard_timer_.start(kGuardEvery, [this] { watch_guard(); });
  if (watch_ == nullptr || guard_number_ != 0 || now() - heard_at_ < kSilence) {
    return;
  }
  guard_number_ = ++next_number_;
  SyncActions actions;
  sync_.add(guard_number_, std::nullopt, now(), now() + kGuardLimit, actions);
  perform(std::move(actions));
  arm();
}

void Core::apply(std::vector<RevisionGroup> groups) {
  for (RevisionGroup& group : groups) {
    apply_group(group);
  }
  if (shared_.mirror_bytes > kHeldBytes || shared_.mirror_transactions > kHeldTransactions) {
    if (watch_ != nullptr) {
      watch_->hold(true);
    }
  }
  on_mirror_published();
}

void Core::apply_group(RevisionGroup& group) {
  const Revision revision = group.revision + offset_;
  const auto see = [this, revision](std::string_view id) {
    if (const auto found = by_id_.find(id); found != by_id_.end()) {
      writes_book_.on_seen(found->second, revision);
    }
  };
  std::optional<Deletions> deletions;
  std::vector<Op> ops;
  for (JoinedEvent& event : group.events) {
    if (!event.is_delete) {
      landmark_ = {event.key, group.revision};
    } else if (landmark_.key == event.key) {
      landmark_ = {};
    }
    const KeyKind kind = keys_.kind(event.key);
    if (kind == KeyKind::kDeletions && !event.is_delete) {
      if (const auto opened = open_value(event.key, event.value)) {
        see(opened->id);
        deletions = decode_deletions(opened->value);
      }
      continue;
    }
    std::optional<std::string> key = keys_.store_key(event.key);
    if (!key) {
      on_lease_event(event, group.revision);
      if (event.key == keys_.meta()) {
        on_meta_event(event, group.revision);
      }
      shared_.foreign_keys += event.key.starts_with(keys_.prefix() + "o/") ? 1U : 0U;
      continue;
    }
    Op op;
    op.key = std::move(*key);
    op.created = event.create_revision == 0 ? 0 : event.create_revision + offset_;
    if (event.is_delete) {
      op.type = EventType::kDelete;
      op.created = 0;
      const auto last = deletions
                            ? std::find_if(deletions->begin(), deletions->end(),
                                           [&op](const auto& one) { return one.first == op.key; })
                            : Deletions::iterator();
      if (deletions && last != deletions->end()) {
        op.value = last->second;
      } else if (const auto present = mirror_->get(op.key)) {
        op.value = present->value.view();
      }
    } else {
      const auto opened = open_value(event.key, event.value);
      if (!opened) {
        log_error("a record in etcd is damaged", {{"key", event.key}});
        shared_.set_corrupt(op.key, true);
        continue;
      }
      see(opened->id);
      op.value = opened->value;
    }
    shared_.set_corrupt(op.key, false);
    ops.push_back(std::move(op));
  }
  if (ops.empty()) {
    told_ = std::max(told_, revision);
  } else {
    feed(revision, std::move(ops));
  }
}

/// Gives the mirror one transaction of this revision. It answers on its own thread.
void Core::feed(Revision revision, std::vector<Op> ops) {
  std::size_t bytes = sizeof(Op);
  for (const Op& op : ops) {
    bytes += sizeof(Op) + op.key.size() + op.value.size();
  }
  ops.push_back(raise_from(fed_, revision - 1));
  fed_ = revision;
  shared_.mirror_bytes += bytes;
  ++shared_.mirror_transactions;
  mirror_->commit(std::move(ops), [this, bytes, revision,
                                   guard = alive_.weak()](const Expected<CommitResult>& result) {
    shared_.mirror_bytes -= bytes;
    --shared_.mirror_transactions;
    if (result && !result->conflict) {
      shared_.mirror_published = revision;
    } else {
      shared_.mirror_torn = true;
    }
    if (!shared_.mirror_posted.exchange(true)) {
      loop_.post([this, guard] {
        if (guard) {
          shared_.mirror_posted = false;
          on_mirror_published();
        }
      });
    }
  });
}

void Core::on_mirror_published() {
  if (shared_.mirror_torn) {
    if (!std::exchange(resync_, true)) {
      log_error("the mirror of etcd has lost something: it is compared anew");
      end_watch("the mirror has lost something");
    }
  } else if (!shared_.is_comparing) {
    if (watch_ != nullptr && shared_.mirror_bytes < kHeldBytes / 2 &&
        shared_.mirror_transactions < kHeldTransactions / 2) {
      watch_->hold(false);
    }
    const Revision published = shared_.mirror_published;
    raise_position(published >= fed_ ? std::max(published, told_) : published);
  }
  if (shared_.mirror_transactions == 0 && drained_ != nullptr) {
    std::exchange(drained_, nullptr)(true);
  }
}

/// @error it has refused something of what it was given
net::Task<Expected<void>> Core::wait_for_mirror() {
  if (shared_.mirror_transactions > 0) {
    net::Answer<bool> answer;
    drained_ = answer.callback();
    (void)co_await answer;
  }
  co_return shared_.mirror_torn ? fail(Errc::kIo, "the mirror cannot be written")
                                : Expected<void>();
}

/// Where it has refused something, it has nothing of what came later: it is compared from where it
/// is. @error it cannot be written yet
Expected<void> Core::take_up_mirror() {
  if (!shared_.mirror_torn) {
    return {};
  }
  if (auto healthy = mirror_->health(); !healthy) {
    return fail(std::move(healthy.error()).at("mirror of etcd"));
  }
  shared_.mirror_torn = false;
  resync_ = true;
  fed_ = mirror_->current();
  told_ = std::min(told_, fed_);
  shared_.mirror_published = fed_;
  on_mirror_published();
  return {};
}

}  // namespace kintsugi::store::etcd
